//! Linear kernels as PTX text, for NVIDIA GPUs.
//!
//! One `.visible .entry` per kernel; its calling convention stands in [`warpweft_compiler::program`]. What a thread does is the list in its order, with
//! loops as labels and branches. Ranges of kind `grid`, `block` and `lane` are no loops: they are read from `%ctaid` and `%tid`, and guard what stands in
//! them where there are more threads than their length. A list with a `parallel` loop and no such ranges, as made for a CPU or with no opts at all, runs that loop's
//! iterations in threads of their own, [`ITEMS_OF_BLOCK`] to a block: every list can be rendered.
//!
//! Always:
//! - Vectors of the list are taken apart for arithmetic, and kept for memory: consecutive elements move by at most 16 bytes at once, no more than what is known of
//!   the index shows to be aligned. Buffers begin on multiples of [`BUFFER_ALIGNMENT`] bytes.
//! - Rounding is written out (`add.rn`), so that ptxas fuses nothing: `fma` stands where the list has `muladd`. Nothing is flushed to zero.
//! - No instruction is approximate but `ex2.approx`, which is what `exp2` in `f32` becomes: `legalize::decompose` leaves it where all results are half floats. `lg2.approx` and `sin.approx`
//!   are off by more than the project states, and `legalize::decompose` has made polynomials of these ops. `div.rn` and `sqrt.rn` are correctly rounded.
//! - Integers have the meaning of the IR: bytes are kept extended to 16 bits, division by zero gives 0.
//! - Loads and stores with a gate are predicated; where the gate is false a load gives zero.
//! - `.version` and `.target` are the lowest that have what is used.
//! - Each result is a register of its own. Written again are loop counters, accumulators, what is loaded under a gate, and the steps of a remainder of floats.
//!
//! All that is written, for whoever reads it (`T` is a type; `d`, `a`, `b`, `c` are registers, or constants where an operand stands; every instruction but `bra` and
//! memory is unpredicated; labels stand on lines of their own):
//!
//! | instruction | types | note |
//! |---|---|---|
//! | `.version`, `.target sm_N`, `.address_size 64`, `.visible .entry`, `.param .u64 .ptr .global .align 16`, `.param .s64`, `.reqntid x, y, z` | | head of the module |
//! | `.reg .T %x<n>` | `pred b16 b32 b64 f32 f64` | registers 0 to n - 1 of a kind |
//! | `.shared .align 64 .b8 name[n]`, `.extern .shared .align 64 .b8 name[]`, `.local .align 64 .b8 name[n]` | | extern: dynamic shared memory, before the entry |
//! | `ld.param.T d, [name]` | `u64 s64` | |
//! | `cvta.to.global.u64 d, a` | | |
//! | `mov.T d, a` | `pred b16 b32 b64 f32 f64` | constants of any kind; `mov.u64 d, name` is the address of a variable in its space; `mov.u32 d, %ctaid.x` of `%ctaid`, `%tid` (`x y z`) and `%laneid` |
//! | `mov.b32 d, {a, b}`, `mov.b32 {d, e}, a` | halves of 16 bits | `d` may be `f32`: the bits of a `bf16` above 0 |
//! | `mov.b64 d, {a, b}`, `mov.b64 {d, e}, a` | halves of 32 bits | of `b64` and `f64`, around shuffles |
//! | `ld.S.T d, [a+n]`, `ld.S.vN.T {..}, [a+n]`, `@p` before either | `u8 s8 b16 b32 b64 f32 f64`; `N` 2 or 4, 16 bytes at most | `S`: `global`, `global.nc` (parameters that are only read), `shared`, `local`; a vector of `b32` may hold 8 elements of 16 bits |
//! | `st.S.T [a+n], a`, `st.S.vN.T [a+n], {..}`, `@p` before either | `b8 b16 b32 b64 f32 f64` | |
//! | `add sub .T` | `s16 u16 s32 u32 s64 u64` | wrap |
//! | `mul.lo.T`, `mad.lo.T` | `s16 u16 s32 u32 s64 u64` | |
//! | `mul.hi.T` | `u32 u64` | division by constants |
//! | `mad.wide.T d, a, b, c` | `s32 u32` | addresses: `d` and `c` have 64 bits |
//! | `div rem .T` | `s16 u16 s32 u32 s64 u64` | never by 0, never the least number by -1 |
//! | `ex2.approx.T` | `f32` | |
//! | `neg.T`, `min max .T` | `s16 s32 s64`; also `u16 u32 u64` | |
//! | `and or xor .T`, `not.T` | `pred b16 b32 b64` | |
//! | `shl.T`, `shr.T` | `b16 b32 b64`; `s16 u16 s32 u32 s64 u64` | the count is a `u32`, and is cut at the width |
//! | `add.rn sub.rn mul.rn div.rn fma.rn sqrt.rn .T`, `neg abs .T`, `copysign.T` | `f32 f64` | subnormal numbers are kept |
//! | `max.NaN min.NaN .f32`, `max min .f64` | | the first give NaN if an operand is, and need `sm_80`; the other numbers |
//! | `setp.C.T p, a, b` | `C`: `lt le gt ge eq ne`, of floats also `neu nan`; types of arithmetic | of floats, false on NaN but for `neu` and `nan` |
//! | `selp.T d, a, b, p` | `b16 b32 b64 f32 f64` | |
//! | `cvt.s16.s8 cvt.u16.u8` | | bytes extended after arithmetic |
//! | `cvt.T.U` | among integers | to more bits by the sign of `U`; to fewer, the low bits |
//! | `cvt.rn.T.U` | floats of integers of 16 to 64 bits, `f32.f64`, `f16.f32`, `bf16.f32` | `bf16` needs `sm_80` |
//! | `cvt.T.U` | `f64.f32`, `f32.f16`, `f64.f16` | exact |
//! | `cvt.rzi.T.U` | `f32.f32 f64.f64`; `s64 u64` of `f32 f64` | toward zero; of what is out of range the nearest integer |
//! | `bra label`, `@p bra label`, `@!p bra label`, `ret` | | |
//! | `bar.sync 0` | | all threads of the block |
//! | `cp.async.ca.shared.global [a+n], [b+n], bytes, c`, `cp.async.cg...`, `cp.async.wait_all` | 4, 8, 16 bytes; `cg`: 16 | `sm_80`; `c`, under a gate alone: bytes that are read, the rest is zero |
//! | `shfl.sync.bfly.b32 d, a, n, 31, m` | | `m`: the lanes of the group; -1 where that is a warp |
//!
//! Tested by precise goldens here, by ptxas where there is one, and by the emulator (`DEV=PTX`), which runs what is written here.

mod arithmetic;
mod control;
mod convert;
mod division;
mod lanes;
mod lines;
mod memory;
mod registers;

use rustc_hash::{FxHashMap, FxHashSet};
use warpweft_compiler::ir::{Arg, MemorySpace};
use warpweft_compiler::linearize::addresses::{Scoped, sums_of_addresses};
use warpweft_compiler::linearize::copies::copies;
use warpweft_compiler::linearize::{Linear, ScratchLocation};
use warpweft_compiler::program::{BUFFER_ALIGNMENT, Launch, Parameter, SCRATCH_ALIGNMENT};
use warpweft_compiler::target::Target;
use warpweft_compiler::{DType, Op, UOp};

use crate::symbol::symbol;
use control::OpenLoop;
use memory::Location;
use registers::Kind;

/// Most items of a parallel loop that the threads of one block do.
const ITEMS_OF_BLOCK: u64 = 128;
/// Bytes of shared memory that every kernel may declare; more is given at launch.
const STATIC_SHARED_BYTES: u64 = 48 << 10;
/// What a module has that needs nothing newer: shuffles with a mask, of the first machines whose threads have a program counter each.
const OLDEST: Needs = Needs { version: (6, 0), target: 70 };

/// A kernel as PTX, and how it is launched.
pub(crate) struct Rendered {
    pub(crate) entry: String,
    pub(crate) source: String,
    pub(crate) launch: Launch,
    /// Bytes of shared memory that a launch must ask for.
    pub(crate) dynamic_shared_bytes: u64,
}

/// The module of one kernel.
pub(crate) fn render(linear: &Linear, target: &Target) -> Rendered {
    let entry = symbol(&linear.name);
    let launch = launch_of(linear);
    let shared_bytes = linear.shared().bytes;
    let dynamic_shared_bytes = if shared_bytes > STATIC_SHARED_BYTES { shared_bytes } else { 0 };
    let mut writer = Writer::new(linear, target, launch);
    writer.declare_scratch(linear, dynamic_shared_bytes > 0);
    for op in &linear.ops {
        writer.micro_op(op);
    }
    let source = module(linear, &entry, &writer, dynamic_shared_bytes > 0);
    Rendered { entry, source, launch, dynamic_shared_bytes }
}

/// The blocks and threads of a list; items of a parallel loop are threads.
fn launch_of(linear: &Linear) -> Launch {
    let launch = linear.launch();
    if launch.blocks() == 1 && launch.threads() == 1 && linear.grid > 1 {
        let threads = linear.grid.min(ITEMS_OF_BLOCK);
        return Launch { grid: [linear.grid.div_ceil(threads), 1, 1], block: [threads, 1, 1], lanes: 1 };
    }
    launch
}

fn module(linear: &Linear, entry: &str, body: &Writer, is_shared_dynamic: bool) -> String {
    let Launch { grid: [gx, gy, gz], block: [x, y, z], lanes } = body.launch;
    let Needs { version: (major, minor), target } = body.needs;
    let name = linear.name.escape_default();
    let mut text = format!("// {name}: {gx} x {gy} x {gz} blocks of {} x {y} x {z} threads\n", x * lanes);
    text += &format!(".version {major}.{minor}\n.target sm_{target}\n.address_size 64\n\n");
    if is_shared_dynamic {
        text += &format!(".extern .shared .align {SCRATCH_ALIGNMENT} .b8 shared[];\n\n");
    }
    let buffer = |slot: usize| format!("  .param .u64 .ptr .global .align {BUFFER_ALIGNMENT} p{slot}");
    let buffers = (0..linear.parameters.len()).map(buffer);
    let variables = (0..linear.variables.len()).map(|position| format!("  .param .s64 n{position}"));
    let declared: Vec<String> = buffers.chain(variables).collect();
    text += &format!(".visible .entry {entry}(\n{}\n)\n.reqntid {}, {y}, {z}\n{{\n", declared.join(",\n"), x * lanes);
    for (kind, count) in Kind::ALL.iter().zip(body.counts).filter(|(_, count)| *count > 0) {
        text += &format!("  .reg .{} {}<{count}>;\n", kind.plain(), kind.prefix());
    }
    for line in body.declarations.iter().chain(&body.lines) {
        text += line;
        text.push('\n');
    }
    text += "  ret;\n}\n";
    text
}

/// The oldest version of PTX and the oldest machines that have what is used.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Needs {
    version: (u32, u32),
    target: u32,
}

/// Writes the instructions of a kernel.
struct Writer<'a> {
    linear: &'a Linear,
    launch: Launch,
    /// Number of the machine: 90 of `sm_90`.
    machine: u32,
    needs: Needs,
    declarations: Vec<String>,
    lines: Vec<String>,
    /// Registers of each kind so far.
    counts: [u32; 6],
    /// Labels so far that are of no range.
    labels: u32,
    /// The operand of each lane.
    values: FxHashMap<UOp, Vec<String>>,
    /// Where scratches and parameters begin, and what indices point at.
    locations: FxHashMap<UOp, Location>,
    /// Registers that are written again: what is read from them is copied.
    renewed: FxHashSet<String>,
    open: Vec<OpenLoop>,
    /// Registers that hold all elements of matrices, in pairs.
    pairs: FxHashMap<UOp, Vec<String>>,
    /// Loads that are halves of copies to shared memory, and the bytes copied at once.
    copies: FxHashMap<UOp, usize>,
    /// Sums whose constant stands in addresses, and which nothing else needs.
    sums: FxHashSet<UOp>,
    /// Addresses of elements of a memory in the loops that are open.
    addresses: Scoped<(UOp, UOp), String>,
}

impl<'a> Writer<'a> {
    fn new(linear: &'a Linear, target: &Target, launch: Launch) -> Writer<'a> {
        let machine = target.compute_capability().unwrap_or(OLDEST.target);
        Writer {
            linear,
            launch,
            machine,
            needs: OLDEST,
            declarations: Vec::new(),
            lines: Vec::new(),
            counts: [0; 6],
            labels: 0,
            values: FxHashMap::default(),
            locations: FxHashMap::default(),
            renewed: FxHashSet::default(),
            open: Vec::new(),
            pairs: FxHashMap::default(),
            copies: if machine >= 80 { copies(&linear.ops) } else { FxHashMap::default() },
            sums: sums_of_addresses(&linear.ops),
            addresses: Scoped::default(),
        }
    }

    /// Declares the scratch memory; dynamic shared memory is declared by the module.
    fn declare_scratch(&mut self, linear: &Linear, is_shared_dynamic: bool) {
        let mut declare = |space: &str, ScratchLocation { number, bytes, .. }: ScratchLocation| {
            let bytes = bytes.max(1);
            self.declarations.push(format!("  .{space} .align {SCRATCH_ALIGNMENT} .b8 {space}{number}[{bytes}];"));
        };
        linear.scratch().locations.into_iter().for_each(|location| declare("local", location));
        if !is_shared_dynamic {
            linear.shared().locations.into_iter().for_each(|location| declare("shared", location));
        }
    }

    /// Writes one micro-op. tidy: table
    fn micro_op(&mut self, node: &UOp) {
        match node.op() {
            Op::Add | Op::Ramp if self.sums.contains(node) => {}
            Op::Const => {
                let value = node.as_scalar().unwrap_or_else(|| bug(node, "has no value"));
                let mut text = registers::constant(value, node.dtype());
                if node.dtype().is_bool() {
                    text = self.compute(Kind::Predicate, "mov.pred", &[&text]);
                }
                self.set(node, vec![text; node.dtype().lanes()]);
            }
            Op::Param => self.parameter(node),
            Op::Scratch => self.scratch(node),
            Op::Variable => self.variable(node),
            Op::Range => {
                self.addresses.open();
                self.open_range(node);
            }
            Op::EndRange => {
                self.close_range(node);
                self.addresses.close();
            }
            Op::Barrier => self.barrier(),
            Op::Accumulator => self.accumulator(node),
            Op::Update => self.update(node),
            Op::Final => self.set(node, self.lanes(&node.src()[0]).to_vec()),
            Op::ShuffleReduce => self.shuffle_reduce(node),
            Op::LoadMatrices => self.load_matrices(node),
            Op::MultiplyMatrices => self.multiply_matrices(node),
            Op::Index => self.index(node),
            Op::Load | Op::Previous => self.load(node),
            Op::Store => self.store(node),
            Op::Exchange => self.exchange(node),
            Op::DotProducts => bug(node, "should have been written out"),
            Op::MultiplyTiles => bug(node, "is of tiles that no GPU has"),
            Op::Prefetch => bug(node, "is what loops of CPUs ask for"),
            Op::Ramp | Op::Splat | Op::Stack | Op::Lane | Op::HorizontalReduce => self.vector(node),
            Op::Cast | Op::Bitcast => self.conversion(node),
            Op::Neg
            | Op::Not
            | Op::Exp2
            | Op::Log2
            | Op::Sin
            | Op::Cos
            | Op::Sqrt
            | Op::Trunc
            | Op::Add
            | Op::Sub
            | Op::Mul
            | Op::Div
            | Op::CDiv
            | Op::CMod
            | Op::Max
            | Op::Min
            | Op::Lt
            | Op::Eq
            | Op::Ne
            | Op::And
            | Op::Or
            | Op::Xor
            | Op::Shl
            | Op::Shr
            | Op::Where
            | Op::MulAdd => self.elementwise(node),
            Op::Sink => {}
            Op::IDiv | Op::Mod => bug(node, "should have become cdiv, cmod, shifts or masks"),
            Op::Buffer
            | Op::Bind
            | Op::Iota
            | Op::Reshape
            | Op::Permute
            | Op::Expand
            | Op::Pad
            | Op::Shrink
            | Op::Flip
            | Op::AsStrided
            | Op::Reduce
            | Op::Scan
            | Op::Scatter
            | Op::Fetch
            | Op::Place
            | Op::Running
            | Op::Gather
            | Op::Contiguous
            | Op::Materialize
            | Op::Detach
            | Op::Copy
            | Op::Write
            | Op::Function
            | Op::ReduceRange
            | Op::LocalBuffer => bug(node, "has no place in a linear kernel"),
        }
    }

    fn parameter(&mut self, node: &UOp) {
        let Arg::Param(param) = node.arg() else { bug(node, "has no slot") };
        let given = self.compute(Kind::Bits64, "ld.param.u64", &[&format!("[p{}]", param.slot)]);
        let base = self.compute(Kind::Bits64, "cvta.to.global.u64", &[&given]);
        let access = self.linear.parameters.get(param.slot as usize).map(|Parameter { access, .. }| *access);
        self.locations.insert(node.clone(), Location::parameter(base, access));
    }

    fn scratch(&mut self, node: &UOp) {
        let Arg::Scratch(number, _, space) = *node.arg() else { bug(node, "has no number") };
        let (name, displacement) = match space {
            MemorySpace::Private => (format!("local{number}"), 0),
            MemorySpace::Shared => {
                let layout = self.linear.shared();
                let location = layout.locations.iter().find(|location| location.number == number);
                match layout.bytes > STATIC_SHARED_BYTES {
                    true => ("shared".to_string(), location.map_or(0, |location| location.offset)),
                    false => (format!("shared{number}"), 0),
                }
            }
        };
        let base = self.compute(Kind::Bits64, "mov.u64", &[&name]);
        self.locations.insert(node.clone(), Location::scratch(base, displacement, space));
    }

    fn variable(&mut self, node: &UOp) {
        let Arg::Variable(variable) = node.arg() else { bug(node, "has no name") };
        let position = self.linear.variables.iter().position(|name| *name == variable.name);
        let position = position.unwrap_or_else(|| bug(node, "is not among the list's variables"));
        let mut value = self.compute(Kind::Bits64, "ld.param.s64", &[&format!("[n{position}]")]);
        if node.dtype().bytes() < 8 {
            value = self.integer_cast(&value, DType::I64, node.dtype());
        }
        self.set(node, vec![value]);
    }
}

/// The list breaks its contract.
#[track_caller]
fn bug(node: &UOp, what: &str) -> ! {
    panic!("bug in the compiler: {} {} {what}", node.dtype(), node.op())
}

#[cfg(test)]
mod tests;
