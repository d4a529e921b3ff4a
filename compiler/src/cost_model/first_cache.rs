//! What a block of threads loads from the second cache, where the first one keeps what it has loaded before.
//!
//! A kernel is a tree of *regions*: the whole of it, and in it the loops that a thread walks. Of each load it is known how far its address moves with the indices of threads and with the
//! loops around it, and so which bytes it touches while a region is done once. Where what all loads of a region touch stays in the part of the first cache that a block has, each byte comes from the second
//! cache once for it, however many loads ask for it. Else each region inside is asked in turn, and last what each warp loads by itself counts each time.
//!
//! The first cache is that of a multiprocessor, less the shared memory of its blocks, in equal parts for the blocks that run beside each other there. What blocks load one after the other is never
//! taken to be still there; loads at addresses that hang on other loads, or on quotients of indices, are counted each time. Stores are written through.
//!
//! Always: never more than what warps load by themselves. Tested below and in `roofline`.

use super::traffic::Steps;
use crate::ir::{Arg, AxisKind, UOp};

/// Bytes that the second cache moves at least.
const SECTOR: f64 = 32.0;
/// Pieces of memory that a load touches, which are looked at one by one.
const PIECES_MAX: f64 = 64.0;

/// A load of a tensor's memory.
struct MemoryLoad {
    memory: u32,
    /// Bytes from where the memory begins, were all loops in their first turn.
    offset: f64,
    width: f64,
    /// Bytes that the address moves in a turn of each loop around it, outermost first; none if that is not a constant.
    steps: Vec<Option<f64>>,
    /// The same with the indices of threads in their block, and how many there are of each.
    along_threads: Vec<Option<(f64, f64)>>,
    /// The same with the indices of blocks.
    along_grid: Vec<f64>,
    /// Bytes of the sectors that all warps of a block load.
    by_warps: f64,
}

/// A part of a kernel that is done as often as it has turns.
#[derive(Default)]
struct Region {
    turns: f64,
    loads: Vec<MemoryLoad>,
    parts: Vec<Region>,
}

/// The loops of a kernel as they are walked, and what is loaded in them.
pub(super) struct Regions<'l> {
    open: Vec<Region>,
    loops: Vec<&'l UOp>,
    threads: Vec<&'l UOp>,
    grid: Vec<&'l UOp>,
    steps: Steps<'l>,
}

impl<'l> Regions<'l> {
    pub(super) fn new() -> Regions<'l> {
        let all = Region { turns: 1.0, ..Region::default() };
        Regions { open: vec![all], loops: vec![], threads: vec![], grid: vec![], steps: Steps::default() }
    }

    /// A loop, or an index of threads, begins.
    pub(super) fn begin(&mut self, range: &'l UOp) {
        match range.as_range().map(|arg| arg.kind) {
            Some(AxisKind::Grid(_)) => self.grid.push(range),
            Some(kind) if kind.is_thread_index() => self.threads.push(range),
            _ => {
                self.loops.push(range);
                self.open.push(Region { turns: turns_of(range), ..Region::default() });
            }
        }
    }

    /// One ends.
    pub(super) fn end(&mut self, range: &UOp) {
        match range.as_range().map(|arg| arg.kind) {
            Some(AxisKind::Grid(_)) => drop(self.grid.pop()),
            Some(kind) if kind.is_thread_index() => drop(self.threads.pop()),
            _ => {
                self.loops.pop();
                if let (Some(ended), Some(outer)) = (self.open.pop(), self.open.last_mut()) {
                    outer.parts.push(ended);
                }
            }
        }
    }

    /// Something is loaded, in sectors of so many bytes for all warps of a block.
    pub(super) fn load(&mut self, index: &'l UOp, by_warps: f64) {
        let Arg::Param(parameter) = index.src()[0].arg() else { return };
        let bytes = index.dtype().element().bytes() as f64;
        let moved = self.steps.of(&index.src()[1]);
        let step = |range: &&UOp| moved.step(range).map(|step| step * bytes);
        let is_vector_of_offsets = index.src()[1].dtype().lanes() > 1;
        let of_threads = |range: &&UOp| step(range).map(|step| (step, turns_of(range)));
        let mut along_threads: Vec<_> = self.threads.iter().map(of_threads).collect();
        let grid: Option<Vec<f64>> = self.grid.iter().map(step).collect();
        if is_vector_of_offsets || grid.is_none() {
            along_threads.push(None);
        }
        let load = MemoryLoad {
            memory: parameter.slot,
            offset: moved.first() * bytes,
            width: (index.dtype().bytes() * index.dtype().lanes()) as f64,
            steps: self.loops.iter().map(step).collect(),
            along_threads,
            along_grid: grid.unwrap_or_default(),
            by_warps,
        };
        if let Some(region) = self.open.last_mut() {
            region.loads.push(load);
        }
    }

    /// Bytes that a block loads from the second cache, if its part of the first one has so many, and so many blocks run beside each other.
    pub(super) fn bytes_of_block(&self, cache: f64, beside: f64) -> f64 {
        self.open.first().map_or(0.0, |all| all.bytes([cache, beside], &[]))
    }
}

fn turns_of(range: &UOp) -> f64 {
    range.src()[0].max_value().max(0) as f64
}

impl Region {
    /// Bytes from the second cache while it is done once, in loops of so many turns.
    fn bytes(&self, [cache, beside]: [f64; 2], around: &[f64]) -> f64 {
        let mut touched: Vec<Touched<'_>> = Vec::new();
        let unknown = self.touch(around.len(), &mut Vec::new(), 1.0, &mut touched);
        // What is the same for all blocks is in the cache once.
        let (own, of_all): (Vec<_>, Vec<_>) =
            touched.into_iter().partition(|touched| touched.load.along_grid.iter().any(|step| *step != 0.0));
        let (own, of_all) = (union_of(own), union_of(of_all));
        let kept = own + of_all;
        let by_warps = self.bytes_in_a_row(around.len());
        let parts = self.parts.iter().map(|part| {
            let inside: Vec<f64> = around.iter().copied().chain([part.turns]).collect();
            part.turns * part.bytes([cache, beside], &inside)
        });
        let apart = by_warps + parts.sum::<f64>();
        if own + of_all / beside + unknown <= cache { apart.min(kept + unknown) } else { apart }
    }

    /// What warps load by themselves here, where loads that follow each other and touch the same sectors find them there.
    fn bytes_in_a_row(&self, depth: usize) -> f64 {
        let mut runs: Vec<(Vec<Touched<'_>>, f64)> = Vec::new();
        let mut unknown = 0.0;
        for load in &self.loads {
            match (load.touches(depth, &[]), runs.last_mut()) {
                (Some(found), Some((run, by_warps))) if run.last().is_some_and(|last| last.meets(&found)) => {
                    run.push(found);
                    *by_warps += load.by_warps;
                }
                (Some(found), _) => runs.push((vec![found], load.by_warps)),
                (None, _) => unknown += load.by_warps,
            }
        }
        unknown + runs.into_iter().map(|(run, by_warps)| union_of(run).min(by_warps)).sum::<f64>()
    }

    /// Notes what each load touches in loops from a depth on; what those load that are not known, in all turns of these.
    fn touch<'r>(&'r self, depth: usize, inside: &mut Vec<f64>, times: f64, touched: &mut Vec<Touched<'r>>) -> f64 {
        let mut unknown = 0.0;
        for load in &self.loads {
            match load.touches(depth, inside) {
                Some(found) => touched.push(found),
                None => unknown += load.by_warps * times,
            }
        }
        for part in &self.parts {
            inside.push(part.turns);
            unknown += part.touch(depth, inside, times * part.turns, touched);
            inside.pop();
        }
        unknown
    }
}

/// What a load touches while some loops run: pieces of memory that lie apart.
struct Touched<'r> {
    load: &'r MemoryLoad,
    depth: usize,
    /// Of each piece the first byte, and what is behind its last one.
    pieces: Vec<[f64; 2]>,
    /// How far apart all of these are again, and how many there are of each distance.
    apart: Vec<(f64, f64)>,
}

impl MemoryLoad {
    /// In loops from a depth on, of so many turns.
    fn touches(&self, depth: usize, inside: &[f64]) -> Option<Touched<'_>> {
        let of_loops = self.steps[depth..].iter().zip(inside).map(|(step, turns)| step.map(|step| (step, *turns)));
        let moves: Option<Vec<(f64, f64)>> = of_loops.chain(self.along_threads.iter().copied()).collect();
        let mut moves: Vec<(f64, f64)> = moves?.into_iter().filter(|(step, _)| *step != 0.0).collect();
        moves.sort_by(|a, b| a.0.abs().total_cmp(&b.0.abs()));
        let mut piece = [self.offset, self.offset + self.width];
        let (mut pieces, mut apart) = (Vec::new(), Vec::new());
        for (step, turns) in moves {
            if step.abs() <= (piece[1] - piece[0]).max(SECTOR) && pieces.is_empty() {
                let reach = step * (turns - 1.0).max(0.0);
                piece[usize::from(reach > 0.0)] += reach;
                continue;
            }
            if pieces.is_empty() {
                pieces.push(piece);
            }
            if apart.is_empty() && pieces.len() as f64 * turns <= PIECES_MAX {
                let moved = |turn: usize| move |piece: &[f64; 2]| piece.map(|end| end + step * turn as f64);
                pieces =
                    (0..turns as usize).flat_map(|turn| pieces.iter().map(moved(turn)).collect::<Vec<_>>()).collect();
            } else {
                apart.push((step, turns));
            }
        }
        if pieces.is_empty() {
            pieces.push(piece);
        }
        Some(Touched { load: self, depth, pieces, apart })
    }
}

impl Touched<'_> {
    /// Whether it keeps its distance from another one, whatever moves.
    fn is_like(&self, other: &Touched<'_>) -> bool {
        self.load.memory == other.load.memory
            && self.apart == other.apart
            && self.load.along_grid == other.load.along_grid
            && self.load.steps[..self.depth] == other.load.steps[..other.depth]
    }
}

impl Touched<'_> {
    /// Whether another one touches what this one does, or what lies beside it.
    fn meets(&self, other: &Touched<'_>) -> bool {
        let ([begin, end], [other_begin, _]) = (self.pieces[0], other.pieces[0]);
        self.is_like(other) && self.pieces.len() == other.pieces.len() && (begin - other_begin).abs() <= end - begin
    }
}

/// Bytes that are touched by any of several loads, in sectors.
fn union_of(mut touched: Vec<Touched<'_>>) -> f64 {
    let mut total = 0.0;
    while let Some(first) = touched.pop() {
        let (mut alike, others): (Vec<_>, Vec<_>) = touched.into_iter().partition(|other| other.is_like(&first));
        touched = others;
        let pieces: f64 = first.apart.iter().map(|(_, turns)| turns).product();
        alike.push(first);
        let sectors = |[from, to]: &[f64; 2]| [(from / SECTOR).floor(), (to / SECTOR).ceil()];
        let mut all: Vec<[f64; 2]> = alike.iter().flat_map(|one| one.pieces.iter().map(sectors)).collect();
        all.sort_by(|a, b| a[0].total_cmp(&b[0]));
        let (mut count, mut end) = (0.0, f64::MIN);
        for [from, to] in all {
            count += (to - from.max(end)).max(0.0);
            end = end.max(to);
        }
        total += pieces * count * SECTOR;
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(memory: u32, offset: f64, step: f64, threads: f64) -> MemoryLoad {
        let along_threads = vec![Some((4.0, threads))];
        let by_warps = threads * 4.0;
        MemoryLoad { memory, offset, width: 4.0, steps: vec![Some(step)], along_threads, along_grid: vec![], by_warps }
    }

    /// A kernel of loops of ten turns with one load each.
    fn kernel(loads: Vec<MemoryLoad>) -> Region {
        let part = |load| Region { turns: 10.0, loads: vec![load], parts: vec![] };
        Region { turns: 1.0, loads: vec![], parts: loads.into_iter().map(part).collect() }
    }

    #[test]
    fn what_is_loaded_again_comes_once() {
        let row = || load(0, 0.0, 128.0, 32.0);
        let twice = kernel(vec![row(), row()]);
        assert_eq!(twice.bytes([1280.0, 1.0], &[]), 1280.0);
        // Where the cache does not hold the row, both loops load it.
        assert_eq!(twice.bytes([1279.0, 1.0], &[]), 2560.0);
        // Another memory, or another part of the row.
        assert_eq!(kernel(vec![row(), load(1, 0.0, 128.0, 32.0)]).bytes([1e9, 1.0], &[]), 2560.0);
        assert_eq!(kernel(vec![row(), load(0, 1280.0, 128.0, 32.0)]).bytes([1e9, 1.0], &[]), 2560.0);
        // Neighbours that overlap.
        assert_eq!(kernel(vec![row(), load(0, 4.0, 128.0, 32.0)]).bytes([1e9, 1.0], &[]), 1312.0);
    }

    #[test]
    fn what_stays_the_same_in_a_loop_comes_once() {
        let same = kernel(vec![load(0, 0.0, 0.0, 32.0)]);
        assert_eq!([same.bytes([1e9, 1.0], &[]), same.bytes([0.0, 1.0], &[])], [128.0, 1280.0]);
        let unknown = MemoryLoad { steps: vec![None], ..load(0, 0.0, 0.0, 32.0) };
        assert_eq!(kernel(vec![unknown]).bytes([1e9, 1.0], &[]), 1280.0);
    }
}
