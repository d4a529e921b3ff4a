//! Attention of all kinds: scaled dot products with caches, masks and windows; linear attention; rotary positions.

use super::super::call::{Call, Done, all, lengths, one};
use super::super::error::{Failure, wrong};
use super::super::value::{Array, Value};
use super::Op;
use crate::DType;
use crate::tensor::{AttentionOptions, Tensor};

// tidy: table
pub(super) const OPS: &[(&str, Op)] =
    &[("Attention", attention), ("LinearAttention", linear_attention), ("RotaryEmbedding", rotary)];

// tidy: table
pub(super) const PREVIEW: &[(&str, Op)] = &[("FlexAttention", flexible)];

/// [batch, heads, length, width] of a tensor that has its heads in the last axis; one with 4 axes as it is.
fn by_heads(call: &Call<'_>, number: usize, heads: &str) -> Result<Tensor, Failure> {
    let x = call.tensor(number)?;
    match call.lengths(number)?[..] {
        [_, _, _, _] => Ok(x.clone()),
        [batch, length, width] => match call.int(heads)? {
            Some(heads) if heads > 0 && width % heads == 0 => {
                Ok(x.reshape([batch, length, heads, width / heads]).permute([0, 2, 1, 3]))
            }
            other => wrong!("attribute '{heads}' is {other:?}, and must divide the {width} elements of input {number}"),
        },
        ref other => wrong!("input {number} has shape {other:?}, and must have 3 or 4 axes"),
    }
}

/// Heads repeated so that there is one for each of as many queries' heads.
fn shared(x: &Tensor, heads: i64) -> Result<Tensor, Failure> {
    let own = lengths(x)?.get(1).copied().unwrap_or(0);
    if own < 1 || heads % own != 0 {
        wrong!("{heads} heads of queries are no multiple of {own} heads of keys");
    }
    Ok(if own == heads { x.clone() } else { x.repeat_interleave(heads / own, Some(1)) })
}

/// What attention is computed of.
struct Parts {
    q: Tensor,
    k: Tensor,
    v: Tensor,
    /// As they go into the cache.
    present: (Tensor, Tensor),
    /// Keys that came before the first query, where that is a number.
    past: i64,
}

impl Parts {
    fn of(call: &Call<'_>) -> Result<Parts, Failure> {
        let q = by_heads(call, 0, "q_num_heads")?;
        let (mut k, mut v) = (by_heads(call, 1, "kv_num_heads")?, by_heads(call, 2, "kv_num_heads")?);
        let mut past = 0;
        if let (Some(keys), Some(values)) = (call.optional(4)?, call.optional(5)?) {
            past = *lengths(keys)?.get(2).unwrap_or(&0);
            (k, v) = (Tensor::cat(&[keys, &k], 2), Tensor::cat(&[values, &v], 2));
        }
        let heads = lengths(&q)?[1];
        Ok(Parts { present: (k.clone(), v.clone()), k: shared(&k, heads)?, v: shared(&v, heads)?, q, past })
    }
}

fn attention(call: &Call<'_>) -> Done {
    let parts = Parts::of(call)?;
    let (result, scores) = if is_plain(call) { (plain(call, &parts)?, None) } else { explicit(call, &parts)? };
    let [batch, heads, length, width] = lengths(&result)?[..] else { wrong!("the queries must have 4 axes") };
    let result = match call.rank(0)? {
        3 => result.permute([0, 2, 1, 3]).reshape([batch, length, heads * width]),
        _ => result,
    };
    let (keys, values) = parts.present;
    let scores = scores.unwrap_or_else(|| result.clone());
    all([result, keys, values, scores].into_iter().take(call.node.outputs.len().max(1)))
}

/// Whether it is what the library's attention computes, which needs no scores of all keys at once.
fn is_plain(call: &Call<'_>) -> bool {
    let is_set = |name: &str| !matches!(call.float_attribute(name), Ok(None | Some(0.0)));
    let has_window =
        ["left_window_size", "right_window_size"].iter().any(|name| !matches!(call.int(name), Ok(None | Some(-1))));
    let masked = call.has(3) || call.has(6);
    !masked
        && !call.has(4)
        && !call.wants(3)
        && !has_window
        && !is_set("softcap")
        && !matches!(call.int("softmax_precision"), Ok(Some(_)))
}

fn plain(call: &Call<'_>, parts: &Parts) -> Result<Tensor, Failure> {
    let options = AttentionOptions::default().is_causal(call.flag("is_causal")?).scale(call.float_attribute("scale")?);
    Ok(parts.q.attention(&parts.k, &parts.v, &options))
}

/// Which keys a query may see, and what is added to its scores.
fn hidden(call: &Call<'_>, parts: &Parts, scores: &Tensor) -> Result<Tensor, Failure> {
    let [batch, _, queries, keys] = lengths(scores)?[..] else { wrong!("the scores must have 4 axes") };
    let low = f64::NEG_INFINITY;
    let mut scores = scores.clone();
    if let Some(mask) = call.optional(3)? {
        let given = lengths(mask)?;
        let short = keys - given.last().copied().unwrap_or(keys);
        let mut padding = vec![(0i64, 0i64); given.len()];
        let is_bool = mask.dtype()?.is_bool();
        let mask = match padding.last_mut() {
            // What the mask does not reach is not seen.
            Some(last) if short > 0 && given.last() != Some(&1) => {
                *last = (0, short);
                if is_bool { mask.pad(&padding) } else { mask.pad_with(&padding, low) }
            }
            _ => mask.clone(),
        };
        scores = if is_bool { mask.where_(&scores, low) } else { scores + mask.cast(parts.q.dtype()?) };
    }
    let key = Tensor::iota(keys).reshape([1, 1, 1, keys]);
    let mut position = Tensor::iota(queries).reshape([1, 1, queries, 1]) + parts.past;
    if let Some(counts) = call.optional(6)? {
        let counts = counts.cast(DType::I32).reshape([batch, 1, 1, 1]);
        scores = key.lt(&counts).where_(&scores, low);
        position = Tensor::iota(queries).reshape([1, 1, queries, 1]) + (counts - queries);
    }
    if call.flag("is_causal")? {
        scores = key.le(&position).where_(&scores, low);
    }
    let (left, right) = (call.int_or("left_window_size", -1)?, call.int_or("right_window_size", -1)?);
    if left >= 0 {
        scores = key.ge(&position - left).where_(&scores, low);
    }
    if right >= 0 {
        scores = key.le(&position + right).where_(&scores, low);
    }
    Ok(scores)
}

/// Step by step, with the scores of one of the steps.
fn explicit(call: &Call<'_>, parts: &Parts) -> Result<(Tensor, Option<Tensor>), Failure> {
    let width = *lengths(&parts.q)?.last().unwrap_or(&1);
    let scale = call.float_or("scale", 1.0 / (width as f64).sqrt())?;
    let root = scale.sqrt();
    let raw = (&parts.q * root).matmul(&(&parts.k * root).transpose(-2, -1));
    let cap = call.float_or("softcap", 0.0)?;
    let capped = if cap == 0.0 { raw.clone() } else { (&raw / cap).tanh() * cap };
    let masked = hidden(call, parts, &capped)?;
    let dtype = raw.dtype()?;
    let precise = masked.cast(call.dtype_or("softmax_precision", dtype)?);
    let weights = softmax_or_zero(&precise).cast(dtype);
    let result = weights.matmul(&parts.v).cast(dtype);
    let scores = match call.int_or("qk_matmul_output_mode", 0)? {
        0 => raw,
        1 => capped,
        2 => masked,
        3 => weights,
        other => wrong!("attribute 'qk_matmul_output_mode' is {other}, and must lie from 0 to 3"),
    };
    Ok((result, Some(scores)))
}

/// Softmax of the last axis; zeros where all scores are minus infinity.
fn softmax_or_zero(scores: &Tensor) -> Tensor {
    let nothing = scores.max_keepdim(-1).eq(f64::NEG_INFINITY);
    nothing.where_(0.0, nothing.where_(0.0, scores).softmax(-1))
}

fn flexible(call: &Call<'_>) -> Done {
    let parts = Parts { past: 0, ..Parts::of_three(call)? };
    let dtype = parts.q.dtype()?;
    let wide = call.dtype_or("softmax_precision", if dtype == DType::F64 { DType::F64 } else { DType::F32 })?;
    let width = *lengths(&parts.q)?.last().unwrap_or(&1);
    let scale = call.float_or("scale", 1.0 / (width as f64).sqrt())?;
    let changed = |name: &str, x: Tensor| -> Result<Tensor, Failure> {
        let Some(graph) = call.graph_if(name)? else { return Ok(x) };
        match call.run(graph, vec![Value::Tensor(Array::new(x)?)])?.into_iter().next() {
            Some(Value::Tensor(array)) => Ok(array.tensor),
            _ => wrong!("the graph '{name}' gives no tensor"),
        }
    };
    let (q, k, v) = (parts.q.cast(wide), parts.k.cast(wide), parts.v.cast(wide));
    let scores = changed("score_mod", q.matmul(&k.transpose(-2, -1)) * scale)?;
    let weights = changed("prob_mod", scores.softmax(-1))?;
    one(weights.matmul(&v).cast(dtype))
}

impl Parts {
    /// Of queries, keys and values with 4 axes alone.
    fn of_three(call: &Call<'_>) -> Result<Parts, Failure> {
        let [q, k, v] = [0, 1, 2].map(|number| call.tensor(number).cloned());
        let (q, k, v) = (q?, k?, v?);
        let heads = lengths(&q)?.get(1).copied().unwrap_or(1);
        Ok(Parts { present: (k.clone(), v.clone()), k: shared(&k, heads)?, v: shared(&v, heads)?, q, past: 0 })
    }
}

/// A state for each head that each position changes and reads.
fn linear_attention(call: &Call<'_>) -> Done {
    let rule = call.text_or("update_rule", "gated_delta")?;
    let (gated, delta) = match &*rule {
        "linear" => (false, false),
        "gated" => (true, false),
        "delta" => (false, true),
        "gated_delta" => (true, true),
        other => {
            wrong!("attribute 'update_rule' is '{other}', and must be 'linear', 'gated', 'delta' or 'gated_delta'")
        }
    };
    let dtype = call.tensor(0)?.dtype()?;
    let wide = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
    let part = |number: usize, heads: &str| by_heads(call, number, heads).map(|x| x.cast(wide));
    let (q, k, v) = (part(0, "q_num_heads")?, part(1, "kv_num_heads")?, part(2, "kv_num_heads")?);
    let ([batch, heads, steps, width], [_, own, ..]) = (&lengths(&q)?[..], &lengths(&k)?[..]) else {
        wrong!("the queries and keys must have 3 axes");
    };
    let (batch, heads, steps, width, own) = (*batch, *heads, *steps, *width, *own);
    let value_width = *lengths(&v)?.last().unwrap_or(&1);
    let scale = match call.float_or("scale", 0.0)? {
        0.0 => 1.0 / (width as f64).sqrt(),
        scale => scale,
    };
    // One number a head stands for the whole of a key.
    let gates = |number: usize| -> Result<Tensor, Failure> {
        let given = call.lengths(number)?;
        let last = given.last().copied().unwrap_or(1);
        let heads = if last == 1 { 1 } else { own };
        Ok(call.tensor(number)?.cast(wide).reshape([batch, steps, heads, last / heads]).permute([0, 2, 1, 3]))
    };
    let decay = if gated { Some(gates(4)?.exp()) } else { None };
    let rate = if delta { Some(gates(5)?) } else { None };
    let mut state = match call.optional(3)? {
        Some(state) => state.cast(wide),
        None => Tensor::zeros_of([batch, own, width, value_width], wide),
    };
    let mut outputs = Vec::new();
    for step in 0..steps {
        let at = |x: &Tensor| x.narrow(2, step, 1i64);
        if let Some(decay) = &decay {
            state = state * at(decay).transpose(-2, -1);
        }
        let mut change = at(&v);
        if let Some(rate) = &rate {
            change = (change - at(&k).matmul(&state)) * at(rate);
        }
        state = state + at(&k).transpose(-2, -1).matmul(&change);
        outputs.push(at(&q).matmul(&shared(&state, heads)?) * scale);
    }
    let result = Tensor::cat(&outputs.iter().collect::<Vec<_>>(), 2);
    let result = result.permute([0, 2, 1, 3]).reshape([batch, steps, heads * value_width]).cast(dtype);
    let kept = match call.optional(3)? {
        Some(given) => state.cast(given.dtype()?),
        None => state.cast(dtype),
    };
    all([result, kept])
}

/// Pairs of elements turned by the angles of their positions.
fn rotary(call: &Call<'_>) -> Done {
    let given = call.lengths(0)?;
    // [batch, length, heads, width]
    let x = match given[..] {
        [_, _, _, _] => call.tensor(0)?.permute([0, 2, 1, 3]),
        [batch, length, width] => match call.int("num_heads")? {
            Some(heads) if heads > 0 && width % heads == 0 => {
                call.tensor(0)?.reshape([batch, length, heads, width / heads])
            }
            other => wrong!("attribute 'num_heads' is {other:?}, and must divide {width}"),
        },
        ref other => wrong!("the input has shape {other:?}, and must have 3 or 4 axes"),
    };
    let width = *lengths(&x)?.last().unwrap_or(&0);
    let turned = match call.int_or("rotary_embedding_dim", 0)? {
        0 => width,
        part if (0..=width).contains(&part) && part % 2 == 0 => part,
        part => wrong!("attribute 'rotary_embedding_dim' is {part}, and must be even and at most {width}"),
    };
    let half = turned / 2;
    let table = |number: usize| -> Result<Tensor, Failure> {
        let table = call.tensor(number)?;
        let rows = match call.optional(3)? {
            Some(positions) => table.index(&[0], &[positions]),
            None => table.clone(),
        };
        Ok(rows.unsqueeze(2))
    };
    let (cos, sin) = (table(1)?, table(2)?);
    let (first, rest) = (x.narrow(-1, 0i64, turned), x.narrow(-1, turned, width - turned));
    let interleaved = call.flag("interleaved")?;
    let mut pairs = lengths(&first)?;
    pairs.pop();
    let (a, b) = if interleaved {
        let apart = first.reshape([&pairs[..], &[half, 2]].concat());
        (apart.narrow(-1, 0i64, 1i64).squeeze(-1), apart.narrow(-1, 1i64, 1i64).squeeze(-1))
    } else {
        (first.narrow(-1, 0i64, half), first.narrow(-1, half, half))
    };
    let (real, imaginary) = (&cos * &a - &sin * &b, &sin * &a + &cos * &b);
    let first = if interleaved {
        Tensor::stack(&[&real, &imaginary], -1).reshape([&pairs[..], &[turned]].concat())
    } else {
        Tensor::cat(&[&real, &imaginary], -1)
    };
    let result = Tensor::cat(&[&first, &rest], -1);
    one(if given.len() == 4 { result.permute([0, 2, 1, 3]) } else { result.reshape(given) })
}
