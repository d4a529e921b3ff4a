//! Reading a file from front to back: numbers and texts, each checked against the bytes that are left.

use std::sync::Arc;

use warpweft_devices::FileError;

use crate::memory::Input;

/// Bytes that are read ahead.
const AHEAD_BYTES: u64 = 1 << 16;

/// An offset in a file that moves on with what is read.
#[derive(Debug)]
pub(crate) struct Cursor<'i> {
    input: &'i Arc<Input>,
    at: u64,
    /// What was read ahead, and where it begins.
    ahead: Vec<u8>,
    ahead_at: u64,
}

impl<'i> Cursor<'i> {
    pub(crate) fn new(input: &'i Arc<Input>) -> Cursor<'i> {
        Cursor { input, at: 0, ahead: Vec::new(), ahead_at: 0 }
    }

    /// The offset.
    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    /// An error at the offset.
    pub(crate) fn error(&self, message: impl Into<String>) -> FileError {
        self.input.error(self.at, message)
    }

    /// Bytes that are left.
    pub(crate) fn left(&self) -> u64 {
        self.input.len().saturating_sub(self.at)
    }

    /// Whether so many things of at least so many bytes may follow.
    pub(crate) fn expect(&self, count: u64, bytes_least: u64, what: &str) -> Result<usize, FileError> {
        match count.checked_mul(bytes_least) {
            Some(bytes) if bytes <= self.left() => Ok(count as usize),
            Some(_) | None => {
                Err(self.error(format!("{count} {what} cannot be: {} bytes are left in the file", self.left())))
            }
        }
    }

    /// The next bytes.
    pub(crate) fn take<const N: usize>(&mut self, what: &str) -> Result<[u8; N], FileError> {
        let mut bytes = [0; N];
        self.fill(&mut bytes, what)?;
        Ok(bytes)
    }

    fn fill(&mut self, bytes: &mut [u8], what: &str) -> Result<(), FileError> {
        let len = bytes.len() as u64;
        self.input.check(self.at, len, what)?;
        if len > AHEAD_BYTES {
            self.input.read_at(self.at, bytes, what)?;
            self.at += len;
            return Ok(());
        }
        let is_there = self.at >= self.ahead_at && self.at + len <= self.ahead_at + self.ahead.len() as u64;
        if !is_there {
            self.ahead.resize(self.left().min(AHEAD_BYTES) as usize, 0);
            self.ahead_at = self.at;
            self.input.read_at(self.at, &mut self.ahead, what)?;
        }
        let from = (self.at - self.ahead_at) as usize;
        bytes.copy_from_slice(&self.ahead[from..from + bytes.len()]);
        self.at += len;
        Ok(())
    }

    pub(crate) fn u8(&mut self, what: &str) -> Result<u8, FileError> {
        Ok(u8::from_le_bytes(self.take(what)?))
    }

    pub(crate) fn u16(&mut self, what: &str) -> Result<u16, FileError> {
        Ok(u16::from_le_bytes(self.take(what)?))
    }

    pub(crate) fn u32(&mut self, what: &str) -> Result<u32, FileError> {
        Ok(u32::from_le_bytes(self.take(what)?))
    }

    pub(crate) fn u64(&mut self, what: &str) -> Result<u64, FileError> {
        Ok(u64::from_le_bytes(self.take(what)?))
    }

    /// So many bytes.
    pub(crate) fn bytes(&mut self, len: u64, what: &str) -> Result<Vec<u8>, FileError> {
        let mut bytes = vec![0; self.expect(len, 1, &format!("bytes of {what}"))?];
        self.fill(&mut bytes, what)?;
        Ok(bytes)
    }

    /// So many bytes of text in UTF-8.
    pub(crate) fn text(&mut self, len: u64, what: &str) -> Result<String, FileError> {
        let at = self.at;
        let bytes = self.bytes(len, what)?;
        String::from_utf8(bytes).map_err(|_| self.input.error(at, format!("{what} should be text in UTF-8")))
    }
}
