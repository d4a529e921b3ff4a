//! Bodies of innermost loops of GPUs are repeated, so that a turn has several iterations: they ask memory for several elements before they wait for the first, and count and
//! compare once for all of them.
//!
//! ```text
//! r2 in 0..12                          r2 in 0..3
//!   v0 = load p0[b + r2 * 64]            v0 = load p0[b + r2 * 256]
//!   a0 += v0                      =>     v1 = load p0[b + r2 * 256 + 64]
//!                                        v2, v3 = ...
//!                                        a0 += v0;  a0 += v1;  a0 += v2;  a0 += v3
//! ```
//!
//! Iterations stand beside each other op by op, but for what updates accumulators, or combines with what is in memory: that comes in the order in which the loop would do it, so values stay to the bit. Iterations that are left over come before the
//! loop. Addresses of further iterations are those of the first and a constant (`addresses`).
//!
//! Indices of threads are no loops: where a body has them, its ops are repeated inside.
//!
//! Nothing is done with a loop of variable length, or one that holds loops, ops at which threads meet, exchanges, or accumulators that begin there; nor where it stores to a memory that it loads.
//!
//! Which loops are repeated, and how often, is said in `plan`; iterations beside each other are written in `copies`; here they take the place of the loop.
//!
//! Always: the list's rules (`check`). Tested below, and by every kernel that runs on the emulator of GPUs.

mod copies;
mod plan;

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::smallvec;

use copies::Copies;
use plan::{Plan, registers_left};

use super::folded::folded;
use crate::ir::{Arg, Op, Sources, UOp};
use crate::linearize::linearizer::without_unused;

/// Bytes that a thread loads in a turn, at most.
const BYTES_MAX: usize = 128;
/// Most ops that a body becomes; the same where iterations load what others do.
const OPS_MAX: usize = 384;
const OPS_SHARED_MAX: usize = 2048;

/// The list with repeated bodies.
pub fn repeat_bodies(list: Vec<UOp>) -> Vec<UOp> {
    let (mut list, mut repeated) = (list, FxHashSet::default());
    // Where a loop is gone, the one around it may be innermost.
    while repeat_innermost(&mut list, &mut repeated) {}
    list
}

/// Repeats innermost loops but those that were; whether one of them is gone.
fn repeat_innermost(list: &mut Vec<UOp>, repeated: &mut FxHashSet<u32>) -> bool {
    let mut plans: FxHashMap<usize, Plan> = FxHashMap::default();
    for end in (0..list.len()).filter(|at| list[*at].op() == Op::EndRange) {
        let id = list[end].src()[0].as_range().map(|arg| arg.id);
        if let Some((begin, plan)) = Plan::of(list, end).filter(|_| !id.is_some_and(|id| repeated.contains(&id))) {
            repeated.extend(id);
            plans.insert(begin, plan);
        }
    }
    if plans.is_empty() {
        return false;
    }
    let before = list.iter().filter(|node| node.op() == Op::EndRange).count();
    *list = with_plans(std::mem::take(list), &plans);
    list.iter().filter(|node| node.op() == Op::EndRange).count() < before
}

fn with_plans(list: Vec<UOp>, plans: &FxHashMap<usize, Plan>) -> Vec<UOp> {
    let mut writer = Writer {
        known: list.iter().cloned().collect(),
        now: FxHashMap::default(),
        constants: Vec::new(),
        written: Vec::new(),
        open: vec![FxHashSet::default()],
        registers: registers_left(&list),
    };
    let mut at = 0;
    while at < list.len() {
        if let Some(plan) = plans.get(&at)
            && plan.ways.iter().any(|copies| writer.repeat(&list[at..=plan.end], plan, *copies))
        {
            at = plan.end + 1;
            continue;
        }
        let node = writer.renewed(&list[at]);
        writer.push(node);
        at += 1;
    }
    let Writer { mut constants, written, .. } = writer;
    constants.extend(written);
    without_unused(constants)
}

/// Bytes of a value, of all its lanes.
fn bytes_of(node: &UOp) -> usize {
    node.dtype().bytes() * node.dtype().lanes()
}

/// Writes a list anew.
struct Writer {
    /// All ops of the list, and all that were written.
    known: FxHashSet<UOp>,
    /// What ops of the list are now.
    now: FxHashMap<UOp, UOp>,
    /// Constants that the list did not have.
    constants: Vec<UOp>,
    written: Vec<UOp>,
    /// What was written in each open loop.
    open: Vec<FxHashSet<UOp>>,
    /// Registers of a thread that nothing has in all of a loop.
    registers: usize,
}

impl Writer {
    fn push(&mut self, node: UOp) {
        match node.op() {
            Op::EndRange => drop(self.open.pop()),
            Op::Range => self.open.push(FxHashSet::default()),
            _ => {}
        }
        if let Some(innermost) = self.open.last_mut() {
            innermost.insert(node.clone());
        }
        self.written.push(node);
    }

    /// An op over what its operands are now.
    fn renewed(&mut self, node: &UOp) -> UOp {
        if !node.src().iter().any(|operand| self.now.contains_key(operand)) {
            return node.clone();
        }
        let src: Sources = node.src().iter().map(|operand| self.now.get(operand).unwrap_or(operand).clone()).collect();
        let new = node.with_src(src);
        self.now.insert(node.clone(), new.clone());
        self.known.insert(new.clone());
        new
    }

    /// Writes a loop, given from its beginning to its end; false, and nothing is written, if an op would stand in the list twice.
    fn repeat(&mut self, list: &[UOp], plan: &Plan, copies_of_turn: i64) -> bool {
        let (range, body) = (self.renewed(&list[0]), &list[1..list.len() - 1]);
        let turns = range.src()[0].as_int().unwrap_or(0);
        let rest_of_turns = turns % copies_of_turn;
        let int = |value: i64| UOp::int(value, range.dtype());
        let mut copies =
            Copies { writer: self, plan, constants: Vec::new(), ops: Vec::new(), fresh: FxHashSet::default() };
        if !plan.has_threads {
            body.iter().filter(|node| !plan.varying.contains(*node)).for_each(|node| copies.keep(node));
        }
        let rest: Vec<UOp> = (0..rest_of_turns).map(int).collect();
        if !(rest.is_empty() || copies.write(body, &list[0], &rest)) {
            return false;
        }
        let count = int((turns - rest_of_turns) / copies_of_turn);
        let is_gone = !plan.is_named && turns == copies_of_turn;
        let shorter = UOp::new(Op::Range, range.dtype(), smallvec![count.clone()], range.arg().clone());
        let ended = UOp::new(Op::EndRange, list[list.len() - 1].dtype(), smallvec![shorter.clone()], Arg::None);
        let numbers: Vec<UOp> = if turns == copies_of_turn {
            (0..turns).map(int).collect()
        } else {
            let scaled = folded(&UOp::binary(Op::Mul, &shorter, &int(copies_of_turn)));
            let first = folded(&UOp::binary(Op::Add, &scaled, &int(rest_of_turns)));
            (0..copies_of_turn).map(|copy| folded(&UOp::binary(Op::Add, &first, &int(copy)))).collect()
        };
        let begins = is_gone || copies.put(&count) && copies.put(&shorter);
        let of_turn = (copies_of_turn + rest_of_turns) as usize;
        let asked = body.iter().filter(|node| node.op() == Op::Load).count() * of_turn;
        if !begins || !copies.write(body, &list[0], &numbers) {
            return false;
        }
        let Copies { constants, mut ops, .. } = copies;
        let loads: Vec<&UOp> = ops.iter().filter(|node| node.op() == Op::Load).collect();
        let bytes = loads.iter().map(|load| bytes_of(load)).sum::<usize>() * copies_of_turn as usize / of_turn;
        let is_shared = 4 * loads.len() <= 3 * asked;
        // Each element is in a register, and as many have what is made of them; of elements that several iterations load, few are asked for at a time.
        let [ops_max, bytes_max] = match is_shared {
            true => [OPS_SHARED_MAX, self.registers * 4],
            false => [OPS_MAX, (self.registers * 2).min(BYTES_MAX)],
        };
        if ops.len() > ops_max || bytes > bytes_max {
            return false;
        }
        if !is_gone {
            ops.push(ended.clone());
        }
        for node in constants.iter().chain(&ops) {
            self.known.insert(node.clone());
        }
        self.constants.extend(constants);
        ops.into_iter().for_each(|node| self.push(node));
        self.now.insert(list[list.len() - 1].clone(), ended);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;
    use crate::ir::interpret::Value;
    use crate::linearize::check;
    use crate::linearize::interpret::{Memory, interpret, shares};
    use crate::linearize::text::{parse, print};

    /// A sum of every eighth number, of as many as there are turns, under a condition that holds of all but the last.
    const SUM: &str = "p0: f32 = param #0 [8]
      p1: f32 = param #1 [1024]
      zero: f32 = const 0.0
      turns: i32 = const 12
      eight: i32 = const 8
      most: i32 = const 95
      r0: i32 = range eight, block_x #0
      a0 = accumulator zero, #0
      r1: i32 = range turns, reduce #1
      v0 = mul r1, eight
      v1 = add v0, r0
      v2 = lt v1, most
      v3 = index p1, v1, v2
      v4 = load v3
      v5 = add a0, v4
      v6 = update a0, v5
      v7 = end r1
      v8 = final a0, v7
      v9 = index p0, r0
      v10 = store v9, v8
      v11 = end r0\n";

    fn repeated(body: &str) -> String {
        let text = format!("linear %k(f32[8] write, f32[1024] read) grid 1 {{\n{body}}}");
        let mut linear = parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        linear.ops = repeat_bodies(linear.ops);
        check::check(&linear.ops).unwrap_or_else(|error| panic!("{error}\n{}", print(&linear)));
        print(&linear)
    }

    fn count(text: &str, what: &str) -> usize {
        text.lines().filter(|line| line.contains(what)).count()
    }

    #[test]
    fn a_turn_has_several_iterations() {
        let text = repeated(SUM);
        // Of twelve, six at a time: so none is left over.
        assert_eq!((count(&text, " load "), count(&text, "update "), count(&text, "range ")), (6, 6, 2), "{text}");
        // All of seven, of which the last one alone may be beyond the end; the loop remains, for its end is asked for.
        let all = repeated(&SUM.replace("const 12", "const 7").replace("const 95", "const 55"));
        assert_eq!((count(&all, " load "), count(&all, "= lt ")), (7, 1), "{all}");
        // Thirteen leave five over, which come first.
        let rest = repeated(&SUM.replace("const 12", "const 13"));
        assert_eq!((count(&rest, " load "), count(&rest, "update ")), (13, 13), "{rest}");
        assert!(rest.find("update") < rest.find("reduce"), "{rest}");
    }

    #[test]
    fn what_is_stored_is_repeated_inside_of_indices_of_threads() {
        let copy = "p0: f32 = param #0 [1024]
          p1: f32 = param #1 [1024]
          turns: i32 = const 15
          eight: i32 = const 8
          r1: i32 = range turns, loop #1
          v0 = mul r1, eight
          r0: i32 = range eight, block_x #0
          v1 = add v0, r0
          v2 = index p1, v1
          v3 = load v2
          v4 = index p0, v1
          v5 = store v4, v3
          v6 = end r0
          v7 = end r1\n";
        let text = repeated(copy);
        assert_eq!((count(&text, " load "), count(&text, " store "), count(&text, "block_x")), (5, 5, 1), "{text}");
        // Nothing may be left over there, and what is loaded may not be what another iteration stores.
        assert_eq!(count(&repeated(&copy.replace("const 15", "const 17")), " load "), 1);
        let in_place =
            copy.replace("index p1", "index p0").replace("v4 = index p0, v1\n", "").replace("store v4", "store v2");
        assert_eq!(count(&repeated(&in_place), " load "), 1);
    }

    #[test]
    fn what_updates_in_each_iteration_alike_is_left() {
        for (from, to) in [
            ("v5 = add a0, v4", "v5 = add a0, zero"),
            ("v5 = add a0, v4", "v12 = neg a0\n v5 = add v12, v4"),
            ("v6 = update a0, v5\n", "v6 = update a0, v5\n b0 = barrier #0\n"),
        ] {
            assert!(SUM.contains(from));
            let text = repeated(&SUM.replace(from, to));
            assert_eq!(count(&text, "update "), 1, "{text}");
        }
    }

    /// What is added depends on a condition alone, which holds in the first iterations, so they come to add the same: no addition may be lost.
    #[test]
    fn iterations_that_come_to_update_alike_are_all_there() {
        let (load, counted) =
            ("v3 = index p1, v1, v2\n      v4 = load v3", "one: f32 = const 1.0\n      v4 = where v2, one, zero");
        assert!(SUM.contains(load));
        for most in [9, 23, 40, 57, 95] {
            let body = SUM.replace(load, counted).replace("const 95", &format!("const {most}"));
            let text = repeated(&body);
            assert!(most == 9 || count(&text, "update ") > 1, "{text}");
            let wanted: Vec<f64> = (0..8).map(|r0| (0..12).filter(|r1| r1 * 8 + r0 < most).count() as f64).collect();
            assert_eq!(sums(&text), wanted, "{text}");
        }
    }

    /// What a list leaves of eight sums.
    fn sums(text: &str) -> Vec<f64> {
        let linear = parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let zeros = Value::from_f64(DType::F32, [1024], &[0.0; 1024]).expect("as many");
        let mut memory = [Memory::fresh(DType::F32, 8), Memory::given(&zeros)];
        interpret(&linear, &mut memory, &[], &shares(linear.grid, 1)).unwrap_or_else(|error| panic!("{error}\n{text}"));
        memory[0].value([8]).map(|value| value.to_f64()).unwrap_or_default()
    }
}
