//! What runs in order, in the loop of the store that asks for it: running totals, and elements that are found where others were put before.
//!
//! Tested with the whole ([`super`]).

use smallvec::smallvec;

use super::{Attempt, Lowering, stage};
use crate::DType;
use crate::dtype::ScalarType;
use crate::ir::{Arg, AxisKind, Component, Op, ReduceOp, Shape, Sources, UOp};
use crate::lower::loops::is_serial;
use crate::lower::multi_index::{MultiIndex, inside_of, is_one};

impl Lowering {
    /// A running total in the loop of its store; sums and products of floats in a wider type, and rounded at each step.
    pub(super) fn attempt_scan(&mut self, node: &UOp, multi_index: &MultiIndex) -> Attempt {
        let (Arg::Scan(_, axis) | Arg::ScanState(_, axis)) = *node.arg() else {
            panic!("bug in the compiler: scan without an axis")
        };
        let [value] = self.all([(node.src()[0].clone(), multi_index.clone())])?;
        let range = &multi_index.indices[axis as usize];
        if is_one(&node.shape()[axis as usize]) {
            return Ok(value);
        }
        assert!(is_serial(range), "bug in the compiler: a scan is asked for in a loop of no order");
        let is_extreme = matches!(node.arg(), Arg::Scan(ReduceOp::Max | ReduceOp::Min, _));
        let wide = match node.dtype().scalar() {
            ScalarType::F16 | ScalarType::BF16 => DType::F32,
            ScalarType::F32 if !is_extreme => DType::F64,
            _ => node.dtype(),
        };
        Ok(running(node, &value.cast(wide), range).cast(node.dtype()))
    }

    /// What is found in a copy of a line of the operand, which the loop of the store replaces element by element.
    pub(super) fn attempt_fetch(&mut self, node: &UOp, multi_index: &MultiIndex) -> Attempt {
        let Arg::Scatter(op, axis) = *node.arg() else { panic!("bug in the compiler: fetch without an axis") };
        let [x, index, source] = node.src() else { panic!("bug in the compiler: fetch without an index") };
        let axis = axis as usize;
        let dim = &x.shape()[axis];
        let at = |position: UOp| {
            let mut line = multi_index.clone();
            line.indices[axis] = position;
            line
        };
        let [position, value] = self.all([index, source].map(|operand| (operand.clone(), multi_index.clone())))?;
        let position = position.cast(DType::INDEX);
        let inside = inside_of(&position, dim);
        let gate = Some(inside).filter(|inside| !inside.is_const(1));
        if is_one(&node.shape()[axis]) {
            // Nothing was put there before.
            let [found] = self.all([(x.clone(), MultiIndex { gate, ..at(position) })])?;
            return Ok(found);
        }
        let order = multi_index.indices[axis].clone();
        assert!(is_serial(&order), "bug in the compiler: a fetch is asked for in a loop of no order");
        let dims = Some(dim).filter(|dim| !is_one(dim));
        let ranges = self.ranges_for((node.clone(), multi_index.clone()), dims, AxisKind::Loop);
        let [line] = self.all([(x.clone(), at(ranges.first().cloned().unwrap_or_else(|| UOp::index(0))))])?;
        let memory = stage(&line, &ranges, &Shape::from([dim.clone()]));
        let src: Sources = [memory, position].into_iter().chain(gate).collect();
        let index = UOp::new(Op::Index, node.dtype(), src, Arg::None);
        let arg = op.map_or(Arg::None, Arg::Combine);
        Ok(UOp::new(Op::Exchange, node.dtype(), smallvec![index, value, order], arg))
    }
}

/// The running total of a scan's elements, or what their states come to so far.
fn running(scan: &UOp, value: &UOp, range: &UOp) -> UOp {
    let of = |state: &[UOp], arg: Arg, dtype: DType| {
        UOp::new(Op::Running, dtype, state.iter().chain([range]).cloned().collect::<Sources>(), arg)
    };
    let combiner = match *scan.arg() {
        Arg::ScanState(combiner, _) => combiner,
        Arg::Scan(op, _) => return of(std::slice::from_ref(value), Arg::Combine(op), value.dtype()),
        _ => panic!("bug in the compiler: a scan without a way to combine"),
    };
    let state = combiner.of_element(value).unwrap_or_default();
    let component = |(number, value): (usize, &UOp)| {
        of(&state, Arg::CombineState(Component { combiner, number: number as u8 }), value.dtype())
    };
    let all: Vec<UOp> = state.iter().enumerate().map(component).collect();
    combiner.outcome(&all).unwrap_or_else(|| panic!("bug in the compiler: a scan by {}", combiner.name()))
}
