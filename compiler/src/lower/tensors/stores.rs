//! Stores and their loops: a range for each axis of what is stored, and the offset of each element in the parameter.
//!
//! Most stores go in any order. Those of running totals have a loop in order, which stands inside of the others; those of a scatter too, for of two elements with one index the later one
//! counts. A position that an index names is gated by the length of its axis.
//!
//! Tested with the whole ([`super`]).

use smallvec::SmallVec;

use super::Lowering;
use crate::DType;
use crate::ir::{Arg, AxisKind, Dim, Op, ReduceOp, Shape, Sources, UOp, postorder_until};
use crate::lower::loops::is_serial;
use crate::lower::multi_index::{MultiIndex, flatten, inside_of, is_one, moved};
use crate::symbolic::{simplify, simplify_given};

/// Ranges, and the indices that they are.
type Loops = (Vec<UOp>, SmallVec<[UOp; 4]>);

impl Lowering {
    /// The store over ranges; of leading axes, those that stores before it opened.
    pub(super) fn store(&mut self, store: &UOp, outer: &mut Vec<(Dim, UOp)>) -> UOp {
        let (target, value) = (&store.src()[0], &store.src()[1]);
        if let Arg::Scatter(op, axis) = *store.arg() {
            return self.scatter(store, op, axis as usize);
        }
        if let (Op::Place, Arg::Axis(axis)) = (value.op(), value.arg()) {
            return self.store_at_indices(target, value, *axis as usize);
        }
        if let Some(axis) = scanned_axis(value) {
            return self.store_in_order(target, value, axis);
        }
        let mut ranges: Vec<UOp> = Vec::new();
        let mut indices: SmallVec<[UOp; 4]> = SmallVec::new();
        let mut shared = true;
        for dim in value.shape().iter() {
            if is_one(dim) {
                indices.push(UOp::index(0));
                continue;
            }
            let position = ranges.len();
            shared &= outer.get(position).is_none_or(|(len, _)| len == dim);
            let range = match outer.get(position) {
                Some((_, range)) if shared => range.clone(),
                _ => self.new_range(dim, AxisKind::Loop),
            };
            if outer.len() == position && shared {
                outer.push((dim.clone(), range.clone()));
            }
            indices.push(range.clone());
            ranges.push(range);
        }
        let offset = simplify(&flatten(&indices, value.shape()));
        let (target, offset) = match target.op() {
            // A store may name a view of its parameter: the index in the view is turned into an index in the parameter.
            Op::Param => (target.clone(), offset),
            _ => self.offset_in_base(target, &indices),
        };
        let answer = self.answer((value.clone(), MultiIndex { indices, gate: None }));
        closed_store((target, offset, None), answer, ranges, Arg::None)
    }

    /// A range for each axis of a value, one of which runs in order, and the indices that they are.
    fn ranges_with_serial(&mut self, shape: &Shape, serial: usize) -> Loops {
        self.ranges_of(shape, |axis| if axis == serial { AxisKind::Serial } else { AxisKind::Loop })
    }

    /// A range of its kind for each axis of a value, and the indices that they are.
    fn ranges_of(&mut self, shape: &Shape, kind: impl Fn(usize) -> AxisKind) -> Loops {
        let mut ranges: Vec<UOp> = Vec::new();
        let indices = shape.iter().enumerate().map(|(axis, dim)| {
            if is_one(dim) {
                return UOp::index(0);
            }
            ranges.push(self.new_range(dim, kind(axis)));
            ranges[ranges.len() - 1].clone()
        });
        let indices = indices.collect();
        (ranges, indices)
    }

    /// A store of running totals: the loop along their axis stands inside of the others, so that each line has one total.
    fn store_in_order(&mut self, target: &UOp, value: &UOp, axis: usize) -> UOp {
        let (mut ranges, indices) = self.ranges_with_serial(value.shape(), axis);
        ranges.sort_by_key(is_serial);
        let (base, offset) = match target.op() {
            Op::Param => (target.clone(), simplify(&flatten(&indices, value.shape()))),
            _ => self.offset_in_base(target, &indices),
        };
        let answer = self.answer((value.clone(), MultiIndex { indices, gate: None }));
        closed_store((base, offset, None), answer, ranges, Arg::None)
    }

    /// A store of each element at its index, in any order: no index is named twice.
    fn store_at_indices(&mut self, target: &UOp, value: &UOp, axis: usize) -> UOp {
        let [index, source] = value.src() else { panic!("bug in the compiler: a place without an index") };
        let loops = self.ranges_of(value.shape(), |_| AxisKind::Loop);
        self.store_where_named(target, [source, index], (axis, value.shape()), loops, Arg::None)
    }

    /// A store at the indices that an index names, in order along its axis: of two for one index the later comes later.
    fn scatter(&mut self, store: &UOp, op: Option<ReduceOp>, axis: usize) -> UOp {
        let [target, value, index] = store.src() else { panic!("bug in the compiler: a scatter without an index") };
        let loops = self.ranges_with_serial(value.shape(), axis);
        self.store_where_named(
            target,
            [value, index],
            (axis, target.shape()),
            loops,
            op.map_or(Arg::None, Arg::Combine),
        )
    }

    /// A store of each element where an index says along an axis of a shape; none where that is outside.
    fn store_where_named(
        &mut self,
        target: &UOp,
        [value, index]: [&UOp; 2],
        (axis, shape): (usize, &Shape),
        (ranges, mut indices): Loops,
        arg: Arg,
    ) -> UOp {
        let multi_index = MultiIndex { indices: indices.clone(), gate: None };
        let answer = self.answer((value.clone(), multi_index.clone()));
        let position = self.answer((index.clone(), multi_index)).cast(DType::INDEX);
        let inside = inside_of(&position, &shape[axis]);
        indices[axis] = position;
        let (base, offset) = match target.op() {
            Op::Param => (target.clone(), simplify_given(&flatten(&indices, shape), &inside)),
            _ => self.offset_in_base(target, &indices),
        };
        let gate = Some(inside).filter(|inside| !inside.is_const(1));
        closed_store((base, offset, gate), answer, ranges, arg)
    }

    /// The parameter below a chain of movement ops, and the offset in it that an element of the view has.
    fn offset_in_base(&mut self, view: &UOp, indices: &[UOp]) -> (UOp, UOp) {
        let mut node = view.clone();
        let mut multi_index = MultiIndex { indices: indices.iter().cloned().collect(), gate: None };
        while node.op().is_movement() {
            multi_index = moved(&node, &multi_index);
            node = node.src()[0].clone();
        }
        let offset = simplify(&flatten(&multi_index.indices, node.shape()));
        (node, offset)
    }
}

/// A store of a value at an offset, which closes ranges.
fn closed_store((base, offset, gate): (UOp, UOp, Option<UOp>), value: UOp, ranges: Vec<UOp>, arg: Arg) -> UOp {
    let dtype = base.dtype();
    let index = UOp::new(Op::Index, dtype, [base, offset].into_iter().chain(gate).collect::<Sources>(), Arg::None);
    UOp::new(Op::Store, DType::VOID, [index, value].into_iter().chain(ranges).collect::<Sources>(), arg)
}

/// The axis of a scan that a value is made of element by element.
fn scanned_axis(value: &UOp) -> Option<usize> {
    let ends = |node: &UOp| {
        let goes_on = node.op().is_elementwise() || matches!(node.op(), Op::Contiguous | Op::Detach);
        !goes_on || node.shape().is_empty()
    };
    postorder_until(std::slice::from_ref(value), ends).iter().find_map(|node| match node.arg() {
        Arg::Scan(_, axis) | Arg::ScanState(_, axis) | Arg::Scatter(_, axis) => Some(*axis as usize),
        _ => None,
    })
}
