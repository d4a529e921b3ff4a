//! Lending: a temporary that is needed no longer when an output is first stored may lie in the output's memory until then.
//!
//! Outputs have memory of their own, since they outlive the program; until they are stored it stands empty. What is lent leaves the
//! arena. Lent are temporaries that live at the kernel where most lives at once, the largest first, until no output has room for one.
//! Of several such kernels the last comes first: what the output is made from cannot borrow, so in a chain every other one does.
//!
//! Always: a borrower fits and has left before its output comes, and borrowers of one output never live at once.

use super::Span;

/// More loans than this gain little and take a pass over all temporaries each.
const LOANS_MAX: usize = 256;

/// The output, by position, whose memory each temporary borrows.
pub(super) fn lend(outputs: &[Span], temporaries: &[Span]) -> Vec<Option<usize>> {
    let mut alias_targets: Vec<Option<usize>> = vec![None; temporaries.len()];
    for _ in 0..LOANS_MAX {
        let left: Vec<usize> = (0..temporaries.len()).filter(|&number| alias_targets[number].is_none()).collect();
        let Some(peak) = busiest(left.iter().map(|&number| &temporaries[number])) else { break };
        let loan = left
            .into_iter()
            .filter(|&number| temporaries[number].first <= peak && peak <= temporaries[number].last)
            .filter_map(|number| Some((number, alias_target(outputs, temporaries, &alias_targets, number)?)))
            .max_by_key(|&(number, _)| (temporaries[number].room(), number));
        let Some((number, output)) = loan else { break };
        alias_targets[number] = Some(output);
    }
    alias_targets
}

/// The smallest output that has room for a temporary.
fn alias_target(
    outputs: &[Span],
    temporaries: &[Span],
    alias_targets: &[Option<usize>],
    number: usize,
) -> Option<usize> {
    let wanted = &temporaries[number];
    let is_free = |output: usize| {
        let borrowers = (0..temporaries.len()).filter(|&other| alias_targets[other] == Some(output));
        borrowers.into_iter().all(|other| !temporaries[other].meets(wanted))
    };
    (0..outputs.len())
        .filter(|&output| wanted.bytes <= outputs[output].bytes && wanted.last < outputs[output].first)
        .filter(|&output| is_free(output))
        .min_by_key(|&output| outputs[output].bytes)
}

/// The last kernel at which most bytes live at once; none if there are no spans.
fn busiest<'s>(spans: impl Iterator<Item = &'s Span> + Clone) -> Option<u32> {
    // What comes counts before what goes.
    let mut events: Vec<(u32, bool, u64)> =
        spans.flat_map(|span| [(span.first, false, span.room()), (span.last, true, span.room())]).collect();
    events.sort_unstable();
    let (mut live, mut most, mut at) = (0, 0, None);
    for (time, goes, bytes) in events {
        live = if goes { live - bytes } else { live + bytes };
        if !goes && live >= most {
            (most, at) = (live, Some(time));
        }
    }
    at
}
