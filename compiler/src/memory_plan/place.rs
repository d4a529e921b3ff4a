//! Placing spans: several orders are tried, each span goes to the tightest gap among those that live when it does, the smallest
//! arena wins.
//!
//! Largest first is near the bound for most programs; long-lived first and in order of time win on some. Programs of very many
//! temporaries are placed in order of time alone, over a list of free gaps, which takes no pass over all that is placed.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::{Placement, Span, bound};

/// With more spans than this, a try takes longer than it gains.
const SPANS_TRIED_MAX: usize = 1500;

/// What the spans of a try are ordered by, largest first.
type Key = fn(&Span) -> (u64, u64);

/// An offset for each span, such that no two that live at once overlap.
pub fn place(spans: &[Span]) -> Placement {
    let in_time = place_in_time(spans);
    if spans.len() > SPANS_TRIED_MAX {
        return in_time;
    }
    let bound = bound(spans);
    let mut best = in_time;
    let keys: [Key; 4] = [
        |span| (span.room(), duration(span)),
        |span| (duration(span), span.room()),
        |span| (span.room().saturating_mul(duration(span)), 0),
        |span| (u64::from(u32::MAX - span.first), span.room()),
    ];
    for key in keys {
        if best.bytes == bound {
            break;
        }
        let mut order: Vec<usize> = (0..spans.len()).collect();
        order.sort_by_key(|&number| Reverse(key(&spans[number])));
        let placement = place_in_order(spans, &order);
        if placement.bytes < best.bytes {
            best = placement;
        }
    }
    best
}

fn duration(span: &Span) -> u64 {
    u64::from(span.last - span.first) + 1
}

/// Each span in this order at the tightest gap between those already placed that live when it does; the lowest of equals.
fn place_in_order(spans: &[Span], order: &[usize]) -> Placement {
    let mut placement = Placement { offsets: vec![0; spans.len()], bytes: 0 };
    // What is placed, by offset.
    let mut placed: Vec<usize> = Vec::with_capacity(spans.len());
    for &number in order {
        let span = &spans[number];
        let (mut end, mut tightest): (u64, Option<(u64, u64)>) = (0, None);
        for other in placed.iter().filter(|&&other| spans[other].meets(span)) {
            let begin = placement.offsets[*other];
            if let Some(gap) = begin.checked_sub(end).filter(|&gap| gap >= span.room() && gap > 0)
                && tightest.is_none_or(|(least, _)| gap < least)
            {
                tightest = Some((gap, end));
            }
            end = end.max(begin + spans[*other].room());
        }
        let offset = tightest.map_or(end, |(_, offset)| offset);
        placement.offsets[number] = offset;
        placement.bytes = placement.bytes.max(offset + span.room());
        let position = placed.partition_point(|&other| placement.offsets[other] <= offset);
        placed.insert(position, number);
    }
    placement
}

/// Spans in order of their first kernel, from a list of free gaps that neighbours are joined into.
fn place_in_time(spans: &[Span]) -> Placement {
    let mut placement = Placement { offsets: vec![0; spans.len()], bytes: 0 };
    let mut order: Vec<usize> = (0..spans.len()).collect();
    order.sort_by_key(|&number| (spans[number].first, Reverse(spans[number].room())));
    let mut free = Gaps::default();
    let mut live: BinaryHeap<Reverse<(u32, usize)>> = BinaryHeap::new();
    for number in order {
        let span = &spans[number];
        while let Some(&Reverse((last, ended))) = live.peek()
            && last < span.first
        {
            live.pop();
            free.give(placement.offsets[ended], spans[ended].room());
        }
        let offset = free.take(span.room(), &mut placement.bytes);
        placement.offsets[number] = offset;
        live.push(Reverse((span.last, number)));
    }
    placement
}

/// Free bytes below the end of an arena.
#[derive(Default)]
struct Gaps {
    /// Length of each gap by its offset.
    by_offset: BTreeMap<u64, u64>,
    /// The same, by length first.
    by_bytes: BTreeMap<(u64, u64), ()>,
}

impl Gaps {
    /// The tightest gap that fits, or the end of the arena, which grows by what the gap before its end lacks.
    fn take(&mut self, bytes: u64, arena: &mut u64) -> u64 {
        if bytes == 0 {
            return 0;
        }
        let fitting = self.by_bytes.range((bytes, 0)..).next().map(|(&(len, offset), ())| (offset, len));
        if let Some((offset, len)) = fitting {
            self.remove(offset, len);
            self.insert(offset + bytes, len - bytes);
            return offset;
        }
        let last = self.by_offset.last_key_value().map(|(&offset, &len)| (offset, len));
        let offset = match last.filter(|(offset, len)| offset + len == *arena) {
            Some((offset, len)) => {
                self.remove(offset, len);
                offset
            }
            None => *arena,
        };
        *arena = offset + bytes;
        offset
    }

    /// A gap again, joined with its neighbours.
    fn give(&mut self, mut offset: u64, mut bytes: u64) {
        if let Some((&before, &len)) = self.by_offset.range(..offset).next_back()
            && before + len == offset
        {
            self.remove(before, len);
            (offset, bytes) = (before, bytes + len);
        }
        if let Some(&len) = self.by_offset.get(&(offset + bytes)) {
            self.remove(offset + bytes, len);
            bytes += len;
        }
        self.insert(offset, bytes);
    }

    fn insert(&mut self, offset: u64, bytes: u64) {
        if bytes > 0 {
            self.by_offset.insert(offset, bytes);
            self.by_bytes.insert((bytes, offset), ());
        }
    }

    fn remove(&mut self, offset: u64, bytes: u64) {
        self.by_offset.remove(&offset);
        self.by_bytes.remove(&(bytes, offset));
    }
}
