//! Lanes of loops inside of those over outputs: of reductions, and of the fills of local buffers, and what goes beside each other then.
//!
//! A reduction over lanes gets several accumulators, since an add takes about four cycles and two start in each: rows of results that share what they read (`tile`), or
//! vectors along its own range. Where nothing is shared and memory is read once, a few rows are streams beside each other: on one core with AVX-512, 32 MiB of
//! floats were summed at 16 GB/s in one stream, at 17 in two, at 23 in four and in eight.
//!
//! Tested by filetests, and by the kernels that the choice by hand gives.

use super::streams::{stream_once, streams};
use crate::ir::DotKind;
use crate::kernel::ranges::range_id;
use crate::optimize::apply::apply;
use crate::optimize::by_hand::crossing::square_of_fill;
use crate::optimize::by_hand::survey::{AccessPattern, InnerLoops, Survey};
use crate::optimize::by_hand::tile::{RegisterRoom, even_part, step_cycles, tile_of_two, vectors_beside};
use crate::optimize::by_hand::{Attempts, UNROLLED_OPS_MAX};
use crate::optimize::opt::Opt;
use crate::target::Target;

/// Rows of a tile, at most, that has rows along one range alone.
const ROWS_OF_ONE_RANGE: u32 = 4;
/// Of more loads beside the reduction, a thread of a block, which keeps what each row loads there while it reduces, has registers for half as many rows.
const LOADS_BESIDE: usize = 2;

/// Gives a range of a reduction, or of the fill of a local buffer, lanes, with rows and accumulators beside each other.
pub(crate) fn vectorize_inner(
    choice: &mut Attempts<'_>,
    survey: &Survey,
    target: &Target,
    inner: &InnerLoops,
    id: u32,
) {
    let len = survey.inner_len(inner, id);
    let lanes = survey.lanes(target, id, len);
    if let Some((across, side)) = square_of_fill(survey, target, inner, id, lanes)
        && choice.attempt(Opt::Vectorize { range: id, lanes: side })
    {
        choice.attempt(Opt::Upcast { range: across, times: side });
        return;
    }
    let rows = if inner.is_local_buffer { Vec::new() } else { rows_that_share(survey, target, inner, id) };
    // Where lanes are registers, what a tile of them leaves over would take as many again.
    let leaves_rest = target.blocks.is_some() && rows.len() > 1 && len % i64::from(lanes) != 0;
    let lanes = if leaves_rest { 1 } else { lanes };
    let terms = add_up_neighbours(choice, survey, inner, id, lanes);
    if !leaves_rest && !choice.attempt(Opt::Vectorize { range: id, lanes }) {
        return;
    }
    // What stands in a tile already is there several times.
    let tiled: Vec<(u32, u32)> = choice
        .applied
        .iter()
        .filter_map(|opt| match opt {
            Opt::Upcast { range, times } if inner.is_inside(*range) => Some((*range, *times)),
            _ => None,
        })
        .collect();
    // A tile of rows loads its operands once for all of them, and so needs few registers besides. A thread of a block has a register for each lane.
    let of_value = if target.blocks.is_some() { lanes } else { 1 };
    let all = target.vector_registers / of_value;
    let registers = if rows.len() > 1 { all * 3 / 4 } else { all / 2 };
    let budget = (registers / inner.count as u32).max(1);
    let mut accumulators: u32 = tiled.iter().map(|(_, times)| times).product();
    let is_output = |id: u32| survey.outputs.iter().any(|range| range_id(range) == id);
    let has_tile = choice.applied.iter().any(|opt| matches!(opt, Opt::Vectorize { range, .. } if is_output(*range)));
    let tile = match inner.is_of_largest {
        true => tile_of_rows(survey, target, inner, &rows, accumulators * of_value),
        // The loops around are those of the largest part, too, whose tile has its registers.
        false if has_tile => Vec::new(),
        false => tile_of_part(survey, &rows, budget / accumulators),
    };
    for (row, times) in tile {
        let is_new = tiled.iter().all(|(range, _)| *range != row);
        if times >= 2 && is_new && choice.attempt(Opt::Upcast { range: row, times }) {
            accumulators *= times;
        }
    }
    if let [first, second] = &rows[..] {
        stream_once(choice, survey, inner, [first.range, second.range]);
    }
    if let Some((row, times)) = streams(choice, survey, inner, id).filter(|_| accumulators == 1)
        && choice.attempt(Opt::Upcast { range: row, times })
    {
        accumulators = times;
    }
    let vectors = Vectors { lanes, terms, all, budget, accumulators };
    repeat_along(choice, survey, inner, id, &vectors);
}

/// What a loop has when it is in lanes: these, the terms of a lane that are added up at once, registers of a vector in all and for accumulators, and accumulators.
struct Vectors {
    lanes: u32,
    terms: u32,
    all: u32,
    budget: u32,
    accumulators: u32,
}

/// Several vectors along the range of lanes beside each other, as registers are left.
fn repeat_along(choice: &mut Attempts<'_>, survey: &Survey, inner: &InnerLoops, id: u32, vectors: &Vectors) {
    let Vectors { lanes, terms, all, budget, accumulators } = *vectors;
    // Threads of a block wait beside each other, and rows already do: more would only take registers.
    if choice.target.blocks.is_some() && accumulators >= ROWS_OF_ONE_RANGE {
        return;
    }
    // What is left over of a local buffer's loop is a vector that overlaps the one before.
    let vectors = match inner.is_local_buffer {
        true => (survey.len(id) as u32).div_ceil(lanes),
        false => survey.len(id) as u32 / (lanes * terms),
    };
    let holds_reductions = survey.inner.iter().any(|other| !other.is_local_buffer && other.is_inside(id));
    let most = match (inner.is_local_buffer, holds_reductions) {
        (false, _) => budget.min(8),
        // A register tile: its accumulators fit three quarters of the registers.
        (true, true) => all * 3 / 4,
        (true, false) => budget.min(UNROLLED_OPS_MAX / survey.body_ops.max(1)),
    };
    let wanted = (most / accumulators).min(vectors);
    let times = match inner.is_local_buffer && holds_reductions {
        true => vectors_of_fill(vectors, wanted, accumulators),
        false => even_part(vectors, wanted),
    };
    if times >= 2 {
        choice.attempt(Opt::Upcast { range: id, times });
    }
}

/// How many of a fill's vectors are computed beside each other, at most so many, each by a contraction for as many rows: what is left over is computed twice, which costs less than to wait for few
/// accumulators.
fn vectors_of_fill(vectors: u32, most: u32, rows: u32) -> u32 {
    let cycles = |beside: &u32| f64::from(vectors.div_ceil(*beside)) * step_cycles(*beside, rows);
    (1..=most).rev().min_by(|a, b| cycles(a).total_cmp(&cycles(b))).unwrap_or(1)
}

/// Where both factors of a sum of narrow numbers lie along its terms, neighbouring terms are multiplied and added up by one instruction, in each lane; gives how many, one where
/// it is not so. Nothing is copied for it: so it is for products of few rows, which read each factor where it is.
fn add_up_neighbours(choice: &mut Attempts<'_>, survey: &Survey, inner: &InnerLoops, id: u32, lanes: u32) -> u32 {
    let is_along = |access: &AccessPattern| access.steps.get(&id) == Some(&1) && !access.irregular.contains(id);
    if inner.is_local_buffer || !survey.accesses.iter().filter(|access| inner.holds(access)).all(is_along) {
        return 1;
    }
    let kinds = DotKind::ALL.iter().filter(|kind| choice.target.takes_dot(**kind));
    let mut groups: Vec<u32> = kinds.map(|kind| kind.group() as u32).collect();
    groups.sort_unstable();
    groups.dedup();
    let has_vectors = |terms: &u32| survey.len(id) >= i64::from(*terms * lanes);
    let found = groups.into_iter().rev().filter(has_vectors).find(|terms| {
        let opt = Opt::Dot { range: id, terms: *terms };
        apply(&choice.kernel, &opt, choice.target).is_ok() && choice.attempt(opt)
    });
    found.unwrap_or(1)
}

/// Rows of a part that was cut off, up to four by four: they are copies of the largest part's tile, too, which has the loops around in common with it.
fn tile_of_part(survey: &Survey, rows: &[Rows], mut room: u32) -> Vec<(u32, u32)> {
    let mut tile = Vec::new();
    for rows in rows {
        let times = ROWS_OF_ONE_RANGE.min(survey.len(rows.range) as u32).min(rows.most).min(room);
        room /= times.max(1);
        tile.push((rows.range, times));
    }
    tile
}

/// How many rows of each range go beside each other, where the tile that the reduction stands in already accumulates so many values: of two ranges those that take the
/// fewest cycles, of one up to four.
fn tile_of_rows(
    survey: &Survey,
    target: &Target,
    inner: &InnerLoops,
    rows: &[Rows],
    accumulators: u32,
) -> Vec<(u32, u32)> {
    let values = inner.count as u32 * accumulators;
    let len = |row: u32| survey.len(row) as u32;
    match rows {
        [first, second] => {
            let room = RegisterRoom { registers: target.vector_registers, values, divides: target.blocks.is_some() };
            let sides = [first, second].map(|rows| (len(rows.range), rows.most));
            let (of_first, of_second) = tile_of_two(&room, sides);
            vec![(first.range, of_first), (second.range, of_second)]
        }
        [rows, ..] => {
            let is_beside = |access: &&AccessPattern| {
                !access.is_store && access.depends.contains(rows.range) && !inner.holds(access)
            };
            let beside = survey.accesses.iter().filter(is_beside).count();
            let is_crowded = target.blocks.is_some() && beside > LOADS_BESIDE;
            let wanted = if is_crowded { ROWS_OF_ONE_RANGE / 2 } else { ROWS_OF_ONE_RANGE };
            let most = (target.vector_registers / 2 / values.max(1)).clamp(1, wanted).min(rows.most);
            vec![(rows.range, vectors_beside(len(rows.range), most.min(len(rows.range))))]
        }
        [] => Vec::new(),
    }
}

/// A range along which rows go beside each other, and how many at most.
struct Rows {
    range: u32,
    most: u32,
}

/// The two ranges around a reduction over lanes along which most of its loads are the same: of outputs, or of the local buffer that it is in.
///
/// Of a range for which a local buffer is filled, as with a row of decoded weights, copies have a buffer each: it is taken where there is no better one and all of
/// them stay in the nearest cache.
fn rows_that_share(survey: &Survey, target: &Target, reduction: &InnerLoops, id: u32) -> Vec<Rows> {
    let stages = survey.inner.iter().filter(|inner| inner.is_local_buffer).flat_map(|stage| &stage.ranges);
    let bytes_copied_for = |row: u32| -> i64 {
        let holds = |stage: &InnerLoops| {
            let own = |inner: &InnerLoops| stage.ranges.iter().any(|range| inner.is_inside(range_id(range)));
            survey.inner.iter().any(|inner| !inner.is_local_buffer && own(inner))
        };
        let stages = survey.inner.iter().filter(|inner| inner.is_local_buffer && !holds(inner));
        let copied = stages.filter(|stage| stage.is_inside(row) && !stage.has_own(row));
        let elements = copied.map(|stage| stage.ranges.iter().map(|range| range.src()[0].max_value()).product::<i64>());
        elements.sum::<i64>().saturating_mul(survey.element_bytes as i64)
    };
    let mut rows: Vec<(i64, f64, u32)> = survey
        .outputs
        .iter()
        .chain(stages)
        .map(range_id)
        .filter(|row| reduction.is_inside(*row) && survey.len(*row) >= 2)
        .map(|row| {
            let shared =
                survey.accesses.iter().filter(|access| access.depends.contains(id) && !access.depends.contains(row));
            (bytes_copied_for(row), shared.map(|access| access.weight).sum::<f64>(), row)
        })
        .filter(|(_, shared, _)| *shared > 0.0)
        .collect();
    rows.sort_by(|a, b| (a.0 > 0).cmp(&(b.0 > 0)).then(b.1.total_cmp(&a.1)));
    let most = |bytes: i64| (i64::from(target.costs.kept_bytes) / bytes.max(1)).clamp(0, i64::from(u32::MAX)) as u32;
    let rows = rows.into_iter().map(|(bytes, _, range)| Rows { range, most: most(bytes) });
    rows.filter(|rows| rows.most >= 2).take(2).collect()
}

#[cfg(test)]
mod tests {
    use super::vectors_of_fill;
    use crate::ir::text::parse;
    use crate::pipeline::loops_of;
    use crate::target::Target;
    use crate::watch::Silent;

    fn opts(text: &str) -> String {
        let ast = parse(text).expect("a graph").roots[0].clone();
        let choice = crate::optimize::choose(&loops_of(&ast, &mut Silent), &Target::test_avx512());
        crate::optimize::Opts::List(choice.applied).to_string()
    }

    fn sums(rows: i64, terms: i64) -> String {
        opts(&format!(
            "graph %sums(y: f32[{rows}], x: f32[{rows}, {terms}]) {{
  s = reduce x, add (1)
  done = store y, s
  k = sink done
  return k
}}"
        ))
    }

    #[test]
    fn a_fill_has_enough_accumulators_whatever_is_left_over() {
        assert_eq!([vectors_of_fill(35, 2, 6), vectors_of_fill(34, 2, 6), vectors_of_fill(1, 2, 6)], [2, 2, 1]);
        // Of three vectors four would be a third too many.
        assert_eq!([vectors_of_fill(3, 4, 3), vectors_of_fill(64, 4, 3)], [3, 4]);
    }

    #[test]
    fn long_rows_beyond_the_caches_are_streams_beside_each_other() {
        assert!(
            sums(1024, 8192).starts_with("vectorize(r1, 16), upcast(r0, 4), upcast(r1, 2)"),
            "{}",
            sums(1024, 8192)
        );
        for (rows, terms) in [(3000, 3000), (16, 8192)] {
            assert!(!sums(rows, terms).contains("upcast(r0"), "{rows} x {terms}: {}", sums(rows, terms));
        }
    }

    #[test]
    fn half_floats_are_summed_up_in_lanes_of_their_accumulators() {
        let sums = |dtype: &str, wide: &str| {
            opts(&format!(
                "graph %sums(y: f32[64], x: {dtype}[64, 512]) {{
  w: f32 = {wide}
  s = reduce w, add (1)
  done = store y, s
  k = sink done
  return k
}}"
            ))
        };
        for dtype in ["f16", "bf16"] {
            let opts = sums(dtype, "cast x");
            assert!(opts.starts_with("vectorize(r1, 16)"), "{dtype}: {opts}");
        }
    }

    #[test]
    fn few_rows_of_narrow_factors_add_up_neighbouring_terms() {
        let product = |rows: i64, narrow: &str, sums: &str, target: &Target| {
            let text = format!(
                "graph %product(y: {sums}[{rows}, 96], x: {narrow}[{rows}, 512], w: {narrow}[96, 512]) {{
  v: {sums} = cast x
  u: {sums} = cast w
  a = reshape v, [{rows}, 1, 512]
  wide = expand a, [{rows}, 96, 512]
  b = reshape u, [1, 96, 512]
  tall = expand b, [{rows}, 96, 512]
  p = mul wide, tall
  s = reduce p, add (2)
  done = store y, s
  k = sink done
  return k
}}"
            );
            let ast = parse(&text).expect("a graph").roots[0].clone();
            crate::optimize::Opts::List(crate::optimize::choose(&loops_of(&ast, &mut Silent), target).applied)
                .to_string()
        };
        let vnni = Target::test_vnni();
        for (narrow, sums, terms) in [("bf16", "f32", 2), ("i8", "i32", 4), ("i16", "i32", 2)] {
            // One row has no loop.
            for (rows, range) in [(1, "r1"), (4, "r2")] {
                let opts = product(rows, narrow, sums, &vnni);
                let wanted = format!("dot({range}, {terms}), vectorize({range}, 16)");
                assert!(opts.starts_with(&wanted), "{rows} rows of {narrow}: {opts}");
            }
        }
        assert!(!product(1, "bf16", "f32", &Target::test_avx2()).contains("dot("), "no instruction");
        assert!(!product(1, "f32", "f32", &vnni).contains("dot("), "no narrow factors");
    }

    #[test]
    fn ends_of_rows_have_no_tile_beside_that_of_their_middle() {
        // A window of 5 x 5 elements in steps of two, padded by two, of each channel by itself.
        let opts = opts(
            "graph %windows(y: f32[2, 64, 28, 28], x: f32[2, 64, 56, 56], w: f32[64, 5, 5]) {
  p = pad x, [0:0, 0:0, 2:2, 2:2]
  v = as_strided p, [2, 64, 28, 28, 5, 5] strides [230400, 3600, 120, 2, 60, 1] offset 0
  f = reshape w, [1, 64, 1, 1, 5, 5]
  g = expand f, [2, 64, 28, 28, 5, 5]
  m = mul v, g
  s = reduce m, add (4, 5)
  done = store y, s
  k = sink done
  return k
}",
        );
        assert!(opts.starts_with("peel(r3, 1, 27), vectorize(r3, 16), upcast(r3, 2)"), "{opts}");
        assert!(!opts.contains("upcast(r0") && !opts.contains("upcast(r2"), "{opts}");
    }

    #[test]
    fn rows_of_decoded_weights_are_kept_several_at_a_time() {
        let opts = opts(
            "graph %products(y: f32[48, 768], x: f32[48, 1024], w: i8[768, 1024]) {
  v: f32 = cast w
  kept = materialize v, (1)
  a = reshape kept, [1, 768, 1024]
  b = expand a, [48, 768, 1024]
  c = reshape x, [48, 1, 1024]
  d = expand c, [48, 768, 1024]
  p = mul d, b
  s = reduce p, add (2)
  done = store y, s
  k = sink done
  return k
}",
        );
        let tile: Vec<&str> =
            opts.split("), ").filter(|opt| opt.starts_with("upcast(r0") || opt.starts_with("upcast(r1")).collect();
        assert_eq!(tile.len(), 2, "{opts}");
    }
}
