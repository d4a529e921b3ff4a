//! What can go wrong on a device: each error says what was wrong and what would be right.
//!
//! Errors are plain data (`Clone`, comparable), because a lazy graph carries them until a value is asked for.

use warpweft_compiler::target::Language;

/// Bytes of a file that are not there or not what they should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}: at byte {offset}: {message}")]
pub struct FileError {
    /// The file; of one in an archive, both names.
    pub file: String,
    /// Where in the file, from its first byte.
    pub offset: u64,
    /// What was found there, and what would be right.
    pub message: String,
}

/// A request that a device could not fulfil.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// There is no device of that name.
    #[error("no device is called `{name}`; devices that are here: {known}")]
    UnknownDevice {
        /// The name that was asked for.
        name: String,
        /// Those that are here, separated by commas.
        known: String,
    },
    /// The device is not there, or not one that kernels can be made for.
    #[error("device {device} is not available: {reason}")]
    Unavailable {
        /// Name of the device.
        device: String,
        /// Why.
        reason: String,
    },
    /// The code generator is not there, or lacks this machine.
    #[error(
        "LLVM 22 cannot be used for {triple}: {message}; install the package `libllvm22` (Debian and Ubuntu: apt.llvm.org), or \
         set LD_LIBRARY_PATH to the folder of libLLVM.so.22.1"
    )]
    CompilerMissing {
        /// The machine, as LLVM names it.
        triple: String,
        /// What LLVM said.
        message: String,
    },
    /// The memory of the device does not suffice.
    #[error("out of memory on {device}: {bytes} bytes asked in one piece; use smaller tensors or free some")]
    OutOfMemory {
        /// Name of the device.
        device: String,
        /// Bytes asked for.
        bytes: usize,
    },
    /// A copy or slice reaches past the end of its buffer.
    #[error("bytes {offset}..{offset}+{bytes} are outside of a buffer of {limit} bytes")]
    OutOfBounds {
        /// First byte.
        offset: usize,
        /// Number of bytes.
        bytes: usize,
        /// Bytes of the buffer.
        limit: usize,
    },
    /// The source of a program is not in the language of the device.
    #[error("kernel `{kernel}` is not valid {}: {message}{}", language_name(*.language), .line.as_ref().map(|l| format!("\n  line {l}: {text}")).unwrap_or_default())]
    Program {
        /// Name of the kernel.
        kernel: String,
        /// What the device reads.
        language: Language,
        /// Line of the source, counted from 1, if one is named.
        line: Option<usize>,
        /// That line.
        text: String,
        /// What is wrong with it.
        message: String,
    },
    /// The program is valid, but the device cannot make code of it.
    #[error("kernel `{kernel}` cannot be compiled ({stage}): {message}")]
    Compile {
        /// Name of the kernel.
        kernel: String,
        /// The step that failed.
        stage: &'static str,
        /// What failed.
        message: String,
    },
    /// The object is damaged, or holds something that the loader does not support.
    #[error("the object of kernel `{kernel}` cannot be loaded: {message}")]
    Object {
        /// Name of the kernel.
        kernel: String,
        /// What is wrong with it.
        message: String,
    },
    /// A thread did what none may, while it ran on a device that watches.
    #[error(transparent)]
    Fault(Box<Fault>),
    /// A device refused what it was asked; it can be used on.
    #[error("device {device} refused `{kernel}`: {message}")]
    Launch {
        /// Name of the device.
        device: String,
        /// Name of the kernel, or what else was asked.
        kernel: String,
        /// What the device's driver said.
        message: String,
    },
    /// A device failed in a way that ends its use in this process: what ran before is lost, and all later requests fail as this one.
    #[error("device {device} failed and cannot be used any more in this process: {message}")]
    Lost {
        /// Name of the device.
        device: String,
        /// What its driver said first.
        message: String,
    },
    /// The memory is to hold what a file does, and the file cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// The device does not offer this.
    #[error("device {device} cannot {what}")]
    Unsupported {
        /// Name of the device.
        device: String,
        /// What was asked, as a verb phrase.
        what: String,
    },
}

fn language_name(language: Language) -> &'static str {
    match language {
        Language::Llvm => "LLVM IR",
        Language::Text => "a graph",
        Language::Ptx => "PTX",
    }
}

/// What a thread of a kernel did that none may, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("kernel `{kernel}` failed at line {line}: {text}\n  block {block:?}, thread {thread:?}: {message}")]
pub struct Fault {
    /// Name of the kernel.
    pub kernel: String,
    /// Line of the source, counted from 1.
    pub line: usize,
    /// That line.
    pub text: String,
    /// Which block, along x, y and z.
    pub block: [u64; 3],
    /// Which thread of it.
    pub thread: [u64; 3],
    /// What it did.
    pub message: String,
}
