//! Rules of single nodes that hold at every stage: the argument is of the op's kind, constants are in their type's form, the op
//! is defined on its types.

use super::VerifyError;
use crate::DType;
use crate::dtype::Scalar;
use crate::ir::{Arg, Combiner, Component, DotKind, Op, SELDOM, TileShape, UOp, fragments, is_defined};

/// Whether the argument is of the kind that the op takes.
// tidy: table
fn takes(op: Op, arg: &Arg) -> bool {
    match op {
        Op::Const => matches!(arg, Arg::Scalar(_)),
        Op::Buffer => matches!(arg, Arg::Buffer(_)),
        Op::Param => matches!(arg, Arg::Param(_)),
        Op::Variable => matches!(arg, Arg::Variable(_)),
        Op::Iota | Op::Reshape | Op::Expand => matches!(arg, Arg::Shape(_)),
        Op::Permute | Op::Flip | Op::Materialize => matches!(arg, Arg::Axes(_)),
        Op::Pad | Op::Shrink => matches!(arg, Arg::Bounds(_)),
        Op::AsStrided => matches!(arg, Arg::Strided(_)),
        Op::Reduce => matches!(arg, Arg::Reduce(..) | Arg::ReduceState(..)),
        Op::Scan => matches!(arg, Arg::Scan(..) | Arg::ScanState(Combiner::LogSumExp, _)),
        Op::Fetch => matches!(arg, Arg::Scatter(..)),
        Op::Place => matches!(arg, Arg::Axis(_)),
        Op::Gather => matches!(arg, Arg::Axis(_)),
        Op::Scatter => matches!(arg, Arg::Scatter(..)),
        Op::Copy => matches!(arg, Arg::Device(_)),
        Op::Function => matches!(arg, Arg::Function(_)),
        Op::Write => matches!(arg, Arg::View(_) | Arg::Scatter(..)),
        Op::Range => matches!(arg, Arg::Range(_)),
        Op::ReduceRange | Op::Running => matches!(arg, Arg::Combine(_) | Arg::CombineState(_) | Arg::Step(_)),
        Op::HorizontalReduce | Op::ShuffleReduce => matches!(arg, Arg::Combine(_)),
        Op::Exchange => matches!(arg, Arg::None | Arg::Combine(_)),
        Op::Store => matches!(arg, Arg::None | Arg::Combine(_) | Arg::CombineState(_) | Arg::Scatter(..)),
        Op::Ramp | Op::Lane | Op::Accumulator | Op::Prefetch | Op::Barrier | Op::LoadMatrices | Op::MultiplyTiles => {
            matches!(arg, Arg::Number(_))
        }
        Op::Scratch => matches!(arg, Arg::Scratch(..)),
        Op::Index => matches!(arg, Arg::None | Arg::Strided(_)),
        Op::Bind
        | Op::Contiguous
        | Op::Detach
        | Op::Previous
        | Op::LocalBuffer
        | Op::Load
        | Op::Sink
        | Op::Splat
        | Op::Stack
        | Op::MultiplyMatrices
        | Op::DotProducts
        | Op::Update
        | Op::Final
        | Op::EndRange
        | Op::Neg
        | Op::Not
        | Op::Exp2
        | Op::Log2
        | Op::Sin
        | Op::Cos
        | Op::Sqrt
        | Op::Trunc
        | Op::Cast
        | Op::Bitcast
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
        | Op::Lt
        | Op::Eq
        | Op::Ne
        | Op::And
        | Op::Or
        | Op::Xor
        | Op::Shl
        | Op::Shr
        | Op::MulAdd => *arg == Arg::None,
        Op::Where => matches!(arg, Arg::None | Arg::Number(SELDOM)),
    }
}

/// Checks one node, whatever its stage.
pub(super) fn check_node(node: &UOp) -> Result<(), VerifyError> {
    let op = node.op();
    if !takes(op, node.arg()) {
        return Err(VerifyError::new(node, format!("does not take the argument {:?}", node.arg())));
    }
    if let Arg::Scalar(value) = node.arg() {
        return check_constant(node, *value);
    }
    if let Arg::Variable(variable) = node.arg()
        && variable.min > variable.max
    {
        let message = format!("{} has no value from {} to {}", variable.name, variable.min, variable.max);
        return Err(VerifyError::new(node, message));
    }
    if let Arg::ReduceState(component, _) | Arg::CombineState(component) | Arg::Step(component) = node.arg() {
        check_state(node, *component)?;
    }
    if op == Op::MultiplyMatrices {
        return check_matrices(node);
    }
    if op == Op::DotProducts {
        return check_dots(node);
    }
    if op == Op::MultiplyTiles {
        return check_tiles(node);
    }
    if op.is_elementwise() {
        let operand = node.src()[(op == Op::Where) as usize].dtype();
        if !is_defined(op, operand.element()) {
            return Err(VerifyError::new(node, format!("is not defined on {operand}")));
        }
    }
    Ok(())
}

/// Lanes hold so many half floats of one type of each factor, and sums in `f32`.
fn check_matrices(node: &UOp) -> Result<(), VerifyError> {
    let [left, right, sums] = [0, 1, 2].map(|operand: usize| node.src()[operand].dtype());
    let wanted = DType::F32.with_lanes(fragments::SUMS);
    let is_half = [DType::F16, DType::BF16].contains(&left.element()) && left.element() == right.element();
    let fits = left.lanes() == fragments::LEFT && right.lanes() == fragments::RIGHT && sums == wanted;
    match is_half && fits && node.dtype() == wanted {
        true => Ok(()),
        false => Err(VerifyError::new(node, format!("gives {} of {left}, {right} and {sums}", node.dtype()))),
    }
}

/// Factors are of types that an instruction multiplies, with a group of lanes for each lane of the sums, or one lane where none takes them yet.
fn check_dots(node: &UOp) -> Result<(), VerifyError> {
    let [left, right, sums] = [0, 1, 2].map(|operand: usize| node.src()[operand].dtype());
    let lanes = |group: usize| left.lanes() == group * sums.lanes();
    let fits = DotKind::of(left, right, sums).is_some_and(|kind| lanes(1) || lanes(kind.group()));
    match fits && left.lanes() == right.lanes() && node.dtype() == sums {
        true => Ok(()),
        false => Err(VerifyError::new(node, format!("gives {} of {left}, {right} and {sums}", node.dtype()))),
    }
}

/// Vectors are of types that an instruction multiplies, and hold matrices that fit each other and tile registers.
fn check_tiles(node: &UOp) -> Result<(), VerifyError> {
    let [left, right, sums] = [0, 1, 2].map(|operand: usize| node.src()[operand].dtype());
    let rows = match node.arg() {
        Arg::Number(rows) => usize::try_from(*rows).unwrap_or(0),
        _ => 0,
    };
    match TileShape::of(rows, left, right, sums).is_some() && node.dtype() == sums {
        true => Ok(()),
        false => {
            let message = format!("gives {} of {left}, {right} and {sums} with {rows} rows", node.dtype());
            Err(VerifyError::new(node, message))
        }
    }
}

/// The first operands of a reduction of states are the components of one, and it gives the one that it names.
fn check_state(node: &UOp, component: Component) -> Result<(), VerifyError> {
    let (combiner, given) = (component.combiner, component.number as usize);
    if let (Op::Store, [_, value, ..]) = (node.op(), node.src()) {
        // The other components are those that other stores of its stage store.
        return match given < combiner.arity() && combiner.admits(given, value.dtype()) {
            true => Ok(()),
            false => {
                Err(VerifyError::new(node, format!("component {given} of {} is no {}", combiner.name(), value.dtype())))
            }
        };
    }
    let Some(state) = node.src().get(..combiner.arity()).filter(|_| given < combiner.arity()) else {
        let message = format!("{} takes a state of {} components", combiner.name(), combiner.arity());
        return Err(VerifyError::new(node, message));
    };
    for (number, value) in state.iter().enumerate() {
        if !combiner.admits(number, value.dtype()) {
            let name = combiner.components()[number];
            let message = format!("the {name} of {} is no {}", combiner.name(), value.dtype());
            return Err(VerifyError::new(node, message));
        }
        let differs = combiner.is_rounded() && value.dtype() != state[0].dtype();
        if differs || value.dtype().lanes() != state[0].dtype().lanes() {
            let message = format!("the state is made of {} and {}", state[0].dtype(), value.dtype());
            return Err(VerifyError::new(node, message));
        }
    }
    if node.dtype() != state[given].dtype() {
        let message = format!("gives {}, but its component is {}", node.dtype(), state[given].dtype());
        return Err(VerifyError::new(node, message));
    }
    Ok(())
}

fn check_constant(node: &UOp, value: Scalar) -> Result<(), VerifyError> {
    let dtype = node.dtype();
    if value == value.cast(dtype) {
        return Ok(());
    }
    Err(VerifyError::new(node, format!("{value:?} is not in the form of {dtype}, which is {:?}", value.cast(dtype))))
}
