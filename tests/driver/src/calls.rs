//! The functions of the driver, by topic. Each takes the lock, finds its context and says what the driver would.
//!
//! `SAFETY` of all of them: callers promise what NVIDIA's documentation asks: that pointers may be written to or read from as far as the function says.

mod contexts;
mod graphs;
mod launches;
mod memory;
mod streams;

use cudarc::driver::sys::CUresult;

/// Writes an answer to where the caller wants it.
///
/// # Safety
/// It may be written there, or the pointer is null.
unsafe fn give<T>(to: *mut T, value: T) -> Result<(), CUresult> {
    if to.is_null() {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: the caller's promise.
    unsafe { to.write(value) };
    Ok(())
}

/// An opaque handle as a pointer that points nowhere.
fn handle<T>(number: usize) -> *mut T {
    std::ptr::without_provenance_mut(number)
}
