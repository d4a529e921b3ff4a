//! Layers one after another, and the ones that have no parameters.

use std::panic::Location;

use super::module::{Module, Named, below};
use super::{
    BatchNorm, Conv, Conv2d, ConvTranspose, Embedding, EncoderLayer, GroupNorm, InstanceNorm, LayerNorm, Linear,
    RmsNorm,
};
use crate::tensor::{Result, Tensor, within};

/// A module that makes one tensor of another.
pub trait Layer: Module {
    /// What the layer makes of x.
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor;

    /// The same while it learns, where that is something else: dropout drops, and batch normalisation goes by the batch.
    ///
    /// # Errors
    /// If a state of the layer cannot be assigned.
    #[track_caller]
    fn forward_training(&self, x: &Tensor) -> Result<Tensor> {
        Ok(self.forward(x))
    }
}

macro_rules! layers {
    ($($layer:ident)*) => { $(
        impl Layer for $layer {
            #[track_caller]
            fn forward(&self, x: &Tensor) -> Tensor {
                $layer::forward(self, x)
            }
        }
    )* };
}

layers! { Conv Conv2d ConvTranspose Embedding EncoderLayer GroupNorm InstanceNorm LayerNorm Linear RmsNorm }

impl Layer for BatchNorm {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        BatchNorm::forward(self, x)
    }

    #[track_caller]
    fn forward_training(&self, x: &Tensor) -> Result<Tensor> {
        BatchNorm::forward_training(self, x)
    }
}

/// A function without parameters, as `Activation(Tensor::relu)`.
#[derive(Clone, Copy, Debug)]
pub struct Activation(pub fn(&Tensor) -> Tensor);

impl Module for Activation {
    fn parameters(&self) -> Vec<Tensor> {
        Vec::new()
    }
}

impl Layer for Activation {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        self.0(x)
    }
}

/// While it learns, elements set to zero with this probability, the others scaled up to make up for it.
#[derive(Clone, Copy, Debug)]
pub struct Dropout(pub f64);

impl Module for Dropout {
    fn parameters(&self) -> Vec<Tensor> {
        Vec::new()
    }
}

impl Layer for Dropout {
    fn forward(&self, x: &Tensor) -> Tensor {
        x.clone()
    }

    fn forward_training(&self, x: &Tensor) -> Result<Tensor> {
        Ok(x.dropout(self.0))
    }
}

/// Layers one after another; names are their numbers.
#[derive(Default)]
pub struct Sequential {
    /// In their order.
    pub layers: Vec<Box<dyn Layer + Send + Sync>>,
}

impl Sequential {
    /// No layers yet.
    pub fn new() -> Sequential {
        Sequential::default()
    }

    /// With one more layer.
    ///
    /// ```
    /// # use warpweft::nn::{Activation, Layer, Linear, Module, Sequential};
    /// # use warpweft::Tensor;
    /// let network = Sequential::new().then(Linear::new(4, 8, true)?).then(Activation(Tensor::relu)).then(Linear::new(8, 2, false)?);
    /// assert_eq!(network.forward(&Tensor::ones([3, 4])).shape()?, [3, 2]);
    /// assert_eq!(network.named_parameters().into_iter().map(|(name, _)| name).collect::<Vec<_>>(), ["0.weight", "0.bias", "2.weight"]);
    /// # Ok::<(), warpweft::Error>(())
    /// ```
    #[must_use]
    pub fn then(mut self, layer: impl Layer + Send + Sync + 'static) -> Sequential {
        self.layers.push(Box::new(layer));
        self
    }

    fn named(&self, of: impl Fn(&dyn Layer) -> Named) -> Named {
        let layers = self.layers.iter().enumerate();
        layers.flat_map(|(number, layer)| below(&number.to_string(), of(&**layer))).collect()
    }
}

impl Module for Sequential {
    fn parameters(&self) -> Vec<Tensor> {
        self.layers.iter().flat_map(|layer| layer.parameters()).collect()
    }

    fn named_parameters(&self) -> Named {
        self.named(|layer| layer.named_parameters())
    }

    fn named_buffers(&self) -> Named {
        self.named(|layer| layer.named_buffers())
    }
}

impl Layer for Sequential {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let _call = within(Location::caller());
        self.layers.iter().fold(x.clone(), |x, layer| layer.forward(&x))
    }

    #[track_caller]
    fn forward_training(&self, x: &Tensor) -> Result<Tensor> {
        let _call = within(Location::caller());
        self.layers.iter().try_fold(x.clone(), |x, layer| layer.forward_training(&x))
    }
}
