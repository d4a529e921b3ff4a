//! A local buffer of each thread becomes one that the threads of a block share.
//!
//! ```text
//! local buffer: for r2 in 0..64: scratch[r2] = exp(x[r0, r2])
//! reduce r3 in 0..64: scratch[r3]                                =>      the same, in memory of the block: its loops may be threads
//! ```
//!
//! Threads that share a row would each need what others kept. They may compute it anew (`recompute`), which is best where it is little; else it is kept where all of them see it. It
//! is made for all threads, so along each of their indices that it depends on. Its loops are loops of the first thread until they are mapped to indices (`map`).
//!
//! What one row keeps may be followed by elements that nothing uses: so rows that lanes read at once begin in different banks.
//!
//! Refused: several stores; what is filled or read under a condition; what is kept of memory that the kernel replaces.
//!
//! Always: the value is the one that was kept. Tested by filetests, by random lists of opts, and with the rows that are chosen so, in the test crate.

use rustc_hash::FxHashMap;

use super::stage::{Copied, PAD_MAX, flat_offset, loads_of, room};
use crate::DType;
use crate::ir::{Arg, AxisKind, MemorySpace, Op, Sources, UOp, substitute};
use crate::kernel::effects::{memory_in_place, replaces_what_was_read};
use crate::kernel::local_buffers::scratch_of;
use crate::kernel::ranges::{Dependencies, closed_ranges, next_range_id, range_id};
use crate::optimize::opt::Reason;
use crate::symbolic::simplify;

/// The kernel, in which the threads of a block share the local buffer that a load reads.
///
/// # Errors
/// Why not.
pub(crate) fn keep_shared(root: &UOp, number: u32, pad: u32) -> Result<UOp, Reason> {
    if pad > PAD_MAX {
        return Err("at most 64 elements stand unused behind a row".into());
    }
    let loads = loads_of(root);
    let load = loads.get(number as usize).ok_or("the kernel has no such load")?;
    let buffer = &load.src()[0].src()[0];
    if buffer.op() != Op::LocalBuffer {
        return Err("the load is not one of a local buffer".into());
    }
    let [store] = buffer.src() else {
        return Err("the local buffer is filled by several stores".into());
    };
    let Arg::Scratch(scratch, len, MemorySpace::Private) = *scratch_of(buffer).arg() else {
        return Err("threads share the local buffer already".into());
    };
    let readers: Vec<&UOp> = loads.iter().filter(|other| other.src()[0].src()[0] == *buffer).collect();
    let is_plain = |index: &UOp| index.src().len() == 2 && index.dtype().lanes() == 1;
    if !is_plain(&store.src()[0]) || readers.iter().any(|reader| !is_plain(&reader.src()[0])) {
        return Err("the local buffer is filled or read under a condition, or by lanes".into());
    }
    let fills = closed_ranges(store);
    let is_loop = |range: &UOp| range.as_range().is_some_and(|arg| arg.kind == AxisKind::Loop);
    if !fills.iter().all(is_loop) || replaces_what_was_read(store) || *store.arg() != Arg::None {
        return Err("the local buffer is not filled by loops, each element once".into());
    }
    let replaced = memory_in_place(root);
    let below = crate::ir::postorder(std::slice::from_ref(buffer));
    if below.iter().any(|node| node.op() == Op::Load && replaced.contains(&node.src()[0].src()[0])) {
        return Err("what is kept could be replaced before".into());
    }
    let dependencies = Dependencies::of(root);
    let set = dependencies.get(buffer);
    let is_own = |node: &&UOp| {
        let is_within_block = node.as_range().is_some_and(|arg| arg.kind.is_within_block());
        node.op() == Op::Range && is_within_block && set.contains(range_id(node))
    };
    let own: Vec<UOp> = dependencies.order.iter().filter(is_own).cloned().collect();
    let along: Vec<Copied> =
        own.iter().zip(next_range_id(root)..).map(|(range, id)| Copied::by_its_threads(range, id)).collect();
    let by_threads: Vec<UOp> = along.iter().map(|copied| copied.fill().clone()).collect();
    let row = len as i64 + i64::from(pad);
    let total = own.iter().map(room).product::<u64>() * row as u64;
    let dtype = scratch_of(buffer).dtype();
    let memory = UOp::new(Op::Scratch, dtype, Sources::new(), Arg::Scratch(scratch, total, MemorySpace::Shared));
    let placed = |memory: UOp, at: &[UOp], index: &UOp| {
        let offset = simplify(&(flat_offset(at, &own) * row + &index.src()[1]));
        index.with_src(Sources::from_iter([memory, offset]))
    };
    let threads: FxHashMap<UOp, UOp> = own.iter().cloned().zip(by_threads.iter().cloned()).collect();
    let sources: Sources = [placed(memory, &by_threads, &store.src()[0]), substitute(&store.src()[1], &threads)]
        .into_iter()
        .chain(by_threads.iter().cloned())
        .chain(fills.iter().cloned())
        .collect();
    let shared = UOp::new(Op::Store, DType::VOID, sources, Arg::None);
    let shared = buffer.with_src(Sources::from_iter([shared]));
    let map = readers.iter().map(|reader| {
        let index = placed(shared.clone(), &own, &reader.src()[0]);
        ((*reader).clone(), reader.with_src(Sources::from_iter([index])))
    });
    Ok(simplify(&substitute(root, &map.collect())))
}
