//! One random view of a tensor, with the positions that it should show: for programs of views and writes.

use warpweft::Tensor;
use warpweft::tensor::Index;

use crate::choices::Choices;
use crate::write_programs::slice;

/// A view, and what it should show.
pub(crate) struct Made {
    /// The view, made by the library.
    pub(crate) tensor: Tensor,
    /// How it was made.
    pub(crate) name: String,
    /// For each of its positions, row-major, that of what it was made of.
    pub(crate) positions: Vec<usize>,
    /// Whether positions are those of the storage.
    pub(crate) in_storage: bool,
    /// Whether it may be a copy.
    pub(crate) may_copy: bool,
}

/// Every index of a shape, row-major.
fn indices_of(shape: &[i64]) -> Vec<Vec<i64>> {
    shape.iter().fold(vec![Vec::new()], |all, &len| {
        all.iter().flat_map(|index| (0..len).map(move |at| [&index[..], &[at]].concat())).collect()
    })
}

fn position(index: &[i64], shape: &[i64]) -> usize {
    index.iter().zip(shape).fold(0, |position, (at, len)| position * len + at) as usize
}

/// The positions that a rule from the new index to the old one gives.
fn by_rule(shape: &[i64], from: &[i64], rule: impl Fn(&[i64]) -> Vec<i64>) -> Vec<usize> {
    indices_of(shape).iter().map(|index| position(&rule(index), from)).collect()
}

/// A view of a tensor of this shape, whose storage has so many elements; none where the choice does not fit.
// tidy: table
pub(crate) fn view(choices: &mut Choices<'_>, x: &Tensor, shape: &[i64], storage: usize) -> Option<Made> {
    let rank = shape.len();
    let axis = choices.between(0, rank.max(1) as i64 - 1) as usize;
    let kind = choices.between(0, 9);
    if rank == 0 && !matches!(kind, 0 | 8) {
        return None;
    }
    let plain = |tensor: Tensor, name: String, positions: Vec<usize>| {
        Some(Made { tensor, name, positions, in_storage: false, may_copy: false })
    };
    match kind {
        0 => {
            let to = reshaped(choices, shape);
            let positions = (0..to.iter().product::<i64>() as usize).collect();
            let (tensor, name) = (x.reshape(to.clone()), format!("reshape {to:?}"));
            Some(Made { tensor, name, positions, in_storage: false, may_copy: true })
        }
        1 => {
            let mut order: Vec<usize> = (0..rank).collect();
            order.swap(axis, rank - 1);
            let to: Vec<i64> = order.iter().map(|&old| shape[old]).collect();
            let axes: Vec<i64> = order.iter().map(|&old| old as i64).collect();
            let positions = by_rule(&to, shape, |index| {
                let mut old = vec![0; rank];
                order.iter().zip(index).for_each(|(&axis, &at)| old[axis] = at);
                old
            });
            plain(x.permute(axes.clone()), format!("permute {axes:?}"), positions)
        }
        2 => {
            let positions = by_rule(shape, shape, |index| {
                let mut old = index.to_vec();
                old[axis] = shape[axis] - 1 - old[axis];
                old
            });
            plain(x.flip(axis as i64), format!("flip {axis}"), positions)
        }
        3 | 4 => sliced(choices, x, shape, axis, kind == 4),
        5 => {
            let at = choices.between(0, shape[axis] - 1);
            let mut index = vec![Index::ALL; rank];
            index[axis] = Index::At(at);
            let mut to = shape.to_vec();
            to.remove(axis);
            let positions = by_rule(&to, shape, |index| [&index[..axis], &[at], &index[axis..]].concat());
            plain(x.get(index), format!("select {at} of axis {axis}"), positions)
        }
        6 => {
            let mut to = shape.to_vec();
            to.insert(0, 2);
            let positions = by_rule(&to, shape, |index| index[1..].to_vec());
            plain(x.expand(to.clone()), format!("expand {to:?}"), positions)
        }
        7 if rank >= 2 && axis > 0 => {
            let offset = choices.between(-1, 1);
            let (row, column) = ((-offset).max(0), offset.max(0));
            let len = (shape[axis - 1] - row).min(shape[axis] - column).max(0);
            if len == 0 {
                return None;
            }
            let others: Vec<usize> = (0..rank).filter(|&k| k != axis && k != axis - 1).collect();
            let to: Vec<i64> = others.iter().map(|&k| shape[k]).chain([len]).collect();
            let positions = by_rule(&to, shape, |index| {
                let mut old = vec![0; rank];
                others.iter().zip(index).for_each(|(&k, &at)| old[k] = at);
                let along = index[index.len() - 1];
                (old[axis - 1], old[axis]) = (along + row, along + column);
                old
            });
            let tensor = x.diagonal(offset, axis as i64 - 1, axis as i64);
            plain(tensor, format!("diagonal {offset} of axes {}, {axis}", axis - 1), positions)
        }
        8 => strided(choices, x, storage),
        9 => {
            let size = choices.between(1, shape[axis].min(3));
            let step = choices.between(1, 3);
            let count = (shape[axis] - size) / step + 1;
            let mut to = shape.to_vec();
            to[axis] = count;
            to.push(size);
            let positions = by_rule(&to, shape, |index| {
                let mut old = index[..rank].to_vec();
                old[axis] = index[axis] * step + index[rank];
                old
            });
            plain(x.unfold(axis as i64, size, step), format!("unfold axis {axis} by {size}, {step}"), positions)
        }
        _ => None,
    }
}

fn reshaped(choices: &mut Choices<'_>, shape: &[i64]) -> Vec<i64> {
    let numel: i64 = shape.iter().product();
    let divisors: Vec<i64> = (1..=numel).filter(|divisor| numel % divisor == 0).collect();
    let first = *choices.one_of(&divisors);
    match choices.between(0, 2) {
        0 => vec![numel],
        1 => vec![first, numel / first],
        _ => vec![first, 1, numel / first],
    }
}

fn sliced(choices: &mut Choices<'_>, x: &Tensor, shape: &[i64], axis: usize, backward: bool) -> Option<Made> {
    let len = shape[axis];
    let start = choices.between(0, len - 1);
    let step = choices.between(1, 3);
    let (count, step, stop) = if backward {
        (start / step + 1, -step, None)
    } else {
        let stop = choices.between(start + 1, len);
        ((stop - start - 1) / step + 1, step, Some(stop))
    };
    let mut index = vec![Index::ALL; shape.len()];
    index[axis] = slice(start, stop, step);
    let mut to = shape.to_vec();
    to[axis] = count;
    let positions = by_rule(&to, shape, |index| {
        let mut old = index.to_vec();
        old[axis] = start + old[axis] * step;
        old
    });
    let name = format!("slice {start}..{stop:?} by {step} of axis {axis}");
    Some(Made { tensor: x.get(index), name, positions, in_storage: false, may_copy: false })
}

fn strided(choices: &mut Choices<'_>, x: &Tensor, storage: usize) -> Option<Made> {
    let shape = [choices.between(1, 4), choices.between(1, 3)];
    let strides = [choices.between(0, 5), choices.between(0, 3)];
    let reach = (shape[0] - 1) * strides[0] + (shape[1] - 1) * strides[1];
    let offset = choices.between(0, (storage as i64 - 1 - reach).max(0));
    if reach + offset >= storage as i64 {
        return None;
    }
    let element = |index: &Vec<i64>| (offset + index[0] * strides[0] + index[1] * strides[1]) as usize;
    let positions = indices_of(&shape).iter().map(element).collect();
    let tensor = x.as_strided(&shape, &strides, Some(offset));
    let name = format!("as_strided {shape:?} {strides:?} {offset}");
    Some(Made { tensor, name, positions, in_storage: true, may_copy: false })
}
