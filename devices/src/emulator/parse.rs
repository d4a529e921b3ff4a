//! PTX text as a module: its head, its variables, its one entry, and the statements in their order.
//!
//! Nothing is known here of what instructions mean: their names are kept in parts and their operands as they are written. What the emulator does not know
//! is refused by its line.
//!
//! Tested at the end of this file, and by every kernel that runs.

use super::lex::{Literal, Token, Wrong, tokens};
use super::scalar::Type;
use super::syntax::{Entry, Item, Module, Operand, Space, Statement, Variable};

/// Reads a text.
pub(super) fn parse(source: &str) -> Result<Module, Wrong> {
    let mut parser = Parser { tokens: tokens(source)?, at: 0 };
    parser.module()
}

struct Parser {
    tokens: Vec<(usize, Token)>,
    at: usize,
}

impl Parser {
    fn line(&self) -> usize {
        self.tokens.get(self.at).or(self.tokens.last()).map_or(1, |(line, _)| *line)
    }

    fn wrong<T>(&self, message: impl Into<String>) -> Result<T, Wrong> {
        Err(Wrong::new(self.line(), message))
    }

    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|(_, token)| token)
    }

    fn next(&mut self) -> Option<Token> {
        let token = self.peek().cloned();
        self.at += 1;
        token
    }

    fn accept(&mut self, mark: char) -> bool {
        let is_it = self.peek() == Some(&Token::Mark(mark));
        self.at += usize::from(is_it);
        is_it
    }

    fn expect(&mut self, mark: char) -> Result<(), Wrong> {
        if self.accept(mark) { Ok(()) } else { self.wrong(format!("expected `{mark}`")) }
    }

    fn accept_word(&mut self, word: &str) -> bool {
        let is_it = matches!(self.peek(), Some(Token::Word(found)) if found == word);
        self.at += usize::from(is_it);
        is_it
    }

    fn word(&mut self, what: &str) -> Result<String, Wrong> {
        match self.peek().cloned() {
            Some(Token::Word(word)) => {
                self.at += 1;
                Ok(word)
            }
            _ => self.wrong(format!("expected {what}")),
        }
    }

    fn integer(&mut self, what: &str) -> Result<u64, Wrong> {
        match self.peek().cloned() {
            Some(Token::Number(Literal::Integer(value))) => {
                self.at += 1;
                Ok(value)
            }
            _ => self.wrong(format!("expected {what}")),
        }
    }

    /// The type that a word such as `.u64` names.
    fn typed(&mut self) -> Result<Type, Wrong> {
        let line = self.line();
        let word = self.word("a type")?;
        let named = word.strip_prefix('.').and_then(Type::named);
        named.ok_or_else(|| Wrong::new(line, format!("`{word}` is no type")))
    }

    fn module(&mut self) -> Result<Module, Wrong> {
        let mut module = Module::default();
        let mut has_entry = false;
        while self.peek().is_some() {
            let line = self.line();
            match self.word("a directive")?.as_str() {
                ".version" => match self.next() {
                    Some(Token::Number(Literal::Double(bits))) => module.version = f64::from_bits(bits).to_string(),
                    _ => return Err(Wrong::new(line, "expected a version such as 7.0")),
                },
                ".target" => module.target = self.word("an architecture")?,
                ".address_size" if self.integer("64")? == 64 => {}
                ".visible" => {}
                ".extern" => {}
                ".shared" => module.variables.push(self.variable(Space::Shared)?),
                ".entry" if !has_entry => {
                    has_entry = true;
                    self.entry(&mut module)?;
                }
                other => return Err(Wrong::new(line, format!("`{other}` is not known here"))),
            }
        }
        if module.version.is_empty() || module.target.is_empty() || !has_entry {
            return self.wrong("a module has a version, a target and an entry");
        }
        Ok(module)
    }

    /// `.align N .b8 name[bytes];`, the space read already.
    fn variable(&mut self, space: Space) -> Result<Variable, Wrong> {
        let alignment = if self.accept_word(".align") { self.integer("an alignment")? } else { 1 };
        let element = self.typed()?;
        let name = self.word("a name")?;
        let mut bytes = Some(u64::from(element.bytes()));
        if self.accept('[') {
            bytes = None;
            if !self.accept(']') {
                bytes = self.integer("a length")?.checked_mul(u64::from(element.bytes()));
                self.expect(']')?;
            }
        }
        self.expect(';')?;
        if !alignment.is_power_of_two() {
            return self.wrong("an alignment is a power of two");
        }
        Ok(Variable { name, space, alignment: alignment.max(u64::from(element.bytes())), bytes })
    }

    fn entry(&mut self, module: &mut Module) -> Result<(), Wrong> {
        let mut entry = Entry { name: self.word("a name")?, ..Entry::default() };
        if self.accept('(') {
            while !self.accept(')') {
                entry.parameters.push(self.parameter()?);
                self.accept(',');
            }
        }
        while !self.accept('{') {
            match self.word("`{`")?.as_str() {
                ".reqntid" => {
                    let mut threads = [1; 3];
                    for (dim, count) in threads.iter_mut().enumerate() {
                        if dim == 0 || self.accept(',') {
                            *count = self.integer("a number of threads")?;
                        }
                    }
                    entry.threads = Some(threads);
                }
                ".maxntid" | ".minnctapersm" | ".maxnreg" => {
                    self.integer("a number")?;
                    while self.accept(',') {
                        self.integer("a number")?;
                    }
                }
                other => return self.wrong(format!("`{other}` is not known here")),
            }
        }
        while !self.accept('}') {
            self.item(module, &mut entry)?;
        }
        module.entry = entry;
        Ok(())
    }

    /// `.param .u64 .ptr .global .align 16 name`
    fn parameter(&mut self) -> Result<(String, Type), Wrong> {
        if !self.accept_word(".param") {
            return self.wrong("expected `.param`");
        }
        let kind = self.typed()?;
        if self.accept_word(".ptr") {
            self.accept_word(".global");
            if self.accept_word(".align") {
                self.integer("an alignment")?;
            }
        }
        Ok((self.word("a name")?, kind))
    }

    fn item(&mut self, module: &mut Module, entry: &mut Entry) -> Result<(), Wrong> {
        if self.accept_word(".reg") {
            let kind = self.typed()?;
            loop {
                let name = self.word("a register")?;
                let mut count = None;
                if self.accept('<') {
                    count = Some(self.integer("how many registers")?);
                    self.expect('>')?;
                }
                entry.registers.push((name, kind, count));
                if !self.accept(',') {
                    return self.expect(';');
                }
            }
        }
        for (word, space) in [(".shared", Space::Shared), (".local", Space::Local)] {
            if self.accept_word(word) {
                module.variables.push(self.variable(space)?);
                return Ok(());
            }
        }
        if let (Some(Token::Word(name)), Some((_, Token::Mark(':')))) =
            (self.peek().cloned(), self.tokens.get(self.at + 1))
        {
            self.at += 2;
            entry.items.push(Item::Label(name));
            return Ok(());
        }
        entry.items.push(Item::Statement(self.statement()?));
        Ok(())
    }

    fn statement(&mut self) -> Result<Statement, Wrong> {
        let mut guard = None;
        if self.accept('@') {
            let when = !self.accept('!');
            guard = Some((self.word("a predicate")?, when));
        }
        let line = self.line();
        let name = self.word("an instruction")?;
        let name = name.split('.').map(str::to_string).collect();
        let mut operands = Vec::new();
        if !self.accept(';') {
            operands.push(self.operand()?);
            while self.accept(',') {
                operands.push(self.operand()?);
            }
            self.expect(';')?;
        }
        Ok(Statement { line, guard, name, operands })
    }

    fn operand(&mut self) -> Result<Operand, Wrong> {
        if self.accept('{') {
            let mut elements = vec![self.operand()?];
            while self.accept(',') {
                elements.push(self.operand()?);
            }
            self.expect('}')?;
            return Ok(Operand::Vector(elements));
        }
        if self.accept('[') {
            let base = matches!(self.peek(), Some(Token::Word(_))).then(|| self.word("a base")).transpose()?;
            let mut offset = 0;
            if base.is_none() || self.peek() != Some(&Token::Mark(']')) {
                self.accept('+');
                offset = self.signed_integer()?;
            }
            self.expect(']')?;
            return Ok(Operand::Address(base, offset));
        }
        match self.peek() {
            Some(Token::Word(_)) => {
                let name = self.word("an operand")?;
                if self.accept('|') {
                    return Ok(Operand::Both(name, self.word("a register")?));
                }
                Ok(Operand::Name(name))
            }
            Some(Token::Number(literal @ (Literal::Single(_) | Literal::Double(_)))) => {
                let literal = *literal;
                self.at += 1;
                Ok(Operand::Constant(literal))
            }
            _ => Ok(Operand::Constant(Literal::Integer(self.signed_integer()? as u64))),
        }
    }

    fn signed_integer(&mut self) -> Result<i64, Wrong> {
        let is_negative = self.accept('-');
        let value = self.integer("an operand")? as i64;
        Ok(if is_negative { value.wrapping_neg() } else { value })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = "
.version 7.0
.target sm_80
.address_size 64
.extern .shared .align 64 .b8 dynamic[];
.visible .entry k(
  .param .u64 .ptr .global .align 16 p0,
  .param .s64 n0
)
.reqntid 64, 2, 1
{
  .reg .b32 %r<3>;
  .local .align 64 .b8 own[32];
loop0:
  @!%p1 ld.global.v2.f32 {%f1, %f2}, [%rd1+-8];
  shfl.sync.up.b32 %r1|%p1, %r2, 1, 0, -1;
  ret;
}
";

    #[test]
    fn a_module_is_read() {
        let module = parse(SMALL).unwrap();
        assert_eq!((module.version.as_str(), module.target.as_str()), ("7", "sm_80"));
        let spaces: Vec<_> = module.variables.iter().map(|variable| (variable.space, variable.bytes)).collect();
        assert_eq!(spaces, [(Space::Shared, None), (Space::Local, Some(32))]);
        let entry = &module.entry;
        assert_eq!((entry.name.as_str(), entry.threads, entry.parameters.len()), ("k", Some([64, 2, 1]), 2));
        let [Item::Label(label), Item::Statement(load), Item::Statement(shuffle), Item::Statement(_)] =
            entry.items.as_slice()
        else {
            panic!("{:?}", entry.items)
        };
        assert_eq!((label.as_str(), load.line, load.guard.clone()), ("loop0", 15, Some(("%p1".to_string(), false))));
        assert_eq!(load.name, ["ld", "global", "v2", "f32"]);
        assert_eq!(load.operands[1], Operand::Address(Some("%rd1".to_string()), -8));
        assert_eq!(shuffle.operands[0], Operand::Both("%r1".to_string(), "%p1".to_string()));
        assert_eq!(shuffle.operands[4], Operand::Constant(Literal::Integer(u64::MAX)));
    }

    #[test]
    fn what_is_wrong_is_told_by_its_line() {
        let wrong = |from: &str, to: &str| parse(&SMALL.replace(from, to)).unwrap_err();
        assert_eq!(wrong("ret;", "ret"), Wrong::new(18, "expected an operand"));
        assert_eq!(wrong(".reqntid", ".cluster"), Wrong::new(10, "`.cluster` is not known here"));
        assert_eq!(wrong(".b32 %r", ".c32 %r"), Wrong::new(12, "`.c32` is no type"));
        assert!(parse("").unwrap_err().message.starts_with("a module has"));
    }
}
