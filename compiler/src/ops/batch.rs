//! A program over one element of a batch as the same program over all of them.
//!
//! Each node that depends on an input gets an axis in front, and so do its axes and bounds; what does not depend on one is shared by the whole batch. An
//! op that computes by shapes alone (a cut, a sum, a scatter) needs no more than that; a gather by an index that differs from element to
//! element counts its positions through the batch. Functions with derivatives of their own keep these where the rule for a gradient does not count axes.
//!
//! Always: element k of the result is what the program gives for element k of the inputs. Tested against loops by tests/it/batches.rs.

use rustc_hash::FxHashMap;

use super::indexing::in_range;
use super::movement::{merge_axes, move_axis, reorder};
use super::{Built, fail};
use crate::ir::{Arg, Dim, Function, Op, Shape, StridedArg, postorder};
use crate::{DType, UOp};

/// What these values are for each element of a batch of that length, given what inputs are: with an axis in front, that of the batch.
///
/// # Errors
/// If a value is made by an op that writes.
pub fn batched(values: &[UOp], inputs: &[(UOp, UOp)], length: &Dim) -> Built<Vec<UOp>> {
    let mut batch = Batch { length: length.clone(), known: inputs.iter().cloned().collect() };
    for node in postorder(values) {
        let depends = node.src().iter().any(|operand| batch.known.contains_key(operand));
        if depends && !batch.known.contains_key(&node) {
            let over_all = batch.node(&node)?;
            batch.known.insert(node, over_all);
        }
    }
    Ok(values.iter().map(|value| batch.with_axis(value, value.shape())).collect())
}

struct Batch {
    length: Dim,
    /// What nodes that depend on an input are over the whole batch.
    known: FxHashMap<UOp, UOp>,
}

impl Batch {
    fn over(&self, shape: &[Dim]) -> Shape {
        std::iter::once(&self.length).chain(shape).cloned().collect()
    }

    /// A node of this shape, or of rank 0, over the whole batch and in that shape.
    fn with_axis(&self, node: &UOp, shape: &Shape) -> UOp {
        let to = self.over(shape);
        match self.known.get(node) {
            Some(found) if *found.shape() == to => found.clone(),
            Some(found) => found.reshape(self.over(&vec![Dim::Const(1); shape.len()])).expand(to),
            None => {
                let one =
                    if node.shape().is_empty() { vec![Dim::Const(1); shape.len()] } else { node.shape().to_vec() };
                let one: Shape = std::iter::once(Dim::Const(1)).chain(one).collect();
                node.reshape(one).expand(to)
            }
        }
    }

    fn node(&self, node: &UOp) -> Built {
        let op = node.op();
        if op.is_elementwise() {
            // What is of rank 0 and the same for all goes beside any shape.
            let operand = |operand: &UOp| match (operand.shape().is_empty(), self.known.contains_key(operand)) {
                (true, false) => operand.clone(),
                _ => self.with_axis(operand, node.shape()),
            };
            let src: Vec<UOp> = node.src().iter().map(operand).collect();
            return Ok(UOp::new(op, node.dtype(), src, node.arg().clone()));
        }
        if op == Op::Gather {
            return self.gather(node);
        }
        let src: Vec<UOp> = node.src().iter().map(|operand| self.with_axis(operand, operand.shape())).collect();
        if let (Op::Function, Arg::Function(function)) = (op, node.arg()) {
            return Ok(match function {
                // Their gradients name axes or look for operands in the value, or keys are rows.
                Function::Convolution
                | Function::TransposedConvolution
                | Function::Recomputed
                | Function::GatherAlong
                | Function::Order
                | Function::Checked => src[0].clone(),
                _ => UOp::new(op, node.dtype(), src, node.arg().clone()),
            });
        }
        match self.arg(op, node) {
            Some(arg) => Ok(UOp::new(op, node.dtype(), src, arg)),
            None => fail!("{} cannot be done for all elements of a batch at once", op.name()),
        }
    }

    /// The argument with an axis in front; none for an op that has no meaning over a batch.
    fn arg(&self, op: Op, node: &UOp) -> Option<Arg> {
        let later = |axes: &crate::ir::Axes| axes.iter().map(|axis| axis + 1).collect();
        Some(match (op, node.arg()) {
            (Op::Reshape | Op::Expand, Arg::Shape(shape)) => Arg::Shape(self.over(shape)),
            (Op::Permute, Arg::Axes(order)) => {
                Arg::Axes(std::iter::once(0).chain(order.iter().map(|axis| axis + 1)).collect())
            }
            (Op::Flip, Arg::Axes(axes)) => Arg::Axes(later(axes)),
            (Op::Pad, Arg::Bounds(bounds)) => {
                let all = (Dim::Const(0), Dim::Const(0));
                Arg::Bounds(std::iter::once(all).chain(bounds.iter().cloned()).collect())
            }
            (Op::Shrink, Arg::Bounds(bounds)) => {
                let all = (Dim::Const(0), self.length.clone());
                Arg::Bounds(std::iter::once(all).chain(bounds.iter().cloned()).collect())
            }
            (Op::AsStrided, Arg::Strided(strided)) => {
                let step = node.src()[0].shape().numel();
                let strides = std::iter::once(step).chain(strided.strides.iter().cloned()).collect();
                let shape = self.over(&strided.shape);
                Arg::Strided(StridedArg { shape, strides, offset: strided.offset.clone() }.into())
            }
            (Op::Reduce, Arg::Reduce(reduce, axes)) => Arg::Reduce(*reduce, later(axes)),
            (Op::Reduce, Arg::ReduceState(component, axes)) => Arg::ReduceState(*component, later(axes)),
            (Op::Scan, Arg::Scan(reduce, axis)) => Arg::Scan(*reduce, axis + 1),
            (Op::Scan, Arg::ScanState(combiner, axis)) => Arg::ScanState(*combiner, axis + 1),
            (Op::Scatter | Op::Fetch, Arg::Scatter(reduce, axis)) => Arg::Scatter(*reduce, axis + 1),
            (Op::Place, Arg::Axis(axis)) => Arg::Axis(axis + 1),
            (Op::Contiguous | Op::Detach | Op::Copy, arg) => arg.clone(),
            _ => return None,
        })
    }

    fn gather(&self, node: &UOp) -> Built {
        let Arg::Axis(axis) = node.arg() else { fail!("a gather has an axis") };
        let (axis, x, index) = (*axis as usize, &node.src()[0], &node.src()[1]);
        let Some(indices) = self.known.get(index) else {
            return Ok(self.with_axis(x, x.shape()).gather(index, axis + 1));
        };
        let Some(all) = self.known.get(x) else {
            return Ok(move_axis(&x.gather(indices, axis), axis, 0));
        };
        // The axis beside that of the batch, as one with it.
        let count = x.shape()[axis].clone();
        let merged = merge_axes(&move_axis(all, axis + 1, 1), 0, 2);
        let number = UOp::iota(self.length.clone()).cast(DType::I64);
        let mut lengths = vec![Dim::Const(1); indices.shape().len()];
        lengths[0] = self.length.clone();
        let number = number.reshape(lengths).expand(indices.shape().clone());
        let wide = indices.cast(DType::I64);
        let Some(most) = count.as_const() else {
            fail!("an axis that each element indexes in its own way has a length that is a number")
        };
        let flat = in_range(&wide, most).select(number * UOp::int(most, DType::I64) + wide, UOp::int(-1, DType::I64));
        let found = merged.gather(&flat, 0);
        // [batch, axes of the index, axes before, axes after].
        let (rank, before) = (index.shape().len(), axis);
        let order: Vec<usize> = std::iter::once(0)
            .chain(1 + rank..1 + rank + before)
            .chain(1..1 + rank)
            .chain(1 + rank + before..found.shape().len())
            .collect();
        Ok(reorder(&found, &order))
    }
}
