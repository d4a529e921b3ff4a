//! Regions: sets of multi-indices of a shape, as disjoint unions of products of sets of integers.
//!
//! ```text
//! shape [4, 10], rows (1,1,0), columns (3,2,1)      .111..111.
//!                                                   ..........
//!                                                   .111..111.
//!                                                   ..........
//! ```
//!
//! A block is one set a dimension, none of them empty; blocks of a region are disjoint. What moves whole dimensions
//! (permute, reverse, expand, slice, sample, fill) works on each dimension alone. A reshape goes through the flat
//! numbers of the elements: flattening is exact and free, and cutting flat numbers into the new dimensions is a meeting
//! with the new grid.

use super::budget::{Budget, TooComplex};
use super::integer::{product, row_major_strides};
use super::integer_set::IntegerSet;
use super::meet::meet;
use super::nested_stripes::NestedStripes;
use super::progression::{Digit, Digits, Progression};
use super::selection::Selection;

/// A set of multi-indices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    shape: Vec<i64>,
    blocks: Vec<Block>,
}

/// A product of sets, one a dimension. No dimensions: the one index of a scalar.
type Block = Vec<IntegerSet>;

impl Region {
    /// No index of `shape`.
    #[must_use]
    pub fn empty(shape: Vec<i64>) -> Self {
        Region { shape, blocks: Vec::new() }
    }

    /// Every index of `shape`.
    #[must_use]
    pub fn full(shape: Vec<i64>) -> Self {
        let block = shape.iter().map(|&extent| IntegerSet::range(0, extent)).collect();
        Self::from_blocks(shape, vec![block])
    }

    /// The indices whose coordinate is in the periodic set of every dimension. One periodic set a dimension.
    #[must_use]
    pub fn product(shape: Vec<i64>, nested: &[NestedStripes]) -> Self {
        debug_assert_eq!(shape.len(), nested.len(), "one periodic set a dimension");
        let sets =
            shape.iter().zip(nested).map(|(&extent, stripes)| IntegerSet::from_disjoint(stripes.pieces(0, extent)));
        let block = sets.collect();
        Self::from_blocks(shape, vec![block])
    }

    /// The union of regions that are known to be disjoint.
    #[must_use]
    pub fn disjoint_union(shape: Vec<i64>, regions: impl IntoIterator<Item = Region>) -> Self {
        let blocks = regions.into_iter().flat_map(|region| region.blocks).collect();
        Self::from_blocks(shape, blocks)
    }

    fn from_blocks(shape: Vec<i64>, mut blocks: Vec<Block>) -> Self {
        blocks.retain(|block| block.iter().all(|set| !set.is_empty()));
        Region { shape, blocks }
    }

    /// The shape.
    #[must_use]
    pub fn shape(&self) -> &[i64] {
        &self.shape
    }

    /// The disjoint products.
    #[must_use]
    pub fn blocks(&self) -> &[Vec<IntegerSet>] {
        &self.blocks
    }

    /// No index is in the region.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// How many indices are in the region.
    #[must_use]
    pub fn count(&self) -> i128 {
        self.blocks.iter().map(|block| block.iter().map(|set| i128::from(set.count())).product::<i128>()).sum()
    }

    /// Whether an index is in the region.
    #[must_use]
    pub fn contains(&self, index: &[i64]) -> bool {
        self.blocks.iter().any(|block| block.iter().zip(index).all(|(set, &at)| set.contains(at)))
    }

    /// Output dimension `i` is input dimension `dims[i]`.
    #[must_use]
    pub fn permute(&self, dims: &[usize]) -> Self {
        let shape = dims.iter().map(|&dim| self.shape[dim]).collect();
        let blocks = self.blocks.iter().map(|block| dims.iter().map(|&dim| block[dim].clone()).collect()).collect();
        Region { shape, blocks }
    }

    /// Reverses dimensions; one that is listed twice stays as it is.
    #[must_use]
    pub fn reverse(&self, dims: &[usize]) -> Self {
        let mut region = self.clone();
        for &dim in dims {
            for block in &mut region.blocks {
                block[dim] = block[dim].reversed(self.shape[dim]);
            }
        }
        region
    }

    /// Broadcasts to `shape`, right-aligned: new dimensions and those of extent 1 are repeated.
    #[must_use]
    pub fn expand(&self, shape: &[i64]) -> Self {
        let new = shape.len() - self.shape.len();
        let set = |block: &Block, dim: usize| {
            if dim < new || self.shape[dim - new] != shape[dim] {
                IntegerSet::range(0, shape[dim])
            } else {
                block[dim - new].clone()
            }
        };
        let blocks = self.blocks.iter().map(|block| (0..shape.len()).map(|dim| set(block, dim)).collect()).collect();
        Self::from_blocks(shape.to_vec(), blocks)
    }

    /// The inverse of an expand: the indices of `shape` that some index of this region comes from.
    ///
    /// # Errors
    /// When it would cost more than the budget.
    pub fn reduce(&self, shape: &[i64], budget: &mut Budget) -> Result<Self, TooComplex> {
        let gone = self.shape.len() - shape.len();
        let set = |block: &Block, dim: usize| {
            if self.shape[gone + dim] == shape[dim] { block[gone + dim].clone() } else { IntegerSet::range(0, 1) }
        };
        let mut union = Region::empty(shape.to_vec());
        for block in &self.blocks {
            let block = (0..shape.len()).map(|dim| set(block, dim)).collect();
            union = union.union(&Self::from_blocks(shape.to_vec(), vec![block]), budget)?;
        }
        Ok(union)
    }

    /// The indices in both regions of one shape.
    ///
    /// # Errors
    /// When it would cost more than the budget.
    pub fn intersect(&self, other: &Self, budget: &mut Budget) -> Result<Self, TooComplex> {
        let mut blocks = Vec::new();
        for ours in &self.blocks {
            for theirs in &other.blocks {
                blocks.extend(intersect_blocks(ours, theirs, budget)?);
            }
        }
        Ok(Self::from_blocks(self.shape.clone(), blocks))
    }

    /// The indices of this region that are not in the other.
    ///
    /// # Errors
    /// When it would cost more than the budget.
    pub fn subtract(&self, other: &Self, budget: &mut Budget) -> Result<Self, TooComplex> {
        let mut left = self.blocks.clone();
        for taken in &other.blocks {
            let mut next = Vec::new();
            for block in left {
                subtract_block(block, taken, budget, &mut next)?;
            }
            left = next;
        }
        Ok(Self::from_blocks(self.shape.clone(), left))
    }

    /// The indices in either region.
    ///
    /// # Errors
    /// When it would cost more than the budget.
    pub fn union(&self, other: &Self, budget: &mut Budget) -> Result<Self, TooComplex> {
        let mut union = self.clone();
        union.blocks.extend(other.subtract(self, budget)?.blocks);
        Ok(union)
    }

    /// All other indices of the shape.
    ///
    /// # Errors
    /// When it would cost more than the budget.
    pub fn complement(&self, budget: &mut Budget) -> Result<Self, TooComplex> {
        Region::full(self.shape.clone()).subtract(self, budget)
    }

    /// Keeps the selected coordinates, one selection a dimension, and renumbers them.
    ///
    /// # Errors
    /// When it would cost more than the budget.
    pub fn sample(&self, selections: &[Selection], budget: &mut Budget) -> Result<Self, TooComplex> {
        let shape = selections.iter().map(Selection::count).collect();
        self.each_dim(shape, |dim, set| set.sample(&selections[dim], budget))
    }

    /// The inverse of a sample: puts the region's coordinates where the selections of a larger shape stand.
    ///
    /// # Errors
    /// When it would cost more than the budget.
    pub fn fill(&self, shape: &[i64], selections: &[Selection], budget: &mut Budget) -> Result<Self, TooComplex> {
        self.each_dim(shape.to_vec(), |dim, set| set.fill(&selections[dim], budget))
    }

    fn each_dim(
        &self,
        shape: Vec<i64>,
        mut map: impl FnMut(usize, &IntegerSet) -> Result<IntegerSet, TooComplex>,
    ) -> Result<Self, TooComplex> {
        let mut blocks = Vec::with_capacity(self.blocks.len());
        for block in &self.blocks {
            blocks.push(block.iter().enumerate().map(|(dim, set)| map(dim, set)).collect::<Result<Block, _>>()?);
        }
        Ok(Self::from_blocks(shape, blocks))
    }

    /// The row-major numbers of the indices.
    ///
    /// # Errors
    /// When the shape has more elements than can be numbered, or the products more pieces than a set may have.
    pub fn flatten(&self, budget: &mut Budget) -> Result<IntegerSet, TooComplex> {
        product(&self.shape).ok_or(TooComplex)?;
        let strides = row_major_strides(&self.shape);
        let mut pieces = Vec::new();
        for block in &self.blocks {
            let mut flat = vec![Progression::point(0)];
            for (set, &stride) in block.iter().zip(&strides) {
                budget.spend(flat.len() as u64 * set.pieces().len() as u64)?;
                let append = |outer: &Progression, inner: &Progression| {
                    let inner = inner.scaled(stride);
                    let digits: Digits = outer.digits().iter().chain(inner.digits()).copied().collect();
                    Progression::lawful(outer.first() + inner.first(), digits)
                };
                flat = flat.iter().flat_map(|outer| set.pieces().iter().map(|p| append(outer, p))).collect();
            }
            pieces.extend(flat.iter().map(Progression::merged));
        }
        Ok(IntegerSet::from_disjoint(pieces))
    }

    /// The indices of `shape` whose row-major numbers are in a set.
    ///
    /// # Errors
    /// When it would cost more than the budget.
    pub fn unflatten(set: &IntegerSet, shape: &[i64], budget: &mut Budget) -> Result<Self, TooComplex> {
        let (grid, dims) = grid_of(shape);
        let mut blocks: Vec<Block> = Vec::new();
        for piece in set.pieces() {
            meet(piece, &grid, budget, &mut |meeting| {
                let mut offsets = vec![0; shape.len()];
                let mut digits = vec![Digits::new(); shape.len()];
                for (position, &dim) in dims.iter().enumerate() {
                    offsets[dim] = meeting.right_start[position];
                }
                for step in &meeting.steps {
                    digits[dims[step.right.digit]].push(Digit { stride: step.right.factor, size: step.size });
                }
                let sets = offsets.into_iter().zip(digits);
                blocks.push(
                    sets.map(|(at, digits)| IntegerSet::from_disjoint(vec![Progression::lawful(at, digits).merged()]))
                        .collect(),
                );
            })?;
        }
        Ok(Self::from_blocks(shape.to_vec(), blocks))
    }

    /// The same elements, numbered row-major, in another shape of as many elements.
    ///
    /// # Errors
    /// When it would cost more than the budget.
    pub fn reshape(&self, shape: &[i64], budget: &mut Budget) -> Result<Self, TooComplex> {
        let flat = self.flatten(budget)?;
        Self::unflatten(&flat, shape, budget)
    }
}

/// The row-major numbers of a shape as a progression, and the dimension of each of its digits. Dimensions of extent 1
/// have none.
pub(super) fn grid_of(shape: &[i64]) -> (Progression, Vec<usize>) {
    let strides = row_major_strides(shape);
    let dims: Vec<usize> = (0..shape.len()).filter(|&dim| shape[dim] > 1).collect();
    let digits: Digits = dims.iter().map(|&dim| Digit { stride: strides[dim], size: shape[dim] }).collect();
    (Progression::lawful(0, digits), dims)
}

fn intersect_blocks(ours: &Block, theirs: &Block, budget: &mut Budget) -> Result<Option<Block>, TooComplex> {
    let mut block = Block::with_capacity(ours.len());
    for (a, b) in ours.iter().zip(theirs) {
        let set = a.intersect(b, budget)?;
        if set.is_empty() {
            return Ok(None);
        }
        block.push(set);
    }
    Ok(Some(block))
}

/// Appends to `out` the disjoint parts of `block` outside `taken`: for each dimension, what agrees with `taken` in the
/// dimensions before and leaves it in this one.
fn subtract_block(block: Block, taken: &Block, budget: &mut Budget, out: &mut Vec<Block>) -> Result<(), TooComplex> {
    budget.spend(1)?;
    let Some(shared) = intersect_blocks(&block, taken, budget)? else {
        out.push(block);
        return Ok(());
    };
    for dim in 0..block.len() {
        let outside = block[dim].subtract(&taken[dim], budget)?;
        if !outside.is_empty() {
            let mut part: Block = shared[..dim].to_vec();
            part.push(outside);
            part.extend_from_slice(&block[dim + 1..]);
            out.push(part);
        }
    }
    Ok(())
}
