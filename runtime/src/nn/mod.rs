//! Layers and optimizers: plain structs of tensors.
//!
//! A layer has a method `forward`; its tensors that learn are found by [`Module::parameters`], and with their names by
//! [`Module::named_parameters`]; [`Module::state_dict`] goes to files (`formats`) and [`Module::load_state_dict`] comes from them. Nothing is recompiled from step to
//! step: numbers that change (learning rate, step count) are tensors too.

mod attention;
mod convolution;
mod decoder;
mod decoder_files;
mod generator;
mod linear;
mod module;
mod more_optim;
mod norm;
mod optim;
mod part;
mod recurrent;
mod residual;
mod sampler;
mod scaler;
mod schedule;
mod sentence;
mod sequential;
mod speech;
mod transformer;

pub use attention::{KeyValueCache, MultiHeadAttention, rotary};
pub use convolution::{Conv, Conv2d, ConvTranspose};
pub use decoder::{Decoder, DecoderLayer, DecoderSizes, stretched};
pub use generator::Generator;
pub use linear::{Embedding, Linear};
pub use module::{Module, Named, StateDifference};
pub use more_optim::{Lamb, Muon, RmsProp};
pub use norm::{BatchNorm, GroupNorm, InstanceNorm, LayerNorm, RmsNorm};
pub use optim::{Adam, Optimizer, Sgd, clip_by_norm};
pub use part::Part;
pub use recurrent::{Gru, Lstm, Recurrent, Rnn, Stacked};
pub use residual::{ResNet, ResidualBlock};
pub use sampler::Sampler;
pub use scaler::LossScaler;
pub use schedule::Schedule;
pub use sentence::{SentenceEncoder, SentenceSizes};
pub use sequential::{Activation, Dropout, Layer, Sequential};
pub use speech::{SAMPLE_RATE, SpeechEncoder, SpeechLayer, SpeechSizes, log_mel};
pub use transformer::EncoderLayer;
#[cfg(feature = "derive")]
pub use warpweft_derive::Module;

use crate::tensor::{Result, Tensor};

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

/// The same on the device that a tensor is on: what is computed together has to be.
#[track_caller]
fn filled_beside(tensor: &Tensor, shape: &[i64], value: f64) -> Result<Tensor> {
    let (made, device) = (filled(shape, value)?, tensor.device()?);
    if device == crate::tensor::files::DISK || device == made.device()? {
        return Ok(made);
    }
    let moved = made.to(&device);
    moved.realize()?;
    Ok(moved)
}

/// A number that an optimizer keeps beside its parameters, if there are any.
#[track_caller]
fn number_beside(parameters: &[Tensor], value: f64) -> Result<Tensor> {
    match parameters.first() {
        Some(parameter) => filled_beside(parameter, &[1], value),
        None => filled(&[1], value),
    }
}
