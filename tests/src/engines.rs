//! Everything that can compute a graph: the interpreter on the whole graph (the reference), devices on its schedule, and the
//! interpreter of the lists that a CPU compiles.
//!
//! An engine takes a graph and its inputs in the order of the header. Engines know nothing of `runtime`: they schedule, lower, render and
//! launch by the crates below it, so that a test that fails here is not about caches or allocators.

use std::env::consts::{ARCH, OS};
use std::sync::{Arc, LazyLock};

use warpweft_compiler::ir::interpret::{InterpretError, Value};
use warpweft_compiler::ir::text::Graph;
use warpweft_compiler::ir::{Arg, Op, UOp, interpret};
use warpweft_compiler::pipeline::{LowerOptions, lower_kernel};
use warpweft_compiler::program::{Estimate, Program};
use warpweft_compiler::schedule::{ScheduleOptions, ScheduledKernel, schedule_with};
use warpweft_compiler::target::{Costs, Language, Target};
use warpweft_compiler::watch::Silent;
use warpweft_devices::{BufferSlice, Device, DeviceError, RawBuffer};

use crate::error_bound::{self, Bounded};
use crate::guarded;
use crate::lists;

/// Computes a graph.
pub struct Engine {
    /// How it is called in messages.
    pub name: &'static str,
    /// Does it.
    pub run: Box<RunGraph>,
}

/// How an engine computes a graph.
type RunGraph = dyn Fn(&Graph, &[Value]) -> Result<Vec<Value>, EngineError>;

/// Why an engine gave no values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EngineError {
    /// It is not here, and need not be.
    Skipped(String),
    /// It failed.
    Failed(String),
}

impl EngineError {
    pub(crate) fn failed(error: impl ToString) -> EngineError {
        EngineError::Failed(error.to_string())
    }
}

/// The engines that a header word stands for: each device fused and not, optimized and not, and for a CPU the lists that it compiles. `ptx` is the
/// emulator of GPUs, `cuda` the GPU of this machine.
pub fn named(name: &str) -> Option<Vec<Engine>> {
    let device = |name, device: &'static OpenDevice, choices| {
        let run = move |graph: &Graph, inputs: &[Value]| on_device(device, graph, inputs, choices);
        Engine { name, run: Box::new(run) }
    };
    let lists = |ways: &'static [lists::Way], fuse: bool| {
        ways.iter().map(move |&lists::Way { name, target, no_opt }| {
            let options = LowerOptions::by_hand_unless(no_opt);
            let run = move |graph: &Graph, inputs: &[Value]| {
                let scheduled = ScheduleOptions { fuse, ..ScheduleOptions::default() };
                lists::run_graph(graph, inputs, target, &options, scheduled)
            };
            Engine { name, run: Box::new(run) }
        })
    };
    // Lists come before the machine: they say what is wrong where it would end the process.
    match name {
        "interpreter" => Some(vec![
            device("interpreter, fused", &INTERPRETER, FUSED),
            device("interpreter, unfused", &INTERPRETER, UNFUSED),
        ]),
        "cpu" => {
            let cpu = [device("cpu", &CPU, FUSED), device("cpu, unoptimized", &CPU, UNOPTIMIZED)];
            Some(lists(lists::ON_HOST, true).chain(lists(lists::NARROWER, true)).chain(cpu).collect())
        }
        "cpu_unfused" => Some(lists(lists::ON_HOST, false).chain([device("cpu, unfused", &CPU, UNFUSED)]).collect()),
        "ptx" => Some(vec![device("ptx", &PTX, FUSED), device("ptx, unoptimized", &PTX, UNOPTIMIZED)]),
        "cuda" => Some(vec![device("cuda", &CUDA, FUSED), device("cuda, unoptimized", &CUDA, UNOPTIMIZED)]),
        "cpu_one_thread" => Some(vec![device("cpu, one thread", &CPU, Choices { threads: 1, ..FUSED })]),
        "linear" => Some(lists(lists::ON_HOST, true).collect()),
        "linear_unfused" => Some(lists(lists::ON_HOST, false).collect()),
        _ => None,
    }
}

/// The words that [`named`] knows.
pub const NAMES: [&str; 8] =
    ["interpreter", "cpu", "cpu_unfused", "cpu_one_thread", "linear", "linear_unfused", "ptx", "cuda"];

/// The engines of several words.
///
/// # Errors
/// With the first word that is none, and those that are.
pub fn all_named(names: &[&str]) -> Result<Vec<Engine>, String> {
    let mut engines = Vec::new();
    for name in names {
        let unknown = || format!("there is no engine `{name}`; there are {}", NAMES.join(", "));
        engines.extend(named(name).ok_or_else(unknown)?);
    }
    Ok(engines)
}

/// That a device cannot be opened: the interpreter is everywhere, the CPU is where kernels for it can be loaded, and a GPU is where there is one.
fn not_opened(error: &DeviceError, machine: (&str, &str)) -> EngineError {
    match machine {
        _ if matches!(error, DeviceError::Unavailable { .. }) => EngineError::Skipped(format!("no device: {error}")),
        _ if !matches!(error, DeviceError::CompilerMissing { .. }) => EngineError::failed(error),
        ("x86_64", "linux") => EngineError::Failed(format!("it should be here: {error}")),
        (processor, system) => EngineError::Skipped(format!("not on {processor} with {system}: {error}")),
    }
}

type OpenDevice = LazyLock<Result<Arc<dyn Device>, DeviceError>>;

static INTERPRETER: OpenDevice = LazyLock::new(|| guarded::open("INTERPRETER", None));
static CPU: OpenDevice = LazyLock::new(guarded::open_cpu);
static PTX: OpenDevice = LazyLock::new(|| guarded::open("PTX", Some(2)));
static CUDA: OpenDevice = LazyLock::new(|| guarded::open("CUDA", None));

/// How a graph is compiled.
#[derive(Clone, Copy)]
struct Choices {
    fuse: bool,
    no_opt: bool,
    threads: usize,
}

const FUSED: Choices = Choices { fuse: true, no_opt: false, threads: 2 };
const UNFUSED: Choices = Choices { fuse: false, no_opt: false, threads: 2 };
const UNOPTIMIZED: Choices = Choices { fuse: true, no_opt: true, threads: 2 };

/// The reference: the interpreter on the whole graph.
///
/// # Errors
/// When the graph has no value.
pub fn interpret(graph: &Graph, inputs: &[Value]) -> Result<Vec<Value>, InterpretError> {
    interpret::interpret(&graph.roots, &|leaf| input_of(graph, inputs, leaf))
}

/// The reference with what rounding may change of each element.
///
/// # Errors
/// As [`interpret`].
pub fn reference(graph: &Graph, inputs: &[Value]) -> Result<Vec<Bounded>, String> {
    error_bound::bounded(&graph.roots, &|leaf| input_of(graph, inputs, leaf))
}

/// The input that a param or variable of the graph has.
fn input_of(graph: &Graph, inputs: &[Value], leaf: &UOp) -> Option<Value> {
    let position = graph.parameters.iter().position(|parameter| {
        let node = &parameter.node;
        node == leaf || node.src().contains(leaf)
    });
    inputs.get(position?).cloned()
}

fn on_device(
    device: &OpenDevice,
    graph: &Graph,
    inputs: &[Value],
    choices: Choices,
) -> Result<Vec<Value>, EngineError> {
    let device = device.as_ref().map_err(|error| not_opened(error, (ARCH, OS)))?;
    // Machines with blocks of threads have schedules of their own; that of a CPU is the same on all of them.
    let target = device.target();
    let costs = if target.blocks.is_some() { target.costs } else { ScheduleOptions::default().costs };
    run_scheduled(device.as_ref(), target, graph, inputs, ScheduleOptions { fuse: choices.fuse, costs }, choices)
}

/// What a program gives on the emulator of GPUs, and on the GPU of this machine if it has one, scheduled and with opts chosen by hand for one of these costs: each with the
/// name of the device.
///
/// # Errors
/// What the compiler or a device says.
pub fn on_gpus(graph: &Graph, inputs: &[Value], costs: Costs) -> Result<Vec<(String, Vec<Value>)>, EngineError> {
    let mut found = Vec::new();
    for device in guarded::gpus() {
        let target = Target { costs, ..device.target().clone() };
        let options = ScheduleOptions { fuse: true, costs };
        found.push((device.name().to_string(), run_scheduled(device, &target, graph, inputs, options, FUSED)?));
    }
    Ok(found)
}

fn run_scheduled(
    device: &dyn Device,
    target: &Target,
    graph: &Graph,
    inputs: &[Value],
    options: ScheduleOptions,
    choices: Choices,
) -> Result<Vec<Value>, EngineError> {
    let sink = UOp::sink(graph.roots.iter().cloned());
    let schedule = schedule_with(&sink, options, &mut Silent).map_err(EngineError::failed)?;
    let mut memory: Vec<RawBuffer> = Vec::new();
    for buffer in &schedule.buffers {
        let bytes = buffer.len as usize * buffer.dtype.bytes();
        memory.push(device.allocate(bytes).map_err(EngineError::failed)?);
    }
    for (buffer, input) in given_buffers(graph, inputs) {
        // A param that nothing uses has no buffer.
        if let Some(buffer) = memory.get(buffer).filter(|buffer| buffer.bytes() > 0) {
            device.copy_in(buffer, 0, &input.to_bytes()).map_err(EngineError::failed)?;
        }
    }
    for kernel in &schedule.kernels {
        launch(device, target, graph, inputs, kernel, &memory, choices)?;
    }
    // A root without an output would else be an output that nobody misses.
    let outputs = both("roots and outputs", &graph.roots, &schedule.outputs).map_err(EngineError::Failed)?;
    outputs.map(|(root, buffer)| output(device, graph, inputs, root, &memory[*buffer])).collect()
}

/// The schedule's buffer of each input that is a param, with the input.
pub(crate) fn given_buffers<'v>(graph: &'v Graph, inputs: &'v [Value]) -> impl Iterator<Item = (usize, &'v Value)> {
    graph.parameters.iter().zip(inputs).filter_map(|(parameter, input)| {
        let node = &parameter.node;
        let param = if node.op() == Op::Param { Some(node) } else { node.src().first() };
        match param.map(UOp::arg) {
            Some(Arg::Param(param)) => Some((param.slot as usize, input)),
            _ => None,
        }
    })
}

/// The values of a kernel's variables.
pub(crate) fn variables_of(
    graph: &Graph,
    inputs: &[Value],
    kernel: &ScheduledKernel,
    names: &[String],
) -> Result<Vec<i64>, EngineError> {
    let value_of = |name: &String| {
        let given = |name: &str| {
            let is_named = |node: &UOp| matches!(node.arg(), Arg::Variable(variable) if variable.name == name);
            let position = graph.parameters.iter().position(|parameter| is_named(&parameter.node))?;
            Some(inputs.get(position)?.get(0).to_i64())
        };
        let value = kernel.offsets.value(name, given);
        value.ok_or_else(|| EngineError::Failed(format!("no value was given for {name} of {:?}", kernel.offsets)))
    };
    names.iter().map(value_of).collect()
}

/// The shape of a root, with the inputs' lengths.
pub(crate) fn shape_of(graph: &Graph, inputs: &[Value], root: &UOp) -> Result<Vec<i64>, EngineError> {
    let dims: Vec<UOp> = root.shape().iter().map(|dim| dim.to_uop()).collect();
    let dims = interpret::interpret(&dims, &|leaf| input_of(graph, inputs, leaf)).map_err(EngineError::failed)?;
    Ok(dims.iter().map(|dim| dim.get(0).to_i64()).collect())
}

fn program(target: &Target, kernel: &UOp, choices: Choices) -> Result<Program, EngineError> {
    if target.language == Language::Text {
        return Ok(warpweft_renderer::render_ast(kernel, "kernel", Estimate::default()));
    }
    let options = LowerOptions::by_hand_unless(choices.no_opt);
    let linear = lower_kernel(kernel, target, &options, &mut Silent).map_err(EngineError::failed)?;
    warpweft_renderer::render(&linear, target).map_err(EngineError::failed)
}

fn launch(
    device: &dyn Device,
    target: &Target,
    graph: &Graph,
    inputs: &[Value],
    kernel: &ScheduledKernel,
    memory: &[RawBuffer],
    choices: Choices,
) -> Result<(), EngineError> {
    let program = program(target, &kernel.ast, choices)?;
    let with_source = |error: DeviceError| EngineError::Failed(format!("{error}\n{}", program.source));
    let object = device.compile(&program).map_err(with_source)?;
    let loaded = device.load(&program, &object).map_err(with_source)?;
    let slices: Vec<BufferSlice<'_>> = kernel.buffers.iter().map(|buffer| memory[*buffer].all()).collect();
    let variables = variables_of(graph, inputs, kernel, &program.variables)?;
    loaded.launch(&slices, &variables, choices.threads).map_err(with_source)
}

fn output(
    device: &dyn Device,
    graph: &Graph,
    inputs: &[Value],
    root: &UOp,
    buffer: &RawBuffer,
) -> Result<Value, EngineError> {
    let shape = shape_of(graph, inputs, root)?;
    let bytes = shape.iter().product::<i64>() as usize * root.dtype().bytes();
    let mut data = vec![0; bytes];
    device.copy_out(buffer, 0, &mut data).map_err(EngineError::failed)?;
    Value::from_bytes(root.dtype(), shape, &data)
        .ok_or_else(|| EngineError::Failed("the output has no bytes of its shape".to_string()))
}

/// Pairs of two lists that must be of one length; what they are is for the message.
///
/// # Errors
/// When they are not.
pub fn both<'l, A, B>(
    what: &str,
    a: &'l [A],
    b: &'l [B],
) -> Result<std::iter::Zip<std::slice::Iter<'l, A>, std::slice::Iter<'l, B>>, String> {
    if a.len() != b.len() {
        return Err(format!("{what}: {} and {}, which should be as many", a.len(), b.len()));
    }
    Ok(a.iter().zip(b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpweft_compiler::DType;

    #[test]
    fn every_engine_is_here_and_gives_values() {
        let x = UOp::param(0, DType::I32, 3);
        let graph = Graph::new("sums", [&x + &x]);
        let inputs = [Value::from_f64(DType::I32, [3], &[1.0, 2.0, 3.0]).expect("three elements")];
        for name in NAMES {
            let engines = named(name).unwrap_or_default();
            assert!(!engines.is_empty(), "{name}");
            for engine in engines {
                let found = match (engine.run)(&graph, &inputs) {
                    Err(EngineError::Skipped(why)) if engine.name.starts_with("cuda") => {
                        assert!(why.starts_with("no device: "), "{why}");
                        continue;
                    }
                    found => found.unwrap_or_else(|error| panic!("{}: {error:?}", engine.name)),
                };
                assert_eq!(found.iter().map(Value::to_f64).collect::<Vec<_>>(), [[2.0, 4.0, 6.0]], "{}", engine.name);
            }
        }
        let unknown = all_named(&["interpreter", "interpretr"]).err().unwrap_or_default();
        assert!(unknown.starts_with("there is no engine `interpretr`; there are interpreter, cpu"), "{unknown}");
    }

    #[test]
    fn what_should_be_here_is_not_skipped() {
        let missing = DeviceError::CompilerMissing { triple: "x".to_string(), message: "no LLVM".to_string() };
        assert!(matches!(not_opened(&missing, ("x86_64", "linux")), EngineError::Failed(_)));
        assert!(matches!(not_opened(&missing, ("riscv64", "linux")), EngineError::Skipped(_)));
        let unknown = DeviceError::UnknownDevice { name: "GPU".to_string(), known: String::new() };
        assert!(matches!(not_opened(&unknown, ("riscv64", "linux")), EngineError::Failed(_)));
    }

    #[test]
    fn lists_of_other_lengths_are_no_pairs() {
        assert_eq!(both("values", &[1, 2], &[3, 4]).map(|pairs| pairs.count()), Ok(2));
        assert_eq!(both("values", &[1, 2], &[3]).err(), Some("values: 2 and 1, which should be as many".to_string()));
    }
}
