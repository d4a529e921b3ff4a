//! Gradients of a tensor by others.

use std::panic::Location;

use warpweft_compiler::ir::{Op, postorder};
use warpweft_compiler::ops::Built;
use warpweft_compiler::{UOp, grad};

use super::errors::CallError;
use super::{Error, Result, Tensor};

impl Tensor {
    /// The derivative of this tensor, which must have one element, by each of the targets.
    ///
    /// A target gets zeros where the result does not depend on it through differentiable ops.
    ///
    /// # Errors
    /// If this has more elements or is no float; or if a target is no float, none of them was used, or one that was used is a constant.
    #[track_caller]
    pub fn gradient(&self, targets: &[&Tensor]) -> Result<Vec<Tensor>> {
        let location = Location::caller();
        let root = self.uop()?;
        differentiate(&root, &one(&root, location)?, targets, grad::gradients, location)
            .map(|found| found.into_iter().map(Tensor::from_uop).collect())
    }

    /// As [`Tensor::gradient`], with none for a target that the result does not depend on, instead of zeros.
    ///
    /// # Errors
    /// As [`Tensor::gradient`], but that nothing needs to be used.
    #[track_caller]
    pub fn gradient_or_none(&self, targets: &[&Tensor]) -> Result<Vec<Option<Tensor>>> {
        let location = Location::caller();
        let root = self.uop()?;
        differentiate(&root, &one(&root, location)?, targets, grad::gradients_or_none, location)
            .map(|found| found.into_iter().map(|found| found.map(Tensor::from_uop)).collect())
    }

    /// The derivative of the sum of this tensor times `cotangent` by each of the targets.
    ///
    /// # Errors
    /// As [`Tensor::gradient`]; or if the cotangent does not have this tensor's shape.
    #[track_caller]
    pub fn gradient_with(&self, cotangent: &Tensor, targets: &[&Tensor]) -> Result<Vec<Tensor>> {
        let location = Location::caller();
        differentiate(&self.uop()?, &cotangent.uop()?, targets, grad::gradients, location)
            .map(|found| found.into_iter().map(Tensor::from_uop).collect())
    }

    /// Whether it is made of constants alone, and of no memory.
    pub(crate) fn is_constant(&self) -> bool {
        self.uop().is_ok_and(|value| is_constant(&value))
    }
}

/// The derivative of a result by itself.
fn one(root: &UOp, location: &'static Location<'static>) -> Result<UOp> {
    if !root.shape().numel().is(1) {
        let message = "only a tensor of one element has a gradient by itself: sum it, or use gradient_with";
        return Err(CallError::new("gradient", &[root], message, location).into());
    }
    let one = UOp::float(1.0, root.dtype());
    Ok(if root.shape().is_empty() { one } else { one.reshape(root.shape().clone()) })
}

fn differentiate<T>(
    root: &UOp,
    cotangent: &UOp,
    targets: &[&Tensor],
    by: impl FnOnce(&UOp, &UOp, &[UOp]) -> Built<Vec<T>>,
    location: &'static Location<'static>,
) -> Result<Vec<T>> {
    let nodes = targets.iter().map(|target| target.uop()).collect::<Result<Vec<UOp>>>()?;
    let fail = |message: String| -> Error { CallError::new("gradient", &[root], message, location).into() };
    let constants: Vec<&UOp> = nodes.iter().filter(|node| is_constant(node)).collect();
    if !constants.is_empty() {
        let order = postorder(std::slice::from_ref(root));
        if let Some(used) = constants.into_iter().find(|constant| order.contains(constant)) {
            return Err(fail(format!(
                "a target of shape {} is a constant, which is the same for all who use it: realize it before use, or give it to an optimizer",
                used.shape()
            )));
        }
    }
    by(root, cotangent, &nodes).map_err(|error| fail(error.message))
}

/// Whether it is made of constants alone. Such graphs are shared by all that are alike, so a use of one cannot be told from a use of another.
pub(super) fn is_constant(node: &UOp) -> bool {
    let leaf = |node: &UOp| matches!(node.op(), Op::Buffer | Op::Param | Op::Variable | Op::Bind);
    !postorder(std::slice::from_ref(node)).iter().any(leaf)
}
