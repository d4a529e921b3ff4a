//! Derivatives of what is computed of whole matrices: inverses, factors, determinants, eigenvalues.
//!
//! A rule is written with the function's own value, so it can be differentiated again, and with values that stand beside it and are computed only
//! where a gradient is asked for. Of a symmetric matrix the gradient is symmetric too: by changes that leave it so.
//!
//! Where eigenvalues or singular values are equal, their vectors have no derivative, and the rule gives infinities.
//!
//! Tested against PyTorch's gradients (`data/more_ops.json.gz`) and second derivatives against differences (tests/it/matrices.rs).

use smallvec::smallvec;

use super::rules::{Contribution, number};
use crate::ir::{Arg, Function, Op};
use crate::ops::create::{eye, triangle};
use crate::ops::elementwise::{mul, sub};
use crate::ops::matmul::matmul;
use crate::ops::movement::{transpose, unsqueeze};
use crate::ops::{Built, broadcast_to};
use crate::{DType, UOp};

/// What goes to the matrix, which is the first operand; nothing goes to the value and to what stands beside it.
pub(super) fn of_matrix(function: Function, node: &UOp, g: &UOp) -> Contribution {
    let src = node.src();
    let part = match function {
        Function::Inverse => inverse(node, g),
        Function::Cholesky => cholesky(node, &src[2], g),
        Function::Determinant => spread(&(g * node), &src[2]),
        Function::LogDeterminant => spread(g, &src[2]),
        Function::Eigenvectors => eigenvectors(node, &src[1], &src[2], g),
        Function::Eigenvalues => scaled_outer(&src[2], g, &src[2]),
        Function::SingularValues => scaled_outer(&src[2], g, &src[3]),
        Function::PseudoInverse => pseudo_inverse(node, &src[1], g),
        _ => return src.iter().map(|_| None).collect(),
    };
    let part = match part {
        Ok(part) => part.cast(src[1].dtype()),
        Err(error) => unreachable!("the operands of {} fit each other: {error}", function.name()),
    };
    let mut parts: Contribution = smallvec![None, Some(part)];
    parts.resize(src.len(), None);
    parts
}

fn t(x: &UOp) -> Built {
    transpose(x, -2, -1)
}

fn chain<const N: usize>(factors: [&UOp; N]) -> Built {
    factors[1..].iter().try_fold(factors[0].clone(), |product, factor| matmul(&product, factor))
}

/// d(Y) = -Y dA Y.
fn inverse(y: &UOp, g: &UOp) -> Built {
    let y = t(y)?;
    Ok(chain([&y, g, &y])?.negate())
}

/// A number for each matrix times the transpose of a matrix.
fn spread(g: &UOp, inverse: &UOp) -> Built {
    mul(&unsqueeze(&unsqueeze(g, -1)?, -1)?, &t(inverse)?)
}

/// Columns of two matrices multiplied by numbers and with each other: left diag(g) right^T.
fn scaled_outer(left: &UOp, g: &UOp, right: &UOp) -> Built {
    matmul(&mul(left, &unsqueeze(g, -2)?)?, &t(right)?)
}

fn symmetric(x: &UOp) -> Built {
    mul(&(x + t(x)?), &number(0.5, x))
}

/// With P the lower triangle of L^T g, its diagonal halved: L^-T P L^-1.
fn cholesky(factor: &UOp, inverse: &UOp, g: &UOp) -> Built {
    // The inverse of the factor, through which the factor's own derivative goes on.
    let sources = vec![inverse.clone(), factor.clone()];
    let inverse = UOp::new(Op::Function, factor.dtype(), sources, Arg::Function(Function::Inverse));
    let product = chain([&t(factor)?, g])?;
    let lower = mul(&(triangle(&product, 0, false)? + triangle(&product, -1, false)?), &number(0.5, g))?;
    symmetric(&chain([&t(&inverse)?, &lower, &inverse])?)
}

/// V (F * (V^T g)) V^T with F of one over the differences of eigenvalues.
fn eigenvectors(vectors: &UOp, matrix: &UOp, values: &UOp, g: &UOp) -> Built {
    let sources = vec![values.clone(), matrix.clone(), vectors.clone()];
    let values = UOp::new(Op::Function, values.dtype(), sources, Arg::Function(Function::Eigenvalues));
    let size = vectors.shape()[vectors.shape().len() - 1].max_value();
    let differences = sub(&unsqueeze(&values, -2)?, &unsqueeze(&values, -1)?)?;
    let same = broadcast_to(&eye(size, size, DType::BOOL)?, differences.shape())?;
    let differences = same.select(number(1.0, &differences), &differences);
    let turned = chain([&t(vectors)?, g])?.div(&differences);
    let turned = same.select(number(0.0, &turned), &turned);
    symmetric(&chain([vectors, &turned, &t(vectors)?])?)
}

/// d(P) = -P dA P + P P^T dA^T (1 - A P) + (1 - P A) dA^T P^T P.
fn pseudo_inverse(p: &UOp, a: &UOp, g: &UOp) -> Built {
    let (pt, gt) = (t(p)?, t(g)?);
    let left = &gt - chain([a, p, &gt])?;
    let right = &gt - chain([&gt, p, a])?;
    let first = chain([&pt, g, &pt])?;
    Ok(chain([&left, p, &pt])? + chain([&pt, p, &right])? - first)
}
