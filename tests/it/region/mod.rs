//! The algebra of sets and the alias graph against lists of integers, and the corpora of both.

mod choices;
mod conformance;
mod cost;
mod model;
mod programs;
mod sets;
