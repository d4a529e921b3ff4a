//! Which loops become vectors, register tiles, thread shares and thread indices: the vocabulary ([`opt`]) and its [`text`], its application ([`mod@apply`] checks limits and calls the
//! `transforms`, a file for each family of opts), the opts that a kernel admits ([`legal_opts`]), the loops as a person reads them ([`outline`]), and the
//! choice by hand ([`by_hand`]) that most kernels get.

pub mod apply;
pub mod by_hand;
mod hidden;
mod legal;
mod limits;
pub mod opt;
mod outline;
pub mod text;
mod transforms;

pub use apply::{apply, apply_list};
pub use by_hand::choose;
pub use hidden::run_over_what_is_seen;
pub use legal::legal_opts;
pub use opt::{Limit, Opt, Opts, Reason, Refused, ThreadIndex};
pub use outline::outline;
pub use transforms::stage::loads_of;
