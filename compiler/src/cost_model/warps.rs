//! What an access of a warp moves: its threads' addresses, worked out for the first warp of a block in the first turn of all loops.
//!
//! Memory moves in sectors of 32 bytes, each once for all threads that want some of it. Shared memory has 32 banks of 4 bytes: in a step each bank gives or takes one of its words, and who
//! wants the same word has it at once. Accesses of 8 bytes are done by half a warp at a time, those of 16 by a quarter (as the CUDA C++ Programming Guide has it for
//! conflicts of banks).
//!
//! Other warps and turns are taken to be like the first. An address that hangs on what was loaded is not known; nor are those of vectors of offsets.
//!
//! Tested below.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::dtype::Scalar;
use crate::ir::{AxisKind, Op, UOp, scalar_function};
use crate::program::Launch;

/// Bytes that the second cache moves at least.
pub(super) const SECTOR: i64 = 32;
/// Threads of a warp.
pub(super) const WARP: u64 = 32;
/// Bytes that shared memory moves in a step.
pub(super) const STEP: f64 = 128.0;
/// Bytes of a bank's word.
const WORD: i64 = 4;

/// The threads of a warp, and the integers that each of them has.
pub(super) struct Warp<'l> {
    /// Index along x, y and z, and lane.
    threads: Vec<([i64; 3], i64)>,
    known: FxHashMap<&'l UOp, Vec<Scalar>>,
}

impl<'l> Warp<'l> {
    /// The first warp of a block.
    pub(super) fn of(launch: &Launch) -> Warp<'l> {
        let [x, y, _] = launch.block;
        let lanes = launch.lanes.max(1);
        let thread = |number: u64| {
            let group = number / lanes;
            let index = [group % x, group / x % y, group / x / y].map(|index| index as i64);
            (index, (number % lanes) as i64)
        };
        Warp { threads: (0..WARP.min(launch.threads())).map(thread).collect(), known: FxHashMap::default() }
    }

    /// Notes what an op gives each thread, in the order of the list.
    pub(super) fn note(&mut self, node: &'l UOp) {
        let dtype = node.dtype();
        if dtype.lanes() > 1 || !(dtype.is_integer() || dtype.is_bool()) {
            return;
        }
        let all = |value: i64| vec![Scalar::from_i64(value, dtype); self.threads.len()];
        let values = match node.op() {
            Op::Const => node.as_scalar().map(|value| vec![value; self.threads.len()]),
            Op::Variable => Some(all(node.min_value())),
            Op::Range => {
                let of_thread = |(index, lane): &([i64; 3], i64)| match node.as_range().map(|range| range.kind) {
                    Some(AxisKind::Block(dim)) => index[dim as usize],
                    Some(AxisKind::Lane) => *lane,
                    _ => 0,
                };
                Some(self.threads.iter().map(|thread| Scalar::from_i64(of_thread(thread), dtype)).collect())
            }
            op if op.is_elementwise() => self.computed(node),
            _ => None,
        };
        if let Some(values) = values {
            self.known.insert(node, values);
        }
    }

    fn computed(&self, node: &UOp) -> Option<Vec<Scalar>> {
        let operand = node.src()[usize::from(node.op() == Op::Where)].dtype().element();
        let function = scalar_function(node.op(), node.dtype(), operand)?;
        let operands: Vec<&Vec<Scalar>> =
            node.src().iter().map(|operand| self.known.get(operand)).collect::<Option<_>>()?;
        let one = |thread: usize| function(&operands.iter().map(|values| values[thread]).collect::<Vec<Scalar>>());
        Some((0..self.threads.len()).map(one).collect())
    }

    /// Bytes from where memory begins to what each thread accesses; without those whose gate does not hold.
    fn addresses(&self, index: &UOp) -> Option<Vec<i64>> {
        let offsets = self.known.get(&index.src()[1])?;
        let bytes = index.dtype().element().bytes() as i64;
        let gates = index.src().get(2).and_then(|gate| self.known.get(gate));
        let is_there = |thread: &usize| gates.is_none_or(|gates| gates[*thread].to_bool());
        Some((0..offsets.len()).filter(is_there).map(|thread| offsets[thread].to_i64() * bytes).collect())
    }

    /// Bytes of the sectors that the warp accesses.
    pub(super) fn sector_bytes(&self, index: &UOp) -> Option<f64> {
        let width = index.dtype().bytes() as i64;
        let addresses = self.addresses(index)?;
        let sectors = addresses.iter().flat_map(|at| at.div_euclid(SECTOR)..=(at + width - 1).div_euclid(SECTOR));
        let sectors: FxHashSet<i64> = sectors.collect();
        Some((sectors.len() as i64 * SECTOR) as f64)
    }

    /// Steps of the first cache until the warp's access to memory is done: each of a line of 128 bytes.
    pub(super) fn line_steps(&self, index: &UOp) -> Option<f64> {
        let width = width_of(index);
        let addresses = self.addresses(index)?;
        let parts = |bytes: i64| {
            let of_thread = |at: &i64| at.div_euclid(bytes)..=(at + width - 1).div_euclid(bytes);
            addresses.iter().flat_map(of_thread).collect::<FxHashSet<i64>>().len() as f64
        };
        Some(parts(STEP as i64).max((parts(SECTOR) * SECTOR as f64 / STEP).ceil()))
    }

    /// Steps of the banks until rows of 16 bytes of matrices are loaded, of each matrix those that eight lanes name.
    pub(super) fn matrix_steps(&self, index: &UOp, count: usize) -> Option<f64> {
        let addresses = self.addresses(index)?;
        let matrices = addresses.chunks(8).take(count);
        Some(matrices.map(|rows| steps_of(rows, 0, 16)).sum::<i64>() as f64)
    }

    /// Steps of the banks until the warp's access to shared memory is done.
    pub(super) fn steps(&self, index: &UOp) -> Option<f64> {
        let width = index.dtype().bytes() as i64;
        let addresses = self.addresses(index)?;
        // A wider one is several of 16 bytes.
        let accesses = (width + 15) / 16;
        let one = width.min(16);
        let together = (addresses.len() as i64 * WORD / one.max(WORD)).max(1) as usize;
        let steps = (0..accesses).flat_map(|access| {
            addresses.chunks(together).map(move |threads| steps_of(threads, access * 16, one)).collect::<Vec<i64>>()
        });
        Some(steps.sum::<i64>() as f64)
    }
}

/// Bytes that a thread accesses at once.
fn width_of(index: &UOp) -> i64 {
    (index.dtype().bytes() * index.dtype().lanes()) as i64
}

/// Steps for threads that access so many bytes each: as many as the bank has words to move that has most.
fn steps_of(threads: &[i64], displacement: i64, width: i64) -> i64 {
    let first = |at: &i64| (at + displacement).div_euclid(WORD);
    let last = |at: &i64| (at + displacement + width - 1).div_euclid(WORD);
    let words: FxHashSet<i64> = threads.iter().flat_map(|at| first(at)..=last(at)).collect();
    let mut banks = [0i64; 32];
    words.iter().for_each(|word| banks[word.rem_euclid(32) as usize] += 1);
    banks.into_iter().max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_moves_a_word_of_each_bank() {
        let at = |step: i64| (0..32).map(|thread| thread * step).collect::<Vec<i64>>();
        assert_eq!([0, 2, 4, 8, 128].map(|step| steps_of(&at(step), 0, 4)), [1, 1, 1, 2, 32]);
        // A quarter of a warp moves 16 bytes for each thread in one step.
        assert_eq!(steps_of(&at(16)[..8], 0, 16), 1);
        // Eight rows of four words each: of 64 bytes they meet in two groups of banks, with 16 bytes between them in none.
        let rows = |row: i64| (0..32).map(|thread| thread / 4 * row + thread % 4 * 4).collect::<Vec<i64>>();
        assert_eq!([64, 80].map(|row| steps_of(&rows(row), 0, 4)), [4, 1]);
    }
}
