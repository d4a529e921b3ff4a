//! Images of another size: each axis is resampled in turn, as PyTorch's `interpolate` does.

use crate::dtype::lattice::accumulate;
use crate::ir::{Dim, Shape};
use crate::ops::elementwise::{floor, maximum, minimum};
use crate::ops::shapes::check_size;
use crate::ops::{Built, broadcast_to, fail, to_float};
use crate::view::dims::{same, simplified};
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

/// x [batch, channels, ..] with the given lengths of its last axes, which may be symbolic before and after.
pub fn interpolate(x: &UOp, sizes: &[Dim], mode: Resize) -> Built {
    let rank = x.shape().len();
    if sizes.is_empty() || rank < sizes.len() {
        fail!("{} sizes for {}", sizes.len(), x.shape());
    }
    let first = rank - sizes.len();
    let result: Shape = x.shape()[..first].iter().chain(sizes).cloned().collect();
    check_size(&result)?;
    let mut image = if matches!(mode, Resize::Linear { .. }) { to_float(x) } else { x.clone() };
    for (k, size) in sizes.iter().enumerate() {
        let from = &x.shape()[first + k];
        if size.min_value() < 1 || from.min_value() < 1 {
            fail!("axis {} cannot go from {from} to {size} elements", first + k);
        }
        image = resize_axis(&image, first + k, from, size, mode)?;
    }
    Ok(image)
}

/// `a / b`, with as many digits as a number of this type has.
fn ratio(a: &Dim, b: &Dim, dtype: DType) -> UOp {
    match (a.as_const(), b.as_const()) {
        (Some(a), Some(b)) => UOp::float(a as f64 / b as f64, dtype),
        _ => a.to_uop().cast(dtype).div(b.to_uop().cast(dtype)),
    }
}

fn resize_axis(x: &UOp, axis: usize, from: &Dim, to: &Dim, mode: Resize) -> Built {
    if same(from, to) {
        return Ok(x.clone());
    }
    // Positions are computed in the precision that PyTorch computes them in.
    let dtype = if x.dtype() == DType::F64 { DType::F64 } else { DType::F32 };
    let constant = |value: f64| UOp::float(value, dtype);
    let position = UOp::iota(to.clone()).cast(dtype);
    let scale = ratio(from, to, dtype);
    let last = (from - 1).to_uop().cast(dtype);
    let index = |position: &UOp| -> Built {
        let clipped = minimum(&maximum(position, &constant(0.0))?, &last)?;
        Ok(clipped.cast(DType::I32))
    };
    let align = match mode {
        Resize::Nearest => return Ok(x.gather(&index(&floor(&(position * scale)))?, axis)),
        Resize::NearestExact => {
            return Ok(x.gather(&index(&floor(&((position + constant(0.5)) * scale)))?, axis));
        }
        Resize::Linear { align_corners } => align_corners,
    };
    let source = if align {
        // The one position of a single element is 0, whatever is divided by.
        let steps = if to.max_value() > 1 { simplified(to - 1) } else { Dim::Const(1) };
        let steps = if steps.min_value() < 1 { Dim::from(steps.to_uop().max(UOp::index(1))) } else { steps };
        position * ratio(&simplified(from - 1), &steps, dtype)
    } else {
        maximum(&((position + constant(0.5)) * scale - constant(0.5)), &constant(0.0))?
    };
    let low = floor(&source);
    let weight = &source - &low;
    let mut line = vec![Dim::Const(1); x.shape().len()];
    line[axis] = to.clone();
    let wide = accumulate(x.dtype());
    let below = x.gather(&index(&low)?, axis).cast(wide);
    let above = x.gather(&index(&(low + constant(1.0)))?, axis).cast(wide);
    let weight = broadcast_to(&weight.cast(wide).reshape(line), below.shape())?;
    let rest = UOp::float(1.0, wide) - &weight;
    Ok((below * rest + above * weight).cast(x.dtype()))
}
