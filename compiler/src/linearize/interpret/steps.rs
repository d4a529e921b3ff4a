//! What a list that is ready to run is made of: steps over registers, the memory that they name, and loops that know their ends.
//!
//! `prepare` makes them of a list and sees that they are right; `thread` runs them.

use crate::dtype::{DType, Scalar};
use crate::ir::{AxisKind, MemorySpace, ScalarFunction, TileKind, TileShape};

/// Where an op's result stands among the registers: one register a lane.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) first: usize,
    pub(super) lanes: usize,
}

impl Slot {
    /// The register of a lane; a scalar is the same in every lane.
    pub(super) fn at(self, lane: usize) -> usize {
        self.first + if self.lanes == 1 { 0 } else { lane }
    }
}

/// Which memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Parameter(usize),
    Scratch(usize),
}

/// The elements that a load or store names.
#[derive(Clone, Copy, Debug)]
pub(super) struct Address {
    pub(super) target: Target,
    pub(super) offset: Slot,
    pub(super) lanes: usize,
    /// Elements of a row and from one row to the next, where these lie apart.
    pub(super) rows: Option<(usize, i64)>,
    pub(super) gate: Option<Slot>,
    /// The type of an element.
    pub(super) dtype: DType,
}

/// Scratch memory of a list.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScratchArg {
    /// Its number in the text form.
    pub(super) number: u32,
    pub(super) len: usize,
    pub(super) space: MemorySpace,
}

/// What a step does.
pub(super) enum Action {
    /// A pointer, an address or the end of a list: nothing to do.
    Nothing,
    Constant(Scalar),
    Variable {
        position: usize,
        bounds: (i64, i64),
        dtype: DType,
    },
    Open(Loop),
    Close {
        open: usize,
    },
    /// The same value: an accumulator that starts, is updated or is final.
    Copy {
        from: Slot,
    },
    Load(Address),
    Store {
        address: Address,
        value: Slot,
    },
    /// What an element was, and then what it is: the value, or both combined.
    Exchange {
        address: Address,
        value: Slot,
        combine: Option<ScalarFunction>,
    },
    Ramp {
        base: Slot,
        stride: i64,
        dtype: DType,
    },
    Stack(Vec<Slot>),
    Lane {
        from: Slot,
        lane: usize,
    },
    HorizontalReduce {
        from: Slot,
        combine: ScalarFunction,
    },
    /// The values of the lanes of a group, combined by a butterfly: all lanes wait for each other.
    Shuffle {
        from: Slot,
        combine: ScalarFunction,
    },
    /// Matrices of 8 by 8 elements, of which each lane has the address of a row: all lanes wait for each other.
    LoadMatrices {
        address: Address,
        is_turned: bool,
    },
    /// Products of the lanes of two factors, those of each group added to a lane of the sums.
    Dots {
        left: Slot,
        right: Slot,
        sums: Slot,
        dtype: DType,
    },
    /// Matrices that are vectors, multiplied and added to a third.
    Tiles(TileProduct),
    /// Matrices of which each lane holds some elements, multiplied: all lanes wait for each other.
    Matrices {
        left: Slot,
        right: Slot,
        sums: Slot,
    },
    /// All threads of a block wait for each other.
    Barrier,
    Compute {
        function: ScalarFunction,
        src: Vec<Slot>,
    },
}

/// Factors and sums of a product of tiles, and how large they are.
pub(super) struct TileProduct {
    pub(super) left: Slot,
    pub(super) right: Slot,
    pub(super) sums: Slot,
    pub(super) kind: TileKind,
    pub(super) shape: TileShape,
}

/// A loop, known by the step that opens it.
pub(super) struct Loop {
    pub(super) len: Slot,
    pub(super) kind: AxisKind,
    pub(super) dtype: DType,
    pub(super) id: u32,
    /// The position of its `end`.
    pub(super) end: usize,
    /// Scratch that is fresh in each iteration.
    pub(super) renews: Vec<usize>,
}

/// An op, ready to run.
pub(super) struct Step {
    pub(super) action: Action,
    /// The registers that it sets.
    pub(super) to: Slot,
}

/// A list, ready to run.
pub(super) struct List {
    /// As many as the list has ops.
    pub(super) steps: Vec<Step>,
    pub(super) registers: usize,
    /// Each scratch memory, in the order of the list.
    pub(super) scratch: Vec<ScratchArg>,
}
