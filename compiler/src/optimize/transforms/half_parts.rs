//! A factor in `f32` as a sum of half floats, so that matrices of half floats give its products.
//!
//! ```text
//! x = a + b + c        a: the upper 8 bits of x, b: those of x - a, c: what is left
//! ```
//!
//! A number in `f32` has 24 bits and one in `bf16` 8, with exponents that go as far: three lose nothing, and two 2^-16. Numbers of `f16` have 11 bits but do not go as far. So that type takes weights of
//! a softmax alone, which are between 0 and 1; two of it have all bits but one.
//!
//! What a weight is, is proven: a power of e of a score of which the largest one of its row is taken away, kept in a local buffer.
//!
//! Tested below, with opts in the test crate, and by attention there.

use crate::DType;
use crate::ir::{Arg, Op, ReduceOp, UOp};
use crate::kernel::powers::exponent_of;
use crate::kernel::ranges::{closed_ranges, open_operands};
use crate::symbolic::linear_terms;

/// Numbers of `bf16`, of 8 bits, that a factor in `f32`, of 24, becomes; and where results are half floats.
pub(super) const PARTS: usize = 3;
pub(super) const PARTS_FOR_HALVES: usize = 2;
/// Weights are between 0 and 1: as many times larger they are numbers of `f16` still, and what is less than 2^-14 of that has all of its bits.
pub(super) const WEIGHT_SCALE: f64 = 32768.0;
/// Of the bits of `f32`, those that `bf16` has.
const UPPER_BITS: i64 = 0xffff_0000;

pub(super) fn is_half(dtype: DType) -> bool {
    [DType::F16, DType::BF16].contains(&dtype)
}

/// What a factor is in half floats, if it is widened; else itself.
pub(super) fn narrow_part(factor: &UOp) -> &UOp {
    let is_widened = factor.op() == Op::Cast && is_half(factor.src()[0].dtype());
    if is_widened { &factor.src()[0] } else { factor }
}

/// A factor as a sum of half floats, the smallest first; of one that is no half float so many of `bf16`. All but the smallest are its upper bits, which the rest then lacks: what is rounded is the
/// rest alone. Of `f16` two have all bits but one; weights are scaled before, for small ones would have fewer.
pub(super) fn parts_of(factor: &UOp, half: DType, count: usize) -> Vec<UOp> {
    if factor.dtype() == half {
        return vec![factor.clone()];
    }
    if half == DType::F16 {
        let scaled = factor * UOp::float(WEIGHT_SCALE, DType::F32);
        let first = scaled.cast(half);
        return vec![(&scaled - first.cast(DType::F32)).cast(half), first];
    }
    let (mut parts, mut rest) = (Vec::new(), factor.clone());
    for _ in 1..count {
        let upper = UOp::int(UPPER_BITS, DType::U32);
        let part = UOp::binary(Op::And, &rest.bitcast(DType::U32), &upper).bitcast(DType::F32);
        // Of infinity nothing is left, and not what infinity lacks of itself.
        rest = part.equals(&rest).select(rest.const_like(0), &rest - &part);
        parts.push(part.cast(half));
    }
    parts.push(rest.cast(half));
    parts.reverse();
    parts
}

/// Whether a factor is loaded from a local buffer of powers of e of numbers of which the largest one of their row is taken away: it is between 0 and 1.
pub(super) fn is_weight(factor: &UOp) -> bool {
    let Some(value) = kept_value(factor) else { return false };
    let distance = exponent_of(value).and_then(|clamped| clamped.src().first().cloned());
    let Some([score, largest]) = distance.as_ref().filter(|node| node.op() == Op::Sub).map(UOp::src) else {
        return false;
    };
    // Where the largest is minus infinity, all are, and nothing is taken away.
    let largest = match (largest.op(), largest.src()) {
        (Op::Where, [condition, zero, largest]) if is_minus_infinity(condition, largest) && is_number(zero, 0.0) => {
            largest
        }
        _ => largest,
    };
    let (mut ranges, mut other) = (Vec::new(), largest);
    while other.op() == Op::ReduceRange && *other.arg() == Arg::Combine(ReduceOp::Max) {
        ranges.extend(closed_ranges(other).iter().cloned());
        other = &open_operands(other)[0];
    }
    is_among(score, other, &ranges)
}

/// Whether a condition says that a number is minus infinity.
fn is_minus_infinity(condition: &UOp, number: &UOp) -> bool {
    let others = || condition.src().iter().filter(|operand| *operand != number);
    condition.op() == Op::Eq && others().count() == 1 && others().all(|other| is_number(other, f64::NEG_INFINITY))
}

fn is_number(node: &UOp, number: f64) -> bool {
    node.as_scalar().is_some_and(|scalar| scalar.to_f64() == number)
}

/// What is stored in the local buffer that a load reads, if one store fills it.
fn kept_value(load: &UOp) -> Option<&UOp> {
    let buffer = load.src().first().filter(|_| load.op() == Op::Load)?.src().first()?;
    let [store] = buffer.src() else { return None };
    (buffer.op() == Op::LocalBuffer && store.op() == Op::Store && *store.arg() == Arg::None).then(|| &store.src()[1])
}

/// Whether one load reads an element that the other one reads in some iteration of these ranges: these step through all offsets from 0 on, and the rest of the offset is the same.
fn is_among(one: &UOp, other: &UOp, ranges: &[UOp]) -> bool {
    let is_load = |node: &UOp| node.op() == Op::Load && node.src()[0].src().len() == 2;
    if !is_load(one) || !is_load(other) || one.src()[0].src()[0] != other.src()[0].src()[0] {
        return false;
    }
    let ((mut left, of_one), (terms, of_other)) =
        (linear_terms(&one.src()[0].src()[1]), linear_terms(&other.src()[0].src()[1]));
    let (mut own, rest): (Vec<_>, Vec<_>) = terms.into_iter().partition(|(term, _)| ranges.contains(term));
    own.sort_unstable_by_key(|(_, step)| *step);
    let reach = |terms: &[(UOp, i64)]| -> i64 {
        terms.iter().map(|(term, step)| step.saturating_mul(term.max_value())).fold(0, i64::saturating_add)
    };
    let is_dense = (0..own.len()).all(|at| own[at].1 > 0 && own[at].1 <= reach(&own[..at]) + 1);
    let shared = rest.iter().all(|term| left.contains(term));
    left.retain(|term| !rest.contains(term));
    let is_range = |(term, step): &(UOp, i64)| term.op() == Op::Range && *step > 0;
    of_one == of_other && shared && is_dense && left.iter().all(is_range) && reach(&left) <= reach(&own)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::Scalar;
    use crate::ir::{AxisKind, Evaluator, MemorySpace};

    /// What the parts of a number come to.
    fn sum_of(parts: &[UOp], number: f32) -> f64 {
        let widened: Vec<UOp> = parts.iter().map(|part| part.cast(DType::F32)).collect();
        let mut evaluator = Evaluator::new(&widened);
        let values = evaluator.evaluate(&[Scalar::from_f64(f64::from(number), DType::F32)]).expect("floats");
        values.iter().map(|value| value.to_f64()).sum()
    }

    #[test]
    fn parts_lose_no_more_than_they_say() {
        let memory = UOp::param(0, DType::F32, 1);
        let x = load(&memory, &UOp::index(0));
        let [three, two] = [PARTS, PARTS_FOR_HALVES].map(|count| parts_of(&x, DType::BF16, count));
        let weights = parts_of(&x, DType::F16, PARTS);
        assert_eq!((three.len(), two.len(), weights.len()), (3, 2, 2));
        for number in [1.0f32, 0.1, 1.0 / 3.0, 0.999_999_94, 1e-30, 3.4e38, 65_519.0, -7.3, 0.0] {
            let of = f64::from(number);
            assert_eq!(sum_of(&three, number), of);
            assert!((sum_of(&two, number) - of).abs() <= of.abs() * 2f64.powi(-16), "{number}");
            let error = (sum_of(&weights, number) / WEIGHT_SCALE - of).abs();
            assert!(
                !(0.0..=1.0).contains(&number) || error <= of * 2f64.powi(-22) + 2f64.powi(-39),
                "{number}: {error}"
            );
        }
        assert_eq!(sum_of(&three, f32::INFINITY), f64::INFINITY);
        assert_eq!(sum_of(&two, f32::NEG_INFINITY), f64::NEG_INFINITY);
        assert!(sum_of(&two, f32::NAN).is_nan());
    }

    /// A load of a row's element from a local buffer.
    fn load(buffer: &UOp, offset: &UOp) -> UOp {
        let index = UOp::new(Op::Index, DType::F32, vec![buffer.clone(), offset.clone()], Arg::None);
        UOp::new(Op::Load, DType::F32, vec![index], Arg::None)
    }

    #[test]
    fn the_largest_of_a_row_is_one_of_all_its_elements() {
        let memory = UOp::new(Op::Scratch, DType::F32, vec![], Arg::Scratch(0, 64, MemorySpace::Private));
        let [row, one, pair, lane] =
            [(4, 0), (8, 1), (2, 2), (4, 3)].map(|(len, id)| UOp::range(len, id, AxisKind::Loop));
        let score = load(&memory, &(&row * 8 + &one));
        let all = load(&memory, &(&row * 8 + &lane * 2 + &pair));
        assert!(is_among(&score, &all, &[pair.clone(), lane.clone()]));
        // Of another row, of one row whatever the other's is, of every second element, of half of them, and of other memory.
        assert!(!is_among(&score, &load(&memory, &(&row * 4 + &lane * 2 + &pair)), &[pair.clone(), lane.clone()]));
        assert!(!is_among(&load(&memory, &one), &all, &[pair.clone(), lane.clone()]));
        assert!(!is_among(&score, &load(&memory, &(&row * 8 + &lane * 2)), std::slice::from_ref(&lane)));
        assert!(!is_among(&score, &load(&memory, &(&row * 8 + &lane)), std::slice::from_ref(&lane)));
        assert!(!is_among(&score, &all, std::slice::from_ref(&lane)));
        let other = UOp::new(Op::Scratch, DType::F32, vec![], Arg::Scratch(1, 64, MemorySpace::Private));
        assert!(!is_among(&score, &load(&other, &(&row * 8 + &lane * 2 + &pair)), &[pair, lane]));
    }
}
