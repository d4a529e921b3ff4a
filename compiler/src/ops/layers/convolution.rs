//! Convolutions of any number of spatial axes: windows of the padded input, times the weight, summed; and the gradient of that by the weight.
//!
//! A convolution is marked as one, with its options as further operands, so that its gradients are convolutions too (`grad::convolutions`): by the input
//! the transposed one, which stands in `transposed_convolution`.

use crate::UOp;
use crate::dtype::Scalar;
use crate::ir::{Dim, Function, Shape};
use crate::ops::math::known;
use crate::ops::matmul::sum_of_products;
use crate::ops::movement::reorder;
use crate::ops::padding::{PadMode, pad};
use crate::ops::shapes::{check_size, common_dtype, concrete, concrete_axis};
use crate::ops::windows::{Window, windows};
use crate::ops::{AxisList, Built, Length, broadcast_to, elementwise, fail};
use crate::view::dims::{at_most, simplified};

/// How windows lie on the spatial axes; a list of one number stands for the same on each axis.
///
/// Others may be added: begin with the default, and say what differs: `ConvOptions::default().stride([2]).padding([1])`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConvOptions {
    /// Elements between neighbouring windows.
    pub stride: Vec<i64>,
    /// Zeros on both sides.
    pub padding: Vec<i64>,
    /// Elements between neighbours in a window.
    pub dilation: Vec<i64>,
    /// Groups of channels that do not mix.
    pub groups: i64,
    /// Elements added at the end of a transposed convolution's result.
    pub output_padding: Vec<i64>,
}

impl Default for ConvOptions {
    fn default() -> ConvOptions {
        ConvOptions { stride: vec![1], padding: vec![0], dilation: vec![1], groups: 1, output_padding: vec![0] }
    }
}

impl ConvOptions {
    /// The same with so many elements between neighbouring windows.
    pub fn stride(self, stride: impl AxisList) -> ConvOptions {
        ConvOptions { stride: stride.axes(), ..self }
    }

    /// The same with so many zeros on both sides.
    pub fn padding(self, padding: impl AxisList) -> ConvOptions {
        ConvOptions { padding: padding.axes(), ..self }
    }

    /// The same with so many elements between neighbours in a window.
    pub fn dilation(self, dilation: impl AxisList) -> ConvOptions {
        ConvOptions { dilation: dilation.axes(), ..self }
    }

    /// The same with so many groups of channels that do not mix.
    pub fn groups(self, groups: impl Length) -> ConvOptions {
        ConvOptions { groups: groups.length(), ..self }
    }

    /// The same with so many elements added at the end of a transposed convolution.
    pub fn output_padding(self, output_padding: impl AxisList) -> ConvOptions {
        ConvOptions { output_padding: output_padding.axes(), ..self }
    }
}

/// One number for each spatial axis.
pub(super) fn per_axis(list: &[i64], axes: usize, least: i64, what: &str) -> Built<Vec<i64>> {
    let list = if list.len() == 1 { vec![list[0]; axes] } else { list.to_vec() };
    if list.len() != axes {
        fail!("{} numbers of {what} for {axes} spatial axes", list.len());
    }
    if let Some(number) = list.iter().find(|&&number| !(least..=i32::MAX as i64).contains(&number)) {
        fail!("{what} {number} is out of range: it must be {least} or more");
    }
    Ok(list)
}

/// Lengths of the operands that both convolutions need, checked.
pub(super) struct Checked {
    pub(super) spatial: usize,
    pub(super) channels: i64,
    pub(super) weight: Vec<i64>,
}

pub(super) fn check(x: &UOp, weight: &UOp, groups: i64) -> Built<Checked> {
    let (rank, lengths) = (x.shape().len(), concrete(weight)?);
    if rank < 3 || lengths.len() != rank {
        fail!("x needs axes [batch, channels, ..] and the weight as many, not {} and {}", x.shape(), weight.shape());
    }
    let channels = concrete_axis(x, 1)?;
    if groups < 1 || channels % groups != 0 {
        fail!("{groups} groups do not divide {channels} channels");
    }
    Ok(Checked { spatial: rank - 2, channels, weight: lengths })
}

/// Convolution (correlation) of x [batch, channels, ..] with a weight [out channels, channels / groups, ..].
pub fn conv(x: &UOp, weight: &UOp, bias: Option<&UOp>, options: &ConvOptions) -> Built {
    let dtype = common_dtype([x, weight])?;
    let Checked { spatial, channels, weight: kernel } = check(x, weight, options.groups)?;
    let groups = options.groups;
    if kernel[1] * groups != channels || kernel[0] % groups != 0 {
        let out = kernel[0];
        fail!("a weight of [{out}, {}, ..] in {groups} groups does not fit {channels} channels", kernel[1]);
    }
    let padding = per_axis(&options.padding, spatial, 0, "padding")?;
    let pairs: Vec<(i64, i64)> = [0, 0].iter().chain(&padding).map(|&amount| (amount, amount)).collect();
    let padded = pad(&x.cast(dtype), &pairs, PadMode::Constant(Scalar::Int(0)))?;
    let list = window_list(&padded, &kernel[2..], options)?;
    let weight = weight.cast(dtype);
    let result =
        marked(Function::Convolution, correlate(&padded, &weight, &list, groups)?, &x.cast(dtype), &weight, options);
    add_bias(&result, bias)
}

/// The value as what a convolution of x and a weight gives.
pub(super) fn marked(function: Function, value: UOp, x: &UOp, weight: &UOp, options: &ConvOptions) -> UOp {
    if !value.dtype().is_float() {
        return value;
    }
    let numbers = [&options.stride, &options.padding, &options.dilation].into_iter().flat_map(|list| {
        let spatial = x.shape().len() - 2;
        (0..spatial).map(move |axis| list[if list.len() == 1 { 0 } else { axis }])
    });
    let numbers: Vec<UOp> = std::iter::once(options.groups).chain(numbers).map(UOp::index).collect();
    let operands: Vec<&UOp> = [x, weight].into_iter().chain(&numbers).collect();
    known(function, value, &operands)
}

/// The options that a marked node stands for.
pub(crate) fn options_of(node: &UOp) -> Option<ConvOptions> {
    let numbers: Vec<i64> = node.src().get(3..)?.iter().map(UOp::as_int).collect::<Option<_>>()?;
    let (groups, lists) = numbers.split_first()?;
    let spatial = lists.len() / 3;
    let list = |number: usize| lists[number * spatial..(number + 1) * spatial].to_vec();
    let (stride, padding, dilation) = (list(0), list(1), list(2));
    Some(ConvOptions { stride, padding, dilation, groups: *groups, output_padding: vec![0; spatial] })
}

/// The gradient by a weight of the given shape, where g is that by the convolution: each window of x times what came of it, summed over all of them.
pub(crate) fn gradient_by_weight(x: &UOp, g: &UOp, weight: &Shape, options: &ConvOptions) -> Built {
    let lengths = weight.as_const().unwrap_or_default();
    let (spatial, groups) = (lengths.len() - 2, options.groups);
    let padding = per_axis(&options.padding, spatial, 0, "padding")?;
    let pairs: Vec<(i64, i64)> = [0, 0].iter().chain(&padding).map(|&amount| (amount, amount)).collect();
    let padded = pad(x, &pairs, PadMode::Constant(Scalar::Int(0)))?;
    let list = window_list(&padded, &lengths[2..], options)?;
    let view = windows(&padded, &list);
    let batch = x.shape()[0].clone();
    let (inside, out) = (lengths[1], lengths[0] / groups);
    let counts: Vec<Dim> = list.iter().map(|window| window.count.clone()).collect();
    let kernel: Vec<Dim> = list.iter().map(|window| window.len.into()).collect();
    let shape = |out: i64, inside: i64, kernel: &[Dim]| -> Shape {
        let first = [batch.clone(), groups.into(), out.into(), inside.into()];
        first.into_iter().chain(counts.iter().cloned()).chain(kernel.iter().cloned()).collect()
    };
    let all = shape(out, inside, &kernel);
    let view = broadcast_to(&view.reshape(shape(1, inside, &kernel)), &all)?;
    let ones = vec![Dim::Const(1); spatial];
    let g = broadcast_to(&g.reshape(shape(out, 1, &ones)), &all)?;
    let summed: Vec<usize> = std::iter::once(0).chain(4..4 + spatial).collect();
    Ok(sum_of_products(&view, &g, &summed).reshape(weight.clone()))
}

fn at_least(length: &Dim) -> String {
    format!(", which may be {}: give its variable a larger lower bound", length.min_value())
}

/// The windows of the last axes of x.
pub(super) fn window_list(x: &UOp, kernel: &[i64], options: &ConvOptions) -> Built<Vec<Window>> {
    let spatial = kernel.len();
    let stride = per_axis(&options.stride, spatial, 1, "stride")?;
    let dilation = per_axis(&options.dilation, spatial, 1, "dilation")?;
    let first = x.shape().len() - spatial;
    let mut list = Vec::with_capacity(spatial);
    for k in 0..spatial {
        let (len, axis) = (kernel[k], first + k);
        let reach = (len - 1).saturating_mul(dilation[k]).saturating_add(1);
        let padded = &x.shape()[axis];
        if len < 1 || !at_most(&reach.into(), padded) {
            let least = if padded.as_const().is_some() { String::new() } else { at_least(padded) };
            fail!("a window of {len} ({reach} with dilation) does not fit the padded length {padded}{least}");
        }
        let count = simplified((padded - reach).floor_div(&stride[k].into()) + 1);
        list.push(Window { axis, len, stride: stride[k], dilation: dilation[k], count });
    }
    Ok(list)
}

/// Windows [batch, groups, 1, in, .., kernel..] times weights [groups, out, in, 1.., kernel..], summed over in and kernel.
pub(super) fn correlate(x: &UOp, weight: &UOp, list: &[Window], groups: i64) -> Built {
    let spatial = list.len();
    let (batch, channels) = (x.shape()[0].clone(), concrete_axis(x, 1)? / groups);
    let out = concrete(weight)?[0] / groups;
    let counts: Vec<Dim> = list.iter().map(|window| window.count.clone()).collect();
    let kernel: Vec<Dim> = list.iter().map(|window| window.len.into()).collect();
    let result: Shape = [batch.clone(), (out * groups).into()].into_iter().chain(counts.iter().cloned()).collect();
    check_size(&result)?;

    let view = windows(x, list);
    let grouped: Shape = [batch.clone(), groups.into(), Dim::Const(1), channels.into()]
        .into_iter()
        .chain(view.shape()[2..].iter().cloned())
        .collect();
    // The channels that are summed go last, before the kernel: [batch, groups, out, counts.., in, kernel..].
    let order: Vec<usize> =
        [0, 1, 2].into_iter().chain(4..4 + spatial).chain([3]).chain(4 + spatial..4 + 2 * spatial).collect();
    let view = reorder(&view.reshape(grouped), &order);
    let all: Shape = [batch, groups.into(), out.into()]
        .into_iter()
        .chain(counts.iter().cloned())
        .chain([channels.into()])
        .chain(kernel.iter().cloned())
        .collect();
    let ones = std::iter::repeat_n(Dim::Const(1), spatial);
    let filters: Shape = [Dim::Const(1), groups.into(), out.into()]
        .into_iter()
        .chain(ones)
        .chain([channels.into()])
        .chain(kernel)
        .collect();
    let (view, filters) = (broadcast_to(&view, &all)?, broadcast_to(&weight.reshape(filters), &all)?);
    let axes: Vec<usize> = (3 + spatial..all.len()).collect();
    Ok(sum_of_products(&view, &filters, &axes).reshape(result))
}

pub(super) fn add_bias(result: &UOp, bias: Option<&UOp>) -> Built {
    let Some(bias) = bias else { return Ok(result.clone()) };
    if bias.shape().len() != 1 || bias.shape()[0] != result.shape()[1] {
        fail!("the bias {} is not one number for each of {} channels", bias.shape(), result.shape()[1]);
    }
    let mut lengths = vec![Dim::Const(1); result.shape().len() - 1];
    lengths[0] = bias.shape()[0].clone();
    elementwise::add(result, &bias.reshape(lengths))
}

/// The rows of a batch cut into the columns of a matrix: windows of x [batch, channels, ..] as [batch, channels * kernel, windows].
pub fn unfold_windows(x: &UOp, kernel: &[i64], options: &ConvOptions) -> Built {
    let spatial = x.shape().len().saturating_sub(2);
    let kernel = per_axis(kernel, spatial, 1, "kernel size")?;
    let padding = per_axis(&options.padding, spatial, 0, "padding")?;
    let pairs: Vec<(i64, i64)> = [0, 0].iter().chain(&padding).map(|&amount| (amount, amount)).collect();
    if spatial == 0 {
        fail!("x needs axes [batch, channels, ..], not {}", x.shape());
    }
    let padded = pad(x, &pairs, PadMode::Constant(Scalar::Int(0)))?;
    let view = windows(&padded, &window_list(&padded, &kernel, options)?);
    let order: Vec<usize> = [0, 1].into_iter().chain(2 + spatial..2 + 2 * spatial).chain(2..2 + spatial).collect();
    let ordered = reorder(&view, &order);
    let columns = crate::ops::movement::merge_axes(&ordered, 2 + spatial, 2 + 2 * spatial);
    Ok(crate::ops::movement::merge_axes(&columns, 1, 2 + spatial))
}
