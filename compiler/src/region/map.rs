//! Address maps: which address each index of a tensor has, for any chain of views.
//!
//! A map is a list of pieces. In a piece both the index and the address are affine in common digits: each digit steps
//! one dimension of the index by `step` and the address by `address_step`. A fresh allocation is one piece; a permute
//! or a flip touches digits one by one; a slice, a sample or a reshape meets the digits with a selection or with the
//! new grid and may cut a piece in several. So nothing is lost: a map knows the order of addresses (strides,
//! contiguity) as well as their set.
//!
//! What always holds: pieces cover every index once; within a dimension the digits of a piece are those of a lawful
//! progression, outermost first, and digits are sorted by dimension. Not here: which views exist and what is asked of
//! them (`alias.rs`).

use super::budget::{Budget, TooComplex};
use super::integer::row_major_strides;
use super::meet::{Meeting, meet};
use super::progression::{Digit, Digits, Progression};
use super::region::grid_of;
use super::selection::Selection;
use super::strided::Strided;
use smallvec::SmallVec;

/// A digit of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MapDigit {
    dim: usize,
    /// Step of the coordinate; positive.
    step: i64,
    /// How many values, at least 2.
    size: i64,
    /// Step of the address; any.
    address_step: i64,
}

/// Part of a tensor in which addresses are affine in the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapPiece {
    allocation: usize,
    address: i64,
    /// The smallest coordinate in each dimension.
    at: SmallVec<[i64; 4]>,
    digits: SmallVec<[MapDigit; 6]>,
}

impl MapPiece {
    /// Number of the allocation.
    #[must_use]
    pub fn allocation(&self) -> usize {
        self.allocation
    }

    /// How many indices.
    #[must_use]
    pub fn count(&self) -> i64 {
        self.digits.iter().map(|digit| digit.size).product()
    }

    /// The addresses.
    #[must_use]
    pub fn addresses(&self) -> Option<Strided> {
        let dims: SmallVec<[(i64, i64); 6]> = self.digits.iter().map(|d| (d.size, d.address_step)).collect();
        Strided::view(self.address, &dims)
    }

    fn in_dim(&self, dim: usize) -> impl Iterator<Item = &MapDigit> {
        self.digits.iter().filter(move |digit| digit.dim == dim)
    }

    /// The coordinates in one dimension; digit `k` of it is digit `k` of the piece in that dimension.
    fn coordinates(&self, dim: usize) -> Progression {
        let digits: Digits = self.in_dim(dim).map(|d| Digit { stride: d.step, size: d.size }).collect();
        Progression::lawful(self.at[dim], digits)
    }

    /// The address of an index, if it is in the piece.
    fn address_of(&self, index: &[i64]) -> Option<i64> {
        let mut address = self.address;
        for (dim, &coordinate) in index.iter().enumerate() {
            let values = self.coordinates(dim).locate(coordinate)?;
            address += self.in_dim(dim).zip(values).map(|(digit, value)| digit.address_step * value).sum::<i64>();
        }
        Some(address)
    }

    /// Joins digits of one dimension that run on in index and address, and drops none.
    fn merge(&mut self) {
        let mut merged: SmallVec<[MapDigit; 6]> = SmallVec::new();
        for digit in &self.digits {
            match merged.last_mut() {
                Some(outer)
                    if outer.dim == digit.dim
                        && outer.step == digit.step * digit.size
                        && outer.address_step == digit.address_step * digit.size =>
                {
                    *outer = MapDigit { size: outer.size * digit.size, ..*digit };
                }
                _ => merged.push(*digit),
            }
        }
        self.digits = merged;
    }

    /// The piece as one of a flat tensor: coordinates become row-major numbers. Digits that run on across dimensions
    /// join, so that what is contiguous is one run, however it was shaped.
    fn flattened(&self, strides: &[i64]) -> Self {
        let digits = self.digits.iter().map(|d| MapDigit { dim: 0, step: d.step * strides[d.dim], ..*d }).collect();
        let first: i64 = self.at.iter().zip(strides).map(|(at, stride)| at * stride).sum();
        let mut flat = MapPiece { at: SmallVec::from_slice(&[first]), digits, ..self.clone() };
        flat.merge();
        flat
    }

    /// Replaces the digits `replaced` (in the order of the meeting's left side) by those of a meeting. `position` says
    /// where each common digit stands in the new index.
    fn replace(
        &self,
        replaced: &[MapDigit],
        kept: impl Fn(&MapDigit) -> bool,
        meeting: &Meeting,
        position: impl Fn(usize, i64) -> (usize, i64),
    ) -> Self {
        let moved: i64 = meeting.left_start.iter().zip(replaced).map(|(n, digit)| n * digit.address_step).sum();
        let mut digits: SmallVec<[MapDigit; 6]> = self.digits.iter().copied().filter(kept).collect();
        digits.extend(meeting.steps.iter().map(|common| {
            let (dim, step) = position(common.right.digit, common.right.factor);
            let address_step = replaced[common.left.digit].address_step * common.left.factor;
            MapDigit { dim, step, size: common.size, address_step }
        }));
        let mut piece = MapPiece { address: self.address + moved, digits, ..self.clone() };
        piece.sort();
        piece
    }

    fn sort(&mut self) {
        self.digits.sort_by_key(|digit| (digit.dim, std::cmp::Reverse(digit.step)));
        self.merge();
    }
}

/// The addresses of a tensor's elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressMap {
    pieces: Vec<MapPiece>,
}

impl AddressMap {
    /// A map may not have more pieces than this.
    pub const MOST_PIECES: usize = 1 << 14;

    /// A row-major allocation.
    #[must_use]
    pub fn allocation(allocation: usize, shape: &[i64]) -> Self {
        Self::strided(allocation, 0, shape, &row_major_strides(shape))
    }

    /// A strided view of an allocation, with any strides. The caller has checked that it stays inside.
    #[must_use]
    pub fn strided(allocation: usize, offset: i64, shape: &[i64], strides: &[i64]) -> Self {
        let dims = (0..shape.len()).filter(|&dim| shape[dim] > 1);
        let digits = dims.map(|dim| MapDigit { dim, step: 1, size: shape[dim], address_step: strides[dim] }).collect();
        let piece = MapPiece { allocation, address: offset, at: shape.iter().map(|_| 0).collect(), digits };
        AddressMap { pieces: if shape.contains(&0) { Vec::new() } else { vec![piece] } }
    }

    /// The pieces; none of an empty tensor.
    #[must_use]
    pub fn pieces(&self) -> &[MapPiece] {
        &self.pieces
    }

    /// Allocation and address of an index.
    #[must_use]
    pub fn address_of(&self, index: &[i64]) -> Option<(usize, i64)> {
        self.pieces.iter().find_map(|piece| Some((piece.allocation, piece.address_of(index)?)))
    }

    /// Output dimension `i` is input dimension `dims[i]`.
    #[must_use]
    pub fn permute(&self, dims: &[usize]) -> Self {
        let mut position = vec![0; dims.len()];
        dims.iter().enumerate().for_each(|(to, &from)| position[from] = to);
        self.each(|piece| {
            piece.at = dims.iter().map(|&dim| piece.at[dim]).collect();
            piece.digits.iter_mut().for_each(|digit| digit.dim = position[digit.dim]);
            piece.sort();
        })
    }

    /// Reverses one dimension of extent `extent`.
    #[must_use]
    pub fn reverse(&self, dim: usize, extent: i64) -> Self {
        self.each(|piece| {
            piece.at[dim] = extent - 1 - piece.coordinates(dim).last();
            for digit in piece.digits.iter_mut().filter(|digit| digit.dim == dim) {
                piece.address += (digit.size - 1) * digit.address_step;
                digit.address_step = -digit.address_step;
            }
        })
    }

    /// Broadcasts from `from` to `to`, right-aligned. An extent of 0 empties the map.
    #[must_use]
    pub fn expand(&self, from: &[i64], to: &[i64]) -> Self {
        if to.contains(&0) {
            return AddressMap { pieces: Vec::new() };
        }
        let new = to.len() - from.len();
        self.each(|piece| {
            piece.digits.iter_mut().for_each(|digit| digit.dim += new);
            piece.at = std::iter::repeat_n(0, new).chain(piece.at.iter().copied()).collect();
            let repeated = (0..to.len()).filter(|&dim| to[dim] > 1 && (dim < new || from[dim - new] == 1));
            piece.digits.extend(repeated.map(|dim| MapDigit { dim, step: 1, size: to[dim], address_step: 0 }));
            piece.sort();
        })
    }

    /// Moves all coordinates of a dimension.
    #[must_use]
    pub fn shifted(&self, dim: usize, distance: i64) -> Self {
        self.each(|piece| piece.at[dim] += distance)
    }

    /// The union of maps that cover disjoint indices.
    ///
    /// # Errors
    /// When there would be too many pieces.
    pub fn joined(maps: impl IntoIterator<Item = AddressMap>) -> Result<Self, TooComplex> {
        let pieces = maps.into_iter().flat_map(|map| map.pieces).collect();
        Self::limited(pieces)
    }

    /// Keeps the selected coordinates of a dimension and renumbers them.
    ///
    /// # Errors
    /// When it would cost more than the budget.
    pub fn sample(&self, dim: usize, selection: &Selection, budget: &mut Budget) -> Result<Self, TooComplex> {
        let sides = selection.pieces().iter().map(|piece| (piece.elements(), piece.ranks())).collect::<Vec<_>>();
        self.carry(dim, &sides, budget)
    }

    /// Puts coordinate `r` of a dimension at the selected coordinate of rank `r`.
    ///
    /// # Errors
    /// When it would cost more than the budget.
    pub fn fill(&self, dim: usize, selection: &Selection, budget: &mut Budget) -> Result<Self, TooComplex> {
        let sides = selection.pieces().iter().map(|piece| (piece.ranks(), piece.elements())).collect::<Vec<_>>();
        self.carry(dim, &sides, budget)
    }

    fn carry(&self, dim: usize, sides: &[(Progression, Progression)], budget: &mut Budget) -> Result<Self, TooComplex> {
        let mut pieces = Vec::with_capacity(self.pieces.len());
        for piece in &self.pieces {
            let coordinates = piece.coordinates(dim);
            let replaced: SmallVec<[MapDigit; 4]> = piece.in_dim(dim).copied().collect();
            for (here, there) in sides {
                meet(&coordinates, here, budget, &mut |meeting| {
                    let position = |digit: usize, factor: i64| (dim, there.digits()[digit].stride * factor);
                    let mut new = piece.replace(&replaced, |digit| digit.dim != dim, &meeting, position);
                    let moved: i64 = meeting.right_start.iter().zip(there.digits()).map(|(n, d)| n * d.stride).sum();
                    new.at[dim] = there.first() + moved;
                    pieces.push(new);
                })?;
            }
            if pieces.len() > Self::MOST_PIECES {
                return Err(TooComplex);
            }
        }
        Self::limited(pieces)
    }

    /// Numbers the elements row-major in another shape of as many elements.
    ///
    /// # Errors
    /// When it would cost more than the budget.
    pub fn reshape(&self, from: &[i64], to: &[i64], budget: &mut Budget) -> Result<Self, TooComplex> {
        let strides = row_major_strides(from);
        let (grid, dims) = grid_of(to);
        let mut pieces = Vec::with_capacity(self.pieces.len());
        for piece in &self.pieces {
            let flat = piece.flattened(&strides);
            let numbers: Digits = flat.digits.iter().map(|d| Digit { stride: d.step, size: d.size }).collect();
            meet(&Progression::lawful(flat.at[0], numbers), &grid, budget, &mut |meeting| {
                let position = |digit: usize, factor: i64| (dims[digit], factor);
                let mut new = flat.replace(&flat.digits, |_| false, &meeting, position);
                new.at = to.iter().map(|_| 0).collect();
                dims.iter().zip(&meeting.right_start).for_each(|(&dim, &start)| new.at[dim] = start);
                pieces.push(new);
            })?;
            if pieces.len() > Self::MOST_PIECES {
                return Err(TooComplex);
            }
        }
        Self::limited(pieces)
    }

    /// `(allocation, offset, strides)` if every address is `offset + sum strides * index`. The stride of a dimension of
    /// extent 1 is 0; an empty tensor has no allocation to speak of, so it has none.
    #[must_use]
    pub fn as_strided(&self, shape: &[i64]) -> Option<(usize, i64, Vec<i64>)> {
        let mut index = vec![0; shape.len()];
        let (allocation, offset) = self.address_of(&index)?;
        let mut strides = vec![0; shape.len()];
        for dim in 0..shape.len() {
            if shape[dim] > 1 {
                index[dim] = 1;
                strides[dim] = self.address_of(&index)?.1 - offset;
                index[dim] = 0;
            }
        }
        let affine = |piece: &MapPiece| {
            let at: i128 = piece.at.iter().zip(&strides).map(|(&at, &s)| i128::from(at) * i128::from(s)).sum();
            piece.allocation == allocation
                && i128::from(piece.address) == i128::from(offset) + at
                && piece
                    .digits
                    .iter()
                    .all(|d| i128::from(d.address_step) == i128::from(strides[d.dim]) * i128::from(d.step))
        };
        self.pieces.iter().all(affine).then_some((allocation, offset, strides))
    }

    fn each(&self, change: impl Fn(&mut MapPiece)) -> Self {
        let mut map = self.clone();
        map.pieces.iter_mut().for_each(change);
        map
    }

    fn limited(pieces: Vec<MapPiece>) -> Result<Self, TooComplex> {
        if pieces.len() > Self::MOST_PIECES { Err(TooComplex) } else { Ok(AddressMap { pieces }) }
    }
}
