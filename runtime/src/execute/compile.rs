//! From the kernels of a schedule to loaded code: what is new is lowered, rendered, found on disk or compiled, and loaded.
//!
//! Kernels of equal structure are one kernel. New ones are made on all threads; what there is to tell about each is gathered by its
//! thread and told by the caller's, in the order of the schedule, so that output does not depend on who was first.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustc_hash::{FxHashMap, FxHashSet};
use warpweft_compiler::UOp;
use warpweft_compiler::ir::{Op, postorder};
use warpweft_compiler::pipeline::{LowerOptions, lower_kernel};
use warpweft_compiler::program::{Estimate, Program};
use warpweft_compiler::schedule::Schedule;
use warpweft_compiler::target::{Language, Target};
use warpweft_compiler::watch::Watch;
use warpweft_devices::Kernel;

use super::{ExecuteError, Executor};
use crate::cache::kernel_cache::KernelKey;
use crate::debug::{self, KernelReport, Listening};

/// A kernel that is ready to launch.
#[derive(Debug)]
pub(crate) struct Compiled {
    /// The code.
    pub(crate) kernel: Arc<dyn Kernel>,
    /// What it was compiled from.
    pub(crate) program: Program,
}

/// A kernel just made.
struct Made {
    compiled: Arc<Compiled>,
    from_disk: bool,
    report: KernelReport,
}

impl Executor {
    /// The kernels of a schedule, in its order.
    pub(super) fn compiled(&self, schedule: &Schedule) -> Result<Vec<Arc<Compiled>>, ExecuteError> {
        let mut ready: FxHashMap<UOp, Arc<Compiled>> = FxHashMap::default();
        let mut new: Vec<UOp> = Vec::new();
        {
            let kernels = self.kernels.lock().unwrap_or_else(PoisonError::into_inner);
            let mut seen: FxHashSet<&UOp> = FxHashSet::default();
            for kernel in schedule.kernels.iter().filter(|kernel| seen.insert(&kernel.ast)) {
                match kernels.get(&kernel.ast) {
                    Some(compiled) => {
                        ready.insert(kernel.ast.clone(), compiled.clone());
                    }
                    None => new.push(kernel.ast.clone()),
                }
            }
        }
        let from_memory = ready.len();
        let started = Instant::now();
        let made = self.make_all(&new)?;
        let from_disk = made.iter().filter(|made| made.from_disk).count();
        self.stats.kernels((made.len() - from_disk) as u64, from_disk as u64, from_memory as u64);
        {
            let mut kernels = self.kernels.lock().unwrap_or_else(PoisonError::into_inner);
            for (ast, made) in new.iter().zip(&made) {
                kernels.insert(ast.clone(), made.compiled.clone());
                ready.insert(ast.clone(), made.compiled.clone());
            }
        }
        for made in &made {
            debug::kernel_made(&made.report);
        }
        debug::compiled(made.len(), from_disk, started.elapsed());
        Ok(schedule.kernels.iter().map(|kernel| ready[&kernel.ast].clone()).collect())
    }

    /// Makes kernels on as many threads as help. The first error in order is the one that counts.
    fn make_all(&self, asts: &[UOp]) -> Result<Vec<Made>, ExecuteError> {
        let listening = Listening::now();
        let threads = self.threads.max(1).min(asts.len());
        if threads <= 1 {
            return asts.iter().map(|ast| self.make(ast, listening)).collect();
        }
        let next = AtomicUsize::new(0);
        let results: Mutex<Vec<Option<Result<Made, ExecuteError>>>> = Mutex::new(asts.iter().map(|_| None).collect());
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        let Some(ast) = asts.get(number) else { return };
                        let made = self.make(ast, listening);
                        results.lock().unwrap_or_else(PoisonError::into_inner)[number] = Some(made);
                    }
                });
            }
        });
        let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
        results.into_iter().flatten().collect()
    }

    fn make(&self, ast: &UOp, listening: Listening) -> Result<Made, ExecuteError> {
        let started = Instant::now();
        let mut report = KernelReport::new(ast, listening);
        let program = program_of(ast, self.device.target(), self.no_opt, &mut report)?;
        let lowered = started.elapsed();
        let key = KernelKey::new(self.device.compiler(), self.device.target(), &program);
        let found = self.disk.get(&key);
        let from_disk = found.is_some();
        let object = match found {
            Some(object) => object,
            None => {
                let object = self.device.compile(&program)?;
                self.disk.put(&key, &object);
                object
            }
        };
        let kernel = self.device.load(&program, &object)?;
        report.finish(&program, &object, &*self.device, Times { lowered, all: started.elapsed() }, from_disk);
        Ok(Made { compiled: Arc::new(Compiled { kernel, program }), from_disk, report })
    }
}

/// How long the making of a kernel took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// Until it was text.
    pub(crate) lowered: Duration,
    /// Until it was loaded.
    pub(crate) all: Duration,
}

/// A kernel AST as a program in the language of a target.
pub(crate) fn program_of(
    ast: &UOp,
    target: &Target,
    no_opt: bool,
    watch: &mut impl LinearWatch,
) -> Result<Program, ExecuteError> {
    if target.language == Language::Text {
        return Ok(warpweft_renderer::render_ast(ast, &text_name(ast), Estimate::default()));
    }
    let linear = lower_kernel(ast, target, &LowerOptions { no_opt }, watch)?;
    watch.linear(&linear);
    Ok(warpweft_renderer::render(&linear, target))
}

/// A watch that also sees the last form before text.
pub(crate) trait LinearWatch: Watch {
    /// Called once a kernel is a list of micro-ops.
    fn linear(&mut self, linear: &warpweft_compiler::linearize::Linear);
}

/// The name of a kernel that is not lowered: `r` if it reduces, else `E`, and the shape of its first store.
fn text_name(ast: &UOp) -> String {
    let reduces = postorder(std::slice::from_ref(ast)).iter().any(|node| node.op() == Op::Reduce);
    let mut name = if reduces { "r".to_string() } else { "E".to_string() };
    let shape = ast.src().first().map(|store| store.src()[1].shape().max_shape()).unwrap_or_default();
    for len in shape {
        name.push_str(&format!("_{len}"));
    }
    name
}
