//! Which values get a stage of their own because loops run better so; see [`super::stage`] for what that means.
//!
//! Folds are kept along an output range when they have lanes of their own and what follows them is long: number by number it would cost
//! more than the way through scratch. Loads are packed when a fold has lanes of its own only because they cross the better lanes in steps,
//! and other loops read them over and over.

use super::by_hand::{Attempts, VectorChoice};
use super::opt::Opt;
use super::survey::{Access, InnerLoops, Survey};
use crate::kernel::ranges::range_id;

/// Simple ops after a fold that are worth a way through scratch.
const OPS_AFTER_MIN: f64 = 8.0;
/// Least length of a range for a stage along it: a vector.
const LEN_MIN: i64 = 16;
/// Most bytes that folds are kept in, for each of a tile's rows.
const KEPT_BYTES_MAX: i64 = 32 << 10;
/// Parts of the loop that threads share out, for each thread.
const PARTS_PER_THREAD: i64 = 4;
/// Longest part of that loop that a stage is filled for.
const PART_MAX: i64 = 64;
/// Most bytes that loads are packed in: they stay in the nearest caches.
const PACKED_BYTES_MAX: i64 = 256 << 10;
/// How often packed loads are read again, at least.
const REREADS_MIN: i64 = 16;

/// Adds one stage if that is worth it.
pub(super) fn add_stage(choice: &mut Attempts<'_>, survey: &Survey, vector: &VectorChoice) -> bool {
    let folds = vector.inner.iter().map(|(number, lane)| (&survey.inner[*number], *lane));
    let folds: Vec<(&InnerLoops, u32)> = folds.filter(|(inner, _)| !inner.is_stage).collect();
    let packed = folds.iter().find_map(|(fold, lane)| lane_to_pack(survey, fold, *lane));
    if let Some((lane, row)) = packed
        && choice.attempt(Opt::Pack { lane, row })
    {
        return true;
    }
    let kept = folds.iter().find_map(|(fold, _)| range_to_keep(survey, fold));
    kept.is_some_and(|range| match part_to_keep(choice, survey, range) {
        Some(len) => choice.attempt(Opt::Split { range, len }),
        None => choice.attempt(Opt::KeepFolds { range }),
    })
}

/// How much of a range a stage may be filled for at once, if that is not all of it: of the loop that threads share out each has a part, and a
/// stage outside of it would be filled by all of them. Split, the range is asked about again.
fn part_to_keep(choice: &Attempts<'_>, survey: &Survey, range: u32) -> Option<u32> {
    let (len, parts) = (survey.len(range), choice.threads as i64 * PARTS_PER_THREAD);
    let is_shared = survey.outputs.first().is_some_and(|outermost| range_id(outermost) == range);
    let part = (len / parts / LEN_MIN * LEN_MIN).clamp(LEN_MIN, PART_MAX);
    (choice.threads > 1 && is_shared && len >= 2 * part).then_some(part as u32)
}

/// The range along which a fold over lanes is kept.
fn range_to_keep(survey: &Survey, fold: &InnerLoops) -> Option<u32> {
    if survey.ops_after_folds < OPS_AFTER_MIN {
        return None;
    }
    let stores = || survey.accesses.iter().filter(|access| access.is_store);
    survey.outputs.iter().map(range_id).find(|id| {
        let len = survey.len(*id);
        let fits = len >= LEN_MIN && len * survey.element_bytes as i64 <= KEPT_BYTES_MAX;
        fits && fold.is_inside(*id) && stores().any(|store| store.steps.get(id) == Some(&1))
    })
}

/// The range that would be better lanes for a fold if loads did not cross it in steps, and the fold's own lanes.
fn lane_to_pack(survey: &Survey, fold: &InnerLoops, row: u32) -> Option<(u32, u32)> {
    let stages = survey.inner.iter().filter(|inner| inner.is_stage && !inner.has_own(row));
    let candidates = stages.flat_map(|stage| &stage.ranges).chain(&survey.outputs).map(range_id);
    candidates.filter(|lane| fold.is_inside(*lane) && survey.len(*lane) >= LEN_MIN).find_map(|lane| {
        let crossing = |access: &&Access| {
            let steps = |id: u32| access.steps.get(&id).map_or(0, |step| step.abs());
            !access.is_store && fold.holds(access) && steps(lane) > 1 && steps(row) >= 1
        };
        let crossing: Vec<&Access> = survey.accesses.iter().filter(crossing).collect();
        let bytes = survey.len(lane) * survey.len(row) * survey.element_bytes as i64;
        let fits = bytes <= PACKED_BYTES_MAX && fold.ranges.len() == 1;
        (fits && !crossing.is_empty() && crossing.iter().all(|access| is_reread(survey, fold, access, lane)))
            .then_some((lane, row))
    })
}

/// Whether a load in a fold is the same for many iterations of an output loop that stands inside of all that it depends on.
fn is_reread(survey: &Survey, fold: &InnerLoops, access: &Access, lane: u32) -> bool {
    let around: Vec<u32> = survey.outputs.iter().map(range_id).filter(|id| *id != lane).collect();
    let depends = |id: &u32| access.depends.contains(*id);
    // Threads share out the first loop: what does not depend on it, each of their parts would pack again.
    let leading = around.iter().take_while(|id| depends(id)).count();
    let rest = &around[leading..];
    let rereads: i64 = rest.iter().filter(|id| fold.is_inside(**id)).map(|id| survey.len(*id)).product();
    leading > 0 && !rest.iter().any(depends) && rereads >= REREADS_MIN && access.irregular.is_empty()
}
