//! Every `.uop` file below `tests/filetests`. `BLESS=1 cargo test -p warpweft-tests filetests` renews precise outputs.

use std::path::Path;

#[test]
fn filetests() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("filetests");
    let bless = std::env::var_os("BLESS").is_some();
    let summary = warpweft_tests::filetest::run_directory(&directory, bless).expect("the files can be read");
    assert!(summary.cases > 0, "there are no filetests");
    assert!(
        summary.failures.is_empty(),
        "{} of {} cases fail:\n{}",
        summary.failures.len(),
        summary.cases,
        summary.failures.join("\n")
    );
}
