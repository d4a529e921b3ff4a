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

mod assignments;
mod operands;
mod walk;

use std::sync::LazyLock;

use warpweft_compiler::DType;
use warpweft_compiler::ir::{Op, UOp};
use warpweft_compiler::rewrite::{Maker, Rule, RuleSet, instance};

use assignments::assignments;
use operands::Small;
use walk::Walk;

use super::{Outcome, check_instance};

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
