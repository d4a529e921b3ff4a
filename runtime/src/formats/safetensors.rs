//! safetensors: a length, a header of JSON, and tensors one after another (<https://github.com/huggingface/safetensors>).
//!
//! Headers are read, checked and written by the crate `safetensors`; tensors are ranges of the file, read when they are used. A model in
//! shards is the file `*.index.json`, which says in which of the files beside it each tensor is.
//!
//! Always: shards lie beside their index, so a name with a folder in it is refused. Floats of 8 and 4 bits become `f32` (`float8`), and
//! [`Entry::stored`] has their bytes; [`save_as`] writes them. A type that tensors lack is an error of its tensor alone.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

use safetensors::tensor::{Metadata, TensorInfo, View};
use safetensors::{Dtype, serialize_to_file};
use warpweft_compiler::DType;
use warpweft_devices::FileError;

use super::dictionary::{Dictionary, Entry};
use super::layout::tensor_at;
use super::write::replace_by;
use super::{float8, int4};
use crate::memory::Input;
use crate::tensor::{Error, Result, SmallFloat, Tensor};

/// The largest header that is read, as in the format's own library.
const HEADER_BYTES_MAX: u64 = 100_000_000;

/// The types that both have, or that become others.
const TYPES: &[(Dtype, DType)] = &[
    (Dtype::BOOL, DType::BOOL),
    (Dtype::U8, DType::U8),
    (Dtype::I8, DType::I8),
    (Dtype::U16, DType::U16),
    (Dtype::I16, DType::I16),
    (Dtype::F16, DType::F16),
    (Dtype::BF16, DType::BF16),
    (Dtype::U32, DType::U32),
    (Dtype::I32, DType::I32),
    (Dtype::F32, DType::F32),
    (Dtype::U64, DType::U64),
    (Dtype::I64, DType::I64),
    (Dtype::F64, DType::F64),
];

/// Floats of 8 bits and less. Of those of 4, a byte has two, the first in the low half.
const SMALL: &[(Dtype, SmallFloat)] = &[
    (Dtype::F8_E4M3, SmallFloat::E4M3FN),
    (Dtype::F8_E5M2, SmallFloat::E5M2),
    (Dtype::F8_E4M3FNUZ, SmallFloat::E4M3FNUZ),
    (Dtype::F8_E5M2FNUZ, SmallFloat::E5M2FNUZ),
    (Dtype::F8_E8M0, SmallFloat::E8M0FNU),
    (Dtype::F4, SmallFloat::E2M1FN),
];

/// The tensors of a file, or of all files that an index names (`model.safetensors.index.json`).
///
/// # Errors
/// If a file is not there or damaged.
pub fn load(path: impl AsRef<Path>) -> Result<Dictionary> {
    let path = path.as_ref();
    let input = Input::open(path)?;
    if path.extension().is_some_and(|extension| extension == "json") { load_shards(path, &input) } else { read(&input) }
}

/// As [`load`], of one file that is open.
///
/// # Errors
/// If it is damaged.
pub fn read(input: &Arc<Input>) -> Result<Dictionary> {
    let mut len = [0; 8];
    input.read_at(0, &mut len, "the length of the header")?;
    let len = u64::from_le_bytes(len);
    let header = input.bytes_at(8, len, HEADER_BYTES_MAX, "the header")?;
    let header: Metadata = serde_json::from_slice(&header).map_err(|error| {
        input.error(
            8,
            format!(
                "the header of {len} bytes should be JSON with a type, a shape and ends of data for each name: {error}"
            ),
        )
    })?;
    let (data, data_len) = (8 + len, header.data_len() as u64);
    if input.len() - data != data_len {
        let message = format!("{data_len} bytes of data should follow, and {} do", input.len() - data);
        return Err(input.error(data, message).into());
    }
    let names = header.offset_keys();
    let named = names.into_iter().filter_map(|name| header.info(&name).map(|info| (name, info)));
    let entries =
        named.map(|(name, info)| entry(input, data, name, info)).collect::<std::result::Result<_, FileError>>();
    let metadata = header.metadata().iter().flatten().map(|(key, value)| (key.clone(), value.clone())).collect();
    Ok(Dictionary::new(input.name(), entries?, metadata))
}

fn entry(input: &Arc<Input>, data: u64, name: String, info: &TensorInfo) -> std::result::Result<Entry, FileError> {
    let (offset, bytes) = (data + info.data_offsets.0 as u64, (info.data_offsets.1 - info.data_offsets.0) as u64);
    let lengths: Vec<u64> = info.shape.iter().map(|&len| len as u64).collect();
    let (what, dtype) = (format!("the tensor `{name}`"), info.dtype.to_string());
    let (stored, tensor) = match TYPES.iter().find(|(theirs, _)| *theirs == info.dtype) {
        Some((_, ours)) => {
            let tensor = tensor_at(input, offset, *ours, &lengths, &what)?;
            (tensor.clone(), tensor)
        }
        None => match SMALL.iter().find(|(theirs, _)| *theirs == info.dtype) {
            Some((Dtype::F4, small)) => {
                let stored = tensor_at(input, offset, DType::U8, &[bytes], &what)?;
                let shape: Vec<i64> = info.shape.iter().map(|&len| len as i64).collect();
                let codes = int4::unpack(&stored, false).cast(DType::U8).reshape(shape);
                (stored, codes.decode_small(*small))
            }
            Some((_, small)) => {
                let stored = tensor_at(input, offset, DType::U8, &lengths, &what)?;
                (stored.clone(), stored.decode_small(*small))
            }
            None => {
                let stored = tensor_at(input, offset, DType::U8, &[bytes], &what)?;
                let message = format!("{what} of {} has elements of {dtype}, which no tensor has", input.name());
                (stored, Tensor::refused("load", message))
            }
        },
    };
    Ok(Entry { name, dtype, shape: info.shape.clone(), bytes, offset, file: input.name().to_string(), stored, tensor })
}

/// The largest index that is read.
const INDEX_BYTES_MAX: u64 = 100_000_000;

fn load_shards(path: &Path, index: &Arc<Input>) -> Result<Dictionary> {
    let text = index.bytes_at(0, index.len(), INDEX_BYTES_MAX, "the index")?;
    let wrong =
        |why: String| index.error(0, format!("an index should be JSON with `weight_map`, a file for each name: {why}"));
    let parsed: serde_json::Value = serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?;
    let map = parsed["weight_map"].as_object().ok_or_else(|| wrong("there is none".to_string()))?;
    let mut shards: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, shard) in map {
        let shard = shard.as_str().ok_or_else(|| wrong(format!("`{name}` has no file")))?;
        let is_beside = Path::new(shard).file_name().is_some_and(|file| file == shard) && !shard.contains('\\');
        if !is_beside {
            return Err(wrong(format!("`{name}` is in `{shard}`, which is no file beside the index")).into());
        }
        shards.entry(shard).or_default().push(name);
    }
    let mut entries = Vec::with_capacity(map.len());
    for (shard, names) in shards {
        let found = read(&Input::open(path.with_file_name(shard))?)?;
        for name in names {
            found.tensor(name)?; // an error that says in which file it should be
        }
        let is_wanted = |entry: &&Entry| map.get(&entry.name).and_then(|file| file.as_str()) == Some(shard);
        entries.extend(found.entries().iter().filter(is_wanted).cloned());
    }
    let metadata = parsed["metadata"].as_object().into_iter().flatten();
    let metadata = metadata.map(|(key, value)| (key.clone(), value.as_str().map_or(value.to_string(), str::to_string)));
    Ok(Dictionary::new(index.name(), entries, metadata.collect()))
}

/// A tensor that is computed when its turn comes.
struct Saved<'t> {
    tensor: Tensor,
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: usize,
    /// The first error of all tensors: the format's library asks for bytes and takes no error.
    failure: &'t RefCell<Option<Error>>,
}

impl View for Saved<'_> {
    fn dtype(&self) -> Dtype {
        self.dtype
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        let bytes = if self.failure.borrow().is_some() { Ok(Vec::new()) } else { self.tensor.to_bytes() };
        Cow::Owned(bytes.unwrap_or_else(|error| {
            self.failure.borrow_mut().get_or_insert(error);
            Vec::new()
        }))
    }

    fn data_len(&self) -> usize {
        self.bytes
    }
}

/// What is written of a tensor, and as which type: its own, or a small one.
fn saved<'t>(
    name: &str,
    tensor: &Tensor,
    small: Option<SmallFloat>,
    failure: &'t RefCell<Option<Error>>,
    failed: &dyn Fn(String) -> FileError,
) -> Result<Saved<'t>> {
    let (dtype, dims) = (tensor.dtype()?, tensor.dims()?);
    if !dims.is_concrete() {
        return Err(failed(format!("`{name}` has the shape {dims}; only numbers can be written")).into());
    }
    let shape = tensor.shape()?;
    let count = shape.iter().product::<usize>();
    let Some(small) = small else {
        let theirs = TYPES.iter().find(|(_, ours)| *ours == dtype).map(|(theirs, _)| *theirs);
        let theirs =
            theirs.ok_or_else(|| failed(format!("`{name}` has elements of {dtype}, which the format lacks")))?;
        return Ok(Saved { tensor: tensor.clone(), dtype: theirs, shape, bytes: count * dtype.bytes(), failure });
    };
    let theirs = SMALL.iter().find(|(_, ours)| *ours == small).map(|(theirs, _)| *theirs);
    let theirs = theirs.ok_or_else(|| failed(format!("`{name}` as {small:?}: the format lacks this type")))?;
    let codes = float8::codes(tensor, small)?;
    if theirs != Dtype::F4 {
        return Ok(Saved { tensor: codes, dtype: theirs, shape, bytes: count, failure });
    }
    if count % 2 == 1 {
        let message = format!("`{name}` has {count} elements of 4 bits: two make a byte, so their number must be even");
        return Err(failed(message).into());
    }
    let tensor = int4::pack(&codes.reshape([count as i64]));
    Ok(Saved { tensor, dtype: theirs, shape, bytes: count / 2, failure })
}

/// Writes tensors to a file, computed one by one, beside texts that say something of them. The file is replaced when all is written, so who has the old one
/// open still has it, and a failure leaves it.
///
/// # Errors
/// If a tensor carries one, cannot be computed or has variables in its shape, or the file cannot be written.
pub fn save<'t>(
    path: impl AsRef<Path>,
    tensors: impl IntoIterator<Item = (&'t str, &'t Tensor)>,
    metadata: &BTreeMap<String, String>,
) -> Result<()> {
    save_as(path, tensors.into_iter().map(|(name, tensor)| (name, tensor, None)), metadata)
}

/// As [`save`], where a tensor may be written in a small float type: floats are rounded to it, and bytes of `u8` are taken as its codes. Two numbers of
/// 4 bits make a byte, so there must be an even number of them.
///
/// ```
/// # use std::collections::BTreeMap;
/// # use warpweft::{Tensor, formats::safetensors, tensor::SmallFloat};
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("small.safetensors");
/// let x = Tensor::from_vec(vec![0.3f32, -17.0, 500.0], [3]);
/// safetensors::save_as(&path, [("x", &x, Some(SmallFloat::E4M3FN)), ("y", &x, None)], &BTreeMap::new())?;
/// assert_eq!(safetensors::load(&path)?.tensor("x")?.to_vec::<f32>()?, [0.3125, -16.0, 448.0]);
/// # Ok::<(), warpweft::Error>(())
/// ```
///
/// # Errors
/// As [`save`], and if what is to be written in a small type is neither floats nor `u8`.
pub fn save_as<'t>(
    path: impl AsRef<Path>,
    tensors: impl IntoIterator<Item = (&'t str, &'t Tensor, Option<SmallFloat>)>,
    metadata: &BTreeMap<String, String>,
) -> Result<()> {
    let path = path.as_ref();
    let failed = |message: String| FileError { file: path.display().to_string(), offset: 0, message };
    let failure = RefCell::new(None);
    let mut all: Vec<(&str, Saved<'_>)> = Vec::new();
    for (name, tensor, small) in tensors {
        all.push((name, saved(name, tensor, small, &failure, &failed)?));
    }
    let metadata: HashMap<String, String> = metadata.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    let metadata = (!metadata.is_empty()).then_some(metadata);
    replace_by(path, |beside| {
        serialize_to_file(all, metadata, beside).map_err(|error| failed(format!("cannot be written: {error}")))?;
        failure.take().map_or(Ok(()), Err)
    })
}
