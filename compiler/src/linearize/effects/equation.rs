//! Do two accesses touch one element? Their offsets are sums of loop variables with factors, so that is an equation over integers within bounds.
//!
//! It is searched for a solution, largest factor first: what the remaining terms can add up to leaves few values for each, one in the
//! common case of rows and columns. Tested through [`super`], with lists that are wrong.

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::{Values, length};
use crate::ir::UOp;

/// Values tried in one search before it is given up.
const SEARCH_MAX: usize = 20_000;

/// What a search for two accesses of one element found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Nothing,
    Conflict,
    /// A solution that no iterations may have: it leaves aside gates, or that two terms are parts of one loop variable.
    MayConflict,
    /// The search took too long, or an offset is no sum.
    Unknown,
}

/// A term of an offset: a loop variable, its quotient or remainder by a number, or the number of the lane.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) enum Term {
    Loop(u32),
    Quotient(u32, i128),
    Remainder(u32, i128),
    Lane,
}

/// An offset: a constant, and factors of terms with the least and largest value of each.
#[derive(Clone, Default)]
pub(super) struct Sum {
    pub(super) constant: i128,
    pub(super) factors: FxHashMap<Term, i128>,
    pub(super) bounds: FxHashMap<Term, (i128, i128)>,
    /// Whether the access is not made everywhere.
    pub(super) is_gated: bool,
}

impl Sum {
    pub(super) fn factor(&self, term: &Term) -> i128 {
        self.factors.get(term).copied().unwrap_or(0)
    }

    pub(super) fn add(&mut self, term: Term, factor: i128, bounds: (i128, i128)) {
        *self.factors.entry(term.clone()).or_default() += factor;
        self.bounds.insert(term, bounds);
    }
}

/// An unknown of the search.
#[derive(Clone, Copy, Debug)]
struct Unknown {
    factor: i128,
    low: i128,
    high: i128,
    what: Iteration,
}

/// What an unknown says of the iterations in which the load and the store are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Iteration {
    /// The load's, in the shared loop (or digit of one) of this number.
    OfLoad(usize),
    /// How many iterations later the store's is.
    Distance(usize),
    /// They share no such loop.
    Apart,
}

impl Unknown {
    fn is_distance(&self) -> bool {
        matches!(self.what, Iteration::Distance(_))
    }
}

/// Values of the first unknowns.
type Chosen = SmallVec<[i128; 8]>;

/// Looks for elements that both touch: in different iterations of the shared loops; in the same one too if the load does not come first.
pub(super) fn search(load: &Sum, store: &Sum, shared: &[&UOp], is_first: bool, values: &Values<'_>) -> Found {
    let Some((mut unknowns, constant)) = equation(load, store, shared, values) else { return Found::Unknown };
    let conflict = if has_free_terms(load) && has_free_terms(store) { Found::Conflict } else { Found::MayConflict };
    unknowns.sort_by_key(|unknown| std::cmp::Reverse(unknown.factor.abs()));
    // What the unknowns from each on can add up to.
    let mut reach = vec![(0i128, 0i128); unknowns.len() + 1];
    for (number, unknown) in unknowns.iter().enumerate().rev() {
        let ends = [unknown.factor * unknown.low, unknown.factor * unknown.high];
        let (low, high) = reach[number + 1];
        reach[number] = (low + ends[0].min(ends[1]), high + ends[0].max(ends[1]));
    }
    let mut tried = 0;
    // Each: the values of the unknowns so far, what is missing to zero, and whether the iterations differ.
    let mut pending: Vec<(Chosen, i128, bool)> = vec![(Chosen::new(), -constant, false)];
    while let Some((chosen, missing, differ)) = pending.pop() {
        let number = chosen.len();
        tried += 1;
        if tried > SEARCH_MAX {
            return Found::Unknown;
        }
        if missing < reach[number].0 || missing > reach[number].1 {
            continue;
        }
        let may_differ = differ || unknowns[number..].iter().any(Unknown::is_distance);
        if is_first && !may_differ {
            continue;
        }
        let Some(unknown) = unknowns.get(number) else { return conflict };
        let (least, most) = values_that_reach(unknown, missing, reach[number + 1]);
        if most - least > SEARCH_MAX as i128 {
            return Found::Unknown;
        }
        for value in least..=most {
            if leaves_loop(&unknowns[..number], &chosen, unknown, value) {
                continue;
            }
            let differ = differ || (unknown.is_distance() && value != 0);
            let mut longer = chosen.clone();
            longer.push(value);
            pending.push((longer, missing - unknown.factor * value, differ));
        }
    }
    Found::Nothing
}

/// Whether any values of an offset's terms are values that they have together.
fn has_free_terms(sum: &Sum) -> bool {
    !sum.is_gated && sum.factors.keys().all(|term| matches!(term, Term::Loop(_) | Term::Lane))
}

/// Whether the store's iteration, the load's and the distance from it, is one that the loop does not have.
fn leaves_loop(before: &[Unknown], chosen: &Chosen, unknown: &Unknown, value: i128) -> bool {
    // A distance of no weight stands for all that are not zero, and some of them stays inside.
    let most_of = |load: &Unknown, distance: &Unknown| (distance.factor != 0).then_some(load.high);
    before.iter().zip(chosen).any(|(other, at)| {
        let most = match (other.what, unknown.what) {
            (Iteration::OfLoad(a), Iteration::Distance(b)) if a == b => most_of(other, unknown),
            (Iteration::Distance(a), Iteration::OfLoad(b)) if a == b => most_of(unknown, other),
            _ => None,
        };
        most.is_some_and(|most| !(0..=most).contains(&(at + value)))
    })
}

/// The values of an unknown that leave something which the others can make up.
fn values_that_reach(unknown: &Unknown, missing: i128, others: (i128, i128)) -> (i128, i128) {
    if unknown.factor == 0 {
        // It changes nothing: one value of each kind stands for all.
        return (unknown.low.max(0), unknown.high.min(1));
    }
    let (low, high) = (missing - others.1, missing - others.0);
    let (low, high) = if unknown.factor > 0 { (low, high) } else { (-high, -low) };
    let factor = unknown.factor.abs();
    let least = low.div_euclid(factor) + (low.rem_euclid(factor) != 0) as i128;
    (least.max(unknown.low), high.div_euclid(factor).min(unknown.high))
}

/// The difference of two offsets: unknowns with factors, and a constant. Where it is zero, both touch one element.
fn equation(load: &Sum, store: &Sum, shared: &[&UOp], values: &Values<'_>) -> Option<(Vec<Unknown>, i128)> {
    let mut unknowns = Vec::new();
    let mut common: FxHashSet<Term> = FxHashSet::default();
    let mut pairs = 0;
    for range in shared {
        let (id, len) = (range.as_range()?.id, length(range, values));
        let whole = Term::Loop(id);
        common.insert(whole.clone());
        // What has been split into digits is counted in digits: a number is its quotient * base + its remainder.
        let digits = match base_of(id, [load, store]) {
            Err(()) => return None,
            Ok(None) => vec![(whole.clone(), 1, len - 1)],
            Ok(Some(base)) => vec![
                (Term::Quotient(id, base), base, (len - 1) / base),
                (Term::Remainder(id, base), 1, (base - 1).min(len - 1)),
            ],
        };
        for (term, weight, most) in digits {
            let [loaded, stored] = [load, store].map(|sum| match &term {
                Term::Loop(_) => sum.factor(&term),
                _ => sum.factor(&term) + weight * sum.factor(&whole),
            });
            // The load's iteration, and how many iterations later the store's is.
            if most > 0 {
                let (of_load, distance) = (Iteration::OfLoad(pairs), Iteration::Distance(pairs));
                unknowns.push(Unknown { factor: loaded - stored, low: 0, high: most, what: of_load });
                unknowns.push(Unknown { factor: -stored, low: -most, high: most, what: distance });
                pairs += 1;
            }
            common.insert(term);
        }
    }
    unknowns.retain(|unknown| unknown.is_distance() || unknown.factor != 0);
    for (sum, sign) in [(load, 1), (store, -1)] {
        for (term, factor) in sum.factors.iter().filter(|(term, _)| !common.contains(*term)) {
            let (low, high) = sum.bounds[term];
            if *factor != 0 {
                unknowns.push(Unknown { factor: sign * factor, low, high, what: Iteration::Apart });
            }
        }
    }
    Some((unknowns, load.constant - store.constant))
}

/// The number by which a loop variable is split into digits, if it is; an error if there are two.
fn base_of(id: u32, sums: [&Sum; 2]) -> Result<Option<i128>, ()> {
    let mut found = None;
    for term in sums.iter().flat_map(|sum| sum.factors.keys()) {
        match term {
            Term::Quotient(other, base) | Term::Remainder(other, base) if *other == id => match found {
                Some(known) if known != *base => return Err(()),
                _ => found = Some(*base),
            },
            _ => {}
        }
    }
    Ok(found)
}
