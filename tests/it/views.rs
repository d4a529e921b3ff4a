//! Random chains of PyTorch's view functions, and random writes through what they give.
//!
//! Views: the node of a view shows the elements that its strides name, and the strides derived from the node are the view's; every
//! element is in the storage. Writes: what a plan does is what reading the whole source first does.

use proptest::prelude::*;
use serde_json::{Value as Json, json};
use warpweft_compiler::region::{ExactJudge, views_meet};
use warpweft_compiler::view::{ViewSpec, WriteSource, plan_write};
use warpweft_tests::conformance::view_memory::{WriteOp, addresses, carry_out, shown};
use warpweft_tests::conformance::view_steps::{Seen, Stepped};

const LEN: i64 = 48;

fn dim() -> impl Strategy<Value = i64> {
    -3..3i64
}

fn place() -> impl Strategy<Value = Json> {
    prop_oneof![Just(Json::Null), (-9..9i64).prop_map(Json::from)]
}

fn lens() -> impl Strategy<Value = Vec<i64>> {
    prop::collection::vec(prop_oneof![Just(-1), Just(1), Just(2), Just(3), Just(4), Just(6), Just(12)], 0..4)
}

fn step() -> impl Strategy<Value = Json> {
    prop_oneof![
        lens().prop_map(|shape| json!({"op": "view", "shape": shape})),
        lens().prop_map(|shape| json!({"op": "expand", "shape": shape})),
        (dim(), dim()).prop_map(|(a, b)| json!({"op": "transpose", "d0": a, "d1": b})),
        (dim(), place(), place(), 1..4i64).prop_map(
            |(dim, start, end, step)| json!({"op": "slice", "dim": dim, "start": start, "end": end, "step": step})
        ),
        (dim(), place(), place(), prop_oneof![-3..0i64, 1..3i64]).prop_map(
            |(dim, start, end, step)| json!({"op": "slice_np", "dim": dim, "start": start, "end": end, "step": step})
        ),
        (dim(), -4..4i64, 0..4i64)
            .prop_map(|(dim, start, length)| json!({"op": "narrow", "dim": dim, "start": start, "length": length})),
        (dim(), -4..4i64).prop_map(|(dim, index)| json!({"op": "select", "dim": dim, "index": index})),
        (dim(), 0..5i64, 1..4i64)
            .prop_map(|(dim, size, step)| json!({"op": "unfold", "dim": dim, "size": size, "step": step})),
        (-3..3i64, dim(), dim()).prop_map(|(shift, a, b)| json!({"op": "diagonal", "offset": shift, "d0": a, "d1": b})),
        dim().prop_map(|dim| json!({"op": "squeeze", "dim": dim})),
        dim().prop_map(|dim| json!({"op": "unsqueeze", "dim": dim})),
        dim().prop_map(|dim| json!({"op": "flip", "dims": [dim]})),
        (prop::collection::vec((0..4i64, 0..5i64), 0..3), place()).prop_map(|(axes, offset)| {
            let (shape, strides): (Vec<i64>, Vec<i64>) = axes.into_iter().unzip();
            json!({"op": "as_strided", "shape": shape, "strides": strides, "offset": offset})
        }),
    ]
}

fn chain() -> impl Strategy<Value = Vec<Json>> {
    prop::collection::vec(step(), 0..6)
}

/// The views of a chain: each step that can be done is done.
fn views(steps: &[Json]) -> Vec<Seen> {
    let mut views = vec![Seen::base(&json!({"base_numel": LEN, "base_shape": [4, 3, 4]})).expect("a base")];
    for step in steps {
        let last = &views[views.len() - 1];
        if let Stepped::View(next) = last.step(step).unwrap_or_else(|stop| panic!("{stop:?}"))
            && addresses(&next.spec).is_ok_and(|addresses| addresses.len() < 2000)
        {
            views.push(next);
        }
    }
    views
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn nodes_show_what_strides_name(steps in chain()) {
        for seen in views(&steps) {
            let elements = addresses(&seen.spec).expect("concrete");
            prop_assert!(elements.iter().all(|element| (0..LEN).contains(element)));
            prop_assert_eq!(ViewSpec::of_node(&seen.node), Some(&seen.spec));
            prop_assert_eq!(shown(&seen).expect("interpreted"), elements);
        }
    }

    #[test]
    fn writes_read_their_source_first(to in chain(), from in chain(), op in 1..4usize) {
        let op = [WriteOp::Fill, WriteOp::Copy, WriteOp::Add, WriteOp::Multiply][op];
        let (to, from) = (views(&to).pop().expect("a view").spec, views(&from).pop().expect("a view").spec);
        let mut places = addresses(&to).expect("concrete");
        let sources = addresses(&from).expect("concrete");
        let meet = places.iter().any(|place| sources.contains(place));
        prop_assert_eq!(views_meet(&to, &from).known(), Some(meet));
        let before: Vec<i64> = (0..LEN).map(|element| element * 7 + 1).collect();
        let mut memory = before.clone();
        let Ok(plan) = plan_write(op.kind(), &to, WriteSource::SameStorage(&from), &ExactJudge) else {
            let all = places.len();
            places.sort_unstable();
            places.dedup();
            prop_assert!(places.len() < all || from.broadcast_to(&to.shape).is_err());
            return Ok(());
        };
        carry_out(&plan, &mut memory, &places, op, &|memory, address| memory[address as usize]).expect("as many positions");
        let mut wanted = before.clone();
        let broadcast = addresses(&from.broadcast_to(&to.shape).expect("planned")).expect("concrete");
        for (place, source) in places.iter().zip(broadcast) {
            let (place, source) = (*place as usize, source as usize);
            wanted[place] = op.combine(before[place], before[source]);
        }
        prop_assert_eq!(memory, wanted);
    }
}
