//! Calls on memory of other libraries, which goes in and out as capsules of DLPack.
//!
//! Most such calls are of functions that only compute: they assign nothing, draw nothing, and all lengths are numbers. Of these the memory goes straight to the kernels, and no tensor is made for an
//! argument or a result: that is most of what a call of a small function costs. Any other call goes by tensors.
//!
//! Always: results are memory of their own, which the caller may write to. Tested in `runtime/tests/foreign.rs`.

use std::panic::Location;

use smallvec::SmallVec;
use warpweft_compiler::DType;
use warpweft_compiler::ir::{Dim, Shape};
use warpweft_devices::dlpack::{Capsule, Layout};

use super::arguments::Given;
use super::call::{Program, Source, Target};
use super::dynamic::DynFunction;
use super::numbers;
use crate::execute::{self, ExecuteError, Pieces};
use crate::memory::Buffer;
use crate::tensor::trace;
use crate::tensor::{CallError, Length, Result, Tensor, Var, at};

/// An argument of [`DynFunction::call_foreign`].
#[derive(Debug)]
pub enum Foreign {
    /// Memory of another library.
    Memory(Capsule),
    /// A tensor.
    Tensor(Tensor),
}

/// What there is to know of a function that only computes, so that its calls need not ask: of results types, lengths and the pieces of memory.
#[derive(Debug)]
pub(super) struct Plain {
    arguments: Vec<(DType, Vec<i64>)>,
    results: Vec<(usize, Layout)>,
}

impl DynFunction {
    /// Runs the function on memory of other libraries and on tensors, with values for variables, and gives results to other libraries, which may write to them.
    ///
    /// Arguments are read where they lie; those whose elements do not lie in a row are copied first. Results are given away.
    ///
    /// ```
    /// # use warpweft::tensor::Var;
    /// # use warpweft::{DType, Tensor, compile_dyn, function::Foreign, spec};
    /// let doubles = compile_dyn(&[spec(DType::F32, [2])], |tensors| Ok(vec![&tensors[0] * 2.0]))?;
    /// let given = Foreign::Memory(Tensor::from_vec(vec![1f32, 2.0], [2]).to_dlpack()?);
    /// let capsule = doubles.call_foreign(&[] as &[(&Var, i64)], vec![given])?.remove(0);
    /// assert_eq!(Tensor::from_dlpack(capsule).to_vec::<f32>()?, [2.0, 4.0]);
    /// # Ok::<(), warpweft::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`DynFunction::call_with`] and [`Tensor::into_dlpack`]; or when a capsule makes no sense, as [`Tensor::from_dlpack`] says.
    #[track_caller]
    pub fn call_foreign(&self, variables: &[(&Var, impl Length)], arguments: Vec<Foreign>) -> Result<Vec<Capsule>> {
        let location = Location::caller();
        let program = &self.0;
        program.check_count("arguments", self.arguments(), arguments.len(), location)?;
        if let Some(plain) = program.plain.as_ref().filter(|plain| variables.is_empty() && plain.fits(&arguments)) {
            return program.call_plain(plain, arguments, location).map_err(at(location));
        }
        let tensor = |argument| match argument {
            Foreign::Memory(capsule) => Tensor::from_dlpack(capsule),
            Foreign::Tensor(tensor) => tensor,
        };
        let tensors: Vec<Tensor> = arguments.into_iter().map(tensor).collect();
        let results = program.call(&numbers(variables), &tensors.iter().collect::<Vec<_>>(), location);
        results.map_err(at(location))?.into_iter().map(Tensor::into_dlpack).collect()
    }
}

impl Plain {
    /// What there is to know of a program, if it only computes.
    pub(super) fn of(program: &Program) -> Option<Plain> {
        let nothing_else = program.states.is_empty()
            && program.draws.is_empty()
            && program.checks.is_empty()
            && program.replay.variables.is_empty()
            && program.specs.iter().all(|spec| !spec.donated)
            && program.executor.allocator().device().uses_host_memory();
        let is_read = |source: &Source| matches!(source, Source::Argument(_) | Source::Constant(..));
        if !nothing_else || !program.sources.iter().all(is_read) {
            return None;
        }
        let arguments =
            program.specs.iter().map(|spec| Some((spec.dtype, lengths(&spec.shape)?))).collect::<Option<_>>()?;
        let mut results: Vec<(usize, Layout)> = Vec::new();
        for (number, value) in program.values.iter().enumerate() {
            let piece = program.replay.piece_of(number);
            let is_own = piece >= program.sources.len() && results.iter().all(|(other, _)| *other != piece);
            if value.target != Target::Result(number) || !is_own {
                return None;
            }
            let shape = lengths(&value.shape)?;
            let strides = Shape::from(shape.clone()).row_major_strides().iter().map(Dim::max_value).collect();
            results.push((piece, Layout { dtype: value.node.dtype(), shape, strides, offset: 0 }));
        }
        Some(Plain { arguments, results })
    }

    /// Whether all memory lies in row-major order, in the types and lengths that the function was compiled for.
    fn fits(&self, arguments: &[Foreign]) -> bool {
        !trace::is_active()
            && self.arguments.iter().zip(arguments).all(|((dtype, shape), argument)| match argument {
                Foreign::Memory(capsule) => capsule.is_row_major(*dtype, shape),
                Foreign::Tensor(_) => true,
            })
    }
}

/// The lengths of a shape, if they are numbers and there are elements.
fn lengths(shape: &Shape) -> Option<Vec<i64>> {
    let lengths: Vec<i64> = shape.iter().map(|dim| dim.as_const()).collect::<Option<_>>()?;
    (!lengths.contains(&0)).then_some(lengths)
}

impl Program {
    /// Runs it over memory.
    fn call_plain(
        &self,
        plain: &Plain,
        arguments: Vec<Foreign>,
        location: &'static Location<'static>,
    ) -> Result<Vec<Capsule>> {
        let wrong = |error: String| CallError::new("call", &[], error, location);
        let mut given: SmallVec<[Buffer; 8]> = SmallVec::new();
        // Nobody writes to the memory of tensors as long as their nodes are held.
        let mut held: SmallVec<[Given; 4]> = SmallVec::new();
        for (number, argument) in arguments.into_iter().enumerate() {
            given.push(match argument {
                Foreign::Memory(capsule) => {
                    let (memory, _) = capsule.into_memory().map_err(|error| wrong(error.to_string()))?;
                    self.executor.adopted(memory)?
                }
                Foreign::Tensor(tensor) => {
                    let found = self.given(number, &tensor, location)?;
                    held.push(found);
                    held[held.len() - 1].memory.clone()
                }
            });
        }
        let mut pieces = Pieces::new();
        for source in &self.sources {
            pieces.push(match source {
                Source::Argument(number) => given[*number].clone(),
                Source::Constant(memory, _) => memory.clone(),
                Source::State(_) => return Err(wrong("bug: a state in a plain function".to_string()).into()),
            });
        }
        pieces.extend(self.replay.stored().map(|buffer| self.executor.memory_for(&self.replay.plan, buffer)));
        self.executor.replay(&self.replay, &mut pieces, &[])?;
        self.executor.finish()?;
        let memory: SmallVec<[_; 4]> = plain
            .results
            .iter()
            .map(|(piece, _)| pieces[*piece].shared_memory().map_err(ExecuteError::from))
            .collect::<std::result::Result<_, execute::ExecuteError>>()?;
        drop((pieces, given, held));
        let results = memory.into_iter().zip(&plain.results);
        results
            .map(|(memory, (_, layout))| {
                Capsule::of_memory(memory, layout, true).map_err(|error| wrong(error.to_string()).into())
            })
            .collect()
    }
}
