//! Passes over loops before any choice is made: ranges of which indices take digits become two, reductions share loops, loops over outputs are
//! ordered by what stands in them, and adjacent loops that walk memory as one become one.

use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};

use crate::ir::{AxisKind, Op, Sources, UOp, substitute, with_mapped_sources};
use crate::kernel::ranges::{
    Dependencies, NewRanges, RangeSet, all_ranges, closed_ranges, inner_loop_ends, is_loop_end, next_range_id,
    open_operands, range_id, substitute_ranges,
};
use crate::symbolic::linear_terms;

/// Gives reductions of equal lengths one set of ranges where one loop can compute them all.
///
/// That is where neither needs the other's result and both stand in the same outer loops. The first is read off *levels*: a reduction's
/// level is one more than that of any reduction or local buffer in its value, so reductions of one level are independent. Mean and mean of squares
/// become one loop; the maximum and the sum of a softmax, which needs it, stay two.
pub fn share_loops(root: &UOp) -> UOp {
    let mut done: FxHashMap<UOp, UOp> = FxHashMap::default();
    let mut levels: FxHashMap<UOp, u32> = FxHashMap::default();
    let mut sets: FxHashMap<UOp, RangeSet> = FxHashMap::default();
    let mut shared: FxHashMap<(u32, Vec<UOp>, RangeSet), Sources> = FxHashMap::default();
    for node in crate::ir::postorder(std::slice::from_ref(root)) {
        let mut level = node.src().iter().map(|operand| levels[operand]).max().unwrap_or(0);
        let mut set = RangeSet::default();
        for operand in open_operands(&node) {
            set.union_with(&sets[operand]);
        }
        for range in closed_ranges(&node) {
            set.remove(range_id(range));
        }
        let mut new = with_mapped_sources(&node, |operand| &done[operand]);
        if node.op() == Op::Range {
            set.insert(range_id(&node));
        }
        if node.op() == Op::LocalBuffer {
            level += 1;
        }
        if node.op() == Op::ReduceRange {
            level += 1;
            let lengths: Vec<UOp> = closed_ranges(&node).iter().map(|range| range.src()[0].clone()).collect();
            let own: Sources = closed_ranges(&new).iter().cloned().collect();
            let common = shared.entry((level, lengths, set.clone())).or_insert_with(|| own.clone());
            if *common != own {
                let map: FxHashMap<UOp, UOp> = own.iter().cloned().zip(common.iter().cloned()).collect();
                new = substitute(&new, &map);
            }
        }
        levels.insert(node.clone(), level);
        sets.insert(node.clone(), set);
        done.insert(node, new);
    }
    done.remove(root).unwrap_or_else(|| root.clone())
}

/// Puts the loops over outputs in an order in which reductions and local buffers stand outside of the loops that they do not depend on.
///
/// A loop can stand outside of another only once. Where two want different orders, the one with more work has its way; what is left
/// keeps the order of the axes.
pub fn order_outputs(root: &UOp) -> UOp {
    let dependencies = Dependencies::of(root);
    let ranges = ranges_by_id(root);
    let mut outputs = RangeSet::default();
    root.src().iter().flat_map(closed_ranges).for_each(|range| outputs.insert(range_id(range)));
    let mut wishes: Vec<(f64, Vec<u32>)> = Vec::new();
    for loop_end in inner_loop_ends(&dependencies.order, root) {
        let set: Vec<u32> = dependencies.get(loop_end).iter().filter(|id| outputs.contains(*id)).collect();
        let around = dependencies.get(loop_end).iter().filter_map(|id| ranges.get(&id).cloned());
        let work = trip_count(around.chain(closed_ranges(loop_end).iter().cloned()));
        if !set.is_empty() {
            wishes.push((work, set));
        }
    }
    wishes.sort_by(|a, b| b.0.total_cmp(&a.0));
    let within = |a: &[u32], b: &[u32]| a.iter().all(|id| b.contains(id));
    let mut chain: Vec<Vec<u32>> = Vec::new();
    for (_, set) in wishes {
        if chain.iter().all(|other| within(&set, other) || within(other, &set)) {
            chain.push(set);
        }
    }
    chain.sort_by_key(Vec::len);
    // A running total has one register, so its loop is the innermost.
    let is_running = dependencies.order.iter().any(|node| matches!(node.op(), Op::Running | Op::Exchange));
    let rank = |range: &UOp| {
        let wished = chain.iter().position(|set| set.contains(&range_id(range))).unwrap_or(chain.len());
        (is_running && is_serial(range), wished)
    };
    let stores = root.src().iter().map(|store| {
        let mut closed = closed_ranges(store).to_vec();
        closed.sort_by_key(rank);
        store.with_src(open_operands(store).iter().cloned().chain(closed).collect::<Sources>())
    });
    UOp::sink(stores)
}

/// The maximal index expressions of a kernel as sums: all that a range's value matters to.
pub struct IndexSums {
    sums: Vec<(Vec<(UOp, i64)>, UOp)>,
}

impl IndexSums {
    /// Of every index expression that something else than an index expression uses.
    pub fn of(dependencies: &Dependencies) -> IndexSums {
        let mut roots: Vec<UOp> = Vec::new();
        let mut seen = rustc_hash::FxHashSet::default();
        for user in &dependencies.order {
            if user.dtype().is_index() && user.op() != Op::ReduceRange {
                continue;
            }
            for operand in open_operands(user) {
                if operand.dtype().is_index() && seen.insert(operand.clone()) {
                    roots.push(operand.clone());
                }
            }
        }
        IndexSums { sums: roots.into_iter().map(|root| (linear_terms(&root).0, root)).collect() }
    }

    /// Whether, wherever one of them matters, they stand for `outer * len + inner`.
    fn walk_as_one(&self, outer: &UOp, inner: &UOp, inner_len: i64, dependencies: &Dependencies) -> bool {
        self.sums.iter().all(|(terms, root)| {
            let set = dependencies.get(root);
            if !set.contains(range_id(outer)) && !set.contains(range_id(inner)) {
                return true;
            }
            let (mut outer_step, mut inner_step) = (0i64, 0i64);
            for (term, step) in terms {
                if term == outer {
                    outer_step += step;
                } else if term == inner {
                    inner_step += step;
                } else {
                    let set = dependencies.get(term);
                    if set.contains(range_id(outer)) || set.contains(range_id(inner)) {
                        return false;
                    }
                }
            }
            inner_step.checked_mul(inner_len) == Some(outer_step)
        })
    }
}

/// Joins adjacent ranges of the same loop ends into one where every index walks them as one.
pub fn merge_ranges(root: &UOp) -> UOp {
    let mut root = root.clone();
    while let Some(merged) = merge_once(&root) {
        root = merged;
    }
    root
}

fn merge_once(root: &UOp) -> Option<UOp> {
    let joining = Joining::of(root);
    let mut pairs: Vec<(UOp, UOp)> = Vec::new();
    for loop_end in joining.loop_ends() {
        for pair in closed_ranges(loop_end).windows(2) {
            let pair = (pair[0].clone(), pair[1].clone());
            if !pairs.contains(&pair) {
                pairs.push(pair);
            }
        }
    }
    pairs.iter().find_map(|(outer, inner)| joining.join(root, outer, inner).ok())
}

/// Two loops as one, if they are adjacent wherever either stands and every index walks them as one.
///
/// # Errors
/// Why not.
pub fn join(root: &UOp, outer: &UOp, inner: &UOp) -> Result<UOp, &'static str> {
    Joining::of(root).join(root, outer, inner)
}

/// What is asked of a kernel before two of its loops become one.
struct Joining {
    dependencies: Dependencies,
    sums: IndexSums,
}

impl Joining {
    fn of(root: &UOp) -> Joining {
        let dependencies = Dependencies::of(root);
        let sums = IndexSums::of(&dependencies);
        Joining { dependencies, sums }
    }

    fn loop_ends(&self) -> impl Iterator<Item = &UOp> {
        self.dependencies.order.iter().filter(|node| is_loop_end(node))
    }

    fn join(&self, root: &UOp, outer: &UOp, inner: &UOp) -> Result<UOp, &'static str> {
        let kinds = [outer, inner].map(|range| range.as_range().map(|range| range.kind));
        if kinds[0] != kinds[1] || !matches!(kinds[0], Some(AxisKind::Loop | AxisKind::Reduce)) {
            return Err("only two loops over outputs, or two of a reduction, can become one");
        }
        let (Some(outer_len), Some(inner_len)) = (outer.src()[0].as_int(), inner.src()[0].as_int()) else {
            return Err("a length is not a constant");
        };
        let always_adjacent = self.loop_ends().all(|loop_end| {
            let ranges = closed_ranges(loop_end);
            let outer_at = ranges.iter().position(|range| range == outer);
            let inner_at = ranges.iter().position(|range| range == inner);
            match (outer_at, inner_at) {
                (None, None) => true,
                (Some(outer_at), Some(inner_at)) => outer_at + 1 == inner_at,
                _ => false,
            }
        });
        if outer == inner || !always_adjacent {
            return Err("one loop does not stand directly in the other, or something stands in one of them alone");
        }
        let len = outer_len.checked_mul(inner_len).ok_or("the loop would be too long")?;
        if !self.sums.walk_as_one(outer, inner, inner_len, &self.dependencies) {
            return Err("an index does not walk the loops as one");
        }
        let kind = outer.as_range().map_or(AxisKind::Loop, |range| range.kind);
        let joined = UOp::range(len, range_id(outer), kind);
        let mut map = FxHashMap::default();
        // Every index holds outer * inner_len + inner, so giving outer 0 and inner the joined value gives the same number.
        map.insert(outer.clone(), NewRanges { value: UOp::index(0), ranges: SmallVec::new() });
        map.insert(inner.clone(), NewRanges { value: joined.clone(), ranges: smallvec![joined] });
        Ok(crate::symbolic::simplify(&substitute_ranges(root, &map)))
    }
}

/// Shorter loops would be left with less than a vector; the lanes of the whole range have digits that are constants.
const DIGITS_MIN: i64 = 16;

/// Takes ranges apart whose values are only needed as digits: where an index holds `r // c` or `r % c`, the loop over r becomes one over
/// the quotient around one over the remainder, and both are loop variables that walk memory evenly.
pub fn split_digits(root: &UOp) -> UOp {
    let mut root = root.clone();
    // Each round takes one range apart; what is left of it may have digits again.
    while let Some((range, base)) = range_of_digits(&root) {
        let next = next_range_id(&root);
        let (Some(len), Some(arg)) = (range.src()[0].as_int(), range.as_range()) else { break };
        let quotient = UOp::range(len / base, arg.id, arg.kind);
        let remainder = UOp::range(base, next, arg.kind);
        let mut map = FxHashMap::default();
        let value = &quotient * base + &remainder;
        map.insert(range.clone(), NewRanges { value, ranges: smallvec![quotient, remainder] });
        root = crate::symbolic::simplify(&substitute_ranges(&root, &map));
    }
    root
}

/// A range of which an index takes digits, and the base: the least one, of which all others are multiples.
fn range_of_digits(root: &UOp) -> Option<(UOp, i64)> {
    let mut bases: Vec<(UOp, i64)> = Vec::new();
    for node in crate::ir::postorder(std::slice::from_ref(root)) {
        let (Op::IDiv | Op::Mod, [range, base]) = (node.op(), node.src()) else { continue };
        let (Op::Range, Some(base)) = (range.op(), base.as_int()) else { continue };
        if is_serial(range) {
            continue;
        }
        let Some(len) = range.src()[0].as_int() else { continue };
        if base < DIGITS_MIN || base >= len || len % base != 0 {
            continue;
        }
        match bases.iter_mut().find(|(known, _)| known == range) {
            // 0: there is no base that serves all.
            Some((_, known)) if *known == 0 || (base % *known != 0 && *known % base != 0) => *known = 0,
            Some((_, known)) => *known = base.min(*known),
            None => bases.push((range.clone(), base)),
        }
    }
    bases.into_iter().find(|(_, base)| *base > 0)
}

/// Whether the iterations of a loop come in order.
pub fn is_serial(range: &UOp) -> bool {
    range.as_range().is_some_and(|range| range.kind == AxisKind::Serial)
}

/// The total number of times that the body of these ranges runs; symbolic lengths count at their largest.
pub fn trip_count(ranges: impl Iterator<Item = UOp>) -> f64 {
    ranges.map(|range| range.src()[0].max_value().max(0) as f64).product()
}

/// Ranges by number.
pub fn ranges_by_id(root: &UOp) -> FxHashMap<u32, UOp> {
    all_ranges(root).into_iter().map(|range| (range_id(&range), range)).collect()
}
