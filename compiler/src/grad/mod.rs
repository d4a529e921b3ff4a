//! Reverse-mode gradients, from graph to graph.
//!
//! [`gradients`] walks a graph from its root to its leaves and gives, for each target, a graph that computes the derivative of the
//! root by it. What an op contributes is a rule in `rules`; each op has one or says why it has none. Gradients are ordinary
//! tensor graphs: they are optimised and scheduled like others, and can be differentiated again.
//!
//! Conventions are PyTorch's. The gradient of an extreme goes by index: a reduction's, a window's and a running one's to one element, the first
//! (of a running extreme the latest) where several hold it. `max` and `min` of two share it where these are equal, and so do those over
//! several axes or all. `abs`, `norm` and `std` have derivative 0 at 0, `sqrt` infinity; rounding, comparisons and integers pass nothing on.
//!
//! No rule compares a value with an extreme of it that was computed elsewhere: see [`crate::ops::extreme`].
//!
//! Not here: which tensors to differentiate by (runtime). Tests: against differences of the interpreter's values in `f64`.

mod backward;
mod convolutions;
mod functions;
mod matrices;
mod recomputed;
mod reductions;
mod rules;
mod scans;
mod strided;

pub use backward::{gradients, gradients_or_none};
pub use rules::{Contribution, Rule, rule};
