//! The functions outside of a kernel that its code may call, by name: what LLVM emits where a target has no instruction.
//!
//! Copying and filling memory, the remainders and elementary functions of C's mathematics library, and conversions of half
//! floats for processors that have none. A kernel that calls anything else is refused by the loader.
//!
//! Tested by kernels in `cpu/tests` and at the end of this file.
#![allow(unsafe_code, reason = "names functions of the C library")]

use std::ffi::{c_int, c_void};

macro_rules! external_functions {
    ($($name:ident($($argument:ty),*) -> $result:ty;)*) => {
        #[link(name = "m")]
        unsafe extern "C" {
            $(fn $name($(_: $argument),*) -> $result;)*
        }

        fn in_c_library(name: &str) -> Option<usize> {
            match name {
                $(stringify!($name) => Some($name as *const () as usize),)*
                _ => None,
            }
        }

        #[cfg(test)]
        const IN_C_LIBRARY: &[&str] = &[$(stringify!($name)),*];
    };
}

external_functions! {
    memcpy(*mut c_void, *const c_void, usize) -> *mut c_void;
    memmove(*mut c_void, *const c_void, usize) -> *mut c_void;
    memset(*mut c_void, c_int, usize) -> *mut c_void;
    memcmp(*const c_void, *const c_void, usize) -> c_int;
    fmod(f64, f64) -> f64;      fmodf(f32, f32) -> f32;
    pow(f64, f64) -> f64;       powf(f32, f32) -> f32;
    exp(f64) -> f64;            expf(f32) -> f32;
    exp2(f64) -> f64;           exp2f(f32) -> f32;
    log(f64) -> f64;            logf(f32) -> f32;
    log2(f64) -> f64;           log2f(f32) -> f32;
    log10(f64) -> f64;          log10f(f32) -> f32;
    sin(f64) -> f64;            sinf(f32) -> f32;
    cos(f64) -> f64;            cosf(f32) -> f32;
    tan(f64) -> f64;            tanf(f32) -> f32;
    tanh(f64) -> f64;           tanhf(f32) -> f32;
    erf(f64) -> f64;            erff(f32) -> f32;
    sqrt(f64) -> f64;           sqrtf(f32) -> f32;
    fma(f64, f64, f64) -> f64;  fmaf(f32, f32, f32) -> f32;
    floor(f64) -> f64;          floorf(f32) -> f32;
    ceil(f64) -> f64;           ceilf(f32) -> f32;
    trunc(f64) -> f64;          truncf(f32) -> f32;
    round(f64) -> f64;          roundf(f32) -> f32;
    roundeven(f64) -> f64;      roundevenf(f32) -> f32;
    rint(f64) -> f64;           rintf(f32) -> f32;
    nearbyint(f64) -> f64;      nearbyintf(f32) -> f32;
    fmin(f64, f64) -> f64;      fminf(f32, f32) -> f32;
    fmax(f64, f64) -> f64;      fmaxf(f32, f32) -> f32;
    ldexp(f64, c_int) -> f64;   ldexpf(f32, c_int) -> f32;
}

/// Address of the function that kernels know by `name`, if they may call it.
pub(super) fn address_of(name: &str) -> Option<usize> {
    in_c_library(name).or_else(|| half_conversion(name))
}

/// Conversions of half floats. They pass a half in the low 16 bits of a vector register, where Rust sees the low bits of an
/// `f32`.
fn half_conversion(name: &str) -> Option<usize> {
    match name {
        "__extendhfsf2" => Some(extend_f16 as *const () as usize),
        "__truncsfhf2" => Some(truncate_to_f16 as *const () as usize),
        "__truncdfhf2" => Some(truncate_f64_to_f16 as *const () as usize),
        "__truncsfbf2" => Some(truncate_to_bf16 as *const () as usize),
        "__truncdfbf2" => Some(truncate_f64_to_bf16 as *const () as usize),
        _ => None,
    }
}

/// The low half of a register, as bits.
fn low_bits(register: f32) -> u16 {
    (register.to_bits() & 0xffff) as u16
}

/// A register whose low half holds these bits.
fn in_register(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits))
}

extern "C" fn extend_f16(value: f32) -> f32 {
    half::f16::from_bits(low_bits(value)).to_f32()
}

extern "C" fn truncate_to_f16(value: f32) -> f32 {
    in_register(half::f16::from_f32(value).to_bits())
}

extern "C" fn truncate_f64_to_f16(value: f64) -> f32 {
    in_register(half::f16::from_f64(value).to_bits())
}

extern "C" fn truncate_to_bf16(value: f32) -> f32 {
    in_register(half::bf16::from_f32(value).to_bits())
}

extern "C" fn truncate_f64_to_bf16(value: f64) -> f32 {
    in_register(half::bf16::from_f64(value).to_bits())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_its_own_address_and_others_none() {
        let mut addresses: Vec<usize> = IN_C_LIBRARY.iter().map(|name| address_of(name).unwrap()).collect();
        addresses.sort_unstable();
        assert!(addresses[0] != 0);
        assert!(address_of("__truncsfbf2").is_some());
        assert_eq!(address_of("system"), None);
        assert_eq!(address_of(""), None);
    }

    #[test]
    fn halves_convert_as_ieee_says() {
        assert_eq!(extend_f16(in_register(0x3c00)), 1.0);
        assert_eq!(low_bits(truncate_to_f16(65520.0)), 0x7c00); // rounds past the largest half, to infinity
        assert_eq!(low_bits(truncate_f64_to_f16(1.0 + 2f64.powi(-11))), 0x3c00); // a tie, to even
        assert_eq!(low_bits(truncate_to_bf16(1.0)), 0x3f80);
        assert_eq!(low_bits(truncate_f64_to_bf16(-2.0)), 0xc000);
    }
}
