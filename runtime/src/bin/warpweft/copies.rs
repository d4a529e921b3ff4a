//! `warpweft bench from_vec_256M` and its like: 256 MB into a tensor and out of it, beside a plain copy of as much.
//!
//! Each copies once, so a plain copy into fresh memory is what it may take.

use std::hint::black_box;

use warpweft::Tensor;

use crate::bench::{Bench, Cost, Failure, Times, time};

/// The cases.
pub(crate) const NAMES: &[&str] = &["clone_256M", "from_vec_256M", "from_slice_256M", "to_vec_256M", "with_slice_256M"];
const ELEMENTS: usize = 64 << 20;

/// Times one of the cases.
pub(crate) fn run(arguments: &Bench, name: &str) -> Result<(Cost, Times), Failure> {
    let data: Vec<f32> = (0..ELEMENTS).map(|k| k as f32).collect();
    let tensor = Tensor::from_slice(&data, [ELEMENTS]);
    let bytes = (2 * ELEMENTS * size_of::<f32>()) as f64;
    let times = match name {
        "clone_256M" => time(arguments.seconds, || {
            black_box(data.clone());
            Ok(())
        }),
        // The vector itself is copied before the clock runs, so that only what the call does is timed.
        "from_vec_256M" => from_vec(arguments.seconds, &data),
        "from_slice_256M" => {
            time(arguments.seconds, || Ok(black_box(Tensor::from_slice(&data, [ELEMENTS])).realize().map(|_| ())?))
        }
        "to_vec_256M" => time(arguments.seconds, || {
            black_box(tensor.to_vec::<f32>()?);
            Ok(())
        }),
        _ => time(arguments.seconds, || {
            black_box(tensor.with_slice::<f32, _>(|elements| elements.iter().sum::<f32>())?);
            Ok(())
        }),
    };
    Ok((Cost { bytes, flops: 0.0 }, times?))
}

fn from_vec(seconds: f64, data: &[f32]) -> Result<Times, Failure> {
    let mut calls = Vec::new();
    let begun = std::time::Instant::now();
    while calls.len() < 6 || (begun.elapsed().as_secs_f64() < seconds && calls.len() < 200) {
        let given = data.to_vec();
        let started = std::time::Instant::now();
        black_box(Tensor::from_vec(given, [data.len()])).realize()?;
        calls.push(started.elapsed().as_secs_f64());
    }
    let first = calls.remove(0);
    Ok(Times { calls, first })
}
