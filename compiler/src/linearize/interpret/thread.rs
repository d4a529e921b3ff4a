//! One thread of an interpreted list: its registers, loops and private scratch, and every access to memory watched.

use std::fmt::Write;
use std::ops::Range;

use super::memory::{Meeting, Memory, ScratchMemory, SharedMemory, Usage};
use super::prepare::{Action, Address, List, Loop, Slot, Step, Target, TileProduct};
use crate::dtype::{DType, Scalar};
use crate::ir::{AxisKind, MemorySpace, ScalarFunction, dots, tiles};
use crate::linearize::{Launch, Linear};
use crate::program::Access;

/// What all threads see.
pub(super) struct World<'l> {
    pub(super) linear: &'l Linear,
    pub(super) list: &'l List,
    pub(super) launch: Launch,
    pub(super) variables: &'l [i64],
    pub(super) parameters: &'l mut [Memory],
    pub(super) usage: Vec<Usage>,
    /// The share of the parallel loop that runs.
    pub(super) share: Range<i64>,
    /// The block that runs.
    pub(super) block: [i64; 3],
    /// The shared memory of the block, under the number of the scratch.
    pub(super) shared: Vec<SharedMemory>,
    /// How often the threads of the block have met at a barrier.
    pub(super) met: u32,
}

/// A loop that runs, or an index that has been opened.
#[derive(PartialEq, Eq)]
pub(super) struct Running {
    id: u32,
    is_index: bool,
    counter: i64,
    stop: i64,
}

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Runs,
    /// It stands at a barrier.
    AtBarrier,
    /// It stands where lanes combine what they have, or load or multiply matrices.
    AtShuffle,
    Ended,
}

/// A thread.
pub(super) struct Thread {
    /// Its number in the block.
    pub(super) number: u32,
    /// Its number among all threads of all blocks and shares, from 1.
    pub(super) user: u32,
    /// Its index along x, y and z, and its lane.
    index: [i64; 3],
    lane: i64,
    registers: Vec<Scalar>,
    scratch: Vec<ScratchMemory>,
    /// For each shared scratch how often this thread has begun what it lives for.
    lives: Vec<u32>,
    pub(super) open: Vec<Running>,
    /// The step that is next, or at which it waits.
    pub(super) at: usize,
    pub(super) state: State,
}

impl Thread {
    /// The thread of that number in a block.
    pub(super) fn new(number: u32, user: u32, list: &List, launch: &Launch) -> Thread {
        let [x, y, _] = launch.block;
        let group = u64::from(number) / launch.lanes;
        let private = |space: MemorySpace, len: usize| if space == MemorySpace::Private { len } else { 0 };
        Thread {
            number,
            user,
            index: [group % x, group / x % y, group / x / y].map(|index| index as i64),
            lane: (u64::from(number) % launch.lanes) as i64,
            registers: vec![Scalar::Bool(false); list.registers],
            scratch: list.scratch.iter().map(|arg| ScratchMemory::new(private(arg.space, arg.len))).collect(),
            lives: vec![1; list.scratch.len()],
            open: Vec::new(),
            at: 0,
            state: State::Runs,
        }
    }

    /// Runs until it waits for others or has ended.
    pub(super) fn run(&mut self, world: &mut World<'_>) -> Result<(), String> {
        while self.state == State::Runs {
            if self.at >= world.list.steps.len() {
                self.state = State::Ended;
                return Ok(());
            }
            self.step(world)?;
        }
        Ok(())
    }

    /// Where the thread is, for messages.
    pub(super) fn iteration_text(&self, world: &World<'_>) -> String {
        let mut text = String::new();
        if world.linear.grid > 1 {
            let _ = write!(text, " in share {:?}", world.share);
        }
        let [x, y, z] = world.block;
        if world.launch.blocks() > 1 {
            let _ = write!(text, " in block ({x}, {y}, {z})");
        }
        if world.launch.threads() > 1 {
            let [x, y, z] = self.index;
            let _ = write!(text, " in thread {} ({x}, {y}, {z})", self.number);
        }
        if world.launch.lanes > 1 {
            let _ = write!(text, " lane {}", self.lane);
        }
        for (position, running) in self.open.iter().filter(|running| !running.is_index).enumerate() {
            let word = if position == 0 { " with" } else { "," };
            let _ = write!(text, "{word} r{} = {}", running.id, running.counter);
        }
        text
    }

    /// The loops that it is in and how far, without the indices in which threads differ.
    pub(super) fn iteration(&self) -> Vec<(u32, i64)> {
        let loops = self.open.iter().filter(|running| !running.is_index);
        loops.map(|running| (running.id, running.counter)).collect()
    }

    /// The value of one lane of a vector (a vector has lanes of its own).
    pub(super) fn get(&self, slot: Slot, lane: usize) -> Scalar {
        self.registers[slot.at(lane)]
    }

    /// Sets one lane of a vector.
    pub(super) fn set(&mut self, slot: Slot, lane: usize, value: Scalar) {
        self.registers[slot.first + lane] = value;
    }

    fn integer(&self, slot: Slot, lane: usize) -> i64 {
        self.registers[slot.at(lane)].to_i64()
    }

    /// Does one op, or waits at it.
    fn step(&mut self, world: &mut World<'_>) -> Result<(), String> {
        let list = world.list;
        let Step { action, to } = &list.steps[self.at];
        match action {
            Action::Nothing => {}
            Action::Constant(value) => self.fill(*to, |_, _| *value),
            Action::Variable { position, bounds: (min, max), dtype } => {
                let value = world.variables[*position];
                if !(*min..=*max).contains(&value) {
                    return Err(format!("is {value}, not within {min}..{max}"));
                }
                self.fill(*to, |_, _| Scalar::from_i64(value, *dtype));
            }
            Action::Open(open) => {
                self.at = self.open_loop(open, *to, world);
                return Ok(());
            }
            Action::Close { open } => {
                self.at = self.close_loop(*open, list);
                return Ok(());
            }
            Action::Barrier => {
                self.state = State::AtBarrier;
                return Ok(());
            }
            Action::Shuffle { .. } | Action::LoadMatrices { .. } | Action::Matrices { .. } => {
                self.state = State::AtShuffle;
                return Ok(());
            }
            Action::Copy { from } => self.fill(*to, |thread, lane| thread.registers[from.at(lane)]),
            Action::Load(address) => self.load(address, *to, world)?,
            Action::Store { address, value } => self.store(address, *value, world)?,
            Action::Exchange { address, value, combine } => {
                self.exchange(address, *value, combine.as_ref(), *to, world)?;
            }
            Action::Ramp { base, stride, dtype } => {
                let first = self.integer(*base, 0);
                self.fill(*to, |_, lane| {
                    Scalar::from_i64(first.wrapping_add((lane as i64).wrapping_mul(*stride)), *dtype)
                });
            }
            Action::Stack(lanes) => self.fill(*to, |thread, lane| thread.registers[lanes[lane].first]),
            Action::Lane { from, lane } => self.fill(*to, |thread, _| thread.registers[from.at(*lane)]),
            Action::Dots { left, right, sums, dtype } => self.add_up([*left, *right, *sums], *dtype, *to),
            Action::Tiles(product) => self.multiply_tiles(product, *to),
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
            Action::Compute { function, src } => self.fill(*to, |thread, lane| {
                let registers = &thread.registers;
                match src[..] {
                    [a] => function(&[registers[a.at(lane)]]),
                    [a, b] => function(&[registers[a.at(lane)], registers[b.at(lane)]]),
                    [a, b, c] => function(&[registers[a.at(lane)], registers[b.at(lane)], registers[c.at(lane)]]),
                    // No elementwise op has another number of operands.
                    _ => function(&[]),
                }
            }),
        }
        self.at += 1;
        Ok(())
    }

    /// Sets each lane of a result.
    fn fill(&mut self, to: Slot, value: impl Fn(&Self, usize) -> Scalar) {
        for lane in 0..to.lanes {
            self.registers[to.first + lane] = value(self, lane);
        }
    }

    /// Opens a loop and says which step is next.
    fn open_loop(&mut self, open: &Loop, to: Slot, world: &World<'_>) -> usize {
        let len = self.integer(open.len, 0);
        let only = |index: i64| index..index.saturating_add(1);
        let share = match open.kind {
            AxisKind::Parallel => world.share.clone(),
            AxisKind::Grid(dim) => only(world.block[dim as usize]),
            AxisKind::Block(dim) => only(self.index[dim as usize]),
            AxisKind::Lane => only(self.lane),
            AxisKind::Loop
            | AxisKind::Reduce
            | AxisKind::Serial
            | AxisKind::Unroll
            | AxisKind::Vector
            | AxisKind::Dot => 0..len,
        };
        let (counter, stop) = (share.start, share.end.min(len));
        if counter >= stop {
            return open.end + 1;
        }
        self.open.push(Running { id: open.id, is_index: open.kind.is_thread_index(), counter, stop });
        self.begin_iteration(open, to);
        self.at + 1
    }

    fn begin_iteration(&mut self, open: &Loop, to: Slot) {
        let counter = self.open.last().map_or(0, |running| running.counter);
        self.registers[to.first] = Scalar::from_i64(counter, open.dtype);
        for number in &open.renews {
            self.scratch[*number].renew();
            self.lives[*number] = self.lives[*number].wrapping_add(1).max(1);
        }
    }

    /// Ends an iteration and says which step is next.
    fn close_loop(&mut self, open: usize, list: &List) -> usize {
        let Some(running) = self.open.last_mut() else { return self.at + 1 };
        running.counter += 1;
        if running.counter >= running.stop {
            self.open.pop();
            return self.at + 1;
        }
        if let Step { action: Action::Open(range), to } = &list.steps[open] {
            self.begin_iteration(range, *to);
        }
        open + 1
    }

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

    /// The products of each group of lanes, added to a lane of the sums.
    fn add_up(&mut self, [left, right, sums]: [Slot; 3], dtype: DType, to: Slot) {
        let group = left.lanes / to.lanes;
        self.fill(to, |thread, lane| {
            let of = |factor: Slot| &thread.registers[factor.first + lane * group..][..group];
            dots::multiply(thread.registers[sums.at(lane)], of(left), of(right), dtype)
        });
    }

    /// Each element of a tile of sums, of a row of the left factor and a column of the right one.
    fn multiply_tiles(&mut self, &TileProduct { left, right, sums, kind, shape }: &TileProduct, to: Slot) {
        let group = kind.group();
        self.fill(to, |thread, lane| {
            let (row, column) = (lane / shape.columns, lane % shape.columns);
            let of_left = |at: usize, term: usize| thread.registers[left.at((row * shape.groups + at) * group + term)];
            let of_right =
                |at: usize, term: usize| thread.registers[right.at((at * shape.columns + column) * group + term)];
            tiles::multiply(kind, shape.groups, thread.registers[sums.at(lane)], of_left, of_right)
        });
    }

    fn load(&mut self, address: &Address, to: Slot, world: &mut World<'_>) -> Result<(), String> {
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

    fn store(&mut self, address: &Address, value: Slot, world: &mut World<'_>) -> Result<(), String> {
        for lane in 0..address.lanes {
            if let Some(element) = self.element(address, lane, world)? {
                self.write(address.target, element, self.registers[value.at(lane)], world)?;
            }
        }
        Ok(())
    }

    /// Loads what is there, and stores the value, or both combined.
    fn exchange(
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
fn name_of(target: Target, list: &List) -> String {
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
