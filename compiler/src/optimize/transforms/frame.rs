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
//! Refused: where an address or a condition asks for the two in another way, where not every sum up to the largest is one of a window, and what `stage` refuses.
//!
//! Always: each element of the copy is one that some window reads, so the copy reads nothing else. Tested by filetests, and by random opts on random kernels.

use rustc_hash::FxHashMap;
use smallvec::smallvec;

use super::stage::{check_not_shared, filled_buffer, loads_of};
use crate::ir::{Arg, AxisKind, Op, Sources, UOp, gcd, postorder, rebuild, substitute};
use crate::kernel::effects::memory_in_place;
use crate::kernel::ranges::{Dependencies, next_range_id, range_id};
use crate::optimize::limits::at_most;
use crate::optimize::opt::{Limit, Reason};
use crate::symbolic::{linear_terms, simplify};
use crate::target::Target;

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

    /// Elements of the copy along it.
    pub(crate) fn len(&self) -> i64 {
        self.len
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
    let elements = windows.iter().try_fold(1u64, |product, window| product.checked_mul(window.len as u64));
    let bytes = elements.unwrap_or(u64::MAX).saturating_mul(load.dtype().bytes() as u64);
    at_most(Limit::Scratch, bytes, target.scratch_bytes)?;
    let fills = windows.iter().zip(next_range_id(root)..);
    let fills: Vec<UOp> = fills.map(|(window, id)| UOp::range(window.len, id, AxisKind::Loop)).collect();
    let known = Sums { windows: &windows, fills: &fills };
    let offset = known.of_sum(offset).ok_or("the address is not made of sums of windows")?;
    let gate = gate.iter().map(|gate| known.of_condition(gate).ok_or("a condition is not one of sums of windows"));
    let gate = gate.collect::<Result<Vec<UOp>, _>>()?;
    let index: Sources = [memory.clone(), offset].into_iter().chain(gate).collect();
    let index = UOp::new(Op::Index, load.dtype(), index, Arg::None);
    let value = load.with_src(smallvec![index] as Sources);
    let sums: Vec<UOp> = windows.iter().map(Window::sum).collect();
    let map: FxHashMap<UOp, UOp> = [(load.clone(), filled_buffer(&value, &fills, &sums))].into_iter().collect();
    Ok(simplify(&substitute(root, &map)))
}

/// By how much an address grows along a range, as far as it is a sum.
fn step_of(offset: &UOp, range: &UOp) -> i64 {
    linear_terms(offset).0.iter().filter(|(term, _)| term == range).map(|(_, step)| step).sum()
}

/// Windows, and the loop over all sums of each.
struct Sums<'w> {
    windows: &'w [Window],
    fills: &'w [UOp],
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
            (Op::Lt, [a, b]) if a.dtype().is_index() && self.names_window(node) => match self.of_sum(&(b - a)) {
                Some(sum) => UOp::index(0).lt(&sum),
                None => {
                    is_known = false;
                    rebuilt
                }
            },
            _ => rebuilt,
        });
        (is_known && !self.names_window(&new)).then_some(new)
    }
}
