//! The text form: what `DEBUG` prints, `warpweft inspect` reads, filetests hold and fuzzers report.
//!
//! ```text
//! graph %softplus(x: f32[2, 3], n: index 1..8) {      ; parameters: tensors by slot, variables with their bounds
//!   v0 = mul x, 1.442695                               ; a constant beside a node has the node's type
//!   v1 = exp2 v0
//!   v2: f64 = cast v1                                  ; a type is written where the op does not say it
//!   v3 = reduce v2, add (1)                            ; arguments stand after the operands
//!   return v3
//! }
//! ```
//!
//! Constants are written where they are used, with their type where it is not their neighbour's: `1:i32`, `2.5:f64`, `inf:f32`.
//! Symbolic dims name nodes: `[n, 3]`. A line is one node; `;` starts a comment. How arguments are written:
//!
//! | argument | text |
//! |---|---|
//! | shape, axes | `[2, n]`, `(1, 0)` |
//! | bounds of `pad` and `shrink` | `[1:0, 2:2]`; `[:]` where there are no axes |
//! | of `as_strided` | `[2, 2] strides [1, -1] offset 3` |
//! | of `reduce`; of `reduce_range`, `horizontal_reduce` and `shuffle_reduce` | `add (0, 2)`; `max` |
//! | the same of several operands: a combiner, and which component; with accumulators as operands | `argmax_first #1 (0)`; `argmax_first #1`; `step argmax_first #1` |
//! | of `gather`, `range`, `copy`, `function` | `axis 1`; `reduce #0`; `"CUDA"`; `"tanh"` |
//! | numbers of `lane`, `ramp`, `accumulator`, `barrier`; of `scratch` and `param`; of `buffer` | `#3`; `#3 [64]`; `#3 [64] "CPU"` |
//! | of `scratch` that the threads of a block share | `shared #3 [64]` |
//! | of `variable` in a body | `"n" 1..8` |
//! | of `write`: a view; nothing for the whole | `through permute (1, 0) shrink [0:1, 0:3]` |
//!
//! Always: `parse(print(g))` is the same nodes, and printing what was parsed from printed text gives that text. Any text at all
//! gives a graph or an error with line and column.
//! Not here: the linear list (`linearize::text`, made of the same lines).

mod arguments;
mod lex;
mod literal;
mod parse;
mod print;
#[cfg(test)]
mod tests;

pub use parse::{parse, parse_with_lines};
pub use print::{print, print_with_lines};

pub(crate) use lex::{Cursor, Token, quoted};
pub(crate) use parse::{Scope, parse_dtype, parse_integer, parse_statement};
pub(crate) use print::{Names, write_line};

use rustc_hash::FxHashMap;

use super::walk::postorder;
use super::{Arg, Combiner, Dim, Op, UOp};
use crate::DType;

/// A graph with a name, as one `graph` block of text says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    /// The name, without `%`.
    pub name: String,
    /// What the header lists, in order; every param and variable below the roots among them.
    pub parameters: Vec<Parameter>,
    /// What it returns.
    pub roots: Vec<UOp>,
}

/// One parameter of a [`Graph`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// What the body calls it.
    pub name: String,
    /// A `param`, the `reshape` of a `param`, or a `variable`.
    pub node: UOp,
}

impl Graph {
    /// The graph of these roots, with parameters in the order of their slots, then variables as they are met.
    pub fn new(name: &str, roots: impl Into<Vec<UOp>>) -> Graph {
        let mut graph = Graph { name: name.to_string(), parameters: Vec::new(), roots: roots.into() };
        print::complete_parameters(&mut graph);
        graph
    }
}

impl std::fmt::Display for Graph {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&print(self))
    }
}

/// Text that is no graph: where, and what was expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {message}")]
pub struct ParseError {
    /// Counted from 1.
    pub line: usize,
    /// In characters, counted from 1.
    pub column: usize,
    /// What was expected, and what was found.
    pub message: String,
}

/// Words that stand for arguments or values, so that no node can be called so.
const RESERVED: &[&str] = &[
    "add", "mul", "max", "min", "axis", "strides", "offset", "parallel", "loop", "reduce", "unroll", "vector", "true",
    "false", "inf", "nan", "return", "slot", "named", "through", "step",
];

fn is_reserved(word: &str) -> bool {
    RESERVED.contains(&word) || Combiner::from_name(word).is_some()
}

fn is_identifier(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && chars.all(|next| next.is_ascii_alphanumeric() || next == '_')
        && !is_reserved(text)
}

/// Every node below `roots`, those inside of symbolic dims too, each after the nodes that its line names.
pub(super) fn lines_below(roots: &[UOp]) -> Vec<UOp> {
    let mut order = Vec::new();
    let mut listed: FxHashMap<UOp, ()> = FxHashMap::default();
    for node in postorder(roots) {
        let mut dims = Vec::new();
        node.arg().for_each_dim(&mut |dim| {
            if let Dim::Expr(expr) = dim {
                dims.push(expr.clone());
            }
        });
        // Dims of dims do not occur: an index expression has no shape of its own.
        for inner in postorder(&dims).into_iter().chain([node]) {
            if listed.insert(inner.clone(), ()).is_none() {
                order.push(inner);
            }
        }
    }
    order
}

/// The type of an op's result where no type is written; `None` where one must be.
fn default_dtype(op: Op, src: &[UOp]) -> Option<DType> {
    let first = src.first().map(UOp::dtype);
    match op {
        Op::Iota | Op::Range => Some(DType::INDEX),
        Op::Bind => first,
        Op::Store | Op::Sink | Op::EndRange | Op::Update | Op::Prefetch | Op::Barrier => Some(DType::VOID),
        Op::Lt | Op::Eq | Op::Ne => first.map(|dtype| DType::BOOL.with_lanes(dtype.lanes())),
        Op::MultiplyMatrices | Op::DotProducts | Op::MultiplyTiles => src.get(2).map(UOp::dtype),
        Op::Where | Op::Place => src.get(1).map(UOp::dtype),
        Op::Lane | Op::HorizontalReduce => first.map(DType::element),
        Op::Stack if (1..=u16::MAX as usize).contains(&src.len()) => first.map(|dtype| dtype.with_lanes(src.len())),
        Op::Const | Op::Buffer | Op::Param | Op::Variable | Op::Cast | Op::Bitcast | Op::Scratch | Op::LocalBuffer => {
            None
        }
        Op::Ramp | Op::Splat | Op::Stack | Op::LoadMatrices => None,
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
        | Op::IDiv
        | Op::Mod
        | Op::CDiv
        | Op::CMod
        | Op::Max
        | Op::Min
        | Op::And
        | Op::Or
        | Op::Xor
        | Op::Shl
        | Op::Shr
        | Op::MulAdd
        | Op::Reshape
        | Op::Permute
        | Op::Expand
        | Op::Pad
        | Op::Shrink
        | Op::Flip
        | Op::AsStrided
        | Op::Reduce
        | Op::Scan
        | Op::Gather
        | Op::Scatter
        | Op::Fetch
        | Op::Contiguous
        | Op::Materialize
        | Op::Detach
        | Op::Copy
        | Op::Write
        | Op::Function
        | Op::ReduceRange
        | Op::Running
        | Op::Exchange
        | Op::Previous
        | Op::Index
        | Op::Load
        | Op::Accumulator
        | Op::Final
        | Op::ShuffleReduce => first,
    }
}

/// The type of a constant that is written without one as operand `position` of `op`; `None` if it must be written.
/// `operands` has the types of the other operands, `None` for those that are constants too.
fn literal_dtype(op: Op, position: usize, operands: &[Option<DType>]) -> Option<DType> {
    match op {
        Op::Cast | Op::Bitcast => None,
        Op::Where if position == 0 => None,
        Op::Where => operands.iter().skip(1).copied().flatten().next(),
        _ if op.is_elementwise() => operands.iter().copied().flatten().next(),
        Op::Store | Op::Update | Op::Exchange if position == 1 => operands.first().copied().flatten(),
        Op::Range | Op::Bind => Some(DType::INDEX),
        Op::Index if position == 1 => Some(DType::INDEX),
        _ => None,
    }
}

/// The node as a slot's memory, seen through one reshape.
fn param_of(node: &UOp) -> Option<super::ParamArg> {
    match (node.op(), node.arg()) {
        (Op::Param, Arg::Param(param)) => Some(*param),
        (Op::Reshape, _) => match node.src()[0].arg() {
            Arg::Param(param) if node.shape().is_concrete() => Some(*param),
            _ => None,
        },
        _ => None,
    }
}
