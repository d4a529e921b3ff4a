//! Proves of a finished list that what accumulates in a local buffer is right: partial results are begun, renewed and read in order.
//!
//! ```text
//! for b in 0..4                      the loops that the gate names: blocks
//!   for i in 0..8                    each element once in a block
//!     p = previous s0[i], b > 0      no look at what was there before the first block
//!     store s0[i], b > 0 ? p + v : v
//! for i in 0..8
//!   load s0[i]                       after all blocks
//! ```
//!
//! Of a buffer of which a list asks for what it held: each store stands behind one question for its own element, in the same loops. The gate of that
//! question is false in the first iteration of the loops that it names and true in all others; no load shares one of these loops, and
//! every load stands behind all stores. In one iteration of these loops no element is stored twice: that is asked as in [`super`], of the loops that no load shares.
//!
//! Always: what [`super`] says of code that is not shared holds for this. Tested below with lists that are wrong.

use super::{Found, MemoryAccess, Sum, Values, accesses_of, length, offset_of, search};
use crate::dtype::Scalar;
use crate::ir::{Op, UOp};

/// What is wrong with what accumulates in one scratch memory.
pub(super) fn check(list: &[UOp], values: &Values<'_>) -> Result<(), String> {
    let asked = list.iter().filter(|node| node.op() == Op::Previous).map(memory_of);
    let mut memories: Vec<&UOp> = Vec::new();
    for memory in asked.filter(|memory| memory.op() == Op::Scratch) {
        if !memories.contains(&memory) {
            memories.push(memory);
        }
    }
    memories.into_iter().try_for_each(|memory| check_memory(list, memory, values))
}

fn memory_of(access: &UOp) -> &UOp {
    &access.src()[0].src()[0]
}

fn check_memory(list: &[UOp], memory: &UOp, values: &Values<'_>) -> Result<(), String> {
    let only = std::iter::once(memory.clone()).collect();
    let all = accesses_of(list, &only, values);
    let never_runs = |access: &&MemoryAccess| access.loops.iter().any(|range| length(range, values) == 0);
    let all: Vec<&MemoryAccess> = all.iter().filter(|access| !never_runs(access)).collect();
    let of_op = |op: Op| all.iter().copied().filter(move |access| list[access.position].op() == op);
    let stores: Vec<&MemoryAccess> = of_op(Op::Store).collect();
    for store in &stores {
        let wrong = |why: &str| Err(format!("op {} accumulates: {why}", store.position));
        let mut own = of_op(Op::Previous).filter(|previous| {
            previous.position < store.position
                && previous.loops == store.loops
                && previous.index.src()[1] == store.index.src()[1]
        });
        let (Some(previous), None) = (own.next(), own.next()) else {
            return wrong("it is not asked once what its element held");
        };
        if of_op(Op::Load).any(|load| load.position < store.position) {
            return wrong("it is read before");
        }
        let Some(blocks) = blocks_of(previous, values) else {
            return wrong("what its element held is not left out in the first iteration alone");
        };
        // A component of a state that only others are combined from is not loaded: around its blocks all begins anew.
        let first = store.loops.iter().position(|range| blocks.contains(range)).unwrap_or(0);
        let common = of_op(Op::Load).map(|load| shared(load, store)).max().unwrap_or(first);
        if store.loops[..common].iter().any(|range| blocks.contains(range)) {
            return wrong("it is read before the last iteration");
        }
        let between: Vec<&UOp> =
            store.loops[common..].iter().copied().filter(|range| !blocks.contains(range)).collect();
        for other in &stores {
            let is_same = other.position == store.position;
            match stored_twice(store, other, &store.loops[..common], &between, is_same, values) {
                Found::Nothing => {}
                Found::Conflict | Found::MayConflict => {
                    return wrong(&format!("op {} renews an element once more in one iteration", other.position));
                }
                Found::Unknown => return wrong("it is not known to renew each element once"),
            }
        }
    }
    Ok(())
}

/// How many loops two accesses stand in together.
fn shared(a: &MemoryAccess, b: &MemoryAccess) -> usize {
    a.loops.iter().zip(&b.loops).take_while(|(a, b)| a == b).count()
}

/// The loops that the gate of a question names, if it is false where all of them are at 0 and true where one is not.
fn blocks_of<'a>(previous: &MemoryAccess<'a>, values: &Values<'_>) -> Option<Vec<&'a UOp>> {
    let gate = previous.index.src().get(2)?;
    let gate = if gate.op() == Op::Splat { &gate.src()[0] } else { gate };
    // The length of a loop may name others, which the gate does not ask for.
    let below = crate::ir::postorder_until(std::slice::from_ref(gate), |node| node.op() == Op::Range);
    let blocks: Vec<&UOp> = previous.loops.iter().copied().filter(|range| below.contains(range)).collect();
    let at = |ahead: Option<&UOp>| {
        let leaf = |leaf: &UOp| match leaf.op() {
            Op::Range => Some(Scalar::Int(i64::from(Some(leaf) == ahead))),
            _ => values.get(leaf).map(|value| Scalar::Int(*value as i64)),
        };
        crate::ir::evaluate(gate, leaf).map(|value| value.to_i64())
    };
    let ahead = blocks.iter().filter(|range| length(range, values) > 1);
    let is_right = at(None) == Some(0) && ahead.into_iter().all(|range| at(Some(range)) == Some(1));
    is_right.then_some(blocks)
}

/// Looks for an element that two stores, or two iterations of one, store between the same two questions of a block.
fn stored_twice(
    store: &MemoryAccess,
    other: &MemoryAccess,
    around: &[&UOp],
    between: &[&UOp],
    is_same: bool,
    values: &Values<'_>,
) -> Found {
    let offset = |access: &MemoryAccess| {
        let mut sum = offset_of(access.index, values)?;
        // Loops around both are in one iteration.
        around.iter().for_each(|range| sum.forget(range));
        Some(sum)
    };
    let (Some(a), Some(b)) = (offset(store), offset(other)) else { return Found::Unknown };
    search(&a, &b, between, is_same, values)
}

impl Sum {
    /// Leaves out what a loop adds.
    fn forget(&mut self, range: &UOp) {
        if let Some(arg) = range.as_range() {
            self.factors.remove(&super::Term::Loop(arg.id));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;
    use crate::ir::{Arg, ReduceOp};
    use crate::kernel::local_buffers::local_buffers;
    use crate::linearize::effects;
    use crate::optimize::apply_list;
    use crate::optimize::text::parse_list;
    use crate::pipeline::{LowerOptions, loops_of, lower_kernel};
    use crate::target::Target;
    use crate::watch::Silent;

    const LIST: &str = "split(r2, 4), accumulate(r2, r0, r1)";

    fn matmul() -> UOp {
        let a = UOp::param(1, DType::F32, 8 * 16).reshape([8, 1, 16]).expand([8, 8, 16]);
        let b = UOp::param(2, DType::F32, 8 * 16).reshape([1, 8, 16]).expand([8, 8, 16]);
        let product = (a * b).reduce(ReduceOp::Add, &[2]).reshape([8, 8]);
        UOp::sink([UOp::new(Op::Store, DType::VOID, vec![UOp::param(0, DType::F32, 64), product], Arg::None)])
    }

    /// The list of a product by blocks.
    fn ops() -> Vec<UOp> {
        let options = LowerOptions { opts: LIST.parse().expect("opts") };
        lower_kernel(&matmul(), &Target::test_avx512(), &options, &mut Silent).expect("a list").ops
    }

    fn position(ops: &[UOp], is_it: impl Fn(&UOp) -> bool) -> usize {
        ops.iter().position(is_it).expect("an op")
    }

    /// The list with some ops exchanged, in all that names them.
    fn exchanged(ops: &[UOp], change: impl Fn(&UOp) -> Option<UOp>) -> Vec<UOp> {
        let mut new: rustc_hash::FxHashMap<UOp, UOp> = rustc_hash::FxHashMap::default();
        for op in ops {
            let rebuilt = crate::ir::with_mapped_sources(op, |operand| new.get(operand).unwrap_or(operand));
            new.insert(op.clone(), change(&rebuilt).unwrap_or(rebuilt));
        }
        ops.iter().map(|op| new[op].clone()).collect()
    }

    #[test]
    fn products_by_blocks_are_right() {
        assert_eq!(effects::check(&ops()), Ok(()));
        let list = parse_list(LIST).expect("a list");
        let kernel = apply_list(&loops_of(&matmul(), &mut Silent), &list, &Target::test_avx512()).expect("a kernel");
        assert_eq!(local_buffers(&kernel.kernel).len(), 1);
    }

    #[test]
    fn what_is_read_among_the_blocks_is_found() {
        let mut ops = ops();
        let load = position(&ops, |op| op.op() == Op::Load && memory_of(op).op() == Op::Scratch);
        let store = position(&ops, |op| op.op() == Op::Store);
        let moved = ops.remove(load);
        ops.insert(store, moved.clone());
        let error = effects::check(&ops).unwrap_err();
        assert!(error.ends_with("it is read before"), "{error}");
        // Behind the store, but in its loops.
        let moved = ops.remove(store);
        ops.insert(store + 1, moved);
        let error = effects::check(&ops).unwrap_err();
        assert!(error.ends_with("it is read before the last iteration"), "{error}");
    }

    #[test]
    fn a_first_block_that_asks_is_found() {
        let is_asked = |op: &UOp| op.op() == Op::Index && op.src().len() == 3;
        let gates = [
            (true, "not left out in the first iteration alone"),
            (false, "renews an element once more in one iteration"),
        ];
        for (gate, why) in gates {
            let always = UOp::bool(gate);
            let wrong = exchanged(&ops(), |op| {
                is_asked(op).then(|| op.with_src([&op.src()[0], &op.src()[1], &always].map(UOp::clone).to_vec()))
            });
            let error = effects::check(&wrong).unwrap_err();
            assert!(error.ends_with(why), "{error}");
        }
    }

    #[test]
    fn an_element_that_is_renewed_twice_is_found() {
        // Rows of 8 elements that lie 4 apart.
        let wrong = exchanged(&ops(), |op| {
            let of_scratch = matches!(op.op(), Op::Index) && op.src()[0].op() == Op::Scratch;
            let halved = |offset: &UOp| match offset.src() {
                [row, column] => (row.idiv(2) + column).clone(),
                _ => offset.clone(),
            };
            of_scratch.then(|| {
                let mut src = op.src().to_vec();
                src[1] = halved(&src[1]);
                op.with_src(src)
            })
        });
        let error = effects::check(&wrong).unwrap_err();
        assert!(error.contains("op ") && error.contains("renew"), "{error}");
    }

    #[test]
    fn a_store_without_a_question_is_found() {
        let mut ops = ops();
        let asked = position(&ops, |op| op.op() == Op::Previous);
        let store = position(&ops, |op| op.op() == Op::Store);
        let moved = ops.remove(asked);
        ops.insert(store, moved);
        let error = effects::check(&ops).unwrap_err();
        assert!(error.ends_with("it is not asked once what its element held"), "{error}");
    }
}
