//! Loops, the indices of threads, and accumulators.
//!
//! | range | becomes |
//! |---|---|
//! | of length 1 | nothing: its index is 0 |
//! | a loop | a counter, a label, and a branch back; a branch past it first where the length may be 0 |
//! | `parallel` | the number of the thread in the whole grid, behind a branch where that is no item |
//! | `grid` | `%ctaid` along its dimension |
//! | `block` | `%tid` along its dimension; along x, that of the group of lanes |
//! | `lane` | the low bits of `%tid.x`: groups are of a power of two, and a block begins with a whole one |
//!
//! An index of which there may be more than the range is long is behind a branch. Accumulators are registers that are written again; what is read of one for later
//! is copied (`kept`).

use warpweft_compiler::ir::{Arg, AxisKind, ThreadDim};
use warpweft_compiler::{DType, Op, UOp};

use super::registers::{self, Kind, arithmetic};
use super::{Writer, bug};

/// A range whose end has not come.
pub(super) struct OpenLoop {
    range: UOp,
    form: Form,
}

/// What a range became.
enum Form {
    /// Straight code.
    Once,
    /// Straight code that some threads pass by.
    Guarded,
    /// A loop of so many iterations.
    Counted { stop: String, may_be_empty: bool },
}

impl Writer<'_> {
    pub(super) fn open_range(&mut self, range: &UOp) {
        let Some(arg) = range.as_range() else { bug(range, "has no number") };
        let kind = arg.kind;
        let form = match kind {
            AxisKind::Loop
            | AxisKind::Reduce
            | AxisKind::Serial
            | AxisKind::Unroll
            | AxisKind::Vector
            | AxisKind::Dot => {
                return self.open_loop(range, arg.id);
            }
            AxisKind::Parallel | AxisKind::Grid(_) | AxisKind::Block(_) | AxisKind::Lane => {
                let (index, count) = self.thread_index(range, kind);
                let len = &range.src()[0];
                let form = if len.as_int() == Some(count as i64) {
                    Form::Once
                } else {
                    let len = self.lane(len, 0);
                    let past = self.compute(
                        Kind::Predicate,
                        &format!("setp.ge.{}", arithmetic(range.dtype())),
                        &[&index, &len],
                    );
                    self.line(&format!("@{past} bra end{};", arg.id));
                    Form::Guarded
                };
                self.set(range, vec![index]);
                form
            }
        };
        self.open.push(OpenLoop { range: range.clone(), form });
    }

    fn open_loop(&mut self, range: &UOp, id: u32) {
        let len = &range.src()[0];
        if len.as_int() == Some(1) {
            self.set(range, vec!["0".to_string()]);
            self.open.push(OpenLoop { range: range.clone(), form: Form::Once });
            return;
        }
        let (stop, may_be_empty) = (self.lane(len, 0), len.min_value() < 1);
        if may_be_empty {
            let instruction = format!("setp.lt.{}", arithmetic(range.dtype()));
            let stop = self.in_register(Kind::of(range.dtype()), stop.clone());
            let empty = self.compute(Kind::Predicate, &instruction, &[&stop, "1"]);
            self.line(&format!("@{empty} bra end{id};"));
        }
        let kind = Kind::of(range.dtype());
        let counter = self.compute(kind, &format!("mov.{}", kind.plain()), &["0"]);
        self.renewed.insert(counter.clone());
        self.set(range, vec![counter]);
        self.label(&format!("loop{id}"));
        self.open.push(OpenLoop { range: range.clone(), form: Form::Counted { stop, may_be_empty } });
    }

    /// The index that the thread has of this kind, and how many there are.
    fn thread_index(&mut self, range: &UOp, kind: AxisKind) -> (String, u64) {
        let launch = self.launch;
        let letter = |dim: ThreadDim| ["x", "y", "z"][dim as usize];
        let special = |writer: &mut Self, name: &str| writer.compute(Kind::Bits32, "mov.u32", &[name]);
        let (index, count) = match kind {
            AxisKind::Grid(dim) => (special(self, &format!("%ctaid.{}", letter(dim))), launch.grid[dim as usize]),
            AxisKind::Block(ThreadDim::X) if launch.lanes > 1 => {
                let thread = special(self, "%tid.x");
                let groups = launch.lanes.trailing_zeros().to_string();
                (self.compute(Kind::Bits32, "shr.u32", &[&thread, &groups]), launch.block[0])
            }
            AxisKind::Block(dim) => (special(self, &format!("%tid.{}", letter(dim))), launch.block[dim as usize]),
            AxisKind::Lane => {
                let thread = special(self, "%tid.x");
                let last = (launch.lanes - 1).to_string();
                (self.compute(Kind::Bits32, "and.b32", &[&thread, &last]), launch.lanes)
            }
            _ => return self.item(range),
        };
        (self.integer_cast(&index, DType::U32, range.dtype()), count)
    }

    /// The item of the parallel loop that the thread does, and how many there would be.
    fn item(&mut self, range: &UOp) -> (String, u64) {
        let [blocks, threads] = [self.launch.grid[0], self.launch.block[0]];
        let block = self.compute(Kind::Bits32, "mov.u32", &["%ctaid.x"]);
        let thread = self.compute(Kind::Bits32, "mov.u32", &["%tid.x"]);
        let threads_text = threads.to_string();
        let item = if range.dtype().bytes() == 4 {
            self.compute(Kind::Bits32, "mad.lo.s32", &[&block, &threads_text, &thread])
        } else {
            let thread = self.integer_cast(&thread, DType::U32, range.dtype());
            self.compute(Kind::Bits64, "mad.wide.u32", &[&block, &threads_text, &thread])
        };
        (item, blocks * threads)
    }

    pub(super) fn close_range(&mut self, end: &UOp) {
        let range = &end.src()[0];
        let Some(open) = self.open.last() else { bug(end, "closes no open loop") };
        if open.range != *range {
            bug(end, "does not close the innermost loop");
        }
        let id = range.as_range().map_or(0, |arg| arg.id);
        let (counted, has_end) = match &open.form {
            Form::Once => (None, false),
            Form::Guarded => (None, true),
            Form::Counted { stop, may_be_empty } => (Some(stop.clone()), *may_be_empty),
        };
        if let Some(stop) = counted {
            let (counter, integer) = (self.lane(range, 0), arithmetic(range.dtype()));
            self.line(&format!("add.{integer} {counter}, {counter}, 1;"));
            let more = self.compute(Kind::Predicate, &format!("setp.lt.{integer}"), &[&counter, &stop]);
            self.line(&format!("@{more} bra loop{id};"));
        }
        self.open.pop();
        if has_end {
            self.label(&format!("end{id}"));
        }
    }

    pub(super) fn accumulator(&mut self, node: &UOp) {
        let kind = Kind::of(node.dtype());
        let mut lanes = Vec::new();
        for lane in 0..node.dtype().lanes() {
            let initial = self.lane(&node.src()[0], lane);
            lanes.push(self.compute(kind, &format!("mov.{}", kind.plain()), &[&initial]));
        }
        self.renewed.extend(lanes.iter().cloned());
        self.set(node, lanes);
    }

    pub(super) fn update(&mut self, node: &UOp) {
        let accumulator = &node.src()[0];
        if accumulator.op() != Op::Accumulator {
            bug(node, "updates no accumulator");
        }
        let plain = Kind::of(accumulator.dtype()).plain();
        for lane in 0..accumulator.dtype().lanes() {
            let (register, value) = (self.lane(accumulator, lane), self.lane(&node.src()[1], lane));
            self.line(&format!("mov.{plain} {register}, {value};"));
        }
    }

    /// The value of each lane of the group, combined in all of them: a butterfly.
    pub(super) fn shuffle_reduce(&mut self, node: &UOp) {
        let Arg::Combine(combine) = *node.arg() else { bug(node, "combines by no op") };
        let (source, range) = (&node.src()[0], &node.src()[1].src()[0]);
        let width =
            range.src()[0].as_int().unwrap_or_else(|| bug(node, "combines a number of lanes that is not known"));
        let dtype = node.dtype().element();
        let kind = Kind::of(dtype);
        let mut lanes = Vec::new();
        let members = if width > 1 { self.members(width) } else { String::new() };
        for lane in 0..node.dtype().lanes() {
            let mut value = self.lane(source, lane);
            value = self.in_register(kind, value);
            value = self.kept(kind, value);
            let mut distance = width / 2;
            while distance > 0 {
                let other = self.value_across(kind, &value, distance, &members);
                value = self.combined(combine, dtype, &value, &other);
                distance /= 2;
            }
            lanes.push(value);
        }
        self.set(node, lanes);
    }

    /// The mask of the lanes of the thread's group within its warp. Other groups of the warp may be elsewhere.
    fn members(&mut self, width: i64) -> String {
        if width >= 32 {
            return "-1".to_string();
        }
        let lane = self.compute(Kind::Bits32, "mov.u32", &["%laneid"]);
        let first = self.compute(Kind::Bits32, "and.b32", &[&lane, &(-width).to_string()]);
        let group = self.compute(Kind::Bits32, "mov.b32", &[&((1i64 << width) - 1).to_string()]);
        self.compute(Kind::Bits32, "shl.b32", &[&group, &first])
    }

    /// What the lane has whose number differs in this bit.
    fn value_across(&mut self, kind: Kind, value: &str, distance: i64, members: &str) -> String {
        let distance = distance.to_string();
        let shuffle = |writer: &mut Self, value: &str| {
            writer.compute(Kind::Bits32, "shfl.sync.bfly.b32", &[value, &distance, "31", members])
        };
        match kind {
            Kind::Bits32 => shuffle(self, value),
            Kind::Float32 => {
                let bits = self.compute(Kind::Bits32, "mov.b32", &[value]);
                let bits = shuffle(self, &bits);
                self.compute(kind, "mov.b32", &[&bits])
            }
            Kind::Bits16 => {
                let wide = self.compute(Kind::Bits32, "cvt.u32.u16", &[value]);
                let wide = shuffle(self, &wide);
                self.compute(kind, "cvt.u16.u32", &[&wide])
            }
            Kind::Predicate => {
                let bit = self.compute(Kind::Bits32, "selp.b32", &["1", "0", value]);
                let bit = shuffle(self, &bit);
                self.compute(kind, "setp.ne.s32", &[&bit, registers::zero(Kind::Bits32)])
            }
            Kind::Bits64 | Kind::Float64 => {
                let (low, high) = (self.register(Kind::Bits32), self.register(Kind::Bits32));
                self.line(&format!("mov.b64 {{{low}, {high}}}, {value};"));
                let (low, high) = (shuffle(self, &low), shuffle(self, &high));
                self.compute(kind, "mov.b64", &[&format!("{{{low}, {high}}}")])
            }
        }
    }
}
