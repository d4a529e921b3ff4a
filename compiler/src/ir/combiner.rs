//! Reductions of several values at once: the table of *combiners*.
//!
//! A combiner's *state* is a few values, its *components*. Two states are combined into one by an expression over both, and a reduction combines
//! the states of all elements, beginning with the *identity*, which changes nothing. Reductions hold the components of an element as
//! operands, and give one component of the outcome; those that differ in the component alone are one loop.
//!
//! ```text
//! index = reduce x, indices, argmax_first #1 (1)      the index of the largest x along axis 1
//! most  = reduce x, indices, argmax_first #0 (1)      its value, found by the same loop
//! ```
//!
//! Always: combining is associative, but for rounding, and commutative; a component has the type of its operand. Tests: the laws for random
//! states, below; values against definitions of their own in `interpret`.

use smallvec::{SmallVec, smallvec};

use super::arg::{Arg, ReduceOp};
use super::op::Op;
use super::uop::{Sources, UOp};
use crate::dtype::{DType, Scalar};

macro_rules! combiners {
    ($($name:ident $text:literal [$($component:ident)*] $meaning:literal;)*) => {
        /// A way to combine states of several components; see the table in this file.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Combiner { $(#[doc = $meaning] $name,)* }

        impl Combiner {
            /// Every combiner, in the order of the table.
            pub const ALL: &'static [Combiner] = &[$(Combiner::$name),*];

            /// The name in the text form.
            pub fn name(self) -> &'static str {
                match self { $(Combiner::$name => $text),* }
            }

            /// What the components of its state are called.
            pub fn components(self) -> &'static [&'static str] {
                match self { $(Combiner::$name => &[$(stringify!($component)),*]),* }
            }
        }
    };
}

combiners! {
    ArgMaxFirst "argmax_first" [value index]       "The largest value and its index, NaN being the largest; of equal ones the least index.";
    ArgMaxLast  "argmax_last"  [value index]       "The same; of equal ones the largest index.";
    ArgMinFirst "argmin_first" [value index]       "The smallest value and its index, NaN being the smallest; of equal ones the least index.";
    ArgMinLast  "argmin_last"  [value index]       "The same; of equal ones the largest index.";
    Moments     "moments"      [mean squares count] "The mean of so many numbers and the sum of squared distances from it (Welford; Chan, Golub and LeVeque).";
    LogSumExp   "logsumexp"    [largest sum]       "The largest exponent, and the sum of powers of e relative to it.";
    SoftmaxSum  "softmax_sum"  [largest sum weighted] "The same, and a sum of values weighted by these powers.";
}

/// One component of what a combiner gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Component {
    /// How states are combined.
    pub combiner: Combiner,
    /// Which component of the outcome is meant.
    pub number: u8,
}

impl Combiner {
    /// The combiner of that name in the text form.
    pub fn from_name(name: &str) -> Option<Combiner> {
        Combiner::ALL.iter().copied().find(|combiner| combiner.name() == name)
    }

    /// How many components a state has.
    pub fn arity(self) -> usize {
        self.components().len()
    }

    /// Whether the outcome depends on the order in which states are combined, since each step rounds.
    pub fn is_rounded(self) -> bool {
        matches!(self, Combiner::Moments | Combiner::LogSumExp | Combiner::SoftmaxSum)
    }

    /// Whether a component of two states' outcome is made of another component of theirs, or is that one.
    pub fn reads(self, number: usize, other: usize) -> bool {
        match self {
            Combiner::LogSumExp | Combiner::SoftmaxSum => other == 0 || other == number,
            _ => true,
        }
    }

    /// Whether a component may be of that type.
    pub fn admits(self, number: usize, dtype: DType) -> bool {
        match (self, number) {
            (Combiner::Moments | Combiner::LogSumExp | Combiner::SoftmaxSum, _) => dtype.is_float(),
            (_, 0) => dtype.is_float() || dtype.is_integer() || dtype.is_bool(),
            _ => dtype.is_integer(),
        }
    }

    /// The component of the state that changes nothing.
    pub fn identity(self, number: usize, dtype: DType) -> Scalar {
        let is_index = number == 1;
        match self {
            Combiner::ArgMaxFirst | Combiner::ArgMinFirst if is_index => Scalar::highest(dtype),
            Combiner::ArgMaxLast | Combiner::ArgMinLast if is_index => Scalar::lowest(dtype),
            Combiner::ArgMaxFirst | Combiner::ArgMaxLast => Scalar::lowest(dtype),
            Combiner::ArgMinFirst | Combiner::ArgMinLast => Scalar::highest(dtype),
            Combiner::LogSumExp | Combiner::SoftmaxSum if number == 0 => Scalar::lowest(dtype),
            Combiner::LogSumExp | Combiner::SoftmaxSum | Combiner::Moments => Scalar::zero(dtype),
        }
    }

    /// The state of one element, if one element is enough to have one: an exponent's.
    pub fn of_element(self, x: &UOp) -> Option<SmallVec<[UOp; 3]>> {
        let one = || UOp::constant(Scalar::one(x.dtype()), x.dtype());
        (self == Combiner::LogSumExp).then(|| smallvec![x.clone(), one()])
    }

    /// What a state comes to, in the terms of one element: the logarithm of the sum of powers. Nothing of a combiner whose elements are not
    /// of that kind.
    pub fn outcome(self, state: &[UOp]) -> Option<UOp> {
        let ln_2 = Scalar::from_f64(std::f64::consts::LN_2, state[0].dtype().element());
        let log = || state[1].log2() * UOp::constant(ln_2, state[0].dtype());
        (self == Combiner::LogSumExp).then(|| &state[0] + log())
    }

    /// The state that two states make, as an expression over their components: of tensors, values of loops, or vectors.
    pub fn combine(self, a: &[UOp], b: &[UOp]) -> SmallVec<[UOp; 3]> {
        match self {
            Combiner::ArgMaxFirst => extreme(a, b, &a[0].lt(&b[0]), &b[1].lt(&a[1])),
            Combiner::ArgMaxLast => extreme(a, b, &a[0].lt(&b[0]), &a[1].lt(&b[1])),
            Combiner::ArgMinFirst => extreme(a, b, &b[0].lt(&a[0]), &b[1].lt(&a[1])),
            Combiner::ArgMinLast => extreme(a, b, &b[0].lt(&a[0]), &a[1].lt(&b[1])),
            Combiner::Moments => moments(a, b),
            Combiner::LogSumExp | Combiner::SoftmaxSum => log_sum_exp(a, b),
        }
    }
}

/// The better of two; `is_better`: the second by its value, `is_preferred`: the second by its index.
fn extreme(a: &[UOp], b: &[UOp], is_better: &UOp, is_preferred: &UOp) -> SmallVec<[UOp; 3]> {
    let equal = a[0].equals(&b[0]);
    let wins = if a[0].dtype().is_float() {
        let is_nan = b[0].differs(&b[0]);
        let first = a[0].equals(&a[0]).and(&is_nan);
        is_better.or(&first).or(&is_preferred.and(&equal.or(&is_nan)))
    } else {
        is_better.or(&is_preferred.and(&equal))
    };
    smallvec![wins.select(&b[0], &a[0]), wins.select(&b[1], &a[1])]
}

/// Each part's squares, and those of the distances of its mean from the mean of all: what is summed is never negative, so nothing cancels.
fn moments(a: &[UOp], b: &[UOp]) -> SmallVec<[UOp; 3]> {
    let zero = UOp::constant(Scalar::zero(a[0].dtype()), a[0].dtype());
    let count = &a[2] + &b[2];
    let mean = &a[0] * a[2].div(&count) + &b[0] * b[2].div(&count);
    let moved = |part: &[UOp]| {
        let distance = &part[0] - &mean;
        &part[2] * (&distance * &distance) + &part[1]
    };
    let squares = moved(a) + moved(b);
    // A part of nothing has no mean.
    let (no_a, no_b) = (a[2].equals(&zero), b[2].equals(&zero));
    let either = |k: usize, both: &UOp| no_a.select(&b[k], no_b.select(&a[k], both));
    smallvec![either(0, &mean), either(1, &squares), count]
}

/// Sums relative to the larger exponent, so that one power serves both. What is equal to it is not subtracted: infinities have no difference.
fn log_sum_exp(a: &[UOp], b: &[UOp]) -> SmallVec<[UOp; 3]> {
    let (largest, smallest) = (a[0].max(&b[0]), a[0].min(&b[0]));
    let one = UOp::constant(Scalar::one(largest.dtype()), largest.dtype());
    let log2_e = UOp::constant(Scalar::from_f64(std::f64::consts::LOG2_E, largest.dtype()), largest.dtype());
    let power = ((&smallest - &largest) * &log2_e).exp2();
    let factor = |part: &[UOp]| part[0].equals(&largest).select(&one, &power);
    let (of_a, of_b) = (factor(a), factor(b));
    let sums = a[1..].iter().zip(&b[1..]).map(|(a, b)| a * &of_a + b * &of_b);
    std::iter::once(largest.clone()).chain(sums).collect()
}

impl Arg {
    /// How many operands of a reduction stand before the ranges that it closes.
    pub fn values_of_reduction(&self) -> usize {
        match self {
            Arg::CombineState(component) => component.combiner.arity(),
            // The new components, and the accumulators that hold them.
            Arg::Step(component) => 2 * component.combiner.arity(),
            _ => 1,
        }
    }
}

/// How values are combined by a reduction: one by an op, or several by a combiner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Combining {
    /// One value.
    One(ReduceOp),
    /// The components of a state, one of which is given.
    Several(Component),
}

impl Combining {
    /// What a reduction does.
    pub fn of(node: &UOp) -> Option<Combining> {
        match node.arg() {
            Arg::Reduce(op, _) | Arg::Combine(op) => Some(Combining::One(*op)),
            Arg::ReduceState(component, _) | Arg::CombineState(component) => Some(Combining::Several(*component)),
            _ => None,
        }
    }

    /// As [`Combining::of`], of what is known to reduce.
    ///
    /// # Panics
    /// If it does not.
    pub fn of_reduction(node: &UOp) -> Combining {
        Combining::of(node).unwrap_or_else(|| panic!("bug in the compiler: reduction with argument {:?}", node.arg()))
    }

    /// How many values it combines.
    pub fn arity(self) -> usize {
        match self {
            Combining::One(_) => 1,
            Combining::Several(component) => component.combiner.arity(),
        }
    }

    /// Which of the outcome's components is given.
    pub fn number(self) -> usize {
        match self {
            Combining::One(_) => 0,
            Combining::Several(component) => component.number as usize,
        }
    }

    /// The value that changes nothing, for a component.
    pub fn identity(self, number: usize, dtype: DType) -> UOp {
        let value = match self {
            Combining::One(op) => op.identity(dtype.element()),
            Combining::Several(component) => component.combiner.identity(number, dtype.element()),
        };
        UOp::constant(value, dtype)
    }

    /// Two states combined; single bools by logic.
    pub fn combine(self, a: &[UOp], b: &[UOp]) -> SmallVec<[UOp; 3]> {
        match self {
            Combining::One(op) => smallvec![op.combine(&a[0], &b[0])],
            Combining::Several(component) => component.combiner.combine(a, b),
        }
    }

    /// All components of values reduced over ranges; the values themselves if there are none.
    pub fn reduce_ranges(self, values: &[UOp], ranges: &[UOp]) -> SmallVec<[UOp; 3]> {
        if ranges.is_empty() {
            return values.iter().cloned().collect();
        }
        let src: Sources = values.iter().chain(ranges).cloned().collect();
        let one = |number: usize| {
            let arg = match self {
                Combining::One(op) => Arg::Combine(op),
                Combining::Several(component) => Arg::CombineState(Component { number: number as u8, ..component }),
            };
            UOp::new(Op::ReduceRange, values[number].dtype(), src.clone(), arg)
        };
        (0..self.arity()).map(one).collect()
    }

    /// All components of tensors reduced along axes.
    pub fn reduce_all(self, values: &[UOp], axes: &[usize]) -> Vec<UOp> {
        match self {
            Combining::One(op) => vec![values[0].reduce(op, axes)],
            Combining::Several(component) => UOp::reduce_states(component.combiner, values, axes),
        }
    }

    /// The component that is given of values reduced over ranges.
    pub fn reduce_range(self, values: &[UOp], ranges: &[UOp]) -> UOp {
        self.reduce_ranges(values, ranges).swap_remove(self.number())
    }
}

impl ReduceOp {
    /// Two values combined; bools by logic.
    pub fn combine(self, a: &UOp, b: &UOp) -> UOp {
        match (self, a.dtype().is_bool()) {
            (ReduceOp::Add | ReduceOp::Max, true) => a | b,
            (ReduceOp::Mul | ReduceOp::Min, true) => a & b,
            _ => UOp::binary(self.op(), a, b),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::Evaluator;

    fn types(combiner: Combiner) -> Vec<DType> {
        match combiner {
            Combiner::Moments | Combiner::LogSumExp | Combiner::SoftmaxSum => vec![DType::F64; combiner.arity()],
            _ => vec![DType::F64, DType::I32],
        }
    }

    fn states(combiner: Combiner) -> Vec<Vec<Scalar>> {
        let dtypes = types(combiner);
        let state =
            |values: &[f64]| values.iter().zip(&dtypes).map(|(x, dtype)| Scalar::from_f64(*x, *dtype)).collect();
        let mut states: Vec<Vec<Scalar>> = match combiner {
            Combiner::Moments => [[1.5, 2.0, 3.0], [-1e9, 0.25, 1.0], [4.0, 0.0, 8.0], [1e30, 1.0, 1.0]]
                .map(|values| state(&values))
                .to_vec(),
            Combiner::LogSumExp => {
                let (low, high) = (f64::NEG_INFINITY, f64::INFINITY);
                [[1.5, 2.0], [-700.0, 0.25], [low, 0.0], [low, 3.0], [high, 1.0], [800.0, 1.0]]
                    .map(|values| state(&values))
                    .to_vec()
            }
            Combiner::SoftmaxSum => {
                let (low, high) = (f64::NEG_INFINITY, f64::INFINITY);
                let ordinary = [[1.5, 2.0, -0.5], [-700.0, 0.25, 3.0], [800.0, 1.0, 7.0]];
                let infinite = [[low, 0.0, 0.0], [low, 3.0, 1.0], [high, 1.0, -2.0]];
                ordinary.iter().chain(&infinite).map(|values| state(values)).collect()
            }
            _ => [[1.0, 4.0], [1.0, 2.0], [-0.0, 7.0], [0.0, 9.0], [f64::NAN, 3.0], [f64::NAN, 5.0], [-3.0, 0.0]]
                .map(|values| state(&values))
                .to_vec(),
        };
        states.push((0..combiner.arity()).map(|number| combiner.identity(number, dtypes[number])).collect());
        states
    }

    /// What combines two states, by the evaluator of scalars.
    fn combination(combiner: Combiner) -> impl FnMut(&[Scalar], &[Scalar]) -> Vec<Scalar> {
        let dtypes = types(combiner);
        let leaf = |slot: usize| UOp::param(slot as u32, dtypes[slot % dtypes.len()], 1);
        let leaves: Vec<UOp> = (0..2 * combiner.arity()).map(leaf).collect();
        let (first, second) = leaves.split_at(combiner.arity());
        let mut evaluator = Evaluator::new(&combiner.combine(first, second));
        let slots: Vec<usize> =
            (evaluator.leaves().iter()).map(|leaf| leaves.iter().position(|known| known == leaf).unwrap()).collect();
        move |a: &[Scalar], b: &[Scalar]| {
            let all = [a, b].concat();
            let values: Vec<Scalar> = slots.iter().map(|&slot| all[slot]).collect();
            evaluator.evaluate(&values).unwrap().into_vec()
        }
    }

    fn agree(a: &[Scalar], b: &[Scalar]) -> bool {
        a.iter().zip(b).all(|(a, b)| {
            let (a, b) = (a.to_f64(), b.to_f64());
            a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= 1e-12 * a.abs().max(b.abs())
        })
    }

    #[test]
    fn combining_is_associative_and_commutative_and_has_an_identity() {
        for &combiner in Combiner::ALL {
            let states = states(combiner);
            let identity = states.last().unwrap().clone();
            let mut combined = combination(combiner);
            for a in &states {
                assert!(agree(&combined(a, &identity), a), "{combiner:?} {a:?}");
                assert!(agree(&combined(&identity, a), a), "{combiner:?} {a:?}");
                for b in &states {
                    let both = combined(a, b);
                    assert!(agree(&both, &combined(b, a)), "{combiner:?} {a:?} {b:?}");
                    for c in &states {
                        let left = combined(&both, c);
                        let last = combined(b, c);
                        let right = combined(a, &last);
                        assert!(agree(&left, &right), "{combiner:?} {a:?} {b:?} {c:?}: {left:?} {right:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn components_are_made_of_those_that_they_are_said_to_read() {
        for &combiner in Combiner::ALL {
            let dtypes = types(combiner);
            let leaf = |slot: usize| UOp::param(slot as u32, dtypes[slot % dtypes.len()], 1);
            let leaves: Vec<UOp> = (0..2 * combiner.arity()).map(leaf).collect();
            let (first, second) = leaves.split_at(combiner.arity());
            for (number, component) in combiner.combine(first, second).into_iter().enumerate() {
                let below = crate::ir::postorder(&[component]);
                for other in 0..combiner.arity() {
                    let is_read = [&first[other], &second[other]].iter().any(|leaf| below.contains(leaf));
                    assert!(!is_read || combiner.reads(number, other), "{combiner:?} {number} {other}");
                }
            }
        }
    }

    #[test]
    fn names_are_read_back() {
        assert!(Combiner::ALL.iter().all(|combiner| Combiner::from_name(combiner.name()) == Some(*combiner)));
        assert_eq!(Combiner::from_name("add"), None);
    }
}
