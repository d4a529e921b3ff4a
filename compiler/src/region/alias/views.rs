//! The ops that add tensors to an alias graph: allocations and views, each checked against the shapes it is given.

use super::{AliasError, AliasGraph, Step, TensorId};
use crate::region::LARGEST;
use crate::region::integer::product;
use crate::region::nested_stripes::NestedStripes;
use crate::region::selection::Selection;

impl AliasGraph {
    /// Fresh memory for a shape, row-major. The colour is the caller's: constant, variable, device...
    ///
    /// # Errors
    /// If an extent is negative or the product too large.
    pub fn allocate(&mut self, shape: &[i64], color: i64) -> Result<TensorId, AliasError> {
        self.add("allocate", Step::Allocate { color }, vec![], shape.to_vec())
    }

    /// The same view again.
    ///
    /// # Errors
    /// If the input is not of this graph.
    pub fn identity(&mut self, input: TensorId) -> Result<TensorId, AliasError> {
        let shape = self.node(input)?.shape.clone();
        self.add("identity", Step::Identity, vec![input], shape)
    }

    /// The elements in row-major order in another shape; always aliases, even where strides could not say it.
    ///
    /// # Errors
    /// If the shapes hold different numbers of elements.
    pub fn reshape(&mut self, input: TensorId, shape: &[i64]) -> Result<TensorId, AliasError> {
        let from = &self.node(input)?.shape;
        if product(from) != product(shape) || shape.iter().any(|&extent| extent < 0) {
            return Err(parameter("reshape", from, format!("{shape:?} does not have as many elements")));
        }
        self.add("reshape", Step::Reshape, vec![input], shape.to_vec())
    }

    /// `lower..upper` by `step` along each dimension, with `0 <= lower <= upper <= extent` and positive steps.
    ///
    /// # Errors
    /// If the bounds do not fit the shape.
    pub fn slice(
        &mut self,
        input: TensorId,
        lower: &[i64],
        upper: &[i64],
        step: &[i64],
    ) -> Result<TensorId, AliasError> {
        let from = &self.node(input)?.shape;
        let rank = from.len();
        if lower.len() != rank || upper.len() != rank || step.len() != rank {
            return Err(parameter("slice", from, "wants lower, upper and step for each dimension".to_owned()));
        }
        let mut selections = Vec::with_capacity(rank);
        for dim in 0..rank {
            let (low, high, by) = (lower[dim], upper[dim], step[dim]);
            if !(0 <= low && low <= high && high <= from[dim] && by >= 1) {
                let problem = format!("{low}..{high} by {by} does not fit dimension {dim}");
                return Err(parameter("slice", from, problem));
            }
            let count = (high - low) / by + i64::from((high - low) % by != 0);
            selections.push(Selection::steps(low, by, count));
        }
        self.add_sample("slice", input, selections)
    }

    /// Keeps the coordinates that are in each dimension's periodic set.
    ///
    /// # Errors
    /// If there is not one periodic set a dimension.
    pub fn sample(&mut self, input: TensorId, nested: &[NestedStripes]) -> Result<TensorId, AliasError> {
        let from = &self.node(input)?.shape;
        let selections = select("sample", from, nested)?;
        self.add_sample("sample", input, selections)
    }

    fn add_sample(&mut self, op: &'static str, input: TensorId, s: Vec<Selection>) -> Result<TensorId, AliasError> {
        let shape = s.iter().map(Selection::count).collect();
        self.add(op, Step::Sample(s), vec![input], shape)
    }

    /// Interleaves tensors: input `k` fills the product of periodic sets `regions[k]` of the shape. Regions must partition the
    /// shape.
    ///
    /// # Errors
    /// If a region has another shape than its input, or the counts do not add up to the shape.
    pub fn fill(
        &mut self,
        inputs: &[TensorId],
        shape: &[i64],
        regions: &[Vec<NestedStripes>],
    ) -> Result<TensorId, AliasError> {
        if inputs.len() != regions.len() {
            return Err(parameter("fill", shape, "wants one region an input".to_owned()));
        }
        let mut all = Vec::with_capacity(inputs.len());
        let mut filled = 0i128;
        for (&input, nested) in inputs.iter().zip(regions) {
            let selections = select("fill", shape, nested)?;
            let counts: Vec<i64> = selections.iter().map(Selection::count).collect();
            let from = &self.node(input)?.shape;
            if *from != counts {
                return Err(parameter("fill", from, format!("its region has shape {counts:?}")));
            }
            filled += i128::from(product(&counts).unwrap_or(-1));
            all.push(selections);
        }
        if Some(filled) != product(shape).map(i128::from) {
            return Err(parameter("fill", shape, format!("the regions hold {filled} elements")));
        }
        self.add("fill", Step::Fill(all), inputs.to_vec(), shape.to_vec())
    }

    /// Output dimension `i` is input dimension `dims[i]`.
    ///
    /// # Errors
    /// If `dims` is no permutation.
    pub fn permute(&mut self, input: TensorId, dims: &[usize]) -> Result<TensorId, AliasError> {
        let from = &self.node(input)?.shape;
        let mut sorted = dims.to_vec();
        sorted.sort_unstable();
        if !sorted.iter().copied().eq(0..from.len()) {
            return Err(parameter("permute", from, format!("{dims:?} is no permutation of its dimensions")));
        }
        let shape = dims.iter().map(|&dim| from[dim]).collect();
        self.add("permute", Step::Permute(dims.to_vec()), vec![input], shape)
    }

    /// Reverses dimensions; one listed twice stays as it is.
    ///
    /// # Errors
    /// If there is no such dimension.
    pub fn reverse(&mut self, input: TensorId, dims: &[usize]) -> Result<TensorId, AliasError> {
        let from = &self.node(input)?.shape;
        if let Some(dim) = dims.iter().find(|&&dim| dim >= from.len()) {
            return Err(parameter("reverse", from, format!("there is no dimension {dim}")));
        }
        let shape = from.clone();
        self.add("reverse", Step::Reverse(dims.to_vec()), vec![input], shape)
    }

    /// Broadcasts, right-aligned.
    ///
    /// # Errors
    /// If an extent is neither kept nor 1.
    pub fn expand(&mut self, input: TensorId, shape: &[i64]) -> Result<TensorId, AliasError> {
        let from = &self.node(input)?.shape;
        let fits = shape.len() >= from.len()
            && from.iter().rev().zip(shape.iter().rev()).all(|(&from, &to)| from == to || from == 1);
        if !fits {
            return Err(parameter("expand", from, format!("it does not broadcast to {shape:?}")));
        }
        self.add("expand", Step::Expand, vec![input], shape.to_vec())
    }

    /// Joins tensors along an axis.
    ///
    /// # Errors
    /// If there is none, no such axis, or another extent differs.
    pub fn concat(&mut self, inputs: &[TensorId], axis: usize) -> Result<TensorId, AliasError> {
        let Some(&first) = inputs.first() else {
            return Err(parameter("concat", &[], "wants at least one tensor".to_owned()));
        };
        let mut shape = self.node(first)?.shape.clone();
        if axis >= shape.len() {
            return Err(parameter("concat", &shape, format!("there is no axis {axis}")));
        }
        let mut total = 0i64;
        for &input in inputs {
            let other = &self.node(input)?.shape;
            let same =
                other.len() == shape.len() && (0..shape.len()).all(|dim| dim == axis || other[dim] == shape[dim]);
            if !same {
                return Err(parameter("concat", &shape, format!("{other:?} differs beside axis {axis}")));
            }
            total = total.saturating_add(other[axis]);
        }
        shape[axis] = total;
        self.add("concat", Step::Concat(axis), inputs.to_vec(), shape)
    }

    /// A view of an allocation with any strides, overlapping and zero ones too.
    ///
    /// # Errors
    /// If the input is no allocation, or an address lies outside it.
    pub fn as_strided(
        &mut self,
        allocation: TensorId,
        shape: &[i64],
        strides: &[i64],
        offset: i64,
    ) -> Result<TensorId, AliasError> {
        let node = self.node(allocation)?;
        if !matches!(node.step, Step::Allocate { .. }) {
            return Err(parameter("as_strided", &node.shape, "its input must be an allocation".to_owned()));
        }
        if strides.len() != shape.len() {
            return Err(parameter("as_strided", &node.shape, format!("{strides:?} are not the strides of {shape:?}")));
        }
        let (mut lowest, mut highest) = (i128::from(offset), i128::from(offset));
        for (&extent, &stride) in shape.iter().zip(strides) {
            let reach = (i128::from(extent) - 1) * i128::from(stride);
            lowest = lowest.saturating_add(reach.min(0));
            highest = highest.saturating_add(reach.max(0));
        }
        let elements = i128::from(product(&node.shape).unwrap_or(0));
        if !shape.contains(&0) && (lowest < 0 || highest >= elements) {
            let problem = format!("addresses {lowest}..={highest} are not all in 0..{elements}");
            return Err(parameter("as_strided", &node.shape, problem));
        }
        self.add("as_strided", Step::Strided { offset, strides: strides.to_vec() }, vec![allocation], shape.to_vec())
    }
}

pub(super) fn parameter(op: &'static str, shape: &[i64], problem: String) -> AliasError {
    AliasError::Parameter { op, shape: shape.to_vec(), problem }
}

fn select(op: &'static str, shape: &[i64], nested: &[NestedStripes]) -> Result<Vec<Selection>, AliasError> {
    if nested.len() != shape.len() {
        return Err(parameter(op, shape, format!("wants one periodic set a dimension, not {}", nested.len())));
    }
    if shape.iter().any(|extent| !(0..=LARGEST).contains(extent)) {
        return Err(AliasError::Extent { op, shape: shape.to_vec() });
    }
    Ok(shape.iter().zip(nested).map(|(&extent, stripes)| Selection::of_stripes(stripes, 0, extent)).collect())
}
