//! The same elements under another shape, as one view where one can say it.
//!
//! A *chunk* is a run of neighbouring axes that one stride walks: old axes are joined into chunks from the right, and new axes
//! are cut off the chunks from the right. A cut must not leave a mask that is no box:
//!
//! ```text
//! [8] with mask (2, 6) as [2, 4]:   . . x x / x x . .    no box: `None`
//! [8] with mask (4, 8) as [2, 4]:   . . . . / x x x x    box (1, 2) x (0, 4)
//! ```
//!
//! Tests: `properties` (a reshape of random views, against lists of element numbers), and the cases below.

use super::dims::{divide_exactly, same, simplified};
use super::view::{Bounds, View};
use crate::ir::{Dim, Shape};

/// A run of axes that one stride walks.
#[derive(Clone, Debug)]
pub(super) struct Chunk {
    pub(super) len: Dim,
    pub(super) stride: Dim,
    pub(super) bounds: Bounds,
}

impl Chunk {
    pub(super) fn hides_nothing(&self) -> bool {
        self.bounds.0.is(0) && same(&self.bounds.1, &self.len)
    }
}

/// The fewest chunks that say the same as a view, outermost first, and the offset that goes with them.
pub(super) fn chunks(view: &View) -> (Vec<Chunk>, Dim) {
    let mut offset = view.offset().clone();
    let mut found: Vec<Chunk> = Vec::new();
    for axis in (0..view.shape().len()).rev() {
        let outer =
            Chunk { len: view.shape()[axis].clone(), stride: view.strides()[axis].clone(), bounds: view.bounds(axis) };
        if outer.len.is(1) {
            continue;
        }
        match found.last_mut() {
            Some(inner) => match join(&outer, inner, &mut offset) {
                Some(joined) => *inner = joined,
                None => found.push(outer),
            },
            None => found.push(outer),
        }
    }
    found.reverse();
    (found, simplified(offset))
}

fn join(outer: &Chunk, inner: &Chunk, offset: &mut Dim) -> Option<Chunk> {
    let len = simplified(&outer.len * &inner.len);
    if inner.hides_nothing() && same(&outer.stride, &simplified(&inner.stride * &inner.len)) {
        let bounds = (&outer.bounds.0 * &inner.len, &outer.bounds.1 * &inner.len);
        return Some(Chunk { len, stride: inner.stride.clone(), bounds: (simplified(bounds.0), simplified(bounds.1)) });
    }
    // Only one position of the outer axis holds anything: the inner stride may run on through what is void.
    if same(&(&outer.bounds.1 - &outer.bounds.0), &Dim::Const(1)) {
        let before = simplified(&outer.bounds.0 * &inner.len);
        *offset = &*offset - &(&before * &inner.stride);
        let bounds = (simplified(&before + &inner.bounds.0), simplified(&before + &inner.bounds.1));
        return Some(Chunk { len, stride: inner.stride.clone(), bounds });
    }
    None
}

/// Cuts an axis of the given length off the right end of a chunk: its stride and bounds, and what is left of the chunk.
fn cut(chunk: &Chunk, len: &Dim) -> Option<(Dim, Bounds, Chunk)> {
    if same(&chunk.len, len) {
        let one = Dim::Const(1);
        let nothing = Chunk { len: one.clone(), stride: Dim::Const(0), bounds: (Dim::Const(0), one) };
        return Some((chunk.stride.clone(), chunk.bounds.clone(), nothing));
    }
    let rest = divide_exactly(&chunk.len, len)?;
    let stride = simplified(&chunk.stride * len);
    let whole = (Dim::Const(0), len.clone());
    if chunk.hides_nothing() {
        let bounds = (Dim::Const(0), rest.clone());
        return Some((chunk.stride.clone(), whole, Chunk { len: rest, stride, bounds }));
    }
    let (start, end) = &chunk.bounds;
    if let (Some(start), Some(end)) = (divide_exactly(start, len), divide_exactly(end, len)) {
        return Some((chunk.stride.clone(), whole, Chunk { len: rest, stride, bounds: (start, end) }));
    }
    let (start, end, len) = (start.as_const()?, end.as_const()?, len.as_const()?);
    let row = start / len;
    if row != (end - 1) / len {
        return None;
    }
    let bounds = (Dim::Const(start - row * len), Dim::Const(end - row * len));
    let rest = Chunk { len: rest, stride, bounds: (Dim::Const(row), Dim::Const(row + 1)) };
    Some((chunk.stride.clone(), bounds, rest))
}

impl View {
    /// The same elements in row-major order under another shape of as many; `None` if no one view says so.
    pub fn reshape(&self, to: &Shape) -> Option<View> {
        if self.shape() == to {
            return Some(self.clone());
        }
        if self.shape().iter().any(|dim| dim.is(0)) || to.iter().any(|dim| dim.is(0)) {
            return Some(View::contiguous(to.clone()));
        }
        if self.is_void() {
            return (!to.is_empty()).then(|| View::void(to.clone()));
        }
        let (mut left, offset) = chunks(self);
        let mut strides = vec![Dim::Const(0); to.len()];
        let mut mask = vec![(Dim::Const(0), Dim::Const(1)); to.len()];
        let mut chunk = left.pop();
        for axis in (0..to.len()).rev().filter(|&axis| !to[axis].is(1)) {
            let (stride, bounds, rest) = cut(chunk.as_ref()?, &to[axis])?;
            (strides[axis], mask[axis]) = (stride, bounds);
            chunk = if rest.len.is(1) { left.pop() } else { Some(rest) };
        }
        if chunk.is_some() {
            return None;
        }
        Some(View::new(to.clone(), strides, offset, Some(mask)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::UOp;

    fn dims(bounds: &[(i64, i64)]) -> Vec<(Dim, Dim)> {
        bounds.iter().map(|&(a, b)| (Dim::Const(a), Dim::Const(b))).collect()
    }

    #[test]
    fn axes_join_and_part_where_one_stride_walks_them() {
        let view = View::contiguous([2, 6, 8].into()).shrink(&dims(&[(0, 2), (0, 3), (0, 8)]));
        let joined = view.reshape(&[2, 24].into()).expect("the inner axes are one run");
        assert_eq!(joined.strides().as_const(), Some(vec![48, 1]));
        assert_eq!(joined.reshape(&[2, 8, 3].into()).expect("a run parts").strides().as_const(), Some(vec![48, 3, 1]));
        assert_eq!(joined.reshape(&[48].into()), None);
    }

    #[test]
    fn a_mask_parts_only_into_a_box() {
        let padded = |before, after| View::contiguous([4].into()).pad(&dims(&[(before, after)]));
        assert_eq!(padded(2, 2).reshape(&[2, 4].into()), None);
        let lower = padded(4, 0).reshape(&[2, 4].into()).expect("the lower row");
        assert_eq!(lower.mask(), Some(&dims(&[(1, 2), (0, 4)])[..]));
    }

    #[test]
    fn symbolic_lengths_join_and_part() {
        let n = Dim::from(UOp::variable("n", 1, 64));
        let view = View::contiguous(Shape::from([Dim::Const(4), n.clone(), Dim::Const(6)]));
        let joined =
            view.reshape(&Shape::from([&Dim::Const(4) * &n, Dim::Const(6)])).expect("contiguous memory is one run");
        let parted = joined.reshape(&Shape::from([Dim::Const(4), n.clone(), Dim::Const(2), Dim::Const(3)]));
        let parted = parted.expect("a run parts where lengths divide");
        assert_eq!(parted.strides()[2], Dim::Const(3));
        assert_eq!(parted.strides()[1], Dim::Const(6));
    }
}
