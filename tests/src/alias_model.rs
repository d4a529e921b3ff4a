//! The slow obvious model of the alias graph: a tensor is the list of its elements' addresses, in row-major order.

use std::collections::BTreeSet;
use warpweft_compiler::region::NestedStripes;

/// Where an element lies: allocation and flat number in it.
pub type Address = (usize, i64);

/// A tensor.
#[derive(Clone, Debug)]
pub struct Model {
    /// The shape.
    pub shape: Vec<i64>,
    /// Where each element lies, row-major.
    pub elements: Vec<Address>,
}

/// All indices of a shape in row-major order.
#[must_use]
pub fn indices(shape: &[i64]) -> Vec<Vec<i64>> {
    let mut all = vec![vec![]];
    for &extent in shape {
        all = all
            .into_iter()
            .flat_map(|index| {
                (0..extent).map(move |at| {
                    let mut index = index.clone();
                    index.push(at);
                    index
                })
            })
            .collect();
    }
    all
}

/// The row-major number of an index.
#[must_use]
pub fn flat(shape: &[i64], index: &[i64]) -> usize {
    shape.iter().zip(index).fold(0, |flat, (&extent, &at)| flat * extent as usize + at as usize)
}

impl Model {
    /// Fresh memory.
    #[must_use]
    pub fn allocate(allocation: usize, shape: &[i64]) -> Self {
        let count: i64 = shape.iter().product();
        Model { shape: shape.to_vec(), elements: (0..count).map(|at| (allocation, at)).collect() }
    }

    /// A tensor of `shape` whose element at an index is this tensor's at `from(index)`.
    fn gather(&self, shape: Vec<i64>, from: impl Fn(&[i64]) -> Vec<i64>) -> Self {
        let elements = indices(&shape).iter().map(|index| self.elements[flat(&self.shape, &from(index))]).collect();
        Model { shape, elements }
    }

    /// The elements in another shape.
    #[must_use]
    pub fn reshape(&self, shape: &[i64]) -> Self {
        Model { shape: shape.to_vec(), elements: self.elements.clone() }
    }

    /// Output dimension `i` is input dimension `dims[i]`.
    #[must_use]
    pub fn permute(&self, dims: &[usize]) -> Self {
        let shape = dims.iter().map(|&dim| self.shape[dim]).collect();
        self.gather(shape, |index| {
            let mut from = vec![0; dims.len()];
            dims.iter().zip(index).for_each(|(&dim, &at)| from[dim] = at);
            from
        })
    }

    /// Reverses a dimension.
    #[must_use]
    pub fn reverse(&self, dim: usize) -> Self {
        self.gather(self.shape.clone(), |index| {
            let mut from = index.to_vec();
            from[dim] = self.shape[dim] - 1 - from[dim];
            from
        })
    }

    /// Broadcasts, right-aligned.
    #[must_use]
    pub fn expand(&self, shape: &[i64]) -> Self {
        let new = shape.len() - self.shape.len();
        self.gather(shape.to_vec(), |index| {
            let kept = index[new..].iter().zip(&self.shape);
            kept.map(|(&at, &extent)| if extent == 1 { 0 } else { at }).collect()
        })
    }

    /// Keeps the listed coordinates of each dimension.
    #[must_use]
    pub fn keep(&self, kept: &[Vec<i64>]) -> Self {
        let shape = kept.iter().map(|list| list.len() as i64).collect();
        self.gather(shape, |index| index.iter().zip(kept).map(|(&at, list)| list[at as usize]).collect())
    }

    /// Joins along an axis.
    #[must_use]
    pub fn concat(parts: &[&Model], axis: usize) -> Self {
        let mut shape = parts[0].shape.clone();
        shape[axis] = parts.iter().map(|part| part.shape[axis]).sum();
        let element = |index: &Vec<i64>| {
            let mut index = index.clone();
            for part in parts {
                if index[axis] < part.shape[axis] {
                    return part.elements[flat(&part.shape, &index)];
                }
                index[axis] -= part.shape[axis];
            }
            unreachable!("the parts cover the axis of {shape:?}")
        };
        Model { elements: indices(&shape).iter().map(element).collect(), shape }
    }

    /// The distinct addresses.
    #[must_use]
    pub fn set(&self) -> BTreeSet<Address> {
        self.elements.iter().copied().collect()
    }

    /// The distinct flat numbers in one allocation.
    #[must_use]
    pub fn in_allocation(&self, allocation: usize) -> Vec<i64> {
        self.set().into_iter().filter(|address| address.0 == allocation).map(|address| address.1).collect()
    }

    /// Whether two indices have one address.
    #[must_use]
    pub fn aliases_itself(&self) -> bool {
        self.set().len() < self.elements.len()
    }

    /// Whether the addresses are distinct and fill an interval of one allocation.
    #[must_use]
    pub fn is_set_contiguous(&self) -> bool {
        let set = self.set();
        let (Some(first), Some(last)) = (set.first(), set.last()) else { return true };
        !self.aliases_itself() && first.0 == last.0 && last.1 - first.1 + 1 == set.len() as i64
    }

    /// Whether addresses ascend one by one.
    #[must_use]
    pub fn is_row_major(&self) -> bool {
        self.elements.windows(2).all(|pair| pair[0].0 == pair[1].0 && pair[0].1 + 1 == pair[1].1)
    }

    /// Offset and strides, if the tensor is one strided view.
    #[must_use]
    pub fn strided(&self) -> Option<(i64, Vec<i64>)> {
        let &(allocation, offset) = self.elements.first()?;
        let strides: Vec<i64> = (0..self.shape.len())
            .map(|dim| {
                if self.shape[dim] == 1 {
                    return 0;
                }
                let mut index = vec![0; self.shape.len()];
                index[dim] = 1;
                self.elements[flat(&self.shape, &index)].1 - offset
            })
            .collect();
        let expected = indices(&self.shape).into_iter().map(|index| {
            let distance: i64 = index.iter().zip(&strides).map(|(at, stride)| at * stride).sum();
            (allocation, offset + distance)
        });
        expected.eq(self.elements.iter().copied()).then_some((offset, strides))
    }
}

/// The elements of a periodic set in a range, by membership alone.
#[must_use]
pub fn members(stripes: &NestedStripes, lower: i64, upper: i64) -> Vec<i64> {
    (lower..upper).filter(|&z| stripes.contains_element(z)).collect()
}
