//! DLPack: arrays that cross from one library to another without a copy.
//!
//! A [`Capsule`] owns one `DLManagedTensor` of either layout. Taking one in ([`Capsule::into_memory`]) gives a [`RawBuffer`] over the
//! producer's memory and a [`Layout`] of where elements are; the producer's deleter runs when the buffer drops. Giving one
//! out ([`Capsule::of_memory`]) shares a buffer of ours, which lives until the consumer calls our deleter.
//!
//! Always: a deleter is called once, whether the capsule is taken in, refused, converted or dropped. Of a struct of another major version
//! nothing but `version`, `manager_ctx` and `deleter` is touched, since nothing else need be there; so fields are read through the
//! pointer, one by one. Memory of devices other than the host and NVIDIA's GPUs, types
//! that tensors lack, negative lengths and addresses that no element may have are refused, with what was wrong. Nobody here looks at memory of a GPU.
//!
//! Python's capsule objects, which wrap the same pointers, are in `python`. Tests: `tests`, against producers and consumers by hand.
#![allow(unsafe_code, reason = "reads and frees structs behind raw pointers, as the C interface demands")]

pub mod abi;
#[cfg(feature = "python")]
pub mod buffer;
mod layout;
#[cfg(feature = "python")]
pub mod python;
#[cfg(test)]
mod tests;

use std::ffi::c_void;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use warpweft_compiler::DType;

use self::abi::{
    CPU, CUDA, DLDevice, DLManagedTensor, DLManagedTensorVersioned, DLTensor, IS_COPIED, READ_ONLY, VERSION,
};
pub use self::layout::{DlpackError, Layout};
use self::layout::{dtype_of, element_of, row_major, wrong};
use crate::buffer::{DeviceMemory, RawBuffer};

/// More axes than any library has: what says more is no capsule.
const AXES_MAX: i32 = 64;

/// A managed tensor of either layout, owned.
pub struct Capsule(Handle);

enum Handle {
    Unversioned(NonNull<DLManagedTensor>),
    Versioned(NonNull<DLManagedTensorVersioned>),
    /// Given away: nothing is left to free.
    Gone,
}

// SAFETY: the pointer is owned, and who made the capsule promised in `from_raw` that the struct may be read and freed on any
// thread; those that we make hold an `Arc` of what is `Send` and `Sync`, and vectors.
unsafe impl Send for Capsule {}
// SAFETY: `&Capsule` only reads the struct, which nobody writes while the capsule lives.
unsafe impl Sync for Capsule {}

impl Capsule {
    /// Takes over a managed tensor of the layout before version 1.
    ///
    /// # Safety
    /// `managed` points to a managed tensor that the caller owns and from now on leaves alone. Until its deleter is called, its fields
    /// and memory stay valid and initialised, and nobody writes to the memory while a kernel or a copy reads it. Deleter and
    /// reads may come from any thread.
    pub unsafe fn from_raw(managed: NonNull<DLManagedTensor>) -> Capsule {
        Capsule(Handle::Unversioned(managed))
    }

    /// Takes over a managed tensor of the layout since version 1.
    ///
    /// # Safety
    /// As for [`Capsule::from_raw`]; of a struct of another major version, only `version`, `manager_ctx` and `deleter` are read.
    pub unsafe fn from_raw_versioned(managed: NonNull<DLManagedTensorVersioned>) -> Capsule {
        Capsule(Handle::Versioned(managed))
    }

    /// A capsule over memory of ours, flagged read-only unless it `is_copy`: made for the consumer alone. What holds the memory drops with the capsule.
    ///
    /// # Errors
    /// If an element would lie outside of the memory, or its type has no name in DLPack.
    pub fn of_memory<M>(keeper: Arc<M>, layout: &Layout, is_copy: bool) -> Result<Capsule, DlpackError>
    where
        M: AsRef<RawBuffer> + Send + Sync + 'static,
    {
        let memory = (*keeper).as_ref();
        let dtype = element_of(layout.dtype)?;
        let width = layout.dtype.bytes() as i128;
        let (low, high) = layout.reach()?.unwrap_or((0, -1));
        let (first, end) =
            (i128::from(layout.offset) + i128::from(low), i128::from(layout.offset) + i128::from(high) + 1);
        if layout.offset < 0 || first < 0 || end * width > memory.bytes() as i128 {
            return wrong(format!("elements {first}..{end} of {width} bytes are outside of {} bytes", memory.bytes()));
        }
        let device = match memory.device_memory() {
            None => DLDevice { device_type: CPU, device_id: 0 },
            Some(memory) => match memory.dlpack_device() {
                Some(device) => device,
                None => return wrong("the memory is not the host's"),
            },
        };
        // The first element lies in the memory, or at its end if there are none: checked above.
        let data = memory.all().address().as_ptr().wrapping_add(layout.offset as usize * width as usize);
        let mut kept = Box::new(Kept { memory: keeper, shape: layout.shape.clone(), strides: layout.strides.clone() });
        let tensor = DLTensor {
            data: data.cast::<c_void>(),
            device,
            ndim: layout.shape.len() as i32,
            dtype,
            shape: kept.shape.as_mut_ptr(),
            strides: kept.strides.as_mut_ptr(),
            byte_offset: 0,
        };
        Ok(Capsule::versioned(tensor, kept, if is_copy { IS_COPIED } else { READ_ONLY }))
    }

    /// A managed tensor of ours whose fields point into `kept`, which its deleter drops.
    fn versioned<T: Send + Sync + 'static>(dl_tensor: DLTensor, kept: Box<T>, flags: u64) -> Capsule {
        let manager_ctx = Box::into_raw(kept).cast::<c_void>();
        let managed = DLManagedTensorVersioned {
            version: VERSION,
            manager_ctx,
            deleter: Some(delete_versioned::<T>),
            flags,
            dl_tensor,
        };
        Capsule(Handle::Versioned(NonNull::from(Box::leak(Box::new(managed)))))
    }

    /// The pointer to give to a consumer that knows the layout since version 1; its deleter is the consumer's to call.
    pub fn into_raw_versioned(mut self) -> NonNull<DLManagedTensorVersioned> {
        match std::mem::replace(&mut self.0, Handle::Gone) {
            Handle::Versioned(managed) => managed,
            Handle::Unversioned(managed) => {
                // SAFETY: an owned pointer to a live struct.
                let tensor = unsafe { (&raw const (*managed.as_ptr()).dl_tensor).read() };
                Capsule::versioned(tensor, Box::new(Capsule(Handle::Unversioned(managed))), 0).into_raw_versioned()
            }
            Handle::Gone => unreachable!("who gives a capsule away has it no more"),
        }
    }

    /// The pointer to give to a consumer that knows the layout before version 1, which cannot say that memory is read-only; its
    /// deleter is the consumer's to call.
    ///
    /// # Errors
    /// If the struct is of another major version: what it says is not known.
    pub fn into_raw(mut self) -> Result<NonNull<DLManagedTensor>, DlpackError> {
        if let Handle::Unversioned(managed) = self.0 {
            self.0 = Handle::Gone;
            return Ok(managed);
        }
        let dl_tensor = self.tensor()?;
        let manager_ctx = Box::into_raw(Box::new(self)).cast::<c_void>();
        let managed = DLManagedTensor { dl_tensor, manager_ctx, deleter: Some(delete_unversioned::<Capsule>) };
        Ok(NonNull::from(Box::leak(Box::new(managed))))
    }

    /// Whether the producer forbids writing to the memory. Capsules before version 1 cannot say so, and of those of a later major version
    /// it is not known, so they count as forbidding it.
    pub fn is_read_only(&self) -> bool {
        match self.0 {
            // SAFETY: an owned pointer to a live struct, by the contract of the constructors, of a version that has flags.
            Handle::Versioned(managed) if self.check_version().is_ok() => unsafe {
                (&raw const (*managed.as_ptr()).flags).read() & READ_ONLY != 0
            },
            Handle::Versioned(_) => true,
            Handle::Unversioned(_) | Handle::Gone => false,
        }
    }

    /// Whether the struct is laid out as we know.
    fn check_version(&self) -> Result<(), DlpackError> {
        let Handle::Versioned(managed) = self.0 else { return Ok(()) };
        // SAFETY: an owned pointer to a live struct; `version` is its first field in every version, and nothing else is read.
        let version = unsafe { (&raw const (*managed.as_ptr()).version).read() };
        if version.major == VERSION.major {
            return Ok(());
        }
        Err(DlpackError::Version { major: version.major, minor: version.minor })
    }

    fn tensor(&self) -> Result<DLTensor, DlpackError> {
        self.check_version()?;
        match &self.0 {
            // SAFETY: an owned pointer to a live struct of our version, by the contract of the constructors.
            Handle::Versioned(managed) => Ok(unsafe { (&raw const (*managed.as_ptr()).dl_tensor).read() }),
            // SAFETY: as above; there are no other versions of this one.
            Handle::Unversioned(managed) => Ok(unsafe { (&raw const (*managed.as_ptr()).dl_tensor).read() }),
            Handle::Gone => unreachable!("who gives a capsule away has it no more"),
        }
    }

    /// Where the memory is.
    ///
    /// # Errors
    /// If the struct is of another major version: what it says is not known.
    pub fn device(&self) -> Result<DLDevice, DlpackError> {
        Ok(self.tensor()?.device)
    }

    /// Whether its memory is the host's and holds elements of this type in row-major order, of these lengths, none of which is 0.
    pub fn is_row_major(&self, dtype: DType, shape: &[i64]) -> bool {
        let Ok(tensor) = self.tensor() else { return false };
        let is_alike = tensor.device.device_type == CPU
            && dtype_of(tensor.dtype).is_ok_and(|found| found == dtype)
            && usize::try_from(tensor.ndim).is_ok_and(|axes| axes == shape.len());
        if !is_alike || shape.is_empty() {
            return is_alike;
        }
        // SAFETY: as in `read`: a pointer that is not null points to as many numbers as there are axes.
        let numbers = |pointer: *mut i64| unsafe { std::slice::from_raw_parts(pointer.cast_const(), shape.len()) };
        if tensor.shape.is_null() || numbers(tensor.shape) != shape {
            return false;
        }
        let mut step = 1i64;
        tensor.strides.is_null()
            || numbers(tensor.strides).iter().zip(shape).rev().all(|(stride, len)| {
                let is_next = *len == 1 || *stride == step;
                step = step.saturating_mul(*len);
                is_next
            })
    }

    /// What the capsule says of its memory, the offset counted from its lowest element; and where that memory is. `None` if there are no
    /// elements.
    fn read(&self) -> Result<(Layout, Option<Span>), DlpackError> {
        let tensor = self.tensor()?;
        if ![CPU, CUDA].contains(&tensor.device.device_type) {
            return Err(DlpackError::Device { device_type: tensor.device.device_type });
        }
        let dtype = dtype_of(tensor.dtype)?;
        if !(0..=AXES_MAX).contains(&tensor.ndim) {
            return wrong(format!("{} axes", tensor.ndim));
        }
        let axes = tensor.ndim as usize;
        let numbers = |pointer: *mut i64| match NonNull::new(pointer) {
            // SAFETY: the standard says that a pointer that is not null points to `ndim` numbers, and the constructors demand
            // that fields are as the standard says.
            Some(pointer) if axes > 0 => Some(unsafe { std::slice::from_raw_parts(pointer.as_ptr(), axes) }.to_vec()),
            Some(_) | None => None,
        };
        let shape = match numbers(tensor.shape) {
            Some(shape) => shape,
            None if axes == 0 => Vec::new(),
            None => return wrong("there are axes but no lengths"),
        };
        let strides = numbers(tensor.strides).unwrap_or_else(|| row_major(&shape));
        let mut layout = Layout { dtype, shape, strides, offset: 0 };
        let Some((low, high)) = layout.reach()? else { return Ok((layout, None)) };
        let lowest =
            tensor.data.addr() as i128 + i128::from(tensor.byte_offset) + i128::from(low) * dtype.bytes() as i128;
        let width = dtype.bytes();
        if tensor.data.is_null() {
            return wrong("there are elements but no memory");
        }
        let Ok(lowest) = usize::try_from(lowest) else { return wrong("the elements begin before all memory") };
        if !lowest.is_multiple_of(width) {
            return wrong(format!("elements of {width} bytes lie at an address that is no multiple of that"));
        }
        layout.offset = -low;
        match NonNull::new(tensor.data.cast::<u8>().with_addr(lowest)) {
            Some(lowest) => Ok((layout, Some(Span { lowest, elements: (high - low + 1) as usize }))),
            None => wrong("the elements begin before all memory"),
        }
    }

    /// The capsule's memory, from its lowest element to its highest, and where elements are in it. The producer's deleter runs
    /// when the buffer drops; at once if the capsule is refused or has no elements. Memory of a GPU is for the device of that number to adopt
    /// ([`crate::Device::adopt`]).
    ///
    /// # Errors
    /// If the memory is another device's, its elements are of a type that tensors lack, or lengths or addresses make no sense.
    pub fn into_memory(self) -> Result<(RawBuffer, Layout), DlpackError> {
        let (layout, span) = self.read()?;
        let Some(Span { lowest, elements }) = span else {
            let empty =
                RawBuffer::host("CPU", 0).map_err(|error| DlpackError::Layout { message: error.to_string() })?;
            return Ok((empty, layout));
        };
        let device = self.device()?;
        if device.device_type != CPU {
            let bytes = elements * layout.dtype.bytes();
            let lent = Lent { address: lowest, bytes, device, _capsule: self };
            return Ok((RawBuffer::of_device(Box::new(lent)), layout));
        }
        // SAFETY: `reach` gave the bounds of all elements, which by the contract of the constructors are valid and initialised
        // until the deleter runs, which is when the capsule drops: with the buffer.
        let buffer = unsafe { RawBuffer::foreign(lowest, elements * layout.dtype.bytes(), Box::new(self)) };
        Ok((buffer, layout))
    }
}

/// Memory of a device that a capsule shares.
#[derive(Debug)]
struct Lent {
    address: NonNull<u8>,
    bytes: usize,
    device: DLDevice,
    _capsule: Capsule,
}

// SAFETY: nobody looks at the address here. That the memory is the device's until the capsule drops, and that nobody writes to it, is the contract of the
// capsule's constructors.
unsafe impl Send for Lent {}
// SAFETY: as for Send.
unsafe impl Sync for Lent {}

// SAFETY: `reach` gave the bounds of all elements, which by the contract of the constructors are the producer's memory until the deleter runs.
unsafe impl DeviceMemory for Lent {
    fn address(&self) -> NonNull<u8> {
        self.address
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn dlpack_device(&self) -> Option<DLDevice> {
        Some(self.device)
    }

    fn is_foreign(&self) -> bool {
        true
    }
}

/// The memory from the lowest element to the highest.
struct Span {
    lowest: NonNull<u8>,
    elements: usize,
}

impl Drop for Capsule {
    fn drop(&mut self) {
        match std::mem::replace(&mut self.0, Handle::Gone) {
            Handle::Versioned(managed) => {
                // SAFETY: an owned pointer to a live struct; `deleter` is its third field in every version, and nothing else is read.
                if let Some(deleter) = unsafe { (&raw const (*managed.as_ptr()).deleter).read() } {
                    // SAFETY: the standard's contract: called once, with the struct itself. `Gone` stands in its place already.
                    unsafe { deleter(managed.as_ptr()) }
                }
            }
            Handle::Unversioned(managed) => {
                // SAFETY: an owned pointer to a live struct.
                if let Some(deleter) = unsafe { managed.as_ref() }.deleter {
                    // SAFETY: as above.
                    unsafe { deleter(managed.as_ptr()) }
                }
            }
            Handle::Gone => {}
        }
    }
}

impl fmt::Debug for Capsule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.0 {
            Handle::Versioned(_) => "versioned",
            Handle::Unversioned(_) => "unversioned",
            Handle::Gone => "gone",
        };
        write!(f, "Capsule({kind})")
    }
}

/// What the fields of a capsule of ours point to.
struct Kept<M: AsRef<RawBuffer>> {
    memory: Arc<M>,
    shape: Vec<i64>,
    strides: Vec<i64>,
}

impl<M: AsRef<RawBuffer>> Drop for Kept<M> {
    fn drop(&mut self) {
        // Before anybody else gets it: here it is still held.
        if let Some(memory) = (*self.memory).as_ref().device_memory() {
            memory.came_back();
        }
    }
}

/// Frees a struct that `Capsule::versioned::<T>` made.
///
/// # Safety
/// `managed` is such a struct, and this is called once.
unsafe extern "C" fn delete_versioned<T>(managed: *mut DLManagedTensorVersioned) {
    // SAFETY: made by `Box::leak` of a box of this type; the caller calls this once.
    let managed = unsafe { Box::from_raw(managed) };
    // SAFETY: `manager_ctx` was made by `Box::into_raw` of a box of `T`, which this function was chosen for.
    drop(unsafe { Box::from_raw(managed.manager_ctx.cast::<T>()) });
}

/// Frees a struct that [`Capsule::into_raw`] made.
///
/// # Safety
/// As for [`delete_versioned`].
unsafe extern "C" fn delete_unversioned<T>(managed: *mut DLManagedTensor) {
    // SAFETY: as in `delete_versioned`.
    let managed = unsafe { Box::from_raw(managed) };
    // SAFETY: as in `delete_versioned`.
    drop(unsafe { Box::from_raw(managed.manager_ctx.cast::<T>()) });
}
