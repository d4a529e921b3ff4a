//! The choice by hand for machines with blocks of threads. [`blocks`] is the entry: it tries products by tiles ([`joined_terms`], [`matrix_tiles`], [`shared_tiles`]), then reductions that
//! threads share ([`shared_reductions`], [`reductions_across`]), and tiles that turn memory around ([`turned_tiles`]), and else gives each thread rows of windows ([`window_rows`]), one element, vector or tile of the outputs.

pub(super) mod blocks;
pub(super) mod joined_terms;
pub(super) mod matrix_tiles;
pub(super) mod parts;
pub(super) mod reductions_across;
pub(super) mod row_loops;
pub(super) mod shared_reductions;
pub(super) mod shared_tiles;
pub(super) mod team;
pub(super) mod turned_tiles;
pub(super) mod two_matrices;
pub(super) mod two_products;
pub(super) mod window_rows;
