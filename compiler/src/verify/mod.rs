//! What each stage may hold. A stage is checked as a whole; what is wrong is pinned to the node where it is seen.
//!
//! [`tensor`] checks graphs of tensors and kernel ASTs, [`kernel`] loop nests, [`threads`] what threads of a block share in them, [`linear`] the micro-ops of a list. Node construction has
//! checked operands and shapes already (`ir::infer`); here stand the rules that concern a whole graph or that only one stage has.
//! The pipeline runs these in debug builds: an error of a stage is a bug of the pass before it. Filetests (`test verify`) hold
//! each rule. Not here: whether a list is in a possible order (`linearize::check`).

mod arguments;
pub mod kernel;
pub mod linear;
pub mod tensor;
pub mod threads;

use crate::ir::UOp;

/// A node that its stage may not hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {message}", node.op())]
pub struct VerifyError {
    /// The node.
    pub node: UOp,
    /// What is wrong with it, and what would be right.
    pub message: String,
}

impl VerifyError {
    fn new(node: &UOp, message: impl Into<String>) -> VerifyError {
        VerifyError { node: node.clone(), message: message.into() }
    }
}
