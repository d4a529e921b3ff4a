//! Guard pages do what they are for: a kernel that leaves its memory ends its process and is named. Each kernel runs in a process of its
//! own, which is this test binary once more.

use std::process::Command;

use warpweft_compiler::DType;
use warpweft_compiler::program::{Access, Estimate, Launch, Parameter, Program};
use warpweft_tests::guarded;

/// Stores 16 floats from an element on: into a buffer where `into_scratch` does not hold.
fn kernel(first_element: i64, into_scratch: bool) -> Program {
    let target = if into_scratch { "%scratch" } else { "%out" };
    let source = format!(
        "define void @k(ptr %buffers, ptr %variables, ptr %scratch, i64 %begin, i64 %end) {{
  %out = load ptr, ptr %buffers
  %address = getelementptr float, ptr {target}, i64 {first_element}
  store volatile <16 x float> zeroinitializer, ptr %address, align 4
  ret void
}}"
    );
    Program {
        name: "planted_fault".to_string(),
        entry: "k".to_string(),
        source,
        parameters: vec![Parameter { dtype: DType::F32, len: 100, access: Access::Write }],
        variables: Vec::new(),
        numbers: Vec::new(),
        grid: 1,
        scratch_bytes: 400,
        launch: Launch::ONE,
        shared_bytes: 0,
        estimate: Estimate::default(),
    }
}

/// Runs a kernel over several buffers: of four, the last begins at a guard page and the others end at one.
fn run(first_element: i64, into_scratch: bool) {
    let device = guarded::cpu();
    let program = kernel(first_element, into_scratch);
    let kernel = device.load(&program, &device.compile(&program).expect("it compiles")).expect("it loads");
    for _ in 0..8 {
        let out = device.allocate(400).expect("memory");
        kernel.launch(&[out.all()], &[], 1).expect("it runs");
    }
}

#[test]
#[ignore = "the tests below run it in a process of its own, which it ends"]
fn one_lane_past_the_end() {
    run(85, false);
}

#[test]
#[ignore = "the tests below run it in a process of its own, which it ends"]
fn one_lane_before_the_beginning() {
    run(-1, false);
}

#[test]
#[ignore = "the tests below run it in a process of its own, which it ends"]
fn far_past_the_end_of_scratch() {
    run(101, true);
}

/// Runs one of the tests above and gives what it said, and whether it was well.
fn in_its_own_process(test: &str) -> (bool, String) {
    let binary = std::env::current_exe().expect("the test runs");
    let name = format!("guard::{test}");
    let output = Command::new(binary).args(["--exact", &name, "--ignored"]).output().expect("it starts");
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_kernel_that_leaves_its_memory_is_named() {
    for test in ["one_lane_past_the_end", "one_lane_before_the_beginning", "far_past_the_end_of_scratch"] {
        let (well, said) = in_its_own_process(test);
        assert!(
            !well && said.contains("kernel `planted_fault` touches memory that it was not given"),
            "{test}: {said}"
        );
        assert!(said.contains("on the thread `guard::"), "{test}: {said}");
    }
}

#[test]
fn a_kernel_that_stays_in_its_memory_runs() {
    run(0, false);
    run(84, false);
    run(84, true);
}
