//! `+ - * / % & | ^ << >>` between tensors and numbers in any order, and `-` and `!` before a tensor.

use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Rem, Shl, Shr, Sub};

use crate::tensor::{Operand, Tensor};

macro_rules! operators {
    ($($trait:ident $operator:ident $method:ident;)*) => { $(
        impl<T: Operand> $trait<T> for Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $operator(self, other: T) -> Tensor {
                self.$method(other)
            }
        }
        impl<T: Operand> $trait<T> for &Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $operator(self, other: T) -> Tensor {
                self.$method(other)
            }
        }
        // One integer and one float type, so that a literal on the left needs no annotation.
        operators!(numbers $trait $operator $method i64 f64);
    )* };
    (numbers $trait:ident $operator:ident $method:ident $($number:ident)*) => { $(
        impl $trait<Tensor> for $number {
            type Output = Tensor;
            #[track_caller]
            fn $operator(self, other: Tensor) -> Tensor {
                self.beside(&other).$method(other)
            }
        }
        impl $trait<&Tensor> for $number {
            type Output = Tensor;
            #[track_caller]
            fn $operator(self, other: &Tensor) -> Tensor {
                self.beside(other).$method(other)
            }
        }
    )* };
}

operators! {
    Add add plus;
    Sub sub minus;
    Mul mul times;
    Div div over;
    Rem rem modulo;
    BitAnd bitand bitwise_and;
    BitOr bitor bitwise_or;
    BitXor bitxor bitwise_xor;
    Shl shl lshift;
    Shr shr rshift;
}

impl Neg for Tensor {
    type Output = Tensor;
    #[track_caller]
    fn neg(self) -> Tensor {
        self.negative()
    }
}

impl Neg for &Tensor {
    type Output = Tensor;
    #[track_caller]
    fn neg(self) -> Tensor {
        self.negative()
    }
}

impl Not for Tensor {
    type Output = Tensor;
    #[track_caller]
    fn not(self) -> Tensor {
        self.bitwise_not()
    }
}

impl Not for &Tensor {
    type Output = Tensor;
    #[track_caller]
    fn not(self) -> Tensor {
        self.bitwise_not()
    }
}
