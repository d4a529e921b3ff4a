//! Scratch memory of kernels is not on the stack: kernels with much of it run on threads with short stacks.

use std::sync::Arc;

use warpweft_compiler::DType;
use warpweft_compiler::UOp;
use warpweft_compiler::ir::ReduceOp;
use warpweft_compiler::pipeline::{LowerOptions, lower_kernel};
use warpweft_compiler::program::Program;
use warpweft_compiler::watch::Silent;
use warpweft_devices::{BufferSlice, Device};
use warpweft_tests::guarded;
use warpweft_tests::kernels::kernel_of;

const ROWS: i64 = 8;
const COLUMNS: i64 = 8000;

/// Rows minus their maximum, where twice a row is kept: 32 kB of scratch, twice where two rows are done side by side.
fn kernel_with_scratch(device: &dyn Device, no_opt: bool) -> Program {
    let x = UOp::param(1, DType::F32, (ROWS * COLUMNS) as u64).reshape([ROWS, COLUMNS]);
    let twice = (&x + &x).materialize(&[1]);
    let most = twice.reduce(ReduceOp::Max, &[1]).reshape([ROWS, 1]).expand([ROWS, COLUMNS]);
    let ast = kernel_of(&[twice - most]);
    let linear =
        lower_kernel(&ast, device.target(), &LowerOptions::by_hand_unless(no_opt), &mut Silent).expect("a kernel");
    warpweft_renderer::render(&linear, device.target()).expect("a program")
}

fn device() -> Arc<dyn Device> {
    guarded::cpu()
}

/// Bytes by which the code moves the stack pointer at most, in Intel's notation or AT&T's.
fn frame_bytes(code: &str) -> u64 {
    let moved = |line: &str| {
        let operands = line.split_once("sub")?.1.trim_start_matches('q');
        let number = operands.split(',').map(|word| word.trim().trim_start_matches('$')).find_map(|word| {
            let digits = word.strip_prefix("0x");
            digits.map_or_else(|| word.parse().ok(), |digits| u64::from_str_radix(digits, 16).ok())
        });
        number.filter(|_| operands.contains("rsp"))
    };
    code.lines().filter_map(moved).max().unwrap_or(0)
}

#[test]
fn a_kernel_with_much_scratch_runs_on_a_short_stack() {
    let device = device();
    for no_opt in [false, true] {
        let program = kernel_with_scratch(&*device, no_opt);
        assert!(program.scratch_bytes >= 32_000, "{} bytes of scratch", program.scratch_bytes);
        let object = device.compile(&program).expect("it compiles");
        let code = device.disassemble(&object).expect("its instructions");
        assert!(frame_bytes(&code) < 4096, "{code}");
        let kernel = device.load(&program, &object).expect("it loads");
        let bytes = (ROWS * COLUMNS * 4) as usize;
        let (out, x) = (device.allocate(bytes).expect("memory"), device.allocate(bytes).expect("memory"));
        let values: Vec<u8> = (0..ROWS * COLUMNS).flat_map(|index| (index as f32).to_le_bytes()).collect();
        device.copy_in(&x, 0, &values).expect("it fits");
        let slices: [BufferSlice<'_>; 2] = [out.all(), x.all()];
        for threads in [1, 2] {
            device.copy_in(&out, 0, &vec![0xff; bytes]).expect("it fits");
            std::thread::scope(|scope| {
                let thread = std::thread::Builder::new().stack_size(16 << 10);
                let launch = || kernel.launch(&slices, &[], threads).expect("it runs");
                thread.spawn_scoped(scope, launch).expect("a thread");
            });
            let mut result = vec![0; bytes];
            device.copy_out(&out, 0, &mut result).expect("it fits");
            for (index, element) in result.chunks(4).enumerate() {
                let found = f32::from_le_bytes([element[0], element[1], element[2], element[3]]);
                let want = 2 * (index as i64 % COLUMNS - (COLUMNS - 1));
                assert_eq!(found, want as f32, "element {index}, no_opt {no_opt}, {threads} threads");
            }
        }
    }
}

#[test]
fn frames_are_read_from_the_instructions() {
    assert_eq!(frame_bytes("0x12  sub rsp, 69632\n0x20 sub rax, 99999\n 1: sub rsp, 8"), 69632);
    assert_eq!(frame_bytes("  12: subq $0x11000, %rsp"), 0x11000);
    assert_eq!(frame_bytes("push rbp\nret"), 0);
}
