//! Cutting the loops of a reduction in blocks: one loop is cut, and those inside of it stay whole.
//!
//! Tested by what is made of it (`panel_blocks`, `term_blocks`, `row_lanes`).

use super::product::attempt;
use crate::kernel::ranges::next_range_id;
use crate::optimize::by_hand::Attempts;
use crate::optimize::opt::Opt;

/// Which loop is cut, outermost first, and how many of its iterations a block has.
pub(super) type Cut = (usize, i64);

/// Cuts the terms; gives the loops inside of a block, outermost first.
pub(super) fn open_terms(choice: &mut Attempts<'_>, (number, part): Cut, terms: &[u32]) -> Option<Vec<u32>> {
    let mut inside: Vec<u32> = terms.to_vec();
    let cut = inside.remove(number);
    if part == 1 {
        return Some(inside);
    }
    let inner = next_range_id(&choice.kernel);
    attempt(choice, Opt::Split { range: cut, len: u32::try_from(part).ok()? })?;
    // A part of a split reduction stands innermost.
    for range in inside[number..].iter().rev() {
        attempt(choice, Opt::Reorder { range: *range, inner })?;
    }
    inside.insert(number, inner);
    Some(inside)
}
