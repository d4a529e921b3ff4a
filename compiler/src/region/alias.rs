//! The alias graph: allocations and chains of views, and what shares memory with what.
//!
//! Every tensor of the graph knows its address map, made from those of its inputs when it is added; so a question costs
//! as much as its two tensors are cut in pieces, however long the chains behind them are. Tensors are numbered in the
//! order in which they are added, inputs first.
//!
//! Answers are exact or [`Answer::Unknown`]: where a map or a set passes its budget, every question about it is open.
//! Queries stand in `alias/queries.rs`. Not here: when an alias is harmful (`inplace.rs`).

mod queries;

use super::budget::{Budget, TooComplex};
use super::integer::product;
use super::map::AddressMap;
use super::selection::Selection;
use super::sett::Sett;
use std::sync::Arc;

/// Number of a tensor in its graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TensorId(pub usize);

/// Why a tensor cannot be added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AliasError {
    /// The id is not of this graph.
    #[error("tensor {0} is not in the graph, which has {1} tensors")]
    NoTensor(usize, usize),
    /// A parameter does not fit the shape.
    #[error("{op} of shape {shape:?}: {problem}")]
    Parameter {
        /// The view op.
        op: &'static str,
        /// Shape of its input.
        shape: Vec<i64>,
        /// What is wrong, and what would be right.
        problem: String,
    },
    /// The shape is negative somewhere or has too many elements to number.
    #[error("{op}: shape {shape:?} has a negative extent or more than 2^58 elements")]
    Extent {
        /// The op.
        op: &'static str,
        /// The shape.
        shape: Vec<i64>,
    },
}

/// How a tensor came to be. Kept so that graphs can be cloned and allocations replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Allocate { color: i64 },
    Identity,
    Reshape,
    Permute(Vec<usize>),
    Reverse(Vec<usize>),
    Expand,
    Concat(usize),
    Sample(Vec<Selection>),
    Fill(Vec<Vec<Selection>>),
    Strided { offset: i64, strides: Vec<i64> },
}

#[derive(Clone, Debug)]
struct Node {
    step: Step,
    inputs: Vec<TensorId>,
    shape: Vec<i64>,
    map: Result<Arc<AddressMap>, TooComplex>,
}

/// Allocations and views of them.
#[derive(Clone, Debug, Default)]
pub struct AliasGraph {
    nodes: Vec<Node>,
}

impl AliasGraph {
    /// A graph without tensors.
    #[must_use]
    pub fn new() -> Self {
        AliasGraph::default()
    }

    /// How many tensors there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// No tensors.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The shape of a tensor of this graph.
    ///
    /// # Errors
    /// If it is not of this graph.
    pub fn shape(&self, id: TensorId) -> Result<&[i64], AliasError> {
        Ok(&self.node(id)?.shape)
    }

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

    /// Keeps the coordinates that are in each dimension's sett.
    ///
    /// # Errors
    /// If there is not one sett a dimension.
    pub fn sample(&mut self, input: TensorId, setts: &[Sett]) -> Result<TensorId, AliasError> {
        let from = &self.node(input)?.shape;
        let selections = select("sample", from, setts)?;
        self.add_sample("sample", input, selections)
    }

    fn add_sample(&mut self, op: &'static str, input: TensorId, s: Vec<Selection>) -> Result<TensorId, AliasError> {
        let shape = s.iter().map(Selection::count).collect();
        self.add(op, Step::Sample(s), vec![input], shape)
    }

    /// Interleaves tensors: input `k` fills the product of setts `regions[k]` of the shape. Regions must partition the
    /// shape.
    ///
    /// # Errors
    /// If a region has another shape than its input, or the counts do not add up to the shape.
    pub fn fill(&mut self, inputs: &[TensorId], shape: &[i64], regions: &[Vec<Sett>]) -> Result<TensorId, AliasError> {
        if inputs.len() != regions.len() {
            return Err(parameter("fill", shape, "wants one region an input".to_owned()));
        }
        let mut all = Vec::with_capacity(inputs.len());
        let mut filled = 0i128;
        for (&input, setts) in inputs.iter().zip(regions) {
            let selections = select("fill", shape, setts)?;
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
            let reach = i128::from(extent - 1) * i128::from(stride);
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

    /// Makes the sub-graph that a tensor comes from once more, on fresh allocations, of one colour if one is given.
    /// Gives the old and new ids in the order of the old; the last is the tensor's own.
    ///
    /// # Errors
    /// If the tensor is not of this graph.
    pub fn clone_tensor(&mut self, id: TensorId, color: Option<i64>) -> Result<Vec<(TensorId, TensorId)>, AliasError> {
        self.node(id)?;
        let mut needed = vec![false; id.0 + 1];
        needed[id.0] = true;
        self.mark_inputs(id, &mut needed);
        let mut copies: Vec<(TensorId, TensorId)> = Vec::new();
        for old in (0..=id.0).filter(|&old| needed[old]) {
            let node = self.nodes[old].clone();
            let step = match (node.step, color) {
                (Step::Allocate { .. }, Some(color)) => Step::Allocate { color },
                (step, _) => step,
            };
            let copy_of = |input: &TensorId| {
                let found = copies.binary_search_by_key(input, |&(old, _)| old);
                found.map_or(*input, |position| copies[position].1)
            };
            let inputs = node.inputs.iter().map(copy_of).collect();
            let copy = self.add("clone", step, inputs, node.shape)?;
            copies.push((TensorId(old), copy));
        }
        Ok(copies)
    }

    fn mark_inputs(&self, id: TensorId, needed: &mut [bool]) {
        let mut open = vec![id];
        while let Some(node) = open.pop() {
            for &input in &self.nodes[node.0].inputs {
                if !std::mem::replace(&mut needed[input.0], true) {
                    open.push(input);
                }
            }
        }
    }

    /// Turns an allocation into another name of `source`, an earlier tensor of the same shape, and all its views with
    /// it.
    ///
    /// # Errors
    /// If it is no allocation, or the source is later or of another shape.
    pub fn redirect(&mut self, allocation: TensorId, source: TensorId) -> Result<(), AliasError> {
        let (node, from) = (self.node(allocation)?, self.node(source)?);
        if !matches!(node.step, Step::Allocate { .. }) || source >= allocation || from.shape != node.shape {
            let problem = format!("it cannot become tensor {} of shape {:?}", source.0, from.shape);
            return Err(parameter("redirect", &node.shape, problem));
        }
        self.nodes[allocation.0].step = Step::Identity;
        self.nodes[allocation.0].inputs = vec![source];
        self.refresh(allocation);
        Ok(())
    }

    /// Turns a tensor into fresh memory, cut off from its inputs.
    ///
    /// # Errors
    /// If the tensor is not of this graph.
    pub fn detach(&mut self, id: TensorId, color: i64) -> Result<(), AliasError> {
        self.node(id)?;
        self.nodes[id.0].step = Step::Allocate { color };
        self.nodes[id.0].inputs = vec![];
        self.refresh(id);
        Ok(())
    }

    /// Makes the maps of a tensor and of all that come from it anew.
    fn refresh(&mut self, changed: TensorId) {
        let mut stale = vec![false; self.nodes.len()];
        stale[changed.0] = true;
        for id in changed.0..self.nodes.len() {
            stale[id] |= self.nodes[id].inputs.iter().any(|input| stale[input.0]);
            if stale[id] {
                self.nodes[id].map = self.make_map(id, &self.nodes[id]);
            }
        }
    }

    fn node(&self, id: TensorId) -> Result<&Node, AliasError> {
        self.nodes.get(id.0).ok_or(AliasError::NoTensor(id.0, self.nodes.len()))
    }

    fn add(
        &mut self,
        op: &'static str,
        step: Step,
        inputs: Vec<TensorId>,
        shape: Vec<i64>,
    ) -> Result<TensorId, AliasError> {
        let fits = shape.iter().all(|&extent| (0..=super::LARGEST).contains(&extent)) && product(&shape).is_some();
        if !fits {
            return Err(AliasError::Extent { op, shape });
        }
        let mut node = Node { step, inputs, shape, map: Err(TooComplex) };
        node.map = self.make_map(self.nodes.len(), &node);
        self.nodes.push(node);
        Ok(TensorId(self.nodes.len() - 1))
    }

    fn make_map(&self, id: usize, node: &Node) -> Result<Arc<AddressMap>, TooComplex> {
        let input = |number: usize| &self.nodes[node.inputs[number].0];
        let map = |number: usize| input(number).map.clone();
        let mut budget = Budget::for_sets();
        let made = match &node.step {
            Step::Allocate { .. } => AddressMap::allocation(id, &node.shape),
            Step::Identity => return map(0),
            Step::Reshape => map(0)?.reshape(&input(0).shape, &node.shape, &mut budget)?,
            Step::Permute(dims) => map(0)?.permute(dims),
            Step::Reverse(dims) => {
                let start = (*map(0)?).clone();
                dims.iter().fold(start, |map, &dim| map.reverse(dim, node.shape[dim]))
            }
            Step::Expand => map(0)?.expand(&input(0).shape, &node.shape),
            Step::Concat(axis) => {
                let mut at = 0;
                let mut parts = Vec::with_capacity(node.inputs.len());
                for number in 0..node.inputs.len() {
                    parts.push(map(number)?.shifted(*axis, at));
                    at += input(number).shape[*axis];
                }
                AddressMap::joined(parts)?
            }
            Step::Sample(selections) => {
                let from = &input(0).shape;
                let mut made = (*map(0)?).clone();
                for (dim, selection) in selections.iter().enumerate().filter(|(dim, s)| !s.is_all_of(from[*dim])) {
                    made = made.sample(dim, selection, &mut budget)?;
                }
                made
            }
            Step::Fill(regions) => {
                let mut parts = Vec::with_capacity(regions.len());
                for (number, selections) in regions.iter().enumerate() {
                    let mut part = (*map(number)?).clone();
                    for (dim, selection) in selections.iter().enumerate() {
                        part = part.fill(dim, selection, &mut budget)?;
                    }
                    parts.push(part);
                }
                AddressMap::joined(parts)?
            }
            Step::Strided { offset, strides } => AddressMap::strided(node.inputs[0].0, *offset, &node.shape, strides),
        };
        Ok(Arc::new(made))
    }
}

fn parameter(op: &'static str, shape: &[i64], problem: String) -> AliasError {
    AliasError::Parameter { op, shape: shape.to_vec(), problem }
}

fn select(op: &'static str, shape: &[i64], setts: &[Sett]) -> Result<Vec<Selection>, AliasError> {
    if setts.len() != shape.len() {
        return Err(parameter(op, shape, format!("wants one sett a dimension, not {}", setts.len())));
    }
    if shape.iter().any(|extent| !(0..=super::LARGEST).contains(extent)) {
        return Err(AliasError::Extent { op, shape: shape.to_vec() });
    }
    Ok(shape.iter().zip(setts).map(|(&extent, sett)| Selection::of_sett(sett, 0, extent)).collect())
}
