//! Stores of neighbours by one thread become one store, where lanes multiply matrices: of these a lane holds pairs of neighbours (`ir::fragments`).
//!
//! ```text
//! store y[base], a
//! store y[base + 1], b          =>          store y[base + {0, 1}], {a, b}
//! ```
//!
//! Half of the sectors that single stores would touch are left, or a quarter.
//!
//! Always: the same elements get the same values. Not of memory that the kernel loads, nor of stores that accumulate, stand under conditions, or begin at odd offsets. Tested below, and with every product
//! of matrices by lanes.

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::smallvec;

use crate::ir::{Arg, Op, Sources, UOp, postorder};
use crate::kernel::ranges::closed_ranges;
use crate::symbolic::{linear_terms, simplify};

/// What stores of neighbours have in common: memory, loops, and the offset but for its constant.
type Family = (UOp, Vec<UOp>, Vec<(UOp, i64)>);

/// The kernel with its stores of neighbours in pairs.
pub fn store_pairs(root: &UOp) -> UOp {
    if !root.contains(Op::MultiplyMatrices) {
        return root.clone();
    }
    let nodes = postorder(std::slice::from_ref(root));
    let accesses = nodes.iter().filter(|node| matches!(node.op(), Op::Load | Op::Previous | Op::Exchange));
    let loaded: FxHashSet<&UOp> = accesses.map(|load| &load.src()[0].src()[0]).collect();
    let is_meant = |(family, _): &(Family, i64)| !loaded.contains(&family.0);
    let members: Vec<Option<(Family, i64)>> = root.src().iter().map(|store| single(store).filter(is_meant)).collect();
    let numbers: FxHashMap<&(Family, i64), usize> =
        members.iter().enumerate().filter_map(|(number, member)| Some((member.as_ref()?, number))).collect();
    let mut new: Vec<Option<UOp>> = root.src().iter().cloned().map(Some).collect();
    for (first, member) in members.iter().enumerate() {
        let Some((family, constant)) = member else { continue };
        let Some(&second) = numbers.get(&(family.clone(), constant + 1)) else { continue };
        let store = &root.src()[first];
        if simplify(&store.src()[0].src()[1].modulo(2)).is_const(0) {
            new[first] = Some(pair(store, &root.src()[second]));
            new[second] = None;
        }
    }
    root.with_src(new.into_iter().flatten().collect::<Sources>())
}

/// A store of one element into memory, without a condition, as a member of its family.
fn single(store: &UOp) -> Option<(Family, i64)> {
    if store.op() != Op::Store || *store.arg() != Arg::None {
        return None;
    }
    let [memory, offset] = store.src()[0].src() else { return None };
    let is_plain = memory.op() == Op::Param && store.src()[1].dtype().lanes() == 1 && !store.src()[1].dtype().is_bool();
    let (terms, constant) = linear_terms(offset);
    is_plain.then(|| ((memory.clone(), closed_ranges(store).to_vec(), terms), constant))
}

fn pair(first: &UOp, second: &UOp) -> UOp {
    let (index, dtype) = (&first.src()[0], first.src()[1].dtype().with_lanes(2));
    let values: Sources = smallvec![first.src()[1].clone(), second.src()[1].clone()];
    let index = UOp::new(Op::Index, dtype, index.src().iter().cloned().collect::<Sources>(), Arg::None);
    let sources = [index, UOp::new(Op::Stack, dtype, values, Arg::None)];
    first.with_src(sources.into_iter().chain(first.src()[2..].iter().cloned()).collect::<Sources>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;
    use crate::dtype::Scalar;
    use crate::ir::AxisKind;

    /// Stores at these offsets behind twice a loop's number, of results of a product of matrices; with another value that is loaded.
    fn stored(offsets: &[i64], loaded: u32) -> Vec<usize> {
        let row = UOp::range(4, 0, AxisKind::Loop);
        let at = |slot: u32, dtype: DType, offset: UOp| {
            UOp::new(Op::Index, dtype, vec![UOp::param(slot, dtype.element(), 64), offset], Arg::None)
        };
        let load = |slot: u32, dtype: DType| UOp::new(Op::Load, dtype, vec![at(slot, dtype, UOp::index(0))], Arg::None);
        let sums = DType::F32.with_lanes(4);
        let factors = [load(1, DType::BF16.with_lanes(8)), load(2, DType::BF16.with_lanes(4))];
        let zeros = UOp::constant(Scalar::zero(DType::F32), sums);
        let [left, right] = factors;
        let product = UOp::new(Op::MultiplyMatrices, sums, vec![left, right, zeros], Arg::None);
        let store = |(number, offset): (usize, &i64)| {
            let lane = UOp::new(Op::Lane, DType::F32, vec![product.clone()], Arg::Number(number as i64));
            let index = at(0, DType::F32, &row * 2 + *offset);
            let value = lane + load(loaded, DType::F32);
            UOp::new(Op::Store, DType::VOID, vec![index, value, row.clone()], Arg::None)
        };
        let root = store_pairs(&UOp::sink(offsets.iter().enumerate().map(store)));
        root.src().iter().map(|store| store.src()[1].dtype().lanes()).collect()
    }

    #[test]
    fn neighbours_from_an_even_offset_on_are_one_store() {
        assert_eq!(stored(&[0, 1], 3), [2]);
        assert_eq!(stored(&[1, 9, 0, 8], 3), [2, 2]);
        assert_eq!(stored(&[1, 2], 3), [1, 1]);
        assert_eq!(stored(&[0, 2], 3), [1, 1]);
        assert_eq!(stored(&[0, 1, 2], 3), [2, 1]);
        // Of memory that is loaded as well each store stays where it is.
        assert_eq!(stored(&[0, 1], 0), [1, 1]);
    }
}
