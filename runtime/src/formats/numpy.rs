//! NumPy's files: `.npy`, one array behind a header, and `.npz`, a zip archive of such files (NumPy's documentation, `numpy.lib.format`).
//!
//! Read: versions 1 to 3, either byte order, C and Fortran order (a view with other strides), all types of tensors. Elements of `|V2`
//! are taken as `bf16`, for so `ml_dtypes` writes them; `|f1` is its `float8_e5m2`, read as `f32`; `|V1`, all its other floats of 8 bits and less, are read
//! as the codes that they are, for nothing says which (`Tensor::decode_small`). Python objects are pickles, and never read. Written: version 1 (2 where a header is
//! longer), little-endian, C order; archives as `numpy.savez` writes them, stored.
//!
//! Tests: `runtime/tests/formats/main.rs`, against files that NumPy wrote.

use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use warpweft_compiler::DType;
use warpweft_compiler::ir::{Dim, Shape};
use warpweft_devices::FileError;
use warpweft_devices::dlpack::Layout;

#[cfg(feature = "archives")]
use super::archive::Archive;
use super::dictionary::{Dictionary, Entry};
use super::float8;
use super::layout::{change_of, checked_shape, laid_out};
use super::write::{failed, replace};
use crate::memory::{FilePart, Input};
use crate::tensor::files::row_major;
use crate::tensor::{Result, SmallFloat, Tensor};

/// The largest header that is read. NumPy itself reads 10,000 bytes unless it is told to trust a file.
const HEADER_BYTES_MAX: u64 = 1 << 16;

/// NumPy's letters of a type, with the bytes of an element.
const TYPES: &[(&str, DType)] = &[
    ("b1", DType::BOOL),
    ("i1", DType::I8),
    ("i2", DType::I16),
    ("i4", DType::I32),
    ("i8", DType::I64),
    ("u1", DType::U8),
    ("u2", DType::U16),
    ("u4", DType::U32),
    ("u8", DType::U64),
    ("f2", DType::F16),
    ("V2", DType::BF16),
    ("f4", DType::F32),
    ("f8", DType::F64),
    (E5M2, DType::U8),
    (CODES, DType::U8),
];

/// Floats of type E5M2.
const E5M2: &str = "f1";
/// Codes of another small float.
const CODES: &str = "V1";

/// What the header of an array says.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Header {
    /// As it stands there.
    descr: String,
    dtype: DType,
    is_big_endian: bool,
    is_fortran: bool,
    shape: Vec<u64>,
    /// Where the elements begin.
    data: u64,
}

impl Header {
    /// Of the first bytes of an array.
    fn parse(front: &[u8]) -> std::result::Result<Header, (u64, String)> {
        let wrong = |at: u64, message: &str| Err((at, message.to_string()));
        if front.len() < 10 || front[..6] != *b"\x93NUMPY" {
            return wrong(0, "should begin with \\x93NUMPY, a version and the length of the header");
        }
        let (begins, len) = match front[6] {
            1 => (10, u64::from(u16::from_le_bytes([front[8], front[9]]))),
            2 | 3 if front.len() >= 12 => {
                (12, u64::from(u32::from_le_bytes([front[8], front[9], front[10], front[11]])))
            }
            version => return Err((6, format!("is of version {version}; versions 1 to 3 are read"))),
        };
        let data = begins as u64 + len;
        if len > HEADER_BYTES_MAX || data > front.len() as u64 {
            return Err((
                8,
                format!(
                    "the header should be {len} bytes; at most {HEADER_BYTES_MAX} are read, and {} follow",
                    front.len() - begins
                ),
            ));
        }
        let text = String::from_utf8_lossy(&front[begins..data as usize]);
        let mut words = Words { text: &text, at: 0 };
        let fields = words.header().map_err(|why| (begins as u64 + words.at as u64, why))?;
        let (descr, is_fortran, shape) = fields;
        let (is_big_endian, dtype) = type_of(&descr).map_err(|why| (begins as u64, why))?;
        Ok(Header { descr, dtype, is_big_endian, is_fortran, shape, data })
    }

    /// Shape and strides of the elements, and their bytes.
    fn layout(&self) -> std::result::Result<(Layout, usize), String> {
        let (shape, bytes) = checked_shape(&self.shape, self.dtype)?;
        let mut layout = row_major(self.dtype, &shape);
        if self.is_fortran {
            let turned: Vec<i64> = layout.shape.iter().rev().copied().collect();
            let strides = Shape::from(turned).row_major_strides();
            layout.strides = strides.iter().rev().map(Dim::max_value).collect();
        }
        Ok((layout, bytes))
    }
}

/// Byte order and type of NumPy's letters.
fn type_of(descr: &str) -> std::result::Result<(bool, DType), String> {
    let (is_big, letters) = match descr.strip_prefix('>') {
        Some(letters) => (true, letters),
        None => (false, descr.trim_start_matches(['<', '|', '='])),
    };
    match TYPES.iter().find(|(known, _)| *known == letters) {
        Some((_, dtype)) => Ok((is_big, *dtype)),
        None if letters.starts_with('O') => {
            Err(format!("elements of type `{descr}` are Python objects, which are never read; save numbers"))
        }
        None => {
            let known: Vec<&str> = TYPES.iter().map(|(known, _)| *known).collect();
            Err(format!("no tensor has elements of type `{descr}`; they may be {}", known.join(", ")))
        }
    }
}

/// A header's text: a Python dictionary of three entries.
struct Words<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Words<'t> {
    fn rest(&mut self) -> &'t str {
        let rest = &self.text[self.at..];
        let trimmed = rest.trim_start();
        self.at += rest.len() - trimmed.len();
        trimmed
    }

    fn is_next(&mut self, word: &str) -> bool {
        let found = self.rest().starts_with(word);
        if found {
            self.at += word.len();
        }
        found
    }

    fn expect(&mut self, word: &str) -> std::result::Result<(), String> {
        if self.is_next(word) { Ok(()) } else { Err(format!("the header should have `{word}` here")) }
    }

    fn quoted(&mut self) -> std::result::Result<&'t str, String> {
        let rest = self.rest();
        let mark = rest.chars().next().filter(|mark| ['\'', '"'].contains(mark));
        let mark = mark.ok_or("the header should have a text in quotes here")?;
        let text = rest[1..].split(mark).next().unwrap_or_default();
        if rest.len() < text.len() + 2 {
            return Err("the header has a text without an end here".to_string());
        }
        self.at += text.len() + 2;
        Ok(text)
    }

    /// Lengths in brackets.
    fn shape(&mut self) -> std::result::Result<Vec<u64>, String> {
        self.expect("(")?;
        let mut shape = Vec::new();
        while !self.is_next(")") {
            let rest = self.rest();
            let digits = &rest[..rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len())];
            let len =
                digits.parse().map_err(|_| "the header should have a length here, a number or `)`".to_string())?;
            shape.push(len);
            self.at += digits.len();
            self.is_next("L"); // Python 2
            if !self.is_next(",") {
                self.expect(")")?;
                break;
            }
        }
        Ok(shape)
    }

    /// `descr`, `fortran_order` and `shape`.
    fn header(&mut self) -> std::result::Result<(String, bool, Vec<u64>), String> {
        let (mut descr, mut order, mut shape) = (None, None, None);
        self.expect("{")?;
        while !self.is_next("}") {
            let key = self.quoted()?;
            self.expect(":")?;
            match key {
                "descr" if self.rest().starts_with('[') => {
                    return Err("elements of several fields are no tensor; save each field by itself".to_string());
                }
                "descr" => descr = Some(self.quoted()?.to_string()),
                "fortran_order" if self.is_next("True") => order = Some(true),
                "fortran_order" if self.is_next("False") => order = Some(false),
                "shape" => shape = Some(self.shape()?),
                _ => {
                    return Err(
                        "the header should have `descr`, `fortran_order` (True or False) and `shape` alone".to_string()
                    );
                }
            }
            if !self.is_next(",") {
                self.expect("}")?;
                break;
            }
        }
        match (descr, order, shape) {
            (Some(descr), Some(order), Some(shape)) => Ok((descr, order, shape)),
            _ => Err("the header should have `descr`, `fortran_order` and `shape`".to_string()),
        }
    }
}

/// The array of a `.npy` file, or those of a `.npz`.
///
/// # Errors
/// If there is no such file, or it is damaged.
pub fn load(path: impl AsRef<Path>) -> Result<Dictionary> {
    super::read(&Input::open(path)?)
}

/// The array of a `.npy` file that is open, under the name `array`.
///
/// # Errors
/// If it is damaged.
pub fn read(input: &Arc<Input>) -> Result<Dictionary> {
    let front = input.bytes_at(0, input.len().min(HEADER_BYTES_MAX + 12), HEADER_BYTES_MAX + 12, "the header")?;
    let header = Header::parse(&front).map_err(|(at, why)| input.error(at, why))?;
    let (layout, bytes) = header.layout().map_err(|why| input.error(header.data, why))?;
    check_end(input.name(), header.data, bytes as u64, input.len())?;
    let change = change_of(header.dtype, header.is_big_endian);
    let part = FilePart::new(input, header.data, bytes, change, "the elements")?;
    let entry = entry("array", input.name(), header.data, &header, bytes, laid_out(Arc::new(part), &layout));
    Ok(Dictionary::new(input.name(), vec![entry], Default::default()))
}

/// Refuses elements that are not all that follows the header.
fn check_end(file: &str, data: u64, bytes: u64, end: u64) -> std::result::Result<(), FileError> {
    if end - data == bytes {
        return Ok(());
    }
    let message = format!("the elements should be {bytes} bytes, and {} follow the header", end - data);
    Err(FileError { file: file.to_string(), offset: data, message })
}

fn entry(name: &str, file: &str, offset: u64, header: &Header, bytes: usize, stored: Tensor) -> Entry {
    let tensor = if header.descr.ends_with(E5M2) { float8::from_e5m2(&stored) } else { stored.clone() };
    Entry {
        name: name.to_string(),
        dtype: header.descr.clone(),
        shape: header.shape.iter().map(|&len| len as usize).collect(),
        bytes: bytes as u64,
        offset,
        file: file.to_string(),
        stored,
        tensor,
    }
}

/// The arrays of an archive. Other members are left alone.
#[cfg(feature = "archives")]
pub(super) fn read_archive(archive: &Archive) -> Result<Dictionary> {
    let mut entries = Vec::new();
    for member in &archive.members {
        let Some(name) = member.name.strip_suffix(".npy") else { continue };
        let file = format!("{} in {}", member.name, archive.input.name());
        let at = |(offset, message): (u64, String)| FileError { file: file.clone(), offset, message };
        let header = Header::parse(&archive.front(member, HEADER_BYTES_MAX + 12)?).map_err(at)?;
        let (layout, bytes) = header.layout().map_err(|why| at((header.data, why)))?;
        check_end(&file, header.data, bytes as u64, member.bytes)?;
        let source = archive.source(member, header.data, change_of(header.dtype, header.is_big_endian))?;
        entries.push(entry(name, archive.input.name(), member.at, &header, bytes, laid_out(source, &layout)));
    }
    Ok(Dictionary::new(archive.input.name(), entries, Default::default()))
}

/// The header of an array, so long that the elements begin at a multiple of 64.
fn header_of(tensor: &Tensor, small: Option<SmallFloat>) -> Result<Vec<u8>> {
    let (dtype, dims) = (tensor.dtype()?, tensor.dims()?);
    let own = TYPES.iter().find(|(_, known)| *known == dtype).map_or(CODES, |(letters, _)| *letters);
    let (order, letters) = match small {
        Some(SmallFloat::E5M2) => ('<', E5M2),
        Some(_) => ('<', CODES),
        None => (if dtype.bytes() == 1 { '|' } else { '<' }, own),
    };
    if !dims.is_concrete() {
        return Err(tensor.refused_call("save", "a file has numbers for lengths, not variables"));
    }
    let lengths: Vec<String> = tensor.shape()?.iter().map(|len| format!("{len},")).collect();
    // As NumPy writes it: `(3, 4)`, and `(3,)` for one axis.
    let mut shape = lengths.join(" ");
    if lengths.len() > 1 {
        shape.pop();
    }
    let text = format!("{{'descr': '{order}{letters}', 'fortran_order': False, 'shape': ({shape}), }}");
    let is_long = text.len() > usize::from(u16::MAX) - 128;
    let begins = if is_long { 12 } else { 10 };
    let len = (begins + text.len() + 1).next_multiple_of(64) - begins;
    let mut header = b"\x93NUMPY".to_vec();
    header.extend(if is_long { [2, 0] } else { [1, 0] });
    if is_long {
        header.extend((len as u32).to_le_bytes());
    } else {
        header.extend((len as u16).to_le_bytes());
    }
    header.extend(text.as_bytes());
    header.resize(begins + len - 1, b' ');
    header.push(b'\n');
    Ok(header)
}

fn write_array(file: &mut impl Write, tensor: &Tensor, small: Option<SmallFloat>, path: &Path) -> Result<()> {
    file.write_all(&header_of(tensor, small)?).map_err(failed(path))?;
    file.write_all(&tensor.to_bytes()?).map_err(failed(path))
}

/// Writes one tensor as `.npy`. The file is replaced when all is written.
///
/// # Errors
/// If the tensor carries one, cannot be computed or has variables in its shape, or the file cannot be written.
pub fn save(path: impl AsRef<Path>, tensor: &Tensor) -> Result<()> {
    let path = path.as_ref();
    replace(path, |file: &mut BufWriter<_>| write_array(file, tensor, None, path))
}

/// As [`save`], in a small float type, one number a byte, as NumPy writes arrays of the package `ml_dtypes`: floats are rounded to it, and bytes of `u8` are
/// taken as its codes. Of types other than E5M2 such a file does not say which it is: reading gives the codes.
///
/// ```
/// # use warpweft::{Tensor, formats::numpy, tensor::SmallFloat};
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("small.npy");
/// numpy::save_as(&path, &Tensor::from_vec(vec![0.3f32, -17.0, 500.0], [3]), SmallFloat::E4M3FN)?;
/// let codes = numpy::load(&path)?.tensor("array")?;
/// assert_eq!(codes.decode_small(SmallFloat::E4M3FN).to_vec::<f32>()?, [0.3125, -16.0, 448.0]);
/// # Ok::<(), warpweft::Error>(())
/// ```
///
/// # Errors
/// As [`save`], and if the elements are neither floats nor `u8`.
pub fn save_as(path: impl AsRef<Path>, tensor: &Tensor, to: SmallFloat) -> Result<()> {
    let (path, codes) = (path.as_ref(), float8::codes(tensor, to)?);
    replace(path, |file: &mut BufWriter<_>| write_array(file, &codes, Some(to), path))
}

/// Writes tensors as `.npz`, as they are and not deflated. The file is replaced when all is written.
///
/// # Errors
/// As [`save`], and if two have one name.
#[cfg(feature = "archives")]
pub fn save_archive<'t>(
    path: impl AsRef<Path>,
    tensors: impl IntoIterator<Item = (&'t str, &'t Tensor)>,
) -> Result<()> {
    use zip::write::SimpleFileOptions;

    let path = path.as_ref();
    let of_zip = |error: zip::result::ZipError| failed(path)(std::io::Error::other(error.to_string()));
    replace(path, |file| {
        let mut archive = zip::ZipWriter::new(file);
        let options = SimpleFileOptions::default().compression_method(zip::CompressionMethod::STORE).large_file(true);
        for (name, tensor) in tensors {
            archive.start_file(format!("{name}.npy"), options).map_err(of_zip)?;
            write_array(&mut archive, tensor, None, path)?;
        }
        archive.finish().map_err(of_zip)?;
        Ok(())
    })
}
