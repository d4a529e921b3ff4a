//! The transpose of a convolution: what each element of the input adds to a window of the result.
//!
//! Element `o` of the result is the sum over the elements `k` of the kernel with `o + padding - k = stride * t` of `x[t] w[k]`. Written with zeros between the
//! elements of x that is a convolution, of which all but one product in `stride` is nothing along each axis. So the result is computed by *phases*, the
//! remainders of `o + padding` by the stride: each is a convolution with every stride-th element of the kernel, and all of them are one with more channels:
//!
//! ```text
//! y[stride * t + r] = sum over q of x[t - q] w[stride * q + r]        r in 0..stride, channels [out, r]
//! ```
//!
//! Then the phases are laid side by side and the padding is cut off. Where that multiplies much with zeros that stand for elements which a phase does not have, phases are computed
//! apart (`convolution_phases`). Along axes with steps in the window as well (dilation) zeros are put between.
//!
//! Tested by the cases of the tests crate, against PyTorch's results and the interpreter.

use super::convolution::{Checked, ConvOptions, add_bias, check, correlate, marked, per_axis, window_list};
use super::convolution_phases::{KnownAxis, PhasesOfAxes};
use crate::UOp;
use crate::dtype::Scalar;
use crate::ir::{Dim, Function, Shape};
use crate::ops::movement::{pad_axis, reorder, shrink_axis};
use crate::ops::padding::{PadMode, pad_by_dims};
use crate::ops::shapes::common_dtype;
use crate::ops::slicing::spread;
use crate::ops::{Built, fail};
use crate::view::dims::simplified;

/// Bytes of a weight that is not worth a kernel of its own to be turned round once.
const WEIGHT_BYTES_FEW: i64 = 4 << 10;

/// One spatial axis.
struct Axis {
    /// Elements of x, and of the kernel.
    len: Dim,
    kernel: i64,
    stride: i64,
    padding: i64,
    dilation: i64,
    /// Elements added at the end, fewer than the stride or the dilation.
    extra: Dim,
}

impl Axis {
    /// Remainders that are computed apart; 1 where zeros are put between elements instead.
    fn phases(&self) -> i64 {
        if self.dilation == 1 { self.stride } else { 1 }
    }

    /// Elements of the kernel that one phase takes.
    fn taps(&self) -> i64 {
        (self.kernel + self.phases() - 1) / self.phases()
    }

    fn result(&self) -> Dim {
        let reach = (self.kernel - 1) * self.dilation + 1;
        simplified((&self.len - 1) * self.stride + (reach - 2 * self.padding) + &self.extra)
    }

    /// Elements behind the result in what all phases give: where it is negative, zeros are missing.
    fn excess(&self) -> Dim {
        simplified(Dim::Const(self.taps() * self.phases() - self.kernel + self.padding) - &self.extra)
    }
}

/// The transpose of a convolution: x [batch, channels, ..] spread by the stride, with a weight [channels, out channels / groups, ..].
pub fn conv_transpose(x: &UOp, weight: &UOp, bias: Option<&UOp>, options: &ConvOptions) -> Built {
    let spatial = x.shape().len().saturating_sub(2);
    let extra = per_axis(&options.output_padding, spatial, 0, "output padding")?;
    conv_transpose_by(x, weight, bias, options, &extra.into_iter().map(Dim::Const).collect::<Vec<Dim>>())
}

/// As [`conv_transpose`], with as many elements more at the end of each axis as are given.
pub(crate) fn conv_transpose_by(
    x: &UOp,
    weight: &UOp,
    bias: Option<&UOp>,
    options: &ConvOptions,
    extra: &[Dim],
) -> Built {
    let dtype = common_dtype([x, weight])?;
    let Checked { spatial, channels, weight: kernel } = check(x, weight, options.groups)?;
    if kernel[0] != channels {
        fail!("a weight of [{}, ..] does not fit {channels} channels", kernel[0]);
    }
    let stride = per_axis(&options.stride, spatial, 1, "stride")?;
    let padding = per_axis(&options.padding, spatial, 0, "padding")?;
    let dilation = per_axis(&options.dilation, spatial, 1, "dilation")?;
    let mut axes = Vec::with_capacity(spatial);
    for k in 0..spatial {
        if extra[k].max_value() >= stride[k].max(dilation[k]) {
            fail!("output padding {} must be less than stride {} or dilation {}", extra[k], stride[k], dilation[k]);
        }
        let (stride, padding, dilation, extra) = (stride[k], padding[k], dilation[k], extra[k].clone());
        let axis = Axis { len: x.shape()[k + 2].clone(), kernel: kernel[k + 2], stride, padding, dilation, extra };
        if axis.len.min_value() < 1 || axis.kernel < 1 || axis.result().min_value() < 1 {
            fail!("a padding of {padding} leaves nothing of axis {}", k + 2);
        }
        axes.push(axis);
    }
    let (x, weight) = (x.cast(dtype), weight.cast(dtype));
    if let Some(phases) = phases_apart(&x, &weight, options.groups, &axes) {
        let result = phases.result()?;
        return add_bias(&marked(Function::TransposedConvolution, result, &x, &weight, options), bias);
    }
    let turned = turned_weight(&weight, &axes, options.groups);
    let padded = padded_input(&x, &axes)?;
    let taps: Vec<i64> = axes.iter().map(Axis::taps).collect();
    let steps = axes.iter().map(|axis| if axis.phases() > 1 { 1 } else { axis.dilation }).collect();
    let list = window_list(&padded, &taps, &ConvOptions { stride: vec![1], dilation: steps, ..options.clone() })?;
    let channels = kernel[1] * options.groups;
    let phases = correlate(&padded, &turned, &list, options.groups)?;
    let result =
        if axes.iter().all(|axis| axis.phases() == 1) { phases } else { interleaved(&phases, channels, &axes) };
    add_bias(&marked(Function::TransposedConvolution, result, &x, &weight, options), bias)
}

/// The phases of axes whose lengths are all known, if they are computed apart.
fn phases_apart<'x>(x: &'x UOp, weight: &'x UOp, groups: i64, axes: &[Axis]) -> Option<PhasesOfAxes<'x>> {
    if axes.iter().all(|axis| axis.stride == 1) {
        return None;
    }
    let mut known = Vec::with_capacity(axes.len());
    let mut alike = 1i64;
    for axis in axes {
        let Axis { kernel, stride, padding, dilation, .. } = *axis;
        let (len, result) = (axis.len.as_const()?, axis.result().as_const()?);
        known.push(KnownAxis { len, kernel, stride, padding, dilation, result });
        let windows = if axis.phases() > 1 { len + axis.taps() - 1 } else { result };
        alike = alike.saturating_mul(windows.saturating_mul(axis.taps() * axis.phases()));
    }
    PhasesOfAxes::worth(x, weight, groups, &known, alike)
}

/// x as its windows are taken from: with what the kernel reaches beyond its ends.
fn padded_input(x: &UOp, axes: &[Axis]) -> Built {
    let mut result = x.clone();
    let mut pairs = vec![(Dim::Const(0), Dim::Const(0)); 2];
    for (k, axis) in axes.iter().enumerate() {
        if axis.phases() > 1 {
            pairs.push((Dim::Const(axis.taps() - 1), Dim::Const(axis.taps() - 1)));
            continue;
        }
        result = spread(&result, k + 2, axis.stride);
        let before = (axis.kernel - 1).saturating_mul(axis.dilation) - axis.padding;
        pairs.push((Dim::Const(before), simplified(&axis.extra + before)));
    }
    pad_by_dims(&result, &pairs, PadMode::Constant(Scalar::Int(0)))
}

/// [in, out, ..] as [out, phases.., in, ..] within each group, the kernel turned round.
fn turned_weight(weight: &UOp, axes: &[Axis], groups: i64) -> UOp {
    let (spatial, lengths) = (axes.len(), weight.shape());
    let (inside, out) = (lengths[0].max_value() / groups, lengths[1].max_value());
    let mut apart: Vec<Dim> = vec![groups.into(), inside.into(), out.into()];
    let mut whole = weight.clone();
    for (k, axis) in axes.iter().enumerate() {
        whole = pad_axis(&whole, k + 2, 0, axis.taps() * axis.phases() - axis.kernel);
        apart.extend([Dim::Const(axis.taps()), Dim::Const(axis.phases())]);
    }
    // [groups, in, out, taps, phases, ..]
    let taps = (0..spatial).map(|k| 3 + 2 * k);
    let order: Vec<usize> = [0, 2].into_iter().chain(taps.clone().map(|tap| tap + 1)).chain([1]).chain(taps).collect();
    let ordered = reorder(&whole.reshape(apart.into_iter().collect::<Shape>()), &order);
    let phases: i64 = axes.iter().map(Axis::phases).product();
    let taps = axes.iter().map(|axis| Dim::Const(axis.taps()));
    let joined: Shape = [Dim::Const(groups * out * phases), inside.into()].into_iter().chain(taps).collect();
    let turned = ordered.reshape(joined).flip(&(2..2 + spatial).collect::<Vec<_>>());
    // What is padded would be asked for in the innermost loop; and terms that lie in no order are many short loops, with a line of memory for each term.
    let is_plain = axes.iter().all(|axis| axis.phases() == 1);
    let bytes = turned.shape().numel().max_value().saturating_mul(turned.dtype().bytes() as i64);
    if is_plain && bytes <= WEIGHT_BYTES_FEW { turned } else { turned.contiguous() }
}

/// [batch, channels * phases.., ..] with phases side by side, and without the padding.
fn interleaved(phases: &UOp, channels: i64, axes: &[Axis]) -> UOp {
    let (spatial, batch) = (axes.len(), phases.shape()[0].clone());
    let counts = phases.shape()[2..].to_vec();
    let apart: Shape = [batch.clone(), channels.into()]
        .into_iter()
        .chain(axes.iter().map(|axis| Dim::Const(axis.phases())))
        .chain(counts.iter().cloned())
        .collect();
    // Each length is followed by its phases.
    let order: Vec<usize> = [0, 1].into_iter().chain((0..spatial).flat_map(|k| [2 + spatial + k, 2 + k])).collect();
    let lengths = counts.iter().zip(axes).map(|(count, axis)| simplified(count * axis.phases()));
    let joined: Shape = [batch, channels.into()].into_iter().chain(lengths).collect();
    let mut result = reorder(&phases.contiguous().reshape(apart), &order).reshape(joined);
    for (k, axis) in axes.iter().enumerate().filter(|(_, axis)| axis.phases() > 1) {
        // What is missing is added first, so that all is cut off at once.
        let missing = -axis.excess().min_value().min(0);
        result = pad_axis(&result, k + 2, 0, missing);
        let end = simplified(&result.shape()[k + 2] - (axis.excess() + missing));
        result = shrink_axis(&result, k + 2, axis.padding, end);
    }
    result
}
