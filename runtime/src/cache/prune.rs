//! Looking at a cache folder, and taking things out of it: by age of last use, by size, or all; and what caches do of that by themselves.
//!
//! Programs may use the folder meanwhile: a file that is gone is a miss to them, and they make it again. Files that a killed process
//! left half written count as entries of their age.
//!
//! The Python package keeps its graphs in the same folder (`graphs/KEY/...`, written and kept small by its `torch/_warm.py`). They are
//! listed, pruned and cleared here like the compiler's own files, and left alone when a cache tidies itself. Nothing is read from them, so
//! it does not matter who else can write their folders (PyTorch makes these with the bits that `umask` leaves).

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::disk::{HITS_FILE, Kind};
use super::folder::{Folder, mark_used};

/// The extension of what is not written to its end yet.
pub(super) const TEMPORARY: &str = "tmp";
/// No writer takes so long.
const TEMPORARY_LEFT_AFTER: Duration = Duration::from_secs(3600);
/// The file that was written when the folder was tidied last.
const TIDIED_FILE: &str = "tidied";
const TIDIED_AGAIN_AFTER: Duration = Duration::from_secs(3600);
/// A count of hits that is longer than this begins anew.
const HITS_MAX: u64 = 1 << 20;

/// The folder of the graphs that the Python package keeps.
const GRAPHS_FOLDER: &str = "graphs";

/// What an entry of a cache folder is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Content {
    /// What the compiler keeps.
    Kept(Kind),
    /// A graph that the Python package keeps: a folder of files under one key.
    Graph,
    /// A file that a process left half written, or writes at this time.
    Unfinished,
}

/// One file of a cache folder, or the files of one graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Where it is.
    pub path: PathBuf,
    /// What it is.
    pub content: Content,
    /// The length of its files.
    pub bytes: u64,
    /// When it was used last, within a day.
    pub used: SystemTime,
}

/// What is in a cache folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// What is in it, used longest ago first.
    pub entries: Vec<Entry>,
    /// How often something was found in it.
    pub hits: u64,
}

/// What was taken out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Entries.
    pub entries: usize,
    /// Their bytes.
    pub bytes: u64,
}

/// What is in a folder. A folder that is not there is empty; files that are not of a cache are not listed.
///
/// # Errors
/// Whatever the system refuses, and a folder that others than this user can write.
pub fn contents(folder: &Path) -> io::Result<Contents> {
    match Folder::open(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Contents::default()),
        Err(error) => Err(error),
        Ok(open) => all_of(&open, folder),
    }
}

fn all_of(open: &Folder, folder: &Path) -> io::Result<Contents> {
    let mut contents = compilers_of(open, folder)?;
    match open.folder_to_list(GRAPHS_FOLDER) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        found => contents.entries.extend(graphs(&found?, &folder.join(GRAPHS_FOLDER))?),
    }
    sort(&mut contents.entries);
    Ok(contents)
}

fn sort(entries: &mut [Entry]) {
    entries.sort_by(|a, b| a.used.cmp(&b.used).then_with(|| a.path.cmp(&b.path)));
}

/// What the compiler keeps in a folder.
fn compilers_of(open: &Folder, folder: &Path) -> io::Result<Contents> {
    let mut contents = Contents::default();
    for listed in open.list()? {
        if listed.name == HITS_FILE && !listed.is_folder {
            contents.hits = listed.bytes;
        }
        if !listed.is_folder || listed.name.len() != 2 {
            continue;
        }
        for file in open.folder(&listed.name, false)?.list()?.into_iter().filter(|file| !file.is_folder) {
            if let Some(content) = content_of(&file.name) {
                let path = folder.join(&listed.name).join(&file.name);
                contents.entries.push(Entry { path, content, bytes: file.bytes, used: file.modified });
            }
        }
    }
    sort(&mut contents.entries);
    Ok(contents)
}

/// What a file of the compiler's is, by the end of its name; none for what is not a cache's.
fn content_of(name: &str) -> Option<Content> {
    let (_, extension) = name.rsplit_once('.')?;
    let kept = Kind::ALL.into_iter().find(|kind| kind.extension() == extension).map(Content::Kept);
    kept.or_else(|| (extension == TEMPORARY).then_some(Content::Unfinished))
}

/// The graphs of the Python package: a folder for each key, which is marked when it is used.
fn graphs(open: &Folder, folder: &Path) -> io::Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for listed in open.list()?.into_iter().filter(|listed| listed.is_folder) {
        let files = match open.folder_to_list(&listed.name).and_then(|key| key.list()) {
            // Another process removed it meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            files => files?,
        };
        let bytes = files.iter().filter(|file| !file.is_folder).map(|file| file.bytes).sum();
        let path = folder.join(&listed.name);
        entries.push(Entry { path, content: Content::Graph, bytes, used: listed.modified });
    }
    Ok(entries)
}

/// Takes out what was not used for `older_than`, then what was used longest ago until at most `max_bytes` are left.
///
/// # Errors
/// Whatever the system refuses.
pub fn prune(folder: &Path, max_bytes: Option<u64>, older_than: Option<Duration>) -> io::Result<Removed> {
    let open = match Folder::open(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Removed::default()),
        opened => opened?,
    };
    let Contents { entries, .. } = all_of(&open, folder)?;
    let now = SystemTime::now();
    let is_old =
        |entry: &Entry| older_than.is_some_and(|limit| now.duration_since(entry.used).is_ok_and(|age| age > limit));
    remove(&open, &entries, max_bytes, is_old)
}

/// Removes those entries that are old, and the first ones until the rest is small enough.
fn remove(
    open: &Folder,
    entries: &[Entry],
    max_bytes: Option<u64>,
    is_old: impl Fn(&Entry) -> bool,
) -> io::Result<Removed> {
    let mut left: u64 = entries.iter().map(|entry| entry.bytes).sum();
    let mut removed = Removed::default();
    for entry in entries {
        if !is_old(entry) && max_bytes.is_none_or(|limit| left <= limit) {
            continue;
        }
        let name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let parent = name(entry.path.parent().unwrap_or(Path::new("")));
        let removed_one = match entry.content {
            Content::Graph => open.folder_to_list(&parent).and_then(|graphs| remove_graph(&graphs, &name(&entry.path))),
            Content::Kept(_) | Content::Unfinished => {
                open.folder(&parent, false).and_then(|shard| shard.remove(&name(&entry.path)))
            }
        };
        match removed_one {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        left -= entry.bytes;
        removed = Removed { entries: removed.entries + 1, bytes: removed.bytes + entry.bytes };
    }
    Ok(removed)
}

/// Removes the files of a graph and their folder. A folder that holds more than files is left with that.
fn remove_graph(graphs: &Folder, name: &str) -> io::Result<()> {
    let key = graphs.folder_to_list(name)?;
    for file in key.list()?.into_iter().filter(|file| !file.is_folder) {
        match key.remove(&file.name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    match graphs.remove_folder(name) {
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
        removed => removed,
    }
}

/// Keeps a folder small, for those who write to it: temporaries that a killed process left, and what was used longest ago until three
/// quarters of `max_bytes` are left, if there was more. A long count of hits begins anew. `unless_done` leaves it if somebody did this in the last hour.
pub(super) fn tidy(folder: &Path, max_bytes: u64, unless_done: bool) -> io::Result<Removed> {
    let open = Folder::open(folder)?;
    let now = SystemTime::now();
    let age = |since: SystemTime| now.duration_since(since).unwrap_or_default();
    let done = open.read(TIDIED_FILE).and_then(|file| file.metadata()?.modified());
    if unless_done && done.is_ok_and(|done| age(done) < TIDIED_AGAIN_AFTER) {
        return Ok(Removed::default());
    }
    mark_used(&open.append(TIDIED_FILE)?)?;
    let Contents { entries, hits } = compilers_of(&open, folder)?;
    if hits > HITS_MAX {
        open.remove(HITS_FILE)?;
    }
    let is_left = |entry: &Entry| entry.content == Content::Unfinished && age(entry.used) > TEMPORARY_LEFT_AFTER;
    // What somebody writes at this time is left to them.
    let is_done = |entry: &Entry| entry.content != Content::Unfinished || is_left(entry);
    let entries: Vec<Entry> = entries.into_iter().filter(is_done).collect();
    let is_full = entries.iter().map(|entry| entry.bytes).sum::<u64>() > max_bytes;
    remove(&open, &entries, is_full.then_some(max_bytes / 4 * 3), is_left)
}

/// Takes out everything, the count of hits too.
///
/// # Errors
/// Whatever the system refuses.
pub fn clear(folder: &Path) -> io::Result<Removed> {
    let removed = prune(folder, Some(0), None)?;
    match Folder::open(folder).and_then(|folder| folder.remove(HITS_FILE)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(removed),
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
        // A link in place of a folder leads nowhere.
        #[cfg(unix)]
        {
            let outside = tempfile::tempdir().unwrap();
            std::fs::write(outside.path().join("theirs.kernel"), b"not ours").unwrap();
            std::os::unix::fs::symlink(outside.path(), folder.path().join("zz")).unwrap();
            assert_eq!(contents(folder.path()).unwrap().entries.len(), 5);
            clear(folder.path()).unwrap();
            assert!(outside.path().join("theirs.kernel").exists());
        }
        clear(folder.path()).unwrap();
        assert_eq!(contents(folder.path()).unwrap(), Contents::default());
        assert!(folder.path().join("notes.txt").exists());
        assert_eq!(contents(&folder.path().join("nowhere")).unwrap(), Contents::default());
    }

    #[test]
    fn graphs_of_the_python_package_are_listed_pruned_and_cleared() {
        let outside = tempfile::tempdir().unwrap();
        let folder = outside.path().join("cache");
        let cache = DiskCache::new(Some(folder.clone()));
        cache.put(&Key::new(Kind::Kernel, *blake3::hash(b"kernel").as_bytes()), &[1; 1000]);
        let graphs = folder.join("graphs");
        for (key, files) in [("wa", 2), ("wb", 1)] {
            std::fs::create_dir_all(graphs.join(key)).unwrap();
            (0..files).for_each(|k| std::fs::write(graphs.join(key).join(k.to_string()), [7; 500]).unwrap());
        }
        // Who belongs to the group may write there where `umask` is 002.
        #[cfg(unix)]
        for shared in ["", "wa"] {
            use std::os::unix::fs::PermissionsExt;
            std::fs::set_permissions(graphs.join(shared), std::fs::Permissions::from_mode(0o775)).unwrap();
        }
        let day = Duration::from_secs(86_400);
        std::fs::File::open(graphs.join("wb")).unwrap().set_modified(SystemTime::now() - day * 9).unwrap();
        let of = |contents: &Contents| {
            let graphs = contents.entries.iter().filter(|entry| entry.content == Content::Graph);
            (graphs.map(|entry| entry.bytes).collect::<Vec<_>>(), contents.entries.len())
        };
        assert_eq!(of(&contents(&folder).unwrap()), (vec![500, 1000], 3));
        assert_eq!(prune(&folder, None, Some(day * 8)).unwrap(), Removed { entries: 1, bytes: 500 });
        assert!(!graphs.join("wb").exists() && graphs.join("wa").join("1").exists());
        // The compiler leaves them when it keeps its own files small.
        tidy(&folder, 1, false).unwrap();
        assert_eq!(of(&contents(&folder).unwrap()), (vec![1000], 1));
        assert_eq!(clear(&folder).unwrap(), Removed { entries: 1, bytes: 1000 });
        assert!(graphs.exists() && !graphs.join("wa").exists());
    }

    #[test]
    fn tidying_takes_what_was_left_and_what_is_too_much() {
        let folder = tempfile::tempdir().unwrap();
        let cache = DiskCache::new(Some(folder.path().to_path_buf()));
        let put = |k: u8| cache.put(&Key::new(Kind::Kernel, *blake3::hash(&[k]).as_bytes()), &[k; 1000]);
        (0..8).for_each(put);
        let old = SystemTime::now() - Duration::from_secs(7200);
        let shard = contents(folder.path()).unwrap().entries[0].path.parent().unwrap().to_path_buf();
        for (name, time) in [("left.1-0.tmp", old), ("young.2-0.tmp", SystemTime::now())] {
            std::fs::File::create(shard.join(name)).unwrap().set_modified(time).unwrap();
        }
        std::fs::write(folder.path().join(HITS_FILE), vec![b'.'; HITS_MAX as usize + 1]).unwrap();
        // The first entry of a cache has it tidied, so this was done within the hour.
        assert_eq!(tidy(folder.path(), 4000, true).unwrap(), Removed::default());
        assert_eq!(tidy(folder.path(), 1 << 20, false).unwrap(), Removed { entries: 1, bytes: 0 });
        let of = |contents: &Contents| (contents.entries.len(), contents.hits);
        assert_eq!(of(&contents(folder.path()).unwrap()), (9, 0));
        let bytes = contents(folder.path()).unwrap().entries[0].bytes;
        assert!(tidy(folder.path(), 4 * bytes, false).unwrap().bytes == 5 * bytes);
        let marked = std::fs::File::create(folder.path().join(TIDIED_FILE)).unwrap();
        marked.set_modified(old).unwrap();
        assert!(tidy(folder.path(), 2 * bytes, true).unwrap().bytes == 2 * bytes);
        assert!(shard.join("young.2-0.tmp").exists());
    }
}
