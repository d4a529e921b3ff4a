//! Which loops become vectors, register tiles and thread shares: the vocabulary ([`opt`]), its application ([`apply`]), and the
//! choice by hand ([`by_hand`]) that most kernels get.

pub mod apply;
pub mod by_hand;
mod keep;
pub mod opt;
mod staging;
mod survey;

pub use apply::apply;
pub use by_hand::choose;
pub use opt::{Opt, Refused};
