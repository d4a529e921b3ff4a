//! Positions in an order: where a value belongs in one, and what stands in the middle of a line or at any other share of it.
//!
//! Tested by values of PyTorch (data/more_ops.json.gz, tests/it/selecting.rs).

use std::panic::Location;

use warpweft_compiler::ops::resolve_axis;

use super::selecting::BINS_MAX;
use crate::tensor::errors::{CallError, within};
use crate::tensor::factor::built;
use crate::tensor::{Length, Result, Tensor};
use crate::{DType, Dim};

/// Orders, and what stands at a position of them.
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
            let mut position = Tensor::zeros_of(flat.dims()?, DType::I32);
            let mut step = (length.max_value().max(0) as u64).next_power_of_two() as i64;
            let count = Tensor::from_dim(length).cast(DType::I32);
            let last = (&count - 1).maximum(0);
            // All before `position` is less. NaN comes last, behind those that are there: nothing else is as large.
            let is_last = flat.isnan();
            while step > 0 {
                let next = &position + step;
                let at = (&next - 1).maximum(0).minimum(&last);
                let found = if length.is(0) { flat.clone() } else { self.gather(&at, -1) };
                let is_less = if right { found.le(&flat) } else { found.lt(&flat) }.logical_or(&is_last);
                position = next.le(&count).logical_and(is_less).where_(next, &position);
                step /= 2;
            }
            Ok(position.reshape(wanted))
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
            let (value, index) = self.reshape([1]).median(axis)?;
            return Ok((value.squeeze(0), index.squeeze(0)));
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
                    let position = share * (length - 1) as f64;
                    let low = position.floor() as i64;
                    let at = |k: i64| sorted.narrow(axis, k.min(length - 1), 1).squeeze(axis);
                    has_none.where_(f64::NAN, at(low).lerp(&at(low + 1), position - low as f64))
                }
                None => {
                    let last = Tensor::from_dim(&length - 1).cast(DType::F64);
                    let position = &last * *share;
                    let low = position.floor();
                    let at = |k: Tensor| sorted.index_select(axis, &k.cast(DType::I32).reshape([1])).squeeze(axis);
                    let above = at((&low + 1.0).minimum(&last));
                    let rest = (position - &low).cast(sorted.dtype().unwrap_or(DType::F32));
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
    let (resolved, length) = any_line_of(op, x, axis, location)?;
    match length.as_const() {
        Some(length) => Ok((resolved, length)),
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
        Ok(resolved) if dims[resolved].min_value() > 0 => Ok((resolved as i64, dims[resolved].clone())),
        Ok(_) => refused(format!("axis {axis} of {dims} has no elements: there must be one at least")),
    }
}
