//! What each opt does to a kernel: one file for each family of opts, called by [`apply`](super::apply) alone.
//!
//! A transform gives the changed kernel or a [`Reason`](super::opt::Reason) why the opt does not fit; it never chooses. Values stay as they were: the
//! random lists of opts in the tests compare each with the kernel without opts.

pub(super) mod block;
pub(super) mod dots;
pub(super) mod flatten;
pub(super) mod frame;
pub(super) mod half_parts;
pub(super) mod keep_shared;
pub(super) mod map;
pub(super) mod masked;
pub(super) mod matrices;
pub(super) mod nesting;
pub(super) mod owners;
pub(super) mod peel;
pub(super) mod recompute;
pub(super) mod split;
pub(super) mod stage;
pub(super) mod tiles;
