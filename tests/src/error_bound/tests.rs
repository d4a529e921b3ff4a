//! Bounds on small graphs: what is exact, what a sum may be off by, and that faults below the old tolerances are seen.

use super::*;

fn input(len: i64) -> UOp {
    UOp::param(0, DType::F32, len as u64)
}

fn bounded_of(root: &UOp, numbers: &[f64]) -> Bounded {
    let value = Value::from_f64(DType::F32, [numbers.len() as i64], numbers).expect("as many numbers");
    let leaves = |_: &UOp| Some(value.clone());
    bounded(std::slice::from_ref(root), &leaves).expect("a value").remove(0)
}

/// Numbers from 0 to 1 that look drawn.
fn drawn(count: usize) -> Vec<f64> {
    (0..count).map(|number| (number as u32).wrapping_mul(2_654_435_761) as f64 / 2f64.powi(32)).collect()
}

fn in_f32(numbers: impl Iterator<Item = f64>) -> Value {
    let sum = numbers.fold(0.0f32, |sum, x| sum + x as f32);
    Value::from_f64(DType::F32, [], &[f64::from(sum)]).expect("one number")
}

#[test]
fn moved_and_exact_elements_have_no_error() {
    let x = input(18);
    let root = x.reshape([3, 3, 2]).permute(&[2, 0, 1]).reshape([1, 1, 1, 18]) * 3 + 1;
    let bounded = bounded_of(&root, &drawn(18));
    assert!(bounded.errors.is_none() && bounded.value.shape() == [1, 1, 1, 18]);
    let mut wrong = bounded.value.to_f64();
    wrong[7] = f64::from(f32::from_bits((wrong[7] as f32).to_bits() + 1));
    let wrong = Value::from_f64(DType::F32, [18], &wrong).expect("18 numbers");
    assert!(compare(&bounded, &wrong).unwrap_err().starts_with("element 7 of [1, 1, 1, 18]"));
}

#[test]
fn a_term_that_is_missing_is_seen_and_another_order_is_not() {
    // A term of 0.03 in a sum of 500: the tolerance of 1e-4 of the largest element was 0.05.
    let mut numbers = drawn(1000);
    numbers[617] = 0.03;
    let sum = bounded_of(&input(1000).reduce(ReduceOp::Add, &[0]), &numbers);
    assert_eq!(compare(&sum, &in_f32(numbers.iter().copied())), Ok(()));
    assert_eq!(compare(&sum, &in_f32(numbers.iter().rev().copied())), Ok(()));
    let missing = numbers.iter().enumerate().filter(|(at, _)| *at != 617).map(|(_, x)| *x);
    let why = compare(&sum, &in_f32(missing)).unwrap_err();
    let (_, explained) = why.split_once("where rounding explains ").expect("the missing term");
    assert!(explained.parse::<f64>().expect("a number") < 0.012, "{why}");
}

#[test]
fn the_largest_element_hides_no_other() {
    let rows: Vec<f64> = (0..8).map(|at| if at < 4 { 1e6 } else { 0.1 }).collect();
    let sums = bounded_of(&input(8).reshape([2, 4]).reduce(ReduceOp::Add, &[1]), &rows);
    let found = |small: f64| Value::from_f64(DType::F32, [2], &[4e6, small]).expect("two numbers");
    assert_eq!(compare(&sums, &found(0.4)), Ok(()));
    assert!(compare(&sums, &found(0.4001)).is_err(), "1e-4 is nothing beside 4e6, and much beside 0.4");
}

#[test]
fn errors_follow_their_elements() {
    // One row is summed and the other is not; both go through a flip, a pad and a gather.
    let x = input(6).reshape([2, 3]);
    let row = |at: i64| x.shrink(&[(at.into(), (at + 1).into()), (0.into(), 3.into())]);
    let sum = row(0).reduce(ReduceOp::Add, &[1]).reshape([1, 1]).expand([1, 3]);
    let root = (&sum * row(1)).reshape([3]).flip(&[0]).pad(&[(1.into(), 0.into())]);
    let bounded = bounded_of(&root, &[0.1, 0.2, 0.3, 1.0, 0.0, 100.0]);
    let errors: Vec<f64> = (0..4).map(|at| bounded.error(at)).collect();
    assert!(errors[0] == 0.0 && errors[1] > 50.0 * errors[3] && errors[2] < 1e-40 && errors[3] > 0.0, "{errors:?}");
    let index = UOp::iota(2).cast(DType::I32);
    let gathered = bounded_of(&root.gather(&index, 0), &[0.1, 0.2, 0.3, 1.0, 0.0, 100.0]);
    assert_eq!([gathered.error(0), gathered.error(1)], [errors[0], errors[1]]);
}

#[test]
fn what_rounding_decides_is_not_judged_and_all_else_is() {
    let sum = input(4).reduce(ReduceOp::Add, &[0]);
    let near = bounded_of(&sum.lt(&UOp::float(1.0, DType::F32)), &[0.1, 0.2, 0.3, 0.4]);
    assert_eq!(near.judged(), 0);
    let far = bounded_of(&sum.lt(&UOp::float(2.0, DType::F32)), &[0.1, 0.2, 0.3, 0.4]);
    assert_eq!(far.judged(), 1);
    let wrong = Value::from_f64(DType::BOOL, [], &[0.0]).expect("a bool");
    assert!(compare(&near, &wrong).is_ok() && compare(&far, &wrong).is_err());
    assert!(compare(&far, &Value::index(1)).is_err(), "of another type");
}

#[test]
fn blocks_round_less_often() {
    assert_eq!(roundings(200.0, DType::F32, false), 200.0);
    assert_eq!(roundings(1000.0, DType::F32, false), 256.0 + 4.0 + JOINS_MAX);
    assert_eq!(roundings(1000.0, DType::F32, true), 1000.0);
    assert_eq!(roundings(1e6, DType::F32, false), 512.0 + 16.0 + JOINS_MAX);
    assert_eq!(roundings(1000.0, DType::F16, false), 1000.0);
}

#[test]
fn stores_to_views_put_bounds_where_the_values_are() {
    let target = UOp::param(0, DType::F32, 4).shrink(&[(1.into(), 3.into())]);
    let rows = UOp::param(1, DType::F32, 6).reshape([2, 3]).reduce(ReduceOp::Add, &[1]);
    let ast = UOp::sink([UOp::new(Op::Store, DType::VOID, vec![target, rows], Arg::None)]);
    let leaves = |node: &UOp| match node.arg() {
        Arg::Param(param) => Value::from_f64(DType::F32, [param.len as i64], &drawn(param.len as usize)),
        _ => None,
    };
    let stored = bounded_kernel(&ast, &leaves).expect("a value");
    let errors: Vec<bool> = (0..4).map(|at| stored[0].1.error(at) > 0.0).collect();
    assert_eq!((stored.len(), stored[0].0, errors), (1, 0, vec![false, true, true, false]));
}
