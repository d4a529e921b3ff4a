//! What is known of a result contains the result: every op on every integer type, against the interpreter's arithmetic.
//!
//! A case is an op, a type and what is known of each operand; it is checked for values that the operands may have. Ends of sets and
//! values are those at which something changes: the ends of the type, their neighbours and halves, zero, small numbers and powers of two. Of 8-bit
//! types all pairs of constants are tried too. Takes some seconds in a debug build.

use super::facts::Facts;
use super::{Op, is_defined, scalar_op};
use crate::dtype::{DType, Scalar};

const INTEGERS: [DType; 9] =
    [DType::I8, DType::I16, DType::I32, DType::I64, DType::U8, DType::U16, DType::U32, DType::U64, DType::INDEX];

const BINARY: [Op; 15] = [
    Op::Add,
    Op::Sub,
    Op::Mul,
    Op::IDiv,
    Op::Mod,
    Op::CDiv,
    Op::CMod,
    Op::Max,
    Op::Min,
    Op::And,
    Op::Or,
    Op::Xor,
    Op::Shl,
    Op::Shr,
    Op::Lt,
];

/// Numbers at which something changes, those of the type.
fn points(dtype: DType) -> Vec<i64> {
    let (low, high) = dtype.integer_bounds().expect("an integer type");
    let near = [0, 1, 2, 3, 4, 7, 8, 9, 31, 63, 64];
    let far = [low, low + 1, low / 2, high / 2, high / 2 + 1, high - 1, high];
    let mut points: Vec<i64> = near.iter().flat_map(|near| [*near, -near]).chain(far).collect();
    points.retain(|point| (low..=high).contains(point));
    points.sort_unstable();
    points.dedup();
    points
}

/// Intervals between those points, some of which hold every third or fourth number only.
fn sets(dtype: DType, every: usize) -> Vec<Facts> {
    let points = points(dtype);
    let mut sets: Vec<Facts> = Vec::new();
    let pairs = points.iter().enumerate().flat_map(|(k, low)| points[k..].iter().map(move |high| (*low, *high)));
    for (number, (low, high)) in pairs.enumerate() {
        let single = low == high;
        if single || number % every == 0 {
            sets.push(Facts::between(low, high));
        }
        if !single && number % (2 * every) == 0 {
            for modulus in [3, 4] {
                let remainder = low.rem_euclid(modulus);
                sets.push(Facts { min: low, max: high, modulus, remainder });
            }
        }
    }
    if dtype == DType::U64 {
        // Larger ones have no facts.
        sets.push(Facts::ANY);
    }
    sets
}

/// Members of a set: its ends, the points, and what lies beside them.
fn members(set: Facts, dtype: DType) -> Vec<Scalar> {
    let beside = |point: i64| (-2..=2).map(move |step| point.saturating_add(step));
    let mut values: Vec<i64> = [set.min, set.max].into_iter().chain(points(dtype)).flat_map(beside).collect();
    values.sort_unstable();
    values.dedup();
    let own: Vec<i64> = values.into_iter().filter(|value| set.contains(*value)).collect();
    let step = own.len() / 9 + 1;
    let first_and_last = [own[0], own[own.len() - 1]];
    let spread = own.iter().copied().step_by(step).chain(first_and_last);
    spread.map(|value| Scalar::from_i64(value, dtype)).collect()
}

#[track_caller]
fn check(op: Op, dtype: DType, operand: DType, facts: &[Facts], values: &[Scalar], known: Facts) {
    let result = scalar_op(op, dtype, operand, values).expect("defined");
    assert!(
        known.contains(result.to_i64()),
        "{op} of {operand} {values:?} is {result:?}, not in {known:?} of {facts:?}"
    );
}

fn result_type(op: Op, dtype: DType) -> DType {
    if op.is_comparison() { DType::BOOL } else { dtype }
}

#[test]
fn facts_of_two_operands_contain_every_result() {
    for dtype in INTEGERS {
        let sets = sets(dtype, 7);
        let members: Vec<Vec<Scalar>> = sets.iter().map(|set| members(*set, dtype)).collect();
        for op in BINARY.into_iter().chain([Op::Eq, Op::Ne]) {
            let result = result_type(op, dtype);
            for (a, values) in sets.iter().zip(&members) {
                for (b, others) in sets.iter().zip(&members) {
                    let known = Facts::of_op(op, result, dtype, &[*a, *b]);
                    // Ends with ends, and each value with some other.
                    let last = |values: &[Scalar]| values[values.len() - 1];
                    let ends = [(values[0], last(others)), (last(values), others[0]), (last(values), last(others))];
                    let pairs = values.iter().copied().zip(others.iter().copied().cycle()).chain(ends);
                    for (x, y) in pairs {
                        check(op, result, dtype, &[*a, *b], &[x, y], known);
                    }
                }
            }
        }
    }
}

#[test]
fn facts_of_all_8_bit_constants_are_the_result_or_say_nothing() {
    for dtype in [DType::I8, DType::U8] {
        let (low, high) = dtype.integer_bounds().expect("an integer type");
        for op in BINARY {
            let result = result_type(op, dtype);
            for a in low..=high {
                for b in low..=high {
                    let facts = [Facts::exactly(a), Facts::exactly(b)];
                    let values = [Scalar::from_i64(a, dtype), Scalar::from_i64(b, dtype)];
                    check(op, result, dtype, &facts, &values, Facts::of_op(op, result, dtype, &facts));
                }
            }
        }
    }
}

#[test]
fn facts_of_other_ops_contain_every_result() {
    for dtype in INTEGERS {
        for set in sets(dtype, 2) {
            for value in members(set, dtype) {
                for op in [Op::Neg, Op::Not, Op::Trunc] {
                    check(op, dtype, dtype, &[set], &[value], Facts::of_op(op, dtype, dtype, &[set]));
                }
                for to in INTEGERS.into_iter().chain([DType::BOOL]) {
                    check(Op::Cast, to, dtype, &[set], &[value], Facts::of_op(Op::Cast, to, dtype, &[set]));
                }
            }
        }
        let sets = sets(dtype, 60);
        for a in &sets {
            for b in &sets {
                for c in &sets {
                    let known = Facts::of_op(Op::MulAdd, dtype, dtype, &[*a, *b, *c]);
                    let choice = Facts::of_op(Op::Where, dtype, dtype, &[Facts::between(0, 1), *a, *b]);
                    let ends = |set: &Facts| [set.min, set.max].map(|value| Scalar::from_i64(value, dtype));
                    for number in 0..8usize {
                        let pick = |set: &Facts, bit: usize| ends(set)[number >> bit & 1];
                        let values = [pick(a, 0), pick(b, 1), pick(c, 2)];
                        if [a, b, c].iter().zip(&values).all(|(set, value)| set.contains(value.to_i64())) {
                            check(Op::MulAdd, dtype, dtype, &[*a, *b, *c], &values, known);
                            let values = [Scalar::Bool(number > 3), values[0], values[1]];
                            check(Op::Where, dtype, dtype, &[*a, *b], &values, choice);
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn facts_of_bools_contain_every_result() {
    let sets = [Facts::exactly(0), Facts::exactly(1), Facts::between(0, 1)];
    let members = |set: &Facts| (set.min..=set.max).map(|value| Scalar::Bool(value == 1));
    for op in Op::ALL.iter().copied().filter(|op| is_defined(*op, DType::BOOL) && op.is_elementwise()) {
        if matches!(op, Op::Cast | Op::Bitcast) {
            continue;
        }
        for number in 0..27 {
            let [a, b, c] = [&sets[number / 9], &sets[number / 3 % 3], &sets[number % 3]];
            let facts = &[*a, *b, *c][..op.arity()];
            let known = Facts::of_op(op, DType::BOOL, DType::BOOL, facts);
            for x in members(a) {
                for y in members(b) {
                    for z in members(c) {
                        check(op, DType::BOOL, DType::BOOL, facts, &[x, y, z][..op.arity()], known);
                    }
                }
            }
        }
    }
}

#[test]
fn what_is_known_is_not_lost_where_nothing_wraps() {
    let of = |op, a, b| Facts::of_op(op, DType::INDEX, DType::INDEX, &[a, b]);
    let range = Facts::between(0, 9);
    let fours = of(Op::Mul, range, Facts::exactly(4));
    assert_eq!(fours, Facts { min: 0, max: 36, modulus: 4, remainder: 0 });
    assert_eq!(of(Op::Add, fours, Facts::exactly(3)), Facts { min: 3, max: 39, modulus: 4, remainder: 3 });
    assert_eq!(of(Op::IDiv, fours, Facts::exactly(2)), Facts { min: 0, max: 18, modulus: 2, remainder: 0 });
    assert_eq!(
        of(Op::Mod, of(Op::Add, fours, Facts::exactly(1)), Facts::exactly(8)),
        Facts { min: 1, max: 5, modulus: 4, remainder: 1 }
    );
    assert_eq!(of(Op::Sub, range, range), Facts::between(-9, 9));
    // Whatever wraps, a multiple of four stays one.
    let wrapped = of(Op::Mul, Facts::ANY, Facts::exactly(12));
    assert_eq!(wrapped, Facts { modulus: 4, ..Facts::ANY });
    assert_eq!(Facts::of_op(Op::Add, DType::I8, DType::I8, &[Facts::between(100, 120); 2]), Facts::between(-128, 127));
    assert_eq!(
        Facts::of_op(Op::Sub, DType::I64, DType::I64, &[Facts::exactly(-9), Facts::exactly(i64::MIN)]),
        Facts::exactly(i64::MAX - 8)
    );
    assert_eq!(
        Facts::of_op(Op::Sub, DType::I64, DType::I64, &[Facts::exactly(9), Facts::exactly(i64::MIN)]),
        Facts::ANY
    );
}
