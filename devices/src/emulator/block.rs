//! The threads of a block, in an order that a seed decides.
//!
//! A thread runs until it waits for others, or until it has taken so many branches, as many as chance says; then another one does. Threads of a warp are not special: what
//! holds them together is only what they do together. Where none of the threads waits, each runs to its end, one after the other, in one set of words.
//!
//! Tested in `tests/warps.rs` and `tests/faults.rs`.

use super::counters::Counters;
use super::memory::{Global, Refused, Shared, Stamp};
use super::micro::{Code, Micro, Special, Together};
use super::thread::{Stop, Thread, World};
use super::together::Members;
use super::{Fault, Grid};

const LANES: usize = 32;

/// A source of numbers in which nothing is to be seen (SplitMix64).
#[derive(Clone, Copy, Debug)]
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    fn shuffle(&mut self, list: &mut [usize]) {
        for last in (1..list.len()).rev() {
            list.swap(last, self.below(last + 1));
        }
    }
}

/// What stands for a block while it runs; used for one after the other.
pub(super) struct Runner<'r, 'l> {
    code: &'r Code,
    global: &'r Global<'l>,
    grid: &'r Grid,
    shared: Shared,
    threads: Vec<Thread>,
    stops: Vec<Stop>,
    seed: u64,
    random: Random,
    block: u64,
    clock: u32,
    warp_clocks: Vec<u32>,
    pub(super) counters: Option<Counters>,
}

impl<'r, 'l> Runner<'r, 'l> {
    pub(super) fn new(code: &'r Code, global: &'r Global<'l>, grid: &'r Grid, seed: u64) -> Runner<'r, 'l> {
        let threads = grid.threads();
        let waits = code.micros.iter().any(|micro| matches!(micro, Micro::Together { .. }));
        let resident = if waits { threads as usize } else { 1 };
        Runner {
            code,
            global,
            grid,
            shared: Shared::new(grid.shared_bytes, code.shared_granule, threads),
            threads: (0..resident).map(|_| Thread::new(code, grid.local_bytes)).collect(),
            stops: vec![Stop::Turn; resident],
            seed,
            random: Random(seed),
            block: 0,
            clock: 0,
            warp_clocks: vec![0; threads.div_ceil(LANES as u64) as usize],
            counters: None,
        }
    }

    /// Runs a block to its end.
    pub(super) fn run(&mut self, block: u64) -> Result<(), Fault> {
        self.block = block;
        self.clock = 0;
        self.warp_clocks.fill(0);
        self.shared.reset();
        self.random = Random(self.seed ^ block.wrapping_mul(0xd6e8_feb8_6659_fd93));
        let count = self.grid.threads() as usize;
        let mut order: Vec<usize> = (0..count).collect();
        self.random.shuffle(&mut order);
        if self.threads.len() == count {
            (0..count).for_each(|number| self.begin(number, number));
            self.run_together(&mut order)?;
        } else {
            for number in order {
                self.begin(0, number);
                self.advance(0, u64::MAX >> 1)?;
            }
        }
        if let Some(counters) = &mut self.counters {
            counters.close();
        }
        Ok(())
    }

    /// Puts a thread at the beginning of the kernel.
    fn begin(&mut self, index: usize, number: usize) {
        let [x, y, _] = self.grid.block;
        let [gx, gy, _] = self.grid.grid;
        let thread = &mut self.threads[index];
        thread.begin(number as u32);
        let number = number as u64;
        let own = [number % x, number / x % y, number / (x * y)];
        let block = [self.block % gx, self.block / gx % gy, self.block / (gx * gy)];
        for (special, slot) in &self.code.specials {
            thread.words[*slot as usize] = match special {
                Special::Thread(dim) => own[*dim as usize],
                Special::Threads(dim) => self.grid.block[*dim as usize],
                Special::Block(dim) => block[*dim as usize],
                Special::Blocks(dim) => self.grid.grid[*dim as usize],
                Special::Lane => number % LANES as u64,
                Special::Warp => number / LANES as u64,
            };
        }
        for (parameter, slot) in self.grid.parameters.iter().zip(&self.code.parameters) {
            if let Some(slot) = slot {
                thread.words[*slot as usize] = *parameter;
            }
        }
        self.stops[index] = Stop::Turn;
    }

    fn stamp(&self, number: u32) -> Stamp {
        Stamp::new(self.block, number, self.clock, self.warp_clocks[number as usize / LANES])
    }

    /// Lets a thread run.
    fn advance(&mut self, index: usize, turns: u64) -> Result<(), Fault> {
        let now = self.stamp(self.threads[index].number);
        let mut world = World {
            code: self.code,
            global: self.global,
            shared: &mut self.shared,
            dynamic_bytes: self.grid.dynamic_bytes,
            counters: self.counters.as_mut(),
        };
        let thread = &mut self.threads[index];
        match thread.run(&mut world, now, turns) {
            Ok(stop) => self.stops[index] = stop,
            Err(message) => return Err(self.fault(index, message)),
        }
        Ok(())
    }

    fn fault(&self, index: usize, message: Refused) -> Fault {
        let thread = &self.threads[index];
        Fault { at: thread.at, block: self.block, thread: u64::from(thread.number), message }
    }

    fn run_together(&mut self, order: &mut [usize]) -> Result<(), Fault> {
        loop {
            let mut has_run = false;
            for &index in order.iter() {
                if self.stops[index] == Stop::Turn {
                    // Now few branches, now to the next instruction where others wait.
                    let turns = if self.random.below(2) == 0 { u64::MAX >> 1 } else { 1 << self.random.below(7) };
                    self.advance(index, turns)?;
                    has_run = true;
                }
            }
            if self.stops.iter().all(|stop| *stop == Stop::Exit) {
                return Ok(());
            }
            let mut has_met = false;
            for warp in 0..self.warp_clocks.len() {
                has_met |= self.meet(warp)?;
            }
            has_met |= self.pass_barrier()?;
            if !has_run && !has_met {
                return Err(self.stuck());
            }
            self.random.shuffle(order);
        }
    }

    /// What a thread waits for.
    fn waits_for(&self, index: usize) -> Option<(u32, &'r Together)> {
        match self.stops[index] {
            Stop::Together(number) => Some((number, &self.code.together[number as usize])),
            Stop::Turn | Stop::Exit => None,
        }
    }

    /// Does what threads of a warp wait for together, if all that take part are there.
    fn meet(&mut self, warp: usize) -> Result<bool, Fault> {
        let first = warp * LANES;
        let len = self.threads.len().min(first + LANES) - first;
        let mut has_met = false;
        for lane in 0..len {
            let Some((number, together)) = self.waits_for(first + lane) else { continue };
            let Some(mask) = self.mask_of(first + lane, together) else { continue };
            if mask >> lane & 1 == 0 {
                return Err(self.fault(first + lane, format!("lane {lane} is not in its own mask {mask:#010x}")));
            }
            let members: Vec<usize> = (0..len).filter(|member| mask >> member & 1 == 1).collect();
            if let Some(gone) = members.iter().find(|member| self.stops[first + **member] == Stop::Exit) {
                let message = format!("lane {gone} of mask {mask:#010x} has left the kernel: divergent");
                return Err(self.fault(first + lane, message));
            }
            let is_there = |member: &usize| match self.waits_for(first + member) {
                Some((other, together)) => other == number && self.mask_of(first + member, together) == Some(mask),
                None => false,
            };
            if members.iter().all(is_there) {
                self.do_together(warp, together, mask, len)?;
                for member in members {
                    self.threads[first + member].at += 1;
                    self.stops[first + member] = Stop::Turn;
                }
                has_met = true;
            }
        }
        Ok(has_met)
    }

    /// The lanes that take part; none of barriers of the block.
    fn mask_of(&self, index: usize, together: &Together) -> Option<u32> {
        match together {
            Together::Barrier { .. } => None,
            Together::WarpBarrier { mask } | Together::Vote { mask, .. } => {
                Some(self.threads[index].word(*mask) as u32)
            }
            Together::Shuffle(shuffle) => Some(self.threads[index].word(shuffle.mask) as u32),
            Together::LoadMatrices { .. } | Together::Multiply(_) => Some(u32::MAX),
        }
    }

    fn do_together(&mut self, warp: usize, together: &Together, mask: u32, len: usize) -> Result<(), Fault> {
        let first = warp * LANES;
        let (block, clock, warp_clock) = (self.block, self.clock, self.warp_clocks[warp]);
        let is_whole = len == LANES;
        let mut members = Members { threads: &mut self.threads[first..first + len], mask };
        let done = match together {
            Together::Barrier { .. } => Ok(()),
            Together::WarpBarrier { .. } => {
                // The order between some threads of a warp only is not remembered: it may be taken for a race.
                let all = if is_whole { u32::MAX } else { (1 << len) - 1 };
                self.warp_clocks[warp] += u32::from(mask & all == all);
                Ok(())
            }
            Together::Shuffle(shuffle) => members.shuffle(shuffle),
            Together::Vote { mode, d, a, .. } => {
                members.vote(*mode, *d, *a);
                Ok(())
            }
            Together::LoadMatrices { .. } | Together::Multiply(_) if !is_whole => {
                Err((0, "a warp that is not whole has no matrices".to_string()))
            }
            Together::LoadMatrices { registers, base, offset, transposed, instruction } => {
                let mut world = World {
                    code: self.code,
                    global: self.global,
                    shared: &mut self.shared,
                    dynamic_bytes: self.grid.dynamic_bytes,
                    counters: self.counters.as_mut(),
                };
                let stamp = |lane: usize| Stamp::new(block, (first + lane) as u32, clock, warp_clock);
                members.load_matrices(&mut world, registers, (*base, *offset), *transposed, *instruction, stamp)
            }
            Together::Multiply(multiply) => {
                members.multiply(multiply);
                Ok(())
            }
        };
        done.map_err(|(lane, message)| self.fault(first + lane, message))
    }

    /// Lets all threads pass the barrier that they wait at. Warps that have left the kernel are not waited for; threads of a warp pass as one.
    fn pass_barrier(&mut self) -> Result<bool, Fault> {
        let waits = |index: usize| match self.waits_for(index) {
            Some((number, Together::Barrier { number: barrier })) => Some((number, self.threads[index].word(*barrier))),
            _ => None,
        };
        let Some(first) = (0..self.threads.len()).find(|&index| waits(index).is_some()) else { return Ok(false) };
        for warp in 0..self.warp_clocks.len() {
            let lanes = warp * LANES..self.threads.len().min((warp + 1) * LANES);
            let Some(there) = lanes.clone().find(|&index| waits(index).is_some()) else { continue };
            for index in lanes {
                let message = match self.stops[index] {
                    Stop::Exit => {
                        format!("thread {index} of the warp has left the kernel without it: divergent barrier")
                    }
                    Stop::Together(_) if waits(index).is_some() && waits(index) != waits(there) => {
                        format!("thread {index} of the warp waits at line {}: divergent barrier", self.line_of(index))
                    }
                    Stop::Together(_) | Stop::Turn => continue,
                };
                return Err(self.fault(there, message));
            }
        }
        let stands = |index: usize| self.stops[index] == Stop::Exit || waits(index).is_some();
        if !(0..self.threads.len()).all(stands) {
            return Ok(false);
        }
        let barrier = |index: usize| waits(index).map(|(_, barrier)| barrier);
        if let Some(other) =
            (0..self.threads.len()).find(|&index| barrier(index).is_some() && barrier(index) != barrier(first))
        {
            return Err(self.fault(first, format!("thread {other} waits at another barrier: divergent barrier")));
        }
        for index in 0..self.threads.len() {
            if self.stops[index] != Stop::Exit {
                self.threads[index].at += 1;
                self.stops[index] = Stop::Turn;
            }
        }
        self.clock += 1;
        Ok(true)
    }

    fn line_of(&self, index: usize) -> u32 {
        self.code.lines[self.threads[index].at]
    }

    /// Nobody can go on: threads wait at different instructions.
    fn stuck(&self) -> Fault {
        let waiting: Vec<usize> =
            (0..self.threads.len()).filter(|&index| matches!(self.stops[index], Stop::Together(_))).collect();
        let first = waiting.first().copied().unwrap_or(0);
        let others = waiting.iter().find(|&&index| self.line_of(index) != self.line_of(first));
        let message = match others {
            Some(&other) => {
                format!("waits for ever: thread {other} waits at line {}: divergent", self.line_of(other))
            }
            None => "waits for ever: others that are named are not here".to_string(),
        };
        self.fault(first, message)
    }
}
