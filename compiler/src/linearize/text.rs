//! The text form of a linear list: the lines of `ir::text` in the order of the list, constants on lines of their own.
//!
//! ```text
//! linear %e_16(f32[16] write, f32[16] read, n) grid 1 cost 16 128 128 {
//!   p0: f32 = param #0 [16]
//!   v0: i64 = const 16
//!   r0: i64 = range v0, loop #0
//!     ...
//!   end r0
//! }
//! ```
//!
//! The header lists parameters in calling order, then the names of variables; `cost` is operations, unique bytes, accessed bytes.
//! What stands in a loop is indented; the parser does not mind. Always: `parse(print(l))` is the same list, and printing what was parsed gives the same text.

use std::fmt::Write;

use rustc_hash::FxHashSet;

use super::Linear;
use crate::ir::text::{
    Cursor, Names, ParseError, Scope, Token, parse_dtype, parse_integer, parse_statement, quoted, write_line,
};
use crate::ir::{Op, UOp};
use crate::program::{Access, Estimate, Parameter};

const ACCESSES: [(Access, &str); 3] =
    [(Access::Read, "read"), (Access::Write, "write"), (Access::ReadWrite, "readwrite")];

/// The text of a list; it ends in a line break.
pub fn print(linear: &Linear) -> String {
    let mut text = format!("linear %{}(", linear.name);
    let parameters = linear.parameters.iter().map(|parameter| {
        let access = ACCESSES.iter().find(|(access, _)| *access == parameter.access).map_or("", |(_, name)| name);
        format!("{}[{}] {access}", parameter.dtype, parameter.len)
    });
    let entries: Vec<String> = parameters.chain(linear.variables.iter().map(|name| quoted(name))).collect();
    let estimate = &linear.estimate;
    let _ = writeln!(
        text,
        "{}) grid {} cost {:?} {:?} {:?} {{",
        entries.join(", "),
        linear.grid,
        estimate.operations,
        estimate.bytes_unique,
        estimate.bytes_accessed
    );
    let mut names = Names::default();
    names.constants_have_lines = true;
    let mut open_loops = 0_usize;
    for node in &linear.ops {
        if node.op() == Op::EndRange {
            open_loops = open_loops.saturating_sub(1);
        }
        text.push_str(&"  ".repeat(1 + open_loops));
        if node.op() == Op::Range {
            open_loops += 1;
        }
        match names.get(node) {
            Some(name) => {
                let _ = write!(text, "repeat {name}");
            }
            None => {
                names.assign_default(node);
                write_line(&mut text, node, &names);
            }
        }
        text.push('\n');
    }
    text.push_str("}\n");
    text
}

/// The list that `text` says.
///
/// # Errors
/// With line and column of the first thing that is not as it should be, and what was expected.
pub fn parse(text: &str) -> Result<Linear, ParseError> {
    parse_with_lines(text, 1).map(|(linear, _)| linear)
}

/// As [`parse`], with the line of each micro-op, for a text that begins on line `first_line` of its file.
///
/// # Errors
/// As [`parse`].
pub fn parse_with_lines(text: &str, first_line: usize) -> Result<(Linear, Vec<usize>), ParseError> {
    let mut cursor = Cursor::new(text, first_line)?;
    cursor.skip_lines();
    if !cursor.take_word("linear") {
        return Err(cursor.expected("`linear`"));
    }
    let name = match cursor.take() {
        Token::GraphName(name) => name,
        _ => return Err(cursor.expected("the kernel's name, as in `%e_16`")),
    };
    let (parameters, variables) = header(&mut cursor)?;
    let mut grid = 1;
    let mut estimate = Estimate::default();
    if cursor.take_word("grid") {
        grid = parse_integer(&mut cursor, "the length of the parallel loop")?;
    }
    if cursor.take_word("cost") {
        let mut number = || -> Result<f64, ParseError> { parse_integer(&mut cursor, "a number") };
        estimate = Estimate { operations: number()?, bytes_unique: number()?, bytes_accessed: number()? };
    }
    cursor.expect_mark('{')?;
    let mut scope = Scope::default();
    let (mut ops, mut lines) = (Vec::new(), Vec::new());
    let mut listed: FxHashSet<UOp> = FxHashSet::default();
    loop {
        cursor.skip_lines();
        if cursor.take_mark('}') {
            break;
        }
        let line = cursor.location().0;
        let is_repeat = matches!(cursor.peek_second(), Token::Word(_)) && cursor.take_word("repeat");
        let node = if is_repeat { scope.take_named(&mut cursor)? } else { parse_statement(&mut cursor, &mut scope)? };
        listed.insert(node.clone());
        ops.push(node);
        lines.push(line);
    }
    cursor.skip_lines();
    if *cursor.peek() != Token::End {
        return Err(cursor.expected("the end of the text after the list's `}`"));
    }
    Ok((Linear { name: name.into(), parameters, variables, grid, ops, estimate }, lines))
}

fn header(cursor: &mut Cursor) -> Result<(Vec<Parameter>, Vec<String>), ParseError> {
    let (mut parameters, mut variables) = (Vec::new(), Vec::new());
    cursor.expect_mark('(')?;
    while !cursor.take_mark(')') {
        if !parameters.is_empty() || !variables.is_empty() {
            cursor.expect_mark(',')?;
        }
        if let Token::Text(name) = cursor.peek() {
            variables.push(name.clone());
            cursor.take();
            continue;
        }
        let dtype = parse_dtype(cursor)?;
        cursor.expect_mark('[')?;
        let len = parse_integer(cursor, "a count of elements")?;
        cursor.expect_mark(']')?;
        let access = ACCESSES.iter().find(|(_, name)| cursor.take_word(name));
        let Some((access, _)) = access else { return Err(cursor.expected("`read`, `write` or `readwrite`")) };
        parameters.push(Parameter { dtype, len, access: *access });
    }
    Ok((parameters, variables))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;
    use crate::ir::{Arg, Op, ReduceOp};
    use crate::pipeline::{LowerOptions, lower_kernel};
    use crate::target::Target;
    use crate::watch::Silent;

    #[test]
    fn lists_round_trip() {
        let x = UOp::param(1, DType::F32, 64 * 33).reshape([64, 33]);
        let sum = (x.exp2() * 2 + 1).reduce(ReduceOp::Add, &[1]);
        let store = UOp::new(Op::Store, DType::VOID, vec![UOp::param(0, DType::F32, 64), sum], Arg::None);
        let ast = UOp::sink([store]);
        for no_opt in [false, true] {
            let linear =
                lower_kernel(&ast, &Target::test_avx512(), &LowerOptions::by_hand_unless(no_opt), &mut Silent).unwrap();
            let text = print(&linear);
            let again = parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
            assert_eq!(again.ops, linear.ops, "{text}");
            assert_eq!(print(&again), text);
            assert_eq!(
                (again.parameters, again.estimate, again.grid),
                (linear.parameters, linear.estimate, linear.grid)
            );
        }
    }

    #[test]
    fn text_that_is_no_list_is_an_error_with_its_position() {
        let error = |text: &str| parse(text).unwrap_err().to_string();
        assert_eq!(error("graph %g"), "line 1, column 1: expected `linear`, found `graph`");
        assert_eq!(
            error("linear %k(f32[1] gone) {}"),
            "line 1, column 18: expected `read`, `write` or `readwrite`, found `gone`"
        );
        assert_eq!(
            error("linear %k() {\n v0 = add x"),
            "line 2, column 11: expected the name of a node defined above, found `x`"
        );
    }
}
