//! Statements that access memory.

use super::super::float::{of_single, single};
use super::super::micro::{Access, Atomic, Copy, Memory, Micro, Slot};
use super::super::scalar::{Class, Type, low, signed};
use super::super::syntax::Operand;
use super::{Decoder, Known, Step};

/// The most bytes that one access moves.
const ACCESS_BYTES_MAX: u32 = 16;

/// What the name of a load or store says.
struct Form {
    /// None of parameters.
    memory: Option<Memory>,
    lanes: usize,
    kind: Type,
}

/// Reads the words between `ld` or `st` and the operands. How long what is loaded may stay in which cache changes no value.
fn form(words: &[&str]) -> Option<Form> {
    let (last, words) = words.split_last()?;
    let kind = Type::named(last).filter(|kind| kind.lanes == 1 && kind.bits >= 8)?;
    let mut form = Form { memory: None, lanes: 1, kind };
    let mut is_param = false;
    for word in words {
        match *word {
            "global" => form.memory = Some(Memory::Global),
            "shared" | "shared::cta" => form.memory = Some(Memory::Shared),
            "local" => form.memory = Some(Memory::Local),
            "param" => is_param = true,
            "nc" if form.memory == Some(Memory::Global) => form.memory = Some(Memory::GlobalReadOnly),
            "v2" => form.lanes = 2,
            "v4" => form.lanes = 4,
            "weak" | "volatile" | "relaxed" | "cta" | "gpu" | "sys" => {}
            "ca" | "cg" | "cs" | "lu" | "cv" | "wb" | "wt" => {}
            _ if word.starts_with("L1::") || word.starts_with("L2::") => {}
            _ => return None,
        }
    }
    let is_small = form.lanes as u32 * kind.bytes() <= ACCESS_BYTES_MAX;
    ((form.memory.is_some() != is_param) && is_small).then_some(form)
}

impl<'m> Decoder<'m> {
    /// Decodes a statement that accesses memory; false if it is none.
    pub(super) fn access(&mut self, step: &mut Step, name: &[&str], operands: &'m [Operand]) -> Result<bool, String> {
        match (name, operands) {
            (["ld", words @ ..], [d, Operand::Address(base, offset)]) => {
                let Some(form) = form(words) else { return Ok(false) };
                self.load(step, &form, d, base.as_deref(), *offset)
            }
            (["st", words @ ..], [Operand::Address(base, offset), a]) => {
                let Some(form) = form(words) else { return Ok(false) };
                self.store(step, &form, a, base.as_deref(), *offset)
            }
            (["atom", words @ ..], [d, Operand::Address(base, offset), sources @ ..]) => {
                self.atomic(step, words, Some(d), (base.as_deref(), *offset), sources)
            }
            (["red", words @ ..], [Operand::Address(base, offset), sources @ ..]) => {
                self.atomic(step, words, None, (base.as_deref(), *offset), sources)
            }
            (["cp", "async", words @ ..], operands) => self.copy(step, words, operands),
            // Order between accesses is looked at by barriers alone.
            (["membar" | "fence", ..], []) => Ok(true),
            _ => Ok(false),
        }
    }

    /// The slot of an address; 32 bits suffice but in global memory.
    pub(super) fn base(&mut self, step: &mut Step, base: Option<&'m str>, memory: Memory) -> Result<Slot, String> {
        let Some(name) = base else { return Ok(self.constant(0)) };
        if let Some(Known::Address(address)) = self.known.get(name) {
            let address = *address;
            return Ok(self.constant(address));
        }
        let is_global = matches!(memory, Memory::Global | Memory::GlobalReadOnly);
        let slot = self.register(name, if is_global { Type::B64 } else { Type::B32 }, !is_global)?;
        step.reads.push(slot);
        Ok(slot)
    }

    /// The number of an instruction that accesses memory.
    pub(super) fn numbered(&mut self, step: &Step) -> u32 {
        self.code.accesses.push(step.line as u32);
        self.code.accesses.len() as u32 - 1
    }

    fn described(
        &mut self,
        step: &mut Step,
        memory: Memory,
        kind: Type,
        base: Option<&'m str>,
        offset: i64,
    ) -> Result<Access, String> {
        if memory == Memory::Shared {
            self.code.shared_granule = self.code.shared_granule.min(kind.bytes());
        }
        Ok(Access {
            memory,
            base: self.base(step, base, memory)?,
            offset,
            bytes: kind.bytes(),
            extended_to: 0,
            registers: Vec::new(),
            instruction: self.numbered(step),
        })
    }

    fn load(
        &mut self,
        step: &mut Step,
        form: &Form,
        d: &'m Operand,
        base: Option<&'m str>,
        offset: i64,
    ) -> Result<bool, String> {
        let Some(memory) = form.memory else {
            let parameters = &self.module.entry.parameters;
            let number = parameters.iter().position(|(name, _)| Some(name.as_str()) == base).filter(|_| offset == 0);
            let number = number.ok_or("no parameter has this name")?;
            if parameters[number].1.bits != form.kind.bits || form.lanes > 1 {
                return Err("the parameter has another size".to_string());
            }
            let a = match self.code.parameters[number] {
                Some(slot) => slot,
                None => self.new_slot(),
            };
            self.code.parameters[number] = Some(a);
            let d = self.target(step, d, form.kind, false)?;
            step.micros.push(Micro::Move { d, a });
            return Ok(true);
        };
        let mut access = self.described(step, memory, form.kind, base, offset)?;
        for element in elements(d) {
            let (slot, kind) = self.target_and_type(step, element, form.kind, true)?;
            access.registers.push(slot);
            access.extended_to = if form.kind.class == Class::Signed { kind.bits } else { 0 };
        }
        if access.registers.len() != form.lanes {
            return Err(format!("a vector of {} has as many registers", form.lanes));
        }
        self.code.loads.push(access);
        step.micros.push(Micro::Load { number: self.code.loads.len() as u32 - 1 });
        Ok(true)
    }

    fn store(
        &mut self,
        step: &mut Step,
        form: &Form,
        a: &'m Operand,
        base: Option<&'m str>,
        offset: i64,
    ) -> Result<bool, String> {
        let Some(memory) = form.memory.filter(|memory| *memory != Memory::GlobalReadOnly) else { return Ok(false) };
        let mut access = self.described(step, memory, form.kind, base, offset)?;
        for element in elements(a) {
            let slot = self.source(step, element, form.kind, true)?;
            access.registers.push(slot);
        }
        if access.registers.len() != form.lanes {
            return Err(format!("a vector of {} has as many registers", form.lanes));
        }
        self.code.stores.push(access);
        step.micros.push(Micro::Store { number: self.code.stores.len() as u32 - 1 });
        Ok(true)
    }

    fn atomic(
        &mut self,
        step: &mut Step,
        words: &[&str],
        d: Option<&'m Operand>,
        (base, offset): (Option<&'m str>, i64),
        sources: &'m [Operand],
    ) -> Result<bool, String> {
        let mut memory = None;
        let mut operation = "";
        let Some((kind, words)) = words.split_last() else { return Ok(false) };
        for word in words {
            match *word {
                "global" => memory = Some(Memory::Global),
                "shared" | "shared::cta" => memory = Some(Memory::Shared),
                "relaxed" | "acquire" | "release" | "acq_rel" | "cta" | "gpu" | "sys" => {}
                other if operation.is_empty() => operation = other,
                _ => return Ok(false),
            }
        }
        let Some((combine, count)) = combination(operation, kind) else { return Ok(false) };
        let (Some(memory), Some(kind), true) = (memory, Type::named(kind), sources.len() == count) else {
            return Ok(false);
        };
        let mut access = self.described(step, memory, kind, base, offset)?;
        for source in sources {
            let slot = self.source(step, source, kind, false)?;
            access.registers.push(slot);
        }
        let found = d.map(|d| self.target(step, d, kind, false)).transpose()?;
        self.code.atomics.push(Atomic { access, combine, found });
        step.micros.push(Micro::Atomic { number: self.code.atomics.len() as u32 - 1 });
        Ok(true)
    }

    fn copy(&mut self, step: &mut Step, words: &[&str], operands: &'m [Operand]) -> Result<bool, String> {
        match (words, operands) {
            (["commit_group"], []) => step.micros.push(Micro::CommitCopies),
            (["wait_all"], []) => step.micros.extend([Micro::CommitCopies, Micro::WaitForCopies { groups: 0 }]),
            (["wait_group"], [Operand::Constant(super::Literal::Integer(groups))]) => {
                step.micros.push(Micro::WaitForCopies { groups: *groups as u32 });
            }
            (
                [cache @ ("ca" | "cg"), "shared" | "shared::cta", "global", rest @ ..],
                [
                    Operand::Address(to, to_offset),
                    Operand::Address(from, from_offset),
                    Operand::Constant(super::Literal::Integer(bytes)),
                    read @ ..,
                ],
            ) if rest.iter().all(|word| word.starts_with("L2::")) && read.len() <= 1 => {
                if !(*bytes == 16 || *cache == "ca" && matches!(bytes, 4 | 8)) {
                    return Err("copies have 16 bytes, or 4 or 8 with `.ca`".to_string());
                }
                let read = read.first().map(|read| self.source(step, read, Type::U32, false)).transpose()?;
                let copy = Copy {
                    to: self.base(step, to.as_deref(), Memory::Shared)?,
                    to_offset: *to_offset,
                    from: self.base(step, from.as_deref(), Memory::Global)?,
                    from_offset: *from_offset,
                    bytes: *bytes as u32,
                    read,
                    instruction: self.numbered(step),
                };
                self.code.copies.push(copy);
                step.micros.push(Micro::Copy { number: self.code.copies.len() as u32 - 1 });
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn elements(operand: &Operand) -> &[Operand] {
    match operand {
        Operand::Vector(elements) => elements,
        one => std::slice::from_ref(one),
    }
}

/// A function of what was there and the operands.
type Combine = fn(u64, u64, u64) -> u64;

/// What an atomic access stores, of what was there and its operands, of which it takes so many.
fn combination(operation: &str, kind: &str) -> Option<(Combine, usize)> {
    let of_one: Combine = match (operation, kind) {
        ("add", "u32" | "s32") => |found, a, _| low(found.wrapping_add(a), 32),
        ("add", "u64") => |found, a, _| found.wrapping_add(a),
        ("add", "f32") => |found, a, _| of_single(single(found) + single(a)),
        ("add", "f64") => |found, a, _| (f64::from_bits(found) + f64::from_bits(a)).to_bits(),
        ("min", "u32" | "u64") => |found, a, _| found.min(a),
        ("max", "u32" | "u64") => |found, a, _| found.max(a),
        ("min", "s32") => |found, a, _| if signed(a, 32) < signed(found, 32) { a } else { found },
        ("max", "s32") => |found, a, _| if signed(a, 32) > signed(found, 32) { a } else { found },
        ("min", "s64") => |found, a, _| (found as i64).min(a as i64) as u64,
        ("max", "s64") => |found, a, _| (found as i64).max(a as i64) as u64,
        ("and", "b32" | "b64") => |found, a, _| found & a,
        ("or", "b32" | "b64") => |found, a, _| found | a,
        ("xor", "b32" | "b64") => |found, a, _| found ^ a,
        ("exch", "b32" | "b64") => |_, a, _| a,
        ("inc", "u32") => |found, a, _| if found >= a { 0 } else { found + 1 },
        ("dec", "u32") => |found, a, _| if found == 0 || found > a { a } else { found - 1 },
        ("cas", "b16" | "b32" | "b64") => return Some((|found, a, b| if found == a { b } else { found }, 2)),
        _ => return None,
    };
    Some((of_one, 1))
}
