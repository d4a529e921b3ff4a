//! Functions that search for faster kernels of theirs: `Function::tune`.
//!
//! The graph of the function is tuned as any program is (`search::programs`), and then compiled again, which finds the kernels that were found.
//! Always: a function that could not be tuned stays what it was; its clones do in any case. Tested in `runtime/tests/tune.rs`.

use std::sync::Arc;
use std::time::Duration;

use super::bindings::Draws;
use super::call::Program;
use super::trace::{compiled, normalized};
use super::{DynFunction, Function};
use crate::search::{Tuning, TuningProgress};
use crate::tensor::{Result, at};

/// What hears nothing of a search.
fn silent(_: TuningProgress) {}

impl Program {
    /// The same with the fastest kernels that were found.
    fn tuned(&self, budget: Duration, told: &mut dyn FnMut(TuningProgress)) -> Result<(Arc<Program>, Tuning)> {
        let parts = self.parts();
        let (_, normalized) = normalized(&parts, &Draws::of(&parts.draws), &self.packed)?;
        let tuning = self.executor.tune(&normalized.sink, budget, told)?;
        Ok((Arc::new(compiled(parts, self.packed.clone())?), tuning))
    }
}

impl<const N: usize, const M: usize> Function<N, M> {
    /// Searches for faster kernels, for about as long as the budget says, and uses them from the next call on. Kernels get shares of the budget by
    /// the time that a call spends in them; each list of opts that is tried is compared with the unoptimised kernel, and the winner is timed beside the
    /// choice by hand once more, so what was fast stays. Sums may be added in another order than before.
    ///
    /// What is found is kept in the cache's folder, so tuning the same function in a later process takes no search. Clones made before keep the
    /// kernels that they have; programs of this process that are compiled later and have the same kernels use the found ones too.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use warpweft::{DType, Tensor, compile, spec};
    /// let w = Tensor::rand([512, 512]);
    /// let mut layer = compile([spec(DType::F32, [64, 512])], |[x]| [x.matmul(&w).relu()])?;
    /// let tuning = layer.tune(Duration::from_secs(10))?;
    /// println!("{tuning}"); // a table: each kernel before and now, and its list of opts
    /// # Ok::<(), warpweft::Error>(())
    /// ```
    ///
    /// # Errors
    /// When its device runs kernels as they are (the interpreter), or memory for a kernel's buffers does not suffice. The function is then as it was.
    #[track_caller]
    pub fn tune(&mut self, budget: Duration) -> Result<Tuning> {
        self.tune_with(budget, &mut silent)
    }

    /// As [`Function::tune`]; `told` hears of each list that is tried.
    ///
    /// # Errors
    /// As [`Function::tune`].
    #[track_caller]
    pub fn tune_with(&mut self, budget: Duration, told: &mut dyn FnMut(TuningProgress)) -> Result<Tuning> {
        let (program, tuning) = self.0.tuned(budget, told).map_err(at(std::panic::Location::caller()))?;
        self.0 = program;
        Ok(tuning)
    }
}

impl DynFunction {
    /// As [`Function::tune`].
    ///
    /// # Errors
    /// As [`Function::tune`].
    #[track_caller]
    pub fn tune(&mut self, budget: Duration) -> Result<Tuning> {
        self.tune_with(budget, &mut silent)
    }

    /// As [`Function::tune_with`].
    ///
    /// # Errors
    /// As [`Function::tune`].
    #[track_caller]
    pub fn tune_with(&mut self, budget: Duration, told: &mut dyn FnMut(TuningProgress)) -> Result<Tuning> {
        let (program, tuning) = self.0.tuned(budget, told).map_err(at(std::panic::Location::caller()))?;
        self.0 = program;
        Ok(tuning)
    }
}
