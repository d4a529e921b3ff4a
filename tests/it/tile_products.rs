//! Products of narrow numbers by instructions that multiply tiles: chosen by opts and by hand for machines that have them, on the interpreter of linear lists, as machine code where
//! the host has tiles, and as assembly where it has not.
//!
//! Integers must be exact, at the ends of their types too; floats are held against sums worked out in `f64` with what their rounding admits.

use warpweft_compiler::DType;
use warpweft_compiler::ir::{Op, TileKind, UOp};
use warpweft_compiler::linearize::Linear;
use warpweft_compiler::optimize::{Opts, text::parse_list};
use warpweft_compiler::pipeline::{LowerOptions, lower_kernel};
use warpweft_compiler::target::Target;
use warpweft_compiler::watch::Silent;
use warpweft_devices::cpu::assembly_for;
use warpweft_tests::kernels::{compare, kernel_of, reference, run_on};
use warpweft_tests::{guarded, lists};

use super::dot_products::{inputs, product};

const NO_TILES: &str = "skipped: no AMX";

fn lower(ast: &UOp, opts: Opts, target: &Target) -> Result<Linear, String> {
    lower_kernel(ast, target, &LowerOptions { opts }, &mut Silent).map_err(|error| error.to_string())
}

fn listed(list: &str) -> Opts {
    Opts::List(parse_list(list).unwrap_or_else(|error| panic!("{error}")))
}

fn count(linear: &Linear, op: Op) -> usize {
    linear.ops.iter().filter(|node| node.op() == op).count()
}

/// Runs a list, and machine code if the host is the machine, and compares both with the sums worked out.
#[track_caller]
fn check(ast: &UOp, opts: Opts, target: &Target) -> Linear {
    let text = opts.to_string();
    let linear = lower(ast, opts, target).unwrap_or_else(|why| panic!("{text}: {why}"));
    let inputs = inputs(ast, 7);
    let wanted = reference(ast, &inputs).expect("a kernel of numbers");
    let as_list = lists::run_kernel(ast, &linear, &inputs).unwrap_or_else(|why| panic!("{text}: as a list: {why}"));
    compare(&wanted, &as_list).unwrap_or_else(|why| panic!("{text}: as a list: {why}"));
    if let Some(device) = guarded::lesser_cpu(target) {
        let found = run_on(&*device, ast, &linear, &inputs).unwrap_or_else(|why| panic!("{text}: {why}"));
        compare(&wanted, &found).unwrap_or_else(|why| panic!("{text}: as machine code: {why}"));
    }
    linear
}

/// The machine code of a kernel for a machine that need not be there.
fn assembly(linear: &Linear, target: &Target) -> String {
    let program = warpweft_renderer::render(linear, target).expect("a CPU has it all");
    assembly_for(&program, target).expect("LLVM knows the machine")
}

/// Types of factors and sums, as programs have them.
fn types(kind: TileKind) -> [DType; 3] {
    let [left, right] = kind.factors();
    [left, right, kind.sums()]
}

/// A machine for each kind; the host, if it has tiles.
fn machines() -> Vec<(Target, Vec<TileKind>)> {
    let host = guarded::cpu().target().clone();
    let kinds = |target: &Target| TileKind::ALL.into_iter().filter(|kind| target.tiles.has(*kind)).collect::<Vec<_>>();
    let mut machines = vec![Target::test_amx(), Target::test_amx_f16()];
    match kinds(&host).is_empty() {
        true => println!("{NO_TILES}"),
        false => machines.push(host),
    }
    machines.into_iter().map(|target| (target.clone(), kinds(&target))).collect()
}

/// One tile of sums for each part of the results, of copies.
fn one_tile(kind: TileKind) -> String {
    let (terms, group) = (kind.terms_max(), kind.group());
    format!(
        "split(r0, 16), vectorize(r1, 16), split(r2, {terms}), split(r5, {group}), stage(l0, r2, r3, r5, r6), stage(l2, r2, r5, r4, r6), \
         reorder(r3, r1), multiply_tiles(r3, r4, r5, r6)"
    )
}

#[test]
fn a_part_of_a_product_is_a_tile() {
    for (target, kinds) in machines() {
        for kind in kinds {
            for layout in ["nn", "nt"] {
                let ast = kernel_of(&[product(types(kind), [32, 192, 48], layout)]);
                let linear = check(&ast, listed(&one_tile(kind)), &target);
                assert_eq!(count(&linear, Op::MultiplyTiles), 1);
                println!("{}", assembly(&linear, &target));
            }
        }
    }
}
