//! What things cost on a machine, as scheduling and the choice of opts weigh them: each number with its unit, and where it comes from.
//!
//! The numbers are rough on purpose: a decision that a factor of two in them would turn is one that hardly matters. They are those of a kind of machine, not
//! of the one that runs: the same program gives the same kernels on all CPUs. They are part of a target, and so of the keys of schedules and kernels. What
//! only bounds a compiler's work, or is a preference on every machine, is no cost and stands where it is used.

use crate::ir::DotKind;

/// What one instruction of a machine multiplies and adds up for each lane ([`crate::ir::dots`]): narrow factors cost half or a quarter there, and less memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Dots {
    /// `bf16` by `bf16`.
    pub bf16: bool,
    /// `i16` by `i16`.
    pub i16: bool,
    /// `u8` by `i8`.
    pub bytes: bool,
}

impl Dots {
    /// Whether there is an instruction for that kind.
    pub fn has(self, kind: DotKind) -> bool {
        match kind {
            DotKind::Bf16 => self.bf16,
            DotKind::I16 => self.i16,
            DotKind::Bytes => self.bytes,
        }
    }
}

/// The costs of a kind of machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Costs {
    /// Nanoseconds of one kernel more: launch, a wake-up of threads, cold loops.
    pub launch_ns: u32,
    /// Bytes between memory and cores in a nanosecond.
    pub memory_bytes_per_ns: u32,
    /// Bytes between the last cache, which all cores share, and registers in a nanosecond.
    pub shared_cache_bytes_per_ns: u32,
    /// Bytes between scratch memory and registers in a nanosecond.
    pub scratch_bytes_per_ns: u32,
    /// Simple ops on 4-byte elements in a nanosecond, of all threads.
    pub ops_per_ns: u32,
    /// Instructions that groups of lanes begin in a nanosecond, all of them; 0 where there are no such groups.
    pub instructions_per_ns: u32,
    /// Products of half floats that are multiplied as matrices and added up in a nanosecond, of all threads; 0 where there is no such instruction.
    pub matrix_ops_per_ns: u32,
    /// Terms that a contraction with a kernel of its own sums in a nanosecond, of all threads.
    pub terms_per_ns: u32,
    /// Threads for which there should be work.
    pub threads: u32,
    /// Cores or multiprocessors, of which each is idle without rows of its own.
    pub cores: u32,
    /// Lanes of 4-byte elements of a vector.
    pub vector_lanes: u32,
    /// Rows of a contraction that share what they read, in a register tile.
    pub rows_shared: u32,
    /// Bytes of scratch memory that a kernel may keep values in.
    pub scratch_bytes: u32,
    /// Bytes that may be read again for each row of a kernel at no price: they stay in the cache of one core.
    pub working_set_bytes: u32,
    /// Results of fewer bytes are still in a cache that all cores share when the next kernel reads them.
    pub cached_bytes: u32,
    /// Values of more bytes are in no cache when they are read, and in memory that the system may have to provide first.
    pub large_bytes: u32,
    /// Times that the bytes of such a value move besides when it is written.
    pub large_writes: u32,
    /// Below so many results, a reduction has too little parallel work by itself.
    pub few_results: u32,
    /// Partial results that a reduction cut in two stages should have.
    pub partial_results: u32,
    /// Inputs from which on a reduction is worth two kernels.
    pub inputs_of_two_stages: u32,
    /// Two contractions of more than so many ops each, neither of which feeds the other, are two kernels: together, their rows share no registers, and operands are copied for each row. Measured on
    /// products of 4 to 32 rows with one x: 8 x 32 x 32 take 5.0 us in one kernel and 4.2 in two, 32 x 64 x 64 60 and 10.
    pub merged_contraction_ops: u32,
    /// A contraction of more than so many ops does not follow the order of the loops of another kernel.
    pub small_contraction_ops: u32,
    /// Two contractions of more than so many ops each want all registers for themselves, even if one feeds the other.
    pub big_contraction_ops: u32,
    /// Least element operations in a kernel for a second thread to be worth its start.
    pub second_thread_ops: u32,
    /// Most bytes of results of reductions that are kept for each of a tile's rows: they stay in the first cache.
    pub kept_bytes: u32,
    /// Most bytes that loads are packed in: they stay in the nearest caches. Of the machine, as `dots` are: choices of opts alone look at it.
    pub packed_bytes: u32,
    /// The dot products that it has: of the machine, as programs widen narrow factors where it has none.
    pub dots: Dots,
}

impl Costs {
    /// Those of CPUs: a nominal machine of two cores with wide vectors, for which kernels of up to 16 threads are made.
    ///
    /// Measured on such machines (AVX-512, 2 cores: `warpweft bench ceilings` and the cases of `warpweft bench`), and rounded: memory moved 27 GB/s of which a
    /// kernel among others gets some 10, a launch with a wake-up of threads took 1 to 2 us, the last cache gave 60 GB/s to two cores, a product of
    /// matrices ran at 100 GFLOP/s. A reduction has work for 16 threads with 4 results for each, and partial results of 64 for each balance it. Results of up to 4 MiB were read at the last cache's rate. A written value above 64 MiB moves three times: its lines are fetched before, and pages are filled with zeros. Starting a
    /// second thread is worth 20 us of work.
    pub fn cpu() -> Costs {
        Costs {
            launch_ns: 1500,
            memory_bytes_per_ns: 10,
            shared_cache_bytes_per_ns: 60,
            scratch_bytes_per_ns: 64,
            ops_per_ns: 16,
            instructions_per_ns: 0,
            matrix_ops_per_ns: 0,
            terms_per_ns: 50,
            threads: 16,
            cores: 2,
            vector_lanes: 16,
            rows_shared: 4,
            scratch_bytes: 1 << 19,
            working_set_bytes: 1 << 18,
            cached_bytes: 1 << 22,
            large_bytes: 1 << 26,
            large_writes: 2,
            few_results: 4 * 16,
            partial_results: 64 * 16,
            inputs_of_two_stages: 1 << 18,
            merged_contraction_ops: 1 << 12,
            small_contraction_ops: 1 << 17,
            big_contraction_ops: 1 << 22,
            second_thread_ops: 1 << 16,
            kept_bytes: 32 << 10,
            packed_bytes: 256 << 10,
            // Every x86-64 has `pmaddwd`.
            dots: Dots { i16: true, ..Dots::default() },
        }
    }

    /// Those of a GPU by its numbers alone (`Target::gpu_model`). On an H100, kernels that memory bounds took 1.1 to 2.5 times as long as these say, launches included, and those of a few megabytes longer.
    ///
    /// Of the H100 SXM, from its data sheet: 3.35 TB/s of memory, 67 TFLOP/s of f32, a multiply-add counted as two, and 989 TFLOP/s of dense half floats, on 132 multiprocessors. From the CUDA C++
    /// Programming Guide (compute capability 9.0): 2048 threads of a multiprocessor, four schedulers of it that each begin an instruction of a warp in a clock (at the 1.98 GHz of those 67 TFLOP/s), 32 banks of 4 bytes of shared memory a clock, which at 1.7 GHz are 28 TB/s
    /// of all multiprocessors, 48 KiB of it for a block, loads of 16 bytes. A block reduces one result, so one for each multiprocessor is few, and eight
    /// balance. The second cache is taken for twice as fast as memory, a launch for 2 us. Contractions
    /// and sizes that are about registers and threads of a CPU are as there, for want of measurements.
    pub fn gpu_model() -> Costs {
        Costs {
            launch_ns: 2000,
            memory_bytes_per_ns: 3350,
            shared_cache_bytes_per_ns: 6700,
            scratch_bytes_per_ns: 28_000,
            ops_per_ns: 33_500,
            instructions_per_ns: 1047,
            matrix_ops_per_ns: 494_500,
            terms_per_ns: 33_500,
            threads: 132 * 2048,
            cores: 132,
            vector_lanes: 4,
            few_results: 132,
            partial_results: 8 * 132,
            scratch_bytes: 48 << 10,
            // A launch lasts as long as many of these.
            merged_contraction_ops: 1 << 17,
            // There is no page to be filled, and no line is fetched to be written.
            large_writes: 0,
            dots: Dots::default(),
            ..Costs::cpu()
        }
    }

    /// Those of the A100 with 80 GB, from its data sheet: 2.04 TB/s of memory, 19.5 TFLOP/s of f32, 312 of dense half floats, 108 multiprocessors at 1.41 GHz, which multiply and add 64 floats in a clock, half as many as those of the H100, and begin as many instructions; else as of the H100. None has
    /// been measured by this project.
    pub fn a100() -> Costs {
        Costs {
            memory_bytes_per_ns: 2039,
            shared_cache_bytes_per_ns: 4078,
            scratch_bytes_per_ns: 19_500,
            ops_per_ns: 9750,
            instructions_per_ns: 609,
            matrix_ops_per_ns: 156_000,
            terms_per_ns: 9750,
            threads: 108 * 2048,
            cores: 108,
            few_results: 108,
            partial_results: 8 * 108,
            ..Costs::gpu_model()
        }
    }

    /// Those of one B200, as reported of it: 7.7 TB/s of memory and 75 TFLOP/s of f32, 2.25 PFLOP/s of dense half floats (an eighth of an HGX board's), 148 multiprocessors at 1.9 GHz; else as of the
    /// H100. None has been measured by this project.
    pub fn b200() -> Costs {
        Costs {
            memory_bytes_per_ns: 7700,
            shared_cache_bytes_per_ns: 15_400,
            scratch_bytes_per_ns: 36_000,
            ops_per_ns: 37_500,
            instructions_per_ns: 1172,
            matrix_ops_per_ns: 1_125_000,
            terms_per_ns: 37_500,
            threads: 148 * 2048,
            cores: 148,
            few_results: 148,
            partial_results: 8 * 148,
            ..Costs::gpu_model()
        }
    }
}
