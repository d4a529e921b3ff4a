//! Starts a worker a core, counts what they try, ends those that hang and replaces those that crash.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use super::worker::{repeat_command, save_in};
use super::{KINDS, kind};

/// Without a word for so long, a worker hangs.
const SILENCE_MAX: Duration = Duration::from_secs(120);

/// What is to be run.
pub struct Plan {
    /// The seed of all programs.
    pub seed: u64,
    /// For how long.
    pub time: Duration,
    /// Processes.
    pub workers: u64,
    /// The kinds, by number.
    pub kinds: Vec<usize>,
    /// Where failures are saved.
    pub folder: PathBuf,
}

/// What became of the programs of a kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Programs that were tried.
    pub tried: u64,
    /// Those that differ, hang or crash.
    pub failed: u64,
    /// Time that they took on all workers.
    pub spent: Duration,
}

/// Counts by kind.
pub type Counts = BTreeMap<&'static str, Count>;

struct Worker {
    number: u64,
    process: Child,
    heard: Instant,
    /// The programs that it is at.
    at: Option<(&'static str, u64, u64)>,
    next: BTreeMap<&'static str, u64>,
    ended: bool,
    /// How often it was started: what an earlier process said is late.
    starts: u64,
}

type Line = (u64, u64, Option<String>);

/// Runs programs until the time is over; `tell` is called with the counts now and then.
///
/// # Errors
/// If workers cannot be started.
pub fn run(plan: &Plan, tell: &mut dyn FnMut(&Counts, Duration)) -> std::io::Result<Counts> {
    let started = Instant::now();
    let (sender, receiver) = channel::<Line>();
    let mut counts: Counts = plan.kinds.iter().map(|&number| (KINDS[number].name, Count::default())).collect();
    let mut workers = Vec::new();
    for number in 0..plan.workers {
        let next = plan.kinds.iter().map(|&kind| (KINDS[kind].name, number)).collect();
        workers.push(start(plan, number, next, 0, started, &sender)?);
    }
    while workers.iter().any(|worker| !worker.ended) {
        hear(plan, &receiver, &mut workers, &mut counts);
        tell(&counts, started.elapsed());
        for worker in workers.iter_mut().filter(|worker| !worker.ended) {
            let hangs = worker.heard.elapsed() > SILENCE_MAX;
            if hangs {
                // Only a process that this one started.
                let _ = worker.process.kill();
            }
            if !matches!(worker.process.try_wait(), Ok(None)) || hangs {
                let status = worker.process.wait()?;
                let why = if hangs { format!("no end within {SILENCE_MAX:?}") } else { format!("a crash: {status}") };
                lost(plan, worker, &why, &mut counts);
                let left = plan.time.saturating_sub(started.elapsed());
                worker.ended = left < Duration::from_secs(1);
                if !worker.ended {
                    let starts = worker.starts + 1;
                    *worker = start(plan, worker.number, worker.next.clone(), starts, started, &sender)?;
                }
            }
        }
    }
    Ok(counts)
}

/// Takes in what workers say for a moment.
fn hear(plan: &Plan, receiver: &Receiver<Line>, workers: &mut [Worker], counts: &mut Counts) {
    let until = Instant::now() + Duration::from_millis(500);
    loop {
        let (number, starts, line) = match receiver.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(heard) => heard,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return,
        };
        let worker = &mut workers[number as usize];
        if let Some(line) = line
            && worker.starts == starts
        {
            take(plan, worker, &line, counts);
        }
    }
}

fn take(plan: &Plan, worker: &mut Worker, line: &str, counts: &mut Counts) {
    worker.heard = Instant::now();
    let words: Vec<&str> = line.split(' ').collect();
    let name = words.get(1).and_then(|name| kind(name)).map(|(_, kind)| kind.name);
    let number = |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok()).unwrap_or_default();
    match (words[0], name) {
        ("at", Some(name)) => worker.at = Some((name, number(2), number(3))),
        ("spent", Some(name)) => {
            let count = counts.entry(name).or_default();
            count.spent += Duration::from_micros(number(2));
            if let Some((_, first, programs)) = worker.at.take() {
                count.tried += programs;
                worker.next.insert(name, first + programs * plan.workers);
            }
        }
        ("failed", Some(name)) => counts.entry(name).or_default().failed += 1,
        ("end", _) => worker.ended = true,
        _ => {}
    }
}

/// Notes that a worker was lost with what it was at.
fn lost(plan: &Plan, worker: &mut Worker, why: &str, counts: &mut Counts) {
    let Some((name, first, programs)) = worker.at.take() else { return };
    let count = counts.entry(name).or_default();
    count.tried += programs;
    count.failed += 1;
    worker.next.insert(name, first + programs * plan.workers);
    let last = first + (programs - 1) * plan.workers;
    let numbers = if programs == 1 { String::new() } else { format!(", or a later one up to {last}") };
    let text = format!("{why}\nin program {first}{numbers}: {}", repeat_command(name, plan.seed, first));
    let _ = save_in(&plan.folder, name, plan.seed, first, &[], &text);
}

fn start(
    plan: &Plan,
    number: u64,
    next: BTreeMap<&'static str, u64>,
    starts: u64,
    started: Instant,
    sender: &Sender<Line>,
) -> std::io::Result<Worker> {
    let left = plan.time.saturating_sub(started.elapsed());
    let kinds: Vec<String> = next.iter().map(|(name, first)| format!("{name}={first}")).collect();
    let mut process = Command::new(std::env::current_exe()?)
        .args(["--worker", &format!("{number}/{}", plan.workers)])
        .args(["--seed", &plan.seed.to_string()])
        .args(["--seconds", &left.as_secs_f64().to_string()])
        .args(["--next", &kinds.join(",")])
        .arg("--folder")
        .arg(&plan.folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let output = process.stdout.take();
    let sender = sender.clone();
    std::thread::spawn(move || {
        let lines = output.map(BufReader::new).into_iter().flat_map(BufRead::lines);
        for line in lines.map_while(Result::ok) {
            if sender.send((number, starts, Some(line))).is_err() {
                return;
            }
        }
    });
    Ok(Worker { number, process, heard: Instant::now(), at: None, next, ended: false, starts })
}
