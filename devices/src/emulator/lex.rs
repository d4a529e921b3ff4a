//! Words of PTX text, each with its line.
//!
//! A word is what stands between blanks and marks, its dots included (`ld.global.nc.v4.f32`, `%tid.x`), so an instruction is one word. A number keeps the form in which
//! it is exact. Comments are left out.
//!
//! Tested by what `parse` makes of it.

/// A piece of text.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    /// A name, a directive or an instruction.
    Word(String),
    /// A constant.
    Number(Literal),
    /// A mark: `,` `;` `:` `{` `}` `(` `)` `[` `]` `<` `>` `@` `!` `+` `-` `|`.
    Mark(char),
}

/// A constant as it is written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Literal {
    /// A whole number, as its 64 bits.
    Integer(u64),
    /// The bits of an `f32` (`0f3F800000`).
    Single(u32),
    /// The bits of an `f64` (`0d3FF0000000000000`), or a number with a point.
    Double(u64),
}

/// What is wrong with a text, and in which line, counted from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wrong {
    pub(super) line: usize,
    pub(super) message: String,
}

impl Wrong {
    pub(super) fn new(line: usize, message: impl Into<String>) -> Wrong {
        Wrong { line, message: message.into() }
    }
}

/// The tokens of a text with their lines.
pub(super) fn tokens(source: &str) -> Result<Vec<(usize, Token)>, Wrong> {
    let mut found = Vec::new();
    let mut is_comment = false;
    for (number, text) in source.lines().enumerate() {
        let line = number + 1;
        let mut rest = text;
        while !rest.is_empty() {
            if is_comment {
                match rest.split_once("*/") {
                    Some((_, after)) => (is_comment, rest) = (false, after),
                    None => break,
                }
                continue;
            }
            if rest.starts_with("//") {
                break;
            }
            if let Some(after) = rest.strip_prefix("/*") {
                (is_comment, rest) = (true, after);
                continue;
            }
            let Some(first) = rest.chars().next() else { break };
            let len = match first {
                _ if first.is_whitespace() => first.len_utf8(),
                '0'..='9' => {
                    let len =
                        rest.find(|next: char| !next.is_ascii_alphanumeric() && next != '.').unwrap_or(rest.len());
                    let literal = literal(&rest[..len]);
                    let literal =
                        literal.ok_or_else(|| Wrong::new(line, format!("`{}` is no number", &rest[..len])))?;
                    found.push((line, Token::Number(literal)));
                    len
                }
                _ if is_in_word(first) => {
                    let len = word_len(rest);
                    found.push((line, Token::Word(rest[..len].to_string())));
                    len
                }
                ',' | ';' | ':' | '{' | '}' | '(' | ')' | '[' | ']' | '<' | '>' | '@' | '!' | '+' | '-' | '|' => {
                    found.push((line, Token::Mark(first)));
                    1
                }
                other => return Err(Wrong::new(line, format!("`{other}` has no place in PTX"))),
            };
            rest = &rest[len..];
        }
    }
    Ok(found)
}

fn is_in_word(next: char) -> bool {
    next.is_ascii_alphanumeric() || matches!(next, '_' | '$' | '%' | '.')
}

/// Bytes of the word at the beginning: a `::` belongs to it (`shared::cta`).
fn word_len(text: &str) -> usize {
    let mut len = 0;
    loop {
        let rest = &text[len..];
        len += rest.find(|next: char| !is_in_word(next)).unwrap_or(rest.len());
        match text[len..].strip_prefix("::") {
            Some(after) if after.starts_with(is_in_word) => len += 2,
            _ => return len,
        }
    }
}

fn literal(text: &str) -> Option<Literal> {
    if let Some(bits) = text.strip_prefix("0f").or_else(|| text.strip_prefix("0F")) {
        return (bits.len() == 8).then(|| u32::from_str_radix(bits, 16).ok()).flatten().map(Literal::Single);
    }
    if let Some(bits) = text.strip_prefix("0d").or_else(|| text.strip_prefix("0D")) {
        return (bits.len() == 16).then(|| u64::from_str_radix(bits, 16).ok()).flatten().map(Literal::Double);
    }
    let digits = text.trim_end_matches('U');
    if let Some(digits) = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        return u64::from_str_radix(digits, 16).ok().map(Literal::Integer);
    }
    if text.contains('.') {
        return text.parse().ok().map(|value: f64| Literal::Double(value.to_bits()));
    }
    digits.parse().ok().map(Literal::Integer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<Token> {
        tokens(text).unwrap().into_iter().map(|(_, token)| token).collect()
    }

    #[test]
    fn words_numbers_and_marks() {
        let word = |text: &str| Token::Word(text.to_string());
        assert_eq!(
            of("ld.shared::cta.f32 %f1, [%rd2+8];// to the end")[..3],
            [word("ld.shared::cta.f32"), word("%f1"), Token::Mark(',')]
        );
        assert_eq!(
            of("0f3F800000 0x1F 12U 1.5"),
            [
                Token::Number(Literal::Single(0x3f80_0000)),
                Token::Number(Literal::Integer(31)),
                Token::Number(Literal::Integer(12)),
                Token::Number(Literal::Double(1.5f64.to_bits())),
            ]
        );
        assert_eq!(of("loop1: /* over\nlines */ ret")[..2], [word("loop1"), Token::Mark(':')]);
        assert_eq!(tokens("\n a ?").unwrap_err(), Wrong::new(2, "`?` has no place in PTX"));
        assert_eq!(tokens("0f12").unwrap_err(), Wrong::new(1, "`0f12` is no number"));
    }
}
