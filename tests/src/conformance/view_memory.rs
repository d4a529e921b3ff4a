//! What strides say, on plain lists: the addresses of a view by the definition, and what a write through it must leave behind.

use warpweft::Tensor;

use super::Stop;

/// Nothing if the two are equal.
///
/// # Errors
/// If they are not: both.
pub fn agree<T: PartialEq + std::fmt::Debug>(what: &str, got: T, want: T) -> Result<(), Stop> {
    if got == want { Ok(()) } else { Err(Stop::failed(format!("{what}: {got:?}, not {want:?}"))) }
}

/// Shape, strides and offset that a tensor says it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Lengths of the axes.
    pub shape: Vec<i64>,
    /// Elements between neighbours along each axis.
    pub strides: Vec<i64>,
    /// The element at position (0, 0, ...).
    pub offset: i64,
}

impl Layout {
    /// That of a view.
    ///
    /// # Errors
    /// If the tensor carries one.
    pub fn of(view: &Tensor) -> Result<Layout, Stop> {
        let shape = view.shape().map_err(failed)?.into_iter().map(|len| len as i64).collect();
        Ok(Layout { shape, strides: view.strides().map_err(failed)?, offset: view.storage_offset().map_err(failed)? })
    }

    /// The addresses in row-major order, by the definition of strides.
    #[must_use]
    pub fn addresses(&self) -> Vec<i64> {
        let mut all = vec![self.offset];
        for (&len, stride) in self.shape.iter().zip(&self.strides) {
            all = all.into_iter().flat_map(|address| (0..len).map(move |i| address + i * stride)).collect();
        }
        all
    }
}

/// An error of the library where the case expects none.
pub fn failed(error: warpweft::Error) -> Stop {
    Stop::failed(error.to_string())
}

/// Whether some number stands twice in a list.
#[must_use]
pub fn repeats(addresses: &[i64]) -> bool {
    let mut sorted = addresses.to_vec();
    sorted.sort_unstable();
    sorted.windows(2).any(|pair| pair[0] == pair[1])
}

/// What a write does to one element.
#[derive(Clone, Copy, Debug)]
pub enum WriteOp {
    /// Puts one number.
    Fill,
    /// Puts the source's element.
    Copy,
    /// Adds the source's element.
    Add,
    /// Multiplies by the source's element.
    Multiply,
}

impl WriteOp {
    /// By PyTorch's name.
    ///
    /// # Errors
    /// If it is not one of the four.
    pub fn named(name: &str) -> Result<WriteOp, Stop> {
        match name {
            "fill_" => Ok(WriteOp::Fill),
            "copy_" => Ok(WriteOp::Copy),
            "add_" => Ok(WriteOp::Add),
            "mul_" => Ok(WriteOp::Multiply),
            other => Err(Stop::unsupported(format!("write {other}"))),
        }
    }

    /// Carries it out with a tensor as its source.
    ///
    /// # Errors
    /// What the library says.
    pub fn write(self, to: &Tensor, from: &Tensor) -> Result<(), warpweft::Error> {
        match self {
            WriteOp::Fill | WriteOp::Copy => to.assign(from),
            WriteOp::Add => to.add_assign(from),
            WriteOp::Multiply => to.mul_assign(from),
        }
    }

    /// Carries it out with one number as its source.
    ///
    /// # Errors
    /// What the library says.
    pub fn write_number(self, to: &Tensor, number: i64) -> Result<(), warpweft::Error> {
        match self {
            WriteOp::Fill => to.fill(number),
            WriteOp::Copy => to.assign(number),
            WriteOp::Add => to.add_assign(number),
            WriteOp::Multiply => to.mul_assign(number),
        }
    }

    /// The new value of an element.
    #[must_use]
    pub fn combine(self, old: i64, source: i64) -> i64 {
        match self {
            WriteOp::Fill | WriteOp::Copy => source,
            WriteOp::Add => old.wrapping_add(source),
            WriteOp::Multiply => old.wrapping_mul(source),
        }
    }
}
