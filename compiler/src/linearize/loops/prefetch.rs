//! Innermost loops of CPUs that walk memory in long steps ask for lines some iterations before they load them.
//!
//! ```text
//! r0 in 0..477                               r0 in 0..477
//!   v0 = load x[b + r0 * 1431]          =>     prefetch x[b + r0 * 1431], 91584             16 iterations of 5,724 bytes
//!   v1 = load x[b + r0 * 1431 + 13]            prefetch x[b + r0 * 1431], 91639             the last byte of what is loaded
//!   ..                                         v0 = load x[b + r0 * 1431]
//!                                              ..
//! ```
//!
//! A processor looks ahead by itself where accesses follow each other. With longer steps each line is asked for when an instruction that needs it is decoded, and of a loop of some
//! forty instructions no more than eight iterations are decoded at once. Their lines arrive together, and then the arithmetic waits for the next.
//!
//! How far ahead: as long as a line takes from memory. What an iteration loads from one base is a few stretches of bytes, and of each the first byte, one of every line
//! and the last are asked for, since nobody knows where lines begin.
//!
//! Not of memory that the second cache holds, which is near enough, nor where loops are too short for what is asked for to be needed in them, nor where as many lines are decoded at
//! once as can be on their way.
//!
//! Always: the list's rules (`check`), and values: to ask for a line, also behind the end of memory, changes nothing. Tested below, and by all kernels on the CPU.

use rustc_hash::FxHashMap;

use crate::DType;
use crate::ir::{Arg, Op, UOp};
use crate::linearize::addresses::split_offset;
use crate::target::{CACHE_LINE_BYTES, Target};

/// Bytes that are skipped from one iteration to the next, at least: some lines. With steps of 400 to 1,600 bytes `x.T @ y` is 1.1 to 1.9 times as fast, with more up to 3.3 times (Zen 4).
const SKIPPED_MIN: i64 = 4 * CACHE_LINE_BYTES;
/// The longest way ahead that is part of an instruction: a number of 32 bits with a sign.
const AHEAD_BYTES_MAX: i64 = i32::MAX as i64;
/// Cycles in which a line comes from memory: some 120 ns.
const LATENCY_CYCLES: usize = 512;
/// Instructions that a processor does in a cycle, where half of them are multiplications and half loads.
const INSTRUCTIONS_PER_CYCLE: usize = 2;
/// Instructions that a processor decodes ahead of the one that waits: 320 of Zen 4, 512 of Golden Cove.
const WINDOW: f64 = 320.0;
/// Lines among these that are as many as can be on their way at once: who decodes more of them, as sums of columns do, gains nothing by asking earlier. A sum of columns of 22 instructions for 11 lines,
/// 160 in the window, takes 1.2 times as long with them.
const LINES_MAX: f64 = 32.0;
/// Iterations ahead, least and most: more lines than these would leave the nearest cache before they are needed.
const AHEAD: [usize; 2] = [4, 32];
/// Iterations of a loop, for each that is asked for ahead: the first ones of a loop come late.
const TURNS_PER_AHEAD: i64 = 2;

/// The list with what its loops ask for ahead.
pub fn prefetch(list: Vec<UOp>, target: &Target) -> Vec<UOp> {
    let mut before: FxHashMap<usize, Vec<UOp>> = FxHashMap::default();
    let mut positions: FxHashMap<&UOp, usize> = FxHashMap::default();
    let mut begin = None;
    for (at, node) in list.iter().enumerate() {
        match node.op() {
            Op::Range => begin = Some(at),
            Op::EndRange => {
                if let Some(begin) = begin.take() {
                    Body { list: &list, begin, end: at, positions: &positions, target }.add_to(&mut before);
                }
            }
            _ => {}
        }
        positions.insert(node, at);
    }
    if before.is_empty() {
        return list;
    }
    let mut written = Vec::with_capacity(list.len() + before.len() * 2);
    for (at, node) in list.iter().enumerate() {
        written.extend(before.remove(&at).into_iter().flatten());
        written.push(node.clone());
    }
    written
}

/// The body of an innermost loop: what stands between its range and its end.
struct Body<'l> {
    list: &'l [UOp],
    begin: usize,
    end: usize,
    /// Where ops stand.
    positions: &'l FxHashMap<&'l UOp, usize>,
    target: &'l Target,
}

/// Loads whose offsets differ by constants.
struct Group<'l> {
    /// The first of them, where it stands, and the constant part of its offset in bytes.
    first: &'l UOp,
    at: usize,
    origin: i64,
    /// Bytes from one iteration to the next.
    step: i64,
    /// The bytes that each loads, from the base on.
    loaded: Vec<(i64, i64)>,
}

impl Group<'_> {
    /// Whether lines lie between what an iteration loads and what the next one does.
    fn skips_lines(&self) -> bool {
        let loaded: i64 = stretches(&self.loaded).iter().map(|(begin, end)| end - begin).sum();
        self.step.abs() - loaded >= SKIPPED_MIN
    }

    /// How many lines an iteration loads, on average over where lines begin.
    fn lines(&self) -> f64 {
        let of_stretch = |(begin, end): &(i64, i64)| (end - begin) as f64 / CACHE_LINE_BYTES as f64 + 1.0;
        stretches(&self.loaded).iter().map(of_stretch).sum()
    }
}

impl<'l> Body<'l> {
    /// Adds what is asked for, by where it is to stand.
    fn add_to(&self, before: &mut FxHashMap<usize, Vec<UOp>>) {
        let range = &self.list[self.begin];
        let is_loop = range.as_range().is_some_and(|arg| !arg.kind.is_thread_index());
        let turns = range.src()[0].max_value();
        let instructions = self.instructions();
        let ahead = iterations_ahead(instructions);
        if !is_loop || turns < TURNS_PER_AHEAD * ahead {
            return;
        }
        let groups: Vec<Group<'_>> = self.groups().into_iter().filter(Group::skips_lines).collect();
        let lines: f64 = groups.iter().map(Group::lines).sum();
        if lines * WINDOW / instructions as f64 > LINES_MAX {
            return;
        }
        for group in groups {
            let Some(way) = group.step.checked_mul(ahead).filter(|way| way.abs() <= AHEAD_BYTES_MAX / 2) else {
                continue;
            };
            let asked = lines_of(&group.loaded).into_iter().map(|line| line - group.origin + way);
            let index = &group.first.src()[0];
            let ask = |bytes: i64| UOp::new(Op::Prefetch, DType::VOID, vec![index.clone()], Arg::Number(bytes));
            before.entry(group.at).or_default().extend(asked.map(ask));
        }
    }

    /// Instructions of an iteration that take part of a cycle.
    fn instructions(&self) -> usize {
        let counts = |node: &&UOp| {
            let is_free =
                matches!(node.op(), Op::Const | Op::Index | Op::Update | Op::Splat | Op::Lane | Op::Accumulator);
            !is_free && !(node.dtype().is_integer() && node.dtype().lanes() == 1 && node.op() != Op::Load)
        };
        self.list[self.begin + 1..self.end].iter().filter(counts).count().max(1)
    }

    /// Loads that walk far memory in long steps, those with one base together, in the order of the list.
    fn groups(&self) -> Vec<Group<'l>> {
        let mut groups: Vec<Group<'l>> = Vec::new();
        let mut numbers: FxHashMap<(&UOp, Option<&UOp>), usize> = FxHashMap::default();
        let mut known: FxHashMap<&UOp, Option<i64>> = FxHashMap::default();
        for (at, load) in self.list.iter().enumerate().take(self.end).skip(self.begin + 1) {
            if load.op() != Op::Load || !self.is_far(&load.src()[0]) {
                continue;
            }
            let (buffer, offset) = (&load.src()[0].src()[0], &load.src()[0].src()[1]);
            let width = load.dtype().element().bytes() as i64;
            let bytes = width * load.dtype().lanes() as i64;
            let (base, constant) = split_offset(offset);
            let Some(step) = self.step_of(offset, &mut known) else { continue };
            let step = step.saturating_mul(width);
            let number = *numbers.entry((buffer, base)).or_insert_with(|| {
                groups.push(Group { first: load, at, origin: constant * width, step, loaded: Vec::new() });
                groups.len() - 1
            });
            groups[number].loaded.push((constant * width, constant * width + bytes));
        }
        groups
    }

    /// Whether an index is of memory that the second cache does not hold, and names consecutive elements.
    fn is_far(&self, index: &UOp) -> bool {
        let (buffer, offset) = (&index.src()[0], &index.src()[1]);
        let bytes = match buffer.arg() {
            Arg::Param(param) => param.len * buffer.dtype().element().bytes() as u64,
            _ => 0,
        };
        offset.dtype().lanes() == 1 && bytes > self.target.cache_l2_bytes
    }

    /// What an integer grows by from one iteration to the next, if that is always the same.
    fn step_of(&self, node: &'l UOp, known: &mut FxHashMap<&'l UOp, Option<i64>>) -> Option<i64> {
        if *node == self.list[self.begin] {
            return Some(1);
        }
        // What stands before the loop stays as it is.
        if self.positions.get(node).is_some_and(|at| *at < self.begin) {
            return Some(0);
        }
        if let Some(step) = known.get(node) {
            return *step;
        }
        let mut steps = node.src().iter().map(|operand| self.step_of(operand, known));
        let step = match (node.op(), node.src()) {
            (Op::Add, [_, _]) => steps.next().flatten().zip(steps.next().flatten()).and_then(|(a, b)| a.checked_add(b)),
            (Op::Mul, [_, factor]) if factor.as_int().is_some() => {
                steps.next().flatten().zip(factor.as_int()).and_then(|(step, factor)| step.checked_mul(factor))
            }
            (Op::Cast, [_]) => steps.next().flatten(),
            _ => steps.all(|step| step == Some(0)).then_some(0),
        };
        known.insert(node, step);
        step
    }
}

/// Bytes of the widest number: one lies in one line.
const NUMBER_MAX: i64 = 8;

/// How many iterations of so many instructions pass while a line comes from memory.
fn iterations_ahead(instructions: usize) -> i64 {
    let cycles = (instructions / INSTRUCTIONS_PER_CYCLE).max(1);
    (LATENCY_CYCLES / cycles).clamp(AHEAD[0], AHEAD[1]) as i64
}

/// Bytes that lie in order, with gaps of less than a line.
fn stretches(loaded: &[(i64, i64)]) -> Vec<(i64, i64)> {
    let mut sorted = loaded.to_vec();
    sorted.sort_unstable();
    let mut stretches: Vec<(i64, i64)> = Vec::new();
    for (begin, end) in sorted {
        match stretches.last_mut() {
            Some((_, last)) if begin - *last < CACHE_LINE_BYTES => *last = end.max(*last),
            _ => stretches.push((begin, end)),
        }
    }
    stretches
}

/// Bytes to ask for so that all lines of some stretches are there, wherever lines begin: of each stretch the first, one a line further on, and the last.
fn lines_of(loaded: &[(i64, i64)]) -> Vec<i64> {
    let of_stretch = |(begin, end): (i64, i64)| {
        let lines = (begin..end).step_by(CACHE_LINE_BYTES as usize);
        let is_short = end - begin <= NUMBER_MAX;
        lines.chain((!is_short).then_some(end - 1))
    };
    stretches(loaded).into_iter().flat_map(of_stretch).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::text::parse;
    use crate::pipeline::{LowerOptions, lower_kernel};
    use crate::watch::Silent;

    /// What the product of the transpose of an array with another asks for.
    fn asked(rows: i64, columns: i64) -> Vec<i64> {
        let text = format!(
            "graph %g(z: f32[{columns}, 32], x: f32[{rows}, {columns}], y: f32[{rows}, 32]) {{
  t = permute x, (1, 0)
  a = reshape t, [{columns}, 1, {rows}]
  e = expand a, [{columns}, 32, {rows}]
  u = permute y, (1, 0)
  b = reshape u, [1, 32, {rows}]
  f = expand b, [{columns}, 32, {rows}]
  m = mul e, f
  s = reduce m, add (2)
  w = reshape s, [{columns}, 32]
  done = store z, w
  k = sink done
  return k
}}"
        );
        asked_in(&text)
    }

    fn asked_in(text: &str) -> Vec<i64> {
        let ast = parse(text).expect("a graph").roots[0].clone();
        let target = Target::test_avx512();
        let linear = lower_kernel(&ast, &target, &LowerOptions::by_hand_unless(false), &mut Silent).expect("a list");
        let bytes = |node: &UOp| match (node.op(), node.arg()) {
            (Op::Prefetch, Arg::Number(bytes)) => Some(*bytes),
            _ => None,
        };
        linear.ops.iter().filter_map(bytes).collect()
    }

    #[test]
    fn columns_of_far_memory_are_asked_for_ahead() {
        let ahead = asked(1000, 2000);
        // The first byte and the last of the rows of a tile, some iterations of 8,000 bytes ahead.
        assert!(!ahead.is_empty() && ahead.len().is_multiple_of(2), "{ahead:?}");
        for pair in ahead.chunks(2) {
            let turns = pair[0] / 8000;
            assert!(pair[0] % 8000 == 0 && (4..=32).contains(&turns), "{ahead:?}");
            assert!((15..=63).contains(&(pair[1] - pair[0])), "{ahead:?}");
        }
        // Sums of columns load many lines at once.
        let columns = "graph %s(z: f32[3000], x: f32[5000, 3000]) {\n  y = reduce x, add (0)\n  done = store z, y\n  k = sink done\n  return k\n}";
        assert_eq!(asked_in(columns), []);
        // It lies near enough, follows itself, or the loop is over before it is needed.
        assert_eq!([asked(100, 200), asked(20_000, 32), asked(8, 200_000)], [[]; 3]);
    }

    #[test]
    fn all_lines_of_a_stretch_are_asked_for() {
        assert_eq!(lines_of(&[(0, 4)]), [0]);
        assert_eq!(lines_of(&[(52, 56), (0, 4)]), [0, 55]);
        assert_eq!(lines_of(&[(0, 64), (64, 128)]), [0, 64, 127]);
        assert_eq!(lines_of(&[(-8, 0), (4096, 4100)]), [-8, 4096]);
    }
}
