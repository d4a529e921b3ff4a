//! Tests that cross crates: filetests, the conformance runner, models and properties, tidy rules.
//!
//! [`filetest`] runs `.uop` files by [`commands`]; [`engines`] are what can compute a graph; [`generate`] makes graphs by
//! [`choices`], [`oracle`] says what must hold of them, for properties here and for the fuzz targets alike.
//! [`error_bound`] says how far from the interpreter's an element may be, for what was computed of it.
//! [`rules`] tries every rule of the compiler by itself. [`fuzz`] lists what fuzzers run.
//! [`block_programs`] makes graphs of the blocks of networks, [`self_programs`] values that are compared with themselves. [`write_programs`] are random programs of views and writes, on tensors and on a model.
//! [`effects`] are larger programs, with values of every kind and compiled functions; [`in_place`] are kernels that work in place, [`opt_lists`] are lists of opts on kernels.
//! [`guarded`] is the CPU with memory between guard pages. [`lists`] runs what optimization made of kernels, and watches their memory. [`alias_programs`] holds the alias graph against [`alias_model`].
//! [`weights`] are files that nobody meant well with. [`assembler`] finds ptxas. [`soak`] runs all generators for as long as one likes; [`mutants`] plants faults in the project and sees whether its tests notice.

pub mod alias_model;
pub mod alias_programs;
pub mod assembled;
pub mod assembler;
pub mod block_programs;
pub mod choices;
pub mod commands;
pub mod compare;
pub mod conformance;
pub mod effects;
pub mod engines;
pub mod error_bound;
pub mod filetest;
pub mod fuzz;
pub mod generate;
pub mod guarded;
pub mod in_place;
pub mod kernels;
pub mod lists;
pub mod mutants;
pub mod onnx;
pub mod opt_lists;
pub mod oracle;
pub mod rules;
pub mod self_programs;
pub mod soak;
pub mod weights;
pub mod write_programs;
mod write_views;
