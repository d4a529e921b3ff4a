//! Measures the CPU device: compile time by stage and by length of kernel, load, launch, allocation. The numbers behind the
//! choices in `cpu/compile.rs` and `cpu/kernel.rs`.
//!
//! Run with `cargo run --release -p warpweft-devices --example compile_stages [PASSES...]`; each argument is a list of passes
//! in LLVM's notation, to compare with the built-in one.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a program for people")]
#![allow(unsafe_code, reason = "opens a device")]

use std::fmt::Write;
use std::hint::black_box;
use std::time::Instant;

use inkwell::OptimizationLevel;
use warpweft_compiler::dtype::DType;
use warpweft_compiler::program::{Access, Estimate, Launch, Parameter, Program};
use warpweft_devices::Device;
use warpweft_devices::cpu::{CpuDevice, PASSES, compile_with};

/// A loop over vectors of 16 with `ops` dependent operations on what is loaded and on `constants` different constants.
fn chain(ops: usize, constants: usize) -> Program {
    let mut source = String::from(
        "define void @k(ptr %buffers, ptr %variables, ptr %scratch, i64 %begin, i64 %end) {
entry:
  %out = load ptr, ptr %buffers
  %slot = getelementptr ptr, ptr %buffers, i64 1
  %in = load ptr, ptr %slot
  %any = icmp slt i64 %begin, %end
  br i1 %any, label %loop, label %done
loop:
  %i = phi i64 [ %begin, %entry ], [ %next, %loop ]
  %offset = mul i64 %i, 16
  %from = getelementptr float, ptr %in, i64 %offset
  %to = getelementptr float, ptr %out, i64 %offset
  %x0 = load <16 x float>, ptr %from, align 4
",
    );
    for op in 0..ops {
        let name = ["fmul", "fadd", "fsub"][op % 3];
        let constant = 1.0 + (op % constants) as f64 / 1024.0;
        let _ = writeln!(source, "  %x{} = {name} <16 x float> %x{op}, splat (float {constant:?})", op + 1);
    }
    let _ = write!(
        source,
        "  store <16 x float> %x{ops}, ptr %to, align 4
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  ret void
}}"
    );
    Program {
        name: format!("chain_{ops}_{constants}"),
        entry: "k".to_string(),
        source,
        parameters: vec![Parameter { dtype: DType::F32, len: 16, access: Access::ReadWrite }; 2],
        variables: Vec::new(),
        numbers: Vec::new(),
        grid: 1,
        scratch_bytes: 0,
        launch: Launch::ONE,
        shared_bytes: 0,
        estimate: Estimate::default(),
    }
}

/// The least of `rounds` times, in microseconds.
fn least(rounds: usize, mut run: impl FnMut()) -> f64 {
    (0..rounds)
        .map(|_| {
            let begin = Instant::now();
            run();
            begin.elapsed().as_secs_f64() * 1e6
        })
        .fold(f64::INFINITY, f64::min)
}

fn stages(device: &CpuDevice, program: &Program, passes: &str, level: OptimizationLevel, rounds: usize) {
    let mut best: Vec<(&'static str, f64)> = Vec::new();
    for _ in 0..rounds {
        let mut last = Instant::now();
        let mut index = 0;
        compile_with(program, device.target(), passes, level, &mut |stage| {
            let us = last.elapsed().as_secs_f64() * 1e6;
            match best.get_mut(index) {
                Some(entry) => entry.1 = entry.1.min(us),
                None => best.push((stage, us)),
            }
            index += 1;
            last = Instant::now();
        })
        .unwrap();
    }
    let total: f64 = best.iter().map(|(_, us)| us).sum();
    let parts: Vec<String> = best.iter().map(|(stage, us)| format!("{stage} {us:.0}")).collect();
    println!("  {:16} {level:?}: {total:8.0} us = {}", program.name, parts.join(" + "));
}

fn main() {
    let begin = Instant::now();
    // SAFETY: programs by hand that keep to what they state, in one thread.
    let device = unsafe { CpuDevice::open(Some(2)) };
    println!("open {:.0} us", begin.elapsed().as_secs_f64() * 1e6);
    let begin = Instant::now();
    device.compile(&chain(1, 1)).unwrap();
    println!("first compile {:.0} us", begin.elapsed().as_secs_f64() * 1e6);

    let mut lists: Vec<String> = std::env::args().skip(1).collect();
    lists.insert(0, PASSES.to_string());
    for passes in &lists {
        println!("passes {passes}");
        for level in [OptimizationLevel::Less, OptimizationLevel::Default] {
            for (ops, constants, rounds) in
                [(1, 1, 30), (100, 4, 20), (1000, 4, 5), (8000, 4, 2), (8000, 64, 2), (8000, 8000, 2)]
            {
                stages(&device, &chain(ops, constants), passes, level, rounds);
            }
        }
    }

    let program = chain(1, 1);
    let object = device.compile(&program).unwrap();
    println!("object {} bytes, load {:.1} us", object.len(), least(200, || drop(device.load(&program, &object))));
    let (a, b) = (device.allocate(64).unwrap(), device.allocate(64).unwrap());
    let launches = 100_000;
    let time_launches = |name: &str, operations: f64, grid: u64, threads: usize| {
        let estimate = Estimate { operations, ..Estimate::default() };
        let parameters = program.parameters.clone();
        let kernel = device.load(&Program { grid, estimate, parameters, ..program.clone() }, &object).unwrap();
        let buffers = [a.all(), b.all()];
        let us = least(5, || (0..launches).for_each(|_| black_box(kernel.launch(&buffers, &[], threads)).unwrap()));
        println!("launch {name}: {:.1} ns", us * 1e3 / f64::from(launches));
    };
    time_launches("16 floats, calling thread", 0.0, 1, 2);
    let big = device.allocate(64 << 10).unwrap();
    for grid in [2u64, 100, 1000] {
        let estimate = |operations| Estimate { operations, ..Estimate::default() };
        for (threads, operations) in [(1, 0.0), (2, 1e9)] {
            let parameters = vec![Parameter { len: grid * 16, ..program.parameters[0] }; 2];
            let kernel = device
                .load(&Program { grid, estimate: estimate(operations), parameters, ..program.clone() }, &object)
                .unwrap();
            let buffers = [big.all(), big.all()];
            let us = least(5, || (0..10_000).for_each(|_| kernel.launch(&buffers, &[], threads).unwrap()));
            println!("launch {grid} x 16 floats, {threads} threads: {:.1} ns", us * 1e3 / 1e4);
            let mut times: Vec<f64> = (0..50)
                .map(|_| {
                    std::thread::sleep(std::time::Duration::from_micros(500));
                    least(1, || kernel.launch(&buffers, &[], threads).unwrap())
                })
                .collect();
            times.sort_by(f64::total_cmp);
            println!("    after a pause in which the pool fell asleep: {:.1} us (median)", times[25]);
        }
    }
    for bytes in [64, 64 << 10, 1 << 20, 64 << 20] {
        println!("allocate and free {bytes} bytes: {:.2} us", least(50, || drop(device.allocate(bytes))));
    }
}
