//! Running a plan: memory for what its kernels store, launches in order, and the nodes that hold the results.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use smallvec::SmallVec;
use warpweft_compiler::DType;
use warpweft_compiler::ir::UOp;
use warpweft_compiler::schedule::{Normalized, ScheduleBuffer, view_of};
use warpweft_devices::{BufferSlice, DeviceError};

use super::plan::{Launch, Location, Plan};
use super::{ExecuteError, Executor};
use crate::debug;
use crate::memory::Buffer;

/// A new `Buffer` node that holds memory.
pub(crate) fn buffer_node(memory: Buffer, dtype: DType, len: u64, device: &Arc<str>) -> UOp {
    new_node(dtype, len, device, Arc::new(memory))
}

/// A new `Buffer` node that has no memory, and says why.
pub(crate) fn placeholder_node(dtype: DType, len: u64, device: &Arc<str>, placeholder: Placeholder) -> UOp {
    new_node(dtype, len, device, Arc::new(placeholder))
}

fn new_node(dtype: DType, len: u64, device: &Arc<str>, held: Arc<dyn Any + Send + Sync>) -> UOp {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let node = UOp::buffer(NEXT.fetch_add(1, Ordering::Relaxed), dtype, len, device);
    node.hold(held);
    node
}

/// Why a `Buffer` node has no memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placeholder {
    /// It stands for memory that is given when a function is called.
    Traced,
    /// Its memory went to a function, whose result may lie in it.
    Donated,
}

/// Bytes of a buffer; of one that is longer than memory can be, more than there are.
pub(super) fn bytes_of(buffer: &ScheduleBuffer) -> usize {
    usize::try_from(buffer.len).unwrap_or(usize::MAX).saturating_mul(buffer.dtype.bytes())
}

/// The memory that a program gives for a slot. A slot that it does not name is never touched. Graphs may have been made by hand, so that a buffer says
/// that it is longer than the memory that it holds, or a slot stands for nothing.
fn given(program: &Normalized, slot: u32, buffer: &ScheduleBuffer) -> Result<Buffer, ExecuteError> {
    let node = program.buffers.get(slot as usize).ok_or(ExecuteError::NoMemory)?;
    let memory = node.held::<Buffer>().ok_or_else(|| super::missing(node))?;
    match bytes_of(buffer) {
        bytes if bytes <= memory.bytes() => Ok(memory.clone()),
        bytes => Err(DeviceError::OutOfBounds { offset: 0, bytes, limit: memory.bytes() }.into()),
    }
}

type Memory = SmallVec<[Option<Buffer>; 8]>;

/// The memory that a launch works on.
fn slices<'m>(launch: &Launch, memory: &'m Memory) -> Result<SmallVec<[BufferSlice<'m>; 8]>, ExecuteError> {
    let slice = |&buffer: &u32| match &memory[buffer as usize] {
        Some(memory) => Ok(memory.slice()?),
        None => Err(ExecuteError::NoMemory),
    };
    launch.buffers.iter().map(slice).collect()
}

/// The values of the variables of a launch.
fn variables(launch: &Launch, bindings: &[(String, i64)]) -> Result<SmallVec<[i64; 4]>, ExecuteError> {
    let value = |name: &String| {
        // Bindings are in order of names.
        let bound = |name: &str| {
            let at = bindings.binary_search_by(|(bound, _)| bound.as_str().cmp(name)).ok()?;
            Some(bindings[at].1)
        };
        launch
            .offsets
            .value(name, bound)
            .ok_or_else(|| ExecuteError::Unbound { name: launch.name_of(name).to_string() })
    };
    launch.kernel.program.variables.iter().map(value).collect()
}

impl Executor {
    /// Runs a plan over the memory and bindings of a program; gives the node that holds each of its values.
    pub(super) fn run(&self, values: &[UOp], program: &Normalized, plan: &Plan) -> Result<Vec<UOp>, ExecuteError> {
        let mut memory: Memory = SmallVec::with_capacity(plan.buffers.len());
        let arena = (plan.arena_bytes > 0).then(|| Buffer::new(&self.allocator, plan.arena_bytes));
        for (location, buffer) in plan.locations.iter().zip(&plan.buffers) {
            memory.push(Some(match *location {
                Location::Given(slot) => given(program, slot, buffer)?,
                Location::Own => self.new_memory(buffer),
                Location::Arena(offset) => match &arena {
                    Some(arena) => arena.view(offset, bytes_of(buffer))?,
                    None => self.new_memory(buffer), // of no bytes
                },
                Location::Lent(_) => {
                    memory.push(None);
                    continue;
                }
            }));
        }
        for (buffer, location) in plan.locations.iter().enumerate() {
            if let Location::Lent(output) = *location
                && let Some(alias_target) = &memory[output]
            {
                memory[buffer] = Some(alias_target.view(0, bytes_of(&plan.buffers[buffer]))?);
            }
        }
        if plan.replaced.contains(&true) {
            // What is replaced is lost, so all that can fail without a device failing comes first.
            for launch in &plan.kernels {
                slices(launch, &memory)?;
                variables(launch, &program.bindings)?;
            }
        }
        let measures = self.profile || debug::wants_kernels();
        let origins = if debug::wants_kernels() { self.origins(values, &program.sink) } else { Vec::new() };
        for (number, launch) in plan.kernels.iter().enumerate() {
            if measures {
                let elapsed = self.timed(|| self.launch(launch, &memory, &program.bindings))?;
                self.launched(launch, elapsed, origins.get(number).and_then(Option::as_deref));
            } else {
                self.launch(launch, &memory, &program.bindings)?;
            }
        }
        self.stats.launched(plan.kernels.len());
        self.results(values, program, plan, memory)
    }

    fn new_memory(&self, buffer: &ScheduleBuffer) -> Buffer {
        Buffer::new(&self.allocator, bytes_of(buffer))
    }

    pub(super) fn launch(
        &self,
        launch: &Launch,
        memory: &Memory,
        bindings: &[(String, i64)],
    ) -> Result<(), ExecuteError> {
        let (slices, variables) = (slices(launch, memory)?, variables(launch, bindings)?);
        Ok(launch.kernel.kernel.launch(&slices, &variables, self.threads)?)
    }

    #[cold]
    pub(super) fn launched(&self, launch: &Launch, elapsed: Duration, origin: Option<&str>) {
        let program = &launch.kernel.program;
        let (number, total) = self.stats.timed(&program.name, elapsed, &program.estimate);
        debug::kernel_ran(
            &self.name,
            &launch.kernel,
            launch.buffers.len(),
            elapsed,
            total,
            number,
            self.allocator.stats(),
            origin,
        );
    }

    /// A node for each value, under its shape.
    fn results(
        &self,
        values: &[UOp],
        program: &Normalized,
        plan: &Plan,
        mut memory: Memory,
    ) -> Result<Vec<UOp>, ExecuteError> {
        let mut nodes: SmallVec<[Option<UOp>; 8]> = SmallVec::new();
        nodes.resize(plan.buffers.len(), None);
        let mut results = Vec::with_capacity(values.len());
        let is_of_constants = program.buffers.iter().all(super::is_of_constants);
        for (value, &output) in values.iter().zip(&plan.outputs) {
            let node = match &nodes[output] {
                Some(node) => node.clone(),
                None => {
                    let node = if output < plan.params && plan.replaced[output] {
                        // Other elements are another node, though they lie in the same memory: nodes never change.
                        let buffer = &plan.buffers[output];
                        let memory = given(program, output as u32, buffer)?.of_constants(is_of_constants);
                        buffer_node(memory, buffer.dtype, buffer.len, &self.name)
                    } else if output < plan.params {
                        program.buffers[output].clone()
                    } else {
                        let buffer = &plan.buffers[output];
                        let memory = memory[output].take().unwrap_or_else(|| self.new_memory(buffer));
                        buffer_node(memory.of_constants(is_of_constants), buffer.dtype, buffer.len, &self.name)
                    };
                    nodes[output] = Some(node.clone());
                    node
                }
            };
            results.push(view_of(&node, value.shape()));
        }
        Ok(results)
    }
}
