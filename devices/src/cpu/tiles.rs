//! Whether this machine multiplies tiles (AMX), and whether this process may.
//!
//! The processor says what it has (`cpuid`, leaf 7), how large its registers are (leaf 0x1d), and which registers the system saves when it switches threads (`xgetbv`). They
//! are eight kilobytes a thread, so Linux gives them to processes that ask (`arch_prctl`, in the kernel's Documentation/arch/x86/xstate.rst). It is asked once; the answer holds
//! for all threads of the process and those of its children. It is no where a stack for signals was given that has no room for them.
//!
//! Always: the same answer within a process. Tested below; and where there are tiles, by all that multiplies them.
#![allow(unsafe_code, reason = "reads a register of the processor and asks the system")]

use std::arch::x86_64::{__cpuid, __cpuid_count, _xgetbv};
use std::sync::OnceLock;

use warpweft_compiler::ir::tiles::{REGISTERS, ROW_BYTES_MAX, ROWS_MAX};
use warpweft_compiler::target::Tiles;

/// What the processor says it has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Said {
    /// Tiles themselves: their registers, loads and stores.
    tile: bool,
    products: Tiles,
}

/// What leaf 7 says: `edx` of its first part, `eax` of its second.
fn said(edx: u32, second_eax: u32) -> Said {
    let has = |word: u32, bit: u32| word >> bit & 1 == 1;
    let products = Tiles { bf16: has(edx, 22), bytes: has(edx, 25), f16: has(second_eax, 21) };
    Said { tile: has(edx, 24), products }
}

/// Whether registers are as large as the compiler takes them for, by what leaf 0x1d says of the first palette.
fn are_large_enough(ebx: u32, ecx: u32) -> bool {
    let (row_bytes, registers, rows) = (ebx & 0xffff, ebx >> 16, ecx & 0xffff);
    row_bytes as usize >= ROW_BYTES_MAX && registers as usize >= REGISTERS && rows as usize >= ROWS_MAX
}

fn processor() -> Said {
    let most = __cpuid(0).eax;
    if most < 0x1d || !is_saved_by_the_system() {
        return Said::default();
    }
    let second = if __cpuid_count(7, 0).eax >= 1 { __cpuid_count(7, 1).eax } else { 0 };
    let found = said(__cpuid_count(7, 0).edx, second);
    let palette = __cpuid_count(0x1d, 1);
    if found.tile && are_large_enough(palette.ebx, palette.ecx) { found } else { Said::default() }
}

/// Whether the system keeps the registers of tiles for each thread: bits 17 and 18 of the processor's control register.
fn is_saved_by_the_system() -> bool {
    let has_xgetbv = __cpuid(1).ecx >> 27 & 1 == 1 && is_x86_feature_detected!("xsave");
    // SAFETY: the processor has the instruction, and the system has switched it on (OSXSAVE).
    has_xgetbv && unsafe { _xgetbv(0) } >> 17 & 3 == 3
}

/// Asks for the registers of tiles for this process.
#[cfg(target_os = "linux")]
fn may_use() -> bool {
    const ARCH_REQ_XCOMP_PERM: libc::c_long = 0x1023;
    const XFEATURE_XTILEDATA: libc::c_long = 18;
    // SAFETY: `arch_prctl` with this request takes two numbers, and reads or writes no memory of ours. What it changes is how much the system saves of a thread that comes to use tiles.
    unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0 }
}

/// Other systems were not looked into.
#[cfg(not(target_os = "linux"))]
fn may_use() -> bool {
    false
}

/// What of tiles kernels on this machine may multiply.
pub(super) fn of_host() -> Tiles {
    static ANSWER: OnceLock<Tiles> = OnceLock::new();
    *ANSWER.get_or_init(|| {
        let found = processor();
        if found.tile && may_use() { found.products } else { Tiles::default() }
    })
}

/// LLVM's names of these features, and whether processor and system have them.
pub(super) fn features() -> [(&'static str, bool); 4] {
    let Said { tile, products } = processor();
    [("amx-bf16", products.bf16), ("amx-fp16", products.f16), ("amx-int8", products.bytes), ("amx-tile", tile)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_those_of_the_manual() {
        let all = Tiles { bf16: true, f16: true, bytes: true };
        assert_eq!(said(1 << 22 | 1 << 24 | 1 << 25, 1 << 21), Said { tile: true, products: all });
        assert_eq!(said(1 << 24, 0), Said { tile: true, products: Tiles::default() });
        assert_eq!(said(!(1 << 22 | 1 << 24 | 1 << 25), !(1 << 21)), Said::default());
        // Sapphire Rapids: 8 registers of 16 rows of 64 bytes.
        assert!(are_large_enough(8 << 16 | 64, 16));
        assert!(!are_large_enough(8 << 16 | 32, 16) && !are_large_enough(4 << 16 | 64, 16));
        assert!(!are_large_enough(8 << 16 | 64, 8));
    }

    #[test]
    fn what_may_be_used_is_there() {
        let (tiles, features) = (of_host(), features());
        assert_eq!(tiles, of_host());
        let is_there = |name: &str| features.iter().any(|(feature, is_there)| *feature == name && *is_there);
        assert!(!tiles.bf16 || is_there("amx-bf16") && is_there("amx-tile"));
        assert!(!tiles.bytes || is_there("amx-int8") && is_there("amx-tile"));
        if tiles == Tiles::default() {
            println!("skipped: no AMX");
        }
    }
}
