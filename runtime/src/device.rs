//! Devices as a program names them: [`Device`], a handle that is checked when it is made.
//!
//! Whatever takes the name of a device as text takes a handle as well. Tested here and by runtime/tests/devices.rs.

use std::fmt;
use std::panic::Location;
use std::str::FromStr;
use std::sync::Arc;

use warpweft_devices::{DeviceName, registry::KNOWN_DEVICES, registry::count};

use crate::config::config;
use crate::execute::{ExecuteError, Executor};
use crate::memory::MemoryStats;
use crate::registry;
use crate::tensor::{Error, Result, at};

/// One of the devices that are here: its kind and its number, as in `cuda:1`; the number of the first may be left out.
///
/// ```
/// use warpweft::{Device, Tensor};
/// let device: Device = "interpreter:1".parse()?;
/// let x = Tensor::from_vec(vec![1f32, 2.0], [2]).to(&device);
/// assert_eq!((x * 2.0).device()?, device.name());
/// let error = "ptx:9".parse::<Device>().unwrap_err().to_string();
/// assert!(error.contains("devices that are here: "));
/// # Ok::<(), warpweft::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Device {
    name: Arc<str>,
}

impl Device {
    /// The device of that name, in any case of letters. It is opened when it is first used.
    ///
    /// # Errors
    /// When there is none here; the error lists those that are.
    #[track_caller]
    pub fn named(name: &str) -> Result<Device> {
        Device::checked(name).map_err(at(Location::caller()))
    }

    fn checked(name: &str) -> Result<Device> {
        let name = DeviceName::parse(name).map_err(ExecuteError::from)?;
        name.check().map_err(ExecuteError::from)?;
        Ok(Device { name: name.to_string().into() })
    }

    #[track_caller]
    fn executor(&self) -> Result<Arc<Executor>> {
        let location = Location::caller();
        registry::executor(Some(&self.name)).map_err(|error| Error::from(error).at(location))
    }

    /// The device that computes what has no memory yet: see [`crate::Config::device`].
    ///
    /// # Errors
    /// When there is none of that name here.
    #[track_caller]
    pub fn default_device() -> Result<Device> {
        Device::named(&config().device)
    }

    /// All devices that are here.
    pub fn all() -> Vec<Device> {
        let of_kind = |kind: &&str| (0..count(kind)).map(|number| format!("{kind}:{number}")).collect::<Vec<_>>();
        KNOWN_DEVICES.iter().flat_map(of_kind).filter_map(|name| Device::checked(&name).ok()).collect()
    }

    /// Its name, as [`crate::Tensor::device`] gives it: `CPU`, `PTX:1`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns when it has done all that it was given. A device may still compute what was asked for when `realize` or a call returns, and
    /// is waited for when elements are read; so this is what to call before a time is taken.
    ///
    /// # Errors
    /// What went wrong in it, if nobody was told yet.
    #[track_caller]
    pub fn finish(&self) -> Result<()> {
        let location = Location::caller();
        self.executor()?.finish().map_err(|error| Error::from(error).at(location))
    }

    /// The memory of its tensors: in use, kept for the next, and the most that there was.
    ///
    /// # Errors
    /// When it cannot be opened.
    #[track_caller]
    pub fn memory(&self) -> Result<MemoryStats> {
        Ok(self.executor()?.allocator().stats())
    }

    /// Gives memory that is kept for the next tensors back to the machine. Returns how many bytes that was.
    ///
    /// # Errors
    /// When it cannot be opened.
    #[track_caller]
    pub fn free_kept_memory(&self) -> Result<usize> {
        Ok(self.executor()?.allocator().clear())
    }
}

impl FromStr for Device {
    type Err = Error;

    /// As [`Device::named`]; the error names no line, since `parse` does not know its caller.
    fn from_str(name: &str) -> Result<Device> {
        Device::checked(name)
    }
}

impl AsRef<str> for Device {
    fn as_ref(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({})", self.name)
    }
}
