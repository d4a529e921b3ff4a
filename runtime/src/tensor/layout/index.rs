//! Indexing: `x.get((0, 1..3, ..))`, by tensors of integers, and replacing what an index names.

use std::ops::{Range, RangeFrom, RangeFull, RangeInclusive, RangeTo};
use std::panic::Location;

use warpweft_compiler::UOp;
use warpweft_compiler::ops::join::check_count;
use warpweft_compiler::ops::slicing::{Slice, slice};
use warpweft_compiler::ops::{Built, indexing, scatter};
use warpweft_compiler::view::{ViewError, ViewSpec};

use super::bounds::{Allowed, index_of, with_index};
use crate::tensor::{AxisList, Length, Operand, Result, ScatterReduce, Tensor};

/// One entry of an index: a number, a range, a new axis, or the rest.
pub type Index = Slice;

/// Anything that one entry of an index can be written as.
pub trait IntoIndex {
    /// As an entry.
    fn into_index(self) -> Index;
}

impl IntoIndex for Slice {
    fn into_index(self) -> Index {
        self
    }
}

impl IntoIndex for RangeFull {
    fn into_index(self) -> Index {
        Slice::ALL
    }
}

macro_rules! ranges {
    ($($number:ident)*) => { $(
        impl IntoIndex for $number {
            fn into_index(self) -> Index {
                Slice::At(self.length())
            }
        }
        impl IntoIndex for Range<$number> {
            fn into_index(self) -> Index {
                Slice::Range { start: Some(self.start.length()), stop: Some(self.end.length()), step: 1 }
            }
        }
        impl IntoIndex for RangeFrom<$number> {
            fn into_index(self) -> Index {
                Slice::Range { start: Some(self.start.length()), stop: None, step: 1 }
            }
        }
        impl IntoIndex for RangeTo<$number> {
            fn into_index(self) -> Index {
                Slice::Range { start: None, stop: Some(self.end.length()), step: 1 }
            }
        }
        impl IntoIndex for RangeInclusive<$number> {
            fn into_index(self) -> Index {
                let end = self.end().length();
                // One past -1 is the end itself.
                let stop = if end == -1 { None } else { Some(end.saturating_add(1)) };
                Slice::Range { start: Some(self.start().length()), stop, step: 1 }
            }
        }
    )* };
}

ranges!(i32 i64 u32 usize);

/// A whole index: one entry, several as a tuple, or a list.
pub trait IndexList {
    /// The entries.
    fn entries(self) -> Vec<Index>;
}

impl<I: IntoIndex> IndexList for I {
    fn entries(self) -> Vec<Index> {
        vec![self.into_index()]
    }
}

impl IndexList for Vec<Index> {
    fn entries(self) -> Vec<Index> {
        self
    }
}

impl IndexList for &[Index] {
    fn entries(self) -> Vec<Index> {
        self.to_vec()
    }
}

macro_rules! tuples {
    ($(($($name:ident)*))*) => { $(
        impl<$($name: IntoIndex),*> IndexList for ($($name,)*) {
            fn entries(self) -> Vec<Index> {
                #[allow(non_snake_case, reason = "each entry is named as its type")]
                let ($($name,)*) = self;
                vec![$($name.into_index()),*]
            }
        }
    )* };
}

tuples! { (A) (A B) (A B C) (A B C D) (A B C D E) (A B C D E F) }

/// What an index makes of a view, entry by entry.
fn sliced(spec: &ViewSpec, entries: &[Index]) -> std::result::Result<ViewSpec, ViewError> {
    let mut spec = spec.clone();
    let taken = entries.iter().filter(|entry| !matches!(entry, Slice::New | Slice::Rest)).count();
    let rest = spec.shape.len().saturating_sub(taken);
    let mut axis = 0;
    for &entry in entries {
        spec = match entry {
            Slice::Rest => {
                axis += rest as i64;
                continue;
            }
            Slice::At(at) => {
                spec = spec.select(axis, at)?;
                continue;
            }
            Slice::New => spec.unsqueeze(axis)?,
            Slice::Range { start, stop, step } if step > 0 => spec.slice(axis, start, stop, step)?,
            Slice::Range { start, stop, step } => spec.slice_with_sign(axis, start, stop, step)?,
        };
        axis += 1;
    }
    Ok(spec)
}

/// As [`with_index`], of several axes, whose indices count from either end.
pub(super) fn with_indices(
    op: &'static str,
    operands: &[UOp],
    axes: &[i64],
    indices: &[UOp],
    location: &'static Location<'static>,
    build: impl Fn(&[UOp]) -> Built,
) -> Built {
    let operands: Vec<&UOp> = operands.iter().collect();
    let allowed = |number: usize| axes.get(number).and_then(|&axis| Allowed::axis_from_either_end(operands[0], axis));
    let checked = indices.iter().enumerate();
    let checked = checked.map(|(number, index)| index_of(op, &operands, index, allowed(number), location));
    match checked.collect::<Built<Vec<UOp>>>() {
        Ok(checked) => build(&checked),
        Err(error) => build(indices).and(Err(error)),
    }
}

/// Elements named by tensors of integers, which count from the start; in [`Tensor::index`] and [`Tensor::index_assign`] negative ones count from
/// the end. An element of an index that names nothing is an error: of the call where the index is known, or else in the checked mode
/// ([`crate::tensor::check_indices`], `CHECK=1`). Without that it reads 0 and writes nowhere.
impl Tensor {
    /// Part of the tensor, with Python's meaning of ranges: a view of it.
    #[track_caller]
    pub fn get(&self, index: impl IndexList) -> Tensor {
        let entries = index.entries();
        self.viewed("index", |x| slice(x, &entries), |spec| sliced(spec, &entries))
    }

    /// This with part of it replaced; the value broadcasts to the part. The tensor itself stays as it is.
    #[track_caller]
    pub fn with(&self, index: impl IndexList, value: impl Operand) -> Tensor {
        let value = value.given().stored_among("setitem", self);
        Tensor::compute("setitem", [self, &value], |[x, value]| indexing::set_slice(x, &index.entries(), value))
    }

    /// One axis replaced by the axes of an index.
    #[track_caller]
    pub fn index_select(&self, axis: impl Length, index: &Tensor) -> Tensor {
        let axis = axis.length();
        let location = Location::caller();
        Tensor::compute("index_select", [self, index], |[x, index]| {
            let build = |index: &UOp| indexing::index_select(x, axis, index);
            with_index("index_select", &[x, index], index, Allowed::axis(x, axis), location, build)
        })
    }

    /// Several axes indexed at once by tensors that broadcast; negative indices count from the end.
    #[track_caller]
    pub fn index(&self, axes: impl AxisList, indices: &[&Tensor]) -> Tensor {
        let axes = &axes.axes()[..];
        let location = Location::caller();
        let all: Vec<&Tensor> = std::iter::once(self).chain(indices.iter().copied()).collect();
        Tensor::joined("index", &all, |nodes| {
            let build = |indices: &[UOp]| indexing::index(&nodes[0], axes, indices);
            with_indices("index", nodes, axes, &nodes[1..], location, build)
        })
    }

    /// Elements of one axis, chosen for each position along the others.
    #[track_caller]
    pub fn gather(&self, index: &Tensor, axis: impl Length) -> Tensor {
        let axis = axis.length();
        let location = Location::caller();
        Tensor::compute("gather", [self, index], |[x, index]| {
            let build = |index: &UOp| indexing::gather(x, index, axis);
            with_index("gather", &[x, index], index, Allowed::axis(x, axis), location, build)
        })
    }

    /// This with elements of a source written to the positions that an index names; the last wins.
    #[track_caller]
    pub fn scatter(&self, axis: impl Length, index: &Tensor, source: &Tensor) -> Tensor {
        let axis = axis.length();
        let location = Location::caller();
        Tensor::compute("scatter", [self, index, source], |[x, index, source]| {
            let build = |index: &UOp| scatter::scatter(x, axis, index, source);
            with_index("scatter", &[x, index, source], index, Allowed::axis(x, axis), location, build)
        })
    }

    /// This with elements of a source combined at the positions that an index names.
    #[track_caller]
    pub fn scatter_reduce(
        &self,
        axis: impl Length,
        index: &Tensor,
        source: &Tensor,
        reduce: ScatterReduce,
        include_self: bool,
    ) -> Tensor {
        let axis = axis.length();
        let location = Location::caller();
        Tensor::compute("scatter_reduce", [self, index, source], |[x, index, source]| {
            let build = |index: &UOp| scatter::scatter_reduce(x, axis, index, source, reduce, include_self);
            with_index("scatter_reduce", &[x, index, source], index, Allowed::axis(x, axis), location, build)
        })
    }

    /// 1 at the position that each index names along a new last axis, 0 elsewhere; `i32`.
    #[track_caller]
    pub fn one_hot(&self, classes: impl Length) -> Tensor {
        let (classes, location) = (classes.length(), Location::caller());
        Tensor::compute("one_hot", [self], |[index]| {
            let build = |index: &UOp| indexing::one_hot(index, classes);
            with_index("one_hot", &[index], index, Some(Allowed::classes(classes, None)), location, build)
        })
    }

    /// The parts of an axis one by one.
    ///
    /// # Errors
    /// If there is no such axis.
    #[track_caller]
    pub fn unbind(&self, axis: impl Length) -> Result<Vec<Tensor>> {
        let axis = axis.length();
        let shape = self.shape()?;
        let count = warpweft_compiler::ops::resolve_axis(axis, shape.len()).and_then(|axis| {
            check_count(shape[axis] as i64)?;
            Ok(shape[axis])
        });
        let count = match count {
            Ok(count) => count,
            Err(error) => return Err(self.refused_call("unbind", error.message)),
        };
        let select = |k: usize| {
            let build = |x: &UOp| {
                let axis = warpweft_compiler::ops::resolve_axis(axis, x.shape().len())?;
                let mut entries = vec![Slice::ALL; axis];
                entries.push(Slice::At(k as i64));
                slice(x, &entries)
            };
            self.viewed("unbind", build, |spec| spec.select(axis, k as i64))
        };
        let parts: Vec<Tensor> = (0..count).map(select).collect();
        if let Some(error) = parts.iter().find_map(|part| part.0.as_ref().err()) {
            return Err(error.clone());
        }
        Ok(parts)
    }
}
