//! [`BufferSlice`]: a range of bytes of a buffer, as kernels take it, and the copies of the host.
//!
//! Always: every copy is checked against the length, and memory of another device is not looked at.
//!
//! Tested with buffers ([`super`]).
#![allow(unsafe_code, reason = "copies bytes of buffers by address")]

use std::fmt::Debug;
use std::marker::PhantomData;
use std::ptr::NonNull;

use crate::RawBuffer;
use crate::error::DeviceError;

/// A range of bytes of a [`RawBuffer`], as an argument of a kernel.
#[derive(Clone, Copy, Debug)]
pub struct BufferSlice<'buffer> {
    pub(super) address: NonNull<u8>,
    pub(super) bytes: usize,
    pub(super) is_host: bool,
    pub(super) buffer: PhantomData<&'buffer RawBuffer>,
}

// SAFETY: it stands for `&RawBuffer`, which may go to other threads.
unsafe impl Send for BufferSlice<'_> {}
// SAFETY: as for Send.
unsafe impl Sync for BufferSlice<'_> {}

impl BufferSlice<'_> {
    /// Length in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Address of the first byte, as kernels know it; the host may look there if [`BufferSlice::is_host`].
    pub fn address(&self) -> NonNull<u8> {
        self.address
    }

    /// Whether the memory can be addressed by the host.
    pub fn is_host(&self) -> bool {
        self.is_host
    }

    /// The range of `bytes` bytes from `offset` on.
    ///
    /// # Errors
    /// [`DeviceError::OutOfBounds`] when it is not inside.
    pub fn slice(&self, offset: usize, bytes: usize) -> Result<Self, DeviceError> {
        self.check(offset, bytes)?;
        // SAFETY: checked: the address is inside of the buffer or at its end.
        let address = unsafe { self.address.add(offset) };
        Ok(BufferSlice { address, bytes, ..*self })
    }

    /// The same bytes for work that stands in a queue of this host, which may look at them there.
    ///
    /// # Safety
    /// The bytes are memory of this host, and are not freed before the work is done.
    pub(crate) unsafe fn kept_by_queue(self) -> BufferSlice<'static> {
        BufferSlice { address: self.address, bytes: self.bytes, is_host: true, buffer: PhantomData }
    }

    /// Copies `data` in, from byte `offset` on. For who has promised to order this: see [`crate::Device::copy_in`].
    ///
    /// # Errors
    /// [`DeviceError::OutOfBounds`] when it does not fit.
    pub(crate) fn copy_in(&self, offset: usize, data: &[u8]) -> Result<(), DeviceError> {
        self.check(offset, data.len())?;
        self.check_is_host()?;
        // SAFETY: checked: `data.len()` bytes from `offset` on are inside of the buffer, which lives as long as this slice.
        // `data` is a reference, so nobody has exclusive use of the buffer's bytes through one; they are raw memory.
        unsafe { std::ptr::copy(data.as_ptr(), self.address.add(offset).as_ptr(), data.len()) }
        Ok(())
    }

    /// Fills `data`, from byte `offset` on. For who has promised to order this: see [`crate::Device::copy_out`].
    ///
    /// # Errors
    /// [`DeviceError::OutOfBounds`] when the slice is too short.
    pub(crate) fn copy_out(&self, offset: usize, data: &mut [u8]) -> Result<(), DeviceError> {
        self.check(offset, data.len())?;
        self.check_is_host()?;
        // SAFETY: checked as in `copy_in`; the memory was zeroed when allocated, or promised to be initialised, so all of it is.
        unsafe { std::ptr::copy(self.address.add(offset).as_ptr(), data.as_mut_ptr(), data.len()) }
        Ok(())
    }

    fn check_is_host(&self) -> Result<(), DeviceError> {
        match self.is_host {
            true => Ok(()),
            false => Err(DeviceError::Unsupported {
                device: "the host".to_string(),
                what: "look at memory of another device: it is copied by that device".to_string(),
            }),
        }
    }

    pub(super) fn check(&self, offset: usize, bytes: usize) -> Result<(), DeviceError> {
        match offset.checked_add(bytes) {
            Some(end) if end <= self.bytes => Ok(()),
            Some(_) | None => Err(DeviceError::OutOfBounds { offset, bytes, limit: self.bytes }),
        }
    }
}
