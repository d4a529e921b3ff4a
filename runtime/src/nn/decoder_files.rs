//! Decoders from GGUF files of the architecture `llama`: what their metadata say of sizes, and what their tensors are called.
//!
//! In these files rows of queries and keys stand in pairs that rotary positions turn, while [`super::rotary`] turns an element of the first half of a head
//! with its fellow in the second: so rows are put in that order, which is a movement in the graph and costs no copy of packed weights.

use std::panic::Location;

use super::decoder::{Decoder, DecoderSizes};
use crate::formats::FileError;
use crate::formats::gguf::{Gguf, Value};
use crate::tensor::{Result, Tensor, within};

/// Each part of a layer as Hugging Face's files name it, and as GGUF does.
const PARTS: [(&str, &str); 9] = [
    ("input_layernorm", "attn_norm"),
    ("post_attention_layernorm", "ffn_norm"),
    ("self_attn.q_proj", "attn_q"),
    ("self_attn.k_proj", "attn_k"),
    ("self_attn.v_proj", "attn_v"),
    ("self_attn.o_proj", "attn_output"),
    ("mlp.gate_proj", "ffn_gate"),
    ("mlp.up_proj", "ffn_up"),
    ("mlp.down_proj", "ffn_down"),
];

impl DecoderSizes {
    /// What a file says of its decoder.
    ///
    /// # Errors
    /// If it holds another architecture, or lacks a size.
    #[track_caller]
    pub fn of_gguf(file: &Gguf) -> Result<DecoderSizes> {
        let _call = within(Location::caller());
        let wrong = |message: String| FileError { file: file.tensors.file().to_string(), offset: 0, message };
        match file.metadata.get("general.architecture") {
            Some(Value::Text(name)) if name == "llama" => {}
            Some(other) => {
                return Err(wrong(format!("holds a model of the architecture {other}, and `llama` is read")).into());
            }
            None => return Err(wrong("names no `general.architecture`".to_string()).into()),
        }
        let float = |name: &str, default: Option<f64>| match file.metadata.get(&format!("llama.{name}")) {
            Some(Value::Int(value)) => Ok(*value as f64),
            Some(Value::Float(value)) => Ok(*value),
            Some(other) => Err(wrong(format!("`llama.{name}` should be a number, not {other}"))),
            None => default.ok_or_else(|| wrong(format!("says no `llama.{name}`"))),
        };
        let number = |name: &str, default: Option<i64>| {
            let value = float(name, default.map(|value| value as f64))?;
            let is_size = value >= 1.0 && value <= f64::from(1u32 << 31) && value.fract() == 0.0;
            if is_size { Ok(value as i64) } else { Err(wrong(format!("`llama.{name}` is {value}, and no size"))) }
        };
        let (width, heads) = (number("embedding_length", None)?, number("attention.head_count", None)?);
        let turned = number("rope.dimension_count", Some(width / heads))?;
        if turned != width / heads {
            return Err(wrong(format!("turns {turned} elements of heads of {}: all are", width / heads)).into());
        }
        let entry = |name: &str| file.tensors.entries().iter().find(|entry| entry.name == name);
        let rows = entry("token_embd.weight").and_then(|entry| entry.shape.first().copied());
        let rotary_divisors = match file.tensors.get("rope_freqs.weight") {
            Some(divisors) => divisors.to_vec::<f32>()?.into_iter().map(f64::from).collect(),
            None => Vec::new(),
        };
        Ok(DecoderSizes {
            layers: number("block_count", None)?,
            width,
            heads,
            key_heads: number("attention.head_count_kv", Some(heads))?,
            inner: number("feed_forward_length", None)?,
            vocabulary: rows.ok_or_else(|| wrong("holds no `token_embd.weight`".to_string()))? as i64,
            positions: number("context_length", None)?,
            eps: float("attention.layer_norm_rms_epsilon", None)?,
            rotary_base: float("rope.freq_base", Some(10_000.0))?,
            rotary_divisors,
            is_tied: entry("output.weight").is_none(),
        })
    }
}

impl Decoder {
    /// The decoder of a file; weights are read when they are used, and packed ones stay packed.
    ///
    /// # Errors
    /// As [`DecoderSizes::of_gguf`], or if a tensor is missing or has another shape.
    #[track_caller]
    pub fn of_gguf(file: &Gguf) -> Result<Decoder> {
        let _call = within(Location::caller());
        let sizes = DecoderSizes::of_gguf(file)?;
        Decoder::new(&sizes, |name, _| {
            let tensor = file.tensors.tensor(&name_in_gguf(name))?;
            Ok(match name {
                _ if name.ends_with("q_proj.weight") => halves_of_pairs(&tensor, sizes.heads, &sizes),
                _ if name.ends_with("k_proj.weight") => halves_of_pairs(&tensor, sizes.key_heads, &sizes),
                _ => tensor,
            })
        })
    }
}

/// What GGUF calls a tensor.
fn name_in_gguf(name: &str) -> String {
    let layer = |name: &str| {
        let (number, part) = name.strip_prefix("model.layers.")?.split_once('.')?;
        let part = part.strip_suffix(".weight")?;
        let (_, other) = PARTS.iter().find(|(own, _)| *own == part)?;
        Some(format!("blk.{number}.{other}.weight"))
    };
    match name {
        "model.embed_tokens.weight" => "token_embd.weight".to_string(),
        "model.norm.weight" => "output_norm.weight".to_string(),
        "lm_head.weight" => "output.weight".to_string(),
        _ => layer(name).unwrap_or_else(|| name.to_string()),
    }
}

/// Rows of each head that stand in pairs, in the order of halves: the first of each pair, then the second.
fn halves_of_pairs(weight: &Tensor, heads: i64, sizes: &DecoderSizes) -> Tensor {
    let head_width = sizes.head_width();
    let pairs = weight.reshape([heads, head_width / 2, 2, sizes.width]);
    pairs.transpose(1, 2).reshape([heads * head_width, sizes.width])
}
