//! A server's day, in short: threads that call, compile and update shared tensors at one time. Nothing is lost, and memory stays flat.
//!
//! A phase makes programs that nobody made before, so what is kept of them must be forgotten again: a small bound is set for it. What this
//! project counts itself (graphs, tensors' memory, mappings of code) must stay below what is kept; memory as the system sees it depends on the host's
//! allocator too, and on how many threads compiled at one time so far (each keeps a code generator, for a while), and has some room.
//! `./x stress 60` goes on for an hour.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a step that fails fails its test")]
#![allow(clippy::print_stdout, reason = "who runs it for an hour wants to see it live")]

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use warpweft::{Config, DType, Tensor, compile, init, spec};

const THREADS: usize = 8;
const ROUNDS: usize = 4;
const PHASES: usize = 4;
/// Few phases fill it, so that the others have to forget.
const PROGRAMS_BYTES: usize = 2 << 20;
/// Kernels that so many bytes are enough for, those of functions that live, and what else of this process is code of no file.
const CODE_MAX: usize = PROGRAMS_BYTES / 2 / (16 << 10) + 40;
/// What the whole process may grow by after the first phase, and for each of as many that follow.
const ROOM_MAX: (f64, f64, usize) = (24e6, 1e6, 40);

/// What must not grow.
#[derive(Clone, Copy, Debug)]
struct Size {
    /// Nodes of graphs that live.
    nodes: usize,
    /// Bytes of tensors that live.
    tensors: usize,
    /// Mappings of code that is of no file: each kernel has one.
    code: usize,
    /// Bytes of the process in memory.
    resident: f64,
}

impl Size {
    fn now() -> Size {
        let read = |name: &str| std::fs::read_to_string(format!("/proc/self/{name}")).unwrap();
        let executors = warpweft::registry::executors();
        Size {
            nodes: warpweft_compiler::UOp::live_nodes(),
            tensors: executors[0].allocator().stats().in_use_bytes,
            code: read("maps").lines().filter(|line| line.contains(" r-xp ") && !line.contains(['/', '['])).count(),
            resident: read("statm").split(' ').nth(1).unwrap().parse::<f64>().unwrap() * 4096.0,
        }
    }
}

/// What the threads share.
struct Shared {
    state: Tensor,
    rows: Tensor,
    updates: AtomicI64,
    programs: AtomicI64,
}

impl Shared {
    /// What a thread does once.
    fn round(&self, thread: usize, step: &warpweft::Function<1, 1>) -> warpweft::Result<()> {
        for _ in 0..20 {
            let x = Tensor::full([256], 1.0).contiguous();
            let [total] = step.call([&x])?;
            assert!(total.item::<f32>()? > 0.0);
            self.updates.fetch_add(1, Ordering::Relaxed);
            self.state.add_assign(1.0)?;
            self.updates.fetch_add(1, Ordering::Relaxed);
        }
        // A number that no program has had: other kernels.
        let number = self.programs.fetch_add(1, Ordering::Relaxed);
        let x = Tensor::from_vec(vec![number as i32; 64], [64]);
        let fresh = compile([spec(DType::I32, [64])], |[x]| [&x * (number + 3) + 1, (&x - number).sum(0)])?;
        let [product, difference] = fresh.call([&x])?;
        assert_eq!(difference.item::<i64>()?, 0);
        assert_eq!(product.get(5).item::<i32>()?, (number * (number + 3) + 1) as i32);
        // Random numbers, another device, and what was computed from constants there and here.
        let ones = Tensor::ones([16]).contiguous();
        let noise = ones.realize()? * Tensor::rand([16]);
        let elsewhere = Tensor::from_vec(vec![2f32; 16], [16]).to("interpreter:1") + &ones + noise.to("interpreter:1");
        assert!(elsewhere.to_vec::<f32>()?.iter().all(|&element| (3.0..4.0).contains(&element)));
        let row = self.rows.get(thread as i64);
        row.assign(Tensor::full([256], number as f64))?;
        assert_eq!(row.to_vec::<f32>()?, vec![number as f32; 256]);
        Ok(())
    }
}

#[test]
fn threads_that_call_compile_and_update_lose_nothing_and_memory_stays_flat() {
    let mut config = Config::default();
    (config.threads, config.programs_bytes) = (Some(2), PROGRAMS_BYTES);
    init(config).unwrap();
    let shared = Shared {
        state: Tensor::from_vec(vec![0f32; 256], [256]),
        rows: Tensor::from_vec(vec![0f32; THREADS * 256], [THREADS, 256]),
        updates: AtomicI64::new(0),
        programs: AtomicI64::new(0),
    };
    let step = compile([spec(DType::F32, [256])], |[x]| {
        shared.state.assign(&shared.state + &x)?;
        Ok([shared.state.sum(0)])
    });
    let step = step.unwrap();
    let seconds = std::env::var("STRESS_SECONDS").ok().and_then(|seconds| seconds.parse().ok());
    let (begin, length) = (Instant::now(), Duration::from_secs(seconds.unwrap_or(0)));
    let mut sizes: Vec<Size> = Vec::new();
    while sizes.len() < PHASES || begin.elapsed() < length {
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (shared, step) = (&shared, &step);
                scope.spawn(move || (0..ROUNDS).for_each(|_| shared.round(thread, step).unwrap()));
            }
        });
        let updates = shared.updates.load(Ordering::Relaxed);
        assert_eq!(shared.state.to_vec::<f32>().unwrap(), vec![updates as f32; 256]);
        if updates > 1 << 22 {
            shared.state.fill(0.0).unwrap(); // a float counts no further than 2^24
            shared.updates.store(0, Ordering::Relaxed);
        }
        let kept = warpweft::registry::executors()[0].kept_bytes();
        assert!(kept <= PROGRAMS_BYTES, "{kept} bytes of programs are kept");
        sizes.push(Size::now());
        let (first, last) = (sizes[0], sizes[sizes.len() - 1]);
        if sizes.len().is_multiple_of(20) {
            println!("{:6.0} s, phase {}: {last:?}", begin.elapsed().as_secs_f64(), sizes.len());
        }
        let same = last.nodes <= 2 * first.nodes + 1000 && last.tensors <= first.tensors;
        assert!(same && last.code <= CODE_MAX, "something stays: {last:?} after {sizes:?}");
        let room = ROOM_MAX.0 + ROOM_MAX.1 * sizes.len().min(ROOM_MAX.2) as f64;
        assert!(last.resident - first.resident < room, "memory grows: {last:?} after {sizes:?}");
    }
    println!("{} phases, {:?}, then {:?}", sizes.len(), sizes[0], sizes[sizes.len() - 1]);
}
