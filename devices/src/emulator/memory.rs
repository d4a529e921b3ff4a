//! Global, shared and local memory, as the threads of a launch see them: every access is within bounds, aligned, of something written, and ordered.
//!
//! Parameter k begins at the address (k + 1) * 2^40, so whoever leaves one finds none. What is remembered of accesses (`shadow`) is kept by pieces of the smallest element
//! that a buffer, or the shared accesses of a kernel, have. Parameters that share bytes share what is remembered. Global memory is looked after only where a launch writes
//! to it.
//!
//! Always: the memory of buffers is accessed by atomic instructions of the host without order, so that kernels that race do so without harm to the emulator.
#![allow(unsafe_code, reason = "accesses the memory of buffers by address")]

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};

use warpweft_compiler::program::{Access as Use, Parameter};

use super::micro::{FIRST_ADDRESS, Place};
use super::parse::Space;
use super::shadow::{self, Stamp};
use crate::buffer::BufferSlice;

const WINDOW_BITS: u32 = 40;

/// What an access did that none may.
pub(super) type Refused = String;

/// The buffers of a launch.
#[derive(Debug)]
pub(super) struct Global<'l> {
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
pub(super) struct Located {
    window: usize,
    offset: u64,
}

impl<'l> Global<'l> {
    /// The buffers of these parameters, accessed by so many threads in all.
    pub(super) fn new(parameters: &[Parameter], buffers: &[BufferSlice<'l>], threads: u64) -> Global<'l> {
        let bytes = |parameter: &Parameter| parameter.len * parameter.dtype.bytes() as u64;
        let mut order: Vec<usize> = (0..parameters.len()).collect();
        let address = |number: usize| buffers[number].address().addr().get() as u64;
        order.sort_by_key(|&number| address(number));
        let mut regions: Vec<(u64, u64, u32, bool)> = Vec::new();
        let mut places = vec![(0, 0); parameters.len()];
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
            places[number] = (region, start - regions[region].0);
        }
        let regions = regions.into_iter().map(|(start, end, granule_shift, is_written)| {
            let pieces = if is_written { (end - start).div_ceil(1 << granule_shift) } else { 0 };
            Region { granule_shift, words: (0..pieces).map(|_| Default::default()).collect() }
        });
        let windows = parameters.iter().zip(buffers).zip(places).map(|((parameter, slice), (region, start))| Window {
            slice: *slice,
            bytes: bytes(parameter),
            region,
            start,
            is_fresh: parameter.access == Use::Write,
        });
        Global { windows: windows.collect(), regions: regions.collect(), races: threads > 1 }
    }

    /// The address of a parameter.
    pub(super) fn address_of(parameter: usize) -> u64 {
        (parameter as u64 + 1) << WINDOW_BITS
    }

    /// The parameter that so many bytes at an address lie in.
    pub(super) fn locate(&self, address: u64, bytes: u32) -> Result<Located, Refused> {
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
    pub(super) fn note_read(&self, at: Located, bytes: u32, now: Stamp, is_read_only: bool) -> Result<(), Refused> {
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
    pub(super) fn note_write(&self, at: Located, bytes: u32, now: Stamp) -> Result<(), Refused> {
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
    pub(super) fn get(&self, at: Located, bytes: u32) -> u64 {
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
    pub(super) fn put(&self, at: Located, bytes: u32, value: u64) {
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
    pub(super) fn update(&self, at: Located, bytes: u32, change: impl Fn(u64) -> u64) -> u64 {
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
    pub(super) fn after(self, bytes: u32) -> Located {
        Located { offset: self.offset + u64::from(bytes), ..self }
    }
}

fn raced(verb: &str, other_verb: &str, other: Stamp, now: Stamp) -> Refused {
    let whose = match other.block() {
        None => "threads of other blocks".to_string(),
        block if block == now.block() => format!("thread {} of this block", other.thread()),
        Some(block) => format!("thread {} of block {block}", other.thread()),
    };
    format!("{verb} what {whose} {other_verb} with no barrier between: a race")
}

/// The shared memory of a block.
#[derive(Debug)]
pub(super) struct Shared {
    bytes: Vec<u8>,
    words: Vec<[Stamp; 2]>,
    granule_shift: u32,
    /// Copies that are under way, by pieces of 4 bytes.
    copied: Vec<u16>,
    under_way: usize,
    races: bool,
}

impl Shared {
    pub(super) fn new(bytes: u64, granule: u32, threads: u64) -> Shared {
        let granule_shift = granule.trailing_zeros();
        Shared {
            bytes: vec![0; bytes as usize],
            words: vec![[Stamp(0); 2]; bytes.div_ceil(1 << granule_shift) as usize],
            granule_shift,
            copied: vec![0; bytes.div_ceil(4) as usize],
            under_way: 0,
            races: threads > 1,
        }
    }

    /// As a block finds it: nothing is written.
    pub(super) fn reset(&mut self) {
        self.words.fill([Stamp(0); 2]);
        self.copied.fill(0);
        self.under_way = 0;
    }

    fn range(&self, at: u64, bytes: u32) -> std::ops::RangeInclusive<usize> {
        (at >> self.granule_shift) as usize..=((at + u64::from(bytes) - 1) >> self.granule_shift) as usize
    }

    fn check_copies(&self, at: u64, bytes: u32) -> Result<(), Refused> {
        let pieces = (at / 4) as usize..=((at + u64::from(bytes) - 1) / 4) as usize;
        if self.under_way > 0 && self.copied[pieces].iter().any(|&count| count > 0) {
            return Err("bytes that a cp.async still copies, which has not been waited for".to_string());
        }
        Ok(())
    }

    /// Notes a read.
    pub(super) fn note_read(&mut self, at: u64, bytes: u32, now: Stamp) -> Result<(), Refused> {
        self.check_copies(at, bytes)?;
        let range = self.range(at, bytes);
        for [writes, reads] in &mut self.words[range] {
            if *writes == Stamp(0) {
                return Err("shared memory is read that nothing has written".to_string());
            }
            if self.races {
                *reads = shadow::read(*writes, *reads, now).map_err(|other| raced("reads", "wrote", other, now))?;
            }
        }
        Ok(())
    }

    /// Notes a write.
    pub(super) fn note_write(&mut self, at: u64, bytes: u32, now: Stamp) -> Result<(), Refused> {
        self.check_copies(at, bytes)?;
        self.note_copied(at, bytes, now)
    }

    /// Notes the write of a copy that is waited for.
    fn note_copied(&mut self, at: u64, bytes: u32, now: Stamp) -> Result<(), Refused> {
        let range = self.range(at, bytes);
        for [writes, reads] in &mut self.words[range] {
            *writes = shadow::write(*writes, *reads, now).map_err(|other| raced("writes", "accessed", other, now))?;
        }
        Ok(())
    }

    /// A copy begins.
    pub(super) fn begin_copy(&mut self, at: u64, bytes: u32, now: Stamp) -> Result<(), Refused> {
        self.note_write(at, bytes, now)?;
        self.copied[(at / 4) as usize..((at + u64::from(bytes)) / 4) as usize].iter_mut().for_each(|count| *count += 1);
        self.under_way += 1;
        Ok(())
    }

    /// A copy ends.
    pub(super) fn end_copy(&mut self, at: u64, data: &[u8], now: Stamp) -> Result<(), Refused> {
        let end = at as usize + data.len();
        self.copied[(at / 4) as usize..end / 4].iter_mut().for_each(|count| *count -= 1);
        self.under_way -= 1;
        self.note_copied(at, data.len() as u32, now)?;
        self.bytes[at as usize..end].copy_from_slice(data);
        Ok(())
    }

    pub(super) fn get(&self, at: u64, bytes: u32) -> u64 {
        element(&self.bytes, at, bytes)
    }

    pub(super) fn put(&mut self, at: u64, bytes: u32, value: u64) {
        put_element(&mut self.bytes, at, bytes, value);
    }
}

/// The memory of one thread.
#[derive(Debug, Default)]
pub(super) struct Local {
    bytes: Vec<u8>,
    /// A bit for each byte that was written.
    written: Vec<u64>,
}

impl Local {
    pub(super) fn new(bytes: u64) -> Local {
        Local { bytes: vec![0; bytes as usize], written: vec![0; bytes.div_ceil(64) as usize] }
    }

    pub(super) fn reset(&mut self) {
        self.written.fill(0);
    }

    pub(super) fn note_read(&self, at: u64, bytes: u32) -> Result<(), Refused> {
        // Accesses are aligned to their bytes, which are at most 16: one word has all of them.
        let mask = ((1u64 << bytes) - 1) << (at % 64);
        if self.written[at as usize / 64] & mask != mask {
            return Err("local memory is read that nothing has written".to_string());
        }
        Ok(())
    }

    pub(super) fn note_write(&mut self, at: u64, bytes: u32) {
        self.written[at as usize / 64] |= ((1u64 << bytes) - 1) << (at % 64);
    }

    pub(super) fn get(&self, at: u64, bytes: u32) -> u64 {
        element(&self.bytes, at, bytes)
    }

    pub(super) fn put(&mut self, at: u64, bytes: u32, value: u64) {
        put_element(&mut self.bytes, at, bytes, value);
    }
}

fn element(memory: &[u8], at: u64, bytes: u32) -> u64 {
    let (at, len) = (at as usize, bytes as usize);
    let mut word = [0; 8];
    word[..len].copy_from_slice(&memory[at..at + len]);
    u64::from_le_bytes(word)
}

fn put_element(memory: &mut [u8], at: u64, bytes: u32, value: u64) {
    let (at, len) = (at as usize, bytes as usize);
    memory[at..at + len].copy_from_slice(&value.to_le_bytes()[..len]);
}

/// Where an address of a variable lies, counted from the first one: within one variable, and aligned.
pub(super) fn locate_in(
    places: &[Place],
    space: Space,
    dynamic: u64,
    address: u64,
    bytes: u32,
) -> Result<u64, Refused> {
    let end = address.wrapping_add(u64::from(bytes));
    let holds = |place: &&Place| {
        place.space == space && address >= place.start && end <= place.start + place.bytes.unwrap_or(dynamic)
    };
    if places.iter().find(holds).is_none() || end < address {
        let name = if space == Space::Shared { "shared" } else { "local" };
        let mut nearest =
            places.iter().filter(|place| place.space == space && place.start <= address.saturating_add(128));
        return Err(match nearest.next_back() {
            Some(place) => format!(
                "{bytes} bytes at byte {} of `{}`, which has {}: out of bounds",
                address.wrapping_sub(place.start) as i64,
                place.name,
                place.bytes.unwrap_or(dynamic)
            ),
            None => format!("{bytes} bytes at {address:#x}, where no {name} variable is: out of bounds"),
        });
    }
    if address & u64::from(bytes - 1) != 0 {
        return Err(format!("address {address:#x} is no multiple of {bytes}, the bytes accessed: misaligned"));
    }
    Ok(address - FIRST_ADDRESS)
}
