//! Expressions with more constants than registers, whose loop bodies become functions of their own (`renderer/src/llvm/outlined.rs`), against plain arithmetic.
//!
//! All numbers are small integers, so that `f32` holds them exactly.

use warpweft::{DType, Tensor};

const STEPS: usize = 150;

/// The constant of a step: all are different.
fn constant(step: usize) -> i64 {
    1 + (step * 37 % 151) as i64
}

/// A step of the expression, of the element and of what its row has.
fn stepped(value: i64, of_row: i64, step: usize) -> i64 {
    match step % 4 {
        0 => value + constant(step),
        1 => (value - constant(step)).max(constant(step) * -2),
        2 if value < constant(step) * 3 => value + of_row,
        2 => value - 1000,
        _ => value.min(constant(step) * 20),
    }
}

fn step_of_tensors(value: &Tensor, of_row: &Tensor, step: usize) -> Tensor {
    let c = constant(step);
    match step % 4 {
        0 => value + c,
        1 => (value - c).maximum(-2 * c),
        2 => value.lt(3 * c).where_(&(value + of_row), &(value - 1000)),
        _ => value.minimum(20 * c),
    }
}

fn check(rows: usize, columns: usize, dtype: DType) {
    let number = |at: usize| (at * 7 % 501) as i64 - 250;
    let elements: Vec<i64> = (0..rows * columns).map(number).collect();
    let of_rows: Vec<i64> = (0..rows).map(|row| row as i64 % 3).collect();
    let tensor = |values: &[i64], shape: [i64; 2]| Tensor::from_vec(values.to_vec(), shape).cast(dtype);
    let x = tensor(&elements, [rows as i64, columns as i64]);
    let of_row = tensor(&of_rows, [rows as i64, 1]);
    let (mut value, mut wanted) = (x, elements);
    for step in 0..STEPS {
        value = step_of_tensors(&value, &of_row, step);
        for (at, element) in wanted.iter_mut().enumerate() {
            *element = stepped(*element, of_rows[at / columns], step);
        }
    }
    assert_eq!(value.cast(DType::I64).to_vec::<i64>().unwrap(), wanted, "{rows} x {columns} of {dtype}");
    // A mask of narrow bytes, and a sum, whose loop has a value across iterations.
    let positive: Vec<bool> = wanted.iter().map(|element| *element > 0).collect();
    assert_eq!(value.gt(0).to_vec::<bool>().unwrap(), positive, "{rows} x {columns} of {dtype}");
    let sums: Vec<i64> = wanted.chunks(columns).map(|row| row.iter().sum()).collect();
    assert_eq!(value.cast(DType::I64).sum(1).to_vec::<i64>().unwrap(), sums, "{rows} x {columns} of {dtype}");
}

#[test]
fn expressions_with_more_constants_than_registers() {
    for dtype in [DType::F32, DType::F64, DType::I32, DType::I64] {
        for (rows, columns) in [(1, 1), (1, 1000), (5, 37), (64, 64)] {
            check(rows, columns, dtype);
        }
    }
}

#[test]
fn what_is_masked_in_such_an_expression() {
    // Elements that are not there: under a mask, from memory that holds zeros where whole rows are not there, and under a branch where there are no vectors.
    let paddings = [[(1, 2), (0, 3)], [(1, 2), (0, 0)], [(1, 1), (1, 1)]];
    for ((rows, columns), padding) in
        [(1, 1000), (3, 48), (40, 7), (2, 1), (3, 1)].into_iter().zip(paddings.iter().cycle())
    {
        masked(rows, columns, *padding);
        masked(rows, columns, [(1, 2), (0, 0)]);
    }
}

fn masked(rows: usize, columns: usize, padding: [(i64, i64); 2]) {
    let elements: Vec<i64> = (0..rows * columns).map(|at| at as i64 % 97).collect();
    let x = Tensor::from_vec(elements.clone(), [rows as i64, columns as i64]).cast(DType::F32);
    let mut value = x.pad(&padding);
    let mut wanted: Vec<i64> = Vec::new();
    let [above, left] = padding.map(|(before, _)| before as usize);
    let [below, right] = padding.map(|(_, behind)| behind as usize);
    for row in 0..rows + above + below {
        for column in 0..columns + left + right {
            let is_there = (above..rows + above).contains(&row) && (left..columns + left).contains(&column);
            wanted.push(if is_there { elements[(row - above) * columns + column - left] } else { 0 });
        }
    }
    for step in 0..STEPS {
        value = step_of_tensors(&value, &x.narrow(0, 0, 1).narrow(1, 0, 1), step);
        wanted.iter_mut().for_each(|element| *element = stepped(*element, 0, step));
    }
    let got = value.cast(DType::I64).to_vec::<i64>().unwrap();
    assert_eq!(got, wanted, "{rows} x {columns}, padded by {padding:?}");
}
