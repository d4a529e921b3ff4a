//! Global memory: the buffers of a launch, by the addresses that its parameters have.
//!
//! Parameter k begins at the address (k + 1) * 2^40, so whoever leaves one finds none. Parameters that share bytes share what is remembered. Global memory is looked after only where a
//! launch writes to it.
//!
//! Always: the memory of buffers is accessed by atomic instructions of the host without order, so that kernels that race do so without harm to the emulator.
#![allow(unsafe_code, reason = "accesses the memory of buffers by address")]

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};

use warpweft_compiler::program::{Access as Use, Parameter};

use super::shadow::{self, Stamp};
use super::{Refused, raced};
use crate::buffer::BufferSlice;

const WINDOW_BITS: u32 = 40;

/// The buffers of a launch.
#[derive(Debug)]
pub(in crate::emulator) struct Global<'l> {
    windows: Vec<Window<'l>>,
    regions: Vec<Region>,
    /// Whether more than one thread runs.
    races: bool,
}

#[derive(Debug)]
struct Window<'l> {
    slice: BufferSlice<'l>,
    bytes: u64,
    region: usize,
    /// Bytes from the beginning of the region.
    start: u64,
    /// Whether nothing was in it before the launch.
    is_fresh: bool,
}

/// Bytes of one buffer, or of several that overlap.
#[derive(Debug)]
struct Region {
    granule_shift: u32,
    /// Words for writes and for reads, by pieces; none where nothing is written.
    words: Vec<[AtomicU64; 2]>,
}

/// Bytes of a parameter.
#[derive(Clone, Copy, Debug)]
pub(in crate::emulator) struct Located {
    window: usize,
    offset: u64,
}

impl<'l> Global<'l> {
    /// The buffers of these parameters, accessed by so many threads in all.
    pub(in crate::emulator) fn new(parameters: &[Parameter], buffers: &[BufferSlice<'l>], threads: u64) -> Global<'l> {
        let bytes = |parameter: &Parameter| parameter.len * parameter.dtype.bytes() as u64;
        let mut order: Vec<usize> = (0..parameters.len()).collect();
        let address = |number: usize| buffers[number].address().addr().get() as u64;
        order.sort_by_key(|&number| address(number));
        let mut regions: Vec<(u64, u64, u32, bool)> = Vec::new();
        let mut starts = vec![(0, 0); parameters.len()];
        for number in order {
            let parameter = &parameters[number];
            let (start, end) = (address(number), address(number) + bytes(parameter));
            let granule = (parameter.dtype.bytes().max(1) as u32).trailing_zeros();
            let is_written = parameter.access != Use::Read;
            match regions.last_mut().filter(|(_, last, ..)| *last > start) {
                Some(region) => {
                    *region = (region.0, region.1.max(end), region.2.min(granule), region.3 || is_written);
                }
                None => regions.push((start, end, granule, is_written)),
            }
            let region = regions.len() - 1;
            starts[number] = (region, start - regions[region].0);
        }
        let regions = regions.into_iter().map(|(start, end, granule_shift, is_written)| {
            let pieces = if is_written { (end - start).div_ceil(1 << granule_shift) } else { 0 };
            Region { granule_shift, words: (0..pieces).map(|_| Default::default()).collect() }
        });
        let windows = parameters.iter().zip(buffers).zip(starts).map(|((parameter, slice), (region, start))| Window {
            slice: *slice,
            bytes: bytes(parameter),
            region,
            start,
            is_fresh: parameter.access == Use::Write,
        });
        Global { windows: windows.collect(), regions: regions.collect(), races: threads > 1 }
    }

    /// The address of a parameter.
    pub(in crate::emulator) fn address_of(parameter: usize) -> u64 {
        (parameter as u64 + 1) << WINDOW_BITS
    }

    /// The parameter that so many bytes at an address lie in.
    pub(in crate::emulator) fn locate(&self, address: u64, bytes: u32) -> Result<Located, Refused> {
        let (window, offset) = ((address >> WINDOW_BITS) as usize, address & ((1 << WINDOW_BITS) - 1));
        let found = window.checked_sub(1).and_then(|number| self.windows.get(number));
        match found {
            Some(window) if offset + u64::from(bytes) <= window.bytes => {}
            _ => return Err(self.outside(address, bytes)),
        }
        if offset & u64::from(bytes - 1) != 0 {
            return Err(format!(
                "byte {offset} of parameter {} is no multiple of {bytes}, the bytes accessed: misaligned",
                window - 1
            ));
        }
        Ok(Located { window: window - 1, offset })
    }

    /// How far an address is from the parameter that is nearest.
    fn outside(&self, address: u64, bytes: u32) -> Refused {
        let half = 1u64 << (WINDOW_BITS - 1);
        let number = (address.wrapping_add(half) >> WINDOW_BITS) as usize;
        match number.checked_sub(1).and_then(|number| Some((number, self.windows.get(number)?))) {
            Some((number, window)) => {
                let offset = address.wrapping_sub(Global::address_of(number)) as i64;
                let len = window.bytes;
                format!("{bytes} bytes at byte {offset} of parameter {number}, which has {len}: out of bounds")
            }
            None => format!("{bytes} bytes at {address:#x}, which is in no parameter: out of bounds"),
        }
    }

    fn words(&self, at: Located, bytes: u32) -> &[[AtomicU64; 2]] {
        let window = &self.windows[at.window];
        let region = &self.regions[window.region];
        if region.words.is_empty() {
            return &[];
        }
        let first = (window.start + at.offset) >> region.granule_shift;
        let last = (window.start + at.offset + u64::from(bytes) - 1) >> region.granule_shift;
        &region.words[first as usize..=last as usize]
    }

    /// Notes a read of bytes.
    pub(in crate::emulator) fn note_read(
        &self,
        at: Located,
        bytes: u32,
        now: Stamp,
        is_read_only: bool,
    ) -> Result<(), Refused> {
        for [writes, reads] in self.words(at, bytes) {
            if self.races {
                let before = reads.load(Relaxed);
                let after = shadow::read(Stamp(writes.load(Relaxed)), Stamp(before), now);
                let after = after.map_err(|other| raced("reads", "wrote", other, now))?;
                if before != after.0 {
                    reads.swap(after.0, Relaxed);
                    // Who wrote in between must see this, or be seen.
                    let writes = Stamp(writes.load(Relaxed));
                    if writes.races_with(now) {
                        return Err(raced("reads", "wrote", writes, now));
                    }
                }
            }
            let written = writes.load(Relaxed) != 0;
            if is_read_only && written {
                return Err("a load by the read-only path of what this launch has written".to_string());
            }
            if self.windows[at.window].is_fresh && !written {
                let offset = at.offset;
                return Err(format!("byte {offset} of parameter {} is read, which nothing has written", at.window));
            }
        }
        Ok(())
    }

    /// Notes a write of bytes.
    pub(in crate::emulator) fn note_write(&self, at: Located, bytes: u32, now: Stamp) -> Result<(), Refused> {
        let words = self.words(at, bytes);
        if words.is_empty() {
            return Err(format!("parameter {} is written to, which is only read", at.window));
        }
        for [writes, reads] in words {
            let before = Stamp(writes.load(Relaxed));
            if !self.races {
                writes.store(now.0, Relaxed);
                continue;
            }
            let after = shadow::write(before, Stamp(reads.load(Relaxed)), now);
            let after = after.map_err(|other| raced("writes", "accessed", other, now))?;
            if before != after {
                let found = Stamp(writes.swap(after.0, Relaxed));
                let reads = Stamp(reads.load(Relaxed));
                for other in [found, reads] {
                    if other.races_with(now) {
                        return Err(raced("writes", "accessed", other, now));
                    }
                }
            }
        }
        Ok(())
    }

    fn pointer(&self, at: Located) -> *mut u8 {
        let window = &self.windows[at.window];
        assert!(at.offset < window.slice.bytes() as u64, "who launches gives slices of a parameter's length");
        // SAFETY: the offset is inside of the slice, as was just seen, and so of its buffer.
        unsafe { window.slice.address().as_ptr().add(at.offset as usize) }
    }

    /// An element that is inside, as `locate` has seen for at least so many bytes, which are 1, 2, 4 or 8.
    pub(in crate::emulator) fn get(&self, at: Located, bytes: u32) -> u64 {
        let pointer = self.pointer(at);
        if !pointer.addr().is_multiple_of(bytes as usize) {
            let byte = |number: u32| self.get(at.after(number), 1) << (8 * number);
            return (0..bytes).map(byte).fold(0, |a, b| a | b);
        }
        // SAFETY: `bytes` bytes from here on are inside of the slice (`locate` saw that they are inside of the parameter, and a launch that the slice is
        // as long), all initialised, aligned as was just seen, and accessed by atomics alone while the launch runs: the promise of who opened the device.
        unsafe {
            match bytes {
                1 => u64::from(AtomicU8::from_ptr(pointer).load(Relaxed)),
                2 => u64::from(AtomicU16::from_ptr(pointer.cast()).load(Relaxed)),
                4 => u64::from(AtomicU32::from_ptr(pointer.cast()).load(Relaxed)),
                _ => AtomicU64::from_ptr(pointer.cast()).load(Relaxed),
            }
        }
    }

    /// Puts an element where [`Global::get`] would find it.
    pub(in crate::emulator) fn put(&self, at: Located, bytes: u32, value: u64) {
        let pointer = self.pointer(at);
        if !pointer.addr().is_multiple_of(bytes as usize) {
            return (0..bytes).for_each(|number| self.put(at.after(number), 1, value >> (8 * number)));
        }
        // SAFETY: as in `get`.
        unsafe {
            match bytes {
                1 => AtomicU8::from_ptr(pointer).store(value as u8, Relaxed),
                2 => AtomicU16::from_ptr(pointer.cast()).store(value as u16, Relaxed),
                4 => AtomicU32::from_ptr(pointer.cast()).store(value as u32, Relaxed),
                _ => AtomicU64::from_ptr(pointer.cast()).store(value, Relaxed),
            }
        }
    }
}

impl Global<'_> {
    /// Replaces an element by what is made of it, at once; gives what was there.
    pub(in crate::emulator) fn update(&self, at: Located, bytes: u32, change: impl Fn(u64) -> u64) -> u64 {
        let pointer = self.pointer(at);
        assert!(pointer.addr().is_multiple_of(bytes as usize), "buffers are aligned to their elements");
        // SAFETY: as in `get`; aligned as was just seen.
        unsafe {
            match bytes {
                2 => {
                    let change = |found: u16| Some(change(found.into()) as u16);
                    AtomicU16::from_ptr(pointer.cast()).fetch_update(Relaxed, Relaxed, change).unwrap_or(0).into()
                }
                4 => {
                    let change = |found: u32| Some(change(found.into()) as u32);
                    AtomicU32::from_ptr(pointer.cast()).fetch_update(Relaxed, Relaxed, change).unwrap_or(0).into()
                }
                _ => {
                    let change = |found: u64| Some(change(found));
                    AtomicU64::from_ptr(pointer.cast()).fetch_update(Relaxed, Relaxed, change).unwrap_or(0)
                }
            }
        }
    }
}

impl Located {
    pub(in crate::emulator) fn after(self, bytes: u32) -> Located {
        Located { offset: self.offset + u64::from(bytes), ..self }
    }
}
