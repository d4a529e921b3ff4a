//! Normalisation layers as functions. Half floats are computed in `f32` and rounded once at the end.

use crate::UOp;
use crate::dtype::lattice::accumulate;
use crate::ir::{Dim, Shape};
use crate::ops::reduce::mean_along;
use crate::ops::shapes::concrete_axis;
use crate::ops::{Built, broadcast_to, fail, number, to_float};

/// x with mean 0 and variance 1 over the axes: (x - mean) / sqrt(variance + eps), in the accumulating type.
fn standardize(x: &UOp, axes: &[usize], eps: f64) -> Built {
    let distance = x - broadcast_to(&mean_along(x, axes, true), x.shape())?;
    let variance = mean_along(&(&distance * &distance), axes, true);
    let scale = number(1.0, x).div((variance + number(eps, x)).sqrt());
    Ok(&distance * broadcast_to(&scale, x.shape())?)
}

/// Times a weight, plus a bias, both of which broadcast to x.
fn affine(x: &UOp, weight: Option<&UOp>, bias: Option<&UOp>) -> Built {
    let mut result = x.clone();
    if let Some(weight) = weight {
        result = &result * broadcast_to(&weight.cast(x.dtype()), x.shape())?;
    }
    if let Some(bias) = bias {
        result = &result + broadcast_to(&bias.cast(x.dtype()), x.shape())?;
    }
    Ok(result)
}

fn wide(x: &UOp) -> UOp {
    x.cast(accumulate(x.dtype()))
}

/// The last axes, as many as `normalized` has, which must be the last lengths of x.
fn last_axes(x: &UOp, normalized: &[i64]) -> Built<Vec<usize>> {
    let rank = x.shape().len();
    let expected: Vec<Dim> = normalized.iter().map(|&len| len.into()).collect();
    if normalized.is_empty() || rank < normalized.len() || x.shape()[rank - normalized.len()..] != expected[..] {
        fail!("{} does not end in the normalised shape {normalized:?}", x.shape());
    }
    Ok((rank - normalized.len()..rank).collect())
}

/// Each row normalised over its last axes.
pub fn layer_norm(x: &UOp, normalized: &[i64], weight: Option<&UOp>, bias: Option<&UOp>, eps: f64) -> Built {
    let x = to_float(x);
    let axes = last_axes(&x, normalized)?;
    Ok(affine(&standardize(&wide(&x), &axes, eps)?, weight, bias)?.cast(x.dtype()))
}

/// x / sqrt(mean(x^2) + eps) over the last axes, as many as the weight has (one without a weight).
pub fn rms_norm(x: &UOp, weight: Option<&UOp>, eps: f64) -> Built {
    let x = to_float(x);
    let count = weight.map_or(1, |weight| weight.shape().len());
    let rank = x.shape().len();
    if count == 0 || rank < count {
        fail!("{} has fewer axes than the weight, or none", x.shape());
    }
    let axes: Vec<usize> = (rank - count..rank).collect();
    let value = wide(&x);
    let size = mean_along(&(&value * &value), &axes, true) + number(eps, &value);
    let scale = number(1.0, &value).div(size.sqrt());
    Ok(affine(&(&value * broadcast_to(&scale, x.shape())?), weight, None)?.cast(x.dtype()))
}

/// A vector of one number a channel, aligned with axis 1.
fn by_channel(vector: &UOp, x: &UOp) -> Built {
    if vector.shape().len() != 1 || vector.shape()[0] != x.shape()[1] {
        fail!("{} is not one number for each of {} channels", vector.shape(), x.shape()[1]);
    }
    let mut lengths = vec![Dim::Const(1); x.shape().len() - 1];
    lengths[0] = vector.shape()[0].clone();
    Ok(vector.reshape(lengths))
}

fn need_channels(x: &UOp) -> Built<()> {
    if x.shape().len() < 2 {
        fail!("x needs axes [batch, channels, ..], not {}", x.shape());
    }
    Ok(())
}

/// Normalised within groups of channels.
pub fn group_norm(x: &UOp, groups: i64, weight: Option<&UOp>, bias: Option<&UOp>, eps: f64) -> Built {
    need_channels(x)?;
    let x = to_float(x);
    let channels = concrete_axis(&x, 1)?;
    if groups < 1 || channels % groups != 0 {
        fail!("{groups} groups do not divide {channels} channels");
    }
    let shape = x.shape();
    let grouped: Shape = [shape[0].clone(), groups.into(), Dim::Const(channels / groups)]
        .into_iter()
        .chain(shape[2..].iter().cloned())
        .collect();
    let axes: Vec<usize> = (2..grouped.len()).collect();
    let value = standardize(&wide(&x).reshape(grouped), &axes, eps)?.reshape(shape.clone());
    let weight = weight.map(|weight| by_channel(weight, &x)).transpose()?;
    let bias = bias.map(|bias| by_channel(bias, &x)).transpose()?;
    Ok(affine(&value, weight.as_ref(), bias.as_ref())?.cast(x.dtype()))
}

/// What batch normalisation gives: the result, and the batch's mean and variance (with the unbiased divisor) if it computed them.
pub struct BatchNorm {
    /// The normalised tensor.
    pub output: UOp,
    /// Mean and unbiased variance of each channel of the batch.
    pub statistics: Option<(UOp, UOp)>,
}

/// Normalised by channel: by the batch's own statistics, or by given ones (mean, variance).
pub fn batch_norm(
    x: &UOp,
    weight: Option<&UOp>,
    bias: Option<&UOp>,
    given: Option<(&UOp, &UOp)>,
    eps: f64,
) -> Built<BatchNorm> {
    need_channels(x)?;
    let x = to_float(x);
    let value = wide(&x);
    let axes: Vec<usize> = (0..x.shape().len()).filter(|&axis| axis != 1).collect();
    let (mean, variance, statistics) = match given {
        Some((mean, variance)) => {
            (by_channel(&mean.cast(value.dtype()), &x)?, by_channel(&variance.cast(value.dtype()), &x)?, None)
        }
        None => {
            let mean = mean_along(&value, &axes, true);
            let distance = &value - broadcast_to(&mean, x.shape())?;
            let variance = mean_along(&(&distance * &distance), &axes, true);
            let count = crate::ops::reduce::count_of(&x, &axes, value.dtype());
            let unbiased = &variance * count.div((&count - number(1.0, &value)).max(number(1.0, &value)));
            let flat = [x.shape()[1].clone()];
            (mean.clone(), variance, Some((mean.reshape(flat.clone()), unbiased.reshape(flat))))
        }
    };
    let scale = number(1.0, &value).div((variance + number(eps, &value)).sqrt());
    let centred = &value - broadcast_to(&mean, x.shape())?;
    let normalised = centred * broadcast_to(&scale, x.shape())?;
    let weight = weight.map(|weight| by_channel(weight, &x)).transpose()?;
    let bias = bias.map(|bias| by_channel(bias, &x)).transpose()?;
    Ok(BatchNorm { output: affine(&normalised, weight.as_ref(), bias.as_ref())?.cast(x.dtype()), statistics })
}
