//! Every instance of a rule in a small domain: what holds for all of them is no matter of luck.
//!
//! A [`Walk`] makes the same choices in every way, one after another, as an odometer counts. Domains, by what stands for a name of the pattern:
//!
//! - *flat*: for an index, each variable with bounds of `w` bits (constants are those of one value) and for a constant each number of `w` bits,
//!   w being 4 where there are fewer than 700,000 such instances, else 3 or 2; for bools, unknown, true and false; for `i8` and `u8`, all numbers, those
//!   of a cast of bounded indices, and constants of `w` bits and at the ends of the type;
//! - *deep*: for an index, sums of two variables, their products, quotients and remainders (one within the other too) with coefficients;
//!   for a bool, comparisons of such.
//!
//! Each instance is evaluated for every assignment of its variables (of two numbers of 8 bits, for 22 values of each, of more for 5; of a long range beside
//! other variables, for its numbers around zero, its ends and those of narrow types, since casts are straight between these). A *case* is a rule, the type
//! of its root, and a domain; it is walked in *shards* by the first two choices, so that a soak can share it out.

use std::sync::LazyLock;

use warpweft_compiler::DType;
use warpweft_compiler::dtype::Scalar;
use warpweft_compiler::ir::{Arg, AxisKind, Op, UOp};
use warpweft_compiler::rewrite::{Maker, Rule, RuleSet, instance};

use super::{Outcome, check_instance};
use crate::kernels::Random;

/// Into how many parts each of the first two choices of a case is dealt out.
const DEALT: usize = 8;
/// The parts of a case.
pub const SHARDS: u64 = (DEALT * DEALT) as u64;

/// Instances of a flat domain; where there would be more, its numbers have fewer bits.
const INSTANCES_MAX: u64 = 700_000;

/// Types of roots and operands.
const TYPES: [DType; 4] = [DType::INDEX, DType::BOOL, DType::I8, DType::U8];

/// A rule, the type of its root, and the domain of its operands.
pub struct Case {
    /// The rule's set.
    pub set: &'static RuleSet,
    /// The rule.
    pub rule: &'static Rule,
    dtype: DType,
    deep: bool,
    /// Bits of the numbers of the flat domain.
    bits: u32,
    /// Whether one operand is open.
    is_single: bool,
}

/// Every case of rules over integers and bools that has an instance.
pub static CASES: LazyLock<Vec<Case>> = LazyLock::new(|| {
    let mut cases = Vec::new();
    for (set, rule) in super::exact_rules() {
        for dtype in TYPES {
            for deep in [false, true] {
                let case = Case::new(set, rule, dtype, deep);
                let is_integers = (0..200).any(|seed| case.instance(&mut Walk::random(seed)).is_some());
                // Of narrow types nothing is known that a sum could keep.
                if is_integers && !(deep && matches!(dtype, DType::I8 | DType::U8)) {
                    cases.push(case);
                }
            }
        }
    }
    cases
});

/// How often a case's instances matched and were rewritten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Instances that match the rule.
    pub matched: u64,
    /// Instances that were rewritten.
    pub rewritten: u64,
}

impl Case {
    /// What it is called.
    pub fn name(&self) -> String {
        let domain = if self.deep { "deep" } else { "flat" };
        format!("{} of {}, {} {domain}", self.rule.name, self.set.name(), self.dtype)
    }

    fn new(set: &'static RuleSet, rule: &'static Rule, dtype: DType, deep: bool) -> Case {
        let mut counter = Counter::default();
        instance(rule.pattern, dtype, &mut counter);
        let ranges = |bits: u32| (1u64 << bits) * ((1 << bits) + 1) / 2;
        let instances = |bits: u32| {
            let of_leaves = ranges(bits).saturating_pow(counter.leaves);
            of_leaves.saturating_mul(1 << (bits * counter.constants)).saturating_mul(3u64.pow(counter.bools))
        };
        let bits = [4, 3].into_iter().find(|bits| instances(*bits) <= INSTANCES_MAX).unwrap_or(2);
        Case { set, rule, dtype, deep, bits, is_single: counter.leaves == 1 }
    }

    fn instance(&self, walk: &mut Walk) -> Option<UOp> {
        let mut maker = Small {
            walk,
            bits: self.bits,
            deep: self.deep,
            // For casts the ends of types matter.
            casts: self.rule.pattern.holds(Op::Cast),
            is_single: self.is_single,
            leaves: 0,
            shared: [None, None],
        };
        instance(self.rule.pattern, self.dtype, &mut maker)
    }

    /// Instances of a walk, until it is over or there were so many.
    fn walk(&self, walk: &mut Walk, instances_max: u64) -> Result<Count, String> {
        let mut count = Count::default();
        for _ in 0..instances_max {
            let made = self.instance(walk);
            if let Some(before) = made.filter(|_| walk.is_own()) {
                let outcome = check_instance(self.set, self.rule, &before, &assignments)?;
                count.matched += u64::from(outcome != Outcome::NoMatch);
                count.rewritten += u64::from(outcome == Outcome::Rewritten);
            }
            if !walk.advance() {
                break;
            }
        }
        Ok(count)
    }

    /// Every instance of a shard.
    ///
    /// # Errors
    /// With the first instance whose value changes.
    pub fn check_shard(&self, shard: u64) -> Result<Count, String> {
        self.walk(&mut Walk::shard(shard), u64::MAX).map_err(|why| format!("{}: {why}", self.name()))
    }

    /// A few instances from anywhere in the domain.
    ///
    /// # Errors
    /// As [`Case::check_shard`].
    pub fn check_some(&self, instances: u64) -> Result<Count, String> {
        self.walk(&mut Walk::random(instances), instances).map_err(|why| format!("{}: {why}", self.name()))
    }
}

/// The number of programs of a soak that walks all cases.
pub fn programs() -> u64 {
    CASES.len() as u64 * SHARDS
}

/// The program of that number.
///
/// # Errors
/// As [`Case::check_shard`].
pub fn check(number: u64) -> Result<(), String> {
    let case = &CASES[(number / SHARDS) as usize % CASES.len()];
    case.check_shard(number % SHARDS).map(|_| ())
}

/// Choices made in every way, one after another; or at random.
struct Walk {
    /// What was chosen, and of how many.
    chosen: Vec<(usize, usize)>,
    at: usize,
    /// Where the first choices start that are dealt out among shards.
    starts: [usize; 2],
    random: Option<Random>,
    /// Whether what was made belongs to another shard.
    is_outside: bool,
}

impl Walk {
    fn shard(shard: u64) -> Walk {
        let starts = [shard as usize % DEALT, shard as usize / DEALT];
        Walk { chosen: Vec::new(), at: 0, starts, random: None, is_outside: false }
    }

    fn random(seed: u64) -> Walk {
        Walk { random: Some(Random::new(seed)), ..Walk::shard(0) }
    }

    fn pick(&mut self, count: usize) -> usize {
        if let Some(random) = &mut self.random {
            return random.below(count);
        }
        if self.at == self.chosen.len() {
            let first = self.starts.get(self.at).copied().unwrap_or(0);
            self.chosen.push((first, count));
        }
        let (choice, count) = self.chosen[self.at];
        self.is_outside |= choice >= count;
        self.at += 1;
        choice.min(count - 1)
    }

    fn one_of<T: Clone>(&mut self, things: &[T]) -> T {
        things[self.pick(things.len())].clone()
    }

    /// Whether what the choices made belongs to this shard. What takes fewer choices than are dealt out belongs to the first.
    fn is_own(&self) -> bool {
        !self.is_outside && self.starts.iter().skip(self.at).all(|start| *start == 0) || self.random.is_some()
    }

    /// Goes on to the next choices; false if there are none.
    fn advance(&mut self) -> bool {
        if self.random.is_some() {
            return true;
        }
        // What follows a choice that is outside is outside as well.
        let outside = self.chosen.iter().position(|(choice, count)| choice >= count);
        self.chosen.truncate(outside.map_or(self.at, |number| number + 1));
        (self.at, self.is_outside) = (0, false);
        while let Some((choice, count)) = self.chosen.pop() {
            let next = choice + if self.chosen.len() < self.starts.len() { DEALT } else { 1 };
            if next < count {
                self.chosen.push((next, count));
                return true;
            }
        }
        false
    }
}

/// Makes operands of a small domain.
struct Small<'w> {
    walk: &'w mut Walk,
    bits: u32,
    deep: bool,
    casts: bool,
    is_single: bool,
    leaves: usize,
    shared: [Option<UOp>; 2],
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
        let place = vec![UOp::param(self.leaves as u32, dtype, 1), UOp::index(0)];
        UOp::new(Op::Load, dtype, vec![UOp::new(Op::Index, dtype, place, Arg::None)], Arg::None)
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

/// Counts what a pattern leaves open.
#[derive(Default)]
struct Counter {
    leaves: u32,
    constants: u32,
    bools: u32,
}

impl Maker for Counter {
    fn leaf(&mut self, dtype: DType) -> UOp {
        match dtype.is_bool() {
            true => self.bools += 1,
            false => self.leaves += 1,
        }
        UOp::variable(&format!("x{}", self.leaves + self.bools), 0, 9).cast(dtype)
    }

    fn constant(&mut self, dtype: DType) -> UOp {
        self.constants += 1;
        UOp::int(1, dtype)
    }

    fn operand_type(&mut self) -> DType {
        DType::INDEX
    }
}

/// Every assignment of leaves; of several narrow numbers, small ones and those at the ends.
fn assignments(leaves: &[UOp]) -> Vec<Vec<Scalar>> {
    let unknown = leaves.iter().filter(|leaf| leaf.dtype().bytes() == 1 && !leaf.dtype().is_bool()).count();
    let is_alone = leaves.len() == 1;
    let mut all = vec![Vec::new()];
    for leaf in leaves {
        let values = values_of(leaf, unknown, is_alone);
        all = all
            .into_iter()
            .flat_map(|head: Vec<Scalar>| {
                values.iter().map(move |value| head.iter().copied().chain([*value]).collect::<Vec<_>>())
            })
            .collect();
    }
    all
}

/// So many numbers of a range are all tried beside other variables; only the ranges that are cast are longer.
const LONG_RANGE: i64 = 32;

/// Whether a number of a long range is near a place where a cast bends.
fn is_near_a_bend(number: i64, low: i64, high: i64) -> bool {
    let near = |place: i64, distance: i64| (number - place).abs() <= distance;
    near(0, 8) || near(low, 1) || near(high, 1) || [-256, -128, 128, 256].iter().any(|place| near(*place, 2))
}

fn values_of(leaf: &UOp, unknown: usize, is_alone: bool) -> Vec<Scalar> {
    let dtype = leaf.dtype();
    match dtype {
        DType::BOOL => vec![Scalar::Bool(false), Scalar::Bool(true)],
        DType::INDEX => {
            let (low, high) = (leaf.min_value(), leaf.max_value());
            let is_tried = |number: &i64| is_alone || high - low < LONG_RANGE || is_near_a_bend(*number, low, high);
            (low..=high).filter(is_tried).map(Scalar::Int).collect()
        }
        _ if unknown > 2 => [-8, -1, 0, 1, 127].map(|value| Scalar::from_i64(value, dtype)).to_vec(),
        _ if unknown == 2 => {
            let ends = [64, 100, 127, -128, -127, -100];
            (-8..8).chain(ends).map(|value| Scalar::from_i64(value, dtype)).collect()
        }
        _ => (0..256).map(|bits| Scalar::from_bits(bits, dtype)).collect(),
    }
}
