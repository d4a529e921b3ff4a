//! Loops that fill consecutive memory, with zeros or from other consecutive memory: they become one call of the C library's `memset` or `memcpy`, which know beforehand how much
//! memory they write, so that lines are not read before they are written.
//!
//! ```text
//! for r in 0..n { store p[64 r], 0; store p[64 r + 16], 0; .. }                  fill p[0..64 n] with zeros
//! for r in 0..n { store p[64 r], load q[a + 64 r]; .. }                          copy q[a..a + 64 n] to p[0..64 n]
//! ```
//!
//! One core with AVX-512 took 74 us for 8 MiB by stores of vectors and 65 us by `memset`; for 32 MiB, which is more than its caches hold, 1.29 ms and 0.39 ms. Rows of 52 to 768
//! numbers that lie apart were copied 1.0 to 1.2 times as fast by `memcpy` (the same loops in C, Zen 3).
//!
//! A loop is one if it stores nothing but zeros, or nothing but what it loads from one other buffer at an offset that depends on numbers in memory, without a gate, each vector at an offset `rest + min(step * r + constant, cap)` (the
//! rest and the cap may be left out), and the vectors leave no gap: ordered by their constants, neighbours and their caps are at most a vector apart, and so is the first one of the next iteration
//! from the last. Then what is filled lies between the first vector of the first iteration and the last one of the last. What is copied lies as it is stored: each
//! load is as far from its store as all others are.
//!
//! Tested below, and by values in the test crate (`writes`).

use std::ops::RangeInclusive;

use rustc_hash::{FxHashMap, FxHashSet};
use warpweft_compiler::ir::{Arg, postorder};
use warpweft_compiler::{DType, Op, UOp};

use super::guards::{Assumption, Gate, gate_under};
use super::{Writer, spelling};

/// Bytes of zeros from which on a call pays.
const BYTES_MIN: i64 = 4096;
/// Bytes of copies that are calls. Fewer are some vectors, which stay as they are; of more, `memcpy` lets the processor's own instruction for copies do the work (`rep movsb`), which some
/// processors do ten times slower where both addresses are alike within their pages (Zen 4: glibc's bug 30994).
const COPIED_BYTES: RangeInclusive<i64> = 128..=4096;

/// A loop that fills memory.
#[derive(Clone)]
pub(super) struct Fill {
    range: UOp,
    /// What computes offsets in it, in order.
    offsets: Vec<UOp>,
    /// The address of the first vector of an iteration, and that of the last.
    first: UOp,
    last: UOp,
    /// The address of what the first vector of an iteration is a copy of; none where zeros are stored.
    from: Option<UOp>,
    vector_bytes: i64,
    /// How many of the list's micro-ops it stands for.
    pub(super) len: usize,
}

/// An offset in a loop: `rest + min(step * r + constant, cap)`, where the rest stays as it is in the loop.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Offset {
    rest: Vec<(UOp, i64)>,
    step: i64,
    constant: i64,
    cap: Option<i64>,
}

/// A vector that is stored.
struct Stored<'l> {
    offset: Offset,
    index: &'l UOp,
    /// Where it was loaded from, and the offset of that.
    from: Option<(Offset, &'l UOp)>,
}

/// The loop that a list begins with, if it fills memory. Of gates in it, `assumed` are known.
pub(super) fn find(ops: &[UOp], assumed: Option<&Assumption>) -> Option<Fill> {
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
            Op::Index | Op::Load | Op::Splat => {}
            Op::Const => offsets.push(node.clone()),
            Op::Store => stores.push(node),
            _ => {
                let offset = offset_of(node, range, &inside, &known)?;
                known.insert(node, offset);
                offsets.push(node.clone());
            }
        }
    }
    let first_store = stores.first()?;
    let (vector, buffer) = (first_store.src()[1].dtype(), &first_store.src()[0].src()[0]);
    let mut vectors: Vec<Stored<'_>> = Vec::new();
    for store in &stores {
        let index = &store.src()[0];
        if store.src()[1].dtype() != vector || index.src()[0] != *buffer || !is_plain(store, assumed) {
            return None;
        }
        let from = match origin_of(&store.src()[1], &inside, assumed)? {
            Origin::Zeros => None,
            Origin::Loaded(from) => Some((operand(&from.src()[1], range, &inside, &known)?, from)),
        };
        vectors.push(Stored { offset: operand(&index.src()[1], range, &inside, &known)?, index, from });
    }
    vectors.sort_by_key(|stored| stored.offset.constant);
    let lanes = vector.lanes() as i64;
    let (first, last) = (vectors.first()?, vectors.last()?);
    let has_no_gap = vectors.windows(2).all(|pair| is_next(&pair[0].offset, &pair[1].offset, lanes));
    let step_max = last.offset.constant.checked_sub(first.offset.constant)?.checked_add(lanes)?;
    let bytes = first.offset.step.checked_mul(range.src()[0].max_value())?.checked_mul(vector.bytes() as i64)?;
    let fills = has_no_gap && (1..=step_max).contains(&first.offset.step) && pays(first, bytes);
    (fills && lies_alike(&vectors)).then(|| Fill {
        range: range.clone(),
        offsets,
        first: first.index.clone(),
        last: last.index.clone(),
        from: first.from.as_ref().map(|(_, from)| (*from).clone()),
        vector_bytes: lanes * vector.bytes() as i64,
        len: len + 2,
    })
}

/// Whether a call pays for so many bytes, of which this is the first vector. What is read in order a processor foresees by itself: copies are those of rows that lie where numbers in memory say.
fn pays(first: &Stored<'_>, bytes: i64) -> bool {
    let is_chosen = |offset: &Offset| {
        let parts: Vec<UOp> = offset.rest.iter().map(|(node, _)| node.clone()).collect();
        postorder(&parts).iter().any(|node| node.op() == Op::Load)
    };
    match &first.from {
        None => bytes >= BYTES_MIN,
        Some((offset, _)) => COPIED_BYTES.contains(&bytes) && is_chosen(offset),
    }
}

/// Whether all is zeros, or all is loaded from another buffer as far from where it is stored.
fn lies_alike(vectors: &[Stored<'_>]) -> bool {
    let Some(first) = vectors.first() else { return false };
    let Some((first_offset, first_from)) = &first.from else {
        return vectors.iter().all(|stored| stored.from.is_none());
    };
    let buffers = [&first_from.src()[0], &first.index.src()[0]];
    let is_apart =
        buffers[0] != buffers[1] && buffers.iter().all(|buffer| matches!(buffer.op(), Op::Param | Op::Scratch));
    let element = buffers.map(|buffer| buffer.dtype().element());
    let distance = |stored: &Offset, from: &Offset| {
        let of_caps = match (stored.cap, from.cap) {
            (None, None) => None,
            (Some(stored), Some(from)) => Some(from.checked_sub(stored)?),
            _ => return None,
        };
        let of_constants = from.constant.checked_sub(stored.constant)?;
        (stored.step == from.step && of_caps.is_none_or(|caps| caps == of_constants)).then_some(of_constants)
    };
    let Some(apart) = distance(&first.offset, first_offset) else { return false };
    let is_alike = |stored: &Stored<'_>| {
        stored.from.as_ref().is_some_and(|(offset, from)| {
            from.src()[0] == *buffers[0]
                && offset.rest == first_offset.rest
                && distance(&stored.offset, offset) == Some(apart)
        })
    };
    // Memory holds booleans as bytes, and a load makes 1 of each that is not 0.
    is_apart && element[0] == element[1] && element[0] != DType::BOOL && vectors.iter().all(is_alike)
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

/// Whether a store is of consecutive elements, under no gate.
fn is_plain(store: &UOp, assumed: Option<&Assumption>) -> bool {
    let [index, _] = store.src() else { return false };
    let is_consecutive = index.src()[1].dtype().lanes() == 1;
    is_consecutive && *store.arg() == Arg::None && gate_under(index, assumed) == Gate::Holds
}

/// Where what a loop stores comes from.
enum Origin<'l> {
    Zeros,
    /// An address in the loop.
    Loaded(&'l UOp),
}

/// Where a value comes from, if it is zeros wherever the loop comes by, or loaded in it.
fn origin_of<'l>(value: &'l UOp, inside: &FxHashSet<&UOp>, assumed: Option<&Assumption>) -> Option<Origin<'l>> {
    let dtype = value.dtype();
    match value.op() {
        Op::Const => {
            let scalar = value.as_scalar()?;
            let is_zero = scalar.to_bits(dtype.element()) == 0;
            is_zero.then_some(Origin::Zeros)
        }
        Op::Load if inside.contains(value) => {
            let index = &value.src()[0];
            match gate_under(index, assumed) {
                Gate::Fails => Some(Origin::Zeros),
                Gate::Holds if index.src()[1].dtype().lanes() == 1 => Some(Origin::Loaded(index)),
                _ => None,
            }
        }
        _ => None,
    }
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
        // Of a sum of two that stop somewhere, or of one and the loop's variable, nobody knows where it stops.
        if self.cap.is_some() || (other.cap.is_some() && self.step != 0) {
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
        let (name, integer) = (format!("%r{}{}", arg.id, self.version()), spelling::register(range.dtype()));
        let (start, stop) = self.bounds(range, &name, &integer);
        self.set(range, start.clone());
        let first = self.address_of_fill(fill, &fill.first);
        let origin = fill.from.as_ref().map(|from| (self.address_of_fill(fill, from), from.src()[0].dtype().element()));
        let end = self.step(&name, "last", &format!("sub {integer} {stop}, 1"));
        self.set(range, end);
        let last = self.address_of_fill(fill, &fill.last);
        let [from, to] = [(&first, "from"), (&last, "to")]
            .map(|(address, word)| self.step(&name, word, &format!("ptrtoint ptr {address} to i64")));
        let apart = self.step(&name, "apart", &format!("sub i64 {to}, {from}"));
        let all = self.step(&name, "all", &format!("add i64 {apart}, {}", fill.vector_bytes));
        let runs = self.step(&name, "runs", &format!("icmp slt {integer} {start}, {stop}"));
        let bytes = self.step(&name, "bytes", &format!("select i1 {runs}, i64 {all}, i64 0"));
        match origin {
            None => self.line(&format!("call void @llvm.memset.p0.i64(ptr {first}, i8 0, i64 {bytes}, i1 false)")),
            Some((from, element)) => {
                let align = element.bytes();
                let pointers = format!("ptr align {align} {first}, ptr align {align} {from}");
                self.line(&format!("call void @llvm.memcpy.p0.p0.i64({pointers}, i64 {bytes}, i1 false)"));
            }
        }
    }

    /// An address for what stands for the loop's variable now; where the loop does not run, it may lie outside of its buffer.
    fn address_of_fill(&mut self, fill: &Fill, index: &UOp) -> String {
        for node in &fill.offsets {
            self.micro_op(node);
        }
        let name = self.names.next(Op::Index);
        let (pointer, element) = (self.operand(&index.src()[0]), spelling::memory(index.src()[0].dtype().element()));
        let offset = self.typed(&index.src()[1]);
        self.line(&format!("{name} = getelementptr {element}, ptr {pointer}, {offset}"));
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
    fn is_call(value: f64, iterations: i64, step: i64, offsets: &[(i64, Option<i64>)]) -> bool {
        let mut list = List::default();
        let out = list.param(0, DType::F32, 1 << 20);
        let range = list.range(0, &i64(iterations), AxisKind::Loop);
        let begin = list.binary(Op::Mul, &range, &i64(step));
        for &(constant, cap) in offsets {
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

    /// A loop that copies a row of so many vectors from an offset that memory holds: as it stands, and with what is told apart.
    fn source_of_copy(vectors: i64, apart: i64, chosen: bool, bool_gate: bool) -> String {
        let mut list = List::default();
        let (out, rows) = (list.param(0, DType::F32, 1 << 20), list.param(1, DType::F32, 1 << 20));
        let numbers = list.param(2, DType::I64, 16);
        let chosen_begin = list.load(&numbers, 1, &i64(3), None);
        let begin = if chosen { chosen_begin.clone() } else { i64(512) };
        let gate = list.binary(Op::Lt, &chosen_begin, &i64(1 << 19));
        let gate = list.splat(&gate, 16);
        let range = list.range(0, &i64(vectors / 2), AxisKind::Loop);
        let to = list.binary(Op::Mul, &range, &i64(32));
        for constant in [0, 16] {
            let to = list.binary(Op::Add, &to, &i64(constant));
            let from = list.binary(Op::Add, &to, &begin);
            let from = list.binary(Op::Add, &from, &i64(if constant == 16 { apart } else { 0 }));
            let row = list.load(&rows, 16, &from, Some(&gate).filter(|_| bool_gate));
            list.store(&out, &to, None, &row);
        }
        list.end(&range);
        source(list, &Target::test_avx512())
    }

    #[test]
    fn rows_that_memory_chooses_are_copied_by_calls() {
        let is_call =
            |vectors, apart, chosen, gate| source_of_copy(vectors, apart, chosen, gate).contains("llvm.memcpy");
        assert!(is_call(8, 0, true, false) && is_call(64, 0, true, false));
        // Under a gate, too, and then zeros where it does not hold.
        let gated = source_of_copy(64, 0, true, true);
        assert!(gated.contains("llvm.memcpy") && gated.contains("llvm.memset") && !gated.contains("%zeros"), "{gated}");
        // Parts that lie otherwise than they are stored, long and short rows, and what is read in order.
        assert!(!is_call(8, 1, true, false) && !is_call(8, -16, true, false));
        assert!(!is_call(66, 0, true, false) && !is_call(8, 0, false, false));
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
