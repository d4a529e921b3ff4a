//! How a loop is repeated, if it may be: how many iterations a turn has, what differs from iteration to iteration, and how many registers there are for it.
//!
//! Tested with what is made of it ([`super`]).

use rustc_hash::FxHashSet;

use super::bytes_of;
use crate::ir::{AxisKind, Op, UOp};
use crate::program::Launch;

/// Registers of four bytes that a multiprocessor has, and that a thread may have ("Compute Capabilities" of the CUDA C++ Programming Guide, the same for 8.0, 9.0 and 10.0).
const REGISTERS: u64 = 1 << 16;
const REGISTERS_OF_THREAD: u64 = 255;
/// Registers that addresses, indices and values on their way take, about.
const REGISTERS_BUSY: u64 = 32;
/// Iterations of a turn that are tried.
const COPIES: [i64; 3] = [8, 4, 2];

/// How a loop is repeated.
pub(super) struct Plan {
    /// Where it ends.
    pub(super) end: usize,
    /// Iterations of a turn that are tried, one after the other.
    pub(super) ways: Vec<i64>,
    /// What differs from iteration to iteration.
    pub(super) varying: FxHashSet<UOp>,
    /// What is made of accumulators, or of what an earlier iteration may have stored.
    pub(super) accumulated: FxHashSet<UOp>,
    /// Whether the body has indices of threads.
    pub(super) has_threads: bool,
    /// Whether its end is asked for.
    pub(super) is_named: bool,
}

impl Plan {
    /// Where the loop that ends there begins, and its plan.
    pub(super) fn of(list: &[UOp], end: usize) -> Option<(usize, Plan)> {
        let range = &list[end].src()[0];
        let is_loop = range
            .as_range()
            .is_some_and(|arg| matches!(arg.kind, AxisKind::Loop | AxisKind::Reduce | AxisKind::Serial));
        let turns = range.src()[0].as_int().filter(|turns| is_loop && *turns >= 2)?;
        let begin = list[..end].iter().rposition(|node| node == range)?;
        let body = &list[begin + 1..end];
        let mut varying: FxHashSet<UOp> = [range.clone()].into_iter().collect();
        let mut accumulated: FxHashSet<UOp> = FxHashSet::default();
        let mut has_threads = false;
        let mut stored: Vec<&UOp> = Vec::new();
        for node in body {
            let varies = node.src().iter().any(|operand| varying.contains(operand));
            let is_accumulated = node.op() == Op::Previous
                || node.src().iter().any(|operand| operand.op() == Op::Accumulator || accumulated.contains(operand));
            match node.op() {
                Op::Range if node.as_range().is_some_and(|arg| arg.kind.is_thread_index()) => has_threads = true,
                Op::EndRange => continue,
                Op::Range | Op::Exchange | Op::Barrier | Op::ShuffleReduce | Op::Final => return None,
                Op::Accumulator | Op::LoadMatrices | Op::MultiplyMatrices => return None,
                Op::Store if node.src()[0].src()[0].op() == Op::Param && varies => stored.push(&node.src()[0].src()[0]),
                Op::Store => return None,
                Op::Update if !varies => return None,
                _ => {}
            }
            if is_accumulated && !varies {
                return None;
            }
            if varies {
                varying.insert(node.clone());
            }
            if is_accumulated {
                accumulated.insert(node.clone());
            }
        }
        let is_replaced = |node: &&UOp| node.op() == Op::Load && stored.contains(&&node.src()[0].src()[0]);
        let is_once = |memory: &&UOp| stored.iter().filter(|other| *other == memory).count() == 1;
        if body.iter().any(|node| is_replaced(&node)) || !stored.iter().all(is_once) {
            return None;
        }
        // What comes in order stands before the ends of all indices of threads.
        let tail = body.iter().rev().take_while(|node| node.op() == Op::EndRange).count();
        let ends = body.iter().filter(|node| node.op() == Op::EndRange).count();
        if has_threads && !accumulated.is_empty() && (tail < ends || accumulated.iter().any(is_of_accumulator)) {
            return None;
        }
        let ways: Vec<i64> = COPIES.iter().filter_map(|most| copies_of(turns, *most, !has_threads)).collect();
        let is_named = list[end + 1..].iter().any(|node| node.src().contains(&list[end]));
        Some((begin, Plan { end, ways, varying, accumulated, has_threads, is_named }))
    }
}

/// Whether an op is made of an accumulator.
fn is_of_accumulator(node: &UOp) -> bool {
    node.op() == Op::Update || node.src().iter().any(|operand| operand.op() == Op::Accumulator)
}

/// Registers of a thread that are left, where accumulators have theirs, and as many again what is added to them.
pub(super) fn registers_left(list: &[UOp]) -> usize {
    let registers = |node: &UOp| bytes_of(node).div_ceil(4) as u64;
    let held: u64 = list.iter().filter(|node| node.op() == Op::Accumulator).map(registers).sum();
    let of_thread = (REGISTERS / Launch::of(list).threads().max(1)).min(REGISTERS_OF_THREAD);
    of_thread.saturating_sub(REGISTERS_BUSY + 2 * held) as usize
}

/// Iterations of a turn, of so many at most: one that divides the turns, unless some may be left over and it would be much less.
fn copies_of(turns: i64, most: i64, may_leave_rest: bool) -> Option<i64> {
    if turns <= most {
        return Some(turns);
    }
    let divisor = (2..=most).rev().find(|copies| turns % copies == 0);
    match divisor {
        Some(copies) if !may_leave_rest || 2 * copies >= most => Some(copies),
        _ if may_leave_rest && most >= 2 => Some(most),
        _ => divisor,
    }
}
