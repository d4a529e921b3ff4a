//! Functions against the same closures run without being compiled, and what other libraries' captures get wrong.

mod errors;
mod lengths;
mod memory;
mod training;

use super::*;
use crate::nn::{Adam, Linear, Module, Optimizer, Sgd};
use crate::tensor::ClassOptions;
use crate::tensor::{TensorElement, Var, manual_seed};
use warpweft_compiler::ir::Dim;

const F: DType = DType::F32;

fn from(values: &[f32], shape: &[i64]) -> Tensor {
    Tensor::from_vec(values.to_vec(), shape.to_vec())
}

fn floats(tensor: &Tensor) -> Vec<f32> {
    tensor.to_vec::<f32>().unwrap()
}

fn read<E: TensorElement>(tensor: &Tensor) -> Vec<E> {
    tensor.to_vec::<E>().unwrap()
}

/// Held by tests that count on the sequence of random numbers, which the process has one of.
static SEQUENCE: std::sync::Mutex<()> = std::sync::Mutex::new(());

fn memory_address(tensor: &Tensor) -> usize {
    let node = crate::execute::computed_buffer(&tensor.uop().unwrap()).unwrap();
    crate::execute::memory_of(&node).unwrap().address().unwrap()
}

fn message<T: fmt::Debug>(result: Result<T>) -> String {
    result.unwrap_err().to_string()
}

fn static_assertion<T: Send + Sync>() {}

#[test]
fn tensors_and_functions_may_go_to_other_threads() {
    static_assertion::<Tensor>();
    static_assertion::<Function<2, 3>>();
    static_assertion::<Spec>();
}

#[test]
fn a_function_computes_what_its_closure_does() {
    let f = compile([spec(F, [2, 3]), spec(F, [3, 2])], |[x, w]| [x.matmul(&w).relu(), x.sum(())]).unwrap();
    for round in 0..4 {
        let x = from(&[1.0, -2.0, 3.0, round as f32, 5.0, -6.0], &[2, 3]);
        let w = from(&[1.0, 0.5, -1.0, 2.0, 0.0, round as f32], &[3, 2]);
        let [y, total] = f.call([&x, &w]).unwrap();
        assert_eq!(floats(&y), floats(&x.matmul(&w).relu()));
        assert_eq!(total.item::<f32>().unwrap(), 1.0 + round as f32);
        assert_eq!(y.shape().unwrap(), [2, 2]);
    }
    assert_eq!(format!("{f:?}"), format!("Function(f32[2, 3], f32[3, 2]; 2 results, {} kernels)", f.kernels()));
}

#[test]
fn a_call_builds_no_graph_and_schedules_nothing() {
    let f = compile([spec(F, [8])], |[x]| [(x.exp() + 1.0).contiguous() * 2.0]).unwrap();
    let x = from(&[0.5; 8], &[8]);
    let executor = crate::registry::executor(None).unwrap();
    f.call([&x]).unwrap();
    let before = executor.stats();
    let kept: Vec<_> = (0..10).map(|_| f.call([&x]).unwrap()).collect();
    let after = executor.stats();
    // Other tests of this process may schedule meanwhile, but none so often that the launches would not show.
    assert!(after.launches >= before.launches + 10 * f.kernels() as u64);
    assert!(kept.iter().all(|[y]| floats(y) == floats(&((x.exp() + 1.0).contiguous() * 2.0))));
}

#[test]
fn results_are_new_tensors_and_stay_as_they_are() {
    let f = compile([spec(F, [4])], |[x]| [&x + 1.0]).unwrap();
    let [a] = f.call([&from(&[1.0; 4], &[4])]).unwrap();
    let [b] = f.call([&from(&[2.0; 4], &[4])]).unwrap();
    let [c] = f.call([&a]).unwrap();
    assert_eq!((floats(&a), floats(&b), floats(&c)), (vec![2.0; 4], vec![3.0; 4], vec![3.0; 4]));
    // Its own result as its argument, again and again.
    let mut x = a;
    for _ in 0..5 {
        [x] = f.call([&x]).unwrap();
    }
    assert_eq!(floats(&x), [7.0; 4]);
}

#[test]
fn a_result_that_is_an_argument_does_not_follow_it() {
    let f = compile([spec(F, [2, 2])], |[x]| [x.clone(), x.reshape([4]), x.t()]).unwrap();
    let x = from(&[1.0, 2.0, 3.0, 4.0], &[2, 2]);
    let [same, flat, turned] = f.call([&x]).unwrap();
    x.assign(&from(&[9.0; 4], &[2, 2])).unwrap();
    same.assign(&same + 1.0).unwrap();
    assert_eq!((floats(&x), floats(&same)), (vec![9.0; 4], vec![2.0, 3.0, 4.0, 5.0]));
    assert_eq!((floats(&flat), floats(&turned)), (vec![1.0, 2.0, 3.0, 4.0], vec![1.0, 3.0, 2.0, 4.0]));
}

#[test]
fn arguments_may_be_lazy_views_and_one_another() {
    let f = compile([spec(F, [2, 2]), spec(F, [2, 2])], |[a, b]| [&a * 10.0 + &b]).unwrap();
    let base = from(&(0..12).map(|k| k as f32).collect::<Vec<_>>(), &[6, 2]);
    let rows = |from: i64| base.shrink(&[(from, from + 2), (0, 2)]);
    let expected = |a: &Tensor, b: &Tensor| floats(&(a * 10.0 + b));
    let lazy = &rows(1) + 0.5;
    let cases = [
        (rows(0), rows(0)),     // the same twice
        (rows(1), rows(3)),     // other offsets, in place
        (rows(0), rows(1)),     // overlapping
        (rows(2).t(), rows(2)), // no piece of memory: copied
        (rows(4).flip(0), lazy.clone()),
        (from(&[1.0, 2.0], &[1, 2]).expand([2, 2]), lazy),
    ];
    for (a, b) in &cases {
        let [y] = f.call([a, b]).unwrap();
        assert_eq!(floats(&y), expected(a, b));
    }
    assert_eq!(floats(&base), (0..12).map(|k| k as f32).collect::<Vec<_>>());
}

#[test]
fn captured_tensors_are_read_at_each_call() {
    let factor = from(&[2.0], &[1]);
    let offset = Tensor::full([3], 1.0); // a constant, never computed
    let f = compile([spec(F, [3])], |[x]| [&x * &factor + &offset]).unwrap();
    let x = from(&[1.0, 2.0, 3.0], &[3]);
    assert_eq!(floats(&f.call([&x]).unwrap()[0]), [3.0, 5.0, 7.0]);
    factor.assign(&factor * 5.0).unwrap();
    offset.assign(0.0).unwrap();
    assert_eq!(floats(&f.call([&x]).unwrap()[0]), [10.0, 20.0, 30.0]);
}

#[test]
fn functions_of_equal_closures_keep_their_own_tensors() {
    let layer = |weight: f32| {
        let weight = from(&[weight], &[1]);
        compile([spec(F, [2])], move |[x]| [&x * &weight]).unwrap()
    };
    let (double, triple) = (layer(2.0), layer(3.0));
    let x = from(&[1.0, 10.0], &[2]);
    assert_eq!(floats(&double.call([&x]).unwrap()[0]), [2.0, 20.0]);
    assert_eq!(floats(&triple.call([&x]).unwrap()[0]), [3.0, 30.0]);
    assert_eq!(floats(&double.call([&x]).unwrap()[0]), [2.0, 20.0]);
}

#[test]
fn functions_call_functions() {
    let counter = from(&[0.0], &[1]);
    let inner = compile([spec(F, [2])], |[x]| {
        counter.assign(&counter + 1.0)?;
        Ok([&x * &counter])
    })
    .unwrap();
    let outer = compile([spec(F, [2])], |[x]| {
        let [once] = inner.call([&(&x + 1.0)])?;
        let [twice] = inner.call([&once])?;
        Ok([twice.sum(0)])
    })
    .unwrap();
    let x = from(&[1.0, 2.0], &[2]);
    assert_eq!(floats(&counter), [0.0]);
    // (2 + 3) * 1 * 2, then (2 + 3) * 3 * 4, and by itself with 5.
    assert_eq!(outer.call([&x]).unwrap()[0].item::<f32>().unwrap(), 10.0);
    assert_eq!(outer.call([&x]).unwrap()[0].item::<f32>().unwrap(), 60.0);
    assert_eq!(floats(&inner.call([&x]).unwrap()[0]), [5.0, 10.0]);
    assert_eq!(floats(&counter), [5.0]);
}

#[test]
fn numbers_that_change_are_arguments() {
    let f = compile([spec(F, [2]), spec(F, Shape::scalar())], |[x, rate]| [&x * &rate]).unwrap();
    let x = from(&[1.0, 2.0], &[2]);
    for rate in [0.5f32, 3.0] {
        assert_eq!(floats(&f.call([&x, &Tensor::scalar(rate)]).unwrap()[0]), [rate, 2.0 * rate]);
    }
}

#[test]
fn empty_tensors_and_other_types_pass() {
    let f = compile([spec(F, [0, 3]), spec(DType::I64, [2])], |[x, k]| [x.sum(0), (&k + 1).cast(F)]).unwrap();
    let [sum, next] = f.call([&Tensor::zeros([0, 3]), &Tensor::from_vec(vec![1i64, 2], [2])]).unwrap();
    assert_eq!((floats(&sum), floats(&next)), (vec![0.0; 3], vec![2.0, 3.0]));
    let g = compile([spec(DType::BOOL, [2])], |[x]| [x.logical_not()]).unwrap();
    assert_eq!(read::<bool>(&g.call([&Tensor::from_vec(vec![true, false], [2])]).unwrap()[0]), [false, true]);
}

#[test]
fn functions_run_on_the_interpreter_too() {
    let f = compile([spec(F, [2]).on("INTERPRETER")], |[x]| [(x.exp2() + 1.0).contiguous() * 3.0]).unwrap();
    let x = Tensor::from_bytes(Some("INTERPRETER"), F, [2], &[0; 8]);
    assert_eq!(floats(&f.call([&x]).unwrap()[0]), [6.0, 6.0]);
}
