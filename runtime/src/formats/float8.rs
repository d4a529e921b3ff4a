//! Floats of 8 bits, as files store them: bytes of `u8`, which become floats by conversion and are made of them. No kernel computes with them.
//!
//! A byte is moved to the place in a half float where its sign, exponent and mantissa belong. E5M2 is the upper half of a half float. The
//! exponent of E4M3 counts from 7 and not from 15, which is a factor of 256, exact for all its values, subnormal ones too. E4M3 (the `fn`
//! form) has no infinities: the bytes 0x7f and 0xff are NaN, and 0x7e is 448. All of that is exact.
//!
//! The other way, bits of an `f32` are rounded to those that are kept, to even where they lie in the middle, and the exponent counts anew; what is
//! too small for an exponent of its own is counted in steps of the least number. What is too large becomes 448 in E4M3, and infinite in E5M2, as in PyTorch 2.15.
//!
//! Tests: at the end of this file against the definition, and `runtime/tests/formats/main.rs` against PyTorch.

use warpweft_compiler::DType;

use crate::tensor::{Result, Tensor};

/// The values of bytes that are floats of type E4M3 (`F8_E4M3` of safetensors, `float8_e4m3fn` of PyTorch), as `f32`.
///
/// ```
/// # use warpweft::{Tensor, formats::float8};
/// let bytes = Tensor::from_vec(vec![0x38u8, 0xc0, 0x01, 0x7e], [4]);
/// assert_eq!(float8::from_e4m3(&bytes).to_vec::<f32>()?, [1.0, -2.0, 0.001953125, 448.0]);
/// # Ok::<(), warpweft::Error>(())
/// ```
#[track_caller]
pub fn from_e4m3(bytes: &Tensor) -> Tensor {
    if let Some(refused) = refused("from_e4m3", bytes) {
        return refused;
    }
    let wide = bytes.cast(DType::U16);
    let bits = (wide.bitwise_and(0x80) << 8).bitwise_or(wide.bitwise_and(0x7f) << 7);
    let value = bits.bitcast(DType::F16).cast(DType::F32) * 256.0;
    wide.bitwise_and(0x7f).eq(0x7f).where_(f64::NAN, value)
}

/// The values of bytes that are floats of type E5M2 (`F8_E5M2` of safetensors, `float8_e5m2` of PyTorch), as `f32`.
///
/// ```
/// # use warpweft::{Tensor, formats::float8};
/// let bytes = Tensor::from_vec(vec![0x3cu8, 0xc0, 0x7b, 0x7c], [4]);
/// assert_eq!(float8::from_e5m2(&bytes).to_vec::<f32>()?, [1.0, -2.0, 57344.0, f32::INFINITY]);
/// # Ok::<(), warpweft::Error>(())
/// ```
#[track_caller]
pub fn from_e5m2(bytes: &Tensor) -> Tensor {
    if let Some(refused) = refused("from_e5m2", bytes) {
        return refused;
    }
    (bytes.cast(DType::U16) << 8).bitcast(DType::F16).cast(DType::F32)
}

/// Floats rounded to type E4M3, as bytes.
///
/// ```
/// # use warpweft::{Tensor, formats::float8};
/// let x = Tensor::from_vec(vec![1.0f32, -2.1, 0.002, 1e9], [4]);
/// assert_eq!(float8::to_e4m3(&x).to_vec::<u8>()?, [0x38, 0xc0, 0x01, 0x7e]);
/// # Ok::<(), warpweft::Error>(())
/// ```
#[track_caller]
pub fn to_e4m3(x: &Tensor) -> Tensor {
    to_float8(x, 3, 7, 448.0)
}

/// Floats rounded to type E5M2, as bytes.
///
/// ```
/// # use warpweft::{Tensor, formats::float8};
/// let x = Tensor::from_vec(vec![1.0f32, -2.1, 1e-5, 1e9], [4]);
/// assert_eq!(float8::to_e5m2(&x).to_vec::<u8>()?, [0x3c, 0xc0, 0x01, 0x7c]);
/// # Ok::<(), warpweft::Error>(())
/// ```
#[track_caller]
pub fn to_e5m2(x: &Tensor) -> Tensor {
    // What would be the number behind the largest has the byte of infinity.
    to_float8(x, 2, 15, 65536.0)
}

/// Bytes of a sign, an exponent from a bias and so many bits of mantissa; what is larger than `limit` counts as that.
#[track_caller]
fn to_float8(x: &Tensor, mantissa: i64, bias: i64, limit: f64) -> Tensor {
    let x = x.cast(DType::F32);
    let dropped = 23 - mantissa;
    let size = x.abs().minimum(limit);
    let bits = size.bitcast(DType::U32);
    let is_odd = (&bits >> dropped).bitwise_and(1);
    let rounded = (bits + ((1i64 << (dropped - 1)) - 1) + is_odd) >> dropped;
    let normal = rounded - ((127 - bias) << mantissa);
    // Below the least number with an exponent of its own, in steps of the least of all; eight of those, rounded up to, are that number.
    let least = 2f64.powi(1 - bias as i32);
    let subnormal = (&size * (2f64.powi(mantissa as i32) / least)).round().cast(DType::U32);
    let byte = size.lt(least).where_(subnormal, normal);
    let byte = x.isnan().where_(0x7f, byte);
    let sign = (x.bitcast(DType::U32) >> 24).bitwise_and(0x80);
    byte.bitwise_or(sign).cast(DType::U8)
}

#[track_caller]
fn refused(op: &'static str, bytes: &Tensor) -> Option<Tensor> {
    let is_bytes: Result<bool> = bytes.dtype().map(|dtype| dtype == DType::U8);
    match is_bytes {
        Ok(true) => None,
        Ok(false) => Some(Tensor::refused(op, "floats of 8 bits are given as bytes: u8")),
        Err(error) => Some(Tensor::from_error(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By the definition: sign, exponent from a bias, mantissa; exponent 0 is subnormal.
    fn by_definition(byte: u8, exponent_bits: u32, bias: i32) -> f32 {
        let mantissa_bits = 7 - exponent_bits;
        let exponent = i32::from((byte & 0x7f) >> mantissa_bits);
        let mantissa = f32::from(byte & ((1 << mantissa_bits) - 1)) / (1u32 << mantissa_bits) as f32;
        let size = match exponent {
            0 => mantissa * 2f32.powi(1 - bias),
            _ => (1.0 + mantissa) * 2f32.powi(exponent - bias),
        };
        if byte & 0x80 != 0 { -size } else { size }
    }

    #[test]
    fn every_byte_has_the_value_of_its_definition() {
        let bytes = Tensor::from_vec((0..=255u8).collect(), [256]);
        let (e4m3, e5m2) = (from_e4m3(&bytes).to_vec::<f32>().unwrap(), from_e5m2(&bytes).to_vec::<f32>().unwrap());
        for byte in 0..=255u8 {
            let at = usize::from(byte);
            match byte & 0x7f {
                0x7f => assert!(e4m3[at].is_nan()),
                _ => assert_eq!(e4m3[at].to_bits(), by_definition(byte, 4, 7).to_bits(), "{byte:02x}"),
            }
            match byte & 0x7f {
                0x7d.. => assert!(e5m2[at].is_nan()),
                0x7c => assert_eq!(e5m2[at], if byte > 0x7f { f32::NEG_INFINITY } else { f32::INFINITY }),
                _ => assert_eq!(e5m2[at].to_bits(), by_definition(byte, 5, 15).to_bits(), "{byte:02x}"),
            }
        }
        assert!(from_e4m3(&Tensor::ones([2])).shape().is_err());
    }
}
