//! Normalisation, products of matrices, dropout, losses.

use super::super::call::{Call, Done, all, lengths_from, one, resolve};
use super::super::error::{Failure, wrong};
use super::super::value::{Array, Value};
use super::Op;
use super::convolution::without_zero;
use crate::DType;
use crate::tensor::{ClassOptions, Reduction, Tensor};

// tidy: table
pub(super) const OPS: &[(&str, Op)] = &[
    ("BatchNormalization", batch_norm),
    ("Det", |call| one(call.tensor(0)?.det())),
    ("Dropout", dropout),
    ("Einsum", |call| match call.text("equation")? {
        Some(equation) => one(Tensor::einsum(&equation, &call.tensors()?)),
        None => wrong!("attribute 'equation' is missing: it must be one of Einstein's sums"),
    }),
    ("Gemm", gemm),
    ("GroupNormalization", group_norm),
    ("InstanceNormalization", |call| {
        let channels = lengths_from(call.tensor(0)?, 1)?.first().copied().unwrap_or(1);
        let (weight, bias) = (call.optional(1)?, call.optional(2)?);
        one(call.tensor(0)?.group_norm(channels, weight, bias, call.float_or("epsilon", 1e-5)?))
    }),
    ("LRN", local_response),
    ("LayerNormalization", layer_norm),
    ("LpNormalization", |call| {
        let (x, axis) = (call.tensor(0)?, call.int_or("axis", -1)?);
        let size = x.norm(call.int_or("p", 2)? as f64, axis, true);
        one(size.eq(0.0).where_(0.0, x / &size))
    }),
    ("MatMul", |call| one(call.tensor(0)?.matmul(call.tensor(1)?).cast(call.tensor(0)?.dtype()?))),
    ("MatMulInteger", |call| {
        let a = without_zero(call.tensor(0)?, call.optional(2)?)?;
        // Zero points of the second matrix belong to its columns.
        let b = call.tensor(1)?.cast(DType::I32);
        let b = match call.optional(3)? {
            Some(zero) => b - zero.cast(DType::I32),
            None => b,
        };
        one(a.matmul(&b).cast(DType::I32))
    }),
    ("MeanVarianceNormalization", |call| {
        let x = call.tensor(0)?;
        let axes = call.ints("axes")?.map_or_else(|| vec![0, 2, 3], <[i64]>::to_vec);
        let centred = x - x.mean_keepdim(&axes);
        one(&centred / (x.var(&axes, 0, true).sqrt() + 1e-9))
    }),
    ("NegativeLogLikelihoodLoss", |call| one(call.tensor(0)?.nll_loss(call.tensor(1)?, &classes(call)?))),
    ("RMSNormalization", rms_norm),
    ("SoftmaxCrossEntropyLoss", |call| {
        let loss = call.tensor(0)?.cross_entropy(call.tensor(1)?, &classes(call)?);
        if call.wants(1) { all([loss, call.tensor(0)?.log_softmax(1)]) } else { one(loss) }
    }),
];

fn gemm(call: &Call<'_>) -> Done {
    let [a, b] = [("transA", 0), ("transB", 1)].map(|(name, number)| -> Result<Tensor, Failure> {
        let x = call.tensor(number)?;
        Ok(if call.flag(name)? { x.t() } else { x.clone() })
    });
    let (a, b) = (a?, b?);
    let dtype = a.dtype()?;
    let scaled = |x: Tensor, name: &str| -> Result<Tensor, Failure> {
        let factor = call.float_or(name, 1.0)?;
        Ok(if factor == 1.0 { x } else { x * factor })
    };
    let product = scaled(a.matmul(&b), "alpha")?;
    one(match call.optional(2)? {
        Some(c) => (product + scaled(c.clone(), "beta")?).cast(dtype),
        None => product.cast(dtype),
    })
}

fn batch_norm(call: &Call<'_>) -> Done {
    let x = call.tensor(0)?;
    let (scale, bias, mean, variance) = (call.tensor(1)?, call.tensor(2)?, call.tensor(3)?, call.tensor(4)?);
    let eps = call.float_or("epsilon", 1e-5)?;
    if !call.flag("training_mode")? {
        return one(x.batch_norm(Some(scale), Some(bias), mean, variance, eps));
    }
    let momentum = call.float_or("momentum", 0.9)?;
    let axes: Vec<i64> = (0..x.rank()? as i64).filter(|&axis| axis != 1).collect();
    let (own_mean, own_variance) = (x.mean(&axes), x.var(&axes, 0, false));
    let result = x.batch_norm(Some(scale), Some(bias), &own_mean, &own_variance, eps);
    let running = |old: &Tensor, new: &Tensor| old * momentum + new * (1.0 - momentum);
    all([result, running(mean, &own_mean), running(variance, &own_variance)])
}

fn group_norm(call: &Call<'_>) -> Done {
    let (x, scale, bias) = (call.tensor(0)?, call.tensor(1)?, call.tensor(2)?);
    let Some(groups) = call.int("num_groups")?.filter(|&groups| groups > 0) else {
        wrong!("attribute 'num_groups' is missing: it must be 1 or more");
    };
    let channels = lengths_from(call.tensor(0)?, 1)?.first().copied().unwrap_or(0);
    // Before version 21 there is a weight for each group.
    let each = |weight: &Tensor| -> Result<Tensor, Failure> {
        let count = weight.numel()? as i64;
        Ok(if count == groups && count != channels {
            weight.repeat_interleave(channels / groups, Some(0))
        } else {
            weight.clone()
        })
    };
    one(x.group_norm(groups, Some(&each(scale)?), Some(&each(bias)?), call.float_or("epsilon", 1e-5)?))
}

/// The axes from the attribute's on, x in the type that statistics are computed in, and the attribute's axis.
fn from_axis(call: &Call<'_>) -> Result<(Vec<i64>, Tensor), Failure> {
    let x = call.tensor(0)?;
    let rank = x.rank()?;
    let axis = resolve(call.int_or("axis", -1)?, rank)?;
    let stash = call.dtype_or("stash_type", DType::F32)?;
    Ok(((axis as i64..rank as i64).collect(), x.cast(stash)))
}

fn layer_norm(call: &Call<'_>) -> Done {
    let (axes, x) = from_axis(call)?;
    let dtype = call.tensor(0)?.dtype()?;
    let mean = x.mean_keepdim(&axes);
    let centred = &x - &mean;
    let inverse = (centred.square().mean_keepdim(&axes) + call.float_or("epsilon", 1e-5)?).rsqrt();
    let normalised = (&centred * &inverse).cast(dtype) * call.tensor(1)?;
    let result = match call.optional(2)? {
        Some(bias) => normalised + bias,
        None => normalised,
    };
    all([result, mean, inverse].into_iter().take(call.node.outputs.len().max(1)))
}

fn rms_norm(call: &Call<'_>) -> Done {
    let (axes, x) = from_axis(call)?;
    let inverse = (x.square().mean_keepdim(&axes) + call.float_or("epsilon", 1e-5)?).rsqrt();
    one((&x * inverse).cast(call.tensor(0)?.dtype()?) * call.tensor(1)?)
}

fn local_response(call: &Call<'_>) -> Done {
    let (x, lengths) = (call.tensor(0)?, call.lengths(0)?);
    let Some(size) = call.int("size")?.filter(|&size| size > 0 && lengths.len() > 1) else {
        wrong!("attribute 'size' is missing: it must be 1 or more, and x have channels");
    };
    let (alpha, beta, bias) =
        (call.float_or("alpha", 1e-4)?, call.float_or("beta", 0.75)?, call.float_or("bias", 1.0)?);
    let mut padding = vec![(0i64, 0i64); lengths.len()];
    padding[1] = ((size - 1) / 2, size - 1 - (size - 1) / 2);
    let squares = x.square().pad(&padding).unfold(1, size, 1i64).sum(-1);
    one(x / (squares * (alpha / size as f64) + bias).pow(beta))
}

fn dropout(call: &Call<'_>) -> Done {
    let x = call.array(0)?;
    let trains = call.has(2) && call.integer(2)? != 0;
    let ratio = match (call.has(1), call.float_attribute("ratio")?) {
        (true, _) if trains => call.float(1)?,
        (_, ratio) => ratio.unwrap_or(0.5),
    };
    if !trains || ratio == 0.0 {
        let kept = Tensor::full_of(x.tensor.dims()?, true, DType::BOOL);
        let mask = Value::Tensor(Array::new(if call.version >= 10 { kept } else { kept.cast(x.tensor.dtype()?) })?);
        return Ok(vec![Value::Tensor(x.clone()), mask]);
    }
    let kept = Tensor::rand(x.tensor.dims()?).ge(ratio);
    all([kept.where_(&x.tensor / (1.0 - ratio), 0.0), kept])
}

fn classes(call: &Call<'_>) -> Result<ClassOptions, Failure> {
    let reduction = match &*call.text_or("reduction", "mean")? {
        "mean" => Reduction::Mean,
        "sum" => Reduction::Sum,
        "none" => Reduction::None,
        other => wrong!("attribute 'reduction' is '{other}', and must be 'mean', 'sum' or 'none'"),
    };
    let weight = call.optional(2)?.cloned();
    Ok(ClassOptions::default().weight(weight).ignore_index(call.int("ignore_index")?).reduction(reduction))
}
