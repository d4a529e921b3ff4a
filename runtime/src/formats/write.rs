//! Files that are there whole or not at all: written beside their final path and renamed.

use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use warpweft_devices::FileError;

use crate::tensor::{Error, Result};

/// Has `write` make a file at the path that it is given, which takes the place of the file at `path` once it is on the disk. Who has the
/// old one open still has it; if anything fails, it stays. A link stays, and its file is replaced; what is no file stays as it is.
pub(crate) fn replace_by(path: &Path, write: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let target = match fs::metadata(path) {
        Ok(there) if there.is_file() => fs::canonicalize(path).map_err(failed(path))?,
        Ok(_) => return Err(failed(path)(std::io::Error::other("it is no regular file; name a file"))),
        Err(_) => path.to_path_buf(), // nothing is there, or writing beside it says what is wrong
    };
    let beside = beside(&target);
    let written = write(&beside).and_then(|()| {
        let file = File::open(&beside).map_err(failed(path))?;
        file.sync_all().map_err(failed(path))?;
        fs::rename(&beside, &target).map_err(failed(path))
    });
    if written.is_err() {
        let _ = fs::remove_file(&beside); // the error is what counts
    }
    written
}

/// As [`replace_by`], with a new file that is open.
pub(crate) fn replace(path: &Path, write: impl FnOnce(&mut BufWriter<File>) -> Result<()>) -> Result<()> {
    replace_by(path, |beside| {
        let file = OpenOptions::new().write(true).read(true).create_new(true).open(beside).map_err(failed(path))?;
        let mut writer = BufWriter::with_capacity(1 << 20, file);
        write(&mut writer)?;
        writer.flush().map_err(failed(path))
    })
}

/// A name in the same folder that nobody else takes.
fn beside(path: &Path) -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{}.{}.part", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)))
}

/// What an error of writing is as an error of tensors.
pub(crate) fn failed(path: &Path) -> impl Fn(std::io::Error) -> Error + use<> {
    let file = path.display().to_string();
    move |error| FileError { file: file.clone(), offset: 0, message: format!("cannot be written: {error}") }.into()
}
