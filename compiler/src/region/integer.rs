//! Exact integer arithmetic for sets: division towards minus infinity, gcd, lcm with a limit.

/// No extent, period, stride or address of a set is larger. Sums and differences of a few such numbers fit in an `i64`.
pub const LARGEST: i64 = 1 << 58;

/// `ceil(a / b)` for positive `b`.
#[must_use]
pub fn ceil_div(a: i64, b: i64) -> i64 {
    debug_assert!(b > 0, "ceil_div by {b}");
    -((-a).div_euclid(b))
}

/// The greatest common divisor of two non-negative integers; 0 only of two zeros.
#[must_use]
pub fn gcd(mut a: i64, mut b: i64) -> i64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// The least common multiple of two positive integers, if it is at most [`LARGEST`].
#[must_use]
pub fn lcm(a: i64, b: i64) -> Option<i64> {
    (a / gcd(a, b)).checked_mul(b).filter(|&multiple| multiple <= LARGEST)
}

/// The inverse of `a` modulo `m`, in `0..m`, for coprime `a` and `m`, `m > 0`.
#[must_use]
pub fn inverse_modulo(a: i64, m: i64) -> i64 {
    let (mut r0, mut r1) = (i128::from(m), i128::from(a.rem_euclid(m)));
    let (mut t0, mut t1) = (0i128, 1i128);
    while r1 != 0 {
        let q = r0 / r1;
        (r0, r1) = (r1, r0 - q * r1);
        (t0, t1) = (t1, t0 - q * t1);
    }
    debug_assert!(r0 == 1, "{a} has no inverse modulo {m}");
    let inverse = t0.rem_euclid(i128::from(m));
    i64::try_from(inverse).unwrap_or(0) // below m, so it always fits
}

/// `a * b modulo m` without overflow, in `0..m`.
#[must_use]
pub fn multiply_modulo(a: i64, b: i64, m: i64) -> i64 {
    let product = (i128::from(a) * i128::from(b)).rem_euclid(i128::from(m));
    i64::try_from(product).unwrap_or(0) // below m, so it always fits
}

/// The product of extents if it is at most [`LARGEST`]; a zero makes it 0 whatever the others are.
#[must_use]
pub fn product(extents: &[i64]) -> Option<i64> {
    if extents.contains(&0) {
        return Some(0);
    }
    extents.iter().try_fold(1i64, |total, &extent| total.checked_mul(extent)).filter(|&total| total <= LARGEST)
}

/// The strides of a row-major array. Extents must have a [`product`].
#[must_use]
pub fn row_major_strides(extents: &[i64]) -> Vec<i64> {
    let mut strides = vec![1; extents.len()];
    for dim in (1..extents.len()).rev() {
        strides[dim - 1] = strides[dim] * extents[dim].max(1);
    }
    strides
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn division_rounds_outward() {
        for a in -20..20 {
            for b in 1..7 {
                assert_eq!(crate::ir::floor_div(a, b), (f64::from(a as i32) / f64::from(b as i32)).floor() as i64);
                assert_eq!(ceil_div(a, b), (f64::from(a as i32) / f64::from(b as i32)).ceil() as i64);
            }
        }
    }

    #[test]
    fn inverse_and_products() {
        for m in 1..40 {
            for a in 0..40 {
                if gcd(a, m) == 1 {
                    assert_eq!(multiply_modulo(a, inverse_modulo(a, m), m), 1 % m);
                }
            }
        }
        assert_eq!(lcm(LARGEST - 1, LARGEST), None);
        assert_eq!(product(&[1 << 40, 1 << 40]), None);
        assert_eq!(product(&[1 << 40, 0, 1 << 40]), Some(0));
    }
}
