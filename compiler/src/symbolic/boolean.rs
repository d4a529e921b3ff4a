//! Truth values and choices.

use super::integer::out_of_order;
use super::terms::{Sum, is_long};
use crate::dtype::DType;
use crate::ir::{Op, UOp, gcd};
use crate::rewrite::Pattern;
use crate::rules;

rules! {
    /// Logic. Arithmetic on bools is logic too.
    pub BOOLEAN |root| for root.dtype().is_bool() && root.shape().is_empty() =>
    "and-true":         [x]       x & true                  => x;
    "and-false":        [x]       x & false                 => false;
    "or-true":          [x]       x | true                  => true;
    "or-false":         [x]       x | false                 => x;
    "xor-false":        [x]       x ^ false                 => x;
    "xor-true":         [x]       x ^ true                  => !x;
    "and-self":         [x]       x & x                     => x;
    "or-self":          [x]       x | x                     => x;
    "xor-self":         [x]       x ^ x                     => false;
    "not-not":          [x]       !(!x)                     => x;
    "and-not-self":     [x]       x & !x                    => false;
    "or-not-self":      [x]       x | !x                    => true;
    "absorb-and":       [x, y]    x & (x | y)               => x;
    "absorb-or":        [x, y]    x | (x & y)               => x;
    "and-twice":        [x, y]    (x & y) & y               => x & y;
    "or-twice":         [x, y]    (x | y) | y               => x | y;
    "not-and-not":      [x, y]    !x & !y                   => !(x | y);
    "not-or-not":       [x, y]    !x | !y                   => !(x & y);
    "mul-is-and":       [x, y]    x * y                     => x & y;
    "add-is-or":        [x, y]    x + y                     => x | y;
    "max-is-or":        [x, y]    x.max(y)                  => x | y;
    "min-is-and":       [x, y]    x.min(y)                  => x & y;
    "choose-itself":    [p]       p.select(true, false)     => p;
    "choose-its-not":   [p]       p.select(false, true)     => !p;
    "choose-or-false":  [p, x]    p.select(x, false)        => p & x;
    "choose-or-true":   [p, x]    p.select(x, true)         => !p | x;
    "true-or-choose":   [p, x]    p.select(true, x)         => p | x;
    "false-or-choose":  [p, x]    p.select(false, x)        => !p & x;
    "order-and":        [x, y]    x & y                     => y & x, if out_of_order(root);
    "order-or":         [x, y]    x | y                     => y | x, if out_of_order(root);
    "order-xor":        [x, y]    x ^ y                     => y ^ x, if out_of_order(root);
}

rules! {
    /// Choices between values of any type.
    pub CHOICE |root| for root.shape().is_empty() =>
    "choose-same":      [p, x]        p.select(x, x)                    => x;
    "choose-true":      [x, y]        Pattern::from(true).select(x, y)  => x;
    "choose-false":     [x, y]        Pattern::from(false).select(x, y) => y;
    "choose-by-not":    [p, x, y]     (!p).select(x, y)                 => p.select(y, x);
    "choose-both":      [p, q, x, y]  p.select(q.select(x, y), y)       => (p & q).select(x, y);
    "choose-either":    [p, q, x, y]  p.select(x, q.select(x, y))       => (p | q).select(x, y);
    "choose-first-not": [p, q, x, y]  p.select(q.select(y, x), y)       => (p & !q).select(x, y);
    "choose-not-second": [p, q, x, y] p.select(x, q.select(y, x))       => (p | !q).select(x, y);
    "choose-again":     [p, x, y, z]  p.select(p.select(x, y), z)       => p.select(x, z);
    "choose-other":     [p, x, y, z]  p.select(x, p.select(y, z))       => p.select(x, z);
    "choose-one":       [p]           p.select(1, 0)                    => p.cast(root.dtype()), if root.dtype().is_integer();
    "choose-zero":      [p]           p.select(0, 1)                    => (!p).cast(root.dtype()), if root.dtype().is_integer();
    "choose-between":   [p, x, y]     p.select(x, y)                    => take_common(p, x, y), if root.dtype() == DType::INDEX;
    "max-of-choices": [p, x, y, z, w] p.select(x, y).max(p.select(z, w)) => p.select(x.max(z), y.max(w)), if folds(x, z) || folds(y, w);
    "min-of-choices": [p, x, y, z, w] p.select(x, y).min(p.select(z, w)) => p.select(x.min(z), y.min(w)), if folds(x, z) || folds(y, w);
    "less-of-choices": [p, x, y, z, w] p.select(x, y).lt(p.select(z, w)) => p.select(x.lt(z), y.lt(w)), if folds(x, z) || folds(y, w);
    "differs-of-choices": [p, x, y, z, w] p.select(x, y).differs(p.select(z, w)) => p.select(x.differs(z), y.differs(w)), if folds(x, z) || folds(y, w);
    "equals-of-choices": [p, x, y, z, w] p.select(x, y).equals(p.select(z, w)) => p.select(x.equals(z), y.equals(w)), if folds(x, z) || folds(y, w);
    "div-of-choices": [p, x, y, z, w] p.select(x, y).idiv(p.select(z, w)) => p.select(x.idiv(z), y.idiv(w)), if folds(x, z) || folds(y, w);
    "mod-of-choices": [p, x, y, z, w] p.select(x, y).modulo(p.select(z, w)) => p.select(x.modulo(z), y.modulo(w)), if folds(x, z) || folds(y, w);
    "less-of-choice":   [p, x, y, c]  p.select(x, y).lt(c)              => p.select(x.lt(c), y.lt(c)), if x.op() == Op::Const || y.op() == Op::Const;
    "choice-is-less":   [p, x, y, c]  c.lt(p.select(x, y))              => p.select(c.lt(x), c.lt(y)), if x.op() == Op::Const || y.op() == Op::Const;
    "differs-of-choice": [p, x, y, c] p.select(x, y).differs(c)         => p.select(x.differs(c), y.differs(c)), if x.op() == Op::Const || y.op() == Op::Const;
    "equals-of-choice": [p, x, y, c]  p.select(x, y).equals(c)          => p.select(x.equals(c), y.equals(c)), if x.op() == Op::Const || y.op() == Op::Const;
    "cast-to-itself":   [x]           x.cast_any()                      => x, if x.dtype() == root.dtype();
    "cast-exactly":     [x]           x.cast_any().cast_any()           => x.cast(root.dtype()), if keeps_value(x, &root.src()[0]);
}

/// Whether an op on both is a constant.
fn folds(x: &UOp, y: &UOp) -> bool {
    x.op() == Op::Const && y.op() == Op::Const
}

/// What the two sides of a choice have in common stands outside: terms, and a common factor.
fn take_common(p: &UOp, x: &UOp, y: &UOp) -> Option<UOp> {
    if is_long(x) || is_long(y) {
        return None;
    }
    let (x, y) = (Sum::of(x), Sum::of(y));
    let common = x.terms.iter().filter(|(atom, factor)| y.factor_of(atom) == *factor).cloned().collect();
    let common = Sum { terms: common, constant: 0 };
    let (yes, no) = (x.plus(&common, -1)?, y.plus(&common, -1)?);
    let numbers = [yes.gcd_of_factors(), no.gcd_of_factors(), yes.constant, no.constant];
    let factor = numbers.into_iter().fold(0, gcd).max(1);
    if common.terms.is_empty() && factor == 1 {
        return None;
    }
    let choice = p.select(yes.divided(factor).to_uop(), no.divided(factor).to_uop());
    Some(common.plus(&Sum::atom(choice), factor)?.to_uop())
}

/// Whether a cast of x loses nothing, so that what follows may start from x.
fn keeps_value(x: &UOp, cast: &UOp) -> bool {
    let (from, to) = (x.dtype(), cast.dtype());
    let whole = |dtype: DType| dtype.is_integer() || dtype.is_bool();
    // u64 has no bounds in i64.
    if !whole(from) || !whole(to) || from == DType::U64 || to == DType::U64 {
        return false;
    }
    !to.is_bool() && to.integer_bounds().is_some_and(|(low, high)| low <= x.min_value() && x.max_value() <= high)
}
