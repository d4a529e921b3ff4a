//! The CPU with memory between guard pages: a kernel that leaves its buffers or its scratch memory ends the process, after a line
//! on stderr that names the kernel. What is freshly allocated is poisoned.
//!
//! From the first call on this holds for the whole process, so that tests of tensors that run beside gain by it too.

use std::sync::{Arc, LazyLock};

use warpweft_compiler::target::{Target, Tiles};
use warpweft_devices::cpu::CpuDevice;
use warpweft_devices::{Device, DeviceError, guard};

/// The CPU, with at most two threads and guarded memory.
///
/// # Errors
/// When there is no compiler for it.
pub fn open_cpu() -> Result<Arc<dyn Device>, DeviceError> {
    guard::protect_all();
    open("CPU", Some(2))
}

/// The emulator of GPUs.
///
/// # Panics
/// Never: it is always there.
pub fn emulator() -> &'static dyn Device {
    static EMULATOR: LazyLock<Arc<dyn Device>> = LazyLock::new(|| open("PTX", Some(2)).expect("it is always there"));
    &**EMULATOR
}

/// The GPU of this machine, or why there is none.
///
/// # Errors
/// When it cannot be opened.
pub fn gpu() -> Result<&'static dyn Device, String> {
    static GPU: LazyLock<Result<Arc<dyn Device>, String>> =
        LazyLock::new(|| open("CUDA", None).map_err(|error| error.to_string()));
    GPU.as_ref().map(|device| &**device).map_err(String::clone)
}

/// Whatever runs PTX: the emulator first, which says what is wrong where a GPU would fail, then the GPU of this machine, if it has one.
pub fn gpus() -> impl Iterator<Item = &'static dyn Device> {
    std::iter::once(emulator()).chain(gpu().ok())
}

/// A device of tests; the promise that opening one takes is made in this file alone.
///
/// # Errors
/// When it cannot be opened.
#[allow(unsafe_code, reason = "makes the promise of opening a device")]
pub fn open(name: &str, threads: Option<usize>) -> Result<Arc<dyn Device>, DeviceError> {
    // SAFETY: tests load what the renderer gave, or programs by hand that they watch, and each orders its own launches and copies.
    unsafe { warpweft_devices::open(name, threads) }
}

/// The CPU as if it were a lesser one, or as it is, with guarded memory. None where the host lacks what such a one has.
///
/// # Panics
/// When there is no compiler for it.
#[allow(unsafe_code, reason = "makes the promise of opening a device")]
pub fn lesser_cpu(target: &Target) -> Option<Arc<dyn Device>> {
    guard::protect_all();
    let has_avx2 = || is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
    let host_has_it = match target.vector_bytes {
        16 => true,
        32 => has_avx2(),
        // The processor's name lets the compiler take any instruction that one of that name has. Tiles are taken only where opts ask for them.
        _ => {
            let host = cpu().target().clone();
            *target == Target { tiles: target.tiles, ..host.clone() }
                && [Tiles::default(), host.tiles].contains(&target.tiles)
        }
    };
    // SAFETY: as in `open`; the host has what the target says.
    host_has_it.then(|| Arc::new(unsafe { CpuDevice::for_target(target.clone()) }.expect("there is a compiler")) as _)
}

/// As [`open_cpu`], for tests, which cannot go on without it.
///
/// # Panics
/// When there is no compiler for it.
pub fn cpu() -> Arc<dyn Device> {
    open_cpu().expect("the CPU is always there")
}
