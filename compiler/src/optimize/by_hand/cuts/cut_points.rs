//! Cut points of a loop, and the parts between them: where what a condition or a digit asks of the loop's variable becomes another constant.
//!
//! Tested below: every part has one answer.

use std::collections::BTreeSet;

use crate::ir::{Op, UOp};
use crate::kernel::ranges::{Dependencies, RangeSet, range_id};
use crate::optimize::transforms::split::is_reduce;
use crate::symbolic::linear_terms;

/// Parts that a digit may cut a loop into.
const PARTS_OF_DIGIT_MAX: i64 = 8;

/// What a loop's iterations ask.
#[derive(Default)]
pub(super) struct CutPoints {
    pub(super) starts: BTreeSet<i64>,
    pub(super) has_digits: bool,
    /// Whether a condition or a digit depends on other loops, too.
    pub(super) of_others: bool,
    /// The other loops of conditions.
    pub(super) others: RangeSet,
}

/// The parts of a range, in order, in which each condition on it alone has one answer, each on other loops, too, holds, and each digit has one
/// quotient; `None` if that is all of the range, or a condition asks for something else than sums and digits.
pub(crate) fn decided_parts(range: &UOp, dependencies: &Dependencies) -> Option<Vec<(i64, i64)>> {
    if is_reduce(range) { None } else { parts_of(range, dependencies) }
}

/// As [`decided_parts`], of the loop of a reduction, too.
pub(in crate::optimize::by_hand) fn parts_of(range: &UOp, dependencies: &Dependencies) -> Option<Vec<(i64, i64)>> {
    parts_and_points(range, dependencies).map(|(parts, _)| parts)
}

pub(super) fn parts_and_points(range: &UOp, dependencies: &Dependencies) -> Option<(Vec<(i64, i64)>, CutPoints)> {
    let len = range.src()[0].as_int()?;
    let id = range_id(range);
    let mut points = CutPoints::default();
    let mut holds = (0, len);
    let mut is_decided = true;
    for node in dependencies.order.iter().filter(|node| dependencies.get(node).contains(id)) {
        match node.op() {
            Op::Lt if node.src()[0].dtype().is_index() => {
                is_decided &= point_of_condition(node, range, &mut points, &mut holds)
            }
            Op::IDiv | Op::Mod if node.dtype().is_index() => points_of_digit(node, range, len, &mut points),
            _ => {}
        }
    }
    // A condition on a digit is a sum once the digit is cut.
    if !is_decided && !points.has_digits {
        return None;
    }
    points.starts.extend([holds.0, holds.1]);
    let inner: Vec<i64> = points.starts.iter().copied().filter(|point| (1..len).contains(point)).collect();
    let edges: Vec<i64> = [0].into_iter().chain(inner).chain([len]).collect();
    let parts = edges.windows(2).map(|edge| (edge[0], edge[1]));
    let decided: Vec<(i64, i64)> = parts.filter(|(begin, end)| holds.0 <= *begin && *end <= holds.1).collect();
    (edges.len() > 2 && !decided.is_empty()).then_some((decided, points))
}

/// Where a condition on a range is decided; whether that is known.
fn point_of_condition(node: &UOp, range: &UOp, points: &mut CutPoints, holds: &mut (i64, i64)) -> bool {
    let id = range_id(range);
    // Holds where step * range + rest > 0, for all the others or for some.
    let (terms, constant) = linear_terms(&(&node.src()[1] - &node.src()[0]));
    let (mut step, mut rest, mut of_others) = (0i64, constant, false);
    for (term, factor) in &terms {
        let own = Dependencies::of(term);
        if term == range {
            step = *factor;
        } else if own.get(term).contains(id) {
            return false;
        } else {
            of_others = true;
            points.others.union_with(own.get(term));
            let least = if *factor > 0 { term.min_value() } else { term.max_value() };
            let Some(sum) = least.checked_mul(*factor).and_then(|part| rest.checked_add(part)) else { return false };
            rest = sum;
        }
    }
    let point = match step {
        0 => return rest > 0,
        step if step > 0 => (-rest).div_euclid(step) + 1,
        // range < rest / -step
        step => (rest - 1).div_euclid(-step) + 1,
    };
    match (of_others, step > 0) {
        (false, _) => {
            points.starts.insert(point);
        }
        (true, true) => holds.0 = holds.0.max(point),
        (true, false) => holds.1 = holds.1.min(point),
    }
    points.of_others |= of_others;
    true
}

/// Where the quotient changes that a digit of a range stands for.
fn points_of_digit(node: &UOp, range: &UOp, len: i64, points: &mut CutPoints) {
    let Some(divisor) = node.src()[1].as_int().filter(|divisor| *divisor > 0) else { return };
    let (terms, constant) = linear_terms(&node.src()[0]);
    let [(term, step)] = terms.as_slice() else {
        points.of_others = true;
        return;
    };
    let at = |iteration: i64| step.checked_mul(iteration)?.checked_add(constant);
    let (true, Some(first), Some(last)) = (term == range, at(0), at(len - 1)) else { return };
    let (first, last) = (first.div_euclid(divisor), last.div_euclid(divisor));
    if first == last || (last - first).abs() >= PARTS_OF_DIGIT_MAX {
        return;
    }
    points.has_digits = true;
    for quotient in first.min(last) + 1..=first.max(last) {
        // The least value with this quotient; one that falls has it last, and the next iteration has the quotient before.
        let least = quotient * divisor - constant;
        let point = if *step > 0 { -(-least).div_euclid(*step) } else { (-least).div_euclid(-step) + 1 };
        points.starts.insert(point);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{Arg, AxisKind};

    fn parts(range: &UOp, value: &UOp) -> Option<Vec<(i64, i64)>> {
        decided_parts(range, &Dependencies::of(value))
    }

    #[test]
    fn conditions_are_decided_between_the_padding() {
        let (x, k) = (UOp::range(28, 0, AxisKind::Loop), UOp::range(3, 1, AxisKind::Reduce));
        let index = &x + &k;
        let gate = UOp::index(0).lt(&index) & index.lt(&UOp::index(29));
        assert_eq!(parts(&x, &gate), Some(vec![(1, 27)]));
        // In steps of two, of 56 elements the last window ends with the padding.
        let index = &x * 2 + &k;
        let gate = UOp::index(0).lt(&index) & index.lt(&UOp::index(57));
        assert_eq!(parts(&x, &gate), Some(vec![(1, 28)]));
        assert_eq!(parts(&x, &x.modulo(2).lt(&UOp::index(1))), None);
        assert_eq!(parts(&x, &UOp::index(-1).lt(&index)), None);
    }

    #[test]
    fn conditions_on_a_loop_alone_are_decided_on_both_sides() {
        let x = UOp::range(80, 0, AxisKind::Loop);
        let gate = x.lt(&UOp::index(30)) & UOp::index(29).lt(&x) & (&x * 2).lt(&UOp::index(101));
        assert_eq!(parts(&x, &gate), Some(vec![(0, 30), (30, 51), (51, 80)]));
    }

    #[test]
    fn every_part_has_one_quotient_and_one_answer() {
        for len in 1..24 {
            let x = UOp::range(len, 0, AxisKind::Loop);
            for (step, constant, divisor) in [1, 2, 3, -1, -3]
                .into_iter()
                .flat_map(|step| (-9..9).flat_map(move |constant| [3, 5, 16].map(|divisor| (step, constant, divisor))))
            {
                let sum = UOp::new(Op::Mul, x.dtype(), vec![x.clone(), UOp::index(step)], Arg::None) + constant;
                let answers = |iteration: i64| {
                    let sum = step * iteration + constant;
                    (sum.div_euclid(divisor), sum < divisor)
                };
                let value = (sum.modulo(divisor)).lt(&UOp::index(1)) & sum.lt(&UOp::index(divisor));
                let changes: Vec<i64> = (1..len).filter(|x| answers(*x) != answers(x - 1)).collect();
                let many = (answers(0).0 - answers(len - 1).0).abs() >= PARTS_OF_DIGIT_MAX;
                let Some(parts) = parts(&x, &value) else { continue };
                let starts: Vec<i64> = parts.iter().map(|(begin, _)| *begin).filter(|begin| *begin > 0).collect();
                assert!(
                    many || starts == changes,
                    "{step} * x + {constant} by {divisor}, {len}: {starts:?} {changes:?}"
                );
            }
        }
    }
}
