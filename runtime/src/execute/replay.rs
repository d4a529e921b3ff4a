//! Replaying: a plan prepared to run again and again with nothing on the way but memory and launches.
//!
//! The memory of a replay is a list: what is given for the params by slot, then what the plan stores and is asked for, then the arena.
//! Which kernel gets which part of it was decided when the replay was prepared.
//!
//! Always: no lock is held while kernels run. Kernels are launched one by one only while somebody listens to their times.

use std::collections::BTreeSet;
use std::sync::Arc;

use smallvec::SmallVec;
use warpweft_compiler::ir::UOp;
use warpweft_compiler::schedule::Bound;
use warpweft_devices::{Argument, BufferSlice, LaunchList, Step};

use super::plan::{Location, Plan};
use super::run::bytes_of;
use super::{ExecuteError, Executor};
use crate::debug;
use crate::memory::Buffer;

/// The pieces of memory of one replay.
pub(crate) type Pieces = SmallVec<[Buffer; 16]>;

/// A plan with its launches prepared.
#[derive(Debug)]
pub(crate) struct Replay {
    pub(crate) plan: Arc<Plan>,
    list: Arc<dyn LaunchList>,
    /// Names of the variables, in the order of their values.
    pub(crate) variables: Vec<String>,
    /// Values that do not change from call to call, after those: where views begin.
    constants: Vec<i64>,
    /// The piece of memory that each of the plan's buffers lies in.
    pieces: Vec<usize>,
    /// The call behind each kernel, if somebody listened when it was prepared.
    origins: Vec<Option<String>>,
}

impl Replay {
    /// The piece of memory that holds a value of the program.
    pub(crate) fn piece_of(&self, value: usize) -> usize {
        self.pieces[self.plan.outputs[value]]
    }

    /// Bytes of one of the plan's buffers; params come first, by slot.
    pub(crate) fn bytes(&self, buffer: usize) -> usize {
        bytes_of(&self.plan.buffers[buffer])
    }

    /// Whether every kernel that works on the memory of the first buffer comes after every kernel that names the second.
    pub(crate) fn is_after(&self, first: usize, second: usize) -> bool {
        let is_in = |buffer: usize, home: usize| buffer == home || self.plan.locations[buffer] == Location::Lent(home);
        let names = |home: usize| {
            let launches = self.plan.kernels.iter();
            launches.map(move |launch| launch.buffers.iter().any(|&buffer| is_in(buffer as usize, home)))
        };
        let begins = names(first).position(|names| names);
        let ends = names(second).rposition(|names| names);
        match (begins, ends) {
            (Some(begins), Some(ends)) => begins > ends,
            (Some(_), None) => true,
            (None, _) => false,
        }
    }

    /// The plan's buffers that are asked for, in the order of their pieces, which follow those of the params.
    pub(crate) fn stored(&self) -> impl Iterator<Item = usize> {
        self.plan.locations.iter().enumerate().filter(|(_, home)| **home == Location::Own).map(|(buffer, _)| buffer)
    }
}

impl Executor {
    /// Prepares a program, of which `sink` is the structure: finds or makes its plan, and lists its launches.
    pub(crate) fn prepare(&self, values: &[UOp], sink: &UOp) -> Result<Replay, ExecuteError> {
        let plan = self.plan(sink)?;
        let mut next = plan.params;
        let mut piece = |location: &Location| match location {
            Location::Given(slot) => *slot as usize,
            Location::Own => {
                next += 1;
                next - 1
            }
            // Set below, when the number of pieces is known.
            Location::Arena(_) | Location::Lent(_) => usize::MAX,
        };
        let mut pieces: Vec<usize> = plan.locations.iter().map(&mut piece).collect();
        for (buffer, location) in plan.locations.iter().enumerate() {
            if let Location::Lent(output) = *location {
                pieces[buffer] = pieces[output];
            }
        }
        pieces.iter_mut().filter(|piece| **piece == usize::MAX).for_each(|piece| *piece = next);
        // In order of names, each once.
        let mut variables: BTreeSet<&str> = BTreeSet::new();
        for launch in &plan.kernels {
            let names = launch.kernel.program.variables.iter();
            variables.extend(names.filter(|name| !launch.is_offset(name)).map(|name| launch.name_of(name)));
        }
        let variables: Vec<String> = variables.into_iter().map(str::to_string).collect();
        let argument = |&buffer: &u32| {
            let buffer = buffer as usize;
            let offset = if let Location::Arena(offset) = plan.locations[buffer] { offset } else { 0 };
            Argument { memory: pieces[buffer], offset, bytes: bytes_of(&plan.buffers[buffer]) }
        };
        let mut constants = Vec::new();
        let mut steps = Vec::with_capacity(plan.kernels.len());
        for launch in &plan.kernels {
            let number = |name: &String| match launch.offsets.named(name) {
                Some(Bound::Number(value)) => {
                    constants.push(*value);
                    variables.len() + constants.len() - 1
                }
                Some(Bound::Variable(_)) | None => {
                    let is_it = |variable: &String| variable.as_str().cmp(launch.name_of(name));
                    variables.binary_search_by(is_it).unwrap_or(0) // it is there: see above
                }
            };
            steps.push(Step {
                kernel: launch.kernel.kernel.clone(),
                arguments: launch.buffers.iter().map(argument).collect(),
                variables: launch.kernel.program.variables.iter().map(number).collect(),
            });
        }
        let list = self.device.launch_list(steps);
        let origins = if debug::wants_kernels() { self.origins(values, sink) } else { Vec::new() };
        Ok(Replay { list, variables, constants, pieces, plan, origins })
    }

    /// New memory for one of a plan's buffers.
    pub(crate) fn memory_for(&self, plan: &Plan, buffer: usize) -> Buffer {
        Buffer::new(&self.allocator, bytes_of(&plan.buffers[buffer]))
    }

    /// Runs all kernels over these pieces, to which it adds the arena.
    pub(crate) fn replay(&self, replay: &Replay, pieces: &mut Pieces, variables: &[i64]) -> Result<(), ExecuteError> {
        if replay.plan.kernels.is_empty() {
            return Ok(());
        }
        if replay.plan.arena_bytes > 0 {
            pieces.push(Buffer::new(&self.allocator, replay.plan.arena_bytes));
        }
        if self.profile || debug::wants_kernels() {
            self.replay_timed(replay, pieces, variables)?;
        } else {
            let mut slices: SmallVec<[BufferSlice<'_>; 16]> = SmallVec::with_capacity(pieces.len());
            for piece in pieces.iter() {
                slices.push(piece.slice()?);
            }
            let mut values: SmallVec<[i64; 8]> = SmallVec::from_slice(variables);
            values.extend_from_slice(&replay.constants);
            replay.list.run(&slices, &values, self.threads)?;
        }
        self.stats.launched(replay.plan.kernels.len());
        Ok(())
    }

    #[cold]
    fn replay_timed(&self, replay: &Replay, pieces: &Pieces, variables: &[i64]) -> Result<(), ExecuteError> {
        let plan = &replay.plan;
        let parts = plan.locations.iter().zip(&plan.buffers).zip(&replay.pieces).map(|((location, buffer), &piece)| {
            Ok(Some(match *location {
                Location::Arena(offset) => pieces[piece].view(offset, bytes_of(buffer))?,
                Location::Lent(_) => pieces[piece].view(0, bytes_of(buffer))?,
                Location::Given(_) | Location::Own => pieces[piece].clone(),
            }))
        });
        let memory = parts.collect::<Result<_, ExecuteError>>()?;
        let bindings: Vec<(String, i64)> = replay.variables.iter().cloned().zip(variables.iter().copied()).collect();
        for (number, launch) in plan.kernels.iter().enumerate() {
            let elapsed = self.timed(|| self.launch(launch, &memory, &bindings))?;
            self.launched(launch, elapsed, replay.origins.get(number).and_then(Option::as_deref));
        }
        Ok(())
    }
}
