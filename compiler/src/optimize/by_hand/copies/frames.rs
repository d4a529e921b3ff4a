//! Frames of windows that some rows of a contraction share: too many to read each element of a window from memory for each of them, too few for a panel.
//!
//! ```text
//! for b, o in 0..16, y, x { reduce c, i, j }
//!
//! for b { fill c, a, x' { s[c, a, x'] } ; for o / 8, y { for 8 * x { reduce c, i, j { s[c, y + i, x + j] * w[o, c, i, j] } } } }
//! ```
//!
//! A panel (`panels`) holds an element for each position of each window, so a convolution of 5 x 5 writes each element of its input 25 times, and what that costs is shared by its rows. A frame has the
//! element once, with its padding, but its rows are as long as those of the result: lanes beyond their ends are computed for nothing. Which is less is counted (`is_better`). Of large images a frame
//! is made for some rows of the result at a time.
//!
//! Always: made of the opts outermost, split and frame; if one that it needs is refused, nothing is done. Tested below, and by the values of convolutions in the test crate.

use super::pack::{LOAD_AND_STORE, MASKED_LOAD_AND_STORE};
use super::panels::{ROWS_MIN, move_outermost};
use super::product::{attempt, split};
use super::windows::Walk;
use crate::ir::UOp;
use crate::kernel::ranges::{closed_ranges, range_id};
use crate::optimize::by_hand::Attempts;
use crate::optimize::by_hand::contraction::{Contraction, LoadId, contractions, number_of_load, step_of_load};
use crate::optimize::by_hand::survey::accumulated_in;
use crate::optimize::by_hand::tile::{RegisterRoom, STARTS_PER_CYCLE, best_tile};
use crate::optimize::opt::Opt;
use crate::target::Target;

/// Elements of a window, at least: of fewer, a panel copies little more than a frame.
const WINDOW_MIN: i64 = 4;
/// Rows of the result that a frame is made for, at least: each reads some more of the input.
const PART_MIN: i64 = 4;
/// Frames for each thread, at least.
const SHARES: i64 = 2;
/// Cycles that a load of a frame takes beside its own: vectors begin anywhere in a line, and most go on into the next.
const CROSSING: f64 = 0.5;

/// What is to be done.
struct Plan {
    load: LoadId,
    /// The loops over results that stand outside, outermost first.
    outside: Vec<u32>,
    /// The axes of the frame, outermost first: a loop over results and one of the reduction, or a loop of the reduction twice.
    axes: Vec<[u32; 2]>,
    /// The loop over results that is cut, its length, and how many of its iterations a frame is made for.
    part: (u32, i64, i64),
}

/// Makes a frame if there is a contraction that wants one; whether it did.
pub(crate) fn frame_for_rows(choice: &mut Attempts<'_>) -> bool {
    let threads = i64::from(choice.threads);
    let plan = contractions(&choice.kernel, |contraction| contraction.framed(choice.target, threads));
    plan.is_some_and(|plan| choice.all_or_none(|choice| make(choice, &plan)))
}

fn make(choice: &mut Attempts<'_>, plan: &Plan) -> Option<()> {
    let (range, len, part) = plan.part;
    let inner = split(choice, range, len, part)?;
    let outside: Vec<u32> = plan.outside.iter().copied().chain((inner != range).then_some(range)).collect();
    move_outermost(choice, &outside)?;
    let load = number_of_load(&choice.kernel, &plan.load)?;
    let axes = plan.axes.iter().flatten().map(|id| if *id == range { inner } else { *id });
    attempt(choice, Opt::Frame { load, ranges: axes.collect() })
}

impl Contraction<'_> {
    fn framed(&self, target: &Target, threads: i64) -> Option<Plan> {
        let lane = self.lane_of_results()?;
        let width = lane.src()[0].as_int()?;
        let rows: i64 = self.rows().map(|range| range.src()[0].max_value()).product();
        let own = closed_ranges(self.reduction);
        let is_known = |range: &UOp| range.src()[0].as_int().is_some() && self.varies_with(range);
        if rows < ROWS_MIN || step_of_load(self.load, lane) != Some(1) || !own.iter().all(is_known) {
            return None;
        }
        let walks = self.walks();
        let first = walks.first()?;
        if !walks.iter().any(|walk| walk.results == *lane) || !self.is_better(&walks, rows, width, target) {
            return None;
        }
        let is_window = |range: &&UOp| walks.iter().any(|walk| walk.results == **range);
        let outside: Vec<&UOp> =
            self.outputs.iter().filter(|range| self.varies_with(range) && !is_window(range)).collect();
        let repeated: i64 = outside.iter().map(|range| range.src()[0].max_value()).product();
        let is_term = |range: &&UOp| walks.iter().all(|walk| walk.reduced != **range);
        let terms: Vec<&UOp> = own.iter().filter(is_term).collect();
        let each: i64 = terms.iter().map(|range| range.src()[0].max_value()).product();
        let room = i64::from(target.costs.packed_bytes) / self.load.dtype().bytes() as i64;
        let len = first.len();
        let fits = |part: &i64| {
            let results = |number: usize, walk: &Walk| if number == 0 { *part } else { walk.len() };
            let mut walked = walks.iter().enumerate().map(|(number, walk)| walk.window(results(number, walk)));
            let elements = walked.try_fold(each, |total, window| total.checked_mul(window?.len()));
            let shares = repeated.saturating_mul(len / part);
            elements.is_some_and(|elements| elements <= room) && (threads < 2 || shares >= SHARES * threads)
        };
        // Lanes are not cut.
        let can_cut = |part: &i64| *part == len || first.results != *lane && *part >= PART_MIN && len % part == 0;
        let part = (1..=len).rev().filter(can_cut).find(fits)?;
        let axes = terms.into_iter().map(|range| [range_id(range); 2]);
        let axes = axes.chain(walks.iter().map(|walk| [range_id(&walk.results), range_id(&walk.reduced)])).collect();
        let outside = outside.into_iter().map(range_id).collect();
        Some(Plan { load: self.load_id()?, outside, axes, part: (range_id(&first.results), len, part) })
    }

    /// Whether a multiply-add takes fewer cycles with a frame than with a panel: lanes beyond the ends of rows against an element that is copied for each position of a window.
    fn is_better(&self, walks: &[Walk], rows: i64, width: i64, target: &Target) -> bool {
        let bytes = self.load.dtype().bytes().max(accumulated_in(self.reduction.dtype()).bytes());
        let lanes = i64::from(target.vector_bytes) / bytes as i64;
        let elements: i64 = walks.iter().map(|walk| walk.reduced.src()[0].max_value()).product();
        if width < lanes || elements < WINDOW_MIN {
            return false;
        }
        let is_gated = self.load.src()[0].src().len() > 2;
        let vectors = (width + lanes - 1) / lanes;
        let room = RegisterRoom { registers: target.vector_registers, values: 1, divides: false };
        let most = |count: i64| u32::try_from(count).unwrap_or(u32::MAX);
        let (_, _, tile_rows) = best_tile(&room, most(vectors), most(rows));
        // Both are bound by their multiply-adds.
        let step = 1.0 / (STARTS_PER_CYCLE * lanes as f64);
        let framed = step * (vectors * lanes) as f64 / width as f64 + CROSSING / (i64::from(tile_rows) * lanes) as f64;
        let copied = if is_gated { MASKED_LOAD_AND_STORE } else { LOAD_AND_STORE };
        framed < step + copied * vectors as f64 / (width * rows) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optimize::by_hand::copies::tests::Convolution;

    /// The opts by hand of a convolution on a machine with AVX-512: of images, their channels, the length of a side, channels of the result, and the length of a window.
    fn opts([images, channels, side, rows, window]: [i64; 5], threads: u32) -> String {
        let target = Target { threads, ..Target::test_avx512() };
        Convolution { window, ..Convolution::new([images, channels, side, rows]) }.result(&target)
    }

    #[test]
    fn some_rows_share_a_frame_and_many_a_panel() {
        assert!(opts([4, 32, 48, 16, 3], 1).contains("frame("));
        assert!(!opts([4, 32, 48, 128, 3], 1).contains("frame("));
        // Half of the lanes would be beyond the ends of rows.
        assert!(!opts([4, 32, 17, 16, 3], 1).contains("frame("));
        // A window of one element is read once.
        assert!(!opts([4, 32, 48, 16, 1], 1).contains("frame("));
    }

    #[test]
    fn a_frame_fits_and_each_thread_has_some() {
        let large = opts([1, 16, 96, 16, 3], 1);
        assert!(large.starts_with("split(r1, ") && large.contains("frame("), "{large}");
        let shared = opts([1, 4, 48, 16, 3], 3);
        assert!(shared.contains("split(r1, 8)") && shared.contains("thread("), "{shared}");
    }
}
