//! Factors of matrices that are loaded one by one, of which two lie side by side in memory: one load for both.
//!
//! Lanes that multiply matrices together hold pairs of neighbouring terms (`ir::fragments`), so where memory is consecutive along the terms a load of
//! four bytes gives what one register of the machine holds.
//!
//! Always: the same elements. Tested below, and with every product of matrices by lanes.

use smallvec::smallvec;

use crate::ir::{Arg, Op, Sources, UOp, rebuild};
use crate::symbolic::simplify;

/// The kernel with pairs of factors loaded together.
pub fn load_pairs(root: &UOp) -> UOp {
    if !root.contains(Op::MultiplyMatrices) {
        return root.clone();
    }
    rebuild(root, |node, rebuilt| match node.op() {
        Op::MultiplyMatrices => {
            let [left, right] = [0, 1].map(|factor| paired(&rebuilt.src()[factor]));
            rebuilt.with_src(Sources::from_iter([left, right, rebuilt.src()[2].clone()]))
        }
        _ => rebuilt,
    })
}

/// A stack, in which what is loaded side by side is loaded at once.
fn paired(stack: &UOp) -> UOp {
    if stack.op() != Op::Stack {
        return stack.clone();
    }
    let elements = stack.src().chunks(2).flat_map(|pair| match pair {
        [first, second] => both(first, second).unwrap_or_else(|| [first.clone(), second.clone()]).to_vec(),
        rest => rest.to_vec(),
    });
    stack.with_src(elements.collect::<Sources>())
}

/// Two elements of one load, if they lie side by side, from an even element on.
fn both(first: &UOp, second: &UOp) -> Option<[UOp; 2]> {
    if first.op() != Op::Load || second.op() != Op::Load {
        return None;
    }
    let (at, next) = (&first.src()[0], &second.src()[0]);
    let is_plain = at.src().len() == 2 && next.src().len() == 2 && at.src()[0] == next.src()[0];
    let offset = &at.src()[1];
    if !is_plain || simplify(&(&next.src()[1] - offset)).as_int() != Some(1) || !simplify(&offset.modulo(2)).is_const(0)
    {
        return None;
    }
    let dtype = first.dtype().with_lanes(2);
    let index = UOp::new(Op::Index, dtype, at.src().iter().cloned().collect::<Sources>(), Arg::None);
    let load = UOp::new(Op::Load, dtype, smallvec![index], Arg::None);
    Some([0, 1].map(|lane| UOp::new(Op::Lane, first.dtype(), smallvec![load.clone()], Arg::Number(lane))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;
    use crate::ir::AxisKind;

    #[test]
    fn neighbours_are_loaded_at_once() {
        let row = UOp::range(4, 0, AxisKind::Loop);
        let load = |offset: UOp| {
            let index = UOp::new(Op::Index, DType::F16, vec![UOp::param(0, DType::F16, 64), offset], Arg::None);
            UOp::new(Op::Load, DType::F16, vec![index], Arg::None)
        };
        let loads = |offsets: [UOp; 2]| {
            let stack = UOp::new(Op::Stack, DType::F16.with_lanes(2), offsets.map(load).to_vec(), Arg::None);
            let nodes = crate::ir::postorder(&[paired(&stack)]);
            nodes.iter().filter(|node| node.op() == Op::Load).map(|node| node.dtype().lanes()).collect::<Vec<_>>()
        };
        assert_eq!(loads([&row * 8 + 2, &row * 8 + 3]), [2]);
        assert_eq!(loads([&row * 8 + 1, &row * 8 + 2]), [1, 1]);
        assert_eq!(loads([&row * 8, &row * 8 + 8]), [1, 1]);
    }
}
