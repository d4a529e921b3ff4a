//! Random arithmetic of indices.

use warpweft_compiler::ir::text::Graph;
use warpweft_compiler::ir::{Op, UOp};

use crate::choices::Choices;

/// An expression of single integers and bools over a few variables, as index arithmetic is made of.
pub fn index_expression(choices: &mut Choices<'_>) -> Graph {
    let mut integers: Vec<UOp> = Vec::new();
    for (number, name) in ["a", "b", "c"].into_iter().enumerate() {
        if number == 0 || choices.once_in(2) {
            let low = choices.between(-9, 9);
            let high = low + choices.between(0, 20);
            integers.push(UOp::variable(name, low, high));
        }
    }
    let mut bools: Vec<UOp> = Vec::new();
    for _ in 0..choices.between(1, 12) {
        let operand = |choices: &mut Choices<'_>, integers: &[UOp]| match choices.once_in(3) {
            true => UOp::index(choices.between(-12, 12)),
            false => choices.one_of(integers).clone(),
        };
        let a = operand(choices, &integers);
        let b = operand(choices, &integers);
        match choices.between(0, 14) {
            number @ 0..=8 => {
                let ops = [Op::Add, Op::Mul, Op::IDiv, Op::Mod, Op::Sub, Op::Max, Op::Min, Op::CDiv, Op::CMod];
                integers.push(UOp::binary(ops[number as usize], &a, &b));
            }
            number @ 9..=11 => bools.push(UOp::binary([Op::Lt, Op::Eq, Op::Ne][number as usize - 9], &a, &b)),
            12 if bools.len() > 1 => {
                let op = *choices.one_of(&[Op::And, Op::Or, Op::Xor]);
                let (c, d) = (choices.one_of(&bools).clone(), choices.one_of(&bools).clone());
                bools.push(UOp::binary(op, &c, &d));
            }
            13 if !bools.is_empty() => {
                let condition = choices.one_of(&bools).clone();
                integers.push(condition.select(&a, &b));
            }
            _ if !bools.is_empty() => bools.push(choices.one_of(&bools).not()),
            _ => integers.push(a.negate()),
        }
    }
    let roots: Vec<UOp> = integers.last().into_iter().chain(bools.last()).cloned().collect();
    Graph::new("expression", roots)
}

/// A position put together from digits and taken apart by another shape, again and again, with paddings, gaps and mirrored axes, as views of
/// views do: the position, and a digit of it where gates hold.
pub fn positions(choices: &mut Choices<'_>) -> Graph {
    let mut lens: Vec<i64> = (0..choices.between(1, 4)).map(|_| choices.between(2, 9)).collect();
    let names = ["a", "b", "c", "d"];
    let mut digits: Vec<UOp> = lens.iter().zip(names).map(|(len, name)| UOp::variable(name, 0, len - 1)).collect();
    let mut position = UOp::index(0);
    for _ in 0..choices.between(1, 4) {
        for axis in 1..digits.len() {
            let other = choices.between(0, axis as i64) as usize;
            digits.swap(axis, other);
            lens.swap(axis, other);
        }
        position = UOp::index(if choices.once_in(2) { choices.between(-6, 12) } else { 0 });
        let mut stride = 1;
        for (digit, len) in digits.iter().zip(&lens) {
            let own = if choices.once_in(6) { choices.between(-8, 8) } else { stride };
            position = position + digit * own;
            stride *= len;
        }
        lens = (0..choices.between(1, 4)).map(|_| choices.between(2, 9)).collect();
        let mut inner = 1;
        digits.clear();
        for (axis, len) in lens.iter().enumerate() {
            let quotient = position.idiv(inner);
            let is_outermost = axis + 1 == lens.len() && !choices.once_in(3);
            let digit = if is_outermost { quotient } else { quotient.modulo(*len) };
            digits.push(match choices.between(0, 11) {
                0..=3 => digit + choices.between(-3, 3),
                4 => UOp::index(choices.between(0, len - 1)),
                5 => UOp::index(len - 1) - digit,
                _ => digit,
            });
            inner *= len;
        }
    }
    let gate = |digit: &UOp, choices: &mut Choices<'_>| {
        let limit = UOp::index(choices.between(0, 6));
        if choices.once_in(2) { digit.lt(&limit) } else { limit.lt(digit) }
    };
    let gates: Vec<UOp> = digits.iter().map(|digit| gate(digit, choices)).collect();
    let valid = gates.into_iter().reduce(|valid, gate| valid.and(&gate)).unwrap_or_else(|| UOp::bool(true));
    let shown = valid.select(
        &digits.iter().cloned().reduce(|sum, digit| sum * 3 + digit).unwrap_or(position.clone()),
        &UOp::index(0),
    );
    Graph::new("positions", [position, shown])
}
