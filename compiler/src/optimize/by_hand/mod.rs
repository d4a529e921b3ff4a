//! The choice by hand: which opts a kernel gets when nobody searches.
//!
//! It reads the kernel as *accesses*: each load or store with the step its address makes along each range, and a weight, how
//! often it runs. Then, in this order:
//!
//! 0. Loops over groups become two (`groups`). Products of matrices by blocks, where these are better than what follows (`product`), convolutions of narrow numbers by panels in groups of terms (`tile_panels`, `dot_panels`), and contractions of more terms than caches
//!    hold by blocks of these (`panel_blocks`, `term_blocks`), those whose results lie in short rows with the other operand's rows as lanes (`row_lanes`): then nothing else is done.
//!    Loops over blocks outside of the loops that what they keep does not depend on (`blocks_outside`). Panels of what many rows read awkwardly (`panels`), frames of
//!    windows that few read (`windows`) or some rows share (`frames`). Loops whose iterations choose among values become straight-line code (`choices`), loops are cut where something is decided (`cuts`), and split where iterations take turns (`turns`). Vectors go on into the next
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
//! 5. Threads share the outermost loop, where there is work for them, or own rows that a loop over sources names (`owners`); loops over outputs become blocks of threads, where the machine has them (`gpu`).
//!
//! Where blocks of threads run, a thread makes no copies for itself, cuts no loops at padding, and walks in no order of blocks: steps 1 and those parts of 3 are left out.
//!
//! A symbolic range counts with the length that it has in any case as an output, with its largest as a reduction and as threads'
//! work. The model's numbers are those of `Target`; times are measured by the benchmark, not here.

mod blocks_outside;
mod choices;
pub(super) mod contraction;
mod copies;
mod crossing;
pub(super) mod cuts;
mod gpu;
mod groups;
mod lanes;
mod owners;
mod parts;
mod repeated;
mod survey;
mod tile;

use crate::ir::{MemorySpace, UOp};
use crate::kernel::effects::replaces_what_was_read;
use crate::kernel::local_buffers::scratch_bytes;
use crate::kernel::ranges::{closed_ranges, range_id};
use crate::optimize::apply::apply;
use crate::optimize::opt::Opt;
use crate::optimize::transforms::nesting::between;
use crate::optimize::transforms::split::is_reduce;
use crate::target::Target;
use blocks_outside::move_blocks_outside;
use choices::unroll_choices;
use copies::dot_panels::copy_dot_panel;
use copies::frames::frame_for_rows;
use copies::pack::{TileLoops, compute_rows};
use copies::panel_blocks::make_panel_blocks;
use copies::panels::copy_panel;
use copies::product::make_blocks;
use copies::row_blocks::pack_for_row_blocks;
use copies::row_lanes::make_row_lanes;
use copies::term_blocks::make_term_blocks;
use copies::tile_panels::copy_tile_panel;
use copies::windows::tile_windows;
use crossing::fill_lines;
use cuts::{cut_decided, vectorize_parts};
use gpu::blocks::{map_onto_blocks, overlaps, work_together};
use gpu::window_rows::share_windows;
use groups::split_groups;
use lanes::inner_lanes::vectorize_inner;
use lanes::interleave::interleave_scans;
use lanes::local_buffers::add_local_buffer;
use lanes::ranges::choose_vector;
use lanes::short_rows::join_short_rows;
use lanes::turns::split_turns;
use owners::share_rows;
use parts::share_parts;
use repeated::move_repeating_inside;
use survey::{AccessPattern, InnerLoops, Survey};
use tile::{Tile, choose_tile, rows_of_kept};

/// Stages that may be added to a kernel.
const STAGES_MAX: usize = 4;
/// Ops of a straight elementwise body after it was repeated for several vectors.
pub(crate) const UNROLLED_OPS_MAX: u32 = 128;
/// What a loop over vectors takes in each iteration beside them, as so many vectors.
const LOOP_OF_VECTORS: f64 = 0.5;
/// Iterations of shared loops that a thread should have, for a balance.
pub(crate) const SHARES_PER_THREAD: u32 = 4;
/// Shares that a thread takes one after the other: so many are made of a loop (`devices::cpu::threads`).
const SHARES_MADE: f64 = 8.0;
/// Iterations of a short loop, at most, that fill what lies between lanes: of more, `legalize::interleaved` makes no whole vectors.
const BETWEEN_MAX: i64 = 4;
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
    /// Bytes of shared memory that a block gets.
    pub(crate) shared_bytes: u64,
}

/// Bytes of shared memory of a block: of such two stand on a multiprocessor, and one computes while the other waits.
pub(crate) const SHARED_OF_TWO: u64 = 96 << 10;

impl Attempts<'_> {
    fn made(self) -> Choice {
        let Attempts { kernel, applied, reasons, .. } = self;
        Choice { kernel, applied, reasons }
    }

    /// Applies opts that belong together: if one of them is refused, none is applied. Whether they were.
    pub(crate) fn all_or_none(&mut self, apply_all: impl FnOnce(&mut Self) -> Option<()>) -> bool {
        let (before, applied) = (self.kernel.clone(), self.applied.len());
        let is_done = apply_all(self).is_some();
        if !is_done {
            self.kernel = before;
            self.applied.truncate(applied);
        }
        is_done
    }

    /// Something done where a block gets all the shared memory that there is.
    pub(crate) fn with_all_memory<T>(&mut self, attempts: impl FnOnce(&mut Self) -> T) -> T {
        let before = self.shared_bytes;
        self.shared_bytes = u64::MAX;
        let done = attempts(self);
        self.shared_bytes = before;
        done
    }

    pub(crate) fn attempt(&mut self, opt: Opt) -> bool {
        if self.target.blocks.is_some() && overlaps(&self.kernel, &opt) {
            self.reasons.push(format!("{opt}: two threads would store what overlaps"));
            return false;
        }
        match apply(&self.kernel, &opt, self.target) {
            Ok(kernel)
                if self.target.blocks.is_some() && scratch_bytes(&kernel, MemorySpace::Shared) > self.shared_bytes =>
            {
                self.reasons.push(format!("{opt}: fewer blocks would stand on a multiprocessor"));
                false
            }
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
        shared_bytes: SHARED_OF_TWO,
    };
    if prepare(&mut choice, &mut survey) {
        return choice.made();
    }
    let of_few_threads = target.blocks.is_none();
    let mut vector = choose_vector(&survey, target);
    if !of_few_threads && share_windows(&mut choice, &survey) {
        vector.output = None;
    }
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
    if make_blocks(choice)
        || copy_tile_panel(choice)
        || copy_dot_panel(choice)
        || make_row_lanes(choice)
        || make_panel_blocks(choice)
        || make_term_blocks(choice)
    {
        return true;
    }
    let has_copies =
        move_blocks_outside(choice) || frame_for_rows(choice) || copy_panel(choice) || tile_windows(choice);
    let has_parts = unroll_choices(choice) | cut_decided(choice);
    if split_turns(choice) || has_groups || has_copies || has_parts {
        *survey = Survey::of(&choice.kernel);
    }
    if join_short_rows(choice, survey, target) {
        choose_threads(choice, survey, target);
        return true;
    }
    false
}

fn apply_tile(choice: &mut Attempts<'_>, survey: &Survey, tile: &Tile, vector_id: u32, lanes: u32) {
    // A thread has one vector where nothing is reused: other threads are as good as more vectors.
    let is_worth_more = choice.target.blocks.is_none() || !survey.inner.is_empty();
    if tile.vectors >= 2 && survey.len(vector_id) > lanes as i64 && is_worth_more {
        let mut times = tile.vectors;
        let in_place = || choice.kernel.src().iter().any(replaces_what_was_read);
        if choice.target.blocks.is_none() && survey.inner.is_empty() && in_place() {
            times = vectors_in_place(survey.len(vector_id), i64::from(lanes), times);
        }
        // Fewer, where scratch would not hold so many copies.
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
            for range in loops_of_panel(survey, id, vector_id) {
                choice.attempt(Opt::Outermost { range });
            }
        }
    }
}

/// Vectors beside each other, of at most so many, where none may be stored twice: elements that whole tiles leave over are stored one by one.
fn vectors_in_place(len: i64, lanes: i64, most: u32) -> u32 {
    let steps = |times: &u32| {
        let tile = lanes * i64::from(*times);
        (len / tile) as f64 * (f64::from(*times) + LOOP_OF_VECTORS) + (len % tile) as f64
    };
    (1..=most).rev().min_by(|a, b| steps(a).total_cmp(&steps(b))).unwrap_or(1)
}

/// Loops inside of that over rows along which the operand that rows share differs, innermost first: in each of their iterations another panel passes. Heads stand inside of rows
/// where what attention comes to is stored by rows: `[batch, row, head, column]`.
fn loops_of_panel(survey: &Survey, rows: u32, columns: u32) -> Vec<u32> {
    let inside = survey.outputs.iter().map(range_id).skip_while(|id| *id != rows).skip(1);
    let is_of_terms = |access: &AccessPattern| {
        survey.inner.iter().flat_map(|inner| &inner.ranges).any(|term| access.depends.contains(range_id(term)))
    };
    let is_shared = |access: &&AccessPattern| {
        let is_of_columns = access.depends.contains(columns) && !access.depends.contains(rows);
        !access.is_store && is_of_columns && is_of_terms(access)
    };
    let is_of_panel = |id: &u32| {
        *id != columns && survey.accesses.iter().filter(is_shared).any(|access| access.depends.contains(*id))
    };
    let mut loops: Vec<u32> = inside.filter(is_of_panel).collect();
    loops.reverse();
    loops
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

/// Threads share a loop; where lanes or copies of the loops before it stand around it, it is brought outside of them. Not where what is computed once, before the loop, would take longer in each share
/// than the threads save: of a softmax over the rows of a few columns, all but the last division.
fn share_loop(choice: &mut Attempts<'_>, survey: &Survey, range: u32) {
    let once: f64 = survey.inner.iter().filter(|inner| !inner.is_inside(range)).map(|inner| inner.weight).sum();
    let threads = f64::from(choice.threads);
    if once * SHARES_MADE + (survey.work - once) / threads >= survey.work {
        let reason = format!("thread(r{range}): each share would repeat {once:.0} of {:.0} operations", survey.work);
        return choice.reasons.push(reason);
    }
    let thread = Opt::Thread { range };
    if !choice.attempt(thread.clone()) {
        choice.all_or_none(|choice| (choice.attempt(Opt::Outermost { range }) && choice.attempt(thread)).then_some(()));
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
    if share_rows(choice, survey) {
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
            let repeats = !between(&choice.kernel, first, second).is_empty();
            if !(!repeats && choice.attempt(pair) || share_parts(choice, first, second)) {
                share_loop(choice, survey, range_id(first));
            }
        }
        ([first, ..], _) => share_loop(choice, survey, range_id(first)),
        ([], _) => choice.reasons.push("one thread: no loop over outputs is left".to_string()),
    }
}
