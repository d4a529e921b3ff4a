//! The stream of a GPU: all that the device is given stands in it, in order. Events mark points of it, which other streams wait for, and keep times.
//!
//! Always: work of one stream is done in order, so memory that is freed in it may be given to who comes later in it. A stream is destroyed when nothing is left that was
//! launched or allocated in it.
//!
//! Tested over a stand-in for the driver: `tests/it/cuda`.
#![allow(unsafe_code, reason = "calls the driver")]

use std::any::Any;
use std::collections::HashMap;
use std::ffi::c_int;
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cudarc::driver::sys::{self, CUresult};

use super::driver::{Context, Failure, check};
use super::staging::Staging;
use crate::error::DeviceError;
use crate::queue::{Event, Queue};

/// A GPU with the stream that the device's work stands in.
#[derive(Debug)]
pub(super) struct Gpu {
    pub(super) context: Context,
    stream: sys::CUstream,
    /// Pinned memory that copies go by.
    pub(super) staging: Mutex<Staging>,
    /// Whether this GPU reaches the memory of others, by their numbers, as far as somebody asked.
    pub(super) peers: Mutex<HashMap<c_int, bool>>,
}

// SAFETY: a stream is a handle that any thread may use whose current context is the stream's; the driver orders calls itself.
unsafe impl Send for Gpu {}
// SAFETY: as for Send.
unsafe impl Sync for Gpu {}

impl Gpu {
    /// Makes the stream of a context.
    ///
    /// # Errors
    /// What the driver says.
    pub(super) fn new(context: Context) -> Result<Gpu, DeviceError> {
        context.enter()?;
        let mut stream = ptr::null_mut();
        let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: the context is entered; the driver writes a handle.
        check("cuStreamCreate", unsafe { sys::cuStreamCreate(&mut stream, flags) })
            .map_err(|failure| context.error(failure, "stream"))?;
        Ok(Gpu { context, stream, staging: Mutex::default(), peers: Mutex::default() })
    }

    /// The driver's handle of the stream, which lives as long as this value.
    pub(super) fn stream(&self) -> sys::CUstream {
        self.stream
    }

    /// Returns when all that stands in the stream is done. The context is entered.
    ///
    /// # Errors
    /// What went wrong in it.
    pub(super) fn synchronize(&self) -> Result<(), Failure> {
        // SAFETY: the stream is of this context, and lives as long as this value.
        check("cuStreamSynchronize", unsafe { sys::cuStreamSynchronize(self.stream) })
    }

    /// Puts an event after all that stands in the stream now; makes it first, where there is none. The context is entered.
    ///
    /// # Errors
    /// What the driver says.
    pub(super) fn record(&self, event: &mut sys::CUevent) -> Result<(), Failure> {
        if event.is_null() {
            // SAFETY: the context is entered; the driver writes a handle.
            check("cuEventCreate", unsafe { sys::cuEventCreate(event, 0) })?;
        }
        // SAFETY: event and stream are of this context.
        check("cuEventRecord", unsafe { sys::cuEventRecord(*event, self.stream) })
    }

    /// Returns when an event of this context has happened; one that was not recorded has.
    ///
    /// # Errors
    /// What went wrong before it.
    pub(super) fn wait_for_event(&self, event: sys::CUevent) -> Result<(), Failure> {
        if event.is_null() {
            return Ok(());
        }
        // SAFETY: made by `record` in this context, which is entered.
        check("cuEventSynchronize", unsafe { sys::cuEventSynchronize(event) })
    }

    /// A point after all that stands in the stream now.
    ///
    /// # Errors
    /// What the driver says.
    pub(super) fn mark(self: &Arc<Gpu>) -> Result<Mark, DeviceError> {
        self.context.enter()?;
        let mut mark = Mark { event: ptr::null_mut(), gpu: self.clone() };
        self.record(&mut mark.event).map_err(|failure| self.context.error(failure, "event"))?;
        Ok(mark)
    }

    /// Has what is given from now on wait for a point of a stream, of this GPU's or another's.
    ///
    /// # Errors
    /// What the driver says.
    pub(super) fn wait_for_mark(&self, mark: &Mark) -> Result<(), DeviceError> {
        self.context.enter()?;
        // SAFETY: the stream is of the context that was entered; the event was recorded, and may be destroyed when the call returns.
        check("cuStreamWaitEvent", unsafe { sys::cuStreamWaitEvent(self.stream, mark.event, 0) })
            .map_err(|failure| self.context.error(failure, "event"))
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        if self.context.enter().is_ok() {
            // What went wrong at last was told to whoever waited; now nobody does.
            let _ = self.synchronize();
            self.staging.get_mut().unwrap_or_else(PoisonError::into_inner).free();
            // SAFETY: made by `new` in this context, and destroyed once.
            let _ = unsafe { sys::cuStreamDestroy_v2(self.stream) };
        }
    }
}

/// What launches and copies of a device wait in.
#[derive(Debug)]
pub(super) struct CudaQueue(pub(super) Arc<Gpu>);

impl Queue for CudaQueue {
    fn record(&self) -> Result<Arc<dyn Event>, DeviceError> {
        Ok(Arc::new(self.0.mark()?))
    }

    fn wait_for(&self, event: &Arc<dyn Event>) -> Result<(), DeviceError> {
        let any: &dyn Any = &**event;
        match any.downcast_ref::<Mark>() {
            Some(mark) => self.0.wait_for_mark(mark),
            None => event.wait(),
        }
    }

    fn finish(&self) -> Result<(), DeviceError> {
        self.0.context.enter()?;
        self.0.synchronize().map_err(|failure| self.0.context.error(failure, "what was launched before"))
    }

    fn time_between(&self, start: &Arc<dyn Event>, end: &Arc<dyn Event>) -> Option<Duration> {
        let [start, end]: [&dyn Any; 2] = [&**start, &**end];
        let (start, end) = (start.downcast_ref::<Mark>()?, end.downcast_ref::<Mark>()?);
        self.0.context.enter().ok()?;
        let mut milliseconds = 0.0;
        // SAFETY: both events were recorded and keep times; the driver writes a number, or says that one has not happened.
        let read = unsafe { sys::cuEventElapsedTime(&mut milliseconds, start.event, end.event) };
        check("cuEventElapsedTime", read).ok()?;
        Some(Duration::from_secs_f64(f64::from(milliseconds.max(0.0)) / 1e3))
    }
}

/// A point of a stream: an event of the driver that was recorded once.
#[derive(Debug)]
pub(super) struct Mark {
    event: sys::CUevent,
    gpu: Arc<Gpu>,
}

// SAFETY: an event is a handle that any thread may use whose current context is the event's.
unsafe impl Send for Mark {}
// SAFETY: as for Send.
unsafe impl Sync for Mark {}

impl Event for Mark {
    fn has_happened(&self) -> bool {
        if self.gpu.context.enter().is_err() {
            return true; // nothing will happen any more
        }
        // SAFETY: the event is of the context that was entered.
        let asked = unsafe { sys::cuEventQuery(self.event) };
        asked != CUresult::CUDA_ERROR_NOT_READY
    }

    fn wait(&self) -> Result<(), DeviceError> {
        self.gpu.context.enter()?;
        let waited = self.gpu.wait_for_event(self.event);
        waited.map_err(|failure| self.gpu.context.error(failure, "what was launched before"))
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        if !self.event.is_null() && self.gpu.context.enter().is_ok() {
            // SAFETY: made by `mark` in this context, and destroyed once; what waits for it waits all the same.
            let _ = unsafe { sys::cuEventDestroy_v2(self.event) };
        }
    }
}
