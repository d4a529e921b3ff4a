//! Scratch memory of kernels: each thread that runs kernels owns one piece, which all of its kernels use one after another.
//!
//! It is allocated when the first kernel that needs scratch runs on the thread, grows when one needs more, and is freed with the
//! thread. So threads never wait for each other, stacks stay small, and a kernel that needs none costs nothing.
//!
//! Always: memory that was handed out stays where it is until the same thread asks for more of it than there is.
//! Tested in `cpu/tests`.
#![allow(unsafe_code, reason = "owns memory by address")]

use std::alloc::{Layout, alloc, dealloc};
use std::cell::RefCell;
use std::ptr::NonNull;

use warpweft_compiler::program::SCRATCH_ALIGNMENT;

use crate::error::DeviceError;
#[cfg(feature = "guard-pages")]
use crate::guard::{self, GuardedMemory, Side};

/// A page, so that no two threads share one; a multiple of what kernels ask for.
const ALIGNMENT: usize = 4096;
const _: () = assert!(ALIGNMENT.is_multiple_of(SCRATCH_ALIGNMENT as usize));

/// The memory of a thread.
struct Piece {
    address: NonNull<u8>,
    layout: Layout,
}

impl Piece {
    fn new(bytes: usize) -> Option<Piece> {
        let layout = Layout::from_size_align(bytes.checked_next_multiple_of(ALIGNMENT)?, ALIGNMENT).ok()?;
        if layout.size() == 0 {
            return None;
        }
        // SAFETY: the layout has bytes.
        let address = NonNull::new(unsafe { alloc(layout) })?;
        Some(Piece { address, layout })
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        // SAFETY: `new` got `address` from the allocator with this very layout, and nothing else frees it.
        unsafe { dealloc(self.address.as_ptr(), self.layout) }
    }
}

thread_local! {
    static OWN: RefCell<Option<Piece>> = const { RefCell::new(None) };
}

/// Scratch memory of this thread, of at least so many bytes; dangling if that is none.
///
/// It stays valid until this thread asks for more, or ends. What is in it has no meaning.
///
/// # Errors
/// [`DeviceError::OutOfMemory`] when the system refuses.
#[inline]
pub(super) fn of_this_thread(bytes: usize) -> Result<NonNull<u8>, DeviceError> {
    if bytes == 0 { Ok(NonNull::dangling()) } else { own(bytes) }
}

fn own(bytes: usize) -> Result<NonNull<u8>, DeviceError> {
    #[cfg(feature = "guard-pages")]
    if guard::is_on() {
        return guarded(bytes);
    }
    let piece = |own: &RefCell<Option<Piece>>| {
        let mut own = own.borrow_mut();
        if let Some(piece) = own.as_ref().filter(|piece| piece.layout.size() >= bytes) {
            return Some(piece.address);
        }
        // What is there goes first: nothing in it is needed any more.
        *own = None;
        *own = Piece::new(bytes);
        own.as_ref().map(|piece| piece.address)
    };
    // A thread that is being taken down has no memory of its own any more.
    OWN.try_with(piece).ok().flatten().ok_or_else(|| out_of_memory(bytes))
}

fn out_of_memory(bytes: usize) -> DeviceError {
    DeviceError::OutOfMemory { device: super::NAME.to_string(), bytes }
}

#[cfg(feature = "guard-pages")]
thread_local! {
    static GUARDED: RefCell<Option<GuardedMemory>> = const { RefCell::new(None) };
}

/// As long as was asked for, between guard pages, and poisoned each time.
#[cfg(feature = "guard-pages")]
fn guarded(bytes: usize) -> Result<NonNull<u8>, DeviceError> {
    let memory = |memory: &RefCell<Option<GuardedMemory>>| {
        let mut memory = memory.borrow_mut();
        match memory.as_ref().filter(|memory| memory.bytes() == bytes) {
            Some(memory) => memory.poison(),
            None => *memory = GuardedMemory::new(bytes, SCRATCH_ALIGNMENT as usize, Side::High),
        }
        memory.as_ref().map(GuardedMemory::address)
    };
    GUARDED.try_with(memory).ok().flatten().ok_or_else(|| out_of_memory(bytes))
}
