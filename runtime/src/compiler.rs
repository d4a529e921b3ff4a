//! The door to what is inside: graphs, kernels, memory, caches. Programs that compute with tensors need none of it, and it changes more often.
//!
//! [`graph`] gives the graph that a tensor stands for, of [`UOp`]s; [`execute`] runs graphs, on what [`registry`] opens, in [`memory`]; [`search`] looks
//! for faster kernels, and [`cache`] keeps them.
//!
//! [`region`] answers which elements views share ([`region::AliasGraph`], which the scheduler asks before it lets a write go to memory),
//! and judges in-place proposals for graphs of an embedder's own ([`region::inplace::InplaceGraph`]). Both are pure: no device, no tensor.
//!
//! Always: what takes or gives nodes of graphs is here and nowhere else in the public interface. The tidy tests look.

#[doc(inline)]
pub use crate::{cache, execute, memory, registry, search};
pub use warpweft_compiler::{UOp, region};

use crate::tensor::{Result, Tensor};

/// The graph that a tensor stands for: what is still to be computed, over memory and constants. Floats that [`Tensor::zeros`] and its like made are
/// told from all that are alike, until a program is made of the graph.
///
/// ```
/// use warpweft::{Tensor, compiler};
/// let x = Tensor::from_vec(vec![1f32, 2.0], [2]);
/// let graph = compiler::graph(&(x.exp() * 2.0))?;
/// assert_eq!(compiler::execute::to_bytes(&graph)?, (x.exp() * 2.0).to_bytes()?);
/// # Ok::<(), warpweft::Error>(())
/// ```
///
/// # Errors
/// If the tensor carries one.
#[track_caller]
pub fn graph(tensor: &Tensor) -> Result<UOp> {
    tensor.uop()
}
