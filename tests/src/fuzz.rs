//! The fuzz targets: a name, and what must hold of any bytes. `fuzz/fuzz_targets` has a file of ten lines for each, which calls [`run`].
//!
//! `fuzz/seeds/NAME` keeps bytes worth starting from. `it/fuzz_seeds.rs` runs every target on them, and holds the table, the files and the folders
//! together.

use crate::choices::Choices;
use crate::kernels::{Generator, check_kernel, kernel_of};
use crate::{guarded, in_place, oracle, rules, weights};

/// A fuzz target.
pub struct Target {
    /// Its name, and that of its file and of its folder of seeds.
    pub name: &'static str,
    /// The oracle.
    pub check: fn(&[u8]) -> Result<(), String>,
}

/// Every fuzz target.
// tidy: table
pub const TARGETS: &[Target] = &[
    Target { name: "alias_answers", check: oracle::alias_answers },
    Target { name: "conditions_keep_value", check: oracle::conditions_keep_value },
    Target { name: "cpu_kernel", check: cpu_kernel },
    Target { name: "functions", check: rules::functions::check },
    Target { name: "fusion_same_value", check: |bytes| oracle::fusion_same_value(bytes, false) },
    Target { name: "gguf_bytes", check: |bytes| weights::check("gguf_bytes", bytes) },
    Target { name: "memory_plan_legal", check: oracle::memory_plan_legal },
    Target { name: "numpy_bytes", check: |bytes| weights::check("numpy_bytes", bytes) },
    Target { name: "onnx_model", check: crate::onnx::bytes_are_read },
    Target { name: "rewrite_keeps_value", check: oracle::rewrite_keeps_value },
    Target { name: "rule_keeps_value", check: oracle::rule_keeps_value },
    Target { name: "safetensors_bytes", check: |bytes| weights::check("safetensors_bytes", bytes) },
    Target { name: "schedule_same_value", check: |bytes| oracle::schedule_same_value(bytes, false) },
    Target { name: "text_roundtrip", check: oracle::text_roundtrip },
    Target { name: "torch_bytes", check: |bytes| weights::check("torch_bytes", bytes) },
    Target { name: "value_is_itself", check: |bytes| oracle::value_is_itself(bytes, true) },
    Target { name: "view_elements", check: oracle::view_elements },
    Target { name: "writes_through_views", check: |bytes| oracle::writes_through_views(bytes, false) },
];

/// A target on these bytes.
///
/// # Panics
/// If there is no such target, or what must hold does not: so a fuzzer hears of it.
pub fn run(name: &str, bytes: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name);
    let Some(target) = target else { panic!("there is no fuzz target {name}") };
    if let Err(failure) = (target.check)(bytes) {
        panic!("{failure}");
    }
}

/// A kernel made of the bytes, one that works in place or one of many ops, has the interpreter's values as a linear list and as machine code.
fn cpu_kernel(bytes: &[u8]) -> Result<(), String> {
    let device = guarded::open_cpu().map_err(|error| error.to_string())?;
    let mut choices = Choices::new(bytes);
    if !choices.once_in(3) {
        return in_place::check(bytes.get(1..).unwrap_or_default(), Some(&*device));
    }
    let seed = (0..4).fold(0u64, |seed, _| seed << 8 | choices.byte() as u64);
    let generator = Generator::new(seed, 1);
    let mut generator = if choices.once_in(2) { generator.keeping() } else { generator };
    let ast = kernel_of(&[generator.graph(choices.between(1, 8) as usize)]);
    check_kernel(&*device, &ast, seed).map(drop).map_err(|why| {
        format!("{why}\n--- the kernel ---\n{}", warpweft_compiler::ir::text::Graph::new("kernel", [ast]))
    })
}
