//! Learning rates that change from step to step: a number of the step, which a program assigns to its optimizer's rate.

use crate::tensor::{Result, Tensor};

/// What a rate is at each step.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Schedule {
    /// The same always.
    Constant(f64),
    /// Times `factor` after each `every` steps.
    Steps {
        /// At first.
        rate: f64,
        /// Steps between changes.
        every: u64,
        /// What it is multiplied with.
        factor: f64,
    },
    /// Times `factor` at each step.
    Exponential {
        /// At first.
        rate: f64,
        /// What it is multiplied with.
        factor: f64,
    },
    /// Down half a cosine to `least` in so many steps, and then no further.
    Cosine {
        /// At first.
        rate: f64,
        /// At last.
        least: f64,
        /// Steps to there.
        steps: u64,
    },
    /// In a line from one rate to another in so many steps, and then no further.
    Linear {
        /// At first.
        rate: f64,
        /// At last.
        last: f64,
        /// Steps to there.
        steps: u64,
    },
    /// One for so many steps, then the other from its beginning.
    Then(Box<Schedule>, u64, Box<Schedule>),
}

impl Schedule {
    /// Up in a line from 0 to the first rate of a schedule in so many steps, and then that schedule.
    #[must_use]
    pub fn after_warmup(self, steps: u64) -> Schedule {
        let warmup = Schedule::Linear { rate: 0.0, last: self.at(0), steps };
        Schedule::Then(Box::new(warmup), steps, Box::new(self))
    }

    /// The rate of a step, counted from 0.
    pub fn at(&self, step: u64) -> f64 {
        // A share of the way, at most all of it.
        let share = |steps: u64| if steps == 0 { 1.0 } else { step.min(steps) as f64 / steps as f64 };
        match self {
            Schedule::Constant(rate) => *rate,
            Schedule::Steps { rate, every, factor } => rate * factor.powf((step / every.max(&1)) as f64),
            Schedule::Exponential { rate, factor } => rate * factor.powf(step as f64),
            Schedule::Cosine { rate, least, steps } => {
                least + (rate - least) * (1.0 + (std::f64::consts::PI * share(*steps)).cos()) / 2.0
            }
            Schedule::Linear { rate, last, steps } => rate + (last - rate) * share(*steps),
            Schedule::Then(first, steps, then) => match step.checked_sub(*steps) {
                Some(step) => then.at(step),
                None => first.at(step),
            },
        }
    }

    /// Assigns the rate of a step to an optimizer's (`optimizer.rate()`); no program changes by that.
    ///
    /// # Errors
    /// If there is no memory.
    #[track_caller]
    pub fn set(&self, rate: &Tensor, step: u64) -> Result<()> {
        rate.assign(Tensor::from_vec(vec![self.at(step) as f32], [1]))?;
        rate.realize()?;
        Ok(())
    }
}
