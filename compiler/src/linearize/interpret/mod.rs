//! The interpreter of linear lists: what the micro-ops of a kernel mean, one by one, after all passes.
//!
//! It is the oracle of what optimization gives: it runs the list itself over given parameters and watches each access to memory.
//! An error are:
//! - reading an element that nobody has written: scratch, or a parameter that was given [fresh](Memory::fresh). Scratch counts as
//!   fresh again in each iteration of the innermost loop that holds all of its loads and stores, and in each share of the parallel loop;
//! - an access outside of a parameter or scratch, in a lane whose gate holds;
//! - a share of the parallel loop that reads what another one writes, or two shares that write one element with different values; the same of threads of
//!   a grid, in parameters;
//! - a thread that reads an element of shared scratch which another thread of its block has written since they last met at a barrier, or writes one
//!   that another has read or written;
//! - a barrier that some threads of a block reach and others do not, and lanes that combine values without all of them being there;
//! - a store to a parameter that the list says it only reads, and a load from one that it only writes;
//! - a list that breaks the rules of [`linearize`](super): operands that are not there, loops that do not nest.
//!
//! Each names the op by its number and its line in the text form, and the thread and the loop variables at that moment.
//!
//! Always: the meaning of an op on scalars is that of `ir::interpret` (`dtype::arithmetic`); `horizontal_reduce` combines the upper half of its
//! lanes with the lower until one is left, `shuffle_reduce` as the table of [`linearize`](super) says. Threads of a block run one after another from
//! barrier to barrier, in an order that a seed gives. It shares no code with the passes. Tested in `tests.rs` and `thread_tests.rs`, and by
//! every kernel that the test crate runs.

mod accesses;
mod machine;
mod memory;
mod prepare;
mod steps;
#[cfg(test)]
mod tests;
mod thread;
#[cfg(test)]
mod thread_tests;

use std::ops::Range;

use super::Linear;
use super::text;
pub use memory::Memory;

/// Why a list has no result: a bug in the compiler.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("op {op}, `{line}`{context}: {message}")]
pub struct LinearError {
    /// Position in the list.
    pub op: usize,
    /// The op as the text form of the list writes it.
    pub line: String,
    /// The share of the parallel loop, the block, the thread and the loop variables, as ` in share 0..4 with r0 = 1`; empty where there are none.
    pub context: String,
    /// What is wrong.
    pub message: String,
}

/// Runs a list, over these parameters and variables, in calling order, for each of these shares of the parallel loop.
///
/// Shares run one after another and are judged as if they ran at once.
///
/// # Errors
/// The first op that does what no kernel may; see the header of this module. What was written before it stays written.
pub fn interpret(
    linear: &Linear,
    parameters: &mut [Memory],
    variables: &[i64],
    shares: &[Range<i64>],
) -> Result<(), LinearError> {
    interpret_in_order(linear, parameters, variables, shares, 0)
}

/// As [`interpret`], with the threads of a block in another order for another seed.
///
/// # Errors
/// As [`interpret`].
pub fn interpret_in_order(
    linear: &Linear,
    parameters: &mut [Memory],
    variables: &[i64],
    shares: &[Range<i64>],
    seed: u64,
) -> Result<(), LinearError> {
    let name_op = |(op, context, message): (usize, String, String)| {
        // Each op has one line, below the header.
        let line = text::print(linear).lines().nth(op + 1).unwrap_or_default().trim().to_string();
        LinearError { op, line, context, message }
    };
    let list = prepare::prepare(linear).map_err(|(op, message)| name_op((op, String::new(), message)))?;
    machine::run(linear, &list, parameters, variables, shares, seed).map_err(name_op)
}

/// The items of the parallel loop cut into at most `count` shares of one length; the last may be shorter.
pub fn shares(grid: u64, count: u64) -> Vec<Range<i64>> {
    let length = grid.div_ceil(count.max(1)).max(1);
    let starts = (0..grid.max(1)).step_by(usize::try_from(length).unwrap_or(usize::MAX));
    starts.map(|start| start as i64..(start + length).min(grid) as i64).collect()
}
