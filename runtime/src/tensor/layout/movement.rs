//! Views: other orders, shapes and repetitions of the same elements; and joining and cutting.

use warpweft_compiler::ir::{Dim, Shape};
use warpweft_compiler::ops::{create, diagonals, join, movement as ops, padding, windows};
use warpweft_compiler::view::ViewSpec;

use crate::tensor::convert::Literal;
use crate::tensor::{AxisList, AxisOrAll, Length, PadMode, Result, Tensor};

/// Movement of one tensor.
impl Tensor {
    /// The elements under another shape; one length may be -1, and is then computed. A view where strides can say it, else a copy.
    #[track_caller]
    pub fn reshape(&self, shape: impl Into<Shape>) -> Tensor {
        let shape = shape.into();
        let to = shape.max_shape();
        self.viewed("reshape", |x| ops::reshape(x, &shape), |spec| spec.view(&to))
    }

    /// Axes in another order.
    #[track_caller]
    pub fn permute(&self, order: impl AxisList) -> Tensor {
        let order = order.axes();
        self.viewed("permute", |x| ops::permute(x, &order), |spec| spec.permute(&order))
    }

    /// Two axes exchanged.
    #[track_caller]
    pub fn transpose(&self, a: impl Length, b: impl Length) -> Tensor {
        let a = a.length();
        let b = b.length();
        self.viewed("transpose", |x| ops::transpose(x, a, b), |spec| spec.transpose(a, b))
    }

    /// The last two axes exchanged.
    #[track_caller]
    pub fn t(&self) -> Tensor {
        self.moved("t", |x| if x.shape().len() < 2 { Ok(x.clone()) } else { ops::transpose(x, -2, -1) })
    }

    /// One axis moved to another position.
    #[track_caller]
    pub fn movedim(&self, from: impl Length, to: impl Length) -> Tensor {
        let from = from.length();
        let to = to.length();
        self.moved("movedim", |x| ops::movedim(x, from, to))
    }

    /// Axes of length 1 repeated, new axes put in front; -1 keeps a length.
    #[track_caller]
    pub fn expand(&self, shape: impl Into<Shape>) -> Tensor {
        let shape = shape.into();
        let to = shape.max_shape();
        self.viewed("expand", |x| ops::expand(x, &shape), |spec| spec.expand(&to))
    }

    /// The given axes in reverse.
    #[track_caller]
    pub fn flip(&self, axes: impl AxisList) -> Tensor {
        let axes = axes.axes();
        self.viewed("flip", |x| ops::flip(x, &axes), |spec| spec.flip(&axes))
    }

    /// A new axis of length 1.
    #[track_caller]
    pub fn unsqueeze(&self, axis: impl Length) -> Tensor {
        let axis = axis.length();
        self.viewed("unsqueeze", |x| ops::unsqueeze(x, axis), |spec| spec.unsqueeze(axis))
    }

    /// Without the given axes of length 1; without all of them for `()`.
    #[track_caller]
    pub fn squeeze(&self, axes: impl AxisList) -> Tensor {
        let axes = axes.axes();
        self.viewed("squeeze", |x| ops::squeeze(x, &axes), |spec| spec.squeeze(&axes))
    }

    /// Axes from `start` to `end`, both included, as one.
    #[track_caller]
    pub fn flatten(&self, start: impl Length, end: impl Length) -> Tensor {
        let start = start.length();
        let end = end.length();
        self.moved("flatten", |x| ops::flatten(x, start, end))
    }

    /// One axis cut into several.
    #[track_caller]
    pub fn unflatten(&self, axis: impl Length, sizes: impl AxisList) -> Tensor {
        let axis = axis.length();
        self.moved("unflatten", |x| ops::unflatten(x, axis, &sizes.axes()))
    }

    /// The part from start to end of each axis.
    #[track_caller]
    pub fn shrink<D: Into<Dim> + Clone>(&self, bounds: &[(D, D)]) -> Tensor {
        let bounds = dims_of(bounds);
        self.moved("shrink", |x| ops::shrink(x, &bounds))
    }

    /// `len` elements of an axis from `start` on, which counts from the end if it is a negative number.
    #[track_caller]
    pub fn narrow(&self, axis: impl Length, start: impl Into<Dim>, len: impl Into<Dim>) -> Tensor {
        let axis = axis.length();
        let (start, len) = (start.into(), len.into());
        let rule = |spec: &ViewSpec| spec.narrow(axis, start.max_value(), len.max_value());
        self.viewed("narrow", |x| ops::narrow(x, axis, &start, &len), rule)
    }

    /// A diagonal of two axes, as a new last axis: a view, also where lengths are variables.
    #[track_caller]
    pub fn diagonal(&self, offset: impl Length, a: impl Length, b: impl Length) -> Tensor {
        let offset = offset.length();
        let a = a.length();
        let b = b.length();
        self.viewed("diagonal", |x| diagonals::diagonal(x, offset, a, b), |spec| spec.diagonal(offset, a, b))
    }

    /// Windows of `size` elements along an axis, one every `step`, as a new last axis.
    #[track_caller]
    pub fn unfold(&self, axis: impl Length, size: impl Length, step: impl Length) -> Tensor {
        let axis = axis.length();
        let (size, step) = (size.length(), step.length());
        self.viewed("unfold", |x| windows::unfold(x, axis, size, step), |spec| spec.unfold(axis, size, step))
    }

    /// Rotated along axes; as if flat for `()`.
    #[track_caller]
    pub fn roll(&self, shifts: impl AxisList, axes: impl AxisList) -> Tensor {
        Tensor::compute("roll", [self], |[x]| ops::roll(x, &shifts.axes(), &axes.axes()))
    }

    /// The whole repeated along each axis.
    #[track_caller]
    pub fn repeat(&self, counts: impl AxisList) -> Tensor {
        Tensor::compute("repeat", [self], |[x]| ops::repeat(x, &counts.axes()))
    }

    /// Each element repeated in place along an axis; flattened first without one.
    #[track_caller]
    pub fn repeat_interleave(&self, count: impl Length, axis: impl AxisOrAll) -> Tensor {
        let axis = axis.axis();
        Tensor::compute("repeat_interleave", [self], |[x]| ops::repeat_interleave(x, count.length(), axis))
    }

    /// A matrix with this on a diagonal, or the diagonal of a matrix.
    #[track_caller]
    pub fn diag(&self, offset: impl Length) -> Tensor {
        let offset = offset.length();
        Tensor::compute("diag", [self], |[x]| diagonals::diag(x, offset))
    }

    /// Padded with zeros by `(before, after)` of each axis; negative amounts cut off. A new tensor, also where nothing is added.
    #[track_caller]
    pub fn pad<D: Into<Dim> + Clone>(&self, padding: &[(D, D)]) -> Tensor {
        self.pad_by(padding, PadMode::Constant(Literal::Int(0).scalar()))
    }

    /// Padded by a number.
    #[track_caller]
    pub fn pad_with<D: Into<Dim> + Clone>(&self, padding: &[(D, D)], value: impl Into<Literal>) -> Tensor {
        self.pad_by(padding, PadMode::Constant(value.into().scalar()))
    }

    /// Padded in a given mode.
    #[track_caller]
    pub fn pad_by<D: Into<Dim> + Clone>(&self, padding: &[(D, D)], mode: PadMode) -> Tensor {
        let padding = dims_of(padding);
        Tensor::compute("pad", [self], |[x]| padding::pad_by_dims(x, &padding, mode))
    }

    /// Zeros above the given diagonal of the last two axes.
    #[track_caller]
    pub fn tril(&self, diagonal: impl Length) -> Tensor {
        let diagonal = diagonal.length();
        Tensor::compute("tril", [self], |[x]| create::triangle(x, diagonal, false))
    }

    /// Zeros below the given diagonal of the last two axes.
    #[track_caller]
    pub fn triu(&self, diagonal: impl Length) -> Tensor {
        let diagonal = diagonal.length();
        Tensor::compute("triu", [self], |[x]| create::triangle(x, diagonal, true))
    }

    /// Parts of the given lengths along an axis.
    ///
    /// # Errors
    /// If the lengths do not sum to the axis.
    #[track_caller]
    pub fn split(&self, sizes: impl AxisList, axis: impl Length) -> Result<Vec<Tensor>> {
        let axis = axis.length();
        Tensor::compute_many("split", [self], |[x]| join::split(x, &sizes.axes(), axis))
    }

    /// At most `count` parts of equal length along an axis, the last perhaps shorter.
    ///
    /// # Errors
    /// If there is no such axis or the count is not positive.
    #[track_caller]
    pub fn chunk(&self, count: impl Length, axis: impl Length) -> Result<Vec<Tensor>> {
        let axis = axis.length();
        Tensor::compute_many("chunk", [self], |[x]| join::chunk(x, count.length(), axis))
    }
}

fn dims_of<D: Into<Dim> + Clone>(pairs: &[(D, D)]) -> Vec<(Dim, Dim)> {
    pairs.iter().map(|(first, second)| (first.clone().into(), second.clone().into())).collect()
}

/// Several tensors as one.
impl Tensor {
    #[track_caller]
    pub(crate) fn joined(
        op: &'static str,
        tensors: &[&Tensor],
        build: impl FnOnce(&[warpweft_compiler::UOp]) -> warpweft_compiler::ops::Built,
    ) -> Tensor {
        let location = std::panic::Location::caller();
        match tensors.iter().map(|tensor| tensor.uop()).collect::<Result<Vec<_>>>() {
            Ok(mut nodes) => {
                crate::tensor::precision::prepare(op, &mut nodes);
                let built = build(&nodes);
                Tensor::from_built(op, &nodes.iter().collect::<Vec<_>>(), built, location)
            }
            Err(error) => Tensor::from_error(error),
        }
    }

    /// One after the other along an axis.
    #[track_caller]
    pub fn cat(tensors: &[&Tensor], axis: impl Length) -> Tensor {
        let axis = axis.length();
        Tensor::joined("cat", tensors, |nodes| join::cat(nodes, axis))
    }

    /// Along a new axis.
    #[track_caller]
    pub fn stack(tensors: &[&Tensor], axis: impl Length) -> Tensor {
        let axis = axis.length();
        Tensor::joined("stack", tensors, |nodes| join::stack(nodes, axis))
    }

    /// Each vector repeated over the grid of all; `xy` exchanges the first two axes.
    ///
    /// # Errors
    /// If a tensor has more than one axis.
    #[track_caller]
    pub fn meshgrid(vectors: &[&Tensor], xy: bool) -> Result<Vec<Tensor>> {
        let location = std::panic::Location::caller();
        let nodes = vectors.iter().map(|tensor| tensor.uop()).collect::<Result<Vec<_>>>()?;
        match join::meshgrid(&nodes, xy) {
            Ok(grid) => Ok(grid.into_iter().map(Tensor::from_uop).collect()),
            Err(error) => {
                let operands: Vec<_> = nodes.iter().collect();
                Err(crate::tensor::CallError::new("meshgrid", &operands, error.message, location).into())
            }
        }
    }
}
