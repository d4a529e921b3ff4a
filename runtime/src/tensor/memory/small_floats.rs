//! Floats of 8 bits and less: numbers rounded to those that such a type has, and their codes, one a byte of `u8`, which is how they are stored.
//!
//! A type has a sign (but one), exponent and mantissa bits, a bias, and its own meaning of the last codes: infinity, NaN, or numbers. Rounding goes to the
//! nearest, ties to even. What is beyond the largest becomes the largest (`saturate`), or else infinity, or NaN where the type has none.
//!
//! [`Tensor::decode_small`] and [`Tensor::encode_small`] are expressions, which become part of the kernel that uses them: so a product with weights
//! of such a type reads a byte for each and nothing else of them, and no tensor of `f32` is made. Kernels compute in `f32`: no machine here has arithmetic in these types.
//!
//! Always: [`SmallFloat::decode`] of [`SmallFloat::encode`] of a value that the type has is that value, and rounding such a value changes nothing.
//! Tested by tests/it/packed.rs against all codes and all half floats of PyTorch, and by the cases of the ONNX package (ml_dtypes' values).

use crate::DType;
use crate::tensor::Tensor;

/// A float type of 8 bits or less. The name says exponent and mantissa bits, and: FN, no infinities; UZ, no negative zero; U, no sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SmallFloat {
    /// 8 bits, largest 448.
    E4M3FN,
    /// 8 bits, largest 240.
    E4M3FNUZ,
    /// 8 bits, largest 57344, with infinities.
    E5M2,
    /// 8 bits, largest 57344.
    E5M2FNUZ,
    /// 4 bits, largest 6, all codes numbers.
    E2M1FN,
    /// 8 bits: powers of two from 2^-127 to 2^127.
    E8M0FNU,
}

/// What a type is made of.
struct Layout {
    bits: u32,
    mantissa: i32,
    bias: i32,
    largest: f32,
    has_infinity: bool,
    has_nan: bool,
    has_negative_zero: bool,
}

impl SmallFloat {
    fn layout(self) -> Layout {
        let layout = |mantissa, bias, largest| Layout {
            bits: 8,
            mantissa,
            bias,
            largest,
            has_infinity: false,
            has_nan: true,
            has_negative_zero: true,
        };
        match self {
            SmallFloat::E4M3FN => layout(3, 7, 448.0),
            SmallFloat::E4M3FNUZ => Layout { has_negative_zero: false, ..layout(3, 8, 240.0) },
            SmallFloat::E5M2 => Layout { has_infinity: true, ..layout(2, 15, 57344.0) },
            SmallFloat::E5M2FNUZ => Layout { has_negative_zero: false, ..layout(2, 16, 57344.0) },
            SmallFloat::E2M1FN => Layout { bits: 4, has_nan: false, ..layout(1, 1, 6.0) },
            SmallFloat::E8M0FNU => Layout { has_negative_zero: false, ..layout(0, 127, f32::from_bits(0x7f00_0000)) },
        }
    }

    /// Bits of a code.
    pub fn bits(self) -> u32 {
        self.layout().bits
    }

    /// The largest number.
    pub fn largest(self) -> f32 {
        self.layout().largest
    }

    /// The number of a code; bits above the type's are ignored.
    pub fn decode(self, code: u8) -> f32 {
        if self == SmallFloat::E8M0FNU {
            return match code {
                255 => f32::NAN,
                0 => f32::from_bits(0x0040_0000), // 2^-127 is subnormal
                exponent => f32::from_bits(u32::from(exponent) << 23),
            };
        }
        let Layout { bits, mantissa, bias, largest, has_infinity, has_nan, has_negative_zero } = self.layout();
        let (top, code) = (1u32 << (bits - 1), u32::from(code));
        let (negative, magnitude) = (code & top != 0, code & (top - 1));
        if !has_negative_zero && negative && magnitude == 0 {
            return f32::NAN;
        }
        let (exponent, fraction) = ((magnitude >> mantissa) as i32, (magnitude & ((1 << mantissa) - 1)) as f32);
        let unit = (1 << mantissa) as f32;
        let power = |exponent: i32| f32::from_bits(((exponent + 127) as u32) << 23);
        let value = match exponent {
            0 => fraction / unit * power(1 - bias),
            _ => (1.0 + fraction / unit) * power(exponent - bias),
        };
        let value = match value > largest {
            true if has_infinity && fraction == 0.0 => f32::INFINITY,
            true if has_nan => return f32::NAN,
            _ => value,
        };
        if negative { -value } else { value }
    }

    /// The code of a number that the type has; of NaN the first that stands for it. None for other numbers.
    pub fn encode(self, value: f32) -> Option<u8> {
        let same = |code: &u8| {
            let other = self.decode(*code);
            other.to_bits() == value.to_bits() || (other.is_nan() && value.is_nan())
        };
        let codes = 0..=((1u16 << self.bits()) - 1) as u8;
        codes.clone().find(same).or_else(|| codes.into_iter().find(|code| self.decode(*code) == value))
    }
}

impl Tensor {
    /// Each number rounded to the nearest one that a small float type has, ties to even; `f32`. What is beyond the largest becomes the largest if
    /// `saturate`, else infinity or NaN, whichever the type has. No gradient flows through.
    ///
    /// ```
    /// # use warpweft::Tensor;
    /// # use warpweft::tensor::SmallFloat;
    /// let x = Tensor::from_vec(vec![0.3f32, 500.0, -17.0], [3]);
    /// assert_eq!(x.round_to_small(SmallFloat::E4M3FN, true).to_vec::<f32>()?, [0.3125, 448.0, -16.0]);
    /// # Ok::<(), warpweft::Error>(())
    /// ```
    #[track_caller]
    pub fn round_to_small(&self, to: SmallFloat, saturate: bool) -> Tensor {
        let x = self.cast(DType::F32).detach();
        if to == SmallFloat::E8M0FNU {
            return x.round_to_power(PowerRounding::Nearest, saturate);
        }
        let Layout { mantissa, bias, largest, has_infinity, has_nan, has_negative_zero, .. } = to.layout();
        let size = x.abs();
        let exponent = size.bitcast(DType::U32).rshift(23).cast(DType::I32) - 127;
        let exponent = exponent.maximum(i64::from(1 - bias)).minimum(127);
        let power = |exponent: Tensor| (exponent + 127).lshift(23).bitcast(DType::F32);
        let (down, up) = (power(i64::from(mantissa) - &exponent), power(&exponent - i64::from(mantissa)));
        let rounded = (&size * down).round() * up;
        let beyond = match (saturate || !has_nan, has_infinity) {
            (true, _) => largest,
            (false, true) => f32::INFINITY,
            (false, false) => f32::NAN,
        };
        // An exponent of the largest kind is infinity or NaN: what was rounded of it is not looked at.
        let rounded = rounded.gt(largest).logical_or(size.isinf()).where_(beyond, rounded);
        let signed = rounded.copysign(&x);
        let signed = if has_negative_zero { signed } else { rounded.eq(0.0).where_(0.0, signed) };
        // Where there is no NaN, it becomes the code that says least: negative zero.
        x.isnan().where_(if has_nan { f32::NAN } else { -0.0 }, signed)
    }

    /// Each number as a power of two (the values of [`SmallFloat::E8M0FNU`]), whatever its sign; `f32`. NaN stays NaN. What is beyond the ends of the
    /// range, zero among it, becomes the end if `saturate`, else NaN.
    #[track_caller]
    pub fn round_to_power(&self, rounding: PowerRounding, saturate: bool) -> Tensor {
        let x = self.cast(DType::F32).detach();
        let bits = x.bitcast(DType::U32);
        let exponent = bits.rshift(23).bitwise_and(255).cast(DType::I32);
        let fraction = bits.bitwise_and((1i64 << 23) - 1).cast(DType::I32);
        let half = 1i64 << 22;
        // Subnormal numbers have no leading one: from half of the least normal number on, 2^-127 is a floor.
        let least = exponent.eq(0);
        let more = match rounding {
            PowerRounding::Down => least.where_(0, fraction.zeros_like()),
            PowerRounding::Up => least.where_(fraction.gt(half).cast(DType::I32), fraction.gt(0).cast(DType::I32)),
            PowerRounding::Nearest => {
                least.where_(fraction.gt(half).cast(DType::I32), fraction.ge(half).cast(DType::I32))
            }
        };
        let code = exponent + more;
        let over = code.gt(254);
        let (code, end) = (code.minimum(254), f32::from_bits(0x7f00_0000));
        let power = code.eq(0).where_(f32::from_bits(0x0040_0000), code.lshift(23).bitcast(DType::F32));
        let beyond = if saturate { over } else { over.logical_or(x.abs().lt(f32::from_bits(0x0040_0000))) };
        let power = beyond.where_(if saturate { end } else { f32::NAN }, power);
        x.isnan().where_(f32::NAN, power)
    }

    /// The numbers of codes, one a byte of `u8`, of a small float type; `f32`. Bits above the type's are ignored.
    ///
    /// ```
    /// # use warpweft::Tensor;
    /// # use warpweft::tensor::SmallFloat;
    /// let codes = Tensor::from_vec(vec![0x38u8, 0xc0, 0x01, 0x7e], [4]);
    /// assert_eq!(codes.decode_small(SmallFloat::E4M3FN).to_vec::<f32>()?, [1.0, -2.0, 0.001953125, 448.0]);
    /// # Ok::<(), warpweft::Error>(())
    /// ```
    #[track_caller]
    pub fn decode_small(&self, from: SmallFloat) -> Tensor {
        match self.dtype() {
            Ok(DType::U8) => {}
            Ok(dtype) => {
                return Tensor::refused("decode_small", format!("codes are bytes of u8, and these are {dtype}"));
            }
            Err(error) => return Tensor::from_error(error),
        }
        let Layout { bits, mantissa, bias, has_nan, has_negative_zero, .. } = from.layout();
        match from {
            SmallFloat::E4M3FN => {
                // In a half float the exponent counts from 15 and not from 7.
                let wide = self.cast(DType::U16);
                let value = halves(&wide, 7).cast(DType::F32) * 256.0;
                return wide.bitwise_and(0x7f).eq(0x7f).where_(f64::NAN, value);
            }
            // The upper half of a half float.
            SmallFloat::E5M2 => return self.cast(DType::U16).lshift(8).bitcast(DType::F16).cast(DType::F32),
            SmallFloat::E8M0FNU => {
                let power = self.cast(DType::U32).lshift(23).bitcast(DType::F32);
                let power = self.eq(0).where_(f32::from_bits(0x0040_0000), power);
                return self.eq(255).where_(f64::NAN, power);
            }
            _ => {}
        }
        let (wide, top) = (self.cast(DType::U32), 1i64 << (bits - 1));
        // Under the exponents of a single float, which count from 127.
        let size = wide.bitwise_and(top - 1).lshift(23 - mantissa).bitcast(DType::F32) * 2f64.powi(127 - bias);
        let sign = wide.bitwise_and(top).lshift(32 - i64::from(bits));
        let value = size.bitcast(DType::U32).bitwise_or(sign).bitcast(DType::F32);
        match has_nan && !has_negative_zero {
            true => self.eq(top).where_(f64::NAN, value),
            false => value,
        }
    }

    /// The codes of the nearest numbers that a small float type has, one a byte of `u8`, as [`Tensor::round_to_small`] rounds; of NaN the first that
    /// stands for it, with the number's sign where there is one.
    ///
    /// ```
    /// # use warpweft::Tensor;
    /// # use warpweft::tensor::SmallFloat;
    /// let x = Tensor::from_vec(vec![1f32, -2.1, 0.002, 1e9], [4]);
    /// assert_eq!(x.encode_small(SmallFloat::E4M3FN, true).to_vec::<u8>()?, [0x38, 0xc0, 0x01, 0x7e]);
    /// # Ok::<(), warpweft::Error>(())
    /// ```
    #[track_caller]
    pub fn encode_small(&self, to: SmallFloat, saturate: bool) -> Tensor {
        let number = self.round_to_small(to, saturate);
        if to == SmallFloat::E8M0FNU {
            let exponent = number.bitcast(DType::U32).rshift(23).bitwise_and(255);
            return number.isnan().where_(255, exponent).cast(DType::U8);
        }
        let Layout { bits, mantissa, bias, largest, has_nan, has_negative_zero, .. } = to.layout();
        let step = 2f64.powi(1 - bias - mantissa);
        // Of infinity the next number after the largest, which has its code; of NaN any.
        let after = f64::from(largest) + 2f64.powi(f64::from(largest).log2().floor() as i32 - mantissa);
        let size = number.isnan().where_(0.0, number.abs()).minimum(after);
        let normal = size.bitcast(DType::U32).rshift(23 - mantissa) - (i64::from(127 - bias) << mantissa);
        let code = size.lt(2f64.powi(1 - bias)).where_((&size / step).cast(DType::U32), normal);
        let top = 1i64 << (bits - 1);
        let sign = number.bitcast(DType::U32).rshift(32 - i64::from(bits)).bitwise_and(top);
        let code = match (has_nan, has_negative_zero) {
            (true, true) => number.isnan().where_(NAN_CODE, code).bitwise_or(sign),
            (true, false) => number.isnan().where_(top, code.bitwise_or(sign)),
            _ => code.bitwise_or(sign),
        };
        code.cast(DType::U8)
    }
}

/// The last code without a sign, which is NaN in the types of 8 bits that have infinities, or a negative zero.
const NAN_CODE: i64 = 0x7f;

/// Half floats of a sign and the bits after it, which are moved up by so many.
fn halves(wide: &Tensor, up: i64) -> Tensor {
    wide.bitwise_and(0x80).lshift(8).bitwise_or(wide.bitwise_and(0x7f).lshift(up)).bitcast(DType::F16)
}

/// Which power of two a number goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PowerRounding {
    /// The next one below.
    Down,
    /// The next one above.
    Up,
    /// The nearest, up from the middle on.
    Nearest,
}
