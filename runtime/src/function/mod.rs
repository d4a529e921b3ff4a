//! Compiled functions: a closure over tensors, traced once, then called as one program.
//!
//! ```no_run
//! # use warpweft::{DType, Tensor, compile, spec};
//! # fn main() -> warpweft::Result<()> {
//! let layer = compile([spec(DType::F32, [8, 4]), spec(DType::F32, [4, 2])], |[x, w]| [x.matmul(&w).relu()])?;
//! let (x, w) = (Tensor::rand([8, 4]), Tensor::rand([4, 2]));
//! let [y] = layer.call([&x, &w])?;
//! # Ok(()) }
//! ```
//!
//! ```text
//! closure --trace--> graph over placeholders --schedule, compile--> Replay          once, in `compile`
//! call:  check arguments, bind memory --> launches over one arena --> new tensors   each time, in `call`
//! ```
//!
//! The closure runs once: what it computes with numbers of the host is fixed then. Tensors are not. A tensor of the outside that the closure
//! reads is read at each call; one that it assigns is assigned by each call: so a training step, with its weights, moments and random
//! numbers, is one function. Calls that assign one tensor come one after another, whichever functions they are of (`turn`).
//!
//! Always: results are new tensors, whatever the arguments are: lazy, views, the same tensor twice, results of earlier calls. A call that fails
//! has assigned nothing. No graph is built, hashed or scheduled by a call. No lock is held while kernels run,
//! but for tensors of the outside of which some elements are replaced in memory (`held`).
//! Not here: how a closure is watched (`tensor::trace`), how launches are replayed (`execute::replay`).

mod arguments;
mod batch;
mod bindings;
mod call;
mod checkpoint;
mod dynamic;
mod foreign;
mod held;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
mod trace;
mod tune;
mod turn;

use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use smallvec::SmallVec;
use warpweft_compiler::DType;
use warpweft_compiler::ir::{Dim, Shape};
use warpweft_compiler::memory_plan::Gain;

use crate::tensor::{Length, Result, Tensor, Var, at};
pub use batch::vmap;
use call::Program;
pub use checkpoint::checkpoint;
pub use dynamic::{DynFunction, compile_dyn, compile_dyn_with};
pub use foreign::Foreign;

/// What an argument of a function must be.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    dtype: DType,
    shape: Shape,
    device: Option<String>,
    donated: bool,
}

/// An argument of this type and shape, on the device that computes. A length may be symbolic.
pub fn spec(dtype: DType, shape: impl Into<Shape>) -> Spec {
    Spec { dtype, shape: shape.into(), device: None, donated: false }
}

impl Spec {
    /// The same on the device of that name.
    pub fn on(self, device: &str) -> Spec {
        Spec { device: Some(device.to_string()), ..self }
    }

    /// The same, given away: its memory may hold a result, and the caller's tensor has no value after the call.
    pub fn donated(self) -> Spec {
        Spec { donated: true, ..self }
    }
}

/// What a traced closure may give: tensors, or an error.
pub trait Outputs<const M: usize> {
    /// The tensors.
    ///
    /// # Errors
    /// The closure's.
    fn outputs(self) -> Result<[Tensor; M]>;
}

impl<const M: usize> Outputs<M> for [Tensor; M] {
    fn outputs(self) -> Result<[Tensor; M]> {
        Ok(self)
    }
}

impl<const M: usize> Outputs<M> for Result<[Tensor; M]> {
    fn outputs(self) -> Result<[Tensor; M]> {
        self
    }
}

/// A closure as a compiled program of `N` arguments and `M` results. Cloning shares it; any thread may call it.
#[derive(Clone)]
pub struct Function<const N: usize, const M: usize>(Arc<Program>);

// A call that ends in a panic leaves nothing half done: what it computed goes to tensors at its end.
impl<const N: usize, const M: usize> std::panic::UnwindSafe for Function<N, M> {}
impl<const N: usize, const M: usize> std::panic::RefUnwindSafe for Function<N, M> {}

/// Traces a closure over arguments of these specs, and compiles what it computes.
///
/// # Errors
/// When the closure gives an error or a tensor that carries one, asks for a value, works with memory of two devices, or gives a
/// shape that the arguments do not tell; when this thread traces already; when the program cannot be compiled.
#[track_caller]
pub fn compile<const N: usize, const M: usize, R: Outputs<M>>(
    specs: [Spec; N],
    closure: impl FnOnce([Tensor; N]) -> R,
) -> Result<Function<N, M>> {
    compile_with(&[], specs, closure)
}

/// As [`compile`], with variables that the caller gives values to, beside those that the shapes of arguments tell: a position in a
/// cache, say. Each is given at each call, by [`Function::call_with`].
///
/// # Errors
/// As [`compile`].
#[track_caller]
pub fn compile_with<const N: usize, const M: usize, R: Outputs<M>>(
    variables: &[&Var],
    specs: [Spec; N],
    closure: impl FnOnce([Tensor; N]) -> R,
) -> Result<Function<N, M>> {
    let location = Location::caller();
    let variables: Vec<_> = variables.iter().map(|variable| Dim::from(*variable).to_uop()).collect();
    let run = |arguments: Vec<Tensor>| match <[Tensor; N]>::try_from(arguments) {
        Ok(arguments) => closure(arguments).outputs().map(Vec::from),
        // One tensor was made for each spec.
        Err(_) => Ok(Vec::new()),
    };
    Ok(Function(Arc::new(trace::program(&variables, &specs, run, location).map_err(at(location))?)))
}

impl<const N: usize, const M: usize> Function<N, M> {
    /// Runs the function.
    ///
    /// # Errors
    /// When an argument is not what its spec says or has no value, or memory does not suffice.
    #[track_caller]
    pub fn call(&self, arguments: [&Tensor; N]) -> Result<[Tensor; M]> {
        self.run(&[], arguments, Location::caller())
    }

    /// As [`Function::call`], with values for variables.
    ///
    /// # Errors
    /// As [`Function::call`]; or when a variable has no value, one out of its bounds, or two.
    #[track_caller]
    pub fn call_with(&self, variables: &[(&Var, impl Length)], arguments: [&Tensor; N]) -> Result<[Tensor; M]> {
        self.run(&numbers(variables), arguments, Location::caller())
    }

    fn run(
        &self,
        variables: &[(&Var, i64)],
        arguments: [&Tensor; N],
        location: &'static Location<'static>,
    ) -> Result<[Tensor; M]> {
        let results = self.0.call(variables, &arguments, location).map_err(at(location))?;
        // There is one for each tensor that the closure gave.
        let missing = || Tensor::refused("call", "a result is missing");
        let mut results = results.into_iter();
        Ok(std::array::from_fn(|_| results.next().unwrap_or_else(missing)))
    }

    /// How many kernels a call launches.
    pub fn kernels(&self) -> usize {
        self.0.replay.plan.kernels.len()
    }

    /// What planning its memory gained.
    pub fn memory(&self) -> Gain {
        self.0.replay.plan.gain
    }
}

impl<const N: usize, const M: usize> fmt::Debug for Function<N, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&described(&self.0, M))
    }
}

/// Values of variables as lengths are.
fn numbers<'v>(variables: &[(&'v Var, impl Length)]) -> SmallVec<[(&'v Var, i64); 4]> {
    variables.iter().map(|(variable, value)| (*variable, value.length())).collect()
}

fn described(program: &Program, results: usize) -> String {
    let specs: Vec<String> = program.specs.iter().map(|spec| format!("{}{}", spec.dtype, spec.shape)).collect();
    format!("Function({}; {results} results, {} kernels)", specs.join(", "), program.replay.plan.kernels.len())
}
