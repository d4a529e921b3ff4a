//! Python's pickles, as far as state dictionaries need them: a list of what is built, and nothing that runs.
//!
//! A pickle is a program for a stack machine. Of its instructions those are known that make numbers, texts, tuples, lists and dictionaries, and those
//! that call something: a call becomes a node that names what would have been called, and it is for the reader to say which names it knows
//! (`torch`). So nothing in a file is imported or run. Nodes stand in one list and name each other by number, so that shared and
//! even circular ones cost no more than they are in the file.
//!
//! Always: memory is in proportion to the pickle's bytes. An instruction that is not known is an error with its offset.

use rustc_hash::FxHashMap;

/// A node's number.
pub(crate) type Id = usize;

/// What a pickle builds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Node {
    None,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(String),
    Bytes(Vec<u8>),
    Tuple(Vec<Id>),
    List(Vec<Id>),
    /// Pairs, in their order. Sets are dictionaries without values.
    Dict(Vec<(Id, Id)>),
    /// A class or function, by its module and name.
    Global(String),
    /// What calling something with a tuple would give.
    Call(Id, Id),
    /// What a file keeps elsewhere.
    Persistent(Id),
}

/// What was built.
#[derive(Clone, Debug)]
pub(crate) struct Pickle {
    pub(crate) nodes: Vec<Node>,
    pub(crate) root: Id,
}

/// Something wrong, and where.
pub(crate) type Wrong = (u64, String);

/// On the stack: a node, or where a tuple begins.
#[derive(Clone, Copy)]
enum Item {
    Node(Id),
    Mark,
}

struct Machine<'b> {
    bytes: &'b [u8],
    at: usize,
    nodes: Vec<Node>,
    stack: Vec<Item>,
    memo: FxHashMap<u64, Id>,
}

/// What a pickle builds.
pub(crate) fn parse(bytes: &[u8]) -> Result<Pickle, Wrong> {
    let mut machine = Machine { bytes, at: 0, nodes: Vec::new(), stack: Vec::new(), memo: FxHashMap::default() };
    loop {
        let at = machine.at as u64;
        match machine.step() {
            Ok(None) => {}
            Ok(Some(root)) => return Ok(Pickle { nodes: machine.nodes, root }),
            Err(why) => return Err((at, why)),
        }
    }
}

impl Machine<'_> {
    fn take(&mut self, len: usize) -> Result<&[u8], String> {
        let left = self.bytes.len() - self.at;
        if len > left {
            return Err(format!("{len} bytes should follow in the pickle, and {left} do"));
        }
        self.at += len;
        Ok(&self.bytes[self.at - len..self.at])
    }

    /// A number of so many bytes, without a sign.
    fn number(&mut self, bytes: usize) -> Result<u64, String> {
        let taken = self.take(bytes)?;
        Ok(taken.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }

    fn sized(&mut self, bytes_of_len: usize) -> Result<&[u8], String> {
        let len = self.number(bytes_of_len)?;
        self.take(usize::try_from(len).unwrap_or(usize::MAX))
    }

    fn text(&mut self, bytes_of_len: usize) -> Result<String, String> {
        let bytes = self.sized(bytes_of_len)?.to_vec();
        String::from_utf8(bytes).map_err(|_| "a text should be UTF-8".to_string())
    }

    fn line(&mut self) -> Result<String, String> {
        let rest = &self.bytes[self.at..];
        let len = rest.iter().position(|&byte| byte == b'\n').ok_or("a line should end")?;
        let line = String::from_utf8(rest[..len].to_vec()).map_err(|_| "a line should be text in UTF-8".to_string());
        self.at += len + 1;
        line
    }

    fn push(&mut self, node: Node) {
        self.nodes.push(node);
        self.stack.push(Item::Node(self.nodes.len() - 1));
    }

    fn pop(&mut self) -> Result<Id, String> {
        match self.stack.pop() {
            Some(Item::Node(id)) => Ok(id),
            Some(Item::Mark) | None => Err("the stack of the pickle is empty here".to_string()),
        }
    }

    fn top(&self) -> Result<Id, String> {
        match self.stack.last() {
            Some(Item::Node(id)) => Ok(*id),
            Some(Item::Mark) | None => Err("the stack of the pickle is empty here".to_string()),
        }
    }

    /// What is on the stack down to the last mark.
    fn marked(&mut self) -> Result<Vec<Id>, String> {
        let mark = self.stack.iter().rposition(|item| matches!(item, Item::Mark)).ok_or("there is no mark here")?;
        let items = self.stack.drain(mark..).filter_map(|item| match item {
            Item::Node(id) => Some(id),
            Item::Mark => None,
        });
        Ok(items.collect())
    }

    fn tuple(&mut self, len: usize) -> Result<(), String> {
        let mut items = (0..len).map(|_| self.pop()).collect::<Result<Vec<Id>, String>>()?;
        items.reverse();
        self.push(Node::Tuple(items));
        Ok(())
    }

    fn append(&mut self, items: Vec<Id>) -> Result<(), String> {
        let list = self.top()?;
        match &mut self.nodes[list] {
            Node::List(list) => list.extend(items),
            // What a call makes may be a list; what it is filled with is not looked at.
            Node::Call(..) => {}
            _ => return Err("only lists are appended to".to_string()),
        }
        Ok(())
    }

    fn set(&mut self, items: &[Id]) -> Result<(), String> {
        if !items.len().is_multiple_of(2) {
            return Err("a dictionary takes pairs".to_string());
        }
        let pairs = items.chunks_exact(2).map(|pair| (pair[0], pair[1]));
        let dict = self.top()?;
        // `collections.OrderedDict()` is a call, which is filled as a dictionary is.
        let is_ordered = match &self.nodes[dict] {
            Node::Call(function, _) => matches!(&self.nodes[*function], Node::Global(name) if name == ORDERED),
            _ => false,
        };
        if is_ordered {
            self.nodes[dict] = Node::Dict(Vec::new());
        }
        match &mut self.nodes[dict] {
            Node::Dict(dict) => dict.extend(pairs),
            Node::Call(..) => {}
            _ => return Err("only dictionaries are set entries of".to_string()),
        }
        Ok(())
    }

    fn remember(&mut self, number: u64) -> Result<(), String> {
        let id = self.top()?;
        self.memo.insert(number, id);
        Ok(())
    }

    fn recall(&mut self, number: u64) -> Result<(), String> {
        let id = *self.memo.get(&number).ok_or_else(|| format!("nothing was remembered as {number}"))?;
        self.stack.push(Item::Node(id));
        Ok(())
    }

    /// One instruction; what was built, if it was the last.
    // tidy: table
    fn step(&mut self) -> Result<Option<Id>, String> {
        match self.number(1)? as u8 {
            0x80 => {
                let protocol = self.number(1)?;
                if !(2..=5).contains(&protocol) {
                    return Err(format!("pickles of protocol 2 to 5 are read, not {protocol}"));
                }
            }
            0x95 => _ = self.take(8)?, // a frame: says how much follows, which is not needed
            b'.' => return self.pop().map(Some),
            b'(' => self.stack.push(Item::Mark),
            b'0' => _ = self.stack.pop(),
            b'1' => _ = self.marked()?,
            b'2' => {
                let id = self.top()?;
                self.stack.push(Item::Node(id));
            }
            b'N' => self.push(Node::None),
            0x88 => self.push(Node::Bool(true)),
            0x89 => self.push(Node::Bool(false)),
            b'K' => {
                let value = self.number(1)?;
                self.push(Node::Int(value.into()));
            }
            b'M' => {
                let value = self.number(2)?;
                self.push(Node::Int(value.into()));
            }
            b'J' => {
                let value = self.number(4)? as u32 as i32;
                self.push(Node::Int(value.into()));
            }
            0x8a => {
                let value = long(self.sized(1)?)?;
                self.push(Node::Int(value));
            }
            b'G' => {
                let bits = self.number(8)?.swap_bytes();
                self.push(Node::Float(f64::from_bits(bits)));
            }
            b'X' => self.text(4).map(|text| self.push(Node::Text(text)))?,
            0x8c => self.text(1).map(|text| self.push(Node::Text(text)))?,
            0x8d => self.text(8).map(|text| self.push(Node::Text(text)))?,
            b'C' => self.sized(1).map(<[u8]>::to_vec).map(|bytes| self.push(Node::Bytes(bytes)))?,
            b'B' => self.sized(4).map(<[u8]>::to_vec).map(|bytes| self.push(Node::Bytes(bytes)))?,
            0x8e => self.sized(8).map(<[u8]>::to_vec).map(|bytes| self.push(Node::Bytes(bytes)))?,
            b')' => self.push(Node::Tuple(Vec::new())),
            b']' => self.push(Node::List(Vec::new())),
            b'}' | 0x8f => self.push(Node::Dict(Vec::new())),
            0x85 => self.tuple(1)?,
            0x86 => self.tuple(2)?,
            0x87 => self.tuple(3)?,
            b't' => {
                let items = self.marked()?;
                self.push(Node::Tuple(items));
            }
            0x91 => {
                let items = self.marked()?;
                self.push(Node::List(items));
            }
            b'a' => {
                let item = self.pop()?;
                self.append(vec![item])?;
            }
            b'e' => {
                let items = self.marked()?;
                self.append(items)?;
            }
            0x90 => {
                let items = self.marked()?;
                let pairs: Vec<Id> = items.into_iter().flat_map(|item| [item, item]).collect();
                self.set(&pairs)?;
            }
            b's' => {
                let (value, key) = (self.pop()?, self.pop()?);
                self.set(&[key, value])?;
            }
            b'u' => {
                let items = self.marked()?;
                self.set(&items)?;
            }
            b'q' => self.number(1).and_then(|number| self.remember(number))?,
            b'r' => self.number(4).and_then(|number| self.remember(number))?,
            0x94 => {
                let number = self.memo.len() as u64;
                self.remember(number)?;
            }
            b'h' => self.number(1).and_then(|number| self.recall(number))?,
            b'j' => self.number(4).and_then(|number| self.recall(number))?,
            b'c' => {
                let (module, name) = (self.line()?, self.line()?);
                self.push(Node::Global(format!("{module}.{name}")));
            }
            0x93 => {
                let (name, module) = (self.pop()?, self.pop()?);
                let global = match (&self.nodes[module], &self.nodes[name]) {
                    (Node::Text(module), Node::Text(name)) => format!("{module}.{name}"),
                    _ => return Err("a global should have a module and a name".to_string()),
                };
                self.push(Node::Global(global));
            }
            b'Q' => {
                let id = self.pop()?;
                self.push(Node::Persistent(id));
            }
            b'R' | 0x81 => {
                let (arguments, function) = (self.pop()?, self.pop()?);
                self.push(Node::Call(function, arguments));
            }
            // What an object's attributes would be set to: no tensor has any that count.
            b'b' => _ = self.pop()?,
            other => return Err(format!("the instruction {other:#04x} is none that weights need, and is not run")),
        }
        Ok(None)
    }
}

/// Python's dictionary that keeps its order, as all do by now.
pub(crate) const ORDERED: &str = "collections.OrderedDict";

/// A whole number of any width, which `i128` holds.
fn long(bytes: &[u8]) -> Result<i128, String> {
    if bytes.len() > 16 {
        return Err(format!("a number of {} bytes is more than any length or offset is", bytes.len()));
    }
    let is_negative = bytes.last().is_some_and(|byte| byte & 0x80 != 0);
    let start: i128 = if is_negative { -1 } else { 0 };
    Ok(bytes.iter().rev().fold(start, |number, &byte| number << 8 | i128::from(byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_build_what_python_says_they_do() {
        // pickle.dumps({'a': [1, 300, -5, 2**40, True, None], 'b': (1.5, 'x')}, 2)
        let bytes = b"\x80\x02}q\x00(X\x01\x00\x00\x00aq\x01]q\x02(K\x01M,\x01J\xfb\xff\xff\xff\x8a\x06\x00\x00\x00\x00\x00\x01\x88NeX\x01\x00\x00\x00bq\x03G?\xf8\x00\x00\x00\x00\x00\x00X\x01\x00\x00\x00xq\x04\x86q\x05u.";
        let pickle = parse(bytes).unwrap();
        let Node::Dict(pairs) = &pickle.nodes[pickle.root] else { panic!("no dictionary") };
        let Node::List(items) = &pickle.nodes[pairs[0].1] else { panic!("no list") };
        let items: Vec<&Node> = items.iter().map(|&id| &pickle.nodes[id]).collect();
        let int = Node::Int;
        assert_eq!(items, [&int(1), &int(300), &int(-5), &int(1 << 40), &Node::Bool(true), &Node::None]);
        let Node::Tuple(pair) = &pickle.nodes[pairs[1].1] else { panic!("no tuple") };
        assert_eq!((&pickle.nodes[pair[0]], &pickle.nodes[pair[1]]), (&Node::Float(1.5), &Node::Text("x".to_string())));
    }

    #[test]
    fn calls_are_named_and_not_made() {
        // cos\nsystem\n(X\x04\x00\x00\x00true\x85R. : os.system("true")
        let pickle = parse(b"\x80\x02cos\nsystem\nX\x04\x00\x00\x00true\x85R.").unwrap();
        let Node::Call(function, _) = &pickle.nodes[pickle.root] else { panic!("no call") };
        assert_eq!(pickle.nodes[*function], Node::Global("os.system".to_string()));
    }

    #[test]
    fn damaged_pickles_are_errors_with_their_offset() {
        assert_eq!(parse(b"").unwrap_err(), (0, "1 bytes should follow in the pickle, and 0 do".to_string()));
        assert_eq!(parse(b"\x80\x02.").unwrap_err().0, 2);
        assert!(parse(b"X\xff\xff\xff\xffa.").unwrap_err().1.starts_with("4294967295 bytes should follow"));
        assert!(parse(b"i").unwrap_err().1.contains("is not run"));
        assert!(parse(b"h\x05.").unwrap_err().1.contains("nothing was remembered as 5"));
        // A list that holds itself is built and is no endless one.
        assert!(parse(b"]q\x00h\x00a.").is_ok());
    }
}
