//! What is refused before it can be called: sources that are wrong, entry points of another kind, unknown functions, state, and damaged objects.

use proptest::prelude::*;

use super::{device, grid_program, program};
use crate::cpu::{CpuDevice, loader};
use crate::device::Device;
use crate::error::DeviceError;

#[test]
fn errors_of_the_source_name_the_line() {
    let source = "define void @k(ptr %buffers, ptr %variables, ptr %scratch, i64 %begin, i64 %end) {\n  %x = fadd float 1.0, %y\n  ret void\n}";
    let error = device().compile(&program(source, &[])).unwrap_err();
    assert_eq!(
        error.to_string(),
        "kernel `hand_written` is not valid LLVM IR: use of undefined value '%y'\n  line 2: %x = fadd float 1.0, %y"
    );
    // Valid by its grammar, but not by its sense.
    let source = "define void @k(ptr %buffers, ptr %variables, ptr %scratch, i64 %begin, i64 %end) {\n  br label %next\nnext:\n  %x = phi i64 [ 0, %next ]\n  ret void\n}";
    assert!(matches!(device().compile(&program(source, &[])), Err(DeviceError::Program { line: None, .. })));
}

#[test]
fn a_wrong_entry_point_is_refused_before_it_can_be_called() {
    for (source, said) in [
        ("define void @other() {\n  ret void\n}", "the source defines no function `k`"),
        ("declare void @k(ptr, ptr, i64, i64)", "the source defines no function `k`"),
        (
            "define i64 @k(ptr %a, ptr %b, i64 %c, i64 %d) {\n  ret i64 0\n}",
            "`k` must be `void (ptr, ptr, ptr, i64, i64)`",
        ),
        ("define void @k(ptr %a, ptr %b, i64 %c) {\n  ret void\n}", "`k` must be `void (ptr, ptr, ptr, i64, i64)`"),
        (
            "define void @k(ptr %a, ptr %b, ptr %s, i32 %c, i64 %d) {\n  ret void\n}",
            "`k` must be `void (ptr, ptr, ptr, i64, i64)`",
        ),
    ] {
        let error = device().compile(&program(source, &[])).unwrap_err().to_string();
        assert!(error.ends_with(said), "{error}");
    }
}

#[test]
fn unknown_functions_and_state_are_refused_by_name() {
    let refused = |body: &str| {
        let source = format!(
            "@state = global i64 7\ndeclare void @system(ptr)\n
             define void @k(ptr %buffers, ptr %variables, ptr %scratch, i64 %begin, i64 %end) {{\n  {body}\n  ret void\n}}"
        );
        let program = program(&source, &[]);
        device().load(&program, &device().compile(&program).unwrap()).unwrap_err().to_string()
    };
    assert!(refused("call void @system(ptr %buffers)").contains("section .data is writable"));
    let source = "declare void @system(ptr)\ndefine void @k(ptr %a, ptr %b, ptr %s, i64 %c, i64 %d) {\n  call void @system(ptr %a)\n  ret void\n}";
    let program = program(source, &[]);
    let error = device().load(&program, &device().compile(&program).unwrap()).unwrap_err();
    assert!(error.to_string().contains("it calls `system`, which kernels cannot"), "{error}");
}

#[test]
fn a_machine_without_code_generator_is_named() {
    let mut target = device().target().clone();
    target.triple = "sparc-unknown-none".to_string();
    // SAFETY: nothing is launched.
    let error = unsafe { CpuDevice::for_target(target) }.unwrap_err();
    assert!(matches!(&error, DeviceError::CompilerMissing { triple, .. } if triple == "sparc-unknown-none"));
    assert!(error.to_string().contains("libllvm22"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// A damaged object is refused or loaded, but reading it never goes out of bounds or panics. It is not called.
    #[test]
    fn damaged_objects_do_no_harm_to_the_loader(
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..20),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        static OBJECT: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
        let object = OBJECT.get_or_init(|| device().compile(&grid_program(9)).unwrap());
        let mut damaged = object.clone();
        for (index, value) in flips {
            let at = index.index(damaged.len());
            damaged[at] = value;
        }
        if let Some(cut) = cut {
            damaged.truncate(cut.index(object.len()));
        }
        if damaged != *object {
            let _ = loader::load(&damaged, "k");
            let _ = device().disassemble(&damaged);
        } else {
            prop_assert!(loader::load(&damaged, "k").is_ok());
        }
    }
}
