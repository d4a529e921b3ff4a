//! Operands of a small domain, as a walk chooses them.

use warpweft_compiler::DType;
use warpweft_compiler::dtype::Scalar;
use warpweft_compiler::ir::{Arg, AxisKind, Op, UOp};
use warpweft_compiler::rewrite::Maker;

use super::TYPES;
use super::walk::Walk;

/// Makes operands of a small domain.
pub(super) struct Small<'w> {
    pub(super) walk: &'w mut Walk,
    pub(super) bits: u32,
    pub(super) deep: bool,
    pub(super) casts: bool,
    pub(super) is_single: bool,
    pub(super) leaves: usize,
    pub(super) shared: [Option<UOp>; 2],
}

/// Bounds on all sides of the ends of narrow types.
const BOUNDS_OF_CASTS: [(i64, i64); 14] = [
    (0, 0),
    (0, 1),
    (0, 2),
    (-1, 0),
    (-8, 7),
    (0, 127),
    (0, 128),
    (-128, 127),
    (-129, 127),
    (0, 255),
    (0, 256),
    (-1, 255),
    (3, 9),
    (-300, 300),
];

impl Small<'_> {
    fn numbers(&self) -> Vec<i64> {
        let half = 1 << (self.bits - 1);
        (-half..half).collect()
    }

    /// A variable with bounds, or the constant that it would be.
    fn bounded(&mut self) -> UOp {
        self.leaves += 1;
        let bounds = if self.casts { BOUNDS_OF_CASTS.to_vec() } else { all_bounds(&self.numbers()) };
        let (low, high) = self.walk.one_of(&bounds);
        if low == high { UOp::index(low) } else { UOp::variable(&format!("x{}", self.leaves), low, high) }
    }

    fn unknown(&mut self, dtype: DType) -> UOp {
        self.leaves += 1;
        let src = vec![UOp::param(self.leaves as u32, dtype, 1), UOp::index(0)];
        UOp::new(Op::Load, dtype, vec![UOp::new(Op::Index, dtype, src, Arg::None)], Arg::None)
    }

    /// One of two variables that all deep operands share.
    fn shared(&mut self, which: usize) -> UOp {
        if let Some(known) = &self.shared[which] {
            return known.clone();
        }
        let bounds = [[(0, 7), (-3, 4)], [(1, 5), (0, 2)]][which];
        let (low, high) = self.walk.one_of(&bounds);
        let variable = UOp::variable(["a", "b"][which], low, high);
        self.shared[which] = Some(variable.clone());
        variable
    }

    /// A term of a deep operand without its coefficient.
    fn base(&mut self) -> UOp {
        let number = self.walk.pick(22);
        let divisor = [2, 3, 4][number % 3];
        match number {
            0..=2 => self.shared(0).modulo(divisor),
            3..=5 => self.shared(0).idiv(divisor),
            6..=8 => self.shared(1).modulo(divisor),
            9..=11 => (self.shared(0) * 3 + self.shared(1)).idiv(divisor),
            12..=14 => (self.shared(0) * 2 - self.shared(1)).modulo(divisor),
            15 | 16 => (self.shared(0) + self.shared(1) * 4).modulo([6, 5][number - 15]).idiv(2),
            17 => (self.shared(0) + self.shared(1) * 4).idiv(3).modulo(2),
            18 => self.shared(0) * self.shared(1),
            19 => self.shared(1),
            _ => self.shared(number - 20),
        }
    }

    /// A single operand has two terms; of several the first has one and a constant, the second one, and more are simple.
    fn sum(&mut self) -> UOp {
        self.leaves += 1;
        match self.leaves {
            1 => {
                let first = self.base() * self.walk.one_of(&[1, -1, 2, -4]) + self.walk.one_of(&[0, 5]);
                match if self.is_single { self.walk.pick(3) } else { 0 } {
                    0 => first,
                    1 => first + self.base() * 2,
                    _ => first - self.base() * 3,
                }
            }
            2 => self.base() * self.walk.one_of(&[1, 2]),
            _ => match self.walk.pick(3) {
                0 => UOp::index(0),
                1 => self.shared(0) + 1,
                _ => self.shared(1).modulo(2),
            },
        }
    }

    fn comparison(&mut self) -> UOp {
        match self.walk.pick(6) {
            0 => self.shared(0).lt(3),
            1 => UOp::index(1).lt(self.shared(0)),
            2 => (self.shared(0) * 2 + self.shared(1)).lt(6),
            3 => self.shared(1).equals(2),
            4 => self.shared(1).modulo(2).differs(0),
            _ => self.unknown(DType::BOOL),
        }
    }
}

fn all_bounds(numbers: &[i64]) -> Vec<(i64, i64)> {
    numbers
        .iter()
        .flat_map(|low| numbers.iter().filter(move |high| low <= high).map(move |high| (*low, *high)))
        .collect()
}

impl Maker for Small<'_> {
    fn leaf(&mut self, dtype: DType) -> UOp {
        match (dtype, self.deep) {
            (DType::INDEX, true) => self.sum(),
            (DType::INDEX, false) => self.bounded(),
            (DType::BOOL, true) => self.comparison(),
            _ => match self.walk.pick(if dtype.is_bool() { 2 } else { 3 }) {
                0 => self.unknown(dtype),
                1 if !dtype.is_bool() => {
                    let (low, high) = self.walk.one_of(&[(0, 7), (1, 7), (-8, -1), (-8, 7)]);
                    self.leaves += 1;
                    UOp::variable(&format!("x{}", self.leaves), low, high).cast(dtype)
                }
                _ => self.constant(dtype),
            },
        }
    }

    fn constant(&mut self, dtype: DType) -> UOp {
        let numbers = if self.deep { vec![-4, -3, 1, 2, 3, 4, 6, 8] } else { self.numbers() };
        match dtype {
            DType::INDEX => UOp::index(self.walk.one_of(&numbers)),
            DType::BOOL => UOp::bool(self.walk.pick(2) == 1),
            _ => {
                let ends = [Scalar::lowest(dtype), Scalar::highest(dtype)];
                let values: Vec<Scalar> =
                    numbers.into_iter().map(|number| Scalar::from_i64(number, dtype)).chain(ends).collect();
                UOp::constant(self.walk.one_of(&values), dtype)
            }
        }
    }

    fn operand_type(&mut self) -> DType {
        // Deep operands are indices and conditions.
        self.walk.one_of(if self.deep { &TYPES[..2] } else { &TYPES })
    }

    fn other(&mut self, op: Op, dtype: DType) -> Option<UOp> {
        let (low, high) = self.walk.one_of(&all_bounds(&self.numbers()));
        match op {
            Op::Variable if dtype.is_index() => Some(UOp::variable("x", low, high)),
            Op::Range if dtype.is_index() && low >= 1 => Some(UOp::range(low, 0, AxisKind::Loop)),
            _ => None,
        }
    }
}
