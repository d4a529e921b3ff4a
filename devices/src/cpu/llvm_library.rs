//! Finds LLVM's shared library when it is first needed, instead of when the process starts.
//!
//! The functions of LLVM's C interface that this crate and inkwell call are defined here, each as one jump through a table of
//! addresses; [`load`] opens the library and fills the table. So a machine without LLVM gets an error that says what to
//! install, where the dynamic linker would refuse to start the program; nothing of LLVM is needed to build; and a process that
//! compiles nothing does not pay for the library, which takes some 10 ms to link.
//!
//! Always: nobody calls LLVM before `load` has succeeded (`compile`, `target` and `disassemble` begin with it). A function that
//! is missing in the list below is an error of the linker, never one at run time.
#![allow(unsafe_code, reason = "opens a shared library and defines its functions as jumps to it")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

unsafe extern "C" {
    fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    fn dlerror() -> *const c_char;
}

/// `RTLD_NOW`: all that the library needs itself is found at once or not at all.
const NOW: c_int = 2;

/// Under which names LLVM 22 installs itself: by its own build, by Debian's and Ubuntu's packages, beside the path of libraries.
const NAMES: &[&CStr] = &[c"libLLVM.so.22.1", c"libLLVM-22.so", c"/usr/lib/llvm-22/lib/libLLVM.so.22.1"];
/// The version of LLVM that generates code. Any of this number does, so objects do not depend on the rest of it.
pub const LLVM_VERSION_MAJOR: u32 = 22;

static HIDDEN: AtomicBool = AtomicBool::new(false);

/// From now on LLVM is not to be found, as on a machine where it is not installed, unless it was used already: to try what such a
/// machine can do.
pub fn hide_llvm() {
    HIDDEN.store(true, Ordering::Relaxed);
}

#[cfg(not(target_arch = "x86_64"))]
compile_error!(
    "the CPU device generates, loads and runs code for x86-64; other processors need their jumps here and a loader"
);

macro_rules! llvm_functions {
    ($($name:ident)*) => {
        #[derive(Clone, Copy)]
        #[allow(clippy::enum_variant_names, reason = "the names are LLVM's")]
        enum Function { $($name),* }

        const FUNCTIONS: &[(&CStr, Function)] = &[$((
            // The name with a zero byte after it, which is all that a C string is.
            match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => panic!("no zero byte is inside of an identifier"),
            },
            Function::$name,
        )),*];

        /// Addresses of the functions in the library, in the order of [`Function`].
        static TABLE: [AtomicPtr<c_void>; [$(Function::$name),*].len()] =
            [const { AtomicPtr::new(std::ptr::null_mut()) }; [$(Function::$name),*].len()];

        $(std::arch::global_asm!(
            concat!(".globl ", stringify!($name)),
            concat!(".hidden ", stringify!($name)),
            concat!(stringify!($name), ":"),
            "jmp qword ptr [rip + {table} + {offset}]",
            table = sym TABLE,
            offset = const Function::$name as usize * 8,
        );)*
    };
}

llvm_functions! {
    LLVMContextCreate LLVMContextDispose LLVMContextSetDiagnosticHandler LLVMGetDiagInfoDescription LLVMGetDiagInfoSeverity
    LLVMInstallFatalErrorHandler LLVMCopyStringRepOfTargetData LLVMCountBasicBlocks LLVMCountParamTypes
    LLVMCreateDisasmCPUFeatures LLVMCreateMemoryBufferWithMemoryRangeCopy LLVMCreateMessage
    LLVMCreatePassBuilderOptions LLVMCreateTargetDataLayout LLVMCreateTargetMachine LLVMDisasmDispose
    LLVMDisasmInstruction LLVMDisposeExecutionEngine LLVMDisposeMemoryBuffer LLVMDisposeMessage LLVMDisposeModule
    LLVMDisposePassBuilderOptions LLVMDisposeTargetData LLVMDisposeTargetMachine LLVMGetBufferSize LLVMGetBufferStart
    LLVMGetDataLayoutStr LLVMGetDefaultTargetTriple LLVMGetErrorMessage LLVMGetHostCPUFeatures LLVMGetHostCPUName
    LLVMGetIntTypeWidth LLVMGetNamedFunction LLVMGetParamTypes LLVMGetReturnType LLVMGetTargetFromTriple
    LLVMGetTypeKind LLVMGetVersion LLVMGlobalGetValueType LLVMInitializeX86AsmParser LLVMInitializeX86AsmPrinter
    LLVMInitializeX86Disassembler LLVMInitializeX86Target LLVMInitializeX86TargetInfo LLVMInitializeX86TargetMC
    LLVMIsAFunction LLVMParseIRInContext2 LLVMPassBuilderOptionsSetVerifyEach LLVMRunPasses LLVMSetDataLayout
    LLVMSetDisasmOptions LLVMSetTarget LLVMTargetMachineEmitToMemoryBuffer LLVMVerifyModule
}

/// Opens the library and fills the table, once per process. An error is a sentence on what was not found.
pub(super) fn load() -> Result<(), String> {
    if HIDDEN.load(Ordering::Relaxed) {
        return Err("it is hidden".to_string());
    }
    static LOADED: OnceLock<Result<(), String>> = OnceLock::new();
    LOADED.get_or_init(|| load_from(NAMES)).clone()
}

fn load_from(names: &[&CStr]) -> Result<(), String> {
    let library = open(names)?;
    let mut addresses = [std::ptr::null_mut(); FUNCTIONS.len()];
    for &(name, function) in FUNCTIONS {
        // SAFETY: `library` is open and stays so, `name` is a C string.
        let address = unsafe { dlsym(library, name.as_ptr()) };
        if address.is_null() {
            return Err(format!("it lacks {}", name.to_string_lossy()));
        }
        addresses[function as usize] = address;
    }
    check_version(addresses[Function::LLVMGetVersion as usize])?;
    for (entry, address) in TABLE.iter().zip(addresses) {
        entry.store(address, Ordering::Release);
    }
    Ok(())
}

fn open(names: &[&CStr]) -> Result<*mut c_void, String> {
    let mut said = String::new();
    for name in names {
        // SAFETY: `name` is a C string; the initialisers that the library runs are those of LLVM.
        let library = unsafe { dlopen(name.as_ptr(), NOW) };
        if !library.is_null() {
            return Ok(library);
        }
        if said.is_empty() {
            // SAFETY: `dlerror` gives null or a C string that stays until the next call on this thread; read at once.
            said = unsafe {
                let message = dlerror();
                if message.is_null() { String::new() } else { CStr::from_ptr(message).to_string_lossy().into_owned() }
            };
        }
    }
    Err(said)
}

fn check_version(address: *mut c_void) -> Result<(), String> {
    type GetVersion = unsafe extern "C" fn(*mut u32, *mut u32, *mut u32);
    let (mut major, mut minor, mut patch) = (0, 0, 0);
    // SAFETY: `address` is not null and is that of LLVMGetVersion, which has this type and writes three numbers.
    unsafe { std::mem::transmute::<*mut c_void, GetVersion>(address)(&mut major, &mut minor, &mut patch) };
    if major == LLVM_VERSION_MAJOR { Ok(()) } else { Err(format!("it is LLVM {major}.{minor}.{patch}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_not_there_or_not_llvm_is_an_error() {
        let absent = load_from(&[c"libLLVM-of-the-year-3000.so"]).unwrap_err();
        assert!(absent.contains("libLLVM-of-the-year-3000.so"), "{absent}");
        let other = load_from(&[c"libm.so.6"]).unwrap_err();
        assert!(other.starts_with("it lacks LLVM"), "{other}");
    }
}
