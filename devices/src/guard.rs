//! Guard pages: memory of tests stands between pages that nobody may touch, and a kernel that touches one is named before its
//! process ends. Only with the feature `guard-pages`, which the test crate asks for.
//!
//! After [`protect_all`] every piece of host memory ends where a guard page begins, or now and then begins where one ends, and each
//! thread's scratch memory is just as long as a kernel asks for. Fresh memory and scratch hold [`POISON`] instead of zeros, so that a
//! kernel that reads what it should have written gives NaN or -1.
//!
//! A fault in a kernel's code writes one line to stderr with the kernel's name; then the signal takes its course. Kernels that
//! were loaded before `protect_all` have no name. Tested by the test crate, in processes of their own.
#![allow(unsafe_code, reason = "maps memory, and looks at where a fault came from")]

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

use memmap2::MmapMut;

/// What every byte of fresh memory is.
pub const POISON: u8 = 0xff;

const PAGE_BYTES: usize = 4096;

static ON: AtomicBool = AtomicBool::new(false);

/// From now on, for all of the process: guard pages around memory that is allocated, and names of kernels that touch them.
pub fn protect_all() {
    static PREVIOUS_IS_KNOWN: OnceLock<()> = OnceLock::new();
    PREVIOUS_IS_KNOWN.get_or_init(report_faults);
    ON.store(true, Ordering::Release);
}

/// Whether [`protect_all`] was called.
pub(crate) fn is_on() -> bool {
    ON.load(Ordering::Acquire)
}

/// Which end of memory stands at a guard page. The other end is away from one by what is left of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// The first byte stands behind a guard page.
    Low,
    /// The byte after the last one is the first of a guard page.
    High,
}

impl Side {
    /// High three times of four: most mistakes go past the end.
    pub(crate) fn next() -> Side {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        if COUNT.fetch_add(1, Ordering::Relaxed) % 4 == 3 { Side::Low } else { Side::High }
    }
}

/// Memory between two guard pages, unmapped on drop.
#[derive(Debug)]
pub(crate) struct GuardedMemory {
    _map: MmapMut,
    address: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the memory belongs to no thread, and no reference into it is given out.
unsafe impl Send for GuardedMemory {}
// SAFETY: as for Send: a shared reference gives the raw address alone.
unsafe impl Sync for GuardedMemory {}

impl GuardedMemory {
    /// Poisoned memory; its first byte is aligned to `alignment`, a power of two of at most a page, so that on the high side as many
    /// bytes may lie between its end and the guard.
    pub(crate) fn new(bytes: usize, alignment: usize, side: Side) -> Option<GuardedMemory> {
        let room = bytes.checked_next_multiple_of(alignment)?;
        let inner = room.checked_next_multiple_of(PAGE_BYTES)?;
        let mut map = MmapMut::map_anon(inner.checked_add(2 * PAGE_BYTES)?).ok()?;
        let first = map.as_mut_ptr();
        for guard in [0, PAGE_BYTES + inner] {
            // SAFETY: the page lies in the mapping, of which no reference is held from here on.
            let refused = unsafe { libc::mprotect(first.add(guard).cast(), PAGE_BYTES, libc::PROT_NONE) };
            if refused != 0 {
                return None;
            }
        }
        let skipped = if side == Side::Low { 0 } else { inner - room };
        // SAFETY: `PAGE_BYTES + skipped` lies inside of the mapping, and `room >= bytes` bytes from there on before the upper guard.
        let address = NonNull::new(unsafe { first.add(PAGE_BYTES + skipped) })?;
        let memory = GuardedMemory { _map: map, address, bytes };
        memory.poison();
        Some(memory)
    }

    pub(crate) fn address(&self) -> NonNull<u8> {
        self.address
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Writes [`POISON`] everywhere.
    pub(crate) fn poison(&self) {
        // SAFETY: `new` made `bytes` bytes from `address` on readable and writable, and nobody has a reference to them.
        unsafe { std::ptr::write_bytes(self.address.as_ptr(), POISON, self.bytes) }
    }
}

/// The code of a loaded kernel, for the handler of faults: a list that only grows, whose entries are used again.
struct NamedCode {
    /// 0 where the entry is free.
    begin: AtomicUsize,
    end: AtomicUsize,
    name: AtomicPtr<u8>,
    name_bytes: AtomicUsize,
    next: Option<&'static NamedCode>,
}

/// The entry that was made last.
static CODE: AtomicPtr<NamedCode> = AtomicPtr::new(std::ptr::null_mut());

fn all_code() -> impl Iterator<Item = &'static NamedCode> {
    // SAFETY: what is stored there was leaked, so it lives as long as the process.
    let last: Option<&'static NamedCode> = unsafe { CODE.load(Ordering::Acquire).as_ref() };
    std::iter::successors(last, |code| code.next)
}

/// Says of addresses that they are the code of a kernel, until it is dropped.
#[derive(Debug)]
pub(crate) struct CodeName(&'static NamedCode);

impl std::fmt::Debug for NamedCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("NamedCode")
    }
}

impl CodeName {
    /// None while guards are off.
    pub(crate) fn new(name: &str, code: Range<usize>) -> Option<CodeName> {
        static CHANGING: Mutex<()> = Mutex::new(());
        if !is_on() {
            return None;
        }
        let _guard = CHANGING.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let free = all_code().find(|code| code.begin.load(Ordering::Relaxed) == 0);
        let entry = free.unwrap_or_else(|| {
            let entry: &'static NamedCode = Box::leak(Box::new(NamedCode {
                begin: AtomicUsize::new(0),
                end: AtomicUsize::new(0),
                name: AtomicPtr::new(std::ptr::null_mut()),
                name_bytes: AtomicUsize::new(0),
                next: all_code().next(),
            }));
            CODE.store(std::ptr::from_ref(entry).cast_mut(), Ordering::Release);
            entry
        });
        // A handler may be reading the old name: it stays.
        let name: &'static mut str = Box::leak(name.to_string().into_boxed_str());
        entry.name_bytes.store(name.len(), Ordering::Relaxed);
        entry.name.store(name.as_mut_ptr(), Ordering::Relaxed);
        entry.end.store(code.end, Ordering::Relaxed);
        entry.begin.store(code.start, Ordering::Release);
        Some(CodeName(entry))
    }
}

impl Drop for CodeName {
    fn drop(&mut self) {
        self.0.begin.store(0, Ordering::Release);
    }
}

/// What handled faults before.
static PREVIOUS: OnceLock<libc::sigaction> = OnceLock::new();

fn report_faults() {
    // SAFETY: a `sigaction` of zeros is a value of that type; the handler below does only what a handler may (it reads atomics, writes
    // to a file descriptor and sets an action), and both pointers are to locals.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let mut previous: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_fault as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        if libc::sigaction(libc::SIGSEGV, std::ptr::null(), &mut previous) == 0 {
            let _ = PREVIOUS.set(previous);
            libc::sigaction(libc::SIGSEGV, &action, std::ptr::null_mut());
        }
    }
}

/// Names the kernel whose code faulted, and leaves the rest to who handled faults before: the instruction is tried again on return.
extern "C" fn on_fault(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the system calls this with both pointers valid, because of SA_SIGINFO.
    let (address, instruction) = unsafe { ((*info).si_addr().addr(), instruction_of(context)) };
    let code = all_code().find(|code| {
        let begin = code.begin.load(Ordering::Acquire);
        begin != 0 && (begin..code.end.load(Ordering::Relaxed)).contains(&instruction)
    });
    if let Some(code) = code {
        // SAFETY: a name is set before its code counts as there, and is never freed.
        let name = unsafe {
            std::slice::from_raw_parts(code.name.load(Ordering::Relaxed), code.name_bytes.load(Ordering::Relaxed))
        };
        let offset = instruction.wrapping_sub(code.begin.load(Ordering::Relaxed));
        let mut digits = [0; 16];
        say(b"\nkernel `");
        say(name);
        say(b"` touches memory that it was not given, at address 0x");
        say(hexadecimal(address, &mut digits));
        say(b", by the instruction at 0x");
        say(hexadecimal(offset, &mut digits));
        say(b" of its code, on the thread `");
        // The first letters of a test's name, where a test runs the kernel on its own thread.
        let mut thread = [0u8; 16];
        // SAFETY: the system writes at most 16 bytes, the last of them zero.
        unsafe { libc::prctl(libc::PR_GET_NAME, thread.as_mut_ptr()) };
        say(thread.split(|byte| *byte == 0).next().unwrap_or_default());
        say(b"`\n");
    }
    if let Some(previous) = PREVIOUS.get() {
        // SAFETY: it was the action of this signal before.
        unsafe { libc::sigaction(signal, previous, std::ptr::null_mut()) };
    }
}

/// The address of the instruction that faulted.
///
/// # Safety
/// `context` is what the system gave to a handler.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
unsafe fn instruction_of(context: *mut libc::c_void) -> usize {
    // SAFETY: on Linux it is a `ucontext_t`.
    unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs[libc::REG_RIP as usize] as usize }
}

/// Where it is not known how the system says it, no kernel is named.
///
/// # Safety
/// None is needed.
#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
unsafe fn instruction_of(_: *mut libc::c_void) -> usize {
    0
}

fn say(text: &[u8]) {
    // SAFETY: the pointer and length are those of a slice. What cannot be written is lost.
    let _ = unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len()) };
}

/// The digits of a number, without allocating.
fn hexadecimal(mut number: usize, digits: &mut [u8; 16]) -> &[u8] {
    let mut first = digits.len();
    loop {
        first -= 1;
        digits[first] = b"0123456789abcdef"[number % 16];
        number /= 16;
        if number == 0 {
            return &digits[first..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_ends_or_begins_at_a_page() {
        for bytes in [0, 1, 60, 4095, 4096, 4097, 100_000] {
            let low = GuardedMemory::new(bytes, 1, Side::Low).unwrap();
            let high = GuardedMemory::new(bytes, 1, Side::High).unwrap();
            let aligned = GuardedMemory::new(bytes, 64, Side::High).unwrap();
            assert_eq!(low.address().addr().get() % PAGE_BYTES, 0);
            assert_eq!((high.address().addr().get() + bytes) % PAGE_BYTES, 0);
            assert_eq!(aligned.address().addr().get() % 64, 0);
            let left = (aligned.address().addr().get() + bytes).next_multiple_of(PAGE_BYTES);
            assert!(left - (aligned.address().addr().get() + bytes) < 64);
        }
    }

    #[test]
    fn numbers_are_written_in_hexadecimal() {
        assert_eq!(hexadecimal(0, &mut [0; 16]), b"0");
        assert_eq!(hexadecimal(0x7f00_12ab, &mut [0; 16]), b"7f0012ab");
        assert_eq!(hexadecimal(usize::MAX, &mut [0; 16]), b"ffffffffffffffff");
    }
}
