//! Elements found by their values: those that are not zero, those that differ, how many there are of each.
//!
//! How many there are is known only after a run. So what gives as many elements as that computes its operand when it is called, as PyTorch does, and is refused
//! while a function is traced; each says so. What is taken from a tensor by such a result still has a gradient.
//!
//! Tested by values of PyTorch (data/more_ops.json.gz, tests/it/selecting.rs).

use std::panic::Location;

use crate::DType;
use crate::tensor::errors::{CallError, within};
use crate::tensor::{Length, Result, ScatterReduce, Tensor};

/// What [`Tensor::unique`] finds.
#[derive(Clone, Debug)]
pub struct Unique {
    /// Each value once, the least first.
    pub values: Tensor,
    /// Which of the values each element is, in the shape of the tensor; `i32`.
    pub inverse: Tensor,
    /// How many elements have each value; `i32`.
    pub counts: Tensor,
}

/// Counts at the most: indices are integers of 32 bits.
pub(super) const BINS_MAX: i64 = i32::MAX as i64;

/// A number that is known after a run.
fn count(x: &Tensor) -> Result<i64> {
    x.cast(DType::I64).item::<i64>()
}

/// Numbers put at the positions that an index names, of which there are so many; an index that is this number names none.
fn placed(index: &Tensor, source: &Tensor, length: i64, sum: bool) -> Result<Tensor> {
    let empty = Tensor::zeros_of([length + 1], source.dtype()?);
    let all = if sum {
        empty.scatter_reduce(0, index, source, ScatterReduce::Sum, true)
    } else {
        empty.scatter(0, index, source)
    };
    Ok(all.narrow(0, 0, length))
}

/// Where in the row-major order a flat mask holds; `i32`.
fn positions_of(mask: &Tensor) -> Result<Tensor> {
    let mask = mask.contiguous();
    let total = count(&mask.cast(DType::I32).sum(()))?;
    let before = mask.cast(DType::I32).cumsum(0) - 1;
    let index = mask.where_(before, total);
    placed(&index, &Tensor::iota(mask.dims()?.numel()), total, false)
}

/// Results of this part have as many elements as values say: they compute this tensor when they are called.
impl Tensor {
    /// The indices of the elements that are not zero, a row for each, in row-major order; `i32`.
    ///
    /// ```
    /// # use warpweft::Tensor;
    /// let x = Tensor::from_vec(vec![0f32, 5.0, 7.0, 0.0], [2, 2]);
    /// assert_eq!(x.nonzero()?.to_vec::<i32>()?, [0, 1, 1, 0]);
    /// # Ok::<(), warpweft::Error>(())
    /// ```
    ///
    /// # Errors
    /// If its values cannot be computed, as while a function is traced.
    #[track_caller]
    pub fn nonzero(&self) -> Result<Tensor> {
        let lengths = self.shape()?;
        let mut rest = positions_of(&self.cast(DType::BOOL).reshape([-1]))?.contiguous();
        if lengths.is_empty() {
            return Ok(Tensor::zeros_of([rest.shape()?[0] as i64, 0], DType::I32));
        }
        let mut columns = Vec::new();
        for &length in lengths.iter().rev() {
            columns.push(&rest % (length as i64));
            rest = rest.floor_div(length as i64);
        }
        columns.reverse();
        Ok(Tensor::stack(&columns.iter().collect::<Vec<_>>(), 1))
    }

    /// The elements where a mask holds, in row-major order; both broadcast.
    ///
    /// ```
    /// # use warpweft::Tensor;
    /// let x = Tensor::from_vec(vec![1f32, 5.0, 7.0], [3]);
    /// assert_eq!(x.masked_select(&x.gt(2.0))?.to_vec::<f32>()?, [5.0, 7.0]);
    /// # Ok::<(), warpweft::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the mask is not of bools, the shapes do not broadcast, or values cannot be computed, as while a function is traced.
    #[track_caller]
    pub fn masked_select(&self, mask: &Tensor) -> Result<Tensor> {
        let location = Location::caller();
        let _call = within(location);
        let (x, given) = (self.uop()?, mask.uop()?);
        let refuse = |message: String| CallError::new("masked_select", &[&x, &given], message, location);
        if !mask.dtype()?.is_bool() {
            return Err(refuse(format!("the mask must be of bools, not {}", mask.dtype()?)).into());
        }
        let shape = warpweft_compiler::ops::broadcast_shapes(&[x.shape(), given.shape()]);
        let shape = shape.map_err(|error| refuse(error.message))?;
        let positions = positions_of(&mask.expand(shape.clone()).reshape([-1]))?;
        Ok(self.expand(shape).reshape([-1]).index_select(0, &positions))
    }

    /// Each value once, in order. NaN is no other's equal.
    ///
    /// ```
    /// # use warpweft::Tensor;
    /// let found = Tensor::from_vec(vec![3i32, 1, 3], [3]).unique()?;
    /// assert_eq!(found.values.to_vec::<i32>()?, [1, 3]);
    /// assert_eq!(found.inverse.to_vec::<i32>()?, [1, 0, 1]);
    /// assert_eq!(found.counts.to_vec::<i32>()?, [1, 2]);
    /// # Ok::<(), warpweft::Error>(())
    /// ```
    ///
    /// # Errors
    /// If its values cannot be computed, as while a function is traced.
    #[track_caller]
    pub fn unique(&self) -> Result<Unique> {
        let dims = self.dims()?;
        let (sorted, order) = self.detach().reshape([-1]).sort(0, false)?;
        let length = sorted.shape()?[0] as i64;
        if length == 0 {
            let none = || Tensor::zeros_of([0], DType::I32);
            return Ok(Unique { values: sorted, inverse: none().reshape(dims), counts: none() });
        }
        let sorted = sorted.contiguous();
        let differs = sorted.narrow(0, 1, length - 1).ne(sorted.narrow(0, 0, length - 1));
        let group = differs.cast(DType::I32).cumsum(0).pad(&[(1, 0)]).contiguous();
        let total = count(&group.narrow(0, length - 1, 1).squeeze(0))? + 1;
        let order = order.contiguous();
        let ones = Tensor::ones_of([length], DType::I32);
        Ok(Unique {
            values: placed(&group, &sorted, total, false)?,
            inverse: placed(&order, &group, length, false)?.reshape(dims),
            counts: placed(&group, &ones, total, true)?,
        })
    }

    /// How many elements are 0, 1, 2 and so on, up to the largest or to `at_least` of them; or the sums of the weights of these elements, in `f64` but for
    /// weights of `f32`.
    ///
    /// ```
    /// # use warpweft::Tensor;
    /// let x = Tensor::from_vec(vec![1i32, 3, 1], [3]);
    /// assert_eq!(x.bincount(None, 0)?.to_vec::<i32>()?, [0, 2, 0, 1]);
    /// # Ok::<(), warpweft::Error>(())
    /// ```
    ///
    /// # Errors
    /// If this is no line of integers, one of them is negative, or values cannot be computed, as while a function is traced.
    #[track_caller]
    pub fn bincount(&self, weights: Option<&Tensor>, at_least: impl Length) -> Result<Tensor> {
        let at_least = at_least.length();
        let location = Location::caller();
        let _call = within(location);
        let refuse = |message: String| Err(CallError::new("bincount", &[&self.uop()?], message, location).into());
        if !self.dtype()?.is_integer() || self.rank()? != 1 || at_least < 0 {
            return refuse("there must be one axis of integers, and `at_least` must not be negative".to_string());
        }
        if let Some(weights) = weights
            && weights.dims()? != self.dims()?
        {
            return refuse(format!("the weights have shape {}, and must have that of the integers", weights.dims()?));
        }
        let (mut least, mut largest) = (0, -1);
        if self.numel()? > 0 {
            (least, largest) = (count(&self.min(()))?, count(&self.max(()))?);
        }
        if least < 0 {
            return refuse(format!("{least} is negative: only integers from 0 on are counted"));
        }
        let bins = at_least.max(largest.saturating_add(1));
        if bins > BINS_MAX {
            return refuse(format!("{bins} counts: there may be {BINS_MAX} at the most, for integers below that"));
        }
        let weights = match weights {
            None => Tensor::ones_of(self.dims()?, DType::I32),
            Some(weights) if weights.dtype()? == DType::F32 => weights.clone(),
            Some(weights) => weights.cast(DType::F64),
        };
        placed(&self.cast(DType::I32), &weights, bins, true)
    }

    /// How many elements lie between each edge and the next, in the tensor's float type, for edges that are as far apart as each other; and the edges.
    /// The last bin has its upper edge too. Without a range it is from the least to the largest element, which are computed by this call.
    ///
    /// ```
    /// # use warpweft::Tensor;
    /// let x = Tensor::from_vec(vec![1f32, 2.0, 1.0, 4.0], [4]);
    /// let (counts, edges) = x.histogram(4, Some((0.0, 4.0)))?;
    /// assert_eq!(counts.to_vec::<f32>()?, [0.0, 2.0, 1.0, 1.0]);
    /// assert_eq!(edges.to_vec::<f32>()?, [0.0, 1.0, 2.0, 3.0, 4.0]);
    /// # Ok::<(), warpweft::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the elements are no floats, the range is none or there is no bin; without a range, if values cannot be computed.
    #[track_caller]
    pub fn histogram(&self, bins: impl Length, range: Option<(f64, f64)>) -> Result<(Tensor, Tensor)> {
        let bins = bins.length();
        let location = Location::caller();
        let _call = within(location);
        let x = self.detach().reshape([-1]);
        let refuse = |message: &str| Err(CallError::new("histogram", &[&self.uop()?], message, location).into());
        if !self.dtype()?.is_float() || !(1..=BINS_MAX).contains(&bins) {
            return refuse("the elements must be floats, and there must be 1 to 2^31 - 1 bins");
        }
        let (mut low, mut high) = match range {
            Some(range) => range,
            None if self.numel()? == 0 => (0.0, 1.0),
            None => (x.min(()).cast(DType::F64).item()?, x.max(()).cast(DType::F64).item()?),
        };
        if !low.is_finite() || !high.is_finite() || low > high {
            return refuse("the range must be finite and not fall");
        }
        if low == high {
            (low, high) = (low - 0.5, high + 0.5);
        }
        let edges = Tensor::linspace_of(low, high, bins + 1, self.dtype()?).contiguous();
        let bin = edges.searchsorted(&x, true) - 1;
        let last = x.eq(edges.narrow(0, bins, 1));
        let inside = x.ge(edges.narrow(0, 0, 1)).logical_and(x.le(edges.narrow(0, bins, 1)));
        let bin = inside.where_(last.where_(bins - 1, bin), bins);
        Ok((placed(&bin, &x.ones_like(), bins, true)?, edges))
    }
}
