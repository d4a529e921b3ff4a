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
//!
//! Stores and their loops are in `stores`, and what runs in order in `ordered`. Tested by filetests, and by random programs against the interpreter.

mod ordered;
mod stores;

use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};

use super::multi_index::{MultiIndex, both, flatten, inside_of, inside_of_pad, is_one, moved};
use crate::DType;
use crate::ir::{Arg, AxisKind, Combining, Dim, MemorySpace, Op, Shape, Sources, UOp};
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

    /// The ranges that a question opens. They are part of the questions below it, and remembered so that a second attempt asks the same.
    fn ranges_for<'d>(
        &mut self,
        (node, index): Question,
        lens: impl IntoIterator<Item = &'d Dim>,
        kind: AxisKind,
    ) -> Sources {
        let marker = (UOp::sink([node]), index);
        if let Some(known) = self.answers.get(&marker) {
            return known.src().iter().cloned().collect();
        }
        let ranges: Sources = lens.into_iter().map(|len| self.new_range(len, kind)).collect();
        self.answers.insert(marker, UOp::sink(ranges.iter().cloned()));
        ranges
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
            // A load that is gated by this already gives zero outside, which is zero in every type.
            Some(_) if is_cast_of_load(&value) => value,
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
        let reduced = axes.iter().map(|&axis| &operand.shape()[axis as usize]).filter(|dim| !is_one(dim));
        // All components of a state are reduced by the same loops.
        let asked = (node.first_component().unwrap_or_else(|| node.clone()), multi_index.clone());
        let ranges = self.ranges_for(asked, reduced, AxisKind::Reduce);
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
        let lens = kept.iter().map(|&axis| &shape[axis]);
        let ranges = self.ranges_for((node.clone(), first.clone()), lens, AxisKind::Loop);
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

/// Whether a value is a load, cast or not.
fn is_cast_of_load(value: &UOp) -> bool {
    match value.op() {
        Op::Cast => is_cast_of_load(&value.src()[0]),
        op => op == Op::Load,
    }
}
