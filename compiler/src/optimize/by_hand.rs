//! The choice by hand: which opts a kernel gets when nobody searches.
//!
//! It reads the kernel as *accesses*: each load or store with the step its address makes along each range, and a weight, how
//! often it runs. Then, in this order:
//!
//! 1. The vector range: the output range along which most accesses (by weight) are consecutive or constant. Folds that do not
//!    depend on it, or kernels where a reduce range is better, get one of their reduce ranges.
//! 2. The register tile: along the vector range several vectors, and along one more output range several rows, when some load does not
//!    depend on that range and so is reused. The tile's accumulators fit three quarters of the vector registers.
//! 3. A fold over lanes gets several accumulators, since an add takes about four cycles and two start in each.
//! 4. Threads share the outermost loop, where there is work for them.
//!
//! The model's numbers are those of `Target`; times are measured by the benchmark, not here.

use rustc_hash::FxHashMap;

use super::apply::{apply, is_reduce};
use super::opt::Opt;
use crate::ir::{Op, UOp};
use crate::kernel::loops::{ranges_by_id, trip_count};
use crate::kernel::ranges::{Dependencies, RangeSet, closed_ranges, range_id};
use crate::symbolic::linear_terms;
use crate::target::Target;

/// Ops of a straight elementwise body after it was repeated for several vectors.
const UNROLLED_OPS_MAX: u32 = 128;
/// Tiles along each side of a block that crosses memory.
const BLOCK_TILES: u32 = 4;
/// Least element operations in a kernel for a second thread to be worth its start: about 20 us of work.
const PARALLEL_WORK_MIN: f64 = 65_536.0;

/// Opts tried, and what became of each.
pub struct Choice {
    /// The optimized kernel.
    pub kernel: UOp,
    /// The opts that were applied.
    pub applied: Vec<Opt>,
    /// Opts that were refused or thought of and left, with the reason.
    pub reasons: Vec<String>,
}

impl Choice {
    fn attempt(&mut self, opt: Opt) -> bool {
        match apply(&self.kernel, opt) {
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

/// One load or store.
struct Access {
    steps: FxHashMap<u32, i64>,
    /// Ranges that its address depends on in another way than by a constant step.
    irregular: RangeSet,
    depends: RangeSet,
    is_store: bool,
    bytes: usize,
    weight: f64,
}

/// A kernel as accesses, output ranges and folds.
struct Survey {
    accesses: Vec<Access>,
    outputs: Vec<UOp>,
    folds: Vec<FoldLoops>,
    ranges: FxHashMap<u32, UOp>,
    work: f64,
    /// Elementwise ops, each counted once however often it runs.
    body_ops: u32,
    element_bytes: usize,
}

/// Folds that share their ranges.
struct FoldLoops {
    ranges: Vec<UOp>,
    /// What the values depend on, the folds' own ranges included.
    depends: RangeSet,
    count: usize,
    weight: f64,
}

impl Survey {
    fn of(root: &UOp) -> Survey {
        let dependencies = Dependencies::of(root);
        let ranges = ranges_by_id(root);
        let trips = |set: &RangeSet| trip_count(set.iter().filter_map(|id| ranges.get(&id).cloned()));
        let mut survey = Survey {
            accesses: Vec::new(),
            outputs: Vec::new(),
            folds: Vec::new(),
            ranges: ranges.clone(),
            work: 0.0,
            body_ops: 0,
            element_bytes: 1,
        };
        for node in &dependencies.order {
            match node.op() {
                Op::Load | Op::Store => survey.add_access(node, &dependencies, &trips),
                Op::Fold => survey.add_fold(node, &dependencies, &trips),
                op if op.is_elementwise() && !node.dtype().is_index() => {
                    survey.work += trips(dependencies.get(node));
                    survey.body_ops += 1;
                }
                _ => {}
            }
            if node.op() == Op::Store && closed_ranges(node).len() > survey.outputs.len() {
                survey.outputs = closed_ranges(node).to_vec();
            }
        }
        survey
    }

    fn add_access(&mut self, node: &UOp, dependencies: &Dependencies, trips: &dyn Fn(&RangeSet) -> f64) {
        let offset = &node.src()[0].src()[1];
        let is_store = node.op() == Op::Store;
        let depends = if is_store { open_ranges(node, dependencies) } else { dependencies.get(node).clone() };
        let mut access = Access {
            steps: FxHashMap::default(),
            irregular: RangeSet::default(),
            weight: trips(&depends),
            depends,
            is_store,
            bytes: node.src()[0].dtype().bytes(),
        };
        for (term, factor) in linear_terms(offset).0 {
            if term.op() == Op::Range {
                *access.steps.entry(range_id(&term)).or_default() += factor;
            } else {
                access.irregular.union_with(Dependencies::of(&term).get(&term));
            }
        }
        self.element_bytes = self.element_bytes.max(access.bytes);
        self.work += access.weight;
        self.accesses.push(access);
    }

    fn add_fold(&mut self, node: &UOp, dependencies: &Dependencies, trips: &dyn Fn(&RangeSet) -> f64) {
        let depends = open_ranges(node, dependencies);
        let weight = trips(&depends);
        self.work += weight;
        let ranges = closed_ranges(node).to_vec();
        match self.folds.iter_mut().find(|fold| fold.ranges == ranges) {
            Some(fold) => {
                fold.count += 1;
                fold.depends.union_with(&depends);
                fold.weight += weight;
            }
            None => self.folds.push(FoldLoops { ranges, depends, count: 1, weight }),
        }
    }

    /// How good a range would be as lanes, for the accesses that `concerns` admits: positive if more is consecutive than strided.
    fn lane_score(&self, id: u32, concerns: impl Fn(&Access) -> bool) -> f64 {
        let score = |access: &Access| {
            if access.irregular.contains(id) {
                return -1.0;
            }
            match access.steps.get(&id) {
                Some(1) => 1.0,
                Some(0) | None => 0.4,
                Some(_) => -0.6,
            }
        };
        let concerned = self.accesses.iter().filter(|access| concerns(access));
        concerned.map(|access| score(access) * access.weight).sum()
    }

    fn len(&self, id: u32) -> i64 {
        self.ranges.get(&id).and_then(|range| range.src()[0].as_int()).unwrap_or(0)
    }

    fn lanes(&self, target: &Target, len: i64) -> u32 {
        let full = (target.vector_bytes as usize / self.element_bytes).max(1) as i64;
        let mut lanes = full;
        while lanes > len {
            lanes /= 2;
        }
        lanes.max(1) as u32
    }
}

/// The ranges that are open inside a closer.
fn open_ranges(closer: &UOp, dependencies: &Dependencies) -> RangeSet {
    let mut set = dependencies.get(closer).clone();
    for range in closed_ranges(closer) {
        set.insert(range_id(range));
    }
    set
}

/// Chooses and applies opts.
pub fn choose(root: &UOp, target: &Target) -> Choice {
    let mut choice = Choice { kernel: root.clone(), applied: Vec::new(), reasons: Vec::new() };
    let survey = Survey::of(root);
    let vector = choose_vector(&survey, target);
    if let Some((id, lanes)) = vector.output
        && choice.attempt(Opt::Vectorize { range: id, lanes })
    {
        let tile = choose_tile(&survey, target, id, lanes);
        apply_tile(&mut choice, &survey, &tile, id, lanes);
        if let (true, Some((row, rows))) = (tile.crosses, tile.row) {
            walk_in_blocks(&mut choice, &survey, [(row, rows), (id, lanes)]);
        }
    }
    for (fold, id) in &vector.folds {
        vectorize_fold(&mut choice, &survey, target, &survey.folds[*fold], *id);
    }
    choose_threads(&mut choice, &survey, target);
    choice
}

#[derive(Default)]
struct VectorChoice {
    /// An output range and its lanes.
    output: Option<(u32, u32)>,
    /// Fold loops by position, and the reduce range that becomes lanes.
    folds: Vec<(usize, u32)>,
}

fn choose_vector(survey: &Survey, target: &Target) -> VectorChoice {
    // What an output range as lanes is worth, against each fold having lanes of its own.
    let mut best_output: Option<(f64, u32)> = None;
    for range in &survey.outputs {
        let id = range_id(range);
        if survey.len(id) < 2 || survey.lanes(target, survey.len(id)) < 2 {
            continue;
        }
        let stores_follow = survey.accesses.iter().all(|access| !access.is_store || !access.irregular.contains(id));
        let concerned = |access: &Access| {
            access.depends.contains(id)
                || survey.folds.iter().any(|fold| {
                    fold.depends.contains(id) && fold.ranges.iter().any(|own| access.depends.contains(range_id(own)))
                })
        };
        let fullness = fullness(survey, target, id);
        let score = survey.lane_score(id, concerned) * fullness;
        if stores_follow && score > 0.0 && best_output.is_none_or(|(best, _)| score >= best) {
            best_output = Some((score, id));
        }
    }
    let fold_choice: Vec<Option<(f64, u32)>> =
        survey.folds.iter().map(|fold| best_fold_range(survey, target, fold)).collect();
    let fold_total: f64 = survey
        .folds
        .iter()
        .zip(&fold_choice)
        .filter(|(fold, _)| best_output.is_some_and(|(_, id)| fold.depends.contains(id)))
        .filter_map(|(_, choice)| choice.map(|(score, _)| score))
        .sum();
    let output = best_output.filter(|(score, _)| *score >= fold_total).map(|(_, id)| id);
    let free = |fold: &FoldLoops| output.is_none_or(|id| !fold.depends.contains(id));
    let folds = (0..survey.folds.len())
        .filter(|&number| free(&survey.folds[number]))
        .filter_map(|number| fold_choice[number].map(|(_, id)| (number, id)))
        .collect();
    VectorChoice { output: output.map(|id| (id, survey.lanes(target, survey.len(id)))), folds }
}

/// How much of a vector the range fills, at most 1.
fn fullness(survey: &Survey, target: &Target, id: u32) -> f64 {
    let full = (target.vector_bytes as usize / survey.element_bytes).max(1) as f64;
    let len = survey.len(id) as f64;
    // A range that fills vectors unevenly does some work twice.
    let used = len / ((len / full).ceil() * full);
    if len >= full { used.max(0.5) } else { len / full }
}

fn best_fold_range(survey: &Survey, target: &Target, fold: &FoldLoops) -> Option<(f64, u32)> {
    let mut best: Option<(f64, u32)> = None;
    for range in &fold.ranges {
        let id = range_id(range);
        if survey.len(id) < 4 || survey.lanes(target, survey.len(id)) < 2 {
            continue;
        }
        let score = survey.lane_score(id, |access| access.depends.contains(id)) * fullness(survey, target, id);
        if score > 0.0 && best.is_none_or(|(other, _)| score >= other) {
            best = Some((score, id));
        }
    }
    best
}

/// A register tile: vectors along the vector range, rows along another.
#[derive(Default)]
struct Tile {
    vectors: u32,
    row: Option<(u32, u32)>,
    /// Whether loads walk memory along the rows and stores along the vectors.
    crosses: bool,
}

fn choose_tile(survey: &Survey, target: &Target, vector_id: u32, lanes: u32) -> Tile {
    let budget = target.vector_registers * 3 / 4;
    let vectors_in_range = (survey.len(vector_id) as u32).div_ceil(lanes);
    let main = survey
        .folds
        .iter()
        .filter(|fold| fold.depends.contains(vector_id))
        .max_by(|a, b| a.weight.total_cmp(&b.weight));
    let Some(fold) = main else { return copy_tile(survey, vector_id, lanes) };
    let per_fold = (budget / fold.count as u32).max(1);
    let reused = |id: u32| -> f64 {
        let inside = |access: &&Access| fold.ranges.iter().any(|range| access.depends.contains(range_id(range)));
        survey
            .accesses
            .iter()
            .filter(inside)
            .filter(|access| !access.depends.contains(id) && access.depends.contains(vector_id))
            .map(|access| access.weight)
            .sum()
    };
    let row = survey
        .outputs
        .iter()
        .map(range_id)
        .filter(|id| *id != vector_id && fold.depends.contains(*id) && survey.len(*id) >= 2)
        .map(|id| (reused(id), id))
        .filter(|(reuse, _)| *reuse > 0.0)
        .max_by(|a, b| a.0.total_cmp(&b.0));
    match row {
        Some((_, id)) => {
            let vectors = vectors_in_range.min(4).min(per_fold);
            let vectors = even_part(vectors_in_range, vectors);
            let rows = (per_fold / vectors).clamp(1, 14).min(survey.len(id) as u32);
            Tile { vectors, row: (rows >= 2).then_some((id, rows)), crosses: false }
        }
        None => {
            Tile { vectors: even_part(vectors_in_range, vectors_in_range.min(16).min(per_fold)), ..Tile::default() }
        }
    }
}

/// The tile of a kernel without folds on the vector range.
///
/// Where a load walks memory along another output range, as in a transpose, as many steps along that range as there are lanes: the
/// tile then uses the whole of each cache line that its gathers touch. Else a few vectors, which hide the loop.
fn copy_tile(survey: &Survey, vector_id: u32, lanes: u32) -> Tile {
    let vectors = (survey.len(vector_id) as u32).div_ceil(lanes);
    let crossed = |id: u32| {
        let crosses = |access: &&Access| {
            let strided = access.steps.get(&vector_id).is_some_and(|step| step.abs() > 1);
            !access.is_store && strided && access.steps.get(&id).is_some_and(|step| step.abs() == 1)
        };
        survey.accesses.iter().any(|access| crosses(&access))
    };
    let across =
        survey.outputs.iter().map(range_id).find(|id| *id != vector_id && survey.len(*id) >= 2 && crossed(*id));
    match across {
        Some(id) => Tile { vectors: 1, row: Some((id, lanes.min(survey.len(id) as u32))), crosses: true },
        None => {
            // A long body hides the loop by itself, and code generation takes time by its length.
            let most = (UNROLLED_OPS_MAX / survey.body_ops.max(1)).clamp(1, 4);
            Tile { vectors: vectors.min(most), row: None, crosses: false }
        }
    }
}

/// A part of at most `most` that divides `len`, if there is one not much smaller; else `most`.
fn even_part(len: u32, most: u32) -> u32 {
    let even = (most.div_ceil(2).max(1)..=most).rev().find(|part| len.is_multiple_of(*part));
    even.unwrap_or(most).max(1)
}

fn apply_tile(choice: &mut Choice, survey: &Survey, tile: &Tile, vector_id: u32, lanes: u32) {
    if tile.vectors >= 2 && survey.len(vector_id) > lanes as i64 {
        choice.attempt(Opt::Upcast { range: vector_id, times: tile.vectors });
    }
    if let Some((id, rows)) = tile.row {
        choice.attempt(Opt::Upcast { range: id, times: rows });
        // Rows innermost: the panel of the operand that the rows share stays in cache while they pass.
        if tile.vectors > 1 {
            choice.attempt(Opt::Outermost { range: vector_id });
        }
    }
}

/// Tiles that cross memory are done block by block. Along a whole row of tiles, the lines that the processor fetches beside those
/// asked for would be gone before their turn came.
fn walk_in_blocks(choice: &mut Choice, survey: &Survey, sides: [(u32, u32); 2]) {
    let tiles = sides.map(|(id, part)| survey.len(id) / part as i64);
    if tiles.iter().any(|count| *count < 2 * BLOCK_TILES as i64) {
        return;
    }
    for (id, _) in sides {
        choice.attempt(Opt::Split { range: id, len: BLOCK_TILES });
    }
    for (id, _) in sides.iter().rev() {
        choice.attempt(Opt::Outermost { range: *id });
    }
}

fn vectorize_fold(choice: &mut Choice, survey: &Survey, target: &Target, fold: &FoldLoops, id: u32) {
    let len = survey.len(id);
    let lanes = survey.lanes(target, len);
    if !choice.attempt(Opt::Vectorize { range: id, lanes }) {
        return;
    }
    let budget = (target.vector_registers / 2 / fold.count as u32).max(1);
    let mut accumulators = 1;
    // Rows that share a load: a tile of up to four by four of them.
    let mut rows: Vec<(f64, u32)> = survey
        .outputs
        .iter()
        .map(range_id)
        .filter(|row| fold.depends.contains(*row) && survey.len(*row) >= 2)
        .map(|row| {
            let shared =
                survey.accesses.iter().filter(|access| access.depends.contains(id) && !access.depends.contains(row));
            (shared.map(|access| access.weight).sum::<f64>(), row)
        })
        .filter(|(shared, _)| *shared > 0.0)
        .collect();
    rows.sort_by(|a, b| b.0.total_cmp(&a.0));
    for (_, row) in rows.into_iter().take(2) {
        let times = 4.min(survey.len(row) as u32).min(budget / accumulators);
        if times >= 2 && choice.attempt(Opt::Upcast { range: row, times }) {
            accumulators *= times;
        }
    }
    let vectors = (len / lanes as i64) as u32;
    let wanted = (8 / accumulators).min(budget / accumulators).min(vectors);
    if wanted >= 2 {
        choice.attempt(Opt::Upcast { range: id, times: even_part(vectors, wanted) });
    }
}

fn choose_threads(choice: &mut Choice, survey: &Survey, target: &Target) {
    if target.threads < 2 {
        return;
    }
    if survey.work < PARALLEL_WORK_MIN {
        choice.reasons.push(format!("one thread: {:.0} operations are less than {PARALLEL_WORK_MIN}", survey.work));
        return;
    }
    let Some(store) = choice.kernel.src().first().cloned() else { return };
    let loops: Vec<UOp> = closed_ranges(&store)
        .iter()
        .filter(|range| !is_reduce(range) && range.as_range().is_some_and(|arg| arg.kind == crate::ir::AxisKind::Loop))
        .cloned()
        .collect();
    let lens: Vec<i64> = loops.iter().map(|range| range.src()[0].as_int().unwrap_or(0)).collect();
    let enough = target.threads as i64 * 4;
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
