//! Linear algebra at some size, in batches of any length and in traced functions; how many kernels it takes; and second derivatives.
//!
//! Values and gradients of small matrices are in `data/more_ops.json.gz`.

use std::collections::HashSet;

use warpweft::tensor::MatrixNorm;
use warpweft::{DType, Result, Tensor, Var, compile, spec};
use warpweft_compiler::schedule::{ScheduleOptions, normalize, schedule_with};
use warpweft_compiler::watch::Silent;

/// Numbers between -1 and 1 in no order.
fn numbers(shape: &[i64], seed: i64) -> Tensor {
    let count = shape.iter().product::<i64>();
    let line: Vec<f64> = (0..count).map(|k| (((k + seed) * (k + 31 + seed)) as f64 * 0.618).sin()).collect();
    Tensor::from_vec(line, shape.to_vec())
}

/// Far from singular, but not so far that the diagonal holds the largest of each column.
fn square(n: i64) -> Tensor {
    numbers(&[n, n], 1) + Tensor::eye_of(n, n, DType::F64) * 0.5
}

fn positive(n: i64) -> Tensor {
    let x = numbers(&[n, n], 2);
    x.matmul(&x.t()) + Tensor::eye_of(n, n, DType::F64)
}

#[track_caller]
fn near(found: &Tensor, wanted: &Tensor, tolerance: f64) {
    let far = (found.cast(DType::F64) - wanted.cast(DType::F64)).abs().max(()).item::<f64>().unwrap();
    assert!(far <= tolerance, "{far} apart");
}

/// Kernels that differ, of all that compute a value.
fn different_kernels(value: &Tensor) -> usize {
    let normalized = normalize(&[warpweft::compiler::graph(value).unwrap()], |_| None).unwrap();
    let schedule = schedule_with(&normalized.sink, ScheduleOptions::default(), &mut Silent).unwrap();
    schedule.kernels.iter().map(|kernel| kernel.ast.clone()).collect::<HashSet<_>>().len()
}

#[test]
fn columns_share_a_few_kernels() {
    let b = |n: i64| numbers(&[n, 2], 5);
    let of = |n: i64| -> Vec<(&str, Tensor)> {
        vec![
            ("inverse", square(n).inverse()),
            ("solve", square(n).solve(&b(n))),
            ("det", square(n).det()),
            ("cholesky", positive(n).cholesky()),
            ("solve_triangular", square(n).solve_triangular(&b(n), true, false)),
            ("qr", square(n).qr().unwrap().0),
        ]
    };
    for ((name, small), (_, large)) in of(9).into_iter().zip(of(18)) {
        let (small, large) = (different_kernels(&small), different_kernels(&large));
        assert!(large <= small + 2 && small < 16, "{name}: {small} kernels for 9 columns, {large} for 18");
    }
}

#[test]
fn matrices_of_some_size() {
    let n = 24;
    let one = Tensor::eye_of(n, n, DType::F64);
    let a = square(n);
    near(&a.matmul(&a.inverse()), &one, 1e-9);
    near(&a.matmul(&a.solve(&numbers(&[n, 3], 4))), &numbers(&[n, 3], 4), 1e-9);
    let p = positive(n);
    let l = p.cholesky();
    near(&l.matmul(&l.t()), &p, 1e-10);
    let (sign, logarithm) = p.slogdet().unwrap();
    near(&(sign * logarithm), &(l.diagonal(0, 0, 1).log().sum(0) * 2.0), 1e-9);
    let (q, r) = a.qr().unwrap();
    near(&q.matmul(&r), &a, 1e-12);
    near(&q.t().matmul(&q), &one, 1e-12);
}

#[test]
fn singular_values_of_some_size() {
    for (rows, columns) in [(16, 13), (11, 14)] {
        let x = numbers(&[2, rows, columns], 3);
        let (u, s, v) = x.svd().unwrap();
        near(&(&u * s.unsqueeze(-2)).matmul(&v.t()), &x, 1e-12);
        let kept = rows.min(columns);
        near(&u.t().matmul(&u), &Tensor::eye_of(kept, kept, DType::F64).expand([2, kept, kept]), 1e-12);
        near(&x.matmul(&x.pinv(None)).matmul(&x), &x, 1e-10);
        near(&x.matrix_norm(MatrixNorm::Frobenius), &s.square().sum(-1).sqrt(), 1e-12);
    }
    // Of two dimensions alone: left vectors of the others are orthogonal all the same.
    let low = numbers(&[14, 2], 1).matmul(&numbers(&[2, 11], 2));
    let (u, s, v) = low.svd().unwrap();
    near(&u.t().matmul(&u), &Tensor::eye_of(11, 11, DType::F64), 1e-10);
    near(&(&u * s.unsqueeze(-2)).matmul(&v.t()), &low, 1e-12);
    let p = positive(17);
    let (values, vectors) = p.eigh().unwrap();
    near(&(&vectors * values.unsqueeze(-2)).matmul(&vectors.t()), &p, 1e-11);
}

#[test]
fn a_call_realises_nothing_that_a_gradient_goes_through() {
    let x = numbers(&[14, 12], 1);
    let loss = (&x * 2.0).svd().unwrap().1.sum(());
    let found = loss.gradient(&[&x]).unwrap();
    // Of the sum of singular values it is twice the product of the vectors.
    let (u, _, v) = x.svd().unwrap();
    near(&found[0], &(u.matmul(&v.t()) * 2.0), 1e-10);
}

#[test]
fn in_traced_functions_and_batches_of_any_length() {
    let x = numbers(&[3, 4, 4], 1) + Tensor::eye_of(4, 4, DType::F64) * 3.0;
    let function =
        compile([spec(DType::F64, [3, 4, 4])], |[x]| -> Result<[Tensor; 2]> { Ok([x.inverse(), x.svd()?.1]) });
    let [inverse, values] = function.unwrap().call([&x]).unwrap();
    near(&inverse, &x.inverse(), 0.0);
    near(&values, &x.svd().unwrap().1, 1e-12);
    let wide = compile([spec(DType::F64, [65, 65])], |[x]| -> Result<[Tensor; 1]> { Ok([x.svd()?.1]) });
    let error = wide.unwrap_err().to_string();
    assert!(error.contains("at most 64 columns, and these are 65: compute this outside"), "{error}");
    let n = Var::new("n", 1..=5).unwrap();
    let some = Tensor::from_vec(x.to_vec::<f64>().unwrap(), (n.bind(3).unwrap(), 4, 4));
    near(&some.inverse().sum(()), &x.inverse().sum(()), 1e-12);
    near(&some.qr().unwrap().1.sum(()), &x.qr().unwrap().1.sum(()), 1e-12);
    near(&some.det().sum(()), &x.det().sum(()), 1e-9);
}

#[test]
fn many_columns_in_a_traced_function() {
    let n = 40;
    // Singular values that are far apart, and some that are equal, take the most sweeps.
    let sizes = Tensor::from_vec((0..n).map(|k| 0.5f64.powi((k / 3) as i32)).collect(), [n]);
    let (q, r) = (numbers(&[n, n], 3).qr().unwrap().0, numbers(&[n, n], 4).qr().unwrap().0);
    let x = (q * sizes.unsqueeze(-2)).matmul(&r);
    let function = compile([spec(DType::F64, [n, n])], |[x]| -> Result<[Tensor; 5]> {
        let ((u, s, v), (values, vectors)) = (x.svd()?, x.matmul(&x.t()).eigh()?);
        Ok([u, s, v, values, vectors])
    });
    let [u, s, v, values, vectors] = function.unwrap().call([&x]).unwrap();
    // The rotations are orthogonal to some of the last digits.
    near(&s, &sizes, 1e-12);
    near(&values, &sizes.square().flip([0]), 1e-12);
    near(&(u * s.unsqueeze(-2)).matmul(&v.t()), &x, 1e-12);
    near(&(&vectors * values.unsqueeze(-2)).matmul(&vectors.t()), &x.matmul(&x.t()), 1e-12);
    // Swept until nothing changes.
    near(&s, &x.svd().unwrap().1, 1e-13);
    near(&vectors.t().matmul(&vectors), &Tensor::eye_of(n, n, DType::F64), 1e-12);
}

/// The derivative of a gradient along a direction, beside its differences.
#[track_caller]
fn second_derivative(name: &str, x: &Tensor, function: impl Fn(&Tensor) -> Tensor) {
    let direction = numbers(&x.shape().unwrap().iter().map(|&length| length as i64).collect::<Vec<_>>(), 7);
    let slope = |x: &Tensor| {
        let y = function(x);
        let shape: Vec<i64> = y.shape().unwrap().iter().map(|&length| length as i64).collect();
        let gradient = y.gradient_with(&numbers(&shape, 9), &[x]).unwrap().remove(0);
        (gradient * &direction).sum(())
    };
    let other = numbers(&x.shape().unwrap().iter().map(|&length| length as i64).collect::<Vec<_>>(), 8);
    let found = (slope(x).gradient(&[x]).unwrap().remove(0) * &other).sum(()).item::<f64>().unwrap();
    let step = 1e-5;
    let at = |distance: f64| {
        let moved = x + &other * distance;
        moved.realize().unwrap();
        slope(&moved).item::<f64>().unwrap()
    };
    let wanted = (at(step) - at(-step)) / (2.0 * step);
    assert!((found - wanted).abs() < 1e-5 * (1.0 + wanted.abs()), "{name}: {found}, and differences are {wanted}");
}

#[test]
fn second_derivatives_are_those_of_differences() {
    let x = numbers(&[3, 3], 1) + Tensor::eye_of(3, 3, DType::F64) * 2.0;
    x.realize().unwrap();
    let symmetric = |x: &Tensor| (x + x.t()) * 0.5;
    let positive = |x: &Tensor| x.matmul(&x.t()) + Tensor::eye_of(3, 3, DType::F64);
    let b = numbers(&[3, 2], 3);
    second_derivative("inverse", &x, |x| x.inverse());
    second_derivative("cholesky", &x, |x| positive(x).cholesky());
    second_derivative("solve", &x, |x| x.solve(&b));
    second_derivative("logarithm of the determinant", &x, |x| x.slogdet().unwrap().1);
    second_derivative("qr", &x, |x| x.qr().unwrap().0);
    second_derivative("eigenvalues", &x, |x| symmetric(x).eigh().unwrap().0);
    second_derivative("eigenvectors", &x, |x| symmetric(x).eigh().unwrap().1.square());
    second_derivative("singular values", &x, |x| x.svd().unwrap().1);
    second_derivative("singular vectors", &x, |x| x.svd().unwrap().0.square());
    second_derivative("pseudo-inverse", &x.narrow(0, 0, 2).contiguous(), |x| x.pinv(None));
    let larger = numbers(&[4, 4], 1) + Tensor::eye_of(4, 4, DType::F64) * 2.0;
    larger.realize().unwrap();
    second_derivative("determinant", &larger, |x| x.det());
    let line = numbers(&[5], 2) * 0.4 + 0.5;
    line.realize().unwrap();
    second_derivative("lgamma", &line, |x| (x + 2.0).lgamma());
    second_derivative("erfinv", &line, |x| (x * 0.9).erfinv());
    second_derivative("i0", &line, |x| x.i0());
    second_derivative("transform", &line, |x| {
        let (re, im) = x.square().fft(None, 0);
        re * im
    });
}

#[test]
fn what_does_not_fit_is_said() {
    let x = numbers(&[2, 3], 1);
    let says = |tensor: Tensor, words: &str| {
        let error = tensor.shape().map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(words) && error.contains("matrices.rs"), "{error}");
    };
    says(x.inverse(), "as long as each other");
    says(x.cholesky(), "as long as each other");
    says(x.matrix_power(2), "as long as each other");
    says(Tensor::from_vec(vec![1i32; 4], [2, 2]).det(), "the elements floats");
    says(square(3).solve(&numbers(&[2, 1], 1)), "as many rows");
    says(square(3).solve(&numbers(&[3, 1], 1).cast(DType::F32)), "of one type");
    says(x.lstsq(&numbers(&[3, 1], 1)), "as many rows");
    says(x.cross(&x, 0), "three elements");
    says(x.cdist(&numbers(&[2, 2], 1), 2.0), "of one length");
    says(Tensor::irfft(&x, &x, 1, 9), "half of 5");
    says(x.fft(Some(&numbers(&[2], 1)), 0).0, "of one shape");
    says(x.adaptive_avg_pool(&[0]), "1 or more");
    says(x.pixel_shuffle(2), "three axes");
    says(x.quantile(&[1.5], 0), "shares from 0 to 1");
    says(x.multinomial(9, false), "no more than there are elements");
    for error in [x.slogdet().err(), x.eigh().err(), Tensor::zeros([3]).svd().err(), x.median(2).err()] {
        assert!(error.unwrap().to_string().contains("matrices.rs"));
    }
}
