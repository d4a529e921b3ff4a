//! What products of matrices are added to, they add to by themselves.
//!
//! ```text
//! multiply_matrices(a, b, 0) + multiply_matrices(c, d, 0)     =>     multiply_matrices(c, d, multiply_matrices(a, b, 0))
//! ```
//!
//! The instruction adds for nothing. So it is where a reduction is written out, or where a factor is a sum of several.
//!
//! Always: the same products are added, in the same order. Tested below, and with every product of matrices by lanes.

use crate::ir::{Arg, Op, Sources, UOp, rebuild};

/// The kernel in which sums of products of matrices are chains of such products.
pub fn add_to_sums(root: &UOp) -> UOp {
    if !root.contains(Op::MultiplyMatrices) {
        return root.clone();
    }
    rebuild(root, |_, rebuilt| match (rebuilt.op(), rebuilt.src()) {
        (Op::Add, [a, b]) => added(a, b).or_else(|| added(b, a)).unwrap_or(rebuilt),
        _ => rebuilt,
    })
}

/// A product, or a chain of products, that begins with a sum instead of zero; nothing where it is none.
fn added(sum: &UOp, product: &UOp) -> Option<UOp> {
    if product.op() != Op::MultiplyMatrices {
        return None;
    }
    let [left, right, before] = product.src() else { return None };
    let is_zero = before.as_scalar().is_some_and(|zero| zero.to_f64() == 0.0);
    let before = if is_zero { sum.clone() } else { added(sum, before)? };
    Some(UOp::new(
        Op::MultiplyMatrices,
        product.dtype(),
        Sources::from_iter([left.clone(), right.clone(), before]),
        Arg::None,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;
    use crate::dtype::Scalar;
    use crate::ir::postorder;

    #[test]
    fn products_become_a_chain() {
        let sums = DType::F32.with_lanes(4);
        let zeros = UOp::constant(Scalar::zero(DType::F32), sums);
        let of = |dtype: DType, lanes: usize, slot: u32| {
            let index = UOp::new(
                Op::Index,
                dtype.with_lanes(lanes),
                Sources::from_iter([UOp::param(slot, dtype, 64), UOp::index(0)]),
                Arg::None,
            );
            UOp::new(Op::Load, dtype.with_lanes(lanes), Sources::from_iter([index]), Arg::None)
        };
        let product = |slot: u32| {
            let factors = [of(DType::BF16, 8, slot), of(DType::BF16, 4, slot + 1), zeros.clone()];
            UOp::new(Op::MultiplyMatrices, sums, Sources::from_iter(factors), Arg::None)
        };
        let other = of(DType::F32, 4, 9);
        let chain = add_to_sums(&(&(&product(0) + &product(2)) + &(&product(4) + &other)));
        let nodes = postorder(std::slice::from_ref(&chain));
        assert_eq!(nodes.iter().filter(|node| node.op() == Op::MultiplyMatrices).count(), 3);
        assert!(nodes.iter().all(|node| node.op() != Op::Add));
        // The first of them adds to what is no product.
        let first = nodes.iter().find(|node| node.op() == Op::MultiplyMatrices).expect("a product");
        assert_eq!(first.src()[2], other);
    }
}
