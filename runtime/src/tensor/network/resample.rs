//! An axis of another length: each new element is a weighted sum of old ones, by where it lies among them.
//!
//! Where new elements lie is the caller's choice, in elements of the old axis: so all conventions of corners, crops and scales are one function. Tested by
//! the cases of the ONNX package, and by values of PyTorch (tests/it/samples.rs).

use std::panic::Location;

use crate::DType;
use crate::tensor::errors::{CallError, within};
use crate::tensor::math::order::line_of;
use crate::tensor::{Length, Result, Tensor};
use warpweft_compiler::dtype::{Elements, Scalar};

/// Which elements count for a position between them.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Kernel {
    /// The nearest element.
    Nearest(NearestRounding),
    /// Straight lines between neighbours.
    Linear,
    /// A cubic polynomial of four neighbours, with this coefficient (-0.75 in PyTorch, -0.5 elsewhere).
    Cubic(f64),
}

/// Which element is the nearest to a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NearestRounding {
    /// In the middle the lower one.
    HalfDown,
    /// In the middle the upper one.
    HalfUp,
    /// The one before.
    Floor,
    /// The one after.
    Ceil,
}

/// How an axis is resampled.
///
/// Others may be added: begin with the default (lines between neighbours, as many elements as before), and say what differs.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Resampling {
    /// Which elements count.
    pub kernel: Kernel,
    /// New elements for each old one; below 1 the kernel is stretched if `antialias`.
    pub scale: f64,
    /// Whether all elements count that a smaller image leaves out.
    pub antialias: bool,
    /// Whether elements beyond the edge do not count; else they are those of the edge.
    pub exclude_outside: bool,
}

impl Default for Resampling {
    fn default() -> Resampling {
        Resampling { kernel: Kernel::Linear, scale: 1.0, antialias: false, exclude_outside: false }
    }
}

impl Resampling {
    /// The same with these elements counted.
    pub fn kernel(self, kernel: Kernel) -> Resampling {
        Resampling { kernel, ..self }
    }

    /// The same with so many new elements for each old one.
    pub fn scale(self, scale: f64) -> Resampling {
        Resampling { scale, ..self }
    }

    /// The same with all elements counted that a smaller image leaves out, or not.
    pub fn antialias(self, antialias: bool) -> Resampling {
        Resampling { antialias, ..self }
    }

    /// The same with elements beyond the edge not counted, or as those of the edge.
    pub fn exclude_outside(self, exclude_outside: bool) -> Resampling {
        Resampling { exclude_outside, ..self }
    }
}

/// Elements and weights of one new element.
type Row = Vec<(i64, f64)>;

/// New elements of more old ones than this are a product with a matrix.
const TAPS_MAX: usize = 4;

impl Tensor {
    /// An axis with an element for each of these positions, which lie in elements of the old one, 0 being the middle of the first.
    ///
    /// ```
    /// # use warpweft::Tensor;
    /// # use warpweft::tensor::{Kernel, Resampling};
    /// let x = Tensor::from_vec(vec![0f32, 10.0, 20.0], [3]);
    /// let lines = Resampling::default().kernel(Kernel::Linear).scale(1.0).antialias(false).exclude_outside(false);
    /// assert_eq!(x.resample(0, &[0.5, 1.75, 5.0], &lines).to_vec::<f32>()?, [5.0, 17.5, 20.0]);
    /// # Ok::<(), warpweft::Error>(())
    /// ```
    #[track_caller]
    pub fn resample(&self, axis: impl Length, positions: &[f64], how: &Resampling) -> Tensor {
        let axis = axis.length();
        let location = Location::caller();
        let _call = within(location);
        resampled(self, axis, positions, how, location).unwrap_or_else(Tensor::from_error)
    }
}

/// Beyond these positions there is no element, and floats have no fractions.
const POSITION_MAX: f64 = (1u64 << 52) as f64;
/// An element of the result is made of as many as one has room in another, which are written down.
const SCALE_MIN: f64 = 1.0 / (1 << 20) as f64;

fn resampled(
    x: &Tensor,
    axis: i64,
    positions: &[f64],
    how: &Resampling,
    location: &'static Location<'static>,
) -> Result<Tensor> {
    let (axis, length) = line_of("resample", x, axis, location)?;
    let wrong = match positions.iter().find(|position| position.is_nan() || position.abs() > POSITION_MAX) {
        Some(far) => Some(format!("the position {far} is out of range: positions are numbers from -2^52 to 2^52")),
        None if how.antialias && (how.scale.is_nan() || how.scale < SCALE_MIN) => {
            Some(format!("the scale {} is out of range: it must be 2^-20 or more", how.scale))
        }
        None => None,
    };
    if let Some(message) = wrong {
        return Err(CallError::new("resample", &[&x.uop()?], message, location).into());
    }
    let rows: Vec<Row> = positions.iter().map(|&position| row(position, length, how)).collect();
    let most = rows.iter().map(Vec::len).max().unwrap_or(1);
    let line = |number: usize| {
        let index: Vec<i64> = rows.iter().map(|row| row.get(number).map_or(0, |tap| tap.0)).collect();
        Tensor::table(index, [rows.len()])
    };
    if most == 1 {
        return Ok(x.index_select(axis, &line(0)));
    }
    let dtype = x.dtype()?;
    let wide = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
    let x_wide = x.cast(wide);
    let weights = |values: Vec<f64>, shape: Vec<i64>| {
        let scalars: Vec<Scalar> = values.into_iter().map(|value| Scalar::from_f64(value, wide)).collect();
        let bytes = Elements::from_scalars(wide, &scalars).map(|elements| elements.to_bytes()).unwrap_or_default();
        Tensor::table_of(wide, scalars.len(), &bytes, shape)
    };
    let result = if most <= TAPS_MAX {
        let mut shape = vec![1i64; x.rank()?];
        shape[axis as usize] = rows.len() as i64;
        let part = |number: usize| {
            let values = rows.iter().map(|row| row.get(number).map_or(0.0, |tap| tap.1)).collect();
            x_wide.index_select(axis, &line(number)) * weights(values, shape.clone())
        };
        (1..most).fold(part(0), |sum, number| sum + part(number))
    } else {
        let mut values = vec![0.0; rows.len() * length as usize];
        for (number, row) in rows.iter().enumerate() {
            row.iter().for_each(|(at, weight)| values[*at as usize * rows.len() + number] += weight);
        }
        x_wide.movedim(axis, -1).matmul(&weights(values, vec![length, rows.len() as i64])).movedim(-1, axis)
    };
    Ok(if dtype.is_float() { result.cast(dtype) } else { result.round().cast(dtype) })
}

/// What the element at a position is made of.
fn row(position: f64, length: i64, how: &Resampling) -> Row {
    let clamped = |at: f64| (at as i64).clamp(0, length - 1);
    let stretch = if how.antialias { (1.0 / how.scale).max(1.0) } else { 1.0 };
    let (support, weight): (f64, Box<dyn Fn(f64) -> f64>) = match how.kernel {
        Kernel::Nearest(rounding) => {
            let at = match rounding {
                NearestRounding::HalfDown => (position - 0.5).ceil(),
                NearestRounding::HalfUp => (position + 0.5).floor(),
                NearestRounding::Floor => position.floor(),
                NearestRounding::Ceil => position.ceil(),
            };
            return vec![(clamped(at), 1.0)];
        }
        Kernel::Linear => (1.0, Box::new(|distance: f64| (1.0 - distance).max(0.0))),
        Kernel::Cubic(a) => (
            2.0,
            Box::new(move |d: f64| match d {
                d if d <= 1.0 => ((a + 2.0) * d - (a + 3.0)) * d * d + 1.0,
                d if d < 2.0 => ((a * d - 5.0 * a) * d + 8.0 * a) * d - 4.0 * a,
                _ => 0.0,
            }),
        ),
    };
    let low = position.floor();
    let reach = support * stretch;
    // All neighbours whose weights are not zero; without stretching as many as the kernel has.
    let (first, last) = match stretch > 1.0 {
        true => ((position - reach).floor() as i64, (position + reach).ceil() as i64),
        false => (low as i64 - support as i64 + 1, low as i64 + support as i64),
    };
    let mut found: Row = Vec::new();
    for at in first..=last {
        let share = weight((at as f64 - position).abs() / stretch);
        if how.exclude_outside && !(0..length).contains(&at) {
            continue;
        }
        if share != 0.0 || stretch == 1.0 {
            found.push((at.clamp(0, length - 1), share));
        }
    }
    let total: f64 = found.iter().map(|tap| tap.1).sum();
    if (how.exclude_outside || stretch > 1.0) && total != 0.0 {
        found.iter_mut().for_each(|tap| tap.1 /= total);
    }
    if found.is_empty() { vec![(clamped(position), 1.0)] } else { found }
}
