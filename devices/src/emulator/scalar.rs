//! The types of PTX instructions and registers.
//!
//! A register holds its bits in the low part of a word of 64, zeros above. A pair (`f16x2`) is one register of 32 bits.

/// What the bits mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Predicate,
    Bits,
    Unsigned,
    Signed,
    /// `f16`, `f32`, `f64`.
    Float,
    /// `bf16`.
    Brain,
    /// `tf32`.
    Tensor,
}

/// A type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Type {
    pub(super) class: Class,
    /// Bits of one lane.
    pub(super) bits: u32,
    /// 2 of pairs.
    pub(super) lanes: u32,
}

impl Type {
    pub(super) const PREDICATE: Type = Type::new(Class::Predicate, 1);
    pub(super) const B32: Type = Type::new(Class::Bits, 32);
    pub(super) const B64: Type = Type::new(Class::Bits, 64);
    pub(super) const U32: Type = Type::new(Class::Unsigned, 32);
    pub(super) const U64: Type = Type::new(Class::Unsigned, 64);

    pub(super) const fn new(class: Class, bits: u32) -> Type {
        Type { class, bits, lanes: 1 }
    }

    /// The type of this name (`f32`).
    pub(super) fn named(name: &str) -> Option<Type> {
        let pair = |class| Type { lanes: 2, ..Type::new(class, 16) };
        match name {
            "pred" => return Some(Type::PREDICATE),
            "bf16" => return Some(Type::new(Class::Brain, 16)),
            "tf32" => return Some(Type::new(Class::Tensor, 32)),
            "f16x2" => return Some(pair(Class::Float)),
            "bf16x2" => return Some(pair(Class::Brain)),
            _ => {}
        }
        let (class, digits) = name.split_at_checked(1)?;
        let bits: u32 = digits.parse().ok()?;
        let class = match class {
            "b" => Class::Bits,
            "u" => Class::Unsigned,
            "s" => Class::Signed,
            "f" if bits >= 16 => Class::Float,
            _ => return None,
        };
        [8, 16, 32, 64].contains(&bits).then_some(Type::new(class, bits))
    }

    pub(super) fn is_integer(self) -> bool {
        matches!(self.class, Class::Unsigned | Class::Signed)
    }

    pub(super) fn is_float(self) -> bool {
        matches!(self.class, Class::Float | Class::Brain)
    }

    /// Bits in all.
    pub(super) fn width(self) -> u32 {
        self.bits * self.lanes
    }

    /// Bytes in memory.
    pub(super) fn bytes(self) -> u32 {
        self.width().div_ceil(8)
    }

    /// Whether a register of a type may stand where the instruction says this one: of the same size and kind, where bits are of any kind. Loads, stores and
    /// conversions also take wider ones.
    pub(super) fn takes(self, register: Type, or_wider: bool) -> bool {
        let size = self.width() == register.width() || or_wider && register.width() > self.width();
        let is_bits = |class| matches!(class, Class::Bits);
        let kind = match (self.class, register.class) {
            (Class::Predicate, other) | (other, Class::Predicate) => other == Class::Predicate,
            (Class::Tensor, other) => is_bits(other) || other == Class::Float,
            (a, b) if is_bits(a) || is_bits(b) => true,
            (a, b) => a == b || self.is_integer() && register.is_integer(),
        };
        size && kind
    }
}

/// The low bits of a word.
pub(super) fn low(value: u64, bits: u32) -> u64 {
    if bits >= 64 { value } else { value & ((1 << bits) - 1) }
}

/// The low bits of a word as a number with a sign.
pub(super) fn signed(value: u64, bits: u32) -> i64 {
    let shift = 64 - bits;
    ((value << shift) as i64) >> shift
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_are_of_the_size_and_kind_of_the_instruction() {
        let named = |name| Type::named(name).unwrap();
        let takes = |a, b| named(a).takes(named(b), false);
        assert!(takes("f32", "b32") && takes("b32", "f32") && takes("s32", "u32") && takes("f16x2", "b32"));
        assert!(!takes("f32", "u32") && !takes("u32", "u64") && !takes("b32", "pred") && !takes("f16", "bf16"));
        assert!(named("s8").takes(named("b16"), true) && !named("s32").takes(named("b16"), true));
        assert_eq!((Type::named("f8"), Type::named("u128"), Type::named("x")), (None, None, None));
    }

    #[test]
    fn low_bits_and_their_sign() {
        assert_eq!((low(0x1ff, 8), low(u64::MAX, 64)), (0xff, u64::MAX));
        assert_eq!((signed(0x80, 8), signed(0x7f, 8), signed(u64::MAX, 64)), (-128, 127, -1));
    }
}
