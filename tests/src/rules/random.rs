//! Random instances of rules: what patterns leave open, made by choices.
//!
//! Most rules look at how their operands hang together, so operands share variables, constants are multiples, divisors and neighbours of
//! earlier ones, and indices are nested quotients, remainders, sums and products. Bounds have all signs; some variables have one value, some are loops.

use warpweft_compiler::DType;
use warpweft_compiler::dtype::Scalar;
use warpweft_compiler::ir::{Arg, AxisKind, Op, UOp};
use warpweft_compiler::rewrite::Maker;

use crate::choices::Choices;

/// Types that rules are tried on.
pub const TYPES: [DType; 9] =
    [DType::INDEX, DType::BOOL, DType::F32, DType::I32, DType::U8, DType::I64, DType::U64, DType::F16, DType::I8];

/// Leaves that are made before earlier ones are taken again, and the depth of nested index arithmetic.
const LEAVES_MAX: usize = 6;
const DEPTH: u32 = 3;

/// Makes scalars that nothing is known of, scalars that something is known of, and constants at the ends of their types.
pub struct RuleMaker<'c, 'b> {
    choices: &'c mut Choices<'b>,
    leaves: Vec<UOp>,
    conditions: Vec<UOp>,
    numbers: Vec<i64>,
}

impl<'c, 'b> RuleMaker<'c, 'b> {
    /// A maker by these choices.
    pub fn new(choices: &'c mut Choices<'b>) -> RuleMaker<'c, 'b> {
        RuleMaker { choices, leaves: Vec::new(), conditions: Vec::new(), numbers: Vec::new() }
    }

    /// An earlier leaf of that type, now and then.
    fn earlier(&mut self, dtype: DType) -> Option<UOp> {
        let known: Vec<&UOp> = self.leaves.iter().filter(|leaf| leaf.dtype() == dtype).collect();
        if known.is_empty() || !(known.len() >= LEAVES_MAX || self.choices.once_in(2)) {
            return None;
        }
        Some((*self.choices.one_of(&known)).clone())
    }

    fn kept(&mut self, leaf: UOp) -> UOp {
        self.leaves.push(leaf.clone());
        leaf
    }

    fn variable(&mut self) -> UOp {
        if let Some(known) = self.earlier(DType::INDEX) {
            return known;
        }
        let number = self.leaves.len();
        let low = *self.choices.one_of(&[0, 0, 1, -1, -7, -20, 3, 120]);
        let leaf = match self.choices.between(0, 7) {
            0 => UOp::range(self.choices.between(1, 20), number as u32, AxisKind::Loop),
            1 => UOp::variable(&format!("x{number}"), low, low + 2 * self.choices.between(0, 140)),
            _ => UOp::variable(&format!("x{number}"), low, low + self.choices.between(0, 24)),
        };
        self.kept(leaf)
    }

    /// A load, of which nothing is known but its type.
    fn unknown(&mut self, dtype: DType) -> UOp {
        if let Some(known) = self.earlier(dtype) {
            return known;
        }
        let src = vec![UOp::param(self.leaves.len() as u32, dtype, 1), UOp::index(0)];
        let index = UOp::new(Op::Index, dtype, src, Arg::None);
        self.kept(UOp::new(Op::Load, dtype, vec![index], Arg::None))
    }

    /// A number, often one that has to do with an earlier one.
    fn number(&mut self) -> i64 {
        let small = self.choices.between(-9, 16);
        let number = match (self.choices.between(0, 4), self.numbers.is_empty()) {
            (0 | 1, false) => {
                let known = *self.choices.one_of(&self.numbers);
                let factor = self.choices.between(1, 4);
                match self.choices.between(0, 4) {
                    0 => known * factor,
                    1 if known % factor == 0 => known / factor,
                    2 => known + 1,
                    3 => -known,
                    _ => known,
                }
            }
            (2, _) => 1 << (small & 7),
            _ => small,
        };
        // Products of products stay far from the ends of an index.
        let number = if number.abs() > 4096 { small } else { number };
        self.numbers.push(number);
        number
    }

    fn index(&mut self, depth: u32) -> UOp {
        if depth == 0 || self.choices.once_in(3) {
            return self.variable();
        }
        let a = self.index(depth - 1);
        match self.choices.between(0, 9) {
            0..=2 => a.modulo(self.number()),
            3 | 4 => a.idiv(self.number()),
            5 => a * self.number(),
            6 => a * self.number() + self.index(depth - 1) * self.number(),
            7 => a + self.index(depth - 1) + self.number(),
            8 => a * self.variable() * self.number() + self.variable() * self.number(),
            _ => match self.choices.between(0, 3) {
                0 => a.max(self.number()),
                1 => a.cdiv(self.number()),
                2 => a.cmod(self.number()),
                _ => self.condition().select(&a, &UOp::index(self.choices.between(-2, 2))),
            },
        }
    }

    fn condition(&mut self) -> UOp {
        if !self.conditions.is_empty() && self.choices.once_in(3) {
            return self.choices.one_of(&self.conditions).clone();
        }
        let depth = self.choices.between(0, 1) as u32;
        let (a, number) = (self.index(depth), UOp::index(self.number()));
        let condition = match self.choices.between(0, 4) {
            0 | 1 => a.lt(&number),
            2 => number.lt(&a),
            3 => a.equals(&number),
            _ => a.differs(&number),
        };
        self.conditions.push(condition.clone());
        condition
    }
}

impl Maker for RuleMaker<'_, '_> {
    fn leaf(&mut self, dtype: DType) -> UOp {
        match self.choices.between(0, 5) {
            0 => self.constant(dtype),
            1 | 2 if dtype.is_index() => self.variable(),
            3 if dtype.is_index() => self.variable() * self.number(),
            4.. if dtype.is_index() => self.index(DEPTH),
            1 => self.variable().cast(dtype),
            2 | 3 if dtype.is_bool() => self.condition(),
            _ => self.unknown(dtype),
        }
    }

    fn constant(&mut self, dtype: DType) -> UOp {
        let number = self.number();
        let value = match self.choices.between(0, 7) {
            0 if !dtype.is_index() => Scalar::lowest(dtype),
            1 if !dtype.is_index() => Scalar::highest(dtype),
            3 if dtype.is_float() => Scalar::from_f64(*self.choices.one_of(&[f64::NAN, -0.0, 0.5, 1e-45]), dtype),
            _ => Scalar::from_i64(number, dtype),
        };
        UOp::constant(value, dtype)
    }

    fn operand_type(&mut self) -> DType {
        *self.choices.one_of(&TYPES)
    }

    fn other(&mut self, op: Op, dtype: DType) -> Option<UOp> {
        let low = self.choices.between(-3, 3);
        match op {
            Op::Variable if dtype.is_index() => Some(UOp::variable("x", low, low + self.choices.between(0, 1))),
            Op::Range if dtype.is_index() => Some(UOp::range(self.choices.between(1, 2), 0, AxisKind::Loop)),
            _ => None,
        }
    }
}

/// A value of a leaf: within its bounds for an index, any of its type for a load.
pub fn leaf_value(leaf: &UOp, number: u64, position: usize) -> Scalar {
    let dtype = leaf.dtype();
    if dtype.is_index() {
        return sample((leaf.min_value(), leaf.max_value()), number, position);
    }
    let mixed = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(position as u32 * 7);
    match number % 4 {
        0 => Scalar::from_i64((mixed % 9) as i64 - 4, dtype),
        1 => Scalar::from_f64((mixed % 64) as f64 / 8.0 - 4.0, dtype),
        2 if number % 8 == 2 => *[Scalar::lowest(dtype), Scalar::highest(dtype), Scalar::zero(dtype)]
            .get((mixed % 3) as usize)
            .unwrap_or(&Scalar::zero(dtype)),
        _ => Scalar::from_bits(mixed >> 3, dtype),
    }
}

/// The ends of the bounds first, then numbers spread over them.
pub fn sample((low, high): (i64, i64), number: u64, leaf: usize) -> Scalar {
    let span = (high - low) as u64 + 1;
    Scalar::Int(match number {
        0 => low,
        1 => high,
        _ => low + ((number * (7 + 6 * leaf as u64) + number / 3) % span) as i64,
    })
}
