//! Running programs: from lazy graphs to values in memory.
//!
//! ```text
//! values --normalize--> key --plan cache--> plan --launch--> buffers
//!                             | not there: schedule, then for each kernel that is new:
//!                             |   lower, render, find on disk or compile (in parallel), load
//! ```
//!
//! A *plan* is a schedule with its kernels loaded; it is kept under the normalized graph, so a program that has run before
//! costs a walk over its graph, a lookup and its launches. Memory belongs to nodes: a `Buffer` node holds its [`Buffer`], and a node
//! that has been computed holds the `Buffer` node with its elements, so that every graph which contains it finds them, and all
//! is freed with the last graph that needs it.
//!
//! Always: no lock is held while a kernel compiles or runs. Errors name the op or the kernel.
//! Not here: which kernels there are (`compiler::schedule`), memory (`memory`), machines (`devices`).

mod bounded_map;
mod checks;
pub(crate) mod compile;
mod constants;
mod device_view;
mod internal;
mod origins;
mod ownership;
pub(crate) mod plan;
mod replay;
mod run;
mod shared_code;
mod stats;
mod stored;

use std::sync::{Arc, Mutex, PoisonError};

use rustc_hash::FxHashSet;
use warpweft_compiler::error::{CompileError, ProgramError};
use warpweft_compiler::ir::{Arg, UOp, postorder};
use warpweft_compiler::pipeline::LowerOptions;
use warpweft_compiler::schedule::{ANONYMOUS, Normalized, ScheduleOptions, normalize, normalize_for_writes};
use warpweft_compiler::target::Language;
use warpweft_compiler::{DType, Op, verify};
use warpweft_devices::{BufferSlice, Device, DeviceError, RawBuffer, elements};

use crate::cache::disk::{DiskCache, Key};
use crate::cache::keys::Keys;
use crate::config::Config;
use crate::debug;
use crate::memory::{Buffer, LruAllocator, Source};
use crate::registry;
use crate::search::KnownLists;
use bounded_map::BoundedMap;
use compile::Compiled;
use plan::Plan;

pub use checks::{IndexCall, IndexError};
pub(crate) use checks::{checked, checked_below, look_at};
pub use device_view::DeviceView;
pub use internal::InternalError;
pub(crate) use replay::{Pieces, Replay};
pub(crate) use run::{Placeholder, buffer_node, placeholder_node};
pub use stats::{ExecuteStats, KernelTotal};

/// What a node of a graph takes, about, with its operands and facts.
const NODE_BYTES: usize = 320;

/// Why a program could not run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExecuteError {
    /// The program did not become kernels.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// The device refused.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A program works on memory of two devices.
    #[error("a program uses memory of {first} and of {second}; move one tensor to the other device first")]
    MixedDevices {
        /// One device.
        first: String,
        /// Another.
        second: String,
    },
    /// A variable of a symbolic shape has no value.
    #[error("the variable {name} has no value; bind it before computing")]
    Unbound {
        /// The variable.
        name: String,
    },
    /// Data of another length than its shape says.
    #[error("{bytes} bytes of data for {len} elements of {dtype}, which are {expected} bytes")]
    DataLength {
        /// Bytes given.
        bytes: usize,
        /// Elements wanted.
        len: u64,
        /// Their type.
        dtype: DType,
        /// Bytes that these are.
        expected: u128,
    },
    /// The value of a tensor that is being traced.
    #[error(
        "a value was asked for while a function is traced, when there is none yet, so no branch can depend on it: compute both sides and \
         choose with `where_`, or return the tensor and look at it after the call"
    )]
    Traced,
    /// The value of a tensor that was given away.
    #[error(
        "the tensor was donated to a function, whose result may lie in its memory: use the result, or donate a copy"
    )]
    Donated,
    /// An index has an element that names nothing; found in the checked mode alone.
    #[error("{0}")]
    Index(Box<IndexError>),
    /// A bug in the compiler.
    #[error("{0}")]
    Internal(Arc<InternalError>),
    /// A `Buffer` node without memory: it did not come from this runtime.
    #[error("a buffer without memory: only buffers that the runtime made hold values")]
    NoMemory,
}

/// What a computed node holds: the `Buffer` node with its elements in row-major order.
struct Realised(UOp);

/// Runs programs on one device: its memory, its caches, its choices.
#[derive(Debug)]
pub struct Executor {
    device: Arc<dyn Device>,
    name: Arc<str>,
    allocator: Arc<LruAllocator>,
    disk: DiskCache,
    keys: Keys,
    options: ScheduleOptions,
    lower: LowerOptions,
    /// Width of the search for each new kernel; 0 for none.
    beam: usize,
    known: KnownLists,
    shares_memory: bool,
    profile: bool,
    threads: usize,
    plans: Mutex<BoundedMap<UOp, Arc<Plan>>>,
    kernels: Mutex<BoundedMap<Key, Arc<Compiled>>>,
    /// By programs apart from their float constants.
    seen: Mutex<BoundedMap<UOp, constants::Seen>>,
    stats: stats::Counters,
}

/// Computes values, each once, and gives the `Buffer` node of each under the value's shape.
///
/// What has been computed before is not computed again. Values of one call share kernels.
///
/// # Errors
/// When the program is wrong, its device cannot run it, or memory does not suffice.
pub fn realize(values: &[UOp]) -> Result<Vec<UOp>, ExecuteError> {
    look_at(&checked_below(values))?;
    realize_unchecked(values)
}

/// As [`realize`], whatever indices hold.
fn realize_unchecked(values: &[UOp]) -> Result<Vec<UOp>, ExecuteError> {
    let normalized = normalize(values, computed)?;
    executor_of(&normalized)?.run_normalized(values, normalized)
}

/// As [`realize`] for values of which each has one owner beside this list, who is going to keep the outcome in its place: where nobody
/// else needs what a write replaces, it is replaced in its memory.
///
/// # Errors
/// As [`realize`]. Unless the device failed, nothing has been replaced then.
pub(crate) fn realize_in_place(values: &[UOp]) -> Result<Vec<UOp>, ExecuteError> {
    look_at(&checked_below(values))?;
    let gives_way = ownership::unneeded_buffers(values);
    // What came from another library or was given to one is not ours to replace.
    let is_own = |buffer: &UOp| memory_of(buffer).is_some_and(Buffer::is_own);
    let normalized = normalize_for_writes(values, computed, |buffer| gives_way.contains(buffer) && is_own(buffer))?;
    drop(gives_way);
    executor_of(&normalized)?.run_normalized(values, normalized)
}

/// A `Buffer` node that holds a copy of `data`, on the device of that name; none means the one that `DEV` names.
///
/// # Errors
/// When the data are not as long as `len` elements, there is no such device, or memory does not suffice.
pub fn from_bytes(device: Option<&str>, dtype: DType, len: u64, data: &[u8]) -> Result<UOp, ExecuteError> {
    registry::executor(device)?.with_room(dtype, len, len, data)
}

/// As [`from_bytes`], with memory for `room` elements, of which the data are the first.
///
/// # Errors
/// As [`from_bytes`].
pub fn from_bytes_with_room(
    device: Option<&str>,
    dtype: DType,
    len: u64,
    room: u64,
    data: &[u8],
) -> Result<UOp, ExecuteError> {
    registry::executor(device)?.with_room(dtype, len, room, data)
}

/// The elements of a computed value, in row-major order, as bytes.
///
/// # Errors
/// As [`realize`].
pub fn to_bytes(value: &UOp) -> Result<Vec<u8>, ExecuteError> {
    with_bytes(value, copied)
}

/// Hands the bytes of a value's elements, in row-major order, to a closure; computes the value if it was not. Nothing replaces them in
/// memory meanwhile, since the value is known here.
pub(crate) fn with_bytes<R>(
    value: &UOp,
    read: impl FnOnce(BufferSlice<'_>) -> Result<R, ExecuteError>,
) -> Result<R, ExecuteError> {
    match base_memory(value) {
        Some(_) => with_stored(value, read),
        None => with_stored(&realize(std::slice::from_ref(value))?.remove(0), read),
    }
}

/// The memory of a `Buffer` node, if it is one and this runtime made it.
pub fn memory_of(buffer: &UOp) -> Option<&Buffer> {
    buffer.held::<Buffer>()
}

/// The `Buffer` node that a node is, under any shape, or that holds its elements since it was computed.
pub fn computed_buffer(node: &UOp) -> Option<UOp> {
    base_memory(node).cloned().or_else(|| computed(node))
}

/// The `Buffer` node that a node is under reshapes, its elements from the first on in row-major order; more may follow them.
pub fn base_memory(node: &UOp) -> Option<&UOp> {
    let below = without_reshapes(node);
    let base = match (below.op(), below.arg()) {
        (Op::Shrink, Arg::Bounds(bounds)) if bounds.len() == 1 && bounds[0].0.is(0) => &below.src()[0],
        _ => below,
    };
    (base.op() == Op::Buffer).then_some(base)
}

/// The node with a node's elements, if it was computed.
pub(crate) fn computed(node: &UOp) -> Option<UOp> {
    node.held::<Realised>().map(|realised| realised.0.clone())
}

fn without_reshapes(node: &UOp) -> &UOp {
    let mut node = node;
    while node.op() == Op::Reshape {
        node = &node.src()[0];
    }
    node
}

/// Why a `Buffer` node has no memory.
pub(crate) fn missing(buffer: &UOp) -> ExecuteError {
    match buffer.held::<Placeholder>() {
        Some(Placeholder::Traced) => ExecuteError::Traced,
        Some(Placeholder::Donated) => ExecuteError::Donated,
        None => ExecuteError::NoMemory,
    }
}

/// Lets a value that was computed hold the node with its elements. Nodes of constants are shared by all programs, on whatever devices, so they
/// cannot stand for memory of one; those of random numbers are of one draw.
fn hold_stored(value: &UOp, stored: &UOp) {
    if !reads_memory(value) {
        return;
    }
    let base = without_reshapes(value);
    if let Some(node) = base_memory(stored).filter(|node| *node != base) {
        // What is stored is the value under its reshapes, row-major as all of them.
        base.hold(Arc::new(Realised(node.clone())));
        value.hold(Arc::new(Realised(node.clone())));
    }
}

/// Whether a value is made of memory or of random numbers, and not of constants alone.
fn reads_memory(value: &UOp) -> bool {
    let mut seen: FxHashSet<&UOp> = FxHashSet::default();
    let mut pending = vec![value];
    while let Some(node) = pending.pop() {
        let is_drawn = || matches!(node.arg(), Arg::Variable(variable) if variable.name == ANONYMOUS);
        if node.op() == Op::Buffer || node.held::<Realised>().is_some() || is_drawn() {
            return true;
        }
        if seen.insert(node) {
            pending.extend(node.src());
        }
    }
    false
}

/// The bytes of a node that [`realize`] gave.
fn read_stored(stored: &UOp) -> Result<Vec<u8>, ExecuteError> {
    with_stored(stored, copied)
}

fn copied(bytes: BufferSlice<'_>) -> Result<Vec<u8>, ExecuteError> {
    Ok(elements::to_vec(bytes)?.unwrap_or_default()) // bytes are never refused
}

fn with_stored<R>(
    stored: &UOp,
    read: impl FnOnce(BufferSlice<'_>) -> Result<R, ExecuteError>,
) -> Result<R, ExecuteError> {
    let base = base_memory(stored).ok_or(ExecuteError::NoMemory)?;
    let memory = memory_of(base).ok_or_else(|| missing(base))?;
    let elements = stored.shape().numel().value().map_err(|name| ExecuteError::Unbound { name })?.max(0) as usize;
    memory.with_host((elements * stored.dtype().bytes()).min(memory.bytes()), read)
}

/// A copy of a value's elements in memory of another executor's device, with room for `room` elements; computes the value if it was not.
pub(crate) fn copied_to(executor: &Executor, value: &UOp, room: u64) -> Result<UOp, ExecuteError> {
    let stored = match base_memory(value) {
        Some(_) => value.clone(),
        None => realize(std::slice::from_ref(value))?.remove(0),
    };
    let base = base_memory(&stored).ok_or(ExecuteError::NoMemory)?;
    let memory = memory_of(base).ok_or_else(|| missing(base))?;
    let elements = stored.shape().numel().value().map_err(|name| ExecuteError::Unbound { name })?.max(0) as u64;
    let (dtype, room) = (stored.dtype(), room.max(elements));
    let bytes = |elements: u64| elements as usize * dtype.bytes();
    let copy = memory.copied_to(&executor.allocator, bytes(elements), bytes(room))?;
    Ok(run::buffer_node(copy, dtype, room, &executor.name))
}

/// Whether a program is made as programs of tensors are. Tensors make no others; graphs made by hand may be anything, and what the compiler would make of
/// such a one might leave the memory that it is given.
fn check_graph(sink: &UOp) -> Result<(), CompileError> {
    verify::tensor::check(std::slice::from_ref(sink))
        .map_err(|error| CompileError::Program(ProgramError::new(error.node.op(), error.message)))
}

/// Memory that a graph takes, about, if nobody else has parts of it.
fn graph_bytes(root: &UOp) -> usize {
    postorder(std::slice::from_ref(root)).len() * NODE_BYTES
}

/// Whether a buffer holds what was computed from constants alone.
fn is_of_constants(buffer: &UOp) -> bool {
    memory_of(buffer).is_some_and(Buffer::is_of_constants)
}

/// The executor of the device whose memory a program uses. What was computed from constants alone is where it was first asked for, which says nothing,
/// unless there is nothing else.
fn executor_of(program: &Normalized) -> Result<Arc<Executor>, ExecuteError> {
    let mut found: Option<&Arc<str>> = None;
    let mut belongs = false;
    for buffer in &program.buffers {
        let Arg::Buffer(arg) = buffer.arg() else { continue };
        match found {
            Some(first) if *first == arg.device => belongs |= !is_of_constants(buffer),
            Some(_) if is_of_constants(buffer) => {}
            Some(first) if belongs => {
                return Err(ExecuteError::MixedDevices { first: first.to_string(), second: arg.device.to_string() });
            }
            Some(_) | None => {
                found = Some(&arg.device);
                belongs = !is_of_constants(buffer);
            }
        }
    }
    registry::executor(found.map(|name| &**name))
}

/// The one place of this crate where a promise is made that no type can hold. It rests on this:
///
/// - Programs come from `program_of`, which lowers and renders, or with their objects from the cache on disk, where this user alone can
///   have put them (`cache/folder.rs`), under a key of all that they depend on.
/// - Launches of one program are ordered by its schedule. Memory that a program writes is its own, or what its caller holds alone or in its turn: see
///   `ownership.rs` and `function`.
/// - Nobody outside of this crate gets the device, its kernels or its memory: [`DeviceView`], and what is public of `memory`.
#[allow(unsafe_code, reason = "makes the promise of opening a device")]
pub(crate) fn open_device(name: &str, threads: Option<usize>) -> Result<Arc<dyn Device>, DeviceError> {
    // SAFETY: as argued above.
    unsafe { warpweft_devices::open(name, threads) }
}

impl Executor {
    /// Opens a device of that name for these choices.
    ///
    /// # Errors
    /// When there is no such device or it cannot be opened.
    pub fn open(name: &str, config: &Config) -> Result<Executor, ExecuteError> {
        debug::install(config.debug);
        let device = open_device(name, config.threads)?;
        debug::opened(device.name());
        let threads = config.threads.unwrap_or(device.target().threads as usize).max(1);
        let options = ScheduleOptions { fuse: !config.no_fuse, costs: device.target().costs };
        let lower = LowerOptions::by_hand_unless(config.no_opt);
        // Without loops there is nothing to search for.
        let searches = device.target().language != Language::Text && !config.no_opt;
        let beam = if searches { config.beam as usize } else { 0 };
        let compiler = match beam {
            0 => device.compiler().to_string(),
            width => format!("{}, BEAM {width}", device.compiler()),
        };
        Ok(Executor {
            name: device.name().into(),
            allocator: LruAllocator::new(device.clone(), config.lru_bytes),
            disk: DiskCache::new(config.cache_folder.clone()),
            keys: Keys::new(&compiler, device.target(), &lower, options),
            known: KnownLists::new(Keys::new(device.compiler(), device.target(), &lower, options)),
            beam,
            options,
            lower,
            shares_memory: !config.no_memory_planner,
            profile: config.profile,
            threads,
            plans: Mutex::new(BoundedMap::new(config.programs_bytes / 4)),
            kernels: Mutex::new(BoundedMap::new(config.programs_bytes / 2)),
            seen: Mutex::new(BoundedMap::new(config.programs_bytes / 4)),
            stats: stats::Counters::default(),
            device,
        })
    }

    /// The device.
    pub fn device(&self) -> DeviceView<'_> {
        DeviceView::new(&*self.device)
    }

    /// The device's name, shared.
    pub(crate) fn device_name(&self) -> Arc<str> {
        self.name.clone()
    }

    /// Where its memory comes from.
    pub fn allocator(&self) -> &Arc<LruAllocator> {
        &self.allocator
    }

    /// Threads that run its kernels at most.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// The lists of opts that searches have found for it.
    pub(crate) fn known_lists(&self) -> &KnownLists {
        &self.known
    }

    /// What it keeps on disk.
    pub fn disk_cache(&self) -> &DiskCache {
        &self.disk
    }

    /// What it has done so far.
    pub fn stats(&self) -> ExecuteStats {
        self.stats.read()
    }

    /// As [`realize`], on this device whatever `DEV` names.
    ///
    /// # Errors
    /// As [`realize`].
    pub fn realize(&self, values: &[UOp]) -> Result<Vec<UOp>, ExecuteError> {
        look_at(&checked_below(values))?;
        self.run_normalized(values, normalize(values, computed)?)
    }

    /// As [`from_bytes`], on this device.
    ///
    /// # Errors
    /// As [`from_bytes`].
    pub fn from_bytes(&self, dtype: DType, len: u64, data: &[u8]) -> Result<UOp, ExecuteError> {
        self.with_room(dtype, len, len, data)
    }

    fn with_room(&self, dtype: DType, len: u64, room: u64, data: &[u8]) -> Result<UOp, ExecuteError> {
        let expected = len as u128 * dtype.bytes() as u128;
        if data.len() as u128 != expected {
            return Err(ExecuteError::DataLength { bytes: data.len(), len, dtype, expected });
        }
        let room = room.max(len);
        let memory = Buffer::new(&self.allocator, room as usize * dtype.bytes());
        memory.copy_in(0, data)?;
        Ok(run::buffer_node(memory, dtype, room, &self.name))
    }

    /// A `Buffer` node over somebody else's memory, which holds elements of that type and goes back to them with the node; at once, where kernels
    /// need memory of their own.
    ///
    /// # Errors
    /// When there is no memory for a copy.
    pub fn adopt(&self, memory: RawBuffer, dtype: DType) -> Result<UOp, ExecuteError> {
        let len = memory.bytes() / dtype.bytes().max(1);
        let buffer = match elements::as_elements(memory.all()) {
            Some(bytes) if !self.device.uses_host_memory() => Buffer::from_bytes(&self.allocator, bytes)?,
            Some(_) | None => Buffer::foreign(&self.allocator, memory),
        };
        Ok(run::buffer_node(buffer, dtype, len as u64, &self.name))
    }

    /// Returns when the device has done all that it was given.
    ///
    /// # Errors
    /// What went wrong in it, if nobody was told yet.
    pub fn finish(&self) -> Result<(), ExecuteError> {
        Ok(self.device.finish()?)
    }

    /// A `Buffer` node of what a source gives, as elements of that type; it is read when they are used.
    pub(crate) fn of_source(&self, source: Arc<dyn Source>, dtype: DType) -> UOp {
        let len = source.bytes() / dtype.bytes().max(1);
        run::buffer_node(Buffer::of_source(&self.allocator, source), dtype, len as u64, &self.name)
    }

    /// Memory that programs and kernels take that are kept ready, about; bounded by [`Config::programs_bytes`].
    pub fn kept_bytes(&self) -> usize {
        let plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner).bytes();
        let kernels = self.kernels.lock().unwrap_or_else(PoisonError::into_inner).bytes();
        plans + kernels + self.seen.lock().unwrap_or_else(PoisonError::into_inner).bytes()
    }

    /// Forgets all programs and kernels, those on disk excepted.
    pub fn forget(&self) {
        self.plans.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.kernels.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn run_normalized(&self, values: &[UOp], mut program: Normalized) -> Result<Vec<UOp>, ExecuteError> {
        for buffer in &mut program.buffers {
            if buffer.held::<Placeholder>().is_some() {
                return Err(missing(buffer));
            }
            match buffer.arg() {
                Arg::Buffer(arg) if *arg.device != *self.name => {
                    if !is_of_constants(buffer) {
                        let (first, second) = (self.name.to_string(), arg.device.to_string());
                        return Err(ExecuteError::MixedDevices { first, second });
                    }
                    *buffer = copied_to(self, buffer, 0)?;
                }
                _ => {}
            }
        }
        let (program, plan) = match self.plan_in_memory(&program.sink) {
            Some(plan) => (program, plan),
            None => {
                let program = self.without_changing_constants(program)?;
                let plan = self.plan(&program.sink)?;
                (program, plan)
            }
        };
        let stored = self.run(values, &program, &plan)?;
        values.iter().zip(&stored).for_each(|(value, stored)| hold_stored(value, stored));
        Ok(stored)
    }

    fn plan_in_memory(&self, sink: &UOp) -> Option<Arc<Plan>> {
        let plan = self.plans.lock().unwrap_or_else(PoisonError::into_inner).get(sink)?.clone();
        self.stats.schedule_found();
        debug::schedule_found(plan.kernels.len(), sink);
        Some(plan)
    }

    /// The plan of a normalized program: found, or made.
    fn plan(&self, sink: &UOp) -> Result<Arc<Plan>, ExecuteError> {
        if let Some(plan) = self.plan_in_memory(sink) {
            return Ok(plan);
        }
        check_graph(sink)?;
        self.plan_of_checked(sink)
    }

    fn plan_of_checked(&self, sink: &UOp) -> Result<Arc<Plan>, ExecuteError> {
        let plan = internal::guarded("a program", sink, || match self.stored_plan(sink) {
            Some(plan) => Ok(plan),
            None => self.new_plan(sink),
        });
        let plan = Arc::new(plan?);
        debug::memory_planned(&plan.gain);
        self.plans.lock().unwrap_or_else(PoisonError::into_inner).insert(
            sink.clone(),
            plan.clone(),
            plan.bytes() + graph_bytes(sink),
        );
        Ok(plan)
    }
}

#[cfg(test)]
mod tests;
