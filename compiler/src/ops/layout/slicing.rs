//! Slices with Python's meaning: any start, stop and step, counted from either end, cut to the axis.

use super::movement::{check_within, pad_axis, shrink_axis};
use crate::UOp;
use crate::ir::{Dim, Shape};
use crate::ops::shapes::concrete_axis;
use crate::ops::{Built, fail};
use crate::view::dims::simplified;

/// What is taken of one axis, or put in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slice {
    /// One element, from the end if negative; the axis goes away.
    At(i64),
    /// Every `step`-th element from `start` up to but without `stop`; backwards when the step is negative.
    Range {
        /// The first; the end to begin from when absent.
        start: Option<i64>,
        /// Where to stop; the other end when absent.
        stop: Option<i64>,
        /// Distance between elements; not 0.
        step: i64,
    },
    /// A new axis of length 1.
    New,
    /// As many whole axes as are left over.
    Rest,
}

impl Slice {
    /// A whole axis.
    pub const ALL: Slice = Slice::Range { start: None, stop: None, step: 1 };
}

/// One axis with its start, its step and how many elements that gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ops) struct Steps {
    /// First element.
    pub(in crate::ops) start: i64,
    /// Distance to the next.
    pub(in crate::ops) step: i64,
    /// Elements.
    pub(in crate::ops) count: i64,
}

/// Python's `slice.indices`.
pub(in crate::ops) fn resolve(start: Option<i64>, stop: Option<i64>, step: i64, len: i64) -> Built<Steps> {
    if step == 0 {
        fail!("a slice has step 0");
    }
    let (lowest, highest) = if step > 0 { (0, len) } else { (-1, len - 1) };
    let clip = |bound: i64| {
        let bound = if bound < 0 { bound.saturating_add(len) } else { bound };
        bound.clamp(lowest, highest)
    };
    let first = start.map_or(if step > 0 { lowest } else { highest }, clip);
    let last = stop.map_or(if step > 0 { highest } else { lowest }, clip);
    let distance = if step > 0 { last - first } else { first - last };
    let step_len = step.unsigned_abs().min(i64::MAX as u64) as i64;
    let count = if distance <= 0 { 0 } else { (distance - 1) / step_len + 1 };
    Ok(Steps { start: if count == 0 { 0 } else { first }, step, count })
}

/// The list with `Rest` replaced by whole axes, one entry an axis (and `New` entries between).
pub(in crate::ops) fn complete(slices: &[Slice], rank: usize) -> Built<Vec<Slice>> {
    let taken = slices.iter().filter(|slice| !matches!(slice, Slice::New | Slice::Rest)).count();
    if taken > rank {
        fail!("{taken} slices for {rank} axes");
    }
    let mut rests = slices.iter().filter(|slice| matches!(slice, Slice::Rest));
    let has_rest = rests.next().is_some();
    if rests.next().is_some() {
        fail!("the rest of the axes is named twice");
    }
    let mut result = Vec::new();
    for &slice in slices {
        match slice {
            Slice::Rest => result.extend(std::iter::repeat_n(Slice::ALL, rank - taken)),
            _ => result.push(slice),
        }
    }
    if !has_rest {
        result.extend(std::iter::repeat_n(Slice::ALL, rank - taken));
    }
    Ok(result)
}

/// Part of a tensor.
pub fn slice(x: &UOp, slices: &[Slice]) -> Built {
    let slices = complete(slices, x.shape().len())?;
    let mut result = x.clone();
    let mut shape: Vec<Dim> = Vec::new();
    let mut axis = 0;
    for slice in slices {
        match slice {
            Slice::New | Slice::Rest => shape.push(Dim::Const(1)),
            Slice::ALL => {
                shape.push(result.shape()[axis].clone());
                axis += 1;
            }
            Slice::At(index) => {
                let start = from_either_end(index, &result.shape()[axis], axis)?;
                result = shrink_axis(&result, axis, &start, &start + 1);
                axis += 1;
            }
            Slice::Range { start, stop, step: 1 } if result.shape()[axis].as_const().is_none() => {
                let len = result.shape()[axis].clone();
                let from_end = |bound: i64| if bound < 0 { &len + bound } else { Dim::Const(bound) };
                let (start, stop) = (from_end(start.unwrap_or(0)), stop.map_or(len.clone(), from_end));
                check_within(&start, &stop, &len, axis)?;
                result = shrink_axis(&result, axis, start, stop);
                shape.push(result.shape()[axis].clone());
                axis += 1;
            }
            Slice::Range { start, stop: None, step }
                if result.shape()[axis].as_const().is_none() && step != 0 && (start.is_none() || step > 0) =>
            {
                result = steps_to_the_end(&result, axis, start.unwrap_or(0), step)?;
                shape.push(result.shape()[axis].clone());
                axis += 1;
            }
            Slice::Range { start, stop, step } => {
                let steps = resolve(start, stop, step, concrete_axis(&result, axis)?)?;
                result = take_steps(&result, axis, steps);
                shape.push(Dim::Const(steps.count));
                axis += 1;
            }
        }
    }
    Ok(result.reshape(Shape::from(shape)))
}

/// Every `step`-th element from `start` on, or from the last one back, of an axis whose length is a variable.
fn steps_to_the_end(x: &UOp, axis: usize, start: i64, step: i64) -> Built {
    let len = x.shape()[axis].clone();
    let x = if step < 0 { x.flip(&[axis]) } else { x.clone() };
    let step = step.saturating_abs();
    let start = if start < 0 { &len + start } else { Dim::Const(start) };
    check_within(&start, &len, &len, axis)?;
    let x = shrink_axis(&x, axis, start.clone(), len.clone());
    if step == 1 {
        return Ok(x);
    }
    let count = &(&(&len - &start) + (step - 1)) / step;
    let indices = UOp::iota(count) * UOp::index(step);
    Ok(x.gather(&indices.cast(crate::DType::I64), axis))
}

/// An index of an axis whose length may be symbolic, from the end if negative.
fn from_either_end(index: i64, len: &Dim, axis: usize) -> Built<Dim> {
    if let Some(len) = len.as_const() {
        return resolve_index(index, len, axis).map(Dim::Const);
    }
    let index = if index < 0 { len + index } else { Dim::Const(index) };
    check_within(&index, &(&index + 1), len, axis)?;
    Ok(index)
}

/// An index of an axis, from the end if negative.
pub(in crate::ops) fn resolve_index(index: i64, len: i64, axis: usize) -> Built<i64> {
    let resolved = if index < 0 { index.saturating_add(len) } else { index };
    if resolved < 0 || resolved >= len {
        fail!("index {index} is out of range for axis {axis} of length {len}");
    }
    Ok(resolved)
}

/// Cut to what is touched, turned round if the step is negative, then every `step`-th: the first of each group of `step`.
fn take_steps(x: &UOp, axis: usize, steps: Steps) -> UOp {
    let Steps { start, step, count } = steps;
    if count == 0 {
        return shrink_axis(x, axis, 0, 0);
    }
    let reach = (count - 1).saturating_mul(step.saturating_abs());
    let (first, forward) = if step > 0 { (start, true) } else { (start - reach, false) };
    let part = shrink_axis(x, axis, first, first + reach + 1);
    let part = if forward || count == 1 { part } else { part.flip(&[axis]) };
    every(&part, axis, step.saturating_abs(), count)
}

/// Elements 0, step, 2 step, ... of an axis of length (count - 1) step + 1.
pub(super) fn every(x: &UOp, axis: usize, step: i64, count: i64) -> UOp {
    if step == 1 || count == 1 {
        return x.clone();
    }
    let whole = pad_axis(x, axis, 0, step - 1);
    let mut lengths = whole.shape().to_vec();
    lengths[axis] = Dim::Const(count);
    let kept = lengths.clone();
    lengths.insert(axis + 1, Dim::Const(step));
    shrink_axis(&whole.reshape(lengths), axis + 1, 0, 1).reshape(kept)
}

/// The inverse of [`every`]: `step - 1` zeros between neighbours of an axis.
pub(crate) fn spread(x: &UOp, axis: usize, step: i64) -> UOp {
    let count = x.shape()[axis].clone();
    if step <= 1 || count.max_value() <= 1 {
        return x.clone();
    }
    let mut lengths = x.shape().to_vec();
    lengths.insert(axis + 1, Dim::Const(1));
    let wide = pad_axis(&x.reshape(lengths), axis + 1, 0, step - 1);
    let mut lengths = x.shape().to_vec();
    lengths[axis] = simplified(&count * step);
    shrink_axis(&wide.reshape(lengths), axis, 0, simplified((count - 1) * step + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Python's rule, element by element.
    fn model(start: Option<i64>, stop: Option<i64>, step: i64, len: i64) -> Vec<i64> {
        let bound = |value: i64| if value < 0 { value + len } else { value };
        let first = start.map_or(if step > 0 { 0 } else { len - 1 }, bound);
        let first = if step > 0 { first.max(0) } else { first.min(len - 1) };
        let mut elements = Vec::new();
        let mut at = first;
        loop {
            let stopped = match stop.map(bound) {
                Some(stop) if step > 0 => at >= stop,
                Some(stop) => at <= stop,
                None => false,
            };
            if stopped || at < 0 || at >= len {
                return elements;
            }
            elements.push(at);
            at += step;
        }
    }

    #[test]
    fn slices_mean_what_python_means() {
        let bounds: Vec<Option<i64>> = std::iter::once(None).chain((-6..=6).map(Some)).collect();
        for len in 0..5 {
            for &start in &bounds {
                for &stop in &bounds {
                    for step in [-3, -2, -1, 1, 2, 3] {
                        let steps = resolve(start, stop, step, len).unwrap();
                        let elements: Vec<i64> = (0..steps.count).map(|k| steps.start + k * step).collect();
                        assert_eq!(elements, model(start, stop, step, len), "[{start:?}:{stop:?}:{step}] of {len}");
                    }
                }
            }
        }
    }

    #[test]
    fn extreme_bounds_do_not_overflow() {
        let steps = resolve(Some(i64::MIN), Some(i64::MAX), i64::MAX, 4).unwrap();
        assert_eq!(steps, Steps { start: 0, step: i64::MAX, count: 1 });
        assert_eq!(resolve(Some(i64::MAX), Some(i64::MIN), i64::MIN, 4).unwrap().count, 1);
        assert!(resolve(None, None, 0, 4).is_err());
    }
}
