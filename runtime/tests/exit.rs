//! A process whose main thread never computes, and ends it while another thread compiles for the first time.
//!
//! The main thread of a program is what is tried, which those of the usual harness do not give: this program is its own, and runs itself.
#![allow(clippy::unwrap_used, reason = "a step that fails fails its test")]
#![allow(clippy::print_stdout, reason = "as the usual harness does")]

use std::process::{Command, Output};
use std::time::{Duration, Instant};

use warpweft::{Config, Tensor, init};

const NAME: &str = "the_main_thread_may_end_the_process_while_another_compiles_first";
const CHILD: &str = "--exit-after-us=";
const ROUNDS: u32 = 40;

fn compute() -> f32 {
    let mut config = Config::default(); // nothing on disk: LLVM is needed
    config.threads = Some(1);
    init(config).unwrap();
    (Tensor::from_vec(vec![1f32, 2.0, 3.0], [3]) * 2.0).exp().sum(()).item().unwrap()
}

/// Ends after this time; without one, when the other thread has computed.
fn child(after: Option<Duration>) -> ! {
    let computing = std::thread::spawn(|| {
        let begun = Instant::now();
        assert!(compute() > 400.0);
        println!("{}", begun.elapsed().as_micros());
    });
    match after {
        Some(after) => std::thread::sleep(after),
        None => computing.join().unwrap(),
    }
    std::process::exit(7)
}

fn run(after: &str) -> Output {
    let output = Command::new(std::env::current_exe().unwrap()).arg(format!("{CHILD}{after}")).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(7), "after {after} us: {:?}\n{said}", output.status);
    output
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(after) = arguments.iter().find_map(|argument| argument.strip_prefix(CHILD)) {
        child(after.parse().ok().map(Duration::from_micros));
    }
    if arguments.iter().any(|argument| argument == "--list") {
        return println!("{NAME}: test");
    }
    let names: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with('-')).collect();
    if !names.is_empty() && !names.iter().any(|name| NAME.contains(name.as_str())) {
        return;
    }
    let whole = String::from_utf8(run("").stdout).unwrap().trim().parse::<u32>().unwrap();
    for round in 0..ROUNDS {
        run(&(whole * 3 / 4 / ROUNDS * round).to_string()); // LLVM is loaded first
    }
    println!("test {NAME} ... ok");
}
