//! Machine types for index arithmetic: every node of dtype `Index` becomes `i64`, or `i32` where the whole expression fits.
//!
//! Scalars that become addresses are `i64`, the width of a pointer. Vectors of indices (for gates, gathers and data made of
//! positions) are `i32` where every part is proven to fit, because twice as many fit a register.

use rustc_hash::FxHashMap;

use crate::DType;
use crate::dtype::Scalar;
use crate::ir::{Arg, Op, Sources, UOp, postorder};

/// Gives machine types to every index in a kernel.
pub fn lower_index_types(root: &UOp) -> UOp {
    let order = postorder(std::slice::from_ref(root));
    let fits = fits_in_i32(&order);
    let mut done: FxHashMap<UOp, UOp> = FxHashMap::default();
    for node in &order {
        let narrow = |operand: &UOp| fits.get(operand).copied().unwrap_or(false);
        // Operands of one op agree: narrow only if all are, and what stands beside them is.
        let together = node.src().iter().filter(|operand| operand.dtype().is_index()).all(narrow);
        let own = if node.dtype().is_index() { narrow(node) } else { together };
        let wanted = if own { DType::I32 } else { DType::I64 };
        let src: Sources = node
            .src()
            .iter()
            .map(|operand| {
                let new = &done[operand];
                if operand.dtype().is_index() { convert(new, wanted) } else { new.clone() }
            })
            .collect();
        done.insert(node.clone(), retype(node, src, wanted));
    }
    done.remove(root).unwrap_or_else(|| root.clone())
}

fn convert(node: &UOp, dtype: DType) -> UOp {
    let dtype = dtype.with_lanes(node.dtype().lanes());
    match node.arg() {
        Arg::Scalar(value) => UOp::constant(*value, dtype),
        _ => node.cast(dtype),
    }
}

fn retype(node: &UOp, src: Sources, wanted: DType) -> UOp {
    if !node.dtype().is_index() {
        // A cast from an index to the type that it now has is nothing.
        if node.op() == Op::Cast && src[0].dtype() == node.dtype() {
            return src[0].clone();
        }
        return if src[..] == *node.src() { node.clone() } else { node.with_src(src) };
    }
    let dtype = wanted.with_lanes(node.dtype().lanes());
    match (node.op(), node.arg()) {
        (Op::Const, Arg::Scalar(value)) => UOp::constant(Scalar::from_i64(value.to_i64(), wanted), dtype),
        (Op::Variable | Op::Range, arg) => UOp::new(node.op(), DType::I64, src, arg.clone()),
        (Op::Cast, _) => src[0].cast(dtype),
        (op, arg) => UOp::new(op, dtype, src, arg.clone()),
    }
}

/// Vectors of indices whose every part fits: all that such an expression is made of must fit too.
fn fits_in_i32(order: &[UOp]) -> FxHashMap<UOp, bool> {
    let mut fits: FxHashMap<UOp, bool> = FxHashMap::default();
    for node in order.iter().filter(|node| node.dtype().is_index()) {
        let in_bounds = node.min_value() >= i32::MIN as i64 && node.max_value() <= i32::MAX as i64;
        let is_vector = node.dtype().lanes() > 1;
        let parts = node.src().iter().filter(|part| part.dtype().is_index() && part.dtype().lanes() > 1);
        let whole = in_bounds && is_vector && parts.into_iter().all(|part| fits[part]);
        fits.insert(node.clone(), whole);
    }
    fits
}
