//! Gives the runtime a fingerprint of the sources that decide what kernels become, so that what one build kept on disk is never
//! taken by another while they are worked on. Where the crates are taken from a registry, their versions say it all, and the fingerprint is empty:
//! it depends neither on where sources lie nor on who builds.
//!
//! The fingerprint is of what is in the files, not of their names and paths. Tested in `src/cache/keys.rs`.

#![allow(clippy::print_stdout, reason = "this is how a build script answers")]

use std::path::{Path, PathBuf};

/// The crates beside this one, and their names.
const BESIDE: [(&str, &str); 3] =
    [("compiler", "warpweft-compiler"), ("renderer", "warpweft-renderer"), ("devices", "warpweft-devices")];
/// What of this crate decides.
const OWN: [&str; 2] = ["src/cache", "src/execute"];

fn main() -> std::io::Result<()> {
    println!("cargo:rerun-if-changed=build.rs");
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    for folder in watched(here) {
        println!("cargo:rerun-if-changed={}", folder.display());
    }
    println!("cargo:rustc-env=WARPWEFT_BUILD={}", fingerprint(here)?);
    Ok(())
}

/// The folders that decide, if all crates lie beside the one of `here` as they do where they are worked on; else none.
fn watched(here: &Path) -> Vec<PathBuf> {
    let beside = here.parent().unwrap_or(here);
    let is_there = |(folder, name): &(&str, &str)| {
        let manifest = std::fs::read_to_string(beside.join(folder).join("Cargo.toml")).unwrap_or_default();
        manifest.contains(&format!("name = \"{name}\""))
    };
    if !BESIDE.iter().all(is_there) {
        return Vec::new();
    }
    let others = BESIDE.iter().map(|(folder, _)| beside.join(folder).join("src"));
    others.chain(OWN.iter().map(|folder| here.join(folder))).collect()
}

/// A number of the contents of all files that decide; nothing if versions do.
pub(crate) fn fingerprint(here: &Path) -> std::io::Result<String> {
    let mut files = Vec::new();
    for folder in watched(here) {
        contents(&folder, &mut files)?;
    }
    if files.is_empty() {
        return Ok(String::new());
    }
    files.sort();
    // FNV-1a, which is the same in every version of Rust.
    let all = files.iter().flat_map(|file| [&(file.len() as u64).to_le_bytes()[..], file].concat());
    let hash = all.fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    Ok(format!("{hash:016x}"))
}

/// What is in the files below a folder.
fn contents(folder: &Path, files: &mut Vec<Vec<u8>>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() { contents(&path, files)? } else { files.push(std::fs::read(&path)?) }
    }
    Ok(())
}
