//! Random programs in which a value is compared with itself: as it is, as memory holds it, through views, extremes, `argmax` and sorting, at
//! other indices and in reductions. Whatever kernels compute it, and however often, all of them must find the same bits.
//!
//! A program is a value made by ops whose results rounding decides (products and sums, elementary functions, half floats, sums), and
//! *claims* of it: roots of bools that are true everywhere if the value is one value. What claims compute is exact, so no tolerance is needed.

use warpweft_compiler::DType;
use warpweft_compiler::ir::text::Graph;
use warpweft_compiler::ir::{Dim, Op, ReduceOp, UOp};
use warpweft_compiler::ops::{indexing, reduce, sort};

use crate::block_programs::{attention, bounded, lens, normalised, product, shifted, softmax, spread};
use crate::choices::Choices;

/// Longest axis that is sorted: each element is compared with each.
const SORTED_MAX: i64 = 24;

/// A program, and what its roots claim.
pub struct SelfProgram {
    /// Its first roots are bools, all true; those behind are values that only change what kernels there are.
    pub graph: Graph,
    /// What each of the first roots claims.
    pub claims: Vec<String>,
}

/// A value of a few ops and claims of it.
pub fn self_program(choices: &mut Choices<'_>) -> SelfProgram {
    let value = Maker::new(choices, true).value(choices);
    let mut claims: Vec<(String, UOp)> = Vec::new();
    for _ in 0..choices.between(1, 3) {
        let moved = moved(choices, &value);
        claims.extend(claim(choices, &moved));
    }
    if claims.is_empty() {
        // A program without a claim would agree with anything.
        claims.push(("what memory holds is the value".to_string(), same(&value, &value.contiguous())));
    }
    // Others who ask for the value, as outputs do, make other kernels of it.
    let mut roots: Vec<UOp> = claims.iter().map(|(_, root)| root.clone()).collect();
    if choices.once_in(2) {
        roots.push(&value * 3);
    }
    if choices.once_in(3) {
        roots.push(value.clone());
    }
    if choices.once_in(3) {
        roots.push(value.cast(DType::F32).reduce(ReduceOp::Add, &[choices.between(0, 2) as usize]));
    }
    SelfProgram { graph: Graph::new("itself", roots), claims: claims.into_iter().map(|(text, _)| text).collect() }
}

/// A value of elementwise ops and views that the interpreter defines to the bit: one root.
pub fn exact_program(choices: &mut Choices<'_>) -> Graph {
    let value = Maker::new(choices, false).value(choices);
    Graph::new("exact", [moved(choices, &value)])
}

/// Makes values of one shape [batch, rows, width].
struct Maker {
    shape: [i64; 3],
    dtype: DType,
    slots: u32,
    /// Whether sums and elementary functions may be among the ops.
    rounds_freely: bool,
}

impl Maker {
    fn new(choices: &mut Choices<'_>, rounds_freely: bool) -> Maker {
        let types = [DType::F32, DType::F32, DType::F32, DType::F16, DType::BF16, DType::F64];
        Maker {
            shape: [
                choices.between(1, 4),
                *choices.one_of(&[1, 2, 5, 8, 16, 17, 24, 33]),
                *choices.one_of(&[1, 3, 4, 8, 16, 20, 32, 45]),
            ],
            dtype: *choices.one_of(&types),
            slots: 0,
            rounds_freely,
        }
    }

    /// An input of the shape, or of some axes of it and the same along the others.
    fn input(&mut self, choices: &mut Choices<'_>) -> UOp {
        let spread = choices.between(0, 5);
        let kept = |axis: i64| spread > 3 || spread == axis;
        let shape: Vec<i64> = (0..3).map(|axis| if kept(axis) { self.shape[axis as usize] } else { 1 }).collect();
        self.slots += 1;
        let len = shape.iter().product::<i64>() as u64;
        UOp::param(self.slots - 1, self.dtype, len).reshape(shape).expand(self.shape)
    }

    fn value(&mut self, choices: &mut Choices<'_>) -> UOp {
        let mut values = vec![self.input(choices)];
        for _ in 0..choices.between(1, 4) {
            let x = choices.one_of(&values).clone();
            let y = if choices.once_in(2) { self.input(choices) } else { choices.one_of(&values).clone() };
            let new = self.step(choices, &x, &y);
            values.push(new);
        }
        values.pop().unwrap_or_else(|| UOp::float(0.0, self.dtype))
    }

    fn number(&self, choices: &mut Choices<'_>) -> UOp {
        UOp::float(*choices.one_of(&[0.1, 0.3, -1.7, 0.7, 3.3, -0.01]), self.dtype)
    }

    fn step(&mut self, choices: &mut Choices<'_>, x: &UOp, y: &UOp) -> UOp {
        let most = if self.rounds_freely { 15 } else { 8 };
        let single = if self.dtype == DType::F64 { DType::F64 } else { DType::F32 };
        let wide = |value: &UOp| value.cast(single);
        let axis = choices.between(0, 2) as usize;
        match choices.between(0, most) {
            // Products in sums, in all the ways that a machine could contract.
            0 => x + y * self.input(choices),
            1 => x * y - self.input(choices),
            2 => self.input(choices) - x * y,
            3 => x * self.number(choices) + y * self.number(choices),
            4 => (x + self.number(choices)).div(bounded(y).max(UOp::float(0.25, self.dtype))),
            5 => x.muladd(y, &self.input(choices)).sqrt().max(x).min(UOp::float(30.0, self.dtype)),
            6 => (x.lt(y)).select(x * y, x - y * self.number(choices)),
            7 => UOp::binary(*choices.one_of(&[Op::Max, Op::Min]), &(x * y), &shifted(x, axis)),
            8 => (x.cast(DType::F16) * y.cast(DType::F16) + x.cast(DType::F16)).cast(self.dtype),
            9 => bounded(x).exp2() * y + bounded(y).sin(),
            10 => (bounded(x) + UOp::float(3.0, self.dtype)).log2() * UOp::float(1.7, self.dtype).exp2() + y,
            11 => softmax(&wide(x), axis).cast(self.dtype) + y,
            12 => normalised(&wide(x), axis).cast(self.dtype) * y,
            13 => x - spread(&wide(y), ReduceOp::Add, &[axis]).cast(self.dtype) * self.number(choices),
            14 => {
                let weight = self.input(choices).permute(&[0, 2, 1]);
                let scores = product(&wide(x), &wide(&weight));
                product(&bounded(&(scores * UOp::float(0.1, wide(x).dtype()))), &wide(y)).cast(self.dtype)
            }
            _ => attention(&wide(x), &wide(y), &wide(&self.input(choices))).cast(self.dtype),
        }
    }
}

/// The value through a few views, which keep its elements or leave some out.
fn moved(choices: &mut Choices<'_>, value: &UOp) -> UOp {
    let mut value = value.clone();
    for _ in 0..choices.between(0, 2) {
        let shape = lens(&value);
        let axis = choices.between(0, 2) as usize;
        value = match choices.between(0, 3) {
            0 => value.flip(&[axis]),
            1 => value.permute(&choices.one_of(&[[1, 0, 2], [0, 2, 1], [2, 1, 0], [1, 2, 0]])[..]),
            2 => shifted(&value, axis),
            _ => {
                let start = choices.between(0, shape[axis] - 1);
                let part = |(k, len): (usize, i64)| {
                    let (from, to) = if k == axis { (start, len) } else { (0, len) };
                    (Dim::from(from), Dim::from(to))
                };
                value.shrink(&shape.into_iter().enumerate().map(part).collect::<Vec<_>>())
            }
        };
    }
    value
}

/// A claim of a value, true everywhere; none where it does not fit the shape.
fn claim(choices: &mut Choices<'_>, value: &UOp) -> Option<(String, UOp)> {
    let axis = choices.between(0, 2) as usize;
    let stored = value.contiguous();
    let len = lens(value)[axis];
    let found = match choices.between(0, 8) {
        0 => Some(("what memory holds is the value", same(value, &stored))),
        1 => Some((
            "a transposed value is its stored elements",
            same(&value.permute(&[2, 0, 1]), &stored.permute(&[2, 0, 1])),
        )),
        2 => Some((
            "a flipped, padded value is its stored elements",
            same(&shifted(&value.flip(&[axis]), axis), &shifted(&stored.flip(&[axis]), axis)),
        )),
        3 => {
            let op = *choices.one_of(&[ReduceOp::Max, ReduceOp::Min]);
            Some(("some element is the extreme", any(&is(value, &spread(value, op, &[axis])), axis)))
        }
        4 => {
            let op = *choices.one_of(&[ReduceOp::Max, ReduceOp::Min]);
            Some((
                "extremes of the value and of its stored elements agree",
                same(&spread(value, op, &[axis]), &spread(&stored, op, &[axis])),
            ))
        }
        5 => Some(("the element at argmax is the largest", extreme_by_index(value, axis))),
        6 if len <= SORTED_MAX => Some(("sorted elements are in order, and ends are extremes", sorted(value, axis))),
        7 => windows(value, axis).map(|claim| ("each window of two holds its maximum", claim)),
        _ => {
            let differing = same(value, &stored).equals(UOp::bool(false)).cast(DType::I32);
            let all: Vec<usize> = vec![0, 1, 2];
            Some(("no element differs from what memory holds", differing.reduce(ReduceOp::Add, &all).equals(0)))
        }
    };
    found.map(|(text, root)| (text.to_string(), root))
}

/// Where two values are equal to the bit, NaN being one value.
fn same(a: &UOp, b: &UOp) -> UOp {
    let bits = match a.dtype().bytes() {
        2 => DType::I16,
        8 => DType::I64,
        _ => DType::I32,
    };
    let nan = a.differs(a).and(&b.differs(b));
    a.bitcast(bits).equals(b.bitcast(bits)).or(&nan)
}

/// Where two values are equal as numbers, or both none.
fn is(a: &UOp, b: &UOp) -> UOp {
    a.equals(b).or(&a.differs(a).and(&b.differs(b)))
}

fn any(flags: &UOp, axis: usize) -> UOp {
    flags.reduce(ReduceOp::Max, &[axis])
}

/// What is claimed must not go away with an op that fails.
const DEFINED: &str = "it is defined on every value here";

fn extreme_by_index(value: &UOp, axis: usize) -> UOp {
    let at = reduce::argmax(value, Some(axis as i64), true).expect(DEFINED);
    let found = indexing::gather(value, &at, axis as i64).expect(DEFINED);
    is(&found, &reduce::max(value, &[axis as i64], true).expect(DEFINED))
}

fn sorted(value: &UOp, axis: usize) -> UOp {
    let (sorted, _) = sort::sort(value, axis as i64, false).expect(DEFINED);
    let ends = |from: i64, to: i64| {
        let each = lens(&sorted).into_iter().enumerate();
        let bounds = each
            .map(|(k, len)| if k == axis { (Dim::from(from), Dim::from(to)) } else { (Dim::from(0), Dim::from(len)) });
        sorted.shrink(&bounds.collect::<Vec<_>>())
    };
    let len = lens(value)[axis];
    let largest = reduce::max(value, &[axis as i64], true).expect(DEFINED);
    let in_order = ends(1, len).lt(&ends(0, len - 1)).equals(UOp::bool(false));
    let in_order = any(&in_order.equals(UOp::bool(false)), axis).equals(UOp::bool(false));
    let last = is(&ends(len - 1, len), &largest).reshape(in_order.shape().clone());
    if len < 2 { last } else { last.and(&in_order) }
}

/// Windows of two elements along an axis, as pooling makes them.
fn windows(value: &UOp, axis: usize) -> Option<UOp> {
    let mut shape = lens(value);
    if shape[axis] % 2 != 0 {
        return None;
    }
    shape[axis] /= 2;
    shape.insert(axis + 1, 2);
    let cut = value.reshape(shape);
    Some(any(&is(&cut, &spread(&cut, ReduceOp::Max, &[axis + 1])), axis + 1))
}
