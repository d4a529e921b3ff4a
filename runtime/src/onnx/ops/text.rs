//! Text: joined, taken apart, in other cases. It is computed on the host while the program is built, for it lies there.

use std::sync::Arc;

use super::super::call::{Call, Done, one};
use super::super::error::{Failure, wrong};
use super::super::value::Value;
use super::Op;
use super::movement::broadcast;
use crate::tensor::Tensor;

// tidy: table
pub(super) const OPS: &[(&str, Op)] =
    &[("StringConcat", concat), ("StringNormalizer", normalize), ("StringSplit", split)];

/// Lengths of axes, and elements in row-major order.
pub(super) type Texts = (Vec<usize>, Arc<Vec<String>>);

fn texts(call: &Call<'_>, number: usize) -> Result<Texts, Failure> {
    match call.value(number)? {
        Value::Text(shape, texts) => Ok((shape.clone(), texts.clone())),
        other => wrong!("input {number} is {}, and must be text", other.description()),
    }
}

/// Texts that an op may give.
const TEXTS_MAX: usize = 1 << 24;

fn checked(count: Option<usize>) -> Result<usize, Failure> {
    match count {
        Some(count) if count <= TEXTS_MAX => Ok(count),
        _ => wrong!("more than {TEXTS_MAX} texts would result"),
    }
}

/// A function of the elements of two inputs, which are repeated to one shape.
pub(super) fn paired<T>(call: &Call<'_>, function: impl Fn(&str, &str) -> T) -> Result<(Vec<usize>, Vec<T>), Failure> {
    let ((shape_a, a), (shape_b, b)) = (texts(call, 0)?, texts(call, 1)?);
    let lengths = |shape: &[usize]| shape.iter().map(|&length| length as i64).collect::<Vec<i64>>();
    let shape: Vec<usize> =
        broadcast(&lengths(&shape_a), &lengths(&shape_b))?.into_iter().map(|length| length as usize).collect();
    // Where an element of the result is found in an operand.
    let offset_of = |at: usize, own: &[usize]| {
        let (mut rest, mut offset, mut unit) = (at, 0, 1);
        for (axis, &length) in shape.iter().enumerate().rev() {
            if let Some(&own_length) = (axis + own.len()).checked_sub(shape.len()).and_then(|axis| own.get(axis)) {
                offset += if own_length == 1 { 0 } else { rest % length * unit };
                unit *= own_length;
            }
            rest /= length;
        }
        offset
    };
    let count = checked(shape.iter().try_fold(1usize, |count, &length| count.checked_mul(length)))?;
    let text = |all: &[String], at: usize| all.get(at).cloned().unwrap_or_default();
    let element = |at: usize| function(&text(&a, offset_of(at, &shape_a)), &text(&b, offset_of(at, &shape_b)));
    let found = (0..count).map(element).collect();
    Ok((shape, found))
}

fn concat(call: &Call<'_>) -> Done {
    let (shape, joined) = paired(call, |a, b| format!("{a}{b}"))?;
    Ok(vec![Value::Text(shape, Arc::new(joined))])
}

/// The parts of a text: between delimiters, or between spaces; at most as many cuts as are said.
fn parts(text: &str, delimiter: &str, cuts: Option<usize>) -> Vec<String> {
    if !delimiter.is_empty() {
        return match cuts {
            Some(cuts) => text.splitn(cuts.saturating_add(1), delimiter).map(str::to_string).collect(),
            None => text.split(delimiter).map(str::to_string).collect(),
        };
    }
    let (mut rest, mut found) = (text.trim_start(), Vec::new());
    while !rest.is_empty() {
        let end = rest.find(char::is_whitespace).filter(|_| cuts.is_none_or(|cuts| found.len() < cuts));
        let (part, after) = rest.split_at(end.unwrap_or(rest.len()));
        found.push(part.to_string());
        rest = after.trim_start();
    }
    found
}

/// Parts along a new last axis, filled up by empty text; and how many there are of each.
fn split(call: &Call<'_>) -> Done {
    let (mut shape, texts) = texts(call, 0)?;
    let delimiter = call.text_or("delimiter", "")?;
    let cuts = call.int("maxsplit")?.and_then(|cuts| usize::try_from(cuts).ok());
    let all: Vec<Vec<String>> = texts.iter().map(|text| parts(text, &delimiter, cuts)).collect();
    let most = all.iter().map(Vec::len).max().unwrap_or(0);
    let counts: Vec<i64> = all.iter().map(|parts| parts.len() as i64).collect();
    checked(counts.len().checked_mul(most))?;
    let mut values = one(Tensor::from_vec(counts, shape.clone()))?;
    shape.push(most);
    let filled = all.into_iter().flat_map(|mut parts| {
        parts.resize(most, String::new());
        parts
    });
    values.insert(0, Value::Text(shape, Arc::new(filled.collect())));
    Ok(values)
}

/// Text without some words, in lower or upper case. If nothing is left, one empty text is.
fn normalize(call: &Call<'_>) -> Done {
    let (shape, texts) = texts(call, 0)?;
    if shape.len() > 2 || (shape.len() == 2 && shape[0] != 1) {
        wrong!("the text has shape {shape:?}, and must be [words] or [1, words]");
    }
    let case = call.text_or("case_change_action", "NONE")?;
    let changed = |text: &str| match &*case {
        "NONE" => Ok(text.to_string()),
        "LOWER" => Ok(text.to_lowercase()),
        "UPPER" => Ok(text.to_uppercase()),
        other => wrong!("attribute 'case_change_action' is '{other}', and must be 'LOWER', 'UPPER' or 'NONE'"),
    };
    let exact = call.flag("is_case_sensitive")?;
    let key = |text: &str| if exact { text.to_string() } else { text.to_lowercase() };
    let left_out: Vec<String> = call.texts("stopwords")?.unwrap_or_default().iter().map(|word| key(word)).collect();
    let kept = texts.iter().filter(|text| !left_out.contains(&key(text)));
    let mut kept = kept.map(|text| changed(text)).collect::<Result<Vec<String>, Failure>>()?;
    if kept.is_empty() {
        kept.push(String::new());
    }
    let shape = if shape.len() == 2 { vec![1, kept.len()] } else { vec![kept.len()] };
    Ok(vec![Value::Text(shape, Arc::new(kept))])
}
