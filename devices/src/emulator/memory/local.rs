//! The memory of one thread: what of it was written.
//!
//! Tested by kernels that are wrong, in `emulator/tests`.

use super::{Refused, element, put_element};

/// The memory of one thread.
#[derive(Debug, Default)]
pub(in crate::emulator) struct Local {
    bytes: Vec<u8>,
    /// A bit for each byte that was written.
    written: Vec<u64>,
}

impl Local {
    pub(in crate::emulator) fn new(bytes: u64) -> Local {
        Local { bytes: vec![0; bytes as usize], written: vec![0; bytes.div_ceil(64) as usize] }
    }

    pub(in crate::emulator) fn reset(&mut self) {
        self.written.fill(0);
    }

    pub(in crate::emulator) fn note_read(&self, at: u64, bytes: u32) -> Result<(), Refused> {
        // Accesses are aligned to their bytes, which are at most 16: one word has all of them.
        let mask = ((1u64 << bytes) - 1) << (at % 64);
        if self.written[at as usize / 64] & mask != mask {
            return Err("local memory is read that nothing has written".to_string());
        }
        Ok(())
    }

    pub(in crate::emulator) fn note_write(&mut self, at: u64, bytes: u32) {
        self.written[at as usize / 64] |= ((1u64 << bytes) - 1) << (at % 64);
    }

    pub(in crate::emulator) fn get(&self, at: u64, bytes: u32) -> u64 {
        element(&self.bytes, at, bytes)
    }

    pub(in crate::emulator) fn put(&mut self, at: u64, bytes: u32, value: u64) {
        put_element(&mut self.bytes, at, bytes, value);
    }
}
