//! The choice by hand for windows that few results share, as those of depthwise convolutions, filters and averages: what a panel (`panels`) would copy once for
//! each row of a matrix is read by few of them.
//!
//! Read in place, each element of a window costs a load under a mask, or the ends of rows go without lanes. A frame ([`frame`](crate::optimize::transforms::frame)) has the padding in it, and
//! stays in the nearest cache:
//!
//! ```text
//! for b, c { fill a in 0..44, b in 0..44; for y in 0..40 / 8, x { for 8 * y { reduce j { reduce i { s[(y + i) * 44 + x + j] * w[i, j] } } } } }
//! ```
//!
//! A tile of neighbouring rows shares what it reads: of 8 rows and a window of 5 elements, 12 rows and not 40. The loop of the window down the rows is the
//! innermost one, which is written out (`linearize::short_loops`), so each of the 12 is loaded once.
//!
//! What it pays is counted in loads: a masked one costs as much again, and filling an element of the frame as much as `FILL_LOADS` of them.
//!
//! Always: made of the opts split, frame, upcast, reorder; a part that is refused is left out. Tested by filetests, and by values of convolutions in the test crate.

use super::panels::ROWS_MIN;
use crate::ir::UOp;
use crate::kernel::ranges::{closed_ranges, next_range_id, range_id};
use crate::optimize::by_hand::contraction::{Contraction, LoadId, contractions, number_of_load, step_of_load};
use crate::optimize::by_hand::tile::vectors_beside;
use crate::optimize::by_hand::{Attempts, SHARES_PER_THREAD};
use crate::optimize::opt::Opt;
use crate::optimize::transforms::frame::Window;
use crate::optimize::transforms::split::is_reduce;
use crate::target::Target;

/// Loads, about, that filling an element of a frame costs: one under a mask, a store, and its share of loops.
const FILL_LOADS: f64 = 4.0;
/// Rows of a tile, at most.
const ROWS_MAX: u32 = 8;
/// Cycles from one load to the next, and the part of them that is not hidden behind multiply-adds.
const LOAD_CYCLES: f64 = 2.0;
const LOADS_BESIDE: f64 = 0.25;
/// Elements of a window down the rows, at most: they are written out.
const WINDOW_MAX: i64 = 11;
/// What a tile of rows loads of what its rows would load apart, at most.
const SHARED_MOST: f64 = 0.75;
/// Rows of a frame of which there are several, at least.
const PART_MIN: i64 = 8;

/// A window of a load: a loop over results, one of the reduction, and how the load walks them.
pub(super) struct Walk {
    pub(super) results: UOp,
    pub(super) reduced: UOp,
    steps: [i64; 2],
}

impl Walk {
    pub(super) fn window(&self, results: i64) -> Option<Window> {
        let part = UOp::range(results, range_id(&self.results), crate::ir::AxisKind::Loop);
        Window::of([&part, &self.reduced], self.steps).ok()
    }

    pub(super) fn len(&self) -> i64 {
        self.results.src()[0].max_value()
    }
}

/// Pairs of ranges of a frame, outermost first, and the loop over results that is cut into parts of some length, each with a frame of its own.
type Framed = (Vec<[u32; 2]>, Option<(u32, u32)>);

/// What is to be done.
struct Plan {
    load: LoadId,
    /// Pairs of ranges of the frame, outermost first; none if there is none.
    framed: Vec<[u32; 2]>,
    /// The loop over results that is cut into parts, each with a frame of its own.
    part: Option<(u32, u32)>,
    /// Rows of a tile: the loop over results, how many, and the loop over the window.
    rows: Option<(u32, u32, u32)>,
}

/// Frames and tiles the windows of a kernel; whether there was something to do.
pub(crate) fn tile_windows(choice: &mut Attempts<'_>) -> bool {
    let target = choice.target;
    let threads = choice.threads;
    let Some(plan) = contractions(&choice.kernel, |contraction| contraction.windows(target, threads)) else {
        return false;
    };
    let framed = !plan.framed.is_empty() && make_frame(choice, &plan);
    let Some((row, rows, reduced)) = plan.rows else { return framed };
    // Parts of a loop have the next number.
    let row = match plan.part {
        Some((range, _)) if framed && range == row => part_of(choice, range),
        _ => Some(row),
    };
    let tiled = row.is_some_and(|row| choice.attempt(Opt::Upcast { range: row, times: rows }));
    if tiled {
        innermost(choice, reduced);
    }
    framed || tiled
}

/// The number of the part that a loop was split into.
fn part_of(choice: &Attempts<'_>, range: u32) -> Option<u32> {
    let is_it = |opt: &Opt| matches!(opt, Opt::Split { range: other, .. } if *other == range);
    let ranges = choice.kernel.src().first().map(closed_ranges)?;
    let at = ranges.iter().position(|other| range_id(other) == range)?;
    choice.applied.iter().any(is_it).then(|| ranges.get(at + 1).map(range_id)).flatten()
}

fn make_frame(choice: &mut Attempts<'_>, plan: &Plan) -> bool {
    let (before, applied) = (choice.kernel.clone(), choice.applied.len());
    let mut framed = plan.framed.clone();
    let mut done = true;
    if let Some((range, len)) = plan.part {
        let part = next_range_id(&choice.kernel);
        done = choice.attempt(Opt::Split { range, len });
        framed.iter_mut().filter(|pair| pair[0] == range).for_each(|pair| pair[0] = part);
    }
    let load = number_of_load(&choice.kernel, &plan.load).filter(|_| done);
    done = load.is_some_and(|load| choice.attempt(Opt::Frame { load, ranges: framed.concat() }));
    if !done {
        choice.kernel = before;
        choice.applied.truncate(applied);
    }
    done
}

/// Moves a loop of a reduction inside of all others of it.
fn innermost(choice: &mut Attempts<'_>, range: u32) {
    let order = crate::ir::postorder(std::slice::from_ref(&choice.kernel));
    let holds = |node: &&UOp| is_reduction_over(node, range);
    let Some(reduction) = order.iter().find(holds) else { return };
    let loops: Vec<u32> = closed_ranges(reduction).iter().map(range_id).collect();
    for inner in loops.into_iter().skip_while(|id| *id != range).skip(1) {
        choice.attempt(Opt::Reorder { range, inner });
    }
}

fn is_reduction_over(node: &UOp, range: u32) -> bool {
    node.op() == crate::ir::Op::ReduceRange && closed_ranges(node).iter().any(|other| range_id(other) == range)
}

impl Contraction<'_> {
    fn windows(&self, target: &Target, threads: u32) -> Option<Plan> {
        let shared: i64 = self.rows().map(|range| range.src()[0].max_value()).product();
        let lane = self.lane_of_results()?;
        let width = lane.src()[0].as_int()?;
        let is_constant = |range: &UOp| range.src()[0].as_int().is_some();
        if shared >= ROWS_MIN
            || !closed_ranges(self.reduction).iter().all(|range| is_reduce(range) && is_constant(range))
        {
            return None;
        }
        // Of lanes in steps, what is between them is loaded as well.
        if step_of_load(self.load, lane) != Some(1) {
            return None;
        }
        let walks = self.walks();
        // A frame would be made anew for each channel.
        let is_beside = |range: &&UOp| self.varies_with(range) && walks.iter().all(|walk| walk.reduced != **range);
        if closed_ranges(self.reduction).iter().any(|range| is_beside(&range)) {
            return None;
        }
        let lanes = i64::from(target.vector_bytes) / self.load.dtype().bytes() as i64;
        let vectors = u32::try_from((width + lanes - 1) / lanes).ok()?;
        let (framed, part) = self.frame(&walks, lane, target, threads).unwrap_or_default();
        let len_of = |walk: &Walk| match part {
            Some((range, len)) if range == range_id(&walk.results) => i64::from(len),
            _ => walk.len(),
        };
        let tiles = walks.iter().rev().filter(|walk| walk.results != *lane);
        // The ends of rows that are gated are cut off.
        let gate = self.load.src()[0].src().get(2);
        let is_cut = framed.is_empty() && gate.is_some_and(|gate| self.dependencies.get(gate).contains(range_id(lane)));
        let rows = tiles.filter_map(|walk| rows_of(walk, len_of(walk), target, vectors)).next().filter(|_| !is_cut);
        let has_work = !framed.is_empty() || rows.is_some();
        Some(Plan { load: self.load_id()?, framed, part, rows }).filter(|_| has_work)
    }

    /// Each loop of the reduction that walks windows with one over results, in the order of the latter: of several pairs those whose windows overlap the most.
    pub(super) fn walks(&self) -> Vec<Walk> {
        let overlapping = |results: &UOp, reduced: &UOp| {
            let steps = [step_of_load(self.load, results)?, step_of_load(self.load, reduced)?];
            let walk = Walk { results: results.clone(), reduced: reduced.clone(), steps };
            let len = Window::of([results, reduced], steps).ok()?.len() as f64;
            let of_all = len / (walk.len() * reduced.src()[0].max_value()) as f64;
            // Windows of which no two share an element are walked as a matrix is.
            (of_all < 1.0).then_some((of_all, walk))
        };
        let results: Vec<&UOp> = self.outputs.iter().filter(|range| self.varies_with(range)).collect();
        let all = closed_ranges(self.reduction).iter().filter(|range| self.varies_with(range));
        let mut found: Vec<(f64, Walk)> = all
            .flat_map(|reduced| results.iter().map(move |results| (*results, reduced)))
            .filter_map(|(results, reduced)| overlapping(results, reduced))
            .collect();
        found.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut walks: Vec<Walk> = Vec::new();
        for (_, walk) in found {
            let is_taken = |other: &Walk| other.results == walk.results || other.reduced == walk.reduced;
            if !walks.iter().any(is_taken) {
                walks.push(walk);
            }
        }
        let position = |walk: &Walk| self.outputs.iter().position(|range| *range == walk.results);
        walks.sort_by_key(position);
        walks
    }

    /// The pairs of a frame and the part of a loop that it is made for, if the load has conditions on its lanes and a frame pays.
    fn frame(&self, walks: &[Walk], lane: &UOp, target: &Target, threads: u32) -> Option<Framed> {
        let gate = self.load.src()[0].src().get(2)?;
        if !walks.iter().any(|walk| walk.results == *lane) || !self.dependencies.get(gate).contains(range_id(lane)) {
            return None;
        }
        let of_window: i64 = walks.iter().map(|walk| walk.reduced.src()[0].max_value()).product();
        let bytes = self.load.dtype().bytes() as i64;
        let first = walks.first().filter(|walk| walk.results != *lane);
        // The whole, or a part of the outermost loop, that stays in the nearest cache; or in the next.
        let parts = |first: &Walk| {
            let divides = |part: &u32| first.len() % i64::from(*part) == 0;
            (1..first.len() as u32).rev().filter(|part| i64::from(*part) >= PART_MIN && divides(part)).collect()
        };
        let parts: Vec<u32> = first.map(parts).unwrap_or_default();
        let elements = |part: Option<u32>| -> Option<(i64, i64)> {
            let mut total = (1i64, 1i64);
            for (number, walk) in walks.iter().enumerate() {
                let results = part.filter(|_| number == 0).map_or(walk.len(), i64::from);
                total = (total.0.checked_mul(walk.window(results)?.len())?, total.1.checked_mul(results)?);
            }
            Some(total)
        };
        let rooms = [target.costs.kept_bytes, target.costs.packed_bytes];
        let choices = || [None].into_iter().chain(parts.iter().copied().map(Some));
        let (part, (copied, results)) = rooms.iter().find_map(|room| {
            choices().find_map(|part| {
                let found = elements(part)?;
                (found.0 * bytes <= i64::from(*room)).then_some((part, found))
            })
        })?;
        let is_worth = of_window as f64 > FILL_LOADS * copied as f64 / results as f64;
        let is_in_window = |range: &&UOp| walks.iter().any(|walk| walk.results == **range);
        let outside = self.outputs.iter().filter(|range| !is_in_window(range)).map(|range| range.src()[0].max_value());
        let shares = outside.product::<i64>();
        let enough = threads < 2 || shares >= i64::from(threads * SHARES_PER_THREAD);
        let pairs = walks.iter().map(|walk| [range_id(&walk.results), range_id(&walk.reduced)]).collect();
        let part = part.and_then(|len| Some((range_id(&first?.results), len)));
        (is_worth && enough).then_some((pairs, part))
    }
}

/// Rows of a tile that share most of what they load, and the loop over the window: those that take the fewest cycles with as many vectors beside each other as then have
/// registers. A multiply-add starts in each cycle, and a load, which crosses lines, in every second one.
fn rows_of(walk: &Walk, len: i64, target: &Target, vectors: u32) -> Option<(u32, u32, u32)> {
    let elements = walk.reduced.src()[0].as_int().filter(|elements| *elements <= WINDOW_MAX)?;
    let registers = target.vector_registers * 3 / 4;
    let len = u32::try_from(len).ok()?;
    let again = |len: u32, part: u32| f64::from(len.div_ceil(part) * part) / f64::from(len);
    let cycles = |rows: u32| -> Option<f64> {
        let loaded = walk.window(i64::from(rows))?.len() as f64 / (i64::from(rows) * elements) as f64;
        let beside = vectors_beside(vectors, registers / rows);
        let step = LOAD_CYCLES * loaded;
        let cycles = step.max(1.0) + LOADS_BESIDE * step;
        (loaded <= SHARED_MOST).then(|| cycles * again(len, rows) * again(vectors, beside))
    };
    let all = (2..=ROWS_MAX.min(len)).filter_map(|rows| Some((cycles(rows)?, rows)));
    let (_, rows) = all.min_by(|a, b| a.0.total_cmp(&b.0))?;
    Some((range_id(&walk.results), rows, range_id(&walk.reduced)))
}
