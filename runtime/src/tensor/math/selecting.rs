//! Elements found by their values: those that are not zero, those that differ, how many there are of each, where a value belongs in an order.
//!
//! How many there are is known only after a run. So what gives as many elements as that computes its operand when it is called, as PyTorch does, and is refused
//! while a function is traced; each says so. What is taken from a tensor by such a result still has a gradient.
//!
//! Tested by values of PyTorch (data/more_ops.json.gz, tests/it/selecting.rs).

use std::panic::Location;

use warpweft_compiler::ops::resolve_axis;

use crate::tensor::errors::{CallError, within};
use crate::tensor::factor::built;
use crate::tensor::{Length, Result, ScatterReduce, Tensor};
use crate::{DType, Dim};

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

/// Counts at the most: places are integers of 32 bits.
const BINS_MAX: i64 = i32::MAX as i64;

/// A number that is known after a run.
fn count(x: &Tensor) -> Result<i64> {
    x.cast(DType::I64).item::<i64>()
}

/// Numbers to the places that an index names, of which there are so many; an index that is this number names none.
fn placed(index: &Tensor, source: &Tensor, places: i64, sum: bool) -> Result<Tensor> {
    let empty = Tensor::zeros_of([places + 1], source.dtype()?);
    let all = if sum {
        empty.scatter_reduce(0, index, source, ScatterReduce::Sum, true)
    } else {
        empty.scatter(0, index, source)
    };
    Ok(all.narrow(0, 0, places))
}

/// Where in the row-major order a flat mask holds; `i32`.
fn places(mask: &Tensor) -> Result<Tensor> {
    let mask = mask.contiguous();
    let total = count(&mask.cast(DType::I32).sum(()))?;
    let before = mask.cast(DType::I32).cumsum(0) - 1;
    let index = mask.where_(before, total);
    placed(&index, &Tensor::iota(mask.dims()?.numel()), total, false)
}

/// Results of this part have as many elements as values say: they compute this tensor when they are called.
impl Tensor {
    /// The places of the elements that are not zero, a row of indices for each, in row-major order; `i32`.
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
        let mut rest = places(&self.cast(DType::BOOL).reshape([-1]))?.contiguous();
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
        let places = places(&mask.expand(shape.clone()).reshape([-1]))?;
        Ok(self.expand(shape).reshape([-1]).index_select(0, &places))
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
        let place = edges.searchsorted(&x, true) - 1;
        let last = x.eq(edges.narrow(0, bins, 1));
        let inside = x.ge(edges.narrow(0, 0, 1)).logical_and(x.le(edges.narrow(0, bins, 1)));
        let place = inside.where_(last.where_(bins - 1, place), bins);
        Ok((placed(&place, &x.ones_like(), bins, true)?, edges))
    }
}

/// Orders, and what stands at a place of them.
impl Tensor {
    /// Where in the last axis, which is sorted, each value belongs so that it stays sorted: before those that are equal, or (`right`) after them; `i32`.
    /// Axes before the last are those of the values too, or there are none.
    ///
    /// ```
    /// # use warpweft::Tensor;
    /// let sorted = Tensor::from_vec(vec![1f32, 3.0, 5.0], [3]);
    /// let x = Tensor::from_vec(vec![0f32, 3.0, 9.0], [3]);
    /// assert_eq!(sorted.searchsorted(&x, false).to_vec::<i32>()?, [0, 1, 3]);
    /// # Ok::<(), warpweft::Error>(())
    /// ```
    #[track_caller]
    pub fn searchsorted(&self, values: &Tensor, right: bool) -> Tensor {
        let location = Location::caller();
        let _call = within(location);
        built((|| {
            let (sorted, wanted) = (self.dims()?, values.dims()?);
            let length = sorted.last().filter(|length| length.max_value() < BINS_MAX);
            let outer = &sorted[..sorted.len().saturating_sub(1)];
            let fits = outer.is_empty() || (wanted.len() == sorted.len() && *outer == wanted[..outer.len()]);
            let (Some(length), true) = (length, fits) else {
                let message = "the sorted axis must have less than 2^31 elements, and those before it must be those of the values, or none";
                let operands = [self.uop()?, values.uop()?];
                return Err(CallError::new("searchsorted", &operands.each_ref(), message, location).into());
            };
            let flat = if outer.is_empty() { values.reshape([-1]) } else { values.clone() };
            let mut place = Tensor::zeros_of(flat.dims()?, DType::I32);
            let mut step = (length.max_value().max(0) as u64).next_power_of_two() as i64;
            let count = Tensor::from_dim(length).cast(DType::I32);
            let last = (&count - 1).maximum(0);
            // All before `place` is less. NaN comes last, behind those that are there: nothing else is as large.
            let is_last = flat.isnan();
            while step > 0 {
                let next = &place + step;
                let at = (&next - 1).maximum(0).minimum(&last);
                let found = if length.is(0) { flat.clone() } else { self.gather(&at, -1) };
                let is_less = if right { found.le(&flat) } else { found.lt(&flat) }.logical_or(&is_last);
                place = next.le(&count).logical_and(is_less).where_(next, &place);
                step /= 2;
            }
            Ok(place.reshape(wanted))
        })())
    }

    /// The middle of each line in order, of two the lower one, and where it stands; NaN if there is one.
    ///
    /// ```
    /// # use warpweft::Tensor;
    /// let x = Tensor::from_vec(vec![9f32, 1.0, 5.0], [3]);
    /// assert_eq!(x.median(0)?.0.item::<f32>()?, 5.0);
    /// # Ok::<(), warpweft::Error>(())
    /// ```
    ///
    /// # Errors
    /// If there is no such axis, or it has no elements.
    #[track_caller]
    pub fn median(&self, axis: impl Length) -> Result<(Tensor, Tensor)> {
        let axis = axis.length();
        if self.rank()? == 0 {
            let (value, place) = self.reshape([1]).median(axis)?;
            return Ok((value.squeeze(0), place.squeeze(0)));
        }
        let (axis, length) = any_line_of("median", self, axis, Location::caller())?;
        let (sorted, order) = self.sort(axis, false)?;
        // NaN comes last, in the order that it is found in.
        let is_none = self.isnan().cast(DType::I64).sum(axis);
        let (count, middle) = (Tensor::from_dim(&length), Tensor::from_dim((&length - 1).floor_div(&2.into())));
        let first = is_none.gt(0).where_(count - &is_none, middle).cast(DType::I32).unsqueeze(axis);
        Ok((sorted.gather(&first, axis).squeeze(axis), order.gather(&first, axis).squeeze(axis)))
    }

    /// What so large a share of each line is below, on straight lines between neighbours, for each share in a new first axis; NaN if there is one.
    ///
    /// ```
    /// # use warpweft::Tensor;
    /// let x = Tensor::from_vec(vec![0f32, 10.0, 20.0], [3]);
    /// assert_eq!(x.quantile(&[0.25, 1.0], 0).to_vec::<f32>()?, [5.0, 20.0]);
    /// # Ok::<(), warpweft::Error>(())
    /// ```
    #[track_caller]
    pub fn quantile(&self, shares: &[f64], axis: impl Length) -> Tensor {
        let axis = axis.length();
        let location = Location::caller();
        let _call = within(location);
        built((|| {
            let (axis, length) = any_line_of("quantile", self, axis, location)?;
            if !self.dtype()?.is_float() || shares.is_empty() || shares.iter().any(|share| !(0.0..=1.0).contains(share))
            {
                let message = "the elements must be floats, and there must be shares from 0 to 1";
                return Err(CallError::new("quantile", &[&self.uop()?], message, location).into());
            }
            let (sorted, _) = self.sort(axis, false)?;
            let sorted = sorted.contiguous();
            let has_none = self.isnan().any(axis);
            let part = |share: &f64| match length.as_const() {
                Some(length) => {
                    let place = share * (length - 1) as f64;
                    let low = place.floor() as i64;
                    let at = |k: i64| sorted.narrow(axis, k.min(length - 1), 1).squeeze(axis);
                    has_none.where_(f64::NAN, at(low).lerp(&at(low + 1), place - low as f64))
                }
                None => {
                    let last = Tensor::from_dim(&length - 1).cast(DType::F64);
                    let place = &last * *share;
                    let low = place.floor();
                    let at = |k: Tensor| sorted.index_select(axis, &k.cast(DType::I32).reshape([1])).squeeze(axis);
                    let above = at((&low + 1.0).minimum(&last));
                    let rest = (place - &low).cast(sorted.dtype().unwrap_or(DType::F32));
                    let below = at(low);
                    has_none.where_(f64::NAN, &below + (above - &below) * rest)
                }
            };
            let parts: Vec<Tensor> = shares.iter().map(part).collect();
            Ok(Tensor::stack(&parts.iter().collect::<Vec<_>>(), 0))
        })())
    }
}

/// An axis from the start, and how many elements it has: one at least, and a number.
pub(in crate::tensor) fn line_of(
    op: &'static str,
    x: &Tensor,
    axis: i64,
    location: &'static Location<'static>,
) -> Result<(i64, i64)> {
    let (place, length) = any_line_of(op, x, axis, location)?;
    match length.as_const() {
        Some(length) => Ok((place, length)),
        None => {
            let message = format!("axis {axis} of {} is a variable: bind it to a number first", x.dims()?);
            Err(CallError::new(op, &[&x.uop()?], message, location).into())
        }
    }
}

/// As [`line_of`], of any length.
pub(super) fn any_line_of(
    op: &'static str,
    x: &Tensor,
    axis: i64,
    location: &'static Location<'static>,
) -> Result<(i64, Dim)> {
    let dims = x.dims()?;
    let refused = |message: String| Err(CallError::new(op, &[&x.uop()?], message, location).into());
    match resolve_axis(axis, dims.len()) {
        Err(error) => refused(error.message),
        Ok(place) if dims[place].min_value() > 0 => Ok((place as i64, dims[place].clone())),
        Ok(_) => refused(format!("axis {axis} of {dims} has no elements: there must be one at least")),
    }
}

/// Draws by weights; numbers depend on the seed and on how many draws came before, on nothing else.
impl Tensor {
    /// 1 with the probability that each element is, else 0, in the type of this.
    ///
    /// ```
    /// # use warpweft::Tensor;
    /// assert_eq!(Tensor::from_vec(vec![0f32, 1.0], [2]).bernoulli().to_vec::<f32>()?, [0.0, 1.0]);
    /// # Ok::<(), warpweft::Error>(())
    /// ```
    #[track_caller]
    pub fn bernoulli(&self) -> Tensor {
        built((|| {
            if !self.dtype()?.is_float() {
                return Err(self.refused_call("bernoulli", "probabilities are floats"));
            }
            Ok(Tensor::rand(self.dims()?).lt(self.cast(DType::F32)).cast(self.dtype()?))
        })())
    }

    /// So many places of the last axis, drawn as often as the elements say, which need not sum to 1; `i32`. Without `replacement` no place comes twice.
    ///
    /// ```
    /// # use warpweft::Tensor;
    /// let weights = Tensor::from_vec(vec![0f32, 3.0, 0.0], [3]);
    /// assert_eq!(weights.multinomial(4, true).to_vec::<i32>()?, [1, 1, 1, 1]);
    /// # Ok::<(), warpweft::Error>(())
    /// ```
    #[track_caller]
    pub fn multinomial(&self, samples: impl Length, replacement: bool) -> Tensor {
        let samples = samples.length();
        let location = Location::caller();
        let _call = within(location);
        built((|| {
            let (axis, length) = line_of("multinomial", self, -1, location)?;
            let refuse = |message: &str| Err(CallError::new("multinomial", &[&self.uop()?], message, location).into());
            if !self.dtype()?.is_float() || self.rank()? > 2 {
                return refuse("weights are floats in one axis or two");
            }
            if samples < 1 || (!replacement && samples > length) {
                return refuse(
                    "there must be one sample at least, and without replacement no more than there are places",
                );
            }
            let weights = self.detach().cast(DType::F32);
            if !replacement {
                // Of waiting times that are drawn by rates, the shortest.
                let dims = self.dims()?;
                let times = -(1.0 - Tensor::rand(dims)).log() / weights.gt(0.0).where_(&weights, 1.0);
                let times = weights.gt(0.0).where_(times, f64::INFINITY);
                return Ok(times.topk(samples, axis, false)?.1);
            }
            let dims = self.dims()?;
            let outer = dims[..dims.len() - 1].iter().cloned();
            let shape: crate::tensor::Dims = outer.chain([samples.into()]).collect();
            let running = weights.cast(DType::F64).cumsum(axis).contiguous();
            let drawn = Tensor::rand_of(shape, DType::F64) * running.narrow(axis, length - 1, 1);
            Ok(running.searchsorted(&drawn, true).clamp(None, Some((length - 1).into())))
        })())
    }
}
