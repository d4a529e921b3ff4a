//! Tensors updated in place beside other work that reads them: reductions, values kept in scratch, views in other orders, several outputs.
//!
//! Each program runs twice: lazily, and with every value on the way in memory of its own, where there is nothing to get wrong. (Random
//! programs of this kind: the generators of effects in this crate. What is decided where: the hazards of `writes`.)

use warpweft::tensor::ScatterReduce;
use warpweft::{DType, Tensor, Var, compile, spec};

/// Numbers are at most about 10, sums of at most 1,000 terms of about 1: f32 keeps these to four decimals in any order.
const OFF_BY: f32 = 1e-4;

fn numbers(shape: &[i64], seed: u64) -> Tensor {
    let count: i64 = shape.iter().product();
    let number = |k: u64| ((k * 7919 + seed * 104_729) % 2003) as f32 / 1000.0 - 1.0;
    let x = Tensor::from_vec((0..count as u64).map(number).collect::<Vec<f32>>(), shape.to_vec());
    x.realize().unwrap();
    x
}

/// How a program treats the values on its way.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Lazy,
    /// Each in memory of its own.
    Copied,
}

impl Way {
    fn value(self, x: Tensor) -> Tensor {
        match self {
            Way::Lazy => x,
            Way::Copied => Tensor::from_vec(x.to_vec::<f32>().unwrap(), x.shape().unwrap()),
        }
    }
}

#[track_caller]
fn check(about: &str, program: impl Fn(Way) -> Vec<Tensor>) {
    let wanted: Vec<Vec<f32>> = program(Way::Copied).iter().map(|x| x.to_vec().unwrap()).collect();
    let outcome = program(Way::Lazy);
    Tensor::realize_all(&outcome.iter().collect::<Vec<_>>()).unwrap();
    assert!(
        outcome.len() == wanted.len() && !wanted.is_empty(),
        "{about}: {} values and {}",
        outcome.len(),
        wanted.len()
    );
    for (number, (x, wanted)) in outcome.iter().zip(&wanted).enumerate() {
        let found = x.to_vec::<f32>().unwrap();
        assert_eq!(found.len(), wanted.len(), "{about}, value {number}");
        let wrong = found
            .iter()
            .zip(wanted)
            .filter(|(found, wanted)| (*found - *wanted).abs() > OFF_BY || found.is_nan())
            .count();
        assert!(
            wrong == 0,
            "{about}, value {number}: {wrong} of {} are wrong: {found:?}, not {wanted:?}",
            wanted.len()
        );
    }
}

const SHAPES: [[i64; 2]; 6] = [[64, 100], [3, 5], [17, 33], [1, 100], [64, 64], [5, 1000]];

#[test]
fn what_is_kept_in_scratch_is_added_in_place() {
    for shape in SHAPES {
        check(&format!("x += softmax(z), {shape:?}"), |way| {
            let (x, z) = (numbers(&shape, 1), numbers(&shape, 2));
            x.add_assign(way.value(z.softmax(-1))).unwrap();
            vec![x]
        });
        check(&format!("x = softmax(x), {shape:?}"), |way| {
            let x = numbers(&shape, 1);
            x.assign(way.value(x.softmax(1))).unwrap();
            vec![x]
        });
        check(&format!("softmax of reversed rows, {shape:?}"), |way| {
            let x = numbers(&shape, 1);
            let reversed = x.flip(1);
            reversed.add_assign(2.0).unwrap();
            reversed.sub_assign(way.value(reversed.softmax(1))).unwrap();
            vec![x]
        });
    }
}

#[test]
fn readers_of_a_view_run_before_it_is_replaced() {
    for length in [64, 100, 5] {
        check(&format!("reversed, {length}"), |way| {
            let (x, s) = (numbers(&[length], 1), numbers(&[length], 2));
            let reversed = x.flip(0);
            let (total, sum) = (way.value((&reversed * 2.0).sum(())), way.value(&reversed * 2.0 + &s));
            reversed.assign(&s).unwrap();
            vec![total, sum, x]
        });
        check(&format!("transposed, {length}"), |way| {
            let (x, s) = (numbers(&[length, length], 1), numbers(&[length, length], 2));
            let columns = x.t();
            let (total, sum) = (way.value((&columns * 2.0).sum(())), way.value(&columns * 2.0 + &s));
            columns.assign(&s).unwrap();
            vec![total, sum, x]
        });
    }
}

#[test]
fn values_at_other_indices_are_computed_before() {
    for shape in SHAPES {
        check(&format!("rolled, {shape:?}"), |way| {
            let x = numbers(&shape, 1);
            x.assign(way.value((&x * 3.0).roll(-1, 1))).unwrap();
            vec![x]
        });
        check(&format!("rolled and added, {shape:?}"), |way| {
            let x = numbers(&shape, 1);
            let upside_down = x.flip(0);
            upside_down.add_assign(way.value((&upside_down + &upside_down).roll(3, 1))).unwrap();
            vec![x]
        });
        check(&format!("reversed and subtracted, {shape:?}"), |way| {
            let x = numbers(&shape, 1);
            let longer = x.unsqueeze(1);
            longer.mul_assign(way.value(longer.contiguous())).unwrap();
            x.sub_assign(way.value((&x + &x).flip(1))).unwrap();
            vec![x]
        });
        check(&format!("two writes and a softmax, {shape:?}"), |way| {
            let x = numbers(&shape, 1);
            let weights = way.value(x.softmax(1));
            let columns = x.permute([1, 0]);
            columns.mul_assign(way.value(columns.contiguous())).unwrap();
            x.sub_assign(way.value(&x + 1.0)).unwrap();
            vec![x, weights]
        });
    }
}

#[test]
fn what_is_written_to_one_tensor_is_read_by_another() {
    check("windows and a mean", |way| {
        let (x, y) = (numbers(&[1, 2, 5], 1), numbers(&[2, 1, 1], 2));
        let windows = y.unfold(0, 2, 2);
        windows.add_assign(5.0).unwrap();
        x.sub_assign(way.value(x.softmax(1))).unwrap();
        windows.sub_assign(way.value(x.mean([1, 2]))).unwrap();
        vec![x, y]
    });
    check("scattered after a write", |way| {
        let x = numbers(&[7, 1], 1);
        x.add_assign(1.0).unwrap();
        let index = Tensor::from_vec(vec![3i32, 6, 1, 6, 3], [5, 1]);
        let sums = way.value(x.scatter_reduce(0, &index, &numbers(&[5, 1], 2), ScatterReduce::Sum, true));
        vec![x, sums]
    });
    check("sorted into itself", |way| {
        let x = numbers(&[1, 5], 1);
        x.expand([1, 1, 5]).assign(way.value(x.contiguous())).unwrap();
        let row = x.index_select(0, &Tensor::from_vec(vec![0i32], [1]));
        x.mul_assign(way.value(row.sort(1, false).unwrap().0)).unwrap();
        vec![x]
    });
}

#[test]
fn of_several_values_for_one_element_the_last_stays() {
    for size in 1..30i64 {
        for count in [1, 3, 5, 6, 11] {
            let (x, values) = (numbers(&[size, 3], 1), numbers(&[count, 3], 2));
            let (mut wanted, source) = (x.to_vec::<f32>().unwrap(), values.to_vec::<f32>().unwrap());
            let index: Vec<i32> = (0..count).map(|k| ((k * 7 + 3) % size) as i32).collect();
            for (k, row) in index.iter().map(|row| *row as usize).enumerate() {
                wanted[row * 3..row * 3 + 3].copy_from_slice(&source[k * 3..k * 3 + 3]);
            }
            x.index_assign(&[0], &[&Tensor::from_vec(index, [count])], &values).unwrap();
            assert_eq!(x.to_vec::<f32>().unwrap(), wanted, "{count} rows into {size}");
        }
    }
}

#[test]
fn rows_of_a_cache_are_updated_by_a_function() {
    for (rows, width) in [(16, 100), (8, 64), (5, 33)] {
        let normed = |x: &Tensor| {
            let centered = x - x.mean(1).unsqueeze(1);
            let variance = (&centered * &centered).mean(1).unsqueeze(1);
            &centered / (variance + 1e-5).sqrt()
        };
        let (cache, x) = (numbers(&[rows, width], 1), numbers(&[2, width], 5));
        let mut wanted = cache.to_vec::<f32>().unwrap();
        wanted[width as usize..3 * width as usize].copy_from_slice(&normed(&x).to_vec::<f32>().unwrap());
        let step = compile([spec(DType::F32, [2, width])], |[x]| {
            let y = normed(&x);
            cache.narrow(0, 1, 2).assign(&y)?;
            Ok([y.sum(())])
        });
        step.unwrap().call([&x]).unwrap();
        let found = cache.to_vec::<f32>().unwrap();
        assert!(found.iter().zip(&wanted).all(|(found, wanted)| (found - wanted).abs() <= OFF_BY), "{rows} x {width}");
    }
}

#[test]
fn sums_along_a_variable_and_another_axis() {
    for (rows, columns) in [(4, 40), (40, 100), (7, 512)] {
        let n = Var::new("n", 1..=columns).unwrap();
        let x = numbers(&[rows, columns], 1);
        let values = x.to_vec::<f32>().unwrap();
        for length in [1, columns / 2, columns - 1, columns] {
            let sum = x.narrow(1, 0, n.bind(length).unwrap()).permute([1, 0]).sum(()).item::<f32>().unwrap();
            let wanted: f64 =
                values.chunks(columns as usize).flat_map(|row| &row[..length as usize]).map(|v| *v as f64).sum();
            assert!((sum as f64 - wanted).abs() < OFF_BY as f64 * 10.0, "{rows} x {length}: {sum}, not {wanted}");
        }
    }
}

#[test]
fn a_variable_of_one_value_is_a_number() {
    let one = Var::new("one", 1..=1).unwrap();
    let x = numbers(&[2, 1], 1);
    let column = x.narrow(1, 0, one.bind(1).unwrap());
    assert_eq!(column.to_vec::<f32>().unwrap(), x.to_vec::<f32>().unwrap());
    column.assign(2.0).unwrap();
    assert_eq!(x.to_vec::<f32>().unwrap(), [2.0, 2.0]);
    let double = compile([spec(DType::F32, (&one, 2))], |[x]| [x * 2.0]).unwrap();
    let [doubled] = double.call_with(&[(&one, 1)], [&numbers(&[1, 2], 1)]).unwrap();
    assert_eq!(doubled.shape().unwrap(), [1, 2]);
}

#[test]
fn a_pad_by_nothing_is_a_tensor_of_its_own() {
    let x = numbers(&[2, 2], 1);
    let (padded, before) = (x.pad(&[(0, 0), (0, 0)]), x.to_vec::<f32>().unwrap());
    x.mul_assign(3.0).unwrap();
    assert_eq!(padded.to_vec::<f32>().unwrap(), before);
}

#[test]
fn a_reader_waits_for_none_of_very_many_writes() {
    // More than the number of writes that are looked at one by one; the last of them replaces what is read.
    const WRITES: i64 = 150;
    let x = numbers(&[WRITES + 10], 1);
    let before = x.to_vec::<f32>().unwrap();
    let seen = x.narrow(0, WRITES - 1, 1) * 2.0;
    for k in 0..WRITES {
        x.narrow(0, k, 1).assign(k as f32).unwrap();
    }
    Tensor::realize_all(&[&x, &seen]).unwrap();
    assert_eq!(seen.item::<f32>().unwrap(), before[WRITES as usize - 1] * 2.0);
    let after = x.to_vec::<f32>().unwrap();
    assert!(
        (0..WRITES as usize).all(|k| after[k] == k as f32) && after[WRITES as usize..] == before[WRITES as usize..]
    );
}

/// Longer than what a kernel has in registers before it puts anything anywhere.
const LENGTH: i64 = 500;

/// What is added to a line, at which indices; both made of the line, and of given indices.
type Sums = (&'static str, fn(&Tensor, &Tensor) -> [Tensor; 2], fn(&[f32], usize, i64) -> (i64, f32));

// tidy: table
const SUMS: &[Sums] = &[
    ("its double", |x, index| [index.clone(), x * 2.0], |x, k, index| (index, x[k] * 2.0)),
    ("itself", |x, index| [index.clone(), x.clone()], |x, k, index| (index, x[k])),
    ("it reversed", |x, index| [index.clone(), x.flip(0)], |x, k, index| (index, x[x.len() - 1 - k])),
    ("a copy of it", |x, index| [index.clone(), x.contiguous() - 1.0], |x, k, index| (index, x[k] - 1.0)),
    (
        "at indices of it",
        |x, index| [(x.cast(DType::I64) + index) % LENGTH, x * 3.0],
        |x, k, index| ((x[k] as i64 + index) % LENGTH, x[k] * 3.0),
    ),
    ("at it", |x, _| [x.cast(DType::I64) % LENGTH, x.ones_like()], |x, k, _| (x[k] as i64 % LENGTH, 1.0)),
];

#[test]
fn what_is_scattered_may_be_made_of_what_it_is_scattered_into() {
    let indices: Vec<i64> = (0..LENGTH).map(|k| k * 37 % 131 * 3).collect();
    let index = Tensor::from_vec(indices.clone(), [LENGTH]);
    for (name, made, by_hand) in SUMS {
        for is_written in [false, true] {
            // A value that is computed and written to, which nobody else asks for.
            let mut wanted: Vec<f32> = (1..=LENGTH).map(|k| k as f32).collect();
            let x = (Tensor::from_vec(wanted.clone(), [LENGTH]) * 1.0).contiguous();
            if is_written {
                x.get(2..5).assign(7.0).unwrap();
                wanted[2..5].fill(7.0);
            }
            let mut sums = x.clone();
            for _ in 0..2 {
                let [index, source] = made(&sums, &index);
                sums = sums.scatter_reduce(0, &index, &source, ScatterReduce::Sum, true);
                let before = wanted.clone();
                for (k, index) in indices.iter().enumerate() {
                    let (index, number) = by_hand(&before, k, *index);
                    wanted[index as usize] += number;
                }
            }
            drop(x);
            assert_eq!(sums.to_vec::<f32>().unwrap(), wanted, "{name}, written {is_written}");
        }
    }
}
