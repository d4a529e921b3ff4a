//! Machine types for index arithmetic: every node of dtype `Index` becomes `i64`, or `i32` where the whole expression fits.
//!
//! On CPUs scalars that become addresses are `i64`, the width of a pointer. Vectors of indices (for gates, gathers and data made of
//! positions) are `i32` where every part is proven to fit, because twice as many fit a register. On GPUs, whose integers have 32 bits (one of 64 takes several
//! instructions), scalars are `i32` too where they fit, loops and the indices of threads among them. Variables are given as `i64`.
//!
//! Tested below, and by every kernel that runs.

use rustc_hash::FxHashMap;

use crate::DType;
use crate::dtype::Scalar;
use crate::ir::{Arg, Class, Op, Sources, UOp, postorder};
use crate::target::{Language, Target};

/// Gives machine types to every index in a kernel.
pub fn lower_index_types(root: &UOp, target: &Target) -> UOp {
    let order = postorder(std::slice::from_ref(root));
    let fits = fits_in_i32(&order, target.language == Language::Ptx);
    let mut done: FxHashMap<UOp, UOp> = FxHashMap::default();
    for node in &order {
        let narrow = |operand: &UOp| fits.get(operand).copied().unwrap_or(false);
        let converted = |operand: &UOp| operand.dtype().is_index() && !is_closed(node, operand);
        // Operands of one op agree: narrow only if all are, and what stands beside them is.
        let together = node.src().iter().filter(|operand| converted(operand)).all(narrow);
        let own = if node.dtype().is_index() { narrow(node) } else { together };
        let wanted = if own { DType::I32 } else { DType::I64 };
        let src: Sources = node
            .src()
            .iter()
            .map(|operand| {
                let new = &done[operand];
                if converted(operand) { convert(new, wanted) } else { new.clone() }
            })
            .collect();
        done.insert(node.clone(), retype(node, src, wanted));
    }
    done.remove(root).unwrap_or_else(|| root.clone())
}

/// Whether an op names a loop rather than its index.
fn is_closed(node: &UOp, operand: &UOp) -> bool {
    let names_loops = matches!(node.op().class(), Class::Loop | Class::Memory) && node.op() != Op::Index;
    names_loops && node.op() != Op::Range && operand.op() == Op::Range
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
        (Op::Variable, arg) => UOp::new(node.op(), DType::I64, src, arg.clone()),
        (Op::Cast, _) => src[0].cast(dtype),
        (op, arg) => UOp::new(op, dtype, src, arg.clone()),
    }
}

/// Indices whose every part fits: all that such an expression is made of must fit too.
fn fits_in_i32(order: &[UOp], scalars: bool) -> FxHashMap<UOp, bool> {
    let mut fits: FxHashMap<UOp, bool> = FxHashMap::default();
    for node in order.iter().filter(|node| node.dtype().is_index()) {
        let in_bounds = node.min_value() >= i32::MIN as i64 && node.max_value() <= i32::MAX as i64;
        let is_narrowed = |node: &UOp| scalars || node.dtype().lanes() > 1;
        let parts = node.src().iter().filter(|part| part.dtype().is_index() && is_narrowed(part));
        let whole = in_bounds && is_narrowed(node) && parts.into_iter().all(|part| fits[part]);
        fits.insert(node.clone(), whole);
    }
    fits
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::AxisKind;

    fn types(root: &UOp, target: &Target) -> Vec<(Op, DType)> {
        let lowered = lower_index_types(root, target);
        let named = [Op::Range, Op::Mul, Op::Add, Op::Variable];
        let order = postorder(std::slice::from_ref(&lowered));
        order.iter().filter(|node| named.contains(&node.op())).map(|node| (node.op(), node.dtype())).collect()
    }

    fn load(offset: UOp) -> UOp {
        let index = UOp::new(Op::Index, DType::F32, vec![UOp::param(0, DType::F32, 1 << 40), offset], Arg::None);
        UOp::new(Op::Load, DType::F32, vec![index], Arg::None)
    }

    #[test]
    fn scalars_of_gpus_are_as_narrow_as_they_fit() {
        let n = UOp::variable("n", 1, 100);
        let range = UOp::range(n, 0, AxisKind::Loop);
        let near = load(&range * 1000);
        let (narrow, wide) = (DType::I32, DType::I64);
        let gpu = Target::gpu_model();
        assert_eq!(types(&near, &gpu), [(Op::Variable, wide), (Op::Range, narrow), (Op::Mul, narrow)]);
        assert_eq!(types(&near, &Target::test_avx512()), [(Op::Variable, wide), (Op::Range, wide), (Op::Mul, wide)]);
        // The product does not fit, and the sum with it is as wide.
        let far = load(&range * (1 << 30) + 5);
        let expected = [(Op::Variable, wide), (Op::Range, narrow), (Op::Mul, wide), (Op::Add, wide)];
        assert_eq!(types(&far, &gpu), expected);
    }
}
