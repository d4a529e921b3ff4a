//! Float constants that change from call to call, as a learning rate that a host computes: after the first change they are arguments.
//!
//! A constant is part of a program, because knowing it makes better kernels. When a program comes that differs from an earlier one in
//! nothing but its float constants, those that differ are taken out: each becomes a param of one element, with memory that holds its
//! value, and the program with them taken out is what is scheduled and found again. A constant that was seen to change stays taken out.
//! So a number that changes every step compiles twice, not every time.
//!
//! Always: the value of the program is the same. Not here: integers and bools, which mostly are lengths and flags, and change structure;
//! programs of very many constants.

use std::sync::PoisonError;

use rustc_hash::FxHashMap;
use warpweft_compiler::UOp;
use warpweft_compiler::dtype::{Elements, Scalar};
use warpweft_compiler::ir::{Op, Shape, postorder, substitute};
use warpweft_compiler::schedule::Normalized;

use super::executor::graph_bytes;
use super::run::buffer_node;
use super::{ExecuteError, Executor};
use crate::memory::Buffer;

/// Programs with more float constants than this keep them all.
const CONSTANTS_MAX: usize = 256;

/// A program apart from its float constants, as it was met.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    /// The constants when it was met first, in the order of the graph.
    values: Vec<Scalar>,
    /// Which of them have changed since.
    varies: Vec<bool>,
}

impl Executor {
    /// The program with those of its float constants taken out that are known to change.
    pub(super) fn without_changing_constants(&self, program: Normalized) -> Result<Normalized, ExecuteError> {
        let constants: Vec<UOp> = postorder(program.sink.src()).into_iter().filter(is_float_constant).collect();
        if constants.is_empty() || constants.len() > CONSTANTS_MAX {
            return Ok(program);
        }
        let first_slot = program.buffers.len();
        let param = |number: usize, constant: &UOp| {
            UOp::param((first_slot + number) as u32, constant.dtype(), 1).reshape(Shape::scalar())
        };
        // Apart, constants have slots that no memory has, or a program of more memory and fewer constants would look the same.
        let last_slots = u32::MAX as usize - first_slot - constants.len();
        let params: Vec<UOp> =
            constants.iter().enumerate().map(|(number, node)| param(last_slots + number, node)).collect();
        let all: FxHashMap<UOp, UOp> = constants.iter().cloned().zip(params).collect();
        let varies = self.varying(&substitute(&program.sink, &all), &constants);
        if !varies.contains(&true) {
            return Ok(program);
        }
        // Slots without gaps, for those that are taken out.
        let mut taken: FxHashMap<UOp, UOp> = FxHashMap::default();
        let mut buffers = program.buffers;
        for constant in constants.iter().zip(&varies).filter(|(_, varies)| **varies).map(|(constant, _)| constant) {
            taken.insert(constant.clone(), param(buffers.len() - first_slot, constant));
            let elements = Elements::from_scalars(constant.dtype(), constant.as_scalar().as_slice());
            let bytes = elements.map(|elements| elements.to_bytes()).unwrap_or_default();
            let memory = Buffer::from_bytes(&self.allocator, &bytes)?.of_constants(true);
            buffers.push(buffer_node(memory, constant.dtype(), 1, &self.name));
        }
        Ok(Normalized { sink: substitute(&program.sink, &taken), buffers, bindings: program.bindings })
    }

    /// Which constants of a program change, by what it was before.
    fn varying(&self, apart: &UOp, constants: &[UOp]) -> Vec<bool> {
        let values: Vec<Scalar> = constants.iter().filter_map(UOp::as_scalar).collect();
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let known = match seen.get(apart) {
            Some(known) => {
                let differs = |number: usize| known.values[number] != values[number];
                let varies = known.varies.iter().enumerate().map(|(number, varies)| *varies || differs(number));
                Seen { varies: varies.collect(), values: known.values.clone() }
            }
            None => Seen { varies: vec![false; values.len()], values },
        };
        let varies = known.varies.clone();
        let bytes = graph_bytes(apart) + known.values.len() * (size_of::<Scalar>() + 1);
        seen.insert(apart.clone(), known, bytes);
        varies
    }
}

fn is_float_constant(node: &UOp) -> bool {
    node.op() == Op::Const && node.dtype().is_float()
}
