//! Which processor this is and what it can do, in LLVM's words: asked of the processor, so that LLVM need not be there for it.
//!
//! Features decide which instructions are used; each that kernels could profit from is named, with `+` or `-`, so that a virtual machine
//! that hides some gets code without them. The name decides only how instructions are chosen and ordered among those; a
//! processor that is not in the list goes by the name of its level.
//!
//! Always: the same machine gives the same words, since they are part of the keys of stored objects; LLVM knows all of them
//! (it prints what it does not know). Tested at the end of this file, against what LLVM says of the host.

/// Objects are for this, whatever the system is: the loader takes ELF, and kernels call no system.
pub(super) const TRIPLE: &str = "x86_64-pc-linux-gnu";

macro_rules! features {
    ($($llvm:literal $detected:tt)*) => {
        /// LLVM's names of features, and whether this processor and system have them.
        fn features() -> Vec<(&'static str, bool)> {
            let mut all = vec![$(($llvm, std::arch::is_x86_feature_detected!($detected))),*];
            all.extend(super::tiles::features());
            all
        }
    };
}

// In the order of their names; those of tiles come behind.
features! {
    "adx" "adx"                     "aes" "aes"                         "avx" "avx"
    "avx2" "avx2"                   "avx512bf16" "avx512bf16"           "avx512bitalg" "avx512bitalg"
    "avx512bw" "avx512bw"           "avx512cd" "avx512cd"               "avx512dq" "avx512dq"
    "avx512f" "avx512f"             "avx512fp16" "avx512fp16"           "avx512ifma" "avx512ifma"
    "avx512vbmi" "avx512vbmi"       "avx512vbmi2" "avx512vbmi2"         "avx512vl" "avx512vl"
    "avx512vnni" "avx512vnni"       "avx512vp2intersect" "avx512vp2intersect"
    "avx512vpopcntdq" "avx512vpopcntdq"
    "avxifma" "avxifma"             "avxneconvert" "avxneconvert"       "avxvnni" "avxvnni"
    "avxvnniint16" "avxvnniint16"   "avxvnniint8" "avxvnniint8"         "bmi" "bmi1"
    "bmi2" "bmi2"                   "cx16" "cmpxchg16b"                 "f16c" "f16c"
    "fma" "fma"                     "gfni" "gfni"                       "lzcnt" "lzcnt"
    "movbe" "movbe"                 "pclmul" "pclmulqdq"                "popcnt" "popcnt"
    "rdrnd" "rdrand"                "rdseed" "rdseed"                   "sha" "sha"
    "sse3" "sse3"                   "sse4.1" "sse4.1"                   "sse4.2" "sse4.2"
    "sse4a" "sse4a"                 "ssse3" "ssse3"                     "vaes" "vaes"
    "vpclmulqdq" "vpclmulqdq"       "xsave" "xsave"
}

/// The features as LLVM takes them: `+avx,-avx2`.
pub(super) fn feature_text() -> String {
    let words = features().into_iter().map(|(name, is_there)| format!("{}{name}", if is_there { '+' } else { '-' }));
    words.collect::<Vec<_>>().join(",")
}

/// LLVM's name for this processor.
pub(super) fn name() -> &'static str {
    let (vendor, family, model) = identity();
    known(&vendor, family, model).unwrap_or_else(level)
}

/// Name of the maker, family and model, by the first two leaves of `cpuid`.
fn identity() -> (String, u32, u32) {
    let leaf = std::arch::x86_64::__cpuid;
    let who = leaf(0);
    let vendor: Vec<u8> = [who.ebx, who.edx, who.ecx].into_iter().flat_map(u32::to_le_bytes).collect();
    let signature = leaf(1).eax;
    let base = signature >> 8 & 0xf;
    let family = if base == 0xf { base + (signature >> 20 & 0xff) } else { base };
    let extends = base == 0xf || base == 6;
    let model = (signature >> 4 & 0xf) + if extends { (signature >> 16 & 0xf) << 4 } else { 0 };
    (String::from_utf8_lossy(&vendor).into_owned(), family, model)
}

/// Processors with AVX that are told apart, by the numbers that their makers publish.
fn known(vendor: &str, family: u32, model: u32) -> Option<&'static str> {
    let has = |name: &str| features().contains(&(name, true));
    let name = match (vendor, family, model) {
        ("GenuineIntel", 6, model) => match model {
            0x2a | 0x2d => "sandybridge",
            0x3a | 0x3e => "ivybridge",
            0x3c | 0x3f | 0x45 | 0x46 => "haswell",
            0x3d | 0x47 | 0x4f | 0x56 => "broadwell",
            0x4e | 0x5e | 0x8e | 0x9e | 0xa5 | 0xa6 => "skylake",
            0x55 if has("avx512bf16") => "cooperlake",
            0x55 if has("avx512vnni") => "cascadelake",
            0x55 => "skylake-avx512",
            0x7d | 0x7e => "icelake-client",
            0x6a | 0x6c => "icelake-server",
            0x8c | 0x8d => "tigerlake",
            0xa7 => "rocketlake",
            0x97 | 0x9a | 0xaa | 0xac | 0xb7 | 0xba | 0xbe | 0xbf => "alderlake",
            0x8f => "sapphirerapids",
            0xcf => "emeraldrapids",
            0xad => "graniterapids",
            0xae => "graniterapids-d",
            0xaf => "sierraforest",
            0xbd | 0xc6 => "arrowlake-s",
            0xc5 => "arrowlake",
            _ => return None,
        },
        ("AuthenticAMD", 0x17, 0x30..) => "znver2",
        ("AuthenticAMD", 0x17, _) => "znver1",
        ("AuthenticAMD", 0x19, 0x10..=0x1f | 0x60..=0x7f | 0xa0..=0xaf) => "znver4",
        ("AuthenticAMD", 0x19, _) => "znver3",
        ("AuthenticAMD", 0x1a, _) => "znver5",
        _ => return None,
    };
    Some(name)
}

/// The highest level of x86-64 of which this processor has all that kernels use.
fn level() -> &'static str {
    let features = features();
    let has = |names: &[&str]| names.iter().all(|name| features.contains(&(*name, true)));
    let second = has(&["cx16", "popcnt", "sse3", "sse4.1", "sse4.2", "ssse3"]);
    let third = second && has(&["avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave"]);
    let fourth = third && has(&["avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"]);
    match (second, third, fourth) {
        (_, _, true) => "x86-64-v4",
        (_, true, _) => "x86-64-v3",
        (true, ..) => "x86-64-v2",
        _ => "x86-64",
    }
}

#[cfg(test)]
mod tests {
    use inkwell::targets::TargetMachine;

    use super::*;

    #[test]
    fn llvm_says_the_same_of_this_machine() {
        super::super::compile::initialize_llvm("this machine").unwrap();
        let all = TargetMachine::get_host_cpu_features().to_string();
        let theirs: Vec<&str> = all.split(',').collect();
        for word in feature_text().split(',') {
            assert!(theirs.contains(&word), "{word} is not among {all}");
        }
        let theirs = TargetMachine::get_host_cpu_name().to_string();
        assert!(name() == theirs || name() == level(), "{} is {theirs} to LLVM", name());
    }

    #[test]
    fn processors_are_told_apart_by_family_and_model() {
        assert_eq!(known("GenuineIntel", 6, 0x8f), Some("sapphirerapids"));
        assert_eq!(
            (known("AuthenticAMD", 0x19, 0x01), known("AuthenticAMD", 0x19, 0x61)),
            (Some("znver3"), Some("znver4"))
        );
        assert_eq!(
            (known("AuthenticAMD", 0x17, 0x71), known("AuthenticAMD", 0x17, 0x08)),
            (Some("znver2"), Some("znver1"))
        );
        assert_eq!((known("GenuineIntel", 6, 0xff), known("SomebodyElse", 6, 0x8f)), (None, None));
        assert!(level().starts_with("x86-64"));
    }
}
