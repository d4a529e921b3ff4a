//! The C structs of DLPack 1.x, field by field, under the names of the standard.
//!
//! Plain data: nothing here owns or frees. What the fields mean is written at github.com/dmlc/dlpack; what we make of them, in
//! [`super::Capsule`].

use std::ffi::c_void;

/// Version of the struct's layout. Layouts of one major version are compatible.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DLPackVersion {
    /// Layouts differ.
    pub major: u32,
    /// Meanings were added.
    pub minor: u32,
}

/// Where the memory is.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DLDevice {
    /// Kind of device; [`CPU`] is the host.
    pub device_type: i32,
    /// Which of them.
    pub device_id: i32,
}

/// Type of an element.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DLDataType {
    /// Kind of number: [`INT`], [`UINT`], [`FLOAT`], [`BFLOAT`], [`BOOL`], or others.
    pub code: u8,
    /// Bits of one lane.
    pub bits: u8,
    /// Lanes; 1 for ordinary elements.
    pub lanes: u16,
}

/// A strided array that somebody else owns.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DLTensor {
    /// Begin of the memory; may be null if there are no elements.
    pub data: *mut c_void,
    /// Where it is.
    pub device: DLDevice,
    /// Number of axes.
    pub ndim: i32,
    /// Type of an element.
    pub dtype: DLDataType,
    /// Lengths of the axes.
    pub shape: *mut i64,
    /// Elements between neighbours along each axis; null for row-major order.
    pub strides: *mut i64,
    /// Bytes from `data` to the first element.
    pub byte_offset: u64,
}

/// A tensor with what frees it: the layout before version 1.
#[repr(C)]
#[derive(Debug)]
pub struct DLManagedTensor {
    /// The array.
    pub dl_tensor: DLTensor,
    /// The producer's own.
    pub manager_ctx: *mut c_void,
    /// Frees this struct and what it names; called once, by who has it last.
    pub deleter: Option<unsafe extern "C" fn(*mut DLManagedTensor)>,
}

/// A tensor with what frees it, since version 1.
#[repr(C)]
#[derive(Debug)]
pub struct DLManagedTensorVersioned {
    /// Layout of the rest.
    pub version: DLPackVersion,
    /// The producer's own.
    pub manager_ctx: *mut c_void,
    /// Frees this struct and what it names; called once, by who has it last.
    pub deleter: Option<unsafe extern "C" fn(*mut DLManagedTensorVersioned)>,
    /// [`READ_ONLY`], [`IS_COPIED`].
    pub flags: u64,
    /// The array.
    pub dl_tensor: DLTensor,
}

/// The version that is written.
pub const VERSION: DLPackVersion = DLPackVersion { major: 1, minor: 1 };
/// Device type of the host.
pub const CPU: i32 = 1;
/// Device type of memory of NVIDIA's GPUs.
pub const CUDA: i32 = 2;
/// Signed integers.
pub const INT: u8 = 0;
/// Unsigned integers.
pub const UINT: u8 = 1;
/// IEEE floats.
pub const FLOAT: u8 = 2;
/// Brain floats.
pub const BFLOAT: u8 = 4;
/// Truth values of 8 bits.
pub const BOOL: u8 = 6;
/// Flag: the memory may not be written to.
pub const READ_ONLY: u64 = 1;
/// Flag: the memory is a copy made for the consumer.
pub const IS_COPIED: u64 = 2;
