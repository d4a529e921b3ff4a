//! Alias analysis and set algebra: `alias_cases` (programs of views with queries), `sett_cases` and `region_cases`.

use super::{Report, Stop, alias_graph, alias_sets, run_list};
use serde_json::Value;

/// Runs a file of alias cases.
#[must_use]
pub fn run(cases: &Value, filter: Option<&str>) -> Report {
    let mut report = Report::default();
    run_list(&mut report, &cases["alias_cases"], filter, alias_graph::judge);
    run_list(&mut report, &cases["sett_cases"], filter, alias_sets::judge_sett);
    run_list(&mut report, &cases["region_cases"], filter, alias_sets::judge_region);
    report
}

/// Compares a result with what a case expects.
pub(super) fn expect(case: &Value, got: &Value) -> Result<(), Stop> {
    let want = &case["expect"];
    if want == got { Ok(()) } else { Err(Stop::failed(format!("wants {want}, got {got}"))) }
}
