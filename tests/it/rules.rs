//! Every rule is tried, matches, rewrites, and keeps the value: at random, in small domains, and to the last places where it approximates.

use std::collections::BTreeSet;

use warpweft_compiler::ir::ReduceOp;
use warpweft_compiler::{DType, UOp};
use warpweft_tests::choices::Choices;
use warpweft_tests::guarded;
use warpweft_tests::kernels::{Random, check_kernel, kernel_of};
use warpweft_tests::rules::{self, Outcome, functions, small};

/// Instances that each rule has to rewrite, and those that are tried for it.
const REWRITTEN: u64 = 12;
const TRIED_MAX: u64 = 20_000;

/// Rules for nodes that are no scalars, which only kernels hold: `half_floats_are_summed_on_every_engine` computes them. And those for `bf16` alone, where instances
/// are of `f16`: `legalize::half_floats` tests them.
const OF_KERNELS: [&str; 11] = [
    "reduce_range of HALF_FLOATS",
    "horizontal_reduce of HALF_FLOATS",
    "reduce_range of HALF_FLOATS_CAST",
    "horizontal_reduce of HALF_FLOATS_CAST",
    "reduce_range of HALF_FLOATS_COMPUTED",
    "horizontal_reduce of HALF_FLOATS_COMPUTED",
    "sqrt of HALF_FLOATS_COMPUTED",
    "add of HALF_FLOATS_COMPUTED",
    "sub of HALF_FLOATS_COMPUTED",
    "mul of HALF_FLOATS_COMPUTED",
    "div of HALF_FLOATS_COMPUTED",
];

fn bytes(random: &mut Random, len: usize) -> Vec<u8> {
    (0..len).map(|_| random.next_bits() as u8).collect()
}

#[test]
fn every_rule_matches_and_rewrites_and_keeps_the_value() {
    let mut table = Vec::new();
    let mut idle = Vec::new();
    for (number, (set, rule)) in rules::exact_rules().into_iter().enumerate() {
        let name = format!("{} of {}", rule.name, set.name());
        let (mut tried, mut matched, mut rewritten) = (0, 0, 0);
        let mut random = Random::new(number as u64);
        while tried < TRIED_MAX && rewritten < REWRITTEN {
            let outcome = rules::try_rule(set, rule, &mut Choices::new(&bytes(&mut random, 60)));
            let outcome = outcome.unwrap_or_else(|failure| panic!("{failure}"));
            tried += 1;
            matched += u64::from(outcome != Outcome::NoMatch);
            rewritten += u64::from(outcome == Outcome::Rewritten);
        }
        if (rewritten == 0) != OF_KERNELS.contains(&name.as_str()) {
            idle.push(name.clone());
        }
        table.push(format!("{name:<40} {tried:>6} tried {matched:>6} matched {rewritten:>6} rewritten"));
    }
    assert!(idle.is_empty(), "never rewrote, or did though excused: {idle:?}\n{}", table.join("\n"));
}

#[test]
fn rules_over_integers_hold_in_small_domains() {
    let mut rewritten = BTreeSet::new();
    for case in small::CASES.iter() {
        let count = case.check_some(60).unwrap_or_else(|failure| panic!("{failure}"));
        if count.rewritten > 0 {
            rewritten.insert(format!("{} of {}", case.rule.name, case.set.name()));
        }
    }
    assert!(rewritten.len() > 150, "few rules rewrote anything: {rewritten:?}");
}

#[test]
fn a_walk_makes_every_instance_once() {
    // In a domain of 4 bits x stands for 136 bounds, c for 16 numbers.
    for (name, instances) in
        [("div-by-one of INTEGER, index flat", 136), ("div-of-small of INTEGER, index flat", 136 * 16)]
    {
        let case = small::CASES.iter().find(|case| case.name() == name).expect("there is one");
        let counts: Vec<u64> = (0..small::SHARDS).map(|shard| case.check_shard(shard).unwrap().matched).collect();
        assert_eq!(counts.iter().sum::<u64>(), instances);
        assert!(counts.iter().all(|count| *count <= 17 * 2), "{counts:?}");
    }
}

#[test]
fn functions_are_right_to_the_last_places() {
    let mut random = Random::new(1);
    for _ in 0..1500 {
        functions::check(&bytes(&mut random, 100)).unwrap_or_else(|failure| panic!("{failure}"));
    }
}

#[test]
fn half_floats_are_summed_on_every_engine() {
    let device = guarded::cpu();
    for dtype in [DType::F16, DType::BF16] {
        for op in [ReduceOp::Add, ReduceOp::Max] {
            for axes in [&[0][..], &[1], &[0, 1]] {
                // Ones and zeros, the sums of which every order gives: `ops::reduce` makes sums of half floats in a wider type.
                let x = UOp::param(1, dtype, 2 * 101).reshape([2, 101]).trunc().max(0).min(1);
                let ast = kernel_of(&[x.reduce(op, axes)]);
                check_kernel(&*device, &ast, 1).unwrap_or_else(|why| panic!("{op:?} of {dtype} along {axes:?}: {why}"));
            }
        }
    }
}

/// A set that is written down anywhere in the compiler is one that is tried.
#[test]
fn every_set_is_tried() {
    let names = rules::exact_sets().into_iter().chain(rules::approximate_sets()).map(|set| set.name());
    let known: BTreeSet<&str> = names.collect();
    let mut pending = vec![std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../compiler/src")];
    let mut written = BTreeSet::new();
    while let Some(path) = pending.pop() {
        if path.is_dir() {
            pending.extend(std::fs::read_dir(&path).unwrap().flatten().map(|entry| entry.path()));
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        // Sets of unit tests, and the example in the macro's own documentation, are none of the compiler's.
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        for line in code.lines().filter(|line| !line.trim_start().starts_with("//")) {
            let by_macro =
                line.strip_prefix("    pub ").and_then(|rest| rest.split_once(" |root| for ")).map(|(name, _)| name);
            let by_hand = line
                .strip_prefix("pub static ")
                .and_then(|rest| rest.split_once(": LazyLock<RuleSet>"))
                .map(|(name, _)| name);
            written.extend(by_macro.or(by_hand).map(str::to_string));
        }
    }
    let known: BTreeSet<String> = known.into_iter().map(str::to_string).collect();
    assert_eq!(written, known);
}
