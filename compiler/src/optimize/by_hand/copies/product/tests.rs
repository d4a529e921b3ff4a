//! What the hand choice makes of products of all sizes and layouts.

use super::*;
use crate::ir::text::parse;
use crate::pipeline::loops_of;
use crate::watch::Silent;

/// The opts that the hand choice gives a product, and what is done with it, of operands that lie as letters say: `n` plainly, `t` transposed.
fn opts(sizes: [i64; 3], layout: &str, after: &str) -> String {
    opts_for(&Target::test_avx2(), sizes, layout, after)
}

fn opts_for(target: &Target, sizes: [i64; 3], layout: &str, after: &str) -> String {
    let [rows, terms, columns] = sizes;
    let plain = |shape: [i64; 2], is_plain: bool| {
        if is_plain { format!("f32[{}, {}]", shape[0], shape[1]) } else { format!("f32[{}, {}]", shape[1], shape[0]) }
    };
    let (x_plain, w_plain) = (layout.starts_with('n'), layout.ends_with('n'));
    let view = |name: &str, is_same: bool, shape: [i64; 2]| {
        if is_same {
            format!("reshape {name}, [{}, {}]", shape[0], shape[1])
        } else {
            format!("permute {name}, (1, 0)")
        }
    };
    let text = format!(
        "graph %product(y: f32[{rows}, {columns}], x: {}, w: {}) {{
  x1 = {}
  w1 = {}
  a = reshape x1, [{rows}, 1, {terms}]
  wide = expand a, [{rows}, {columns}, {terms}]
  b = reshape w1, [1, {columns}, {terms}]
  tall = expand b, [{rows}, {columns}, {terms}]
  p = mul wide, tall
  sum = reduce p, add (2)
  {after}
  done = store y, value
  k = sink done
  return k
}}",
        plain([rows, terms], x_plain),
        plain([terms, columns], w_plain),
        view("x", x_plain, [rows, terms]),
        view("w", !w_plain, [columns, terms]),
    );
    let ast = parse(&text).expect("a graph").roots[0].clone();
    let choice = crate::optimize::choose(&loops_of(&ast, &mut Silent), target);
    crate::optimize::Opts::List(choice.applied).to_string()
}

fn has_blocks(sizes: [i64; 3], layout: &str) -> bool {
    let opts = opts(sizes, layout, "value = exp2 sum");
    opts.contains("accumulate") && opts.contains("thread")
}

#[test]
fn what_lies_badly_or_is_too_much_is_done_by_blocks() {
    assert!(has_blocks([1024, 1024, 1024], "tn"), "each term of a row is in another line");
    assert!(has_blocks([300, 1021, 300], "tn"), "terms are left over");
    assert!(has_blocks([1024, 1024, 1024], "tt"), "rows in other lines, and columns that are turned around");
    assert!(has_blocks([128, 512, 256], "tt"), "all columns would be one panel");
    assert!(has_blocks([64, 4096, 4096], "nt"), "columns are turned around");
    assert!(has_blocks([32, 4096, 4096], "nn"), "few rows");
    assert!(has_blocks([200, 16_384, 300], "nn"), "many terms");
    assert!(has_blocks([1, 4096, 4096], "nn") && has_blocks([4, 4096, 4096], "nn"), "one tile of rows");
}

#[test]
fn what_stays_in_near_caches_or_lies_in_order_is_not() {
    assert!(!has_blocks([512, 512, 512], "nn"));
    assert!(!has_blocks([100, 100, 100], "tn"));
    assert!(!has_blocks([8, 4096, 4096], "nt"), "few rows read columns in lanes of terms");
    assert!(!has_blocks([4096, 4096, 1], "nn"));
    assert!(!has_blocks([8, 4096, 4096], "tt"), "few rows read columns in lanes of terms");
    assert!(!has_blocks([32, 1024, 1024], "tt") && !has_blocks([32, 300, 2000], "tt"), "rows lie in few pages");
    assert!(!has_blocks([2000, 2000, 17], "tt"), "few columns: rows are lanes");
}

#[test]
fn a_panel_of_all_terms_that_has_room_is_no_block() {
    let costs = crate::target::Costs { packed_bytes: 128 << 10, ..crate::target::Costs::cpu() };
    let target = Target { cache_l2_bytes: 512 << 10, costs, ..Target::test_avx2() };
    let has_blocks =
        |terms: i64| opts_for(&target, [2048, terms, 2048], "nn", "value = exp2 sum").contains("accumulate");
    // 16 columns of four bytes by 2048 terms are 128 KiB.
    assert!(!has_blocks(1024) && !has_blocks(2048));
    assert!(has_blocks(2056) && has_blocks(4096));
}

#[test]
fn of_one_tile_of_rows_nothing_is_copied() {
    let opts = opts([4, 4096, 4096], "nn", "value = exp2 sum");
    assert!(!opts.contains("stage") && opts.contains("split(r2, 8)"), "{opts}");
}

#[test]
fn both_operands_of_a_transposed_product_are_copied_and_threads_share_both_sides() {
    for layout in ["tn", "tt"] {
        let opts = opts([1024, 1024, 1024], layout, "value = exp2 sum");
        assert_eq!(opts.matches("stage").count(), 2, "{layout}: {opts}");
        assert!(opts.ends_with("thread(r0, r1)"), "{layout}: {opts}");
    }
}

#[test]
fn a_block_may_be_one_tile_of_columns_wide() {
    // No loop over columns is left of it, by which the operand to be copied could be told.
    for sizes in [[129, 4096, 65], [125, 2934, 68], [500, 5000, 100]] {
        let target = Target { cache_l2_bytes: 512 << 10, threads: 2, ..Target::test_avx2() };
        let costs = crate::target::Costs { packed_bytes: 128 << 10, ..target.costs };
        let opts = opts_for(&Target { costs, ..target }, sizes, "nn", "value = exp2 sum");
        assert!(opts.contains("accumulate") && opts.contains("stage(l1, r5)"), "{sizes:?}: {opts}");
    }
}
