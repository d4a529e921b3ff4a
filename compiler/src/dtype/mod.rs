//! Element types: names, sizes, promotion ([`lattice`]) and constants bit for bit ([`scalar`]).
//!
//! A [`DType`] is a scalar type with a lane count: `f32` has one lane, `f32x16` is a vector of 16. Tensors have one lane; vectors
//! appear only inside kernels. `Index` is the type of index arithmetic: a mathematical integer while rules run, made `i32` or
//! `i64` before rendering.

pub mod arithmetic;
pub mod elements;
mod last_place;
pub mod lattice;
pub mod scalar;

use std::fmt;

pub use elements::Elements;
pub use last_place::error_in_last_places;
pub use lattice::{join, promote};
pub use scalar::Scalar;

/// The type of one element, without lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum ScalarType {
    /// No value: what stores, loops and sinks give.
    Void,
    /// True or false, one byte in memory.
    Bool,
    /// Index arithmetic inside the compiler; never in memory.
    Index,
    /// Signed 8-bit integer.
    I8,
    /// Signed 16-bit integer.
    I16,
    /// Signed 32-bit integer.
    I32,
    /// Signed 64-bit integer.
    I64,
    /// Unsigned 8-bit integer.
    U8,
    /// Unsigned 16-bit integer.
    U16,
    /// Unsigned 32-bit integer.
    U32,
    /// Unsigned 64-bit integer.
    U64,
    /// IEEE half precision.
    F16,
    /// The upper half of an `f32`.
    BF16,
    /// IEEE single precision.
    F32,
    /// IEEE double precision.
    F64,
}

use ScalarType::*;

/// The type of a value: a scalar type and how many lanes of it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DType {
    scalar: ScalarType,
    lanes: u16,
}

macro_rules! dtype_constants {
    ($($(#[$doc:meta])* $name:ident = $scalar:ident;)*) => {
        $($(#[$doc])* pub const $name: DType = DType { scalar: $scalar, lanes: 1 };)*
    };
}

#[allow(non_upper_case_globals, reason = "DType::F32 reads like a variant")]
impl DType {
    dtype_constants! {
        /// No value.
        VOID = Void;
        /// True or false.
        BOOL = Bool;
        /// Index arithmetic.
        INDEX = Index;
        /// Signed 8-bit integer.
        I8 = I8;
        /// Signed 16-bit integer.
        I16 = I16;
        /// Signed 32-bit integer.
        I32 = I32;
        /// Signed 64-bit integer.
        I64 = I64;
        /// Unsigned 8-bit integer.
        U8 = U8;
        /// Unsigned 16-bit integer.
        U16 = U16;
        /// Unsigned 32-bit integer.
        U32 = U32;
        /// Unsigned 64-bit integer.
        U64 = U64;
        /// IEEE half precision.
        F16 = F16;
        /// The upper half of an `f32`.
        BF16 = BF16;
        /// IEEE single precision.
        F32 = F32;
        /// IEEE double precision.
        F64 = F64;
    }

    /// Every type that an element in memory can have.
    pub const ALL: [DType; 13] = [
        DType::BOOL,
        DType::I8,
        DType::I16,
        DType::I32,
        DType::I64,
        DType::U8,
        DType::U16,
        DType::U32,
        DType::U64,
        DType::F16,
        DType::BF16,
        DType::F32,
        DType::F64,
    ];

    /// The scalar type of one lane.
    pub fn scalar(self) -> ScalarType {
        self.scalar
    }

    /// How many lanes: 1 for all that is no vector.
    pub fn lanes(self) -> usize {
        self.lanes as usize
    }

    /// The same scalar type with `lanes` lanes.
    ///
    /// # Panics
    /// If `lanes` is 0 or above 65,535: a bug of the compiler.
    pub fn with_lanes(self, lanes: usize) -> DType {
        assert!(lanes >= 1 && lanes <= u16::MAX as usize, "a vector has 1 to 65535 lanes, not {lanes}");
        DType { scalar: self.scalar, lanes: lanes as u16 }
    }

    /// The type of one lane.
    pub fn element(self) -> DType {
        DType { scalar: self.scalar, lanes: 1 }
    }

    /// Bytes of one lane in memory.
    pub fn bytes(self) -> usize {
        match self.scalar {
            Void => 0,
            Bool | I8 | U8 => 1,
            I16 | U16 | F16 | BF16 => 2,
            I32 | U32 | F32 => 4,
            Index | I64 | U64 | F64 => 8,
        }
    }

    /// Bits of one lane.
    pub fn bits(self) -> u32 {
        self.bytes() as u32 * 8
    }

    /// Whether lanes are floating-point numbers.
    pub fn is_float(self) -> bool {
        matches!(self.scalar, F16 | BF16 | F32 | F64)
    }

    /// Whether lanes are integers, `Index` among them; bools are not.
    pub fn is_integer(self) -> bool {
        self.is_signed() || self.is_unsigned()
    }

    /// Whether lanes are signed integers, `Index` among them.
    pub fn is_signed(self) -> bool {
        matches!(self.scalar, Index | I8 | I16 | I32 | I64)
    }

    /// Whether lanes are unsigned integers.
    pub fn is_unsigned(self) -> bool {
        matches!(self.scalar, U8 | U16 | U32 | U64)
    }

    /// Whether lanes are truth values.
    pub fn is_bool(self) -> bool {
        self.scalar == Bool
    }

    /// Whether lanes are `Index`.
    pub fn is_index(self) -> bool {
        self.scalar == Index
    }

    /// Smallest and largest value of an integer type, in `i64`; `u64` and `Index` are given as the range of `i64`'s
    /// non-negative half and of all `i64`. `None` for floats and void.
    pub fn integer_bounds(self) -> Option<(i64, i64)> {
        match self.scalar {
            Bool => Some((0, 1)),
            I8 => Some((i8::MIN as i64, i8::MAX as i64)),
            I16 => Some((i16::MIN as i64, i16::MAX as i64)),
            I32 => Some((i32::MIN as i64, i32::MAX as i64)),
            Index | I64 => Some((i64::MIN, i64::MAX)),
            U8 => Some((0, u8::MAX as i64)),
            U16 => Some((0, u16::MAX as i64)),
            U32 => Some((0, u32::MAX as i64)),
            U64 => Some((0, i64::MAX)),
            Void | F16 | BF16 | F32 | F64 => None,
        }
    }

    /// The lower-case name: `f32`, `bool`, `f32x16`.
    pub fn name(self) -> String {
        self.to_string()
    }

    /// The type of that name, as [`DType::name`] writes it; PyTorch's names (`float32`, `int8`, `bfloat16`) are known too.
    pub fn from_name(name: &str) -> Option<DType> {
        let (base, lanes) = match name.rsplit_once('x') {
            Some((base, lanes)) if !lanes.is_empty() && lanes.bytes().all(|byte| byte.is_ascii_digit()) => {
                (base, lanes.parse().ok()?)
            }
            _ => (name, 1u16),
        };
        let scalar = match base {
            "void" => Void,
            "bool" => Bool,
            "index" => Index,
            "i8" | "int8" => I8,
            "i16" | "int16" => I16,
            "i32" | "int32" => I32,
            "i64" | "int64" => I64,
            "u8" | "uint8" => U8,
            "u16" | "uint16" => U16,
            "u32" | "uint32" => U32,
            "u64" | "uint64" => U64,
            "f16" | "float16" => F16,
            "bf16" | "bfloat16" => BF16,
            "f32" | "float32" => F32,
            "f64" | "float64" => F64,
            _ => return None,
        };
        (lanes > 0).then_some(DType { scalar, lanes })
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.scalar {
            Void => "void",
            Bool => "bool",
            Index => "index",
            I8 => "i8",
            I16 => "i16",
            I32 => "i32",
            I64 => "i64",
            U8 => "u8",
            U16 => "u16",
            U32 => "u32",
            U64 => "u64",
            F16 => "f16",
            BF16 => "bf16",
            F32 => "f32",
            F64 => "f64",
        };
        f.write_str(name)?;
        if self.lanes != 1 {
            write!(f, "x{}", self.lanes)?;
        }
        Ok(())
    }
}

impl fmt::Debug for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
