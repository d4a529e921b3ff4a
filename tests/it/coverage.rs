//! The generators make what they promise: every op of tensors and of index arithmetic, and values of many shapes. Every function of
//! tensors is one that conformance cases can call.

use std::collections::BTreeSet;

use warpweft_compiler::ir::postorder;
use warpweft_compiler::ir::text::Graph;
use warpweft_compiler::view::ViewSpec;
use warpweft_tests::block_programs;
use warpweft_tests::choices::Choices;
use warpweft_tests::engines;
use warpweft_tests::generate;
use warpweft_tests::kernels::Random;

/// Ops that stand in what `make` gives for many seeds.
fn ops_of(make: impl Fn(&mut Choices<'_>) -> Vec<warpweft_compiler::UOp>) -> BTreeSet<&'static str> {
    let mut ops = BTreeSet::new();
    for seed in 0..400 {
        let mut random = Random::new(seed);
        let bytes: Vec<u8> = (0..100).map(|_| random.next_bits() as u8).collect();
        ops.extend(postorder(&make(&mut Choices::new(&bytes))).iter().map(|node| node.op().name()));
    }
    ops
}

#[test]
fn programs_hold_every_op_of_tensors() {
    let found = ops_of(|choices| generate::tensor_program(choices).roots);
    let wanted = "add mul sub max min lt eq ne and or xor idiv mod cdiv cmod neg not trunc sqrt exp2 sin cast where const param iota \
                  reshape permute expand pad shrink flip as_strided reduce gather scan scatter write";
    let missing: Vec<&str> = wanted.split_whitespace().filter(|op| !found.contains(op)).collect();
    assert!(missing.is_empty(), "never made: {missing:?}");
}

#[test]
fn expressions_hold_every_op_of_index_arithmetic() {
    let found = ops_of(|choices| generate::index_expression(choices).roots);
    let wanted = "add mul sub max min lt eq ne and or xor idiv mod cdiv cmod neg not where const variable";
    let missing: Vec<&str> = wanted.split_whitespace().filter(|op| !found.contains(op)).collect();
    assert!(missing.is_empty(), "never made: {missing:?}");
}

#[test]
fn chains_of_views_have_strides_and_more_than_one_element() {
    let mut judged = 0;
    for seed in 0..400 {
        let mut random = Random::new(seed);
        let bytes: Vec<u8> = (0..60).map(|_| random.next_bits() as u8).collect();
        let root = &generate::movement_chain(&mut Choices::new(&bytes)).roots[0];
        let elements = root.shape().numel().as_const().unwrap_or(0);
        judged += usize::from(ViewSpec::of_node(root).is_some() && elements > 1);
    }
    // The oracle of views has nothing to say of others.
    assert!(judged >= 100, "{judged} of 400 chains");
}

/// Elements of the values that programs have, those that an engine is held to, and those where it may change no bit.
fn elements_judged(make: impl Fn(&mut Choices<'_>) -> Graph) -> [usize; 3] {
    let mut counts = [0; 3];
    for seed in 0..100 {
        let mut random = Random::new(seed);
        let bytes: Vec<u8> = (0..100).map(|_| random.next_bits() as u8).collect();
        let graph = make(&mut Choices::new(&bytes));
        for value in engines::reference(&graph, &generate::random_inputs(&graph, seed)).unwrap() {
            let exact = (0..value.value.len()).filter(|position| value.error(*position) == 0.0).count();
            let new = [value.value.len(), value.judged(), exact];
            counts.iter_mut().zip(new).for_each(|(count, new)| *count += new);
        }
    }
    counts
}

#[test]
fn bounds_of_errors_leave_nearly_all_elements_to_be_judged() {
    let [all, judged, exact] = elements_judged(generate::tensor_program);
    assert!(judged * 100 >= all * 99 && exact * 2 >= all, "{all} elements of programs, {judged} judged, {exact} exact");
    let [all, judged, exact] = elements_judged(block_programs::block_program);
    assert!(judged * 100 >= all * 99 && exact * 100 >= all, "{all} elements of blocks, {judged} judged, {exact} exact");
}

#[test]
fn blocks_of_networks_are_stored_computed_again_and_kept() {
    use warpweft_compiler::UOp;
    use warpweft_compiler::ir::Op;
    use warpweft_compiler::schedule::schedule;
    let (mut several, mut kept) = (0, 0);
    for seed in 0..100 {
        let mut random = Random::new(seed);
        let bytes: Vec<u8> = (0..60).map(|_| random.next_bits() as u8).collect();
        let graph = warpweft_tests::block_programs::block_program(&mut Choices::new(&bytes));
        let kernels = schedule(&UOp::sink(graph.roots)).unwrap().kernels;
        several += usize::from(kernels.len() > 1);
        let keeps = |ast: &UOp| postorder(std::slice::from_ref(ast)).iter().any(|node| node.op() == Op::Materialize);
        kept += usize::from(kernels.iter().any(|kernel| keeps(&kernel.ast)));
    }
    assert!(several >= 20 && kept >= 20, "{several} programs have several kernels, {kept} keep values");
}

/// Functions of tensors that no conformance case calls by name, and why that is right.
const WITHOUT_CASES: &[(&str, &str)] = &[
    ("plus minus times over modulo negative", "operators, which cases use"),
    ("bitwise_not bitwise_and bitwise_or bitwise_xor lshift rshift", "operators, which cases use"),
    ("floor_div clamp_min clamp_max pad pad_with", "one option of a function that has cases"),
    ("assign copy_from fill strides storage_offset is_contiguous view", "in the cases of views"),
    ("overlaps_itself shares_elements_with", "in the cases of views"),
    ("update_with", "for the Python package, whose tests call its operators in place"),
    ("shares_storage_with", "about storage, not values"),
    ("full zeros ones linspace eye", "the same with a type has cases"),
    ("zeros_like ones_like", "full_like with a number"),
    ("from_vec from_slice from_bytes", "data goes in as it is"),
    ("rand rand_of randn randn_of randint uniform randperm manual_seed random_state dropout", "random"),
];

/// The public functions of a file of `Tensor` methods: those written out, and those that its macros make, a line each.
fn functions(text: &str) -> Vec<&str> {
    let mut found: Vec<&str> = Vec::new();
    let mut in_macro = false;
    for line in text.lines() {
        let code = line.trim();
        if let Some(rest) = code.strip_prefix("pub fn ").filter(|rest| !rest.starts_with('$')) {
            found.extend(rest.split(['(', '<']).next());
        }
        in_macro = (in_macro || (line.ends_with("! {") && !line.starts_with("macro_rules"))) && line != "}";
        if in_macro && line.starts_with("    ") && code.ends_with(';') && !code.starts_with("//") {
            found.extend(code.split(' ').take_while(|word| word.chars().all(|c| c == '_' || c.is_alphanumeric())));
        }
    }
    found
}

#[test]
fn every_function_of_tensors_has_cases() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &str| std::fs::read_to_string(folder.join(path)).unwrap();
    let tables = ["ops_table", "ops_layers", "ops_more"].map(|file| read(&format!("src/conformance/{file}.rs")));
    let table = tables.concat();
    let mut excused: Vec<&str> = WITHOUT_CASES.iter().flat_map(|(names, _)| names.split(' ')).collect();
    let mut missing = Vec::new();
    for file in "math/elementwise math/reduce layout/movement layout/index network/layers linear/linalg layout/assign layout/views create".split(' ') {
        let text = read(&format!("../runtime/src/tensor/{file}.rs"));
        let found = functions(&text);
        assert!(found.len() > 4, "{file}: {found:?}");
        for name in found {
            let is_called = table.contains(&format!(".{name}(")) || table.contains(&format!("::{name}("));
            let is_excused = excused.iter().position(|excuse| *excuse == name).map(|at| excused.remove(at)).is_some();
            if is_called == is_excused {
                missing.push(format!(
                    "{file}: {name} {}",
                    if is_called { "is excused and called" } else { "has no cases" }
                ));
            }
        }
    }
    assert_eq!((missing, excused), (Vec::new(), Vec::new()), "without cases, or excused and not there");
}
