//! Lists of numbers with a shape, and with a bound of how far rounding may take a tensor from them.

use warpweft::DType;

use super::program::{Len, values_of};
use super::views::{indices_of, position};

/// Values that are larger are refused: sums of them would not be exact.
pub(super) const LARGEST: f64 = 2e5;
/// More is refused: values that are this far off tell little.
const ERROR_MAX: f64 = 0.02;
/// Half a unit of the last place of a float, relative, and something for the order of sums.
pub(super) const UNIT: f64 = 1.2e-7;

/// A list of numbers with a shape.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// The type of the tensor.
    pub dtype: DType,
    /// Its lengths.
    pub dims: Vec<Len>,
    /// Its elements, row-major.
    pub values: Vec<f64>,
    /// How far a float of the tensor may be from its number here; 0 where all is exact, and the numbers are whole.
    pub error: f64,
}

impl Array {
    /// The lengths' values.
    pub fn shape(&self) -> Vec<i64> {
        values_of(&self.dims)
    }

    /// The size of the largest element.
    pub(super) fn largest(&self) -> f64 {
        self.values.iter().fold(0.0, |most, value| value.abs().max(most))
    }

    /// Whether all is exact.
    pub(super) fn is_exact(&self) -> bool {
        self.error == 0.0
    }

    /// The same with other elements.
    pub(super) fn with(&self, values: Vec<f64>, error: f64) -> Array {
        Array { dtype: self.dtype, dims: self.dims.clone(), values, error }
    }

    /// The same with each element replaced.
    pub(super) fn map(&self, error: f64, each: impl Fn(f64) -> f64) -> Array {
        self.with(self.values.iter().map(|&value| each(value)).collect(), error)
    }

    /// The elements as broadcast to a shape, if they do so.
    pub fn broadcast(&self, to: &[Len]) -> Option<Vec<f64>> {
        let new = to.len().checked_sub(self.dims.len())?;
        let fits = self.dims.iter().zip(&to[new..]).all(|(own, wanted)| own == wanted || *own == Len::number(1));
        if !fits {
            return None;
        }
        let shape = self.shape();
        let element = |index: Vec<i64>| {
            let own: Vec<i64> =
                index[new..].iter().zip(&shape).map(|(&at, &len)| if len == 1 { 0 } else { at }).collect();
            self.values[position(&own, &shape)]
        };
        Some(indices_of(&values_of(to)).into_iter().map(element).collect())
    }

    /// Calls a function with the positions of each line along an axis.
    pub(super) fn lines(&self, axis: usize, mut each: impl FnMut(&[usize])) {
        let shape = self.shape();
        let stride = shape[axis + 1..].iter().product::<i64>() as usize;
        let len = shape[axis] as usize;
        for first in 0..self.values.len() {
            if (first / stride).is_multiple_of(len) {
                let line: Vec<usize> = (0..len).map(|k| first + k * stride).collect();
                each(&line);
            }
        }
    }

    /// Along each line of an axis, other values in place of the old.
    pub(super) fn along(&self, axis: usize, error: f64, each: impl Fn(&[f64]) -> Vec<f64>) -> Array {
        let mut values = self.values.clone();
        self.lines(axis, |line| {
            let old: Vec<f64> = line.iter().map(|&at| self.values[at]).collect();
            line.iter().zip(each(&old)).for_each(|(&at, value)| values[at] = value);
        });
        self.with(values, error)
    }

    /// The elements at other indices of this, in another shape; where there is no such index, 0.
    pub(super) fn moved(&self, dims: Vec<Len>, from: impl Fn(&[i64]) -> Option<Vec<i64>>) -> Array {
        let shape = self.shape();
        let element = |index: &Vec<i64>| from(index).map_or(0.0, |old| self.values[position(&old, &shape)]);
        let values = indices_of(&values_of(&dims)).iter().map(element).collect();
        Array { dtype: self.dtype, dims, values, error: self.error }
    }

    /// As a whole: nothing if it is too large, too far off, or not what its type holds.
    pub(super) fn checked(self) -> Option<Array> {
        let holds = self.dtype.is_float() || self.is_exact();
        (self.largest() <= LARGEST && self.error <= ERROR_MAX && holds && self.values.len() <= 20_000).then_some(self)
    }
}

/// The error of a result of this size of floats that are no whole numbers.
pub(super) fn rounded(error: f64, largest: f64) -> f64 {
    error + UNIT * largest
}
