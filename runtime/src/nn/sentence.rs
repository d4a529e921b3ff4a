//! Sentence encoders of the family of BERT: embeddings, encoder layers, the mean over a sentence's positions, normalised.
//!
//! Weights have the names that Hugging Face's files give them (`encoder.layer.0.attention.self.query.weight`). The pooling is that of
//! `sentence-transformers/all-MiniLM-L6-v2`; what its files hold beyond that (a pooler, numbers of positions) is not needed.
//!
//! Tests: `runtime/tests/minilm.rs`, against PyTorch on the same weights.

use std::panic::Location;

use super::module::{Module, Named, below};
use super::{Embedding, EncoderLayer, LayerNorm, Linear};
use crate::tensor::{AttentionOptions, CallError, Result, Tensor, within};

/// Sizes of an encoder, by the names of its `config.json`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SentenceSizes {
    /// `num_hidden_layers`.
    pub layers: i64,
    /// `hidden_size`.
    pub width: i64,
    /// `num_attention_heads`.
    pub heads: i64,
    /// `intermediate_size`.
    pub inner: i64,
    /// `vocab_size`.
    pub vocabulary: i64,
    /// `max_position_embeddings`.
    pub positions: i64,
    /// `type_vocab_size`.
    pub types: i64,
    /// `layer_norm_eps`.
    pub eps: f64,
}

impl SentenceSizes {
    /// Those of all-MiniLM-L6-v2.
    pub const MINILM: SentenceSizes = SentenceSizes {
        layers: 6,
        width: 384,
        heads: 12,
        inner: 1536,
        vocabulary: 30522,
        positions: 512,
        types: 2,
        eps: 1e-12,
    };
}

/// An encoder of sentences.
#[derive(Clone, Debug)]
pub struct SentenceEncoder {
    /// A row for each token.
    pub words: Embedding,
    /// A row for each position.
    pub positions: Embedding,
    /// A row for each type of a token, of which the first is used.
    pub types: Embedding,
    /// Of the sum of these.
    pub norm: LayerNorm,
    /// In their order.
    pub layers: Vec<EncoderLayer>,
}

impl SentenceEncoder {
    /// An encoder of tensors that `weight` gives for each name: those of a file (`|name| weights.tensor(name)`), or any others.
    ///
    /// # Errors
    /// The closure's, or if a tensor has another shape than these sizes say.
    #[track_caller]
    pub fn new(sizes: &SentenceSizes, mut weight: impl FnMut(&str) -> Result<Tensor>) -> Result<SentenceEncoder> {
        let mut checked = |name: &str, shape: &[i64]| -> Result<Tensor> {
            let tensor = weight(name)?;
            let found: Vec<i64> = tensor.shape()?.into_iter().map(|len| len as i64).collect();
            if found == shape {
                return Ok(tensor);
            }
            let message = format!("`{name}` has the shape {found:?}, and the sizes say {shape:?}");
            Err(CallError::new("SentenceEncoder", &[], message, std::panic::Location::caller()).into())
        };
        let SentenceSizes { layers, width, heads, inner, vocabulary, positions, types, eps } = *sizes;
        let mut embedding = |name: &str, entries: i64| -> Result<Embedding> {
            Ok(Embedding { weight: checked(&format!("embeddings.{name}_embeddings.weight"), &[entries, width])? })
        };
        let (words, positions, types) =
            (embedding("word", vocabulary)?, embedding("position", positions)?, embedding("token_type", types)?);
        let mut norm = |name: &str| -> Result<LayerNorm> {
            let mut of = |part: &str| checked(&format!("{name}.LayerNorm.{part}"), &[width]);
            Ok(LayerNorm { shape: vec![width], weight: of("weight")?, bias: of("bias")?, eps })
        };
        let first = norm("embeddings")?;
        let mut norms = Vec::new();
        for layer in 0..layers {
            let name = |part: &str| format!("encoder.layer.{layer}.{part}");
            norms.push((norm(&name("attention.output"))?, norm(&name("output"))?));
        }
        let mut encoder = Vec::new();
        for (layer, (attention_norm, norm)) in norms.into_iter().enumerate() {
            let mut linear = |name: &str, inputs: i64, outputs: i64| -> Result<Linear> {
                let name = format!("encoder.layer.{layer}.{name}");
                let weight = checked(&format!("{name}.weight"), &[outputs, inputs])?;
                Ok(Linear { weight, bias: Some(checked(&format!("{name}.bias"), &[outputs])?) })
            };
            encoder.push(EncoderLayer {
                query: linear("attention.self.query", width, width)?,
                key: linear("attention.self.key", width, width)?,
                value: linear("attention.self.value", width, width)?,
                output: linear("attention.output.dense", width, width)?,
                inner: linear("intermediate.dense", width, inner)?,
                outer: linear("output.dense", inner, width)?,
                attention_norm,
                norm,
                heads,
            });
        }
        Ok(SentenceEncoder { words, positions, types, norm: first, layers: encoder })
    }

    /// An embedding of length 1 for each sentence: tokens [sentences, positions], and where these are not mere padding (1, else 0), `f32` of the
    /// same shape.
    #[track_caller]
    pub fn forward(&self, tokens: &Tensor, mask: &Tensor) -> Tensor {
        let _call = within(Location::caller());
        let dims = match (tokens.dims(), mask.dims()) {
            (Ok(tokens), Ok(mask)) if tokens.len() == 2 && tokens == mask => tokens,
            (Ok(tokens), Ok(mask)) => {
                let message = format!("tokens and mask must be [sentences, positions], not {tokens} and {mask}");
                return Tensor::refused("SentenceEncoder", message);
            }
            (Err(error), _) | (_, Err(error)) => return Tensor::from_error(error),
        };
        let rows = self.positions.weight.narrow(0, 0, dims[1].clone());
        let embedded = self.words.forward(tokens) + rows + self.types.weight.get(0);
        // Not seen is what is padding, by any query and head: [sentences, heads, queries, keys].
        let seen = mask.ne(0.0).unsqueeze(1).unsqueeze(1);
        let options = AttentionOptions::default().mask(Some(seen));
        let layers = self.layers.iter();
        let encoded = layers.fold(self.norm.forward(&embedded), |x, layer| layer.forward_with(&x, &options));
        let mask = mask.unsqueeze(-1);
        let mean = (encoded * &mask).sum(1) / mask.sum(1);
        mean.normalize(2.0, -1, 1e-12)
    }
}

impl Module for SentenceEncoder {
    fn parameters(&self) -> Vec<Tensor> {
        self.named_parameters().into_iter().map(|(_, tensor)| tensor).collect()
    }

    fn named_parameters(&self) -> Named {
        let embeddings = [("word", &self.words), ("position", &self.positions), ("token_type", &self.types)];
        let mut named: Named = embeddings
            .into_iter()
            .map(|(name, table)| (format!("embeddings.{name}_embeddings.weight"), table.weight.clone()))
            .collect();
        named.extend(below("embeddings.LayerNorm", self.norm.named_parameters()));
        for (number, layer) in self.layers.iter().enumerate() {
            let parts: [(&str, &dyn Module); 8] = [
                ("attention.self.query", &layer.query),
                ("attention.self.key", &layer.key),
                ("attention.self.value", &layer.value),
                ("attention.output.dense", &layer.output),
                ("attention.output.LayerNorm", &layer.attention_norm),
                ("intermediate.dense", &layer.inner),
                ("output.dense", &layer.outer),
                ("output.LayerNorm", &layer.norm),
            ];
            let prefix = format!("encoder.layer.{number}");
            named.extend(
                parts.into_iter().flat_map(|(name, part)| below(&format!("{prefix}.{name}"), part.named_parameters())),
            );
        }
        named
    }
}
