//! Constants as text, exactly: the shortest digits that give the same value in the same type.

use crate::dtype::{DType, Scalar, ScalarType};

/// The constant without its type.
pub(super) fn print_literal(value: Scalar, dtype: DType) -> String {
    match value {
        Scalar::Bool(value) => value.to_string(),
        Scalar::Int(value) => value.to_string(),
        Scalar::UInt(value) => value.to_string(),
        Scalar::Float(bits) => {
            let value = f64::from_bits(bits);
            match dtype.scalar() {
                _ if value.is_nan() => "nan".to_string(),
                _ if value.is_infinite() => if value > 0.0 { "inf" } else { "-inf" }.to_string(),
                ScalarType::F64 => format!("{value:?}"),
                ScalarType::F16 | ScalarType::BF16 => print_half(value, dtype),
                _ => format!("{:?}", value as f32),
            }
        }
    }
}

/// The fewest digits that are read as this value.
fn print_half(value: f64, dtype: DType) -> String {
    let exact = format!("{:?}", value as f32);
    let candidates = (0..4).filter_map(|digits| format!("{value:.digits$e}").parse::<f32>().ok());
    let is_same = |candidate: &f32| Scalar::from_f64(*candidate as f64, dtype) == Scalar::from_f64(value, dtype);
    candidates.into_iter().find(is_same).map_or(exact, |candidate| format!("{candidate:?}"))
}

/// The constant that a literal is in a type, or what is wrong with it.
pub(super) fn parse_literal(text: &str, dtype: DType) -> Result<Scalar, String> {
    let no_such = || format!("{text} is no {dtype}");
    if dtype.is_bool() {
        return match text {
            "true" => Ok(Scalar::Bool(true)),
            "false" => Ok(Scalar::Bool(false)),
            _ => Err(format!("{}; write true or false", no_such())),
        };
    }
    if dtype.is_float() {
        let value = match text {
            "nan" => f64::NAN,
            "inf" => f64::INFINITY,
            "-inf" => f64::NEG_INFINITY,
            _ if dtype.scalar() == ScalarType::F64 => text.parse().map_err(|_| no_such())?,
            // Rounded to f32 at once: through f64 it would be rounded twice.
            _ => text.parse::<f32>().map_err(|_| no_such())? as f64,
        };
        return Ok(Scalar::from_f64(value, dtype));
    }
    let value: i128 = text.parse().map_err(|_| no_such())?;
    let (low, high) = match (dtype.scalar(), dtype.integer_bounds()) {
        (ScalarType::U64, _) => (0, u64::MAX as i128),
        (_, Some((low, high))) => (low as i128, high as i128),
        (_, None) => return Err(format!("{dtype} has no constants")),
    };
    if value < low || value > high {
        return Err(format!("{}: it is not within {low}..{high}", no_such()));
    }
    Ok(match dtype.is_unsigned() {
        true => Scalar::UInt(value as u64),
        false => Scalar::Int(value as i64),
    })
}
