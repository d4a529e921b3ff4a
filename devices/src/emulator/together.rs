//! What the threads of a warp do together: shuffles, votes, matrices.
//!
//! Fragments lie in registers as the PTX ISA draws them ("Matrix Fragments for mma.m16n8k16" and the like): of a lane, `row` is its number / 4 and `column` its number
//! mod 4. Register r of A has the row `row + 8 * (r mod 2)` and the columns from `column * n + 4 * n * (r / 2)` on, where n elements are in a register; of B, the rows from
//! `column * n + 4 * n * r` on of the column `row`; of the sums, the row `row + 8 * (r / 2)` and the column `column * 2 + r mod 2`.
//!
//! Products are exact and are added up in `f64`; the sum is rounded once. A machine adds in an order and with bits that are not written down, in `f32` at least.
//!
//! Tested in `tests/warps.rs`.

use super::float::{of_single, single};
use super::memory::{Refused, Stamp};
use super::micro::{Memory, Multiply, Shuffle, ShuffleMode, Slot, Vote};
use super::rounding::{BF16, F16, F32, Mode, round, value_of};
use super::scalar::{Class, Type, low};
use super::thread::{Thread, World, locate_shared};

const LANES: usize = 32;

/// The threads of a warp that take part, by their lanes.
pub(super) struct Members<'t> {
    pub(super) threads: &'t mut [Thread],
    /// Which of them take part.
    pub(super) mask: u32,
}

impl Members<'_> {
    fn lanes(&self) -> impl Iterator<Item = usize> + use<> {
        let (mask, len) = (self.mask, self.threads.len());
        (0..len.min(LANES)).filter(move |lane| mask >> lane & 1 == 1)
    }

    fn word(&self, lane: usize, slot: Slot) -> u64 {
        self.threads[lane].word(slot)
    }

    /// Exchanges values as `shfl.sync` does. Who reads a lane that does not take part has no value: the lane is the error.
    pub(super) fn shuffle(&mut self, shuffle: &Shuffle) -> Result<(), (usize, Refused)> {
        let values: Vec<u64> = (0..self.threads.len()).map(|lane| self.word(lane, shuffle.a)).collect();
        for lane in self.lanes() {
            let (b, c) = (self.word(lane, shuffle.b), self.word(lane, shuffle.c));
            let (own, b) = (lane as i64, (b & 0x1f) as i64);
            let (clamp, segment) = ((c & 0x1f) as i64, (c >> 8 & 0x1f) as i64);
            let (most, least) = (own & segment | clamp & !segment, own & segment);
            let (from, is_inside) = match shuffle.mode {
                ShuffleMode::Up => (own - b, own - b >= most),
                ShuffleMode::Down => (own + b, own + b <= most),
                ShuffleMode::Butterfly => (own ^ b, own ^ b <= most),
                ShuffleMode::Index => (least | b & !segment, least | b & !segment <= most),
            };
            let from = if is_inside { from as usize } else { lane };
            if from >= values.len() || self.mask >> from & 1 == 0 {
                return Err((lane, format!("reads lane {from}, which does not take part")));
            }
            let thread = &mut self.threads[lane];
            thread.words[shuffle.d as usize] = values[from];
            if let Some(p) = shuffle.p {
                thread.words[p as usize] = u64::from(is_inside);
            }
        }
        Ok(())
    }

    pub(super) fn vote(&mut self, mode: Vote, d: Slot, a: Slot) {
        let lanes: Vec<usize> = self.lanes().collect();
        let ballot = lanes.iter().fold(0, |sum, &lane| sum | (self.word(lane, a) & 1) << lane);
        let all = lanes.iter().fold(0u64, |sum, &lane| sum | 1 << lane);
        let result = match mode {
            Vote::All => u64::from(ballot == all),
            Vote::Any => u64::from(ballot != 0),
            Vote::Uniform => u64::from(ballot == 0 || ballot == all),
            Vote::Ballot => ballot,
        };
        lanes.iter().for_each(|&lane| self.threads[lane].words[d as usize] = result);
    }

    /// `ldmatrix`: lane n has the address of row n mod 8 of matrix n / 8; each row has 8 elements of 16 bits.
    pub(super) fn load_matrices(
        &mut self,
        world: &mut World<'_, '_>,
        registers: &[Slot],
        (base, offset): (Slot, i64),
        transposed: bool,
        instruction: u32,
        stamp: impl Fn(usize) -> Stamp,
    ) -> Result<(), (usize, Refused)> {
        for (matrix, &register) in registers.iter().enumerate() {
            let mut rows = [[0u64; 8]; 8];
            for (row, elements) in rows.iter_mut().enumerate() {
                let lane = matrix * 8 + row;
                let address = self.word(lane, base).wrapping_add(offset as u64);
                if let Some(counters) = &mut world.counters {
                    counters.note(self.threads[lane].number, Memory::Shared, instruction, address, 16);
                }
                let at = locate_shared(world, address, 16).map_err(|refused| (lane, refused))?;
                world.shared.note_read(at, 16, stamp(lane)).map_err(|refused| (lane, refused))?;
                for (column, element) in elements.iter_mut().enumerate() {
                    *element = world.shared.get(at + 2 * column as u64, 2);
                }
            }
            for lane in 0..LANES {
                let (row, column) = (lane / 4, lane % 4 * 2);
                let pair = match transposed {
                    false => [rows[row][column], rows[row][column + 1]],
                    true => [rows[column][row], rows[column + 1][row]],
                };
                self.threads[lane].words[register as usize] = pair[0] | pair[1] << 16;
            }
        }
        Ok(())
    }

    /// `mma.sync`
    pub(super) fn multiply(&mut self, multiply: &Multiply) {
        let Multiply { depth, elements, sums, a, b, c, d } = multiply;
        let (depth, elements) = (*depth, *elements);
        let in_register = 32 / elements.bits as usize;
        let (mut left, mut right) = (vec![[0.0; 16]; depth], vec![[0.0; 8]; depth]);
        for lane in 0..LANES {
            let (row, column) = (lane / 4, lane % 4);
            for part in 0..in_register {
                for (number, &slot) in a.iter().enumerate() {
                    let k = column * in_register + 4 * in_register * (number / 2) + part;
                    left[k][row + 8 * (number % 2)] = element(self.word(lane, slot), part, elements);
                }
                for (number, &slot) in b.iter().enumerate() {
                    let k = column * in_register + 4 * in_register * number + part;
                    right[k][row] = element(self.word(lane, slot), part, elements);
                }
            }
        }
        let total = |before: f64, row: usize, column: usize| {
            left.iter().zip(&right).fold(before, |sum, (left, right)| sum + left[row] * right[column])
        };
        for lane in 0..LANES {
            let (row, column) = (lane / 4, lane % 4 * 2);
            let mut results = Vec::new();
            for (number, &slot) in c.iter().enumerate() {
                let before = self.word(lane, slot);
                results.push(match sums.bits {
                    32 => {
                        let sum = total(f64::from(single(before)), row + 8 * (number / 2), column + number % 2);
                        of_single(sum as f32)
                    }
                    _ => {
                        let half = |part: usize| {
                            let before = value_of(before >> (16 * part) & 0xffff, F16);
                            round(total(before, row + 8 * number, column + part), F16, Mode::NearestEven)
                        };
                        half(0) | half(1) << 16
                    }
                });
            }
            for (&slot, result) in d.iter().zip(results) {
                self.threads[lane].words[slot as usize] = result;
            }
        }
    }
}

/// An element of a register of factors. Of `tf32` the low 13 bits are not looked at.
fn element(word: u64, part: usize, kind: Type) -> f64 {
    match (kind.class, kind.bits) {
        (Class::Brain, _) => value_of(word >> (16 * part) & 0xffff, BF16),
        (Class::Float, 16) => value_of(word >> (16 * part) & 0xffff, F16),
        _ => value_of(low(word, 32) & !0x1fff, F32),
    }
}
