//! Images of another size: each axis is resampled in turn, as PyTorch's `interpolate` does.

use super::elementwise::{floor, maximum, minimum};
use super::shapes::{check_size, concrete_last};
use super::{Built, broadcast_to, fail, to_float};
use crate::dtype::lattice::accumulate;
use crate::ir::{Dim, Shape};
use crate::{DType, UOp};

/// How a value between elements is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resize {
    /// The element that the lower end of the new one falls into.
    Nearest,
    /// The element that the middle of the new one falls into.
    NearestExact,
    /// A straight line between the two neighbours, along each axis (bilinear, trilinear).
    Linear {
        /// Whether the outermost elements stay where they are.
        align_corners: bool,
    },
}

/// x [batch, channels, ..] with the given lengths of its last axes.
pub fn interpolate(x: &UOp, sizes: &[i64], mode: Resize) -> Built {
    let rank = x.shape().len();
    if sizes.is_empty() || rank < sizes.len() {
        fail!("{} sizes for {}", sizes.len(), x.shape());
    }
    let lengths = concrete_last(x, sizes.len())?;
    let first = rank - sizes.len();
    let result: Shape = x.shape()[..first].iter().cloned().chain(sizes.iter().map(|&size| Dim::Const(size))).collect();
    check_size(&result)?;
    let mut image = if matches!(mode, Resize::Linear { .. }) { to_float(x) } else { x.clone() };
    for (k, &size) in sizes.iter().enumerate() {
        if size < 1 || lengths[first + k] < 1 {
            fail!("axis {} cannot go from {} to {size} elements", first + k, lengths[first + k]);
        }
        image = resize_axis(&image, first + k, lengths[first + k], size, mode)?;
    }
    Ok(image)
}

fn resize_axis(x: &UOp, axis: usize, from: i64, to: i64, mode: Resize) -> Built {
    if from == to {
        return Ok(x.clone());
    }
    // Places are computed in the precision that PyTorch computes them in.
    let dtype = if x.dtype() == DType::F64 { DType::F64 } else { DType::F32 };
    let constant = |value: f64| UOp::float(value, dtype);
    let place = UOp::iota(to).cast(dtype);
    let ratio = constant(from as f64 / to as f64);
    let index = |place: &UOp| -> Built {
        let clipped = minimum(&maximum(place, &constant(0.0))?, &constant((from - 1) as f64))?;
        Ok(clipped.cast(DType::I32))
    };
    let align = match mode {
        Resize::Nearest => return Ok(x.gather(&index(&floor(&(place * ratio)))?, axis)),
        Resize::NearestExact => {
            return Ok(x.gather(&index(&floor(&((place + constant(0.5)) * ratio)))?, axis));
        }
        Resize::Linear { align_corners } => align_corners,
    };
    let source = if align {
        let step = if to > 1 { (from - 1) as f64 / (to - 1) as f64 } else { 0.0 };
        place * constant(step)
    } else {
        maximum(&((place + constant(0.5)) * ratio - constant(0.5)), &constant(0.0))?
    };
    let low = floor(&source);
    let weight = &source - &low;
    let mut line = vec![Dim::Const(1); x.shape().len()];
    line[axis] = to.into();
    let wide = accumulate(x.dtype());
    let below = x.gather(&index(&low)?, axis).cast(wide);
    let above = x.gather(&index(&(low + constant(1.0)))?, axis).cast(wide);
    let weight = broadcast_to(&weight.cast(wide).reshape(line), below.shape())?;
    let rest = UOp::float(1.0, wide) - &weight;
    Ok((below * rest + above * weight).cast(x.dtype()))
}
