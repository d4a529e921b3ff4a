//! Transforms of real numbers, whose second half mirrors the first: an even number of them is transformed as half as many complex numbers.
//!
//! With `z[j] = x[2 j] + i x[2 j + 1]` and `m = n / 2`, the spectrum of the even indices is `(Z[k] + conj Z[m - k]) / 2`, that of the odd ones
//! `(Z[k] - conj Z[m - k]) / 2 i`, and the whole is even + odd turned by k of n parts (Press et al., *Numerical Recipes*, 12.3).
//! All here lies along the last axis but one.

use warpweft_compiler::ir::{Dim, Shape};

use super::complex::{Complex, circle};
use super::passes::transformed;
use crate::tensor::{Result, Tensor};

const AXIS: i64 = -2;

/// The first n / 2 + 1 numbers of the spectrum of n real ones.
pub(super) fn half_of_real(x: &Tensor, n: i64) -> Result<Complex> {
    let half = n / 2 + 1;
    if n % 2 == 1 {
        let whole = transformed(&Complex { re: x.clone(), im: x.zeros_like() }, n, -1.0)?;
        return Ok(whole.each(|part| part.narrow(AXIS, 0, half)));
    }
    let m = n / 2;
    let pairs = x.unflatten(AXIS, [m, 2]);
    let of = |index: i64| pairs.narrow(AXIS, index, 1).squeeze([AXIS]);
    // What lies two apart is brought together once, and not by each load of a butterfly.
    let z = transformed(&Complex { re: of(0), im: of(1) }.each(Tensor::contiguous), m, -1.0)?;
    let first = z.each(|part| part.narrow(AXIS, 0, 1));
    let (start, end) = (&first.re + &first.im, &first.re - &first.im);
    if m == 1 {
        let re = Tensor::cat(&[&start, &end], AXIS);
        return Ok(Complex { im: re.zeros_like(), re });
    }
    let ahead = z.each(|part| part.narrow(AXIS, 1, m - 1));
    let behind = ahead.each(|part| part.flip([AXIS])).conjugate();
    let even = ahead.plus(&behind);
    let odd = ahead.minus(&behind).turned(1, 4, -1.0);
    let waves = circle(1..m, n, -1.0, vec![m - 1, 1], x.dtype()?);
    let inside = even.plus(&odd.by(&waves, |a, b| a * b)).each(|part| part * 0.5);
    // Apart from what follows, which may ask for both ends at once, or for parts beside one another.
    let re = Tensor::cat(&[&start, &inside.re, &end], AXIS).contiguous();
    let im = with_edges(&inside.im)?.contiguous();
    Ok(Complex { re, im })
}

/// With a zero at both ends.
fn with_edges(x: &Tensor) -> Result<Tensor> {
    let padding: Vec<(i64, i64)> = (2..x.rank()?).map(|_| (0, 0)).chain([(1, 1), (0, 0)]).collect();
    Ok(x.pad(&padding))
}

/// All n numbers of a spectrum of real ones, from the first half.
pub(super) fn whole_of_half(half: &Complex, n: i64) -> Complex {
    let count = n - (n / 2 + 1);
    let mirrored = half.each(|part| part.narrow(AXIS, 1, count).flip([AXIS])).conjugate();
    Complex { re: Tensor::cat(&[&half.re, &mirrored.re], AXIS), im: Tensor::cat(&[&half.im, &mirrored.im], AXIS) }
}

/// The n real numbers of which this is half of the spectrum, times n. Imaginary parts of the ends, which real numbers do not have, count for nothing.
pub(super) fn real_of_half(half: &Complex, n: i64) -> Result<Tensor> {
    if n % 2 == 1 {
        return Ok(transformed(&whole_of_half(half, n), n, 1.0)?.re);
    }
    let m = n / 2;
    let half = Complex { re: half.re.clone(), im: with_edges(&half.im.narrow(AXIS, 1, m - 1))? };
    let ahead = half.each(|part| part.narrow(AXIS, 0, m));
    let behind = half.each(|part| part.narrow(AXIS, 1, m).flip([AXIS])).conjugate();
    let odd = ahead.minus(&behind).by(&circle(0..m, n, 1.0, vec![m, 1], half.re.dtype()?), |a, b| a * b);
    let z = ahead.plus(&behind).plus(&odd.turned(1, 4, 1.0)).each(Tensor::contiguous);
    let z = transformed(&z, m, 1.0)?;
    let dims = z.re.dims()?;
    let (lead, inner) = (&dims[..dims.len() - 2], dims[dims.len() - 1].clone());
    let whole: Shape = lead.iter().cloned().chain([Dim::Const(n), inner]).collect();
    Ok(Tensor::stack(&[&z.re, &z.im], lead.len() as i64 + 1).reshape(whole))
}
