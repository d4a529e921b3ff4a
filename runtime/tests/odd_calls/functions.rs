//! Compiled functions, modules, optimizers, variables and devices.

use warpweft::nn::{self, Optimizer};
use warpweft::tensor::{AttentionOptions, ConvOptions};
use warpweft::{DType, Tensor, Var, compile, compile_dyn, spec};

use super::{LEAST, MOST, case, check, floats, integers};

// tidy: table
#[test]
fn each_odd_call_says_what_was_wrong() {
    let x = floats(&[2, 3]);
    let one = compile([spec(DType::F32, [2, 3])], |[x]| [x * 2.0]).unwrap();
    let many = compile_dyn(&[spec(DType::F32, [2, 3])], |x| Ok(vec![&x[0] + 1.0])).unwrap();
    let n = Var::new("n", 1..=4).unwrap();
    let batch = compile([spec(DType::F32, (&n, 3))], |[x]| [x.sum(0)]).unwrap();
    let mut sgd = nn::Sgd::new(vec![x.clone()], 0.1, 0.0, 0.0).unwrap();
    let heads = nn::MultiHeadAttention::new(8, 2, 2, true, None).unwrap();
    check(vec![
        case(|| one.call([&floats(&[3, 2])]), "argument 0 must be f32[2, 3]: its axis 0 is 3 long, not 2"),
        case(
            || one.call([&integers(&[2, 3])]),
            "argument 0 must be f32[2, 3]: cast it to f32, or compile the function for i64",
        ),
        case(|| one.call([&floats(&[])]), "argument 0 must be f32[2, 3]: it has 0 axes, not 2"),
        case(|| one.call([&(&x + floats(&[7]))]), "the shapes [2, 3] and [7] do not broadcast: lengths 3 and 7 meet"),
        case(
            || one.call([&x.to("interpreter")]),
            "argument 0 lies on INTERPRETER, and the function runs on CPU: make the tensor there, or compile",
        ),
        case(|| one.call_into([&x], [&floats(&[7])]), "output 0 must be f32[2, 3]"),
        case(|| many.call(&[]), "the function has 1 arguments, and 0 are given"),
        case(|| many.call(&[&x, &x]), "the function has 1 arguments, and 2 are given"),
        case(|| many.call_into(&[&x], &[]), "the function has 1 results, and 0 are given"),
        case(|| many.call_with(&[(&n, 2)], &[&x]), "the function has no variable n in 1..=4"),
        case(|| batch.call([&floats(&[5, 3])]), "argument 0, axis 0: n is 5, outside of 1..=4"),
        case(|| batch.call([&floats(&[0, 3])]), "argument 0, axis 0: n is 0, outside of 1..=4"),
        case(|| batch.call_with(&[(&n, 3)], [&x]), "argument 0, axis 0: n is 2 here, and 3 before: they must agree"),
        case(
            || compile([spec(DType::F32, [1usize << 63])], |[x]| [x]),
            "argument 0 cannot be f32[9223372036854775807]: the shape [9223372036854775807] has more elements",
        ),
        case(
            || compile([spec(DType::INDEX, [2])], |[x]| [x]),
            "argument 0 cannot be index[2]: index is no type that elements in memory can have; those are bool,",
        ),
        case(
            || compile([spec(DType::F32, [2]).on("abacus")], |[x]| [x]),
            "no device is called `abacus`; devices that are here: cpu:0, interpreter:0 to interpreter:7, ptx:0",
        ),
        case(
            || compile([spec(DType::F32, [2]).on("cpu"), spec(DType::F32, [2]).on("ptx")], |[x, y]| [x + y]),
            "the specs name CPU and PTX: a function runs on one device, so all must name the same",
        ),
        case(|| compile([spec(DType::F32, [2])], |[x]| [x.reshape([7])]), "[2] has 2 elements and [7] has 7"),
        case(
            || compile([spec(DType::F32, [2])], |[x]| x.to_vec::<f32>().map(|_| [x])),
            "a value was asked for while a function is traced, when there is none yet, so no branch can depend",
        ),
        case(
            || compile([], |[]| compile([], |[]| [Tensor::zeros([1])]).and_then(|inner| inner.call([]))),
            "compile it before",
        ),
        case(
            || compile_dyn(&[spec(DType::F32, [-3])], Ok),
            "argument 0 cannot be f32[-3]: the shape [-3] has a negative length",
        ),
        case(
            || warpweft::vmap([&x, &floats(&[3])], |[x, y]| [x + y]),
            "there must be an argument, and all must have a first axis of one length",
        ),
        case(|| Tensor::ones((&n, 2)).to_vec::<f32>(), "the variable n has no value; bind it before computing"),
        case(
            || Tensor::ones((&n, 2)).reshape([4, 2]),
            "[n, 2] has (n * 2) elements and [4, 2] has 8, which are not known to be equal",
        ),
        case(|| nn::Linear::new(-1, 2, true), "the shape [2, -1] has a negative length"),
        case(
            || nn::Linear::new(usize::MAX, usize::MAX, false),
            "the shape [9223372036854775807, 9223372036854775807] has more elements than memory can hold",
        ),
        case(|| nn::Embedding::new(LEAST, 1), "the shape [-9223372036854775808, 1] has a negative length"),
        case(
            || nn::LayerNorm::new(&[1usize << 33], 1e-5).and(nn::LayerNorm::new(&[-4i64], 1e-5)),
            "34359738368 bytes asked in one piece; use smaller tensors or free some",
        ),
        case(|| nn::RmsNorm::new(-1, 1e-5), "the shape [-1] has a negative length"),
        case(|| nn::GroupNorm::new(3, -4, 1e-5), "the shape [-4] has a negative length"),
        case(|| nn::BatchNorm::new(LEAST), "the shape [-9223372036854775808] has a negative length"),
        case(|| nn::InstanceNorm::new(-1, true), "the shape [-1] has a negative length"),
        case(|| nn::Conv2d::new(-1, 2, 3, ConvOptions::default()), "the shape [2, -1, 3, 3] has a negative length"),
        case(
            || nn::Conv::new(2, MOST, [3, 3], true, ConvOptions::default()),
            "the shape [9223372036854775807, 2, 3, 3] has more elements than memory can hold",
        ),
        case(
            || nn::ConvTranspose::new(2, 2, [MOST], true, ConvOptions::default()),
            "the shape [2, 2, 9223372036854775807] has more elements than memory can hold",
        ),
        case(
            || nn::MultiHeadAttention::new(MOST, 1, MOST, true, None),
            "a width of 9223372036854775807 with 1 heads and 9223372036854775807 for keys: heads must divide the",
        ),
        case(
            || nn::MultiHeadAttention::new(8, 3, 3, true, None),
            "a width of 8 with 3 heads and 3 for keys: heads must divide the width, and heads for keys the heads",
        ),
        case(
            || nn::MultiHeadAttention::new(8, 0, 0, true, None),
            "a width of 8 with 0 heads and 0 for keys: heads must divide the width, and heads for keys the heads",
        ),
        case(
            || nn::KeyValueCache::new(1, 1, MOST, MOST),
            "the shape [1, 1, 9223372036854775807, 9223372036854775807] has more elements than memory can hold",
        ),
        case(|| nn::EncoderLayer::new(8, 3, 8), "a width of 8 with 3 heads: heads must divide the width"),
        case(|| nn::EncoderLayer::new(LEAST, 2, 8), "the shape [-9223372036854775808] has a negative length"),
        case(|| nn::Lstm::new(-1, 2), "the shape [8, -1] has a negative length"),
        case(|| nn::Gru::new(2, MOST), "the shape [9223372036854775807, 2] has more elements than memory can hold"),
        case(|| nn::ResNet::new(3, [-4i64], 1, 10), "the shape [-4, -4, 3, 3] has a negative length"),
        case(|| nn::ResidualBlock::new(2, LEAST, 1), "the shape [-9223372036854775808, 2, 3, 3] has a negative length"),
        case(
            || heads.forward(&floats(&[2, 3, 7]), &AttentionOptions::default()),
            "the lengths to sum over differ: 7 on the left, 8 on the right",
        ),
        case(
            || heads.forward(&floats(&[7]), &AttentionOptions::default()),
            "x must have the axes [batch, positions, width]",
        ),
        case(
            || nn::rotary(&floats(&[2, 3]), 0, 1e4),
            "x must have the axes [.., positions, an even width], not [2, 3]",
        ),
        case(
            || nn::Sgd::new(vec![x.clone()], -1.0, 0.0, 0.0),
            "learning rate -1 is out of range: it must be 0 or more and below inf",
        ),
        case(
            || nn::Sgd::new(vec![x.clone()], f64::NAN, 0.0, 0.0),
            "learning rate NaN is out of range: it must be 0 or more and below inf",
        ),
        case(
            || nn::Adam::with(vec![x.clone()], 0.1, (1.5, 0.9), 1e-8, 0.0),
            "beta 1.5 is out of range: it must be 0 or more and below 1",
        ),
        case(
            || nn::Adam::new(vec![&x + floats(&[7])], 0.1),
            "the shapes [2, 3] and [7] do not broadcast: lengths 3 and 7 meet",
        ),
        case(|| nn::Sampler::new(-1.0, 0, 1.0, 0), "temperature -1 is out of range: it must be 0 or more"),
        case(|| nn::Sampler::new(1.0, 0, 0.0, 0), "top_p 0 is out of range: it must be above 0 and at most 1"),
        case(
            || sgd.step(&floats(&[2])),
            "only a tensor of one element has a gradient by itself: sum it, or use gradient_with",
        ),
        case(
            || sgd.step(&floats(&[1])),
            "a tensor of shape [2, 3] is not part of what the result was computed from, nor is another target,",
        ),
        case(
            || nn::clip_by_norm(&[&x + floats(&[7])], 1.0),
            "the shapes [2, 3] and [7] do not broadcast: lengths 3 and 7 meet",
        ),
        case(
            || nn::log_mel(&floats(&[2, 2, 2]), 80),
            "samples must be [count], more than 400, for 1 to 1024 bands; not [2, 2, 2] for 80",
        ),
        case(
            || nn::log_mel(&floats(&[400]), -1),
            "samples must be [count], more than 400, for 1 to 1024 bands; not [400] for -1",
        ),
        case(
            || x.to("abacus"),
            "no device is called `abacus`; devices that are here: cpu:0, interpreter:0 to interpreter:7, ptx:0",
        ),
        case(
            || x.to(""),
            "no device is called ``; devices that are here: cpu:0, interpreter:0 to interpreter:7, ptx:0 to ptx:7",
        ),
        case(
            || x.to("ptx:99"),
            "no device is called `PTX:99`; devices that are here: cpu:0, interpreter:0 to interpreter:7, ptx:0",
        ),
        case(|| x.gt(0.0).sum(()).gradient(&[&x]), "i64 has no derivative: only floats do"),
    ]);
}
