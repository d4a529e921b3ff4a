//! Where the contents of memory come from that nobody has asked for yet.
//!
//! A buffer with a source is the room that the command line and `Tensor::device` call `DISK`: it has no memory until somebody needs its
//! bytes; then it gets memory of its device, once, and the source is read into it in a stream of pieces. So nothing is read that is not
//! used, what is read is checked when it is used, and all that follows (launches, views, writes) knows nothing of files.
//!
//! Not here: files (`input`), entries of archives (`formats::archive`), when a buffer reads (`buffer`).

use std::fmt;
use std::sync::Arc;

use warpweft_devices::DeviceError;

/// The most bytes that a source gives in one piece. A multiple of the width of every element.
pub const READ_BYTES: usize = 1 << 20;

/// What takes the pieces of a source.
pub type Take<'t> = dyn FnMut(&[u8]) -> Result<(), DeviceError> + 't;

/// Bytes that can be read, any number of times, from any thread.
pub trait Source: fmt::Debug + Send + Sync {
    /// How many bytes it gives.
    fn bytes(&self) -> usize;

    /// Hands all its bytes to `take`, in order.
    ///
    /// # Errors
    /// If they are not there or not as they should be, or what `take` says.
    fn read(&self, take: &mut Take<'_>) -> Result<(), DeviceError>;

    /// A source of some of its bytes, if those can be had without reading the others.
    fn part(&self, offset: usize, bytes: usize) -> Option<Arc<dyn Source>>;

    /// What is read, and where in a file it lies, for people.
    fn location(&self) -> String;
}
