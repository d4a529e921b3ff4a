//! Functions of numbers of arguments that are known at run time, results that go to given tensors, and lengths of any integer type.
#![allow(clippy::unwrap_used, reason = "a step that fails fails its test")]

use warpweft::nn::{BatchNorm, Embedding, LayerNorm, Linear};
use warpweft::{DType, DynFunction, Tensor, Var, compile, compile_dyn, compile_with, spec};

fn from(values: &[f32]) -> Tensor {
    Tensor::from_slice(values, [values.len()])
}

fn read(tensor: &Tensor) -> Vec<f32> {
    tensor.to_vec().unwrap()
}

#[test]
fn any_number_of_arguments_and_results() {
    for count in [0usize, 1, 3, 7] {
        let specs = vec![spec(DType::F32, [2]); count];
        let function = compile_dyn(&specs, |tensors| {
            let mut running = Tensor::zeros([2]);
            let mut totals = Vec::new();
            for tensor in &tensors {
                running = &running + tensor;
                totals.push(running.clone());
            }
            Ok(totals)
        });
        let function = function.unwrap();
        assert_eq!((function.arguments(), function.results()), (count, count));
        let inputs: Vec<Tensor> = (0..count).map(|number| from(&[number as f32, 1.0])).collect();
        let results = function.call(&inputs.iter().collect::<Vec<_>>()).unwrap();
        for (number, result) in results.iter().enumerate() {
            assert_eq!(read(result), [(number * (number + 1) / 2) as f32, number as f32 + 1.0]);
        }
    }
}

#[test]
fn counts_that_do_not_fit_are_errors_of_the_call() {
    let function = compile_dyn(&[spec(DType::F32, [2])], |tensors| Ok(vec![&tensors[0] + 1.0])).unwrap();
    let x = from(&[1.0, 2.0]);
    let error = function.call(&[&x, &x]).unwrap_err().to_string();
    assert!(error.contains("the function has 1 arguments, and 2 are given (at runtime/tests/dynamic.rs:"), "{error}");
    let error = function.call_into(&[&x], &[]).unwrap_err().to_string();
    assert!(error.contains("the function has 1 results, and 0 are given"), "{error}");
    for wrong in [from(&[1.0]), Tensor::from_slice(&[1i32, 2], [2]), Tensor::zeros([1, 2])] {
        let error = function.call_into(&[&x], &[&wrong]).unwrap_err().to_string();
        assert!(error.contains("output 0 must be f32[2]") && error.contains("dynamic.rs:"), "{error}");
    }
}

#[test]
fn results_go_to_given_tensors_and_all_that_view_them() {
    let function = compile([spec(DType::F32, [4])], |[x]| [&x * 2.0, x.sum(())]).unwrap();
    let (double, whole) = (from(&[0.0; 4]), from(&[0.0; 6]));
    let (view, part, total) = (double.reshape([2, 2]), whole.get(1..5), Tensor::zeros([0i64; 0]));
    function.call_into([&from(&[1.0, 2.0, 3.0, 4.0])], [&double, &total]).unwrap();
    assert_eq!(
        (read(&double), read(&view), read(&total)),
        (vec![2.0, 4.0, 6.0, 8.0], vec![2.0, 4.0, 6.0, 8.0], vec![10.0])
    );
    // A part of a storage, and an output that is the argument.
    function.call_into([&double], [&part, &total]).unwrap();
    assert_eq!(read(&whole), [0.0, 4.0, 8.0, 12.0, 16.0, 0.0]);
    let same = DynFunction::from(&function);
    same.call_into(&[&double], &[&double, &total]).unwrap();
    assert_eq!((read(&double), read(&total)), (vec![4.0, 8.0, 12.0, 16.0], vec![20.0]));
}

#[test]
fn lengths_are_any_integers_and_shapes_any_lists() {
    let (rows, columns): (usize, usize) = (2, 3);
    let lists = [
        Tensor::zeros([rows, columns]),
        Tensor::zeros(vec![rows, columns]),
        Tensor::zeros(&vec![rows, columns]),
        Tensor::zeros(&[rows, columns]),
        Tensor::zeros(&[rows, columns][..]),
        Tensor::zeros([2, 3]),
        Tensor::zeros(vec![2i64, 3]),
        Tensor::zeros([rows * columns]).view([rows, columns]),
        Tensor::zeros([rows * columns]).view(vec![2i64, -1]),
    ];
    for tensor in &lists {
        assert_eq!(tensor.shape().unwrap(), [2, 3]);
    }
    let x = &lists[0];
    assert_eq!(Tensor::zeros(x.shape().unwrap()).shape().unwrap(), [2, 3]);
    assert_eq!(Linear::new(columns, rows, true).unwrap().forward(x).shape().unwrap(), [2, 2]);
    assert_eq!(LayerNorm::new([columns], 1e-5).unwrap().forward(x).shape().unwrap(), [2, 3]);
    assert_eq!(LayerNorm::new(&[3], 1e-5).unwrap().forward(x).shape().unwrap(), [2, 3]);
    assert_eq!(BatchNorm::new(columns).unwrap().forward(x).shape().unwrap(), [2, 3]);
    assert_eq!(Embedding::new(rows, columns).unwrap().weight.shape().unwrap(), [2, 3]);
    assert_eq!(Tensor::eye(rows, 3).shape().unwrap(), [2, 3]);
    assert_eq!(x.layer_norm(&[columns], None, None, 1e-5).shape().unwrap(), [2, 3]);
    assert_eq!(x.chunk(rows, 0).unwrap().len(), 2);
    assert_eq!(x.topk(rows, 1, true).unwrap().0.shape().unwrap(), [2, 2]);
    let n = Var::new("n", 1..=rows).unwrap();
    assert_eq!(Tensor::ones((n.bind(rows).unwrap(), columns)).shape().unwrap(), [2, 3]);
    let counted = compile_with(&[&n], [spec(DType::F32, [2, 3])], |[x]| [x + Tensor::from_dim(&n)]).unwrap();
    let [five] = counted.call_with(&[(&n, rows)], [x]).unwrap();
    assert_eq!(five.to_vec::<f32>().unwrap(), [2.0; 6]);
    assert_eq!(Tensor::ones((&n, columns)).bind(&[(&n, rows)]).sum(()).item::<f32>().unwrap(), 6.0);
    assert_eq!((x.argmax(rows - 1, false).shape().unwrap(), x.argmin((), false).shape().unwrap()), (vec![2], vec![]));
    assert_eq!(
        (x.argmax(None, true).shape().unwrap(), x.argmin(Some(-1), true).shape().unwrap()),
        (vec![1, 1], vec![2, 1])
    );
    assert_eq!(x.repeat_interleave(rows, columns - 2).shape().unwrap(), [2, 6]);
    assert_eq!((x.get(0..rows).shape().unwrap(), x.get((1usize, ..)).shape().unwrap()), (vec![2, 3], vec![3]));
    assert_eq!((x.get(0..1) * columns + rows).to_vec::<f32>().unwrap(), [2.0; 3]);
    assert_eq!(Tensor::full([rows], columns).dtype().unwrap(), DType::I32);
    let error = Tensor::zeros([usize::MAX]).shape().unwrap_err().to_string();
    assert!(error.contains("more elements than memory can hold"), "{error}");
}

#[test]
fn elements_are_borrowed_and_copied_as_they_are() {
    let x = from(&[1.0, 2.0, 3.0, 4.0]);
    let total = x.with_slice(|elements: &[f32]| {
        // What is written meanwhile goes elsewhere.
        x.add_assign(1.0).unwrap();
        assert_eq!(read(&x), [2.0, 3.0, 4.0, 5.0]);
        elements.iter().sum::<f32>()
    });
    assert_eq!(total.unwrap(), 10.0);
    assert_eq!(x.reshape([2, 2]).t().with_slice(|elements: &[f32]| elements.to_vec()).unwrap(), [2.0, 4.0, 3.0, 5.0]);
    assert_eq!(x.get(1..3).with_slice(|elements: &[f32]| elements.to_vec()).unwrap(), [3.0, 4.0]);
    assert_eq!(x.get(0..0).with_slice(|elements: &[f32]| elements.len()).unwrap(), 0);
    assert_eq!(x.gt(3.5).with_slice(|elements: &[bool]| elements.to_vec()).unwrap(), [false, false, true, true]);
    assert!(x.with_slice(|_: &[i32]| ()).unwrap_err().to_string().contains("its elements are f32, not i32"));
    let bytes = Tensor::from_bytes(None, DType::BOOL, [3], &[0, 1, 7]);
    assert_eq!(bytes.to_vec::<bool>().unwrap(), [false, true, true]);
    assert_eq!(bytes.with_slice(|elements: &[bool]| elements.to_vec()).unwrap(), [false, true, true]);
}
