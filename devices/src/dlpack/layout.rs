//! What a capsule says of its memory, as plain numbers, checked: the type of an element, lengths, strides, where the first element is.

use warpweft_compiler::DType;

use super::abi::{BFLOAT, BOOL, DLDataType, FLOAT, INT, UINT};

/// Why a capsule cannot be taken or made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DlpackError {
    /// Another layout than ours.
    #[error("the capsule is of DLPack version {major}.{minor}; versions 0 and 1 can be read")]
    Version {
        /// Major version.
        major: u32,
        /// Minor version.
        minor: u32,
    },
    /// Memory that is neither the host's nor a GPU's.
    #[error(
        "the memory is on a device of type {device_type}, not on the CPU (type 1) or a GPU (type 2): copy it there first"
    )]
    Device {
        /// The standard's number of the device type.
        device_type: i32,
    },
    /// A type of element that tensors do not have.
    #[error(
        "elements of type code {code} with {bits} bits and {lanes} lanes cannot be held: bool, integers of 8 to 64 bits, f16, bf16, f32 and f64 can"
    )]
    Element {
        /// The standard's code of the kind of number.
        code: u8,
        /// Bits.
        bits: u8,
        /// Lanes.
        lanes: u16,
    },
    /// Lengths, strides or an address that make no sense.
    #[error("the capsule makes no sense: {message}")]
    Layout {
        /// What is wrong.
        message: String,
    },
}

pub(super) fn wrong<T>(message: impl Into<String>) -> Result<T, DlpackError> {
    Err(DlpackError::Layout { message: message.into() })
}

/// A strided array in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Type of an element.
    pub dtype: DType,
    /// Lengths of the axes.
    pub shape: Vec<i64>,
    /// Elements between neighbours along each axis; may be negative or 0.
    pub strides: Vec<i64>,
    /// Number of the first element, counted from the begin of the memory.
    pub offset: i64,
}

impl Layout {
    /// The least and the largest number of elements by which an element is away from the first; `None` if there are no elements.
    ///
    /// # Errors
    /// If the lengths or strides make no sense, or reach further than memory does.
    pub(super) fn reach(&self) -> Result<Option<(i64, i64)>, DlpackError> {
        if self.shape.len() != self.strides.len() {
            return wrong(format!("{} lengths but {} strides", self.shape.len(), self.strides.len()));
        }
        if let Some(len) = self.shape.iter().find(|len| **len < 0) {
            return wrong(format!("the length {len} is negative"));
        }
        if self.shape.contains(&0) {
            return Ok(None);
        }
        let (mut low, mut high) = (0i128, 0i128);
        for (len, stride) in self.shape.iter().zip(&self.strides) {
            let distance = i128::from(len - 1) * i128::from(*stride);
            (low, high) = (low.saturating_add(distance.min(0)), high.saturating_add(distance.max(0)));
        }
        let bytes = high.saturating_sub(low).saturating_add(1).saturating_mul(self.dtype.bytes() as i128);
        if bytes > isize::MAX as i128 {
            return wrong(format!("lengths {:?} with strides {:?} reach too far", self.shape, self.strides));
        }
        Ok(Some((low as i64, high as i64)))
    }
}

/// Strides of row-major order.
pub(super) fn row_major(shape: &[i64]) -> Vec<i64> {
    let mut strides = vec![1i64; shape.len()];
    for axis in (0..shape.len().saturating_sub(1)).rev() {
        strides[axis] = strides[axis + 1].saturating_mul(shape[axis + 1]);
    }
    strides
}

/// Our types and the standard's.
const ELEMENTS: [(DType, u8, u8); 13] = [
    (DType::BOOL, BOOL, 8),
    (DType::I8, INT, 8),
    (DType::I16, INT, 16),
    (DType::I32, INT, 32),
    (DType::I64, INT, 64),
    (DType::U8, UINT, 8),
    (DType::U16, UINT, 16),
    (DType::U32, UINT, 32),
    (DType::U64, UINT, 64),
    (DType::F16, FLOAT, 16),
    (DType::BF16, BFLOAT, 16),
    (DType::F32, FLOAT, 32),
    (DType::F64, FLOAT, 64),
];

/// Our type of an element.
pub(super) fn dtype_of(element: DLDataType) -> Result<DType, DlpackError> {
    let DLDataType { code, bits, lanes } = element;
    let found = ELEMENTS.iter().find(|(_, own, width)| (*own, *width, 1) == (code, bits, lanes));
    found.map(|(dtype, ..)| *dtype).ok_or(DlpackError::Element { code, bits, lanes })
}

/// The standard's type of an element.
pub(super) fn element_of(dtype: DType) -> Result<DLDataType, DlpackError> {
    match ELEMENTS.iter().find(|(own, ..)| *own == dtype) {
        Some((_, code, bits)) => Ok(DLDataType { code: *code, bits: *bits, lanes: 1 }),
        None => wrong(format!("elements of {dtype} have no name in DLPack")),
    }
}
