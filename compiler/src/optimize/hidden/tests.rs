//! Which iterations of reductions run, of kernels made by hand.

use super::*;
use crate::ir::{ReduceOp, Sources, substitute};

const ROWS: i64 = 8;
const TERMS: i64 = 64;

fn load(slot: u32, len: u64, offset: &UOp, gate: Option<UOp>) -> UOp {
    let src: Sources = [UOp::param(slot, DType::F32, len), offset.clone()].into_iter().chain(gate).collect();
    UOp::new(Op::Load, DType::F32, vec![UOp::new(Op::Index, DType::F32, src, Arg::None)], Arg::None)
}

fn row() -> UOp {
    UOp::range(ROWS, 0, AxisKind::Loop)
}

fn term() -> UOp {
    UOp::range(TERMS, 1, AxisKind::Reduce)
}

/// For each of some outputs, a reduction of a value that is made of the row and the term.
fn kernel(op: ReduceOp, value: impl Fn(&UOp, &UOp) -> UOp, rows: UOp) -> UOp {
    let value = value(&rows, &term());
    let sum = UOp::new(Op::ReduceRange, value.dtype(), vec![value, term()], Arg::Combine(op));
    let target = vec![UOp::param(0, sum.dtype(), ROWS as u64), rows.clone()];
    let target = UOp::new(Op::Index, sum.dtype(), target, Arg::None);
    UOp::sink([UOp::new(Op::Store, DType::VOID, vec![target, sum, rows], Arg::None)])
}

/// The first iteration that runs for each output, and how many.
fn parts(root: &UOp) -> Vec<(i64, i64)> {
    let seen = run_over_what_is_seen(root);
    let order = Dependencies::of(&seen).order;
    let reduction = order.iter().find(|node| node.op() == Op::ReduceRange).expect("it has one");
    let range = &closed_ranges(reduction)[0];
    let offset = order.iter().find(|node| node.op() == Op::Load).map(|load| load.src()[0].src()[1].clone());
    let at = |expr: &UOp, number: i64| {
        let map: FxHashMap<UOp, UOp> = [(row(), UOp::index(number))].into_iter().collect();
        let first: FxHashMap<UOp, UOp> = [(substitute(range, &map), UOp::index(0))].into_iter().collect();
        simplify(&substitute(&substitute(expr, &map), &first)).as_int().expect("nothing else is in it")
    };
    (0..ROWS).map(|number| (at(offset.as_ref().expect("a load"), number), at(&range.src()[0], number))).collect()
}

fn chosen(op: ReduceOp, hidden: Scalar, seen: impl Fn(&UOp, &UOp) -> UOp) -> Vec<(i64, i64)> {
    let value = |row: &UOp, term: &UOp| {
        seen(row, term).select(load(1, TERMS as u64, term, None), UOp::constant(hidden, DType::F32))
    };
    parts(&kernel(op, value, row()))
}

fn to_ends(ends: [i64; 8]) -> Vec<(i64, i64)> {
    ends.map(|end| (0, end)).to_vec()
}

fn all() -> Vec<(i64, i64)> {
    to_ends([TERMS; 8])
}

#[test]
fn loops_end_behind_the_last_term_that_counts() {
    let (zero, lowest) = (Scalar::zero(DType::F32), Scalar::lowest(DType::F32));
    let up_to = |row: &UOp, term: &UOp| !&(row * 8).lt(term);
    let ends = to_ends([1, 9, 17, 25, 33, 41, 49, 57]);
    assert_eq!(chosen(ReduceOp::Add, zero, up_to), ends);
    assert_eq!(chosen(ReduceOp::Max, lowest, up_to), ends);
    let numbers = |row: &UOp, term: &UOp| !&(row.cast(DType::I32) * 8).lt(&term.cast(DType::I32));
    assert_eq!(chosen(ReduceOp::Add, zero, numbers), ends);
    // What wraps is no index any more.
    let wrapped = |row: &UOp, term: &UOp| !&(row.cast(DType::I8) * 40).lt(&term.cast(DType::I8));
    assert_eq!(chosen(ReduceOp::Add, zero, wrapped), all());
    let either = |row: &UOp, term: &UOp| term.lt(row * 5) | term.lt(row * 7 + 3);
    assert_eq!(chosen(ReduceOp::Add, zero, either), to_ends([3, 10, 17, 24, 31, 38, 45, 52]));
    // A row that sees nothing has one iteration left.
    let before = |row: &UOp, term: &UOp| term.lt(row * 6 - 10);
    assert_eq!(chosen(ReduceOp::Add, zero, before), to_ends([1, 1, 2, 8, 14, 20, 26, 32]));
}

#[test]
fn loops_begin_with_the_first_term_that_counts() {
    let zero = Scalar::zero(DType::F32);
    let from = |row: &UOp, term: &UOp| (row * 8 - 1).lt(term);
    assert_eq!(chosen(ReduceOp::Add, zero, from), (0..8).map(|row| (row * 8, 64 - row * 8)).collect::<Vec<_>>());
    // A row that sees nothing has the last iteration left.
    let behind = |row: &UOp, term: &UOp| (row * 12).lt(term);
    let begins = [1, 13, 25, 37, 49, 61, 63, 63];
    assert_eq!(chosen(ReduceOp::Add, zero, behind), begins.map(|begin| (begin, 64 - begin)).to_vec());
    let window = |row: &UOp, term: &UOp| term.lt(row * 5 + 4) & (row * 4 - 3).lt(term);
    let want = [(0, 4), (2, 7), (6, 8), (10, 9), (14, 10), (18, 11), (22, 12), (26, 13)];
    assert_eq!(chosen(ReduceOp::Add, zero, window), want.to_vec());
}

#[test]
fn what_is_made_of_what_is_hidden_is_hidden() {
    let ends = to_ends([1, 9, 17, 25, 33, 41, 49, 57]);
    let seen = |row: &UOp, term: &UOp| term.lt(row * 8 + 1);
    let x = |slot: u32, term: &UOp| load(slot, TERMS as u64, term, None);
    let masked = |row: &UOp, term: &UOp, slot: u32| seen(row, term).select(x(slot, term), UOp::float(0.0, DType::F32));
    let both = |row: &UOp, term: &UOp| masked(row, term, 1) * masked(row, term, 2);
    assert_eq!(parts(&kernel(ReduceOp::Add, both, row())), ends);
    let gated =
        |row: &UOp, term: &UOp| load(1, TERMS as u64, term, Some(seen(row, term))) * UOp::float(0.5, DType::F32);
    assert_eq!(parts(&kernel(ReduceOp::Add, gated, row())), ends);
    // Zero times an infinity is no zero; of integers there is none.
    let one = |row: &UOp, term: &UOp| masked(row, term, 1) * x(2, term);
    assert_eq!(parts(&kernel(ReduceOp::Add, one, row())), all());
    let integers = |row: &UOp, term: &UOp| masked(row, term, 1).cast(DType::I32) * x(2, term).cast(DType::I32);
    assert_eq!(parts(&kernel(ReduceOp::Add, integers, row())), ends);
}

#[test]
fn loops_that_change_something_to_the_end_stay() {
    let (zero, one) = (Scalar::zero(DType::F32), Scalar::one(DType::F32));
    assert_eq!(chosen(ReduceOp::Add, one, |row, term| term.lt(row)), all());
    assert_eq!(chosen(ReduceOp::Max, zero, |row, term| term.lt(row)), all());
    assert_eq!(chosen(ReduceOp::Add, zero, |row, term| term.modulo(8).lt(row)), all());
    assert_eq!(chosen(ReduceOp::Add, zero, |row, term| term.lt(row) | row.lt(&term.modulo(8))), all());
    // Hardly anything would be saved.
    assert_eq!(chosen(ReduceOp::Add, zero, |row, term| term.lt(row + 60)), all());
}

#[test]
fn lengths_name_no_copies_and_no_lanes() {
    let zero = UOp::float(0.0, DType::F32);
    for kind in [AxisKind::Unroll, AxisKind::Vector] {
        let rows = UOp::range(ROWS, 0, kind);
        let value =
            |row: &UOp, term: &UOp| term.lt(row * 2 + 1).select(load(1, TERMS as u64, term, None), zero.clone());
        let seen = run_over_what_is_seen(&kernel(ReduceOp::Add, value, rows));
        let order = Dependencies::of(&seen).order;
        let reduction = order.iter().find(|node| node.op() == Op::ReduceRange).expect("it has one");
        // All that any of the rows sees.
        assert_eq!(closed_ranges(reduction)[0].src()[0].as_int(), Some(2 * ROWS - 1), "{kind:?}");
    }
}

#[test]
fn lengths_name_blocks_of_threads_and_no_threads() {
    use crate::ir::ThreadDim::X;
    let zero = UOp::float(0.0, DType::F32);
    // Threads of a block meet in loops, so all of them go through as many iterations.
    for (kind, is_named) in [(AxisKind::Grid(X), true), (AxisKind::Block(X), false), (AxisKind::Lane, false)] {
        let rows = UOp::range(ROWS, 0, kind);
        let value =
            |row: &UOp, term: &UOp| term.lt(row * 2 + 1).select(load(1, TERMS as u64, term, None), zero.clone());
        let seen = run_over_what_is_seen(&kernel(ReduceOp::Add, value, rows));
        let order = Dependencies::of(&seen).order;
        let reduction = order.iter().find(|node| node.op() == Op::ReduceRange).expect("it has one");
        let len = closed_ranges(reduction)[0].src()[0].as_int();
        assert_eq!(len, Some(2 * ROWS - 1).filter(|_| !is_named), "{kind:?}");
    }
}

#[test]
fn what_accumulates_in_memory_keeps_a_loop() {
    let first =
        |term: &UOp| term.lt(UOp::index(1)).select(load(1, TERMS as u64, term, None), UOp::float(0.0, DType::F32));
    // A reduction of which one term is seen is that term.
    let seen = run_over_what_is_seen(&kernel(ReduceOp::Add, |_, term| first(term), row()));
    assert!(!postorder(&[seen]).iter().any(|node| node.op() == Op::ReduceRange));
    let target = vec![UOp::param(0, DType::F32, ROWS as u64), row()];
    let target = UOp::new(Op::Index, DType::F32, target, Arg::None);
    let store = vec![target, first(&term()), term(), row()];
    let blocks = UOp::sink([UOp::new(Op::Store, DType::VOID, store, Arg::Combine(ReduceOp::Add))]);
    assert_eq!(run_over_what_is_seen(&blocks), blocks);
}
