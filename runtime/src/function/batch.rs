//! A function of one element of a batch, applied to all of them as one program.
//!
//! The closure runs once, over placeholders of one element; what it builds gets an axis in front (`compiler::ops::batch`). So it costs what the same
//! program written for a batch costs, and gradients, further batches and compiled functions go through it.
//!
//! Not here: what becomes of each op. Tested by tests/it/batches.rs.

use std::panic::Location;

use warpweft_compiler::ir::{Dim, Shape};
use warpweft_compiler::ops::batch::batched;

use super::Outputs;
use crate::execute::{Placeholder, placeholder_node};
use crate::registry;
use crate::tensor::{CallError, Error, Result, Tensor};

/// Applies a closure to each element of the first axis of the arguments, which is as long in all of them; results have that axis in front.
///
/// The closure sees one element, and runs once: values cannot be asked for, and random numbers are the same for all elements.
///
/// ```
/// # use warpweft::{Tensor, vmap};
/// let x = Tensor::from_vec(vec![1f32, 2.0, 3.0, 4.0], [2, 2]);
/// let [lengths] = vmap([&x], |[row]| [row.square().sum(()).sqrt()])?;
/// assert_eq!(lengths.to_vec::<f32>()?, [5f32.sqrt(), 5.0]);
/// # Ok::<(), warpweft::Error>(())
/// ```
///
/// # Errors
/// When an argument has no axis, or their first lengths differ; when the closure gives an error, asks for a value, or writes to a tensor.
#[track_caller]
pub fn vmap<const N: usize, const M: usize, R: Outputs<M>>(
    arguments: [&Tensor; N],
    closure: impl FnOnce([Tensor; N]) -> R,
) -> Result<[Tensor; M]> {
    let location = Location::caller();
    let nodes = arguments.iter().map(|argument| argument.uop()).collect::<Result<Vec<_>>>()?;
    let refuse = |message: String| -> Error {
        CallError::new("vmap", &nodes.iter().collect::<Vec<_>>(), message, location).into()
    };
    let length = nodes.first().and_then(|first| first.shape().first().cloned());
    let Some(length) = length.filter(|length| nodes.iter().all(|node| node.shape().first() == Some(length))) else {
        return Err(refuse("there must be an argument, and all must have a first axis of one length".to_string()));
    };
    let device = registry::executor(None)?.device_name();
    let mut inputs = Vec::new();
    let mut elements = Vec::new();
    for node in &nodes {
        let shape: Shape = node.shape()[1..].iter().cloned().collect();
        let Some(count) = shape.numel().as_const().and_then(|count| u64::try_from(count).ok()) else {
            return Err(refuse(format!("the lengths of an element, {shape}, must be numbers")));
        };
        let placeholder = placeholder_node(node.dtype(), count, &device, Placeholder::Traced);
        elements.push(Tensor::from_uop(placeholder.reshape(shape)));
        inputs.push((placeholder, node.reshape(vec![length.clone(), Dim::Const(count as i64)])));
    }
    let elements: [Tensor; N] = match elements.try_into() {
        Ok(elements) => elements,
        // One was made for each argument.
        Err(_) => return Err(refuse("an element is missing".to_string())),
    };
    let results = closure(elements).outputs()?;
    let values = results.iter().map(|result| result.uop()).collect::<Result<Vec<_>>>()?;
    let found = batched(&values, &inputs, &length).map_err(|error| refuse(error.message))?;
    let mut found = found.into_iter().map(Tensor::from_uop);
    Ok(std::array::from_fn(|_| found.next().unwrap_or_else(|| Tensor::refused("vmap", "a result is missing"))))
}
