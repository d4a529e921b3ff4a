//! Text as nodes. One token of look-ahead decides; there is no recursion, so no text is too deep. What `UOp::try_new` says of a
//! node that cannot be becomes an error at that node's line.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::arguments::{argument, bounds};
use super::lex::{Cursor, Token};
use super::literal::parse_literal;
use super::{Graph, Parameter, ParseError, default_dtype, is_identifier, is_reserved, literal_dtype};
use crate::DType;
use crate::ir::{Arg, AxisKind, Op, ParamArg, RangeArg, Shape, Sources, UOp, VariableArg};

/// Nodes by name.
#[derive(Default)]
pub(crate) struct Scope {
    nodes: FxHashMap<String, UOp>,
    lines: FxHashMap<UOp, usize>,
    ranges: u32,
}

impl Scope {
    fn define(&mut self, name: String, node: UOp) {
        self.nodes.insert(name, node);
    }

    /// Takes the name of a node defined above.
    pub(crate) fn take_named(&self, cursor: &mut Cursor) -> Result<UOp, ParseError> {
        let node = match cursor.peek() {
            Token::Word(name) => self.nodes.get(name).cloned(),
            _ => None,
        };
        let node = node.ok_or_else(|| cursor.expected("the name of a node defined above"))?;
        cursor.take();
        Ok(node)
    }

    fn check_free(&self, cursor: &Cursor, name: &str) -> Result<(), ParseError> {
        let message = if is_reserved(name) {
            format!("`{name}` is a reserved word; call the node something else")
        } else if self.nodes.contains_key(name) {
            format!("`{name}` is defined already")
        } else {
            return Ok(());
        };
        Err(cursor.error_at(cursor.location(), message))
    }
}

/// The graph that `text` says: one `graph` block, with nothing but comments around it.
///
/// # Errors
/// With line and column of the first thing that is not as it should be, and what was expected.
pub fn parse(text: &str) -> Result<Graph, ParseError> {
    parse_with_lines(text, 1).map(|(graph, _)| graph)
}

/// As [`parse`], with the line on which each node of the body is first written, for a text that begins on line `first_line` of
/// its file.
///
/// # Errors
/// As [`parse`].
pub fn parse_with_lines(text: &str, first_line: usize) -> Result<(Graph, FxHashMap<UOp, usize>), ParseError> {
    let mut cursor = Cursor::new(text, first_line)?;
    let mut scope = Scope::default();
    cursor.skip_lines();
    if !cursor.take_word("graph") {
        return Err(cursor.expected("`graph`"));
    }
    let name = match cursor.peek() {
        Token::GraphName(name) if !name.is_empty() => name.clone(),
        _ => return Err(cursor.expected("the graph's name, as in `%main`")),
    };
    cursor.take();
    let parameters = header(&mut cursor, &mut scope)?;
    cursor.expect_mark('{')?;
    let roots = body(&mut cursor, &mut scope)?;
    cursor.skip_lines();
    match cursor.peek() {
        Token::End => Ok((Graph { name, parameters, roots }, scope.lines)),
        _ => Err(cursor.expected("the end of the text after the graph's `}`")),
    }
}

fn header(cursor: &mut Cursor, scope: &mut Scope) -> Result<Vec<Parameter>, ParseError> {
    let mut parameters = Vec::new();
    let mut slots = 0;
    cursor.expect_mark('(')?;
    while !cursor.take_mark(')') {
        if !parameters.is_empty() {
            cursor.expect_mark(',')?;
        }
        let name = new_name(cursor, scope)?;
        cursor.expect_mark(':')?;
        let dtype = parse_dtype(cursor)?;
        let node = if *cursor.peek() == Token::Mark('[') {
            tensor_parameter(cursor, dtype, &mut slots)?
        } else {
            variable_parameter(cursor, dtype, &name)?
        };
        scope.define(name.clone(), node.clone());
        parameters.push(Parameter { name, node });
    }
    Ok(parameters)
}

fn tensor_parameter(cursor: &mut Cursor, dtype: DType, slots: &mut u32) -> Result<UOp, ParseError> {
    let location = cursor.location();
    cursor.expect_mark('[')?;
    let mut shape: Vec<i64> = Vec::new();
    while !cursor.take_mark(']') {
        if !shape.is_empty() {
            cursor.expect_mark(',')?;
        }
        shape.push(parse_integer(cursor, "the length of an axis")?);
    }
    let len = shape.iter().try_fold(1i64, |total, dim| total.checked_mul(*dim).filter(|total| *total >= 0));
    let Some(len) = len.filter(|_| shape.iter().all(|dim| *dim >= 0)) else {
        return Err(cursor.error_at(location, format!("no tensor has the shape {shape:?}")));
    };
    let slot = if cursor.take_word("slot") { parse_integer(cursor, "a slot")? } else { *slots };
    *slots = slots.saturating_add(1);
    let arg = Arg::Param(ParamArg { slot, len: len as u64 });
    let param = make(cursor, location, Op::Param, dtype, Sources::new(), arg)?;
    if shape.len() == 1 {
        return Ok(param);
    }
    make(cursor, location, Op::Reshape, dtype, [param].into_iter().collect(), Arg::Shape(Shape::from(shape)))
}

fn variable_parameter(cursor: &mut Cursor, dtype: DType, name: &str) -> Result<UOp, ParseError> {
    let location = cursor.location();
    if !matches!(cursor.peek(), Token::Number(_)) {
        return Err(cursor.expected("a shape, as in `[2, 3]`, or the bounds of a variable, as in `0..63`"));
    }
    let (min, max) = bounds(cursor)?;
    let mut name = name.to_string();
    if cursor.take_word("named") {
        name = match cursor.take() {
            Token::Text(text) => text,
            _ => return Err(cursor.error_at(location, "after `named`, expected a name in quotes".to_string())),
        };
    }
    let arg = Arg::Variable(Arc::new(VariableArg { name, min, max }));
    make(cursor, location, Op::Variable, dtype, Sources::new(), arg)
}

fn body(cursor: &mut Cursor, scope: &mut Scope) -> Result<Vec<UOp>, ParseError> {
    loop {
        cursor.skip_lines();
        if !cursor.take_word("return") {
            if matches!(cursor.peek(), Token::Mark('}') | Token::End) {
                return Err(cursor.expected("`return` with what the graph gives"));
            }
            parse_statement(cursor, scope)?;
            continue;
        }
        let mut roots = Vec::new();
        while !matches!(cursor.peek(), Token::Line | Token::Mark('}') | Token::End) {
            if !roots.is_empty() {
                cursor.expect_mark(',')?;
            }
            let location = cursor.location();
            let root = operand(cursor, scope)?;
            roots.push(root.resolve(cursor, location, None)?);
        }
        cursor.skip_lines();
        cursor.expect_mark('}')?;
        return Ok(roots);
    }
}

/// One line of a body: makes its node and defines its name.
pub(crate) fn parse_statement(cursor: &mut Cursor, scope: &mut Scope) -> Result<UOp, ParseError> {
    let location = cursor.location();
    let name = new_name(cursor, scope)?;
    let written = if cursor.take_mark(':') { Some(parse_dtype(cursor)?) } else { None };
    cursor.expect_mark('=')?;
    let op = match cursor.peek() {
        Token::Word(word) => Op::from_name(word),
        _ => None,
    };
    let Some(op) = op else { return Err(cursor.expected("the name of an op")) };
    cursor.take();
    let node = match op {
        Op::Const => constant(cursor, written)?,
        _ => node(cursor, scope, location, op, written)?,
    };
    match cursor.peek() {
        Token::Line | Token::End | Token::Mark('}') => {}
        _ => return Err(cursor.expected("`,` or the end of the line")),
    }
    scope.define(name, node.clone());
    scope.lines.entry(node.clone()).or_insert(location.0);
    Ok(node)
}

fn constant(cursor: &mut Cursor, written: Option<DType>) -> Result<UOp, ParseError> {
    let location = cursor.location();
    let Some(dtype) = written else {
        return Err(cursor.error_at(location, "write the constant's type, as in `c: f32 = const 1.0`".to_string()));
    };
    match literal(cursor) {
        Some(text) => Operand::Literal(text, Some(dtype)).resolve(cursor, location, None),
        None => Err(cursor.expected("a constant")),
    }
}

fn node(
    cursor: &mut Cursor,
    scope: &mut Scope,
    location: (usize, usize),
    op: Op,
    written: Option<DType>,
) -> Result<UOp, ParseError> {
    let mut operands: Vec<(Operand, (usize, usize))> = Vec::new();
    let mut arg = None;
    while !matches!(cursor.peek(), Token::Line | Token::Mark('}') | Token::End) {
        if !operands.is_empty() {
            cursor.expect_mark(',')?;
        }
        let item_location = cursor.location();
        if let Some(found) = argument(cursor, scope, op)? {
            arg = Some(found);
            break;
        }
        operands.push((operand(cursor, scope)?, item_location));
    }
    let types: Vec<Option<DType>> = operands.iter().map(|(operand, _)| operand.dtype()).collect();
    let mut src = Sources::new();
    for (position, (operand, location)) in operands.into_iter().enumerate() {
        let source = operand.resolve(cursor, location, literal_dtype(op, position, &types))?;
        scope.lines.entry(source.clone()).or_insert(location.0);
        src.push(source);
    }
    let Some(dtype) = written.or_else(|| default_dtype(op, &src)) else {
        let message = format!("write the type of what {op} gives, as in `y: f32 = {op} ...`");
        return Err(cursor.error_at(location, message));
    };
    let arg = match (op, arg) {
        (Op::Range, None) => Arg::Range(RangeArg { id: scope.ranges, kind: AxisKind::Loop }),
        (Op::Write, None) => Arg::View([].into()),
        (_, arg) => arg.unwrap_or_default(),
    };
    scope.ranges = scope.ranges.saturating_add((op == Op::Range) as u32);
    make(cursor, location, op, dtype, src, arg)
}

fn make(
    cursor: &Cursor,
    location: (usize, usize),
    op: Op,
    dtype: DType,
    src: Sources,
    arg: Arg,
) -> Result<UOp, ParseError> {
    UOp::try_new(op, dtype, src, arg).map_err(|error| cursor.error_at(location, error.to_string()))
}

/// An operand as it is written: the type of a constant may be known only from the others.
pub(super) enum Operand {
    Node(UOp),
    Literal(String, Option<DType>),
}

impl Operand {
    fn dtype(&self) -> Option<DType> {
        match self {
            Operand::Node(node) => Some(node.dtype()),
            Operand::Literal(..) => None,
        }
    }

    fn resolve(self, cursor: &Cursor, location: (usize, usize), assumed: Option<DType>) -> Result<UOp, ParseError> {
        let (text, written) = match self {
            Operand::Node(node) => return Ok(node),
            Operand::Literal(text, written) => (text, written),
        };
        let is_bool = text == "true" || text == "false";
        let Some(dtype) = written.or(assumed).or(is_bool.then_some(DType::BOOL)) else {
            let message = format!("write the type of this constant, as in `{text}:f32`");
            return Err(cursor.error_at(location, message));
        };
        let value = parse_literal(&text, dtype).map_err(|message| cursor.error_at(location, message))?;
        make(cursor, location, Op::Const, dtype, Sources::new(), Arg::Scalar(value))
    }
}

fn literal(cursor: &mut Cursor) -> Option<String> {
    let text = match cursor.peek() {
        Token::Number(text) => text.clone(),
        Token::Word(word) if ["true", "false", "inf", "nan"].contains(&word.as_str()) => word.clone(),
        _ => return None,
    };
    cursor.take();
    Some(text)
}

pub(super) fn operand(cursor: &mut Cursor, scope: &Scope) -> Result<Operand, ParseError> {
    if let Some(text) = literal(cursor) {
        let written = if cursor.take_mark(':') { Some(parse_dtype(cursor)?) } else { None };
        return Ok(Operand::Literal(text, written));
    }
    match cursor.peek() {
        Token::Word(_) => scope.take_named(cursor).map(Operand::Node),
        _ => Err(cursor.expected("an operand")),
    }
}

/// A number that fits what is asked for.
pub(crate) fn parse_integer<N: std::str::FromStr>(cursor: &mut Cursor, what: &str) -> Result<N, ParseError> {
    let number = match cursor.peek() {
        Token::Number(text) => text.parse::<N>().ok(),
        _ => None,
    };
    match number {
        Some(number) => {
            cursor.take();
            Ok(number)
        }
        None => Err(cursor.expected(what)),
    }
}

/// A type.
pub(crate) fn parse_dtype(cursor: &mut Cursor) -> Result<DType, ParseError> {
    let dtype = match cursor.peek() {
        Token::Word(word) => DType::from_name(word),
        _ => None,
    };
    let dtype = dtype.ok_or_else(|| cursor.expected("a type, as in `f32`"))?;
    cursor.take();
    Ok(dtype)
}

fn new_name(cursor: &mut Cursor, scope: &Scope) -> Result<String, ParseError> {
    let name = match cursor.peek() {
        Token::Word(name) => name.clone(),
        _ => return Err(cursor.expected("a name")),
    };
    scope.check_free(cursor, &name)?;
    debug_assert!(is_identifier(&name), "the lexer's words are identifiers");
    cursor.take();
    Ok(name)
}
