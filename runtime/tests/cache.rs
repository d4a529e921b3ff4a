//! The cache on disk as processes share it: warm starts, damage, death, a full disk, other machines. Each process is the command
//! line running a small encoder, which prints a number that must always be the same.
#![allow(clippy::unwrap_used, reason = "a step that fails fails its test")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

const SIZES: [&str; 12] =
    ["--layers", "1", "--width", "16", "--heads", "2", "--inner", "24", "--batch", "2", "--positions", "6"];

/// What a process said.
struct Run {
    sum: f64,
    schedules_made: u64,
    schedules_from_disk: u64,
    lowered: u64,
    compiled: u64,
    from_disk: u64,
}

fn command(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warpweft"));
    command.env_remove("DEBUG").env_remove("CACHELEVEL").env("DEV", "CPU").env("WARPWEFT_CACHE_DIR", folder);
    command
}

fn start(folder: &Path) -> Command {
    let mut command = command(folder);
    command.arg("encoder-start").args(SIZES).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn told(output: &Output) -> Run {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let count = |name: &str| told[name].as_u64().unwrap();
    Run {
        sum: told["sum"].as_f64().unwrap(),
        schedules_made: count("schedules_made"),
        schedules_from_disk: count("schedules_from_disk"),
        lowered: count("lowered"),
        compiled: count("compiled"),
        from_disk: count("from_disk"),
    }
}

fn run(folder: &Path) -> Run {
    told(&start(folder).output().unwrap())
}

/// The right number: from a process that keeps nothing.
fn right() -> f64 {
    told(&start(Path::new("/nonexistent")).env("CACHELEVEL", "0").output().unwrap()).sum
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let list =
        |folder: &Path| std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
    let mut files: Vec<PathBuf> =
        list(folder).iter().filter(|path| path.is_dir()).flat_map(|shard| list(shard)).collect();
    files.sort();
    files
}

fn is_whole(run: &Run) -> bool {
    (run.schedules_made, run.lowered, run.compiled) == (0, 0, 0) && run.schedules_from_disk > 0 && run.from_disk > 0
}

#[test]
fn a_warm_start_schedules_lowers_and_compiles_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let cold = run(folder.path());
    assert!(cold.schedules_made > 0 && cold.lowered > 0 && cold.compiled == cold.lowered && cold.from_disk == 0);
    let warm = run(folder.path());
    assert!(is_whole(&warm));
    assert_eq!(warm.from_disk, cold.compiled);
    assert_eq!((cold.sum, warm.sum), (right(), right()));
    // Another number of threads is another target: nothing of it is taken.
    let other = told(&start(folder.path()).env("THREADS", "3").output().unwrap());
    assert!(other.schedules_from_disk == 0 && other.from_disk == 0 && other.compiled > 0);
    let unoptimized = told(&start(folder.path()).env("NOOPT", "1").output().unwrap());
    assert!(unoptimized.schedules_from_disk == 0 && unoptimized.from_disk == 0);
    assert!((unoptimized.sum - cold.sum).abs() < 1e-4);
    assert!(is_whole(&run(folder.path())));
}

#[test]
fn damage_of_any_kind_costs_time_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let sum = run(folder.path()).sum;
    let damages: [fn(&mut Vec<u8>, usize); 5] = [
        |bytes, number| {
            let at = (number * 7919 + 13) % bytes.len();
            bytes[at] ^= 1 << (number % 8);
        },
        |bytes, number| bytes.truncate(bytes.len() * (number % 10) / 10),
        |bytes, _| bytes.clear(),
        |bytes, _| bytes.extend_from_slice(b"more"),
        |bytes, number| {
            let len = bytes.len();
            bytes[80.min(len)..].fill(number as u8);
        },
    ];
    for damage in damages {
        for (number, file) in files(folder.path()).iter().enumerate() {
            let mut bytes = std::fs::read(file).unwrap();
            damage(&mut bytes, number);
            std::fs::write(file, bytes).unwrap();
        }
        let damaged = run(folder.path());
        assert_eq!(damaged.sum, sum);
        assert!(damaged.compiled > 0 && damaged.from_disk == 0);
        assert!(is_whole(&run(folder.path())), "it is whole again");
    }
    // One kernel that is gone is made again; the schedule that names it does not mislead.
    let kernel = files(folder.path()).into_iter().find(|path| path.extension().unwrap() == "kernel").unwrap();
    std::fs::remove_file(kernel).unwrap();
    let healed = run(folder.path());
    assert_eq!((healed.sum, healed.compiled), (sum, 1));
    assert!(is_whole(&run(folder.path())));
}

#[test]
fn processes_at_once_share_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let sum = right();
    for _ in 0..2 {
        let children: Vec<Child> = (0..3).map(|_| start(folder.path()).spawn().unwrap()).collect();
        for child in children {
            assert_eq!(told(&child.wait_with_output().unwrap()).sum, sum);
        }
    }
    assert!(is_whole(&run(folder.path())));
    assert!(files(folder.path()).iter().all(|path| path.extension().unwrap() != "tmp"));
}

#[test]
fn a_process_that_is_killed_leaves_nothing_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let sum = right();
    for wait in [30, 80, 150, 250, 400] {
        let mut child = start(folder.path()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(wait));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    // What a killed writer leaves behind: a file with no name yet, half written.
    let shard = folder.path().join("ab");
    std::fs::create_dir_all(&shard).unwrap();
    std::fs::write(shard.join("abcd.1-0.tmp"), b"half").unwrap();
    assert_eq!(run(folder.path()).sum, sum);
    assert!(is_whole(&run(folder.path())));
}

#[cfg(unix)]
/// The encoder, run by a script as `"$@"`, with a cache in a folder.
fn by_script(script: &str, folder: &Path) -> Output {
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh", env!("CARGO_BIN_EXE_warpweft"), "encoder-start"]).args(SIZES);
    command.env_remove("DEBUG").env_remove("CACHELEVEL").env("DEV", "CPU").env("WARPWEFT_CACHE_DIR", folder);
    command.output().unwrap()
}

#[test]
fn files_that_may_not_grow_cost_a_warm_start_and_not_the_process() {
    let folder = tempfile::tempdir().unwrap();
    // Writing more than 4 blocks of 512 bytes to a file would end the process by a signal.
    let limited = by_script("ulimit -f 4; exec \"$@\"", folder.path());
    let lines = String::from_utf8_lossy(&limited.stderr).into_owned();
    assert_eq!(told(&limited).sum, right());
    assert!(lines.lines().count() == 1 && lines.contains("this process may write 2048 to one"), "{lines}");
    assert!(files(folder.path()).iter().all(|path| path.metadata().unwrap().len() <= 2048));
    // What was found grows a file by a byte each, until it may not.
    assert!(!is_whole(&run(folder.path())) && is_whole(&run(folder.path())));
    std::fs::write(folder.path().join("hits"), [b'.'; 2047]).unwrap();
    assert!(is_whole(&told(&by_script("ulimit -f 4; exec \"$@\"", folder.path()))));
    assert_eq!(folder.path().join("hits").metadata().unwrap().len(), 2047);
}

#[cfg(target_os = "linux")]
#[test]
fn a_disk_that_is_full_costs_a_warm_start() {
    let folder = tempfile::tempdir().unwrap();
    let full = |script: &str| {
        let script = format!("mount -t tmpfs -o size=16k,mode=700 none \"$WARPWEFT_CACHE_DIR\" && {script}");
        let mut command = Command::new("unshare");
        command.args([
            "--user",
            "--map-root-user",
            "--mount",
            "sh",
            "-c",
            &script,
            "sh",
            env!("CARGO_BIN_EXE_warpweft"),
        ]);
        command.arg("encoder-start").args(SIZES).env_remove("DEBUG").env_remove("CACHELEVEL");
        command.env("DEV", "CPU").env("WARPWEFT_CACHE_DIR", folder.path()).output()
    };
    if !full("true").is_ok_and(|output| output.status.success()) {
        return println!("skipped: nothing can be mounted here");
    }
    // Twice, so that the second finds what the first has left; then what is not whole.
    let output = full("\"$@\" > /dev/null && \"$@\" && find \"$WARPWEFT_CACHE_DIR\" -name '*.tmp' >&2").unwrap();
    let lines = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(told(&output).sum, right());
    let warned = lines.lines().filter(|line| line.contains("No space left on device")).count();
    assert!((1..=2).contains(&warned) && warned == lines.lines().count(), "{lines}");
}

#[test]
fn the_command_line_shows_prunes_and_clears() {
    let folder = tempfile::tempdir().unwrap();
    let cache = |arguments: &[&str]| {
        let output = command(folder.path()).arg("cache").args(arguments).output().unwrap();
        (output.status.success(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
    };
    run(folder.path());
    let warm = run(folder.path());
    let count = files(folder.path()).len();
    let (_, text) = cache(&[]);
    assert!(text.starts_with(&folder.path().display().to_string()), "{text}");
    assert!(text.contains(&format!("{:8} kernels", warm.from_disk)), "{text}");
    assert!(text.contains(&format!("{:8} found in it", warm.from_disk + warm.schedules_from_disk)), "{text}");
    assert!(cache(&["prune", "--older-than", "30d"]).1.starts_with("removed 0 entries"));
    assert!(cache(&["prune", "--max-size", "1G"]).1.starts_with("removed 0 entries"));
    assert!(cache(&["prune", "--max-size", "20K"]).0);
    let left = files(folder.path());
    assert!(left.len() < count && left.iter().map(|path| path.metadata().unwrap().len()).sum::<u64>() <= 20 << 10);
    assert!(run(folder.path()).compiled > 0);
    assert!(cache(&["clear"]).1.starts_with(&format!("removed {count} entries")));
    assert!(files(folder.path()).is_empty());
    for (arguments, message) in [
        (&["prune"][..], "say what to remove"),
        (&["prune", "--max-size", "big"], "a size is a number of bytes"),
        (&["prune", "--older-than", "30"], "an age is a number with its unit"),
    ] {
        let (succeeded, text) = cache(arguments);
        assert!(!succeeded && text.contains(message), "{text}");
    }
}
