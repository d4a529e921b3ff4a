//! Frames of windows that some rows of a contraction share: too many to read each element of a window from memory for each of them, too few for a panel.
//!
//! ```text
//! for b, o in 0..16, y, x { reduce c, i, j }
//!
//! for b { fill c, a, x' { s[c, a, x'] } ; for o / 8, y { for 8 * x { reduce c, i, j { s[c, y + i, x + j] * w[o, c, i, j] } } } }
//! ```
//!
//! A panel (`panels`) holds an element for each position of each window, so a convolution of 5 x 5 writes each element of its input 25 times, and what that costs is shared by its rows. A frame has the
//! element once, with its padding, but its rows are as long as those of the result: lanes beyond their ends are computed for nothing. Which is less is counted (`step_if_better`). Of large images a frame
//! is made for some rows of the result at a time; of images in space, or of many channels, for one plane or row, with all that its windows reach (`around` in `framed`). Windows that begin in steps are lanes too: a frame has them in phases ([`frame`](crate::optimize::transforms::frame)).
//!
//! Always: made of the opts outermost, split and frame; if one that it needs is refused, nothing is done. Tested below, and by the values of convolutions in the test crate.

use super::pack::{LOAD_AND_STORE, MASKED_LOAD_AND_STORE};
use super::panels::{ROWS_MIN, move_outermost};
use super::product::{attempt, split};
use super::windows::Walk;
use crate::ir::UOp;
use crate::kernel::effects::replaces_what_was_read;
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
/// Cycles that the loop outside of the innermost one takes for each of its iterations: those of a frame do not become one; and that a load takes beside its own, where what a row of results reads
/// and what its tile reads of the other operand are more than the nearest cache: vectors begin anywhere in a line. Measured on two cores of Zen 3 beside panels: 3 channels by 7 x 7 in steps of two to
/// 64 take 0.90 of the time, to 32 0.80; by 3 x 3, 16 channels to 64 of 112 x 112 0.94, 32 to 64 of 48 x 48 0.94; by 3 x 3 x 3, 16 to 32 of 16 x 32 x 32 0.77; and beyond the cache 64 to 64 of 28 x 28 1.06.
const LOOP: f64 = 1.25;
const CROSSING: f64 = 0.25;
/// Cycles of an element at an end of a row, which is there or not. Measured as above: with it, 3 channels by 11 x 11 to 64 of 56 x 56 have a frame, in 0.90 of a panel's time.
const END_OF_ROW: f64 = 3.0;
/// Elements between lanes, at most: of more each lane is loaded by itself.
const STEPS_MAX: i64 = 3;

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

/// The frames of a contraction, each for a part of the first loop over windows.
struct Frames<'w> {
    walks: &'w [Walk],
    /// Terms that each element of a window has.
    each: i64,
    rows: i64,
    /// Iterations of the loops outside.
    repeated: i64,
    threads: i64,
}

impl Frames<'_> {
    /// Elements of windows for so many iterations of the loops that walk them.
    fn elements_of(&self, results: impl Fn(usize, &Walk) -> i64) -> Option<i64> {
        let mut walked = self.walks.iter().enumerate().map(|(number, walk)| walk.window(results(number, walk)));
        walked.try_fold(self.each, |total, window| total.checked_mul(window?.len()))
    }

    /// Elements of a frame for so many iterations of the first loop.
    fn elements(&self, part: i64) -> Option<i64> {
        self.elements_of(|number, walk| if number == 0 { part } else { walk.len() })
    }

    /// What a row of results reads.
    fn read_by_row(&self) -> Option<i64> {
        self.elements_of(|number, walk| if number + 1 == self.walks.len() { walk.len() } else { 1 })
    }

    fn multiply_adds(&self, part: i64) -> f64 {
        let others: i64 = self.walks[1..].iter().map(Walk::len).product();
        (part * others * self.window_elements() * self.each * self.rows) as f64
    }

    /// Iterations of the first loop.
    fn len(&self) -> i64 {
        self.walks[0].len()
    }

    /// Whether a range walks one of the windows.
    fn is_walked(&self, range: &UOp) -> bool {
        self.walks.iter().any(|walk| walk.results == *range || walk.reduced == *range)
    }

    fn window_elements(&self) -> i64 {
        self.walks.iter().map(|walk| walk.reduced.src()[0].max_value()).product()
    }

    /// Cycles of a multiply-add that takes some by itself: with the fill, with rows of parts that overlap, and with threads that wait for another.
    fn cycles(&self, part: i64, step: f64, copied: f64) -> Option<f64> {
        let len = self.len();
        let fill = copied * self.elements(part)? as f64 / self.multiply_adds(part);
        let parts = (len + part - 1) / part;
        let shares = self.repeated.saturating_mul(parts);
        let turns = (shares + self.threads - 1) / self.threads;
        Some((step + fill) * (parts * part) as f64 / len as f64 * (turns * self.threads) as f64 / shares as f64)
    }
}

impl Contraction<'_> {
    fn framed(&self, target: &Target, threads: i64) -> Option<Plan> {
        let lane = self.lane_of_results()?;
        let width = lane.src()[0].as_int()?;
        let rows: i64 = self.rows().map(|range| range.src()[0].max_value()).product();
        let own = closed_ranges(self.reduction);
        let is_known = |range: &UOp| range.src()[0].as_int().is_some() && self.varies_with(range);
        if rows < ROWS_MIN || !own.iter().all(is_known) {
            return None;
        }
        let walks = self.walks();
        let last = walks.last().filter(|walk| walk.results == *lane);
        // Lanes that the load walks in steps are side by side in a frame of which they are the last axis.
        let in_order = || last.is_some_and(|walk| walk.window(width).is_some_and(|window| window.is_in_order()));
        let is_walked = step_of_load(self.load, lane) == Some(1) && walks.iter().any(|walk| walk.results == *lane);
        if !(is_walked || in_order()) {
            return None;
        }
        // Frames of all windows, or of the inner ones only, each for one position of those outside.
        let copied = self.copied_element(lane, target);
        let best = (0..walks.len()).filter_map(|around| {
            let frames = self.frames(&walks[around..], rows, threads);
            let step = self.step_if_better(&frames, width, copied, target)?;
            let (cycles, part) = self.best_part(&frames, lane, [step, copied], target)?;
            Some((cycles, frames, part))
        });
        let (_, frames, part) = best.min_by(|a, b| a.0.total_cmp(&b.0))?;
        let first = &frames.walks[0];
        let terms = own.iter().filter(|range| !frames.is_walked(range)).map(|range| [range_id(range); 2]);
        let windows = frames.walks.iter().map(|walk| [range_id(&walk.results), range_id(&walk.reduced)]);
        let axes = terms.chain(windows).collect();
        let outside = self.outputs.iter().filter(|range| self.varies_with(range) && !frames.is_walked(range));
        let outside = outside.map(range_id).collect();
        Some(Plan { load: self.load_id()?, outside, axes, part: (range_id(&first.results), first.len(), part) })
    }

    /// The frames of some windows; loops of the reduction that walk none of them are terms of each element.
    fn frames<'w>(&self, walks: &'w [Walk], rows: i64, threads: i64) -> Frames<'w> {
        let frames = Frames { walks, each: 1, rows, repeated: 1, threads };
        let beside = |ranges: &[UOp]| -> i64 {
            let others = ranges.iter().filter(|range| self.varies_with(range) && !frames.is_walked(range));
            others.map(|range| range.src()[0].max_value()).product()
        };
        let (each, repeated) = (beside(closed_ranges(self.reduction)), beside(self.outputs));
        Frames { each, repeated, ..frames }
    }

    /// The cycles of a multiply-add with the best frames that fit, and how many iterations of the first loop each is made for.
    fn best_part(&self, frames: &Frames<'_>, lane: &UOp, cycles: [f64; 2], target: &Target) -> Option<(f64, i64)> {
        let room = i64::from(target.costs.packed_bytes) / self.load.dtype().bytes() as i64;
        // Lanes are not cut, and what was replaced is not computed again.
        let is_in_place = self.root.src().iter().any(replaces_what_was_read);
        let len = frames.len();
        let leaves_none = |part: i64| len % part == 0 || !is_in_place;
        let is_cut = frames.walks[0].results != *lane;
        let can_cut = |part: &i64| *part == len || is_cut && *part >= PART_MIN && leaves_none(*part);
        let fits = |part: &i64| frames.elements(*part).is_some_and(|elements| elements <= room);
        let parts = (1..=len).rev().filter(|part| can_cut(part) && fits(part));
        let [step, copied] = cycles;
        let costs = parts.filter_map(|part| Some((frames.cycles(part, step, copied)?, part)));
        costs.min_by(|a, b| a.0.total_cmp(&b.0))
    }

    /// Cycles of an element that is copied to a panel or a frame. Lanes in steps are chosen from as many vectors.
    fn copied_element(&self, lane: &UOp, target: &Target) -> f64 {
        let is_gated = self.load.src()[0].src().len() > 2;
        let copied = if is_gated { MASKED_LOAD_AND_STORE } else { LOAD_AND_STORE };
        let more = step_of_load(self.load, lane).map_or(0, |step| (step.abs() - 1).clamp(0, STEPS_MAX));
        (copied + LOAD_AND_STORE * more as f64) * self.widest() as f64 / f64::from(target.vector_bytes)
    }

    /// Bytes of what a lane computes.
    fn widest(&self) -> i64 {
        self.load.dtype().bytes().max(accumulated_in(self.reduction.dtype()).bytes()) as i64
    }

    /// Cycles of a multiply-add with a frame, if that is fewer than with a panel: lanes beyond the ends of rows against an element that is copied for each position of a window.
    fn step_if_better(&self, frames: &Frames<'_>, width: i64, copied: f64, target: &Target) -> Option<f64> {
        let lanes = i64::from(target.vector_bytes) / self.widest();
        if width < lanes || frames.window_elements() < WINDOW_MIN {
            return None;
        }
        let rows = frames.rows;
        let vectors = (width + lanes - 1) / lanes;
        let room = RegisterRoom { registers: target.vector_registers, values: 1, divides: false };
        let most = |count: i64| u32::try_from(count).unwrap_or(u32::MAX);
        let (_, tile_vectors, tile_rows) = best_tile(&room, most(vectors), most(rows));
        // Both are bound by their multiply-adds.
        let step = 1.0 / (STARTS_PER_CYCLE * lanes as f64);
        let read = frames.read_by_row()?.saturating_mul(self.load.dtype().bytes() as i64);
        // Of the other operand, what a tile of rows reads passes through the same cache.
        let beside = i64::from(tile_rows) * frames.each * frames.window_elements() * self.load.dtype().bytes() as i64;
        let is_near = read + beside <= target.cache_l1_bytes as i64;
        let crossing = if is_near { 0.0 } else { CROSSING };
        let crossing = crossing / (i64::from(tile_rows) * lanes) as f64;
        let innermost = frames.walks.last()?.reduced.src()[0].max_value();
        let loops = LOOP / (innermost * i64::from(tile_vectors * tile_rows) * lanes) as f64;
        // Vectors of the last tile overlap those before.
        let tile_vectors = i64::from(tile_vectors);
        let computed = (vectors + tile_vectors - 1) / tile_vectors * tile_vectors * lanes;
        let framed = step * computed as f64 / width as f64 + crossing + loops;
        // Both are copied in rows, whose ends beyond an image are elements by themselves where memory has no masks.
        let is_apart = self.load.src()[0].src().len() > 2 && !target.has_masked_memory;
        let ends = if is_apart { END_OF_ROW * (innermost - 1) as f64 } else { 0.0 };
        let copied = (copied * (vectors * lanes) as f64 + ends) / width as f64;
        let fill = copied * frames.elements(frames.len())? as f64 / frames.multiply_adds(frames.len());
        (framed + fill < step + copied / rows as f64).then_some(framed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optimize::by_hand::copies::tests::{Convolution, opts as opts_of};

    /// The opts by hand of a convolution on a machine with AVX-512: of images, their channels, the length of a side, channels of the result, and the length of a window.
    fn opts([images, channels, side, rows, window]: [i64; 5], threads: u32) -> String {
        let target = Target { threads, ..Target::test_avx512() };
        Convolution { window, ..Convolution::new([images, channels, side, rows]) }.result(&target)
    }

    #[test]
    fn some_rows_share_a_frame_and_many_a_panel() {
        assert!(opts([4, 32, 48, 16, 3], 1).contains("frame("));
        assert!(!opts([4, 32, 48, 256, 3], 1).contains("frame("));
        // Half of the lanes would be beyond the ends of rows.
        assert!(!opts([4, 32, 17, 16, 3], 1).contains("frame("));
        // A panel has the ends of a row for each position of a window, a frame once; under masks they are lanes.
        let large = |has_masked_memory: bool| {
            let target = Target { has_masked_memory, ..Target::test_avx2() };
            Convolution { window: 11, ..Convolution::new([4, 3, 56, 64]) }.result(&target)
        };
        assert!(large(false).contains("frame(") && !large(true).contains("frame("));
        // Of tiles of two vectors by six rows, an eighth of the lanes is computed twice.
        let narrow = |side: i64| Convolution::new([4, 32, side, 64]).result(&Target::test_avx2());
        assert!(narrow(48).contains("frame(") && !narrow(56).contains("frame("));
        // A window of one element is read once.
        assert!(!opts([4, 32, 48, 16, 1], 1).contains("frame("));
    }

    #[test]
    fn windows_in_steps_share_a_frame_if_rows_are_few() {
        let opts = |[channels, side, rows, window, step]: [i64; 5]| {
            let target = Target::test_avx512();
            Convolution { window, step, ..Convolution::new([1, channels, side, rows]) }.result(&target)
        };
        let few = opts([3, 224, 32, 7, 2]);
        assert!(few.contains("frame("), "{few}");
        assert!(!opts([64, 112, 64, 3, 2]).contains("frame("));
        // Of windows with elements between them a frame would copy what none reads.
        assert!(!opts([3, 224, 32, 3, 4]).contains("frame("));
    }

    #[test]
    fn a_frame_of_images_in_space_is_made_for_rows_of_a_plane() {
        let text = "graph %space(y: f32[2, 32, 16, 32, 32], x: f32[2, 16, 16, 32, 32], w: f32[32, 16, 3, 3, 3]) {
  padded = pad x, [0:0, 0:0, 1:1, 1:1, 1:1]
  windows = as_strided padded, [2, 16, 16, 32, 32, 3, 3, 3] strides [332928, 20808, 1156, 34, 1, 1156, 34, 1] offset 0
  beside = reshape windows, [2, 1, 16, 16, 32, 32, 3, 3, 3]
  images = permute beside, (0, 1, 3, 4, 5, 2, 6, 7, 8)
  a = expand images, [2, 32, 16, 32, 32, 16, 3, 3, 3]
  weights = reshape w, [1, 32, 1, 1, 1, 16, 3, 3, 3]
  b = expand weights, [2, 32, 16, 32, 32, 16, 3, 3, 3]
  p = mul a, b
  sum = reduce p, add (5, 6, 7, 8)
  flat = reshape sum, [2, 32, 16, 32, 32]
  done = store y, flat
  k = sink done
  return k
}";
        let costs = crate::target::Costs { packed_bytes: 128 << 10, ..crate::target::Costs::cpu() };
        let target = Target { cache_l2_bytes: 512 << 10, costs, ..Target::test_avx2() };
        let opts = opts_of(text, &target);
        // A window's planes are terms, as channels are.
        let frame =
            "split(r3, 16), outermost(r3), outermost(r2), outermost(r0), frame(l0, r5, r5, r6, r6, r9, r7, r4, r8)";
        assert!(opts.starts_with(frame), "{opts}");
    }

    #[test]
    fn a_frame_fits_and_each_thread_has_some() {
        let large = opts([1, 16, 96, 16, 3], 1);
        assert!(large.starts_with("split(r1, ") && large.contains("frame("), "{large}");
        let shared = opts([1, 4, 48, 16, 3], 3);
        assert!(shared.contains("split(r1, 16)") && shared.contains("thread("), "{shared}");
    }
}
