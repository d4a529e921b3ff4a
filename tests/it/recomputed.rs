//! Gradient checkpointing: the same gradients, with less memory.

use warpweft::{DType, Function, Result, Tensor, checkpoint, compile, spec};

const LAYERS: usize = 6;
const SIZE: i64 = 48;

fn numbers(shape: &[i64], seed: i64) -> Tensor {
    let count = shape.iter().product::<i64>();
    Tensor::from_vec(
        (0..count).map(|k| (((k + seed) * (k + 17)) as f64 * 0.618).sin() as f32 * 0.2).collect(),
        shape.to_vec(),
    )
}

fn block(x: &Tensor, weight: &Tensor) -> Tensor {
    (0..LAYERS).fold(x.clone(), |x, _| x.matmul(weight).tanh().contiguous())
}

/// Three blocks.
fn network(x: &Tensor, weight: &Tensor, is_checkpointed: bool) -> Result<Tensor> {
    (0..3).try_fold(x.clone(), |x, _| match is_checkpointed {
        true => Ok(checkpoint([&x, weight], |[x, weight]| [block(&x, &weight)])?[0].clone()),
        false => Ok(block(&x, weight)),
    })
}

/// The loss and its gradient by the input.
fn step(is_checkpointed: bool) -> Function<2, 2> {
    let specs = [spec(DType::F32, [SIZE * 4, SIZE]), spec(DType::F32, [SIZE, SIZE])];
    compile(specs, |[x, weight]| -> Result<[Tensor; 2]> {
        let loss = network(&x, &weight, is_checkpointed)?.square().sum(());
        let gradient = loss.gradient(&[&x])?.remove(0);
        Ok([loss, gradient])
    })
    .unwrap()
}

#[track_caller]
fn near(found: &Tensor, wanted: &Tensor) {
    let scale = wanted.abs().max(()).item::<f32>().unwrap();
    let far = (found - wanted).abs().max(()).item::<f32>().unwrap();
    assert!(far <= 1e-5 * scale, "{far} of {scale}");
}

#[test]
fn less_is_kept_and_gradients_are_the_same() {
    let (plain, kept) = (step(false), step(true));
    let (x, weight) = (numbers(&[SIZE * 4, SIZE], 1), numbers(&[SIZE, SIZE], 2));
    let (wanted, found) = (plain.call([&x, &weight]).unwrap(), kept.call([&x, &weight]).unwrap());
    wanted.iter().zip(&found).for_each(|(wanted, found)| near(found, wanted));
    let (before, after) = (plain.memory().planned, kept.memory().planned);
    assert!(after * 10 < before * 8, "{after} bytes, and {before} without");
    let by_weight = |is_checkpointed: bool| {
        let loss = network(&x, &weight, is_checkpointed).unwrap().square().sum(());
        loss.gradient(&[&weight]).unwrap().remove(0)
    };
    near(&by_weight(true), &by_weight(false));
}

#[test]
fn second_derivatives_and_integers_go_through() {
    let x = numbers(&[5], 3);
    x.realize().unwrap();
    let index = Tensor::from_vec(vec![4i32, 0, 2], [3]);
    let function = |x: &Tensor, index: &Tensor| x.index_select(0, index).exp().square();
    let second = |y: Tensor| {
        let first = y.sum(()).gradient(&[&x]).unwrap().remove(0);
        first.square().sum(()).gradient(&[&x]).unwrap().remove(0).to_vec::<f32>().unwrap()
    };
    let [kept] = checkpoint([&x, &index], |[x, index]| [function(&x, &index)]).unwrap();
    let (found, wanted) = (second(kept), second(function(&x, &index)));
    assert!(found.iter().zip(&wanted).all(|(a, b)| (a - b).abs() <= 1e-5 * (1.0 + b.abs())), "{found:?}, {wanted:?}");
    let error = checkpoint([&x], |[x]| [x.argsort(0, false)]).unwrap_err().to_string();
    assert!(error.contains("no gradient") && error.contains("recomputed.rs"), "{error}");
}
