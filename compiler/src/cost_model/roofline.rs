//! What a GPU cannot be faster than for a kernel: a time for each thing that there is only so much of in a nanosecond, by counting.
//!
//! A finished list is walked once; what it does is multiplied by the threads that do it. Counted are
//!
//! - bytes of memory: each buffer once;
//! - sectors: what loads and stores of warps move to and from the second cache, 32 bytes at least for threads whose addresses lie further apart. What the first cache
//!   would keep is counted each time, so this is too much where a kernel reads again what it has just read;
//! - operations on floats, a multiply-add as two;
//! - bytes between shared memory and registers, as if no banks were in conflict (the emulator counts those);
//! - instructions that warps issue, as the list has them: what the assembler adds or saves is not known here.
//!
//! Where a launch has fewer blocks than the machine has multiprocessors, the others wait: all times but that of memory grow by so much. Latencies are not looked at,
//! so a kernel is never faster than this and often slower. Numbers of machines are those of [`Costs`](crate::target::Costs), from data sheets; nothing was measured.
//!
//! Always: the same list and target give the same numbers. Tested below.

use super::traffic::Steps;
use crate::ir::{Arg, AxisKind, MemorySpace, Op, ThreadDim, UOp};
use crate::linearize::Linear;
use crate::target::Target;

/// Bytes that the second cache moves at least.
const SECTOR: f64 = 32.0;
/// Threads of a warp.
const WARP: f64 = 32.0;
/// Bytes that an instruction moves for a thread at most.
const ACCESS: f64 = 16.0;
/// Instructions that a turn of a loop takes besides: counting, comparing, jumping.
const TURN: f64 = 3.0;
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

/// What a thread does, from the first op to the last.
#[derive(Default)]
struct Counted {
    sector_bytes: f64,
    shared_bytes: f64,
    instructions: f64,
}

/// The times of a kernel on a GPU.
pub fn roofline(linear: &Linear, target: &Target) -> Roofline {
    let launch = linear.launch();
    let (blocks, threads) = (launch.blocks() as f64, launch.threads() as f64);
    let costs = &target.costs;
    let multiprocessors = f64::from(costs.few_results);
    let busy = (blocks / multiprocessors).min(1.0);
    let counted = count(linear);
    let warps = blocks * (threads / WARP).ceil();
    // A multiprocessor begins 128 operations in a cycle, and four instructions of warps: one instruction for 32 operations.
    let issued_per_ns = f64::from(costs.ops_per_ns) / WARP;
    Roofline {
        memory_ns: linear.estimate.bytes_unique / f64::from(costs.memory_bytes_per_ns),
        sectors_ns: counted.sector_bytes * warps * WARP / f64::from(costs.shared_cache_bytes_per_ns) / busy,
        operations_ns: linear.estimate.operations / (2.0 * f64::from(costs.ops_per_ns)) / busy,
        shared_ns: counted.shared_bytes * warps * WARP / f64::from(costs.scratch_bytes_per_ns) / busy,
        issue_ns: counted.instructions * warps / issued_per_ns / busy,
        busy,
    }
}

fn count(linear: &Linear) -> Counted {
    let mut counted = Counted::default();
    let mut times = vec![1.0];
    let mut steps = Steps::default();
    let mut neighbours: Vec<&UOp> = Vec::new();
    for node in &linear.ops {
        let now = times.last().copied().unwrap_or(1.0);
        match node.op() {
            Op::Range => {
                let kind = node.as_range().map_or(AxisKind::Loop, |range| range.kind);
                if matches!(kind, AxisKind::Lane | AxisKind::Block(ThreadDim::X)) {
                    neighbours.push(node);
                }
                let turns = if kind.is_thread_index() { 1.0 } else { node.src()[0].max_value().max(0) as f64 };
                counted.instructions += if kind.is_thread_index() { now } else { now * turns * TURN };
                times.push(now * turns);
            }
            Op::EndRange => drop(times.pop()),
            Op::Load | Op::Store => {
                let index = &node.src()[0];
                let width = index.dtype().bytes() as f64;
                counted.instructions += now * (width / ACCESS).ceil();
                match index.src()[0].arg() {
                    Arg::Param(_) => {
                        counted.sector_bytes += now * bytes_of_a_thread(index, width, &neighbours, &mut steps);
                    }
                    // Threads that read one word read it once.
                    Arg::Scratch(_, _, MemorySpace::Shared) => {
                        let moved = steps.of(&index.src()[1]);
                        let element = index.dtype().element().bytes() as f64;
                        let part = distinct(|range| moved.step(range).map(|step| step * element), &neighbours);
                        counted.shared_bytes += now * width * part;
                    }
                    _ => {}
                }
            }
            _ => counted.instructions += now * instructions(node),
        }
    }
    counted
}

/// The part of a warp's threads that have addresses of their own.
fn distinct(step: impl Fn(&UOp) -> Option<f64>, neighbours: &[&UOp]) -> f64 {
    // Several ranges may be one index: an address that varies with one of them varies with the thread.
    let kind_of = |range: &UOp| range.as_range().map(|arg| arg.kind);
    let is_alike = |kind: AxisKind| {
        neighbours.iter().filter(|range| kind_of(range) == Some(kind)).all(|range| step(range) == Some(0.0))
    };
    let mut alike = 1.0;
    for kind in [AxisKind::Lane, AxisKind::Block(ThreadDim::X)].into_iter().filter(|kind| is_alike(*kind)) {
        let lens = neighbours.iter().filter(|range| kind_of(range) == Some(kind));
        alike *= lens.map(|range| range.src()[0].max_value().max(1)).max().unwrap_or(1) as f64;
    }
    1.0 / alike.min(WARP)
}

/// Bytes of sectors for one thread of a warp, of which neighbours share some.
fn bytes_of_a_thread<'a>(index: &'a UOp, width: f64, neighbours: &[&'a UOp], steps: &mut Steps<'a>) -> f64 {
    if index.src()[1].dtype().lanes() > 1 {
        return SECTOR * index.dtype().lanes() as f64;
    }
    let moved = steps.of(&index.src()[1]);
    let element = index.dtype().element().bytes() as f64;
    let step_of = |range: &UOp| moved.step(range).map(|step| (step * element).abs());
    let part = distinct(step_of, neighbours);
    // The nearest neighbours are lanes, or else the threads along x.
    let apart = neighbours.iter().map(|range| step_of(range).unwrap_or(SECTOR)).filter(|step| *step > 0.0);
    let nearest = apart.fold(f64::INFINITY, f64::min);
    let sectors = (width / SECTOR).ceil() * SECTOR;
    match nearest {
        step if step.is_infinite() => sectors / WARP,
        step => step.clamp(width.min(sectors), sectors.max(width)) * part,
    }
}

/// Instructions of an op, of vectors one for each element.
fn instructions(node: &UOp) -> f64 {
    let lanes = node.dtype().lanes() as f64;
    match node.op() {
        Op::Const | Op::Param | Op::Scratch | Op::Variable | Op::Accumulator | Op::Update | Op::Final => 0.0,
        Op::Splat | Op::Stack | Op::Lane | Op::Ramp => 0.0,
        Op::Index => 1.0,
        Op::Div | Op::Sqrt => DIVISION * lanes,
        Op::HorizontalReduce => node.src()[0].dtype().lanes() as f64 - 1.0,
        Op::ShuffleReduce => 2.0 * WARP.log2(),
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
        // Each thread has 256 elements in a row: every access of a warp is of 32 sectors.
        let apart = of(DOUBLE, "split(r0, 256), split(r0, 256), block(r2, x), grid(r0, x)");
        assert!((apart.sectors_ns * apart.busy / side_by_side.sectors_ns - 8.0).abs() < 1e-9, "{apart:?}");
    }

    #[test]
    fn multiprocessors_without_a_block_wait() {
        let few = of(DOUBLE, "split(r0, 1024), split(r0, 64), block(r1, x), grid(r0, x)");
        assert!((few.busy - 16.0 / 132.0).abs() < 1e-9, "{few:?}");
        assert!(few.least_ns() > 4.0 * few.of_any_kernel_ns(), "{few:?}");
    }

    #[test]
    fn tiles_in_shared_memory_need_less_of_the_second_cache() {
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
        assert!(naive.shared_ns == 0.0 && tile.shared_ns > 0.0, "{naive:?} {tile:?}");
        assert!(tile.issue_ns < naive.issue_ns / 1.5 && tile.sectors_ns < naive.sectors_ns / 4.0, "{naive:?} {tile:?}");
    }
}
