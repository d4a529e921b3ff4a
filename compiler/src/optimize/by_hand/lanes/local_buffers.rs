//! Which values get a local buffer of their own because loops run better so; see [`crate::optimize::transforms::stage`] for what that means.
//!
//! Reductions are kept along an output range when they have lanes of their own and what follows them is long: number by number it would cost
//! more than the way through scratch; with them those that are part of their terms, where the rest asks for these, too. Loads are packed when a reduction has lanes of its own only because they cross the better lanes in steps,
//! and other loops read them over and over.

use super::ranges::VectorChoice;
use crate::kernel::ranges::range_id;
use crate::optimize::by_hand::Attempts;
use crate::optimize::by_hand::copies::panels::ACROSS;
use crate::optimize::by_hand::survey::{AccessPattern, InnerLoops, Survey};
use crate::optimize::opt::Opt;
use crate::optimize::transforms::split::is_reduce;
use crate::target::Costs;

/// Simple ops after a reduction that are worth a way through scratch.
const OPS_AFTER_MIN: f64 = 8.0;
/// Parts of the loop that threads share out, for each thread.
const PARTS_PER_THREAD: i64 = 4;
/// Longest part of that loop that a local buffer is filled for.
const PART_MAX: i64 = 64;
/// By how much a part that fills no whole vectors must be more even for the threads.
const MORE_EVEN: f64 = 1.1;
/// One of so many iterations of a part is what threads wait for each other at the end.
const PART_WAITED: i64 = 16;
/// How much more work may be there after reductions were kept.
const WORK_AGAIN_MAX: f64 = 1.2;
/// How often packed loads are read again: at least as often as it takes to copy what is summed in cycles of a sum across lanes, within bounds.
const REREADS_MIN: std::ops::RangeInclusive<i64> = 8..=16;
/// Shares of each thread, which pack for themselves what does not depend on the loop that is shared out.
const SHARES_PER_THREAD: i64 = 8;
/// Elements that are copied while the lanes of a vector are added to each other.
const COPIED_IN_A_SUM: i64 = 8;

/// Adds one local buffer if that is worth it.
pub(crate) fn add_local_buffer(choice: &mut Attempts<'_>, survey: &Survey, vector: &VectorChoice) -> bool {
    let costs = &choice.target.costs;
    let reductions = vector.inner.iter().map(|(number, lane)| (&survey.inner[*number], *lane));
    let reductions: Vec<(&InnerLoops, u32)> = reductions.filter(|(inner, _)| !inner.is_local_buffer).collect();
    let packed = reductions.iter().find_map(|(reduction, lane)| lane_to_pack(survey, reduction, *lane, choice));
    if let Some((lane, row)) = packed
        && choice.attempt(Opt::Pack { lane, row })
    {
        return true;
    }
    let kept = reductions.iter().find_map(|(reduction, _)| range_to_materialize(survey, reduction, costs));
    kept.is_some_and(|range| match part_to_materialize(choice, survey, range) {
        Some(len) => choice.attempt(Opt::Split { range, len }),
        None => keep_reductions(choice, survey, range),
    })
}

/// Keeps reductions along a range, unless much would be computed twice: what they are made of, for what asks for that itself.
fn keep_reductions(choice: &mut Attempts<'_>, survey: &Survey, range: u32) -> bool {
    let (before, applied) = (choice.kernel.clone(), choice.applied.len());
    let opt = Opt::MaterializeReductions { range };
    if !choice.attempt(opt.clone()) {
        return false;
    }
    // What both another reduction and the rest ask for, as the largest element of a row of which logarithms are taken, is left by the first.
    choice.attempt(opt.clone());
    // Threads of a block share what is kept; each would compute it again.
    let is_cheap = choice.target.blocks.is_some() || Survey::of(&choice.kernel).work <= survey.work * WORK_AGAIN_MAX;
    if !is_cheap {
        choice.kernel = before;
        choice.applied.truncate(applied);
        choice.reasons.push(format!("{opt}: what reductions are made of would be computed twice"));
    }
    is_cheap
}

/// How much of a range a local buffer may be filled for at once, if that is not all of it: of the loop that threads share out each has a part, and a
/// local buffer outside of it would be filled by all of them. Split, the range is asked about again.
fn part_to_materialize(choice: &Attempts<'_>, survey: &Survey, range: u32) -> Option<u32> {
    let (len, parts) = (survey.len(range), choice.threads as i64 * PARTS_PER_THREAD);
    let is_shared = survey.outputs.first().is_some_and(|outermost| range_id(outermost) == range);
    let lanes = i64::from(choice.target.costs.vector_lanes);
    let part = (len / parts / lanes * lanes).clamp(lanes, PART_MAX);
    (choice.threads > 1 && is_shared && len >= 2 * part)
        .then_some(even_for_threads(len, part, lanes, choice.threads) as u32)
}

/// A part of a loop, or another one, no shorter than so many lanes, that leaves the busiest thread much less: parts are few where they are long, and the last one overlaps the one before it.
///
/// ```text
/// 68 rows, 2 threads: 3 of 5 parts of 16 are 48 for the busiest, 2 of 4 parts of 17 are 34
/// ```
fn even_for_threads(len: i64, part: i64, lanes: i64, threads: u32) -> i64 {
    let threads = i64::from(threads);
    let busiest = |part: i64| ((len + part - 1) / part + threads - 1) / threads * part;
    // Of two alike the shorter: a thread that is late leaves less for the others to wait for.
    let cost = |part: &i64| busiest(*part) * PART_WAITED + part;
    let best = (lanes..=PART_MAX.min(len)).min_by_key(cost).unwrap_or(part);
    if busiest(best) as f64 * MORE_EVEN <= busiest(part) as f64 { best } else { part }
}

/// The range along which a reduction over lanes is kept.
fn range_to_materialize(survey: &Survey, reduction: &InnerLoops, costs: &Costs) -> Option<u32> {
    if survey.ops_after_reductions < OPS_AFTER_MIN {
        return None;
    }
    let stores = || survey.accesses.iter().filter(|access| access.is_store);
    // Loops of the reduction inside of the range would fill the buffer anew for each of its iterations.
    let last = survey.outputs.iter().map(range_id).rev().find(|id| reduction.is_inside(*id));
    last.into_iter().find(|id| {
        let len = survey.len(*id);
        // A local buffer shorter than a vector is not worth it.
        let (lanes, most) = (i64::from(costs.vector_lanes), i64::from(costs.kept_bytes));
        let fits = len >= lanes && len * survey.element_bytes as i64 <= most;
        fits && reduction.is_inside(*id) && stores().any(|store| store.steps.get(id) == Some(&1))
    })
}

/// The range that would be better lanes for a reduction if loads did not cross it in steps, and the reduction's own lanes. One that some load does not vary with comes first: in
/// others, as groups of channels, lanes share nothing, and those must at least fill vectors.
fn lane_to_pack(survey: &Survey, reduction: &InnerLoops, row: u32, choice: &Attempts<'_>) -> Option<(u32, u32)> {
    let lanes = i64::from(choice.target.costs.vector_lanes);
    let stages = survey.inner.iter().filter(|inner| inner.is_local_buffer && !inner.has_own(row));
    let candidates = stages.flat_map(|stage| &stage.ranges).chain(&survey.outputs).map(range_id);
    let candidates = candidates.filter(|lane| reduction.is_inside(*lane) && survey.len(*lane) >= lanes);
    let packed: Vec<u32> = candidates.filter(|lane| is_packed_along(survey, reduction, row, *lane, choice)).collect();
    let loads = survey.accesses.iter().filter(|access| !access.is_store && reduction.holds(access));
    let shares = |lane: &&u32| loads.clone().any(|access| !access.depends.contains(**lane));
    let shared = packed.iter().find(shares);
    shared.or_else(|| packed.iter().find(|lane| survey.len(**lane) % lanes == 0)).map(|lane| (*lane, row))
}

/// Whether loads that cross a range in steps are read again so often that it pays to copy them along it.
fn is_packed_along(survey: &Survey, reduction: &InnerLoops, row: u32, lane: u32, choice: &Attempts<'_>) -> bool {
    let crossing = |access: &&AccessPattern| {
        let steps = |id: u32| access.steps.get(&id).map_or(0, |step| step.abs());
        !access.is_store && reduction.holds(access) && steps(lane) > 1 && steps(row) >= 1
    };
    let crossing: Vec<&AccessPattern> = survey.accesses.iter().filter(crossing).collect();
    let bytes = survey.len(lane) * survey.len(row) * survey.element_bytes as i64;
    let fits = bytes <= i64::from(choice.target.costs.packed_bytes) && reduction.ranges.len() == 1;
    let least = (survey.len(row) / COPIED_IN_A_SUM).clamp(*REREADS_MIN.start(), *REREADS_MIN.end());
    let is_reread = |access: &&AccessPattern| rereads(survey, reduction, access, lane, choice.threads) >= least;
    let lanes = i64::from(choice.target.costs.vector_lanes);
    let is_filled = idle_cycles(survey.len(lane), survey.len(row), lanes) <= ACROSS;
    fits && is_filled && !crossing.is_empty() && crossing.iter().all(is_reread)
}

/// Cycles that a result of so many terms loses to lanes beyond the last of its loop. Measured, two cores of a Zen 4: 17 rows times the transpose of 3000 x 2048 weights take 5.4 ms with rows
/// for lanes, of which 15 of 32 do nothing, and 1.6 with terms for lanes and a sum across them.
fn idle_cycles(len: i64, terms: i64, lanes: i64) -> f64 {
    let idle = (lanes - len % lanes) % lanes;
    idle as f64 / len as f64 * terms as f64 / lanes as f64
}

/// For how many iterations of loops inside of all that it depends on a load in a reduction is the same: 0 where that is not known.
fn rereads(survey: &Survey, reduction: &InnerLoops, access: &AccessPattern, lane: u32, threads: u32) -> i64 {
    if !access.irregular.is_empty() {
        return 0;
    }
    let outputs: Vec<u32> = survey.outputs.iter().map(range_id).collect();
    let depends = |id: &u32| access.depends.contains(*id);
    let count = |ids: &mut dyn Iterator<Item = u32>| ids.map(|id| survey.len(id)).product::<i64>();
    // A block's copy is made in the loop over blocks, by whoever walks that: for the rows of which results are kept while blocks pass.
    let loops = survey.inner.iter().filter(|inner| inner.is_local_buffer).flat_map(|inner| &inner.ranges);
    if loops.filter(|range| is_reduce(range)).any(|range| access.depends.contains(range_id(range))) {
        let kept = reduction.depends.iter().filter(|id| *id != lane && !outputs.contains(id) && !depends(id));
        return count(&mut kept.into_iter());
    }
    let around: Vec<u32> = outputs.into_iter().filter(|id| *id != lane).collect();
    let leading = around.iter().take_while(|id| depends(id)).count();
    let rest = &around[leading..];
    if rest.iter().any(depends) {
        return 0;
    }
    // Threads share out the first loop: what does not depend on it, each of their parts packs again.
    let parts = if leading == 0 && threads > 1 { i64::from(threads) * SHARES_PER_THREAD } else { 1 };
    count(&mut rest.iter().copied().filter(|id| reduction.is_inside(*id))) / parts
}

#[cfg(test)]
mod tests {
    use super::even_for_threads;
    use crate::cost_model::predict;
    use crate::ir::UOp;
    use crate::ir::text::parse;
    use crate::optimize::{Opts, choose};
    use crate::pipeline::{LowerOptions, loops_of, lower_kernel};
    use crate::target::Target;
    use crate::watch::Silent;

    /// A long way from sums to what is stored across the loops: of rows of squares that are kept, for each of some weights.
    fn sums_across() -> UOp {
        let text = "graph %across(y: f64[12800], w: f64[16, 1, 50], x: f64[800, 50]) {
  squares = mul x, x
  kept = materialize squares, (1)
  a = reshape kept, [1, 800, 50]
  wide = expand a, [16, 800, 50]
  tall = expand w, [16, 800, 50]
  p = mul tall, wide
  sum = reduce p, add (2)
  b = sqrt sum
  c = mul b, b
  d = add c, sum
  e = sqrt d
  f = mul e, c
  g = add f, b
  h = sqrt g
  i = mul h, f
  j = add i, sum
  done = store y, j
  k = sink done
  return k
}";
        parse(text).unwrap_or_else(|error| panic!("{error}")).roots[0].clone()
    }

    /// The opts by hand of scores of some queries of each head with the same keys, of which the softmax is kept and weighs values: attention.
    fn attention(heads: i64, queries: i64, keys: i64, width: i64, threads: u32) -> String {
        let text = format!(
            "graph %attention(y: f32[{heads}, {queries}, {width}], q: f32[{heads}, {queries}, {width}], k: f32[{heads}, {keys}, {width}], v: f32[{heads}, {keys}, {width}]) {{
  a = reshape q, [{heads}, {queries}, 1, {width}]
  b = expand a, [{heads}, {queries}, {keys}, {width}]
  c = reshape k, [{heads}, 1, {keys}, {width}]
  d = expand c, [{heads}, {queries}, {keys}, {width}]
  p = mul b, d
  scores = reduce p, add (3)
  kept = materialize scores, (2)
  most = reduce kept, max (2)
  m = reshape most, [{heads}, {queries}, 1]
  n = expand m, [{heads}, {queries}, {keys}]
  e = sub kept, n
  f = exp2 e
  weights = materialize f, (2)
  g = reshape weights, [{heads}, {queries}, 1, {keys}]
  h = expand g, [{heads}, {queries}, {width}, {keys}]
  t = permute v, (0, 2, 1)
  i = reshape t, [{heads}, 1, {width}, {keys}]
  j = expand i, [{heads}, {queries}, {width}, {keys}]
  o = mul h, j
  s = reduce o, add (3)
  done = store y, s
  z = sink done
  return z
}}"
        );
        let ast = parse(&text).unwrap_or_else(|error| panic!("{error}")).roots[0].clone();
        let target = Target { threads, ..Target::test_avx512() };
        let choice = choose(&loops_of(&ast, &mut Silent), &target);
        Opts::List(choice.applied).to_string()
    }

    #[test]
    fn parts_of_few_rows_are_even_for_the_threads() {
        let part = |len: i64, threads: u32| even_for_threads(len, 16, 16, threads);
        assert_eq!([part(68, 2), part(33, 2), part(106, 2), part(141, 2)], [17, 17, 18, 18]);
        // As even as can be, or nearly so: whole vectors.
        assert_eq!([part(64, 2), part(128, 2), part(190, 2), part(68, 5)], [16; 4]);
    }

    #[test]
    fn keys_that_many_queries_read_are_packed() {
        for (heads, queries, threads) in [(8, 256, 1), (1, 512, 1), (1, 512, 2), (8, 16, 1)] {
            let opts = attention(heads, queries, 256, 64, threads);
            assert!(opts.starts_with("pack("), "{heads} heads of {queries} queries: {opts}");
        }
        // The narrower, the sooner: a sum across lanes has fewer terms.
        assert!(attention(8, 8, 256, 32, 1).contains("pack("));
        for (heads, queries, threads) in [(8, 4, 1), (8, 10, 1), (1, 10, 1), (1, 64, 4)] {
            let opts = attention(heads, queries, 256, 128, threads);
            assert!(!opts.contains("pack("), "{heads} heads of {queries} queries: {opts}");
        }
    }

    /// The opts by hand of rows times the transpose of a matrix, for two threads.
    fn linear(rows: i64, columns: i64, terms: i64) -> String {
        let text = format!(
            "graph %linear(y: f32[{rows}, {columns}], x: f32[{rows}, {terms}], w: f32[{columns}, {terms}]) {{
  a = reshape x, [{rows}, 1, {terms}]
  wide = expand a, [{rows}, {columns}, {terms}]
  b = reshape w, [1, {columns}, {terms}]
  tall = expand b, [{rows}, {columns}, {terms}]
  p = mul wide, tall
  sum = reduce p, add (2)
  done = store y, sum
  z = sink done
  return z
}}"
        );
        let ast = parse(&text).unwrap_or_else(|error| panic!("{error}")).roots[0].clone();
        let choice = choose(&loops_of(&ast, &mut Silent), &Target { threads: 2, ..Target::test_avx512() });
        Opts::List(choice.applied).to_string()
    }

    #[test]
    fn threads_share_the_columns_of_rows_that_are_lanes() {
        for columns in [3000, 1400] {
            let opts = linear(16, columns, 2048);
            assert!(opts.starts_with("pack(r0, r2)") && opts.ends_with("outermost(r1), thread(r1)"), "{opts}");
        }
    }

    #[test]
    fn rows_that_fill_no_vectors_are_no_lanes_and_columns_stream_once() {
        for (rows, terms) in [(17, 2048), (20, 1024), (8, 2048), (12, 700)] {
            let opts = linear(rows, 3000, terms);
            assert!(opts.starts_with("vectorize(r2, 16)") && opts.contains("outermost(r1)"), "{rows}: {opts}");
            assert!(opts.ends_with("thread(r1)"), "{rows}: {opts}");
        }
        // Of few columns there is nothing to share.
        assert!(!linear(8, 8, 2048).contains("outermost"), "{}", linear(8, 8, 2048));
    }

    /// The opts by hand of a convolution of 3 x 3 by groups of 8 channels, of an image of 5 x 5.
    fn groups_of_channels(groups: i64) -> String {
        let text = format!(
            "graph %c(y: f32[{groups}, 8, 5, 5], x: f32[{groups}, 8, 5, 5], w: f32[{groups}, 8, 8, 3, 3]) {{
  p = pad x, [0:0, 0:0, 1:1, 1:1]
  v = as_strided p, [{groups}, 1, 5, 5, 8, 3, 3] strides [392, 0, 7, 1, 49, 7, 1] offset 0
  e = expand v, [{groups}, 8, 5, 5, 8, 3, 3]
  f = reshape w, [{groups}, 8, 1, 1, 8, 3, 3]
  h = expand f, [{groups}, 8, 5, 5, 8, 3, 3]
  m = mul e, h
  s = reduce m, add (4, 5, 6)
  done = store y, s
  z = sink done
  return z
}}"
        );
        let ast = parse(&text).unwrap_or_else(|error| panic!("{error}")).roots[0].clone();
        let choice = choose(&loops_of(&ast, &mut Silent), &Target { threads: 1, ..Target::test_avx512() });
        Opts::List(choice.applied).to_string()
    }

    #[test]
    fn groups_that_fill_no_vectors_are_no_lanes() {
        // Each load varies with the groups: lanes along them share nothing.
        assert!(groups_of_channels(32).contains("pack(r0, r4), vectorize(r0, 16)"), "{}", groups_of_channels(32));
        assert!(!groups_of_channels(21).contains("pack("), "{}", groups_of_channels(21));
    }

    #[test]
    fn what_rows_need_twice_is_kept_and_lanes_follow_the_store() {
        let text = "graph %turned(p0: f32[480000], p1: f32[8, 300, 200]) {
  v0 = reduce p1, max (2)
  v1 = reshape v0, [8, 300, 1]
  v2 = expand v1, [8, 300, 200]
  v3 = sub p1, v2
  v4 = max v3, -104.0
  v5 = mul v4, 1.442695
  v6 = min v5, 127.99999
  v7 = exp2 v6
  v8 = neg v6
  v9 = muladd v4, 1.442695, v8
  v10 = muladd v4, 1.925963e-8, v9
  v11 = mul v10, 0.6931472
  v12 = muladd v7, v11, v7
  v13 = reduce v12, add (2)
  v14 = reshape v13, [8, 300, 1]
  v15 = log2 v14
  v16 = mul v15, 0.6931472
  v17 = expand v16, [8, 300, 200]
  v18 = sub v3, v17
  v19 = permute v18, (0, 2, 1)
  v20 = store p0, v19
  v21 = sink v20
  return v21
}";
        let ast = parse(text).unwrap_or_else(|error| panic!("{error}")).roots[0].clone();
        let choice = choose(&loops_of(&ast, &mut Silent), &Target { threads: 1, ..Target::test_avx2() });
        let opts = Opts::List(choice.applied).to_string();
        // Neither the largest elements nor the sums are computed beside what is stored, which goes along the rows.
        assert!(opts.starts_with("materialize(r2), materialize(r2), vectorize(r2, 8)"), "{opts}");
        // Nor anew for each block of a tile.
        assert!(!opts.contains("outermost"), "{opts}");
    }

    #[test]
    fn buffers_are_not_filled_anew_for_each_iteration() {
        let (kernel, target) = (sums_across(), Target::test_avx512());
        let [by_hand, bare] = [Opts::ByHand, Opts::None].map(|opts| {
            let linear = lower_kernel(&kernel, &target, &LowerOptions { opts }, &mut Silent).expect("a kernel");
            predict(&linear, &target).instructions_ns
        });
        assert!(by_hand < bare / 2.0, "{by_hand} by hand, {bare} in bare loops");
    }
}
