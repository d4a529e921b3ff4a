//! Writes through views, hazard by hazard: every alias sees them, what was computed before keeps what it read, and memory stays where it is
//! when nobody needs the old elements. (Random programs of views and writes: `write_programs`.)

use warpweft::execute::{computed_buffer, memory_of};
use warpweft::tensor::Index;
use warpweft::{DType, Tensor};

fn counted(shape: &[i64]) -> Tensor {
    let count = shape.iter().product::<i64>() as usize;
    Tensor::from_vec((0..count).map(|k| k as f32).collect(), shape.to_vec())
}

fn read(tensor: &Tensor) -> Vec<f32> {
    tensor.to_vec::<f32>().unwrap()
}

/// Where in memory the tensor's storage begins.
fn address(tensor: &Tensor) -> usize {
    let mut node = warpweft::compiler::graph(tensor).unwrap();
    while node.op().is_movement() {
        node = node.src()[0].clone();
    }
    let buffer = computed_buffer(&node).expect("it is realised");
    memory_of(&buffer).unwrap().address().unwrap()
}

#[test]
fn memory_is_written_in_place_when_nobody_needs_what_it_held() {
    let x = counted(&[4, 5]);
    let before = address(&x);
    x.get(1).assign(7.0).unwrap();
    x.realize().unwrap();
    assert_eq!(address(&x), before);
    x.assign(&x * 2.0).unwrap();
    x.realize().unwrap();
    assert_eq!(address(&x), before);
    x.get((.., 2)).assign(x.get((.., 0)) + 1.0).unwrap();
    assert_eq!(read(&x)[..10], [0.0, 2.0, 1.0, 6.0, 8.0, 14.0, 14.0, 15.0, 14.0, 14.0]);
    assert_eq!(address(&x), before, "reading carries the write out where it stands");
}

#[test]
fn a_lazy_reader_keeps_what_it_was_made_of() {
    let x = counted(&[4]);
    let before = address(&x);
    let y = &x * 2.0;
    x.assign(3.0).unwrap();
    x.realize().unwrap();
    assert_ne!(address(&x), before, "the reader needs the old memory");
    assert_eq!(read(&y), [0.0, 2.0, 4.0, 6.0]);
    assert_eq!(read(&x), [3.0; 4]);
    // In the other order, and through a value that is part of the write.
    let x = counted(&[4]);
    let y = &x * 2.0;
    x.assign(&y + 1.0).unwrap();
    assert_eq!(read(&x), [1.0, 3.0, 5.0, 7.0]);
    x.get(0..2).assign(0.0).unwrap();
    assert_eq!(read(&y), [0.0, 2.0, 4.0, 6.0]);
    assert_eq!(read(&x), [0.0, 0.0, 5.0, 7.0]);
}

#[test]
fn a_reader_between_two_writes_sees_the_first_alone() {
    let x = counted(&[4]);
    x.get(0).assign(10.0).unwrap();
    let between = x.sum(());
    x.get(3).assign(20.0).unwrap();
    x.realize().unwrap();
    assert_eq!(read(&x), [10.0, 1.0, 2.0, 20.0]);
    assert_eq!(between.item::<f32>().unwrap(), 16.0);
}

#[test]
fn a_source_that_overlaps_its_destination_is_read_first() {
    let x = counted(&[6]);
    let before = address(&x);
    x.get(1..).assign(x.get(..-1)).unwrap();
    assert_eq!(read(&x), [0.0, 0.0, 1.0, 2.0, 3.0, 4.0]);
    x.get(..-1).assign(x.get(1..)).unwrap();
    assert_eq!(read(&x), [0.0, 1.0, 2.0, 3.0, 4.0, 4.0]);
    x.assign(x.flip(0) - &x).unwrap();
    assert_eq!(read(&x), [4.0, 3.0, 1.0, -1.0, -3.0, -4.0]);
    let square = counted(&[3, 3]);
    square.assign(square.t()).unwrap();
    assert_eq!(read(&square), [0.0, 3.0, 6.0, 1.0, 4.0, 7.0, 2.0, 5.0, 8.0]);
    square.assign(&square - square.max(0)).unwrap();
    assert_eq!(read(&square), [-2.0, -2.0, -2.0, -1.0, -1.0, -1.0, 0.0, 0.0, 0.0]);
    assert_eq!(address(&x), before);
}

#[test]
fn two_tensors_exchange_their_elements() {
    let (a, b) = (counted(&[5]), counted(&[5]) * 10.0);
    b.realize().unwrap();
    let old = &a + 0.0;
    a.assign(&b).unwrap();
    b.assign(&old).unwrap();
    drop(old);
    Tensor::realize_all(&[&a, &b]).unwrap();
    assert_eq!(read(&a), [0.0, 10.0, 20.0, 30.0, 40.0]);
    assert_eq!(read(&b), [0.0, 1.0, 2.0, 3.0, 4.0]);
}

#[test]
fn every_kind_of_view_is_written_through() {
    let x = counted(&[4, 4]);
    x.diagonal(0, 0, 1).assign(-1.0).unwrap();
    x.get((Index::Range { start: None, stop: None, step: 2 }, Index::Range { start: Some(3), stop: None, step: -2 }))
        .assign(counted(&[2, 2]) * 100.0)
        .unwrap();
    assert_eq!(read(&x), [-1., 100., 2., 0., 4., -1., 6., 7., 8., 300., -1., 200., 12., 13., 14., -1.]);
    let windows = counted(&[6]);
    windows.unfold(0, 2, 2).get((1, ..)).assign(counted(&[2]) + 7.0).unwrap();
    assert_eq!(read(&windows), [0.0, 1.0, 7.0, 8.0, 4.0, 5.0]);
    // Where no strides describe a reshape it copies, and what is written to the copy stays there.
    let seams = counted(&[2, 3]);
    let copy = seams.t().reshape([6]);
    copy.get(1..3).assign(9.0).unwrap();
    assert_eq!(read(&seams), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    assert_eq!(read(&copy), [0.0, 9.0, 9.0, 4.0, 2.0, 5.0]);
    let error = seams.t().view(&[6]).shape().unwrap_err().to_string();
    assert!(error.contains("without a copy") && error.contains("writes.rs"), "{error}");
    assert!(seams.view(&[3, -1]).shares_storage_with(&seams) && !copy.shares_storage_with(&seams));
    let error = windows.unfold(0, 3, 1).assign(0.0).unwrap_err().to_string();
    assert!(error.contains("share elements"), "{error}");
    windows.unfold(0, 3, 1).fill(2).unwrap();
    assert_eq!(read(&windows), [2.0; 6]);
}

#[test]
fn strides_and_offsets_are_those_of_pytorch() {
    let x = counted(&[4, 6]);
    let strides = |tensor: &Tensor| (tensor.strides().unwrap(), tensor.storage_offset().unwrap());
    assert_eq!(strides(&x), (vec![6, 1], 0));
    assert_eq!(strides(&x.t()), (vec![1, 6], 0));
    assert_eq!(strides(&x.get((1, 2..))), (vec![1], 8));
    assert_eq!(strides(&x.get((.., Index::Range { start: Some(1), stop: None, step: 2 }))), (vec![6, 2], 1));
    assert_eq!(strides(&x.diagonal(1, 0, 1)), (vec![7], 1));
    assert_eq!(strides(&x.unfold(1, 3, 2)), (vec![6, 2, 1], 0));
    assert_eq!(strides(&x.as_strided(&[2, 2], &[3, 1], Some(4))), (vec![3, 1], 4));
    assert!(x.get(1..3).is_contiguous().unwrap() && !x.t().is_contiguous().unwrap());
    // The same of what was not computed, and after it was.
    let y = (&x * 2.0).get((.., 1)).expand([3, 4]);
    assert_eq!(strides(&y), (vec![0, 6], 1));
    y.realize().unwrap();
    assert_eq!(strides(&y), (vec![0, 6], 1));
    let error = x.as_strided(&[5], &[6], Some(0)).shape().unwrap_err().to_string();
    assert!(error.contains("reaches element 24 of a storage of 24 elements"), "{error}");
}

#[test]
fn elements_are_updated_where_they_lie() {
    let x = counted(&[3, 2]);
    let before = address(&x);
    x.get(1).add_assign(10.0).unwrap();
    x.get((.., 0)).mul_assign(&x.get((.., 1))).unwrap();
    x.sub_assign(1.0).unwrap();
    x.t().div_assign(2.0).unwrap();
    assert_eq!(read(&x), [-0.5, 0.0, 77.5, 6.0, 9.5, 2.0]);
    x.slice_assign((0..2, 0), 0.5).unwrap();
    x.get(2).copy_from(&x.get(1)).unwrap();
    assert_eq!(read(&x), [0.5, 0.0, 0.5, 6.0, 0.5, 6.0]);
    assert_eq!(address(&x), before);
    let integers = x.cast(DType::I32);
    let error = integers.add_assign(0.5).unwrap_err().to_string();
    assert!(error.contains("does not go into i32"), "{error}");
    let (rows, columns) = (Tensor::from_vec(vec![2i32, 0, -1], [3]), Tensor::from_vec(vec![0i32, 1, 1], [3]));
    x.index_assign(&[0, 1], &[&rows, &columns], counted(&[3]) + 1.0).unwrap();
    assert_eq!(read(&x), [0.5, 2.0, 0.5, 6.0, 1.0, 3.0]);
    let outside = Tensor::from_vec(vec![1i32, 9], [2]);
    let error = x.t().index_assign(&[1], &[&outside], 7.0).unwrap_err().to_string();
    assert!(error.contains("the index 9, element 1, is out of range"), "{error}");
    x.t().index_assign(&[1], &[&outside.get(0..1)], 7.0).unwrap();
    assert_eq!(read(&x), [0.5, 2.0, 7.0, 7.0, 1.0, 3.0]);
}

#[test]
fn what_was_never_computed_is_written_to_as_well() {
    let x = counted(&[4]) * 2.0;
    let view = x.get(1..3);
    view.assign(&view + 100.0).unwrap();
    assert_eq!(read(&view), [102.0, 104.0]);
    assert_eq!(read(&x), [0.0, 102.0, 104.0, 6.0]);
    let zeros = Tensor::zeros([3]);
    zeros.get(1).assign(5.0).unwrap();
    assert_eq!(read(&zeros), [0.0, 5.0, 0.0]);
    // A copy has memory of its own.
    let y = counted(&[3]);
    let (copy, detached) = (y.contiguous(), y.detach());
    copy.get(0).assign(9.0).unwrap();
    detached.get(1).assign(9.0).unwrap();
    copy.realize().unwrap();
    detached.realize().unwrap();
    assert_eq!(read(&y), [0.0, 1.0, 2.0]);
    assert_eq!(read(&copy), [9.0, 1.0, 2.0]);
    assert_eq!(read(&detached), [0.0, 9.0, 2.0]);
}

#[test]
fn gradients_flow_through_writes_until_they_are_carried_out() {
    let (x, v) = (counted(&[4]), counted(&[2]) + 1.0);
    v.realize().unwrap();
    let y = &x * 3.0;
    y.get(1..3).assign(&v * &v).unwrap();
    let loss = (&y * &y).sum(());
    let gradients = loss.gradient(&[&x, &v]).unwrap();
    assert_eq!(read(&gradients[0]), [0.0, 0.0, 0.0, 54.0]);
    assert_eq!(read(&gradients[1]), [4.0, 32.0]);
    // The same where memory is written to: the graph still needs the old elements, so they stay.
    let x = counted(&[4]);
    let before = warpweft::compiler::graph(&x).unwrap();
    x.get(0..2).assign(&v * &v).unwrap();
    let loss = (&x * &x).sum(());
    assert_eq!(read(&x), [1.0, 4.0, 2.0, 3.0]);
    assert_eq!(loss.item::<f32>().unwrap(), 30.0);
    assert_eq!(read(&loss.gradient(&[&v]).unwrap()[0]), [4.0, 32.0]);
    drop(before);
}

#[test]
fn a_write_that_cannot_be_carried_out_loses_nothing() {
    let x = counted(&[3]);
    let before = address(&x);
    x.get(0..2).assign(1.5).unwrap();
    x.realize().unwrap();
    let elsewhere = Tensor::from_bytes(Some("INTERPRETER"), DType::F32, [2], &[0; 8]);
    x.get(1..3).assign(&elsewhere).unwrap();
    assert!(x.to_vec::<f32>().unwrap_err().to_string().contains("INTERPRETER"));
    assert_eq!(read(&x), [1.5, 1.5, 2.0]);
    assert_eq!(address(&x), before);
    x.get(2).assign(4.0).unwrap();
    assert_eq!(read(&x), [1.5, 1.5, 4.0]);
}

#[test]
fn many_writes_in_a_row_are_few_kernels_and_right() {
    let x = counted(&[64]);
    for k in 0..64 {
        x.get(k).assign(100.0 + k as f32).unwrap();
    }
    assert_eq!(read(&x), (0..64).map(|k| 100.0 + k as f32).collect::<Vec<_>>());
    for k in 1..64 {
        x.get(k).assign(x.get(k - 1) + 1.0).unwrap();
    }
    assert_eq!(read(&x), (0..64).map(|k| 100.0 + k as f32).collect::<Vec<_>>());
}

#[test]
fn an_optimizer_steps_in_place() {
    use warpweft::nn::{Optimizer, Sgd};
    let weight = counted(&[8, 6]) * 0.01;
    weight.realize().unwrap();
    let before = address(&weight);
    let expected = &weight + 0.0;
    let input = counted(&[4, 8]) * 0.1;
    let mut optimizer = Sgd::new(vec![weight.clone()], 0.1, 0.0, 0.0).unwrap();
    for _ in 0..3 {
        let loss = |weight: &Tensor| input.matmul(weight).square().mean(());
        let gradient = loss(&expected).gradient(&[&expected]).unwrap().remove(0);
        let stepped = (&expected - gradient * 0.1).contiguous();
        stepped.realize().unwrap();
        expected.assign(&stepped).unwrap();
        expected.realize().unwrap();
        let own = loss(&weight);
        optimizer.step(&own).unwrap();
    }
    assert_eq!(address(&weight), before);
    assert_eq!(read(&weight).len(), read(&expected).len());
    for (got, want) in read(&weight).iter().zip(read(&expected)) {
        assert!((got - want).abs() <= 1e-6 * want.abs().max(1.0), "{got} is not {want}");
    }
}

#[test]
fn threads_that_read_see_a_write_whole_or_not_at_all() {
    let x = Tensor::zeros([1 << 14]);
    x.realize().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            let x = x.clone();
            scope.spawn(move || {
                for _ in 0..40 {
                    let seen = read(&x);
                    assert!(seen.iter().all(|value| *value == seen[0]), "a write was seen in part");
                    let sum = (&x - seen[0]).get(0..64).max(()) - (&x - seen[0]).get(0..64).min(());
                    assert!(sum.item::<f32>().unwrap().is_finite());
                }
            });
        }
        for number in 1..40 {
            x.fill(number).unwrap();
            x.realize().unwrap();
        }
    });
    assert_eq!(read(&x)[0], 39.0);
}

#[test]
fn a_whole_write_of_a_view_of_another_tensor_leaves_that_alone() {
    let x = counted(&[2, 2]) + 1.0;
    x.realize().unwrap();
    let y = &x + &x;
    x.mul_assign(2.0).unwrap();
    y.copy_from(&x.as_strided(&[1, 1], &[0, 0], Some(0))).unwrap();
    y.get(0).fill(7).unwrap();
    x.t().fill(0).unwrap();
    assert_eq!(read(&x), [0.0; 4]);
    assert_eq!(read(&y), [7.0, 7.0, 2.0, 2.0]);
    let z = counted(&[4]);
    z.copy_from(&x.reshape([4])).unwrap();
    z.get(0).fill(1).unwrap();
    assert_eq!(read(&z), [1.0, 0.0, 0.0, 0.0]);
    assert_eq!(read(&x), [0.0; 4]);
}

#[test]
fn large_updates_touch_each_element_once() {
    // Long enough for threads, of lengths that vectors and tiles do not divide.
    for shape in [vec![300_001], vec![601, 333], vec![7, 129, 131]] {
        let x = counted(&shape);
        let before = address(&x);
        let inner: Vec<Index> =
            shape.iter().map(|len| Index::Range { start: Some(1), stop: Some(len - 1), step: 1 }).collect();
        x.add_assign(1.0).unwrap();
        x.get(inner.clone()).mul_assign(-1.0).unwrap();
        x.get(inner.clone()).sub_assign(0.5).unwrap();
        let steps = Index::Range { start: None, stop: None, step: 3 };
        x.get(steps).add_assign(2.0).unwrap();
        let mut wanted: Vec<f32> = (0..shape.iter().product::<i64>()).map(|k| k as f32 + 1.0).collect();
        let row: i64 = shape[1..].iter().product();
        for (k, value) in wanted.iter_mut().enumerate() {
            let mut rest = k as i64;
            let is_inner = shape.iter().rev().all(|len| {
                let at = rest % len;
                rest /= len;
                at > 0 && at < len - 1
            });
            *value = if is_inner { -*value - 0.5 } else { *value };
            *value += if k as i64 / row % 3 == 0 { 2.0 } else { 0.0 };
        }
        assert!(read(&x) == wanted, "{shape:?}");
        assert_eq!(address(&x), before);
    }
}

/// Long fills are calls of `memset`, shared among threads: all of a view is zeros then, and nothing beside it.
#[test]
fn fills_end_where_views_end() {
    for (len, begin, end) in [(1025, 1, 1025), (5000, 0, 5000), (5003, 3, 4990), (400_009, 17, 400_001)] {
        let x = Tensor::from_vec(vec![1f32; len as usize], [len]);
        x.get(begin..end).assign(0.0f32).unwrap();
        let expected: Vec<f32> = (0..len).map(|k| if (begin..end).contains(&k) { 0.0 } else { 1.0 }).collect();
        assert_eq!(x.to_vec::<f32>().unwrap(), expected, "{begin}..{end} of {len}");
    }
    let rows = Tensor::from_vec(vec![1i64; 7 * 3000], [7, 3000]);
    rows.get((2..5, 10..2999)).assign(0i64).unwrap();
    let sums = rows.sum(()).to_vec::<i64>().unwrap();
    assert_eq!(sums, [7 * 3000 - 3 * 2989]);
}
