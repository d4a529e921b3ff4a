//! Products of narrow numbers by instructions that multiply tiles: chosen by opts and by hand for machines that have them, on the interpreter of linear lists, as machine code where
//! the host has tiles, and as assembly where it has not.
//!
//! Integers must be exact, at the ends of their types too; floats are held against sums worked out in `f64` with what their rounding admits.

use warpweft_compiler::DType;
use warpweft_compiler::ir::text::parse;
use warpweft_compiler::ir::{Op, ReduceOp, TileKind, UOp, tiles};
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
                let (list, _) = check_by_hand(&kernel_of(&[product(types(kind), [64, 128, 128], layout)]), &target);
                // Rows are read where their terms lie beside each other.
                let copies = if layout.starts_with('n') { 1 } else { 2 };
                assert_eq!(list.matches("stage(").count(), copies, "{list}");
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

/// A convolution of square images of narrow numbers, which are padded as they are, with square windows.
fn convolution(kind: TileKind, [images, channels, side, rows, kernel]: [i64; 5], stride: i64) -> UOp {
    let ([weight, image], sums) = (kind.factors(), kind.sums());
    let (padding, width) = (kernel / 2, side + kernel / 2 * 2);
    let results = (width - kernel) / stride + 1;
    let windows = format!("{results}, {results}, {channels}, {kernel}, {kernel}");
    let text = format!(
        "graph %c(z: {sums}[{images}, {rows}, {results}, {results}], x: {image}[{images}, {channels}, {side}, {side}], w: {weight}[{rows}, {channels}, {kernel}, {kernel}]) {{
  p = pad x, [0:0, 0:0, {padding}:{padding}, {padding}:{padding}]
  u: {sums} = cast p
  v = as_strided u, [{images}, 1, {windows}] strides [{}, 0, {}, {stride}, {}, {width}, 1] offset 0
  e = expand v, [{images}, {rows}, {windows}]
  g: {sums} = cast w
  f = reshape g, [1, {rows}, 1, 1, {channels}, {kernel}, {kernel}]
  h = expand f, [{images}, {rows}, {windows}]
  m = mul e, h
  y = reduce m, add (4, 5, 6)
  done = store z, y
  k = sink done
  return k
}}",
        channels * width * width,
        stride * width,
        width * width,
    );
    parse(&text).expect("a graph").roots[0].clone()
}

/// The padded image is copied in groups of terms, the weight is read where it is.
#[test]
fn convolutions_are_done_by_tiles() {
    for (target, kinds) in machines() {
        for kind in kinds {
            // Rows of a result that tiles go on from, or that are longer than a block; tiles that overlap; few rows; terms that fill a part of a tile.
            for sizes in [[1, 32, 14, 32, 3], [2, 64, 7, 40, 3], [1, 16, 40, 24, 3], [1, 64, 9, 8, 3]] {
                let (list, linear) = check_by_hand(&convolution(kind, sizes, 1), &target);
                assert_eq!(list.matches("stage(").count(), 1, "{list}");
                let is_apart = |node: &&UOp| node.op() == Op::Index && tiles::rows_apart(node).is_some();
                assert!(linear.ops.iter().filter(is_apart).count() >= 2, "{list}");
            }
            check_by_hand(&convolution(kind, [1, 32, 17, 32, 3], 2), &target);
            // Three terms are left over, of 135 and of 147.
            check_by_hand(&convolution(kind, [1, 15, 20, 16, 3], 1), &target);
            check_by_hand(&convolution(kind, [1, 3, 32, 24, 7], 2), &target);
        }
    }
}

/// The gradient of a convolution by its weight, of padded images and windows of 3 x 3.
fn gradient_by_weight(kind: TileKind, [images, channels, side, rows]: [i64; 4]) -> UOp {
    let ([image, gradient], sums) = (kind.factors(), kind.sums());
    let (width, area) = (side + 2, side * side);
    let all = format!("{images}, {rows}, {channels}, {side}, {side}, 3, 3");
    let text = format!(
        "graph %g(z: {sums}[{rows}, {channels}, 3, 3], x: {image}[{images}, {channels}, {side}, {side}], g: {gradient}[{images}, {rows}, {side}, {side}]) {{
  p = pad x, [0:0, 0:0, 1:1, 1:1]
  u: {sums} = cast p
  v = as_strided u, [{images}, 1, {channels}, {side}, {side}, 3, 3] strides [{}, 0, {}, {width}, 1, {width}, 1] offset 0
  e = expand v, [{all}]
  c: {sums} = cast g
  f = as_strided c, [{images}, {rows}, 1, {side}, {side}, 1, 1] strides [{}, {area}, 0, {side}, 1, 0, 0] offset 0
  h = expand f, [{all}]
  m = mul e, h
  y = reduce m, add (0, 3, 4)
  done = store z, y
  k = sink done
  return k
}}",
        channels * width * width,
        width * width,
        rows * area,
    );
    parse(&text).expect("a graph").roots[0].clone()
}

#[test]
fn gradients_by_weights_are_done_by_tiles() {
    for (target, kinds) in machines() {
        for kind in kinds {
            // All terms of an image are a block, or some rows of it; columns of a block that overlap those of the one before; several tiles of lanes.
            for sizes in [[2, 16, 8, 16], [1, 16, 20, 32], [3, 48, 12, 64], [2, 33, 16, 16]] {
                let (list, _) = check_by_hand(&gradient_by_weight(kind, sizes), &target);
                assert!(list.contains("accumulate") && list.matches("stage(").count() == 2, "{list}");
            }
        }
    }
}

#[test]
fn what_leaves_many_terms_over_is_not_done_by_tiles() {
    let list = |sizes: [i64; 5]| {
        let kernel = loops_of(&convolution(TileKind::Bf16, sizes, 1), &mut Silent);
        print_list(&choose(&kernel, &Target::test_amx()).applied)
    };
    // Of nine terms a tile would leave many over.
    assert!(!list([1, 1, 32, 32, 3]).contains("multiply_tiles"));
    assert!(list([1, 4, 32, 32, 3]).contains("split(r3, 18)"), "two tiles of 18");
}

/// Each block of columns reads all rows. Where these are more than the second cache holds, wider blocks are worth columns that are computed twice.
#[test]
fn many_rows_have_few_blocks_of_columns() {
    let target = Target { threads: 1, scratch_bytes: 1 << 20, ..Target::test_amx() };
    let list = |rows: i64| {
        let ast = kernel_of(&[product(types(TileKind::Bf16), [rows, 1024, 1024], "nn")]);
        print_list(&choose(&loops_of(&ast, &mut Silent), &target).applied)
    };
    assert!(list(1024).contains("split(r1, 352)"), "{}", list(1024));
    assert!(list(256).contains("split(r1, 256)"), "{}", list(256));
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
        "a factor does not lie in memory as tiles do: the elements of a row one after the other"
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
        "a factor does not lie in memory as tiles do: the elements of a row one after the other"
    );
    let long = "split(r2, 32), split(r3, 2), stage(l1, r3, r1, r4), multiply_tiles(r0, r1, r3, r4)";
    assert_eq!(
        refused(bf16, [16, 1009 * 32, 16], long, &amx),
        "products of tiles that are added to one: 1009 needed, the limit is 1008"
    );
    let windows = "graph %windows(y: f32[16, 16], x: bf16[47], w: bf16[32, 16]) {
  v = as_strided x, [16, 1, 32] strides [1, 0, 1] offset 0
  a: f32 = cast v
  wide = expand a, [16, 16, 32]
  t = permute w, (1, 0)
  b = reshape t, [1, 16, 32]
  u: f32 = cast b
  tall = expand u, [16, 16, 32]
  p = mul wide, tall
  s = reduce p, add (2)
  done = store y, s
  k = sink done
  return k
}";
    let kernel = loops_of(&parse(windows).expect("a graph").roots[0], &mut Silent);
    let list = parse_list("split(r2, 2), stage(l1, r2, r1, r3), multiply_tiles(r0, r1, r2, r3)").expect("opts");
    let refused_windows = apply_list(&kernel, &list, &amx).map(|choice| print_list(&choice.applied));
    assert_eq!(
        refused_windows.map_err(|refused| refused.reason.to_string()),
        Err("a factor does not lie in memory as tiles do: the elements of a row one after the other".to_string())
    );
    let many = "split(r0, 16), upcast(r0, 7), split(r2, 2), stage(l0, r3, r2, r5), stage(l2, r2, r1, r5), multiply_tiles(r3, r1, r2, r5)";
    assert_eq!(refused(bf16, [112, 32, 16], many, &amx), "tiles that one reduction sums: 7 needed, the limit is 6");
}
