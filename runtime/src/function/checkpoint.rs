//! Gradient checkpointing: what a closure computes on the way is not kept for its gradient, but computed again.
//!
//! Not here: how (`grad::recomputed` of the compiler). Tested by tests/it/recomputed.rs.

use std::panic::Location;

use warpweft_compiler::UOp;
use warpweft_compiler::ir::{Arg, Function, Op};

use super::Outputs;
use crate::tensor::{CallError, Result, Tensor};

/// What a closure computes of tensors, so that a gradient through it keeps its inputs and results alone, and computes again what lies between.
///
/// Gradients go to the inputs and to nothing else that the closure reads: what a gradient is asked of, such as a layer's weights, must be among them.
///
/// ```
/// # use warpweft::{Tensor, checkpoint};
/// let x = Tensor::from_vec(vec![0f32, 1.0], [2]);
/// let [y] = checkpoint([&x], |[x]| [x.exp().sin().square()])?;
/// let kept = y.sum(()).gradient(&[&x])?.remove(0);
/// let plain = x.exp().sin().square().sum(()).gradient(&[&x])?.remove(0);
/// assert!(kept.isclose(&plain, 1e-6, 1e-6, false).all(()).item::<bool>()?);
/// # Ok::<(), warpweft::Error>(())
/// ```
///
/// # Errors
/// When an input carries an error, the closure gives one, or a result is no float.
#[track_caller]
pub fn checkpoint<const N: usize, const M: usize, R: Outputs<M>>(
    inputs: [&Tensor; N],
    closure: impl FnOnce([Tensor; N]) -> R,
) -> Result<[Tensor; M]> {
    let location = Location::caller();
    let nodes = inputs.iter().map(|input| input.uop()).collect::<Result<Vec<_>>>()?;
    let results = closure(inputs.map(Tensor::clone)).outputs()?;
    let mut found = Vec::new();
    for result in &results {
        let value = result.uop()?;
        if !value.dtype().is_float() {
            let message = format!("a result is of {}, of which there is no gradient", value.dtype());
            return Err(CallError::new("checkpoint", &nodes.iter().collect::<Vec<_>>(), message, location).into());
        }
        let sources: Vec<UOp> = std::iter::once(&value).chain(&nodes).cloned().collect();
        found.push(Tensor::from_uop(UOp::new(
            Op::Function,
            value.dtype(),
            sources,
            Arg::Function(Function::Recomputed),
        )));
    }
    let mut found = found.into_iter();
    Ok(std::array::from_fn(|_| found.next().unwrap_or_else(|| Tensor::refused("checkpoint", "a result is missing"))))
}
