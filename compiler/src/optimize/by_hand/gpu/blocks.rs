//! The choice by hand of blocks and threads, for machines that have them: each thread computes one element of the outputs, or one vector or tile of them.
//!
//! The innermost loop over outputs becomes the threads of a block, so that neighbours in a block are neighbours in memory; what is left of it and the loops outside of it
//! become the grid. Loops for which no index is left stay loops of a thread.
//!
//! Not where threads would each do again what stands outside of the loop: a row's sum is computed once for the row, by the thread that has all of it.
//!
//! Always: no part overlaps another, for it would be computed by two threads, who both store it. Where a length is no multiple of the part, what lies beyond its end is masked.
//!
//! Tested in the test crate, on the emulator of GPUs.

use super::joined_terms::tile_product;
use super::shared_reductions::share_reductions;
use super::turned_tiles::turn_tiles;
use super::two_products::tile_two_products;
use crate::ir::{AxisKind, Op, ThreadDim, UOp, postorder};
use crate::kernel::indirect::{is_indirect, is_order, reach_of_index};
use crate::kernel::ranges::{all_ranges, closed_ranges, next_range_id, range_id};
use crate::optimize::by_hand::Attempts;
use crate::optimize::by_hand::survey::{AccessPattern, InnerLoops, Survey};
use crate::optimize::opt::{Opt, ThreadIndex};
use crate::optimize::transforms::map::is_computed_along;
use crate::optimize::transforms::split::is_reduce;
use crate::symbolic::{linear_terms, simplify};
use crate::target::Blocks;

/// Threads of a block that hide each other's waiting, without taking the registers of a whole multiprocessor.
const THREADS: i64 = 256;

/// Where the largest divisor of a length gives fewer than this part of the threads that there could be, the last part of them is masked instead.
const FEW_OF_THEM: i64 = 4;

/// Elements of a thread, where neither vectors nor blocks divide a loop.
const ELEMENTS_AT_ONCE: u32 = 4;

/// Bytes that the second cache moves at least.
const SECTOR: i64 = 32;
/// Threads of neighbouring elements that fill a sector, of four bytes.
const NEIGHBOURS_MIN: i64 = 8;
/// A loop other than the innermost becomes the threads where that is so many times fewer sectors.
const FEWER_SECTORS: f64 = 2.0;

/// A choice as it was, to go back to.
pub(crate) struct Mark {
    kernel: UOp,
    applied: usize,
}

impl Mark {
    /// The choice now.
    pub(crate) fn of(choice: &Attempts<'_>) -> Mark {
        Mark { kernel: choice.kernel.clone(), applied: choice.applied.len() }
    }

    /// Makes the choice what it was. Reasons remain.
    pub(crate) fn restore(self, choice: &mut Attempts<'_>) {
        choice.kernel = self.kernel;
        choice.applied.truncate(self.applied);
    }
}

/// What the threads of a block do together, where a kernel has such work: tiles of a product of matrices, or reductions. Whether it has.
pub(crate) fn work_together(choice: &mut Attempts<'_>, blocks: &Blocks) -> bool {
    choice.kernel.src().iter().all(stores_apart)
        && (tile_two_products(choice) || tile_product(choice) || share_reductions(choice, blocks) || turn_tiles(choice))
}

/// Maps loops over outputs onto blocks of threads.
pub(crate) fn map_onto_blocks(choice: &mut Attempts<'_>, blocks: &Blocks) {
    if let Some(store) = choice.kernel.src().iter().find(|store| !stores_apart(store)) {
        let target = store.src()[0].infix();
        choice.reasons.push(format!("one thread: {target} is not seen to be another element for each"));
        return;
    }
    let mut shared = Repeated::of(&choice.kernel);
    let mut loops = neighbours_last(loops_over_outputs(&choice.kernel), &shared.survey);
    let mut threads_left = threads_of_block(&loops, choice, blocks);
    let mut block_dims = ThreadDim::ALL.into_iter();
    let mut grid_dims = ThreadDim::ALL.into_iter();
    while let Some(range) = loops.pop() {
        let id = range_id(&range);
        if !shared.admits(id) {
            choice.reasons.push(format!("r{id} stays a loop: its threads would each compute what it needs once"));
            continue;
        }
        let part = range.src()[0].as_int().map_or(1, |len| largest_divisor(len, threads_left));
        let most = range.src()[0].max_value().min(threads_left);
        let threads = (most as u32).next_power_of_two();
        if block_dims.len() > 0
            && part * FEW_OF_THEM < most
            && let Some(masked) = masked_part(choice, &range, threads)
            && let Some(dim) = block_dims.next()
        {
            choice.attempt(Opt::Map { range: masked, index: ThreadIndex::Block(dim) });
            threads_left /= i64::from(threads);
        } else if part > 1 && Some(part) == range.src()[0].as_int() {
            if let Some(dim) = block_dims.next()
                && choice.attempt(Opt::Map { range: id, index: ThreadIndex::Block(dim) })
            {
                threads_left /= part;
                continue;
            }
        } else if part > 1 && block_dims.len() > 0 {
            let inner = next_range_id(&choice.kernel);
            if choice.attempt(Opt::Split { range: id, len: part as u32 })
                && let Some(dim) = block_dims.next()
                && choice.attempt(Opt::Map { range: inner, index: ThreadIndex::Block(dim) })
            {
                threads_left /= part;
            }
        }
        if let Some(dim) = grid_dims.next() {
            choice.attempt(Opt::Map { range: id, index: ThreadIndex::Grid(dim) });
        }
    }
}

/// The loops, the last of which becomes the threads of a block: the innermost, or one along which threads load and store in far fewer sectors.
fn neighbours_last(mut loops: Vec<UOp>, survey: &Survey) -> Vec<UOp> {
    let sectors = |range: &UOp| -> f64 {
        let id = range_id(range);
        let of_access = |access: &AccessPattern| match access.steps.get(&id) {
            _ if !access.depends.contains(id) => 0.0,
            Some(step) => (step.abs() * access.bytes as i64).min(SECTOR) as f64,
            None => SECTOR as f64,
        };
        survey.accesses.iter().map(|access| access.weight * of_access(access)).sum()
    };
    let is_long = |at: &usize| loops[*at].src()[0].max_value() >= NEIGHBOURS_MIN;
    let best = (0..loops.len()).filter(is_long).min_by(|a, b| sectors(&loops[*a]).total_cmp(&sectors(&loops[*b])));
    if let (Some(best), Some(last)) = (best, loops.last())
        && sectors(&loops[best]) * FEWER_SECTORS < sectors(last)
    {
        let neighbours = loops.remove(best);
        loops.push(neighbours);
    }
    loops
}

/// A part of a loop for so many threads: of a length that has no such divisor, or a symbolic one, the last part goes beyond the end. Of a long loop a thread has several elements, as far
/// apart as there are threads, all of which it asks for at once: else blocks would begin and end for one of them.
fn masked_part(choice: &mut Attempts<'_>, range: &UOp, threads: u32) -> Option<u32> {
    let id = range_id(range);
    let is_long = |times: i64| {
        range.src()[0].as_int().is_some_and(|len| len >= times * FEW_OF_THEM * i64::from(choice.target.costs.threads))
    };
    let times = if is_long(i64::from(ELEMENTS_AT_ONCE)) { ELEMENTS_AT_ONCE } else { 1 };
    let part = next_range_id(&choice.kernel);
    choice.attempt(Opt::SplitMasked { range: id, len: threads * times }).then_some(())?;
    if times == 1 {
        return Some(part);
    }
    let inner = next_range_id(&choice.kernel);
    choice.attempt(Opt::Split { range: part, len: threads }).then_some(())?;
    choice.attempt(Opt::Upcast { range: part, times });
    Some(inner)
}

/// Threads of a block: fewer where there are not so many for each multiprocessor, but whole warps.
fn threads_of_block(loops: &[UOp], choice: &Attempts<'_>, blocks: &Blocks) -> i64 {
    let all = loops.iter().map(|range| range.src()[0].max_value().max(1)).fold(1, i64::saturating_mul);
    let of_each = all / i64::from(choice.target.costs.cores).max(1);
    let power = (of_each.clamp(1, THREADS) as u32).next_power_of_two();
    i64::from(power).max(blocks.lanes as i64).min(THREADS).min(blocks.threads_max as i64)
}

/// What stands outside of loops is done once there, and by each thread where they are threads: reductions and local buffers.
struct Repeated {
    survey: Survey,
    /// How often each of the survey's inner loops is done.
    times: Vec<f64>,
}

impl Repeated {
    fn of(kernel: &UOp) -> Repeated {
        let survey = Survey::of(kernel);
        let times = vec![1.0; survey.inner.len()];
        Repeated { survey, times }
    }

    /// Whether a loop may be threads: what they repeat is less than the work of all. If so, it counts as such.
    fn admits(&mut self, id: u32) -> bool {
        let Repeated { survey, times } = self;
        let len = survey.most(id) as f64;
        let repeat = |(inner, times): (&InnerLoops, &f64)| if inner.is_inside(id) { *times } else { times * len };
        let new: Vec<f64> = survey.inner.iter().zip(times.iter()).map(repeat).collect();
        let more: f64 = survey.inner.iter().zip(&new).map(|(inner, times)| inner.weight * (times - 1.0)).sum();
        let is_little = more <= survey.work;
        if is_little {
            *times = new;
        }
        is_little
    }
}

/// The loops that all stores of outputs stand in, or are computed in anyway, outermost first.
pub(crate) fn loops_over_outputs(kernel: &UOp) -> Vec<UOp> {
    let is_loop = |range: &&UOp| !is_reduce(range) && range.as_range().is_some_and(|arg| arg.kind == AxisKind::Loop);
    let deepest = kernel.src().iter().map(closed_ranges).min_by_key(|ranges| std::cmp::Reverse(ranges.len()));
    let of_all = |range: &&UOp| kernel.src().iter().all(|store| is_computed_along(kernel, store, range));
    deepest.unwrap_or(&[]).iter().filter(is_loop).filter(of_all).cloned().collect()
}

/// Whether a store is seen to put each of its elements at another index.
///
/// A view may show an element twice, and what is stored there is the same each time; but no two threads may do it.
fn stores_apart(store: &UOp) -> bool {
    steps_are_nested(store) || is_row_major(store)
}

/// Whether each loop's step is what the loops inside of it come to, all of which may be symbolic: `r0 * n + r1` of `n` columns.
fn is_row_major(store: &UOp) -> bool {
    let mut expected = UOp::index(1);
    let mut offset = UOp::index(0);
    for range in closed_ranges(store).iter().rev() {
        offset = offset + range * &expected;
        expected = expected * &range.src()[0];
    }
    simplify(&offset) == simplify(&store.src()[0].src()[1])
}

/// Whether a step is longer than all that smaller steps come to, and each loop has one. An index from memory is a step as well; the loops that find it have none.
fn steps_are_nested(store: &UOp) -> bool {
    let terms = linear_terms(&store.src()[0].src()[1]).0;
    let mut steps: Vec<(i64, i64)> = Vec::new();
    for (term, step) in &terms {
        let len = match term.op() {
            Op::Range => term.src()[0].max_value(),
            _ if is_indirect(term) => reach_of_index(store, term).map_or(i64::MAX, |reach| reach + 1),
            _ => return false,
        };
        if *step == 0 {
            return false;
        }
        steps.push((step.abs(), len));
    }
    let has_order = is_order(store);
    let names_element = |range: &UOp| {
        let is_serial = range.as_range().is_some_and(|arg| arg.kind == AxisKind::Serial);
        let finds = |(term, _): &(UOp, i64)| is_indirect(term) && postorder(std::slice::from_ref(term)).contains(range);
        is_serial || has_order && terms.iter().any(finds)
    };
    let is_named =
        |range: &UOp| range.src()[0].is_const(1) || terms.iter().any(|(term, _)| term == range) || names_element(range);
    steps.sort_unstable();
    let mut reach = 0i64;
    let are_nested = steps.into_iter().all(|(step, len)| {
        let is_longer = step > reach;
        reach = reach.saturating_add(step.saturating_mul((len - 1).max(0)));
        is_longer
    });
    are_nested && closed_ranges(store).iter().all(is_named)
}

/// The largest divisor of a length up to a limit.
pub(crate) fn largest_divisor(len: i64, limit: i64) -> i64 {
    (1..=limit.min(len)).rev().find(|part| len % part == 0).unwrap_or(1)
}

/// Whether an opt would have the last part of a loop over outputs overlap the one before.
pub(crate) fn overlaps(kernel: &UOp, opt: &Opt) -> bool {
    let (Opt::Vectorize { range, lanes: part } | Opt::Upcast { range, times: part } | Opt::Split { range, len: part }) =
        opt
    else {
        return false;
    };
    let is_it = |node: &&UOp| range_id(node) == *range && !is_reduce(node);
    let len = all_ranges(kernel).iter().find(is_it).map(|range| range.src()[0].clone());
    len.is_some_and(|len| len.as_int().is_none_or(|len| len % i64::from(*part) != 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;
    use crate::ir::Arg;

    #[test]
    fn elements_that_are_stored_twice_are_seen() {
        let ranges = [UOp::range(4, 0, AxisKind::Loop), UOp::range(8, 1, AxisKind::Loop)];
        let apart = |steps: [i64; 2]| {
            let offset = &ranges[0] * steps[0] + &ranges[1] * steps[1];
            let index = UOp::new(Op::Index, DType::F32, vec![UOp::param(0, DType::F32, 64), offset], Arg::None);
            let src: Vec<UOp> = [index, UOp::float(1.0, DType::F32)].into_iter().chain(ranges.clone()).collect();
            stores_apart(&UOp::new(Op::Store, DType::VOID, src, Arg::None))
        };
        assert!(apart([8, 1]) && apart([1, 4]) && apart([-8, 1]) && apart([9, 1]));
        assert!(!apart([1, 1]) && !apart([7, 1]) && !apart([0, 1]) && !apart([1, 3]));
    }

    #[test]
    fn parts_divide_their_lengths() {
        assert_eq!([1024, 250, 1009, 17, 1].map(|len| largest_divisor(len, 256)), [256, 250, 1, 17, 1]);
    }
}
