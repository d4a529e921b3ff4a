//! What is found by value: refused while a function is traced, and draws that follow their weights.

use warpweft::tensor::manual_seed;
use warpweft::{DType, Result, Tensor, compile, spec};

#[test]
fn counts_that_values_say_are_no_part_of_a_traced_function() {
    let trace = |function: fn(&Tensor) -> Result<Tensor>| {
        compile([spec(DType::F32, [4])], |[x]| -> Result<[Tensor; 1]> { Ok([function(&x)?]) }).unwrap_err().to_string()
    };
    let functions: [fn(&Tensor) -> Result<Tensor>; 4] = [
        |x| x.nonzero(),
        |x| x.masked_select(&x.gt(0.0)),
        |x| Ok(x.unique()?.values),
        |x| x.cast(DType::I32).bincount(None, 0),
    ];
    for function in functions {
        let error = trace(function);
        assert!(error.contains("trace"), "{error}");
    }
    let line = compile([spec(DType::F32, [4])], |[x]| [x.searchsorted(&x, false)]).unwrap();
    let x = Tensor::from_vec(vec![1f32, 2.0, 3.0, 3.0], [4]);
    assert_eq!(line.call([&x]).unwrap()[0].to_vec::<i32>().unwrap(), [0, 1, 2, 2]);
}

#[test]
fn what_cannot_be_counted_is_refused() {
    let negative = Tensor::from_vec(vec![1i32, -2], [2]);
    assert!(negative.bincount(None, 0).unwrap_err().to_string().contains("-2 is negative"));
    assert!(Tensor::ones([2]).bincount(None, 0).unwrap_err().to_string().contains("one axis of integers"));
    assert!(Tensor::ones([2]).masked_select(&negative).unwrap_err().to_string().contains("bools"));
    assert!(Tensor::ones([2]).histogram(0, None).unwrap_err().to_string().contains("there must be 1 to 2^31 - 1 bins"));
    assert!(Tensor::ones([2]).histogram(2, Some((1.0, 0.0))).unwrap_err().to_string().contains("not fall"));
    assert_eq!(Tensor::zeros([0, 3]).nonzero().unwrap().shape().unwrap(), [0, 2]);
    assert_eq!(Tensor::zeros([0]).unique().unwrap().values.shape().unwrap(), [0]);
}

#[test]
fn draws_follow_their_weights() {
    manual_seed(3);
    let weights = Tensor::from_vec(vec![1f32, 0.0, 5.0, 2.0, 4.0, 0.0, 0.0, 4.0], [2, 4]);
    let drawn = weights.multinomial(4000, true);
    let shares = drawn.one_hot(4).cast(DType::F32).mean(1).to_vec::<f32>().unwrap();
    let wanted = [0.125, 0.0, 0.625, 0.25, 0.5, 0.0, 0.0, 0.5];
    assert!(shares.iter().zip(wanted).all(|(a, b): (&f32, f32)| (a - b).abs() < 0.03), "{shares:?}");
    // Without replacement each index comes once, the likelier ones first.
    let mut first = [0; 3];
    for _ in 0..60 {
        let order = Tensor::from_vec(vec![1f32, 8.0, 1.0], [3]).multinomial(3, false).to_vec::<i32>().unwrap();
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, [0, 1, 2]);
        first[order[0] as usize] += 1;
    }
    assert!(first[1] > 36, "{first:?}");
    let share = Tensor::full([5000], 0.3f32).bernoulli().mean(()).item::<f32>().unwrap();
    assert!((share - 0.3).abs() < 0.03, "{share}");
}
