//! Which kernels are products of two matrices, and how their operands lie in memory: what `product` makes blocks of.
//!
//! *Rows* are a loop over results that one of the two loads varies with, *columns* that along which results lie side by side, which the other load varies with, *terms* the one loop of the reduction.
//! All is read off the kernel; nothing is changed here. Tested by what is made of it.

use super::groups::{OPS_OF_DOT_MAX, dot_of};
use crate::ir::{Combining, DotKind, Op, ReduceOp, TileKind, UOp, postorder};
use crate::kernel::effects::{memory_in_place, replaces_what_was_read};
use crate::kernel::ranges::{Dependencies, closed_ranges, even_step, open_operands, range_id};
use crate::lower::loops::is_serial;
use crate::optimize::by_hand::contraction::step_of_load;
use crate::optimize::by_hand::copies::pack::copied_bytes;
use crate::optimize::by_hand::survey::accumulated_in;
use crate::optimize::transforms::stage::computed_from;
use crate::target::Target;

/// Ops of a term, at most: its loads are what counts.
const OPS_OF_TERM_MAX: usize = 4;
/// One of the two loads of a product.
pub(super) struct Operand {
    /// Both operands may lie in the same memory.
    pub(super) memory: UOp,
    pub(super) is_of_columns: bool,
    /// Bytes of an element in memory, and of one of a copy.
    pub(super) bytes: i64,
    pub(super) copied_bytes: i64,
    /// Whether something is computed from it alone.
    pub(super) is_computed: bool,
    /// How far its elements lie apart along the terms, and along its own rows or columns.
    pub(super) term_step: i64,
    pub(super) own_step: i64,
}

/// A kernel that is a product of two matrices and what is computed from it.
pub(super) struct Product {
    /// The loops over results: rows, if there are any, columns, and others.
    pub(super) rows: Option<UOp>,
    pub(super) columns: UOp,
    pub(super) terms: UOp,
    pub(super) others: Vec<UOp>,
    pub(super) of_rows: Operand,
    pub(super) of_columns: Operand,
    pub(super) result_bytes: i64,
    pub(super) is_in_place: bool,
    /// What an instruction of the target multiplies and adds up of it.
    pub(super) dot: Option<DotKind>,
    /// What it multiplies of tiles.
    pub(super) tile: Option<TileKind>,
}

pub(super) fn len(range: &UOp) -> Option<i64> {
    range.src()[0].as_int()
}

/// The product that a kernel computes, if it is one and no more than what is computed from each result.
pub(super) fn find_product(root: &UOp, target: &Target) -> Option<Product> {
    let [store, others @ ..] = root.src() else { return None };
    if !root.contains(Op::ReduceRange) {
        return None;
    }
    let dependencies = Dependencies::of(root);
    let outputs = closed_ranges(store);
    let is_other = |node: &UOp| node.op() == Op::LocalBuffer || node.op() == Op::Range && is_serial(node);
    if others.iter().any(|other| closed_ranges(other) != outputs) || dependencies.order.iter().any(is_other) {
        return None;
    }
    let mut reductions = dependencies.order.iter().filter(|node| node.op() == Op::ReduceRange);
    let (Some(reduction), None) = (reductions.next(), reductions.next()) else { return None };
    let ([terms], Some(Combining::One(ReduceOp::Add))) = (closed_ranges(reduction), Combining::of(reduction)) else {
        return None;
    };
    let below = postorder(open_operands(reduction));
    let ops = below.iter().filter(|node| node.op().is_elementwise() && !node.dtype().is_index()).count();
    let loads: Vec<&UOp> = below.iter().filter(|node| node.op() == Op::Load).collect();
    let [first, second] = loads.as_slice() else { return None };
    let columns = outputs.iter().find(|range| even_step(&store.src()[0].src()[1], range) == Some(1))?;
    let on_columns = |load: &UOp| dependencies.get(load).contains(range_id(columns));
    let (of_columns, of_rows) = match (on_columns(first), on_columns(second)) {
        (true, false) => (*first, *second),
        (false, true) => (*second, *first),
        _ => return None,
    };
    let is_row = |range: &&UOp| {
        let id = range_id(range);
        dependencies.get(of_rows).contains(id) && !dependencies.get(of_columns).contains(id) && len(range).is_some()
    };
    let rows = outputs.iter().filter(is_row).max_by_key(|range| len(range)).cloned();
    let replaced = memory_in_place(root);
    let operand = |load: &UOp, own: Option<&UOp>, is_of_columns: bool| -> Option<Operand> {
        let [memory, _] = load.src()[0].src() else { return None };
        let is_plain = memory.op() == Op::Param && !replaced.contains(memory);
        let (term_step, own_step) = (step_of_load(load, terms)?, own.map_or(Some(0), |own| step_of_load(load, own))?);
        is_plain.then(|| Operand {
            memory: memory.clone(),
            is_of_columns,
            bytes: load.dtype().bytes() as i64,
            copied_bytes: copied_bytes(&dependencies, load),
            is_computed: computed_from(&dependencies, load) != *load,
            term_step,
            own_step,
        })
    };
    let tile = tile_of(reduction, of_rows, of_columns).filter(|kind| target.tiles.has(*kind));
    let is_apart = |other: &&UOp| *other != columns && Some(*other) != rows.as_ref();
    let dot = dot_of(root, reduction, range_id(terms), target);
    let ops_max = if dot.is_some() { OPS_OF_DOT_MAX } else { OPS_OF_TERM_MAX };
    let fits = ops <= ops_max && len(terms).is_some() && len(columns).is_some();
    let (of_rows, of_columns) = (operand(of_rows, rows.as_ref(), false)?, operand(of_columns, Some(columns), true)?);
    fits.then(|| Product {
        others: outputs.iter().filter(is_apart).cloned().collect(),
        result_bytes: accumulated_in(reduction.dtype()).bytes() as i64,
        is_in_place: root.src().iter().any(replaces_what_was_read),
        rows: rows.clone(),
        columns: columns.clone(),
        terms: terms.clone(),
        of_rows,
        of_columns,
        dot,
        tile,
    })
}

/// The kind of tiles that two loads have, if their elements are multiplied as they are.
fn tile_of(reduction: &UOp, of_rows: &UOp, of_columns: &UOp) -> Option<TileKind> {
    let value = open_operands(reduction).first().filter(|value| value.op() == Op::Mul)?;
    let is_factor = |load: &UOp| value.src().iter().any(|factor| factor.op() == Op::Cast && factor.src()[0] == *load);
    let kind = TileKind::of(of_rows.dtype(), of_columns.dtype(), reduction.dtype());
    kind.filter(|_| is_factor(of_rows) && is_factor(of_columns))
}
