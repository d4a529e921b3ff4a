//! Text that is refused before it runs, by its line.

use warpweft_compiler::target::Language;

use super::Case;
use crate::error::DeviceError;

/// What is said of a kernel with this statement, and that it is said of its line.
#[track_caller]
fn refused(statement: &str) -> String {
    let case = Case::new(statement);
    match case.kernel() {
        Err(DeviceError::Program { language: Language::Ptx, line: Some(line), text, message, .. }) => {
            assert_eq!(text, statement);
            assert_eq!(case.source().lines().nth(line - 1), Some(statement));
            message
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_not_known_is_told() {
    let unknown = |name: &str| format!("the emulator does not know `{name}` with these operands");
    for (statement, name) in [
        ("frobnicate.u32 %r0, %r1;", "frobnicate.u32"),
        ("add.rz.f32 %f0, %f1, %f2;", "add.rz.f32"),
        ("add.u32 %r0, %r1;", "add.u32"),
        ("cvt.f32.s32 %f0, %r1;", "cvt.f32.s32"),
        ("cvt.rn.f64.f32 %fd0, %f1;", "cvt.rn.f64.f32"),
        ("ld.u32 %r0, [%rd0];", "ld.u32"),
        ("neg.u32 %r0, %r1;", "neg.u32"),
        ("bar.arrive 0, 32;", "bar.arrive"),
    ] {
        assert_eq!(refused(statement), unknown(name));
    }
    assert_eq!(refused("bra nowhere;"), "there is no label `nowhere`");
    assert_eq!(refused("mov.u32 %x9, 1;"), "`%x9` is not declared");
    assert_eq!(refused("mov.u32 %r64, 1;"), "`%r64` is not declared");
}

#[test]
fn registers_of_another_size_or_kind_are_refused() {
    let other = |name: &str, bits: u32| format!("`{name}` is declared with {bits} bits of another kind or size");
    assert_eq!(refused("add.u32 %r0, %r1, %rd1;"), other("%rd1", 64));
    assert_eq!(refused("add.rn.f32 %fd0, %f1, %f1;"), other("%fd0", 64));
    assert_eq!(refused("add.s32 %f0, %r1, %r1;"), other("%f0", 32));
    assert_eq!(refused("and.pred %p0, %p1, %r1;"), other("%r1", 32));
    assert_eq!(refused("ld.global.u32 %rs0, [%rd0];"), other("%rs0", 16));
    assert_eq!(refused("ld.global.u32 %r0, [%r1];"), other("%r1", 32));
    assert_eq!(refused("add.rn.f32 %f0, %f1, 1;"), "a constant of another kind");
}

#[test]
fn a_launch_is_that_of_the_text() {
    let case = Case::new("");
    let mut program = case.program();
    program.launch.block = [2, 1, 1];
    // SAFETY: nothing is run.
    let device = unsafe { crate::emulator::EmulatorDevice::open("PTX".parse().unwrap(), Some(1), 0) };
    let message = |program| crate::device::Device::compile(&device, &program).unwrap_err().to_string();
    assert!(message(program).contains("it is for blocks of Some([1, 1, 1]) threads"));
    let mut newer = case.program();
    newer.source = newer.source.replace("sm_90", "sm_100");
    assert!(message(newer).contains("it is for sm_100, and this is sm_90"));
}
