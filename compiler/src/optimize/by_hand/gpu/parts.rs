//! Parts of loops as indices of threads and blocks: the innermost part of a loop, of a length that divides it or under a mask, and what is left outside as the grid.
//!
//! Tested with the choices that use them.

use crate::ir::{AxisKind, Op, ThreadDim, UOp};
use crate::kernel::ranges::{all_ranges, next_range_id, range_id};
use crate::optimize::by_hand::Attempts;
use crate::optimize::opt::{Opt, ThreadIndex};

/// The innermost part of a loop as an index: of all of it, where it is no longer than that.
pub(crate) fn map_part(choice: &mut Attempts<'_>, range: u32, len: i64, index: ThreadIndex) -> bool {
    part_of(choice, range, len).is_some_and(|part| choice.attempt(Opt::Map { range: part, index }))
}

/// As [`map_part`], of a length that the part does not divide.
pub(crate) fn map_masked_part(choice: &mut Attempts<'_>, range: u32, len: i64, index: ThreadIndex) -> bool {
    let part = next_range_id(&choice.kernel);
    choice.attempt(Opt::SplitMasked { range, len: len as u32 }) && choice.attempt(Opt::Map { range: part, index })
}

/// The number of a loop over the innermost part of another.
pub(crate) fn part_of(choice: &mut Attempts<'_>, range: u32, len: i64) -> Option<u32> {
    if length_of(&choice.kernel, range) == Some(len) {
        return Some(range);
    }
    let part = next_range_id(&choice.kernel);
    choice.attempt(Opt::Split { range, len: u32::try_from(len).ok()? }).then_some(part)
}

fn length_of(kernel: &UOp, id: u32) -> Option<i64> {
    let range = all_ranges(kernel).into_iter().find(|range| range_id(range) == id)?;
    range.src()[0].as_int()
}

/// Whether a kernel has that loop.
pub(crate) fn exists(kernel: &UOp, id: u32) -> bool {
    all_ranges(kernel).iter().any(|range| range_id(range) == id)
}

/// The loops that are left of the outer ones as the grid, the innermost first; those for which no index is left stay loops.
pub(crate) fn map_grid(choice: &mut Attempts<'_>, around: &[u32]) -> bool {
    let is_loop = |kernel: &UOp, id: u32| {
        let found = all_ranges(kernel).into_iter().find(|range| range_id(range) == id);
        found.is_some_and(|range| {
            range.op() == Op::Range && range.as_range().is_some_and(|arg| arg.kind == AxisKind::Loop)
        })
    };
    let mut dims = ThreadDim::ALL.into_iter();
    for &id in around.iter().rev() {
        if is_loop(&choice.kernel, id)
            && let Some(dim) = dims.next()
        {
            choice.attempt(Opt::Map { range: id, index: ThreadIndex::Grid(dim) });
        }
    }
    true
}
