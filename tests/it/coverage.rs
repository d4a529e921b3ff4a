//! The generators make what they promise: every op of tensors and of index arithmetic, and values of many shapes.

use std::collections::BTreeSet;

use warpweft_compiler::ir::postorder;
use warpweft_tests::choices::Choices;
use warpweft_tests::generate;
use warpweft_tests::kernels::Random;
use warpweft_tests::oracle;

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
                  reshape permute expand pad shrink flip as_strided reduce gather";
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

/// Rules that no generated expression is for: of ops that are not elementwise or mean nothing for the types of their set, and one
/// whose choice must stand below another of the same condition.
const HAVE_NO_INSTANCE: &[&str] = &[
    "fold-range",
    "fold-variable",
    "choose-given",
    "not",
    "idiv",
    "mod",
    "cdiv",
    "and",
    "or",
    "xor",
    "shl",
    "shr",
    "fold",
    "across",
];

#[test]
fn every_rule_applies_and_keeps_the_value() {
    let mut never = Vec::new();
    for set in oracle::exact_rule_sets() {
        for (number, rule) in set.rules().iter().enumerate() {
            let mut applied = 0;
            for seed in 0..2000 {
                let mut random = Random::new(seed * 1000 + number as u64);
                let bytes: Vec<u8> = (0..40).map(|_| random.next_bits() as u8).collect();
                let result = oracle::try_rule(set, rule, &mut Choices::new(&bytes));
                applied += result.unwrap_or_else(|failure| panic!("{failure}")) as usize;
                if applied == 12 {
                    break;
                }
            }
            if applied == 0 && !HAVE_NO_INSTANCE.contains(&rule.name) {
                never.push(format!("{} of {}", rule.name, set.name()));
            }
        }
    }
    assert!(never.is_empty(), "{} rules never applied: {never:?}", never.len());
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
        let keeps = |ast: &UOp| postorder(std::slice::from_ref(ast)).iter().any(|node| node.op() == Op::Keep);
        kept += usize::from(kernels.iter().any(|kernel| keeps(&kernel.ast)));
    }
    assert!(several >= 20 && kept >= 20, "{several} programs have several kernels, {kept} keep values");
}
