//! LLVM and ptxas accept the text of the renderer's goldens: as they stand in its test files, each in a module of its own.

use std::io::Write;

use warpweft_compiler::DType;
use warpweft_compiler::program::{Access, Estimate, Launch, Parameter, Program};
use warpweft_compiler::target::Target;

/// What the bodies of the goldens name, and an entry point that the device knows.
const FRAME: (&str, &str) = (
    "define internal void @body(ptr %p0, ptr %p1, ptr %p2, i64 %\"var.rows left\", ptr %s0, i64 %begin, i64 %end) {\n",
    "  ret void\n}\ndefine void @test(ptr %buffers, ptr %variables, ptr %scratch, i64 %begin, i64 %end) {\n  \
     call void @body(ptr null, ptr null, ptr null, i64 0, ptr null, i64 0, i64 1)\n  ret void\n}\n",
);

/// The texts between the marks of `expect!`.
fn goldens(file: &str) -> Vec<String> {
    file.split("expect![[r#\"").skip(1).filter_map(|rest| rest.split("\"#]]").next()).map(str::to_string).collect()
}

/// How often loops go on, which a part of a module names.
fn weights(part: &str) -> String {
    let is_named = |number: &usize| part.contains(&format!("!prof !{number}"));
    let line = |number: usize| format!("!{number} = !{{!\"branch_weights\", i32 7, i32 1}}\n");
    (0..).take_while(is_named).map(line).collect()
}

/// The goldens of a language, in all files of its tests.
fn goldens_of(language: &str) -> Vec<String> {
    let folder = format!("{}/../renderer/src/{language}", env!("CARGO_MANIFEST_DIR"));
    let beside = std::fs::read_dir(format!("{folder}/tests")).expect("the renderer has golden tests");
    let mut files: Vec<_> = beside.map(|entry| entry.expect("a file").path()).collect();
    files.push(format!("{folder}/tests.rs").into());
    files.sort();
    let read = |file: &std::path::PathBuf| std::fs::read_to_string(file).expect("a file of tests");
    files.iter().map(read).flat_map(|text| goldens(&text)).collect()
}

/// A module of the instructions and declarations of a golden.
fn ptx_module(golden: &str) -> String {
    if golden.contains(".visible .entry") {
        return golden.to_string();
    }
    let parameters = (0..3).map(|slot| format!(".param .u64 .ptr .global .align 16 p{slot}, "));
    let mut text = format!(
        ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry test({}.param .s64 n0)\n{{\n",
        parameters.collect::<String>()
    );
    for (kind, prefix) in [("pred", "p"), ("b16", "rs"), ("b32", "r"), ("b64", "rd"), ("f32", "f"), ("f64", "fd")] {
        text += &format!(".reg .{kind} %{prefix}<50>;\n");
    }
    let lines = golden.lines().filter(|line| line.ends_with([';', ':']));
    text + &lines.map(|line| format!("{line}\n")).collect::<String>() + "ret;\n}\n"
}

#[test]
fn ptxas_reads_every_golden() {
    let goldens = goldens_of("ptx");
    assert!(goldens.len() > 25, "{} goldens were found", goldens.len());
    let Some(ptxas) = &*warpweft_tests::assembler::PTXAS else {
        let text = format!("{} goldens: {}\n", goldens.len(), warpweft_tests::assembler::NO_PTXAS);
        std::io::stderr().write_all(text.as_bytes()).expect("stderr is open");
        return;
    };
    for source in goldens.iter().map(|golden| ptx_module(golden)) {
        let architecture = Target::NVIDIA[0];
        ptxas.assemble(&source, architecture).unwrap_or_else(|error| panic!("{error}\n{source}"));
    }
}

#[test]
fn llvm_reads_every_golden() {
    let goldens = goldens_of("llvm");
    assert!(goldens.len() > 15, "{} goldens were found", goldens.len());
    let device = warpweft_tests::guarded::open("CPU", Some(1)).expect("the CPU is always there");
    for golden in goldens {
        let is_module = golden.contains("define void @test");
        let source = if is_module { golden } else { format!("{}{golden}{}{}", FRAME.0, FRAME.1, weights(&golden)) };
        let program = Program {
            name: "test".to_string(),
            entry: "test".to_string(),
            source,
            parameters: vec![Parameter { dtype: DType::F32, len: 1, access: Access::ReadWrite }],
            variables: Vec::new(),
            numbers: Vec::new(),
            grid: 1,
            scratch_bytes: 0,
            launch: Launch::ONE,
            shared_bytes: 0,
            estimate: Estimate::default(),
        };
        let object = device.compile(&program).unwrap_or_else(|error| panic!("{error}\n{}", program.source));
        assert!(!object.is_empty());
    }
}
