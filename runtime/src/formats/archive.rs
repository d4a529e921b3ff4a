//! Zip archives of tensors: members that are stored as they are or deflated, read in place.
//!
//! The directory is read by the crate `zip`; members are read here, so that a stored one is a range of the file like any other, and a
//! deflated one is inflated in a stream when its tensor is used.
//!
//! Always: members lie apart, each inside of the file; a member says how long it is, and inflating stops with an error at the first byte more or
//! less, or when the checksum differs. A length that its packed bytes cannot have (deflate makes at most 1,032 of one) is refused before
//! memory is taken, so an archive takes memory in proportion to its file.

use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::sync::Arc;

use flate2::Crc;
use flate2::read::DeflateDecoder;
use warpweft_devices::{DeviceError, FileError};
use zip::{CompressionMethod, ZipArchive};

use super::layout::check_apart;
use crate::memory::{Change, FilePart, Input, READ_BYTES, Source, Take};

/// The most bytes that one byte of deflated data becomes.
const RATIO_MAX: u64 = 1032;
/// The most members: more than any model has.
const MEMBERS_MAX: usize = 1 << 20;

/// A member of an archive.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) name: String,
    /// Where its data begin in the archive.
    pub(crate) at: u64,
    packed: u64,
    pub(crate) bytes: u64,
    checksum: u32,
    is_deflated: bool,
}

/// An archive whose directory was read and checked.
#[derive(Debug)]
pub(crate) struct Archive {
    pub(crate) input: Arc<Input>,
    pub(crate) members: Vec<Member>,
}

impl Archive {
    pub(crate) fn open(input: &Arc<Input>) -> Result<Archive, FileError> {
        let damaged = |why: String| input.error(0, format!("the directory of the zip archive cannot be read: {why}"));
        let reader = BufReader::new(InputReader::new(input, 0, input.len()));
        let mut zip = ZipArchive::new(reader).map_err(|error| damaged(error.to_string()))?;
        if zip.len() > MEMBERS_MAX {
            return Err(damaged(format!("{} members are more than the {MEMBERS_MAX} that are read", zip.len())));
        }
        if zip.has_duplicate_names() {
            return Err(damaged("two members have one name".to_string()));
        }
        let mut members = Vec::with_capacity(zip.len());
        for at in 0..zip.len() {
            let file = zip.by_index_raw(at).map_err(|error| damaged(error.to_string()))?;
            let start = file.data_start().unwrap_or(input.len());
            let name = file.entry().name().map(|name| name.into_owned()).map_err(|error| damaged(error.to_string()))?;
            let refused = |why: String| Err(input.error(start, format!("the member `{name}` {why}")));
            let entry = file.entry();
            if entry.encrypted() {
                return refused("is encrypted; only plain ones are read".to_string());
            }
            let is_deflated = match entry.compression() {
                CompressionMethod::STORE => false,
                CompressionMethod::DEFLATE => true,
                other => return refused(format!("is packed by {other:?}; it may be stored or deflated")),
            };
            let (packed, bytes) = (entry.compressed_size(), entry.size());
            input.check(start, packed, &format!("the member `{name}`"))?;
            if !is_deflated && packed != bytes {
                return refused(format!("is stored as {packed} bytes and should be {bytes}"));
            }
            if bytes.div_ceil(RATIO_MAX) > packed {
                return refused(format!(
                    "cannot be {bytes} bytes: it is packed in {packed}, one of which makes {RATIO_MAX} at most"
                ));
            }
            members.push(Member { name, at: start, packed, bytes, checksum: entry.crc32(), is_deflated });
        }
        check_apart(input, members.iter().map(|member| (member.at, member.packed, member.name.as_str())).collect())?;
        Ok(Archive { input: input.clone(), members })
    }

    pub(crate) fn member(&self, name: &str) -> Option<&Member> {
        self.members.iter().find(|member| member.name == name)
    }

    /// The first bytes of a member, at most so many.
    pub(crate) fn front(&self, member: &Member, most: u64) -> Result<Vec<u8>, FileError> {
        let mut front = vec![0; member.bytes.min(most) as usize];
        let mut reader = self.reader(member);
        reader
            .read_exact(&mut front)
            .map_err(|error| damaged(&self.input, member, &format!("ends too soon: {error}")))?;
        Ok(front)
    }

    /// All bytes of a member, which is at most so long.
    pub(crate) fn read(&self, member: &Member, most: u64) -> Result<Vec<u8>, FileError> {
        if member.bytes > most {
            let message = format!("is {} bytes; at most {most} are read", member.bytes);
            return Err(damaged(&self.input, member, &message));
        }
        let mut bytes = Vec::with_capacity(member.bytes as usize);
        let all = self.all(member).stream(&mut |piece| {
            bytes.extend_from_slice(piece);
            Ok(())
        });
        match all {
            Ok(()) => Ok(bytes),
            Err(DeviceError::File(error)) => Err(error),
            Err(other) => Err(damaged(&self.input, member, &other.to_string())),
        }
    }

    /// The bytes of a member behind the first `skip`.
    pub(crate) fn source(&self, member: &Member, skip: u64, change: Change) -> Result<Arc<dyn Source>, FileError> {
        if skip > member.bytes {
            return Err(damaged(
                &self.input,
                member,
                &format!("is {} bytes and should have {skip} at least", member.bytes),
            ));
        }
        Ok(Arc::new(MemberPart { skip, change, ..self.all(member) }))
    }

    fn all(&self, member: &Member) -> MemberPart {
        MemberPart { input: self.input.clone(), member: member.clone(), skip: 0, change: Change::None }
    }

    fn reader(&self, member: &Member) -> Box<dyn Read> {
        unpacked(&self.input, member)
    }
}

fn damaged(input: &Input, member: &Member, why: &str) -> FileError {
    input.error(member.at, format!("the member `{}` {why}", member.name))
}

fn unpacked(input: &Arc<Input>, member: &Member) -> Box<dyn Read> {
    let packed = InputReader::new(input, member.at, member.packed);
    if member.is_deflated {
        Box::new(DeflateDecoder::new(BufReader::with_capacity(1 << 16, packed)))
    } else {
        Box::new(packed)
    }
}

/// The end of a member, as a source of memory.
#[derive(Clone, Debug)]
struct MemberPart {
    input: Arc<Input>,
    member: Member,
    skip: u64,
    change: Change,
}

impl MemberPart {
    /// Hands on what is behind the first bytes, and checks length and checksum of all.
    fn stream(&self, take: &mut Take<'_>) -> Result<(), DeviceError> {
        let wrong = |why: &str| DeviceError::File(damaged(&self.input, &self.member, why));
        let mut reader = unpacked(&self.input, &self.member);
        let mut checksum = Crc::new();
        let mut skip = vec![0; self.skip as usize];
        reader.read_exact(&mut skip).map_err(|error| wrong(&format!("ends too soon: {error}")))?;
        checksum.update(&skip);
        let mut piece = vec![0; self.bytes().min(READ_BYTES)];
        let mut left = self.bytes();
        while left > 0 {
            let piece = &mut piece[..left.min(READ_BYTES)];
            reader.read_exact(piece).map_err(|error| {
                wrong(&format!("should be {} bytes and cannot be read so far: {error}", self.member.bytes))
            })?;
            checksum.update(piece);
            self.change.apply(piece);
            take(piece)?;
            left -= piece.len();
        }
        match reader.read(&mut [0]) {
            Ok(0) => {}
            Ok(_) | Err(_) => return Err(wrong(&format!("goes on after its {} bytes", self.member.bytes))),
        }
        if checksum.sum() != self.member.checksum {
            let (found, said) = (checksum.sum(), self.member.checksum);
            return Err(wrong(&format!("is damaged: its checksum is {found:08x} and should be {said:08x}")));
        }
        Ok(())
    }
}

impl Source for MemberPart {
    fn bytes(&self) -> usize {
        (self.member.bytes - self.skip) as usize
    }

    fn read(&self, take: &mut Take<'_>) -> Result<(), DeviceError> {
        self.stream(take)
    }

    /// Of a stored member; the checksum is of the whole, and not looked at then.
    fn part(&self, offset: usize, bytes: usize) -> Option<Arc<dyn Source>> {
        if self.member.is_deflated || offset.checked_add(bytes)? > self.bytes() {
            return None;
        }
        let at = self.member.at + self.skip + offset as u64;
        let part = FilePart::new(&self.input, at, bytes, self.change, "a part of a member");
        part.ok().map(|part| Arc::new(part) as Arc<dyn Source>)
    }

    fn location(&self) -> String {
        format!("{} of {}", self.member.name, self.input.name())
    }
}

/// A range of an input as a reader.
struct InputReader {
    input: Arc<Input>,
    start: u64,
    bytes: u64,
    at: u64,
}

impl InputReader {
    fn new(input: &Arc<Input>, start: u64, bytes: u64) -> InputReader {
        InputReader { input: input.clone(), start, bytes, at: 0 }
    }
}

impl Read for InputReader {
    fn read(&mut self, data: &mut [u8]) -> io::Result<usize> {
        let len = self.bytes.saturating_sub(self.at).min(data.len() as u64) as usize;
        let read = self.input.read_at(self.start + self.at, &mut data[..len], "a part of an archive");
        read.map_err(|error| io::Error::other(error.message))?;
        self.at += len as u64;
        Ok(len)
    }
}

impl Seek for InputReader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.bytes.checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = at.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "an offset before the beginning"))?;
        Ok(self.at)
    }
}
