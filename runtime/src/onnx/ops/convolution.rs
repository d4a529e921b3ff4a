//! Convolutions, and how windows lie on an image, which pooling shares.

use super::super::call::{Call, Done, lengths_from, one, stored};
use super::super::error::{Failure, wrong};
use super::Op;
use crate::DType;
use crate::tensor::{ConvOptions, Tensor};

// tidy: table
pub(super) const OPS: &[(&str, Op)] = &[
    ("CausalConvWithState", causal_conv),
    ("Conv", |call| one(convolved(call, call.tensor(0)?, call.tensor(1)?, call.optional(2)?)?)),
    ("ConvInteger", conv_integer),
    ("ConvTranspose", conv_transpose),
    ("DeformConv", deform_conv),
];

/// How windows lie on the spatial axes of [batch, channels, ..].
pub(super) struct Windows {
    pub(super) kernel: Vec<i64>,
    pub(super) stride: Vec<i64>,
    pub(super) dilation: Vec<i64>,
    /// Elements before and after each axis.
    pub(super) pads: Vec<(i64, i64)>,
}

impl Windows {
    /// From one end of a window to the other.
    pub(super) fn reach(&self, axis: usize) -> i64 {
        (self.kernel[axis] - 1) * self.dilation[axis] + 1
    }

    /// The padding of all axes of the image.
    pub(super) fn padding(&self) -> Vec<(i64, i64)> {
        [(0, 0), (0, 0)].into_iter().chain(self.pads.iter().copied()).collect()
    }
}

/// A list of one number for each axis.
pub(super) fn per_axis(
    call: &Call<'_>,
    name: &str,
    default: i64,
    least: i64,
    axes: usize,
) -> Result<Vec<i64>, Failure> {
    let list = call.ints(name)?.map_or_else(|| vec![default; axes], <[i64]>::to_vec);
    if list.len() != axes || list.iter().any(|number| !(least..=1 << 24).contains(number)) {
        wrong!("attribute '{name}' is {list:?}, and must be {axes} numbers from {least} on");
    }
    Ok(list)
}

/// The windows of a kernel of these lengths on an image of these spatial lengths, as the node's attributes say.
pub(super) fn windows(call: &Call<'_>, lengths: &[i64], kernel: &[i64]) -> Result<Windows, Failure> {
    let axes = lengths.len();
    if kernel.len() != axes || kernel.iter().any(|&length| !(1..=1 << 24).contains(&length)) {
        wrong!("a kernel of {kernel:?} does not fit {axes} spatial axes");
    }
    if let Some(stated) = call.ints("kernel_shape")?.filter(|stated| *stated != kernel) {
        wrong!("attribute 'kernel_shape' is {stated:?}, and the kernel is {kernel:?}");
    }
    let stride = per_axis(call, "strides", 1, 1, axes)?;
    let dilation = per_axis(call, "dilations", 1, 1, axes)?;
    let mut windows = Windows { kernel: kernel.to_vec(), stride, dilation, pads: vec![(0, 0); axes] };
    match &*call.text_or("auto_pad", "NOTSET")? {
        "NOTSET" | "" => {
            let pads = per_axis(call, "pads", 0, 0, 2 * axes)?;
            windows.pads = (0..axes).map(|axis| (pads[axis], pads[axis + axes])).collect();
        }
        "VALID" => {}
        mode @ ("SAME_UPPER" | "SAME_LOWER") => {
            for (axis, &length) in lengths.iter().enumerate() {
                let stride = windows.stride[axis];
                let count = (length + stride - 1) / stride;
                let total = ((count - 1) * stride + windows.reach(axis) - length).max(0);
                let (less, more) = (total / 2, total - total / 2);
                windows.pads[axis] = if mode == "SAME_UPPER" { (less, more) } else { (more, less) };
            }
        }
        other => wrong!("attribute 'auto_pad' is '{other}', and must be NOTSET, SAME_UPPER, SAME_LOWER or VALID"),
    }
    Ok(windows)
}

/// The convolution that the node's attributes describe.
pub(super) fn convolved(
    call: &Call<'_>,
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
) -> Result<Tensor, Failure> {
    // The batch may be a variable.
    let (lengths, kernel) = (lengths_from(x, 1)?, super::super::call::lengths(weight)?);
    let lengths = [&[1], &lengths[..]].concat();
    if lengths.len() < 3 || kernel.len() != lengths.len() {
        wrong!(
            "x and the weight have shapes {lengths:?} and {kernel:?}, and must have axes [batch, channels, ..] and as many"
        );
    }
    let windows = windows(call, &lengths[2..], &kernel[2..])?;
    let even = windows.pads.iter().all(|(before, after)| before == after);
    let x = stored(x)?;
    let padded = if even { x } else { x.pad(&windows.padding()) };
    let options = ConvOptions::default()
        .stride(windows.stride)
        .padding(windows.pads.iter().map(|pad| if even { pad.0 } else { 0 }).collect::<Vec<i64>>())
        .dilation(windows.dilation)
        .groups(call.int_or("group", 1)?);
    Ok(padded.conv(weight, bias, &options))
}

/// A zero point of a tensor: one number, or one for each of its first axis.
pub(super) fn without_zero(x: &Tensor, zero: Option<&Tensor>) -> Result<Tensor, Failure> {
    let wide = x.cast(DType::I32);
    let Some(zero) = zero else { return Ok(wide) };
    if zero.numel()? == 1 {
        return Ok(wide - zero.cast(DType::I32).reshape([0i64; 0]));
    }
    let mut line = vec![1i64; x.rank()?.max(1)];
    line[0] = zero.numel()? as i64;
    Ok(wide - zero.cast(DType::I32).reshape(line))
}

fn conv_integer(call: &Call<'_>) -> Done {
    let x = without_zero(call.tensor(0)?, call.optional(2)?)?;
    let weight = without_zero(call.tensor(1)?, call.optional(3)?)?;
    one(convolved(call, &x, &weight, None)?.cast(DType::I32))
}

fn conv_transpose(call: &Call<'_>) -> Done {
    let (x, weight) = (call.tensor(0)?, call.tensor(1)?);
    let (lengths, kernel) = (call.lengths(0)?, call.lengths(1)?);
    if lengths.len() < 3 || kernel.len() != lengths.len() {
        wrong!(
            "x and the weight have shapes {lengths:?} and {kernel:?}, and must have axes [batch, channels, ..] and as many"
        );
    }
    let axes = lengths.len() - 2;
    let (stride, dilation) = (per_axis(call, "strides", 1, 1, axes)?, per_axis(call, "dilations", 1, 1, axes)?);
    let more = per_axis(call, "output_padding", 0, 0, axes)?;
    let pads = per_axis(call, "pads", 0, 0, 2 * axes)?;
    let auto = call.text_or("auto_pad", "NOTSET")?;
    let wanted = call.ints("output_shape")?.map(|shape| &shape[shape.len().saturating_sub(axes)..]);
    let mut padding = vec![(0i64, 0i64); axes + 2];
    for axis in 0..axes {
        let full = (lengths[axis + 2] - 1) * stride[axis] + (kernel[axis + 2] - 1) * dilation[axis] + 1;
        let wanted = match (wanted, &*auto) {
            (Some(wanted), _) => Some(wanted.get(axis).copied().unwrap_or(1)),
            (None, "SAME_UPPER" | "SAME_LOWER") => Some(lengths[axis + 2] * stride[axis]),
            (None, _) => None,
        };
        // What is cut off before and after.
        let (before, after) = match wanted {
            Some(wanted) => {
                let total = full + more[axis] - wanted;
                let (less, rest) = (total.div_euclid(2), total - total.div_euclid(2));
                if auto == "SAME_UPPER" { (less, rest) } else { (rest, less) }
            }
            None => (pads[axis], pads[axis + axes]),
        };
        padding[axis + 2] = (-before, more[axis] - after);
    }
    let options = ConvOptions::default().stride(stride).dilation(dilation).groups(call.int_or("group", 1)?);
    let result = x.conv_transpose(weight, None, &options).pad(&padding);
    match call.optional(2)? {
        None => one(result),
        Some(bias) => {
            let mut line = vec![1i64; axes + 1];
            line[0] = bias.numel()? as i64;
            one(result + bias.reshape(line))
        }
    }
}

/// A convolution of each channel by itself over what came before, and the last elements for the next call.
fn causal_conv(call: &Call<'_>) -> Done {
    let (x, weight) = (call.tensor(0)?, call.tensor(1)?);
    let (lengths, kernel) = (call.lengths(0)?, call.lengths(1)?);
    let ([batch, channels, _], [_, 1, taps]) = (&lengths[..], &kernel[..]) else {
        wrong!(
            "x and the weight have shapes {lengths:?} and {kernel:?}, and must be [batch, channels, length] and [channels, 1, taps]"
        );
    };
    let past = match call.optional(3)? {
        Some(past) => past.clone(),
        None => Tensor::zeros_of([*batch, *channels, taps - 1], x.dtype()?),
    };
    let all = Tensor::cat(&[&past, x], 2);
    let bias = call.optional(2)?;
    let result = all.conv(weight, bias, &ConvOptions::default().groups(*channels));
    let result = match &*call.text_or("activation", "none")? {
        "none" => result,
        "silu" | "swish" => result.silu(),
        other => wrong!("attribute 'activation' is '{other}', and must be 'silu', 'swish' or 'none'"),
    };
    let length = lengths[2];
    let last = all.narrow(2, length, taps - 1);
    super::super::call::all([result, last])
}

fn deform_conv(call: &Call<'_>) -> Done {
    let (x, weight, offset) = (call.tensor(0)?, call.tensor(1)?, call.tensor(2)?);
    let (lengths, kernel) = (call.lengths(0)?, call.lengths(1)?);
    let (&[n, c, h, w], &[out, _, kh, kw]) = (&lengths[..], &kernel[..]) else {
        wrong!("x and the weight have shapes {lengths:?} and {kernel:?}, and must have 4 axes");
    };
    let layout = windows(call, &[h, w], &[kh, kw])?;
    let (groups, apart) = (call.int_or("group", 1)?, call.int_or("offset_group", 1)?);
    let [_, _, oh, ow] = call.lengths(2)?[..] else { wrong!("the offsets must have 4 axes") };
    if groups < 1 || apart < 1 || c % apart != 0 || c % groups != 0 || out % groups != 0 {
        wrong!("{groups} groups and {apart} groups of offsets do not divide {c} channels and {out} results");
    }
    let (taps, positions) = (kh * kw, oh * ow);
    let offset = offset.reshape([n, apart, taps, 2, oh, ow]);
    // Where each tap of each window lies on an axis, before its offset: [taps, oh, ow].
    let dtype = x.dtype()?;
    let base = |axis: usize| {
        let (window, tap) = if axis == 0 { ([1, oh, 1], [kh, 1]) } else { ([1, 1, ow], [1, kw]) };
        let begin = Tensor::iota(if axis == 0 { oh } else { ow }) * layout.stride[axis] - layout.pads[axis].0;
        let within = Tensor::iota(layout.kernel[axis]) * layout.dilation[axis];
        begin.reshape(window) + within.reshape(tap).expand([kh, kw]).reshape([taps, 1, 1])
    };
    let at = |axis: usize| offset.narrow(3, axis as i64, 1i64).squeeze(3) + base(axis).cast(dtype);
    let points: Vec<Tensor> = (0..2).map(|axis| at(axis).reshape([n * apart, taps * positions])).collect();
    let image = x.reshape([n * apart, c / apart, h, w]);
    let mut columns = image.sample_at(&points, crate::tensor::SampleMode::Linear, crate::tensor::Beyond::Zeros, true);
    if let Some(mask) = call.optional(4)? {
        columns = columns * mask.reshape([n * apart, 1, taps * positions]);
    }
    let columns = columns.reshape([n, groups, c / groups * taps, positions]);
    let weight = weight.reshape([1, groups, out / groups, c / groups * taps]);
    let mut result = weight.matmul(&columns).reshape([n, out, oh, ow]);
    if let Some(bias) = call.optional(3)? {
        result = result + bias.reshape([out, 1, 1]);
    }
    one(result)
}
