//! Every environment variable that the project reads is in the README's table.

use super::{assert_none, root, sources};

#[test]
fn environment_variables_are_documented() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap_or_default();
    let mut failures = Vec::new();
    for source in sources(&["runtime", "devices", "tests"]) {
        for number in 0..source.lines.len() {
            let code = source.code(number);
            for reader in ["env::var(\"", "env::var_os(\"", "var(\"", "var_os(\""] {
                for (at, _) in code.match_indices(reader) {
                    let name: String = code[at + reader.len()..].chars().take_while(|next| *next != '"').collect();
                    let is_name = !name.is_empty()
                        && name.chars().all(|next| next.is_ascii_uppercase() || next == '_' || next.is_ascii_digit());
                    if is_name && !readme.contains(&format!("`{name}`")) {
                        failures.push(format!("{}:{}: `{name}` is not in README.md", source.path, number + 1));
                    }
                }
            }
        }
    }
    failures.sort();
    failures.dedup();
    assert_none(failures);
}
