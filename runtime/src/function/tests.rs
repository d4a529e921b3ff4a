//! Functions against the same closures run without being compiled; what other libraries' captures get wrong; errors.

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
fn captured_tensors_that_are_assigned_change_with_each_call_and_not_by_tracing() {
    let counter = from(&[0.0, 10.0], &[2]);
    let view = counter.shrink(&[(1, 2)]);
    let f = compile([spec(F, [1])], |[step]| {
        counter.assign(&counter + &step)?;
        view.assign(&view * 2.0)?;
        Ok([counter.sum(0)])
    })
    .unwrap();
    assert_eq!((floats(&counter), floats(&view)), (vec![0.0, 10.0], vec![10.0]));
    let one = from(&[1.0], &[1]);
    assert_eq!(f.call([&one]).unwrap()[0].item::<f32>().unwrap(), 23.0);
    assert_eq!((floats(&counter), floats(&view)), (vec![1.0, 22.0], vec![22.0]));
    // Assigned from outside between calls.
    counter.assign(from(&[5.0, 6.0], &[2])).unwrap();
    f.call([&one]).unwrap();
    assert_eq!(floats(&counter), [6.0, 14.0]);
}

#[test]
fn an_assigned_tensor_is_computed_in_one_kernel_without_a_copy() {
    let (whole, part) = (from(&[1.0; 64], &[64]), from(&[1.0; 64], &[64]));
    let f = compile([spec(F, [64])], |[x]| {
        whole.assign(&whole * 2.0 + &x)?;
        Ok([])
    })
    .unwrap();
    assert_eq!(f.kernels(), 1);
    let g = compile([spec(F, [2])], |[x]| {
        part.shrink(&[(3, 5)]).assign(&x)?;
        Ok([])
    })
    .unwrap();
    assert_eq!(g.kernels(), 1);
    let (old, x) = (&whole + 0.0, from(&[1.0; 64], &[64]));
    let (first, twos) = (memory_address(&part), from(&[2.0; 2], &[2]));
    for _ in 0..2 {
        f.call([&x]).unwrap();
        g.call([&twos]).unwrap();
    }
    assert_eq!((floats(&whole), floats(&old)), (vec![7.0; 64], vec![1.0; 64]));
    assert_eq!(floats(&part), [[1.0; 3].to_vec(), [2.0; 2].to_vec(), [1.0; 59].to_vec()].concat());
    assert_eq!(memory_address(&part), first);
}

#[test]
fn rows_are_replaced_in_memory_unless_somebody_needs_the_old_ones() {
    let cache = from(&[0.0; 12], &[4, 3]);
    let row = |k: i64| cache.shrink(&[(k, k + 1), (0, 3)]);
    let f = compile([spec(F, [1, 3])], |[x]| {
        row(2).assign(row(1) + &x)?;
        row(1).assign(&x)?;
        Ok([cache.sum(()), cache.clone()])
    })
    .unwrap();
    let x = from(&[1.0, 2.0, 3.0], &[1, 3]);
    let lazy = &cache * 1.0;
    let [total, whole] = f.call([&x]).unwrap();
    assert_eq!((total.item::<f32>().unwrap(), floats(&lazy)), (12.0, vec![0.0; 12]));
    let shown = [[0.0; 3], [1.0, 2.0, 3.0], [1.0, 2.0, 3.0], [0.0; 3]].concat();
    assert_eq!((floats(&cache), floats(&whole)), (shown.clone(), shown.clone()));
    // The result of the call before is kept, and so is a view of the memory that the function was called with.
    let g = compile([spec(F, [2, 3])], |[x]| [x.reshape([6])]).unwrap();
    let [part] = g.call([&cache.shrink(&[(1, 3), (0, 3)])]).unwrap();
    f.call([&(&x * 10.0)]).unwrap();
    cache.shrink(&[(2, 3), (0, 3)]).assign(0.5).unwrap();
    cache.realize().unwrap();
    assert_eq!((floats(&whole), floats(&part)), (shown.clone(), shown[3..9].to_vec()));
    assert_eq!(floats(&cache)[3..9], [10.0, 20.0, 30.0, 0.5, 0.5, 0.5]);
    // A write that was asked for and not carried out yet comes first.
    row(1).assign(7.0).unwrap();
    f.call([&x]).unwrap();
    assert_eq!(floats(&cache)[3..9], [1.0, 2.0, 3.0, 8.0, 9.0, 10.0]);
}

#[test]
fn who_reads_while_a_function_replaces_sees_all_of_it_or_nothing() {
    let table = from(&[0.0; 4096], &[64, 64]);
    let f = compile([], |[]| {
        let part = table.shrink(&[(1, 63), (0, 64)]);
        part.assign(&part + 1.0)?;
        Ok([])
    })
    .unwrap();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..100 {
                    let seen = floats(&(&table + 0.0));
                    assert!(seen[64..63 * 64].iter().all(|value| *value == seen[64]), "{seen:?}");
                }
            });
            scope.spawn(|| assert!((0..100).all(|_| f.call([]).is_ok())));
        }
    });
    assert_eq!((floats(&table)[0], floats(&table)[64]), (0.0, 200.0));
}

#[test]
fn swapped_states_swap() {
    let (a, b) = (from(&[1.0], &[1]), from(&[2.0], &[1]));
    let f = compile([], |[]| {
        let old = &a + 0.0;
        a.assign(&b)?;
        b.assign(&old)?;
        Ok([a.clone()])
    })
    .unwrap();
    for round in 0..3 {
        let [first] = f.call([]).unwrap();
        let (x, y) = if round % 2 == 0 { (2.0, 1.0) } else { (1.0, 2.0) };
        assert_eq!((floats(&a), floats(&b), floats(&first)), (vec![x], vec![y], vec![x]));
    }
}

#[test]
fn what_is_assigned_to_an_argument_reaches_the_caller() {
    let f = compile([spec(F, [2])], |[x]| {
        x.assign(&x * 3.0)?;
        Ok([&x + 1.0])
    })
    .unwrap();
    let base = from(&[1.0, 2.0, 3.0, 4.0], &[4]);
    let part = base.shrink(&[(2, 4)]);
    assert_eq!(floats(&f.call([&part]).unwrap()[0]), [10.0, 13.0]);
    assert_eq!(floats(&base), [1.0, 2.0, 9.0, 12.0]);
}

#[test]
fn what_is_assigned_shares_no_element_with_what_else_is_read() {
    let weight = from(&[1.0, 2.0], &[2]);
    let f = compile([spec(F, [2]), spec(F, [2])], |[x, y]| {
        x.assign(&y * 2.0)?;
        Ok([&x + &y])
    })
    .unwrap();
    let base = from(&[1.0, 2.0, 3.0, 4.0], &[4]);
    let part = |start: i64| base.shrink(&[(start, start + 2)]);
    for (a, b) in [(part(0), part(0)), (part(1), part(2)), (part(2), part(1).flip(0))] {
        let error = message(f.call([&a, &b]));
        assert!(error.contains("the function assigns argument 0, which shares memory with argument 1"), "{error}");
    }
    assert_eq!(floats(&f.call([&part(2), &part(0)]).unwrap()[0]), [3.0, 6.0]);
    assert_eq!(floats(&base), [1.0, 2.0, 2.0, 4.0]);
    let g = compile([spec(F, [2])], |[x]| {
        weight.assign(&weight + &x)?;
        Ok([&weight * &x])
    })
    .unwrap();
    let error = message(g.call([&weight]));
    assert!(error.contains("argument 0 shares memory with a tensor that the function assigns"), "{error}");
    assert_eq!(floats(&g.call([&(&weight + 0.0)]).unwrap()[0]), [2.0, 8.0]);
}

/// A training step with everything in it, once compiled and once not: the same weights after each step.
#[test]
fn a_whole_training_step_is_one_function() {
    let _alone = SEQUENCE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let data: Vec<(Tensor, Tensor)> = (0..4)
        .map(|batch| {
            let x: Vec<f32> = (0..32).map(|k| ((k * 7 + batch * 3) % 11) as f32 / 5.0 - 1.0).collect();
            let labels: Vec<i32> = (0..8).map(|k| (k + batch) % 3).collect();
            (from(&x, &[8, 4]), Tensor::from_vec(labels, [8]))
        })
        .collect();
    let train = |compiled: bool| {
        manual_seed(3);
        let (first, second) = (Linear::new(4, 16, true).unwrap(), Linear::new(16, 3, true).unwrap());
        let parameters = [first.parameters(), second.parameters()].concat();
        let mut optimizer = Adam::new(parameters.clone(), 0.01).unwrap();
        let mut step = |x: &Tensor, labels: &Tensor| -> Result<Tensor> {
            let logits = second.forward(&first.forward(x).relu().dropout(0.2));
            let loss = logits.cross_entropy(labels, &ClassOptions::default());
            optimizer.step(&loss)?;
            Ok(loss)
        };
        let losses: Vec<f32> = if compiled {
            let f = compile([spec(F, [8, 4]), spec(DType::I32, [8])], |[x, y]| Ok([step(&x, &y)?])).unwrap();
            data.iter().map(|(x, y)| f.call([x, y]).unwrap()[0].item::<f32>().unwrap()).collect()
        } else {
            data.iter().map(|(x, y)| step(x, y).unwrap().item::<f32>().unwrap()).collect()
        };
        (losses, parameters.iter().flat_map(floats).collect::<Vec<f32>>())
    };
    let ((losses, weights), (plain_losses, plain_weights)) = (train(true), train(false));
    let near = |a: &[f32], b: &[f32]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-5);
    assert!(near(&losses, &plain_losses), "{losses:?} {plain_losses:?}");
    assert!(near(&weights, &plain_weights));
}

#[test]
fn random_numbers_are_drawn_at_each_call_as_without_compiling() {
    let _alone = SEQUENCE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let f = compile([], |[]| [Tensor::rand([4]), Tensor::rand([4])]).unwrap();
    manual_seed(11);
    let drawn: Vec<Vec<f32>> = (0..2).flat_map(|_| f.call([]).unwrap()).map(|tensor| floats(&tensor)).collect();
    manual_seed(11);
    let plain: Vec<Vec<f32>> = (0..4).map(|_| floats(&Tensor::rand([4]))).collect();
    assert_eq!(drawn, plain);
    assert!(drawn.iter().enumerate().all(|(k, numbers)| !drawn[..k].contains(numbers)));
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
fn a_donated_argument_has_no_value_afterwards_and_its_views_neither() {
    let f = compile([spec(F, [64]).donated()], |[x]| [x.exp().contiguous().sum(0) + &x * 0.0]).unwrap();
    let g =
        compile([spec(F, [64]).donated()], |[x]| [(x.sum(0).contiguous() + 1.0).expand([64]).contiguous()]).unwrap();
    for round in 0..3 {
        let x = from(&[round as f32; 64], &[64]);
        let view = x.shrink(&[(3, 5)]);
        let kept = &x * 2.0; // a graph that still needs it
        let [y] = g.call([&x]).unwrap();
        assert_eq!(floats(&y), [64.0 * round as f32 + 1.0; 64]);
        for gone in [&x, &view] {
            let error = gone.to_vec::<f32>().unwrap_err().to_string();
            assert!(error.contains("was donated to a function"), "{error}");
        }
        assert_eq!(floats(&kept), [2.0 * round as f32; 64]);
        let alone = from(&[round as f32; 64], &[64]);
        assert_eq!(floats(&g.call([&alone]).unwrap()[0]), [64.0 * round as f32 + 1.0; 64]);
        let [z] = f.call([&from(&[0.0; 64], &[64])]).unwrap();
        assert_eq!(floats(&z), [64.0; 64]);
    }
    assert!(g.call([&g.call([&from(&[1.0; 64], &[64])]).unwrap()[0]]).is_ok());
}

#[test]
fn donated_memory_is_used_again() {
    let g =
        compile([spec(F, [64]).donated()], |[x]| [(x.sum(0).contiguous() + 1.0).expand([64]).contiguous()]).unwrap();
    let x = from(&[1.0; 64], &[64]);
    let before = memory_address(&x);
    let [y] = g.call([&x]).unwrap();
    assert_eq!(memory_address(&y), before);
}

#[test]
fn donated_memory_is_not_used_again_while_it_is_read() {
    let reversed = compile([spec(F, [4096]).donated()], |[x]| [x.flip(0) + 1.0]).unwrap();
    let late = |x: &Tensor| {
        let doubled = (x * 2.0).contiguous();
        let rest = (x - doubled.sum(0)).contiguous();
        [doubled, rest]
    };
    let two = compile([spec(F, [4096]).donated()], |[x]| late(&x)).unwrap();
    let values: Vec<f32> = (0..4096).map(|k| (k % 64) as f32).collect();
    let [y] = reversed.call([&from(&values, &[4096])]).unwrap();
    assert_eq!(floats(&y), values.iter().rev().map(|value| value + 1.0).collect::<Vec<_>>());
    let [doubled, rest] = two.call([&from(&values, &[4096])]).unwrap();
    let total: f32 = 2.0 * values.iter().sum::<f32>();
    assert_eq!(floats(&doubled), values.iter().map(|value| value * 2.0).collect::<Vec<_>>());
    assert_eq!(floats(&rest), values.iter().map(|value| value - total).collect::<Vec<_>>());
}

#[test]
fn what_is_borrowed_for_reading_is_not_replaced() {
    let values: Vec<f32> = (0..64).map(|k| k as f32).collect();
    let x = from(&values, &[64]);
    let f = compile([], |[]| x.narrow(0, 3, 5).assign(-1.0).map(|()| [])).unwrap();
    let during = x.with_slice(|elements: &[f32]| {
        f.call([]).map(|[]| ()).unwrap();
        elements.to_vec()
    });
    assert_eq!(during.unwrap(), values);
    let after: Vec<f32> = (0..64).map(|k| if (3..8).contains(&k) { -1.0 } else { k as f32 }).collect();
    assert_eq!(floats(&x), after);
    // What was given out shares the memory without being known here.
    let again = from(&values, &[64]);
    let g = compile([], |[]| again.narrow(0, 3, 5).assign(-1.0).map(|()| [])).unwrap();
    let given = Tensor::from_dlpack(again.to_dlpack().unwrap());
    g.call([]).map(|[]| ()).unwrap();
    assert_eq!((floats(&given), floats(&again)), (values.clone(), after.clone()));
    // The same outside of functions.
    let plain = from(&values, &[64]);
    plain.realize().unwrap();
    let given = Tensor::from_dlpack(plain.to_dlpack().unwrap());
    plain.narrow(0, 3, 5).assign(-1.0).unwrap();
    assert_eq!((floats(&plain), floats(&given)), (after, values));
}

fn message<T: fmt::Debug>(result: Result<T>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn arguments_that_do_not_fit_are_named() {
    let f = compile([spec(F, [2, 3]), spec(F, [3])], |[x, y]| [&x + &y]).unwrap();
    let (x, y) = (Tensor::zeros([2, 3]), Tensor::zeros([3]));
    let wrong = |a: &Tensor, b: &Tensor| message(f.call([a, b]));
    let error = wrong(&x, &Tensor::zeros([4]));
    assert!(
        error.starts_with("call of f32[4]: argument 1 must be f32[3]: its axis 0 is 4 long, not 3 (at "),
        "{error}"
    );
    assert!(error.contains("function/tests.rs:"), "{error}");
    let error = wrong(&x.cast(DType::F64), &y);
    assert!(error.contains("argument 0 must be f32[2, 3]: cast it to f32, or compile the function for f64"), "{error}");
    let error = wrong(&x, &x);
    assert!(error.contains("argument 1 must be f32[3]: it has 2 axes, not 1"), "{error}");
    let error = wrong(&x.reshape([7]), &y);
    assert!(error.starts_with("reshape of f32[2, 3]"), "{error}");
    assert!(f.call([&x, &y]).is_ok());
}

#[test]
fn a_branch_on_a_value_is_refused_with_what_to_write() {
    let weight = from(&[1.0], &[1]);
    let branch = |read: &dyn Fn(&Tensor) -> Result<f32>| {
        message(compile([spec(F, [1])], |[x]| Ok([if read(&x)? > 0.0 { &x * 2.0 } else { x }])))
    };
    type Read<'a> = &'a dyn Fn(&Tensor) -> Result<f32>;
    let cases: [Read<'_>; 3] =
        [&|x| x.item::<f32>(), &|x| Ok((x * 2.0).to_vec::<f32>()?[0]), &|_| weight.item::<f32>()];
    for read in cases {
        let error = branch(read);
        assert!(error.contains("while a function is traced") && error.contains("`where_`"), "{error}");
    }
    // The trace is over, and nothing of it is left.
    assert_eq!(weight.item::<f32>().unwrap(), 1.0);
    let panicked = std::panic::catch_unwind(|| compile([spec(F, [1])], |[x]| -> [Tensor; 1] { panic!("{x:?}") }));
    assert!(panicked.is_err());
    assert_eq!(weight.item::<f32>().unwrap(), 1.0);
}

#[test]
fn tensors_that_leave_their_trace_have_no_value() {
    let mut leaked = None;
    let f = compile([spec(F, [1])], |[x]| {
        leaked = Some(&x + 1.0);
        [x]
    })
    .unwrap();
    let error = message(leaked.as_ref().unwrap().to_vec::<f32>());
    assert!(error.contains("while a function is traced"), "{error}");
    let error = message(compile([], |[]| [leaked.clone().unwrap() * 2.0]));
    assert!(error.contains("while a function is traced"), "{error}");
    assert!(f.call([&from(&[1.0], &[1])]).is_ok());
}

#[test]
fn errors_of_the_closure_come_out_of_compile() {
    let error = message(compile([spec(F, [2]), spec(F, [3])], |[x, y]| [&x + &y]));
    assert!(error.starts_with("add of f32[2] and f32[3]"), "{error}");
    let error = message(compile([], |[]| Ok([compile([], |[]| [Tensor::ones([1])])?.call([])?[0].clone()])));
    assert!(error.starts_with("compile: a function cannot be compiled while another is traced"), "{error}");
    let error = message(compile([spec(F, [1]), spec(F, [1]).on("INTERPRETER")], |[x, _]| [x]));
    assert!(error.contains("the specs name INTERPRETER and CPU: a function runs on one device"), "{error}");
    let elsewhere = Tensor::from_bytes(Some("INTERPRETER"), F, [1], &[0; 4]);
    let error = message(compile([spec(F, [1])], |[x]| [&x + &elsewhere]));
    assert!(error.contains("the closure uses a tensor on INTERPRETER, and the function runs on CPU"), "{error}");
    let f = compile([spec(F, [1])], |[x]| [x]).unwrap();
    let error = message(f.call([&elsewhere]));
    assert!(error.contains("argument 0 lies on INTERPRETER, and the function runs on CPU"), "{error}");
}

#[test]
fn functions_run_on_the_interpreter_too() {
    let f = compile([spec(F, [2]).on("INTERPRETER")], |[x]| [(x.exp2() + 1.0).contiguous() * 3.0]).unwrap();
    let x = Tensor::from_bytes(Some("INTERPRETER"), F, [2], &[0; 8]);
    assert_eq!(floats(&f.call([&x]).unwrap()[0]), [6.0, 6.0]);
}

#[test]
fn failing_calls_assign_nothing() {
    let (a, b) = (from(&[1.0], &[1]), from(&[1.0], &[1]));
    let f = compile([spec(F, [1])], |[x]| {
        a.assign(&a + &x)?;
        b.assign(&b * &x)?;
        Ok([])
    })
    .unwrap();
    assert!(f.call([&Tensor::zeros([2])]).is_err());
    assert_eq!((floats(&a), floats(&b)), (vec![1.0], vec![1.0]));
}

/// Eight threads call one function, some also one that assigns, and compute graphs of their own.
#[test]
fn threads_share_functions() {
    let f = compile([spec(F, [64])], |[x]| [(x.exp2().contiguous() + 1.0).contiguous() * 2.0, x.sum(0)]).unwrap();
    let counter = from(&[0.0], &[1]);
    let count = compile([], |[]| {
        counter.assign(&counter + 1.0)?;
        Ok([])
    })
    .unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (f, count) = (&f, &count);
            scope.spawn(move || {
                for round in 0..30 {
                    let x = from(&[((thread + round) % 5) as f32; 64], &[64]);
                    let [y, sum] = f.call([&x]).unwrap();
                    let expected = (2f32.powi((thread + round) % 5) + 1.0) * 2.0;
                    assert!(floats(&y).iter().all(|value| (value - expected).abs() < 1e-4));
                    assert_eq!(sum.item::<f32>().unwrap(), 64.0 * ((thread + round) % 5) as f32);
                    let own = (&x + thread as f64).sum(0) * 2.0;
                    assert_eq!(own.item::<f32>().unwrap(), 128.0 * (((thread + round) % 5) + thread) as f32);
                    count.call([]).unwrap();
                }
            });
        }
    });
    assert_eq!(floats(&counter), [240.0]);
}

#[test]
fn plain_gradient_descent_finds_the_minimum() {
    let weight = from(&[5.0, -3.0], &[2]);
    let mut optimizer = Sgd::new(vec![weight.clone()], 0.2, 0.0, 0.0).unwrap();
    let f = compile([spec(F, [2])], |[goal]| {
        let loss = (&weight - &goal).square().sum(0);
        optimizer.step(&loss)?;
        Ok([loss])
    })
    .unwrap();
    let goal = from(&[1.0, 2.0], &[2]);
    for _ in 0..60 {
        f.call([&goal]).unwrap();
    }
    assert!(floats(&weight).iter().zip([1.0, 2.0]).all(|(weight, goal)| (weight - goal).abs() < 1e-4));
    // The rate is a tensor that the function reads: assigned to, it counts from the next call on.
    optimizer.rate().assign(0.0).unwrap();
    let [loss] = f.call([&from(&[3.0, 2.0], &[2])]).unwrap();
    f.call([&from(&[3.0, 2.0], &[2])]).unwrap();
    assert!((loss.item::<f32>().unwrap() - 4.0).abs() < 1e-3);
    assert!((floats(&weight)[0] - 1.0).abs() < 1e-4);
}

#[test]
fn one_function_serves_every_length() {
    let n = Var::new("function_rows", 1..=32).unwrap();
    let f = compile([spec(F, (&n, 4)), spec(F, [4])], |[x, w]| [(&x * &w).sum(1).relu(), &x + 1.0]).unwrap();
    let w = from(&[1.0, -1.0, 2.0, 0.5], &[4]);
    for rows in [1i64, 2, 7, 32, 3] {
        let x = from(&(0..rows * 4).map(|k| (k % 7) as f32 - 2.0).collect::<Vec<_>>(), &[rows, 4]);
        let [sums, next] = f.call([&x, &w]).unwrap();
        assert_eq!((sums.shape().unwrap(), next.shape().unwrap()), (vec![rows as usize], vec![rows as usize, 4]));
        assert_eq!(floats(&sums), floats(&(&x * &w).sum(1).relu()));
        assert_eq!(floats(&next), floats(&(&x + 1.0)));
        // A result goes in again, and so do rows of a longer tensor.
        assert_eq!(floats(&f.call([&next, &w]).unwrap()[1]), floats(&(&x + 2.0)));
        let part = next.shrink(&[(0, 1), (0, 4)]);
        assert_eq!(floats(&f.call([&part, &w]).unwrap()[1]), floats(&(&part + 1.0)));
    }
    let error = message(f.call([&Tensor::zeros([33, 4]), &w]));
    assert!(error.contains("argument 0, axis 0: function_rows is 33, outside of 1..=32"), "{error}");
}

#[test]
fn lengths_that_disagree_or_follow_from_nothing_are_named() {
    let n = Var::new("function_len", 1..=8).unwrap();
    let f = compile([spec(F, [&n]), spec(F, [&n]), spec(F, [&n * 2])], |[a, b, c]| [&a + &b, c.sum(0)]).unwrap();
    let of = |len: i64| Tensor::ones([len]);
    assert_eq!(floats(&f.call([&of(3), &of(3), &of(6)]).unwrap()[0]), [2.0; 3]);
    let error = message(f.call([&of(3), &of(4), &of(6)]));
    assert!(error.contains("argument 1, axis 0: function_len is 4 here, and 3 before"), "{error}");
    let error = message(f.call([&of(3), &of(3), &of(7)]));
    assert!(error.contains("argument 2, axis 0:") && error.contains("is 6, and its length is 7"), "{error}");
    let error = message(compile([spec(F, [2])], |[x]| [x.sum(0).expand([&n])]));
    assert!(error.contains("result 0 has the shape [function_len], and no argument tells function_len"), "{error}");
}

#[test]
fn padding_a_variable_length_is_refused_or_follows_it() {
    let n = Var::new("function_pad", 1..=6).unwrap();
    let f = match compile([spec(F, [&n])], |[x]| [x.pad(&[(1, 2)])]) {
        Ok(f) => f,
        Err(error) => return assert!(error.to_string().contains("symbolic length"), "{error}"),
    };
    for len in [2i64, 5, 1] {
        let expected: Vec<f32> = [vec![0.0], vec![1.0; len as usize], vec![0.0; 2]].concat();
        assert_eq!(floats(&f.call([&Tensor::ones([len])]).unwrap()[0]), expected);
    }
}

/// Attention over a cache that grows by a row a call: the row is written in place, and one program serves all positions.
#[test]
fn a_position_is_a_variable_of_the_call() {
    const TOKENS: i64 = 6;
    let position = Var::new("function_position", 0..=TOKENS - 1).unwrap();
    let row = |k: i64| from(&[(k % 3) as f32, 1.0 - k as f32 / 4.0], &[1, 2]);
    let (keys, values) = (from(&[0.0; 12], &[TOKENS, 2]), from(&[0.0; 12], &[TOKENS, 2]));
    let f = compile_with(&[&position], [spec(F, [1, 2])], |[x]| {
        let at = Dim::from(&position);
        keys.narrow(0, &at, 1).assign(&x)?;
        values.narrow(0, &at, 1).assign(&x * 2.0)?;
        let (keys, values) = (keys.narrow(0, 0, &at + 1), values.narrow(0, 0, &at + 1));
        Ok([x.attention(&keys, &values, &Default::default())])
    })
    .unwrap();
    let first = memory_address(&keys);
    for at in 0..TOKENS {
        let [got] = f.call_with(&[(&position, at)], [&row(at)]).unwrap();
        let seen: Vec<Tensor> = (0..=at).map(row).collect();
        let seen = Tensor::cat(&seen.iter().collect::<Vec<_>>(), 0);
        let want = row(at).attention(&seen, &(&seen * 2.0), &Default::default());
        let near = floats(&got).iter().zip(floats(&want)).all(|(got, want)| (got - want).abs() < 1e-5);
        assert!(near, "{:?} {:?}", floats(&got), floats(&want));
    }
    assert_eq!(memory_address(&keys), first);
    let error = message(f.call([&row(0)]));
    assert!(
        error.contains("function_position has no value: call the function by `call_with(&[(&function_position"),
        "{error}"
    );
    let error = message(f.call_with(&[(&position, 6)], [&row(0)]));
    assert!(error.contains("function_position is 6, outside of 0..=5"), "{error}");
    let other = Var::new("function_other", 0..=5).unwrap();
    let error = message(f.call_with(&[(&position, 1), (&other, 1)], [&row(0)]));
    assert!(error.contains("the function has no variable function_other"), "{error}");
    let error = message(compile([spec(F, [1, 2])], |[x]| [keys.narrow(0, &position, 1) + &x]));
    assert!(error.contains("nothing tells the value of function_position"), "{error}");
}

#[test]
fn optimizers_keep_what_they_keep_beside_their_parameters() {
    let parameter = Tensor::from_vec(vec![1f32, 2.0], [2]).to("INTERPRETER");
    let gradient = Tensor::from_vec(vec![0.5f32, -0.5], [2]).to("INTERPRETER");
    parameter.realize().unwrap();
    let mut optimizers: Vec<Box<dyn Optimizer>> = vec![
        Box::new(Sgd::new(vec![parameter.clone()], 0.5, 0.5, 0.0).unwrap()),
        Box::new(Adam::new(vec![parameter.clone()], 0.5).unwrap()),
    ];
    for optimizer in &mut optimizers {
        let changed = optimizer.update(std::slice::from_ref(&gradient)).unwrap();
        Tensor::realize_all(&changed.iter().collect::<Vec<_>>()).unwrap();
    }
    assert_eq!(parameter.device().unwrap(), "INTERPRETER");
    // Down by a half of the gradient, then by the rate, with the sign of the gradient.
    let found = floats(&parameter);
    assert!((found[0] - 0.25).abs() < 1e-5 && (found[1] - 2.75).abs() < 1e-5, "{found:?}");
}
