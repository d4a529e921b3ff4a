//! Loops that much of what is computed does not depend on: they move inside, so that it is computed once and not in each of their iterations.
//!
//! ```text
//! for n, channel, y { for x / 8 { where to read, from the grid at n, y, x; load image[n, channel, ..] } }
//! for n, y { for x / 8 { where to read, from the grid at n, y, x; for channel { load image[n, channel, ..] } } }
//! ```
//!
//! A value stands in the innermost loop that it depends on, so it is repeated by the loops around that one which it does not depend on. `Survey::cycles_in_order` counts
//! what all values take in some order of the loops; the loop is moved for which that is the least, if it is much less. Each of its iterations is in another line of
//! memory then, so all of these must stay in the first cache until the next vector comes.
//!
//! Always: only the order of loops over outputs changes, so every value is what it was. Tested below, and by filetests.

use crate::ir::Op;
use crate::kernel::ranges::range_id;
use crate::optimize::by_hand::Attempts;
use crate::optimize::by_hand::survey::Survey;
use crate::optimize::opt::Opt;
use crate::target::CACHE_LINE_BYTES;

/// How many times the cycles of the best order those of the given one must be: what strides cost is known roughly.
const WORTH: f64 = 1.5;
/// Cycles that a vector takes besides for each load and store that goes to another line with each iteration: no stream that the processor fetches ahead.
const LINE_CYCLES: f64 = 8.0;

/// Moves a loop inside of all others, if that saves much; `lanes` are those of a range.
pub(crate) fn move_repeating_inside(choice: &mut Attempts<'_>, survey: &Survey, vector_id: u32, lanes: u32) {
    let [store] = choice.kernel.src() else { return };
    let order: Vec<u32> = survey.outputs.iter().map(range_id).collect();
    let is_plain = survey.inner.is_empty() && !choice.kernel.contains(Op::Running) && store.op() == Op::Store;
    if !is_plain || order.len() < 2 || !crate::kernel::effects::memory_in_place(&choice.kernel).is_empty() {
        return;
    }
    let cycles = |order: &[u32]| survey.cycles_in_order(order, vector_id, lanes);
    let inside = |range: u32| -> Vec<u32> { order.iter().copied().filter(|id| *id != range).chain([range]).collect() };
    let stays_near = |range: &u32| {
        let lines = survey.accesses.iter().filter(|access| access.depends.contains(*range)).count() as i64;
        let bytes = survey.most(*range).saturating_mul(lines * CACHE_LINE_BYTES);
        bytes <= choice.target.cache_l1_bytes as i64 / 2
    };
    let movable = order.iter().take(order.len() - 1).copied().filter(|id| *id != vector_id).filter(stays_near);
    let best = movable.min_by(|a, b| cycles(&inside(*a)).total_cmp(&cycles(&inside(*b))));
    let of_lines = |range: u32| -> f64 {
        let accesses = survey.accesses.iter().filter(|access| access.depends.contains(range));
        accesses.map(|access| access.weight / f64::from(lanes) * LINE_CYCLES).sum()
    };
    let is_much = |range: &u32| {
        let (given, moved) = (cycles(&order), cycles(&inside(*range)));
        WORTH * moved < given && given - moved > of_lines(*range)
    };
    let Some(range) = best.filter(is_much) else { return };
    for outer in order.iter().rev().filter(|id| **id != range) {
        choice.attempt(Opt::Outermost { range: *outer });
    }
}

#[cfg(test)]
mod tests {
    use crate::ir::text::parse;
    use crate::optimize::Opts;
    use crate::pipeline::loops_of;
    use crate::target::Target;
    use crate::watch::Silent;

    /// The opts of an image of so many channels, of which the same is made in all of them: what `shared` computes from `g`.
    fn opts(channels: i64, shared: &str) -> String {
        let text = format!(
            "graph %sampled(y: f32[4, {channels}, 32, 32], x: f32[4, {channels}, 32, 32], g: f32[4, 1, 32, 32]) {{
{shared}
  w = expand v, [4, {channels}, 32, 32]
  p = mul x, w
  done = store y, p
  k = sink done
  return k
}}"
        );
        let ast = parse(&text).expect("a graph").roots[0].clone();
        Opts::List(crate::optimize::choose(&loops_of(&ast, &mut Silent), &Target::test_avx2()).applied).to_string()
    }

    const MUCH: &str = "  a = exp2 g\n  b = sin a\n  v = log2 b";

    #[test]
    fn what_channels_have_in_common_is_computed_once() {
        let opts = opts(16, MUCH);
        assert!(opts.contains("outermost(r2), outermost(r0)"), "{opts}");
    }

    #[test]
    fn loops_stay_where_little_is_saved_or_lines_are_too_many() {
        assert!(!opts(16, "  v = mul g, 2.0").contains("outermost"));
        assert!(!opts(2048, MUCH).contains("outermost"));
    }
}
