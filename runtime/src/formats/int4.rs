//! Integers of 4 bits, two in a byte of `u8`, the first in the low half: unpacked by an expression that becomes part of the kernel that uses them.
//!
//! So a product with packed weights reads the packed bytes and nothing else of them. What does not fit 4 bits wraps.
//!
//! Tested by tests/it/packed.rs against all bytes, and for what a kernel reads.

use warpweft_compiler::DType;

use crate::tensor::{Dims, Result, Tensor};

/// Two integers from each byte of the last axis, which becomes twice as long: `i8` from -8 to 7 if `signed`, else from 0 to 15.
///
/// ```
/// # use warpweft::{Tensor, formats::int4};
/// let bytes = Tensor::from_vec(vec![0x21u8, 0xf8], [2]);
/// assert_eq!(int4::unpack(&bytes, true).to_vec::<i8>()?, [1, 2, -8, -1]);
/// assert_eq!(int4::unpack(&bytes, false).to_vec::<i8>()?, [1, 2, 8, 15]);
/// # Ok::<(), warpweft::Error>(())
/// ```
#[track_caller]
pub fn unpack(bytes: &Tensor, signed: bool) -> Tensor {
    let shape = match pairs(bytes, "unpack", |length| length.checked_mul(2)) {
        Ok(shape) => shape,
        Err(error) => return Tensor::from_error(error),
    };
    let shifts = Tensor::iota(2).cast(DType::U8) * 4;
    let nibbles = bytes.unsqueeze(-1).rshift(shifts).bitwise_and(15).reshape(shape).cast(DType::I8);
    // The highest of the four bits counts as -8.
    if signed { nibbles.bitwise_xor(8) - 8 } else { nibbles }
}

/// Integers two by two as bytes of `u8`; the last axis, of an even length, becomes half as long.
///
/// ```
/// # use warpweft::{Tensor, formats::int4};
/// let x = Tensor::from_vec(vec![1i8, 2, -8, -1], [4]);
/// assert_eq!(int4::pack(&x).to_vec::<u8>()?, [0x21, 0xf8]);
/// # Ok::<(), warpweft::Error>(())
/// ```
#[track_caller]
pub fn pack(x: &Tensor) -> Tensor {
    let half = |length: i64| (length % 2 == 0).then_some(length / 2);
    let cut = pairs(x, "pack", half).map(|shape| shape.iter().cloned().chain([2.into()]).collect::<Dims>());
    let cut = match cut {
        Ok(cut) => cut,
        Err(error) => return Tensor::from_error(error),
    };
    let nibbles = x.cast(DType::U8).bitwise_and(15).reshape(cut);
    let part = |k: i64| nibbles.narrow(-1, k, 1).squeeze(-1);
    part(0).bitwise_or(part(1).lshift(4))
}

/// The shape with another last length.
#[track_caller]
fn pairs(x: &Tensor, op: &'static str, change: impl FnOnce(i64) -> Option<i64>) -> Result<Dims> {
    let dims = x.dims()?;
    let last = dims.last().and_then(|last| last.as_const()).and_then(change);
    let is_kind = if op == "unpack" { x.dtype()? == DType::U8 } else { x.dtype()?.is_integer() };
    match last.filter(|_| is_kind) {
        Some(last) => Ok(dims[..dims.len() - 1].iter().cloned().chain([last.into()]).collect()),
        None if op == "unpack" => Err(x.refused_call(op, "bytes are of u8, in a last axis whose length is a number")),
        None => Err(x.refused_call(op, "the elements must be integers, in a last axis of an even length")),
    }
}
