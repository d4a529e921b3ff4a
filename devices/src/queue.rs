//! Launches that need not be done when the call returns: a device with a [`Queue`] does what it is given in the order in which it was given, and
//! an [`Event`] says when everything up to a point of it is done.
//!
//! What goes through the queue of a device: launches, copies into its memory, and the freeing of its memory. So memory may be given back, and be given
//! to the next who asks, while a kernel that uses it still waits: the next launch over it comes later in the queue. A copy out of memory waits for
//! the queue. A device without a queue (a CPU) has done everything when the call returns, and pays for none of this.
//!
//! Always: what fails in a queue is told to whoever waits next, once; nothing is lost and nothing is told twice.
//!
//! Tested on the emulator, whose queue is a thread of the host (`emulator/queue.rs`).

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use crate::error::DeviceError;

/// What a device is given, in order.
pub trait Queue: Debug + Send + Sync {
    /// An event that has happened when all that was given so far is done.
    ///
    /// # Errors
    /// Whatever the device reports.
    fn record(&self) -> Result<Arc<dyn Event>, DeviceError>;

    /// Lets what is given from now on wait for an event, which may be of another queue. Where the machine has nothing better, the caller waits.
    ///
    /// # Errors
    /// Whatever the device reports.
    fn wait_for(&self, event: &Arc<dyn Event>) -> Result<(), DeviceError> {
        event.wait()
    }

    /// What passed between two events that have happened, by the machine's own clock; none where it keeps none.
    fn time_between(&self, _start: &Arc<dyn Event>, _end: &Arc<dyn Event>) -> Option<Duration> {
        None
    }

    /// Returns when all that was given so far is done.
    ///
    /// # Errors
    /// The first failure in the queue that nobody was told of.
    fn finish(&self) -> Result<(), DeviceError> {
        self.record()?.wait()
    }
}

/// A point in a queue.
pub trait Event: Any + Debug + Send + Sync {
    /// Whether all before it is done.
    fn has_happened(&self) -> bool;

    /// Returns when it has.
    ///
    /// # Errors
    /// The first failure in the queue that nobody was told of.
    fn wait(&self) -> Result<(), DeviceError>;
}
