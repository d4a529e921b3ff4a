//! Placements of random spans against the checker, the bound, and a checker that looks at single bytes.

use proptest::prelude::*;

use super::*;

fn span(bytes: u64, first: u32, last: u32) -> Span {
    Span { bytes, first, last }
}

fn spans() -> impl Strategy<Value = Vec<Span>> {
    let sizes = prop_oneof![0u64..600, Just(128), Just(1024), 1000u64..1100];
    let one = (sizes, 0u32..20, 0u32..6).prop_map(|(bytes, first, more)| span(bytes, first, first + more));
    prop::collection::vec(one, 0..25)
}

/// The obvious model: each byte of the arena at each time has at most one owner.
fn is_legal_byte_by_byte(spans: &[Span], placement: &Placement) -> bool {
    let mut owners = rustc_hash::FxHashMap::default();
    spans.iter().zip(&placement.offsets).enumerate().all(|(number, (span, &offset))| {
        let bytes = offset..offset + span.bytes;
        bytes.into_iter().all(|byte| {
            byte < placement.bytes
                && (span.first..=span.last).all(|time| *owners.entry((byte, time)).or_insert(number) == number)
        })
    })
}

fn most_at_once(spans: &[Span]) -> u64 {
    let at = |time| spans.iter().filter(|span| span.first <= time && time <= span.last).map(Span::room).sum();
    (0..40).map(at).max().unwrap_or(0)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn placements_are_legal_and_near_the_bound(spans in spans()) {
        let placement = place(&spans);
        prop_assert_eq!(check(&spans, &placement), Ok(()));
        prop_assert!(is_legal_byte_by_byte(&spans, &placement));
        prop_assert_eq!(bound(&spans), most_at_once(&spans));
        prop_assert!(placement.bytes >= bound(&spans));
        prop_assert!(placement.bytes <= spans.iter().map(Span::room).sum());
    }

    #[test]
    fn loans_fit_in_bytes_and_time(outputs in prop::collection::vec((100u64..1200, 0u32..25), 0..4), spans in spans()) {
        let outputs: Vec<Span> = outputs.into_iter().map(|(bytes, first)| span(bytes, first, 30)).collect();
        let loans = alias_targets::lend(&outputs, &spans);
        let mut owners = rustc_hash::FxHashMap::default();
        for (number, (borrower, alias_target)) in spans.iter().zip(&loans).enumerate() {
            let Some(alias_target) = alias_target else { continue };
            prop_assert!(borrower.bytes <= outputs[*alias_target].bytes);
            for time in borrower.first..=borrower.last {
                prop_assert!(time < outputs[*alias_target].first);
                prop_assert_eq!(*owners.entry((*alias_target, time)).or_insert(number), number);
            }
        }
    }

    #[test]
    fn the_checker_and_the_model_agree(spans in spans(), units in prop::collection::vec(0u64..20, 25), arena in 0u64..30) {
        let offsets = units[..spans.len()].iter().map(|unit| unit * ALIGNMENT).collect();
        let placement = Placement { offsets, bytes: arena * ALIGNMENT };
        let inside = spans.iter().zip(&placement.offsets).all(|(span, offset)| offset + span.bytes <= placement.bytes);
        prop_assert_eq!(check(&spans, &placement).is_ok(), inside && is_legal_byte_by_byte(&spans, &placement));
    }
}

#[test]
fn a_chain_needs_two_buffers() {
    let spans: Vec<Span> = (0..10).map(|time| span(4096, time, time + 1)).collect();
    assert_eq!(place(&spans).bytes, 2 * 4096);
    assert_eq!(bound(&spans), 2 * 4096);
}

#[test]
fn many_spans_are_placed_in_order_of_time() {
    let spans: Vec<Span> =
        (0..20_000u32).map(|time| span(128 + u64::from(time % 7) * 128, time, time + time % 5)).collect();
    let placement = place(&spans);
    assert_eq!(check(&spans, &placement), Ok(()));
    assert!(placement.bytes < 2 * bound(&spans), "{} of {}", placement.bytes, bound(&spans));
}

#[test]
fn the_checker_says_what_is_wrong() {
    let two = [span(200, 0, 1), span(100, 1, 2)];
    let wrong = |offsets: [u64; 2], bytes| check(&two, &Placement { offsets: offsets.to_vec(), bytes }).unwrap_err();
    assert_eq!(wrong([0, 128], 512), "spans 0 and 1 live at once and overlap");
    assert_eq!(wrong([0, 200], 512), "span 1 lies at 200, which is no multiple of 128");
    assert_eq!(wrong([0, 256], 300), "span 1 at 256 ends after the 300 bytes of the arena");
    assert_eq!(check(&two, &Placement::default()).unwrap_err(), "2 spans have 0 offsets");
}

#[test]
fn lifetimes_come_from_the_schedule() {
    use crate::DType;
    use crate::ir::UOp;
    let plan = |value: UOp, share: bool| {
        let schedule = crate::schedule::schedule(&UOp::sink([value])).unwrap();
        let kernels: Vec<Vec<usize>> = schedule.kernels.iter().map(|kernel| kernel.buffers.clone()).collect();
        (schedule.buffers.clone(), kernels.clone(), super::plan(&schedule.buffers, &kernels, share))
    };
    // Three kernels in a row: what the first stores is read by the second, and so on.
    let x = UOp::param(0, DType::F32, 64);
    let (buffers, kernels, shared) = plan((x.exp2().contiguous() + 1).contiguous() * 2, true);
    let (_, spans) = spans_of(&buffers, &kernels, |role| role == BufferRole::Temporary);
    assert_eq!(spans, [span(256, 0, 1), span(256, 1, 2)]);
    // The first is done with when the output is stored, so it lies there.
    assert_eq!((shared.gain, shared.bytes), (Gain { unplanned: 768, planned: 512, bound: 512 }, 256));
    assert_eq!((shared.offsets.iter().flatten().count(), shared.alias_targets.iter().flatten().count()), (1, 1));
    // Without sharing every temporary has bytes of its own for good.
    let long = (0..5).fold(UOp::param(0, DType::F32, 64), |value, _| value.exp2().contiguous()) * 2;
    assert_eq!((plan(long.clone(), true).2.bytes, plan(long, false).2.bytes), (256, 5 * 256));
}
