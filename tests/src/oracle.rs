//! The oracles of fuzz targets and properties: a function of bytes that returns an error with a filetest ready to be saved.
//!
//! Each is called by a fuzz target of the same name ([`fuzz`](crate::fuzz)), and by a property in `tests/it` on random bytes.

use rustc_hash::FxHashMap;
use warpweft_compiler::dtype::Scalar;
use warpweft_compiler::ir::interpret::Value;
use warpweft_compiler::ir::text::{self, Graph};
use warpweft_compiler::ir::{Arg, Evaluator, Shape, UOp, evaluate, substitute};
use warpweft_compiler::memory_plan::{self, Span};
use warpweft_compiler::verify;
use warpweft_compiler::view::ViewSpec;
use warpweft_compiler::{DType, linearize, symbolic};

use crate::alias_programs;
use crate::block_programs;
use crate::choices::{Choices, caught};
use crate::compare::compare_bits;
use crate::conformance::view_memory::Layout;
use crate::engines;
use crate::error_bound::{self, Bounded};
use crate::generate;
use crate::rules;
use crate::self_programs;

/// The graph as a filetest with this header, after what went wrong.
fn report(why: &str, header: &str, graph: &Graph) -> String {
    format!("{why}\n--- as a filetest ---\ntest {header}\n\n; Found by a generator.\n{graph}")
}

/// Any bytes as text give a graph or an error, never a panic; what is a graph prints and reads as itself. Bytes as choices make a
/// graph that round-trips.
///
/// # Errors
/// With the text that does not round-trip.
pub fn text_roundtrip(bytes: &[u8]) -> Result<(), String> {
    let any_text = String::from_utf8_lossy(bytes);
    let _ = linearize::text::parse(&any_text);
    let mut graphs: Vec<Graph> = text::parse(&any_text).into_iter().collect();
    graphs.push(generate::tensor_program(&mut Choices::new(bytes)));
    graphs.push(generate::index_expression(&mut Choices::new(bytes)));
    for graph in graphs {
        let printed = text::print(&graph);
        let again = text::parse(&printed).map_err(|error| report(&error.to_string(), "parse", &graph))?;
        if again.roots != graph.roots {
            return Err(report("reading gives other nodes", "parse", &graph));
        }
        if text::print(&again) != printed {
            return Err(report("printing again gives other text", "parse", &graph));
        }
        mutate_and_parse(&printed, bytes);
    }
    Ok(())
}

/// Text one character off is no graph in most cases, and never a panic.
fn mutate_and_parse(printed: &str, bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    let mut chars: Vec<char> = printed.chars().collect();
    for _ in 0..4 {
        let at = choices.between(0, chars.len() as i64 - 1) as usize;
        let alphabet: Vec<char> = "0129-.,:[](){}=#%\"\\; \nxvef".chars().collect();
        chars[at] = *choices.one_of(&alphabet);
        let _ = text::parse(&chars.iter().collect::<String>());
    }
}

/// Any spans are placed such that no two that live at once share a byte, in no less than what lives at once and no more than all.
///
/// # Errors
/// With the spans and what is wrong with their places.
pub fn memory_plan_legal(bytes: &[u8]) -> Result<(), String> {
    let mut choices = Choices::new(bytes);
    let spans: Vec<Span> = (0..choices.between(0, 40))
        .map(|_| {
            let first = choices.between(0, 30) as u32;
            let last = first + choices.between(0, 10) as u32;
            Span { bytes: choices.between(0, 2000) as u64, first, last }
        })
        .collect();
    let placement = memory_plan::place(&spans);
    memory_plan::check(&spans, &placement).map_err(|why| format!("{why}: {spans:?} at {placement:?}"))?;
    let (least, most) = (memory_plan::bound(&spans), spans.iter().map(Span::room).sum::<u64>());
    if (least..=most).contains(&placement.bytes) {
        return Ok(());
    }
    Err(format!("{} bytes are not from {least} to {most}: {spans:?}", placement.bytes))
}

/// Simplifying an expression changes its value for no assignment of its variables; all are tried where there are few.
///
/// # Errors
/// With the expression, the assignment and both values.
pub fn rewrite_keeps_value(bytes: &[u8]) -> Result<(), String> {
    let mut choices = Choices::new(bytes);
    let graph = match choices.once_in(3) {
        true => generate::positions(&mut choices),
        false => generate::index_expression(&mut choices),
    };
    for root in &graph.roots {
        let simpler =
            caught(|| Ok(symbolic::simplify(root))).map_err(|why| report(&why, "rewrite symbolic", &graph))?;
        let mut all = Evaluator::new(&[root.clone(), simpler.clone(), sum_of_terms(root)]);
        for leaves in assignments(all.leaves()) {
            let values = all.evaluate(&leaves);
            let Some([before, after, sum]) = values.as_deref() else {
                return Err(report("the expression has no value", "rewrite symbolic", &graph));
            };
            if before != after {
                let why = format!("{} is {before:?}, {} is {after:?}, for {leaves:?}", root.infix(), simpler.infix());
                return Err(report(&why, "rewrite symbolic", &graph));
            }
            if before != sum {
                let why = format!("{} is {before:?}, its terms are {sum:?}, for {leaves:?}", root.infix());
                return Err(report(&why, "rewrite symbolic", &graph));
            }
            if !root.facts().contains(before.to_i64()) {
                let why = format!("{before:?} for {leaves:?} is not within {:?}", root.facts());
                return Err(report(&why, "rewrite symbolic", &graph));
            }
        }
    }
    Ok(())
}

/// An index as the sum of its terms; anything else as it is.
fn sum_of_terms(root: &UOp) -> UOp {
    if !root.dtype().is_index() {
        return root.clone();
    }
    let (terms, constant) = symbolic::linear_terms(root);
    terms.iter().fold(UOp::index(constant), |sum, (atom, factor)| sum + atom * *factor)
}

/// An expression that is simplified for where a condition holds has its value there.
///
/// # Errors
/// With the expression, the condition, the assignment and both values.
pub fn conditions_keep_value(bytes: &[u8]) -> Result<(), String> {
    let mut choices = Choices::new(bytes);
    let mut graph = generate::index_expression(&mut choices);
    let leaves: Vec<UOp> = graph.parameters.iter().map(|parameter| parameter.node.clone()).collect();
    let mut condition = UOp::bool(true);
    for _ in 0..choices.between(1, 3) {
        let pick = |choices: &mut Choices<'_>| {
            let named = || UOp::variable("a", 0, 9);
            if leaves.is_empty() { named() } else { choices.one_of(&leaves).clone() }
        };
        let sum = pick(&mut choices) * choices.between(-3, 3) + pick(&mut choices);
        let sum = if choices.once_in(3) { sum.modulo(choices.between(1, 5)) } else { sum };
        let limit = UOp::index(choices.between(-12, 12));
        let clause = match choices.between(0, 4) {
            0 | 1 => sum.lt(&limit),
            2 => limit.lt(&sum),
            3 => sum.equals(&limit),
            _ => sum.differs(&limit),
        };
        condition = condition.and(&clause);
    }
    graph.roots.push(condition.clone());
    let (expressions, _) = graph.roots.split_at(graph.roots.len() - 1);
    for root in expressions {
        let simplified = caught(|| Ok(symbolic::simplify_given(root, &condition)));
        let simpler = simplified.map_err(|why| report(&why, "parse", &graph))?;
        let mut all = Evaluator::new(&[root.clone(), simpler.clone(), condition.clone()]);
        for leaves in assignments(all.leaves()) {
            let values = all.evaluate(&leaves);
            let Some([before, after, holds]) = values.as_deref() else {
                return Err(report("the expression has no value", "parse", &graph));
            };
            if holds.to_bool() && before != after {
                let (root, simpler, condition) = (root.infix(), simpler.infix(), condition.infix());
                let why = format!("{root} is {before:?}, {simpler} is {after:?}, for {leaves:?}, where {condition}");
                return Err(report(&why, "parse", &graph));
            }
        }
    }
    Ok(())
}

/// All assignments of variables, or some hundreds from everywhere between their bounds.
fn assignments(leaves: &[UOp]) -> Vec<Vec<Scalar>> {
    const ASSIGNMENTS_MAX: u64 = 600;
    let spans: Vec<u64> = leaves.iter().map(|leaf| (leaf.max_value() - leaf.min_value()) as u64 + 1).collect();
    let count = spans.iter().fold(1u64, |count, span| count.saturating_mul(*span));
    let all = |mut number: u64| {
        let digit = |(leaf, span): (&UOp, &u64)| {
            let value = leaf.min_value() + (number % span) as i64;
            number /= span;
            Scalar::Int(value)
        };
        leaves.iter().zip(&spans).map(digit).collect()
    };
    let some = |number: u64| {
        let bounds = leaves.iter().map(|leaf| (leaf.min_value(), leaf.max_value())).enumerate();
        bounds.map(|(position, ends)| rules::random::sample(ends, number, position)).collect()
    };
    match count <= ASSIGNMENTS_MAX {
        true => (0..count).map(all).collect(),
        false => (0..ASSIGNMENTS_MAX / 2).map(some).collect(),
    }
}

/// One rule, chosen and instantiated by the bytes, keeps the value of what it replaces.
///
/// # Errors
/// With the rule, both expressions, the assignment and both values.
pub fn rule_keeps_value(bytes: &[u8]) -> Result<(), String> {
    let mut choices = Choices::new(bytes);
    let number = choices.byte() as usize * 256 + choices.byte() as usize;
    let all = rules::exact_rules();
    let (set, rule) = all[number % all.len()];
    rules::try_rule(set, rule, &mut choices).map(|_| ())
}

/// The elements that the strides of a chain of movement ops name, where strides describe it, are those that the interpreter puts there.
///
/// # Errors
/// With the chain, the place and both elements.
pub fn view_elements(bytes: &[u8]) -> Result<(), String> {
    let graph = generate::movement_chain(&mut Choices::new(bytes));
    let root = &graph.roots[0];
    let inputs = number_inputs(&graph);
    let shown = engines::interpret(&graph, &inputs).map_err(|error| report(&error.to_string(), "parse", &graph))?;
    let Some(spec) = ViewSpec::of_node(root) else { return Ok(()) };
    let numbers = |dims: &Shape| dims.as_const().ok_or_else(|| report("symbolic", "parse", &graph));
    let layout = Layout {
        shape: numbers(&spec.shape)?,
        strides: numbers(&spec.strides)?,
        offset: spec.offset.as_const().ok_or_else(|| report("symbolic", "parse", &graph))?,
    };
    let (addresses, elements) = (layout.addresses(), shown[0].scalars());
    let pairs = engines::both("addresses and elements", &addresses, &elements);
    for (position, (address, element)) in pairs.map_err(|why| report(&why, "run interpreter", &graph))?.enumerate() {
        // Elements are their own numbers, counted from 1.
        if address + 1 != element.to_i64() {
            let why = format!("position {position} of {spec:?} has element {address}, not {element:?}");
            return Err(report(&why, "run interpreter", &graph));
        }
    }
    Ok(())
}

fn number_inputs(graph: &Graph) -> Vec<warpweft_compiler::ir::interpret::Value> {
    let value = |node: &UOp| {
        let shape = node.shape().as_const().unwrap_or_default();
        let numbers: Vec<f64> = (1..=shape.iter().product::<i64>()).map(|number| number as f64).collect();
        warpweft_compiler::ir::interpret::Value::from_f64(DType::I32, shape, &numbers)
    };
    graph.parameters.iter().filter_map(|parameter| value(&parameter.node)).collect()
}

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
                let why = format!("{}: it is not so at {fails} of {} places that {claim}", engine.name, root.len());
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

/// A graph whose variables are replaced by constants has the value that the graph has for these constants.
///
/// # Errors
/// With the graph and both values.
pub fn substitution_is_evaluation(bytes: &[u8]) -> Result<(), String> {
    let graph = generate::index_expression(&mut Choices::new(bytes));
    for root in &graph.roots {
        let value_of = |leaf: &UOp| Scalar::Int((leaf.min_value() + leaf.max_value()) / 2);
        let variables = graph.parameters.iter().map(|parameter| parameter.node.clone());
        let map: FxHashMap<UOp, UOp> = variables
            .filter(|node| matches!(node.arg(), Arg::Variable(_)))
            .map(|node| (node.clone(), UOp::constant(value_of(&node), DType::INDEX)))
            .collect();
        let constant = symbolic::simplify(&substitute(root, &map));
        let expected = evaluate(root, |leaf| Some(value_of(leaf)));
        if constant.as_scalar() != expected {
            return Err(report(&format!("{} is not {expected:?}", constant.infix()), "rewrite symbolic", &graph));
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

/// Random programs of allocations and views: whatever is asked of which elements they share has the answer that lists of elements give.
///
/// # Errors
/// With the first query that differs, and its tensor.
pub fn alias_answers(bytes: &[u8]) -> Result<(), String> {
    alias_programs::check_program(bytes)?;
    alias_programs::check_strided_views(bytes)
}
