//! Further optimizers: RMSProp, LAMB, Muon. Rules and constants are those of PyTorch's where it has them.

use super::number_beside;
use super::optim::{Optimizer, check_rate, give_memory, zeros};
use crate::tensor::{CallError, Result, Tensor};

/// RMSProp: steps of the gradient over the root of a running mean of its square.
#[derive(Debug)]
pub struct RmsProp {
    parameters: Vec<Tensor>,
    rate: Tensor,
    smoothing: f64,
    eps: f64,
    momentum: f64,
    weight_decay: f64,
    squares: Vec<Tensor>,
    velocities: Vec<Tensor>,
}

impl RmsProp {
    /// With `smoothing` 0.99 and eps 1e-8, as PyTorch has them.
    ///
    /// # Errors
    /// If a number is out of range, or there is no memory.
    #[track_caller]
    pub fn new(parameters: Vec<Tensor>, rate: f64, momentum: f64, weight_decay: f64) -> Result<RmsProp> {
        RmsProp::with(parameters, rate, 0.99, 1e-8, momentum, weight_decay)
    }

    /// With given constants.
    ///
    /// # Errors
    /// If a number is out of range, or there is no memory.
    #[track_caller]
    pub fn with(
        parameters: Vec<Tensor>,
        rate: f64,
        smoothing: f64,
        eps: f64,
        momentum: f64,
        weight_decay: f64,
    ) -> Result<RmsProp> {
        check_rate("RmsProp", "learning rate", rate, f64::INFINITY)?;
        check_rate("RmsProp", "smoothing", smoothing, 1.0)?;
        check_rate("RmsProp", "momentum", momentum, f64::INFINITY)?;
        check_rate("RmsProp", "weight decay", weight_decay, f64::INFINITY)?;
        give_memory(&parameters)?;
        let squares = zeros(&parameters)?;
        let velocities = if momentum > 0.0 { zeros(&parameters)? } else { Vec::new() };
        let rate = number_beside(&parameters, rate)?;
        Ok(RmsProp { parameters, rate, smoothing, eps, momentum, weight_decay, squares, velocities })
    }

    /// The learning rate, a tensor of one element: assign to it to change the rate.
    pub fn rate(&self) -> &Tensor {
        &self.rate
    }
}

impl Optimizer for RmsProp {
    fn parameters(&self) -> &[Tensor] {
        &self.parameters
    }

    fn state(&self) -> Vec<Tensor> {
        [&self.squares[..], &self.velocities].concat()
    }

    fn update(&mut self, gradients: &[Tensor]) -> Result<Vec<Tensor>> {
        let mut changed = Vec::new();
        for (k, (parameter, gradient)) in self.parameters.iter().zip(gradients).enumerate() {
            let mut direction = gradient.clone();
            if self.weight_decay > 0.0 {
                direction = direction + parameter * self.weight_decay;
            }
            let square = &self.squares[k];
            square.assign(square * self.smoothing + direction.square() * (1.0 - self.smoothing))?;
            direction = direction / (square.sqrt() + self.eps);
            changed.push(square.clone());
            if let Some(velocity) = self.velocities.get(k) {
                velocity.assign(velocity * self.momentum + direction)?;
                direction = velocity.clone();
                changed.push(velocity.clone());
            }
            parameter.assign((parameter - direction * &self.rate).reshape(parameter.dims()?).detach())?;
            changed.push(parameter.clone());
        }
        Ok(changed)
    }
}

/// LAMB: Adam's direction, scaled for each tensor to the size of its parameters, for large batches (You et al., 2019).
#[derive(Debug)]
pub struct Lamb {
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

impl Lamb {
    /// With given constants; the original has betas 0.9 and 0.999, eps 1e-6 and weight decay 0.01.
    ///
    /// # Errors
    /// If a number is out of range, or there is no memory.
    #[track_caller]
    pub fn new(parameters: Vec<Tensor>, rate: f64, betas: (f64, f64), eps: f64, weight_decay: f64) -> Result<Lamb> {
        check_rate("Lamb", "learning rate", rate, f64::INFINITY)?;
        check_rate("Lamb", "beta", betas.0, 1.0)?;
        check_rate("Lamb", "beta", betas.1, 1.0)?;
        check_rate("Lamb", "weight decay", weight_decay, f64::INFINITY)?;
        give_memory(&parameters)?;
        let (means, squares) = (zeros(&parameters)?, zeros(&parameters)?);
        let powers = [number_beside(&parameters, 1.0)?, number_beside(&parameters, 1.0)?];
        let rate = number_beside(&parameters, rate)?;
        Ok(Lamb { parameters, rate, betas, eps, weight_decay, powers, means, squares })
    }

    /// The learning rate, a tensor of one element: assign to it to change the rate.
    pub fn rate(&self) -> &Tensor {
        &self.rate
    }
}

impl Optimizer for Lamb {
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
        let mut changed: Vec<Tensor> = self.powers.to_vec();
        for (k, (parameter, gradient)) in self.parameters.iter().zip(gradients).enumerate() {
            let (mean, square) = (&self.means[k], &self.squares[k]);
            mean.assign(mean * first + gradient * (1.0 - first))?;
            square.assign(square * second + gradient.square() * (1.0 - second))?;
            let (mean_now, square_now) = (mean / (1.0 - &self.powers[0]), square / (1.0 - &self.powers[1]));
            let direction = mean_now / (square_now.sqrt() + self.eps) + parameter * self.weight_decay;
            let (own, step) = (parameter.square().sum(()).sqrt(), direction.square().sum(()).sqrt());
            // Where one of them is nothing, the step is as long as it is.
            let is_usual = own.gt(0.0).bitwise_and(step.gt(0.0));
            let trust = is_usual.where_(&own / step.maximum(f64::from(f32::MIN_POSITIVE)), 1.0);
            let moved = parameter - direction * trust * &self.rate;
            parameter.assign(moved.reshape(parameter.dims()?).detach())?;
            changed.extend([mean.clone(), square.clone(), parameter.clone()]);
        }
        Ok(changed)
    }
}

/// Muon: momentum made nearly orthogonal, for the matrices within a network (Jordan et al., 2024). Other parameters want another optimizer.
#[derive(Debug)]
pub struct Muon {
    parameters: Vec<Tensor>,
    rate: Tensor,
    momentum: f64,
    weight_decay: f64,
    velocities: Vec<Tensor>,
}

/// Coefficients of the iteration that brings singular values near to 1, and how often it runs.
const ITERATION: (f64, f64, f64) = (3.4445, -4.775, 2.0315);
const ITERATIONS: usize = 5;

impl Muon {
    /// Of matrices. PyTorch begins with a rate of 1e-3, momentum 0.95 (Nesterov's) and weight decay 0.1.
    ///
    /// # Errors
    /// If a parameter is no matrix, a number is out of range, or there is no memory.
    #[track_caller]
    pub fn new(parameters: Vec<Tensor>, rate: f64, momentum: f64, weight_decay: f64) -> Result<Muon> {
        check_rate("Muon", "learning rate", rate, f64::INFINITY)?;
        check_rate("Muon", "momentum", momentum, f64::INFINITY)?;
        check_rate("Muon", "weight decay", weight_decay, f64::INFINITY)?;
        for parameter in &parameters {
            let shape = parameter.shape()?;
            if shape.len() != 2 {
                let message = format!("its parameters are matrices, not {shape:?}: give others to another optimizer");
                return Err(CallError::new("Muon", &[], message, std::panic::Location::caller()).into());
            }
        }
        give_memory(&parameters)?;
        let velocities = zeros(&parameters)?;
        let rate = number_beside(&parameters, rate)?;
        Ok(Muon { parameters, rate, momentum, weight_decay, velocities })
    }

    /// The learning rate, a tensor of one element: assign to it to change the rate.
    pub fn rate(&self) -> &Tensor {
        &self.rate
    }
}

/// A matrix with the same singular vectors, and singular values near to 1.
fn orthogonal(matrix: &Tensor, rows: usize, columns: usize) -> Tensor {
    let (a, b, c) = ITERATION;
    let mut x = if rows > columns { matrix.t() } else { matrix.clone() };
    x = &x / x.square().sum(()).sqrt().maximum(1e-7);
    for _ in 0..ITERATIONS {
        let gram = x.matmul(&x.t());
        let change = &gram * b + gram.matmul(&gram) * c;
        x = &x * a + change.matmul(&x);
    }
    if rows > columns { x.t() } else { x }
}

impl Optimizer for Muon {
    fn parameters(&self) -> &[Tensor] {
        &self.parameters
    }

    fn state(&self) -> Vec<Tensor> {
        self.velocities.clone()
    }

    fn update(&mut self, gradients: &[Tensor]) -> Result<Vec<Tensor>> {
        let mut changed = Vec::new();
        for ((parameter, gradient), velocity) in self.parameters.iter().zip(gradients).zip(&self.velocities) {
            velocity.assign(velocity * self.momentum + gradient * (1.0 - self.momentum))?;
            let ahead = gradient * (1.0 - self.momentum) + velocity * self.momentum;
            let shape = parameter.shape()?;
            let (rows, columns) = (shape[0], shape[1]);
            let scale = (rows as f64 / columns.max(1) as f64).max(1.0).sqrt();
            let kept = parameter - parameter * &self.rate * self.weight_decay;
            let moved = kept - orthogonal(&ahead, rows, columns) * (&self.rate * scale);
            parameter.assign(moved.reshape(parameter.dims()?).detach())?;
            changed.extend([velocity.clone(), parameter.clone()]);
        }
        Ok(changed)
    }
}
