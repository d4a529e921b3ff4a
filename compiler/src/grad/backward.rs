//! The reverse walk.

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::{SmallVec, smallvec};

use super::rules::{Rule, rule};
use crate::UOp;
use crate::dtype::lattice::accumulate;
use crate::ir::{Op, ReduceOp, Shape, postorder};
use crate::ops::{Built, OpError};
use crate::view::dims::same;

/// The derivative of `sum(root * cotangent)` by each target, in the target's shape and type.
///
/// A target on which the root depends through no differentiable path gets zeros.
///
/// # Errors
/// If a target is no float, none of them occurs in the graph, or the cotangent does not have the root's shape.
pub fn gradients(root: &UOp, cotangent: &UOp, targets: &[UOp]) -> Built<Vec<UOp>> {
    let found = gradients_or_none(root, cotangent, targets)?;
    check_used(root, targets)?;
    Ok(targets.iter().zip(found).map(|(target, found)| found.unwrap_or_else(|| zeros_like(target))).collect())
}

/// As [`gradients`], with nothing for a target on which the root does not depend. The walk goes once over the nodes
/// between root and targets, in an order that the graph alone decides.
///
/// # Errors
/// If a target is no float, or the cotangent does not have the root's shape.
pub fn gradients_or_none(root: &UOp, cotangent: &UOp, targets: &[UOp]) -> Built<Vec<Option<UOp>>> {
    if !root.dtype().is_float() {
        return Err(OpError::new(format!("{} has no derivative: only floats do", root.dtype())));
    }
    if !are_same(cotangent.shape(), root.shape()) {
        let (given, wanted) = (cotangent.shape(), root.shape());
        return Err(OpError::new(format!("the gradient that is given has shape {given}, and the result {wanted}")));
    }
    let order = postorder(std::slice::from_ref(root));
    if let Some(target) = targets.iter().find(|target| !target.dtype().is_float()) {
        return Err(OpError::new(format!("a {} tensor has no gradient: only floats do", target.dtype())));
    }
    let wanted: FxHashSet<&UOp> = targets.iter().collect();
    let mut depends: FxHashSet<&UOp> = FxHashSet::default();
    for node in &order {
        if node.dtype().is_float()
            && (wanted.contains(node) || node.src().iter().any(|operand| depends.contains(operand)))
        {
            depends.insert(node);
        }
    }
    let mut gradient: FxHashMap<UOp, SmallVec<[UOp; 1]>> = FxHashMap::default();
    let is_written_so = cotangent.shape() == root.shape();
    let cotangent = if is_written_so { cotangent.clone() } else { cotangent.reshape(root.shape().clone()) };
    gradient.insert(root.clone(), smallvec![cotangent.cast(root.dtype())]);
    let mut found: FxHashMap<UOp, UOp> = FxHashMap::default();
    for node in order.iter().rev() {
        let Some(above) = gradient.remove(node) else { continue };
        if wanted.contains(node) {
            let total = above.iter().cloned().reduce(|total, part| total + part);
            found.extend(total.map(|total| (node.clone(), total)));
        }
        if !node.src().iter().any(|operand| depends.contains(operand)) {
            continue;
        }
        let Rule::Contributes(contributions) = rule(node.op()) else { continue };
        for above in &above {
            for (operand, contribution) in node.src().iter().zip(contributions(node, above)) {
                let Some(contribution) = contribution else { continue };
                if depends.contains(operand) {
                    let contribution = summed_to(&contribution, operand);
                    add_to(gradient.entry(operand.clone()).or_default(), operand, contribution);
                }
            }
        }
    }
    Ok(targets.iter().map(|target| found.get(target).cloned()).collect())
}

/// Adds a contribution to those that a node got. One total is enough, but for products that a repeated operand of several matrix products gets: each is summed over its copies by itself, a matrix product
/// of its own, and what these come to is added. Their sum would be one reduction over products of as many matrices, of which no register tile holds the operands.
fn add_to(parts: &mut SmallVec<[UOp; 1]>, node: &UOp, contribution: UOp) {
    let is_repeated = |factor: &UOp| match factor.op() {
        Op::Cast => factor.src()[0].op() == Op::Expand,
        op => op == Op::Expand,
    };
    let is_product = |part: &UOp| part.op() == Op::Mul && part.src().iter().all(is_repeated);
    let is_apart = node.op() == Op::Expand && is_product(&contribution);
    let total =
        if is_apart { None } else { parts.iter_mut().find(|part| node.op() != Op::Expand || !is_product(part)) };
    match total {
        Some(total) => *total = &*total + contribution,
        None => parts.push(contribution),
    }
}

/// A result may do without some of its targets. One that does without all was computed from other tensors, or what lies between was
/// realised: then zeros would hide a mistake.
fn check_used(root: &UOp, targets: &[UOp]) -> Built<()> {
    let order = postorder(std::slice::from_ref(root));
    let nodes: FxHashSet<&UOp> = order.iter().collect();
    // Of a tensor without elements a program may keep nothing.
    let is_used = |target: &UOp| nodes.contains(target) || target.shape().numel().is(0);
    match targets.first() {
        Some(first) if !targets.iter().any(is_used) => Err(OpError::new(format!(
            "a tensor of shape {} is not part of what the result was computed from, nor is another target, or what depends on it was realised in between",
            first.shape()
        ))),
        _ => Ok(()),
    }
}

/// Whether two shapes are known to be equal, however their lengths are written.
fn are_same(a: &Shape, b: &Shape) -> bool {
    a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| same(a, b))
}

fn zeros_like(target: &UOp) -> UOp {
    let zero = target.const_like(0);
    if target.shape().is_empty() {
        zero
    } else {
        zero.reshape(vec![1i64; target.shape().len()]).expand(target.shape().clone())
    }
}

/// What comes back to an operand of rank 0 that an elementwise op repeated is the sum of all that its copies get.
fn summed_to(contribution: &UOp, operand: &UOp) -> UOp {
    if contribution.shape() == operand.shape() {
        return contribution.clone();
    }
    if contribution.shape().is_empty() {
        // A constant contribution: the same for each element.
        let ones = contribution.reshape(vec![1i64; operand.shape().len()]);
        return ones.expand(operand.shape().clone());
    }
    if !operand.shape().is_empty() {
        // Lengths that are equal may be written otherwise: `w * h` of `h * w`.
        debug_assert!(
            are_same(contribution.shape(), operand.shape()),
            "{} of {}",
            contribution.shape(),
            operand.shape()
        );
        return contribution.reshape(operand.shape().clone());
    }
    let axes: Vec<usize> = (0..contribution.shape().len()).collect();
    let dtype = contribution.dtype();
    contribution.cast(accumulate(dtype)).reduce(ReduceOp::Add, &axes).cast(dtype)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;
    use crate::ops::matmul::matmul;

    fn param(slot: u32, shape: [i64; 2]) -> UOp {
        UOp::param(slot, DType::F32, (shape[0] * shape[1]) as u64).reshape(shape.to_vec())
    }

    /// How many sums the gradient of a total by an operand holds.
    fn sums(value: &UOp, operand: &UOp) -> usize {
        let root = value.reduce(ReduceOp::Add, &[0, 1]);
        let found = gradients(&root, &root.const_like(1), std::slice::from_ref(operand)).expect("a gradient");
        postorder(&found).iter().filter(|node| node.op() == Op::Reduce).count()
    }

    #[test]
    fn a_matrix_of_several_products_gets_a_product_of_each() {
        let matrix = param(0, [8, 16]);
        let product = |slot: u32| matmul(&param(slot, [4, 8]), &matrix).expect("a product");
        let all = (1..4).map(|slot| product(slot) * product(slot).exp2()).reduce(|sum, part| sum + part).expect("some");
        // Of each product, forward and back.
        assert_eq!(sums(&all, &matrix), 6);
        // What is repeated for elementwise ops is summed once.
        let row = param(0, [1, 16]);
        let wide = row.expand(vec![4i64, 16]);
        let all = (1..4).map(|slot| param(slot, [4, 16]) * &wide).reduce(|sum, part| sum + part).expect("some");
        assert_eq!(sums(&all, &row), 1);
    }

    #[test]
    fn a_product_is_added_to_nothing_whatever_comes_first() {
        let repeated = |slot: u32| param(slot, [1, 16]).expand(vec![4i64, 16]);
        let operand = repeated(0);
        let product = |slot: u32| repeated(slot) * repeated(slot + 1);
        let plain = |slot: u32| param(slot, [4, 16]);
        let parts = |contributions: Vec<UOp>| {
            let mut parts = SmallVec::new();
            contributions.into_iter().for_each(|part| add_to(&mut parts, &operand, part));
            parts.len()
        };
        assert_eq!(parts(vec![plain(1), product(2), plain(4)]), 2);
        assert_eq!(parts(vec![product(2), plain(1), plain(4)]), 2);
        assert_eq!(parts(vec![product(2), product(4), plain(1)]), 3);
    }
}
