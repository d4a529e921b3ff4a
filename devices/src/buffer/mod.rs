//! Raw memory of a device: [`RawBuffer`] owns bytes, [`BufferSlice`] is a range of one, as kernels take it (`slice`).
//!
//! The bytes are those of the host, or of a device that keeps its own ([`DeviceMemory`]): then the address means something to its kernels alone, the
//! host gets at the bytes by the copies of the device and no other way, and every function here that would touch them is an error.
//!
//! Host memory is zeroed, aligned to 128 bytes (two cache lines, so that neighbours are not fetched for each other), from 64 KiB
//! on to a page, and from 2 MiB on to a huge page, for which the kernel is asked: a kernel over hundreds of megabytes would
//! otherwise spend its time in page faults and in misses of the address translation.
//!
//! Always: the address of a buffer does not change while it lives, and every copy is checked against its length. Contents are
//! shared memory: reads and writes of the same bytes are ordered by the caller, as written at `Kernel::launch`.
//!
//! Tests may ask for memory between guard pages instead, which is aligned to its elements alone (`guard`).
//!
//! Not here: reuse of freed memory (`runtime`). Tested at the end of this file.
#![allow(unsafe_code, reason = "owns memory by address and hands out raw pointers to kernels")]

mod slice;

pub use slice::BufferSlice;

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::any::Any;
use std::fmt::Debug;
use std::marker::PhantomData;
use std::ptr::NonNull;

use memmap2::{MmapMut, MmapOptions};
use warpweft_compiler::dtype::Elements;

use crate::dlpack::abi::DLDevice;
use crate::error::DeviceError;
#[cfg(feature = "guard-pages")]
use crate::guard::{self, GuardedMemory, Side};

/// Bytes to which every buffer is aligned at least.
pub const BUFFER_ALIGNMENT: usize = 128;
const PAGE_BYTES: usize = 4096;
const PAGE_ALIGNED_FROM: usize = 64 << 10;
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// What frees the memory of a buffer.
#[derive(Debug)]
enum Owner {
    /// From the allocator of the process, with this layout.
    Heap(Layout),
    /// Pages of its own: unmapped when this drops.
    Pages { _map: MmapMut },
    /// Between guard pages.
    #[cfg(feature = "guard-pages")]
    Guarded { _memory: GuardedMemory },
    /// Somebody else's memory, which is theirs again when this drops.
    Foreign { _keeper: Keeper },
    /// Memory that the host has no access to.
    Device(Box<dyn DeviceMemory>),
}

/// Memory of a device that is not the host's. Dropping it frees it, in the order of the device's queue: what was launched before may still use it.
///
/// # Safety
/// From `address` on, `bytes` bytes are the device's to use until this drops, are nobody else's, and do not move.
pub unsafe trait DeviceMemory: Any + Debug + Send + Sync {
    /// Where it begins, as kernels of the device know it. The host may not look there.
    fn address(&self) -> NonNull<u8>;

    /// Length in bytes.
    fn bytes(&self) -> usize;

    /// The device as DLPack numbers it, where other libraries of the process can use the memory; none if they cannot.
    fn dlpack_device(&self) -> Option<DLDevice> {
        None
    }

    /// Another library that had it by DLPack gives it back: returns when nothing is left that that had begun to do there.
    fn came_back(&self) {}

    /// Whether it is somebody else's, who may only lend it to be read.
    fn is_foreign(&self) -> bool {
        false
    }
}

/// Whatever keeps foreign memory alive.
struct Keeper {
    _keeps: Box<dyn Send + Sync>,
}

impl std::fmt::Debug for Keeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Keeper")
    }
}

/// Memory of a device, freed on drop.
#[derive(Debug)]
pub struct RawBuffer {
    address: NonNull<u8>,
    bytes: usize,
    owner: Owner,
}

// SAFETY: the memory belongs to no thread, `address` is never given out as a reference, and the copies below go through raw
// pointers; ordering of accesses to the same bytes is demanded from the caller in the header.
unsafe impl Send for RawBuffer {}
// SAFETY: as for Send: `&RawBuffer` gives nothing but raw copies and raw addresses.
unsafe impl Sync for RawBuffer {}

impl RawBuffer {
    /// Allocates host memory, all zero, for a device of this name.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`] when the system refuses.
    pub fn host(device: &str, bytes: usize) -> Result<RawBuffer, DeviceError> {
        #[cfg(feature = "guard-pages")]
        if guard::is_on() {
            let out_of_memory = || DeviceError::OutOfMemory { device: device.to_string(), bytes };
            return RawBuffer::guarded(bytes).ok_or_else(out_of_memory);
        }
        RawBuffer::unguarded(device, bytes)
    }

    /// As [`RawBuffer::host`], for a device that looks at bounds itself and needs memory that is aligned.
    pub(crate) fn unguarded(device: &str, bytes: usize) -> Result<RawBuffer, DeviceError> {
        let out_of_memory = || DeviceError::OutOfMemory { device: device.to_string(), bytes };
        if bytes >= HUGE_PAGE_BYTES { RawBuffer::from_pages(bytes) } else { RawBuffer::from_heap(bytes) }
            .ok_or_else(out_of_memory)
    }

    /// Poisoned memory between guard pages, aligned as its length is: to an element of any type that it may hold.
    #[cfg(feature = "guard-pages")]
    fn guarded(bytes: usize) -> Option<RawBuffer> {
        let memory = GuardedMemory::new(bytes, 1, Side::next())?;
        Some(RawBuffer { address: memory.address(), bytes, owner: Owner::Guarded { _memory: memory } })
    }

    fn from_heap(bytes: usize) -> Option<RawBuffer> {
        let alignment = if bytes >= PAGE_ALIGNED_FROM { PAGE_BYTES } else { BUFFER_ALIGNMENT };
        // At least one byte, because the allocator may not be asked for none; rounded up, so that a vector load of the last
        // elements stays within what was allocated.
        let layout = Layout::from_size_align(bytes.max(1).next_multiple_of(BUFFER_ALIGNMENT), alignment).ok()?;
        // SAFETY: the layout has at least BUFFER_ALIGNMENT bytes.
        let address = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        Some(RawBuffer { address, bytes, owner: Owner::Heap(layout) })
    }

    fn from_pages(bytes: usize) -> Option<RawBuffer> {
        // One huge page more than needed, so that a multiple of its size lies inside: untouched pages cost nothing.
        let mapped_bytes = bytes.checked_next_multiple_of(HUGE_PAGE_BYTES)?.checked_add(HUGE_PAGE_BYTES)?;
        let mut map = MmapOptions::new().len(mapped_bytes).map_anon().ok()?;
        // Advice: without huge pages all works, slower.
        #[cfg(target_os = "linux")]
        let _ = map.advise(memmap2::Advice::HugePage);
        let first = map.as_mut_ptr();
        let skipped = first.addr().next_multiple_of(HUGE_PAGE_BYTES) - first.addr();
        // SAFETY: `skipped` is less than HUGE_PAGE_BYTES, by which the mapping is longer than the rounded `bytes`.
        let address = NonNull::new(unsafe { first.add(skipped) })?;
        Some(RawBuffer { address, bytes, owner: Owner::Pages { _map: map } })
    }

    /// Memory of somebody else, as long as the keeper is not dropped.
    ///
    /// # Safety
    /// From `address` on, `bytes` bytes are initialised and stay valid until the keeper drops.
    pub(crate) unsafe fn foreign(address: NonNull<u8>, bytes: usize, keeper: Box<dyn Send + Sync>) -> RawBuffer {
        RawBuffer { address, bytes, owner: Owner::Foreign { _keeper: Keeper { _keeps: keeper } } }
    }

    /// Memory that a device keeps for itself.
    pub fn of_device(memory: Box<dyn DeviceMemory>) -> RawBuffer {
        RawBuffer { address: memory.address(), bytes: memory.bytes(), owner: Owner::Device(memory) }
    }

    /// The memory that a device keeps for itself, if it is that.
    pub fn device_memory(&self) -> Option<&dyn DeviceMemory> {
        match &self.owner {
            Owner::Device(memory) => Some(&**memory),
            _ => None,
        }
    }

    /// The bytes, for who holds the buffer alone; none if the host has no access to them or they are somebody else's.
    pub fn own_bytes(&mut self) -> Option<&mut [u8]> {
        match self.owner {
            Owner::Foreign { .. } | Owner::Device(_) => None,
            // SAFETY: memory of this host that is initialised and lives as long as the buffer, which is borrowed mutably: no slice of it is left.
            _ => Some(unsafe { std::slice::from_raw_parts_mut(self.address.as_ptr(), self.bytes) }),
        }
    }

    /// The elements of a vector as memory, without a copy.
    pub fn from_elements(mut data: Elements) -> RawBuffer {
        macro_rules! address_and_bytes {
            ($($variant:ident)*) => {
                match &mut data {
                    $(Elements::$variant(data) => (data.as_mut_ptr().cast::<u8>(), std::mem::size_of_val(data.as_slice())),)*
                }
            };
        }
        let (address, bytes) = address_and_bytes! { Bool I8 I16 I32 I64 U8 U16 U32 U64 F16 BF16 F32 F64 };
        let address = NonNull::new(address).unwrap_or(NonNull::dangling());
        // SAFETY: a vector's elements stay where they are when the vector moves, and are freed when it drops. They are numbers, so
        // every byte of them is initialised.
        unsafe { RawBuffer::foreign(address, bytes, Box::new(data)) }
    }

    /// Whether it is somebody else's memory, which may be read but not written to.
    pub fn is_foreign(&self) -> bool {
        match &self.owner {
            Owner::Foreign { .. } => true,
            Owner::Device(memory) => memory.is_foreign(),
            _ => false,
        }
    }

    /// Length in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether the memory can be addressed by the host.
    pub fn is_host(&self) -> bool {
        !matches!(self.owner, Owner::Device(_))
    }

    /// Address of the first byte, if the host can use it. Not null, even for a buffer of no bytes.
    pub fn host_address(&self) -> Option<NonNull<u8>> {
        self.is_host().then_some(self.address)
    }

    /// The range of `bytes` bytes from `offset` on.
    ///
    /// # Errors
    /// [`DeviceError::OutOfBounds`] when it is not inside.
    pub fn slice(&self, offset: usize, bytes: usize) -> Result<BufferSlice<'_>, DeviceError> {
        match offset.checked_add(bytes) {
            Some(end) if end <= self.bytes => {
                // SAFETY: `offset <= self.bytes`, so the address is inside of the allocation or at its end.
                let address = unsafe { self.address.add(offset) };
                Ok(BufferSlice { address, bytes, is_host: self.is_host(), buffer: PhantomData })
            }
            Some(_) | None => Err(DeviceError::OutOfBounds { offset, bytes, limit: self.bytes }),
        }
    }

    /// The whole buffer.
    pub fn all(&self) -> BufferSlice<'_> {
        BufferSlice { address: self.address, bytes: self.bytes, is_host: self.is_host(), buffer: PhantomData }
    }
}

impl AsRef<RawBuffer> for RawBuffer {
    fn as_ref(&self) -> &RawBuffer {
        self
    }
}

impl Drop for RawBuffer {
    fn drop(&mut self) {
        if let Owner::Heap(layout) = self.owner {
            // SAFETY: `from_heap` got `address` from the allocator with this very layout, and nothing else frees it.
            unsafe { dealloc(self.address.as_ptr(), layout) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_every_size_is_zero_aligned_and_keeps_what_is_copied() {
        for bytes in [0, 1, 4, 127, 128, 4096, (64 << 10) - 1, 64 << 10, (2 << 20) - 1, 2 << 20, (5 << 20) + 3] {
            let buffer = RawBuffer::host("CPU", bytes).unwrap();
            let address = buffer.host_address().unwrap().addr().get();
            let alignment = match bytes {
                0x0020_0000.. => 2 << 20,
                0x0001_0000.. => 4096,
                _ => 128,
            };
            assert_eq!(address % alignment, 0, "{bytes}");
            let mut read = vec![1u8; bytes];
            buffer.all().copy_out(0, &mut read).unwrap();
            assert!(read.iter().all(|&byte| byte == 0), "{bytes}");
            let data: Vec<u8> = (0..bytes).map(|i| (i * 7) as u8).collect();
            buffer.all().copy_in(0, &data).unwrap();
            buffer.slice(bytes / 2, bytes - bytes / 2).unwrap().copy_out(0, &mut read[bytes / 2..]).unwrap();
            assert_eq!(read[bytes / 2..], data[bytes / 2..], "{bytes}");
        }
    }

    /// Of no bytes that anybody may look at.
    #[derive(Debug)]
    struct Elsewhere;

    // SAFETY: nothing runs code over it.
    unsafe impl DeviceMemory for Elsewhere {
        fn address(&self) -> NonNull<u8> {
            NonNull::without_provenance(std::num::NonZero::new(0x1000).unwrap())
        }

        fn bytes(&self) -> usize {
            64
        }
    }

    #[test]
    fn the_host_cannot_look_at_memory_of_a_device() {
        let buffer = RawBuffer::of_device(Box::new(Elsewhere));
        assert!(!buffer.is_host() && buffer.host_address().is_none() && buffer.device_memory().is_some());
        let slice = buffer.slice(16, 32).unwrap().slice(8, 8).unwrap();
        assert_eq!((slice.address().addr().get(), slice.bytes(), slice.is_host()), (0x1018, 8, false));
        let refused = slice.copy_in(0, &[1]).unwrap_err();
        assert!(matches!(refused, DeviceError::Unsupported { .. }), "{refused}");
        assert_eq!(slice.copy_out(0, &mut [0]).unwrap_err(), refused);
        assert_eq!(crate::elements::to_vec::<u8>(slice).unwrap(), None);
        assert_eq!(crate::elements::as_elements::<u8>(slice), None);
    }

    #[test]
    fn ranges_outside_are_refused() {
        let buffer = RawBuffer::host("CPU", 16).unwrap();
        let outside = |offset, bytes| DeviceError::OutOfBounds { offset, bytes, limit: 16 };
        assert_eq!(buffer.slice(1, 16).unwrap_err(), outside(1, 16));
        assert_eq!(buffer.slice(usize::MAX, 2).unwrap_err(), outside(usize::MAX, 2));
        assert_eq!(buffer.all().copy_in(17, &[]).unwrap_err(), outside(17, 0));
        assert_eq!(buffer.all().copy_out(8, &mut [0; 9]).unwrap_err(), outside(8, 9));
        assert_eq!(buffer.slice(16, 0).unwrap().bytes(), 0);
    }

    #[test]
    fn more_memory_than_there_is_is_an_error_that_names_the_bytes() {
        let error = RawBuffer::host("CPU", usize::MAX - 5).unwrap_err();
        assert_eq!(error, DeviceError::OutOfMemory { device: "CPU".to_string(), bytes: usize::MAX - 5 });
        assert!(RawBuffer::host("CPU", 1 << 55).is_err());
    }
}
