//! What GPUs compute otherwise than CPUs: orders by counting, running totals and scatters by parts. On the emulator, which watches for races and for what nothing has written, against
//! the interpreter. The machines are such that short programs are cut into parts, too.

use warpweft_compiler::ir::interpret::Value;
use warpweft_compiler::ir::text::{Graph, parse};
use warpweft_compiler::ir::{Dim, ReduceOp, UOp, substitute};
use warpweft_compiler::ops::{scan, sort};
use warpweft_compiler::schedule::{ScheduleOptions, normalize, schedule_with};
use warpweft_compiler::target::Costs;
use warpweft_compiler::watch::Silent;
use warpweft_compiler::{DType, ops};
use warpweft_tests::engines::{on_gpus, reference};
use warpweft_tests::error_bound;
use warpweft_tests::kernels::{Random, kernel_of};

use super::{chosen, small_gpu};

/// A machine whose instructions take long and whose launches take nothing.
fn slow() -> Costs {
    Costs { instructions_per_ns: 1, launch_ns: 0, few_results: 1, cores: 1, threads: 256, ..Costs::gpu_model() }
}

/// What a program gives on that machine is what the interpreter gives; numbers of its inputs are drawn.
#[track_caller]
fn check(what: &str, value: UOp, inputs: &[Value], costs: Costs) {
    let text = Graph::new("program", [value]).to_string();
    let graph = parse(&text).unwrap_or_else(|error| panic!("{what}: {error}"));
    let want = reference(&graph, inputs).unwrap_or_else(|why| panic!("{what}: {why}"));
    for (device, found) in on_gpus(&graph, inputs, costs).unwrap_or_else(|why| panic!("{what}: {why:?}\n{text}")) {
        for (want, found) in want.iter().zip(&found) {
            error_bound::compare(want, found).unwrap_or_else(|why| panic!("{what} on {device}: {why}"));
        }
    }
}

/// Kernels of a program on a machine.
fn kernels(value: &UOp, costs: Costs) -> usize {
    let program = normalize(std::slice::from_ref(value), |_| None).expect("a program");
    schedule_with(&program.sink, ScheduleOptions { fuse: true, costs }, &mut Silent).expect("a schedule").kernels.len()
}

fn drawn(dtype: DType, shape: &[i64], seed: u64) -> Value {
    let mut random = Random::new(seed);
    let len = shape.iter().product::<i64>();
    let numbers: Vec<f64> = (0..len)
        .map(|_| match random.below(if dtype.is_float() { 40 } else { 1 << 20 }) {
            0 if dtype.is_float() => f64::NAN,
            1 if dtype.is_float() => -0.0,
            // Many are equal.
            _ if dtype.is_signed() => (random.below(400) as f64 - 200.0) / if dtype.is_float() { 8.0 } else { 1.0 },
            _ => random.below(200) as f64,
        })
        .collect();
    Value::from_f64(dtype, shape.to_vec(), &numbers).expect("as many numbers")
}

fn input(slot: u32, dtype: DType, shape: &[i64]) -> UOp {
    UOp::param(slot, dtype, shape.iter().product::<i64>() as u64).reshape(shape.to_vec())
}

#[test]
fn rows_are_in_order() {
    let by_digits = Costs { memory_bytes_per_ns: 1 << 20, ..slow() };
    for (dtype, shape, costs) in [
        (DType::F32, [1, 701], by_digits),
        (DType::I32, [3, 1009], by_digits),
        (DType::F16, [2, 513], by_digits),
        (DType::I64, [1, 600], by_digits),
        (DType::F32, [5, 77], Costs::gpu_model()),
        (DType::F64, [2, 130], Costs::gpu_model()),
        (DType::U8, [300, 50], slow()),
    ] {
        for descending in [false, true] {
            let order = sort::argsort(&input(0, dtype, &shape), 1, descending).expect("an order");
            let len = shape[0] * shape[1];
            let is_counted = costs.memory_bytes_per_ns == by_digits.memory_bytes_per_ns;
            assert!(!is_counted || kernels(&order, costs) > 10, "{dtype} {shape:?}");
            check(&format!("{dtype} {shape:?}"), order, &[drawn(dtype, &[len], 7)], costs);
        }
    }
}

#[test]
fn short_rows_are_compared_and_long_ones_counted() {
    let order = |shape: &[i64]| sort::argsort(&input(0, DType::F32, shape), 1, false).expect("an order");
    assert!(kernels(&order(&[4096, 256]), Costs::gpu_model()) <= 3);
    assert!(kernels(&order(&[1, 1_000_000]), Costs::gpu_model()) > 20);
    // On a CPU it is what it was.
    let of_cpu = kernels(&order(&[4096, 256]), Costs::cpu());
    assert!(of_cpu > 3 && kernels(&order(&[4096, 256]), Costs { instructions_per_ns: 0, ..Costs::gpu_model() }) > 3);
}

#[test]
fn rows_of_symbolic_number_and_length_are_in_order() {
    let n = Dim::from(UOp::variable("n", 1, 100));
    for (n_is, shape) in
        [(1, [n.clone(), 60.into()]), (3, [n.clone(), 60.into()]), (100, [3.into(), n.clone()]), (49, [3.into(), n])]
    {
        let sides: Vec<(Dim, Dim)> = shape.iter().map(|len| (Dim::from(0), len.clone())).collect();
        let most = if shape[0].as_const().is_some() { [3i64, 100] } else { [100, 60] };
        let room = (most[0] * most[1]) as u64;
        let x = UOp::param(0, DType::F32, room).reshape(most).shrink(&sides);
        let order = sort::argsort(&x, 1, false).expect("an order");
        let text = Graph::new("program", [order.clone()]);
        let number = Value::from_f64(DType::INDEX, Vec::<i64>::new(), &[n_is as f64]).expect("a number");
        let numbers = drawn(DType::F32, &[room as i64], 3);
        let is_param = |node: &UOp| node.op() == warpweft_compiler::ir::Op::Param || !node.src().is_empty();
        let inputs: Vec<Value> = text
            .parameters
            .iter()
            .map(|parameter| if is_param(&parameter.node) { numbers.clone() } else { number.clone() })
            .collect();
        check(&format!("{n_is} {shape:?}"), order, &inputs, Costs::gpu_model());
    }
}

#[test]
fn running_totals_go_by_parts() {
    for (dtype, shape, axis) in [
        (DType::F32, vec![3, 1000], 1),
        (DType::F32, vec![1, 5003], 1),
        (DType::I32, vec![2, 517], 1),
        (DType::BF16, vec![4, 300], 1),
        (DType::F32, vec![300, 40], 0),
        (DType::I64, vec![2, 257, 33], 1),
        (DType::F32, vec![2, 300, 5], 1),
    ] {
        let len = shape.iter().product::<i64>();
        let x = input(0, dtype, &shape);
        let numbers = drawn(dtype, &[len], 11);
        let totals = [scan::cumsum(&x, axis), scan::cummax(&x, axis), scan::cummin(&x, axis)];
        for (number, total) in totals.into_iter().enumerate() {
            let total = total.expect("a running total");
            assert!(kernels(&total, slow()) > 1, "{dtype} {shape:?}");
            check(&format!("{dtype} {shape:?} {number}"), total, std::slice::from_ref(&numbers), slow());
        }
    }
}

#[test]
fn scatters_go_by_parts_and_segments() {
    // Of two lines, of one, of many; positions few and more than sources.
    for (dtype, shape, sources, axis) in [
        (DType::F32, vec![37], 1000, 0),
        (DType::I32, vec![500], 777, 0),
        (DType::F32, vec![100, 6], 400, 0),
        (DType::BF16, vec![2, 33, 3], 129, 1),
    ] {
        let mut named = shape.clone();
        named[axis] = sources;
        let (len, given) = (shape.iter().product::<i64>(), named.iter().product::<i64>());
        let x = input(0, dtype, &shape);
        // Some are out of range, before and behind.
        let mut random = Random::new(5);
        let indices: Vec<f64> = (0..given).map(|_| random.below(shape[axis] as usize + 8) as f64 - 4.0).collect();
        let index = Value::from_f64(DType::I32, vec![given], &indices).expect("as many numbers");
        for op in [ReduceOp::Add, ReduceOp::Max, ReduceOp::Mul] {
            let value = x.scatter(&input(1, DType::I32, &named), &input(2, dtype, &named), Some(op), axis);
            let finite = |len: i64, seed: u64| {
                let mut random = Random::new(seed);
                let numbers: Vec<f64> = (0..len).map(|_| random.below(9) as f64 / 4.0 - 1.0).collect();
                Value::from_f64(dtype, vec![len], &numbers).expect("as many numbers")
            };
            let inputs = [finite(len, 1), index.clone(), finite(given, 2)];
            let costs = Costs { threads: 4096, ..slow() };
            assert!(kernels(&value, costs) > 2, "{shape:?}");
            check(&format!("{dtype} {shape:?} {op:?}"), value, &inputs, costs);
        }
        let value = x.scatter(&input(1, DType::I32, &named), &input(2, dtype, &named), None, axis);
        let inputs = [drawn(dtype, &[len], 1), index, drawn(dtype, &[given], 2)];
        assert!(kernels(&value, Costs { threads: 4096, ..slow() }) > 2, "{shape:?}");
        check(&format!("{dtype} {shape:?} replaced"), value, &inputs, Costs { threads: 4096, ..slow() });
    }
}

/// The gradient of weights `[outputs, inputs, 3, 3]` of a convolution over `[images, inputs, side, side]`.
fn gradient_of_weights([images, outputs, inputs, side]: [i64; 4]) -> UOp {
    let wide = side + 2;
    let text = format!(
        "graph %weights(p0: f32[{images}, {inputs}, {side}, {side}], p1: f32[{images}, {outputs}, {side}, {side}]) {{
  v0 = pad p0, [0:0, 0:0, 1:1, 1:1]
  v1 = as_strided v0, [{images}, {inputs}, {side}, {side}, 3, 3] strides [{}, {}, {wide}, 1, {wide}, 1] offset 0
  v2 = reshape v1, [{images}, 1, {inputs}, {side}, {side}, 3, 3]
  v3 = expand v2, [{images}, {outputs}, {inputs}, {side}, {side}, 3, 3]
  v4 = reshape p1, [{images}, {outputs}, 1, {side}, {side}, 1, 1]
  v5 = expand v4, [{images}, {outputs}, {inputs}, {side}, {side}, 3, 3]
  v6 = mul v3, v5
  v7 = reduce v6, add (0, 3, 4)
  return v7
}}",
        inputs * wide * wide,
        wide * wide
    );
    parse(&text).expect("a graph").roots.swap_remove(0)
}

#[test]
fn gradients_of_weights_go_by_images_and_by_tiles() {
    for shape @ [images, outputs, inputs, side] in [[16, 32, 32, 9], [16, 33, 40, 9]] {
        let value = gradient_of_weights(shape);
        let costs = Costs { terms_per_ns: 1, few_results: 16, launch_ns: 0, ..Costs::gpu_model() };
        assert!(kernels(&value, costs) > 1, "{shape:?}");
        let finite = |channels: i64, seed: u64| {
            let len = images * channels * side * side;
            let mut random = Random::new(seed);
            let numbers: Vec<f64> = (0..len).map(|_| random.below(9) as f64 - 4.0).collect();
            Value::from_f64(DType::F32, vec![len], &numbers).expect("as many numbers")
        };
        check(&format!("{shape:?}"), value.clone(), &[finite(inputs, 1), finite(outputs, 2)], costs);
        // Without parts, all terms are one loop.
        let len = |channels: i64| (images * channels * side * side) as u64;
        let [x, w] = [(0, inputs), (1, outputs)].map(|(slot, channels)| (slot, len(channels)));
        let behind =
            [x, w].map(|(slot, len)| (UOp::param(slot, DType::F32, len), UOp::param(slot + 1, DType::F32, len)));
        let ast = kernel_of(&[substitute(&value, &behind.into_iter().collect())]);
        let (list, linear) = chosen(&ast, &small_gpu());
        if outputs % 32 + inputs % 32 > 0 {
            continue; // Most of a tile would be empty.
        }
        assert!(list.contains("flatten") && list.contains("stage_ahead"), "{list}");
        assert!(linear.launch().blocks() >= 9, "{list}");
    }
}

#[test]
fn products_of_many_terms_go_by_parts() {
    for (dtype, [rows, terms, columns]) in
        [(DType::F32, [70, 1103, 65]), (DType::F16, [64, 1024, 66]), (DType::I32, [65, 1025, 64])]
    {
        let (x, y) = (input(0, dtype, &[rows, terms]), input(1, dtype, &[terms, columns]));
        let product = ops::matmul::matmul(&x, &y).expect("a product");
        let costs = Costs { terms_per_ns: 1, few_results: 16, launch_ns: 0, ..Costs::gpu_model() };
        assert!(
            kernels(&product, costs) > kernels(&product, Costs { instructions_per_ns: 0, ..costs }),
            "{rows} {terms} {columns}"
        );
        let finite = |len: i64, seed: u64| {
            let mut random = Random::new(seed);
            let numbers: Vec<f64> = (0..len).map(|_| random.below(9) as f64 - 4.0).collect();
            Value::from_f64(dtype, vec![len], &numbers).expect("as many numbers")
        };
        check(
            &format!("{dtype} {rows} {terms} {columns}"),
            product,
            &[finite(rows * terms, 1), finite(terms * columns, 2)],
            costs,
        );
    }
}

#[test]
fn the_positions_of_an_order_and_of_a_scatter_are_shared_by_threads() {
    let (rows, columns) = (70, 300);
    let x = input(0, DType::F32, &[rows, columns]);
    let index = input(1, DType::I32, &[40, 1]).expand([40, columns]);
    let value = x.scatter(&index, &input(2, DType::F32, &[40, columns]), None, 0);
    let mut random = Random::new(5);
    let indices: Vec<f64> = (0..40).map(|_| random.below(74) as f64 - 2.0).collect();
    let index = Value::from_f64(DType::I32, [40], &indices).expect("as many numbers");
    let inputs = [drawn(DType::F32, &[rows * columns], 1), index, drawn(DType::F32, &[40 * columns], 2)];
    check("a scatter", value, &inputs, Costs::gpu_model());
}

/// The kernels of a program on a machine, as text.
fn text_of_kernels(value: &UOp, costs: Costs) -> String {
    let program = normalize(std::slice::from_ref(value), |_| None).expect("a program");
    let schedule =
        schedule_with(&program.sink, ScheduleOptions { fuse: true, costs }, &mut Silent).expect("a schedule");
    let asts: Vec<UOp> = schedule.kernels.iter().map(|kernel| kernel.ast.clone()).collect();
    Graph::new("kernels", asts).to_string()
}

/// Rows of which an index picks an element, as losses over classes do; some indices name none.
#[test]
fn what_an_index_picks_of_a_row_is_asked_for() {
    let (rows, classes) = (9, 203);
    let mut random = Random::new(3);
    let mut indices: Vec<f64> = (0..rows).map(|_| random.below(classes as usize) as f64).collect();
    // Beside either end, and at them.
    indices[..4].copy_from_slice(&[-1.0, classes as f64, 0.0, classes as f64 - 1.0]);
    let index = Value::from_f64(DType::I32, vec![rows], &indices).expect("as many numbers");
    for (dtype, is_of_rows) in [(DType::F32, false), (DType::F32, true), (DType::BF16, true), (DType::I32, false)] {
        let x = input(0, dtype, &[rows, classes]);
        let wide = |value: &UOp| value.reshape([rows, 1]).expand([rows, classes]);
        let position = UOp::iota(classes).reshape([1, classes]).expand([rows, classes]).cast(DType::I32);
        let is_picked = wide(&input(1, DType::I32, &[rows])).equals(&position);
        let value = if is_of_rows { &x - wide(&x.reduce(ReduceOp::Max, &[1])) } else { &x + &x };
        let zero = UOp::int(0, dtype).reshape([1, 1]).expand([rows, classes]);
        let picked = is_picked.select(&value, &zero);
        let accumulated = if dtype == DType::BF16 { picked.cast(DType::F32) } else { picked };
        let sum = accumulated.reduce(ReduceOp::Add, &[1]);
        let kernel = |costs: Costs| text_of_kernels(&sum, costs);
        // The CPU's loop runs over what its mask lets it see.
        assert!(kernel(Costs::gpu_model()).contains("gather"), "{}", kernel(Costs::gpu_model()));
        assert!(!kernel(Costs::cpu()).contains("gather"));
        let inputs = [drawn(dtype, &[rows * classes], 7), index.clone()];
        check(&format!("{dtype} {is_of_rows}"), sum, &inputs, Costs::gpu_model());
    }
}

/// Long rows of exponents: several of the longer blocks, what is left over of these, and rows of nothing but minus infinity.
#[test]
fn long_rows_of_exponents_go_by_longer_blocks() {
    for (dtype, rows, columns) in [(DType::F32, 5, 17_001), (DType::F16, 3, 40_000), (DType::F32, 132, 20_480)] {
        let x = input(0, dtype, &[rows, columns]);
        let value = ops::reduce::logsumexp(&x, &[1], false).expect("a sum");
        let lowered = |costs: Costs| text_of_kernels(&value, costs);
        let longer = format!(", {}]", 16_384 / dtype.bytes());
        if rows >= 132 {
            assert!(lowered(Costs::gpu_model()).contains(&longer), "{}", lowered(Costs::gpu_model()));
        }
        assert!(!lowered(Costs::cpu()).contains(&longer), "{}", lowered(Costs::cpu()));
        let mut random = Random::new(11);
        let mut numbers: Vec<f64> = (0..rows * columns).map(|_| random.below(400) as f64 / 16.0 - 12.0).collect();
        numbers[..columns as usize].fill(f64::NEG_INFINITY);
        numbers[columns as usize..columns as usize + 4200].fill(f64::NEG_INFINITY);
        let inputs = [Value::from_f64(dtype, vec![rows * columns], &numbers).expect("as many numbers")];
        check(&format!("{dtype} {rows} {columns}"), value, &inputs, Costs::gpu_model());
    }
}
