//! Index arithmetic: which element a position stands for, and whether it stands for one, as nodes.
//!
//! The position enters the last view and gives a number; each view below takes that number apart by its shape and puts it
//! together again by its strides. What ranges alone decide (`x % 8` of an x below 8, `0 <= x`) is not written at all; the rest is
//! simplified by the symbolic engine.
//! Always: where *valid* is false, *offset* may be anything, so a load must be gated by it.
//! Tests: `properties` evaluate both nodes at every position of small views.

use super::tracker::ShapeTracker;
use super::view::View;
use crate::ir::{Arg, AxisKind, Dim, Op, UOp};
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

    /// The stride of each axis, where moving along the axis moves by a fixed number of elements and never in or out of the void.
    pub fn real_strides(&self) -> Vec<Option<Dim>> {
        if let [view] = self.views() {
            let hides =
                |axis: usize| view.mask().is_some() && view.bounds(axis) != (Dim::Const(0), view.shape()[axis].clone());
            return (0..view.shape().len()).map(|axis| (!hides(axis)).then(|| view.strides()[axis].clone())).collect();
        }
        let axis_range = |(axis, dim): (usize, &Dim)| UOp::range(dim.clone(), axis as u32, AxisKind::Loop);
        let indices: Vec<UOp> = self.shape().iter().enumerate().map(axis_range).collect();
        let (offset, valid) = self.to_indexed_uops(&indices);
        let gated: Vec<UOp> = crate::ir::postorder(&[valid]);
        let terms = sum_terms(&offset);
        let stride_of = |index: &UOp| {
            if gated.contains(index) {
                return None;
            }
            let mut stride = Dim::Const(0);
            for term in &terms {
                if let Some(factor) = factor_of(term, index) {
                    stride = &stride + &factor;
                } else if crate::ir::postorder(std::slice::from_ref(term)).contains(index) {
                    return None;
                }
            }
            Some(stride)
        };
        indices.iter().map(stride_of).collect()
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

/// What a node adds up.
fn sum_terms(root: &UOp) -> Vec<UOp> {
    let mut terms = Vec::new();
    let mut pending = vec![root.clone()];
    while let Some(node) = pending.pop() {
        match node.op() {
            Op::Add => pending.extend(node.src().iter().cloned()),
            _ => terms.push(node),
        }
    }
    terms
}

/// What an index is multiplied with in a term, if the term is that product.
fn factor_of(term: &UOp, index: &UOp) -> Option<Dim> {
    if term == index {
        return Some(Dim::Const(1));
    }
    match (term.op(), term.src()) {
        (Op::Mul, [a, b]) if a == index && is_free_of_ranges(b) => Some(Dim::from(b.clone())),
        (Op::Mul, [a, b]) if b == index && is_free_of_ranges(a) => Some(Dim::from(a.clone())),
        _ => None,
    }
}

fn is_free_of_ranges(node: &UOp) -> bool {
    crate::ir::postorder(std::slice::from_ref(node)).iter().all(|node| !matches!(node.arg(), Arg::Range(_)))
}
