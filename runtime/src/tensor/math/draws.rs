//! Draws by weights: of each element by itself, and of indices of a line.
//!
//! Tested in tests/it/selecting.rs, by how often each comes.

use std::panic::Location;

use super::order::line_of;
use crate::DType;
use crate::tensor::errors::{CallError, within};
use crate::tensor::factor::built;
use crate::tensor::{Length, Tensor};

/// Draws by weights; numbers depend on the seed and on how many draws came before, on nothing else.
impl Tensor {
    /// 1 with the probability that each element is, else 0, in the type of this.
    ///
    /// ```
    /// # use warpweft::Tensor;
    /// assert_eq!(Tensor::from_vec(vec![0f32, 1.0], [2]).bernoulli().to_vec::<f32>()?, [0.0, 1.0]);
    /// # Ok::<(), warpweft::Error>(())
    /// ```
    #[track_caller]
    pub fn bernoulli(&self) -> Tensor {
        built((|| {
            if !self.dtype()?.is_float() {
                return Err(self.refused_call("bernoulli", "probabilities are floats"));
            }
            Ok(Tensor::rand(self.dims()?).lt(self.cast(DType::F32)).cast(self.dtype()?))
        })())
    }

    /// So many indices of the last axis, drawn as often as the elements say, which need not sum to 1; `i32`. Without `replacement` no index comes twice.
    ///
    /// ```
    /// # use warpweft::Tensor;
    /// let weights = Tensor::from_vec(vec![0f32, 3.0, 0.0], [3]);
    /// assert_eq!(weights.multinomial(4, true).to_vec::<i32>()?, [1, 1, 1, 1]);
    /// # Ok::<(), warpweft::Error>(())
    /// ```
    #[track_caller]
    pub fn multinomial(&self, samples: impl Length, replacement: bool) -> Tensor {
        let samples = samples.length();
        let location = Location::caller();
        let _call = within(location);
        built((|| {
            let (axis, length) = line_of("multinomial", self, -1, location)?;
            let refuse = |message: &str| Err(CallError::new("multinomial", &[&self.uop()?], message, location).into());
            if !self.dtype()?.is_float() || self.rank()? > 2 {
                return refuse("weights are floats in one axis or two");
            }
            if samples < 1 || (!replacement && samples > length) {
                return refuse(
                    "there must be one sample at least, and without replacement no more than there are elements",
                );
            }
            let weights = self.detach().cast(DType::F32);
            if !replacement {
                // Of waiting times that are drawn by rates, the shortest.
                let dims = self.dims()?;
                let times = -(1.0 - Tensor::rand(dims)).log() / weights.gt(0.0).where_(&weights, 1.0);
                let times = weights.gt(0.0).where_(times, f64::INFINITY);
                return Ok(times.topk(samples, axis, false)?.1);
            }
            let dims = self.dims()?;
            let outer = dims[..dims.len() - 1].iter().cloned();
            let shape: crate::tensor::Dims = outer.chain([samples.into()]).collect();
            let running = weights.cast(DType::F64).cumsum(axis).contiguous();
            let drawn = Tensor::rand_of(shape, DType::F64) * running.narrow(axis, length - 1, 1);
            Ok(running.searchsorted(&drawn, true).clamp(None, Some((length - 1).into())))
        })())
    }
}
