//! Quantised tensors as expressions of their packed bytes.
//!
//! A block is some bytes with one or two scales (half floats) and fields of a few bits. Fields are taken out of bytes by shifts that count along an axis of
//! their own, so all of it is movement and arithmetic, which fuses into whatever uses the tensor: nothing is unpacked to memory.
//! The arithmetic is that of ggml's reference, in `f32` and in its order, so values are the same bits.

use warpweft_compiler::DType;

use super::blocks::{Format, Packing};
use crate::tensor::Tensor;

/// What the values of IQ4_NL's fields are.
const IQ4_NL_VALUES: [f32; 16] =
    [-127.0, -104.0, -83.0, -65.0, -49.0, -35.0, -22.0, -10.0, 1.0, 13.0, 25.0, 38.0, 53.0, 69.0, 89.0, 113.0];

/// The elements of packed bytes, as `f32` of that shape.
pub(super) fn dequantise(format: Format, stored: &Tensor, shape: &[u64]) -> Tensor {
    let lengths: Vec<i64> = shape.iter().map(|&len| len as i64).collect();
    let count = shape.iter().product::<u64>() / format.elements as u64;
    let blocks = Blocks { bytes: stored.reshape([count as i64, format.bytes as i64]), count: count as i64 };
    let elements = match format.packing {
        Packing::Q4_0 => (blocks.nibbles(2) - 8.0) * blocks.half(0),
        Packing::Q4_1 => blocks.nibbles(4) * blocks.half(0) + blocks.half(2),
        Packing::Q5_0 => (blocks.five_bits(6, 2) - 16.0) * blocks.half(0),
        Packing::Q5_1 => blocks.five_bits(8, 4) * blocks.half(0) + blocks.half(2),
        Packing::Q8_0 => blocks.range(2, 32).bitcast(DType::I8).cast(DType::F32) * blocks.half(0),
        Packing::Q2_K => blocks.q2_k(),
        Packing::Q3_K => blocks.q3_k(),
        Packing::Q4_K => blocks.q4_k(),
        Packing::Q5_K => blocks.q5_k(),
        Packing::Q6_K => blocks.q6_k(),
        Packing::IQ4_NL => {
            let table = Tensor::from_vec(IQ4_NL_VALUES.to_vec(), [16]);
            let fields = blocks.fields(2, 16, 16, 4).cast(DType::I32);
            table.index_select(0, &fields.reshape([-1])).reshape([blocks.count, 32]) * blocks.half(0)
        }
    };
    elements.reshape(lengths)
}

/// Blocks of bytes, [count, bytes].
struct Blocks {
    bytes: Tensor,
    count: i64,
}

impl Blocks {
    /// Some bytes of each block.
    fn range(&self, start: i64, len: i64) -> Tensor {
        self.bytes.narrow(1, start, len)
    }

    /// The half float at a byte of each block, as `f32` [count, 1].
    fn half(&self, at: i64) -> Tensor {
        let byte = |at: i64| self.range(at, 1).cast(DType::U16);
        byte(at).bitwise_or(byte(at + 1) << 8).bitcast(DType::F16).cast(DType::F32)
    }

    /// Fields of so many bits, all that are in these bytes: of each `width` bytes first the lowest field of each, then the next. [count, fields].
    fn fields(&self, start: i64, len: i64, width: i64, bits: i64) -> Tensor {
        let in_byte = 8 / bits;
        let bytes = self.range(start, len).reshape([self.count, len / width, 1, width]);
        let shifts = Tensor::arange_of(0, 8, bits, DType::U8).reshape([in_byte, 1]);
        let fields = (bytes.expand([self.count, len / width, in_byte, width]) >> shifts).bitwise_and((1 << bits) - 1);
        fields.reshape([self.count, len * in_byte])
    }

    /// The 32 fields of 4 bits in the 16 bytes from there on.
    fn nibbles(&self, start: i64) -> Tensor {
        self.fields(start, 16, 16, 4).cast(DType::F32)
    }

    /// The same with a fifth bit of each in 4 bytes.
    fn five_bits(&self, start: i64, fifth: i64) -> Tensor {
        (self.fields(start, 16, 16, 4).bitwise_or(self.fields(fifth, 4, 1, 1) << 4)).cast(DType::F32)
    }

    /// Fields in groups, each times its group's factor, less its group's summand.
    fn grouped(&self, fields: &Tensor, groups: i64, factor: &Tensor, less: Option<&Tensor>) -> Tensor {
        let column = |of_groups: &Tensor| of_groups.reshape([self.count, groups, 1]);
        let values = fields.cast(DType::F32).reshape([self.count, groups, 256 / groups]) * column(factor);
        let values = less.map_or(values.clone(), |less| values - column(less));
        values.reshape([self.count, 256])
    }

    fn q2_k(&self) -> Tensor {
        let scales = self.range(0, 16);
        let factor = scales.bitwise_and(15).cast(DType::F32) * self.half(80);
        let less = (scales >> 4).cast(DType::F32) * self.half(82);
        self.grouped(&self.fields(16, 64, 32, 2), 16, &factor, Some(&less))
    }

    fn q3_k(&self) -> Tensor {
        let scales = self.fields(96, 8, 8, 4).bitwise_or(self.fields(104, 4, 4, 2) << 4);
        let factor = (scales.cast(DType::F32) - 32.0) * self.half(108);
        // The third bit says that nothing is taken off.
        let off = self.fields(0, 32, 32, 1).bitwise_xor(1).cast(DType::F32) * 4.0;
        let fields = self.fields(32, 64, 32, 2).cast(DType::F32) - off;
        self.grouped(&fields, 16, &factor, None)
    }

    /// Factors and summands of 8 groups: 6 bits each in 12 bytes, of the last four groups' two in other bytes than the rest. [count, 8].
    fn scales(&self, start: i64) -> [Tensor; 2] {
        let four = |at: i64| self.range(start + at, 4).reshape([self.count, 1, 4]).expand([self.count, 2, 4]);
        let is_first = Tensor::arange_of(0, 2, 1, DType::U8).reshape([2, 1]).eq(0).expand([self.count, 2, 4]);
        let six_bits = |low: Tensor, rest: Tensor| {
            let last = rest.bitwise_or((&low >> 2).bitwise_and(0x30));
            is_first.where_(low.bitwise_and(63), last).cast(DType::F32).reshape([self.count, 8])
        };
        let both = four(8);
        [six_bits(four(0), both.bitwise_and(15)), six_bits(four(4), both >> 4)]
    }

    fn q4_k(&self) -> Tensor {
        let [factor, less] = self.scales(4);
        self.grouped(&self.fields(16, 128, 32, 4), 8, &(factor * self.half(0)), Some(&(less * self.half(2))))
    }

    fn q5_k(&self) -> Tensor {
        let [factor, less] = self.scales(4);
        let fields = self.fields(48, 128, 32, 4).bitwise_or(self.fields(16, 32, 32, 1) << 4);
        self.grouped(&fields, 8, &(factor * self.half(0)), Some(&(less * self.half(2))))
    }

    fn q6_k(&self) -> Tensor {
        let factor = self.range(192, 16).bitcast(DType::I8).cast(DType::F32) * self.half(208);
        let fields = self.fields(0, 128, 64, 4).bitwise_or(self.fields(128, 64, 32, 2) << 4).cast(DType::F32) - 32.0;
        self.grouped(&fields, 16, &factor, None)
    }
}
