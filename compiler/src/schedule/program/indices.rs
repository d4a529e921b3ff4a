//! Where an index grows too long, so that elements are better moved in memory once.
//!
//! A reshape across a *seam*, as of a transposed matrix, takes the index apart and puts it together in another way: one division and one
//! remainder more for each element, of everything that the index was before. A few of them cost less than a kernel and a walk through
//! memory; but each is made of the one before, twice, so simplifying them takes time that grows by a factor with each seam.
//!
//! Followed is one index: that of the operand below which it has the most seams. Ops of several values leave it as it is, since all operands are asked
//! for at one index; a reduction begins anew, since fusion decides by its cost what it is computed in.
//! Always: between two stored values there are at most [`SEAMS_MAX`] seams. Linear in the size of the graph.
//! Tests: below, and programs of thousands of transposed reshapes in the runtime's tests.

use rustc_hash::FxHashSet;

use super::graph::Graph;
use crate::ir::Op;
use crate::view::ShapeTracker;

/// Seams that an index may cross.
const SEAMS_MAX: usize = 4;

/// The nodes to store so that no index crosses too many seams: operands of reshapes, for memory has every shape.
pub(in crate::schedule) fn cuts(graph: &Graph) -> FxHashSet<u32> {
    let mut cuts = FxHashSet::default();
    if !may_be_long(graph) {
        return cuts;
    }
    // What moves the elements of each node on their way from memory; `None` where nothing does.
    let mut below: Vec<Option<ShapeTracker>> = Vec::with_capacity(graph.nodes.len());
    for (position, node) in graph.nodes.iter().enumerate() {
        let src = &graph.src[position];
        let longest = src.iter().max_by_key(|&&k| below[k as usize].as_ref().map_or(0, |index| index.views().len()));
        let index = match longest {
            _ if graph.must_store[position]
                || matches!(node.op(), Op::Reduce | Op::Scan | Op::Fetch | Op::Place | Op::Contiguous | Op::Write) =>
            {
                None
            }
            Some(&k) if node.op().is_movement() => {
                let fresh = || ShapeTracker::from_shape(graph.nodes[k as usize].shape().clone());
                let moved = below[k as usize].clone().unwrap_or_else(fresh).apply(node.op(), node.arg());
                if moved.views().len() <= SEAMS_MAX + 1 {
                    Some(moved)
                } else {
                    cuts.insert(k);
                    Some(fresh().apply(node.op(), node.arg()))
                }
            }
            Some(&k) if node.op().is_elementwise() => {
                below[k as usize].clone().filter(|index| index.shape() == node.shape())
            }
            _ => None,
        };
        below.push(index);
    }
    cuts
}

/// Whether some chain has enough reshapes for that: asked first, for it costs next to nothing.
fn may_be_long(graph: &Graph) -> bool {
    let mut reshapes: Vec<usize> = Vec::with_capacity(graph.nodes.len());
    for (position, node) in graph.nodes.iter().enumerate() {
        let below = graph.src[position].iter().map(|&k| reshapes[k as usize]).max().unwrap_or(0);
        reshapes.push(match node.op() {
            Op::Reduce | Op::Scan | Op::Fetch | Op::Place | Op::Contiguous | Op::Write => 0,
            _ if graph.must_store[position] => 0,
            Op::Reshape | Op::AsStrided => below + 1,
            _ => below,
        });
        if below > SEAMS_MAX {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;
    use crate::ir::{UOp, postorder};

    fn graph(value: &UOp) -> Graph {
        Graph::of(std::slice::from_ref(value), postorder(std::slice::from_ref(value)), &crate::target::Costs::cpu())
    }

    fn across(value: &UOp) -> UOp {
        value.permute(&[1, 0]).reshape([4, 6])
    }

    #[test]
    fn an_index_crosses_few_seams() {
        let start = UOp::param(0, DType::F32, 24).reshape([4, 6]);
        let few = (0..SEAMS_MAX).fold(start.clone(), |value, _| across(&value));
        assert!(cuts(&graph(&few.exp2())).is_empty());
        for between in [|value: &UOp| value.clone(), |value: &UOp| value + 1] {
            let many = (0..100).fold(start.clone(), |value, _| across(&between(&value)));
            let count = cuts(&graph(&many.exp2())).len();
            // A reshape of what was stored is none.
            let expected = 100 / (SEAMS_MAX + 1);
            assert!((expected - 1..=expected).contains(&count), "{count}");
        }
    }

    #[test]
    fn reshapes_that_strides_can_say_are_no_seams() {
        let start = UOp::param(0, DType::F32, 24).reshape([4, 6]);
        let turned = (0..50).fold(start, |value, _| {
            (value.reshape([2, 2, 6]).permute(&[1, 0, 2]) + 1).permute(&[1, 0, 2]).reshape([4, 6])
        });
        assert!(cuts(&graph(&turned)).is_empty());
    }
}
