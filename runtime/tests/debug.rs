//! What each level prints, with times, addresses and process numbers masked.
//!
//! A process of its own, in which tests take turns: `tracing` asks only once whether anybody listens to a call site, and where there is one subscriber it asks
//! the thread that meets the call site first. A thread of another test, which has no subscriber, would say no for all.
#![allow(clippy::unwrap_used, reason = "a step that fails fails its test")]

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use expect_test::expect;
use tracing_subscriber::layer::SubscriberExt;
use warpweft::config::Config;
use warpweft::debug::{Printer, kernel_line};
use warpweft::execute::Executor;
use warpweft::{DType, Tensor, compile, spec};
use warpweft_compiler::ir::{ReduceOp, UOp};
use warpweft_compiler::program::Estimate;

/// A writer into shared memory.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// What is printed at a level while something runs, and nothing else of this process does.
fn told(level: u8, program: impl FnOnce()) -> String {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let shared = Shared::default();
    let writer = shared.clone();
    let subscriber = tracing_subscriber::registry().with(Printer::new(level, move || writer.clone()));
    tracing::subscriber::with_default(subscriber, program);
    let bytes = shared.0.lock().unwrap().clone();
    String::from_utf8(bytes).unwrap()
}

/// What is printed at a level while a softmax is computed twice.
fn printed(level: u8) -> String {
    told(level, || {
        let mut config = Config::default();
        config.threads = Some(1);
        let executor = Executor::open("CPU", &config).unwrap();
        for _ in 0..2 {
            let bytes: Vec<u8> = (0..512).flat_map(|k| (k as f32).to_le_bytes()).collect();
            let x = executor.from_bytes(DType::F32, 512, &bytes).unwrap().reshape([16, 32]);
            let spread = |x: &UOp, op| x.reduce(op, &[1]).reshape([16, 1]).expand([16, 32]);
            let powers = (&x - spread(&x, ReduceOp::Max)).exp2();
            executor.realize(&[powers.div(spread(&powers, ReduceOp::Add)).contiguous() + 1]).unwrap();
        }
    })
}

/// Numbers that differ from run to run as `_`: those with a decimal point, process numbers, and counts of live nodes.
fn masked(text: &str) -> String {
    let mut lines = Vec::new();
    for line in text.lines() {
        let words: Vec<String> = line
            .split(' ')
            .filter(|word| !word.is_empty())
            .map(|word| {
                let has_time = word.contains('.') && word.chars().any(|c| c.is_ascii_digit());
                let varies = has_time || word.starts_with("pid:");
                if varies { "_".to_string() } else { word.to_string() }
            })
            .collect();
        let text = words.join(" ");
        lines.push(match text.split_once(" uops") {
            Some((before, after)) => format!("{} _ uops{after}", before.rsplit_once(' ').map_or("", |(head, _)| head)),
            None => text,
        });
    }
    lines.join("\n")
}

#[test]
fn level_one_tells_of_devices_and_schedules() {
    let text = masked(&printed(1));
    expect![[r#"
        opened device CPU from _
        scheduled 2 kernels in _ ms | CACHE MISS 00000000 | _ uops in memory
        made 2 kernels in _ ms | 0 from disk, 2 compiled
        scheduled 2 kernels | cache hit 00000000"#]]
    .assert_eq(&without_keys(&text));
}

/// Keys of programs change with the table of ops.
fn without_keys(text: &str) -> String {
    let is_key = |word: &str| word.len() == 8 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let line = |line: &str| {
        line.split(' ').map(|word| if is_key(word) { "00000000" } else { word }).collect::<Vec<_>>().join(" ")
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn each_level_adds_its_own_part() {
    let all = printed(7);
    let found = |needle: &str| all.contains(needle);
    assert!(found("*** CPU") && found("GFLOPS"), "level 2");
    assert!(found("contiguous [16, 32]: stored: it must exist in memory"), "level 3");
    assert!(found("define void @"), "level 4");
    assert!(found("graph %kernel("), "level 5");
    assert!(!printed(1).contains("***"));
    let third = printed(3);
    assert!(third.contains("opts:") && !third.contains("define void"));
    assert!(printed(4).contains("define void") && !printed(4).contains("graph %kernel"));
}

/// What is told at level 2 of launches, without what comes before the call.
fn calls_of(program: impl FnOnce()) -> Vec<String> {
    let text = told(2, program);
    let launches = text.lines().filter(|line| line.starts_with("***"));
    launches.map(|line| line.rsplit_once("GB/s)").unwrap().1.trim().to_string()).collect()
}

#[test]
fn each_launch_names_the_call_that_asked_for_it() {
    let here = |op: &str, line: u32| format!("{op} at {}:{line}", file!());
    let line = line!() + 3;
    let eager = calls_of(|| {
        let x = Tensor::from_vec((0..6).map(|k| k as f32).collect(), [2, 3]);
        let sums = x.exp().sum(1).contiguous();
        let y = sums.log() + 1.0;
        y.realize().unwrap();
        x.narrow(0, 1, 1).assign(Tensor::full([1, 3], 2.0)).unwrap();
        x.realize().unwrap();
    });
    assert_eq!(eager[..2], [here("contiguous", line), here("add", line + 1)], "{eager:?}");
    // The graph of `y` still needs what was in `x`: a copy of memory, which no call asked for, and then the write.
    assert_eq!(eager[2..], [String::new(), here("full", line + 3)], "{eager:?}");
    let called = calls_of(|| {
        let f = compile([spec(DType::F32, [2, 3])], |[x]| [x.relu().contiguous() * 3.0, x.sum(())]).unwrap();
        for _ in 0..2 {
            f.call([&Tensor::from_vec(vec![1f32; 6], [2, 3])]).unwrap();
        }
    });
    let mut ops: Vec<&str> = called.iter().map(|call| call.split(' ').next().unwrap()).collect();
    ops.sort_unstable();
    ops.dedup();
    assert!(called.iter().all(|call| call.contains("tests/debug.rs:")) && ops.contains(&"mul"), "{called:?}");
}

#[test]
fn the_line_of_a_launch() {
    let estimate = Estimate { operations: 2e9, bytes_unique: 12e6, bytes_accessed: 4e9 };
    let line = kernel_line(
        "CPU",
        3,
        "r_1024_1024",
        3,
        12_582_912,
        Duration::from_micros(10_500),
        Duration::from_millis(31),
        &estimate,
    );
    expect!["*** CPU            3 r_1024_1024                              arg   3 mem   0.01 GB tm  10500.00us/    31.00ms (  190.5 GFLOPS    1.1|381.0  GB/s)"].assert_eq(&line);
}
