//! Tensors bit by bit, and against numbers as they are written down. How far rounding may take one is [`error_bound`](crate::error_bound).

use warpweft_compiler::dtype::Scalar;
use warpweft_compiler::ir::interpret::Value;

use crate::error_bound::unit_roundoff;

/// A number as a text has it: its value, and half a unit of its last digit; 0 for integers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Written {
    /// The value.
    pub value: f64,
    /// How far from it a number is that would be written so.
    pub half_digit: f64,
}

impl Written {
    /// The number of a word.
    ///
    /// # Errors
    /// If it is none.
    pub fn read(word: &str) -> Result<Written, String> {
        let value = match word {
            "true" => 1.0,
            "false" => 0.0,
            _ => word.parse().map_err(|_| format!("`{word}` is no number"))?,
        };
        let (digits, exponent) = word.split_once('e').unwrap_or((word, "0"));
        let behind = digits.split_once('.').map_or(0, |(_, behind)| behind.len() as i32);
        let is_rounded = word.contains(['.', 'e']) && !word.contains("true") && !word.contains("false");
        let exponent: i32 = exponent.parse().unwrap_or(0);
        Ok(Written { value, half_digit: if is_rounded { 0.5 * 10f64.powi(exponent - behind) } else { 0.0 } })
    }
}

/// Compares a tensor with numbers in row-major order; to the digits that are written and a rounding if `rounded`, exactly if not. NaN agrees with NaN,
/// and -0 with 0.
///
/// # Errors
/// If there are not as many, or with the first element that is another number.
pub fn compare_written(expected: &[Written], found: &Value, rounded: bool) -> Result<(), String> {
    if expected.len() != found.len() {
        return Err(format!("{} elements are expected, found {}", expected.len(), found.len()));
    }
    for (position, (written, got)) in expected.iter().zip(found.scalars()).enumerate() {
        let wanted = Scalar::from_f64(written.value, found.dtype());
        let (a, b) = (wanted.to_f64(), got.to_f64());
        let near = 1.01 * written.half_digit + unit_roundoff(found.dtype()) * written.value.abs();
        let is_near =
            rounded && found.dtype().is_float() && written.half_digit > 0.0 && (written.value - b).abs() <= near;
        if !(wanted == got || a == b && found.dtype().is_float() || a.is_nan() && b.is_nan() || is_near) {
            return Err(format!("element {position} of {:?} is {b:?}, not {a:?}", found.shape()));
        }
    }
    Ok(())
}

/// Compares two tensors bit by bit; NaN is one value, zeros of different sign are two.
///
/// # Errors
/// With the first element that differs.
pub fn compare_bits(expected: &Value, found: &Value) -> Result<(), String> {
    if (expected.dtype(), expected.len()) != (found.dtype(), found.len()) {
        let text = |value: &Value| format!("{} of {}", value.len(), value.dtype());
        return Err(format!("expected {}, found {}", text(expected), text(found)));
    }
    for (position, (wanted, got)) in expected.scalars().into_iter().zip(found.scalars()).enumerate() {
        let both_nan = wanted.to_f64().is_nan() && got.to_f64().is_nan();
        if wanted != got && !both_nan {
            return Err(format!("element {position} of {:?} is {got:?}, not {wanted:?}", expected.shape()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpweft_compiler::DType;

    fn check(words: &str, found: &[f64], dtype: DType, rounded: bool) -> Result<(), String> {
        let words: Vec<Written> = words.split(' ').map(|word| Written::read(word).expect("a number")).collect();
        let found = Value::from_f64(dtype, [found.len() as i64], found).expect("as many");
        compare_written(&words, &found, rounded)
    }

    #[test]
    fn written_digits_count_for_each_element() {
        let ok = Ok(());
        assert_eq!(check("1.4142135 1e30 2", &[std::f64::consts::SQRT_2, 1e30, 2.0], DType::F32, true), ok);
        let error = check("1.7320508 1e30", &[1.732051, 1e30], DType::F32, true).unwrap_err();
        assert!(error.starts_with("element 0 of [2] is 1.732051"), "{error}");
        assert!(check("2", &[2.0000002], DType::F32, true).is_err(), "what has no point is exact");
        assert!(check("1.5", &[1.51], DType::F32, false).is_err());
        assert_eq!(check("nan inf -0.0 true", &[f64::NAN, f64::INFINITY, 0.0, 1.0], DType::F32, false), ok);
        assert!(check("3", &[4.0], DType::I32, true).is_err());
        assert!(check("3", &[3.0, 4.0], DType::I32, true).is_err());
        assert!(Written::read("3.x").is_err());
    }

    #[test]
    fn bits_count_and_so_do_lengths() {
        let value = |numbers: &[f64]| Value::from_f64(DType::F32, [numbers.len() as i64], numbers).expect("as many");
        assert_eq!(compare_bits(&value(&[f64::NAN, 1.0]), &value(&[f64::NAN, 1.0])), Ok(()));
        assert!(compare_bits(&value(&[0.0]), &value(&[-0.0])).is_err());
        assert!(compare_bits(&value(&[0.0]), &value(&[0.0, 0.0])).is_err());
    }
}
