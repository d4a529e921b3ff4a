//! The choice by hand of what turns memory around, as a transposed copy does, for machines with blocks of threads: neighbouring threads would load from as many sectors, or store to them.
//!
//! ```text
//! grid over tiles of 32 rows and 32 columns
//!   threads load the tile along that side on which it is consecutive, and put it into shared memory
//!   all threads meet
//!   threads store the tile along the other side
//! ```
//!
//! Rows of the copy are followed by an element that nothing uses: so what neighbours read of it lies in different banks.
//!
//! Only where a side or an offset in memory is no multiple of a vector: else threads turn squares of vectors around in registers, without shared memory.
//!
//! Always: what lies beyond the end of a side is masked. Tested in the test crate, on the interpreter of linear lists and on the emulator of GPUs.

use super::blocks::{Mark, loops_over_outputs};
use super::parts::map_grid;
use super::shared_tiles::{loop_of, split};
use crate::ir::{Op, ThreadDim, UOp};
use crate::kernel::ranges::{all_ranges, next_range_id, range_id};
use crate::lower::loops::is_serial;
use crate::optimize::by_hand::Attempts;
use crate::optimize::by_hand::survey::Survey;
use crate::optimize::opt::{Opt, ThreadIndex};
use crate::optimize::transforms::stage::loads_of;
use crate::symbolic::linear_terms;

/// Rows and columns of a tile.
const SIDE: i64 = 32;
/// Threads along the side that is not consecutive: each has several elements, which it asks for at once.
const THREADS_ACROSS: i64 = 8;
/// Of a shorter side most of a tile would be empty.
const SIDE_MIN: i64 = 24;
/// Bytes of a bank's word, and elements of a vector of four bytes each.
const WORD: usize = 4;

/// Turns tiles around in shared memory; whether it did.
pub(crate) fn turn_tiles(choice: &mut Attempts<'_>) -> bool {
    let survey = Survey::of(&choice.kernel);
    if !survey.inner.is_empty() || all_ranges(&choice.kernel).iter().any(is_serial) {
        return false;
    }
    let Some(sides) = sides_of(&choice.kernel, &survey) else { return false };
    let mark = Mark::of(choice);
    let around: Vec<u32> = loops_over_outputs(&choice.kernel).iter().map(range_id).collect();
    let is_turned = turn(choice, sides).is_some() && map_grid(choice, &around);
    if !is_turned {
        mark.restore(choice);
    }
    is_turned
}

/// The loop along which all stores are consecutive, and one along which some load is that the other one steps through.
fn sides_of(kernel: &UOp, survey: &Survey) -> Option<[u32; 2]> {
    let outputs: Vec<u32> = loops_over_outputs(kernel).iter().map(range_id).collect();
    let is_long = |id: &u32| {
        let len = survey.ranges.get(id).and_then(|range| range.src()[0].as_int());
        len.is_some_and(|len| len >= SIDE_MIN)
    };
    let mut stores = survey.accesses.iter().filter(|access| access.is_store);
    let columns = *outputs.iter().rev().find(|id| is_long(id))?;
    let is_consecutive = stores.all(|access| access.steps.get(&columns) == Some(&1));
    let lanes = |bytes: usize| i64::from(16 / bytes.clamp(1, 16) as u32);
    let rows = *outputs.iter().find(|id| **id != columns && is_long(id) && is_turned_along(survey, **id, columns))?;
    // Squares of vectors can be turned around in registers.
    let is_whole = |id: u32| survey.ranges.get(&id).and_then(|range| range.src()[0].as_int());
    let vectors = survey.accesses.iter().map(|access| lanes(access.bytes)).max()?;
    let fits_vectors = [rows, columns].into_iter().all(|id| is_whole(id).is_some_and(|len| len % vectors == 0));
    (is_consecutive && !fits_vectors).then_some([rows, columns])
}

fn is_turned_along(survey: &Survey, rows: u32, columns: u32) -> bool {
    survey.accesses.iter().filter(|access| !access.is_store).any(|access| {
        let step = access.steps.get(&columns).copied().unwrap_or(0);
        access.steps.get(&rows) == Some(&1) && step.abs() > 1
    })
}

fn turn(choice: &mut Attempts<'_>, sides: [u32; 2]) -> Option<()> {
    let block = |range: u32, dim: ThreadDim| Opt::Map { range, index: ThreadIndex::Block(dim) };
    let rows = split(choice, sides[0], SIDE)?;
    let columns = split(choice, sides[1], SIDE)?;
    while let Some((load, bytes)) = next_turned(&choice.kernel, [rows, columns]) {
        let fills = next_range_id(&choice.kernel);
        let pad = (WORD / bytes).max(1) as u32;
        choice.attempt(Opt::StagePadded { load, pad, ranges: vec![columns, rows] }).then_some(())?;
        choice.attempt(block(fills + 1, ThreadDim::X)).then_some(())?;
        share_across(choice, fills)?;
    }
    choice.attempt(block(columns, ThreadDim::X)).then_some(())?;
    share_across(choice, rows)
}

/// Rows that threads along the block's second index share: of each several, written out.
fn share_across(choice: &mut Attempts<'_>, range: u32) -> Option<()> {
    let part = split(choice, range, THREADS_ACROSS)?;
    let index = ThreadIndex::Block(ThreadDim::Y);
    choice.attempt(Opt::Map { range: part, index }).then_some(())?;
    if let Some(times) = loop_of(&choice.kernel, range).and_then(|range| range.src()[0].as_int()) {
        choice.attempt(Opt::Upcast { range, times: times as u32 });
    }
    Some(())
}

/// A load from a tensor that is consecutive along rows and not along columns, and the bytes of its elements.
fn next_turned(kernel: &UOp, [rows, columns]: [u32; 2]) -> Option<(u32, usize)> {
    loads_of(kernel).iter().enumerate().find_map(|(number, load)| {
        let index = &load.src()[0];
        let steps = linear_terms(&index.src()[1]).0;
        let step_of = |id: u32| {
            let is_it = |(term, _): &&(UOp, i64)| term.op() == Op::Range && range_id(term) == id;
            steps.iter().find(is_it).map_or(0, |(_, step)| *step)
        };
        let is_turned = index.src()[0].op() == Op::Param && step_of(rows) == 1 && step_of(columns).abs() > 1;
        is_turned.then(|| (number as u32, load.dtype().element().bytes()))
    })
}
