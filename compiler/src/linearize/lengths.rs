//! The numbers of a list that follow from the lengths of its loops, taken out of it: lists that differ in lengths alone become one text.
//!
//! ```text
//! r0 = range 32                          r0 = range "#0"                            "#0" = 32, "#1" = 121
//!   v0 = mul r0, 4                         v0 = mul r0, 4
//!   v1 = min v0, 121                       v1 = min v0, "#1"
//! ```
//!
//! Such a number is the length of a loop, or what an index is held below or above. Strides stay numbers, because addresses are made from them, and so do
//! vectors. A list becomes no faster by this: it is for short kernels of which a program has many, whose compilation takes a thousand
//! times as long as a run. Longer ones keep their numbers.
//!
//! Always: over the values that come with it, the list means what it meant. Names begin with `#`, which no other variable's does.
//! Tested below; the runtime's tests run kernels that share their code.

use rustc_hash::FxHashMap;

use super::Linear;
use crate::DType;
use crate::ir::{AxisKind, Op, Sources, UOp};

/// Operations and bytes of a kernel that is short: some microseconds, where its compilation takes milliseconds.
const OPERATIONS_MAX: f64 = 65_536.0;
const BYTES_MAX: f64 = 65_536.0;
/// Numbers that one list gives up. Each takes a register.
const NUMBERS_MAX: usize = 12;
/// All that is taken out is below: what a short kernel counts to.
const NUMBER_MAX: i64 = 1 << 31;
/// What the names of these variables begin with.
const PREFIX: char = '#';

/// The list with its lengths as variables behind its own, and their values in order; none where the kernel is not short, has loops that threads
/// share, or has nothing to take out.
pub fn take_out_lengths(linear: &Linear) -> Option<(Linear, Vec<i64>)> {
    let estimate = &linear.estimate;
    if estimate.operations > OPERATIONS_MAX || estimate.bytes_accessed > BYTES_MAX || linear.grid != 1 {
        return None;
    }
    let mut numbers = Vec::new();
    let mut variables: Vec<UOp> = Vec::new();
    let mut done: FxHashMap<UOp, UOp> = FxHashMap::default();
    let mut ops: Vec<UOp> = Vec::with_capacity(linear.ops.len());
    for node in &linear.ops {
        let mut take = |number: i64| {
            let name = format!("{PREFIX}{}", numbers.len());
            numbers.push(number);
            let variable = UOp::variable(&name, 1, NUMBER_MAX);
            let variable = UOp::new(Op::Variable, DType::I64, Sources::new(), variable.arg().clone());
            variables.push(variable.clone());
            variable
        };
        let own = |operand: &UOp| done.get(operand).unwrap_or(operand).clone();
        let src: Sources =
            node.src().iter().map(|operand| length_of(node, operand).map_or_else(|| own(operand), &mut take)).collect();
        let new = if src[..] == *node.src() { node.clone() } else { node.with_src(src) };
        done.insert(node.clone(), new.clone());
        ops.push(new);
    }
    if numbers.is_empty() || numbers.len() > NUMBERS_MAX {
        return None;
    }
    let first = ops.iter().position(|node| node.op() != Op::Const).unwrap_or(ops.len());
    ops.splice(first..first, variables);
    let names = (0..numbers.len()).map(|number| format!("{PREFIX}{number}"));
    let variables = linear.variables.iter().cloned().chain(names).collect();
    Some((Linear { name: without_lengths(&linear.name).into(), variables, ops, ..linear.clone() }, numbers))
}

/// The number that an operand is, if it is to be taken out.
fn length_of(node: &UOp, operand: &UOp) -> Option<i64> {
    let number = operand.as_int().filter(|number| (1..=NUMBER_MAX).contains(number))?;
    let is_scalar = operand.dtype() == DType::I64;
    let is_length = match node.op() {
        Op::Range => node.as_range().is_some_and(|range| matches!(range.kind, AxisKind::Loop | AxisKind::Reduce)),
        Op::Min | Op::Max => true,
        _ => false,
    };
    (is_scalar && is_length).then_some(number)
}

/// `e_n` for `e_999`.
fn without_lengths(name: &str) -> String {
    let parts = name.split('_').map(|part| if part.parse::<u64>().is_ok() { "n" } else { part });
    parts.collect::<Vec<&str>>().join("_")
}

#[cfg(test)]
mod tests {
    use super::super::{check, text};
    use super::*;

    fn list(iterations: i64, last: i64, operations: f64) -> Linear {
        let source = format!(
            r#"linear %e_{last}(f32[{last}] write, "@0") grid 1 cost {operations:?} 64.0 64.0 {{
  v0: i64 = const {iterations}
  v1: i64 = const 4
  v2: i64 = const {last}
  v3: f32 = const 2.0
  p0: f32 = param #0 [{last}]
  v4: i64 = variable "@0" 0..1
  r0: i64 = range v0, loop #0
    v5 = mul r0, v1
    v6 = min v5, v2
    v7 = add v6, v4
    v8: f32 = index p0, v7
    v9 = store v8, v3
  v10 = end r0
}}
"#
        );
        text::parse(&source).expect("a list")
    }

    #[test]
    fn lists_of_other_lengths_are_one() {
        let [(first, numbers), (second, others)] = [(32, 121), (7, 22)]
            .map(|(count, last)| take_out_lengths(&list(count, last, 9.0)).expect("a short kernel"));
        assert_eq!((numbers, others), (vec![32, 121], vec![7, 22]));
        assert_eq!((first.ops[1..].len(), &*first.name), (second.ops[1..].len(), "e_n"));
        assert_eq!(first.variables, ["@0", "#0", "#1"]);
        assert_eq!(check::check(&first.ops), Ok(()));
        let acts = |linear: &Linear| {
            let acts = [Op::Range, Op::Mul, Op::Min, Op::Add, Op::EndRange];
            linear.ops.iter().filter(|node| acts.contains(&node.op())).cloned().collect::<Vec<UOp>>()
        };
        assert_eq!(acts(&first), acts(&second));
    }

    #[test]
    fn long_kernels_and_those_of_threads_keep_their_numbers() {
        assert!(take_out_lengths(&list(32, 121, OPERATIONS_MAX + 1.0)).is_none());
        assert!(take_out_lengths(&Linear { grid: 2, ..list(32, 121, 9.0) }).is_none());
    }
}
