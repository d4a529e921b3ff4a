//! What is computed from a load alone, so that a copy may hold it.

use super::*;
use crate::ir::text::parse;
use crate::pipeline::loops_of;
use crate::watch::Silent;

/// What is computed from each load of a kernel alone.
fn computed(text: &str) -> Vec<Op> {
    let ast = parse(text).expect("a graph").roots[0].clone();
    let root = loops_of(&ast, &mut Silent);
    let dependencies = Dependencies::of(&root);
    loads_of(&root).iter().map(|load| computed_from(&dependencies, load).op()).collect()
}

#[test]
fn a_half_float_is_a_float_before_it_meets_the_other_operand() {
    let ops = computed(
        "graph %product(y: f32[6, 32], x: f32[6, 40], w: f16[32, 40]) {
  v: f32 = cast w
  a = reshape x, [6, 1, 40]
  wide = expand a, [6, 32, 40]
  b = reshape v, [1, 32, 40]
  tall = expand b, [6, 32, 40]
  p = mul wide, tall
  s = reduce p, add (2)
  done = store y, s
  k = sink done
  return k
}",
    );
    assert!(ops.contains(&Op::Cast) && ops.contains(&Op::Load) && ops.len() == 2, "{ops:?}");
}

#[test]
fn what_varies_with_more_than_the_load_is_not_of_it_alone() {
    let ops = computed(
        "graph %apart(y: f32[6, 32], x: f32[6, 40], v: f32[32, 40]) {
  a = reshape x, [6, 1, 40]
  wide = expand a, [6, 32, 40]
  b = reshape v, [1, 32, 40]
  tall = expand b, [6, 32, 40]
  d = add wide, tall
  s = reduce d, add (2)
  done = store y, s
  k = sink done
  return k
}",
    );
    assert_eq!(ops, [Op::Load, Op::Load]);
}

#[test]
fn a_product_that_is_added_up_stays_with_its_sum() {
    let ops = computed(
        "graph %squares(y: f32[6], x: f32[6, 40]) {
  p = mul x, x
  s = reduce p, add (1)
  done = store y, s
  k = sink done
  return k
}",
    );
    assert_eq!(ops, [Op::Load]);
}
