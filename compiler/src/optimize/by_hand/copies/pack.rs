//! The operand that all rows of a register tile share is packed: its part for the tile's columns is copied once, and then read by each tile of rows in order.
//!
//! ```text
//! for j / 16 { for i / 6 { reduce k { load x[i, k]; load w[k, j] } } }
//! for j / 16 { fill k { s[k] = w[k, j] }; for i / 6 { reduce k { load x[i, k]; load s[k] } } }
//! ```
//!
//! Read in place, each step of the reduction is in another line of memory, and where rows lie a power of two apart a few sets of the cache hold all of them.
//! The copy takes a load and a store for each element; it pays where tiles of rows pass often enough (`PASSES_MIN`), and must fit in the caches that packed
//! loads stay in (`Costs::packed_bytes`). Where the rows of the operand lie side by side already there is nothing to gain.
//!
//! What is computed from the operand alone, as a float from a half one, is copied in its place, and that of the rows for each tile of them: so the loop of the tile has
//! nothing but its multiply-adds.
//!
//! Always: one opt `stage` or `stage_computed` for each operand; one that is refused is left out. Tested here, and by every product of matrices that runs.

use rustc_hash::FxHashSet;

use crate::ir::{AxisKind, Op, UOp};
use crate::kernel::effects::memory_in_place;
use crate::kernel::ranges::{Dependencies, closed_ranges, next_range_id, range_id};
use crate::optimize::by_hand::Attempts;
use crate::optimize::opt::Opt;
use crate::optimize::transforms::stage::{computed_from, loads_of};
use crate::symbolic::linear_terms;

/// Tiles of rows that read a copy, at least. A copied element costs about two multiply-adds of a tile's step, and has `rows` of them in each pass.
pub(crate) const PASSES_MIN: i64 = 8;

/// Cycles of a load and a store of a vector, and of a load under a mask that is computed for it. Measured on windows of images of 14 x 14 with padding, one core with AVX-512: 0.5 cycles for an
/// element in vectors of 8, 3 by itself.
pub(crate) const LOAD_AND_STORE: f64 = 1.5;
pub(crate) const MASKED_LOAD_AND_STORE: f64 = 4.0;

/// The loops of a register tile.
pub(crate) struct TileLoops {
    /// The loop over vectors of columns, and how many columns one of its iterations has.
    pub(crate) columns: u32,
    pub(crate) width: i64,
    /// The loop over tiles of rows, and how many there are at least.
    pub(crate) rows: u32,
    pub(crate) passes: i64,
}

/// Packs the operand that rows share, if there is one that it pays for; whether it did.
pub(crate) fn pack_shared_operand(choice: &mut Attempts<'_>, tile: &TileLoops) -> bool {
    let is_outside = choice.kernel.src().iter().all(|store| comes_before(store, tile.columns, tile.rows));
    if tile.passes < PASSES_MIN || !is_outside {
        return false;
    }
    let dependencies = Dependencies::of(&choice.kernel);
    let replaced = memory_in_place(&choice.kernel);
    let found = loads_of(&choice.kernel).into_iter().zip(0..).find_map(|(load, number)| {
        let set = dependencies.get(&load);
        let is_shared = set.contains(tile.columns) && !set.contains(tile.rows) && is_plain(&load, &replaced);
        let terms = if is_shared { terms_around(&choice.kernel, &load, &dependencies) } else { Vec::new() };
        let elements: Option<Vec<i64>> = terms.iter().map(|range| range.src()[0].as_int()).collect();
        let elements = elements?.iter().product::<i64>().saturating_mul(tile.width);
        let bytes = elements.saturating_mul(copied_bytes(&dependencies, &load));
        let fits = bytes <= i64::from(choice.target.costs.packed_bytes);
        let is_apart = terms.last().is_some_and(|range| lies_apart(&load, range, tile.width));
        (fits && is_apart).then(|| (number, terms.iter().map(range_id).collect::<Vec<u32>>()))
    });
    found.is_some_and(|(load, ranges)| attempt_copy(choice, load, ranges))
}

/// Copies what is computed from the rows' operand alone for each tile of rows, if something is: their elements are read one by one, for each tile of columns again.
pub(crate) fn compute_rows(choice: &mut Attempts<'_>, tile: &TileLoops, rows: u32) {
    let dependencies = Dependencies::of(&choice.kernel);
    let replaced = memory_in_place(&choice.kernel);
    let found = loads_of(&choice.kernel).into_iter().zip(0..).find_map(|(load, number)| {
        let set = dependencies.get(&load);
        let value = computed_from(&dependencies, &load);
        let is_of_rows = set.contains(tile.rows) && !set.contains(tile.columns) && is_plain(&load, &replaced);
        let terms =
            if is_of_rows && value != load { terms_around(&choice.kernel, &load, &dependencies) } else { Vec::new() };
        let elements: Option<Vec<i64>> = terms.iter().map(|range| range.src()[0].as_int()).collect();
        let bytes = elements?.iter().product::<i64>().saturating_mul(i64::from(rows) * value.dtype().bytes() as i64);
        let lanes = i64::from(choice.target.vector_bytes) / value.dtype().bytes() as i64;
        let in_lanes = |range: &UOp| step_along(&load, range) == Some(1) && range.src()[0].min_value() >= lanes;
        let fits = bytes <= i64::from(choice.target.costs.packed_bytes) && terms.last().is_some_and(in_lanes);
        fits.then(|| (number, terms.iter().map(range_id).collect::<Vec<u32>>(), lanes))
    });
    let Some((load, ranges, lanes)) = found else { return };
    let last = next_range_id(&choice.kernel) + ranges.len() as u32 - 1;
    if choice.attempt(Opt::StageComputed { load, ranges }) {
        choice.attempt(Opt::Vectorize { range: last, lanes: lanes as u32 });
    }
}

/// Copies what is computed from a load alone, or what it gives if that is nothing or has no room.
pub(crate) fn attempt_copy(choice: &mut Attempts<'_>, load: u32, ranges: Vec<u32>) -> bool {
    let node = loads_of(&choice.kernel).into_iter().nth(load as usize);
    let is_computed = node.is_some_and(|node| computed_from(&Dependencies::of(&choice.kernel), &node) != node);
    is_computed && choice.attempt(Opt::StageComputed { load, ranges: ranges.clone() })
        || choice.attempt(Opt::Stage { load, ranges })
}

/// Bytes of an element of the copy that [`attempt_copy`] makes.
pub(crate) fn copied_bytes(dependencies: &Dependencies, load: &UOp) -> i64 {
    computed_from(dependencies, load).dtype().bytes() as i64
}

pub(crate) fn is_plain(load: &UOp, replaced: &FxHashSet<UOp>) -> bool {
    let [memory, _] = load.src()[0].src() else { return false };
    memory.op() == Op::Param && !replaced.contains(memory)
}

/// Whether one of a store's loops stands outside of another.
fn comes_before(store: &UOp, outer: u32, inner: u32) -> bool {
    let position = |id: u32| closed_ranges(store).iter().position(|range| range_id(range) == id);
    matches!((position(outer), position(inner)), (Some(outer), Some(inner)) if outer < inner)
}

/// The loops of reductions that a load varies with.
pub(crate) fn terms_around(root: &UOp, load: &UOp, dependencies: &Dependencies) -> Vec<UOp> {
    let set = dependencies.get(load);
    let mut ranges = crate::kernel::ranges::all_ranges(root);
    let is_term = |range: &UOp| range.as_range().is_some_and(|range| range.kind == AxisKind::Reduce);
    ranges.retain(|range| set.contains(range_id(range)) && is_term(range));
    ranges.sort_by_key(range_id);
    ranges
}

/// Whether a step of a loop goes further in memory than a tile is wide.
fn lies_apart(load: &UOp, range: &UOp, width: i64) -> bool {
    step_along(load, range).is_some_and(|step| step > width)
}

/// How far a step of a loop goes in memory, if it goes evenly.
fn step_along(load: &UOp, range: &UOp) -> Option<i64> {
    let terms = linear_terms(&load.src()[0].src()[1]).0;
    // Where columns do not fill the last tile, their number is no loop; that of the term must be.
    let is_regular =
        terms.iter().all(|(term, _)| term == range || !Dependencies::of(term).get(term).contains(range_id(range)));
    let step: i64 = terms.iter().filter(|(term, _)| term == range).map(|(_, step)| step.abs()).sum();
    is_regular.then_some(step)
}

#[cfg(test)]
mod tests {
    use crate::ir::text::parse;
    use crate::optimize::Opt;
    use crate::pipeline::loops_of;
    use crate::target::Target;
    use crate::watch::Silent;

    /// Whether the hand choice for a kernel, of which the stores and all before them is given, packs a part of an operand.
    fn is_packed(text: &str) -> bool {
        let ast = parse(text).expect("a graph").roots[0].clone();
        let choice = crate::optimize::choose(&loops_of(&ast, &mut Silent), &Target::test_avx2());
        // Blocks of terms are another matter (`product`).
        let is_blocked = choice.applied.iter().any(|opt| matches!(opt, Opt::Accumulate { .. }));
        !is_blocked && choice.applied.iter().any(|opt| matches!(opt, Opt::Stage { .. }))
    }

    /// Of what is made of a term `p` of a row and `tall` of a column, the sum.
    fn sums(rows: i64, terms: i64, columns: i64, term: &str) -> bool {
        is_packed(&format!(
            "graph %product(y: f32[{rows}, {columns}], x: f32[{rows}, {terms}], w: f32[{terms}, {columns}]) {{
  a = reshape x, [{rows}, 1, {terms}]
  wide = expand a, [{rows}, {columns}, {terms}]
  t = permute w, (1, 0)
  b = reshape t, [1, {columns}, {terms}]
  tall = expand b, [{rows}, {columns}, {terms}]
{term}
  sum = reduce p, add (2)
  done = store y, sum
  k = sink done
  return k
}}"
        ))
    }

    fn packs(rows: i64, terms: i64, columns: i64) -> bool {
        sums(rows, terms, columns, "  p = mul wide, tall")
    }

    #[test]
    fn an_operand_that_many_rows_share_is_packed() {
        assert!(packs(512, 512, 512));
        assert!(packs(500, 300, 1000));
        assert!(sums(512, 512, 512, MANY_OPS));
    }

    #[test]
    fn what_few_rows_read_or_lies_in_order_or_fills_the_cache_is_read_in_place() {
        assert!(!packs(24, 512, 512), "few rows");
        assert!(!packs(512, 512, 16), "rows of one tile lie side by side");
        assert!(!packs(512, 65_536, 512), "more than stays in the cache");
        assert!(!sums(512, 8192, 512, MANY_OPS), "more than stays in the cache, and no blocks of terms");
    }

    #[test]
    fn heads_that_are_stored_inside_of_rows_are_loops_outside_of_them() {
        let text = "graph %heads(y: f32[100, 5, 64], x: f32[5, 100, 80], w: f32[5, 80, 64]) {
  a = reshape x, [5, 100, 1, 80]
  wide = expand a, [5, 100, 64, 80]
  t = permute w, (0, 2, 1)
  b = reshape t, [5, 1, 64, 80]
  tall = expand b, [5, 100, 64, 80]
  p = mul wide, tall
  s = reduce p, add (3)
  u = reshape s, [5, 100, 64]
  v = permute u, (1, 0, 2)
  done = store y, v
  k = sink done
  return k
}";
        let ast = parse(text).expect("a graph").roots[0].clone();
        let choice = crate::optimize::choose(&loops_of(&ast, &mut Silent), &Target::test_avx512());
        let outermost = |opt: &&Opt| matches!(opt, Opt::Outermost { .. });
        // Around the one vector of columns, and so around the rows.
        let found: Vec<String> = choice.applied.iter().filter(outermost).map(ToString::to_string).collect();
        assert_eq!(found, ["outermost(r1)"], "{:?}", choice.applied);
    }

    /// A term of so many ops that no blocks are made of its sum.
    const MANY_OPS: &str = "  d = sub wide, tall
  e = mul d, d
  f = max e, 1.0
  g = mul f, wide
  h = add g, tall
  p = mul h, d";
}
