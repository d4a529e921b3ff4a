//! Tests of the text form: every op and argument there and back, errors with their position.

use super::*;
use crate::dtype::Scalar;
use crate::ir::{AxisKind, MemorySpace, ReduceOp, Shape, StridedArg};

#[track_caller]
fn check_round_trip(roots: &[UOp]) -> String {
    let text = print(&Graph::new("g", roots));
    let graph = parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(graph.roots, roots, "{text}");
    assert_eq!(print(&graph), text);
    text
}

#[track_caller]
fn check_error(text: &str, expected: &str) {
    assert_eq!(parse(text).unwrap_err().to_string(), expected, "{text}");
}

#[test]
fn a_graph_reads_as_it_is_printed() {
    let text = "\
graph %softplus(x: f32[2, 3], n: index 1..8, flag: bool[1]) {
  v0 = lt n, 3
  v1 = mul x, 1.442695
  v2 = exp2 v1
  v3: f64 = cast v2
  v4 = reduce v3, add (1)
  v5 = where v0, v4, 2.5
  v6 = mul n, 2
  v7 = shrink v5, [0:v6]
  v8 = reshape flag, []
  return v7, v8, 3:i32, inf:f16, true
}
";
    let graph = parse(text).unwrap();
    assert_eq!(print(&graph), text);
    assert_eq!(graph.roots[0].shape().to_string(), "[(n * 2)]");
    let parameters: Vec<&str> = graph.parameters.iter().map(|parameter| parameter.name.as_str()).collect();
    assert_eq!(parameters, ["x", "n", "flag"]);
}

#[test]
fn names_of_the_author_are_free_and_values_are_renumbered() {
    let text =
        "graph %join(x: index 0..63) {\n q = idiv x, 8 ; comment\n\n p = mul q, 8\n r = mod x, 8\n return p, r }";
    let printed = print(&parse(text).unwrap());
    assert_eq!(
        printed,
        "graph %join(x: index 0..63) {\n  v0 = idiv x, 8\n  v1 = mul v0, 8\n  v2 = mod x, 8\n  return v1, v2\n}\n"
    );
}

#[test]
fn movement_and_tensor_ops_round_trip() {
    let x = UOp::param(0, DType::F32, 6).reshape([2, 3]);
    let n = UOp::variable("n", 1, 3);
    let arg = StridedArg { shape: Shape::from([2]), strides: Shape::from([-1]), offset: Dim::from(&n + 1) };
    let strided = UOp::new(Op::AsStrided, DType::F32, vec![x.clone()], Arg::Strided(arg.into()));
    let copy = UOp::new(Op::Copy, DType::F32, vec![x.clone()], Arg::Device("A \"quoted\"\\\n name".into()));
    let bind = UOp::new(Op::Bind, DType::INDEX, vec![n.clone(), UOp::index(2)], Arg::None);
    let device = "CPU".into();
    let text = check_round_trip(&[
        x.permute(&[1, 0]).contiguous(),
        x.flip(&[0, 1]).detach(),
        x.pad(&[(1.into(), Dim::from(n.clone())), (0.into(), 0.into())]),
        x.reduce(ReduceOp::Max, &[0, 1]).pad(&[]),
        x.shrink(&[(0.into(), 1.into()), (0.into(), 3.into())]).expand([2, 3]),
        x.gather(&UOp::iota(Dim::from(n.clone())), 1),
        UOp::buffer(u64::MAX, DType::BF16, 7, &device),
        strided,
        copy,
        bind,
        UOp::new(Op::Function, DType::F32, vec![x.exp2(), x.clone()], Arg::Function(crate::ir::Function::Tanh)),
    ]);
    assert!(text.contains("= pad p0, [1:n, 0:0]\n"), "{text}");
    assert!(text.contains("p0: f32[2, 3]"), "{text}");
}

#[test]
fn kernel_forms_round_trip() {
    let out = UOp::param(0, DType::F32, 64);
    let input = UOp::param(1, DType::F32, 64);
    let range = UOp::range(8, 0, AxisKind::Parallel);
    let inner = UOp::range(8, 1, AxisKind::Reduce);
    let new = |op, dtype, src: &[&UOp], arg| {
        UOp::new(op, dtype, src.iter().map(|node| (*node).clone()).collect::<Vec<UOp>>(), arg)
    };
    let offset = &range * 8 + &inner;
    let gate = inner.lt(7);
    let index = new(Op::Index, DType::F32, &[&input, &offset, &gate], Arg::None);
    let load = new(Op::Load, DType::F32, &[&index], Arg::None);
    let sum = new(Op::ReduceRange, DType::F32, &[&load, &inner], Arg::Combine(ReduceOp::Add));
    let target = new(Op::Index, DType::F32, &[&out, &range], Arg::None);
    let store = new(Op::Store, DType::VOID, &[&target, &sum, &range], Arg::None);
    let one = UOp::float(1.0, DType::F32);
    let store_one = new(
        Op::Store,
        DType::VOID,
        &[&new(Op::Index, DType::F32, &[&out, &UOp::index(3)], Arg::None), &one],
        Arg::None,
    );
    let ramp = new(Op::Ramp, DType::INDEX.with_lanes(4), &[&range], Arg::Number(-2));
    let splat = new(Op::Splat, DType::F32.with_lanes(4), &[&load], Arg::None);
    let stack = new(Op::Stack, DType::F32.with_lanes(2), &[&load, &sum], Arg::None);
    let lane = new(Op::Lane, DType::F32, &[&stack], Arg::Number(1));
    let across = new(Op::HorizontalReduce, DType::F32, &[&splat], Arg::Combine(ReduceOp::Min));
    let scratch = new(Op::Scratch, DType::F32, &[], Arg::Scratch(2, 32, MemorySpace::Private));
    let kept = new(Op::Index, DType::F32, &[&scratch, &inner], Arg::None);
    let stage = new(
        Op::LocalBuffer,
        DType::F32,
        &[&new(Op::Store, DType::VOID, &[&kept, &load, &inner], Arg::None)],
        Arg::None,
    );
    let accumulator = new(Op::Accumulator, DType::F32, &[&one], Arg::Number(5));
    let update = new(Op::Update, DType::VOID, &[&accumulator, &one], Arg::None);
    let end = new(Op::EndRange, DType::VOID, &[&inner], Arg::None);
    let last = new(Op::Final, DType::F32, &[&accumulator, &end], Arg::None);
    let sink = UOp::sink([store, store_one]);
    let shared = new(Op::Scratch, DType::F32, &[], Arg::Scratch(3, 8, MemorySpace::Shared));
    let lanes = UOp::range(8, 7, AxisKind::Lane);
    let end_of_lanes = new(Op::EndRange, DType::VOID, &[&lanes], Arg::None);
    let combined = new(Op::ShuffleReduce, DType::F32, &[&load, &end_of_lanes], Arg::Combine(ReduceOp::Max));
    let half = UOp::float(0.5, DType::F16);
    let halves_shared = new(Op::Scratch, DType::F16, &[], Arg::Scratch(4, 16, MemorySpace::Shared));
    let halves = |count: usize| new(Op::Splat, DType::F16.with_lanes(count), &[&half], Arg::None);
    let sums = new(Op::Splat, DType::F32.with_lanes(4), &[&one], Arg::None);
    let matrices = new(Op::MultiplyMatrices, sums.dtype(), &[&halves(8), &halves(4), &sums], Arg::None);
    let row = new(Op::Index, DType::F16.with_lanes(8), &[&halves_shared, &UOp::index(8)], Arg::None);
    let loaded = new(Op::LoadMatrices, DType::F16.with_lanes(8), &[&row], Arg::Number(1));
    let barrier = new(Op::Barrier, DType::VOID, &[], Arg::Number(4));
    let indices = AxisKind::ALL.into_iter().zip(10..).map(|(kind, id)| UOp::range(2, id, kind));
    let of_threads = indices.chain([shared, combined, matrices, loaded, barrier]);
    let others = [sink, ramp, lane, across, stage, update, last];
    let text = check_round_trip(&others.into_iter().chain(of_threads).collect::<Vec<UOp>>());
    for line in [
        "= range 2, grid_z #13\n",
        "= range 2, block_x #14\n",
        "r7 = range 8, lane #7\n",
        "s3: f32 = scratch shared #3 [8]\n",
        "s2: f32 = scratch #2 [32]\n",
        ", max\n",
        "= barrier #4\n",
    ] {
        assert!(text.contains(line), "{line} is not in {text}");
    }
    assert!(text.contains("r1 = range 8, reduce #1\n"), "{text}");
    assert!(text.contains("= store v8, 1.0\n"), "{text}");
}

#[test]
fn choices_of_which_one_is_seldom_round_trip() {
    let x = UOp::param(0, DType::F32, 8);
    let one = UOp::float(1.0, DType::F32).reshape([1]).expand([8]);
    let text = check_round_trip(&[x.lt(&one).select_seldom(&x, &one), x.lt(&one).select(&x, &one)]);
    assert_eq!(text.matches(", #1\n").count(), 1, "{text}");
}

#[test]
fn dot_products_round_trip() {
    let vector = |dtype: DType, lanes: usize| UOp::constant(Scalar::one(dtype), dtype.with_lanes(lanes));
    for kind in crate::ir::DotKind::ALL {
        let [left, right] = kind.factors().map(|factor| vector(factor, 4 * kind.group()));
        let sums = vector(kind.sums(), 4);
        check_round_trip(&[UOp::new(Op::DotProducts, sums.dtype(), vec![left, right, sums], Arg::None)]);
    }
}

#[test]
fn products_of_tiles_round_trip() {
    let vector = |dtype: DType, lanes: usize| UOp::constant(Scalar::one(dtype), dtype.with_lanes(lanes));
    let shape = crate::ir::TileShape { rows: 3, columns: 5, groups: 2 };
    for kind in crate::ir::TileKind::ALL {
        let types = [kind.factors()[0], kind.factors()[1], kind.sums()];
        let operands = [0, 1, 2].map(|operand: usize| vector(types[operand], shape.lanes(kind)[operand]));
        let dtype = operands[2].dtype();
        check_round_trip(&[UOp::new(Op::MultiplyTiles, dtype, operands.to_vec(), Arg::Number(3))]);
    }
    let memory = UOp::param(1, DType::BF16, 96);
    let apart = crate::ir::tiles::index_of_rows(&memory, UOp::index(4), DType::BF16.with_lanes(24), 8, 32);
    assert_eq!(crate::ir::tiles::rows_apart(&apart), Some((8, 32)));
    check_round_trip(&[UOp::new(Op::Load, DType::BF16.with_lanes(24), vec![apart], Arg::None)]);
}

#[test]
fn constants_of_every_type_round_trip() {
    let mut roots = Vec::new();
    for dtype in DType::ALL.into_iter().chain([DType::INDEX, DType::F32.with_lanes(8)]) {
        let values = [0.0, -0.0, 0.1, 1e-30, 3.0e38, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -3.0, 65504.0];
        roots.extend(values.map(|value| UOp::float(value, dtype)));
        roots.extend([Scalar::lowest(dtype), Scalar::highest(dtype)].map(|value| UOp::constant(value, dtype)));
        roots.push(UOp::constant(Scalar::from_bits(1, dtype), dtype));
    }
    check_round_trip(&roots);
    let x = UOp::param(0, DType::F64, 1);
    check_round_trip(&[&x + &UOp::float(0.1, DType::F64), UOp::bool(true).select(&x, 1)]);
}

#[test]
fn params_and_variables_with_odd_names_round_trip() {
    let odd = UOp::variable("add", 0, 3) + UOp::variable("two words", 0, 3) + UOp::variable("v0", -4, 3);
    let text = check_round_trip(&[odd]);
    assert!(text.contains("index 0..3 named \"add\""), "{text}");
    let clash = UOp::param(3, DType::F32, 2) + UOp::param(3, DType::F64, 2).cast(DType::F32);
    let text = check_round_trip(&[clash]);
    assert!(text.starts_with("graph %g(p3: f32[2] slot 3, v0: f64[2] slot 3) {"), "{text}");
    let seen_twice = UOp::param(0, DType::F32, 4);
    check_round_trip(&[seen_twice.reshape([2, 2]), seen_twice]);
}

#[test]
fn a_long_chain_round_trips() {
    let mut node = UOp::variable("x", 0, 9);
    for _ in 0..20_000 {
        node = node.max(3) + 1;
    }
    check_round_trip(&[node]);
}

#[test]
fn errors_say_where_and_what_was_expected() {
    check_error("", "line 1, column 1: expected `graph`, found the end of the text");
    check_error("graph (", "line 1, column 7: expected the graph's name, as in `%main`, found `(`");
    let inside = |line: &str| format!("graph %g(x: f32[2], n: index 0..9) {{\n  {line}\n  return x\n}}\n");
    check_error(&inside("y = plus x, x"), "line 2, column 7: expected the name of an op, found `plus`");
    check_error(&inside("y = add x, z"), "line 2, column 14: expected the name of a node defined above, found `z`");
    check_error(&inside("y = add x n"), "line 2, column 13: expected `,`, found `n`");
    check_error(&inside("y = add x"), "line 2, column 3: add: takes 2 operands, not 1");
    check_error(&inside("y = add x, n"), "line 2, column 3: add: operands are of types f32 and index; cast one");
    check_error(
        &inside("y = cast x"),
        "line 2, column 3: write the type of what cast gives, as in `y: f32 = cast ...`",
    );
    check_error(&inside("y = reshape x, [3]"), "line 2, column 3: reshape: [2] has 2 elements, [3] has 3");
    check_error(
        &inside("y = reshape x, [x]"),
        "line 2, column 19: a dimension is a number or a single value of type index",
    );
    check_error(
        &inside("y = pad x, [1]"),
        "line 2, column 14: pad takes two numbers for each axis, as in `[1:0, 2:2]`",
    );
    check_error(&inside("x = neg x"), "line 2, column 3: `x` is defined already");
    check_error(&inside("max = neg x"), "line 2, column 3: `max` is a reserved word; call the node something else");
    check_error(&inside("y = neg 1"), "line 2, column 11: write the type of this constant, as in `1:f32`");
    check_error(&inside("y = add n, 1.5"), "line 2, column 14: 1.5 is no index");
    check_error(&inside("y = neg 300:u8"), "line 2, column 11: 300 is no u8: it is not within 0..255");
    check_error(&inside("y = neg \"a"), "line 2, column 11: this text has no closing `\"` on its line");
    check_error("graph %g(n: index 3..1) {", "line 1, column 19: 3..1 holds no value: both ends are included");
    check_error(
        "graph %g() { ",
        "line 1, column 14: expected `return` with what the graph gives, found the end of the text",
    );
    check_error("graph %g(x: f32[-1]) {", "line 1, column 16: no tensor has the shape [-1]");
}

#[test]
fn what_is_asked_for_ahead_round_trips() {
    let index = UOp::new(Op::Index, DType::F32, vec![UOp::param(0, DType::F32, 64), UOp::index(8)], Arg::None);
    let ahead = UOp::new(Op::Prefetch, DType::VOID, vec![index], Arg::Number(-64));
    let text = check_round_trip(&[ahead]);
    assert!(text.contains("= prefetch v0, #-64\n"), "{text}");
}
