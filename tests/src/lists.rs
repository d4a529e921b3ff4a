//! The linear lists of kernels, run by their interpreter: what optimization made of a kernel, before any machine sees it.
//!
//! Outputs start as memory that nothing has written and scratch is never anything else, so that a list that reads what it should
//! have computed fails with the op named; so do accesses out of bounds, and shares of the parallel loop that meet. Lists are made for the
//! machine that runs the tests and for two that have narrower vectors.

use std::sync::LazyLock;

use warpweft_compiler::ir::interpret::Value;
use warpweft_compiler::ir::text::Graph;
use warpweft_compiler::ir::{Arg, AxisKind, Op, UOp, postorder};
use warpweft_compiler::linearize::Linear;
use warpweft_compiler::linearize::interpret::{Memory, interpret, interpret_in_order, shares};
use warpweft_compiler::pipeline::{LowerOptions, lower_kernel};
use warpweft_compiler::schedule::{ScheduleOptions, schedule_with};
use warpweft_compiler::target::Target;
use warpweft_compiler::watch::Silent;

use crate::engines::{self, EngineError};

/// Shares that a parallel loop is cut into: as many as it has items, up to this. The more there are, the more meet that should not.
pub(crate) const SHARES_MAX: u64 = 64;

/// The machine of these tests; one with AVX-512 where it cannot be compiled for.
pub static HOST: LazyLock<Target> = LazyLock::new(|| {
    let device = crate::guarded::open("CPU", Some(2));
    device.map_or_else(|_| Target::test_avx512(), |device| device.target().clone())
});
/// A machine with vectors of 32 bytes.
pub static AVX2: LazyLock<Target> = LazyLock::new(Target::test_avx2);
/// A machine with vectors of 16 bytes and no fused multiply-add.
pub static SSE2: LazyLock<Target> = LazyLock::new(Target::test_sse2);

/// A machine with the instructions for dot products of all kinds, and for tiles.
pub static AMX: LazyLock<Target> = LazyLock::new(Target::test_amx);

/// A machine that runs blocks of threads; the interpreter of lists alone can run its kernels.
pub static GPU_MODEL: LazyLock<Target> = LazyLock::new(Target::gpu_model);

/// How a kernel becomes a list.
#[derive(Clone, Copy)]
pub struct Way {
    /// How messages call it.
    pub name: &'static str,
    /// The machine.
    pub target: &'static LazyLock<Target>,
    /// Whether loops stay as they are.
    pub no_opt: bool,
}

/// The lists of the machine of these tests.
pub const ON_HOST: &[Way] = &[
    Way { name: "linear, optimized", target: &HOST, no_opt: false },
    Way { name: "linear, unoptimized", target: &HOST, no_opt: true },
];

/// The lists of machines with narrower vectors.
pub const NARROWER: &[Way] = &[
    Way { name: "linear, optimized for AVX2", target: &AVX2, no_opt: false },
    Way { name: "linear, optimized for SSE2", target: &SSE2, no_opt: false },
];

/// Ops that the interpreter runs in two seconds or so.
const STEPS_MAX: f64 = 2e7;

/// Whether a list is run in less than a second or so: its interpreter takes about a hundred times what a machine does. To combine two states takes many ops, which
/// no estimate counts.
pub fn is_short(linear: &Linear) -> bool {
    linear.estimate.operations + linear.estimate.bytes_accessed <= 1e7 && steps(linear) <= STEPS_MAX
}

/// How many ops the interpreter runs, about: each share of the parallel loop does again what stands outside of it.
pub fn steps(linear: &Linear) -> f64 {
    let launch = linear.launch();
    let threads = (launch.blocks() * launch.threads()) as f64;
    let (mut steps, mut trips) = (0.0, vec![linear.grid.min(SHARES_MAX) as f64 * threads]);
    for op in &linear.ops {
        let times = trips.last().copied().unwrap_or(1.0);
        steps += times * op.dtype().lanes() as f64;
        match (op.op(), op.as_range()) {
            (Op::Range, Some(arg)) if arg.kind.is_thread_index() => trips.push(times),
            (Op::Range, Some(arg)) if arg.kind == AxisKind::Parallel => trips.push(linear.grid as f64),
            (Op::Range, _) => trips.push(times * op.src()[0].max_value().max(0) as f64),
            (Op::EndRange, _) => drop(trips.pop()),
            _ => {}
        }
    }
    steps
}

/// Runs a list over memory, in many shares.
///
/// # Errors
/// With the op that does what none may, and the whole list.
pub fn run_list(linear: &Linear, memory: &mut [Memory], variables: &[i64]) -> Result<(), String> {
    let shares = shares(linear.grid, SHARES_MAX);
    let described = |error| format!("{error}\n{}", warpweft_compiler::linearize::text::print(linear));
    let before = (linear.launch().threads() > 1).then(|| memory.to_vec());
    interpret(linear, memory, variables, &shares).map_err(described)?;
    // In another order of threads the same must come of it.
    if let Some(mut again) = before {
        interpret_in_order(linear, &mut again, variables, &shares, 0xc0ffee).map_err(described)?;
        let same = |(a, b): (&Memory, &Memory)| format!("{:?}", a.elements()) == format!("{:?}", b.elements());
        if !memory.iter().zip(&again).all(same) {
            return Err("two orders of threads leave different values".to_string());
        }
    }
    Ok(())
}

/// What the list of a kernel AST stores to each of its outputs; only outputs that it reads, or stores to in part, start with the given value.
///
/// # Errors
/// The op that does what none may, or the first element of an output that is never written.
pub fn run_kernel(ast: &UOp, linear: &Linear, inputs: &[Value]) -> Result<Vec<Value>, String> {
    let given = |(slot, value): (usize, &Value)| {
        let fresh = is_overwritten(ast, slot as u32);
        if fresh { Memory::fresh(value.dtype(), value.len()) } else { Memory::given(value) }
    };
    let mut memory: Vec<Memory> = inputs.iter().enumerate().map(given).collect();
    run_list(linear, &mut memory, &[])?;
    let outputs = memory.iter().zip(inputs).take(ast.src().len()).enumerate();
    outputs
        .map(|(output, (memory, input))| {
            let never = |element| format!("element {element} of output {output} is never written");
            memory.value(input.shape()).map_err(never)
        })
        .collect()
}

/// Whether a kernel stores all of a param and nothing in it reads the param.
pub(crate) fn is_overwritten(ast: &UOp, slot: u32) -> bool {
    let is_it = |node: &UOp| matches!(node.arg(), Arg::Param(param) if param.slot == slot);
    let values: Vec<UOp> = ast.src().iter().map(|store| store.src()[1].clone()).collect();
    let is_read = postorder(&values).iter().any(is_it);
    let target = |store: &UOp| {
        let target = &store.src()[0];
        let len = target.shape().numel().as_const();
        is_it(target) && len.is_some() && store.src()[1].shape().numel().as_const() == len
    };
    !is_read && ast.src().iter().any(|store| store.op() == Op::Store && target(store))
}

/// A graph by the lists of its schedule's kernels, as an [engine](engines).
///
/// # Errors
/// As [`run_list`], or when an element of an output is never written.
pub(crate) fn run_graph(
    graph: &Graph,
    inputs: &[Value],
    target: &Target,
    options: &LowerOptions,
    scheduled: ScheduleOptions,
) -> Result<Vec<Value>, EngineError> {
    let sink = UOp::sink(graph.roots.iter().cloned());
    let schedule = schedule_with(&sink, scheduled, &mut Silent).map_err(EngineError::failed)?;
    let mut memory: Vec<Memory> =
        schedule.buffers.iter().map(|buffer| Memory::fresh(buffer.dtype, buffer.len as usize)).collect();
    for (buffer, input) in engines::given_buffers(graph, inputs) {
        if let Some(memory) = memory.get_mut(buffer) {
            let len = memory.len();
            *memory = Memory::given(input).grown_to(len);
        }
    }
    for kernel in &schedule.kernels {
        let linear = lower_kernel(&kernel.ast, target, options, &mut Silent).map_err(EngineError::failed)?;
        let variables = engines::variables_of(graph, inputs, kernel, &linear.variables)?;
        let mut own: Vec<Memory> = kernel.buffers.iter().map(|&buffer| memory[buffer].clone()).collect();
        run_list(&linear, &mut own, &variables).map_err(EngineError::Failed)?;
        for ((&buffer, after), parameter) in kernel.buffers.iter().zip(own).zip(&linear.parameters) {
            if parameter.access != warpweft_compiler::program::Access::Read {
                memory[buffer] = after;
            }
        }
    }
    let outputs = engines::both("roots and outputs", &graph.roots, &schedule.outputs).map_err(EngineError::Failed)?;
    outputs
        .map(|(root, &buffer)| {
            let shape = engines::shape_of(graph, inputs, root)?;
            let never = |element| EngineError::Failed(format!("element {element} of an output is never written"));
            memory[buffer].value(shape).map_err(never)
        })
        .collect()
}
