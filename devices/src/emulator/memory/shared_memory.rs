//! The shared memory of a block: what is written, by whom, and which of it copies are still on their way to.
//!
//! Tested by kernels that are wrong, in `emulator/tests`.

use super::shadow::{self, Stamp};
use super::{Refused, element, put_element, raced};

/// The shared memory of a block.
#[derive(Debug)]
pub(in crate::emulator) struct Shared {
    bytes: Vec<u8>,
    words: Vec<[Stamp; 2]>,
    granule_shift: u32,
    /// Copies that are under way, by pieces of 4 bytes.
    copied: Vec<u16>,
    under_way: usize,
    races: bool,
}

impl Shared {
    pub(in crate::emulator) fn new(bytes: u64, granule: u32, threads: u64) -> Shared {
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
    pub(in crate::emulator) fn reset(&mut self) {
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
    pub(in crate::emulator) fn note_read(&mut self, at: u64, bytes: u32, now: Stamp) -> Result<(), Refused> {
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
    pub(in crate::emulator) fn note_write(&mut self, at: u64, bytes: u32, now: Stamp) -> Result<(), Refused> {
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
    pub(in crate::emulator) fn begin_copy(&mut self, at: u64, bytes: u32, now: Stamp) -> Result<(), Refused> {
        self.note_write(at, bytes, now)?;
        self.copied[(at / 4) as usize..((at + u64::from(bytes)) / 4) as usize].iter_mut().for_each(|count| *count += 1);
        self.under_way += 1;
        Ok(())
    }

    /// A copy ends.
    pub(in crate::emulator) fn end_copy(&mut self, at: u64, data: &[u8], now: Stamp) -> Result<(), Refused> {
        let end = at as usize + data.len();
        self.copied[(at / 4) as usize..end / 4].iter_mut().for_each(|count| *count -= 1);
        self.under_way -= 1;
        self.note_copied(at, data.len() as u32, now)?;
        self.bytes[at as usize..end].copy_from_slice(data);
        Ok(())
    }

    pub(in crate::emulator) fn get(&self, at: u64, bytes: u32) -> u64 {
        element(&self.bytes, at, bytes)
    }

    pub(in crate::emulator) fn put(&mut self, at: u64, bytes: u32, value: u64) {
        put_element(&mut self.bytes, at, bytes, value);
    }
}
