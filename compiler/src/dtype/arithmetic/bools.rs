//! Bools, of which a sum is "or" and a product "and".
//!
//! Tested with the other types ([`super`]).

use super::Element;
use crate::dtype::Scalar;

impl Element for bool {
    const ZERO: Self = false;
    fn from_scalar(value: Scalar) -> Self {
        value.to_bool()
    }
    fn to_scalar(self) -> Scalar {
        Scalar::Bool(self)
    }
    fn from_i64(value: i64) -> Self {
        value != 0
    }
    fn from_u64(value: u64) -> Self {
        value != 0
    }
    fn from_f64(value: f64) -> Self {
        value != 0.0
    }
    fn convert<E: Element>(self) -> E {
        E::from_i64(self as i64)
    }
    fn to_bits(self) -> u64 {
        self as u64
    }
    fn from_bits(bits: u64) -> Self {
        bits != 0
    }
    lacks!(neg exp2 log2 sin cos sqrt; sub div idiv modulo cdiv cmod shl shr);
    fn not(self) -> Self {
        !self
    }
    fn trunc(self) -> Self {
        self
    }
    fn add(self, other: Self) -> Self {
        self | other
    }
    fn mul(self, other: Self) -> Self {
        self & other
    }
    fn max(self, other: Self) -> Self {
        self | other
    }
    fn min(self, other: Self) -> Self {
        self & other
    }
    fn lt(self, other: Self) -> bool {
        !self & other
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
    fn muladd(self, b: Self, c: Self) -> Self {
        (self & b) | c
    }
}
