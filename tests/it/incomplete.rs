//! The incomplete gamma functions against values of 40 digits (mpmath), at their ends, of odd operands, and their derivatives.

use warpweft::{DType, Tensor};

/// a, x, the share below x, and the share above: of series, fraction and expansion, and around where one takes over from another.
const VALUES: [(f64, f64, f64, f64); 20] = [
    (0.01, 0.001, 0.938570652526129, 0.061429347473871014),
    (0.5, 0.25, 0.5204998778130465, 0.4795001221869535),
    (0.5, 3.0, 0.9856941215645704, 0.01430587843542964),
    (1.0, 1.0, 0.6321205588285577, 0.36787944117144233),
    (3.0, 1.5, 0.19115316946194186, 0.8088468305380582),
    (9.5, 14.0, 0.9165713760178344, 0.08342862398216554),
    (10.0, 10.0, 0.5420702855281478, 0.4579297144718522),
    (10.5, 10.5, 0.5410557911071782, 0.45894420889282184),
    (12.0, 7.0, 0.05334962315155861, 0.9466503768484413),
    (12.0, 30.0, 0.9999361229746008, 6.387702539927337e-5),
    (25.0, 9.0, 8.65312679096325e-6, 0.999991346873209),
    (40.0, 100.0, 0.9999999999970397, 2.9602566998130643e-12),
    (100.0, 99.99, 0.5129001684456731, 0.4870998315543269),
    (100.0, 100.0, 0.5132987982791487, 0.48670120172085135),
    (150.0, 190.0, 0.9988191646112505, 0.0011808353887494205),
    (3000.0, 2900.0, 0.032859991921120976, 0.967140008078879),
    (100000.0, 100200.0, 0.7366620100051987, 0.2633379899948013),
    (1000000.0, 1000000.0, 0.5001329807608725, 0.4998670192391274),
    (2.0, 60.0, 1.0, 5.341471565244877e-25),
    (300.0, 20.0, 1.4694638795004848e-233, 1.0),
];

fn column(part: impl Fn(&(f64, f64, f64, f64)) -> f64) -> Tensor {
    Tensor::from_vec(VALUES.iter().map(part).collect::<Vec<_>>(), [VALUES.len() as i64])
}

#[track_caller]
fn near(found: &Tensor, wanted: impl Fn(&(f64, f64, f64, f64)) -> f64, tolerance: f64, least: f64) {
    for (value, row) in found.cast(DType::F64).to_vec::<f64>().unwrap().iter().zip(&VALUES) {
        let wanted = wanted(row);
        assert!((value - wanted).abs() <= tolerance * wanted + least, "{row:?}: {value} and not {wanted}");
    }
}

#[test]
fn shares_are_those_of_many_digits() {
    let (a, x) = (column(|row| row.0), column(|row| row.1));
    near(&a.igamma(&x), |row| row.2, 2e-11, 0.0);
    near(&a.igammac(&x), |row| row.3, 2e-11, 0.0);
    // What operands of 24 bits are not is what the results are not.
    let (a, x) = (a.cast(DType::F32), x.cast(DType::F32));
    near(&a.igamma(&x), |row| row.2, 2e-5, 1e-38);
    near(&a.igammac(&x), |row| row.3, 2e-5, 1e-38);
}

#[test]
fn ends_are_pytorchs() {
    let (none, endless) = (f64::NAN, f64::INFINITY);
    let ends = [
        (0.0, 0.0, none, none),
        (0.0, 1.0, 1.0, 0.0),
        (0.0, endless, 1.0, 0.0),
        (1.0, 0.0, 0.0, 1.0),
        (1.0, endless, 1.0, 0.0),
        (endless, 0.0, 0.0, 1.0),
        (endless, 1.0, 0.0, 1.0),
        (endless, endless, none, none),
        (-1.0, 1.0, none, none),
        (1.0, -1.0, none, none),
        (none, 1.0, none, none),
        (1.0, none, none, none),
    ];
    for (a, x, below, above) in ends {
        let of = |value: f64| Tensor::from_vec(vec![value], [1]);
        let found = [of(a).igamma(&of(x)).item::<f64>().unwrap(), of(a).igammac(&of(x)).item::<f64>().unwrap()];
        for (found, wanted) in found.into_iter().zip([below, above]) {
            assert!(found == wanted || found.is_nan() && wanted.is_nan(), "{a}, {x}: {found} and not {wanted}");
        }
    }
    assert_eq!(
        Tensor::from_vec(vec![1i32], [1]).igamma(&Tensor::from_vec(vec![1i32], [1])).dtype().unwrap(),
        DType::F32
    );
}

#[test]
fn derivatives_are_those_of_differences() {
    let rows =
        [(0.7, 0.4), (3.0, 5.0), (9.0, 30.0), (25.0, 5.0), (25.0, 24.0), (25.0, 25.0), (25.0, 30.0), (25.0, 90.0)];
    for (a, x) in rows {
        let of = |value: f64| Tensor::from_vec(vec![value], [1]);
        let (first, second) = (of(a), of(x));
        for (above, sign) in [(false, 1.0), (true, -1.0)] {
            let value = |a: f64, x: f64| of(a).igamma(&of(x)).item::<f64>().unwrap() * sign;
            let found = if above { first.igammac(&second) } else { first.igamma(&second) };
            let found = found.sum(()).gradient(&[&first, &second]).unwrap();
            let step = 1e-5;
            let wanted = [
                (value(a + step, x) - value(a - step, x)) / (2.0 * step),
                (value(a, x + step) - value(a, x - step)) / (2.0 * step),
            ];
            for (found, wanted) in found.iter().zip(wanted) {
                let found = found.item::<f64>().unwrap();
                assert!((found - wanted).abs() < 1e-7, "{a}, {x}: {found}, and differences are {wanted}");
            }
        }
    }
}
