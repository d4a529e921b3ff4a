//! Tuning a whole program: each of its kernels is timed, and the time of the search goes to those that take the program's.
//!
//! ```text
//! program --schedule--> kernels --time each, times its launches--> shares of the budget --search--> lists --compile, keep--> faster kernels
//! ```
//!
//! A kernel of which a list is known from an earlier search gets that one, without a search: so a second run of a host program tunes in no time.
//! What is found takes the place of the hand choice for every program of the process that is compiled afterwards and has such a kernel.
//!
//! Always: no kernel becomes slower than the hand choice by more than the noise of the last comparison, since each search ends with one (`search`).
//! Times are of random numbers, one kernel at a time, so that a kernel whose operands were just written may be faster inside of a program.
//! Tested in `search/tests.rs` and `runtime/tests/tune.rs`.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;
use warpweft_compiler::UOp;
use warpweft_compiler::optimize::{Opt, Opts, choose};
use warpweft_compiler::pipeline::{LowerOptions, loops_of};
use warpweft_compiler::schedule::{Schedule, schedule_with};
use warpweft_compiler::target::Language;
use warpweft_compiler::watch::Silent;

use super::trial::Bench;
use super::{Budget, Progress, is_stopped};
use crate::execute::{ExecuteError, Executor};

/// Lists that each round of a search goes on from, as in `warpweft tune`.
const WIDTH: usize = 4;
/// Kernels that take a smaller part of the program's time are left as they are: twice as fast, they would gain half a hundredth of it.
const PART_MIN: f64 = 0.01;

/// How a kernel of a tuned program came by its list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// It was searched for.
    Searched,
    /// An earlier search had found it.
    Known,
    /// The hand choice: the kernel takes too little of the program's time, or the time was over.
    ByHand,
}

/// A kernel of a tuned program.
#[derive(Clone, Debug, PartialEq)]
pub struct TunedKernel {
    /// Its name, as `DEBUG=2` prints it.
    pub name: String,
    /// How often the program launches it.
    pub launches: usize,
    /// Seconds of a launch with the hand choice.
    pub by_hand_seconds: f64,
    /// Seconds of a launch with the list that it has now.
    pub seconds: f64,
    /// That list.
    pub opts: Vec<Opt>,
    /// Where the list is from.
    pub origin: Origin,
    /// Lists that were compiled and timed.
    pub tried: usize,
}

/// What tuning a program came to. Its text is a table of the kernels, those that took most of the time first.
#[derive(Clone, Debug, PartialEq)]
pub struct Tuning {
    /// The kernels, those that took most of the time first.
    pub kernels: Vec<TunedKernel>,
    /// How long it took.
    pub elapsed: Duration,
}

/// How far the tuning of a program is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TuningProgress {
    /// The kernel that is searched for, by its position among all of them.
    pub kernel: usize,
    /// How many kernels there are.
    pub kernels: usize,
    /// How far its search is.
    pub search: Progress,
}

impl Tuning {
    /// Seconds of all launches with the hand choices, added.
    pub fn by_hand_seconds(&self) -> f64 {
        self.kernels.iter().map(|kernel| kernel.by_hand_seconds * kernel.launches as f64).sum()
    }

    /// Seconds of all launches with the lists that the kernels have now, added.
    pub fn seconds(&self) -> f64 {
        self.kernels.iter().map(|kernel| kernel.seconds * kernel.launches as f64).sum()
    }
}

impl fmt::Display for Tuning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "   by hand        now launches  from      kernel")?;
        for kernel in &self.kernels {
            let (before, now) = (1e6 * kernel.by_hand_seconds, 1e6 * kernel.seconds);
            let origin = match kernel.origin {
                Origin::Searched => "search",
                Origin::Known => "known",
                Origin::ByHand => "by hand",
            };
            writeln!(f, "{before:7.1} us {now:7.1} us {:8}  {origin:8}  {}", kernel.launches, kernel.name)?;
            if kernel.origin != Origin::ByHand {
                writeln!(f, "{:42}{}", "", Opts::List(kernel.opts.clone()))?;
            }
        }
        let (before, now) = (1e6 * self.by_hand_seconds(), 1e6 * self.seconds());
        write!(
            f,
            "{before:7.1} us {now:7.1} us in all, {:.2} times as fast; tuned in {:.1} s",
            before / now,
            self.elapsed.as_secs_f64()
        )
    }
}

/// The kernels of a schedule, each once, with the number of their launches.
pub fn launches_of(schedule: &Schedule) -> Vec<(UOp, usize)> {
    let mut positions: FxHashMap<&UOp, usize> = FxHashMap::default();
    let mut launches: Vec<(UOp, usize)> = Vec::new();
    for kernel in &schedule.kernels {
        let position = *positions.entry(&kernel.ast).or_insert(launches.len());
        match launches.get_mut(position) {
            Some((_, count)) => *count += 1,
            None => launches.push((kernel.ast.clone(), 1)),
        }
    }
    launches
}

/// A kernel with what it takes as it is.
struct Timed {
    ast: UOp,
    launches: usize,
    name: String,
    by_hand: Vec<Opt>,
    seconds: f64,
}

impl Timed {
    fn all_seconds(&self) -> f64 {
        self.seconds * self.launches as f64
    }

    /// What is reported of it with another list.
    fn with(&self, opts: Vec<Opt>, seconds: [f64; 2], origin: Origin, tried: usize) -> TunedKernel {
        let [by_hand_seconds, seconds] = seconds;
        TunedKernel { name: self.name.clone(), launches: self.launches, by_hand_seconds, seconds, opts, origin, tried }
    }
}

impl Executor {
    /// As [`Executor::tune_kernels`], of a normalized program.
    pub(crate) fn tune(
        &self,
        sink: &UOp,
        budget: Duration,
        told: &mut dyn FnMut(TuningProgress),
    ) -> Result<Tuning, ExecuteError> {
        let schedule = schedule_with(sink, self.schedule_options(), &mut Silent)?;
        self.tune_kernels(&launches_of(&schedule), budget, told)
    }

    /// Tunes kernels that are launched so often, and keeps them for programs that have such. The budget is for all searches together.
    ///
    /// # Errors
    /// When the device runs programs as they are, so that there is nothing to choose; or as [`super::search`].
    pub fn tune_kernels(
        &self,
        kernels: &[(UOp, usize)],
        budget: Duration,
        told: &mut dyn FnMut(TuningProgress),
    ) -> Result<Tuning, ExecuteError> {
        if self.device().target().language == Language::Text {
            return Err(ExecuteError::NothingToTune { device: self.device().name().to_string() });
        }
        let started = Instant::now();
        let kernels = self.timed_kernels(kernels)?;
        let count = kernels.len();
        let mut left: f64 = kernels.iter().map(Timed::all_seconds).sum();
        let least = PART_MIN * left;
        let mut tuned = Vec::with_capacity(count);
        for (number, kernel) in kernels.iter().enumerate() {
            let time = budget.saturating_sub(started.elapsed()).mul_f64((kernel.all_seconds() / left).clamp(0.0, 1.0));
            left -= kernel.all_seconds();
            let wanted = kernel.all_seconds() >= least && !is_stopped();
            let mut tell = |search| told(TuningProgress { kernel: number, kernels: count, search });
            let of_kernel = match wanted {
                true => self.tuned_kernel(kernel, time, &mut tell)?,
                false => kernel.with(kernel.by_hand.clone(), [kernel.seconds; 2], Origin::ByHand, 0),
            };
            if of_kernel.opts != kernel.by_hand {
                self.keep_tuned(&kernel.ast, &of_kernel.opts)?;
            }
            tuned.push(of_kernel);
        }
        self.forget_plans();
        Ok(Tuning { kernels: tuned, elapsed: started.elapsed() })
    }

    /// The kernels with the times of their hand choices; the one that takes most of the program's time first.
    fn timed_kernels(&self, kernels: &[(UOp, usize)]) -> Result<Vec<Timed>, ExecuteError> {
        let mut timed = Vec::with_capacity(kernels.len());
        for (ast, launches) in kernels {
            let choice = choose(&loops_of(ast, &mut Silent), self.device().target());
            // Without time for the unoptimised kernel: nothing is compared here.
            let bench = Bench::new(self, ast, &choice.applied, Duration::ZERO)?;
            let compiled = bench.compile(&choice.applied)?;
            let seconds = bench.time(&compiled, f64::INFINITY)?;
            let name = compiled.program.name.clone();
            timed.push(Timed { ast: ast.clone(), launches: *launches, name, by_hand: choice.applied, seconds });
        }
        timed.sort_by(|a, b| b.all_seconds().total_cmp(&a.all_seconds()));
        Ok(timed)
    }

    fn tuned_kernel(
        &self,
        kernel: &Timed,
        time: Duration,
        told: &mut dyn FnMut(Progress),
    ) -> Result<TunedKernel, ExecuteError> {
        if let Some(opts) = self.known_lists().list_for(&kernel.ast, WIDTH, self.disk_cache()) {
            if opts == kernel.by_hand {
                return Ok(kernel.with(opts, [kernel.seconds; 2], Origin::Known, 0));
            }
            let bench = Bench::new(self, &kernel.ast, &kernel.by_hand, Duration::ZERO)?;
            let seconds = bench.time(&*bench.compile(&opts)?, f64::INFINITY)?;
            return Ok(kernel.with(opts, [kernel.seconds, seconds], Origin::Known, 0));
        }
        if time.is_zero() {
            return Ok(kernel.with(kernel.by_hand.clone(), [kernel.seconds; 2], Origin::ByHand, 0));
        }
        let found = self.search(&kernel.ast, Budget { width: WIDTH, time }, told)?;
        Ok(kernel.with(found.opts, [found.by_hand_seconds, found.seconds], Origin::Searched, found.tried.len()))
    }

    /// Compiles a kernel with a list, or finds it on disk, and keeps it in place of the hand choice's.
    fn keep_tuned(&self, ast: &UOp, opts: &[Opt]) -> Result<(), ExecuteError> {
        let compiled = self.compile_kept(ast, &LowerOptions { opts: Opts::List(opts.to_vec()) })?;
        self.keep_in_place_of(ast, Arc::clone(&compiled));
        Ok(())
    }
}
