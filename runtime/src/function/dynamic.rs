//! Functions whose numbers of arguments and results are known when the program runs: of a server that reads its models, say.
//!
//! The same program as a [`Function`]'s, behind slices in the place of arrays. Also here: results that go to tensors that the caller has.
//! Tested in `runtime/tests/dynamic.rs`.

use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use warpweft_compiler::ir::Dim;
use warpweft_compiler::memory_plan::Gain;

use super::call::{Program, Target};
use super::{Function, Spec, described, numbers, trace};
use crate::tensor::{CallError, Error, Length, Result, Tensor, Var, at};

/// A closure as a compiled program of any numbers of arguments and results. Cloning shares it; any thread may call it.
#[derive(Clone)]
pub struct DynFunction(pub(super) Arc<Program>);

// As `Function`.
impl std::panic::UnwindSafe for DynFunction {}
impl std::panic::RefUnwindSafe for DynFunction {}

/// As [`super::compile`], of a closure over a list of tensors.
///
/// ```
/// # use warpweft::{DType, Tensor, compile_dyn, spec};
/// let specs = [spec(DType::F32, [2]), spec(DType::F32, [2])];
/// let sums = compile_dyn(&specs, |tensors| Ok(tensors.iter().map(|tensor| tensor.sum(())).collect()))?;
/// let (a, b) = (Tensor::ones([2]), Tensor::zeros([2]));
/// let results = sums.call(&[&a, &b])?;
/// assert_eq!((results[0].item::<f32>()?, results[1].item::<f32>()?), (2.0, 0.0));
/// # Ok::<(), warpweft::Error>(())
/// ```
///
/// # Errors
/// As [`super::compile`].
#[track_caller]
pub fn compile_dyn(specs: &[Spec], closure: impl FnOnce(Vec<Tensor>) -> Result<Vec<Tensor>>) -> Result<DynFunction> {
    compile_dyn_with(&[], specs, closure)
}

/// As [`compile_dyn`], with variables that the caller gives values to, as [`super::compile_with`].
///
/// # Errors
/// As [`super::compile`].
#[track_caller]
pub fn compile_dyn_with(
    variables: &[&Var],
    specs: &[Spec],
    closure: impl FnOnce(Vec<Tensor>) -> Result<Vec<Tensor>>,
) -> Result<DynFunction> {
    let location = Location::caller();
    let variables: Vec<_> = variables.iter().map(|variable| Dim::from(*variable).to_uop()).collect();
    Ok(DynFunction(Arc::new(trace::program(&variables, specs, closure, location).map_err(at(location))?)))
}

impl DynFunction {
    /// How many arguments it takes.
    pub fn arguments(&self) -> usize {
        self.0.specs.len()
    }

    /// How many results it gives.
    pub fn results(&self) -> usize {
        self.0.results()
    }

    /// Runs the function.
    ///
    /// # Errors
    /// As [`Function::call`]; or when there are too few or too many arguments.
    #[track_caller]
    pub fn call(&self, arguments: &[&Tensor]) -> Result<Vec<Tensor>> {
        self.run(&[], arguments, Location::caller())
    }

    /// As [`DynFunction::call`], with values for variables.
    ///
    /// # Errors
    /// As [`DynFunction::call`]; or when a variable has no value, one out of its bounds, or two.
    #[track_caller]
    pub fn call_with(&self, variables: &[(&Var, impl Length)], arguments: &[&Tensor]) -> Result<Vec<Tensor>> {
        self.run(&numbers(variables), arguments, Location::caller())
    }

    fn run(
        &self,
        variables: &[(&Var, i64)],
        arguments: &[&Tensor],
        location: &'static Location<'static>,
    ) -> Result<Vec<Tensor>> {
        self.0.check_count("arguments", self.arguments(), arguments.len(), location)?;
        self.0.call(variables, arguments, location).map_err(at(location))
    }

    /// Runs the function and gives its results to tensors, which hold them then; their views show them.
    ///
    /// # Errors
    /// As [`DynFunction::call`]; or when an output is not of its result's type and shape. Then nothing was run.
    #[track_caller]
    pub fn call_into(&self, arguments: &[&Tensor], outputs: &[&Tensor]) -> Result<()> {
        let location = Location::caller();
        self.0.check_count("arguments", self.arguments(), arguments.len(), location)?;
        self.0.call_into(arguments, outputs, location).map_err(at(location))
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

impl<const N: usize, const M: usize> From<&Function<N, M>> for DynFunction {
    fn from(function: &Function<N, M>) -> DynFunction {
        DynFunction(function.0.clone())
    }
}

impl<const N: usize, const M: usize> Function<N, M> {
    /// Runs the function and gives its results to tensors, which hold them then; their views show them.
    ///
    /// # Errors
    /// As [`Function::call`]; or when an output is not of its result's type and shape. Then nothing was run.
    #[track_caller]
    pub fn call_into(&self, arguments: [&Tensor; N], outputs: [&Tensor; M]) -> Result<()> {
        let location = Location::caller();
        self.0.call_into(&arguments, &outputs, location).map_err(at(location))
    }
}

impl Program {
    fn results(&self) -> usize {
        self.values.iter().filter(|value| matches!(value.target, Target::Result(_))).count()
    }

    pub(super) fn check_count(
        &self,
        what: &str,
        wanted: usize,
        given: usize,
        location: &'static Location<'static>,
    ) -> Result<()> {
        if given == wanted {
            return Ok(());
        }
        let message = format!("the function has {wanted} {what}, and {given} are given");
        Err(CallError::new("call", &[], message, location).into())
    }

    fn call_into(
        &self,
        arguments: &[&Tensor],
        outputs: &[&Tensor],
        location: &'static Location<'static>,
    ) -> Result<()> {
        self.check_count("results", self.results(), outputs.len(), location)?;
        for value in &self.values {
            let Target::Result(number) = value.target else { continue };
            let (output, wanted) = (outputs[number].uop()?, &value.node);
            // A symbolic length is known when the function has run, and must fit then.
            let pairs = output.shape().iter().zip(value.shape.iter());
            let fits = pairs.into_iter().all(|(a, b)| a == b || a.as_const().is_none() || b.as_const().is_none());
            if output.dtype() != wanted.dtype() || output.shape().len() != value.shape.len() || !fits {
                let message = format!("output {number} must be {}{}", wanted.dtype(), value.shape);
                return Err(Error::from(CallError::new("call_into", &[&output], message, location)));
            }
        }
        let results = self.call(&[], arguments, location)?;
        outputs.iter().zip(&results).try_for_each(|(output, result)| output.take(result, location))
    }
}

impl fmt::Debug for DynFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&described(&self.0, self.results()))
    }
}
