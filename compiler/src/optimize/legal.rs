//! Which opts a kernel admits: every one whose [`apply`] succeeds, with numbers that suit the target.
//!
//! Opts have too many arguments to try them all, so these are the ones that a search can want:
//! lanes are powers of two, copies small numbers and those that fill registers, lengths of splits powers of two. A local buffer is made along all
//! the ranges of a load that stand inside of one of its loops, with any one of them consecutive, a frame for one window or two; partial results accumulate outside of one of
//! the loops of their reduction and of all inside of that. Where the target runs blocks, each loop may become each of their indices, and each
//! reduction may be shared by their threads.
//!
//! Always: the same kernel and target give the same list, in which no opt stands twice. Tested in the test crate, where random
//! lists of these keep the values of random kernels.

use super::apply::apply;
use super::by_hand::contraction::step_of_load;
use super::by_hand::cuts::decided_parts;
use super::limits::lanes_max;
use super::opt::{Opt, ThreadIndex};
use super::transforms::frame::Window;
use super::transforms::split::is_reduce;
use super::transforms::stage::{computed_from, loads_of};
use crate::ir::{AxisKind, DotKind, ThreadDim, TileKind, UOp, fragments, tiles};
use crate::kernel::ranges::{Dependencies, RangeSet, all_ranges, closed_ranges, is_loop_end, range_id};
use crate::lower::loops::is_serial;
use crate::symbolic::linear_terms;
use crate::target::Target;

/// Copies that are tried, as far as there are registers.
const TIMES: [u32; 12] = [2, 3, 4, 5, 6, 7, 8, 12, 14, 16, 24, 32];
/// The longest inner loop of a split that is tried.
const SPLIT_MAX: u32 = 4096;

/// Parts under a mask that are tried: threads of a warp, or of several.
const PARTS: [u32; 3] = [32, 128, 256];

/// The opts that a kernel admits, in an order that says nothing of what they are worth.
pub fn legal_opts(kernel: &UOp, target: &Target) -> Vec<Opt> {
    let mut legal: Vec<Opt> = Vec::new();
    let mut try_all = |sorts: &mut dyn Iterator<Item = Opt>| {
        let fits = |opt: &Opt| apply(kernel, opt, target).is_ok();
        legal.extend(sorts.filter(fits));
    };
    let mut ranges = all_ranges(kernel);
    ranges.retain(|range| kind_of(range).is_some_and(|kind| matches!(kind, AxisKind::Loop | AxisKind::Reduce)));
    ranges.sort_by_key(range_id);
    let dependencies = Dependencies::of(kernel);
    for range in &ranges {
        try_all(&mut of_one_range(kernel, range, target).into_iter());
    }
    try_all(&mut owners(kernel, target).into_iter());
    try_all(&mut cuts(&ranges, &dependencies).into_iter());
    try_all(&mut pairs_of_loops(kernel, &dependencies).into_iter());
    try_all(&mut packed_pairs(kernel, &ranges).into_iter());
    try_all(&mut stages(kernel, &ranges, &dependencies).into_iter());
    try_all(&mut frames(kernel, &ranges, &dependencies).into_iter());
    try_all(&mut accumulations(kernel, &dependencies).into_iter());
    if TileKind::ALL.into_iter().any(|kind| target.tiles.has(kind)) {
        try_all(&mut tiles_of_terms(kernel, &ranges).into_iter());
    }
    if target.blocks.is_some() {
        try_all(&mut of_threads(&ranges).into_iter());
        let loads = 0..loads_of(kernel).len() as u32;
        try_all(&mut loads.clone().map(|load| Opt::Recompute { load }));
        try_all(&mut loads.map(|load| Opt::KeepShared { load, pad: 0 }));
        try_all(&mut tiles_of_matrices(&all_ranges(kernel)).into_iter());
        try_all(&mut shared_stages(kernel, &ranges, &dependencies).into_iter());
    }
    legal
}

fn kind_of(range: &UOp) -> Option<AxisKind> {
    range.as_range().map(|arg| arg.kind)
}

/// Opts that name one range.
fn of_one_range(kernel: &UOp, range: &UOp, target: &Target) -> Vec<Opt> {
    let (id, most) = (range_id(range), range.src()[0].max_value());
    let fits = |part: &u32| i64::from(*part) <= most;
    let powers = |last: u64| (1..32).map(|bits| 1u32 << bits).take_while(move |power| u64::from(*power) <= last);
    let lanes = powers(lanes_max(kernel, target)).filter(fits).map(|lanes| Opt::Vectorize { range: id, lanes });
    let times = TIMES.into_iter().filter(|times| *times <= target.vector_registers).filter(fits);
    let lens = powers(u64::from(SPLIT_MAX)).filter(fits);
    let mut opts: Vec<Opt> = lanes.collect();
    opts.extend(times.map(|times| Opt::Upcast { range: id, times }));
    opts.extend(lens.map(|len| Opt::Split { range: id, len }));
    if is_reduce(range) {
        let mut groups = DotKind::ALL.map(DotKind::group).to_vec();
        groups.dedup();
        opts.extend(groups.into_iter().map(|terms| Opt::Dot { range: id, terms: terms as u32 }));
    }
    // What is the outermost loop everywhere is so already.
    let is_first = |store: &UOp| closed_ranges(store).first() == Some(range);
    if !kernel.src().iter().filter(|store| closed_ranges(store).contains(range)).all(is_first) {
        opts.push(Opt::Outermost { range: id });
    }
    opts.extend([Opt::MaterializeReductions { range: id }, Opt::Thread { range: id }]);
    opts
}

/// Owners of what loops over sources store to: as many as threads.
fn owners(kernel: &UOp, target: &Target) -> Vec<Opt> {
    let sources = all_ranges(kernel).into_iter().filter(is_serial);
    sources.map(|range| Opt::OwnerComputes { range: range_id(&range), owners: target.threads }).collect()
}

/// Cuts that decide conditions and digits: the longest part between two, and each cut point alone.
fn cuts(ranges: &[UOp], dependencies: &Dependencies) -> Vec<Opt> {
    let of_range = |range: &UOp| {
        let parts = decided_parts(range, dependencies).unwrap_or_default();
        let number = |(begin, end): (i64, i64)| Some((u32::try_from(begin).ok()?, u32::try_from(end).ok()?));
        let opt = |(begin, end): (u32, u32)| Opt::Peel { range: range_id(range), begin, end };
        parts.into_iter().filter_map(number).map(opt).collect::<Vec<Opt>>()
    };
    ranges.iter().flat_map(of_range).collect()
}

/// Ranges as indices of threads, and reductions that threads share.
fn of_threads(ranges: &[UOp]) -> Vec<Opt> {
    let of_one = |range: &UOp| {
        let id = range_id(range);
        let of_dim = |dim: ThreadDim| {
            let index = |index: ThreadIndex| Opt::Map { range: id, index };
            [index(ThreadIndex::Grid(dim)), index(ThreadIndex::Block(dim)), Opt::Group { range: id, dim }]
        };
        let lane = Opt::Map { range: id, index: ThreadIndex::Lane };
        // Where parts divide the length, a plain split does the same.
        let len = &range.src()[0];
        let is_masked =
            |part: &u32| len.as_int().is_none_or(|len| len % i64::from(*part) != 0 && len > i64::from(*part));
        let masked = PARTS.into_iter().filter(is_masked).map(|len| Opt::SplitMasked { range: id, len });
        ThreadDim::ALL.into_iter().flat_map(of_dim).chain([lane]).chain(masked).collect::<Vec<Opt>>()
    };
    ranges.iter().flat_map(of_one).collect()
}

/// Loops of the lengths that matrices have which lanes multiply; or of two, written out, where threads have the rows and columns.
fn tiles_of_matrices(ranges: &[UOp]) -> Vec<Opt> {
    let of = |len: i64, kind: AxisKind| {
        let is_one = move |range: &&UOp| range.src()[0].is_const(len) && kind_of(range) == Some(kind);
        ranges.iter().filter(is_one).map(range_id).collect::<Vec<u32>>()
    };
    let sides = [((fragments::ROWS, fragments::COLUMNS), AxisKind::Loop), ((2, 2), AxisKind::Unroll)];
    let mut opts = Vec::new();
    for ((of_rows, of_columns), kind) in sides {
        for rows in of(of_rows, kind) {
            for columns in of(of_columns, kind).into_iter().filter(|columns| *columns != rows) {
                let terms = of(fragments::TERMS, AxisKind::Reduce).into_iter();
                opts.extend(terms.map(|terms| Opt::MultiplyMatrices { rows, columns, terms }));
            }
        }
    }
    opts
}

/// Loops of lengths that tiles have. Columns may be lanes, as what follows a product has them.
fn tiles_of_terms(kernel: &UOp, ranges: &[UOp]) -> Vec<Opt> {
    let fits = |range: &&UOp, most: usize| range.src()[0].as_int().is_some_and(|len| (1..=most as i64).contains(&len));
    let of_kind = |ranges: &[UOp], kind: AxisKind, most: usize| {
        let found = ranges.iter().filter(|range| fits(range, most) && kind_of(range) == Some(kind));
        found.map(range_id).collect::<Vec<u32>>()
    };
    let rows = of_kind(ranges, AxisKind::Loop, tiles::ROWS_MAX);
    let lanes = ranges_of(kernel, |kind| kind == AxisKind::Vector);
    let columns = [rows.clone(), of_kind(&lanes, AxisKind::Vector, tiles::ROWS_MAX)].concat();
    let terms = of_kind(ranges, AxisKind::Reduce, tiles::ROWS_MAX);
    let mut opts = Vec::new();
    for (rows, columns) in rows.iter().flat_map(|row| columns.iter().map(move |column| (*row, *column))) {
        for (groups, terms) in terms.iter().flat_map(|group| terms.iter().map(move |term| (*group, *term))) {
            if rows != columns && groups != terms {
                opts.push(Opt::MultiplyTiles { rows, columns, groups, terms });
            }
        }
    }
    opts
}

/// Opts that name two loops which stand in each other.
fn pairs_of_loops(kernel: &UOp, dependencies: &Dependencies) -> Vec<Opt> {
    let mut pairs: Vec<(u32, u32)> = Vec::new();
    for loop_end in dependencies.order.iter().filter(|node| is_loop_end(node)) {
        let is_loop =
            |range: &&UOp| !matches!(kind_of(range), Some(AxisKind::Vector | AxisKind::Unroll | AxisKind::Dot));
        let loops: Vec<u32> = closed_ranges(loop_end).iter().filter(is_loop).map(range_id).collect();
        pairs.extend(loops.windows(2).map(|pair| (pair[0], pair[1])));
    }
    pairs.sort_unstable();
    pairs.dedup();
    let outermost = kernel.src().first().map(closed_ranges).and_then(|ranges| match ranges {
        [first, second, ..] => Some(Opt::ThreadPair { range: range_id(first), inner: range_id(second) }),
        _ => None,
    });
    let of_pair = |(range, inner)| [Opt::Reorder { range, inner }, Opt::Merge { range, inner }];
    pairs.into_iter().flat_map(of_pair).chain(outermost).collect()
}

/// Pairs of ranges that some load steps through memory along.
fn packed_pairs(kernel: &UOp, ranges: &[UOp]) -> Vec<Opt> {
    let mut pairs: Vec<(u32, u32)> = Vec::new();
    for load in loads_of(kernel) {
        let terms = linear_terms(&load.src()[0].src()[1]).0;
        let stepped = |least: i64| {
            let named = terms.iter().filter(move |(term, step)| ranges.contains(term) && step.abs() >= least);
            named.map(|(term, _)| range_id(term)).collect::<Vec<u32>>()
        };
        let rows = stepped(1);
        pairs.extend(stepped(2).into_iter().flat_map(|lane| rows.iter().map(move |row| (lane, *row))));
    }
    pairs.sort_unstable();
    pairs.dedup();
    pairs.into_iter().filter(|(lane, row)| lane != row).map(|(lane, row)| Opt::Pack { lane, row }).collect()
}

/// All loops, outer ones first: a range is at least as far in as any loop end's ranges before it.
fn outer_first(dependencies: &Dependencies) -> Vec<u32> {
    let mut order: Vec<u32> = Vec::new();
    for loop_end in dependencies.order.iter().rev().filter(|node| is_loop_end(node)) {
        order.extend(closed_ranges(loop_end).iter().map(range_id).filter(|id| !order.contains(id)).collect::<Vec<_>>());
    }
    order
}

/// Loops of reductions outside of all loops that they stand in, from any one on inwards.
fn accumulations(kernel: &UOp, dependencies: &Dependencies) -> Vec<Opt> {
    let order = outer_first(dependencies);
    let mut opts: Vec<Opt> = Vec::new();
    for range in all_ranges(kernel).iter().filter(|range| kind_of(range) == Some(AxisKind::Reduce)) {
        let mut around = RangeSet::default();
        for loop_end in dependencies.order.iter().filter(|node| closed_ranges(node).contains(range)) {
            around.union_with(dependencies.get(loop_end));
        }
        let own: Vec<u32> = order.iter().copied().filter(|id| around.contains(*id)).collect();
        opts.extend(
            (0..own.len()).map(|first| Opt::Accumulate { range: range_id(range), along: own[first..].to_vec() }),
        );
    }
    opts
}

/// Stages of each load that each thread fills for itself.
fn stages(kernel: &UOp, ranges: &[UOp], dependencies: &Dependencies) -> Vec<Opt> {
    let along = ranges
        .iter()
        .cloned()
        .chain(ranges_of(kernel, |kind| matches!(kind, AxisKind::Vector | AxisKind::Unroll | AxisKind::Dot)));
    let named = staged(kernel, &along.collect::<Vec<_>>(), dependencies);
    let is_computed: Vec<bool> =
        loads_of(kernel).iter().map(|load| computed_from(dependencies, load) != *load).collect();
    let computed = named.iter().filter(|(load, _)| is_computed[*load as usize]).cloned();
    let computed: Vec<Opt> = computed.map(|(load, ranges)| Opt::StageComputed { load, ranges }).collect();
    named.into_iter().map(|(load, ranges)| Opt::Stage { load, ranges }).chain(computed).collect()
}

/// Frames of each load for each of its windows, and for any two.
fn frames(kernel: &UOp, ranges: &[UOp], dependencies: &Dependencies) -> Vec<Opt> {
    let mut opts: Vec<Opt> = Vec::new();
    for (load, number) in loads_of(kernel).iter().zip(0..) {
        let set = dependencies.get(load);
        let (terms, results): (Vec<&UOp>, Vec<&UOp>) =
            ranges.iter().filter(|range| set.contains(range_id(range))).partition(|range| is_reduce(range));
        let steps = |range: &UOp| step_of_load(load, range).unwrap_or(0);
        let pairs = results.iter().flat_map(|result| terms.iter().map(move |term| [*result, *term]));
        let pairs: Vec<[u32; 2]> =
            pairs.filter(|pair| Window::of(*pair, pair.map(steps)).is_ok()).map(|pair| pair.map(range_id)).collect();
        for (at, first) in pairs.iter().enumerate() {
            opts.push(Opt::Frame { load: number, ranges: first.to_vec() });
            let others = pairs[at + 1..].iter().filter(|other| other.iter().all(|id| !first.contains(id)));
            opts.extend(others.map(|other| Opt::Frame { load: number, ranges: [*first, *other].concat() }));
        }
    }
    opts
}

/// Stages of each load that the threads of a block fill together: along the indices of these, too.
fn shared_stages(kernel: &UOp, ranges: &[UOp], dependencies: &Dependencies) -> Vec<Opt> {
    let is_other =
        |kind: AxisKind| kind.is_within_block() || matches!(kind, AxisKind::Vector | AxisKind::Unroll | AxisKind::Dot);
    let along = ranges.iter().cloned().chain(ranges_of(kernel, is_other));
    let named = staged(kernel, &along.collect::<Vec<_>>(), dependencies);
    named.into_iter().map(|(load, ranges)| Opt::StageShared { load, ranges }).collect()
}

/// Each load with the ranges along which it may be copied.
fn staged(kernel: &UOp, ranges: &[UOp], dependencies: &Dependencies) -> Vec<(u32, Vec<u32>)> {
    let order = outer_first(dependencies);
    let rank = |id: &u32| order.iter().position(|other| other == id).unwrap_or(order.len());
    let mut named: Vec<(u32, Vec<u32>)> = Vec::new();
    for (load, number) in loads_of(kernel).iter().zip(0..) {
        let set = dependencies.get(load);
        let is_own = |range: &&UOp| set.contains(range_id(range));
        let mut own: Vec<u32> = ranges.iter().filter(is_own).map(range_id).collect();
        own.sort_by_key(rank);
        for first in 0..own.len() {
            let inside = &own[first..];
            for last in inside {
                let others = inside.iter().filter(|id| *id != last).copied();
                named.push((number, others.chain([*last]).collect()));
            }
        }
    }
    named
}

/// Ranges of some kinds.
fn ranges_of(kernel: &UOp, is_wanted: impl Fn(AxisKind) -> bool) -> Vec<UOp> {
    let mut ranges = all_ranges(kernel);
    ranges.retain(|range| kind_of(range).is_some_and(&is_wanted));
    ranges
}
