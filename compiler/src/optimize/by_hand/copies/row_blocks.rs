//! Blocks of rows around a register tile, where the rows' operand is more than stays in the last cache.
//!
//! ```text
//! for j / 16                { fill k { s[k] = w[k, j] }; for i / 6           { reduce k { load x[i, k]; load s[k] } } }
//! for i / 516 { for j / 16  { fill k { s[k] = w[k, j] }; for i / 6 (of 516)  { reduce k { load x[i, k]; load s[k] } } } }
//! ```
//!
//! Without blocks each tile of columns reads all rows again, from memory if they are many. With blocks it reads those of a block, which stay in the last cache while
//! the tiles of columns pass; the price is that the columns' operand is copied once for each block. So a block has as many rows as there is room for, and
//! none is made where these are too few to be worth a copy.
//!
//! Measured on one core with AVX2 and 32 MiB of last cache, busy with other work, 2048 x 2048 x 2048: 67 GFLOP/s without blocks, 73 to 79 with blocks of 2 to 8 MiB.
//!
//! Always: the opts split, outermost and those of `pack`; where the columns' operand is not packed, no blocks are left. Tested below.

use super::pack::{PASSES_MIN, TileLoops, is_plain, pack_shared_operand, terms_around};
use crate::kernel::effects::memory_in_place;
use crate::kernel::ranges::{Dependencies, next_range_id};
use crate::optimize::by_hand::Attempts;
use crate::optimize::opt::Opt;
use crate::optimize::transforms::stage::loads_of;

/// A block is this part of the last cache: other cores and what passes by have the rest.
const PART_OF_LAST_CACHE: u64 = 8;
/// Rows of a block, at least. A copied element costs as much as some 14 multiply-adds of a tile (`product::blocks`).
const ROWS_MIN: i64 = 256;

/// Packs the operand that the rows of a tile share, for blocks of rows if these are too many for the last cache.
pub(crate) fn pack_for_row_blocks(choice: &mut Attempts<'_>, tile: &TileLoops, rows: u32) {
    let (before, applied) = (choice.kernel.clone(), choice.applied.len());
    if let Some(block) = make_row_blocks(choice, tile, i64::from(rows)) {
        if pack_shared_operand(choice, &block) {
            return;
        }
        choice.kernel = before;
        choice.applied.truncate(applied);
    }
    pack_shared_operand(choice, tile);
}

/// The loops of a tile inside of a block of rows, if blocks were made.
fn make_row_blocks(choice: &mut Attempts<'_>, tile: &TileLoops, rows: i64) -> Option<TileLoops> {
    let bytes = bytes_of_rows(choice, tile, rows)?;
    let block_bytes = (choice.target.cache_l3_bytes / PART_OF_LAST_CACHE) as i64;
    let blocks = (bytes + block_bytes - 1) / block_bytes.max(1);
    let tiles = (tile.passes + blocks - 1) / blocks.max(1);
    if blocks <= 2 || tiles * rows < ROWS_MIN || tiles < PASSES_MIN {
        return None;
    }
    let inside = next_range_id(&choice.kernel);
    let is_done = choice.attempt(Opt::Split { range: tile.rows, len: u32::try_from(tiles).ok()? })
        && choice.attempt(Opt::Outermost { range: tile.rows });
    is_done.then_some(TileLoops { rows: inside, passes: tiles, ..*tile })
}

/// Bytes of the operand that all tiles of columns read: what is loaded for each row and term.
fn bytes_of_rows(choice: &Attempts<'_>, tile: &TileLoops, rows: i64) -> Option<i64> {
    let dependencies = Dependencies::of(&choice.kernel);
    let replaced = memory_in_place(&choice.kernel);
    loads_of(&choice.kernel).into_iter().find_map(|load| {
        let set = dependencies.get(&load);
        let is_of_rows = set.contains(tile.rows) && !set.contains(tile.columns) && is_plain(&load, &replaced);
        let terms = if is_of_rows { terms_around(&choice.kernel, &load, &dependencies) } else { Vec::new() };
        let elements: Option<Vec<i64>> = terms.iter().map(|range| range.src()[0].as_int()).collect();
        let elements = elements.filter(|lens| !lens.is_empty())?.iter().product::<i64>();
        elements.checked_mul(tile.passes * rows)?.checked_mul(load.dtype().bytes() as i64)
    })
}

#[cfg(test)]
mod tests {
    use crate::ir::text::parse;
    use crate::optimize::Opts;
    use crate::pipeline::loops_of;
    use crate::target::Target;
    use crate::watch::Silent;

    fn opts(rows: i64, terms: i64, columns: i64) -> String {
        let text = format!(
            "graph %product(y: f32[{rows}, {columns}], x: f32[{rows}, {terms}], w: f32[{terms}, {columns}]) {{
  a = reshape x, [{rows}, 1, {terms}]
  wide = expand a, [{rows}, {columns}, {terms}]
  t = permute w, (1, 0)
  b = reshape t, [1, {columns}, {terms}]
  tall = expand b, [{rows}, {columns}, {terms}]
  p = mul wide, tall
  sum = reduce p, add (2)
  done = store y, sum
  k = sink done
  return k
}}"
        );
        let ast = parse(&text).expect("a graph").roots[0].clone();
        Opts::List(crate::optimize::choose(&loops_of(&ast, &mut Silent), &Target::test_avx2()).applied).to_string()
    }

    #[test]
    fn rows_that_leave_the_last_cache_are_walked_in_blocks() {
        // 16 MiB are four blocks of 4 MiB: 342 tiles of six rows by 86.
        let many = opts(2048, 2048, 2048);
        assert!(many.contains("split(r0, 86), outermost(r0), stage(l1, r2)"), "{many}");
        assert!(many.ends_with("thread(r0, r1)"), "{many}");
    }

    #[test]
    fn rows_that_stay_there_are_not() {
        assert!(!opts(1024, 1024, 1024).contains("split"));
        assert!(!opts(1024, 2048, 1024).contains("split"), "twice a block");
    }
}
