//! Opens devices by name: the one function in which a promise is made.

#![allow(unsafe_code, reason = "hands on the promise of the caller")]

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

#[cfg(all(feature = "cpu", target_arch = "x86_64", unix))]
use crate::cpu::CpuDevice;
#[cfg(feature = "cuda")]
use crate::cuda::CudaDevice;
use crate::device::Device;
use crate::emulator::EmulatorDevice;
use crate::error::DeviceError;
use crate::interpreter::InterpreterDevice;

const WHY_NO_CPU: &str = if cfg!(feature = "cpu") {
    "be opened: it is there for x86-64 with Unix; the device INTERPRETER computes the same, slowly"
} else {
    "be opened: this build is without the feature `cpu` of warpweft; the device INTERPRETER computes the same, slowly"
};

const WHY_NO_CUDA: &str = "this build is without the feature `cuda` of warpweft; the device PTX emulates a GPU";

/// Kinds of devices that [`open`] knows.
pub const KNOWN_DEVICES: &[&str] = &["CPU", "CUDA", "INTERPRETER", "PTX"];
/// Devices without a machine of their own: there are as many as somebody may want to try things with.
const IMAGINED: usize = 8;

/// How many devices of a kind there are here, and none where this build has no such kind.
pub fn count(kind: &str) -> usize {
    match kind {
        "CPU" => usize::from(cfg!(all(feature = "cpu", target_arch = "x86_64", unix))),
        "INTERPRETER" | "PTX" => IMAGINED,
        _ => 0,
    }
}

/// The devices that there are, as one says it in an error: `cpu:0, ptx:0 to ptx:7`.
pub fn present() -> String {
    let of_kind = |kind: &&&'static str| count(kind) > 0;
    let described = KNOWN_DEVICES.iter().filter(of_kind).map(|kind| {
        let (kind, last) = (kind.to_ascii_lowercase(), count(kind) - 1);
        if last == 0 { format!("{kind}:0") } else { format!("{kind}:0 to {kind}:{last}") }
    });
    described.collect::<Vec<_>>().join(", ")
}

/// A device's kind and which of that kind it is, as in `cuda:1`. The number may be left out for the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceName {
    kind: &'static str,
    ordinal: usize,
}

impl DeviceName {
    /// The name in a text, in any case of letters, whether or not there is such a device here.
    ///
    /// # Errors
    /// [`DeviceError::UnknownDevice`] with those that there are, when it is no name of one that any build has.
    pub fn parse(text: &str) -> Result<DeviceName, DeviceError> {
        let unknown = || DeviceError::UnknownDevice { name: text.to_string(), known: present() };
        let (kind, ordinal) = text.trim().split_once(':').unwrap_or((text.trim(), "0"));
        let kind = KNOWN_DEVICES.iter().find(|known| known.eq_ignore_ascii_case(kind)).ok_or_else(unknown)?;
        let is_number = !ordinal.is_empty() && ordinal.bytes().all(|digit| digit.is_ascii_digit());
        let ordinal = ordinal.parse().ok().filter(|_| is_number).ok_or_else(unknown)?;
        Ok(DeviceName { kind, ordinal })
    }

    /// Whether there is such a device here.
    ///
    /// # Errors
    /// [`DeviceError::UnknownDevice`] with those that there are, when there are fewer of the kind; [`DeviceError::Unsupported`] or
    /// [`DeviceError::Unavailable`] when this build has none of it.
    pub fn check(self) -> Result<(), DeviceError> {
        match count(self.kind) {
            0 if self.kind == "CPU" => {
                Err(DeviceError::Unsupported { device: self.to_string(), what: WHY_NO_CPU.to_string() })
            }
            count if self.ordinal < count => Ok(()),
            // How many GPUs there are says the driver, when one is opened.
            _ if self.kind == "CUDA" && cfg!(feature = "cuda") => Ok(()),
            _ if self.kind == "CUDA" => {
                Err(DeviceError::Unavailable { device: self.to_string(), reason: WHY_NO_CUDA.to_string() })
            }
            _ => Err(DeviceError::UnknownDevice { name: self.to_string(), known: present() }),
        }
    }

    /// The kind, in capitals.
    pub fn kind(self) -> &'static str {
        self.kind
    }

    /// Which of its kind, from 0.
    pub fn ordinal(self) -> usize {
        self.ordinal
    }
}

impl fmt::Display for DeviceName {
    /// As a device names itself: `CPU`, `PTX:1`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ordinal {
            0 => f.write_str(self.kind),
            ordinal => write!(f, "{}:{ordinal}", self.kind),
        }
    }
}

impl FromStr for DeviceName {
    type Err = DeviceError;

    fn from_str(text: &str) -> Result<DeviceName, DeviceError> {
        DeviceName::parse(text)
    }
}

/// Opens the device of this name, in any case of letters: a kind, and after a colon which of it; without, the first.
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
    let name = DeviceName::parse(name)?;
    name.check()?;
    match name.kind() {
        #[cfg(all(feature = "cpu", target_arch = "x86_64", unix))]
        // SAFETY: the caller's promise.
        "CPU" => Ok(Arc::new(unsafe { CpuDevice::open(threads) })),
        #[cfg(feature = "cuda")]
        // SAFETY: the caller's promise.
        "CUDA" => Ok(Arc::new(unsafe { CudaDevice::open(name) }?)),
        // SAFETY: the caller's promise.
        "INTERPRETER" => Ok(Arc::new(unsafe { InterpreterDevice::open(name) })),
        // SAFETY: the caller's promise.
        "PTX" => Ok(Arc::new(unsafe { EmulatorDevice::open(name, threads, 0) })),
        _ => Err(DeviceError::UnknownDevice { name: name.to_string(), known: present() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_devices_open_and_others_list_them() {
        let has_cpu = cfg!(all(feature = "cpu", target_arch = "x86_64", unix));
        let here = |name: &&&str| **name != "CUDA" && (has_cpu || **name != "CPU");
        for name in KNOWN_DEVICES.iter().filter(here) {
            // SAFETY: nothing is loaded or copied, here and below.
            assert_eq!(unsafe { open(name, Some(1)) }.unwrap().name(), *name);
        }
    }

    #[test]
    fn names_have_a_number_and_errors_list_what_is_there() {
        for (text, kind, ordinal, shown) in
            [("cpu", "CPU", 0, "CPU"), ("Cpu:0", "CPU", 0, "CPU"), (" ptx:3 ", "PTX", 3, "PTX:3")]
        {
            let name: DeviceName = text.parse().unwrap();
            assert_eq!((name.kind(), name.ordinal(), name.to_string().as_str()), (kind, ordinal, shown));
            assert_eq!(DeviceName::parse(shown).unwrap(), name);
        }
        let there = if count("CPU") > 0 { "cpu:0, " } else { "" };
        let there = format!("{there}interpreter:0 to interpreter:7, ptx:0 to ptx:7");
        for wrong in ["tpu", "", "cpu:", "cpu:+1", "cpu:-1", "cpu:x", "cpu:0:0", "ptx:99999999999999999999", ":0"] {
            let error = DeviceName::parse(wrong).unwrap_err().to_string();
            assert_eq!(error, format!("no device is called `{wrong}`; devices that are here: {there}"));
        }
        // SAFETY: nothing is loaded or copied.
        let error = unsafe { open("ptx:8", None) }.unwrap_err().to_string();
        assert_eq!(error, format!("no device is called `PTX:8`; devices that are here: {there}"));
        // SAFETY: as above.
        assert_eq!(unsafe { open("interpreter:7", None) }.unwrap().name(), "INTERPRETER:7");
        // A GPU is there or not; where it is not, the error says why.
        for (name, shown) in [("cuda", "CUDA"), ("cuda:7", "CUDA:7")] {
            // SAFETY: as above.
            if let Err(error) = unsafe { open(name, None) } {
                assert!(error.to_string().starts_with(&format!("device {shown} is not available: ")), "{error}");
            }
        }
    }
}
