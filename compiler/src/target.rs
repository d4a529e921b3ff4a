//! What a machine can do, as numbers: all that the compiler knows of the machine it compiles for.
//!
//! Devices make a [`Target`] by asking the hardware; tests make one by hand, so that kernels come out the same everywhere.

/// The language that a target's programs are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Language {
    /// LLVM IR text, for CPUs.
    Llvm,
    /// The compiler's own text form, run by the interpreter.
    Text,
    /// PTX text, for NVIDIA GPUs.
    Ptx,
}

/// A machine as the optimizer sees it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// Name of the device that it describes, in capitals: `CPU`.
    pub device: String,
    /// Language of its programs.
    pub language: Language,
    /// LLVM target triple, empty where there is none.
    pub triple: String,
    /// Processor name as LLVM calls it.
    pub processor: String,
    /// Processor features as LLVM writes them: `+avx2,+fma`.
    pub features: String,
    /// Bytes of one vector register.
    pub vector_bytes: u32,
    /// Vector registers that a kernel can use.
    pub vector_registers: u32,
    /// Bytes of the first-level data cache of one core.
    pub cache_l1_bytes: u64,
    /// Bytes of the second-level cache of one core.
    pub cache_l2_bytes: u64,
    /// Bytes of the last-level cache.
    pub cache_l3_bytes: u64,
    /// Bytes of scratch memory that one thread may keep values in while it runs a kernel.
    pub scratch_bytes: u64,
    /// Threads that may run kernels.
    pub threads: u32,
    /// Whether a fused multiply-add is one instruction.
    pub has_fma: bool,
    /// Whether loads and stores under a mask are one instruction.
    pub has_masked_memory: bool,
}

impl Target {
    /// A CPU with AVX-512, as tests and goldens assume it.
    pub fn test_avx512() -> Target {
        Target {
            device: "CPU".to_string(),
            language: Language::Llvm,
            triple: "x86_64-unknown-linux-gnu".to_string(),
            processor: "x86-64-v4".to_string(),
            features: String::new(),
            vector_bytes: 64,
            vector_registers: 32,
            cache_l1_bytes: 32 << 10,
            cache_l2_bytes: 1 << 20,
            cache_l3_bytes: 32 << 20,
            scratch_bytes: 512 << 10,
            threads: 2,
            has_fma: true,
            has_masked_memory: true,
        }
    }

    /// A CPU with AVX2 and fused multiply-adds, for tests.
    pub fn test_avx2() -> Target {
        Target { processor: "x86-64-v3".to_string(), vector_bytes: 32, vector_registers: 16, ..Target::test_avx512() }
    }

    /// The plainest CPU of 64 bits, with SSE2 alone, for tests.
    pub fn test_sse2() -> Target {
        Target {
            processor: "x86-64".to_string(),
            vector_bytes: 16,
            has_fma: false,
            has_masked_memory: false,
            ..Target::test_avx2()
        }
    }

    /// The target of the interpreter device, which takes kernels as they are.
    pub fn interpreter() -> Target {
        Target {
            device: "INTERPRETER".to_string(),
            language: Language::Text,
            triple: String::new(),
            processor: String::new(),
            vector_bytes: 4,
            vector_registers: 16,
            threads: 1,
            has_fma: false,
            has_masked_memory: false,
            ..Target::test_avx512()
        }
    }
}
