//! What an alias graph can be asked.
//!
//! Empty tensors have no addresses: they alias nothing, are in every tensor, and are contiguous.

use super::{AliasError, AliasGraph, Step, TensorId};
use crate::region::budget::{Answer, Budget, TooComplex};
use crate::region::integer::{product, row_major_strides};
use crate::region::integer_set::IntegerSet;
use crate::region::map::MapPiece;
use crate::region::progression::Progression;
use crate::region::strided::Strided;
use std::collections::BTreeMap;

impl AliasGraph {
    /// Pieces that together reach the addresses of a tensor.
    fn pieces(&self, id: TensorId) -> Result<Result<Vec<&MapPiece>, TooComplex>, AliasError> {
        let mut pieces = Vec::new();
        for origin in self.node(id)?.origin.set.iter() {
            match &self.node(*origin)?.map {
                Ok(map) => pieces.extend(map.pieces()),
                Err(open) => return Ok(Err(*open)),
            }
        }
        Ok(Ok(pieces))
    }

    /// Whether two tensors share an element.
    ///
    /// # Errors
    /// If one is not of this graph.
    pub fn intersects(&self, a: TensorId, b: TensorId) -> Result<Answer, AliasError> {
        let (Ok(ours), Ok(theirs)) = (self.pieces(a)?, self.pieces(b)?) else { return Ok(Answer::Unknown) };
        Ok(any_meets(&ours, &theirs, &mut Budget::for_sets()))
    }

    /// Whether two indices of a tensor have one address.
    ///
    /// # Errors
    /// If it is not of this graph.
    pub fn aliases_itself(&self, id: TensorId) -> Result<Answer, AliasError> {
        let bag = self.node(id)?.origin.bag;
        let Ok(map) = &self.node(bag)?.map else { return Ok(Answer::Unknown) };
        let pieces: Vec<&MapPiece> = map.pieces().iter().collect();
        let mut answer = Answer::No;
        let mut budget = Budget::for_sets();
        for (position, piece) in pieces.iter().enumerate() {
            let itself = piece.addresses().map_or(Answer::No, |set| set.overlaps_itself(&mut budget));
            let others = any_meets(&pieces[position..=position], &pieces[position + 1..], &mut budget);
            match (itself, others) {
                (Answer::Yes, _) | (_, Answer::Yes) => return Ok(Answer::Yes),
                (Answer::No, Answer::No) => {}
                _ => answer = Answer::Unknown,
            }
        }
        Ok(answer)
    }

    /// Whether every element of `inner` is one of `outer`.
    ///
    /// # Errors
    /// If one is not of this graph.
    pub fn contains(&self, outer: TensorId, inner: TensorId) -> Result<Answer, AliasError> {
        let (Ok(outer), Ok(inner)) = (self.pieces(outer)?, self.pieces(inner)?) else { return Ok(Answer::Unknown) };
        let mut allocations: Vec<usize> = inner.iter().map(|piece| piece.allocation()).collect();
        allocations.sort_unstable();
        allocations.dedup();
        let mut budget = Budget::for_sets();
        for allocation in allocations {
            let sets = addresses(&inner, allocation, &mut budget)
                .and_then(|inner| Ok((addresses(&outer, allocation, &mut budget)?, inner)));
            let Ok((outer, inner)) = sets else { return Ok(Answer::Unknown) };
            match outer.contains_set(&inner, &mut budget) {
                Answer::Yes => {}
                answer => return Ok(answer),
            }
        }
        Ok(Answer::Yes)
    }

    /// The elements of `allocation` that a tensor reaches, or that they are too many pieces to say.
    ///
    /// # Errors
    /// If one is not of this graph.
    pub fn elements(&self, id: TensorId, allocation: TensorId) -> Result<Result<IntegerSet, TooComplex>, AliasError> {
        self.node(allocation)?;
        let pieces = self.pieces(id)?;
        Ok(pieces.and_then(|pieces| addresses(&pieces, allocation.0, &mut Budget::for_sets())))
    }

    /// The elements of `allocation` that both tensors reach, or that they are too many pieces to say.
    ///
    /// # Errors
    /// If one is not of this graph.
    pub fn common(
        &self,
        a: TensorId,
        b: TensorId,
        allocation: TensorId,
    ) -> Result<Result<IntegerSet, TooComplex>, AliasError> {
        let (a, b) = (self.elements(a, allocation)?, self.elements(b, allocation)?);
        Ok(a.and_then(|a| a.intersect(&b?, &mut Budget::for_sets())))
    }

    /// The colours of the allocations that a tensor reaches, ascending; open if the tensor is too complex.
    ///
    /// # Errors
    /// If it is not of this graph.
    pub fn colors(&self, id: TensorId) -> Result<Result<Vec<i64>, TooComplex>, AliasError> {
        let pieces = match self.pieces(id)? {
            Ok(pieces) => pieces,
            Err(open) => return Ok(Err(open)),
        };
        let color = |piece: &&MapPiece| match self.nodes[piece.allocation()].step {
            Step::Allocate { color } => Some(color),
            _ => None,
        };
        let mut colors: Vec<i64> = pieces.iter().filter_map(color).collect();
        colors.sort_unstable();
        colors.dedup();
        Ok(Ok(colors))
    }

    /// All tensors that share an element with one, itself among them, in the order of the graph. Those of which it is
    /// unknown are in the list as well.
    ///
    /// # Errors
    /// If it is not of this graph.
    pub fn all_aliases(&self, id: TensorId) -> Result<Vec<TensorId>, AliasError> {
        self.node(id)?;
        let all = (0..self.len()).map(TensorId);
        all.filter_map(|other| match self.intersects(id, other) {
            Ok(answer) => answer.may_be().then_some(Ok(other)),
            Err(error) => Some(Err(error)),
        })
        .collect()
    }

    /// Whether the elements are distinct, lie in one allocation and fill an interval of it, in any order.
    ///
    /// # Errors
    /// If it is not of this graph.
    pub fn is_set_contiguous(&self, id: TensorId) -> Result<Answer, AliasError> {
        let node = self.node(id)?;
        let Ok(map) = &self.node(node.origin.bag)?.map else { return Ok(Answer::Unknown) };
        let Some(first) = map.pieces().first() else { return Ok(Answer::Yes) };
        if map.pieces().iter().any(|piece| piece.allocation() != first.allocation()) {
            return Ok(Answer::No);
        }
        let ranges = || map.pieces().iter().filter_map(MapPiece::addresses).map(|set| set.range());
        let lowest = ranges().map(|range| range.0).min().unwrap_or(0);
        let highest = ranges().map(|range| range.1).max().unwrap_or(-1);
        if product(&node.shape).map(i128::from) != Some(highest - lowest + 1) {
            return Ok(Answer::No);
        }
        Ok(match self.aliases_itself(id)? {
            Answer::Yes => Answer::No,
            Answer::No => Answer::Yes,
            Answer::Unknown => Answer::Unknown,
        })
    }

    /// Whether the addresses in row-major order ascend one by one in one allocation.
    ///
    /// # Errors
    /// If it is not of this graph.
    pub fn is_row_major(&self, id: TensorId) -> Result<Answer, AliasError> {
        // A reshape changes nothing here, and what is not even contiguous as a set need not be cut up.
        let node = self.node(self.node(id)?.origin.order)?;
        if self.is_set_contiguous(id)? == Answer::No {
            return Ok(Answer::No);
        }
        let Ok(map) = &node.map else { return Ok(Answer::Unknown) };
        if map.pieces().is_empty() {
            return Ok(Answer::Yes);
        }
        let Some((_, _, strides)) = map.as_strided(&node.shape) else { return Ok(Answer::No) };
        let expected = row_major_strides(&node.shape);
        let agrees = (0..node.shape.len()).all(|dim| node.shape[dim] == 1 || strides[dim] == expected[dim]);
        Ok(Answer::from_bool(agrees))
    }

    /// Offset and strides if the tensor is one strided view of one allocation; the stride of a dimension of extent 1 is
    /// 0. None for an empty tensor: it has no address to count from. Open if the tensor is too complex.
    ///
    /// # Errors
    /// If it is not of this graph.
    #[allow(clippy::type_complexity, reason = "the outer result is a mistake, the inner one an open question")]
    pub fn strided(&self, id: TensorId) -> Result<Result<Option<(i64, Vec<i64>)>, TooComplex>, AliasError> {
        let node = self.node(id)?;
        Ok(match &node.map {
            Err(open) => Err(*open),
            Ok(map) => Ok(map.as_strided(&node.shape).map(|(_, offset, strides)| (offset, strides))),
        })
    }
}

/// Whether a piece of one list shares an element with a piece of the other.
fn any_meets(ours: &[&MapPiece], theirs: &[&MapPiece], budget: &mut Budget) -> Answer {
    let mut by_allocation: BTreeMap<usize, Vec<Strided>> = BTreeMap::new();
    for piece in theirs {
        by_allocation.entry(piece.allocation()).or_default().extend(piece.addresses());
    }
    let mut answer = Answer::No;
    for piece in ours {
        let Some(others) = by_allocation.get(&piece.allocation()) else { continue };
        let Some(set) = piece.addresses() else { continue };
        for other in others {
            match set.meets(other, budget) {
                Answer::No => {}
                Answer::Yes => return Answer::Yes,
                Answer::Unknown => answer = Answer::Unknown,
            }
        }
    }
    answer
}

/// The addresses that pieces reach in one allocation.
fn addresses(pieces: &[&MapPiece], allocation: usize, budget: &mut Budget) -> Result<IntegerSet, TooComplex> {
    let mut progressions: Vec<Progression> = Vec::new();
    for piece in pieces.iter().filter(|piece| piece.allocation() == allocation) {
        if let Some(set) = piece.addresses() {
            progressions.extend_from_slice(set.to_set(budget)?.pieces());
        }
    }
    IntegerSet::union_of(progressions, budget)
}
