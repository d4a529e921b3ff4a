//! Elementwise ops as the CPU's machine code computes them, at the edges of every type, against the interpreter; and how accurate
//! exponentials, logarithms and sines are.

use warpweft_compiler::dtype::{Scalar, error_in_last_places};
use warpweft_compiler::ir::interpret::Value;
use warpweft_compiler::ir::is_defined;
use warpweft_compiler::{DType, Op, UOp};
use warpweft_devices::Device;
use warpweft_tests::guarded;
use warpweft_tests::kernels::{kernel_of, run_cpu, run_interpreter};

fn device() -> std::sync::Arc<dyn Device> {
    guarded::cpu()
}

/// Numbers at which ops go wrong, as the type has them.
fn edges(dtype: DType) -> Vec<Scalar> {
    if dtype.is_float() {
        let numbers =
            [0.0, 1.0, 1.5, 2.5, 3.0, 0.1, 7.3, 100.25, 65504.0, 65520.0, 6e-8, 1e-5, 3e38, 1e-40, f64::INFINITY];
        let signed = numbers.into_iter().flat_map(|number| [number, -number]).chain([f64::NAN]);
        return signed.map(|number| Scalar::from_f64(number, dtype)).collect();
    }
    let (low, high) = dtype.integer_bounds().expect("floats are done");
    let integers = [low, low + 1, -7, -2, -1, 0, 1, 2, 3, 7, 8, 31, 63, 64, 100, high - 1, high];
    let mut scalars: Vec<Scalar> = integers.into_iter().map(|integer| Scalar::from_i64(integer, dtype)).collect();
    if dtype == DType::U64 {
        scalars.push(Scalar::UInt(u64::MAX));
    }
    scalars
}

fn value(dtype: DType, scalars: &[Scalar]) -> Value {
    Value::from_scalars(dtype, vec![scalars.len() as i64], scalars).expect("a type that data has")
}

/// Whether two results are one number; zeros of both signs are.
fn same(a: Scalar, b: Scalar, error_max: f64) -> bool {
    match (a, b) {
        (Scalar::Float(_), Scalar::Float(_)) => {
            let (a, b) = (a.to_f64(), b.to_f64());
            a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= error_max * a.abs()
        }
        _ => a == b,
    }
}

/// Runs the expressions, named for messages, over these inputs (params from `expressions.len()` on) on both engines.
#[track_caller]
fn check(expressions: &[(String, UOp, f64)], inputs: &[Value]) {
    let roots: Vec<UOp> = expressions.iter().map(|(_, root, _)| root.clone()).collect();
    let ast = kernel_of(&roots);
    let len = inputs[0].shape()[0];
    let zeros =
        |root: &UOp| Value::from_f64(root.dtype(), vec![len], &vec![0.0; len as usize]).expect("a type of data");
    let memory: Vec<Value> = roots.iter().map(zeros).chain(inputs.iter().cloned()).collect();
    let want = run_interpreter(&ast, &memory).expect("every op is defined");
    let operands: Vec<Vec<Scalar>> = inputs.iter().map(Value::scalars).collect();
    for no_opt in [true, false] {
        let got = run_cpu(&*device(), &ast, &memory, no_opt).unwrap_or_else(|message| panic!("{message}"));
        assert_eq!((want.len(), got.len()), (expressions.len(), expressions.len()));
        for (((name, _, error_max), want), got) in expressions.iter().zip(&want).zip(&got) {
            assert_eq!((want.len(), got.len()), (len as usize, len as usize), "{name}");
            for (at, (want, got)) in want.scalars().into_iter().zip(got.scalars()).enumerate() {
                let given: Vec<Scalar> = operands.iter().map(|operand| operand[at]).collect();
                assert!(same(want, got, *error_max), "{name}{given:?} = {got:?}, not {want:?} (no_opt {no_opt})");
            }
        }
    }
}

#[test]
fn every_op_at_the_edges_of_every_type() {
    for dtype in DType::ALL {
        let edges = edges(dtype);
        let pairs: Vec<(Scalar, Scalar)> = edges.iter().flat_map(|&a| edges.iter().map(move |&b| (a, b))).collect();
        let (first, second): (Vec<Scalar>, Vec<Scalar>) = pairs.into_iter().unzip();
        let ops: Vec<Op> = Op::ALL
            .iter()
            .copied()
            .filter(|&op| is_defined(op, dtype) && ![Op::Cast, Op::Bitcast].contains(&op))
            .collect();
        let inputs = ops.len() as u32;
        let (a, b) = (UOp::param(inputs, dtype, first.len() as u64), UOp::param(inputs + 1, dtype, first.len() as u64));
        let expression = |&op: &Op| {
            let root = match op.arity() {
                1 => UOp::new(op, dtype, [a.clone()].to_vec(), Default::default()),
                2 => UOp::binary(op, &a, &b),
                _ if op == Op::Where => a.lt(&b).select(&a, &b),
                _ => a.muladd(&b, &a),
            };
            // Two units of the last place where the machine has no op of its own.
            let approximate = matches!(op, Op::Exp2 | Op::Log2 | Op::Sin | Op::Cos);
            let last_place = match dtype.bytes() {
                2 => 1.0 / 128.0,
                4 => 2f64.powi(-23),
                _ => 2f64.powi(-52),
            };
            (format!("{op} of {dtype}"), root, if approximate { 2.0 * last_place } else { 0.0 })
        };
        let expressions: Vec<_> = ops.iter().map(expression).collect();
        check(&expressions, &[value(dtype, &first), value(dtype, &second)]);
    }
}

#[test]
fn every_cast_at_the_edges_of_every_type() {
    for from in DType::ALL {
        for to in DType::ALL.into_iter().filter(|&to| to != from) {
            // What is out of range has another value on each machine, but for infinities and NaN nothing is undefined.
            let fits = |scalar: &Scalar| match to.integer_bounds() {
                Some((low, high)) if from.is_float() && !to.is_bool() => {
                    let number = scalar.to_f64().trunc();
                    number >= low as f64 && number <= high as f64
                }
                _ => true,
            };
            let scalars: Vec<Scalar> = edges(from).into_iter().filter(fits).collect();
            let root = UOp::param(1, from, scalars.len() as u64).cast(to);
            check(&[(format!("cast {from} to {to}"), root, 0.0)], &[value(from, &scalars)]);
        }
    }
}

/// The largest error, in units of the last place of the exact result, of an `f32` function over every `step`-th bit pattern.
fn worst_error(function: fn(&UOp) -> UOp, exact: fn(f64) -> f64, step: u64) -> (f64, f32) {
    const CHUNK: u64 = 1 << 20;
    let root = function(&UOp::param(1, DType::F32, CHUNK));
    let ast = kernel_of(&[root]);
    let device = device();
    let mut worst = (0.0, 0.0);
    for start in (0..1u64 << 32).step_by((step * CHUNK) as usize) {
        let patterns: Vec<u32> = (0..CHUNK).map(|k| (start + k * step).min(u32::MAX as u64) as u32).collect();
        let bytes: Vec<u8> = patterns.iter().flat_map(|bits| bits.to_le_bytes()).collect();
        let input = Value::from_bytes(DType::F32, vec![CHUNK as i64], &bytes).expect("four bytes an element");
        let output = Value::from_f64(DType::F32, vec![CHUNK as i64], &vec![0.0; CHUNK as usize]).expect("floats");
        let got = run_cpu(&*device, &ast, &[output, input], false).unwrap_or_else(|message| panic!("{message}"));
        assert_eq!(got[0].len(), patterns.len());
        for (bits, got) in patterns.iter().zip(got[0].to_f64()) {
            let x = f32::from_bits(*bits);
            let error = error_in_last_places(got, exact(x as f64), DType::F32);
            if error > worst.0 {
                worst = (error, x);
            }
        }
    }
    worst
}

#[test]
fn transcendental_functions_are_accurate_for_floats_of_every_size() {
    check_errors("exp2", UOp::exp2, f64::exp2, 1.21);
    check_errors("log2", UOp::log2, f64::log2, 1.67);
    check_errors("sin", UOp::sin, f64::sin, 1.54);
    check_errors("cos", UOp::cos, f64::cos, 1.54);
}

fn check_errors(name: &str, function: fn(&UOp) -> UOp, exact: fn(f64) -> f64, limit: f64) {
    // EVERY_FLOAT=1 takes all of them, which takes minutes.
    let step = if std::env::var_os("EVERY_FLOAT").is_some() { 1 } else { 1021 };
    let (error, at) = worst_error(function, exact, step);

    assert!(error <= limit, "{name}: {error} ulp at {at:e}");
}
