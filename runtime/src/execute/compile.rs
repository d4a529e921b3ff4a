//! From the kernels of a schedule to loaded code: found in memory, found on disk, or lowered, rendered, compiled and loaded.
//!
//! Kernels of equal structure are one kernel. New ones are made on all threads; what there is to tell about each is gathered by its
//! thread and told by the caller's, in the order of the schedule, so that output does not depend on who was first. Who finds a kernel on
//! disk by its structure need not lower it, unless somebody listens to how it is lowered.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, mpsc};
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;
use warpweft_compiler::UOp;
use warpweft_compiler::ir::{Op, postorder};
use warpweft_compiler::optimize::Opts;
use warpweft_compiler::pipeline::{LowerOptions, lower_kernel};
use warpweft_compiler::program::{Estimate, Program};
use warpweft_compiler::schedule::{Schedule, ScheduledKernel};
use warpweft_compiler::target::{Language, Target};
use warpweft_compiler::watch::{Report, Topic, Watch};
use warpweft_devices::Kernel;

use super::shared_code::SharedCode;
use super::{ExecuteError, Executor, internal};
use crate::cache::disk::Key;
use crate::cache::entries::{decode_kernel, encode_kernel};
use crate::cache::keys::Keys;
use crate::debug::{self, KernelReport, Listening, Progress, record};
use crate::search::{Budget, is_stopped};

/// Pages of code, data and unwinding, and what describes them: what the smallest kernel takes.
const CODE_BYTES_MIN: usize = 16 << 10;
/// How often who waits for kernels looks at the time.
const PROGRESS_CHECKED_EVERY: Duration = Duration::from_millis(100);

/// A kernel that is ready to launch.
#[derive(Debug)]
pub(crate) struct Compiled {
    /// The code.
    pub(crate) kernel: Arc<dyn Kernel>,
    /// What it was compiled from, without its text, which nobody asks for any more.
    pub(crate) program: Program,
    /// Memory that it takes, about.
    pub(crate) bytes: usize,
}

impl Compiled {
    fn new(kernel: Arc<dyn Kernel>, program: Program, object: &[u8]) -> Arc<Compiled> {
        let program = Program { source: String::new(), ..program };
        let parameters = size_of_val(&program.parameters[..]);
        let bytes = CODE_BYTES_MIN + object.len() + parameters + 2 * program.name.len();
        Arc::new(Compiled { kernel, program, bytes })
    }
}

/// A kernel as it was on disk, loaded.
pub(super) struct StoredKernel {
    kernel: Arc<dyn Kernel>,
    program: Program,
    object: Vec<u8>,
}

impl StoredKernel {
    pub(super) fn compiled(self) -> Arc<Compiled> {
        Compiled::new(self.kernel, self.program, &self.object)
    }
}

/// A kernel just made.
struct Made {
    compiled: Arc<Compiled>,
    from_disk: bool,
    report: KernelReport,
}

impl Executor {
    /// The kernels of a schedule with their keys, in its order.
    pub(super) fn compiled(&self, schedule: &Schedule) -> Result<Vec<(Key, Arc<Compiled>)>, ExecuteError> {
        let mut keys: FxHashMap<&UOp, Key> = FxHashMap::default();
        let mut wanted: Vec<(Key, &UOp)> = Vec::new();
        for kernel in &schedule.kernels {
            keys.entry(&kernel.ast).or_insert_with(|| {
                let key = self.keys.kernel(&kernel.ast);
                wanted.push((key, &kernel.ast));
                key
            });
        }
        let mut ready = self.loaded(wanted.iter().map(|(key, _)| *key));
        let from_memory = ready.len();
        let new: Vec<(Key, &UOp)> = wanted.into_iter().filter(|(key, _)| !ready.contains_key(key)).collect();
        self.search_for(&new)?;
        let started = Instant::now();
        let made = self.make_all(&new)?;
        let from_disk = made.iter().filter(|made| made.from_disk).count();
        if from_disk > 0 {
            self.disk.count_hits(from_disk);
        }
        self.stats.kernels((made.len() - from_disk) as u64, from_disk as u64, from_memory as u64);
        ready.extend(new.iter().zip(&made).map(|((key, _), made)| (*key, made.compiled.clone())));
        self.keep(new.iter().zip(&made).map(|((key, _), made)| (*key, made.compiled.clone())));
        for made in &made {
            debug::kernel_made(&made.report);
            debug::record::kernel_made(&made.compiled, &self.name, &made.report, made.from_disk);
        }
        debug::compiled(made.len(), from_disk, started.elapsed());
        let of = |kernel: &ScheduledKernel| (keys[&kernel.ast], ready[&keys[&kernel.ast]].clone());
        Ok(schedule.kernels.iter().map(of).collect())
    }

    /// With `BEAM`, searches for the kernels that are not known, one after the other: each is timed alone.
    fn search_for(&self, new: &[(Key, &UOp)]) -> Result<(), ExecuteError> {
        if self.beam == 0 {
            return Ok(());
        }
        for (key, ast) in new {
            let is_known = self.known.list_for(ast, self.beam, &self.disk).is_some();
            if is_stopped() {
                break;
            }
            if !is_known && self.stored_kernel(key).is_none() {
                self.search(ast, Budget::of_width(self.beam), &mut |_| ())?;
            }
        }
        Ok(())
    }

    /// How a kernel is lowered: by the list that a search found, or by hand.
    fn lowering_of(&self, ast: &UOp) -> LowerOptions {
        let found = (self.beam > 0).then(|| self.known.list_for(ast, self.beam, &self.disk)).flatten();
        found.map_or_else(|| self.lower.clone(), |opts| LowerOptions { opts: Opts::List(opts) })
    }

    /// A kernel lowered in a certain way, which nothing else will use: it is kept nowhere.
    pub(crate) fn compile_apart(&self, ast: &UOp, options: &LowerOptions) -> Result<Arc<Compiled>, ExecuteError> {
        let program = program_of(ast, self.device.target(), options, &mut Nobody)?;
        let object = self.device.compile(&program)?;
        Ok(Compiled::new(self.device.load(&program, &object)?, program, &object))
    }

    /// A kernel lowered in a certain way, from disk if it is there, else put there; under a key of its own.
    pub(crate) fn compile_kept(&self, ast: &UOp, options: &LowerOptions) -> Result<Arc<Compiled>, ExecuteError> {
        let keys = Keys::new(self.device.compiler(), self.device.target(), options, self.options);
        let key = keys.kernel(ast);
        if let Some(stored) = self.stored_kernel(&key) {
            self.disk.count_hits(1);
            return Ok(stored.compiled());
        }
        let program = program_of(ast, self.device.target(), options, &mut Nobody)?;
        let object = self.device.compile(&program)?;
        self.disk.put(&key, &encode_kernel(&program, &object));
        Ok(Compiled::new(self.device.load(&program, &object)?, program, &object))
    }

    /// Has programs that are planned from now on launch this kernel for that AST.
    pub(crate) fn keep_in_place_of(&self, ast: &UOp, compiled: Arc<Compiled>) {
        self.keep(std::iter::once((self.keys.kernel(ast), compiled)));
    }

    /// Those kernels that are loaded.
    pub(super) fn loaded(&self, keys: impl Iterator<Item = Key>) -> FxHashMap<Key, Arc<Compiled>> {
        let kernels = self.kernels.lock().unwrap_or_else(PoisonError::into_inner);
        keys.filter_map(|key| Some((key, kernels.get(&key)?.clone()))).collect()
    }

    /// Keeps kernels loaded.
    pub(super) fn keep(&self, new: impl Iterator<Item = (Key, Arc<Compiled>)>) {
        let mut kernels = self.kernels.lock().unwrap_or_else(PoisonError::into_inner);
        new.for_each(|(key, compiled)| {
            let bytes = compiled.bytes;
            kernels.insert(key, compiled, bytes);
        });
    }

    /// The kernel of this key, if it is on disk and whole, and can be loaded.
    pub(super) fn stored_kernel(&self, key: &Key) -> Option<StoredKernel> {
        let bytes = self.disk.get(key)?;
        let (program, object) = decode_kernel(&bytes)?;
        let kernel = self.device.load(&program, object).ok()?;
        Some(StoredKernel { kernel, program, object: object.to_vec() })
    }

    /// Makes kernels on as many threads as help. The first error in order is the one that counts.
    fn make_all(&self, new: &[(Key, &UOp)]) -> Result<Vec<Made>, ExecuteError> {
        let listening = Listening::now();
        let threads = self.threads.max(1).min(new.len());
        let shared = if listening.to_lowering() { SharedCode::default() } else { SharedCode::of(new) };
        let mut progress = Progress::new(new.len());
        if threads <= 1 {
            let made = new.iter().enumerate().map(|(number, (key, ast))| {
                progress.made(number);
                self.make(key, ast, listening, &shared)
            });
            return made.collect();
        }
        let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let (sender, receiver) = mpsc::channel();
        // A thread sends what it made when nothing is left to make: whoever is woken takes a processor from those that work.
        let make_some = |sender: mpsc::Sender<Vec<_>>| {
            let mut made = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some((key, ast)) = new.get(number) else { break };
                made.push((number, self.make(key, ast, listening, &shared)));
                done.fetch_add(1, Ordering::Relaxed);
            }
            let _ = sender.send(made); // who waits for it waits for all
        };
        let mut results: Vec<Option<Result<Made, ExecuteError>>> = new.iter().map(|_| None).collect();
        std::thread::scope(|scope| {
            let mut started = 0;
            for _ in 0..threads {
                let sender = sender.clone();
                let work = || make_some(sender);
                let thread = std::thread::Builder::new().name(format!("compile-{started}"));
                started += usize::from(thread.spawn_scoped(scope, work).is_ok());
            }
            if started == 0 {
                make_some(sender.clone()); // a system without more threads: then this one does it all
            }
            drop(sender);
            // Ends when all threads have: each drops its sender then.
            loop {
                match receiver.recv_timeout(PROGRESS_CHECKED_EVERY) {
                    Ok(made) => made.into_iter().for_each(|(number, made)| results[number] = Some(made)),
                    Err(mpsc::RecvTimeoutError::Timeout) => {}
                    Err(mpsc::RecvTimeoutError::Disconnected) => break,
                }
                progress.made(done.load(Ordering::Relaxed));
            }
        });
        results.into_iter().flatten().collect()
    }

    fn make(&self, key: &Key, ast: &UOp, listening: Listening, shared: &SharedCode) -> Result<Made, ExecuteError> {
        let made = internal::guarded("a kernel", ast, || self.make_unguarded(key, ast, listening, shared))?;
        if listening.to_memory() {
            made.compiled.kernel.count_memory();
        }
        Ok(made)
    }

    fn make_unguarded(
        &self,
        key: &Key,
        ast: &UOp,
        listening: Listening,
        shared: &SharedCode,
    ) -> Result<Made, ExecuteError> {
        let started = Instant::now();
        let mut report = KernelReport::new(ast, listening);
        if !listening.to_lowering()
            && let Some(stored) = self.stored_kernel(key)
        {
            let times = Times { lowered: Duration::ZERO, all: started.elapsed() };
            report.finish(&stored.program, &stored.object, &*self.device, times, true);
            return Ok(Made { compiled: stored.compiled(), from_disk: true, report });
        }
        let options = self.lowering_of(ast);
        let is_shared = shared.is_one_of_many(ast);
        let program = match is_shared {
            true => program_without_lengths(ast, self.device.target(), &options, &mut report)?,
            false => program_of(ast, self.device.target(), &options, &mut report)?,
        };
        self.stats.lowered();
        let lowered = started.elapsed();
        record::worked("lower", || program.name.clone(), lowered);
        report.loops(ast, self.device.target(), &options);
        let stored = if listening.to_lowering() { self.stored_kernel(key) } else { None };
        if let Some(stored) = stored.filter(|stored| stored.program == program) {
            report.finish(&program, &stored.object, &*self.device, Times { lowered, all: started.elapsed() }, true);
            return Ok(Made { compiled: stored.compiled(), from_disk: true, report });
        }
        let begun = Instant::now();
        let text = is_shared.then(|| shared.of_text(&program));
        let object = match &text {
            Some(text) => text.object(|| self.device.compile(&program))?,
            None => self.device.compile(&program)?.into(),
        };
        record::worked("compile", || program.name.clone(), begun.elapsed());
        self.disk.put(key, &encode_kernel(&program, &object));
        let begun = Instant::now();
        let load = || self.device.load(&program, &object);
        let kernel = text.map_or_else(load, |text| text.kernel(&program, load))?;
        record::worked("load", || program.name.clone(), begun.elapsed());
        report.finish(&program, &object, &*self.device, Times { lowered, all: started.elapsed() }, false);
        Ok(Made { compiled: Compiled::new(kernel, program, &object), from_disk: false, report })
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
    options: &LowerOptions,
    watch: &mut impl LinearWatch,
) -> Result<Program, ExecuteError> {
    if target.language == Language::Text {
        return Ok(warpweft_renderer::render_ast(ast, &text_name(ast), Estimate::default()));
    }
    let linear = lower_kernel(ast, target, options, watch)?;
    watch.linear(&linear);
    Ok(warpweft_renderer::render(&linear, target)?)
}

/// As [`program_of`], of a text that kernels of other lengths may have too.
fn program_without_lengths(
    ast: &UOp,
    target: &Target,
    options: &LowerOptions,
    watch: &mut impl LinearWatch,
) -> Result<Program, ExecuteError> {
    if target.language == Language::Text {
        return program_of(ast, target, options, watch);
    }
    let linear = lower_kernel(ast, target, options, watch)?;
    watch.linear(&linear);
    Ok(warpweft_renderer::render_without_lengths(&linear, target)?)
}

/// A watch that also sees the last form before text.
pub(crate) trait LinearWatch: Watch {
    /// Called once a kernel is a list of micro-ops.
    fn linear(&mut self, linear: &warpweft_compiler::linearize::Linear);
}

/// Sees nothing.
struct Nobody;

impl Watch for Nobody {
    fn wants(&self, _: Topic) -> bool {
        false
    }

    fn report(&mut self, _: Report<'_>) {}
}

impl LinearWatch for Nobody {
    fn linear(&mut self, _: &warpweft_compiler::linearize::Linear) {}
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
