//! Opens devices by name: the one place where a promise is made.

#![allow(unsafe_code, reason = "hands on the promise of the caller")]

use std::sync::Arc;

#[cfg(all(feature = "cpu", target_arch = "x86_64", unix))]
use crate::cpu::CpuDevice;
use crate::device::Device;
use crate::emulator::EmulatorDevice;
use crate::error::DeviceError;
use crate::interpreter::InterpreterDevice;

#[cfg(not(all(feature = "cpu", target_arch = "x86_64", unix)))]
const WHY_NO_CPU: &str = if cfg!(feature = "cpu") {
    "be opened: it is there for x86-64 with Unix; the device INTERPRETER computes the same, slowly"
} else {
    "be opened: this build is without the feature `cpu`; the device INTERPRETER computes the same, slowly"
};

/// Names that [`open`] knows.
pub const KNOWN_DEVICES: &[&str] = &["CPU", "INTERPRETER", "PTX"];

/// Opens the device of this name, in any case of letters.
///
/// `threads` bounds the threads that run kernels; none means all that the process may use.
///
/// # Errors
/// [`DeviceError::UnknownDevice`] with the names that exist; whatever opening the device reports.
///
/// # Safety
/// A device runs code and copies memory, and no type can hold what that takes. Who opens one promises for all who get at it, and at what it makes:
///
/// - Programs that are loaded came from the renderer, which made them of kernels that the compiler lowered, so that their code keeps
///   to the `parameters`, `variables` and `scratch_bytes` that they state.
/// - An object that is loaded is what [`Device::compile`] gave for that program, on a device of the same target and compiler.
/// - Two launches or copies that touch the same bytes, one of them writing, do not overlap in time.
///
/// # Example
/// ```
/// // SAFETY: nothing is loaded or copied.
/// let device = unsafe { warpweft_devices::open("interpreter", None)? };
/// assert_eq!(device.name(), "INTERPRETER");
/// # Ok::<(), warpweft_devices::DeviceError>(())
/// ```
/// Who makes no promise gets no device, and so no way to run code or to write to memory that others use:
/// ```compile_fail,E0133
/// let device = warpweft_devices::open("cpu", None)?;
/// # Ok::<(), warpweft_devices::DeviceError>(())
/// ```
/// ```compile_fail,E0624
/// fn race(slice: warpweft_devices::BufferSlice<'_>) {
///     let _ = slice.copy_in(0, &[1]);
/// }
/// ```
pub unsafe fn open(name: &str, threads: Option<usize>) -> Result<Arc<dyn Device>, DeviceError> {
    match name.to_ascii_uppercase().as_str() {
        #[cfg(all(feature = "cpu", target_arch = "x86_64", unix))]
        // SAFETY: the caller's promise.
        "CPU" => Ok(Arc::new(unsafe { CpuDevice::open(threads) })),
        #[cfg(not(all(feature = "cpu", target_arch = "x86_64", unix)))]
        "CPU" => {
            let _ = threads;
            Err(DeviceError::Unsupported { device: name.to_string(), what: WHY_NO_CPU.to_string() })
        }
        // SAFETY: the caller's promise.
        "INTERPRETER" => Ok(Arc::new(unsafe { InterpreterDevice::open() })),
        // SAFETY: the caller's promise.
        "PTX" => Ok(Arc::new(unsafe { EmulatorDevice::open(threads, 0) })),
        _ => Err(DeviceError::UnknownDevice { name: name.to_string(), known: KNOWN_DEVICES.join(", ") }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_devices_open_and_others_list_them() {
        let here = |name: &&&str| **name != "CPU" || cfg!(all(feature = "cpu", target_arch = "x86_64", unix));
        for name in KNOWN_DEVICES.iter().filter(here) {
            // SAFETY: nothing is loaded or copied, here and below.
            assert_eq!(unsafe { open(name, Some(1)) }.unwrap().name(), *name);
        }
        // SAFETY: as above.
        let error = unsafe { open("tpu", None) }.unwrap_err();
        assert_eq!(error.to_string(), "no device is called `tpu`; known devices: CPU, INTERPRETER, PTX");
    }
}
