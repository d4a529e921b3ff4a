//! Bench cases of compiled functions: replay, threads, memory.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use warpweft::config::config;
use warpweft::execute::Executor;
use warpweft::nn::{Adam, Conv2d, Linear, Module, Optimizer};
use warpweft::tensor::{ClassOptions, ConvOptions, PoolOptions};
use warpweft::{DType, Tensor, compile, spec};
use warpweft_compiler::ir::ReduceOp;

use crate::bench::{Bench, Failure, Times, time};
use crate::starts;

const TINY_KERNELS: usize = 20;

/// A function of 20 tiny kernels, each of which needs the one before: the time of a call, divided by 20.
pub(crate) fn replay_tiny(arguments: &Bench) -> Result<Times, Failure> {
    let device = arguments.device.clone().unwrap_or(config().device.clone());
    let chain = |x: Tensor| (0..TINY_KERNELS).fold(x, |x, _| (x + 1.0).contiguous());
    let f = compile([spec(DType::F32, [16]).on(&device)], |[x]| [chain(x)])?;
    if f.kernels() != TINY_KERNELS {
        return Err(format!("replay_tiny has {} kernels, not {TINY_KERNELS}", f.kernels()).into());
    }
    let x = Tensor::from_bytes(Some(&device), DType::F32, [16], &[0; 64]);
    let [y] = f.call([&x])?;
    if y.to_vec::<f32>()? != [TINY_KERNELS as f32; 16] {
        return Err("replay_tiny computes something else".into());
    }
    // A call is too short for the clock alone: a sample is the mean of 100.
    let times = time(arguments.seconds, || {
        for _ in 0..100 {
            f.call([&x])?;
        }
        Ok(())
    })?;
    let kernels = (100 * TINY_KERNELS) as f64;
    Ok(Times { calls: times.calls.iter().map(|seconds| seconds / kernels).collect(), first: times.first })
}

/// How many programs two threads run in the time in which one runs one, if kernels themselves use one thread.
pub(crate) fn threads(arguments: &Bench) -> Result<(), Failure> {
    let mut settings = config().clone();
    settings.threads = Some(1);
    let executor = Executor::open(arguments.device.as_deref().unwrap_or(&settings.device), &settings)?;
    let program = || -> Result<(), Failure> {
        let data = vec![0; 128 * 128 * 4];
        let x = executor.from_bytes(DType::F32, 128 * 128, &data)?.reshape([128, 1, 128]).expand([128, 128, 128]);
        let y = executor.from_bytes(DType::F32, 128 * 128, &data)?.reshape([1, 128, 128]).expand([128, 128, 128]);
        executor.realize(&[(x * y).reduce(ReduceOp::Add, &[2])])?;
        Ok(())
    };
    program()?;
    let span = Duration::from_secs_f64(arguments.seconds.max(0.1));
    let count = |threads: usize| -> Result<f64, Failure> {
        let over = AtomicBool::new(false);
        let started = Instant::now();
        let counts: Vec<Result<u64, String>> = std::thread::scope(|scope| {
            let work = || {
                let mut count = 0;
                while !over.load(Ordering::Relaxed) {
                    program().map_err(|error| error.to_string())?;
                    count += 1;
                }
                Ok(count)
            };
            let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            std::thread::sleep(span);
            over.store(true, Ordering::Relaxed);
            threads.into_iter().map(|thread| thread.join().unwrap_or(Err("a thread panicked".to_string()))).collect()
        });
        let seconds = started.elapsed().as_secs_f64();
        Ok(counts.into_iter().sum::<Result<u64, String>>()? as f64 / seconds)
    };
    // Interleaved, so that a busy moment of the machine hits both.
    let mut ratios = Vec::new();
    for _ in 0..3 {
        let one = count(1)?;
        ratios.push(count(2)? / one);
    }
    ratios.sort_by(f64::total_cmp);
    if arguments.json {
        println!("{}", serde_json::json!({ "peer": "warpweft", "case": "threads_2", "ratio": ratios[1] }));
    } else {
        println!("threads_2              two threads run {:.2} times what one runs", ratios[1]);
    }
    Ok(())
}

/// The memory of the encoder and of a training step of the demo's network: planned, unplanned, and at the least.
pub(crate) fn memory(arguments: &Bench) -> Result<(), Failure> {
    let (layers, x) = starts::encoder(starts::MINILM);
    let shape: Vec<i64> = x.shape()?.into_iter().map(|len| len as i64).collect();
    let encoder = compile([spec(DType::F32, shape)], |[x]| [starts::encoded(&layers, &x)])?;
    let programs = [("encoder", encoder.memory()), ("digits_step", digits_step()?)];
    for (name, gain) in programs {
        let (planned, unplanned, bound) = (gain.planned, gain.unplanned, gain.bound);
        let share = planned as f64 / bound.max(1) as f64;
        if arguments.json {
            let line = serde_json::json!({
                "peer": "warpweft", "case": format!("memory_{name}"), "planned_bytes": planned, "unplanned_bytes": unplanned,
                "bound_bytes": bound, "of_bound": share,
            });
            println!("{line}");
        } else {
            let mb = |bytes: u64| bytes as f64 / 1e6;
            println!(
                "memory_{name:<15} {:.2} MB of {:.2} MB without planning; {share:.3}x of the {:.2} MB that live at once",
                mb(planned),
                mb(unplanned),
                mb(bound)
            );
        }
    }
    Ok(())
}

/// The training step of the demo: two convolutions with pooling, a linear layer, Adam, 64 digits.
fn digits_step() -> Result<warpweft_compiler::memory_plan::Gain, Failure> {
    let same = || ConvOptions::default().padding(vec![1]);
    let (first, second) = (Conv2d::new(1, 16, 3, same())?, Conv2d::new(16, 32, 3, same())?);
    let last = Linear::new(128, 10, true)?;
    let mut optimizer = Adam::new([first.parameters(), second.parameters(), last.parameters()].concat(), 0.004)?;
    let pool = PoolOptions::default().kernel(vec![2]).stride(vec![2]);
    let step = compile([spec(DType::F32, [64, 1, 8, 8]), spec(DType::I32, [64])], |[images, labels]| {
        let halved = first.forward(&images).relu().max_pool(&pool);
        let quartered = second.forward(&halved).relu().max_pool(&pool);
        let loss = last.forward(&quartered.flatten(1, -1)).cross_entropy(&labels, &ClassOptions::default());
        optimizer.step(&loss)?;
        Ok([loss])
    })?;
    Ok(step.memory())
}
