//! Text as tokens, each with its location.

use super::ParseError;

/// One token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    /// A name or word.
    Word(String),
    /// `%name`.
    GraphName(String),
    /// Digits, perhaps with sign, fraction and exponent; `-inf` too.
    Number(String),
    /// A quoted text, unescaped.
    Text(String),
    /// One of `( ) [ ] { } , : = #`.
    Mark(char),
    /// `..`.
    Dots,
    /// The end of a line.
    Line,
    /// The end of the text.
    End,
}

impl Token {
    /// As it is named in errors.
    pub(crate) fn describe(&self) -> String {
        match self {
            Token::Word(text) | Token::Number(text) => format!("`{text}`"),
            Token::GraphName(name) => format!("`%{name}`"),
            Token::Text(text) => format!("the text {text:?}"),
            Token::Mark(mark) => format!("`{mark}`"),
            Token::Dots => "`..`".to_string(),
            Token::Line => "the end of the line".to_string(),
            Token::End => "the end of the text".to_string(),
        }
    }
}

/// A token and where it starts.
#[derive(Clone, Debug)]
struct Placed {
    token: Token,
    line: usize,
    column: usize,
}

/// Reads tokens one after the other.
pub(crate) struct Cursor {
    tokens: Vec<Placed>,
    at: usize,
}

impl Cursor {
    /// The tokens of `text`, whose first line has the number `first_line`.
    pub(crate) fn new(text: &str, first_line: usize) -> Result<Cursor, ParseError> {
        let mut lexer = Lexer { chars: text.chars().collect(), at: 0, line: first_line, column: 1, depth: 0 };
        let mut tokens = Vec::new();
        loop {
            let placed = lexer.next()?;
            let is_end = placed.token == Token::End;
            tokens.push(placed);
            if is_end {
                return Ok(Cursor { tokens, at: 0 });
            }
        }
    }

    /// The next token, not taken.
    pub(crate) fn peek(&self) -> &Token {
        &self.tokens[self.at].token
    }

    /// The token after the next.
    pub(crate) fn peek_second(&self) -> &Token {
        &self.tokens[(self.at + 1).min(self.tokens.len() - 1)].token
    }

    /// Takes the next token; the end of the text is never used up.
    pub(crate) fn take(&mut self) -> Token {
        let token = self.peek().clone();
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        token
    }

    /// Takes the next token if it is this mark.
    pub(crate) fn take_mark(&mut self, mark: char) -> bool {
        let found = *self.peek() == Token::Mark(mark);
        if found {
            self.take();
        }
        found
    }

    /// Takes the next token if it is this word.
    pub(crate) fn take_word(&mut self, word: &str) -> bool {
        let found = matches!(self.peek(), Token::Word(text) if text == word);
        if found {
            self.take();
        }
        found
    }

    /// Takes this mark, or says that it was expected.
    pub(crate) fn expect_mark(&mut self, mark: char) -> Result<(), ParseError> {
        if self.take_mark(mark) { Ok(()) } else { Err(self.expected(&format!("`{mark}`"))) }
    }

    /// Skips ends of lines.
    pub(crate) fn skip_lines(&mut self) {
        while *self.peek() == Token::Line {
            self.take();
        }
    }

    /// Where the next token starts: line and column.
    pub(crate) fn location(&self) -> (usize, usize) {
        (self.tokens[self.at].line, self.tokens[self.at].column)
    }

    /// An error at the next token: `what` was expected instead.
    pub(crate) fn expected(&self, what: &str) -> ParseError {
        self.error_at(self.location(), format!("expected {what}, found {}", self.peek().describe()))
    }

    /// An error at a location.
    pub(crate) fn error_at(&self, (line, column): (usize, usize), message: String) -> ParseError {
        ParseError { line, column, message }
    }
}

struct Lexer {
    chars: Vec<char>,
    at: usize,
    line: usize,
    column: usize,
    /// Open brackets, within which lines do not end.
    depth: usize,
}

impl Lexer {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn second(&self) -> Option<char> {
        self.chars.get(self.at + 1).copied()
    }

    fn bump(&mut self) {
        if self.peek() == Some('\n') {
            self.line += 1;
            self.column = 1;
        } else {
            self.column += 1;
        }
        self.at += 1;
    }

    fn next(&mut self) -> Result<Placed, ParseError> {
        while let Some(next) = self.peek() {
            match next {
                ';' => {
                    while self.peek().is_some_and(|next| next != '\n') {
                        self.bump();
                    }
                }
                '\n' if self.depth == 0 => break,
                next if next.is_whitespace() => self.bump(),
                _ => break,
            }
        }
        let (line, column) = (self.line, self.column);
        let token = self.token()?;
        Ok(Placed { token, line, column })
    }

    fn token(&mut self) -> Result<Token, ParseError> {
        let Some(first) = self.peek() else { return Ok(Token::End) };
        match first {
            '\n' => {
                self.bump();
                Ok(Token::Line)
            }
            '"' => self.text(),
            '%' => {
                self.bump();
                Ok(Token::GraphName(self.word()))
            }
            '.' if self.second() == Some('.') => {
                self.bump();
                self.bump();
                Ok(Token::Dots)
            }
            '(' | '[' | ')' | ']' | '{' | '}' | ',' | ':' | '=' | '#' => {
                match first {
                    '(' | '[' => self.depth += 1,
                    ')' | ']' => self.depth = self.depth.saturating_sub(1),
                    _ => {}
                }
                self.bump();
                Ok(Token::Mark(first))
            }
            '-' if self.second() == Some('i') => {
                self.bump();
                Ok(Token::Number(format!("-{}", self.word())))
            }
            first if first.is_ascii_digit() || first == '-' => Ok(Token::Number(self.number())),
            first if first.is_ascii_alphabetic() || first == '_' => Ok(Token::Word(self.word())),
            other => {
                let message = format!("the character {other:?} starts nothing");
                Err(ParseError { line: self.line, column: self.column, message })
            }
        }
    }

    fn word(&mut self) -> String {
        let mut word = String::new();
        while let Some(next) = self.peek().filter(|next| next.is_ascii_alphanumeric() || *next == '_') {
            word.push(next);
            self.bump();
        }
        word
    }

    fn number(&mut self) -> String {
        let mut number = String::new();
        while let Some(next) = self.peek() {
            let continues = match next {
                '.' => self.second() != Some('.') && !number.contains(['.', 'e']),
                '-' | '+' => number.is_empty() || number.ends_with('e'),
                'e' => number.ends_with(|last: char| last.is_ascii_digit() || last == '.') && !number.contains('e'),
                next => next.is_ascii_digit(),
            };
            if !continues {
                break;
            }
            number.push(next);
            self.bump();
        }
        number
    }

    fn text(&mut self) -> Result<Token, ParseError> {
        let start = (self.line, self.column);
        let fail = |message: &str| ParseError { line: start.0, column: start.1, message: message.to_string() };
        self.bump();
        let mut text = String::new();
        loop {
            match self.peek() {
                None | Some('\n') => return Err(fail("this text has no closing `\"` on its line")),
                Some('"') => {
                    self.bump();
                    return Ok(Token::Text(text));
                }
                Some('\\') => {
                    self.bump();
                    let escaped = self.peek();
                    match escaped {
                        Some('"' | '\\') => text.extend(escaped),
                        Some('n') => text.push('\n'),
                        _ => return Err(fail("after `\\` in a text, expected `\"`, `\\` or `n`")),
                    }
                    self.bump();
                }
                Some(next) => {
                    text.push(next);
                    self.bump();
                }
            }
        }
    }
}

/// `text` in quotes, as the lexer reads it.
pub(crate) fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}
