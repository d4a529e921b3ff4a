//! The oracles of fuzz targets and properties: a function of bytes that returns an error with a filetest ready to be saved.
//!
//! Each is called by a fuzz target of the same name ([`fuzz`](crate::fuzz)), and by a property in `tests/it` on random bytes.

mod programs;
mod rewriting;

pub use programs::{
    effects, elementwise_bits, fusion_same_value, schedule_same_value, value_is_itself, writes_through_views,
};
pub use rewriting::{conditions_keep_value, rewrite_keeps_value, rule_keeps_value, substitution_is_evaluation};

use warpweft_compiler::ir::text::{self, Graph};
use warpweft_compiler::ir::{Shape, UOp};
use warpweft_compiler::memory_plan::{self, Span};
use warpweft_compiler::view::ViewSpec;
use warpweft_compiler::{DType, linearize};

use crate::choices::Choices;
use crate::conformance::view_memory::Layout;
use crate::{alias_programs, engines, generate};

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
/// With the spans and what is wrong with their offsets.
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

/// The elements that the strides of a chain of movement ops name, where strides describe it, are those that the interpreter puts there.
///
/// # Errors
/// With the chain, the index and both elements.
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

/// Random programs of allocations and views: whatever is asked of which elements they share has the answer that lists of elements give.
///
/// # Errors
/// With the first query that differs, and its tensor.
pub fn alias_answers(bytes: &[u8]) -> Result<(), String> {
    alias_programs::check_program(bytes)?;
    alias_programs::check_strided_views(bytes)
}
