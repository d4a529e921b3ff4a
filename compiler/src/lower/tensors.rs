//! From tensors to loops: a kernel's tensor graph becomes expressions over loop variables, loads and stores.
//!
//! The *kernel AST* is a sink of stores of tensor values into parameters. Each store gets one range per axis; its value is then
//! asked for *at* those ranges, and the question is handed down: an elementwise op asks its operands at the same index, a
//! movement op asks at another index, a reduction opens ranges of its own and closes them with a `reduce_range`, a parameter answers with a
//! load. A value that is to be *materialized* (`materialize`) is asked for once for all of some of its axes: a loop nest of its own stores it into
//! scratch memory, in the innermost loop that its other indices need, and every question is answered by a load from there.
//! Such an index is a `MultiIndex`: a list of index expressions and a gate, the condition under which it exists at all (padding makes indices that
//! do not). Asking the same node at the same index twice gives the same expression, so nothing is written twice.
//!
//! Always: a load's gate is false wherever its offset may be outside of its buffer. Every value can be computed in the innermost
//! loop of the ranges that it names; so a reduction that does not name a range is computed outside of that range's loop, and
//! several reductions stand side by side in one kernel.
//!
//! No recursion: a question whose answer needs others is put back on the stack behind them.

use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};

use super::loops::is_serial;
use super::multi_index::{MultiIndex, both, flatten, inside_of, inside_of_pad, is_one, moved};
use crate::DType;
use crate::dtype::ScalarType;
use crate::ir::{
    Arg, AxisKind, Combining, Component, Dim, MemorySpace, Op, ReduceOp, Shape, Sources, UOp, postorder_until,
};
use crate::symbolic::{simplify, simplify_given};
use crate::view::dims::simplified;

type Question = (UOp, MultiIndex);

/// The kernel form of a kernel AST.
///
/// Stores share the ranges of their leading axes as far as lengths agree with the first store's.
pub fn lower_to_loops(ast: &UOp) -> UOp {
    let mut lowering = Lowering { answers: FxHashMap::default(), range_count: 0 };
    let mut outer: Vec<(Dim, UOp)> = Vec::new();
    let stores: Vec<UOp> = ast.src().iter().map(|store| lowering.store(store, &mut outer)).collect();
    UOp::sink(stores)
}

struct Lowering {
    answers: FxHashMap<Question, UOp>,
    range_count: u32,
}

/// An answer, or the questions that must be answered first.
type Attempt = Result<UOp, Vec<Question>>;

impl Lowering {
    fn new_range(&mut self, len: &Dim, kind: AxisKind) -> UOp {
        self.range_count += 1;
        // In its simplest form from the start, so that simplifying what names the range leaves the range as it is.
        UOp::range(simplified(len.clone()), self.range_count - 1, kind)
    }

    fn store(&mut self, store: &UOp, outer: &mut Vec<(Dim, UOp)>) -> UOp {
        let (target, value) = (&store.src()[0], &store.src()[1]);
        if let Arg::Scatter(op, axis) = *store.arg() {
            return self.scatter(store, op, axis as usize);
        }
        if let (Op::Place, Arg::Axis(axis)) = (value.op(), value.arg()) {
            return self.store_at_places(target, value, *axis as usize);
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
            _ => self.place_in_base(target, &indices),
        };
        let answer = self.answer((value.clone(), MultiIndex { indices, gate: None }));
        let index = UOp::new(Op::Index, target.dtype(), smallvec![target, offset], Arg::None);
        let sources: Sources = [index, answer].into_iter().chain(ranges).collect();
        UOp::new(Op::Store, DType::VOID, sources, Arg::None)
    }

    /// A range for each axis of a value, one of which runs in order, and the indices that they are.
    fn ranges_with_serial(&mut self, shape: &Shape, serial: usize) -> (Vec<UOp>, SmallVec<[UOp; 4]>) {
        self.ranges_of(shape, |axis| if axis == serial { AxisKind::Serial } else { AxisKind::Loop })
    }

    /// A range of its kind for each axis of a value, and the indices that they are.
    fn ranges_of(&mut self, shape: &Shape, kind: impl Fn(usize) -> AxisKind) -> (Vec<UOp>, SmallVec<[UOp; 4]>) {
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
            _ => self.place_in_base(target, &indices),
        };
        let answer = self.answer((value.clone(), MultiIndex { indices, gate: None }));
        let index = UOp::new(Op::Index, base.dtype(), smallvec![base, offset], Arg::None);
        let sources: Sources = [index, answer].into_iter().chain(ranges).collect();
        UOp::new(Op::Store, DType::VOID, sources, Arg::None)
    }

    /// A store of each element at its index, in any order: no index is named twice.
    fn store_at_places(&mut self, target: &UOp, value: &UOp, axis: usize) -> UOp {
        let [index, source] = value.src() else { panic!("bug in the compiler: a place without an index") };
        let (ranges, mut indices) = self.ranges_of(value.shape(), |_| AxisKind::Loop);
        let multi_index = MultiIndex { indices: indices.clone(), gate: None };
        let answer = self.answer((source.clone(), multi_index.clone()));
        let place = self.answer((index.clone(), multi_index)).cast(DType::INDEX);
        let inside = inside_of(&place, &value.shape()[axis]);
        indices[axis] = place;
        let (base, offset) = match target.op() {
            Op::Param => (target.clone(), simplify_given(&flatten(&indices, value.shape()), &inside)),
            _ => self.place_in_base(target, &indices),
        };
        let gate = Some(inside).filter(|inside| !inside.is_const(1));
        let dtype = base.dtype();
        let index = UOp::new(Op::Index, dtype, [base, offset].into_iter().chain(gate).collect::<Sources>(), Arg::None);
        let sources: Sources = [index, answer].into_iter().chain(ranges).collect();
        UOp::new(Op::Store, DType::VOID, sources, Arg::None)
    }

    /// A store at the indices that an index names, in order along its axis: of two for one index the later comes later.
    fn scatter(&mut self, store: &UOp, op: Option<ReduceOp>, axis: usize) -> UOp {
        let [target, value, index] = store.src() else { panic!("bug in the compiler: a scatter without an index") };
        let (ranges, mut indices) = self.ranges_with_serial(value.shape(), axis);
        let multi_index = MultiIndex { indices: indices.clone(), gate: None };
        let answer = self.answer((value.clone(), multi_index.clone()));
        let row = self.answer((index.clone(), multi_index)).cast(DType::INDEX);
        let inside = inside_of(&row, &target.shape()[axis]);
        indices[axis] = row;
        let (base, offset) = match target.op() {
            Op::Param => (target.clone(), simplify_given(&flatten(&indices, target.shape()), &inside)),
            _ => self.place_in_base(target, &indices),
        };
        let gate = (!inside.is_const(1)).then_some(inside);
        let dtype = base.dtype();
        let index = UOp::new(Op::Index, dtype, [base, offset].into_iter().chain(gate).collect::<Sources>(), Arg::None);
        let sources: Sources = [index, answer].into_iter().chain(ranges).collect();
        UOp::new(Op::Store, DType::VOID, sources, op.map_or(Arg::None, Arg::Combine))
    }

    /// The parameter below a chain of movement ops, and the offset in it that an element of the view has.
    fn place_in_base(&mut self, view: &UOp, indices: &[UOp]) -> (UOp, UOp) {
        let mut node = view.clone();
        let mut multi_index = MultiIndex { indices: indices.iter().cloned().collect(), gate: None };
        while node.op().is_movement() {
            multi_index = moved(&node, &multi_index);
            node = node.src()[0].clone();
        }
        let offset = simplify(&flatten(&multi_index.indices, node.shape()));
        (node, offset)
    }

    fn answer(&mut self, question: Question) -> UOp {
        let mut stack = vec![question.clone()];
        while let Some(top) = stack.last() {
            if self.answers.contains_key(top) {
                stack.pop();
                continue;
            }
            let top = top.clone();
            match self.attempt(&top) {
                Ok(answer) => {
                    self.answers.insert(top, answer);
                    stack.pop();
                }
                Err(first) => stack.extend(first),
            }
        }
        self.answers[&question].clone()
    }

    /// The answers to several questions, or those that are still open.
    fn all<const N: usize>(&self, questions: [Question; N]) -> Result<[UOp; N], Vec<Question>> {
        let open: Vec<Question> =
            questions.iter().filter(|question| !self.answers.contains_key(*question)).cloned().collect();
        if open.is_empty() { Ok(questions.map(|question| self.answers[&question].clone())) } else { Err(open) }
    }

    /// The answers to some questions, or those that are still open.
    fn each(&self, questions: &[Question]) -> Result<Vec<UOp>, Vec<Question>> {
        let open: Vec<Question> =
            questions.iter().filter(|question| !self.answers.contains_key(*question)).cloned().collect();
        let answers = || questions.iter().map(|question| self.answers[question].clone()).collect();
        if open.is_empty() { Ok(answers()) } else { Err(open) }
    }

    fn attempt(&mut self, (node, multi_index): &Question) -> Attempt {
        match node.op() {
            Op::Const | Op::Variable => Ok(node.clone()),
            Op::Bind => Ok(node.src()[0].clone()),
            Op::Iota => Ok(multi_index.indices[0].clone()),
            Op::Param | Op::Buffer => Ok(load(node, &multi_index.indices[0], multi_index.gate.as_ref())),
            // A known function is its value; only gradients read more of it.
            Op::Contiguous | Op::Detach | Op::Copy | Op::Function => {
                let [value] = self.all([(node.src()[0].clone(), multi_index.clone())])?;
                Ok(value)
            }
            Op::Pad => self.attempt_pad(node, multi_index),
            Op::Reduce => self.attempt_reduce(node, multi_index),
            Op::Scan => self.attempt_scan(node, multi_index),
            Op::Fetch => self.attempt_fetch(node, multi_index),
            Op::Materialize => self.attempt_materialize(node, multi_index),
            Op::Gather => self.attempt_gather(node, multi_index),
            op if op.is_movement() => {
                let [value] = self.all([(node.src()[0].clone(), moved(node, multi_index))])?;
                Ok(value)
            }
            op if op.is_elementwise() => self.attempt_elementwise(node, multi_index),
            op => panic!("bug in the compiler: {op} in a kernel's tensor graph"),
        }
    }

    fn attempt_elementwise(&self, node: &UOp, multi_index: &MultiIndex) -> Attempt {
        let mut open: Vec<Question> = Vec::new();
        let mut answers = Sources::new();
        for operand in node.src() {
            let multi_index = if operand.shape().is_empty() {
                MultiIndex { indices: SmallVec::new(), gate: multi_index.gate.clone() }
            } else {
                multi_index.clone()
            };
            let question = (operand.clone(), multi_index);
            match self.answers.get(&question) {
                Some(answer) => answers.push(answer.clone()),
                None => open.push(question),
            }
        }
        if open.is_empty() { Ok(node.with_src(answers)) } else { Err(open) }
    }

    fn attempt_pad(&mut self, node: &UOp, multi_index: &MultiIndex) -> Attempt {
        let below = moved(node, multi_index);
        let inside = inside_of_pad(node, multi_index);
        let [value] = self.all([(node.src()[0].clone(), below)])?;
        Ok(match inside {
            None => value,
            // A load that is gated by this already gives zero outside.
            Some(_) if value.op() == Op::Load => value,
            Some(inside) => {
                let zero = UOp::int(0, value.dtype());
                inside.select(&value, &zero)
            }
        })
    }

    fn attempt_reduce(&mut self, node: &UOp, multi_index: &MultiIndex) -> Attempt {
        let (Some(axes), Some(combining)) = (node.reduced_axes(), Combining::of(node)) else {
            panic!("bug in the compiler: reduce without axes")
        };
        let operand = &node.src()[0];
        // The ranges are part of the question below; they are remembered so that the second attempt asks the same. All components of a
        // state ask the same too, and are reduced by the same loops.
        let marker = (UOp::sink([node.first_component().unwrap_or_else(|| node.clone())]), multi_index.clone());
        let ranges: Sources = match self.answers.get(&marker) {
            Some(known) => known.src().iter().cloned().collect(),
            None => {
                let reduced = axes.iter().map(|&axis| &operand.shape()[axis as usize]).filter(|dim| !is_one(dim));
                let ranges: Sources = reduced.map(|dim| self.new_range(dim, AxisKind::Reduce)).collect();
                self.answers.insert(marker, UOp::sink(ranges.iter().cloned()));
                ranges
            }
        };
        let mut outer = multi_index.indices.iter();
        let mut inner = ranges.iter();
        let indices = (0..operand.shape().len()).map(|axis| {
            let reduced = axes.contains(&(axis as u8));
            let index = match (reduced, is_one(&operand.shape()[axis])) {
                (true, true) => None,
                (true, false) => inner.next(),
                (false, _) => outer.next(),
            };
            index.cloned().unwrap_or_else(|| UOp::index(0))
        });
        let below = MultiIndex { indices: indices.collect(), gate: multi_index.gate.clone() };
        let questions: Vec<Question> = node.src().iter().map(|operand| (operand.clone(), below.clone())).collect();
        let values = self.each(&questions)?;
        Ok(combining.reduce_range(&values, &ranges))
    }

    /// A running total in the loop of its store; sums and products of floats in a wider type, and rounded at each step.
    fn attempt_scan(&mut self, node: &UOp, multi_index: &MultiIndex) -> Attempt {
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
    fn attempt_fetch(&mut self, node: &UOp, multi_index: &MultiIndex) -> Attempt {
        let Arg::Scatter(op, axis) = *node.arg() else { panic!("bug in the compiler: fetch without an axis") };
        let [x, index, source] = node.src() else { panic!("bug in the compiler: fetch without an index") };
        let axis = axis as usize;
        let dim = &x.shape()[axis];
        let at = |place: UOp| {
            let mut line = multi_index.clone();
            line.indices[axis] = place;
            line
        };
        let [place, value] = self.all([index, source].map(|operand| (operand.clone(), multi_index.clone())))?;
        let place = place.cast(DType::INDEX);
        let inside = inside_of(&place, dim);
        let gate = Some(inside).filter(|inside| !inside.is_const(1));
        if is_one(&node.shape()[axis]) {
            // Nothing was put there before.
            let [found] = self.all([(x.clone(), MultiIndex { gate, ..at(place) })])?;
            return Ok(found);
        }
        let order = multi_index.indices[axis].clone();
        assert!(is_serial(&order), "bug in the compiler: a fetch is asked for in a loop of no order");
        let marker = (UOp::sink([node.clone()]), multi_index.clone());
        let ranges: Sources = match self.answers.get(&marker) {
            Some(known) => known.src().iter().cloned().collect(),
            None => {
                let ranges: Sources = match is_one(dim) {
                    true => smallvec![],
                    false => smallvec![self.new_range(dim, AxisKind::Loop)],
                };
                self.answers.insert(marker, UOp::sink(ranges.iter().cloned()));
                ranges
            }
        };
        let [line] = self.all([(x.clone(), at(ranges.first().cloned().unwrap_or_else(|| UOp::index(0))))])?;
        let memory = stage(&line, &ranges, &Shape::from([dim.clone()]));
        let src: Sources = [memory, place].into_iter().chain(gate).collect();
        let index = UOp::new(Op::Index, node.dtype(), src, Arg::None);
        let arg = op.map_or(Arg::None, Arg::Combine);
        Ok(UOp::new(Op::Exchange, node.dtype(), smallvec![index, value, order], arg))
    }

    /// A load from scratch. What may not exist for all that is known of the other axes is not kept: it would be computed where its own loads are not allowed.
    fn attempt_materialize(&mut self, node: &UOp, multi_index: &MultiIndex) -> Attempt {
        let Arg::Axes(axes) = node.arg() else { panic!("bug in the compiler: keep without axes") };
        let (operand, shape) = (&node.src()[0], node.shape());
        let kept: SmallVec<[usize; 4]> =
            axes.iter().map(|&axis| axis as usize).filter(|&axis| !shape[axis].is(1)).collect();
        let is_fixed = |axis: &usize| !kept.contains(axis);
        let exists = |axis: usize| inside_of(&multi_index.indices[axis], &shape[axis]).is_const(1);
        let may_not_exist = multi_index.gate.is_some() && !(0..shape.len()).filter(is_fixed).all(exists);
        if may_not_exist || kept.is_empty() {
            let [value] = self.all([(operand.clone(), multi_index.clone())])?;
            return Ok(value);
        }
        // All indices that differ along the kept axes alone share one local buffer; its ranges are remembered under the index at 0.
        let mut first = MultiIndex { gate: None, ..multi_index.clone() };
        kept.iter().for_each(|&axis| first.indices[axis] = UOp::index(0));
        let marker = (UOp::sink([node.clone()]), first.clone());
        let ranges: Sources = match self.answers.get(&marker) {
            Some(known) => known.src().iter().cloned().collect(),
            None => {
                let ranges: Sources = kept.iter().map(|&axis| self.new_range(&shape[axis], AxisKind::Loop)).collect();
                self.answers.insert(marker, UOp::sink(ranges.iter().cloned()));
                ranges
            }
        };
        let mut below = first;
        kept.iter().zip(&ranges).for_each(|(&axis, range)| below.indices[axis] = range.clone());
        let [value] = self.all([(operand.clone(), below)])?;
        let kept_shape: Shape = kept.iter().map(|&axis| shape[axis].clone()).collect();
        let at: SmallVec<[UOp; 4]> = kept.iter().map(|&axis| multi_index.indices[axis].clone()).collect();
        let memory = stage(&value, &ranges, &kept_shape);
        Ok(load(&memory, &flatten(&at, &kept_shape), multi_index.gate.as_ref()))
    }

    fn attempt_gather(&mut self, node: &UOp, multi_index: &MultiIndex) -> Attempt {
        let Arg::Axis(axis) = node.arg() else { panic!("bug in the compiler: gather without an axis") };
        let (table, index) = (&node.src()[0], &node.src()[1]);
        let (start, end) = (*axis as usize, *axis as usize + index.shape().len());
        let row_index = MultiIndex {
            indices: multi_index.indices[start..end].iter().cloned().collect(),
            gate: multi_index.gate.clone(),
        };
        let [row] = self.all([(index.clone(), row_index)])?;
        let row = row.cast(DType::INDEX);
        let inside = inside_of(&row, &table.shape()[*axis as usize]);
        let (before, after) = (&multi_index.indices[..start], &multi_index.indices[end..]);
        let indices = before.iter().cloned().chain([row]).chain(after.iter().cloned()).collect();
        let always = inside.is_const(1);
        let gate = if always { multi_index.gate.clone() } else { Some(both(multi_index.gate.as_ref(), &inside)) };
        let [value] = self.all([(table.clone(), MultiIndex { indices, gate })])?;
        if always || value.op() == Op::Load {
            return Ok(value);
        }
        let zero = UOp::int(0, value.dtype());
        Ok(inside.select(&value, &zero))
    }
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

/// Scratch memory that holds `value` for all of the ranges, row-major.
fn stage(value: &UOp, ranges: &[UOp], shape: &Shape) -> UOp {
    let len = shape.iter().map(|dim| dim.max_value().max(0) as u64).product();
    let scratch = UOp::new(Op::Scratch, value.dtype(), smallvec![], Arg::Scratch(0, len, MemorySpace::Private));
    let offset = simplify(&flatten(ranges, shape));
    let index = UOp::new(Op::Index, value.dtype(), smallvec![scratch, offset], Arg::None);
    let sources: Sources = [index, value.clone()].into_iter().chain(ranges.iter().cloned()).collect();
    let store = UOp::new(Op::Store, DType::VOID, sources, Arg::None);
    UOp::new(Op::LocalBuffer, value.dtype(), smallvec![store], Arg::None)
}

/// A load from flat memory.
fn load(buffer: &UOp, offset: &UOp, gate: Option<&UOp>) -> UOp {
    let offset = match gate {
        Some(gate) => simplify_given(offset, gate),
        None => simplify(offset),
    };
    let sources: Sources = [buffer.clone(), offset].into_iter().chain(gate.cloned()).collect();
    let index = UOp::new(Op::Index, buffer.dtype(), sources, Arg::None);
    UOp::new(Op::Load, buffer.dtype(), smallvec![index], Arg::None)
}
