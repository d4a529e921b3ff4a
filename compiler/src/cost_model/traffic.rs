//! How many bytes come from beyond each cache.
//!
//! Of each load and store of memory it is known how far its address moves with each loop around it. So it is known how many lines it touches while some of
//! the inner loops run. Where everything that one turn of a loop touches fits in a cache, a line is brought once for that turn; and what does not move with the
//! loop, or moves within lines, is still there at the next turn. Further out it is brought again.
//!
//! Caches are taken to keep what was used last, whatever its address. Scratch memory stays in the first cache.

use rustc_hash::FxHashMap;

use crate::ir::{Arg, Op, UOp};
use crate::linearize::Linear;

/// Bytes of a line of a cache.
const LINE: f64 = 64.0;

/// A load or store, or several that lie side by side.
struct MemoryAccess {
    /// The memory, by the number of its parameter in the list.
    memory: usize,
    /// Bytes from where the address would be in the first turn of all loops, were nothing added: copies of a tile differ in this alone.
    offset: f64,
    /// The loops around it, outermost first, by their position in the list.
    loops: Vec<usize>,
    /// Bytes that the address moves in a turn of each of these; none where that is not a constant.
    steps: Vec<Option<f64>>,
    /// Bytes in a row that it touches at once.
    width: f64,
    /// Times that it touches so many at once: lanes of a gather.
    parts: f64,
    /// Bytes of all that it may touch.
    all: f64,
}

/// For each cache, the bytes that come from beyond it while a kernel runs.
pub(super) fn bytes_from_beyond<const N: usize>(linear: &Linear, caches: [u64; N]) -> [f64; N] {
    let (accesses, turns) = accesses_of(linear);
    // What is touched in all turns of a loop.
    let mut touched: FxHashMap<usize, f64> = FxHashMap::default();
    for access in &accesses {
        for (depth, at) in access.loops.iter().enumerate() {
            *touched.entry(*at).or_default() += footprint(access, depth, &turns);
        }
    }
    caches.map(|bytes| accesses.iter().map(|access| brought(access, bytes as f64, &turns, &touched)).sum())
}

/// Bytes of a cache's lines that an access brings there.
fn brought(access: &MemoryAccess, cache: f64, turns: &FxHashMap<usize, f64>, touched: &FxHashMap<usize, f64>) -> f64 {
    let depth = access.loops.len();
    let fits = (0..depth).find(|&depth| touched[&access.loops[depth]] <= cache).unwrap_or(depth);
    // What one turn of the next loop further out has touched is there at its next turn.
    let inner = fits.saturating_sub(1);
    let outside: f64 = access.loops[..inner].iter().map(|at| turns[at]).product();
    outside * footprint(access, inner, turns)
}

/// Bytes of lines that an access touches while its loops from a depth on run.
fn footprint(access: &MemoryAccess, depth: usize, turns: &FxHashMap<usize, f64>) -> f64 {
    let mut moves: Vec<(f64, f64)> = Vec::new();
    let (mut pieces, mut width) = (access.parts, access.width);
    for (at, step) in access.loops[depth..].iter().zip(&access.steps[depth..]) {
        match step {
            Some(step) if *step != 0.0 => moves.push((step.abs(), turns[at])),
            Some(_) => {}
            None => pieces *= turns[at],
        }
    }
    moves.sort_by(|a, b| a.0.total_cmp(&b.0));
    for (step, turns) in moves {
        if step <= width.max(LINE) && pieces == access.parts {
            width += step * (turns - 1.0).max(0.0);
        } else {
            pieces *= turns;
        }
    }
    let lines = pieces * (width / LINE).ceil().max(1.0);
    (lines * LINE).min((access.all / LINE).ceil() * LINE)
}

fn accesses_of(linear: &Linear) -> (Vec<MemoryAccess>, FxHashMap<usize, f64>) {
    let mut accesses: Vec<MemoryAccess> = Vec::new();
    let mut turns: FxHashMap<usize, f64> = FxHashMap::default();
    let mut open: Vec<(usize, &UOp)> = Vec::new();
    let mut steps = Steps { known: FxHashMap::default() };
    let mut seen: rustc_hash::FxHashSet<&UOp> = rustc_hash::FxHashSet::default();
    for (position, node) in linear.ops.iter().enumerate() {
        match node.op() {
            Op::Range => {
                turns.insert(position, node.src()[0].max_value().max(0) as f64);
                open.push((position, node));
            }
            Op::EndRange => drop(open.pop()),
            // The same element loaded and stored is touched once.
            Op::Load | Op::Store if seen.insert(&node.src()[0]) => accesses.extend(access_of(node, &open, &mut steps)),
            _ => {}
        }
    }
    (side_by_side(accesses), turns)
}

/// Accesses that differ in where they begin alone, and touch lines next to each other, as one.
fn side_by_side(mut accesses: Vec<MemoryAccess>) -> Vec<MemoryAccess> {
    accesses.sort_by(|a, b| a.offset.total_cmp(&b.offset));
    let mut merged: Vec<MemoryAccess> = Vec::new();
    for access in accesses {
        let is_alike = |other: &&mut MemoryAccess| {
            other.memory == access.memory && other.loops == access.loops && other.steps == access.steps
        };
        let reaches = |other: &&mut MemoryAccess| access.offset <= other.offset + other.width + LINE;
        let is_plain = |other: &&mut MemoryAccess| other.parts == 1.0 && access.parts == 1.0;
        match merged.iter_mut().find(|other| is_alike(other) && reaches(other) && is_plain(other)) {
            Some(other) => other.width = other.width.max(access.offset + access.width - other.offset),
            None => merged.push(access),
        }
    }
    merged
}

fn access_of<'a>(node: &'a UOp, open: &[(usize, &'a UOp)], steps: &mut Steps<'a>) -> Option<MemoryAccess> {
    let index = &node.src()[0];
    let (memory, offset) = (&index.src()[0], &index.src()[1]);
    if memory.op() != Op::Param {
        return None;
    }
    let Arg::Param(parameter) = memory.arg() else { return None };
    let element = index.dtype().element().bytes() as f64;
    let lanes = index.dtype().lanes() as f64;
    let moved = steps.of(offset);
    let is_gather = offset.dtype().lanes() > 1;
    Some(MemoryAccess {
        memory: parameter.slot as usize,
        offset: moved.number * element,
        loops: open.iter().map(|(position, _)| *position).collect(),
        steps: open.iter().map(|(_, range)| moved.step(range).map(|step| step * element)).collect(),
        width: if is_gather { element } else { element * lanes },
        parts: if is_gather { lanes } else { 1.0 },
        all: memory.shape().numel().max_value() as f64 * element,
    })
}

/// How a number depends on loop variables.
#[derive(Clone, Default)]
pub(super) struct Moved<'a> {
    /// What is added whatever they are.
    number: f64,
    constant: FxHashMap<&'a UOp, f64>,
    /// Those on which it depends in another way than by a constant step.
    otherwise: Vec<&'a UOp>,
}

impl Moved<'_> {
    /// What it is in the first turn of all loops.
    pub(super) fn first(&self) -> f64 {
        self.number
    }

    /// How far it moves with a range; none where that is not a constant.
    pub(super) fn step(&self, range: &UOp) -> Option<f64> {
        if self.otherwise.contains(&range) { None } else { Some(self.constant.get(range).copied().unwrap_or(0.0)) }
    }
}

/// What a number is made of: of one that was loaded, where that was.
fn operands(node: &UOp) -> &[UOp] {
    match node.op() {
        Op::Range => &[],
        Op::Load => &node.src()[0].src()[1..2],
        _ => node.src(),
    }
}

/// How numbers depend on loop variables, each looked at once.
#[derive(Default)]
pub(super) struct Steps<'a> {
    known: FxHashMap<&'a UOp, Moved<'a>>,
}

impl<'a> Steps<'a> {
    /// Operands stand before what they are operands of, in a list and here.
    pub(super) fn of(&mut self, node: &'a UOp) -> Moved<'a> {
        let mut pending = vec![node];
        while let Some(&node) = pending.last() {
            if self.known.contains_key(node) {
                pending.pop();
                continue;
            }
            let missing: Vec<&UOp> =
                operands(node).iter().filter(|operand| !self.known.contains_key(operand)).collect();
            if missing.is_empty() {
                let moved = self.made(node);
                self.known.insert(node, moved);
                pending.pop();
            } else {
                pending.extend(missing);
            }
        }
        self.known[node].clone()
    }

    fn made(&self, node: &'a UOp) -> Moved<'a> {
        let scaled = |operand: &UOp, by: f64| {
            let mut moved = self.known[operand].clone();
            // The order of a map's values changes nothing: each is scaled by itself.
            #[allow(clippy::iter_over_hash_type, reason = "each value is scaled by itself")]
            moved.constant.values_mut().for_each(|step| *step *= by);
            moved.number *= by;
            moved
        };
        let number = |operand: &UOp| operand.as_int().map(|value| value as f64);
        match (node.op(), node.src()) {
            (Op::Range, _) => Moved { constant: [(node, 1.0)].into_iter().collect(), ..Moved::default() },
            (Op::Const, _) => Moved { number: number(node).unwrap_or(0.0), ..Moved::default() },
            (Op::Add, [a, b]) => self.sum(a, scaled(b, 1.0)),
            (Op::Sub, [a, b]) => self.sum(a, scaled(b, -1.0)),
            (Op::Neg, [a]) => scaled(a, -1.0),
            (Op::Cast | Op::Splat | Op::Ramp, [a]) => scaled(a, 1.0),
            (Op::Mul, [a, b]) => match (number(a), number(b)) {
                (_, Some(by)) => scaled(a, by),
                (Some(by), _) => scaled(b, by),
                _ => self.otherwise(node),
            },
            (Op::Shl, [a, b]) => match number(b) {
                Some(bits) => scaled(a, bits.exp2()),
                None => self.otherwise(node),
            },
            _ => self.otherwise(node),
        }
    }

    fn sum(&self, a: &UOp, mut b: Moved<'a>) -> Moved<'a> {
        let a = &self.known[a];
        #[allow(clippy::iter_over_hash_type, reason = "sums of whole numbers are exact in any order")]
        for (range, step) in &a.constant {
            *b.constant.entry(range).or_default() += step;
        }
        b.otherwise.extend(&a.otherwise);
        b.number += a.number;
        b
    }

    /// All that the operands depend on.
    fn otherwise(&self, node: &'a UOp) -> Moved<'a> {
        let mut moved = Moved::default();
        for operand in operands(node).iter().filter_map(|operand| self.known.get(operand)) {
            moved.otherwise.extend(operand.constant.keys().copied().chain(operand.otherwise.iter().copied()));
        }
        moved
    }
}
