//! Loops that fill consecutive memory with zeros: they become one call of the C library's `memset`, which tells the processor beforehand how much memory it
//! writes, so that lines are not read before they are written.
//!
//! ```text
//! for r in 0..n { store p[64 r], 0; store p[64 r + 16], 0; .. }      fill p[0..64 n] with zeros
//! ```
//!
//! One core with AVX-512 took 74 us for 8 MiB by stores of vectors and 65 us by `memset`; for 32 MiB, which is more than its caches hold, 1.29 ms and 0.39 ms.
//!
//! A loop is one if it stores nothing but zeros, without a gate, each vector at an offset `min(step * r + constant, cap)` (the cap may be left out), and the
//! vectors leave no gap: ordered by their constants, neighbours and their caps are at most a vector apart, and so is the first one of the next iteration from the last.
//! Then what is filled lies between the first vector of the first iteration and the last one of the last.
//!
//! Tested below, and by values in the test crate (`writes`).

use rustc_hash::{FxHashMap, FxHashSet};
use warpweft_compiler::ir::Arg;
use warpweft_compiler::{DType, Op, UOp};

use super::{Writer, spelling};

/// Bytes from which on a call pays.
const BYTES_MIN: i64 = 4096;

/// A loop that fills memory.
#[derive(Clone)]
pub(super) struct Fill {
    range: UOp,
    /// What computes offsets in it, in order.
    offsets: Vec<UOp>,
    /// The address of the first vector of an iteration, and that of the last.
    first: UOp,
    last: UOp,
    vector_bytes: i64,
    /// How many of the list's micro-ops it stands for.
    pub(super) len: usize,
}

/// An offset in a loop: `min(rest + step * r + constant, cap)`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Offset {
    rest: Vec<(UOp, i64)>,
    step: i64,
    constant: i64,
    cap: Option<i64>,
}

/// The loop that a list begins with, if it fills memory.
pub(super) fn find(ops: &[UOp]) -> Option<Fill> {
    let (range, rest) = ops.split_first().filter(|(range, _)| range.op() == Op::Range)?;
    let len = rest.iter().position(|node| matches!(node.op(), Op::EndRange | Op::Range))?;
    let body = &rest[..len];
    if rest[len].op() != Op::EndRange {
        return None;
    }
    let inside: FxHashSet<&UOp> = std::iter::once(range).chain(body).collect();
    let mut known: FxHashMap<&UOp, Offset> = FxHashMap::default();
    let (mut offsets, mut stores) = (Vec::new(), Vec::new());
    for node in body {
        match node.op() {
            Op::Index => {}
            Op::Const => offsets.push(node.clone()),
            Op::Store => stores.push((store_of_zeros(node)?, node)),
            _ => {
                let offset = offset_of(node, range, &inside, &known)?;
                known.insert(node, offset);
                offsets.push(node.clone());
            }
        }
    }
    let mut places: Vec<(Offset, &UOp)> = Vec::new();
    let (vector, first_store) = *stores.first()?;
    let buffer = &first_store.src()[0].src()[0];
    for (dtype, store) in &stores {
        let index = &store.src()[0];
        if *dtype != vector || index.src()[0] != *buffer {
            return None;
        }
        places.push((operand(&index.src()[1], range, &inside, &known)?, index));
    }
    places.sort_by_key(|(offset, _)| offset.constant);
    let lanes = vector.lanes() as i64;
    let ((first, first_index), (last, last_index)) = (places.first()?, places.last()?);
    let has_no_gap = places.windows(2).all(|pair| is_next(&pair[0].0, &pair[1].0, lanes));
    let step_max = last.constant.checked_sub(first.constant)?.checked_add(lanes)?;
    let bytes = first.step.checked_mul(range.src()[0].max_value())?.checked_mul(vector.bytes() as i64)?;
    (has_no_gap && (1..=step_max).contains(&first.step) && bytes >= BYTES_MIN).then(|| Fill {
        range: range.clone(),
        offsets,
        first: (*first_index).clone(),
        last: (*last_index).clone(),
        vector_bytes: lanes * vector.bytes() as i64,
        len: len + 2,
    })
}

/// Whether a vector begins at or behind the beginning of another, and not behind its end, in each iteration.
fn is_next(before: &Offset, after: &Offset, lanes: i64) -> bool {
    let near = |a: i64, b: i64| b.checked_sub(a).is_some_and(|apart| (0..=lanes).contains(&apart));
    let caps = match (before.cap, after.cap) {
        (None, None) => true,
        (Some(a), Some(b)) => near(a, b),
        _ => false,
    };
    caps && near(before.constant, after.constant) && before.step == after.step && before.rest == after.rest
}

/// The type of what is stored, if it is zeros wherever the loop comes by.
fn store_of_zeros(store: &UOp) -> Option<DType> {
    let [index, value] = store.src() else { return None };
    let (scalar, dtype) = (value.as_scalar()?, value.dtype());
    let is_zero = value.op() == Op::Const && scalar.to_bits(dtype.element()) == 0;
    let is_scalar = index.src()[1].dtype().lanes() == 1 && index.src().len() == 2;
    (is_zero && is_scalar && *store.arg() == Arg::None && store.src().len() == 2).then_some(dtype)
}

fn operand(node: &UOp, range: &UOp, inside: &FxHashSet<&UOp>, known: &FxHashMap<&UOp, Offset>) -> Option<Offset> {
    match known.get(node) {
        Some(offset) => Some(offset.clone()),
        None => offset_of(node, range, inside, known),
    }
}

fn offset_of(node: &UOp, range: &UOp, inside: &FxHashSet<&UOp>, known: &FxHashMap<&UOp, Offset>) -> Option<Offset> {
    if node == range {
        return Some(Offset { step: 1, ..Offset::default() });
    }
    if let Some(constant) = node.as_int() {
        return Some(Offset { constant, ..Offset::default() });
    }
    if !inside.contains(node) {
        return Some(Offset { rest: vec![(node.clone(), 1)], ..Offset::default() });
    }
    if !node.dtype().is_integer() || node.dtype().lanes() > 1 || node.dtype().is_unsigned() {
        return None;
    }
    let of = |k: usize| operand(&node.src()[k], range, inside, known);
    match node.op() {
        Op::Add => of(0)?.plus(of(1)?),
        Op::Mul => {
            let factor = node.src()[1].as_int().filter(|factor| *factor > 0)?;
            of(0)?.times(factor)
        }
        Op::Shl => {
            let bits = node.src()[1].as_int().filter(|bits| (0..32).contains(bits))?;
            of(0)?.times(1 << bits)
        }
        Op::Min => of(0)?.capped(node.src()[1].as_int()?),
        _ => None,
    }
}

impl Offset {
    fn plus(mut self, mut other: Offset) -> Option<Offset> {
        if self.cap.is_some() {
            std::mem::swap(&mut self, &mut other);
        }
        // Of a sum of two that stop somewhere, or of one and a loop outside, nobody knows where it stops.
        if self.cap.is_some() || (other.cap.is_some() && (self.step != 0 || !self.rest.is_empty())) {
            return None;
        }
        self.rest.append(&mut other.rest);
        Some(Offset {
            rest: self.rest,
            step: self.step.checked_add(other.step)?,
            cap: other.cap.map(|cap| cap.checked_add(self.constant)).map_or(Some(None), |cap| cap.map(Some))?,
            constant: self.constant.checked_add(other.constant)?,
        })
    }

    fn times(self, factor: i64) -> Option<Offset> {
        let scaled = |value: i64| value.checked_mul(factor);
        let cap = match self.cap {
            Some(cap) => Some(scaled(cap)?),
            None => None,
        };
        let rest: Option<Vec<(UOp, i64)>> =
            self.rest.into_iter().map(|(node, times)| Some((node, scaled(times)?))).collect();
        Some(Offset { rest: rest?, step: scaled(self.step)?, constant: scaled(self.constant)?, cap })
    }

    fn capped(self, cap: i64) -> Option<Offset> {
        if !self.rest.is_empty() {
            return None;
        }
        Some(Offset { cap: Some(self.cap.map_or(cap, |own| own.min(cap))), ..self })
    }
}

impl Writer {
    /// Writes the call that stands for a loop.
    pub(super) fn fill(&mut self, fill: &Fill) {
        let range = &fill.range;
        let Some(arg) = range.as_range() else { super::bug(range, "has no number") };
        let (name, integer) = (format!("%r{}", arg.id), spelling::register(range.dtype()));
        let (start, stop) = self.bounds(range, &name, &integer);
        self.set(range, start.clone());
        let first = self.address_of_fill(fill, &fill.first);
        let end = self.step(&name, "last", &format!("sub {integer} {stop}, 1"));
        self.set(range, end);
        let last = self.address_of_fill(fill, &fill.last);
        let [from, to] = [(&first, "from"), (&last, "to")]
            .map(|(address, word)| self.step(&name, word, &format!("ptrtoint ptr {address} to i64")));
        let apart = self.step(&name, "apart", &format!("sub i64 {to}, {from}"));
        let all = self.step(&name, "all", &format!("add i64 {apart}, {}", fill.vector_bytes));
        let runs = self.step(&name, "runs", &format!("icmp slt {integer} {start}, {stop}"));
        let bytes = self.step(&name, "bytes", &format!("select i1 {runs}, i64 {all}, i64 0"));
        self.line(&format!("call void @llvm.memset.p0.i64(ptr {first}, i8 0, i64 {bytes}, i1 false)"));
    }

    /// An address for what stands for the loop's variable now; where the loop does not run, it may lie outside of its buffer.
    fn address_of_fill(&mut self, fill: &Fill, index: &UOp) -> String {
        for node in &fill.offsets {
            self.micro_op(node);
        }
        let name = self.names.next(Op::Index);
        let (pointer, element) = (self.operand(&index.src()[0]), spelling::memory(index.src()[0].dtype().element()));
        let place = self.typed(&index.src()[1]);
        self.line(&format!("{name} = getelementptr {element}, ptr {pointer}, {place}"));
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_lists::{List, i64, source};
    use warpweft_compiler::ir::AxisKind;
    use warpweft_compiler::target::Target;

    /// A loop that stores vectors of 16 at these steps and constants, each no further than its cap; whether it is a call.
    fn is_call(value: f64, iterations: i64, step: i64, places: &[(i64, Option<i64>)]) -> bool {
        let mut list = List::default();
        let out = list.param(0, DType::F32, 1 << 20);
        let range = list.range(0, &i64(iterations), AxisKind::Loop);
        let begin = list.binary(Op::Mul, &range, &i64(step));
        for &(constant, cap) in places {
            let mut offset = list.binary(Op::Add, &begin, &i64(constant));
            if let Some(cap) = cap {
                offset = list.binary(Op::Min, &offset, &i64(cap));
            }
            list.store(&out, &offset, None, &UOp::float(value, DType::F32.with_lanes(16)));
        }
        list.end(&range);
        source(list, &Target::test_avx512()).contains("llvm.memset")
    }

    #[test]
    fn loops_that_leave_no_gap_are_calls() {
        assert!(is_call(0.0, 64, 32, &[(0, None), (16, None)]));
        assert!(is_call(0.0, 64, 32, &[(16, None), (0, None)]));
        assert!(is_call(0.0, 64, 24, &[(0, None), (16, None)]));
        assert!(is_call(0.0, 64, 32, &[(0, Some(2003)), (16, Some(2019))]));
        assert!(is_call(0.0, 64, 32, &[(0, Some(2003)), (16, Some(2003))]));
    }

    #[test]
    fn other_loops_stay() {
        // Numbers that are not made of zero bytes, gaps, steps that are too long or go nowhere, caps that leave gaps, and little memory.
        assert!(!is_call(1.0, 64, 32, &[(0, None), (16, None)]));
        assert!(!is_call(-0.0, 64, 32, &[(0, None), (16, None)]));
        assert!(!is_call(0.0, 64, 33, &[(0, None), (17, None)]));
        assert!(!is_call(0.0, 64, 33, &[(0, None), (16, None)]));
        assert!(!is_call(0.0, 64, 0, &[(0, None), (16, None)]));
        assert!(!is_call(0.0, 64, 32, &[(0, Some(2000)), (16, Some(2017))]));
        assert!(!is_call(0.0, 64, 32, &[(0, Some(2003)), (16, None)]));
        assert!(!is_call(0.0, 64, 32, &[(0, None), (16, Some(2003))]));
        assert!(!is_call(0.0, 31, 32, &[(0, None), (16, None)]));
    }
}
