//! Where loops are cut: at the iterations from which on something that an index or a condition asks of the loop's variable is another constant.
//!
//! ```text
//! for x in 0..800 { where(x < 300, load p[x], load q[x - 300]) }      cut at 300: for x in 0..300 { load p[x] }; for x in 0..500 { load q[x] }
//! for x in 0..700 { load p[(x + 687) % 700] }                         cut at 13: for x in 0..13 { load p[x + 687] }; for x in 0..687 { load p[x] }
//! for x in 0..28, k in 0..3 { load p[x + k - 1] where 0 < x + k < 29 }   cuts at 1 and 27: between them all windows are whole
//! ```
//!
//! A *cut point* is the first iteration of a part. A *condition* is a comparison; one that holds other loops' variables, too, is decided only where it holds
//! whatever these are, and parts where it may not hold are not among [`decided_parts`]. A *digit* is a quotient or a remainder by a constant.
//!
//! The choice by hand cuts a loop along which memory is walked if parts that fill vectors are most of it, and a loop around one that chooses among loads; then each
//! part gets lanes of its own ([`vectorize_parts`]).
//!
//! Not here: how a loop is cut (`peel`). Where cut points are is said in `cut_points`. Tested below, by filetests, and by random lists of the opts that `legal_opts` makes of these points.

mod cut_points;

pub(crate) use cut_points::decided_parts;
pub(super) use cut_points::parts_of;

use cut_points::{CutPoints, parts_and_points};

use crate::ir::{AxisKind, Op, UOp};
use crate::kernel::ranges::{Dependencies, closed_ranges, range_id};
use crate::optimize::by_hand::choices::{OPS_MAX, PARTS_MAX, ops_of_iteration, ops_of_parts};
use crate::optimize::by_hand::contraction::step_of_load;
use crate::optimize::by_hand::survey::Survey;
use crate::optimize::by_hand::{Attempts, SHARES_PER_THREAD, UNROLLED_OPS_MAX, fill_between};
use crate::optimize::opt::Opt;
use crate::optimize::transforms::split::is_reduce;
use crate::symbolic::linear_terms;
use crate::target::Target;

/// Parts of a kernel with reductions: each has a copy of them.
const PARTS_WITH_REDUCTIONS: usize = 3;
/// Elements for which lanes are made of a part.
const LANES_MIN: i64 = 4;

/// Vectors of a row, at most, for which masks are better than parts that are no vectors.
const MASKED_VECTORS: i64 = 8;

/// Cuts loops over outputs where something is decided.
pub(crate) fn cut_decided(choice: &mut Attempts<'_>) -> bool {
    let mut cut = false;
    // Each cut makes other loops, in which more may be decided.
    while cut_once(choice) {
        cut = true;
    }
    cut
}

fn cut_once(choice: &mut Attempts<'_>) -> bool {
    let dependencies = Dependencies::of(&choice.kernel);
    let stores = || dependencies.order.iter().filter(|node| node.op() == Op::Store);
    let has_reductions = dependencies.order.iter().any(|node| node.op() == Op::ReduceRange);
    let mut walked: Vec<UOp> = Vec::new();
    for store in stores() {
        let terms = linear_terms(&store.src()[0].src()[1]).0.into_iter();
        let next = terms.filter(|(term, step)| *step == 1 && closed_ranges(store).contains(term));
        walked.extend(next.map(|(term, _)| term));
    }
    walked.dedup();
    let mut around: Vec<UOp> = Vec::new();
    if !has_reductions {
        around.extend(stores().flat_map(closed_ranges).filter(|range| !walked.contains(range)).cloned());
        around.dedup();
    }
    let ops = dependencies.order.iter().filter(|node| node.op().is_elementwise() && !node.dtype().is_index()).count();
    let parts = match has_reductions {
        true => PARTS_WITH_REDUCTIONS,
        false => PARTS_WITH_REDUCTIONS.max(UNROLLED_OPS_MAX as usize / ops.max(1)),
    };
    let room = Room { parts, is_counted: !has_reductions };
    let all = walked.iter().map(|range| (range, true)).chain(around.iter().map(|range| (range, false)));
    for (range, is_walked) in all.filter(|(range, _)| !is_reduce(range)) {
        let Some((parts, points)) = parts_and_points(range, &dependencies) else { continue };
        let cut = Cut { range, is_walked, parts: &parts, points: &points };
        if !is_worth_cutting(choice, &dependencies, &cut, has_reductions) || !has_room(&dependencies, &cut, room) {
            continue;
        }
        let longest = parts.iter().rev().max_by_key(|(begin, end)| end - begin);
        let numbers = longest.and_then(|(begin, end)| Some((u32::try_from(*begin).ok()?, u32::try_from(*end).ok()?)));
        if let Some((begin, end)) = numbers
            && choice.attempt(Opt::Peel { range: range_id(range), begin, end })
        {
            return true;
        }
    }
    false
}

/// Parts that a kernel may have whatever they compute, and whether more may be if that is little.
#[derive(Clone, Copy)]
struct Room {
    parts: usize,
    is_counted: bool,
}

/// A range that may be cut, and where.
#[derive(Clone, Copy)]
struct Cut<'k> {
    range: &'k UOp,
    /// Whether stores walk memory along it.
    is_walked: bool,
    parts: &'k [(i64, i64)],
    points: &'k CutPoints,
}

/// Whether parts have lanes or choose among loads, threads have enough to share all the same, and masks are no better.
fn is_worth_cutting(choice: &Attempts<'_>, dependencies: &Dependencies, cut: &Cut<'_>, has_reductions: bool) -> bool {
    let Cut { range, is_walked, parts, points } = *cut;
    let len = range.src()[0].max_value();
    // Loads and stores of numbers from memory are what most is worth in lanes of four bytes.
    let lanes = i64::from(choice.target.vector_bytes) / 4;
    let of_vectors: i64 = parts.iter().map(|(begin, end)| end - begin).filter(|len| *len >= lanes).sum();
    // Of parts with reductions one gets a register tile, and the others no lanes.
    let wide = parts.iter().filter(|(begin, end)| end - begin >= LANES_MIN).count();
    let is_worth = match is_walked {
        true => of_vectors * 2 > len && (wide == 1 || !has_reductions),
        false => !points.of_others && chooses_among_loads(range, dependencies),
    };
    let is_masked = is_walked && !points.has_digits && loads_under_masks(range, len, dependencies, choice.target)
        || has_reductions && fills_scratch_under_masks_of_outer_loops(range, points, dependencies);
    // One thread that does what is asked for, beside several that do what all parts ask for in each.
    let threads = choice.threads as usize;
    let needs_one = || {
        let is_counted = !has_reductions && (threads + 1..=PARTS_MAX).contains(&parts.len());
        let together = || ops_of_iteration(range, None, dependencies) * parts.len();
        is_counted && ops_of_parts(range, parts, dependencies) * threads <= together()
    };
    is_worth
        && !is_masked
        && (leaves_shares(choice, range)
            || is_walked && points.has_digits && i64::from(choice.threads) < lanes
            || needs_one())
}

/// Whether the parts are no more than a kernel may have, or what they compute is no more than one may.
fn has_room(dependencies: &Dependencies, cut: &Cut<'_>, room: Room) -> bool {
    let is_counted = room.is_counted && cut.parts.len() <= PARTS_MAX;
    cut.parts.len() <= room.parts || is_counted && ops_of_parts(cut.range, cut.parts, dependencies) <= OPS_MAX
}

/// Whether a loop that fills scratch is better off with masks than with parts: what is left over at the ends of a short row costs more than a mask for each vector. Not where
/// loads walk memory in steps: under masks those take a load for each lane.
fn loads_under_masks(range: &UOp, len: i64, dependencies: &Dependencies, target: &Target) -> bool {
    let closes = |node: &&UOp| node.op() == Op::Store && closed_ranges(node).contains(range);
    let mut stores = dependencies.order.iter().filter(closes);
    let lanes = i64::from(target.vector_bytes) / 4;
    let fills_scratch = stores.all(|store| store.src()[0].src()[0].op() == Op::Scratch);
    let varies = |node: &&UOp| node.op() == Op::Load && dependencies.get(node).contains(range_id(range));
    let mut loads = dependencies.order.iter().filter(varies);
    let is_short = target.has_masked_memory && len <= MASKED_VECTORS * lanes;
    is_short && fills_scratch && loads.all(|load| step_of_load(load, range) == Some(1))
}

/// Whether a loop fills scratch with results of reductions, and only loops around decide which of them are there, as blocks of keys do of which the last is not full. A mask costs
/// little once for each result, and a cut would leave the register tile a rest.
fn fills_scratch_under_masks_of_outer_loops(range: &UOp, points: &CutPoints, dependencies: &Dependencies) -> bool {
    let closes = |node: &&UOp| node.op() == Op::Store && closed_ranges(node).contains(range);
    let mut stores = dependencies.order.iter().filter(closes);
    let is_outer = |store: &UOp| points.others.iter().all(|other| dependencies.get(store).contains(other));
    !points.others.is_empty()
        && !points.has_digits
        && stores.all(|store| store.src()[0].src()[0].op() == Op::Scratch && is_outer(store))
}

/// Whether two loads are there under conditions on a range: without a cut both are asked for in every iteration.
fn chooses_among_loads(range: &UOp, dependencies: &Dependencies) -> bool {
    let is_asked = |node: &&UOp| {
        let gate = node.src().get(2).filter(|_| node.op() == Op::Index);
        gate.is_some_and(|gate| dependencies.get(gate).contains(range_id(range)))
    };
    dependencies.order.iter().filter(is_asked).count() >= 2
}

/// Whether the loops outside of a range are enough for threads to share, if it is one of outputs: parts of a range that was cut are not shared out.
fn leaves_shares(choice: &Attempts<'_>, range: &UOp) -> bool {
    let stores = choice.kernel.src().iter().filter(|store| closed_ranges(store).contains(range));
    let mut around = stores.map(|store| {
        let outside = closed_ranges(store).iter().take_while(|other| *other != range);
        outside.map(|other| other.src()[0].max_value() as f64).product::<f64>()
    });
    choice.threads < 2 || around.all(|count| count >= f64::from(SHARES_PER_THREAD * choice.threads))
}

/// Gives lanes to each store that has loops of its own beside those of the largest, and no reductions.
pub(crate) fn vectorize_parts(choice: &mut Attempts<'_>, survey: &Survey, target: &Target) {
    let of_largest: Vec<u32> = survey.outputs.iter().map(range_id).collect();
    let mut done: Vec<u32> = Vec::new();
    for store in choice.kernel.src().to_vec() {
        let is_loop = |range: &&UOp| range.as_range().is_some_and(|arg| arg.kind == AxisKind::Loop);
        let own = closed_ranges(&store).iter().filter(is_loop).map(range_id);
        let own: Vec<u32> = own.filter(|id| !of_largest.contains(id)).collect();
        let holds_reductions = survey.inner.iter().any(|inner| own.iter().any(|id| inner.is_inside(*id)));
        if holds_reductions || own.iter().any(|id| done.contains(id)) {
            continue;
        }
        let follows = |id: u32| survey.accesses.iter().all(|access| !access.is_store || !access.irregular.contains(id));
        let score = |id: u32| survey.lane_score(id, |access| access.depends.contains(id));
        let wished = own.iter().copied().filter(|id| survey.len(*id) >= LANES_MIN && follows(*id) && score(*id) > 0.0);
        let Some(id) = wished.max_by(|a, b| score(*a).total_cmp(&score(*b))) else { continue };
        let lanes = survey.lanes(target, id, survey.len(id));
        if lanes >= 2 && choice.attempt(Opt::Vectorize { range: id, lanes }) {
            done.push(id);
            let vectors = (survey.len(id) as u32).div_ceil(lanes);
            let times = vectors.min((UNROLLED_OPS_MAX / survey.body_ops.max(1)).clamp(1, 4));
            if times >= 2 {
                choice.attempt(Opt::Upcast { range: id, times });
            }
            fill_between(choice, survey, id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;
    use crate::ir::{Arg, Op, ReduceOp};
    use crate::optimize::by_hand::SHARED_OF_TWO;
    use crate::optimize::choose;
    use crate::pipeline::loops_of;
    use crate::watch::Silent;

    /// The loops of a kernel of one store.
    fn loops(value: UOp) -> UOp {
        let len = value.shape().iter().map(|dim| dim.max_value() as u64).product();
        let store = vec![UOp::param(0, DType::F32, len), value];
        loops_of(&UOp::sink([UOp::new(Op::Store, DType::VOID, store, Arg::None)]), &mut Silent)
    }

    /// What the choice by hand does to it.
    fn by_hand(value: UOp) -> Vec<Opt> {
        choose(&loops(value), &Target::test_avx512()).applied
    }

    fn rows(slot: u32, columns: i64) -> UOp {
        UOp::param(slot, DType::F32, 200 * columns as u64).reshape([200, columns])
    }

    #[test]
    fn each_part_of_a_row_is_copied_in_lanes() {
        let lanes = |opts: &[Opt]| opts.iter().filter(|opt| matches!(opt, Opt::Vectorize { .. })).count();
        let cuts = |opts: &[Opt]| opts.iter().filter(|opt| matches!(opt, Opt::Peel { .. })).count();
        // What is behind the other, in three.
        let (x, y, z) = (rows(1, 48), rows(2, 100), rows(3, 60));
        let padded =
            |part: &UOp, before: i64, behind: i64| part.pad(&[(0.into(), 0.into()), (before.into(), behind.into())]);
        let joined = by_hand(padded(&x, 0, 160) + padded(&y, 48, 60) + padded(&z, 148, 0));
        assert_eq!((cuts(&joined), lanes(&joined)), (1, 3), "{joined:?}");
        // A row that begins in its middle.
        let twice = rows(1, 70).reshape([200, 1, 70]).expand([200, 2, 70]).reshape([200, 140]);
        let rolled = by_hand(twice.shrink(&[(0.into(), 200.into()), (30.into(), 100.into())]));
        assert_eq!((cuts(&rolled), lanes(&rolled)), (1, 2), "{rolled:?}");
        // Padding alone leaves nothing for lanes at its ends.
        let framed = by_hand(padded(&rows(1, 60), 1, 1));
        assert_eq!((cuts(&framed), lanes(&framed)), (1, 1), "{framed:?}");
    }

    #[test]
    fn what_stands_around_reductions_keeps_one_tile() {
        // A product with columns of two matrices.
        let padded =
            |part: UOp, before: i64, behind: i64| part.pad(&[(0.into(), 0.into()), (before.into(), behind.into())]);
        let columns = (padded(rows(2, 48), 0, 100) + padded(rows(3, 100), 48, 0)).reshape([1, 200, 148]);
        let x = rows(1, 200).reshape([200, 200, 1]);
        let terms = x.expand([200, 200, 148]) * columns.expand([200, 200, 148]);
        let kernel = loops(terms.reduce(ReduceOp::Add, &[1]).reshape([200, 148]));
        let target = Target::test_avx512();
        let (applied, reasons) = (Vec::new(), Vec::new());
        let mut choice =
            Attempts { target: &target, threads: 1, kernel, applied, reasons, shared_bytes: SHARED_OF_TWO };
        assert!(!cut_decided(&mut choice), "{:?}", choice.applied);
    }
}
