//! Many elements become one, or each becomes what those before it come to: sums, extremes, scans, spread.

pub(crate) mod by_blocks;
pub mod extreme;
pub mod reduce;
pub mod scan;
pub mod statistics;
