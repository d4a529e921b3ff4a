//! Elementwise ops on single constants: what constant folding computes and what the interpreter computes element by element.
//!
//! [`is_defined`] says for which types an op means something; [`scalar_op`] computes it; [`Evaluator`] computes a whole expression of
//! scalars over and over for different leaves. The arithmetic itself is `dtype::arithmetic`.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::op::Op;
use super::uop::UOp;
use super::walk::postorder_until;
use crate::dtype::arithmetic::{Element, WithElement, with_element};
use crate::dtype::{DType, Scalar};

/// Whether the elementwise op `op` is defined on operands of that type (of `where`, the two sides).
// tidy: table
pub fn is_defined(op: Op, operand: DType) -> bool {
    let (float, integer, bool) = (operand.is_float(), operand.is_integer(), operand.is_bool());
    match op {
        Op::Neg | Op::Sub => float || integer,
        Op::Not | Op::And | Op::Or | Op::Xor => integer || bool,
        Op::Exp2 | Op::Log2 | Op::Sin | Op::Cos | Op::Sqrt | Op::Div => float,
        Op::IDiv | Op::Mod | Op::CDiv | Op::Shl | Op::Shr => integer,
        Op::CMod => float || integer,
        Op::Trunc
        | Op::Cast
        | Op::Bitcast
        | Op::Add
        | Op::Mul
        | Op::Max
        | Op::Min
        | Op::Lt
        | Op::Eq
        | Op::Ne
        | Op::Where
        | Op::MulAdd => float || integer || bool,
        Op::Const
        | Op::Buffer
        | Op::Param
        | Op::Variable
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
        | Op::Gather
        | Op::Scatter
        | Op::Fetch
        | Op::Place
        | Op::Contiguous
        | Op::Materialize
        | Op::Detach
        | Op::Function
        | Op::Copy
        | Op::Write
        | Op::Range
        | Op::ReduceRange
        | Op::Running
        | Op::Exchange
        | Op::Previous
        | Op::Store
        | Op::Index
        | Op::Load
        | Op::LocalBuffer
        | Op::Sink
        | Op::Ramp
        | Op::Splat
        | Op::Stack
        | Op::Lane
        | Op::HorizontalReduce
        | Op::LoadMatrices
        | Op::MultiplyMatrices
        | Op::DotProducts
        | Op::MultiplyTiles
        | Op::Scratch
        | Op::Accumulator
        | Op::Update
        | Op::Final
        | Op::ShuffleReduce
        | Op::Prefetch
        | Op::Barrier
        | Op::EndRange => false,
    }
}

type Unary<E> = fn(E) -> E;
type Binary<E> = fn(E, E) -> E;
type Comparison<E> = fn(E, E) -> bool;

/// The function of an op of one operand that keeps the type.
pub(super) fn unary_function<E: Element>(op: Op) -> Option<Unary<E>> {
    let functions: [(Op, Unary<E>); 8] = [
        (Op::Neg, E::neg),
        (Op::Not, E::not),
        (Op::Exp2, E::exp2),
        (Op::Log2, E::log2),
        (Op::Sin, E::sin),
        (Op::Cos, E::cos),
        (Op::Sqrt, E::sqrt),
        (Op::Trunc, E::trunc),
    ];
    functions.into_iter().find(|(known, _)| *known == op).map(|(_, function)| function)
}

/// The function of an op of two operands that keeps the type.
pub(super) fn binary_function<E: Element>(op: Op) -> Option<Binary<E>> {
    let functions: [(Op, Binary<E>); 15] = [
        (Op::Add, E::add),
        (Op::Sub, E::sub),
        (Op::Mul, E::mul),
        (Op::Div, E::div),
        (Op::IDiv, E::idiv),
        (Op::Mod, E::modulo),
        (Op::CDiv, E::cdiv),
        (Op::CMod, E::cmod),
        (Op::Max, E::max),
        (Op::Min, E::min),
        (Op::And, E::and),
        (Op::Or, E::or),
        (Op::Xor, E::xor),
        (Op::Shl, E::shl),
        (Op::Shr, E::shr),
    ];
    functions.into_iter().find(|(known, _)| *known == op).map(|(_, function)| function)
}

/// The function of a comparison.
pub(super) fn comparison_function<E: Element>(op: Op) -> Option<Comparison<E>> {
    let functions: [(Op, Comparison<E>); 3] = [(Op::Lt, E::lt), (Op::Eq, |a, b| a == b), (Op::Ne, |a, b| a != b)];
    functions.into_iter().find(|(known, _)| *known == op).map(|(_, function)| function)
}

struct Apply<'s> {
    op: Op,
    src: &'s [Scalar],
}

impl WithElement for Apply<'_> {
    type Output = Option<Scalar>;
    fn with<E: Element>(self) -> Option<Scalar> {
        match (self.op, self.src) {
            (Op::MulAdd, [a, b, c]) => {
                Some(E::from_scalar(*a).muladd(E::from_scalar(*b), E::from_scalar(*c)).to_scalar())
            }
            (op, [a]) => unary_function::<E>(op).map(|function| function(E::from_scalar(*a)).to_scalar()),
            (op, [a, b]) => {
                let (a, b) = (E::from_scalar(*a), E::from_scalar(*b));
                match binary_function::<E>(op) {
                    Some(function) => Some(function(a, b).to_scalar()),
                    None => comparison_function::<E>(op).map(|function| Scalar::Bool(function(a, b))),
                }
            }
            _ => None,
        }
    }
}

/// The value of the elementwise op on constants of type `operand` (of `where`, the type of the two sides), as type `dtype`.
/// `None` if the op is not elementwise or not defined on that type.
pub fn scalar_op(op: Op, dtype: DType, operand: DType, src: &[Scalar]) -> Option<Scalar> {
    if !is_defined(op, operand) {
        return None;
    }
    match (op, src) {
        (Op::Where, [cond, a, b]) => Some(if cond.to_bool() { *a } else { *b }),
        (Op::Cast, [a]) => Some(a.cast(dtype)),
        (Op::Bitcast, [a]) => Some(Scalar::from_bits(a.to_bits(operand), dtype)),
        _ => with_element(operand, Apply { op, src }).flatten(),
    }
}

/// An elementwise op on constants of one type, prepared to be computed many times: it takes its operands in order.
pub type ScalarFunction = Box<dyn Fn(&[Scalar]) -> Scalar>;

struct Prepare(Op);

impl WithElement for Prepare {
    type Output = Option<ScalarFunction>;
    fn with<E: Element>(self) -> Option<ScalarFunction> {
        if self.0 == Op::MulAdd {
            let from = E::from_scalar;
            return Some(Box::new(move |src| from(src[0]).muladd(from(src[1]), from(src[2])).to_scalar()));
        }
        if let Some(function) = unary_function::<E>(self.0) {
            return Some(Box::new(move |src| function(E::from_scalar(src[0])).to_scalar()));
        }
        if let Some(function) = binary_function::<E>(self.0) {
            return Some(Box::new(move |src| function(E::from_scalar(src[0]), E::from_scalar(src[1])).to_scalar()));
        }
        let function = comparison_function::<E>(self.0)?;
        Some(Box::new(move |src| Scalar::Bool(function(E::from_scalar(src[0]), E::from_scalar(src[1])))))
    }
}

/// What [`scalar_op`] computes, for one op and its types. `None` if the op is not elementwise or not defined on that type.
///
/// The function panics if it is given fewer operands than the op has.
pub fn scalar_function(op: Op, dtype: DType, operand: DType) -> Option<ScalarFunction> {
    if !is_defined(op, operand) {
        return None;
    }
    match op {
        Op::Where => Some(Box::new(|src| if src[0].to_bool() { src[1] } else { src[2] })),
        Op::Cast => Some(Box::new(move |src| src[0].cast(dtype))),
        Op::Bitcast => Some(Box::new(move |src| Scalar::from_bits(src[0].to_bits(operand), dtype))),
        _ => with_element(operand, Prepare(op)).flatten(),
    }
}

/// As [`scalar_op`], for the node's own op and types.
pub fn fold_constants(node: &UOp, src: &[Scalar]) -> Option<Scalar> {
    scalar_op(node.op(), node.dtype(), operand_type(node)?, src)
}

fn operand_type(node: &UOp) -> Option<DType> {
    let operand = if node.op() == Op::Where { node.src().get(1) } else { node.src().first() };
    operand.map(UOp::dtype)
}

enum Step {
    Leaf(usize),
    Constant(Scalar),
    Same(usize),
    /// A function of these steps; none where the op is not defined on their types.
    Op(Option<ScalarFunction>, SmallVec<[usize; 3]>),
}

/// Expressions of scalars, prepared to be computed many times.
///
/// Leaves are whatever is not elementwise and no constant: variables, ranges, loads. `bind` has the value of its second operand.
pub struct Evaluator {
    leaves: Vec<UOp>,
    steps: Vec<Step>,
    roots: Vec<usize>,
    values: Vec<Scalar>,
}

impl Evaluator {
    /// Prepares these expressions.
    pub fn new(roots: &[UOp]) -> Evaluator {
        let is_leaf = |node: &UOp| !(node.op().is_elementwise() || node.op() == Op::Bind);
        let mut leaves = Vec::new();
        let mut numbers: FxHashMap<UOp, usize> = FxHashMap::default();
        let mut steps = Vec::new();
        for node in postorder_until(roots, is_leaf) {
            let step = if let Some(value) = node.as_scalar() {
                Step::Constant(value)
            } else if is_leaf(&node) {
                leaves.push(node.clone());
                Step::Leaf(leaves.len() - 1)
            } else if node.op() == Op::Bind {
                Step::Same(numbers[&node.src()[1]])
            } else {
                let operand = operand_type(&node).unwrap_or(node.dtype());
                let src = node.src().iter().map(|operand| numbers[operand]).collect();
                Step::Op(scalar_function(node.op(), node.dtype(), operand), src)
            };
            numbers.insert(node, steps.len());
            steps.push(step);
        }
        let roots = roots.iter().map(|root| numbers[root]).collect();
        let values = vec![Scalar::Bool(false); steps.len()];
        Evaluator { leaves, steps, roots, values }
    }

    /// The leaves, in the order in which [`Evaluator::evaluate`] takes their values.
    pub fn leaves(&self) -> &[UOp] {
        &self.leaves
    }

    /// The values of the roots where the leaves have these values; `None` if an op is not defined on its operands.
    ///
    /// # Panics
    /// If there are fewer values than leaves.
    pub fn evaluate(&mut self, leaves: &[Scalar]) -> Option<SmallVec<[Scalar; 2]>> {
        assert!(leaves.len() >= self.leaves.len(), "{} values for {} leaves", leaves.len(), self.leaves.len());
        for number in 0..self.steps.len() {
            let value = match &self.steps[number] {
                Step::Leaf(leaf) => leaves[*leaf],
                Step::Constant(value) => *value,
                Step::Same(other) => self.values[*other],
                Step::Op(function, src) => {
                    let mut operands = [Scalar::Bool(false); 3];
                    for (operand, &number) in operands.iter_mut().zip(src) {
                        *operand = self.values[number];
                    }
                    function.as_ref()?(&operands[..src.len()])
                }
            };
            self.values[number] = value;
        }
        Some(self.roots.iter().map(|&root| self.values[root]).collect())
    }
}

/// The value of one expression where `leaf` gives the values of its leaves; `None` if it lacks one, or an op is not defined.
pub fn evaluate(root: &UOp, leaf: impl Fn(&UOp) -> Option<Scalar>) -> Option<Scalar> {
    let mut evaluator = Evaluator::new(std::slice::from_ref(root));
    let leaves: Vec<Scalar> = evaluator.leaves().iter().map(leaf).collect::<Option<_>>()?;
    evaluator.evaluate(&leaves).map(|values| values[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_defined_op_has_a_value_and_no_other_has() {
        for op in Op::ALL.iter().copied().filter(|op| op.is_elementwise()) {
            for dtype in DType::ALL {
                let one = Scalar::one(dtype);
                let src = match op.arity() {
                    1 => vec![one],
                    2 => vec![one, one],
                    _ if op == Op::Where => vec![Scalar::Bool(true), one, one],
                    _ => vec![one, one, one],
                };
                let value = scalar_op(op, dtype, dtype, &src);
                assert_eq!(value.is_some(), is_defined(op, dtype), "{op} {dtype}");
                assert_eq!(value, scalar_function(op, dtype, dtype).map(|function| function(&src)), "{op} {dtype}");
            }
        }
    }

    #[test]
    fn values_have_the_form_of_their_type() {
        assert_eq!(
            scalar_op(Op::Add, DType::U8, DType::U8, &[Scalar::UInt(200), Scalar::UInt(100)]),
            Some(Scalar::UInt(44))
        );
        assert_eq!(
            scalar_op(Op::Sub, DType::U8, DType::U8, &[Scalar::UInt(1), Scalar::UInt(2)]),
            Some(Scalar::UInt(255))
        );
        assert_eq!(
            scalar_op(Op::Lt, DType::BOOL, DType::I32, &[Scalar::Int(1), Scalar::Int(2)]),
            Some(Scalar::Bool(true))
        );
        let bits = scalar_op(Op::Bitcast, DType::I32, DType::F32, &[Scalar::float(1.0)]);
        assert_eq!(bits, Some(Scalar::Int(0x3f80_0000)));
        let third = scalar_op(Op::Div, DType::F32, DType::F32, &[Scalar::float(1.0), Scalar::float(3.0)]);
        assert_eq!(third, Some(Scalar::float((1.0f32 / 3.0) as f64)));
    }

    #[test]
    fn expressions_are_evaluated_over_their_leaves() {
        let (x, y) = (UOp::variable("x", 0, 63), UOp::variable("y", 0, 7));
        let root = x.idiv(8) * 8 + x.modulo(8) + &y;
        let value = evaluate(&root, |leaf| Some(Scalar::Int(if *leaf == x { 29 } else { 4 })));
        assert_eq!(value, Some(Scalar::Int(33)));
        let mut long = x.clone();
        for _ in 0..100_000 {
            long = &long + &y;
        }
        assert_eq!(evaluate(&long, |_| Some(Scalar::Int(1))), Some(Scalar::Int(100_001)));
    }
}
