//! One process that runs programs, and says on its output which it is at.
//!
//! ```text
//! at KIND FIRST COUNT      these programs come next; those before are done
//! spent KIND MICROSECONDS  what the last ones took
//! failed KIND NUMBER PATH  this one differs; what is known of it lies there
//! alive                    a failure is being reduced
//! end                      the time is over
//! ```

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::{KINDS, Kind};

/// What one failure may take to be reduced.
const REDUCING: Duration = Duration::from_secs(30);
/// Failures of one kind that are reduced; others are counted and saved as they are.
const REDUCED_MAX: u64 = 12;

/// What a worker is to do.
pub struct Task {
    /// The seed of all programs.
    pub seed: u64,
    /// Which worker it is, and how many there are: program numbers are shared out.
    pub worker: (u64, u64),
    /// When to stop.
    pub time: Duration,
    /// The kinds, by number, each with the first program to run.
    pub kinds: Vec<(usize, u64)>,
    /// Where failures are saved.
    pub folder: PathBuf,
}

struct Progress {
    kind: &'static Kind,
    next: u64,
    end: u64,
    spent: Duration,
    failed: u64,
}

/// Runs programs until the time is over.
///
/// # Errors
/// If the output is closed or failures cannot be saved.
pub fn run(task: &Task, output: &mut dyn Write) -> std::io::Result<()> {
    let end = Instant::now() + task.time;
    let mut kinds: Vec<Progress> = task
        .kinds
        .iter()
        .map(|&(number, next)| {
            let kind = &KINDS[number];
            let end = kind.programs.map_or(u64::MAX, |programs| programs());
            Progress { kind, next, end, spent: Duration::ZERO, failed: 0 }
        })
        .collect();
    while Instant::now() < end {
        // The kind that has had the least of its share.
        let left = kinds.iter_mut().filter(|progress| progress.next < progress.end);
        let Some(progress) = left.min_by_key(|progress| progress.spent / progress.kind.share) else { break };
        let kind = progress.kind;
        let (first, started) = (progress.next, Instant::now());
        let step = task.worker.1;
        let count = kind.batch.min((progress.end - first).div_ceil(step));
        writeln!(output, "at {} {first} {count}", kind.name)?;
        output.flush()?;
        for number in (0..count).map(|at| first + at * step) {
            let bytes = kind.bytes_of(task.seed, number);
            if let Err(why) = kind.check(number, &bytes) {
                progress.failed += 1;
                let path = save(task, kind, number, &bytes, &why)?;
                if progress.failed <= REDUCED_MAX {
                    let mut alive = || {
                        let _ = writeln!(output, "alive").and_then(|()| output.flush());
                    };
                    let reduced = kind.reduced(number, &bytes, REDUCING, &mut alive);
                    save(task, kind, number, &bytes, &reduced)?;
                }
                writeln!(output, "failed {} {number} {}", kind.name, path.display())?;
                output.flush()?;
            }
        }
        progress.next = first + count * step;
        progress.spent += started.elapsed();
        writeln!(output, "spent {} {}", kind.name, started.elapsed().as_micros())?;
    }
    writeln!(output, "end")?;
    output.flush()
}

/// Saves what is known of a failure; where.
fn save(task: &Task, kind: &Kind, number: u64, bytes: &[u8], why: &str) -> std::io::Result<PathBuf> {
    save_in(&task.folder, kind.name, task.seed, number, bytes, why)
}

/// Saves a failure, beginning with the command that repeats it. What is a filetest stands in a file of its own.
///
/// # Errors
/// If the folder cannot be written to.
pub fn save_in(folder: &Path, kind: &str, seed: u64, number: u64, bytes: &[u8], why: &str) -> std::io::Result<PathBuf> {
    std::fs::create_dir_all(folder)?;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let command = repeat_command(kind, seed, number);
    if let Some((_, test)) = why.split_once("--- as a filetest ---\n") {
        std::fs::write(folder.join(format!("{kind}-{number}.uop")), test)?;
    }
    let path = folder.join(format!("{kind}-{number}.txt"));
    std::fs::write(&path, format!("{command}\n\n{why}\n\nbytes {hex}\n"))?;
    Ok(path)
}

/// The command that runs one program again.
pub fn repeat_command(kind: &str, seed: u64, number: u64) -> String {
    format!("./x soak --seed {seed} --kind {kind} --program {number}")
}
