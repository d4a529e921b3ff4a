//! Data of tensors: as fields of a message, as bytes of it, in another file, or sparse.
//!
//! Elements of few bits lie packed; each becomes one of the type that it is held in, or a byte. Data in other files stays below the model's folder.
//!
//! Always: lengths fit the data that is there before anything is made of it.

use std::path::{Component, Path};
use std::sync::Arc;

use warpweft_compiler::dtype::Elements;

use super::{Read, Reader};
use crate::DType;
use crate::onnx::element::ElementType;
use crate::onnx::error::Error;
use crate::onnx::graph::{Constant, Data};
use crate::onnx::{proto, value};
use crate::tensor::Tensor;

/// Constants of at most as many elements are known while programs are built.
const KNOWN_MAX: usize = 1024;

impl Reader<'_> {
    /// The data of a tensor.
    pub(in crate::onnx) fn constant(&self, tensor: &proto::Tensor, part: &str) -> Read<Constant> {
        let code = tensor.data_type.unwrap_or(0);
        let Some(element) = ElementType::from_code(code) else {
            return self.wrong(format!("{part}: elements of type {code} ({}) are not held", unheld(code)));
        };
        let count = tensor.dims.iter().try_fold(1usize, |count, &dim| count.checked_mul(usize::try_from(dim).ok()?));
        let Some(count) = count.filter(|&count| count <= isize::MAX as usize / 16) else {
            return self.wrong(format!("{part}: there is no tensor of shape {:?}", tensor.dims));
        };
        let shape: Vec<usize> = tensor.dims.iter().map(|&dim| dim as usize).collect();
        let data = match (element.dtype(), element.bits()) {
            (Some(dtype), Some(bits)) => {
                let codes = self.bytes(tensor, element, bits, count, part)?;
                match element {
                    // Many stay a byte each, which the kernels that use them read.
                    ElementType::Small(float) if count > KNOWN_MAX => {
                        Data::Bound(Tensor::from_bytes(None, DType::U8, shape.clone(), &codes).decode_small(float))
                    }
                    ElementType::Small(float) => {
                        let numbers = codes.into_iter().flat_map(|code| float.decode(code).to_le_bytes());
                        data_of(dtype, &shape, count, &numbers.collect::<Vec<u8>>())
                    }
                    _ => data_of(dtype, &shape, count, &codes),
                }
            }
            _ => Data::Text(self.texts(tensor, count, part)?),
        };
        if let Data::Bound(tensor) = &data {
            tensor.dtype().map_err(Error::Tensor)?;
        }
        Ok(Constant { element, shape, data })
    }

    fn texts(&self, tensor: &proto::Tensor, count: usize, part: &str) -> Read<Arc<Vec<String>>> {
        if tensor.string_data.len() != count {
            let given = tensor.string_data.len();
            return self.wrong(format!("{part}: {given} texts are given for {count} elements"));
        }
        let texts = tensor.string_data.iter().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        Ok(Arc::new(texts.collect()))
    }

    /// Little-endian bytes of elements as they are held; of small floats a code each.
    fn bytes(
        &self,
        tensor: &proto::Tensor,
        element: ElementType,
        bits: usize,
        count: usize,
        part: &str,
    ) -> Read<Vec<u8>> {
        let needed = (count * bits).div_ceil(8);
        let external;
        let raw = if tensor.data_location == Some(1) {
            external = self.external(tensor, part)?;
            Some(&external)
        } else {
            tensor.raw_data.as_ref()
        };
        if let Some(raw) = raw {
            if raw.len() != needed {
                let given = raw.len();
                return self.wrong(format!(
                    "{part}: {count} elements of {element} take {needed} bytes, and {given} are given"
                ));
            }
            return Ok(widened(element, raw, count));
        }
        let packed: Vec<u8> = match element {
            ElementType::Plain(DType::F32) => tensor.float_data.iter().flat_map(|value| value.to_le_bytes()).collect(),
            ElementType::Plain(DType::F64) => tensor.double_data.iter().flat_map(|value| value.to_le_bytes()).collect(),
            ElementType::Plain(DType::I64) => tensor.int64_data.iter().flat_map(|value| value.to_le_bytes()).collect(),
            ElementType::Plain(DType::U64 | DType::U32) => {
                let width = bits / 8;
                tensor.uint64_data.iter().flat_map(|value| value.to_le_bytes().into_iter().take(width)).collect()
            }
            _ => {
                let width = bits.div_ceil(8);
                tensor.int32_data.iter().flat_map(|value| value.to_le_bytes().into_iter().take(width)).collect()
            }
        };
        if packed.len() != needed {
            let given = packed.len() * 8 / bits;
            return self
                .wrong(format!("{part}: {given} elements are given for the {count} of shape {:?}", tensor.dims));
        }
        Ok(widened(element, &packed, count))
    }

    /// The bytes of a tensor that lie in another file.
    fn external(&self, tensor: &proto::Tensor, part: &str) -> Read<Vec<u8>> {
        let entry = |key: &str| {
            let found = tensor.external_data.iter().find(|entry| entry.key.as_deref() == Some(key));
            found.and_then(|entry| entry.value.clone())
        };
        let Some(location) = entry("location") else {
            return self.wrong(format!("{part}: its data is external, and no location is said"));
        };
        let Some(folder) = &self.folder else {
            return self
                .wrong(format!("{part}: its data is in the file {location}, and a model of bytes has no folder"));
        };
        let inside =
            Path::new(&location).components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        let path = folder.join(&location);
        let real = path.canonicalize();
        let stays = match (&real, folder.canonicalize()) {
            (Ok(real), Ok(folder)) => real.starts_with(folder),
            _ => true,
        };
        if !inside || !stays {
            return self
                .wrong(format!("{part}: its data is in {location}, and must lie below the folder of the model"));
        }
        let number = |key: &str| match entry(key) {
            None => Ok(None),
            Some(text) => match text.parse::<u64>() {
                Ok(number) => Ok(Some(number)),
                Err(_) => self.wrong(format!("{part}: its {key} is {text:?}, and must be a number of bytes")),
            },
        };
        let (offset, length) = (number("offset")?.unwrap_or(0), number("length")?);
        read_part(&path, offset, length)
            .map_err(|error| Error::File { file: path, message: format!("{error}, for {part}") })
    }

    /// The dense form of a sparse tensor.
    pub(super) fn sparse(&self, sparse: &proto::SparseTensor, part: &str) -> Read<Constant> {
        let (Some(values), Some(indices)) = (&sparse.values, &sparse.indices) else {
            return self.wrong(format!("{part} has no values or no indices"));
        };
        let (values, indices) = (self.constant(values, part)?, self.constant(indices, part)?);
        let shape: Option<Vec<usize>> = sparse.dims.iter().map(|&dim| usize::try_from(dim).ok()).collect();
        let count = shape.as_ref().and_then(|shape| shape.iter().try_fold(1usize, |n, &dim| n.checked_mul(dim)));
        let (Some(shape), Some(count)) = (shape, count.filter(|&count| count <= 1 << 28)) else {
            return self.wrong(format!("{part}: there is no tensor of shape {:?}", sparse.dims));
        };
        let (Data::Known(numbers), Data::Known(indices)) = (&values.data, &indices.data) else {
            return self.wrong(format!("{part}: sparse data of more than {KNOWN_MAX} elements, or text, is not read"));
        };
        let dtype = values.element.dtype().unwrap_or(DType::F32);
        let width = dtype.bytes();
        let rank = if indices.len() == numbers.len() { 1 } else { shape.len().max(1) };
        let indices = value::integers(indices).unwrap_or_default();
        if indices.len() != numbers.len() * rank {
            return self.wrong(format!("{part}: {} indices for {} values", indices.len(), numbers.len()));
        }
        let mut dense = vec![0u8; count.saturating_mul(width)];
        let bytes = numbers.to_bytes();
        for (number, at) in indices.chunks_exact(rank).enumerate() {
            let flat = if rank == 1 {
                usize::try_from(at[0]).ok()
            } else {
                let along = |flat: usize, (&at, &dim): (&i64, &usize)| {
                    usize::try_from(at).ok().filter(|&at| at < dim).map(|at| flat * dim + at)
                };
                at.iter().zip(&shape).try_fold(0usize, along)
            };
            let Some(flat) = flat.filter(|&flat| flat < count) else {
                return self.wrong(format!("{part}: the index {at:?} is outside of the shape {shape:?}"));
            };
            dense[flat * width..][..width].copy_from_slice(&bytes[number * width..][..width]);
        }
        Ok(Constant { element: values.element, data: data_of(dtype, &shape, count, &dense), shape })
    }
}

fn data_of(dtype: DType, shape: &[usize], count: usize, bytes: &[u8]) -> Data {
    match Elements::from_bytes(dtype, bytes) {
        Some(elements) if count <= KNOWN_MAX => Data::Known(Arc::new(elements)),
        _ => Data::Bound(Tensor::from_bytes(None, dtype, shape.to_vec(), bytes)),
    }
}

/// What a type is called whose elements are not held.
pub(super) fn unheld(code: i32) -> &'static str {
    match code {
        14 => "complex64",
        15 => "complex128",
        27 => "float6e2m3",
        28 => "float6e3m2",
        0 => "undefined",
        _ => "unknown",
    }
}

/// Bytes of elements as they lie in a file, in those of the type that they are held in; of small floats a code each.
fn widened(element: ElementType, packed: &[u8], count: usize) -> Vec<u8> {
    let bits = element.bits().unwrap_or(8);
    let code = |at: usize| match bits {
        8 => packed[at],
        _ => packed[at * bits / 8] >> (at * bits % 8) & ((1 << bits) - 1),
    };
    match element {
        ElementType::Plain(_) | ElementType::Text => packed.to_vec(),
        ElementType::Unsigned(_) | ElementType::Small(_) => (0..count).map(code).collect(),
        ElementType::Signed(_) => {
            let sign = 1u8 << (bits - 1);
            (0..count).map(|at| (code(at) ^ sign).wrapping_sub(sign)).collect()
        }
    }
}

/// Part of a file: all of it from the offset on without a length.
fn read_part(path: &Path, offset: u64, length: Option<u64>) -> std::io::Result<Vec<u8>> {
    use std::io::{Error, ErrorKind, Read, Seek, SeekFrom};
    let mut file = std::fs::File::open(path)?;
    let size = file.metadata()?.len();
    let length = length.unwrap_or(size.saturating_sub(offset));
    if offset.checked_add(length).is_none_or(|end| end > size) {
        let message = format!("{length} bytes from {offset} on are wanted, and the file has {size}");
        return Err(Error::new(ErrorKind::UnexpectedEof, message));
    }
    file.seek(SeekFrom::Start(offset))?;
    let mut bytes = Vec::new();
    file.take(length).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_small_floats_stay_bytes() {
        let codes: Vec<u8> = (0..=255).cycle().take(2048).collect();
        let tensor = proto::Tensor {
            dims: vec![2048],
            data_type: Some(17),
            raw_data: Some(codes.clone()),
            ..proto::Tensor::default()
        };
        let reader = Reader { file: Path::new("model.onnx"), folder: None };
        let Ok(Constant { data: Data::Bound(found), .. }) = reader.constant(&tensor, "here") else {
            panic!("it is bound");
        };
        assert!(!found.is_realized(), "its bytes were made numbers");
        let numbers = found.to_vec::<f32>().expect("its numbers");
        let is_right = |(code, found): (&u8, f32)| {
            let wanted = crate::tensor::SmallFloat::E4M3FN.decode(*code);
            found.to_bits() == wanted.to_bits() || found.is_nan() && wanted.is_nan()
        };
        assert!(codes.iter().zip(numbers).all(is_right));
    }

    #[test]
    fn numbers_of_few_bits_lie_lowest_first_and_keep_their_sign() {
        let four = widened(ElementType::Signed(4), &[0x7f, 0x08, 0x01], 5);
        assert_eq!(four, [-1i8, 7, -8, 0, 1].map(|number| number as u8));
        let two = widened(ElementType::Signed(2), &[0b11_10_01_00], 4);
        assert_eq!(two, [0i8, 1, -2, -1].map(|number| number as u8));
        assert_eq!(widened(ElementType::Unsigned(4), &[0x7f, 0x08], 3), [15, 7, 8]);
    }
}
