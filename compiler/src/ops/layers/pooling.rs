//! Pooling over windows of spatial axes: as many of the last as the kernel names; one number is for all of [batch, channels, ..], or for both of a matrix.

use super::convolution::{ConvOptions, per_axis, window_list};
use crate::dtype::Scalar;
use crate::ir::{Dim, Function, ReduceOp, Shape};
use crate::ops::create::positions;
use crate::ops::extreme::{Tie, index_of};
use crate::ops::math::known;
use crate::ops::padding::pad_with;
use crate::ops::reduce::{along, sum_along};
use crate::ops::windows::{Window, windows};
use crate::ops::{AxisList, Built, fail, resolve_axis, to_float};
use crate::view::dims::simplified;
use crate::{DType, UOp};

/// How pooling windows lie.
///
/// Others may be added: begin with the default, and say what differs: `PoolOptions::default().kernel([3]).stride([2])`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolOptions {
    /// Elements of a window along each pooled axis: of the last axes as many as there are numbers here; one number is for all spatial axes.
    pub kernel: Vec<i64>,
    /// Elements between neighbouring windows; the kernel when empty.
    pub stride: Vec<i64>,
    /// Elements on both sides, at most half a window.
    pub padding: Vec<i64>,
    /// Elements between neighbours in a window.
    pub dilation: Vec<i64>,
    /// Whether a last window that sticks out counts.
    pub ceil_mode: bool,
    /// Whether padding counts in a mean.
    pub count_include_pad: bool,
}

impl Default for PoolOptions {
    fn default() -> PoolOptions {
        PoolOptions {
            kernel: vec![2],
            stride: Vec::new(),
            padding: vec![0],
            dilation: vec![1],
            ceil_mode: false,
            count_include_pad: true,
        }
    }
}

impl PoolOptions {
    /// The same with windows of so many elements along each pooled axis.
    pub fn kernel(self, kernel: impl AxisList) -> PoolOptions {
        PoolOptions { kernel: kernel.axes(), ..self }
    }

    /// The same with so many elements between neighbouring windows; the kernel when empty.
    pub fn stride(self, stride: impl AxisList) -> PoolOptions {
        PoolOptions { stride: stride.axes(), ..self }
    }

    /// The same with so many elements on both sides.
    pub fn padding(self, padding: impl AxisList) -> PoolOptions {
        PoolOptions { padding: padding.axes(), ..self }
    }

    /// The same with so many elements between neighbours in a window.
    pub fn dilation(self, dilation: impl AxisList) -> PoolOptions {
        PoolOptions { dilation: dilation.axes(), ..self }
    }

    /// The same with a last window that sticks out counted, or not.
    pub fn ceil_mode(self, ceil_mode: bool) -> PoolOptions {
        PoolOptions { ceil_mode, ..self }
    }

    /// The same with padding counted in a mean, or not.
    pub fn count_include_pad(self, count_include_pad: bool) -> PoolOptions {
        PoolOptions { count_include_pad, ..self }
    }
}

/// The padding of all axes and the windows on the padded tensor.
struct Layout {
    padding: Vec<(Dim, Dim)>,
    /// Padding that counts: without what `ceil_mode` adds at the end.
    counted: Vec<(Dim, Dim)>,
    conv: ConvOptions,
    kernel: Vec<i64>,
}

fn layout(x: &UOp, options: &PoolOptions) -> Built<Layout> {
    let lengths = x.shape();
    // One number is for all spatial axes of [batch, channels, ..].
    let spatial = if lengths.len() < 3 { 2 } else { lengths.len() - 2 };
    let axes = if options.kernel.len() == 1 { spatial } else { options.kernel.len() };
    if lengths.len() < axes {
        fail!("{} has fewer than the {axes} axes to pool", x.shape());
    }
    let mut kernel = per_axis(&options.kernel, axes, 1, "kernel size")?;
    let stride = if options.stride.is_empty() { kernel.clone() } else { per_axis(&options.stride, axes, 1, "stride")? };
    let padding = per_axis(&options.padding, axes, 0, "padding")?;
    let dilation = per_axis(&options.dilation, axes, 1, "dilation")?;
    let first = lengths.len() - axes;
    let mut pairs = vec![(Dim::Const(0), Dim::Const(0)); lengths.len()];
    let mut counted = pairs.clone();
    for k in 0..axes {
        if padding[k] > kernel[k] / 2 {
            fail!("padding {} is more than half of the kernel size {}", padding[k], kernel[k]);
        }
        if options.ceil_mode && dilation[k] == 1 {
            kernel[k] = part_inside(&lengths[first + k], padding[k], kernel[k], stride[k]);
        }
        let reach = (kernel[k] - 1) * dilation[k] + 1;
        counted[first + k] = (padding[k].into(), padding[k].into());
        let extra = match options.ceil_mode {
            true => extra_of_last_window(&lengths[first + k], padding[k], reach, stride[k])?,
            false => Dim::Const(0),
        };
        pairs[first + k] = (padding[k].into(), extra + padding[k]);
    }
    let conv = ConvOptions { stride, dilation, ..ConvOptions::default() };
    Ok(Layout { padding: pairs, counted, conv, kernel })
}

/// The part of a window that may hold elements: with `ceil_mode` the only window may be longer than all of x.
fn part_inside(len: &Dim, padding: i64, kernel: i64, stride: i64) -> i64 {
    let padded = len.as_const().map(|len| len + 2 * padding);
    padded.filter(|padded| (1..kernel).contains(padded) && kernel - padded < stride).unwrap_or(kernel)
}

/// Padding for a last window that sticks out: one that begins within x or its left padding.
fn extra_of_last_window(len: &Dim, padding: i64, reach: i64, stride: i64) -> Built<Dim> {
    let span = len + (2 * padding - reach);
    let Some(span) = span.as_const() else {
        // It begins less than a stride after the last whole one, which ends where the padded x does or before.
        if reach < stride + padding {
            fail!(
                "ceil_mode on a symbolic length needs windows ({reach}) that are at least the stride ({stride}) and the padding ({padding}) together"
            );
        }
        return Ok(simplified((Dim::Const(0) - span).floor_mod(&stride.into())));
    };
    let start = (span / stride + 1) * stride;
    let is_needed = span >= 0 && span % stride != 0 && start < span + reach - padding;
    Ok(Dim::Const(if is_needed { stride - span % stride } else { 0 }))
}

/// Largest of each window; what is padded never wins. The gradient goes to the first such element.
pub fn max_pool(x: &UOp, options: &PoolOptions) -> Built {
    let layout = layout(x, options)?;
    let Windows { values, inside, list } = largest_windows(x, &layout)?;
    let value = along(&values, ReduceOp::Max, &kernel_axes(x, &list), false);
    if !x.dtype().is_float() {
        return Ok(value);
    }
    let operands: Vec<&UOp> = std::iter::once(&values).chain(&inside).collect();
    Ok(known(Function::FirstExtreme, value, &operands))
}

/// The elements of each window along new axes, and where they are elements of x, if any are not.
struct Windows {
    values: UOp,
    inside: Option<UOp>,
    list: Vec<Window>,
}

fn largest_windows(x: &UOp, layout: &Layout) -> Built<Windows> {
    let padded = pad_with(x, &layout.padding, Scalar::lowest(x.dtype()));
    let list = window_list(&padded, &layout.kernel, &layout.conv)?;
    let is_padded = !is_none(&layout.padding);
    let ones = || crate::ops::create::full_like(&x.cast(DType::BOOL), 1);
    let inside = is_padded.then(|| windows(&pad_with(&ones(), &layout.padding, Scalar::Bool(false)), &list));
    Ok(Windows { values: windows(&padded, &list), inside, list })
}

/// Mean of each window.
pub fn avg_pool(x: &UOp, options: &PoolOptions) -> Built {
    let x = &to_float(x);
    let layout = layout(x, options)?;
    let padded = pad_with(x, &layout.padding, Scalar::zero(x.dtype()));
    let list = window_list(&padded, &layout.kernel, &layout.conv)?;
    let axes = kernel_axes(x, &list);
    let wide = windows(&padded, &list).cast(crate::dtype::lattice::accumulate(x.dtype()));
    let sum = sum_along(&wide, &axes, false);
    let every = layout.padding == layout.counted && options.count_include_pad;
    let untouched = is_none(&layout.padding);
    let count = if every || untouched {
        let elements: i64 = layout.kernel.iter().product();
        UOp::int(elements, sum.dtype())
    } else {
        // How many elements of a window count: all that are x, and its padding if that is wanted.
        let one = crate::ops::create::full_like(&x.cast(sum.dtype()), 1);
        let zero = Scalar::zero(sum.dtype());
        let counted = &layout.counted;
        let rest = layout.padding.iter().zip(counted).map(|(all, counted)| (&all.0 - &counted.0, &all.1 - &counted.1));
        let rest: Vec<(Dim, Dim)> = rest.collect();
        let inside = if options.count_include_pad {
            pad_with(&pad_with(&one, counted, Scalar::one(sum.dtype())), &rest, zero)
        } else {
            pad_with(&one, &layout.padding, zero)
        };
        sum_along(&windows(&inside, &list), &axes, false)
    };
    Ok(sum.div(count).cast(x.dtype()))
}

fn is_none(padding: &[(Dim, Dim)]) -> bool {
    padding.iter().all(|(before, after)| before.is(0) && after.is(0))
}

fn kernel_axes(x: &UOp, list: &[Window]) -> Vec<usize> {
    (x.shape().len()..x.shape().len() + list.len()).collect()
}

/// Which elements of an axis are in each of `size` windows that share them out as evenly as they can: bool [length, size].
///
/// Window `k` begins at `k * length / size`, rounded down, and ends at `(k + 1) * length / size`, rounded up, as PyTorch's adaptive pools have it.
pub fn adaptive_windows(x: &UOp, axis: i64, size: i64) -> Built {
    let len = x.shape()[resolve_axis(axis, x.shape().len())?].clone();
    let all: Shape = [len.clone(), Dim::Const(size)].into_iter().collect();
    let [element, window] = [0, 1].map(|axis| positions(&all, axis).cast(DType::I64));
    let len = len.to_uop().cast(DType::I64);
    let share =
        |number: UOp, round: i64| (number * &len + UOp::int(round, DType::I64)).idiv(&UOp::int(size, DType::I64));
    let (start, end) = (share(window.clone(), 0), share(window + UOp::int(1, DType::I64), size - 1));
    Ok(element.lt(&start).not() & element.lt(&end))
}

/// Where the largest of each window stands in the pooled axes, counted row-major; `i32`.
pub fn max_pool_indices(x: &UOp, options: &PoolOptions) -> Built {
    let layout = layout(x, options)?;
    let axes = layout.kernel.len();
    let rank = x.shape().len();
    let Windows { values, inside, list } = largest_windows(x, &layout)?;
    let kernel = kernel_axes(x, &list);
    let found = index_of(&values, ReduceOp::Max, &kernel, inside.as_ref(), Tie::First)?;
    let found = found.reshape(values.shape()[..rank].iter().cloned().collect::<Shape>());
    // The index within a window, taken apart from the last axis on, and from there the index in x.
    let (mut rest, mut unit) = (found.clone(), Dim::Const(1));
    let mut index = UOp::int(0, DType::I32);
    for axis in (0..axes).rev() {
        let at = rank - axes + axis;
        let within = rest.modulo(layout.kernel[axis]);
        rest = rest.idiv(&UOp::int(layout.kernel[axis], DType::I32));
        let window = positions(found.shape(), at).cast(DType::I32);
        let start = window * UOp::int(layout.conv.stride[axis], DType::I32)
            - UOp::int(layout.padding[at].0.max_value(), DType::I32);
        let along = start + within * UOp::int(layout.conv.dilation[axis], DType::I32);
        index = index + along * unit.to_uop().cast(DType::I32);
        unit = unit * &x.shape()[at];
    }
    Ok(index)
}
