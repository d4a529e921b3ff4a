//! Powers, with every special case of IEEE 754's `pow` for floats and wrapping arithmetic for integers.
//!
//! A float power is 2^(b log2|a|) with the sign put back. The product needs more digits than the type has, since its error is
//! magnified by up to 88: `f32` and the halves take it in `f64`; `f64` recovers the rounding of the product with one `muladd` and keeps the
//! error of log2, so a large result is off by up to some 1e-13 of itself.

use super::math::{is_negative, known, magnitude};
use crate::ir::Function;
use crate::ops::create::{full_like, without_own};
use crate::ops::shapes::common_dtype;
use crate::ops::{Built, broadcast, fail, number, to_float};
use crate::{DType, UOp};

/// a to the power b.
pub fn pow(a: &UOp, b: &UOp) -> Built {
    let dtype = common_dtype([a, b])?;
    if let (true, Some(exponent)) = (b.shape().is_empty(), without_own(b).as_scalar()) {
        if dtype.is_float() {
            if let Some(power) = constant_power(&a.cast(dtype), exponent.to_f64()) {
                return Ok(if b.as_scalar().is_some() { power } else { of_exponent(power, a, b)? });
            }
        } else if let Some(exponent) = b.as_int() {
            if exponent < 0 {
                fail!("an integer to the negative power {exponent} is no integer: cast to a float first");
            }
            return Ok(integer_power(&a.cast(dtype), exponent as u64));
        }
    }
    if dtype.is_bool() {
        fail!("bools have no powers: cast to an integer or float first");
    }
    let [a, b] = broadcast([a, b])?;
    if dtype.is_float() { Ok(float_power(&a, &b)) } else { Ok(integer_powers(&a, &b)) }
}

/// A power whose exponent is a constant and may be differentiated by: as a product it says what goes to the base, as a power what goes to the exponent.
fn of_exponent(power: UOp, a: &UOp, b: &UOp) -> Built {
    let [base, exponent] = broadcast([&a.cast(power.dtype()).detach(), &b.cast(power.dtype())])?;
    let alike = &power + known(Function::Pow, power.clone(), &[&base, &exponent]);
    Ok(known(Function::Alike, power, &[&alike]))
}

/// Exponents for which a product, a root or a quotient says the same.
fn constant_power(a: &UOp, exponent: f64) -> Option<UOp> {
    let a = to_float(a);
    let inverse = |x: &UOp| number(1.0, x).div(x);
    match exponent {
        // Differentiated as a power, by which the base gets zeros.
        0.0 => Some(known(Function::Pow, full_like(&a, 1), &[&a, &number(0.0, &a)])),
        1.0 => Some(a),
        2.0 | 3.0 | 4.0 => Some(integer_power(&a, exponent as u64)),
        0.5 => Some(a.sqrt()),
        -1.0 => Some(inverse(&a)),
        -2.0 => Some(inverse(&(&a * &a))),
        -0.5 => Some(inverse(&a.sqrt())),
        _ => None,
    }
}

/// By squaring.
fn integer_power(a: &UOp, mut exponent: u64) -> UOp {
    let mut power: Option<UOp> = None;
    let mut square = a.clone();
    while exponent > 0 {
        if exponent & 1 == 1 {
            power = Some(power.map_or_else(|| square.clone(), |power| power * &square));
        }
        exponent >>= 1;
        if exponent > 0 {
            square = &square * &square;
        }
    }
    // a to the power 0 keeps the shape of a.
    power.unwrap_or_else(|| full_like(a, 1))
}

/// By squaring, bit by bit of the exponents; negative ones give 0 but for 1 and -1.
fn integer_powers(a: &UOp, b: &UOp) -> UOp {
    let (zero, one) = (a.const_like(0), a.const_like(1));
    let mut power = one.clone();
    let mut square = a.clone();
    for bit in 0..a.dtype().bits() {
        let set = b.and(&UOp::int(1i64.wrapping_shl(bit), b.dtype())).differs(&zero);
        power = &power * set.select(&square, &one);
        square = &square * &square;
    }
    if !b.dtype().is_signed() {
        return power;
    }
    let odd = b.and(&one).differs(&zero);
    let minus_one = a.const_like(-1);
    let sign = odd.select(&minus_one, &one);
    let unit = a.equals(&one).select(&one, a.equals(&minus_one).select(&sign, &zero));
    b.lt(&zero).select(unit, power)
}

fn float_power(a: &UOp, b: &UOp) -> UOp {
    let single = |x: &UOp| if x.dtype() == DType::F64 { x.clone() } else { x.cast(DType::F32) };
    let (base, exponent) = (single(a), single(b));
    let power = positive_power(&magnitude(&base), &exponent);

    let whole = exponent.trunc().equals(&exponent);
    let half = &exponent * number(0.5, &exponent);
    let odd = whole.and(&half.trunc().differs(&half));
    let signed = is_negative(&base).and(&odd).select(power.negate(), &power);
    let (zero, one, infinite) = (number(0.0, &base), number(1.0, &base), number(f64::INFINITY, &base));
    // A finite negative number has real powers for whole exponents alone, among which infinity counts.
    let real = whole.or(&zero.lt(&base)).or(&base.equals(&zero)).or(&base.equals(&infinite.negate()));
    let signed = real.select(signed, number(f64::NAN, &base) + &base);
    let even_limit = base.equals(&number(-1.0, &base)).and(&magnitude(&exponent).equals(&infinite));
    let unit = exponent.equals(&zero).or(&base.equals(&one)).or(&even_limit);
    known(Function::Pow, unit.select(one, signed).cast(a.dtype()), &[a, b])
}

/// a >= 0; log2(0) and exponents that overflow are infinite, and clamped so that infinity does not meet zero.
fn positive_power(a: &UOp, b: &UOp) -> UOp {
    let ln2 = std::f64::consts::LN_2;
    if a.dtype() == DType::F64 {
        let logarithm = a.log2();
        let product = (b * &logarithm).max(number(-1080.0, a));
        let hi = product.min(number(1023.9999999999999, a));
        let exact = magnitude(&product).lt(&number(1022.0, a));
        let lost = b.muladd(&logarithm, &product.negate());
        let lo = exact.select(lost, &product - &hi);
        let power = hi.exp2();
        return power.muladd(&(lo * number(ln2, a)), &power);
    }
    let wide = b.cast(DType::F64) * a.cast(DType::F64).log2();
    let wide = wide.max(UOp::float(-151.0, DType::F64));
    let hi = wide.cast(DType::F32).min(number(127.99999237060547, a));
    let lo = (wide - hi.cast(DType::F64)).cast(DType::F32);
    let power = hi.exp2();
    power.muladd(&(lo * number(ln2, a)), &power)
}
