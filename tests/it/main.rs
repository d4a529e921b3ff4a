//! One test binary for all that crosses crates.
#![allow(clippy::unwrap_used, reason = "a step that fails fails its test")]
#![allow(clippy::cloned_ref_to_slice_refs, reason = "lists of one and of several inputs read alike")]
#![allow(clippy::reversed_empty_ranges, reason = "as an index, 1..=-1 ends with the last element")]

mod attention;
mod attention_lengths;
mod attention_tiles;
mod bad_input;
mod batches;
mod chains;
mod corpora;
mod coverage;
#[cfg(target_os = "linux")]
mod cuda;
mod dependents;
mod dot_products;
mod edges;
mod filetests;
mod fuzz_seeds;
mod gpu;
mod gradients;
mod growth;
mod guard;
mod incomplete;
mod indices;
mod interchange;
mod joins;
mod kernel_counts;
mod kernels;
mod lists;
mod long_rows;
mod machine_code;
mod many_terms;
mod matrices;
mod matrix_tiles;
mod one_value;
mod onnx;
mod opts;
mod packed;
mod products;
mod properties;
mod recomputed;
mod recurrent;
mod region;
mod renderer_goldens;
mod rules;
mod samples;
mod scans;
mod scratch;
mod selecting;
mod shared_rows;
mod sorts;
mod sums;
mod symbolic;
mod symbolic_programs;
mod tensors;
mod thread_opts;
mod tidy;
mod tile_products;
mod transposed_convolutions;
mod triangles;
mod updates;
mod variable_images;
mod variable_lengths;
mod views;
mod windows;
mod writes;
