//! Tensors joined of few parts and of many: what lists of elements give, whether a kernel chooses among the parts or each is put into memory.

use warpweft::{DType, Tensor, compile, spec};

/// Parts of shape [2, n] whose elements are all different, computed and not, some of them empty.
fn parts(count: usize, device: &str) -> (Vec<Tensor>, Vec<[Vec<f32>; 2]>) {
    let mut next = 0.0;
    let rows: Vec<[Vec<f32>; 2]> = (0..count)
        .map(|number| {
            [(); 2].map(|()| {
                let row = || {
                    next += 1.0;
                    next
                };
                std::iter::repeat_with(row).take([3, 1, 0, 5][number % 4]).collect()
            })
        })
        .collect();
    let tensor = |(number, rows): (usize, &[Vec<f32>; 2])| {
        let bytes: Vec<u8> = rows.concat().iter().flat_map(|value| value.to_le_bytes()).collect();
        let x = Tensor::from_bytes(Some(device), DType::F32, [2, rows[0].len() as i64], &bytes);
        if number % 3 == 0 { (x * 4.0 - 1.0) * 0.25 + 0.25 } else { x }
    };
    (rows.iter().enumerate().map(tensor).collect(), rows)
}

#[test]
fn parts_stand_side_by_side_however_many_they_are() {
    for device in ["CPU", "INTERPRETER"] {
        for count in [2, 16, 17, 40, 150] {
            let (tensors, rows) = parts(count, device);
            let joined = Tensor::cat(&tensors.iter().collect::<Vec<_>>(), 1);
            let wanted: Vec<f32> = (0..2).flat_map(|row| rows.iter().flat_map(move |part| part[row].clone())).collect();
            assert_eq!(joined.to_vec::<f32>().unwrap(), wanted, "{count} parts, {device}");
            // What is computed of it, and a second time in one program with parts in another order.
            let turned: Vec<&Tensor> = tensors.iter().rev().collect();
            let sum = (&joined * 2.0 - Tensor::cat(&turned, 1)).sum(());
            let total: f32 = wanted.iter().sum();
            assert_eq!(sum.item::<f32>().unwrap(), total, "{count} parts, {device}");
        }
    }
}

#[test]
fn one_tensor_many_times_and_others_of_other_types() {
    let x = Tensor::from_vec(vec![1i32, 2, 3], [3]);
    let y = Tensor::from_vec(vec![0.5f32; 2], [2]);
    let list: Vec<&Tensor> = (0..30).map(|number| if number % 7 == 0 { &y } else { &x }).collect();
    let wanted: Vec<f32> =
        (0..30).flat_map(|number| if number % 7 == 0 { vec![0.5; 2] } else { vec![1.0, 2.0, 3.0] }).collect();
    assert_eq!(Tensor::cat(&list, 0).to_vec::<f32>().unwrap(), wanted);
    let rows = Tensor::stack(&[&x; 20], 1);
    let wanted: Vec<i32> = (0..60).map(|number| number / 20 + 1).collect();
    assert_eq!((rows.shape().unwrap(), rows.to_vec::<i32>().unwrap()), (vec![3usize, 20], wanted));
}

#[test]
fn gradients_flow_to_each_of_many_parts() {
    let (tensors, rows) = parts(40, "CPU");
    let list: Vec<&Tensor> = tensors.iter().collect();
    let joined = Tensor::cat(&list, 1);
    let len = rows.iter().map(|part| part[0].len()).sum::<usize>();
    let weights: Vec<f32> = (0..2 * len).map(|number| number as f32).collect();
    let loss = (&joined * &joined * Tensor::from_vec(weights, [2, len as i64])).sum(());
    let gradients = loss.gradient(&list).unwrap();
    let mut start = 0;
    for (gradient, part) in gradients.iter().zip(&rows) {
        let wanted: Vec<f32> = (0..2)
            .flat_map(|row| part[row].iter().enumerate().map(move |(k, x)| 2.0 * x * (row * len + start + k) as f32))
            .collect();
        assert_eq!(gradient.to_vec::<f32>().unwrap(), wanted);
        start += part[0].len();
    }
}

#[test]
fn a_compiled_function_joins_anew_at_each_call() {
    let join = compile([spec(DType::F32, [3])], |[x]| {
        let parts: Vec<Tensor> = (0..25).map(|number| &x * number as f32).collect();
        [Tensor::cat(&parts.iter().collect::<Vec<_>>(), 0)]
    })
    .unwrap();
    for scale in [1.0f32, 3.0] {
        let [joined] = join.call([&Tensor::from_vec(vec![scale, 2.0 * scale, 5.0], [3])]).unwrap();
        let wanted: Vec<f32> =
            (0..25).flat_map(|number| [scale, 2.0 * scale, 5.0].map(|x| x * number as f32)).collect();
        assert_eq!(joined.to_vec::<f32>().unwrap(), wanted);
    }
}
