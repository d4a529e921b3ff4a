//! Copies that cross memory: what is loaded lies in order along one range, what is stored along another.
//!
//! ```text
//! for j / 16 { for i / 16 { lanes of 16 * j { for 16 * i { y[i, j] = x[j, i] } } } }
//! ```
//!
//! A square of as many iterations of each range as a vector has lanes is loaded in whole vectors, turned around in registers and stored in whole vectors
//! (`legalize::transpose`). That is so for stores of outputs and for fills of local buffers, however many loops stand around the two. Where a side is shorter than a vector,
//! the square is as long as that side; then more iterations of the other side, and of the next loop of the store, make whole lines of memory.
//!
//! Always: loads of one kernel agree on the other range, or the first that is found is taken; lanes are never more than the shorter side.
//! Tested below, and by values of permutations in the test crate.

use super::Attempts;
use super::survey::{AccessPattern, InnerLoops, Survey};
use super::tile::Tile;
use crate::kernel::ranges::range_id;
use crate::optimize::opt::Opt;
use crate::target::Target;

/// Shortest side of a square: of a shorter one, loads of single elements are as cheap (`legalize::transpose`).
const SIDE_MIN: i64 = 4;
/// What turning a load around in registers is worth as lanes, where one in order counts 1, and one element by element takes 0.6 from that: two steps of
/// shuffles for each doubling of lanes, four of them with 16, beside a load and a store.
const TURNED: f64 = 0.5;
const ELEMENT_BY_ELEMENT: f64 = -0.6;

fn step(access: &AccessPattern, id: u32) -> i64 {
    access.steps.get(&id).map_or(0, |step| step.abs())
}

/// Whether lanes along one range cross a load that lies in order along another.
pub(crate) fn crosses(access: &AccessPattern, id: u32, other: u32) -> bool {
    !access.is_store && step(access, id) > 1 && step(access, other) == 1
}

/// Whether such a load is turned around, if there are `full` lanes: steps so short are loads of whole vectors and a choice of lanes (`legalize::strided`).
fn is_turned(survey: &Survey, access: &AccessPattern, id: u32, other: u32, full: i64) -> bool {
    crosses(access, id, other) && 2 * step(access, id) > full && survey.len(other) >= SIDE_MIN
}

/// By how much loads that a tile turns around are better than the score of lanes along an output range says.
pub(crate) fn score_of_turned(survey: &Survey, target: &Target, id: u32) -> f64 {
    if !survey.inner.is_empty() || target.blocks.is_some() {
        return 0.0;
    }
    let full = survey.full_lanes(target, id);
    let others: Vec<u32> = survey.outputs.iter().map(range_id).filter(|other| *other != id).collect();
    let turned = |access: &&AccessPattern| others.iter().any(|other| is_turned(survey, access, id, *other, full));
    let loads = survey.accesses.iter().filter(turned);
    loads.map(|access| (TURNED - ELEMENT_BY_ELEMENT) * access.weight).sum()
}

/// Lanes of a square: no more than its other side has, where there is one.
pub(crate) fn lanes_of_square(survey: &Survey, target: &Target, id: u32, lanes: u32) -> u32 {
    let full = survey.full_lanes(target, id);
    let turned = |other: &u32| survey.accesses.iter().any(|access| is_turned(survey, access, id, *other, full));
    let across = survey.outputs.iter().map(range_id).find(|other| *other != id && turned(other));
    match across {
        Some(other) if survey.inner.is_empty() && target.blocks.is_none() => shorter(lanes, survey.len(other)),
        _ => lanes,
    }
}

fn shorter(lanes: u32, side: i64) -> u32 {
    lanes.min(1 << side.max(1).ilog2())
}

/// The tile of a kernel without reductions that crosses memory, if it does.
pub(crate) fn square(survey: &Survey, target: &Target, id: u32, lanes: u32) -> Option<Tile> {
    let crossed = |other: u32| survey.accesses.iter().any(|access| crosses(access, id, other));
    let is_other = |other: &u32| *other != id && survey.len(*other) >= 2 && crossed(*other);
    let across = survey.outputs.iter().map(range_id).find(is_other)?;
    let len = survey.len(across);
    // Of rows shorter than a vector, as many as make whole lines.
    let full = survey.full_lanes(target, id);
    let is_short = survey.len(id) < full && target.blocks.is_none();
    let rows = if is_short { full.min(len / i64::from(lanes) * i64::from(lanes)) } else { i64::from(lanes) };
    Some(Tile { vectors: 1, row: Some((across, rows.max(i64::from(lanes)).min(len) as u32)), crosses: true })
}

/// Where rows of the result are shorter than a vector, as many squares beside each other as fill a line that is stored: the next rows lie behind them.
pub(crate) fn fill_lines(choice: &mut Attempts<'_>, survey: &Survey, row: u32, (id, lanes): (u32, u32)) {
    if !survey.inner.is_empty() {
        return;
    }
    let full = survey.full_lanes(choice.target, id);
    let next = |store: &AccessPattern| {
        let follows = |other: &u32| step(store, *other) == survey.len(id) && *other != row;
        survey.outputs.iter().map(range_id).find(follows).filter(|_| store.is_store && step(store, id) == 1)
    };
    let times = (full / survey.len(id).max(1)) as u32;
    if times >= 2
        && i64::from(lanes) == survey.len(id)
        && let Some(next) = survey.accesses.iter().find_map(next)
    {
        choice.attempt(Opt::Upcast { range: next, times: times.min(survey.len(next).max(1) as u32) });
    }
}

/// The loop of a fill that its lanes cross, with the lanes that the square then has. What is reduced inside has a tile of its own.
pub(crate) fn square_of_fill(
    survey: &Survey,
    target: &Target,
    fill: &InnerLoops,
    id: u32,
    lanes: u32,
) -> Option<(u32, u32)> {
    let holds_reductions = survey.inner.iter().any(|other| !other.is_local_buffer && other.is_inside(id));
    if !fill.is_local_buffer || holds_reductions || target.blocks.is_some() {
        return None;
    }
    let loads = || survey.accesses.iter().filter(|access| fill.holds(access));
    let turned =
        |other: &u32| *other != id && loads().any(|load| is_turned(survey, load, id, *other, i64::from(lanes)));
    let across = fill.ranges.iter().map(range_id).find(turned)?;
    Some((across, shorter(lanes, survey.len(across))))
}

#[cfg(test)]
mod tests {
    use crate::ir::text::parse;
    use crate::optimize::Opts;
    use crate::pipeline::loops_of;
    use crate::target::Target;
    use crate::watch::Silent;

    fn opts(text: &str) -> String {
        let ast = parse(text).expect("a graph").roots[0].clone();
        Opts::List(crate::optimize::choose(&loops_of(&ast, &mut Silent), &Target::test_avx512()).applied).to_string()
    }

    fn permuted(shape: [i64; 4], order: [usize; 4]) -> String {
        let list = |numbers: &[i64]| numbers.iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
        let [new, order] = [order.map(|axis| shape[axis]), order.map(|axis| axis as i64)].map(|numbers| list(&numbers));
        let total: i64 = shape.iter().product();
        opts(&format!(
            "graph %permuted(y: f32[{total}], x: f32[{}]) {{
  v = permute x, ({order})
  w = reshape v, [{new}]
  done = store y, w
  k = sink done
  return k
}}",
            list(&shape)
        ))
    }

    #[test]
    fn squares_are_as_long_as_the_shorter_side() {
        let opts = permuted([8, 128, 64, 32], [3, 2, 1, 0]);
        assert!(opts.starts_with("vectorize(r3, 8), upcast(r0, 16), upcast(r2, 2)"), "{opts}");
        let opts = permuted([4, 100, 100, 12], [0, 3, 1, 2]);
        assert!(opts.starts_with("vectorize(r2, 8), upcast(r1, 8)"), "{opts}");
        let opts = permuted([4, 12, 100, 100], [0, 2, 3, 1]);
        assert!(opts.starts_with("vectorize(r3, 8), upcast(r1, 16)"), "{opts}");
    }

    #[test]
    fn steps_that_whole_vectors_hold_are_no_squares() {
        assert!(permuted([4, 3, 224, 224], [0, 2, 3, 1]).contains("upcast(r3, 3)"));
        assert!(permuted([4, 100, 100, 5], [0, 3, 1, 2]).starts_with("vectorize(r2, 16), upcast(r1, 5)"));
    }

    #[test]
    fn fills_that_cross_memory_are_done_by_squares() {
        let opts = opts(
            "graph %product(y: f32[32, 64, 10], x: f32[32, 64, 64], w: f32[32, 10, 64]) {
  a = reshape x, [32, 64, 1, 64]
  wide = expand a, [32, 64, 10, 64]
  b = reshape w, [32, 1, 10, 64]
  tall = expand b, [32, 64, 10, 64]
  p = mul wide, tall
  sum = reduce p, add (3)
  done = store y, sum
  k = sink done
  return k
}",
        );
        assert!(opts.starts_with("pack(r1, r3)"), "{opts}");
        assert!(opts.contains("vectorize(r5, 16), upcast(r4, 16)"), "{opts}");
    }
}
