//! Wrapping, rounding, NaN and signed zero; against the conversions of constants, for all types.

use super::*;

/// Conversions of elements and of constants are one thing said twice.
struct ConversionsAgree(DType);

impl WithElement for ConversionsAgree {
    type Output = ();
    fn with<E: Element>(self) {
        let dtype = self.0;
        for value in [0, 1, -1, 127, 128, 255, 256, -129, 65_504, 1 << 24, (1 << 24) + 1, i64::MIN, i64::MAX] {
            assert_eq!(E::from_i64(value).to_scalar(), Scalar::from_i64(value, dtype), "{dtype} of {value}");
            assert_eq!(E::from_u64(value as u64).to_scalar(), Scalar::from_u64(value as u64, dtype), "{dtype}");
        }
        for value in [0.0, 0.1, -3.7, 1e9, -1e9, 3e38, -1e300, f64::INFINITY, 1.8e19, 1.0039062500001] {
            assert_eq!(E::from_f64(value).to_scalar(), Scalar::from_f64(value, dtype), "{dtype} of {value}");
            let element = E::from_f64(value);
            assert_eq!(element.to_bits(), element.to_scalar().to_bits(dtype), "{dtype} of {value}");
            assert_eq!(E::from_bits(element.to_bits()).to_scalar(), element.to_scalar());
            assert_eq!(E::from_scalar(element.to_scalar()).to_bits(), element.to_bits());
        }
    }
}

#[test]
fn elements_convert_as_constants_do() {
    for dtype in DType::ALL {
        with_element(dtype, ConversionsAgree(dtype)).unwrap();
    }
}

#[test]
fn integers_wrap_and_divide_both_ways() {
    assert_eq!(Element::add(i8::MAX, 1), i8::MIN);
    assert_eq!(Element::cdiv(i8::MIN, -1), i8::MIN);
    assert_eq!((Element::idiv(-7i32, 2), Element::modulo(-7i32, 2)), (-4, 1));
    assert_eq!((Element::idiv(7i32, -2), Element::modulo(7i32, -2)), (-4, -1));
    assert_eq!((Element::cdiv(-7i32, 2), Element::cmod(-7i32, 2)), (-3, -1));
    assert_eq!((Element::idiv(7u8, 0), Element::modulo(7u8, 0), Element::cmod(7u8, 0)), (0, 0, 0));
    assert_eq!((Element::shl(1i32, 40), Element::shr(-8i32, 40), Element::shr(-8i32, 1)), (0, -1, -4));
    assert_eq!((Element::shr(8u32, 40), Element::shl(1i32, -1)), (0, 0));
}

#[test]
fn floats_propagate_nan_and_order_zeros() {
    assert!(Element::max(f32::NAN, 1.0).is_nan() && Element::max(1.0, f32::NAN).is_nan());
    assert!(Element::min(f64::NAN, 1.0).is_nan() && Element::min(1.0, f64::NAN).is_nan());
    assert!(Element::max(-0.0f32, 0.0).is_sign_positive() && Element::max(0.0f32, -0.0).is_sign_positive());
    assert!(Element::min(-0.0f32, 0.0).is_sign_negative() && Element::min(0.0f32, -0.0).is_sign_negative());
    assert_eq!(Element::log2(0.0f32), f32::NEG_INFINITY);
    assert!(Element::log2(-1.0f32).is_nan());
    assert_eq!(Element::add(f16::from_f32(2048.0), f16::from_f32(1.0)), f16::from_f32(2048.0));
    assert_eq!(Element::cmod(-7.5f32, 2.0), -1.5);
    assert_eq!(Element::muladd(1e30f32, 1e30, f32::NEG_INFINITY), f32::NEG_INFINITY);
}

/// The sine of 300 is -0.99975584, which f32 rounds to the middle between two half floats.
#[test]
fn functions_of_half_floats_are_those_of_single_ones_rounded() {
    assert_eq!(Element::sin(f16::from_f32(300.0)), f16::from_f32(-1.0));
}
