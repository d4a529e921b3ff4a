//! What the names of ops and attributes in conformance cases mean in the library: one line an op.
//!
//! Functions of elements, reductions, movement and creation; the rest is `ops_layers` and `ops_more`.

use std::cell::RefCell;

use serde_json::Value;
use warpweft::tensor::{Literal, PadMode, Rounding};
use warpweft::{DType, Tensor};

use super::Stop;
use super::ops_call::{Call, Family, failed, one};
use super::ops_layers::{indexing, layers, losses, optimizers, products, windows, writes};
use super::ops_losses::{likelihoods, margins};
use super::ops_more::{factors, images, more_losses, selecting, special, vectors};

type Outputs = Result<Vec<Tensor>, Stop>;

/// The outputs of an op. They may carry errors, which is a failure, not a lack of support.
///
/// # Errors
/// If the op or one of its attributes is not known, or the op says so at once.
pub fn apply(op: &str, attributes: &Value, inputs: &[Tensor]) -> Outputs {
    let call = Call { op, attributes, inputs, used: RefCell::default() };
    let families: [fn(&Call<'_>) -> Family; 20] = [
        elementwise,
        reductions,
        movement,
        joining,
        creation,
        indexing,
        writes,
        products,
        windows,
        layers,
        losses,
        optimizers,
        factors,
        vectors,
        special,
        selecting,
        images,
        more_losses,
        margins,
        likelihoods,
    ];
    for family in families {
        if let Some(outputs) = family(&call)? {
            call.check_all_used()?;
            return Ok(outputs);
        }
    }
    Err(Stop::unsupported(format!("op {op}")))
}

// tidy: table
fn elementwise(call: &Call<'_>) -> Family {
    let Some(x) = call.inputs.first() else { return Ok(None) };
    if let Some(output) = unary(call.op, x) {
        return one(output);
    }
    if call.inputs.len() == 2
        && let Some(output) = binary(call.op, x, call.input(1)?)
    {
        return one(output);
    }
    one(match call.op {
        "gelu" => match call.text_or("approximate", "none")? {
            "none" => x.gelu(),
            "tanh" => x.gelu_tanh(),
            _ => return Err(call.wrong("approximate")),
        },
        "leaky_relu" => x.leaky_relu(call.float_or("negative_slope", 0.01)?),
        "elu" => x.elu(call.float_or("alpha", 1.0)?),
        "celu" => x.celu(call.float_or("alpha", 1.0)?),
        "hardtanh" => x.hardtanh(call.float_or("min", -1.0)?, call.float_or("max", 1.0)?),
        "isclose" => {
            let (rtol, atol) = (call.float_or("rtol", 1e-5)?, call.float_or("atol", 1e-8)?);
            x.isclose(call.input(1)?, rtol, atol, call.flag("equal_nan")?)
        }
        "nan_to_num" => {
            x.nan_to_num(call.float_or("nan", 0.0)?, call.float_option("posinf")?, call.float_option("neginf")?)
        }
        "clamp" => x.clamp(call.literal("min")?, call.literal("max")?),
        "div" => match call.text_or("rounding_mode", "")? {
            "" => x / call.input(1)?,
            "floor" => x.div_rounded(call.input(1)?, Rounding::Floor),
            "trunc" => x.div_rounded(call.input(1)?, Rounding::Trunc),
            _ => return Err(call.wrong("rounding_mode")),
        },
        "full_like" => x.full_like(call.number("value")?),
        "where_scalar" => x.where_(call.input(1)?, call.number("value")?),
        op if op.ends_with("_scalar") => {
            return Ok(with_number(op, x, call.number("value")?).map(|output| vec![output]));
        }
        "where" => x.where_(call.input(1)?, call.input(2)?),
        "lerp" => x.lerp(call.input(1)?, call.input(2)?),
        "masked_fill" => x.masked_fill(call.input(1)?, call.number("value")?),
        "cast" => x.cast(call.dtype()?.ok_or_else(|| call.wrong("dtype"))?),
        "bitcast" => x.bitcast(call.dtype()?.ok_or_else(|| call.wrong("dtype"))?),
        "contiguous" => x.contiguous(),
        "detach" => x.detach(),
        _ => return Ok(None),
    })
}

// tidy: table
fn unary(op: &str, x: &Tensor) -> Option<Tensor> {
    Some(match op {
        "neg" => -x,
        "abs" => x.abs(),
        "sign" => x.sign(),
        "exp" => x.exp(),
        "exp2" => x.exp2(),
        "expm1" => x.expm1(),
        "log" => x.log(),
        "log2" => x.log2(),
        "log10" => x.log10(),
        "log1p" => x.log1p(),
        "sqrt" => x.sqrt(),
        "rsqrt" => x.rsqrt(),
        "reciprocal" => x.reciprocal(),
        "square" => x.square(),
        "sin" => x.sin(),
        "cos" => x.cos(),
        "tan" => x.tan(),
        "asin" => x.asin(),
        "acos" => x.acos(),
        "atan" => x.atan(),
        "sinh" => x.sinh(),
        "cosh" => x.cosh(),
        "tanh" => x.tanh(),
        "asinh" => x.asinh(),
        "acosh" => x.acosh(),
        "atanh" => x.atanh(),
        "erf" => x.erf(),
        "sigmoid" => x.sigmoid(),
        "relu" => x.relu(),
        "relu6" => x.relu6(),
        "silu" | "swish" => x.silu(),
        "quick_gelu" => x.quick_gelu(),
        "mish" => x.mish(),
        "softsign" => x.softsign(),
        "hardswish" => x.hardswish(),
        "hardsigmoid" => x.hardsigmoid(),
        "logsigmoid" => x.logsigmoid(),
        "selu" => x.selu(),
        "softplus" => x.softplus(),
        "floor" => x.floor(),
        "ceil" => x.ceil(),
        "round" => x.round(),
        "trunc" => x.trunc(),
        "signbit" => x.signbit(),
        "isnan" => x.isnan(),
        "isinf" => x.isinf(),
        "isfinite" => x.isfinite(),
        "bitwise_not" => !x,
        "logical_not" => x.logical_not(),
        _ => return None,
    })
}

// tidy: table
fn binary(op: &str, x: &Tensor, y: &Tensor) -> Option<Tensor> {
    Some(match op {
        "add" => x + y,
        "sub" => x - y,
        "mul" => x * y,
        "pow" => x.pow(y),
        "mod" | "remainder" => x % y,
        "fmod" => x.fmod(y),
        "maximum" => x.maximum(y),
        "minimum" => x.minimum(y),
        "atan2" => x.atan2(y),
        "copysign" => x.copysign(y),
        "logaddexp" => x.logaddexp(y),
        "bitwise_and" => x & y,
        "bitwise_or" => x | y,
        "bitwise_xor" => x ^ y,
        "lshift" => x << y,
        "rshift" => x >> y,
        "eq" => x.eq(y),
        "ne" => x.ne(y),
        "lt" => x.lt(y),
        "le" => x.le(y),
        "gt" => x.gt(y),
        "ge" => x.ge(y),
        "logical_and" => x.logical_and(y),
        "logical_or" => x.logical_or(y),
        "logical_xor" => x.logical_xor(y),
        _ => return None,
    })
}

/// A tensor with a number.
fn with_number(op: &str, x: &Tensor, number: Literal) -> Option<Tensor> {
    Some(match op {
        "add_scalar" => x + number,
        "mul_scalar" => x * number,
        "pow_scalar" => x.pow(number),
        "maximum_scalar" => x.maximum(number),
        "minimum_scalar" => x.minimum(number),
        "eq_scalar" => x.eq(number),
        "ne_scalar" => x.ne(number),
        "lt_scalar" => x.lt(number),
        "le_scalar" => x.le(number),
        "gt_scalar" => x.gt(number),
        "ge_scalar" => x.ge(number),
        _ => return None,
    })
}

// tidy: table
fn reductions(call: &Call<'_>) -> Family {
    let Some(x) = call.inputs.first() else { return Ok(None) };
    let axes = || call.ints("axis");
    let keep = || call.flag("keepdim");
    let kept = |plain: fn(&Tensor, Vec<i64>) -> Tensor, kept: fn(&Tensor, Vec<i64>) -> Tensor| {
        Ok::<_, Stop>(if keep()? { kept(x, axes()?) } else { plain(x, axes()?) })
    };
    one(match call.op {
        "sum" => kept(|x, axes| x.sum(axes), |x, axes| x.sum_keepdim(axes))?,
        "mean" => kept(|x, axes| x.mean(axes), |x, axes| x.mean_keepdim(axes))?,
        "prod" => kept(|x, axes| x.prod(axes), |x, axes| x.prod_keepdim(axes))?,
        "max" => kept(|x, axes| x.max(axes), |x, axes| x.max_keepdim(axes))?,
        "min" => kept(|x, axes| x.min(axes), |x, axes| x.min_keepdim(axes))?,
        "any" => kept(|x, axes| x.any(axes), |x, axes| x.any_keepdim(axes))?,
        "all" => kept(|x, axes| x.all(axes), |x, axes| x.all_keepdim(axes))?,
        "logsumexp" => kept(|x, axes| x.logsumexp(axes), |x, axes| x.logsumexp_keepdim(axes))?,
        "var" => x.var(axes()?, call.int_or("correction", 1)?, keep()?),
        "std" => x.std(axes()?, call.int_or("correction", 1)?, keep()?),
        "norm" => {
            let order = match call.get("ord").and_then(Value::as_str) {
                Some("inf") => f64::INFINITY,
                Some("-inf") => f64::NEG_INFINITY,
                _ => call.float_or("ord", 2.0)?,
            };
            x.norm(order, axes()?, keep()?)
        }
        "normalize" => x.normalize(call.float_or("p", 2.0)?, call.axis()?, call.float_or("eps", 1e-12)?),
        "count_nonzero" => x.count_nonzero(axes()?),
        "diff" => x.diff(call.axis()?),
        "argmax" => x.argmax(call.axis_option()?, keep()?),
        "argmin" => x.argmin(call.axis_option()?, keep()?),
        "softmax" => x.softmax(call.axis()?),
        "log_softmax" => x.log_softmax(call.axis()?),
        "cumsum" => x.cumsum(call.axis()?),
        "cumprod" => x.cumprod(call.axis()?),
        "cummax" => x.cummax(call.axis()?),
        "cummin" => x.cummin(call.axis()?),
        "logcumsumexp" => x.logcumsumexp(call.axis()?),
        "sort" => {
            let (values, order) = x.sort(call.int_or("axis", -1)?, call.flag("descending")?).map_err(failed)?;
            return Ok(Some(vec![values, order]));
        }
        "topk" => {
            let largest = call.flag_or("largest", true)?;
            let (values, order) = x.topk(call.int("k")?, call.int_or("axis", -1)?, largest).map_err(failed)?;
            return Ok(Some(vec![values, order]));
        }
        "argsort" => x.argsort(call.int_or("axis", -1)?, call.flag("descending")?),
        _ => return Ok(None),
    })
}

// tidy: table
fn movement(call: &Call<'_>) -> Family {
    let Some(x) = call.inputs.first() else { return Ok(None) };
    one(match call.op {
        "reshape" | "view" => x.reshape(call.ints("shape")?),
        "permute" => x.permute(call.ints("order")?),
        "transpose" => x.transpose(call.int("dim0")?, call.int("dim1")?),
        "t" => x.t(),
        "movedim" => x.movedim(call.int("from")?, call.int("to")?),
        "narrow" => x.narrow(call.int("axis")?, call.int("start")?, call.int("length")?),
        "as_strided" => {
            let offset = call.get("offset").map(|_| call.int("offset")).transpose()?;
            x.as_strided(&call.ints("shape")?, &call.ints("strides")?, offset)
        }
        "flip" => x.flip(call.ints("axis")?),
        "unsqueeze" => x.unsqueeze(call.axis()?),
        "squeeze" => x.squeeze(call.ints("axis")?),
        "flatten" => x.flatten(call.int_or("start", 0)?, call.int_or("end", -1)?),
        "unflatten" => x.unflatten(call.axis()?, call.ints("sizes")?),
        "shrink" => x.shrink(&call.pairs("bounds")?),
        "expand" => x.expand(call.ints("shape")?),
        "pad" => {
            let mode = match call.text_or("mode", "constant")? {
                "constant" => PadMode::Constant(call.literal("value")?.unwrap_or(Literal::Int(0)).scalar()),
                "reflect" => PadMode::Reflect,
                "replicate" => PadMode::Replicate,
                "circular" => PadMode::Circular,
                _ => return Err(call.wrong("mode")),
            };
            if mode == PadMode::Reflect || mode == PadMode::Replicate || mode == PadMode::Circular {
                // The value means nothing in these modes.
                call.get("value");
            }
            x.pad_by(&call.pairs("padding")?, mode)
        }
        "roll" => x.roll(call.ints("shifts")?, call.ints("axis")?),
        "repeat" => x.repeat(call.ints("repeats")?),
        "repeat_interleave" => x.repeat_interleave(call.int("repeats")?, call.axis_option()?),
        "slice" => x.get(call.slices()?),
        "tril" => x.tril(call.int_or("diagonal", 0)?),
        "triu" => x.triu(call.int_or("diagonal", 0)?),
        "diagonal" => x.diagonal(call.int_or("offset", 0)?, call.int_or("dim0", 0)?, call.int_or("dim1", 1)?),
        "diag" => x.diag(call.int_or("diagonal", 0)?),
        "unfold" => x.unfold(call.axis()?, call.int("size")?, call.int("step")?),
        _ => return Ok(None),
    })
}

fn joining(call: &Call<'_>) -> Family {
    let inputs: Vec<&Tensor> = call.inputs.iter().collect();
    let Some(x) = inputs.first() else { return Ok(None) };
    match call.op {
        "cat" => one(Tensor::cat(&inputs, call.int_or("axis", 0)?)),
        "stack" => one(Tensor::stack(&inputs, call.int_or("axis", 0)?)),
        "split" => x.split(call.ints("sizes")?, call.int_or("axis", 0)?).map(Some).map_err(failed),
        "unbind" => x.unbind(call.axis()?).map(Some).map_err(failed),
        "chunk" => x.chunk(call.int("chunks")?, call.int_or("axis", 0)?).map(Some).map_err(failed),
        "meshgrid" => {
            let xy = match call.text_or("indexing", "ij")? {
                "ij" => false,
                "xy" => true,
                _ => return Err(call.wrong("indexing")),
            };
            Tensor::meshgrid(&inputs, xy).map(Some).map_err(failed)
        }
        _ => Ok(None),
    }
}

fn creation(call: &Call<'_>) -> Family {
    let dtype = call.dtype()?;
    one(match call.op {
        "arange" => {
            let (start, stop, step) = (call.number("start")?, call.number("stop")?, call.number("step")?);
            match dtype {
                Some(dtype) => Tensor::arange_of(start, stop, step, dtype),
                None => Tensor::arange(start, stop, step),
            }
        }
        "linspace" => {
            let (start, stop) = (call.float_or("start", 0.0)?, call.float_or("stop", 1.0)?);
            Tensor::linspace_of(start, stop, call.int("steps")?, dtype.unwrap_or(DType::F32))
        }
        "eye" => {
            let rows = call.int("n")?;
            Tensor::eye_of(rows, call.int_or("m", rows)?, dtype.unwrap_or(DType::F32))
        }
        "full" => {
            let (shape, value) = (call.ints("shape")?, call.number("value")?);
            Tensor::full_of(shape, value, dtype.unwrap_or(value.dtype()))
        }
        "zeros" => Tensor::zeros_of(call.ints("shape")?, dtype.unwrap_or(DType::F32)),
        "ones" => Tensor::ones_of(call.ints("shape")?, dtype.unwrap_or(DType::F32)),
        _ => return Ok(None),
    })
}
