//! Copies that the choice by hand makes on a CPU: an operand that lies badly, or does not fit the near caches, is copied to scratch in the order in which it is read.
//!
//! [`product`] copies both operands of a matrix product, block by block (also of narrow numbers); [`panels`] the awkward operand of any contraction, [`panel_blocks`] and [`term_blocks`]
//! some terms of it at a time; [`row_lanes`] both operands of a contraction whose results lie in short rows; [`windows`] the input of overlapping windows, [`frames`] where some rows share it;
//! [`pack`] the operand that all tiles of rows share, [`row_blocks`] for blocks of these where they are many.

#[cfg(test)]
mod convolutions;
pub(super) mod frames;
pub(super) mod pack;
pub(super) mod panel_blocks;
pub(super) mod panels;
pub(super) mod product;
pub(super) mod row_blocks;
pub(super) mod row_lanes;
pub(super) mod term_blocks;
mod terms;
pub(super) mod windows;
