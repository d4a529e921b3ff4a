//! Threads that own parts of the memory which a loop over sources stores to where numbers in memory say: the owner-computes rule.
//!
//! ```text
//! for r0 in 0..3000                        threads r2 in 0..2
//!   for r1 in 0..100                 =>      for r0 in 0..3000
//!     p0[load(i[r0]) * 100 + r1] += ..         for r1 in 0..100
//!                                                p0[load(i[r0]) * 100 + r1] += .., where 500 r2 <= load(i[r0]) < 500 r2 + 500
//! ```
//!
//! The loop over sources goes in order, since two of them may name one row. Each thread goes over all of them and stores those that are for rows of its own: so every element gets the same values
//! in the same order, and no two threads store to one line of memory, but at the ends of their parts.
//!
//! What numbers in memory say is a sum of multiples of the shortest step among them, a *row*; what else an offset says must be less than that, so that a row is all that decides where it is stored.
//!
//! Refused where something else loads what is stored, or asks what it held.
//!
//! Always: each store is done by one thread. Tested below, by filetests, and by random lists of opts in the test crate.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::ir::{Arg, AxisKind, Op, Sources, UOp, postorder};
use crate::kernel::ranges::{Dependencies, all_ranges, closed_ranges, next_range_id, open_operands, range_id};
use crate::lower::loops::is_serial;
use crate::optimize::opt::Reason;
use crate::optimize::transforms::split::gated;
use crate::symbolic::{linear_terms, simplify};

/// Threads own parts of the rows that a loop over sources names.
///
/// # Errors
/// Why not.
pub(crate) fn owner_computes(root: &UOp, sources: &UOp, owners: u32) -> Result<UOp, Reason> {
    if !is_serial(sources) {
        return Err("the loop's iterations may come in any order".into());
    }
    if owners < 2 {
        return Err("there are fewer than two owners".into());
    }
    let is_shared =
        |range: &UOp| range.as_range().is_some_and(|arg| arg.kind == AxisKind::Parallel || arg.kind.is_thread_index());
    if all_ranges(root).iter().any(is_shared) {
        return Err("threads share a loop already".into());
    }
    if !root.src().iter().all(|store| closed_ranges(store).contains(sources)) {
        return Err("a store does not stand in the loop".into());
    }
    check_is_only_stored(root)?;
    let dependencies = Dependencies::of(root);
    let owner = UOp::range(i64::from(owners), next_range_id(root), AxisKind::Parallel);
    let mut stores = Vec::new();
    let mut known: FxHashMap<UOp, Rows> = FxHashMap::default();
    for store in root.src() {
        let rows = Rows::of(store, &dependencies)?;
        let first = known.entry(memory_of(store).clone()).or_insert_with(|| rows.clone());
        if *first != rows {
            return Err("two stores choose other rows of one memory".into());
        }
        let part = (rows.count + i64::from(owners) - 1) / i64::from(owners);
        let begin = simplify(&(&owner * part));
        let is_own = (&begin - 1).lt(&rows.row) & rows.row.lt(&(&begin + part));
        let (index, others) = (&open_operands(store)[0], &open_operands(store)[1..]);
        let own = gated(index, &simplify(&is_own));
        let ranges = std::iter::once(&owner).chain(closed_ranges(store));
        let src: Sources = std::iter::once(&own).chain(others).chain(ranges).cloned().collect();
        stores.push(store.with_src(src));
    }
    Ok(simplify(&UOp::sink(stores)))
}

/// Whether nothing but the stores themselves reads what they replace.
fn check_is_only_stored(root: &UOp) -> Result<(), Reason> {
    let stored: FxHashSet<&UOp> = root.src().iter().map(memory_of).collect();
    let nodes = postorder(std::slice::from_ref(root));
    let is_read = |node: &UOp| matches!(node.op(), Op::Load | Op::Previous) && stored.contains(memory_of(node));
    if nodes.iter().any(|node| node.op() == Op::Exchange) {
        return Err("what memory held is asked for".into());
    }
    if nodes.iter().any(is_read) {
        return Err("what is stored is read elsewhere".into());
    }
    Ok(())
}

fn memory_of(access: &UOp) -> &UOp {
    &access.src()[0].src()[0]
}

/// The rows of memory that a store chooses among.
#[derive(Clone, PartialEq, Eq)]
struct Rows {
    /// The number of the row that an iteration stores to.
    row: UOp,
    /// How many of them there are.
    count: i64,
    /// Elements of each.
    len: i64,
}

impl Rows {
    fn of(store: &UOp, dependencies: &Dependencies) -> Result<Rows, Reason> {
        let index = &open_operands(store)[0];
        let (terms, constant) = linear_terms(&index.src()[1]);
        let is_chosen = |term: &UOp| postorder(std::slice::from_ref(term)).iter().any(|node| node.op() == Op::Load);
        let (chosen, others): (Vec<_>, Vec<_>) = terms.into_iter().partition(|(term, _)| is_chosen(term));
        let in_order = |term: &UOp| {
            let loops = closed_ranges(store).iter().filter(|range| !is_serial(range));
            loops.into_iter().all(|range| !dependencies.get(term).contains(range_id(range)))
        };
        if !chosen.iter().all(|(term, _)| in_order(term)) {
            return Err("the row differs between iterations that come in any order".into());
        }
        let len = chosen.iter().map(|(_, step)| *step).min().filter(|step| *step > 0);
        let Some(len) = len.filter(|len| chosen.iter().all(|(_, step)| step % len == 0)) else {
            return Err("no number in memory says where a row begins".into());
        };
        let end = |far: fn(&UOp) -> i64, near: fn(&UOp) -> i64| {
            let of_term = |(term, step): &(UOp, i64)| if *step > 0 { far(term) } else { near(term) }.checked_mul(*step);
            others.iter().map(of_term).try_fold(constant, |sum, term| sum.checked_add(term?))
        };
        let (first, last) = (end(UOp::min_value, UOp::max_value), end(UOp::max_value, UOp::min_value));
        if !first.is_some_and(|first| first >= 0) || !last.is_some_and(|last| last < len) {
            return Err("rows overlap".into());
        }
        let row = chosen.iter().map(|(term, step)| term * (step / len)).reduce(|sum, term| sum + term);
        let elements = match index.src()[0].arg() {
            Arg::Param(param) => i64::try_from(param.len).unwrap_or(i64::MAX),
            _ => return Err("scratch memory belongs to one thread".into()),
        };
        let row = row.ok_or("no number in memory says where a row begins")?;
        Ok(Rows { row: simplify(&row), count: elements / len + i64::from(elements % len != 0), len })
    }
}

/// Among how many rows the stores of a kernel choose, at least. None where owners could not share them.
pub(crate) fn rows_chosen(root: &UOp) -> Option<i64> {
    let dependencies = Dependencies::of(root);
    let counts = root.src().iter().map(|store| Rows::of(store, &dependencies).ok().map(|rows| rows.count));
    counts.collect::<Option<Vec<i64>>>()?.into_iter().min()
}

#[cfg(test)]
pub(crate) use tests::added;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::text::parse;
    use crate::pipeline::loops_of;
    use crate::watch::Silent;

    /// The loops of rows added where numbers say.
    pub(crate) fn added(rows: i64, columns: i64, sources: i64) -> UOp {
        let text = format!(
            "graph %added(x: f32[{rows}, {columns}], y: f32[{sources}, {columns}], i: i64[{sources}, 1]) {{
  e = expand i, [{sources}, {columns}]
  s = store x, y, e, add axis 0
  k = sink s
  return k
}}"
        );
        loops_of(&parse(&text).expect("a graph").roots[0], &mut Silent)
    }

    fn serial(root: &UOp) -> UOp {
        all_ranges(root).into_iter().find(is_serial).expect("a loop in order")
    }

    #[test]
    fn owners_share_rows() {
        let root = added(1000, 100, 3000);
        assert_eq!(rows_chosen(&root), Some(1000));
        let new = owner_computes(&root, &serial(&root), 3).expect("a kernel");
        let store = &new.src()[0];
        let first = closed_ranges(store)[0].clone();
        assert_eq!(first.as_range().map(|arg| arg.kind), Some(AxisKind::Parallel));
        assert!(first.src()[0].is_const(3));
        // 334 rows each: the gate of the last begins at 668.
        let gate = postorder(&[open_operands(store)[0].src()[2].clone()]);
        assert!(gate.iter().any(|node| node.is_const(334)) && gate.contains(&first));
    }

    #[test]
    fn what_cannot_be_shared_is_refused() {
        let root = added(1000, 100, 3000);
        let columns = all_ranges(&root).into_iter().find(|range| !is_serial(range)).expect("a loop");
        let refused = |result: Result<UOp, Reason>| result.expect_err("a reason").to_string();
        assert!(refused(owner_computes(&root, &columns, 2)).contains("any order"));
        assert!(refused(owner_computes(&root, &serial(&root), 1)).contains("fewer than two"));
        let shared = owner_computes(&root, &serial(&root), 2).expect("a kernel");
        assert!(refused(owner_computes(&shared, &serial(&shared), 2)).contains("already"));
    }
}
