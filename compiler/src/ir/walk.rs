//! The two traversals that everybody uses, without recursion: operands before users, and rebuilding with replacements.

use std::borrow::Cow;
use std::cell::RefCell;

use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};

use super::dim::Dim;
use super::uop::{Sources, UOp};

/// Nodes that walks make room for before they know how many there are: those of a small kernel, so that lists do not grow again and again.
const NODES_EXPECTED: usize = 56;
/// A table of so many places is kept for the next walk. Emptying a larger one would cost small walks more than making one.
const PLACES_KEPT: usize = 1024;

thread_local! {
    /// The table of the last walk of this thread, empty.
    static SEEN: RefCell<FxHashSet<usize>> = RefCell::default();
}

/// Every node below `roots` once, each after its operands. The order depends on the graph alone.
pub fn postorder(roots: &[UOp]) -> Vec<UOp> {
    postorder_until(roots, |_| false)
}

/// As [`postorder`], but nodes for which `stop` holds are listed without what is below them.
pub fn postorder_until(roots: &[UOp], stop: impl Fn(&UOp) -> bool) -> Vec<UOp> {
    let mut order = Vec::with_capacity(NODES_EXPECTED);
    // By identity: the roots keep all of them alive. Most of what passes do is walking, so tables are made once per thread.
    let mut seen = SEEN.take();
    // The path to the node at hand, each with the operands that are still to be visited. Nothing is counted or copied on the way.
    let mut path: Vec<(&UOp, std::slice::Iter<'_, UOp>)> = Vec::new();
    for root in roots {
        let mut next = Some(root);
        while let Some(node) = next {
            if seen.insert(node.identity()) {
                let below = if stop(node) { [].iter() } else { node.src().iter() };
                path.push((node, below));
            }
            next = following(&mut path, &mut order);
        }
    }
    if seen.capacity() <= PLACES_KEPT {
        seen.clear();
        SEEN.replace(seen);
    }
    order
}

/// The next operand to visit, after listing the nodes that have none left.
fn following<'n>(path: &mut Vec<(&'n UOp, std::slice::Iter<'n, UOp>)>, order: &mut Vec<UOp>) -> Option<&'n UOp> {
    while let Some((node, below)) = path.last_mut() {
        if let Some(operand) = below.next() {
            return Some(operand);
        }
        order.push(node.clone());
        path.pop();
    }
    None
}

/// The graph rebuilt bottom-up: `replace` sees each node with its operands already replaced and may give another.
pub fn rebuild(root: &UOp, mut replace: impl FnMut(&UOp, UOp) -> UOp) -> UOp {
    let order = postorder(std::slice::from_ref(root));
    let mut done: FxHashMap<UOp, UOp> = FxHashMap::with_capacity_and_hasher(order.len(), FxBuildHasher);
    for node in order {
        let new = replace(&node, with_mapped_sources(&node, |operand| &done[operand]));
        done.insert(node, new);
    }
    done.remove(root).unwrap_or_else(|| root.clone())
}

/// The node over mapped operands; itself if none changed.
pub fn with_mapped_sources<'n>(node: &'n UOp, map: impl Fn(&'n UOp) -> &'n UOp) -> UOp {
    if node.src().iter().all(|operand| map(operand) == operand) {
        return node.clone();
    }
    node.with_src(node.src().iter().map(|operand| map(operand).clone()).collect::<Sources>())
}

/// The graph with nodes exchanged, in operands and in symbolic dims alike. What replaces a node is not searched again.
pub fn substitute(root: &UOp, map: &FxHashMap<UOp, UOp>) -> UOp {
    Substitution { exchanged: Cow::Borrowed(map), done: FxHashMap::default() }.apply(root)
}

/// As [`substitute`], and what replaces a node is searched for nodes further down: each is exchanged wherever it stands.
pub fn substitute_nested(root: &UOp, map: &FxHashMap<UOp, UOp>) -> UOp {
    let mut substitution = Substitution { exchanged: Cow::Owned(FxHashMap::default()), done: FxHashMap::default() };
    for node in postorder(std::slice::from_ref(root)) {
        if let Some(new) = map.get(&node) {
            let new = substitution.apply(new);
            substitution.exchanged.to_mut().insert(node, new);
        }
    }
    substitution.apply(root)
}

/// An exchange of nodes in several graphs: what they share is rebuilt once.
#[derive(Debug)]
pub struct Substitution<'m> {
    exchanged: Cow<'m, FxHashMap<UOp, UOp>>,
    /// What each other node has become.
    done: FxHashMap<UOp, UOp>,
}

impl Substitution<'_> {
    /// The exchange of one node for another.
    pub fn of(node: UOp, new: UOp) -> Substitution<'static> {
        let exchanged = Cow::Owned(FxHashMap::from_iter([(node, new)]));
        Substitution { exchanged, done: FxHashMap::default() }
    }

    /// As [`substitute`].
    pub fn apply(&mut self, root: &UOp) -> UOp {
        self.apply_to(root, |_| true)
    }

    /// As [`substitute`], where nothing is exchanged below nodes that `is_affected` denies.
    pub fn apply_to(&mut self, root: &UOp, is_affected: impl Fn(&UOp) -> bool) -> UOp {
        let is_done = |this: &Self, node: &UOp| this.known(node).is_some() || !is_affected(node);
        for node in postorder_until(std::slice::from_ref(root), |node| is_done(self, node)) {
            if is_done(self, &node) {
                continue;
            }
            let mut changed = false;
            let arg = node.arg().map_dims(&mut |dim| match dim {
                Dim::Const(_) => dim.clone(),
                // A dim is a small expression of its own; it nests no deeper than shapes do.
                Dim::Expr(expr) => {
                    let new = Dim::from(self.apply(expr));
                    changed |= new != *dim;
                    new
                }
            });
            let src: Sources =
                node.src().iter().map(|operand| self.known(operand).unwrap_or(operand).clone()).collect();
            let is_same = !changed && src[..] == *node.src();
            let new = if is_same { node.clone() } else { UOp::new(node.op(), node.dtype(), src, arg) };
            self.done.insert(node, new);
        }
        self.known(root).unwrap_or(root).clone()
    }

    fn known(&self, node: &UOp) -> Option<&UOp> {
        self.exchanged.get(node).or_else(|| self.done.get(node))
    }
}
