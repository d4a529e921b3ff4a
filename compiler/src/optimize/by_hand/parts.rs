//! Threads share parts of a loop together with the loop around it, whose iterations they could not share evenly.
//!
//! ```text
//! threads r0 in 0..3                           threads r0 in 0..6
//!   pack the keys of head r0             =>      pack the keys of head r0 / 2
//!   for r1 in 0..73                              for r1 in 0..37, those of half r0 % 2
//! ```
//!
//! Of three heads of attention one of two threads has two, and the other one waits. What is copied once for an iteration of the outer loop is copied for each part then, so parts are few and long.
//!
//! Tested below, and by values in the test crate.

use super::{Attempts, Opt};
use crate::ir::{Op, UOp};
use crate::kernel::ranges::range_id;
use crate::optimize::transforms::nesting::{REPEATED_MAX, between};

/// Iterations of a part, at least: a copy takes about as long as one of them, of tiles of rows.
const ITERATIONS_MIN: i64 = 8;
/// By how much parts must be more even.
const GAIN_MIN: f64 = 1.1;

/// The share of threads that are at work, where so many iterations are shared.
fn evenness(iterations: i64, threads: u32) -> f64 {
    let rounds = (iterations as f64 / f64::from(threads)).ceil();
    iterations as f64 / (rounds * f64::from(threads)).max(1.0)
}

/// How many parts of an inner loop are shared with an outer one of so many iterations, if that is better than to share the outer one alone.
fn parts_of(outer: i64, inner: i64, threads: u32) -> Option<i64> {
    let most = REPEATED_MAX.min(inner / ITERATIONS_MIN);
    let at = |parts: i64| evenness(outer * parts, threads);
    let best = (2..=most).rev().max_by(|a, b| at(*a).total_cmp(&at(*b)))?;
    (at(best) > GAIN_MIN * at(1)).then_some(best)
}

/// Shares an outer loop and parts of the one in it; whether it did.
pub(super) fn share_parts(choice: &mut Attempts<'_>, first: &UOp, second: &UOp) -> bool {
    let (Some(outer), Some(inner)) = (first.src()[0].as_int(), second.src()[0].as_int()) else { return false };
    let Some(parts) = parts_of(outer, inner, choice.threads) else { return false };
    // Copies are few beside what reads them; a reduction may be all the work.
    if between(&choice.kernel, first, second).iter().any(|end| end.op() != Op::Store) {
        return false;
    }
    let [range, second] = [first, second].map(range_id);
    let Ok(len) = u32::try_from(inner.div_euclid(parts) + i64::from(inner % parts != 0)) else { return false };
    choice.all_or_none(|choice| {
        let is_split = choice.attempt(Opt::Split { range: second, len });
        (is_split && choice.attempt(Opt::ThreadPair { range, inner: second })).then_some(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_as_few_as_are_even() {
        let parts = |outer: i64, inner: i64, threads: u32| parts_of(outer, inner, threads);
        assert_eq!(
            [parts(3, 73, 2), parts(1, 73, 2), parts(12, 100, 16), parts(5, 64, 4)],
            [Some(2), Some(2), Some(4), Some(4)]
        );
        // It is even as it is, or parts would be short.
        assert_eq!(
            [parts(2, 73, 2), parts(7, 73, 2), parts(3, 12, 2), parts(16, 100, 16)],
            [None, Some(2), None, None]
        );
    }
}
