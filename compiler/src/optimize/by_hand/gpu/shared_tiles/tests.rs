//! How large the tiles of a product are, by its size.

use super::*;
use crate::ir::text::parse;
use crate::optimize::choose;
use crate::optimize::text::print_list;
use crate::pipeline::loops_of;
use crate::target::Target;
use crate::watch::Silent;

fn product(rows: i64, terms: i64, columns: i64) -> UOp {
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
    parse(&text).expect("a graph").roots[0].clone()
}

fn side(rows: i64, terms: i64, columns: i64) -> Option<i64> {
    let choice = choose(&loops_of(&product(rows, terms, columns), &mut Silent), &Target::gpu_model());
    let copies = choice.applied.iter().filter(|opt| matches!(opt, Opt::StageAhead { .. })).count();
    let split = choice.applied.iter().find_map(|opt| match opt {
        Opt::Split { range: 0, len } | Opt::SplitMasked { range: 0, len } => Some(i64::from(*len)),
        _ => None,
    });
    assert!(copies == 0 || copies == 2, "{}\n{:#?}", print_list(&choice.applied), choice.reasons);
    split.filter(|_| copies == 2)
}

#[test]
fn tiles_are_as_large_as_leaves_work_for_all_multiprocessors() {
    assert_eq!(side(4096, 4096, 4096), Some(128));
    assert_eq!(side(1024, 1024, 1024), Some(64));
    assert_eq!(side(512, 512, 512), Some(32));
    // The last tiles are not full, nor is the last slice.
    assert_eq!(side(1000, 1000, 1000), Some(64));
    assert_eq!(side(4097, 4097, 4097), Some(128));
    // Most of a tile would be empty.
    assert_eq!(side(33, 512, 33), None);
}
