//! Numbers as small integers or floats with a scale, and back; products of such tensors.

use super::super::call::{Call, Done, all, lengths, one, one_of, resolve};
use super::super::element::ElementType;
use super::super::error::{Failure, unsupported, wrong};
use super::Op;
use super::convolution::{convolved, without_zero};
use crate::DType;
use crate::tensor::Tensor;

// tidy: table
pub(super) const OPS: &[(&str, Op)] = &[
    ("DequantizeLinear", dequantize),
    ("DynamicQuantizeLinear", dynamic_quantize),
    ("QLinearConv", linear_conv),
    ("QLinearMatMul", linear_matmul),
    ("QuantizeLinear", quantize),
];

/// A scale or zero point as it lies along x: one number, one for each position of an axis, or one for each block of an axis.
fn along(call: &Call<'_>, number: usize, x: &Tensor) -> Result<Tensor, Failure> {
    let (given, wanted) = (call.tensor(number)?, lengths(x)?);
    let own = lengths(given)?;
    if own.is_empty() || (own.len() == 1 && own[0] == 1) {
        return Ok(given.reshape([0i64; 0]));
    }
    let axis = resolve(call.int_or("axis", 1)?, wanted.len())?;
    if own.len() == 1 {
        let mut line = vec![1i64; wanted.len()];
        line[axis] = own[0];
        return Ok(given.reshape(line));
    }
    let block = call.int_or("block_size", 0)?;
    let fits = own.len() == wanted.len() && (0..own.len()).all(|k| k == axis || own[k] == wanted[k]);
    let block = if block == 0 && fits && own[axis] > 0 { wanted[axis] / own[axis] } else { block };
    if block < 1 || !fits || own[axis] * block < wanted[axis] {
        wrong!(
            "input {number} has shape {own:?}, which does not fit {wanted:?} in blocks of {block} along axis {axis}"
        );
    }
    Ok(given.repeat_interleave(block, Some(axis as i64)).narrow(axis as i64, 0i64, wanted[axis]))
}

/// Rounded to the type, with what is beyond its ends at its ends.
fn quantized(scaled: &Tensor, zero: Option<&Tensor>, to: ElementType, saturate: bool) -> Result<Tensor, Failure> {
    if let ElementType::Small(float) = to {
        return Ok(scaled.round_to_small(float, saturate));
    }
    let (Some((low, high)), Some(dtype)) = (to.integer_bounds(), to.dtype()) else { unsupported!("numbers as {to}") };
    let rounded = scaled.round();
    let moved = match zero {
        Some(zero) => rounded + zero.cast(scaled.dtype()?),
        None => rounded,
    };
    Ok(moved.clamp(Some((low as f64).into()), Some((high as f64).into())).cast(DType::I32).cast(dtype))
}

fn quantize(call: &Call<'_>) -> Done {
    let x = call.tensor(0)?;
    let to = match (call.has(2), call.element("output_dtype")?) {
        (true, _) => call.array(2)?.element,
        (false, Some(to)) => to,
        (false, None) => DType::U8.into(),
    };
    let dtype = match call.element("precision")? {
        Some(ElementType::Plain(dtype)) => dtype,
        Some(other) => unsupported!("division in {other}"),
        None if x.dtype()?.is_float() => x.dtype()?,
        None => DType::F32,
    };
    let scaled = x.cast(dtype) / along(call, 1, x)?.cast(dtype);
    let zero = if call.has(2) && !to.is_float() { Some(along(call, 2, x)?) } else { None };
    one_of(quantized(&scaled.cast(DType::F32), zero.as_ref(), to, call.int_or("saturate", 1)? != 0)?, to)
}

fn dequantize(call: &Call<'_>) -> Done {
    let x = call.array(0)?;
    let scale = along(call, 1, &x.tensor)?;
    let dtype = call.dtype_or("output_dtype", scale.dtype()?)?;
    let zero = if call.has(2) { Some(along(call, 2, &x.tensor)?) } else { None };
    let centred = match (zero, x.element.is_float()) {
        (Some(zero), true) => x.tensor.cast(DType::F32) - zero.cast(DType::F32),
        (Some(zero), false) => x.tensor.cast(DType::I32) - zero.cast(DType::I32),
        (None, _) => x.tensor.clone(),
    };
    one((centred.cast(DType::F32) * scale.cast(DType::F32)).cast(dtype))
}

fn dynamic_quantize(call: &Call<'_>) -> Done {
    let x = call.tensor(0)?;
    let (low, high) = (x.min(()).minimum(0.0), x.max(()).maximum(0.0));
    let scale = (&high - &low) / 255.0;
    let safe = scale.eq(0.0).where_(1.0, &scale);
    let zero = (-&low / &safe).clamp(Some(0.0.into()), Some(255.0.into())).round();
    let values = quantized(&(x / &safe), Some(&zero), DType::U8.into(), true)?;
    all([values, scale, zero.cast(DType::U8)])
}

fn linear_conv(call: &Call<'_>) -> Done {
    let x = without_zero(call.tensor(0)?, call.optional(2)?)?;
    let weight = without_zero(call.tensor(3)?, call.optional(5)?)?;
    let sums = convolved(call, &x, &weight, call.optional(8)?)?;
    // The weight's scale is one number, or one for each result.
    let mut line = vec![1i64; lengths(&x)?.len() - 1];
    line[0] = call.tensor(4)?.numel()? as i64;
    let scale = call.tensor(1)?.reshape([0i64; 0]) * call.tensor(4)?.reshape(line) / call.tensor(6)?.reshape([0i64; 0]);
    let to = call.array(7)?.element;
    one_of(quantized(&(sums.cast(DType::F32) * scale), Some(call.tensor(7)?), to, true)?, to)
}

fn linear_matmul(call: &Call<'_>) -> Done {
    let zero = |number: usize| -> Result<Tensor, Failure> {
        Ok(call.tensor(number)?.cast(DType::I32) - call.tensor(number + 2)?.cast(DType::I32))
    };
    let sums = zero(0)?.matmul(&zero(3)?).cast(DType::F32);
    let scale = call.tensor(1)?.cast(DType::F32) * call.tensor(4)?.cast(DType::F32) / call.tensor(6)?.cast(DType::F32);
    let to = call.array(7)?.element;
    one_of(quantized(&(sums * scale), Some(call.tensor(7)?), to, true)?, to)
}
