//! Plans of programs that no plan is kept for: found on disk, or made and put there.
//!
//! A schedule on disk names its kernels by key; with all of them there, nothing is scheduled, lowered or compiled. If anything is
//! missing, damaged or does not fit together, the program is scheduled as if nothing had been there.

use std::sync::Arc;
use std::time::Instant;

use warpweft_compiler::ir::UOp;
use warpweft_compiler::schedule::schedule_with;

use super::compile::Compiled;
use super::plan::{Launch, Plan};
use super::{ExecuteError, Executor};
use crate::cache::disk::Key;
use crate::cache::entries::{decode_schedule, encode_schedule};
use crate::debug;

impl Executor {
    /// The plan of a program whose schedule and kernels are on disk.
    pub(super) fn stored_plan(&self, sink: &UOp) -> Option<Plan> {
        // Who listens to decisions wants them made.
        if self.disk.folder().is_none() || debug::wants(3) || debug::record::is_on() {
            return None;
        }
        let started = Instant::now();
        let stored = decode_schedule(&self.disk.get(&self.keys.schedule(sink))?)?;
        let mut ready = self.loaded(stored.kernels.iter().map(|(key, _, _)| *key));
        let from_memory = ready.len();
        let mut found: Vec<(Key, Arc<Compiled>)> = Vec::new();
        for (key, buffers, offsets) in &stored.kernels {
            if !ready.contains_key(key) {
                let compiled = self.stored_kernel(key)?.compiled();
                ready.insert(*key, compiled.clone());
                found.push((*key, compiled));
            }
            let program = &ready[key].program;
            let is_bound = |name: &&String| offsets.named(name).is_some() || !name.starts_with('@');
            if program.parameters.len() != buffers.len() || !program.variables.iter().all(|name| is_bound(&name)) {
                return None;
            }
        }
        let count = found.len();
        self.disk.count_hits(count + 1);
        self.stats.kernels(0, count as u64, from_memory as u64);
        self.stats.schedule_stored();
        self.keep(found.into_iter());
        let launch =
            |(key, buffers, offsets): (Key, Vec<usize>, _)| Launch::new(ready[&key].clone(), &buffers, offsets);
        let kernels: Vec<Launch> = stored.kernels.into_iter().map(launch).collect();
        debug::schedule_stored(kernels.len(), count, sink, started.elapsed());
        Some(Plan::new(stored.buffers, stored.outputs, kernels, self.shares_memory))
    }

    /// The plan of a program, scheduled and compiled now.
    pub(super) fn new_plan(&self, sink: &UOp) -> Result<Plan, ExecuteError> {
        let started = Instant::now();
        let mut watch = debug::DecisionWatch::default();
        let schedule = schedule_with(sink, self.options, &mut watch)?;
        watch.emit();
        debug::scheduled(schedule.kernels.len(), sink, started.elapsed());
        let kernels = self.compiled(&schedule)?;
        self.stats.schedule_made();
        if self.disk.folder().is_some() {
            let keys: Vec<Key> = kernels.iter().map(|(key, _)| *key).collect();
            self.disk.put(&self.keys.schedule(sink), &encode_schedule(&schedule, &keys));
        }
        let launch = |(kernel, (_, compiled)): (_, (Key, _))| {
            let kernel: &warpweft_compiler::schedule::ScheduledKernel = kernel;
            Launch::new(compiled, &kernel.buffers, kernel.offsets.clone())
        };
        let launches = schedule.kernels.iter().zip(kernels).map(launch).collect();
        let plan = Plan::new(schedule.buffers, schedule.outputs, launches, self.shares_memory);
        let (nodes, reasons) = watch.into_parts();
        debug::record::program(&plan, &self.name, nodes, reasons);
        Ok(plan)
    }
}
