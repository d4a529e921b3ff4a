//! Where elements stand: views, cuts, joins and borders.
//!
//! None of these computes a number. Most are movement ops, which cost nothing by themselves.

pub mod diagonals;
pub mod join;
pub mod movement;
pub mod padding;
pub mod slicing;
pub mod windows;
