//! One kernel on the machine: compiled with a list of opts, compared with the unoptimised one, and timed.
//!
//! Buffers hold random numbers, and those that the kernel only stores to hold bytes that look like none. What a kernel stores to is as it was before the
//! reference ran whenever values are compared, so that a kernel may store to a part of a buffer. Variables have the largest value that they can
//! have, which the buffers are made for, and views begin as early as they can.
//!
//! Always: opts change no value but by the order in which a sum is added. So integers must be equal, and floats must differ by no more than the rounding of
//! as many terms as the kernel reduces, of the size of its largest result.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;
use warpweft_compiler::DType;
use warpweft_compiler::UOp;
use warpweft_compiler::cost_model;
use warpweft_compiler::dtype::{Elements, Scalar};
use warpweft_compiler::ir::{Arg, AxisKind, Op, postorder};
use warpweft_compiler::optimize::{Opt, Opts, legal_opts};
use warpweft_compiler::pipeline::{LowerOptions, loops_of, lower_kernel};
use warpweft_compiler::program::{Access, Program};
use warpweft_compiler::watch::Silent;

use super::Outcome;
use crate::execute::compile::Compiled;
use crate::execute::{ExecuteError, Executor};
use crate::memory::Buffer;

/// Runs of one kernel at most, and how long they may take together unless one takes longer.
const RUNS_MAX: usize = 20;
const RUNS_TIME: Duration = Duration::from_millis(60);
/// Part of a search's time that the unoptimised kernel may take; where it would take more, values are compared with the hand choice.
const REFERENCE_PART: f64 = 0.2;
/// What fills a buffer that a kernel only stores to: no number as a float, so that an element that was never stored does not look as if it were.
const UNSTORED: u8 = 0xff;
/// Units in the last place of the largest result that a kernel may differ by for other reasons than its sums.
const UNITS: f64 = 16.0;

/// The buffers of a kernel, and what it should compute.
pub(super) struct Bench<'e> {
    executor: &'e Executor,
    ast: &'e UOp,
    buffers: Vec<Buffer>,
    /// What each buffer held before the first run, of those that the kernel stores to.
    before: Vec<Option<Vec<u8>>>,
    /// What each holds afterwards, of those that it stores to.
    expected: Vec<Option<Vec<u8>>>,
    variables: FxHashMap<String, i64>,
    /// Numbers that are reduced to one, at most.
    terms: f64,
    checked_against: &'static str,
}

impl<'e> Bench<'e> {
    /// Makes the buffers, and runs what others are compared with.
    pub(super) fn new(
        executor: &'e Executor,
        ast: &'e UOp,
        by_hand: &[Opt],
        time: Duration,
    ) -> Result<Bench<'e>, ExecuteError> {
        let (reference, checked_against) = reference(executor, ast, by_hand, time)?;
        let mut bench = Bench {
            executor,
            ast,
            buffers: Vec::new(),
            before: Vec::new(),
            expected: Vec::new(),
            variables: variables_of(ast),
            terms: terms_of(ast),
            checked_against,
        };
        let compiled = bench.compile(&reference)?;
        for (number, parameter) in compiled.program.parameters.iter().enumerate() {
            let data = match parameter.access {
                Access::Write => vec![UNSTORED; parameter.len as usize * parameter.dtype.bytes()],
                Access::Read | Access::ReadWrite => {
                    random_bytes(parameter.dtype, parameter.len as usize, number as u64)
                }
            };
            let buffer = Buffer::new(executor.allocator(), data.len());
            buffer.copy_in(0, &data)?;
            bench.buffers.push(buffer);
            bench.before.push((parameter.access != Access::Read).then_some(data));
        }
        bench.run(&compiled)?;
        let parameters = compiled.program.parameters.iter().zip(&bench.buffers);
        bench.expected = parameters
            .map(|(parameter, buffer)| match parameter.access {
                Access::Read => Ok(None),
                Access::Write | Access::ReadWrite => bytes_of(buffer).map(Some),
            })
            .collect::<Result<_, ExecuteError>>()?;
        Ok(bench)
    }

    /// What values are compared with.
    pub(super) fn checked_against(&self) -> &'static str {
        self.checked_against
    }

    /// The kernel with these opts.
    pub(super) fn compile(&self, opts: &[Opt]) -> Result<Arc<Compiled>, ExecuteError> {
        self.executor.compile_apart(self.ast, &LowerOptions { opts: Opts::List(opts.to_vec()) })
    }

    /// Compares and times a kernel; one that takes longer than `hopeless` seconds runs no second time.
    pub(super) fn judge(&self, compiled: &Compiled, hopeless: f64) -> Outcome {
        let failed = |error: ExecuteError| Outcome::Failed(error.to_string());
        match self.compare(compiled) {
            Ok(None) => self.time(compiled, hopeless).map_or_else(failed, Outcome::Ran),
            Ok(Some(difference)) => Outcome::Wrong(difference),
            Err(error) => failed(error),
        }
    }

    /// The least time of several runs, in seconds.
    pub(super) fn time(&self, compiled: &Compiled, hopeless: f64) -> Result<f64, ExecuteError> {
        let started = Instant::now();
        let mut least = f64::INFINITY;
        for _ in 0..RUNS_MAX {
            least = least.min(self.executor.timed(|| self.launch(compiled))?.as_secs_f64());
            if least > hopeless || started.elapsed() > RUNS_TIME {
                break;
            }
        }
        Ok(least)
    }

    fn run(&self, compiled: &Compiled) -> Result<(), ExecuteError> {
        self.launch(compiled)?;
        self.executor.finish()
    }

    fn launch(&self, compiled: &Compiled) -> Result<(), ExecuteError> {
        let slices = self.buffers.iter().map(Buffer::slice).collect::<Result<Vec<_>, _>>()?;
        let variables: Vec<i64> = values_for(&compiled.program, &self.variables);
        Ok(compiled.kernel.launch(&slices, &variables, self.executor.threads())?)
    }

    /// The first difference from what should be computed.
    fn compare(&self, compiled: &Compiled) -> Result<Option<String>, ExecuteError> {
        for (buffer, before) in self.buffers.iter().zip(&self.before) {
            if let Some(data) = before {
                buffer.copy_in(0, data)?;
            }
        }
        self.run(compiled)?;
        for (number, expected) in self.expected.iter().enumerate() {
            let Some(expected) = expected else { continue };
            let parameter = compiled.program.parameters[number];
            let got = bytes_of(&self.buffers[number])?;
            if let Some(difference) = difference(parameter.dtype, expected, &got, self.terms) {
                return Ok(Some(format!("parameter {number}, {difference}")));
            }
        }
        Ok(None)
    }
}

/// The list that values are compared with, and what it is called: no opts, but threads; where that would take too long, the hand choice.
fn reference(
    executor: &Executor,
    ast: &UOp,
    by_hand: &[Opt],
    time: Duration,
) -> Result<(Vec<Opt>, &'static str), ExecuteError> {
    let target = executor.device().target();
    let kernel = loops_of(ast, &mut Silent);
    let shared = legal_opts(&kernel, target).into_iter().find(|opt| matches!(opt, Opt::Thread { .. }));
    let bare: Vec<Opt> = shared.into_iter().collect();
    let linear = lower_kernel(ast, target, &LowerOptions { opts: Opts::List(bare.clone()) }, &mut Silent)?;
    let seconds = cost_model::predict(&linear, target).total_ns() * 1e-9;
    if seconds > REFERENCE_PART * time.as_secs_f64() {
        return Ok((by_hand.to_vec(), "the hand choice, since the unoptimised kernel takes too long"));
    }
    Ok((bare, "the unoptimised kernel"))
}

/// The largest value of each variable; of where a view begins, the least.
fn variables_of(ast: &UOp) -> FxHashMap<String, i64> {
    let nodes = postorder(std::slice::from_ref(ast));
    let variables = nodes.iter().filter_map(|node| match node.arg() {
        Arg::Variable(variable) => {
            let value = if variable.name.starts_with('@') { variable.min } else { variable.max };
            Some((variable.name.to_string(), value))
        }
        _ => None,
    });
    variables.collect()
}

fn values_for(program: &Program, variables: &FxHashMap<String, i64>) -> Vec<i64> {
    program.variables.iter().map(|name| variables.get(name).copied().unwrap_or(0)).collect()
}

fn terms_of(ast: &UOp) -> f64 {
    let kernel = loops_of(ast, &mut Silent);
    let nodes = postorder(std::slice::from_ref(&kernel));
    let reduced = nodes.iter().filter(|node| {
        node.op() == Op::Range
            && node.as_range().is_some_and(|range| matches!(range.kind, AxisKind::Reduce | AxisKind::Serial))
    });
    reduced.map(|range| range.src()[0].max_value().max(1) as f64).product()
}

/// Numbers between -1 and 1, or small whole ones, that look random: the same for the same buffer of each run.
fn random_bytes(dtype: DType, len: usize, seed: u64) -> Vec<u8> {
    // The generator of Knuth's MMIX; its high bits are good enough for data.
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 40
    };
    // Some thousand different elements are enough; many times that are copies of them.
    const DIFFERENT: usize = 1 << 14;
    let number = |random: u64| {
        if dtype.is_float() {
            Scalar::float(random as f64 / (1u64 << 23) as f64 - 1.0)
        } else {
            Scalar::Int((random % 7) as i64 - if dtype.is_signed() { 3 } else { 0 })
        }
    };
    let few: Vec<Scalar> = (0..len.min(DIFFERENT)).map(|_| number(next())).collect();
    let bytes = Elements::from_scalars(dtype, &few).map(|elements| elements.to_bytes()).unwrap_or_default();
    bytes.iter().copied().cycle().take(len * dtype.bytes()).collect()
}

fn bytes_of(buffer: &Buffer) -> Result<Vec<u8>, ExecuteError> {
    let mut data = vec![0; buffer.bytes()];
    buffer.copy_out(0, &mut data)?;
    Ok(data)
}

/// Elements that are compared at once: as numbers they take more room than as bytes.
const COMPARED_AT_ONCE: usize = 1 << 16;

/// Some elements at a time, as numbers, with the number of the first.
fn numbers<'b>(dtype: DType, bytes: &'b [u8]) -> impl Iterator<Item = Vec<Scalar>> + 'b {
    let pieces = bytes.chunks((COMPARED_AT_ONCE * dtype.bytes()).max(1));
    pieces.map(move |piece| Elements::from_bytes(dtype, piece).map(|elements| elements.scalars()).unwrap_or_default())
}

/// The first element that differs by more than rounding explains.
fn difference(dtype: DType, expected: &[u8], got: &[u8], terms: f64) -> Option<String> {
    if expected == got {
        return None;
    }
    let mut pairs = numbers(dtype, expected).flatten().zip(numbers(dtype, got).flatten()).enumerate();
    if !dtype.is_float() {
        let (at, (want, got)) = pairs.find(|(_, (want, got))| want != got)?;
        return Some(format!("element {at}: {got:?} and not {want:?}"));
    }
    let sizes = numbers(dtype, expected).flatten().map(|want| want.to_f64().abs()).filter(|size| size.is_finite());
    let largest = sizes.fold(1.0, f64::max);
    let most = (1.0 - f64::from(significant_bits(dtype))).exp2() * (UNITS + terms) * largest;
    let is_same = |want: f64, got: f64| want == got || (want.is_nan() && got.is_nan()) || (want - got).abs() <= most;
    let (at, (want, got)) = pairs.find(|(_, (want, got))| !is_same(want.to_f64(), got.to_f64()))?;
    Some(format!("element {at}: {} and not {}, where {most:e} would be rounding", got.to_f64(), want.to_f64()))
}

/// Bits of a float's significand, the one before the point among them.
fn significant_bits(dtype: DType) -> u32 {
    match dtype {
        DType::BF16 => 8,
        DType::F16 => 11,
        DType::F64 => 53,
        _ => 24,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floats(values: &[f64]) -> Vec<u8> {
        values.iter().flat_map(|value| (*value as f32).to_le_bytes()).collect()
    }

    #[test]
    fn rounding_is_no_difference_and_all_else_is() {
        let want = floats(&[1.0, -3.0, f64::NAN, f64::INFINITY]);
        let with = |values: [f64; 4]| difference(DType::F32, &want, &floats(&values), 4.0);
        assert_eq!(with([1.0, -3.0, f64::NAN, f64::INFINITY]), None);
        assert_eq!(with([1.0 + 4e-6, -3.0, f64::NAN, f64::INFINITY]), None);
        assert!(with([1.0 + 4e-5, -3.0, f64::NAN, f64::INFINITY]).is_some());
        assert!(with([1.0, -3.0, 0.0, f64::INFINITY]).is_some());
        assert!(with([1.0, -3.0, f64::NAN, f64::NEG_INFINITY]).is_some());
        let whole = |values: &[i32]| -> Vec<u8> { values.iter().flat_map(|value| value.to_le_bytes()).collect() };
        assert_eq!(difference(DType::I32, &whole(&[1, 2]), &whole(&[1, 2]), 1e9), None);
        assert!(difference(DType::I32, &whole(&[1, 2]), &whole(&[1, 3]), 1e9).is_some());
    }
}
