//! The corpora of set algebra, alias analysis and in-place proposals.

use serde_json::Value;
use warpweft_tests::conformance::{Report, alias, inplace};

fn data(name: &str) -> Value {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("data").join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).expect("the file is JSON")
}

fn assert_clean(report: &Report, cases: usize) {
    assert!(report.is_clean(), "{report}");
    assert_eq!(report.passed, cases, "{report}");
}

#[test]
fn every_alias_case_passes() {
    assert_clean(&alias::run(&data("alias.json"), None), 894);
}

#[test]
fn every_in_place_verdict_is_right() {
    // 46 programs of proposals and 17 ambiguity cases, one of which contradicts another of the same program.
    let report = inplace::run(&data("inplace.json"), None);
    assert_clean(&report, 62);
    assert_eq!(report.lines.len(), 1, "{report}");
}

#[test]
fn a_wrong_expectation_is_found() {
    let mut cases = data("alias.json");
    let query = &mut cases["alias_cases"][0]["queries"][0];
    query["expect"] = Value::String("neither".to_owned());
    assert_eq!(alias::run(&cases, None).failed, 1);
    let mut cases = data("inplace.json");
    cases["cases"][0]["proposals"][0]["expect"] = Value::String("cycle".to_owned());
    assert_eq!(inplace::run(&cases, None).failed, 1);
}
