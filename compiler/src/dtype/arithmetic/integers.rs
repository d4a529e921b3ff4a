//! Integers: they wrap, and a division by zero gives 0.
//!
//! Tested with the other types ([`super`]).

use super::Element;
use crate::dtype::{DType, Scalar};

macro_rules! integers {
    ($($type:ty, $dtype:ident, $wide:ty, $convert:ident, $variant:ident, $bits:ty;)*) => { $(
        impl Element for $type {
            const ZERO: Self = 0;
            fn from_scalar(value: Scalar) -> Self {
                match value.cast(DType::$dtype) {
                    Scalar::Int(value) => value as $type,
                    Scalar::UInt(value) => value as $type,
                    Scalar::Bool(value) => value as $type,
                    Scalar::Float(_) => 0,
                }
            }
            fn to_scalar(self) -> Scalar {
                Scalar::$variant(self as $wide)
            }
            fn from_i64(value: i64) -> Self {
                value as $type
            }
            fn from_u64(value: u64) -> Self {
                value as $type
            }
            fn from_f64(value: f64) -> Self {
                if <$type>::MAX as u64 == u64::MAX && value >= 0.0 { value as u64 as $type } else { value as i64 as $type }
            }
            fn convert<E: Element>(self) -> E {
                E::$convert(self as $wide)
            }
            fn to_bits(self) -> u64 {
                self as $bits as u64
            }
            fn from_bits(bits: u64) -> Self {
                bits as $type
            }
            lacks!(exp2 log2 sin cos sqrt; div);
            fn neg(self) -> Self {
                self.wrapping_neg()
            }
            fn not(self) -> Self {
                !self
            }
            fn trunc(self) -> Self {
                self
            }
            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            fn sub(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
            fn mul(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            #[allow(unused_comparisons, reason = "one text for signed and unsigned types")]
            fn idiv(self, other: Self) -> Self {
                let quotient = Element::cdiv(self, other);
                let exact = Element::cmod(self, other) == 0;
                if !exact && (self < 0) != (other < 0) { quotient.wrapping_sub(1) } else { quotient }
            }
            fn modulo(self, other: Self) -> Self {
                if other == 0 { 0 } else { self.wrapping_sub(other.wrapping_mul(Element::idiv(self, other))) }
            }
            fn cdiv(self, other: Self) -> Self {
                if other == 0 { 0 } else { self.wrapping_div(other) }
            }
            fn cmod(self, other: Self) -> Self {
                if other == 0 { 0 } else { self.wrapping_rem(other) }
            }
            fn max(self, other: Self) -> Self {
                Ord::max(self, other)
            }
            fn min(self, other: Self) -> Self {
                Ord::min(self, other)
            }
            fn lt(self, other: Self) -> bool {
                self < other
            }
            fn and(self, other: Self) -> Self {
                self & other
            }
            fn or(self, other: Self) -> Self {
                self | other
            }
            fn xor(self, other: Self) -> Self {
                self ^ other
            }
            fn shl(self, other: Self) -> Self {
                // A negative count is, as an unsigned number, beyond every width.
                u32::try_from(other).ok().and_then(|count| self.checked_shl(count)).unwrap_or(0)
            }
            #[allow(unused_comparisons, reason = "one text for signed and unsigned types")]
            fn shr(self, other: Self) -> Self {
                let shifted = u32::try_from(other).ok().and_then(|count| self.checked_shr(count));
                shifted.unwrap_or(if self < 0 { <$type>::MAX.wrapping_sub(<$type>::MAX).wrapping_sub(1) } else { 0 })
            }
            fn muladd(self, b: Self, c: Self) -> Self {
                self.wrapping_mul(b).wrapping_add(c)
            }
        }
    )* };
}

integers! {
    i8, I8, i64, from_i64, Int, u8;
    i16, I16, i64, from_i64, Int, u16;
    i32, I32, i64, from_i64, Int, u32;
    i64, I64, i64, from_i64, Int, u64;
    u8, U8, u64, from_u64, UInt, u8;
    u16, U16, u64, from_u64, UInt, u16;
    u32, U32, u64, from_u64, UInt, u32;
    u64, U64, u64, from_u64, UInt, u64;
}
