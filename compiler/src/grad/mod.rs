//! Reverse-mode gradients, from graph to graph.
//!
//! [`gradients`] walks a graph from its root to its leaves and gives, for each target, a graph that computes the derivative of the
//! root by it. What an op contributes is a rule in [`rules`]; each op has one or says why it has none. Gradients are ordinary
//! tensor graphs: they are optimised and scheduled like others, and can be differentiated again.
//!
//! Conventions are PyTorch's: `max` and `min` share the gradient among ties, both of two elements and of a reduction; `abs` has derivative 0
//! at 0, `sqrt` infinity; rounding, comparisons and integers pass nothing on.
//!
//! Not here: which tensors to differentiate by (runtime). Tests: against differences of the interpreter's values in `f64`.

mod backward;
mod functions;
mod reductions;
mod rules;
mod strided;

pub use backward::gradients;
pub use rules::{Contribution, Rule, rule};
