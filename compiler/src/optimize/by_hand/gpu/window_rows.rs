//! The choice by hand of reductions over windows that overlap, as those of a depthwise convolution or of pooling, for machines with blocks of threads.
//!
//! Vectors begin at offsets that are no multiples of them, so a thread would load element by element, and its neighbours four elements further on: each such load of a warp
//! takes four lines of the first cache. Here neighbouring threads have neighbouring outputs, and a thread has several rows of them: a row of the input that several windows have is loaded once, and so is each
//! weight. The window's loops are written out (`linearize::repeated`), which is where such loads become one.
//!
//! Tested in the test crate, with the choice by hand for GPUs.

use crate::kernel::ranges::range_id;
use crate::optimize::by_hand::Attempts;
use crate::optimize::by_hand::survey::{AccessPattern, Survey};
use crate::optimize::opt::Opt;

/// Terms of a window at most: they are written out.
const WINDOW_MAX: i64 = 64;
/// Rows that a thread computes, each with an accumulator.
const ROWS_MAX: i64 = 8;
/// Threads of a multiprocessor that hide each other's waiting.
const THREADS_ENOUGH: i64 = 1024;

/// Gives each thread some rows of windows; whether it did.
pub(crate) fn share_windows(choice: &mut Attempts<'_>, survey: &Survey) -> bool {
    let [window] = survey.inner.as_slice() else { return false };
    let terms: i64 = window.ranges.iter().map(|range| range.src()[0].max_value()).product();
    let outputs: Vec<u32> = survey.outputs.iter().map(range_id).collect();
    if window.is_local_buffer || window.ranges.len() < 2 || terms > WINDOW_MAX {
        return false;
    }
    let is_stored_along = |id: &u32| {
        survey.accesses.iter().filter(|access| access.is_store).all(|access| access.steps.get(id) == Some(&1))
    };
    let Some(columns) = outputs.iter().copied().find(is_stored_along) else { return false };
    let loads = || survey.accesses.iter().filter(|access| !access.is_store && window.holds(access));
    // A step along a loop of the window, of which some come to one along the outputs.
    let overlaps = |access: &AccessPattern, id: u32| {
        let step = access.steps.get(&id).copied().unwrap_or(0);
        window.ranges.iter().any(|range| {
            let of_window = access.steps.get(&range_id(range)).copied().unwrap_or(0);
            of_window > 0 && step > 0 && step % of_window == 0 && step / of_window < range.src()[0].max_value()
        })
    };
    // What is the same for all rows is the same for all columns as well: else it is a product of matrices.
    let is_window = |access: &AccessPattern| overlaps(access, columns);
    let is_weight = |access: &AccessPattern| !access.depends.contains(columns);
    if !loads().any(is_window) || !loads().all(|access| is_window(access) || is_weight(access)) {
        return false;
    }
    let shares_row = |id: &u32| {
        let is_shared = |access: &AccessPattern| {
            if is_window(access) { overlaps(access, *id) } else { !access.depends.contains(*id) }
        };
        *id != columns && loads().all(is_shared)
    };
    let Some(row) = outputs.iter().copied().rev().find(shares_row) else { return false };
    let Some(len) = survey.ranges.get(&row).and_then(|range| range.src()[0].as_int()) else { return false };
    let all: i64 = outputs.iter().map(|id| survey.most(*id)).fold(1, i64::saturating_mul);
    let enough = i64::from(choice.target.costs.cores) * THREADS_ENOUGH;
    let times = (2..=ROWS_MAX.min(all / enough.max(1))).rev().find(|times| len % times == 0);
    if let Some(times) = times {
        choice.attempt(Opt::Upcast { range: row, times: times as u32 });
    }
    true
}
