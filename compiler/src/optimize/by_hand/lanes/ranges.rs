//! Which ranges become the lanes of vectors: an output range, or ranges of the loops inside of it.
//!
//! Each range is worth what lanes along it save: loads and stores in order count for it, those that lie apart against it, by how often they run. Of ranges that exclude each other the one that is
//! worth more is taken: an output range excludes all loops inside of it, unless these save more with lanes of their own.
//!
//! Always: no range that becomes lanes stands inside of another one that does. Tested by filetests, and by the kernels that the choice by hand gives.

use crate::kernel::ranges::range_id;
use crate::optimize::by_hand::copies::panels::ACROSS;
use crate::optimize::by_hand::crossing::{lanes_of_square, score_of_turned};
use crate::optimize::by_hand::lanes::interleave::lines_together;
use crate::optimize::by_hand::survey::{AccessPattern, InnerLoops, Survey};
use crate::optimize::transforms::split::is_reduce;
use crate::target::Target;

/// Steps of a reduction over lanes that take as long as summing up the lanes.
const STEPS_OF_SUM: f64 = 4.0;

/// Bytes of a vector from which on gathers are worth it: those of AVX-512.
const BYTES_OF_GATHERS: i64 = 64;

#[derive(Default)]
pub(crate) struct VectorChoice {
    /// An output range and its lanes.
    pub(crate) output: Option<(u32, u32)>,
    /// Inner loops by position, and the range of theirs that becomes lanes.
    pub(crate) inner: Vec<(usize, u32)>,
}

/// Ranges that become lanes, none inside of another: each is worth more than all that it excludes further in.
pub(crate) fn choose_vector(survey: &Survey, target: &Target) -> VectorChoice {
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
        .map(|(_, id)| {
            let lanes = lanes_of_square(survey, target, id, survey.lanes(target, id, survey.most(id)));
            (id, lines_together(survey, target, id, lanes))
        })
        .filter(|(id, lanes)| !is_better_one_by_one(survey, target, *id, *lanes));
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

/// Whether elements that numbers in memory choose are better loaded one by one, as copies of them are: with vectors of 64 bytes the machine gathers them, with shorter ones each is loaded by itself all
/// the same. Where more is computed from them, lanes save more than they cost.
fn is_better_one_by_one(survey: &Survey, target: &Target, id: u32, lanes: u32) -> bool {
    let are_short = target.blocks.is_none() && i64::from(target.vector_bytes) < BYTES_OF_GATHERS;
    let cost = survey.cycles_of_gathers(id);
    are_short && survey.inner.is_empty() && cost > 0.0 && cost >= survey.cycles_saved_by_lanes(id, lanes)
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

/// The part of a reduction over lanes that is left beside summing up the lanes: of a short one, as of the elements of a window, that is most of it.
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

#[cfg(test)]
mod tests {
    use crate::ir::text::parse;
    use crate::optimize::{Opts, choose};
    use crate::pipeline::loops_of;
    use crate::target::Target;
    use crate::watch::Silent;

    /// The opts of a kernel.
    fn chosen(text: &str) -> String {
        let ast = parse(text).expect("a graph").roots[0].clone();
        Opts::List(choose(&loops_of(&ast, &mut Silent), &Target::test_avx512()).applied).to_string()
    }

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
        chosen(&text)
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
    fn what_is_stored_in_more_bytes_than_is_compared_does_not_choose_the_lanes() {
        let opts = |terms: i64| {
            let text = format!(
                "graph %columns(y: i64[64, 512], x: f32[64, {terms}, 512]) {{
  s = reduce x, max (1)
  w: i64 = cast s
  done = store y, w
  k = sink done
  return k
}}"
            );
            chosen(&text)
        };
        assert!(opts(9).starts_with("vectorize(r1, 16)"), "{}", opts(9));
        assert!(opts(2).starts_with("vectorize(r1, 8)"), "{}", opts(2));
    }

    #[test]
    fn elements_that_memory_chooses_are_copied_one_by_one_where_vectors_are_short() {
        let opts = |value: &str, target: &Target| {
            let text = format!(
                "graph %chosen(y: f32[64, 100], x: f32[5000], i: i64[64, 100]) {{
  g = gather x, i, axis 0
{value}
  done = store y, v
  k = sink done
  return k
}}"
            );
            let ast = parse(&text).expect("a graph").roots[0].clone();
            Opts::List(choose(&loops_of(&ast, &mut Silent), target).applied).to_string()
        };
        let (copied, computed) = ("  v = neg g", "  e = exp2 g\n  v = sin e");
        assert!(!opts(copied, &Target::test_avx2()).contains("vectorize"), "{}", opts(copied, &Target::test_avx2()));
        assert!(opts(computed, &Target::test_avx2()).contains("vectorize"), "much is computed");
        assert!(opts(copied, &Target::test_avx512()).contains("vectorize"), "the machine gathers");
        // Of rows that memory chooses, lanes lie in order.
        let text = "graph %rows(y: f32[100, 40], x: f32[500, 40], i: i64[100]) {
  g = gather x, i, axis 0
  done = store y, g
  k = sink done
  return k
}";
        let ast = parse(text).expect("a graph").roots[0].clone();
        let opts = Opts::List(choose(&loops_of(&ast, &mut Silent), &Target::test_avx2()).applied).to_string();
        assert!(opts.contains("vectorize(r1, 8)"), "{opts}");
    }

    #[test]
    fn rows_whose_lines_do_not_stay_near_are_no_lanes() {
        // 16 rows of 24 elements of which 5 are read: 1.5 KB; of 500 elements: 32 KB.
        let text = |len: i64| {
            format!(
                "graph %rows(y: f32[4000], x: f32[4000, {len}]) {{
  w = shrink x, [0:4000, 0:5]
  v = exp2 w
  s = reduce v, add (1)
  done = store y, s
  k = sink done
  return k
}}"
            )
        };
        let opts = |len: i64| chosen(&text(len));
        assert!(opts(24).starts_with("vectorize(r0, 16)"), "{}", opts(24));
        assert!(!opts(500).starts_with("vectorize(r0, 16)"), "{}", opts(500));
    }
}
