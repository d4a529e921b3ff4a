//! Decoders of the family of Llama: grouped-query attention with rotary positions, root mean square norms, and the SwiGLU product of three matrices.
//!
//! ```text
//! tokens --words--> x ;  in each layer:  x += attention(norm(x)) ;  x += down(silu(gate(norm(x))) * up(norm(x))) ;  logits = output(norm(x))
//! ```
//!
//! Weights have the names that Hugging Face's files give them (`model.layers.0.self_attn.q_proj.weight`); `decoder_files` says how GGUF's are
//! called. A text is read at once ([`Decoder::forward`]), or piece by piece with a cache ([`Decoder::forward_cached`], which `generator` compiles).
//!
//! Tests: `runtime/tests/decoder.rs`, against the `transformers` package on the same weights.

use std::panic::Location;

use warpweft_compiler::DType;
use warpweft_compiler::ir::Dim;

use super::module::{Module, Named, below};
use super::{Embedding, KeyValueCache, Linear, MultiHeadAttention, RmsNorm};
use crate::tensor::{AttentionOptions, CallError, Length, Result, Tensor, within};

/// Sizes of a decoder, by the names of its `config.json`.
#[derive(Clone, Debug, PartialEq)]
pub struct DecoderSizes {
    /// `num_hidden_layers`.
    pub layers: i64,
    /// `hidden_size`.
    pub width: i64,
    /// `num_attention_heads`.
    pub heads: i64,
    /// `num_key_value_heads`.
    pub key_heads: i64,
    /// `intermediate_size`.
    pub inner: i64,
    /// `vocab_size`.
    pub vocabulary: i64,
    /// `max_position_embeddings`.
    pub positions: i64,
    /// `rms_norm_eps`.
    pub eps: f64,
    /// `rope_theta`.
    pub rotary_base: f64,
    /// What the speed of each pair of a head's elements is divided by; empty where nothing is ([`stretched`]).
    pub rotary_divisors: Vec<f64>,
    /// `tie_word_embeddings`: the output has the words' matrix, and none of its own.
    pub is_tied: bool,
}

impl DecoderSizes {
    /// A small one, whose tokens are bytes: to see one run without a model.
    pub const SMALL: DecoderSizes = DecoderSizes {
        layers: 4,
        width: 256,
        heads: 8,
        key_heads: 4,
        inner: 704,
        vocabulary: 256,
        positions: 512,
        eps: 1e-5,
        rotary_base: 10_000.0,
        rotary_divisors: Vec::new(),
        is_tied: true,
    };

    /// Elements of a head.
    pub fn head_width(&self) -> i64 {
        self.width / self.heads.max(1)
    }

    /// An error unless the parts fit each other.
    #[track_caller]
    fn check(&self) -> Result<()> {
        let wrong = if self.layers < 1 || self.inner < 1 || self.vocabulary < 1 || self.positions < 1 {
            "layers, inner, vocabulary and positions must be 1 or more".to_string()
        } else if self.heads < 1 || self.width % self.heads != 0 || self.head_width() % 2 != 0 {
            format!("{} heads must share a width of {} in even parts", self.heads, self.width)
        } else if self.key_heads < 1 || self.heads % self.key_heads != 0 {
            format!("{} heads cannot share {} key heads in equal groups", self.heads, self.key_heads)
        } else if !self.rotary_divisors.is_empty() && self.rotary_divisors.len() as i64 != self.head_width() / 2 {
            format!("{} rotary divisors for {} pairs of a head", self.rotary_divisors.len(), self.head_width() / 2)
        } else {
            return Ok(());
        };
        Err(refused(wrong))
    }
}

#[track_caller]
fn refused(message: String) -> crate::tensor::Error {
    CallError::new("Decoder", &[], message, std::panic::Location::caller()).into()
}

/// What the speeds of rotary positions are divided by in Llama 3.1 and its successors (`rope_scaling` of type `llama3`): slow pairs by `factor`, fast ones
/// by nothing, and those between by something between. `original` is how many positions the model was trained on at first; a pair is slow if it turns less
/// than `slow` times over these, and fast if more than `fast` times.
pub fn stretched(head_width: i64, base: f64, factor: f64, [slow, fast]: [f64; 2], original: f64) -> Vec<f64> {
    let pairs = head_width / 2;
    let divisor = |pair: i64| {
        let speed = base.powf(-2.0 * pair as f64 / head_width as f64);
        let turns = original * speed / std::f64::consts::TAU;
        if turns < slow {
            factor
        } else if turns > fast {
            1.0
        } else {
            let share = (turns - slow) / (fast - slow);
            1.0 / ((1.0 - share) / factor + share)
        }
    };
    (0..pairs).map(divisor).collect()
}

/// Attention and three matrices, each behind a norm and added to what it was made from.
#[derive(Clone, Debug)]
pub struct DecoderLayer {
    /// Before attention.
    pub attention_norm: RmsNorm,
    /// Attention.
    pub attention: MultiHeadAttention,
    /// Before the matrices.
    pub norm: RmsNorm,
    /// What decides how much passes.
    pub gate: Linear,
    /// To the inner width.
    pub up: Linear,
    /// Back from it.
    pub down: Linear,
}

impl DecoderLayer {
    /// Causal, over all positions of x [batch, positions, width].
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        let _call = within(Location::caller());
        let options = AttentionOptions { is_causal: true, ..AttentionOptions::default() };
        self.joined(x, &self.attention.forward(&self.attention_norm.forward(x), &options))
    }

    /// As [`MultiHeadAttention::forward_cached`].
    ///
    /// # Errors
    /// If shapes do not fit, or the cache is too short.
    #[track_caller]
    pub fn forward_cached(&self, x: &Tensor, cache: &KeyValueCache, start: impl Into<Dim>) -> Result<Tensor> {
        let _call = within(Location::caller());
        Ok(self.joined(x, &self.attention.forward_cached(&self.attention_norm.forward(x), cache, start)?))
    }

    #[track_caller]
    fn joined(&self, x: &Tensor, attended: &Tensor) -> Tensor {
        let x = x + attended;
        let normed = self.norm.forward(&x);
        let passed = self.gate.forward(&normed).silu() * self.up.forward(&normed);
        &x + self.down.forward(&passed)
    }
}

/// A decoder: what comes after each position of a text.
#[derive(Clone, Debug)]
pub struct Decoder {
    /// Its sizes.
    pub sizes: DecoderSizes,
    /// A row for each token.
    pub words: Embedding,
    /// In their order.
    pub layers: Vec<DecoderLayer>,
    /// Of what the last gives.
    pub norm: RmsNorm,
    /// A row for each token that may come next; of a tied decoder the words' own.
    pub output: Linear,
}

impl Decoder {
    /// A decoder of tensors that `weight` gives for each name and shape: those of a file (`|name, _| weights.tensor(name)`), or any others.
    ///
    /// # Errors
    /// The closure's, or if sizes do not fit each other, or a tensor has another shape than they say.
    #[track_caller]
    pub fn new(sizes: &DecoderSizes, mut weight: impl FnMut(&str, &[i64]) -> Result<Tensor>) -> Result<Decoder> {
        sizes.check()?;
        let mut of = |name: &str, shape: &[i64]| -> Result<Tensor> {
            let tensor = weight(name, shape)?;
            let found: Vec<i64> = tensor.shape()?.into_iter().map(|len| len as i64).collect();
            if found == shape {
                return Ok(tensor);
            }
            Err(refused(format!("`{name}` has the shape {found:?}, and the sizes say {shape:?}")))
        };
        let (width, eps) = (sizes.width, sizes.eps);
        let words = Embedding { weight: of("model.embed_tokens.weight", &[sizes.vocabulary, width])? };
        let divisors: Vec<f32> = sizes.rotary_divisors.iter().map(|&divisor| divisor as f32).collect();
        let pairs = [divisors.len() as i64];
        let rotary_divisors = (!divisors.is_empty()).then(|| Tensor::from_vec(divisors, pairs));
        let layers = (0..sizes.layers).map(|number| layer(sizes, number, &rotary_divisors, &mut of));
        let layers = layers.collect::<Result<Vec<DecoderLayer>>>()?;
        let norm = RmsNorm { weight: of("model.norm.weight", &[width])?, eps };
        let output = match sizes.is_tied {
            true => words.weight.clone(),
            false => of("lm_head.weight", &[sizes.vocabulary, width])?,
        };
        Ok(Decoder { sizes: sizes.clone(), words, layers, norm, output: Linear { weight: output, bias: None } })
    }

    /// One of random weights, which may learn: matrices of a deviation of 0.02, smaller where they are added, as GPT-2 begins; norms of ones.
    ///
    /// # Errors
    /// If sizes do not fit each other, or there is no memory.
    #[track_caller]
    pub fn random(sizes: &DecoderSizes) -> Result<Decoder> {
        let _call = within(Location::caller());
        let added = 0.02 / (2.0 * sizes.layers.max(1) as f64).sqrt();
        Decoder::new(sizes, |name, shape| {
            let is_added = name.ends_with("o_proj.weight") || name.ends_with("down_proj.weight");
            let made = match shape {
                [_] => Tensor::ones(shape.to_vec()),
                _ => Tensor::randn(shape.to_vec()) * if is_added { added } else { 0.02 },
            };
            made.realize()?;
            Ok(made)
        })
    }

    /// A number for each token that may come next, after each position: logits [batch, positions, vocabulary] of tokens [batch, positions].
    #[track_caller]
    pub fn forward(&self, tokens: &Tensor) -> Tensor {
        let _call = within(Location::caller());
        let x = self.embedded(tokens);
        self.logits(&self.layers.iter().fold(x, |x, layer| layer.forward(&x)))
    }

    /// What the layers make of further tokens [batch, count], the first of which is number `start`; [`Decoder::logits`] makes logits of it. Keys
    /// and values go to the caches, one for each layer: assigned, but not computed.
    ///
    /// # Errors
    /// If shapes do not fit, there is another number of caches, or they are too short.
    #[track_caller]
    pub fn forward_cached(&self, tokens: &Tensor, caches: &[KeyValueCache], start: impl Into<Dim>) -> Result<Tensor> {
        let _call = within(Location::caller());
        if caches.len() != self.layers.len() {
            return Err(refused(format!("{} caches for {} layers", caches.len(), self.layers.len())));
        }
        let (mut x, start) = (self.embedded(tokens), start.into());
        for (layer, cache) in self.layers.iter().zip(caches) {
            x = layer.forward_cached(&x, cache, start.clone())?;
        }
        Ok(x)
    }

    /// Logits of what the last layer gives.
    #[track_caller]
    pub fn logits(&self, x: &Tensor) -> Tensor {
        let _call = within(Location::caller());
        self.output.forward(&self.norm.forward(x))
    }

    /// Caches of this many positions for each layer, of texts that are read side by side.
    ///
    /// # Errors
    /// If there is no memory.
    #[track_caller]
    pub fn caches(&self, batch: impl Length, positions: impl Length) -> Result<Vec<KeyValueCache>> {
        let _call = within(Location::caller());
        let batch = batch.length();
        let positions = positions.length();
        let DecoderSizes { key_heads, .. } = self.sizes;
        let one = |_: &DecoderLayer| KeyValueCache::new(batch, key_heads, positions, self.sizes.head_width());
        self.layers.iter().map(one).collect()
    }

    /// Rows of words, in the type that is computed with, whatever they are stored as.
    #[track_caller]
    fn embedded(&self, tokens: &Tensor) -> Tensor {
        self.words.forward(tokens).cast(DType::F32)
    }
}

/// The layer of that number.
fn layer(
    sizes: &DecoderSizes,
    number: i64,
    rotary_divisors: &Option<Tensor>,
    of: &mut impl FnMut(&str, &[i64]) -> Result<Tensor>,
) -> Result<DecoderLayer> {
    let (width, inner, keys) = (sizes.width, sizes.inner, sizes.head_width() * sizes.key_heads);
    let mut of = |part: &str, shape: &[i64]| of(&format!("model.layers.{number}.{part}.weight"), shape);
    let norms = [of("input_layernorm", &[width])?, of("post_attention_layernorm", &[width])?];
    let [attention_norm, norm] = norms.map(|weight| RmsNorm { weight, eps: sizes.eps });
    let mut linear = |part: &str, inputs: i64, outputs: i64| -> Result<Linear> {
        Ok(Linear { weight: of(part, &[outputs, inputs])?, bias: None })
    };
    let attention = MultiHeadAttention {
        query: linear("self_attn.q_proj", width, width)?,
        key: linear("self_attn.k_proj", width, keys)?,
        value: linear("self_attn.v_proj", width, keys)?,
        output: linear("self_attn.o_proj", width, width)?,
        heads: sizes.heads,
        key_heads: sizes.key_heads,
        rotary: Some(sizes.rotary_base),
        rotary_divisors: rotary_divisors.clone(),
    };
    Ok(DecoderLayer {
        attention_norm,
        attention,
        norm,
        gate: linear("mlp.gate_proj", width, inner)?,
        up: linear("mlp.up_proj", width, inner)?,
        down: linear("mlp.down_proj", inner, width)?,
    })
}

impl Module for Decoder {
    fn parameters(&self) -> Vec<Tensor> {
        self.named_parameters().into_iter().map(|(_, tensor)| tensor).collect()
    }

    fn named_parameters(&self) -> Named {
        let mut named: Named = below("model.embed_tokens", self.words.named_parameters()).collect();
        for (number, layer) in self.layers.iter().enumerate() {
            let parts: [(&str, &dyn Module); 9] = [
                ("input_layernorm", &layer.attention_norm),
                ("self_attn.q_proj", &layer.attention.query),
                ("self_attn.k_proj", &layer.attention.key),
                ("self_attn.v_proj", &layer.attention.value),
                ("self_attn.o_proj", &layer.attention.output),
                ("post_attention_layernorm", &layer.norm),
                ("mlp.gate_proj", &layer.gate),
                ("mlp.up_proj", &layer.up),
                ("mlp.down_proj", &layer.down),
            ];
            let prefix = format!("model.layers.{number}");
            named.extend(
                parts.into_iter().flat_map(|(name, part)| below(&format!("{prefix}.{name}"), part.named_parameters())),
            );
        }
        named.extend(below("model.norm", self.norm.named_parameters()));
        if !self.sizes.is_tied {
            named.extend(below("lm_head", self.output.named_parameters()));
        }
        named
    }
}
