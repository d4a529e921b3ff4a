//! Identities of integers, true for every width, since arithmetic wraps in the same way on both sides.

use super::symbolic_division::{canonical_product, divided_by_symbol};
use super::terms::{atom_order, canonical_sum};
use super::{div_mod, terms};
use crate::dtype::{DType, Scalar};
use crate::ir::{Op, UOp};
use crate::rewrite::Pattern;
use crate::rules;

rules! {
    /// Integer identities, indices among them. A name that begins with `c` matches constants only.
    pub INTEGER |root| for root.dtype().is_integer() && root.shape().is_empty() =>
    "add-zero":        [x]          x + 0                      => x;
    "sub-zero":        [x]          x - 0                      => x;
    "sub-self":        [x]          x - x                      => 0;
    "add-consts":      [x, c1, c2]  (x + c1) + c2              => x + fold(c1 + c2);
    "mul-one":         [x]          x * 1                      => x;
    "mul-zero":        [x]          x * 0                      => 0;
    "mul-consts":      [x, c1, c2]  (x * c1) * c2              => x * fold(c1 * c2);
    "neg-neg":         [x]          -(-x)                      => x;
    "not-not":         [x]          !(!x)                      => x;
    "div-by-one":      [x]          x.idiv(1)                  => x;
    "div-self":        [x]          x.idiv(x)                  => 1, if x.min_value() > 0;
    "div-zero":        [x]          Pattern::from(0).idiv(x)   => 0;
    "mod-by-one":      [x]          x.modulo(1)                => 0;
    "mod-self":        [x]          x.modulo(x)                => 0;
    "mod-mod":         [x, y]       x.modulo(y).modulo(y)      => x.modulo(y);
    "mod-of-small":    [x, c]       x.modulo(c)                => x, if x.min_value() >= 0 && x.max_value() < c.min_value();
    "div-of-small":    [x, c]       x.idiv(c)                  => 0, if x.min_value() >= 0 && x.max_value() < c.min_value();
    "cdiv-by-one":     [x]          x.cdiv(1)                  => x;
    "cmod-by-one":     [x]          x.cmod(1)                  => 0;
    "and-zero":        [x]          x & 0                      => 0;
    "and-ones":        [x]          x & -1                     => x;
    "and-self":        [x]          x & x                      => x;
    "and-consts":      [x, c1, c2]  (x & c1) & c2              => x & fold(c1 & c2);
    "or-zero":         [x]          x | 0                      => x;
    "or-ones":         [x]          x | -1                     => -1;
    "or-self":         [x]          x | x                      => x;
    "xor-zero":        [x]          x ^ 0                      => x;
    "xor-self":        [x]          x ^ x                      => 0;
    "xor-twice":       [x, y]       (x ^ y) ^ y                => x;
    "shl-zero":        [x]          x.shl(0)                   => x;
    "shr-zero":        [x]          x.shr(0)                   => x;
    "max-self":        [x]          x.max(x)                   => x;
    "min-self":        [x]          x.min(x)                   => x;
    "max-consts":      [x, c1, c2]  x.max(c1).max(c2)          => x.max(fold(c1.max(c2)));
    "min-consts":      [x, c1, c2]  x.min(c1).min(c2)          => x.min(fold(c1.min(c2)));
    "max-of-larger":   [x, y]       x.max(y)                   => x, if never_less(x, y);
    "min-of-smaller":  [x, y]       x.min(y)                   => y, if never_less(x, y);
    "trunc-integer":   [x]          x.trunc()                  => x;
    "order-factors":   [x, y]       x * y                      => y * x, if out_of_order(root) && root.dtype() != DType::INDEX;
    "order-and":       [x, y]       x & y                      => y & x, if out_of_order(root);
    "order-or":        [x, y]       x | y                      => y | x, if out_of_order(root);
    "order-xor":       [x, y]       x ^ y                      => y ^ x, if out_of_order(root);
    "order-max":       [x, y]       x.max(y)                   => y.max(x), if out_of_order(root);
    "order-min":       [x, y]       x.min(y)                   => y.min(x), if out_of_order(root);
}

rules! {
    /// Index arithmetic, which does not wrap: sums in canonical order, quotients and remainders by constants, shifts as arithmetic.
    pub INDEX |root| for root.dtype() == DType::INDEX && root.shape().is_empty() =>
    "shl-is-mul":      [x, c]       x.shl(c)                   => power_of_two(c).map(|power| x * &power);
    "shr-is-div":      [x, c]       x.shr(c)                   => power_of_two(c).map(|power| x.idiv(&power));
    "mask-is-mod":     [x, c]       x & c                      => low_mask(c).map(|size| x.modulo(size));
    "not-is-sub":      [x]          !x                         => x * -1 + -1;
    "collect-sum":     []           Pattern::any(Op::Add, "sum")        => canonical_sum(root);
    "collect-sub":     []           Pattern::any(Op::Sub, "sum")        => canonical_sum(root);
    "collect-neg":     []           Pattern::any(Op::Neg, "sum")        => canonical_sum(root);
    "collect-factors": [x, y]       x * y                      => canonical_product(root);
    "scale-sum":       [x, c]       x * c                      => canonical_sum(root), if !terms::is_long(x);
    "divide-sum":      [x, c]       x.idiv(c)                  => div_mod::canonical_division(root), if !terms::is_long(x);
    "remainder-of-sum": [x, c]      x.modulo(c)                => div_mod::canonical_division(root), if !terms::is_long(x);
    "divide-by-symbol": [x, y]      x.idiv(y)                  => divided_by_symbol(root);
    "remainder-by-symbol": [x, y]   x.modulo(y)                => divided_by_symbol(root);
    "cdiv-is-div":     [x, y]       x.cdiv(y)                  => x.idiv(y), if x.min_value() >= 0 && y.min_value() > 0;
    "cmod-is-mod":     [x, y]       x.cmod(y)                  => x.modulo(y), if x.min_value() >= 0 && y.min_value() > 0;
}

/// A constant from one op of constants.
fn fold(node: UOp) -> UOp {
    let values: Option<Vec<Scalar>> = node.src().iter().map(UOp::as_scalar).collect();
    let value = values.and_then(|values| crate::ir::fold_constants(&node, &values));
    value.map_or(node.clone(), |value| UOp::constant(value, node.dtype()))
}

/// Whether x >= y always, by what is known of both or of their difference.
fn never_less(x: &UOp, y: &UOp) -> bool {
    if x.min_value() >= y.max_value() {
        return true;
    }
    if x.dtype() != DType::INDEX || terms::is_long(x) || terms::is_long(y) {
        return false;
    }
    let difference = terms::Sum::of(x).plus(&terms::Sum::of(y), -1);
    difference.and_then(|difference| difference.bounds()).is_some_and(|(low, _)| low >= 0)
}

/// Whether the operands of a commutative op stand in the other order than the canonical one: constants last.
pub(super) fn out_of_order(root: &UOp) -> bool {
    let [a, b] = root.src() else { return false };
    match (a.op() == Op::Const, b.op() == Op::Const) {
        (true, false) => true,
        (false, true) => false,
        _ => atom_order(a, b).is_gt(),
    }
}

fn power_of_two(exponent: &UOp) -> Option<UOp> {
    let exponent = exponent.as_int().filter(|exponent| (0..=62).contains(exponent))?;
    Some(UOp::index(1 << exponent))
}

/// The size 2^k of a mask of the k lowest bits.
fn low_mask(mask: &UOp) -> Option<i64> {
    let size = mask.as_int()?.checked_add(1)?;
    (size > 0 && size & (size - 1) == 0).then_some(size)
}
