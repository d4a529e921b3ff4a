//! Who accessed a piece of memory last, so that accesses without an order between them are found.
//!
//! Two accesses are ordered if one thread did both, or if both threads are of one block and a barrier of the block lies between them; between threads of a warp a
//! `bar.warp.sync` of the whole warp suffices. Threads of two blocks are never ordered. What is remembered of a piece of memory is one word for writes and one for reads:
//! the last access, and whether others came beside it that were not ordered before.
//!
//! | bits | field |
//! |---|---|
//! | 0-7 | clock of the warp: its barriers so far |
//! | 8-27 | clock of the block: its barriers so far |
//! | 28-37 | thread |
//! | 38-60 | block |
//! | 61 | atomic |
//! | 62-63 | 0 nobody, 1 one thread, 2 several of a warp, 3 several of a block, or of several blocks where the block is the last |
//!
//! Clocks are compared for being equal: they go round after a million barriers, and who accesses a piece of memory exactly that many later is taken for one that raced.
//!
//! Tested at the end of this file.

/// Most blocks of a launch.
pub(in crate::emulator) const BLOCKS_MAX: u64 = (1 << 23) - 1;
/// Most threads of a block.
pub(in crate::emulator) const THREADS_MAX: u64 = 1024;

const SEVERAL_BLOCKS: u64 = (1 << 23) - 1;
const ONE: u64 = 1;
const OF_WARP: u64 = 2;
const SEVERAL: u64 = 3;

/// An access: who, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::emulator) struct Stamp(pub(in crate::emulator) u64);

impl Stamp {
    /// Of a thread of a block, at these clocks.
    pub(in crate::emulator) fn new(block: u64, thread: u32, block_clock: u32, warp_clock: u32) -> Stamp {
        let (clock, warp) = (u64::from(block_clock) & 0xf_ffff, u64::from(warp_clock) & 0xff);
        Stamp(ONE << 62 | block << 38 | u64::from(thread) << 28 | clock << 8 | warp)
    }

    /// The same access, atomic.
    pub(in crate::emulator) fn atomic(self) -> Stamp {
        Stamp(self.0 | 1 << 61)
    }

    fn is_atomic(self) -> bool {
        self.0 >> 61 & 1 == 1
    }

    fn form(self) -> u64 {
        self.0 >> 62
    }

    /// The block; none where there are several.
    pub(in crate::emulator) fn block(self) -> Option<u64> {
        let block = self.0 >> 38 & SEVERAL_BLOCKS;
        (block != SEVERAL_BLOCKS).then_some(block)
    }

    /// The last thread.
    pub(in crate::emulator) fn thread(self) -> u32 {
        (self.0 >> 28 & 0x3ff) as u32
    }

    fn warp(self) -> u32 {
        self.thread() / 32
    }

    fn block_clock(self) -> u64 {
        self.0 >> 8 & 0xf_ffff
    }

    fn warp_clock(self) -> u64 {
        self.0 & 0xff
    }

    /// Whether all that this stands for came before a later access, in the order that barriers give.
    pub(in crate::emulator) fn is_before(self, later: Stamp) -> bool {
        let is_same_block = self.block().is_some() && self.block() == later.block();
        if self.form() == 0 || is_same_block && self.block_clock() != later.block_clock() {
            return true;
        }
        if !is_same_block || self.form() == SEVERAL {
            return false;
        }
        let is_same_thread = self.form() == ONE && self.thread() == later.thread();
        is_same_thread || self.warp() == later.warp() && self.warp_clock() != later.warp_clock()
    }

    /// Whether a later access races with this one, one of the two writing.
    pub(in crate::emulator) fn races_with(self, later: Stamp) -> bool {
        !(self.is_before(later) || self.is_atomic() && later.is_atomic())
    }

    /// What is remembered after a later access of the same kind.
    pub(in crate::emulator) fn and(self, later: Stamp) -> Stamp {
        if self.is_before(later) {
            return later;
        }
        let atomic = if self.is_atomic() && later.is_atomic() { 1 << 61 } else { 0 };
        let last = later.0 & !(3 << 62 | 1 << 61) | atomic;
        if self.block() != later.block() {
            return Stamp(SEVERAL << 62 | SEVERAL_BLOCKS << 38 | last);
        }
        let is_of_warp = self.form() != SEVERAL && self.warp() == later.warp();
        Stamp(if is_of_warp { OF_WARP } else { SEVERAL } << 62 | last)
    }
}

/// What to remember after a write, given the words of a piece of memory; else the access that it races with.
pub(in crate::emulator) fn write(writes: Stamp, reads: Stamp, now: Stamp) -> Result<Stamp, Stamp> {
    match () {
        () if writes.races_with(now) => Err(writes),
        () if reads.races_with(now) => Err(reads),
        () => Ok(writes.and(now)),
    }
}

/// What to remember after a read, as [`write`] does.
pub(in crate::emulator) fn read(writes: Stamp, reads: Stamp, now: Stamp) -> Result<Stamp, Stamp> {
    if writes.races_with(now) { Err(writes) } else { Ok(reads.and(now)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOBODY: Stamp = Stamp(0);

    fn at(block: u64, thread: u32, clock: u32, warp: u32) -> Stamp {
        Stamp::new(block, thread, clock, warp)
    }

    #[test]
    fn barriers_order_threads_of_a_block() {
        let first = at(3, 5, 0, 0);
        assert!(!NOBODY.races_with(first) && !first.races_with(at(3, 5, 0, 0)));
        assert!(first.races_with(at(3, 6, 0, 0)) && !first.races_with(at(3, 6, 1, 0)));
        assert!(first.races_with(at(4, 5, 1, 0)), "blocks are never ordered");
        assert!(!first.races_with(at(3, 6, 0, 1)), "of one warp, behind its barrier");
        assert!(first.races_with(at(3, 40, 0, 1)), "of another warp");
        assert!(!first.atomic().races_with(at(4, 7, 0, 0).atomic()) && first.atomic().races_with(at(3, 6, 0, 0)));
    }

    #[test]
    fn several_readers_are_remembered() {
        let two = at(0, 1, 0, 0).and(at(0, 2, 0, 0));
        assert!(two.races_with(at(0, 2, 0, 0)) && two.races_with(at(0, 1, 0, 0)));
        assert!(!two.races_with(at(0, 9, 0, 1)) && !two.races_with(at(0, 40, 1, 0)));
        let warps = two.and(at(0, 40, 0, 0));
        assert!(warps.races_with(at(0, 40, 0, 1)) && !warps.races_with(at(0, 3, 1, 0)));
        let blocks = warps.and(at(1, 40, 5, 0));
        assert!(blocks.races_with(at(1, 40, 6, 0)) && blocks.races_with(at(0, 1, 9, 9)));
        assert_eq!(at(0, 1, 0, 0).and(at(0, 2, 1, 0)), at(0, 2, 1, 0), "what came before is forgotten");
    }

    #[test]
    fn a_write_and_what_was_read_before_it_race() {
        let reads = read(NOBODY, NOBODY, at(0, 1, 0, 0)).unwrap();
        assert_eq!(write(NOBODY, reads, at(0, 2, 0, 0)), Err(at(0, 1, 0, 0)));
        assert_eq!(write(NOBODY, reads, at(0, 2, 1, 0)), Ok(at(0, 2, 1, 0)));
        assert_eq!(read(at(0, 2, 1, 0), reads, at(0, 3, 1, 0)), Err(at(0, 2, 1, 0)));
    }
}
