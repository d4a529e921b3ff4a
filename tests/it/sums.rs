//! How exact long sums are, for every layout: rows, columns, everything, axes in the middle, strided memory, symbolic lengths; and what is
//! made of sums: means, variances, norms, products of matrices.
//!
//! The reference is the sum in `f64` of the same `f32` numbers. The bound follows from how kernels sum: blocks of at most 256 terms go into one
//! accumulator, and so do the blocks' sums, level by level. Every addition rounds by at most 2^-24 of a partial sum, which is at most the sum of all
//! sizes; so with `l` levels the error is below `256 l 2^-24` of that sum in the worst case. Errors of numbers that were drawn are as good as
//! independent and add up to their root: about `16 sqrt(l) 2^-24`. The tests hold both; one accumulator for a million terms breaks both.

use warpweft::Tensor;
use warpweft::tensor::Var;

/// What one rounding of a float may change, relative to it.
const ROUNDING: f64 = 1.0 / (1u64 << 24) as f64;

/// Numbers from 0 to 1 that look drawn.
fn drawn(count: usize) -> Vec<f32> {
    let mut state = 0x2545_f491_4f6c_dd1du64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 24) as f32
    };
    (0..count).map(|_| next()).collect()
}

/// Levels of blocks that so many terms make.
fn levels(terms: usize) -> f64 {
    (terms as f64).log(128.0).ceil().max(1.0)
}

/// Each sum is as near to the exact one as sums by blocks are; `alike` where errors do not cancel, as of equal numbers.
#[track_caller]
fn check(what: &str, found: &[f32], exact: &[f64], sizes: &[f64], terms: usize, alike: bool) {
    assert_eq!((found.len(), sizes.len()), (exact.len(), exact.len()), "{what}");
    let roundings = if alike { 256.0 * levels(terms) } else { 40.0 * levels(terms).sqrt() };
    for ((found, exact), size) in found.iter().zip(exact).zip(sizes) {
        let error = (*found as f64 - exact).abs();
        assert!(
            error <= (roundings + 1.0) * ROUNDING * size,
            "{what}: {found} is not {exact}: off by {:.2e} of {size}, {:.0} roundings",
            error / size,
            error / size / ROUNDING
        );
    }
}

/// Sums over the middle of [outer, n, inner] of numbers.
fn sums(data: &[f32], outer: usize, n: usize, inner: usize, f: impl Fn(f64) -> f64) -> Vec<f64> {
    let mut sums = vec![0.0; outer * inner];
    for (index, x) in data.iter().enumerate() {
        sums[index / (n * inner) * inner + index % inner] += f(*x as f64);
    }
    sums
}

fn layouts(data: &[f32], alike: bool) {
    let len = data.len();
    let x = Tensor::from_vec(data.to_vec(), [len as i64]);
    // [outer, n, inner]: everything, rows, columns, the middle; lengths that divide and that do not.
    let shapes = [(1, 0, 1), (3, 0, 1), (64, 0, 1), (1, 0, 5), (1, 0, 40), (1, 0, 257), (2, 0, 7), (9, 0, 96)];
    for (outer, _, inner) in shapes {
        let n = len / (outer * inner);
        let used = outer * n * inner;
        let view = x.narrow(0, 0, used as i64).reshape([outer as i64, n as i64, inner as i64]);
        let found = view.sum(1).to_vec::<f32>().unwrap();
        let exact = sums(&data[..used], outer, n, inner, |x| x);
        let what = format!("[{outer}, {n}, {inner}] along its middle");
        check(&what, &found, &exact, &exact, n, alike);
        // Memory walked in another order.
        let turned = view.flip(1).permute([2, 1, 0]).sum(1).t().to_vec::<f32>().unwrap();
        check(&format!("{what}, turned"), &turned, &exact, &exact, n, alike);
    }
}

#[test]
fn sums_of_every_layout_are_as_exact_as_sums_by_blocks() {
    layouts(&drawn(1_000_003), false);
    // Equal numbers round in one direction as long as the sum has one exponent.
    layouts(&vec![0.1f32; 1_000_003], true);
}

#[test]
fn axes_that_are_not_neighbours_are_summed_as_well() {
    let data = drawn(50 * 40 * 300 * 2);
    let x = Tensor::from_vec(data.clone(), [50, 40, 300, 2]);
    let found = x.sum([0, 2]).to_vec::<f32>().unwrap();
    let mut exact = vec![0.0; 80];
    for (index, x) in data.iter().enumerate() {
        exact[index / 600 % 40 * 2 + index % 2] += *x as f64;
    }
    check("[50, 40, 300, 2] along 0 and 2", &found, &exact, &exact, 15_000, false);
}

/// Sums of a permuted tensor over some of its axes, which run through memory in another order than they are named in.
#[test]
fn sums_over_permuted_axes_are_as_exact() {
    let lens = [24usize, 70, 9, 32];
    let data = drawn(lens.iter().product());
    let x = Tensor::from_vec(data.clone(), lens.map(|len| len as i64));
    for order in [[3, 1, 0, 2], [1, 0, 3, 2], [2, 3, 0, 1], [0, 2, 1, 3]] {
        for axes in [&[0, 1, 2, 3][..], &[0, 2], &[1, 3], &[0, 1, 3], &[2, 3]] {
            let kept: Vec<usize> = (0..4).filter(|axis| !axes.contains(axis)).map(|axis| order[axis]).collect();
            let len: usize = kept.iter().map(|&axis| lens[axis]).product();
            let mut exact = vec![0.0; len];
            let mut most = vec![0f32; len];
            for (index, value) in data.iter().enumerate() {
                let digit = |axis: usize| index / lens[axis + 1..].iter().product::<usize>() % lens[axis];
                let result = kept.iter().fold(0, |sum, &axis| sum * lens[axis] + digit(axis));
                exact[result] += *value as f64;
                most[result] = most[result].max(*value);
            }
            let moved = x.permute(order.map(|axis| axis as i64));
            let named: Vec<i64> = axes.iter().map(|&axis| axis as i64).collect();
            let found = moved.sum(named.clone()).to_vec::<f32>().unwrap();
            check(&format!("{order:?} over {axes:?}"), &found, &exact, &exact, data.len() / len, false);
            assert_eq!(moved.max(named).to_vec::<f32>().unwrap(), most, "{order:?} over {axes:?}");
        }
    }
}

#[test]
fn sums_of_symbolic_lengths_go_by_blocks_too() {
    let n = Var::new("n", 1..=200_000).unwrap();
    let data = drawn(200_000 * 3);
    let x = Tensor::from_vec(data.clone(), [200_000, 3]);
    for rows in [1usize, 5, 127, 128, 129, 255, 256, 257, 1000, 16_383, 16_385, 100_003, 200_000] {
        let part = x.narrow(0, 0, n.bind(rows as i64).unwrap());
        let exact = sums(&data[..rows * 3], 1, rows, 3, |x| x);
        let found = part.sum(0).to_vec::<f32>().unwrap();
        check(&format!("{rows} rows of up to 200000"), &found, &exact, &exact, rows, false);
        let all = part.sum(()).to_vec::<f32>().unwrap();
        let exact = [exact.iter().sum::<f64>()];
        check(&format!("all of {rows} rows"), &all, &exact, &exact, rows * 3, false);
    }
}

#[test]
fn what_is_made_of_sums_is_as_exact() {
    let (rows, columns) = (60_000usize, 5usize);
    let data = drawn(rows * columns);
    let x = Tensor::from_vec(data.clone(), [rows as i64, columns as i64]);
    let count = rows as f64;
    let total = sums(&data, 1, rows, columns, |x| x);
    let mean: Vec<f64> = total.iter().map(|sum| sum / count).collect();
    check("mean", &x.mean(0).to_vec::<f32>().unwrap(), &mean, &mean, rows, false);
    let norm: Vec<f64> = sums(&data, 1, rows, columns, |x| x * x).iter().map(|sum| sum.sqrt()).collect();
    check("norm", &(&x * &x).sum(0).sqrt().to_vec::<f32>().unwrap(), &norm, &norm, rows, false);
    let mut variance = vec![0.0; columns];
    for (index, x) in data.iter().enumerate() {
        variance[index % columns] += (*x as f64 - mean[index % columns]).powi(2) / count;
    }
    let centered = &x - x.mean(0);
    check("variance", &(&centered * &centered).mean(0).to_vec::<f32>().unwrap(), &variance, &variance, rows, false);
    let powers: Vec<f64> = sums(&data, 1, rows, columns, f64::exp).iter().map(|sum| sum.ln()).collect();
    check("logsumexp", &x.logsumexp(0).to_vec::<f32>().unwrap(), &powers, &powers, rows, false);
    // A product of matrices has blocks of 512.
    let found = x.t().matmul(&x).to_vec::<f32>().unwrap();
    let mut exact = vec![0.0; columns * columns];
    for row in data.chunks(columns) {
        for (index, sum) in exact.iter_mut().enumerate() {
            *sum += row[index / columns] as f64 * row[index % columns] as f64;
        }
    }
    check("product of matrices", &found, &exact, &exact, rows, false);
}
