//! Innermost loops whose iterations multiply matrices are written out, one iteration behind the other.
//!
//! ```text
//! a0 = accumulator zeros                                   a0 = accumulator zeros
//! r2 in 0..4                                               update a0, multiply_matrices load_matrices s0[b], .., a0
//!   update a0, multiply_matrices                     =>    update a0, multiply_matrices load_matrices s0[b + 16], .., a0
//!     load_matrices s0[b + r2 * 16], .., a0                ..
//! v0 = final a0, r2                                        (what names v0 names a0)
//! ```
//!
//! Each iteration loads its matrices before the one before it multiplies, where there are registers for both.
//!
//! A loop is written out that has at most so many iterations and ops, no other loop in it, no store and no op at which a block's threads meet, and of which all ops differ from iteration to
//! iteration. Other short loops are the business of `short_loops`, which leaves those whose end a value is asked for behind.
//!
//! Always: the list's rules (`check`), and accumulators are updated in the order in which the loop would. Tested below, and by attention on the emulator of GPUs.

use rustc_hash::{FxHashMap, FxHashSet};

use super::neighbours::with_neighbours;
use super::short_loops::{Writer, iterations};
use crate::ir::{AxisKind, Op, Sources, UOp};

/// Most iterations of a loop that is written out.
const TURNS_MAX: i64 = 16;
/// Registers that may hold sums and matrices: of the 255 of a thread some are left for addresses, and for what is computed.
const REGISTERS_MAX: usize = 200;
/// Most ops that a loop becomes.
const OPS_MAX: usize = 4096;

/// The list with its loops over products of matrices written out.
pub fn write_out(mut list: Vec<UOp>) -> Vec<UOp> {
    let mut refused: FxHashSet<UOp> = FxHashSet::default();
    while let Some((begin, end)) = find(&list, &refused) {
        match written_out(&list, begin, end) {
            Some(new) => list = new,
            None => drop(refused.insert(list[end].clone())),
        }
    }
    list
}

/// Where the first such loop begins and ends.
fn find(list: &[UOp], refused: &FxHashSet<UOp>) -> Option<(usize, usize)> {
    if !list.iter().any(|node| node.op() == Op::MultiplyMatrices) {
        return None;
    }
    let mut begin = 0;
    for (at, node) in list.iter().enumerate() {
        match node.op() {
            Op::Range => begin = at,
            Op::EndRange
                if list[begin] == node.src()[0]
                    && !refused.contains(node)
                    && is_written_out(&list[begin], &list[begin + 1..at])
                    && is_named_by_results(list, node) =>
            {
                return Some((begin, at));
            }
            _ => {}
        }
    }
    None
}

/// Whether a loop multiplies matrices, is short, and differs in all of its ops from iteration to iteration.
fn is_written_out(range: &UOp, body: &[UOp]) -> bool {
    let is_loop = range.as_range().is_some_and(|arg| matches!(arg.kind, AxisKind::Loop | AxisKind::Reduce));
    let turns = range.src()[0].as_int().filter(|turns| is_loop && (2..=TURNS_MAX).contains(turns));
    let is_short = turns.is_some_and(|turns| body.len() * turns as usize <= OPS_MAX);
    if !is_short || !body.iter().any(|node| node.op() == Op::MultiplyMatrices) {
        return false;
    }
    let mut varying: FxHashSet<&UOp> = [range].into_iter().collect();
    body.iter().all(|node| {
        let is_pinned = matches!(
            node.op(),
            Op::Store | Op::Exchange | Op::Barrier | Op::ShuffleReduce | Op::Final | Op::Previous | Op::Accumulator
        );
        let varies = node.src().iter().any(|operand| varying.contains(operand));
        varying.insert(node);
        varies && !is_pinned
    })
}

/// Whether who names the end of a loop asks for what an accumulator holds there.
fn is_named_by_results(list: &[UOp], end: &UOp) -> bool {
    list.iter().all(|node| !node.src().contains(end) || node.op() == Op::Final)
}

/// Whether a thread has registers for the matrices of two iterations, beside its accumulators and the matrices that all iterations of loops around have.
fn has_registers(list: &[UOp], begin: usize, end: usize) -> bool {
    let of = |node: &UOp| match node.op() {
        Op::Accumulator => node.dtype().lanes(),
        // Two half floats in each.
        Op::LoadMatrices => node.dtype().lanes() / 2,
        _ => 0,
    };
    let mut open: Vec<usize> = vec![0];
    for node in &list[..begin] {
        match node.op() {
            Op::Range => open.push(0),
            Op::EndRange => drop(open.pop()),
            Op::LoadMatrices => open.iter_mut().last().into_iter().for_each(|held| *held += of(node)),
            _ => {}
        }
    }
    let accumulated: usize = list.iter().filter(|node| node.op() == Op::Accumulator).map(of).sum();
    let loaded: usize = list[begin..end].iter().filter(|node| node.op() == Op::LoadMatrices).map(of).sum();
    accumulated + open.iter().sum::<usize>() + 2 * loaded <= REGISTERS_MAX
}

/// The iterations one behind the other, of which each loads its matrices before the one before it multiplies: so none waits for what it loads.
fn loaded_ahead(iterations: Vec<Vec<UOp>>) -> Vec<UOp> {
    let (mut ops, mut products): (Vec<UOp>, Vec<UOp>) = (Vec::new(), Vec::new());
    for iteration in iterations {
        let mut needed: FxHashSet<&UOp> = FxHashSet::default();
        for node in iteration.iter().rev() {
            if node.op() == Op::LoadMatrices || needed.contains(node) {
                needed.insert(node);
                needed.extend(node.src());
            }
        }
        let (loads, rest): (Vec<UOp>, Vec<UOp>) = iteration.iter().cloned().partition(|node| needed.contains(node));
        ops.extend(loads);
        ops.append(&mut products);
        products = rest;
    }
    ops.extend(products);
    ops
}

/// The list with one loop written out; nothing where an op would stand in it twice.
fn written_out(list: &[UOp], begin: usize, end: usize) -> Option<Vec<UOp>> {
    let mut writer = Writer::of(list);
    list[..begin].iter().for_each(|node| writer.copy(node));
    let iterations = iterations(&list[begin], &list[begin + 1..end]);
    let ops = if has_registers(list, begin, end) { loaded_ahead(iterations) } else { iterations.concat() };
    if !writer.write_ops(&with_neighbours(&ops)) {
        return None;
    }
    let mut renamed: FxHashMap<&UOp, UOp> = FxHashMap::default();
    for node in &list[end + 1..] {
        if node.op() == Op::Final && node.src()[1] == list[end] {
            renamed.insert(node, node.src()[0].clone());
            continue;
        }
        let src: Sources = node.src().iter().map(|operand| renamed.get(operand).unwrap_or(operand).clone()).collect();
        if src[..] == *node.src() {
            writer.copy(node);
            continue;
        }
        let new = node.with_src(src);
        if !matches!(new.op(), Op::Store | Op::Update) && writer.was_written(&new) {
            return None;
        }
        writer.copy(&new);
        renamed.insert(node, new);
    }
    Some(writer.finished())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linearize::check;
    use crate::linearize::text::{parse, print};

    /// Two products of matrices, of which the second factor differs.
    const PRODUCTS: &str = "p0: f32 = param #0 [4]
      p1: bf16 = param #1 [64]
      s0: bf16 = scratch shared #0 [512]
      zeros: f32x4 = const 0.0
      zero: i32 = const 0
      two: i32 = const 2
      four: i32 = const 4
      eight: i32 = const 8
      r0: i32 = range four, lane #0
      r1: i32 = range eight, block_x #1
      a0 = accumulator zeros, #0
      r2: i32 = range two, reduce #2
      v0 = mul r2, eight
      v1: bf16x8 = index s0, v0
      v2: bf16x8 = load_matrices v1, #0
      v3: bf16x4 = index p1, v0
      v4 = load v3
      v5 = multiply_matrices v2, v4, a0
      v6 = update a0, v5
      v7 = end r2
      v8 = final a0, v7
      v9: f32x4 = index p0, zero
      v10 = store v9, v8
      v11 = end r1
      v12 = end r0\n";

    fn written(body: &str) -> Vec<String> {
        let text = format!("linear %k(f32[4] write, bf16[64] read) grid 1 {{\n{body}}}");
        let mut linear = parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        linear.ops = write_out(linear.ops);
        check::check(&linear.ops).unwrap_or_else(|error| panic!("{error}\n{}", print(&linear)));
        let of = |op: Op| matches!(op, Op::LoadMatrices | Op::MultiplyMatrices | Op::Final | Op::EndRange);
        linear.ops.iter().map(UOp::op).filter(|op| of(*op)).map(|op| op.name().to_string()).collect()
    }

    #[test]
    fn iterations_follow_each_other_and_load_ahead() {
        let [load, product, end] = ["load_matrices", "multiply_matrices", "end"];
        assert_eq!(written(PRODUCTS), [load, load, product, product, end, end]);
    }

    #[test]
    fn loops_that_store_or_are_long_stay() {
        for (from, to) in [
            ("r2: i32 = range two", "r2: i32 = range long"),
            (
                "v6 = update a0, v5\n",
                "v6 = update a0, v5\n v13 = index p0, r2\n v14: f32 = lane v5, #0\n v15 = store v13, v14\n",
            ),
            // It is the same in each iteration.
            ("v3: bf16x4 = index p1, v0", "v3: bf16x4 = index p1, zero"),
        ] {
            assert!(PRODUCTS.contains(from));
            let body = PRODUCTS.replace(from, to).replace("zero: i32", "long: i32 = const 17\n zero: i32");
            let found = written(&body);
            assert_eq!(found.iter().filter(|op| *op == "multiply_matrices").count(), 1, "{found:?}");
            assert!(found.contains(&"final".to_string()), "{found:?}");
        }
    }
}
