//! Floats of 8 bits, as files store them: bytes of `u8`, which become floats by conversion and are made of them.
//!
//! This is `Tensor::decode_small` and `Tensor::encode_small` for the two types that files of weights have, under their names: E4M3 (the `fn` form, without
//! infinities) and E5M2. What is too large becomes 448 in E4M3, and infinite in E5M2, as in PyTorch 2.15. Bytes of a file stay bytes: what the formats give is
//! the expression, which becomes part of the kernel that uses it.
//!
//! Tests: at the end of this file against the definition, `runtime/tests/formats/main.rs` and `tests/it/packed.rs` against PyTorch.

use warpweft_compiler::DType;

use crate::tensor::{Result, SmallFloat, Tensor};

/// What a file that has elements of a small type is given for a tensor: the codes of floats, rounded as PyTorch 2.15 rounds them where it has the type, or
/// those that bytes of `u8` are already.
pub(super) fn codes(x: &Tensor, to: SmallFloat) -> Result<Tensor> {
    match x.dtype()? {
        DType::U8 => Ok(x.clone()),
        dtype if dtype.is_float() => {
            // Types in which what is too large has a value of its own.
            let has_beyond = matches!(to, SmallFloat::E5M2 | SmallFloat::E4M3FNUZ | SmallFloat::E5M2FNUZ);
            Ok(x.encode_small(to, !has_beyond))
        }
        dtype => {
            let why = format!(
                "elements of {dtype} cannot be written as {to:?}: cast them to floats, or give codes as bytes of u8"
            );
            Err(x.refused_call("save", why))
        }
    }
}

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
    bytes.decode_small(SmallFloat::E4M3FN)
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
    bytes.decode_small(SmallFloat::E5M2)
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
    x.encode_small(SmallFloat::E4M3FN, true)
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
    x.encode_small(SmallFloat::E5M2, false)
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
