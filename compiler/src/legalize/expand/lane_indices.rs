//! Index arithmetic over lanes: by how much it grows from lane to lane, and what it is in one of them.
//!
//! Tested with the whole ([`super`]).

use smallvec::smallvec;

use super::Vectorizer;
use super::vectors::ramp;
use crate::ir::{Op, Sources, Substitution, UOp, postorder};
use crate::kernel::ranges::range_id;
use crate::symbolic::{linear_terms, simplify};

impl Vectorizer {
    /// Index arithmetic stays a ramp where it is affine in the lane.
    pub(super) fn convert_index_value(&self, node: &UOp, lane: &UOp, count: usize, src: Sources) -> UOp {
        match self.step(node, lane) {
            Some(step) => ramp(&self.at_lane(node, lane, 0), step, count),
            None => UOp::new(node.op(), node.dtype().with_lanes(count), src, node.arg().clone()),
        }
    }

    /// By how much an index expression grows from lane to lane, if that is one constant.
    pub(super) fn step(&self, node: &UOp, lane: &UOp) -> Option<i64> {
        let key = (node.clone(), lane.clone());
        *self.steps.borrow_mut().entry(key).or_insert_with(|| self.new_step(node, lane))
    }

    fn new_step(&self, node: &UOp, lane: &UOp) -> Option<i64> {
        let id = range_id(lane);
        let mut step = 0;
        for (term, factor) in linear_terms(node).0 {
            if term == *lane {
                step += factor;
            } else if self.term_depends_on(&term, id) {
                return None;
            }
        }
        Some(step)
    }

    fn term_depends_on(&self, term: &UOp, id: u32) -> bool {
        // Terms may be nodes that linear_terms made anew, so the graph below is asked, not the table.
        postorder(std::slice::from_ref(term)).iter().any(|node| node.op() == Op::Range && range_id(node) == id)
    }

    /// Index arithmetic as it stands in one lane.
    pub(super) fn at_lane(&self, node: &UOp, lane: &UOp, number: i64) -> UOp {
        if number == 0
            && let Some(sum) = self.without_lane(node, lane)
        {
            return sum;
        }
        let index = || simplify(&Substitution::of(lane.clone(), UOp::index(number)).apply(node));
        self.lane_indices.borrow_mut().entry((node.clone(), lane.clone(), number)).or_insert_with(index).clone()
    }

    /// Index arithmetic in the first lane, where that takes leaving out a term of a sum: so most offsets are.
    fn without_lane(&self, node: &UOp, lane: &UOp) -> Option<UOp> {
        if node == lane {
            return Some(UOp::index(0));
        }
        if !self.dependencies.get(node).contains(range_id(lane)) {
            return Some(node.clone());
        }
        let (Op::Add | Op::Mul, [left, right]) = (node.op(), node.src()) else { return None };
        let (left, right) = (self.without_lane(left, lane)?, self.without_lane(right, lane)?);
        match node.op() {
            Op::Add if left.is_const(0) => Some(right),
            Op::Add if right.is_const(0) => Some(left),
            // The terms that stay keep their order.
            Op::Add => Some(node.with_src(smallvec![left, right])),
            Op::Mul if left.is_const(0) || right.is_const(0) => Some(UOp::index(0)),
            _ => None,
        }
    }
}
