//! Which loops become vectors, register tiles, thread shares and thread indices: the vocabulary ([`opt`]) and its [`text`], its application ([`mod@apply`], with the
//! limits that each opt is held to), the opts that a kernel admits ([`legal_opts`]), the loops as a person reads them ([`outline`]), and the
//! choice by hand ([`by_hand`]) that most kernels get.

pub mod apply;
mod block;
mod blocks_by_hand;
mod blocks_outside;
pub mod by_hand;
mod contraction;
mod cuts;
mod flatten;
mod frame;
mod groups;
mod hidden;
mod inner_lanes;
mod interleave;
mod keep_shared;
mod legal;
mod limits;
mod local_buffers;
mod map;
mod masked;
mod matrices;
mod matrix_tiles;
mod nesting;
pub mod opt;
mod outline;
mod pack;
mod panel_blocks;
mod panels;
mod peel;
mod product;
mod product_blocks;
mod recompute;
mod reductions_across;
mod row_loops;
mod shared_reductions;
mod shared_tiles;
mod short_rows;
mod split;
mod stage;
mod survey;
mod term_blocks;
pub mod text;
mod tile;
mod turns;
mod windows;

pub use apply::{apply, apply_list};
pub use by_hand::choose;
pub use hidden::run_over_what_is_seen;
pub use legal::legal_opts;
pub use opt::{Limit, Opt, Opts, Reason, Refused, ThreadIndex};
pub use outline::outline;
pub use stage::loads_of;
