//! View cases: what views of a storage are, and what writes through them do, asked of tensors on a device.
//!
//! The storage holds 0, 1, 2, ... in memory, so an element's value is its address. A view is judged by the shape, strides and offset that the
//! tensor says it has, and by its elements, which the device reads; a write by the whole storage afterwards. Questions about
//! elements in common are answered twice: by the tensor, and by the lists of addresses that strides name.

use super::view_memory::{Layout, WriteOp, agree, failed, repeats};
use super::view_steps::{Stepped, Storage, counted};
use super::{Report, Stop, field, run_list_in_parallel};
use serde_json::Value as Json;
use warpweft::Tensor;

/// Runs a file of view cases on the device of that name or the default one.
#[must_use]
pub fn run(cases: &Json, filter: Option<&str>, device: Option<&str>) -> Report {
    let mut report = Report::default();
    run_list_in_parallel(&mut report, &cases["cases"], filter, |case| match field::text(case, "kind")? {
        "chain" => judge_chain(case, Rules::PyTorch, device),
        "numpy_chain" => judge_chain(case, Rules::NumPy, device),
        "write" => judge_write(case, device),
        "write_from_view" => judge_write_from_view(case, device),
        other => Err(Stop::unsupported(format!("kind {other}"))),
    });
    report
}

/// Whose strides are wanted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rules {
    PyTorch,
    /// Strides of axes of length 1, and what an empty view has, are not compared.
    NumPy,
}

fn judge_chain(case: &Json, rules: Rules, device: Option<&str>) -> Result<(), Stop> {
    let storage = Storage::of(case, device)?;
    let mut seen = storage.base.clone();
    for (number, step) in field::list(case, "steps")?.iter().enumerate() {
        let want = &step["result"];
        let at = |stop: Stop| match stop {
            Stop(super::Outcome::Failed(why)) => Stop::failed(format!("step {number} ({}): {why}", step["op"])),
            stop => stop,
        };
        match (storage.step(&seen, step)?, want["error"] == true, want["copy"] == true) {
            (Stepped::Refused(_), true, _) => {}
            (Stepped::Copy(shape), _, true) => agree("shape", shape, field::integers(want, "shape")?).map_err(at)?,
            (Stepped::View(next), false, false) => {
                judge_view(&next, want, rules).map_err(at)?;
                seen = next;
            }
            (Stepped::Refused(error), ..) => return Err(at(Stop::failed(format!("refused: {error}")))),
            (Stepped::Copy(_), ..) => return Err(at(Stop::failed("gives a copy".to_string()))),
            (Stepped::View(_), true, _) => return Err(at(Stop::failed("gives a view, not an error".to_string()))),
            (Stepped::View(_), ..) => return Err(at(Stop::failed("gives a view, not a copy".to_string()))),
        }
    }
    Ok(())
}

fn judge_view(view: &Tensor, want: &Json, rules: Rules) -> Result<(), Stop> {
    let layout = Layout::of(view)?;
    judge_layout(&layout, want, rules)?;
    let addresses = layout.addresses();
    agree("elements", view.to_vec::<i64>().map_err(failed)?, addresses.clone())?;
    if !want["elements"].is_null() {
        agree("addresses", &addresses, &field::integers(want, "elements")?)?;
    }
    let overlaps = view.overlaps_itself().map_err(failed)?;
    agree("whether elements are shown twice", overlaps, repeats(&addresses))?;
    if rules == Rules::PyTorch {
        agree("contiguous", Some(view.is_contiguous().map_err(failed)?), want["contiguous"].as_bool())?;
        match field::integer(want, "internal_overlap")? {
            // PyTorch does not know: the elements have decided above.
            2 => {}
            known => agree("internal overlap", i64::from(overlaps), known)?,
        }
    }
    Ok(())
}

fn judge_layout(layout: &Layout, want: &Json, rules: Rules) -> Result<(), Stop> {
    agree("shape", &layout.shape, &field::integers(want, "shape")?)?;
    let wanted = field::integers(want, "strides")?;
    match rules {
        Rules::PyTorch => agree("strides", &layout.strides, &wanted)?,
        Rules::NumPy if layout.shape.contains(&0) => return Ok(()),
        Rules::NumPy => {
            let seen = |strides: &[i64]| -> Vec<i64> {
                strides.iter().zip(&layout.shape).filter(|(_, len)| **len != 1).map(|(stride, _)| *stride).collect()
            };
            agree("strides", seen(&layout.strides), seen(&wanted))?;
        }
    }
    agree("offset", layout.offset, field::integer(want, "offset")?)
}

/// What the storage holds after a write, or the kind of error that the case should name.
fn judge_result(case: &Json, storage: &Storage, written: Result<(), warpweft::Error>) -> Result<(), Stop> {
    let kind = written.err().map(|error| {
        let text = error.to_string();
        match (text.contains("share elements"), text.contains("broadcast")) {
            (true, _) => "internal_overlap".to_owned(),
            (_, true) => "shape".to_owned(),
            _ => text,
        }
    });
    agree("error", kind.as_deref(), case["error"].as_str())?;
    let memory = storage.flat.to_vec::<i64>().map_err(failed)?;
    match kind {
        None => agree("base after", memory, field::integers(case, "base_after")?),
        // A write that was refused has changed nothing.
        Some(_) => agree("base after", memory, (0..field::integer(case, "base_numel")?).collect()),
    }
}

fn judge_write(case: &Json, device: Option<&str>) -> Result<(), Stop> {
    let storage = Storage::of(case, device)?;
    let view = storage.after(field::list(case, "steps")?)?;
    let (write, source) = (&case["write"], &case["write"]["src"]);
    let op = WriteOp::named(field::text(write, "op")?)?;
    let written = match field::text(source, "kind")? {
        "scalar" => op.write_number(&view, field::integer(source, "value")?),
        "fresh" => {
            op.write(&view, &counted(field::integer(source, "start")?, &field::integers(source, "shape")?, device))
        }
        other => return Err(Stop::unsupported(format!("source {other}"))),
    };
    judge_result(case, &storage, written)
}

fn judge_write_from_view(case: &Json, device: Option<&str>) -> Result<(), Stop> {
    let storage = Storage::of(case, device)?;
    let to = storage.after(field::list(case, "dst")?)?;
    let from = storage.after(field::list(case, "src")?)?;
    let op = WriteOp::named(field::text(case, "op")?)?;
    let (left, right) = (Layout::of(&to)?.addresses(), Layout::of(&from)?.addresses());
    let meet = left.iter().any(|address| right.contains(address));
    agree("elements in common", to.shares_elements_with(&from).map_err(failed)?, meet)?;
    if let Some(want) = case["sets_intersect"].as_bool() {
        agree("addresses in common", meet, want)?;
    }
    if let Some(want) = case["overlap_status"].as_str() {
        let is_full = Layout::of(&to)? == Layout::of(&from)?;
        match want {
            "no" => agree("overlap", meet, false)?,
            "full" => agree("full overlap", is_full, true)?,
            "partial" => agree("partial overlap", (meet, is_full), (true, false))?,
            // PyTorch does not know: the elements have decided above.
            "too_hard" => {}
            other => return Err(Stop::unsupported(format!("overlap status {other}"))),
        }
    }
    let written = op.write(&to, &from);
    judge_result(case, &storage, written)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn counts(case: Json) -> (usize, usize, usize) {
        let report = run(&json!({ "cases": [case] }), None, Some("INTERPRETER"));
        (report.passed, report.failed, report.unsupported)
    }

    fn chain(strides: [i64; 2], elements: [i64; 6]) -> Json {
        let result = json!({"shape": [3, 2], "strides": strides, "offset": 0, "contiguous": false,
            "internal_overlap": 0, "elements": elements});
        json!({"id": "t", "kind": "chain", "base_numel": 6, "base_shape": [2, 3],
            "steps": [{"op": "transpose", "d0": 0, "d1": 1, "result": result},
                {"op": "view", "shape": [6], "result": {"error": true}},
                {"op": "reshape", "shape": [-1], "result": {"copy": true, "shape": [6]}}]})
    }

    #[test]
    fn a_chain_passes_only_with_its_strides_and_elements() {
        assert_eq!(counts(chain([1, 3], [0, 3, 1, 4, 2, 5])), (1, 0, 0));
        assert_eq!(counts(chain([3, 1], [0, 3, 1, 4, 2, 5])), (0, 1, 0));
        assert_eq!(counts(chain([1, 3], [0, 1, 2, 3, 4, 5])), (0, 1, 0));
    }

    fn shift(after: [i64; 4]) -> Json {
        json!({"id": "w", "kind": "write_from_view", "base_numel": 4, "base_shape": [4], "op": "copy_",
            "dst": [{"op": "slice", "dim": 0, "start": 1}], "src": [{"op": "slice", "dim": 0, "end": -1}],
            "sets_intersect": true, "overlap_status": "partial", "base_after": after})
    }

    #[test]
    fn a_write_passes_only_if_its_source_is_read_first() {
        assert_eq!(counts(shift([0, 0, 1, 2])), (1, 0, 0));
        assert_eq!(counts(shift([0, 0, 0, 0])), (0, 1, 0));
        let mut apart = shift([0, 0, 1, 2]);
        apart["sets_intersect"] = json!(false);
        assert_eq!(counts(apart), (0, 1, 0));
        let mut refused = shift([0, 0, 1, 2]);
        refused["error"] = json!("internal_overlap");
        assert_eq!(counts(refused), (0, 1, 0));
        let mut unknown = shift([0, 0, 1, 2]);
        unknown["op"] = json!("pow_");
        assert_eq!(counts(unknown), (0, 0, 1));
    }
}
