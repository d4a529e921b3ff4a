//! A folder of files found again by what they were made of: kernels and schedules.
//!
//! The key of an entry is a BLAKE3 hash of everything that it depends on (see `keys`). So an entry never becomes stale; another
//! version looks for other keys. A file is
//!
//! ```text
//!   magic 8 | key 32 | payload length 8 | BLAKE3 of payload 32 | payload          in folder/ab/abcd...64 hex digits.kernel
//! ```
//!
//! Always: what [`DiskCache::get`] returns are the very bytes that were put under this key; a file that is damaged, cut or
//! of another key is removed and counts as a miss. A file appears under its name whole, by renaming, so that any number of
//! processes may use one folder. Whatever the disk refuses costs one warning and the gain of the cache, nothing else. What somebody else
//! could have written counts as refused (`folder`): kernels are code that this process runs.
//!
//! A cache is kept small by those who write to it: about once an hour, and after each `TIDIED_AFTER` bytes of a process, what was used longest
//! ago is taken out until at most [`BYTES_MAX`] are left (`prune::tidy`).
//!
//! A file that is used a day after its last use or later is marked as used, so that pruning by age leaves it. How many entries were found
//! is kept as the length of a file, which grows by a byte for each: appending is atomic, so processes need not agree.
//!
//! Not here: the environment (the folder is given), what payloads are (`entries`), pruning (`prune`). Tested in `disk/tests.rs`.

use std::fmt::{self, Debug};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::folder::{Folder, check_growth, mark_used};
use super::prune;
use crate::debug::print_unheard;

const MAGIC: &[u8; 8] = b"WWCACHE\x04";
const HEADER_BYTES: usize = 8 + 32 + 8 + 32;
/// No entry is so large; a file that is, is not ours.
const FILE_BYTES_MAX: u64 = 1 << 30;
/// The file whose length is the number of entries found.
pub(crate) const HITS_FILE: &str = "hits";
/// A file's time of use is as old as this at most while it is used.
const USE_MARKED_AFTER: Duration = Duration::from_secs(24 * 3600);

/// Bytes of a folder that are left when it is tidied.
pub const BYTES_MAX: u64 = 1 << 30;
/// Bytes that a process writes until it tidies again.
const TIDIED_AFTER: u64 = 64 << 20;

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A compiled kernel.
    Kernel,
    /// The kernels of a program.
    Schedule,
    /// A list of opts that a search found.
    Opts,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 3] = [Kind::Kernel, Kind::Schedule, Kind::Opts];

    /// The extension of its files.
    pub fn extension(self) -> &'static str {
        match self {
            Kind::Kernel => "kernel",
            Kind::Schedule => "schedule",
            Kind::Opts => "opts",
        }
    }
}

/// What identifies an entry.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    kind: Kind,
    hash: [u8; 32],
}

impl Key {
    /// The key of an entry that depends on what was hashed.
    pub(crate) fn new(kind: Kind, hash: [u8; 32]) -> Key {
        Key { kind, hash }
    }

    /// Its hash.
    pub(crate) fn hash(&self) -> &[u8; 32] {
        &self.hash
    }

    fn hex(&self) -> String {
        blake3::Hash::from_bytes(self.hash).to_hex().to_string()
    }
}

impl Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({} {})", self.kind.extension(), &self.hex()[..16])
    }
}

/// What a cache has done since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskStats {
    /// Entries found.
    pub hits: u64,
    /// Entries not found, damaged ones among them.
    pub misses: u64,
    /// Entries stored.
    pub stored: u64,
    /// Files that were damaged, and removed.
    pub damaged: u64,
    /// Reads and writes that the system refused.
    pub refused: u64,
}

type Warn = Box<dyn Fn(&str) + Send + Sync>;

/// A folder of entries.
pub struct DiskCache {
    /// None when nothing is to be kept.
    folder: Option<PathBuf>,
    bytes_max: u64,
    /// Bytes written since this process tidied the folder; so many at first that the first entry makes it look.
    untidied: AtomicU64,
    warn: Warn,
    warned: AtomicBool,
    hits: AtomicU64,
    misses: AtomicU64,
    stored: AtomicU64,
    damaged: AtomicU64,
    refused: AtomicU64,
}

impl Debug for DiskCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DiskCache").field("folder", &self.folder).field("stats", &self.stats()).finish()
    }
}

impl DiskCache {
    /// A cache in this folder, which need not exist yet; none keeps nothing. Warnings go to `tracing`.
    pub fn new(folder: Option<PathBuf>) -> DiskCache {
        let warn = |message: &str| {
            tracing::warn!("{message}");
            print_unheard(&message);
        };
        DiskCache::with_warnings(folder, Box::new(warn))
    }

    /// A cache whose warnings go to `warn`: at most one in its life.
    pub fn with_warnings(folder: Option<PathBuf>, warn: Warn) -> DiskCache {
        DiskCache {
            folder,
            bytes_max: BYTES_MAX,
            untidied: AtomicU64::new(TIDIED_AFTER),
            warn,
            warned: AtomicBool::new(false),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            stored: AtomicU64::new(0),
            damaged: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        }
    }

    /// The same, which keeps at most about so many bytes.
    pub fn with_bytes_max(self, bytes_max: u64) -> DiskCache {
        DiskCache { bytes_max, ..self }
    }

    /// Where the entries are.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// The counters as they are now.
    pub fn stats(&self) -> DiskStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        DiskStats {
            hits: read(&self.hits),
            misses: read(&self.misses),
            stored: read(&self.stored),
            damaged: read(&self.damaged),
            refused: read(&self.refused),
        }
    }

    /// The payload of this key, if it is there and whole.
    pub fn get(&self, key: &Key) -> Option<Vec<u8>> {
        let found = self.folder.as_ref().and_then(|folder| self.read_entry(folder, key));
        let counter = if found.is_some() { &self.hits } else { &self.misses };
        counter.fetch_add(1, Ordering::Relaxed);
        found
    }

    /// Keeps a payload under this key. A disk that refuses costs a warning.
    pub fn put(&self, key: &Key, payload: &[u8]) {
        let Some(folder) = &self.folder else { return };
        match write_entry(folder, key, payload) {
            Ok(bytes) => {
                self.stored.fetch_add(1, Ordering::Relaxed);
                self.tidy_sometimes(folder, bytes);
            }
            Err(error) => self.refused(&format!("nothing can be kept in {}: {error}", folder.display())),
        }
    }

    fn tidy_sometimes(&self, folder: &Path, bytes: u64) {
        let untidied = self.untidied.fetch_add(bytes, Ordering::Relaxed);
        let limit = TIDIED_AFTER.min(self.bytes_max / 4);
        if untidied < limit {
            return;
        }
        let is_first = untidied >= TIDIED_AFTER && self.stored.load(Ordering::Relaxed) == 1;
        self.untidied.store(0, Ordering::Relaxed);
        if let Err(error) = prune::tidy(folder, self.bytes_max, is_first) {
            self.refused(&format!("{} cannot be tidied: {error}", folder.display()));
        }
    }

    fn read_entry(&self, folder: &Path, key: &Key) -> Option<Vec<u8>> {
        let (shard, name) = shard_and_name(key);
        let opened = Folder::open(folder).and_then(|folder| folder.folder(&shard, false));
        let read = opened.and_then(|shard| Ok((read_bounded(&shard, &name)?, shard)));
        let (bytes, shard) = match read {
            Ok((Some(bytes), shard)) => (bytes, shard),
            Ok((None, shard)) => (Vec::new(), shard), // too long for one of ours: damaged
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => {
                self.refused(&format!("nothing is taken from {}: {shard}/{name}: {error}", folder.display()));
                return None;
            }
        };
        let payload = check_entry(&bytes, key).map(<[u8]>::to_vec);
        if payload.is_none() {
            self.damaged.fetch_add(1, Ordering::Relaxed);
            // If it cannot be removed, it is found damaged again.
            let _ = shard.remove(&name);
        }
        payload
    }

    /// Adds to the number of entries that processes found in this folder. Nothing depends on it, so a disk that refuses is not told of.
    pub(crate) fn count_hits(&self, count: usize) {
        if let Some(folder) = &self.folder
            && let Ok(mut file) = Folder::open(folder).and_then(|folder| folder.append(HITS_FILE))
            && let Ok(metadata) = file.metadata()
            && check_growth(metadata.len() + count as u64).is_ok()
        {
            let _ = file.write_all(&vec![b'.'; count]);
        }
    }

    fn refused(&self, message: &str) {
        self.refused.fetch_add(1, Ordering::Relaxed);
        if !self.warned.swap(true, Ordering::Relaxed) {
            (self.warn)(&format!(
                "{message}; work goes on without, a cache folder that can be written makes the next start faster"
            ));
        }
    }
}

/// The folder of an entry in the cache's, and its name there.
fn shard_and_name(key: &Key) -> (String, String) {
    let hex = key.hex();
    (hex[..2].to_string(), format!("{hex}.{}", key.kind.extension()))
}

/// The whole file, unless it is longer than any of ours.
fn read_bounded(shard: &Folder, name: &str) -> io::Result<Option<Vec<u8>>> {
    let file = shard.read(name)?;
    let metadata = file.metadata()?;
    let used = metadata.modified().ok().and_then(|time| time.elapsed().ok());
    if used.is_some_and(|age| age > USE_MARKED_AFTER) {
        // Where the system does not let it be marked, nothing but the mark is lost.
        let _ = mark_used(&file);
    }
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len().min(FILE_BYTES_MAX)).unwrap_or(0));
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= FILE_BYTES_MAX).then_some(bytes))
}

/// The payload of a file, if all that the header says is so.
fn check_entry<'bytes>(bytes: &'bytes [u8], key: &Key) -> Option<&'bytes [u8]> {
    let (magic, rest) = bytes.split_first_chunk::<8>()?;
    let (of_key, rest) = rest.split_first_chunk::<32>()?;
    let (len, rest) = rest.split_first_chunk::<8>()?;
    let (hash, payload) = rest.split_first_chunk::<32>()?;
    let whole = magic == MAGIC
        && *of_key == key.hash
        && u64::from_le_bytes(*len) == payload.len() as u64
        && blake3::hash(payload) == blake3::Hash::from_bytes(*hash);
    whole.then_some(payload)
}

/// Bytes written.
fn write_entry(folder: &Path, key: &Key, payload: &[u8]) -> io::Result<u64> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES + payload.len());
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&key.hash);
    bytes.extend_from_slice(&(payload.len() as u64).to_le_bytes());
    bytes.extend_from_slice(blake3::hash(payload).as_bytes());
    bytes.extend_from_slice(payload);

    check_growth(bytes.len() as u64)?;
    let (shard, name) = shard_and_name(key);
    let shard = Folder::open_or_make(folder)?.folder(&shard, true)?;
    let (mut file, temporary) = make_temporary(&shard, &key.hex())?;
    let written = file.write_all(&bytes).and_then(|()| shard.rename(&temporary, &name));
    if written.is_err() {
        let _ = shard.remove(&temporary); // the error that matters is the one of writing
    }
    written.map(|()| bytes.len() as u64)
}

/// A new file of a name that no other thread or process has.
fn make_temporary(shard: &Folder, name: &str) -> io::Result<(File, String)> {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    loop {
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let temporary = format!("{name}.{}-{number}.tmp", std::process::id());
        match shard.make_file(&temporary) {
            Ok(file) => return Ok((file, temporary)),
            // Left by a process of the same number that was killed, or of another machine: the next number.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests;
