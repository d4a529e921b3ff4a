//! Attention with several heads, as decoders have it: fewer heads of keys than of queries, rotary positions, a cache of what was seen.

use std::panic::Location;

use warpweft_compiler::DType;
use warpweft_compiler::ir::{Dim, Shape};

use super::Linear;
use super::module::{Module, parameters};
use crate::tensor::{AttentionOptions, CallError, Length, Result, Tensor, within};

/// Attention of positions to positions. Query heads share key heads in equal groups.
#[derive(Clone, Debug)]
pub struct MultiHeadAttention {
    /// What a position asks for.
    pub query: Linear,
    /// What a position offers.
    pub key: Linear,
    /// What a position gives to who attends to it.
    pub value: Linear,
    /// Joins the heads.
    pub output: Linear,
    /// Heads of queries.
    pub heads: i64,
    /// Heads of keys and values.
    pub key_heads: i64,
    /// The base of rotary positions, if there are any: 10,000 in the original.
    pub rotary: Option<f64>,
    /// What the speed of each pair of elements is divided by, half as many numbers as a head is wide: of models that were stretched to longer texts.
    pub rotary_divisors: Option<Tensor>,
}

impl MultiHeadAttention {
    /// Random matrices. `heads` must divide `width`, and `key_heads` must divide `heads`.
    ///
    /// # Errors
    /// If they do not, or there is no memory.
    #[track_caller]
    pub fn new(
        width: impl Length,
        heads: impl Length,
        key_heads: impl Length,
        bias: bool,
        rotary: Option<f64>,
    ) -> Result<MultiHeadAttention> {
        let (width, heads, key_heads) = (width.length(), heads.length(), key_heads.length());
        if heads < 1 || key_heads < 1 || width % heads != 0 || heads % key_heads != 0 {
            let message = format!(
                "a width of {width} with {heads} heads and {key_heads} for keys: heads must divide the width, and heads for keys the heads"
            );
            return Err(CallError::new("MultiHeadAttention", &[], message, Location::caller()).into());
        }
        let inner = width / heads * key_heads;
        Ok(MultiHeadAttention {
            query: Linear::new(width, width, bias)?,
            key: Linear::new(width, inner, bias)?,
            value: Linear::new(width, inner, bias)?,
            output: Linear::new(width, width, bias)?,
            heads,
            key_heads,
            rotary,
            rotary_divisors: None,
        })
    }

    /// What the layer makes of x [batch, positions, width].
    #[track_caller]
    pub fn forward(&self, x: &Tensor, options: &AttentionOptions) -> Tensor {
        let _call = within(Location::caller());
        let [query, key, value] = match self.project(x, &Dim::from(0)) {
            Ok(parts) => parts,
            Err(error) => return Tensor::from_error(error),
        };
        self.joined(&query.attention(&key, &value, &self.with_groups(options)), x)
    }

    /// What the layer makes of further positions x [batch, count, width], the first of which is number `start`: their keys and values go to the cache,
    /// and each sees all up to itself. Assigned, but not computed: realize the result with the cache's tensors.
    ///
    /// # Errors
    /// If shapes do not fit, or the cache is too short.
    #[track_caller]
    pub fn forward_cached(&self, x: &Tensor, cache: &KeyValueCache, start: impl Into<Dim>) -> Result<Tensor> {
        let _call = within(Location::caller());
        let start = start.into();
        let [query, key, value] = self.project(x, &start)?;
        let count = x.dims()?[1].clone();
        cache.keys.narrow(2, start.clone(), count.clone()).assign(&key)?;
        cache.values.narrow(2, start.clone(), count.clone()).assign(&value)?;
        let seen = start.clone() + count.clone();
        let (keys, values) = (cache.keys.narrow(2, 0, seen.clone()), cache.values.narrow(2, 0, seen.clone()));
        // One position sees all that are there; several see those up to each.
        let mask = (!count.is(1)).then(|| {
            let own = (Tensor::iota(count).cast(DType::I64) + Tensor::from_dim(start)).unsqueeze(-1);
            Tensor::iota(seen).cast(DType::I64).unsqueeze(0).le(own)
        });
        let options = self.with_groups(&AttentionOptions::default().mask(mask));
        Ok(self.joined(&query.attention(&keys, &values, &options), x))
    }

    fn with_groups(&self, options: &AttentionOptions) -> AttentionOptions {
        options.clone().enable_gqa(self.heads != self.key_heads)
    }

    /// Queries, keys and values [batch, heads, positions, width of a head], turned by their positions.
    #[track_caller]
    fn project(&self, x: &Tensor, start: &Dim) -> Result<[Tensor; 3]> {
        let shape = x.dims()?;
        if shape.len() != 3 {
            return Err(x.refused_call("MultiHeadAttention", "x must have the axes [batch, positions, width]"));
        }
        let head_width = shape[2].floor_div(&Dim::from(self.heads));
        let split = |layer: &Linear, heads: i64| {
            let parts = Shape::from([shape[0].clone(), shape[1].clone(), Dim::from(heads), head_width.clone()]);
            layer.forward(x).reshape(parts).transpose(1, 2)
        };
        let turned = |heads: Tensor| match self.rotary {
            Some(base) => turned_by(&heads, start.clone(), base, self.rotary_divisors.as_ref()),
            None => heads,
        };
        let query = turned(split(&self.query, self.heads));
        Ok([query, turned(split(&self.key, self.key_heads)), split(&self.value, self.key_heads)])
    }

    #[track_caller]
    fn joined(&self, heads: &Tensor, x: &Tensor) -> Tensor {
        match x.dims() {
            Ok(shape) => self.output.forward(&heads.transpose(1, 2).reshape(shape)),
            Err(error) => Tensor::from_error(error),
        }
    }
}

parameters! { MultiHeadAttention: ..query ..key ..value ..output }

/// Keys and values of positions that were seen, with room for more.
#[derive(Clone, Debug)]
pub struct KeyValueCache {
    /// [batch, key heads, positions, width of a head].
    pub keys: Tensor,
    /// As the keys.
    pub values: Tensor,
}

impl KeyValueCache {
    /// Room for so many positions.
    ///
    /// # Errors
    /// If there is no memory.
    #[track_caller]
    pub fn new(
        batch: impl Length,
        key_heads: impl Length,
        positions: impl Length,
        head_width: impl Length,
    ) -> Result<KeyValueCache> {
        let shape = [batch.length(), key_heads.length(), positions.length(), head_width.length()];
        Ok(KeyValueCache { keys: super::filled(&shape, 0.0)?, values: super::filled(&shape, 0.0)? })
    }
}

/// Heads x [.., positions, width] with each pair of elements turned by its position, counted from `start` (Su et al., 2021). Pairs are an element of the first
/// half and its fellow in the second, as in Llama and NeoX.
#[track_caller]
pub fn rotary(x: &Tensor, start: impl Into<Dim>, base: f64) -> Tensor {
    turned_by(x, start.into(), base, None)
}

/// The same where the speed of each pair is divided by a number.
#[track_caller]
fn turned_by(x: &Tensor, start: Dim, base: f64, divisors: Option<&Tensor>) -> Tensor {
    let shape = match x.dims() {
        Ok(shape) => shape,
        Err(error) => return Tensor::from_error(error),
    };
    let width = match shape.last().and_then(Dim::as_const) {
        Some(width) if shape.len() >= 2 && width % 2 == 0 => width,
        _ => {
            return Tensor::refused(
                "rotary",
                format!("x must have the axes [.., positions, an even width], not {shape}"),
            );
        }
    };
    let half = width / 2;
    let last = shape.len() as i64 - 1;
    let positions = Tensor::iota(shape[shape.len() - 2].clone()).cast(DType::I64) + Tensor::from_dim(start);
    let mut speeds = (Tensor::arange_of(0, half, 1, DType::F32) * (-2.0 * base.ln() / width as f64)).exp();
    if let Some(divisors) = divisors {
        speeds = speeds / divisors;
    }
    let angles = positions.cast(DType::F32).unsqueeze(-1) * speeds.unsqueeze(0);
    let (sine, cosine) = (angles.sin(), angles.cos());
    let (first, second) = (x.narrow(last, 0, half), x.narrow(last, half, half));
    let turned = [&first * &cosine - &second * &sine, &second * &cosine + &first * &sine];
    match x.dtype() {
        Ok(dtype) => Tensor::cat(&[&turned[0], &turned[1]], last).cast(dtype),
        Err(error) => Tensor::from_error(error),
    }
}
