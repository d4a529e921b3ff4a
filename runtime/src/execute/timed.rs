//! What work of a device takes: by the clock of the device, where it has one, else by that of the host.
//!
//! The clock of a device reads points of its stream, so what it takes to ask for the work and to hear of its end does not count. Work that the device gets to before all of it
//! stands in the stream has gaps, which do count: [`Executor::times`] puts other work before it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use warpweft_devices::{DeviceError, Event};

use super::Executor;

impl Executor {
    /// Does some work of the device, waits for its end, and gives the time that it took: by the clock of the device, where that has one, so that what it
    /// takes to ask for the work and to hear of its end does not count.
    ///
    /// # Errors
    /// What went wrong.
    pub(crate) fn timed<E: From<DeviceError>>(&self, work: impl FnOnce() -> Result<(), E>) -> Result<Duration, E> {
        let started = Instant::now();
        let Some(queue) = self.device.queue() else {
            work()?;
            return Ok(started.elapsed());
        };
        queue.finish()?;
        let begin = queue.record()?;
        let started = Instant::now();
        work()?;
        let end = queue.record()?;
        queue.finish()?;
        Ok(queue.time_between(&begin, &end).unwrap_or_else(|| started.elapsed()))
    }

    /// What each of some calls takes by the clock of the device, or None where that has none. Before each call stands `before` in the stream, which does not count: the device does that
    /// while the host asks for the call.
    ///
    /// # Errors
    /// What went wrong.
    pub fn times<E: From<DeviceError>>(
        &self,
        calls: usize,
        mut before: impl FnMut() -> Result<(), E>,
        mut call: impl FnMut() -> Result<(), E>,
    ) -> Result<Option<Vec<Duration>>, E> {
        let Some(queue) = self.device.queue() else { return Ok(None) };
        let mut events: Vec<(Arc<dyn Event>, Arc<dyn Event>)> = Vec::new();
        for _ in 0..calls {
            before()?;
            let start = queue.record()?;
            call()?;
            events.push((start, queue.record()?));
        }
        queue.finish()?;
        Ok(events.iter().map(|(start, end)| queue.time_between(start, end)).collect())
    }
}
