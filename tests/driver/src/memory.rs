//! Memory of a GPU, by addresses that the host may not touch, and pinned memory of the host.
//!
//! Always: the addresses of a GPU are those of pages that were asked of the system without access, so no other memory has them; none is given out twice.

use std::collections::{BTreeMap, HashSet};
use std::ptr;

use cudarc::driver::sys::CUresult;
use warpweft_devices::RawBuffer;

/// Bytes of addresses of a GPU.
const ADDRESSES: usize = 1 << 38;
/// To which memory is aligned.
const ALIGNMENT: usize = 512;
/// What new memory holds: floats of such bytes are NaN.
const NEW: u8 = 0xff;

/// Memory of one GPU.
#[derive(Debug)]
pub(crate) struct Memory {
    first: u64,
    next: u64,
    limit: usize,
    used: usize,
    blocks: BTreeMap<u64, Block>,
    /// Other GPUs that its pool is open to, and those that the rest is open to.
    pub(crate) pool_open_to: HashSet<usize>,
    pub(crate) rest_open_to: HashSet<usize>,
}

/// What was allocated at once.
#[derive(Debug)]
struct Block {
    contents: RawBuffer,
    /// Whether a stream has come to its allocation.
    is_there: bool,
    is_of_pool: bool,
}

/// Bytes of a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    block: u64,
    offset: usize,
    /// From here to the end of the block.
    pub(crate) bytes: usize,
}

impl Memory {
    pub(crate) fn new(limit: usize) -> Memory {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: new pages, that nobody may read or write; they stay for good.
        let first = unsafe { libc::mmap(ptr::null_mut(), ADDRESSES, libc::PROT_NONE, flags, -1, 0) };
        let first = if first == libc::MAP_FAILED { 1 << 46 } else { first.addr() as u64 };
        let first = first.next_multiple_of(ALIGNMENT as u64);
        Memory {
            first,
            next: first,
            limit,
            used: 0,
            blocks: BTreeMap::new(),
            pool_open_to: HashSet::new(),
            rest_open_to: HashSet::new(),
        }
    }

    /// Bytes that are left, and all.
    pub(crate) fn free_and_total(&self) -> (usize, usize) {
        (self.limit.saturating_sub(self.used), self.limit)
    }

    /// Whether an address is one of this GPU.
    pub(crate) fn has(&self, address: u64) -> bool {
        (self.first..self.first + ADDRESSES as u64).contains(&address)
    }

    /// The address of new memory, of a pool or not.
    pub(crate) fn allocate(&mut self, bytes: usize, is_of_pool: bool) -> Result<u64, CUresult> {
        let taken = bytes.max(1).checked_next_multiple_of(ALIGNMENT).ok_or(CUresult::CUDA_ERROR_OUT_OF_MEMORY)?;
        let end = self.next.checked_add(taken as u64).filter(|end| *end <= self.first + ADDRESSES as u64);
        let (Some(end), true) = (end, taken <= self.limit.saturating_sub(self.used)) else {
            return Err(CUresult::CUDA_ERROR_OUT_OF_MEMORY);
        };
        let mut contents = RawBuffer::host("the stand-in", taken).map_err(|_| CUresult::CUDA_ERROR_OUT_OF_MEMORY)?;
        contents.own_bytes().unwrap_or_default().fill(NEW);
        let address = std::mem::replace(&mut self.next, end);
        self.used += taken;
        self.blocks.insert(address, Block { contents, is_there: !is_of_pool, is_of_pool });
        Ok(address)
    }

    /// A stream has come to the allocation.
    pub(crate) fn is_there(&mut self, address: u64) {
        if let Some(block) = self.blocks.get_mut(&address) {
            block.is_there = true;
        }
    }

    /// Whether memory begins there, and is of a pool.
    pub(crate) fn begins(&self, address: u64) -> Option<bool> {
        self.blocks.get(&address).map(|block| block.is_of_pool)
    }

    /// Whether another GPU reaches what lies at an address.
    pub(crate) fn lets_in(&self, address: u64, other: usize) -> bool {
        match self.blocks.range(..=address).next_back() {
            Some((_, block)) if block.is_of_pool => self.pool_open_to.contains(&other),
            Some(_) => self.rest_open_to.contains(&other),
            None => false,
        }
    }

    /// Frees what begins there.
    pub(crate) fn free(&mut self, address: u64) -> Result<(), CUresult> {
        let block = self.blocks.remove(&address).ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        self.used -= block.contents.bytes();
        Ok(())
    }

    /// Where so many bytes at an address lie.
    pub(crate) fn find(&self, address: u64, bytes: usize) -> Option<Place> {
        let (&first, block) = self.blocks.range(..=address).next_back().filter(|(_, block)| block.is_there)?;
        let offset = (address - first) as usize;
        let left = block.contents.bytes().checked_sub(offset)?;
        (bytes <= left && left > 0).then_some(Place { block: first, offset, bytes: left })
    }

    /// The memory at a place.
    pub(crate) fn buffer(&self, place: Place) -> Option<(&RawBuffer, usize)> {
        Some((&self.blocks.get(&place.block)?.contents, place.offset))
    }

    /// The bytes at an address.
    pub(crate) fn bytes(&mut self, address: u64, bytes: usize) -> Option<&mut [u8]> {
        let Place { block, offset, .. } = self.find(address, bytes)?;
        self.blocks.get_mut(&block)?.contents.own_bytes()?.get_mut(offset..offset + bytes)
    }

    /// Bytes that nobody has freed.
    pub(crate) fn used(&self) -> usize {
        self.used
    }
}

/// Pinned memory of the host.
#[derive(Debug, Default)]
pub(crate) struct Pinned {
    blocks: BTreeMap<usize, RawBuffer>,
    used: usize,
}

impl Pinned {
    /// The address of new memory.
    pub(crate) fn allocate(&mut self, bytes: usize, limit: usize) -> Result<usize, CUresult> {
        if bytes > limit.saturating_sub(self.used) {
            return Err(CUresult::CUDA_ERROR_OUT_OF_MEMORY);
        }
        let contents = RawBuffer::host("the host", bytes).map_err(|_| CUresult::CUDA_ERROR_OUT_OF_MEMORY)?;
        let address = contents.host_address().map_or(0, |address| address.as_ptr().expose_provenance());
        self.used += contents.bytes();
        self.blocks.insert(address, contents);
        Ok(address)
    }

    pub(crate) fn free(&mut self, address: usize) -> Result<(), CUresult> {
        let block = self.blocks.remove(&address).ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        self.used -= block.bytes();
        Ok(())
    }

    /// Whether so many bytes from an address on are pinned memory.
    pub(crate) fn holds(&self, address: usize, bytes: usize) -> bool {
        let before = self.blocks.range(..=address).next_back();
        before.is_some_and(|(&first, block)| address - first + bytes <= block.bytes())
    }
}
