//! Tensors as a user meets them: operators, literals, types, views and writes, random numbers, printing, empty tensors.

use expect_test::{Expect, expect};
use warpweft::tensor::{Index, PadMode, manual_seed};
use warpweft::{DType, Tensor};

fn floats(shape: &[i64]) -> Tensor {
    let count = shape.iter().product::<i64>() as usize;
    Tensor::from_vec((0..count).map(|k| k as f32).collect(), shape.to_vec())
}

#[track_caller]
fn shows(tensor: &Tensor, expect: Expect) {
    expect.assert_eq(&format!("{tensor}"));
}

#[test]
fn operators_take_tensors_and_numbers_on_either_side() {
    let x = Tensor::from_vec(vec![1f32, 2.0, 3.0], [3]);
    let y = (&x * 2.0 + 1.0).exp().sum(0);
    let want: f32 = [3f32, 5.0, 7.0].iter().map(|v| v.exp()).sum();
    assert!((y.item::<f32>().unwrap() - want).abs() < want * 1e-6);
    assert_eq!((1.0 - &x).to_vec::<f32>().unwrap(), [0.0, -1.0, -2.0]);
    assert_eq!((6 / x.cast(DType::I32)).to_vec::<f32>().unwrap(), [6.0, 3.0, 2.0]);
    assert_eq!((-x.cast(DType::I32) % 2).to_vec::<i32>().unwrap(), [1, 0, 1]);
    assert_eq!((x.gt(1.0) & x.lt(3.0)).to_vec::<bool>().unwrap(), [false, true, false]);
}

#[test]
fn numbers_take_the_type_of_the_tensor_beside_them() {
    let integers = Tensor::from_vec(vec![1i16, 2], [2]);
    assert_eq!((&integers + 1).dtype().unwrap(), DType::I16);
    assert_eq!((&integers * 0.5).dtype().unwrap(), DType::F32);
    assert_eq!((integers.cast(DType::F16) * 0.5).dtype().unwrap(), DType::F16);
    assert_eq!((integers.gt(0) + 1).dtype().unwrap(), DType::I32);
    let other = Tensor::from_vec(vec![1u32, 2], [2]);
    assert_eq!((&integers + &other).dtype().unwrap(), DType::I64);
    let error = (integers.cast(DType::I64) + other.cast(DType::U64)).dtype().unwrap_err().to_string();
    assert!(error.contains("no integer type holds all of i64 and of u64: cast one of them first"), "{error}");
}

#[test]
fn every_type_goes_in_and_comes_out() {
    for dtype in DType::ALL {
        let tensor = Tensor::from_vec(vec![0f32, 1.0, 1.0, 0.0], [2, 2]).cast(dtype);
        assert_eq!(tensor.dtype().unwrap(), dtype);
        assert_eq!(tensor.cast(DType::F32).to_vec::<f32>().unwrap(), [0.0, 1.0, 1.0, 0.0], "{dtype}");
        assert_eq!(tensor.to_bytes().unwrap().len(), 4 * dtype.bytes());
    }
}

#[test]
fn slices_read_as_in_python() {
    let x = floats(&[3, 4]);
    assert_eq!(x.get((1, ..)).to_vec::<f32>().unwrap(), [4.0, 5.0, 6.0, 7.0]);
    assert_eq!(x.get((.., -1)).to_vec::<f32>().unwrap(), [3.0, 7.0, 11.0]);
    assert_eq!(x.get((1..=-1, 0)).to_vec::<f32>().unwrap(), [4.0, 8.0]);
    let back = Index::Range { start: None, stop: None, step: -2 };
    assert_eq!(x.get((0, back)).to_vec::<f32>().unwrap(), [3.0, 1.0]);
    assert_eq!(x.get((Index::Rest, 2)).shape().unwrap(), [3]);
    assert_eq!(x.get((Index::New, 0)).shape().unwrap(), [1, 4]);
}

#[test]
fn a_write_is_seen_through_every_view() {
    let base = floats(&[2, 3]);
    let (row, column, turned) = (base.get(1), base.get((.., 0)), base.t());
    row.assign(&row * 10.0).unwrap();
    assert_eq!(base.to_vec::<f32>().unwrap(), [0.0, 1.0, 2.0, 30.0, 40.0, 50.0]);
    assert_eq!(column.to_vec::<f32>().unwrap(), [0.0, 30.0]);
    turned.flip(0).assign(7.0).unwrap();
    assert_eq!(row.to_vec::<f32>().unwrap(), [7.0, 7.0, 7.0]);
    assert!(floats(&[1, 3]).expand([2, 3]).assign(0.0).unwrap_err().to_string().contains("share elements"));
    // Values computed before the write keep what they read.
    let source = floats(&[2]);
    let sum = source.sum(());
    source.assign(5.0).unwrap();
    assert_eq!(sum.item::<f32>().unwrap(), 1.0);
    assert_eq!(source.sum(()).item::<f32>().unwrap(), 10.0);
}

#[test]
fn tensors_without_elements_work() {
    let empty = floats(&[0, 3]);
    assert_eq!(empty.exp().to_vec::<f32>().unwrap(), Vec::<f32>::new());
    assert_eq!(empty.sum(0).to_vec::<f32>().unwrap(), [0.0, 0.0, 0.0]);
    assert_eq!(empty.prod(()).item::<f32>().unwrap(), 1.0);
    assert!(empty.mean(()).item::<f32>().unwrap().is_nan());
    assert_eq!(Tensor::cat(&[&empty, &floats(&[2, 3])], 0).shape().unwrap(), [2, 3]);
    assert_eq!(empty.matmul(&floats(&[3, 2])).shape().unwrap(), [0, 2]);
    assert_eq!(floats(&[2, 0]).matmul(&floats(&[0, 2])).to_vec::<f32>().unwrap(), [0.0; 4]);
    assert_eq!(empty.sort(0, false).unwrap().0.shape().unwrap(), [0, 3]);
    assert_eq!(empty.realize().unwrap().shape().unwrap(), [0, 3]);
}

#[test]
fn nan_is_the_largest_and_spreads() {
    let x = Tensor::from_vec(vec![1.0, f32::NAN, -1.0, f32::INFINITY], [4]);
    assert!(x.max(0).item::<f32>().unwrap().is_nan());
    assert_eq!(x.argmax(Some(0), false).item::<i32>().unwrap(), 1);
    assert_eq!(x.argsort(0, false).to_vec::<i32>().unwrap(), [2, 0, 3, 1]);
    assert_eq!(x.argsort(0, true).to_vec::<i32>().unwrap(), [1, 3, 0, 2]);
    assert!(x.cummax(0).to_vec::<f32>().unwrap()[3].is_nan());
    assert!(x.relu().to_vec::<f32>().unwrap()[1].is_nan());
}

#[test]
fn long_scans_are_cut_into_blocks() {
    let x = Tensor::ones([1000]).cast(DType::I64);
    let sums = x.cumsum(0).to_vec::<i64>().unwrap();
    assert!(sums.iter().enumerate().all(|(k, &sum)| sum == k as i64 + 1));
    let peaks = floats(&[700]).flip(0).cummax(0);
    assert_eq!(peaks.min(()).item::<f32>().unwrap(), 699.0);
}

#[test]
fn random_numbers_follow_the_seed() {
    manual_seed(7);
    let (a, b) = (Tensor::rand([1000]), Tensor::rand([1000]));
    let first = a.to_vec::<f32>().unwrap();
    assert_ne!(first, b.to_vec::<f32>().unwrap());
    assert!(first.iter().all(|v| (0.0..1.0).contains(v)));
    assert!((a.mean(()).item::<f32>().unwrap() - 0.5).abs() < 0.05);
    let normal = Tensor::randn([4000]);
    assert!(normal.mean(()).item::<f32>().unwrap().abs() < 0.06);
    assert!((normal.std((), 1, false).item::<f32>().unwrap() - 1.0).abs() < 0.05);
    let dice = Tensor::randint(1, 7, [600]).to_vec::<i32>().unwrap();
    assert!((1..=6).all(|face| dice.iter().filter(|&&v| v == face).count() > 60));
    let mut order = Tensor::randperm(50).to_vec::<i32>().unwrap();
    order.sort_unstable();
    assert_eq!(order, (0..50).collect::<Vec<_>>());
    manual_seed(7);
    assert_eq!(Tensor::rand([1000]).to_vec::<f32>().unwrap(), first);
}

#[test]
fn padding_modes() {
    let x = floats(&[3]);
    let pad = |mode| x.pad_by(&[(2, 1)], mode).to_vec::<f32>().unwrap();
    assert_eq!(pad(PadMode::Reflect), [2.0, 1.0, 0.0, 1.0, 2.0, 1.0]);
    assert_eq!(pad(PadMode::Replicate), [0.0, 0.0, 0.0, 1.0, 2.0, 2.0]);
    assert_eq!(pad(PadMode::Circular), [1.0, 2.0, 0.0, 1.0, 2.0, 0.0]);
    assert_eq!(x.pad(&[(-1, 1)]).to_vec::<f32>().unwrap(), [1.0, 2.0, 0.0]);
}

#[test]
fn printing_is_that_of_pytorch() {
    shows(&Tensor::from_vec(vec![1f32, 2.0, 3.0], [3]), expect!["tensor([1., 2., 3.])"]);
    shows(
        &Tensor::from_vec(vec![1.5f32, -2.25, 300.0, 4.0], [2, 2]),
        expect![[r#"
        tensor([[  1.5000,  -2.2500],
                [300.0000,   4.0000]])"#]],
    );
    shows(&Tensor::from_vec(vec![1e-5f32, 1.0], [2]), expect!["tensor([1.0000e-05, 1.0000e+00])"]);
    shows(&Tensor::from_vec(vec![f32::NAN, 1.0, f32::INFINITY], [3]), expect!["tensor([nan, 1., inf])"]);
    shows(&Tensor::from_vec(vec![1i64, -20], [2]), expect!["tensor([  1, -20])"]);
    shows(&Tensor::from_vec(vec![1i32, -20], [2]), expect!["tensor([  1, -20], dtype=i32)"]);
    shows(&Tensor::from_vec(vec![true, false], [2]), expect!["tensor([ True, False])"]);
    shows(&Tensor::scalar(3.5f32), expect!["tensor(3.5000)"]);
    shows(&floats(&[0, 4]), expect!["tensor([], size=[0, 4])"]);
    shows(
        &floats(&[2, 2, 2]),
        expect![[r#"
        tensor([[[0., 1.],
                 [2., 3.]],

                [[4., 5.],
                 [6., 7.]]])"#]],
    );
    shows(
        &floats(&[40, 30]).cast(DType::I64),
        expect![[r#"
        tensor([[   0,    1,    2,  ...,   27,   28,   29],
                [  30,   31,   32,  ...,   57,   58,   59],
                [  60,   61,   62,  ...,   87,   88,   89],
                ...,
                [1110, 1111, 1112,  ..., 1137, 1138, 1139],
                [1140, 1141, 1142,  ..., 1167, 1168, 1169],
                [1170, 1171, 1172,  ..., 1197, 1198, 1199]])"#]],
    );
    assert_eq!(format!("{:?}", floats(&[2]) + 1.0), "Tensor(f32[2], lazy)");
}
