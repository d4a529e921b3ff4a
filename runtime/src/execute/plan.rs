//! A schedule made ready: kernels loaded, and for each kernel the memory that is needed no longer after it.

use std::sync::Arc;

use smallvec::SmallVec;
use warpweft_compiler::schedule::{BufferRole, Schedule, ScheduleBuffer};

use super::compile::Compiled;

/// One launch.
#[derive(Debug)]
pub(super) struct Launch {
    /// What to launch.
    pub(super) kernel: Arc<Compiled>,
    /// The plan's buffers that it works on, in calling order.
    pub(super) buffers: SmallVec<[u32; 6]>,
    /// Temporaries that no later kernel names.
    pub(super) frees: SmallVec<[u32; 2]>,
}

/// A program that is ready to run over any memory and bindings.
#[derive(Debug)]
pub(super) struct Plan {
    /// The launches in order.
    pub(super) kernels: Vec<Launch>,
    /// All memory; first the params by slot.
    pub(super) buffers: Vec<ScheduleBuffer>,
    /// How many of the buffers are params.
    pub(super) params: usize,
    /// The buffer of each value.
    pub(super) outputs: Vec<usize>,
}

impl Plan {
    /// `kernels` stand in the order of the schedule's. Where temporaries are kept, nothing is freed before the end.
    pub(super) fn new(schedule: Schedule, kernels: Vec<Arc<Compiled>>, keeps_temporaries: bool) -> Plan {
        let mut named_later = vec![keeps_temporaries; schedule.buffers.len()];
        let mut launches: Vec<Launch> = Vec::with_capacity(kernels.len());
        for (scheduled, kernel) in schedule.kernels.iter().zip(kernels).rev() {
            let mut frees = SmallVec::new();
            for &buffer in &scheduled.buffers {
                if !named_later[buffer] && schedule.buffers[buffer].role == BufferRole::Temporary {
                    frees.push(buffer as u32);
                }
                named_later[buffer] = true;
            }
            let buffers = scheduled.buffers.iter().map(|&buffer| buffer as u32).collect();
            launches.push(Launch { kernel, buffers, frees });
        }
        launches.reverse();
        let params = schedule.buffers.iter().filter(|buffer| matches!(buffer.role, BufferRole::Param(_))).count();
        Plan { kernels: launches, buffers: schedule.buffers, params, outputs: schedule.outputs }
    }
}
