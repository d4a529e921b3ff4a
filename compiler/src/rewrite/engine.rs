//! The engine: replaces parts of a graph until no rule applies.
//!
//! Nodes are visited operands first. Each is rebuilt over its rewritten operands and offered to the rule sets in order; a
//! replacement is visited in turn, so the result is a fixed point. Results are remembered per node, so shared parts are rewritten
//! once and time is linear in nodes plus hits. There is no recursion. Running out of the budget is an answer, not a hang: it names
//! the rule that hit most. Who can do with less goes on ([`rewrite_gradually`]): what was rewritten stays, and each node that follows has a
//! small budget of its own, behind which only rules that end by themselves are tried.
//!
//! Tests: the unit tests below; every rule set is checked against the interpreter by properties.

use std::cell::RefCell;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::rules::RuleSet;
use crate::ir::{Arg, Dim, UOp, with_mapped_sources};

/// Why a rewrite stopped before nothing was left to do: a bug in a rule set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("rewriting did not end within {limit} hits; the hottest rule is {hottest_rule} with {hottest_hits} hits")]
pub struct HitLimit {
    /// The budget that ran out.
    pub limit: usize,
    /// The rule that hit most often.
    pub hottest_rule: &'static str,
    /// How often.
    pub hottest_hits: usize,
}

/// Hears of each hit; for traces and for the `; hits:` lines of filetests.
pub trait HitListener {
    /// `rule` of `set` replaced `before` by `after`.
    fn hit(&mut self, set: &'static str, rule: &'static str, before: &UOp, after: &UOp);
}

impl HitListener for () {
    fn hit(&mut self, _: &'static str, _: &'static str, _: &UOp, _: &UOp) {}
}

/// Collects the names of the rules that hit, in order.
impl HitListener for Vec<&'static str> {
    fn hit(&mut self, _: &'static str, rule: &'static str, _: &UOp, _: &UOp) {
        self.push(rule);
    }
}

/// Rewrites to a fixed point.
///
/// # Errors
/// [`HitLimit`] if the rules do not come to an end.
pub fn rewrite(root: &UOp, sets: &[&RuleSet]) -> Result<UOp, HitLimit> {
    rewrite_with(root, sets, &mut ())
}

/// As [`rewrite`], telling a listener of each hit.
///
/// # Errors
/// [`HitLimit`] if the rules do not come to an end.
pub fn rewrite_with(root: &UOp, sets: &[&RuleSet], listener: &mut dyn HitListener) -> Result<UOp, HitLimit> {
    Rewriter::new(sets).run(root, listener)
}

/// Rewrites as far as the budget goes: nodes for which `is_leaf` holds stay as they are, with all that is below them. Behind the budget a
/// node may be rewritten `HITS_BEHIND_BUDGET` times by all sets, then by `ending` alone, whose every hit must leave fewer nodes.
///
/// `settled` hears of each node that came out as it went in, unless the limit was passed, and `is_leaf` may then hold for it.
///
/// Gives what came out, and the limit if it was passed: a bug in a rule set, with a result that is right all the same.
pub fn rewrite_gradually(
    root: &UOp,
    sets: &[&RuleSet],
    ending: &RuleSet,
    is_leaf: fn(&UOp) -> bool,
    settled: fn(&UOp),
) -> (UOp, Option<HitLimit>) {
    let mut rewriter = Rewriter::new(sets);
    (rewriter.is_leaf, rewriter.settled, rewriter.ending) = (is_leaf, settled, Some(ending));
    match rewriter.run(root, &mut ()) {
        Ok(new) => (new, rewriter.passed.take()),
        Err(limit) => (root.clone(), Some(limit)),
    }
}

/// Hits that the rewriting of one node and of all that comes of it may take once the budget of the whole has run out.
const HITS_BEHIND_BUDGET: usize = 256;

/// A table of results of so many places is kept for the next rewrite. Emptying a larger one would cost small rewrites more than making one.
const PLACES_KEPT: usize = 1024;

thread_local! {
    /// The table of the last rewrite of this thread, empty: passes rewrite many small expressions.
    static DONE: RefCell<FxHashMap<UOp, UOp>> = RefCell::default();
}

/// A rewrite in progress, which remembers results: several roots may be rewritten after one another.
pub struct Rewriter<'s> {
    sets: SmallVec<[&'s RuleSet; 8]>,
    done: FxHashMap<UOp, UOp>,
    /// Nodes that have become something, or stayed.
    visited: usize,
    hits: FxHashMap<&'static str, usize>,
    hit_count: usize,
    hits_per_node_max: usize,
    is_leaf: fn(&UOp) -> bool,
    /// Told of nodes that stay as they are.
    settled: fn(&UOp),
    /// What is tried behind the budget, if that is not the end.
    ending: Option<&'s RuleSet>,
    /// The limit, once it was passed.
    passed: Option<HitLimit>,
    /// Replacements that are being rewritten inside of each other, and the hits since there was none.
    open: usize,
    hits_open: usize,
}

enum Step {
    /// Visit the operands, then `Rebuild`.
    Visit(UOp),
    /// Operands are done: rebuild and offer to the rules.
    Rebuild(UOp),
    /// The second node is rewritten: so is the first, to the same.
    Link(UOp, UOp),
}

impl<'s> Rewriter<'s> {
    /// A rewriter by these sets, tried in order.
    pub fn new(sets: &[&'s RuleSet]) -> Rewriter<'s> {
        Rewriter {
            sets: sets.iter().copied().collect(),
            done: DONE.try_with(RefCell::take).unwrap_or_default(),
            visited: 0,
            hits: FxHashMap::default(),
            hit_count: 0,
            hits_per_node_max: 64,
            is_leaf: |_| false,
            settled: |_| (),
            ending: None,
            passed: None,
            open: 0,
            hits_open: 0,
        }
    }

    /// Rewrites one root.
    ///
    /// # Errors
    /// [`HitLimit`] if the rules do not come to an end.
    pub fn run(&mut self, root: &UOp, listener: &mut dyn HitListener) -> Result<UOp, HitLimit> {
        let mut stack = vec![Step::Visit(root.clone())];
        while let Some(step) = stack.pop() {
            match step {
                Step::Visit(node) => {
                    if self.result(&node).is_some() {
                        continue;
                    }
                    let below: SmallVec<[UOp; 4]> =
                        node.src().iter().filter(|operand| self.result(operand).is_none()).cloned().collect();
                    stack.push(Step::Rebuild(node));
                    stack.extend(below.into_iter().rev().map(Step::Visit));
                }
                Step::Rebuild(node) => {
                    if self.result(&node).is_some() {
                        continue;
                    }
                    let rebuilt = self.rebuild(&node);
                    if rebuilt != node {
                        // The rebuilt node may be one that was rewritten before.
                        self.open += 1;
                        stack.push(Step::Link(node, rebuilt.clone()));
                        stack.push(Step::Visit(rebuilt));
                        continue;
                    }
                    match self.apply(&node, listener)? {
                        Some(new) => {
                            self.open += 1;
                            stack.push(Step::Link(node, new.clone()));
                            stack.push(Step::Visit(new));
                        }
                        None => {
                            if self.passed.is_none() {
                                (self.settled)(&node);
                            }
                            self.visited += 1;
                            if !(self.is_leaf)(&node) {
                                self.done.insert(node.clone(), node);
                            }
                        }
                    }
                }
                Step::Link(node, new) => {
                    let result = self.known(&new).clone();
                    self.visited += 1;
                    self.done.insert(node, result);
                    self.open -= 1;
                    if self.open == 0 {
                        self.hits_open = 0;
                    }
                }
            }
        }
        Ok(self.known(root).clone())
    }

    /// What a node has become: leaves, and what is as good as one by now, stay and are not noted.
    fn result<'n>(&'n self, node: &'n UOp) -> Option<&'n UOp> {
        if (self.is_leaf)(node) { Some(node) } else { self.done.get(node) }
    }

    /// What a node has become that was visited.
    fn known<'n>(&'n self, node: &'n UOp) -> &'n UOp {
        self.result(node).unwrap_or_else(|| panic!("bug in the compiler: {node:?} was not visited"))
    }

    fn rebuild(&self, node: &UOp) -> UOp {
        with_mapped_sources(node, |operand| self.known(operand))
    }

    fn apply(&mut self, node: &UOp, listener: &mut dyn HitListener) -> Result<Option<UOp>, HitLimit> {
        let limit = 10_000 + self.hits_per_node_max * self.visited;
        if self.hit_count > limit {
            if self.passed.is_none() {
                self.passed = Some(self.hit_limit(limit));
            }
            if self.hits_open > HITS_BEHIND_BUDGET {
                let Some(ending) = self.ending else { return Err(self.hit_limit(limit)) };
                return Ok(ending.apply(node).map(|(_, new)| new));
            }
        }
        for number in 0..self.sets.len() {
            let set = self.sets[number];
            if let Some((rule, new)) = set.apply(node) {
                listener.hit(set.name(), rule, node, &new);
                self.hit_count += 1;
                self.hits_open += 1;
                *self.hits.entry(rule).or_default() += 1;
                return Ok(Some(new));
            }
        }
        Ok(None)
    }

    fn hit_limit(&self, limit: usize) -> HitLimit {
        let mut counts: Vec<(&'static str, usize)> = self.hits.iter().map(|(rule, count)| (*rule, *count)).collect();
        counts.sort_by_key(|(rule, count)| (std::cmp::Reverse(*count), *rule));
        let (hottest_rule, hottest_hits) = counts.first().copied().unwrap_or(("none", 0));
        HitLimit { limit, hottest_rule, hottest_hits }
    }
}

impl Drop for Rewriter<'_> {
    fn drop(&mut self) {
        if self.done.capacity() <= PLACES_KEPT {
            self.done.clear();
            let done = std::mem::take(&mut self.done);
            // A thread that is ending has no table any more.
            let _ = DONE.try_with(|kept| kept.replace(done));
        }
    }
}

/// The symbolic dims of a node's argument, rewritten by the same rules.
///
/// # Errors
/// [`HitLimit`] if the rules do not come to an end.
pub fn rewrite_dims(arg: &Arg, sets: &[&RuleSet]) -> Result<Arg, HitLimit> {
    let mut failed = None;
    let new = arg.map_dims(&mut |dim| match dim {
        Dim::Const(_) => dim.clone(),
        Dim::Expr(expr) => match rewrite(expr, sets) {
            Ok(expr) => Dim::from(expr),
            Err(limit) => {
                failed = Some(limit);
                dim.clone()
            }
        },
    });
    failed.map_or(Ok(new), Err)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules;

    rules! {
        /// Enough to test the engine.
        TEST |root| for root.dtype().is_index() =>
        "add-zero":   [x]         x + 0             => x;
        "add-consts": [x, c1, c2] (x + c1) + c2     => x + (c1 + c2);
        "join":       [x, c]      x.idiv(c) * c + x.modulo(c) => x, if c.min_value() > 0;
    }

    rules! {
        /// Two rules that undo each other.
        LOOPING |root| for root.dtype().is_index() =>
        "there": [x] x + 1 => x + 2;
        "back":  [x] x + 2 => x + 1;
    }

    #[test]
    fn rules_apply_until_none_does() {
        let x = UOp::variable("x", 0, 63);
        let mut hits: Vec<&'static str> = Vec::new();
        let sum = ((&x + 3) + -3) + 0;
        assert_eq!(rewrite_with(&sum, &[&TEST], &mut hits).unwrap(), x);
        assert_eq!(hits, ["add-consts", "add-zero"]);
    }

    #[test]
    fn commutative_patterns_match_in_either_order() {
        let x = UOp::variable("x", 0, 63);
        let joined = x.modulo(8) + 8 * x.idiv(8);
        assert_eq!(rewrite(&joined, &[&TEST]).unwrap(), x);
    }

    #[test]
    fn rules_that_loop_end_in_a_report() {
        let x = UOp::variable("x", 0, 63);
        let error = rewrite(&(&x + 1), &[&LOOPING]).unwrap_err();
        assert!(["there", "back"].contains(&error.hottest_rule), "{error}");
    }

    #[test]
    fn behind_the_budget_the_rest_is_rewritten_all_the_same() {
        let x = UOp::variable("x", 0, 63);
        // Two sums that never end, in one graph with sums that do.
        let endless = [&x + 1, x.modulo(7) + 1];
        let chains = (3..40).map(|number| ((&x + number) + -number).max(number));
        let whole = UOp::sink(endless.iter().cloned().chain(chains));
        let (new, limit) = rewrite_gradually(&whole, &[&TEST, &LOOPING], &TEST, |_| false, |_| ());
        assert!(["there", "back"].contains(&limit.unwrap().hottest_rule));
        for (sum, new) in endless.iter().zip(new.src()) {
            assert!([sum.clone(), &sum.src()[0] + 2].contains(new), "{}", new.infix());
        }
        for (number, new) in (3..40).zip(&new.src()[2..]) {
            assert_eq!(*new, x.max(number));
        }
        assert_eq!(rewrite_gradually(&(&x + 0), &[&TEST], &TEST, |_| false, |_| ()), (x, None));
    }

    #[test]
    fn a_long_chain_is_rewritten_in_linear_time() {
        let mut node = UOp::variable("rewritten_chain", 0, 9);
        for _ in 0..50_000 {
            node = (&node + 0).max(3);
        }
        let result = rewrite(&node, &[&TEST]).unwrap();
        assert_eq!(crate::ir::postorder(&[result]).len(), 50_002);
    }
}
