//! Tests of the interpreter: each op once by hand, values past their last use, errors.

use super::*;
use crate::dtype::Scalar;
use crate::ir::{ReduceOp, Shape, StridedArg};

fn f32s(shape: &[i64], values: &[f64]) -> Value {
    Value::from_f64(DType::F32, shape, values).unwrap()
}

/// The value of `node` where param 0 holds 0, 1, 2, ... and param 1 holds the same times 10.
fn value(node: &UOp) -> Value {
    let leaves = |leaf: &UOp| match leaf.arg() {
        Arg::Param(param) => {
            let scale = if param.slot == 0 { 1.0 } else { 10.0 };
            let values: Vec<f64> = (0..param.len).map(|at| at as f64 * scale).collect();
            Value::from_f64(leaf.dtype(), [param.len as i64], &values)
        }
        Arg::Variable(variable) => Some(Value::index(variable.max)),
        _ => None,
    };
    interpret(std::slice::from_ref(node), &leaves).unwrap().remove(0)
}

fn param(shape: &[i64]) -> UOp {
    UOp::param(0, DType::F32, shape.iter().product::<i64>() as u64).reshape(shape)
}

#[test]
fn elementwise_ops_broadcast_scalars() {
    let x = param(&[3]);
    let y = UOp::param(1, DType::F32, 3);
    assert_eq!(value(&(&x + &y)), f32s(&[3], &[0.0, 11.0, 22.0]));
    assert_eq!(value(&(&x - 1)), f32s(&[3], &[-1.0, 0.0, 1.0]));
    assert_eq!(value(&(1 - &x)), f32s(&[3], &[1.0, 0.0, -1.0]));
    let one = UOp::float(1.0, DType::F32);
    assert_eq!(value(&x.equals(&one).select(&y, &one)), f32s(&[3], &[1.0, 10.0, 1.0]));
    assert_eq!(value(&one.muladd(&x, &y)), f32s(&[3], &[0.0, 11.0, 22.0]));
    assert_eq!(value(&(&one + &one)), f32s(&[], &[2.0]));
    let bytes = value(&(x.cast(DType::U8) - 1));
    assert_eq!(bytes.scalars(), [255, 0, 1].map(Scalar::UInt));
    assert_eq!(value(&x.bitcast(DType::I32)).get(1), Scalar::Int(0x3f80_0000));
    assert_eq!(value(&UOp::iota(3).lt(2)).scalars(), [true, true, false].map(Scalar::Bool));
}

#[test]
fn movement_ops_place_elements() {
    let x = param(&[2, 3]);
    let ints = |values: &[i64]| values.iter().map(|value| *value as f64).collect::<Vec<f64>>();
    assert_eq!(value(&x.permute(&[1, 0])), f32s(&[3, 2], &ints(&[0, 3, 1, 4, 2, 5])));
    assert_eq!(value(&x.flip(&[1])), f32s(&[2, 3], &ints(&[2, 1, 0, 5, 4, 3])));
    assert_eq!(value(&x.shrink(&[(0.into(), 2.into()), (1.into(), 3.into())])), f32s(&[2, 2], &ints(&[1, 2, 4, 5])));
    let padded = x.pad(&[(1.into(), 0.into()), (0.into(), 1.into())]);
    assert_eq!(value(&padded), f32s(&[3, 4], &ints(&[0, 0, 0, 0, 0, 1, 2, 0, 3, 4, 5, 0])));
    let row = param(&[2, 1]).expand([2, 3]);
    assert_eq!(value(&row), f32s(&[2, 3], &ints(&[0, 0, 0, 1, 1, 1])));
    let arg = StridedArg { shape: Shape::from([2, 2]), strides: Shape::from([1, -1]), offset: Dim::Const(3) };
    let strided = UOp::new(Op::AsStrided, DType::F32, vec![x.clone()], Arg::Strided(arg.into()));
    assert_eq!(value(&strided), f32s(&[2, 2], &ints(&[3, 2, 4, 3])));
    assert_eq!(value(&x.shrink(&[(1.into(), 1.into()), (0.into(), 3.into())])).shape(), [0, 3]);
    assert_eq!(value(&param(&[]).expand(Shape::scalar())), f32s(&[], &[0.0]));
}

#[test]
fn reductions_and_gathers_combine() {
    let x = param(&[2, 3]);
    assert_eq!(value(&x.reduce(ReduceOp::Add, &[0])), f32s(&[3], &[3.0, 5.0, 7.0]));
    assert_eq!(value(&x.reduce(ReduceOp::Add, &[1])), f32s(&[2], &[3.0, 12.0]));
    assert_eq!(value(&x.reduce(ReduceOp::Max, &[0, 1])), f32s(&[], &[5.0]));
    assert_eq!(value(&param(&[2, 2, 2]).reduce(ReduceOp::Mul, &[0, 2])), f32s(&[2], &[0.0, 252.0]));
    let empty = x.shrink(&[(0.into(), 0.into()), (0.into(), 3.into())]);
    assert_eq!(value(&empty.reduce(ReduceOp::Max, &[0])), f32s(&[3], &[f64::NEG_INFINITY; 3]));
    let index = UOp::iota(3) - 1;
    assert_eq!(value(&x.gather(&index, 1)), f32s(&[2, 3], &[0.0, 0.0, 1.0, 0.0, 3.0, 4.0]));
    assert_eq!(value(&x.gather(&index, 0)).shape(), [3, 3]);
}

#[test]
fn symbolic_dims_have_the_value_of_their_variables() {
    let n = UOp::variable("n", 1, 4);
    let part = param(&[8]).shrink(&[(0.into(), Dim::from(&n * 2))]);
    assert_eq!(value(&part.reduce(ReduceOp::Add, &[0])), f32s(&[], &[28.0]));
    let bound = UOp::new(Op::Bind, DType::INDEX, vec![n.clone(), UOp::index(2)], Arg::None);
    let rows = param(&[4, 2]).shrink(&[(0.into(), Dim::from(bound)), (0.into(), 2.into())]);
    assert_eq!(value(&rows).shape(), [2, 2]);
    // The variable alone has the bound value too.
    assert_eq!(value(&rows.reshape([Dim::from(&n * 2)])).shape(), [4]);
}

#[test]
fn sinks_give_what_they_store() {
    let out = UOp::param(1, DType::F32, 3);
    let store = UOp::new(Op::Store, DType::VOID, vec![out, param(&[3]) + 1], Arg::None);
    let ast = UOp::sink([store]);
    let leaves = |leaf: &UOp| matches!(leaf.arg(), Arg::Param(_)).then(|| f32s(&[3], &[0.0, 1.0, 2.0]));
    let stored = interpret_kernel(&ast, &leaves).unwrap();
    assert_eq!(stored, [(1, f32s(&[3], &[1.0, 2.0, 3.0]))]);
}

#[test]
fn stores_through_views_leave_the_rest() {
    let out = UOp::param(0, DType::F32, 6);
    let column = out.reshape([2, 3]).shrink(&[(0.into(), 2.into()), (1.into(), 2.into())]).flip(&[0]);
    let store =
        |target: &UOp, value: &UOp| UOp::new(Op::Store, DType::VOID, vec![target.clone(), value.clone()], Arg::None);
    let value = UOp::param(1, DType::F32, 2).reshape([2, 1]);
    let row = out.shrink(&[(3.into(), 6.into())]);
    let first = out.shrink(&[(0.into(), 3.into())]);
    let ast = UOp::sink([store(&column, &value), store(&row, &first)]);
    let leaves = |leaf: &UOp| match leaf.arg() {
        Arg::Param(param) if param.slot == 0 => Some(f32s(&[6], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0])),
        _ => Some(f32s(&[2], &[10.0, 20.0])),
    };
    let stored = interpret_kernel(&ast, &leaves).unwrap();
    assert_eq!(stored, [(0, f32s(&[6], &[0.0, 20.0, 2.0, 0.0, 1.0, 2.0]))]);
}

#[test]
fn a_deep_graph_runs_and_shares() {
    let mut node = param(&[2]);
    for _ in 0..100_000 {
        node = &node + 1;
    }
    assert_eq!(value(&(&node - &node)), f32s(&[2], &[0.0, 0.0]));
}

#[test]
fn halves_are_rounded_after_each_op() {
    let big = UOp::float(2048.0, DType::F16);
    let sum = (&big + 1) - &big;
    assert_eq!(value(&sum).to_f64(), [0.0]);
}

#[test]
fn what_has_no_value_is_an_error() {
    let error = |node: &UOp| interpret(std::slice::from_ref(node), &|_| None).unwrap_err().to_string();
    assert_eq!(error(&param(&[2])), "param: no value was given for param 0");
    let n = UOp::variable("n", 1, 4);
    assert_eq!(error(&n), "variable: no value was given for n");
    assert_eq!(error(&UOp::iota(Dim::from(&n + 1))), "variable: no value was given for n");
    assert_eq!(error(&UOp::bool(true).negate()), "neg: is not defined on bool");
    let bind = |value| UOp::new(Op::Bind, DType::INDEX, vec![n.clone(), UOp::index(value)], Arg::None);
    assert_eq!(error(&bind(9)), "variable: n is 9, not within 1..4");
    assert_eq!(error(&(bind(2) + bind(3))), "bind: variable n is bound to 2 and to 3");
    let huge = UOp::int(0, DType::I32).reshape([1, 1]).expand([1i64 << 40, 1 << 40]);
    assert!(error(&huge).starts_with("expand: [1099511627776, 1099511627776] has more elements"), "{}", error(&huge));
    let leaves = |_: &UOp| Some(f32s(&[3], &[0.0; 3]));
    let wrong = interpret(&[param(&[2])], &leaves).unwrap_err().to_string();
    assert_eq!(wrong, "param: param 0 has shape [2], but 3 elements were given");
}
