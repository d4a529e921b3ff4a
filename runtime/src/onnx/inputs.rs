//! Inputs held against what the model declares.

use rustc_hash::FxHashMap;

use super::element::ElementType;
use super::error::Error;
use super::graph::{AxisLength, Declared, Kind};
use super::value::Value;
use super::{Model, Result};

impl Model {
    /// Inputs must be as many as declared, and each of the declared type and shape.
    pub(super) fn check_inputs(&self, inputs: &[Value]) -> Result<()> {
        let refused = |message: String| Err(Error::Input { file: self.0.file.clone(), message });
        let declared = &self.0.inputs;
        if inputs.len() != declared.len() {
            let names: Vec<&str> = declared.iter().map(|input| input.name.as_str()).collect();
            return refused(format!(
                "the model has {} inputs ({}), and {} are given",
                names.len(),
                names.join(", "),
                inputs.len()
            ));
        }
        let mut named: FxHashMap<&str, usize> = FxHashMap::default();
        for (number, (input, declared)) in inputs.iter().zip(declared).enumerate() {
            let Some(kind) = &declared.kind else { continue };
            if !fits(input, kind, &mut named)? {
                let given = input.description();
                return refused(format!("input {number} '{}' is {given}, and must be {kind}", declared.name));
            }
        }
        Ok(())
    }
}

/// The names of an input's axes.
pub(super) fn names_of(input: &Declared) -> Vec<&str> {
    let Some(Kind::Tensor { shape: Some(shape), .. }) = &input.kind else { return Vec::new() };
    shape
        .iter()
        .filter_map(|length| if let AxisLength::Named(name) = length { Some(name.as_str()) } else { None })
        .collect()
}

/// Whether a value is of a kind; lengths of one name must be the same.
fn fits<'k>(value: &Value, kind: &'k Kind, named: &mut FxHashMap<&'k str, usize>) -> Result<bool> {
    Ok(match (value, kind) {
        (Value::Tensor(array), Kind::Tensor { element, shape }) => {
            let lengths = array.tensor.shape()?;
            array.element == *element && shape.as_ref().is_none_or(|shape| lengths_fit(&lengths, shape, named))
        }
        (Value::Text(lengths, _), Kind::Tensor { element: ElementType::Text, shape }) => {
            shape.as_ref().is_none_or(|shape| lengths_fit(lengths, shape, named))
        }
        (Value::Sequence(values), Kind::Sequence(of)) => {
            for value in values {
                if !fits(value, of, &mut FxHashMap::default())? {
                    return Ok(false);
                }
            }
            true
        }
        (Value::Nothing, Kind::Optional(_)) => true,
        (value, Kind::Optional(of)) => fits(value, of, named)?,
        _ => false,
    })
}

fn lengths_fit<'k>(lengths: &[usize], shape: &'k [AxisLength], named: &mut FxHashMap<&'k str, usize>) -> bool {
    let fits = |(length, declared): (&usize, &'k AxisLength)| match declared {
        AxisLength::Fixed(wanted) => wanted == length,
        AxisLength::Named(name) => named.entry(name).or_insert(*length) == length,
        AxisLength::Any => true,
    };
    lengths.len() == shape.len() && lengths.iter().zip(shape).all(fits)
}
