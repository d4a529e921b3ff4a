//! The choice by hand: which opts a kernel gets when nobody searches.
//!
//! It reads the kernel as *accesses*: each load or store with the step its address makes along each range, and a weight, how
//! often it runs. Then, in this order:
//!
//! 0. Loops over groups become two (`groups`). Products of matrices by blocks, where these are better than what follows (`product`), and contractions of more terms than caches
//!    hold by blocks of these (`panel_blocks`, `term_blocks`), those whose results lie in short rows with the other operand's rows as lanes (`row_lanes`): then nothing else is done.
//!    Loops over blocks outside of the loops that what they keep does not depend on (`blocks_outside`). Panels of what many rows read awkwardly (`panels`), frames of
//!    windows that few read (`windows`) or some rows share (`frames`). Loops are cut where something is decided (`cuts`), and split where iterations take turns (`turns`). Vectors go on into the next
//!    row where rows are shorter (`short_rows`): then nothing else is done but 5.
//! 1. Stages that let loops run in lanes which they could not have otherwise (`local_buffers`).
//! 2. The vector ranges: the output range along which most accesses (by weight) are consecutive or constant, unless the loops inside
//!    of it are better off with lanes of their own. Reductions and local buffers that do not depend on it get one of their own ranges, by
//!    the same measure: so each of several loops in a row has lanes. Of short rows, rows are lanes, though what they load lies apart, where that saves more cycles.
//! 3. The register tile: along the vector range several vectors, and along one more output range several rows, when some load does not
//!    depend on that range and so is reused. The tile's accumulators fit three quarters of the vector registers. Rows too many for the last cache are walked in
//!    blocks (`row_blocks`). Without reductions, a loop that much does not depend on moves inside (`repeated`).
//!    What crosses memory, as a transposed copy does, goes by squares (`crossing`).
//! 4. A reduction over lanes gets several accumulators, and takes neighbouring terms of narrow numbers at once, where an instruction adds them up (`inner_lanes`).
//!    Scans without lanes are done for several lines in turn (`interleave`); parts that were cut off get lanes of their own (`cuts`).
//! 5. Threads share the outermost loop, where there is work for them; loops over outputs become blocks of threads, where the machine has them (`gpu`).
//!
//! Where blocks of threads run, a thread makes no copies for itself, cuts no loops at padding, and walks in no order of blocks: steps 1 and those parts of 3 are left out.
//!
//! A symbolic range counts with the length that it has in any case as an output, with its largest as a reduction and as threads'
//! work. The model's numbers are those of `Target`; times are measured by the benchmark, not here.

mod blocks_outside;
pub(super) mod contraction;
mod copies;
mod crossing;
pub(super) mod cuts;
mod gpu;
mod groups;
mod lanes;
mod repeated;
mod survey;
mod tile;

use crate::ir::UOp;
use crate::kernel::ranges::{closed_ranges, range_id};
use crate::optimize::apply::apply;
use crate::optimize::opt::Opt;
use crate::optimize::transforms::split::is_reduce;
use crate::target::Target;
use blocks_outside::move_blocks_outside;
use copies::frames::frame_for_rows;
use copies::pack::{TileLoops, compute_rows};
use copies::panel_blocks::make_panel_blocks;
use copies::panels::{ACROSS, copy_panel};
use copies::product::make_blocks;
use copies::row_blocks::pack_for_row_blocks;
use copies::row_lanes::make_row_lanes;
use copies::term_blocks::make_term_blocks;
use copies::windows::tile_windows;
use crossing::{fill_lines, lanes_of_square, score_of_turned};
use cuts::{cut_decided, vectorize_parts};
use gpu::blocks::{map_onto_blocks, overlaps, work_together};
use groups::split_groups;
use lanes::inner_lanes::vectorize_inner;
use lanes::interleave::interleave_scans;
use lanes::local_buffers::add_local_buffer;
use lanes::short_rows::join_short_rows;
use lanes::turns::split_turns;
use repeated::move_repeating_inside;
use survey::{AccessPattern, InnerLoops, Survey};
use tile::{Tile, choose_tile, rows_of_kept};

/// Stages that may be added to a kernel.
const STAGES_MAX: usize = 4;
/// Ops of a straight elementwise body after it was repeated for several vectors.
pub(crate) const UNROLLED_OPS_MAX: u32 = 128;
/// Iterations of shared loops that a thread should have, for a balance.
pub(crate) const SHARES_PER_THREAD: u32 = 4;
/// Iterations of a short loop, at most, that fill what lies between lanes: of more, `legalize::interleaved` makes no whole vectors.
const BETWEEN_MAX: i64 = 4;
/// Steps of a reduction over lanes that take as long as summing up the lanes.
const STEPS_OF_SUM: f64 = 4.0;
/// Tiles along each side of a block that crosses memory: processors fetch lines in pairs.
const BLOCK_TILES: u32 = 2;

/// A kernel with its opts, and how it came to them.
pub struct Choice {
    /// The optimized kernel.
    pub kernel: UOp,
    /// The opts that were applied.
    pub applied: Vec<Opt>,
    /// Opts that were refused or thought of and left, with the reason.
    pub reasons: Vec<String>,
}

/// A choice in the making.
pub(crate) struct Attempts<'t> {
    pub(crate) target: &'t Target,
    /// Those that the kernel has work for.
    pub(crate) threads: u32,
    pub(crate) kernel: UOp,
    pub(crate) applied: Vec<Opt>,
    pub(crate) reasons: Vec<String>,
}

impl Attempts<'_> {
    fn made(self) -> Choice {
        let Attempts { kernel, applied, reasons, .. } = self;
        Choice { kernel, applied, reasons }
    }

    pub(crate) fn attempt(&mut self, opt: Opt) -> bool {
        if self.target.blocks.is_some() && overlaps(&self.kernel, &opt) {
            self.reasons.push(format!("{opt}: two threads would store what overlaps"));
            return false;
        }
        match apply(&self.kernel, &opt, self.target) {
            Ok(kernel) => {
                self.kernel = kernel;
                self.applied.push(opt);
                true
            }
            Err(refused) => {
                self.reasons.push(refused.to_string());
                false
            }
        }
    }
}

/// Chooses and applies opts.
pub fn choose(root: &UOp, target: &Target) -> Choice {
    let mut survey = Survey::of(root);
    let mut choice = Attempts {
        target,
        threads: if survey.work < f64::from(target.costs.second_thread_ops) { 1 } else { target.threads },
        kernel: root.clone(),
        applied: Vec::new(),
        reasons: Vec::new(),
    };
    if prepare(&mut choice, &mut survey) {
        return choice.made();
    }
    let of_few_threads = target.blocks.is_none();
    let mut vector = choose_vector(&survey, target);
    // A local buffer more makes a kernel of other loops: everything is asked anew.
    for _ in 0..if of_few_threads { STAGES_MAX } else { 0 } {
        if !add_local_buffer(&mut choice, &survey, &vector) {
            break;
        }
        survey = Survey::of(&choice.kernel);
        vector = choose_vector(&survey, target);
    }
    if let Some((id, lanes)) = vector.output
        && choice.attempt(Opt::Vectorize { range: id, lanes })
    {
        let tile = choose_tile(&survey, target, id, lanes);
        apply_tile(&mut choice, &survey, &tile, id, lanes);
        if of_few_threads {
            fill_between(&mut choice, &survey, id);
        }
        match tile.row.filter(|_| of_few_threads) {
            Some((row, rows)) if tile.crosses => {
                fill_lines(&mut choice, &survey, row, (id, lanes));
                walk_in_blocks(&mut choice, &survey, [(row, rows), (id, lanes)]);
            }
            Some((row, rows)) => {
                let width = i64::from(lanes * tile.vectors);
                let passes = survey.len(row) / i64::from(rows);
                let loops = TileLoops { columns: id, width, rows: row, passes };
                pack_for_row_blocks(&mut choice, &loops, rows);
                compute_rows(&mut choice, &loops, rows);
            }
            None if of_few_threads => move_repeating_inside(&mut choice, &survey, id, lanes),
            None => {}
        }
    } else if of_few_threads {
        interleave_scans(&mut choice, &survey);
        if let Some((range, times)) = rows_of_kept(&survey, target, None) {
            choice.attempt(Opt::Upcast { range, times });
        }
    }
    if of_few_threads {
        vectorize_parts(&mut choice, &survey, target);
    }
    for (inner, id) in &vector.inner {
        vectorize_inner(&mut choice, &survey, target, &survey.inner[*inner], *id);
    }
    choose_threads(&mut choice, &survey, target);
    choice.made()
}

/// What comes before lanes are chosen; whether nothing is left to choose.
fn prepare(choice: &mut Attempts<'_>, survey: &mut Survey) -> bool {
    let target = choice.target;
    // What a thread copies for itself pays where it does much: there are many of them where blocks are.
    if let Some(blocks) = &target.blocks {
        if work_together(choice, blocks) {
            return true;
        }
        if move_blocks_outside(choice) {
            *survey = Survey::of(&choice.kernel);
            return work_together(choice, blocks);
        }
        return false;
    }
    let has_groups = split_groups(choice);
    if make_blocks(choice) || make_row_lanes(choice) || make_panel_blocks(choice) || make_term_blocks(choice) {
        return true;
    }
    let has_copies =
        move_blocks_outside(choice) || frame_for_rows(choice) || copy_panel(choice) || tile_windows(choice);
    let has_parts = cut_decided(choice, target);
    if split_turns(choice) || has_groups || has_copies || has_parts {
        *survey = Survey::of(&choice.kernel);
    }
    if join_short_rows(choice, survey, target) {
        choose_threads(choice, survey, target);
        return true;
    }
    false
}

#[derive(Default)]
pub(crate) struct VectorChoice {
    /// An output range and its lanes.
    pub(crate) output: Option<(u32, u32)>,
    /// Inner loops by position, and the range of theirs that becomes lanes.
    pub(crate) inner: Vec<(usize, u32)>,
}

/// Ranges that become lanes, none inside of another: each is worth more than all that it excludes further in.
fn choose_vector(survey: &Survey, target: &Target) -> VectorChoice {
    let wishes: Vec<Option<(f64, u32)>> =
        survey.inner.iter().map(|inner| best_inner_range(survey, target, inner)).collect();
    // Loops that stand around others first.
    let mut order: Vec<usize> = (0..survey.inner.len()).collect();
    order.sort_by_key(|&number| survey.inner[number].depends.iter().count());
    let worth_inside = |id: u32, excluded: &dyn Fn(&InnerLoops) -> bool| -> f64 {
        let inside = order.iter().filter(|&&number| {
            let inner = &survey.inner[number];
            // Loops that have the range in common lose the lanes that they would rather have.
            let wants_other = wishes[number].is_some_and(|(_, wished)| wished != id);
            inner.is_inside(id) && wants_other && !excluded(inner)
        });
        inside.filter_map(|&number| wishes[number].map(|(score, _)| score)).sum()
    };
    let output = best_output_range(survey, target)
        .filter(|(score, id)| {
            *score >= worth_inside(*id, &|_| false) || saves_more_outside(survey, target, *id, &wishes)
        })
        .map(|(_, id)| (id, lanes_of_square(survey, target, id, survey.lanes(target, id, survey.most(id)))));
    let mut lanes: Vec<u32> = output.iter().map(|(id, _)| *id).collect();
    let mut choice = VectorChoice { output, inner: Vec::new() };
    for &number in &order {
        let Some((score, id)) = wishes[number] else { continue };
        let excluded = |inner: &InnerLoops| lanes.iter().any(|lane| inner.is_inside(*lane));
        if !excluded(&survey.inner[number]) && score >= worth_inside(id, &excluded) {
            lanes.push(id);
            choice.inner.push((number, id));
        }
    }
    choice
}

/// Whether lanes along an output range save more cycles than those that the loops inside wish for, though what they load lies apart: of short rows, lanes inside are few
/// and sums across them many. The lines of so many rows must stay in the nearest cache until their ends are read.
fn saves_more_outside(survey: &Survey, target: &Target, id: u32, wishes: &[Option<(f64, u32)>]) -> bool {
    let lanes = survey.lanes(target, id, survey.most(id));
    let bytes_apart = |access: &AccessPattern| {
        let step = access.steps.get(&id).map_or(0, |step| step.unsigned_abs());
        step.saturating_mul(access.bytes as u64).saturating_mul(u64::from(lanes))
    };
    let stays_near =
        |access: &AccessPattern| !access.irregular.contains(id) && bytes_apart(access) <= target.cache_l1_bytes / 2;
    if target.blocks.is_some() || !survey.accesses.iter().all(stays_near) {
        return false;
    }
    let inside = survey.inner.iter().zip(wishes).filter(|(inner, _)| inner.is_inside(id));
    let saved_inside = inside.filter_map(|(inner, wish)| {
        let own = wish.map(|(_, wished)| wished).filter(|wished| *wished != id)?;
        let len = survey.inner_len(inner, own);
        let terms: f64 = inner.ranges.iter().map(|range| survey.inner_len(inner, range_id(range)) as f64).product();
        let sums = if inner.is_local_buffer { 0.0 } else { inner.weight / terms.max(1.0) };
        let in_lanes =
            survey.cycles_saved_by_lanes(own, survey.lanes(target, own, len)) * fullness(survey, target, own, len);
        Some(in_lanes - sums * ACROSS)
    });
    let outside = survey.cycles_saved_by_lanes(id, lanes) * fullness(survey, target, id, survey.most(id));
    outside > saved_inside.sum::<f64>()
}

fn best_output_range(survey: &Survey, target: &Target) -> Option<(f64, u32)> {
    let mut best: Option<(f64, bool, u32)> = None;
    // Where too much lies apart, lanes are still worth it for what is computed; but rather those that loops inside wish for.
    let mut computing: Option<(f64, u32)> = None;
    for range in &survey.outputs {
        let (id, most) = (range_id(range), survey.most(range_id(range)));
        let lanes = survey.lanes(target, id, most);
        let follows = |access: &AccessPattern| !access.is_store || !access.irregular.contains(id);
        if most < 2 || lanes < 2 || !survey.accesses.iter().all(follows) {
            continue;
        }
        let fullness = fullness(survey, target, id, most);
        let in_order = survey.lane_score(id, |access| survey.is_concerned(access, id));
        let score = (in_order + score_of_turned(survey, target, id)) * fullness;
        // Of what crosses memory, stores go along it: a tile turns loads around.
        let is_stored_along = survey.accesses.iter().any(|access| access.is_store && access.steps.get(&id) == Some(&1));
        if score > 0.0
            && best.is_none_or(|(other, along, _)| score > other || score == other && is_stored_along >= along)
        {
            best = Some((score, is_stored_along, id));
        }
        let saved = survey.cycles_saved_by_lanes(id, lanes) * fullness;
        if saved > 0.0 && computing.is_none_or(|(other, _)| saved >= other) {
            computing = Some((saved, id));
        }
    }
    let best = best.map(|(score, _, id)| (score, id));
    best.or(computing.map(|(_, id)| (0.0, id)).filter(|_| target.blocks.is_none()))
}

/// How much of a vector the range fills, at most 1.
fn fullness(survey: &Survey, target: &Target, id: u32, len: i64) -> f64 {
    let full = survey.full_lanes(target, id) as f64;
    let len = len as f64;
    // A range that fills vectors unevenly does some work twice.
    let used = len / ((len / full).ceil() * full);
    if len >= full { used.max(0.5) } else { len / full }
}

/// The part of a reduction over lanes that is left beside summing up the lanes: of a short one, as of the places of a window, that is most of it.
fn beside_its_sum(survey: &Survey, inner: &InnerLoops, lanes: u32) -> f64 {
    if inner.is_local_buffer {
        return 1.0;
    }
    let terms: f64 = inner.ranges.iter().map(|range| survey.inner_len(inner, range_id(range)) as f64).product();
    let steps = terms / f64::from(lanes);
    steps / (steps + STEPS_OF_SUM)
}

fn best_inner_range(survey: &Survey, target: &Target, inner: &InnerLoops) -> Option<(f64, u32)> {
    let mut best: Option<(f64, u32)> = None;
    for range in &inner.ranges {
        let id = range_id(range);
        let len = survey.inner_len(inner, id);
        // Partial results are combined in memory one block after the other.
        if inner.is_local_buffer && is_reduce(range) {
            continue;
        }
        if len < 4 || survey.lanes(target, id, len) < 2 {
            continue;
        }
        let score = survey.lane_score(id, |access| survey.is_concerned(access, id))
            * fullness(survey, target, id, len)
            * beside_its_sum(survey, inner, survey.lanes(target, id, len));
        if score > 0.0 && best.is_none_or(|(other, _)| score >= other) {
            best = Some((score, id));
        }
    }
    best
}

fn apply_tile(choice: &mut Attempts<'_>, survey: &Survey, tile: &Tile, vector_id: u32, lanes: u32) {
    // A thread has one vector where nothing is reused: other threads are as good as more vectors.
    let is_worth_more = choice.target.blocks.is_none() || !survey.inner.is_empty();
    if tile.vectors >= 2 && survey.len(vector_id) > lanes as i64 && is_worth_more {
        // Fewer, where scratch would not hold so many copies.
        let mut times = tile.vectors;
        while times >= 2 && !choice.attempt(Opt::Upcast { range: vector_id, times }) {
            times /= 2;
        }
    }
    if let Some((id, rows)) = tile.row {
        choice.attempt(Opt::Upcast { range: id, times: rows });
        // Rows innermost: the panel of the operand that the rows share stays in cache while they pass. Not where something is
        // computed once for a row: it would be computed once for each panel of it.
        // What is kept for a block of results is filled in the loops outside of both.
        let around = |inner: &InnerLoops| survey.outputs.iter().any(|range| inner.is_inside(range_id(range)));
        let once = |inner: &InnerLoops| inner.is_inside(id) || inner.is_local_buffer && around(inner);
        let once_a_row = survey.inner.iter().any(|inner| !inner.is_inside(vector_id) && once(inner));
        // Threads of a block have neighbouring vectors.
        if tile.vectors > 1 && !once_a_row && choice.target.blocks.is_none() {
            choice.attempt(Opt::Outermost { range: vector_id });
        }
    }
}

/// Where stores walk memory in steps along the lanes and a short loop has what lies between, its iterations become copies: together they fill
/// whole vectors (`legalize::interleaved`).
pub(crate) fn fill_between(choice: &mut Attempts<'_>, survey: &Survey, lane: u32) {
    let stores = survey.accesses.iter().filter(|access| access.is_store && access.depends.contains(lane));
    let mut between: Vec<(u32, i64)> = Vec::new();
    for store in stores {
        let step = store.steps.get(&lane).copied().unwrap_or(0);
        let fills = |id: &u32| store.steps.get(id) == Some(&1) && survey.len(*id) == step;
        let found = survey.ranges.keys().copied().filter(fills).min();
        let Some(id) = found.filter(|_| (2..=BETWEEN_MAX).contains(&step)) else { continue };
        if !between.contains(&(id, step)) {
            between.push((id, step));
        }
    }
    for (range, step) in between {
        choice.attempt(Opt::Upcast { range, times: step as u32 });
    }
}

/// Tiles that cross memory are done block by block. Along a whole row of tiles, the lines that the processor fetches beside those
/// asked for would be gone before their turn came.
fn walk_in_blocks(choice: &mut Attempts<'_>, survey: &Survey, sides: [(u32, u32); 2]) {
    let tiles = sides.map(|(id, part)| survey.len(id) / part as i64);
    // What is computed once for a row would be computed again in each block of it.
    if !survey.inner.is_empty() || tiles.iter().any(|count| *count < 2 * BLOCK_TILES as i64) {
        return;
    }
    for (id, _) in sides {
        choice.attempt(Opt::Split { range: id, len: BLOCK_TILES });
    }
    for (id, _) in sides.iter().rev() {
        choice.attempt(Opt::Outermost { range: *id });
    }
}

fn choose_threads(choice: &mut Attempts<'_>, survey: &Survey, target: &Target) {
    if let Some(blocks) = &target.blocks {
        return map_onto_blocks(choice, blocks);
    }
    if target.threads < 2 {
        return;
    }
    let least = target.costs.second_thread_ops;
    if survey.work < f64::from(least) {
        choice.reasons.push(format!("one thread: {:.0} operations are less than {least}", survey.work));
        return;
    }
    let Some(store) = choice.kernel.src().first().cloned() else { return };
    let loops: Vec<UOp> = closed_ranges(&store)
        .iter()
        .filter(|range| !is_reduce(range) && range.as_range().is_some_and(|arg| arg.kind == crate::ir::AxisKind::Loop))
        .cloned()
        .collect();
    let lens: Vec<i64> = loops.iter().map(|range| range.src()[0].max_value()).collect();
    let enough = i64::from(target.threads * SHARES_PER_THREAD);
    match (loops.as_slice(), lens.as_slice()) {
        ([first, second, ..], [len, _, ..]) if *len < enough => {
            let pair = Opt::ThreadPair { range: range_id(first), inner: range_id(second) };
            if !choice.attempt(pair) {
                choice.attempt(Opt::Thread { range: range_id(first) });
            }
        }
        ([first, ..], _) => {
            choice.attempt(Opt::Thread { range: range_id(first) });
        }
        ([], _) => choice.reasons.push("one thread: no loop over outputs is left".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::text::parse;
    use crate::optimize::Opts;
    use crate::pipeline::loops_of;
    use crate::watch::Silent;

    /// The opts of the sum of what is made of `x` [rows, terms], along its rows.
    fn sums(rows: i64, terms: i64, value: &str) -> String {
        let text = format!(
            "graph %rows(y: f32[{rows}], x: f32[{rows}, {terms}]) {{
{value}
  s = reduce v, add (1)
  l = log2 s
  done = store y, l
  k = sink done
  return k
}}"
        );
        let ast = parse(&text).expect("a graph").roots[0].clone();
        Opts::List(choose(&loops_of(&ast, &mut Silent), &Target::test_avx512()).applied).to_string()
    }

    #[test]
    fn short_rows_of_much_to_compute_are_lanes() {
        for terms in [5, 7, 10] {
            let opts = sums(4000, terms, "  v = exp2 x");
            assert!(opts.starts_with("vectorize(r0, 16)"), "rows of {terms}: {opts}");
        }
        assert!(sums(4000, 64, "  v = exp2 x").contains("vectorize(r1, 16)"), "terms fill vectors");
        assert!(sums(4000, 32, "  v = mul x, x").contains("vectorize(r1, 16)"), "little to compute");
    }

    #[test]
    fn rows_whose_lines_do_not_stay_near_are_no_lanes() {
        // 16 rows of 24 places of which 5 are read: 1.5 KB; of 500 places: 32 KB.
        let text = |places: i64| {
            format!(
                "graph %rows(y: f32[4000], x: f32[4000, {places}]) {{
  w = shrink x, [0:4000, 0:5]
  v = exp2 w
  s = reduce v, add (1)
  done = store y, s
  k = sink done
  return k
}}"
            )
        };
        let opts = |places: i64| {
            let ast = parse(&text(places)).expect("a graph").roots[0].clone();
            Opts::List(choose(&loops_of(&ast, &mut Silent), &Target::test_avx512()).applied).to_string()
        };
        assert!(opts(24).starts_with("vectorize(r0, 16)"), "{}", opts(24));
        assert!(!opts(500).starts_with("vectorize(r0, 16)"), "{}", opts(500));
    }
}
