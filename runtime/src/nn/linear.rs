//! Layers that are one matrix.

use super::module::{Module, parameters};
use super::uniform;
use crate::tensor::{Length, Result, Tensor};

/// x times the transpose of a weight [out, in], plus a bias.
#[derive(Clone, Debug)]
pub struct Linear {
    /// The matrix, [out, in].
    pub weight: Tensor,
    /// One number for each output.
    pub bias: Option<Tensor>,
}

impl Linear {
    /// Random numbers within 1 / sqrt(inputs), as PyTorch begins.
    ///
    /// # Errors
    /// If there is no memory.
    #[track_caller]
    pub fn new(inputs: impl Length, outputs: impl Length, bias: bool) -> Result<Linear> {
        let (inputs, outputs) = (inputs.length(), outputs.length());
        let bound = 1.0 / (inputs.max(1) as f64).sqrt();
        let bias = if bias { Some(uniform(&[outputs], bound)?) } else { None };
        Ok(Linear { weight: uniform(&[outputs, inputs], bound)?, bias })
    }

    /// What the layer makes of x [.., in].
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        x.linear(&self.weight, self.bias.as_ref())
    }
}

parameters! { Linear: weight ?bias }

/// A table of rows that integers name.
#[derive(Clone, Debug)]
pub struct Embedding {
    /// The table, [entries, width].
    pub weight: Tensor,
}

impl Embedding {
    /// Normal random numbers.
    ///
    /// # Errors
    /// If there is no memory.
    #[track_caller]
    pub fn new(entries: impl Length, width: impl Length) -> Result<Embedding> {
        let weight = Tensor::randn([entries.length(), width.length()]);
        weight.realize()?;
        Ok(Embedding { weight })
    }

    /// The rows that the indices name.
    #[track_caller]
    pub fn forward(&self, index: &Tensor) -> Tensor {
        self.weight.embedding(index)
    }
}

parameters! { Embedding: weight }
