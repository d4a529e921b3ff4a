//! Do two accesses touch one element? Here every iteration is asked, where offsets are no sums that `equation` understands.
//!
//! ```text
//! for r in 0..7                                stores x[10 + i % 5 - i // 5 * 5] for i = 2r and i = 2r + 1
//! after it                                     loads  x[4]
//! ```
//!
//! The offsets are computed in each iteration of the loops, lane by lane; the elements that the load touches are noted with the iteration of
//! the shared loops, and the store's are looked up among them. Where there are too many iterations, those at both ends of each loop stand
//! for all. An offset that depends on a value in memory is not known here; a gate that does counts as open.
//!
//! Tested below with lists that are right and lists that are wrong.

use rustc_hash::FxHashMap;

use super::{Found, MemoryAccess, Values, length};
use crate::dtype::Scalar;
use crate::ir::{Arg, Evaluator, Op, Sources, UOp, postorder_until};

/// Iterations, lanes counted one by one, for which the offsets of one access are computed at most.
const ITERATIONS_MAX: usize = 1 << 16;

/// In which iterations of the shared loops a load touches an element.
#[derive(Clone, Copy, PartialEq, Eq)]
enum When {
    In(usize),
    InSeveral,
}

/// Compares the elements of a load and a store in all iterations. The first `shared` loops of both are the same.
pub(super) fn compare([load, store]: [&MemoryAccess; 2], shared: usize, is_first: bool, values: &Values<'_>) -> Found {
    let (loaded, stored) = (Offsets::of(load.index, values), Offsets::of(store.index, values));
    let (Some(mut loaded), Some(mut stored)) = (loaded, stored) else { return Found::Unknown };
    let all_loops: Vec<&UOp> = load.loops.iter().chain(&store.loops[shared..]).copied().collect();
    let mut lengths: Vec<usize> = all_loops.iter().map(|range| length(range, values) as usize).collect();
    let full = lengths.clone();
    let own = load.loops.len();
    let count = |lengths: &[usize], lanes: usize, of_load: bool| {
        let numbers = (0..lengths.len()).filter(|&n| if of_load { n < own } else { n < shared || n >= own });
        numbers.fold(lanes, |product, n| product.saturating_mul(lengths[n]))
    };
    while count(&lengths, loaded.lanes, true).max(count(&lengths, stored.lanes, false)) > ITERATIONS_MAX {
        let Some(longest) = lengths.iter_mut().max().filter(|longest| **longest > 2) else { return Found::Unknown };
        *longest = longest.div_ceil(2);
    }
    let samples = |n: usize| samples(full[n], lengths[n]);
    let mut touched: FxHashMap<i64, When> = FxHashMap::default();
    let of_load: Vec<(&UOp, Vec<i64>)> = (0..own).map(|n| (all_loops[n], samples(n))).collect();
    let of_store = (0..shared).chain(own..all_loops.len()).map(|n| (all_loops[n], samples(n))).collect::<Vec<_>>();
    let known = loaded.each(&of_load, shared, |iteration, element| {
        let when = touched.entry(element).or_insert(When::In(iteration));
        if *when != When::In(iteration) {
            *when = When::InSeveral;
        }
        true
    });
    if !known {
        return Found::Unknown;
    }
    let mut found = Found::Nothing;
    let known = stored.each(&of_store, shared, |iteration, element| {
        let comes_too_late = touched.get(&element).is_some_and(|when| !is_first || *when != When::In(iteration));
        if comes_too_late {
            found = Found::Conflict;
        }
        !comes_too_late
    });
    if known { found } else { Found::Unknown }
}

/// `count` numbers below `length`: from both ends.
fn samples(length: usize, count: usize) -> Vec<i64> {
    let first = count.div_ceil(2);
    (0..first).chain(length - (count - first)..length).map(|number| number as i64).collect()
}

/// The offsets and gates of an access, ready to be computed.
struct Offsets<'a> {
    evaluator: Evaluator,
    lanes: usize,
    /// Whether a gate follows each offset.
    is_gated: bool,
    values: &'a Values<'a>,
}

impl<'a> Offsets<'a> {
    /// `None` if an offset is no arithmetic on loop variables.
    fn of(index: &UOp, values: &'a Values<'a>) -> Option<Offsets<'a>> {
        let (offset, gate) = (&index.src()[1], index.src().get(2));
        let is_known = |leaf: &UOp| leaf.op() == Op::Range || values.contains_key(leaf);
        let lanes = index.dtype().lanes();
        // A vector at one offset is that many elements in a row.
        let is_row = offset.dtype().lanes() == 1;
        let mut roots = Vec::new();
        for lane in 0..lanes {
            let one = in_lane(offset, lane)?;
            roots.push(if is_row { one + lane as i64 } else { one });
            if let Some(gate) = gate {
                roots.push(known_part(&in_lane(gate, lane)?, &is_known));
            }
        }
        let evaluator = Evaluator::new(&roots);
        let all_known = evaluator.leaves().iter().all(is_known);
        all_known.then_some(Offsets { evaluator, lanes, is_gated: gate.is_some(), values })
    }

    /// Gives each element that is touched, with the number of the iteration of the first `shared` loops, until `visit` has enough.
    /// Whether all offsets that it got to could be computed.
    fn each(&mut self, loops: &[(&UOp, Vec<i64>)], shared: usize, mut visit: impl FnMut(usize, i64) -> bool) -> bool {
        let total: usize = loops.iter().map(|(_, samples)| samples.len()).product();
        let inner: usize = loops[shared..].iter().map(|(_, samples)| samples.len()).product();
        for number in 0..total {
            let mut rest = number;
            let mut at: FxHashMap<&UOp, i64> = FxHashMap::default();
            for (range, samples) in loops.iter().rev() {
                at.insert(range, samples[rest % samples.len()]);
                rest /= samples.len();
            }
            let value = |leaf: &UOp| at.get(leaf).copied().or_else(|| self.values.get(leaf).map(|value| *value as i64));
            let leaves = self.evaluator.leaves().iter().map(|leaf| value(leaf).map(Scalar::Int));
            // A gate may name a loop that is not open, if the compiler is wrong.
            let Some(leaves) = leaves.collect::<Option<Vec<Scalar>>>() else { return false };
            let Some(results) = self.evaluator.evaluate(&leaves) else { return false };
            for lane in results.chunks(1 + self.is_gated as usize) {
                let is_touched = lane.get(1).is_none_or(|gate| gate.to_bool());
                if is_touched && !visit(number / inner, lane[0].to_i64()) {
                    return true;
                }
            }
        }
        true
    }
}

/// A gate without its conditions on values in memory: at least where the gate lets through.
fn known_part(gate: &UOp, is_known: &dyn Fn(&UOp) -> bool) -> UOp {
    if let (Op::And, [a, b]) = (gate.op(), gate.src()) {
        return known_part(a, is_known) & known_part(b, is_known);
    }
    let evaluator = Evaluator::new(std::slice::from_ref(gate));
    if evaluator.leaves().iter().all(is_known) { gate.clone() } else { UOp::bool(true) }
}

/// What a vector has in one lane, as an expression of scalars.
fn in_lane(root: &UOp, lane: usize) -> Option<UOp> {
    let mut done: FxHashMap<UOp, UOp> = FxHashMap::default();
    for node in postorder_until(std::slice::from_ref(root), |node| node.dtype().lanes() == 1) {
        let operand = |number: usize| done[&node.src()[number]].clone();
        let one = match node.op() {
            _ if node.dtype().lanes() == 1 => node.clone(),
            Op::Splat => operand(0),
            Op::Ramp => {
                let Arg::Number(stride) = node.arg() else { return None };
                operand(0) + lane as i64 * stride
            }
            Op::Stack if node.src().len() == node.dtype().lanes() => operand(lane),
            op if op.is_elementwise() || op == Op::Const => {
                let src: Sources = (0..node.src().len()).map(operand).collect();
                UOp::new(op, node.dtype().element(), src, node.arg().clone())
            }
            _ => return None,
        };
        done.insert(node, one);
    }
    done.remove(root)
}

#[cfg(test)]
mod tests {
    use crate::linearize::{effects, text};

    /// A loop that stores elements of two rows of five, backward row by row, and then loads and stores `one more`.
    fn rows_backward(len: i64, one_more: i64, gate: &str) -> Result<(), String> {
        let list = format!(
            "linear %rows(f32[{size}] readwrite) grid 1 {{
              half: i64 = const {half}
              first: i64 = const {first}
              five: i64 = const 5
              fifteen: i64 = const 15
              last: i64 = const {one_more}
              p0: f32 = param #0 [{size}]
              r0: i64 = range half, loop #0
                v0: i64x2 = ramp r0, #1
                v1: i64x2 = splat r0
                v2: i64x2 = add v0, v1
                v3: i64x2 = splat five
                v4: i64x2 = cmod v2, v3
                v5: i64x2 = cdiv v2, v3
                v6: i64x2 = mul v5, v3
                v7: i64x2 = sub v4, v6
                v8: i64x2 = splat first
                v9: i64x2 = add v7, v8
                v10: i64x2 = splat fifteen
                v11: boolx2 = lt v9, v10
                v12: f32x2 = index p0, v9{gate}
                v13: f32x2 = load v12
                v14: f32x2 = exp2 v13
                v15 = store v12, v14
              v16 = end r0
              v17 = index p0, last
              v18 = load v17
              v19 = exp2 v18
              v20 = store v17, v19
            }}",
            size = len + 5,
            half = len / 2,
            first = len / 5 * 5,
        );
        effects::check(&text::parse(&list).unwrap_or_else(|error| panic!("{error}\n{list}")).ops)
    }

    #[test]
    fn quotients_of_sums_are_asked_in_every_iteration() {
        // Elements 10 to 14, 5 to 9 and 0 to 3 are stored: 4 is left, and so is what stands beyond.
        assert_eq!(rows_backward(14, 4, ""), Ok(()));
        assert_eq!(rows_backward(14, 15, ""), Ok(()));
        for stored in [0, 3, 5, 14] {
            let error = rows_backward(14, stored, "").expect_err("a load of what the loop has stored");
            assert!(error.ends_with("it comes later"), "{error}");
        }
        // A gate that lets nothing past element 14 through changes nothing below it.
        assert_eq!(rows_backward(24, 15, ", v11"), Ok(()));
        let error = rows_backward(24, 14, ", v11").expect_err("a load of what the loop has stored");
        assert!(error.ends_with("it comes later"), "{error}");
        assert_eq!(rows_backward(24, 15, "").map_err(|error| error.ends_with("it comes later")), Err(true));
        // Far more iterations than are asked: what the first and the last store is found.
        assert_eq!(rows_backward(999_994, 4, ""), Ok(()));
        assert_eq!(rows_backward(999_994, 3, "").map_err(|error| error.ends_with("it comes later")), Err(true));
    }

    #[test]
    fn digits_of_one_loop_that_no_iteration_has_together_are_no_conflict() {
        // Elements 16 i - 2 (i % 3) + 17 for i below 18: 285 is the last, though 16 * 17 + 17 is 289.
        let check = |element: i64| {
            let list = format!(
                "linear %digits(f32[300] readwrite) grid 1 {{
                  eighteen: i64 = const 18
                  three: i64 = const 3
                  two: i64 = const 2
                  sixteen: i64 = const 16
                  first: i64 = const 17
                  last: i64 = const {element}
                  p0: f32 = param #0 [300]
                  r0: i64 = range eighteen, loop #0
                    v0 = mul r0, sixteen
                    v1 = cmod r0, three
                    v2 = mul v1, two
                    v3 = sub v0, v2
                    v4 = add v3, first
                    v5 = index p0, v4
                    v6 = load v5
                    v7 = store v5, v6
                  v8 = end r0
                  v9 = index p0, last
                  v10 = load v9
                  v11 = store v9, v10
                }}"
            );
            effects::check(&text::parse(&list).expect("a list").ops)
        };
        assert_eq!(check(289), Ok(()));
        let error = check(285).expect_err("a load of what the loop has stored");
        assert!(error.ends_with("it comes later"), "{error}");
    }
}
