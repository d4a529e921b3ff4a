//! A graph's content as bytes, for hashes that outlive the process: equal bytes mean equal graphs.
//!
//! [`UOp::structural_hash`] finds nodes in memory, where content is compared afterwards; a cache on disk has nothing to compare with, so
//! its keys are cryptographic hashes of all the content. Nodes are numbered as they are listed, operands before users, those in
//! symbolic dims too, and name each other by number.
//!
//! Always: the bytes depend on the graph alone, not on addresses or on what else there is.

use std::hash::{Hash, Hasher};

use rustc_hash::FxHashMap;

use super::text::lines_below;
use super::{Dim, UOp};

/// A hasher that hands on what it is fed.
struct Feed<'feed>(&'feed mut dyn FnMut(&[u8]));

impl Hasher for Feed<'_> {
    fn write(&mut self, bytes: &[u8]) {
        (self.0)(bytes);
    }

    fn finish(&self) -> u64 {
        0 // nobody asks: the bytes are what counts
    }
}

/// Feeds the content of the graph below `roots`, piece by piece.
pub fn content(roots: &[UOp], feed: &mut dyn FnMut(&[u8])) {
    let mut feed = Feed(feed);
    let mut numbers: FxHashMap<UOp, u32> = FxHashMap::default();
    for (number, node) in lines_below(roots).into_iter().enumerate() {
        (node.op(), node.dtype(), node.src().len()).hash(&mut feed);
        node.src().iter().for_each(|operand| numbers[operand].hash(&mut feed));
        let mut exprs: Vec<u32> = Vec::new();
        node.arg().for_each_dim(&mut |dim| {
            if let Dim::Expr(expr) = dim {
                exprs.push(numbers[expr]);
            }
        });
        if exprs.is_empty() {
            node.arg().hash(&mut feed);
        } else {
            // Expressions by their numbers; in their places something that no other dim there is.
            let gap = |dim: &Dim| if dim.as_const().is_some() { dim.clone() } else { Dim::Const(i64::MIN) };
            node.arg().map_dims(&mut |dim| gap(dim)).hash(&mut feed);
            exprs.hash(&mut feed);
        }
        numbers.insert(node, number as u32);
    }
    u32::MAX.hash(&mut feed);
    roots.iter().for_each(|root| numbers[root].hash(&mut feed));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;
    use crate::ir::ReduceOp;

    fn bytes(roots: &[UOp]) -> Vec<u8> {
        let mut bytes = Vec::new();
        content(roots, &mut |part| bytes.extend_from_slice(part));
        bytes
    }

    #[test]
    fn graphs_that_differ_have_other_bytes() {
        let x = UOp::param(0, DType::F32, 12);
        let y = UOp::param(1, DType::F32, 12);
        let n = |max: i64| Dim::from(UOp::variable("n", 1, max));
        let part = |end: Dim| x.shrink(&[(Dim::from(0), end)]);
        let graphs: Vec<Vec<UOp>> = vec![
            vec![x.clone()],
            vec![y.clone()],
            vec![UOp::param(0, DType::F32, 13)],
            vec![UOp::param(0, DType::I32, 12)],
            vec![&x + &y],
            vec![&y - &x],
            vec![&x - &y],
            vec![&x - &y, x.clone()],
            vec![x.clone(), &x - &y],
            vec![&x + 1],
            vec![&x + 2],
            vec![x.reshape([3, 4])],
            vec![x.reshape([4, 3])],
            vec![x.reshape([3, 4]).reduce(ReduceOp::Add, &[0])],
            vec![x.reshape([3, 4]).reduce(ReduceOp::Max, &[0])],
            vec![x.reshape([3, 4]).reduce(ReduceOp::Add, &[1])],
            vec![part(n(5))],
            vec![part(n(6))],
            vec![part(&n(5) + 1)],
            vec![part(Dim::from(5))],
        ];
        for (number, graph) in graphs.iter().enumerate() {
            assert_eq!(bytes(graph), bytes(graph));
            for other in &graphs[..number] {
                assert_ne!(bytes(graph), bytes(other), "{graph:?} {other:?}");
            }
        }
    }

    #[test]
    fn a_long_chain_is_listed_without_recursion() {
        let mut value = UOp::param(0, DType::F32, 4);
        for step in 0..100_000 {
            value = &value + (step % 7);
        }
        assert!(bytes(&[value]).len() > 1_000_000);
    }
}
