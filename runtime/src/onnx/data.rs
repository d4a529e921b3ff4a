//! Values in files of their own, as the format's test data has them: a tensor, a sequence or an optional a file.

use std::path::Path;

use prost::Message;

use super::element::ElementType;
use super::error::Error;
use super::evaluate::value_of;
use super::graph::Kind;
use super::read::Reader;
use super::value::{Array, Value};
use super::{Result, proto};

/// The value of a file's bytes, which must be of this kind (a tensor, if it is not known); `name` stands for the file in errors.
///
/// # Errors
/// If the bytes are no such value.
pub fn read_value(name: &str, bytes: &[u8], kind: Option<&Kind>) -> Result<Value> {
    let reader = Reader { file: Path::new(name), folder: None };
    let wrong = |message: String| Error::Format { file: name.into(), message };
    let undecoded = |error: prost::DecodeError| wrong(format!("this is no value of the ONNX format: {error}"));
    match kind {
        Some(Kind::Sequence(_)) => sequence(&reader, &proto::Sequence::decode(bytes).map_err(undecoded)?),
        Some(Kind::Optional(of)) => {
            let optional = proto::Optional::decode(bytes).map_err(undecoded)?;
            match (&optional.tensor_value, &optional.sequence_value, &**of) {
                (Some(value), ..) => tensor(&reader, value),
                (None, Some(value), _) => sequence(&reader, value),
                // A sequence without elements leaves no trace in the file.
                (None, None, Kind::Sequence(_)) if optional.elem_type == Some(3) => Ok(Value::Sequence(Vec::new())),
                (None, None, _) => Ok(Value::Nothing),
            }
        }
        Some(Kind::Other(name)) => Err(wrong(format!("a value of type {name} is not read"))),
        Some(Kind::Tensor { .. }) | None => tensor(&reader, &proto::Tensor::decode(bytes).map_err(undecoded)?),
    }
}

fn tensor(reader: &Reader<'_>, tensor: &proto::Tensor) -> Result<Value> {
    let name = tensor.name.clone().unwrap_or_default();
    let constant = reader.constant(tensor, &format!("tensor '{name}'"))?;
    let failed =
        |_| Error::Format { file: reader.file.to_path_buf(), message: format!("the tensor '{name}' cannot be made") };
    Ok(match value_of(&constant).map_err(failed)? {
        Value::Tensor(array) => Value::Tensor(Array { known: None, ..array }),
        other => other,
    })
}

fn sequence(reader: &Reader<'_>, sequence: &proto::Sequence) -> Result<Value> {
    let tensors = sequence.tensor_values.iter().map(|value| tensor(reader, value));
    let sequences = sequence.sequence_values.iter().map(|value| self::sequence(reader, value));
    let optionals = sequence.optional_values.iter().map(|value| match (&value.tensor_value, &value.sequence_value) {
        (Some(value), _) => tensor(reader, value),
        (None, Some(value)) => self::sequence(reader, value),
        (None, None) => Ok(Value::Nothing),
    });
    Ok(Value::Sequence(tensors.chain(sequences).chain(optionals).collect::<Result<_>>()?))
}

/// A tensor, as a file of its own has it.
///
/// # Errors
/// If it has no value, or the value is no tensor.
pub fn write_value(name: &str, value: &Value) -> Result<Vec<u8>> {
    let mut message = proto::Tensor { name: Some(name.to_string()), ..proto::Tensor::default() };
    match value {
        Value::Tensor(array) => {
            message.dims = array.tensor.shape()?.iter().map(|&length| length as i64).collect();
            message.data_type = Some(array.element.code());
            message.raw_data = Some(packed(array)?);
        }
        Value::Text(shape, texts) => {
            message.dims = shape.iter().map(|&length| length as i64).collect();
            message.data_type = Some(ElementType::Text.code());
            message.string_data = texts.iter().map(|text| text.clone().into_bytes()).collect();
        }
        other => {
            let message = format!("{} is no tensor", other.description());
            return Err(Error::Format { file: name.into(), message });
        }
    }
    Ok(message.encode_to_vec())
}

/// The bytes of a tensor's elements in a file.
fn packed(array: &Array) -> Result<Vec<u8>> {
    let bytes = array.tensor.to_bytes()?;
    let codes: Vec<u8> = match array.element {
        ElementType::Plain(_) | ElementType::Text => return Ok(bytes),
        ElementType::Signed(_) | ElementType::Unsigned(_) => bytes,
        // A number that the type does not have cannot be in such a tensor; it would be written as 0.
        ElementType::Small(float) => {
            array.tensor.to_vec::<f32>()?.into_iter().map(|number| float.encode(number).unwrap_or(0)).collect()
        }
    };
    let bits = array.element.bits().unwrap_or(8);
    let mut packed = vec![0u8; (codes.len() * bits).div_ceil(8)];
    for (at, code) in codes.into_iter().enumerate() {
        let code = if bits < 8 { code & ((1 << bits) - 1) } else { code };
        packed[at * bits / 8] |= code << (at * bits % 8);
    }
    Ok(packed)
}
