//! What the names of ops and attributes in conformance cases mean in the library: one line an op.
//!
//! Attributes are PyTorch's or the reference's. Each must be used: an attribute that an op does not read makes the case unsupported, since a
//! result that ignores it would prove nothing.

use std::cell::RefCell;

use serde_json::Value;
use warpweft::tensor::{
    AttentionOptions, ClassOptions, ConvOptions, Index, Literal, PadMode, PoolOptions, Reduction, Resize, Rounding,
    ScatterReduce,
};
use warpweft::{DType, Tensor};

use super::Stop;

type Outputs = Result<Vec<Tensor>, Stop>;

/// The outputs of an op. They may carry errors, which is a failure, not a lack of support.
///
/// # Errors
/// If the op or one of its attributes is not known, or the op says so at once.
pub fn apply(op: &str, attributes: &Value, inputs: &[Tensor]) -> Outputs {
    let call = Call { op, attributes, inputs, used: RefCell::default() };
    let families = [elementwise, reductions, movement, joining, indexing, products, layers, creation];
    for family in families {
        if let Some(outputs) = family(&call)? {
            call.check_all_used()?;
            return Ok(outputs);
        }
    }
    Err(Stop::unsupported(format!("op {op}")))
}

/// One application, with the attributes that were read so far.
struct Call<'a> {
    op: &'a str,
    attributes: &'a Value,
    inputs: &'a [Tensor],
    used: RefCell<Vec<&'static str>>,
}

type Family = Result<Option<Vec<Tensor>>, Stop>;

fn one(output: Tensor) -> Family {
    Ok(Some(vec![output]))
}

fn failed(error: warpweft::Error) -> Stop {
    Stop::failed(error.to_string())
}

impl Call<'_> {
    fn input(&self, k: usize) -> Result<&Tensor, Stop> {
        self.inputs.get(k).ok_or_else(|| Stop::unsupported(format!("{} with {} inputs", self.op, self.inputs.len())))
    }

    /// An attribute; absent and null are the same.
    fn get(&self, name: &'static str) -> Option<&Value> {
        self.used.borrow_mut().push(name);
        self.attributes.get(name).filter(|value| !value.is_null())
    }

    fn check_all_used(&self) -> Result<(), Stop> {
        let used = self.used.borrow();
        let unknown =
            self.attributes.as_object().into_iter().flatten().find(|(name, _)| !used.iter().any(|known| known == name));
        match unknown {
            Some((name, _)) => Err(Stop::unsupported(format!("attribute {name} of {}", self.op))),
            None => Ok(()),
        }
    }

    fn wrong(&self, name: &str) -> Stop {
        Stop::unsupported(format!("attribute {name} of {} is {}", self.op, self.attributes[name]))
    }

    fn int(&self, name: &'static str) -> Result<i64, Stop> {
        self.get(name).and_then(Value::as_i64).ok_or_else(|| self.wrong(name))
    }

    fn int_or(&self, name: &'static str, default: i64) -> Result<i64, Stop> {
        self.get(name).map_or(Ok(default), |value| value.as_i64().ok_or_else(|| self.wrong(name)))
    }

    fn float_or(&self, name: &'static str, default: f64) -> Result<f64, Stop> {
        self.get(name).map_or(Ok(default), |value| value.as_f64().ok_or_else(|| self.wrong(name)))
    }

    fn flag(&self, name: &'static str) -> Result<bool, Stop> {
        self.flag_or(name, false)
    }

    fn flag_or(&self, name: &'static str, default: bool) -> Result<bool, Stop> {
        self.get(name).map_or(Ok(default), |value| value.as_bool().ok_or_else(|| self.wrong(name)))
    }

    fn text_or<'a>(&'a self, name: &'static str, default: &'a str) -> Result<&'a str, Stop> {
        self.get(name).map_or(Ok(default), |value| value.as_str().ok_or_else(|| self.wrong(name)))
    }

    /// An integer or a list of them; nothing when absent.
    fn ints(&self, name: &'static str) -> Result<Vec<i64>, Stop> {
        match self.get(name) {
            None => Ok(Vec::new()),
            Some(Value::Array(list)) => {
                list.iter().map(|value| value.as_i64().ok_or_else(|| self.wrong(name))).collect()
            }
            Some(value) => value.as_i64().map(|value| vec![value]).ok_or_else(|| self.wrong(name)),
        }
    }

    fn ints_or(&self, name: &'static str, default: i64) -> Result<Vec<i64>, Stop> {
        let list = self.ints(name)?;
        Ok(if list.is_empty() { vec![default] } else { list })
    }

    fn pairs(&self, name: &'static str) -> Result<Vec<(i64, i64)>, Stop> {
        let list = self.get(name).and_then(Value::as_array).ok_or_else(|| self.wrong(name))?;
        let pair = |value: &Value| Some((value.get(0)?.as_i64()?, value.get(1)?.as_i64()?));
        list.iter().map(|value| pair(value).ok_or_else(|| self.wrong(name))).collect()
    }

    fn literal(&self, name: &'static str) -> Result<Option<Literal>, Stop> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::Bool(value)) => Ok(Some(Literal::Bool(*value))),
            Some(value) => match (value.as_i64(), value.as_f64()) {
                (Some(value), _) => Ok(Some(Literal::Int(value))),
                (None, Some(value)) => Ok(Some(Literal::Float(value))),
                (None, None) => Err(self.wrong(name)),
            },
        }
    }

    fn number(&self, name: &'static str) -> Result<Literal, Stop> {
        self.literal(name)?.ok_or_else(|| self.wrong(name))
    }

    fn dtype(&self) -> Result<Option<DType>, Stop> {
        match self.get("dtype") {
            None => Ok(None),
            Some(value) => value.as_str().and_then(DType::from_name).map(Some).ok_or_else(|| self.wrong("dtype")),
        }
    }

    fn axis(&self) -> Result<i64, Stop> {
        self.int("axis")
    }

    fn axis_option(&self) -> Result<Option<i64>, Stop> {
        self.get("axis").map(|value| value.as_i64().ok_or_else(|| self.wrong("axis"))).transpose()
    }

    /// Per axis `[start, stop, step]` or an integer.
    fn slices(&self) -> Result<Vec<Index>, Stop> {
        let list = self.get("slices").and_then(Value::as_array).ok_or_else(|| self.wrong("slices"))?;
        let entry = |value: &Value| match value {
            Value::Array(parts) if parts.len() == 3 => Some(Index::Range {
                start: parts[0].as_i64(),
                stop: parts[1].as_i64(),
                step: if parts[2].is_null() { 1 } else { parts[2].as_i64()? },
            }),
            value => value.as_i64().map(Index::At),
        };
        list.iter().map(|value| entry(value).ok_or_else(|| self.wrong("slices"))).collect()
    }

    fn reduction(&self) -> Result<Reduction, Stop> {
        Reduction::from_name(self.text_or("reduction", "mean")?).ok_or_else(|| self.wrong("reduction"))
    }
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
        "clamp" => x.clamp(call.literal("min")?, call.literal("max")?),
        "div" => match call.text_or("rounding_mode", "")? {
            "" => x / call.input(1)?,
            "floor" => x.div_rounded(call.input(1)?, Rounding::Floor),
            "trunc" => x.div_rounded(call.input(1)?, Rounding::Trunc),
            _ => return Err(call.wrong("rounding_mode")),
        },
        "add_scalar" => x + call.number("value")?,
        "mul_scalar" => x * call.number("value")?,
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
        "hardtanh" => x.hardtanh(-1.0, 1.0),
        "logsigmoid" => x.logsigmoid(),
        "selu" => x.selu(),
        "softplus" => x.softplus(),
        "floor" => x.floor(),
        "ceil" => x.ceil(),
        "round" => x.round(),
        "trunc" => x.trunc(),
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
        "norm" => x.norm(call.float_or("ord", 2.0)?, axes()?, keep()?),
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

fn indexing(call: &Call<'_>) -> Family {
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

fn products(call: &Call<'_>) -> Family {
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
    Ok(ConvOptions {
        stride: call.ints_or("stride", 1)?,
        padding: call.ints_or("padding", 0)?,
        dilation: call.ints_or("dilation", 1)?,
        groups: call.int_or("groups", 1)?,
        output_padding: call.ints_or("output_padding", 0)?,
    })
}

fn pool_options(call: &Call<'_>) -> Result<PoolOptions, Stop> {
    Ok(PoolOptions {
        kernel: call.ints("kernel")?,
        stride: call.ints("stride")?,
        padding: call.ints_or("padding", 0)?,
        dilation: call.ints_or("dilation", 1)?,
        ceil_mode: call.flag("ceil_mode")?,
        count_include_pad: call.flag_or("count_include_pad", true)?,
    })
}

// tidy: table
fn layers(call: &Call<'_>) -> Family {
    let Some(x) = call.inputs.first() else { return Ok(None) };
    let (second, third) = (call.inputs.get(1), call.inputs.get(2));
    one(match call.op {
        "conv" => x.conv(call.input(1)?, third, &conv_options(call)?),
        "conv_transpose" => x.conv_transpose(call.input(1)?, third, &conv_options(call)?),
        "max_pool2d" => x.max_pool(&pool_options(call)?),
        "avg_pool2d" => x.avg_pool(&pool_options(call)?),
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
        "scaled_dot_product_attention" => {
            let mask = call.inputs.get(3).map(|mask| mask.uop().map_err(failed)).transpose()?;
            let scale = call.get("scale").and_then(Value::as_f64);
            let (is_causal, enable_gqa) = (call.flag("is_causal")?, call.flag("enable_gqa")?);
            x.attention(call.input(1)?, call.input(2)?, &AttentionOptions { mask, is_causal, scale, enable_gqa })
        }
        "cross_entropy" | "nll_loss" => {
            let options = ClassOptions {
                weight: third.map(|weight| weight.uop().map_err(failed)).transpose()?,
                ignore_index: call.get("ignore_index").and_then(Value::as_i64),
                label_smoothing: call.float_or("label_smoothing", 0.0)?,
                reduction: call.reduction()?,
            };
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
