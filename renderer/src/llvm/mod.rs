//! Linear kernels as LLVM IR text.
//!
//! Two functions per kernel, and one for each loop body with very many constants (`outlined`). The *entry* has the calling convention of [`warpweft_compiler::program`]: it loads the pointers and
//! variables from their arrays and calls the *body*, whose pointer parameters are `noalias`, which is what lets LLVM keep
//! values in registers across stores. So buffers that a kernel is given must not overlap, unless it only reads them. Each scratch is such a
//! parameter too: its part of the scratch memory of the call.
//!
//! Always:
//! - Every micro-op becomes the instructions of its meaning, in the order of the list; vectors stay vectors.
//! - Accumulators are SSA values: a loop that updates one has a phi for it. No pass is needed to make registers.
//! - Loops test at their end, and before their start where the length may be 0.
//! - Nothing has undefined behaviour that the IR gives a meaning: division by zero, shifts by the width, casts out of range.
//! - No fast-math flag but `reassoc` on the sum of a vector's own lanes, whose order the IR leaves open.
//! - Loads and stores claim the alignment of an element, no more.
//! - Addresses under a gate may lie outside of their buffer, so they are not `inbounds`.
//!
//! Not here: what a target lacks (rewritten before, by `legalize::decompose` of the compiler) and passes (`devices`). Tested by precise goldens here, and end to end
//! by the test crate.

mod control;
mod convert;
mod fills;
mod guards;
mod memory;
mod names;
mod ops;
mod outlined;
mod seldom;
mod spelling;
mod tiles;
mod vectors;

use rustc_hash::FxHashMap;
use warpweft_compiler::ir::Arg;
use warpweft_compiler::linearize::{Linear, ScratchLocation};
use warpweft_compiler::program::{Access, Parameter, SCRATCH_ALIGNMENT};
use warpweft_compiler::target::Target;
use warpweft_compiler::{DType, Op, UOp};

use crate::symbol::symbol;
use control::Loops;
use guards::Assumption;
use names::Counter;
use outlined::{Outlined, Part};
use seldom::Seldom;
use tiles::Tiles;

/// The text of a module, and the symbol of its entry point.
pub(crate) struct Rendered {
    pub(crate) entry: String,
    pub(crate) source: String,
}

/// The module of one kernel.
pub(crate) fn render(linear: &Linear, target: &Target) -> Rendered {
    let entry = symbol(&linear.name);
    let mut writer = Writer::new(Loops::find(&linear.ops), tiles::find(&linear.ops));
    writer.entry.clone_from(&entry);
    writer.outlined = outlined::find(&linear.ops, target);
    writer.seldom = Seldom::find(&linear.ops);
    // LLVM uses those of AVX2 nowhere but on some processors, where they are no faster than loads one by one.
    writer.has_gathers = target.vector_bytes >= 64 || target.features.contains("+avx512vl");
    writer.write(&linear.ops);
    let source = module(linear, target, &entry, &writer);
    Rendered { entry, source }
}

fn module(linear: &Linear, target: &Target, entry: &str, body: &Writer) -> String {
    let mut text = format!("; {}: {} work items\n", linear.name.escape_default(), linear.grid);
    if !target.triple.is_empty() {
        text += &format!("target triple = \"{}\"\n", target.triple);
    }
    let declared = body_parameters(linear, true);
    for (number, part) in body.parts.iter().enumerate() {
        text += &outlined::text(entry, number, part, &declared);
    }
    text += &format!("\ndefine internal void @{entry}.body({}) #0 {{\nentry:\n", declared.join(", "));
    if body.zeros_bytes > 0 {
        let zeros = format!("[{} x i8]", body.zeros_bytes);
        text +=
            &format!("  %zeros = alloca {zeros}, align 64\n  store {zeros} zeroinitializer, ptr %zeros, align 64\n");
    }
    if body.dropped_bytes > 0 {
        text += &format!("  %dropped = alloca [{} x i8], align 64\n", body.dropped_bytes);
    }
    for line in &body.lines {
        text += line;
        text.push('\n');
    }
    text += "  ret void\n}\n";

    text +=
        &format!("\ndefine void @{entry}(ptr %buffers, ptr %variables, ptr %scratch, i64 %begin, i64 %end) #0 {{\n");
    for slot in 0..linear.parameters.len() {
        text += &load_from_array(&format!("%p{slot}"), "ptr", "%buffers", slot);
    }
    for (position, name) in linear.variables.iter().enumerate() {
        text += &load_from_array(&names::variable(name), "i64", "%variables", position);
    }
    for ScratchLocation { number, offset, .. } in linear.scratch().locations {
        text += &format!("  %s{number} = getelementptr inbounds i8, ptr %scratch, i64 {offset}\n");
    }
    let given = body_parameters(linear, false).join(", ");
    text += &format!("  tail call void @{entry}.body({given})\n  ret void\n}}\n\n");
    text += &attributes(target, 0, "nounwind");
    if !body.parts.is_empty() {
        text += &attributes(target, 1, "nounwind noinline");
    }
    for (number, again) in body.weights.iter().enumerate() {
        text += &format!("!{number} = !{{!\"branch_weights\", i32 {again}, i32 1}}\n");
    }
    text
}

/// What the body takes: buffers by slot, variables, scratches, and the share of the parallel loop.
fn body_parameters(linear: &Linear, with_attributes: bool) -> Vec<String> {
    let buffer = |(slot, parameter): (usize, &Parameter)| {
        let promise = match parameter.access {
            _ if !with_attributes => "",
            Access::Read => "noalias readonly ",
            Access::Write => "noalias writeonly ",
            Access::ReadWrite => "noalias ",
        };
        format!("ptr {promise}%p{slot}")
    };
    let buffers = linear.parameters.iter().enumerate().map(buffer);
    let variables = linear.variables.iter().map(|name| format!("i64 {}", names::variable(name)));
    let locations = linear.scratch().locations.into_iter();
    let scratch = locations.map(|ScratchLocation { number, bytes, .. }| match with_attributes {
        true if bytes > 0 => format!("ptr noalias align {SCRATCH_ALIGNMENT} dereferenceable({bytes}) %s{number}"),
        _ => format!("ptr %s{number}"),
    });
    buffers.chain(variables).chain(scratch).chain(["i64 %begin".to_string(), "i64 %end".to_string()]).collect()
}

fn load_from_array(name: &str, element: &str, array: &str, position: usize) -> String {
    let address = format!("{array}.{position}");
    format!(
        "  {address} = getelementptr inbounds {element}, ptr {array}, i64 {position}\n  \
         {name} = load {element}, ptr {address}, align 8\n"
    )
}

fn attributes(target: &Target, number: usize, first: &str) -> String {
    let mut words = vec![first.to_string()];
    let pairs = [("target-cpu", &target.processor), ("target-features", &target.features)];
    words.extend(
        pairs.iter().filter(|(_, value)| !value.is_empty()).map(|(key, value)| format!("\"{key}\"=\"{value}\"")),
    );
    // LLVM prefers half-width vectors on some processors with 64-byte ones.
    words.push(format!("\"prefer-vector-width\"=\"{}\"", target.vector_bytes * 8));
    format!("attributes #{number} = {{ {} }}\n", words.join(" "))
}

/// What a micro-op becomes.
enum Outcome {
    /// A new result, of this instruction.
    Instruction(String),
    /// A value that has a name already, or a constant.
    Same(String),
}

/// Writes the instructions of the body.
struct Writer {
    lines: Vec<String>,
    /// What to write for a node that stands as an operand.
    values: FxHashMap<UOp, String>,
    names: Counter,
    loops: Loops,
    tiles: Tiles,
    /// Name of the kernel's entry.
    entry: String,
    /// The loops whose bodies become functions, and these.
    outlined: Outlined,
    parts: Vec<Part>,
    /// What is seldom needed.
    seldom: Seldom,
    /// Label of the block that is being written.
    block: String,
    /// Bytes of memory that holds zeros, for loads of what is not there.
    zeros_bytes: usize,
    /// Bytes of memory that takes what is not stored.
    dropped_bytes: usize,
    /// How often loops go on for each time that they end: metadata by number.
    weights: Vec<i64>,
    /// Whether the processor has an instruction that loads from several addresses.
    has_gathers: bool,
    /// What is known of a condition in the loop that is being written.
    assumed: Option<Assumption>,
}

impl Writer {
    fn new(loops: Loops, tiles: Tiles) -> Writer {
        Writer {
            lines: Vec::new(),
            values: FxHashMap::default(),
            names: Counter::default(),
            loops,
            tiles,
            entry: String::new(),
            outlined: Outlined::default(),
            parts: Vec::new(),
            seldom: Seldom::default(),
            block: "entry".to_string(),
            zeros_bytes: 0,
            dropped_bytes: 0,
            weights: Vec::new(),
            has_gathers: true,
            assumed: None,
        }
    }

    /// Writes a list of micro-ops.
    fn write(&mut self, ops: &[UOp]) {
        let mut rest = ops;
        while let Some((op, behind)) = rest.split_first() {
            rest = if let Some(fill) = fills::find(rest, self.assumed.as_ref()) {
                self.fill(&fill);
                &rest[fill.len..]
            } else if let Some(guarded) = guards::find(rest, &self.outlined).filter(|_| self.assumed.is_none()) {
                self.guarded(&guarded, rest);
                &rest[guarded.len..]
            } else {
                self.micro_op(op);
                behind
            };
        }
    }

    /// Writes one micro-op where it stands in the list, and what stands before it.
    fn micro_op(&mut self, node: &UOp) {
        if !self.seldom.is_moved(node) {
            self.branch_before(node);
            self.write_op(node);
        }
    }

    /// Writes one micro-op. tidy: table
    fn write_op(&mut self, node: &UOp) {
        match node.op() {
            Op::Const => {
                let value = node.as_scalar().unwrap_or_else(|| bug(node, "has no value"));
                self.values.insert(node.clone(), spelling::constant(value, node.dtype()));
            }
            Op::Param => match node.arg() {
                Arg::Param(param) => self.set(node, format!("%p{}", param.slot)),
                _ => bug(node, "has no slot"),
            },
            Op::Variable => self.variable(node),
            Op::Scratch => match node.arg() {
                Arg::Scratch(number, ..) => self.set(node, format!("%s{number}")),
                _ => bug(node, "has no number"),
            },
            Op::Range => self.open_loop(node),
            Op::EndRange => self.close_loop(node),
            Op::Accumulator => self.accumulator(node),
            Op::Update => self.update(node),
            Op::Final => self.set(node, self.operand(&node.src()[0]).to_string()),
            Op::Index => self.index(node),
            Op::Load | Op::Previous => self.load(node),
            Op::Store => self.store(node),
            Op::Exchange => self.exchange(node),
            Op::Ramp
            | Op::Splat
            | Op::Stack
            | Op::Lane
            | Op::HorizontalReduce
            | Op::DotProducts
            | Op::MultiplyTiles => {
                let name = self.names.next(node.op());
                let outcome = self.vector(node, &name);
                self.finish(node, name, outcome);
            }
            Op::Cast | Op::Bitcast => {
                let name = self.names.next(node.op());
                let outcome = self.conversion(node, &name);
                self.finish(node, name, outcome);
            }
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
            | Op::MulAdd => {
                let name = self.names.next(node.op());
                let outcome = self.elementwise(node, &name);
                self.finish(node, name, outcome);
            }
            Op::Sink => {}
            Op::Prefetch => self.prefetch(node),
            Op::ShuffleReduce | Op::Barrier | Op::LoadMatrices | Op::MultiplyMatrices => {
                bug(node, "is of threads that a CPU does not have")
            }
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

    /// Records what stands for a node.
    fn set(&mut self, node: &UOp, text: String) {
        self.values.insert(node.clone(), text);
    }

    /// What stands for a node.
    fn operand(&self, node: &UOp) -> &str {
        match self.values.get(node) {
            Some(text) => text,
            None => bug(node, "is used before it stands in the list"),
        }
    }

    /// The type of a value in a register.
    fn register(&self, node: &UOp) -> String {
        match self.tiles.contains_key(node) {
            true => "x86_amx".to_string(),
            false => spelling::register(node.dtype()),
        }
    }

    /// The same after its type.
    fn typed(&self, node: &UOp) -> String {
        format!("{} {}", spelling::register(node.dtype()), self.operand(node))
    }

    fn finish(&mut self, node: &UOp, name: String, outcome: Outcome) {
        let text = match outcome {
            Outcome::Instruction(instruction) => {
                self.line(&format!("{name} = {instruction}"));
                name
            }
            Outcome::Same(text) => text,
        };
        self.set(node, text);
    }

    /// Writes a step on the way to the result `name` and gives the step's name.
    fn step(&mut self, name: &str, word: &str, instruction: &str) -> String {
        let step = format!("{name}.{word}");
        self.line(&format!("{step} = {instruction}"));
        step
    }

    /// One instruction, indented by the loops around it.
    fn line(&mut self, text: &str) {
        let depth = self.loops.depth();
        self.lines.push(format!("{:1$}{text}", "", 2 * depth + 2));
    }

    /// Begins a block.
    fn label(&mut self, label: &str) {
        let depth = self.loops.depth();
        self.lines.push(format!("{:1$}{label}:", "", 2 * depth));
        self.block = label.to_string();
    }

    fn variable(&mut self, node: &UOp) {
        let Arg::Variable(variable) = node.arg() else { bug(node, "has no name") };
        let given = names::variable(&variable.name);
        if spelling::register(node.dtype()) == "i64" {
            return self.set(node, given);
        }
        let name = self.names.next(node.op());
        let instruction = format!("trunc i64 {given} to {}", spelling::register(node.dtype()));
        self.finish(node, name, Outcome::Instruction(instruction));
    }
}

/// The list breaks its contract.
#[track_caller]
fn bug(node: &UOp, what: &str) -> ! {
    panic!("bug in the compiler: {} {} {what}", node.dtype(), node.op())
}

/// Whether it has lanes.
fn is_vector(dtype: DType) -> bool {
    dtype.lanes() > 1
}

#[cfg(test)]
mod tests;
