//! Loss scaling for training with half floats (Micikevicius et al., 2017): gradients are those of the loss times a factor, so that small ones are not lost.
//!
//! Gradients are divided by the factor again before the optimizer sees them. If one is not finite the step changes nothing but the factor, which is halved; after
//! some steps without that it is doubled. All of it is part of the step's program: nothing is looked at in between, and nothing is compiled anew.
//!
//! Tests: `runtime/tests/precision.rs`, against PyTorch's `GradScaler`.

use std::panic::Location;
use std::sync::Arc;

use warpweft_compiler::DType;

use super::{Optimizer, number_beside};
use crate::tensor::{CallError, Result, Tensor, within};

/// Whether two tensors are one: what is assigned to one the other shows.
fn is_same(a: &Tensor, b: &Tensor) -> bool {
    matches!((a.storage(), b.storage()), (Some(a), Some(b)) if Arc::ptr_eq(a, b))
}

/// The factor of a loss, and how it changes.
#[derive(Debug)]
pub struct LossScaler {
    factor: Tensor,
    /// Steps since the factor changed.
    steps: Tensor,
    /// What the factor is multiplied with after enough steps.
    growth: f64,
    /// What it is multiplied with when a gradient is not finite.
    backoff: f64,
    /// How many steps are enough.
    interval: f64,
}

impl LossScaler {
    /// With PyTorch's constants: a factor of 65,536, doubled after 2,000 steps, halved where a gradient is not finite.
    ///
    /// # Errors
    /// If there is no memory.
    #[track_caller]
    pub fn new(parameters: &[Tensor]) -> Result<LossScaler> {
        LossScaler::with(parameters, 65_536.0, 2.0, 0.5, 2000)
    }

    /// With given constants; on the device of the parameters.
    ///
    /// # Errors
    /// If a factor is not positive, growth is less than 1, or backoff more. If there is no memory.
    #[track_caller]
    pub fn with(parameters: &[Tensor], factor: f64, growth: f64, backoff: f64, interval: u32) -> Result<LossScaler> {
        let _call = within(Location::caller());
        let is_right = factor > 0.0 && factor.is_finite() && growth >= 1.0 && backoff > 0.0 && backoff <= 1.0;
        if !is_right || interval == 0 {
            let message = format!(
                "factor {factor}, growth {growth}, backoff {backoff}, interval {interval}: the factor and the interval must be above 0, growth 1 or more, \
                 backoff above 0 and at most 1"
            );
            return Err(CallError::new("LossScaler", &[], message, Location::caller()).into());
        }
        let (factor, steps) = (number_beside(parameters, factor)?, number_beside(parameters, 0.0)?);
        Ok(LossScaler { factor, steps, growth, backoff, interval: f64::from(interval) })
    }

    /// The factor, a tensor of one element.
    pub fn factor(&self) -> &Tensor {
        &self.factor
    }

    /// Gradients of a loss with regard to an optimizer's parameters, as `f32` and without the factor; and whether all are finite.
    ///
    /// # Errors
    /// As [`Tensor::gradient`].
    #[track_caller]
    pub fn gradients(&self, loss: &Tensor, optimizer: &dyn Optimizer) -> Result<(Vec<Tensor>, Tensor)> {
        let scaled = (loss.cast(DType::F32) * &self.factor).sum(());
        let gradients = scaled.gradient(&optimizer.parameters().iter().collect::<Vec<_>>())?;
        let mut finite = Tensor::full([1], true);
        let mut unscaled = Vec::with_capacity(gradients.len());
        for gradient in gradients {
            finite = finite.logical_and(gradient.all_finite());
            unscaled.push((gradient.cast(DType::F32) / &self.factor).reshape(gradient.dims()?));
        }
        Ok((unscaled, finite))
    }

    /// As [`Optimizer::update`], of gradients of which `finite` says whether all are ([`LossScaler::gradients`]): where not, all stays as it was, but for the factor.
    ///
    /// # Errors
    /// As [`Optimizer::update`]; if the optimizer changes tensors that its [`Optimizer::state`] does not name.
    #[track_caller]
    pub fn update(
        &mut self,
        optimizer: &mut dyn Optimizer,
        gradients: &[Tensor],
        finite: &Tensor,
    ) -> Result<Vec<Tensor>> {
        let _call = within(Location::caller());
        let kept: Vec<Tensor> = optimizer.parameters().iter().cloned().chain(optimizer.state()).collect();
        // Values as they are now, whatever is assigned afterwards.
        let before = kept.iter().map(|tensor| Ok(Tensor::from_uop(tensor.uop()?))).collect::<Result<Vec<Tensor>>>()?;
        let mut changed = optimizer.update(gradients)?;
        for tensor in &changed {
            let Some(at) = kept.iter().position(|known| is_same(known, tensor)) else {
                let message = "the optimizer changes a tensor that its `state` does not name, which a step that is left out would change too";
                return Err(CallError::new("LossScaler", &[], message, Location::caller()).into());
            };
            let value = finite.where_(tensor, &before[at]).reshape(tensor.dims()?);
            tensor.assign(value.cast(tensor.dtype()?).detach())?;
        }
        let steps = &self.steps + 1.0;
        let is_enough = steps.ge(self.interval);
        let grown = is_enough.where_(&self.factor * self.growth, &self.factor);
        // A factor beyond all floats would never come back.
        let grown = grown.all_finite().where_(&grown, &self.factor);
        let next = finite.where_(&grown, &self.factor * self.backoff);
        let counted = finite.where_(is_enough.where_(0.0, &steps), 0.0);
        self.factor.assign(next.reshape([1]).detach())?;
        self.steps.assign(counted.reshape([1]).cast(DType::F32).detach())?;
        changed.extend([self.factor.clone(), self.steps.clone()]);
        Ok(changed)
    }

    /// As [`Optimizer::step`], with the loss scaled.
    ///
    /// # Errors
    /// As [`Optimizer::step`] and [`LossScaler::update`].
    #[track_caller]
    pub fn step(&mut self, optimizer: &mut dyn Optimizer, loss: &Tensor) -> Result<()> {
        let (gradients, finite) = self.gradients(loss, optimizer)?;
        let changed = self.update(optimizer, &gradients, &finite)?;
        drop(gradients);
        let mut all: Vec<&Tensor> = changed.iter().collect();
        all.push(loss);
        Tensor::realize_all(&all)
    }
}
