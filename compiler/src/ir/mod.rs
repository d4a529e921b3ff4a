//! The one intermediate representation, from tensor program to micro-ops: hash-consed nodes over one table of ops.
//!
//! [`UOp`] is a node handle (`uop`), [`Op`] its operation (`op`, the table), [`Arg`] what it says beyond its operands, [`Shape`]
//! the lengths of its axes (each a [`Dim`]), [`Facts`] what is known of its value. `build` has typed constructors, `walk` the
//! traversals, [`fragments`] which elements of matrices lanes hold, [`dots`] which products lanes add up, [`tiles`] those of tiles, `infix` a one-line print of integer expressions.

pub mod arg;
pub mod axis;
mod build;
mod build_tensors;
mod combiner;
mod content;
mod dim;
mod dim_sum;
pub mod dots;
mod exact_facts;
mod facts;
#[cfg(test)]
mod facts_tests;
pub mod fragments;
mod infer;
mod infix;
pub mod interpret;
mod op;
mod op_set;
mod operators;
mod scalar_op;
pub mod text;
pub mod tiles;
mod uop;
mod walk;

pub use arg::{
    Arg, Axes, BufferArg, Function, MemorySpace, ParamArg, RangeArg, ReduceOp, SELDOM, StridedArg, VariableArg,
};
pub use axis::{AxisKind, ThreadDim};
pub use build::Operand;
pub use combiner::{Combiner, Combining, Component};
pub use content::content;
pub use dim::{Dim, Shape};
pub use dots::DotKind;
pub use facts::{Facts, floor_div, floor_mod, gcd};
pub use infer::IrError;
pub use op::{Class, Op};
pub use scalar_op::{Evaluator, ScalarFunction, evaluate, fold_constants, is_defined, scalar_function, scalar_op};
pub use tiles::{TileKind, TileShape};
pub use uop::{Sources, UOp, steps};
pub use walk::{Substitution, postorder, postorder_until, rebuild, substitute, substitute_nested, with_mapped_sources};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;

    #[test]
    fn the_same_content_is_the_same_node() {
        let x = UOp::variable("x", 0, 9);
        assert_eq!(&x + 1, &x + 1);
        assert_ne!(&x + 1, &x + 2);
        assert_eq!((&x + 1).structural_hash(), (&x + 1).structural_hash());
    }

    #[test]
    fn a_long_chain_builds_walks_and_drops() {
        let mut node = UOp::variable("long_chain", 0, 9);
        for step in 0..100_000 {
            node = if step % 2 == 0 { &node + 1 } else { node.max(3) };
        }
        assert!(postorder(std::slice::from_ref(&node)).len() > 100_000);
        drop(node);
    }

    #[test]
    fn threads_that_build_the_same_graph_share_it_and_leave_nothing() {
        let build = |seed: i64| {
            let mut node = UOp::variable("shared_by_threads", 0, 100);
            for step in 0..500 {
                node = &node * 3 + (step % 7 + seed);
            }
            node
        };
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..20).for_each(|round| drop(build(round % 2))));
            }
        });
        assert_eq!(build(0), build(0));
    }

    #[test]
    fn bad_operands_are_errors_that_name_shapes() {
        let x = UOp::param(0, DType::F32, 6).reshape([2, 3]);
        let y = UOp::param(1, DType::F32, 4);
        let error = UOp::try_new(Op::Add, DType::F32, [x.clone(), y].to_vec(), Arg::None).unwrap_err();
        assert_eq!(error.to_string(), "add: operands have shapes [2, 3] and [4]");
        let error = UOp::try_new(Op::Reshape, DType::F32, [x].to_vec(), Arg::Shape([4, 2].into())).unwrap_err();
        assert_eq!(error.to_string(), "reshape: [2, 3] has 6 elements, [4, 2] has 8");
    }
}
