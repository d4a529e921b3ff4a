//! Where LLVM runs: on threads of ours, so that no error inside of it ends the process, and never while the process ends.
//!
//! [`run`] gives a piece of work to a thread that does nothing else and waits for what it says. Two things make that necessary:
//!
//! - *Fatal errors.* LLVM reports what it cannot go on from to a handler and ends the process when the handler returns. Ours does not
//!   return: it tells the caller, who gets an error, and its thread sleeps for good. Nothing else is sound: unwinding or jumping
//!   out of LLVM would skip its destructors and leave its data halfway changed. What such a thread holds (its stack, one context) is lost,
//!   and nobody waits for it: a context is of one thread, and LLVM reports from code generation, where it holds none of
//!   the locks that it has for the whole process (they guard its registries of passes and targets, filled before).
//! - *The end of the process.* `exit` destroys the objects of the library while other threads go on. So before that, work that has
//!   begun is waited for, and new work is refused. What is registered last runs first at exit. LLVM makes some objects when it
//!   is first used, so [`before_objects_are_destroyed`] is called before its first use, after each step of that, and again later. Within such a
//!   step what it has just made would still be destroyed first, under it. So whoever ends a thread, or the process, waits for a first use that has
//!   begun: what a thread leaves behind is dropped before anything else when it calls `exit` ([`Leaving`]), and no first use begins soon after the main
//!   thread has left. The main thread is looked after since before `main`, where the system has a list of functions for that, though it may never compute;
//!   of another thread that never used the CPU device nobody hears; if that one ends the process within those milliseconds, it may crash.
//!
//! A thread keeps what is expensive to make (`compile`) and ends when it had nothing to do for [`IDLE`]. After `fork`, the child
//! has none of these threads and starts its own. Where no thread can be started, work runs on the caller's: then a fatal error ends the process, as LLVM alone does.
//!
//! Tested in `process_tests.rs`.
#![allow(unsafe_code, reason = "installs handlers of LLVM and of the C library")]

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ffi::{CStr, c_char};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

use inkwell::llvm_sys::error_handling::LLVMInstallFatalErrorHandler;

/// Threads without work end after this time.
const IDLE: Duration = Duration::from_secs(30);
/// The end of the process waits at most this long: a kernel takes a second at the most.
const LAST_WAIT: Duration = Duration::from_secs(60);
/// The main thread calls `exit` this long at most before LLVM's end begins, unless it is gone and the process goes on.
const LEAVING_FOR: Duration = Duration::from_secs(10);
/// Code generation recurses with the depth of expressions; only what is touched is memory.
const STACK_BYTES: usize = 32 << 20;

/// Why there is no result.
#[derive(Debug)]
pub(super) enum Failed {
    /// LLVM could not go on, and said this.
    Fatal(String),
    /// The process is ending.
    Ending,
}

enum Message<T> {
    Stage(&'static str),
    Done(T),
    Fatal(String),
}

type Job = Box<dyn FnOnce() + Send>;
/// Tells somebody what LLVM said.
type Tell = Box<dyn FnOnce(String)>;

/// The work of this process that LLVM does, and the threads for it.
#[derive(Default)]
struct Work {
    /// Of which process the rest tells: a child that was forked has none of the threads.
    process: u32,
    waiting: VecDeque<Job>,
    threads: usize,
    /// Threads that wait for work.
    idle: usize,
    /// Pieces of work that have begun or wait.
    unfinished: usize,
    /// First uses of LLVM that have begun.
    first_uses: usize,
    /// When the main thread went or called `exit`.
    main_has_left: Option<Instant>,
    /// Whether the process is ending.
    ending: bool,
}

static WORK: Mutex<Option<Work>> = Mutex::new(None);
/// There is work, or the last of it is done.
static CHANGED: Condvar = Condvar::new();

thread_local! {
    /// Tells the caller of this thread's work of a fatal error.
    static TELL: RefCell<Option<Tell>> = const { RefCell::new(None) };
    /// Whether this thread is one of ours.
    static IS_OURS: Cell<bool> = const { Cell::new(false) };
    /// Whether this thread runs work, be it ours or a caller's.
    static IS_AT_WORK: Cell<bool> = const { Cell::new(false) };
}

fn work<'lock>() -> WorkGuard<'lock> {
    let mut guard = WORK.lock().unwrap_or_else(PoisonError::into_inner);
    let process = std::process::id();
    if guard.as_ref().is_none_or(|work| work.process != process) {
        // The jobs of a parent are its threads' to run and to drop.
        std::mem::forget(guard.replace(Work { process, ..Work::default() }));
    }
    WorkGuard(guard)
}

/// The lock on the work, of which there is some.
struct WorkGuard<'lock>(MutexGuard<'lock, Option<Work>>);

impl WorkGuard<'_> {
    fn with<T>(&mut self, change: impl FnOnce(&mut Work) -> T) -> T {
        change(self.0.get_or_insert_default())
    }

    /// Gives the lock back until something changes, at most for this time.
    fn wait(self, time: Duration) -> Self {
        WorkGuard(CHANGED.wait_timeout(self.0, time).unwrap_or_else(PoisonError::into_inner).0)
    }
}

/// What is dropped when a thread ends, or ends the process.
struct Leaving;

impl Drop for Leaving {
    fn drop(&mut self) {
        let begun = Instant::now();
        let mut lock = work();
        if is_main_thread() {
            lock.with(|work| work.main_has_left = Some(begun));
        }
        while lock.with(|work| work.first_uses) > 0 && begun.elapsed() < LAST_WAIT {
            lock = lock.wait(LAST_WAIT.saturating_sub(begun.elapsed()));
        }
    }
}

/// Whether this thread is the one that `main` runs on. Not known everywhere; then no thread is.
fn is_main_thread() -> bool {
    #[cfg(target_os = "linux")]
    // SAFETY: both only ask for a number.
    return unsafe { libc::gettid() == libc::getpid() };
    #[cfg(not(target_os = "linux"))]
    false
}

/// Has this thread wait for a first use of LLVM before it ends the process.
pub(super) fn look_after_this_thread() {
    thread_local! {
        static LEAVING: Leaving = const { Leaving };
    }
    let _ = LEAVING.try_with(|_| ()); // a thread that is ending has been looked after
}

/// Runs before `main`, on its thread, which most often is the one that ends the process: it is looked after though it may never use the device.
#[cfg(target_os = "linux")]
#[used]
// SAFETY: what stands in this section is called once, with arguments that a function of C may ignore. The function touches nothing but a variable of this
// thread, for which the system's library is ready before it calls any of these, and does not unwind.
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = {
    extern "C" fn before_main() {
        look_after_this_thread();
    }
    before_main
};

/// Whether this thread lives no longer than LLVM may be called.
pub(super) fn is_thread_of_ours() -> bool {
    IS_OURS.get()
}

/// Runs work that calls LLVM, and `after_stage` here for each stage that the work names.
pub(super) fn run<T: Send + 'static>(
    after_stage: &mut dyn FnMut(&'static str),
    work_of_llvm: impl FnOnce(&dyn Fn(&'static str)) -> T + Send + 'static,
) -> Result<T, Failed> {
    let (sender, receiver) = mpsc::channel();
    let job: Job = Box::new(move || {
        let fatal = sender.clone();
        let tell: Tell = Box::new(move |said| drop(fatal.send(Message::Fatal(said))));
        TELL.set(Some(tell));
        let result = work_of_llvm(&|stage| drop(sender.send(Message::Stage(stage))));
        TELL.set(None);
        drop(sender.send(Message::Done(result)));
    });
    begin(job)?;
    loop {
        match receiver.recv() {
            Ok(Message::Stage(stage)) => after_stage(stage),
            Ok(Message::Done(result)) => return Ok(result),
            Ok(Message::Fatal(said)) => return Err(Failed::Fatal(said)),
            // The job is gone without a word: dropped when the process began to end, or it panicked.
            Err(mpsc::RecvError) if work().with(|work| work.ending) => return Err(Failed::Ending),
            Err(mpsc::RecvError) => return Err(Failed::Fatal("the thread that compiled panicked".to_string())),
        }
    }
}

/// Has whoever ends the process wait until this drops ([`Leaving`]): while LLVM makes the objects that it makes when it is first used.
pub(super) struct FirstUse;

impl FirstUse {
    /// Not when the process is ending.
    pub(super) fn begin() -> Result<FirstUse, String> {
        work().with(|work| {
            // A process may also go on for long after its main thread is gone.
            let is_leaving = work.main_has_left.is_some_and(|left| left.elapsed() < LEAVING_FOR);
            if work.ending || is_leaving {
                return Err("the process is ending".to_string());
            }
            work.unfinished += 1;
            work.first_uses += 1;
            Ok(FirstUse)
        })
    }
}

impl Drop for FirstUse {
    fn drop(&mut self) {
        work().with(|work| work.first_uses = work.first_uses.saturating_sub(1));
        finished(0);
    }
}

/// Whether LLVM is in use, or about to be.
#[cfg(test)]
pub(super) fn is_in_use() -> bool {
    work().with(|work| work.unfinished > 0)
}

/// Gives a job to a thread, or runs it here if there is none.
fn begin(job: Job) -> Result<(), Failed> {
    let mut lock = work();
    if lock.with(|work| work.ending) {
        return Err(Failed::Ending);
    }
    let needs_thread = lock.with(|work| {
        work.unfinished += 1;
        work.idle <= work.waiting.len()
    });
    if needs_thread && start_thread() {
        lock.with(|work| work.threads += 1);
    }
    if lock.with(|work| work.threads) > 0 {
        lock.with(|work| work.waiting.push_back(job));
        CHANGED.notify_all();
    } else {
        drop(lock);
        finish(job);
    }
    Ok(())
}

fn start_thread() -> bool {
    let thread = std::thread::Builder::new().name("warpweft LLVM".to_string()).stack_size(STACK_BYTES);
    thread.spawn(serve).is_ok()
}

/// What a thread does: work, until there was none for a while.
fn serve() {
    IS_OURS.set(true);
    let mut lock = work();
    loop {
        let begun = Instant::now();
        while lock.with(|work| work.ending || work.waiting.is_empty()) && begun.elapsed() < IDLE {
            lock.with(|work| work.idle += 1);
            lock = lock.wait(IDLE.saturating_sub(begun.elapsed()));
            lock.with(|work| work.idle -= 1);
        }
        let job = lock.with(|work| if work.ending { None } else { work.waiting.pop_front() });
        let Some(job) = job else { break };
        drop(lock);
        finish(job);
        lock = work();
    }
    // What the thread has kept calls LLVM when it is dropped: work like any other, or never if the process ends.
    if lock.with(|work| work.ending) {
        drop(lock);
        sleep_for_good();
    }
    lock.with(|work| {
        work.threads -= 1;
        work.unfinished += 1;
    });
    drop(lock);
    finish(Box::new(super::compile::drop_kept_machine));
}

/// Runs a job that was counted as unfinished.
fn finish(job: Job) {
    IS_AT_WORK.set(true);
    // A panic drops the job's senders, which tells the caller.
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
    TELL.set(None);
    IS_AT_WORK.set(false);
    used();
    finished(0);
}

/// One piece of work less, and so many threads.
fn finished(threads: usize) {
    work().with(|work| {
        work.unfinished = work.unfinished.saturating_sub(1);
        work.threads = work.threads.saturating_sub(threads);
    });
    CHANGED.notify_all();
}

fn sleep_for_good() -> ! {
    loop {
        std::thread::park();
    }
}

/// Makes LLVM tell of its fatal errors. Once per process; a handler that another user of LLVM installs later takes its place.
pub(super) fn install_fatal_error_handler() {
    // SAFETY: LLVM is loaded; the handler may be called on any thread at any time and does not unwind.
    unsafe { LLVMInstallFatalErrorHandler(Some(on_fatal_error)) };
}

extern "C" fn on_fatal_error(reason: *const c_char) {
    // SAFETY: LLVM gives a C string that lives until this returns.
    let said = unsafe { CStr::from_ptr(reason) }.to_string_lossy().into_owned();
    let tell = TELL.try_with(|tell| tell.try_borrow_mut().ok()?.take()).ok().flatten();
    match tell {
        Some(tell) if is_thread_of_ours() => {
            tell(said.trim().to_string());
            finished(1);
            sleep_for_good()
        }
        // Somebody else's use of LLVM, or no thread could be started: what LLVM does where there is no handler. It ends the process next.
        Some(_) | None => {
            use std::io::Write;
            let _ = writeln!(std::io::stderr(), "LLVM ERROR: {said}");
        }
    }
}

/// Has the end of the process wait for LLVM. To be called when the library is loaded, and after it was used for the first times.
pub(super) fn before_objects_are_destroyed() {
    // SAFETY: a function without arguments that does not unwind. Where there is no memory for it, the end is as it would be without.
    unsafe { libc::atexit(wait_at_exit) };
}

/// Counts uses of LLVM: after the first, second, fourth... the end of the process is looked after again.
fn used() {
    static USES: AtomicU64 = AtomicU64::new(0);
    if (USES.fetch_add(1, Ordering::Relaxed) + 1).is_power_of_two() {
        before_objects_are_destroyed();
    }
}

extern "C" fn wait_at_exit() {
    let begun = Instant::now();
    let mut lock = work();
    // Jobs that wait are dropped, which tells their callers.
    let dropped = lock.with(|work| {
        work.ending = true;
        work.unfinished -= work.waiting.len();
        std::mem::take(&mut work.waiting)
    });
    // The thread that ends the process may do so from within LLVM: after a fatal error with no thread to tell.
    let own = usize::from(IS_AT_WORK.try_with(Cell::get).unwrap_or(false));
    while lock.with(|work| work.unfinished) > own && begun.elapsed() < LAST_WAIT {
        lock = lock.wait(LAST_WAIT.saturating_sub(begun.elapsed()));
    }
    drop(lock);
    drop(dropped);
}
