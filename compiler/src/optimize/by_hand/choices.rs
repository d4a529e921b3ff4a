//! Loops whose iterations ask for different values, as those of `stack` and `cat` do, become straight-line code.
//!
//! ```text
//! for k in 0..3, x { store y[k * 90 + x], where(k < 1, f(p[x]), where(k < 2, g(p[x]), h(q[x]))) }
//! for x { store y[x], f(p[x]); store y[90 + x], g(p[x]); store y[180 + x], h(q[x]) }
//! ```
//!
//! In a loop each element would take the work of all values, since lanes of a vector compute both sides of a choice. As straight-line code each iteration keeps the one that it asks for,
//! loads that several ask for are made once, and the loops around are left whole: for lanes, and for threads to share.
//! A loop over parts of one length, as `cat` has it, is split into parts first. Parts of different lengths are cut apart ([`cuts`](super::cuts)).
//!
//! Always: made of the opts `split` and `upcast`, of lengths that leave nothing over; not around contractions. Tested below, and by random lists of these opts.

use rustc_hash::{FxHashMap, FxHashSet};

use super::cuts::parts_of;
use crate::DType;
use crate::ir::{Op, UOp, postorder};
use crate::kernel::ranges::{Dependencies, closed_ranges, is_loop_end, open_operands, range_id};
use crate::lower::loops::is_serial;
use crate::optimize::by_hand::Attempts;
use crate::optimize::opt::Opt;
use crate::optimize::transforms::split::is_reduce;

/// Parts of a loop that become straight-line code, at most: twice what `cat` chooses among.
pub(super) const PARTS_MAX: usize = 32;
/// Elementwise ops of all parts together. A vector op is some six bytes of code, and a function of a polynomial some thirty ops:
/// so this fits the 32 KiB of a processor's instructions.
pub(super) const OPS_MAX: usize = 256;
/// What the parts compute must be less than this share of what all of them compute in a loop.
const SHARE_MAX: f64 = 0.75;

/// Takes loops whose iterations choose apart; whether there were any.
pub(crate) fn unroll_choices(choice: &mut Attempts<'_>) -> bool {
    let mut found = false;
    while let Some((range, len, parts)) = find_choice(&choice.kernel) {
        let done = choice.all_or_none(|choice| {
            let is_split = len < 2 || choice.attempt(Opt::Split { range, len });
            (is_split && choice.attempt(Opt::Upcast { range, times: parts })).then_some(())
        });
        if !done {
            break;
        }
        found = true;
    }
    found
}

/// A range, the length of its parts, and their number.
fn find_choice(root: &UOp) -> Option<(u32, u32, u32)> {
    let dependencies = Dependencies::of(root);
    let mut seen = FxHashSet::default();
    let ends = dependencies.order.iter().filter(|node| is_loop_end(node));
    let is_plain = |end: &UOp, range: &UOp| !is_serial(range) && (end.op() == Op::ReduceRange || !is_reduce(range));
    let ranges = ends.flat_map(|end| closed_ranges(end).iter().filter(move |range| is_plain(end, range)));
    let ranges = ranges.filter(|range| seen.insert(range_id(range)));
    ranges.into_iter().find_map(|range| {
        let count = range.src()[0].as_int()?;
        let parts = parts_of(range, &dependencies)?;
        let len = parts[0].1 - parts[0].0;
        let is_even = parts.len() as i64 * len == count && parts.iter().all(|(begin, end)| end - begin == len);
        if !is_even || parts.len() > PARTS_MAX || holds_contraction(range, &dependencies) {
            return None;
        }
        let all = ops_of_iteration(range, None, &dependencies);
        let ops = ops_of_parts(range, &parts, &dependencies);
        let is_worth = (ops as f64) < SHARE_MAX * (all * parts.len()) as f64;
        (is_worth && ops <= OPS_MAX).then_some((range_id(range), len as u32, parts.len() as u32))
    })
}

/// Whether a sum that stands in the loop, or that closes it, reads something for several results: its register tile wants the loop as it is.
fn holds_contraction(range: &UOp, dependencies: &Dependencies) -> bool {
    let id = range_id(range);
    let ends = dependencies.order.iter().filter(|node| node.op() == Op::ReduceRange);
    let mut inside = ends.filter(|end| dependencies.get(end).contains(id) || closed_ranges(end).contains(range));
    inside.any(|end| {
        let around = dependencies.get(end);
        let is_reused = |load: &UOp| around.iter().any(|other| other != id && !dependencies.get(load).contains(other));
        postorder(open_operands(end)).iter().any(|node| node.op() == Op::Load && is_reused(node))
    })
}

/// Ops on numbers: what decides about loads is no work.
fn is_counted(node: &UOp) -> bool {
    node.op().is_elementwise() && !node.dtype().is_index() && node.dtype() != DType::BOOL
}

/// Elementwise ops of one iteration of each part of a range, together.
pub(super) fn ops_of_parts(range: &UOp, parts: &[(i64, i64)], dependencies: &Dependencies) -> usize {
    parts.iter().map(|(begin, _)| ops_of_iteration(range, Some(*begin), dependencies)).sum()
}

/// Elementwise ops that stand in a loop, or those of them that one of its iterations asks for.
pub(super) fn ops_of_iteration(range: &UOp, iteration: Option<i64>, dependencies: &Dependencies) -> usize {
    let mut numbers: FxHashMap<UOp, Option<i64>> = FxHashMap::default();
    for node in dependencies.order.iter().filter(|_| iteration.is_some()) {
        let known = |source: &UOp| numbers.get(source).copied().flatten();
        let number = iteration.and_then(|iteration| number_of(node, range, iteration, &known));
        numbers.insert(node.clone(), number);
    }
    let ends = dependencies.order.iter().filter(|node| closed_ranges(node).contains(range));
    let mut asked: FxHashSet<UOp> = ends.cloned().collect();
    let mut ops = 0;
    // Users stand behind what they use.
    for node in dependencies.order.iter().rev() {
        if !asked.contains(node) {
            continue;
        }
        let number = |k: usize| numbers.get(&node.src()[k]).copied().flatten();
        match (node.op(), node.src().first().and_then(|_| number(0))) {
            (Op::Where, Some(0)) => drop(asked.insert(node.src()[2].clone())),
            (Op::Where, Some(_)) => drop(asked.insert(node.src()[1].clone())),
            _ => {
                ops += usize::from(is_counted(node));
                asked.extend(node.src().iter().cloned());
            }
        }
    }
    ops
}

/// What an index or a condition comes to in an iteration, where that is known; a condition is 0 or 1.
fn number_of(node: &UOp, range: &UOp, iteration: i64, known: &dyn Fn(&UOp) -> Option<i64>) -> Option<i64> {
    if node == range {
        return Some(iteration);
    }
    if let Some(constant) = node.as_int() {
        return Some(constant);
    }
    let [first, second] = node.src() else { return None };
    let (first, second) = (known(first), known(second));
    match (node.op(), first, second) {
        (Op::And, Some(0), _) | (Op::And, _, Some(0)) => Some(0),
        (Op::Add, Some(first), Some(second)) => first.checked_add(second),
        (Op::Mul, Some(first), Some(second)) => first.checked_mul(second),
        (Op::Lt, Some(first), Some(second)) => Some(i64::from(first < second)),
        (Op::Eq, Some(first), Some(second)) => Some(i64::from(first == second)),
        (Op::Ne, Some(first), Some(second)) => Some(i64::from(first != second)),
        (Op::And, Some(first), Some(second)) => Some(first & second),
        (Op::Or, Some(first), Some(second)) => Some(first | second),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::Arg;
    use crate::ops::join::{cat, stack};
    use crate::optimize::choose;
    use crate::pipeline::loops_of;
    use crate::target::Target;
    use crate::watch::Silent;

    /// What the choice by hand does to a kernel of one store.
    fn by_hand(value: UOp, threads: u32) -> Vec<Opt> {
        let len = value.shape().iter().map(|dim| dim.max_value() as u64).product();
        let store = vec![UOp::param(0, DType::F32, len), value];
        let kernel = UOp::sink([UOp::new(Op::Store, DType::VOID, store, Arg::None)]);
        choose(&loops_of(&kernel, &mut Silent), &Target { threads, ..Target::test_avx512() }).applied
    }

    fn exp2(x: UOp) -> UOp {
        UOp::new(Op::Exp2, DType::F32, vec![x], Arg::None)
    }

    /// So many tensors, each computed from the same one.
    fn computed(count: i64, rows: i64, columns: i64) -> Vec<UOp> {
        let x = UOp::param(1, DType::F32, (rows * columns) as u64).reshape([rows, columns]);
        (0..count).map(|k| exp2(&x * k + 1)).collect()
    }

    fn copies(opts: &[Opt]) -> Vec<u32> {
        let times = |opt: &Opt| if let Opt::Upcast { times, .. } = opt { Some(*times) } else { None };
        opts.iter().filter_map(times).collect()
    }

    #[test]
    fn parts_of_one_length_are_straight_line_code_with_lanes() {
        for count in [2, 3, 6, 12, 16] {
            for axis in [0, 1, 2] {
                let opts = by_hand(stack(&computed(count, 100, 64), axis).expect("of equal shapes"), 2);
                assert_eq!(copies(&opts).first(), Some(&(count as u32)), "stack of {count} along {axis}: {opts:?}");
                let is_cut = opts.iter().any(|opt| matches!(opt, Opt::Peel { .. }));
                let has_lanes = opts.iter().any(|opt| matches!(opt, Opt::Vectorize { lanes: 16, .. }));
                assert!(has_lanes && !is_cut, "stack of {count} along {axis}: {opts:?}");
            }
            for axis in [0, 1] {
                let opts = by_hand(cat(&computed(count, 96, 64), axis).expect("of equal shapes"), 2);
                assert_eq!(copies(&opts).first(), Some(&(count as u32)), "cat of {count} along {axis}: {opts:?}");
                assert!(matches!(opts.first(), Some(Opt::Split { .. })), "cat of {count} along {axis}: {opts:?}");
            }
        }
    }

    #[test]
    fn what_all_iterations_compute_stays_a_loop() {
        // A row chooses a number alone.
        let x = UOp::param(1, DType::F32, 8 * 640).reshape([8, 640]);
        let costly = (0..20).fold(x, |x, _| exp2(x * 3));
        let number = cat(&(0..8).map(|k| UOp::float(f64::from(k), DType::F32).reshape([1, 1])).collect::<Vec<_>>(), 0);
        let opts = by_hand(costly * number.expect("of equal shapes").expand([8, 640]), 2);
        assert!(!copies(&opts).contains(&8), "{opts:?}");
        // Parts of two lengths have loops of their own.
        let [x, y] = [200, 300].map(|rows| exp2(UOp::param(1, DType::F32, 640 * rows).reshape([rows as i64, 640])));
        let opts = by_hand(cat(&[x, y], 0).expect("of equal widths"), 1);
        assert!(opts.iter().any(|opt| matches!(opt, Opt::Peel { .. })), "{opts:?}");
    }

    #[test]
    fn each_iteration_asks_for_its_own_value() {
        let value = stack(&computed(5, 10, 64), 0).expect("of equal shapes");
        let len = value.shape().iter().map(|dim| dim.max_value() as u64).product();
        let store = vec![UOp::param(0, DType::F32, len), value];
        let kernel = UOp::sink([UOp::new(Op::Store, DType::VOID, store, Arg::None)]);
        let root = loops_of(&kernel, &mut Silent);
        let dependencies = Dependencies::of(&root);
        let range = dependencies.order.iter().find(|node| node.as_range().is_some() && node.src()[0].is_const(5));
        let range = range.expect("the loop over parts");
        // x * 0 + 1 is a number, x * 1 is x: at most a product, a sum and exp2 are asked for.
        for iteration in 0..5 {
            assert!(ops_of_iteration(range, Some(iteration), &dependencies) <= 3);
        }
        assert!(ops_of_iteration(range, None, &dependencies) >= 5 + 4);
    }
}
