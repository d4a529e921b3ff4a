//! Finds LLVM's shared library when it is first needed, instead of when the process starts.
//!
//! Each function of LLVM's C interface that `llvm-sys` declares is defined here (`llvm_functions`), as a jump through a table of
//! addresses. What stands in the table at first finds the function in the library, puts its address there and goes on to it, so
//! whoever calls LLVM in this process is served, by inkwell or not: cargo builds one `inkwell` for all crates of a program, and it links no
//! LLVM if one of them wants it so. A machine without LLVM gets an error that says what to
//! install, where the dynamic linker would refuse to start the program; nothing of LLVM is needed to build; and a process that
//! compiles nothing does not pay for the library, which takes some 10 ms to link.
//!
//! With the feature `llvm-linked` and without `llvm-loaded` nothing is defined here, and `llvm-sys` links LLVM as it does for everybody.
//!
//! Always: this crate calls LLVM only after [`load`] has succeeded. Others who call what cannot be found end the process with a
//! sentence on why, as the dynamic linker would.
//!
//! Tested at the end of this file, and by the programs of `tests/dependents`.
#![allow(unsafe_code, reason = "opens a shared library and defines its functions as jumps to it")]

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// The version of LLVM that generates code. Any of this number does, so objects do not depend on the rest of it.
pub const LLVM_VERSION_MAJOR: u32 = 22;

static HIDDEN: AtomicBool = AtomicBool::new(false);

/// From now on LLVM is not to be found, as on a machine where it is not installed, unless it was used already: to try what such a
/// machine can do.
pub fn hide_llvm() {
    HIDDEN.store(true, Ordering::Relaxed);
}

/// Makes sure that LLVM may be called. An error is a sentence on what was not found.
pub(super) fn load() -> Result<(), String> {
    if HIDDEN.load(Ordering::Relaxed) {
        return Err("it is hidden".to_string());
    }
    static LOADED: OnceLock<Result<(), String>> = OnceLock::new();
    LOADED
        .get_or_init(|| {
            #[cfg(feature = "llvm-loaded")]
            loaded::library().as_ref().map_err(Clone::clone)?;
            check_version()
        })
        .clone()
}

fn check_version() -> Result<(), String> {
    let (mut major, mut minor, mut patch) = (0, 0, 0);
    // SAFETY: the library is loaded and has this function; LLVM writes one number through each pointer, and each points at a local.
    unsafe { inkwell::llvm_sys::core::LLVMGetVersion(&mut major, &mut minor, &mut patch) };
    if major == LLVM_VERSION_MAJOR { Ok(()) } else { Err(format!("it is LLVM {major}.{minor}.{patch}")) }
}

#[cfg(not(any(feature = "llvm-loaded", feature = "llvm-linked")))]
compile_error!(
    "the feature `cpu` wants one of `llvm-loaded` (LLVM is found when it is needed) and `llvm-linked` (it is linked)"
);

#[cfg(feature = "llvm-loaded")]
mod loaded {
    use std::ffi::c_void;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicPtr, Ordering};

    use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

    use super::super::llvm_functions::for_each_function;

    /// Under which names LLVM 22 installs itself: by its own build, by Debian's and Ubuntu's packages, beside the path of libraries.
    const NAMES: &[&str] = &["libLLVM.so.22.1", "libLLVM-22.so", "/usr/lib/llvm-22/lib/libLLVM.so.22.1"];
    /// The same of its optimizer for linkers, which is a library of its own.
    const NAMES_LTO: &[&str] = &["libLTO.so.22.1", "/usr/lib/llvm-22/lib/libLTO.so.22.1"];

    macro_rules! define {
        ($($name:ident)*) => {
            #[derive(Clone, Copy)]
            #[allow(clippy::enum_variant_names, non_camel_case_types, reason = "the names are LLVM's")]
            enum Function { $($name),* }

            /// Names in the order of [`Function`].
            const FUNCTIONS: &[&str] = &[$(stringify!($name)),*];

            /// Addresses of the functions in the library, in the order of [`Function`]; null before the first call.
            static TABLE: [AtomicPtr<c_void>; FUNCTIONS.len()] =
                [const { AtomicPtr::new(std::ptr::null_mut()) }; FUNCTIONS.len()];

            $(std::arch::global_asm!(
                concat!(".globl ", stringify!($name)),
                concat!(".hidden ", stringify!($name)),
                concat!(stringify!($name), ":"),
                "mov r11, qword ptr [rip + {table} + {offset}]",
                "test r11, r11",
                "jz 2f",
                "jmp r11",
                "2: push {number}",
                "jmp {first_call}",
                table = sym TABLE,
                offset = const Function::$name as usize * 8,
                number = const Function::$name as usize,
                first_call = sym first_call,
            );)*
        };
    }

    for_each_function!(define);

    /// Finds a function and goes on to it, with everything that arguments can be in as it was: the registers of the calling convention
    /// of C for integers and for floats (none of LLVM's functions takes wider vectors), and the stack.
    ///
    /// # Safety
    /// Jumped to with the function's number on the stack, above the return address of its caller.
    #[unsafe(naked)]
    unsafe extern "C" fn first_call() {
        std::arch::naked_asm!(
            // With the number the stack is aligned to 16, and so it is after each even number of words.
            "push rax", "push rdi", "push rsi", "push rdx", "push rcx", "push r8", "push r9", "push r10",
            "sub rsp, 128",
            "movups [rsp], xmm0", "movups [rsp + 16], xmm1", "movups [rsp + 32], xmm2", "movups [rsp + 48], xmm3",
            "movups [rsp + 64], xmm4", "movups [rsp + 80], xmm5", "movups [rsp + 96], xmm6", "movups [rsp + 112], xmm7",
            "mov rdi, [rsp + 192]",
            "call {find}",
            "mov r11, rax",
            "movups xmm0, [rsp]", "movups xmm1, [rsp + 16]", "movups xmm2, [rsp + 32]", "movups xmm3, [rsp + 48]",
            "movups xmm4, [rsp + 64]", "movups xmm5, [rsp + 80]", "movups xmm6, [rsp + 96]", "movups xmm7, [rsp + 112]",
            "add rsp, 128",
            "pop r10", "pop r9", "pop r8", "pop rcx", "pop rdx", "pop rsi", "pop rdi", "pop rax",
            "add rsp, 8",
            "jmp r11",
            find = sym find_or_end,
        )
    }

    /// The address of a function that is called for the first time. Where there is none nobody can go on.
    extern "C" fn find_or_end(number: usize) -> *mut c_void {
        let name = FUNCTIONS[number];
        match find(name) {
            Ok(address) => {
                TABLE[number].store(address, Ordering::Release);
                address
            }
            // Out of a function that C calls, this ends the process.
            Err(message) => panic!("{name} of LLVM 22 is called and cannot be found: {message}"),
        }
    }

    fn find(name: &str) -> Result<*mut c_void, String> {
        let library = if name.contains("lto_") { lto_library() } else { library() };
        address_of(library.as_ref().map_err(Clone::clone)?, name)
    }

    fn address_of(library: &Library, name: &str) -> Result<*mut c_void, String> {
        // SAFETY: as an address, of which no use is made here.
        let symbol = unsafe { library.get::<*mut c_void>(name.as_bytes()) };
        symbol.map(|symbol| symbol.into_raw()).map_err(|_| format!("it lacks {name}"))
    }

    /// The library, opened once per process and never closed.
    pub(super) fn library() -> &'static Result<Library, String> {
        static LIBRARY: OnceLock<Result<Library, String>> = OnceLock::new();
        LIBRARY.get_or_init(|| open(NAMES, "LLVMGetVersion"))
    }

    fn lto_library() -> &'static Result<Library, String> {
        static LIBRARY: OnceLock<Result<Library, String>> = OnceLock::new();
        LIBRARY.get_or_init(|| open(NAMES_LTO, "lto_get_version"))
    }

    /// The first library of these names, if it has that function.
    fn open(names: &[&str], function: &str) -> Result<Library, String> {
        let mut said = String::new();
        for name in names {
            // SAFETY: what runs are the initialisers of LLVM.
            match unsafe { Library::open(Some(name), RTLD_NOW | RTLD_LOCAL) } {
                Ok(library) => return address_of(&library, function).map(|_| library),
                Err(error) if said.is_empty() => said = error.to_string(),
                Err(_) => {}
            }
        }
        Err(said)
    }

    /// What `llvm-sys` builds from C where it finds LLVM's headers, for those who build without: all targets, or this machine's. Weak, so
    /// that who has both has no quarrel.
    mod wrappers {
        use super::{FUNCTIONS, find};

        /// Calls the functions that make targets known, those with this end.
        fn of_all_targets(end: &str) {
            for name in FUNCTIONS.iter().filter(|name| name.starts_with("LLVMInitialize") && name.ends_with(end)) {
                if let Ok(address) = find(name) {
                    // SAFETY: all functions of these names take nothing and return nothing.
                    unsafe { std::mem::transmute::<*mut std::ffi::c_void, unsafe extern "C" fn()>(address)() }
                }
            }
        }

        macro_rules! wrappers {
            ($($name:literal $function:ident($end:literal);)*) => {
                $(
                    extern "C" fn $function() -> i32 {
                        of_all_targets($end);
                        0
                    }

                    std::arch::global_asm!(
                        concat!(".weak ", $name),
                        concat!(".hidden ", $name),
                        concat!($name, ":"),
                        "jmp {function}",
                        function = sym $function,
                    );
                )*
            };
        }

        // Who asks for this machine's gets its own: the only one that this crate is for.
        wrappers! {
            "LLVM_InitializeAllTargetInfos" all_infos("TargetInfo");
            "LLVM_InitializeAllTargets" all_targets("Target");
            "LLVM_InitializeAllTargetMCs" all_machine_codes("TargetMC");
            "LLVM_InitializeAllAsmPrinters" all_printers("AsmPrinter");
            "LLVM_InitializeAllAsmParsers" all_parsers("AsmParser");
            "LLVM_InitializeAllDisassemblers" all_disassemblers("Disassembler");
            "LLVM_InitializeNativeAsmPrinter" native_printer("X86AsmPrinter");
            "LLVM_InitializeNativeAsmParser" native_parser("X86AsmParser");
            "LLVM_InitializeNativeDisassembler" native_disassembler("X86Disassembler");
        }

        extern "C" fn native_target() -> i32 {
            ["X86TargetInfo", "X86Target", "X86TargetMC"].iter().for_each(|end| of_all_targets(end));
            0
        }

        std::arch::global_asm!(
            ".weak LLVM_InitializeNativeTarget",
            ".hidden LLVM_InitializeNativeTarget",
            "LLVM_InitializeNativeTarget:",
            "jmp {function}",
            function = sym native_target,
        );
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_library_that_is_not_there_or_not_llvm_is_an_error() {
            let absent = open(&["libLLVM-of-the-year-3000.so"], "LLVMGetVersion").unwrap_err();
            assert!(absent.contains("libLLVM-of-the-year-3000.so"), "{absent}");
            let other = open(&["libm.so.6"], "LLVMGetVersion").unwrap_err();
            assert!(other.starts_with("it lacks LLVM"), "{other}");
        }

        #[test]
        fn nearly_all_functions_are_in_the_library() {
            let missing: Vec<&str> =
                FUNCTIONS.iter().copied().filter(|name| !name.contains("lto_") && find(name).is_err()).collect();
            // Declared by `llvm-sys` though LLVM 22 has them no more.
            let gone = ["LLVMConstMul", "LLVMConstNSWMul", "LLVMConstNUWMul", "LLVMRemarkVersion"];
            assert!(
                missing.iter().all(|name| gone.contains(name) || name.starts_with("LLVMInitialize")),
                "{missing:?}"
            );
        }

        #[test]
        fn every_function_that_llvm_sys_declares_is_served() {
            let sources = llvm_sys_sources();
            let mut declared: Vec<String> = Vec::new();
            for text in &sources {
                let names = text.split("pub fn ").skip(1).map(|rest| rest.split('(').next().unwrap_or_default());
                declared.extend(names.map(str::to_string));
            }
            declared.retain(|name| !name.starts_with("LLVM_Initialize") && !FUNCTIONS.contains(&name.as_str()));
            assert!(sources.len() > 15 && declared.is_empty(), "missing in llvm_functions.rs: {}", declared.join(" "));
        }

        /// The files of the crate that is built against.
        fn llvm_sys_sources() -> Vec<String> {
            let platform = "x86_64-unknown-linux-gnu"; // what others need is not downloaded
            let metadata = |more: &[&str]| {
                let mut cargo = std::process::Command::new(env!("CARGO"));
                cargo.args(["metadata", "--format-version", "1", "--filter-platform", platform]).args(more);
                let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
                cargo.arg("--manifest-path").arg(manifest).output().unwrap()
            };
            // Where only parts were built, some crates were not downloaded yet.
            let output = Some(metadata(&["--offline"])).filter(|output| output.status.success());
            let output = output.unwrap_or_else(|| metadata(&[]));
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let manifests = text.split("\"manifest_path\":\"").skip(1).filter_map(|rest| rest.split('"').next());
            let manifest = manifests
                .into_iter()
                .find(|path| path.contains("/llvm-sys-"))
                .unwrap_or_else(|| panic!("no llvm-sys: {}", String::from_utf8_lossy(&output.stderr)));
            let mut folders = vec![std::path::Path::new(manifest).with_file_name("src")];
            let mut sources = Vec::new();
            while let Some(folder) = folders.pop() {
                for entry in std::fs::read_dir(folder).unwrap() {
                    let path = entry.unwrap().path();
                    if path.is_dir() {
                        folders.push(path)
                    } else {
                        sources.push(std::fs::read_to_string(path).unwrap())
                    }
                }
            }
            sources
        }
    }
}
