//! Complex numbers as pairs of tensors, and numbers on the unit circle.
//!
//! Angles are fractions of a turn, whole turns taken off as integers, so that long transforms lose no digits.

use std::f64::consts::FRAC_PI_2;

use crate::DType;
use crate::tensor::Tensor;

/// Real and imaginary parts, of one shape and type.
#[derive(Clone)]
pub(super) struct Complex {
    pub(super) re: Tensor,
    pub(super) im: Tensor,
}

/// Cosine and sine of so many parts of a turn: exact at its quarters, and by the same numbers in each of its eighths.
pub(super) fn direction(part: i64, turn: i64) -> (f64, f64) {
    let (part, turn) = (i128::from(part.rem_euclid(turn)), i128::from(turn));
    let quarter = 4 * part / turn;
    let rest = 4 * part - quarter * turn;
    let angle = |rest: i128| rest as f64 / turn as f64 * FRAC_PI_2;
    let (cosine, sine) = if 2 * rest > turn {
        (angle(turn - rest).sin(), angle(turn - rest).cos())
    } else {
        (angle(rest).cos(), angle(rest).sin())
    };
    match quarter {
        0 => (cosine, sine),
        1 => (-sine, cosine),
        2 => (-cosine, -sine),
        _ => (sine, -cosine),
    }
}

/// Numbers on the unit circle, by their angles: each so many of `turn` parts of a turn, counted backwards where `sign` is -1.
pub(super) fn circle(parts: impl Iterator<Item = i64>, turn: i64, sign: f64, shape: Vec<i64>, dtype: DType) -> Complex {
    let (cosines, sines): (Vec<f64>, Vec<f64>) = parts.map(|part| direction(part, turn)).unzip();
    let sines: Vec<f64> = sines.into_iter().map(|sine| sign * sine).collect();
    let table = |values: Vec<f64>| match dtype {
        DType::F64 => Tensor::table(values, shape.clone()),
        _ => Tensor::table(values.into_iter().map(|value| value as f32).collect::<Vec<f32>>(), shape.clone()),
    };
    Complex { re: table(cosines), im: table(sines) }
}

impl Complex {
    /// The same done to both parts.
    pub(super) fn each(&self, change: impl Fn(&Tensor) -> Tensor) -> Complex {
        Complex { re: change(&self.re), im: change(&self.im) }
    }

    /// A product, of elements or of matrices.
    pub(super) fn by(&self, other: &Complex, product: impl Fn(&Tensor, &Tensor) -> Tensor) -> Complex {
        let re = product(&self.re, &other.re) - product(&self.im, &other.im);
        Complex { re, im: product(&self.re, &other.im) + product(&self.im, &other.re) }
    }

    pub(super) fn plus(&self, other: &Complex) -> Complex {
        Complex { re: &self.re + &other.re, im: &self.im + &other.im }
    }

    pub(super) fn minus(&self, other: &Complex) -> Complex {
        Complex { re: &self.re - &other.re, im: &self.im - &other.im }
    }

    pub(super) fn conjugate(&self) -> Complex {
        Complex { re: self.re.clone(), im: -&self.im }
    }

    /// Turned by an angle: without a multiplication at quarters of a turn, and with two at eighths.
    pub(super) fn turned(&self, part: i64, turn: i64, sign: f64) -> Complex {
        let (cosine, sine) = direction(part, turn);
        let sine = sign * sine;
        let (re, im) = (&self.re, &self.im);
        if sine == 0.0 {
            return if cosine > 0.0 { self.clone() } else { self.each(|part| -part) };
        }
        if cosine == 0.0 {
            return if sine > 0.0 { Complex { re: -im, im: re.clone() } } else { Complex { re: im.clone(), im: -re } };
        }
        if cosine.abs() == sine.abs() {
            // c (1 + i) (re + i im), or with the signs that the eighth has.
            let (sum, difference) = ((re + im) * cosine, (re - im) * cosine);
            return if cosine == sine {
                Complex { re: difference, im: sum }
            } else {
                Complex { re: sum, im: -difference }
            };
        }
        Complex { re: re * cosine - im * sine, im: re * sine + im * cosine }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_on_the_circle_are_turned_exactly_at_quarters_and_eighths() {
        let start = Complex { re: Tensor::table(vec![3.0], vec![1]), im: Tensor::table(vec![-2.0], vec![1]) };
        for (part, turn) in [(0, 8), (1, 8), (2, 8), (3, 8), (4, 8), (5, 8), (6, 8), (7, 8), (1, 3), (5, 16)] {
            for sign in [1.0, -1.0] {
                let found = start.turned(part, turn, sign);
                let (cosine, sine) = direction(part, turn);
                let wanted = [3.0 * cosine + 2.0 * sign * sine, 3.0 * sign * sine - 2.0 * cosine];
                let found = [found.re.item::<f64>().unwrap(), found.im.item::<f64>().unwrap()];
                assert!(found.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 1e-15), "{part} of {turn}, {sign}");
            }
        }
    }
}
