//! Tracing: running a closure over tensors that have no values yet, and seeing which tensors of the outside it reads and assigns.
//!
//! While a thread traces, storages born outside are not touched: the trace keeps its own idea of what each holds. A storage that is
//! first read or assigned becomes a *state*: its value is computed, if it was not yet and takes more memory than it is made of (`packed`), and in the
//! trace a *placeholder* stands for its memory. So after the trace every storage holds what it held before, whatever happened inside, and other threads never see a trace.
//! Cells born inside belong to the trace and work as always. Draws of random numbers are variables.
//!
//! Always: a placeholder never has a value; asking for one is the error [`ExecuteError::Traced`]. Asking to compute (`realize`) does
//! nothing but cut gradients, as it always does: what is needed is computed by the function that the trace becomes.
//! Not here: what becomes of a trace (`function`). Tested there.

use std::cell::{Cell as Local, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustc_hash::FxHashMap;
use warpweft_compiler::ir::{Arg, Op, Shape};
use warpweft_compiler::schedule::ANONYMOUS;
use warpweft_compiler::{DType, UOp};

use super::create::draw_variable;
use super::packed::device_of_packed;
use super::{Error, Result, Storage, Tensor};
use crate::execute::{self, ExecuteError, Placeholder};

/// A storage of the outside that a trace has met.
pub(crate) struct State {
    pub(crate) storage: Arc<Storage>,
    /// Stands for the memory of the value that it holds when the function is called.
    pub(crate) placeholder: UOp,
    /// The placeholder under the shape of the storage.
    pub(crate) before: UOp,
    /// What it holds in the trace now.
    pub(crate) value: UOp,
    /// What it held when it was met, if that is unpacked from fewer bytes and was not computed.
    pub(crate) packed: Option<UOp>,
}

/// What a trace has met, each in the order of meeting.
#[derive(Default)]
pub(crate) struct Trace {
    pub(crate) states: Vec<State>,
    /// Variables that stand for the words of draws of random numbers.
    pub(crate) draws: Vec<[UOp; 3]>,
    by_storage: FxHashMap<usize, usize>,
    failed: Option<Error>,
}

thread_local! {
    /// Number of the trace of this thread; 0 when there is none.
    static CURRENT: Local<u64> = const { Local::new(0) };
    static TRACE: RefCell<Trace> = RefCell::new(Trace::default());
}

/// The number of this thread's trace; 0 when there is none.
pub(super) fn current() -> u64 {
    CURRENT.get()
}

/// Whether this thread traces.
pub(crate) fn is_active() -> bool {
    current() != 0
}

/// Ends the trace of this thread, also when the closure panics.
struct Ending;

impl Drop for Ending {
    fn drop(&mut self) {
        CURRENT.set(0);
        TRACE.take();
    }
}

/// Runs a closure as a trace: what it gives, and what it met.
///
/// # Errors
/// When this thread traces already, or a state could not be computed.
pub(crate) fn trace<T>(closure: impl FnOnce() -> T) -> Result<(T, Trace)> {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    CURRENT.set(NEXT.fetch_add(1, Ordering::Relaxed));
    let ending = Ending;
    let given = closure();
    let trace = TRACE.take();
    drop(ending);
    match trace.failed {
        Some(error) => Err(error),
        None => Ok((given, trace)),
    }
}

/// A node for memory that is given when the function is called.
pub(crate) fn placeholder(dtype: DType, len: u64, device: &Arc<str>) -> UOp {
    execute::placeholder_node(dtype, len, device, Placeholder::Traced)
}

/// What any storage holds in the trace of this thread.
pub(crate) fn value(storage: &Arc<Storage>) -> UOp {
    storage.value()
}

/// Sets what any storage holds in the trace of this thread.
pub(crate) fn set(storage: &Arc<Storage>, value: UOp) {
    storage.set(value);
}

/// What a storage of the outside holds in the trace of this thread.
pub(super) fn read(storage: &Arc<Storage>) -> UOp {
    let known = |trace: &RefCell<Trace>| {
        let trace = trace.borrow();
        trace.by_storage.get(&key(storage)).map(|&state| trace.states[state].value.clone())
    };
    if let Some(value) = TRACE.with(known) {
        return value;
    }
    let value = storage.peek();
    match storage.settled().and_then(|value| state_of(storage, &value)) {
        Ok(state) => TRACE.with_borrow_mut(|trace| {
            trace.by_storage.insert(key(storage), trace.states.len());
            let before = state.before.clone();
            trace.states.push(state);
            before
        }),
        Err(error) => {
            TRACE.with_borrow_mut(|trace| trace.failed.get_or_insert(error).clone());
            value
        }
    }
}

/// Sets what a storage of the outside holds in the trace of this thread.
pub(super) fn write(storage: &Arc<Storage>, value: UOp) {
    read(storage);
    TRACE.with_borrow_mut(|trace| {
        if let Some(&state) = trace.by_storage.get(&key(storage)) {
            trace.states[state].value = value;
        }
    });
}

/// Variables for the words of a draw of random numbers, of this trace alone.
pub(crate) fn draw() -> [UOp; 3] {
    let trace = current();
    TRACE.with_borrow_mut(|met| {
        let number = met.draws.len();
        let words = [0, 1, 2].map(|word| draw_variable(&format!("{ANONYMOUS}_{trace}_{number}_{word}")));
        met.draws.push(words.clone());
        words
    })
}

fn key(storage: &Arc<Storage>) -> usize {
    Arc::as_ptr(storage).addr()
}

fn state_of(storage: &Arc<Storage>, value: &UOp) -> Result<State> {
    let (placeholder, packed) = match (device_of_packed(value), value.shape().numel().as_const()) {
        (Some(device), Some(len)) => (placeholder(value.dtype(), len as u64, &device), Some(value.clone())),
        _ => {
            let memory = memory_node(value)?;
            let Arg::Buffer(arg) = memory.arg() else { return Err(ExecuteError::NoMemory.into()) };
            (placeholder(memory.dtype(), arg.len, &arg.device), None)
        }
    };
    let before = warpweft_compiler::schedule::view_of(&placeholder, value.shape());
    Ok(State { storage: storage.clone(), placeholder, value: before.clone(), before, packed })
}

/// The `Buffer` node that holds a value in row-major order; computes the value if it was not yet.
pub(crate) fn memory_node(value: &UOp) -> Result<UOp> {
    if let Some(node) = execute::computed_buffer(value) {
        return Ok(node);
    }
    let mut stored = execute::realize(std::slice::from_ref(value))?.remove(0);
    while stored.op().is_movement() {
        stored = stored.src()[0].clone();
    }
    if stored.op() == Op::Buffer { Ok(stored) } else { Err(ExecuteError::NoMemory.into()) }
}

impl Tensor {
    /// Takes the value from the tensor and from all that share its storage: asking for it is the error [`ExecuteError::Donated`].
    pub(crate) fn give_away(&self) {
        if let Ok(view) = &self.0 {
            let value = view.storage.peek();
            let device = match execute::computed_buffer(&value).as_ref().map(UOp::arg) {
                Some(Arg::Buffer(arg)) => arg.device.clone(),
                _ => "CPU".into(), // never looked at: whoever needs the value meets the error first
            };
            let len = value.shape().numel().max_value().max(0) as u64;
            let placeholder = execute::placeholder_node(value.dtype(), len, &device, Placeholder::Donated);
            view.storage.replace(warpweft_compiler::schedule::view_of(&placeholder, value.shape()));
        }
    }

    /// A tensor of this shape whose elements are at the start of a placeholder.
    pub(crate) fn traced(placeholder: &UOp, shape: &Shape) -> Tensor {
        Tensor::from_uop(warpweft_compiler::schedule::view_of(placeholder, shape))
    }
}
