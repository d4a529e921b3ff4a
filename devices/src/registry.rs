//! Opens devices by name.

use std::sync::Arc;

use crate::cpu::CpuDevice;
use crate::device::Device;
use crate::error::DeviceError;
use crate::interpreter::InterpreterDevice;

/// Names that [`open`] knows.
pub const KNOWN_DEVICES: &[&str] = &["CPU", "INTERPRETER"];

/// Opens the device of this name, in any case of letters.
///
/// `threads` bounds the threads that run kernels; none means all that the process may use.
///
/// # Errors
/// [`DeviceError::UnknownDevice`] with the names that exist; whatever opening the device reports.
///
/// # Example
/// ```
/// let device = warpweft_devices::open("cpu", None)?;
/// assert_eq!(device.name(), "CPU");
/// # Ok::<(), warpweft_devices::DeviceError>(())
/// ```
pub fn open(name: &str, threads: Option<usize>) -> Result<Arc<dyn Device>, DeviceError> {
    match name.to_ascii_uppercase().as_str() {
        "CPU" => Ok(Arc::new(CpuDevice::open(threads))),
        "INTERPRETER" => Ok(Arc::new(InterpreterDevice::open())),
        _ => Err(DeviceError::UnknownDevice { name: name.to_string(), known: KNOWN_DEVICES.join(", ") }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_devices_open_and_others_list_them() {
        for name in KNOWN_DEVICES {
            assert_eq!(open(name, Some(1)).unwrap().name(), *name);
        }
        let error = open("tpu", None).unwrap_err();
        assert_eq!(error.to_string(), "no device is called `tpu`; known devices: CPU, INTERPRETER");
    }
}
