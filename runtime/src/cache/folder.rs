//! Folders and files that nobody but this user can have written: what is in them may be run as code.
//!
//! A [`Folder`] is open, and everything in it is reached from there and not by its path, so that who renames folders above it changes
//! nothing. What is made here can be used by its owner alone.
//!
//! Always: no link is followed; what is opened belongs to this user and can be written by nobody else, by its owner and the
//! bits of its mode, else it is an error that says so; what is opened as a file is one.
//!
//! Folders above the one that is opened are not looked at: who can rename it can put another in its place, but none that belongs to this user.
//! Where there are no such owners and modes (systems other than Unix), every folder is refused. Tested at the end of this file and in `disk`.

#[cfg(unix)]
pub(super) use unix::Folder;

#[cfg(not(unix))]
pub(super) use other::Folder;

/// What is known of a file without opening it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Listed {
    /// Its name.
    pub(super) name: String,
    /// Its length.
    pub(super) bytes: u64,
    /// When it was written or marked last.
    pub(super) modified: std::time::SystemTime,
    /// Whether it is a folder; else it is a file.
    pub(super) is_folder: bool,
}

#[cfg(unix)]
mod unix {
    use std::fs::File;
    use std::io;
    use std::os::fd::OwnedFd;
    use std::path::{Component, Path, PathBuf};
    use std::time::{Duration, SystemTime};

    use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, Timespec, Timestamps, UTIME_OMIT};
    use rustix::io::Errno;

    use super::Listed;

    const OWNERS_FOLDER: Mode = Mode::RWXU;
    const OWNERS_FILE: Mode = Mode::RUSR.union(Mode::WUSR);
    /// Links are not followed, and opening a pipe does not wait for a writer.
    const CAREFUL: OFlags = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

    /// An open folder that nobody else can write.
    #[derive(Debug)]
    pub(in super::super) struct Folder {
        handle: OwnedFd,
    }

    impl Folder {
        /// Opens a folder that is there.
        pub(in super::super) fn open(path: &Path) -> io::Result<Folder> {
            // A slash at the end would follow a link.
            let path: PathBuf = path.components().filter(|part| *part != Component::CurDir).collect();
            Folder::open_at(CWD, &path)
        }

        /// Opens a folder, which is made if it is not there, with all above it.
        pub(in super::super) fn open_or_make(path: &Path) -> io::Result<Folder> {
            match Folder::open(path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                opened => return opened,
            }
            if let Some(above) = path.parent() {
                std::fs::create_dir_all(above)?;
            }
            make(CWD, path)?;
            Folder::open(path)
        }

        /// Opens a folder in this one, which is made if it is not there and it is asked for.
        pub(in super::super) fn folder(&self, name: &str, may_make: bool) -> io::Result<Folder> {
            match Folder::open_at(&self.handle, Path::new(name)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound && may_make => {
                    make(&self.handle, Path::new(name))?;
                    Folder::open_at(&self.handle, Path::new(name))
                }
                opened => opened,
            }
        }

        /// Opens a folder in this one, whoever else can write it: to list what is in it and to remove that, and not to read it.
        pub(in super::super) fn folder_to_list(&self, name: &str) -> io::Result<Folder> {
            Folder::open_unchecked(&self.handle, Path::new(name))
        }

        fn open_at(from: impl rustix::fd::AsFd, path: &Path) -> io::Result<Folder> {
            let folder = Folder::open_unchecked(from, path)?;
            check_owner(&rustix::fs::fstat(&folder.handle)?)?;
            Ok(folder)
        }

        fn open_unchecked(from: impl rustix::fd::AsFd, path: &Path) -> io::Result<Folder> {
            let handle = rustix::fs::openat(from, path, OFlags::RDONLY | OFlags::DIRECTORY | CAREFUL, Mode::empty())?;
            Ok(Folder { handle })
        }

        /// Opens a file to read.
        pub(in super::super) fn read(&self, name: &str) -> io::Result<File> {
            self.file(name, OFlags::RDONLY)
        }

        /// Opens a file to write at its end; it is made if it is not there.
        pub(in super::super) fn append(&self, name: &str) -> io::Result<File> {
            self.file(name, OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE)
        }

        /// Makes a file of a name that nothing has.
        pub(in super::super) fn make_file(&self, name: &str) -> io::Result<File> {
            self.file(name, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL)
        }

        fn file(&self, name: &str, how: OFlags) -> io::Result<File> {
            let handle = rustix::fs::openat(&self.handle, name, how | CAREFUL, OWNERS_FILE)?;
            let stat = rustix::fs::fstat(&handle)?;
            check_owner(&stat)?;
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::RegularFile => Ok(File::from(handle)),
                _ => Err(io::Error::other("it is no file")),
            }
        }

        /// Gives a file of this folder another name; what has that name is replaced.
        pub(in super::super) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
            Ok(rustix::fs::renameat(&self.handle, from, &self.handle, to)?)
        }

        /// Removes a file.
        pub(in super::super) fn remove(&self, name: &str) -> io::Result<()> {
            Ok(rustix::fs::unlinkat(&self.handle, name, AtFlags::empty())?)
        }

        /// Removes a folder that is empty.
        pub(in super::super) fn remove_folder(&self, name: &str) -> io::Result<()> {
            Ok(rustix::fs::unlinkat(&self.handle, name, AtFlags::REMOVEDIR)?)
        }

        /// The files and folders in this one. What is neither, or has no name in Unicode, is left out.
        pub(in super::super) fn list(&self) -> io::Result<Vec<Listed>> {
            let mut listed = Vec::new();
            for entry in Dir::read_from(&self.handle)? {
                let entry = entry?;
                let Ok(name) = entry.file_name().to_str() else { continue };
                // What another process removed meanwhile is not there.
                let Ok(stat) = rustix::fs::statat(&self.handle, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
                let kind = FileType::from_raw_mode(stat.st_mode);
                if matches!(kind, FileType::RegularFile | FileType::Directory) && !matches!(name, "." | "..") {
                    listed.push(Listed {
                        name: name.to_string(),
                        bytes: u64::try_from(stat.st_size).unwrap_or(0),
                        modified: SystemTime::UNIX_EPOCH
                            + Duration::from_secs(u64::try_from(stat.st_mtime).unwrap_or(0)),
                        is_folder: kind == FileType::Directory,
                    });
                }
            }
            Ok(listed)
        }
    }

    /// Whether a file may grow to so many bytes. The system answers a write beyond the limit of the process (`ulimit -f`) by a signal that ends it.
    pub(in super::super) fn check_growth(bytes: u64) -> io::Result<()> {
        match rustix::process::getrlimit(rustix::process::Resource::Fsize).current {
            Some(limit) if bytes > limit => {
                let why = format!("a file of {bytes} bytes, and this process may write {limit} to one (`ulimit -f`)");
                Err(io::Error::new(io::ErrorKind::FileTooLarge, why))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Marks an open file as written now, though it may be open to be read only.
    pub(in super::super) fn mark_used(file: &File) -> io::Result<()> {
        let now = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW };
        let keep = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
        Ok(rustix::fs::futimens(file, &Timestamps { last_access: keep, last_modification: now })?)
    }

    /// Makes a folder for its owner alone. Another process may have been faster.
    fn make(from: impl rustix::fd::AsFd, path: &Path) -> io::Result<()> {
        match rustix::fs::mkdirat(from, path, OWNERS_FOLDER) {
            Err(Errno::EXIST) | Ok(()) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn check_owner(stat: &Stat) -> io::Result<()> {
        let refused = |why: String| Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        let user = rustix::process::geteuid().as_raw();
        if stat.st_uid != user {
            return refused(format!("it belongs to user {} and not to user {user}, who runs this", stat.st_uid));
        }
        if Mode::from_raw_mode(stat.st_mode).intersects(Mode::WGRP | Mode::WOTH) {
            return refused("others than its owner can write it (`chmod -R go-w` if all in it is yours)".to_string());
        }
        Ok(())
    }

    #[cfg(test)]
    mod tests {
        use std::fs;
        use std::os::unix::fs::{PermissionsExt, symlink};

        use super::*;

        fn mode(path: &Path) -> u32 {
            fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
        }

        #[test]
        fn what_is_made_is_its_owners_alone() {
            let outside = tempfile::tempdir().unwrap();
            let path = outside.path().join("above/cache");
            assert_eq!(Folder::open(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
            let folder = Folder::open_or_make(&path).unwrap();
            let inner = folder.folder("ab", true).unwrap();
            inner.make_file("new").unwrap();
            inner.append("hits").unwrap();
            assert_eq!((mode(&path), mode(&path.join("ab"))), (0o700, 0o700));
            assert_eq!((mode(&path.join("ab/new")), mode(&path.join("ab/hits"))), (0o600, 0o600));
            assert!(inner.make_file("new").is_err());
            let names: Vec<_> =
                folder.list().unwrap().into_iter().map(|listed| (listed.name, listed.is_folder)).collect();
            assert_eq!(names, [("ab".to_string(), true)]);
        }

        #[test]
        fn links_pipes_and_what_others_can_write_are_refused() {
            let outside = tempfile::tempdir().unwrap();
            let path = outside.path().join("cache");
            let folder = Folder::open_or_make(&path).unwrap();
            fs::write(path.join("file"), b"bytes").unwrap();
            symlink(path.join("file"), path.join("link")).unwrap();
            symlink(&path, outside.path().join("linked")).unwrap();
            symlink(outside.path().join("elsewhere"), path.join("dangling")).unwrap();
            assert!(folder.read("file").is_ok());
            assert!(folder.read("link").is_err() && folder.append("link").is_err());
            assert!(folder.append("dangling").is_err() && !outside.path().join("elsewhere").exists());
            assert!(Folder::open(&outside.path().join("linked")).is_err());
            assert!(Folder::open(&outside.path().join("linked/")).is_err());
            assert!(Folder::open(&outside.path().join("linked/.")).is_err());
            assert!(folder.read(".").is_err());
            for (name, bits) in [("file", 0o664), ("file", 0o646)] {
                fs::set_permissions(path.join(name), fs::Permissions::from_mode(bits)).unwrap();
                let error = folder.read(name).unwrap_err();
                assert!(error.to_string().contains("can write it"), "{error}");
            }
            for bits in [0o770, 0o702] {
                fs::set_permissions(&path, fs::Permissions::from_mode(bits)).unwrap();
                let error = Folder::open(&path).unwrap_err();
                assert!(error.to_string().contains("can write it"), "{error}");
            }
        }

        #[test]
        fn what_belongs_to_somebody_else_is_refused() {
            // The root of the file system is not the user's, or the user may give things away.
            let (path, _kept) = if rustix::process::geteuid().is_root() {
                let outside = tempfile::tempdir().unwrap();
                std::os::unix::fs::chown(outside.path(), Some(12345), None).unwrap();
                (outside.path().to_path_buf(), Some(outside))
            } else {
                (PathBuf::from("/"), None)
            };
            let error = Folder::open(&path).unwrap_err();
            assert!(error.to_string().contains("belongs to user"), "{error}");
        }
    }
}

#[cfg(unix)]
pub(super) use unix::{check_growth, mark_used};

/// Without owners and modes there is no folder.
#[cfg(not(unix))]
mod other {
    use std::fs::File;
    use std::io;
    use std::path::Path;

    use super::Listed;

    #[derive(Debug)]
    pub(in super::super) enum Folder {}

    impl Folder {
        pub(in super::super) fn open(_path: &Path) -> io::Result<Folder> {
            Err(io::Error::new(io::ErrorKind::Unsupported, "this system does not say who can write a folder"))
        }

        pub(in super::super) fn open_or_make(path: &Path) -> io::Result<Folder> {
            Folder::open(path)
        }

        pub(in super::super) fn folder(&self, _name: &str, _may_make: bool) -> io::Result<Folder> {
            match *self {}
        }

        pub(in super::super) fn read(&self, _name: &str) -> io::Result<File> {
            match *self {}
        }

        pub(in super::super) fn append(&self, _name: &str) -> io::Result<File> {
            match *self {}
        }

        pub(in super::super) fn make_file(&self, _name: &str) -> io::Result<File> {
            match *self {}
        }

        pub(in super::super) fn rename(&self, _from: &str, _to: &str) -> io::Result<()> {
            match *self {}
        }

        pub(in super::super) fn remove(&self, _name: &str) -> io::Result<()> {
            match *self {}
        }

        pub(in super::super) fn folder_to_list(&self, _name: &str) -> io::Result<Folder> {
            match *self {}
        }

        pub(in super::super) fn remove_folder(&self, _name: &str) -> io::Result<()> {
            match *self {}
        }

        pub(in super::super) fn list(&self) -> io::Result<Vec<Listed>> {
            match *self {}
        }
    }

    pub(in super::super) fn check_growth(_bytes: u64) -> io::Result<()> {
        Ok(())
    }

    pub(in super::super) fn mark_used(_file: &File) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(not(unix))]
pub(super) use other::{check_growth, mark_used};
