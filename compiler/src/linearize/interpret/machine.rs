//! Runs a prepared list: registers, loop counters, and every access to memory watched.

use std::fmt::Write;
use std::ops::Range;

use super::memory::{Memory, ScratchMemory, Shared};
use super::prepare::{Action, Address, List, Loop, Slot, Step, Target};
use crate::dtype::Scalar;
use crate::linearize::Linear;
use crate::program::Access;

/// The op that is wrong, where it was, and what is wrong.
pub(super) type Wrong = (usize, String, String);

/// Runs a list for all shares.
pub(super) fn run(
    linear: &Linear,
    list: &List,
    parameters: &mut [Memory],
    variables: &[i64],
    shares: &[Range<i64>],
) -> Result<(), Wrong> {
    if let Err(message) = check_given(linear, parameters, variables) {
        return Err((0, String::new(), message));
    }
    let mut machine = Machine {
        linear,
        steps: &list.steps,
        registers: vec![Scalar::Bool(false); list.registers],
        variables,
        shared: parameters.iter().map(|memory| Shared::new(memory.len())).collect(),
        parameters,
        scratch: list.scratch.iter().map(|scratch| ScratchMemory::new(scratch.len)).collect(),
        scratch_numbers: list.scratch.iter().map(|scratch| scratch.number).collect(),
        open: Vec::new(),
        share: 0..0,
        share_number: 0,
    };
    shares.iter().try_for_each(|share| machine.run_share(share.clone()))
}

/// Whether there is a parameter of the right type and length for each of the header, and a value for each variable.
fn check_given(linear: &Linear, parameters: &[Memory], variables: &[i64]) -> Result<(), String> {
    if parameters.len() != linear.parameters.len() || variables.len() != linear.variables.len() {
        let (memory, values) = (linear.parameters.len(), linear.variables.len());
        return Err(format!("takes {memory} parameters and {values} variables"));
    }
    let fits = |(slot, (given, wanted)): (usize, (&Memory, &crate::program::Parameter))| {
        let fits = given.dtype() == wanted.dtype && given.len() as u64 >= wanted.len;
        if fits { Ok(()) } else { Err(format!("parameter {slot} is {}[{}]", wanted.dtype, wanted.len)) }
    };
    parameters.iter().zip(&linear.parameters).enumerate().try_for_each(fits)
}

/// A loop that runs.
struct Running {
    id: u32,
    counter: i64,
    stop: i64,
}

struct Machine<'l> {
    linear: &'l Linear,
    steps: &'l [Step],
    registers: Vec<Scalar>,
    variables: &'l [i64],
    parameters: &'l mut [Memory],
    shared: Vec<Shared>,
    scratch: Vec<ScratchMemory>,
    scratch_numbers: Vec<u32>,
    open: Vec<Running>,
    share: Range<i64>,
    /// Counted from 1.
    share_number: u32,
}

impl Machine<'_> {
    fn run_share(&mut self, share: Range<i64>) -> Result<(), Wrong> {
        self.share = share;
        self.share_number += 1;
        self.scratch.iter_mut().for_each(ScratchMemory::renew);
        let mut at = 0;
        while at < self.steps.len() {
            at = self.step(at).map_err(|message| (at, self.iteration(), message))?;
        }
        Ok(())
    }

    /// Where the machine is, for messages.
    fn iteration(&self) -> String {
        let mut text = String::new();
        if self.linear.grid > 1 {
            let _ = write!(text, " in share {:?}", self.share);
        }
        for (position, running) in self.open.iter().enumerate() {
            let word = if position == 0 { " with" } else { "," };
            let _ = write!(text, "{word} r{} = {}", running.id, running.counter);
        }
        text
    }

    fn integer(&self, slot: Slot, lane: usize) -> i64 {
        self.registers[slot.at(lane)].to_i64()
    }

    /// Does one op and says which one is next.
    fn step(&mut self, at: usize) -> Result<usize, String> {
        let steps = self.steps;
        let Step { action, to } = &steps[at];
        match action {
            Action::Nothing => {}
            Action::Constant(value) => self.fill(*to, |_, _| *value),
            Action::Variable { position, bounds: (min, max), dtype } => {
                let value = self.variables[*position];
                if !(*min..=*max).contains(&value) {
                    return Err(format!("is {value}, not within {min}..{max}"));
                }
                self.fill(*to, |_, _| Scalar::from_i64(value, *dtype));
            }
            Action::Open(open) => return Ok(self.open_loop(at, open, *to)),
            Action::Close { open } => return Ok(self.close_loop(at, *open)),
            Action::Copy { from } => self.fill(*to, |machine, lane| machine.registers[from.at(lane)]),
            Action::Load(address) => self.load(address, *to)?,
            Action::Store { address, value } => self.store(address, *value)?,
            Action::Ramp { base, stride, dtype } => {
                let first = self.integer(*base, 0);
                self.fill(*to, |_, lane| {
                    Scalar::from_i64(first.wrapping_add((lane as i64).wrapping_mul(*stride)), *dtype)
                });
            }
            Action::Stack(lanes) => self.fill(*to, |machine, lane| machine.registers[lanes[lane].first]),
            Action::Lane { from, lane } => self.fill(*to, |machine, _| machine.registers[from.at(*lane)]),
            Action::HorizontalReduce { from, combine } => {
                let mut lanes: Vec<Scalar> = (0..from.lanes).map(|lane| self.registers[from.at(lane)]).collect();
                while lanes.len() > 1 {
                    let upper = lanes.split_off(lanes.len().div_ceil(2));
                    for (lane, other) in lanes.iter_mut().zip(upper) {
                        *lane = combine(&[*lane, other]);
                    }
                }
                self.registers[to.first] = lanes[0];
            }
            Action::Compute { function, src } => self.fill(*to, |machine, lane| {
                let registers = &machine.registers;
                match src[..] {
                    [a] => function(&[registers[a.at(lane)]]),
                    [a, b] => function(&[registers[a.at(lane)], registers[b.at(lane)]]),
                    [a, b, c] => function(&[registers[a.at(lane)], registers[b.at(lane)], registers[c.at(lane)]]),
                    // No elementwise op has another number of operands.
                    _ => function(&[]),
                }
            }),
        }
        Ok(at + 1)
    }

    /// Sets each lane of a result.
    fn fill(&mut self, to: Slot, value: impl Fn(&Self, usize) -> Scalar) {
        for lane in 0..to.lanes {
            self.registers[to.first + lane] = value(self, lane);
        }
    }

    fn open_loop(&mut self, at: usize, open: &Loop, to: Slot) -> usize {
        let len = self.integer(open.len, 0);
        let share = if open.is_parallel { self.share.clone() } else { 0..len };
        let (counter, stop) = (share.start, share.end.min(len));
        if counter >= stop {
            return open.end + 1;
        }
        self.open.push(Running { id: open.id, counter, stop });
        self.begin_iteration(open, to);
        at + 1
    }

    fn begin_iteration(&mut self, open: &Loop, to: Slot) {
        let counter = self.open.last().map_or(0, |running| running.counter);
        self.registers[to.first] = Scalar::from_i64(counter, open.dtype);
        for number in &open.renews {
            self.scratch[*number].renew();
        }
    }

    fn close_loop(&mut self, at: usize, open: usize) -> usize {
        let Some(running) = self.open.last_mut() else { return at + 1 };
        running.counter += 1;
        if running.counter >= running.stop {
            self.open.pop();
            return at + 1;
        }
        let steps = self.steps;
        if let Step { action: Action::Open(range), to } = &steps[open] {
            self.begin_iteration(range, *to);
        }
        open + 1
    }

    /// The element of a lane, if its gate holds.
    fn element(&self, address: &Address, lane: usize) -> Result<Option<usize>, String> {
        if address.gate.is_some_and(|gate| !self.registers[gate.at(lane)].to_bool()) {
            return Ok(None);
        }
        let offset = match address.offset.lanes {
            1 => self.integer(address.offset, 0).wrapping_add(lane as i64),
            _ => self.integer(address.offset, lane),
        };
        let len = match address.target {
            Target::Parameter(slot) => self.linear.parameters.get(slot).map_or(0, |parameter| parameter.len as usize),
            Target::Scratch(number) => self.scratch[number].len(),
        };
        match usize::try_from(offset).ok().filter(|element| *element < len) {
            Some(element) => Ok(Some(element)),
            None => {
                Err(format!("lane {lane} is element {offset} of {}, which has {len}", self.name_of(address.target)))
            }
        }
    }

    fn load(&mut self, address: &Address, to: Slot) -> Result<(), String> {
        for lane in 0..address.lanes {
            let value = match self.element(address, lane)? {
                Some(element) => self.read(address.target, element)?,
                None => Scalar::zero(address.dtype),
            };
            self.registers[to.first + lane] = value;
        }
        Ok(())
    }

    fn read(&mut self, target: Target, element: usize) -> Result<Scalar, String> {
        let value = match target {
            Target::Scratch(number) => self.scratch[number].get(element),
            Target::Parameter(slot) => {
                if self.linear.parameters[slot].access == Access::Write {
                    return Err(format!(
                        "reads {}, of which the header says that it is only written",
                        self.name_of(target)
                    ));
                }
                let read = self.shared[slot].read(element, self.share_number);
                read.map_err(|why| format!("reads element {element} of {}, {why}", self.name_of(target)))?;
                self.parameters[slot].get(element)
            }
        };
        value.ok_or_else(|| format!("reads element {element} of {}, which nothing has written", self.name_of(target)))
    }

    fn store(&mut self, address: &Address, value: Slot) -> Result<(), String> {
        for lane in 0..address.lanes {
            if let Some(element) = self.element(address, lane)? {
                self.write(address.target, element, self.registers[value.at(lane)])?;
            }
        }
        Ok(())
    }

    fn write(&mut self, target: Target, element: usize, value: Scalar) -> Result<(), String> {
        match target {
            Target::Scratch(number) => self.scratch[number].set(element, value),
            Target::Parameter(slot) => {
                if self.linear.parameters[slot].access == Access::Read {
                    return Err(format!(
                        "writes {}, of which the header says that it is only read",
                        self.name_of(target)
                    ));
                }
                let changes = self.parameters[slot].get(element) != Some(value);
                let written = self.shared[slot].write(element, self.share_number, changes);
                written.map_err(|why| format!("writes element {element} of {}, {why}", self.name_of(target)))?;
                self.parameters[slot].set(element, value);
            }
        }
        Ok(())
    }

    /// How messages and the text form call memory.
    fn name_of(&self, target: Target) -> String {
        match target {
            Target::Parameter(slot) => format!("p{slot}"),
            Target::Scratch(number) => format!("s{}", self.scratch_numbers[number]),
        }
    }
}
