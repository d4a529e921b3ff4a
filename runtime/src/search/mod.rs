//! Searching for faster kernels: lists of opts are tried on the machine, and the fastest is kept.
//!
//! ```text
//! hand choice, bare loops --neighbours--> lists --cost model--> likely ones --compile, check, time--> the best few --neighbours--> ...
//! ```
//!
//! A beam search: from the best few lists known (`width` of them), each list that is one step away is thought of (`candidates`); those that the cost
//! model of the compiler puts first are compiled, on all threads, checked against the unoptimised kernel and timed (`trial`). It ends when a round
//! finds nothing better, or when its time is over. What is found is timed again beside the hand choice before it counts, so it is never slower.
//! Results are kept by the kernel, the target and the code generator (`known`).
//!
//! Always: a list that changed a value, beyond what the order of a sum may, never wins. Nothing is printed: who wants to see hears of each trial.
//! Not here: which opts are legal (`optimize`), what they cost by counting (`cost_model`). Tested in `search/tests.rs`.

mod candidates;
mod known;
mod programs;
mod stop;
mod trial;

#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustc_hash::FxHashSet;
use warpweft_compiler::UOp;
use warpweft_compiler::cost_model;
use warpweft_compiler::optimize::{Opt, Opts, apply, choose};
use warpweft_compiler::pipeline::{LowerOptions, loops_of, lower_kernel};
use warpweft_compiler::watch::Silent;

use crate::execute::{ExecuteError, Executor};
use candidates::Candidate;
pub(crate) use known::KnownLists;
pub use programs::{Origin, TunedKernel, Tuning, TuningProgress, launches_of};
pub(crate) use stop::is_stopped;
pub use stop::stop_when;
use trial::Bench;

/// Lists compiled and timed in a round, for each of those that it begins with.
const TRIALS_EACH: usize = 12;
/// What a better list must gain for the search to go on from it: less is noise.
const GAIN_MIN: f64 = 0.01;
/// What a list must gain over the hand choice at the end, to be taken in its place.
const GAIN_OVER_HAND_MIN: f64 = 0.02;
/// How often the two are timed in turn at the end.
const FINAL_ROUNDS: usize = 7;
/// A kernel that is slower by this factor than the best is not timed a second time.
const HOPELESS: f64 = 2.0;
/// One search at a time: two would disturb each other's times.
static SEARCHING: Mutex<()> = Mutex::new(());

/// How much a search may do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    /// Lists that a round goes on from.
    pub width: usize,
    /// It ends after about so long.
    pub time: Duration,
}

impl Budget {
    /// The default time of a search for one kernel.
    pub const TIME: Duration = Duration::from_secs(30);

    /// So many lists at a time, for the default time.
    pub fn of_width(width: usize) -> Budget {
        Budget { width: width.max(1), time: Budget::TIME }
    }
}

/// What became of a list.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It ran, in so many seconds at the least.
    Ran(f64),
    /// It did not become code, or did not run.
    Failed(String),
    /// It computed something else.
    Wrong(String),
}

/// A list that was tried.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// The list.
    pub opts: Vec<Opt>,
    /// What the cost model said, in seconds of a nominal machine.
    pub predicted: f64,
    /// What became of it.
    pub outcome: Outcome,
}

/// What a search found.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The fastest list: the hand choice's unless another is faster.
    pub opts: Vec<Opt>,
    /// Its time in seconds, the least of several.
    pub seconds: f64,
    /// The hand choice.
    pub by_hand: Vec<Opt>,
    /// Its time in seconds, taken in turn with the other.
    pub by_hand_seconds: f64,
    /// Every list that was compiled, in order.
    pub tried: Vec<Trial>,
    /// Lists that were thought of.
    pub considered: usize,
    /// What the values were compared with.
    pub checked_against: &'static str,
    /// How long the search took.
    pub elapsed: Duration,
}

/// How far a search is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Lists tried so far.
    pub tried: usize,
    /// The least time so far, in seconds.
    pub best: f64,
    /// That of the hand choice, in seconds.
    pub by_hand: f64,
    /// Since it began.
    pub elapsed: Duration,
    /// How long it may take.
    pub time: Duration,
}

/// A list with its time.
#[derive(Clone)]
struct Member {
    opts: Vec<Opt>,
    seconds: f64,
}

/// Searches for the fastest list of opts for a kernel (a sink of stores into parameters), on the machine and with all threads of the executor's device.
///
/// `told` hears of each trial. Inputs are random numbers.
///
/// # Errors
/// When the hand choice cannot be compiled or run, or memory does not suffice for the kernel's buffers.
pub fn search(
    executor: &Executor,
    ast: &UOp,
    budget: Budget,
    told: &mut dyn FnMut(Progress),
) -> Result<Found, ExecuteError> {
    let _alone = SEARCHING.lock().unwrap_or_else(PoisonError::into_inner);
    let mut search = Search::begin(executor, ast, budget, told)?;
    search.try_starts();
    while search.round() {}
    search.end()
}

/// Times given lists of opts for a kernel beside the hand choice, each checked as a search checks its own. What became of a list that an opt of it refuses says why.
///
/// # Errors
/// As [`search`].
pub fn try_lists(
    executor: &Executor,
    ast: &UOp,
    lists: &[Vec<Opt>],
    budget: Budget,
    told: &mut dyn FnMut(Progress),
) -> Result<Found, ExecuteError> {
    let _alone = SEARCHING.lock().unwrap_or_else(PoisonError::into_inner);
    let mut search = Search::begin(executor, ast, budget, told)?;
    let (kernel, target) = (search.kernel.clone(), executor.device().target());
    for opts in lists {
        match opts.iter().try_fold(kernel.clone(), |kernel, opt| apply(&kernel, opt, target)) {
            Ok(kernel) => {
                let ranked = search.ranked(vec![Candidate { opts: opts.clone(), kernel }]);
                search.try_out(ranked);
            }
            Err(refused) => search.note(opts.clone(), f64::INFINITY, Outcome::Failed(refused.to_string())),
        }
    }
    search.end()
}

struct Search<'s> {
    executor: &'s Executor,
    ast: &'s UOp,
    kernel: UOp,
    bench: Bench<'s>,
    budget: Budget,
    told: &'s mut dyn FnMut(Progress),
    started: Instant,
    by_hand: Member,
    beam: Vec<Member>,
    tried: Vec<Trial>,
    seen: FxHashSet<UOp>,
}

impl<'s> Search<'s> {
    fn begin(
        executor: &'s Executor,
        ast: &'s UOp,
        budget: Budget,
        told: &'s mut dyn FnMut(Progress),
    ) -> Result<Search<'s>, ExecuteError> {
        let started = Instant::now();
        let target = executor.device().target();
        let kernel = loops_of(ast, &mut Silent);
        let choice = choose(&kernel, target);
        let bench = Bench::new(executor, ast, &choice.applied, budget.time)?;
        let hand = bench.compile(&choice.applied)?;
        let seconds = bench.time(&hand, f64::INFINITY)?;
        let by_hand = Member { opts: choice.applied, seconds };
        Ok(Search {
            executor,
            ast,
            bench,
            budget,
            told,
            started,
            beam: vec![by_hand.clone()],
            by_hand,
            tried: Vec::new(),
            seen: [choice.kernel].into_iter().collect(),
            kernel,
        })
    }

    /// Tries what was found for kernels like this one, and the bare kernel.
    fn try_starts(&mut self) {
        let mut starts = self.executor.lists_of_like_kernels(&self.kernel);
        starts.push(Vec::new());
        let target = self.executor.device().target();
        let applied = starts.iter().filter_map(|opts| candidates::applied(&self.kernel, opts, target));
        let fresh: Vec<Candidate> = applied.filter(|start| self.seen.insert(start.kernel.clone())).collect();
        let ranked = self.ranked(fresh);
        self.try_out(ranked);
    }

    fn is_over(&self) -> bool {
        self.started.elapsed() >= self.budget.time || is_stopped()
    }

    fn best(&self) -> f64 {
        self.beam.first().map_or(f64::INFINITY, |member| member.seconds)
    }

    /// One step from each of the best; whether another round is worth it.
    fn round(&mut self) -> bool {
        if self.is_over() {
            return false;
        }
        let before = self.best();
        let members: Vec<Vec<Opt>> = self.beam.iter().map(|member| member.opts.clone()).collect();
        let mut fresh: Vec<Candidate> = Vec::new();
        for opts in &members {
            for candidate in candidates::neighbours(&self.kernel, opts, self.executor.device().target()) {
                if self.seen.insert(candidate.kernel.clone()) {
                    fresh.push(candidate);
                }
            }
        }
        let mut ranked = self.ranked(fresh);
        ranked.truncate(TRIALS_EACH * self.budget.width);
        self.try_out(ranked);
        self.best() < before * (1.0 - GAIN_MIN)
    }

    /// Candidates with what the cost model says, the fastest first; those that do not become a list of micro-ops are left out.
    fn ranked(&self, fresh: Vec<Candidate>) -> Vec<(f64, Candidate)> {
        let (target, ast) = (self.executor.device().target(), self.ast);
        let (next, ranked) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let end = self.started + self.budget.time;
        // The program is asked on this thread alone.
        let (caller, stopped) = (std::thread::current().id(), AtomicBool::new(false));
        let work = || {
            while let Some(candidate) = fresh.get(next.fetch_add(1, Ordering::Relaxed)) {
                if std::thread::current().id() == caller && is_stopped() {
                    stopped.store(true, Ordering::Relaxed);
                }
                if stopped.load(Ordering::Relaxed) || Instant::now() > end {
                    return;
                }
                let options = LowerOptions { opts: Opts::List(candidate.opts.clone()) };
                if let Ok(linear) = lower_kernel(ast, target, &options, &mut Silent) {
                    let predicted = cost_model::predict(&linear, target).total_ns() * 1e-9;
                    ranked.lock().unwrap_or_else(PoisonError::into_inner).push((predicted, candidate.clone()));
                }
            }
        };
        on_threads(self.executor.threads(), &work);
        let mut ranked = ranked.into_inner().unwrap_or_else(PoisonError::into_inner);
        // Of equal ones the shorter list, and then by its text: the order of threads must not matter.
        let order = |(predicted, candidate): &(f64, Candidate)| {
            (*predicted, candidate.opts.len(), Opts::List(candidate.opts.clone()).to_string())
        };
        ranked.sort_by(|a, b| {
            let (a, b) = (order(a), order(b));
            a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)).then(a.2.cmp(&b.2))
        });
        ranked
    }

    /// Compiles candidates on all threads, then checks and times each alone; the best stay.
    fn try_out(&mut self, ranked: Vec<(f64, Candidate)>) {
        for some in ranked.chunks(self.executor.threads().max(1)) {
            if self.is_over() {
                break;
            }
            let (next, made) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
            let bench = &self.bench;
            on_threads(some.len(), &|| {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if let Some((_, candidate)) = some.get(number) {
                    let compiled = bench.compile(&candidate.opts);
                    made.lock().unwrap_or_else(PoisonError::into_inner).push((number, compiled));
                }
            });
            let mut made = made.into_inner().unwrap_or_else(PoisonError::into_inner);
            made.sort_by_key(|(number, _)| *number);
            for (number, compiled) in made {
                let (predicted, candidate) = &some[number];
                let outcome = match compiled {
                    Ok(compiled) => self.bench.judge(&compiled, HOPELESS * self.best()),
                    Err(error) => Outcome::Failed(error.to_string()),
                };
                self.note(candidate.opts.clone(), *predicted, outcome);
            }
        }
    }

    fn note(&mut self, opts: Vec<Opt>, predicted: f64, outcome: Outcome) {
        if let Outcome::Ran(seconds) = outcome {
            let at = self.beam.partition_point(|member| member.seconds <= seconds);
            self.beam.insert(at, Member { opts: opts.clone(), seconds });
            self.beam.truncate(self.budget.width);
        }
        self.tried.push(Trial { opts, predicted, outcome });
        let (tried, best, by_hand) = (self.tried.len(), self.best(), self.by_hand.seconds);
        (self.told)(Progress { tried, best, by_hand, elapsed: self.started.elapsed(), time: self.budget.time });
    }

    /// Times the best and the hand choice in turn.
    fn end(self) -> Result<Found, ExecuteError> {
        let mut best = self.beam.first().cloned().unwrap_or_else(|| self.by_hand.clone());
        let mut by_hand = self.by_hand.clone();
        if best.opts != by_hand.opts {
            let kernels = [self.bench.compile(&best.opts)?, self.bench.compile(&by_hand.opts)?];
            let mut least = [f64::INFINITY; 2];
            for _ in 0..FINAL_ROUNDS {
                for (kernel, least) in kernels.iter().zip(&mut least) {
                    *least = least.min(self.bench.time(kernel, f64::INFINITY)?);
                }
            }
            [best.seconds, by_hand.seconds] = least;
            if best.seconds > by_hand.seconds * (1.0 - GAIN_OVER_HAND_MIN) {
                best = by_hand.clone();
            }
        } else {
            by_hand.seconds = best.seconds;
        }
        Ok(Found {
            opts: best.opts,
            seconds: best.seconds,
            by_hand: by_hand.opts,
            by_hand_seconds: by_hand.seconds,
            tried: self.tried,
            considered: self.seen.len(),
            checked_against: self.bench.checked_against(),
            elapsed: self.started.elapsed(),
        })
    }
}

/// Runs work on so many threads, the caller's among them; on fewer where no more can be started.
fn on_threads(threads: usize, work: &(dyn Fn() + Sync)) {
    std::thread::scope(|scope| {
        for _ in 1..threads {
            let started = std::thread::Builder::new().spawn_scoped(scope, work);
            if started.is_err() {
                break;
            }
        }
        work();
    });
}
