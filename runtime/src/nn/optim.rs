//! Optimizers: what becomes of parameters, given their gradients.
//!
//! A step assigns new values to the parameters and to the optimizer's own tensors and computes them all in one program, together
//! with whatever the caller wants to know (the loss). Learning rate and step count are tensors, so that every step is the same program.

use super::{filled_beside, number_beside};
use crate::tensor::{CallError, Result, Tensor};

/// What an optimizer does.
pub trait Optimizer {
    /// The tensors that it changes.
    fn parameters(&self) -> &[Tensor];

    /// The tensors that it keeps beside them, which updates change too; a step that is left out ([`super::LossScaler`]) has to leave them alone.
    fn state(&self) -> Vec<Tensor> {
        Vec::new()
    }

    /// New values of the parameters and of the optimizer's own tensors, assigned but not computed; gives the tensors that were assigned.
    ///
    /// # Errors
    /// If a gradient carries an error or does not have its parameter's shape.
    fn update(&mut self, gradients: &[Tensor]) -> Result<Vec<Tensor>>;

    /// One step down the gradient of the loss; the loss is computed with it.
    ///
    /// # Errors
    /// If the loss does not depend on the parameters, has more than one element, or the program cannot run.
    #[track_caller]
    fn step(&mut self, loss: &Tensor) -> Result<()> {
        let gradients = loss.gradient(&self.parameters().iter().collect::<Vec<_>>())?;
        let changed = self.update(&gradients)?;
        // Nobody else shall need the old parameters: then the new ones take their place in memory.
        drop(gradients);
        let mut all: Vec<&Tensor> = changed.iter().collect();
        all.push(loss);
        Tensor::realize_all(&all)
    }
}

/// Gradients scaled down together so that the norm of all their elements is at most this, and that norm as it was, a tensor of one element.
///
/// # Errors
/// If a gradient carries one.
#[track_caller]
pub fn clip_by_norm(gradients: &[Tensor], most: f64) -> Result<(Vec<Tensor>, Tensor)> {
    let mut total = Tensor::zeros([1]);
    for gradient in gradients {
        gradient.dims()?;
        total = total + gradient.cast(warpweft_compiler::DType::F32).square().sum(());
    }
    let norm = total.sqrt();
    // As PyTorch does, which keeps away from 0 by this much.
    let factor = (most / (&norm + 1e-6)).minimum(1.0);
    let clipped = gradients.iter().map(|gradient| {
        let factor = factor.cast(gradient.dtype()?);
        Ok((gradient * factor).reshape(gradient.dims()?))
    });
    Ok((clipped.collect::<Result<_>>()?, norm))
}

/// A number between bounds, or an error that names it.
#[track_caller]
pub(super) fn check_rate(op: &'static str, name: &str, value: f64, below: f64) -> Result<()> {
    if value.is_finite() && (0.0..below).contains(&value) {
        return Ok(());
    }
    let message = format!("{name} {value} is out of range: it must be 0 or more and below {below}");
    Err(CallError { op, operands: Vec::new(), message, location: std::panic::Location::caller() }.into())
}

/// Gives constants (`Tensor::zeros` as a bias) memory of their own: whoever uses them from now on uses parameters.
#[track_caller]
pub(super) fn give_memory(parameters: &[Tensor]) -> Result<()> {
    let constants: Vec<&Tensor> = parameters.iter().filter(|parameter| parameter.is_constant()).collect();
    Tensor::realize_all(&constants)
}

/// Zeros of the shapes of tensors.
#[track_caller]
pub(super) fn zeros(tensors: &[Tensor]) -> Result<Vec<Tensor>> {
    let mut zeros = Vec::with_capacity(tensors.len());
    for tensor in tensors {
        let shape: Vec<i64> = tensor.shape()?.into_iter().map(|len| len as i64).collect();
        zeros.push(filled_beside(tensor, &shape, 0.0)?);
    }
    Ok(zeros)
}

/// Gradient descent, with momentum if wanted.
#[derive(Debug)]
pub struct Sgd {
    parameters: Vec<Tensor>,
    rate: Tensor,
    momentum: f64,
    dampening: f64,
    is_nesterov: bool,
    weight_decay: f64,
    velocities: Vec<Tensor>,
    /// 1 once there was a step: the first gives all of its gradient to the velocities.
    begun: Option<Tensor>,
}

impl Sgd {
    /// Steps of `rate` times the gradient.
    ///
    /// # Errors
    /// If a number is negative, or there is no memory.
    #[track_caller]
    pub fn new(parameters: Vec<Tensor>, rate: f64, momentum: f64, weight_decay: f64) -> Result<Sgd> {
        check_rate("Sgd", "learning rate", rate, f64::INFINITY)?;
        check_rate("Sgd", "momentum", momentum, f64::INFINITY)?;
        check_rate("Sgd", "weight decay", weight_decay, f64::INFINITY)?;
        give_memory(&parameters)?;
        let velocities = if momentum > 0.0 { zeros(&parameters)? } else { Vec::new() };
        let rate = number_beside(&parameters, rate)?;
        let (dampening, is_nesterov, begun) = (0.0, false, None);
        Ok(Sgd { parameters, rate, momentum, dampening, is_nesterov, weight_decay, velocities, begun })
    }

    /// The same with steps that look ahead (Nesterov's): along the gradient and the momentum that it leads to.
    ///
    /// # Errors
    /// If there is no momentum.
    #[track_caller]
    pub fn nesterov(self) -> Result<Sgd> {
        if self.velocities.is_empty() && !self.parameters.is_empty() {
            let message = "Nesterov's steps need momentum, and it is 0".to_string();
            let location = std::panic::Location::caller();
            return Err(CallError { op: "Sgd", operands: Vec::new(), message, location }.into());
        }
        Ok(Sgd { is_nesterov: true, ..self })
    }

    /// The same with 1 - `dampening` of each gradient added to the momentum, but all of the first one.
    ///
    /// # Errors
    /// If the number is not between 0 and 1, or there is no memory.
    #[track_caller]
    pub fn dampening(self, dampening: f64) -> Result<Sgd> {
        check_rate("Sgd", "dampening", dampening, 1.0 + f64::EPSILON)?;
        let begun = Some(number_beside(&self.parameters, 0.0)?);
        Ok(Sgd { dampening, begun, ..self })
    }

    /// The learning rate, a tensor of one element: assign to it to change the rate.
    #[track_caller]
    pub fn rate(&self) -> &Tensor {
        &self.rate
    }
}

impl Optimizer for Sgd {
    fn parameters(&self) -> &[Tensor] {
        &self.parameters
    }

    fn state(&self) -> Vec<Tensor> {
        self.velocities.iter().chain(&self.begun).cloned().collect()
    }

    fn update(&mut self, gradients: &[Tensor]) -> Result<Vec<Tensor>> {
        let mut changed = Vec::new();
        for (k, (parameter, gradient)) in self.parameters.iter().zip(gradients).enumerate() {
            let mut direction = gradient.clone();
            if self.weight_decay > 0.0 {
                direction = direction + parameter * self.weight_decay;
            }
            if let Some(velocity) = self.velocities.get(k) {
                let added = match &self.begun {
                    Some(begun) => &direction * (1.0 - begun * self.dampening),
                    None => direction.clone(),
                };
                velocity.assign((velocity * self.momentum + added).reshape(velocity.dims()?))?;
                direction = if self.is_nesterov { direction + velocity * self.momentum } else { velocity.clone() };
                changed.push(velocity.clone());
            }
            parameter.assign((parameter - direction * &self.rate).reshape(parameter.dims()?).detach())?;
            changed.push(parameter.clone());
        }
        if let Some(begun) = &self.begun {
            begun.assign(begun.ones_like())?;
            changed.push(begun.clone());
        }
        Ok(changed)
    }
}

/// Adam: steps of about `rate`, by running means of the gradient and of its square (Kingma and Ba, 2014).
#[derive(Debug)]
pub struct Adam {
    parameters: Vec<Tensor>,
    rate: Tensor,
    betas: (f64, f64),
    eps: f64,
    weight_decay: f64,
    /// The betas to the power of the steps done.
    powers: [Tensor; 2],
    means: Vec<Tensor>,
    squares: Vec<Tensor>,
}

impl Adam {
    /// With the usual constants: betas 0.9 and 0.999, eps 1e-8, no weight decay.
    ///
    /// # Errors
    /// If the rate is negative, or there is no memory.
    #[track_caller]
    pub fn new(parameters: Vec<Tensor>, rate: f64) -> Result<Adam> {
        Adam::with(parameters, rate, (0.9, 0.999), 1e-8, 0.0)
    }

    /// With given constants; the weights decay apart from the gradient (AdamW).
    ///
    /// # Errors
    /// If a number is out of range, or there is no memory.
    #[track_caller]
    pub fn with(parameters: Vec<Tensor>, rate: f64, betas: (f64, f64), eps: f64, weight_decay: f64) -> Result<Adam> {
        check_rate("Adam", "learning rate", rate, f64::INFINITY)?;
        check_rate("Adam", "beta", betas.0, 1.0)?;
        check_rate("Adam", "beta", betas.1, 1.0)?;
        check_rate("Adam", "weight decay", weight_decay, f64::INFINITY)?;
        give_memory(&parameters)?;
        let (means, squares) = (zeros(&parameters)?, zeros(&parameters)?);
        let powers = [number_beside(&parameters, 1.0)?, number_beside(&parameters, 1.0)?];
        let rate = number_beside(&parameters, rate)?;
        Ok(Adam { parameters, rate, betas, eps, weight_decay, powers, means, squares })
    }

    /// The learning rate, a tensor of one element: assign to it to change the rate.
    #[track_caller]
    pub fn rate(&self) -> &Tensor {
        &self.rate
    }
}

impl Optimizer for Adam {
    fn parameters(&self) -> &[Tensor] {
        &self.parameters
    }

    fn state(&self) -> Vec<Tensor> {
        [&self.powers[..], &self.means, &self.squares].concat()
    }

    fn update(&mut self, gradients: &[Tensor]) -> Result<Vec<Tensor>> {
        let (first, second) = self.betas;
        for (power, beta) in self.powers.iter().zip([first, second]) {
            power.assign(power * beta)?;
        }
        // Means that began at zero are too small by what the powers say.
        let step = &self.rate / (1.0 - &self.powers[0]);
        let scale = (1.0 - &self.powers[1]).sqrt();
        let mut changed: Vec<Tensor> = self.powers.to_vec();
        for (k, (parameter, gradient)) in self.parameters.iter().zip(gradients).enumerate() {
            let (mean, square) = (&self.means[k], &self.squares[k]);
            mean.assign(mean * first + gradient * (1.0 - first))?;
            square.assign(square * second + gradient.square() * (1.0 - second))?;
            let mut value = parameter.clone();
            if self.weight_decay > 0.0 {
                value = &value - &value * &self.rate * self.weight_decay;
            }
            let moved = value - &step * mean / (square.sqrt() / &scale + self.eps);
            parameter.assign(moved.reshape(parameter.dims()?).detach())?;
            changed.extend([mean.clone(), square.clone(), parameter.clone()]);
        }
        Ok(changed)
    }
}
