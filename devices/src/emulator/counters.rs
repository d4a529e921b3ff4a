//! How well the accesses of warps fit the memory: sectors of global memory, and conflicts of banks of shared memory.
//!
//! The n-th time that the threads of a warp run an instruction counts as one access of the warp. Global memory moves in sectors of 32 bytes: as few as hold what is
//! accessed would do. Shared memory has 32 banks of 4 bytes; threads that want different words of one bank wait for each other. Accesses of 8 bytes take two steps of half a
//! warp each, and of 16 bytes four of a quarter: what more it takes is a conflict.
//!
//! Only the first times of each instruction are looked at, in the first blocks: the others do the same.
//!
//! Tested at the end of this file.

use std::collections::{BTreeMap, BTreeSet};

use super::micro::Memory;

/// Times that each thread's instruction is looked at.
const TIMES_MAX: u32 = 16;

/// What the accesses of an instruction took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Taken {
    /// Whether it is of shared memory.
    pub(super) is_shared: bool,
    /// Accesses of warps.
    pub(super) accesses: u64,
    /// Sectors, or steps of the banks.
    pub(super) taken: u64,
    /// How few would do.
    pub(super) least: u64,
}

/// What a lane accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Accessed {
    lane: u32,
    address: u64,
    bytes: u32,
}

/// Counts for some blocks.
#[derive(Debug, Default)]
pub(super) struct Counters {
    /// How often each thread has run each instruction in this block.
    times: BTreeMap<(u32, u32), u32>,
    /// By instruction, warp and time: what its threads accessed.
    open: BTreeMap<(u32, u32, u32), (Memory, Vec<Accessed>)>,
    taken: BTreeMap<u32, Taken>,
}

impl Counters {
    /// Notes that a thread accesses memory.
    pub(super) fn note(&mut self, thread: u32, memory: Memory, instruction: u32, address: u64, bytes: u32) {
        if memory == Memory::Local {
            return;
        }
        let time = self.times.entry((thread, instruction)).or_insert(0);
        *time += 1;
        if *time <= TIMES_MAX {
            let key = (instruction, thread / 32, *time);
            self.open.entry(key).or_insert_with(|| (memory, Vec::new())).1.push(Accessed {
                lane: thread % 32,
                address,
                bytes,
            });
        }
    }

    /// At the end of a block.
    pub(super) fn close(&mut self) {
        self.times.clear();
        for ((instruction, ..), (memory, accesses)) in std::mem::take(&mut self.open) {
            let is_shared = memory == Memory::Shared;
            let (taken, least) = if is_shared { bank_steps(&accesses) } else { sectors(&accesses) };
            let sum = self.taken.entry(instruction).or_default();
            *sum = Taken { is_shared, accesses: sum.accesses + 1, taken: sum.taken + taken, least: sum.least + least };
        }
    }

    /// By instruction.
    pub(super) fn taken(&self) -> &BTreeMap<u32, Taken> {
        &self.taken
    }

    /// Adds what was counted elsewhere.
    pub(super) fn add(&mut self, other: &Counters) {
        for (instruction, taken) in &other.taken {
            let sum = self.taken.entry(*instruction).or_default();
            *sum = Taken {
                is_shared: taken.is_shared,
                accesses: sum.accesses + taken.accesses,
                taken: sum.taken + taken.taken,
                least: sum.least + taken.least,
            };
        }
    }
}

/// Sectors that are touched, and how few would hold as many bytes.
fn sectors(accesses: &[Accessed]) -> (u64, u64) {
    let mut touched = BTreeSet::new();
    let mut bytes = BTreeSet::new();
    for &Accessed { address, bytes: len, .. } in accesses {
        touched.extend(address / 32..=(address + u64::from(len) - 1) / 32);
        bytes.insert((address, len));
    }
    let wanted: u64 = bytes.iter().map(|(_, len)| u64::from(*len)).sum();
    (touched.len() as u64, wanted.div_ceil(32).min(touched.len() as u64))
}

/// Steps that the banks take, and how few would do if no two words were of one bank.
fn bank_steps(accesses: &[Accessed]) -> (u64, u64) {
    let bytes = accesses.iter().map(|access| access.bytes).max().unwrap_or(4);
    let together = 32 * 4 / bytes.max(4);
    let (mut taken, mut least) = (0, 0);
    for part in 0..32 / together {
        let lanes = accesses.iter().filter(|access| access.lane / together == part);
        let words: BTreeSet<u64> = lanes
            .flat_map(|&Accessed { address, bytes, .. }| address / 4..=(address + u64::from(bytes) - 1) / 4)
            .collect();
        if words.is_empty() {
            continue;
        }
        let mut banks = [0u64; 32];
        words.iter().for_each(|word| banks[(word % 32) as usize] += 1);
        taken += banks.iter().max().copied().unwrap_or(0);
        least += 1;
    }
    (taken, least)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lanes(stride: u64, bytes: u32) -> Vec<Accessed> {
        // In any order.
        let number = |step: u64| step * 5 % 32;
        (0..32).map(number).map(|lane| Accessed { lane: lane as u32, address: 1024 + lane * stride, bytes }).collect()
    }

    #[test]
    fn rows_of_words_are_whole_sectors() {
        assert_eq!(sectors(&lanes(4, 4)), (4, 4));
        assert_eq!(sectors(&lanes(16, 16)), (16, 16));
        assert_eq!(sectors(&lanes(128, 4)), (32, 4));
        assert_eq!(sectors(&lanes(0, 4)), (1, 1));
    }

    #[test]
    fn words_of_one_bank_take_turns() {
        assert_eq!(bank_steps(&lanes(4, 4)), (1, 1));
        assert_eq!(bank_steps(&lanes(8, 4)), (2, 1));
        assert_eq!(bank_steps(&lanes(128, 4)), (32, 1));
        assert_eq!(bank_steps(&lanes(0, 4)), (1, 1), "one word is read for all");
        assert_eq!(bank_steps(&lanes(16, 16)), (4, 4));
        assert_eq!(bank_steps(&lanes(32, 16)), (8, 4));
    }

    #[test]
    fn instructions_are_counted_apart() {
        let mut counters = Counters::default();
        for thread in 0..64 {
            counters.note(thread, Memory::Global, 0, u64::from(thread) * 4, 4);
            counters.note(thread, Memory::Shared, 1, u64::from(thread) * 8, 4);
            counters.note(thread, Memory::Local, 2, 0, 4);
        }
        counters.close();
        let expected = [
            (0, Taken { is_shared: false, accesses: 2, taken: 8, least: 8 }),
            (1, Taken { is_shared: true, accesses: 2, taken: 4, least: 2 }),
        ];
        assert_eq!(counters.taken().iter().map(|(number, taken)| (*number, *taken)).collect::<Vec<_>>(), expected);
    }
}
