//! Scaled dot-product attention.

use super::create::positions;
use super::elementwise::where_;
use super::matmul::matmul;
use super::movement::repeat_interleave;
use super::shapes::concrete_axis;
use super::{Built, elementwise, fail, movement, number, reduce, to_float};
use crate::UOp;
use crate::dtype::lattice::accumulate;

/// What attention may see, and how scores are scaled.
#[derive(Clone, Debug, Default)]
pub struct AttentionOptions {
    /// A bool mask (false is not seen) or a float one (added to the scores), which broadcasts to [.., queries, keys].
    pub mask: Option<UOp>,
    /// Whether query i sees the keys up to i alone.
    pub is_causal: bool,
    /// What scores are multiplied with; 1 / sqrt(width) when absent.
    pub scale: Option<f64>,
    /// Whether several query heads share a key head.
    pub enable_gqa: bool,
}

/// softmax(q k^T scale + mask) v over the last two axes. A query whose keys are all hidden gets zeros, as in PyTorch.
pub fn scaled_dot_product_attention(q: &UOp, k: &UOp, v: &UOp, options: &AttentionOptions) -> Built {
    let (q, k, v) = (to_float(q), to_float(k), to_float(v));
    if let Some(x) = [&q, &k, &v].into_iter().find(|x| x.shape().len() < 2) {
        fail!("q, k and v need axes [.., length, width], not {}", x.shape());
    }
    let (k, v) = if options.enable_gqa { (share(&k, &q)?, share(&v, &q)?) } else { (k, v) };
    let width = concrete_axis(&q, q.shape().len() - 1)?;
    let scale = options.scale.unwrap_or(1.0 / (width as f64).sqrt());
    let wide = accumulate(q.dtype());
    let transposed = movement::transpose(&k, -2, -1)?;
    let mut scores = matmul(&q.cast(wide), &transposed.cast(wide))?;
    scores = &scores * number(scale, &scores);
    let hidden = number(f64::NEG_INFINITY, &scores);
    if options.is_causal {
        if options.mask.is_some() {
            fail!("a mask and is_causal exclude each other");
        }
        let rank = scores.shape().len();
        let (query, key) = (positions(scores.shape(), rank - 2), positions(scores.shape(), rank - 1));
        scores = query.lt(&key).select(&hidden, &scores);
    }
    if let Some(mask) = &options.mask {
        scores = if mask.dtype().is_bool() {
            where_(mask, &scores, &hidden)?
        } else {
            elementwise::add(&scores, &mask.cast(wide))?
        };
    }
    // Only a mask can hide all keys of a query.
    let weights =
        if options.mask.is_some() { reduce::softmax_or_zero(&scores, -1)? } else { reduce::softmax(&scores, -1)? };
    Ok(matmul(&weights, &v.cast(wide))?.cast(q.dtype()))
}

/// Key heads repeated so that there is one for each query head.
fn share(x: &UOp, q: &UOp) -> Built {
    if x.shape().len() < 3 || q.shape().len() != x.shape().len() {
        fail!("sharing heads needs axes [.., heads, length, width], not {}", x.shape());
    }
    let axis = x.shape().len() - 3;
    let (heads, wanted) = (concrete_axis(x, axis)?, concrete_axis(q, axis)?);
    if heads == 0 || wanted % heads != 0 {
        fail!("{wanted} query heads are no multiple of {heads} key heads");
    }
    repeat_interleave(x, wanted / heads, Some(axis as i64))
}
