//! Chains of movement ops as sets of elements of the memory that they begin with.
//!
//! One strided view answers most questions about shared elements (`region::views_meet`). What it cannot say, as a part of a transposed
//! matrix read in row-major order, is a set of pieces here: the chain is followed op by op in an [`AliasGraph`], which decides exactly. Writes ask it
//! which readers must come first, and `warpweft inspect --stage region` draws it.
//!
//! Not here: padding and symbolic lengths; of these no set is made, and callers take a larger view or assume that elements are shared.
//! Tested below, against the addresses that plain loops give; the alias graph by `conformance alias` and random programs.

use rustc_hash::FxHashMap;

use crate::ir::{Arg, Dim, Op, UOp};
use crate::region::{AliasGraph, Answer, TensorId};
use crate::view::{ViewSpec, collect_movement_chain};

/// Longer chains are not followed.
const STEPS_MAX: usize = 64;

/// Views of memory, each made once.
#[derive(Debug, Default)]
pub struct MemoryViews {
    aliases: AliasGraph,
    ids: FxHashMap<UOp, TensorId>,
}

impl MemoryViews {
    /// Without any memory.
    #[must_use]
    pub fn new() -> MemoryViews {
        MemoryViews::default()
    }

    /// The sets of elements, for further questions.
    #[must_use]
    pub fn aliases(&self) -> &AliasGraph {
        &self.aliases
    }

    /// The memory that a node stands for, whole; nothing if its lengths are symbolic.
    pub fn memory(&mut self, base: &UOp) -> Option<TensorId> {
        if let Some(id) = self.ids.get(base) {
            return Some(*id);
        }
        let id = self.aliases.allocate(&base.shape().as_const()?, 0).ok()?;
        self.ids.insert(base.clone(), id);
        Some(id)
    }

    /// What a chain of movement ops shows of the memory below it; nothing for what cannot be said here.
    pub fn view(&mut self, node: &UOp) -> Option<TensorId> {
        let (base, steps) = collect_movement_chain(node);
        let memory = self.memory(&base)?;
        if steps.len() > STEPS_MAX {
            return None;
        }
        let mut id = memory;
        for step in &steps {
            id = match self.ids.get(step) {
                Some(known) => *known,
                None => self.step(memory, id, step)?,
            };
            self.ids.insert(step.clone(), id);
        }
        Some(id)
    }

    fn step(&mut self, memory: TensorId, below: TensorId, step: &UOp) -> Option<TensorId> {
        let shape = step.shape().as_const()?;
        let number = |axes: &[u8]| axes.iter().map(|&axis| axis as usize).collect::<Vec<usize>>();
        let aliases = &mut self.aliases;
        let made = match (step.op(), step.arg()) {
            (Op::Reshape, _) => aliases.reshape(below, &shape),
            (Op::Permute, Arg::Axes(order)) => aliases.permute(below, &number(order)),
            (Op::Flip, Arg::Axes(axes)) => aliases.reverse(below, &number(axes)),
            (Op::Expand, _) => aliases.expand(below, &shape),
            (Op::Shrink, Arg::Bounds(bounds)) => {
                let ends = |end: fn(&(Dim, Dim)) -> Option<i64>| bounds.iter().map(end).collect::<Option<Vec<i64>>>();
                let (lower, upper) = (ends(|(low, _)| low.as_const())?, ends(|(_, high)| high.as_const())?);
                aliases.slice(below, &lower, &upper, &vec![1; bounds.len()])
            }
            // Whatever lies below, the strides of the whole chain are over the memory.
            (Op::AsStrided, _) => {
                let spec = ViewSpec::of_node(step)?;
                aliases.as_strided(memory, &shape, &spec.strides.as_const()?, spec.offset.as_const()?)
            }
            _ => return None,
        };
        made.ok()
    }
}

/// Whether two chains of movement ops, over versions of one memory, show some element in common; nothing if a chain cannot be said here.
pub(super) fn chains_meet(a: &UOp, b: &UOp) -> Option<Answer> {
    let ((one, _), (another, _)) = (collect_movement_chain(a), collect_movement_chain(b));
    if one.shape() != another.shape() {
        return None;
    }
    let mut views = MemoryViews::new();
    let memory = views.memory(&one)?;
    views.ids.insert(another, memory);
    let (a, b) = (views.view(a)?, views.view(b)?);
    views.aliases.intersects(a, b).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;

    fn bounds(pairs: &[(i64, i64)]) -> Vec<(Dim, Dim)> {
        pairs.iter().map(|&(a, b)| (Dim::Const(a), Dim::Const(b))).collect()
    }

    /// Part of the columns of [4, 6], read one after the other: elements first.. of the transposed matrix.
    fn columns(memory: &UOp, first: i64, end: i64) -> UOp {
        memory.permute(&[1, 0]).reshape([24]).shrink(&bounds(&[(first, end)]))
    }

    #[test]
    fn parts_across_a_seam_meet_where_their_elements_do() {
        let memory = UOp::param(0, DType::F32, 24).reshape([4, 6]);
        let mut without_strides = 0;
        for first in 0..20 {
            for length in 1..5 {
                let part = columns(&memory, first, first + length);
                without_strides += usize::from(ViewSpec::of_node(&part).is_none());
                for column in 0..6 {
                    let other = memory.shrink(&bounds(&[(0, 4), (column, column + 1)]));
                    let shared = (first..first + length).any(|element| element / 4 == column);
                    let wanted = if shared { Answer::Yes } else { Answer::No };
                    assert_eq!(chains_meet(&part, &other), Some(wanted), "{first}, {length}, {column}");
                }
            }
        }
        assert!(without_strides > 10, "{without_strides}");
    }

    #[test]
    fn what_cannot_be_said_has_no_answer() {
        let memory = UOp::param(0, DType::F32, 24).reshape([4, 6]);
        let padded = memory.pad(&bounds(&[(1, 0), (0, 0)]));
        assert_eq!(chains_meet(&padded, &memory), None);
        let mut long = memory.clone();
        for _ in 0..=STEPS_MAX {
            long = long.flip(&[0]).reshape([4, 6, 1]).reshape([4, 6]);
        }
        assert_eq!(chains_meet(&long, &memory), None);
        let symbolic = UOp::param(0, DType::F32, 24).shrink(&[(Dim::Const(0), Dim::from(UOp::variable("n", 1, 24)))]);
        assert_eq!(chains_meet(&symbolic, &UOp::param(0, DType::F32, 24)), None);
    }
}
