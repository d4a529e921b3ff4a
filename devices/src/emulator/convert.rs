//! `cvt`: between integers, between floats, and from one to the other, in all rounding modes.
//!
//! A float becomes the nearest integer of those that the type has. NaN becomes 0, but the least number of `s64`, and the number of that form of `u64`, and so it is of
//! every integer type where the float is an `f64`. An integer becomes an integer of its low bits, extended by the sign of the type that it is read as.
//!
//! A conversion is data: it runs through one function, which is not the fastest way.
//!
//! Tested with the instructions (`tests/values.rs`).

use super::float::{format_of, of_single, single};
use super::rounding::{F32, Format, Mode, TF32, round, sum_to_odd, value_of};
use super::scalar::{Class, Type, low, signed};

/// A conversion that the emulator knows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Conversion {
    pub(super) to: Type,
    pub(super) from: Type,
    rounding: Rounding,
    /// Bits of the register that the result stands in.
    pub(super) register_bits: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rounding {
    None,
    /// To a float.
    Float(Mode),
    /// To a whole number, as an integer or as a float.
    Integer(Mode),
}

/// The conversion of `cvt.rn.f32.s32`, by the parts of its name after `cvt`; none where there is no such one.
pub(super) fn conversion(parts: &[&str]) -> Option<Conversion> {
    let (rounding, to, from) = match parts {
        [to, from] => (Rounding::None, to, from),
        [rounding, to, from] => (named(rounding)?, to, from),
        _ => return None,
    };
    let (to, from) = (Type::named(to)?, Type::named(from)?);
    let loses = match (to.is_float() || to.class == Class::Tensor, from.is_float()) {
        _ if to.lanes > 1 || from.lanes > 1 => return None,
        (false, false) if to.is_integer() && from.is_integer() => {
            return (rounding == Rounding::None).then_some(Conversion { to, from, rounding, register_bits: to.bits });
        }
        (false, true) if to.is_integer() => {
            return matches!(rounding, Rounding::Integer(_)).then(|| Conversion {
                to,
                from,
                rounding,
                register_bits: to.bits,
            });
        }
        (true, false) if from.is_integer() => true,
        (true, true) => to.class != from.class || to.bits < from.bits,
        _ => return None,
    };
    // `f16` to `f32` and the like are exact, and take no mode; a float of its own type may become a whole number.
    let is_exact = from.is_float() && to.class == Class::Float && (to.bits > from.bits);
    let is_right = match rounding {
        Rounding::None => is_exact || to == from,
        Rounding::Float(Mode::NearestAway) => to.class == Class::Tensor,
        Rounding::Float(_) => loses && !is_exact,
        Rounding::Integer(_) => to == from,
    };
    is_right.then_some(Conversion { to, from, rounding, register_bits: to.width() })
}

fn named(rounding: &str) -> Option<Rounding> {
    Some(match rounding {
        "rn" => Rounding::Float(Mode::NearestEven),
        "rna" => Rounding::Float(Mode::NearestAway),
        "rz" => Rounding::Float(Mode::Zero),
        "rm" => Rounding::Float(Mode::Down),
        "rp" => Rounding::Float(Mode::Up),
        "rni" => Rounding::Integer(Mode::NearestEven),
        "rzi" => Rounding::Integer(Mode::Zero),
        "rmi" => Rounding::Integer(Mode::Down),
        "rpi" => Rounding::Integer(Mode::Up),
        _ => return None,
    })
}

impl Conversion {
    /// The result in its register.
    pub(super) fn of(&self, bits: u64) -> u64 {
        let Conversion { to, from, .. } = *self;
        let result = match (to.is_integer(), from.is_integer()) {
            (true, true) => integer(bits, from),
            (false, true) => return self.float_of_integer(bits),
            (true, false) => return self.integer_of_float(float(bits, from)),
            (false, false) => return self.float_of_float(bits),
        };
        self.extended(result as u64)
    }

    /// The low bits, extended to the register by the sign of the type.
    fn extended(&self, value: u64) -> u64 {
        match self.to.class {
            Class::Signed => low(signed(value, self.to.bits) as u64, self.register_bits),
            _ => low(value, self.to.bits),
        }
    }

    fn mode(&self) -> Mode {
        match self.rounding {
            Rounding::Float(mode) | Rounding::Integer(mode) => mode,
            Rounding::None => Mode::NearestEven,
        }
    }

    fn float_of_integer(&self, bits: u64) -> u64 {
        let value = integer(bits, self.from);
        let mode = self.mode();
        if self.to.bits == 64 {
            let nearest = value as f64;
            let error = value - nearest as i128;
            return corrected(nearest, error, mode).to_bits();
        }
        // In parts that an `f64` holds, so that the sum's last bit says whether there was more.
        let high = value >> 32 << 32;
        let exact = sum_to_odd(high as f64, (value - high) as f64);
        if exact == 0.0 {
            return 0;
        }
        round(exact, format(self.to), mode)
    }

    fn integer_of_float(&self, value: f64) -> u64 {
        let bits = self.to.bits;
        if value.is_nan() {
            let is_wide = bits == 64 || self.from.bits == 64;
            return if is_wide { low(1 << (bits - 1), bits) } else { 0 };
        }
        let whole = whole(value, self.mode());
        let is_signed = self.to.class == Class::Signed;
        let (least, most) = match is_signed {
            true => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
            false => (0, (1i128 << bits) - 1),
        };
        self.extended((whole as i128).clamp(least, most) as u64)
    }

    fn float_of_float(&self, bits: u64) -> u64 {
        let value = float(bits, self.from);
        if let Rounding::Integer(mode) = self.rounding {
            let whole = whole(value, mode);
            return if self.to.bits == 64 { nan_or_bits(whole) } else { round(whole, format(self.to), Mode::Zero) };
        }
        match self.to.bits {
            64 => nan_or_bits(value),
            32 if self.to.class == Class::Tensor => round(value, TF32, self.mode()) << 13,
            32 if self.mode() == Mode::NearestEven => of_single(value as f32),
            _ => round(value, format(self.to), self.mode()),
        }
    }
}

fn nan_or_bits(value: f64) -> u64 {
    if value.is_nan() { 0x7fff_ffff_ffff_ffff } else { value.to_bits() }
}

/// A number rounded to the nearest, moved to where the mode says, given what it lacks.
fn corrected(nearest: f64, error: i128, mode: Mode) -> f64 {
    let up = |value: f64| {
        if value >= 0.0 { f64::from_bits(value.to_bits() + 1) } else { f64::from_bits(value.to_bits() - 1) }
    };
    let down = |value: f64| -up(-value);
    match mode {
        Mode::Up if error > 0 => up(nearest),
        Mode::Down if error < 0 => down(nearest),
        Mode::Zero if nearest > 0.0 && error < 0 => down(nearest),
        Mode::Zero if nearest < 0.0 && error > 0 => up(nearest),
        _ => nearest,
    }
}

fn whole(value: f64, mode: Mode) -> f64 {
    match mode {
        Mode::NearestEven | Mode::NearestAway => value.round_ties_even(),
        Mode::Zero => value.trunc(),
        Mode::Down => value.floor(),
        Mode::Up => value.ceil(),
    }
}

fn integer(bits: u64, from: Type) -> i128 {
    match from.class {
        Class::Signed => i128::from(signed(bits, from.bits)),
        _ => i128::from(low(bits, from.bits)),
    }
}

fn float(bits: u64, from: Type) -> f64 {
    match (format_of(from), from.bits) {
        (Some(format), _) => value_of(bits & 0xffff, format),
        (None, 32) => f64::from(single(bits)),
        _ => f64::from_bits(bits),
    }
}

fn format(to: Type) -> Format {
    format_of(to).unwrap_or(F32)
}
