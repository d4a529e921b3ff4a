//! Random chains of PyTorch's view functions on tensors, and random writes through what they give.
//!
//! Views: the elements that a view shows are those that its strides and offset name, all in the storage. Writes: what is in the storage
//! afterwards is what a list has when the source is read whole before the first element is written. On the interpreter, where a program
//! costs little; the cases of `corpora` run on the CPU too.

use proptest::prelude::*;
use serde_json::{Value as Json, json};
use warpweft::Tensor;
use warpweft_tests::conformance::view_memory::{Layout, WriteOp, repeats};
use warpweft_tests::conformance::view_steps::{Stepped, Storage};

const LEN: i64 = 48;

fn dim() -> impl Strategy<Value = i64> {
    -3..3i64
}

fn bound() -> impl Strategy<Value = Json> {
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
        (dim(), bound(), bound(), 1..4i64).prop_map(
            |(dim, start, end, step)| json!({"op": "slice", "dim": dim, "start": start, "end": end, "step": step})
        ),
        (dim(), bound(), bound(), prop_oneof![-3..0i64, 1..3i64]).prop_map(
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
        (prop::collection::vec((0..4i64, 0..5i64), 0..3), bound()).prop_map(|(axes, offset)| {
            let (shape, strides): (Vec<i64>, Vec<i64>) = axes.into_iter().unzip();
            json!({"op": "as_strided", "shape": shape, "strides": strides, "offset": offset})
        }),
    ]
}

fn chain() -> impl Strategy<Value = Vec<Json>> {
    prop::collection::vec(step(), 0..6)
}

fn storage() -> Storage {
    Storage::of(&json!({"base_numel": LEN, "base_shape": [4, 3, 4]}), Some("INTERPRETER")).expect("a storage")
}

/// The views of a chain: each step that can be done without a copy is done.
fn views(storage: &Storage, steps: &[Json]) -> Vec<Tensor> {
    let mut views = vec![storage.base.clone()];
    for step in steps {
        let last = &views[views.len() - 1];
        if let Stepped::View(next) = storage.step(last, step).unwrap_or_else(|stop| panic!("{stop:?}"))
            && next.numel().is_ok_and(|count| count < 2000)
        {
            views.push(next);
        }
    }
    views
}

/// Where each position of a shape reads a source that broadcasts to it, if it does.
fn broadcast(from: &Layout, to: &[i64]) -> Option<Vec<i64>> {
    let new = to.len().checked_sub(from.shape.len())?;
    let mut strides = vec![0; to.len()];
    for (axis, (&len, &stride)) in from.shape.iter().zip(&from.strides).enumerate() {
        match len == to[new + axis] {
            true => strides[new + axis] = stride,
            false if len == 1 => {}
            false => return None,
        }
    }
    Some(Layout { shape: to.to_vec(), strides, offset: from.offset }.addresses())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn tensors_show_what_their_strides_name(steps in chain()) {
        for view in views(&storage(), &steps) {
            let addresses = Layout::of(&view).expect("concrete").addresses();
            prop_assert!(addresses.iter().all(|address| (0..LEN).contains(address)));
            prop_assert_eq!(view.overlaps_itself().expect("no error"), repeats(&addresses));
            prop_assert_eq!(view.to_vec::<i64>().expect("a value"), addresses);
        }
    }

    #[test]
    fn writes_read_their_source_first(to in chain(), from in chain(), op in 1..4usize) {
        let op = [WriteOp::Fill, WriteOp::Copy, WriteOp::Add, WriteOp::Multiply][op];
        let storage = storage();
        let (to, from) = (views(&storage, &to).pop().expect("a view"), views(&storage, &from).pop().expect("a view"));
        let (target, source) = (Layout::of(&to).expect("concrete"), Layout::of(&from).expect("concrete"));
        let (addresses, sources) = (target.addresses(), source.addresses());
        let meet = addresses.iter().any(|address| sources.contains(address));
        prop_assert_eq!(to.shares_elements_with(&from).expect("no error"), meet);
        let mut wanted: Vec<i64> = (0..LEN).collect();
        let written = op.write(&to, &from);
        let reads = broadcast(&source, &target.shape);
        let is_same = matches!(op, WriteOp::Copy) && target.shape == source.shape && addresses == sources;
        prop_assert_eq!(written.is_ok(), is_same || (reads.is_some() && !repeats(&addresses)), "{:?}", written);
        if let (Ok(()), Some(reads)) = (written, reads) {
            for (&address, read) in addresses.iter().zip(reads) {
                wanted[address as usize] = op.combine(address, read);
            }
        }
        prop_assert_eq!(storage.flat.to_vec::<i64>().expect("a value"), wanted);
    }
}
