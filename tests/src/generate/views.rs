//! Random movement ops: other shapes, orders, parts, borders and strides of a tensor.

use warpweft_compiler::DType;
use warpweft_compiler::ir::text::Graph;
use warpweft_compiler::ir::{Arg, Dim, Op, Shape, StridedArg, UOp};

use super::ELEMENTS_MAX;
use crate::choices::Choices;

pub(super) fn movement(choices: &mut Choices<'_>, x: &UOp) -> Option<UOp> {
    let shape = x.shape().as_const()?;
    let rank = shape.len();
    match choices.between(0, 6) {
        0 => Some(x.reshape(reshaped(choices, &shape))),
        1 => {
            let mut order: Vec<usize> = (0..rank).collect();
            for axis in 1..rank {
                order.swap(axis, choices.between(0, axis as i64) as usize);
            }
            Some(x.permute(&order))
        }
        2 => Some(x.expand(
            shape.iter().map(|dim| if *dim == 1 { choices.between(1, 4) } else { *dim }).collect::<Vec<i64>>(),
        )),
        3 => Some(x.pad(&bounds(rank, |_| (choices.between(0, 2), choices.between(0, 2))))),
        4 => Some(x.shrink(&bounds(rank, |axis| {
            let start = choices.between(0, shape[axis] - 1);
            (start, choices.between(start + 1, shape[axis]))
        }))),
        5 => Some(x.flip(&(0..rank).filter(|_| choices.once_in(2)).collect::<Vec<usize>>())),
        _ => as_strided(choices, x),
    }
}

pub(super) fn bounds(rank: usize, mut each: impl FnMut(usize) -> (i64, i64)) -> Vec<(Dim, Dim)> {
    (0..rank).map(&mut each).map(|(low, high)| (low.into(), high.into())).collect()
}

/// Another shape of as many elements: factors taken from one end.
fn reshaped(choices: &mut Choices<'_>, shape: &[i64]) -> Vec<i64> {
    let mut left = shape.iter().product::<i64>();
    let mut to = Vec::new();
    while left > 1 && to.len() < 3 {
        let divisors: Vec<i64> = (1..=left).filter(|divisor| left % divisor == 0).collect();
        let divisor = *choices.one_of(&divisors);
        to.push(divisor);
        left /= divisor;
    }
    to.push(left);
    to
}

fn as_strided(choices: &mut Choices<'_>, x: &UOp) -> Option<UOp> {
    let len = x.shape().numel().as_const().filter(|len| *len > 0)?;
    let mut offset = choices.between(0, len - 1);
    let (mut shape, mut strides) = (Vec::new(), Vec::new());
    let (mut low, mut high) = (offset, offset);
    for _ in 0..choices.between(0, 2) {
        let stride = choices.between(-3, 3);
        let dim = choices.between(1, 4);
        let span = stride * (dim - 1);
        if low + span.min(0) >= 0 && high + span.max(0) < len {
            (low, high) = (low + span.min(0), high + span.max(0));
            shape.push(dim);
            strides.push(stride);
        }
    }
    offset = offset.clamp(0, len - 1);
    let arg = StridedArg { shape: Shape::from(shape), strides: Shape::from(strides), offset: Dim::Const(offset) };
    Some(UOp::new(Op::AsStrided, x.dtype(), vec![x.clone()], Arg::Strided(arg.into())))
}

/// A chain of movement ops over one param of element numbers.
pub fn movement_chain(choices: &mut Choices<'_>) -> Graph {
    let shape: Vec<i64> = (0..choices.between(1, 3)).map(|_| choices.between(1, 6)).collect();
    let len = shape.iter().product::<i64>() as u64;
    let mut node = UOp::param(0, DType::I32, len).reshape(shape);
    for _ in 0..choices.between(1, 8) {
        let new = movement(choices, &node);
        node = new.filter(|new| new.shape().numel().as_const().is_some_and(|len| len <= ELEMENTS_MAX)).unwrap_or(node);
    }
    Graph::new("chain", [node])
}
