//! Lists by hand, right ones and ones with a planted fault; and kernels as the pipeline makes them.

use super::*;
use crate::DType;
use crate::dtype::Scalar;
use crate::ir::interpret::Value;
use crate::linearize::text::parse;

fn f32s(values: &[f64]) -> Memory {
    Memory::given(&Value::from_f64(DType::F32, [values.len() as i64], values).unwrap())
}

fn i32s(values: &[f64]) -> Memory {
    Memory::given(&Value::from_f64(DType::I32, [values.len() as i64], values).unwrap())
}

fn numbers(memory: &Memory) -> Vec<f64> {
    memory.value([memory.len() as i64]).unwrap().to_f64()
}

/// Runs a list whose text this is in one share.
fn run(text: &str, parameters: &mut [Memory], variables: &[i64]) -> Result<(), String> {
    let linear = parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    interpret(&linear, parameters, variables, &shares(linear.grid, 1)).map_err(|error| error.to_string())
}

#[test]
fn loops_accumulators_and_variables() {
    let text = "linear %sum(f32[1] write, f32[8] read, \"n\") grid 1 {
      v0: f32 = const 0.5
      v1: i64 = const 0
      p0: f32 = param #0 [1]
      p1: f32 = param #1 [8]
      n: i64 = variable \"n\" 0..8
      a0 = accumulator v0, #0
      r0: i64 = range n, reduce #0
      v2 = index p1, r0
      v3 = load v2
      v4 = add a0, v3
      v5 = update a0, v4
      v6 = end r0
      v7 = final a0, v6
      v8 = index p0, v1
      v9 = store v8, v7
    }";
    let x = f32s(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
    for (n, sum) in [(0, 0.5), (1, 1.5), (8, 36.5)] {
        let mut parameters = [Memory::fresh(DType::F32, 1), x.clone()];
        run(text, &mut parameters, &[n]).unwrap();
        assert_eq!(numbers(&parameters[0]), [sum]);
    }
    let error = run(text, &mut [Memory::fresh(DType::F32, 1), x], &[9]).unwrap_err();
    assert_eq!(error, "op 4, `n: i64 = variable \"n\" 0..8`: is 9, not within 0..8");
}

const VECTORS: &str = "linear %vectors(i32[6] write, i32[6] read, i32[1] write) grid 1 {
      v0: i64 = const 0
      v1: i64 = const 4
      v2: i32x4 = const 10
      v3: boolx4 = const true
      v4: bool = const true
      v5: bool = const false
      p0: i32 = param #0 [6]
      p1: i32 = param #1 [6]
      p2: i32 = param #2 [1]
      v6: i32x4 = index p1, v0
      v7: i32x4 = load v6
      v8: i64x4 = ramp v1, #-1
      v9: boolx4 = stack v4, v4, v5, v4
      v10: i32x4 = index p0, v8, v9
      v11 = add v7, v2
      v12 = store v10, v11
      v13: i32 = horizontal_reduce v7, add
      v14: i32 = index p2, v0
      v15 = store v14, v13
      v16: i64 = const 5
      v17: i32x4 = splat v13
      v18 = index p0, v16
      v19: i32 = lane v17, #3
      v20 = store v18, v19
      v21: i64 = const 2
      v22: i32x4 = index p1, v16, v5
      v23: i32x4 = load v22
      v24 = index p0, v21
      v25: i32 = lane v23, #1
      v26 = store v24, v25
      v27 = index p0, v0
      v28 = store v27, v25
    }";

#[test]
fn vectors_gates_ramps_and_lanes() {
    let mut parameters =
        [Memory::fresh(DType::I32, 6), i32s(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), Memory::fresh(DType::I32, 1)];
    run(VECTORS, &mut parameters, &[]).unwrap();
    // Lanes 0, 1 and 3 go to elements 4, 3 and 1; what a gate holds back is neither loaded nor stored.
    assert_eq!(numbers(&parameters[0]), [0.0, 14.0, 0.0, 12.0, 11.0, 10.0]);
    assert_eq!(numbers(&parameters[2]), [10.0]);
}

#[test]
fn a_lane_too_far_is_an_error() {
    let text = VECTORS.replace("v1: i64 = const 4", "v1: i64 = const 6");
    let mut parameters = [Memory::fresh(DType::I32, 6), i32s(&[0.0; 6]), Memory::fresh(DType::I32, 1)];
    let error = run(&text, &mut parameters, &[]).unwrap_err();
    assert_eq!(error, "op 15, `v12 = store v10, v11`: lane 0 is element 6 of p0, which has 6");
    // A vector of 4 from element 3 of 6 overruns by one lane, though memory behind the kernel's parameter is there.
    let text = VECTORS.replace("v6: i32x4 = index p1, v0", "v6: i32x4 = index p1, v1x").replace(
        "v2: i32x4 = const 10",
        "v1x: i64 = const 3
         v2: i32x4 = const 10",
    );
    let mut parameters = [Memory::fresh(DType::I32, 6), i32s(&[0.0; 100]), Memory::fresh(DType::I32, 1)];
    let error = run(&text, &mut parameters, &[]).unwrap_err();
    assert!(error.ends_with("lane 3 is element 6 of p1, which has 6"), "{error}");
}

/// Rows of 4: twice each element is kept in scratch, then stored.
const STAGED: &str = "linear %staged(f32[8] write, f32[8] read) grid 1 {
      v0: i64 = const 2
      v1: i64 = const 4
      v2: i64 = const LENGTH
      p0: f32 = param #0 [8]
      p1: f32 = param #1 [8]
      s0: f32 = scratch #0 [4]
      r0: i64 = range v0, loop #0
      v3 = mul r0, v1
      r1: i64 = range v2, loop #1
      v4 = add v3, r1
      v5 = index p1, v4
      v6 = load v5
      v7 = add v6, v6
      v8 = index s0, r1
      v9 = store v8, v7
      v10 = end r1
      r2: i64 = range v1, loop #2
      v11 = index s0, r2
      v12 = load v11
      v13 = add v3, r2
      v14 = index p0, v13
      v15 = store v14, v12
      v16 = end r2
      v17 = end r0
    }";

#[test]
fn scratch_that_is_read_before_it_is_filled_is_an_error() {
    let x = f32s(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
    let mut parameters = [Memory::fresh(DType::F32, 8), x.clone()];
    run(&STAGED.replace("LENGTH", "4"), &mut parameters, &[]).unwrap();
    assert_eq!(numbers(&parameters[0]), [2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0, 16.0]);
    let error = run(&STAGED.replace("LENGTH", "3"), &mut [Memory::fresh(DType::F32, 8), x], &[]).unwrap_err();
    assert_eq!(error, "op 18, `v12 = load v11` with r0 = 0, r2 = 3: reads element 3 of s0, which nothing has written");
}

#[test]
fn scratch_of_the_iteration_before_is_not_read() {
    // The first row is filled, the second is not.
    let text = STAGED.replace("LENGTH", "4").replace(
        "r1: i64 = range v2, loop #1",
        "one: i64 = const 1
         left = sub one, r0
         len = mul left, v2
         r1: i64 = range len, loop #1",
    );
    let error = run(&text, &mut [Memory::fresh(DType::F32, 8), f32s(&[1.0; 8])], &[]).unwrap_err();
    assert!(error.ends_with("with r0 = 1, r2 = 0: reads element 0 of s0, which nothing has written"), "{error}");
}

#[test]
fn an_output_that_nothing_wrote_is_not_read() {
    let text = "linear %inplace(f32[4] readwrite) grid 1 {
      v0: i64 = const 4
      p0: f32 = param #0 [4]
      r0: i64 = range v0, loop #0
      v1 = index p0, r0
      v2 = load v1
      v3 = add v2, v2
      v4 = store v1, v3
      v5 = end r0
    }";
    let mut given = [f32s(&[1.0, 2.0, 3.0, 4.0])];
    run(text, &mut given, &[]).unwrap();
    assert_eq!(numbers(&given[0]), [2.0, 4.0, 6.0, 8.0]);
    let error = run(text, &mut [Memory::fresh(DType::F32, 4)], &[]).unwrap_err();
    assert_eq!(error, "op 4, `v2 = load v1` with r0 = 0: reads element 0 of p0, which nothing has written");
    for (access, message) in [("read", "only read"), ("write", "only written")] {
        let error = run(&text.replace("readwrite", access), &mut [f32s(&[1.0; 4])], &[]).unwrap_err();
        assert!(error.ends_with(&format!("of which the header says that it is {message}")), "{error}");
    }
}

/// Item i of 4 loads element i + FROM and stores its double at element i + TO of the same memory.
const ITEMS: &str = "linear %items(f32[6] readwrite) grid 4 {
      v0: i64 = const 4
      v1: i64 = const FROM
      v2: i64 = const TO
      p0: f32 = param #0 [6]
      r0: i64 = range v0, parallel #0
      v3 = add r0, v1
      v4 = index p0, v3
      v5 = load v4
      v6 = add v5, v5
      v7 = add r0, v2
      v8 = index p0, v7
      v9 = store v8, v6
      v10 = end r0
    }";

fn run_items(from: i64, to: i64, count: u64) -> Result<Vec<f64>, String> {
    let text = ITEMS.replace("FROM", &from.to_string()).replace("TO", &to.to_string());
    let linear = parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let mut parameters = [f32s(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])];
    interpret(&linear, &mut parameters, &[], &shares(linear.grid, count)).map_err(|error| error.to_string())?;
    Ok(numbers(&parameters[0]))
}

#[test]
fn shares_that_meet_are_an_error() {
    for count in 1..=5 {
        assert_eq!(run_items(0, 0, count).unwrap(), [2.0, 4.0, 6.0, 8.0, 5.0, 6.0]);
    }
    // One share alone may do so: its items follow one another.
    assert!(run_items(1, 0, 1).is_ok() && run_items(0, 1, 1).is_ok());
    let error = run_items(0, 1, 2).unwrap_err();
    assert_eq!(
        error,
        "op 7, `v5 = load v4` in share 2..4 with r0 = 2: reads element 2 of p0, which another share of the parallel loop writes"
    );
    let error = run_items(1, 0, 2).unwrap_err();
    assert!(error.ends_with("writes element 2 of p0, which another share of the parallel loop reads"), "{error}");
}

#[test]
fn shares_may_write_one_value_and_no_two() {
    let text = "linear %overlap(i64[3] write) grid 4 {
      v0: i64 = const 4
      v1: i64 = const 0
      v2: i64 = const 7
      p0: i64 = param #0 [3]
      r0: i64 = range v0, parallel #0
      v3 = index p0, v1
      v4 = store v3, VALUE
      v5 = end r0
    }";
    let all = |value: &str| {
        let linear = parse(&text.replace("VALUE", value)).unwrap();
        let mut parameters = [Memory::fresh(DType::I64, 3)];
        interpret(&linear, &mut parameters, &[], &shares(4, 4)).map_err(|error| error.message)?;
        Ok::<_, String>(parameters[0].elements().to_vec())
    };
    assert_eq!(all("v2"), Ok(vec![Some(Scalar::Int(7)), None, None]));
    let error = "writes element 0 of p0, to which another share of the parallel loop writes another value";
    assert_eq!(all("r0"), Err(error.to_string()));
}

#[test]
fn shares_cover_the_grid_once() {
    assert_eq!(shares(1, 8), vec![0..1; 1]);
    assert_eq!(shares(10, 3), [0..4, 4..8, 8..10]);
    assert_eq!(shares(0, 3), vec![0..0; 1]);
    assert_eq!(shares(5, u64::MAX).len(), 5);
}

#[test]
fn a_list_that_does_not_nest_is_an_error() {
    let text = STAGED.replace("LENGTH", "4");
    let mut linear = parse(&text).unwrap();
    let mut parameters = [Memory::fresh(DType::F32, 8), f32s(&[1.0; 8])];
    let end = linear.ops.pop().unwrap();
    let error = interpret(&linear, &mut parameters, &[], &shares(1, 1)).unwrap_err();
    assert_eq!((error.op, error.message.as_str()), (6, "the loop has no end"));
    let load = linear.ops.remove(18);
    linear.ops.extend([end, load]);
    let error = interpret(&linear, &mut parameters, &[], &shares(1, 1)).unwrap_err();
    assert!(error.message.contains("is not listed before it, or stands in a loop that has ended"), "{error}");
    let error = interpret(&linear, &mut parameters[..1], &[], &shares(1, 1)).unwrap_err();
    assert!(error.message.contains("is not listed"), "{error}");
}
