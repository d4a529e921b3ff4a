//! What compiling may not do to the process that it happens in: end it, print, or be in the way when it ends.
//!
//! A test whose name begins with `child` is the body of a process of its own, started by another test.

#![allow(unsafe_code, reason = "registers what runs at exit, opens devices")]

use std::process::{Command, Output};
use std::time::Duration;

use warpweft_compiler::program::Program;

use super::CpuDevice;
use super::tests::{device, program, target_without_vectors};
use crate::device::Device;
use crate::error::DeviceError;

/// Runs one test of this file in a process of its own.
fn child(name: &str) -> Output {
    let test = format!("cpu::process_tests::{name}");
    let mut command = Command::new(std::env::current_exe().unwrap());
    let output = command.args(["--exact", &test, "--ignored", "--nocapture", "--test-threads=1"]).output().unwrap();
    // Where there is no such test, the process ends well, too.
    assert!(String::from_utf8_lossy(&output.stdout).contains("running 1 test"), "there is no test {test}");
    output
}

/// A kernel like no other, with what renderers use: loops, vectors, masks, calls.
fn kernel_number(number: usize) -> Program {
    let source = format!(
        "declare <16 x float> @llvm.exp2.v16f32(<16 x float>)
declare float @llvm.vector.reduce.fadd.v16f32(float, <16 x float>)
declare void @llvm.masked.store.v16f32.p0(<16 x float>, ptr, i32, <16 x i1>)
define void @k(ptr %buffers, ptr %variables, ptr %scratch, i64 %begin, i64 %end) {{
entry:
  %out = load ptr, ptr %buffers
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %acc = phi <16 x float> [ zeroinitializer, %entry ], [ %sum, %loop ]
  %address = getelementptr float, ptr %out, i64 %i
  %x = load <16 x float>, ptr %address, align 4
  %scaled = fmul <16 x float> %x, splat (float {number}.0)
  %power = call <16 x float> @llvm.exp2.v16f32(<16 x float> %scaled)
  %positive = fcmp ogt <16 x float> %power, %x
  call void @llvm.masked.store.v16f32.p0(<16 x float> %power, ptr %address, i32 4, <16 x i1> %positive)
  %sum = fadd <16 x float> %acc, %power
  %next = add i64 %i, {step}
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  %total = call reassoc float @llvm.vector.reduce.fadd.v16f32(float 0.0, <16 x float> %sum)
  store float %total, ptr %out
  ret void
}}",
        step = 16 + number
    );
    program(&source, &[16])
}

#[test]
fn a_process_may_end_while_it_compiles() {
    for round in 0..24 {
        let output = child("child_that_ends_while_it_compiles");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(7), "round {round}: {:?}\n{said}", output.status);
    }
}

#[test]
#[ignore = "the body of a process of its own"]
fn child_that_ends_while_it_compiles() {
    extern "C" fn linger() {
        std::thread::sleep(Duration::from_millis(200));
    }
    // What was registered first runs last: a host with much to tear down, after the library is.
    // SAFETY: a function without arguments, which calls nothing that is torn down.
    unsafe { libc::atexit(linger) };
    device().compile(&kernel_number(0)).unwrap();
    for thread in 0..2 {
        std::thread::spawn(move || {
            for number in 1.. {
                let _ = device().compile(&kernel_number(10 * number + thread));
            }
        });
    }
    std::thread::sleep(Duration::from_millis(u64::from(std::process::id() % 10)));
    std::process::exit(7);
}

#[test]
fn a_process_may_end_while_it_loads_llvm() {
    for round in 0..24 {
        let output = child("child_that_ends_while_it_loads_llvm");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(7), "round {round}: {:?}\n{said}", output.status);
    }
}

#[test]
#[ignore = "the body of a process of its own"]
fn child_that_ends_while_it_loads_llvm() {
    // The thread that ends the process has opened the device, as one that computes has.
    let _ = device();
    let compiling = std::thread::spawn(|| {
        let _ = device().compile(&kernel_number(1));
    });
    // It is not the main thread, whose end also keeps a use from beginning: the use must have begun.
    while !super::llvm_threads::is_in_use() && !compiling.is_finished() {
        std::thread::yield_now();
    }
    std::thread::sleep(Duration::from_micros(u64::from(std::process::id() % 24) * 700));
    std::process::exit(7);
}

/// Gathers and scatters of processors with AVX-512, which no other has an instruction for.
const FOREIGN_INSTRUCTION: &str = "
declare <16 x float> @llvm.x86.avx512.mask.gather.dps.512(<16 x float>, ptr, <16 x i32>, <16 x i1>, i32)
define void @k(ptr %buffers, ptr %variables, ptr %scratch, i64 %begin, i64 %end) {
  %out = load ptr, ptr %buffers
  %x = call <16 x float> @llvm.x86.avx512.mask.gather.dps.512(<16 x float> zeroinitializer, ptr %out, <16 x i32> zeroinitializer, <16 x i1> splat (i1 true), i32 4)
  store <16 x float> %x, ptr %out, align 4
  ret void
}";

/// Assembly that no assembler knows: LLVM tells the diagnostic handler of its context.
const BAD_ASSEMBLY: &str = "
define void @k(ptr %buffers, ptr %variables, ptr %scratch, i64 %begin, i64 %end) {
  call void asm sideeffect \"\", \"{no_such_register}\"(i64 %begin)
  ret void
}";

#[test]
fn errors_inside_of_llvm_are_errors_of_the_caller() {
    let output = child("child_with_errors_inside_of_llvm");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{:?}\n{said}", output.status);
    assert!(!said.contains("LLVM ERROR") && !said.contains("error:"), "it prints: {said}");
}

#[test]
#[ignore = "the body of a process of its own"]
fn child_with_errors_inside_of_llvm() {
    // SAFETY: nothing is launched.
    let old = unsafe { CpuDevice::for_target(target_without_vectors()) }.unwrap();
    for _ in 0..3 {
        let error = old.compile(&program(FOREIGN_INSTRUCTION, &[16])).unwrap_err();
        assert!(matches!(&error, DeviceError::Compile { stage: "LLVM gave up", .. }), "{error}");
        assert!(error.to_string().contains("Do not know how"), "{error}");
        let error = old.compile(&program(BAD_ASSEMBLY, &[1])).unwrap_err();
        assert!(matches!(&error, DeviceError::Compile { stage: "code generation", .. }), "{error}");
        assert!(error.to_string().contains("constraint"), "{error}");
        // Whoever compiles next is not held up by it, nor are others.
        std::thread::scope(|scope| {
            for number in 0..3 {
                scope.spawn(move || device().compile(&kernel_number(number)).unwrap());
            }
        });
    }
}

#[test]
fn a_child_of_fork_compiles_and_a_process_that_gets_no_thread_does_too() {
    for name in ["child_that_forks", "child_that_gets_no_thread"] {
        let output = child(name);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}: {:?}\n{said}", output.status);
    }
}

#[test]
#[ignore = "the body of a process of its own"]
fn child_that_forks() {
    device().compile(&kernel_number(1)).unwrap();
    // The thread that compiled waits for work again soon after it has told the result.
    std::thread::sleep(Duration::from_millis(200));
    // SAFETY: the only other threads are those of the test harness and one that waits for work: nobody holds a lock.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // Would wait for good for a thread that only the parent has.
        let compiled = device().compile(&kernel_number(2)).is_ok();
        // SAFETY: ends the process without running what the harness registered.
        unsafe { libc::_exit(if compiled { 0 } else { 1 }) };
    }
    let mut status = -1;
    for _ in 0..600 {
        // SAFETY: the child of above, and a number to write to.
        if unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } == child {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    // SAFETY: the child of above, which is over if all is well.
    unsafe { libc::kill(child, libc::SIGKILL) };
    assert_eq!(status, 0);
    device().compile(&kernel_number(3)).unwrap();
}

#[test]
#[ignore = "the body of a process of its own"]
fn child_that_gets_no_thread() {
    super::compile::initialize_llvm("this machine").unwrap();
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let used = status.lines().find_map(|line| line.strip_prefix("VmSize:")?.trim().strip_suffix(" kB")?.parse().ok());
    // Room for a compilation, and not for the stack of a thread beside it.
    let bytes: libc::rlim_t = used.unwrap_or(0) * 1024 + (24 << 20);
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
    // SAFETY: a limit of this process, read once.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
    assert!(std::thread::Builder::new().stack_size(32 << 20).spawn(|| ()).is_err());
    for number in 0..3 {
        assert!(!device().compile(&kernel_number(number)).unwrap().is_empty());
    }
}
