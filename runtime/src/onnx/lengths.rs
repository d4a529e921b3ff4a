//! Lengths that are variables, on their way through a model: lists of them that ops on shapes pass on.
//!
//! A model that works out a shape from an input's shape does so in tensors of integers: `Shape`, `Gather`, `Concat`, and a product here and there. Where
//! a length is a variable those tensors have no elements yet; what they will be is kept beside them, as expressions, for the few ops
//! that exporters write. An op that is not among them gives a tensor of which nothing is known, and the model is compiled for each shape instead.
//!
//! Tested in `tests/it/onnx.rs`.

use warpweft_compiler::ir::Dim;

use super::call::Call;
use super::value::{Array, Value, integers};

/// What elements of an array will be: numbers, or expressions of variables.
pub(super) fn dims_of(array: &Array) -> Option<Vec<Dim>> {
    if let Some(dims) = &array.dims {
        return Some(dims.clone());
    }
    let known = array.known.as_ref()?;
    Some(integers(known).ok()?.into_iter().map(Dim::from).collect())
}

fn input(call: &Call<'_>, number: usize) -> Option<Vec<Dim>> {
    match call.input(number)? {
        Value::Tensor(array) => dims_of(array),
        _ => None,
    }
}

fn numbers(call: &Call<'_>, number: usize) -> Option<Vec<i64>> {
    input(call, number)?.iter().map(Dim::as_const).collect()
}

/// The elements of an op's result, if its inputs are lists of lengths and it is one of the ops on shapes.
pub(super) fn followed(call: &Call<'_>) -> Option<Vec<Dim>> {
    let has_lengths = |value: &Option<Value>| matches!(value, Some(Value::Tensor(array)) if array.dims.is_some());
    match call.node.op.as_str() {
        "Shape" => {
            let dims = call.tensor(0).ok()?.dims().ok()?;
            let rank = dims.len() as i64;
            let at = |name: &str, default: i64| {
                let at = call.int_or(name, default).ok()?;
                Some((if at < 0 { at + rank } else { at }).clamp(0, rank) as usize)
            };
            return dims.get(at("start", 0)?..at("end", rank)?).map(<[Dim]>::to_vec);
        }
        "Size" => return Some(vec![call.tensor(0).ok()?.dims().ok()?.numel()]),
        _ if !call.inputs.iter().any(has_lengths) => return None,
        _ => {}
    }
    match call.node.op.as_str() {
        "Identity" | "Cast" | "Unsqueeze" | "Squeeze" | "Reshape" => input(call, 0),
        "Gather" => {
            let list = input(call, 0)?;
            let from_start = |at: i64| usize::try_from(if at < 0 { at + list.len() as i64 } else { at }).ok();
            numbers(call, 1)?.into_iter().map(|at| list.get(from_start(at)?).cloned()).collect()
        }
        "Concat" => {
            (0..call.inputs.len()).map(|number| input(call, number)).collect::<Option<Vec<_>>>().map(|all| all.concat())
        }
        "Slice" => {
            let list = input(call, 0)?;
            let (start, end) = (*numbers(call, 1)?.first()?, *numbers(call, 2)?.first()?);
            if call.has(4) && numbers(call, 4)? != [1] {
                return None;
            }
            let length = list.len() as i64;
            let index = |at: i64| (if at < 0 { at.saturating_add(length) } else { at }).clamp(0, length) as usize;
            Some(list.get(index(start)..index(end)).map(<[Dim]>::to_vec).unwrap_or_default())
        }
        "Add" => paired(call, |a, b| Some(a + b)),
        "Sub" => paired(call, |a, b| Some(a - b)),
        "Mul" => paired(call, |a, b| Some(a * b)),
        // Quotients go toward zero there and down here, which is the same from zero on.
        "Div" => paired(call, |a, b| (a.min_value() >= 0 && b.min_value() > 0).then(|| a.floor_div(b))),
        _ => None,
    }
}

/// Element by element; a list of one goes with all of another.
fn paired(call: &Call<'_>, function: impl Fn(&Dim, &Dim) -> Option<Dim>) -> Option<Vec<Dim>> {
    let (a, b) = (input(call, 0)?, input(call, 1)?);
    let count = a.len().max(b.len());
    if (a.len() != count && a.len() != 1) || (b.len() != count && b.len() != 1) {
        return None;
    }
    (0..count).map(|at| function(&a[at.min(a.len() - 1)], &b[at.min(b.len() - 1)])).collect()
}
