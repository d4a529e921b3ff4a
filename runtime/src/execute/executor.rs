//! What runs programs on one device: its memory, its caches, its choices.
//!
//! Plans, kernels and what is known of constants are kept in maps that are bounded by bytes; each has a lock of its own, which is held for a lookup alone.

use std::sync::{Arc, Mutex, PoisonError};

use warpweft_compiler::error::{CompileError, ProgramError};
use warpweft_compiler::ir::{Arg, UOp, postorder};
use warpweft_compiler::pipeline::LowerOptions;
use warpweft_compiler::schedule::{Normalized, ScheduleOptions, normalize};
use warpweft_compiler::target::Language;
use warpweft_compiler::{DType, verify};
use warpweft_devices::{Device, RawBuffer, elements};

use super::bounded_map::BoundedMap;
use super::compile::Compiled;
use super::held::{computed, hold_stored, is_of_constants, missing};
use super::plan::Plan;
use super::{
    DeviceView, ExecuteError, ExecuteStats, Placeholder, checked_below, constants, copied_to, internal, look_at,
    open_device, run, stats,
};
use crate::cache::disk::{DiskCache, Key};
use crate::cache::keys::Keys;
use crate::config::Config;
use crate::debug;
use crate::memory::{Buffer, LruAllocator, Source};
use crate::search::KnownLists;

/// What a node of a graph takes, about, with its operands and facts.
const NODE_BYTES: usize = 320;

/// Runs programs on one device: its memory, its caches, its choices.
#[derive(Debug)]
pub struct Executor {
    pub(super) device: Arc<dyn Device>,
    pub(super) name: Arc<str>,
    pub(super) allocator: Arc<LruAllocator>,
    pub(super) disk: DiskCache,
    pub(super) keys: Keys,
    pub(super) options: ScheduleOptions,
    pub(super) lower: LowerOptions,
    /// Width of the search for each new kernel; 0 for none.
    pub(super) beam: usize,
    pub(super) known: KnownLists,
    pub(super) shares_memory: bool,
    pub(super) profile: bool,
    pub(super) threads: usize,
    pub(super) plans: Mutex<BoundedMap<UOp, Arc<Plan>>>,
    pub(super) kernels: Mutex<BoundedMap<Key, Arc<Compiled>>>,
    /// By programs apart from their float constants.
    pub(super) seen: Mutex<BoundedMap<UOp, constants::Seen>>,
    pub(super) stats: stats::Counters,
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

    pub(super) fn with_room(&self, dtype: DType, len: u64, room: u64, data: &[u8]) -> Result<UOp, ExecuteError> {
        let expected = len as u128 * dtype.bytes() as u128;
        if data.len() as u128 != expected {
            return Err(ExecuteError::DataLength { bytes: data.len(), len, dtype, expected });
        }
        let room = room.max(len);
        let memory = Buffer::new(&self.allocator, room as usize * dtype.bytes());
        memory.copy_in(0, data)?;
        Ok(run::buffer_node(memory.given(data), dtype, room, &self.name))
    }

    /// A `Buffer` node over somebody else's memory, which holds elements of that type and goes back to them with the node; at once, where kernels
    /// need memory of their own.
    ///
    /// # Errors
    /// When there is no memory for a copy, or it is memory that kernels of the device cannot use.
    pub fn adopt(&self, memory: RawBuffer, dtype: DType) -> Result<UOp, ExecuteError> {
        let len = memory.bytes() / dtype.bytes().max(1);
        Ok(run::buffer_node(self.adopted(memory)?, dtype, len as u64, &self.name))
    }

    /// The same without a node.
    pub(crate) fn adopted(&self, memory: RawBuffer) -> Result<Buffer, ExecuteError> {
        match elements::as_elements(memory.all()) {
            Some(bytes) if !self.device.uses_host_memory() => Ok(Buffer::from_bytes(&self.allocator, bytes)?),
            Some(_) | None => Ok(Buffer::foreign(&self.allocator, self.device.adopt(memory)?)),
        }
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

    /// What schedules depend on beside programs.
    pub(crate) fn schedule_options(&self) -> ScheduleOptions {
        self.options
    }

    /// Has programs find their kernels again when they are next run.
    pub(crate) fn forget_plans(&self) {
        self.plans.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Forgets all programs and kernels, those on disk excepted.
    pub fn forget(&self) {
        self.plans.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.kernels.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    pub(super) fn run_normalized(&self, values: &[UOp], mut program: Normalized) -> Result<Vec<UOp>, ExecuteError> {
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

    pub(super) fn plan_in_memory(&self, sink: &UOp) -> Option<Arc<Plan>> {
        let plan = self.plans.lock().unwrap_or_else(PoisonError::into_inner).get(sink)?.clone();
        self.stats.schedule_found();
        debug::schedule_found(plan.kernels.len(), sink);
        Some(plan)
    }

    /// The plan of a normalized program: found, or made.
    pub(super) fn plan(&self, sink: &UOp) -> Result<Arc<Plan>, ExecuteError> {
        if let Some(plan) = self.plan_in_memory(sink) {
            return Ok(plan);
        }
        check_graph(sink)?;
        self.plan_of_checked(sink)
    }

    pub(super) fn plan_of_checked(&self, sink: &UOp) -> Result<Arc<Plan>, ExecuteError> {
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

/// Whether a program is made as programs of tensors are. Tensors make no others; graphs made by hand may be anything, and what the compiler would make of
/// such a one might leave the memory that it is given.
pub(super) fn check_graph(sink: &UOp) -> Result<(), CompileError> {
    verify::tensor::check(std::slice::from_ref(sink))
        .map_err(|error| CompileError::Program(ProgramError::new(error.node.op(), error.message)))
}

/// Memory that a graph takes, about, if nobody else has parts of it.
pub(super) fn graph_bytes(root: &UOp) -> usize {
    postorder(std::slice::from_ref(root)).len() * NODE_BYTES
}
