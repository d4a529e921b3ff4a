//! Vectors of elements of any type: what the interpreter computes with and what tests compare.
//!
//! [`Elements`] is one enum over the storage types; generic code gets at the typed slice through `Element::slice`. Bytes are little-endian,
//! as devices keep them; a bool is one byte, and any byte but 0 is true.

use half::{bf16, f16};

use super::arithmetic::{Element, WithElement, with_element};
use super::{DType, Scalar};

macro_rules! elements {
    ($($variant:ident $type:ty;)*) => {
        /// Elements of one type, in order. `Index` is kept as `I64`.
        #[derive(Clone, Debug, PartialEq)]
        #[allow(missing_docs, reason = "each variant holds elements of the type that it is named after")]
        pub enum Elements { $($variant(Vec<$type>),)* }

        impl Elements {
            /// How many.
            pub fn len(&self) -> usize {
                match self { $(Elements::$variant(elements) => elements.len(),)* }
            }

            /// Element `position` as a constant.
            ///
            /// # Panics
            /// If there are not so many.
            pub fn get(&self, position: usize) -> Scalar {
                match self { $(Elements::$variant(elements) => elements[position].to_scalar(),)* }
            }

            /// As little-endian bytes.
            pub fn to_bytes(&self) -> Vec<u8> {
                match self { $(Elements::$variant(elements) => bytes_of(elements),)* }
            }
        }

        $(impl Stored for $type {
            fn wrap(elements: Vec<Self>) -> Elements {
                Elements::$variant(elements)
            }
            fn slice(elements: &Elements) -> Option<&[Self]> {
                match elements {
                    Elements::$variant(elements) => Some(elements),
                    _ => None,
                }
            }
        })*
    };
}

/// Types that [`Elements`] can hold; a part of [`Element`].
pub trait Stored: Sized {
    /// The vector as [`Elements`].
    fn wrap(elements: Vec<Self>) -> Elements;
    /// The elements if they are of this type.
    fn slice(elements: &Elements) -> Option<&[Self]>;
}

elements! {
    Bool bool;
    I8 i8;
    I16 i16;
    I32 i32;
    I64 i64;
    U8 u8;
    U16 u16;
    U32 u32;
    U64 u64;
    F16 f16;
    BF16 bf16;
    F32 f32;
    F64 f64;
}

impl Elements {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Elements of type `dtype` from constants, which are converted. `None` for `void`.
    pub fn from_scalars(dtype: DType, values: &[Scalar]) -> Option<Elements> {
        with_element(dtype, FromScalars(values))
    }

    /// Elements of type `dtype` from little-endian bytes; bytes left over are ignored. `None` for `void`.
    pub fn from_bytes(dtype: DType, bytes: &[u8]) -> Option<Elements> {
        with_element(dtype, FromBytes(bytes, dtype.bytes()))
    }

    /// All as constants.
    pub fn scalars(&self) -> Vec<Scalar> {
        (0..self.len()).map(|position| self.get(position)).collect()
    }
}

struct FromScalars<'v>(&'v [Scalar]);

impl WithElement for FromScalars<'_> {
    type Output = Elements;
    fn with<E: Element>(self) -> Elements {
        E::wrap(self.0.iter().map(|value| E::from_scalar(*value)).collect())
    }
}

struct FromBytes<'b>(&'b [u8], usize);

impl WithElement for FromBytes<'_> {
    type Output = Elements;
    fn with<E: Element>(self) -> Elements {
        let element = |bytes: &[u8]| {
            let mut word = [0u8; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            E::from_bits(u64::from_le_bytes(word))
        };
        E::wrap(self.0.chunks_exact(self.1).map(element).collect())
    }
}

fn bytes_of<E: Element>(elements: &[E]) -> Vec<u8> {
    let width = size_of::<E>();
    let mut bytes = Vec::with_capacity(size_of_val(elements));
    for element in elements {
        bytes.extend_from_slice(&element.to_bits().to_le_bytes()[..width]);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_round_trip() {
        for dtype in DType::ALL {
            let values: Vec<Scalar> = [0.0, 1.0, 2.0, 77.0].map(|value| Scalar::from_f64(value, dtype)).to_vec();
            let elements = Elements::from_scalars(dtype, &values).unwrap();
            let bytes = elements.to_bytes();
            assert_eq!(bytes.len(), 4 * dtype.bytes(), "{dtype}");
            assert_eq!(Elements::from_bytes(dtype, &bytes).unwrap(), elements, "{dtype}");
            assert_eq!(elements.scalars(), values, "{dtype}");
        }
    }
}
