//! One view: a box of positions laid over flat memory by strides, of which a part may be void.
//!
//! Position `(i, j, ...)` is element `offset + i * strides[0] + j * strides[1] + ...`. The *mask* gives for each axis the
//! range of positions that stand for an element; all others are void and read as zero. `None` says that no position is void.
//!
//! ```text
//! shape [6], strides [1], offset -2, mask (2, 5) over 0 1 2:    . . 0 1 2 .
//! ```
//!
//! Always (made so by [`View::new`]): an axis of which at most one position is not void has stride 0; a mask that hides nothing is `None`;
//! a view in which all is void has strides and offset 0. So equal views of concrete shape that show the same are mostly equal values.
//! Not here: several views on top of each other (`tracker`), two views made one (`merge`), other shapes (`reshape`).
//! Tests: `properties`, against lists of element numbers.

use std::sync::Arc;

use super::dims::{same, simplified};
use crate::ir::{Axes, Dim, Shape};

/// First position that is not void, and the one after the last.
pub type Bounds = (Dim, Dim);

/// Shape, strides, offset and mask; see the head of this file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct View {
    shape: Shape,
    strides: Shape,
    offset: Dim,
    mask: Option<Arc<[Bounds]>>,
}

impl View {
    /// A view, brought into its usual form.
    ///
    /// # Panics
    /// If strides or mask do not have an entry for each axis.
    pub fn new(shape: Shape, strides: Vec<Dim>, offset: Dim, mask: Option<Vec<Bounds>>) -> View {
        assert_eq!(strides.len(), shape.len(), "a stride for each axis of {shape}");
        if let Some(mask) = &mask {
            assert_eq!(mask.len(), shape.len(), "bounds for each axis of {shape}");
        }
        if shape.iter().any(|dim| dim.is(0)) {
            return View { strides: zeros(shape.len()).into(), shape, offset: Dim::Const(0), mask: None };
        }
        let mask: Option<Vec<Bounds>> =
            mask.map(|mask| mask.into_iter().map(|(start, end)| (simplified(start), simplified(end))).collect());
        if mask.iter().flatten().any(|(start, end)| end.max_value() <= start.min_value()) {
            return View::void(shape);
        }
        let mut strides: Vec<Dim> = strides.into_iter().map(simplified).collect();
        let mut offset = offset;
        for (axis, dim) in shape.iter().enumerate() {
            let first = match &mask {
                Some(mask) if same(&(&mask[axis].1 - &mask[axis].0), &Dim::Const(1)) => mask[axis].0.clone(),
                _ if dim.is(1) => Dim::Const(0),
                _ => continue,
            };
            offset = &offset + &(&first * &strides[axis]);
            strides[axis] = Dim::Const(0);
        }
        let hides = |mask: &Vec<Bounds>| mask.iter().zip(shape.iter()).any(|((a, b), dim)| !a.is(0) || !same(b, dim));
        let mask = mask.filter(hides).map(Arc::from);
        View { strides: strides.into(), shape, offset: simplified(offset), mask }
    }

    /// Memory in row-major order from its first element.
    pub fn contiguous(shape: Shape) -> View {
        let strides = shape.row_major_strides();
        View::new(shape, strides, Dim::Const(0), None)
    }

    /// A view in which every position is void.
    ///
    /// # Panics
    /// If the shape has no axis, for which no mask can say so.
    pub(super) fn void(shape: Shape) -> View {
        assert!(!shape.is_empty(), "a mask needs an axis");
        let nothing = (Dim::Const(0), Dim::Const(0));
        let mask = Some(vec![nothing; shape.len()].into());
        View { strides: zeros(shape.len()).into(), shape, offset: Dim::Const(0), mask }
    }

    /// Lengths of the axes.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Elements between neighbours along each axis; 0 where an axis has no neighbours.
    pub fn strides(&self) -> &Shape {
        &self.strides
    }

    /// The element of position `(0, 0, ...)`; may be negative where that position is void.
    pub fn offset(&self) -> &Dim {
        &self.offset
    }

    /// Which positions stand for elements; `None`: all.
    pub fn mask(&self) -> Option<&[Bounds]> {
        self.mask.as_deref()
    }

    /// The positions of an axis that stand for elements.
    pub(super) fn bounds(&self, axis: usize) -> Bounds {
        match &self.mask {
            Some(mask) => mask[axis].clone(),
            None => (Dim::Const(0), self.shape[axis].clone()),
        }
    }

    /// Whether it is known that no position stands for an element although there are positions.
    pub(super) fn is_void(&self) -> bool {
        self.mask.iter().flat_map(|mask| mask.iter()).any(|(start, end)| end.max_value() <= start.min_value())
    }

    /// Whether it is memory in row-major order from its first element.
    pub fn is_contiguous(&self) -> bool {
        *self == View::contiguous(self.shape.clone())
    }

    /// Whether no length, stride, offset or bound is symbolic.
    pub fn is_concrete(&self) -> bool {
        let mut concrete = true;
        self.for_each_dim(&mut |dim| concrete &= dim.as_const().is_some());
        concrete
    }

    /// Every length, stride, offset and bound.
    pub(super) fn for_each_dim(&self, visit: &mut dyn FnMut(&Dim)) {
        self.shape.iter().chain(self.strides.iter()).for_each(&mut *visit);
        visit(&self.offset);
        for (start, end) in self.mask.iter().flat_map(|mask| mask.iter()) {
            visit(start);
            visit(end);
        }
    }

    /// The view with every length, stride, offset and bound exchanged.
    pub(super) fn map_dims(&self, map: &mut dyn FnMut(&Dim) -> Dim) -> View {
        let mask = self.mask().map(|mask| mask.iter().map(|(start, end)| (map(start), map(end))).collect());
        let strides = self.strides.iter().map(&mut *map).collect();
        let offset = map(&self.offset);
        View::new(self.shape.iter().map(map).collect(), strides, offset, mask)
    }
}

/// The movement ops.
///
/// Their arguments fit the shape, as the nodes of a graph are known to; the functions panic otherwise.
impl View {
    /// Axes in another order: axis k of the result is axis `order[k]`.
    pub fn permute(&self, order: &[u8]) -> View {
        let pick = |dims: &[Dim]| -> Vec<Dim> { order.iter().map(|&axis| dims[axis as usize].clone()).collect() };
        let mask = self.mask().map(|mask| order.iter().map(|&axis| mask[axis as usize].clone()).collect());
        View::new(pick(&self.shape).into(), pick(&self.strides), self.offset.clone(), mask)
    }

    /// Axes of length 1 repeated.
    pub fn expand(&self, to: &Shape) -> View {
        if self.is_void() && !to.iter().any(|dim| dim.is(0)) {
            return View::void(to.clone());
        }
        let repeats = |axis: usize| self.shape[axis] != to[axis];
        // A repeated axis has length 1 and so stride 0 already; its one position is no void one.
        let mask = self.mask().map(|mask| {
            let repeated = |axis: usize| (Dim::Const(0), to[axis].clone());
            (0..to.len()).map(|axis| if repeats(axis) { repeated(axis) } else { mask[axis].clone() }).collect()
        });
        View::new(to.clone(), self.strides.to_vec(), self.offset.clone(), mask)
    }

    /// Void positions put before and after each axis.
    pub fn pad(&self, padding: &[(Dim, Dim)]) -> View {
        if padding.iter().all(|(before, after)| before.is(0) && after.is(0)) {
            return self.clone();
        }
        let shape: Shape =
            self.shape.iter().zip(padding).map(|(dim, (before, after))| simplified(&(dim + before) + after)).collect();
        if self.shape.iter().any(|dim| dim.is(0)) {
            let filled = !shape.iter().any(|dim| dim.is(0));
            return if filled { View::void(shape) } else { View::contiguous(shape) };
        }
        let mask = (0..shape.len()).map(|axis| {
            let (start, end) = self.bounds(axis);
            (&start + &padding[axis].0, &end + &padding[axis].0)
        });
        let offset = padding
            .iter()
            .zip(self.strides.iter())
            .fold(self.offset.clone(), |offset, ((before, _), stride)| &offset - &(before * stride));
        View::new(shape, self.strides.to_vec(), offset, Some(mask.collect()))
    }

    /// The part from start to end of each axis.
    pub fn shrink(&self, bounds: &[(Dim, Dim)]) -> View {
        let shape: Shape = bounds.iter().map(|(start, end)| simplified(end - start)).collect();
        let offset = bounds
            .iter()
            .zip(self.strides.iter())
            .fold(self.offset.clone(), |offset, ((start, _), stride)| &offset + &(start * stride));
        let mask = self.mask().map(|mask| {
            let clip = |value: &Dim, start: &Dim, len: &Dim| clamp(&simplified(value - start), len);
            let part = mask.iter().zip(bounds).zip(shape.iter());
            part.map(|((own, (start, _)), len)| (clip(&own.0, start, len), clip(&own.1, start, len))).collect()
        });
        View::new(shape, self.strides.to_vec(), offset, mask)
    }

    /// The given axes in reverse.
    pub fn flip(&self, axes: &Axes) -> View {
        let mut strides = self.strides.to_vec();
        let mut mask = self.mask().map(<[Bounds]>::to_vec);
        let mut offset = self.offset.clone();
        for axis in (0..self.shape.len()).filter(|axis| axes.contains(&(*axis as u8))) {
            let last = &self.shape[axis] - &Dim::Const(1);
            offset = &offset + &(&last * &strides[axis]);
            strides[axis] = &Dim::Const(0) - &strides[axis];
            if let Some(mask) = &mut mask {
                let (start, end) = &mask[axis];
                mask[axis] = (&self.shape[axis] - end, &self.shape[axis] - start);
            }
        }
        View::new(self.shape.clone(), strides, offset, mask)
    }
}

fn zeros(len: usize) -> Vec<Dim> {
    vec![Dim::Const(0); len]
}

/// The value moved into 0 to `len`.
fn clamp(value: &Dim, len: &Dim) -> Dim {
    if let (Some(value), Some(len)) = (value.as_const(), len.as_const()) {
        return Dim::Const(value.clamp(0, len));
    }
    if value.max_value() <= 0 {
        return Dim::Const(0);
    }
    // Ask for the sign of the difference: `n` and `n + 3` overlap as ranges, though one is always the larger.
    let room = simplified(len - value);
    let low = if value.min_value() < 0 { Dim::from(value.to_uop().max(0)) } else { value.clone() };
    let clamped = match (room.min_value() >= 0, room.max_value() <= 0) {
        (true, _) => low,
        (_, true) => len.clone(),
        _ => Dim::from(low.to_uop().min(len.to_uop())),
    };
    simplified(clamped)
}
