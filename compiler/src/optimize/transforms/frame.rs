//! Frames: what overlapping windows read is copied to scratch once, with its padding, by an opt.
//!
//! ```text
//! for y in 0..40, x in 0..40 { reduce i in 0..5, j in 0..5 { load p[(y + i - 2) * 40 + x + j - 2] where 1 < y + i < 42, 1 < x + j < 42 } }
//!
//! for a in 0..44, b in 0..44 { s[a * 44 + b] = load p[(a - 2) * 40 + b - 2] where 1 < a < 42, 1 < b < 42 }
//! for y in 0..40, x in 0..40 { reduce i in 0..5, j in 0..5 { load s[(y + i) * 44 + x + j] } }
//! ```
//!
//! A *window* is a pair of ranges of which the load knows a sum alone: `y` and `i`, with the steps that its address makes along them, divided by what both
//! have in common. The copy has one axis for each window, as long as there are different sums. A range that is named twice is an axis by itself.
//!
//! Of windows that begin in steps, as those of a convolution by steps of two, neighbours lie apart. Where such are the last axis, the copy has it in *phases*: sums of one rest by the step lie
//! side by side, so that lanes along the windows are whole vectors.
//!
//! ```text
//! for x in 0..112 { reduce j in 0..7 { load p[2 * x + j] } }
//!
//! for phase in 0..2, b in 0..115 { s[phase * 115 + b] = load p[2 * b + phase] where 2 * b + phase < 229 }
//! for x in 0..112 { reduce j in 0..7 { load s[j % 2 * 115 + x + j / 2] } }
//! ```
//!
//! Refused: where an address or a condition asks for the two in another way, where not every sum up to the largest is one of a window, and what `stage` refuses.
//!
//! Always: each element of the copy is one that some window reads, so the copy reads nothing else. Tested by filetests, and by random opts on random kernels.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};

use super::stage::{check_not_shared, filled_buffer, loads_of};
use crate::dtype::Scalar;
use crate::ir::{Arg, AxisKind, Evaluator, Op, Sources, UOp, gcd, postorder, rebuild, substitute};
use crate::kernel::effects::memory_in_place;
use crate::kernel::ranges::{Dependencies, next_range_id, range_id};
use crate::optimize::limits::at_most;
use crate::optimize::opt::{Limit, Reason};
use crate::symbolic::{linear_terms, simplify};
use crate::target::Target;

/// Values of the two ranges of a window for which a condition is looked at, at most.
const VALUES_MAX: i64 = 4096;

/// Two ranges of which a load knows the sum: `steps[0] * ranges[0] + steps[1] * ranges[1]`; of one range twice, that range.
pub(crate) struct Window {
    ranges: [UOp; 2],
    steps: [i64; 2],
    /// Different sums: from 0 on, all of them.
    len: i64,
}

impl Window {
    /// The window of two ranges that a load walks with these steps.
    pub(crate) fn of(ranges: [&UOp; 2], steps: [i64; 2]) -> Result<Window, Reason> {
        let len = |range: &UOp| range.src()[0].as_int().ok_or(Reason::from("a length is not a constant"));
        let lens = [len(ranges[0])?, len(ranges[1])?];
        let ranges = ranges.map(UOp::clone);
        if ranges[0] == ranges[1] {
            return Ok(Window { ranges, steps: [1, 0], len: lens[0] });
        }
        let common = gcd(steps[0], steps[1]).max(1);
        if steps[0].signum() * steps[1].signum() < 1 {
            return Err("the load does not walk memory along both ranges in one direction".into());
        }
        let steps = steps.map(|step| (step / common).abs());
        let leaves_none = |a: usize, b: usize| steps[a] == 1 && steps[b] <= lens[a];
        if !leaves_none(0, 1) && !leaves_none(1, 0) {
            return Err("there are elements between windows".into());
        }
        let len = (lens[0] - 1).checked_mul(steps[0]).zip((lens[1] - 1).checked_mul(steps[1]));
        let len = len.and_then(|(a, b)| a.checked_add(b)?.checked_add(1)).ok_or(Reason::from("it is too long"))?;
        Ok(Window { ranges, steps, len })
    }

    /// Elements of the copy along it, but for what fills up its phases.
    pub(crate) fn len(&self) -> i64 {
        self.len
    }

    /// Whether neighbours along the first range lie side by side in the copy, where this is the last axis.
    pub(crate) fn is_in_order(&self) -> bool {
        self.steps[0] == self.phases()
    }

    /// The phases that its sums have as the last axis.
    fn phases(&self) -> i64 {
        if self.steps[1] == 1 { self.steps[0] } else { 1 }
    }

    fn is_one_range(&self) -> bool {
        self.ranges[0] == self.ranges[1]
    }

    /// What both ranges come to.
    fn sum(&self) -> UOp {
        match self.is_one_range() {
            true => self.ranges[0].clone(),
            false => &self.ranges[0] * self.steps[0] + &self.ranges[1] * self.steps[1],
        }
    }

    /// The factor of the sum that an expression with these factors of the two ranges has.
    fn factor(&self, factors: [i64; 2]) -> Option<i64> {
        if self.is_one_range() {
            return Some(factors[0]);
        }
        let factor = factors[0] / self.steps[0];
        (factor * self.steps[0] == factors[0] && factor.checked_mul(self.steps[1])? == factors[1]).then_some(factor)
    }
}

/// One load, copied for all of its windows.
///
/// # Errors
/// Why not.
pub(crate) fn frame_load(root: &UOp, number: u32, ranges: &[UOp], target: &Target) -> Result<UOp, Reason> {
    let loads = loads_of(root);
    let load = loads.get(number as usize).ok_or("the kernel has no such load")?;
    let [memory, offset, gate @ ..] = load.src()[0].src() else { return Err("the load has no address".into()) };
    if memory.op() != Op::Param || memory_in_place(root).contains(memory) {
        return Err("the load is not one of memory that stays as it is".into());
    }
    let dependencies = Dependencies::of(root);
    if ranges.is_empty() || !ranges.len().is_multiple_of(2) {
        return Err("a frame is made along pairs of ranges".into());
    }
    let mut windows: Vec<Window> = Vec::new();
    for (position, pair) in ranges.chunks(2).enumerate() {
        for range in pair {
            check_not_shared(range)?;
            if ranges[..2 * position].contains(range) {
                return Err("a range is named twice".into());
            }
            if !dependencies.get(load).contains(range_id(range)) {
                return Err("the load does not depend on a range, or it is not open there".into());
            }
        }
        let steps = [&pair[0], &pair[1]].map(|range| step_of(offset, range));
        windows.push(Window::of([&pair[0], &pair[1]], steps)?);
    }
    let axes = Axes::of(&windows, next_range_id(root)).ok_or(Reason::from("it is too long"))?;
    let bytes = axes.elements.saturating_mul(load.dtype().bytes() as u64);
    at_most(Limit::Scratch, bytes, target.scratch_bytes)?;
    let known = Sums { windows: &windows, fills: &axes.sums, offset };
    let address = known.of_sum(offset).ok_or("the address is not made of sums of windows")?;
    let gate = gate.iter().map(|gate| known.of_condition(gate).ok_or("a condition is not one of sums of windows"));
    let gate = gate.collect::<Result<Vec<UOp>, _>>()?;
    let gate = gate.into_iter().chain(axes.exists).reduce(|both, other| both & other);
    let index: Sources = [memory.clone(), address].into_iter().chain(gate).collect();
    let index = UOp::new(Op::Index, load.dtype(), index, Arg::None);
    let value = load.with_src(smallvec![index] as Sources);
    let map: FxHashMap<UOp, UOp> =
        [(load.clone(), filled_buffer(&value, &axes.fills, &axes.asked))].into_iter().collect();
    Ok(simplify(&substitute(root, &map)))
}

/// The axes of a copy: one for each window, and two of the last where that has phases.
struct Axes {
    /// The loops that fill it.
    fills: Vec<UOp>,
    /// What is asked for along each of them.
    asked: Vec<UOp>,
    /// The sum of each window, by these loops.
    sums: Vec<UOp>,
    /// Where the last phases end before the others.
    exists: Option<UOp>,
    elements: u64,
}

impl Axes {
    /// Those of windows, with loops of these numbers. None where there are too many elements.
    fn of(windows: &[Window], first_id: u32) -> Option<Axes> {
        let mut axes = Axes { fills: Vec::new(), asked: Vec::new(), sums: Vec::new(), exists: None, elements: 1 };
        for (number, window) in windows.iter().enumerate() {
            let phases = if number + 1 == windows.len() { window.phases() } else { 1 };
            let len = window.len.checked_add(phases - 1)? / phases;
            if phases == 1 {
                let fill = axes.push(len, first_id, window.sum())?;
                axes.sums.push(fill);
                continue;
            }
            let phase = axes.push(phases, first_id, window.sum().modulo(phases))?;
            let sum = axes.push(len, first_id, window.sum().idiv(phases))? * phases + phase;
            axes.exists = (len * phases != window.len).then(|| sum.lt(window.len));
            axes.sums.push(sum);
        }
        Some(axes)
    }

    fn push(&mut self, len: i64, first_id: u32, asked: UOp) -> Option<UOp> {
        let fill = UOp::range(len, first_id + self.fills.len() as u32, AxisKind::Loop);
        self.elements = self.elements.checked_mul(u64::try_from(len).ok()?)?;
        self.fills.push(fill.clone());
        self.asked.push(asked);
        Some(fill)
    }
}

/// By how much an address grows along a range, as far as it is a sum.
fn step_of(offset: &UOp, range: &UOp) -> i64 {
    linear_terms(offset).0.iter().filter(|(term, _)| term == range).map(|(_, step)| step).sum()
}

/// Windows, and all sums of each by the loops of the copy.
struct Sums<'w> {
    windows: &'w [Window],
    fills: &'w [UOp],
    /// Where the load reads, by the ranges of the windows.
    offset: &'w UOp,
}

impl Sums<'_> {
    /// An expression that is a sum, by the loops over sums. None if it asks for a range of a window otherwise.
    fn of_sum(&self, expr: &UOp) -> Option<UOp> {
        let (terms, constant) = linear_terms(expr);
        let factor_of = |range: &UOp| terms.iter().filter(|(term, _)| term == range).map(|(_, step)| step).sum::<i64>();
        let mut sum = UOp::index(constant);
        for (window, fill) in self.windows.iter().zip(self.fills) {
            let factors = [0, 1].map(|number| factor_of(&window.ranges[number]));
            sum = sum + fill * window.factor(factors)?;
        }
        for (term, factor) in &terms {
            if self.windows.iter().any(|window| window.ranges.contains(term)) {
                continue;
            }
            if self.names_window(term) {
                return None;
            }
            sum = sum + term * *factor;
        }
        Some(simplify(&sum))
    }

    fn names_window(&self, expr: &UOp) -> bool {
        let below = postorder(std::slice::from_ref(expr));
        self.windows.iter().any(|window| window.ranges.iter().any(|range| below.contains(range)))
    }

    /// A condition that is made of comparisons of sums.
    fn of_condition(&self, condition: &UOp) -> Option<UOp> {
        let mut is_known = true;
        let new = rebuild(condition, |node, rebuilt| match (node.op(), node.src()) {
            (Op::Lt, [a, b]) if a.dtype().is_index() && self.names_window(node) => {
                let sum = self.of_sum(&(b - a)).map(|sum| UOp::index(0).lt(&sum));
                sum.or_else(|| self.of_values(node)).unwrap_or_else(|| {
                    is_known = false;
                    rebuilt
                })
            }
            _ => rebuilt,
        });
        (is_known && !self.names_window(&new)).then_some(new)
    }

    /// A comparison that names the ranges of one window, written as bounds of their sum: rules make `x + j // 2 < 11` of `2 * x + j < 22`. Other ranges that it names move the sum as they move the
    /// address. None if it does not follow from the sum, or holds for sums with others between them.
    fn of_values(&self, comparison: &UOp) -> Option<UOp> {
        let mut evaluator = Evaluator::new(std::slice::from_ref(comparison));
        let leaves = evaluator.leaves().to_vec();
        let names = |window: &Window| window.ranges.iter().any(|range| leaves.contains(range));
        let mut named = self.windows.iter().zip(self.fills).filter(|(window, _)| names(window));
        let (Some((window, fill)), None) = (named.next(), named.next()) else { return None };
        let others = leaves.iter().filter(|leaf| !window.ranges.contains(leaf));
        let ranges: Vec<&UOp> = window.ranges.iter().chain(others).collect();
        let lens: Vec<i64> = ranges.iter().map(|range| range.src().first()?.as_int()).collect::<Option<_>>()?;
        let unit = step_of(self.offset, &window.ranges[1]) / window.steps[1].max(1);
        if window.is_one_range() || unit == 0 {
            return None;
        }
        let steps = ranges.iter().map(|range| {
            let step = step_of(self.offset, range);
            (step % unit == 0 && step / unit >= 0).then_some(step / unit)
        });
        let steps: Vec<i64> = steps.collect::<Option<_>>()?;
        let count = lens.iter().try_fold(1i64, |all, len| all.checked_mul(*len)).filter(|all| *all <= VALUES_MAX)?;
        let of_leaf: Vec<usize> =
            leaves.iter().map(|leaf| ranges.iter().position(|range| *range == leaf)).collect::<Option<_>>()?;
        let mut holds: BTreeMap<i64, bool> = BTreeMap::new();
        for number in 0..count {
            let mut rest = number;
            let digits: SmallVec<[i64; 4]> = lens.iter().map(|len| (rest % len, rest /= len).0).collect();
            let values: SmallVec<[Scalar; 4]> = of_leaf.iter().map(|at| Scalar::Int(digits[*at])).collect();
            let Scalar::Bool(found) = evaluator.evaluate(&values)?[0] else { return None };
            let sum = digits.iter().zip(&steps).map(|(digit, step)| digit * step).sum();
            if *holds.entry(sum).or_insert(found) != found {
                return None;
            }
        }
        let held = || holds.iter().filter(|(_, holds)| **holds).map(|(sum, _)| *sum);
        let (begin, end) = (held().min()?, held().max()? + 1);
        let is_whole = holds.range(begin..end).all(|(_, holds)| *holds);
        let moved = ranges.iter().zip(&steps).skip(2).map(|(range, step)| *range * *step);
        let sum = moved.fold(fill.clone(), |sum, moved| sum + moved);
        is_whole.then(|| UOp::index(begin - 1).lt(&sum) & sum.lt(end))
    }
}
