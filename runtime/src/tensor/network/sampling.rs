//! Images looked at between their elements: at any points, on grids, in regions.
//!
//! A point between elements gets a weighted sum of its neighbours; weights follow from the point by straight lines or cubic polynomials. Points, and so
//! grids, have gradients, as images do. What neighbours beyond the edge are is [`Beyond`]. Results and names are PyTorch's.
//!
//! Tested by the cases of the ONNX package and by values of PyTorch (tests/it/samples.rs).

use std::panic::Location;

use crate::tensor::errors::{CallError, within};
use crate::tensor::factor::built;
use crate::tensor::{AxisList, Dims, Result, Tensor};
use crate::{DType, Dim};

/// How a value between elements is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SampleMode {
    /// The nearest element; of two the one with the even index.
    Nearest,
    /// Straight lines between neighbours along each axis.
    Linear,
    /// A cubic polynomial of four neighbours along each axis (with the coefficient -0.75).
    Cubic,
}

/// What stands beyond the edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Beyond {
    /// Zeros.
    Zeros,
    /// The nearest element of the edge.
    Border,
    /// The image in a mirror.
    Reflection,
}

/// Neighbours of points along one axis: where they are, as integers within the axis, and how much each counts; both [batch, points].
type Taps = Vec<(Tensor, Tensor)>;

/// The first length of a tensor, which may be a variable, and the others, which must be numbers.
fn batch_and_numbers(op: &'static str, x: &Tensor, location: &'static Location<'static>) -> Result<(Dim, Vec<i64>)> {
    let dims = x.dims()?;
    let rest: Option<Vec<i64>> = dims.iter().skip(1).map(|dim| dim.as_const()).collect();
    match rest {
        Some(rest) => Ok((dims.first().cloned().unwrap_or(Dim::Const(1)), rest)),
        None => {
            let message = format!("the lengths {dims} must be numbers, but for the first");
            Err(CallError::new(op, &[&x.uop()?], message, location).into())
        }
    }
}

/// A batch of this shape.
fn batch_of(batch: &Dim, rest: impl IntoIterator<Item = i64>) -> Dims {
    std::iter::once(batch.clone()).chain(rest.into_iter().map(Dim::Const)).collect()
}

impl Tensor {
    /// The values of images [batch, channels, ..] at points: a tensor [batch, points] for each spatial axis, in elements from the middle of the first one.
    /// The result is [batch, channels, points].
    ///
    /// `align_corners` says where mirrors stand: at the middle of the outermost elements, or at their edges.
    #[track_caller]
    pub fn sample_at(&self, points: &[Tensor], mode: SampleMode, beyond: Beyond, align_corners: bool) -> Tensor {
        let location = Location::caller();
        let _call = within(location);
        built(sampled(self, points, mode, beyond, align_corners, location))
    }

    /// The values of images [batch, channels, ..] on a grid [batch, .., axes], whose last axis holds a point, the last spatial axis first, from -1 to 1.
    ///
    /// `align_corners` says whether -1 and 1 are the middles of the outermost elements, or their edges.
    #[track_caller]
    pub fn grid_sample(&self, grid: &Tensor, mode: SampleMode, beyond: Beyond, align_corners: bool) -> Tensor {
        let location = Location::caller();
        let _call = within(location);
        built((|| {
            let (batch, image) = batch_and_numbers("grid_sample", self, location)?;
            let (grids, grid_lengths) = batch_and_numbers("grid_sample", grid, location)?;
            let axes = image.len().saturating_sub(1);
            if axes == 0 || grid_lengths.len() != axes + 1 || grids != batch || grid_lengths[axes] != axes as i64 {
                let operands = [self.uop()?, grid.uop()?];
                let message = format!("the grid must be [{batch}, .., {axes}], with {axes} axes between");
                return Err(CallError::new("grid_sample", &operands.each_ref(), message, location).into());
            }
            let count = grid_lengths[..axes].iter().fold(1i64, |count, &length| count.saturating_mul(length));
            let flat = grid.reshape(batch_of(&batch, [count, axes as i64]));
            let point = |axis: usize| {
                let part = flat.narrow(2, (axes - 1 - axis) as i64, 1i64).squeeze(2);
                let length = image[axis + 1] as f64;
                if align_corners { (part + 1.0) * ((length - 1.0) / 2.0) } else { ((part + 1.0) * length - 1.0) / 2.0 }
            };
            let points: Vec<Tensor> = (0..axes).map(point).collect();
            let found = sampled(self, &points, mode, beyond, align_corners, location)?;
            Ok(found.reshape(batch_of(&batch, image[..1].iter().chain(&grid_lengths[..axes]).copied())))
        })())
    }

    /// The grid that affine maps [batch, axes, axes + 1] make for images of these spatial lengths: [batch, .., axes], for [`Tensor::grid_sample`].
    #[track_caller]
    pub fn affine_grid(&self, sizes: impl AxisList, align_corners: bool) -> Tensor {
        let sizes = &sizes.axes()[..];
        let location = Location::caller();
        let _call = within(location);
        built((|| {
            let (batch, shape) = batch_and_numbers("affine_grid", self, location)?;
            let axes = sizes.len();
            if shape.len() != 2 || shape[..] != [axes as i64, axes as i64 + 1] || sizes.iter().any(|&size| size < 1) {
                let message =
                    format!("maps for {axes} axes must be [batch, {axes}, {}], and lengths 1 or more", axes + 1);
                return Err(CallError::new("affine_grid", &[&self.uop()?], message, location).into());
            }
            let dtype = self.dtype()?;
            let line = |axis: usize| {
                let size = sizes[axis] as f64;
                let steps = Tensor::iota(sizes[axis]).cast(dtype);
                let line = match align_corners {
                    true if sizes[axis] == 1 => steps,
                    true => steps * (2.0 / (size - 1.0)) - 1.0,
                    false => (steps * 2.0 + 1.0) / size - 1.0,
                };
                let mut along = vec![1i64; axes];
                along[axis] = sizes[axis];
                line.reshape(along).expand(sizes.to_vec())
            };
            let mut lines: Vec<Tensor> = (0..axes).rev().map(line).collect();
            lines.push(Tensor::ones_of(sizes.to_vec(), dtype));
            let count = sizes.iter().fold(1i64, |count, &length| count.saturating_mul(length));
            let base = Tensor::stack(&lines.iter().collect::<Vec<_>>(), -1).reshape([count, axes as i64 + 1]);
            let result = batch_of(&batch, sizes.iter().chain(&[axes as i64]).copied());
            Ok(base.matmul(&self.transpose(1, 2)).reshape(result))
        })())
    }
}

fn sampled(
    x: &Tensor,
    points: &[Tensor],
    mode: SampleMode,
    beyond: Beyond,
    align_corners: bool,
    location: &'static Location<'static>,
) -> Result<Tensor> {
    let (batch, image) = batch_and_numbers("sample_at", x, location)?;
    let first = points.first().map(|point| batch_and_numbers("sample_at", point, location)).transpose()?;
    let first = first.filter(|(points, _)| *points == batch).map(|(_, counts)| counts).unwrap_or_default();
    if image.len() != points.len() + 1 || first.len() != 1 {
        let message = format!("there must be points [{batch}, ..] for each axis after batch and channels");
        return Err(CallError::new("sample_at", &[&x.uop()?], message, location).into());
    }
    let (channels, count) = (image[0], first[0]);
    let spatial = &image[1..];
    let dtype = if x.dtype()?.is_float() { x.dtype()? } else { DType::F32 };
    // Points are computed in the precision of coordinates, of which halves have too little.
    let wide = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
    let axes: Vec<Taps> = points
        .iter()
        .zip(spatial)
        .map(|(point, &length)| taps(&point.cast(wide), length, mode, beyond, align_corners))
        .collect();
    let flat = x.reshape(batch_of(&batch, [channels, spatial.iter().product::<i64>()]));
    let mut total: Option<Tensor> = None;
    let combinations: usize = axes.iter().map(Vec::len).product();
    for number in 0..combinations {
        let (mut rest, mut index, mut weight) =
            (number, Tensor::zeros_of(batch_of(&batch, [count]), DType::I32), None::<Tensor>);
        for (taps, &length) in axes.iter().zip(spatial) {
            let (at, share) = &taps[rest % taps.len()];
            rest /= taps.len();
            index = index * length + at;
            weight = Some(weight.map_or_else(|| share.clone(), |weight| weight * share));
        }
        let index = index.unsqueeze(1).expand(batch_of(&batch, [channels, count]));
        let mut part = flat.gather(&index, 2).cast(wide);
        if let Some(weight) = weight {
            part = part * weight.unsqueeze(1);
        }
        total = Some(total.map_or_else(|| part.clone(), |total| total + &part));
    }
    Ok(total.map_or_else(|| Tensor::zeros_of(batch_of(&batch, [channels, count]), dtype), |total| total.cast(dtype)))
}

fn taps(point: &Tensor, length: i64, mode: SampleMode, beyond: Beyond, align_corners: bool) -> Taps {
    // A cubic's neighbours go beyond the edge one by one, the other modes' points as they are.
    let point = match (mode, beyond) {
        (SampleMode::Cubic, _) | (_, Beyond::Zeros) => point.clone(),
        (_, Beyond::Border) => point.clamp(Some(0.into()), Some((length - 1).into())),
        (_, Beyond::Reflection) => reflected(point, length, align_corners),
    };
    if mode == SampleMode::Nearest {
        return vec![tap(&point.round(), point.ones_like(), length, beyond, align_corners)];
    }
    let low = point.floor();
    let part = &point - &low;
    let at = |offset: i64, weight: Tensor| tap(&(&low + offset), weight, length, beyond, align_corners);
    if mode == SampleMode::Linear {
        return vec![at(0, 1.0 - &part), at(1, part)];
    }
    (-1..).zip(cubic_shares(&part)).map(|(offset, share)| at(offset, share)).collect()
}

/// What the two elements before and the two after a position count in a cubic polynomial; the position is so far from the nearest before it.
pub(super) fn cubic_shares(part: &Tensor) -> [Tensor; 4] {
    const A: f64 = -0.75;
    let near = |d: &Tensor| ((A + 2.0) * d - (A + 3.0)) * d * d + 1.0;
    let far = |d: &Tensor| ((A * d - 5.0 * A) * d + 8.0 * A) * d - 4.0 * A;
    let rest = 1.0 - part;
    [far(&(part + 1.0)), near(part), near(&rest), far(&(rest + 1.0))]
}

/// A neighbour with its weight: none for what lies beyond an edge of zeros.
fn tap(at: &Tensor, weight: Tensor, length: i64, beyond: Beyond, align_corners: bool) -> (Tensor, Tensor) {
    let at = at.detach();
    let (at, weight) = match beyond {
        Beyond::Zeros => {
            let inside = at.ge(0.0).logical_and(at.le((length - 1) as f64));
            let weight = inside.where_(&weight, 0.0);
            (at, weight)
        }
        Beyond::Border => (at, weight),
        Beyond::Reflection => (reflected(&at, length, align_corners), weight),
    };
    (at.clamp(Some(0.into()), Some((length - 1).into())).cast(DType::I32), weight)
}

/// A point in mirrors that stand at the middles of the outermost elements, or at their edges.
fn reflected(point: &Tensor, length: i64, align_corners: bool) -> Tensor {
    let (low, span) = if align_corners { (0.0, (length - 1) as f64) } else { (-0.5, length as f64) };
    if span <= 0.0 {
        return point * 0.0;
    }
    let distance = (point - low).abs();
    let rounds = (&distance / span).floor();
    let more = &distance - &rounds * span;
    let is_even = (rounds.detach() % 2.0).eq(0.0);
    let found = is_even.where_(&more + low, (span + low) - &more);
    found.clamp(Some(0.into()), Some((length - 1).into()))
}
