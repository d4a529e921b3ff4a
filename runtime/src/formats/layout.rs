//! From what a header says of a tensor to the tensor: sizes and offsets checked, elements changed to those of memory.

use std::panic::Location;
use std::sync::Arc;

use warpweft_compiler::DType;
use warpweft_compiler::ir::Shape;
use warpweft_devices::FileError;
use warpweft_devices::dlpack::Layout;

use crate::memory::{Change, FilePart, Input, Source};
use crate::tensor::Tensor;
use crate::tensor::files::{bytes_of, row_major};

/// The most axes that a tensor of a file has.
pub(crate) const AXES_MAX: usize = 64;

/// Lengths of axes as a shape, and the bytes of its elements.
pub(crate) fn checked_shape(lengths: &[u64], dtype: DType) -> Result<(Shape, usize), String> {
    if lengths.len() > AXES_MAX {
        return Err(format!("{} axes are more than the {AXES_MAX} that there may be", lengths.len()));
    }
    let wrong = |len: &u64| format!("no axis is {len} long");
    let signed = lengths.iter().map(|len| i64::try_from(*len).map_err(|_| wrong(len)));
    let shape = Shape::from(signed.collect::<Result<Vec<i64>, String>>()?);
    let bytes = bytes_of(dtype, &shape)?;
    Ok((shape, bytes))
}

/// What happens to elements of that type on their way from the file.
pub(crate) fn change_of(dtype: DType, is_big_endian: bool) -> Change {
    match dtype {
        _ if dtype.is_bool() => Change::Bools,
        _ if is_big_endian && dtype.bytes() > 1 => Change::Swap(dtype.bytes()),
        _ => Change::None,
    }
}

/// Elements that lie in a row in a file.
pub(crate) fn tensor_at(
    input: &Arc<Input>,
    offset: u64,
    dtype: DType,
    lengths: &[u64],
    what: &str,
) -> Result<Tensor, FileError> {
    let (shape, bytes) = checked_shape(lengths, dtype).map_err(|why| input.error(offset, format!("{what}: {why}")))?;
    let part = FilePart::new(input, offset, bytes, change_of(dtype, false), what)?;
    Ok(laid_out(Arc::new(part), &row_major(dtype, &shape)))
}

/// The tensor of a source.
#[track_caller]
pub(crate) fn laid_out(source: Arc<dyn Source>, layout: &Layout) -> Tensor {
    Tensor::of_source("load", source, layout, Location::caller())
}

/// Refuses ranges of a file that overlap: `(first byte, bytes, name)`.
pub(crate) fn check_apart(input: &Input, mut ranges: Vec<(u64, u64, &str)>) -> Result<(), FileError> {
    ranges.retain(|(_, bytes, _)| *bytes > 0);
    ranges.sort_unstable();
    for pair in ranges.windows(2) {
        let [(first, bytes, name), (second, _, other)] = [pair[0], pair[1]];
        if first + bytes > second {
            let message = format!(
                "`{other}` begins inside of `{name}`, which is {bytes} bytes from byte {first} on; data may not overlap"
            );
            return Err(input.error(second, message));
        }
    }
    Ok(())
}
