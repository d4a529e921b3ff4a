//! Kernels as loop nests: a sink of stores, each of which closes the loops that it stands in.

use rustc_hash::{FxHashMap, FxHashSet};

use super::VerifyError;
use super::arguments::check_node;
use crate::DType;
use crate::ir::{Arg, AxisKind, Class, MemorySpace, Op, UOp, fragments, postorder, tiles};

/// Checks a kernel in loop form.
///
/// No tensors are left: every value is a scalar or a vector. Loads and stores name an index, an index names memory, and their
/// types agree. A loop has one number. A loop end (reduction, store) closes ranges that its value is made in or that repeat it,
/// each once; below the sink no loop is open. A local buffer is made of stores into one scratch memory (one for each component of a state), which
/// nothing else names: loads name the local buffer. A store that closes a loop of a reduction combines with what memory holds. What threads
/// share is checked by [`super::threads`].
///
/// # Errors
/// The first node, operands first, that breaks a rule.
pub fn check(sink: &UOp) -> Result<(), VerifyError> {
    if sink.op() != Op::Sink {
        return Err(VerifyError::new(sink, "a kernel is a sink of stores"));
    }
    let mut numbers: FxHashMap<u32, UOp> = FxHashMap::default();
    let mut open: FxHashMap<UOp, FxHashSet<u32>> = FxHashMap::default();
    for node in postorder(std::slice::from_ref(sink)) {
        check_node(&node)?;
        check_stage(&node, sink)?;
        check_memory(&node)?;
        check_scratch(&node)?;
        if let Some(range) = node.as_range() {
            let first = numbers.entry(range.id).or_insert_with(|| node.clone());
            if *first != node {
                return Err(VerifyError::new(&node, format!("another loop has the number {} too", range.id)));
            }
        }
        let still_open = open_after(&node, &open)?;
        open.insert(node, still_open);
    }
    super::threads::check(sink)?;
    let mut left: Vec<u32> = open.remove(sink).unwrap_or_default().into_iter().collect();
    left.sort_unstable();
    match left.first() {
        Some(id) => Err(VerifyError::new(&numbers[id], format!("loop {id} is never closed"))),
        None => Ok(()),
    }
}

/// Whether the op may stand in a kernel at all.
fn check_stage(node: &UOp, sink: &UOp) -> Result<(), VerifyError> {
    let fail = |message: String| Err(VerifyError::new(node, message));
    match (node.op().class(), node.op()) {
        (Class::Leaf, Op::Const | Op::Param | Op::Variable) => {}
        (Class::Unary | Class::Binary | Class::Commutative | Class::Ternary | Class::Vector, _) => {}
        (Class::Memory, Op::Sink) if node != sink => return fail("stands below another sink".to_string()),
        (Class::Memory, _)
        | (Class::Loop, Op::Range | Op::ReduceRange | Op::Accumulator | Op::Running | Op::Exchange) => {}
        (_, op) => return fail(format!("{op} does not belong to kernels")),
    }
    if node.op() != Op::Param && !node.shape().is_empty() {
        return fail(format!("has the shape {}, but kernels have no tensors", node.shape()));
    }
    match node.src().iter().find(|operand| operand.op() == Op::Param && node.op() != Op::Index) {
        Some(_) => fail("uses a param as a value; load from an index of it".to_string()),
        None => Ok(()),
    }
}

/// Addresses, loads and stores agree on what they move.
pub(super) fn check_memory(node: &UOp) -> Result<(), VerifyError> {
    let fail = |message: String| Err(VerifyError::new(node, message));
    let src = node.src();
    match node.op() {
        Op::Index => {
            if !matches!(src[0].op(), Op::Param | Op::Scratch | Op::LocalBuffer) {
                return fail(format!("points into {}, which is no memory", src[0].op()));
            }
            if node.dtype().element() != src[0].dtype().element() {
                return fail(format!("gives {} of memory of {}", node.dtype(), src[0].dtype()));
            }
            if !src[1].dtype().is_integer() {
                return fail(format!("the offset is {}, not an integer", src[1].dtype()));
            }
            if src[1].dtype().lanes() != 1 && src[1].dtype().lanes() != node.dtype().lanes() {
                return fail(format!("{} offsets for {}", src[1].dtype().lanes(), node.dtype()));
            }
            if *node.arg() != Arg::None
                && (tiles::rows_apart(node).is_none() || src.len() > 2 || src[1].dtype().lanes() > 1)
            {
                return fail(format!("has no rows of {} from one offset on", node.dtype()));
            }
            match src.get(2) {
                Some(gate) if !gate.dtype().is_bool() => fail(format!("the gate is {}, not bool", gate.dtype())),
                _ if src.len() > 3 => fail("takes one gate".to_string()),
                _ => Ok(()),
            }
        }
        Op::Load | Op::Store | Op::Previous | Op::LoadMatrices if src[0].op() != Op::Index => {
            fail(format!("needs an index, not {}", src[0].op()))
        }
        Op::Load | Op::Previous if src[0].dtype() != node.dtype() => {
            fail(format!("gives {} of {}", node.dtype(), src[0].dtype()))
        }
        Op::Store if src[0].dtype() != src[1].dtype() => fail(format!("{} goes to {}", src[1].dtype(), src[0].dtype())),
        Op::LoadMatrices => check_matrices(node),
        Op::Exchange => check_exchange(node),
        Op::Running => match &src[node.arg().values_of_reduction().min(src.len() - 1)..] {
            [range] if range.as_range().is_some_and(|arg| arg.kind == AxisKind::Serial) => Ok(()),
            _ => fail("runs over no serial range".to_string()),
        },
        Op::Lane => match node.arg() {
            Arg::Number(lane) if (0..src[0].dtype().lanes() as i64).contains(lane) => Ok(()),
            _ => fail(format!("{} has no such lane", src[0].dtype())),
        },
        Op::Stack if node.dtype() != src[0].dtype().with_lanes(src.len().clamp(1, u16::MAX as usize)) => {
            fail(format!("{} of {} are not {}", src.len(), src[0].dtype(), node.dtype()))
        }
        Op::Splat if src[0].dtype() != node.dtype().element() => {
            fail(format!("{} becomes {}", src[0].dtype(), node.dtype()))
        }
        _ => Ok(()),
    }
}

/// Lanes name rows of eight half floats in shared memory, and get pairs.
fn check_matrices(load: &UOp) -> Result<(), VerifyError> {
    let fail = |message: String| Err(VerifyError::new(load, message));
    let index = &load.src()[0];
    // In a kernel the memory is that of the stores of a local buffer.
    let mut memory = &index.src()[0];
    while let Op::LocalBuffer | Op::Store | Op::Index = memory.op() {
        memory = &memory.src()[0];
    }
    if !matches!(memory.arg(), Arg::Scratch(_, _, MemorySpace::Shared)) || index.src().len() > 2 {
        return fail("loads matrices from elsewhere than shared memory".to_string());
    }
    let is_half = [DType::F16, DType::BF16].contains(&load.dtype().element());
    let is_row = index.dtype() == load.dtype().element().with_lanes(fragments::SIDE as usize);
    match is_half && is_row && [2, 4, 8].contains(&load.dtype().lanes()) {
        true => Ok(()),
        false => fail(format!("gives {} of rows of {}", load.dtype(), index.dtype())),
    }
}

/// Scratch of integers is exchanged, in the order of a serial range, which a list no longer names.
fn check_exchange(node: &UOp) -> Result<(), VerifyError> {
    let fail = |message: String| Err(VerifyError::new(node, message));
    let [index, value, range @ ..] = node.src() else { return fail("needs an index and a value".to_string()) };
    if index.op() != Op::Index || !matches!(index.src()[0].op(), Op::Scratch | Op::LocalBuffer) {
        return fail("exchanges what is no scratch memory".to_string());
    }
    if index.dtype() != node.dtype() || value.dtype() != node.dtype() {
        return fail(format!("gives {} of {} for {}", node.dtype(), index.dtype(), value.dtype()));
    }
    if !node.dtype().is_integer() || node.dtype().lanes() != 1 {
        return fail(format!("exchanges {}, not one integer at a time", node.dtype()));
    }
    match range {
        [] => Ok(()),
        [range] if range.as_range().is_some_and(|arg| arg.kind == AxisKind::Serial) => Ok(()),
        _ => fail("is in the order of no serial range".to_string()),
    }
}

/// Scratch is written by the stores of one local buffer and read through that local buffer, so that no load can come before its store.
fn check_scratch(node: &UOp) -> Result<(), VerifyError> {
    let fail = |message: String| Err(VerifyError::new(node, message));
    let src = node.src();
    match node.op() {
        Op::Load | Op::LoadMatrices if src[0].op() == Op::Index && src[0].src()[0].op() == Op::Scratch => {
            fail("reads scratch, which may not be written yet; load from its local buffer".to_string())
        }
        Op::LocalBuffer if src.is_empty() => fail("is made of no store".to_string()),
        Op::LocalBuffer => check_stores(node),
        _ => Ok(()),
    }
}

/// The stores of a local buffer: into one scratch, or into several, which hold the components of states that accumulate.
fn check_stores(buffer: &UOp) -> Result<(), VerifyError> {
    let memory = |store: &UOp| match (store.op(), store.src().first()) {
        (Op::Store, Some(index)) if index.op() == Op::Index => index.src().first().cloned(),
        _ => None,
    };
    let is_other = |store: &UOp| memory(store) != memory(&buffer.src()[0]);
    let reduces = |store: &UOp| {
        store.src()[2..].iter().any(|range| range.as_range().is_some_and(|arg| arg.kind == AxisKind::Reduce))
    };
    let is_wrong = |store: &&UOp| {
        let is_scratch = memory(store).is_some_and(|memory| memory.op() == Op::Scratch);
        !is_scratch || (is_other(store) && !reduces(store))
    };
    match buffer.src().iter().find(is_wrong) {
        Some(odd) => Err(VerifyError::new(buffer, format!("is made of stores into one scratch, not of {}", odd.op()))),
        None => Ok(()),
    }
}

/// The position of the first range that a node closes; the count of its operands if it closes none.
pub(super) fn closed_from(node: &UOp) -> usize {
    let closed_from = match node.op() {
        // Behind the value: what must be loaded before, then the ranges.
        Op::Store => node
            .src()
            .iter()
            .skip(2)
            .position(|operand| operand.as_range().is_some())
            .map_or(usize::MAX, |first| first + 2),
        Op::ReduceRange => node.arg().values_of_reduction(),
        _ => node.src().len(),
    };
    closed_from.min(node.src().len())
}

/// The loops that are open after a node: those of its operands, less those that it closes.
fn open_after(node: &UOp, open: &FxHashMap<UOp, FxHashSet<u32>>) -> Result<FxHashSet<u32>, VerifyError> {
    let fail = |message: String| Err(VerifyError::new(node, message));
    let closed_from = closed_from(node);
    let mut result: FxHashSet<u32> = FxHashSet::default();
    for operand in &node.src()[..closed_from] {
        result.extend(&open[operand]);
    }
    let mut closed: FxHashSet<u32> = FxHashSet::default();
    for range in &node.src()[closed_from..] {
        let Some(arg) = range.as_range() else {
            return fail(format!("closes {}, which is no loop", range.op()));
        };
        if !closed.insert(arg.id) {
            return fail(format!("closes loop {} twice", arg.id));
        }
        // The length of a loop may itself depend on outer loops, which the same loop end may close.
        let outer = range.src().iter().flat_map(|len| &open[len]).copied();
        result.extend(outer.filter(|id| !closed.contains(id)));
    }
    result.retain(|id| !closed.contains(id));
    if let Some(range) = node.as_range() {
        result.insert(range.id);
    }
    Ok(result)
}
