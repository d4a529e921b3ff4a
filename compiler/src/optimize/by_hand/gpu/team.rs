//! How many threads have a row of what they reduce together: as many as leave work for the machine, as its memory holds rows for, and as vectors divide. And how much of a row
//! a block has, where rows are few.
//!
//! Tested with the choice by hand (`shared_reductions`).

use super::row_loops::Rows;
use super::shared_reductions::LANES_MIN;
use crate::ir::{Arg, ThreadDim, UOp};
use crate::kernel::local_buffers::{local_buffers, scratch_of};
use crate::optimize::by_hand::Attempts;
use crate::optimize::by_hand::survey::Survey;
use crate::target::Blocks;

/// Terms of a thread at most where a row could have more threads: it asks for some of them at a time.
const TERMS_OF_THREAD_MAX: i64 = 40;
/// Threads of a row, where there are rows for all multiprocessors.
pub(super) const THREADS_OF_ROW: i64 = 256;
/// Turns of a loop, about, that it takes to put a state into shared memory and to meet there.
const TURNS_OF_MEETING: i64 = 4;
/// Threads that a multiprocessor runs at once.
const THREADS_OF_MULTIPROCESSOR: i64 = 2048;
/// Threads of a multiprocessor that hide each other's waiting.
pub(super) const THREADS_ENOUGH: i64 = 1024;
/// What blocks compute each again may be this part of their work.
const REPEATED_PART: i64 = 4;

/// Threads that have a row, and how.
pub(super) struct Team {
    /// Lanes of a group that exchange what they have, if they can.
    pub(super) lanes: i64,
    /// Threads along the block's first index, and along its second one: of lanes, groups.
    pub(super) threads: [i64; 2],
}

impl Team {
    /// All of them.
    pub(super) fn all(&self) -> i64 {
        self.lanes * self.threads[0] * self.threads[1]
    }

    /// Threads that share a reduction of states: what each has is combined by all, one after the other, along the first index, then once more along the second one.
    ///
    /// By the turns of a thread's loops, which wait for each other where there are more threads than machines do at once.
    pub(super) fn of_states(rows: i64, terms: i64, most: i64, enough: i64) -> Team {
        let turns = |threads: [i64; 2]| {
            let all = threads[0] * threads[1];
            let meetings = threads.map(|along| if along > 1 { along + TURNS_OF_MEETING } else { 0 });
            let of_thread = (terms + all - 1) / all + meetings[0] + meetings[1];
            of_thread.saturating_mul(rows.saturating_mul(all).max(enough))
        };
        let powers = || std::iter::successors(Some(1i64), |threads| Some(threads * 2)).take_while(|len| *len <= most);
        let pairs = powers().flat_map(|first| powers().map(move |second| [first, second]));
        let admitted = |[first, second]: &[i64; 2]| (LANES_MIN..=most).contains(&(first * second)) && second <= first;
        let threads = pairs.filter(admitted).min_by_key(|threads| turns(*threads));
        Team { lanes: 1, threads: threads.unwrap_or([LANES_MIN, 1]) }
    }

    /// The index of the block that several rows have.
    pub(super) fn dim_of_rows(&self) -> ThreadDim {
        if self.threads[1] > 1 { ThreadDim::Z } else { ThreadDim::Y }
    }
}

/// Threads that a row may have: more of few rows, and of those of which a multiprocessor should hold what is kept, or gone through again.
pub(super) fn most_threads(
    choice: &Attempts<'_>,
    blocks: &Blocks,
    survey: &Survey,
    rows: &Rows,
    [count, row]: [i64; 2],
) -> i64 {
    let all = blocks.threads_max as i64;
    let is_few = count < i64::from(choice.target.costs.cores);
    let mut most = if is_few { all } else { THREADS_OF_ROW };
    let kept: i64 = local_buffers(&choice.kernel).iter().map(bytes_of_row).sum();
    // Blocks that fit beside each other have threads enough.
    while most < all && kept * (THREADS_ENOUGH / most) > choice.shared_bytes as i64 {
        most *= 2;
    }
    // Rows in half of the first cache, beside their outputs and what all rows share.
    let cache = choice.target.cache_l1_bytes as i64 / 2;
    let bytes_of_rows = |most: i64| row * survey.element_bytes as i64 * (THREADS_OF_MULTIPROCESSOR / most);
    let is_read_again = rows.is_plain && rows.terms.len() + rows.columns.len() > 1 && bytes_of_rows(all) <= cache;
    while is_read_again && most < all && bytes_of_rows(most) > cache {
        most *= 2;
    }
    most
}

/// Threads of a row, fewer where that leaves enough of them: those of one warp meet by shuffles alone, and of a row that more do not divide into vectors fewer may have vectors.
pub(super) fn fewer_threads(choice: &Attempts<'_>, survey: &Survey, rows: &Rows, [count, most]: [i64; 2]) -> i64 {
    let warp = choice.target.blocks.as_ref().map_or(1, |blocks| blocks.lanes as i64);
    let loops = || rows.terms.iter().map(|terms| terms.shared).chain(rows.columns.iter().copied());
    let longest = loops().map(|shared| shared.len).max().unwrap_or(1);
    let has_vectors = |threads: i64| {
        loops()
            .all(|shared| shared.is_divided_by(threads * i64::from(survey.lanes_of_widest(choice.target, shared.len))))
    };
    let enough = i64::from(choice.target.costs.threads);
    let halves = std::iter::successors(Some(most), |threads| Some(threads / 2));
    let admitted = |threads: &i64| {
        *threads == most || *threads >= warp && count * threads >= enough && longest <= threads * TERMS_OF_THREAD_MAX
    };
    let candidates: Vec<i64> = halves.take_while(admitted).collect();
    let with_vectors = candidates.iter().copied().find(|threads| has_vectors(*threads));
    let of_one_warp = candidates.last().copied().filter(|threads| *threads == warp);
    match with_vectors {
        Some(threads) if !of_one_warp.is_some_and(has_vectors) => threads,
        _ => of_one_warp.or(with_vectors).unwrap_or(most),
    }
}

/// Outputs of a row that a block computes, where rows are few and a block's reductions are little beside that.
pub(super) fn chunk_of_outputs(
    choice: &Attempts<'_>,
    survey: &Survey,
    rows: &Rows,
    (count, threads): (i64, i64),
) -> Option<i64> {
    let [columns] = rows.columns.as_slice() else { return None };
    let wanted = i64::from(choice.target.costs.partial_results);
    let is_kept = !local_buffers(&choice.kernel).is_empty();
    if is_kept || columns.is_symbolic || count >= i64::from(choice.target.costs.cores) {
        return None;
    }
    // What threads do not share, each of them does.
    let warp = choice.target.blocks.as_ref().map_or(1, |blocks| blocks.lanes as i64);
    let repeated: i64 =
        rows.terms.iter().map(|terms| terms.shared.len * if terms.shared.len < warp { threads } else { 1 }).sum();
    let whole = threads * i64::from(survey.lanes_of_widest(choice.target, columns.len));
    let least = (repeated * REPEATED_PART).max(whole);
    let even = columns.len * count / wanted;
    let chunk = even.max(least);
    let chunk = (chunk + whole - 1) / whole * whole;
    // One that divides the row, if there is one that is not much longer.
    let divides = (chunk / whole..=4 * chunk / whole).map(|parts| parts * whole).find(|part| columns.len % part == 0);
    Some(divides.unwrap_or(chunk)).filter(|chunk| *chunk * 2 <= columns.len)
}

/// Bytes of what is kept of a row.
fn bytes_of_row(buffer: &UOp) -> i64 {
    let scratch = scratch_of(buffer);
    match scratch.arg() {
        Arg::Scratch(_, len, _) => (*len as i64).saturating_mul(scratch.dtype().bytes() as i64),
        _ => 0,
    }
}
