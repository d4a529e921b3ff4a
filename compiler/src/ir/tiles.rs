//! What one instruction multiplies that has tiles for operands: two small matrices, added to a third ([`Op::MultiplyTiles`](super::Op)).
//!
//! ```text
//! sums[r, c] + sum over g, t of left[r, g, t] * right[g, c, t]          r rows, c columns, g groups of terms, t terms of a group
//! ```
//!
//! A *tile* is a register of up to 16 rows of 64 bytes. Here it is a vector with the rows one after the other. So it lies in memory, too, or with its rows apart ([`index_of_rows`]). The terms of a *group* are those that the
//! factors of one element of 32 bits have, as in a dot product ([`dots`](super::dots)): so the right factor has a row for each group, in which the columns follow each other.
//!
//! | kind | factors | sums | group | instruction of x86 |
//! |---|---|---|---|---|
//! | `Bf16` | `bf16`, `bf16` | `f32` | 2 | `tdpbf16ps` |
//! | `F16` | `f16`, `f16` | `f32` | 2 | `tdpfp16ps` |
//! | `SignedBytes` | `i8`, `i8` | `i32` | 4 | `tdpbssd` |
//! | `SignedByUnsigned` | `i8`, `u8` | `i32` | 4 | `tdpbsud` |
//! | `UnsignedBySigned` | `u8`, `i8` | `i32` | 4 | `tdpbusd` |
//! | `UnsignedBytes` | `u8`, `u8` | `i32` | 4 | `tdpbuud` |
//!
//! Sums of integers wrap. Of floats the first and the second terms of all groups are added up by themselves, with fused multiply-adds from zero; both sums are added, and their sum to what was
//! there ("Intel 64 and IA-32 Architectures Software Developer's Manual", volume 2, TDPBF16PS and TDPFP16PS). As with dot products, `bf16` and sums below 2^-126 count as zero there:
//! so the op stands in reductions alone, whose rounding is left open.
//!
//! Tested below, and in the test crate against products worked out otherwise.

use std::sync::Arc;

use smallvec::smallvec;

use super::{Arg, Op, Shape, StridedArg, UOp};
use crate::DType;
use crate::dtype::{Scalar, ScalarType};

/// Most rows of a tile.
pub const ROWS_MAX: usize = 16;
/// Most bytes of a row.
pub const ROW_BYTES_MAX: usize = 64;
/// Tile registers of a machine.
pub const REGISTERS: usize = 8;
/// Most products of tiles of floats that are added to one tile. Each rounds an element once more, and the products of its own terms up to 16 times before: together no more often
/// than any accumulator may (`legalize::blocks`). No instruction adds tiles, so they cannot be cut later.
pub const STEPS_MAX: u64 = 1024 - ROWS_MAX as u64;

/// What an instruction multiplies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TileKind {
    /// `bf16` by `bf16`, summed in `f32`.
    Bf16,
    /// `f16` by `f16`, summed in `f32`.
    F16,
    /// `i8` by `i8`, summed in `i32`.
    SignedBytes,
    /// `i8` by `u8`, summed in `i32`.
    SignedByUnsigned,
    /// `u8` by `i8`, summed in `i32`.
    UnsignedBySigned,
    /// `u8` by `u8`, summed in `i32`.
    UnsignedBytes,
}

impl TileKind {
    /// Every kind.
    pub const ALL: [TileKind; 6] = [
        TileKind::Bf16,
        TileKind::F16,
        TileKind::SignedBytes,
        TileKind::SignedByUnsigned,
        TileKind::UnsignedBySigned,
        TileKind::UnsignedBytes,
    ];

    /// The kind for factors and sums of these types, whatever their lanes.
    pub fn of(left: DType, right: DType, sums: DType) -> Option<TileKind> {
        match (left.scalar(), right.scalar(), sums.scalar()) {
            (ScalarType::BF16, ScalarType::BF16, ScalarType::F32) => Some(TileKind::Bf16),
            (ScalarType::F16, ScalarType::F16, ScalarType::F32) => Some(TileKind::F16),
            (ScalarType::I8, ScalarType::I8, ScalarType::I32) => Some(TileKind::SignedBytes),
            (ScalarType::I8, ScalarType::U8, ScalarType::I32) => Some(TileKind::SignedByUnsigned),
            (ScalarType::U8, ScalarType::I8, ScalarType::I32) => Some(TileKind::UnsignedBySigned),
            (ScalarType::U8, ScalarType::U8, ScalarType::I32) => Some(TileKind::UnsignedBytes),
            _ => None,
        }
    }

    /// The types of the left and the right factor.
    pub fn factors(self) -> [DType; 2] {
        match self {
            TileKind::Bf16 => [DType::BF16; 2],
            TileKind::F16 => [DType::F16; 2],
            TileKind::SignedBytes => [DType::I8; 2],
            TileKind::SignedByUnsigned => [DType::I8, DType::U8],
            TileKind::UnsignedBySigned => [DType::U8, DType::I8],
            TileKind::UnsignedBytes => [DType::U8; 2],
        }
    }

    /// Terms of a group: those that fill an element of the sums.
    pub fn group(self) -> usize {
        self.sums().bytes() / self.factors()[0].bytes()
    }

    /// Most terms that an instruction adds up: a whole row of the left factor.
    pub fn terms_max(self) -> usize {
        ROW_BYTES_MAX / self.factors()[0].bytes()
    }

    /// The type of the sums.
    pub fn sums(self) -> DType {
        match self {
            TileKind::Bf16 | TileKind::F16 => DType::F32,
            TileKind::SignedBytes
            | TileKind::SignedByUnsigned
            | TileKind::UnsignedBySigned
            | TileKind::UnsignedBytes => DType::I32,
        }
    }

    /// The name in messages.
    pub fn name(self) -> &'static str {
        match self {
            TileKind::Bf16 => "bf16",
            TileKind::F16 => "f16",
            TileKind::SignedBytes
            | TileKind::SignedByUnsigned
            | TileKind::UnsignedBySigned
            | TileKind::UnsignedBytes => "bytes",
        }
    }
}

/// How large the matrices of a product are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TileShape {
    /// Rows of the left factor and of the sums.
    pub rows: usize,
    /// Columns of the right factor and of the sums.
    pub columns: usize,
    /// Groups of terms: rows of the right factor.
    pub groups: usize,
}

impl TileShape {
    /// Lanes of the left factor, the right factor and the sums.
    pub fn lanes(self, kind: TileKind) -> [usize; 3] {
        let group = kind.group();
        [self.rows * self.groups * group, self.groups * self.columns * group, self.rows * self.columns]
    }

    /// Bytes of a row of each of them.
    pub fn row_bytes(self) -> [usize; 3] {
        [4 * self.groups, 4 * self.columns, 4 * self.columns]
    }

    /// Rows of each of them.
    pub fn heights(self) -> [usize; 3] {
        [self.rows, self.groups, self.rows]
    }

    /// Whether registers hold tiles of this size.
    pub fn fits(self) -> bool {
        let side = |len: usize| (1..=ROWS_MAX).contains(&len);
        side(self.rows) && side(self.columns) && side(self.groups)
    }

    /// Of vectors of these types with so many rows; `None` if no instruction multiplies them.
    pub fn of(rows: usize, left: DType, right: DType, sums: DType) -> Option<(TileKind, TileShape)> {
        let kind = TileKind::of(left, right, sums)?;
        let columns = sums.lanes().checked_div(rows)?;
        let groups = left.lanes().checked_div(rows * kind.group())?;
        let shape = TileShape { rows, columns, groups };
        let is_whole = shape.lanes(kind) == [left, right, sums].map(DType::lanes);
        (is_whole && shape.fits()).then_some((kind, shape))
    }
}

/// The index of so many elements in rows, each of which begins `pitch` elements behind the one before it; the first is at the offset.
pub fn index_of_rows(memory: &UOp, offset: UOp, dtype: DType, row: i64, pitch: i64) -> UOp {
    let rows = dtype.lanes() as i64 / row.max(1);
    let arg = match row == pitch || rows == 1 {
        true => Arg::None,
        false => {
            let [shape, strides] = [[rows, row], [pitch, 1]].map(Shape::from);
            Arg::Strided(Arc::new(StridedArg { shape, strides, offset: 0.into() }))
        }
    };
    UOp::new(Op::Index, dtype, smallvec![memory.clone(), offset], arg)
}

/// Elements of a row, and from one row to the next, of an index whose rows lie apart.
pub fn rows_apart(index: &UOp) -> Option<(usize, i64)> {
    let Arg::Strided(view) = index.arg() else { return None };
    let of = |dims: &Shape, axis: usize| dims.get(axis).and_then(super::Dim::as_const);
    let (rows, row) = (of(&view.shape, 0)?, of(&view.shape, 1)?);
    let (pitch, step) = (of(&view.strides, 0)?, of(&view.strides, 1)?);
    let is_whole = view.shape.len() == 2 && rows.checked_mul(row) == Some(index.dtype().lanes() as i64);
    let is_so = is_whole && row > 0 && pitch >= row && step == 1 && view.offset.as_const() == Some(0);
    is_so.then(|| usize::try_from(row).ok().map(|row| (row, pitch))).flatten()
}

/// One element of the sums: what it was, and the products of its terms. `left` and `right` give a term of a group.
pub fn multiply(
    kind: TileKind,
    groups: usize,
    before: Scalar,
    left: impl Fn(usize, usize) -> Scalar,
    right: impl Fn(usize, usize) -> Scalar,
) -> Scalar {
    if kind.sums().is_float() {
        let number = |scalar: Scalar| scalar.to_f64() as f32;
        let of_term = |term: usize| {
            let add = |sum: f32, group: usize| number(left(group, term)).mul_add(number(right(group, term)), sum);
            (0..groups).fold(0.0f32, add)
        };
        return Scalar::from_f64(f64::from(number(before) + (of_term(0) + of_term(1))), kind.sums());
    }
    let terms = (0..groups).flat_map(|group| (0..kind.group()).map(move |term| (group, term)));
    let total = terms.fold(before.to_i64(), |total, (group, term)| {
        total.wrapping_add(left(group, term).to_i64() * right(group, term).to_i64())
    });
    Scalar::from_i64(total, DType::I64).cast(kind.sums())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_tile_is_a_kilobyte() {
        let shape = TileShape { rows: 16, columns: 16, groups: 16 };
        for kind in TileKind::ALL {
            let types = [kind.factors()[0], kind.factors()[1], kind.sums()];
            let bytes = [0, 1, 2].map(|operand: usize| shape.lanes(kind)[operand] * types[operand].bytes());
            assert_eq!((bytes, shape.row_bytes(), shape.heights()), ([1024; 3], [64; 3], [16; 3]));
            assert_eq!((kind.terms_max(), TileKind::of(types[0], types[1], types[2])), (16 * kind.group(), Some(kind)));
        }
    }

    #[test]
    fn sizes_follow_from_the_vectors() {
        let of = |rows: usize, lanes: [usize; 3]| {
            let [left, right] = [0, 1].map(|factor: usize| DType::BF16.with_lanes(lanes[factor]));
            TileShape::of(rows, left, right, DType::F32.with_lanes(lanes[2])).map(|(_, shape)| shape)
        };
        assert_eq!(of(3, [3 * 8, 4 * 5 * 2, 15]), Some(TileShape { rows: 3, columns: 5, groups: 4 }));
        assert_eq!(of(4, [3 * 8, 4 * 5 * 2, 15]), None);
        assert_eq!(of(0, [3 * 8, 4 * 5 * 2, 15]), None);
        assert_eq!(of(17, [17 * 8, 4 * 5 * 2, 17 * 5]), None, "more rows than a register has");
    }

    #[test]
    fn bytes_wrap_and_do_not_saturate() {
        let least = |_: usize, _: usize| Scalar::Int(-128);
        let sum = multiply(TileKind::SignedBytes, 16, Scalar::Int(i64::from(i32::MAX)), least, least);
        assert_eq!(sum, Scalar::Int(i64::from(i32::MAX) + 64 * 128 * 128 - (1 << 32)));
    }

    #[test]
    fn terms_are_added_by_their_position_in_the_group() {
        let small = 2f64.powi(-24);
        let one = |_: usize, _: usize| Scalar::float(1.0);
        // 1 + 2^-24 is a tie, to even; beside each other the small ones are no longer lost.
        let of = |left: [f64; 4]| {
            let at = |group: usize, term: usize| Scalar::float(left[2 * group + term]);
            multiply(TileKind::Bf16, 2, Scalar::float(0.0), at, one).to_f64()
        };
        assert_eq!(of([1.0, small, 0.0, small]), 1.0 + 2.0 * small);
        assert_eq!(of([1.0, small, small, 0.0]), 1.0);
    }
}
