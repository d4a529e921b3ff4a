//! Short rows: where rows have fewer elements than a vector has lanes, vectors go on into the next rows.
//!
//! ```text
//! for n in 0..1000, c in 0..3 { y[n * 3 + c] = f(x[n * 3 + c], b[c]) }
//! for n in 0..1000 by 16 { 48 elements, as three vectors: of x and y whole ones, of b the lanes 0 1 2 0 1 2 .., which no iteration changes }
//! ```
//!
//! A block is as many rows as fill vectors to the last lane: then each lane knows its position in a row, and what a load asks for along the row, or along the rows, is a choice
//! of lanes that is the same in all blocks (`legalize::strided`).
//!
//! Always: made of the opts split, flatten, vectorize and upcast, for kernels without reductions whose stores follow the rows; if one of the opts is refused, nothing is done.
//! Left as it is: what asks for conditions along the rows, or for elements further from each other than a few vectors. Tested below, and by programs of short rows
//! in the test crate.

use crate::ir::{AxisKind, Op, UOp, gcd, postorder};
use crate::kernel::ranges::{Dependencies, closed_ranges, next_range_id, range_id};
use crate::optimize::by_hand::Attempts;
use crate::optimize::by_hand::survey::{AccessPattern, Survey};
use crate::optimize::opt::Opt;
use crate::target::Target;

/// Ops of a block, each vector's own counted: twice what a body has that is repeated only to hide its loop.
const OPS_MAX: i64 = 256;
/// Vectors, at most, among which the lanes of one are chosen.
const REACH: i64 = 4;

/// Rows that follow each other in memory: the loops of a row, outermost first, and the loop over rows.
struct Rows {
    row: Vec<UOp>,
    over: UOp,
    /// Elements of a row.
    len: i64,
}

/// Lets vectors go over the ends of short rows; whether there are such.
pub(crate) fn join_short_rows(choice: &mut Attempts<'_>, survey: &Survey, target: &Target) -> bool {
    choice.all_or_none(|choice| join_rows(choice, survey, target))
}

fn join_rows(choice: &mut Attempts<'_>, survey: &Survey, target: &Target) -> Option<()> {
    let lanes = i64::from(survey.lanes_of_widest(target, i64::MAX));
    let rows = short_rows(&choice.kernel, survey, lanes)?;
    let vectors = rows.len / gcd(rows.len, lanes);
    let rows_of_block = vectors * lanes / rows.len;
    if survey.len(range_id(&rows.over)) < rows_of_block || i64::from(survey.body_ops) * vectors > OPS_MAX {
        return None;
    }
    if !survey.accesses.iter().all(|access| follows(access, &rows, lanes)) || asks_conditions(&choice.kernel, &rows) {
        return None;
    }
    let mut row = range_id(rows.row.last()?);
    for range in rows.row.iter().rev().skip(1).map(range_id) {
        choice.attempt(Opt::Flatten { range, inner: row }).then_some(())?;
        row = range;
    }
    let (over, len) = (range_id(&rows.over), u32::try_from(rows_of_block).ok()?);
    let block = match rows.over.src()[0].is_const(rows_of_block) {
        true => over,
        false => {
            let next = next_range_id(&choice.kernel);
            choice.attempt(Opt::Split { range: over, len }).then_some(next)?
        }
    };
    let mut attempt = |opt: Opt| choice.attempt(opt).then_some(());
    attempt(Opt::Flatten { range: block, inner: row })?;
    attempt(Opt::Vectorize { range: block, lanes: u32::try_from(lanes).ok()? })?;
    match vectors {
        ..2 => Some(()),
        _ => attempt(Opt::Upcast { range: block, times: u32::try_from(vectors).ok()? }),
    }
}

/// The rows of a kernel whose stores all follow them, if these are shorter than a vector.
fn short_rows(root: &UOp, survey: &Survey, lanes: i64) -> Option<Rows> {
    let [first, others @ ..] = root.src() else { return None };
    let loops = closed_ranges(first);
    let is_loop = |range: &UOp| range.as_range().is_some_and(|arg| arg.kind == AxisKind::Loop);
    if !survey.inner.is_empty()
        || !loops.iter().all(is_loop)
        || others.iter().any(|store| closed_ranges(store) != loops)
    {
        return None;
    }
    let follows = |range: &UOp, step: i64| {
        let mut stores = survey.accesses.iter().filter(|access| access.is_store);
        stores
            .all(|store| !store.irregular.contains(range_id(range)) && store.steps.get(&range_id(range)) == Some(&step))
    };
    let (mut row, mut len) = (Vec::new(), 1);
    for range in loops.iter().rev() {
        if !follows(range, len) {
            return None;
        }
        let own = range.src()[0].as_int();
        match own.map(|own| own.saturating_mul(len)) {
            Some(longer) if longer < lanes => {
                row.insert(0, range.clone());
                len = longer;
            }
            _ => return (!row.is_empty()).then(|| Rows { row, over: range.clone(), len }),
        }
    }
    None
}

/// Whether all lanes of a vector lie in a few vectors of what an access walks.
fn follows(access: &AccessPattern, rows: &Rows, lanes: i64) -> bool {
    let step = |range: &UOp| access.steps.get(&range_id(range)).copied().unwrap_or(0);
    let mut own = rows.row.iter().chain([&rows.over]);
    if own.any(|range| access.irregular.contains(range_id(range))) {
        return false;
    }
    let along =
        rows.row.iter().map(|range| step(range).saturating_mul(range.src()[0].max_value() - 1).saturating_abs());
    let over = step(&rows.over).saturating_abs().saturating_mul((lanes + rows.len - 1) / rows.len);
    along.fold(over, i64::saturating_add) <= REACH * lanes
}

/// Whether a condition depends on where a row or its element is.
fn asks_conditions(root: &UOp, rows: &Rows) -> bool {
    let dependencies = Dependencies::of(root);
    let own: Vec<u32> = rows.row.iter().chain([&rows.over]).map(range_id).collect();
    let varies = |node: &UOp| own.iter().any(|id| dependencies.get(node).contains(*id));
    let conditions = postorder(std::slice::from_ref(root)).into_iter().filter(|node| node.op() == Op::Lt);
    conditions.filter(|node| node.src()[0].dtype().is_index()).any(|node| varies(&node))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optimize::choose;
    use crate::pipeline::loops_of;
    use crate::watch::Silent;
    use crate::{DType, ir::Arg};

    /// The opts of what is computed from rows of so many elements and one number for each position in a row.
    fn opts_of(rows: i64, len: i64, other: impl Fn(&UOp) -> UOp) -> Vec<Opt> {
        let x = UOp::param(1, DType::F32, (rows * len) as u64).reshape([rows, len]);
        let value = &x + other(&x);
        let store = vec![UOp::param(0, DType::F32, (rows * len) as u64).reshape([rows, len]), value];
        let sink = UOp::sink([UOp::new(Op::Store, DType::VOID, store, Arg::None)]);
        choose(&loops_of(&sink, &mut Silent), &Target::test_avx512()).applied
    }

    fn bias(rows: i64, len: i64) -> UOp {
        UOp::param(2, DType::F32, len as u64).reshape([1, len]).expand([rows, len])
    }

    #[test]
    fn blocks_of_short_rows_are_whole_vectors() {
        for (len, rows, vectors) in [(3, 16, Some(3)), (5, 16, Some(5)), (2, 8, None), (12, 4, Some(3))] {
            let opts = opts_of(1000, len, |_| bias(1000, len));
            let split = opts.iter().find_map(|opt| if let Opt::Split { len, .. } = opt { Some(*len) } else { None });
            let lanes =
                opts.iter().find_map(|opt| if let Opt::Vectorize { lanes, .. } = opt { Some(*lanes) } else { None });
            let times =
                opts.iter().find_map(|opt| if let Opt::Upcast { times, .. } = opt { Some(*times) } else { None });
            assert_eq!((split, lanes, times), (Some(rows), Some(16), vectors), "{len}: {opts:?}");
        }
    }

    #[test]
    fn long_rows_and_columns_are_left() {
        let flattens = |opts: Vec<Opt>| opts.iter().any(|opt| matches!(opt, Opt::Flatten { .. }));
        assert!(!flattens(opts_of(1000, 48, |_| bias(1000, 48))));
        let columns = |_: &UOp| UOp::param(2, DType::F32, 3000).reshape([3, 1000]).permute(&[1, 0]);
        assert!(!flattens(opts_of(1000, 3, columns)));
        // Too few rows for a block.
        assert!(!flattens(opts_of(9, 3, |_| bias(9, 3))));
    }
}
