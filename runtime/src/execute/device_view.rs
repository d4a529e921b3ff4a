//! What may be asked of a device by anybody: all but to run code and to touch memory.
//!
//! Those are safe only for who keeps what was promised when the device was opened ([`warpweft_devices::registry::open`]). This crate promised, so it
//! gives devices to nobody.

use warpweft_compiler::program::Program;
use warpweft_compiler::target::Target;
use warpweft_devices::{Device, DeviceError};

/// A device to look at.
#[derive(Clone, Copy, Debug)]
pub struct DeviceView<'device> {
    device: &'device dyn Device,
}

impl<'device> DeviceView<'device> {
    pub(super) fn new(device: &'device dyn Device) -> DeviceView<'device> {
        DeviceView { device }
    }

    /// Name in capitals, as in `CPU`.
    pub fn name(self) -> &'device str {
        self.device.name()
    }

    /// What the machine can do.
    pub fn target(self) -> &'device Target {
        self.device.target()
    }

    /// What turns programs into objects.
    pub fn compiler(self) -> &'device str {
        self.device.compiler()
    }

    /// Turns a program into object bytes.
    ///
    /// # Errors
    /// As [`Device::compile`].
    pub fn compile(self, program: &Program) -> Result<Vec<u8>, DeviceError> {
        self.device.compile(program)
    }

    /// The instructions of an object, one a line, for people to read.
    ///
    /// # Errors
    /// As [`Device::disassemble`].
    pub fn disassemble(self, object: &[u8]) -> Result<String, DeviceError> {
        self.device.disassemble(object)
    }
}
