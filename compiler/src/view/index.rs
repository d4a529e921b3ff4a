//! Index arithmetic: which element a position stands for, and whether it stands for one, as nodes.
//!
//! The position enters the last view and gives a number; each view below takes that number apart by its shape and puts it
//! together again by its strides. What ranges alone decide (`x % 8` of an x below 8, `0 <= x`) is not written at all; the rest is
//! simplified by the symbolic engine.
//! Always: where *valid* is false, *offset* may be anything.
//! For tests alone: `properties` evaluate both nodes at every position of small views. Kernels get their index arithmetic from
//! `lower/tensors`, a movement op at a time.

use super::tracker::ShapeTracker;
use super::view::View;
use crate::ir::{Dim, UOp};
use crate::symbolic::simplify;

impl ShapeTracker {
    /// The element (dtype `Index`) that a position stands for, and whether it stands for one (dtype `Bool`).
    ///
    /// # Panics
    /// If there is not one index for each axis.
    pub fn to_indexed_uops(&self, indices: &[UOp]) -> (UOp, UOp) {
        assert_eq!(indices.len(), self.shape().len(), "one index for each axis of {}", self.shape());
        let mut indices = indices.to_vec();
        let mut valid = UOp::bool(true);
        let mut offset = UOp::index(0);
        for (level, view) in self.views().iter().enumerate().rev() {
            (offset, valid) = view.indexed(&indices, valid);
            if level > 0 {
                offset = simplify(&offset);
                indices = take_apart(&offset, self.views()[level - 1].shape());
            }
        }
        (simplify(&offset), simplify(&valid))
    }
}

impl View {
    /// The element of a position of this view, and the validity so far with this view's added.
    fn indexed(&self, indices: &[UOp], mut valid: UOp) -> (UOp, UOp) {
        let mut offset = self.offset().to_uop();
        for (axis, index) in indices.iter().enumerate() {
            offset = add(&offset, &multiply(index, &self.strides()[axis]));
            let Some(mask) = self.mask() else { continue };
            let (start, end) = &mask[axis];
            if start.max_value() > index.min_value() {
                valid = and(&valid, &(start - &Dim::Const(1)).to_uop().lt(index));
            }
            // An index below the length of its axis needs no test against that length.
            if *end != self.shape()[axis] && end.min_value() <= index.max_value() {
                valid = and(&valid, &index.lt(end.to_uop()));
            }
        }
        (offset, valid)
    }
}

/// A row-major position as one index for each axis.
fn take_apart(position: &UOp, shape: &[Dim]) -> Vec<UOp> {
    let mut indices = vec![UOp::index(0); shape.len()];
    let mut inner = Dim::Const(1);
    // Nothing is left above the outermost axis that is longer than 1, so it needs no remainder.
    let Some(outermost) = shape.iter().position(|dim| !dim.is(1)) else { return indices };
    for axis in (outermost..shape.len()).rev().filter(|&axis| !shape[axis].is(1)) {
        let quotient = divide(position, &inner);
        indices[axis] = if axis == outermost { quotient } else { remainder(&quotient, &shape[axis]) };
        inner = &inner * &shape[axis];
    }
    indices
}

fn add(a: &UOp, b: &UOp) -> UOp {
    match (a.is_const(0), b.is_const(0)) {
        (true, _) => b.clone(),
        (_, true) => a.clone(),
        _ => a + b,
    }
}

fn multiply(a: &UOp, b: &Dim) -> UOp {
    match b {
        Dim::Const(0) => UOp::index(0),
        Dim::Const(1) => a.clone(),
        _ => a * b.to_uop(),
    }
}

fn divide(a: &UOp, b: &Dim) -> UOp {
    if b.is(1) {
        return a.clone();
    }
    if a.min_value() >= 0 && a.max_value() < b.min_value() { UOp::index(0) } else { a.idiv(b.to_uop()) }
}

fn remainder(a: &UOp, b: &Dim) -> UOp {
    if a.min_value() >= 0 && a.max_value() < b.min_value() { a.clone() } else { a.modulo(b.to_uop()) }
}

fn and(a: &UOp, b: &UOp) -> UOp {
    if a.is_const(1) { b.clone() } else { a.and(b) }
}
