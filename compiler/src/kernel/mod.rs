//! Kernels as loop nests: lowering from tensors ([`lower`]), facts and substitution of ranges ([`ranges`]), passes over loops
//! ([`loops`]), long sums by blocks ([`blocks`]), memory inside of them ([`scratch`]), expansion into lanes and straight-line code ([`expand`]), ops that a target lacks ([`decompose`]), accumulators of
//! states ([`states`]), machine types for indices ([`index_types`]).

pub mod blocks;
pub mod decompose;
pub mod effects;
pub mod estimate;
pub mod expand;
pub mod half_floats;
pub mod index_types;
pub mod loops;
pub mod lower;
pub mod name;
pub mod ranges;
pub mod scratch;
mod sine;
pub mod states;
pub mod transcendental;
pub mod transpose;
