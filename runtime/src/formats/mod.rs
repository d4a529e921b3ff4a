//! Weights in files: reading them as dictionaries of lazy tensors, and writing them.
//!
//! | module | files | reads | writes | needs the feature |
//! |---|---|---|---|---|
//! | `safetensors` | `.safetensors`, also in shards with `.index.json` | yes | yes | `safetensors` |
//! | [`numpy`] | `.npy`, `.npz` | yes | yes | `archives` for `.npz` |
//! | [`gguf`] | `.gguf`, quantised tensors too | yes | no | |
//! | `torch` | `.pt`, `.pth`, `.bin` of PyTorch since 1.6 | yes | no | `archives` |
//!
//! [`load`] tells them apart by their first bytes. A [`Dictionary`] names tensors in the order of the file; nothing but headers is read until a
//! tensor is used, or [`Dictionary::load`] reads all and tells how far it is.
//!
//! Files are hostile until they have been checked: every count, length and offset is held against the bytes that are there before anything is
//! made of it, and ranges that overlap are refused where the format has none. An error names the file, the offset in it, what was found and what
//! would be right. Nothing in a file is ever run.
//!
//! ```text
//!   safetensors  gguf  numpy  torch --> Dictionary of Entry --> Tensor over a Source (memory)
//!                  |     |      |
//!                cursor  |    pickle
//!                        archive (zip)
//! ```

#[cfg(feature = "archives")]
mod archive;
mod cursor;
mod dictionary;
pub mod float8;
pub mod gguf;
pub mod int4;
mod layout;
pub mod numpy;
#[cfg(feature = "archives")]
mod pickle;
#[cfg(feature = "safetensors")]
pub mod safetensors;
#[cfg(feature = "archives")]
pub mod torch;
mod write;

use std::path::Path;
use std::sync::Arc;

pub use crate::memory::Input;
use crate::tensor::Result;
pub use dictionary::{Dictionary, Entry, Progress};
pub use warpweft_devices::FileError;

/// The tensors of a file in any of the formats, which its first bytes tell.
///
/// # Errors
/// If there is no such file, its format is none of these, or it is damaged.
pub fn load(path: impl AsRef<Path>) -> Result<Dictionary> {
    let path = path.as_ref();
    #[cfg(feature = "safetensors")]
    if path.to_string_lossy().ends_with(".index.json") {
        return safetensors::load(path);
    }
    read(&Input::open(path)?)
}

/// As [`load`], of a file that is open, or of bytes that stand for one.
///
/// # Errors
/// As [`load`].
pub fn read(input: &Arc<Input>) -> Result<Dictionary> {
    let mut first = [0; 8];
    let len = input.len().min(8) as usize;
    input.read_at(0, &mut first[..len], "the first bytes")?;
    match &first {
        [b'G', b'G', b'U', b'F', ..] => Ok(gguf::read(input)?.into_tensors()),
        [0x93, b'N', b'U', b'M', b'P', b'Y', ..] => numpy::read(input),
        [b'P', b'K', 3, 4, ..] => read_archive(input),
        _ if u64::from_le_bytes(first) < input.len() => read_safetensors(input),
        _ => Err(input
            .error(
                0,
                "begins as no known format: .safetensors, .npy, .npz, .gguf, and .pt of PyTorch 1.6 or later are read",
            )
            .into()),
    }
}

#[cfg(feature = "archives")]
fn read_archive(input: &Arc<Input>) -> Result<Dictionary> {
    let archive = archive::Archive::open(input)?;
    if torch::is_torch(&archive) { torch::read_from(&archive) } else { numpy::read_archive(&archive) }
}

#[cfg(not(feature = "archives"))]
fn read_archive(input: &Arc<Input>) -> Result<Dictionary> {
    Err(input.error(0, "is a zip archive: this build is without the feature `archives`, which reads them").into())
}

#[cfg(feature = "safetensors")]
fn read_safetensors(input: &Arc<Input>) -> Result<Dictionary> {
    safetensors::read(input)
}

#[cfg(not(feature = "safetensors"))]
fn read_safetensors(input: &Arc<Input>) -> Result<Dictionary> {
    Err(input.error(0, "may be safetensors: this build is without the feature of that name, which reads them").into())
}
