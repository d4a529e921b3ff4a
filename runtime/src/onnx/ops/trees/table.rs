//! The table of all nodes of all trees, leaves among them, which lead to themselves; how rows go down it, and what leaves give to targets.
//!
//! Always: indices in the table are checked before a row goes down, so no step leaves it.
//!
//! Tested with the ops ([`super`]).

use crate::DType;
use crate::onnx::error::{Failure, wrong};
use crate::tensor::Tensor;

/// Levels that a tree may have.
const DEPTH_MAX: usize = 4096;
/// Elements of the table of leaves and targets.
const LEAVES_MAX: usize = 1 << 24;
/// What a node compares a feature with its number by; the positions are the format's numbers.
pub(super) const MODES: [&str; 6] = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"];
/// The one of them that holds of a number that is the same.
pub(super) const EQUAL: i64 = 4;

/// All nodes of all trees.
#[derive(Default)]
pub(super) struct Nodes {
    pub(super) features: Vec<i64>,
    pub(super) modes: Vec<i64>,
    pub(super) splits: Vec<f64>,
    pub(super) is_true: Vec<i64>,
    pub(super) is_false: Vec<i64>,
    pub(super) missing: Vec<bool>,
    pub(super) roots: Vec<i64>,
}

impl Nodes {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.modes.len()
    }

    /// A branch: what it asks, and where it leads if that holds and if it does not.
    pub(super) fn push(&mut self, feature: i64, mode: i64, split: f64, next: [i64; 2], missing: bool) {
        self.features.push(feature);
        self.modes.push(mode);
        self.splits.push(split);
        self.is_true.push(next[0]);
        self.is_false.push(next[1]);
        self.missing.push(missing);
    }

    /// A node that leads to itself.
    pub(super) fn push_leaf(&mut self) -> i64 {
        let at = self.len() as i64;
        self.push(0, 0, 0.0, [at, at], false);
        at
    }

    fn is_leaf(&self, node: usize) -> bool {
        self.is_true[node] == node as i64 && self.is_false[node] == node as i64
    }

    /// The levels of the deepest tree; nodes and features that are not there are errors.
    fn depth(&self, features: i64) -> Result<usize, Failure> {
        let count = self.len() as i64;
        for list in [&self.is_true, &self.is_false, &self.roots] {
            if let Some(node) = list.iter().find(|node| !(0..count).contains(node)) {
                wrong!("a tree leads to node {node}, and there are {count}");
            }
        }
        if let Some(feature) = self.features.iter().find(|feature| !(0..features).contains(feature)) {
            wrong!("a node asks for feature {feature}, and there are {features}");
        }
        let mut level: Vec<usize> = self.roots.iter().map(|&root| root as usize).collect();
        let mut seen = vec![usize::MAX; self.len()];
        for depth in 0..DEPTH_MAX {
            let mut next = Vec::new();
            for &node in level.iter().filter(|&&node| !self.is_leaf(node)) {
                for child in [self.is_true[node] as usize, self.is_false[node] as usize] {
                    if std::mem::replace(&mut seen[child], depth) != depth {
                        next.push(child);
                    }
                }
            }
            if next.is_empty() {
                return Ok(depth);
            }
            level = next;
        }
        wrong!("a tree has more than {DEPTH_MAX} levels, or its nodes lead in a circle")
    }

    /// The leaf of each tree that each row of x [rows, features] comes to: indices in the table, [rows, trees].
    pub(super) fn leaves(&self, x: &Tensor) -> Result<Tensor, Failure> {
        let Some(features) = x.dims()?.get(1).and_then(warpweft_compiler::ir::Dim::as_const) else {
            wrong!("the input is {}, and must be [rows, features]", x.dims()?);
        };
        if x.rank()? != 2 {
            wrong!("the input is {}, and must be [rows, features]", x.dims()?);
        }
        let depth = self.depth(features)?;
        let integers =
            |list: &[i64]| Tensor::from_vec(list.iter().map(|&value| value as i32).collect::<Vec<_>>(), [list.len()]);
        let asked = integers(&self.features);
        let (modes, is_true, is_false) = (integers(&self.modes), integers(&self.is_true), integers(&self.is_false));
        let splits = Tensor::from_vec(self.splits.clone(), [self.len()]).cast(x.dtype()?).contiguous();
        let missing = Tensor::from_vec(self.missing.clone(), [self.len()]);
        let used: Vec<i64> = (0..MODES.len() as i64).filter(|mode| self.modes.contains(mode)).collect();
        let mut node = integers(&self.roots).unsqueeze(0);
        node = node.expand(
            [x.dims()?[0].clone(), self.roots.len().into()].into_iter().collect::<warpweft_compiler::ir::Shape>(),
        );
        for _ in 0..depth {
            let of = |table: &Tensor| table.index(&[0], &[&node]);
            let (value, split, mode) = (x.gather(&of(&asked), 1).contiguous(), of(&splits), of(&modes));
            let holds = |mode: i64| match mode {
                0 => value.le(&split),
                1 => value.lt(&split),
                2 => value.ge(&split),
                3 => value.gt(&split),
                EQUAL => value.eq(&split),
                _ => value.ne(&split),
            };
            let first = holds(used.first().copied().unwrap_or(0));
            let mut found = used.iter().skip(1).fold(first, |found, &other| mode.eq(other).where_(holds(other), found));
            if self.missing.contains(&true) {
                found = found.logical_or(value.isnan().logical_and(of(&missing)));
            }
            node = found.where_(of(&is_true), of(&is_false)).contiguous();
        }
        Ok(node)
    }
}

/// What leaves give to targets, and what becomes of it over the trees.
pub(super) struct Targets {
    pub(super) count: usize,
    /// Of leaves by their index in the table of nodes: a target and a weight.
    pub(super) weights: Vec<(i64, i64, f64)>,
    pub(super) aggregate: Aggregate,
    pub(super) base: Vec<f64>,
}

/// How the trees become one.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Aggregate {
    Average,
    Sum,
    Min,
    Max,
}

impl Targets {
    /// [rows, targets] of [rows, trees] leaves.
    pub(super) fn of(&self, nodes: &Nodes, leaves: &Tensor, dtype: DType) -> Result<Tensor, Failure> {
        if nodes.len().saturating_mul(self.count) > LEAVES_MAX {
            wrong!("{} nodes of {} targets are more than {LEAVES_MAX} weights", nodes.len(), self.count);
        }
        let nothing = match (self.aggregate, dtype) {
            (Aggregate::Min, DType::F64) => f64::MAX,
            (Aggregate::Max, DType::F64) => f64::MIN,
            (Aggregate::Min, _) => f64::from(f32::MAX),
            (Aggregate::Max, _) => f64::from(f32::MIN),
            _ => 0.0,
        };
        let mut table = vec![nothing; nodes.len() * self.count];
        let mut is_set = vec![false; table.len()];
        for &(leaf, target, weight) in &self.weights {
            let (Ok(leaf), Ok(target)) = (usize::try_from(leaf), usize::try_from(target)) else {
                wrong!("leaf {leaf} has a weight of target {target}: neither may be negative");
            };
            if leaf >= nodes.len() || target >= self.count {
                wrong!(
                    "leaf {leaf} has a weight of target {target}: there are {} nodes and {} targets",
                    nodes.len(),
                    self.count
                );
            }
            let at = leaf * self.count + target;
            table[at] = if std::mem::replace(&mut is_set[at], true) { table[at] + weight } else { weight };
        }
        let table = Tensor::from_vec(table, [nodes.len(), self.count]).cast(dtype).contiguous();
        let all = table.index(&[0], &[leaves]);
        let total = match self.aggregate {
            Aggregate::Sum => all.sum(1),
            Aggregate::Average => all.sum(1) / nodes.roots.len().max(1) as f64,
            Aggregate::Min => all.min(1),
            Aggregate::Max => all.max(1),
        };
        Ok(match self.base.is_empty() {
            true => total,
            false => total + Tensor::from_vec(self.base.clone(), [self.base.len()]).cast(dtype),
        })
    }
}
