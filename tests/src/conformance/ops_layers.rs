//! What the names of ops in conformance cases mean in the library: indexing, writes, products, layers, losses and optimizers.

use serde_json::Value;
use warpweft::Tensor;
use warpweft::nn::{Adam, Optimizer, Sgd};
use warpweft::tensor::{AttentionOptions, ClassOptions, ConvOptions, PoolOptions, Resize, ScatterReduce};

use super::Stop;
use super::ops_call::{Call, Family, failed, one};

pub(super) fn indexing(call: &Call<'_>) -> Family {
    let Some(x) = call.inputs.first() else { return Ok(None) };
    one(match call.op {
        "index_select" => x.index_select(call.axis()?, call.input(1)?),
        "gather" => x.gather(call.input(1)?, call.axis()?),
        "embedding" => call.input(1)?.embedding(x),
        "one_hot" => x.one_hot(call.int("num_classes")?),
        "index" => x.index(&call.ints("axes")?, &call.inputs[1..].iter().collect::<Vec<_>>()),
        "scatter" => x.scatter(call.axis()?, call.input(1)?, call.input(2)?),
        "scatter_reduce" => {
            let reduce = match call.text_or("reduce", "sum")? {
                "add" | "sum" => ScatterReduce::Sum,
                "multiply" | "prod" => ScatterReduce::Prod,
                "mean" => ScatterReduce::Mean,
                "amax" => ScatterReduce::Amax,
                "amin" => ScatterReduce::Amin,
                _ => return Err(call.wrong("reduce")),
            };
            let include_self = call.flag_or("include_self", true)?;
            x.scatter_reduce(call.axis()?, call.input(1)?, call.input(2)?, reduce, include_self)
        }
        "setitem" => x.with(call.slices()?, call.input(1)?),
        _ => return Ok(None),
    })
}

/// Ops that write to their first input: to a copy of it, so that the input keeps the value that a gradient is asked by.
pub(super) fn writes(call: &Call<'_>) -> Family {
    let (Some(x), Some(value)) = (call.inputs.first(), call.inputs.get(1)) else { return Ok(None) };
    let copy = x.contiguous();
    let written = match call.op {
        "slice_assign" => copy.slice_assign(call.slices()?, value),
        "index_assign" => copy.index_assign(&call.ints("axes")?, &call.inputs[2..].iter().collect::<Vec<_>>(), value),
        "add_assign" => copy.add_assign(value),
        "sub_assign" => copy.sub_assign(value),
        "mul_assign" => copy.mul_assign(value),
        "div_assign" => copy.div_assign(value),
        _ => return Ok(None),
    };
    written.map_err(failed)?;
    one(copy)
}

pub(super) fn products(call: &Call<'_>) -> Family {
    let Some(x) = call.inputs.first() else { return Ok(None) };
    one(match call.op {
        "matmul" => x.matmul(call.input(1)?),
        "dot" => x.dot(call.input(1)?),
        "outer" => x.outer(call.input(1)?),
        "linear" => x.linear(call.input(1)?, call.inputs.get(2)),
        "einsum" => Tensor::einsum(call.text_or("equation", "")?, &call.inputs.iter().collect::<Vec<_>>()),
        _ => return Ok(None),
    })
}

fn conv_options(call: &Call<'_>) -> Result<ConvOptions, Stop> {
    Ok(ConvOptions::default()
        .stride(call.ints_or("stride", 1)?)
        .padding(call.ints_or("padding", 0)?)
        .dilation(call.ints_or("dilation", 1)?)
        .groups(call.int_or("groups", 1)?)
        .output_padding(call.ints_or("output_padding", 0)?))
}

fn pool_options(call: &Call<'_>) -> Result<PoolOptions, Stop> {
    let mut kernel = call.ints("kernel")?;
    if call.op.ends_with("2d") && kernel.len() == 1 {
        kernel = vec![kernel[0]; 2];
    }
    Ok(PoolOptions::default()
        .kernel(kernel)
        .stride(call.ints("stride")?)
        .padding(call.ints_or("padding", 0)?)
        .dilation(call.ints_or("dilation", 1)?)
        .ceil_mode(call.flag("ceil_mode")?)
        .count_include_pad(call.flag_or("count_include_pad", true)?))
}

pub(super) fn windows(call: &Call<'_>) -> Family {
    let Some(x) = call.inputs.first() else { return Ok(None) };
    let bias = call.inputs.get(2);
    one(match call.op {
        "conv" => x.conv(call.input(1)?, bias, &conv_options(call)?),
        "conv_transpose" => x.conv_transpose(call.input(1)?, bias, &conv_options(call)?),
        "max_pool" | "max_pool2d" => x.max_pool(&pool_options(call)?),
        "max_pool_indices" => x.max_pool_indices(&pool_options(call)?),
        "avg_pool" | "avg_pool2d" => x.avg_pool(&pool_options(call)?),
        "interpolate" => {
            let align_corners = call.flag("align_corners")?;
            let mode = match call.text_or("mode", "nearest")? {
                "nearest" => Resize::Nearest,
                "nearest-exact" => Resize::NearestExact,
                "linear" | "bilinear" | "trilinear" => Resize::Linear { align_corners },
                _ => return Err(call.wrong("mode")),
            };
            x.interpolate(&call.ints("size")?, mode)
        }
        _ => return Ok(None),
    })
}

// tidy: table
pub(super) fn layers(call: &Call<'_>) -> Family {
    let Some(x) = call.inputs.first() else { return Ok(None) };
    let (second, third) = (call.inputs.get(1), call.inputs.get(2));
    one(match call.op {
        "layer_norm" => x.layer_norm(&call.ints("normalized_shape")?, second, third, call.float_or("eps", 1e-5)?),
        "rms_norm" => x.rms_norm(second, call.float_or("eps", 1e-6)?),
        "group_norm" => x.group_norm(call.int("num_groups")?, second, third, call.float_or("eps", 1e-5)?),
        "batch_norm" => {
            let eps = call.float_or("eps", 1e-5)?;
            if call.flag("training")? {
                x.batch_norm_training(second, third, eps).map_err(failed)?.0
            } else {
                x.batch_norm(second, third, call.input(3)?, call.input(4)?, eps)
            }
        }
        "batch_norm_training" => {
            let eps = call.float_or("eps", 1e-5)?;
            let (output, mean, variance) = x.batch_norm_training(second, third, eps).map_err(failed)?;
            return Ok(Some(vec![output, mean, variance]));
        }
        "scaled_dot_product_attention" => {
            let mask = call.inputs.get(3).cloned();
            let scale = call.get("scale").and_then(Value::as_f64);
            let (is_causal, enable_gqa) = (call.flag("is_causal")?, call.flag("enable_gqa")?);
            x.attention(
                call.input(1)?,
                call.input(2)?,
                &AttentionOptions::default().mask(mask).is_causal(is_causal).scale(scale).enable_gqa(enable_gqa),
            )
        }
        _ => return Ok(None),
    })
}

pub(super) fn losses(call: &Call<'_>) -> Family {
    let Some(x) = call.inputs.first() else { return Ok(None) };
    one(match call.op {
        "cross_entropy" | "nll_loss" => {
            let options = ClassOptions::default()
                .weight(call.inputs.get(2).cloned())
                .ignore_index(call.get("ignore_index").and_then(Value::as_i64))
                .label_smoothing(call.float_or("label_smoothing", 0.0)?)
                .reduction(call.reduction()?);
            if call.op == "nll_loss" {
                x.nll_loss(call.input(1)?, &options)
            } else {
                x.cross_entropy(call.input(1)?, &options)
            }
        }
        "mse_loss" => x.mse_loss(call.input(1)?, call.reduction()?),
        "l1_loss" => x.l1_loss(call.input(1)?, call.reduction()?),
        "huber_loss" => x.huber_loss(call.input(1)?, call.float_or("delta", 1.0)?, call.reduction()?),
        "binary_cross_entropy" => x.binary_cross_entropy(call.input(1)?, call.reduction()?),
        "binary_cross_entropy_with_logits" => x.binary_cross_entropy_with_logits(call.input(1)?, call.reduction()?),
        _ => return Ok(None),
    })
}

/// Steps of an optimizer: the inputs are a parameter and one gradient a step, the output is the parameter after the last.
pub(super) fn optimizers(call: &Call<'_>) -> Family {
    let Some((x, gradients)) = call.inputs.split_first() else { return Ok(None) };
    let parameter = x.contiguous();
    let decay = call.float_or("weight_decay", 0.0)?;
    let mut optimizer: Box<dyn Optimizer> = match call.op {
        "sgd" => {
            let (rate, momentum) = (call.float_or("lr", 0.001)?, call.float_or("momentum", 0.0)?);
            let dampening = call.float_or("dampening", 0.0)?;
            let mut made = Sgd::new(vec![parameter.clone()], rate, momentum, decay).map_err(failed)?;
            if dampening > 0.0 {
                made = made.dampening(dampening).map_err(failed)?;
            }
            Box::new(if call.flag("nesterov")? { made.nesterov().map_err(failed)? } else { made })
        }
        "adamw" => {
            let betas = (call.float_or("beta1", 0.9)?, call.float_or("beta2", 0.999)?);
            let (rate, eps) = (call.float_or("lr", 0.001)?, call.float_or("eps", 1e-8)?);
            Box::new(Adam::with(vec![parameter.clone()], rate, betas, eps, decay).map_err(failed)?)
        }
        _ => return Ok(None),
    };
    for gradient in gradients {
        let changed = optimizer.update(std::slice::from_ref(gradient)).map_err(failed)?;
        Tensor::realize_all(&changed.iter().collect::<Vec<_>>()).map_err(failed)?;
    }
    one(parameter)
}
