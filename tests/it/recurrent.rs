//! Recurrent layers one upon the other and in both directions, against values and gradients of PyTorch 2.15.0, which `tests/onnx/sample_values.py` prints; batches
//! whose length is a variable; and what does not fit.

use warpweft::nn::{Gru, Lstm, Module, Recurrent, Rnn, Stacked};
use warpweft::{DType, Dim, Result, Tensor, Var, compile, spec};

/// The same numbers as in the script.
fn numbers(count: i64, step: i64, of: i64) -> Vec<f64> {
    (0..count).map(|k| ((k * step + 3) % of) as f64 / of as f64 * 2.0 - 1.0).collect()
}

/// Two layers in both directions, with the numbers of the script; the names are those of PyTorch's modules.
fn layers<C: Recurrent>(gates: i64) -> Stacked<C> {
    let layers = Stacked::<C>::new(2, 3, 2, true).unwrap();
    let rows = 3 * gates;
    let mut state = Vec::new();
    for end in ["l0", "l0_reverse", "l1", "l1_reverse"] {
        let width = if end.starts_with("l0") { 2 } else { 6 };
        for (name, shape) in [
            ("weight_ih", vec![rows, width]),
            ("weight_hh", vec![rows, 3]),
            ("bias_ih", vec![rows]),
            ("bias_hh", vec![rows]),
        ] {
            let step = 2 * state.len() as i64 + 5;
            state.push((format!("{name}_{end}"), Tensor::from_vec(numbers(shape.iter().product(), step, 13), shape)));
        }
    }
    layers.load_state_dict(&state).unwrap();
    layers
}

#[track_caller]
fn near(name: &str, found: &Tensor, wanted: &[f64]) {
    let found = found.cast(DType::F64).to_vec::<f64>().unwrap();
    assert_eq!(found.len(), wanted.len(), "{name}");
    let differs = |(a, b): (&f64, &f64)| (a - b).abs() > 2e-6 * (1.0 + b.abs());
    let wrong: Vec<_> = found.iter().zip(wanted).filter(|pair| differs(*pair)).collect();
    assert!(wrong.is_empty(), "{name}: {wrong:?}");
}

/// States of the first of the batch, sums of what the last ones are made of, and sums of gradients with their operands.
struct Wanted {
    states: [f64; 24],
    last: &'static [f64],
    gradients: [f64; 17],
}

#[track_caller]
fn stacked_is<C: Recurrent>(name: &str, gates: i64, wanted: &Wanted) {
    let layers = layers::<C>(gates);
    let x = Tensor::from_vec(numbers(16, 3, 17), [4, 2, 2]).cast(DType::F32);
    let first: Vec<Tensor> = [7, 8][..C::STATES]
        .iter()
        .map(|&step| Tensor::from_vec(numbers(24, step, 19), [4, 2, 3]).cast(DType::F32))
        .collect();
    let (y, last) = layers.forward(&x, Some(&first)).unwrap();
    near(name, &y.narrow(1, 0, 1), &wanted.states);
    let sums: Vec<Tensor> = last.iter().map(|part| part.sum(())).collect();
    near(name, &Tensor::stack(&sums.iter().collect::<Vec<_>>(), 0), wanted.last);
    let cotangent = Tensor::from_vec(numbers(48, 5, 11), [4, 2, 6]).cast(DType::F32);
    let parameters = layers.parameters();
    let operands: Vec<&Tensor> = [&x].into_iter().chain(&parameters).collect();
    let gradients = (y * cotangent).sum(()).gradient(&operands).unwrap();
    let found: Vec<Tensor> = gradients.iter().zip(operands).map(|(gradient, x)| (gradient * x).sum(())).collect();
    near(name, &Tensor::stack(&found.iter().collect::<Vec<_>>(), 0), &wanted.gradients);
}

// tidy: table
const RNN: Wanted = Wanted {
    states: [
        -0.83979037,
        -0.9945225,
        -0.70208258,
        -0.90091304,
        0.90785941,
        -0.00476457,
        0.47207093,
        -0.98693016,
        -0.84528376,
        -0.93205112,
        0.53479482,
        0.81016742,
        0.42936638,
        -0.90200323,
        -0.48302667,
        -0.26462501,
        0.86205266,
        0.82997977,
        0.67900126,
        -0.97711085,
        -0.88565921,
        -0.97999117,
        0.72243793,
        -0.09291321,
    ],
    last: &[-1.02219083],
    gradients: [
        -1.19330607,
        -1.08437192,
        0.68175637,
        -0.70170366,
        0.51177185,
        -0.10893415,
        -0.02246376,
        1.13654361,
        -0.94951694,
        0.19529708,
        -0.07144329,
        -0.08959241,
        0.20254707,
        -0.41021391,
        -0.31870177,
        -0.29550414,
        -0.15495433,
    ],
};

// tidy: table
const GRU: Wanted = Wanted {
    states: [
        0.61858511,
        0.48492746,
        -0.31063817,
        0.30728981,
        -0.96843195,
        0.48192242,
        0.58415457,
        0.15148192,
        -0.10569132,
        0.39663176,
        -0.93979857,
        0.41949069,
        0.81851363,
        -0.06426107,
        0.02555579,
        0.36574373,
        -0.88135305,
        0.3357999,
        0.89311205,
        0.01514314,
        0.13246018,
        0.42001184,
        -0.7972908,
        0.19468863,
    ],
    last: &[-0.95462324],
    gradients: [
        -0.84859228,
        -0.79774597,
        -0.2089005,
        0.49691379,
        -0.15606025,
        -0.05084631,
        -0.06410389,
        -0.18080787,
        -0.03244614,
        -0.29902104,
        -0.07863869,
        -0.42053433,
        -0.09957714,
        -0.43087855,
        -0.12408703,
        0.18217543,
        0.27892537,
    ],
};

// tidy: table
const LSTM: Wanted = Wanted {
    states: [
        -0.0906285,
        0.02298076,
        -0.13196275,
        0.08464826,
        -0.4041166,
        0.10814189,
        0.09610197,
        0.07566561,
        -0.01380512,
        0.09727303,
        -0.40435723,
        0.06888905,
        0.11817041,
        0.08299331,
        0.07918585,
        0.08154856,
        -0.44173263,
        0.10366712,
        0.114885,
        0.09308798,
        0.14261565,
        0.13418212,
        -0.52640932,
        0.1078531,
    ],
    last: &[-0.0384932, -0.20480149],
    gradients: [
        -0.04886423,
        0.00957755,
        -0.01208803,
        -0.01744748,
        0.02939344,
        -0.05844178,
        -0.00184861,
        0.05144856,
        0.02170561,
        -0.02411717,
        0.23467172,
        -0.08745017,
        -0.07082835,
        0.16059921,
        0.26251811,
        0.18035399,
        -0.42921819,
    ],
};

#[test]
fn stacked_layers_are_pytorchs() {
    stacked_is::<Rnn>("RNN", 1, &RNN);
    stacked_is::<Gru>("GRU", 3, &GRU);
    stacked_is::<Lstm>("LSTM", 4, &LSTM);
}

#[test]
fn a_batch_may_be_of_any_length() {
    let batch = Var::new("batch", 1..=8).unwrap();
    let layers = layers::<Lstm>(4);
    let function = compile([spec(DType::F32, (3i64, &batch, 2i64))], |[x]| -> Result<[Tensor; 2]> {
        let (all, last) = layers.forward(&x, None)?;
        Ok([all, last[1].clone()])
    })
    .unwrap();
    for n in [1i64, 5, 8] {
        let x = Tensor::from_vec(numbers(3 * n * 2, 3, 17), [3, n, 2]).cast(DType::F32);
        let (all, last) = layers.forward(&x, None).unwrap();
        let dim: Dim = batch.bind(n).unwrap();
        let given = Tensor::from_vec(x.to_vec::<f32>().unwrap(), (3i64, dim, 2i64));
        let [found, cells] = function.call([&given]).unwrap();
        near("states", &found, &all.cast(DType::F64).to_vec::<f64>().unwrap());
        near("cells", &cells, &last[1].cast(DType::F64).to_vec::<f64>().unwrap());
    }
}

#[test]
fn what_does_not_fit_is_said() {
    let says = |result: Result<(Tensor, Vec<Tensor>)>, words: &str| {
        let error = result.unwrap_err().to_string();
        assert!(error.contains(words) && error.contains("recurrent.rs"), "{error}");
    };
    let layers = Stacked::<Lstm>::new(2, 3, 1, false).unwrap();
    says(layers.forward(&Tensor::ones([4, 2]), None), "x must be [steps, batch, in]");
    says(layers.forward(&Tensor::ones([0, 2, 2]), None), "a number of steps that is 1 or more");
    says(
        layers.forward(&Tensor::ones([4, 2, 2]), Some(&[Tensor::ones([1, 2, 3])])),
        "made of 2 tensors, and these are 1",
    );
    let steps = Var::new("steps", 1..=4).unwrap();
    says(layers.forward(&Tensor::ones((steps.bind(2).unwrap(), 1i64, 2i64)), None), "a number of steps");
    assert!(Stacked::<Gru>::new(2, 3, 0, false).unwrap_err().to_string().contains("one layer at least"));
}
