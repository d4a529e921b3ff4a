//! Convolutions, pools and images of another size where the sizes of images are variables: values and gradients beside those for numbers, which the
//! corpora compare with PyTorch's.

use warpweft::tensor::{ConvOptions, PoolOptions, Resize};
use warpweft::{DType, Dim, Tensor, Var};

/// Numbers that differ, between -1 and 1.
fn numbers(count: i64) -> Vec<f32> {
    (0..count).map(|k| ((k * 37 + 11) % 101) as f32 / 50.5 - 1.0).collect()
}

fn weight(lengths: [i64; 4]) -> Tensor {
    Tensor::from_vec(numbers(lengths.iter().product()), lengths)
}

fn conv(stride: i64, padding: i64, dilation: i64) -> ConvOptions {
    ConvOptions::default().stride([stride]).padding([padding]).dilation([dilation])
}

fn pool(kernel: i64, stride: i64, padding: i64) -> PoolOptions {
    PoolOptions::default().kernel([kernel, kernel]).stride([stride]).padding([padding])
}

/// What is done to images [2, 4, h, w] of which h and w are variables or numbers, and to a weight [4, 4, 3, 3].
type Case = (&'static str, fn(&Tensor, &Tensor, [Dim; 2]) -> Tensor);

// tidy: table
const CASES: &[Case] = &[
    ("conv", |x, w, _| x.conv(w, None, &conv(1, 0, 1))),
    ("conv of the same size", |x, w, _| x.conv(w, None, &conv(1, 1, 1))),
    ("conv, stride 2", |x, w, _| x.conv(w, None, &conv(2, 1, 1))),
    ("conv, stride 3, no padding", |x, w, _| x.conv(w, None, &conv(3, 0, 1))),
    ("conv, dilated", |x, w, _| x.conv(w, None, &conv(1, 2, 2))),
    ("conv, dilated, stride 2", |x, w, _| x.conv(w, None, &conv(2, 1, 2))),
    ("conv, groups", |x, w, _| x.conv(&w.narrow(1, 0, 2), None, &conv(2, 1, 1).groups(2))),
    ("conv, depthwise", |x, w, _| x.conv(&w.narrow(1, 0, 1), None, &conv(1, 1, 1).groups(4))),
    ("conv of points", |x, w, _| x.conv(&w.narrow(2, 0, 1).narrow(3, 0, 1), None, &conv(1, 0, 1))),
    ("two convs", |x, w, _| x.conv(w, None, &conv(2, 1, 1)).relu().conv(w, None, &conv(1, 1, 1))),
    ("conv of lines", |x, w, _| x.flatten(2, 3).conv(&w.narrow(2, 0, 1).squeeze(2), None, &conv(2, 1, 1))),
    ("transposed", |x, w, _| x.conv_transpose(w, None, &conv(1, 1, 1))),
    ("transposed, stride 2", |x, w, _| x.conv_transpose(w, None, &conv(2, 0, 1))),
    ("transposed, stride 2, padding", |x, w, _| x.conv_transpose(w, None, &conv(2, 1, 1).output_padding([1]))),
    ("transposed, stride 3", |x, w, _| x.conv_transpose(w, None, &conv(3, 1, 1).output_padding([2]))),
    ("transposed, dilated", |x, w, _| x.conv_transpose(w, None, &conv(2, 1, 2).output_padding([1]))),
    ("max_pool", |x, _, _| x.max_pool(&pool(2, 2, 0))),
    ("max_pool, overlapping", |x, _, _| x.max_pool(&pool(3, 2, 1))),
    ("max_pool to the end", |x, _, _| x.max_pool(&pool(3, 2, 1).ceil_mode(true))),
    ("max_pool_indices", |x, _, _| x.max_pool_indices(&pool(3, 2, 1).ceil_mode(true))),
    ("avg_pool", |x, _, _| x.avg_pool(&pool(2, 2, 0))),
    ("avg_pool, padded", |x, _, _| x.avg_pool(&pool(3, 2, 1))),
    ("avg_pool of what is there", |x, _, _| x.avg_pool(&pool(3, 2, 1).count_include_pad(false))),
    ("avg_pool to the end", |x, _, _| x.avg_pool(&pool(3, 2, 0).ceil_mode(true))),
    ("avg_pool to the end, padded", |x, _, _| x.avg_pool(&pool(3, 2, 1).ceil_mode(true))),
    ("adaptive mean of all", |x, _, _| x.adaptive_avg_pool(&[1, 1])),
    ("adaptive means", |x, _, _| x.adaptive_avg_pool(&[3, 2])),
    ("adaptive largest of all", |x, _, _| x.adaptive_max_pool(&[1, 1])),
    ("adaptive largest", |x, _, _| x.adaptive_max_pool(&[2, 3])),
    ("twice the size, nearest", |x, _, [h, w]| x.interpolate((h * 2, w * 2), Resize::Nearest)),
    ("twice the size", |x, _, [h, w]| x.interpolate((h * 2, w * 2), Resize::Linear { align_corners: false })),
    ("twice the size, corners kept", |x, _, [h, w]| {
        x.interpolate((h * 2, w * 2), Resize::Linear { align_corners: true })
    }),
    ("half the size", |x, _, [h, w]| x.interpolate((h / 2, w / 2), Resize::NearestExact)),
    ("from any size", |x, _, _| x.interpolate([5, 8], Resize::Linear { align_corners: false })),
    ("pixel_shuffle", |x, _, _| x.pixel_shuffle(2)),
    ("unfolded", |x, _, _| x.unfold(2, 3, 2)),
];

/// The images, as their sizes were given.
fn images(h: impl Into<Dim>, w: impl Into<Dim>) -> Tensor {
    let (h, w) = (h.into(), w.into());
    let count = 8 * h.value().unwrap() * w.value().unwrap();
    Tensor::from_vec(numbers(count), (2, 4, h, w))
}

fn values(x: &Tensor, name: &str) -> Vec<f64> {
    x.cast(DType::F64).to_vec::<f64>().unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn largest_difference(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

const SIZES: [(i64, i64); 4] = [(5, 6), (8, 5), (11, 13), (12, 12)];

fn variables(h: i64, w: i64) -> [Dim; 2] {
    let named = |name: &str, value: i64| Var::new(name, 5..=16).unwrap().bind(value).unwrap();
    [named("h", h), named("w", w)]
}

#[test]
fn images_of_variable_sizes_give_what_those_of_numbers_give() {
    let filter = weight([4, 4, 3, 3]);
    for (h, w) in SIZES {
        let [rows, columns] = variables(h, w);
        let (symbolic, plain) = (images(rows.clone(), columns.clone()), images(h, w));
        for (name, function) in CASES {
            let found = function(&symbolic, &filter, [rows.clone(), columns.clone()]);
            let wanted = function(&plain, &filter, [h.into(), w.into()]);
            let (found_values, wanted_values) = (values(&found, name), values(&wanted, name));
            assert_eq!(found.shape().unwrap(), wanted.shape().unwrap(), "{name}, {h} x {w}");
            let far = largest_difference(&found_values, &wanted_values);
            assert!(far < 1e-5, "{name}, {h} x {w}: {far}");
        }
    }
}

#[test]
fn gradients_of_images_of_variable_sizes_are_those_of_numbers() {
    for (h, w) in SIZES {
        for (name, function) in CASES.iter().filter(|case| case.0 != "max_pool_indices") {
            let slopes = |rows: Dim, columns: Dim| {
                let (x, filter) = (images(rows.clone(), columns.clone()), weight([4, 4, 3, 3]));
                let loss = function(&x, &filter, [rows, columns]).square().sum(());
                let uses_weight = name.contains("conv") || name.contains("transposed");
                let by: &[&Tensor] = if uses_weight { &[&x, &filter] } else { &[&x] };
                let gradients = loss.gradient(by).unwrap_or_else(|error| panic!("{name}: {error}"));
                gradients.iter().map(|gradient| values(gradient, name)).collect::<Vec<_>>()
            };
            let [rows, columns] = variables(h, w);
            let (found, wanted) = (slopes(rows, columns), slopes(h.into(), w.into()));
            for (found, wanted) in found.iter().zip(&wanted) {
                let scale = wanted.iter().fold(1.0f64, |most, value| most.max(value.abs()));
                let far = largest_difference(found, wanted) / scale;
                assert!(far < 1e-5, "{name}, {h} x {w}: {far}");
            }
        }
    }
}

#[test]
fn a_gradient_may_be_given_in_a_shape_that_is_written_otherwise() {
    let [rows, columns] = variables(9, 12);
    let (x, filter) = (images(rows.clone(), columns.clone()), weight([4, 4, 3, 3]));
    let result = x.conv(&filter, None, &conv(2, 1, 1));
    let halves = |len: Dim| (len - 1) / 2 + 1;
    let given = Tensor::ones((2, 4, halves(rows), halves(columns)));
    let found = result.gradient_with(&given, &[&x]).unwrap().remove(0);
    let wanted = result.sum(()).gradient(&[&x]).unwrap().remove(0);
    assert!(largest_difference(&values(&found, "given"), &values(&wanted, "of a sum")) < 1e-6);
}

#[test]
fn windows_that_the_least_size_does_not_hold_are_refused() {
    let h = Var::new("h", 2..=9).unwrap().bind(7).unwrap();
    let x = images(h, 9);
    let error = x.conv(&weight([4, 4, 3, 3]), None, &conv(1, 0, 1)).to_vec::<f32>().unwrap_err().to_string();
    assert!(error.contains("does not fit the padded length h, which may be 2"), "{error}");
    let error = x.max_pool(&pool(2, 2, 1).ceil_mode(true)).to_vec::<f32>().unwrap_err().to_string();
    assert!(error.contains("at least the stride (2) and the padding (1) together"), "{error}");
}
