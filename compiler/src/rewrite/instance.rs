//! Nodes that match a pattern, made from choices: how rules are tested one by one.
//!
//! A pattern has no types; the caller says of which type the root shall be, and operands follow from their ops. Not every pattern has an
//! instance of every type. The choices (leaves, constants, types that are free) are a [`Maker`]'s.

use rustc_hash::FxHashMap;

use super::pattern::{Pattern, Shape};
use crate::dtype::DType;
use crate::ir::{Arg, Op, Sources, UOp, is_defined};

/// Makes what a pattern leaves open.
pub trait Maker {
    /// Any scalar expression of that type.
    fn leaf(&mut self, dtype: DType) -> UOp;
    /// A constant of that type.
    fn constant(&mut self, dtype: DType) -> UOp;
    /// The type of the operands of a comparison or cast.
    fn operand_type(&mut self) -> DType;
    /// A node of an op that is not elementwise, if there is one of that type that expressions of scalars hold.
    fn other(&mut self, _op: Op, _dtype: DType) -> Option<UOp> {
        None
    }
}

/// A node of that type that the pattern matches, if there can be one.
pub fn instance(pattern: Pattern, dtype: DType, maker: &mut dyn Maker) -> Option<UOp> {
    Instances { maker, bound: FxHashMap::default() }.make(pattern, dtype)
}

struct Instances<'m> {
    maker: &'m mut dyn Maker,
    bound: FxHashMap<&'static str, UOp>,
}

impl Instances<'_> {
    /// Patterns are as deep as somebody wrote them, so recursion ends soon.
    fn make(&mut self, pattern: Pattern, dtype: DType) -> Option<UOp> {
        match pattern.shape() {
            Shape::Variable { name, constant } => {
                if let Some(known) = self.bound.get(name) {
                    return (known.dtype() == dtype).then(|| known.clone());
                }
                let node = if *constant { self.maker.constant(dtype) } else { self.maker.leaf(dtype) };
                self.bound.insert(name, node.clone());
                Some(node)
            }
            Shape::Value(value) => Some(UOp::int(*value, dtype)).filter(|node| node.is_const(*value)),
            Shape::Cast { dtype: to, src } => {
                if to.is_some_and(|to| to != dtype) {
                    return None;
                }
                let from = self.type_of(*src).unwrap_or_else(|| self.maker.operand_type());
                let operand = self.make(*src, from)?;
                UOp::try_new(Op::Cast, dtype, Sources::from_iter([operand]), Arg::None).ok()
            }
            Shape::Node { op, src, name } => {
                let node = self.node(*op, src.as_deref(), dtype)?;
                if let Some(name) = name {
                    self.bound.insert(name, node.clone());
                }
                Some(node)
            }
        }
    }

    fn node(&mut self, op: Op, src: Option<&[Pattern]>, dtype: DType) -> Option<UOp> {
        if !op.is_elementwise() {
            return self.maker.other(op, dtype);
        }
        if op.is_comparison() && !dtype.is_bool() {
            return None;
        }
        let operand = match op.is_comparison() || op == Op::Cast || op == Op::Bitcast {
            true => {
                let known = src.iter().flat_map(|src| src.iter()).find_map(|pattern| self.type_of(*pattern));
                known.unwrap_or_else(|| self.maker.operand_type())
            }
            false => dtype,
        };
        if !is_defined(op, operand) {
            return None;
        }
        let mut operands = Sources::new();
        for position in 0..op.arity() {
            let dtype = if op == Op::Where && position == 0 { DType::BOOL } else { operand };
            operands.push(match src {
                Some(src) => self.make(*src.get(position)?, dtype)?,
                None => self.maker.leaf(dtype),
            });
        }
        UOp::try_new(op, dtype, operands, Arg::None).ok()
    }

    /// The type that a pattern has because of what is bound already, or because it gives bools.
    fn type_of(&self, pattern: Pattern) -> Option<DType> {
        match pattern.shape() {
            Shape::Variable { name, .. } => self.bound.get(name).map(UOp::dtype),
            Shape::Value(_) => None,
            Shape::Cast { dtype, .. } => *dtype,
            Shape::Node { op, .. } if op.is_comparison() => Some(DType::BOOL),
            Shape::Node { src, .. } => src.iter().flatten().find_map(|operand| self.type_of(*operand)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Plain;

    impl Maker for Plain {
        fn leaf(&mut self, dtype: DType) -> UOp {
            UOp::variable("x", 0, 9).cast(dtype)
        }
        fn constant(&mut self, dtype: DType) -> UOp {
            UOp::int(3, dtype)
        }
        fn operand_type(&mut self) -> DType {
            DType::I32
        }
    }

    #[test]
    fn instances_match_their_pattern() {
        let (x, y, c) = (Pattern::named("x"), Pattern::named("y"), Pattern::named("c"));
        let made = |pattern: Pattern, dtype| instance(pattern, dtype, &mut Plain).map(|node| node.infix());
        assert_eq!(made((x + c) * 2, DType::INDEX).as_deref(), Some("((x + 3) * 2)"));
        assert_eq!(made(x.lt(y).select(x, 0), DType::I32).as_deref(), Some("((cast(x) < cast(x))).where(cast(x), 0)"));
        assert_eq!(made(x.lt(c), DType::I32), None);
        assert_eq!(made(x.sin(), DType::I32), None);
    }
}
