//! Products of matrices and vectors.

use warpweft_compiler::ops::{einsum, matmul as ops};

use super::Tensor;

impl Tensor {
    /// Matrix product over the last two axes, the others broadcast.
    #[track_caller]
    pub fn matmul(&self, other: &Tensor) -> Tensor {
        Tensor::compute("matmul", [self, other], |[a, b]| ops::matmul(a, b))
    }

    /// Product of two vectors.
    #[track_caller]
    pub fn dot(&self, other: &Tensor) -> Tensor {
        Tensor::compute("dot", [self, other], |[a, b]| ops::dot(a, b))
    }

    /// Each element of this vector times each of the other.
    #[track_caller]
    pub fn outer(&self, other: &Tensor) -> Tensor {
        Tensor::compute("outer", [self, other], |[a, b]| ops::outer(a, b))
    }

    /// This times the transpose of the weight, plus the bias.
    #[track_caller]
    pub fn linear(&self, weight: &Tensor, bias: Option<&Tensor>) -> Tensor {
        match bias {
            Some(bias) => {
                Tensor::compute("linear", [self, weight, bias], |[x, weight, bias]| ops::linear(x, weight, Some(bias)))
            }
            None => Tensor::compute("linear", [self, weight], |[x, weight]| ops::linear(x, weight, None)),
        }
    }

    /// Sum of products in Einstein's notation.
    #[track_caller]
    pub fn einsum(equation: &str, operands: &[&Tensor]) -> Tensor {
        Tensor::joined("einsum", operands, |nodes| einsum::einsum(equation, nodes))
    }
}
