//! Random graphs and inputs. Everything made here is valid: the verifier accepts it, and the interpreter gives it a value.

mod indices;
mod inputs;
mod views;

pub use indices::{index_expression, positions};
pub use inputs::{random_inputs, random_value};
pub use views::movement_chain;

use views::movement;
use warpweft_compiler::DType;
use warpweft_compiler::dtype::Scalar;
use warpweft_compiler::ir::text::Graph;
use warpweft_compiler::ir::{Arg, Combiner, Dim, Op, ReduceOp, UOp, is_defined};
use warpweft_compiler::region::view_overlaps_itself;
use warpweft_compiler::view::ViewSpec;

use crate::choices::Choices;

/// Types of tensors that programs are made of.
const TYPES: [DType; 6] = [DType::F32, DType::I32, DType::BOOL, DType::U8, DType::I64, DType::F64];
/// Elements that a value of a program may have.
const ELEMENTS_MAX: i64 = 4096;

/// A program of a few tensors: elementwise ops, movement, casts, reductions, scans, gathers, scatters, fetches, orders, writes; one or two roots.
pub fn tensor_program(choices: &mut Choices<'_>) -> Graph {
    let mut values: Vec<UOp> = Vec::new();
    for slot in 0..choices.between(1, 3) {
        let shape: Vec<i64> = (0..choices.between(0, 3)).map(|_| choices.between(1, 5)).collect();
        let dtype = *choices.one_of(&TYPES);
        let len = shape.iter().product::<i64>() as u64;
        values.push(UOp::param(slot as u32, dtype, len).reshape(shape));
    }
    for _ in 0..choices.between(1, 10) {
        let operand = choices.one_of(&values).clone();
        let new = match choices.between(0, 13) {
            0..=3 => elementwise(choices, &values, &operand),
            4..=7 => movement(choices, &operand),
            8 => reduce(choices, &operand),
            9 => gather(choices, &operand),
            10 if choices.once_in(3) => place(choices, &operand),
            10 => scan(choices, &operand),
            11 => scatter(choices, &values, &operand),
            _ => write(choices, &values, &operand),
        };
        if let Some(new) = new.filter(|new| new.shape().numel().as_const().is_some_and(|len| len <= ELEMENTS_MAX)) {
            values.push(new);
        }
    }
    let last = values.last().cloned();
    let mut roots: Vec<UOp> = last.into_iter().collect();
    if choices.once_in(3) {
        roots.push(choices.one_of(&values).clone());
    }
    Graph::new("program", roots)
}

fn elementwise(choices: &mut Choices<'_>, values: &[UOp], a: &UOp) -> Option<UOp> {
    let dtype = a.dtype();
    if choices.once_in(6) {
        let to = *choices.one_of(&TYPES);
        // A float beyond an integer type has no agreed value there, so floats become integers from a small range.
        let a = match dtype.is_float() && !to.is_float() && !to.is_bool() {
            true => a.max(0).min(100),
            false => a.clone(),
        };
        return Some(a.cast(to));
    }
    let unary = [Op::Neg, Op::Not, Op::Trunc, Op::Sqrt, Op::Exp2, Op::Sin, Op::Cos];
    if choices.once_in(5) {
        let op = *choices.one_of(&unary);
        let a = if op == Op::Exp2 && dtype.is_float() { a.max(-8).min(8) } else { a.clone() };
        return is_defined(op, dtype).then(|| UOp::new(op, dtype, vec![a], Arg::None));
    }
    let binary = [
        Op::Add,
        Op::Mul,
        Op::Sub,
        Op::Max,
        Op::Min,
        Op::Lt,
        Op::Eq,
        Op::Ne,
        Op::And,
        Op::Or,
        Op::Xor,
        Op::IDiv,
        Op::Mod,
        Op::CDiv,
        Op::CMod,
    ];
    let op = *choices.one_of(&binary);
    // fmod of floats is a different decomposition on each engine and has tests of its own.
    if !is_defined(op, dtype) || (op == Op::CMod && dtype.is_float()) {
        return None;
    }
    let partners: Vec<&UOp> = values
        .iter()
        .filter(|b| b.dtype() == dtype && (b.shape() == a.shape() || b.shape().is_empty() || a.shape().is_empty()))
        .collect();
    let constant = UOp::constant(Scalar::from_i64(choices.between(0, 4), dtype), dtype);
    let b = if choices.once_in(3) { &constant } else { choices.one_of(&partners) };
    let result = UOp::binary(op, a, b);
    if result.dtype().is_bool() && choices.once_in(3) {
        return Some(result.select(a, b));
    }
    Some(result)
}

/// A write into a view of x, of another value of its shape or of one made of what is replaced.
fn write(choices: &mut Choices<'_>, values: &[UOp], x: &UOp) -> Option<UOp> {
    let mut target = x.clone();
    let mut steps: Vec<(Op, Arg)> = Vec::new();
    for _ in 0..choices.between(0, 3) {
        if let Some(moved) = movement(choices, &target).filter(|moved| *moved != target && moved.op() != Op::Pad) {
            steps.push((moved.op(), moved.arg().clone()));
            target = moved;
        }
    }
    // Where positions of the view share elements, a write has no defined result.
    let stored = x.contiguous().through(&steps);
    if view_overlaps_itself(ViewSpec::of_node(&stored)?).may_be() {
        return None;
    }
    let fits = |value: &&UOp| value.dtype() == x.dtype() && value.shape() == target.shape();
    let partners: Vec<&UOp> = values.iter().filter(fits).collect();
    let value = if partners.is_empty() || choices.once_in(3) {
        let with_target: Vec<UOp> = values.iter().chain([&target]).cloned().collect();
        elementwise(choices, &with_target, &target).filter(|value| fits(&value))?
    } else {
        (*choices.one_of(&partners)).clone()
    };
    Some(x.write(&steps, &value))
}

fn reduce(choices: &mut Choices<'_>, x: &UOp) -> Option<UOp> {
    let axes: Vec<usize> = (0..x.shape().len()).filter(|_| choices.once_in(2)).collect();
    if choices.once_in(4) && !x.dtype().is_index() {
        return extreme(choices, x, &axes);
    }
    let op = *choices.one_of(&[ReduceOp::Add, ReduceOp::Max, ReduceOp::Min, ReduceOp::Mul]);
    // Products of many floats overflow at once and tell nothing.
    let op = if op == ReduceOp::Mul && x.dtype().is_float() { ReduceOp::Add } else { op };
    Some(x.reduce(op, &axes))
}

/// The extreme along axes, or its index along the last of them.
fn extreme(choices: &mut Choices<'_>, x: &UOp, axes: &[usize]) -> Option<UOp> {
    let axis = *axes.last()?;
    let mut line: Vec<Dim> = x.shape().iter().map(|_| Dim::Const(1)).collect();
    line[axis] = x.shape()[axis].clone();
    let positions = UOp::iota(x.shape()[axis].clone()).cast(DType::I32).reshape(line).expand(x.shape().clone());
    let combiners = [Combiner::ArgMaxFirst, Combiner::ArgMaxLast, Combiner::ArgMinFirst, Combiner::ArgMinLast];
    let outcome = UOp::reduce_states(*choices.one_of(&combiners), &[x.clone(), positions], axes);
    // Rounding may move an index, but no value by much.
    Some(if x.dtype().is_float() { outcome[0].clone() } else { choices.one_of(&outcome).cast(x.dtype()) })
}

fn gather(choices: &mut Choices<'_>, x: &UOp) -> Option<UOp> {
    let rank = x.shape().len();
    if rank == 0 {
        return None;
    }
    let axis = choices.between(0, rank as i64 - 1) as usize;
    let index = UOp::iota(choices.between(1, 4)) * choices.between(-1, 2) + choices.between(-1, 2);
    Some(x.gather(&index.cast(DType::I32), axis))
}

fn scan(choices: &mut Choices<'_>, x: &UOp) -> Option<UOp> {
    let rank = x.shape().len();
    if rank == 0 {
        return None;
    }
    let op = *choices.one_of(&[ReduceOp::Add, ReduceOp::Max, ReduceOp::Min, ReduceOp::Mul]);
    let axis = choices.between(0, rank as i64 - 1) as usize;
    // Products of floats soon are more than a float holds.
    Some(match op == ReduceOp::Mul && x.dtype().is_float() {
        true => x.scan_states(Combiner::LogSumExp, axis),
        false => x.scan(op, axis),
    })
}

/// The elements in another order of an axis, the same for all lines or another for each.
fn place(choices: &mut Choices<'_>, x: &UOp) -> Option<UOp> {
    let lens = x.shape().as_const()?;
    if lens.is_empty() || lens.contains(&0) {
        return None;
    }
    let axis = choices.between(0, lens.len() as i64 - 1) as usize;
    let len = lens[axis];
    let line: Vec<i64> = (0..lens.len()).map(|k| if k == axis { len } else { 1 }).collect();
    let mut index = UOp::iota(len).reshape(line).expand(lens.clone());
    if choices.once_in(2) {
        index = UOp::index(len - 1) - index;
    }
    if choices.once_in(2) {
        let flat = UOp::iota(lens.iter().product::<i64>()).reshape(lens.clone());
        let other: i64 = lens.iter().skip(axis).product();
        index = (index + flat.idiv(other) + choices.between(0, 3)).modulo(len);
    }
    Some(x.place(&index.cast(*choices.one_of(&[DType::I32, DType::I64])), axis))
}

/// Some elements of another value of the type, or numbers, put into x at positions of which some are named twice and some do not exist.
fn scatter(choices: &mut Choices<'_>, values: &[UOp], x: &UOp) -> Option<UOp> {
    let room = x.shape().as_const()?;
    if room.is_empty() || room.contains(&0) {
        return None;
    }
    let axis = choices.between(0, room.len() as i64 - 1) as usize;
    let lens: Vec<i64> = room
        .iter()
        .enumerate()
        .map(|(k, &len)| if k == axis { choices.between(1, 7) } else { choices.between(len.min(2), len) })
        .collect();
    let count: i64 = lens.iter().product();
    let numbers = |choices: &mut Choices<'_>, lens: &[i64]| {
        let flat = UOp::iota(lens.iter().product::<i64>()) * choices.between(-2, 3) + choices.between(-1, 3);
        flat.reshape(lens.to_vec())
    };
    // Often one position for a whole row, as of an embedding.
    let index = if choices.once_in(2) {
        let line: Vec<i64> = (0..room.len()).map(|k| if k == axis { lens[k] } else { 1 }).collect();
        numbers(choices, &line).expand(lens.clone())
    } else {
        numbers(choices, &lens)
    };
    let enough = |value: &&UOp| {
        value.dtype() == x.dtype() && value.shape().numel().as_const().is_some_and(|numel| numel >= count)
    };
    let sources: Vec<&UOp> = values.iter().filter(enough).collect();
    let source = if sources.is_empty() || choices.once_in(3) {
        numbers(choices, &lens).cast(x.dtype())
    } else {
        let value = choices.one_of(&sources);
        value.reshape([value.shape().numel()]).shrink(&[(0.into(), count.into())]).reshape(lens)
    };
    let ops = [None, Some(ReduceOp::Add), Some(ReduceOp::Max), Some(ReduceOp::Min), Some(ReduceOp::Mul)];
    let op = (*choices.one_of(&ops)).filter(|op| *op != ReduceOp::Mul || !x.dtype().is_float());
    let index = index.cast(*choices.one_of(&[DType::I32, DType::I64]));
    if x.dtype().is_integer() && choices.once_in(2) {
        return Some(x.fetch(&index, &source, op, axis));
    }
    Some(x.scatter(&index, &source, op, axis))
}
