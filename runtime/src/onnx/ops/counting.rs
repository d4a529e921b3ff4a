//! N-grams counted in rows of numbers or of text (`TfIdfVectorizer`).
//!
//! Each gram of a pool is compared with all positions of a row at once, once for each number of elements that may lie between its own; how often it is there is added to
//! its index in the result. Text becomes numbers first, the indices of its words in the pool, since it lies on the host while the program is built.

use rustc_hash::FxHashMap;

use super::super::call::{Call, Done, lengths_from, one};
use super::super::error::{Failure, wrong};
use super::super::value::Value;
use super::Op;
use crate::DType;
use crate::tensor::{ScatterReduce, Tensor};

// tidy: table
pub(super) const OPS: &[(&str, Op)] = &[("TfIdfVectorizer", count)];

/// Columns that a result may have.
const WIDTH_MAX: i64 = 1 << 24;

/// The rows [batch, elements], and the pool, as numbers.
fn numbers(call: &Call<'_>) -> Result<(Tensor, Vec<i64>), Failure> {
    if let Some(words) = call.texts("pool_strings")? {
        let Value::Text(shape, given) = call.value(0)? else {
            wrong!("input 0 is {}, and must be text, as the pool is", call.value(0)?.description());
        };
        let mut indices: FxHashMap<&str, i64> = FxHashMap::default();
        for word in &words {
            let next = indices.len() as i64;
            indices.entry(word).or_insert(next);
        }
        let index = |word: &str| indices.get(word).copied().unwrap_or(-1);
        let rows: Vec<i64> = given.iter().map(|word| index(word)).collect();
        let shape: Vec<i64> = shape.iter().map(|&length| length as i64).collect();
        return Ok((Tensor::from_vec(rows, shape), words.iter().map(|word| index(word)).collect()));
    }
    let Some(pool) = call.ints("pool_int64s")? else { wrong!("there must be `pool_int64s` or `pool_strings`") };
    Ok((call.tensor(0)?.cast(DType::I64), pool.to_vec()))
}

/// How often each of these grams [grams, size] is in each row, with so many elements from one of its own to the next.
fn found(rows: &Tensor, length: i64, grams: &Tensor, size: i64, step: i64) -> Option<Tensor> {
    let positions = length - (size - 1) * step;
    let matches = |k: i64| {
        let part = rows.narrow(1, k * step, positions).unsqueeze(-1);
        part.eq(grams.narrow(1, k, 1).squeeze(1))
    };
    let all = (1..size).fold((positions > 0).then(|| matches(0))?, |all, k| all.logical_and(matches(k)));
    Some(all.cast(DType::F32).sum(1))
}

fn count(call: &Call<'_>) -> Done {
    let (x, pool) = numbers(call)?;
    let is_row = x.rank()? == 1;
    let rows = if is_row { x.unsqueeze(0) } else { x };
    if rows.rank()? != 2 {
        wrong!("input 0 has {} axes: it must be a row, or rows [batch, elements]", rows.rank()?);
    }
    let (length, batch) = (lengths_from(&rows, 1)?[0], rows.dims()?[0].clone());
    let (Some(starts), Some(columns)) = (call.ints("ngram_counts")?, call.ints("ngram_indexes")?) else {
        wrong!("there must be `ngram_counts` and `ngram_indexes`");
    };
    let (least, most) = (call.int_or("min_gram_length", 1)?, call.int_or("max_gram_length", 1)?);
    let skips = call.int_or("max_skip_count", 0)?.clamp(0, length);
    if columns.is_empty() || columns.iter().any(|column| !(0..WIDTH_MAX).contains(column)) {
        wrong!("`ngram_indexes` must name columns from 0 to {}", WIDTH_MAX - 1);
    }
    let width = columns.iter().max().map_or(0, |column| column + 1);
    let mut total = Tensor::zeros_of((batch.clone(), width), DType::F32);
    let mut first = 0usize;
    for (at, &start) in starts.iter().enumerate() {
        let (size, end) = (at as i64 + 1, starts.get(at + 1).copied().unwrap_or(pool.len() as i64));
        if start < 0 || end < start || end > pool.len() as i64 || (end - start) % size != 0 {
            wrong!(
                "`ngram_counts` has {start} to {end} for grams of {size}: it must be whole grams of a pool of {}",
                pool.len()
            );
        }
        let grams = (end - start) / size;
        let Some(own) = columns.get(first..first + grams as usize) else {
            wrong!("`ngram_indexes` has {} columns, and must have one for each gram", columns.len());
        };
        first += grams as usize;
        if grams == 0 || size < least || size > most {
            continue;
        }
        let wanted = Tensor::from_vec(pool[start as usize..end as usize].to_vec(), [grams, size]);
        let index = Tensor::from_vec(own.to_vec(), [1, grams]).expand((batch.clone(), grams));
        for step in 1..=if size == 1 { 1 } else { skips + 1 } {
            if let Some(found) = found(&rows, length, &wanted, size, step) {
                total = total.scatter_reduce(1, &index, &found, ScatterReduce::Sum, true);
            }
        }
    }
    let weighed = weighed(call, &total, width)?;
    one(if is_row { weighed.squeeze(0) } else { weighed })
}

/// Counts, or weights of what is there, or both multiplied.
fn weighed(call: &Call<'_>, counts: &Tensor, width: i64) -> Result<Tensor, Failure> {
    let weights = match call.float_list("weights")? {
        Some(weights) if weights.len() as i64 >= width => Tensor::from_vec(weights[..width as usize].to_vec(), [width]),
        Some(weights) if !weights.is_empty() => wrong!("`weights` are {}, and columns {width}", weights.len()),
        _ => Tensor::ones([width]),
    };
    match call.text("mode")?.as_deref() {
        Some("TF") => Ok(counts.clone()),
        Some("IDF") => Ok(counts.gt(0.0).where_(weights, 0.0)),
        Some("TFIDF") => Ok(counts * weights),
        other => wrong!("the mode is {other:?}, and must be TF, IDF or TFIDF"),
    }
}
