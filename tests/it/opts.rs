//! Opts as data: lists that a caller gives, what is refused of them, and random lists on random kernels.

use warpweft_compiler::DType;
use warpweft_compiler::error::CompileError;
use warpweft_compiler::ir::text::parse;
use warpweft_compiler::ir::{Arg, Dim, Op, ReduceOp, UOp, postorder};
use warpweft_compiler::kernel::ranges::{closed_ranges, range_id};
use warpweft_compiler::optimize::{Limit, Opt, Opts, Reason, apply, choose, legal_opts, outline};
use warpweft_compiler::pipeline::{LowerOptions, loops_of, lower_kernel};
use warpweft_compiler::target::Target;
use warpweft_compiler::watch::Silent;
use warpweft_tests::choices::Choices;
use warpweft_tests::kernels::{Random, kernel_of, matmul};
use warpweft_tests::{guarded, in_place, lists, opt_lists};

/// Lists that are tried in every run of the tests; a soak tries more.
const LISTS: u64 = 12;

#[test]
fn random_lists_of_opts_keep_values() {
    let device = guarded::open_cpu().expect("the CPU");
    let mut random = Random::new(9);
    for number in 0..LISTS {
        let bytes: Vec<u8> = (0..60 + random.below(60)).map(|_| random.next_bits() as u8).collect();
        let device = number.is_multiple_of(3).then_some(&*device);
        opt_lists::check(&bytes, device).unwrap_or_else(|why| panic!("list {number}: {why}"));
    }
}

#[test]
fn no_two_threads_store_one_element() {
    // 33 elements in parts of 2, 5 in parts of 3: the last part begins earlier and stores elements of the one before.
    let refused = "two threads would store one element";
    let copied = |shape: &[i64]| {
        let len: i64 = shape.iter().product();
        kernel_of(&[(UOp::param(1, DType::F32, len as u64) * 2).reshape(shape)])
    };
    let row = copied(&[33]);
    for list in ["vectorize(r0, 2), block(r0, x)", "split(r0, 2), grid(r0, x)", "upcast(r0, 4), block(r0, x)"] {
        let error = opt_lists::check_list(&row, None, list, &lists::GPU_MODEL).unwrap_err();
        assert!(error.ends_with(refused), "{list}: {error}");
    }
    // One thread may store an element twice.
    let rows = kernel_of(&[(UOp::param(1, DType::F32, 15).reshape([3, 5]).permute(&[1, 0])) * 2]);
    for list in ["vectorize(r1, 2), grid(r0, x)", "upcast(r0, 3), block(r1, y)"] {
        opt_lists::check_list(&rows, None, list, &lists::GPU_MODEL).unwrap_or_else(|why| panic!("{list}: {why}"));
    }
    let error = opt_lists::check_list(&rows, None, "upcast(r0, 3), block(r0, y)", &lists::GPU_MODEL).unwrap_err();
    assert!(error.ends_with(refused), "{error}");
}

/// A kernel over the first `n` elements of params of so many.
fn first_elements(len: i64, value: impl Fn(&dyn Fn(u32) -> UOp) -> UOp) -> UOp {
    let part = |slot: u32| {
        let n = Dim::from(UOp::variable("n", 1, len));
        UOp::param(slot, DType::F32, len as u64).shrink(&[(Dim::from(0), n)])
    };
    UOp::sink([UOp::new(Op::Store, DType::VOID, vec![part(0), value(&part)], Arg::None)])
}

#[test]
fn loops_that_are_empty_load_nothing() {
    // Backwards, the first vector of a length that has none would begin before memory.
    let flipped = |len: i64| first_elements(len, |part| part(1).flip(&[0]));
    let sum = |len: i64| {
        let sum = first_elements(len, |part| part(1).flip(&[0])).src()[0].src()[1].reduce(ReduceOp::Add, &[0]);
        kernel_of(&[sum.reshape([1])])
    };
    let target = Target::test_avx512();
    for (ast, len, lists) in [
        (flipped(33), 33, ["vectorize(r0, 2)", "split(r0, 2)"]),
        (flipped(17), 17, ["vectorize(r0, 16)", "upcast(r0, 12)"]),
        (sum(17), 17, ["vectorize(r0, 16)", "upcast(r0, 12)"]),
    ] {
        for (list, n) in lists.iter().flat_map(|list| [1, 2, 3, 11, 12, 16, len].map(move |n| (list, n))) {
            opt_lists::check_list(&ast, Some(n), list, &target).unwrap_or_else(|why| panic!("{list}, n = {n}: {why}"));
        }
    }
}

#[test]
fn loops_are_not_swapped_where_something_would_be_read_after_it_was_replaced() {
    // A row's sum is taken before any of the row is replaced.
    let x = UOp::param(0, DType::F32, 96).reshape([8, 12]);
    let sum = x.reduce(ReduceOp::Add, &[1]).reshape([8, 1]).expand([8, 12]);
    let in_place = UOp::sink([UOp::new(Op::Store, DType::VOID, vec![x.clone(), &x - &sum], Arg::None)]);
    let elsewhere = UOp::new(Op::Store, DType::VOID, vec![UOp::param(1, DType::F32, 96), &x - &sum], Arg::None);
    let target = Target::test_avx512();
    for opt in ["reorder(r0, r1)", "outermost(r1)"] {
        let applied = |ast: &UOp| apply(&loops_of(ast, &mut Silent), &opt.parse().expect("an opt"), &target);
        let refused = applied(&in_place).expect_err(opt);
        assert_eq!(refused.reason, Reason::Kernel("an iteration would read what an earlier one replaced"));
        assert!(applied(&UOp::sink([elsewhere.clone()])).is_ok());
    }
    let list = "vectorize(r1, 4), upcast(r0, 2), thread(r0)";
    assert_eq!(opt_lists::check_list(&in_place, None, list, &target), Ok(()));
}

#[test]
fn a_part_that_no_length_has_is_refused() {
    // What two upcasts leave over is less than 4, though its bounds alone do not say so.
    let ast = first_elements(64, |part| part(0).exp2());
    let target = Target::test_avx512();
    let mut kernel = loops_of(&ast, &mut Silent);
    for _ in 0..2 {
        kernel = apply(&kernel, &Opt::Upcast { range: 0, times: 4 }, &target).expect("an upcast");
    }
    for range in 1..8 {
        if let Ok(new) = apply(&kernel, &Opt::Vectorize { range, lanes: 4 }, &target) {
            panic!("r{range}: {}", outline(&new));
        }
    }
    for n in [1, 3, 4, 15, 16, 17, 20, 61, 64] {
        opt_lists::check_list(&ast, Some(n), "upcast(r0, 4), upcast(r0, 4)", &target).expect("the same values");
    }
}

#[test]
fn no_store_stands_in_a_loop_of_others_that_may_be_empty() {
    // What is left over of the columns, outermost, would stand around the rows of all others.
    let n = Dim::from(UOp::variable("n", 1, 20));
    let x = UOp::param(1, DType::F32, 160).reshape([8, 20]).shrink(&[(Dim::from(0), Dim::from(8)), (Dim::from(0), n)]);
    let ast = UOp::sink([UOp::new(Op::Store, DType::VOID, vec![UOp::param(0, DType::F32, 160), x.exp2()], Arg::None)]);
    let target = Target::test_avx512();
    let split = apply(&loops_of(&ast, &mut Silent), &Opt::Split { range: 1, len: 4 }, &target).expect("a split");
    let rest = closed_ranges(&split.src()[1]).last().map(range_id).expect("a loop");
    let refused = apply(&split, &Opt::Outermost { range: rest }, &target).expect_err("a loop that may be empty");
    assert_eq!(refused.reason, Reason::Kernel("a store would stand in a loop of others that may be empty"));
    assert!(opt_lists::check_list(&ast, Some(8), "split(r1, 4), split(r0, 2)", &target).is_ok());
}

#[test]
fn panels_are_packed_wherever_they_are_asked_for() {
    // What the nest of hand-written products does: a panel of B packed outside of all rows, tiles of A packed, a register tile.
    let target = Target::test_avx512();
    let panel = "vectorize(r1, 16), upcast(r1, 2), outermost(r1), stage(l1, r2, r4, r3), upcast(r0, 6)";
    for list in [
        "stage(l1, r2), stage(l0, r2)",
        "stage(l1, r1, r2), stage(l0, r0, r2)",
        "stage(l1, r2, r1), stage(l0, r2, r0), thread(r0)",
        "split(r2, 8), stage(l1, r3), reorder(r0, r1)",
        "reorder(r0, r1), stage(l1, r2), vectorize(r3, 4)",
        "stage(l0, r2, r0), reorder(r3, r4), vectorize(r4, 4), vectorize(r1, 16)",
        panel,
    ] {
        for [rows, terms, columns] in [[12, 16, 64], [7, 16, 33]] {
            let ast = matmul(rows, terms, columns);
            opt_lists::check_list(&ast, None, list, &target)
                .unwrap_or_else(|why| panic!("{rows} x {terms} x {columns}, {list}: {why}"));
        }
    }
}

#[test]
fn blocks_of_a_contraction_stand_outside_of_its_outputs() {
    let target = Target::test_avx512();
    for list in [
        "accumulate(r2, r0, r1)",
        "accumulate(r2, r1)",
        "split(r2, 8), accumulate(r2, r0, r1)",
        "split(r2, 8), accumulate(r2, r1), reorder(r2, r4), reorder(r0, r1)",
        "split(r2, 4), accumulate(r2, r0, r1), reorder(r4, r5), reorder(r2, r5), split(r2, 2)",
        "split(r2, 5), accumulate(r2, r0, r1), vectorize(r1, 16), upcast(r0, 4)",
        "vectorize(r1, 16), upcast(r0, 6), split(r2, 4), accumulate(r2, r0, r4, r1, r3)",
        "vectorize(r1, 16), upcast(r0, 6), split(r2, 4), accumulate(r2, r4, r3), thread(r0)",
        "vectorize(r2, 4), accumulate(r2, r0, r1)",
        "split(r2, 8), stage(l1, r3), accumulate(r2, r0, r1)",
        "split(r2, 4), accumulate(r2, r0, r1), stage(l1, r3, r5)",
    ] {
        // What is left over of a split has a number of its own, so lists that name loops of blocks go with lengths that divide.
        let is_named_later = list.contains("reorder") || list.contains("stage(l1, r3, r5)");
        for [rows, terms, columns] in [[12, 16, 64], [7, 16, 33], [12, 19, 48]] {
            if terms % 16 != 0 && is_named_later {
                continue;
            }
            let ast = matmul(rows, terms, columns);
            opt_lists::check_list(&ast, None, list, &target)
                .unwrap_or_else(|why| panic!("{rows} x {terms} x {columns}, {list}: {why}"));
        }
    }
}

/// Sums over images and positions: of `n` images, or of all six.
fn sums_of_two(is_variable: bool) -> UOp {
    let (variable, part) = if is_variable {
        (", n: index 0..6", "shrink p, [0:n, 0:12, 0:32, 0:8]")
    } else {
        ("", "reshape p, [6, 12, 32, 8]")
    };
    let text = format!(
        "graph %sums(y: f32[12, 32], x: f32[6, 12, 8], w: f32[6, 32, 8]{variable}) {{
  a = reshape x, [6, 12, 1, 8]
  wide = expand a, [6, 12, 32, 8]
  b = reshape w, [6, 1, 32, 8]
  tall = expand b, [6, 12, 32, 8]
  p = mul wide, tall
  part = {part}
  sum = reduce part, add (0, 3)
  done = store y, sum
  k = sink done
  return k
}}"
    );
    warpweft_compiler::ir::text::parse(&text).expect("a graph").roots[0].clone()
}

#[test]
fn loops_of_what_is_accumulated_become_loops_of_blocks_too() {
    let target = Target::test_avx512();
    let both = "accumulate(r2, r0, r1), accumulate(r3, r4, r5)";
    for list in [
        both,
        "accumulate(r3, r0, r1), accumulate(r2, r4, r5)",
        "split(r3, 4), accumulate(r2, r0, r1), accumulate(r3, r5, r6)",
        "split(r3, 4), accumulate(r2, r0, r1), accumulate(r3, r5, r6), stage(l1, r4, r6), vectorize(r6, 16), upcast(r5, 4), thread(r0)",
        // Along other loops than those that fill scratch, which are one less.
        "accumulate(r2, r1), accumulate(r3, r0, r4)",
        "accumulate(r2, r0, r1), accumulate(r3, r5)",
    ] {
        opt_lists::check_list(&sums_of_two(false), None, list, &target).unwrap_or_else(|why| panic!("{list}: {why}"));
        for images in [0, 1, 5] {
            opt_lists::check_list(&sums_of_two(true), Some(images), list, &target)
                .unwrap_or_else(|why| panic!("{list} of {images}: {why}"));
        }
    }
    // There is one buffer of partial results, and both loops stand around what fills it.
    let list = both.parse::<Opts>().expect("opts");
    let Opts::List(list) = list else { panic!("a list") };
    let kernel = list
        .iter()
        .fold(loops_of(&sums_of_two(false), &mut Silent), |kernel, opt| apply(&kernel, opt, &target).expect("an opt"));
    let buffers = postorder(std::slice::from_ref(&kernel)).iter().filter(|node| node.op() == Op::LocalBuffer).count();
    assert_eq!(buffers, 1);
}

fn opts(text: &str) -> LowerOptions {
    LowerOptions { opts: text.parse().expect("opts") }
}

#[test]
fn the_choice_by_hand_is_a_list_that_a_caller_may_give() {
    let target = Target::test_avx512();
    let mut kernels = vec![matmul(64, 64, 64), matmul(100, 7, 33)];
    let bytes: Vec<u8> = (0..480u32).map(|number| (number * 37 % 251) as u8).collect();
    kernels.extend(bytes.chunks(60).map(|bytes| in_place::kernel(&mut Choices::new(bytes)).ast));
    for ast in kernels {
        let chosen = choose(&loops_of(&ast, &mut Silent), &target).applied;
        let text = |options: &LowerOptions| {
            let linear = lower_kernel(&ast, &target, options, &mut Silent).expect("a kernel");
            warpweft_compiler::linearize::text::print(&linear)
        };
        assert_eq!(text(&opts(&Opts::List(chosen).to_string())), text(&LowerOptions::default()));
    }
}

#[test]
fn limits_refuse_with_numbers() {
    let target = Target::test_avx512();
    let loops = loops_of(&matmul(512, 512, 512), &mut Silent);
    let reason = |kernel: &UOp, opt: &str, target: &Target| {
        apply(kernel, &opt.parse().expect("an opt"), target).expect_err(opt).reason
    };
    let limit = |limit, needed, most| Reason::Limit { limit, needed, most };
    assert_eq!(reason(&loops, "vectorize(r1, 32)", &target), limit(Limit::Lanes, 32, 16));
    assert_eq!(reason(&loops, "upcast(r0, 64)", &target), limit(Limit::Registers, 64, 32));
    assert_eq!(reason(&loops, "stage(l0, r0, r2)", &target), limit(Limit::Scratch, 1 << 20, 512 << 10));
    assert_eq!(reason(&loops, "accumulate(r2, r0, r1)", &target), limit(Limit::Scratch, 1 << 20, 512 << 10));
    let one = Target { threads: 1, ..target.clone() };
    assert_eq!(reason(&loops, "thread(r0)", &one), limit(Limit::Threads, 2, 1));
    // Copies of a stage count, and so do those of a body without reductions.
    let staged = apply(&loops, &"stage(l0, r2)".parse().expect("an opt"), &target).expect("a row");
    let small = Target { scratch_bytes: 4 * 2048, ..target.clone() };
    assert_eq!(reason(&staged, "upcast(r0, 8)", &small), limit(Limit::Scratch, 8 * 2048, 4 * 2048));
    let long = (0..400).fold(UOp::param(1, DType::F32, 4096), |x, _| x.exp2());
    let long = loops_of(&kernel_of(&[long]), &mut Silent);
    assert!(matches!(reason(&long, "upcast(r0, 256)", &target), Reason::Limit { limit: Limit::Code, .. }));
    assert_eq!(reason(&loops, "split(r7, 2)", &target), Reason::NoRange(7));
    assert!(matches!(reason(&loops, "vectorize(r1, 3)", &target), Reason::Kernel(_)));
}

#[test]
fn a_list_that_does_not_fit_is_an_error_with_the_opt_named() {
    let error = lower_kernel(&matmul(8, 8, 8), &Target::test_avx512(), &opts("split(r0, 2), thread(r1)"), &mut Silent);
    let error = error.expect_err("r1 is not the outermost loop");
    assert!(matches!(&error, CompileError::Opt { opt, .. } if opt == "thread(r1)"), "{error:?}");
    assert_eq!(error.to_string(), "thread(r1) refused: a store does not have it as its outermost loop");
}

#[test]
fn legal_opts_are_those_that_apply() {
    let target = Target::test_avx512();
    let kernel = loops_of(&matmul(64, 64, 64), &mut Silent);
    let legal = legal_opts(&kernel, &target);
    let has = |text: &str| legal.contains(&text.parse().expect("an opt"));
    for text in [
        "vectorize(r1, 16)",
        "upcast(r0, 6)",
        "split(r2, 16)",
        "outermost(r1)",
        "thread(r0)",
        "thread(r0, r1)",
        "reorder(r0, r1)",
        "pack(r2, r1)",
        "materialize(r1)",
        "stage(l1, r1, r2)",
        "stage(l1, r2, r1)",
        "accumulate(r2, r0, r1)",
        "accumulate(r2, r1)",
    ] {
        assert!(has(text), "{text} is not among {legal:?}");
    }
    for text in
        ["vectorize(r1, 32)", "thread(r1)", "outermost(r0)", "reorder(r1, r0)", "reorder(r1, r2)", "split(r0, 128)"]
    {
        assert!(!has(text), "{text} is among {legal:?}");
    }
    assert!(legal.iter().all(|opt| apply(&kernel, opt, &target).is_ok()));
    let threads = |opt: &Opt| matches!(opt, Opt::Thread { .. } | Opt::ThreadPair { .. });
    assert!(!legal_opts(&kernel, &Target { threads: 1, ..target }).iter().any(threads));
}

/// x = reversed x, by way of a copy: all of it is read before any of it is replaced.
const REVERSED: &str = "graph %reversed(x: f32[64]) {
  turned = flip x, (0)
  copy = materialize turned, (0)
  done = store x, copy
  k = sink done
  return k
}";

/// y = x through a view of y whose rows are a variable, turned: its index is made of a quotient and a remainder by that variable.
const UNEVEN: &str = "graph %uneven(y: f32[32], x: f32[32], n: index 1..8) {
  m = mul n, 4
  rows = shrink y, [0:m]
  table = reshape rows, [n, 4]
  turned = permute table, (1, 0)
  flat = reshape turned, [m]
  part = shrink x, [0:m]
  done = store flat, part
  k = sink done
  return k
}";

#[test]
fn what_would_change_values_is_refused() {
    let refusal = |text: &str, opt: &str| {
        let graph = parse(text).expect("a graph");
        let loops = loops_of(&graph.roots[0], &mut Silent);
        apply(&loops, &opt.parse().expect("an opt"), &Target::test_avx512()).expect_err(opt).reason
    };
    let of_threads = "one thread would replace what another still has to read";
    assert_eq!(refusal(REVERSED, "thread(r0)").to_string(), of_threads);
    let of_lanes = "a store's index does not move evenly with the range";
    assert_eq!(refusal(UNEVEN, "vectorize(r0, 4)").to_string(), of_lanes);
}
