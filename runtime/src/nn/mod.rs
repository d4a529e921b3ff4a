//! Layers and optimizers: plain structs of tensors.
//!
//! A layer has a method `forward`; its tensors that learn are found by [`Module::parameters`]. Nothing is recompiled from step to
//! step: numbers that change (learning rate, step count) are tensors too.

mod convolution;
mod linear;
mod norm;
mod optim;
mod sentence;
mod transformer;

pub use convolution::Conv2d;
pub use linear::{Embedding, Linear};
pub use norm::{BatchNorm, GroupNorm, LayerNorm, RmsNorm};
pub use optim::{Adam, Optimizer, Sgd};
pub use sentence::{SentenceEncoder, SentenceSizes};
pub use transformer::EncoderLayer;

use crate::tensor::{Result, Tensor};

/// Something with tensors that learn.
pub trait Module {
    /// The tensors that learn, in an order that does not change.
    fn parameters(&self) -> Vec<Tensor>;
}

/// Uniform numbers between -bound and bound, in memory: each layer's own.
#[track_caller]
fn uniform(shape: &[i64], bound: f64) -> Result<Tensor> {
    let tensor = Tensor::uniform(-bound, bound, shape.to_vec());
    tensor.realize()?;
    Ok(tensor)
}

/// One number everywhere, in memory of its own.
#[track_caller]
fn filled(shape: &[i64], value: f64) -> Result<Tensor> {
    let tensor = Tensor::full(shape.to_vec(), value);
    tensor.realize()?;
    Ok(tensor)
}
