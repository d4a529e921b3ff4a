//! NVIDIA's assembler, run as a program: whether PTX is accepted for an architecture, and what it costs there. It needs neither GPU nor driver.
//!
//! `./x setup --ptxas` installs one below `target`; nothing of the project needs it. What ptxas does not see: reads of registers that were never written, and accesses
//! outside of memory.
//!
//! Tested here on what it reports; on kernels, by the filetests.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where `./x setup --ptxas` puts it, below the root of the project.
pub const INSTALLED: &str = "target/ptxas/ptxas";

/// An assembler that runs here.
#[derive(Clone, Debug)]
pub struct Ptxas {
    program: PathBuf,
}

/// What an entry point takes on an architecture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    /// Registers of a thread.
    pub registers: u64,
    /// Bytes of a thread's stack: its private memory, and what is spilled.
    pub stack_bytes: u64,
    /// Bytes that a thread stores because registers do not suffice.
    pub spill_store_bytes: u64,
    /// Bytes that it loads again.
    pub spill_load_bytes: u64,
    /// Bytes of shared memory that the kernel declares.
    pub shared_bytes: u64,
    /// Barriers.
    pub barriers: u64,
}

impl Ptxas {
    /// The first of these programs that runs, or else that of the search path.
    pub fn find(programs: &[&Path]) -> Option<Ptxas> {
        let candidates = programs.iter().copied().chain([Path::new("ptxas")]);
        let runs = |program: &&Path| {
            let command = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
            command.is_ok_and(|status| status.success())
        };
        candidates.into_iter().find(runs).map(|program| Ptxas { program: program.to_path_buf() })
    }

    /// Assembles a module of one entry point for an architecture (`sm_90`), and says what it takes.
    ///
    /// # Errors
    /// What ptxas says of text that it does not accept, or of an architecture that it does not know; and if it cannot be run.
    pub fn assemble(&self, source: &str, architecture: &str) -> Result<Resources, String> {
        let not_run = |error: std::io::Error| format!("{}: {error}", self.program.display());
        let mut child = Command::new(&self.program)
            .args(["-v", "-arch", architecture, "-o", "/dev/null", "/dev/stdin"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(not_run)?;
        if let Some(mut input) = child.stdin.take() {
            // It may stop reading at the first fault, and then says which.
            let _ = input.write_all(source.as_bytes());
        }
        let output = child.wait_with_output().map_err(not_run)?;
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        if output.status.success() { Ok(resources(&text)) } else { Err(text) }
    }
}

/// Reads what `ptxas -v` reports: numbers before the words that say what they count.
fn resources(report: &str) -> Resources {
    let before = |words: &str| {
        let head = report.split_once(words).map_or("", |(head, _)| head);
        head.split_whitespace().next_back().and_then(|number| number.parse().ok()).unwrap_or(0)
    };
    Resources {
        registers: before(" registers"),
        stack_bytes: before(" bytes stack frame"),
        spill_store_bytes: before(" bytes spill stores"),
        spill_load_bytes: before(" bytes spill loads"),
        shared_bytes: before(" bytes smem"),
        barriers: before(" barriers"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_read() {
        let report = "\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'r' for 'sm_90'
ptxas info    : Function properties for r
    24 bytes stack frame, 16 bytes spill stores, 20 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 24 bytes cumulative stack size, 4096 bytes smem
ptxas info    : Compile time = 18.969 ms
";
        let expected = Resources {
            registers: 255,
            stack_bytes: 24,
            spill_store_bytes: 16,
            spill_load_bytes: 20,
            shared_bytes: 4096,
            barriers: 1,
        };
        assert_eq!(resources(report), expected);
        assert_eq!(resources(""), Resources::default());
    }

    #[test]
    fn a_program_that_is_not_there_is_not_found() {
        let nowhere = Ptxas { program: PathBuf::from("/nowhere/ptxas") };
        assert!(nowhere.assemble("", "sm_90").is_err_and(|error| error.starts_with("/nowhere/ptxas: ")));
    }
}
