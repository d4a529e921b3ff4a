//! Products of matrices whose terms have several loops, as gradients of the weights of a convolution over images and positions: these loops become one, then tiles are made of it as
//! of any other (`shared_tiles`). Not of a window that overlaps itself, as that of a convolution: a copy of all terms would hold its elements many times.
//!
//! Tested in the test crate, on the interpreter of linear lists and on the emulator of GPUs.

use super::blocks::Mark;
use super::shared_tiles::{Product, TERMS_AT_ONCE, find_product, tile_with_loops};
use crate::kernel::ranges::range_id;
use crate::optimize::by_hand::Attempts;
use crate::optimize::by_hand::survey::{AccessPattern, Survey};
use crate::optimize::opt::Opt;

/// Computes a product of matrices by tiles in shared memory; whether it did.
///
/// Where terms have several loops, as those of a gradient of weights over images and positions, these become one, of which a slice is copied while the one before is multiplied.
pub(crate) fn tile_product(choice: &mut Attempts<'_>) -> bool {
    let mark = Mark::of(choice);
    if flatten_terms(choice) && tile_with_loops(choice) {
        return true;
    }
    mark.restore(choice);
    tile_with_loops(choice)
}

/// Makes one loop of those of the only reduction, if there are several.
fn flatten_terms(choice: &mut Attempts<'_>) -> bool {
    let survey = Survey::of(&choice.kernel);
    let [reduction] = survey.inner.as_slice() else { return false };
    let loops: Vec<u32> = reduction.ranges.iter().map(range_id).collect();
    let Some((outermost, others)) = loops.split_first() else { return false };
    let is_long = survey.most(*loops.iter().max_by_key(|id| survey.most(**id)).unwrap_or(outermost)) >= TERMS_AT_ONCE;
    let is_product = find_product(&choice.kernel, &survey)
        .is_some_and(|product| !product.has_one_loop && !has_windows(&product, &survey, &loops));
    let joins =
        |choice: &mut Attempts<'_>, inner: &u32| choice.attempt(Opt::Flatten { range: *outermost, inner: *inner });
    is_product && is_long && others.iter().all(|inner| joins(choice, inner))
}

/// Whether what an operand has along rows or columns it has along the terms again, as the elements of a window: a copy of all terms would hold it many times.
fn has_windows(product: &Product, survey: &Survey, loops: &[u32]) -> bool {
    let overlaps = |access: &AccessPattern, side: u32, term: u32| {
        let [step, of_term] = [side, term].map(|id| access.steps.get(&id).copied().unwrap_or(0).abs());
        step > 0 && of_term > 0 && step % of_term == 0 && step / of_term < survey.most(term)
    };
    let mut loads = survey.accesses.iter().filter(|access| !access.is_store);
    loads.any(|access| {
        [product.rows, product.columns].iter().any(|side| loops.iter().any(|term| overlaps(access, *side, *term)))
    })
}
