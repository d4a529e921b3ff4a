//! Every `.uop` file below `tests/filetests`. `BLESS=1 cargo test -p warpweft-tests filetests` renews precise outputs.

use std::io::Write;
use std::path::Path;

#[test]
fn filetests() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("filetests");
    let bless = std::env::var_os("BLESS").is_some();
    let summary = warpweft_tests::filetest::run_directory(&directory, bless).expect("the files can be read");
    assert!(summary.cases > 0, "there are no filetests");
    if !summary.skipped.is_empty() {
        let text =
            format!("{} runs of filetests are skipped:\n{}\n", summary.skipped.len(), summary.skipped.join("\n"));
        // Not by `println!`, which tests that pass keep to themselves.
        std::io::stderr().write_all(text.as_bytes()).expect("stderr is open");
    }
    assert!(
        summary.failures.is_empty(),
        "{} of {} cases fail:\n{}",
        summary.failures.len(),
        summary.cases,
        summary.failures.join("\n")
    );
}
