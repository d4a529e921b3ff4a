//! Products of matrices of narrow numbers by blocks, whose terms an instruction multiplies and adds up in groups ([`ir::dots`](crate::ir::dots)).
//!
//! ```text
//! fill k / 2, i, 2 { s0[k, i, 2] = x[i, k, 2] }              rows, and in the same way columns: the terms of a group lie beside each other
//! reduce k / 2 { load s0[k, i]: a pair for all lanes; load s1[k, j]: a pair for each lane; dot_products }
//! ```
//!
//! Both operands are copied, in the types that the instruction takes, so that it reads whole vectors. How an operand lies in memory decides how it is copied: along its terms, groups
//! follow each other as they are; across them, as many rows of memory as a group has terms are interleaved (`legalize::interleaved`), or tiles are turned around in registers.
//!
//! Not here: the sizes of blocks (`product_blocks`), their loops and all that comes after the copies ([`super`]). Tested below and in tests/it/dot_products.rs.

use super::blocks::ProductBlocks;
use super::operands::{Operand, Product};
use super::{Loops, attempt, split, stage, upcast, vectorize};
use crate::ir::{DotKind, UOp};
use crate::optimize::apply::apply;
use crate::optimize::by_hand::Attempts;
use crate::optimize::opt::Opt;
use crate::target::Target;

/// Ops of a term, at most, where factors are multiplied in groups: what is computed from one operand is done while it is copied.
pub(super) const OPS_OF_DOT_MAX: usize = 8;
/// Rows from which on both operands are copied so that groups of terms lie beside each other. Measured on rows of `i8` times 768 x 768, one core with AVX2 (`vpmaddwd`), in ms so and in lanes of 32
/// bits: 8 rows 0.13 and 0.21 where columns are turned around, 0.12 and 0.17 where they are not; 16 rows 0.18 and 0.40, 0.17 and 0.29; 32 rows 0.38 and 0.79, 0.30 and 0.63.
pub(super) const ROWS_MIN_OF_DOTS: i64 = 8;
/// Lanes of the sides of a tile of narrow numbers that is turned around, at most: of more its shuffles are too many nodes for a kernel.
const LANES_TURNED_MAX: i64 = 16;

/// What an instruction multiplies and adds up of a sum over a range; of several kinds the one that takes the most terms.
pub(super) fn dot_of(root: &UOp, sum: &UOp, range: u32, target: &Target) -> Option<DotKind> {
    let admits = |kind: &DotKind| {
        let opt = Opt::Dot { range, terms: kind.group() as u32 };
        kind.sums() == sum.dtype() && target.takes_dot(*kind) && apply(root, &opt, target).is_ok()
    };
    DotKind::ALL.into_iter().filter(admits).max_by_key(|kind| kind.group())
}

/// Whether both operands lie so that groups of terms can be copied beside each other, and rows are enough for the copies to pay.
pub(super) fn wants_dots(product: &Product, rows: i64, terms: i64) -> bool {
    let is_along = |operand: &Operand| operand.own_step == 1 || operand.term_step == 1;
    let groups = product.dot.map_or(0, |kind| terms / kind.group() as i64);
    rows >= ROWS_MIN_OF_DOTS && groups >= 2 && is_along(&product.of_rows) && is_along(&product.of_columns)
}

/// Copies the rows' operand with groups of terms beside each other, in the order in which it lies.
pub(super) fn copy_rows_in_groups(
    choice: &mut Attempts<'_>,
    product: &Product,
    loops: &Loops,
    rows: u32,
    blocks: &ProductBlocks,
    kind: DotKind,
) -> Option<()> {
    let (group, lanes) = (loops.group?, narrow_lanes(choice, kind));
    if product.of_rows.term_step == 1 {
        let fill = stage(choice, &product.of_rows, loops, &[rows, loops.terms, group])?;
        // Groups follow each other as terms do.
        attempt(choice, Opt::Merge { range: fill + 1, inner: fill + 2 })?;
        return vectorize(choice, fill + 1, lanes.min(blocks.terms));
    }
    let fill = stage(choice, &product.of_rows, loops, &[loops.terms, rows, group])?;
    vectorize(choice, fill + 1, lanes.min(blocks.rows))?;
    upcast(choice, fill + 2, kind.group() as i64)
}

/// Copies the columns' operand for a block with groups of terms beside each other, tile by tile; gives the loop over the columns of a tile.
pub(super) fn copy_columns_in_groups(
    choice: &mut Attempts<'_>,
    product: &Product,
    loops: &Loops,
    blocks: &ProductBlocks,
    lanes: i64,
    kind: DotKind,
) -> Option<u32> {
    let width = i64::from(blocks.tile_vectors) * lanes;
    let of_tile = split(choice, loops.fill_columns, blocks.columns, width)?;
    let mut ranges = vec![loops.terms, of_tile, loops.group?];
    if of_tile != loops.fill_columns {
        ranges.insert(0, loops.fill_columns);
    }
    let last = stage(choice, &product.of_columns, loops, &ranges)? + ranges.len() as u32 - 1;
    let narrow = narrow_lanes(choice, kind).min(width);
    if product.of_columns.own_step == 1 {
        vectorize(choice, last - 1, if width % narrow == 0 { narrow } else { lanes })?;
    } else {
        let side = narrow.min(LANES_TURNED_MAX);
        let side = if width % side == 0 { side } else { lanes };
        vectorize(choice, last - 1, side)?;
        upcast(choice, last - 1, width / side)?;
        // As many terms as lanes: whole vectors of memory, turned around in registers.
        let groups = side / kind.group() as i64;
        upcast(choice, last - 2, groups.min(blocks.terms / kind.group() as i64))?;
    }
    upcast(choice, last, kind.group() as i64)?;
    Some(of_tile)
}

/// Lanes of a vector of narrow numbers.
fn narrow_lanes(choice: &Attempts<'_>, kind: DotKind) -> i64 {
    i64::from(choice.target.vector_bytes) / kind.factors()[0].bytes() as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::text::parse;
    use crate::pipeline::loops_of;
    use crate::watch::Silent;

    /// The opts of a product of narrow numbers, columns by rows in memory, for a machine.
    fn opts_of_narrow(types: [&str; 2], rows: i64, target: &Target) -> String {
        let [narrow, sums] = types;
        let text = format!(
            "graph %product(y: {sums}[{rows}, 96], x: {narrow}[{rows}, 70], w: {narrow}[96, 70]) {{
  v: {sums} = cast x
  u: {sums} = cast w
  a = reshape v, [{rows}, 1, 70]
  wide = expand a, [{rows}, 96, 70]
  b = reshape u, [1, 96, 70]
  tall = expand b, [{rows}, 96, 70]
  p = mul wide, tall
  sum = reduce p, add (2)
  done = store y, sum
  k = sink done
  return k
}}"
        );
        let ast = parse(&text).expect("a graph").roots[0].clone();
        crate::optimize::Opts::List(crate::optimize::choose(&loops_of(&ast, &mut Silent), target).applied).to_string()
    }

    #[test]
    fn narrow_factors_of_some_rows_are_copied_in_groups_of_terms() {
        let vnni = Target::test_vnni();
        for (types, terms) in [(["i8", "i32"], 4), (["u8", "i32"], 4), (["i16", "i32"], 2), (["bf16", "f32"], 2)] {
            let opts = opts_of_narrow(types, 16, &vnni);
            assert!(opts.contains(&format!("dot(r2, {terms})")) && opts.matches("stage").count() == 2, "{opts}");
            assert!(!opts_of_narrow(types, 4, &vnni).contains("stage"), "few rows are read where they are");
        }
        assert!(opts_of_narrow(["i8", "i32"], 16, &Target::test_avx2()).contains("dot(r2, 2)"));
        assert!(!opts_of_narrow(["bf16", "f32"], 16, &Target::test_avx512()).contains("dot("), "no instruction");
    }
}
