//! From a module to [`Code`]: names become slots, statements micro-instructions, labels positions in the list.
//!
//! Each statement says which registers it reads and writes, and in which types; a register of another size or kind is refused, as NVIDIA's assembler refuses
//! it. What no table of this folder knows is an unknown instruction.
//!
//! | file | statements |
//! |---|---|
//! | `compute` | arithmetic, comparisons, conversions, moves: a function of operands |
//! | `access` | loads, stores, atomic accesses, copies |
//! | `threads` | barriers, shuffles, votes, matrices |
//!
//! Tested with the instructions (`tests/values.rs`) and by what is refused (`tests/refused.rs`).

mod access;
mod compute;
mod threads;

use std::collections::HashMap;

use super::flow;
use super::lex::{Literal, Wrong};
use super::micro::{Code, FIRST_ADDRESS, GAP, Location, Micro, Slot, Special};
use super::scalar::{Class, Type, low};
use super::syntax::{Item, Module, Operand, Space, Statement};

/// A statement as micro-instructions, with what is known of its registers.
#[derive(Debug, Default)]
pub(super) struct Step {
    pub(super) line: usize,
    pub(super) guard: Option<(Slot, bool)>,
    pub(super) micros: Vec<Micro>,
    pub(super) reads: Vec<Slot>,
    pub(super) writes: Vec<Slot>,
    /// Where it may go on, other than behind it: the number of a statement.
    pub(super) target: Option<usize>,
    /// Whether it never goes on behind it, unless a guard does.
    pub(super) leaves: bool,
}

/// What a name stands for.
#[derive(Clone, Copy, Debug)]
enum Known {
    Register(Slot, Type),
    /// The address of a variable.
    Address(u64),
}

/// Decodes a module.
pub(super) fn decode(module: &Module, source: &str) -> Result<Code, Wrong> {
    let mut decoder = Decoder::new(module, source)?;
    let steps = decoder.steps(&module.entry.items)?;
    let unproven = flow::unproven(&steps, decoder.code.words.len());
    decoder.emit(steps, &unproven);
    Ok(decoder.code)
}

pub(super) struct Decoder<'m> {
    module: &'m Module,
    code: Code,
    known: HashMap<&'m str, Known>,
    constants: HashMap<u64, Slot>,
    specials: HashMap<Special, Slot>,
    /// Statement that stands behind each label.
    labels: HashMap<&'m str, usize>,
}

impl<'m> Decoder<'m> {
    fn new(module: &'m Module, source: &str) -> Result<Decoder<'m>, Wrong> {
        let code = Code {
            micros: Vec::new(),
            lines: Vec::new(),
            text: source.lines().map(|line| line.trim().to_string()).collect(),
            words: Vec::new(),
            names: Vec::new(),
            parameters: vec![None; module.entry.parameters.len()],
            specials: Vec::new(),
            conversions: Vec::new(),
            loads: Vec::new(),
            stores: Vec::new(),
            atomics: Vec::new(),
            copies: Vec::new(),
            together: Vec::new(),
            locations: locations(module),
            threads: module.entry.threads,
            accesses: Vec::new(),
            shared_granule: 16,
        };
        let (known, constants, specials, labels) = Default::default();
        let mut decoder = Decoder { module, code, known, constants, specials, labels };
        for Location { name, start, .. } in decoder.code.locations.clone() {
            let name = module.variables.iter().map(|variable| variable.name.as_str()).find(|known| *known == name);
            if let Some(name) = name {
                decoder.known.insert(name, Known::Address(start));
            }
        }
        let mut statements = 0;
        for item in &module.entry.items {
            match item {
                Item::Label(label) => {
                    if decoder.labels.insert(label, statements).is_some() {
                        return Err(Wrong::new(1, format!("the label `{label}` stands twice")));
                    }
                }
                Item::Statement(_) => statements += 1,
            }
        }
        Ok(decoder)
    }

    fn steps(&mut self, items: &'m [Item]) -> Result<Vec<Step>, Wrong> {
        let mut steps = Vec::new();
        for item in items {
            let Item::Statement(statement) = item else { continue };
            let step = self.step(statement).map_err(|message| Wrong::new(statement.line, message))?;
            steps.push(step);
        }
        steps.push(Step { line: self.code.text.len(), micros: vec![Micro::Exit], leaves: true, ..Step::default() });
        Ok(steps)
    }

    fn step(&mut self, statement: &'m Statement) -> Result<Step, String> {
        let mut step = Step { line: statement.line, ..Step::default() };
        let name: Vec<&str> = statement.name.iter().map(String::as_str).collect();
        let operands = statement.operands.as_slice();
        match (name.as_slice(), operands) {
            (["bra"] | ["bra", "uni"], [Operand::Name(label)]) => {
                let target = self.labels.get(label.as_str()).ok_or_else(|| format!("there is no label `{label}`"))?;
                step.target = Some(*target);
                step.leaves = true;
            }
            (["ret" | "exit"], []) => {
                step.micros.push(Micro::Exit);
                step.leaves = true;
            }
            _ => {
                let is_known = self.compute(&mut step, &name, operands)?
                    || self.access(&mut step, &name, operands)?
                    || self.threads(&mut step, &name, operands)?;
                if !is_known {
                    return Err(format!(
                        "the emulator does not know `{}` with these operands",
                        statement.name.join(".")
                    ));
                }
            }
        }
        if let Some((predicate, when)) = &statement.guard {
            let slot = self.register(predicate, Type::PREDICATE, false)?;
            step.guard = Some((slot, *when));
            step.reads.push(slot);
        }
        Ok(step)
    }

    /// A register by its name, in which this type must fit.
    fn register(&mut self, name: &'m str, wanted: Type, or_wider: bool) -> Result<Slot, String> {
        self.register_and_type(name, wanted, or_wider).map(|(slot, _)| slot)
    }

    fn register_and_type(&mut self, name: &'m str, wanted: Type, or_wider: bool) -> Result<(Slot, Type), String> {
        let (slot, kind) = match self.known.get(name) {
            Some(Known::Register(slot, kind)) => (*slot, *kind),
            Some(Known::Address(_)) => return Err(format!("`{name}` is no register")),
            None => {
                let kind = self.declared(name).ok_or_else(|| format!("`{name}` is not declared"))?;
                let slot = self.new_slot();
                self.code.names.push((slot, name.to_string()));
                self.known.insert(name, Known::Register(slot, kind));
                (slot, kind)
            }
        };
        if !wanted.takes(kind, or_wider) {
            return Err(format!("`{name}` is declared with {} bits of another kind or size", kind.width()));
        }
        Ok((slot, kind))
    }

    /// The type that a register is declared with.
    fn declared(&self, name: &str) -> Option<Type> {
        let is_it = |prefix: &str, count: Option<u64>| match count {
            None => prefix == name,
            Some(count) => {
                let number = name.strip_prefix(prefix).and_then(|digits| digits.parse::<u64>().ok());
                number.is_some_and(|number| number < count && name == format!("{prefix}{number}"))
            }
        };
        let registers = &self.module.entry.registers;
        registers.iter().find(|(prefix, _, count)| is_it(prefix, *count)).map(|(_, kind, _)| *kind)
    }

    fn new_slot(&mut self) -> Slot {
        self.code.words.push(0);
        self.code.words.len() as Slot - 1
    }

    fn constant(&mut self, bits: u64) -> Slot {
        if let Some(slot) = self.constants.get(&bits) {
            return *slot;
        }
        let slot = self.new_slot();
        self.code.words[slot as usize] = bits;
        self.constants.insert(bits, slot);
        slot
    }

    fn special(&mut self, name: &str) -> Option<Slot> {
        let dim = |letter: &str| ["x", "y", "z"].iter().position(|other| *other == letter).map(|dim| dim as u8);
        let special = match name.split_once('.') {
            Some(("%tid", letter)) => Special::Thread(dim(letter)?),
            Some(("%ntid", letter)) => Special::Threads(dim(letter)?),
            Some(("%ctaid", letter)) => Special::Block(dim(letter)?),
            Some(("%nctaid", letter)) => Special::Blocks(dim(letter)?),
            None if name == "%laneid" => Special::Lane,
            None if name == "%warpid" => Special::Warp,
            _ => return None,
        };
        if let Some(slot) = self.specials.get(&special) {
            return Some(*slot);
        }
        let slot = self.new_slot();
        self.specials.insert(special, slot);
        self.code.specials.push((special, slot));
        Some(slot)
    }

    /// An operand that is read in a type: a register or a constant.
    fn source(&mut self, step: &mut Step, operand: &'m Operand, wanted: Type, or_wider: bool) -> Result<Slot, String> {
        match operand {
            Operand::Name(name) => {
                if let Some(slot) = self.special(name) {
                    let is_right = wanted.bits == 32 && wanted.class != Class::Float;
                    return if is_right { Ok(slot) } else { Err(format!("`{name}` has 32 bits without a sign")) };
                }
                let slot = self.register(name, wanted, or_wider)?;
                step.reads.push(slot);
                Ok(slot)
            }
            Operand::Constant(literal) => Ok(self.constant(constant_bits(*literal, wanted)?)),
            other => Err(format!("{other:?} is no value")),
        }
    }

    /// A register that is written in a type.
    fn target(&mut self, step: &mut Step, operand: &'m Operand, wanted: Type, or_wider: bool) -> Result<Slot, String> {
        self.target_and_type(step, operand, wanted, or_wider).map(|(slot, _)| slot)
    }

    fn target_and_type(
        &mut self,
        step: &mut Step,
        operand: &'m Operand,
        wanted: Type,
        or_wider: bool,
    ) -> Result<(Slot, Type), String> {
        let Operand::Name(name) = operand else { return Err(format!("{operand:?} is no register")) };
        let found = self.register_and_type(name, wanted, or_wider)?;
        step.writes.push(found.0);
        Ok(found)
    }

    /// Statements in their order, with guards as jumps, and checks where they are needed.
    fn emit(&mut self, steps: Vec<Step>, unproven: &flow::Unproven) {
        let mut starts = Vec::with_capacity(steps.len());
        for (number, step) in steps.iter().enumerate() {
            starts.push(self.code.micros.len() as u32);
            let mut list = Vec::new();
            let guard = step.guard.map(|(p, _)| p);
            let checked: Vec<Slot> = unproven.reads[number].clone();
            list.extend(checked.iter().filter(|slot| Some(**slot) == guard).map(|&slot| Micro::Check { slot }));
            let skip_at = list.len();
            list.extend(checked.iter().filter(|slot| Some(**slot) != guard).map(|&slot| Micro::Check { slot }));
            list.extend(&step.micros);
            let marked = step.writes.iter().filter(|slot| unproven.slots.contains(slot));
            list.extend(marked.map(|&slot| Micro::Mark { slot }));
            match (step.guard, step.target) {
                (Some((p, when)), Some(target)) => list.push(Micro::JumpIf { p, when, to: target as u32 }),
                (None, Some(target)) => list.push(Micro::Jump { to: target as u32 }),
                (Some((p, when)), None) => {
                    let to = self.code.micros.len() + list.len() + 1;
                    list.insert(skip_at, Micro::Skip { p, when: !when, to: to as u32 });
                }
                (None, None) => {}
            }
            self.code.lines.extend(list.iter().map(|_| step.line as u32));
            self.code.micros.extend(list);
        }
        for micro in &mut self.code.micros {
            if let Micro::Jump { to } | Micro::JumpIf { to, .. } = micro {
                *to = starts[*to as usize];
            }
        }
    }
}

/// The bits of a constant in a type.
fn constant_bits(literal: Literal, wanted: Type) -> Result<u64, String> {
    let is_bits = matches!(wanted.class, Class::Bits);
    match (literal, wanted.bits) {
        (Literal::Integer(value), bits) if !wanted.is_float() => Ok(low(value, bits)),
        (Literal::Single(bits), 32) if wanted.is_float() || is_bits => Ok(u64::from(bits)),
        (Literal::Double(bits), 64) if wanted.is_float() || is_bits => Ok(bits),
        (Literal::Double(bits), 32) if wanted.is_float() => Ok(u64::from((f64::from_bits(bits) as f32).to_bits())),
        _ => Err("a constant of another kind".to_string()),
    }
}

/// The variables of each space one behind the other, with gaps.
fn locations(module: &Module) -> Vec<Location> {
    let mut ends = [FIRST_ADDRESS; 2];
    let location = |variable: &super::syntax::Variable| {
        let end = &mut ends[variable.space as usize];
        let start = end.next_multiple_of(variable.alignment);
        *end = (start + variable.bytes.unwrap_or(0)).next_multiple_of(GAP) + GAP;
        Location { name: variable.name.clone(), space: variable.space, start, bytes: variable.bytes }
    };
    // What the launch decides the length of comes last.
    let fixed = module.variables.iter().filter(|variable| variable.bytes.is_some());
    let dynamic = module.variables.iter().filter(|variable| variable.bytes.is_none());
    fixed.chain(dynamic).map(location).collect()
}

/// Bytes from the first address to the end of what lies in a space.
pub(super) fn extent(locations: &[Location], space: Space, dynamic: u64) -> u64 {
    let ends = locations.iter().filter(|location| location.space == space);
    ends.map(|location| location.start + location.bytes.unwrap_or(dynamic) - FIRST_ADDRESS).max().unwrap_or(0)
}
