//! Views: what chains of movement ops (reshape, permute, expand, pad, shrink, flip, as_strided) do to memory.
//!
//! [`ViewSpec`] is one strided alias as PyTorch reports it: what tensors tell of themselves, and what questions about shared elements are
//! asked of. [`View`] is one strided box with a mask, [`ShapeTracker`] several of them; they find the strides of a chain in which a later
//! step undoes what no stride can say. [`collect_movement_chain`] finds the chain in a graph, [`track_movement`] turns it into a tracker,
//! [`movement_of`] turns a tracker into a short chain.
//! Lengths are [`Dim`](crate::ir::Dim)s: numbers or expressions over variables.
//! Not here: questions about sets of elements (`region`), when a write may happen in place (`schedule`).

mod chain;
pub(crate) mod dims;
#[cfg(test)]
mod index;
mod merge;
mod polynomial;
mod reshape;
mod shorten;
mod tracker;
#[allow(clippy::module_inception, reason = "the domain's own word for one of its parts")]
mod view;
mod view_functions;
mod view_spec;

#[cfg(test)]
mod properties;

pub use chain::{collect_movement_chain, rebuild_view, track_movement};
pub use merge::merge;
pub use shorten::movement_of;
pub use tracker::{BindError, ShapeTracker};
pub use view::{Bounds, View};
pub use view_functions::ViewError;
pub use view_spec::ViewSpec;
