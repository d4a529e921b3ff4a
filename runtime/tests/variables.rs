//! Two users of symbolic shapes: attention over a growing cache, and a network on a batch of any size.
//!
//! What they compute is compared with the same programs over plain numbers, and the counters say how often something was compiled.
//! They are the process's counters, so the tests of this file take turns and are a process of their own.
#![allow(clippy::unwrap_used, reason = "a step that fails fails its test")]

use std::sync::{Mutex, PoisonError};

use warpweft::execute::ExecuteStats;
use warpweft::tensor::{AttentionOptions, Dims};
use warpweft::{DType, Dim, Tensor, Var, registry};

static TURN: Mutex<()> = Mutex::new(());

const DEVICES: [&str; 2] = ["CPU", "INTERPRETER"];

fn floats(device: &str, shape: impl Into<Dims>, seed: u64) -> Tensor {
    let shape = shape.into();
    let count = shape.numel().value().unwrap() as u64;
    let value = |k: u64| ((k * 7919 + seed * 104_729) % 2003) as f32 / 1000.0 - 1.0;
    let bytes: Vec<u8> = (0..count).flat_map(|k| value(k).to_le_bytes()).collect();
    Tensor::from_bytes(Some(device), DType::F32, shape, &bytes)
}

fn stats(device: &str) -> ExecuteStats {
    registry::executor(Some(device)).unwrap().stats()
}

/// Sums of up to 36 products may be taken in another order, each addition off by half of 2^-23 of the sum so far.
const OFF_BY: f32 = 36.0 * 6e-8;

#[track_caller]
fn close(got: &Tensor, want: &Tensor, about: &str) {
    assert_eq!(got.shape().unwrap(), want.shape().unwrap(), "{about}");
    for (got, want) in got.to_vec::<f32>().unwrap().iter().zip(want.to_vec::<f32>().unwrap()) {
        assert!((got - want).abs() <= 2.0 * OFF_BY * want.abs().max(1.0), "{about}: {got} is not {want}");
    }
}

#[test]
fn attention_over_a_growing_cache_compiles_once() {
    const TOKENS: i64 = 13;
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let position = Var::new("position", 0..=TOKENS - 1).unwrap();
    for device in DEVICES {
        let [queries, keys, values] = [1, 2, 3].map(|seed| floats(device, [2, TOKENS, 8], seed));
        let step = |keys: &Tensor, values: &Tensor, at: &Dim| {
            let query = queries.narrow(1, at, 1);
            query.attention(&keys.narrow(1, 0, at + 1), &values.narrow(1, 0, at + 1), &AttentionOptions::default())
        };
        let zeros = || Tensor::from_bytes(Some(device), DType::F32, [2, TOKENS, 8], &[0; 2 * TOKENS as usize * 32]);
        let (kept_keys, kept_values) = (zeros(), zeros());
        let mut seen = Vec::new();
        let mut after_first = None;
        for at in 0..TOKENS {
            let at = position.bind(at).unwrap();
            for (cache, source) in [(&kept_keys, &keys), (&kept_values, &values)] {
                cache.narrow(1, &at, 1).assign(source.narrow(1, &at, 1)).unwrap();
            }
            let outcome = step(&kept_keys, &kept_values, &at);
            Tensor::realize_all(&[&kept_keys, &kept_values, &outcome]).unwrap();
            seen.push(outcome);
            after_first.get_or_insert(stats(device));
        }
        let (first, last) = (after_first.unwrap(), stats(device));
        assert_eq!(first.schedules_made, last.schedules_made, "{device}: a step was scheduled anew");
        assert_eq!(first.kernels_compiled, last.kernels_compiled, "{device}: a step was compiled anew");
        for (at, outcome) in seen.iter().enumerate() {
            close(outcome, &step(&keys, &values, &Dim::from(at)), &format!("{device}, position {at}"));
        }
        close(&kept_keys, &keys, device);
    }
}

#[test]
fn a_network_takes_a_batch_of_any_size() {
    const BATCH_MAX: i64 = 40;
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let batch = Var::new("batch", 1..=BATCH_MAX).unwrap();
    for device in DEVICES {
        let (filters, first, second) =
            (floats(device, [4, 1, 3, 3], 4), floats(device, [16, 36], 5), floats(device, [10, 16], 6));
        let forward = |images: &Tensor| {
            let filtered = images.conv(&filters, None, &Default::default()).relu();
            let pooled = filtered.max_pool(&warpweft::tensor::PoolOptions::default().kernel(vec![2]));
            pooled.flatten(1, -1).linear(&first, None).relu().linear(&second, None).log_softmax(1)
        };
        let mut outcomes = Vec::new();
        let mut after_first = None;
        for count in 1..=BATCH_MAX {
            let images = floats(device, (batch.bind(count).unwrap(), 1, 8, 8), 9);
            let scores = forward(&images);
            scores.realize().unwrap();
            outcomes.push(scores);
            after_first.get_or_insert(stats(device));
        }
        let (first_run, last) = (after_first.unwrap(), stats(device));
        assert_eq!(first_run.schedules_made, last.schedules_made, "{device}");
        assert_eq!(first_run.kernels_compiled, last.kernels_compiled, "{device}");
        let whole = forward(&floats(device, [BATCH_MAX, 1, 8, 8], 9));
        for (count, outcome) in outcomes.iter().enumerate() {
            close(outcome, &whole.narrow(0, 0, count + 1), &format!("{device}, batch of {}", count + 1));
        }
    }
}
