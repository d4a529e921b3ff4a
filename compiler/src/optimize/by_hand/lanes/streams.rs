//! In which order memory comes, where a reduction has lanes of its own: what is read once in several streams, what is read again and again in the order in which that is least.
//!
//! ```text
//! for i / 4 { for j / 4 { reduce k { x[i, k] * w[j, k] } } }      w once for each tile of rows
//! for j / 4 { for i / 4 { reduce k { x[i, k] * w[j, k] } } }      w once, and x from the second cache
//! ```
//!
//! Tested by `local_buffers`, and by filetests.

use crate::kernel::ranges::range_id;
use crate::optimize::by_hand::survey::{AccessPattern, InnerLoops, Survey};
use crate::optimize::by_hand::{Attempts, SHARES_PER_THREAD};
use crate::optimize::opt::Opt;

/// Streams that are read beside each other.
const STREAMS: u32 = 4;
/// How far streams lie apart, and so how long they are, at least: of shorter ones, what the processor fetches ahead begins anew too often. Rows of 12 and 20 KB were
/// summed at 29 GB/s one by one and at 20 four at a time.
const STREAM_BYTES: i64 = 32 << 10;

/// Of a tile along two loops the operand of the inner one is read again for each tile of the outer. Where it is more than the second cache holds and the other is not, or where threads would
/// have few tiles of the outer loop, the inner one comes first. Measured, two cores of a Zen 4: 12 rows times the transpose of 3000 x 2048 weights take 1.1 ms so, and 2.3 the other way.
pub(super) fn stream_once(choice: &mut Attempts<'_>, survey: &Survey, inner: &InnerLoops, rows: [u32; 2]) {
    let [outer, inner_row] = &survey.outputs[..] else { return };
    let (outer, inner_row) = (range_id(outer), range_id(inner_row));
    if choice.target.blocks.is_some() || !rows.contains(&outer) || !rows.contains(&inner_row) {
        return;
    }
    let times = |id: u32| {
        let upcast = choice.applied.iter().rev().find_map(|opt| match opt {
            Opt::Upcast { range, times } if *range == id => Some(i64::from(*times)),
            _ => None,
        });
        upcast.unwrap_or(1)
    };
    let tiles = |id: u32| (survey.len(id) + times(id) - 1) / times(id);
    let bytes_of = |own: u32, other: u32| -> i64 {
        let is_of = |access: &&AccessPattern| access.depends.contains(own) && !access.depends.contains(other);
        let bytes = |access: &AccessPattern| {
            access.depends.iter().fold(access.bytes as i64, |bytes, id| bytes.saturating_mul(survey.len(id)))
        };
        let loads = survey.accesses.iter().filter(|access| !access.is_store && inner.holds(access)).filter(is_of);
        loads.map(bytes).fold(0, i64::saturating_add)
    };
    let cache = choice.target.cache_l2_bytes as i64;
    let (again, kept) = (bytes_of(inner_row, outer), bytes_of(outer, inner_row));
    let enough = i64::from(choice.threads * SHARES_PER_THREAD);
    let is_uneven = choice.threads > 1 && tiles(outer) < enough && tiles(inner_row) >= enough;
    if tiles(outer) > 1 && kept <= cache / 2 && (again > cache || is_uneven) {
        choice.attempt(Opt::Outermost { range: inner_row });
    }
}

/// The loop around a reduction of which several iterations go beside each other, and how many, where memory is read once and is more than stays in near caches: a single
/// stream comes no faster than the processor fetches ahead in it.
pub(super) fn streams(choice: &Attempts<'_>, survey: &Survey, inner: &InnerLoops, id: u32) -> Option<(u32, u32)> {
    let target = choice.target;
    if target.blocks.is_some() || inner.is_local_buffer || survey.inner.len() != 1 || inner.ranges.len() != 1 {
        return None;
    }
    let row = survey.outputs.iter().map(range_id).rfind(|row| inner.is_inside(*row))?;
    let loads: Vec<&AccessPattern> = survey.accesses.iter().filter(|access| inner.holds(access)).collect();
    let is_read_once = |access: &&AccessPattern| {
        let step = |id: u32| access.steps.get(&id).copied().unwrap_or(0);
        access.irregular.is_empty() && step(id) == 1 && step(row) * access.bytes as i64 >= STREAM_BYTES
    };
    let bytes: f64 = loads.iter().map(|access| access.weight * access.bytes as f64).sum();
    let times = STREAMS / loads.len().max(1) as u32;
    let is_far = bytes > target.cache_l2_bytes as f64 && loads.iter().all(is_read_once);
    (is_far && times >= 2 && survey.len(row) >= i64::from(times)).then_some((row, times))
}
