//! Tensors looked at between their elements, transformed, rounded to small floats; recurrent layers: values and gradients of PyTorch 2.15.0, which
//! `tests/onnx/sample_values.py` prints.

use warpweft::nn::{Gru, Lstm, Module, Rnn};
use warpweft::tensor::{Beyond, Kernel, NearestRounding, Resampling, SampleMode, SmallFloat};
use warpweft::{DType, Tensor};

/// The same numbers as in the script.
fn numbers(count: i64, step: i64, of: i64) -> Vec<f64> {
    (0..count).map(|k| ((k * step + 3) % of) as f64 / of as f64 * 2.0 - 1.0).collect()
}

#[track_caller]
fn near(name: &str, found: &Tensor, wanted: &[f64]) {
    let found = found.cast(DType::F64).to_vec::<f64>().unwrap();
    assert_eq!(found.len(), wanted.len(), "{name}");
    let differs = |(a, b): (&f64, &f64)| (a - b).abs() > 2e-7 * (1.0 + b.abs());
    let wrong: Vec<_> = found.iter().zip(wanted).filter(|pair| differs(*pair)).collect();
    assert!(wrong.is_empty(), "{name}: {wrong:?}");
}

/// Mode, what is beyond the edge, corners aligned; and the sum of the result, that with a cotangent, and those of both gradients with the operands.
// tidy: table
const GRIDS: &[(SampleMode, Beyond, bool, [f64; 4])] = &[
    (SampleMode::Nearest, Beyond::Zeros, false, [2.7826087, -1.27877238, -1.27877238, 0.0]),
    (SampleMode::Nearest, Beyond::Zeros, true, [2.52173913, 1.27365729, 1.27365729, 0.0]),
    (SampleMode::Nearest, Beyond::Border, false, [3.30434783, -0.5831202, -0.5831202, 0.0]),
    (SampleMode::Nearest, Beyond::Reflection, false, [3.30434783, -0.5831202, -0.5831202, 0.0]),
    (SampleMode::Nearest, Beyond::Reflection, true, [2.52173913, 1.27365729, 1.27365729, 0.0]),
    (SampleMode::Linear, Beyond::Zeros, false, [1.28882332, -0.24994084, -0.24994084, -1.25933787]),
    (SampleMode::Linear, Beyond::Zeros, true, [-0.12514272, 1.13075997, 1.13075997, -5.45339459]),
    (SampleMode::Linear, Beyond::Border, false, [0.91354932, 0.74148111, 0.74148111, -4.18894517]),
    (SampleMode::Linear, Beyond::Border, true, [-1.00893412, 1.90402038, 1.90402038, -2.58098873]),
    (SampleMode::Linear, Beyond::Reflection, false, [1.12224497, 0.55733789, 0.55733789, -8.97666896]),
    (SampleMode::Linear, Beyond::Reflection, true, [-0.01129953, 0.58873108, 0.58873108, -9.88665146]),
    (SampleMode::Cubic, Beyond::Zeros, false, [2.54945478, -0.40952955, -0.40952955, -4.94572206]),
    (SampleMode::Cubic, Beyond::Zeros, true, [0.30832955, 1.85581071, 1.85581071, -7.87086954]),
    (SampleMode::Cubic, Beyond::Border, false, [2.4035032, 1.01669012, 1.01669012, -8.50864042]),
    (SampleMode::Cubic, Beyond::Border, true, [-0.82898519, 2.81726183, 2.81726183, -3.90019758]),
    (SampleMode::Cubic, Beyond::Reflection, false, [3.28753551, 1.11082074, 1.11082074, -13.34237215]),
    (SampleMode::Cubic, Beyond::Reflection, true, [1.21741613, 0.94562222, 0.94562222, -14.70804188]),
];

#[test]
fn images_on_grids_are_pytorchs() {
    let image = Tensor::from_vec(numbers(80, 7, 23), [2, 2, 4, 5]);
    let grid: Vec<f64> = numbers(24, 5, 19).into_iter().map(|x| x * 1.3).collect();
    let grid = Tensor::from_vec(grid, [2, 3, 2, 2]);
    let cotangent = Tensor::from_vec(numbers(24, 11, 17), [2, 2, 3, 2]);
    for &(mode, beyond, align, wanted) in GRIDS {
        let y = image.grid_sample(&grid, mode, beyond, align);
        assert_eq!(y.shape().unwrap(), [2, 2, 3, 2]);
        let weighted = (&y * &cotangent).sum(());
        let gradients = weighted.gradient(&[&image, &grid]).unwrap();
        let [by_image, by_grid] = [(&gradients[0] * &image).sum(()), (&gradients[1] * &grid).sum(())];
        let found = Tensor::stack(&[&y.sum(()), &weighted, &by_image, &by_grid], 0);
        near(&format!("{mode:?} {beyond:?} {align}"), &found, &wanted);
    }
}

#[test]
fn affine_grids_are_pytorchs() {
    let maps = Tensor::from_vec(numbers(12, 3, 13), [2, 2, 3]);
    let edges = [
        0.78205128,
        -0.44871795,
        0.42307692,
        0.11538462,
        0.06410256,
        0.67948718,
        0.70512821,
        -1.14102564,
        0.34615385,
        -0.57692308,
        -0.01282051,
        -0.01282051,
        -1.34615385,
        0.75641026,
        -1.19230769,
        0.5,
        -1.03846154,
        0.24358974,
        -0.65384615,
        0.83333333,
        -0.5,
        0.57692308,
        -0.34615385,
        0.32051282,
    ];
    near("edges", &maps.affine_grid(&[2, 3], false), &edges);
    let middles = [
        1.0,
        -0.38461538,
        0.46153846,
        0.46153846,
        -0.07692308,
        1.30769231,
        0.84615385,
        -1.76923077,
        0.30769231,
        -0.92307692,
        -0.23076923,
        -0.07692308,
        -1.76923077,
        0.84615385,
        -1.53846154,
        0.46153846,
        -1.30769231,
        0.07692308,
        -0.38461538,
        1.0,
        -0.15384615,
        0.61538462,
        0.07692308,
        0.23076923,
    ];
    near("middles", &maps.affine_grid(&[2, 3], true), &middles);
}

#[test]
fn resampled_axes_are_pytorchs() {
    let x = Tensor::from_vec(numbers(7, 3, 11), [7]);
    // PyTorch leaves out what is beyond the edge where it stretches.
    let resampled = |kernel, count: usize, antialias| {
        let scale = count as f64 / 7.0;
        let positions: Vec<f64> = (0..count).map(|at| (at as f64 + 0.5) / scale - 0.5).collect();
        let how = Resampling::default().kernel(kernel).scale(scale).antialias(antialias).exclude_outside(antialias);
        x.resample(0, &positions, &how)
    };
    near("linear", &resampled(Kernel::Linear, 4, false), &[-0.25, 0.45454545, -0.34090909, 0.61363636]);
    let stretched = [-0.16883117, 0.12, -0.31636364, 0.53246753];
    near("linear, stretched", &resampled(Kernel::Linear, 4, true), &stretched);
    let up = [
        -0.45454545,
        -0.15454545,
        0.22727273,
        0.60909091,
        -0.30909091,
        -0.62727273,
        -0.24545455,
        0.13636364,
        0.51818182,
        0.81818182,
    ];
    near("linear, up", &resampled(Kernel::Linear, 10, false), &up);
    let cubic = [-0.29394531, 0.51793324, -0.38378906, 0.65758168];
    near("cubic", &resampled(Kernel::Cubic(-0.75), 4, false), &cubic);
    // PyTorch has another coefficient where it stretches.
    let stretched = [-0.15985711, 0.12874129, -0.39794625, 0.60007307];
    near("cubic, stretched", &resampled(Kernel::Cubic(-0.5), 4, true), &stretched);
    let positions = [0.5, 1.5, 2.4, 9.0];
    let nearest = |rounding| {
        let kernel = Kernel::Nearest(rounding);
        let how = Resampling::default().kernel(kernel).scale(1.0).antialias(false).exclude_outside(false);
        Tensor::iota(4).resample(0, &positions, &how).to_vec::<i32>().unwrap()
    };
    assert_eq!(nearest(NearestRounding::HalfDown), [0, 1, 2, 3]);
    assert_eq!(nearest(NearestRounding::HalfUp), [1, 2, 2, 3]);
    assert_eq!(nearest(NearestRounding::Floor), [0, 1, 2, 3]);
    assert_eq!(nearest(NearestRounding::Ceil), [1, 2, 3, 3]);
}

#[test]
fn determinants_are_pytorchs() {
    let elements: Vec<f64> = (0..32).map(|k| ((k * k * 7 + k) % 31) as f64 / 15.0 - 1.0).collect();
    let x = Tensor::from_vec(elements, [2, 4, 4]);
    let det = x.det();
    near("det", &det, &[0.81197037, -0.37842963]);
    let gradient = [
        -0.37688889,
        0.24888889,
        0.30222222,
        -0.33955556,
        -0.46755556,
        1.45777778,
        0.03022222,
        -0.24888889,
        -0.2397037,
        0.8477037,
        0.59437037,
        0.59792593,
        0.91881481,
        -1.06637037,
        0.01007407,
        -0.56059259,
        -0.59733333,
        0.46933333,
        -1.07555556,
        0.432,
        -0.90844444,
        0.71377778,
        -1.04444444,
        0.30222222,
        -0.8,
        0.22311111,
        -0.86607407,
        -0.06340741,
        0.98311111,
        -0.77244444,
        1.41540741,
        -0.1197037,
    ];
    near("gradient", &det.sum(()).gradient(&[&x]).unwrap()[0], &gradient);
    assert_eq!(Tensor::zeros([3, 3]).det().item::<f32>().unwrap(), 0.0);
    assert!(Tensor::zeros([3, 2]).det().dtype().unwrap_err().to_string().contains("as long as each other"));
}

#[test]
fn transforms_and_windows_are_pytorchs() {
    let (re, im) = (Tensor::from_vec(numbers(6, 5, 13), [6]), Tensor::from_vec(numbers(6, 3, 7), [6]));
    let both = |(re, im): (Tensor, Tensor)| Tensor::stack(&[&re, &im], -1).reshape([12]);
    let forward = [
        -1.69230769,
        0.0,
        0.43461518,
        0.96151014,
        -0.06025648,
        -1.70318341,
        -0.30769231,
        -2.57142857,
        -0.55512814,
        2.56032627,
        -1.0499998,
        -0.10436728,
    ];
    near("forward", &both(Tensor::dft(&re, Some(&im), 0, false)), &forward);
    let inverse = [
        -0.28205128,
        0.0,
        -0.17499997,
        -0.01739455,
        -0.09252136,
        0.42672104,
        -0.05128205,
        -0.42857143,
        -0.01004275,
        -0.2838639,
        0.07243586,
        0.16025169,
    ];
    near("inverse", &both(Tensor::dft(&re, Some(&im), 0, true)), &inverse);
    let hann = Tensor::cosine_window(5, &[0.5, -0.5], true);
    near("hann", &hann, &[0.0, 0.3454915, 0.9045085, 0.9045085, 0.3454915]);
    near("hamming", &Tensor::cosine_window(5, &[0.54, -0.46], false), &[0.08, 0.54, 1.0, 0.54, 0.08]);
    let blackman = Tensor::cosine_window(6, &[0.42, -0.5, 0.08], false);
    near("blackman", &blackman, &[0.0, 0.20077014, 0.84922986, 0.84922986, 0.20077014, 0.0]);
}

#[test]
fn small_floats_are_rounded_as_pytorch_does() {
    const NAN: f32 = f32::NAN;
    const INF: f32 = f32::INFINITY;
    let x = [0.0, -0.0, 0.3, -1.7, 17.0, 19.0, 449.0, 464.1, -600.0, 0.001, 0.0001, 60000.0, 70000.0, INF, NAN];
    let x = Tensor::from_slice::<f32>(&x, [15]);
    let wanted: [(SmallFloat, bool, [f32; 15]); 4] = [
        (
            SmallFloat::E4M3FN,
            true,
            [0.0, -0.0, 0.3125, -1.75, 16.0, 20.0, 448.0, 448.0, -448.0, 0.001953125, 0.0, 448.0, 448.0, 448.0, NAN],
        ),
        (
            SmallFloat::E5M2,
            false,
            [
                0.0,
                -0.0,
                0.3125,
                -1.75,
                16.0,
                20.0,
                448.0,
                448.0,
                -640.0,
                0.0009765625,
                0.00010681152,
                57344.0,
                INF,
                INF,
                NAN,
            ],
        ),
        (
            SmallFloat::E4M3FNUZ,
            false,
            [0.0, 0.0, 0.3125, -1.75, 16.0, 20.0, NAN, NAN, NAN, 0.0009765625, 0.0, NAN, NAN, NAN, NAN],
        ),
        (
            SmallFloat::E5M2FNUZ,
            false,
            [
                0.0,
                0.0,
                0.3125,
                -1.75,
                16.0,
                20.0,
                448.0,
                448.0,
                -640.0,
                0.0009765625,
                0.00010681152,
                57344.0,
                NAN,
                NAN,
                NAN,
            ],
        ),
    ];
    for (float, saturate, wanted) in wanted {
        let found = x.round_to_small(float, saturate).to_vec::<f32>().unwrap();
        let same = |(a, b): (&f32, &f32)| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
        assert!(found.iter().zip(&wanted).all(same), "{float:?}: {found:?}, and must be {wanted:?}");
    }
}

#[test]
fn what_a_small_float_has_is_left_as_it_is() {
    use SmallFloat::{E2M1FN, E4M3FN, E4M3FNUZ, E5M2, E5M2FNUZ, E8M0FNU};
    for float in [E4M3FN, E4M3FNUZ, E5M2, E5M2FNUZ, E2M1FN, E8M0FNU] {
        let codes: Vec<u8> = (0..1u16 << float.bits()).map(|code| code as u8).collect();
        let decoded: Vec<f32> = codes.iter().map(|&code| float.decode(code)).collect();
        for (&code, &number) in codes.iter().zip(&decoded).filter(|(_, number)| !number.is_nan()) {
            assert_eq!(float.encode(number), Some(code), "{float:?}: {number}");
        }
        let rounded =
            Tensor::from_slice(&decoded, [decoded.len()]).round_to_small(float, false).to_vec::<f32>().unwrap();
        let same = |(a, b): (&f32, &f32)| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
        let wrong: Vec<_> = rounded.iter().zip(&decoded).filter(|pair| !same(*pair)).collect();
        assert!(wrong.is_empty(), "{float:?}: {wrong:?}");
    }
}

/// The layer's weights of the script, an input, and the cotangent of all states.
fn recurrent(gates: i64) -> ([Tensor; 4], Tensor, Tensor) {
    let rows = 3 * gates;
    let weights = [(rows * 2, 5), (rows * 3, 7), (rows, 3), (rows, 11)].map(|(count, step)| numbers(count, step, 13));
    let [inputs, state, bias_inputs, bias_state] = weights;
    let weights = [
        Tensor::from_vec(inputs, [rows, 2]),
        Tensor::from_vec(state, [rows, 3]),
        Tensor::from_vec(bias_inputs, [rows]),
        Tensor::from_vec(bias_state, [rows]),
    ];
    let x = Tensor::from_vec(numbers(16, 3, 17), [4, 2, 2]);
    (weights, x, Tensor::from_vec(numbers(24, 5, 11), [4, 2, 3]))
}

/// The last state, and the sums of gradients with their operands.
#[track_caller]
fn recurrent_is(
    name: &str,
    gates: i64,
    run: impl Fn(&[Tensor; 4], &Tensor) -> Tensor,
    last: &[f64; 6],
    sums: &[f64; 5],
) {
    let (weights, x, cotangent) = recurrent(gates);
    let y = run(&weights, &x);
    near(name, &y.get(-1).reshape([6]), last);
    let operands = [&x, &weights[0], &weights[1], &weights[2], &weights[3]];
    let gradients = (y * cotangent).sum(()).gradient(&operands).unwrap();
    let found: Vec<Tensor> = gradients.iter().zip(operands).map(|(gradient, x)| (gradient * x).sum(())).collect();
    near(name, &Tensor::stack(&found.iter().collect::<Vec<_>>(), 0), sums);
}

#[test]
fn recurrent_layers_are_pytorchs() {
    let last = [-0.81256293, -0.13494819, 0.95439612, -0.8923895, -0.75223095, 0.96152892];
    let sums = [1.19875617, 1.19875617, 0.20738935, -0.06819057, -0.64800989];
    let rnn = |[a, b, c, d]: &[Tensor; 4], x: &Tensor| Rnn::of(a, b, c, d).unwrap().forward(x, None).unwrap().0;
    recurrent_is("RNN", 1, rnn, &last, &sums);
    let last = [0.1803781, 0.31729704, -0.77419774, 0.18261853, 0.15759381, -0.74805863];
    let sums = [0.24469535, 0.24469535, 0.21491713, 0.19924367, 0.04345592];
    let gru = |[a, b, c, d]: &[Tensor; 4], x: &Tensor| Gru::of(a, b, c, d).unwrap().forward(x, None).unwrap().0;
    recurrent_is("GRU", 3, gru, &last, &sums);
    let last = [0.11921767, -0.0295206, -0.59805108, 0.08269893, -0.03685408, -0.5377777];
    let sums = [0.19049325, 0.19049325, 0.0157516, 0.1483965, -0.06049904];
    let lstm = |[a, b, c, d]: &[Tensor; 4], x: &Tensor| Lstm::of(a, b, c, d).unwrap().forward(x, None).unwrap().0;
    recurrent_is("LSTM", 4, lstm, &last, &sums);
    let ([a, b, c, d], x, _) = recurrent(4);
    let layer = Lstm::of(&a, &b, &c, &d).unwrap();
    let (_, (_, cell)) = layer.forward(&x, None).unwrap();
    near("cell", &cell.reshape([6]), &[0.2140175, -0.05541257, -1.23335334, 0.20524475, -0.05797718, -1.04920417]);
    // What is left after two steps is where two more begin.
    let (_, (state, cell)) = layer.forward(&x.narrow(0, 0i64, 2i64), None).unwrap();
    let (rest, _) = layer.forward(&x.narrow(0, 2i64, 2i64), Some((&state, &cell))).unwrap();
    near("two halves", &rest.get(-1).reshape([6]), &last);
    assert_eq!(Lstm::new(2, 3).unwrap().parameters()[1].shape().unwrap(), [12, 3]);
}
