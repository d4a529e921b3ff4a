//! Loops of which neighbouring iterations take turns, as those over integers that lie two in a byte: each iteration asks for its number divided by two, and whether that
//! leaves a rest.
//!
//! Read as it is, such a loop has no lanes: no address goes evenly along it. Split by what it is divided by, with the inner part written out, each turn knows what it
//! does, and the outer part goes evenly:
//!
//! ```text
//! reduce k in 0..32 { load p[k / 2]; where k % 2 < 1 .. }        reduce k in 0..16 { load p[k]; low bits .. ; high bits .. }
//! ```
//!
//! Loops of reductions and of the fills of local buffers alone: those over results have ways of their own (`cuts`, `fill_between`).
//!
//! Always: made of the opts split and upcast; if one is refused, nothing is done. Tested below, and by the values of packed weights in the test crate.

use crate::ir::{AxisKind, Op, UOp};
use crate::kernel::ranges::{Dependencies, all_ranges, closed_ranges, next_range_id, range_id};
use crate::lower::loops::is_serial;
use crate::optimize::by_hand::Attempts;
use crate::optimize::opt::Opt;
use crate::symbolic::linear_terms;

/// Turns that are written out, at most.
const TURNS_MAX: i64 = 4;
/// Iterations of the outer part, at least: they should be lanes.
const OUTER_MIN: i64 = 4;
/// Loops of one kernel that are split, at most.
const LOOPS_MAX: usize = 4;

/// Splits the loops of a kernel that take turns; whether there were some.
pub(crate) fn split_turns(choice: &mut Attempts<'_>) -> bool {
    let mut done = false;
    for _ in 0..LOOPS_MAX {
        let Some((range, turns)) = find_turns(&choice.kernel) else { break };
        let (before, applied) = (choice.kernel.clone(), choice.applied.len());
        let inner = next_range_id(&choice.kernel);
        let is_split = choice.attempt(Opt::Split { range, len: turns })
            && choice.attempt(Opt::Upcast { range: inner, times: turns });
        if !is_split {
            choice.kernel = before;
            choice.applied.truncate(applied);
            break;
        }
        done = true;
    }
    done
}

/// A loop that takes turns, and how many.
fn find_turns(root: &UOp) -> Option<(u32, u32)> {
    let dependencies = Dependencies::of(root);
    let of_results: Vec<u32> = root.src().iter().flat_map(closed_ranges).map(range_id).collect();
    all_ranges(root).iter().find_map(|range| {
        let kind = range.as_range().map(|arg| arg.kind)?;
        let is_inner = matches!(kind, AxisKind::Loop | AxisKind::Reduce) && !of_results.contains(&range_id(range));
        let turns = turns_of(range, &dependencies).filter(|_| is_inner && !is_serial(range))?;
        let len = range.src()[0].as_int()?;
        let fits = turns <= TURNS_MAX && len % turns == 0 && len / turns >= OUTER_MIN;
        Some((range_id(range), u32::try_from(turns).ok()?)).filter(|_| fits)
    })
}

/// What a range is divided by wherever it is divided, if that is one number and what stands beside the range is a multiple of it.
fn turns_of(range: &UOp, dependencies: &Dependencies) -> Option<i64> {
    let is_digit = |node: &&UOp| {
        let divides = matches!(node.op(), Op::IDiv | Op::Mod) && node.dtype().is_index();
        divides && dependencies.get(node).contains(range_id(range))
    };
    let mut turns = None;
    for node in dependencies.order.iter().filter(is_digit) {
        let divisor = node.src()[1].as_int().filter(|divisor| *divisor > 1)?;
        let (terms, constant) = linear_terms(&node.src()[0]);
        let is_even = terms.iter().all(|(term, factor)| match term == range {
            true => *factor == 1,
            false => factor % divisor == 0,
        });
        let is_it = terms.iter().any(|(term, _)| term == range) && constant % divisor == 0;
        if !is_it || !is_even || turns.is_some_and(|other| other != divisor) {
            return None;
        }
        turns = Some(divisor);
    }
    turns
}

#[cfg(test)]
mod tests {
    use crate::ir::text::parse;
    use crate::pipeline::loops_of;
    use crate::target::Target;
    use crate::watch::Silent;

    /// The opts for a sum of what lies two in a byte, times a row.
    fn opts(terms: i64) -> String {
        let bytes = terms / 2;
        let text = format!(
            "graph %nibbles(y: f32[64], x: f32[{terms}], w: u8[64, {bytes}]) {{
  i = iota [2]
  j = reshape i, [1, 1, 2]
  k = expand j, [64, {bytes}, 2]
  is_low = lt k, 1
  a = and w, 15
  a1 = reshape a, [64, {bytes}, 1]
  low = pad a1, [0:0, 0:0, 0:1]
  b = shr w, 4
  b1 = reshape b, [64, {bytes}, 1]
  high = pad b1, [0:0, 0:0, 1:0]
  both = where is_low, low, high
  line = reshape both, [64, {terms}]
  v: f32 = cast line
  x1 = reshape x, [1, {terms}]
  wide = expand x1, [64, {terms}]
  p = mul v, wide
  s = reduce p, add (1)
  done = store y, s
  sunk = sink done
  return sunk
}}"
        );
        let ast = parse(&text).expect("a graph").roots[0].clone();
        let choice = crate::optimize::choose(&loops_of(&ast, &mut Silent), &Target::test_avx512());
        crate::optimize::Opts::List(choice.applied).to_string()
    }

    #[test]
    fn what_lies_two_in_a_byte_has_lanes() {
        let opts = opts(256);
        assert!(opts.starts_with("split(r1, 2), upcast(r2, 2), vectorize(r1, 16)"), "{opts}");
    }

    #[test]
    fn a_short_loop_is_left_as_it_is() {
        assert!(!opts(6).contains("split"), "{}", opts(6));
    }
}
