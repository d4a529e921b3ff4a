//! Programs that the tests of this folder run over the stand-in, each in a process of its own, with `DEV=CUDA`. What they expect is computed on the CPU, or stands here.

use warpweft::{DType, Device, Tensor, compile, spec};

fn numbers(count: usize, step: usize) -> Vec<f32> {
    (0..count).map(|k| ((k * step + 3) % 31) as f32 / 31.0 - 0.5).collect()
}

fn floats(x: &Tensor) -> Vec<f32> {
    x.to_vec().unwrap_or_else(|error| panic!("{error}"))
}

#[track_caller]
fn near(found: &[f32], wanted: &[f32]) {
    assert_eq!(found.len(), wanted.len());
    let differs = |(a, b): (&f32, &f32)| (a - b).abs() > 1e-5 * (1.0 + b.abs()) || a.is_nan();
    assert_eq!(found.iter().zip(wanted).position(differs), None, "{found:?}\n{wanted:?}");
}

/// A small network over tensors of a device.
fn network(device: &str) -> Tensor {
    let on = |data: Vec<f32>, shape: [usize; 2]| Tensor::from_vec(data, shape).to(device);
    let (x, w, v) =
        (on(numbers(12 * 20, 7), [12, 20]), on(numbers(20 * 16, 5), [20, 16]), on(numbers(16 * 8, 3), [16, 8]));
    let hidden = x.matmul(&w).relu();
    let scores = hidden.matmul(&v);
    (scores.softmax(1) * 3.0 + scores.sum(0)).contiguous()
}

#[test]
#[ignore = "run by the tests beside it, over a stand-in for the driver"]
fn values() {
    let found = network("cuda");
    assert_eq!(found.device().unwrap(), "CUDA");
    near(&floats(&found), &floats(&network("cpu")));
    let mut x = Tensor::from_vec(numbers(100, 3), [10, 10]).to("cuda");
    let mut wanted = Tensor::from_vec(numbers(100, 3), [10, 10]).to("cpu");
    for k in 0..6 {
        // Each is computed, and the memory of the one before goes to the next.
        x = (&x + x.transpose(0, 1) * 0.5 + k as f64).realize().unwrap().clone();
        wanted = (&wanted + wanted.transpose(0, 1) * 0.5 + k as f64).realize().unwrap().clone();
    }
    near(&floats(&x), &floats(&wanted));
}

/// Data that changes while copies of it may wait, in small and large pieces.
#[test]
#[ignore = "as above"]
fn uploads() {
    let mut data = vec![0f32; 700];
    let mut kept = Vec::new();
    for round in 0..40 {
        data.iter_mut().enumerate().for_each(|(k, x)| *x = (round * 1000 + k) as f32);
        let x = Tensor::from_vec(data.clone(), [700]).to("cuda").realize().unwrap().clone();
        kept.push((&x + 1.0).realize().unwrap().clone());
    }
    for (round, x) in kept.iter().enumerate() {
        assert_eq!(floats(x), (0..700).map(|k| (round * 1000 + k + 1) as f32).collect::<Vec<_>>());
    }
    // More than all pinned memory holds, of which some is read back in parts.
    let count = (9 << 20) / 4 + 5;
    let large: Vec<f32> = (0..count).map(|k| k as f32).collect();
    let x = Tensor::from_vec(large.clone(), [count]).to("cuda").realize().unwrap().clone();
    assert!(floats(&x) == large);
    let part = floats(&x.narrow(0, 1_000_003, 9));
    assert_eq!(part, (1_000_003..1_000_012).map(|k| k as f32).collect::<Vec<_>>());
}

/// A function that is called again and again, over memory and variables that change.
#[test]
#[ignore = "as above"]
fn replays() {
    let total = Tensor::from_vec(vec![0f32; 48], [48]).to("cuda").realize().unwrap().clone();
    let n = warpweft::Var::new("n", 1..=48).unwrap();
    let step = compile([spec(DType::F32, [48]).on("cuda")], |[x]| {
        let shifted = (&x * 2.0).contiguous() + x.sum(0);
        total.add_assign(&shifted)?;
        Ok::<_, warpweft::Error>([(&shifted.contiguous() * &total).contiguous(), shifted.max(0)])
    });
    let step = step.unwrap();
    let mut wanted = vec![0f32; 48];
    let mut kept = Vec::new();
    for round in 0..8 {
        let x: Vec<f32> = (0..48).map(|k| ((k * 5 + round) % 7) as f32).collect();
        let sum: f32 = x.iter().sum();
        let shifted: Vec<f32> = x.iter().map(|x| x * 2.0 + sum).collect();
        wanted.iter_mut().zip(&shifted).for_each(|(total, x)| *total += x);
        let results = step.call([&Tensor::from_vec(x, [48]).to("cuda")]).unwrap();
        let product: Vec<f32> = shifted.iter().zip(&wanted).map(|(a, b)| a * b).collect();
        kept.push((results, product));
    }
    // Nobody waited until here.
    for ([product, _], wanted) in &kept {
        assert_eq!(&floats(product), wanted);
    }
    assert_eq!(floats(&total), wanted);
    let sums = compile([spec(DType::F32, (&n, 4)).on("cuda")], |[x]| {
        let scaled = (&x * 3.0).contiguous();
        Ok::<_, warpweft::Error>([(scaled.sum(0)).contiguous() + 1.0])
    });
    let sums = sums.unwrap();
    for rows in [3usize, 48, 1, 20] {
        let data: Vec<f32> = (0..rows * 4).map(|k| k as f32).collect();
        let [found] = sums.call([&Tensor::from_vec(data, (n.bind(rows).unwrap(), 4)).to("cuda")]).unwrap();
        let wanted = (0..4).map(|c| 1.0 + 3.0 * (0..rows).map(|r| (r * 4 + c) as f32).sum::<f32>());
        assert_eq!(floats(&found), wanted.collect::<Vec<_>>(), "{rows} rows");
    }
}

/// Memory of one GPU goes to another while both have work that waits, and the first writes over it at once.
#[test]
#[ignore = "as above"]
fn two_gpus() {
    let mut wanted: Vec<f32> = numbers(64, 7);
    let mut x = Tensor::from_vec(wanted.clone(), [64]).to("cuda:0");
    for round in 0..6 {
        let other = if round % 2 == 0 { "cuda:1" } else { "cuda:0" };
        let moved = x.to(other);
        moved.realize().unwrap();
        x.assign(Tensor::full([64], 7777.0)).unwrap();
        x.realize().unwrap();
        x = (moved * 1.5 + round as f64).realize().unwrap().clone();
        assert_eq!(x.device().unwrap(), if round % 2 == 0 { "CUDA:1" } else { "CUDA" });
        wanted.iter_mut().for_each(|x| *x = *x * 1.5 + round as f32);
    }
    near(&floats(&x), &wanted);
    // Freed at once after it was copied.
    let copies: Vec<Tensor> = (0..10)
        .map(|k| Tensor::full([3000], f64::from(k)).to("cuda:0").contiguous().to("cuda:1").realize().unwrap().clone())
        .collect();
    for (k, copy) in copies.iter().enumerate() {
        assert_eq!(floats(&copy.to("cpu")), [k as f32; 3000]);
    }
    assert!("cuda:1".parse::<Device>().unwrap().memory().unwrap().in_use_bytes > 0);
}

/// Much memory in all, little at once.
#[test]
#[ignore = "as above"]
fn little_memory() {
    let device: Device = "cuda".parse().unwrap();
    for round in 0..12 {
        let len = 100_000 + round * 20_000;
        let x = Tensor::full([len], f64::from(round as u32)).to("cuda").contiguous();
        let y = (&x + 1.0).realize().unwrap().clone();
        assert_eq!(floats(&y.narrow(0, len - 2, 2)), [round as f32 + 1.0; 2]);
    }
    device.finish().unwrap();
    let error = Tensor::zeros([9 << 20]).to("cuda").contiguous().to_vec::<f32>().unwrap_err().to_string();
    assert!(error.contains("out of memory on CUDA: 37748736 bytes asked"), "{error}");
    // It goes on after that.
    assert_eq!(floats(&(Tensor::full([3], 2.0).to("cuda") * 2.0)), [4.0; 3]);
}

/// What cannot be opened says why.
#[test]
#[ignore = "as above"]
fn unavailable() {
    let error = Tensor::from_vec(vec![1f32], [1]).to("cuda").to_vec::<f32>().unwrap_err();
    println!("the error: {error}");
}

/// A launch that fails, and what comes after.
#[test]
#[ignore = "as above"]
fn a_failed_launch() {
    let x = Tensor::from_vec(vec![1f32, 2.0], [2]).to("cuda");
    let first = (&x + 1.0).to_vec::<f32>();
    println!("the first: {first:?}");
    let second = (&x * 3.0).to_vec::<f32>();
    println!("the second: {second:?}");
    println!("at the end: {:?}", "cuda".parse::<Device>().unwrap().finish());
}

/// Memory of GPUs crosses to other libraries and back where it lies.
#[test]
#[ignore = "as above"]
fn crossing() {
    let x = Tensor::from_vec(numbers(60, 7), [6, 10]).to("cuda");
    let capsule = x.to_dlpack().unwrap();
    let device = capsule.device().unwrap();
    assert_eq!((device.device_type, device.device_id, capsule.is_read_only()), (2, 0, true));
    let shared = Tensor::from_dlpack(capsule);
    assert_eq!(shared.device().unwrap(), "CUDA");
    let wanted: Vec<f32> = numbers(60, 7).iter().map(|x| x * 2.0).collect();
    let doubled = (&shared * 2.0).realize().unwrap().clone();
    // Who had it first drops it while a kernel may wait that reads it.
    drop((x, shared));
    let other = Tensor::full([60], 5.0).to("cuda").contiguous().realize().unwrap().clone();
    near(&floats(&doubled), &wanted);
    assert_eq!(floats(&other), [5.0; 60]);
    // Where an element begins that kernels would read several of at once, and there is a second GPU.
    let y = Tensor::from_vec(numbers(60, 5), [60]).to("cuda:1").realize().unwrap().clone();
    let part = Tensor::from_dlpack(y.narrow(0, 1, 33).to_dlpack().unwrap());
    assert_eq!(part.device().unwrap(), "CUDA:1");
    near(&floats(&(&part + 1.0)), &numbers(60, 5)[1..34].iter().map(|x| x + 1.0).collect::<Vec<_>>());
    // What is lent is never written to.
    let lent = Tensor::from_dlpack(y.to_dlpack().unwrap());
    lent.add_assign(Tensor::full([60], 1.0)).unwrap();
    near(&floats(&y), &numbers(60, 5));
    near(&floats(&lent), &numbers(60, 5).iter().map(|x| x + 1.0).collect::<Vec<_>>());
    let given = y.into_dlpack().unwrap();
    assert!(given.device().unwrap().device_id == 1);
    near(&floats(&Tensor::from_dlpack(given)), &numbers(60, 5));
    let empty = Tensor::from_dlpack(Tensor::zeros([0, 3]).to("cuda").to_dlpack().unwrap());
    assert_eq!(empty.shape().unwrap(), [0, 3]);
}

/// A launch that fails when nobody reads what it computes.
#[test]
#[ignore = "as above"]
fn a_failed_finish() {
    let x = Tensor::from_vec(vec![1f32, 2.0], [2]).to("cuda");
    let y = (&x + 1.0).contiguous();
    println!("realize: {}", y.realize().is_ok());
    println!("who waits: {:?}", "cuda".parse::<Device>().unwrap().finish());
}

/// Threads that compute on one GPU, and call one function.
#[test]
#[ignore = "as above"]
fn threads() {
    let function = compile([spec(DType::F32, [40]).on("cuda")], |[x]| {
        Ok::<_, warpweft::Error>([((&x * 2.0).contiguous() + x.sum(0)).contiguous()])
    });
    let function = function.unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let function = &function;
            scope.spawn(move || {
                for round in 0..6 {
                    let data: Vec<f32> = (0..40).map(|k| ((k + thread * 7 + round) % 9) as f32).collect();
                    let sum: f32 = data.iter().sum();
                    let wanted: Vec<f32> = data.iter().map(|x| x * 2.0 + sum).collect();
                    let x = Tensor::from_vec(data, [40]).to("cuda");
                    let [found] = function.call([&x]).unwrap();
                    let more = (&found + &x).realize().unwrap().clone();
                    assert_eq!(floats(&found), wanted);
                    let twice: Vec<f32> = wanted.iter().zip(floats(&x)).map(|(a, b)| a + b).collect();
                    assert_eq!(floats(&more), twice);
                }
            });
        }
    });
}
