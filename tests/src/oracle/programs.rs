//! Oracles of programs: engines agree, however a program is cut into kernels and whatever it writes to.

use warpweft_compiler::ir::interpret::Value;
use warpweft_compiler::ir::text::Graph;
use warpweft_compiler::verify;

use super::report;
use crate::choices::{Choices, caught};
use crate::compare::compare_bits;
use crate::error_bound::{self, Bounded};
use crate::{block_programs, engines, generate, self_programs};

/// A program has the same values whole, as kernels fused, as kernels of one op each, and as linear lists; on the CPU too if `on_cpu`.
///
/// # Errors
/// With the program and what differs.
pub fn schedule_same_value(bytes: &[u8], on_cpu: bool) -> Result<(), String> {
    let graph = generate::tensor_program(&mut Choices::new(bytes));
    let more: &[&str] = if on_cpu { &["cpu"] } else { &["linear"] };
    same_value(&graph, bytes.len() as u64, more)
}

/// Programs of the blocks of networks have the same value fused, unfused and interpreted.
///
/// # Errors
/// As [`schedule_same_value`].
pub fn fusion_same_value(bytes: &[u8], on_cpu: bool) -> Result<(), String> {
    let graph = block_programs::block_program(&mut Choices::new(bytes));
    let more: &[&str] = if on_cpu { &["cpu", "cpu_unfused"] } else { &["linear"] };
    same_value(&graph, bytes.len() as u64, more)
}

/// A value is itself wherever it is computed: claims of it hold on the interpreter, fused and not; on the CPU too if `on_cpu`, optimized and
/// not, on one thread and on two.
///
/// # Errors
/// With the program and the claim that does not hold.
pub fn value_is_itself(bytes: &[u8], on_cpu: bool) -> Result<(), String> {
    let program = self_programs::self_program(&mut Choices::new(bytes));
    let graph = &program.graph;
    if let Err(error) = verify::tensor::check(&graph.roots) {
        return Err(report(&error.to_string(), "verify tensor", graph));
    }
    let inputs = generate::random_inputs(graph, bytes.len() as u64);
    for engine in engines_of(on_cpu)? {
        let found = (engine.run)(graph, &inputs);
        let found = found.map_err(|error| report(&format!("{}: {error:?}", engine.name), "run cpu", graph))?;
        if program.claims.is_empty() || program.claims.len() > found.len() || found.len() != graph.roots.len() {
            return Err(report("claims are of the first roots", "run cpu", graph));
        }
        for (claim, root) in program.claims.iter().zip(&found) {
            let fails = root.scalars().iter().filter(|holds| !holds.to_bool()).count();
            if fails > 0 {
                let why = format!("{}: it is not so at {fails} of {} elements that {claim}", engine.name, root.len());
                return Err(report(&why, "run cpu", graph));
            }
        }
    }
    Ok(())
}

/// A value of elementwise ops that the interpreter defines has its bits on every engine, however it is compiled.
///
/// # Errors
/// With the program and the first element that differs.
pub fn elementwise_bits(bytes: &[u8], on_cpu: bool) -> Result<(), String> {
    let graph = self_programs::exact_program(&mut Choices::new(bytes));
    let inputs = generate::random_inputs(&graph, bytes.len() as u64);
    let expected =
        engines::interpret(&graph, &inputs).map_err(|error| report(&error.to_string(), "run cpu", &graph))?;
    for engine in engines_of(on_cpu)? {
        let found = (engine.run)(&graph, &inputs);
        let found = found.map_err(|error| report(&format!("{}: {error:?}", engine.name), "run cpu", &graph))?;
        for (wanted, found) in engines::both("values of the interpreter and found", &expected, &found)? {
            compare_bits(wanted, found).map_err(|why| report(&format!("{}: {why}", engine.name), "run cpu", &graph))?;
        }
    }
    Ok(())
}

fn engines_of(on_cpu: bool) -> Result<Vec<engines::Engine>, String> {
    engines::all_named(if on_cpu { &["interpreter", "cpu", "cpu_unfused", "cpu_one_thread"] } else { &["interpreter"] })
}

/// The graph's value is what the interpreter says, within what rounding explains, on the interpreter's device and on others, fused and not.
fn same_value(graph: &Graph, seed: u64, more: &[&str]) -> Result<(), String> {
    if let Err(error) = verify::tensor::check(&graph.roots) {
        return Err(report(&error.to_string(), "verify tensor", graph));
    }
    let inputs = generate::random_inputs(graph, seed);
    let header = "run interpreter cpu";
    let expected = engines::reference(graph, &inputs).map_err(|error| report(&error, header, graph))?;
    let agree = || agree(graph, &inputs, &expected, more);
    caught(agree).map_err(|why| {
        let arguments: Vec<String> = (seed..).take(inputs.len()).map(|seed| format!("random {seed}")).collect();
        let run = format!("; run: %{}({})\n", graph.name, arguments.join(", "));
        report(&why, header, graph) + &run
    })
}

/// Every engine gives these values.
fn agree(graph: &Graph, inputs: &[Value], expected: &[Bounded], more: &[&str]) -> Result<(), String> {
    let names: Vec<&str> = std::iter::once(&"interpreter").chain(more).copied().collect();
    for engine in engines::all_named(&names)? {
        let found = (engine.run)(graph, inputs).map_err(|error| format!("{}: {error:?}", engine.name))?;
        for (wanted, found) in engines::both("values of the interpreter and found", expected, &found)? {
            error_bound::compare(wanted, found).map_err(|why| format!("{}: {why}", engine.name))?;
        }
    }
    Ok(())
}

/// Views show, and writes through views change, what a model of plain lists says, on the interpreter; on the CPU too if `on_cpu`.
///
/// # Errors
/// With the steps of the program, and what differs.
pub fn writes_through_views(bytes: &[u8], on_cpu: bool) -> Result<(), String> {
    // Constants have no device, and what is computed of them alone goes to the default one: a program that goes on with both is refused.
    match crate::write_programs::run(bytes, "INTERPRETER") {
        Err(refused) if refused.starts_with("a program uses memory of CPU and of INTERPRETER") => {}
        outcome => outcome?,
    }
    if on_cpu { crate::write_programs::run(bytes, "CPU") } else { Ok(()) }
}

/// Tensors show what a model of plain lists says through programs of views, values, writes and compiled functions, on the interpreter;
/// on the CPU too if `on_cpu`.
///
/// # Errors
/// With the program as Rust, and what differs.
pub fn effects(bytes: &[u8], on_cpu: bool) -> Result<(), String> {
    crate::effects::check(bytes, "INTERPRETER")?;
    if on_cpu { crate::effects::check(bytes, "CPU") } else { Ok(()) }
}
