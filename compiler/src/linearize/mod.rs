//! The last form before text: one kernel as an ordered list of micro-ops.
//!
//! A [`Linear`] lists nodes so that each stands after its operands, loops nest properly, and every value is made in the innermost
//! loop that it needs. What the list may hold, and what each means to a renderer:
//!
//! | op | meaning |
//! |---|---|
//! | `const` | the value, in every lane of its dtype |
//! | `param`, `scratch` | a pointer to the elements of its dtype; scratch is private to one call or thread, or shared by the threads of a block, at the offset that [`ScratchLayout`] says |
//! | `variable` | the integer given at launch, as `i64` |
//! | `range` | opens a loop from 0 to its operand - 1; kind `parallel`: from the call's `begin` to its `end` |
//! | `range` of kind `grid_*`, `block_*`, `lane` | no loop: an index that the thread has ([`Launch`]); its body runs once, or not where the index is not less than the operand |
//! | `end` | closes the loop of its operand |
//! | `shuffle_reduce` | the value that each lane had in a `lane` range which has ended, combined: step by step, from half the width down to 1, each lane combines its value with that of the lane whose number differs in that bit, the lower lane's first. All lanes hold the result |
//! | `barrier` | each thread of the block waits here for all others; it stands where all of them come, equally often |
//! | `accumulator` | a register, set to its operand where it stands; named as an operand, it is read there |
//! | `update` | sets the register |
//! | `final` | the register's value after its loop |
//! | `index` | an address: `[buffer, offset]` or `[buffer, offset, gate]`. With a scalar offset and a vector dtype it means that many consecutive elements; with a vector offset, one element a lane |
//! | `load`, `store` | at an index; lanes whose gate is false load zero and store nothing |
//! | `prefetch` | asks for the line at so many bytes behind an index; nothing but time depends on it |
//! | `exchange` | loads an integer from an index, and stores there the value, or both combined; where the gate is false, 0, and nothing is stored |
//! | `ramp`, `splat`, `stack`, `lane`, `horizontal_reduce` | vectors made, taken apart, combined |
//! | elementwise ops | on scalars, or lane by lane on vectors of one lane count |
//!
//! No node is of dtype `Index` any more. [`check::check`] holds every list to these rules, [`effects::check`] proves that nothing is loaded
//! after it was replaced, and [`races::check`] that the threads of a block meet between accesses of what they share.

pub mod addresses;
pub mod barriers;
pub mod check;
pub mod copies;
pub mod effects;
pub mod equal_accumulators;
mod features;
pub mod interpret;
mod lengths;
pub mod linearizer;
mod loop_tree;
mod loops;
pub mod races;
pub mod reassociate;
pub mod registers;
mod scopes;
mod scratch;
pub mod text;

use std::sync::Arc;

use crate::ir::{MemorySpace, UOp};
pub use crate::program::Launch;
use crate::program::{Estimate, Parameter};
pub use features::check_features;
pub use lengths::take_out_lengths;
pub use loops::{ahead, matrix_loops, prefetch, repeated, short_loops};
pub use scratch::{ScratchLayout, ScratchLocation};

/// One kernel, ready to be rendered.
#[derive(Clone, Debug)]
pub struct Linear {
    /// Readable name, as in `r_1024_64`.
    pub name: Arc<str>,
    /// The buffers, in calling order: parameter k is slot k.
    pub parameters: Vec<Parameter>,
    /// Names of the integer variables, in calling order.
    pub variables: Vec<String>,
    /// Items of the parallel loop; 1 when there is none.
    pub grid: u64,
    /// The micro-ops.
    pub ops: Vec<UOp>,
    /// What the kernel costs.
    pub estimate: Estimate,
}

impl Linear {
    /// Where the scratch memory of a call lies that is its own, and how much it is.
    pub fn scratch(&self) -> ScratchLayout {
        ScratchLayout::of(&self.ops, MemorySpace::Private)
    }

    /// Where the scratch memory lies that the threads of a block share, and how much it is.
    pub fn shared(&self) -> ScratchLayout {
        ScratchLayout::of(&self.ops, MemorySpace::Shared)
    }

    /// The indices that its threads have: how many blocks run it, and how many threads each has.
    pub fn launch(&self) -> Launch {
        Launch::of(&self.ops)
    }
}
