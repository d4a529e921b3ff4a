//! Searches on the machine that runs the tests: what they find is right, never slower than by hand by their own clock, and found again.

use std::time::Duration;

use warpweft_compiler::UOp;
use warpweft_compiler::ir::text::parse;
use warpweft_compiler::optimize::Opt;

use warpweft_compiler::pipeline::loops_of;
use warpweft_compiler::schedule::{normalize, schedule_with};
use warpweft_compiler::watch::Silent;

use super::trial::Bench;
use super::{Budget, Origin, Outcome};
use crate::config::Config;
use crate::execute::Executor;

fn executor(config: &Config) -> Executor {
    Executor::open("CPU", config).expect("the device opens")
}

fn product(rows: i64, terms: i64, columns: i64) -> UOp {
    let text = format!(
        "graph %product(y: f32[{rows}, {columns}], x: f32[{rows}, {terms}], w: f32[{terms}, {columns}]) {{
  a = reshape x, [{rows}, 1, {terms}]
  wide = expand a, [{rows}, {columns}, {terms}]
  t = permute w, (1, 0)
  b = reshape t, [1, {columns}, {terms}]
  tall = expand b, [{rows}, {columns}, {terms}]
  p = mul wide, tall
  sum = reduce p, add (2)
  done = store y, sum
  k = sink done
  return k
}}"
    );
    parse(&text).expect("a graph").roots[0].clone()
}

const SHORT: Budget = Budget { width: 2, time: Duration::from_secs(4) };

#[test]
fn what_a_search_finds_is_checked_and_not_slower_than_by_hand() {
    let executor = executor(&Config::default());
    let mut told = 0;
    let found = executor.search(&product(37, 50, 41), SHORT, &mut |progress| {
        told += 1;
        assert!(progress.best > 0.0 && progress.best <= progress.by_hand, "{progress:?}");
    });
    let found = found.expect("a search");
    assert!(found.seconds <= found.by_hand_seconds, "{found:?}");
    assert!(!found.tried.is_empty() && told == found.tried.len());
    for trial in &found.tried {
        assert!(!matches!(trial.outcome, Outcome::Wrong(_)), "{trial:?}");
    }
    assert_eq!(found.checked_against, "the unoptimised kernel");
}

#[test]
fn kernels_that_replace_what_they_read_are_compared_from_the_same_start() {
    let text = "graph %shares(x: f32[12, 20]) {\n  t = reduce x, add (1)\n  c = reshape t, [12, 1]\n  w = expand c, [12, 20]\n  s = mul x, w\n  d = store x, s\n  k = sink d\n  return k\n}";
    let ast = parse(text).expect("a graph").roots[0].clone();
    let found = executor(&Config::default()).search(&ast, SHORT, &mut |_| ()).expect("a search");
    assert!(found.tried.iter().all(|trial| matches!(trial.outcome, Outcome::Ran(_))), "{found:?}");
}

#[test]
fn a_kernel_that_computes_something_else_never_wins() {
    let executor = executor(&Config::default());
    let ast = product(16, 24, 16);
    let bench = Bench::new(&executor, &ast, &[], Duration::from_secs(5)).expect("a kernel");
    let right = bench.compile(&[]).expect("a kernel");
    assert!(matches!(bench.judge(&right, f64::INFINITY), Outcome::Ran(_)));
    // The same buffers, another sum.
    let text = "graph %wrong(y: f32[16, 16], x: f32[16, 24], w: f32[24, 16]) {\n  a = reduce x, add (1)\n  b = reshape a, [16, 1]\n  c = expand b, [16, 16]\n  e = reduce w, add (0)\n  f = reshape e, [1, 16]\n  g = expand f, [16, 16]\n  h = mul c, g\n  d = store y, h\n  k = sink d\n  return k\n}";
    let wrong = parse(text).expect("a graph").roots[0].clone();
    let made =
        Bench::new(&executor, &wrong, &[], Duration::from_secs(5)).expect("a kernel").compile(&[]).expect("a kernel");
    assert!(matches!(bench.judge(&made, f64::INFINITY), Outcome::Wrong(_)));
}

#[test]
fn kernels_that_store_to_a_part_are_right_there_and_change_nothing_else() {
    let executor = executor(&Config::default());
    let stores = |from: i64, to: i64| {
        let text = format!(
            "graph %part(y: f32[40, 8], x: f32[10, 8]) {{\n  v = shrink y, [{from}:{to}, 0:8]\n  d = store v, x\n  k = sink d\n  return k\n}}"
        );
        parse(&text).expect("a graph").roots[0].clone()
    };
    let ast = stores(8, 18);
    let found = executor.search(&ast, SHORT, &mut |_| ()).expect("a search");
    assert!(found.tried.iter().all(|trial| matches!(trial.outcome, Outcome::Ran(_))), "{found:?}");
    // The same numbers, one row further: the first row is missing, and a row more is replaced.
    let bench = Bench::new(&executor, &ast, &[], Duration::from_secs(5)).expect("a kernel");
    let other = stores(9, 19);
    let further = Bench::new(&executor, &other, &[], Duration::from_secs(5)).expect("a kernel");
    assert!(matches!(bench.judge(&further.compile(&[]).expect("a kernel"), f64::INFINITY), Outcome::Wrong(_)));
}

#[test]
fn what_was_found_is_found_again_and_used_with_beam() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = Config { cache_folder: Some(folder.path().join("cache")), beam: 2, ..Config::default() };
    let ast = product(8, 16, 8);
    let list: Vec<Opt> = {
        let executor = executor(&config);
        executor.search(&ast, SHORT, &mut |_| ()).expect("a search").opts
    };
    let again = executor(&config);
    let known = |width: usize| again.known_lists().list_for(&ast, width, again.disk_cache());
    assert_eq!(known(2), Some(list.clone()));
    assert_eq!(known(1), Some(list));
    assert_eq!(known(3), None, "a wider search may find more");
}

#[test]
fn programs_with_beam_compute_what_they_compute_without() {
    let config = Config { beam: 1, ..Config::default() };
    let values = |config: &Config| {
        let executor = executor(config);
        let data: Vec<u8> = (0..64).flat_map(|number| (number as f32 / 7.0).to_le_bytes()).collect();
        let x = executor.from_bytes(warpweft_compiler::DType::F32, 64, &data).expect("memory").reshape([8, 8]);
        let y = (&x * &x).reduce(warpweft_compiler::ir::ReduceOp::Max, &[1]);
        let stored = executor.realize(&[y]).expect("a value").remove(0);
        (crate::execute::to_bytes(&stored).expect("bytes"), executor.known_lists().is_empty())
    };
    let ((with, none_found), (without, none_sought)) = (values(&config), values(&Config::default()));
    assert_eq!(with, without);
    assert!(!none_found && none_sought, "BEAM searches, and nothing else does");
}

#[test]
fn a_search_that_is_ended_gives_what_it_has_and_keeps_nothing() {
    use std::cell::Cell;
    thread_local! { static STOPPED: Cell<bool> = const { Cell::new(false) }; }
    super::stop_when(|| STOPPED.get());
    let (executor, ast) = (executor(&Config::default()), product(13, 17, 19));
    let long = Budget { width: 4, time: Duration::from_secs(600) };
    let mut told = 0;
    let found = executor.search(&ast, long, &mut |_| {
        told += 1;
        STOPPED.set(true);
    });
    let known = executor.known_lists().list_for(&ast, 1, executor.disk_cache());
    STOPPED.set(false);
    assert!(found.is_ok_and(|found| found.seconds > 0.0) && (1..64).contains(&told) && known.is_none());
}

/// Sums in another order have other last bits, which shows what kernel ran.
#[test]
fn programs_launch_the_lists_that_are_known_once_they_are_tuned() {
    let executor = executor(&Config::default());
    let data: Vec<u8> =
        (0..4096u32).flat_map(|k| (k.wrapping_mul(2_654_435_761) as i32 as f32).to_le_bytes()).collect();
    let x = executor.from_bytes(warpweft_compiler::DType::F32, 4096, &data).expect("memory");
    // A new value each time: what is computed already is not computed again.
    let value = || x.reshape([64, 64]).reduce(warpweft_compiler::ir::ReduceOp::Add, &[0, 1]);
    let computed = || crate::execute::to_bytes(&executor.realize(&[value()]).expect("a value")[0]).expect("bytes");
    let number = |bytes: &[u8]| f32::from_le_bytes(bytes.try_into().expect("four bytes"));
    let by_hand = computed();
    let sink = normalize(&[value()], |_| None).expect("a program").sink;
    let untouched = executor.tune(&sink, Duration::ZERO, &mut |_| ()).expect("times");
    assert!(untouched.kernels.iter().all(|kernel| kernel.origin == Origin::ByHand && !kernel.opts.is_empty()));
    assert_eq!(computed(), by_hand);
    let ast = schedule_with(&sink, executor.schedule_options(), &mut Silent).expect("kernels").kernels[0].ast.clone();
    executor.known_lists().keep(&ast, &loops_of(&ast, &mut Silent), 4, &[], executor.disk_cache());
    let tuning = executor.tune(&sink, Duration::ZERO, &mut |_| ()).expect("times");
    assert!(tuning.kernels.iter().all(|kernel| kernel.origin == Origin::Known && kernel.opts.is_empty()), "{tuning}");
    let bare = computed();
    assert_ne!(bare, by_hand, "the kernel by hand ran again");
    // Of numbers below 2^31.
    assert!((number(&bare) - number(&by_hand)).abs() < 4096.0 * f32::EPSILON * 2f32.powi(31));
}
