//! Products of narrow numbers by instructions that multiply and add up some terms at once: chosen by hand for machines that have them, on the interpreter of linear lists, as machine
//! code where the host has the instruction, and as assembly where it has not.
//!
//! Integers must be exact, at the ends of their types too; floats are held against sums worked out in `f64` with what their rounding admits.

use warpweft_compiler::DType;
use warpweft_compiler::dtype::Scalar;
use warpweft_compiler::ir::interpret::Value;
use warpweft_compiler::ir::text::parse;
use warpweft_compiler::ir::{DotKind, Op, ReduceOp, UOp};
use warpweft_compiler::linearize::Linear;
use warpweft_compiler::optimize::{Opts, choose, text::parse_list, text::print_list};
use warpweft_compiler::pipeline::{LowerOptions, loops_of, lower_kernel};
use warpweft_compiler::target::{Target, Tiles};
use warpweft_compiler::watch::Silent;
use warpweft_devices::cpu::assembly_for;
use warpweft_tests::kernels::{Random, compare, kernel_of, parameters, reference, run_on};
use warpweft_tests::{guarded, lists};

/// A product of matrices of two types, either of them perhaps transposed in memory, as a tensor program has it: factors in the type of the sums.
pub(crate) fn product(types: [DType; 3], [rows, terms, columns]: [i64; 3], layout: &str) -> UOp {
    let all = [rows, columns, terms];
    let matrix = |slot: u32, dtype: DType, [height, width]: [i64; 2], is_plain: bool| {
        let x = UOp::param(slot, dtype, (height * width) as u64);
        if is_plain { x.reshape([height, width]) } else { x.reshape([width, height]).permute(&[1, 0]) }
    };
    let a = matrix(1, types[0], [rows, terms], layout.starts_with('n')).reshape([rows, 1, terms]).expand(all);
    let b = matrix(2, types[1], [terms, columns], layout.ends_with('n'));
    let b = b.permute(&[1, 0]).reshape([1, columns, terms]).expand(all);
    (a.cast(types[2]) * b.cast(types[2])).reduce(ReduceOp::Add, &[2]).reshape([rows, columns])
}

/// A convolution of padded square images with square windows, as a kernel: `zero` is taken from the image's numbers.
fn convolution(types: [DType; 3], [images, channels, side, rows, kernel]: [i64; 5], zero: Option<i64>) -> UOp {
    let [image, weight, sums] = types;
    let (padding, width) = (kernel / 2, side + kernel / 2 * 2);
    let change = zero.map_or("detach u".to_string(), |zero| format!("sub u, {zero}"));
    let text = format!(
        "graph %c(z: {sums}[{images}, {rows}, {side}, {side}], x: {image}[{images}, {channels}, {side}, {side}], w: {weight}[{rows}, {channels}, {kernel}, {kernel}]) {{
  u: {sums} = cast x
  n = {change}
  p = pad n, [0:0, 0:0, {padding}:{padding}, {padding}:{padding}]
  v = as_strided p, [{images}, 1, {side}, {side}, {channels}, {kernel}, {kernel}] strides [{}, 0, {width}, 1, {}, {width}, 1] offset 0
  e = expand v, [{images}, {rows}, {side}, {side}, {channels}, {kernel}, {kernel}]
  g: {sums} = cast w
  f = reshape g, [1, {rows}, 1, 1, {channels}, {kernel}, {kernel}]
  h = expand f, [{images}, {rows}, {side}, {side}, {channels}, {kernel}, {kernel}]
  m = mul e, h
  y = reduce m, add (4, 5, 6)
  done = store z, y
  k = sink done
  return k
}}",
        channels * width * width,
        width * width,
    );
    parse(&text).expect("a graph").roots[0].clone()
}

/// Numbers of all of a type, its ends often.
pub(crate) fn inputs(ast: &UOp, seed: u64) -> Vec<Value> {
    let mut random = Random::new(seed);
    let mut number = |dtype: DType| match dtype.integer_bounds() {
        None => (random.below(4001) as f64 - 2000.0) / 1000.0,
        Some((low, high)) => match random.below(4) {
            0 => low as f64,
            1 => high as f64,
            _ => low as f64 + (random.next_bits() % (high - low + 1) as u64) as f64,
        },
    };
    let value = |(slot, (dtype, len)): (usize, &(DType, u64))| {
        let numbers: Vec<f64> = (0..*len).map(|_| if slot == 0 { 0.0 } else { number(*dtype) }).collect();
        Value::from_f64(*dtype, vec![*len as i64], &numbers).expect("parameters have element types")
    };
    parameters(ast).iter().enumerate().map(value).collect()
}

fn by_hand(ast: &UOp, target: &Target) -> (String, Linear) {
    let list = print_list(&choose(&loops_of(ast, &mut Silent), target).applied);
    let linear = lower_kernel(ast, target, &LowerOptions::by_hand_unless(false), &mut Silent);
    (list.clone(), linear.unwrap_or_else(|error| panic!("{list}: {error}")))
}

fn dots(linear: &Linear) -> usize {
    linear.ops.iter().filter(|node| node.op() == Op::DotProducts).count()
}

/// Runs what the choice by hand makes for a machine as a list, and as machine code if the host has its instructions.
#[track_caller]
fn check(ast: &UOp, target: &Target) -> (String, Linear) {
    let (list, linear) = by_hand(ast, target);
    assert!(dots(&linear) > 0, "{list}");
    let inputs = inputs(ast, 7);
    let wanted = reference(ast, &inputs).expect("a kernel of numbers");
    let as_list = lists::run_kernel(ast, &linear, &inputs).unwrap_or_else(|why| panic!("{list}: as a list: {why}"));
    compare(&wanted, &as_list).unwrap_or_else(|why| panic!("{list}: as a list: {why}"));
    if let Some(device) = guarded::lesser_cpu(target) {
        let found = run_on(&*device, ast, &linear, &inputs).unwrap_or_else(|why| panic!("{list}: {why}"));
        compare(&wanted, &found).unwrap_or_else(|why| panic!("{list}: as machine code: {why}"));
    }
    (list, linear)
}

const I8: [DType; 3] = [DType::I8, DType::I8, DType::I32];
const U8: [DType; 3] = [DType::U8, DType::U8, DType::I32];
const BYTES: [DType; 3] = [DType::U8, DType::I8, DType::I32];
const I16: [DType; 3] = [DType::I16, DType::I16, DType::I32];
const BF16: [DType; 3] = [DType::BF16, DType::BF16, DType::F32];

/// The machines, and the types that each multiplies. The host is one of them: of what it has machine code is run. Its tiles would be taken before dot products: it goes without.
fn machines() -> Vec<(Target, Vec<[DType; 3]>)> {
    let integers = || vec![I8, U8, BYTES, I16];
    let host = Target { tiles: Tiles::default(), ..guarded::cpu().target().clone() };
    let has_bf16 = host.takes_dot(DotKind::Bf16);
    vec![
        (host, if has_bf16 { vec![I8, U8, BYTES, I16, BF16] } else { integers() }),
        (Target::test_sse2(), integers()),
        (Target::test_avx2(), integers()),
        (Target::test_avx512(), integers()),
        (Target::test_vnni(), vec![I8, U8, BYTES, I16, BF16]),
    ]
}

#[test]
fn products_of_narrow_numbers_in_every_layout() {
    for (target, types) in machines() {
        for types in types {
            for layout in ["nn", "nt", "tn", "tt"] {
                check(&kernel_of(&[product(types, [36, 40, 48], layout)]), &target);
            }
        }
    }
}

#[test]
fn sizes_that_nothing_divides() {
    for (target, types) in machines() {
        for (number, size) in [[17, 53, 41], [70, 19, 33], [9, 1037, 65], [33, 8, 130]].into_iter().enumerate() {
            let types = types[number % types.len()];
            check(&kernel_of(&[product(types, size, ["nn", "nt", "tn"][number % 3])]), &target);
        }
    }
}

#[test]
fn many_terms_go_by_blocks() {
    for (target, types) in machines() {
        for types in types {
            let (list, _) = check(&kernel_of(&[product(types, [32, 1100, 48], "nt")]), &target);
            assert!(list.contains("accumulate"), "{list}");
        }
    }
}

#[test]
fn what_comes_before_and_after_stays_in_the_kernel() {
    let [rows, terms, columns] = [32i64, 64, 48];
    let x = UOp::param(1, DType::U8, (rows * terms) as u64).reshape([rows, 1, terms]).expand([rows, columns, terms]);
    let w = UOp::param(2, DType::I8, (columns * terms) as u64).reshape([1, columns, terms]);
    let w = w.expand([rows, columns, terms]).cast(DType::I32);
    let sum = ((x.cast(DType::I32) - 129) * w).reduce(ReduceOp::Add, &[2]).reshape([rows, columns]);
    let bias = UOp::param(3, DType::F32, columns as u64).reshape([1, columns]).expand([rows, columns]);
    let scaled = sum.cast(DType::F32) * UOp::float(0.125, DType::F32) + bias;
    for (target, _) in machines() {
        check(&kernel_of(&[scaled.clone()]), &target);
    }
}

#[test]
fn batches_of_products() {
    let [batch, rows, terms, columns] = [3, 32, 34, 40];
    let all = [batch, rows, columns, terms];
    let a = UOp::param(1, DType::I8, (batch * rows * terms) as u64).reshape([batch, rows, 1, terms]).expand(all);
    let b = UOp::param(2, DType::I8, (batch * columns * terms) as u64).reshape([batch, 1, columns, terms]).expand(all);
    let sum = (a.cast(DType::I32) * b.cast(DType::I32)).reduce(ReduceOp::Add, &[3]).reshape([batch, rows, columns]);
    for (target, _) in machines() {
        check(&kernel_of(&[sum.clone()]), &target);
    }
}

#[test]
fn convolutions_take_terms_in_groups() {
    for (target, types) in machines().into_iter().filter(|(target, _)| target.has_masked_memory) {
        for types in types {
            // Of 25 channels a term is left over, and of windows of one position all is one axis.
            for sizes in [[1, 16, 14, 16, 3], [2, 25, 10, 12, 3], [1, 8, 9, 40, 5]] {
                check(&convolution(types, sizes, None), &target);
            }
        }
        // A zero point leaves numbers of 16 bits, or of 9 of which no byte is.
        check(&convolution(BYTES, [1, 16, 14, 16, 3], Some(128)), &target);
        check(&convolution(BYTES, [1, 16, 14, 16, 3], Some(3)), &target);
    }
}

/// Twice the square of the least number of 16 bits is 2^31: the one sum of two products that a lane of 32 bits cannot hold.
#[test]
fn sums_of_the_least_numbers_wrap() {
    let ast = kernel_of(&[product(I16, [32, 6, 32], "nn")]);
    let filled = |dtype: DType, len: u64, number: f64| {
        Value::from_f64(dtype, vec![len as i64], &vec![number; len as usize]).expect("a type of data")
    };
    let of = |(slot, (dtype, len)): (usize, (DType, u64))| filled(dtype, len, if slot == 0 { 0.0 } else { -32768.0 });
    let inputs: Vec<Value> = parameters(&ast).into_iter().enumerate().map(of).collect();
    for (target, _) in machines() {
        let (list, linear) = by_hand(&ast, &target);
        assert!(dots(&linear) > 0, "{list}");
        let found = lists::run_kernel(&ast, &linear, &inputs).expect("a list");
        // Six times 2^30 is 2^31 and 2^32.
        assert!(found[0].scalars().iter().all(|sum| *sum == Scalar::Int(i64::from(i32::MIN))), "{list}");
        if let Some(device) = (target.vector_bytes < 64).then(|| guarded::lesser_cpu(&target)).flatten() {
            let found = run_on(&*device, &ast, &linear, &inputs).expect("machine code");
            assert!(found[0].scalars().iter().all(|sum| *sum == Scalar::Int(i64::from(i32::MIN))), "{list}");
        }
    }
}

/// The machine code of a kernel for a machine that need not be there.
fn assembly(linear: &Linear, target: &Target) -> String {
    let program = warpweft_renderer::render(linear, target).expect("a CPU has it all");
    assembly_for(&program, target).expect("LLVM knows the machine")
}

#[test]
fn machine_code_has_the_instruction() {
    let vnni = Target::test_vnni;
    for (types, target, instruction) in [
        (BF16, vnni(), "vdpbf16ps"),
        (I16, vnni(), "vpdpwssd"),
        (I8, vnni(), "vpdpbusd"),
        (U8, vnni(), "vpdpbusd"),
        (BYTES, vnni(), "vpdpbusd"),
        (I8, Target::test_avx512(), "vpmaddwd"),
        (I8, Target::test_avx2(), "vpmaddwd"),
        (I8, Target::test_sse2(), "pmaddwd"),
    ] {
        for layout in ["nn", "nt", "tn"] {
            let (list, linear) = by_hand(&kernel_of(&[product(types, [64, 128, 128], layout)]), &target);
            let code = assembly(&linear, &target);
            let count = code.lines().filter(|line| line.contains(instruction)).count();
            assert!(count >= dots(&linear), "{count} of {instruction}, {} asked for: {list}\n{code}", dots(&linear));
            // A whole register each: in the tile, one for each of its vectors and rows.
            let register = ["xmm", "ymm", "zmm"][target.vector_bytes.ilog2() as usize - 4];
            assert!(code.lines().any(|line| line.contains(instruction) && line.contains(register)), "{list}\n{code}");
        }
    }
}

#[test]
fn lanes_may_be_terms_and_groups_may_come_from_anywhere() {
    let ast = kernel_of(&[product(BYTES, [5, 70, 6], "nt")]);
    let i16 = kernel_of(&[product(I16, [5, 70, 16], "tn")]);
    let apart = kernel_of(&[product(I16, [5, 70, 16], "nt")]);
    let inputs = |ast: &UOp| inputs(ast, 3);
    for (ast, list) in [
        (&ast, "dot(r2, 4), vectorize(r2, 16)"),
        (&ast, "dot(r2, 4), vectorize(r2, 4), upcast(r0, 5)"),
        (&ast, "upcast(r2, 2), dot(r2, 4)"),
        (&ast, "dot(r2, 4), upcast(r2, 4)"),
        (&i16, "dot(r2, 2), vectorize(r1, 16)"),
        (&i16, "vectorize(r1, 8), dot(r2, 2), upcast(r0, 2), upcast(r2, 2)"),
        (&i16, "dot(r2, 2), stage(l0, r2, r3), vectorize(r1, 16)"),
        (&i16, "dot(r2, 2), stage(l1, r2, r1, r3), vectorize(r1, 4)"),
        // Terms of a lane lie beside each other, and lanes do not.
        (&apart, "dot(r2, 2), vectorize(r1, 16)"),
        // No instruction has so few lanes: each term is written out.
        (&i16, "dot(r2, 2), vectorize(r1, 2)"),
    ] {
        for target in [Target::test_vnni(), Target { costs: Target::test_vnni().costs, ..Target::test_avx2() }] {
            let options = LowerOptions { opts: Opts::List(parse_list(list).expect("a list")) };
            let linear =
                lower_kernel(ast, &target, &options, &mut Silent).unwrap_or_else(|why| panic!("{list}: {why}"));
            let inputs = inputs(ast);
            let wanted = reference(ast, &inputs).expect("a kernel of numbers");
            let found = lists::run_kernel(ast, &linear, &inputs).unwrap_or_else(|why| panic!("{list}: {why}"));
            compare(&wanted, &found).unwrap_or_else(|why| panic!("{list}: {why}"));
            let has_lanes = list.contains("vectorize") && !list.ends_with("vectorize(r1, 2)");
            assert_eq!(dots(&linear) > 0, has_lanes, "{list}");
        }
    }
}
