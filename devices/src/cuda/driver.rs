//! The CUDA driver: whether there is one, its calls with errors of this crate, and the context of one GPU.
//!
//! The crate `cudarc` looks for the driver's library when something of it is first called, and panics where there is none, or where it lacks what is called. So nothing
//! is called before [`Context::open`] has seen that the library can be loaded and has what is called (`calls`), and nothing but `cuInit` and `cuDriverGetVersion` before the
//! version is known to be one whose calls mean what is meant here. Whoever has a [`Context`] may call.
//!
//! Some errors end a context: every later call fails with the same one, whatever it asks (`is_lost`). Such an error is told as [`DeviceError::Lost`], then and after.
//!
//! Never run on a GPU by this project. Tested here: what errors become, and that a machine without a driver gets one; all else by the tests of the project over a
//! stand-in for the driver (`tests/driver`).
#![allow(unsafe_code, reason = "calls the driver")]

use std::ffi::{CStr, c_char, c_int};
use std::ptr;
use std::sync::OnceLock;

use cudarc::driver::sys::{self, CUdevice_attribute as Attribute, CUresult};

use super::calls;
use crate::error::DeviceError;
use crate::registry::DeviceName;

/// The oldest version of the driver's interface that has all calls of this module: of the CUDA toolkit 12.0.
const VERSION_MIN: c_int = 12_000;
/// The least compute capability that kernels are made for.
const CAPABILITY_MIN: (c_int, c_int) = (8, 0);

/// A call that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    /// The driver's number.
    pub(super) code: u32,
    /// Which call, and what the driver says of it.
    pub(super) message: String,
}

impl Failure {
    /// Whether the context is of no use after it.
    pub(super) fn is_lost(&self) -> bool {
        // Damaged memory (214, 220), faults of threads (700, 702, 710, 714 to 719), links and units that failed (709, 721).
        matches!(self.code, 214 | 220 | 700 | 702 | 709 | 710 | 714..=719 | 721)
    }

    /// Whether memory of the device ran out.
    pub(super) fn is_out_of_memory(&self) -> bool {
        self.code == CUresult::CUDA_ERROR_OUT_OF_MEMORY as u32
    }

    /// Whether PTX was not accepted: invalid, or newer than the driver.
    pub(super) fn is_of_program(&self) -> bool {
        matches!(self.code, 218 | 222)
    }
}

/// What a call gave.
///
/// # Errors
/// The failure, in the driver's words. The driver is there, or nothing could have been called.
pub(super) fn check(call: &str, result: CUresult) -> Result<(), Failure> {
    if result == CUresult::CUDA_SUCCESS {
        return Ok(());
    }
    let text = |read: unsafe fn(CUresult, *mut *const c_char) -> CUresult| {
        let mut words: *const c_char = ptr::null();
        // SAFETY: the driver answered, so it is loaded; it writes a pointer to a text of its own that is never freed, or none.
        let known = unsafe { read(result, &mut words) } == CUresult::CUDA_SUCCESS && !words.is_null();
        // SAFETY: as above.
        if known { unsafe { CStr::from_ptr(words) }.to_string_lossy().into_owned() } else { String::new() }
    };
    let (name, words) = (text(sys::cuGetErrorName), text(sys::cuGetErrorString));
    Err(Failure { code: result as u32, message: format!("{call}: {name} ({}): {words}", result as u32) })
}

/// The primary context of one GPU, for as long as anything uses it.
#[derive(Debug)]
pub(super) struct Context {
    /// As the device is called: `CUDA`, `CUDA:1`.
    pub(super) name: String,
    device: c_int,
    context: sys::CUcontext,
    /// Whether memory can be had and freed in the order of a stream.
    pub(super) has_pools: bool,
    /// What the GPU is, for people and for keys of caches.
    pub(super) description: String,
    /// Its compute capability.
    pub(super) capability: (u32, u32),
    lost: OnceLock<String>,
}

// SAFETY: a context is a handle that any thread may make its own (`enter`); the driver orders calls itself.
unsafe impl Send for Context {}
// SAFETY: as for Send.
unsafe impl Sync for Context {}

impl Context {
    /// That of one of the GPUs that the driver shows.
    ///
    /// # Errors
    /// [`DeviceError::Unavailable`]: no driver, one that is too old, no GPU of that number, or one that kernels are not made for.
    pub(super) fn open(name: DeviceName) -> Result<Context, DeviceError> {
        let unavailable = |reason: String| DeviceError::Unavailable { device: name.to_string(), reason };
        // SAFETY: it loads the driver's library and forgets it; loading has no effect that anything here depends on.
        if !unsafe { sys::is_culib_present() } {
            return Err(unavailable("there is no NVIDIA driver: its library libcuda.so.1 is not found".to_string()));
        }
        // SAFETY: the library is there, here and below.
        let has = |names| unsafe { calls::missing(names) }.map_or(Ok(()), |name| Err(unavailable(lacks(name))));
        has(calls::FIRST)?;
        let failed = |failure: Failure| unavailable(failure.message);
        let mut version = 0;
        // SAFETY: the library has these two; they may be called at any time, and write one number.
        let (version_read, started) = unsafe { (sys::cuDriverGetVersion(&mut version), sys::cuInit(0)) };
        check("cuInit", started).map_err(failed)?;
        check("cuDriverGetVersion", version_read).map_err(failed)?;
        if let Some(reason) = too_old(version) {
            return Err(unavailable(reason));
        }
        has(calls::OTHERS)?;
        let mut count = 0;
        // SAFETY: the driver is started, new enough, and has all calls of this module; each writes to what is given by reference, here and below.
        check("cuDeviceGetCount", unsafe { sys::cuDeviceGetCount(&mut count) }).map_err(failed)?;
        let Some(number) = c_int::try_from(name.ordinal()).ok().filter(|number| *number < count) else {
            return Err(unavailable(too_few(count)));
        };
        let mut device = 0;
        // SAFETY: as above; there are more than `number`.
        check("cuDeviceGet", unsafe { sys::cuDeviceGet(&mut device, number) }).map_err(failed)?;
        let attribute = |which: Attribute| {
            let mut value = 0;
            // SAFETY: as above; the device is one that the driver gave.
            check("cuDeviceGetAttribute", unsafe { sys::cuDeviceGetAttribute(&mut value, which, device) })
                .map(|()| value)
        };
        let major = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR).map_err(failed)?;
        let minor = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR).map_err(failed)?;
        if (major, minor) < CAPABILITY_MIN {
            let (a, b) = CAPABILITY_MIN;
            return Err(unavailable(format!("the GPU has compute capability {major}.{minor}; kernels need {a}.{b}")));
        }
        let pools = attribute(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED).map_err(failed)?;
        let mut context = ptr::null_mut();
        // SAFETY: as above. What is retained here is released on drop.
        check("cuDevicePrimaryCtxRetain", unsafe { sys::cuDevicePrimaryCtxRetain(&mut context, device) })
            .map_err(failed)?;
        let description = format!("CUDA driver {}, {}, sm_{major}{minor}", version_text(version), name_of(device));
        let capability = (major.unsigned_abs(), minor.unsigned_abs());
        let (name, has_pools) = (name.to_string(), pools != 0);
        Ok(Context { name, device, context, has_pools, description, capability, lost: OnceLock::new() })
    }

    /// Makes it the calling thread's: what the driver is asked next is asked of it.
    ///
    /// # Errors
    /// If it was lost before.
    pub(super) fn enter(&self) -> Result<(), DeviceError> {
        if let Some(message) = self.lost.get() {
            return Err(self.lost_error(message));
        }
        // SAFETY: the context is retained as long as this value lives.
        check("cuCtxSetCurrent", unsafe { sys::cuCtxSetCurrent(self.context) })
            .map_err(|failure| self.error(failure, ""))
    }

    /// A failed call of a kernel's, as this crate tells it; remembered if the context is lost with it.
    pub(super) fn error(&self, failure: Failure, kernel: &str) -> DeviceError {
        if failure.is_lost() {
            return self.lost_error(self.lost.get_or_init(|| failure.message));
        }
        DeviceError::Launch { device: self.name.clone(), kernel: kernel.to_string(), message: failure.message }
    }

    fn lost_error(&self, message: &str) -> DeviceError {
        DeviceError::Lost { device: self.name.clone(), message: message.to_string() }
    }

    /// The driver's number of the GPU.
    pub(super) fn device(&self) -> c_int {
        self.device
    }

    /// The driver's handle of the context, which is retained as long as this value lives.
    pub(super) fn handle(&self) -> sys::CUcontext {
        self.context
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: retained once by `open`. At the end of a process the driver may be gone already and says so; there is nobody to tell.
        let _ = unsafe { sys::cuDevicePrimaryCtxRelease_v2(self.device) };
    }
}

fn name_of(device: c_int) -> String {
    let mut name = [0u8; 256];
    // SAFETY: the driver writes at most as many bytes as it is told there are, the last of them 0.
    let result = unsafe { sys::cuDeviceGetName(name.as_mut_ptr().cast(), name.len() as c_int, device) };
    let text = CStr::from_bytes_until_nul(&name).ok().filter(|_| result == CUresult::CUDA_SUCCESS);
    text.map_or_else(|| "a GPU".to_string(), |text| text.to_string_lossy().into_owned())
}

/// What is said of a library that is not whole.
fn lacks(name: &str) -> String {
    format!("the library libcuda.so.1 that was found is not NVIDIA's driver, or a part of it alone: it lacks `{name}`")
}

/// The version of the driver's interface as NVIDIA writes it.
fn version_text(version: c_int) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}

/// What is said to who asks for a GPU beyond those that there are.
fn too_few(count: c_int) -> String {
    let there = match count {
        ..=0 => "no GPU".to_string(),
        1 => "one GPU, number 0".to_string(),
        _ => format!("{count} GPUs, numbers 0 to {}", count - 1),
    };
    format!("the driver shows {there} (CUDA_VISIBLE_DEVICES may hide some)")
}

/// Why a driver of this version will not do.
fn too_old(version: c_int) -> Option<String> {
    let (has, needed) = (version_text(version), version_text(VERSION_MIN));
    (version < VERSION_MIN).then(|| format!("the NVIDIA driver is for CUDA {has}; {needed} or later is needed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(code: u32) -> Failure {
        Failure { code, message: String::new() }
    }

    #[test]
    fn errors_that_end_a_context_are_told_from_others() {
        // Illegal address, misaligned address, failed launch; out of memory, invalid value, too many resources, invalid PTX, a driver too old for the PTX.
        assert_eq!([700, 716, 719].map(|code| failure(code).is_lost()), [true; 3]);
        assert_eq!([2, 1, 701, 218, 222].map(|code| failure(code).is_lost()), [false; 5]);
        assert!(failure(2).is_out_of_memory() && !failure(1).is_out_of_memory());
        assert!(failure(218).is_of_program() && failure(222).is_of_program() && !failure(700).is_of_program());
    }

    #[test]
    fn old_drivers_are_named_with_what_is_needed() {
        assert_eq!(too_old(12_000), None);
        assert_eq!(too_old(13_010), None);
        let reason = too_old(11_080).unwrap_or_default();
        assert_eq!(reason, "the NVIDIA driver is for CUDA 11.8; 12.0 or later is needed");
    }

    #[test]
    fn who_asks_for_a_gpu_too_many_hears_how_many_there_are() {
        let said = [0, 1, 4].map(too_few);
        assert!(said[0].contains("no GPU ") && said[1].contains("one GPU, number 0 "), "{said:?}");
        assert!(said[2].contains("4 GPUs, numbers 0 to 3 "), "{said:?}");
    }

    #[test]
    fn a_machine_without_a_driver_gets_an_error_that_says_so() {
        match Context::open(DeviceName::parse("cuda:0").unwrap()) {
            Ok(context) => assert!(context.enter().is_ok()),
            Err(DeviceError::Unavailable { device, reason }) => {
                assert_eq!(device, "CUDA");
                assert!(!reason.is_empty());
            }
            Err(other) => panic!("{other}"),
        }
    }
}
