//! Sorting and what is made of it, against the stable sort of Rust's standard library: exact orders of all types, with numbers that are none,
//! equal ones, the ends of ranges, lines short and long, along every axis, and gradients.

use std::cmp::Ordering;

use warpweft::tensor::{Dims, TensorElement};
use warpweft::{DType, Tensor, Var};

/// Bits that look drawn.
fn drawn(count: usize) -> impl Iterator<Item = u64> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    (0..count).map(move |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state ^ state >> 29
    })
}

/// The order of one line: stable, in both directions.
fn order_of<T: Copy>(line: &[T], descending: bool, compare: impl Fn(T, T) -> Ordering) -> Vec<i32> {
    let mut order: Vec<i32> = (0..line.len() as i32).collect();
    order.sort_by(|&a, &b| {
        let ordering = compare(line[a as usize], line[b as usize]);
        if descending { ordering.reverse() } else { ordering }
    });
    order
}

/// Floats, of which NaN is the largest, and 0 is -0.
fn by_value(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

/// Sorts along the middle of [outer, n, inner], and compares orders and values.
#[track_caller]
fn check<T: TensorElement + Copy + PartialEq + std::fmt::Debug>(
    what: &str,
    data: &[T],
    [outer, n, inner]: [usize; 3],
    compare: impl Fn(T, T) -> Ordering + Copy,
) {
    let x = Tensor::from_vec(data.to_vec(), [outer as i64, n as i64, inner as i64]);
    for descending in [false, true] {
        let (values, order) = x.sort(1, descending).unwrap();
        let (values, order) = (values.to_vec::<T>().unwrap(), order.to_vec::<i32>().unwrap());
        for line in 0..outer * inner {
            let begin = line / inner * n * inner + line % inner;
            let elements: Vec<T> = (0..n).map(|k| data[begin + k * inner]).collect();
            let want = order_of(&elements, descending, compare);
            let got: Vec<i32> = (0..n).map(|k| order[begin + k * inner]).collect();
            assert_eq!(got, want, "{what}, {n} elements, line {line}, descending {descending}");
            for (k, &from) in want.iter().enumerate() {
                let (value, wanted) = (values[begin + k * inner], elements[from as usize]);
                assert!(compare(value, wanted).is_eq(), "{what}: {value:?}, not {wanted:?}");
            }
        }
    }
}

const LAYOUTS: [[usize; 3]; 8] =
    [[1, 1, 1], [3, 2, 2], [1, 33, 1], [5, 48, 3], [2, 49, 3], [40, 257, 1], [2, 1000, 3], [1, 40_001, 1]];

/// Floats of few values, among them both zeros, infinities and NaN of both signs, and ones of many values.
fn floats(count: usize) -> Vec<f32> {
    let odd = [0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, -f32::NAN, f32::MIN_POSITIVE, -1e-42, 1.0, -1.0];
    let number = |bits: u64| match bits % 3 {
        0 => odd[(bits >> 8) as usize % odd.len()],
        _ => f32::from_bits((bits >> 16) as u32),
    };
    drawn(count).map(number).collect()
}

#[test]
fn floats_are_sorted_as_the_standard_library_does() {
    for layout in LAYOUTS {
        let count = layout.iter().product();
        check("f32", &floats(count), layout, |a, b| by_value(f64::from(a), f64::from(b)));
    }
    let wide: Vec<f64> = drawn(3000).map(|bits| f64::from_bits(bits.wrapping_mul(bits % 5))).collect();
    check("f64", &wide, [3, 1000, 1], by_value);
}

#[test]
fn half_floats_are_sorted_by_their_values() {
    for dtype in [DType::F16, DType::BF16] {
        let x = Tensor::from_vec(floats(1200), [2, 600]).cast(dtype);
        let data = x.cast(DType::F32).to_vec::<f32>().unwrap();
        for descending in [false, true] {
            let order = x.argsort(-1, descending).to_vec::<i32>().unwrap();
            for (line, order) in data.chunks(600).zip(order.chunks(600)) {
                let want = order_of(line, descending, |a, b| by_value(f64::from(a), f64::from(b)));
                assert_eq!(order, want, "{dtype}");
            }
        }
    }
}

#[test]
fn integers_are_sorted_to_the_ends_of_their_ranges() {
    macro_rules! check_integers {
        ($($integer:ty)*) => {$(
            for layout @ [outer, n, inner] in [[2, 20, 1], [3, 300, 2]] {
                let ends = [<$integer>::MIN, <$integer>::MAX, 0, 1];
                let number = |bits: u64| if bits % 4 == 0 { ends[(bits >> 8) as usize % 4] } else { (bits >> 7) as $integer };
                let data: Vec<$integer> = drawn(outer * n * inner).map(number).collect();
                check(stringify!($integer), &data, layout, |a, b| a.cmp(&b));
            }
        )*};
    }
    check_integers!(i8 i16 i32 i64 u8 u16 u32 u64);
    let bools: Vec<bool> = drawn(400).map(|bits| bits >> 20 & 1 == 1).collect();
    check("bool", &bools, [2, 200, 1], |a, b| a.cmp(&b));
    check("bool", &bools, [20, 10, 2], |a, b| a.cmp(&b));
}

#[test]
fn equal_keys_keep_their_order() {
    for n in [40, 400, 50_000] {
        check("one value", &vec![7i32; n], [1, n, 1], |a, b| a.cmp(&b));
        let sorted: Vec<i32> = (0..n as i32).map(|k| k / 3).collect();
        check("sorted", &sorted, [1, n, 1], |a, b| a.cmp(&b));
        let falling: Vec<i32> = (0..n as i32).map(|k| -k / 3).collect();
        check("falling", &falling, [1, n, 1], |a, b| a.cmp(&b));
    }
}

#[test]
fn views_and_computed_values_are_sorted() {
    let data = floats(2 * 300 * 5);
    let x = Tensor::from_vec(data.clone(), [2, 300, 5]).permute([2, 1, 0]).flip(1);
    let order = (&x * 2.0).argsort(1, false).to_vec::<i32>().unwrap();
    for (line, order) in order.chunks(600).enumerate() {
        for k in 0..2 {
            let elements: Vec<f32> = (0..300).rev().map(|at| 2.0 * data[k * 1500 + at * 5 + line]).collect();
            let got: Vec<i32> = (0..300).map(|at| order[at * 2 + k]).collect();
            assert_eq!(got, order_of(&elements, false, |a, b| by_value(f64::from(a), f64::from(b))));
        }
    }
    assert!(Tensor::zeros([3, 0]).argsort(1, false).to_vec::<i32>().unwrap().is_empty());
    assert!(Tensor::zeros([0, 300]).argsort(1, false).to_vec::<i32>().unwrap().is_empty());
}

#[test]
fn the_first_of_what_is_sorted_are_found() {
    for (rows, n, counts) in
        [(7, 30, &[0, 1, 3, 30][..]), (5, 700, &[1, 2, 20, 300]), (1, 30_000, &[1, 9, 40]), (2, 9001, &[9, 40, 8000])]
            .into_iter()
            .chain([(3, 200, &[17, 60, 100, 101][..]), (1, 70_000, &[20_000])])
    {
        let data = floats(rows * n);
        let x = Tensor::from_vec(data.clone(), [rows as i64, n as i64]);
        for (number, &k) in counts.iter().enumerate() {
            for largest in [number % 2 == 0, n == 30] {
                let (values, order) = x.topk(k as i64, 1, largest).unwrap();
                let (values, order) = (values.to_vec::<f32>().unwrap(), order.to_vec::<i32>().unwrap());
                for row in 0..rows {
                    let line = &data[row * n..(row + 1) * n];
                    let want = order_of(line, largest, |a, b| by_value(f64::from(a), f64::from(b)));
                    assert_eq!(order[row * k..(row + 1) * k], want[..k], "{k} of {rows} x {n}, largest {largest}");
                    for (value, from) in values[row * k..].iter().zip(&want[..k]) {
                        assert_eq!(value.to_bits(), line[*from as usize].to_bits());
                    }
                }
            }
        }
    }
}

#[test]
fn the_first_are_found_of_all_types() {
    fn check<T: TensorElement + Copy + PartialEq>(data: &[T], compare: impl Fn(T, T) -> Ordering + Copy) {
        for k in [20i64, 64] {
            for largest in [false, true] {
                let order = Tensor::from_vec(data.to_vec(), [data.len() as i64]).topk(k, 0, largest).unwrap().1;
                assert_eq!(order.to_vec::<i32>().unwrap(), order_of(data, largest, compare)[..k as usize], "{k}");
            }
        }
    }
    let bits: Vec<u64> = drawn(333).collect();
    check(&bits.iter().map(|&bits| bits as i32).collect::<Vec<_>>(), |a, b| a.cmp(&b));
    check(&bits.iter().map(|&bits| bits as u8).collect::<Vec<_>>(), |a, b| a.cmp(&b));
    check(&bits.iter().map(|&bits| (bits >> 40) as i16).collect::<Vec<_>>(), |a, b| a.cmp(&b));
    check(&bits.iter().map(|&bits| (bits >> 20) as i64).collect::<Vec<_>>(), |a, b| a.cmp(&b));
    check(&bits.iter().map(|&bits| bits % 9 == 0).collect::<Vec<_>>(), |a, b| a.cmp(&b));
    check(&bits.iter().map(|&bits| f64::from(bits as i32)).collect::<Vec<_>>(), by_value);
    check(&[7u32; 333], |a, b| a.cmp(&b));
    check(&[i32::MAX; 333], |a, b| a.cmp(&b));
}

#[test]
fn gradients_go_where_elements_came_from() {
    for n in [20usize, 500] {
        let data = floats(n);
        let x = Tensor::from_vec(data.clone(), [n as i64]);
        let weights: Vec<f32> = (0..n).map(|k| k as f32).collect();
        let (sorted, _) = x.sort(0, false).unwrap();
        let loss = (sorted * Tensor::from_vec(weights, [n as i64])).sum(0);
        let gradient = loss.gradient(&[&x]).unwrap()[0].to_vec::<f32>().unwrap();
        for (position, from) in order_of(&data, false, |a, b| by_value(f64::from(a), f64::from(b))).iter().enumerate() {
            assert_eq!(gradient[*from as usize], position as f32);
        }
    }
}

#[test]
fn the_last_of_a_row_and_ties_between_its_blocks_are_found() {
    let rising = Tensor::from_vec((0..9001).collect::<Vec<i32>>(), [9001]);
    assert_eq!(rising.topk(3, 0, true).unwrap().1.to_vec::<i32>().unwrap(), [9000, 8999, 8998]);
    // The block of the least element comes first among the blocks, and its equals of the others before its own.
    let mut level = vec![5i32; 9001];
    level[100] = 1;
    let (values, order) = Tensor::from_vec(level, [9001]).topk(4, 0, false).unwrap();
    assert_eq!(order.to_vec::<i32>().unwrap(), [100, 0, 1, 2]);
    assert_eq!(values.to_vec::<i32>().unwrap(), [1, 5, 5, 5]);
}

#[test]
fn rows_of_lengths_that_are_variables_are_sorted() {
    let (rows, columns) = (Var::new("rows", 1..=8).unwrap(), Var::new("columns", 4..=400).unwrap());
    for (count, len) in [(3, 333), (8, 4), (1, 60)] {
        let shape = Dims::from([rows.bind(count).unwrap(), columns.bind(len).unwrap()]);
        let data = floats((count * len) as usize);
        let x = Tensor::from_vec(data.clone(), shape);
        for descending in [false, true] {
            let (values, order) = x.sort(1, descending).unwrap();
            let (_, first) = x.topk(2, 1, descending).unwrap();
            let values: Vec<u32> = values.to_vec::<f32>().unwrap().into_iter().map(f32::to_bits).collect();
            let (order, first) = (order.to_vec::<i32>().unwrap(), first.to_vec::<i32>().unwrap());
            for (row, line) in data.chunks(len as usize).enumerate() {
                let want = order_of(line, descending, |a, b| by_value(f64::from(a), f64::from(b)));
                let bits: Vec<u32> = want.iter().map(|&from| line[from as usize].to_bits()).collect();
                let at = row * len as usize;
                assert_eq!(order[at..at + len as usize], want, "{count} x {len}");
                assert_eq!(values[at..at + len as usize], bits);
                assert_eq!(first[2 * row..2 * row + 2], want[..2]);
            }
        }
    }
}
