//! PyTorch's files (`torch.save` since 1.6): a zip archive with a pickle that names tensors, and their storages as members.
//!
//! The pickle is taken apart and never run (`pickle`): the calls that rebuild tensors are known by name, and any other is an error that says
//! which. Tensors that share a storage share it here too, and strides and offsets make views of it. Dictionaries and lists in each
//! other become names with points, as `model.layers.0.weight`; numbers and texts become metadata.
//!
//! Tests: `runtime/tests/formats/main.rs`, against files that PyTorch wrote.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use warpweft_compiler::DType;
use warpweft_devices::FileError;
use warpweft_devices::dlpack::Layout;

use super::archive::{Archive, Member};
use super::dictionary::{Dictionary, Entry};
use super::float8;
use super::layout::{change_of, checked_shape, laid_out};
use super::pickle::{self, Id, Node, ORDERED, Pickle};
use crate::memory::Input;
use crate::tensor::{Result, Tensor};

/// The largest pickle that is read.
const PICKLE_BYTES_MAX: u64 = 1 << 28;
/// Dictionaries and lists stand in each other so deep at most.
const DEPTH_MAX: usize = 64;
/// The most values that are looked at. A small file can name one list a great many times.
const VALUES_MAX: usize = 1 << 20;

/// How elements are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Element {
    Plain(DType),
    E4m3,
    E5m2,
}

/// Storages and types, by their names in `torch`.
const ELEMENTS: &[(&str, &str, Element)] = &[
    ("FloatStorage", "float32", Element::Plain(DType::F32)),
    ("DoubleStorage", "float64", Element::Plain(DType::F64)),
    ("HalfStorage", "float16", Element::Plain(DType::F16)),
    ("BFloat16Storage", "bfloat16", Element::Plain(DType::BF16)),
    ("LongStorage", "int64", Element::Plain(DType::I64)),
    ("IntStorage", "int32", Element::Plain(DType::I32)),
    ("ShortStorage", "int16", Element::Plain(DType::I16)),
    ("CharStorage", "int8", Element::Plain(DType::I8)),
    ("ByteStorage", "uint8", Element::Plain(DType::U8)),
    ("BoolStorage", "bool", Element::Plain(DType::BOOL)),
    ("", "uint16", Element::Plain(DType::U16)),
    ("", "uint32", Element::Plain(DType::U32)),
    ("", "uint64", Element::Plain(DType::U64)),
    ("", "float8_e4m3fn", Element::E4m3),
    ("", "float8_e5m2", Element::E5m2),
];

impl Element {
    fn stored(self) -> DType {
        match self {
            Element::Plain(dtype) => dtype,
            Element::E4m3 | Element::E5m2 => DType::U8,
        }
    }

    fn values(self, stored: Tensor) -> Tensor {
        match self {
            Element::Plain(_) => stored,
            Element::E4m3 => float8::from_e4m3(&stored),
            Element::E5m2 => float8::from_e5m2(&stored),
        }
    }
}

/// The tensors of a file.
///
/// # Errors
/// If there is no such file, it is damaged, or it holds anything but tensors, dictionaries, lists, numbers and texts.
pub fn load(path: impl AsRef<Path>) -> Result<Dictionary> {
    read(&Input::open(path)?)
}

/// As [`load`], of a file that is open.
///
/// # Errors
/// As [`load`].
pub fn read(input: &Arc<Input>) -> Result<Dictionary> {
    let archive = Archive::open(input)?;
    if !is_torch(&archive) {
        let message = "should be a file of `torch.save`: there is no `data.pkl` in the archive";
        return Err(input.error(0, message).into());
    }
    read_from(&archive)
}

fn pickled(archive: &Archive) -> Option<&Member> {
    archive.members.iter().find(|member| member.name == "data.pkl" || member.name.ends_with("/data.pkl"))
}

/// Whether an archive is one of PyTorch's.
pub(super) fn is_torch(archive: &Archive) -> bool {
    pickled(archive).is_some()
}

/// The tensors of an archive.
pub(super) fn read_from(archive: &Archive) -> Result<Dictionary> {
    let Some(member) = pickled(archive) else { return Err(archive.input.error(0, "there is no `data.pkl`").into()) };
    let folder = member.name.trim_end_matches("data.pkl");
    let bytes = archive.read(member, PICKLE_BYTES_MAX)?;
    let pickle = pickle::parse(&bytes).map_err(|(at, why)| FileError {
        file: format!("{} in {}", member.name, archive.input.name()),
        offset: at,
        message: why,
    })?;
    let is_big_endian = match archive.member(&format!("{folder}byteorder")) {
        Some(order) => archive.read(order, 16)?.starts_with(b"big"),
        None => false,
    };
    let mut reader = Reader {
        archive,
        folder,
        pickle: &pickle,
        is_big_endian,
        storages: FxHashMap::default(),
        by_name: archive.members.iter().map(|member| (member.name.as_str(), member)).collect(),
        values: 0,
        entries: Vec::new(),
        metadata: BTreeMap::new(),
    };
    reader
        .walk(pickle.root, String::new(), 0)
        .map_err(|why| archive.input.error(member.at, format!("{}: {why}", member.name)))?;
    Ok(Dictionary::new(archive.input.name(), reader.entries, reader.metadata))
}

struct Reader<'a> {
    archive: &'a Archive,
    folder: &'a str,
    pickle: &'a Pickle,
    is_big_endian: bool,
    /// Those that tensors were made of, flat, by name and type.
    storages: FxHashMap<(String, DType), Tensor>,
    by_name: FxHashMap<&'a str, &'a Member>,
    values: usize,
    entries: Vec<Entry>,
    metadata: BTreeMap<String, String>,
}

/// A storage that a tensor names.
struct Storage {
    key: String,
    /// None: bytes, whose type the tensor says.
    element: Option<Element>,
}

type Found<T> = std::result::Result<T, String>;

impl<'a> Reader<'a> {
    fn node(&self, id: Id) -> &'a Node {
        &self.pickle.nodes[id]
    }

    /// The name of what a call calls, and its arguments.
    fn call(&self, function: Id, arguments: Id) -> Found<(&'a str, &'a [Id])> {
        match (self.node(function), self.node(arguments)) {
            (Node::Global(name), Node::Tuple(arguments)) => Ok((name, arguments)),
            _ => Err("something is called that has no name; nothing of a file is run".to_string()),
        }
    }

    fn walk(&mut self, id: Id, name: String, depth: usize) -> Found<()> {
        self.values += 1;
        if depth > DEPTH_MAX || self.values > VALUES_MAX {
            return Err(format!(
                "`{name}` is {depth} deep, value {}; {DEPTH_MAX} and {VALUES_MAX} are the most",
                self.values
            ));
        }
        match self.node(id) {
            Node::None => Ok(()),
            Node::Bool(value) => self.say(name, value.to_string()),
            Node::Int(value) => self.say(name, value.to_string()),
            Node::Float(value) => self.say(name, value.to_string()),
            Node::Text(value) => self.say(name, value.clone()),
            Node::Bytes(bytes) => self.say(name, format!("{} bytes", bytes.len())),
            Node::Tuple(items) | Node::List(items) => items
                .iter()
                .enumerate()
                .try_for_each(|(at, &item)| self.walk(item, below(&name, &at.to_string()), depth + 1)),
            Node::Dict(pairs) => pairs.iter().try_for_each(|&(key, value)| {
                let key = match self.node(key) {
                    Node::Text(key) => key.clone(),
                    Node::Int(key) => key.to_string(),
                    Node::Bool(key) => key.to_string(),
                    other => return Err(format!("keys in `{name}` should be texts or numbers, not {other:?}")),
                };
                self.walk(value, below(&name, &key), depth + 1)
            }),
            Node::Call(function, arguments) => match self.call(*function, *arguments)? {
                (ORDERED, []) => Ok(()),
                ("torch.Size", [size]) => self.walk(*size, name, depth + 1),
                ("torch._utils._rebuild_parameter" | "torch._utils._rebuild_parameter_with_state", [data, ..]) => {
                    self.walk(*data, name, depth + 1)
                }
                ("torch._utils._rebuild_tensor_v2", [storage, offset, size, strides, ..]) => {
                    self.tensor(name, *storage, [*offset, *size, *strides], None)
                }
                ("torch._utils._rebuild_tensor_v3", [storage, offset, size, strides, _, _, dtype, ..]) => {
                    self.tensor(name, *storage, [*offset, *size, *strides], Some(*dtype))
                }
                (other, _) => Err(unknown(&name, other)),
            },
            Node::Global(other) => match other.strip_prefix("torch.").filter(|dtype| known_dtype(dtype).is_some()) {
                Some(dtype) => self.say(name, dtype.to_string()),
                None => Err(unknown(&name, other)),
            },
            Node::Persistent(_) => Err(format!("`{name}` is a storage without a tensor; save tensors")),
        }
    }

    fn say(&mut self, name: String, value: String) -> Found<()> {
        self.metadata.insert(name, value);
        Ok(())
    }

    fn int(&self, id: Id) -> Found<i64> {
        match self.node(id) {
            Node::Int(value) => i64::try_from(*value).map_err(|_| format!("{value} is no length and no offset")),
            other => Err(format!("a number should be here, not {other:?}")),
        }
    }

    fn ints(&self, id: Id) -> Found<Vec<i64>> {
        match self.node(id) {
            Node::Tuple(items) | Node::List(items) => items.iter().map(|&item| self.int(item)).collect(),
            Node::Call(function, arguments) => match self.call(*function, *arguments)? {
                // One call deep, and no deeper: a size is a tuple.
                ("torch.Size", [size]) if matches!(self.node(*size), Node::Tuple(_)) => self.ints(*size),
                (other, _) => Err(format!("a size should be here, not {other}")),
            },
            other => Err(format!("a size should be here, not {other:?}")),
        }
    }

    /// `('storage', torch.FloatStorage, key, device, elements)`.
    fn storage(&self, id: Id) -> Found<Storage> {
        let wrong = || "a tensor should have a storage of the file".to_string();
        let Node::Persistent(id) = self.node(id) else { return Err(wrong()) };
        let Node::Tuple(parts) = self.node(*id) else { return Err(wrong()) };
        let [kind, class, key, _, _] = parts[..] else { return Err(wrong()) };
        match (self.node(kind), self.node(class), self.node(key)) {
            (Node::Text(kind), Node::Global(class), Node::Text(key)) if kind == "storage" => {
                let name = class.rsplit('.').next().unwrap_or_default();
                let known = ELEMENTS.iter().find(|(storage, ..)| !name.is_empty() && *storage == name);
                match (class.starts_with("torch."), known) {
                    (true, Some((_, _, element))) => Ok(Storage { key: key.clone(), element: Some(*element) }),
                    (true, None) if name == "UntypedStorage" => Ok(Storage { key: key.clone(), element: None }),
                    _ => Err(format!("no tensor has elements of {class}")),
                }
            }
            _ => Err(wrong()),
        }
    }

    fn tensor(&mut self, name: String, storage: Id, [offset, size, strides]: [Id; 3], dtype: Option<Id>) -> Found<()> {
        let at = |why: String| format!("the tensor `{name}`: {why}");
        let storage = self.storage(storage).map_err(at)?;
        let named = dtype.map(|dtype| match self.node(dtype) {
            Node::Global(dtype) => {
                let known = dtype.strip_prefix("torch.").and_then(known_dtype);
                known.ok_or_else(|| at(format!("no tensor has elements of {dtype}")))
            }
            other => Err(at(format!("a type should be here, not {other:?}"))),
        });
        let element =
            named.transpose()?.or(storage.element).ok_or_else(|| at("its elements have no type".to_string()))?;
        let stored_dtype = element.stored();
        let (offset, size, strides) =
            (self.int(offset).map_err(at)?, self.ints(size).map_err(at)?, self.ints(strides).map_err(at)?);
        if size.len() != strides.len() || offset < 0 || strides.iter().chain(&size).any(|&number| number < 0) {
            return Err(at(format!("shape {size:?}, strides {strides:?} and offset {offset} are no view")));
        }
        let lengths: Vec<u64> = size.iter().map(|&len| len as u64).collect();
        let (_, bytes) = checked_shape(&lengths, stored_dtype).map_err(at)?;
        let (flat, member) = self.flat(&storage.key, stored_dtype).map_err(at)?;
        let elements = member.bytes / stored_dtype.bytes() as u64;
        let layout = Layout { dtype: stored_dtype, shape: size, strides, offset };
        let reach = last_element(&layout).map_or(Some(0), |last| last.checked_add(1));
        if reach.is_none_or(|reach| reach as u64 > elements) {
            let (shape, strides) = (&layout.shape, &layout.strides);
            return Err(at(format!(
                "shape {shape:?} with strides {strides:?} from element {offset} on is outside of its storage of {elements}"
            )));
        }
        let view = flat.as_strided(&layout.shape, &layout.strides, Some(offset));
        let dtype = ELEMENTS.iter().find(|(.., known)| *known == element).map_or("", |(_, dtype, _)| *dtype);
        self.entries.push(Entry {
            dtype: dtype.to_string(),
            shape: lengths.iter().map(|&len| len as usize).collect(),
            bytes: bytes as u64,
            offset: member.at + offset as u64 * stored_dtype.bytes() as u64,
            file: self.archive.input.name().to_string(),
            stored: view.clone(),
            tensor: element.values(view),
            name,
        });
        Ok(())
    }

    /// A storage's elements in a row, and its member.
    fn flat(&mut self, key: &str, dtype: DType) -> Found<(Tensor, &'a Member)> {
        let name = format!("{}data/{key}", self.folder);
        let member =
            *self.by_name.get(name.as_str()).ok_or_else(|| format!("there is no member `{name}`, its storage"))?;
        let flat = match self.storages.get(&(name.clone(), dtype)) {
            Some(flat) => flat.clone(),
            None => {
                if !member.bytes.is_multiple_of(dtype.bytes() as u64) {
                    return Err(format!(
                        "its storage `{name}` of {} bytes is no whole number of {dtype}",
                        member.bytes
                    ));
                }
                let (shape, _) = checked_shape(&[member.bytes / dtype.bytes() as u64], dtype)?;
                let change = change_of(dtype, self.is_big_endian);
                let source = self.archive.source(member, 0, change).map_err(|error| error.to_string())?;
                let flat = laid_out(source, &crate::tensor::files::row_major(dtype, &shape));
                self.storages.insert((name, dtype), flat.clone());
                flat
            }
        };
        Ok((flat, member))
    }
}

fn below(name: &str, part: &str) -> String {
    if name.is_empty() { part.to_string() } else { format!("{name}.{part}") }
}

fn unknown(name: &str, global: &str) -> String {
    let what = if name.is_empty() { "the file".to_string() } else { format!("`{name}`") };
    format!(
        "{what} is made by calling {global}, and nothing of a file is run; save a state dictionary of tensors alone"
    )
}

fn known_dtype(name: &str) -> Option<Element> {
    ELEMENTS.iter().find(|(_, dtype, _)| *dtype == name).map(|(.., element)| *element)
}

/// The last element that a view without negative strides shows; none if it shows none.
fn last_element(layout: &Layout) -> Option<i64> {
    if layout.shape.contains(&0) {
        return None;
    }
    let axes = layout.shape.iter().zip(&layout.strides);
    let distances = axes.map(|(&len, &stride)| i128::from(len - 1) * i128::from(stride));
    let reach = distances.fold(i128::from(layout.offset), i128::saturating_add);
    Some(i64::try_from(reach).unwrap_or(i64::MAX))
}
