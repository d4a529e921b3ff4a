//! Ops that choose elements by tensors of integers, and write to chosen indices.

use super::super::call::{Call, Done, one, one_of, product, resolve};
use super::super::error::{Failure, wrong};
use super::super::value::Value;
use super::Op;
use crate::DType;
use crate::tensor::{Index, ScatterReduce, Tensor};

// tidy: table
pub(super) const OPS: &[(&str, Op)] = &[
    ("Compress", compress),
    ("Gather", gather),
    ("GatherElements", gather_elements),
    ("GatherND", gather_nd),
    ("NonZero", non_zero),
    ("OneHot", one_hot),
    ("ReverseSequence", reverse_sequence),
    ("Scatter", scatter_elements),
    ("ScatterElements", scatter_elements),
    ("ScatterND", scatter_nd),
    ("TensorScatter", tensor_scatter),
    ("Unique", unique),
];

// tidy: table
pub(super) const ML: &[(&str, Op)] = &[
    ("ArrayFeatureExtractor", |call| {
        let last = call.rank(0)? as i64 - 1;
        let count = call.tensor(1)?.numel()?;
        one(call.tensor(0)?.index_select(last, &call.tensor(1)?.reshape([count])))
    }),
    ("Binarizer", |call| {
        let x = call.tensor(0)?;
        one(x.gt(call.float_or("threshold", 0.0)?).cast(x.dtype()?))
    }),
];

/// Indices that count from the end, from the start.
fn from_start(index: &Tensor, length: i64) -> Tensor {
    if index.dtype().is_ok_and(|dtype| dtype.is_unsigned()) {
        return index.clone();
    }
    index.lt(0).where_(index + length, index)
}

fn gather(call: &Call<'_>) -> Done {
    let (x, index) = (call.tensor(0)?, call.array(1)?);
    let rank = x.rank()?;
    let axis = resolve(call.int_or("axis", 0)?, rank)?;
    // One index that is known is a view.
    if let Some(known) =
        index.known.as_ref().filter(|known| known.len() == 1 && index.tensor.rank().is_ok_and(|rank| rank == 0))
    {
        let at = super::super::value::integers(known)?;
        let mut entries = vec![Index::ALL; axis];
        entries.push(Index::At(at[0]));
        return call.like(0, x.get(entries));
    }
    call.like(0, x.index(&[axis as i64], &[&index.tensor]))
}

fn gather_elements(call: &Call<'_>) -> Done {
    let (x, index) = (call.tensor(0)?, call.tensor(1)?);
    let axis = resolve(call.int_or("axis", 0)?, x.rank()?)?;
    call.like(0, x.gather(&from_start(index, call.lengths(0)?[axis]), axis as i64))
}

fn gather_nd(call: &Call<'_>) -> Done {
    let (x, index) = (call.tensor(0)?, call.tensor(1)?);
    let (lengths, index_lengths) = (call.lengths(0)?, call.lengths(1)?);
    let batch = call.int_or("batch_dims", 0)?;
    let Some((&depth, outer)) = index_lengths.split_last() else { wrong!("the indices have no axes") };
    if batch < 0 || batch + depth > lengths.len() as i64 || batch > outer.len() as i64 {
        wrong!("{depth} indices after {batch} axes of the batch do not fit {} axes", lengths.len());
    }
    let mut indices = Vec::new();
    for axis in 0..batch as usize {
        let mut line = vec![1i64; outer.len()];
        line[axis] = outer[axis];
        indices.push(Tensor::iota(outer[axis]).cast(DType::I64).reshape(line));
    }
    let apart = |number: i64| index.narrow(-1, number, 1i64).squeeze(-1i64).cast(DType::I64);
    indices.extend((0..depth).map(apart));
    let axes: Vec<i64> = (0..batch + depth).collect();
    call.like(0, x.index(&axes, &indices.iter().collect::<Vec<_>>()))
}

/// How updates combine; none where the last wins.
fn reduction(call: &Call<'_>) -> Result<Option<ScatterReduce>, Failure> {
    Ok(match &*call.text_or("reduction", "none")? {
        "none" => None,
        "add" => Some(ScatterReduce::Sum),
        "mul" => Some(ScatterReduce::Prod),
        "max" => Some(ScatterReduce::Amax),
        "min" => Some(ScatterReduce::Amin),
        other => wrong!("attribute 'reduction' is '{other}', and must be 'none', 'add', 'mul', 'max' or 'min'"),
    })
}

fn scattered(x: &Tensor, axis: i64, index: &Tensor, updates: &Tensor, reduce: Option<ScatterReduce>) -> Tensor {
    match reduce {
        None => x.scatter(axis, index, updates),
        Some(reduce) => x.scatter_reduce(axis, index, updates, reduce, true),
    }
}

fn scatter_elements(call: &Call<'_>) -> Done {
    let (x, index) = (call.tensor(0)?, call.tensor(1)?);
    let axis = resolve(call.int_or("axis", 0)?, x.rank()?)?;
    let index = from_start(index, call.lengths(0)?[axis]);
    call.like(0, scattered(x, axis as i64, &index, call.tensor(2)?, reduction(call)?))
}

fn scatter_nd(call: &Call<'_>) -> Done {
    let (x, index, updates) = (call.tensor(0)?, call.tensor(1)?, call.tensor(2)?);
    let (lengths, index_lengths) = (call.lengths(0)?, call.lengths(1)?);
    let Some((&depth, outer)) = index_lengths.split_last() else { wrong!("the indices have no axes") };
    if !(0..=lengths.len() as i64).contains(&depth) {
        wrong!("{depth} indices do not fit {} axes", lengths.len());
    }
    let (first, rest) = lengths.split_at(depth as usize);
    let (count, width) = (product(outer), product(rest));
    let mut position = Tensor::zeros_of([count], DType::I64);
    for (number, &length) in first.iter().enumerate() {
        let along = index.narrow(-1, number as i64, 1i64).reshape([count]).cast(DType::I64);
        position = position * length + from_start(&along, length);
    }
    let flat = product(first);
    let position = position.reshape([count, 1]).expand([count, width]);
    let result = scattered(&x.reshape([flat, width]), 0, &position, &updates.reshape([count, width]), reduction(call)?);
    call.like(0, result.reshape(lengths))
}

/// An update of part of a cache, from a position of its own for each of a batch.
fn tensor_scatter(call: &Call<'_>) -> Done {
    let (cache, update) = (call.tensor(0)?, call.tensor(1)?);
    let (lengths, given) = (call.lengths(0)?, call.lengths(1)?);
    let axis = resolve(call.int_or("axis", -2)?, lengths.len())?;
    if axis == 0 || given.len() != lengths.len() {
        wrong!("the axis must not be that of the batch, and the update have the {} axes of the cache", lengths.len());
    }
    let mut line = vec![1i64; given.len()];
    line[axis] = given[axis];
    let mut position = Tensor::iota(given[axis]).cast(DType::I64).reshape(line);
    if let Some(starts) = call.optional(2)? {
        let mut batch = vec![1i64; given.len()];
        batch[0] = given[0];
        position = position + starts.cast(DType::I64).reshape(batch);
    }
    if call.text_or("mode", "linear")? == "circular" {
        position = position % lengths[axis];
    }
    call.like(0, cache.scatter(axis as i64, &position.expand(given), update))
}

fn one_hot(call: &Call<'_>) -> Done {
    let (index, values) = (call.tensor(0)?, call.tensor(2)?);
    let depth = match call.floats(1)?[..] {
        [depth] if depth >= 0.0 => depth as i64,
        ref other => wrong!("the depth is {other:?}, and must be one number from 0 on"),
    };
    let rank = index.rank()? + 1;
    let axis = resolve(call.int_or("axis", -1)?, rank)?;
    let mut line = vec![1i64; rank];
    line[axis] = depth;
    let index = from_start(&index.cast(DType::I64), depth).unsqueeze(axis as i64);
    let here = index.eq(Tensor::iota(depth).cast(DType::I64).reshape(line));
    let [off, on] = [0i64, 1].map(|at| values.get(at));
    call.like(2, here.where_(on, off))
}

fn reverse_sequence(call: &Call<'_>) -> Done {
    let lengths = call.lengths(0)?;
    let time = resolve(call.int_or("time_axis", 0)?, lengths.len())?;
    let batch = resolve(call.int_or("batch_axis", 1)?, lengths.len())?;
    call.like(0, reversed(call.tensor(0)?, call.tensor(1)?, time, batch)?)
}

/// The first elements of each sequence in reverse, as many as `counts` says.
pub(super) fn reversed(x: &Tensor, counts: &Tensor, time: usize, batch: usize) -> Result<Tensor, Failure> {
    let lengths = super::super::call::lengths(x)?;
    let line = |axis: usize| {
        let mut line = vec![1i64; lengths.len()];
        line[axis] = lengths[axis];
        line
    };
    let at = Tensor::iota(lengths[time]).cast(DType::I64).reshape(line(time));
    let counts = counts.cast(DType::I64).reshape(line(batch));
    let from = at.lt(&counts).where_(&counts - 1 - &at, &at);
    Ok(x.gather(&from.expand(lengths.clone()), time as i64))
}

fn compress(call: &Call<'_>) -> Done {
    let chosen = call.integers(1)?;
    let indices: Vec<i64> = (0..chosen.len() as i64).filter(|&at| chosen[at as usize] != 0).collect();
    let x = call.tensor(0)?;
    let (x, axis) = match call.int("axis")? {
        Some(axis) => (x.clone(), axis),
        None => (x.reshape([x.numel()?]), 0),
    };
    call.like(0, x.index_select(axis, &Tensor::from_vec(indices.clone(), [indices.len()])))
}

/// Where elements are not zero, which must be known: how many there are is the result's shape.
fn non_zero(call: &Call<'_>) -> Done {
    let (lengths, elements) = (call.lengths(0)?, call.elements(0)?);
    let is_set = |at: &usize| elements.get(*at).to_f64() != 0.0;
    let set: Vec<usize> = (0..elements.len()).filter(is_set).collect();
    let mut indices = Vec::with_capacity(set.len() * lengths.len());
    for axis in 0..lengths.len() {
        let unit = product(&lengths[axis + 1..]);
        indices.extend(set.iter().map(|&at| at as i64 / unit.max(1) % lengths[axis].max(1)));
    }
    one(Tensor::from_vec(indices, [lengths.len(), set.len()]))
}

/// Elements, or slices of an axis, once each, which must be known; with the indices of the first ones, where each went, and how often it stands.
fn unique(call: &Call<'_>) -> Done {
    let x = call.tensor(0)?;
    let lengths = call.lengths(0)?;
    let axis = call.int("axis")?.map(|axis| resolve(axis, lengths.len())).transpose()?;
    let rows = match axis {
        Some(axis) => x.movedim(axis as i64, 0),
        None => x.reshape([x.numel()?, 1]),
    };
    let shape = super::super::call::lengths(&rows)?;
    let (count, width) = (shape[0] as usize, shape[1..].iter().product::<i64>() as usize);
    call.elements(0)?;
    let elements = rows.elements()?;
    let row = |at: usize| -> Vec<f64> { (0..width).map(|k| elements.get(at * width + k).to_f64()).collect() };
    let order = |a: &usize, b: &usize| {
        let pairs = row(*a).into_iter().zip(row(*b)).map(|(a, b)| a.total_cmp(&b));
        pairs.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)
    };
    let mut sorted: Vec<usize> = (0..count).collect();
    sorted.sort_by(order);
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for at in sorted {
        match groups.last_mut() {
            Some(group) if order(&group[0], &at).is_eq() => group.push(at),
            _ => groups.push(vec![at]),
        }
    }
    if call.int_or("sorted", 1)? == 0 {
        groups.sort_by_key(|group| group[0]);
    }
    let mut went = vec![0i64; count];
    groups.iter().enumerate().for_each(|(number, group)| group.iter().for_each(|&at| went[at] = number as i64));
    let line = |values: Vec<i64>| Tensor::from_vec(values.clone(), [values.len()]);
    let first = line(groups.iter().map(|group| group[0] as i64).collect());
    let counts = line(groups.iter().map(|group| group.len() as i64).collect());
    let found = rows.index_select(0, &first);
    let found = match axis {
        Some(axis) => found.movedim(0, axis as i64),
        None => found.reshape([groups.len()]),
    };
    let mut values: Vec<Value> = one_of(found, call.array(0)?.element)?;
    values.extend(super::super::call::all([first, line(went), counts])?);
    Ok(values)
}
