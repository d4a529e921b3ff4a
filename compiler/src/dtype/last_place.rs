//! How far a computed float is from the exact result, in units of the last place: the one measure of accuracy, for every float type.
//!
//! A unit is the distance of the two numbers of the type between which the exact result lies, so a correctly rounded result is at most half a unit
//! off. Past the largest number it is the last distance before it.

use super::{DType, Scalar};

/// The distance of `got`, a number of a float type, from the exact result, in units of the last place. None if both are NaN, or equal once the
/// exact one is rounded to the type; without bound if one is NaN, infinite or of the other sign where the other is not.
pub fn error_in_last_places(got: f64, exact: f64, dtype: DType) -> f64 {
    let rounded = Scalar::from_f64(exact, dtype).to_f64();
    if got.is_nan() && exact.is_nan() {
        return 0.0;
    }
    if !got.is_finite() || !rounded.is_finite() || got.is_sign_negative() != rounded.is_sign_negative() {
        return if got == rounded { 0.0 } else { f64::INFINITY };
    }
    (got - exact).abs() / last_place(exact, dtype)
}

/// The distance of the two numbers of a type around a finite one.
fn last_place(number: f64, dtype: DType) -> f64 {
    let size = number.abs();
    let of_bits = |bits: u64| Scalar::from_bits(bits, dtype).to_f64();
    // The bits of positive floats are in the order of the numbers.
    let rounded = Scalar::from_f64(size, dtype).to_bits(dtype);
    let below = if of_bits(rounded) > size { rounded - 1 } else { rounded };
    match of_bits(below + 1) {
        above if above.is_finite() => above - of_bits(below),
        _ => of_bits(below) - of_bits(below - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_is_the_distance_of_neighbours() {
        let next = f32::from_bits(1.0f32.to_bits() + 1) as f64;
        assert_eq!(error_in_last_places(next, 1.0, DType::F32), 1.0);
        assert_eq!(error_in_last_places(1.0, 1.0 + (next - 1.0) / 2.0, DType::F32), 0.5);
        // Below a power of two numbers lie twice as close.
        let before = f32::from_bits(1.0f32.to_bits() - 1) as f64;
        assert_eq!(error_in_last_places(before, 1.0 - (next - 1.0) / 8.0, DType::F32), 0.75);
        assert_eq!(error_in_last_places(f64::from_bits(3), f64::from_bits(1), DType::F64), 2.0);
        assert_eq!(error_in_last_places(65_504.0, 65_472.0, DType::F16), 1.0);
    }

    #[test]
    fn what_is_no_number_is_right_or_wrong() {
        for (got, exact) in [(f64::NAN, f64::NAN), (f64::INFINITY, 1e39), (-0.0, 0.0)] {
            assert_eq!(error_in_last_places(got, exact, DType::F32), 0.0, "{got} {exact}");
        }
        for (got, exact) in [(f64::NAN, 1.0), (1.0, f64::NAN), (f64::INFINITY, 1e38), (-1e-45, 1e-45)] {
            assert_eq!(error_in_last_places(got, exact, DType::F32), f64::INFINITY, "{got} {exact}");
        }
    }
}
