//! The chain of movement ops that a node is, down to the node that is no movement.
//!
//! That node is the *base*: memory (a buffer, a parameter), a value that is to be stored (`contiguous`), or any computed value. The walk
//! never passes through such a node, so movement inside of the computation of a base is not mistaken for a view of it.
//! Tests: below and `properties`.

use super::tracker::ShapeTracker;
use crate::ir::UOp;

/// The base of a node, and the movement nodes on it, that next to the base first.
pub fn collect_movement_chain(node: &UOp) -> (UOp, Vec<UOp>) {
    let mut steps = Vec::new();
    let mut base = node.clone();
    while base.op().is_movement() {
        let below = base.src()[0].clone();
        steps.push(base);
        base = below;
    }
    steps.reverse();
    (base, steps)
}

/// The same view of another base of the same shape, as of the memory that the old base was computed into.
///
/// # Panics
/// If the base has another shape: a bug of the caller.
pub fn rebuild_view(view: &UOp, base: &UOp) -> UOp {
    let (old, steps) = collect_movement_chain(view);
    assert_eq!(old.shape(), base.shape(), "a view is rebuilt over a base of the same shape");
    steps.iter().fold(base.clone(), |below, step| step.with_src([below].to_vec()))
}

/// The base of a node, and what the movement on it does as a shape tracker.
pub fn track_movement(node: &UOp) -> (UOp, ShapeTracker) {
    let (base, steps) = collect_movement_chain(node);
    let memory = ShapeTracker::from_shape(base.shape().clone());
    let tracker = steps.iter().fold(memory, |tracker, step| tracker.apply(step.op(), step.arg()));
    (base, tracker)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DType, Op};

    #[test]
    fn a_view_lives_on_over_what_its_base_became() {
        let computed = (UOp::param(0, DType::F32, 12) + 1).reshape([3, 4]);
        let view = computed.permute(&[1, 0]).flip(&[0]);
        let memory = UOp::buffer(1, DType::F32, 12, &"CPU".into());
        let rebuilt = rebuild_view(&view, &memory);
        assert_eq!(rebuilt, memory.reshape([3, 4]).permute(&[1, 0]).flip(&[0]));
        assert_eq!(super::super::ViewSpec::of_node(&rebuilt), super::super::ViewSpec::of_node(&view));
    }

    #[test]
    fn the_walk_stops_at_what_is_no_movement() {
        let param = UOp::param(0, DType::F32, 12);
        let stored = param.reshape([3, 4]).contiguous();
        let view = stored.permute(&[1, 0]).reshape([12]);
        let (base, steps) = collect_movement_chain(&view);
        assert_eq!(base, stored);
        assert_eq!(steps.iter().map(UOp::op).collect::<Vec<_>>(), [Op::Permute, Op::Reshape]);
        let (base, tracker) = track_movement(&param.reshape([3, 4]).permute(&[1, 0]));
        assert_eq!(base, param);
        assert_eq!(tracker.views().len(), 1);
        assert_eq!(tracker.views()[0].strides().as_const(), Some(vec![1, 4]));
    }
}
