//! Whether two tensors agree, and what to say when they do not.

use warpweft_compiler::DType;
use warpweft_compiler::dtype::ScalarType;
use warpweft_compiler::ir::interpret::Value;

/// How far floats may differ. Integers and bools may not.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tolerance {
    /// In units of the last place of the larger.
    Ulp(f64),
    /// Relative to the largest finite element of the expected tensor, or to 1 if that is less.
    Relative(f64),
}

impl Tolerance {
    /// As filetests write it.
    pub fn text(self) -> String {
        match self {
            Tolerance::Ulp(ulps) => format!("{ulps} ulp"),
            Tolerance::Relative(part) => format!("{part}"),
        }
    }
}

/// Compares two tensors.
///
/// # Errors
/// With the first element that differs too much. NaN agrees with NaN, and -0 with 0.
pub fn compare(expected: &Value, found: &Value, tolerance: Tolerance) -> Result<(), String> {
    if expected.dtype() != found.dtype() {
        return Err(format!("expected elements of {}, found {}", expected.dtype(), found.dtype()));
    }
    if expected.len() != found.len() {
        return Err(format!("expected {} elements, found {}", expected.len(), found.len()));
    }
    let (wanted, got) = (expected.to_f64(), found.to_f64());
    let largest = wanted.iter().filter(|value| value.is_finite()).fold(1.0f64, |most, value| most.max(value.abs()));
    for position in 0..expected.len() {
        let (a, b) = (wanted[position], got[position]);
        let same = match tolerance {
            _ if !expected.dtype().is_float() => expected.get(position) == found.get(position),
            _ if a == b || (a.is_nan() && b.is_nan()) => true,
            _ if !a.is_finite() || !b.is_finite() => false,
            Tolerance::Ulp(ulps) => (a - b).abs() <= ulps * unit(a.abs().max(b.abs()), expected.dtype()),
            Tolerance::Relative(part) => (a - b).abs() <= part * largest,
        };
        if !same {
            let distance = (a - b).abs() / unit(a.abs().max(b.abs()), expected.dtype());
            let place = format!("element {position} of {:?}", expected.shape());
            let ulps = if distance.is_finite() && expected.dtype().is_float() {
                format!(", {distance:.1} ulp apart")
            } else {
                String::new()
            };
            return Err(format!("{place} is {b:?}, not {a:?}{ulps}"));
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

/// The unit of the last place of a float of that type at that magnitude.
fn unit(magnitude: f64, dtype: DType) -> f64 {
    let (digits, least) = match dtype.scalar() {
        ScalarType::F16 => (10, -24),
        ScalarType::BF16 => (7, -133),
        ScalarType::F32 => (23, -149),
        _ => (52, -1074),
    };
    let exponent = if magnitude > 0.0 { magnitude.log2().floor() as i32 } else { least };
    2f64.powi((exponent - digits).max(least))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_count_in_the_type() {
        let value = |x: f64| Value::from_f64(DType::F32, [1], &[x]).expect("one element");
        let next = f32::from_bits(1.5f32.to_bits() + 3) as f64;
        assert!(compare(&value(1.5), &value(next), Tolerance::Ulp(3.0)).is_ok());
        let error = compare(&value(1.5), &value(next), Tolerance::Ulp(2.0)).unwrap_err();
        assert_eq!(error, "element 0 of [1] is 1.5000003576278687, not 1.5, 3.0 ulp apart");
        assert!(compare(&value(f64::NAN), &value(f64::NAN), Tolerance::Ulp(0.0)).is_ok());
        assert!(compare(&value(f64::INFINITY), &value(1.0), Tolerance::Relative(1.0)).is_err());
        assert!(compare(&value(-0.0), &value(0.0), Tolerance::Ulp(0.0)).is_ok());
        let int = |x: f64| Value::from_f64(DType::I32, [1], &[x]).expect("one element");
        assert!(compare(&int(3.0), &int(4.0), Tolerance::Relative(1.0)).is_err());
    }
}
