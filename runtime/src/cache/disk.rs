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
//! Not here: the environment (the folder is given), what payloads are (`entries`), pruning (`prune`). Tested at the end of this file.

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
        let (shard, name) = place(key);
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
fn place(key: &Key) -> (String, String) {
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
    let (shard, name) = place(key);
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
mod tests {
    use std::fs::{self, OpenOptions};
    use std::sync::{Arc, Mutex};
    use std::time::SystemTime;

    use super::*;

    fn entry_path(folder: &Path, key: &Key) -> PathBuf {
        let (shard, name) = place(key);
        folder.join(shard).join(name)
    }

    fn key(name: &str) -> Key {
        Key::new(Kind::Kernel, *blake3::hash(name.as_bytes()).as_bytes())
    }

    /// A cache in `folder` and the warnings that it gives.
    fn cache(folder: &Path) -> (DiskCache, Arc<Mutex<Vec<String>>>) {
        let warnings = Arc::new(Mutex::new(Vec::new()));
        let sink = warnings.clone();
        let warn = Box::new(move |message: &str| sink.lock().unwrap().push(message.to_string()));
        (DiskCache::with_warnings(Some(folder.to_path_buf()), warn), warnings)
    }

    fn files(folder: &Path) -> Vec<PathBuf> {
        let folders = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
        let mut files: Vec<PathBuf> =
            folders.flat_map(|shard| fs::read_dir(shard).unwrap().map(|entry| entry.unwrap().path())).collect();
        files.sort();
        files
    }

    #[test]
    fn what_was_put_is_found_by_another_process() {
        let folder = tempfile::tempdir().unwrap();
        let object: Vec<u8> = (0..=255).collect();
        let (first, _) = cache(folder.path());
        assert_eq!(first.get(&key("a")), None);
        first.put(&key("a"), &object);
        first.put(&key("empty"), &[]);
        let (second, warnings) = cache(folder.path());
        assert_eq!(second.get(&key("a")), Some(object));
        assert_eq!(second.get(&key("empty")), Some(Vec::new()));
        assert_eq!(second.get(&key("b")), None);
        assert_eq!(first.stats(), DiskStats { misses: 1, stored: 2, ..DiskStats::default() });
        assert_eq!(second.stats(), DiskStats { hits: 2, misses: 1, ..DiskStats::default() });
        assert!(warnings.lock().unwrap().is_empty());
    }

    #[test]
    fn a_flipped_bit_in_any_byte_and_any_cut_is_a_miss_that_heals() {
        let folder = tempfile::tempdir().unwrap();
        let (cache, warnings) = cache(folder.path());
        let object = b"the object of a kernel".to_vec();
        cache.put(&key("a"), &object);
        let path = files(folder.path()).remove(0);
        let whole = fs::read(&path).unwrap();
        let mut damages = 0;
        let mut check = |damaged: &[u8]| {
            fs::write(&path, damaged).unwrap();
            assert_eq!(cache.get(&key("a")), None);
            assert!(!path.exists(), "a damaged file is removed");
            damages += 1;
            cache.put(&key("a"), &object);
            assert_eq!(cache.get(&key("a")).as_deref(), Some(&object[..]));
        };
        for byte in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[byte] ^= 1 << (byte % 8);
            check(&damaged);
        }
        for len in 0..whole.len() {
            check(&whole[..len]);
        }
        check(&[&whole[..], b"x"].concat());
        let stats = cache.stats();
        assert_eq!((stats.damaged, stats.misses, stats.hits, stats.refused), (damages, damages, damages, 0));
        assert!(warnings.lock().unwrap().is_empty());
    }

    #[test]
    fn an_entry_of_another_key_is_not_believed() {
        let folder = tempfile::tempdir().unwrap();
        let (cache, _) = cache(folder.path());
        cache.put(&key("a"), b"object of a");
        // Nor one of another kind, though its hash is the same.
        assert_eq!(cache.get(&Key::new(Kind::Schedule, *key("a").hash())), None);
        let target = entry_path(folder.path(), &key("b"));
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::copy(entry_path(folder.path(), &key("a")), &target).unwrap();
        assert_eq!(cache.get(&key("b")), None);
        assert_eq!(cache.get(&key("a")).as_deref(), Some(&b"object of a"[..]));
    }

    #[test]
    fn a_folder_that_cannot_be_written_costs_one_warning() {
        // A file where the folder should be: refused to everybody, the superuser among them.
        let folder = tempfile::tempdir().unwrap();
        let blocked = folder.path().join("blocked");
        fs::write(&blocked, b"in the way").unwrap();
        let (cache, warnings) = cache(&blocked);
        for source in ["a", "b", "c"] {
            cache.put(&key(source), b"object");
            assert_eq!(cache.get(&key(source)), None);
        }
        assert_eq!((cache.stats().stored, cache.stats().misses), (0, 3));
        assert!(cache.stats().refused >= 3);
        let warnings = warnings.lock().unwrap();
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].contains("blocked") && warnings[0].contains("work goes on"), "{warnings:?}");
    }

    #[cfg(unix)]
    #[test]
    fn a_read_only_folder_serves_what_it_has() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let (cache, warnings) = cache(folder.path());
        cache.put(&key("a"), b"object");
        let shard = files(folder.path()).remove(0).parent().unwrap().to_path_buf();
        for path in [folder.path(), &shard] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o555)).unwrap();
        }
        let superuser = fs::write(folder.path().join("probe"), b"").is_ok(); // permissions do not hold it back
        cache.put(&key("b"), b"object of b");
        assert_eq!(cache.get(&key("a")).as_deref(), Some(&b"object"[..]));
        assert_eq!(cache.get(&key("b")).is_some(), superuser);
        assert_eq!(warnings.lock().unwrap().len(), usize::from(!superuser));
        for path in [folder.path(), &shard] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        }
    }

    #[cfg(unix)]
    #[test]
    fn what_others_can_write_is_not_believed_and_costs_one_warning() {
        use std::os::unix::fs::PermissionsExt;
        let outside = tempfile::tempdir().unwrap();
        let folder = outside.path().join("cache");
        let chmod = |path: &Path, bits| fs::set_permissions(path, fs::Permissions::from_mode(bits)).unwrap();
        let filled = cache(&folder).0;
        filled.put(&key("a"), b"object");
        filled.count_hits(1);
        let file = entry_path(&folder, &key("a"));
        let shard = file.parent().unwrap();
        let modes = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((modes(&folder), modes(shard), modes(&file)), (0o700, 0o700, 0o600));
        for (path, good, bad) in [(&*folder, 0o700, 0o777), (shard, 0o700, 0o770), (&*file, 0o600, 0o666)] {
            chmod(path, bad);
            let (cache, warnings) = cache(&folder);
            assert_eq!((cache.get(&key("a")), cache.get(&key("a"))), (None, None), "{}", path.display());
            assert_eq!(warnings.lock().unwrap().len(), 1);
            assert!(warnings.lock().unwrap()[0].contains("others than its owner can write it"));
            cache.count_hits(1);
            chmod(path, good);
            assert_eq!(cache.get(&key("a")).as_deref(), Some(&b"object"[..]));
        }
        // Nothing was added while the folder could be written by all.
        assert_eq!(fs::metadata(folder.join(HITS_FILE)).unwrap().len(), 3);
        // A link where the folder, an entry or the count should be is not followed.
        let link = outside.path().join("link");
        std::os::unix::fs::symlink(&folder, &link).unwrap();
        let (linked, warnings) = cache(&link);
        assert_eq!(linked.get(&key("a")), None);
        linked.put(&key("b"), b"object");
        assert_eq!((warnings.lock().unwrap().len(), files(&folder).len()), (1, 1));
        fs::rename(&file, outside.path().join("moved")).unwrap();
        std::os::unix::fs::symlink(outside.path().join("moved"), &file).unwrap();
        assert_eq!(filled.get(&key("a")), None);
    }

    #[test]
    fn a_folder_is_kept_small_by_those_who_write_to_it() {
        let folder = tempfile::tempdir().unwrap();
        let cache = cache(folder.path()).0.with_bytes_max(100_000);
        for number in 0..60 {
            cache.put(&key(&number.to_string()), &[7; 10_000]);
        }
        let bytes: u64 = files(folder.path()).iter().map(|path| path.metadata().unwrap().len()).sum();
        assert!((60_000..=130_000).contains(&bytes), "{bytes}");
    }

    #[test]
    fn writers_at_once_leave_whole_files_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let caches = [cache(folder.path()).0, cache(folder.path()).0];
        let object = |source: usize| vec![source as u8; 50_000];
        std::thread::scope(|scope| {
            for cache in &caches {
                for _ in 0..2 {
                    scope.spawn(move || {
                        for round in 0..40 {
                            let source = round % 5;
                            cache.put(&key(&source.to_string()), &object(source));
                            assert_eq!(cache.get(&key(&source.to_string())), Some(object(source)));
                        }
                    });
                }
            }
        });
        assert_eq!(files(folder.path()).len(), 5);
        assert_eq!(caches[0].stats().damaged + caches[1].stats().damaged, 0);
    }

    #[test]
    fn use_is_marked_and_counted() {
        let folder = tempfile::tempdir().unwrap();
        let (cache, _) = cache(folder.path());
        cache.put(&key("a"), b"object");
        let path = files(folder.path()).remove(0);
        let age = || path.metadata().unwrap().modified().unwrap().elapsed().unwrap();
        let old = |days: u64| {
            let file = OpenOptions::new().append(true).open(&path).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(days * 86_400 + 3600)).unwrap();
        };
        old(40);
        assert!(age() > 39 * USE_MARKED_AFTER);
        assert!(cache.get(&key("a")).is_some());
        assert!(age() < USE_MARKED_AFTER);
        cache.count_hits(3);
        cache.count_hits(2);
        assert_eq!(fs::metadata(folder.path().join(HITS_FILE)).unwrap().len(), 5);
    }

    #[test]
    fn without_a_folder_nothing_is_kept() {
        let cache = DiskCache::new(None);
        cache.put(&key("a"), b"object");
        assert_eq!(cache.get(&key("a")), None);
        assert_eq!(cache.stats(), DiskStats { misses: 1, ..DiskStats::default() });
    }
}
