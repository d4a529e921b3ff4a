//! The alias graph: allocations and chains of views, and what shares memory with what.
//!
//! Every tensor of the graph knows its address map, made from those of its inputs when it is added; so a question costs
//! as much as its two tensors are cut in pieces, however long the chains behind them are. Tensors are numbered in the
//! order in which they are added, inputs first.
//!
//! Answers are exact or `Answer::Unknown`: where a map or a set passes its budget, every question about it is open.
//! Queries stand in `alias/queries.rs`, the ops that add tensors in `alias/views.rs`. Not here: when an alias is
//! harmful (`inplace.rs`).

mod queries;
mod views;

use super::budget::{Budget, TooComplex};
use super::integer::product;
use super::map::AddressMap;
use super::selection::Selection;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Number of a tensor in its graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TensorId(pub usize);

/// Why a tensor cannot be added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
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
    origin: Origin,
}

/// Earlier tensors that have the same addresses. A reshape may cut a map in many pieces, but it moves no address: what
/// is asked of sets is asked of the tensors that made them, allocations and samples.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Origin {
    /// Tensors whose sets of addresses make up this tensor's, ascending.
    set: Arc<[TensorId]>,
    /// A tensor that has the same addresses as often.
    bag: TensorId,
    /// A tensor that has the same addresses in the same row-major order.
    order: TensorId,
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
            return Err(views::parameter("redirect", &node.shape, problem));
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
                self.nodes[id].origin = self.make_origin(id, &self.nodes[id]);
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
        let id = self.nodes.len();
        let origin = Origin { set: Arc::new([]), bag: TensorId(id), order: TensorId(id) };
        let mut node = Node { step, inputs, shape, map: Err(TooComplex), origin };
        node.origin = self.make_origin(id, &node);
        node.map = self.make_map(id, &node);
        self.nodes.push(node);
        Ok(TensorId(self.nodes.len() - 1))
    }

    fn make_origin(&self, id: usize, node: &Node) -> Origin {
        let input = |number: usize| &self.nodes[node.inputs[number].0].origin;
        let id = TensorId(id);
        let own = |set: Arc<[TensorId]>| Origin { set, bag: id, order: id };
        if node.shape.contains(&0) {
            return own(Arc::new([]));
        }
        match node.step {
            Step::Allocate { .. } | Step::Sample(_) | Step::Strided { .. } => own(Arc::new([id])),
            Step::Identity | Step::Reshape => input(0).clone(),
            Step::Permute(_) | Step::Reverse(_) => Origin { order: id, ..input(0).clone() },
            Step::Expand => own(input(0).set.clone()),
            Step::Concat(_) | Step::Fill(_) => {
                let all: BTreeSet<TensorId> =
                    (0..node.inputs.len()).flat_map(|number| input(number).set.iter().copied()).collect();
                own(all.into_iter().collect())
            }
        }
    }

    fn make_map(&self, id: usize, node: &Node) -> Result<Arc<AddressMap>, TooComplex> {
        let input = |number: usize| &self.nodes[node.inputs[number].0];
        let map = |number: usize| input(number).map.clone();
        let mut budget = Budget::for_sets();
        let made = match &node.step {
            Step::Allocate { .. } => AddressMap::allocation(id, &node.shape),
            Step::Identity => return map(0),
            Step::Reshape => {
                // From before all reshapes, so that what one cuts up the next finds whole.
                let whole = &self.nodes[input(0).origin.order.0];
                whole.map.clone()?.reshape(&whole.shape, &node.shape, &mut budget)?
            }
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
