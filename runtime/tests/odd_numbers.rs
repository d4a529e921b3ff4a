//! Numbers that nobody means, for every number that the public interface takes: what comes of them is an error of the caller's line, or a tensor, and no
//! panic, whatever the tensor is.
#![allow(clippy::unwrap_used, reason = "a step that fails fails its test")]

use warpweft::nn;
use warpweft::tensor::{ConvOptions, Kernel, PoolOptions, Resampling, Resize};
use warpweft::{DType, Tensor, Var, compile, spec};

const MOST: i64 = i64::MAX;
const LEAST: i64 = i64::MIN;

fn floats(shape: &[i64]) -> Tensor {
    let count = shape.iter().product::<i64>() as usize;
    Tensor::from_vec((0..count).map(|k| k as f32 + 1.0).collect(), shape.to_vec())
}

fn integers(shape: &[i64]) -> Tensor {
    floats(shape).cast(DType::I64)
}

// tidy: table
#[test]
fn odd_numbers_for_every_argument() {
    type Call = fn(&Tensor, i64) -> warpweft::Result<()>;
    fn ok(tensor: Tensor) -> warpweft::Result<()> {
        tensor.dims().map(|_| ())
    }
    let calls: &[(&str, Call)] = &[
        ("reshape", |x, n| ok(x.reshape([n, n]))),
        ("permute", |x, n| ok(x.permute([n, 0]))),
        ("transpose", |x, n| ok(x.transpose(n, 0))),
        ("movedim", |x, n| ok(x.movedim(0, n))),
        ("expand", |x, n| ok(x.expand([n, 2, 3]))),
        ("flip", |x, n| ok(x.flip(n))),
        ("unsqueeze", |x, n| ok(x.unsqueeze(n))),
        ("squeeze", |x, n| ok(x.squeeze(n))),
        ("flatten", |x, n| ok(x.flatten(0, n))),
        ("unflatten", |x, n| ok(x.unflatten(0, [n, n]))),
        ("shrink", |x, n| ok(x.shrink(&[(n, n), (0, 1)]))),
        ("narrow", |x, n| ok(x.narrow(0, n, n))),
        ("diagonal", |x, n| ok(x.diagonal(n, 0, 1))),
        ("unfold", |x, n| ok(x.unfold(0, n, n))),
        ("unfold by", |x, n| ok(x.unfold(0, 1, n))),
        ("roll", |x, n| ok(x.roll(n, 0))),
        ("repeat", |x, n| ok(x.repeat([n, n]))),
        ("repeat_interleave", |x, n| ok(x.repeat_interleave(n, None))),
        ("diag", |x, n| ok(x.diag(n))),
        ("pad", |x, n| ok(x.pad(&[(n, n), (0, 0)]))),
        ("pad one", |x, n| ok(x.pad(&[(0, n), (n, 0)]))),
        ("tril", |x, n| ok(x.tril(n))),
        ("split", |x, n| x.split([n, n], 0).map(|_| ())),
        ("chunk", |x, n| x.chunk(n, 0).map(|_| ())),
        ("as_strided", |x, n| ok(x.as_strided([n, 2], [n, n], Some(n)))),
        ("as_strided by", |x, n| ok(x.as_strided([2, 2], [n, n], Some(n)))),
        ("view", |x, n| ok(x.view([n, n]))),
        ("get", |x, n| ok(x.get(n))),
        ("get range", |x, n| ok(x.get(n..))),
        ("get to", |x, n| ok(x.get((0..n, n..=n)))),
        ("sum", |x, n| ok(x.sum(n))),
        ("var", |x, n| ok(x.var((), n, false))),
        ("norm", |x, n| ok(x.norm(n as f64, (), false))),
        ("argmax", |x, n| ok(x.argmax(Some(n), false))),
        ("softmax", |x, n| ok(x.softmax(n))),
        ("cumsum", |x, n| ok(x.cumsum(n))),
        ("cumprod", |x, n| ok(x.cumprod(n))),
        ("sort", |x, n| x.sort(n, false).map(|_| ())),
        ("topk", |x, n| x.topk(n, 0, true).map(|_| ())),
        ("gather", |x, n| ok(x.gather(&x.cast(DType::I64), n))),
        ("index_select", |x, n| ok(x.index_select(n, &integers(&[1])))),
        ("index", |x, n| ok(x.index([n], &[&integers(&[1])]))),
        ("one_hot", |x, n| ok(x.cast(DType::I64).one_hot(n))),
        ("unbind", |x, n| x.unbind(n).map(|_| ())),
        ("cosine_window", |_, n| ok(Tensor::cosine_window(n, &[0.5], true))),
        ("eye", |_, n| ok(Tensor::eye(n, n))),
        ("arange", |_, n| ok(Tensor::arange(0, n, n))),
        ("arange by", |_, n| ok(Tensor::arange(n, 5, n))),
        ("linspace", |_, n| ok(Tensor::linspace(n as f64, 1.0, n))),
        ("randperm", |_, n| ok(Tensor::randperm(n))),
        ("randint", |_, n| ok(Tensor::randint(n, MOST, [2]))),
        ("full", |_, n| ok(Tensor::full([2], n))),
        ("full_of", |_, n| ok(Tensor::full_of([2], n, DType::U8))),
        ("add", |x, n| ok(x.cast(DType::I8) + n)),
        ("clamp", |x, n| ok(x.clamp(Some(n.into()), Some(n.into())))),
        ("pow", |x, n| ok(x.cast(DType::I64).pow(n))),
        ("pow of", |x, n| ok(x.pow(n as f64))),
        ("shift", |x, n| ok(x.cast(DType::I64) << n)),
        ("conv", |x, n| ok(x.conv(&floats(&[2, 4, 3, 3]), None, &ConvOptions::default().stride([n]).dilation([n])))),
        ("conv pad", |x, n| ok(x.conv(&floats(&[2, 4, 3, 3]), None, &ConvOptions::default().padding([n])))),
        ("conv groups", |x, n| ok(x.conv(&floats(&[2, 4, 3, 3]), None, &ConvOptions::default().groups(n)))),
        ("conv_transpose", |x, n| {
            ok(x.conv_transpose(&floats(&[4, 2, 3, 3]), None, &ConvOptions::default().stride([n]).padding([n])))
        }),
        ("conv_transpose to", |x, n| {
            ok(x.conv_transpose(
                &floats(&[4, 2, 3, 3]),
                None,
                &ConvOptions::default().output_padding([n]).dilation([n]),
            ))
        }),
        ("max_pool", |x, n| ok(x.max_pool(&PoolOptions::default().kernel([n]).stride([n])))),
        ("avg_pool", |x, n| ok(x.avg_pool(&PoolOptions::default().padding([n]).dilation([n])))),
        ("adaptive_avg_pool", |x, n| ok(x.adaptive_avg_pool([n]))),
        ("adaptive_max_pool", |x, n| ok(x.adaptive_max_pool([n]))),
        ("interpolate", |x, n| ok(x.interpolate([n], Resize::Nearest))),
        ("interpolate to", |x, n| ok(x.interpolate([n], Resize::NearestExact))),
        ("interpolate_area", |x, n| ok(x.interpolate_area([n]))),
        ("interpolate_cubic", |x, n| ok(x.interpolate_cubic([n], false))),
        ("pixel_shuffle", |x, n| ok(x.pixel_shuffle(n))),
        ("pixel_unshuffle", |x, n| ok(x.pixel_unshuffle(n))),
        ("layer_norm", |x, n| ok(x.layer_norm([n], None, None, 1e-5))),
        ("group_norm", |x, n| ok(x.group_norm(n, None, None, 1e-5))),
        ("cross", |x, n| ok(x.cross(x, n))),
        ("trapezoid", |x, n| ok(x.trapezoid(1.0, n))),
        ("matrix_power", |x, n| ok(x.matrix_power(n))),
        ("fft", |x, n| ok(x.fft(None, n).0)),
        ("irfft", |x, n| ok(Tensor::irfft(x, x, 0, n))),
        ("quantile", |x, n| ok(x.quantile(&[0.5], n))),
        ("multinomial", |x, n| ok(x.multinomial(n, true))),
        ("cosine_similarity", |x, n| ok(x.cosine_similarity(x, n, 1e-8))),
        ("affine_grid", |x, n| ok(x.affine_grid([1, 1, n, n], false))),
        ("resample", |x, n| ok(x.resample(0, &[n as f64], &Resampling::default().kernel(Kernel::Linear)))),
        ("polygamma", |x, n| ok(x.polygamma(n as u32))),
        ("multigammaln", |x, n| ok(x.multigammaln(n as u32))),
        ("rotary", |x, n| ok(nn::rotary(x, n, 1e4))),
        ("to a spec", |_, n| compile([spec(DType::F32, [n])], |[x]| [x]).map(|_| ())),
        ("Var", |_, n| Var::new("n", n..=n).map(|_| ()).map_err(Into::into)),
        ("bind", |_, n| Ok(Var::new("n", 0..=8)?.bind(n).map(|len| drop(Tensor::ones([len])))?)),
        ("bound", |_, n| ok(Tensor::ones([Var::new("n", 0..=MOST)?.bind(n)?]))),
    ];
    let numbers =
        [LEAST, LEAST + 1, -(1 << 32), -2, -1, 0, 1, 2, 3, 1 << 31, 1 << 32, 1 << 53, 1 << 62, MOST - 1, MOST];
    let large = |shape: &[i64]| Tensor::zeros(shape);
    let tensors = [
        floats(&[]),
        floats(&[3]),
        floats(&[2, 3]),
        floats(&[0, 3]),
        floats(&[1, 4, 5, 5]),
        large(&[1 << 40]),
        large(&[1 << 31, 1 << 15]),
    ];
    let mut wrong = Vec::new();
    for (name, call) in calls {
        for x in &tensors {
            for n in numbers {
                let what = || format!("{name} of {:?} with {n}", x.shape());
                match std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| call(x, n))) {
                    Err(_) => wrong.push(format!("{}: a panic", what())),
                    Ok(Err(error)) if !error.to_string().contains("odd_numbers.rs:") => {
                        wrong.push(format!("{}: {error}", what()));
                    }
                    Ok(_) => {}
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} calls:\n{}", wrong.len(), wrong.join("\n"));
}
