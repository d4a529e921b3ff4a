//! Every access to memory of an interpreted thread: it is within bounds, of something that was written, as the header says, and in no race with another thread.
//!
//! Tested with lists that are wrong, in `tests` and `thread_tests`.

use super::memory::Meeting;
use super::steps::{Address, List, Slot, Target};
use super::thread::{Thread, World};
use crate::dtype::Scalar;
use crate::ir::{MemorySpace, ScalarFunction};
use crate::linearize::Launch;
use crate::program::Access;

impl Thread {
    /// One of the elements that an address names.
    pub(super) fn read_one(&mut self, address: &Address, at: usize, world: &mut World<'_>) -> Result<Scalar, String> {
        match self.element(address, at, world)? {
            Some(element) => self.read(address.target, element, world),
            None => Ok(Scalar::zero(address.dtype)),
        }
    }

    /// The element of a lane, if its gate holds.
    fn element(&self, address: &Address, lane: usize, world: &World<'_>) -> Result<Option<usize>, String> {
        if address.gate.is_some_and(|gate| !self.registers[gate.at(lane)].to_bool()) {
            return Ok(None);
        }
        let offset = match address.offset.lanes {
            1 => self.integer(address.offset, 0).wrapping_add(match address.rows {
                Some((row, pitch)) => (lane / row) as i64 * pitch + (lane % row) as i64,
                None => lane as i64,
            }),
            _ => self.integer(address.offset, lane),
        };
        let len = match address.target {
            Target::Parameter(slot) => world.linear.parameters.get(slot).map_or(0, |parameter| parameter.len as usize),
            Target::Scratch(number) => world.list.scratch[number].len,
        };
        match usize::try_from(offset).ok().filter(|element| *element < len) {
            Some(element) => Ok(Some(element)),
            None => {
                let memory = name_of(address.target, world.list);
                Err(format!("lane {lane} is element {offset} of {memory}, which has {len}"))
            }
        }
    }

    /// All lanes of a load; 0 where a gate does not hold.
    pub(super) fn load(&mut self, address: &Address, to: Slot, world: &mut World<'_>) -> Result<(), String> {
        for lane in 0..address.lanes {
            let value = match self.element(address, lane, world)? {
                Some(element) => self.read(address.target, element, world)?,
                None => Scalar::zero(address.dtype),
            };
            self.registers[to.first + lane] = value;
        }
        Ok(())
    }

    fn read(&mut self, target: Target, element: usize, world: &mut World<'_>) -> Result<Scalar, String> {
        let name = || name_of(target, world.list);
        let value = match target {
            Target::Scratch(number) => match world.list.scratch[number].space {
                MemorySpace::Private => self.scratch[number].get(element),
                MemorySpace::Shared => {
                    let read = world.shared[number].read(element, self.number + 1, self.lives[number], world.met);
                    read.map_err(|why| format!("reads element {element} of {}, {why}", name()))?
                }
            },
            Target::Parameter(slot) => {
                if world.linear.parameters[slot].access == Access::Write {
                    return Err(format!("reads {}, of which the header says that it is only written", name()));
                }
                let read = world.usage[slot].read(element, self.user);
                read.map_err(|meeting| {
                    format!("reads element {element} of {}, {}", name(), describe(meeting, &world.launch))
                })?;
                world.parameters[slot].get(element)
            }
        };
        value.ok_or_else(|| format!("reads element {element} of {}, which nothing has written", name()))
    }

    /// All lanes of a store whose gates hold.
    pub(super) fn store(&mut self, address: &Address, value: Slot, world: &mut World<'_>) -> Result<(), String> {
        for lane in 0..address.lanes {
            if let Some(element) = self.element(address, lane, world)? {
                self.write(address.target, element, self.registers[value.at(lane)], world)?;
            }
        }
        Ok(())
    }

    /// Loads what is there, and stores the value, or both combined.
    pub(super) fn exchange(
        &mut self,
        address: &Address,
        value: Slot,
        combine: Option<&ScalarFunction>,
        to: Slot,
        world: &mut World<'_>,
    ) -> Result<(), String> {
        self.load(address, to, world)?;
        for lane in 0..address.lanes {
            let (found, value) = (self.registers[to.first + lane], self.registers[value.at(lane)]);
            let new = combine.map_or(value, |combine| combine(&[found, value]));
            if let Some(element) = self.element(address, lane, world)? {
                self.write(address.target, element, new, world)?;
            }
        }
        Ok(())
    }

    fn write(&mut self, target: Target, element: usize, value: Scalar, world: &mut World<'_>) -> Result<(), String> {
        let name = || name_of(target, world.list);
        match target {
            Target::Scratch(number) => match world.list.scratch[number].space {
                MemorySpace::Private => self.scratch[number].set(element, value),
                MemorySpace::Shared => {
                    let who = (self.number + 1, self.lives[number], world.met);
                    let written = world.shared[number].write(element, who, value);
                    written.map_err(|why| format!("writes element {element} of {}, {why}", name()))?;
                }
            },
            Target::Parameter(slot) => {
                if world.linear.parameters[slot].access == Access::Read {
                    return Err(format!("writes {}, of which the header says that it is only read", name()));
                }
                let changes = world.parameters[slot].get(element) != Some(value);
                let written = world.usage[slot].write(element, self.user, changes);
                written.map_err(|meeting| {
                    format!("writes element {element} of {}, {}", name(), describe(meeting, &world.launch))
                })?;
                world.parameters[slot].set(element, value);
            }
        }
        Ok(())
    }
}

/// How messages and the text form call memory.
pub(super) fn name_of(target: Target, list: &List) -> String {
    match target {
        Target::Parameter(slot) => format!("p{slot}"),
        Target::Scratch(number) => format!("s{}", list.scratch[number].number),
    }
}

fn describe(meeting: Meeting, launch: &Launch) -> String {
    let other = match launch.blocks() * launch.threads() {
        1 => "another share of the parallel loop",
        _ => "another thread",
    };
    match meeting {
        Meeting::ReadsWritten => format!("which {other} writes"),
        Meeting::WritesWritten => format!("to which {other} writes another value"),
        Meeting::WritesRead => format!("which {other} reads"),
    }
}
