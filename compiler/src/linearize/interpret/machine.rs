//! Runs a prepared list: shares of the parallel loop, blocks of the grid, and the threads of a block, which wait for each other.
//!
//! Between two ops at which they wait, threads run one after another, in an order that the seed gives: what depends on it is a race, which the
//! memory sees. Where some threads wait for others that do not come, the list is wrong.

use std::ops::Range;

use super::memory::{Memory, SharedMemory, Usage};
use super::steps::{Action, Address, List, Slot, Step};
use super::thread::{State, Thread, World};
use crate::DType;
use crate::dtype::Scalar;
use crate::ir::{MemorySpace, ScalarFunction, fragments};
use crate::linearize::Linear;

/// The op that is wrong, where it was, and what is wrong.
pub(super) type Wrong = (usize, String, String);

/// The most threads that a block may have: a bound on what a wrong list can ask for.
const THREADS_MAX: u64 = 1 << 12;

/// Runs a list for all shares.
pub(super) fn run(
    linear: &Linear,
    list: &List,
    parameters: &mut [Memory],
    variables: &[i64],
    shares: &[Range<i64>],
    seed: u64,
) -> Result<(), Wrong> {
    if let Err(message) = check_given(linear, parameters, variables) {
        return Err((0, String::new(), message));
    }
    let launch = linear.launch();
    if launch.threads() > THREADS_MAX {
        return Err((0, String::new(), format!("has blocks of {} threads", launch.threads())));
    }
    let world = World {
        linear,
        list,
        launch,
        variables,
        usage: parameters.iter().map(|memory| Usage::new(memory.len())).collect(),
        parameters,
        share: 0..0,
        block: [0; 3],
        shared: Vec::new(),
        met: 0,
    };
    let mut machine = Machine { world, users: 0, random: seed };
    for share in shares {
        machine.world.share = share.clone();
        machine.run_grid()?;
    }
    Ok(())
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

struct Machine<'l> {
    world: World<'l>,
    /// Threads that have run.
    users: u32,
    random: u64,
}

/// Gives each lane what the values of all come to.
fn combine_group(group: &mut [Thread], from: Slot, combine: &ScalarFunction, to: Slot) {
    for part in 0..to.lanes {
        let mut values: Vec<Scalar> = group.iter().map(|thread| thread.get(from, part)).collect();
        let mut distance = values.len() / 2;
        while distance > 0 {
            let exchanged = (0..values.len()).map(|lane| {
                let lower = lane & !distance;
                combine(&[values[lower], values[lower | distance]])
            });
            values = exchanged.collect();
            distance /= 2;
        }
        group.iter_mut().zip(values).for_each(|(thread, value)| thread.set(to, part, value));
    }
}

/// Loads matrices of 8 by 8 elements, each of which gives every lane a pair.
fn load_matrices(
    group: &mut [Thread],
    address: &Address,
    is_turned: bool,
    to: Slot,
    world: &mut World<'_>,
) -> Result<(), Wrong> {
    let side = fragments::SIDE as usize;
    for matrix in 0..to.lanes / 2 {
        let mut rows: Vec<Vec<Scalar>> = Vec::new();
        for thread in &mut group[matrix * side..][..side] {
            let row = (0..side).map(|at| thread.read_one(address, at, world)).collect::<Result<_, String>>();
            rows.push(row.map_err(|message| (thread.at, thread.iteration_text(world), message))?);
        }
        for (lane, thread) in group.iter_mut().enumerate() {
            for part in 0..2 {
                let (across, along) = (lane / 4, lane % 4 * 2 + part);
                let element = if is_turned { rows[along][across] } else { rows[across][along] };
                thread.set(to, 2 * matrix + part, element);
            }
        }
    }
    Ok(())
}

/// Multiplies matrices of which each lane holds some elements. Products of half floats are exact in `f64`, in which they are added up; the sum is rounded once.
fn multiply(group: &mut [Thread], [left, right, sums]: [Slot; 3], to: Slot) {
    let mut factors = [[[0.0; fragments::TERMS as usize]; fragments::ROWS as usize]; 2];
    for (lane, thread) in group.iter().enumerate() {
        let (group, position) = (lane as i64 / 4, lane as i64 % 4);
        for element in 0..fragments::LEFT {
            let [row, term] = fragments::left(element);
            factors[0][(group + row) as usize][(2 * position + term) as usize] = thread.get(left, element).to_f64();
        }
        for element in 0..fragments::RIGHT {
            let [term, column] = fragments::right(element);
            factors[1][(group + column) as usize][(2 * position + term) as usize] = thread.get(right, element).to_f64();
        }
    }
    for (lane, thread) in group.iter_mut().enumerate() {
        let (group, position) = (lane as i64 / 4, lane as i64 % 4);
        for element in 0..fragments::SUMS {
            let [row, column] = fragments::sum(element);
            let (row, column) = (&factors[0][(group + row) as usize], &factors[1][(2 * position + column) as usize]);
            let before = thread.get(sums, element).to_f64();
            let sum = row.iter().zip(column).fold(before, |sum, (a, b)| sum + a * b);
            thread.set(to, element, Scalar::from_f64(sum, DType::F32));
        }
    }
}

impl Machine<'_> {
    /// All blocks of the grid, one after another: they share nothing but parameters.
    fn run_grid(&mut self) -> Result<(), Wrong> {
        let [x, y, z] = self.world.launch.grid.map(|len| len as i64);
        for number in 0..x.saturating_mul(y).saturating_mul(z) {
            self.world.block = [number % x, number / x % y, number / x / y];
            self.run_block()?;
        }
        Ok(())
    }

    fn run_block(&mut self) -> Result<(), Wrong> {
        let World { list, launch, .. } = self.world;
        self.world.met = 0;
        let shared = list.scratch.iter().map(|arg| if arg.space == MemorySpace::Shared { arg.len } else { 0 });
        self.world.shared = shared.map(SharedMemory::new).collect();
        let first = self.users + 1;
        let mut threads: Vec<Thread> = (0..launch.threads() as u32)
            .map(|number| Thread::new(number, first.saturating_add(number), list, &launch))
            .collect();
        self.users = self.users.saturating_add(threads.len() as u32);
        let mut order: Vec<usize> = (0..threads.len()).collect();
        loop {
            self.shuffle_order(&mut order);
            for &number in &order {
                let thread = &mut threads[number];
                let result = thread.run(&mut self.world);
                result.map_err(|message| (thread.at, thread.iteration_text(&self.world), message))?;
            }
            if threads.iter().all(|thread| thread.state == State::Ended) {
                return Ok(());
            }
            if !self.combine_lanes(&mut threads)? {
                self.meet(&mut threads)?;
            }
        }
    }

    /// Puts threads into another order.
    fn shuffle_order(&mut self, order: &mut [usize]) {
        for last in (1..order.len()).rev() {
            // Knuth's multiplier: an order for each seed is all that is asked.
            self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            order.swap(last, (self.random >> 33) as usize % (last + 1));
        }
    }

    /// Lets groups of lanes go on that have all come to one op of one iteration: each lane has the combined value. Whether there was one.
    fn combine_lanes(&mut self, threads: &mut [Thread]) -> Result<bool, Wrong> {
        let mut went_on = false;
        let mut first = 0;
        while first < threads.len() {
            let group = self.group_at(threads, first);
            first = group.end;
            let group = &mut threads[group];
            let point = (group[0].at, group[0].iteration());
            let is_there = |thread: &Thread| {
                thread.state == State::AtShuffle && thread.at == point.0 && thread.iteration() == point.1
            };
            let is_part = self.is_of_matrices(&group[0]) && group.len() as i64 != fragments::LANES;
            if is_part || !group.iter().all(is_there) {
                continue;
            }
            let list = self.world.list;
            let Step { action, to } = &list.steps[point.0];
            match action {
                Action::LoadMatrices { address, is_turned } => {
                    load_matrices(group, address, *is_turned, *to, &mut self.world)?;
                }
                Action::Shuffle { from, combine } => combine_group(group, *from, combine, *to),
                Action::Matrices { left, right, sums } => multiply(group, [*left, *right, *sums], *to),
                _ => continue,
            }
            for thread in group {
                thread.at += 1;
                thread.state = State::Runs;
            }
            went_on = true;
        }
        Ok(went_on)
    }

    /// Those that a thread waits for, from it on: the lanes of its group, or at an op on matrices, of all groups of a warp.
    fn group_at(&self, threads: &[Thread], first: usize) -> Range<usize> {
        let warp = fragments::LANES as usize;
        let is_of_warp = self.is_of_matrices(&threads[first]) && first.is_multiple_of(warp);
        let len = if is_of_warp { warp } else { self.world.launch.lanes as usize };
        first..(first + len).min(threads.len())
    }

    /// Whether a thread is at an op on matrices.
    fn is_of_matrices(&self, thread: &Thread) -> bool {
        let step = self.world.list.steps.get(thread.at);
        step.is_some_and(|step| matches!(step.action, Action::LoadMatrices { .. } | Action::Matrices { .. }))
    }

    /// Lets all threads go on that wait at one barrier.
    fn meet(&mut self, threads: &mut [Thread]) -> Result<(), Wrong> {
        let Some(first) = threads.iter().position(|thread| thread.state != State::Ended) else { return Ok(()) };
        let point = (threads[first].at, threads[first].iteration());
        let is_there =
            |thread: &Thread| thread.state == State::AtBarrier && thread.at == point.0 && thread.iteration() == point.1;
        if !threads.iter().all(is_there) {
            return Err(self.divergence(threads, first));
        }
        self.world.met += 1;
        for thread in threads {
            thread.at += 1;
            thread.state = State::Runs;
        }
        Ok(())
    }

    /// A thread waits, and another one that it waits for does not come.
    fn divergence(&self, threads: &[Thread], first: usize) -> Wrong {
        // Lanes wait for those of their group; what holds them up is named first.
        let waiting = threads.iter().position(|thread| thread.state == State::AtShuffle).unwrap_or(first);
        let waits = &threads[waiting];
        let group = |lanes: usize| self.group_at(threads, waiting / lanes * lanes);
        let others = match waits.state {
            State::AtShuffle => &threads[group(self.world.launch.lanes as usize)],
            State::Runs | State::AtBarrier | State::Ended => threads,
        };
        let is_elsewhere = |other: &&Thread| {
            (other.state, other.at) != (waits.state, waits.at) || other.iteration() != waits.iteration()
        };
        let other = others.iter().find(is_elsewhere);
        let whereabouts = other.map_or("others do not come".to_string(), |other| match other.state {
            State::Ended => format!("thread {} has ended", other.number),
            State::Runs | State::AtBarrier | State::AtShuffle => {
                format!("thread {} waits at op {}{}", other.number, other.at, other.iteration_text(&self.world))
            }
        });
        (
            waits.at,
            waits.iteration_text(&self.world),
            format!("is not reached by all threads that it waits for: {whereabouts}"),
        )
    }
}
