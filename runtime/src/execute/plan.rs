//! A schedule made ready: kernels loaded, and memory for everything that they store.

use std::sync::Arc;

use smallvec::SmallVec;
use warpweft_compiler::memory_plan::{self, Gain};
use warpweft_compiler::program::Access;
use warpweft_compiler::schedule::{Bound, BufferRole, Offsets, ScheduleBuffer};

use super::compile::Compiled;

/// One launch.
#[derive(Debug)]
pub(crate) struct Launch {
    /// What to launch.
    pub(crate) kernel: Arc<Compiled>,
    /// The plan's buffers that it works on, in calling order.
    pub(crate) buffers: SmallVec<[u32; 6]>,
    /// What the kernel's variables are, by number.
    pub(crate) offsets: Offsets,
}

/// Where one of a plan's buffers lies while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Location {
    /// It is given: the memory of this slot of the program's params.
    Given(u32),
    /// In memory of its own, since it is asked for.
    Own,
    /// In the arena that all temporaries share, from this byte on.
    Arena(usize),
    /// In the memory of this output, which is stored later.
    Lent(usize),
}

/// A program that is ready to run over any memory and bindings.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The launches in order.
    pub(crate) kernels: Vec<Launch>,
    /// All memory; first the params by slot.
    pub(crate) buffers: Vec<ScheduleBuffer>,
    /// Where each of it lies.
    pub(crate) locations: Vec<Location>,
    /// Bytes of the arena.
    pub(crate) arena_bytes: usize,
    /// What planning the memory gained.
    pub(crate) gain: Gain,
    /// How many of the buffers are params.
    pub(crate) params: usize,
    /// For each of these, whether a kernel replaces elements of it.
    pub(crate) replaced: Vec<bool>,
    /// The buffer of each value.
    pub(crate) outputs: Vec<usize>,
}

impl Plan {
    /// The plan of these launches. Unless temporaries may `share` memory, each has its own until the end.
    pub(super) fn new(buffers: Vec<ScheduleBuffer>, outputs: Vec<usize>, kernels: Vec<Launch>, share: bool) -> Plan {
        let named: Vec<Vec<usize>> =
            kernels.iter().map(|launch| launch.buffers.iter().map(|&buffer| buffer as usize).collect()).collect();
        let memory = memory_plan::plan(&buffers, &named, share);
        let homes = memory.offsets.iter().zip(&memory.alias_targets);
        let locations = buffers.iter().zip(homes).map(|(buffer, home)| match (buffer.role, home) {
            (BufferRole::Param(slot), _) => Location::Given(slot),
            (_, (Some(offset), _)) => Location::Arena(*offset as usize),
            (_, (None, Some(output))) => Location::Lent(*output),
            (_, (None, None)) => Location::Own,
        });
        let params = buffers.iter().filter(|buffer| matches!(buffer.role, BufferRole::Param(_))).count();
        let mut replaced = vec![false; params];
        for launch in &kernels {
            for (&buffer, parameter) in launch.buffers.iter().zip(&launch.kernel.program.parameters) {
                if let Some(replaced) = replaced.get_mut(buffer as usize) {
                    *replaced |= parameter.access != Access::Read;
                }
            }
        }
        Plan {
            kernels,
            locations: locations.collect(),
            replaced,
            arena_bytes: memory.bytes as usize,
            gain: memory.gain,
            params,
            outputs,
            buffers,
        }
    }

    /// Memory that it takes beside its kernels, about.
    pub(super) fn bytes(&self) -> usize {
        let buffers = self.buffers.len() * (size_of::<ScheduleBuffer>() + size_of::<Location>());
        let launch =
            |launch: &Launch| size_of::<Launch>() + 4 * launch.buffers.len() + 32 * launch.offsets.values().len();
        size_of::<Plan>() + buffers + self.kernels.iter().map(launch).sum::<usize>()
    }
}

impl Launch {
    pub(super) fn new(kernel: Arc<Compiled>, buffers: &[usize], offsets: Offsets) -> Launch {
        Launch { kernel, buffers: buffers.iter().map(|&buffer| buffer as u32).collect(), offsets }
    }

    /// Whether a variable of the kernel is where a view begins.
    pub(super) fn is_offset(&self, name: &str) -> bool {
        matches!(self.offsets.named(name), Some(Bound::Number(_)))
    }

    /// The program's name of a variable of the kernel; the kernel's own for an offset.
    pub(super) fn name_of<'l>(&'l self, name: &'l str) -> &'l str {
        match self.offsets.named(name) {
            Some(Bound::Variable(name)) => name,
            Some(Bound::Number(_)) | None => name,
        }
    }
}
