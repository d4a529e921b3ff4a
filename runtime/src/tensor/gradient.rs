//! Gradients of a tensor by others.

use std::panic::Location;

use warpweft_compiler::ir::{Op, postorder};
use warpweft_compiler::{UOp, grad};

use super::errors::CallError;
use super::{Error, Result, Tensor};

impl Tensor {
    /// The derivative of this tensor, which must have one element, by each of the targets.
    ///
    /// A target gets zeros where the result does not depend on it through differentiable ops.
    ///
    /// # Errors
    /// If this has more elements or is no float; or if a target is no float, was not used, or is a constant.
    #[track_caller]
    pub fn gradient(&self, targets: &[&Tensor]) -> Result<Vec<Tensor>> {
        let location = Location::caller();
        let root = self.uop()?;
        if !root.shape().numel().is(1) {
            let message = "only a tensor of one element has a gradient by itself: sum it, or use gradient_with";
            return Err(CallError::new("gradient", &[&root], message, location).into());
        }
        let one = UOp::float(1.0, root.dtype());
        let one = if root.shape().is_empty() { one } else { one.reshape(root.shape().clone()) };
        differentiate(&root, &one, targets, location)
    }

    /// The derivative of the sum of this tensor times `cotangent` by each of the targets.
    ///
    /// # Errors
    /// As [`Tensor::gradient`]; or if the cotangent does not have this tensor's shape.
    #[track_caller]
    pub fn gradient_with(&self, cotangent: &Tensor, targets: &[&Tensor]) -> Result<Vec<Tensor>> {
        let location = Location::caller();
        differentiate(&self.uop()?, &cotangent.uop()?, targets, location)
    }
}

fn differentiate(
    root: &UOp,
    cotangent: &UOp,
    targets: &[&Tensor],
    location: &'static Location<'static>,
) -> Result<Vec<Tensor>> {
    let nodes = targets.iter().map(|target| target.uop()).collect::<Result<Vec<UOp>>>()?;
    let fail = |message: String| -> Error { CallError::new("gradient", &[root], message, location).into() };
    for node in &nodes {
        if is_constant(node) {
            return Err(fail(format!(
                "a target of shape {} is a constant, which is the same for all who use it: realize it before use",
                node.shape()
            )));
        }
    }
    let gradients = grad::gradients(root, cotangent, &nodes).map_err(|error| fail(error.message))?;
    Ok(gradients.into_iter().map(Tensor::from_uop).collect())
}

/// Whether it is made of constants alone. Such graphs are shared by all that are alike, so a use of one cannot be told from a use of another.
fn is_constant(node: &UOp) -> bool {
    let leaf = |node: &UOp| matches!(node.op(), Op::Buffer | Op::Param | Op::Variable | Op::Bind);
    !postorder(std::slice::from_ref(node)).iter().any(leaf)
}
