//! What a GPU cannot be faster than for a kernel: a time for each thing that there is only so much of in a nanosecond, by counting.
//!
//! A finished list is walked once; what it does is multiplied by the threads that do it. Counted are
//!
//! - bytes of memory: each buffer once;
//! - sectors: what loads and stores of warps move to and from the second cache, 32 bytes at least for threads whose addresses lie further apart. What a block loads again while the first
//!   cache has it comes from there (`first_cache`);
//! - operations on floats, a multiply-add as two, those of matrices that lanes multiply at the rate of these;
//! - steps of the banks of shared memory, of 128 bytes each, with the conflicts that its addresses have, and those of lines of the first cache, which is the same memory;
//! - instructions that warps issue, as the list has them: what the assembler adds or saves is not known here.
//!
//! Where a launch has fewer blocks than the machine has multiprocessors, the others wait: all times but that of memory grow by so much. Latencies are not looked at,
//! so a kernel is never faster than this and often slower; but for what a tensor decides: an access under its condition counts as if it were done. Numbers of machines are those of [`Costs`](crate::target::Costs), from data sheets.
//!
//! Always: the same list and target give the same numbers. Tested below.

use super::first_cache::Regions;
use super::warps::{SECTOR, STEP, WARP, Warp};
use crate::ir::{Arg, AxisKind, MemorySpace, Op, UOp, fragments};
use crate::linearize::Linear;
use crate::linearize::addresses::{Scoped, split_offset, sums_of_addresses};
use crate::linearize::copies::copies;
use crate::target::Target;

/// Bytes that an instruction moves for a thread at most.
const ACCESS: f64 = 16.0;
/// Instructions that a turn of a loop takes besides: counting, comparing, jumping.
const TURN: f64 = 3.0;
/// Threads and blocks that a multiprocessor runs at once ("Compute Capabilities" of the CUDA C++ Programming Guide, the same for 8.0, 9.0 and 10.0).
const THREADS_OF_MULTIPROCESSOR: f64 = 2048.0;
const BLOCKS_OF_MULTIPROCESSOR: f64 = 32.0;
/// Instructions of a division or a square root that is rounded right.
const DIVISION: f64 = 10.0;

/// Times in nanoseconds that a kernel takes at least.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Roofline {
    /// Until each buffer has moved once.
    pub memory_ns: f64,
    /// Until all sectors have.
    pub sectors_ns: f64,
    /// Until all operations are done.
    pub operations_ns: f64,
    /// Until shared memory has given and taken all.
    pub shared_ns: f64,
    /// Until all instructions are issued.
    pub issue_ns: f64,
    /// The part of the multiprocessors that have a block, at most 1.
    pub busy: f64,
}

impl Roofline {
    /// The longest of them.
    pub fn least_ns(&self) -> f64 {
        [self.memory_ns, self.sectors_ns, self.operations_ns, self.shared_ns, self.issue_ns]
            .into_iter()
            .fold(0.0, f64::max)
    }

    /// What bounds any kernel that computes the same: its buffers, or its operations.
    pub fn of_any_kernel_ns(&self) -> f64 {
        self.memory_ns.max(self.operations_ns * self.busy)
    }

    /// Two kernels, one after the other.
    pub fn and_then(&self, next: &Roofline) -> Roofline {
        Roofline {
            memory_ns: self.memory_ns + next.memory_ns,
            sectors_ns: self.sectors_ns + next.sectors_ns,
            operations_ns: self.operations_ns + next.operations_ns,
            shared_ns: self.shared_ns + next.shared_ns,
            issue_ns: self.issue_ns + next.issue_ns,
            busy: self.busy.min(next.busy),
        }
    }
}

/// What a warp does, from the first op to the last.
struct Counted<'l> {
    /// Bytes of the sectors that it stores.
    stored_bytes: f64,
    /// What all warps of a block load.
    loaded: Regions<'l>,
    shared_bytes: f64,
    instructions: f64,
    /// Products and sums of matrices.
    matrices: f64,
}

impl<'l> Counted<'l> {
    /// An access to memory, done so often, by so many warps of a block; each line of it passes through the first cache so often: what is copied passes that by.
    ///
    /// Where addresses are not known, each element lies in a sector of its own, and in a line.
    fn memory(&mut self, node: &'l UOp, warp: &Warp<'_>, times: f64, [warps, of_line]: [f64; 2]) {
        let index = &node.src()[0];
        let apart = index.dtype().lanes() as f64 * WARP as f64;
        let sectors = warp.sector_bytes(index).unwrap_or(SECTOR as f64 * apart);
        self.shared_bytes += of_line * times * warp.line_steps(index).unwrap_or(apart) * STEP;
        match node.op() {
            Op::Load => self.loaded.load(index, sectors * warps),
            _ => self.stored_bytes += times * sectors,
        }
    }
}

/// The times of a kernel on a GPU.
pub fn roofline(linear: &Linear, target: &Target) -> Roofline {
    let launch = linear.launch();
    let (blocks, threads) = (launch.blocks() as f64, launch.threads() as f64);
    let costs = &target.costs;
    let multiprocessors = f64::from(costs.cores);
    let busy = (blocks / multiprocessors).min(1.0);
    let warps_of_block = (threads / WARP as f64).ceil();
    let counted = count(linear, warps_of_block);
    let warps = blocks * warps_of_block;
    // What lanes multiply as matrices is no work of single threads.
    let products = counted.matrices * warps * (fragments::ROWS * fragments::COLUMNS * fragments::TERMS) as f64;
    let of_matrices = products / f64::from(costs.matrix_ops_per_ns.max(1));
    let others = (linear.estimate.operations - 2.0 * products).max(0.0);
    let [cache, beside] = first_cache_of_block(linear, target, blocks / multiprocessors);
    let loaded = counted.loaded.bytes_of_block(cache, beside);
    let sector_bytes = blocks * loaded + counted.stored_bytes * warps;
    let issued_per_ns = f64::from(costs.instructions_per_ns.max(1));
    Roofline {
        memory_ns: linear.estimate.bytes_unique / f64::from(costs.memory_bytes_per_ns),
        sectors_ns: sector_bytes / f64::from(costs.shared_cache_bytes_per_ns) / busy,
        operations_ns: (others / (2.0 * f64::from(costs.ops_per_ns)) + of_matrices) / busy,
        shared_ns: counted.shared_bytes * warps / f64::from(costs.scratch_bytes_per_ns) / busy,
        issue_ns: counted.instructions * warps / issued_per_ns / busy,
        busy,
    }
}

/// Bytes of the first cache that a block has, of so many for each multiprocessor, and how many run beside each other there: these share it, and it is what their shared memory leaves.
fn first_cache_of_block(linear: &Linear, target: &Target, of_multiprocessor: f64) -> [f64; 2] {
    let shared = |node: &UOp| match node.arg() {
        Arg::Scratch(_, len, MemorySpace::Shared) => *len as f64 * node.dtype().element().bytes() as f64,
        _ => 0.0,
    };
    let shared: f64 = linear.ops.iter().filter(|node| node.op() == Op::Scratch).map(shared).sum();
    let all = target.cache_l1_bytes as f64;
    let threads = (linear.launch().threads() as f64 / WARP as f64).ceil() * WARP as f64;
    let beside = (THREADS_OF_MULTIPROCESSOR / threads).min(BLOCKS_OF_MULTIPROCESSOR).min(all / shared.max(1.0));
    let beside = beside.min(of_multiprocessor).floor().max(1.0);
    [(all / beside - shared).max(0.0), beside]
}

fn count(linear: &Linear, warps_of_block: f64) -> Counted<'_> {
    let mut counted =
        Counted { stored_bytes: 0.0, loaded: Regions::new(), shared_bytes: 0.0, instructions: 0.0, matrices: 0.0 };
    let mut times = vec![1.0];
    let mut warp = Warp::of(&linear.launch());
    let sums = sums_of_addresses(&linear.ops);
    let copied = copies(&linear.ops);
    let mut addresses: Scoped<(UOp, UOp), ()> = Scoped::default();
    for node in &linear.ops {
        let now = times.last().copied().unwrap_or(1.0);
        warp.note(node);
        match node.op() {
            Op::Range => {
                let kind = node.as_range().map_or(AxisKind::Loop, |range| range.kind);
                let turns = if kind.is_thread_index() { 1.0 } else { node.src()[0].max_value().max(0) as f64 };
                counted.instructions += if kind.is_thread_index() { now } else { now * turns * TURN };
                times.push(now * turns);
                addresses.open();
                counted.loaded.begin(node);
            }
            Op::EndRange => {
                counted.loaded.end(&node.src()[0]);
                times.pop();
                addresses.close();
            }
            Op::Add if sums.contains(node) => {}
            // What differs by a constant has the same address.
            Op::Index if node.src()[1].dtype().lanes() == 1 => {
                if let Some(base) = split_offset(&node.src()[1]).0 {
                    let key = (node.src()[0].clone(), base.clone());
                    counted.instructions += if addresses.get(&key).is_some() { 0.0 } else { now };
                    addresses.insert(key, ());
                }
            }
            Op::MultiplyMatrices => {
                counted.matrices += now;
                counted.instructions += now * instructions(node);
            }
            Op::LoadMatrices => {
                let count = node.dtype().lanes() / 2;
                counted.instructions += now;
                counted.shared_bytes += now * warp.matrix_steps(&node.src()[0], count).unwrap_or(count as f64) * STEP;
            }
            Op::Load | Op::Store => {
                let index = &node.src()[0];
                let lanes = index.dtype().lanes() as f64;
                let width = index.dtype().bytes() as f64 * lanes;
                // A copy is one instruction, that of its store.
                let at_once =
                    node.src().get(1).and_then(|value| copied.get(value)).map_or(ACCESS, |bytes| *bytes as f64);
                let is_copied = copied.contains_key(node);
                counted.instructions += if is_copied { 0.0 } else { now * (width / at_once).ceil() };
                match index.src()[0].arg() {
                    Arg::Param(_) => {
                        counted.memory(node, &warp, now, [warps_of_block, if is_copied { 0.0 } else { 1.0 }])
                    }
                    Arg::Scratch(_, _, MemorySpace::Shared) => {
                        let free = (width * WARP as f64 / STEP).ceil();
                        counted.shared_bytes += now * warp.steps(index).unwrap_or(free) * STEP;
                    }
                    _ => {}
                }
            }
            _ => counted.instructions += now * instructions(node),
        }
    }
    counted
}

/// Instructions of an op, of vectors one for each element.
fn instructions(node: &UOp) -> f64 {
    let lanes = node.dtype().lanes() as f64;
    match node.op() {
        Op::Const | Op::Param | Op::Scratch | Op::Variable | Op::Accumulator | Op::Update | Op::Final => 0.0,
        // Registers by another name.
        Op::Splat | Op::Stack | Op::Lane | Op::Ramp | Op::Bitcast => 0.0,
        Op::Index => 1.0,
        // A register of a factor is made of two halves, unless it was loaded so.
        Op::MultiplyMatrices => {
            let of_halves = node.src()[..2].iter().filter(|factor| factor.op() != Op::LoadMatrices);
            1.0 + of_halves.map(|factor| factor.dtype().lanes() as f64 / 2.0).sum::<f64>()
        }
        Op::Div | Op::Sqrt => DIVISION * lanes,
        Op::HorizontalReduce => node.src()[0].dtype().lanes() as f64 - 1.0,
        Op::ShuffleReduce => 2.0 * (WARP as f64).log2(),
        _ => lanes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::text::parse;
    use crate::optimize::Opts;
    use crate::pipeline::{LowerOptions, lower_kernel};
    use crate::watch::Silent;

    fn of(text: &str, opts: &str) -> Roofline {
        let kernel = parse(text).expect("a graph").roots[0].clone();
        let options = LowerOptions { opts: opts.parse::<Opts>().expect("opts") };
        let target = Target::gpu_model();
        roofline(&lower_kernel(&kernel, &target, &options, &mut Silent).expect("a kernel"), &target)
    }

    const DOUBLE: &str = "graph %double(y: f32[1048576], x: f32[1048576]) {\n  v = add x, x\n  d = store y, v\n  k = sink d\n  return k\n}";

    #[test]
    fn side_by_side_is_one_sector_for_eight_threads() {
        let side_by_side = of(DOUBLE, "split(r0, 256), block(r1, x), grid(r0, x)");
        let compulsory = 2.0 * f64::from(1 << 22);
        assert!((side_by_side.memory_ns * 3350.0 / compulsory - 1.0).abs() < 1e-9, "{side_by_side:?}");
        assert!((side_by_side.sectors_ns * 6700.0 / compulsory - 1.0).abs() < 1e-9, "{side_by_side:?}");
        // Each thread has 512 elements in a row, more than the first cache holds of all: every store of a warp is to 32 sectors. Eight neighbours that it loads one after the other are one.
        let apart = of(DOUBLE, "split(r0, 512), split(r0, 256), block(r2, x), grid(r0, x)");
        assert!((apart.sectors_ns * apart.busy / side_by_side.sectors_ns - 4.5).abs() < 1e-9, "{apart:?}");
    }

    #[test]
    fn multiprocessors_without_a_block_wait() {
        let few = of(DOUBLE, "split(r0, 1024), split(r0, 64), block(r1, x), grid(r0, x)");
        assert!((few.busy - 16.0 / 132.0).abs() < 1e-9, "{few:?}");
        assert!(few.least_ns() > 4.0 * few.of_any_kernel_ns(), "{few:?}");
    }

    #[test]
    fn tiles_in_shared_memory_need_less_of_the_first_cache() {
        let text = "graph %product(y: f32[256, 256], x: f32[256, 256], w: f32[256, 256]) {
  a = reshape x, [256, 1, 256]
  wide = expand a, [256, 256, 256]
  t = permute w, (1, 0)
  b = reshape t, [1, 256, 256]
  tall = expand b, [256, 256, 256]
  p = mul wide, tall
  sum = reduce p, add (2)
  done = store y, sum
  k = sink done
  return k
}";
        let naive = of(
            text,
            "split(r0, 16), split(r1, 16), reorder(r3, r1), grid(r0, y), grid(r1, x), block(r3, y), block(r4, x)",
        );
        let tile = of(text, "by hand");
        // What the first cache gives again it gives line by line.
        assert!(tile.issue_ns * tile.busy < naive.issue_ns / 1.5, "{naive:?} {tile:?}");
        assert!(
            tile.shared_ns < naive.shared_ns / 4.0 && tile.sectors_ns < 2.0 * naive.sectors_ns,
            "{naive:?} {tile:?}"
        );
    }
}
