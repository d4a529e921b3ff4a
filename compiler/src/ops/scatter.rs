//! Elements written to places that a tensor of integers names.
//!
//! Every place asks every source whether it is meant, so the work is places times sources along the axis. Where several sources
//! name one place, the last wins in [`scatter`]; [`scatter_reduce`] combines them. Indices out of range write nothing.

use super::create::{full_like, positions};
use super::elementwise::where_;
use super::indexing::check_index;
use super::join::cat;
use super::math::known;
use super::movement::insert_axis;
use super::padding::pad_with;
use super::reduce::along;
use super::shapes::concrete;
use super::{Built, fail, resolve_axis};
use crate::dtype::Scalar;
use crate::dtype::lattice::accumulate;
use crate::ir::{Function, ReduceOp, Shape};
use crate::{DType, UOp};

/// How several values for one place become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScatterReduce {
    /// Their sum.
    Sum,
    /// Their product.
    Prod,
    /// Their mean.
    Mean,
    /// The largest.
    Amax,
    /// The smallest.
    Amin,
}

/// Places against sources: what each source holds and whether it is meant for the place, sources along the last axis.
#[derive(Clone)]
struct Candidates {
    source: UOp,
    meant: UOp,
    axis: usize,
}

/// The source and index, grown to the shape of x but for the axis: what is missing names no place.
fn candidates(x: &UOp, axis: i64, index: &UOp, source: &UOp) -> Built<Candidates> {
    check_index(index)?;
    let rank = x.shape().len();
    if index.shape().len() != rank || source.shape().len() != rank {
        fail!("x {}, index {} and source {} differ in their number of axes", x.shape(), index.shape(), source.shape());
    }
    if rank == 0 {
        fail!("x has no axis to scatter along");
    }
    let axis = resolve_axis(axis, rank)?;
    let (places, named, given) = (concrete(x)?, concrete(index)?, concrete(source)?);
    if let Some(k) = (0..rank).find(|&k| named[k] > given[k] || (k != axis && named[k] > places[k])) {
        fail!(
            "the index {} is longer than x {} or the source {} in axis {k}",
            index.shape(),
            x.shape(),
            source.shape()
        );
    }
    let used: Vec<_> = named.iter().map(|&len| (0.into(), len.into())).collect();
    let padding: Vec<(i64, i64)> =
        (0..rank).map(|k| if k == axis { (0, 0) } else { (0, places[k] - named[k]) }).collect();
    let index = pad_with(&index.cast(DType::I64), &padding, Scalar::Int(-1));
    let source = pad_with(&source.cast(x.dtype()).shrink(&used), &padding, Scalar::zero(x.dtype()));
    // [.., places, .., sources]: the axis of sources moves to the end.
    let spread = |node: &UOp| {
        let moved = super::movement::move_axis(node, axis, rank - 1);
        let mut lengths: Vec<_> = moved.shape().to_vec();
        lengths.insert(axis, places[axis].into());
        insert_axis(&moved, axis).expand(Shape::from(lengths))
    };
    let (index, source) = (spread(&index), spread(&source));
    let meant = index.equals(positions(index.shape(), axis).cast(DType::I64));
    Ok(Candidates { source, meant, axis: rank })
}

/// x with `source[i][j]` written to `x[index[i][j]][j]` (along axis 0).
pub fn scatter(x: &UOp, axis: i64, index: &UOp, source: &UOp) -> Built {
    let Candidates { source, meant, axis } = candidates(x, axis, index, source)?;
    let number = (positions(meant.shape(), axis) + UOp::index(1)).cast(DType::I64);
    let zero = UOp::int(0, DType::I64);
    let last = along(&meant.select(&number, &zero), ReduceOp::Max, &[axis], true);
    let wins = number.equals(last.expand(number.shape().clone()));
    let blank = UOp::constant(Scalar::zero(x.dtype()), x.dtype());
    let op = if x.dtype().is_bool() { ReduceOp::Max } else { ReduceOp::Add };
    let written = along(&wins.select(source, blank), op, &[axis], false);
    where_(&along(&meant, ReduceOp::Max, &[axis], false), &written, x)
}

/// x with all sources for a place combined, and with what was there unless `include_self` is false. All that hold an extreme share its
/// gradient.
pub fn scatter_reduce(
    x: &UOp,
    axis: i64,
    index: &UOp,
    source: &UOp,
    reduce: ScatterReduce,
    include_self: bool,
) -> Built {
    let candidates = candidates(x, axis, index, source)?;
    let Candidates { source, meant, axis } = candidates.clone();
    let op = match reduce {
        ScatterReduce::Sum | ScatterReduce::Mean => ReduceOp::Add,
        ScatterReduce::Prod => ReduceOp::Mul,
        ScatterReduce::Amax => ReduceOp::Max,
        ScatterReduce::Amin => ReduceOp::Min,
    };
    let wide = if matches!(op, ReduceOp::Add | ReduceOp::Mul) { accumulate(x.dtype()) } else { x.dtype() };
    let blank = UOp::constant(op.identity(wide), wide);
    let combined = along(&meant.select(source.cast(wide), blank), op, &[axis], false);
    let touched = along(&meant, ReduceOp::Max, &[axis], false);
    let with_self = if include_self { UOp::binary(op.op(), &x.cast(wide), &combined) } else { combined };
    let result = match reduce {
        ScatterReduce::Mean => {
            let own = full_like(&with_self, include_self as i64);
            let count = along(&meant.cast(wide), ReduceOp::Add, &[axis], false) + own;
            let count = count.max(count.const_like(1));
            if wide.is_float() { with_self.div(count) } else { with_self.idiv(count) }
        }
        ScatterReduce::Sum | ScatterReduce::Prod | ScatterReduce::Amax | ScatterReduce::Amin => with_self,
    };
    let value = where_(&touched, &result.cast(x.dtype()), x)?;
    if !x.dtype().is_float() || !matches!(op, ReduceOp::Max | ReduceOp::Min) {
        return Ok(value);
    }
    let alike = where_(&touched, &shared_extreme(x, &candidates, op, include_self)?, x)?;
    Ok(known(Function::Alike, value, &[&alike]))
}

/// The extreme of the sources for each place, and of what was there, as one reduction.
fn shared_extreme(x: &UOp, candidates: &Candidates, op: ReduceOp, include_self: bool) -> Built {
    let Candidates { source, meant, axis } = candidates;
    let own = insert_axis(x, *axis);
    let counts = full_like(&own.cast(DType::BOOL), include_self as i64);
    let values = cat(&[own, source.clone()], *axis as i64)?;
    let inside = cat(&[counts, meant.clone()], *axis as i64)?;
    let blank = UOp::constant(op.identity(x.dtype()), x.dtype());
    let value = along(&inside.select(&values, blank), op, &[*axis], false);
    Ok(known(Function::EvenExtreme, value, &[&values, &inside]))
}
