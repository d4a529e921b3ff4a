//! Gradients of a tensor by others.

use std::panic::Location;
use std::sync::Arc;

use rustc_hash::FxHashSet;
use warpweft_compiler::ir::{Arg, Function, Op, postorder};
use warpweft_compiler::ops::Built;
use warpweft_compiler::{UOp, grad};

use super::create::own;
use super::errors::CallError;
use super::{Error, Result, Tensor};
use crate::execute;

impl Tensor {
    /// The derivative of this tensor, which must have one element, by each of the targets.
    ///
    /// A target gets zeros where the result does not depend on it through differentiable ops.
    ///
    /// # Errors
    /// If this has more elements or is no float; or if a target is no float or none of them was used.
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

    /// The same values as a tensor of its own, which gradients tell from this one and from all that are alike; nothing is copied.
    ///
    /// A gradient is by a tensor, wherever that is used. Of an operation whose operands may be one tensor, give it distinct ones to
    /// have the gradient by each operand:
    ///
    /// ```
    /// use warpweft::Tensor;
    ///
    /// let x = Tensor::from_vec(vec![3f32], [1]);
    /// let (a, b) = (x.distinct(), x.distinct());
    /// let both = (&a * &b * &b).gradient(&[&a, &b])?;
    /// assert_eq!(both[0].to_vec::<f32>()?, [9.0]);
    /// assert_eq!(both[1].to_vec::<f32>()?, [18.0]);
    /// # Ok::<(), warpweft::Error>(())
    /// ```
    #[track_caller]
    pub fn distinct(&self) -> Tensor {
        match self.uop() {
            Ok(value) => Tensor::from_uop(own(value)),
            Err(_) => self.clone(),
        }
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
    let mut nodes = targets.iter().map(|target| target.uop()).collect::<Result<Vec<UOp>>>()?;
    let fail = |message: String| -> Error { CallError::new("gradient", &[root], message, location).into() };
    let order = postorder(std::slice::from_ref(root));
    let used: FxHashSet<&UOp> = order.iter().collect();
    for node in &mut nodes {
        if used.contains(node) && is_constant(node) && !is_own(node) {
            return Err(fail(format!(
                "a target of shape {} is a constant, which is the same for all who use it: realize it before use, or give it to an optimizer",
                node.shape()
            )));
        }
        let memory = execute::base_memory(node).filter(|_| !used.contains(node));
        if let Some(before) = memory.and_then(|memory| used_before(node, memory, &order)) {
            *node = before;
        }
    }
    by(root, cotangent, &nodes).map_err(|error| fail(error.message))
}

/// What a target that is in memory by now was when the result was computed from it, if that was before.
fn used_before(target: &UOp, memory: &UOp, order: &[UOp]) -> Option<UOp> {
    let is_it = |node: &&UOp| {
        let stored = execute::computed(node).or_else(|| node.held::<Became>().map(|became| became.0.clone()));
        stored.as_ref() == Some(memory) && node.shape() == target.shape()
    };
    order.iter().find(is_it).cloned()
}

/// Held by a constant that was told from others alike and is in memory by now: the `Buffer` node of that. It is for gradients alone; who
/// computes with the constant goes on computing with the number, on whatever device.
struct Became(UOp);

/// Lets a constant know the memory that took its place.
pub(super) fn note_memory(value: &UOp, stored: &UOp) {
    if let Some(memory) = execute::base_memory(stored).filter(|_| is_constant(value) && is_own(value)) {
        value.hold(Arc::new(Became(memory.clone())));
    }
}

/// Whether it is made of constants alone. Such graphs are shared by all that are alike, but for those that are told apart.
pub(super) fn is_constant(node: &UOp) -> bool {
    let leaf = |node: &UOp| matches!(node.op(), Op::Buffer | Op::Param | Op::Variable | Op::Bind);
    !any_below(node, leaf)
}

/// Whether it is told from all that are alike, so that a use of it cannot be a use of another.
fn is_own(node: &UOp) -> bool {
    any_below(node, |node| *node.arg() == Arg::Function(Function::Own))
}

/// Whether a node is found in a graph; the walk ends with the first.
fn any_below(root: &UOp, wanted: impl Fn(&UOp) -> bool) -> bool {
    let mut seen: FxHashSet<&UOp> = FxHashSet::default();
    let mut pending = vec![root];
    while let Some(node) = pending.pop() {
        if wanted(node) {
            return true;
        }
        if seen.insert(node) {
            pending.extend(node.src());
        }
    }
    false
}
