//! Who shares a kernel with whom: the decision, the model that it asks, and the groups of values that it forms.
//!
//! Begin with `fuse`; it asks `prices`, which asks `loop_model` and `cost`.

pub(in crate::schedule) mod cost;
pub(in crate::schedule) mod fuse;
pub(in crate::schedule) mod fuse_writes;
pub(in crate::schedule) mod groups;
pub(in crate::schedule) mod loop_model;
pub(in crate::schedule) mod materialize;
pub(in crate::schedule) mod narrow_factors;
pub(in crate::schedule) mod prices;
pub(in crate::schedule) mod share;
pub(in crate::schedule) mod streams;
pub(in crate::schedule) mod use_site;
