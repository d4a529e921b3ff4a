//! Scans of several lines in turn: each adds to its own total, so that none waits for another's sum.
//!
//! ```text
//! for i in 0..64 { serial k { a = a + load x[i, k]; store y[i, k] = a } }                      a sum can start when the one before it is there
//! for i in 0..8 { serial k { a0 = a0 + load x[8 i, k]; store ..; .. a7 = a7 + load x[8 i + 7, k]; store .. } }    two start in each cycle
//! ```
//!
//! The machine starts some sums in each cycle and has each after some cycles: as many lines as the product of both keep it busy. Lines that lie side by side
//! became lanes before, which is better still; of what is left the innermost loop outside of the scan is copied. Where it would leave threads too few
//! iterations, there are fewer copies. So there are where lines lie whole pages apart, as lines of 1024 floats do: addresses of all of them that are read and written at a time
//! belong into one set of the first cache, which holds few. 1024 x 4096 take 2 ms in fours and 50 ms in eights, both measured on Zen 5, whose sets hold 12 lines.
//! Where what is summed up is computed, lines are lanes instead, whose elements are gathered: of them there are as few ([`lines_together`]).
//!
//! Always: each line's sums come in the same order. Tested below, by filetests, and by random lists of opts in the test crate.

use crate::ir::gcd;
use crate::kernel::ranges::range_id;
use crate::optimize::by_hand::survey::{AccessPattern, Survey};
use crate::optimize::by_hand::tile::{LATENCY, STARTS_PER_CYCLE, even_part};
use crate::optimize::by_hand::{Attempts, SHARES_PER_THREAD, UNROLLED_OPS_MAX};
use crate::optimize::opt::Opt;
use crate::target::{CACHE_LINE_BYTES, Target};

/// Bytes after which addresses belong into the same set of the first cache: a page, since it is looked up before addresses are translated.
const SET_PERIOD_BYTES: i64 = 4096;
/// Pages that are read or written in turn, at most: processors have the addresses of so many that are written at hand, at the least. Measured on running totals of powers of two of
/// 1024 x 1040, one core of Granite Rapids: 0.68 ms with 16 lines, 0.87 with 64.
const PAGES_MAX: u32 = 16;

/// Copies the innermost loop around scans, if nothing else stands in them.
pub(crate) fn interleave_scans(choice: &mut Attempts<'_>, survey: &Survey) {
    let (Some(lines), true) = (survey.outputs.last().map(range_id), survey.inner.is_empty() && survey.scans > 0) else {
        return;
    };
    let chains = (STARTS_PER_CYCLE * LATENCY) as u32;
    let room = (choice.target.vector_registers / 2).min(UNROLLED_OPS_MAX / survey.body_ops.max(1));
    let len = survey.len(lines) as u32;
    let shares = if choice.threads < 2 { 1 } else { SHARES_PER_THREAD * choice.threads };
    let most = chains.min(room).div_ceil(survey.scans as u32).min(len / shares);
    let most = lines_together(survey, choice.target, lines, most);
    if most >= 2 {
        choice.attempt(Opt::Upcast { range: lines, times: even_part(len, most) });
    }
}

/// How many neighbours along a range, of so many, are walked together by a scan: as many as the first cache has room for wherever they lie.
pub(crate) fn lines_together(survey: &Survey, target: &Target, range: u32, count: u32) -> u32 {
    if survey.scans == 0 || target.blocks.is_some() {
        return count;
    }
    let ways = (target.cache_l1_bytes as i64 / SET_PERIOD_BYTES).max(1);
    let step = |access: &AccessPattern| access.steps.get(&range).map_or(0, |step| step.abs() * access.bytes as i64);
    let are_pages = survey.accesses.iter().any(|access| step(access) >= SET_PERIOD_BYTES);
    let mut most = count;
    while most > 2 && (lines_of_a_set(survey, range, i64::from(most)) > ways || are_pages && most > PAGES_MAX) {
        most /= 2;
    }
    most
}

/// Lines of memory that belong into the same set of the first cache, where so many neighbours along a range are read and written in turn.
fn lines_of_a_set(survey: &Survey, range: u32, count: i64) -> i64 {
    let steps = survey.accesses.iter().filter_map(|access| Some(access.steps.get(&range)? * access.bytes as i64));
    let in_a_set = |step: i64| (count * gcd(step, SET_PERIOD_BYTES) + SET_PERIOD_BYTES - 1) / SET_PERIOD_BYTES;
    // Shorter steps share lines.
    steps.filter(|step| step.abs() >= CACHE_LINE_BYTES).map(in_a_set).sum()
}

#[cfg(test)]
mod tests {
    use crate::DType;
    use crate::ir::{Arg, Op, ReduceOp, UOp};
    use crate::optimize::{Opt, choose};
    use crate::pipeline::loops_of;
    use crate::target::Target;
    use crate::watch::Silent;

    /// The opts for running totals of lines, of what `computed` makes of them.
    fn opts(lines: i64, len: i64, threads: u32, computed: impl Fn(UOp) -> UOp) -> Vec<Opt> {
        let x = UOp::param(1, DType::F32, (lines * len) as u64).reshape([lines, len]);
        let store = [UOp::param(0, DType::F32, (lines * len) as u64), computed(x).scan(ReduceOp::Add, 1)];
        let ast = UOp::sink([UOp::new(Op::Store, DType::VOID, store.into_iter().collect::<Vec<_>>(), Arg::None)]);
        let target = Target { threads, ..Target::test_avx512() };
        choose(&loops_of(&ast, &mut Silent), &target).applied
    }

    fn copies(lines: i64, len: i64, threads: u32) -> Vec<Opt> {
        let is_copy = |opt: &Opt| matches!(opt, Opt::Upcast { .. });
        opts(lines, len, threads, |x| x).into_iter().filter(is_copy).collect()
    }

    #[test]
    fn lines_are_summed_in_turn_as_far_as_threads_leave_some() {
        assert_eq!(copies(64, 5000, 1), [Opt::Upcast { range: 0, times: 8 }]);
        assert_eq!(copies(12, 5000, 1), [Opt::Upcast { range: 0, times: 6 }]);
        assert_eq!(copies(64, 50000, 4), [Opt::Upcast { range: 0, times: 4 }]);
        assert_eq!(copies(8, 50000, 4), []);
        assert_eq!(copies(1, 5000, 1), []);
    }

    #[test]
    fn lines_that_lie_pages_apart_are_few() {
        assert_eq!(copies(64, 8192, 1), [Opt::Upcast { range: 0, times: 4 }]);
        assert_eq!(copies(1024, 4096, 1), [Opt::Upcast { range: 0, times: 4 }]);
        // In two sets, and in one of 64.
        assert_eq!(copies(64, 4096 + 512, 1), [Opt::Upcast { range: 0, times: 8 }]);
        assert_eq!(copies(64, 8208, 1), [Opt::Upcast { range: 0, times: 8 }]);
    }

    #[test]
    fn lanes_of_what_is_computed_are_lines_that_have_room() {
        let opts = |len: i64| opts(1024, len, 1, |x| x.exp2());
        // Loads and stores of eight lines of a set; and sixteen where lines lie in many sets, but no more pages than that.
        assert_eq!(opts(1024), [Opt::Vectorize { range: 0, lanes: 4 }]);
        assert_eq!(opts(1040), [Opt::Vectorize { range: 0, lanes: 16 }]);
        // Lines of less than a page.
        assert_eq!(opts(264), [Opt::Vectorize { range: 0, lanes: 16 }, Opt::Upcast { range: 0, times: 4 }]);
    }
}
