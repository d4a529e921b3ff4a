//! The memory planner: where the temporaries of a program lie in one arena, so that those that never live at once share bytes.
//!
//! ```text
//! schedule --lifetimes--> spans --lend--> memory of outputs that are stored later
//!                               --place--> offsets in one arena        (check: no two that live at once overlap)
//! ```
//!
//! A *span* is a buffer's bytes and the kernels from the one that first stores it to the last that names it, both included: what a
//! kernel reads and what it writes live at once. The *bound* is the most bytes that live at once; no arena can be smaller.
//!
//! Always: offsets are multiples of [`ALIGNMENT`]; the outcome is a function of the spans. Not here: memory itself (`runtime`).

mod alias_targets;
mod check;
mod place;
#[cfg(test)]
mod tests;

pub use check::check;
pub use place::place;

use crate::schedule::{BufferRole, ScheduleBuffer};

/// Offsets are multiples of this: two cache lines, as devices align buffers.
pub const ALIGNMENT: u64 = 128;

/// Bytes that are needed for some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Span {
    /// How many.
    pub bytes: u64,
    /// The kernel that stores them first.
    pub first: u32,
    /// The last kernel that names them; not before `first`.
    pub last: u32,
}

/// Where spans lie.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// First byte of each span, in their order.
    pub offsets: Vec<u64>,
    /// Bytes of the arena.
    pub bytes: u64,
}

/// What planning gained, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gain {
    /// With every span in memory of its own.
    pub unplanned: u64,
    /// With spans placed.
    pub planned: u64,
    /// The most that lives at once: no plan can do with less.
    pub bound: u64,
}

impl Span {
    /// Its bytes, rounded up to whole units of alignment.
    pub fn room(&self) -> u64 {
        self.bytes.next_multiple_of(ALIGNMENT)
    }

    /// Whether some kernel needs both.
    pub fn meets(&self, other: &Span) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

/// Where the temporaries of a schedule lie in its arena.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryPlan {
    /// First byte of each of the schedule's buffers that is a temporary in the arena.
    pub offsets: Vec<Option<u64>>,
    /// The output in whose memory, from its first byte on, each of the schedule's buffers lies that is a temporary and not in the arena.
    pub alias_targets: Vec<Option<usize>>,
    /// Bytes of the arena.
    pub bytes: u64,
    /// What it gained.
    pub gain: Gain,
}

/// Places the temporaries among the buffers of a schedule, of which each kernel names some; each beside all others unless they
/// may `share`. A temporary lies in the arena or in the memory of an output.
pub fn plan(buffers: &[ScheduleBuffer], kernels: &[Vec<usize>], share: bool) -> MemoryPlan {
    let (numbers, temporaries) = spans_of(buffers, kernels, |role| matches!(role, BufferRole::Temporary));
    let (lending, outputs) = spans_of(buffers, kernels, |role| matches!(role, BufferRole::Output(_)));
    let mut alias_targets = vec![None; temporaries.len()];
    let mut placement = if share { place(&temporaries) } else { side_by_side(&temporaries) };
    if share {
        let loans = alias_targets::lend(&outputs, &temporaries);
        let smaller = place(&without(&temporaries, &loans));
        if smaller.bytes < placement.bytes {
            (alias_targets, placement) = (loans, smaller);
        }
    }
    #[cfg(debug_assertions)]
    if let Err(message) = check(&without(&temporaries, &alias_targets), &placement) {
        panic!("bug in the compiler: illegal memory plan: {message}");
    }
    let gain = gain(kernels.len(), outputs, &temporaries, placement.bytes);
    let mut plan = MemoryPlan {
        offsets: vec![None; buffers.len()],
        alias_targets: vec![None; buffers.len()],
        bytes: placement.bytes,
        gain,
    };
    let mut offsets = placement.offsets.into_iter();
    for (number, alias_target) in numbers.into_iter().zip(alias_targets) {
        match alias_target {
            Some(output) => plan.alias_targets[number] = Some(lending[output]),
            None => plan.offsets[number] = offsets.next(),
        }
    }
    plan
}

/// The spans that borrow nothing.
fn without(spans: &[Span], loans: &[Option<usize>]) -> Vec<Span> {
    spans.iter().zip(loans).filter(|(_, loan)| loan.is_none()).map(|(span, _)| *span).collect()
}

/// Outputs live until the end of the program, and count in all three numbers.
fn gain(kernels: usize, outputs: Vec<Span>, temporaries: &[Span], arena: u64) -> Gain {
    let end = kernels.saturating_sub(1) as u32;
    let outputs: Vec<Span> = outputs.into_iter().map(|span| Span { last: end, ..span }).collect();
    let output_bytes: u64 = outputs.iter().map(Span::room).sum();
    Gain {
        unplanned: output_bytes + temporaries.iter().map(Span::room).sum::<u64>(),
        planned: output_bytes + arena,
        bound: bound(&[&outputs, temporaries].concat()),
    }
}

fn side_by_side(spans: &[Span]) -> Placement {
    let mut bytes = 0;
    let mut next = |span: &Span| {
        bytes += span.room();
        bytes - span.room()
    };
    let offsets = spans.iter().map(&mut next).collect();
    Placement { offsets, bytes }
}

/// The most bytes that live at once.
pub fn bound(spans: &[Span]) -> u64 {
    // Bytes that come with a kernel and go after it; what comes counts before what goes.
    let mut events: Vec<(u32, bool, u64)> =
        spans.iter().flat_map(|span| [(span.first, false, span.room()), (span.last, true, span.room())]).collect();
    events.sort_unstable();
    let (mut live, mut most) = (0, 0);
    for (_, goes, bytes) in events {
        if goes {
            live -= bytes;
        } else {
            live += bytes;
            most = most.max(live);
        }
    }
    most
}

/// The buffers of a role in order, and their spans.
fn spans_of(
    buffers: &[ScheduleBuffer],
    kernels: &[Vec<usize>],
    wanted: impl Fn(BufferRole) -> bool,
) -> (Vec<usize>, Vec<Span>) {
    let mut spans: Vec<Option<Span>> = vec![None; buffers.len()];
    for (number, named) in kernels.iter().enumerate() {
        let number = number as u32;
        for &index in named {
            let buffer = &buffers[index];
            if wanted(buffer.role) {
                let bytes = buffer.len.saturating_mul(buffer.dtype.bytes() as u64);
                spans[index].get_or_insert(Span { bytes, first: number, last: number }).last = number;
            }
        }
    }
    spans.into_iter().enumerate().filter_map(|(index, span)| Some((index, span?))).unzip()
}
