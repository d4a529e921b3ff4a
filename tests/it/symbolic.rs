//! Shapes whose lengths are variables: what is built once runs for every value, with one compilation, on every engine.
//!
//! Each result is compared with the same program over plain numbers, element for element.

use warpweft::config::Config;
use warpweft::execute::{self, Executor};
use warpweft::{DType, Dim, Tensor, Var};
use warpweft_compiler::schedule::view_of;
use warpweft_compiler::{UOp, ops};

const DEVICES: [&str; 2] = ["CPU", "INTERPRETER"];

fn floats(count: i64, seed: i64) -> Vec<f32> {
    (0..count).map(|k| ((k * 37 + seed * 11) % 19 - 9) as f32 * 0.25).collect()
}

fn var(name: &str, min: i64, max: i64) -> Var {
    Var::new(name, min..=max).unwrap()
}

#[test]
fn names_bounds_and_values_are_checked() {
    let error = |result: Result<_, warpweft::tensor::VarError>| {
        let text = result.map(|_: Dim| ()).unwrap_err().to_string();
        text.split_once(&format!(" (at {}:", file!())).expect("the caller's line").0.to_string()
    };
    let made = |name: &str, min: i64, max: i64| Var::new(name, min..=max).map(Dim::from);
    assert_eq!(
        error(made("n", 3, 2)),
        "the variable n cannot lie from 3 to 2: lengths are 0 or more, and the least comes first"
    );
    assert!(error(made("n", -1, 2)).contains("from -1 to 2"));
    assert!(error(made("1n", 0, 2)).contains("\"1n\" is no name"));
    let n = var("n", 1, 512);
    assert_eq!(error(n.bind(513)), "the variable n is bound to 513, but it lies from 1 to 512");
    assert_eq!(n.bind(17).unwrap().value(), Ok(17));
    assert_eq!((&n * 2 + 1).max_value(), 1025);
    assert_eq!((n.bind(17).unwrap() * 2 + 1).value(), Ok(35));
}

#[test]
fn shapes_mix_numbers_and_variables() {
    let n = var("n", 1, 8);
    let three = n.bind(3).unwrap();
    let x = Tensor::from_vec(floats(6, 1), (&three, 2));
    assert_eq!(x.shape().unwrap(), [3, 2]);
    assert_eq!(x.to_vec::<f32>().unwrap(), floats(6, 1));
    assert_eq!(x.dims().unwrap().to_string(), "[n, 2]");
    assert_eq!(Tensor::ones((&three * 2, 2)).sum(()).item::<f32>().unwrap(), 12.0);
    assert_eq!(Tensor::iota(&three + 1).to_vec::<i32>().unwrap(), [0, 1, 2, 3]);
    assert_eq!(Tensor::from_dim(&three * 5).item::<i64>().unwrap(), 15);
    assert_eq!(format!("{}", Tensor::iota(&three)), "tensor([0, 1, 2], dtype=i32)");
    let wrong = Tensor::from_vec(floats(5, 1), (&three, 2)).to_vec::<f32>().unwrap_err().to_string();
    assert!(wrong.contains("has 6 elements, and 5 are given"), "{wrong}");
}

#[test]
fn a_variable_without_a_value_has_no_elements_but_a_shape() {
    let n = var("n", 1, 8);
    let x = Tensor::ones((&n, 2)) * 3.0;
    assert_eq!(x.shape().unwrap(), [8, 2]);
    assert_eq!(format!("{:?}", x.vars().unwrap()), "[n in 1..=8]");
    let error = x.to_vec::<f32>().unwrap_err().to_string();
    assert!(error.starts_with("the variable n has no value; bind it before computing (at "), "{error}");
    let error = x.sum(()).item::<f32>().unwrap_err().to_string();
    assert!(error.starts_with("the variable n has no value; bind it before computing (at "), "{error}");
    let bound = x.bind(&[(&n, 2)]);
    assert_eq!(bound.to_vec::<f32>().unwrap(), [3.0; 4]);
    assert!(bound.vars().unwrap().is_empty());
    // What is bound stays bound; what does not occur is ignored.
    assert_eq!(bound.bind(&[(&n, 5), (&var("m", 0, 9), 1)]).shape().unwrap(), [2, 2]);
    let error = x.bind(&[(&n, 9)]).to_vec::<f32>().unwrap_err().to_string();
    assert!(error.contains("the variable n is bound to 9, but it lies from 1 to 8"), "{error}");
    let error = x.bind(&[(&n, 3), (&n, 4)]).to_vec::<f32>().unwrap_err().to_string();
    assert!(error.contains("the variable n is bound to 3 and to 4"), "{error}");
}

#[test]
fn what_is_not_known_to_fit_is_refused_with_what_was_compared() {
    let (n, m) = (var("n", 1, 8), var("m", 1, 8));
    let message = |tensor: Tensor| tensor.shape().unwrap_err().to_string();
    let x = Tensor::ones((&n, 4));
    let refused = message(&x + Tensor::ones((&m, 4)));
    assert!(refused.contains("lengths n and m meet"), "{refused}");
    let refused = message(x.reshape((&m, 4)));
    assert!(refused.contains("which are not known to be equal"), "{refused}");
    let refused = message(x.narrow(0, 0, 2));
    assert!(refused.contains("0..2 is not known to be within axis 0 of length n"), "{refused}");
    let refused = message(x.narrow(0, 0, &n + 1));
    assert!(refused.contains("not known to be within axis 0 of length n"), "{refused}");
    let refused = message(Tensor::ones((&n - 2, 2)));
    assert!(refused.contains("may be negative"), "{refused}");
    let refused = message(Tensor::ones((n.bind(3).unwrap(),)) + Tensor::ones((n.bind(4).unwrap(),)));
    assert!(refused.contains("n is bound to 3 and to 4 in one program"), "{refused}");
    // The same conflict where no two shapes meet shows when the program runs.
    let sums = Tensor::ones((n.bind(3).unwrap(),)).sum(()) + Tensor::ones((n.bind(4).unwrap(),)).sum(());
    let error = sums.item::<f32>().unwrap_err().to_string();
    assert!(error.contains("n is bound to 3 and to 4 in one program"), "{error}");
    let other = var("n", 1, 9);
    let sums = Tensor::ones((n.bind(3).unwrap(),)).sum(()) + Tensor::ones((other.bind(3).unwrap(),)).sum(());
    let error = sums.item::<f32>().unwrap_err().to_string();
    assert!(error.contains("n has bounds 1..=8 and 1..=9 in one program; use one variable"), "{error}");
    // What fits for every value is taken.
    assert_eq!(x.narrow(0, &n - 1, 1).shape().unwrap(), [1, 4]);
    assert_eq!(x.reshape((2, &n * 2)).shape().unwrap(), [2, 16]);
    assert_eq!(x.reshape([-1, 2]).dims().unwrap().to_string(), (x.reshape((&n * 2, 2))).dims().unwrap().to_string());
}

#[test]
fn threads_share_a_loop_of_symbolic_length() {
    let n = var("n", 1, 600);
    for value in [1, 2, 37, 599, 600] {
        let x = Tensor::from_vec(floats(value * 200, value), (n.bind(value).unwrap(), 200));
        let want: Vec<f32> = floats(value * 200, value).iter().map(|x| x.max(0.0) * 2.0 + 1.0).collect();
        assert_eq!((x.relu() * 2.0 + 1.0).to_vec::<f32>().unwrap(), want, "n = {value}");
        let sums: Vec<f32> = floats(value * 200, value).chunks(200).map(|row| row.iter().sum()).collect();
        assert_eq!(x.sum(1).to_vec::<f32>().unwrap(), sums, "n = {value}");
    }
}

#[test]
fn gradients_flow_through_a_batch_of_any_size() {
    let n = var("n", 1, 12);
    for value in [1, 2, 7, 12] {
        let loss = |count: Dim| {
            let (weights, bias) = (Tensor::from_vec(floats(12, 1), [4, 3]), Tensor::from_vec(floats(4, 2), [4]));
            let x = Tensor::from_vec(floats(value * 3, 3), (count.clone(), 3));
            let target = Tensor::from_vec((0..value as i32).map(|k| k % 4).collect(), (count.clone(),));
            let scores = x.linear(&weights, Some(&bias)).relu();
            let picked =
                scores.narrow(0, 0, (&count + 1) / 2).softmax(0).sum(()) + scores.pad(&[(1, 2), (0, 1)]).max(0).sum(());
            let loss = scores.cross_entropy(&target, &Default::default()) + picked;
            let gradients = loss.gradient(&[&weights, &bias, &x]).unwrap();
            gradients.iter().map(|gradient| gradient.to_vec::<f32>().unwrap()).collect::<Vec<_>>()
        };
        let (got, want) = (loss(n.bind(value).unwrap()), loss(Dim::from(value)));
        assert!(got.iter().map(Vec::len).eq(want.iter().map(Vec::len)), "n = {value}");
        for (got, want) in got.iter().flatten().zip(want.iter().flatten()) {
            assert!((got - want).abs() < 1e-5, "n = {value}: {got} is not {want}");
        }
        assert_eq!(got.iter().map(Vec::len).collect::<Vec<_>>(), [12, 4, value as usize * 3]);
    }
}

#[test]
fn gradients_of_convolutions_keep_a_batch_of_any_size() {
    let n = var("n", 1, 6);
    for value in [1, 4, 6] {
        let gradients = |count: Dim| {
            let filters = Tensor::from_vec(floats(2 * 9, 1), [2, 1, 3, 3]);
            let x = Tensor::from_vec(floats(value * 36, 3), (count, 1, 6, 6));
            let pooled = x
                .conv(&filters, None, &Default::default())
                .avg_pool(&warpweft::tensor::PoolOptions::default().kernel(vec![2]));
            let gradients = (&pooled * &pooled).mean(()).gradient(&[&filters, &x]).unwrap();
            gradients.iter().map(|gradient| gradient.to_vec::<f32>().unwrap()).collect::<Vec<_>>()
        };
        let (got, want) = (gradients(n.bind(value).unwrap()), gradients(Dim::from(value)));
        assert!(got.iter().map(Vec::len).eq(want.iter().map(Vec::len)), "n = {value}");
        for (got, want) in got.iter().flatten().zip(want.iter().flatten()) {
            assert!((got - want).abs() < 1e-4, "n = {value}: {got} is not {want}");
        }
        assert_eq!(got.iter().map(Vec::len).collect::<Vec<_>>(), [18, value as usize * 36]);
    }
}

/// An executor of its own, whose counters no other test moves.
fn executor(device: &str) -> Executor {
    Executor::open(device, &Config::default()).unwrap()
}

fn read(node: &UOp) -> Vec<f32> {
    let bytes = execute::to_bytes(node).unwrap();
    bytes.chunks(4).map(|chunk| f32::from_le_bytes([chunk[0], chunk[1], chunk[2], chunk[3]])).collect()
}

#[test]
fn one_compilation_serves_every_value() {
    let n = var("n", 1, 512);
    for device in DEVICES {
        let executor = executor(device);
        let given = floats(512 * 3, 7);
        let data: Vec<u8> = given.iter().flat_map(|value| value.to_le_bytes()).collect();
        let memory = executor.from_bytes(DType::F32, 512 * 3, &data).unwrap();
        let weights = executor.from_bytes(DType::F32, 12, &data[..48]).unwrap().reshape([3, 4]);
        for value in 1..=512 {
            let x = view_of(&memory, &(n.bind(value).unwrap(), 3).into());
            let product = ops::matmul::matmul(&x, &weights).unwrap();
            let largest = ops::reduce::max(&product, &[0], false).unwrap();
            let got = executor.realize(&[product, largest]).unwrap();
            let want: Vec<f32> = given[..value as usize * 3]
                .chunks(3)
                .flat_map(|row| (0..4).map(|column| (0..3).map(|k| row[k] * given[k * 4 + column]).sum::<f32>()))
                .collect();
            let most = |column: usize| want.chunks(4).map(|row| row[column]).fold(f32::NEG_INFINITY, f32::max);
            assert_eq!(read(&got[0]), want, "{device}, n = {value}");
            assert_eq!(read(&got[1]), [most(0), most(1), most(2), most(3)], "{device}, n = {value}");
        }
        let stats = executor.stats();
        assert_eq!((stats.schedules_made, stats.schedules_found), (1, 511), "{device}");
        assert_eq!(stats.kernels_compiled * 512, stats.launches, "{device}");
    }
}
