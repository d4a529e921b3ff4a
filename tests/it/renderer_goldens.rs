//! LLVM accepts the text of the renderer's goldens: as they stand in its test file, each in a module of its own.

use warpweft_compiler::DType;
use warpweft_compiler::program::{Access, Estimate, Parameter, Program};

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

#[test]
fn llvm_reads_every_golden() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../renderer/src/llvm/tests.rs");
    let file = std::fs::read_to_string(path).expect("the renderer has golden tests");
    let goldens = goldens(&file);
    assert!(goldens.len() > 15, "{} goldens were found", goldens.len());
    let device = warpweft_tests::guarded::open("CPU", Some(1)).expect("the CPU is always there");
    for golden in goldens {
        let is_module = golden.contains("define void @test");
        let source = if is_module { golden } else { format!("{}{golden}{}", FRAME.0, FRAME.1) };
        let program = Program {
            name: "test".to_string(),
            entry: "test".to_string(),
            source,
            parameters: vec![Parameter { dtype: DType::F32, len: 1, access: Access::ReadWrite }],
            variables: Vec::new(),
            grid: 1,
            scratch_bytes: 0,
            estimate: Estimate::default(),
        };
        let object = device.compile(&program).unwrap_or_else(|error| panic!("{error}\n{}", program.source));
        assert!(!object.is_empty());
    }
}
