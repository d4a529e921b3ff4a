//! Choices whose condition seldom holds ([`SELDOM`]): what only they need is computed behind a branch.
//!
//! ```text
//!   %where9.any = call i1 @llvm.vector.reduce.or.v8i1(<8 x i1> %not7)
//!   br i1 %where9.any, label %where9.do, label %where9.end
//! where9.do:
//!   ...                                      what only the choices of this condition need
//! where9.end:
//!   %where9.0 = phi <8 x float> [ zeroinitializer, %loop0 ], [ %mul20, %where9.do ]
//!   %where24 = select <8 x i1> %not7, <8 x float> %where9.0, <8 x float> %muladd12
//! ```
//!
//! All choices of one condition in one stretch of straight code share the branch, which stands before the first of them.
//!
//! Always: what moves behind the branch has no effect, is used by such choices alone, and everything that it is made from stands before the first choice. Where no lane chooses it, its place takes zeros
//! that nobody sees. Tested below, and by values of all numbers in the test crate.

use rustc_hash::{FxHashMap, FxHashSet};
use warpweft_compiler::ir::{Arg, SELDOM};
use warpweft_compiler::{Op, UOp};

use super::{Writer, spelling};

/// Ops behind a branch, at least: fewer cost less than the branch.
const OPS_MIN: usize = 8;

/// The branches of a list.
#[derive(Default)]
pub(super) struct Seldom {
    /// By the choice before which they stand.
    branches: FxHashMap<UOp, Branch>,
    /// What stands behind one.
    moved: FxHashSet<UOp>,
}

/// A branch over what choices of one condition need.
#[derive(Clone)]
struct Branch {
    condition: UOp,
    /// What is computed there, in order.
    ops: Vec<UOp>,
    /// What of it the choices take.
    taken: Vec<UOp>,
}

impl Seldom {
    /// Finds the branches of a list.
    pub(super) fn find(ops: &[UOp]) -> Seldom {
        let mut seldom = Seldom::default();
        if !ops.iter().any(is_seldom) {
            return seldom;
        }
        let users = users(ops);
        let ends = |node: &UOp| matches!(node.op(), Op::Range | Op::EndRange);
        for stretch in ops.split(ends) {
            let choices: Vec<&UOp> = stretch.iter().filter(|node| is_seldom(node)).collect();
            let mut done: FxHashSet<&UOp> = FxHashSet::default();
            for choice in &choices {
                let condition = &choice.src()[0];
                if done.insert(condition) {
                    let same = choices.iter().filter(|other| &other.src()[0] == condition).copied().collect();
                    seldom.extend(branch_of(stretch, condition, &same, &users), choice);
                }
            }
        }
        seldom
    }

    fn extend(&mut self, branch: Option<Branch>, before: &UOp) {
        let Some(branch) = branch else { return };
        self.moved.extend(branch.ops.iter().cloned());
        self.branches.insert(before.clone(), branch);
    }

    /// Whether a micro-op is written behind a branch.
    pub(super) fn is_moved(&self, node: &UOp) -> bool {
        self.moved.contains(node)
    }
}

fn is_seldom(node: &UOp) -> bool {
    node.op() == Op::Where && *node.arg() == Arg::Number(SELDOM)
}

/// The nodes of a list that take each node.
fn users(ops: &[UOp]) -> FxHashMap<&UOp, Vec<&UOp>> {
    let mut users: FxHashMap<&UOp, Vec<&UOp>> = FxHashMap::default();
    for node in ops {
        node.src().iter().for_each(|operand| users.entry(operand).or_default().push(node));
    }
    users
}

/// What moves behind a branch for the choices of a condition, if that is worth one.
fn branch_of(
    stretch: &[UOp],
    condition: &UOp,
    choices: &FxHashSet<&UOp>,
    users: &FxHashMap<&UOp, Vec<&UOp>>,
) -> Option<Branch> {
    let first = stretch.iter().position(|node| choices.contains(node))?;
    let behind: FxHashSet<&UOp> = stretch[first..].iter().collect();
    // What is made from something that stands behind the first choice comes too late, and what that is made from is needed elsewhere.
    let mut late: FxHashSet<&UOp> = FxHashSet::default();
    let inside = loop {
        let inside = only_for(stretch, condition, choices, users, &late);
        let known = late.len();
        for node in stretch.iter().filter(|node| inside.contains(node)) {
            let is_late = |src: &UOp| behind.contains(src) && (!inside.contains(src) || late.contains(src));
            if node.src().iter().any(is_late) {
                late.insert(node);
            }
        }
        if late.len() == known {
            break inside;
        }
    };
    let ops: Vec<UOp> = stretch.iter().filter(|node| inside.contains(node)).cloned().collect();
    let of_choices: FxHashSet<&UOp> = choices.iter().map(|choice| &choice.src()[1]).collect();
    let taken = ops.iter().filter(|node| of_choices.contains(node)).cloned().collect();
    (ops.len() >= OPS_MIN).then(|| Branch { condition: condition.clone(), ops, taken })
}

/// What a stretch computes for these choices alone, for where their condition holds.
fn only_for<'l>(
    stretch: &'l [UOp],
    condition: &UOp,
    choices: &FxHashSet<&UOp>,
    users: &FxHashMap<&UOp, Vec<&UOp>>,
    but: &FxHashSet<&UOp>,
) -> FxHashSet<&'l UOp> {
    let mut inside: FxHashSet<&UOp> = FxHashSet::default();
    for node in stretch.iter().rev().filter(|node| has_no_effect(node) && !but.contains(node)) {
        let is_for_choice = |user: &UOp| {
            choices.contains(user) && user.src()[1] == *node && user.src()[2] != *node && condition != node
        };
        let all = users.get(node).is_some_and(|of| of.iter().all(|user| inside.contains(user) || is_for_choice(user)));
        if all {
            inside.insert(node);
        }
    }
    inside
}

fn has_no_effect(node: &UOp) -> bool {
    let is_of_lanes = matches!(node.op(), Op::Splat | Op::Stack | Op::Lane);
    (node.op().is_elementwise() || is_of_lanes) && !is_seldom(node)
}

impl Writer {
    /// Writes the branch that stands before a choice, if one does.
    pub(super) fn branch_before(&mut self, choice: &UOp) {
        let Some(branch) = self.seldom.branches.get(choice).cloned() else { return };
        let name = self.names.next(Op::Where);
        let label = name.trim_start_matches('%').to_string();
        let (dtype, before) = (branch.condition.dtype(), self.block.clone());
        let mut any = self.operand(&branch.condition).to_string();
        if dtype.lanes() > 1 {
            let reduce = format!("call i1 @llvm.vector.reduce.or.v{}i1", dtype.lanes());
            any = self.step(&name, "any", &format!("{reduce}({} {any})", spelling::register(dtype)));
        }
        self.line(&format!("br i1 {any}, label %{label}.do, label %{label}.end"));
        self.label(&format!("{label}.do"));
        branch.ops.iter().for_each(|node| self.write_op(node));
        let inner = self.block.clone();
        self.line(&format!("br label %{label}.end"));
        self.label(&format!("{label}.end"));
        for (number, node) in branch.taken.iter().enumerate() {
            let (zero, value) = (spelling::zero(node.dtype()), self.operand(node).to_string());
            let phi = format!("phi {} [ {zero}, %{before} ], [ {value}, %{inner} ]", spelling::register(node.dtype()));
            let found = self.step(&name, &number.to_string(), &phi);
            self.set(node, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_lists::{List, i64, source};
    use warpweft_compiler::DType;
    use warpweft_compiler::target::Target;

    /// `where(x < 0, x doubled so many times, x)`, where something else may take what is in the middle.
    fn doubled(times: usize, is_used: bool) -> String {
        let mut list = List::default();
        let (out, x) = (list.param(0, DType::F32, 100), list.param(1, DType::F32, 100));
        let x = list.load(&x, 8, &i64(0), None);
        let zero = UOp::float(0.0, x.dtype());
        let is_less = list.binary(Op::Lt, &x, &zero);
        let (mut value, mut middle) = (x.clone(), x.clone());
        for time in 0..times {
            value = list.binary(Op::Add, &value, &value);
            if time == times / 2 {
                middle = value.clone();
            }
        }
        let chosen = list.push(Op::Where, x.dtype(), &[&is_less, &value, &x], Arg::Number(SELDOM));
        list.store(&out, &i64(0), None, &chosen);
        if is_used {
            list.store(&out, &i64(16), None, &middle);
        }
        source(list, &Target::test_avx2())
    }

    /// Two choices of one condition, the second of what stands behind the first.
    #[test]
    fn choices_of_one_condition_share_a_branch() {
        let mut list = List::default();
        let (out, x) = (list.param(0, DType::F32, 100), list.param(1, DType::F32, 100));
        let x = list.load(&x, 8, &i64(0), None);
        let zero = UOp::float(0.0, x.dtype());
        let is_less = list.binary(Op::Lt, &x, &zero);
        let many =
            |list: &mut List, from: &UOp, op: Op| (0..6).fold(from.clone(), |value, _| list.binary(op, &value, &value));
        let shared = many(&mut list, &x, Op::Add);
        let mut chosen = Vec::new();
        for op in [Op::Mul, Op::Sub] {
            let value = many(&mut list, &shared, op);
            chosen.push(list.push(Op::Where, x.dtype(), &[&is_less, &value, &x], Arg::Number(SELDOM)));
        }
        // What is made from a choice cannot stand before it.
        let late = many(&mut list, &chosen[0], Op::Max);
        chosen.push(list.push(Op::Where, x.dtype(), &[&is_less, &late, &x], Arg::Number(SELDOM)));
        for (number, value) in (0..).zip(&chosen) {
            list.store(&out, &i64(number * 8), None, value);
        }
        let source = source(list, &Target::test_avx2());
        let (before, behind) = source.split_once(".do:").expect("a branch");
        let (inside, after) = behind.split_once(".end:").expect("its end");
        let count = |text: &str| ["fadd", "fmul", "fsub"].map(|word| text.matches(word).count());
        assert_eq!([count(before), count(inside), count(after)], [[0; 3], [6; 3], [0; 3]], "{source}");
        assert_eq!((source.matches("phi <8 x float>").count(), source.matches("br i1").count()), (2, 1), "{source}");
    }

    /// How many additions stand behind the branch, and how many before.
    fn additions(source: &str) -> (usize, usize) {
        let (before, behind) = source.split_once(".do:").unwrap_or((source, ""));
        (behind.matches("fadd").count(), before.matches("fadd").count())
    }

    #[test]
    fn what_only_a_choice_needs_is_computed_behind_a_branch() {
        let source = doubled(10, false);
        assert_eq!(additions(&source), (10, 0), "{source}");
        assert!(source.contains("llvm.vector.reduce.or.v8i1") && source.contains("phi <8 x float>"), "{source}");
        // What something else needs, and all before it, stays.
        assert_eq!(additions(&doubled(20, true)), (9, 11));
        // Little is not worth a branch.
        assert_eq!(additions(&doubled(3, false)), (0, 3));
    }
}
