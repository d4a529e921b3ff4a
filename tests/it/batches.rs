//! `vmap` beside loops over the elements of a batch.

use warpweft::tensor::ConvOptions;
use warpweft::{DType, Result, Tensor, compile, spec, vmap};

fn numbers(shape: &[i64], seed: i64) -> Tensor {
    let count = shape.iter().product::<i64>();
    Tensor::from_vec((0..count).map(|k| (((k + seed) * (k + 17)) as f64 * 0.618).sin()).collect(), shape.to_vec())
}

/// What a function of one element of each batch gives.
type Function = fn([Tensor; 2]) -> Result<[Tensor; 1]>;

/// Elements are [3, 4] and [4]. The weights of all are the same.
// tidy: table
const FUNCTIONS: &[(&str, Function)] = &[
    ("arithmetic", |[x, y]| Ok([(&x * &y + 1.0).exp() - 0.5])),
    ("a number for each", |[x, y]| Ok([&x * y.sum(()) + x.max(()) * 2.0])),
    ("what all share", |[x, _]| Ok([x.matmul(&numbers(&[4, 2], 5)) + Tensor::iota(2)])),
    ("only of the other", |[_, y]| Ok([y.softmax(0)])),
    ("of none", |_| Ok([numbers(&[2], 1)])),
    ("matmul", |[x, y]| Ok([x.matmul(&y.unsqueeze(1)).matmul(&y.unsqueeze(0))])),
    ("movement", |[x, y]| {
        Ok([Tensor::cat(&[&x.t().flip(0), &y.reshape([4, 1]).pad(&[(0, 0), (1, 2)])], 1).narrow(0, 1, 2)])
    }),
    ("reductions", |[x, _]| Ok([x.var(0, 1, false) + x.logsumexp(0) + x.prod(0) + x.norm(2.0, 0, false)])),
    ("scans", |[x, y]| Ok([x.cumsum(1) + y.cummax(0)])),
    ("sorted", |[x, y]| Ok([Tensor::cat(&[&x.sort(1, true)?.0, &y.sort(0, false)?.0.unsqueeze(0)], 0)])),
    ("a common index", |[x, _]| Ok([x.index_select(1, &Tensor::from_vec(vec![3i32, 0], [2]))])),
    ("an index of its own", |[x, y]| Ok([x.index_select(1, &y.argsort(0, false))])),
    ("a common table", |[_, y]| Ok([numbers(&[4, 3], 2).index_select(0, &y.argsort(0, true))])),
    ("gather", |[x, y]| Ok([x.gather(&y.argsort(0, true).unsqueeze(0), 1)])),
    ("scatter", |[x, y]| Ok([x.scatter(1, &y.argsort(0, true).unsqueeze(0), &y.unsqueeze(0))])),
    ("conv", |[x, y]| {
        Ok([x.unsqueeze(0).conv(
            &y.narrow(0, 0, 2).reshape([1, 1, 2]).expand([2, 3, 2]),
            None,
            &ConvOptions::default(),
        )])
    }),
    ("inverse", |[x, y]| Ok([(x.matmul(&x.t()) + Tensor::eye_of(3, 3, DType::F64)).inverse() * y.mean(())])),
    ("a gradient", |[x, y]| Ok([(&x * &y).square().sum(()).gradient(&[&x])?.remove(0)])),
    ("twice", |[x, y]| vmap([&x], |[row]| [row.dot(&y)])),
];

#[test]
fn functions_of_an_element_are_those_of_a_batch() {
    let (x, y) = (numbers(&[3, 3, 4], 1), numbers(&[3, 4], 2));
    for (name, function) in FUNCTIONS {
        let [found] = vmap([&x, &y], *function).unwrap_or_else(|error| panic!("{name}: {error}"));
        let one = |k: i64| {
            let element = |x: &Tensor| x.narrow(0, k, 1).squeeze(0);
            function([element(&x), element(&y)]).unwrap()[0].clone()
        };
        let each: Vec<Tensor> = (0..3).map(one).collect();
        let wanted = Tensor::stack(&each.iter().collect::<Vec<_>>(), 0);
        assert_eq!(found.shape().unwrap(), wanted.shape().unwrap(), "{name}");
        let far = (&found - &wanted).cast(DType::F64).abs().max(()).item::<f64>().unwrap();
        assert!(far < 1e-9, "{name}: {far} apart");
    }
}

#[test]
fn gradients_go_through_batches_and_into_compiled_functions() {
    let (x, y) = (numbers(&[3, 3, 4], 1), numbers(&[3, 4], 2));
    for name in ["matmul", "conv", "inverse", "an index of its own", "a gradient", "reductions"] {
        let (_, function) = FUNCTIONS.iter().find(|entry| entry.0 == name).unwrap();
        let loss = vmap([&x, &y], *function).unwrap()[0].square().sum(());
        let found = loss.gradient(&[&x]).unwrap().remove(0);
        for k in 0..3 {
            let (one, other) = (x.narrow(0, k, 1).squeeze(0).contiguous(), y.narrow(0, k, 1).squeeze(0).contiguous());
            one.realize().unwrap();
            other.realize().unwrap();
            let loss = function([one.clone(), other]).unwrap()[0].square().sum(());
            let wanted = loss.gradient(&[&one]).unwrap().remove(0);
            let far = (found.narrow(0, k, 1).squeeze(0) - wanted).abs().max(()).item::<f64>().unwrap();
            assert!(far < 1e-8, "{name}: {far} apart");
        }
    }
    let function = compile([spec(DType::F64, [3, 4])], |[y]| vmap([&y], |[row]| [row.softmax(0)])).unwrap();
    let far = (&function.call([&y]).unwrap()[0] - y.softmax(1)).abs().max(()).item::<f64>().unwrap();
    assert!(far < 1e-12);
}

#[test]
fn what_cannot_be_a_batch_is_said() {
    let (x, y) = (numbers(&[3, 4], 1), numbers(&[2, 4], 2));
    let error = vmap([&x, &y], |[x, y]| [x + y]).unwrap_err().to_string();
    assert!(error.starts_with("vmap of f64[3, 4] and f64[2, 4]: ") && error.contains("batches.rs"), "{error}");
    assert!(vmap([&Tensor::full([0i64; 0], 1.0)], |[x]| [x]).is_err());
    let asked = vmap([&x], |[x]| -> Result<[Tensor; 1]> { Ok([Tensor::full([1], x.sum(()).item::<f64>()?)]) });
    assert!(asked.unwrap_err().to_string().contains("trace"), "a value of no element");
}
