//! Arithmetic, comparison, logic, rounding and choice, element by element.
//!
//! Binary functions promote and broadcast their operands. Integers wrap; division by an integer zero gives 0; comparisons with
//! NaN are false, but for `ne`. `eq`, `lt` and the rest give bools.

use super::math::{atan2_same, is_negative, known, magnitude, with_sign};
use crate::dtype::Scalar;
use crate::dtype::lattice::{DEFAULT_FLOAT, DEFAULT_INT};
use crate::ir::{Function, Op};
use crate::ops::create::without_own;
use crate::ops::shapes::{broadcast_only, check_fits, common_dtype};
use crate::ops::{Built, broadcast, fail, number, to_float};
use crate::{DType, UOp};

/// How a quotient becomes an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// Toward minus infinity.
    Floor,
    /// Toward zero.
    Trunc,
}

macro_rules! binary {
    ($($(#[$doc:meta])* $name:ident |$a:ident, $b:ident| $value:expr;)*) => { $(
        $(#[$doc])*
        pub fn $name(a: &UOp, b: &UOp) -> Built {
            let [$a, $b] = &broadcast([a, b])?;
            Ok($value)
        }
    )* };
}

binary! {
    /// Sum; logical or of bools.
    add |a, b| a + b;
    /// Product; logical and of bools.
    mul |a, b| a * b;
    /// The larger; NaN if either is NaN.
    maximum |a, b| a.max(b);
    /// The smaller; NaN if either is NaN.
    minimum |a, b| a.min(b);
    /// Whether equal.
    eq |a, b| a.equals(b);
    /// Whether different.
    ne |a, b| a.differs(b);
    /// Whether less.
    lt |a, b| a.lt(b);
    /// Whether greater.
    gt |a, b| b.lt(a);
    /// Whether less or equal.
    le |a, b| at_most(a, b);
    /// Whether greater or equal.
    ge |a, b| at_most(b, a);
    /// Whether both are not zero.
    logical_and |a, b| truth(a).and(&truth(b));
    /// Whether one at least is not zero.
    logical_or |a, b| truth(a).or(&truth(b));
    /// Whether exactly one is not zero.
    logical_xor |a, b| truth(a).xor(&truth(b));
    /// Angle of the point (b, a), from -pi to pi.
    atan2 |a, b| atan2_same(&to_float(a), &to_float(b));
    /// The magnitude of a with the sign of b.
    copysign |a, b| signed_like(&to_float(a), &to_float(b));
}

/// Not `b < a`, which would hold for NaN.
pub(crate) fn at_most(a: &UOp, b: &UOp) -> UOp {
    if a.dtype().is_float() { a.lt(b).or(&a.equals(b)) } else { b.lt(a).not() }
}

/// a, or its negative if the sign bits differ; so that the derivative by a is 1 or -1, and 0 at 0, where the sign means nothing.
fn signed_like(a: &UOp, b: &UOp) -> UOp {
    let value = is_negative(a).differs(is_negative(b)).select(a.negate(), a);
    a.equals(&number(0.0, a)).select(value.detach(), value)
}

/// Whether not zero.
pub fn truth(x: &UOp) -> UOp {
    x.cast(DType::BOOL)
}

/// Difference.
pub fn sub(a: &UOp, b: &UOp) -> Built {
    let [a, b] = &broadcast([a, b])?;
    if a.dtype().is_bool() {
        fail!("bools have no difference: use logical_xor, or cast to an integer");
    }
    Ok(a - b)
}

/// Quotient; integers give floats.
pub fn div(a: &UOp, b: &UOp) -> Built {
    let [a, b] = &broadcast([a, b])?;
    Ok(to_float(a).div(to_float(b)))
}

/// Quotient rounded to an integer; integers stay integers.
pub fn div_rounded(a: &UOp, b: &UOp, rounding: Rounding) -> Built {
    let [a, b] = &broadcast([a, b])?;
    match (a.dtype().is_float(), rounding) {
        _ if a.dtype().is_bool() => fail!("bools have no integer quotient: cast to an integer"),
        (false, Rounding::Floor) => Ok(a.idiv(b)),
        (false, Rounding::Trunc) => Ok(a.cdiv(b)),
        (true, Rounding::Trunc) => Ok(a.div(b).trunc()),
        (true, Rounding::Floor) => Ok(floor_quotient(a, b)),
    }
}

/// (a - a mod b) / b, which is near an integer, rounded to it: the quotient itself may round up to the next one.
fn floor_quotient(a: &UOp, b: &UOp) -> UOp {
    let (zero, one) = (number(0.0, a), number(1.0, a));
    let remainder = a.cmod(b);
    let quotient = (a - &remainder).div(b);
    let crosses = remainder.differs(&zero).and(&remainder.lt(&zero).differs(b.lt(&zero)));
    let quotient = crosses.select(&quotient - &one, &quotient);
    let below = floor(&quotient);
    let nearest = number(0.5, a).lt(&(&quotient - &below)).select(&below + &one, &below);
    b.equals(&zero).select(a.div(b), nearest)
}

/// Remainder with the sign of the divisor; 0 for an integer divisor 0.
pub fn modulo(a: &UOp, b: &UOp) -> Built {
    let [a, b] = &broadcast([a, b])?;
    if a.dtype().is_bool() {
        fail!("bools have no remainder: cast to an integer");
    }
    if !a.dtype().is_float() {
        return Ok(a.modulo(b));
    }
    let zero = number(0.0, a);
    let remainder = a.cmod(b);
    let crosses = remainder.differs(&zero).and(&remainder.lt(&zero).differs(b.lt(&zero)));
    Ok(crosses.select(&remainder + b, remainder))
}

/// Remainder with the sign of the dividend; 0 for an integer divisor 0.
pub fn fmod(a: &UOp, b: &UOp) -> Built {
    let [a, b] = &broadcast([a, b])?;
    if a.dtype().is_bool() {
        fail!("bools have no remainder: cast to an integer");
    }
    Ok(a.cmod(b))
}

/// An op on bits, for integers and bools.
pub fn bitwise(op: Op, a: &UOp, b: &UOp) -> Built {
    let [a, b] = &broadcast([a, b])?;
    if a.dtype().is_float() || (a.dtype().is_bool() && matches!(op, Op::Shl | Op::Shr)) {
        fail!("works on the bits of integers, not on {}: cast or bitcast first", a.dtype());
    }
    Ok(UOp::binary(op, a, b))
}

/// All bits flipped, or logical not.
pub fn bitwise_not(x: &UOp) -> Built {
    if x.dtype().is_float() {
        fail!("works on the bits of integers, not on {}: cast or bitcast first", x.dtype());
    }
    Ok(x.not())
}

/// Whether zero.
pub fn logical_not(x: &UOp) -> UOp {
    truth(x).not()
}

/// Minus x.
pub fn neg(x: &UOp) -> Built {
    if x.dtype().is_bool() {
        fail!("bools have no negative: use logical_not, or cast to an integer");
    }
    Ok(x.negate())
}

/// Absolute value; the least integer stays itself.
pub fn abs(x: &UOp) -> UOp {
    match x.dtype() {
        dtype if dtype.is_float() => known(Function::Abs, magnitude(x), &[x]),
        dtype if dtype.is_signed() => x.max(x.negate()),
        _ => x.clone(),
    }
}

/// -1, 0 or 1; 0 for NaN.
pub fn sign(x: &UOp) -> UOp {
    if x.dtype().is_bool() {
        return x.clone();
    }
    let (zero, one) = (x.const_like(0), x.const_like(1));
    let positive = zero.lt(x).select(&one, &zero);
    if x.dtype().is_unsigned() { positive } else { x.lt(&zero).select(x.const_like(-1), positive) }
}

/// Whether the sign bit is set, or an integer is negative.
pub fn signbit(x: &UOp) -> UOp {
    if x.dtype().is_float() { is_negative(x) } else { x.lt(&x.const_like(0)) }
}

/// x times x.
pub fn square(x: &UOp) -> UOp {
    x * x
}

/// 1 / x.
pub fn reciprocal(x: &UOp) -> UOp {
    let x = to_float(x);
    number(1.0, &x).div(&x)
}

/// Rounded toward zero; integers as they are.
pub fn trunc(x: &UOp) -> UOp {
    if x.dtype().is_float() { x.trunc() } else { x.clone() }
}

/// Rounded down.
pub fn floor(x: &UOp) -> UOp {
    if !x.dtype().is_float() {
        return x.clone();
    }
    let truncated = x.trunc();
    x.lt(&truncated).select(&truncated - number(1.0, x), &truncated)
}

/// Rounded up.
pub fn ceil(x: &UOp) -> UOp {
    if !x.dtype().is_float() {
        return x.clone();
    }
    let truncated = x.trunc();
    truncated.lt(x).select(&truncated + number(1.0, x), &truncated)
}

/// Rounded to the nearest integer, ties to even.
pub fn round(x: &UOp) -> UOp {
    if !x.dtype().is_float() {
        return x.clone();
    }
    // The fraction is exact, so the tie is seen as such.
    let truncated = x.trunc();
    let (half, one) = (number(0.5, x), number(1.0, x));
    let fraction = magnitude(&(x - &truncated));
    let halved = &truncated * &half;
    let odd = halved.trunc().differs(&halved);
    let away = half.lt(&fraction).or(&fraction.equals(&half).and(&odd));
    away.select(&truncated + with_sign(&one, x), &truncated)
}

/// Whether NaN.
pub fn isnan(x: &UOp) -> UOp {
    x.differs(x)
}

/// Whether infinite.
pub fn isinf(x: &UOp) -> UOp {
    if !x.dtype().is_float() {
        return x.differs(x);
    }
    magnitude(x).equals(&number(f64::INFINITY, x))
}

/// Whether neither infinite nor NaN.
pub fn isfinite(x: &UOp) -> UOp {
    if !x.dtype().is_float() {
        return x.equals(x);
    }
    magnitude(x).lt(&number(f64::INFINITY, x))
}

/// Whether |a - b| <= atol + rtol |b|; infinities equal themselves.
pub fn isclose(a: &UOp, b: &UOp, rtol: f64, atol: f64, equal_nan: bool) -> Built {
    let [a, b] = &broadcast([a, b])?;
    let (a, b) = (&to_float(a), &to_float(b));
    let near = at_most(&magnitude(&(a - b)), &(number(atol, a) + magnitude(b) * number(rtol, a)));
    let close = a.equals(b).or(&near.and(&isfinite(b)));
    Ok(if equal_nan { close.or(&isnan(a).and(&isnan(b))) } else { close })
}

/// a where the condition holds, else b.
pub fn where_(condition: &UOp, a: &UOp, b: &UOp) -> Built {
    let dtype = common_dtype([a, b])?;
    let (condition, a, b) = (truth(condition), a.cast(dtype), b.cast(dtype));
    let [condition, a, b] = &broadcast_only([&condition, &a, &b])?;
    Ok(condition.select(a, b))
}

/// x, with `value` where the mask holds; keeps the type of x, which must hold the value if it is a constant.
pub fn masked_fill(x: &UOp, mask: &UOp, value: &UOp) -> Built {
    if let Some(number) = without_own(value).as_scalar() {
        check_fits(number, x.dtype())?;
    }
    where_(mask, &value.cast(x.dtype()), x)
}

/// Between two numbers, either of which may be absent; the highest wins where they cross. Integers beside a float bound become floats.
///
/// A bound counts by its value: one that integers of the type cannot pass changes nothing. No gradient where x is at a bound or beyond.
///
/// # Errors
/// If there is no bound, or one that the type cannot hold would have to be the result.
pub fn clamp(x: &UOp, lowest: Option<Scalar>, highest: Option<Scalar>) -> Built {
    let numbers = [lowest, highest];
    if numbers == [None, None] {
        fail!("needs a lowest or a highest value");
    }
    let is_float = |number: &Option<Scalar>| matches!(number, Some(Scalar::Float(_)));
    let x = &x.cast(match x.dtype() {
        dtype if dtype.is_float() => dtype,
        _ if numbers.iter().any(is_float) => DEFAULT_FLOAT,
        DType::BOOL if numbers.iter().flatten().all(|&number| check_fits(number, DEFAULT_INT).is_ok()) => DEFAULT_INT,
        DType::BOOL => DType::I64,
        dtype => dtype,
    });
    let mut value = x.clone();
    let mut inside = UOp::bool(true);
    for (number, is_lowest) in [(lowest, true), (highest, false)] {
        let Some(number) = number else { continue };
        if let Some(bound) = bound(number, x.dtype(), is_lowest)? {
            value = if is_lowest { value.max(&bound) } else { value.min(&bound) };
            inside = inside.and(&if is_lowest { bound.lt(x) } else { x.lt(&bound) });
        }
    }
    if !x.dtype().is_float() {
        return Ok(value);
    }
    let alike = inside.select(x, value.detach());
    Ok(known(Function::Alike, value, &[&alike]))
}

/// A bound as a constant; none if no value of the type is beyond it.
fn bound(number: Scalar, dtype: DType, is_lowest: bool) -> Built<Option<UOp>> {
    if let (Some((low, high)), Scalar::Int(value)) = (dtype.integer_bounds(), number)
        && !(low..=high).contains(&value)
    {
        if (value < low) == is_lowest {
            return Ok(None);
        }
        fail!(
            "the bound {value} is beyond all that {dtype} holds, {low} to {high}: cast the tensor to a larger type first"
        );
    }
    Ok(Some(UOp::constant(number.cast(dtype), dtype)))
}

/// a + weight (b - a).
pub fn lerp(a: &UOp, b: &UOp, weight: &UOp) -> Built {
    let [a, b, weight] = &broadcast([a, b, weight])?;
    let (a, b, weight) = (&to_float(a), &to_float(b), &to_float(weight));
    Ok(a + weight * (b - a))
}

/// NaN and infinities replaced; by 0 and the largest finite numbers where nothing is given.
pub fn nan_to_num(x: &UOp, nan: f64, highest: Option<f64>, lowest: Option<f64>) -> UOp {
    if !x.dtype().is_float() {
        return x.clone();
    }
    let largest = match x.dtype() {
        DType::F16 => 65504.0,
        DType::BF16 => f64::from(half::bf16::MAX),
        DType::F64 => f64::MAX,
        _ => f32::MAX as f64,
    };
    let infinite = number(f64::INFINITY, x);
    let x = isnan(x).select(number(nan, x), x);
    let x = x.equals(&infinite).select(number(highest.unwrap_or(largest), &x), x);
    x.equals(infinite.negate()).select(number(lowest.unwrap_or(-largest), &x), x)
}
