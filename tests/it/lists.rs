//! The interpreter of linear lists sees what is wrong with a kernel: lists as the compiler makes them, each with one fault planted.

use rustc_hash::FxHashMap;
use warpweft_compiler::DType;
use warpweft_compiler::ir::interpret::Value;
use warpweft_compiler::ir::{Arg, Op, ReduceOp, Sources, UOp};
use warpweft_compiler::linearize::Linear;
use warpweft_compiler::pipeline::{LowerOptions, lower_kernel};
use warpweft_compiler::watch::Silent;
use warpweft_tests::kernels::{Random, compare, kernel_of, random_inputs, reference};
use warpweft_tests::lists::{HOST, run_kernel};

fn list_of(ast: &UOp, no_opt: bool) -> Linear {
    lower_kernel(ast, &HOST, &LowerOptions::by_hand_unless(no_opt), &mut Silent).expect("a kernel")
}

/// What the interpreter says of a kernel whose list has a fault: in the place of each op stand those that `fault` gives, of which
/// the last takes its name.
fn with_fault(ast: &UOp, no_opt: bool, fault: impl Fn(UOp) -> Vec<UOp>) -> Result<Vec<Value>, String> {
    let mut linear = list_of(ast, no_opt);
    let inputs = random_inputs(ast, &mut Random::new(1));
    let want = reference(ast, &inputs).expect("a value");
    let right = run_kernel(ast, &linear, &inputs).unwrap_or_else(|message| panic!("without a fault: {message}"));
    assert_eq!(compare(&want, &right), Ok(()), "without a fault");
    let mut names: FxHashMap<UOp, UOp> = FxHashMap::default();
    let mut ops: Vec<UOp> = Vec::new();
    for op in &linear.ops {
        let src: Sources = op.src().iter().map(|operand| names[operand].clone()).collect();
        let now = fault(if src[..] == *op.src() { op.clone() } else { op.with_src(src) });
        names.insert(op.clone(), now.last().cloned().unwrap_or_else(|| op.clone()));
        ops.extend(now);
    }
    linear.ops = ops;
    run_kernel(ast, &linear, &inputs)
}

/// An index into the same memory, with another offset or gate.
fn index(old: &UOp, offset: &UOp, gate: Option<UOp>) -> UOp {
    UOp::new(
        Op::Index,
        old.dtype(),
        [old.src()[0].clone(), offset.clone()].into_iter().chain(gate).collect::<Sources>(),
        Arg::None,
    )
}

fn is_index_of(node: &UOp, memory: Op, slot: u32) -> bool {
    let names = |arg: &Arg| match arg {
        Arg::Param(param) => param.slot == slot,
        Arg::Scratch(number, ..) => *number == slot,
        _ => false,
    };
    node.op() == Op::Index && node.src()[0].op() == memory && names(node.src()[0].arg())
}

/// A fault: offsets in that memory are larger by `by`.
fn moved(memory: Op, slot: u32, by: i64) -> impl Fn(UOp) -> Vec<UOp> {
    move |node| {
        if !is_index_of(&node, memory, slot) || node.src()[1].dtype().lanes() > 1 {
            return vec![node];
        }
        let step = UOp::int(by, node.src()[1].dtype());
        let offset = UOp::binary(Op::Add, &node.src()[1], &step);
        let index = index(&node, &offset, node.src().get(2).cloned());
        vec![step, offset, index]
    }
}

fn sums(rows: i64, columns: i64) -> UOp {
    let x = UOp::param(1, DType::F32, (rows * columns) as u64).reshape([rows, columns]);
    kernel_of(&[x.reduce(ReduceOp::Add, &[1])])
}

/// Rows minus their maximum, where twice the rows is kept in scratch.
fn kept_rows() -> UOp {
    let x = UOp::param(1, DType::F32, 6 * 40).reshape([6, 40]);
    let twice = (&x + &x).materialize(&[1]);
    let most = twice.reduce(ReduceOp::Max, &[1]).reshape([6, 1]).expand([6, 40]);
    kernel_of(&[twice - most])
}

#[test]
fn a_rest_whose_loads_have_lost_their_gates_reads_outside() {
    // 37 elements: whole vectors, and a rest under a gate.
    let is_gated = |node: &UOp| node.op() == Op::Index && node.src().len() > 2;
    let ast = sums(3, 37);
    assert!(list_of(&ast, false).ops.iter().any(is_gated), "the rest of a row is loaded under a gate");
    let open = |node: UOp| vec![if is_gated(&node) { index(&node, &node.src()[1], None) } else { node }];
    let message = with_fault(&ast, false, open).expect_err("the fault is not seen");
    assert!(message.contains(" = load ") && message.contains("of p1, which has 111"), "{message}");
}

#[test]
fn an_access_one_lane_too_far_is_seen() {
    for no_opt in [false, true] {
        let message = with_fault(&sums(4, 64), no_opt, moved(Op::Param, 1, 1)).expect_err("the fault is not seen");
        assert!(message.contains("is element 256 of p1, which has 256"), "{message}");
        let message = with_fault(&sums(4, 64), no_opt, moved(Op::Param, 0, 1)).expect_err("the fault is not seen");
        assert!(message.contains(" = store ") && message.contains("is element 4 of p0, which has 4"), "{message}");
    }
}

#[test]
fn scratch_that_is_read_before_it_is_filled_is_seen() {
    for no_opt in [false, true] {
        let ast = kept_rows();
        let list = list_of(&ast, no_opt);
        let stores: Vec<&UOp> =
            list.ops.iter().filter(|op| op.op() == Op::Store && is_index_of(&op.src()[0], Op::Scratch, 0)).collect();
        assert!(!stores.is_empty(), "rows are kept in scratch");
        let last = stores[stores.len() - 1].src()[0].clone();
        let drop_last = |node: UOp| match node.op() == Op::Store && node.src()[0] == last {
            true => Vec::new(),
            false => vec![node],
        };
        let message = with_fault(&ast, no_opt, drop_last).expect_err("the fault is not seen");
        assert!(message.contains(" = load ") && message.contains("which nothing has written"), "{message}");
    }
}

#[test]
fn an_output_that_is_not_written_is_seen() {
    for no_opt in [false, true] {
        let closed = |node: UOp| {
            if !is_index_of(&node, Op::Param, 0) {
                return vec![node];
            }
            let gate = UOp::bool(false);
            let index = index(&node, &node.src()[1], Some(gate.clone()));
            vec![gate, index]
        };
        let message = with_fault(&sums(5, 8), no_opt, closed).expect_err("the fault is not seen");
        assert_eq!(message, "element 0 of output 0 is never written");
    }
}

#[test]
fn a_load_after_the_store_that_replaces_its_element_is_seen() {
    let (new, old) = (UOp::param(2, DType::F32, 100), UOp::param(0, DType::F32, 100));
    let ast = kernel_of(&[new + 1, old * 2]);
    for no_opt in [false, true] {
        let list = list_of(&ast, no_opt);
        let is_load = |op: &UOp| op.op() == Op::Load && is_index_of(&op.src()[0], Op::Param, 0);
        let is_store = |op: &UOp| op.op() == Op::Store && is_index_of(&op.src()[0], Op::Param, 0);
        let loads: Vec<UOp> = list.ops.iter().filter(|op| is_load(op)).cloned().collect();
        assert!(!loads.is_empty() && list.ops.iter().any(is_store));
        let mut late = list.clone();
        // Each op after what it needs, loads of the replaced memory after the stores to their element.
        late.ops.retain(|op| !is_load(op));
        let mut ops: Vec<UOp> = Vec::new();
        for op in late.ops {
            let needs: Vec<UOp> = loads.iter().filter(|load| op.src().contains(load)).cloned().collect();
            ops.push(op.clone());
            if is_store(&op) {
                ops.extend(loads.iter().filter(|load| load.src()[0] == op.src()[0]).cloned());
            }
            assert!(needs.iter().all(|load| ops.contains(load)), "the store stands before the product");
        }
        late.ops = ops;
        let inputs = random_inputs(&ast, &mut Random::new(1));
        let want = reference(&ast, &inputs).expect("a value");
        let right = run_kernel(&ast, &list, &inputs).expect("without a fault");
        assert_eq!(compare(&want, &right), Ok(()));
        let wrong = run_kernel(&ast, &late, &inputs).expect("the order alone is wrong");
        assert!(compare(&want, &wrong).is_err(), "the old element is gone");
    }
}
