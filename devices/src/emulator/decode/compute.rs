//! Statements that compute: a function from operands to a register.

use super::super::convert::conversion;
use super::super::float;
use super::super::integer::{self, Function};
use super::super::micro::{Micro, Slot};
use super::super::scalar::{Class, Type};
use super::super::syntax::Operand;
use super::{Decoder, Known, Step};

/// A function with the types of its result and operands.
struct Operation {
    function: Function,
    result: Type,
    operands: Vec<Type>,
}

impl Operation {
    fn new(function: Function, result: Type, operands: &[Type]) -> Operation {
        Operation { function, result, operands: operands.to_vec() }
    }

    /// One whose operands and result have one type.
    fn of_one_type(function: Function, kind: Type) -> Operation {
        let count = match function {
            Function::One(_) => 1,
            Function::Two(_) => 2,
            Function::Three(_) => 3,
        };
        Operation { function, result: kind, operands: vec![kind; count] }
    }
}

/// What an instruction computes, by its name; none where there is no such one.
fn operation(name: &[&str]) -> Option<Operation> {
    let (last, head) = name.split_last()?;
    let kind = Type::named(last)?;
    let words = head.join(".");
    match head {
        ["setp", test] => {
            let function = if kind.is_float() { float::compare(test, kind) } else { integer::compare(test, kind) }?;
            return Some(Operation::new(function, Type::PREDICATE, &[kind; 2]));
        }
        ["testp", property] if kind.is_float() && kind.bits >= 32 => {
            return Some(Operation::new(float::property(property, kind)?, Type::PREDICATE, &[kind]));
        }
        ["mul" | "mad", "wide"] if kind.is_integer() => {
            let double = Type::new(kind.class, kind.bits * 2);
            let function = integer::wide(&words, kind)?;
            let operands: &[Type] = if head[0] == "mad" { &[kind, kind, double] } else { &[kind, kind] };
            return Some(Operation::new(function, double, operands));
        }
        ["popc" | "clz" | "brev"] if kind.class == Class::Bits => {
            let (function, result) = integer::counts(&words, kind)?;
            return Some(Operation::new(function, result, &[kind]));
        }
        ["selp"] if kind.class != Class::Predicate && kind.bits >= 16 => {
            let function = integer::on_bits("selp", kind)?;
            return Some(Operation::new(function, kind, &[kind, kind, Type::PREDICATE]));
        }
        ["shl" | "shr"] if !kind.is_float() && kind.class != Class::Predicate => {
            let is_right = head[0] == "shr" || kind.class == Class::Bits;
            let function = is_right.then(|| integer::on_bits(&words, kind)).flatten()?;
            return Some(Operation::new(function, kind, &[kind, Type::U32]));
        }
        ["and" | "or" | "xor" | "not" | "cnot"] if matches!(kind.class, Class::Bits | Class::Predicate) => {
            return Some(Operation::of_one_type(integer::on_bits(&words, kind)?, kind));
        }
        _ => {}
    }
    let function = match kind.class {
        Class::Signed | Class::Unsigned if kind.bits >= 16 => integer::arithmetic(&words, kind)?,
        Class::Float | Class::Brain => float::arithmetic(&words, kind)?,
        _ => return None,
    };
    Some(Operation::of_one_type(function, kind))
}

impl<'m> Decoder<'m> {
    /// Decodes a statement that computes; false if it is none.
    pub(super) fn compute(&mut self, step: &mut Step, name: &[&str], operands: &'m [Operand]) -> Result<bool, String> {
        match name {
            ["mov", kind] => {
                let kind = Type::named(kind).filter(|kind| kind.bits != 8).ok_or("no such type")?;
                return self.movement(step, kind, operands);
            }
            ["cvta", "to", "global" | "shared" | "local", "u64"] | ["cvta", "global" | "shared" | "local", "u64"] => {
                let [d, a] = operands else { return Ok(false) };
                let a = self.source(step, a, Type::U64, false)?;
                let d = self.target(step, d, Type::U64, false)?;
                step.micros.push(Micro::Move { d, a });
                return Ok(true);
            }
            ["cvt", parts @ ..] => return self.conversion(step, parts, operands),
            _ => {}
        }
        let Some(Operation { function, result, operands: types }) = operation(name) else { return Ok(false) };
        let [d, sources @ ..] = operands else { return Ok(false) };
        if sources.len() != types.len() {
            return Ok(false);
        }
        let slots = sources.iter().zip(&types).map(|(operand, kind)| self.source(step, operand, *kind, false));
        let slots: Vec<Slot> = slots.collect::<Result<_, _>>()?;
        if matches!(name, ["div" | "rem", _]) {
            let signed_bits = if types[0].class == Class::Signed { types[0].bits as u8 } else { 0 };
            step.micros.push(Micro::Divides { a: slots[0], b: slots[1], signed_bits });
        }
        let d = self.target(step, d, result, false)?;
        step.micros.push(match (function, slots.as_slice()) {
            (Function::One(f), &[a]) => Micro::One { f, d, a },
            (Function::Two(f), &[a, b]) => Micro::Two { f, d, a, b },
            (Function::Three(f), &[a, b, c]) => Micro::Three { f, d, a, b, c },
            _ => return Ok(false),
        });
        Ok(true)
    }

    /// `mov`: of a value, of an address, and of a register from or to its parts.
    fn movement(&mut self, step: &mut Step, kind: Type, operands: &'m [Operand]) -> Result<bool, String> {
        match operands {
            [Operand::Vector(parts), a] if kind.class == Class::Bits => {
                let part = Type::new(Class::Bits, kind.bits / parts.len().max(1) as u32);
                let a = self.source(step, a, kind, false)?;
                for (number, d) in parts.iter().enumerate() {
                    let d = self.target(step, d, part, false)?;
                    let shift = (number as u32 * part.bits) as u8;
                    step.micros.push(Micro::Extract { d, a, shift, bits: part.bits as u8 });
                }
            }
            [d, Operand::Vector(parts)] if kind.class == Class::Bits => {
                let part = Type::new(Class::Bits, kind.bits / parts.len().max(1) as u32);
                let slots = parts.iter().map(|operand| self.source(step, operand, part, false));
                let slots: Vec<Slot> = slots.collect::<Result<_, _>>()?;
                let d = self.target(step, d, kind, false)?;
                let Some((&first, rest)) = slots.split_first() else { return Ok(false) };
                let mut sum = first;
                for (number, &b) in rest.iter().enumerate() {
                    // Parts may be read from the register that is written, so it is written last.
                    let to = if number + 1 == rest.len() { d } else { self.new_slot() };
                    step.micros.push(Micro::Join { d: to, a: sum, b, shift: ((number as u32 + 1) * part.bits) as u8 });
                    sum = to;
                }
            }
            [d, a] => {
                let address = match a {
                    Operand::Name(name) => self.known.get(name.as_str()).copied(),
                    _ => None,
                };
                let a = match address {
                    Some(Known::Address(address)) => self.constant(address),
                    _ => self.source(step, a, kind, false)?,
                };
                let d = self.target(step, d, kind, false)?;
                step.micros.push(Micro::Move { d, a });
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn conversion(&mut self, step: &mut Step, parts: &[&str], operands: &'m [Operand]) -> Result<bool, String> {
        if let (["rn", pair @ ("f16x2" | "bf16x2"), "f32"], [d, upper, lower]) = (parts, operands) {
            return self.pair(step, pair, [d, upper, lower]);
        }
        let (Some(mut conversion), [d, a]) = (conversion(parts), operands) else { return Ok(false) };
        let a = self.source(step, a, conversion.from, true)?;
        let wanted = if conversion.to.class == Class::Tensor { Type::B32 } else { conversion.to };
        let (d, kind) = self.target_and_type(step, d, wanted, true)?;
        conversion.register_bits = kind.width();
        self.convert(step, conversion, d, a);
        Ok(true)
    }

    fn convert(&mut self, step: &mut Step, conversion: super::super::convert::Conversion, d: Slot, a: Slot) {
        self.code.conversions.push(conversion);
        step.micros.push(Micro::Convert { number: self.code.conversions.len() as u32 - 1, d, a });
    }

    /// `cvt.rn.f16x2.f32 d, a, b`: a becomes the upper half.
    fn pair(&mut self, step: &mut Step, pair: &str, [d, upper, lower]: [&'m Operand; 3]) -> Result<bool, String> {
        let half = pair.trim_end_matches("x2");
        let Some(conversion) = conversion(&["rn", half, "f32"]) else { return Ok(false) };
        let f32 = Type::new(Class::Float, 32);
        let (upper, lower) = (self.source(step, upper, f32, false)?, self.source(step, lower, f32, false)?);
        let (above, below) = (self.new_slot(), self.new_slot());
        self.convert(step, conversion, above, upper);
        self.convert(step, conversion, below, lower);
        let d = self.target(step, d, Type::B32, false)?;
        step.micros.push(Micro::Join { d, a: below, b: above, shift: 16 });
        Ok(true)
    }
}
