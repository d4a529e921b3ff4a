//! Arguments of nodes as they are written: axes, shapes, numbers, states, views, and the bounds of variables.
//!
//! Which of them an op takes is told by what stands there and, where two would do, by the op. Tested with the rest of the text form (`tests.rs`).

use std::sync::Arc;

use super::ParseError;
use super::lex::{Cursor, Token};
use super::parse::{Operand, Scope, operand, parse_integer};
use crate::DType;
use crate::ir::{
    Arg, Axes, AxisKind, BufferArg, Combiner, Component, Dim, Function, MemorySpace, Op, ParamArg, RangeArg, ReduceOp,
    Shape, StridedArg, VariableArg,
};

/// The argument that stands here, if one does.
pub(super) fn argument(cursor: &mut Cursor, scope: &Scope, op: Op) -> Result<Option<Arg>, ParseError> {
    let word = match cursor.peek() {
        Token::Mark('[') => return dims_argument(cursor, scope, op).map(Some),
        Token::Mark('(') => return axes(cursor).map(|axes| Some(Arg::Axes(axes))),
        Token::Mark('#') => return numbered_argument(cursor, op, MemorySpace::Private).map(Some),
        Token::Text(text) => {
            let text = text.clone();
            return text_argument(cursor, op, text).map(Some);
        }
        Token::Word(word) => word.clone(),
        _ => return Ok(None),
    };
    let reduce_op =
        [ReduceOp::Add, ReduceOp::Mul, ReduceOp::Max, ReduceOp::Min].into_iter().find(|op| op.name() == word);
    let kind = AxisKind::ALL.into_iter().find(|kind| kind.name() == word);
    if reduce_op.is_some() || word == "replace" {
        cursor.take();
        if cursor.take_word("axis") {
            let axis = parse_integer(cursor, "an axis")?;
            return Ok(Some(match reduce_op {
                Some(reduce_op) if op == Op::Scan => Arg::Scan(reduce_op, axis),
                _ => Arg::Scatter(reduce_op, axis),
            }));
        }
        let Some(reduce_op) = reduce_op else {
            return Err(cursor.expected("the axis along which elements are replaced"));
        };
        let is_reduce = *cursor.peek() == Token::Mark('(');
        return Ok(Some(if is_reduce { Arg::Reduce(reduce_op, axes(cursor)?) } else { Arg::Combine(reduce_op) }));
    }
    let space = MemorySpace::ALL.into_iter().find(|space| op == Op::Scratch && space.name() == word);
    if let Some(space) = space {
        cursor.take();
        return numbered_argument(cursor, op, space).map(Some);
    }
    if let Some(kind) = kind {
        cursor.take();
        cursor.expect_mark('#')?;
        return Ok(Some(Arg::Range(RangeArg { id: parse_integer(cursor, "the number of a loop")?, kind })));
    }
    if let Some(found) = state_argument(cursor)? {
        return Ok(Some(found));
    }
    if cursor.take_word("through") {
        return view_argument(cursor, scope).map(Some);
    }
    if cursor.take_word("axis") {
        return Ok(Some(Arg::Axis(parse_integer(cursor, "an axis")?)));
    }
    Ok(None)
}

/// `argmax_first #1`, with axes of a reduction; `step argmax_first #1`; `logsumexp axis 1` of a scan.
fn state_argument(cursor: &mut Cursor) -> Result<Option<Arg>, ParseError> {
    let is_step = cursor.take_word("step");
    let combiner = match cursor.peek() {
        Token::Word(name) => Combiner::from_name(name),
        _ => None,
    };
    let Some(combiner) = combiner else {
        return if is_step { Err(cursor.expected("the name of a combiner")) } else { Ok(None) };
    };
    cursor.take();
    if !is_step && cursor.take_word("axis") {
        return Ok(Some(Arg::ScanState(combiner, parse_integer(cursor, "an axis")?)));
    }
    cursor.expect_mark('#')?;
    let location = cursor.location();
    let number: u8 = parse_integer(cursor, "the number of a component")?;
    if number as usize >= combiner.arity() {
        return Err(cursor.error_at(location, format!("{} has {} components", combiner.name(), combiner.arity())));
    }
    let component = Component { combiner, number };
    Ok(Some(match cursor.peek() {
        _ if is_step => Arg::Step(component),
        Token::Mark('(') => Arg::ReduceState(component, axes(cursor)?),
        _ => Arg::CombineState(component),
    }))
}

/// Movement ops with their arguments, one after the other.
fn view_argument(cursor: &mut Cursor, scope: &Scope) -> Result<Arg, ParseError> {
    let mut steps: Vec<(Op, Arg)> = Vec::new();
    loop {
        let op = match cursor.peek() {
            Token::Word(word) => Op::from_name(word).filter(|op| op.is_movement()),
            _ => None,
        };
        let Some(op) = op else { break };
        cursor.take();
        steps.push((
            op,
            match cursor.peek() {
                Token::Mark('[') => dims_argument(cursor, scope, op)?,
                _ => Arg::Axes(axes(cursor)?),
            },
        ));
    }
    if steps.is_empty() { Err(cursor.expected("a movement op")) } else { Ok(Arg::View(steps.into())) }
}

/// A text, and for a variable its bounds.
fn text_argument(cursor: &mut Cursor, op: Op, text: String) -> Result<Arg, ParseError> {
    if op == Op::Function {
        let function = Function::from_name(&text).ok_or_else(|| cursor.expected("the name of a known function"))?;
        cursor.take();
        return Ok(Arg::Function(function));
    }
    cursor.take();
    if op != Op::Variable {
        return Ok(Arg::Device(text.into()));
    }
    let (min, max) = bounds(cursor)?;
    Ok(Arg::Variable(Arc::new(VariableArg { name: text, min, max })))
}

fn axes(cursor: &mut Cursor) -> Result<Axes, ParseError> {
    cursor.expect_mark('(')?;
    let mut axes = Axes::new();
    while !cursor.take_mark(')') {
        if !axes.is_empty() {
            cursor.expect_mark(',')?;
        }
        axes.push(parse_integer(cursor, "an axis")?);
    }
    Ok(axes)
}

/// `#3`, `#3 [64]` or `#3 [64] "CPU"`; what stands before the `#` has been read.
fn numbered_argument(cursor: &mut Cursor, op: Op, space: MemorySpace) -> Result<Arg, ParseError> {
    cursor.expect_mark('#')?;
    let location = cursor.location();
    let number: i64 = match op {
        Op::Buffer => parse_integer::<u64>(cursor, "the number of a buffer")? as i64,
        _ => parse_integer(cursor, "a number")?,
    };
    if *cursor.peek() != Token::Mark('[') {
        return Ok(Arg::Number(number));
    }
    cursor.expect_mark('[')?;
    let len: u64 = parse_integer(cursor, "a count of elements")?;
    cursor.expect_mark(']')?;
    // Shapes count in i64.
    if i64::try_from(len).is_err() {
        return Err(cursor.error_at(location, format!("{len} elements are too many")));
    }
    if op == Op::Buffer {
        return match cursor.take() {
            Token::Text(device) => Ok(Arg::Buffer(BufferArg { id: number as u64, len, device: device.into() })),
            _ => {
                Err(cursor
                    .error_at(location, "after a buffer's number and length, expected its device in quotes".into()))
            }
        };
    }
    let small = u32::try_from(number);
    let small = small.map_err(|_| cursor.error_at(location, format!("{number} is not within 0..{}", u32::MAX)))?;
    Ok(if op == Op::Param { Arg::Param(ParamArg { slot: small, len }) } else { Arg::Scratch(small, len, space) })
}

/// `[2, n]`, `[1:0, 2:n]`, `[:]`, or `[2] strides [1] offset 0`.
fn dims_argument(cursor: &mut Cursor, scope: &Scope, op: Op) -> Result<Arg, ParseError> {
    let location = cursor.location();
    let (shape, ends) = dims(cursor, scope)?;
    if matches!(op, Op::Pad | Op::Shrink) {
        let Some(ends) = ends else {
            return Err(cursor.error_at(location, format!("{op} takes two numbers for each axis, as in `[1:0, 2:2]`")));
        };
        return Ok(Arg::Bounds(shape.into_iter().zip(ends).collect()));
    }
    if ends.is_some() {
        return Err(cursor.error_at(location, format!("{op} takes a shape, as in `[2, 3]`")));
    }
    let shape = Shape::from(shape);
    if !cursor.take_word("strides") {
        return Ok(Arg::Shape(shape));
    }
    let strides = Shape::from(dims(cursor, scope)?.0);
    if strides.len() != shape.len() {
        return Err(cursor.error_at(location, format!("{} strides are given for {shape}", strides.len())));
    }
    if !cursor.take_word("offset") {
        return Err(cursor.expected("`offset`"));
    }
    let offset = dim(cursor, scope)?;
    Ok(Arg::Strided(Arc::new(StridedArg { shape, strides, offset })))
}

/// The dims between brackets, and those after colons if there are any.
fn dims(cursor: &mut Cursor, scope: &Scope) -> Result<(Vec<Dim>, Option<Vec<Dim>>), ParseError> {
    cursor.expect_mark('[')?;
    if *cursor.peek() == Token::Mark(':') && *cursor.peek_second() == Token::Mark(']') {
        cursor.take();
        cursor.take();
        return Ok((Vec::new(), Some(Vec::new())));
    }
    let (mut starts, mut ends) = (Vec::new(), Vec::new());
    while !cursor.take_mark(']') {
        if !starts.is_empty() {
            cursor.expect_mark(',')?;
        }
        starts.push(dim(cursor, scope)?);
        if !ends.is_empty() && *cursor.peek() != Token::Mark(':') {
            return Err(cursor.expected("`:`"));
        }
        if ends.len() + 1 == starts.len() && cursor.take_mark(':') {
            ends.push(dim(cursor, scope)?);
        }
    }
    Ok((starts, (!ends.is_empty()).then_some(ends)))
}

fn dim(cursor: &mut Cursor, scope: &Scope) -> Result<Dim, ParseError> {
    if matches!(cursor.peek(), Token::Number(_)) {
        return Ok(Dim::Const(parse_integer(cursor, "a dimension")?));
    }
    let location = cursor.location();
    match operand(cursor, scope)? {
        Operand::Node(node) if node.dtype() == DType::INDEX && node.shape().is_empty() => Ok(Dim::from(node)),
        _ => Err(cursor.error_at(location, "a dimension is a number or a single value of type index".to_string())),
    }
}

/// `0..63`, both included.
pub(super) fn bounds(cursor: &mut Cursor) -> Result<(i64, i64), ParseError> {
    let location = cursor.location();
    let min = parse_integer(cursor, "the least value")?;
    if *cursor.peek() != Token::Dots {
        return Err(cursor.expected("`..`"));
    }
    cursor.take();
    let max = parse_integer(cursor, "the largest value")?;
    if min > max {
        return Err(cursor.error_at(location, format!("{min}..{max} holds no value: both ends are included")));
    }
    Ok((min, max))
}
