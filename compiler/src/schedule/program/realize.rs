//! What must exist in memory, and the program rewritten so that only that is left to decide.
//!
//! [`prepare`] removes what has no meaning for kernels (`detach`, `function`, a copy of what lies in memory in order already), takes
//! reshapes off stored values (row-major memory is the same under every shape), replaces values of no elements, and cuts big
//! reductions with few results in two stages, so that all threads have work. Long chains of movement ops become short ones
//! ([`Chains`]), so that what follows may walk them. After it, a node *must* be stored exactly if it is an
//! output or a `contiguous`; all else is left to the fusion heuristic (`fuse`).
//!
//! Always: every value keeps its elements. Linear in the size of the graph.

use rustc_hash::{FxHashMap, FxHashSet};

use super::for_lanes::for_lanes;
use super::two_stages::in_two_stages;
use crate::error::CompileError;
use crate::ir::{Arg, Axes, Combining, Op, Shape, UOp, postorder, with_mapped_sources};
use crate::target::Costs;
use crate::view::{ShapeTracker, ViewSpec, collect_movement_chain, movement_of};

/// The values to compute with nothing in them that a kernel could not say.
///
/// # Errors
/// For a `copy`: there is but one device in a schedule.
pub(in crate::schedule) fn prepare(
    values: &[UOp],
    stages: Option<&Costs>,
    mut origins: Option<&mut Origins>,
) -> Result<Vec<UOp>, CompileError> {
    let for_lanes = stages.and_then(|costs| for_lanes(values, costs));
    let values = for_lanes.as_ref().map_or(values, |replaced| &replaced.values);
    let mut done: FxHashMap<UOp, UOp> = FxHashMap::default();
    // Writes that are writes to memory of their own still, and did not become their value.
    let mut writing: FxHashSet<UOp> = FxHashSet::default();
    let mut chains = Chains::default();
    for node in postorder(values) {
        let mapped = with_mapped_sources(&node, |operand| &done[operand]);
        let new = match mapped.arg() {
            // It goes into a copy, in place.
            Arg::Scatter(..) if mapped.op() == Op::Fetch => fetch(&mapped),
            Arg::Scatter(..) if !has_no_elements(&mapped) && !has_no_elements(&mapped.src()[2]) => {
                let [base, index, source] = [0, 1, 2].map(|k| &mapped.src()[k]);
                let src = vec![base.contiguous(), source.clone(), index.clone()];
                UOp::new(Op::Write, mapped.dtype(), src, mapped.arg().clone())
            }
            Arg::Scatter(..) => mapped.src()[0].clone(),
            Arg::View(steps) if !has_no_elements(&mapped) => {
                let keeps_memory = names_memory(&node.src()[0], &writing);
                let (new, is_write) = write(keeps_memory, &mapped.src()[0], steps, &mapped.src()[1]);
                if is_write {
                    writing.insert(node.clone());
                }
                new
            }
            _ => chains.shortened(prepare_node(mapped, stages)?),
        };
        let origin = for_lanes.as_ref().map_or(Some(&node), |replaced| replaced.of_program.get(&node));
        if let (Some(origins), Some(origin)) = (&mut origins, origin) {
            origins.note(&new, origin);
        }
        done.insert(node, new);
    }
    Ok(values.iter().map(|value| stored_below(&done[value]).clone()).collect())
}

/// Which nodes of a program its prepared nodes stand for, and so what its kernels store.
#[derive(Default)]
pub(in crate::schedule) struct Origins {
    of_prepared: FxHashMap<UOp, UOp>,
    /// The nodes of the program that each kernel stores.
    pub(in crate::schedule) of_kernels: Vec<Vec<UOp>>,
}

impl Origins {
    fn note(&mut self, prepared: &UOp, node: &UOp) {
        for prepared in [prepared, without_reshapes(prepared)] {
            // The first is the nearest to what was written: later ones only move it.
            self.of_prepared.entry(prepared.clone()).or_insert_with(|| node.clone());
        }
    }

    /// Adds a kernel that stores these prepared nodes.
    pub(in crate::schedule) fn add_kernel<'n>(&mut self, stores: impl Iterator<Item = &'n UOp>) {
        let nodes = stores.filter_map(|prepared| self.nearest(prepared)).collect();
        self.of_kernels.push(nodes);
    }

    /// What a prepared node stands for; of one that was put between others, what it is made of.
    fn nearest(&self, prepared: &UOp) -> Option<UOp> {
        let mut node = prepared;
        loop {
            match self.of_prepared.get(node) {
                Some(found) => return Some(found.clone()),
                None => node = node.src().first()?,
            }
        }
    }
}

/// What is found is looked for in memory: each line of it is copied before anything is put there.
fn fetch(node: &UOp) -> UOp {
    let [x, index, source] = node.src() else { return node.clone() };
    if has_no_elements(x) || has_no_elements(source) {
        return filled(node, UOp::int(0, node.dtype()));
    }
    node.with_src([contiguous(x), index.clone(), source.clone()].to_vec())
}

/// Movement ops on top of each other that are left as the program wrote them.
const STEPS_MAX: usize = 8;

/// What the chain below each movement node does, so that a chain that has grown long can be written anew.
#[derive(Default)]
struct Chains {
    known: FxHashMap<UOp, Chain>,
}

/// What movement does between a node and its base.
#[derive(Clone)]
struct Chain {
    base: UOp,
    tracker: ShapeTracker,
    steps: usize,
}

impl Chains {
    /// A movement node with a chain below it that is not long.
    fn shortened(&mut self, node: UOp) -> UOp {
        if !node.op().is_movement() || self.known.contains_key(&node) {
            return node;
        }
        let below = &node.src()[0];
        let fresh =
            || Chain { base: below.clone(), tracker: ShapeTracker::from_shape(below.shape().clone()), steps: 0 };
        // Where a chain does not come to little, what lies below it counts as a base: so each step takes constant time.
        let below = match self.known.get(below) {
            Some(known) if known.tracker.views().len() < STEPS_MAX => known.clone(),
            _ => fresh(),
        };
        let tracker = below.tracker.apply(node.op(), node.arg());
        let mut chain = Chain { base: below.base, tracker, steps: below.steps + 1 };
        let mut new = node;
        if chain.steps > STEPS_MAX
            && let Some(short) = movement_of(&chain.base, &chain.tracker)
        {
            let steps = steps_above(&chain.base, &short);
            if steps < chain.steps {
                (new, chain.steps) = (short, steps);
            }
        }
        if new != chain.base {
            self.known.insert(new.clone(), chain);
        }
        new
    }
}

/// Movement ops from a base up to a node; those of a node that is not made of the base are counted down to its own.
fn steps_above(base: &UOp, node: &UOp) -> usize {
    let mut steps = 0;
    let mut node = node;
    while node != base && node.op().is_movement() {
        steps += 1;
        node = &node.src()[0];
    }
    steps
}

fn prepare_node(node: UOp, stages: Option<&Costs>) -> Result<UOp, CompileError> {
    if has_no_elements(&node) && node.op() != Op::Const && !node.src().is_empty() && node.op() != Op::Bind {
        return Ok(filled(&node, UOp::int(0, node.dtype())));
    }
    Ok(match (node.op(), node.arg()) {
        (Op::Detach | Op::Function, _) => node.src()[0].clone(),
        (Op::Contiguous, _) => contiguous(&node.src()[0]),
        (Op::Copy, Arg::Device(device)) => {
            return Err(CompileError::Unsupported { op: Op::Copy, dtype: node.dtype(), target: device.to_string() });
        }
        (Op::Reduce, Arg::Reduce(op, axes)) if has_no_elements(&node.src()[0]) => {
            let _ = axes;
            filled(&node, UOp::constant(op.identity(node.dtype()), node.dtype()))
        }
        (Op::Reduce, Arg::ReduceState(component, _)) if has_no_elements(&node.src()[0]) => {
            let identity = component.combiner.identity(component.number as usize, node.dtype());
            filled(&node, UOp::constant(identity, node.dtype()))
        }
        (Op::Reduce, Arg::ReduceState(component, axes)) => {
            let operand = &node.src()[component.number as usize];
            let is_real = |axis: &u8| !operand.shape()[*axis as usize].is(1);
            match axes.iter().any(is_real) {
                false => operand.reshape(node.shape().clone()),
                true => {
                    let combining = Combining::Several(*component);
                    stages.and_then(|costs| in_two_stages(node.src(), combining, axes, costs)).unwrap_or(node)
                }
            }
        }
        (Op::Reduce, Arg::Reduce(op, axes)) => {
            let operand = &node.src()[0];
            // Axes of length 1 are not reduced but dropped.
            let real: Axes = axes.iter().copied().filter(|&axis| !operand.shape()[axis as usize].is(1)).collect();
            if real.is_empty() {
                operand.reshape(node.shape().clone())
            } else if let Some(costs) = stages {
                in_two_stages(node.src(), Combining::One(*op), axes, costs).unwrap_or(node)
            } else {
                node
            }
        }
        (Op::Pad, _) if has_no_elements(&node.src()[0]) => filled(&node, UOp::int(0, node.dtype())),
        (Op::Gather, _) if has_no_elements(&node.src()[0]) => filled(&node, UOp::int(0, node.dtype())),
        (Op::Reshape, Arg::Shape(shape)) => without_reshapes(&node).reshape(shape.clone()),
        _ => node,
    })
}

fn has_no_elements(node: &UOp) -> bool {
    node.shape().iter().any(|dim| dim.is(0))
}

/// One value in the shape of a node.
fn filled(node: &UOp, value: UOp) -> UOp {
    let ones: Shape = node.shape().iter().map(|_| 1i64).collect();
    value.reshape(ones).expand(node.shape().clone())
}

/// The node below a chain of reshapes.
pub(super) fn without_reshapes(node: &UOp) -> &UOp {
    let mut node = node;
    while node.op() == Op::Reshape {
        node = &node.src()[0];
    }
    node
}

/// The node whose memory, read from its start, has the elements of a value of symbolic length; without reshapes of any other.
fn stored_below(value: &UOp) -> &UOp {
    let base = without_reshapes(value);
    match base.arg() {
        Arg::Bounds(bounds) if base.op() == Op::Shrink && !base.shape().is_concrete() && bounds.len() == 1 => {
            let memory = without_reshapes(&base.src()[0]);
            if bounds[0].0.is(0) && is_stored(memory) { memory } else { base }
        }
        _ => base,
    }
}

/// Whether a node that reshapes were taken off is memory, or is put into memory of its own.
fn is_stored(node: &UOp) -> bool {
    matches!(node.op(), Op::Param | Op::Buffer | Op::Contiguous | Op::Write)
}

/// Whether the base of a write is memory that the program means to be written to: a param, or the outcome of a write that is kept.
///
/// What a program says of a base that is anything else, as a `contiguous`, is that it shall have memory of its own.
fn names_memory(base: &UOp, writing: &FxHashSet<UOp>) -> bool {
    let mut named = base;
    while matches!(named.op(), Op::Reshape | Op::Shrink) {
        named = &named.src()[0];
    }
    matches!(named.op(), Op::Param | Op::Buffer) || writing.contains(named)
}

/// A write as a write to memory: to that of the prepared base if it `keeps` it, and else to memory into which the base is computed; and whether
/// it still is one.
fn write(keeps: bool, base: &UOp, steps: &[(Op, Arg)], value: &UOp) -> (UOp, bool) {
    if has_no_elements(value) {
        return (base.clone(), keeps);
    }
    if let Some((within, part)) = part_replaced(base, steps, value) {
        let steps: Vec<(Op, Arg)> = steps.iter().chain(within).cloned().collect();
        return write(keeps, base, &steps, part);
    }
    if keeps {
        let (memory, chain) = collect_movement_chain(base);
        let chain: Vec<(Op, Arg)> = chain.iter().map(|step| (step.op(), step.arg().clone())).collect();
        let steps: Vec<(Op, Arg)> = chain.iter().chain(steps).cloned().collect();
        return (memory.write(&steps, value).through(&chain), true);
    }
    if steps.is_empty() {
        return (value.clone(), false);
    }
    let below = without_reshapes(base);
    let own = if below.op() == Op::Contiguous { below.clone() } else { below.contiguous() };
    let reshape = (own.shape() != base.shape()).then(|| (Op::Reshape, Arg::Shape(base.shape().clone())));
    let steps: Vec<(Op, Arg)> = reshape.into_iter().chain(steps.iter().cloned()).collect();
    (own.write(&steps, value).reshape(base.shape().clone()), true)
}

/// The steps and the value of a write to a copy of what another write is about to replace, if its outcome is what that puts there: then one write does both.
///
/// ```text
/// x[2:9] = y, where y is a copy of x[2:9] with y[1:3] = v        x[2:9][1:3] = v
/// ```
fn part_replaced<'n>(base: &UOp, steps: &[(Op, Arg)], value: &'n UOp) -> Option<(&'n [(Op, Arg)], &'n UOp)> {
    let (Op::Write, Arg::View(within), [copy, part]) = (value.op(), value.arg(), value.src()) else { return None };
    let copied = copy.src().first().filter(|_| copy.op() == Op::Contiguous)?;
    let is_of = |base: &UOp| {
        let replaced = base.through(steps);
        let is_same_view = || {
            let of_one = collect_movement_chain(copied).0 == collect_movement_chain(&replaced).0;
            of_one && ViewSpec::of_node(copied).is_some_and(|copied| Some(copied) == ViewSpec::of_node(&replaced))
        };
        *copied == replaced || is_same_view()
    };
    (is_of(base) || base.op() == Op::Contiguous && is_of(&base.src()[0])).then_some((within, part))
}

/// The value stored in row-major order; itself if it is.
fn contiguous(value: &UOp) -> UOp {
    let base = without_reshapes(value);
    let stored = is_stored(base) && base.shape().numel() == value.shape().numel();
    if stored { value.clone() } else { base.contiguous().reshape(value.shape().clone()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;
    use crate::ir::ReduceOp;

    fn param(len: u64) -> UOp {
        UOp::param(0, DType::F32, len)
    }

    fn one(value: &UOp) -> UOp {
        prepare(std::slice::from_ref(value), Some(&Costs::cpu()), None).unwrap().remove(0)
    }

    #[test]
    fn what_lies_in_memory_is_not_copied() {
        let x = param(6).reshape([2, 3]);
        assert_eq!(one(&x.contiguous().reshape([6]).contiguous().detach()), param(6));
        let moved = x.permute(&[1, 0]);
        assert_eq!(one(&moved.contiguous().reshape([6]).contiguous()), moved.contiguous());
    }

    #[test]
    fn values_of_no_elements_become_constants() {
        let empty = param(0).reshape([2, 0]);
        let sum = one(&empty.reduce(ReduceOp::Add, &[1]));
        assert_eq!(sum, UOp::int(0, DType::F32).reshape([1]).expand([2]));
        let product = one(&empty.exp2().reduce(ReduceOp::Mul, &[1]));
        assert_eq!(product, UOp::int(1, DType::F32).reshape([1]).expand([2]));
    }
}
