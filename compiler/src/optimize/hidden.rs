//! Loops of reductions run over the iterations that a mask does not hide, and over no others.
//!
//! ```text
//! for r0 in 0..64 { reduce r1 in 0..64 { where(r0 < r1, 0, x[r0, r1]) } }        the lower triangle of a matrix, summed along its rows
//! for r0 in 0..64 { reduce r1 in 0..r0 + 1 { x[r0, r1] .. } }
//!
//! for tiles r1 in 0..22 { reduce blocks r3 in 0..4 { .. where(r1 * 96 + r11 < r3 * 512 + r7, -inf, score) .. } }         attention
//! for tiles r1 in 0..22 { reduce blocks r3 in 0..(r1 * 96 + 95) / 512 + 1 { .. } }
//! ```
//!
//! An iteration is *hidden* if what the reduction combines in it is what changes nothing: 0 of a sum, minus infinity of a maximum, a state whose largest exponent is
//! minus infinity. That is read off choices between this constant and another value by comparisons of indices, and off gates of loads. What lies between the hidden
//! iterations at both ends is *seen*: bounds in terms of the loops around alone, which hold whatever the loops inside do.
//!
//! Always: each iteration that counts runs, in the same order, and one runs in any case, so that accumulations begin. What is hidden is not computed: a choice does not see
//! it, so sums and maxima keep their values, infinite ones and NaN too; zero times a float is no constant, and hides nothing. States of attention weigh what
//! is hidden with 0, and here not at all: an infinite value there makes no NaN. Where little would be saved a loop stays as it is. Tested below, by values in the test crate
//! (`it/triangles.rs`, `it/attention.rs`), and by random kernels.

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::smallvec;

use crate::DType;
use crate::dtype::Scalar;
use crate::ir::{Arg, AxisKind, Combiner, Combining, Op, UOp, evaluate, postorder};
use crate::kernel::ranges::{
    Dependencies, NewRanges, RangeSet, closed_ranges, is_loop_end, range_id, substitute_ranges,
};
use crate::symbolic::{linear_terms, simplify};

/// Part of the iterations, on average, that may be left for another length to be worth it.
const SEEN_MOST: f64 = 0.75;
/// Iterations without loops inside for which a length that is no constant is worth it.
const ITERATIONS_MIN: i64 = 16;
/// Iterations of each loop around of which the average is taken, and how many loops vary for it.
const SAMPLES: usize = 8;
const SAMPLED_LOOPS: usize = 3;

/// The kernel with loops of reductions over what masks let them see.
pub fn run_over_what_is_seen(root: &UOp) -> UOp {
    let mut root = root.clone();
    let mut asked: FxHashSet<u32> = FxHashSet::default();
    while let Some((range, seen)) = first_masked(&root, &mut asked) {
        let map = [(range, seen)].into_iter().collect();
        root = simplify(&substitute_ranges(&root, &map));
    }
    root
}

/// A loop of reductions of which much is hidden, outer loops first, and what takes its place. None is asked twice.
fn first_masked(root: &UOp, asked: &mut FxHashSet<u32>) -> Option<(UOp, NewRanges)> {
    let dependencies = Dependencies::of(root);
    let ends: Vec<&UOp> = dependencies.order.iter().filter(|node| is_loop_end(node)).collect();
    let is_reduced = |range: &&UOp| range.as_range().is_some_and(|arg| arg.kind == AxisKind::Reduce);
    let ranges: Vec<&UOp> = ends.iter().rev().flat_map(|end| closed_ranges(end)).filter(is_reduced).collect();
    ranges.into_iter().find_map(|range| {
        if !asked.insert(range_id(range)) {
            return None;
        }
        let own: Vec<&UOp> = ends.iter().filter(|end| closed_ranges(end).contains(range)).copied().collect();
        let holds_loops = ends.iter().any(|end| dependencies.get(end).contains(range_id(range)));
        let is_long = holds_loops || range.src()[0].max_value() >= ITERATIONS_MIN;
        let mask = Mask { range, outside: around(&own, &dependencies), dependencies: &dependencies };
        let seen = own.iter().map(|end| mask.seen_of(end)).reduce(Seen::of_one).filter(|_| is_long)?;
        // What accumulates in memory would be added to what was there if it had no loop any more.
        let needs_loop = own.iter().any(|end| end.op() == Op::Store);
        seen.into_loop(range).filter(|(_, new)| !(needs_loop && new.ranges.is_empty()))
    })
}

/// Loops that all of some loop ends stand in; copies, lanes and threads of a block are none: the threads of a block meet in loops, so each runs as often as the others.
fn around(ends: &[&UOp], dependencies: &Dependencies) -> RangeSet {
    let mut common = RangeSet::default();
    let is_loop = |range: &&UOp| {
        use AxisKind::{Grid, Loop, Parallel, Reduce, Serial};
        range.as_range().is_some_and(|arg| matches!(arg.kind, Parallel | Loop | Reduce | Serial | Grid(_)))
    };
    let loops = dependencies.order.iter().filter(is_loop).map(range_id);
    loops.filter(|id| ends.iter().all(|end| dependencies.get(end).contains(*id))).for_each(|id| common.insert(id));
    common
}

/// Iterations of a loop that may be seen: from `begin` on and before `end`, where these are known. They are indices, perhaps beyond the loop's.
#[derive(Clone, Default)]
struct Seen {
    begin: Option<UOp>,
    end: Option<UOp>,
}

impl Seen {
    /// All that one of two sees.
    fn of_one(self, other: Seen) -> Seen {
        let both = |a: Option<UOp>, b: Option<UOp>, choose: fn(&UOp, &UOp) -> UOp| Some(choose(&a?, &b?));
        Seen { begin: both(self.begin, other.begin, smaller), end: both(self.end, other.end, larger) }
    }

    /// What both see.
    fn of_both(self, other: Seen) -> Seen {
        let either = |a: Option<UOp>, b: Option<UOp>, choose: fn(&UOp, &UOp) -> UOp| match (a, b) {
            (Some(a), Some(b)) => Some(choose(&a, &b)),
            (a, b) => a.or(b),
        };
        Seen { begin: either(self.begin, other.begin, larger), end: either(self.end, other.end, smaller) }
    }

    /// The loop over these iterations in place of one over all, if much is saved; none if it is one iteration in any case.
    fn into_loop(self, range: &UOp) -> Option<(UOp, NewRanges)> {
        let (len, arg) = (&range.src()[0], range.as_range()?);
        let last = len.as_int().map(|len| len - 1);
        let begin = self.begin.zip(last).map(|(begin, last)| simplify(&begin.max(0).min(last)));
        let end = simplify(&match self.end {
            Some(end) => end.max(1).min(len),
            None => len.clone(),
        });
        let seen_len = match &begin {
            Some(begin) => simplify(&(&end - begin).max(1)),
            None => end,
        };
        let share = average(&seen_len)? / len.max_value() as f64;
        let begin = begin.unwrap_or_else(|| UOp::index(0));
        let new = match seen_len.is_const(1) {
            true => NewRanges { value: begin, ranges: smallvec![] },
            false => {
                let index = UOp::range(seen_len, arg.id, arg.kind);
                NewRanges { value: simplify(&(begin + &index)), ranges: smallvec![index] }
            }
        };
        (share <= SEEN_MOST).then(|| (range.clone(), new))
    }
}

fn larger(a: &UOp, b: &UOp) -> UOp {
    if a == b { a.clone() } else { a.max(b) }
}

fn smaller(a: &UOp, b: &UOp) -> UOp {
    if a == b { a.clone() } else { a.min(b) }
}

/// What a length is on average over the loops that it names; variables have their largest values. None if it names something else.
fn average(len: &UOp) -> Option<f64> {
    let leaves: Vec<UOp> = postorder(std::slice::from_ref(len))
        .into_iter()
        .filter(|node| matches!(node.op(), Op::Range | Op::Variable))
        .collect();
    let varied = leaves.iter().filter(|leaf| leaf.op() == Op::Range).count().min(SAMPLED_LOOPS);
    let count = SAMPLES.pow(varied as u32);
    let mut total = 0.0;
    for sample in 0..count {
        let mut values: FxHashMap<&UOp, Scalar> = FxHashMap::default();
        let mut rest = sample;
        // A loop comes behind those that its length names.
        for leaf in &leaves {
            let value = match leaf.op() {
                Op::Range => {
                    let trips = evaluate(&leaf.src()[0], |leaf| values.get(leaf).copied())?.to_i64();
                    let step = rest % SAMPLES;
                    rest /= SAMPLES;
                    (trips - 1).max(0) * step as i64 / (SAMPLES - 1) as i64
                }
                _ => leaf.max_value(),
            };
            values.insert(leaf, Scalar::Int(value));
        }
        total += evaluate(len, |leaf| values.get(leaf).copied())?.to_i64() as f64;
    }
    Some(total / count as f64)
}

/// Arithmetic of integers that are made of indices as one of indices, where the type holds all that it comes to.
fn as_index(value: &UOp) -> Option<UOp> {
    let dtype = value.dtype();
    if dtype.is_index() {
        return Some(value.clone());
    }
    if !dtype.is_integer() || dtype == DType::U64 {
        return None;
    }
    let index = match (value.op(), value.src()) {
        (Op::Const, _) => UOp::index(value.as_int()?),
        (Op::Cast, [a]) => as_index(a)?,
        (Op::Add | Op::Sub | Op::Mul, [a, b]) => UOp::binary(value.op(), &as_index(a)?, &as_index(b)?),
        _ => return None,
    };
    let (lowest, highest) = (Scalar::lowest(dtype).to_i64(), Scalar::highest(dtype).to_i64());
    (lowest <= index.min_value() && index.max_value() <= highest).then_some(index)
}

/// What hides iterations of a loop.
struct Mask<'k> {
    range: &'k UOp,
    /// Loops that lengths may name.
    outside: RangeSet,
    dependencies: &'k Dependencies,
}

impl Mask<'_> {
    /// The iterations that may change what a loop end combines.
    fn seen_of(&self, end: &UOp) -> Seen {
        let Some(combining) = Combining::of(end) else { return Seen::default() };
        // Behind the value of a component stand those that it is combined from, the first one first.
        let value = match (end.op(), combining) {
            (Op::ReduceRange, _) => end.src().first(),
            (Op::Store, Combining::Several(component)) if component.number > 0 => end.src().get(2),
            _ => end.src().get(1),
        };
        let Some((constant, seen)) = value.and_then(|value| self.hidden(value)) else { return Seen::default() };
        let dtype = value.map_or(end.dtype(), UOp::dtype).element();
        let changes_nothing = match combining {
            Combining::One(op) => constant == op.identity(dtype),
            Combining::Several(component) => {
                let is_weighed = matches!(component.combiner, Combiner::LogSumExp | Combiner::SoftmaxSum);
                is_weighed && constant == component.combiner.identity(0, dtype)
            }
        };
        if changes_nothing { seen } else { Seen::default() }
    }

    fn varies(&self, value: &UOp) -> bool {
        self.dependencies.get(value).contains(range_id(self.range))
    }

    /// The constant that a value is in hidden iterations, and what is seen.
    fn hidden(&self, value: &UOp) -> Option<(Scalar, Seen)> {
        if !self.varies(value) {
            return None;
        }
        match (value.op(), value.src()) {
            (Op::Where, [condition, a, b]) => self.hidden_choice(condition, a, b),
            (Op::Load, [index]) => match index.src() {
                [_, _, gate] => Some((Scalar::zero(value.dtype()), self.decided(gate, false))),
                [buffer, _] if buffer.op() == Op::LocalBuffer => match buffer.src() {
                    [store] if Combining::of(store).is_none() && store.src()[0].src().len() == 2 => {
                        self.hidden(&store.src()[1])
                    }
                    _ => None,
                },
                _ => None,
            },
            (Op::ReduceRange, [of_each, ..]) => match Combining::of(value)? {
                Combining::One(op) => {
                    self.hidden(of_each).filter(|(constant, _)| *constant == op.identity(of_each.dtype().element()))
                }
                Combining::Several(_) => None,
            },
            (op, operands) if op.is_elementwise() => self.hidden_result(value, operands),
            _ => None,
        }
    }

    /// Of a choice that is decided for a constant, or of which both sides are hidden.
    fn hidden_choice(&self, condition: &UOp, a: &UOp, b: &UOp) -> Option<(Scalar, Seen)> {
        let (constant, other, wanted) = match (a.arg(), b.arg()) {
            (Arg::Scalar(constant), _) if a.op() == Op::Const => (*constant, b, true),
            (_, Arg::Scalar(constant)) if b.op() == Op::Const => (*constant, a, false),
            _ => {
                let ((first, a), (second, b)) = (self.hidden(a)?, self.hidden(b)?);
                return (first == second).then(|| (first, a.of_one(b)));
            }
        };
        let seen = self.decided(condition, wanted);
        match self.hidden(other).filter(|(same, _)| *same == constant) {
            Some((_, also)) => Some((constant, seen.of_both(also))),
            None => Some((constant, seen)),
        }
    }

    /// Of an op on what is constant or hidden; of integers zero times anything.
    fn hidden_result(&self, value: &UOp, operands: &[UOp]) -> Option<(Scalar, Seen)> {
        if let (Op::Mul, [a, b], false) = (value.op(), operands, value.dtype().is_float()) {
            let zero = Scalar::zero(value.dtype());
            let of = |factor: &UOp| self.hidden(factor).filter(|(constant, _)| *constant == zero);
            if let Some((_, seen)) = of(a).or_else(|| of(b)) {
                return Some((zero, seen));
            }
        }
        let mut all: Option<Seen> = None;
        let mut constants = Vec::with_capacity(operands.len());
        for operand in operands {
            constants.push(match operand.op() {
                Op::Const => operand.clone(),
                _ => {
                    let (constant, seen) = self.hidden(operand)?;
                    all = Some(all.map_or(seen.clone(), |all| all.of_one(seen)));
                    UOp::constant(constant, operand.dtype())
                }
            });
        }
        match simplify(&UOp::new(value.op(), value.dtype(), constants, value.arg().clone())).arg() {
            Arg::Scalar(constant) => Some((*constant, all?)),
            _ => None,
        }
    }

    /// The iterations in which a condition may not be as wanted, whatever the loops inside do.
    fn decided(&self, condition: &UOp, wanted: bool) -> Seen {
        match (condition.op(), condition.src()) {
            (Op::Not, [a]) => self.decided(a, !wanted),
            (Op::And | Op::Or, [a, b]) => {
                let (a, b) = (self.decided(a, wanted), self.decided(b, wanted));
                let needs_both = (condition.op() == Op::And) == wanted;
                if needs_both { a.of_one(b) } else { a.of_both(b) }
            }
            (Op::Lt, [a, b]) => match (as_index(a), as_index(b), wanted) {
                (Some(a), Some(b), true) => self.at_least(&(b - a), 1),
                (Some(a), Some(b), false) => self.at_least(&(a - b), 0),
                _ => Seen::default(),
            },
            _ => Seen::default(),
        }
    }

    /// The iterations in which a sum may be less.
    fn at_least(&self, sum: &UOp, least: i64) -> Seen {
        self.bound_of_sum(sum, least).unwrap_or_default()
    }

    fn bound_of_sum(&self, sum: &UOp, least: i64) -> Option<Seen> {
        let (terms, constant) = linear_terms(sum);
        let (mut step, mut inside) = (0i64, constant);
        let mut missing = UOp::index(least);
        for (term, factor) in &terms {
            // Sums make terms that the kernel does not have.
            let own = Dependencies::of(term);
            let set = own.get(term);
            if term == self.range {
                step = *factor;
            } else if set.contains(range_id(self.range)) {
                return None;
            } else if set.iter().all(|id| self.outside.contains(id)) {
                missing = missing - term * *factor;
            } else {
                let lowest = if *factor > 0 { term.min_value() } else { term.max_value() };
                inside = lowest.checked_mul(*factor).and_then(|part| inside.checked_add(part))?;
            }
        }
        // step * iteration >= missing holds from an iteration on, or up to one.
        let missing = missing - inside;
        match step {
            1.. => Some(Seen { begin: None, end: Some((missing + (step - 1)).idiv(step)) }),
            0 => None,
            ..0 => Some(Seen { begin: Some((UOp::index(0) - missing).idiv(-step) + 1), end: None }),
        }
    }
}

#[cfg(test)]
mod tests;
