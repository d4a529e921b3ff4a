//! Constructors of ops of tensors: movement, reductions, running totals, scatters and writes. Those of single values are in `build`.
//!
//! They panic on operands that do not fit, as those do. Tested by all that builds graphs.

use smallvec::smallvec;

use super::arg::{Arg, Axes, ReduceOp};
use super::combiner::{Combiner, Component};
use super::dim::{Dim, Shape};
use super::op::Op;
use super::uop::{Sources, UOp};
use crate::dtype::DType;

/// Movement and reduction of tensors.
impl UOp {
    /// The elements under another shape; itself if it has that shape.
    pub fn reshape(&self, shape: impl Into<Shape>) -> UOp {
        let shape = shape.into();
        if *self.shape() == shape {
            return self.clone();
        }
        UOp::new(Op::Reshape, self.dtype(), smallvec![self.clone()], Arg::Shape(shape))
    }

    /// Axes in another order.
    pub fn permute(&self, order: &[usize]) -> UOp {
        let axes: Axes = order.iter().map(|&axis| axis as u8).collect();
        UOp::new(Op::Permute, self.dtype(), smallvec![self.clone()], Arg::Axes(axes))
    }

    /// Axes of length 1 repeated.
    pub fn expand(&self, shape: impl Into<Shape>) -> UOp {
        let shape = shape.into();
        if *self.shape() == shape {
            return self.clone();
        }
        UOp::new(Op::Expand, self.dtype(), smallvec![self.clone()], Arg::Shape(shape))
    }

    /// Zeros before and after each axis.
    pub fn pad(&self, bounds: &[(Dim, Dim)]) -> UOp {
        UOp::new(Op::Pad, self.dtype(), smallvec![self.clone()], Arg::Bounds(bounds.into()))
    }

    /// The part from start to end of each axis.
    pub fn shrink(&self, bounds: &[(Dim, Dim)]) -> UOp {
        UOp::new(Op::Shrink, self.dtype(), smallvec![self.clone()], Arg::Bounds(bounds.into()))
    }

    /// The given axes in reverse.
    pub fn flip(&self, axes: &[usize]) -> UOp {
        let axes: Axes = axes.iter().map(|&axis| axis as u8).collect();
        UOp::new(Op::Flip, self.dtype(), smallvec![self.clone()], Arg::Axes(axes))
    }

    /// Elements combined along axes (ascending), which go away.
    pub fn reduce(&self, op: ReduceOp, axes: &[usize]) -> UOp {
        if axes.is_empty() {
            return self.clone();
        }
        let axes: Axes = axes.iter().map(|&axis| axis as u8).collect();
        UOp::new(Op::Reduce, self.dtype(), smallvec![self.clone()], Arg::Reduce(op, axes))
    }

    /// Each element combined with all before it along an axis.
    pub fn scan(&self, op: ReduceOp, axis: usize) -> UOp {
        UOp::new(Op::Scan, self.dtype(), smallvec![self.clone()], Arg::Scan(op, axis as u8))
    }

    /// What the states of each element and of all before it along an axis come to; see [`Combiner::outcome`].
    pub fn scan_states(&self, combiner: Combiner, axis: usize) -> UOp {
        UOp::new(Op::Scan, self.dtype(), smallvec![self.clone()], Arg::ScanState(combiner, axis as u8))
    }

    /// This with each element of `source` combined into (without an op: put at) the position along an axis that `index` names.
    pub fn scatter(&self, index: &UOp, source: &UOp, op: Option<ReduceOp>, axis: usize) -> UOp {
        let src = smallvec![self.clone(), index.clone(), source.clone()];
        UOp::new(Op::Scatter, self.dtype(), src, Arg::Scatter(op, axis as u8))
    }

    /// What each element of `source`, in order, finds at the position along an axis of this that `index` names, before it is combined into it (without
    /// an op: put there).
    pub fn fetch(&self, index: &UOp, source: &UOp, op: Option<ReduceOp>, axis: usize) -> UOp {
        let src = smallvec![self.clone(), index.clone(), source.clone()];
        UOp::new(Op::Fetch, self.dtype(), src, Arg::Scatter(op, axis as u8))
    }

    /// Each element of this at the position along an axis that `index` names; each position must be named once.
    pub fn place(&self, index: &UOp, axis: usize) -> UOp {
        UOp::new(Op::Place, self.dtype(), smallvec![index.clone(), self.clone()], Arg::Axis(axis as u8))
    }

    /// States combined along axes (ascending), which go away: all components of the outcome. The operands are the components of an element.
    pub fn reduce_states(combiner: Combiner, states: &[UOp], axes: &[usize]) -> Vec<UOp> {
        if axes.is_empty() {
            return states.to_vec();
        }
        let axes: Axes = axes.iter().map(|&axis| axis as u8).collect();
        let one = |(number, state): (usize, &UOp)| {
            let arg = Arg::ReduceState(Component { combiner, number: number as u8 }, axes.clone());
            UOp::new(Op::Reduce, state.dtype(), states, arg)
        };
        states.iter().enumerate().map(one).collect()
    }

    /// Of a reduction of states, the one that gives the first component.
    pub fn first_component(&self) -> Option<UOp> {
        let first = |component: Component| Component { number: 0, ..component };
        let arg = match self.arg() {
            Arg::ReduceState(component, axes) => Arg::ReduceState(first(*component), axes.clone()),
            Arg::CombineState(component) => Arg::CombineState(first(*component)),
            _ => return None,
        };
        Some(UOp::new(self.op(), self.src()[0].dtype(), self.src(), arg))
    }

    /// The axes that a `Reduce` takes away.
    pub fn reduced_axes(&self) -> Option<&Axes> {
        match self.arg() {
            Arg::Reduce(_, axes) | Arg::ReduceState(_, axes) => Some(axes),
            _ => None,
        }
    }

    /// This with one axis indexed by a tensor of integers.
    pub fn gather(&self, index: &UOp, axis: usize) -> UOp {
        UOp::new(Op::Gather, self.dtype(), smallvec![self.clone(), index.clone()], Arg::Axis(axis as u8))
    }

    /// This, stored in memory.
    pub fn contiguous(&self) -> UOp {
        UOp::new(Op::Contiguous, self.dtype(), smallvec![self.clone()], Arg::None)
    }

    /// In a kernel: materialized in scratch memory along these axes.
    pub fn materialize(&self, axes: &[usize]) -> UOp {
        let axes: Axes = axes.iter().map(|&axis| axis as u8).collect();
        UOp::new(Op::Materialize, self.dtype(), smallvec![self.clone()], Arg::Axes(axes))
    }

    /// A view of this: what movement ops make of it one after the other.
    pub fn through(&self, steps: &[(Op, Arg)]) -> UOp {
        let start = self.clone();
        steps.iter().fold(start, |node, (op, arg)| UOp::new(*op, node.dtype(), smallvec![node], arg.clone()))
    }

    /// This with a value, of the view's shape, in the place of what a view of it shows.
    pub fn write(&self, view: &[(Op, Arg)], value: &UOp) -> UOp {
        UOp::new(Op::Write, self.dtype(), smallvec![self.clone(), value.clone()], Arg::View(view.into()))
    }

    /// This, through which no gradient flows.
    pub fn detach(&self) -> UOp {
        UOp::new(Op::Detach, self.dtype(), smallvec![self.clone()], Arg::None)
    }

    /// All of these: the root of a schedule or kernel.
    pub fn sink(stores: impl IntoIterator<Item = UOp>) -> UOp {
        UOp::new(Op::Sink, DType::VOID, stores.into_iter().collect::<Sources>(), Arg::None)
    }
}
