//! What the sums of one expression have in common, for `final_form`.

use std::cmp::Reverse;

use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::compare::canonical_less;
use super::div_mod::{as_quotient, as_remainder};
use super::final_form::own_cost;
use super::terms::{Sum, is_linear, is_long};
use crate::ir::{Op, UOp, postorder, substitute, with_mapped_sources};

/// So many sums are all compared with each other. Of more, as many of those that are used most as make as many comparisons.
const COMPARED_SUMS_MAX: usize = 96;

/// Sums that are added to the table because two others have them in common.
const COMMON_PARTS_MAX: usize = 16;

/// So often a quotient may take terms back in an expression of at most so many nodes. Each time is a walk: in a larger one as often as
/// takes as many steps.
const MERGES_MAX: usize = 32;
const MERGED_NODES_MAX: usize = 2_000;

/// Of how many things each of so many may be compared with.
fn compared_with(count: usize) -> usize {
    if count <= COMPARED_SUMS_MAX { COMPARED_SUMS_MAX } else { COMPARED_SUMS_MAX * COMPARED_SUMS_MAX / count }
}

/// The sums that an expression computes, smaller ones first.
#[derive(Default)]
pub(super) struct SumTable {
    /// Each with its canonical node.
    sums: Vec<(UOp, Sum)>,
    /// The [`size`] of each of them, once they are ordered by it.
    sizes: Vec<Size>,
    /// Linear nodes that are only parts of longer sums.
    parts: FxHashSet<UOp>,
    /// How many nodes that are no sums use each node.
    uses: FxHashMap<UOp, usize>,
    /// In how many sums each atom stands.
    in_sums: FxHashMap<UOp, usize>,
}

impl SumTable {
    /// The table of an expression of these nodes, with what its sums have in common; of very many, those that are used most.
    pub(super) fn of(root: &UOp, nodes: &[UOp]) -> SumTable {
        let mut table = SumTable::of_nodes(root, nodes);
        let most = compared_with(table.sums.len());
        if table.sums.len() > most {
            let uses = &table.uses;
            table.sums.sort_by_key(|(node, _)| Reverse(uses.get(node).copied().unwrap_or(0)));
            table.sums.truncate(most);
        }
        table.add_common_parts();
        table.sums.sort_by_cached_key(|(node, sum)| size(node, sum));
        table.sizes = table.sums.iter().map(|(node, sum)| size(node, sum)).collect();
        table
    }

    /// The sums alone, in the order of the nodes.
    fn of_nodes(root: &UOp, nodes: &[UOp]) -> SumTable {
        let uses = FxHashMap::with_capacity_and_hasher(nodes.len(), FxBuildHasher);
        let mut table = SumTable { uses, ..SumTable::default() };
        table.uses.insert(root.clone(), 1);
        for node in nodes.iter().filter(|node| !is_linear(node)) {
            for operand in node.src() {
                *table.uses.entry(operand.clone()).or_insert(0) += 1;
            }
        }
        for node in nodes.iter().filter(|node| is_linear(node)) {
            if !table.uses.contains_key(node) {
                table.parts.insert(node.clone());
            } else if !is_long(node) {
                let (canonical, sum) = Sum::with_canonical_node(node);
                for (atom, _) in &sum.terms {
                    *table.in_sums.entry(atom.clone()).or_insert(0) += 1;
                }
                table.sums.push((canonical, sum));
            }
        }
        table
    }

    /// Whether a linear node is only part of longer sums.
    pub(super) fn is_part(&self, node: &UOp) -> bool {
        self.parts.contains(node)
    }

    /// Whether more than one node uses a sum.
    pub(super) fn is_shared(&self, node: &UOp) -> bool {
        self.uses.get(node).is_some_and(|uses| *uses > 1)
    }

    /// How many sums and other nodes use an atom.
    pub(super) fn uses_of_atom(&self, atom: &UOp) -> usize {
        self.in_sums.get(atom).copied().unwrap_or(0) + self.uses.get(atom).copied().unwrap_or(0)
    }

    /// A smaller sum of the table that makes `rest`, which is what is left of the sum `whole`, cheapest: the sum, how often it is
    /// taken, and what is left then. `parts` have been taken out already.
    pub(super) fn best_part(&self, whole: &UOp, rest: &Sum, parts: usize) -> Option<(Sum, i64, Sum)> {
        let own = self.sums.iter().position(|(node, _)| node == whole);
        let smaller = match own {
            Some(own) => self.sizes.partition_point(|size| *size < self.sizes[own]),
            None if self.sums.is_empty() => 0,
            None => {
                let limit = size(&rest.to_uop(), rest);
                self.sizes.partition_point(|size| *size < limit)
            }
        };
        let before = cost_with_parts(rest, parts);
        let mut best: Option<(usize, Sum, i64, Sum)> = None;
        for (_, part) in &self.sums[..smaller] {
            let Some((times, left)) = take_out(rest, part) else { continue };
            // A part by itself that is taken negative costs a negation.
            let alone = left.terms.is_empty() && left.constant == 0 && parts == 0 && times == -1;
            let after = cost_with_parts(&left, parts + 1) + (times.abs() != 1 || alone) as usize;
            if after < before && best.as_ref().is_none_or(|(known, ..)| after < *known) {
                best = Some((after, part.clone(), times, left));
            }
        }
        best.map(|(_, part, times, left)| (part, times, left))
    }

    /// Adds what two sums have in common, as long as that saves operations.
    fn add_common_parts(&mut self) {
        for number in 0..COMMON_PARTS_MAX {
            let mut best: Option<(usize, Sum)> = None;
            for (at, (_, a)) in self.sums.iter().enumerate() {
                for (_, b) in &self.sums[at + 1..] {
                    let Some(common) = in_common(a, b) else { continue };
                    let saved = own_cost(&common);
                    if saved == 0 || self.sums.iter().any(|(_, sum)| *sum == common) {
                        continue;
                    }
                    if best.as_ref().is_none_or(|(known, _)| saved > *known) {
                        best = Some((saved, common));
                    }
                }
            }
            let Some((_, common)) = best else { return };
            debug_assert!(number < COMMON_PARTS_MAX, "the loop is bounded");
            self.sums.push((common.to_uop(), common));
        }
    }
}

/// Terms, operations, and a number that tells sums apart.
type Size = (usize, usize, u64);

/// Orders sums, each with its canonical node, so that a part comes before what may be made of it.
fn size(node: &UOp, sum: &Sum) -> Size {
    (sum.terms.len(), own_cost(sum), node.structural_hash())
}

/// What a sum costs where so many other parts are added to it.
fn cost_with_parts(rest: &Sum, parts: usize) -> usize {
    match (rest.terms.is_empty(), rest.constant) {
        (true, 0) => parts.saturating_sub(1),
        (true, _) => parts,
        // A part that is added spares the sum its negation; counted so for all, since parts are mostly positive.
        (false, _) => own_cost(rest) + parts,
    }
}

/// `sum = part * times + rest` with all terms of the part gone from the rest.
fn take_out(sum: &Sum, part: &Sum) -> Option<(i64, Sum)> {
    let (first, factor) = part.terms.first()?;
    if part.terms.len() < 2 && part.constant == 0 {
        return None;
    }
    let own = sum.factor_of(first);
    if own == 0 || own % factor != 0 {
        return None;
    }
    let times = own / factor;
    let all =
        part.terms.iter().all(|(atom, factor)| factor.checked_mul(times).is_some_and(|f| f == sum.factor_of(atom)));
    if !all {
        return None;
    }
    Some((times, sum.plus(part, times.checked_neg()?)?))
}

/// The terms that two sums share, up to a common multiple; at least two.
fn in_common(a: &Sum, b: &Sum) -> Option<Sum> {
    let mut best: Option<Sum> = None;
    for (pivot, factor) in &a.terms {
        let other = b.factor_of(pivot);
        if other == 0 {
            continue;
        }
        let same = |(atom, own): &&(UOp, i64)| {
            own.checked_mul(other).is_some_and(|left| factor.checked_mul(b.factor_of(atom)) == Some(left))
        };
        let terms: SmallVec<[(UOp, i64); 6]> = a.terms.iter().filter(same).cloned().collect();
        if terms.len() >= 2 && best.as_ref().is_none_or(|known| known.terms.len() < terms.len()) {
            let common = Sum { terms, constant: 0 };
            let factor = common.gcd_of_factors().max(1) * common.terms[0].1.signum();
            let terms = common.terms.iter().map(|(atom, own)| (atom.clone(), own / factor)).collect();
            best = Some(Sum { terms, constant: 0 });
        }
    }
    best
}

/// Comparisons of sums that exist in any case, in place of comparisons of sums made for them alone.
pub(super) fn share_comparisons(root: &UOp) -> UOp {
    let nodes = postorder(std::slice::from_ref(root));
    let comparisons: Vec<&UOp> = nodes.iter().filter(|node| compared_sum(node).is_some()).collect();
    if comparisons.is_empty() {
        return root.clone();
    }
    let mut other_uses: FxHashSet<UOp> = FxHashSet::default();
    other_uses.insert(root.clone());
    for node in nodes.iter().filter(|node| compared_sum(node).is_none()) {
        // A part of a longer sum is no node of its own in the end.
        let sources = node.src().iter().filter(|operand| !(is_linear(node) && is_linear(operand)));
        other_uses.extend(sources.cloned());
    }
    let mut free: Vec<UOp> =
        nodes.iter().filter(|node| is_linear(node) && other_uses.contains(*node)).cloned().collect();
    free.truncate(compared_with(comparisons.len().max(free.len())));
    if free.is_empty() {
        return root.clone();
    }
    let mut replaced: FxHashMap<UOp, UOp> = FxHashMap::default();
    for comparison in comparisons {
        let Some((compared, _)) = compared_sum(comparison) else { continue };
        if other_uses.contains(&compared) || own_cost(&Sum::of(&compared)) == 0 {
            continue;
        }
        if let Some(other) = free.iter().filter(|sum| !is_long(sum)).find_map(|sum| compare_instead(comparison, sum)) {
            replaced.insert(comparison.clone(), other);
        }
    }
    if replaced.is_empty() { root.clone() } else { substitute(root, &replaced) }
}

/// The sum and the constant of a canonical `<`.
fn compared_sum(node: &UOp) -> Option<(UOp, i64)> {
    let (Op::Lt, [a, b]) = (node.op(), node.src()) else { return None };
    match (a.as_int(), b.as_int()) {
        (None, Some(limit)) if is_linear(a) && !is_long(a) => Some((a.clone(), limit)),
        (Some(limit), None) if is_linear(b) && !is_long(b) => Some((b.clone(), limit)),
        _ => None,
    }
}

/// A comparison of `sum` that the rules take to be `comparison`.
fn compare_instead(comparison: &UOp, sum: &UOp) -> Option<UOp> {
    let (compared, limit) = compared_sum(comparison)?;
    let (own, other) = (Sum::of(&compared), Sum::of(sum));
    // A range that the comparison does not name may not be open where it stands.
    let news = other.terms.iter().filter(|(atom, _)| own.factor_of(atom) == 0);
    if news.into_iter().any(|(atom, _)| names_a_range(atom)) {
        return None;
    }
    let (first, factor) = own.terms.first()?;
    let (low, high) = other.bounds()?;
    // Where the sum is a multiple of the compared one and more, its limit is that multiple of the limit and more.
    let scale = other.factor_of(first) / factor;
    let rest = other.plus(&own, scale.checked_neg()?)?.bounds()?;
    let about = limit.checked_mul(scale)?;
    let limits = [
        low.checked_add(1)?,
        high,
        about.checked_add(rest.0)?,
        about.checked_add(rest.1)?,
        about.checked_add(scale)?.checked_add(rest.0)?,
    ];
    for limit in limits {
        let limit = UOp::index(limit);
        for (a, b) in [(sum, &limit), (&limit, sum)] {
            if canonical_less(a, b).is_some_and(|less| less == *comparison) {
                return Some(a.lt(b));
            }
        }
    }
    None
}

fn names_a_range(atom: &UOp) -> bool {
    postorder(std::slice::from_ref(atom)).iter().any(|node| node.op() == Op::Range)
}

/// Moves terms back into quotients, where each sum that a quotient stands in has them beside it and operations are saved.
pub(super) fn merge_quotients(root: &UOp) -> UOp {
    let mut root = root.clone();
    let nodes = postorder(std::slice::from_ref(&root)).len();
    for _ in 0..MERGES_MAX * MERGED_NODES_MAX / nodes.max(MERGED_NODES_MAX) {
        match merge_one(&root) {
            Some(merged) => root = merged,
            None => break,
        }
    }
    root
}

fn merge_one(root: &UOp) -> Option<UOp> {
    let nodes = postorder(std::slice::from_ref(root));
    let table = SumTable::of_nodes(root, &nodes);
    let mut users: FxHashMap<UOp, Vec<(usize, i64)>> = FxHashMap::default();
    for (number, (_, sum)) in table.sums.iter().enumerate() {
        for (atom, factor) in sum.terms.iter().filter(|(atom, _)| as_quotient(atom).is_some()) {
            users.entry(atom.clone()).or_default().push((number, *factor));
        }
    }
    for quotient in nodes.iter().filter(|node| !table.uses.contains_key(*node)) {
        let (Some((dividend, c)), Some(users)) = (as_quotient(quotient), users.get(quotient)) else { continue };
        let users: Vec<(&Sum, i64)> = users.iter().map(|(number, factor)| (&table.sums[*number].1, *factor)).collect();
        if let Some(moved) = best_move(&dividend, c, &users) {
            return move_into(root, &nodes, quotient, &dividend, c, &moved);
        }
    }
    None
}

/// The terms that every user has beside the quotient, divided by the quotient's coefficient, if moving them saves operations.
fn best_move(dividend: &Sum, c: i64, users: &[(&Sum, i64)]) -> Option<Sum> {
    let beside = |sum: &Sum, factor: i64, own: i64| {
        (own != 0 && own % factor == 0).then(|| own / factor).filter(|_| !sum.terms.is_empty())
    };
    let (first, factor) = users.first()?;
    let mut all = Sum::constant(0);
    for (atom, _) in &dividend.terms {
        if let Some(times) = beside(first, *factor, first.factor_of(atom))
            && users.iter().all(|(sum, factor)| beside(sum, *factor, sum.factor_of(atom)) == Some(times))
        {
            all.terms.push((atom.clone(), times));
        }
    }
    if let Some(times) = beside(first, *factor, first.constant)
        && users.iter().all(|(sum, factor)| beside(sum, *factor, sum.constant) == Some(times))
    {
        all.constant = times;
    }
    let singles = all.terms.iter().map(|term| Sum { terms: SmallVec::from_elem(term.clone(), 1), constant: 0 });
    let candidates = [all.clone(), all.without_constant(), Sum::constant(all.constant)].into_iter().chain(singles);
    let before = own_cost(dividend) + users.iter().map(|(sum, _)| own_cost(sum)).sum::<usize>();
    let mut best: Option<(usize, Sum)> = None;
    for moved in candidates.filter(|moved| !moved.terms.is_empty() || moved.constant != 0) {
        let Some(after) = cost_of_move(dividend, c, users, &moved) else { continue };
        if after < before && best.as_ref().is_none_or(|(known, _)| after < *known) {
            best = Some((after, moved));
        }
    }
    best.map(|(_, moved)| moved)
}

fn cost_of_move(dividend: &Sum, c: i64, users: &[(&Sum, i64)], moved: &Sum) -> Option<usize> {
    let mut total = own_cost(&dividend.plus(moved, c)?);
    for (sum, factor) in users {
        total += own_cost(&sum.plus(moved, factor.checked_neg()?)?);
    }
    Some(total)
}

/// The graph with `moved` taken from each sum beside the quotient and put into it. Remainders of the same division take the new
/// dividend too, since they are the same by it.
fn move_into(root: &UOp, nodes: &[UOp], quotient: &UOp, dividend: &Sum, c: i64, moved: &Sum) -> Option<UOp> {
    let mut done: FxHashMap<UOp, UOp> = FxHashMap::default();
    let old = &quotient.src()[0];
    // Nothing below the quotient changes, so its new dividend is made of nodes as they are.
    let new = dividend.plus(moved, c)?.to_uop();
    for node in nodes {
        let mapped = with_mapped_sources(node, |operand| &done[operand]);
        let is_same_division =
            matches!(node.op(), Op::IDiv | Op::Mod) && node.src()[0] == *old && node.src()[1] == quotient.src()[1];
        let result = if is_same_division && (node == quotient || as_remainder(node).is_some()) {
            node.with_src([new.clone(), node.src()[1].clone()].as_slice())
        } else if is_linear(node) && !is_long(node) {
            let sum = Sum::of(node);
            let factor = sum.factor_of(quotient);
            let rest = if factor == 0 { sum } else { sum.plus(moved, factor.checked_neg()?)? };
            let mut total = Sum::constant(rest.constant);
            for (atom, factor) in &rest.terms {
                total = total.plus(&Sum::of(done.get(atom).unwrap_or(atom)), *factor)?;
            }
            total.to_uop()
        } else {
            mapped
        };
        done.insert(node.clone(), result);
    }
    done.remove(root)
}
