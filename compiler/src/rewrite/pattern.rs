//! Patterns: the left sides of rules, written as expressions over named variables.
//!
//! A [`Pattern`] is built once, when its rule set is, and lives as long as the process. A *variable* matches any node and binds it;
//! the same name twice must bind the same node. A name that begins with `c` and goes on with nothing or a digit matches
//! constants only. An integer matches a constant of that value, of any dtype. The operators of [`UOp`] exist here too, so that the
//! same expression can stand on both sides of a rule.
//!
//! Commutative ops are expanded when the set is built: a rule becomes one variant for each order of operands, so matching needs
//! no backtracking.

use std::ops;

use crate::dtype::{DType, Scalar};
use crate::ir::{Op, UOp};

/// A pattern over nodes. Copying is free.
#[derive(Clone, Copy, Debug)]
pub struct Pattern(&'static Shape);

#[derive(Debug)]
pub(super) enum Shape {
    /// Any node, bound to a name; constants only if `constant`.
    Variable { name: &'static str, constant: bool },
    /// A constant of this value.
    Value(i64),
    /// A node of this op over these operands. No operands given: any operands.
    Node { op: Op, src: Option<Vec<Pattern>>, name: Option<&'static str> },
    /// A cast to this dtype, or to any.
    Cast { dtype: Option<DType>, src: Pattern },
}

impl Pattern {
    fn leak(shape: Shape) -> Pattern {
        Pattern(Box::leak(Box::new(shape)))
    }

    /// Any node; a constant if the name is `c`, `c1`, `c2`, ...
    pub fn named(name: &'static str) -> Pattern {
        let constant = name.strip_prefix('c').is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()));
        Pattern::leak(Shape::Variable { name, constant })
    }

    /// A node of that op over those operands.
    pub fn node(op: Op, src: &[Pattern]) -> Pattern {
        Pattern::leak(Shape::Node { op, src: Some(src.to_vec()), name: None })
    }

    /// A node of that op over any operands, bound to a name.
    pub fn any(op: Op, name: &'static str) -> Pattern {
        Pattern::leak(Shape::Node { op, src: None, name: Some(name) })
    }

    /// The same pattern, which binds the node that it matches to a name as well.
    pub fn called(self, name: &'static str) -> Pattern {
        match self.0 {
            Shape::Node { op, src, .. } => Pattern::leak(Shape::Node { op: *op, src: src.clone(), name: Some(name) }),
            Shape::Variable { .. } | Shape::Value(_) | Shape::Cast { .. } => self,
        }
    }

    /// A cast of this to `dtype`.
    pub fn cast(self, dtype: DType) -> Pattern {
        Pattern::leak(Shape::Cast { dtype: Some(dtype), src: self })
    }

    /// A cast of this to anything.
    pub fn cast_any(self) -> Pattern {
        Pattern::leak(Shape::Cast { dtype: None, src: self })
    }

    /// `a` where this holds, else `b`.
    pub fn select(self, a: impl Into<Pattern>, b: impl Into<Pattern>) -> Pattern {
        Pattern::node(Op::Where, &[self, a.into(), b.into()])
    }

    /// `self * b + c`.
    pub fn muladd(self, b: impl Into<Pattern>, c: impl Into<Pattern>) -> Pattern {
        Pattern::node(Op::MulAdd, &[self, b.into(), c.into()])
    }

    /// What it is made of.
    pub(super) fn shape(self) -> &'static Shape {
        self.0
    }

    /// The op at the root, if the pattern names one.
    pub(super) fn root_op(self) -> Option<Op> {
        match self.0 {
            Shape::Node { op, .. } => Some(*op),
            Shape::Cast { .. } => Some(Op::Cast),
            Shape::Value(_) => Some(Op::Const),
            Shape::Variable { .. } => None,
        }
    }

    /// The ops of the operands, where the pattern names them, for rejecting early.
    pub(super) fn operand_ops(self) -> Vec<Option<Op>> {
        match self.0 {
            Shape::Node { src: Some(src), .. } => src.iter().map(|operand| operand.required_op()).collect(),
            Shape::Cast { src, .. } => vec![src.required_op()],
            Shape::Node { src: None, .. } | Shape::Value(_) | Shape::Variable { .. } => Vec::new(),
        }
    }

    fn required_op(self) -> Option<Op> {
        match self.0 {
            Shape::Variable { constant: true, .. } => Some(Op::Const),
            Shape::Variable { constant: false, .. } | Shape::Value(_) | Shape::Node { .. } | Shape::Cast { .. } => {
                self.root_op()
            }
        }
    }

    /// Every order of the operands of commutative ops, this one first.
    pub(super) fn variants(self) -> Vec<Pattern> {
        match self.0 {
            Shape::Variable { .. } | Shape::Value(_) | Shape::Node { src: None, .. } => vec![self],
            Shape::Cast { dtype, src } => {
                src.variants().into_iter().map(|src| Pattern::leak(Shape::Cast { dtype: *dtype, src })).collect()
            }
            Shape::Node { op, src: Some(src), name } => {
                let mut lists: Vec<Vec<Pattern>> = vec![Vec::new()];
                for operand in src {
                    let choices = operand.variants();
                    lists = lists
                        .into_iter()
                        .flat_map(|list| {
                            choices.iter().map(move |choice| list.iter().copied().chain([*choice]).collect::<Vec<_>>())
                        })
                        .collect();
                }
                // Two plain variables match in either order anyway, if no name stands elsewhere too; the copy costs little.
                if op.is_commutative() && src.len() == 2 {
                    let swapped: Vec<Vec<Pattern>> = lists.iter().map(|list| vec![list[1], list[0]]).collect();
                    lists.extend(swapped);
                }
                lists
                    .into_iter()
                    .map(|src| Pattern::leak(Shape::Node { op: *op, src: Some(src), name: *name }))
                    .collect()
            }
        }
    }

    /// Whether it names that op anywhere.
    pub fn holds(self, op: Op) -> bool {
        let below = match self.0 {
            Shape::Variable { .. } | Shape::Value(_) => false,
            Shape::Cast { src, .. } => src.holds(op),
            Shape::Node { src, .. } => src.iter().flatten().any(|operand| operand.holds(op)),
        };
        below || self.root_op() == Some(op)
    }

    /// The names that it binds.
    pub(super) fn names(self) -> Vec<&'static str> {
        match self.0 {
            Shape::Variable { name, .. } => vec![*name],
            Shape::Value(_) => Vec::new(),
            Shape::Cast { src, .. } => src.names(),
            Shape::Node { src, name, .. } => {
                let below = src.iter().flatten().flat_map(|operand| operand.names());
                name.iter().copied().chain(below).collect()
            }
        }
    }

    /// Matches a node, adding to the bindings. On failure the bindings are unspecified.
    pub(super) fn matches<'n>(self, node: &'n UOp, bindings: &mut Bindings<'n>) -> bool {
        match self.0 {
            Shape::Variable { constant, .. } if *constant && node.op() != Op::Const => false,
            Shape::Variable { name, .. } => bindings.bind(name, node),
            Shape::Value(value) => node.is_const(*value),
            Shape::Cast { dtype, src } => {
                node.op() == Op::Cast
                    && dtype.is_none_or(|dtype| node.dtype() == dtype)
                    && src.matches(&node.src()[0], bindings)
            }
            Shape::Node { op, src, name } => {
                if node.op() != *op || name.is_some_and(|name| !bindings.bind(name, node)) {
                    return false;
                }
                match src {
                    None => true,
                    Some(src) => {
                        src.len() == node.src().len()
                            && src.iter().zip(node.src()).all(|(pattern, operand)| pattern.matches(operand, bindings))
                    }
                }
            }
        }
    }
}

/// The nodes that a match has bound to names.
#[derive(Default, Debug)]
pub struct Bindings<'n>(smallvec::SmallVec<[(&'static str, &'n UOp); 8]>);

impl<'n> Bindings<'n> {
    fn bind(&mut self, name: &'static str, node: &'n UOp) -> bool {
        match self.0.iter().find(|(known, _)| *known == name) {
            Some((_, bound)) => *bound == node,
            None => {
                self.0.push((name, node));
                true
            }
        }
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// The node bound to `name`.
    ///
    /// # Panics
    /// If the pattern has no such name: rule sets refuse such rules when they are built.
    pub fn node(&self, name: &str) -> &'n UOp {
        let found = self.0.iter().find(|(known, _)| *known == name);
        found.map(|(_, node)| *node).unwrap_or_else(|| panic!("bug in a rule: `{name}` is not bound by its pattern"))
    }
}

impl From<i64> for Pattern {
    fn from(value: i64) -> Pattern {
        Pattern::leak(Shape::Value(value))
    }
}

impl From<bool> for Pattern {
    fn from(value: bool) -> Pattern {
        Pattern::leak(Shape::Value(value as i64))
    }
}

macro_rules! pattern_methods {
    (unary: $($unary:ident $unary_op:ident)*; binary: $($binary:ident $binary_op:ident)*;) => {
        /// The ops of [`UOp`], as patterns.
        #[allow(missing_docs, reason = "each is documented on UOp")]
        #[allow(clippy::should_implement_trait, reason = "named as on UOp, where the traits exist as well")]
        impl Pattern {
            $(pub fn $unary(self) -> Pattern { Pattern::node(Op::$unary_op, &[self]) })*
            $(pub fn $binary(self, other: impl Into<Pattern>) -> Pattern {
                Pattern::node(Op::$binary_op, &[self, other.into()])
            })*
        }
    };
}

pattern_methods! {
    unary: negate Neg not Not exp2 Exp2 log2 Log2 sin Sin cos Cos sqrt Sqrt trunc Trunc;
    binary: div Div idiv IDiv modulo Mod cdiv CDiv cmod CMod max Max min Min lt Lt equals Eq differs Ne and And or Or
        xor Xor shl Shl shr Shr;
}

macro_rules! pattern_operators {
    ($($trait:ident $method:ident $op:ident;)*) => { $(
        impl<T: Into<Pattern>> ops::$trait<T> for Pattern {
            type Output = Pattern;
            fn $method(self, other: T) -> Pattern {
                Pattern::node(Op::$op, &[self, other.into()])
            }
        }
        impl ops::$trait<Pattern> for i64 {
            type Output = Pattern;
            fn $method(self, other: Pattern) -> Pattern {
                Pattern::node(Op::$op, &[self.into(), other])
            }
        }
    )* };
}

pattern_operators! {
    Add add Add;
    Sub sub Sub;
    Mul mul Mul;
    BitAnd bitand And;
    BitOr bitor Or;
    BitXor bitxor Xor;
}

impl ops::Not for Pattern {
    type Output = Pattern;
    fn not(self) -> Pattern {
        Pattern::not(self)
    }
}

impl ops::Neg for Pattern {
    type Output = Pattern;
    fn neg(self) -> Pattern {
        self.negate()
    }
}

/// What the right side of a rule may be: a node, an integer or bool (a constant of the matched node's dtype), or an option of a node.
pub trait Replacement {
    /// The node that replaces `root`; `None` if the rule does not apply.
    fn build(self, root: &UOp) -> Option<UOp>;
}

impl Replacement for UOp {
    fn build(self, _: &UOp) -> Option<UOp> {
        Some(self)
    }
}

impl Replacement for &UOp {
    fn build(self, _: &UOp) -> Option<UOp> {
        Some(self.clone())
    }
}

impl Replacement for Option<UOp> {
    fn build(self, _: &UOp) -> Option<UOp> {
        self
    }
}

impl Replacement for i64 {
    fn build(self, root: &UOp) -> Option<UOp> {
        Some(root.const_like(self))
    }
}

impl Replacement for bool {
    fn build(self, root: &UOp) -> Option<UOp> {
        Some(UOp::constant(Scalar::Bool(self).cast(root.dtype().element()), root.dtype()))
    }
}
