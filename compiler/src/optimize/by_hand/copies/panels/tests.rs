//! When a contraction copies a panel, and how large its blocks are.

use super::*;
use crate::ir::text::parse;
use crate::optimize::Opt;
use crate::pipeline::loops_of;
use crate::watch::Silent;

/// Whether the hand choice for a graph of one value copies something.
fn copies(text: &str) -> bool {
    let ast = parse(text).expect("a graph").roots[0].clone();
    let choice = crate::optimize::choose(&loops_of(&ast, &mut Silent), &Target::test_avx2());
    choice.applied.iter().any(|opt| matches!(opt, Opt::Stage { .. }))
}

/// Rows times the transpose of a matrix.
fn linear(rows: i64) -> String {
    format!(
        "graph %linear(y: f32[{rows}, 256], x: f32[{rows}, 512], w: f32[256, 512]) {{
  a = reshape x, [{rows}, 1, 512]
  wide = expand a, [{rows}, 256, 512]
  b = reshape w, [1, 256, 512]
  tall = expand b, [{rows}, 256, 512]
  p = mul wide, tall
  sum = reduce p, add (2)
  done = store y, sum
  k = sink done
  return k
}}"
    )
}

#[test]
fn few_rows_read_what_lies_in_order_where_it_is() {
    assert!(!copies(&linear(4)) && !copies(&linear(16)));
    assert!(copies(&linear(64)));
}

#[test]
fn few_rows_are_worth_turning_where_terms_are_few() {
    let turned = |terms: i64| [7, 8, 16, 24, 32].map(|rows| is_worth_turning(rows, terms, 16));
    assert_eq!(turned(64), [false, true, true, true, true]);
    assert_eq!(turned(512), [false, false, false, true, true]);
}

#[test]
fn results_of_the_other_matrix_fill_lanes_too() {
    // The sums of a[k, r] b[c, k] for all r and c: k is consecutive in b alone, c in the results.
    let text = "graph %product(y: f32[218, 224], a: f32[20, 218], b: f32[224, 20]) {
  v = as_strided a, [218, 224, 20] strides [1, 0, 218] offset 0
  w = as_strided b, [218, 224, 20] strides [0, 20, 1] offset 0
  p = mul v, w
  sum = reduce p, add (2)
  done = store y, sum
  k = sink done
  return k
}";
    let root = loops_of(&parse(text).expect("a graph").roots[0], &mut Silent);
    let panel = find_panel(&root, &Target::test_avx512()).expect("a panel");
    assert!(!panel.terms_last);
}

#[test]
fn what_is_reduced_once_more_copies_nothing() {
    let convolution = |reduced: &str, shape: &str| {
        format!(
            "graph %c(z: f32[{shape}], x: f32[2, 64, 512], w: f32[128, 64, 5]) {{
  v = as_strided x, [2, 1, 508, 64, 5] strides [32768, 0, 1, 512, 1] offset 0
  e = expand v, [2, 128, 508, 64, 5]
  f = reshape w, [1, 128, 1, 64, 5]
  g = expand f, [2, 128, 508, 64, 5]
  m = mul e, g
  y = reduce m, add (3, 4)
{reduced}
  k = sink done
  return k
}}"
        )
    };
    assert!(!copies(&convolution("  t = reduce y, max (2)\n  done = store z, t", "2, 128")));
}

#[test]
fn a_panel_of_many_terms_is_read_by_tiles_of_many_rows() {
    let tile = |channels: i64| {
        let text = format!(
            "graph %c(z: f32[8, 64, 54, 56], x: f32[8, {channels}, 56, 58], w: f32[64, {channels}, 3, 3]) {{
  v = as_strided x, [8, 1, 54, 56, {channels}, 3, 3] strides [{}, 0, 58, 1, 3248, 58, 1] offset 0
  e = expand v, [8, 64, 54, 56, {channels}, 3, 3]
  f = reshape w, [1, 64, 1, 1, {channels}, 3, 3]
  g = expand f, [8, 64, 54, 56, {channels}, 3, 3]
  m = mul e, g
  y = reduce m, add (4, 5, 6)
  done = store z, y
  k = sink done
  return k
}}",
            channels * 3248
        );
        let ast = parse(&text).expect("a graph").roots[0].clone();
        let choice = crate::optimize::choose(&loops_of(&ast, &mut Silent), &Target::test_avx512());
        let times = choice.applied.iter().filter_map(|opt| match opt {
            Opt::Upcast { times, .. } => Some(*times),
            _ => None,
        });
        times.take(2).collect::<Vec<_>>()
    };
    // Vectors, and rows: of 64 channels they come from the second cache.
    assert_eq!([tile(1), tile(64)], [vec![3, 8], vec![2, 13]]);
}

#[test]
fn few_terms_are_added_in_lanes_of_results() {
    let near_vectors = u32::MAX;
    let room = Room {
        near: 100,
        half: 400,
        most: 400,
        threads: 1,
        tile: 32,
        lanes: 16,
        rows: 64,
        registers: 32,
        near_vectors,
    };
    let fill = |results: i64, terms: i64| results_fill_lanes(results, terms, &room);
    assert!(fill(16, 16) && fill(16, 100_000) && fill(20, 16) && fill(8, 64));
    assert!(!fill(3, 100_000) && !fill(8, 4096) && !fill(20, 4096));
}

#[test]
fn blocks_leave_little_over() {
    // Two vectors by six rows are a tile of 16 registers.
    let (lanes, rows, registers, near_vectors) = (8, 66, 16, u32::MAX);
    let room = |near: i64, most: i64, threads: i64| Room {
        near,
        half: most,
        most,
        threads,
        tile: 16,
        lanes,
        rows,
        registers,
        near_vectors,
    };
    // One row of 15 would stay near, but fills no tile.
    assert_eq!(best_part(15, 15, 2, &Room { half: 77, rows: 99, ..room(15, 154, 2) }), 3);
    // 4 of 28 rows of 28 are seven tiles of 16; all of 14 x 14 leave less over than 7 rows would; 7 x 7 fill four tiles in no way.
    let part = |len: i64, near: i64, most: i64| best_part(len, len, 1, &room(near, most, 1));
    assert_eq!(part(28, 200, 400), 4);
    assert_eq!(part(14, 300, 400), 14);
    assert_eq!(part(7, 100, 400), 7);
    assert_eq!(part(28, 20, 20), 1);
    // Two rows would stay near, but an eighth would be done twice.
    assert_eq!(part(28, 60, 120), 4);
    // Of one image, a block for each of seven threads.
    assert_eq!(best_part(28, 28, 1, &room(400, 400, 7)), 4);
    assert_eq!(best_part(28, 28, 1, &room(400, 400, 2)), 14);
    // Seven vectors of 16 lanes are one tile; eight rows would be twice three, and some rows twice.
    assert_eq!(best_part(28, 28, 1, &Room { lanes: 16, tile: 32, rows: 32, registers: 32, ..room(222, 455, 1) }), 4);
    // Not so where vectors come from the second cache, few at a time: five rows are three times three.
    let of_far = Room { lanes: 16, tile: 32, rows: 64, registers: 32, near_vectors: 0, ..room(222, 455, 1) };
    assert_eq!(best_part(28, 28, 1, &of_far), 5);
    // What is beyond half of the second cache comes from the last one: seven rows of 34 leave less over than three.
    let of_windows = |half: i64| best_part(34, 34, 4, &Room { half, rows: 30, ..room(59, 238, 2) });
    assert!(of_windows(238) == 7 && of_windows(119) < 5);
}
