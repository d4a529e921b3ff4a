//! What a machine can do, as numbers: all that the compiler knows of the machine it compiles for.
//!
//! Devices make a [`Target`] by asking the hardware; tests make one by hand, so that kernels come out the same everywhere.

mod costs;

use std::fmt;

use crate::ir::{DotKind, TileKind};

pub use costs::{Costs, Dots};

/// Bytes that come from memory together. x86-64 and ARM have 64, NVIDIA's GPUs sectors of 32.
pub(crate) const CACHE_LINE_BYTES: i64 = 64;

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

/// What only some machines have: a kernel that uses it cannot run elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Feature {
    /// A grid of blocks, which run the same program.
    Grid,
    /// Threads of a block, which run together.
    Block,
    /// Lanes, which exchange values without memory.
    Lanes,
    /// Memory that the threads of a block share.
    SharedMemory,
    /// An op at which the threads of a block wait for each other.
    Barrier,
    /// Matrices of half floats that the lanes of a warp multiply together.
    Matrices,
    /// Narrow numbers of which one instruction multiplies some for each lane and adds them up.
    Dot(DotKind),
    /// Registers that hold small matrices, which one instruction multiplies and adds up.
    Tiles(TileKind),
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Feature::Dot(kind) => return write!(f, "dot products of {}", kind.name()),
            Feature::Tiles(kind) => return write!(f, "tiles of {}", kind.name()),
            Feature::Grid => "grid of blocks",
            Feature::Block => "blocks of threads",
            Feature::Lanes => "lanes that exchange values",
            Feature::SharedMemory => "shared memory between threads",
            Feature::Barrier => "barrier between threads",
            Feature::Matrices => "matrices that lanes multiply",
        })
    }
}

/// The blocks of threads that a GPU runs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Blocks {
    /// Most blocks of a grid along x, y and z.
    pub grid_max: [u64; 3],
    /// Most threads of a block along x, y and z; lanes count along x.
    pub block_max: [u64; 3],
    /// Most threads of a block in all.
    pub threads_max: u64,
    /// Threads of a warp: the most lanes that a group can have.
    pub lanes: u64,
    /// Bytes of shared memory that a block may have.
    pub shared_bytes: u64,
    /// Whether the lanes of a warp multiply matrices together: of `f16` and `bf16`, 16 x 16 by 16 x 8.
    pub matrices: bool,
}

/// What one instruction of a CPU multiplies of tiles, and adds to a third ([`crate::ir::tiles`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tiles {
    /// `bf16` by `bf16`.
    pub bf16: bool,
    /// `f16` by `f16`.
    pub f16: bool,
    /// Bytes by bytes, with signs and without.
    pub bytes: bool,
}

impl Tiles {
    /// Whether there is an instruction for that kind.
    pub fn has(self, kind: TileKind) -> bool {
        match kind {
            TileKind::Bf16 => self.bf16,
            TileKind::F16 => self.f16,
            TileKind::SignedBytes
            | TileKind::SignedByUnsigned
            | TileKind::UnsignedBySigned
            | TileKind::UnsignedBytes => self.bytes,
        }
    }
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
    /// Whether `f16` is added, subtracted, multiplied and divided, and its square root taken, by one instruction that rounds once.
    pub has_half_arithmetic: bool,
    /// What it multiplies of tiles.
    pub tiles: Tiles,
    /// What things cost on machines of its kind.
    pub costs: Costs,
    /// How it runs blocks of threads; a machine that runs none has neither grid nor lanes, shared memory or barriers.
    pub blocks: Option<Blocks>,
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
            has_half_arithmetic: false,
            tiles: Tiles::default(),
            costs: Costs::cpu(),
            blocks: None,
        }
    }

    /// A CPU with AVX-512 and its instructions for dot products, for tests: what Intel's Xeon had in its third generation.
    pub fn test_vnni() -> Target {
        Target {
            processor: "cooperlake".to_string(),
            costs: Costs { dots: Dots { bf16: true, i16: true, bytes: true }, ..Costs::cpu() },
            ..Target::test_avx512()
        }
    }

    /// A CPU with arithmetic on `f16`, and tiles of `bf16` and bytes, too, for tests: the fourth generation of Intel's Xeon.
    pub fn test_amx() -> Target {
        Target {
            processor: "sapphirerapids".to_string(),
            cache_l1_bytes: 48 << 10,
            cache_l2_bytes: 2 << 20,
            has_half_arithmetic: true,
            tiles: Tiles { bf16: true, f16: false, bytes: true },
            ..Target::test_vnni()
        }
    }

    /// A CPU with tiles of `f16` besides, for tests: the sixth generation of Intel's Xeon.
    pub fn test_amx_f16() -> Target {
        let tiles = Tiles { bf16: true, f16: true, bytes: true };
        Target { processor: "graniterapids".to_string(), tiles, ..Target::test_amx() }
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

    /// A CPU or GPU by the name that its compiler has for it: one of [`Target::CPUS`] or [`Target::NVIDIA`].
    pub fn named(name: &str) -> Option<Target> {
        let cpus = [
            Target::test_sse2,
            Target::test_avx2,
            Target::test_avx512,
            Target::test_vnni,
            Target::test_amx,
            Target::test_amx_f16,
        ];
        let cpu = cpus.into_iter().map(|target| target()).find(|target| target.processor == name);
        cpu.or_else(|| Target::nvidia(name))
    }

    /// The names of CPUs that [`Target::named`] knows, oldest first.
    pub const CPUS: [&str; 6] = ["x86-64", "x86-64-v3", "x86-64-v4", "cooperlake", "sapphirerapids", "graniterapids"];

    /// A GPU by its numbers alone, for tests: no device has it, and kernels for it run on the interpreter of linear lists. It is the H100.
    pub fn gpu_model() -> Target {
        Target { device: "GPU MODEL".to_string(), ..Target::nvidia("sm_90").unwrap_or_else(Target::test_avx512) }
    }

    /// The GPU that compute capability is best known by, as its data sheet describes it, by the name that PTX has for it: one of [`Target::NVIDIA`].
    ///
    /// Numbers of the CUDA C++ Programming Guide ("Compute Capabilities", table of technical specifications), the same for 8.0, 9.0 and 10.0: grids of
    /// 2^31 - 1 by 65535 by 65535 blocks, blocks of 1024 by 1024 by 64 and at most 1024 threads, warps of 32, 255 registers of a thread. Of shared memory a block
    /// takes 163 KiB at most on 8.0 and 227 on the others; more than 48 is asked for at launch. A thread loads 16 bytes at once. Private memory is the 512 KiB of local memory that a thread may have. First caches are
    /// those of a multiprocessor (192, 256, 256 KiB, the same table), second ones those of the whole: 40 MiB ("A100 Tensor Core GPU Architecture", 2020), 50 MiB ("H100
    /// Tensor Core GPU Architecture", 2022), 126 MiB (as reported of the B200; not checked
    /// against a document of NVIDIA).
    pub fn nvidia(name: &str) -> Option<Target> {
        let (cache_l1_bytes, cache_l2_bytes, shared_bytes, costs) = match name {
            "sm_80" => (192 << 10, 40 << 20, 163 << 10, Costs::a100()),
            "sm_90" => (256 << 10, 50 << 20, 227 << 10, Costs::gpu_model()),
            "sm_100" => (256 << 10, 126 << 20, 227 << 10, Costs::b200()),
            _ => return None,
        };
        Some(Target {
            device: format!("CUDA {name}"),
            language: Language::Ptx,
            triple: String::new(),
            processor: name.to_string(),
            features: String::new(),
            vector_bytes: 16,
            vector_registers: 255,
            cache_l1_bytes,
            cache_l2_bytes,
            cache_l3_bytes: cache_l2_bytes,
            scratch_bytes: 512 << 10,
            threads: 1,
            has_fma: true,
            has_masked_memory: true,
            has_half_arithmetic: false,
            tiles: Tiles::default(),
            costs,
            blocks: Some(Blocks {
                grid_max: [(1 << 31) - 1, 65_535, 65_535],
                block_max: [1024, 1024, 64],
                threads_max: 1024,
                lanes: 32,
                shared_bytes,
                matrices: true,
            }),
        })
    }

    /// The names that [`Target::nvidia`] knows, oldest first.
    pub const NVIDIA: [&str; 3] = ["sm_80", "sm_90", "sm_100"];

    /// The number in the name of an NVIDIA GPU's architecture: 90 of `sm_90` and `sm_90a`. None of other machines.
    pub fn compute_capability(&self) -> Option<u32> {
        let number = self.processor.strip_prefix("sm_")?;
        number.trim_end_matches(|letter: char| letter.is_ascii_lowercase()).parse().ok()
    }

    /// Whether it has what only some machines have.
    pub fn has(&self, feature: Feature) -> bool {
        match feature {
            Feature::Grid | Feature::Block | Feature::Barrier => self.blocks.is_some(),
            Feature::Lanes => self.blocks.as_ref().is_some_and(|blocks| blocks.lanes > 1),
            Feature::Matrices => self.blocks.as_ref().is_some_and(|blocks| blocks.matrices),
            Feature::Dot(kind) => self.takes_dot(kind),
            Feature::Tiles(kind) => self.tiles.has(kind),
            Feature::SharedMemory => self.blocks.as_ref().is_some_and(|blocks| blocks.shared_bytes > 0),
        }
    }

    /// Bytes of the sums that one instruction for dot products has on some CPU: whole registers.
    pub const DOT_BYTES: [usize; 3] = [16, 32, 64];

    /// Whether one of its instructions multiplies and adds up such numbers.
    pub fn takes_dot(&self, kind: DotKind) -> bool {
        self.costs.dots.has(kind)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn architectures_are_known_by_their_names() {
        for name in Target::NVIDIA {
            let target = Target::nvidia(name).expect("it is among the names");
            assert_eq!((target.processor.as_str(), target.language), (name, Language::Ptx));
            assert_eq!(target.compute_capability().map(|number| format!("sm_{number}")).as_deref(), Some(name));
        }
        assert_eq!(Target::nvidia("sm_1"), None);
        assert_eq!(Target::test_avx512().compute_capability(), None);
        for name in Target::CPUS.iter().chain(&Target::NVIDIA) {
            assert_eq!(Target::named(name).map(|target| target.processor).as_deref(), Some(*name));
        }
        let special = Target { processor: "sm_90a".to_string(), ..Target::gpu_model() };
        assert_eq!(special.compute_capability(), Some(90));
    }
}
