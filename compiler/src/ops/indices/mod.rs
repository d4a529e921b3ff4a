//! Elements chosen by other tensors: reads and writes at indices, and the orders that sorting finds.

pub mod indexing;
pub(in crate::ops) mod radix;
pub mod scatter;
pub(in crate::ops) mod selection;
pub(crate) mod side_by_side;
pub mod sort;
