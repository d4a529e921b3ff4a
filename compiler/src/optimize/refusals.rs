//! Tests of what opts refuse: for each reason that guards values, a kernel and the opt that would break it.

use super::apply;
use super::text::parse_list;
use crate::ir::text::parse;
use crate::pipeline::loops_of;
use crate::target::Target;
use crate::watch::Silent;

/// Applies the opts to the only kernel of a text; what the last one is refused for, or nothing.
fn refusal(text: &str, opts: &str) -> Option<String> {
    let graph = parse(text).expect("a graph");
    let mut kernel = loops_of(&graph.roots[0], &mut Silent);
    for opt in &parse_list(opts).expect("opts") {
        match apply(&kernel, opt, &Target::test_avx512()) {
            Ok(new) => kernel = new,
            Err(refused) => return Some(refused.reason.to_string()),
        }
    }
    None
}

/// x = reversed x, by way of a copy: all of it is read before any of it is replaced.
const REVERSED: &str = "graph %reversed(x: f32[64]) {
  turned = flip x, (0)
  copy = materialize turned, (0)
  done = store x, copy
  k = sink done
  return k
}";

/// y = x through a view of y whose rows are a variable, turned: its index is made of a quotient and a remainder by that variable.
const UNEVEN: &str = "graph %uneven(y: f32[32], x: f32[32], n: index 1..8) {
  m = mul n, 4
  rows = shrink y, [0:m]
  table = reshape rows, [n, 4]
  turned = permute table, (1, 0)
  flat = reshape turned, [m]
  part = shrink x, [0:m]
  done = store flat, part
  k = sink done
  return k
}";

#[test]
fn threads_do_not_replace_what_others_have_to_read() {
    let reason = "one thread would replace what another still has to read";
    assert_eq!(refusal(REVERSED, "thread(r0)").as_deref(), Some(reason));
}

#[test]
fn lanes_store_at_even_steps() {
    let reason = "a store's index does not move evenly with the range";
    assert_eq!(refusal(UNEVEN, "vectorize(r0, 4)").as_deref(), Some(reason));
}
