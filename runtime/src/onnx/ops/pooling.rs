//! Pooling over windows, and over all of an image.

use super::super::call::{Call, Done, all, lengths_from, one, product, stored};
use super::super::error::{Failure, wrong};
use super::Op;
use super::convolution::{Windows, per_axis, windows};
use crate::DType;
use crate::tensor::{PadMode, PoolOptions, Tensor};
use warpweft_compiler::dtype::Scalar;

// tidy: table
pub(super) const OPS: &[(&str, Op)] = &[
    ("AveragePool", average),
    ("GlobalAveragePool", |call| {
        let x = call.tensor(0)?;
        one(stored(x)?.mean_keepdim(spatial(x)?))
    }),
    ("GlobalLpPool", |call| {
        let (x, p) = (call.tensor(0)?, call.int_or("p", 2)? as f64);
        one(x.abs().pow(p).sum_keepdim(spatial(x)?).pow(1.0 / p))
    }),
    ("GlobalMaxPool", |call| {
        let x = call.tensor(0)?;
        one(stored(x)?.max_keepdim(spatial(x)?))
    }),
    ("LpPool", lp),
    ("MaxPool", max),
    ("MaxUnpool", unpool),
];

/// The axes after batch and channels.
fn spatial(x: &Tensor) -> Result<Vec<i64>, Failure> {
    let rank = x.rank()? as i64;
    if rank < 3 { wrong!("x has {rank} axes, and must have [batch, channels, ..]") } else { Ok((2..rank).collect()) }
}

struct Layout {
    windows: Windows,
    /// Elements after each axis that no padding says, for a last window that sticks out.
    extra: Vec<i64>,
    lengths: Vec<i64>,
}

impl Layout {
    fn of(call: &Call<'_>) -> Result<Layout, Failure> {
        // Batch and channels may be variables, unless indices count over them.
        let lengths = match call.wants(1) {
            true => call.lengths(0)?,
            false => [&[1, 1], &lengths_from(call.tensor(0)?, 2)?[..]].concat(),
        };
        let Some(kernel) = call.ints("kernel_shape")?.filter(|_| lengths.len() > 2) else {
            wrong!("attribute 'kernel_shape' is missing, or x has fewer than 3 axes");
        };
        let windows = windows(call, &lengths[2..], kernel)?;
        let ceil = call.flag("ceil_mode")?;
        let extra = |axis: usize| {
            let (before, after) = windows.pads[axis];
            let (length, stride) = (lengths[axis + 2], windows.stride[axis]);
            let span = length + before + after - windows.reach(axis);
            if !ceil || span < 0 || span % stride == 0 {
                return 0;
            }
            // A last window must begin within x or its first padding.
            let start = (span / stride + 1) * stride;
            if start < length + before { start - span } else { 0 }
        };
        let extra = (0..kernel.len()).map(extra).collect();
        Ok(Layout { windows, extra, lengths })
    }

    /// Padding with what a last window needs, for all axes.
    fn padding(&self) -> Vec<(i64, i64)> {
        let mut padding = self.windows.padding();
        padding[2..].iter_mut().zip(&self.extra).for_each(|(pad, extra)| pad.1 += extra);
        padding
    }

    fn options(&self) -> PoolOptions {
        PoolOptions::default()
            .kernel(self.windows.kernel.clone())
            .stride(self.windows.stride.clone())
            .dilation(self.windows.dilation.clone())
    }

    fn is_line(&self) -> bool {
        self.lengths.len() == 3
    }
}

/// Pooling of [batch, channels, length] is that of an image of one row.
fn pooled(x: &Tensor, layout: &Layout, pool: impl Fn(&Tensor, &PoolOptions) -> Tensor) -> Tensor {
    let mut options = layout.options();
    if !layout.is_line() {
        return pool(x, &options);
    }
    for (list, first) in [(&mut options.kernel, 1), (&mut options.stride, 1), (&mut options.dilation, 1)] {
        list.insert(0, first);
    }
    pool(&x.unsqueeze(2), &options).squeeze(2)
}

fn average(call: &Call<'_>) -> Done {
    let (x, layout) = (stored(call.tensor(0)?)?, Layout::of(call)?);
    let mean = |x: &Tensor| pooled(x, &layout, |x, options| x.avg_pool(options));
    let padding = layout.padding();
    let result = mean(&x.pad(&padding));
    let counts_padding = call.flag("count_include_pad")?;
    if padding.iter().all(|&pad| pad == (0, 0)) || (counts_padding && layout.extra.iter().all(|&extra| extra == 0)) {
        return one(result);
    }
    // The mean of a window is over what counts of it.
    let image: Vec<i64> = [1, 1].into_iter().chain(layout.lengths[2..].iter().copied()).collect();
    let ones = Tensor::ones_of(image, if x.dtype()? == DType::F64 { DType::F64 } else { DType::F32 });
    let counted = if counts_padding {
        let extra: Vec<(i64, i64)> = [0, 0].iter().chain(&layout.extra).map(|&extra| (0, extra)).collect();
        ones.pad_with(&layout.windows.padding(), 1).pad(&extra)
    } else {
        ones.pad(&padding)
    };
    one((result / mean(&counted)).cast(x.dtype()?))
}

fn lp(call: &Call<'_>) -> Done {
    let (x, layout, p) = (call.tensor(0)?, Layout::of(call)?, call.int_or("p", 2)? as f64);
    let elements = product(&layout.windows.kernel);
    let powers = x.abs().pow(p).pad(&layout.padding());
    one((pooled(&powers, &layout, |x, options| x.avg_pool(options)) * elements as f64).pow(1.0 / p).cast(x.dtype()?))
}

fn max(call: &Call<'_>) -> Done {
    let (x, layout) = (stored(call.tensor(0)?)?, Layout::of(call)?);
    let dtype = x.dtype()?;
    let padding = layout.padding();
    let is_padded = padding.iter().any(|&pad| pad != (0, 0));
    let padded = if is_padded { x.pad_by(&padding, PadMode::Constant(Scalar::lowest(dtype))) } else { x.clone() };
    let largest = pooled(&padded, &layout, |x, options| x.max_pool(options));
    if !call.wants(1) {
        return one(largest);
    }
    let indices = pooled(&padded, &layout, |x, options| x.max_pool_indices(options)).cast(DType::I64);
    // From indices in the padded image to indices in the whole tensor.
    let lengths = &layout.lengths;
    let column_major = call.flag("storage_order")?;
    let (mut rest, mut index) = (indices.clone(), indices.zeros_like());
    for axis in (2..lengths.len()).rev() {
        let padded_length = lengths[axis] + padding[axis].0 + padding[axis].1;
        let along = &rest % padded_length - padding[axis].0;
        rest = rest.floor_div(padded_length);
        let unit: i64 = if column_major { product(&lengths[2..axis]) } else { product(&lengths[axis + 1..]) };
        index = index + along * unit;
    }
    let image = product(&lengths[2..]);
    let mut shape = vec![1i64; lengths.len()];
    (shape[0], shape[1]) = (lengths[0], lengths[1]);
    let first = Tensor::iota(lengths[0] * lengths[1]).cast(DType::I64).reshape(shape) * image;
    all([largest, index + first])
}

fn unpool(call: &Call<'_>) -> Done {
    let (x, indices) = (call.tensor(0)?, call.tensor(1)?);
    let lengths = call.lengths(0)?;
    let axes = lengths.len().saturating_sub(2);
    let kernel = per_axis(call, "kernel_shape", 1, 1, axes)?;
    let (stride, pads) = (per_axis(call, "strides", 1, 1, axes)?, per_axis(call, "pads", 0, 0, 2 * axes)?);
    let inferred: Vec<i64> = lengths[..2.min(lengths.len())]
        .iter()
        .copied()
        .chain((0..axes).map(|k| (lengths[k + 2] - 1) * stride[k] + kernel[k] - pads[k] - pads[k + axes]))
        .collect();
    // Indices count in the image that the kernel says, whose corner lies in the one that is wanted.
    let count = product(&inferred);
    let flat = x.numel()?;
    let found = Tensor::zeros_of([count], x.dtype()?).scatter(0, &indices.reshape([flat]), &x.reshape([flat]));
    let found = found.reshape(inferred.clone());
    match call.sizes_if(2)? {
        None => one(found),
        Some(wanted) if wanted.len() == inferred.len() => {
            let padding: Vec<(i64, i64)> =
                wanted.iter().zip(&inferred).map(|(wanted, there)| (0, wanted - there)).collect();
            one(found.pad(&padding))
        }
        Some(wanted) => wrong!("the output shape {wanted:?} does not fit {} axes", inferred.len()),
    }
}
