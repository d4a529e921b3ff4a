//! Iterations of a loop that stand beside each other op by op, as they are written: each op once for each iteration, with what becomes known of it there.
//!
//! Always: an op is put behind what it is made of, and stands in the list once. Tested with the whole ([`super`]).

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::smallvec;

use super::Writer;
use super::plan::Plan;
use crate::DType;
use crate::dtype::Scalar;
use crate::ir::{Arg, Op, Sources, UOp};
use crate::linearize::loops::folded::folded;

/// A loop as it is written.
pub(super) struct Copies<'w> {
    pub(super) writer: &'w mut Writer,
    pub(super) plan: &'w Plan,
    pub(super) constants: Vec<UOp>,
    pub(super) ops: Vec<UOp>,
    /// What was written of it.
    pub(super) fresh: FxHashSet<UOp>,
}

impl Copies<'_> {
    /// Puts an op behind what it is made of, unless it was written where it is seen from here; false if it stands elsewhere.
    pub(super) fn put(&mut self, node: &UOp) -> bool {
        let is_open = || node.op() != Op::Update && self.writer.open.iter().any(|scope| scope.contains(node));
        if self.fresh.contains(node) || is_open() {
            return true;
        }
        let is_known = self.writer.known.contains(node);
        if node.op() == Op::Const {
            if !is_known {
                self.fresh.insert(node.clone());
                self.constants.push(node.clone());
            }
            return true;
        }
        if is_known && node.op() != Op::Update || !node.src().iter().all(|operand| self.put(operand)) {
            return false;
        }
        self.fresh.insert(node.clone());
        self.ops.push(node.clone());
        true
    }

    /// Puts an op of the list that stays one.
    pub(super) fn keep(&mut self, node: &UOp) {
        let node = self.writer.renewed(node);
        self.fresh.insert(node.clone());
        self.ops.push(node);
    }

    /// Writes iterations of these numbers.
    pub(super) fn write(&mut self, body: &[UOp], range: &UOp, numbers: &[UOp]) -> bool {
        let mut steps: FxHashMap<&UOp, i64> = [(range, 1)].into_iter().collect();
        let mut made: Vec<FxHashMap<&UOp, UOp>> =
            numbers.iter().map(|number| [(range, number.clone())].into_iter().collect()).collect();
        for number in numbers {
            if !self.put(number) {
                return false;
            }
        }
        let is_late = |node: &UOp| self.plan.accumulated.contains(node);
        let (late, early): (Vec<&UOp>, Vec<&UOp>) = body.iter().partition(|node| is_late(node));
        // Indices of threads end behind all that is repeated inside.
        let tail = early.iter().rev().take_while(|node| node.op() == Op::EndRange).count();
        let (early, ends) = early.split_at(early.len() - tail);
        for &node in early {
            if !self.plan.varying.contains(node) {
                if self.plan.has_threads {
                    self.keep(node);
                }
                continue;
            }
            if let Some(step) = step_of(node, &self.plan.varying, &steps) {
                steps.insert(node, step);
            }
            for copy in 0..numbers.len() {
                let new = self.copy_of(node, copy, &made, steps.get(node).copied());
                if !self.put(&new) {
                    return false;
                }
                made[copy].insert(node, new);
            }
        }
        for of_copy in &mut made {
            for node in &late {
                let new = self.over(node, of_copy);
                // Two iterations may come to update alike, and neither may be lost.
                let is_second = matches!(new.op(), Op::Update | Op::Previous | Op::Store) && self.fresh.contains(&new);
                if is_second || !self.put(&new) {
                    return false;
                }
                of_copy.insert(node, new);
            }
        }
        if self.plan.has_threads {
            ends.iter().for_each(|end| self.keep(end));
        }
        true
    }

    /// An op in a copy: of integers that step evenly, that of the first copy and a constant.
    fn copy_of(&mut self, node: &UOp, copy: usize, made: &[FxHashMap<&UOp, UOp>], step: Option<i64>) -> UOp {
        let distance = step.and_then(|step| step.checked_mul(copy as i64));
        match (distance, made[0].get(node)) {
            (Some(distance), Some(first)) if copy > 0 => {
                folded(&UOp::binary(Op::Add, first, &UOp::int(distance, first.dtype())))
            }
            _ => self.over(node, &made[copy]),
        }
    }

    fn over(&self, node: &UOp, made: &FxHashMap<&UOp, UOp>) -> UOp {
        let operand =
            |operand: &UOp| made.get(operand).or_else(|| self.writer.now.get(operand)).unwrap_or(operand).clone();
        decided(&folded(&node.with_src(node.src().iter().map(operand).collect::<Sources>())))
    }
}

/// A condition that bounds of integers decide, or one side of it; anything else as it is.
fn decided(node: &UOp) -> UOp {
    let is = |operand: &UOp, value: bool| operand.as_scalar() == Some(Scalar::Bool(value));
    let constant = |value: bool| UOp::constant(Scalar::Bool(value), DType::BOOL);
    match (node.op(), node.src()) {
        (Op::Lt, [a, b]) if a.dtype().is_integer() && a.dtype().lanes() == 1 => {
            match (a.max_value() < b.min_value(), a.min_value() >= b.max_value()) {
                (true, _) => constant(true),
                (_, true) => constant(false),
                _ => node.clone(),
            }
        }
        (Op::And, [a, b]) if node.dtype() == DType::BOOL => match () {
            () if is(a, true) => b.clone(),
            () if is(b, true) => a.clone(),
            () if is(a, false) || is(b, false) => constant(false),
            () => node.clone(),
        },
        // A gate that holds is none.
        (Op::Index, [memory, offset, gate]) if is(gate, true) => {
            UOp::new(Op::Index, node.dtype(), smallvec![memory.clone(), offset.clone()], Arg::None)
        }
        (Op::Where, [condition, yes, _]) if is(condition, true) => yes.clone(),
        _ => node.clone(),
    }
}

/// How far an integer moves with each iteration, if evenly.
fn step_of(node: &UOp, varying: &FxHashSet<UOp>, steps: &FxHashMap<&UOp, i64>) -> Option<i64> {
    if !node.dtype().is_integer() || node.dtype().lanes() > 1 || node.dtype().bytes() < 4 {
        return None;
    }
    let step = |operand: &UOp| steps.get(operand).copied();
    match (node.op(), node.src()) {
        (Op::Add, [a, b]) if varying.contains(a) && varying.contains(b) => step(a)?.checked_add(step(b)?),
        (Op::Add, [a, b]) => step(if varying.contains(a) { a } else { b }),
        (Op::Mul, [a, b]) => step(a)?.checked_mul(b.as_int()?),
        (Op::Cast, [a]) if a.dtype().bytes() >= 4 && a.dtype().is_integer() => step(a),
        _ => None,
    }
}
