//! Transforms by passes, one for each factor of the length (Stockham's order: C. Van Loan, *Computational Frameworks for the Fast Fourier Transform*, 1992, 1.7).
//!
//! For example 200 x 1024 numbers: a length of 1024 is 8 x 8 x 4 x 4. The first pass sees 8 x 128 numbers of each row, adds up eight that lie 128 apart in
//! eight ways (a *butterfly*), turns the results by their angles (*twiddles*), and stores the eight beside one another, so that the next pass sees 8 x 16 rows
//! of 8 numbers. A pass reads along lines and computes a butterfly in registers; it is one kernel, and others for sums that several
//! of its results share and for the copy behind a first pass (`SHORT`). After the last pass all is in its natural order.
//!
//! Words: a pass sees `[.., p, q, inner]` and stores `[.., q, p, inner]`; `p` is its factor, `q` what is left of the length, `inner` what passes before and axes
//! behind have made. Factors up to [`BUTTERFLY_MAX`] are butterflies, up to [`DIRECT_MAX`] products with the matrix of waves, and longer primes become a
//! convolution (`chirp`), so time grows as n log n for every n.

use warpweft_compiler::ir::{Dim, Shape};

use super::chirp::chirped;
use super::complex::{Complex, circle, direction};
use crate::DType;
use crate::tensor::{Result, Tensor};

/// The longest odd factor whose sums are written out: their number grows with its square.
const BUTTERFLY_MAX: i64 = 7;
/// The longest factor that is a product with a matrix.
const DIRECT_MAX: i64 = 64;

/// So few numbers that lie beside one another are stored one by one: then sums are stored along the lines that they are computed along, and turned by a copy.
const SHORT: i64 = 4;

/// The factors of a length, each for one pass. Of powers of two eights, whose sums need no more than the registers, and fours where eights leave a two.
fn factors(n: i64) -> Vec<i64> {
    let twos = n.trailing_zeros() as usize;
    let (eights, fours, single) = match twos % 3 {
        0 => (twos / 3, 0, 0),
        1 if twos > 1 => (twos / 3 - 1, 2, 0),
        1 => (0, 0, 1),
        _ => (twos / 3, 1, 0),
    };
    let mut found = [vec![8; eights], vec![4; fours], vec![2; single]].concat();
    let (mut left, mut prime) = (n >> twos, 3);
    while prime * prime <= left {
        while left % prime == 0 {
            found.push(prime);
            left /= prime;
        }
        prime += 2;
    }
    if left > 1 {
        found.push(left);
    }
    found
}

/// The transform of n numbers that lie along the last axis but one.
pub(super) fn transformed(x: &Complex, n: i64, sign: f64) -> Result<Complex> {
    let (mut x, mut left) = (x.clone(), n);
    for p in factors(n) {
        left /= p;
        x = pass(&x, p, left, sign)?;
    }
    let dims = x.re.dims()?;
    let (lead, inner) = (&dims[..dims.len() - 2], dims[dims.len() - 1].clone() / n);
    let whole = shape(lead, &[Dim::Const(n), inner]);
    Ok(x.each(|part| part.reshape(whole.clone())))
}

fn shape(lead: &[Dim], last: &[Dim]) -> Shape {
    lead.iter().chain(last).cloned().collect()
}

/// Of `[.., p q, inner]` numbers the sums over p, turned, as `[.., q, p inner]`.
fn pass(x: &Complex, p: i64, q: i64, sign: f64) -> Result<Complex> {
    let dims = x.re.dims()?;
    let (lead, inner) = (&dims[..dims.len() - 2], &dims[dims.len() - 1]);
    let dtype = x.re.dtype()?;
    let cut = shape(lead, &[Dim::Const(p), Dim::Const(q), inner.clone()]);
    let x = x.each(|part| part.reshape(cut.clone()));
    let twiddles =
        (q > 1).then(|| circle((0..p).flat_map(|k| (0..q).map(move |j| k * j)), p * q, sign, vec![p, q, 1], dtype));
    let axis = lead.len() as i64;
    let is_butterfly = p <= BUTTERFLY_MAX || p % 2 == 0;
    let turned = if is_butterfly {
        let part = |x: &Complex, axis: i64, index: i64| x.each(|part| part.narrow(axis, index, 1).squeeze([axis]));
        let given: Vec<Complex> = (0..p).map(|index| part(&x, axis, index)).collect();
        let mut sums = butterfly(&given, sign);
        if let Some(twiddles) = &twiddles {
            for (index, sum) in sums.iter_mut().enumerate().skip(1) {
                *sum = sum.by(&part(twiddles, 0, index as i64), |a, b| a * b);
            }
        }
        let is_short = inner.as_const().is_some_and(|inner| inner < SHORT);
        let beside = |of: fn(&Complex) -> &Tensor| {
            let sums: Vec<&Tensor> = sums.iter().map(of).collect();
            if is_short && q > 1 {
                Tensor::stack(&sums, axis).contiguous().transpose(axis, axis + 1)
            } else {
                Tensor::stack(&sums, axis + 1)
            }
        };
        Complex { re: beside(|sum| &sum.re), im: beside(|sum| &sum.im) }
    } else {
        let lines = shape(lead, &[Dim::Const(p), inner.clone() * q]);
        let lines = x.each(|part| part.reshape(lines.clone()));
        let sums = if p <= DIRECT_MAX { direct(&lines, p, sign, dtype) } else { by_chirp(&lines, p, sign)? };
        let sums = sums.each(|part| part.reshape(cut.clone()));
        let sums = twiddles.map_or(sums.clone(), |twiddles| sums.by(&twiddles, |a, b| a * b));
        sums.each(|part| part.transpose(axis, axis + 1))
    };
    let stored = shape(lead, &[Dim::Const(q), inner.clone() * p]);
    Ok(turned.each(|part| part.contiguous().reshape(stored.clone())))
}

/// All sums of a few numbers, each turned by its own angle: `y[k]` adds up `x[j]` turned by `j k` parts of the turn.
fn butterfly(x: &[Complex], sign: f64) -> Vec<Complex> {
    let n = x.len() as i64;
    if n == 1 {
        return x.to_vec();
    }
    if n % 2 == 0 {
        let of = |start: usize| butterfly(&x.iter().skip(start).step_by(2).cloned().collect::<Vec<_>>(), sign);
        let (even, odd) = (of(0), of(1));
        let odd: Vec<Complex> = odd.iter().zip(0..).map(|(sum, k)| sum.turned(k, n, sign)).collect();
        let pairs = || even.iter().zip(&odd);
        return pairs().map(|(a, b)| a.plus(b)).chain(pairs().map(|(a, b)| a.minus(b))).collect();
    }
    // x[j] and x[n - j] are turned by opposite angles: their sum by the cosine, their difference by the sine.
    let pairs: Vec<(Complex, Complex)> =
        (1..x.len().div_ceil(2)).map(|j| (x[j].plus(&x[x.len() - j]), x[j].minus(&x[x.len() - j]))).collect();
    let mut found = vec![pairs.iter().fold(x[0].clone(), |sum, (both, _)| sum.plus(both)); x.len()];
    for k in 1..x.len().div_ceil(2) {
        let along = |j: i64| direction(j * k as i64, n);
        let (mut straight, mut across) = (x[0].clone(), None::<Complex>);
        for ((both, apart), j) in pairs.iter().zip(1..) {
            let (cosine, sine) = along(j);
            straight = straight.plus(&both.each(|part| part * cosine));
            let part = apart.each(|part| part * (sign * sine));
            across = Some(across.map_or(part.clone(), |sum| sum.plus(&part)));
        }
        // i times the differences.
        let across = across.map_or(straight.clone(), |sum| sum.turned(1, 4, 1.0));
        found[k] = straight.plus(&across);
        found[x.len() - k] = straight.minus(&across);
    }
    found
}

/// A product with the matrix of waves.
fn direct(x: &Complex, n: i64, sign: f64, dtype: DType) -> Complex {
    let waves = circle((0..n).flat_map(|j| (0..n).map(move |k| j * k)), n, sign, vec![n, n], dtype);
    waves.by(x, |a, b| a.matmul(b))
}

fn by_chirp(x: &Complex, n: i64, sign: f64) -> Result<Complex> {
    Ok(chirped(&x.each(Tensor::t), n, sign)?.each(Tensor::t))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_are_eights_and_primes() {
        for (n, wanted) in [
            (1, &[][..]),
            (2, &[2]),
            (16, &[4, 4]),
            (1024, &[8, 8, 4, 4]),
            (2048, &[8, 8, 8, 4]),
            (1000, &[8, 5, 5, 5]),
            (2 * 3 * 67, &[2, 3, 67]),
        ] {
            assert_eq!(factors(n), wanted, "{n}");
        }
        for n in 1..500 {
            assert_eq!(factors(n).iter().product::<i64>(), n);
        }
    }

    #[test]
    fn transforms_are_sums_of_waves_whatever_the_factors() {
        for n in [1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 21, 22, 32, 34, 49, 67, 77, 130, 134] {
            for (inner, sign) in [(1, -1.0), (3, 1.0)] {
                let count = (n * inner) as usize;
                let values = |seed: usize| (0..count).map(|at| ((at * seed) % 17) as f64 - 8.0).collect::<Vec<f64>>();
                let (re, im) = (values(5), values(11));
                let table = |values: &[f64]| Tensor::table(values.to_vec(), vec![n, inner]);
                let found = transformed(&Complex { re: table(&re), im: table(&im) }, n, sign).unwrap();
                let (found_re, found_im) = (found.re.to_vec::<f64>().unwrap(), found.im.to_vec::<f64>().unwrap());
                for at in 0..count as i64 {
                    let (k, column) = (at / inner, at % inner);
                    let (mut wanted_re, mut wanted_im) = (0.0, 0.0);
                    for j in 0..n {
                        let ((cosine, sine), from) = (direction(j * k, n), (j * inner + column) as usize);
                        wanted_re += re[from] * cosine - sign * im[from] * sine;
                        wanted_im += sign * re[from] * sine + im[from] * cosine;
                    }
                    let far = (found_re[at as usize] - wanted_re).abs() + (found_im[at as usize] - wanted_im).abs();
                    assert!(far < 1e-10 * n as f64, "{n} x {inner}, sign {sign}, {at}: {far}");
                }
            }
        }
    }
}
