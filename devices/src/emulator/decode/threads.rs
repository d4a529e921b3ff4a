//! Statements that several threads run together.

use super::super::micro::{Memory, Micro, Multiply, Shuffle, ShuffleMode, Slot, Together, Vote};
use super::super::scalar::{Class, Type};
use super::super::syntax::Operand;
use super::{Decoder, Step};

impl<'m> Decoder<'m> {
    /// Decodes a statement of several threads; false if it is none.
    pub(super) fn threads(&mut self, step: &mut Step, name: &[&str], operands: &'m [Operand]) -> Result<bool, String> {
        let together = match (name, operands) {
            (["bar", "sync"] | ["bar", "cta", "sync"] | ["barrier", "sync", "aligned"], [number]) => {
                Together::Barrier { number: self.source(step, number, Type::U32, false)? }
            }
            (["bar", "warp", "sync"], [mask]) => {
                Together::WarpBarrier { mask: self.source(step, mask, Type::B32, false)? }
            }
            (["shfl", "sync", mode, "b32"], [d, a, b, c, mask]) => {
                let mode = match *mode {
                    "up" => ShuffleMode::Up,
                    "down" => ShuffleMode::Down,
                    "bfly" => ShuffleMode::Butterfly,
                    "idx" => ShuffleMode::Index,
                    _ => return Ok(false),
                };
                let [a, b, c, mask] = [a, b, c, mask].map(|operand| self.source(step, operand, Type::B32, false));
                let (a, b, c, mask) = (a?, b?, c?, mask?);
                let (d, p) = match d {
                    Operand::Both(d, p) => {
                        let slots = (self.register(d, Type::B32, false)?, self.register(p, Type::PREDICATE, false)?);
                        step.writes.extend([slots.0, slots.1]);
                        (slots.0, Some(slots.1))
                    }
                    one => (self.target(step, one, Type::B32, false)?, None),
                };
                Together::Shuffle(Shuffle { mode, d, p, a, b, c, mask })
            }
            (["vote", "sync", mode, kind], [d, a, mask]) => {
                let (mode, result) = match (*mode, *kind) {
                    ("all", "pred") => (Vote::All, Type::PREDICATE),
                    ("any", "pred") => (Vote::Any, Type::PREDICATE),
                    ("uni", "pred") => (Vote::Uniform, Type::PREDICATE),
                    ("ballot", "b32") => (Vote::Ballot, Type::B32),
                    _ => return Ok(false),
                };
                let a = self.source(step, a, Type::PREDICATE, false)?;
                let mask = self.source(step, mask, Type::B32, false)?;
                Together::Vote { mode, d: self.target(step, d, result, false)?, a, mask }
            }
            (["ldmatrix", "sync", "aligned", "m8n8", rest @ ..], [registers, Operand::Address(base, offset)]) => {
                let Some(matrices) = self.matrices(step, rest, registers, base.as_deref(), *offset)? else {
                    return Ok(false);
                };
                matrices
            }
            (["mma", "sync", "aligned", shape, "row", "col", types @ ..], [d, a, b, c]) => {
                let Some(multiply) = self.multiply(step, shape, types, [d, a, b, c])? else { return Ok(false) };
                Together::Multiply(multiply)
            }
            _ => return Ok(false),
        };
        self.code.together.push(together);
        step.micros.push(Micro::Together { number: self.code.together.len() as u32 - 1 });
        Ok(true)
    }

    fn matrices(
        &mut self,
        step: &mut Step,
        words: &[&str],
        registers: &'m Operand,
        base: Option<&'m str>,
        offset: i64,
    ) -> Result<Option<Together>, String> {
        let (count, transposed) = match words {
            [count, "shared" | "shared::cta", "b16"] => (*count, false),
            [count, "trans", "shared" | "shared::cta", "b16"] => (*count, true),
            _ => return Ok(None),
        };
        let Some(count) = [("x1", 1), ("x2", 2), ("x4", 4)].into_iter().find(|(word, _)| *word == count) else {
            return Ok(None);
        };
        self.code.shared_granule = self.code.shared_granule.min(2);
        let base = self.base(step, base, Memory::Shared)?;
        let registers = match registers {
            Operand::Vector(registers) => registers.as_slice(),
            one => std::slice::from_ref(one),
        };
        let slots = registers.iter().map(|register| self.target(step, register, Type::B32, false));
        let registers: Vec<Slot> = slots.collect::<Result<_, _>>()?;
        if registers.len() != count.1 {
            return Ok(None);
        }
        let instruction = self.numbered(step);
        Ok(Some(Together::LoadMatrices { registers, base, offset, transposed, instruction }))
    }

    fn multiply(
        &mut self,
        step: &mut Step,
        shape: &str,
        types: &[&str],
        [d, a, b, c]: [&'m Operand; 4],
    ) -> Result<Option<Multiply>, String> {
        let [to, left, right, sum] = types else { return Ok(None) };
        let depth = match (shape, *left) {
            ("m16n8k16", "f16" | "bf16") => 16,
            ("m16n8k8", "f16" | "bf16" | "tf32") => 8,
            ("m16n8k4", "tf32") => 4,
            _ => return Ok(None),
        };
        let is_sum = *to == "f32" || *to == "f16" && *left == "f16";
        let (Some(elements), Some(sums), true) =
            (Type::named(left), Type::named(to), left == right && to == sum && is_sum)
        else {
            return Ok(None);
        };
        // Each thread has its part of the elements: one or two in a register.
        let in_register = 32 / elements.bits as usize;
        let (of_a, of_b) = (16 * depth / 32 / in_register, 8 * depth / 32 / in_register);
        let (of_sums, kind) = if sums.bits == 32 { (4, sums) } else { (2, Type::B32) };
        let list = |operand: &'m Operand, count: usize| match operand {
            Operand::Vector(registers) if registers.len() == count => Ok(registers.as_slice()),
            one if count == 1 => Ok(std::slice::from_ref(one)),
            _ => Err(format!("{count} registers are expected")),
        };
        let mut sources = Vec::new();
        for (operand, count, kind) in [(a, of_a, Type::B32), (b, of_b, Type::B32), (c, of_sums, kind)] {
            let slots = list(operand, count)?.iter().map(|register| self.source(step, register, kind, false));
            sources.push(slots.collect::<Result<Vec<Slot>, _>>()?);
        }
        let slots = list(d, of_sums)?.iter().map(|register| self.target(step, register, kind, false));
        let d = slots.collect::<Result<Vec<Slot>, _>>()?;
        let [a, b, c] = <[Vec<Slot>; 3]>::try_from(sources).map_err(|_| "three factors")?;
        debug_assert!(matches!(elements.class, Class::Float | Class::Brain | Class::Tensor));
        Ok(Some(Multiply { depth, elements, sums, a, b, c, d }))
    }
}
