//! Groups: a loop over results of which what is summed knows the quotient alone becomes two loops.
//!
//! ```text
//! for c in 0..16, x { reduce k { load p[(c // 8) * 640 + k * 10 + x] * load w[c * 64 + k] } }
//! for g in 0..2, c in 0..8, x { reduce k { load p[g * 640 + k * 10 + x] * load w[g * 512 + c * 64 + k] } }
//! ```
//!
//! So it is with a convolution by groups whose channels are one axis again, because something is done with its result, and with queries that share their keys.
//! The eight rows of a group share what they load, which a register tile and a panel can only see of a loop of their own.
//!
//! Always: made of the opt `split`, of lengths that leave nothing over. Tested below.

use crate::ir::{AxisKind, Op, UOp, postorder};
use crate::kernel::ranges::{closed_ranges, open_operands, range_id};
use crate::optimize::by_hand::Attempts;
use crate::optimize::opt::Opt;

/// Loops that are taken apart in one kernel, at most.
const SPLITS_MAX: usize = 4;

/// Takes loops over groups apart; whether there were any.
pub(crate) fn split_groups(choice: &mut Attempts<'_>) -> bool {
    let mut found = false;
    for _ in 0..SPLITS_MAX {
        let Some((range, len)) = find_group(&choice.kernel) else { break };
        if !choice.attempt(Opt::Split { range, len }) {
            break;
        }
        found = true;
    }
    found
}

/// A loop over results, and how many neighbours a load in a reduction is the same for.
fn find_group(root: &UOp) -> Option<(u32, u32)> {
    let is_output = |range: &UOp| {
        let is_loop = range.as_range().is_some_and(|arg| arg.kind == AxisKind::Loop);
        is_loop && root.src().iter().all(|store| closed_ranges(store).contains(range))
    };
    let nodes = postorder(std::slice::from_ref(root));
    let reductions = nodes.iter().filter(|node| node.op() == Op::ReduceRange);
    let summed = postorder(&reductions.flat_map(open_operands).cloned().collect::<Vec<_>>());
    summed.iter().filter(|node| node.op() == Op::Load).find_map(|load| {
        let index = postorder(&load.src()[0].src()[1..]);
        let ranges = index.iter().filter(|node| is_output(node));
        ranges.filter_map(|range| Some((range_id(range), neighbours(range, &index)?))).next()
    })
}

/// Of how many values of a range, from a multiple of their number on, an index knows nothing but that multiple.
fn neighbours(range: &UOp, index: &[UOp]) -> Option<u32> {
    let mut divisors = index.iter().filter(|node| node.src().contains(range)).map(|node| match node.op() {
        Op::IDiv if node.src()[0] == *range => node.src()[1].as_int(),
        _ => None,
    });
    let divisor = divisors.next()??;
    let len = range.src()[0].as_int()?;
    let is_same = divisors.all(|other| other == Some(divisor));
    (is_same && (2..len).contains(&divisor) && len % divisor == 0).then(|| u32::try_from(divisor).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::text::parse;
    use crate::optimize::choose;
    use crate::pipeline::loops_of;
    use crate::target::Target;
    use crate::watch::Silent;

    /// The opts of a convolution of 2 groups whose result gets a number for each of its channels, `more` behind their axis.
    fn opts_of_groups(each: i64, shape: &str) -> Vec<Opt> {
        let channels = 2 * each;
        let text = format!(
            "graph %c(z: f32[{channels}, 60], x: f32[2, 32, 62], w: f32[2, {each}, 32, 3], b: f32[{channels}, 1]) {{
  v = as_strided x, [2, 1, 60, 32, 3] strides [1984, 0, 1, 62, 1] offset 0
  e = expand v, [2, {each}, 60, 32, 3]
  f = reshape w, [2, {each}, 1, 32, 3]
  g = expand f, [2, {each}, 60, 32, 3]
  m = mul e, g
  y = reduce m, add (3, 4)
  r = reshape y, [{shape}]
  a = expand b, [{channels}, 60]
  s = add r, a
  done = store z, s
  k = sink done
  return k
}}"
        );
        let ast = parse(&text).expect("a graph").roots[0].clone();
        choose(&loops_of(&ast, &mut Silent), &Target::test_avx2()).applied
    }

    #[test]
    fn channels_of_a_group_are_a_loop() {
        let opts = opts_of_groups(8, "16, 60");
        assert!(matches!(opts.first(), Some(Opt::Split { len: 8, .. })), "{opts:?}");
        assert!(opts.iter().any(|opt| matches!(opt, Opt::Vectorize { .. })), "{opts:?}");
    }
}
