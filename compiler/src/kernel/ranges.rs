//! Facts about loops in kernel form: which ranges a value depends on, and substitution of ranges.
//!
//! A *loop end* is a reduction or store: it names ranges that end with it. A value *depends on* a range if it names the range, directly or
//! below, and nothing between has closed it; a loop end also on what the lengths of its ranges name. Every transformation of loops in this crate is one call of [`substitute_ranges`].

use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};
use smallvec::SmallVec;

use crate::ir::{Arg, Combining, Op, Sources, UOp, postorder, postorder_until};
use crate::symbolic::linear_terms;

/// A set of range numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RangeSet(SmallVec<[u64; 2]>);

impl RangeSet {
    /// Adds one.
    pub fn insert(&mut self, id: u32) {
        let word = id as usize / 64;
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << (id % 64);
    }

    /// Takes one out.
    pub fn remove(&mut self, id: u32) {
        if let Some(word) = self.0.get_mut(id as usize / 64) {
            *word &= !(1 << (id % 64));
        }
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }

    /// Whether it has that one.
    pub fn contains(&self, id: u32) -> bool {
        self.0.get(id as usize / 64).is_some_and(|word| word >> (id % 64) & 1 == 1)
    }

    /// Adds all of another set.
    pub fn union_with(&mut self, other: &RangeSet) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (word, more) in self.0.iter_mut().zip(&other.0) {
            *word |= more;
        }
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// The numbers, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().enumerate().flat_map(|(word, bits)| {
            let bits = *bits;
            (0..64u32).filter(move |bit| bits >> bit & 1 == 1).map(move |bit| word as u32 * 64 + bit)
        })
    }
}

/// The number of a range.
///
/// # Panics
/// If the node is no range.
pub fn range_id(range: &UOp) -> u32 {
    range.as_range().map(|range| range.id).unwrap_or_else(|| panic!("bug in the compiler: {range:?} is no range"))
}

/// Whether it ends ranges.
pub fn is_loop_end(node: &UOp) -> bool {
    matches!(node.op(), Op::ReduceRange | Op::Store)
}

/// The loop ends among a kernel's nodes that are none of its own stores: reductions, and stores into scratch.
pub fn inner_loop_ends<'n>(order: &'n [UOp], root: &UOp) -> impl DoubleEndedIterator<Item = &'n UOp> + use<'n> {
    let stores: FxHashSet<UOp> = root.src().iter().cloned().collect();
    order.iter().filter(move |node| is_loop_end(node) && !stores.contains(*node))
}

/// The ranges that a loop end ends, outermost first.
pub fn closed_ranges(loop_end: &UOp) -> &[UOp] {
    match loop_end.op() {
        Op::ReduceRange => &loop_end.src()[loop_end.arg().values_of_reduction()..],
        // Behind the value stands what must be loaded before (`effects`), then the ranges.
        Op::Store => {
            let waits = loop_end.src()[2..].iter().take_while(|operand| operand.op() != Op::Range).count();
            &loop_end.src()[2 + waits..]
        }
        _ => &[],
    }
}

/// Whether a reduction gives one more component of a state that has been met, and so is no loop of its own.
pub fn is_further_component<'k>(reduction: &'k UOp, states: &mut FxHashSet<&'k [UOp]>) -> bool {
    matches!(reduction.arg(), Arg::CombineState(_)) && !states.insert(reduction.src())
}

/// The operands of a node that are not ranges which it closes.
pub fn open_operands(node: &UOp) -> &[UOp] {
    &node.src()[..node.src().len() - closed_ranges(node).len()]
}

/// What each node below a root depends on.
pub struct Dependencies {
    /// Every node, operands first.
    pub order: Vec<UOp>,
    sets: FxHashMap<UOp, RangeSet>,
}

impl Dependencies {
    /// Of every node below `root`.
    pub fn of(root: &UOp) -> Dependencies {
        let order = postorder(std::slice::from_ref(root));
        let sets = FxHashMap::with_capacity_and_hasher(order.len(), FxBuildHasher);
        let mut dependencies = Dependencies { order: Vec::new(), sets };
        order.iter().for_each(|node| dependencies.add(node));
        Dependencies { order, ..dependencies }
    }

    /// Of every node below another root, too.
    pub fn extend(&mut self, root: &UOp) {
        for node in postorder_until(std::slice::from_ref(root), |node| self.sets.contains_key(node)) {
            if !self.sets.contains_key(&node) {
                self.add(&node);
                self.order.push(node);
            }
        }
    }

    /// Of a node whose operands are known.
    fn add(&mut self, node: &UOp) {
        let mut set = RangeSet::default();
        for operand in open_operands(node) {
            set.union_with(&self.sets[operand]);
        }
        if node.op() == Op::Range {
            set.insert(range_id(node));
        }
        // The length of a loop may name loops around it.
        for range in closed_ranges(node) {
            set.union_with(&self.sets[&range.src()[0]]);
        }
        for range in closed_ranges(node) {
            set.remove(range_id(range));
        }
        self.sets.insert(node.clone(), set);
    }

    /// Of one node.
    pub fn get(&self, node: &UOp) -> &RangeSet {
        &self.sets[node]
    }
}

/// By how much an address grows along a range, if it grows by a constant along each of its ranges. It may begin anywhere, as a view does whose offset is a variable.
///
/// ```text
/// (r0 * 64) + r1 + offset      along r0: 64, along r1: 1, along r2: 0
/// (r0 * 64) + (r1 / 2)         None
/// ```
pub(crate) fn even_step(address: &UOp, range: &UOp) -> Option<i64> {
    let terms = linear_terms(address).0;
    let is_fixed = |node: &UOp| !matches!(node.op(), Op::Range | Op::Load);
    let is_even = terms
        .iter()
        .all(|(term, _)| term.op() == Op::Range || postorder(std::slice::from_ref(term)).iter().all(is_fixed));
    is_even.then(|| terms.iter().filter(|(term, _)| term == range).map(|(_, step)| step).sum())
}

/// Every range below a root, in order of first use.
pub fn all_ranges(root: &UOp) -> Vec<UOp> {
    postorder(std::slice::from_ref(root)).into_iter().filter(|node| node.op() == Op::Range).collect()
}

/// A number that no range below `root` has.
pub fn next_range_id(root: &UOp) -> u32 {
    all_ranges(root).iter().map(|range| range_id(range) + 1).max().unwrap_or(0)
}

/// What a range becomes: its value as an expression, and the ranges that take its place in loop ends.
pub struct NewRanges {
    /// The value that stood for the range's.
    pub value: UOp,
    /// The ranges to close instead, outermost first.
    pub ranges: SmallVec<[UOp; 3]>,
}

/// The kernel with ranges exchanged, in values and in loop ends alike. A reduction that closes no range any more is its value.
pub fn substitute_ranges(root: &UOp, map: &FxHashMap<UOp, NewRanges>) -> UOp {
    let order = postorder(std::slice::from_ref(root));
    let mut done: FxHashMap<UOp, UOp> = FxHashMap::with_capacity_and_hasher(order.len(), FxBuildHasher);
    for node in order {
        let new = if let Some(new) = map.get(&node) {
            new.value.clone()
        } else if is_loop_end(&node) {
            let mut src: Sources = open_operands(&node).iter().map(|operand| done[operand].clone()).collect();
            for range in closed_ranges(&node) {
                match map.get(range) {
                    Some(new) => src.extend(new.ranges.iter().cloned()),
                    None => src.push(done[range].clone()),
                }
            }
            match node.op() {
                // Of states, the component that is given.
                Op::ReduceRange if src.len() == node.arg().values_of_reduction() => {
                    src[Combining::of(&node).map_or(0, Combining::number)].clone()
                }
                _ => node.with_src(src),
            }
        } else {
            crate::ir::with_mapped_sources(&node, |operand| &done[operand])
        };
        done.insert(node, new);
    }
    done.remove(root).unwrap_or_else(|| root.clone())
}
