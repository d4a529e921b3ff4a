//! Applies opts to a kernel in loop form, or says why not.
//!
//! [`apply`] never panics: any opt may be asked of any kernel, after any others. An opt that is applied keeps the kernel's values, and what
//! comes of it is within the limits of the target and of this compiler (`limits`). Tested in the test crate, by random lists of opts on
//! random kernels.

use super::limits;
use super::opt::{Opt, Reason, Refused};
use super::transforms::block::block;
use super::transforms::dots::add_up_terms;
use super::transforms::flatten::flatten;
use super::transforms::frame::frame_load;
use super::transforms::keep_shared::keep_shared;
use super::transforms::map;
use super::transforms::masked::split_masked;
use super::transforms::matrices::{self, TileRanges};
use super::transforms::nesting;
use super::transforms::owners;
use super::transforms::peel::peel;
use super::transforms::recompute::recompute;
use super::transforms::split::{check_vectorizable, split};
use super::transforms::stage;
use super::transforms::tiles;
use crate::ir::{AxisKind, MemorySpace, UOp};
use crate::lower::loops::{self, is_serial, ranges_by_id};
use crate::optimize::by_hand::Choice;
use crate::target::Target;

/// The kernel after one opt.
///
/// # Errors
/// [`Refused`] with the reason, if the opt does not fit the kernel or the target.
pub fn apply(root: &UOp, opt: &Opt, target: &Target) -> Result<UOp, Refused> {
    try_apply(root, opt, target).map_err(|reason| Refused { opt: opt.clone(), reason })
}

/// The kernel after a list of opts, each applied to what the one before it left.
///
/// # Errors
/// The first that is refused.
pub fn apply_list(root: &UOp, list: &[Opt], target: &Target) -> Result<Choice, Refused> {
    let mut kernel = root.clone();
    for opt in list {
        kernel = apply(&kernel, opt, target)?;
    }
    Ok(Choice { kernel, applied: list.to_vec(), reasons: Vec::new() })
}

fn try_apply(root: &UOp, opt: &Opt, target: &Target) -> Result<UOp, Reason> {
    limits::check_request(root, opt, target)?;
    matrices::check_may_follow(root, opt)?;
    let ranges = ranges_by_id(root);
    let find = |id: &u32| match ranges.get(id) {
        Some(range) if is_serial(range) => Err(Reason::from("the iterations of the loop come in order")),
        Some(range) => Ok(range.clone()),
        None => Err(Reason::NoRange(*id)),
    };
    let all = |ids: &[u32]| -> Result<Vec<UOp>, Reason> { ids.iter().map(find).collect() };
    let new = match opt {
        Opt::Vectorize { range, lanes } => {
            let range = find(range)?;
            check_vectorizable(root, &range)?;
            split(root, &range, *lanes, AxisKind::Vector, target)?
        }
        Opt::Upcast { range, times } => split(root, &find(range)?, *times, AxisKind::Unroll, target)?,
        Opt::Dot { range, terms } => add_up_terms(root, &find(range)?, *terms, target)?,
        Opt::Split { range, len } => {
            let range = find(range)?;
            let kind = range.as_range().map_or(AxisKind::Loop, |arg| arg.kind);
            split(root, &range, *len, kind, target)?
        }
        Opt::SplitMasked { range, len } => split_masked(root, &find(range)?, *len)?,
        Opt::Recompute { load } => recompute(root, *load)?,
        Opt::KeepShared { load, pad } => keep_shared(root, *load, *pad)?,
        Opt::MaterializeReductions { range } => stage::materialize_reductions(root, &find(range)?)?,
        Opt::Pack { lane, row } => stage::pack(root, &find(lane)?, &find(row)?)?,
        Opt::Stage { load, ranges } => stage::stage_load(root, *load, &all(ranges)?, MemorySpace::Private, target)?,
        Opt::StageComputed { load, ranges } => stage::stage_computed(root, *load, &all(ranges)?, target)?,
        Opt::Frame { load, ranges } => frame_load(root, *load, &all(ranges)?, target)?,
        Opt::Accumulate { range, along } => block(root, &find(range)?, &all(along)?, target)?,
        Opt::StageShared { load, ranges } => {
            stage::stage_load(root, *load, &all(ranges)?, MemorySpace::Shared, target)?
        }
        Opt::StagePadded { load, pad, ranges } => stage::stage_padded(root, *load, &all(ranges)?, *pad, target)?,
        Opt::StageAhead { load, pad, ranges } => stage::stage_ahead(root, *load, &all(ranges)?, *pad, target)?,
        Opt::Flatten { range, inner } => flatten(root, &find(range)?, &find(inner)?)?,
        Opt::MultiplyMatrices { rows, columns, terms } => {
            let [rows, columns, terms] = [find(rows)?, find(columns)?, find(terms)?];
            matrices::multiply_matrices(root, &TileRanges { rows: &rows, columns: &columns, terms: &terms })?
        }
        Opt::MultiplyTiles { rows, columns, groups, terms } => {
            let [rows, columns, groups, terms] = [find(rows)?, find(columns)?, find(groups)?, find(terms)?];
            tiles::multiply_tiles(root, &tiles::Sides { rows, columns, groups, terms }, target)?
        }
        Opt::OwnerComputes { range, owners } => {
            let sources = ranges.get(range).ok_or(Reason::NoRange(*range))?;
            owners::owner_computes(root, sources, *owners)?
        }
        Opt::Map { range, index } => map::to_index(root, &find(range)?, index.kind())?,
        Opt::Group { range, dim } => map::group(root, &find(range)?, *dim)?,
        Opt::Reorder { range, inner } => nesting::swap(root, &find(range)?, &find(inner)?)?,
        Opt::Peel { range, begin, end } => peel(root, &find(range)?, *begin, *end, target)?,
        Opt::Merge { range, inner } => loops::join(root, &find(range)?, &find(inner)?)?,
        Opt::Outermost { range } => nesting::make_outermost(root, &find(range)?)?,
        Opt::Thread { range } => nesting::make_parallel(root, &[find(range)?])?,
        Opt::ThreadPair { range, inner } => nesting::make_parallel(root, &[find(range)?, find(inner)?])?,
    };
    limits::check_result(root, &new, target)?;
    Ok(new)
}
