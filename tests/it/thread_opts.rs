//! Opts that map a kernel onto blocks of threads: products of matrices by tiles in shared memory, reductions over lanes and over blocks, what is refused
//! of them, and random lists on random kernels. All run on the interpreter of linear lists, in two orders of threads, for a GPU by its numbers.

use warpweft_compiler::DType;
use warpweft_compiler::error::CompileError;
use warpweft_compiler::ir::{Arg, Combiner, Op, ReduceOp, UOp};
use warpweft_compiler::linearize::{Linear, races};
use warpweft_compiler::optimize::{Limit, Reason, apply, apply_list, legal_opts, text::parse_list};
use warpweft_compiler::pipeline::{LowerOptions, loops_of, lower_kernel};
use warpweft_compiler::program::{Parameter, Program};
use warpweft_compiler::target::{Feature, Target};
use warpweft_compiler::watch::Silent;
use warpweft_devices::{BufferSlice, DeviceError, RawBuffer};
use warpweft_tests::guarded;
use warpweft_tests::kernels::{Random, kernel_of, matmul};
use warpweft_tests::opt_lists;

/// Lists that are tried in every run of the tests; a soak tries more.
const LISTS: u64 = 36;

#[test]
fn random_lists_of_opts_for_threads_keep_values() {
    let mut random = Random::new(78);
    let (mut barriers, mut shuffles, mut blocks) = (0, 0, 0);
    for number in 0..LISTS {
        let bytes: Vec<u8> = (0..90 + random.below(90)).map(|_| random.next_bits() as u8).collect();
        let result = opt_lists::check_for(&bytes, Some(&Target::gpu_model()), None);
        let linear = result.unwrap_or_else(|why| panic!("list {number}: {why}"));
        barriers += usize::from(count(&linear, Op::Barrier) > 0);
        shuffles += usize::from(count(&linear, Op::ShuffleReduce) > 0);
        blocks += usize::from(linear.launch().threads() > 1);
    }
    // What is not reached is not tried.
    let enough = barriers >= 3 && shuffles >= 1 && blocks >= 8;
    assert!(enough, "{barriers} with barriers, {shuffles} with shuffles, {blocks} with threads");
}

/// Rows reduced: rows r0, elements r1.
fn rows(op: ReduceOp, rows: i64, columns: i64) -> UOp {
    let x = UOp::param(1, DType::F32, (rows * columns) as u64).reshape([rows, columns]);
    kernel_of(&[x.exp2().reduce(op, &[1]).reshape([rows])])
}

fn lowered(ast: &UOp, list: &str) -> Linear {
    let options = LowerOptions { opts: list.parse().expect("opts") };
    lower_kernel(ast, &Target::gpu_model(), &options, &mut Silent).unwrap_or_else(|error| panic!("{list}: {error}"))
}

fn count(linear: &Linear, op: Op) -> usize {
    linear.ops.iter().filter(|node| node.op() == op).count()
}

#[track_caller]
fn keeps_values(ast: &UOp, list: &str) {
    opt_lists::check_list(ast, None, list, &Target::gpu_model()).unwrap_or_else(|why| panic!("{list}: {why}"));
}

/// Tiles of both matrices in shared memory: blocks of 8 x 16 outputs, a thread for each, terms 16 at a time, each tile filled by all threads.
const TILED: &str = "split(r0, 8), split(r1, 16), reorder(r3, r1), split(r2, 16), grid(r0, y), grid(r1, x), block(r3, y), block(r4, x), \
     stage_shared(l1, r5, r4), stage_shared(l0, r3, r5), split(r6, 8), block(r10, y), block(r9, x)";

#[test]
fn a_product_of_matrices_goes_by_tiles_in_shared_memory() {
    let ast = matmul(16, 32, 32);
    keeps_values(&ast, TILED);
    let linear = lowered(&ast, TILED);
    let launch = linear.launch();
    assert_eq!((launch.grid, launch.block, launch.lanes), ([2, 2, 1], [16, 8, 1], 1));
    let shared: Vec<u64> = linear.shared().locations.iter().map(|location| location.bytes).collect();
    assert_eq!(shared, [8 * 16 * 4, 16 * 16 * 4]);
    // One before the tiles are read, one before they are filled again.
    assert_eq!(count(&linear, Op::Barrier), 2);
    // Each thread computes a tile of 2 x 2 in registers; some of each copy is filled by the first threads alone.
    let with_registers = "split(r0, 16), split(r1, 32), reorder(r3, r1), upcast(r3, 2), upcast(r4, 2), split(r2, 16), grid(r0, y), \
         grid(r1, x), block(r3, y), block(r4, x), stage_shared(l1, r7, r4, r6), stage_shared(l0, r3, r5, r7)";
    keeps_values(&matmul(32, 32, 64), with_registers);
}

#[test]
fn each_barrier_is_needed() {
    let deep = "split(r1, 256), split(r2, 32), group(r2, x), lane(r3)";
    for (ast, list) in [(matmul(16, 32, 32), TILED), (rows(ReduceOp::Add, 6, 1024), deep)] {
        let linear = lowered(&ast, list);
        assert_eq!(races::check(&linear.ops), Ok(()));
        for position in 0..linear.ops.len() {
            if linear.ops[position].op() == Op::Barrier {
                let mut without = linear.ops.clone();
                without.remove(position);
                let error = races::check(&without).expect_err("a barrier that is needed");
                assert!(error.ends_with("with no barrier in between"), "{error}");
            }
        }
    }
}

/// Runs PTX on the emulator, over memory that is zero.
pub(crate) fn emulate(program: &Program) -> Result<(), DeviceError> {
    // Of its own: what fails in a queue is told to whoever waits for that next.
    let device = guarded::open("PTX", Some(2))?;
    let kernel = device.load(program, &device.compile(program)?)?;
    let bytes = |parameter: &Parameter| parameter.len as usize * parameter.dtype.bytes();
    let memory = program.parameters.iter().map(|parameter| device.allocate(bytes(parameter)));
    let memory: Vec<RawBuffer> = memory.collect::<Result<_, _>>()?;
    let slices: Vec<BufferSlice<'_>> = memory.iter().map(RawBuffer::all).collect();
    kernel.launch(&slices, &[], 2)?;
    device.finish()
}

#[test]
fn the_emulator_misses_each_barrier_that_is_left_out_of_the_text() {
    let deep = "split(r1, 256), split(r2, 32), grid(r0, x), group(r2, x), lane(r3)";
    let mut left_out = 0;
    for (ast, list) in [(matmul(16, 32, 32), TILED), (rows(ReduceOp::Add, 6, 1024), deep)] {
        let program = warpweft_renderer::render(&lowered(&ast, list), &Target::gpu_model()).expect("a GPU has it all");
        assert_eq!(emulate(&program), Ok(()));
        let lines: Vec<&str> = program.source.lines().collect();
        for number in (0..lines.len()).filter(|&number| lines[number].contains("bar.sync")) {
            let source = [&lines[..number], &lines[number + 1..]].concat().join("\n");
            let error =
                emulate(&Program { source, ..program.clone() }).expect_err("a barrier that is needed").to_string();
            assert!(error.ends_with("a race") || error.ends_with("nothing has written"), "{error}");
            left_out += 1;
        }
    }
    assert_eq!(left_out, 3);
}

#[test]
fn rows_are_reduced_over_lanes_and_over_blocks() {
    let lanes = "split(r1, 32), grid(r0, x), lane(r2)";
    let ast = rows(ReduceOp::Add, 5, 256);
    keeps_values(&ast, lanes);
    let linear = lowered(&ast, lanes);
    assert_eq!((count(&linear, Op::ShuffleReduce), count(&linear, Op::Barrier)), (1, 0));
    assert_eq!((linear.launch().threads(), linear.launch().blocks()), (32, 5));
    // Lanes first, then through shared memory.
    let group = "split(r1, 256), split(r2, 32), grid(r0, x), group(r2, x), lane(r3)";
    for op in [ReduceOp::Add, ReduceOp::Max] {
        let ast = rows(op, 3, 1024);
        keeps_values(&ast, group);
        let linear = lowered(&ast, group);
        assert_eq!((count(&linear, Op::ShuffleReduce), count(&linear, Op::Barrier)), (1, 1));
        assert_eq!((linear.launch().block, linear.launch().lanes), ([8, 1, 1], 32));
        assert_eq!(linear.shared().bytes, 8 * 4);
    }
    // What a length leaves over is reduced on its own; rows may be threads as well.
    keeps_values(&rows(ReduceOp::Add, 4, 100), "split(r1, 32), block(r0, y), lane(r2)");
    keeps_values(&rows(ReduceOp::Add, 4, 96), "split(r1, 8), block(r0, y), group(r2, x)");
}

#[test]
fn several_reductions_and_their_epilogue_share_the_threads_of_a_block() {
    let x = UOp::param(1, DType::F32, 4 * 64).reshape([4, 64]);
    let wide = |value: UOp| value.reshape([4, 1]).expand([4, 64]);
    let most = wide(x.reduce(ReduceOp::Max, &[1]));
    let shifted = (&x - most).exp2();
    let softmax = kernel_of(&[shifted.div(wide(shifted.reduce(ReduceOp::Add, &[1])))]);
    let loops = loops_of(&softmax, &mut Silent);
    // The rows, the elements of the outputs, and of each reduction.
    let mut lens: Vec<String> = warpweft_compiler::kernel::ranges::all_ranges(&loops)
        .iter()
        .map(|range| format!("r{} {}", warpweft_compiler::kernel::ranges::range_id(range), range.src()[0].infix()))
        .collect();
    lens.sort();
    assert_eq!(lens, ["r0 4", "r1 64", "r2 64", "r3 64"]);
    for list in [
        "split(r1, 32), split(r2, 32), split(r3, 32), grid(r0, x), lane(r4), lane(r5), lane(r6)",
        "split(r1, 16), split(r2, 16), split(r3, 16), grid(r0, x), block(r4, x), group(r5, x)",
        "grid(r0, x), block(r1, x), group(r2, x), group(r3, x)",
    ] {
        keeps_values(&softmax, list);
    }
}

#[test]
fn states_are_combined_through_shared_memory() {
    let x = UOp::param(1, DType::F32, 4 * 64).reshape([4, 64]);
    let positions = UOp::iota(64).cast(DType::I32).reshape([1, 64]).expand([4, 64]);
    let ast = kernel_of(&UOp::reduce_states(Combiner::ArgMaxFirst, &[x, positions], &[1])[1..]);
    keeps_values(&ast, "split(r1, 16), grid(r0, x), group(r2, x)");
    let list = parse_list("split(r1, 16), lane(r2)").expect("opts");
    let refused =
        apply_list(&loops_of(&ast, &mut Silent), &list, &Target::gpu_model()).map(drop).expect_err("lanes of a state");
    assert_eq!(refused.reason, Reason::Kernel("a state of several values is not combined over lanes"));
}

#[test]
fn what_no_target_or_kernel_admits_is_refused_with_a_reason() {
    let gpu = Target::gpu_model();
    let loops = loops_of(&matmul(2048, 64, 2048), &mut Silent);
    let reason = |kernel: &UOp, list: &str| {
        apply_list(kernel, &parse_list(list).expect("opts"), &gpu).map(drop).expect_err(list).reason
    };
    let limit = |limit, needed, most| Reason::Limit { limit, needed, most };
    assert_eq!(reason(&loops, "block(r0, x)"), limit(Limit::Block, 2048, 1024));
    assert_eq!(reason(&loops, "split(r0, 128), block(r3, z)"), limit(Limit::Block, 128, 64));
    assert_eq!(
        reason(&loops, "split(r0, 64), split(r1, 64), block(r3, y), block(r4, x)"),
        limit(Limit::BlockThreads, 4096, 1024)
    );
    assert_eq!(reason(&loops, "split(r1, 64), lane(r3)"), limit(Limit::Warp, 64, 32));
    assert_eq!(reason(&loops, "stage_shared(l0, r0, r2)"), limit(Limit::Shared, 2048 * 64 * 4, 227 << 10));
    // Each of two copies fits, and both do not.
    let two = "split(r0, 512), split(r1, 512), stage_shared(l1, r2, r4), stage_shared(l0, r3, r2)";
    assert_eq!(reason(&loops, two), limit(Limit::Shared, 2 * 512 * 64 * 4, 227 << 10));
    // Room for two copies is twice as much.
    let ahead = "split(r1, 512), stage_ahead(l1, 0, r2, r3)";
    assert_eq!(reason(&loops, ahead), limit(Limit::Shared, 2 * 512 * 64 * 4, 227 << 10));
    let high = loops_of(&kernel_of(&[UOp::param(1, DType::F32, 70_000).reshape([70_000, 1]).exp2()]), &mut Silent);
    assert_eq!(reason(&high, "grid(r0, y)"), limit(Limit::Grid, 70_000, 65_535));
    let kernel = |list, why| assert_eq!(reason(&loops, list), Reason::Kernel(why), "{list}");
    kernel("block(r2, x)", "a reduction is shared by lanes, or by a group of threads");
    kernel("split(r0, 16), split(r1, 16), block(r3, x), block(r4, x)", "stands in two ranges of one thread index");
    kernel("split(r0, 8), block(r3, x), block(r3, y)", "only a loop over outputs or a reduction's can become an index");
    kernel("split(r1, 24), lane(r3)", "two threads would store one element");
    // What a vector leaves over stands behind the end of the masked part, in memory that is replaced.
    let x = UOp::param(0, DType::F32, 15);
    let src = vec![x.clone(), &x * 2];
    let doubled = UOp::sink([UOp::new(Op::Store, DType::VOID, src, Arg::None)]);
    let why = "what is read and replaced does not end where the loop ends";
    assert_eq!(reason(&loops_of(&doubled, &mut Silent), "vectorize(r0, 2), split_masked(r0, 2)"), Reason::Kernel(why));
    keeps_values(&doubled, "split_masked(r0, 2), block(r1, x)");
    // Parts of a flattened loop are not seen to replace others than they read; of the loops themselves they are.
    let turned = UOp::param(0, DType::F32, 15).reshape([5, 3]).permute(&[1, 0]);
    let src = vec![turned.clone(), &turned * 2];
    let doubled = UOp::sink([UOp::new(Op::Store, DType::VOID, src, Arg::None)]);
    let why = "what is read and replaced lies at quotients and remainders of the range";
    assert_eq!(reason(&loops_of(&doubled, &mut Silent), "flatten(r0, r1), peel(r0, 0, 1)"), Reason::Kernel(why));
    keeps_values(&doubled, "peel(r0, 0, 1)");
    // The last vector of 15 stores what the one before it did, and would be a part that the first thread computes.
    let odd = kernel_of(&[UOp::param(1, DType::F32, 15).exp2()]);
    let why = "the last part overlaps the one before it: two threads would store one element";
    assert_eq!(reason(&loops_of(&odd, &mut Silent), "vectorize(r0, 2), peel(r0, 2, 7)"), Reason::Kernel(why));
    keeps_values(&odd, "peel(r0, 2, 10), block(r0, x)");
    let narrow = loops_of(&matmul(16, 8, 48), &mut Silent);
    assert_eq!(reason(&narrow, "split(r1, 24), lane(r3)"), Reason::Kernel("the number of lanes is a power of two"));
    kernel("split(r0, 8), block(r3, x), stage_shared(l0, r2)", "what threads share depends on the thread");
    kernel("split(r0, 8), block(r3, x), stage(l0, r3)", "threads share the range: each would copy all of it");
    kernel("split(r0, 8), block(r3, x), split(r3, 2)", "the range has become something else already");
}

#[test]
fn fills_of_shared_memory_are_shared_by_threads() {
    // 8 x 8 elements of A by 64 threads, of which each has one; the second matrix is read as it is.
    let list = "split(r0, 8), split(r2, 8), block(r3, y), stage_shared(l0, r3, r4)";
    let ast = matmul(16, 16, 8);
    keeps_values(&ast, list);
    keeps_values(&ast, &format!("{list}, block(r6, x), block(r1, x)"));
    keeps_values(&ast, &format!("{list}, split(r6, 4), block(r7, z)"));
    // Threads must not fill an element twice.
    let loops = loops_of(&ast, &mut Silent);
    let list = parse_list(&format!("{list}, split(r6, 3)")).expect("opts");
    let refused = apply_list(&loops, &list, &Target::gpu_model()).map(drop).expect_err("3 does not divide 8");
    let why = "the loop fills shared memory, of which the part must divide it";
    assert_eq!(refused.reason, Reason::Kernel(why));
}

#[test]
fn what_a_thread_still_reads_no_other_replaces() {
    let x = UOp::param(0, DType::F32, 96).reshape([8, 12]);
    let sum = x.reduce(ReduceOp::Add, &[1]).reshape([8, 1]).expand([8, 12]);
    let in_place = |value: UOp| UOp::sink([UOp::new(Op::Store, DType::VOID, vec![x.clone(), value], Arg::None)]);
    let gpu = Target::gpu_model();
    let row_sums = in_place(&x - &sum);
    for opt in ["block(r1, x)", "grid(r1, x)"] {
        let refused = apply(&loops_of(&row_sums, &mut Silent), &opt.parse().expect("an opt"), &gpu).expect_err(opt);
        assert_eq!(refused.reason, Reason::Kernel("one thread would replace what another still has to read"));
    }
    keeps_values(&row_sums, "block(r0, x)");
    keeps_values(&in_place(&x * 2), "block(r0, x)");
    keeps_values(&in_place(&x * 2), "split(r0, 8), lane(r1)");
}

#[test]
fn the_processor_refuses_what_it_lacks() {
    let ast = matmul(16, 32, 32);
    let cpu = Target::test_avx512();
    let loops = loops_of(&ast, &mut Silent);
    for (opt, feature) in [
        ("grid(r0, x)", Feature::Grid),
        ("block(r0, x)", Feature::Block),
        ("lane(r1)", Feature::Lanes),
        ("stage_shared(l0, r2)", Feature::SharedMemory),
        ("group(r2, x)", Feature::SharedMemory),
    ] {
        let refused = apply(&loops, &opt.parse().expect("an opt"), &cpu).expect_err(opt);
        assert_eq!(refused.reason, Reason::Lacks(feature));
    }
    let options = LowerOptions { opts: TILED.parse().expect("opts") };
    let error = lower_kernel(&ast, &cpu, &options, &mut Silent).expect_err("a CPU");
    assert_eq!(error.to_string(), "grid(r0, y) refused: this target has no grid of blocks");
    // A list that was made for another machine is no program of this one.
    let error = warpweft_renderer::render(&lowered(&ast, TILED), &cpu).expect_err("a CPU");
    assert!(matches!(&error, CompileError::Lacks { .. }), "{error}");
    assert!(error.to_string().starts_with("CPU has no "), "{error}");
    let rows = lowered(&rows(ReduceOp::Add, 5, 256), "split(r1, 32), lane(r2)");
    let error = warpweft_renderer::render(&rows, &cpu).expect_err("a CPU").to_string();
    assert_eq!(error, "CPU has no lanes that exchange values, which the kernel needs for `range`");
}

#[test]
fn legal_opts_of_a_target_with_blocks_map_onto_them() {
    let gpu = Target::gpu_model();
    let loops = loops_of(&matmul(16, 64, 32), &mut Silent);
    let legal = legal_opts(&loops, &gpu);
    for text in ["grid(r0, x)", "grid(r1, z)", "block(r1, x)", "lane(r1)", "group(r2, y)", "stage_shared(l1, r1, r2)"] {
        assert!(legal.contains(&text.parse().expect("an opt")), "{text} is not among {legal:?}");
    }
    for text in ["grid(r2, x)", "block(r2, x)", "lane(r2)", "thread(r0)"] {
        assert!(!legal.contains(&text.parse().expect("an opt")), "{text} is among {legal:?}");
    }
    assert!(legal.iter().all(|opt| apply(&loops, opt, &gpu).is_ok()));
    let staged = parse_list("block(r1, x), stage_shared(l1, r1, r2)").expect("opts");
    assert!(apply_list(&loops, &staged, &gpu).is_ok());
}
