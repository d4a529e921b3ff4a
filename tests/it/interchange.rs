//! Tensors that come from and go to other libraries: no copy where none is needed, the same elements, memory freed once.
//!
//! What the capsules' C structs hold, and that deleters run once, is tested beside them in `devices`.

use ndarray::{Array2, ArrayD, Axis, array, s};
use warpweft::{DType, Tensor, Var};

fn floats(shape: &[i64]) -> Tensor {
    let count = shape.iter().product::<i64>() as usize;
    Tensor::from_vec((0..count).map(|k| k as f32).collect(), shape.to_vec())
}

#[track_caller]
fn crosses(tensor: &Tensor, strides: &[i64], offset: i64) {
    let capsule = tensor.to_dlpack().unwrap();
    assert!(capsule.is_read_only());
    let (memory, layout) = capsule.into_memory().unwrap();
    let reach: i64 = layout.shape.iter().zip(&layout.strides).map(|(len, stride)| (len - 1) * stride.abs()).sum();
    assert_eq!((layout.strides.as_slice(), layout.offset), (strides, offset));
    assert_eq!(memory.bytes() as i64, (reach + 1) * 4);
    let back = Tensor::from_dlpack(tensor.to_dlpack().unwrap());
    assert_eq!(back.shape().unwrap(), tensor.shape().unwrap());
    assert_eq!(back.to_vec::<f32>().unwrap(), tensor.to_vec::<f32>().unwrap());
    assert_eq!((&back + 1.0).to_vec::<f32>().unwrap(), (tensor + 1.0).to_vec::<f32>().unwrap());
}

#[test]
fn views_cross_with_their_strides() {
    let x = floats(&[4, 6]);
    crosses(&x, &[6, 1], 0);
    crosses(&x.t(), &[1, 6], 0);
    crosses(&x.get((1..3, 2)), &[6], 0);
    crosses(&x.flip(1).get(0), &[-1], 5);
    crosses(&x.get((.., 0..1)).expand([4, 3]), &[6, 0], 0);
    crosses(&(&x * 2.0).reshape([24]), &[1], 0);
    // A value without memory of its own, and a view that no strides describe, are computed first.
    crosses(&x.sum(0), &[1], 0);
    crosses(&x.t().reshape([24]), &[1], 0);
    let n = Var::new("n", 1..=8).unwrap().bind(3).unwrap();
    crosses(&Tensor::from_vec((0..6).map(|k| k as f32).collect(), (&n, 2)).t(), &[1, 2], 0);
    let empty = Tensor::from_dlpack(floats(&[0, 3]).to_dlpack().unwrap());
    assert_eq!((empty.shape().unwrap(), empty.to_vec::<f32>().unwrap()), (vec![0, 3], vec![]));
}

#[test]
fn every_type_crosses() {
    for dtype in DType::ALL {
        let tensor = Tensor::from_vec(vec![0f32, 1.0, 1.0, 0.0], [2, 2]).cast(dtype);
        let back = Tensor::from_dlpack(tensor.t().to_dlpack().unwrap());
        assert_eq!(back.dtype().unwrap(), dtype);
        assert_eq!(back.to_bytes().unwrap(), tensor.t().to_bytes().unwrap(), "{dtype}");
    }
}

#[test]
fn no_byte_is_copied_either_way() {
    let x = floats(&[1000]);
    x.realize().unwrap();
    let address = |tensor: &Tensor| {
        let (memory, _) = tensor.to_dlpack().unwrap().into_memory().unwrap();
        memory.host_address().unwrap()
    };
    assert_eq!(address(&x), address(&Tensor::from_dlpack(x.to_dlpack().unwrap())));
    assert_ne!(address(&x), {
        let (copy, _) = x.to_dlpack_copy().unwrap().into_memory().unwrap();
        copy.host_address().unwrap()
    });
    assert!(!x.to_dlpack_copy().unwrap().is_read_only());
    let array = Array2::<f32>::zeros((20, 30));
    let expected = array.as_ptr().addr();
    assert_eq!(address(&Tensor::from_ndarray(array)).addr().get(), expected);
}

#[test]
fn what_is_given_away_is_written_to_by_nobody_else() {
    let address = |capsule: warpweft::tensor::Capsule| {
        let (memory, _) = capsule.into_memory().unwrap();
        memory.host_address().unwrap()
    };
    // Of a result that nobody else has, the very memory.
    let alone = floats(&[100]) + 1.0;
    alone.realize().unwrap();
    let expected = alone.with_slice(|elements: &[f32]| elements.as_ptr().addr()).unwrap();
    let given = alone.into_dlpack().unwrap();
    assert!(!given.is_read_only());
    assert_eq!(address(given).addr().get(), expected);
    // Of what another tensor has too, whole or in part, and of what somebody else lent, a copy.
    let x = floats(&[100]);
    x.realize().unwrap();
    let own = x.with_slice(|elements: &[f32]| elements.as_ptr().addr()).unwrap();
    let others: [fn(&Tensor) -> Tensor; 3] =
        [Tensor::clone, |x| x.get(0..100), |x| Tensor::from_dlpack(x.to_dlpack().unwrap())];
    for other in others {
        let given = other(&x).into_dlpack().unwrap();
        assert!(!given.is_read_only());
        assert_ne!(address(given).addr().get(), own);
    }
    let lent = Array2::<f32>::zeros((4, 5));
    let expected = lent.as_ptr().addr();
    let producer = Tensor::from_ndarray(lent).to_dlpack().unwrap();
    assert_ne!(address(Tensor::from_dlpack(producer).into_dlpack().unwrap()).addr().get(), expected);
    assert_eq!(Tensor::from_dlpack((x * 2.0).t().into_dlpack().unwrap()).to_vec::<f32>().unwrap()[99], 198.0);
}

#[test]
fn writes_go_to_memory_of_their_own() {
    let x = floats(&[2, 3]);
    let shared = Tensor::from_dlpack(x.to_dlpack().unwrap());
    shared.assign(&shared * 10.0).unwrap();
    assert_eq!(shared.to_vec::<f32>().unwrap(), [0.0, 10.0, 20.0, 30.0, 40.0, 50.0]);
    assert_eq!(x.to_vec::<f32>().unwrap(), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    // What was given out keeps what it showed when it was.
    let given = x.to_dlpack().unwrap();
    x.get(0).assign(7.0).unwrap();
    x.realize().unwrap();
    assert_eq!(x.to_vec::<f32>().unwrap(), [7.0, 7.0, 7.0, 3.0, 4.0, 5.0]);
    assert_eq!(Tensor::from_dlpack(given).to_vec::<f32>().unwrap(), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    let array = array![[1f32, 2.0], [3.0, 4.0]];
    let adopted = Tensor::from_ndarray(array.reversed_axes());
    adopted.get((0, ..)).assign(0.0).unwrap();
    assert_eq!(adopted.to_vec::<f32>().unwrap(), [0.0, 0.0, 2.0, 4.0]);
}

#[test]
fn arrays_come_and_go_in_any_strides() {
    let array = ArrayD::from_shape_fn(vec![3, 4, 2], |at| (at[0] * 100 + at[1] * 10 + at[2]) as i32);
    assert_eq!(Tensor::from_ndarray_view(&array).to_ndarray::<i32>().unwrap(), array);
    let turned = array.clone().permuted_axes(vec![2, 0, 1]);
    assert_eq!(Tensor::from_ndarray(turned.clone()).to_ndarray::<i32>().unwrap(), turned);
    let mut flipped = array.clone();
    flipped.invert_axis(Axis(1));
    assert_eq!(Tensor::from_ndarray(flipped.clone()).to_ndarray::<i32>().unwrap(), flipped);
    let part = array.slice(s![1.., ..;-2, 1]);
    assert_eq!(Tensor::from_ndarray_view(&part).to_ndarray::<i32>().unwrap(), part.to_owned().into_dyn());
    assert!(Tensor::from_ndarray(array).to_ndarray::<f32>().unwrap_err().to_string().contains("i32, not f32"));
}
