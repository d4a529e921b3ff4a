//! Shared scratch of which each thread loads what it stored itself becomes registers of the threads.
//!
//! ```text
//! lane r0 of 4                                    lane r0 of 4
//!   store s0[r0 + 8], v0                            update a2, v0
//! lane r1 of 4                              =>    lane r1 of 4
//!   v1 = load s0[r1 + 8]                            a9 = accumulator a2
//! ```
//!
//! A load is a copy of the register, which later stores do not change.
//!
//! So it is where all threads go through what they keep in the same way, as in attention by matrices: memory and barriers are not needed then.
//!
//! Each access has an offset of its thread, which is a sum of its indices by some steps, plus a number. Where all accesses have the same steps, and no two threads, with any of the numbers, come to
//! one offset, a number is a register. Refused: stores of vectors, conditions, and more numbers than a thread has registers for.
//!
//! Always: the list's rules (`check`), and values stay to the bit. Tested below, and by attention on the emulator of GPUs.

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::{SmallVec, smallvec};

use super::Launch;
use super::linearizer::without_unused;
use crate::DType;
use crate::dtype::Scalar;
use crate::ir::{Arg, AxisKind, MemorySpace, Op, Sources, ThreadDim, UOp};

/// Most registers of one scratch.
const REGISTERS_MAX: usize = 96;
/// Indices of the threads of a block, those first whose neighbours are nearest.
const INDICES: [AxisKind; 4] =
    [AxisKind::Lane, AxisKind::Block(ThreadDim::X), AxisKind::Block(ThreadDim::Y), AxisKind::Block(ThreadDim::Z)];

/// The list in which what threads keep for themselves is in registers.
pub fn keep_in_registers(list: Vec<UOp>) -> Vec<UOp> {
    let launch = Launch::of(&list);
    let is_shared = |node: &&UOp| matches!(node.arg(), Arg::Scratch(_, _, MemorySpace::Shared));
    let scratches: Vec<UOp> = list.iter().filter(is_shared).cloned().collect();
    scratches.iter().fold(list, |list, scratch| match numbers_of(&list, scratch, &launch) {
        // Nothing asks for the offsets any more.
        Some(numbers) => without_unused(with_registers(&list, scratch, &numbers)),
        None => list,
    })
}

/// Steps of the indices of [`INDICES`], and a number.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct ThreadOffset {
    steps: [i64; 4],
    number: i64,
}

/// An offset by its steps and its number, if it is a sum of indices that all threads have.
fn steps_of(offset: &UOp, launch: &Launch) -> Option<ThreadOffset> {
    let mut found = ThreadOffset::default();
    let mut pending: SmallVec<[(&UOp, i64); 8]> = smallvec![(offset, 1)];
    while let Some((node, times)) = pending.pop() {
        match (node.op(), node.src()) {
            (Op::Add, [a, b]) => pending.extend([(a, times), (b, times)]),
            (Op::Mul, [a, b]) => match (a.as_int(), b.as_int()) {
                (_, Some(factor)) => pending.push((a, times.checked_mul(factor)?)),
                (Some(factor), _) => pending.push((b, times.checked_mul(factor)?)),
                _ => return None,
            },
            (Op::Shl, [a, b]) => {
                pending.push((a, times.checked_mul(1i64.checked_shl(u32::try_from(b.as_int()?).ok()?)?)?))
            }
            (Op::Cast, [a]) => pending.push((a, times)),
            (Op::Const, _) => found.number = found.number.checked_add(node.as_int()?.checked_mul(times)?)?,
            (Op::Range, [len]) => {
                let kind = node.as_range()?.kind;
                let index = INDICES.iter().position(|index| *index == kind)?;
                if len.as_int().map(|len| len as u64) != launch.len_of(kind) {
                    return None;
                }
                found.steps[index] = found.steps[index].checked_add(times)?;
            }
            _ => return None,
        }
    }
    Some(found)
}

/// The numbers of a scratch's accesses, by index, if it may become registers.
fn numbers_of(list: &[UOp], scratch: &UOp, launch: &Launch) -> Option<FxHashMap<UOp, i64>> {
    let is_of_scratch = |node: &UOp| node.op() == Op::Index && node.src()[0] == *scratch;
    let mut numbers: FxHashMap<UOp, i64> = FxHashMap::default();
    let mut steps = None;
    for node in list {
        if is_of_scratch(node) {
            let is_plain = node.src().len() == 2;
            let offset = steps_of(&node.src()[1], launch).filter(|_| is_plain)?;
            if *steps.get_or_insert(offset.steps) != offset.steps {
                return None;
            }
            numbers.insert(node.clone(), offset.number);
            continue;
        }
        match node.op() {
            Op::Load => {}
            Op::Store if node.src().len() == 2 && node.src()[1].dtype().lanes() == 1 => {}
            _ if node.src().iter().any(|operand| is_of_scratch(operand) || operand == scratch) => return None,
            _ => {}
        }
    }
    let distinct: FxHashSet<i64> = numbers.iter().flat_map(|(index, number)| elements_of(index, *number)).collect();
    let fits = !distinct.is_empty() && distinct.len() <= REGISTERS_MAX;
    (fits && are_apart(steps?, &distinct, launch)).then_some(numbers)
}

/// The numbers of all elements of an index or a load.
fn elements_of(node: &UOp, number: i64) -> std::ops::Range<i64> {
    number..number + node.dtype().lanes() as i64
}

/// Whether no two threads come to one offset.
fn are_apart(steps: [i64; 4], numbers: &FxHashSet<i64>, launch: &Launch) -> bool {
    let mut bases: Vec<i64> = vec![0];
    for (kind, step) in INDICES.into_iter().zip(steps) {
        let len = launch.len_of(kind).unwrap_or(1) as i64;
        bases = bases.iter().flat_map(|base| (0..len).map(move |index| base + index * step)).collect();
    }
    let mut offsets: FxHashSet<i64> = FxHashSet::default();
    bases.iter().all(|base| numbers.iter().all(|number| offsets.insert(base + number)))
}

/// The list with registers for a scratch.
fn with_registers(list: &[UOp], scratch: &UOp, numbers: &FxHashMap<UOp, i64>) -> Vec<UOp> {
    let mut distinct: Vec<i64> = numbers.iter().flat_map(|(index, number)| elements_of(index, *number)).collect();
    distinct.sort_unstable();
    distinct.dedup();
    let mut writer = Writer::of(list, scratch.dtype());
    let registers: FxHashMap<i64, UOp> =
        distinct.into_iter().map(|number| (number, writer.new_register(&writer.zero.clone()))).collect();
    if !list.contains(&writer.zero) {
        writer.written.push(writer.zero.clone());
    }
    for node in list {
        let number = node.src().first().and_then(|index| numbers.get(index));
        match (node.op(), number) {
            (Op::Scratch, _) if node == scratch => {
                let mut all: Vec<(&i64, &UOp)> = registers.iter().collect();
                all.sort_unstable_by_key(|(number, _)| **number);
                writer.written.extend(all.into_iter().map(|(_, register)| register.clone()));
            }
            (Op::Index, _) if numbers.contains_key(node) => {}
            (Op::Load, Some(number)) => {
                let elements = elements_of(node, *number).map(|number| &registers[&number]);
                writer.load(node, elements);
            }
            (Op::Store, Some(number)) => {
                let value = writer.named(&node.src()[1]);
                let update = smallvec![registers[number].clone(), value];
                writer.written.push(UOp::new(Op::Update, DType::VOID, update, Arg::None));
            }
            _ => writer.copy(node),
        }
    }
    writer.written
}

/// Writes a list anew.
struct Writer {
    written: Vec<UOp>,
    /// What stands for nodes of the list.
    renamed: FxHashMap<UOp, UOp>,
    zero: UOp,
    /// The next number of a register.
    next: i64,
}

impl Writer {
    fn of(list: &[UOp], dtype: DType) -> Writer {
        let numbers = list.iter().filter(|node| node.op() == Op::Accumulator).filter_map(|node| match node.arg() {
            Arg::Number(number) => Some(number + 1),
            _ => None,
        });
        let next = numbers.max().unwrap_or(0);
        let zero = UOp::constant(Scalar::zero(dtype), dtype);
        Writer { written: Vec::with_capacity(list.len()), renamed: FxHashMap::default(), zero, next }
    }

    fn new_register(&mut self, value: &UOp) -> UOp {
        self.next += 1;
        UOp::new(Op::Accumulator, value.dtype(), smallvec![value.clone()], Arg::Number(self.next - 1))
    }

    fn named(&self, node: &UOp) -> UOp {
        self.renamed.get(node).unwrap_or(node).clone()
    }

    /// A load of what registers hold.
    fn load<'r>(&mut self, load: &UOp, registers: impl Iterator<Item = &'r UOp>) {
        let mut copies: Sources = registers.map(|register| self.new_register(register)).collect();
        self.written.extend(copies.iter().cloned());
        let value = match load.dtype().lanes() {
            1 => copies.remove(0),
            _ => {
                let vector = UOp::new(Op::Stack, load.dtype(), copies, Arg::None);
                self.written.push(vector.clone());
                vector
            }
        };
        self.renamed.insert(load.clone(), value);
    }

    fn copy(&mut self, node: &UOp) {
        let src: Sources = node.src().iter().map(|operand| self.named(operand)).collect();
        if src[..] == *node.src() {
            return self.written.push(node.clone());
        }
        let new = node.with_src(src);
        self.renamed.insert(node.clone(), new.clone());
        self.written.push(new);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linearize::check;
    use crate::linearize::text::{parse, print};

    /// Each thread stores two numbers, and loads them in another range of its index.
    const KEPT: &str = "p0: f32 = param #0 [64]
      p1: f32 = param #1 [64]
      s0: f32 = scratch shared #0 [8]
      two: i64 = const 2
      one: i64 = const 1
      four: i64 = const 4
      r0: i64 = range four, lane #0
      v0 = mul r0, two
      v1 = add v0, one
      v2 = index p1, v0
      v3 = load v2
      v4 = index s0, v0
      v5 = store v4, v3
      v6 = index s0, v1
      v7 = store v6, v3
      v8 = end r0
      r1: i64 = range four, lane #1
      v9 = mul r1, two
      v10 = add v9, one
      v11 = index s0, v10
      v12 = load v11
      v13 = index p0, r1
      v14 = store v13, v12
      v15 = end r1\n";

    fn kept(body: &str) -> String {
        let text = format!("linear %k(f32[64] write, f32[64] read) grid 1 {{\n{body}}}");
        let mut linear = parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        linear.ops = keep_in_registers(linear.ops);
        check::check(&linear.ops).unwrap_or_else(|error| panic!("{error}\n{}", print(&linear)));
        print(&linear)
    }

    fn count(text: &str, what: &str) -> usize {
        text.lines().filter(|line| line.contains(what)).count()
    }

    #[test]
    fn what_a_thread_keeps_for_itself_is_in_registers() {
        let text = kept(KEPT);
        // Two registers, and a copy of what is loaded.
        assert_eq!((count(&text, "scratch"), count(&text, "accumulator"), count(&text, "update")), (0, 3, 2), "{text}");
        let pair = KEPT
            .replace("v11 = index s0, v10", "v11: f32x2 = index s0, v9")
            .replace("v12 = load v11", "v16 = load v11\n v12: f32 = lane v16, #1");
        let text = kept(&pair);
        assert_eq!((count(&text, "scratch"), count(&text, "accumulator"), count(&text, "stack")), (0, 4, 1), "{text}");
    }

    #[test]
    fn what_another_thread_stored_stays_in_memory() {
        for (from, to) in [
            // The neighbour's, half of the lanes, offsets that two threads have, and other steps.
            ("v10 = add v9, one", "v10 = sub four, r1"),
            ("r1: i64 = range four", "r1: i64 = range two"),
            ("v1 = add v0, one", "v1 = add v0, two"),
            ("v9 = mul r1, two", "v9 = mul r1, one"),
            // One of them is stored under a condition.
            ("v6 = index s0, v1", "v16 = lt r0, two\n v6 = index s0, v1, v16"),
        ] {
            assert!(KEPT.contains(from));
            let text = kept(&KEPT.replace(from, to));
            assert_eq!((count(&text, "scratch"), count(&text, "accumulator")), (1, 0), "{text}");
        }
    }
}
