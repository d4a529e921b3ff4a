//! What this machine can do: the [`Target`] of the host.
//!
//! The processor, its features and the widths that follow are what it says itself (`processor`), cache
//! sizes come from the system's files, and the number of threads respects affinity and quotas of control groups.
//!
//! Always: the same machine gives the same target, so that objects in a cache are found again.

use std::path::Path;

use warpweft_compiler::target::{Costs, Dots, Language, Target};

use super::{processor, tiles};

/// Describes the host. `threads` bounds its threads; none means all that this process may use.
pub(super) fn host(threads: Option<usize>) -> Target {
    let available = std::thread::available_parallelism().map_or(1, usize::from);
    let (vector_bytes, vector_registers) = vector_unit();
    let cache =
        |level, fallback| cache_bytes(Path::new("/sys/devices/system/cpu/cpu0/cache"), level).unwrap_or(fallback);
    Target {
        device: "CPU".to_string(),
        language: Language::Llvm,
        triple: processor::TRIPLE.to_string(),
        processor: processor::name().to_string(),
        features: processor::feature_text(),
        vector_bytes,
        vector_registers,
        cache_l1_bytes: cache(1, 32 << 10),
        cache_l2_bytes: cache(2, 512 << 10),
        cache_l3_bytes: cache(3, 4 << 20),
        scratch_bytes: scratch_bytes(cache(2, 512 << 10)),
        threads: u32::try_from(threads.unwrap_or(available).max(1)).unwrap_or(u32::MAX),
        has_fma: has_fma(),
        has_masked_memory: vector_bytes == 64,
        has_half_arithmetic: vector_bytes == 64 && is_x86_feature_detected!("avx512fp16"),
        tiles: tiles::of_host(),
        costs: Costs { dots: dots(vector_bytes), packed_bytes: packed_bytes(cache(2, 512 << 10)), ..Costs::cpu() },
        blocks: None,
    }
}

/// Scratch that a kernel may have where the second cache has so many bytes: half of it, as what is read beside passes through the other half, but no less than the least that kernels count on.
fn scratch_bytes(second_cache: u64) -> u64 {
    (second_cache / 2).max(512 << 10)
}

/// Bytes of a copy that stays in a second cache of so many while what it is multiplied by and its results pass: a quarter.
fn packed_bytes(second_cache: u64) -> u32 {
    (second_cache / 4).clamp(128 << 10, 1 << 20) as u32
}

/// Bytes of a vector register and how many there are.
fn vector_unit() -> (u32, u32) {
    // Masks and 512-bit registers count only with the instructions for bytes and for shorter vectors: all but the first
    // processors with AVX-512 have them.
    if is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vl")
    {
        (64, 32)
    } else if is_x86_feature_detected!("avx2") {
        (32, 16)
    } else {
        (16, 16)
    }
}

fn has_fma() -> bool {
    is_x86_feature_detected!("fma")
}

/// The dot products of a machine whose kernels have vectors of so many bytes. `pmaddwd` is as old as SSE2. Bytes are AVX-512's where vectors are, as code generators choose
/// between the two encodings by that alone.
fn dots(vector_bytes: u32) -> Dots {
    let is_wide = vector_bytes == 64;
    let bytes = if is_wide { is_x86_feature_detected!("avx512vnni") } else { is_x86_feature_detected!("avxvnni") };
    Dots { bf16: is_wide && is_x86_feature_detected!("avx512bf16"), i16: true, bytes }
}

/// Size of the data or unified cache of a level, from the files that Linux keeps: `index2/level`, `type` and `size`.
fn cache_bytes(folder: &Path, level: u32) -> Option<u64> {
    let read = |index: u32, name: &str| std::fs::read_to_string(folder.join(format!("index{index}")).join(name)).ok();
    let index = (0..8).find(|&index| {
        read(index, "level").is_some_and(|text| text.trim().parse() == Ok(level))
            && read(index, "type").is_some_and(|text| text.trim() != "Instruction")
    })?;
    parse_size(read(index, "size")?.trim())
}

/// `48K`, `2M`, `32768`.
fn parse_size(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(['K', 'M', 'G']);
    let unit: u64 = match &text[digits.len()..] {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit).filter(|&bytes| bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_their_units() {
        assert_eq!(parse_size("48K"), Some(48 << 10));
        assert_eq!(parse_size("2M"), Some(2 << 20));
        assert_eq!(parse_size("123"), Some(123));
        for wrong in ["", "K", "0", "4KK", "-1K", "99999999999G"] {
            assert_eq!(parse_size(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn scratch_and_copies_are_parts_of_the_second_cache() {
        assert_eq!([256 << 10, 1 << 20, 2 << 20].map(scratch_bytes), [512 << 10, 512 << 10, 1 << 20]);
        assert_eq!(
            [256 << 10, 1 << 20, 2 << 20, 64 << 20].map(packed_bytes),
            [128 << 10, 256 << 10, 512 << 10, 1 << 20]
        );
    }

    #[test]
    fn the_host_is_a_machine_one_can_compile_for() {
        let target = host(None);
        assert_eq!(target, host(None));
        assert!(target.threads >= 1 && host(Some(3)).threads == 3 && host(Some(0)).threads == 1);
        assert!(target.vector_bytes.is_power_of_two() && target.vector_bytes >= 16);
        assert!(target.cache_l1_bytes >= 4 << 10 && target.cache_l2_bytes >= target.cache_l1_bytes);
        assert!(!target.triple.is_empty() && !target.processor.is_empty());
    }
}
