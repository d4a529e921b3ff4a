//! Memory of tensors: a [`Buffer`] is a range of bytes of a storage that other buffers may share.
//!
//! A storage asks for memory when it is first needed, so that a tensor that is never computed costs none, and gives it back to
//! the allocator when its last buffer drops. Clones and views are other handles to the same storage. A storage with a source is filled from
//! that when its memory is asked for, by the first thread that does; the others wait.
//!
//! Always: a buffer's range lies inside of its storage, and its memory does not move. Contents of new memory are anything. Whoever reads the bytes
//! gets them as they are when the device has done all that it was given; memory that the host has no access to is copied for that.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use warpweft_devices::{BufferSlice, DeviceError, RawBuffer};

use super::lru::{Block, Lease, LruAllocator};
use super::source::Source;
use crate::debug;

/// What buffers share.
#[derive(Debug)]
struct Storage {
    allocator: Arc<LruAllocator>,
    bytes: usize,
    block: OnceLock<Block>,
    /// What the memory holds at first; anything if there is none.
    source: Option<Arc<dyn Source>>,
    /// Held by who reads the source.
    reading: Mutex<()>,
}

impl Storage {
    fn new(allocator: &Arc<LruAllocator>, bytes: usize, block: OnceLock<Block>) -> Storage {
        Storage { allocator: allocator.clone(), bytes, block, source: None, reading: Mutex::new(()) }
    }
}

/// A handle to a range of device memory, counted by reference.
#[derive(Clone, Debug)]
pub struct Buffer {
    storage: Arc<Storage>,
    offset: usize,
    bytes: usize,
    /// Whether nothing says where it belongs: what it holds was computed from constants alone.
    is_of_constants: bool,
    /// The bytes that the host gave it at first, for who would else wait for a device to hear of them.
    given: Option<Arc<[u8]>>,
}

/// No more bytes than that are kept on the host too.
const GIVEN_BYTES_MAX: usize = 32 << 10;

impl Buffer {
    fn whole(storage: Storage) -> Buffer {
        let bytes = storage.bytes;
        Buffer { storage: Arc::new(storage), offset: 0, bytes, is_of_constants: false, given: None }
    }

    /// The buffer with what was computed into it, from constants alone or not: if so, whoever uses it on another device gets a copy there.
    pub(crate) fn of_constants(self, is_of_constants: bool) -> Buffer {
        Buffer { is_of_constants, given: None, ..self }
    }

    /// The buffer, into which the host copied these bytes: if they are few, and the host cannot look at its memory, they are kept beside it.
    pub(crate) fn given(self, bytes: &[u8]) -> Buffer {
        let is_kept = bytes.len() <= GIVEN_BYTES_MAX && !self.storage.allocator.device().uses_host_memory();
        Buffer { given: is_kept.then(|| bytes.into()), ..self }
    }

    /// The first bytes of what it holds, as far as the host knows them without waiting for a device.
    pub(crate) fn known_bytes(&self) -> Option<&[u8]> {
        self.given.as_deref().filter(|_| self.is_own())
    }

    /// Whether what it holds was computed from constants alone.
    pub(crate) fn is_of_constants(&self) -> bool {
        self.is_of_constants
    }

    /// A buffer of a new storage of `bytes` bytes. No memory is asked for yet.
    pub fn new(allocator: &Arc<LruAllocator>, bytes: usize) -> Buffer {
        Buffer::whole(Storage::new(allocator, bytes, OnceLock::new()))
    }

    /// A buffer of a new storage that holds what the source gives, which is read when the memory is first asked for.
    pub fn of_source(allocator: &Arc<LruAllocator>, source: Arc<dyn Source>) -> Buffer {
        let bytes = source.bytes();
        Buffer::whole(Storage { source: Some(source), ..Storage::new(allocator, bytes, OnceLock::new()) })
    }

    /// A buffer of a new storage that holds a copy of `data`.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`].
    pub fn from_bytes(allocator: &Arc<LruAllocator>, data: &[u8]) -> Result<Buffer, DeviceError> {
        let buffer = Buffer::new(allocator, data.len());
        buffer.copy_in(0, data)?;
        Ok(buffer)
    }

    /// A buffer over somebody else's memory, which goes back to them when its last handle drops.
    pub fn foreign(allocator: &Arc<LruAllocator>, memory: RawBuffer) -> Buffer {
        let bytes = memory.bytes();
        let block = OnceLock::from(Block::foreign(allocator, memory));
        Buffer::whole(Storage::new(allocator, bytes, block))
    }

    /// The memory of the whole storage, for somebody who may keep it longer than the buffer; asks for it if that did not happen yet.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`].
    pub fn shared_memory(&self) -> Result<Arc<Lease>, DeviceError> {
        Ok(self.block()?.shared().clone())
    }

    /// Length in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// First byte of this range in its storage.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// The allocator that the memory is from.
    pub fn allocator(&self) -> &Arc<LruAllocator> {
        &self.storage.allocator
    }

    /// Another handle to `bytes` bytes of this range, from `offset` on.
    ///
    /// # Errors
    /// [`DeviceError::OutOfBounds`] when they are not inside.
    pub fn view(&self, offset: usize, bytes: usize) -> Result<Buffer, DeviceError> {
        match offset.checked_add(bytes) {
            Some(end) if end <= self.bytes => {
                Ok(Buffer { offset: self.offset + offset, bytes, given: None, ..self.clone() })
            }
            Some(_) | None => Err(DeviceError::OutOfBounds { offset, bytes, limit: self.bytes }),
        }
    }

    /// Whether the storage has memory already.
    pub fn is_allocated(&self) -> bool {
        self.storage.block.get().is_some()
    }

    /// Whether both are handles to one storage, of whatever ranges.
    pub fn shares_storage_with(&self, other: &Buffer) -> bool {
        Arc::ptr_eq(&self.storage, &other.storage)
    }

    /// How many handles to the storage there are now. Only who holds some of them can rely on the answer.
    pub fn handles(&self) -> usize {
        Arc::strong_count(&self.storage)
    }

    /// Whether there is no other handle to the storage now, nor does somebody else share its memory. Only who holds all handles can
    /// rely on the answer.
    pub fn is_only_handle(&self) -> bool {
        Arc::strong_count(&self.storage) == 1 && self.is_own()
    }

    /// Whether the memory is seen by tensors alone: what came from somebody else or was given out must not be written in place.
    pub fn is_own(&self) -> bool {
        self.storage.block.get().is_none_or(Block::is_own)
    }

    /// The memory of the storage; asks for it if that did not happen yet.
    fn block(&self) -> Result<&Block, DeviceError> {
        match self.storage.block.get() {
            Some(block) => Ok(block),
            None => {
                let block = match &self.storage.source {
                    Some(_) => return self.read_source(&mut |_| ()),
                    None => self.storage.allocator.allocate(self.storage.bytes)?,
                };
                // When another thread was first, ours goes back to the allocator and theirs is used.
                Ok(self.storage.block.get_or_init(|| block))
            }
        }
    }

    /// What it is to be read from, if that did not happen yet.
    pub fn unread(&self) -> Option<&Arc<dyn Source>> {
        self.storage.source.as_ref().filter(|_| !self.is_allocated())
    }

    /// Has its memory, read from its source if it has one and that did not happen yet. `progress` hears of each piece, by its bytes.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`], [`DeviceError::File`].
    pub fn load(&self, progress: &mut dyn FnMut(usize)) -> Result<(), DeviceError> {
        match self.unread() {
            Some(_) => self.read_source(progress).map(|_| ()),
            None => self.block().map(|_| ()),
        }
    }

    #[cold]
    fn read_source(&self, progress: &mut dyn FnMut(usize)) -> Result<&Block, DeviceError> {
        let _turn = self.storage.reading.lock().unwrap_or_else(PoisonError::into_inner);
        let (Some(source), None) = (&self.storage.source, self.storage.block.get()) else {
            return self.block(); // another thread was first
        };
        let started = Instant::now();
        let block = self.storage.allocator.allocate(self.storage.bytes)?;
        let device = self.storage.allocator.device();
        let mut done = 0;
        source.read(&mut |piece: &[u8]| {
            device.copy_in(block.memory(), done, piece)?;
            done += piece.len();
            progress(piece.len());
            Ok(())
        })?;
        debug::file_read(device.name(), done, &**source, started.elapsed());
        Ok(self.storage.block.get_or_init(|| block))
    }

    /// Where this range is in memory, as kernels know it; asks for the memory if that did not happen yet.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`].
    pub fn address(&self) -> Result<usize, DeviceError> {
        Ok(self.slice()?.address().addr().get())
    }

    /// The memory of this range, as kernels take it; asks for the memory if that did not happen yet.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`].
    pub(crate) fn slice(&self) -> Result<BufferSlice<'_>, DeviceError> {
        self.block()?.memory().slice(self.offset, self.bytes)
    }

    /// Copies `data` in, from byte `offset` of this range on. The caller orders this against launches.
    ///
    /// # Errors
    /// [`DeviceError::OutOfBounds`] when it does not fit; [`DeviceError::OutOfMemory`].
    pub(crate) fn copy_in(&self, offset: usize, data: &[u8]) -> Result<(), DeviceError> {
        let target = self.view(offset, data.len())?;
        self.storage.allocator.device().copy_in(self.block()?.memory(), target.offset, data)
    }

    /// Fills `data` from byte `offset` of this range on. The caller orders this against launches.
    ///
    /// # Errors
    /// [`DeviceError::OutOfBounds`] when this range is too short; [`DeviceError::OutOfMemory`].
    pub(crate) fn copy_out(&self, offset: usize, data: &mut [u8]) -> Result<(), DeviceError> {
        let source = self.view(offset, data.len())?;
        self.storage.allocator.device().copy_out(self.block()?.memory(), source.offset, data)
    }

    /// Hands the first `bytes` bytes of this range, in memory of the host, to a closure: as they lie there, or as a copy.
    ///
    /// # Errors
    /// As [`Buffer::copy_out`], and what the closure says.
    pub(crate) fn with_host<R, E: From<DeviceError>>(
        &self,
        bytes: usize,
        read: impl FnOnce(BufferSlice<'_>) -> Result<R, E>,
    ) -> Result<R, E> {
        let memory = self.block()?.memory();
        let device = self.storage.allocator.device();
        if memory.is_host() {
            device.finish()?;
            return read(self.slice()?.slice(0, bytes)?);
        }
        let mut copy = RawBuffer::host("the host", bytes)?;
        if let Some(copy) = copy.own_bytes() {
            self.copy_out(0, copy)?;
        }
        read(copy.all())
    }

    /// A copy of the first `bytes` bytes in memory of another allocator, which has room for `room` bytes.
    ///
    /// # Errors
    /// As [`Buffer::copy_out`] and [`Buffer::copy_in`].
    pub(crate) fn copied_to(
        &self,
        allocator: &Arc<LruAllocator>,
        bytes: usize,
        room: usize,
    ) -> Result<Buffer, DeviceError> {
        let copy = Buffer::new(allocator, room.max(bytes));
        let source = self.view(0, bytes)?;
        let from = self.storage.allocator.device();
        allocator.device().copy_from(
            (copy.block()?.memory(), 0),
            &**from,
            (self.block()?.memory(), source.offset),
            bytes,
        )?;
        Ok(copy)
    }

    /// A copy of the whole range.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`].
    #[cfg(test)]
    pub(crate) fn to_bytes(&self) -> Result<Vec<u8>, DeviceError> {
        let mut bytes = vec![0; self.bytes];
        self.copy_out(0, &mut bytes)?;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allocator() -> Arc<LruAllocator> {
        LruAllocator::new(crate::execute::open_device("CPU", Some(1)).unwrap(), 1 << 20)
    }

    #[test]
    fn memory_comes_with_the_first_use_and_goes_with_the_last_handle() {
        let allocator = allocator();
        let buffer = Buffer::new(&allocator, 1000);
        let view = buffer.view(10, 20).unwrap();
        assert!(!buffer.is_allocated() && !buffer.is_only_handle());
        assert_eq!(allocator.stats().in_use_bytes, 0);
        view.copy_in(0, &[7; 20]).unwrap();
        assert!(buffer.is_allocated() && view.shares_storage_with(&buffer));
        assert!(allocator.stats().in_use_bytes >= 1000);
        drop(buffer);
        assert!(view.is_only_handle());
        assert_eq!(view.to_bytes().unwrap(), [7; 20]);
        drop(view);
        let stats = allocator.stats();
        assert_eq!((stats.in_use_bytes, stats.misses), (0, 1));
        Buffer::new(&allocator, 999).slice().unwrap();
        assert_eq!(allocator.stats().hits, 1);
    }

    #[test]
    fn views_of_views_start_at_the_sum_and_see_each_other() {
        let allocator = allocator();
        let buffer = Buffer::from_bytes(&allocator, &(0..100).collect::<Vec<u8>>()).unwrap();
        let view = buffer.view(10, 50).unwrap().view(5, 3).unwrap();
        assert_eq!((view.offset(), view.bytes()), (15, 3));
        assert_eq!(view.to_bytes().unwrap(), [15, 16, 17]);
        view.copy_in(1, &[99]).unwrap();
        assert_eq!(buffer.to_bytes().unwrap()[15..18], [15, 99, 17]);
        assert_eq!(view.slice().unwrap().address().addr().get(), buffer.slice().unwrap().address().addr().get() + 15);
    }

    #[test]
    fn ranges_outside_are_refused() {
        let buffer = Buffer::new(&allocator(), 100).view(50, 50).unwrap();
        let outside = |offset, bytes| DeviceError::OutOfBounds { offset, bytes, limit: 50 };
        assert_eq!(buffer.view(1, 50).unwrap_err(), outside(1, 50));
        assert_eq!(buffer.copy_in(usize::MAX, &[1]).unwrap_err(), outside(usize::MAX, 1));
        assert_eq!(buffer.copy_out(50, &mut [0]).unwrap_err(), outside(50, 1));
        assert!(Buffer::new(&allocator(), 0).to_bytes().unwrap().is_empty());
    }

    #[test]
    fn threads_that_are_first_together_get_one_memory() {
        let allocator = allocator();
        for _ in 0..50 {
            let buffer = Buffer::new(&allocator, 4096);
            let addresses: Vec<usize> = std::thread::scope(|scope| {
                let first = |_| scope.spawn(|| buffer.slice().unwrap().address().addr().get());
                (0..4).map(first).collect::<Vec<_>>().into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            assert!(addresses.iter().all(|&address| address == addresses[0]));
        }
        assert_eq!(allocator.stats().in_use_bytes, 0);
    }
}
