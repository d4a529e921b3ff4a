//! View cases: what views of a storage are, and what writes through them do.
//!
//! The storage holds 0, 1, 2, ..., so an element's value is its address. Each step is judged twice: by the view that PyTorch's functions
//! give, and by the node of the graph that shows it, whose strides are derived anew and whose elements come from index arithmetic
//! run by the interpreter. Writes are carried out on a plain list (`view_memory`), by the plan that the compiler makes.

use super::view_memory::{WriteOp, addresses, agree, carry_out, concrete, shown};
use super::view_steps::{Seen, Stepped};
use super::{Report, Stop, field, run_list};
use serde_json::Value as Json;
use warpweft_compiler::region::{ExactJudge, view_overlaps_itself, views_meet};
use warpweft_compiler::view::{OverlapClass, OverlapStatus, ViewSpec, WriteError, WriteSource, plan_write};

/// Runs a file of view cases.
#[must_use]
pub fn run(cases: &Json, filter: Option<&str>) -> Report {
    let mut report = Report::default();
    run_list(&mut report, &cases["cases"], filter, |case| match field::text(case, "kind")? {
        "chain" => judge_chain(case, Rules::PyTorch),
        "numpy_chain" => judge_chain(case, Rules::NumPy),
        "write" => judge_write(case),
        "write_from_view" => judge_write_from_view(case),
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

fn judge_chain(case: &Json, rules: Rules) -> Result<(), Stop> {
    let mut seen = Seen::base(case)?;
    for (number, step) in field::list(case, "steps")?.iter().enumerate() {
        let want = &step["result"];
        let at = |stop: Stop| match stop {
            Stop(super::Outcome::Failed(why)) => Stop::failed(format!("step {number} ({}): {why}", step["op"])),
            stop => stop,
        };
        match (seen.step(step)?, want["error"] == true, want["copy"] == true) {
            (Stepped::Refused(_), true, _) => {}
            (Stepped::Copy(shape), _, true) => {
                agree("shape", concrete(&shape)?, field::integers(want, "shape")?).map_err(at)?;
            }
            (Stepped::View(next), false, false) => {
                judge_view(&next, want, rules).map_err(at)?;
                seen = next;
            }
            (Stepped::Refused(error), ..) => return Err(at(Stop::failed(format!("refused: {error}")))),
            (Stepped::Copy(_), ..) => return Err(at(Stop::failed("needs a copy".to_string()))),
            (Stepped::View(_), true, _) => return Err(at(Stop::failed("gives a view, not an error".to_string()))),
            (Stepped::View(_), ..) => return Err(at(Stop::failed("gives a view, not a copy".to_string()))),
        }
    }
    Ok(())
}

fn judge_view(seen: &Seen, want: &Json, rules: Rules) -> Result<(), Stop> {
    judge_spec(&seen.spec, want, rules)?;
    let derived =
        ViewSpec::of_node(&seen.node).ok_or_else(|| Stop::failed("its node is no strided alias".to_string()))?;
    agree("derived from its node", derived, &seen.spec)?;
    let elements = addresses(&seen.spec)?;
    agree("elements of its node", shown(seen)?, elements.clone())?;
    if !want["elements"].is_null() {
        agree("elements", elements, field::integers(want, "elements")?)?;
    }
    Ok(())
}

fn judge_spec(spec: &ViewSpec, want: &Json, rules: Rules) -> Result<(), Stop> {
    let shape = concrete(&spec.shape)?;
    agree("shape", &shape, &field::integers(want, "shape")?)?;
    let is_empty = shape.contains(&0);
    let (strides, wanted) = (concrete(&spec.strides)?, field::integers(want, "strides")?);
    match rules {
        Rules::PyTorch => agree("strides", strides, wanted)?,
        Rules::NumPy if is_empty => return Ok(()),
        Rules::NumPy => {
            let seen = |strides: &[i64]| -> Vec<i64> {
                strides.iter().zip(&shape).filter(|(_, len)| **len != 1).map(|(stride, _)| *stride).collect()
            };
            agree("strides", seen(&strides), seen(&wanted))?;
        }
    }
    agree("offset", spec.offset.as_const(), Some(field::integer(want, "offset")?))?;
    if rules == Rules::NumPy {
        return Ok(());
    }
    agree("contiguous", Some(spec.is_contiguous()), want["contiguous"].as_bool())?;
    let class = match spec.overlap_class() {
        OverlapClass::None => 0,
        OverlapClass::Repeated => 1,
        OverlapClass::Unknown => 2,
    };
    agree("internal overlap", class, field::integer(want, "internal_overlap")?)?;
    let mut elements = addresses(spec)?;
    elements.sort_unstable();
    let overlaps = elements.windows(2).any(|pair| pair[0] == pair[1]);
    agree("exact internal overlap", view_overlaps_itself(spec).known(), Some(overlaps))
}

fn judge_result(case: &Json, result: Result<Vec<i64>, WriteError>) -> Result<(), Stop> {
    let kind = result.as_ref().err().map(|error| match error {
        WriteError::InternalOverlap { .. } => "internal_overlap",
        WriteError::Shape(..) => "shape",
    });
    agree("error", kind, case["error"].as_str())?;
    match result {
        Ok(memory) => agree("base after", memory, field::integers(case, "base_after")?),
        Err(_) => Ok(()),
    }
}

fn judge_write(case: &Json) -> Result<(), Stop> {
    let view = Seen::base(case)?.after(field::list(case, "steps")?)?;
    let (write, source) = (&case["write"], &case["write"]["src"]);
    let op = WriteOp::named(field::text(write, "op")?)?;
    let mut memory: Vec<i64> = (0..field::integer(case, "base_numel")?).collect();
    let (first, fresh) = match field::text(source, "kind")? {
        "scalar" => (field::integer(source, "value")?, None),
        "fresh" => {
            let shape = field::integers(source, "shape")?;
            (field::integer(source, "start")?, Some(ViewSpec::of_storage(&shape[..])))
        }
        other => return Err(Stop::unsupported(format!("source {other}"))),
    };
    let from = fresh.as_ref().map_or(WriteSource::Scalar, WriteSource::Elsewhere);
    let to = addresses(&view.spec)?;
    let result = match plan_write(op.kind(), &view.spec, from, &ExactJudge) {
        Ok(plan) => {
            carry_out(&plan, &mut memory, &to, op, &|_, address| first + address)?;
            Ok(memory)
        }
        Err(error) => Err(error),
    };
    judge_result(case, result)
}

fn judge_write_from_view(case: &Json) -> Result<(), Stop> {
    let to = Seen::base(case)?.after(field::list(case, "dst")?)?.spec;
    let from = Seen::base(case)?.after(field::list(case, "src")?)?.spec;
    let op = WriteOp::named(field::text(case, "op")?)?;
    if let Some(want) = case["sets_intersect"].as_bool() {
        agree("elements in common", views_meet(&to, &from).known(), Some(want))?;
    }
    if let Some(want) = case["overlap_status"].as_str() {
        let status = match to.overlap_status(&from) {
            OverlapStatus::Apart => "no",
            OverlapStatus::Full => "full",
            OverlapStatus::Partial => "partial",
            OverlapStatus::Unknown => "too_hard",
        };
        agree("overlap status", status, want)?;
    }
    let mut memory: Vec<i64> = (0..field::integer(case, "base_numel")?).collect();
    let result = match plan_write(op.kind(), &to, WriteSource::SameStorage(&from), &ExactJudge) {
        Ok(plan) => {
            carry_out(&plan, &mut memory, &addresses(&to)?, op, &|memory, address| memory[address as usize])?;
            Ok(memory)
        }
        Err(error) => Err(error),
    };
    judge_result(case, result)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn counts(case: Json) -> (usize, usize, usize) {
        let report = run(&json!({ "cases": [case] }), None);
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
        let mut unknown = shift([0, 0, 1, 2]);
        unknown["op"] = json!("pow_");
        assert_eq!(counts(unknown), (0, 0, 1));
    }
}
