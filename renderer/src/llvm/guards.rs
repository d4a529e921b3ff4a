//! Innermost loops whose loads and stores stand under one condition that was decided before them become two: one where it holds, and one where it does not.
//!
//! ```text
//! g = 0 <= i < rows                                   g = 0 <= i < rows
//! for c { store y[r, c], load x[i, c] if g }    =>    if g { for c { store y[r, c], load x[i, c] } } else { for c { store y[r, c], 0 } }
//! ```
//!
//! So rows that a program chooses by indices (embeddings, rows added up by index) are read and written as if they were chosen beforehand: the condition is decided once for a row and not at
//! each vector, and a loop that only copies is one copy (`fills`). Rows of 52 to 768 numbers that lie apart were copied 1.0 to 1.4 times as fast under a branch, 1.1 to 1.6 times with the copy (the same loops in C,
//! Zen 3).
//!
//! Always: the loop carries no value from one iteration to the next, so nothing behind it depends on which of both ran. Tested below, by goldens (`tests.rs`), and by values in the test crate.

use rustc_hash::FxHashSet;
use warpweft_compiler::{Op, UOp};

use super::memory::same_for_all;
use super::outlined::Outlined;
use super::{Writer, bug};

/// Micro-ops of a body, at most: code generation takes time for both, and of more work the condition is a small part.
const OPS_MAX: usize = 96;

/// What is known of a condition where the loop stands that is being written.
pub(super) struct Assumption {
    condition: UOp,
    holds: bool,
}

/// What an index waits for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Gate<'u> {
    /// Nothing: it is always there.
    Holds,
    /// It is never there.
    Fails,
    /// This condition.
    Is(&'u UOp),
}

/// What an index waits for, where one condition is known.
pub(super) fn gate_under<'u>(index: &'u UOp, assumed: Option<&Assumption>) -> Gate<'u> {
    if index.op() != Op::Index {
        bug(index, "stands where an index must");
    }
    match (index.src().get(2), assumed) {
        (None, _) => Gate::Holds,
        (Some(gate), _) if gate.as_int() == Some(1) => Gate::Holds,
        (Some(gate), Some(known)) if same_for_all(gate) == Some(&known.condition) => {
            if known.holds {
                Gate::Holds
            } else {
                Gate::Fails
            }
        }
        (Some(gate), _) => Gate::Is(gate),
    }
}

/// A loop under one condition.
pub(super) struct Guarded {
    condition: UOp,
    /// Whether anything happens where the condition does not hold.
    acts_otherwise: bool,
    /// How many of the list's micro-ops it is.
    pub(super) len: usize,
}

/// The loop that a list begins with, if it stands under one condition.
pub(super) fn find(ops: &[UOp], outlined: &Outlined) -> Option<Guarded> {
    let (range, rest) = ops.split_first().filter(|(range, _)| range.op() == Op::Range)?;
    let len = rest.iter().take(OPS_MAX + 1).position(|node| matches!(node.op(), Op::EndRange | Op::Range))?;
    let body = &rest[..len];
    let is_carried = |node: &UOp| matches!(node.op(), Op::Accumulator | Op::Update | Op::Final | Op::MultiplyTiles);
    if rest[len].op() != Op::EndRange || outlined.contains_key(range) || body.iter().any(is_carried) {
        return None;
    }
    let inside: FxHashSet<&UOp> = std::iter::once(range).chain(body).collect();
    let accesses = || body.iter().filter(|node| accesses_memory(node));
    let condition = accesses().find_map(|access| condition_of(access).filter(|gate| !inside.contains(gate)))?.clone();
    let is_store = |access: &&UOp| matches!(access.op(), Op::Store | Op::Exchange);
    let acts_otherwise = accesses().filter(is_store).any(|store| condition_of(store) != Some(&condition));
    Some(Guarded { condition, acts_otherwise, len: len + 2 })
}

fn accesses_memory(node: &UOp) -> bool {
    matches!(node.op(), Op::Load | Op::Previous | Op::Store | Op::Exchange)
}

/// The condition that an access waits for, if it is one for all lanes and no constant.
fn condition_of(access: &UOp) -> Option<&UOp> {
    match gate_under(&access.src()[0], None) {
        Gate::Is(gate) => same_for_all(gate).filter(|condition| condition.op() != Op::Const),
        Gate::Holds | Gate::Fails => None,
    }
}

impl Writer {
    /// Writes the loop for both cases.
    pub(super) fn guarded(&mut self, guarded: &Guarded, ops: &[UOp]) {
        let Some(arg) = ops[0].as_range() else { bug(&ops[0], "has no number") };
        let label = format!("guard{}", arg.id);
        let otherwise = if guarded.acts_otherwise { "else" } else { "end" };
        let condition = self.operand(&guarded.condition).to_string();
        self.line(&format!("br i1 {condition}, label %{label}.then, label %{label}.{otherwise}"));
        let cases = if guarded.acts_otherwise { [true, false].as_slice() } else { &[true] };
        for holds in cases {
            self.label(&format!("{label}.{}", if *holds { "then" } else { "else" }));
            self.assumed = Some(Assumption { condition: guarded.condition.clone(), holds: *holds });
            self.write(&ops[..guarded.len]);
            self.assumed = None;
            self.line(&format!("br label %{label}.end"));
        }
        self.label(&format!("{label}.end"));
    }

    /// What names in the loop end with: the second time that it is written, they would be the same.
    pub(super) fn version(&self) -> &'static str {
        if self.assumed.as_ref().is_some_and(|assumed| !assumed.holds) { ".else" } else { "" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_lists::{List, i64, source};
    use warpweft_compiler::DType;
    use warpweft_compiler::ir::AxisKind;
    use warpweft_compiler::target::Target;

    /// Rows of `y` added to those of `x` that memory names; the condition is decided where it is asked for.
    fn rows_added(decided_inside: bool, stores_all: bool) -> String {
        let mut list = List::default();
        let (x, y, out) =
            (list.param(0, DType::F32, 1000), list.param(1, DType::F32, 1000), list.param(3, DType::F32, 1000));
        let numbers = list.param(2, DType::I64, 16);
        let begin = list.load(&numbers, 1, &i64(3), None);
        let outside = list.binary(Op::Lt, &begin, &i64(100));
        let range = list.range(0, &i64(10), AxisKind::Loop);
        let step = list.binary(Op::Mul, &range, &i64(16));
        let inside = list.binary(Op::Lt, &step, &begin);
        let condition = if decided_inside { inside } else { outside };
        let gate = list.splat(&condition, 16);
        let to = list.binary(Op::Add, &step, &begin);
        let old = list.load(&x, 16, &to, Some(&gate));
        let row = list.load(&y, 16, &step, None);
        let sum = list.binary(Op::Add, &old, &row);
        list.store(&x, &to, Some(&gate), &sum);
        if stores_all {
            list.store(&out, &step, None, &sum);
        }
        list.end(&range);
        source(list, &Target::test_avx512())
    }

    #[test]
    fn a_condition_from_outside_is_decided_before_the_loop() {
        let source = rows_added(false, false);
        assert!(source.contains(", label %guard0.then, label %guard0.end"), "{source}");
        assert!(
            !source.contains("guard0.else") && !source.contains("%zeros") && !source.contains("%dropped"),
            "{source}"
        );
        // What is stored in any case is stored in both.
        let source = rows_added(false, true);
        assert!(
            source.contains("label %guard0.then, label %guard0.else") && source.contains("%r0.else = phi"),
            "{source}"
        );
        assert_eq!([source.matches("store <16 x float>").count(), source.matches("load <16 x float>").count()], [3, 3]);
    }

    #[test]
    fn one_that_differs_between_iterations_stays_inside() {
        let source = rows_added(true, true);
        assert!(!source.contains("guard0") && source.contains("%zeros") && source.contains("%dropped"), "{source}");
    }
}
