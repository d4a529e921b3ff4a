//! Looking at a cache folder from outside, and taking things out of it: by age of last use, by size, or all.
//!
//! Programs may use the folder meanwhile: a file that is gone is a miss to them, and they make it again. Files that a killed process
//! left half written count as entries of their age.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::disk::{HITS_FILE, Kind};

/// One file of a cache folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Where it is.
    pub path: PathBuf,
    /// What it is; none for what was left half written.
    pub kind: Option<Kind>,
    /// Its length.
    pub bytes: u64,
    /// When it was used last, within a day.
    pub used: SystemTime,
}

/// What is in a cache folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// The files, used longest ago first.
    pub entries: Vec<Entry>,
    /// How often something was found in it.
    pub hits: u64,
}

/// What was taken out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Files.
    pub entries: usize,
    /// Their bytes.
    pub bytes: u64,
}

/// What is in a folder. A folder that is not there is empty; files that are not of a cache are not listed.
///
/// # Errors
/// Whatever the system refuses.
pub fn contents(folder: &Path) -> io::Result<Contents> {
    let mut contents = Contents::default();
    for shard in list(folder)? {
        let is_shard = shard.file_name().is_some_and(|name| name.len() == 2);
        for path in if is_shard && shard.is_dir() { list(&shard)? } else { Vec::new() } {
            let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
            let kind = Kind::ALL.into_iter().find(|kind| kind.extension() == extension);
            if kind.is_none() && extension != "tmp" {
                continue;
            }
            // What another process removed meanwhile is not there.
            let Ok(metadata) = path.metadata() else { continue };
            contents.entries.push(Entry { path, kind, bytes: metadata.len(), used: metadata.modified()? });
        }
    }
    contents.entries.sort_by(|a, b| a.used.cmp(&b.used).then_with(|| a.path.cmp(&b.path)));
    contents.hits = std::fs::metadata(folder.join(HITS_FILE)).map_or(0, |metadata| metadata.len());
    Ok(contents)
}

/// Takes out what was not used for `older_than`, then what was used longest ago until at most `max_bytes` are left.
///
/// # Errors
/// Whatever the system refuses.
pub fn prune(folder: &Path, max_bytes: Option<u64>, older_than: Option<Duration>) -> io::Result<Removed> {
    let Contents { entries, .. } = contents(folder)?;
    let now = SystemTime::now();
    let mut left: u64 = entries.iter().map(|entry| entry.bytes).sum();
    let mut removed = Removed::default();
    for entry in &entries {
        let age = now.duration_since(entry.used).unwrap_or_default();
        let is_old = older_than.is_some_and(|limit| age > limit);
        if is_old || max_bytes.is_some_and(|limit| left > limit) {
            match std::fs::remove_file(&entry.path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            left -= entry.bytes;
            removed = Removed { entries: removed.entries + 1, bytes: removed.bytes + entry.bytes };
        }
    }
    Ok(removed)
}

/// Takes out everything, the count of hits too.
///
/// # Errors
/// Whatever the system refuses.
pub fn clear(folder: &Path) -> io::Result<Removed> {
    let removed = prune(folder, Some(0), None)?;
    match std::fs::remove_file(folder.join(HITS_FILE)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(removed),
    }
}

fn list(folder: &Path) -> io::Result<Vec<PathBuf>> {
    match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
        Ok(entries) => entries.map(|entry| entry.map(|entry| entry.path())).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::disk::{DiskCache, Key};
    use super::*;

    #[test]
    fn old_entries_go_first_and_the_size_holds() {
        let folder = tempfile::tempdir().unwrap();
        let cache = DiskCache::new(Some(folder.path().to_path_buf()));
        let day = Duration::from_secs(86_400);
        for k in 0..10u8 {
            let kind = if k % 2 == 0 { Kind::Kernel } else { Kind::Schedule };
            cache.put(&Key::new(kind, *blake3::hash(&[k]).as_bytes()), &[k; 1000]);
        }
        cache.count_hits(4);
        std::fs::write(folder.path().join("notes.txt"), b"not ours").unwrap();
        let all = contents(folder.path()).unwrap();
        assert_eq!((all.entries.len(), all.hits), (10, 4));
        // The k-th entry was used k days ago.
        for (k, entry) in all.entries.iter().enumerate() {
            let file = std::fs::OpenOptions::new().append(true).open(&entry.path).unwrap();
            file.set_modified(SystemTime::now() - day * k as u32).unwrap();
        }
        let bytes = all.entries[0].bytes;
        assert_eq!(prune(folder.path(), None, Some(day * 15 / 2)).unwrap(), Removed { entries: 2, bytes: 2 * bytes });
        assert_eq!(prune(folder.path(), Some(5 * bytes), None).unwrap(), Removed { entries: 3, bytes: 3 * bytes });
        assert_eq!(prune(folder.path(), Some(5 * bytes), Some(day * 20)).unwrap(), Removed::default());
        let left: Vec<PathBuf> = contents(folder.path()).unwrap().entries.into_iter().map(|entry| entry.path).collect();
        let mut newest: Vec<PathBuf> = all.entries[..5].iter().map(|entry| entry.path.clone()).collect();
        newest.reverse();
        assert_eq!(left, newest);
        clear(folder.path()).unwrap();
        assert_eq!(contents(folder.path()).unwrap(), Contents::default());
        assert!(folder.path().join("notes.txt").exists());
        assert_eq!(contents(&folder.path().join("nowhere")).unwrap(), Contents::default());
    }
}
