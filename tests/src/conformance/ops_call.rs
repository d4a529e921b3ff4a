//! One application of an op in a case: its inputs and attributes, with a record of which attributes were read.
//!
//! Attributes are PyTorch's or the reference's. Each must be used: an attribute that an op does not read makes the case unsupported, since a
//! result that ignores it would prove nothing.

use std::cell::RefCell;

use serde_json::Value;
use warpweft::tensor::{Index, Literal, Reduction};
use warpweft::{DType, Tensor};

use super::Stop;

/// One application, with the attributes that were read so far.
pub(super) struct Call<'a> {
    pub(super) op: &'a str,
    pub(super) attributes: &'a Value,
    pub(super) inputs: &'a [Tensor],
    pub(super) used: RefCell<Vec<&'static str>>,
}

/// The outputs of an op, or nothing if the family does not know the op.
pub(super) type Family = Result<Option<Vec<Tensor>>, Stop>;

pub(super) fn one(output: Tensor) -> Family {
    Ok(Some(vec![output]))
}

pub(super) fn failed(error: warpweft::Error) -> Stop {
    Stop::failed(error.to_string())
}

impl Call<'_> {
    pub(super) fn input(&self, k: usize) -> Result<&Tensor, Stop> {
        self.inputs.get(k).ok_or_else(|| Stop::unsupported(format!("{} with {} inputs", self.op, self.inputs.len())))
    }

    /// An attribute; absent and null are the same.
    pub(super) fn get(&self, name: &'static str) -> Option<&Value> {
        self.used.borrow_mut().push(name);
        self.attributes.get(name).filter(|value| !value.is_null())
    }

    pub(super) fn check_all_used(&self) -> Result<(), Stop> {
        let used = self.used.borrow();
        let unknown =
            self.attributes.as_object().into_iter().flatten().find(|(name, _)| !used.iter().any(|known| known == name));
        match unknown {
            Some((name, _)) => Err(Stop::unsupported(format!("attribute {name} of {}", self.op))),
            None => Ok(()),
        }
    }

    pub(super) fn wrong(&self, name: &str) -> Stop {
        Stop::unsupported(format!("attribute {name} of {} is {}", self.op, self.attributes[name]))
    }

    pub(super) fn int(&self, name: &'static str) -> Result<i64, Stop> {
        self.get(name).and_then(Value::as_i64).ok_or_else(|| self.wrong(name))
    }

    pub(super) fn int_or(&self, name: &'static str, default: i64) -> Result<i64, Stop> {
        self.get(name).map_or(Ok(default), |value| value.as_i64().ok_or_else(|| self.wrong(name)))
    }

    pub(super) fn float_or(&self, name: &'static str, default: f64) -> Result<f64, Stop> {
        self.get(name).map_or(Ok(default), |value| number(value).ok_or_else(|| self.wrong(name)))
    }

    /// A number that may be absent.
    pub(super) fn float_option(&self, name: &'static str) -> Result<Option<f64>, Stop> {
        self.get(name).map(|value| number(value).ok_or_else(|| self.wrong(name))).transpose()
    }

    pub(super) fn flag(&self, name: &'static str) -> Result<bool, Stop> {
        self.flag_or(name, false)
    }

    pub(super) fn flag_or(&self, name: &'static str, default: bool) -> Result<bool, Stop> {
        self.get(name).map_or(Ok(default), |value| value.as_bool().ok_or_else(|| self.wrong(name)))
    }

    pub(super) fn text_or<'a>(&'a self, name: &'static str, default: &'a str) -> Result<&'a str, Stop> {
        self.get(name).map_or(Ok(default), |value| value.as_str().ok_or_else(|| self.wrong(name)))
    }

    /// An integer or a list of them; nothing when absent.
    pub(super) fn ints(&self, name: &'static str) -> Result<Vec<i64>, Stop> {
        match self.get(name) {
            None => Ok(Vec::new()),
            Some(Value::Array(list)) => {
                list.iter().map(|value| value.as_i64().ok_or_else(|| self.wrong(name))).collect()
            }
            Some(value) => value.as_i64().map(|value| vec![value]).ok_or_else(|| self.wrong(name)),
        }
    }

    pub(super) fn ints_or(&self, name: &'static str, default: i64) -> Result<Vec<i64>, Stop> {
        let list = self.ints(name)?;
        Ok(if list.is_empty() { vec![default] } else { list })
    }

    pub(super) fn pairs(&self, name: &'static str) -> Result<Vec<(i64, i64)>, Stop> {
        let list = self.get(name).and_then(Value::as_array).ok_or_else(|| self.wrong(name))?;
        let pair = |value: &Value| Some((value.get(0)?.as_i64()?, value.get(1)?.as_i64()?));
        list.iter().map(|value| pair(value).ok_or_else(|| self.wrong(name))).collect()
    }

    pub(super) fn literal(&self, name: &'static str) -> Result<Option<Literal>, Stop> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::Bool(value)) => Ok(Some(Literal::Bool(*value))),
            Some(value) => match (value.as_i64(), value.as_f64()) {
                (Some(value), _) => Ok(Some(Literal::Int(value))),
                (None, Some(value)) => Ok(Some(Literal::Float(value))),
                (None, None) => Err(self.wrong(name)),
            },
        }
    }

    pub(super) fn number(&self, name: &'static str) -> Result<Literal, Stop> {
        self.literal(name)?.ok_or_else(|| self.wrong(name))
    }

    pub(super) fn dtype(&self) -> Result<Option<DType>, Stop> {
        match self.get("dtype") {
            None => Ok(None),
            Some(value) => value.as_str().and_then(DType::from_name).map(Some).ok_or_else(|| self.wrong("dtype")),
        }
    }

    pub(super) fn axis(&self) -> Result<i64, Stop> {
        self.int("axis")
    }

    pub(super) fn axis_option(&self) -> Result<Option<i64>, Stop> {
        self.get("axis").map(|value| value.as_i64().ok_or_else(|| self.wrong("axis"))).transpose()
    }

    /// Per axis `[start, stop, step]` or an integer.
    pub(super) fn slices(&self) -> Result<Vec<Index>, Stop> {
        let list = self.get("slices").and_then(Value::as_array).ok_or_else(|| self.wrong("slices"))?;
        let entry = |value: &Value| match value {
            Value::Array(parts) if parts.len() == 3 => Some(Index::Range {
                start: parts[0].as_i64(),
                stop: parts[1].as_i64(),
                step: if parts[2].is_null() { 1 } else { parts[2].as_i64()? },
            }),
            value => value.as_i64().map(Index::At),
        };
        list.iter().map(|value| entry(value).ok_or_else(|| self.wrong("slices"))).collect()
    }

    pub(super) fn reduction(&self) -> Result<Reduction, Stop> {
        Reduction::from_name(self.text_or("reduction", "mean")?).ok_or_else(|| self.wrong("reduction"))
    }
}

/// A number, or an infinity as text, which JSON has no number for.
fn number(value: &Value) -> Option<f64> {
    match value.as_str() {
        Some("inf") => Some(f64::INFINITY),
        Some("-inf") => Some(f64::NEG_INFINITY),
        Some(_) => None,
        None => value.as_f64(),
    }
}
