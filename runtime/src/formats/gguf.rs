//! GGUF: the files of llama.cpp, versions 2 and 3 (ggml's `docs/gguf.md`). Metadata of any type, and tensors, quantised ones too.
//!
//! Quantised tensors stay packed: [`Entry::stored`] is their bytes, and the tensor is an expression of these (`dequantise`), which becomes
//! part of whichever kernel uses it. So a product with such a matrix reads its packed bytes and nothing more.
//!
//! Always: tensors lie apart, inside of the file, each where the alignment wants it. A type that is not known is an error of its tensor alone.
//! Tests: `runtime/tests/formats/main.rs`, against values by the Python package `gguf`.

mod blocks;
mod dequantise;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use warpweft_compiler::DType;
use warpweft_devices::FileError;

use self::blocks::{Kind, kind_of};
use super::cursor::Cursor;
use super::dictionary::{Dictionary, Entry};
use super::layout::{AXES_MAX, check_apart, tensor_at};
use crate::memory::Input;
use crate::tensor::{Result, Tensor};

/// Arrays may hold arrays, so deep at most.
const DEPTH_MAX: usize = 4;
/// The largest header that is read: above all lists of tokens.
const HEADER_BYTES_MAX: u64 = 1 << 28;

/// A value of the metadata.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A whole number of any width.
    Int(i128),
    /// A float of either width.
    Float(f64),
    /// True or false.
    Bool(bool),
    /// Text.
    Text(String),
    /// Values of one type.
    List(Vec<Value>),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Int(value) => write!(f, "{value}"),
            Value::Float(value) => write!(f, "{value}"),
            Value::Bool(value) => write!(f, "{value}"),
            Value::Text(value) => write!(f, "{value}"),
            Value::List(values) => write!(f, "{} values", values.len()),
        }
    }
}

/// What a file holds.
#[derive(Clone, Debug)]
pub struct Gguf {
    /// By its name, as `general.architecture`.
    pub metadata: BTreeMap<String, Value>,
    /// The tensors by name.
    pub tensors: Dictionary,
}

impl Gguf {
    /// The tensors alone, with the metadata as texts.
    pub fn into_tensors(self) -> Dictionary {
        self.tensors
    }
}

/// What a file holds; tensors are read when they are used.
///
/// # Errors
/// If there is no such file, or it is damaged.
pub fn load(path: impl AsRef<Path>) -> Result<Gguf> {
    read(&Input::open(path)?)
}

/// What the header says of a tensor.
struct Info {
    name: String,
    /// The axis whose neighbours are neighbours in memory comes first.
    lengths: Vec<u64>,
    kind: u32,
    offset: u64,
    /// Where it says so.
    at: u64,
}

/// As [`load`], of a file that is open.
///
/// # Errors
/// If it is damaged.
pub fn read(input: &Arc<Input>) -> Result<Gguf> {
    let mut cursor = Cursor::new(input);
    if cursor.take(MAGIC)? != *b"GGUF" {
        return Err(input.error(0, "should begin with GGUF").into());
    }
    let version = cursor.u32("the version")?;
    if !(2..=3).contains(&version) {
        let hint = if (2..=3).contains(&version.swap_bytes()) { "this one is big-endian" } else { "this is another" };
        return Err(input
            .error(4, format!("versions 2 and 3 in little-endian order are read, and {hint} ({version:#x})"))
            .into());
    }
    let tensors = cursor.u64("the number of tensors")?;
    let values = cursor.u64("the number of metadata")?;
    // A tensor says a name, its axes, a type and an offset; an entry of the metadata a name, a type and a value.
    let tensors = cursor.expect(tensors, 8 + 4 + 4 + 8, "tensors")?;
    let values = cursor.expect(values, 8 + 4 + 1, "metadata")?;
    let mut metadata = BTreeMap::new();
    for _ in 0..values {
        let key = text(&mut cursor, "the name of a metadata")?;
        let kind = cursor.u32("the type of a metadata")?;
        let value = value(&mut cursor, kind, 0)?;
        metadata.insert(key, value);
    }
    let infos = (0..tensors).map(|_| info(&mut cursor)).collect::<std::result::Result<Vec<Info>, FileError>>()?;
    let alignment = match metadata.get("general.alignment") {
        None => 32,
        Some(Value::Int(alignment)) if (1..=1 << 20).contains(alignment) && alignment % 8 == 0 => *alignment as u64,
        Some(_) => return Err(cursor.error("`general.alignment` should be a multiple of 8 up to 1048576").into()),
    };
    let data = cursor.at().next_multiple_of(alignment);
    let entries = infos.into_iter().map(|info| entry(input, data, alignment, info));
    let entries = entries.collect::<std::result::Result<Vec<Entry>, FileError>>()?;
    check_apart(input, entries.iter().map(|entry| (entry.offset, entry.bytes, entry.name.as_str())).collect())?;
    let texts = metadata.iter().map(|(key, value)| (key.clone(), value.to_string())).collect();
    Ok(Gguf { tensors: Dictionary::new(input.name(), entries, texts), metadata })
}

const MAGIC: &str = "the first four bytes";

fn text(cursor: &mut Cursor<'_>, what: &str) -> std::result::Result<String, FileError> {
    let len = cursor.u64(what)?;
    if cursor.at() + len.min(HEADER_BYTES_MAX) > HEADER_BYTES_MAX {
        return Err(cursor
            .error(format!("the header goes on behind its first {HEADER_BYTES_MAX} bytes, which are read at most")));
    }
    cursor.text(len, what)
}

fn value(cursor: &mut Cursor<'_>, kind: u32, depth: usize) -> std::result::Result<Value, FileError> {
    let what = "a value of the metadata";
    Ok(match kind {
        0 => Value::Int(cursor.u8(what)?.into()),
        1 => Value::Int(i8::from_le_bytes(cursor.take(what)?).into()),
        2 => Value::Int(cursor.u16(what)?.into()),
        3 => Value::Int(i16::from_le_bytes(cursor.take(what)?).into()),
        4 => Value::Int(cursor.u32(what)?.into()),
        5 => Value::Int(i32::from_le_bytes(cursor.take(what)?).into()),
        6 => Value::Float(f32::from_le_bytes(cursor.take(what)?).into()),
        7 => match cursor.u8(what)? {
            0 => Value::Bool(false),
            1 => Value::Bool(true),
            other => return Err(cursor.error(format!("a bool should be 0 or 1, not {other}"))),
        },
        8 => Value::Text(text(cursor, what)?),
        9 if depth < DEPTH_MAX => {
            let (inner, count) = (cursor.u32(what)?, cursor.u64(what)?);
            let least = match inner {
                0 | 1 | 7 => 1,
                2 | 3 => 2,
                4..=6 => 4,
                8 | 10..=12 => 8,
                _ => 12,
            };
            let count = cursor.expect(count, least, "values of a list")?;
            if cursor.at() + count as u64 * least > HEADER_BYTES_MAX {
                return Err(cursor.error(format!(
                    "the header goes on behind its first {HEADER_BYTES_MAX} bytes, which are read at most"
                )));
            }
            Value::List((0..count).map(|_| value(cursor, inner, depth + 1)).collect::<std::result::Result<_, _>>()?)
        }
        9 => return Err(cursor.error(format!("lists may hold lists {DEPTH_MAX} deep, not deeper"))),
        10 => Value::Int(cursor.u64(what)?.into()),
        11 => Value::Int(i64::from_le_bytes(cursor.take(what)?).into()),
        12 => Value::Float(f64::from_le_bytes(cursor.take(what)?)),
        other => return Err(cursor.error(format!("metadata have types 0 to 12, not {other}"))),
    })
}

fn info(cursor: &mut Cursor<'_>) -> std::result::Result<Info, FileError> {
    let at = cursor.at();
    let name = text(cursor, "the name of a tensor")?;
    let axes = cursor.u32("the number of axes")?;
    if axes as usize > AXES_MAX {
        return Err(cursor.error(format!("`{name}` has {axes} axes, more than the {AXES_MAX} that there may be")));
    }
    let lengths = (0..axes).map(|_| cursor.u64("the length of an axis")).collect::<std::result::Result<_, _>>()?;
    let kind = cursor.u32("the type of a tensor")?;
    let offset = cursor.u64("the offset of a tensor")?;
    Ok(Info { name, lengths, kind, offset, at })
}

fn entry(input: &Arc<Input>, data: u64, alignment: u64, info: Info) -> std::result::Result<Entry, FileError> {
    let Info { name, lengths, kind, offset, at } = info;
    let what = format!("the tensor `{name}`");
    let wrong = |why: String| input.error(at, format!("{what} {why}"));
    if offset % alignment != 0 {
        return Err(wrong(format!("lies at {offset}, which is no multiple of {alignment}")));
    }
    let offset = data.checked_add(offset).ok_or_else(|| wrong(format!("lies at {offset}, outside of the file")))?;
    let shape: Vec<u64> = lengths.iter().rev().copied().collect();
    let (dtype, bytes, stored, tensor) = match kind_of(kind) {
        Kind::Plain(name, dtype) => {
            let tensor = tensor_at(input, offset, dtype, &shape, &what)?;
            let (_, bytes) = super::layout::checked_shape(&shape, dtype).map_err(&wrong)?;
            (name.to_string(), bytes as u64, tensor.clone(), tensor)
        }
        Kind::Packed(format) => {
            let row = lengths.first().copied().unwrap_or(1);
            if !row.is_multiple_of(format.elements as u64) {
                let (name, elements) = (format.name, format.elements);
                return Err(wrong(format!("has rows of {row} elements, which {name} packs by {elements}")));
            }
            let mut packed = shape.clone();
            match packed.last_mut() {
                Some(last) => *last = *last / format.elements as u64 * format.bytes as u64,
                None => return Err(wrong("is packed and has no axis".to_string())),
            }
            super::layout::checked_shape(&shape, DType::F32).map_err(&wrong)?;
            let stored = tensor_at(input, offset, DType::U8, &packed, &what)?;
            let bytes = packed.iter().product();
            let tensor = dequantise::dequantise(format, &stored, &shape);
            (format.name.to_string(), bytes, stored, tensor)
        }
        Kind::Unknown(name) => {
            let stored = tensor_at(input, offset, DType::U8, &[0], &what)?;
            let message = format!("{what} of {} is of type {name}, which is not read", input.name());
            (name, 0, stored, Tensor::refused("load", message))
        }
    };
    let shape = shape.into_iter().map(|len| len as usize).collect();
    Ok(Entry { name, dtype, shape, bytes, offset, file: input.name().to_string(), stored, tensor })
}
