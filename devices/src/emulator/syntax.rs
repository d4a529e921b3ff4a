//! What a module of PTX is made of: its head, its variables, its one entry, and statements in their order, as `parse` reads them.

use super::lex::Literal;
use super::scalar::Type;

/// A module with one entry.
#[derive(Clone, Debug, Default)]
pub(super) struct Module {
    pub(super) version: String,
    pub(super) target: String,
    pub(super) variables: Vec<Variable>,
    pub(super) entry: Entry,
}

/// A kernel.
#[derive(Clone, Debug, Default)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) parameters: Vec<(String, Type)>,
    /// Threads of a block along x, y and z, where the text says so.
    pub(super) threads: Option<[u64; 3]>,
    /// Kinds of registers: the beginning of their names, their type, how many; none where the name is that of one register.
    pub(super) registers: Vec<(String, Type, Option<u64>)>,
    pub(super) items: Vec<Item>,
}

/// Where a variable lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Space {
    Shared,
    Local,
}

/// Memory with a name.
#[derive(Clone, Debug)]
pub(super) struct Variable {
    pub(super) name: String,
    pub(super) space: Space,
    pub(super) alignment: u64,
    /// None where the launch decides.
    pub(super) bytes: Option<u64>,
}

/// A piece of the body.
#[derive(Clone, Debug)]
pub(super) enum Item {
    Label(String),
    Statement(Statement),
}

/// An instruction.
#[derive(Clone, Debug)]
pub(super) struct Statement {
    pub(super) line: usize,
    /// A predicate, and what it must be.
    pub(super) guard: Option<(String, bool)>,
    /// The name, taken apart at its dots.
    pub(super) name: Vec<String>,
    pub(super) operands: Vec<Operand>,
}

/// An operand.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Operand {
    /// A register, a label or a variable.
    Name(String),
    Constant(Literal),
    /// `[base+offset]`; only the offset where there is no base.
    Address(Option<String>, i64),
    /// `{a, b}`.
    Vector(Vec<Operand>),
    /// `a|b`.
    Both(String, String),
}
