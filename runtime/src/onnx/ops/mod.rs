//! The ops: a table from names to functions of a [`Call`].
//!
//! Ops with functions of their own stand in files by what they do. One function serves all versions of an op: what a version has as an attribute and another
//! as an input is looked for in both, and where versions differ in meaning, the function asks for the version.

mod attention;
mod control;
mod convolution;
mod counting;
mod create;
mod elementwise;
mod indexing;
mod learning;
mod movement;
mod norm;
mod pooling;
mod quantize;
mod recurrent;
mod reduce;
mod sampling;
mod sequence;
mod signal;
mod text;
mod training;
mod trees;

use std::sync::LazyLock;

use rustc_hash::FxHashMap;

use super::call::{Call, Done};

pub(super) type Op = fn(&Call<'_>) -> Done;
/// Rows of the table: an op's name, and its function.
type Rows = &'static [(&'static str, Op)];

/// The rows of each domain.
// tidy: table
const DOMAINS: &[(&str, Rows)] = &[
    ("", attention::OPS),
    ("", control::OPS),
    ("", convolution::OPS),
    ("", counting::OPS),
    ("", create::OPS),
    ("", elementwise::OPS),
    ("", indexing::OPS),
    ("", movement::OPS),
    ("", norm::OPS),
    ("", pooling::OPS),
    ("", quantize::OPS),
    ("", recurrent::OPS),
    ("", reduce::OPS),
    ("", sampling::OPS),
    ("", sequence::OPS),
    ("", signal::OPS),
    ("", text::OPS),
    ("ai.onnx.ml", indexing::ML),
    ("ai.onnx.ml", learning::ML),
    ("ai.onnx.ml", trees::ML),
    ("ai.onnx.preview", attention::PREVIEW),
    ("ai.onnx.preview.training", training::OPS),
];

/// Ops that there are not, and why.
// tidy: table
const LACKING: &[(&str, &str)] = &[
    ("ImageDecoder", "images in files are not decoded"),
    ("RegexFullMatch", "regular expressions are not there"),
    ("Gradient", "a model cannot ask for gradients of itself"),
];

static TABLE: LazyLock<FxHashMap<(&str, &str), Op>> = LazyLock::new(|| {
    let rows = DOMAINS.iter().flat_map(|(domain, rows)| rows.iter().map(move |(name, op)| ((*domain, *name), *op)));
    rows.collect()
});

/// The function of an op.
pub(super) fn find(domain: &str, name: &str) -> Option<Op> {
    TABLE.get(&(domain, name)).copied()
}

/// Why there is no such op.
pub(super) fn why_not(domain: &str, name: &str) -> String {
    match LACKING.iter().find(|row| row.0 == name) {
        Some((_, why)) => (*why).to_string(),
        None if domain.is_empty() => "there is no such op here, nor a function of the model of that name".to_string(),
        None => format!("there is no such op of the domain {domain} here, nor a function of the model of that name"),
    }
}
