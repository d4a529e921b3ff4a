//! Threads own rows of what a loop over sources stores to where numbers in memory say.
//!
//! The loop over sources goes in order, and threads that share the columns of a row would store to the same line of memory at the same time: 3,000 rows of 100 numbers took 1.0 to 4.7 times as long
//! by two threads so as by one, and 0.5 to 1.1 times where threads own rows; of 300 and more numbers 0.3 to 0.5 times (the same loops in C, Zen 3). So they do wherever passing over a source that is another's
//! costs little beside a row.
//!
//! Tested below, and by values in the test crate.

use super::survey::Survey;
use super::{Attempts, Opt};
use crate::kernel::ranges::{closed_ranges, range_id};
use crate::lower::loops::is_serial;
use crate::optimize::transforms::owners::rows_chosen;

/// Cycles of a thread for a source that it passes over or finds to be its own: a number is loaded, compared with two others, and a jump now and then foreseen wrongly (10,000 sources, Zen 3).
const PASS_CYCLES: f64 = 6.0;
/// Cycles of a row, beside its vectors: its first lines come late.
const ROW_CYCLES: f64 = 10.0;
/// Cycles of a vector that is loaded twice, added and stored.
const VECTOR_CYCLES: f64 = 1.5;
/// Of the time of one thread, the most that owners may take.
const SHARE_MAX: f64 = 0.8;
/// Rows for each owner, at least: of fewer one may be named by most sources.
const ROWS_MIN: i64 = 4;

/// Gives threads rows of their own; whether it did.
pub(super) fn share_rows(choice: &mut Attempts<'_>, survey: &Survey) -> bool {
    let (threads, target) = (choice.threads, choice.target);
    let Some(store) = choice.kernel.src().first().filter(|_| threads > 1 && survey.inner.is_empty()) else {
        return false;
    };
    let Some(sources) = closed_ranges(store).iter().find(|range| is_serial(range)).map(range_id) else { return false };
    let Some(rows) = rows_chosen(&choice.kernel) else { return false };
    let elements: f64 = survey
        .outputs
        .iter()
        .filter(|range| !is_serial(range))
        .map(|range| survey.len(range_id(range)) as f64)
        .product();
    let vectors = elements * survey.element_bytes as f64 / f64::from(target.vector_bytes);
    let row = ROW_CYCLES + VECTOR_CYCLES * vectors;
    let of_owner = PASS_CYCLES + row / f64::from(threads);
    if rows < ROWS_MIN * i64::from(threads) || of_owner > SHARE_MAX * row {
        return false;
    }
    choice.attempt(Opt::OwnerComputes { range: sources, owners: threads })
}

#[cfg(test)]
mod tests {
    use crate::optimize::transforms::owners::added;
    use crate::optimize::{Opts, choose};
    use crate::target::Target;

    /// The opts of rows added where numbers say.
    fn opts(rows: i64, columns: i64, sources: i64) -> String {
        let root = added(rows, columns, sources);
        let target = Target { threads: 2, ..Target::test_avx2() };
        Opts::List(choose(&root, &target).applied).to_string()
    }

    #[test]
    fn threads_own_rows_that_are_long_enough() {
        for columns in [64, 100, 101, 768] {
            assert!(opts(1000, columns, 3000).ends_with("owner_computes(r0, 2)"), "{}", opts(1000, columns, 3000));
        }
        for (rows, columns, sources) in [(1000, 8, 30_000), (6, 100, 3000), (1000, 100, 3)] {
            assert!(!opts(rows, columns, sources).contains("owner"), "{}", opts(rows, columns, sources));
        }
    }
}
