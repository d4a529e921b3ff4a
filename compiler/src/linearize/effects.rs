//! Proves of a finished list that nothing is read after it was replaced.
//!
//! Where a list loads and stores the same memory, every element must be loaded before it is stored, in whatever order iterations run:
//!
//! - two *different* iterations of the loops that a load and a store share touch different elements, and
//! - in the *same* iteration, the load stands before the store, or they touch different elements.
//!
//! Offsets are sums of loop variables with factors, so the question is whether `a1*t1 + a2*t2 + ... + c = 0` has a solution within bounds
//! where one of the `t` is the distance between two iterations (`equation`). Offsets that are no such sums (quotients of quotients, positions that were loaded)
//! are compared as they stand: a load and a store at one expression, the load first, are right if the store's view shows no element
//! twice, which whoever writes through a view has checked. Where the expressions differ, or a solution leaves gates and digits aside, the offsets
//! are computed in every iteration (`iterations`).
//! Where lengths are variables, all this is asked for several values of each, its bounds among them.
//!
//! What is exchanged in scratch, in order, says `exchanges`. Partial results that accumulate in scratch are read and replaced in many iterations; what must hold of them says `accumulations`.
//!
//! This shares no code with the passes that order effects (`kernel::effects`, `linearize::linearizer`), so that one mistake is not made twice. It runs on every
//! kernel in debug builds. Tested below with lists that are wrong.

mod accumulations;
mod equation;
mod exchanges;
mod iterations;
mod offsets;

use rustc_hash::FxHashSet;

use crate::ir::{AxisKind, Op, UOp};
use equation::{Found, Sum, Term, search};
use offsets::{Values, fixed_value, length, offset_of};

/// A load or store of memory that the list both loads and stores.
struct MemoryAccess<'a> {
    position: usize,
    /// The loops that are open, outermost first.
    loops: Vec<&'a UOp>,
    index: &'a UOp,
    is_store: bool,
    offset: Option<Sum>,
}

/// What is wrong with the order of loads and stores in a list: a bug in the compiler.
///
/// # Errors
/// A sentence that names the load and the store.
pub fn check(list: &[UOp]) -> Result<(), String> {
    let memory = memory_in_place(list);
    for values in assignments(list) {
        accumulations::check(list, &values)?;
        exchanges::check(list, &values)?;
        let accesses = accesses_of(list, &memory, &values);
        for load in accesses.iter().filter(|access| list[access.position].op() == Op::Load) {
            let same_memory = |store: &&MemoryAccess| store.is_store && store.index.src()[0] == load.index.src()[0];
            for store in accesses.iter().filter(same_memory) {
                check_pair(load, store, &values)
                    .map_err(|why| format!("op {} loads what op {} replaces: {why}", load.position, store.position))?;
            }
        }
    }
    Ok(())
}

/// Values for all variables at once: the ends of their bounds, and numbers in between that differ from variable to variable.
fn assignments(list: &[UOp]) -> Vec<Values<'_>> {
    let variables: Vec<&UOp> = list.iter().filter(|node| node.op() == Op::Variable).collect();
    let rounds = if variables.is_empty() { 1 } else { 6 };
    let value = |round: i128, number: i128, variable: &UOp| {
        let (low, high) = (variable.min_value() as i128, variable.max_value() as i128);
        match round {
            0 => high,
            1 => low,
            _ => low + (round * 7 + number * 13 + (high - low) * round / 6) % (high - low + 1),
        }
    };
    let round = |round| variables.iter().zip(0..).map(|(node, number)| (*node, value(round, number, node))).collect();
    (0..rounds).map(round).collect()
}

/// The memory that a list both loads and stores.
fn memory_in_place(list: &[UOp]) -> FxHashSet<UOp> {
    let of_op = |wanted: Op| {
        let memory = list.iter().filter(move |node| node.op() == wanted).map(|node| node.src()[0].src()[0].clone());
        memory.filter(|memory| memory.op() == Op::Param).collect::<FxHashSet<UOp>>()
    };
    let stored = of_op(Op::Store);
    of_op(Op::Load).into_iter().filter(|memory| stored.contains(memory)).collect()
}

fn accesses_of<'a>(list: &'a [UOp], memory: &FxHashSet<UOp>, values: &Values<'_>) -> Vec<MemoryAccess<'a>> {
    let mut open: Vec<&UOp> = Vec::new();
    let mut accesses = Vec::new();
    for (position, node) in list.iter().enumerate() {
        match node.op() {
            Op::Range => open.push(node),
            Op::EndRange => drop(open.pop()),
            Op::Load | Op::Store | Op::Previous | Op::Exchange if memory.contains(&node.src()[0].src()[0]) => {
                let index = &node.src()[0];
                let (loops, is_store) = (open.clone(), node.op() == Op::Store);
                accesses.push(MemoryAccess { position, loops, index, is_store, offset: offset_of(index, values) });
            }
            _ => {}
        }
    }
    accesses
}

fn check_pair(load: &MemoryAccess, store: &MemoryAccess, values: &Values<'_>) -> Result<(), String> {
    if load.loops.iter().chain(&store.loops).any(|range| length(range, values) == 0) {
        return Ok(());
    }
    // What stands outside of a loop that may be empty is gated by that.
    let gate = load.index.src().get(2).map(|gate| if gate.op() == Op::Splat { &gate.src()[0] } else { gate });
    if gate.is_some_and(|gate| fixed_value(gate, values) == Some(0)) {
        return Ok(());
    }
    let shared = load.loops.iter().zip(&store.loops).take_while(|(a, b)| a == b).count();
    let is_first = load.position < store.position;
    let same_offset = is_first && load.index.src()[1] == store.index.src()[1] && shared == load.loops.len();
    // Each thread does what stands outside of the loop that they share, perhaps when another has stored already.
    let is_parallel = |range: &&UOp| range.as_range().is_some_and(|arg| arg.kind == AxisKind::Parallel);
    let is_first = is_first && !store.loops[shared..].iter().any(is_parallel);
    let by_equation = match (&load.offset, &store.offset) {
        // All that is loaded is loaded before anything is stored.
        _ if is_first && shared == 0 => Found::Nothing,
        (Some(a), Some(b)) => search(a, b, &load.loops[..shared], is_first, values),
        _ => Found::Unknown,
    };
    let found = match by_equation {
        Found::Unknown if same_offset => Found::Nothing,
        Found::Unknown | Found::MayConflict => iterations::compare([load, store], shared, is_first, values),
        found => found,
    };
    match found {
        Found::Nothing => Ok(()),
        Found::Unknown | Found::MayConflict => Err("it is not known to come first".to_string()),
        Found::Conflict if is_first => Err("another iteration may have replaced it".to_string()),
        Found::Conflict => Err("it comes later".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;
    use crate::ir::{Arg, Dim, Sources};
    use crate::pipeline::{LowerOptions, lower_kernel};
    use crate::target::Target;
    use crate::watch::Silent;

    fn x() -> UOp {
        UOp::param(0, DType::F32, 96)
    }

    /// The list of a kernel that stores into memory that it loads.
    fn list(stores: &[(UOp, UOp)], no_opt: bool) -> Vec<UOp> {
        let stores = stores.iter().map(|(target, value)| {
            let src: Sources = [target.clone(), value.clone()].into_iter().collect();
            UOp::new(Op::Store, DType::VOID, src, Arg::None)
        });
        let options = LowerOptions::by_hand_unless(no_opt);
        let ops =
            lower_kernel(&UOp::sink(stores), &Target::test_avx512(), &options, &mut Silent).map(|linear| linear.ops);
        ops.unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn updates_in_place_are_right_however_they_are_laid_out() {
        let square = x().reshape([8, 12]);
        let column = |from: i64| square.shrink(&[(0.into(), 8.into()), (from.into(), (from + 3).into())]);
        let other = UOp::param(1, DType::F32, 24).reshape([8, 3]);
        let sum = x().reduce(crate::ir::ReduceOp::Add, &[0]).reshape([1]).expand([96]);
        for no_opt in [true, false] {
            assert_eq!(check(&list(&[(x(), &x() * 2 + 1)], no_opt)), Ok(()));
            assert_eq!(check(&list(&[(square.permute(&[1, 0]), square.permute(&[1, 0]).exp2())], no_opt)), Ok(()));
            assert_eq!(check(&list(&[(x().flip(&[0]), x().flip(&[0]).exp2())], no_opt)), Ok(()));
            // Columns that are read beside columns that are replaced.
            assert_eq!(check(&list(&[(column(1), column(4) + &other)], no_opt)), Ok(()));
            assert_eq!(check(&list(&[(x(), x() - &sum)], no_opt)), Ok(()));
            // Rows of a length that is a variable, at its least no whole vector.
            let n = Dim::from(UOp::variable("n", 1, 96));
            let part = x().shrink(&[(0.into(), n.clone())]);
            assert_eq!(check(&list(&[(part.clone(), &part * 2)], no_opt)), Ok(()));
            let n = Dim::from(UOp::variable("n", 1, 12));
            let rows = square.shrink(&[(0.into(), 8.into()), (0.into(), n)]);
            assert_eq!(check(&list(&[(rows.clone(), rows.exp2())], no_opt)), Ok(()));
        }
    }

    #[test]
    fn a_load_behind_the_store_is_found() {
        let w = UOp::param(1, DType::F32, 96);
        let mut ops = list(&[(x(), UOp::param(2, DType::F32, 96)), (w, x() * 3)], true);
        assert_eq!(check(&ops), Ok(()));
        let is = |node: &UOp, op: Op, slot: u32| {
            node.op() == op && matches!(node.src()[0].src()[0].arg(), Arg::Param(param) if param.slot == slot)
        };
        let load = ops.iter().position(|node| is(node, Op::Load, 0)).expect("a load");
        let store = ops.iter().position(|node| is(node, Op::Store, 0)).expect("a store");
        let moved = ops.remove(load);
        ops.insert(store, moved);
        let error = check(&ops).unwrap_err();
        assert!(error.ends_with("it comes later"), "{error}");
    }

    #[test]
    fn what_stands_outside_of_the_loop_that_threads_share_is_done_by_each_of_them() {
        let text = "linear %first(f32[8] readwrite) grid 8 {
          eight: i64 = const 8
          zero: i64 = const 0
          p0: f32 = param #0 [8]
          v0 = index p0, zero
          v1 = load v0
          r0: i64 = range eight, parallel #0
            v2 = index p0, r0
            v3 = store v2, v1
          v4 = end r0
        }";
        let check_text = |text: &str| check(&crate::linearize::text::parse(text).expect("a list").ops);
        let error = check_text(text).expect_err("a thread may have stored before another loads");
        assert!(error.starts_with("op 4 loads what op 7 replaces"), "{error}");
        assert_eq!(check_text(&text.replace("parallel", "loop").replace("grid 8", "grid 1")), Ok(()));
    }

    #[test]
    fn no_iteration_is_one_that_the_loop_does_not_have() {
        // Elements from `FIRST` on are loaded upward while those below 8 are stored downward.
        let check_from = |first: i64| {
            let text = format!(
                "linear %mirror(f32[24] readwrite) grid 1 {{
                  eight: i64 = const 8
                  first: i64 = const {first}
                  last: i64 = const 7
                  p0: f32 = param #0 [24]
                  r0: i64 = range eight, loop #0
                    v0 = add r0, first
                    v1 = index p0, v0
                    v2 = load v1
                    v3 = sub last, r0
                    v4 = index p0, v3
                    v5 = store v4, v2
                  v6 = end r0
                }}"
            );
            check(&crate::linearize::text::parse(&text).expect("a list").ops)
        };
        assert_eq!(check_from(8), Ok(()));
        assert_eq!(check_from(16), Ok(()));
        // Iteration 7 stores element 0 after iteration 0 loaded it; but iteration 1 stores 6, which iteration 6 loads.
        for overlapping in [0, 6] {
            let error = check_from(overlapping).expect_err("elements that are replaced before they are loaded");
            assert!(error.ends_with("another iteration may have replaced it"), "{error}");
        }
        // The first iteration loads element 7 and stores it.
        assert_eq!(check_from(7), Ok(()));
    }

    #[test]
    fn an_element_that_another_iteration_replaces_is_found() {
        let error = check(&unchecked(&x().flip(&[0]))).unwrap_err();
        assert!(error.ends_with("another iteration may have replaced it"), "{error}");
        let error = check(&unchecked(&x().reshape([8, 12]).permute(&[1, 0]).reshape([96]))).unwrap_err();
        assert!(error.ends_with("another iteration may have replaced it"), "{error}");
        // A loop in digits of two bases is no sum: each iteration is asked.
        let error = check(&unchecked(&x().reshape([4, 4, 6]).permute(&[2, 1, 0]).reshape([96]))).unwrap_err();
        assert!(error.ends_with("another iteration may have replaced it"), "{error}");
    }

    /// The list of `x = value` as it stands, which `lower_kernel` would refuse.
    fn unchecked(value: &UOp) -> Vec<UOp> {
        let src: Sources = [x(), value.clone()].into_iter().collect();
        let kernel = UOp::sink([UOp::new(Op::Store, DType::VOID, src, Arg::None)]);
        let loops = crate::symbolic::simplify(&crate::lower::tensors::lower_to_loops(&kernel));
        super::super::linearizer::order(
            &crate::legalize::index_types::lower_index_types(&loops, &crate::target::Target::test_avx512()),
            true,
        )
    }
}
