//! Short innermost loops of GPUs are written out, one iteration behind the other, and neighbours in memory that several iterations load are loaded at once. On a CPU
//! those are of which iterations load the same, as windows in a tile of rows do: each element is then loaded once.
//!
//! ```text
//! r2 in 0..4                                      v0: f32x4 = load s0[b]
//!   v0 = load s0[b + r2]                          a0 += v0[0] * load s1[c]
//!   a0 += v0 * load s1[c + r2 * 128]       =>     a0 += v0[1] * load s1[c + 128]
//!                                                 ...
//! ```
//!
//! A turn of a loop costs three instructions, an address one or two, and a thread may load 16 bytes by one. Written out, addresses differ by constants, which are part of
//! instructions (`addresses`). Accumulators are updated in the order in which the loop would: the values stay, to the bit.
//!
//! A loop is written out that has at most so many iterations, no other loop in it, no store and no op at which threads meet, and of which all that it holds differs from
//! iteration to iteration: an op stands in a list once. So a loop stays as it is, too, where what would be written stands elsewhere already.
//!
//! Which loads become one is said in `neighbours`.
//!
//! Always: the list's rules (`check`). Tested below, by every kernel that runs on the emulator of GPUs, and by convolutions.

use rustc_hash::{FxHashMap, FxHashSet};

use super::folded::folded;
use super::neighbours::with_neighbours;
use crate::ir::{AxisKind, Op, Sources, UOp};

/// Most iterations of a loop that is written out.
const TURNS_MAX: i64 = 4;
/// The same where iterations load what others do.
const SHARED_TURNS_MAX: i64 = 11;
/// Most ops that a loop becomes.
const OPS_MAX: usize = 2048;

/// The list with its short loops written out.
pub fn write_out(list: Vec<UOp>) -> Vec<UOp> {
    written_out(list, TURNS_MAX, true)
}

/// The list with those short loops written out of which several iterations load the same; neighbours are loaded one by one.
pub fn write_out_shared(list: Vec<UOp>) -> Vec<UOp> {
    written_out(list, SHARED_TURNS_MAX, false)
}

fn written_out(list: Vec<UOp>, turns_max: i64, joins_neighbours: bool) -> Vec<UOp> {
    let ends: Vec<usize> = (0..list.len()).filter(|at| list[*at].op() == Op::EndRange).collect();
    let short: FxHashMap<usize, usize> =
        ends.into_iter().filter_map(|end| Some((begin_of_short(&list, end, turns_max)?, end))).collect();
    if short.is_empty() {
        return list;
    }
    let mut writer = Writer::of(&list);
    let mut at = 0;
    while at < list.len() {
        let loop_end = short.get(&at).copied();
        if let Some(end) = loop_end
            && writer.write_loop(&list[at], &list[at + 1..end], joins_neighbours)
        {
            at = end + 1;
            continue;
        }
        writer.copy(&list[at]);
        at += 1;
    }
    writer.finished()
}

/// Where a loop begins that ends here, if it is to be written out.
fn begin_of_short(list: &[UOp], end: usize, turns_max: i64) -> Option<usize> {
    let range = &list[end].src()[0];
    let is_loop = range.as_range().is_some_and(|arg| matches!(arg.kind, AxisKind::Loop | AxisKind::Reduce));
    let turns = range.src()[0].as_int().filter(|turns| is_loop && (2..=turns_max).contains(turns))?;
    let begin = list[..end].iter().rposition(|node| node.op() == Op::Range)?;
    let body = &list[begin + 1..end];
    if list[begin] != *range || body.len() * turns as usize > OPS_MAX {
        return None;
    }
    let mut varying: FxHashSet<&UOp> = [range].into_iter().collect();
    for node in body {
        let is_pinned = matches!(
            node.op(),
            Op::EndRange | Op::Store | Op::Exchange | Op::Barrier | Op::ShuffleReduce | Op::Final | Op::Previous
        );
        if is_pinned || !node.src().iter().any(|operand| varying.contains(operand)) {
            return None;
        }
        varying.insert(node);
    }
    // Who names the end needs it.
    let is_named = list[end + 1..].iter().any(|node| node.src().contains(&list[end]));
    (!is_named).then_some(begin)
}

/// Writes a list anew.
pub(super) struct Writer {
    /// All ops of the list, and all that were written.
    known: FxHashSet<UOp>,
    /// What was written in each open loop.
    open: Vec<FxHashSet<UOp>>,
    /// What was written.
    listed: FxHashSet<UOp>,
    /// Constants that the list did not have.
    constants: Vec<UOp>,
    written: Vec<UOp>,
}

impl Writer {
    pub(super) fn of(list: &[UOp]) -> Writer {
        Writer {
            known: list.iter().cloned().collect(),
            open: vec![FxHashSet::default()],
            listed: FxHashSet::default(),
            constants: Vec::new(),
            written: Vec::with_capacity(list.len() * 2),
        }
    }

    /// The new list, without what nothing needs.
    pub(super) fn finished(self) -> Vec<UOp> {
        let Writer { mut constants, written, .. } = self;
        constants.extend(written);
        crate::linearize::linearizer::without_unused(constants)
    }

    /// Whether an op was written where it is seen from here.
    pub(super) fn is_open(&self, node: &UOp) -> bool {
        self.open.iter().any(|scope| scope.contains(node))
    }

    /// Whether an op was written anywhere.
    pub(super) fn was_written(&self, node: &UOp) -> bool {
        self.listed.contains(node)
    }

    /// Writes a constant, before everything else.
    pub(super) fn constant(&mut self, node: &UOp) {
        if !self.known.contains(node) {
            self.known.insert(node.clone());
            self.constants.push(node.clone());
        }
        if let Some(outermost) = self.open.first_mut() {
            outermost.insert(node.clone());
        }
    }

    pub(super) fn copy(&mut self, node: &UOp) {
        self.listed.insert(node.clone());
        match node.op() {
            Op::EndRange => drop(self.open.pop()),
            Op::Range => self.open.push(FxHashSet::default()),
            _ => {}
        }
        if let Some(innermost) = self.open.last_mut() {
            innermost.insert(node.clone());
        }
        self.written.push(node.clone());
    }

    /// Writes the iterations of a loop; false, and nothing is written, if an op would stand in the list twice.
    fn write_loop(&mut self, range: &UOp, body: &[UOp], joins_neighbours: bool) -> bool {
        let ops = iterations(range, body).concat();
        if !joins_neighbours && !shares_loads(&ops) {
            return false;
        }
        self.write_ops(&if joins_neighbours { with_neighbours(&ops) } else { ops })
    }

    /// Writes straight-line code; false, and nothing is written, if an op would stand in the list twice.
    pub(super) fn write_ops(&mut self, ops: &[UOp]) -> bool {
        let mut fresh: Vec<UOp> = Vec::new();
        let mut listed: FxHashSet<UOp> = FxHashSet::default();
        for node in ops {
            if !self.list(node, &mut fresh, &mut listed) {
                return false;
            }
        }
        for node in fresh {
            self.known.insert(node.clone());
            match node.op() {
                Op::Const => self.constants.push(node),
                _ => self.copy(&node),
            }
        }
        true
    }

    /// Puts an op behind its operands, unless it is there; false if it is elsewhere.
    fn list(&self, node: &UOp, fresh: &mut Vec<UOp>, listed: &mut FxHashSet<UOp>) -> bool {
        if listed.contains(node) || self.is_open(node) {
            return true;
        }
        if node.op() != Op::Update && self.known.contains(node) {
            // Constants stand at the beginning of every list.
            return node.op() == Op::Const;
        }
        for operand in node.src() {
            if !self.list(operand, fresh, listed) {
                return false;
            }
        }
        fresh.push(node.clone());
        listed.insert(node.clone());
        true
    }
}

/// What each iteration of a loop does.
pub(super) fn iterations(range: &UOp, body: &[UOp]) -> Vec<Vec<UOp>> {
    let turns = range.src()[0].as_int().unwrap_or(0);
    let of_turn = |turn: i64| {
        let mut done: FxHashMap<&UOp, UOp> = [(range, UOp::int(turn, range.dtype()))].into_iter().collect();
        let mut ops: Vec<UOp> = Vec::with_capacity(body.len());
        for node in body {
            let src: Sources = node.src().iter().map(|operand| done.get(operand).unwrap_or(operand).clone()).collect();
            let new = folded(&node.with_src(src));
            ops.push(new.clone());
            done.insert(node, new);
        }
        ops
    };
    (0..turns).map(of_turn).collect()
}

/// Whether at least a quarter of the loads are asked for a second time.
fn shares_loads(ops: &[UOp]) -> bool {
    let loads = || ops.iter().filter(|node| node.op() == Op::Load);
    let different: FxHashSet<&UOp> = loads().collect();
    different.len() * 4 <= loads().count() * 3
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linearize::check;
    use crate::linearize::text::{parse, print};

    /// A sum of products of four neighbours with four of another row, in a loop around which there is another.
    const SUMS: &str = "p0: f32 = param #0 [8]
      p1: f32 = param #1 [64]
      p2: f32 = param #2 [64]
      zero: f32 = const 0.0
      two: i32 = const 2
      four: i32 = const 4
      eight: i32 = const 8
      r0: i32 = range eight, block_x #0
      v0 = mul r0, eight
      a0 = accumulator zero, #0
      r1: i32 = range two, reduce #1
      v1 = mul r1, four
      v2 = add v0, v1
      r2: i32 = range four, reduce #2
      v3 = add v2, r2
      v4 = index p1, v3
      v5 = load v4
      v6 = mul r2, eight
      v7 = add v6, r0
      v8 = index p2, v7
      v9 = load v8
      v10 = muladd v5, v9, a0
      v11 = update a0, v10
      v12 = end r2
      v13 = end r1
      v14 = final a0, v13
      v15 = index p0, r0
      v16 = store v15, v14
      v17 = end r0\n";

    fn written(body: &str) -> String {
        let text = format!("linear %k(f32[8] write, f32[64] read, f32[64] read) grid 1 {{\n{body}}}");
        let mut linear = parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        linear.ops = write_out(linear.ops);
        check::check(&linear.ops).unwrap_or_else(|error| panic!("{error}\n{}", print(&linear)));
        print(&linear)
    }

    fn count(text: &str, what: &str) -> usize {
        text.lines().filter(|line| line.contains(what)).count()
    }

    #[test]
    fn neighbours_of_several_iterations_are_one_load() {
        let text = written(SUMS);
        assert_eq!((count(&text, "range "), count(&text, "muladd "), count(&text, "update ")), (2, 4, 4), "{text}");
        // Four neighbours at once, and those of four rows one by one.
        assert_eq!((count(&text, " load "), count(&text, "f32x4 = index")), (5, 1), "{text}");
    }

    #[test]
    fn neighbours_that_are_not_aligned_are_loaded_one_by_one() {
        let text = written(&SUMS.replace("v0 = mul r0, eight", "v0 = mul r0, two"));
        assert_eq!((count(&text, " load "), count(&text, "f32x2 = index")), (6, 2), "{text}");
        let odd = written(&SUMS.replace("v1 = mul r1, four", "v1 = mul r1, r0"));
        assert_eq!(count(&odd, " load "), 8, "{odd}");
    }

    #[test]
    fn loops_that_something_else_stands_in_or_asks_for_are_left() {
        for (from, to) in [
            ("range four, reduce #2", "range eight, reduce #2"),
            ("v11 = update a0, v10\n", "v11 = update a0, v10\n v18 = index p0, r2\n v19 = store v18, v10\n"),
            ("v11 = update a0, v10\n", "v11 = update a0, v10\n b0 = barrier #0\n"),
            ("v14 = final a0, v13", "v14 = final a0, v12"),
            // It is the same in each iteration.
            ("v6 = mul r2, eight", "v6 = mul r1, eight"),
        ] {
            assert!(SUMS.contains(from));
            let text = written(&SUMS.replace(from, to));
            assert_eq!(count(&text, "range "), 3, "{text}");
        }
    }
}
