//! After the optimizer: what it chose is carried out, until nothing is left that the target lacks.
//!
//! Long sums go by blocks ([`blocks`]); tiles and lanes become straight-line code and vectors ([`expand`], [`transpose`], [`interleaved`]); reductions of
//! several values become accumulators ([`states`]); sums across lanes are taken together ([`sums_across`]); factors of matrices are loaded in pairs ([`pairs`]), and products of matrices add to sums by themselves ([`matrix_sums`]), and what lanes hold of their results is stored in pairs ([`paired_stores`]); what all threads would store the first one stores ([`first_thread`]); what is only stored under a condition is only loaded under it ([`guarded_loads`]); ops that the target lacks become ops that it has ([`decompose`], with
//! [`half_floats`], [`transcendental`] and sines); indices get machine types ([`index_types`]).

pub mod blocks;
pub mod decompose;
pub mod dot_products;
pub mod expand;
pub mod exponentials;
pub mod first_thread;
pub mod guarded_loads;
pub mod half_floats;
pub mod index_types;
pub mod interleaved;
pub mod matrix_sums;
pub mod paired_stores;
pub mod pairs;
mod remainder;
mod sine;
pub mod states;
pub mod strided;
pub mod sums_across;
pub mod transcendental;
pub mod transpose;
