//! Gives the runtime a fingerprint of the sources that decide what kernels become, so that what one build kept on disk is never
//! taken by another. Outside of the workspace, where those sources do not change under a version, the version is the fingerprint.

#![allow(clippy::print_stdout, reason = "this is how a build script answers")]

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};

fn main() -> std::io::Result<()> {
    let mut hasher = DefaultHasher::new();
    env!("CARGO_PKG_VERSION").hash(&mut hasher);
    for folder in ["../compiler/src", "../renderer/src", "../devices/src", "src/cache", "src/execute"] {
        println!("cargo:rerun-if-changed={folder}");
        let mut files = Vec::new();
        list(Path::new(folder), &mut files)?;
        files.sort();
        for file in files {
            file.to_string_lossy().hash(&mut hasher);
            std::fs::read(&file)?.hash(&mut hasher);
        }
    }
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-env=WARPWEFT_BUILD={:016x}", hasher.finish());
    Ok(())
}

/// All files below a folder; none if there is no such folder.
fn list(folder: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        if !folder.is_dir() {
            continue;
        }
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files.push(path);
            }
        }
    }
    Ok(())
}
