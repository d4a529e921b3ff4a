//! Rounding of exact values to the floating-point formats, in all modes.
//!
//! What is rounded is an `f64` that holds the exact value, or one that was rounded to odd: its last bit says that there was more. A second rounding to a format with at
//! least two bits less is then as right as a single one ("When double rounding is odd", Boldo and Melquiond, 2005).
//!
//! Tested at the end of this file, against the conversions of Rust and of `half`.

/// A format by its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Format {
    exponent_bits: u32,
    mantissa_bits: u32,
    /// What instructions give that have no number to give.
    pub(super) nan: u64,
}

pub(super) const F16: Format = Format { exponent_bits: 5, mantissa_bits: 10, nan: 0x7fff };
pub(super) const BF16: Format = Format { exponent_bits: 8, mantissa_bits: 7, nan: 0x7fff };
pub(super) const TF32: Format = Format { exponent_bits: 8, mantissa_bits: 10, nan: 0x3_ffff };
pub(super) const F32: Format = Format { exponent_bits: 8, mantissa_bits: 23, nan: 0x7fff_ffff };

/// Where to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    NearestEven,
    NearestAway,
    Zero,
    Down,
    Up,
}

/// The bits of a value in a format.
pub(super) fn round(value: f64, format: Format, mode: Mode) -> u64 {
    let Format { exponent_bits, mantissa_bits, nan } = format;
    if value.is_nan() {
        return nan;
    }
    let bits = value.to_bits();
    let sign = bits >> 63;
    let signed = |magnitude: u64| sign << (exponent_bits + mantissa_bits) | magnitude;
    let infinity = ((1u64 << exponent_bits) - 1) << mantissa_bits;
    if value.is_infinite() {
        return signed(infinity);
    }
    let field = (bits >> 52 & 0x7ff) as i32;
    let mantissa = bits & ((1 << 52) - 1) | if field > 0 { 1 << 52 } else { 0 };
    // The value is mantissa * 2^(exponent - 52).
    let exponent = field.max(1) - 1023;
    let least = 2 - (1i32 << (exponent_bits - 1));
    let unit = exponent.max(least) - mantissa_bits as i32;
    let dropped = (unit - (exponent - 52)).clamp(0, 63) as u32;
    let (kept, rest) = (mantissa >> dropped, mantissa & ((1 << dropped) - 1));
    let half = if dropped == 0 { 0 } else { 1u64 << (dropped - 1) };
    let is_up = match mode {
        _ if rest == 0 => false,
        Mode::NearestEven => rest > half || rest == half && kept & 1 == 1,
        Mode::NearestAway => rest >= half,
        Mode::Zero => false,
        Mode::Down => sign == 1,
        Mode::Up => sign == 0,
    };
    let kept = kept + u64::from(is_up);
    let magnitude = if exponent < least {
        kept
    } else {
        // The leading one of what is kept counts as one in the exponent's field.
        (((exponent - least) as u64) << mantissa_bits) + kept
    };
    let largest_is_right = match mode {
        Mode::NearestEven | Mode::NearestAway => false,
        Mode::Zero => true,
        Mode::Down => sign == 0,
        Mode::Up => sign == 1,
    };
    signed(match magnitude {
        _ if magnitude < infinity => magnitude,
        _ if largest_is_right => infinity - 1,
        _ => infinity,
    })
}

/// The value of bits in a format; exact.
pub(super) fn value_of(bits: u64, format: Format) -> f64 {
    let Format { exponent_bits, mantissa_bits, .. } = format;
    let mantissa = (bits & ((1 << mantissa_bits) - 1)) as f64;
    let field = (bits >> mantissa_bits & ((1 << exponent_bits) - 1)) as i32;
    let sign = if bits >> (exponent_bits + mantissa_bits) & 1 == 1 { -1.0 } else { 1.0 };
    let least = 2 - (1i32 << (exponent_bits - 1));
    let scale = |power: i32| f64::from_bits(((power + 1023) as u64) << 52);
    let one = (1u64 << mantissa_bits) as f64;
    sign * match field {
        0 => mantissa / one * scale(least),
        _ if field == (1 << exponent_bits) - 1 => {
            if mantissa == 0.0 {
                f64::INFINITY
            } else {
                f64::NAN
            }
        }
        _ => (1.0 + mantissa / one) * scale(field - 1 + least),
    }
}

/// The sum of two numbers, rounded to odd: exact if its last bit is 0.
pub(super) fn sum_to_odd(a: f64, b: f64) -> f64 {
    let sum = a + b;
    if !sum.is_finite() {
        return sum;
    }
    // The error of a sum is a number itself (Knuth's two-sum).
    let other = sum - a;
    let error = (a - (sum - other)) + (b - other);
    to_odd(sum, error)
}

/// A rounded value with the sign of what rounding took, rounded to odd.
pub(super) fn to_odd(value: f64, error: f64) -> f64 {
    if error == 0.0 || error.is_nan() || value.to_bits() & 1 == 1 {
        return value;
    }
    let is_larger = (error > 0.0) == (value > 0.0);
    f64::from_bits(if is_larger { value.to_bits() + 1 } else { value.to_bits() - 1 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_nearest_is_that_of_rust(bits in any::<u64>(), shift in 0u32..70) {
            // Numbers of all sizes, many of them near the least.
            for value in [f64::from_bits(bits), f64::from_bits(bits >> 2) , (bits as f64) * 2f64.powi(-(shift as i32) - 100)] {
                let single = value as f32;
                if !single.is_nan() {
                    prop_assert_eq!(round(value, F32, Mode::NearestEven), u64::from(single.to_bits()));
                    let (down, up) = (round(value, F32, Mode::Down) as u32, round(value, F32, Mode::Up) as u32);
                    prop_assert!(f64::from(f32::from_bits(down)) <= value && f64::from(f32::from_bits(up)) >= value);
                    prop_assert!(down == up || [down, up].contains(&single.to_bits()));
                    let zero = f32::from_bits(round(value, F32, Mode::Zero) as u32);
                    prop_assert!(f64::from(zero).abs() <= value.abs());
                }
                // Of what is an f32, `half` rounds to the nearest.
                let half = half::f16::from_f32(single);
                if !single.is_nan() {
                    prop_assert_eq!(round(f64::from(single), F16, Mode::NearestEven), u64::from(half.to_bits()));
                    let brain = half::bf16::from_f32(single);
                    prop_assert_eq!(round(f64::from(single), BF16, Mode::NearestEven), u64::from(brain.to_bits()));
                }
            }
        }

        #[test]
        fn bits_are_their_value(bits in any::<u16>()) {
            let (half, brain) = (half::f16::from_bits(bits), half::bf16::from_bits(bits));
            let same = |a: f64, b: f64| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
            prop_assert!(same(value_of(u64::from(bits), F16), half.to_f64()));
            prop_assert!(same(value_of(u64::from(bits), BF16), brain.to_f64()));
        }
    }

    #[test]
    fn ties_and_limits() {
        let f16 = |value: f64, mode| round(value, F16, mode);
        let tie = 1.0 + 2f64.powi(-11);
        assert_eq!((f16(tie, Mode::NearestEven), f16(tie, Mode::NearestAway)), (0x3c00, 0x3c01));
        assert_eq!((f16(65520.0, Mode::NearestEven), f16(65520.0, Mode::Zero)), (0x7c00, 0x7bff));
        assert_eq!((f16(-70000.0, Mode::Up), f16(-70000.0, Mode::Down)), (0xfbff, 0xfc00));
        assert_eq!((f16(2f64.powi(-25), Mode::NearestEven), f16(2f64.powi(-25), Mode::Up)), (0, 1));
        assert_eq!(f16(f64::NAN, Mode::Zero), 0x7fff);
        // A tie that is one only until the rest is looked at.
        assert_eq!(round(sum_to_odd(tie, 2f64.powi(-80)), F16, Mode::NearestEven), 0x3c01);
        assert_eq!(round(sum_to_odd(tie, -2f64.powi(-80)), F16, Mode::NearestEven), 0x3c00);
        assert_eq!(round(sum_to_odd(-tie, -2f64.powi(-80)), F16, Mode::NearestEven), 0xbc01);
    }
}
