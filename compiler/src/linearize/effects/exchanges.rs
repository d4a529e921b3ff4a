//! Proves of a finished list that what is exchanged in scratch is found as it was left: filled anew, and then exchanged in order.
//!
//! ```text
//! for row in 0..8                    the loops around: filled anew in each of their iterations
//!   for i in 0..4
//!     store s0[i], load table[row * 4 + i]
//!   for k in 0..100   serial         the order in which elements come
//!     e = exchange s0[load digit[row * 100 + k]], 1
//! ```
//!
//! Of a scratch in which a list exchanges elements: there is one exchange; the innermost loop that it stands in is serial, and every store
//! stands before it, in the loops around that loop and in none of the others. Nothing else reads the scratch.
//!
//! Not here: whether each element was stored that is exchanged (`interpret` watches that). Tested below with lists that are wrong.

use super::{MemoryAccess, Values, accesses_of, length};
use crate::ir::{AxisKind, Op, UOp};

/// What is wrong with what is exchanged in scratch memory.
pub(super) fn check(list: &[UOp], values: &Values<'_>) -> Result<(), String> {
    let exchanges = list.iter().filter(|node| node.op() == Op::Exchange);
    exchanges.map(|exchange| &exchange.src()[0].src()[0]).try_for_each(|memory| check_memory(list, memory, values))
}

fn check_memory(list: &[UOp], memory: &UOp, values: &Values<'_>) -> Result<(), String> {
    let all = accesses_of(list, &std::iter::once(memory.clone()).collect(), values);
    let never_runs = |access: &&MemoryAccess| access.loops.iter().any(|range| length(range, values) == 0);
    let is_exchange = |access: &&MemoryAccess| list[access.position].op() == Op::Exchange;
    let Some(exchange) = all.iter().find(is_exchange) else { return Ok(()) };
    let wrong = |why: &str| Err(format!("op {} exchanges: {why}", exchange.position));
    let Some((order, around)) = exchange.loops.split_last() else { return wrong("it stands in no loop") };
    if order.as_range().is_none_or(|arg| arg.kind != AxisKind::Serial) {
        return wrong("the loop that it stands in has no order");
    }
    for other in all.iter().filter(|other| other.position != exchange.position && !never_runs(other)) {
        if !other.is_store {
            return wrong(&format!("op {} reads its memory too", other.position));
        }
        let shared = other.loops.iter().zip(&exchange.loops).take_while(|(a, b)| a == b).count();
        if other.position > exchange.position || shared != around.len() {
            return wrong(&format!("op {} does not fill its memory before each round", other.position));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::linearize::{effects, text};

    const LIST: &str = "linear %ranks(i32[800] write, i32[800] read, i32[32] read) {
      rows: i64 = const 8
      four: i64 = const 4
      hundred: i64 = const 100
      one: i32 = const 1
      p0: i32 = param #0 [800]
      p1: i32 = param #1 [800]
      p2: i32 = param #2 [32]
      s0: i32 = scratch #0 [4]
      r0: i64 = range rows, loop #0
        r1: i64 = range four, loop #1
          v0 = mul r0, four
          v1 = add v0, r1
          v2 = index p2, v1
          v3 = load v2
          v4 = index s0, r1
          v5 = store v4, v3
        v6 = end r1
        r2: i64 = range hundred, serial #2
          v7 = mul r0, hundred
          v8 = add v7, r2
          v9 = index p1, v8
          v10 = load v9
          v11: i64 = cast v10
          v12 = index s0, v11
          v13 = exchange v12, one, add
          v14 = index p0, v8
          v15 = store v14, v13
        v16 = end r2
      v17 = end r0
    }";

    fn check(list: &str) -> Result<(), String> {
        effects::check(&text::parse(list).expect("a list").ops)
    }

    #[test]
    fn what_is_filled_and_then_exchanged_in_order_is_right() {
        assert_eq!(check(LIST), Ok(()));
    }

    #[test]
    fn an_exchange_without_an_order_is_found() {
        let error = check(&LIST.replace("serial #2", "loop #2")).unwrap_err();
        assert!(error.ends_with("has no order"), "{error}");
    }

    #[test]
    fn memory_that_is_filled_once_for_all_rows_is_found() {
        let fill = &LIST[LIST.find("        r1:").unwrap()..LIST.find("        r2:").unwrap()];
        let outside = LIST.replace(fill, "").replace("      r0: i64", &format!("{fill}      r0: i64"));
        let error = check(&outside.replace("v0 = mul r0, four", "v0 = mul four, four")).unwrap_err();
        assert!(error.ends_with("before each round"), "{error}");
    }

    #[test]
    fn a_second_reader_is_found() {
        let read = LIST
            .replace("      v17 = end r0", "        v18 = index s0, four\n        v19 = load v18\n      v17 = end r0");
        let error = check(&read).unwrap_err();
        assert!(error.ends_with("reads its memory too"), "{error}");
    }
}
