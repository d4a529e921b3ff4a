//! Transforms of any length as a convolution (Bluestein), by transforms of a power of two; of lengths that are variables, too.
//!
//! With w_j half the angle of j^2, the product j k is (j^2 + k^2 - (j - k)^2) / 2: a convolution with w, between two products with it.
//! All here lies along the last axis.

use warpweft_compiler::ir::Dim;

use super::complex::{Complex, circle};
use super::passes::transformed;
use crate::DType;
use crate::tensor::{Result, Tensor};

/// The power of two in which a convolution of n numbers with 2 n - 1 others does not meet itself.
fn length_for(n: i64) -> i64 {
    u64::try_from(2 * n - 1).unwrap_or(1).next_power_of_two() as i64
}

fn along_last(x: &Complex, n: i64, sign: f64) -> Result<Complex> {
    Ok(transformed(&x.each(|part| part.unsqueeze(-1)), n, sign)?.each(|part| part.squeeze([-1])))
}

/// The convolution of padded numbers with a chirp, both of the same power of two; then the first n of it.
fn convolved(begun: &Complex, other: &Complex, length: i64, n: Dim) -> Result<Complex> {
    let spectrum = along_last(begun, length, -1.0)?.by(&along_last(other, length, -1.0)?, |a, b| a * b);
    let found = along_last(&spectrum.each(Tensor::contiguous), length, 1.0)?;
    Ok(found.each(|part| part.narrow(-1, 0, n.clone()) / length as f64))
}

fn padded(x: &Complex, count: Dim) -> Result<Complex> {
    let none = || (Dim::Const(0), Dim::Const(0));
    let padding: Vec<(Dim, Dim)> = (1..x.re.rank()?).map(|_| none()).chain([(Dim::Const(0), count)]).collect();
    Ok(x.each(|part| part.pad(&padding)))
}

/// The transform of n numbers along the last axis.
pub(super) fn chirped(x: &Complex, n: i64, sign: f64) -> Result<Complex> {
    let (length, dtype) = (length_for(n), x.re.dtype()?);
    let square = |j: i64| (i128::from(j) * i128::from(j) % (2 * i128::from(n))) as i64;
    let chirp = circle((0..n).map(square), 2 * n, sign, vec![n], dtype);
    let mirrored = (0..length).map(|j| if j < n { j } else { length - j });
    // What lies between is multiplied by zeros of the padding.
    let other = circle(mirrored.map(|j| if j < n { square(j) } else { 0 }), 2 * n, -sign, vec![length], dtype);
    let begun = padded(&x.by(&chirp, |a, b| a * b), Dim::Const(length - n))?;
    Ok(convolved(&begun, &other, length, Dim::Const(n))?.by(&chirp, |a, b| a * b))
}

/// As [`chirped`], of a length that is a variable: chirps are expressions of it, and the length of the transforms is one for all of its values.
pub(super) fn chirped_by_variable(x: &Complex, n: &Dim, sign: f64) -> Result<Complex> {
    let (length, dtype) = (length_for(n.max_value()), x.re.dtype()?);
    let chirp = |positions: &Tensor, sign: f64| {
        let angle = (positions * positions % Tensor::from_dim(n.clone() * 2)).cast(DType::F64)
            * (std::f64::consts::PI / Tensor::from_dim(n.clone()).cast(DType::F64));
        Complex { re: angle.cos(), im: angle.sin() * sign }.each(|part| part.cast(dtype).contiguous())
    };
    let own = chirp(&Tensor::iota(n.clone()).cast(DType::I64), sign);
    // Mirrored; what lies between is multiplied by zeros of the padding.
    let positions = Tensor::iota(length).cast(DType::I64);
    let other = chirp(&positions.minimum(length - &positions), -sign);
    let begun = padded(&x.by(&own, |a, b| a * b), Dim::Const(length) - n.clone())?;
    Ok(convolved(&begun, &other, length, n.clone())?.by(&own, |a, b| a * b))
}
