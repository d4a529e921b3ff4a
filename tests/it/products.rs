//! Products of matrices against sums in `f64`: transposed either side, few rows, many terms, odd sizes, batches, and what is computed from them.
//!
//! Numbers are small integers, of which all sums are exact in `f32`: so results must be equal, whichever blocks a kernel makes (`optimize/by_hand/copies/product`), and a
//! part that is added twice, left out or read before it is copied shows.

use warpweft::Tensor;

/// Integers from -4 to 4 that look drawn.
fn drawn(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 40) % 9) as f32 - 4.0
    };
    (0..count).map(|_| next()).collect()
}

/// One product of each of a batch, row-major, of a [batch, rows, terms] and b [batch, terms, columns].
fn exact(a: &[f32], b: &[f32], [batch, rows, terms, columns]: [usize; 4]) -> Vec<f32> {
    let mut result = vec![0.0f64; batch * rows * columns];
    for (row_index, row) in result.chunks_mut(columns).enumerate() {
        let of_batch = &b[row_index / rows * terms * columns..][..terms * columns];
        for (x, of_term) in a[row_index * terms..][..terms].iter().zip(of_batch.chunks(columns)) {
            row.iter_mut().zip(of_term).for_each(|(sum, y)| *sum += f64::from(*x) * f64::from(*y));
        }
    }
    result.into_iter().map(|sum| sum as f32).collect()
}

/// The same elements with the last two axes exchanged, as they lie in memory.
fn turned(data: &[f32], rows: usize, columns: usize) -> Vec<f32> {
    let of_matrix = |matrix: &[f32]| -> Vec<f32> {
        (0..rows * columns).map(|index| matrix[index % rows * columns + index / rows]).collect()
    };
    data.chunks(rows * columns).flat_map(of_matrix).collect()
}

/// A tensor of a batch of matrices that lie plainly or transposed.
fn matrices(data: &[f32], [batch, rows, columns]: [usize; 3], is_plain: bool) -> Tensor {
    let shape =
        |a: usize, b: usize| if batch == 1 { vec![a as i64, b as i64] } else { vec![batch as i64, a as i64, b as i64] };
    if is_plain {
        return Tensor::from_vec(data.to_vec(), shape(rows, columns));
    }
    Tensor::from_vec(turned(data, rows, columns), shape(columns, rows)).transpose(-1, -2)
}

#[track_caller]
fn check(sizes: [usize; 4], layout: &str) {
    let [batch, rows, terms, columns] = sizes;
    let (a, b) = (drawn(batch * rows * terms, 1), drawn(batch * terms * columns, 2));
    let x = matrices(&a, [batch, rows, terms], layout.starts_with('n'));
    let w = matrices(&b, [batch, terms, columns], layout.ends_with('n'));
    for input in [&x, &w] {
        input.realize().unwrap();
    }
    let wanted = exact(&a, &b, sizes);
    let found = x.matmul(&w).to_vec::<f32>().unwrap();
    assert!(found == wanted, "{sizes:?} {layout}: {} wrong", found.iter().zip(&wanted).filter(|(a, b)| a != b).count());
    // With what comes before and after it in the same kernel.
    let bias = Tensor::from_vec((0..columns).map(|index| index as f32).collect::<Vec<f32>>(), [columns as i64]);
    let found = ((&x * 2.0).matmul(&w) + bias).relu().to_vec::<f32>().unwrap();
    let wanted = wanted.iter().enumerate().map(|(index, sum)| (2.0 * sum + (index % columns) as f32).max(0.0));
    assert!(found == wanted.collect::<Vec<f32>>(), "{sizes:?} {layout}: with a bias");
}

#[test]
fn transposed_either_side() {
    for layout in ["nn", "tn", "nt", "tt"] {
        check([1, 64, 300, 40], layout);
        check([1, 70, 521, 65], layout);
        check([1, 33, 40, 17], layout);
    }
}

#[test]
fn few_rows_of_much() {
    for rows in [1, 3, 6, 7, 17] {
        check([1, rows, 1031, 1032], "nn");
    }
    check([1, 32, 1000, 300], "nt");
}

#[test]
fn many_terms_of_few_results() {
    check([1, 40, 9000, 41], "tn");
    check([1, 40, 9000, 41], "nn");
    check([1, 40, 9000, 41], "nt");
}

#[test]
fn batches() {
    for layout in ["tn", "nt"] {
        check([3, 40, 300, 50], layout);
    }
}

/// A product added to what memory holds: no part may be added twice.
#[test]
fn added_in_place() {
    for (rows, columns) in [(48, 64), (50, 33)] {
        let (terms, sizes) = (400, [1, rows, 400, columns]);
        let (a, b) = (drawn(rows * terms, 3), drawn(terms * columns, 4));
        let (x, w) = (matrices(&a, [1, rows, terms], false), matrices(&b, [1, terms, columns], true));
        let sum = Tensor::from_vec(vec![1.0f32; rows * columns], [rows as i64, columns as i64]);
        sum.realize().unwrap();
        sum.add_assign(x.matmul(&w)).unwrap();
        let wanted: Vec<f32> = exact(&a, &b, sizes).iter().map(|product| product + 1.0).collect();
        assert!(sum.to_vec::<f32>().unwrap() == wanted, "{rows} x {columns}");
    }
}
