//! What holds of a loop nest that blocks of threads run: ranges of kind `grid`, `block` and `lane` are indices that a thread has
//! ([`AxisKind`]), and scratch in [`MemorySpace::Shared`] is one for a block.
//!
//! - Nothing stands in two ranges of one index: a thread would see the diagonal alone.
//! - Ranges of one index of a block have one length, or 1; lengths are constants, of lanes a power of two. So all threads come to what stands
//!   inside of them, or (of length 1) the first alone.
//! - A reduction closes a range of lanes on its own, and one value, no state. It closes no other index: reductions over the threads of a block go through shared
//!   memory.
//! - Private scratch is filled by each thread, so no index is closed by the stores of its stage. Shared scratch is filled by all threads of a
//!   block together, so what is stored depends on no thread.
//! - Where threads meet (at shared scratch, at lanes, at matrices that lanes multiply), no loop has another length for another thread.
//!
//! The same rules refuse opts (`optimize`). Filetests hold each.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::VerifyError;
use super::kernel::closed_from;
use crate::ir::{Arg, AxisKind, MemorySpace, Op, UOp, postorder};

/// The thread indices that a node stands in.
type Indices = SmallVec<[UOp; 4]>;

/// Checks what threads share in a kernel in loop form.
///
/// # Errors
/// The first node, operands first, that breaks a rule.
pub fn check(sink: &UOp) -> Result<(), VerifyError> {
    match problem(sink) {
        Some((node, message)) => Err(VerifyError::new(&node, message)),
        None => Ok(()),
    }
}

fn kind_of(range: &UOp) -> Option<AxisKind> {
    range.as_range().map(|range| range.kind)
}

fn is_index(node: &UOp) -> bool {
    kind_of(node).is_some_and(AxisKind::is_thread_index)
}

fn is_within_block(range: &UOp) -> bool {
    kind_of(range).is_some_and(AxisKind::is_within_block)
}

/// The first node that breaks a rule, and which.
pub fn problem(sink: &UOp) -> Option<(UOp, &'static str)> {
    let order = postorder(std::slice::from_ref(sink));
    let is_of_threads = |node: &UOp| is_index(node) || is_shared(node);
    if !order.iter().any(is_of_threads) {
        return None;
    }
    let mut lengths: FxHashMap<AxisKind, i64> = FxHashMap::default();
    let mut stands_in: FxHashMap<&UOp, Indices> = FxHashMap::default();
    let (mut meets, mut uneven) = (false, None);
    for node in &order {
        let fail = |message| Some((node.clone(), message));
        let first_closed = closed_from(node);
        let closed = &node.src()[first_closed..];
        let mut indices = Indices::new();
        let mut add = |index: &UOp| -> bool {
            let is_other = indices.iter().any(|known| known != index && kind_of(known) == kind_of(index));
            if !indices.contains(index) {
                indices.push(index.clone());
            }
            !is_other
        };
        let is_one_each = node.src().iter().flat_map(|operand| &stands_in[operand]).all(&mut add);
        if !is_one_each {
            return fail("stands in two ranges of one thread index");
        }
        if let Some(kind) = kind_of(node) {
            if kind == AxisKind::Parallel {
                return fail("a loop that the threads of a CPU share stands in a kernel of blocks");
            }
            if let Err(message) = check_length(node, kind, &mut lengths) {
                return fail(message);
            }
            if indices.iter().any(is_within_block) && uneven.is_none() {
                uneven = Some(node.clone());
            }
            if is_index(node) {
                indices.push(node.clone());
            }
        }
        match node.op() {
            Op::ReduceRange if closed.iter().any(is_index) => {
                meets = true;
                if let Some(message) = problem_of_fold(node, closed) {
                    return fail(message);
                }
            }
            Op::Store => {
                let open = indices.iter().filter(|index| !closed.contains(index));
                if let Some(message) = problem_of_store(node, open.cloned().collect(), closed) {
                    return fail(message);
                }
            }
            _ => meets |= is_shared(node) || matches!(node.op(), Op::LoadMatrices | Op::MultiplyMatrices),
        }
        indices.retain(|index| !closed.contains(index));
        stands_in.insert(node, indices);
    }
    uneven.filter(|_| meets).map(|range| (range, "the length of a loop differs between threads that meet in it"))
}

fn is_shared(node: &UOp) -> bool {
    matches!(node.arg(), Arg::Scratch(_, _, MemorySpace::Shared))
}

/// Whether a range that is an index has a length that it may have.
fn check_length(range: &UOp, kind: AxisKind, lengths: &mut FxHashMap<AxisKind, i64>) -> Result<(), &'static str> {
    if !kind.is_within_block() {
        return Ok(());
    }
    let len = range.src()[0].as_int().ok_or("the number of threads along an index of a block is a constant")?;
    if kind == AxisKind::Lane && (len < 1 || !(len as u64).is_power_of_two()) {
        return Err("the number of lanes is a power of two");
    }
    // Of length 1 it stands for the first thread alone.
    match *lengths.entry(kind).or_insert(len) {
        known if known == len || len == 1 => Ok(()),
        1 => {
            lengths.insert(kind, len);
            Ok(())
        }
        _ => Err("ranges of one index of a block differ in length"),
    }
}

fn problem_of_fold(reduction: &UOp, closed: &[UOp]) -> Option<&'static str> {
    if closed.iter().any(|range| is_index(range) && kind_of(range) != Some(AxisKind::Lane)) {
        return Some("a reduction over the threads of a block or over blocks needs memory in between");
    }
    if !matches!(reduction.arg(), Arg::Combine(_)) {
        return Some("a state of several values is not combined over lanes");
    }
    (closed.len() > 1).then_some("a reduction over lanes closes no other loop")
}

fn problem_of_store(store: &UOp, open: Indices, closed: &[UOp]) -> Option<&'static str> {
    let memory = store.src()[0].src().first()?;
    match memory.arg() {
        Arg::Scratch(_, _, MemorySpace::Private) if closed.iter().any(is_index) => {
            Some("each thread fills its private scratch itself, so its loops are not shared out")
        }
        Arg::Scratch(_, _, MemorySpace::Shared) => {
            let is_grid = |range: &UOp| is_index(range) && !is_within_block(range);
            if closed.iter().any(is_grid) {
                return Some("blocks share no scratch");
            }
            open.iter().any(is_within_block).then_some("what threads share depends on the thread")
        }
        _ => None,
    }
}
