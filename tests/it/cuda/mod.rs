//! The device `CUDA` over a stand-in for NVIDIA's driver (`tests/driver`), which runs kernels on the emulator. What runs on a GPU, if there is one, is `on_gpu`.
//!
//! The stand-in is found as the driver is, by the name of its library, so each program runs in a process of its own: this test binary once more, for a test of `programs` or `by_hand`.
//! What it is to be like says `DRIVER_STAND_IN`, and it writes the name of each function that is called into a file.

mod by_hand;
mod failures;
mod programs;
mod runs;

use std::path::{Path, PathBuf};
use std::process::Command;

/// A folder in which the stand-in has the names that the driver's library is looked for under.
fn library_folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("driver");
    let binary = std::env::current_exe().unwrap();
    let built = binary.parent().unwrap().join("libwarpweft_driver.so");
    assert!(built.exists(), "cargo builds {} with these tests", built.display());
    std::fs::create_dir_all(&folder).unwrap();
    for name in ["libcuda.so", "libcuda.so.1"] {
        let link = folder.join(name);
        if std::fs::read_link(&link).ok().as_deref() != Some(&built) {
            // Of several tests that begin together the last one's link stays: they are the same.
            let own = folder.join(format!("{name}.{}.{:?}", std::process::id(), std::thread::current().id()));
            std::os::unix::fs::symlink(&built, &own).unwrap();
            std::fs::rename(own, link).unwrap();
        }
    }
    folder
}

/// A command that finds the stand-in, made as the options say. Kernels are compiled anew.
fn over(options: &str, program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    command.env("LD_LIBRARY_PATH", library_folder()).env("DRIVER_STAND_IN", options);
    command.env("DEV", "CUDA").env("CACHELEVEL", "0").env("THREADS", "1");
    command
}

/// What became of a program.
struct Ran {
    well: bool,
    said: String,
    /// The functions of the driver that it called, in order.
    calls: Vec<String>,
}

impl Ran {
    fn count(&self, call: &str) -> usize {
        self.calls.iter().filter(|other| *other == call).count()
    }
}

/// Runs a test of `programs` or `by_hand` in a process of its own, with more settings.
fn run_with(options: &str, program: &str, more: &[(&str, &str)]) -> Ran {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("calls");
    let options = format!("{options} log={}", log.display());
    let name = format!("cuda::{program}");
    let mut command = over(&options, std::env::current_exe().unwrap());
    command.args(["--exact", &name, "--ignored", "--nocapture"]).envs(more.iter().copied());
    let output = command.output().unwrap();
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(said.contains("running 1 test"), "there is no program {program}: {said}");
    let calls = std::fs::read_to_string(log).unwrap_or_default();
    Ran { well: output.status.success(), said, calls: calls.lines().map(str::to_string).collect() }
}

/// Runs a program that ends well.
#[track_caller]
fn run(options: &str, program: &str) -> Ran {
    let ran = run_with(options, program, &[]);
    assert!(ran.well, "{program} with {options}: {}", ran.said);
    ran
}
