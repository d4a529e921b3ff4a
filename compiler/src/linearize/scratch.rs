//! Where the scratch memory of a kernel lies: each scratch of the list after the one before it in its memory space, from the next multiple of
//! [`SCRATCH_ALIGNMENT`] on. One call of the kernel needs all private ones at once; calls that run at the same time each have their own. What
//! the threads of a block share is laid out apart.
//!
//! Always: no two scratches of one space share a byte. Tested below.

use crate::ir::{Arg, MemorySpace, UOp};
use crate::program::SCRATCH_ALIGNMENT;

/// The scratch memory of one call of a kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScratchLayout {
    /// Bytes of all scratches together, the gaps between them counted; the most there is if they are more than can be said.
    pub bytes: u64,
    /// Number, first byte and bytes of each scratch, in the order of the list.
    pub locations: Vec<ScratchLocation>,
}

/// One scratch of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScratchLocation {
    /// Its number in the list.
    pub number: u32,
    /// Its first byte, a multiple of [`SCRATCH_ALIGNMENT`].
    pub offset: u64,
    /// Its length in bytes.
    pub bytes: u64,
}

impl ScratchLayout {
    /// The layout of the scratches of a list that are in one space.
    pub(super) fn of(ops: &[UOp], space: MemorySpace) -> ScratchLayout {
        let mut layout = ScratchLayout::default();
        for node in ops {
            let Arg::Scratch(number, len, of) = *node.arg() else { continue };
            if of != space {
                continue;
            }
            let offset = layout.bytes.checked_next_multiple_of(SCRATCH_ALIGNMENT).unwrap_or(u64::MAX);
            let bytes = len.saturating_mul(node.dtype().bytes() as u64);
            layout.locations.push(ScratchLocation { number, offset, bytes });
            layout.bytes = offset.saturating_add(bytes);
        }
        layout
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;
    use crate::ir::Op;

    #[test]
    fn scratches_follow_each_other_on_lines_of_their_own() {
        use MemorySpace::{Private, Shared};
        let new = |number, dtype, len, space| UOp::new(Op::Scratch, dtype, vec![], Arg::Scratch(number, len, space));
        let scratch = |number, dtype, len| new(number, dtype, len, Private);
        assert_eq!(ScratchLayout::of(&[], Private), ScratchLayout::default());
        let list = [
            scratch(1, DType::F32, 3),
            UOp::index(4),
            scratch(0, DType::U8, 65),
            new(4, DType::F32, 16, Shared),
            scratch(2, DType::F64, 0),
            scratch(3, DType::BOOL, 8),
        ];
        let layout = ScratchLayout::of(&list, Private);
        let at = |number, offset, bytes| ScratchLocation { number, offset, bytes };
        assert_eq!(layout.locations, [at(1, 0, 12), at(0, 64, 65), at(2, 192, 0), at(3, 192, 8)]);
        assert_eq!(layout.bytes, 200);
        assert_eq!(ScratchLayout::of(&list, Shared).locations, [at(4, 0, 64)]);
        let much = [scratch(0, DType::F64, u64::MAX), scratch(1, DType::U8, 1)];
        assert_eq!(ScratchLayout::of(&much, Private).bytes, u64::MAX);
    }
}
