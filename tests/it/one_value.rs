//! A value is one value, in whichever kernels it is computed: programs in which two kernels used to find two. Random ones are in `properties`.

use warpweft::tensor::{ConvOptions, PoolOptions};
use warpweft::{DType, Tensor};

/// Numbers of both signs that look drawn.
fn drawn(shape: &[i64], seed: u64) -> Tensor {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    Tensor::from_vec((0..shape.iter().product::<i64>()).map(|_| next()).collect(), shape.to_vec())
}

/// The gradient of the sum of the maxima of windows of 2 by 2 is 1 in each window.
#[track_caller]
fn each_window_has_a_gradient(y: &Tensor) {
    let options = PoolOptions::default().kernel(vec![2, 2]);
    let pooled = y.max_pool(&options);
    let windows: usize = pooled.shape().unwrap().iter().product();
    let gradient = pooled.sum(()).gradient(&[y]).unwrap().remove(0).to_vec::<f32>().unwrap();
    assert!(gradient.iter().all(|part| part.is_finite()));
    assert_eq!(gradient.iter().sum::<f32>(), windows as f32);
}

#[test]
fn scaled_channels_have_their_maximum_in_each_window() {
    for (seed, shape) in [[2i64, 4, 16, 16], [1, 3, 8, 40], [5, 8, 6, 6]].into_iter().enumerate() {
        let x = drawn(&shape, seed as u64);
        let channel = |seed| drawn(&[1, shape[1], 1, 1], seed);
        let (w, b) = (channel(10), channel(11));
        each_window_has_a_gradient(&(&x + &w * &b));
        each_window_has_a_gradient(&(&b - &x * &w));
        each_window_has_a_gradient(&(&x * &w + &b).exp());
        each_window_has_a_gradient(&((&x * 0.3 + 0.1) * &w - &b));
    }
}

#[test]
fn a_sum_that_several_kernels_need_is_one_number() {
    // The convolution is asked for at four positions of each window, and the windows' maxima at as many.
    let (x, kernel) = (drawn(&[2, 3, 18, 18], 1), drawn(&[5, 3, 3, 3], 2));
    each_window_has_a_gradient(&x.conv(&kernel, None, &ConvOptions::default()));
    // Rows by their norm: the sum of squares stands below every element, and the largest of each row is asked for beside.
    let rows = drawn(&[40, 333], 3);
    let scaled = &rows / (&rows * &rows).sum(1).sqrt().reshape([40, 1]);
    let largest = scaled.max(1).reshape([40, 1]);
    assert_eq!(scaled.eq(&largest).cast(DType::I32).sum(1).min(0).item::<i64>().unwrap(), 1);
    let turned = scaled.t().max(0).reshape([40, 1]);
    assert_eq!(turned.eq(&largest).cast(DType::I32).sum(0).item::<i64>().unwrap(), 40);
}

#[test]
fn elementary_functions_of_constants_are_those_that_kernels_compute() {
    let numbers: Vec<f32> = drawn(&[64], 7).to_vec::<f32>().unwrap().iter().map(|x| x * 40.0).collect();
    let stored = Tensor::from_vec(numbers.clone(), [64]);
    let of = |function: fn(&Tensor) -> Tensor| {
        let found: Vec<u32> = function(&stored).to_vec::<f32>().unwrap().into_iter().map(f32::to_bits).collect();
        assert_eq!(found.len(), numbers.len());
        for (x, found) in numbers.iter().zip(found) {
            // A constant alone, and one in a vector.
            assert_eq!(function(&Tensor::full([1], *x)).item::<f32>().unwrap().to_bits(), found, "of {x}");
            let filled = function(&Tensor::full([19], *x)).to_vec::<f32>().unwrap();
            assert!(filled.iter().all(|other| other.to_bits() == found), "of {x}");
        }
    };
    of(|x| x.exp2());
    of(|x| x.sin());
    of(|x| x.cos());
    of(|x| x.abs().log2());
}
