//! What a kernel is run as: a list of micro-instructions over slots.
//!
//! A slot is a position in a thread's list of words: a register, a constant, a parameter, or a special register, all read in the same way. Constants and parameters are
//! there before the thread begins. A guard is a jump past what it guards. Where it is not certain that a register was written, a `Check` stands before what reads it and a
//! `Mark` after what writes it; all else runs without a look.
//!
//! Always: jumps stay within the list, slots within the words, and the last micro-instruction leaves the kernel.

use super::convert::Conversion;
use super::scalar::Type;
use super::syntax::Space;

/// Number of a word of a thread.
pub(super) type Slot = u32;

/// A micro-instruction: `d` is written, the others are read.
#[derive(Clone, Copy, Debug)]
pub(super) enum Micro {
    One {
        f: fn(u64) -> u64,
        d: Slot,
        a: Slot,
    },
    Two {
        f: fn(u64, u64) -> u64,
        d: Slot,
        a: Slot,
        b: Slot,
    },
    Three {
        f: fn(u64, u64, u64) -> u64,
        d: Slot,
        a: Slot,
        b: Slot,
        c: Slot,
    },
    Move {
        d: Slot,
        a: Slot,
    },
    /// Number of a conversion.
    Convert {
        number: u32,
        d: Slot,
        a: Slot,
    },
    /// Bits of a word: `mov.b32 {d, e}, a`.
    Extract {
        d: Slot,
        a: Slot,
        shift: u8,
        bits: u8,
    },
    /// Bits put above those of another word: `mov.b32 d, {a, b}`.
    Join {
        d: Slot,
        a: Slot,
        b: Slot,
        shift: u8,
    },
    /// Past what is guarded, where the predicate is so.
    Skip {
        p: Slot,
        when: bool,
        to: u32,
    },
    Jump {
        to: u32,
    },
    JumpIf {
        p: Slot,
        when: bool,
        to: u32,
    },
    /// The register must have been written.
    Check {
        slot: Slot,
    },
    /// The register has been written.
    Mark {
        slot: Slot,
    },
    /// The divisor must give a quotient.
    Divides {
        a: Slot,
        b: Slot,
        signed_bits: u8,
    },
    /// Numbers of accesses.
    Load {
        number: u32,
    },
    Store {
        number: u32,
    },
    Atomic {
        number: u32,
    },
    /// What waits for other threads: a number of what is done together.
    Together {
        number: u32,
    },
    /// Number of a copy.
    Copy {
        number: u32,
    },
    CommitCopies,
    /// Until at most so many groups of copies are under way.
    WaitForCopies {
        groups: u32,
    },
    Exit,
}

/// Which memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Memory {
    Global,
    /// By a path that does not see what this launch writes.
    GlobalReadOnly,
    Shared,
    Local,
}

/// A load or store of one element or of consecutive ones.
#[derive(Clone, Debug)]
pub(super) struct Access {
    pub(super) memory: Memory,
    pub(super) base: Slot,
    pub(super) offset: i64,
    /// Of an element.
    pub(super) bytes: u32,
    /// Bits that what is loaded is extended to by its sign; 0 where there is none.
    pub(super) extended_to: u32,
    /// Elements' registers.
    pub(super) registers: Vec<Slot>,
    /// Number of this instruction among those that access memory.
    pub(super) instruction: u32,
}

/// An access that reads and writes at once.
#[derive(Clone, Debug)]
pub(super) struct Atomic {
    /// Its registers are the operands: one, or two of `cas`.
    pub(super) access: Access,
    /// What is stored, of what was there and the operands.
    pub(super) combine: fn(u64, u64, u64) -> u64,
    /// Where what was there goes; nowhere for `red`.
    pub(super) found: Option<Slot>,
}

/// `cp.async`
#[derive(Clone, Copy, Debug)]
pub(super) struct Copy {
    pub(super) to: Slot,
    pub(super) to_offset: i64,
    pub(super) from: Slot,
    pub(super) from_offset: i64,
    pub(super) bytes: u32,
    /// How many bytes are read; the others become zeros.
    pub(super) read: Option<Slot>,
    pub(super) instruction: u32,
}

/// What the threads of a block or of a warp do together.
#[derive(Clone, Debug)]
pub(super) enum Together {
    /// `bar.sync`: the number of the barrier.
    Barrier {
        number: Slot,
    },
    /// `bar.warp.sync`
    WarpBarrier {
        mask: Slot,
    },
    Shuffle(Shuffle),
    Vote {
        mode: Vote,
        d: Slot,
        a: Slot,
        mask: Slot,
    },
    /// `ldmatrix`: one register for each of 1, 2 or 4 matrices.
    LoadMatrices {
        registers: Vec<Slot>,
        base: Slot,
        offset: i64,
        transposed: bool,
        instruction: u32,
    },
    Multiply(Multiply),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Vote {
    All,
    Any,
    Uniform,
    Ballot,
}

/// `shfl.sync`
#[derive(Clone, Copy, Debug)]
pub(super) struct Shuffle {
    pub(super) mode: ShuffleMode,
    pub(super) d: Slot,
    /// Whether the lane that is named is one of the segment.
    pub(super) p: Option<Slot>,
    pub(super) a: Slot,
    pub(super) b: Slot,
    pub(super) c: Slot,
    pub(super) mask: Slot,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ShuffleMode {
    Up,
    Down,
    Butterfly,
    Index,
}

/// `mma.sync`: d = a * b + c, of 16 x k, k x 8 and 16 x 8.
#[derive(Clone, Debug)]
pub(super) struct Multiply {
    pub(super) depth: usize,
    pub(super) elements: Type,
    pub(super) sums: Type,
    pub(super) a: Vec<Slot>,
    pub(super) b: Vec<Slot>,
    pub(super) c: Vec<Slot>,
    pub(super) d: Vec<Slot>,
}

/// A special register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Special {
    Thread(u8),
    Threads(u8),
    Block(u8),
    Blocks(u8),
    Lane,
    Warp,
}

/// Where a variable lies in its space.
#[derive(Clone, Debug)]
pub(super) struct Location {
    pub(super) name: String,
    pub(super) space: Space,
    pub(super) start: u64,
    /// None where the launch decides.
    pub(super) bytes: Option<u64>,
}

/// A kernel, decoded.
#[derive(Debug)]
pub(super) struct Code {
    pub(super) micros: Vec<Micro>,
    /// The line of each.
    pub(super) lines: Vec<u32>,
    /// The text, by lines.
    pub(super) text: Vec<String>,
    /// The words of a thread as it begins: constants are there.
    pub(super) words: Vec<u64>,
    /// Names of registers, for messages.
    pub(super) names: Vec<(Slot, String)>,
    /// Where parameters are put, in their order; none where nothing reads one.
    pub(super) parameters: Vec<Option<Slot>>,
    pub(super) specials: Vec<(Special, Slot)>,
    pub(super) conversions: Vec<Conversion>,
    pub(super) loads: Vec<Access>,
    pub(super) stores: Vec<Access>,
    pub(super) atomics: Vec<Atomic>,
    pub(super) copies: Vec<Copy>,
    pub(super) together: Vec<Together>,
    pub(super) locations: Vec<Location>,
    /// Threads of a block, where the text says so.
    pub(super) threads: Option<[u64; 3]>,
    /// The line of each instruction that accesses memory, in the order of their numbers.
    pub(super) accesses: Vec<u32>,
    /// Bytes of the smallest element that instructions access in shared memory.
    pub(super) shared_granule: u32,
}

impl Code {
    /// The name of a register.
    pub(super) fn name_of(&self, slot: Slot) -> &str {
        self.names.iter().find(|(other, _)| *other == slot).map_or("a register", |(_, name)| name)
    }
}

/// Where variables begin: an address of 0 is none.
pub(super) const FIRST_ADDRESS: u64 = 1024;
/// Between variables, so that who leaves one does not find another; whole rows of banks.
pub(super) const GAP: u64 = 256;
