//! Bodies of loops with more constants than registers become functions of their own.
//!
//! LLVM moves constants out of a loop without limit, since it trusts its register allocator to move back what has no register. Of 200 constants that takes
//! a third of the time of code generation, and what is left in the loop is the same: a constant that an instruction takes from memory. In a function without
//! the loop nothing is moved.
//!
//! ```text
//!   loop0:
//!     %r0 = phi i64 [ %begin, %entry ], [ %r0.next, %loop0 ]
//!     call void @e_1024.part0(i64 %r0, ptr %p0, ptr %p1)
//! ```
//!
//! Always: such a body contains no loop and updates nothing that lives across iterations; its function takes, under the same names, what was made before
//! the loop. Buffers keep their promise of `noalias` only where no other pointer is taken: an address that was made before the loop may lie in one of them.
//! Tested by goldens in `tests.rs`, and end to end by tests/it/many_constants.rs.

use rustc_hash::{FxHashMap, FxHashSet};
use warpweft_compiler::target::Target;
use warpweft_compiler::{Op, UOp};

use super::{Writer, spelling};

/// A body has a function of its own if it has more than this many times as many constants as there are registers: by then the loop has at least one constant in
/// memory for each one in a register, and dozens of instructions for each call.
const CONSTANTS_PER_REGISTER: usize = 2;

/// What each body with a function of its own takes from outside, by the range of its loop.
pub(super) type Outlined = FxHashMap<UOp, Vec<UOp>>;

/// A function that holds a loop's body.
pub(super) struct Part {
    /// The types and names of its parameters.
    pub(super) parameters: Vec<(String, String)>,
    /// Whether some are addresses that were made before the loop, which may lie in the buffers.
    pub(super) takes_addresses: bool,
    /// Label of its first block, as of the loop's: what joins blocks inside names it.
    pub(super) label: String,
    pub(super) lines: Vec<String>,
}

/// Finds the loops of a list whose bodies become functions.
pub(super) fn find(ops: &[UOp], target: &Target) -> Outlined {
    let mut outlined = Outlined::default();
    let mut opened = None;
    for (position, node) in ops.iter().enumerate() {
        match node.op() {
            Op::Range => opened = Some(position),
            Op::EndRange => {
                // Only the innermost loop is still open here.
                let Some(start) = opened.take() else { continue };
                let body = &ops[start + 1..position];
                if has_too_many_constants(body, target) && body.iter().all(may_move) {
                    outlined.insert(ops[start].clone(), taken_from_outside(&ops[start], body));
                }
            }
            _ => {}
        }
    }
    outlined
}

fn has_too_many_constants(body: &[UOp], target: &Target) -> bool {
    let limit = CONSTANTS_PER_REGISTER * target.vector_registers as usize;
    // Each constant is an operand of some node.
    if body.len() <= limit / 3 {
        return false;
    }
    let constants: FxHashSet<&UOp> =
        body.iter().flat_map(|node| node.src()).filter(|src| takes_register(src)).collect();
    constants.len() > limit
}

/// Whether it is a constant that comes from memory.
fn takes_register(node: &UOp) -> bool {
    node.op() == Op::Const && (node.dtype().is_float() || node.dtype().lanes() > 1)
}

/// Not what belongs to the function around: values across iterations, tiles, and variables, which are made narrow where they stand.
fn may_move(node: &UOp) -> bool {
    !matches!(node.op(), Op::Accumulator | Op::Update | Op::Final | Op::Variable | Op::MultiplyTiles | Op::Exchange)
}

/// The loop variable, and what else of a body's operands is made before the loop.
fn taken_from_outside(range: &UOp, body: &[UOp]) -> Vec<UOp> {
    let is_given = |node: &UOp| matches!(node.op(), Op::Param | Op::Scratch);
    let mut known: FxHashSet<&UOp> = body.iter().filter(|node| !is_given(node)).collect();
    known.insert(range);
    let mut taken = vec![range.clone()];
    for src in body.iter().flat_map(|node| node.src()) {
        if src.op() != Op::Const && known.insert(src) {
            taken.push(src.clone());
        }
    }
    taken
}

impl Writer {
    /// Moves what was written since `from`, the body of a loop, to a function of its own, and calls that.
    pub(super) fn outline(&mut self, range: &UOp, from: usize, block: &str) {
        let Some(taken) = self.outlined.get(range) else { return };
        // The memory for what is not there belongs to the function around, and tiles are no arguments.
        let is_around = |line: &String| line.contains("%zeros") || line.contains("%dropped");
        if self.lines[from..].iter().any(is_around) || taken.iter().any(|node| self.tiles.contains_key(node)) {
            return;
        }
        let mut parameters: Vec<(String, String)> = Vec::new();
        for node in taken {
            let text = self.operand(node);
            if text.starts_with('%') && parameters.iter().all(|(_, name)| name != text) {
                parameters.push((type_of(node), text.to_string()));
            }
        }
        let takes_addresses = taken.iter().any(|node| node.op() == Op::Index);
        let lines = self.lines.split_off(from);
        let given: Vec<String> = parameters.iter().map(|(of, name)| format!("{of} {name}")).collect();
        self.line(&format!("call void @{}.part{}({})", self.entry, self.parts.len(), given.join(", ")));
        self.parts.push(Part { parameters, takes_addresses, label: block.to_string(), lines });
        self.block = block.to_string();
    }
}

/// How the type of a node's value is written.
fn type_of(node: &UOp) -> String {
    match (node.op(), node.dtype().lanes()) {
        (Op::Param | Op::Scratch, _) => "ptr".to_string(),
        (Op::Index, _) => match node.src()[1].dtype() {
            offset if offset.lanes() > 1 => format!("<{} x ptr>", offset.lanes()),
            _ => "ptr".to_string(),
        },
        _ => spelling::register(node.dtype()),
    }
}

/// The function of a part: `declared` are the parameters of the function around with what they promise.
pub(super) fn text(entry: &str, number: usize, part: &Part, declared: &[String]) -> String {
    let of_buffer = |name: &str| declared.iter().find(|text| text.ends_with(&format!(" {name}"))).cloned();
    let promised = |name: &str| of_buffer(name).filter(|_| !part.takes_addresses);
    let parameters: Vec<String> =
        part.parameters.iter().map(|(of, name)| promised(name).unwrap_or_else(|| format!("{of} {name}"))).collect();
    let mut text =
        format!("\ndefine internal void @{entry}.part{number}({}) #1 {{\n{}:\n", parameters.join(", "), part.label);
    for line in &part.lines {
        text += line;
        text.push('\n');
    }
    text + "  ret void\n}\n"
}
