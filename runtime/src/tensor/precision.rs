//! Mixed precision: inside of [`autocast`], products are made of half floats, and what half floats lose too much in is made of `f32`, whatever types operands
//! have. Networks stay as they are: their parameters are `f32`, each use casts them, and gradients come back as `f32`.
//!
//! Tests: `runtime/tests/precision.rs`, against PyTorch's `autocast` and `GradScaler`.

use std::cell::Cell;
use std::panic::Location;

use warpweft_compiler::{DType, UOp};

use super::errors::CallError;
use super::{Result, Tensor};

/// Products, which sum in `f32` and give half floats.
const PRODUCTS: [&str; 8] = ["attention", "conv", "conv_transpose", "dot", "einsum", "linear", "matmul", "outer"];
/// What half floats are too coarse or too narrow for: sums of many, and powers.
const WIDE: [&str; 18] = [
    "batch_norm",
    "cross_entropy",
    "cumprod",
    "cumsum",
    "exp",
    "group_norm",
    "layer_norm",
    "log",
    "log_softmax",
    "logsumexp",
    "mean",
    "nll_loss",
    "norm",
    "pow",
    "rms_norm",
    "softmax",
    "sum",
    "var",
];

thread_local! {
    /// The type that products are made of on this thread.
    static HALF: Cell<Option<DType>> = const { Cell::new(None) };
}

/// Runs a closure, in which products of `f32` (matrices, convolutions, attention) are made of `F16` or `BF16`, and norms, softmax, losses, sums and powers of half
/// floats of `f32`. Holds for tensors that this thread makes in it, of whatever program; compiled functions keep what they were traced with.
///
/// ```
/// # use warpweft::{DType, Tensor, tensor::autocast};
/// let (x, w) = (Tensor::rand([4, 8]), Tensor::rand([8, 2]));
/// let y = autocast(DType::F16, || x.matmul(&w))?;
/// assert_eq!(y.dtype()?, DType::F16);
/// # Ok::<(), warpweft::Error>(())
/// ```
///
/// # Errors
/// If the type is none of the two.
#[track_caller]
pub fn autocast<R>(dtype: DType, closure: impl FnOnce() -> R) -> Result<R> {
    if !matches!(dtype, DType::F16 | DType::BF16) {
        let message = format!("products can be made of f16 or bf16, not of {dtype}");
        return Err(CallError::new("autocast", &[], message, Location::caller()).into());
    }
    /// Sets back what was, even if the closure panics.
    struct Before(Option<DType>);
    impl Drop for Before {
        fn drop(&mut self) {
            HALF.set(self.0);
        }
    }
    let _before = Before(HALF.replace(Some(dtype)));
    Ok(closure())
}

/// The operands of an op, of the types that it shall have here.
pub(super) fn prepare(op: &str, nodes: &mut [UOp]) {
    let Some(half) = HALF.get() else { return };
    let is_product = PRODUCTS.contains(&op);
    if !is_product && !WIDE.contains(&op) {
        return;
    }
    for node in nodes {
        match node.dtype() {
            DType::F32 if is_product => *node = node.cast(half),
            DType::F16 | DType::BF16 if !is_product => *node = node.cast(DType::F32),
            _ => {}
        }
    }
}

impl Tensor {
    /// Whether all elements are finite: no infinity and no NaN. A `bool` of no axes.
    #[track_caller]
    pub fn all_finite(&self) -> Tensor {
        // What is finite is 0 times itself, and nothing else is.
        (self * 0.0).eq(0.0).all(())
    }
}
