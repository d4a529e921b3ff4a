//! Random inputs: small numbers made from a seed.

use warpweft_compiler::ir::interpret::Value;
use warpweft_compiler::ir::text::Graph;
use warpweft_compiler::ir::{Arg, UOp};

/// Inputs for a graph: for each parameter, small numbers made from the seed.
pub fn random_inputs(graph: &Graph, seed: u64) -> Vec<Value> {
    let inputs = graph.parameters.iter().zip(seed..);
    inputs.map(|(parameter, seed)| random_value(&parameter.node, seed)).collect()
}

/// A value for a param or variable: floats of a few digits within -4 and 4, integers of a small range.
pub fn random_value(node: &UOp, seed: u64) -> Value {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x1234_5678_9abc_def0;
    let mut next = || {
        // xorshift64*: Marsaglia's generator, good enough for test data.
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33
    };
    if let Arg::Variable(variable) = node.arg() {
        let span = (variable.max.saturating_sub(variable.min) as u64).saturating_add(1);
        return Value::index(variable.min + (next() % span.max(1)) as i64);
    }
    let dtype = node.dtype();
    let shape = node.shape().as_const().unwrap_or_default();
    let len = shape.iter().product::<i64>().max(0);
    let mut number = || match dtype {
        dtype if dtype.is_float() => (next() % 8192) as f64 / 1024.0 - 4.0,
        dtype if dtype.is_bool() => (next() % 2) as f64,
        dtype if dtype.is_unsigned() => (next() % 100) as f64,
        _ => (next() % 41) as f64 - 20.0,
    };
    let numbers: Vec<f64> = (0..len).map(|_| number()).collect();
    // As many numbers as the shape says were just made.
    Value::from_f64(dtype, shape, &numbers).unwrap_or_else(|| Value::index(0))
}
