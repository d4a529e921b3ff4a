//! Edges that no table of cases holds: families of numbers, programs whose values could be rounded in two ways, and costs.
//!
//! What PyTorch gives at single edges is in `data/edges.json.gz`. Takes some seconds, which compiling kernels takes.

use warpweft::tensor::{Literal, PoolOptions};
use warpweft::{DType, Tensor};

fn gradient(x: &Tensor, y: &Tensor) -> Tensor {
    y.sum(()).gradient(&[x]).unwrap().remove(0)
}

fn numbers(count: usize) -> Vec<f32> {
    (0..count).map(|k| ((k * 7919 + 13) % 1009) as f32 / 250.0 - 2.0).collect()
}

#[test]
fn equal_numbers_have_no_spread_and_no_gradient_of_it() {
    for value in [0.1f32, 0.7, -3.3, 1e-30, 1e30, 16777217.0] {
        for count in [2usize, 3, 7, 100] {
            let x = Tensor::from_vec(vec![value; count], [count as i64]);
            let spread = x.std(0, 1, false);
            assert_eq!(spread.item::<f32>().unwrap(), 0.0, "{count} times {value}");
            assert_eq!(gradient(&x, &spread).to_vec::<f32>().unwrap(), vec![0.0; count], "{count} times {value}");
        }
    }
}

#[test]
fn what_gives_one_value_whatever_it_is_given_has_a_gradient_of_zeros() {
    let x = Tensor::from_vec(numbers(6), [2, 3]);
    for y in [
        x.pow(0),
        x.pow(0.0),
        x.dropout(1.0),
        x.clamp(Some(Literal::Int(5)), Some(Literal::Int(5))),
        x.norm(0.0, (), false),
    ] {
        assert_eq!(gradient(&x, &y).to_vec::<f32>().unwrap(), [0.0; 6]);
    }
}

/// A sum of products may be rounded once or twice, so that a value computed in two kernels may differ in its last bit.
#[test]
fn every_window_and_row_passes_its_whole_gradient_on_however_its_values_are_rounded() {
    let x = Tensor::from_vec(numbers(2 * 4 * 16 * 16), [2, 4, 16, 16]);
    let (w, b) = (Tensor::from_vec(numbers(4), [4, 1, 1]), Tensor::from_vec(vec![0.1f32, -0.7, 1.3, 0.9], [4, 1, 1]));
    for dtype in [DType::F32, DType::F64] {
        let [x, w, b] = [&x, &w, &b].map(|x| x.cast(dtype).realize().unwrap().clone());
        let y = &x + &w * &b;
        let total = |reduced: &Tensor| gradient(&x, reduced).cast(DType::F64).sum(()).item::<f64>().unwrap();
        for (kernel, stride, windows) in [(2, 2, 512.0), (3, 2, 392.0)] {
            let options = PoolOptions::default().kernel(vec![kernel]).stride(vec![stride]);
            assert_eq!(total(&y.max_pool(&options)), windows, "{dtype} windows of {kernel} by {stride}");
        }
        assert_eq!(total(&y.max(3)), 128.0, "{dtype}");
        assert_eq!(total(&y.min(1)), 512.0, "{dtype}");
        assert!((total(&y.max(())) - 1.0).abs() < 1e-2, "{dtype}");
        assert_eq!(total(&y.cummax(2)), 2048.0, "{dtype}");
        assert_eq!(total(&y.sort(3, true).unwrap().0), 2048.0, "{dtype}");
        assert_eq!(total(&y.topk(3, 3, false).unwrap().0), 384.0, "{dtype}");
    }
}

#[test]
fn the_gradient_of_a_gather_costs_its_lines_not_their_product() {
    // 4,096 rows of 16: each position against each element would be 4e9 comparisons.
    let x = Tensor::from_vec(numbers(4096 * 16), [4096, 16]);
    let sorted = x.sort(1, false).unwrap().0;
    let weights = Tensor::arange(0.0, 16.0, 1.0);
    let total = gradient(&x, &(sorted * weights)).cast(DType::F64).sum(()).item::<f64>().unwrap();
    assert_eq!(total, 4096.0 * 120.0);
}

#[test]
fn ranges_and_random_integers_take_the_type_that_holds_them() {
    let dtype = |x: Tensor| x.dtype().unwrap();
    assert_eq!(dtype(Tensor::arange(0, i64::from(i32::MAX) + 1, 1 << 30)), DType::I32);
    assert_eq!(dtype(Tensor::arange(0, i64::from(i32::MAX) + 1, i64::from(i32::MAX) + 1)), DType::I32);
    assert_eq!(dtype(Tensor::arange(0, i64::from(i32::MAX) + 2, i64::from(i32::MAX) + 1)), DType::I64);
    assert_eq!(dtype(Tensor::arange(0, (1i64 << 32) + 1, 1i64 << 32)), DType::I64);
    assert_eq!(dtype(Tensor::arange(i64::from(i32::MIN) - 1, 0, 1 << 30)), DType::I64);
    let far = Tensor::randint(1 << 40, (1 << 40) + 5, [50]).to_vec::<i64>().unwrap();
    assert!(far.iter().all(|value| (1 << 40..(1 << 40) + 5).contains(value)));
}

#[test]
fn the_gamma_function_has_a_logarithm_where_it_has_no_value() {
    for large in [171.7f64, 1e15, 1e25, 1e60, 1e300] {
        let x = Tensor::from_vec(vec![large], [1]);
        let (found, slope) = (x.lgamma(), gradient(&x, &x.lgamma()).item::<f64>().unwrap());
        // By Stirling.
        let exact = (large - 0.5) * large.ln() - large + 0.5 * std::f64::consts::TAU.ln() + 1.0 / (12.0 * large);
        let found = found.item::<f64>().unwrap();
        assert!((found - exact).abs() <= 1e-12 * exact, "log gamma({large}) is {found} and not {exact}");
        assert!((slope - large.ln()).abs() <= 0.01, "its slope is {slope} and not {}", large.ln());
    }
}
