//! What micro-ops take from a processor: each as often as its loops run it, and what chains of updates wait.
//!
//! A nominal core issues two vector ops, two loads and one store in a cycle; a gather takes a cycle for each lane, and a division some. In a
//! loop that updates registers an iteration lasts at least as long as one update. Registers that there are not enough of are stored and loaded again.
//! Numbers of cycles are those of current x86 cores (Agner Fog, "Instruction tables"; uops.info), rounded.

use crate::ir::{AxisKind, Op, UOp};
use crate::linearize::Linear;
use crate::target::Target;

/// Cycles of a nominal core in a nanosecond.
const CYCLES_PER_NS: f64 = 3.0;
/// Cycles of one turn of a loop: counting, comparing, jumping.
const TURN: f64 = 1.0;
/// Cycles from one update of a register to the next that needs it: those of an add or a fused multiply-add.
const UPDATE_LATENCY: f64 = 4.0;
/// Cycles of storing and loading a register that is not there.
const SPILL: f64 = 2.0;
/// Cycles of a product of tiles; the same as of two loads of tiles, which are 16 vectors each ("Intel 64 and IA-32 Architectures Optimization Reference Manual", chapter "Intel AMX").
const TILE: f64 = 16.0;
/// Registers that addresses of vectors and values on their way take.
const REGISTERS_BUSY: f64 = 3.0;

/// An open loop.
struct Loop {
    turns: f64,
    cycles: f64,
    /// Registers that it updates itself.
    updates: f64,
}

/// The time of a kernel's instructions, on all threads that share it out.
pub(super) fn nanoseconds(linear: &Linear, target: &Target) -> f64 {
    let mut open: Vec<Loop> = Vec::new();
    let mut done = 0.0;
    let registers = f64::from(target.vector_registers) - REGISTERS_BUSY;
    for node in &linear.ops {
        match node.op() {
            Op::Range => open.push(Loop { turns: turns(node, target), cycles: 0.0, updates: 0.0 }),
            Op::EndRange => {
                let Some(ended) = open.pop() else { continue };
                let waits = if ended.updates > 0.0 { UPDATE_LATENCY } else { 0.0 };
                let spills = SPILL * (ended.updates - registers).max(0.0);
                let cycles = ended.turns * ((ended.cycles + spills).max(waits) + TURN);
                open.last_mut().map_or(&mut done, |outer| &mut outer.cycles).add(cycles);
            }
            op => {
                let cycles = cycles_of(node, target);
                let here = match open.last_mut() {
                    Some(inner) => {
                        inner.updates += if op == Op::Update { registers_of(&node.src()[1], target) } else { 0.0 };
                        &mut inner.cycles
                    }
                    None => &mut done,
                };
                here.add(cycles);
            }
        }
    }
    done / CYCLES_PER_NS
}

trait Add {
    fn add(&mut self, more: f64);
}

impl Add for f64 {
    fn add(&mut self, more: f64) {
        *self += more;
    }
}

/// How often one thread runs a loop: of one that is shared out, as often as the thread with the largest share.
fn turns(range: &UOp, target: &Target) -> f64 {
    let len = range.src()[0].max_value().max(0) as f64;
    match range.as_range().map(|range| range.kind) {
        Some(AxisKind::Parallel) => (len / f64::from(target.threads.max(1))).ceil(),
        _ => len,
    }
}

/// Vector registers that a value takes.
fn registers_of(node: &UOp, target: &Target) -> f64 {
    (node.dtype().bytes() as f64 / f64::from(target.vector_bytes)).ceil().max(1.0)
}

fn cycles_of(node: &UOp, target: &Target) -> f64 {
    let parts = registers_of(node, target);
    let lanes = f64::from(node.dtype().lanes() as u32);
    match node.op() {
        // They are names of what is there.
        Op::Const | Op::Param | Op::Scratch | Op::Variable | Op::Index | Op::Accumulator | Op::Update | Op::Final => {
            0.0
        }
        Op::Load => access(node, node.dtype().lanes(), parts, target),
        Op::Store => {
            let value = &node.src()[1];
            2.0 * access(node, value.dtype().lanes(), registers_of(value, target), target)
        }
        Op::Prefetch => 0.5,
        Op::MultiplyTiles => TILE,
        Op::HorizontalReduce => 3.0 * f64::from(node.src()[0].dtype().lanes() as u32).log2(),
        Op::Stack if is_shuffle(node) => parts,
        Op::Stack => lanes,
        Op::Lane => 1.0,
        Op::Div if node.dtype().is_float() => 5.0 * parts,
        Op::Sqrt => 6.0 * parts,
        // There are no vectors of integer divisions: each lane is divided on its own.
        Op::Div | Op::IDiv | Op::CDiv | Op::Mod | Op::CMod if !is_shift(node) => 12.0 * lanes,
        // Numbers of elements are added beside other work.
        _ if lanes == 1.0 && node.dtype().is_integer() => 0.25,
        _ => 0.5 * parts,
    }
}

/// Whether it is lanes of one vector in another order: the terms of a dot product that are the same for all lanes, say.
fn is_shuffle(stack: &UOp) -> bool {
    let vector = |lane: &UOp| (lane.op() == Op::Lane).then(|| lane.src()[0].clone());
    let first = stack.src().first().and_then(vector);
    first.is_some() && stack.src().iter().all(|lane| vector(lane) == first)
}

/// A load, or half of what a store takes.
fn access(node: &UOp, lanes: usize, parts: f64, target: &Target) -> f64 {
    let index = node.src()[0].src();
    let is_gather = index[1].dtype().lanes() > 1;
    let is_gated = index.len() > 2;
    match (is_gather, is_gated) {
        (true, _) => lanes as f64,
        // Without masks each lane has a branch of its own.
        (false, true) if lanes > 1 && !target.has_masked_memory => 2.0 * lanes as f64,
        (false, true) => parts,
        (false, false) => 0.5 * parts,
    }
}

/// Whether a division is by a power of two.
fn is_shift(node: &UOp) -> bool {
    node.src()[1].as_int().is_some_and(|by| by > 0 && (by as u64).is_power_of_two())
}
