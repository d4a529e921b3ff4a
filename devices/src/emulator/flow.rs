//! Which reads of registers cannot be shown to come after a write.
//!
//! A register is *written* at a statement if every way from the entry to it passes a write without a guard. What is read and not written so is checked while the
//! kernel runs: a write under a guard may well have happened.
//!
//! Tested at the end of this file.

use std::collections::BTreeSet;

use super::decode::Step;
use super::micro::Slot;

/// What has to be looked at while the kernel runs.
#[derive(Debug)]
pub(super) struct Unproven {
    /// By statement, the registers that it reads and that may not have been written.
    pub(super) reads: Vec<Vec<Slot>>,
    /// All of these registers.
    pub(super) slots: BTreeSet<Slot>,
}

type Set = Vec<u64>;

fn holds(set: &Set, slot: Slot) -> bool {
    set[slot as usize / 64] >> (slot % 64) & 1 == 1
}

fn add(set: &mut Set, slot: Slot) {
    set[slot as usize / 64] |= 1 << (slot % 64);
}

/// Finds them. Slots that no statement writes, and that are no registers, must not be among the reads.
pub(super) fn unproven(steps: &[Step], slots: usize) -> Unproven {
    let words = slots.div_ceil(64);
    let block_of = blocks(steps);
    let firsts: Vec<usize> = (0..steps.len()).filter(|&at| at == 0 || block_of[at] != block_of[at - 1]).collect();
    let mut written: Vec<Option<Set>> = vec![None; firsts.len()];
    if let Some(first) = written.first_mut() {
        *first = Some(vec![0; words]);
    }
    let mut pending: BTreeSet<usize> = BTreeSet::from([0]);
    while let Some(block) = pending.pop_first() {
        let Some(mut set) = written[block].clone() else { continue };
        let end = firsts.get(block + 1).copied().unwrap_or(steps.len());
        for step in &steps[firsts[block]..end] {
            if step.guard.is_none() {
                step.writes.iter().for_each(|&slot| add(&mut set, slot));
            }
        }
        let last = &steps[end - 1];
        let falls = !last.leaves || last.guard.is_some();
        let next = falls.then_some(block + 1).filter(|next| *next < firsts.len());
        for follower in next.into_iter().chain(last.target.map(|target| block_of[target])) {
            let before = written[follower].clone();
            let merged: Set = match &before {
                None => set.clone(),
                Some(before) => before.iter().zip(&set).map(|(a, b)| a & b).collect(),
            };
            if before.as_ref() != Some(&merged) {
                written[follower] = Some(merged);
                pending.insert(follower);
            }
        }
    }
    let mut found = Unproven { reads: Vec::new(), slots: BTreeSet::new() };
    let mut set = vec![0; words];
    for (at, step) in steps.iter().enumerate() {
        if firsts.binary_search(&at).is_ok() {
            // What no way leads to reads nothing.
            set = written[block_of[at]].clone().unwrap_or_else(|| vec![u64::MAX; words]);
        }
        let mut reads: Vec<Slot> = step.reads.iter().copied().filter(|&slot| !holds(&set, slot)).collect();
        reads.sort_unstable();
        reads.dedup();
        found.slots.extend(&reads);
        found.reads.push(reads);
        if step.guard.is_none() {
            step.writes.iter().for_each(|&slot| add(&mut set, slot));
        }
    }
    found
}

/// The number of each statement's block: statements that run one after the other.
fn blocks(steps: &[Step]) -> Vec<usize> {
    let targets: BTreeSet<usize> = steps.iter().filter_map(|step| step.target).collect();
    let mut numbers = Vec::with_capacity(steps.len());
    let mut number = 0;
    for at in 0..steps.len() {
        let begins = at > 0 && (targets.contains(&at) || steps[at - 1].target.is_some() || steps[at - 1].leaves);
        number += usize::from(begins);
        numbers.push(number);
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(writes: &[Slot], reads: &[Slot]) -> Step {
        Step { writes: writes.to_vec(), reads: reads.to_vec(), ..Step::default() }
    }

    #[test]
    fn what_every_way_writes_is_written() {
        // 0: write 0, 1; 1: @1 bra 3; 2: write 2; 3: read 0, 2; 4: write 3; 5: @1 bra 3; 6: exit
        let steps = [
            step(&[0, 1], &[]),
            Step { guard: Some((1, true)), target: Some(3), leaves: true, ..step(&[], &[1]) },
            step(&[2], &[]),
            step(&[], &[0, 2, 3]),
            step(&[3], &[3]),
            Step { guard: Some((1, true)), target: Some(3), leaves: true, ..step(&[], &[1]) },
            Step { leaves: true, ..step(&[], &[3]) },
        ];
        let found = unproven(&steps, 4);
        assert_eq!(found.reads, [vec![], vec![], vec![], vec![2, 3], vec![3], vec![], vec![]]);
        assert_eq!(found.slots, BTreeSet::from([2, 3]));
    }

    #[test]
    fn a_write_under_a_guard_proves_nothing() {
        let steps = [Step { guard: Some((1, true)), ..step(&[0], &[]) }, step(&[], &[0])];
        assert_eq!(unproven(&steps, 2).reads, [vec![], vec![0]]);
    }
}
