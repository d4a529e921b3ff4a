//! Fourier transforms, windows of signals, and the matrix of the mel scale.

use super::super::call::{Call, Done, lengths, one, resolve, within};
use super::super::error::{Failure, wrong};
use super::Op;
use super::create::numbers;
use crate::DType;
use crate::tensor::Tensor;

// tidy: table
pub(super) const OPS: &[(&str, Op)] = &[
    ("BlackmanWindow", |call| window(call, &[0.42, -0.5, 0.08])),
    ("DFT", dft),
    ("HammingWindow", |call| window(call, &[25.0 / 46.0, -21.0 / 46.0])),
    ("HannWindow", |call| window(call, &[0.5, -0.5])),
    ("MelWeightMatrix", mel),
    ("STFT", stft),
];

/// A window that is a sum of cosines of multiples of one turn.
fn window(call: &Call<'_>, factors: &[f64]) -> Done {
    let size = call.integer(0)?;
    if !(0..=1 << 24).contains(&size) {
        wrong!("the size is {size}, and must be 0 or more");
    }
    let dtype = call.dtype_or("output_datatype", DType::F32)?;
    one(Tensor::cosine_window(size, factors, call.int_or("periodic", 1)? != 0).cast(dtype))
}

/// The parts of numbers whose last axis holds the real part and, if it is 2 long, the imaginary one.
fn parts(x: &Tensor) -> Result<(Tensor, Option<Tensor>), Failure> {
    match lengths(x)?.last() {
        Some(1) => Ok((x.squeeze(-1), None)),
        Some(2) => Ok((x.narrow(-1, 0i64, 1i64).squeeze(-1), Some(x.narrow(-1, 1i64, 1i64).squeeze(-1)))),
        other => wrong!("the last axis holds a real part, or that and an imaginary one, and is {other:?} long"),
    }
}

/// An axis cut off or filled with zeros to a length.
fn fitted(x: &Tensor, axis: usize, length: i64) -> Result<Tensor, Failure> {
    let own = lengths(x)?;
    let mut padding = vec![(0i64, 0i64); own.len()];
    padding[axis] = (0, length - own[axis]);
    Ok(if own[axis] == length { x.clone() } else { x.pad(&padding) })
}

fn dft(call: &Call<'_>) -> Done {
    let x = call.tensor(0)?;
    let rank = x.rank()?;
    let axis = match call.has(2) {
        true => call.integer(2)?,
        false => call.int_or("axis", if call.version < 20 { 1 } else { -2 })?,
    };
    let axis = resolve(axis, rank)?;
    if axis + 1 == rank {
        wrong!("axis {axis} is that of real and imaginary parts, and must be another one");
    }
    let (inverse, onesided) = (call.flag("inverse")?, call.flag("onesided")?);
    let own = call.lengths(0)?[axis];
    let length = match call.has(1) {
        true => within(call.integer(1)?),
        false if inverse && onesided => 2 * (own - 1),
        false => own,
    };
    if length < 1 {
        wrong!("a transform of {length} elements: it must have 1 or more");
    }
    let given = if inverse && onesided { length / 2 + 1 } else { length };
    let (real, imaginary) = parts(&fitted(x, axis, given)?)?;
    if inverse && onesided {
        let imaginary = imaginary.unwrap_or_else(|| real.zeros_like());
        return one(Tensor::irfft(&real, &imaginary, axis as i64, length).unsqueeze(-1));
    }
    let (real, imaginary) = Tensor::dft(&real, imaginary.as_ref(), axis as i64, inverse);
    let both = Tensor::stack(&[&real, &imaginary], -1);
    one(if onesided { both.narrow(axis as i64, 0i64, length / 2 + 1) } else { both })
}

fn stft(call: &Call<'_>) -> Done {
    let (signal, step) = (call.tensor(0)?, call.integer(1)?);
    let length = match (call.has(3), call.has(2)) {
        (true, _) => within(call.integer(3)?),
        (false, true) => call.lengths(2)?.first().copied().unwrap_or(0),
        (false, false) => wrong!("there must be a window or a length of frames"),
    };
    if step < 1 || length < 1 {
        wrong!("frames of {length} elements every {step}: both must be 1 or more");
    }
    let signal = if signal.rank()? == 2 { signal.unsqueeze(-1) } else { signal.clone() };
    let (real, imaginary) = parts(&signal)?;
    let frames = |x: &Tensor| -> Result<Tensor, Failure> {
        let frames = x.unfold(1, length, step);
        Ok(match call.optional(2)? {
            Some(window) => frames * fitted(window, 0, length)?,
            None => frames,
        })
    };
    let other = imaginary.as_ref().map(frames).transpose()?;
    let (re, im) = Tensor::dft(&frames(&real)?, other.as_ref(), 2, false);
    let both = Tensor::stack(&[&re, &im], -1);
    let onesided = call.int_or("onesided", 1)? != 0 && imaginary.is_none();
    one(if onesided { both.narrow(2, 0i64, length / 2 + 1) } else { both })
}

/// Triangles over the bins of a spectrum, at frequencies that are even on the mel scale.
fn mel(call: &Call<'_>) -> Done {
    let (bins, length, rate) = (call.integer(0)?, call.integer(1)?, call.integer(2)?);
    let (low, high) = (call.float(3)?, call.float(4)?);
    if !(1..=1 << 12).contains(&bins) || !(1..=1 << 16).contains(&length) || rate < 1 {
        wrong!("{bins} bins, {length} elements and a rate of {rate}: all must be 1 or more");
    }
    let to_mel = |hertz: f64| 2595.0 * (1.0 + hertz / 700.0).log10();
    let (first, last) = (to_mel(low), to_mel(high));
    let step = (last - first) / (bins + 2) as f64;
    let rows = length / 2 + 1;
    let row_of = |number: i64| {
        let hertz = 700.0 * (10f64.powf((first + number as f64 * step) / 2595.0) - 1.0);
        (((length + 1) as f64 * hertz / rate as f64).floor() as i64).clamp(0, rows - 1)
    };
    let mut weights = vec![0.0; (rows * bins) as usize];
    for bin in 0..bins {
        let [start, middle, end] = [0, 1, 2].map(|k| row_of(bin + k));
        let mut put = |row: i64, weight: f64| weights[(row * bins + bin) as usize] = weight;
        if start == middle {
            put(middle, 1.0);
        }
        (start..=middle)
            .filter(|_| start < middle)
            .for_each(|row| put(row, (row - start) as f64 / (middle - start) as f64));
        (middle..end).for_each(|row| put(row, (end - row) as f64 / (end - middle) as f64));
    }
    let dtype = call.dtype_or("output_datatype", DType::F32)?;
    one(numbers(&weights, &[rows as usize, bins as usize], dtype))
}
