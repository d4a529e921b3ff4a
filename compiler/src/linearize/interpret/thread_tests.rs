//! Lists of blocks of threads by hand: right ones, and ones with a planted race, divergent barrier or missing lane. Each is run in several orders
//! of threads: right ones give one result in all of them, and each fault is found in all of them.

use super::*;
use crate::DType;
use crate::ir::interpret::Value;
use crate::linearize::text::parse;

/// Orders of threads that are tried.
const SEEDS: u64 = 8;

/// What the first parameter, of so many floats, holds after a list has run; the second is 1, 2, 3, ...
fn run(text: &str, len: usize) -> Result<Vec<f64>, String> {
    let linear = parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let run = |seed: u64| {
        let given = linear.parameters[1].len as usize;
        let numbers: Vec<f64> = (1..=given).map(|number| number as f64).collect();
        let given = Memory::given(&Value::from_f64(DType::F32, [given as i64], &numbers).unwrap());
        let mut parameters = [Memory::fresh(DType::F32, len), given];
        let shares = shares(linear.grid, 1);
        interpret_in_order(&linear, &mut parameters, &[], &shares, seed).map_err(|error| error.to_string())?;
        parameters[0].value([len as i64]).map(|value| value.to_f64()).map_err(|at| format!("{at} is not written"))
    };
    let first = run(0);
    for seed in 1..SEEDS {
        match (&first, run(seed)) {
            (Ok(first), Ok(again)) => assert_eq!(first, &again, "seed {seed}"),
            (Err(_), Err(_)) => {}
            (first, again) => panic!("{first:?}, and in the order of seed {seed} {again:?}"),
        }
    }
    first
}

/// Each of two blocks turns its 4 elements around twice through shared memory: the first time adds nothing, the second time 10.
const TURNED: &str = "linear %turned(f32[16] write, f32[8] read) grid 1 {
      two: i64 = const 2
      three: i64 = const 3
      four: i64 = const 4
      eight: i64 = const 8
      p0: f32 = param #0 [16]
      p1: f32 = param #1 [8]
      s0: f32 = scratch shared #0 [4]
      r0: i64 = range two, grid_x #0
      r1: i64 = range four, block_x #1
      r2: i64 = range two, loop #2
      row = mul r0, four
      from = add row, r1
      v1 = index p1, from
      v2 = load v1
      to = index s0, r1
      put = store to, v2
      b0 = barrier #0
      other = sub three, r1
      v3 = index s0, other
      v4 = load v3
      half = mul r2, eight
      v5 = add half, from
      v6 = index p0, v5
      v7 = store v6, v4
      b1 = barrier #1
      v8 = end r2
      v9 = end r1
      v10 = end r0
    }";

#[test]
fn threads_of_a_block_share_memory_between_barriers() {
    let turned = [4.0, 3.0, 2.0, 1.0, 8.0, 7.0, 6.0, 5.0];
    assert_eq!(run(TURNED, 16).unwrap(), [turned, turned].concat());
}

#[test]
fn a_missing_barrier_is_a_race() {
    // What others stored is read: already, or not yet.
    let error = run(&TURNED.replace("b0 = barrier #0", ""), 16).unwrap_err();
    assert!(error.contains(" = load ") && error.contains("` in block (0, 0, 0) in thread "), "{error}");
    let race = error.contains("wrote with no barrier in between") || error.contains("which nothing has written");
    assert!(race && error.contains(" of s0, ") && error.contains(" with r2 = 0"), "{error}");
    // What others still have to read is replaced.
    let error = run(&TURNED.replace("b1 = barrier #1", ""), 16).unwrap_err();
    assert!(error.contains(" of s0, which ") && error.ends_with(" with no barrier in between"), "{error}");
}

#[test]
fn a_race_is_found_whether_the_order_happens_to_be_right_or_not() {
    // Thread r1 reads what thread r1 / 2 stores.
    let text = TURNED.replace("b0 = barrier #0", "").replace("other = sub three, r1", "other = idiv r1, two");
    let linear = parse(&text).unwrap();
    let mut reasons = std::collections::BTreeSet::new();
    for seed in 0..100 {
        let given = Memory::given(&Value::from_f64(DType::F32, [8], &[1.0; 8]).unwrap());
        let mut parameters = [Memory::fresh(DType::F32, 16), given];
        let error = interpret_in_order(&linear, &mut parameters, &[], &shares(1, 1), seed).unwrap_err();
        let reason = error.message.rsplit(", ").next().unwrap_or_default();
        reasons.insert(reason.replace(|digit: char| digit.is_ascii_digit(), "N"));
    }
    let reasons: Vec<String> = reasons.into_iter().collect();
    assert_eq!(reasons, ["which nothing has written", "which thread N wrote with no barrier in between"]);
}

#[test]
fn two_threads_that_write_one_element_are_an_error() {
    let text = TURNED.replace("to = index s0, r1", "zero: i64 = const 0\n to = index s0, zero");
    let error = run(&text, 16).unwrap_err();
    assert!(error.contains(" = store ") && error.contains("` in block (0, 0, 0) in thread "), "{error}");
    assert!(error.contains("writes element 0 of s0, to which thread ") && error.ends_with("no barrier in between"));
    // The same of a parameter, where they would leave one or the other.
    let text = TURNED.replace("v5 = add half, from", "v5 = add half, row");
    let error = run(&text, 16).unwrap_err();
    assert!(error.ends_with("writes element 0 of p0, to which another thread writes another value"), "{error}");
}

#[test]
fn a_barrier_that_some_threads_do_not_reach_is_an_error() {
    // The first two threads of four come to it, after all else.
    let text = TURNED.replace(
        "v8 = end r2",
        "v8 = end r2
      r3: i64 = range two, block_x #3
      b2 = barrier #2
      v11 = end r3",
    );
    let error = run(&text, 16).unwrap_err();
    let reached = "is not reached by all threads that it waits for: thread ";
    assert!(error.contains(" = barrier #2` in block (0, 0, 0) in thread "), "{error}");
    assert!(error.contains(reached), "{error}");
    // A loop that is longer for some: the others have ended.
    let text = TURNED.replace("r2: i64 = range two, loop #2", "len = mul r1, two\n r2: i64 = range len, loop #2");
    let error = run(&text, 16).unwrap_err();
    assert!(error.contains(reached), "{error}");
    // One barrier is not another.
    let text = TURNED.replace(
        "b0 = barrier #0",
        "r3: i64 = range two, block_x #3
      b2 = barrier #2
      v11 = end r3
      b0 = barrier #0",
    );
    assert!(run(&text, 16).unwrap_err().contains(reached));
}

#[test]
fn shared_memory_is_fresh_in_each_iteration_and_in_each_block() {
    let skipped = |range: &str| {
        let until = format!("one: i64 = const 1\n left = sub one, {range}\n len = mul left, four");
        let text = TURNED.replace(
            "put = store to, v2",
            &format!("{until}\n r3: i64 = range len, block_x #3\n put = store to, v2\n v11 = end r3"),
        );
        run(&text, 16).unwrap_err()
    };
    let error = skipped("r2");
    assert!(error.contains("in block (0, 0, 0)") && error.contains("r2 = 1: reads element"), "{error}");
    assert!(error.ends_with("of s0, which nothing has written"), "{error}");
    let error = skipped("r0");
    assert!(error.contains("in block (1, 0, 0)") && error.ends_with("of s0, which nothing has written"), "{error}");
}

/// Two groups of 8 lanes, each of which adds up 8 elements; the first lane stores the sum, the last one repeats it.
const LANES: &str = "linear %lanes(f32[4] write, f32[16] read) grid 1 {
      one: i64 = const 1
      two: i64 = const 2
      eight: i64 = const 8
      p0: f32 = param #0 [4]
      p1: f32 = param #1 [16]
      r0: i64 = range two, block_y #0
      row = mul r0, eight
      r1: i64 = range eight, lane #1
      from = add row, r1
      v1 = index p1, from
      v2 = load v1
      v3 = end r1
      sum = shuffle_reduce v2, v3, add
      r2: i64 = range one, lane #2
      v4 = index p0, r0
      v5 = store v4, sum
      v6 = end r2
      r3: i64 = range eight, lane #3
      seven: i64 = const 7
      is_last = eq r3, seven
      v7 = add r0, two
      v8 = index p0, v7, is_last
      v9 = store v8, sum
      v10 = end r3
      v11 = end r0
    }";

#[test]
fn lanes_combine_what_they_have_and_all_hold_the_result() {
    assert_eq!(run(LANES, 4).unwrap(), [36.0, 100.0, 36.0, 100.0]);
    assert_eq!(run(&LANES.replace("v3, add", "v3, max"), 4).unwrap(), [8.0, 16.0, 8.0, 16.0]);
    // What is the same for all lanes stands before their range.
    let same =
        LANES.replace("row = mul r0, eight", "row = mul r0, eight\n three: f32 = const 3.0\n six = add three, three");
    assert_eq!(run(&same.replace("shuffle_reduce v2", "shuffle_reduce six"), 4).unwrap(), [48.0; 4]);
}

#[test]
fn lanes_are_combined_from_half_the_width_down() {
    // Of 2^24 and ones, halves that meet first lose nothing; neighbours that meet first would lose each single one.
    let text = LANES.replace("v2 = load v1", "v20 = load v1\n v2 = v20x").replace(
        "v2 = v20x",
        "big: f32 = const 16777216.0
      unit: f32 = const 1.0
      nothing: f32 = const 0.0
      four: i64 = const 4
      is_first = eq r1, zero
      is_low = lt r1, four
      v21 = where is_low, nothing, unit
      v2 = where is_first, big, v21",
    );
    let text = text.replace("one: i64 = const 1", "zero: i64 = const 0\n one: i64 = const 1");
    // Lanes 0 and 4 meet first: 2^24 + 1 is 2^24; then 2 + 6, which has 1, and its like: 2^24 + 1 again; at last (1, 5, 3, 7), which have 2.
    assert_eq!(run(&text, 4).unwrap(), [16_777_218.0; 4]);
}

#[test]
fn lanes_that_are_not_there_are_missed() {
    let error = run(
        &LANES
            .replace("r1: i64 = range eight, lane #1", "r4: i64 = range two, lane #4\n r1: i64 = range eight, lane #1")
            .replace("sum = shuffle_reduce v2, v3, add", "sum = shuffle_reduce v2, v3, add\n v40 = end r4"),
        4,
    );
    // What stands in a range that has ended is no operand, but for lanes.
    assert!(error.unwrap_err().contains("stands in a loop that has ended"));
    let text = LANES.replace(
        "sum = shuffle_reduce v2, v3, add",
        "a0 = accumulator nil, #0
      r4: i64 = range two, lane #4
      part = shuffle_reduce v2, v3, add
      v41 = update a0, part
      v40 = end r4
      sum = final a0, v40",
    );
    let text = text.replace("two: i64 = const 2", "two: i64 = const 2\n nil: f32 = const 0.0");
    let error = run(&text, 4).unwrap_err();
    assert!(error.contains(" = shuffle_reduce ") && error.contains(", add` in thread "), "{error}");
    assert!(error.contains("is not reached by all threads that it waits for: thread "), "{error}");
    let text = LANES
        .replace("shuffle_reduce v2, v3", "shuffle_reduce v2, v3x")
        .replace("v3 = end r1", "v3 = end r1\n r5: i64 = range two, loop #5\n v3x = end r5");
    assert!(run(&text, 4).unwrap_err().ends_with("combines what no range of lanes has left"));
}
