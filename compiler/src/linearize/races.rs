//! Proves of a finished list that the threads of a block meet between accesses of what they share, all of them.
//!
//! *Between accesses.* For each two accesses of one shared scratch of which one is a store, every way from the one to the other must cross a barrier: the way
//! straight on, and for each loop around both the way into its next iteration. A barrier is crossed for certain if it stands, behind the
//! first, in a loop that the first stands in, or, before the second, in one that the second stands in; one in a loop beside them that may be empty may be passed by. Two
//! stores need one only on the way into the next iteration of a loop that their offsets do not depend on: what fills a scratch in one go
//! fills each element once.
//!
//! Two halves of a scratch that alternate with the iterations of a loop are told apart by the parity in their offsets.
//!
//! *All of them.* Around a barrier no loop may have another length for another thread, and a range of an index must be as long as the block is:
//! otherwise some would wait for others that never come. The same of lanes where they combine what they have or multiply matrices.
//!
//! This shares no code with the pass that places barriers (`barriers`), so that one mistake is not made twice. It runs on every kernel in debug builds.
//! Not here: which element an access touches (`interpret` watches that). Tested below with lists that are wrong.

use rustc_hash::FxHashSet;

use super::Launch;
use crate::ir::{Arg, AxisKind, MemorySpace, Op, ThreadDim, UOp, fragments};

/// An op and the positions of the ranges that are open around it, outermost first.
struct Site<'a> {
    position: usize,
    around: Vec<usize>,
    node: &'a UOp,
}

impl Site<'_> {
    fn is_store(&self) -> bool {
        matches!(self.node.op(), Op::Store | Op::Exchange)
    }

    /// Whether who comes by it from one op, or on the way to one, passes all the loops around it: the op's own, and loops that are not empty.
    fn is_passed(&self, around: impl Fn(&usize) -> bool, list: &[UOp]) -> bool {
        self.around.iter().all(|position| around(position) || list[*position].src()[0].min_value() >= 1)
    }
}

/// What is wrong between the threads of a block: a bug in the compiler.
///
/// # Errors
/// A sentence that names the ops.
pub fn check(list: &[UOp]) -> Result<(), String> {
    let is_of_threads = |node: &UOp| {
        let is_shared = matches!(node.arg(), Arg::Scratch(_, _, MemorySpace::Shared));
        is_shared || matches!(node.op(), Op::Barrier | Op::ShuffleReduce | Op::LoadMatrices | Op::MultiplyMatrices)
    };
    if !list.iter().any(is_of_threads) {
        return Ok(());
    }
    let launch = Launch::of(list);
    let varying = varying(list);
    let (mut barriers, mut accesses) = (Vec::new(), Vec::new());
    let mut around: Vec<usize> = Vec::new();
    for (position, node) in list.iter().enumerate() {
        let site = || Site { position, around: around.clone(), node };
        match node.op() {
            Op::Barrier => {
                check_meeting(&site(), list, &launch, &varying)?;
                barriers.push(site());
            }
            Op::ShuffleReduce | Op::MultiplyMatrices => check_meeting(&site(), list, &launch, &varying)?,
            Op::LoadMatrices => {
                check_meeting(&site(), list, &launch, &varying)?;
                accesses.push(site());
            }
            Op::Load | Op::Store | Op::Previous | Op::Exchange if is_of_shared(node) => accesses.push(site()),
            Op::Range => around.push(position),
            Op::EndRange => drop(around.pop()),
            _ => {}
        }
    }
    for first in &accesses {
        for second in accesses.iter().filter(|second| memory_of(second.node) == memory_of(first.node)) {
            if first.is_store() || second.is_store() {
                check_pair(first, second, &barriers, list)?;
            }
        }
    }
    Ok(())
}

fn memory_of(access: &UOp) -> &UOp {
    &access.src()[0].src()[0]
}

fn is_of_shared(access: &UOp) -> bool {
    matches!(memory_of(access).arg(), Arg::Scratch(_, _, MemorySpace::Shared))
}

/// What may be another number for another thread of a block.
fn varying(list: &[UOp]) -> FxHashSet<&UOp> {
    let mut varying: FxHashSet<&UOp> = FxHashSet::default();
    for node in list {
        let is_of_thread = match node.op() {
            Op::Range => node.as_range().is_some_and(|range| range.kind.is_within_block()),
            // What a thread accumulates or keeps is its own.
            Op::Accumulator | Op::Final | Op::ShuffleReduce | Op::LoadMatrices | Op::MultiplyMatrices => true,
            Op::Scratch => matches!(node.arg(), Arg::Scratch(_, _, MemorySpace::Private)),
            _ => false,
        };
        if is_of_thread || node.src().iter().any(|operand| varying.contains(operand)) {
            varying.insert(node);
        }
    }
    varying
}

/// Whether all threads come to an op at which they meet.
fn check_meeting(site: &Site, list: &[UOp], launch: &Launch, varying: &FxHashSet<&UOp>) -> Result<(), String> {
    let fail = |why: String| Err(format!("op {}, a {}, {why}", site.position, site.node.op()));
    let is_barrier = site.node.op() == Op::Barrier;
    let is_of_matrices = matches!(site.node.op(), Op::LoadMatrices | Op::MultiplyMatrices);
    for range in site.around.iter().map(|position| &list[*position]) {
        let Some(arg) = range.as_range() else { continue };
        // Threads that differ in nothing but their group meet their own lanes.
        let is_of_warp = arg.kind == AxisKind::Lane || is_of_matrices && arg.kind == AxisKind::Block(ThreadDim::X);
        let must_be_whole = is_of_warp || (is_barrier && arg.kind.is_within_block());
        if must_be_whole && range.src()[0].as_int().map(|len| len as u64) != launch.len_of(arg.kind) {
            return fail(format!("stands in r{}, which some threads of the block do not enter", arg.id));
        }
        if !arg.kind.is_thread_index() && varying.contains(&range.src()[0]) {
            return fail(format!("stands in r{}, which may be longer for one thread than for another", arg.id));
        }
    }
    if is_barrier {
        return Ok(());
    }
    if is_of_matrices {
        return match launch.multiplies_matrices() {
            true => Ok(()),
            false => fail(format!("is of {} lanes, and there are {}", fragments::LANES, launch.lanes)),
        };
    }
    let combined = site.node.src().get(1).and_then(|end| end.src().first()).and_then(|range| range.src()[0].as_int());
    match combined.map(|len| len as u64) == Some(launch.lanes) {
        true => Ok(()),
        false => fail(format!("combines other lanes than the {} that there are", launch.lanes)),
    }
}

fn check_pair(first: &Site, second: &Site, barriers: &[Site], list: &[UOp]) -> Result<(), String> {
    let (of_first, of_second) = (|at: &usize| first.around.contains(at), |at: &usize| second.around.contains(at));
    let behind_first = |barrier: &Site| barrier.position > first.position && barrier.is_passed(of_first, list);
    let before_second = |barrier: &Site| barrier.position < second.position && barrier.is_passed(of_second, list);
    let fail = |way: &str| {
        let verb = |site: &Site| if site.is_store() { "stores" } else { "loads" };
        let (a, b) = (verb(first), verb(second));
        Err(format!("op {} {b} what op {} {a}{way}, with no barrier in between", second.position, first.position))
    };
    let both_store = first.is_store() && second.is_store();
    if first.position < second.position && !both_store && !are_in_other_halves(first, second, list) {
        let is_crossed = |barrier: &&Site| {
            let is_between = barrier.position > first.position && barrier.position < second.position;
            is_between && barrier.is_passed(|at| of_first(at) || of_second(at), list)
        };
        if !barriers.iter().any(|barrier| is_crossed(&barrier)) {
            return fail("");
        }
    }
    let shared = first.around.iter().zip(&second.around).take_while(|(a, b)| a == b).map(|(position, _)| *position);
    for position in shared {
        let range = &list[position];
        let is_index = range.as_range().is_some_and(|arg| arg.kind.is_thread_index());
        if is_index || range.src()[0].max_value() <= 1 {
            continue;
        }
        let names = |access: &Site| {
            crate::ir::postorder(std::slice::from_ref(&access.node.src()[0])).iter().any(|node| node == range)
        };
        if both_store && names(first) && names(second) {
            continue;
        }
        let is_crossed =
            |barrier: &&Site| barrier.around.contains(&position) && (behind_first(barrier) || before_second(barrier));
        if !barriers.iter().any(|barrier| is_crossed(&barrier)) {
            return fail(" an iteration before");
        }
    }
    Ok(())
}

/// Whether one iteration's accesses are in different halves of their scratch, because the halves alternate with the iterations of a loop around both.
fn are_in_other_halves(first: &Site, second: &Site, list: &[UOp]) -> bool {
    let (Some((range, a)), Some((other, b))) = (half_of(first.node), half_of(second.node)) else { return false };
    let is_around = |site: &Site| site.around.iter().any(|position| list[*position] == range);
    range == other && (a - b) % 2 != 0 && is_around(first) && is_around(second)
}

/// The loop that says which half of its scratch an access is in, and the number that is added to the iteration: the half is their sum, modulo 2.
fn half_of(access: &UOp) -> Option<(UOp, i64)> {
    let index = &access.src()[0];
    let Arg::Scratch(_, len, _) = *index.src()[0].arg() else { return None };
    let half = i64::try_from(len / 2).ok().filter(|_| len % 2 == 0)?;
    let (mut low, mut high) = (0i64, index.dtype().lanes() as i64 - 1);
    let mut parity = None;
    let mut pending = vec![&index.src()[1]];
    while let Some(term) = pending.pop() {
        match (term.op(), term.src()) {
            (Op::Add, [a, b]) => pending.extend([a, b]),
            (Op::Mul, [a, b]) if b.is_const(half) && parity.is_none() && parity_of(a).is_some() => {
                parity = parity_of(a)
            }
            _ => (low, high) = (low.checked_add(term.min_value())?, high.checked_add(term.max_value())?),
        }
    }
    parity.filter(|_| low >= 0 && high < half)
}

/// Of a parity, the loop and the number that is added to its iteration.
fn parity_of(value: &UOp) -> Option<(UOp, i64)> {
    let value = if value.op() == Op::Cast { &value.src()[0] } else { value };
    let [sum, one] = value.src() else { return None };
    if value.op() != Op::And || !one.is_const(1) {
        return None;
    }
    match (sum.op(), sum.src()) {
        (Op::Range, _) => Some((sum.clone(), 0)),
        (Op::Add, [range, number]) if range.op() == Op::Range => Some((range.clone(), number.as_int()?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linearize::text::parse;

    fn checked(body: &str) -> Result<(), String> {
        let text = format!("linear %k(f32[64] write, f32[64] read) grid 1 {{\n{body}}}");
        check(&parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}")).ops)
    }

    /// Each iteration stores what the threads of a block have, and loads what others have.
    const TURNED: &str = "p0: f32 = param #0 [64]
      p1: f32 = param #1 [64]
      s0: f32 = scratch shared #0 [8]
      one: i64 = const 1
      two: i64 = const 2
      seven: i64 = const 7
      eight: i64 = const 8
      r0: i64 = range eight, block_x #0
      r1: i64 = range eight, loop #1
      v0 = mul r1, eight
      v1 = add v0, r0
      v2 = index p1, v1
      v3 = load v2
      v4 = index s0, r0
      v5 = store v4, v3
      b0 = barrier #0
      v6 = sub seven, r0
      v7 = index s0, v6
      v8 = load v7
      v9 = index p0, v1
      v10 = store v9, v8
      b1 = barrier #1
      v11 = end r1
      v12 = end r0\n";

    #[test]
    fn each_missing_barrier_is_found() {
        assert_eq!(checked(TURNED), Ok(()));
        let error = checked(&TURNED.replace("b0 = barrier #0\n", "")).unwrap_err();
        assert_eq!(error, "op 17 loads what op 14 stores, with no barrier in between");
        let error = checked(&TURNED.replace("b1 = barrier #1\n", "")).unwrap_err();
        assert_eq!(error, "op 14 stores what op 18 loads an iteration before, with no barrier in between");
        // It may as well stand before the store.
        let before =
            TURNED.replace("b1 = barrier #1\n", "").replace("v5 = store v4", "b1 = barrier #1\n v5 = store v4");
        assert_eq!(checked(&before), Ok(()));
    }

    #[test]
    fn a_barrier_in_a_loop_beside_them_does_not_count() {
        let beside = |len: &str| {
            let inside = format!("r2: i64 = range {len}, loop #2\n b0 = barrier #0\n v13 = end r2\n");
            checked(&TURNED.replace("b0 = barrier #0\n", &inside))
        };
        assert_eq!(beside("two"), Ok(()));
        assert!(beside("r1").unwrap_err().ends_with("loads what op 14 stores, with no barrier in between"));
        // Two stores of one element in two iterations, with nothing loaded in between.
        let stores = TURNED
            .replace("v8 = load v7\n", "")
            .replace("v10 = store v9, v8", "v10 = store v9, v3")
            .replace("b0 = barrier #0\n", "")
            .replace("b1 = barrier #1\n", "");
        let error = checked(&stores).unwrap_err();
        assert!(error.ends_with("stores an iteration before, with no barrier in between"), "{error}");
        // Not if each iteration has elements of its own.
        assert_eq!(checked(&stores.replace("v4 = index s0, r0", "v4 = index s0, v1")), Ok(()));
    }

    #[test]
    fn a_barrier_that_some_threads_do_not_reach_is_refused() {
        let inside =
            |range: &str| {
                checked(&TURNED.replace(
                    "b0 = barrier #0\n",
                    &format!("{range}\n b0 = barrier #0\n v13 = end r2\n b2 = barrier #2\n"),
                ))
            };
        let error = inside("r2: i64 = range two, block_x #2").unwrap_err();
        assert_eq!(error, "op 16, a barrier, stands in r2, which some threads of the block do not enter");
        let error = inside("r2: i64 = range one, lane #2\n r3: i64 = range two, lane #3\n v14 = end r3").unwrap_err();
        assert!(error.ends_with("which some threads of the block do not enter"), "{error}");
        assert_eq!(inside("r2: i64 = range eight, block_x #2"), Ok(()));
        assert_eq!(inside("r2: i64 = range two, grid_x #2"), Ok(()));
        let error = inside("len = add r0, one\n r2: i64 = range len, loop #2").unwrap_err();
        assert!(error.ends_with("stands in r2, which may be longer for one thread than for another"), "{error}");
        // What a thread loaded at an index of its own is its own, too.
        let error = inside("len: i64 = cast v3\n r2: i64 = range len, loop #2").unwrap_err();
        assert!(error.ends_with("longer for one thread than for another"), "{error}");
        assert_eq!(inside("r2: i64 = range r1, loop #2"), Ok(()));
    }

    /// Lanes that add up what they have, in each row.
    const LANES: &str = "p0: f32 = param #0 [64]
      p1: f32 = param #1 [64]
      one: i64 = const 1
      four: i64 = const 4
      eight: i64 = const 8
      r0: i64 = range eight, loop #0
      r1: i64 = range eight, lane #1
      v0 = mul r0, eight
      v1 = add v0, r1
      v2 = index p1, v1
      v3 = load v2
      v4 = end r1
      sum = shuffle_reduce v3, v4, add
      r2: i64 = range one, lane #2
      v5 = index p0, r0
      v6 = store v5, sum
      v7 = end r2
      v8 = end r0\n";

    #[test]
    fn matrices_are_of_a_whole_warp() {
        let product = "zeros: f32x4 = const 0.0
      p0: f32 = param #0 [64]
      p1: bf16 = param #1 [64]
      four: i64 = const 4
      eight: i64 = const 8
      r0: i64 = range four, lane #0
      r1: i64 = range eight, block_x #1
      v0: bf16x8 = index p1, r0
      v1 = load v0
      v2: bf16x4 = index p1, r0
      v3 = load v2
      v4 = multiply_matrices v1, v3, zeros
      v5: f32 = lane v4, #0
      v6 = index p0, r1
      v7 = store v6, v5
      v8 = end r1
      v9 = end r0\n";
        let checked = |body: &str| {
            let text = format!("linear %k(f32[64] write, bf16[64] read) grid 1 {{\n{body}}}");
            check(&parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}")).ops)
        };
        assert_eq!(checked(product), Ok(()));
        let error = checked(&product.replace("range four", "range eight")).unwrap_err();
        assert!(error.ends_with("is of 32 lanes, and there are 8"), "{error}");
        // Some of the warp's threads alone come.
        let fewer = product
            .replace("r1: i64 = range eight", "r1: i64 = range four")
            .replace("v9 = end r0", "v9 = end r0\n r2: i64 = range eight, block_x #2\n v10 = end r2");
        let error = checked(&fewer).unwrap_err();
        assert!(error.ends_with("stands in r1, which some threads of the block do not enter"), "{error}");
    }

    #[test]
    fn lanes_that_do_not_all_come_are_refused() {
        assert_eq!(checked(LANES), Ok(()));
        let error = checked(
            &LANES
                .replace("range eight, lane #1", "range four, lane #1")
                .replace("range one, lane #2", "range eight, lane #2"),
        )
        .unwrap_err();
        assert!(error.ends_with("combines other lanes than the 8 that there are"), "{error}");
        let inside = LANES
            .replace("sum = shuffle", "r3: i64 = range four, lane #3\n sum = shuffle")
            .replace("v7 = end r2", "v7 = end r2\n v9 = end r3");
        let error = checked(&inside).unwrap_err();
        assert!(error.ends_with("stands in r3, which some threads of the block do not enter"), "{error}");
        // Of a shorter range along the block, whole groups enter.
        let block = inside
            .replace("r3: i64 = range four, lane #3", "r3: i64 = range one, block_x #3")
            .replace("v8 = end r0", "r4: i64 = range four, block_x #4\n v10 = end r4\n v8 = end r0");
        assert_eq!(checked(&block), Ok(()));
    }
}
