//! The gradient of strided views: of windows in particular, which convolutions and pooling are made of.
//!
//! Most views take each axis of their base apart on its own: the elements of base axis `a` are `offset + sum(m_j * i_j)` over the
//! view axes j whose strides are multiples `m_j` of the stride of `a`. Then the gradient is gathered axis by axis, with movement ops alone:
//! one view axis is spread by its step and padded; of two (windows: one counts them, one runs within), the gradient at p is the sum over k
//! of `g[p - m k, k]`, which a second, slanted view of the padded gradient lists along k, for one sum at the end. So the backward pass of a
//! convolution reads where it needs and scatters nothing.
//!
//! What does not come apart so (diagonals, overlaps across axes) is scattered: each element of the view adds to the one that it shows.

use std::sync::Arc;

use smallvec::smallvec;

use super::rules::{Contribution, sum};
use super::scans::summed;
use crate::ir::{Arg, Dim, Op, Shape, StridedArg};
use crate::ops::slicing::spread;
use crate::{DType, UOp};

/// A view axis as steps along an axis of the base.
#[derive(Clone, Copy, Debug)]
struct Steps {
    view_axis: usize,
    step: i64,
    count: i64,
}

/// What the view reads of one axis of the base.
#[derive(Clone, Debug, Default)]
struct Reads {
    offset: i64,
    steps: Vec<Steps>,
}

pub(super) fn as_strided(node: &UOp, g: &UOp) -> Contribution {
    let Arg::Strided(view) = node.arg() else { return smallvec![None] };
    let base = &node.src()[0];
    let plan = lengths_to_plan(base.shape(), view)
        .and_then(|(lengths, shape)| Some((take_apart(&lengths, &shape, view)?, lengths)));
    smallvec![Some(match plan {
        Some((reads, lengths)) => gathered(g, &lengths, reads, view),
        None => scattered(base, g, view),
    })]
}

/// The lengths of base and view as numbers. A first axis that is one axis of both may be symbolic, as a batch is: nothing that is made of
/// the other axes depends on it, and its largest length stands for it.
fn lengths_to_plan(base: &Shape, view: &StridedArg) -> Option<(Vec<i64>, Vec<i64>)> {
    let is_batch = base.first() == view.shape.first() && view.strides.first() == base.row_major_strides().first();
    let numbers = |dims: &[Dim]| -> Option<Vec<i64>> {
        let number =
            |(axis, dim): (usize, &Dim)| if axis == 0 && is_batch { Some(dim.max_value()) } else { dim.as_const() };
        dims.iter().enumerate().map(number).collect()
    };
    Some((numbers(base)?, numbers(&view.shape)?))
}

/// What is read of each base axis, if the view takes them apart.
fn take_apart(lengths: &[i64], shape: &[i64], view: &StridedArg) -> Option<Vec<Reads>> {
    let strides = view.strides.as_const()?;
    let mut rest = view.offset.as_const()?;
    if lengths.contains(&0) || shape.contains(&0) {
        return None;
    }
    let mut unit = vec![1i64; lengths.len()];
    for axis in (0..lengths.len().saturating_sub(1)).rev() {
        unit[axis] = unit[axis + 1].checked_mul(lengths[axis + 1])?;
    }
    let mut reads = vec![Reads::default(); lengths.len()];
    for (axis, reads) in reads.iter_mut().enumerate() {
        reads.offset = rest.div_euclid(unit[axis]);
        rest = rest.rem_euclid(unit[axis]);
    }
    for (view_axis, (&count, &stride)) in shape.iter().zip(&strides).enumerate() {
        if count == 1 || stride == 0 {
            continue;
        }
        // The outermost axis whose stride divides; an axis of length 1 shares its stride with the next and cannot be stepped along.
        let fits = |&axis: &usize| stride >= unit[axis] && stride % unit[axis] == 0 && lengths[axis] > 1;
        let axis = (0..lengths.len()).find(fits)?;
        reads[axis].steps.push(Steps { view_axis, step: stride / unit[axis], count });
    }
    for (reads, &len) in reads.iter().zip(lengths) {
        let reach = reads.steps.iter().try_fold(reads.offset, |reach, steps| {
            steps.step.checked_mul(steps.count - 1).and_then(|more| reach.checked_add(more))
        })?;
        if reach >= len || reads.offset < 0 {
            return None;
        }
    }
    Some(reads)
}

/// The gradient, axis by axis: view axes give way to base axes, and slanted views leave an axis each to sum over.
fn gathered(g: &UOp, lengths: &[i64], reads: Vec<Reads>, view: &StridedArg) -> UOp {
    let repeated: Vec<usize> = (0..view.shape.len())
        .filter(|&axis| {
            !view.shape[axis].is(1)
                && !reads.iter().any(|reads| reads.steps.iter().any(|steps| steps.view_axis == axis))
        })
        .collect();
    // Axes of stride 0 read the same again and again, and axes of length 1 do not matter: both go away.
    let mut value = if repeated.is_empty() { g.clone() } else { sum(g, &repeated) };
    let used: Vec<usize> =
        (0..view.shape.len()).filter(|&axis| !repeated.contains(&axis) && !view.shape[axis].is(1)).collect();
    value = value.reshape(used.iter().map(|&axis| view.shape[axis].clone()).collect::<Shape>());
    // View axes in the order of the base: [first of each base axis.., its others..].
    let position = |steps: &Steps| used.iter().position(|&axis| axis == steps.view_axis).unwrap_or(0);
    let mut order = Vec::with_capacity(used.len());
    for reads in &reads {
        order.extend(reads.steps.iter().map(position));
    }
    if order.iter().enumerate().any(|(k, &axis)| k != axis) {
        value = value.permute(&order);
    }
    let mut axis = 0;
    for (reads, &len) in reads.iter().zip(lengths) {
        let mut steps = reads.steps.clone();
        // The longest first: it stays, and the others are summed over.
        let longest = (0..steps.len()).max_by_key(|&k| (steps[k].count, std::cmp::Reverse(k))).unwrap_or(0);
        if longest > 0 {
            let mut order: Vec<usize> = (0..value.shape().len()).collect();
            let first = order.remove(axis + longest);
            order.insert(axis, first);
            value = value.permute(&order);
            let first = steps.remove(longest);
            steps.insert(0, first);
        }
        value = along_axis(value, axis, &steps);
        let reach = value.shape()[axis].max_value();
        value = padded(&value, axis, reads.offset, len - reads.offset - reach);
        axis += 1;
    }
    let summed: Vec<usize> = (axis..value.shape().len()).collect();
    if summed.is_empty() { value } else { sum(&value, &summed) }
}

/// The view axes at `axis..` that read one base axis become that axis; those to be summed move to the end.
fn along_axis(value: UOp, axis: usize, steps: &[Steps]) -> UOp {
    let Some(first) = steps.first() else {
        let mut lengths = value.shape().to_vec();
        lengths.insert(axis, Dim::Const(1));
        return value.reshape(lengths);
    };
    if let [first, second] = steps
        && first.step > 1
        && second.step == 1
    {
        return by_phases(&value, axis, *first, *second);
    }
    let mut value = spread(&value, axis, first.step);
    for steps in &steps[1..] {
        value = slanted(&value, axis, steps);
    }
    value
}

/// As spread by the step and slanted, of windows that lie a step apart, without zeros between: with `k = step * tap + r` the gradient at `step * t + r` is
/// the sum over taps of `g[t - tap, step * tap + r]`.
fn by_phases(value: &UOp, axis: usize, windows: Steps, within: Steps) -> UOp {
    let (step, count) = (windows.step, within.count);
    let taps = (count + step - 1) / step;
    let whole = padded(value, axis + 1, 0, taps * step - count);
    let mut lengths = whole.shape().to_vec();
    lengths.splice(axis + 1..axis + 2, [Dim::Const(taps), Dim::Const(step)]);
    let apart = slanted(&whole.reshape(lengths), axis, &Steps { step: 1, count: taps, ..within });
    // [.., t, r, .., tap]
    let mut lengths = apart.shape().to_vec();
    let phases = lengths.remove(axis + 1).max_value();
    let all = lengths[axis].max_value() * phases;
    lengths[axis] = Dim::Const(all);
    let joined = apart.reshape(lengths);
    // As far as windows reach; behind are zeros that filled the last tap.
    let reach = (windows.count - 1) * step + count;
    let bounds: Vec<(Dim, Dim)> = (joined.shape().iter().enumerate())
        .map(|(k, len)| (Dim::Const(0), if k == axis { Dim::Const(reach) } else { len.clone() }))
        .collect();
    joined.shrink(&bounds)
}

/// From `g[q, k]` at `axis` and the next to `h[p, .., k]` with `h[p, k] = g[p - step k, k]`: rows in reverse, each padded on both sides by
/// the reach of k and read from `step k` on, which is a view whose rows are longer by `step` than the memory's.
fn slanted(value: &UOp, axis: usize, steps: &Steps) -> UOp {
    let reach = steps.step * (steps.count - 1);
    let len = value.shape()[axis].max_value();
    let rank = value.shape().len();
    let wide = padded(value, axis, reach, reach).flip(&[axis + 1]);
    // [.., k, q]: rows along the last axis.
    let mut order: Vec<usize> = (0..rank).filter(|&k| k != axis && k != axis + 1).collect();
    order.extend([axis + 1, axis]);
    let rows = wide.permute(&order);
    let row = len + 2 * reach;
    let strides = rows.shape().row_major_strides();
    let (mut shape, mut slant) = (rows.shape().to_vec(), strides);
    shape[rank - 1] = Dim::Const(len + reach);
    slant[rank - 2] = Dim::Const(row + steps.step);
    let arg = StridedArg { shape: shape.into(), strides: slant.into(), offset: Dim::Const(0) };
    let view = UOp::new(Op::AsStrided, rows.dtype(), vec![rows], Arg::Strided(Arc::new(arg)));
    // p back to `axis`, k to the end.
    let mut order: Vec<usize> = (0..rank - 2).collect();
    order.insert(axis, rank - 1);
    order.push(rank - 2);
    view.permute(&order)
}

fn padded(x: &UOp, axis: usize, before: i64, after: i64) -> UOp {
    if before == 0 && after == 0 {
        return x.clone();
    }
    let bounds: Vec<(Dim, Dim)> = (0..x.shape().len())
        .map(|k| if k == axis { (before.into(), after.into()) } else { (Dim::Const(0), Dim::Const(0)) })
        .collect();
    x.pad(&bounds)
}

/// What each element of the view got is added to the element of the base that it shows.
fn scattered(base: &UOp, g: &UOp, view: &StridedArg) -> UOp {
    let mut offset = UOp::index(0) + view.offset.to_uop();
    for axis in 0..view.shape.len() {
        let line: Shape =
            (0..view.shape.len()).map(|k| if k == axis { view.shape[k].clone() } else { Dim::Const(1) }).collect();
        let along = UOp::iota(view.shape[axis].clone()).reshape(line).expand(view.shape.clone());
        offset = offset + along * view.strides[axis].to_uop();
    }
    let (elements, reads) = (base.shape().numel(), view.shape.numel());
    let offset = offset.cast(DType::I64).reshape([reads.clone()]);
    summed(&base.reshape([elements]), &offset, &g.reshape([reads]), 0).reshape(base.shape().clone())
}
