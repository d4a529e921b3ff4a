//! The algebra of sets and the alias graph against lists of integers, and the corpora of both.

mod conformance;
mod cost;
mod programs;
mod sets;
