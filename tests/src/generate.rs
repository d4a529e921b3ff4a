//! Random graphs and inputs. Everything made here is valid: the verifier accepts it, and the interpreter gives it a value.

use warpweft_compiler::DType;
use warpweft_compiler::dtype::Scalar;
use warpweft_compiler::ir::interpret::Value;
use warpweft_compiler::ir::text::Graph;
use warpweft_compiler::ir::{Arg, Combiner, Dim, Op, ReduceOp, Shape, StridedArg, UOp, is_defined};
use warpweft_compiler::region::view_overlaps_itself;
use warpweft_compiler::view::ViewSpec;

use crate::choices::Choices;

/// Types of tensors that programs are made of.
const TYPES: [DType; 6] = [DType::F32, DType::I32, DType::BOOL, DType::U8, DType::I64, DType::F64];
/// Elements that a value of a program may have.
const ELEMENTS_MAX: i64 = 4096;

/// An expression of single integers and bools over a few variables, as index arithmetic is made of.
pub fn index_expression(choices: &mut Choices<'_>) -> Graph {
    let mut integers: Vec<UOp> = Vec::new();
    for (number, name) in ["a", "b", "c"].into_iter().enumerate() {
        if number == 0 || choices.once_in(2) {
            let low = choices.between(-9, 9);
            let high = low + choices.between(0, 20);
            integers.push(UOp::variable(name, low, high));
        }
    }
    let mut bools: Vec<UOp> = Vec::new();
    for _ in 0..choices.between(1, 12) {
        let operand = |choices: &mut Choices<'_>, integers: &[UOp]| match choices.once_in(3) {
            true => UOp::index(choices.between(-12, 12)),
            false => choices.one_of(integers).clone(),
        };
        let a = operand(choices, &integers);
        let b = operand(choices, &integers);
        match choices.between(0, 14) {
            number @ 0..=8 => {
                let ops = [Op::Add, Op::Mul, Op::IDiv, Op::Mod, Op::Sub, Op::Max, Op::Min, Op::CDiv, Op::CMod];
                integers.push(UOp::binary(ops[number as usize], &a, &b));
            }
            number @ 9..=11 => bools.push(UOp::binary([Op::Lt, Op::Eq, Op::Ne][number as usize - 9], &a, &b)),
            12 if bools.len() > 1 => {
                let op = *choices.one_of(&[Op::And, Op::Or, Op::Xor]);
                let (c, d) = (choices.one_of(&bools).clone(), choices.one_of(&bools).clone());
                bools.push(UOp::binary(op, &c, &d));
            }
            13 if !bools.is_empty() => {
                let condition = choices.one_of(&bools).clone();
                integers.push(condition.select(&a, &b));
            }
            _ if !bools.is_empty() => bools.push(choices.one_of(&bools).not()),
            _ => integers.push(a.negate()),
        }
    }
    let roots: Vec<UOp> = integers.last().into_iter().chain(bools.last()).cloned().collect();
    Graph::new("expression", roots)
}

/// A position put together from digits and taken apart by another shape, again and again, with paddings, gaps and mirrored axes, as views of
/// views do: the position, and a digit of it where gates hold.
pub fn positions(choices: &mut Choices<'_>) -> Graph {
    let mut lens: Vec<i64> = (0..choices.between(1, 4)).map(|_| choices.between(2, 9)).collect();
    let names = ["a", "b", "c", "d"];
    let mut digits: Vec<UOp> = lens.iter().zip(names).map(|(len, name)| UOp::variable(name, 0, len - 1)).collect();
    let mut position = UOp::index(0);
    for _ in 0..choices.between(1, 4) {
        for axis in 1..digits.len() {
            let other = choices.between(0, axis as i64) as usize;
            digits.swap(axis, other);
            lens.swap(axis, other);
        }
        position = UOp::index(if choices.once_in(2) { choices.between(-6, 12) } else { 0 });
        let mut stride = 1;
        for (digit, len) in digits.iter().zip(&lens) {
            let own = if choices.once_in(6) { choices.between(-8, 8) } else { stride };
            position = position + digit * own;
            stride *= len;
        }
        lens = (0..choices.between(1, 4)).map(|_| choices.between(2, 9)).collect();
        let mut inner = 1;
        digits.clear();
        for (axis, len) in lens.iter().enumerate() {
            let quotient = position.idiv(inner);
            let is_outermost = axis + 1 == lens.len() && !choices.once_in(3);
            let digit = if is_outermost { quotient } else { quotient.modulo(*len) };
            digits.push(match choices.between(0, 11) {
                0..=3 => digit + choices.between(-3, 3),
                4 => UOp::index(choices.between(0, len - 1)),
                5 => UOp::index(len - 1) - digit,
                _ => digit,
            });
            inner *= len;
        }
    }
    let gate = |digit: &UOp, choices: &mut Choices<'_>| {
        let limit = UOp::index(choices.between(0, 6));
        if choices.once_in(2) { digit.lt(&limit) } else { limit.lt(digit) }
    };
    let gates: Vec<UOp> = digits.iter().map(|digit| gate(digit, choices)).collect();
    let valid = gates.into_iter().reduce(|valid, gate| valid.and(&gate)).unwrap_or_else(|| UOp::bool(true));
    let shown = valid.select(
        &digits.iter().cloned().reduce(|sum, digit| sum * 3 + digit).unwrap_or(position.clone()),
        &UOp::index(0),
    );
    Graph::new("positions", [position, shown])
}

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

fn movement(choices: &mut Choices<'_>, x: &UOp) -> Option<UOp> {
    let shape = x.shape().as_const()?;
    let rank = shape.len();
    match choices.between(0, 6) {
        0 => Some(x.reshape(reshaped(choices, &shape))),
        1 => {
            let mut order: Vec<usize> = (0..rank).collect();
            for axis in 1..rank {
                order.swap(axis, choices.between(0, axis as i64) as usize);
            }
            Some(x.permute(&order))
        }
        2 => Some(x.expand(
            shape.iter().map(|dim| if *dim == 1 { choices.between(1, 4) } else { *dim }).collect::<Vec<i64>>(),
        )),
        3 => Some(x.pad(&bounds(rank, |_| (choices.between(0, 2), choices.between(0, 2))))),
        4 => Some(x.shrink(&bounds(rank, |axis| {
            let start = choices.between(0, shape[axis] - 1);
            (start, choices.between(start + 1, shape[axis]))
        }))),
        5 => Some(x.flip(&(0..rank).filter(|_| choices.once_in(2)).collect::<Vec<usize>>())),
        _ => as_strided(choices, x),
    }
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

fn bounds(rank: usize, mut each: impl FnMut(usize) -> (i64, i64)) -> Vec<(Dim, Dim)> {
    (0..rank).map(&mut each).map(|(low, high)| (low.into(), high.into())).collect()
}

/// Another shape of as many elements: factors taken from one end.
fn reshaped(choices: &mut Choices<'_>, shape: &[i64]) -> Vec<i64> {
    let mut left = shape.iter().product::<i64>();
    let mut to = Vec::new();
    while left > 1 && to.len() < 3 {
        let divisors: Vec<i64> = (1..=left).filter(|divisor| left % divisor == 0).collect();
        let divisor = *choices.one_of(&divisors);
        to.push(divisor);
        left /= divisor;
    }
    to.push(left);
    to
}

fn as_strided(choices: &mut Choices<'_>, x: &UOp) -> Option<UOp> {
    let len = x.shape().numel().as_const().filter(|len| *len > 0)?;
    let mut offset = choices.between(0, len - 1);
    let (mut shape, mut strides) = (Vec::new(), Vec::new());
    let (mut low, mut high) = (offset, offset);
    for _ in 0..choices.between(0, 2) {
        let stride = choices.between(-3, 3);
        let dim = choices.between(1, 4);
        let span = stride * (dim - 1);
        if low + span.min(0) >= 0 && high + span.max(0) < len {
            (low, high) = (low + span.min(0), high + span.max(0));
            shape.push(dim);
            strides.push(stride);
        }
    }
    offset = offset.clamp(0, len - 1);
    let arg = StridedArg { shape: Shape::from(shape), strides: Shape::from(strides), offset: Dim::Const(offset) };
    Some(UOp::new(Op::AsStrided, x.dtype(), vec![x.clone()], Arg::Strided(arg.into())))
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

/// The extreme along axes, or the number of its place along the last of them.
fn extreme(choices: &mut Choices<'_>, x: &UOp, axes: &[usize]) -> Option<UOp> {
    let axis = *axes.last()?;
    let mut line: Vec<Dim> = x.shape().iter().map(|_| Dim::Const(1)).collect();
    line[axis] = x.shape()[axis].clone();
    let places = UOp::iota(x.shape()[axis].clone()).cast(DType::I32).reshape(line).expand(x.shape().clone());
    let combiners = [Combiner::ArgMaxFirst, Combiner::ArgMaxLast, Combiner::ArgMinFirst, Combiner::ArgMinLast];
    let outcome = UOp::reduce_states(*choices.one_of(&combiners), &[x.clone(), places], axes);
    // Rounding may move a place, but no value by much.
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

/// Some elements of another value of the type, or numbers, put into x at places of which some are named twice and some do not exist.
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
    // Often one place for a whole row, as of an embedding.
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

/// A chain of movement ops over one param of element numbers.
pub fn movement_chain(choices: &mut Choices<'_>) -> Graph {
    let shape: Vec<i64> = (0..choices.between(1, 3)).map(|_| choices.between(1, 6)).collect();
    let len = shape.iter().product::<i64>() as u64;
    let mut node = UOp::param(0, DType::I32, len).reshape(shape);
    for _ in 0..choices.between(1, 8) {
        let new = movement(choices, &node);
        node = new.filter(|new| new.shape().numel().as_const().is_some_and(|len| len <= ELEMENTS_MAX)).unwrap_or(node);
    }
    Graph::new("chain", [node])
}

/// Inputs for a graph: for each parameter, small numbers made from the seed.
pub fn random_inputs(graph: &Graph, seed: u64) -> Vec<Value> {
    let inputs = graph.parameters.iter().zip(seed..);
    inputs.map(|(parameter, seed)| random_value(&parameter.node, seed)).collect()
}

/// A value for a param or variable: floats of a few digits within -4 and 4, integers of a small range.
pub fn random_value(node: &UOp, seed: u64) -> Value {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x1234_5678_9abc_def0;
    let mut next = || {
        // xorshift64*: Marsaglia's generator, good enough for test data.
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33
    };
    if let Arg::Variable(variable) = node.arg() {
        let span = (variable.max.saturating_sub(variable.min) as u64).saturating_add(1);
        return Value::index(variable.min + (next() % span.max(1)) as i64);
    }
    let dtype = node.dtype();
    let shape = node.shape().as_const().unwrap_or_default();
    let len = shape.iter().product::<i64>().max(0);
    let mut number = || match dtype {
        dtype if dtype.is_float() => (next() % 8192) as f64 / 1024.0 - 4.0,
        dtype if dtype.is_bool() => (next() % 2) as f64,
        dtype if dtype.is_unsigned() => (next() % 100) as f64,
        _ => (next() % 41) as f64 - 20.0,
    };
    let numbers: Vec<f64> = (0..len).map(|_| number()).collect();
    // As many numbers as the shape says were just made.
    Value::from_f64(dtype, shape, &numbers).unwrap_or_else(|| Value::index(0))
}
