//! Puts barriers into a list, so that the threads of a block meet between accesses of what they share.
//!
//! A walk over the list knows which shared scratch was read and written since the threads last met. What stands directly in a scope, an op or a whole
//! loop, is one step of it:
//!
//! - before a step that loads what was stored since, or stores what was loaded since, there is a barrier;
//! - at the end of the body of a loop that both stores and loads a scratch there is one if either happened since: the next iteration stores it anew.
//!
//! So a barrier stands in the outermost scope in which the two accesses are different steps, and one barrier serves all that went before. Stores of one
//! local buffer, which fill different elements, need none in between. A range of an index that is shorter than the block is entered by some threads alone, so none
//! is put inside of it.
//!
//! Always: a list without shared scratch stays as it is. [`races`](super::races) proves what comes of it. Tested below, and there.

use std::collections::BTreeSet;

use rustc_hash::FxHashSet;
use smallvec::smallvec;

use super::Launch;
use crate::DType;
use crate::ir::{Arg, MemorySpace, Op, UOp};

/// The list with its barriers.
pub fn place(list: Vec<UOp>) -> Vec<UOp> {
    place_but(list, &FxHashSet::default())
}

/// As [`place`], but for scratches of these numbers, for which barriers stand where they must.
pub fn place_but(list: Vec<UOp>, done: &FxHashSet<u32>) -> Vec<UOp> {
    let is_open = |arg: &Arg| matches!(arg, Arg::Scratch(number, _, MemorySpace::Shared) if !done.contains(number));
    if !list.iter().any(|node| is_open(node.arg())) {
        return list;
    }
    let barriers = list.iter().filter(|node| node.op() == Op::Barrier).count() as i64;
    let mut placer = Placer { launch: Launch::of(&list), placed: Vec::with_capacity(list.len() + 4), barriers, done };
    placer.walk(&list, &mut Accesses::default());
    placer.placed
}

/// Numbers of shared scratches that are loaded and stored.
#[derive(Clone, Default)]
struct Accesses {
    loaded: BTreeSet<u32>,
    stored: BTreeSet<u32>,
}

impl Accesses {
    /// Of some ops.
    fn of(ops: &[UOp], done: &FxHashSet<u32>) -> Accesses {
        let mut accesses = Accesses::default();
        for node in ops {
            let memory = |node: &UOp| match node.src().first().and_then(|index| index.src().first()).map(UOp::arg) {
                Some(Arg::Scratch(number, _, MemorySpace::Shared)) if !done.contains(number) => Some(*number),
                _ => None,
            };
            match node.op() {
                Op::Load | Op::Previous | Op::LoadMatrices => accesses.loaded.extend(memory(node)),
                Op::Store => accesses.stored.extend(memory(node)),
                Op::Exchange => {
                    accesses.loaded.extend(memory(node));
                    accesses.stored.extend(memory(node));
                }
                _ => {}
            }
        }
        accesses
    }

    fn add(&mut self, other: &Accesses) {
        self.loaded.extend(&other.loaded);
        self.stored.extend(&other.stored);
    }

    /// Whether a step must not follow these.
    fn are_in_the_way_of(&self, step: &Accesses) -> bool {
        !self.stored.is_disjoint(&step.loaded) || !self.loaded.is_disjoint(&step.stored)
    }

    /// Whether they must not be followed by another iteration of a loop.
    fn are_in_the_way_of_next(&self, body: &Accesses) -> bool {
        let mut refilled = body.stored.intersection(&body.loaded);
        refilled.any(|number| self.stored.contains(number) || self.loaded.contains(number))
    }
}

struct Placer<'d> {
    launch: Launch,
    placed: Vec<UOp>,
    barriers: i64,
    done: &'d FxHashSet<u32>,
}

impl Placer<'_> {
    /// Copies ops with barriers between them; `since` is what was accessed since the last one.
    fn walk(&mut self, ops: &[UOp], since: &mut Accesses) {
        let mut at = 0;
        while at < ops.len() {
            let len = length_of_step(&ops[at..]);
            let step = &ops[at..at + len];
            at += len;
            let accesses = Accesses::of(step, self.done);
            if since.are_in_the_way_of(&accesses) {
                self.barrier(since);
            }
            if step.len() == 1 || self.is_for_some_threads(&step[0]) {
                self.placed.extend_from_slice(step);
                since.add(&accesses);
                if step[0].op() == Op::Barrier {
                    *since = Accesses::default();
                }
                continue;
            }
            let before = since.clone();
            self.placed.push(step[0].clone());
            self.walk(&step[1..len - 1], since);
            if is_repeated(&step[0]) && since.are_in_the_way_of_next(&accesses) {
                self.barrier(since);
            }
            self.placed.push(step[len - 1].clone());
            if step[0].src()[0].min_value() < 1 {
                // Threads may pass it without having met.
                since.add(&before);
            }
        }
    }

    fn barrier(&mut self, since: &mut Accesses) {
        self.placed.push(UOp::new(Op::Barrier, DType::VOID, smallvec![], Arg::Number(self.barriers)));
        self.barriers += 1;
        *since = Accesses::default();
    }

    /// Whether only some threads of the block run the body of a range.
    fn is_for_some_threads(&self, range: &UOp) -> bool {
        let kind = range.as_range().map(|arg| arg.kind).filter(|kind| kind.is_within_block());
        kind.is_some_and(|kind| range.src()[0].as_int().map(|len| len as u64) != self.launch.len_of(kind))
    }
}

/// How many ops the first step has: one, or a loop with all that stands in it.
pub(super) fn length_of_step(ops: &[UOp]) -> usize {
    let mut depth = 0usize;
    for (at, node) in ops.iter().enumerate() {
        match node.op() {
            Op::Range => depth += 1,
            Op::EndRange => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    ops.len()
}

/// Whether a loop may have a second iteration.
fn is_repeated(range: &UOp) -> bool {
    let is_index = range.as_range().is_some_and(|arg| arg.kind.is_thread_index());
    !is_index && range.src()[0].max_value() > 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linearize::text::{parse, print};

    /// The ops of a list with barriers, by name.
    fn ops_of(body: &str) -> String {
        let mut linear =
            parse(&format!("linear %k(f32[64] write, f32[64] read, \"n\") grid 1 {{\n{HEAD}{body}}}")).unwrap();
        linear.ops = place(linear.ops);
        // What comes of it is a list.
        parse(&print(&linear)).unwrap();
        let names = linear.ops.iter().map(|node| node.op().name());
        names.filter(|name| ["range", "end", "load", "store", "barrier"].contains(name)).collect::<Vec<_>>().join(" ")
    }

    const HEAD: &str = "p0: f32 = param #0 [64]
      p1: f32 = param #1 [64]
      s0: f32 = scratch shared #0 [8]
      s1: f32 = scratch shared #1 [8]
      eight: i64 = const 8
      two: i64 = const 2
      seven: i64 = const 7
      x: f32 = const 1.0
      n: i64 = variable \"n\" 0..8\n";

    const FILL: &str = "r5: i64 = range eight, block_x #5
      v0 = index s0, r5
      v1 = store v0, x
      v2 = end r5\n";
    const USE: &str = "r6: i64 = range eight, block_x #6
      v3 = sub seven, r6
      v4 = index s0, v3
      v5 = load v4
      v6 = index p0, r6
      v7 = store v6, v5
      v8 = end r6\n";

    #[test]
    fn threads_meet_between_stores_and_loads_and_before_the_next_ones() {
        let once = format!("{FILL}{USE}");
        assert_eq!(ops_of(&once), "range store end barrier range load store end");
        let repeated = |len: &str| format!("r0: i64 = range {len}, loop #0\n{FILL}{USE}v9 = end r0\n");
        assert_eq!(ops_of(&repeated("two")), "range range store end barrier range load store end barrier end");
        // Within the loop over threads just as well.
        let inside = format!("r7: i64 = range eight, block_x #7\n{}v10 = end r7\n", repeated("n"));
        assert_eq!(ops_of(&inside), "range range range store end barrier range load store end barrier end end");
        // A block of the grid fills its scratch once.
        let blocks = repeated("two").replace("loop #0", "grid_x #0");
        assert_eq!(ops_of(&blocks), "range range store end barrier range load store end end");
    }

    /// [`FILL`] of a scratch of its own.
    fn fill_of_another() -> String {
        let names = [("s0", "s1"), ("v0", "w0"), ("v1 =", "w1 ="), ("v2 =", "w2 ="), ("r5", "q5"), ("#5", "#15")];
        names.iter().fold(FILL.to_string(), |text, (from, to)| text.replace(from, to))
    }

    #[test]
    fn one_barrier_serves_several_scratches() {
        let second = fill_of_another();
        let both = USE.replace("v5 = load v4", "v5a = load v4\n w3 = index s1, v3\n w4 = load w3\n v5 = add v5a, w4");
        let body = format!("r0: i64 = range two, loop #0\n{FILL}{second}{both}v9 = end r0\n");
        assert_eq!(
            ops_of(&body),
            "range range store end range store end barrier range load load store end barrier end"
        );
    }

    #[test]
    fn threads_do_not_meet_in_a_loop_that_may_be_empty() {
        // The loop over n meets; if there is no n, what was stored before it has not been met for.
        let second = fill_of_another();
        let reads = USE
            .replace("s0", "s1")
            .replace("v3", "w3")
            .replace("v4", "w4")
            .replace("v5", "w5")
            .replace("v6", "w6")
            .replace("v7", "w7")
            .replace("v8", "w8")
            .replace("r6", "q6")
            .replace("#6", "#16");
        let body = |len: &str| format!("{second}r0: i64 = range {len}, loop #0\n{FILL}{USE}v9 = end r0\n{reads}");
        let inside = "range range store end barrier range load store end barrier end";
        assert_eq!(ops_of(&body("n")), format!("range store end {inside} barrier range load store end"));
        assert_eq!(ops_of(&body("two")), format!("range store end {inside} range load store end"));
    }
}
