//! Wrong expectations of set algebra, alias analysis and in-place proposals are found. That the right ones hold is in `corpora`.

use serde_json::Value;
use warpweft_tests::conformance::{alias, corpus, inplace};

fn data(name: &str) -> Value {
    corpus::read(&std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("data").join(name)).unwrap()
}

#[test]
fn a_wrong_expectation_is_found() {
    let mut cases = data("alias.json.gz");
    let query = &mut cases["alias_cases"][0]["queries"][0];
    query["expect"] = Value::String("neither".to_owned());
    assert_eq!(alias::run(&cases, None).failed, 1);
    let mut cases = data("inplace.json.gz");
    cases["cases"][0]["proposals"][0]["expect"] = Value::String("cycle".to_owned());
    // One more than the case that another contradicts.
    assert_eq!(inplace::run(&cases, None).failed, 2);
}
