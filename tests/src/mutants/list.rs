//! The list of faults: text, much as a patch is.
//!
//! ```text
//! == upper-bound-of-keeps-value
//! file compiler/src/symbolic/facts.rs
//! killers it symbolic, warpweft_compiler facts
//! - low >= least && high <= most
//! + low >= least
//! ```
//!
//! What `-` shows must stand in the file just once; lines are joined as they are, without the mark and one space. Where only a part is
//! replaced, it stands between `⟦` and `⟧`, and the rest is there to be found by. `+` is what takes its place, an expression as
//! the old one was, or statements where the old ones were (`statements`). What can be no switch, as a constant or a pattern, is `alone` and built
//! by itself. `equivalent REASON` says why no test can notice; `killers` names tests that are likely to, each as a binary and
//! the start of a test's name.

use std::path::Path;

/// A fault.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fault {
    /// What it is called.
    pub name: String,
    /// The file, from the root of the project.
    pub file: String,
    /// What stands before the part that is replaced.
    pub before: String,
    /// The part that is replaced.
    pub old: String,
    /// What stands behind it.
    pub after: String,
    /// The fault.
    pub new: String,
    /// Whether statements are replaced, and not an expression.
    pub statements: bool,
    /// Whether it is built by itself.
    pub alone: bool,
    /// Why it changes nothing that a test could see.
    pub equivalent: Option<String>,
    /// Tests that are likely to notice: a binary, and the start of names of tests.
    pub killers: Vec<(String, String)>,
}

/// All faults of the files of a folder, by name of the file and as they stand there.
///
/// # Errors
/// If a file cannot be read, or a line says nothing that is known.
pub fn read(folder: &Path) -> Result<Vec<Fault>, String> {
    let entries = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "txt"));
    paths.sort();
    let mut all: Vec<Fault> = Vec::new();
    for path in paths {
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        all.extend(parse(&text).map_err(|why| format!("{}: {why}", path.display()))?);
    }
    let mut names: Vec<&str> = all.iter().map(|fault| fault.name.as_str()).collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(format!("two faults are called {}", pair[0])),
        None => Ok(all),
    }
}

/// The faults of a text.
///
/// # Errors
/// With the line that says nothing that is known, or the fault that is not whole.
pub fn parse(text: &str) -> Result<Vec<Fault>, String> {
    let mut all: Vec<(Fault, Vec<&str>, Vec<&str>)> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if let Some(name) = line.strip_prefix("== ") {
            all.push((Fault { name: name.trim().to_string(), ..Fault::default() }, Vec::new(), Vec::new()));
            continue;
        }
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let wrong = || format!("line {}: `{line}` is neither `== NAME` nor a part of a fault", number + 1);
        let (fault, old, new) = all.last_mut().ok_or_else(wrong)?;
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "-" => old.push(rest),
            "+" => new.push(rest),
            "file" => fault.file = rest.to_string(),
            "alone" => fault.alone = true,
            "statements" => fault.statements = true,
            "equivalent" => fault.equivalent = Some(rest.to_string()),
            "killers" => {
                let pair = |killer: &str| {
                    let (binary, test) = killer.trim().split_once(' ').unwrap_or((killer.trim(), ""));
                    (binary.to_string(), test.to_string())
                };
                fault.killers = rest.split(',').map(pair).collect();
            }
            _ => return Err(wrong()),
        }
    }
    all.into_iter().map(|(fault, old, new)| whole(fault, &old.join("\n"), &new.join("\n"))).collect()
}

fn whole(fault: Fault, old: &str, new: &str) -> Result<Fault, String> {
    if fault.file.is_empty() || old.is_empty() {
        return Err(format!("{} needs a file and what is to be found there", fault.name));
    }
    let parts =
        old.split_once('⟦').and_then(|(before, rest)| rest.split_once('⟧').map(|(old, after)| (before, old, after)));
    let (before, old, after) = parts.unwrap_or(("", old, ""));
    if old == new {
        return Err(format!("{} replaces a text by itself", fault.name));
    }
    Ok(Fault { before: before.into(), old: old.into(), after: after.into(), new: new.into(), ..fault })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read() {
        let text = "# A comment.\n== one\nfile a.rs\nkillers it views, core facts::\n- let x = ⟦a\n-     + b⟧;\n+ a\n\n== two\nfile b.rs\nalone\nequivalent both are 0\n- 1\n+ 2\n";
        let all = parse(text).unwrap();
        assert_eq!(all.len(), 2);
        let parts = |fault: &Fault| [&fault.before, &fault.old, &fault.after, &fault.new].map(|part| part.to_string());
        assert_eq!(parts(&all[0]), ["let x = ", "a\n    + b", ";", "a"]);
        assert_eq!(all[0].killers, [("it".into(), "views".into()), ("core".into(), "facts::".into())]);
        assert_eq!(parts(&all[1]), ["", "1", "", "2"]);
        assert!(all[1].alone && all[1].equivalent.as_deref() == Some("both are 0"));
    }

    #[test]
    fn what_is_wrong_with_a_list_is_said() {
        assert!(parse("- a").unwrap_err().contains("line 1"));
        assert!(parse("== a\nfile b\n").unwrap_err().contains("needs a file"));
        assert!(parse("== a\nfile b\n- x\n+ x\n").unwrap_err().contains("by itself"));
        assert!(parse("== a\nfiles b\n").unwrap_err().contains("line 2"));
    }

    #[test]
    fn every_fault_of_the_list_is_found_once() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests are a folder of the repository");
        let all = read(&root.join("tests/mutants")).unwrap();
        assert!(all.len() >= 60, "{} faults are too few", all.len());
        for fault in &all {
            let text = std::fs::read_to_string(root.join(&fault.file)).unwrap_or_default();
            let found = text.matches(&format!("{}{}{}", fault.before, fault.old, fault.after)).count();
            assert_eq!(found, 1, "{} is found {found} times in {}", fault.name, fault.file);
        }
    }
}
