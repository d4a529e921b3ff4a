//! The symbol of a kernel's entry point: its name, in letters that every tool takes.

/// The symbol of a kernel: its name, with what no symbol should hold replaced.
pub(crate) fn symbol(name: &str) -> String {
    let plain: String =
        name.chars().map(|letter| if letter.is_ascii_alphanumeric() || letter == '_' { letter } else { '_' }).collect();
    match plain.starts_with(|letter: char| letter.is_ascii_digit()) || plain.is_empty() {
        true => format!("_{plain}"),
        false => plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_hold_letters_that_every_tool_takes() {
        assert_eq!(symbol("r_1024_64"), "r_1024_64");
        assert_eq!(symbol("1 x/y"), "_1_x_y");
        assert_eq!(symbol(""), "_");
    }
}
