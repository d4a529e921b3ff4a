//! In-place proposals (`cases`) and programs whose value may depend on an order that nothing fixes (`ambiguity_cases`).
//!
//! Two ambiguity cases with one program and opposite expectations contradict each other: no answer could satisfy both. The one that
//! disagrees has failed like any other, and its line names the one that contradicts it.

use super::alias_graph::{Names, broken, is_view, view};
use super::{Outcome, Report, Stop, field, run_list};
use serde_json::Value;
use warpweft_compiler::region::inplace::{Checks, InplaceGraph, Verdict};

/// Runs a file of in-place cases.
#[must_use]
pub fn run(cases: &Value, filter: Option<&str>) -> Report {
    let mut report = Report::default();
    run_list(&mut report, &cases["cases"], filter, judge_proposals);
    let ambiguity = &cases["ambiguity_cases"];
    run_list(&mut report, ambiguity, filter, |case| {
        let judged = judge_ambiguity(case);
        let list = ambiguity.as_array().map_or(&[][..], Vec::as_slice);
        let twin = list.iter().find(|o| o["program"] == case["program"] && o["ambiguous"] != case["ambiguous"]);
        match (judged, twin) {
            (Err(Stop(Outcome::Failed(why))), Some(twin)) => {
                Err(Stop::failed(format!("{why}; {} has the same program and the other answer", twin["id"])))
            }
            (judged, _) => judged,
        }
    });
    report
}

fn build(case: &Value) -> Result<(InplaceGraph, Names), Stop> {
    let (mut graph, mut names) = (InplaceGraph::new(), Names::default());
    for step in field::list(case, "program")? {
        let op = field::text(step, "op")?;
        if op == "constraint" {
            let (before, after) = (names.field(step, "before")?, names.field(step, "after")?);
            graph.constrain(before, after).map_err(broken)?;
            continue;
        }
        let inputs = || names.inputs(step);
        let shape = || field::integers(step, "shape");
        let added = match op {
            "variable" => graph.variable(&shape()?),
            "constant" => graph.constant(&shape()?),
            "noalias" => graph.no_alias(&inputs()?, &shape()?),
            "modify" => graph.modify(names.field(step, "in")?),
            "gate" => graph.gate(&inputs()?, open_input(step)?),
            _ if is_view(step) => {
                let inputs = inputs()?;
                Ok(graph.view(&inputs, |aliases| view(aliases, &inputs, step))?)
            }
            other => return Err(Stop::unsupported(format!("op {other}"))),
        };
        names.add(field::text(step, "id")?, added.map_err(broken)?);
    }
    Ok((graph, names))
}

fn open_input(step: &Value) -> Result<Option<usize>, Stop> {
    match &step["open"] {
        Value::Null => Ok(None),
        open => {
            let input = open.as_u64().and_then(|input| usize::try_from(input).ok());
            input.map(Some).ok_or_else(|| Stop::unsupported(format!("open at {open}")))
        }
    }
}

fn flag(case: &Value, name: &str) -> Result<bool, Stop> {
    case[name].as_bool().ok_or_else(|| Stop::unsupported(format!("field {name} is no bool")))
}

fn judge_proposals(case: &Value) -> Result<(), Stop> {
    let (mut graph, names) = build(case)?;
    let checks = Checks {
        parallel_writeable: flag(case, "check_parallel_writeable")?,
        allow_multi_gate_alias: flag(case, "allow_multi_gate_alias")?,
    };
    for proposal in field::list(case, "proposals")? {
        let input = usize::try_from(field::integer(proposal, "input")?);
        let input = input.map_err(|_| Stop::unsupported("a negative input"))?;
        let verdict = graph.try_open(names.field(proposal, "gate")?, input, checks).map_err(broken)?;
        let got = match verdict {
            Verdict::Valid => "valid",
            Verdict::AlreadyOpen => "already_open",
            Verdict::NotParallelWriteable => "not_parallel_writeable",
            Verdict::GateMultiInAlias => "gate_multi_in_alias",
            Verdict::Cycle => "cycle",
        };
        if proposal["expect"] != got {
            return Err(Stop::failed(format!("{proposal}: got {got}")));
        }
    }
    Ok(())
}

fn judge_ambiguity(case: &Value) -> Result<(), Stop> {
    let got = build(case)?.0.is_ambiguous().map_err(broken)?;
    let want = flag(case, "ambiguous")?;
    if want == got { Ok(()) } else { Err(Stop::failed(format!("wants ambiguous {want}, got {got}"))) }
}
