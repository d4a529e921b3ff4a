//! From a closure to a program: traced over placeholders, normalized, scheduled and compiled.

use std::panic::Location;
use std::sync::{Arc, Mutex};

use warpweft_compiler::UOp;
use warpweft_compiler::ir::{Arg, Dim, Shape, substitute};
use warpweft_compiler::ops::{check_element, check_size};
use warpweft_compiler::schedule::{Normalized, normalize_for_writes};

use super::Spec;
use super::bindings::{Bindings, Draws};
use super::call::{Packed, Program, Source, Target, Value, flat_like};
use super::foreign::Plain;
use super::held::gives_way;
use crate::execute::{self, Executor, Replay};
use crate::memory::Buffer;
use crate::registry;
use crate::tensor::trace::{self, Trace};
use crate::tensor::{CallError, Error, Result, Storage, Tensor};

/// What a trace gave, before it is compiled.
struct Traced {
    /// Stands for the memory of each argument.
    placeholders: Vec<UOp>,
    /// Everything that a call computes, and where it goes.
    values: Vec<Value>,
    trace: Trace,
}

/// What a program is compiled from: graphs over placeholders, and what is known of these.
pub(super) struct Parts {
    pub(super) variables: Vec<UOp>,
    pub(super) specs: Vec<Spec>,
    pub(super) executor: Arc<Executor>,
    pub(super) values: Vec<Value>,
    pub(super) placeholders: Vec<UOp>,
    pub(super) states: Vec<(Arc<Storage>, UOp)>,
    pub(super) draws: Vec<[UOp; 3]>,
    /// Placeholders of states of which kernels replace elements in memory.
    pub(super) replaced: Vec<UOp>,
    pub(super) location: &'static Location<'static>,
}

fn error(message: impl Into<String>, location: &'static Location<'static>) -> Error {
    CallError::new("compile", &[], message, location).into()
}

/// Traces and compiles a closure.
pub(super) fn program(
    variables: &[UOp],
    specs: &[Spec],
    closure: impl FnOnce(Vec<Tensor>) -> Result<Vec<Tensor>>,
    location: &'static Location<'static>,
) -> Result<Program> {
    if trace::is_active() {
        let message = "a function cannot be compiled while another is traced: compile it before, and call it inside";
        return Err(error(message, location));
    }
    check_specs(specs, location)?;
    let executor = executor_of(specs, location)?;
    let traced = traced(specs, closure, &executor)?;
    check_shapes(&traced, variables, specs, location)?;
    let Traced { placeholders, values, trace } = traced;
    let replaced =
        trace.states.iter().filter(|state| gives_way(state)).map(|state| state.placeholder.clone()).collect();
    let mut packed = Vec::new();
    for (number, state) in trace.states.iter().enumerate().filter(|(_, state)| state.value == state.before) {
        packed.extend(state.packed.clone().map(|value| Packed { number, value }));
    }
    let parts = Parts {
        variables: variables.to_vec(),
        specs: specs.to_vec(),
        executor,
        values,
        placeholders,
        states: trace.states.into_iter().map(|state| (state.storage, state.placeholder)).collect(),
        draws: trace.draws,
        replaced,
        location,
    };
    compiled(parts, packed)
}

/// The graphs of a program, in which these states stand as what they are unpacked from; and the same without what lies in memory.
pub(super) fn normalized(parts: &Parts, of_trace: &Draws, packed: &[Packed]) -> Result<(Vec<UOp>, Normalized)> {
    let mut map = of_trace.numbered.clone();
    for Packed { number, value } in packed {
        let placeholder = &parts.states[*number].1;
        map.insert(placeholder.clone(), flat_like(value, placeholder));
    }
    let nodes: Vec<UOp> = parts.values.iter().map(|value| substitute(&value.node, &map)).collect();
    let normalized = normalize_for_writes(&nodes, execute::computed, |buffer| parts.replaced.contains(buffer));
    Ok((nodes, normalized.map_err(execute::ExecuteError::from)?))
}

/// The program of graphs, in which these states stand as what they are unpacked from.
pub(super) fn compiled(parts: Parts, packed: Vec<Packed>) -> Result<Program> {
    let traced_nodes: Vec<UOp> = parts.values.iter().map(|value| value.node.clone()).collect();
    let checks = execute::checked_below(&traced_nodes);
    let outside = if checks.is_empty() { None } else { Some(Box::new(outside(&parts, &checks)?)) };
    let mut program = Program { checks, outside, ..unchecked(parts, packed)? };
    program.plain = Plain::of(&program);
    Ok(program)
}

/// The program that says whether an index of these checked nodes has an element out of range.
fn outside(parts: &Parts, checks: &[UOp]) -> Result<Program> {
    let specs = parts.specs.iter().map(|spec| Spec { donated: false, ..spec.clone() }).collect();
    let values = vec![Value::new(execute::any_outside(checks), Target::Result(0))];
    let (states, placeholders) = (parts.states.clone(), parts.placeholders.clone());
    let (variables, draws, executor) = (parts.variables.clone(), parts.draws.clone(), parts.executor.clone());
    let location = parts.location;
    let parts =
        Parts { variables, specs, executor, values, placeholders, states, draws, replaced: Vec::new(), location };
    unchecked(parts, Vec::new())
}

/// The program, which looks at no index.
fn unchecked(parts: Parts, packed: Vec<Packed>) -> Result<Program> {
    let of_trace = Draws::of(&parts.draws);
    let (nodes, normalized) = normalized(&parts, &of_trace, &packed)?;
    let Parts { variables, specs, executor, values, placeholders, states, draws, replaced, location } = parts;
    let mut sources = Vec::with_capacity(normalized.buffers.len());
    for buffer in &normalized.buffers {
        check_device(buffer, &executor, location)?;
        sources.push(source_of(buffer, &placeholders, &states)?);
    }
    let replay = executor.prepare(&nodes, &normalized.sink)?;
    let donations = donations(&specs, &replay, &sources);
    let bindings = Bindings::new(&variables, &specs, &of_trace, &replay.variables, &normalized.bindings, location)?;
    Ok(Program {
        checks: Vec::new(),
        outside: None,
        plain: None,
        variables,
        specs,
        executor,
        replay,
        sources,
        values,
        placeholders,
        states,
        draws,
        bindings,
        donations,
        replaced,
        location,
        packed,
        unpacked: Mutex::default(),
    })
}

/// Each spec must be of a tensor that there can be.
fn check_specs(specs: &[Spec], location: &'static Location<'static>) -> Result<()> {
    for (number, Spec { dtype, shape, .. }) in specs.iter().enumerate() {
        if let Err(wrong) = check_size(shape).and_then(|()| check_element(*dtype)) {
            return Err(error(format!("argument {number} cannot be {dtype}{shape}: {}", wrong.message), location));
        }
    }
    Ok(())
}

/// The executor of the device that all specs name.
fn executor_of(specs: &[Spec], location: &'static Location<'static>) -> Result<Arc<Executor>> {
    let named: Vec<&str> = specs.iter().filter_map(|spec| spec.device.as_deref()).collect();
    let executor = registry::executor(named.first().copied())?;
    for spec in specs {
        let other = registry::executor(spec.device.as_deref())?;
        if other.device().name() != executor.device().name() {
            let (a, b) = (executor.device().name(), other.device().name());
            let message =
                format!("the specs name {a} and {b}: a function runs on one device, so all must name the same");
            return Err(error(message, location));
        }
    }
    Ok(executor)
}

/// Runs the closure over placeholders.
fn traced(
    specs: &[Spec],
    closure: impl FnOnce(Vec<Tensor>) -> Result<Vec<Tensor>>,
    executor: &Executor,
) -> Result<Traced> {
    let device = executor.device_name();
    let placeholder = |spec: &Spec| trace::placeholder(spec.dtype, elements(&spec.shape), &device);
    let placeholders: Vec<UOp> = specs.iter().map(placeholder).collect();
    let (values, trace) = trace::trace(|| -> Result<Vec<Value>> {
        let arguments: Vec<Tensor> =
            placeholders.iter().zip(specs).map(|(node, spec)| Tensor::traced(node, &spec.shape)).collect();
        let results = closure(arguments.clone())?;
        let mut values = Vec::new();
        for (number, result) in results.iter().enumerate() {
            values.push(Value::new(result.uop()?, Target::Result(number)));
        }
        // What the closure assigned to its arguments goes to the tensors that they are called with.
        for (number, argument) in arguments.iter().enumerate() {
            let value = argument.uop()?;
            let before = Tensor::traced(&placeholders[number], &specs[number].shape).uop()?;
            if value != before {
                values.push(Value::new(value, Target::Argument(number)));
            }
        }
        Ok(values)
    })?;
    let mut values = values?;
    for (number, state) in trace.states.iter().enumerate() {
        if state.value != state.before {
            values.push(Value::new(state.value.clone(), Target::State(number)));
        }
    }
    Ok(Traced { placeholders, values, trace })
}

fn elements(shape: &Shape) -> u64 {
    shape.max_shape().iter().fold(1u64, |elements, &len| elements.saturating_mul(len.max(0) as u64))
}

/// Each length of a result must follow from the arguments.
fn check_shapes(
    traced: &Traced,
    variables: &[UOp],
    specs: &[Spec],
    location: &'static Location<'static>,
) -> Result<()> {
    let mut known: Vec<UOp> = variables.to_vec();
    known.extend(specs.iter().flat_map(|spec| unbound(&spec.shape)));
    for value in &traced.values {
        let missing = unbound(&value.shape).into_iter().find(|variable| !known.contains(variable));
        if let (Some(Arg::Variable(variable)), Target::Result(number)) = (missing.as_ref().map(UOp::arg), value.target)
        {
            let name = &variable.name;
            let message = format!(
                "result {number} has the shape {}, and no argument tells {name}: give a spec a length of {name}, name it in `compile_with`, or bind it to a number",
                value.shape
            );
            return Err(error(message, location));
        }
    }
    Ok(())
}

/// The variables of a shape's lengths that have no value.
pub(super) fn unbound(shape: &Shape) -> Vec<UOp> {
    shape.iter().flat_map(Dim::unbound).collect()
}

fn check_device(buffer: &UOp, executor: &Executor, location: &'static Location<'static>) -> Result<()> {
    match buffer.arg() {
        Arg::Buffer(arg) if *arg.device != *executor.device_name() => {
            let (device, own) = (&arg.device, executor.device().name());
            Err(error(
                format!(
                    "the closure uses a tensor on {device}, and the function runs on {own}: make the tensor on {own}"
                ),
                location,
            ))
        }
        _ => Ok(()),
    }
}

/// Where a call finds the memory of a buffer of the traced graph.
fn source_of(buffer: &UOp, placeholders: &[UOp], states: &[(Arc<Storage>, UOp)]) -> Result<Source> {
    if let Some(number) = placeholders.iter().position(|node| node == buffer) {
        return Ok(Source::Argument(number));
    }
    if let Some(number) = states.iter().position(|(_, placeholder)| placeholder == buffer) {
        return Ok(Source::State(number));
    }
    match buffer.held::<Buffer>() {
        Some(memory) => Ok(Source::Constant(memory.clone(), buffer.clone())),
        // Of another trace, which is over: it will never have a value.
        None => Err(execute::ExecuteError::Traced.into()),
    }
}

/// Which memory of donated arguments may hold which of the plan's stored buffers: those as large, first stored after the last kernel
/// that names the argument.
fn donations(specs: &[Spec], replay: &Replay, sources: &[Source]) -> Vec<(usize, usize)> {
    let mut donations: Vec<(usize, usize)> = Vec::new();
    for (slot, source) in sources.iter().enumerate() {
        if !matches!(source, Source::Argument(number) if specs[*number].donated) {
            continue;
        }
        let fits = replay.stored().find(|&buffer| {
            let is_free = donations.iter().all(|&(_, taken)| taken != buffer);
            is_free && replay.bytes(buffer) == replay.bytes(slot) && replay.is_after(buffer, slot)
        });
        donations.extend(fits.map(|buffer| (slot, buffer)));
    }
    donations
}
