//! Copies into shared memory that has room for two: one is filled for the next iteration of a loop, while the other one is read.
//!
//! ```text
//! for r0 in 0..9                          fill s0 for 0
//!   fill s0 for r0                        for r0 in 0..9
//!   (threads meet)                          threads meet
//!   read s0                         =>      if r0 + 1 < 9: fill the half (r0 + 1) mod 2 of s0 for r0 + 1
//!   (threads meet)                          read the half r0 mod 2 of s0
//! ```
//!
//! What fills it overlaps with what reads it, where the machine copies beside other work (`copies`), and threads meet once in an iteration. A scratch has room for two where none of its
//! elements in the second half is used: an opt made it so (`optimize::transforms::stage`).
//!
//! Nothing is done where the loop stands in another one, has no known number of iterations, or holds what fills and reads at once; where what is filled depends on
//! loads beside the loops that fill; and where an op would stand in the list twice.
//!
//! Always: the list's rules (`check`); that threads meet in time is proven there (`races`), without this. Tested below, and by every kernel that is chosen so.

mod found;

use found::{Body, Found, find, half_of, take_apart};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::smallvec;

use super::short_loops::Writer;
use crate::DType;
use crate::ir::{Arg, AxisKind, Op, RangeArg, Sources, UOp};
use crate::linearize::addresses::split_offset;
use crate::linearize::loops::folded::folded;

/// The list with what is copied ahead, and the numbers of the scratches for which threads meet where they must already.
pub fn copy_ahead(list: Vec<UOp>) -> (Vec<UOp>, FxHashSet<u32>) {
    match find(&list).and_then(|found| Some((rewritten(&list, &found)?, found.numbers()))) {
        Some(done) => done,
        None => (list, FxHashSet::default()),
    }
}

fn rewritten(list: &[UOp], found: &Found) -> Option<Vec<UOp>> {
    let body = take_apart(list, found)?;
    let range = &list[found.begin];
    let dtype = range.dtype();
    let halves: FxHashMap<UOp, i64> = found
        .scratches
        .iter()
        .map(|scratch| Some((scratch.clone(), half_of(scratch, list)?)))
        .collect::<Option<_>>()?;
    let used = list.iter().filter_map(UOp::as_range).map(|arg| arg.id).max().unwrap_or(0);
    let mut moved = Moved { writer: Writer::of(list), halves: &halves, next_range: used + 1 };
    list[..found.begin].iter().for_each(|node| moved.writer.copy(node));
    moved.write_first(range, &body)?;
    moved.writer.copy(range);
    let barrier = UOp::new(Op::Barrier, DType::VOID, smallvec![], Arg::Number(0));
    moved.writer.copy(&barrier);
    let one = UOp::int(1, dtype);
    let next = UOp::binary(Op::Add, range, &one);
    let is_there = UOp::binary(Op::Lt, &next, &range.src()[0]).cast(dtype);
    let only_if = UOp::new(
        Op::Range,
        dtype,
        smallvec![is_there],
        Arg::Range(RangeArg { id: moved.new_range(), kind: AxisKind::Loop }),
    );
    let mut of_next: FxHashMap<UOp, UOp> = [(range.clone(), next.clone())].into_iter().collect();
    let parity = UOp::binary(Op::And, &next, &one);
    for need in &body.needs {
        moved.write(need, &mut of_next, None)?;
    }
    moved.put_halves(&parity)?;
    moved.put(&only_if.src()[0])?;
    moved.writer.copy(&only_if);
    for node in body.fills.iter().flat_map(|step| step.iter()) {
        moved.write(node, &mut of_next, Some(&parity))?;
    }
    moved.writer.copy(&UOp::new(Op::EndRange, DType::VOID, smallvec![only_if], Arg::None));
    let parity = UOp::binary(Op::And, range, &one);
    moved.put_halves(&parity)?;
    let mut now: FxHashMap<UOp, UOp> = FxHashMap::default();
    for node in body.others.iter().flat_map(|step| step.iter()) {
        moved.write(node, &mut now, Some(&parity))?;
    }
    for node in &list[found.end..] {
        moved.write(node, &mut now, None)?;
    }
    Some(moved.writer.finished())
}

/// Ops that are written at other positions.
struct Moved<'h> {
    writer: Writer,
    /// Of each scratch, the elements of a half.
    halves: &'h FxHashMap<UOp, i64>,
    next_range: u32,
}

impl Moved<'_> {
    fn new_range(&mut self) -> u32 {
        self.next_range += 1;
        self.next_range - 1
    }

    /// What is filled for the first iteration, by loops of its own.
    fn write_first(&mut self, range: &UOp, body: &Body<'_>) -> Option<()> {
        let mut first: FxHashMap<UOp, UOp> = [(range.clone(), UOp::int(0, range.dtype()))].into_iter().collect();
        for need in &body.needs {
            self.write(need, &mut first, None)?;
        }
        for node in body.fills.iter().flat_map(|step| step.iter()) {
            if let (Op::Range, Some(arg)) = (node.op(), node.as_range()) {
                let fresh = Arg::Range(RangeArg { id: self.new_range(), ..arg });
                let src: Sources = node.src().iter().map(|len| first.get(len).unwrap_or(len).clone()).collect();
                let fresh = UOp::new(Op::Range, node.dtype(), src, fresh);
                self.writer.copy(&fresh);
                first.insert(node.clone(), fresh);
                continue;
            }
            self.write(node, &mut first, None)?;
        }
        Some(())
    }

    /// Writes an op over what stands for its operands; of an access to one of the scratches, at the half of this parity.
    fn write(&mut self, node: &UOp, done: &mut FxHashMap<UOp, UOp>, parity: Option<&UOp>) -> Option<()> {
        let src: Sources = node.src().iter().map(|operand| done.get(operand).unwrap_or(operand).clone()).collect();
        let mut new = if src[..] == *node.src() { node.clone() } else { folded(&node.with_src(src)) };
        if let (Op::Index, Some(parity), Some(half)) =
            (new.op(), parity, new.src().first().and_then(|to| self.halves.get(to)))
        {
            new = in_half(&new, parity, *half);
        }
        if new != *node {
            done.insert(node.clone(), new.clone());
        }
        // What an op became may be a loop that is open.
        match node.op() {
            Op::Store | Op::Update | Op::Range | Op::EndRange => {
                new.src()
                    .iter()
                    .filter(|operand| operand.op() != Op::Range)
                    .try_for_each(|operand| self.put(operand))?;
                self.writer.copy(&new);
                Some(())
            }
            // What lanes have stands in their range, which has ended.
            Op::ShuffleReduce if self.writer.was_written(&new.src()[0]) && !self.writer.was_written(&new) => {
                self.writer.copy(&new);
                Some(())
            }
            _ => self.put(&new),
        }
    }

    /// Where halves of this parity begin, before the loops that ask for it.
    fn put_halves(&mut self, parity: &UOp) -> Option<()> {
        let mut halves: Vec<i64> = self.halves.values().copied().collect();
        halves.sort_unstable();
        halves.dedup();
        self.put(parity)?;
        halves.into_iter().try_for_each(|half| self.put(&begin_of_half(parity, half, parity.dtype())))
    }

    /// Writes an op unless it is there; none if it stands where it is not seen.
    fn put(&mut self, node: &UOp) -> Option<()> {
        if self.writer.is_open(node) {
            return Some(());
        }
        if node.op() == Op::Const {
            self.writer.constant(node);
            return Some(());
        }
        if self.writer.was_written(node) || matches!(node.op(), Op::Range | Op::EndRange) {
            return None;
        }
        node.src().iter().try_for_each(|operand| self.put(operand))?;
        self.writer.copy(node);
        Some(())
    }
}

/// Where the half of this parity begins.
fn begin_of_half(parity: &UOp, half: i64, dtype: DType) -> UOp {
    let parity = if parity.dtype() == dtype { parity.clone() } else { parity.cast(dtype) };
    UOp::binary(Op::Mul, &parity, &UOp::int(half, dtype))
}

/// The same element in the half of this parity; the constant part of the offset stays the last.
fn in_half(index: &UOp, parity: &UOp, half: i64) -> UOp {
    let dtype = index.src()[1].dtype();
    let begin = begin_of_half(parity, half, dtype);
    let (base, constant) = split_offset(&index.src()[1]);
    let base = base.map_or(begin.clone(), |base| UOp::binary(Op::Add, &begin, base));
    let offset = if constant == 0 { base } else { UOp::binary(Op::Add, &base, &UOp::int(constant, dtype)) };
    let src: Sources = [index.src()[0].clone(), offset].into_iter().chain(index.src()[2..].iter().cloned()).collect();
    index.with_src(src)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linearize::text::{parse, print};
    use crate::linearize::{barriers, check, races};

    /// Threads turn the order of eight neighbours, four times.
    const TURNED: &str = "p0: f32 = param #0 [64]
      p1: f32 = param #1 [64]
      s0: f32 = scratch shared #0 [16]
      four: i32 = const 4
      seven: i32 = const 7
      eight: i32 = const 8
      r0: i32 = range four, loop #0
      v0 = mul r0, eight
      r1: i32 = range eight, block_x #1
      v1 = add v0, r1
      v2 = index p1, v1
      v3 = load v2
      v4 = index s0, r1
      v5 = store v4, v3
      v6 = end r1
      r2: i32 = range eight, block_x #2
      v7 = sub seven, r2
      v8 = index s0, v7
      v9 = load v8
      v10 = add v0, r2
      v11 = index p0, v10
      v12 = store v11, v9
      v13 = end r2
      v14 = end r0\n";

    fn ahead(body: &str) -> (String, usize) {
        let text = format!("linear %k(f32[64] write, f32[64] read) grid 1 {{\n{body}}}");
        let mut linear = parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let (ops, numbers) = copy_ahead(linear.ops);
        linear.ops = barriers::place_but(ops, &numbers);
        check::check(&linear.ops).unwrap_or_else(|error| panic!("{error}\n{}", print(&linear)));
        races::check(&linear.ops).unwrap_or_else(|error| panic!("{error}\n{}", print(&linear)));
        (print(&linear), numbers.len())
    }

    fn count(text: &str, what: &str) -> usize {
        text.lines().filter(|line| line.contains(what)).count()
    }

    #[test]
    fn the_next_iteration_is_filled_while_this_one_is_read() {
        let (text, scratches) = ahead(TURNED);
        assert_eq!((scratches, count(&text, "barrier"), count(&text, "store ")), (1, 1, 3), "{text}");
        let barrier = text.find("barrier").expect("there is one");
        assert!(text.find("loop #0").is_some_and(|begin| begin < barrier), "{text}");
        assert_eq!(text[..barrier].matches("store ").count(), 1, "{text}");
    }

    #[test]
    fn several_scratches_are_filled_ahead_together() {
        let second = "q1: i32 = range eight, block_x #11
      w1 = add v0, q1
      w2 = index p1, w1
      w3 = load w2
      w4 = index s1, q1
      w5 = store w4, w3
      w6 = end q1
      r2: i32";
        let body = TURNED
            .replace("r2: i32", second)
            .replace("seven: i32", "s1: f32 = scratch shared #1 [16]\n seven: i32")
            .replace("v9 = load v8\n", "x7 = load v8\n x8 = index s1, v7\n x9 = load x8\n v9 = add x7, x9\n");
        let (text, scratches) = ahead(&body);
        assert_eq!((scratches, count(&text, "barrier"), count(&text, "store ")), (2, 1, 5), "{text}");
    }

    #[test]
    fn loops_that_leave_no_room_or_read_what_they_fill_are_left() {
        for (from, to) in [
            ("shared #0 [16]", "shared #0 [8]"),
            ("range four, loop #0", "range four, serial #0"),
            // What is filled depends on what was read.
            ("v4 = index s0, r1\n", "w0 = sub seven, r1\n w1 = index s0, w0\n w2 = load w1\n v4 = index s0, r1\n"),
        ] {
            assert!(TURNED.contains(from));
            let (text, scratches) = ahead(&TURNED.replace(from, to));
            assert_eq!((scratches, count(&text, "store ")), (0, 2), "{text}");
        }
    }

    #[test]
    fn a_wrong_half_or_a_missing_barrier_is_found() {
        let (text, _) = ahead(TURNED);
        let without = text.lines().filter(|line| !line.contains("barrier")).collect::<Vec<&str>>().join("\n");
        let error = races::check(&parse(&without).expect("a list").ops).unwrap_err();
        assert!(error.contains("with no barrier in between"), "{error}");
        // The half that is read is filled.
        let mut linear = parse(&text).expect("a list");
        let zero = UOp::int(0, DType::I32);
        let is_parity_of_next =
            |node: &UOp| node.op() == Op::And && node.src()[0].op() == Op::Add && node.dtype() == DType::I32;
        let mut done: FxHashMap<UOp, UOp> = FxHashMap::default();
        let mut ops = vec![zero.clone()];
        for node in linear.ops {
            let src: Sources = node.src().iter().map(|operand| done.get(operand).unwrap_or(operand).clone()).collect();
            let new = if is_parity_of_next(&node) { zero.clone() } else { node.with_src(src) };
            done.insert(node, new.clone());
            if new != zero {
                ops.push(new);
            }
        }
        linear.ops = ops;
        let error = races::check(&linear.ops).unwrap_err();
        assert!(error.contains("with no barrier in between"), "{error}");
    }
}
