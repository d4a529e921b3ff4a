//! Images of another size by windows that adapt, by cubic polynomials, and by moving channels beside each other; sums of rows of a table.
//!
//! Values and gradients are PyTorch's. Tested by data/more_ops.json.gz, and with lengths that are variables in `tests/it/variable_images.rs`.

use std::panic::Location;

use warpweft_compiler::UOp;
use warpweft_compiler::dtype::Scalar;
use warpweft_compiler::ops::pooling;

use super::sampling::cubic_shares;
use crate::tensor::errors::{CallError, within};
use crate::tensor::factor::built;
use crate::tensor::{AxisList, Kernel, Length, Resampling, Result, ScatterReduce, Tensor};
use crate::{DType, Dim};

/// What becomes of the rows of a bag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Bag {
    /// Their sum.
    Sum,
    /// Their mean.
    Mean,
    /// The largest of each column.
    Max,
}

/// Elements of an axis times windows over it, at the most.
const CELLS_MAX: i64 = 1 << 28;

/// The last axes, as many as there are sizes: each with its length.
fn last_axes(
    op: &'static str,
    x: &Tensor,
    sizes: &[i64],
    location: &'static Location<'static>,
) -> Result<Vec<(i64, Dim)>> {
    let dims = x.dims()?;
    let first = dims.len().checked_sub(sizes.len()).filter(|_| !sizes.is_empty());
    let found: Option<Vec<(i64, Dim)>> = first.and_then(|first| {
        let has_elements = |dim: &&Dim| dim.min_value() > 0;
        (first..dims.len()).map(|axis| Some((axis as i64, Some(&dims[axis]).filter(has_elements)?.clone()))).collect()
    });
    // Each window is written down once.
    let fits = |found: &Vec<(i64, Dim)>| {
        found.iter().zip(sizes).all(|((_, length), &size)| {
            let shares_evenly = size > 0 && length.as_const().is_some_and(|length| length % size == 0);
            let cells = length.max_value().checked_mul(size);
            size > 0 && cells.is_some_and(|cells| shares_evenly || size == 1 || cells <= CELLS_MAX)
        })
    };
    match found.filter(fits) {
        Some(found) => Ok(found),
        None => {
            let message = format!(
                "the sizes {sizes:?} must be 1 or more, for as many axes that have elements, and a size times its axis at most {CELLS_MAX}"
            );
            Err(CallError::new(op, &[&x.uop()?], message, location).into())
        }
    }
}

/// An axis of any length as so many elements, each a cubic polynomial of four neighbours.
fn cubic_of_any(x: &Tensor, axis: i64, length: &Dim, size: i64, align_corners: bool) -> Tensor {
    built((|| {
        let dtype = x.dtype()?;
        let wide = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
        let (old, number) = (Tensor::from_dim(length).cast(DType::F64), Tensor::iota(size).cast(DType::F64));
        let position = match align_corners {
            true if size == 1 => number,
            true => number * (old - 1.0) / (size - 1) as f64,
            false => (number + 0.5) * old / size as f64 - 0.5,
        };
        let low = position.floor();
        let part = (position - &low).cast(wide);
        let along: Vec<i64> = (0..x.rank()? as i64).map(|k| if k == axis { size } else { 1 }).collect();
        let last = Tensor::from_dim(length - 1).cast(DType::F64);
        let shares = cubic_shares(&part);
        let parts = (-1i64..).zip(shares).map(|(offset, share)| {
            let at = (&low + offset as f64).maximum(0.0).minimum(&last).cast(DType::I32);
            x.cast(wide).index_select(axis, &at) * share.reshape(along.clone())
        });
        let total = parts.reduce(|total, part| total + part).unwrap_or_else(|| x.clone());
        Ok(if dtype.is_float() { total.cast(dtype) } else { total.round().cast(dtype) })
    })())
}

/// Where the window of each of `size` results begins and ends among `length` elements.
fn windows(length: i64, size: i64) -> impl Iterator<Item = (i64, i64)> {
    (0..size).map(move |k| (k * length / size, ((k + 1) * length + size - 1) / size))
}

/// One axis as the means of windows.
fn averaged(x: &Tensor, axis: i64, length: &Dim, size: i64) -> Tensor {
    if size == 1 {
        return x.mean(axis).unsqueeze(axis);
    }
    let Some(length) = length.as_const() else {
        let weights = inside(x, axis, size).cast(wide(x));
        let weights = &weights / &weights.sum(0);
        return x.cast(wide(x)).movedim(axis, -1).matmul(&weights).movedim(-1, axis);
    };
    if length % size == 0 {
        return x.unflatten(axis, [size, length / size]).mean(axis + 1);
    }
    let mut weights = vec![0f64; (length * size) as usize];
    for (k, (start, end)) in windows(length, size).enumerate() {
        (start..end).for_each(|at| weights[at as usize * size as usize + k] = 1.0 / (end - start) as f64);
    }
    let weights = Tensor::table(weights, [length, size]);
    x.cast(wide(x)).movedim(axis, -1).matmul(&weights.cast(wide(x))).movedim(-1, axis)
}

/// The type in which a mean is computed.
fn wide(x: &Tensor) -> DType {
    if x.dtype().is_ok_and(|dtype| dtype == DType::F64) { DType::F64 } else { DType::F32 }
}

/// Which elements of an axis of a symbolic length are in each window: bool [length, size].
fn inside(x: &Tensor, axis: i64, size: i64) -> Tensor {
    Tensor::compute("adaptive_windows", [x], |[x]| pooling::adaptive_windows(x, axis, size))
}

/// One axis as the largest of windows.
fn largest(x: &Tensor, axis: i64, length: &Dim, size: i64) -> Tensor {
    if size == 1 {
        return x.max(axis).unsqueeze(axis);
    }
    let Some(length) = length.as_const() else {
        // [.., length, size]: what is not in a window never wins.
        let lowest = Tensor::compute("lowest", [x], |[x]| Ok(UOp::constant(Scalar::lowest(x.dtype()), x.dtype())));
        let last = x.movedim(axis, -1).unsqueeze(-1);
        return inside(x, axis, size).where_(&last, &lowest).max(-2).movedim(-1, axis);
    };
    if length % size == 0 {
        return x.unflatten(axis, [size, length / size]).max(axis + 1);
    }
    let widest = windows(length, size).map(|(start, end)| end - start).max().unwrap_or(1);
    // What a narrower window lacks is its first element once more, behind it: so the first of equal ones is found.
    let within = |(start, end): (i64, i64)| (0..widest).map(move |k| if start + k < end { start + k } else { start });
    let indices: Vec<i64> = windows(length, size).flat_map(within).collect();
    x.index_select(axis, &Tensor::table(indices, [size * widest])).unflatten(axis, [size, widest]).max(axis + 1)
}

impl Tensor {
    /// The last axes as so many means of windows, which share the elements out as evenly as they can.
    ///
    /// ```
    /// # use warpweft::Tensor;
    /// let x = Tensor::from_vec(vec![1f32, 2.0, 3.0], [1, 1, 3]);
    /// assert_eq!(x.adaptive_avg_pool(&[2]).to_vec::<f32>()?, [1.5, 2.5]);
    /// # Ok::<(), warpweft::Error>(())
    /// ```
    #[track_caller]
    pub fn adaptive_avg_pool(&self, sizes: impl AxisList) -> Tensor {
        let sizes = &sizes.axes()[..];
        let location = Location::caller();
        let _call = within(location);
        built((|| {
            let axes = last_axes("adaptive_avg_pool", self, sizes, location)?;
            if !self.dtype()?.is_float() {
                return Err(self.refused_call("adaptive_avg_pool", "the elements must be floats"));
            }
            let steps = axes.iter().zip(sizes);
            let found = steps.fold(self.clone(), |x, ((axis, length), &size)| averaged(&x, *axis, length, size));
            Ok(found.cast(self.dtype()?))
        })())
    }

    /// The last axes as so many largest elements of windows, as [`Tensor::adaptive_avg_pool`] has them.
    #[track_caller]
    pub fn adaptive_max_pool(&self, sizes: impl AxisList) -> Tensor {
        let sizes = &sizes.axes()[..];
        let location = Location::caller();
        let _call = within(location);
        built((|| {
            let axes = last_axes("adaptive_max_pool", self, sizes, location)?;
            let steps = axes.iter().zip(sizes);
            Ok(steps.fold(self.clone(), |x, ((axis, length), &size)| largest(&x, *axis, length, size)))
        })())
    }

    /// The last axes with so many elements, each the mean of the old ones that it covers: PyTorch's mode `area`.
    #[track_caller]
    pub fn interpolate_area(&self, sizes: impl AxisList) -> Tensor {
        let sizes = &sizes.axes()[..];
        self.adaptive_avg_pool(sizes)
    }

    /// The last axes with so many elements, each a cubic polynomial of four neighbours (with the coefficient -0.75): PyTorch's mode `bicubic`.
    /// `align_corners` says whether the outermost elements stay where they are.
    ///
    /// ```
    /// # use warpweft::Tensor;
    /// let x = Tensor::from_vec(vec![0f32, 1.0, 2.0, 3.0], [1, 1, 1, 4]);
    /// assert_eq!(x.interpolate_cubic(&[1, 4], false).to_vec::<f32>()?, [0.0, 1.0, 2.0, 3.0]);
    /// # Ok::<(), warpweft::Error>(())
    /// ```
    #[track_caller]
    pub fn interpolate_cubic(&self, sizes: impl AxisList, align_corners: bool) -> Tensor {
        let sizes = &sizes.axes()[..];
        let location = Location::caller();
        let _call = within(location);
        built((|| {
            let axes = last_axes("interpolate_cubic", self, sizes, location)?;
            let steps = axes.iter().zip(sizes);
            Ok(steps.fold(self.clone(), |x, ((axis, length), &size)| {
                let Some(number) = length.as_const() else {
                    return cubic_of_any(&x, *axis, length, size, align_corners);
                };
                let (old, new) = (number as f64, size as f64);
                let position = |k: i64| match align_corners {
                    true if size == 1 => 0.0,
                    true => k as f64 * (old - 1.0) / (new - 1.0),
                    false => (k as f64 + 0.5) * old / new - 0.5,
                };
                let how = Resampling {
                    kernel: Kernel::Cubic(-0.75),
                    scale: new / old,
                    antialias: false,
                    exclude_outside: false,
                };
                x.resample(*axis, &(0..size).map(position).collect::<Vec<_>>(), &how)
            }))
        })())
    }

    /// Channels [.., c r r, h, w] moved beside each other: [.., c, h r, w r].
    ///
    /// ```
    /// # use warpweft::Tensor;
    /// let x = Tensor::arange(0, 4, 1).reshape([1, 4, 1, 1]);
    /// assert_eq!(x.pixel_shuffle(2).shape()?, [1, 1, 2, 2]);
    /// # Ok::<(), warpweft::Error>(())
    /// ```
    #[track_caller]
    pub fn pixel_shuffle(&self, factor: impl Length) -> Tensor {
        let factor = factor.length();
        let location = Location::caller();
        let _call = within(location);
        built((|| {
            let dims = self.dims()?;
            let square = factor.checked_mul(factor).filter(|_| factor > 0);
            let channels = dims.len().checked_sub(3).and_then(|axis| dims[axis].as_const());
            let (Some(channels), [.., height, width], Some(square)) = (channels, &dims[..], square) else {
                let message = "there must be three axes at least, the third last of a length that is a number, and the factor 1 or more";
                return Err(CallError::new("pixel_shuffle", &[&self.uop()?], message, location).into());
            };
            if channels % square != 0 {
                let message = format!("{channels} channels are no multiple of {factor} times {factor}");
                return Err(CallError::new("pixel_shuffle", &[&self.uop()?], message, location).into());
            }
            let cut = self.unflatten(-3, [channels / square, factor, factor]);
            // [.., c, r, r, h, w] to [.., c, h, r, w, r].
            let moved = cut.movedim(-2, -4).movedim(-2, -1);
            let outer = dims[..dims.len() - 3].iter().cloned();
            let shape: crate::tensor::Dims =
                outer.chain([(channels / square).into(), height * factor, width * factor]).collect();
            Ok(moved.reshape(shape))
        })())
    }

    /// What [`Tensor::pixel_shuffle`] was made of.
    #[track_caller]
    pub fn pixel_unshuffle(&self, factor: impl Length) -> Tensor {
        let factor = factor.length();
        let location = Location::caller();
        let _call = within(location);
        built((|| {
            let axes = last_axes("pixel_unshuffle", self, &[1, 1, 1], location)?;
            let [(_, channels), (_, height), (_, width)] = &axes[..] else { return Ok(self.clone()) };
            let parts = Dim::from(factor);
            let simple = |dim: Dim| Dim::from(warpweft_compiler::symbolic::simplify(&dim.to_uop()));
            let is_multiple = |length: &Dim| simple(length.floor_mod(&parts)).is(0);
            if factor < 1 || !is_multiple(height) || !is_multiple(width) {
                let message = format!("{height} rows and {width} columns must be multiples of the factor {factor}");
                return Err(CallError::new("pixel_unshuffle", &[&self.uop()?], message, location).into());
            }
            let (rows, columns) = (simple(height.floor_div(&parts)), simple(width.floor_div(&parts)));
            let dims = self.dims()?;
            let outer = || dims[..dims.len() - 3].iter().cloned();
            let cut = [channels.clone(), rows.clone(), parts.clone(), columns.clone(), parts];
            let cut = self.reshape(outer().chain(cut).collect::<crate::tensor::Dims>());
            // [.., c, h, r, w, r] to [.., c, r, r, h, w].
            let moved = cut.movedim(-3, -4).movedim(-1, -3);
            let shape: crate::tensor::Dims = outer().chain([channels * factor * factor, rows, columns]).collect();
            Ok(moved.reshape(shape))
        })())
    }

    /// The rows of this table that each bag names, [bags, rows of a bag], as their sum, mean or largest; each row may have a weight, in the shape of
    /// the index, if they are summed.
    ///
    /// ```
    /// # use warpweft::Tensor;
    /// # use warpweft::tensor::Bag;
    /// let table = Tensor::from_vec(vec![1f32, 2.0, 4.0], [3, 1]);
    /// let index = Tensor::from_vec(vec![0i32, 2, 1, 1], [2, 2]);
    /// assert_eq!(table.embedding_bag(&index, Bag::Sum, None).to_vec::<f32>()?, [5.0, 4.0]);
    /// # Ok::<(), warpweft::Error>(())
    /// ```
    #[track_caller]
    pub fn embedding_bag(&self, index: &Tensor, bag: Bag, weights: Option<&Tensor>) -> Tensor {
        let location = Location::caller();
        let _call = within(location);
        built((|| {
            let refuse = |message: &str| {
                let operands = [self.uop()?, index.uop()?];
                Err(CallError::new("embedding_bag", &operands.each_ref(), message, location).into())
            };
            if self.rank()? != 2 || index.rank()? != 2 {
                return refuse("the table and the index must have two axes");
            }
            let rows = self.embedding(index);
            let Some(weights) = weights else {
                return Ok(match bag {
                    Bag::Sum => rows.sum(1),
                    Bag::Mean => rows.mean(1),
                    Bag::Max => rows.max(1),
                });
            };
            if bag != Bag::Sum || weights.dims()? != index.dims()? {
                return refuse("weights are for sums, and must have the shape of the index");
            }
            Ok((rows * weights.unsqueeze(-1)).sum(1))
        })())
    }

    /// As [`Tensor::embedding_bag`], of bags of any lengths, one after the other: `offsets`, which rise from 0, say where in the index each begins. A bag
    /// of no rows is zeros.
    #[track_caller]
    pub fn embedding_bag_at(&self, index: &Tensor, offsets: &Tensor, bag: Bag) -> Tensor {
        let location = Location::caller();
        let _call = within(location);
        built((|| {
            if self.rank()? != 2 || index.rank()? != 1 || offsets.rank()? != 1 {
                let operands = [self.uop()?, index.uop()?, offsets.uop()?];
                let message = "the table must have two axes, the index and the offsets one";
                return Err(CallError::new("embedding_bag_at", &operands.each_ref(), message, location).into());
            }
            let rows = self.embedding(index);
            let offsets = offsets.cast(DType::I32).contiguous();
            let number = offsets.searchsorted(&Tensor::iota(index.dims()?.numel()), true) - 1;
            let bag_of_row = number.contiguous().unsqueeze(-1).expand(rows.dims()?);
            let bags = [offsets.dims()?[0].clone(), rows.dims()?[1].clone()];
            let empty = Tensor::zeros_of(crate::tensor::Dims::from(bags.to_vec()), self.dtype()?);
            let reduce = match bag {
                Bag::Sum => ScatterReduce::Sum,
                Bag::Mean => ScatterReduce::Mean,
                Bag::Max => ScatterReduce::Amax,
            };
            Ok(empty.scatter_reduce(0, &bag_of_row, &rows, reduce, false))
        })())
    }
}
