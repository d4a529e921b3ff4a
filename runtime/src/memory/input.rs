//! Files as sources of memory: [`Input`] is an open file (or bytes that stand for one), [`FilePart`] a range of it that fills a buffer.
//!
//! Files are read with positioned reads (`pread`) and not through a map. A file may be shortened or replaced by anybody at any time:
//! touching a map past its new end kills the process with SIGBUS, and no check beforehand can exclude that; a map whose bytes
//! change under a kernel breaks what kernels rely on, that what they read twice is the same. A read gives an error instead, which says
//! where the file ends. It costs one copy from the page cache, once; kernels then run over memory of their device, on huge pages and
//! aligned as they like it, which parts of a file are not.
//!
//! Always: no range is read that is not inside of the file as it was when it was opened, and no memory is taken for a length that a
//! file states before that length was compared with the file's own.

use std::fmt;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use warpweft_devices::{DeviceError, FileError};

use super::source::{READ_BYTES, Source, Take};

/// What bytes are read from.
enum Held {
    File(File),
    Bytes(Vec<u8>),
}

/// A file that is open for reading, or bytes in memory that stand for one.
pub struct Input {
    name: String,
    len: u64,
    held: Held,
}

impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Input({}, {} bytes)", self.name, self.len)
    }
}

impl Input {
    /// Opens a file. Nothing of it is read.
    ///
    /// # Errors
    /// If there is none that may be read, or it is no regular file.
    pub fn open(path: impl AsRef<Path>) -> Result<Arc<Input>, FileError> {
        let path = path.as_ref();
        let name = path.display().to_string();
        let failed = |message: String| FileError { file: name.clone(), offset: 0, message };
        // Asked before opening: opening a pipe waits for who writes to it.
        let is_file = std::fs::metadata(path).map_err(|error| failed(format!("cannot be opened: {error}")))?.is_file();
        if !is_file {
            return Err(failed("is no regular file; name a file".to_string()));
        }
        let opened = File::open(path).and_then(|file| Ok((file.metadata()?.len(), file)));
        let (len, file) = opened.map_err(|error| failed(format!("cannot be opened: {error}")))?;
        Ok(Arc::new(Input { name, len, held: Held::File(file) }))
    }

    /// Bytes that stand for a file of that name, which errors say.
    pub fn of_bytes(name: &str, bytes: impl Into<Vec<u8>>) -> Arc<Input> {
        let bytes = bytes.into();
        Arc::new(Input { name: name.to_string(), len: bytes.len() as u64, held: Held::Bytes(bytes) })
    }

    /// The file's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its bytes, when it was opened.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// An error at an offset of this file.
    pub fn error(&self, offset: u64, message: impl Into<String>) -> FileError {
        FileError { file: self.name.clone(), offset, message: message.into() }
    }

    /// Whether a range is inside.
    ///
    /// # Errors
    /// If it is not, with what it should hold.
    pub fn check(&self, offset: u64, bytes: u64, what: &str) -> Result<(), FileError> {
        match offset.checked_add(bytes) {
            Some(end) if end <= self.len => Ok(()),
            Some(_) | None => {
                let message = format!("{what} should be {bytes} bytes, but the file has {} bytes in all", self.len);
                Err(self.error(offset, message))
            }
        }
    }

    /// Fills `data` from byte `offset` on.
    ///
    /// # Errors
    /// If that is not inside, or the system cannot read it, as when the file was shortened since.
    pub fn read_at(&self, offset: u64, data: &mut [u8], what: &str) -> Result<(), FileError> {
        self.check(offset, data.len() as u64, what)?;
        match &self.held {
            Held::Bytes(bytes) => {
                // Inside: checked above.
                let from = offset as usize;
                data.copy_from_slice(&bytes[from..from + data.len()]);
                Ok(())
            }
            Held::File(file) => read_exact_at(file, offset, data).map_err(|error| {
                let now = file.metadata().map(|metadata| metadata.len());
                let message = match now {
                    Ok(now) if now < self.len => format!(
                        "{what} is gone: the file had {} bytes when it was opened and has {now} now; load it again",
                        self.len
                    ),
                    Ok(_) | Err(_) => format!("{what} cannot be read: {error}"),
                };
                self.error(offset, message)
            }),
        }
    }

    /// The bytes of a range, which is at most `most` long.
    ///
    /// # Errors
    /// As [`Input::read_at`], and if it is longer.
    pub fn bytes_at(&self, offset: u64, bytes: u64, most: u64, what: &str) -> Result<Vec<u8>, FileError> {
        self.check(offset, bytes, what)?;
        if bytes > most {
            return Err(self.error(offset, format!("{what} is {bytes} bytes; at most {most} are read")));
        }
        let mut data = vec![0; bytes as usize];
        self.read_at(offset, &mut data, what)?;
        Ok(data)
    }
}

#[cfg(unix)]
fn read_exact_at(file: &File, offset: u64, data: &mut [u8]) -> std::io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, data, offset)
}

/// Elsewhere a file has one offset that is read from, so readers take turns.
#[cfg(not(unix))]
fn read_exact_at(file: &File, offset: u64, data: &mut [u8]) -> std::io::Result<()> {
    use std::io::{Read, Seek, SeekFrom};
    static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut file = file;
    file.seek(SeekFrom::Start(offset))?;
    file.read_exact(data)
}

/// What happens to bytes between the file and memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Change {
    /// Nothing.
    #[default]
    None,
    /// The bytes of each element of this width are turned round.
    Swap(usize),
    /// Every byte that is not 0 becomes 1: a bool of memory is nothing else.
    Bools,
}

impl Change {
    /// Changes bytes, whole elements.
    pub fn apply(self, bytes: &mut [u8]) {
        match self {
            Change::None => {}
            Change::Swap(width) => bytes.chunks_exact_mut(width.max(1)).for_each(<[u8]>::reverse),
            Change::Bools => bytes.iter_mut().for_each(|byte| *byte = u8::from(*byte != 0)),
        }
    }
}

/// A range of a file.
#[derive(Clone, Debug)]
pub struct FilePart {
    input: Arc<Input>,
    offset: u64,
    bytes: usize,
    change: Change,
}

impl FilePart {
    /// `bytes` bytes from `offset` on, which hold `what`.
    ///
    /// # Errors
    /// If they are not inside of the file.
    pub fn new(
        input: &Arc<Input>,
        offset: u64,
        bytes: usize,
        change: Change,
        what: &str,
    ) -> Result<FilePart, FileError> {
        input.check(offset, bytes as u64, what)?;
        Ok(FilePart { input: input.clone(), offset, bytes, change })
    }
}

impl Source for FilePart {
    fn bytes(&self) -> usize {
        self.bytes
    }

    fn read(&self, take: &mut Take<'_>) -> Result<(), DeviceError> {
        let mut piece = vec![0; self.bytes.min(READ_BYTES)];
        let mut done = 0;
        while done < self.bytes {
            let piece = &mut piece[..(self.bytes - done).min(READ_BYTES)];
            self.input.read_at(self.offset + done as u64, piece, "the data of a tensor")?;
            self.change.apply(piece);
            take(piece)?;
            done += piece.len();
        }
        Ok(())
    }

    fn part(&self, offset: usize, bytes: usize) -> Option<Arc<dyn Source>> {
        if offset.checked_add(bytes)? > self.bytes {
            return None;
        }
        Some(Arc::new(FilePart { offset: self.offset + offset as u64, bytes, ..self.clone() }))
    }

    fn location(&self) -> String {
        format!("{} at byte {}", self.input.name, self.offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(source: &dyn Source) -> Result<Vec<u8>, DeviceError> {
        let mut bytes = Vec::new();
        source.read(&mut |piece| {
            bytes.extend_from_slice(piece);
            Ok(())
        })?;
        Ok(bytes)
    }

    #[test]
    fn parts_give_their_bytes_in_order_and_changed() {
        let bytes: Vec<u8> = (0..READ_BYTES * 2 + 24).map(|k| (k * 7 % 251) as u8).collect();
        let input = Input::of_bytes("memory", bytes.clone());
        let part = FilePart::new(&input, 8, READ_BYTES * 2 + 16, Change::None, "data").unwrap();
        assert_eq!(all(&part).unwrap(), bytes[8..]);
        assert_eq!(all(&*part.part(100, 8).unwrap()).unwrap(), bytes[108..116]);
        assert!(part.part(8, part.bytes()).is_none() && part.part(usize::MAX, 2).is_none());
        let swapped = FilePart { change: Change::Swap(4), ..part.clone() };
        assert_eq!(
            all(&swapped).unwrap()[..8],
            [bytes[11], bytes[10], bytes[9], bytes[8], bytes[15], bytes[14], bytes[13], bytes[12]]
        );
        let bools = FilePart { change: Change::Bools, bytes: 300, ..part };
        assert!(all(&bools).unwrap().iter().zip(&bytes[8..]).all(|(&found, &byte)| found == u8::from(byte != 0)));
    }

    #[test]
    fn what_is_outside_or_gone_is_an_error_that_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data.bin");
        std::fs::write(&path, vec![1u8; 1000]).unwrap();
        let input = Input::open(&path).unwrap();
        let error = FilePart::new(&input, 900, 200, Change::None, "the tensor `a`").unwrap_err();
        assert_eq!(error.message, "the tensor `a` should be 200 bytes, but the file has 1000 bytes in all");
        assert_eq!((error.offset, error.file), (900, path.display().to_string()));
        assert!(input.check(u64::MAX, 2, "x").is_err());
        let part = FilePart::new(&input, 500, 500, Change::None, "the tensor `a`").unwrap();
        assert_eq!(all(&part).unwrap(), [1; 500]);
        File::options().write(true).open(&path).unwrap().set_len(700).unwrap();
        let error = all(&part).unwrap_err().to_string();
        assert!(error.ends_with("at byte 500: the data of a tensor is gone: the file had 1000 bytes when it was opened and has 700 now; load it again"), "{error}");
        let error = Input::open(folder.path()).unwrap_err().to_string();
        assert!(error.ends_with("is no regular file; name a file"), "{error}");
        assert!(Input::open(folder.path().join("none")).unwrap_err().message.starts_with("cannot be opened"));
    }
}
