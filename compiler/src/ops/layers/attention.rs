//! Scaled dot-product attention.

use crate::dtype::lattice::accumulate;
use crate::ir::{Dim, Function, ReduceOp, Shape};
use crate::ops::by_blocks::{BLOCK_OF_WEIGHTS, OfAxis, weighted_sums};
use crate::ops::create::positions;
use crate::ops::elementwise::where_;
use crate::ops::join::cat;
use crate::ops::math::known;
use crate::ops::matmul::matmul;
use crate::ops::movement::repeat_interleave;
use crate::ops::shapes::concrete_axis;
use crate::ops::{Built, broadcast_to, elementwise, fail, movement, number, reduce, to_float};
use crate::{DType, UOp};

/// More keys than this are walked a block at a time: the scores of a tile of rows would not stay in the nearest cache. On two cores of Zen 3 with AVX2, 8 heads of 768 keys of 64 columns took 12.2 ms
/// and 10.8 by blocks, 6 heads of 1024 keys 18.9 and 14.1; of 600 keys blocks were a little slower.
const KEYS_MANY: i64 = 640;
/// The same where values have more columns than this: products of matrices of their own, with the scores in memory, were faster there up to so many keys (6 heads of 1024 keys of 128 columns 24.0 ms, by blocks
/// 26.6).
const COLUMNS_MANY: i64 = 96;
const KEYS_MANY_WIDE: i64 = 1024;
/// The same where each query sees those up to its own: of what no query of a tile sees, whole blocks are left out, so blocks are short. Half a block is computed for nothing on
/// average, and combining what two come to takes as long as some ten keys: of 256 keys both take the same time, of 384 blocks are a sixth faster (8 heads of 16 to 64 columns, one
/// core with AVX-512).
const KEYS_MANY_CAUSAL: i64 = 256;
const BLOCK_CAUSAL: i64 = 128;
/// Where threads of a GPU share a tile of queries, that must lie in shared memory with a block of keys: of 128 keys it has 32 to 64 queries, of 512 keys 16, and reads all keys again
/// for each 16 queries. Of 64 keys threads meet too often.
const KEYS_OF_THREADS: i64 = 128;
/// The same of half floats with so many columns at least: their scores and weights are in registers, beside the sums of all columns.
const KEYS_OF_HALVES: i64 = 64;
const COLUMNS_OF_HALVES: i64 = 96;
/// Weights, queries times keys of all heads, that the derivative keeps at once: 32 MiB of f32, what the last cache of a processor holds. Each block of queries is compiled, so there are
/// not many.
const WEIGHTS_OF_BLOCK: i64 = 1 << 23;
const BLOCKS_MOST: i64 = 16;
/// Where queries see the keys up to their own, a block computes half a square for nothing: of 8 blocks 1/16 of all. Fewer weights, or shorter blocks, take no time that is worth it.
const BLOCKS_CAUSAL: i64 = 8;
const WEIGHTS_CAUSAL: i64 = 1 << 20;
const QUERIES_OF_BLOCK: i64 = 128;
/// Fewer queries are no tile.
const QUERIES_OF_THREADS: i64 = 64;

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
    /// Whether the threads of a block of a GPU share a tile of queries.
    pub is_of_threads: bool,
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
    if options.is_causal && options.mask.is_some() {
        fail!("a mask and is_causal exclude each other");
    }
    let wide = accumulate(q.dtype());
    let (q_wide, k, v) = (q.cast(wide), k.cast(wide), v.cast(wide));
    let transposed = movement::transpose(&k, -2, -1)?;
    let scores = matmul(&q_wide, &transposed)?;
    let scores = &scores * number(scale, &scores);
    let is_of_halves = wide != q.dtype();
    let seen = Seen { shape: scores.shape().clone(), options, wide, is_of_halves };
    let scores = seen.hide(scores, &|x| Ok(x))?;
    // Only a mask can hide all keys of a query.
    let weights =
        if options.mask.is_some() { reduce::softmax_or_zero(&scores, -1)? } else { reduce::softmax(&scores, -1)? };
    let plain = matmul(&weights, &v)?;
    let value = match by_blocks(&q_wide, &k, &v, scale, &seen)?.filter(|value| value.shape() == plain.shape()) {
        // Its derivative is that of the plain form.
        Some(value) => {
            let derived = by_queries([&q_wide, &k, &v], scale, &seen)?.unwrap_or(plain);
            known(Function::Alike, value, &[&derived])
        }
        None => plain,
    };
    Ok(value.cast(q.dtype()))
}

/// Which scores count.
struct Seen<'o> {
    /// [.., queries, keys].
    shape: Shape,
    options: &'o AttentionOptions,
    /// The type of scores.
    wide: DType,
    /// Whether what is multiplied are half floats.
    is_of_halves: bool,
}

impl Seen<'_> {
    /// Scores with those that do not count at minus infinity, and the mask added; `of_all` takes what there is for all scores to where these are.
    fn hide(&self, scores: UOp, of_all: &dyn Fn(UOp) -> Built) -> Built {
        let hidden = number(f64::NEG_INFINITY, &scores);
        if self.options.is_causal {
            let rank = self.shape.len();
            let [query, key] = [rank - 2, rank - 1].map(|axis| of_all(positions(&self.shape, axis)));
            return Ok(query?.lt(&key?).select(&hidden, &scores));
        }
        let Some(mask) = &self.options.mask else { return Ok(scores) };
        if mask.dtype().is_bool() {
            return where_(&of_all(mask.clone())?, &scores, &hidden);
        }
        elementwise::add(&scores, &of_all(mask.cast(self.wide))?)
    }
}

/// The same for many keys: a block of them at a time, so that neither scores nor weights of all keys are needed at once.
fn by_blocks(q: &UOp, k: &UOp, v: &UOp, scale: f64, seen: &Seen<'_>) -> Built<Option<UOp>> {
    let rank = seen.shape.len();
    let batch = |x: &UOp| -> Option<UOp> {
        let dims = seen.shape[..rank - 2].iter().chain(&x.shape()[x.shape().len() - 2..]);
        broadcast_to(x, &dims.cloned().collect::<Shape>()).ok()
    };
    let is_wider = |mask: &UOp| broadcast_to(mask, &seen.shape).is_err();
    if seen.options.mask.as_ref().is_some_and(is_wider) {
        return Ok(None);
    }
    let (Some(q), Some(k), Some(v)) = (batch(q), batch(k), batch(v)) else { return Ok(None) };
    let scores_of = |of_axis: OfAxis<'_>| {
        // [.., queries, 1, 1, width] and [.., 1, blocks, keys, width].
        let keys = movement::unsqueeze(&of_axis(&k, rank - 2), rank as i64 - 2)?;
        let queries = movement::unsqueeze(&movement::unsqueeze(&q, -2)?, -2)?;
        let products = elementwise::mul(&queries, &keys)?;
        let scores = products.reduce(ReduceOp::Add, &[rank + 1]);
        let scores = &scores * number(scale, &scores);
        let all = |x: UOp| Ok(of_axis(&broadcast_to(&x, &seen.shape)?, rank - 1));
        seen.hide(scores, &all)
    };
    let is_long = |v: &UOp| v.shape()[rank - 1].max_value() >= COLUMNS_OF_HALVES;
    let has_tiles = seen.shape[rank - 2].max_value() >= QUERIES_OF_THREADS;
    let (many, block) = match seen.options.is_causal {
        _ if seen.options.is_of_threads && has_tiles => match seen.is_of_halves && is_long(&v) {
            true => (KEYS_OF_HALVES, KEYS_OF_HALVES),
            false => (KEYS_OF_THREADS, KEYS_OF_THREADS),
        },
        true => (KEYS_MANY_CAUSAL, BLOCK_CAUSAL),
        false if v.shape()[rank - 1].max_value() > COLUMNS_MANY => (KEYS_MANY_WIDE, BLOCK_OF_WEIGHTS),
        false => (KEYS_MANY, BLOCK_OF_WEIGHTS),
    };
    let Some([mut sum, weighted]) = weighted_sums(&v, many, block, &scores_of)? else { return Ok(None) };
    let one = number(1.0, &sum);
    if seen.options.mask.is_some() {
        // It is 0 only where all keys are hidden, or there are none; else the largest adds 1.
        sum = sum.equals(&number(0.0, &sum)).select(one, &sum);
    } else if let Dim::Expr(keys) = &seen.shape[rank - 1] {
        // Of no keys the sum of values is 0, whatever it is divided by.
        sum = keys.lt(UOp::index(1)).select(one, &sum);
    }
    Ok(Some(weighted.div(&sum)))
}

/// The plain form of some queries after the others, of which the derivative is taken: so it keeps the weights of some queries at a time, and computes nothing of keys that none of them sees. None where
/// all are one block.
fn by_queries([q, k, v]: [&UOp; 3], scale: f64, seen: &Seen<'_>) -> Built<Option<UOp>> {
    let rank = seen.shape.len();
    let lengths: Option<Vec<i64>> = seen.shape.iter().map(Dim::as_const).collect();
    let Some(lengths) = lengths.filter(|_| !seen.options.is_of_threads) else { return Ok(None) };
    let (queries, keys, is_causal) = (lengths[rank - 2], lengths[rank - 1], seen.options.is_causal);
    let blocks = blocks_of_queries(&lengths, is_causal);
    if blocks < 2 {
        return Ok(None);
    }
    let part = |block: i64| {
        let (begin, end) = (queries * block / blocks, queries * (block + 1) / blocks);
        let shown = if is_causal { end.min(keys) } else { keys };
        let of_axis = |x: &UOp, axis: usize, begin: i64, end: i64| movement::shrink_axis(x, axis, begin, end);
        let length_of = |x: &UOp| x.shape().len() - 2;
        let (k, v) = (of_axis(k, length_of(k), 0, shown), of_axis(v, length_of(v), 0, shown));
        let scores = matmul(&of_axis(q, length_of(q), begin, end), &movement::transpose(&k, -2, -1)?)?;
        let scores = &scores * number(scale, &scores);
        let all = |x: UOp| {
            let x = broadcast_to(&x, &seen.shape)?;
            Ok(of_axis(&of_axis(&x, rank - 2, begin, end), rank - 1, 0, shown))
        };
        let scores = seen.hide(scores, &all)?;
        let weights = match seen.options.mask {
            Some(_) => reduce::softmax_or_zero(&scores, -1)?,
            None => reduce::softmax(&scores, -1)?,
        };
        matmul(&weights, &v)
    };
    let parts = (0..blocks).map(part).collect::<Built<Vec<UOp>>>()?;
    cat(&parts, -2).map(Some)
}

/// In how many blocks the derivative goes through queries, of scores of so many heads, queries and keys.
fn blocks_of_queries(lengths: &[i64], is_causal: bool) -> i64 {
    let weights = lengths.iter().fold(1i64, |product, len| product.saturating_mul(*len));
    let blocks = (weights.saturating_add(WEIGHTS_OF_BLOCK - 1) / WEIGHTS_OF_BLOCK).min(BLOCKS_MOST);
    let blocks = if is_causal && weights >= WEIGHTS_CAUSAL { blocks.max(BLOCKS_CAUSAL) } else { blocks };
    blocks.min(lengths[lengths.len() - 2] / QUERIES_OF_BLOCK).max(1)
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

#[cfg(test)]
mod tests {
    use super::blocks_of_queries;

    #[test]
    fn blocks_of_queries_are_few_and_long() {
        assert_eq!(blocks_of_queries(&[2, 8, 512, 512], false), 1);
        assert_eq!(blocks_of_queries(&[2, 8, 512, 512], true), 4);
        assert_eq!(blocks_of_queries(&[8, 4096, 4096], false), 16);
        assert_eq!(blocks_of_queries(&[6, 1908, 1908], true), 8);
        assert_eq!(blocks_of_queries(&[1, 300, 300], true), 1);
        assert_eq!(blocks_of_queries(&[0, 300, 300], true), 1);
    }
}
