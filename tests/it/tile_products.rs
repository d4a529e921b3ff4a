//! Products of narrow numbers by instructions that multiply tiles: chosen by opts and by hand for machines that have them, on the interpreter of linear lists, as machine code where
//! the host has tiles, and as assembly where it has not.
//!
//! Integers must be exact, at the ends of their types too; floats are held against sums worked out in `f64` with what their rounding admits.

use warpweft_compiler::DType;
use warpweft_compiler::ir::{Op, ReduceOp, TileKind, UOp};
use warpweft_compiler::linearize::Linear;
use warpweft_compiler::optimize::{Opts, apply_list, choose, legal_opts, text::parse_list, text::print_list};
use warpweft_compiler::pipeline::{LowerOptions, loops_of, lower_kernel};
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
    if !kinds(&host).is_empty() {
        machines.push(host);
    }
    machines.into_iter().map(|target| (target.clone(), kinds(&target))).collect()
}

/// One tile of sums for each part of the results, of copies.
fn one_tile(ast: &UOp, kind: TileKind, target: &Target) -> Opts {
    let (terms, group) = (kind.terms_max(), kind.group());
    let of_rows = "r2, r3, r5, r6";
    let of_columns = "r2, r5, r4, r6";
    let kernel = loops_of(ast, &mut Silent);
    // Which factor is the first is up to their order in the graph.
    let lists = [[of_rows, of_columns], [of_columns, of_rows]].map(|[first, second]| {
        listed(&format!(
            "split(r0, 16), vectorize(r1, 16), split(r2, {terms}), split(r5, {group}), stage(l0, {first}), stage(l2, {second}), \
             reorder(r3, r1), multiply_tiles(r3, r4, r5, r6)"
        ))
    });
    let fits = |opts: &Opts| matches!(opts, Opts::List(list) if apply_list(&kernel, list, target).is_ok());
    lists.into_iter().find(fits).expect("one of them fits")
}

/// The other tests run machine code of such a host, too.
#[test]
fn a_host_with_tiles_runs_them() {
    let host = guarded::cpu().target().clone();
    let Some(kind) = TileKind::ALL.into_iter().find(|kind| host.tiles.has(*kind)) else {
        return println!("{NO_TILES}");
    };
    check_by_hand(&kernel_of(&[product(types(kind), [64, 256, 64], "nn")]), &host);
}

#[test]
fn a_part_of_a_product_is_a_tile() {
    for (target, kinds) in machines() {
        for kind in kinds {
            for layout in ["nn", "nt"] {
                let ast = kernel_of(&[product(types(kind), [32, 192, 48], layout)]);
                let opts = one_tile(&ast, kind, &target);
                let Opts::List(list) = &opts else { continue };
                let (last, before) = list.split_last().expect("it has opts");
                let before = apply_list(&loops_of(&ast, &mut Silent), before, &target).expect("they fit");
                assert!(legal_opts(&before.kernel, &target).contains(last), "{opts}");
                let linear = check(&ast, opts.clone(), &target);
                assert_eq!(count(&linear, Op::MultiplyTiles), 1);
            }
        }
    }
}

/// Runs what the choice by hand makes, which must be tiles.
#[track_caller]
fn check_by_hand(ast: &UOp, target: &Target) -> (String, Linear) {
    let choice = choose(&loops_of(ast, &mut Silent), target);
    let list = print_list(&choice.applied);
    assert!(list.contains("multiply_tiles"), "{list}\n{:#?}", choice.reasons);
    (list, check(ast, Opts::ByHand, target))
}

#[test]
fn products_in_every_layout_are_done_by_tiles() {
    for (target, kinds) in machines() {
        for kind in kinds {
            for layout in ["nn", "nt", "tn", "tt"] {
                check_by_hand(&kernel_of(&[product(types(kind), [64, 128, 128], layout)]), &target);
            }
        }
    }
}

#[test]
fn sizes_that_no_tile_divides() {
    for (target, kinds) in machines() {
        // Few rows, sides that are left over, terms that fill a part of a tile, and some more.
        for (number, size) in
            [[8, 64, 64], [16, 128, 64], [100, 64, 33], [50, 96, 70], [65, 80, 48], [40, 1056, 64], [40, 1050, 64]]
                .into_iter()
                .enumerate()
        {
            let kind = kinds[number % kinds.len()];
            check_by_hand(&kernel_of(&[product(types(kind), size, ["nn", "nt"][number % 2])]), &target);
        }
    }
}

#[test]
fn many_terms_of_floats_go_by_blocks() {
    for (target, _) in machines() {
        let (list, _) = check_by_hand(&kernel_of(&[product(types(TileKind::Bf16), [32, 2048, 32], "nt")]), &target);
        assert!(list.contains("accumulate"), "{list}");
        let (list, _) =
            check_by_hand(&kernel_of(&[product(types(TileKind::SignedBytes), [32, 2048, 32], "nt")]), &target);
        assert!(!list.contains("accumulate"), "{list}");
    }
}

#[test]
fn what_comes_after_stays_in_the_kernel_and_batches_are_loops_outside() {
    let [batch, rows, terms, columns] = [3, 32, 64, 40];
    let all = [batch, rows, columns, terms];
    let a = UOp::param(1, DType::BF16, (batch * rows * terms) as u64).reshape([batch, rows, 1, terms]).expand(all);
    let b =
        UOp::param(2, DType::BF16, (batch * columns * terms) as u64).reshape([batch, 1, columns, terms]).expand(all);
    let sum = (a.cast(DType::F32) * b.cast(DType::F32)).reduce(ReduceOp::Add, &[3]).reshape([batch, rows, columns]);
    let bias = UOp::param(3, DType::F32, columns as u64).reshape([1, 1, columns]).expand([batch, rows, columns]);
    let value = (sum + bias).max(0).cast(DType::BF16);
    check_by_hand(&kernel_of(&[value]), &Target::test_amx());
}

/// Lines of the loop around the first line with a word: from the last label-like jump target on is not known, so the nearest conditional jumps bound it.
fn lines_between_jumps(code: &str, word: &str) -> Vec<String> {
    let lines: Vec<&str> = code.lines().collect();
    let at = lines.iter().position(|line| line.contains(word)).expect("the word stands in the code");
    let is_jump = |line: &&str| line.split_whitespace().any(|word| word.starts_with('j') && word.len() < 4);
    let first = lines[..at].iter().rposition(is_jump).map_or(0, |jump| jump + 1);
    let end = at + lines[at..].iter().position(is_jump).expect("a loop ends in a jump");
    lines[first..=end].iter().map(|line| (*line).to_string()).collect()
}

#[test]
fn the_loop_of_a_product_only_loads_and_multiplies_tiles() {
    for (target, kinds) in machines() {
        for kind in kinds {
            let (_, linear) = by_hand(&kernel_of(&[product(types(kind), [512; 3], "nn")]), &target);
            let code = assembly(&linear, &target);
            let count = |lines: &[String], word: &str| lines.iter().filter(|line| line.contains(word)).count();
            let body = lines_between_jumps(&code, " tdp");
            let all: Vec<String> = code.lines().map(str::to_string).collect();
            // Two by two sums, of which each factor is loaded once; no tile is stored but the sums, and registers are set up once.
            assert_eq!((count(&body, " tdp"), count(&body, " tileloadd")), (4, 4), "{code}");
            assert_eq!((count(&body, "tilestored"), count(&all, "tilestored")), (0, 4), "{code}");
            assert_eq!((count(&all, " tdp"), count(&all, "ldtilecfg")), (4, 1), "{code}");
        }
    }
}

fn by_hand(ast: &UOp, target: &Target) -> (String, Linear) {
    let list = print_list(&choose(&loops_of(ast, &mut Silent), target).applied);
    let linear = lower(ast, Opts::ByHand, target).unwrap_or_else(|why| panic!("{list}: {why}"));
    (list, linear)
}

#[test]
fn what_tiles_cannot_do_is_refused() {
    let refused = |types: [DType; 3], size: [i64; 3], list: &str, target: &Target| {
        let kernel = loops_of(&kernel_of(&[product(types, size, "nn")]), &mut Silent);
        match apply_list(&kernel, &parse_list(list).expect("opts"), target) {
            Err(refused) => refused.reason.to_string(),
            Ok(choice) => panic!("{}", print_list(&choice.applied)),
        }
    };
    let amx = Target::test_amx();
    let bf16 = types(TileKind::Bf16);
    let whole = "split(r2, 2), stage(l0, r0, r2, r3), stage(l2, r2, r1, r3), ";
    let tile = "multiply_tiles(r0, r1, r2, r3)";
    let of = |types: [DType; 3], size: [i64; 3], list: &str| refused(types, size, &format!("{whole}{list}"), &amx);
    let vnni = Target::test_vnni();
    assert_eq!(refused(bf16, [16, 32, 16], &format!("{whole}{tile}"), &vnni), "this target has no tiles of bf16");
    assert_eq!(of(types(TileKind::F16), [16, 32, 16], tile), "this target has no tiles of f16");
    assert_eq!(of(bf16, [17, 32, 16], tile), "a tile has at most 16 rows, 16 columns and 16 groups of terms");
    assert_eq!(
        of(bf16, [16, 32, 16], "multiply_tiles(r1, r0, r2, r3)"),
        "a factor does not lie in memory as tiles do: rows or groups one after the other"
    );
    assert_eq!(of(bf16, [16, 32, 16], "multiply_tiles(r0, r0, r2, r3)"), "a range is named twice");
    assert_eq!(
        of(bf16, [16, 32, 16], "multiply_tiles(r0, r2, r1, r3)"),
        "rows and columns are loops over results, columns perhaps lanes"
    );
    assert_eq!(of(types(TileKind::SignedBytes), [16, 32, 16], tile), "a group has as many terms as fill 32 bits");
    assert_eq!(of([DType::F32; 3], [16, 32, 16], tile), "the factors are not narrow numbers as memory has them");
    assert_eq!(
        of(bf16, [16, 32, 16], &format!("{tile}, split(r0, 2)")),
        "matrices are multiplied already, which comes last"
    );
    assert_eq!(
        refused(bf16, [16, 32, 16], &format!("split(r2, 2), {tile}"), &amx),
        "a factor does not lie in memory as tiles do: rows or groups one after the other"
    );
    let long = "split(r2, 32), split(r3, 2), stage(l0, r2, r0, r3, r4), stage(l2, r2, r3, r1, r4), multiply_tiles(r0, r1, r3, r4)";
    assert_eq!(
        refused(bf16, [16, 1056, 16], long, &amx),
        "products that are added up in a tile: 1056 needed, the limit is 1024"
    );
    let many = "split(r0, 16), upcast(r0, 7), split(r2, 2), stage(l0, r3, r2, r5), stage(l2, r2, r1, r5), multiply_tiles(r3, r1, r2, r5)";
    assert_eq!(refused(bf16, [112, 32, 16], many, &amx), "tiles that one reduction sums: 7 needed, the limit is 6");
}
