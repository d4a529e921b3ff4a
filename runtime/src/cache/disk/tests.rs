//! The cache on disk: damage, other users, full and read-only folders, and several processes at once.

use std::fs::{self, OpenOptions};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use super::*;

fn entry_path(folder: &Path, key: &Key) -> PathBuf {
    let (shard, name) = shard_and_name(key);
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
