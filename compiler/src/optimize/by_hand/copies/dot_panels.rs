//! Panels of narrow numbers, whose terms an instruction multiplies and adds up in groups ([`ir::dots`](crate::ir::dots)): a convolution of `bf16` or of bytes.
//!
//! ```text
//! for o, y, x { reduce c, i, j }         for y / 2 { fill k / 4, 2, x, 4 ; for o / 6 { for 2 * x { reduce k / 4 { dot of 4 } } } }          k: c, i, j as one
//! ```
//!
//! The loops of the reduction become one, as the rows' operand, a weight, has them in memory. Its terms are taken in groups, which go on from one position of a window to the next, and from one channel to the
//! next. So groups of the weight lie beside each other where they are; in the panel they do because it is copied so: as many rows of the image as a group has terms are interleaved
//! (`legalize::interleaved`).
//!
//! Of what the panel has, its block and who shares it, decides [`panels`](super::panels); here an element has the bytes of the narrow type. What has no room in scratch or no instruction is done in lanes of 32 bits.
//! Measured on one core with AVX-512 (Zen 5), in us so and in lanes of 32 bits, windows of 3 x 3, bytes and `bf16`:
//!
//! | channels, results, side | bytes | `bf16` |
//! |---|---|---|
//! | 64, 64, 28 | 174, 811 | 278, 650 |
//! | 256, 256, 14 | 690, 2691 | 1302, 2187 |
//! | 512, 512, 7 | 796, 2960 | 1370, 2846 |
//! | 16, 16, 28 (5 x 5) | 51, 107 | 69, 110 |
//!
//! Always: made of the opts split, outermost, flatten, dot, stage, merge, vectorize, upcast and thread; if one is refused, nothing is done. Tested below and in tests/it/dot_products.rs.

use super::pack::attempt_copy;
use super::panels::{Panel, merge, move_outermost};
use super::product::{attempt, has_loop, load_of, share_blocks, upcast, vectorize};
use crate::DType;
use crate::ir::{DotKind, Op, UOp, postorder};
use crate::kernel::ranges::{closed_ranges, next_range_id, open_operands, range_id};
use crate::optimize::by_hand::Attempts;
use crate::optimize::by_hand::contraction::{Contraction, contractions, step_of_load};
use crate::optimize::by_hand::tile::{RegisterRoom, register_tile};
use crate::optimize::opt::Opt;
use crate::target::Target;

/// Registers that a tile leaves: one for the element of a row, and one for a product that an instruction of its own adds.
const REGISTERS_LEFT: u32 = 2;

/// What is copied, and who reads it.
pub(super) struct DotPanel {
    pub(super) panel: Panel,
    /// What is copied of, and the rows' operand.
    pub(super) memory: UOp,
    weights: UOp,
    /// The types of the rows' operand and of what is copied, if both are multiplied as memory has them.
    pub(super) plain: Option<[DType; 2]>,
    /// The loop over rows, and how many there are.
    pub(super) rows: (u32, i64),
    /// Terms of the reduction.
    pub(super) terms: i64,
    /// Columns of the innermost loop of a block, and of all of it.
    pub(super) width: i64,
    pub(super) all: i64,
}

/// Copies a panel in groups of terms, if a contraction wants one and the machine has an instruction for it; whether it did. Of several kinds the one with the most terms.
pub(crate) fn copy_dot_panel(choice: &mut Attempts<'_>) -> bool {
    let mut kinds: Vec<DotKind> = DotKind::ALL.into_iter().filter(|kind| choice.target.takes_dot(*kind)).collect();
    kinds.sort_by_key(|kind| std::cmp::Reverse(kind.group()));
    kinds.into_iter().any(|kind| {
        let bytes = kind.factors()[0].bytes();
        let found = contractions(&choice.kernel, |contraction| find(contraction, choice.target, bytes, kind.sums()));
        found.is_some_and(|panel| choice.all_or_none(|choice| make(choice, &panel, kind)))
    })
}

/// The panel that a contraction wants, if its factors have no more bytes, its sums are of that type, and the other factor lies along all of its terms.
pub(super) fn find(contraction: &Contraction<'_>, target: &Target, bytes: usize, sums: DType) -> Option<DotPanel> {
    let loads: Vec<UOp> =
        postorder(open_operands(contraction.reduction)).into_iter().filter(|node| node.op() == Op::Load).collect();
    let [first, second] = loads.as_slice() else { return None };
    let weights = if first == contraction.load { second } else { first };
    let is_narrow = |load: &UOp| load.dtype().bytes() <= bytes;
    let may_be = sums == contraction.reduction.dtype() && is_narrow(first) && is_narrow(second);
    let is_gated = contraction.load.src()[0].src().len() > 2;
    if !may_be || is_gated && !target.has_masked_memory || !lies_along(contraction, weights) {
        return None;
    }
    let mut all_rows = contraction.rows();
    let (Some(row), None) = (all_rows.next(), all_rows.next()) else { return None };
    let rows = row.src()[0].as_int()?;
    let panel = contraction.panel(target, bytes as i64)?;
    // Rows stand outside of the columns of a block, and there is no other loop.
    let nest: Vec<u32> = contraction.outputs.iter().map(range_id).filter(|id| !panel.is_outside(*id)).collect();
    let is_nest = nest.first() == Some(&range_id(row)) && nest[1..].iter().all(|id| panel.columns.contains(id));
    if !is_nest || panel.terms_last || panel.terms.len() != closed_ranges(contraction.reduction).len() {
        return None;
    }
    let of_range = |id: &u32| contraction.outputs.iter().find(|range| range_id(range) == *id);
    let width = of_range(panel.columns.last()?)?.src()[0].as_int()?;
    let all = panel.columns_of_block(contraction.outputs)?;
    let memory = contraction.load.src()[0].src()[0].clone();
    let lengths = closed_ranges(contraction.reduction).iter().map(|range| range.src()[0].as_int());
    let terms = lengths.product::<Option<i64>>()?;
    let plain = multiplied_as_they_are(contraction.reduction, [weights, contraction.load]);
    let weights = weights.src()[0].src()[0].clone();
    let rows = (range_id(row), rows);
    (memory != weights).then_some(DotPanel { panel, memory, weights, plain, rows, terms, width, all })
}

/// The types of two loads whose elements are multiplied as they are, but for a wider type.
pub(super) fn multiplied_as_they_are(reduction: &UOp, loads: [&UOp; 2]) -> Option<[DType; 2]> {
    let value = open_operands(reduction).first().filter(|value| value.op() == Op::Mul)?;
    let is_factor = |load: &UOp| value.src().iter().any(|factor| factor.op() == Op::Cast && factor.src()[0] == *load);
    loads.iter().all(|load| is_factor(load)).then(|| loads.map(UOp::dtype))
}

/// Whether a load has all terms of a reduction side by side, as its loops run.
fn lies_along(contraction: &Contraction<'_>, load: &UOp) -> bool {
    let mut inside = Some(1);
    for range in closed_ranges(contraction.reduction).iter().rev() {
        let Some(step) = inside.filter(|step| step_of_load(load, range) == Some(*step)) else { return false };
        inside = range.src()[0].as_int().map(|len| len * step);
    }
    load.src()[0].src().len() == 2
}

/// Applies the opts, one after the other; `None` if one is refused.
fn make(choice: &mut Attempts<'_>, found: &DotPanel, kind: DotKind) -> Option<()> {
    let panel = &found.panel;
    let mut columns = panel.columns.clone();
    if let Some((range, len)) = panel.part {
        columns[0] = next_range_id(&choice.kernel);
        attempt(choice, Opt::Split { range, len: u32::try_from(len).ok()? })?;
    }
    move_outermost(choice, &panel.outside)?;
    for pair in panel.terms.windows(2).rev() {
        attempt(choice, Opt::Flatten { range: pair[0], inner: pair[1] })?;
    }
    let (terms, group) = (panel.terms[0], next_range_id(&choice.kernel));
    attempt(choice, Opt::Dot { range: terms, terms: kind.group() as u32 })?;
    let fill = next_range_id(&choice.kernel);
    let along: Vec<u32> = [terms].into_iter().chain(columns.iter().copied()).chain([group]).collect();
    let load = load_of(choice, &found.memory, terms, None)?;
    attempt_copy(choice, load, along).then_some(())?;
    fill_in_groups(choice, found, (fill + 1, &columns), kind.factors()[0].bytes() as i64, kind.group() as i64)?;
    // Terms that are left over read the image itself, which no loop over whole blocks walks.
    let last = columns[columns.len() - 1];
    let is_one = columns.len() == 1 || !has_loop(&choice.kernel, last);
    let (range, len) = if is_one { (columns[0], found.all) } else { (last, found.width) };
    let lanes = (i64::from(choice.target.vector_bytes) / kind.sums().bytes() as i64).min(1 << len.max(1).ilog2());
    let registers =
        RegisterRoom { registers: choice.target.vector_registers - REGISTERS_LEFT, values: 1, divides: false };
    let most = |len: i64| u32::try_from(len).unwrap_or(u32::MAX >> 1);
    let (vectors, tile_rows) = register_tile(&registers, most((len + lanes - 1) / lanes), most(found.rows.1));
    vectorize(choice, range, lanes)?;
    upcast(choice, range, i64::from(vectors))?;
    upcast(choice, found.rows.0, i64::from(tile_rows))?;
    compute_weights(choice, found, [terms, group], kind);
    share_blocks(choice, panel.outside.len());
    Some(())
}

/// Lanes of the copy, whose loops over columns begin with that number, and of which that over the terms of a group comes last: the narrow rows of the image, as many beside each other as a
/// group has terms. The columns of the block become one loop where memory is walked as one.
pub(super) fn fill_in_groups(
    choice: &mut Attempts<'_>,
    found: &DotPanel,
    (first, columns): (u32, &[u32]),
    bytes: i64,
    group: i64,
) -> Option<()> {
    merge(choice, columns);
    let of_columns = first + columns.len() as u32 - 1;
    let narrow = (i64::from(choice.target.vector_bytes) / bytes).min(found.width);
    let narrow = 1 << narrow.ilog2();
    vectorize(choice, of_columns, narrow)?;
    upcast(choice, of_columns, (found.width + narrow - 1) / narrow)?;
    upcast(choice, of_columns + 1, group)
}

/// Copies what is computed of the rows' operand alone for each tile of rows, as bytes that are shifted.
fn compute_weights(choice: &mut Attempts<'_>, found: &DotPanel, [terms, group]: [u32; 2], kind: DotKind) {
    let fill = next_range_id(&choice.kernel);
    let Some(load) = load_of(choice, &found.weights, terms, None) else { return };
    if choice.attempt(Opt::StageComputed { load, ranges: vec![terms, group] })
        && choice.attempt(Opt::Merge { range: fill, inner: fill + 1 })
    {
        let lanes = choice.target.vector_bytes / kind.factors()[0].bytes() as u32;
        choice.attempt(Opt::Vectorize { range: fill, lanes });
    }
}
