//! One thread: its words, its memory, and where it is; it runs until something that other threads take part in.
//!
//! Tested by all kernels that run.

use super::counters::Counters;
use super::memory::{Global, Local, Refused, Shared, Stamp, locate_in};
use super::micro::{Access, Atomic, Code, Copy, Memory, Micro, Slot};
use super::scalar::{low, signed};
use super::syntax::Space;

/// Branches that a thread takes at the most: more is an endless loop.
const BRANCHES_MAX: u64 = 1 << 40;

/// Why a thread stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// It may go on.
    Turn,
    /// It waits for others, at what they do together.
    Together(u32),
    /// It has left the kernel.
    Exit,
}

/// What all threads of a block see.
pub(super) struct World<'w, 'l> {
    pub(super) code: &'w Code,
    pub(super) global: &'w Global<'l>,
    pub(super) shared: &'w mut Shared,
    pub(super) dynamic_bytes: u64,
    pub(super) counters: Option<&'w mut Counters>,
}

/// A copy that is under way.
#[derive(Clone, Debug)]
struct Pending {
    to: u64,
    data: Vec<u8>,
}

/// A thread of a block.
#[derive(Debug)]
pub(super) struct Thread {
    /// In its block.
    pub(super) number: u32,
    pub(super) words: Vec<u64>,
    /// Slots that were written, of those that are looked after.
    marked: Vec<u64>,
    pub(super) at: usize,
    local: Local,
    branches: u64,
    copies: Vec<Pending>,
    /// Copies of each group that is under way, oldest first.
    groups: Vec<Vec<Pending>>,
}

impl Thread {
    pub(super) fn new(code: &Code, local_bytes: u64) -> Thread {
        Thread {
            number: 0,
            words: code.words.clone(),
            marked: vec![0; code.words.len().div_ceil(64)],
            at: 0,
            local: Local::new(local_bytes),
            branches: 0,
            copies: Vec::new(),
            groups: Vec::new(),
        }
    }

    /// As a kernel begins.
    pub(super) fn begin(&mut self, number: u32) {
        self.number = number;
        self.marked.fill(0);
        self.at = 0;
        self.local.reset();
        self.branches = 0;
        self.copies.clear();
        self.groups.clear();
    }

    pub(super) fn word(&self, slot: Slot) -> u64 {
        self.words[slot as usize]
    }

    fn set(&mut self, slot: Slot, value: u64) {
        self.words[slot as usize] = value;
    }

    /// Runs until it stops, at the most so many branches. What is refused happened at `self.at`.
    pub(super) fn run(&mut self, world: &mut World<'_, '_>, now: Stamp, turns: u64) -> Result<Stop, Refused> {
        let code = world.code;
        let last = (self.branches + turns).min(BRANCHES_MAX);
        loop {
            let at = self.at;
            self.at = at + 1;
            match code.micros[at] {
                Micro::One { f, d, a } => self.set(d, f(self.word(a))),
                Micro::Two { f, d, a, b } => self.set(d, f(self.word(a), self.word(b))),
                Micro::Three { f, d, a, b, c } => self.set(d, f(self.word(a), self.word(b), self.word(c))),
                Micro::Move { d, a } => self.set(d, self.word(a)),
                Micro::Convert { number, d, a } => self.set(d, code.conversions[number as usize].of(self.word(a))),
                Micro::Extract { d, a, shift, bits } => self.set(d, low(self.word(a) >> shift, bits.into())),
                Micro::Join { d, a, b, shift } => self.set(d, self.word(a) | self.word(b) << shift),
                Micro::Skip { p, when, to } => {
                    if (self.word(p) != 0) == when {
                        self.at = to as usize;
                    }
                }
                Micro::Jump { .. } | Micro::JumpIf { .. } => {
                    if self.jump(code.micros[at], last)? {
                        return Ok(Stop::Turn);
                    }
                }
                Micro::Load { number } => {
                    self.guarded(at, |thread| thread.load(world, &code.loads[number as usize], now))?
                }
                Micro::Store { number } => {
                    self.guarded(at, |thread| thread.store(world, &code.stores[number as usize], now))?
                }
                Micro::Together { number } => {
                    self.at = at;
                    return Ok(Stop::Together(number));
                }
                Micro::Exit => return Ok(Stop::Exit),
                rare => self.guarded(at, |thread| thread.rare(world, rare, now))?,
            }
        }
    }

    /// Stays where it is if something is refused there.
    fn guarded(&mut self, at: usize, run: impl FnOnce(&mut Thread) -> Result<(), Refused>) -> Result<(), Refused> {
        run(self).inspect_err(|_| self.at = at)
    }

    /// Jumps, and says whether it is somebody else's turn.
    fn jump(&mut self, micro: Micro, last: u64) -> Result<bool, Refused> {
        match micro {
            Micro::JumpIf { p, when, to } if (self.word(p) != 0) == when => self.at = to as usize,
            Micro::Jump { to } => self.at = to as usize,
            _ => return Ok(false),
        }
        self.branches += 1;
        if self.branches >= BRANCHES_MAX {
            return Err("a loop that does not end".to_string());
        }
        Ok(self.branches >= last)
    }

    /// What is not worth a place in the loop above.
    fn rare(&mut self, world: &mut World<'_, '_>, micro: Micro, now: Stamp) -> Result<(), Refused> {
        match micro {
            Micro::Check { slot } if self.marked[slot as usize / 64] >> (slot % 64) & 1 == 0 => {
                return Err(format!("{} is read, which nothing has written", world.code.name_of(slot)));
            }
            Micro::Mark { slot } => self.marked[slot as usize / 64] |= 1 << (slot % 64),
            Micro::Divides { a, b, signed_bits } => {
                let (a, b, bits) = (self.word(a), self.word(b), u32::from(signed_bits));
                if b == 0 {
                    return Err("division by 0, which has no value in PTX".to_string());
                }
                if bits > 0 && b == low(u64::MAX, bits) && signed(a, bits) == signed(1 << (bits - 1), bits) {
                    return Err("the least number divided by -1, which has no value in PTX".to_string());
                }
            }
            Micro::Atomic { number } => self.atomic(world, &world.code.atomics[number as usize], now)?,
            Micro::Copy { number } => self.copy(world, world.code.copies[number as usize], now)?,
            Micro::CommitCopies => self.groups.push(std::mem::take(&mut self.copies)),
            Micro::WaitForCopies { groups } => {
                while self.groups.len() > groups as usize {
                    for copy in self.groups.remove(0) {
                        world.shared.end_copy(copy.to, &copy.data, now)?;
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn count(&self, world: &mut World<'_, '_>, memory: Memory, instruction: u32, address: u64, bytes: u32) {
        if let Some(counters) = &mut world.counters {
            counters.note(self.number, memory, instruction, address, bytes);
        }
    }

    fn load(&mut self, world: &mut World<'_, '_>, access: &Access, now: Stamp) -> Result<(), Refused> {
        let address = self.word(access.base).wrapping_add(access.offset as u64);
        let bytes = access.bytes * access.registers.len() as u32;
        self.count(world, access.memory, access.instruction, address, bytes);
        match access.memory {
            Memory::Global | Memory::GlobalReadOnly => {
                let mut located = world.global.locate(address, bytes)?;
                world.global.note_read(located, bytes, now, access.memory == Memory::GlobalReadOnly)?;
                for &register in &access.registers {
                    self.set(register, extended(world.global.get(located, access.bytes), access));
                    located = located.after(access.bytes);
                }
            }
            Memory::Shared => {
                let mut at = locate_shared(world, address, bytes)?;
                world.shared.note_read(at, bytes, now)?;
                for &register in &access.registers {
                    self.set(register, extended(world.shared.get(at, access.bytes), access));
                    at += u64::from(access.bytes);
                }
            }
            Memory::Local => {
                let mut at = locate_in(&world.code.locations, Space::Local, 0, address, bytes)?;
                self.local.note_read(at, bytes)?;
                for &register in &access.registers {
                    self.words[register as usize] = extended(self.local.get(at, access.bytes), access);
                    at += u64::from(access.bytes);
                }
            }
        }
        Ok(())
    }

    fn store(&mut self, world: &mut World<'_, '_>, access: &Access, now: Stamp) -> Result<(), Refused> {
        let address = self.word(access.base).wrapping_add(access.offset as u64);
        let bytes = access.bytes * access.registers.len() as u32;
        self.count(world, access.memory, access.instruction, address, bytes);
        match access.memory {
            Memory::Global | Memory::GlobalReadOnly => {
                let mut located = world.global.locate(address, bytes)?;
                world.global.note_write(located, bytes, now)?;
                for &register in &access.registers {
                    world.global.put(located, access.bytes, self.word(register));
                    located = located.after(access.bytes);
                }
            }
            Memory::Shared => {
                let mut at = locate_shared(world, address, bytes)?;
                world.shared.note_write(at, bytes, now)?;
                for &register in &access.registers {
                    world.shared.put(at, access.bytes, self.word(register));
                    at += u64::from(access.bytes);
                }
            }
            Memory::Local => {
                let mut at = locate_in(&world.code.locations, Space::Local, 0, address, bytes)?;
                self.local.note_write(at, bytes);
                for &register in &access.registers {
                    self.local.put(at, access.bytes, self.words[register as usize]);
                    at += u64::from(access.bytes);
                }
            }
        }
        Ok(())
    }

    fn atomic(&mut self, world: &mut World<'_, '_>, atomic: &Atomic, now: Stamp) -> Result<(), Refused> {
        let Atomic { access, combine, found } = atomic;
        let address = self.word(access.base).wrapping_add(access.offset as u64);
        let (bytes, now) = (access.bytes, now.atomic());
        self.count(world, access.memory, access.instruction, address, bytes);
        let operand = |number: usize| access.registers.get(number).map_or(0, |&slot| self.word(slot));
        let (a, b) = (operand(0), operand(1));
        let before = if access.memory == Memory::Shared {
            let at = locate_shared(world, address, bytes)?;
            world.shared.note_read(at, bytes, now)?;
            world.shared.note_write(at, bytes, now)?;
            let before = world.shared.get(at, bytes);
            world.shared.put(at, bytes, combine(before, a, b));
            before
        } else {
            let located = world.global.locate(address, bytes)?;
            world.global.note_read(located, bytes, now, false)?;
            world.global.note_write(located, bytes, now)?;
            world.global.update(located, bytes, |before| combine(before, a, b))
        };
        if let Some(found) = found {
            self.set(*found, before);
        }
        Ok(())
    }

    /// Begins a copy; what it copies is read now, and shows when it is waited for.
    fn copy(&mut self, world: &mut World<'_, '_>, copy: Copy, now: Stamp) -> Result<(), Refused> {
        let to = self.word(copy.to).wrapping_add(copy.to_offset as u64);
        let from = self.word(copy.from).wrapping_add(copy.from_offset as u64);
        self.count(world, Memory::Global, copy.instruction, from, copy.bytes);
        let at = locate_shared(world, to, copy.bytes)?;
        let read = copy.read.map_or(copy.bytes, |slot| low(self.word(slot), 32) as u32);
        if read > copy.bytes {
            return Err(format!("a copy of {} bytes that reads {read}", copy.bytes));
        }
        let mut data = vec![0; copy.bytes as usize];
        if from & u64::from(copy.bytes - 1) != 0 {
            return Err(format!(
                "a copy of {} bytes from an address that is no multiple of it: misaligned",
                copy.bytes
            ));
        }
        for number in 0..read {
            let located = world.global.locate(from + u64::from(number), 1)?;
            world.global.note_read(located, 1, now, false)?;
            data[number as usize] = world.global.get(located, 1) as u8;
        }
        world.shared.begin_copy(at, copy.bytes, now)?;
        self.copies.push(Pending { to: at, data });
        Ok(())
    }
}

/// Where an address of shared memory lies.
pub(super) fn locate_shared(world: &World<'_, '_>, address: u64, bytes: u32) -> Result<u64, Refused> {
    locate_in(&world.code.locations, Space::Shared, world.dynamic_bytes, address, bytes)
}

fn extended(value: u64, access: &Access) -> u64 {
    if access.extended_to == 0 { value } else { low(signed(value, 8 * access.bytes) as u64, access.extended_to) }
}
