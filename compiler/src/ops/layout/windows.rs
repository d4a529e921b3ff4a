//! Views that show elements more than once, or not all of them: windows along axes, and any strides.
//!
//! Tested by values of PyTorch, and `conformance views`.

use crate::UOp;
use crate::ir::{Arg, Dim, Op, Shape, StridedArg};
use crate::ops::shapes::resolve_axes;
use crate::ops::{Built, fail, resolve_axis};
use crate::view::dims::{at_most, simplified};

/// One window of an axis: `count` windows of `len` elements, `dilation` apart, beginning every `stride` elements.
#[derive(Clone, Debug)]
pub(in crate::ops) struct Window {
    /// The axis.
    pub(in crate::ops) axis: usize,
    /// Elements in a window.
    pub(in crate::ops) len: i64,
    /// Elements between the beginnings of neighbouring windows.
    pub(in crate::ops) stride: i64,
    /// Elements between neighbours in a window.
    pub(in crate::ops) dilation: i64,
    /// Windows.
    pub(in crate::ops) count: Dim,
}

/// Windows of axes: each axis becomes the windows' number, and their elements are new last axes, in the order given.
pub(in crate::ops) fn windows(x: &UOp, list: &[Window]) -> UOp {
    let strides = x.shape().row_major_strides();
    let (mut shape, mut steps) = (x.shape().to_vec(), strides.clone());
    for window in list {
        shape[window.axis] = window.count.clone();
        steps[window.axis] = &strides[window.axis] * &Dim::Const(window.stride);
    }
    for window in list {
        shape.push(window.len.into());
        steps.push(&strides[window.axis] * &Dim::Const(window.dilation));
    }
    as_strided(x, shape.into(), steps.into(), Dim::Const(0))
}

/// Element (i, j, ...) is element `offset + i stride0 + j stride1 + ...` of x, counted row-major; the caller knows all to exist.
pub(super) fn as_strided(x: &UOp, shape: Shape, strides: Shape, offset: Dim) -> UOp {
    let arg = Arg::Strided(std::sync::Arc::new(StridedArg { shape, strides, offset }));
    UOp::new(Op::AsStrided, x.dtype(), vec![x.clone()], arg)
}

/// Windows of `size` elements along an axis, one every `step`, as a new last axis.
pub fn unfold(x: &UOp, axis: i64, size: i64, step: i64) -> Built {
    if x.shape().is_empty() {
        // One element counts as one of one axis, which the windows take the place of.
        resolve_axes(&[axis], 0)?;
        let windows = unfold(&x.reshape([1]), 0, size, step)?;
        return Ok(windows.reshape(windows.shape()[1..].to_vec()));
    }
    let axis = resolve_axis(axis, x.shape().len())?;
    let len = &x.shape()[axis];
    if size < 0 || !at_most(&size.into(), len) || step < 1 {
        fail!("windows of {size} every {step} do not fit an axis of length {len}: 0 <= size <= length, step > 0");
    }
    let count = simplified((len - size).floor_div(&step.into()) + 1);
    Ok(windows(x, &[Window { axis, len: size, stride: step, dilation: 1, count }]))
}
