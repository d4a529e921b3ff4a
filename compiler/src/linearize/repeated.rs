//! Bodies of innermost loops of GPUs are repeated, so that a turn has several iterations: they ask memory for several elements before they wait for the first, and count and
//! compare once for all of them.
//!
//! ```text
//! r2 in 0..12                          r2 in 0..3
//!   v0 = load p0[b + r2 * 64]            v0 = load p0[b + r2 * 256]
//!   a0 += v0                      =>     v1 = load p0[b + r2 * 256 + 64]
//!                                        v2, v3 = ...
//!                                        a0 += v0;  a0 += v1;  a0 += v2;  a0 += v3
//! ```
//!
//! Iterations stand beside each other op by op, but for what updates accumulators: that comes in the order in which the loop would do it, so values stay to the bit. Iterations that are left over come before the
//! loop. Addresses of further iterations are those of the first and a constant (`addresses`).
//!
//! Indices of threads are no loops: where a body has them, its ops are repeated inside.
//!
//! Nothing is done with a loop of variable length, or one that holds loops, places where threads meet, exchanges, or accumulators that begin there; nor where it stores to a memory that it loads.
//!
//! Always: the list's rules (`check`). Tested below, and by every kernel that runs on the emulator of GPUs.

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::smallvec;

use super::linearizer::without_unused;
use super::short_loops::folded;
use crate::DType;
use crate::dtype::Scalar;
use crate::ir::{Arg, AxisKind, Op, Sources, UOp};
use crate::program::Launch;

/// Bytes that a thread loads in a turn, at most.
const BYTES_MAX: usize = 128;
/// Registers of four bytes that a multiprocessor has, and that a thread may have ("Compute Capabilities" of the CUDA C++ Programming Guide, the same for 8.0, 9.0 and 10.0).
const REGISTERS: u64 = 1 << 16;
const REGISTERS_OF_THREAD: u64 = 255;
/// Registers that addresses, indices and values on their way take, about.
const REGISTERS_BUSY: u64 = 32;
/// Iterations of a turn that are tried.
const COPIES: [i64; 3] = [8, 4, 2];
/// Most ops that a body becomes; the same where iterations load what others do.
const OPS_MAX: usize = 384;
const OPS_SHARED_MAX: usize = 2048;

/// The list with repeated bodies.
pub fn repeat_bodies(list: Vec<UOp>) -> Vec<UOp> {
    let (mut list, mut repeated) = (list, FxHashSet::default());
    // Where a loop is gone, the one around it may be innermost.
    while repeat_innermost(&mut list, &mut repeated) {}
    list
}

/// Repeats innermost loops but those that were; whether one of them is gone.
fn repeat_innermost(list: &mut Vec<UOp>, repeated: &mut FxHashSet<u32>) -> bool {
    let mut plans: FxHashMap<usize, Plan> = FxHashMap::default();
    for end in (0..list.len()).filter(|at| list[*at].op() == Op::EndRange) {
        let id = list[end].src()[0].as_range().map(|arg| arg.id);
        if let Some((begin, plan)) = Plan::of(list, end).filter(|_| !id.is_some_and(|id| repeated.contains(&id))) {
            repeated.extend(id);
            plans.insert(begin, plan);
        }
    }
    if plans.is_empty() {
        return false;
    }
    let before = list.iter().filter(|node| node.op() == Op::EndRange).count();
    *list = with_plans(std::mem::take(list), &plans);
    list.iter().filter(|node| node.op() == Op::EndRange).count() < before
}

fn with_plans(list: Vec<UOp>, plans: &FxHashMap<usize, Plan>) -> Vec<UOp> {
    let mut writer = Writer {
        known: list.iter().cloned().collect(),
        now: FxHashMap::default(),
        constants: Vec::new(),
        written: Vec::new(),
        open: vec![FxHashSet::default()],
        registers: registers_left(&list),
    };
    let mut at = 0;
    while at < list.len() {
        if let Some(plan) = plans.get(&at)
            && plan.ways.iter().any(|copies| writer.repeat(&list[at..=plan.end], plan, *copies))
        {
            at = plan.end + 1;
            continue;
        }
        let node = writer.renewed(&list[at]);
        writer.push(node);
        at += 1;
    }
    let Writer { mut constants, written, .. } = writer;
    constants.extend(written);
    without_unused(constants)
}

/// How a loop is repeated.
struct Plan {
    /// Where it ends.
    end: usize,
    /// Iterations of a turn that are tried, one after the other.
    ways: Vec<i64>,
    /// What differs from iteration to iteration.
    varying: FxHashSet<UOp>,
    /// What is made of accumulators.
    accumulated: FxHashSet<UOp>,
    /// Whether the body has indices of threads.
    has_threads: bool,
    /// Whether its end is asked for.
    is_named: bool,
}

impl Plan {
    fn of(list: &[UOp], end: usize) -> Option<(usize, Plan)> {
        let range = &list[end].src()[0];
        let is_loop = range.as_range().is_some_and(|arg| matches!(arg.kind, AxisKind::Loop | AxisKind::Reduce));
        let turns = range.src()[0].as_int().filter(|turns| is_loop && *turns >= 2)?;
        let begin = list[..end].iter().rposition(|node| node == range)?;
        let body = &list[begin + 1..end];
        let mut varying: FxHashSet<UOp> = [range.clone()].into_iter().collect();
        let mut accumulated: FxHashSet<UOp> = FxHashSet::default();
        let mut has_threads = false;
        let mut stored: Vec<&UOp> = Vec::new();
        for node in body {
            let varies = node.src().iter().any(|operand| varying.contains(operand));
            let is_accumulated =
                node.src().iter().any(|operand| operand.op() == Op::Accumulator || accumulated.contains(operand));
            match node.op() {
                Op::Range if node.as_range().is_some_and(|arg| arg.kind.is_thread_index()) => has_threads = true,
                Op::EndRange => continue,
                Op::Range | Op::Exchange | Op::Barrier | Op::ShuffleReduce | Op::Final | Op::Previous => return None,
                Op::Accumulator | Op::LoadMatrices | Op::MultiplyMatrices => return None,
                Op::Store if node.src()[0].src()[0].op() == Op::Param && varies => stored.push(&node.src()[0].src()[0]),
                Op::Store => return None,
                Op::Update if !varies => return None,
                _ => {}
            }
            if is_accumulated && !varies {
                return None;
            }
            if varies {
                varying.insert(node.clone());
            }
            if is_accumulated {
                accumulated.insert(node.clone());
            }
        }
        let is_replaced = |node: &&UOp| node.op() == Op::Load && stored.contains(&&node.src()[0].src()[0]);
        if body.iter().any(|node| is_replaced(&node)) || has_threads && !accumulated.is_empty() {
            return None;
        }
        let ways: Vec<i64> = COPIES.iter().filter_map(|most| copies_of(turns, *most, !has_threads)).collect();
        let is_named = list[end + 1..].iter().any(|node| node.src().contains(&list[end]));
        Some((begin, Plan { end, ways, varying, accumulated, has_threads, is_named }))
    }
}

/// Bytes of a value, of all its lanes.
fn bytes_of(node: &UOp) -> usize {
    node.dtype().bytes() * node.dtype().lanes()
}

/// Registers of a thread that are left, where accumulators have theirs, and as many again what is added to them.
fn registers_left(list: &[UOp]) -> usize {
    let registers = |node: &UOp| bytes_of(node).div_ceil(4) as u64;
    let held: u64 = list.iter().filter(|node| node.op() == Op::Accumulator).map(registers).sum();
    let of_thread = (REGISTERS / Launch::of(list).threads().max(1)).min(REGISTERS_OF_THREAD);
    of_thread.saturating_sub(REGISTERS_BUSY + 2 * held) as usize
}

/// Iterations of a turn, of so many at most: one that divides the turns, unless some may be left over and it would be much less.
fn copies_of(turns: i64, most: i64, may_leave_rest: bool) -> Option<i64> {
    if turns <= most {
        return Some(turns);
    }
    let divisor = (2..=most).rev().find(|copies| turns % copies == 0);
    match divisor {
        Some(copies) if !may_leave_rest || 2 * copies >= most => Some(copies),
        _ if may_leave_rest && most >= 2 => Some(most),
        _ => divisor,
    }
}

/// Writes a list anew.
struct Writer {
    /// All ops of the list, and all that were written.
    known: FxHashSet<UOp>,
    /// What ops of the list are now.
    now: FxHashMap<UOp, UOp>,
    /// Constants that the list did not have.
    constants: Vec<UOp>,
    written: Vec<UOp>,
    /// What was written in each open loop.
    open: Vec<FxHashSet<UOp>>,
    /// Registers of a thread that nothing has in all of a loop.
    registers: usize,
}

impl Writer {
    fn push(&mut self, node: UOp) {
        match node.op() {
            Op::EndRange => drop(self.open.pop()),
            Op::Range => self.open.push(FxHashSet::default()),
            _ => {}
        }
        if let Some(innermost) = self.open.last_mut() {
            innermost.insert(node.clone());
        }
        self.written.push(node);
    }

    /// An op over what its operands are now.
    fn renewed(&mut self, node: &UOp) -> UOp {
        if !node.src().iter().any(|operand| self.now.contains_key(operand)) {
            return node.clone();
        }
        let src: Sources = node.src().iter().map(|operand| self.now.get(operand).unwrap_or(operand).clone()).collect();
        let new = node.with_src(src);
        self.now.insert(node.clone(), new.clone());
        self.known.insert(new.clone());
        new
    }

    /// Writes a loop, given from its beginning to its end; false, and nothing is written, if an op would stand in the list twice.
    fn repeat(&mut self, list: &[UOp], plan: &Plan, copies_of_turn: i64) -> bool {
        let (range, body) = (self.renewed(&list[0]), &list[1..list.len() - 1]);
        let turns = range.src()[0].as_int().unwrap_or(0);
        let rest_of_turns = turns % copies_of_turn;
        let int = |value: i64| UOp::int(value, range.dtype());
        let mut copies =
            Copies { writer: self, plan, constants: Vec::new(), ops: Vec::new(), fresh: FxHashSet::default() };
        if !plan.has_threads {
            body.iter().filter(|node| !plan.varying.contains(*node)).for_each(|node| copies.keep(node));
        }
        let rest: Vec<UOp> = (0..rest_of_turns).map(int).collect();
        if !(rest.is_empty() || copies.write(body, &list[0], &rest)) {
            return false;
        }
        let count = int((turns - rest_of_turns) / copies_of_turn);
        let is_gone = !plan.is_named && turns == copies_of_turn;
        let shorter = UOp::new(Op::Range, range.dtype(), smallvec![count.clone()], range.arg().clone());
        let ended = UOp::new(Op::EndRange, list[list.len() - 1].dtype(), smallvec![shorter.clone()], Arg::None);
        let numbers: Vec<UOp> = if turns == copies_of_turn {
            (0..turns).map(int).collect()
        } else {
            let scaled = folded(&UOp::binary(Op::Mul, &shorter, &int(copies_of_turn)));
            let first = folded(&UOp::binary(Op::Add, &scaled, &int(rest_of_turns)));
            (0..copies_of_turn).map(|copy| folded(&UOp::binary(Op::Add, &first, &int(copy)))).collect()
        };
        let begins = is_gone || copies.put(&count) && copies.put(&shorter);
        let of_turn = (copies_of_turn + rest_of_turns) as usize;
        let asked = body.iter().filter(|node| node.op() == Op::Load).count() * of_turn;
        if !begins || !copies.write(body, &list[0], &numbers) {
            return false;
        }
        let Copies { constants, mut ops, .. } = copies;
        let loads: Vec<&UOp> = ops.iter().filter(|node| node.op() == Op::Load).collect();
        let bytes = loads.iter().map(|load| bytes_of(load)).sum::<usize>() * copies_of_turn as usize / of_turn;
        let is_shared = 4 * loads.len() <= 3 * asked;
        // Each element is in a register, and as many have what is made of them; of elements that several iterations load, few are asked for at a time.
        let [ops_max, bytes_max] = match is_shared {
            true => [OPS_SHARED_MAX, self.registers * 4],
            false => [OPS_MAX, (self.registers * 2).min(BYTES_MAX)],
        };
        if ops.len() > ops_max || bytes > bytes_max {
            return false;
        }
        if !is_gone {
            ops.push(ended.clone());
        }
        for node in constants.iter().chain(&ops) {
            self.known.insert(node.clone());
        }
        self.constants.extend(constants);
        ops.into_iter().for_each(|node| self.push(node));
        self.now.insert(list[list.len() - 1].clone(), ended);
        true
    }
}

/// A loop as it is written.
struct Copies<'w> {
    writer: &'w mut Writer,
    plan: &'w Plan,
    constants: Vec<UOp>,
    ops: Vec<UOp>,
    /// What was written of it.
    fresh: FxHashSet<UOp>,
}

impl Copies<'_> {
    /// Puts an op behind what it is made of, unless it was written where it is seen from here; false if it stands elsewhere.
    fn put(&mut self, node: &UOp) -> bool {
        let is_open = || node.op() != Op::Update && self.writer.open.iter().any(|scope| scope.contains(node));
        if self.fresh.contains(node) || is_open() {
            return true;
        }
        let is_known = self.writer.known.contains(node);
        if node.op() == Op::Const {
            if !is_known {
                self.fresh.insert(node.clone());
                self.constants.push(node.clone());
            }
            return true;
        }
        if is_known && node.op() != Op::Update || !node.src().iter().all(|operand| self.put(operand)) {
            return false;
        }
        self.fresh.insert(node.clone());
        self.ops.push(node.clone());
        true
    }

    /// Puts an op of the list that stays one.
    fn keep(&mut self, node: &UOp) {
        let node = self.writer.renewed(node);
        self.fresh.insert(node.clone());
        self.ops.push(node);
    }

    /// Writes iterations of these numbers.
    fn write(&mut self, body: &[UOp], range: &UOp, numbers: &[UOp]) -> bool {
        let mut steps: FxHashMap<&UOp, i64> = [(range, 1)].into_iter().collect();
        let mut made: Vec<FxHashMap<&UOp, UOp>> =
            numbers.iter().map(|number| [(range, number.clone())].into_iter().collect()).collect();
        for number in numbers {
            if !self.put(number) {
                return false;
            }
        }
        let is_late = |node: &UOp| self.plan.accumulated.contains(node);
        let (late, early): (Vec<&UOp>, Vec<&UOp>) = body.iter().partition(|node| is_late(node));
        for node in early {
            if !self.plan.varying.contains(node) {
                if self.plan.has_threads {
                    self.keep(node);
                }
                continue;
            }
            if let Some(step) = step_of(node, &self.plan.varying, &steps) {
                steps.insert(node, step);
            }
            for copy in 0..numbers.len() {
                let new = self.copy_of(node, copy, &made, steps.get(node).copied());
                if !self.put(&new) {
                    return false;
                }
                made[copy].insert(node, new);
            }
        }
        for of_copy in &mut made {
            for node in &late {
                let new = self.over(node, of_copy);
                if !self.put(&new) {
                    return false;
                }
                of_copy.insert(node, new);
            }
        }
        true
    }

    /// An op in a copy: of integers that step evenly, that of the first copy and a constant.
    fn copy_of(&mut self, node: &UOp, copy: usize, made: &[FxHashMap<&UOp, UOp>], step: Option<i64>) -> UOp {
        let distance = step.and_then(|step| step.checked_mul(copy as i64));
        match (distance, made[0].get(node)) {
            (Some(distance), Some(first)) if copy > 0 => {
                folded(&UOp::binary(Op::Add, first, &UOp::int(distance, first.dtype())))
            }
            _ => self.over(node, &made[copy]),
        }
    }

    fn over(&self, node: &UOp, made: &FxHashMap<&UOp, UOp>) -> UOp {
        let operand =
            |operand: &UOp| made.get(operand).or_else(|| self.writer.now.get(operand)).unwrap_or(operand).clone();
        decided(&folded(&node.with_src(node.src().iter().map(operand).collect::<Sources>())))
    }
}

/// A condition that bounds of integers decide, or one side of it; anything else as it is.
fn decided(node: &UOp) -> UOp {
    let is = |operand: &UOp, value: bool| operand.as_scalar() == Some(Scalar::Bool(value));
    let constant = |value: bool| UOp::constant(Scalar::Bool(value), DType::BOOL);
    match (node.op(), node.src()) {
        (Op::Lt, [a, b]) if a.dtype().is_integer() && a.dtype().lanes() == 1 => {
            match (a.max_value() < b.min_value(), a.min_value() >= b.max_value()) {
                (true, _) => constant(true),
                (_, true) => constant(false),
                _ => node.clone(),
            }
        }
        (Op::And, [a, b]) if node.dtype() == DType::BOOL => match () {
            () if is(a, true) => b.clone(),
            () if is(b, true) => a.clone(),
            () if is(a, false) || is(b, false) => constant(false),
            () => node.clone(),
        },
        // A gate that holds is none.
        (Op::Index, [memory, offset, gate]) if is(gate, true) => {
            UOp::new(Op::Index, node.dtype(), smallvec![memory.clone(), offset.clone()], Arg::None)
        }
        (Op::Where, [condition, yes, _]) if is(condition, true) => yes.clone(),
        _ => node.clone(),
    }
}

/// How far an integer moves with each iteration, if evenly.
fn step_of(node: &UOp, varying: &FxHashSet<UOp>, steps: &FxHashMap<&UOp, i64>) -> Option<i64> {
    if !node.dtype().is_integer() || node.dtype().lanes() > 1 || node.dtype().bytes() < 4 {
        return None;
    }
    let step = |operand: &UOp| steps.get(operand).copied();
    match (node.op(), node.src()) {
        (Op::Add, [a, b]) if varying.contains(a) && varying.contains(b) => step(a)?.checked_add(step(b)?),
        (Op::Add, [a, b]) => step(if varying.contains(a) { a } else { b }),
        (Op::Mul, [a, b]) => step(a)?.checked_mul(b.as_int()?),
        (Op::Cast, [a]) if a.dtype().bytes() >= 4 && a.dtype().is_integer() => step(a),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linearize::check;
    use crate::linearize::text::{parse, print};

    /// A sum of every eighth number, of as many as there are turns, under a condition that holds of all but the last.
    const SUM: &str = "p0: f32 = param #0 [8]
      p1: f32 = param #1 [1024]
      zero: f32 = const 0.0
      turns: i32 = const 12
      eight: i32 = const 8
      most: i32 = const 95
      r0: i32 = range eight, block_x #0
      a0 = accumulator zero, #0
      r1: i32 = range turns, reduce #1
      v0 = mul r1, eight
      v1 = add v0, r0
      v2 = lt v1, most
      v3 = index p1, v1, v2
      v4 = load v3
      v5 = add a0, v4
      v6 = update a0, v5
      v7 = end r1
      v8 = final a0, v7
      v9 = index p0, r0
      v10 = store v9, v8
      v11 = end r0\n";

    fn repeated(body: &str) -> String {
        let text = format!("linear %k(f32[8] write, f32[1024] read) grid 1 {{\n{body}}}");
        let mut linear = parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        linear.ops = repeat_bodies(linear.ops);
        check::check(&linear.ops).unwrap_or_else(|error| panic!("{error}\n{}", print(&linear)));
        print(&linear)
    }

    fn count(text: &str, what: &str) -> usize {
        text.lines().filter(|line| line.contains(what)).count()
    }

    #[test]
    fn a_turn_has_several_iterations() {
        let text = repeated(SUM);
        // Of twelve, six at a time: so none is left over.
        assert_eq!((count(&text, " load "), count(&text, "update "), count(&text, "range ")), (6, 6, 2), "{text}");
        // All of seven, of which the last one alone may be beyond the end; the loop remains, for its end is asked for.
        let all = repeated(&SUM.replace("const 12", "const 7").replace("const 95", "const 55"));
        assert_eq!((count(&all, " load "), count(&all, "= lt ")), (7, 1), "{all}");
        // Thirteen leave five over, which come first.
        let rest = repeated(&SUM.replace("const 12", "const 13"));
        assert_eq!((count(&rest, " load "), count(&rest, "update ")), (13, 13), "{rest}");
        assert!(rest.find("update") < rest.find("reduce"), "{rest}");
    }

    #[test]
    fn what_is_stored_is_repeated_inside_of_indices_of_threads() {
        let copy = "p0: f32 = param #0 [1024]
          p1: f32 = param #1 [1024]
          turns: i32 = const 15
          eight: i32 = const 8
          r1: i32 = range turns, loop #1
          v0 = mul r1, eight
          r0: i32 = range eight, block_x #0
          v1 = add v0, r0
          v2 = index p1, v1
          v3 = load v2
          v4 = index p0, v1
          v5 = store v4, v3
          v6 = end r0
          v7 = end r1\n";
        let text = repeated(copy);
        assert_eq!((count(&text, " load "), count(&text, " store "), count(&text, "block_x")), (5, 5, 1), "{text}");
        // Nothing may be left over there, and what is loaded may not be what another iteration stores.
        assert_eq!(count(&repeated(&copy.replace("const 15", "const 17")), " load "), 1);
        let in_place =
            copy.replace("index p1", "index p0").replace("v4 = index p0, v1\n", "").replace("store v4", "store v2");
        assert_eq!(count(&repeated(&in_place), " load "), 1);
    }

    #[test]
    fn what_updates_in_each_iteration_alike_is_left() {
        for (from, to) in [
            ("v5 = add a0, v4", "v5 = add a0, zero"),
            ("v5 = add a0, v4", "v12 = neg a0\n v5 = add v12, v4"),
            ("v6 = update a0, v5\n", "v6 = update a0, v5\n b0 = barrier #0\n"),
        ] {
            assert!(SUM.contains(from));
            let text = repeated(&SUM.replace(from, to));
            assert_eq!(count(&text, "update "), 1, "{text}");
        }
    }
}
