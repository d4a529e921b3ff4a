//! What functions do to memory: tensors that a closure assigns, arguments that are donated or borrowed.

use super::*;

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
