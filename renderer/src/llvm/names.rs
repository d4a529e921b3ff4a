//! Names in the text: of variables, and of the results of micro-ops.
//!
//! A result is called after its op with a running number (`%add12`), a loop variable after its loop (`%r3`), a buffer after its
//! slot (`%p0`): names depend on the list alone. Steps on the way to a result carry its name and a word (`%max4.larger`).

use warpweft_compiler::Op;

/// The name of a variable's value. Other variables have other names, whatever letters they hold.
pub(super) fn variable(name: &str) -> String {
    if name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        return format!("%var.{name}");
    }
    let letters: String = name
        .bytes()
        .map(|byte| match byte {
            b'"' | b'\\' | ..0x20 | 0x7f.. => format!("\\{byte:02X}"),
            _ => char::from(byte).to_string(),
        })
        .collect();
    format!("%\"var.{letters}\"")
}

/// Gives out the names of results.
#[derive(Default)]
pub(super) struct Counter(u32);

impl Counter {
    /// A name that no other result has.
    pub(super) fn next(&mut self, op: Op) -> String {
        self.0 += 1;
        format!("%{}{}", op.name(), self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_any_letters_stay_apart() {
        assert_eq!(variable("batch_size"), "%var.batch_size");
        assert_eq!(variable("a b\"c"), "%\"var.a b\\22c\"");
        assert_ne!(variable("é"), variable("è"));
    }
}
