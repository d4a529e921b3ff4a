//! Indices that name nothing: an error of the call where the index is known, and always in the checked mode.
//!
//! An index is known where looking costs nothing: if its bounds say enough, or if it is small and made of memory and constants alone, so
//! that it can be read at once; of what a GPU holds, that is what the host gave it. What is not known (the result of a kernel, an argument of a traced function) is looked at in the
//! checked mode, when a value is asked for: see [`check_indices`] and `execute::checks`. Without it such an element reads 0, names no
//! element to write to, and makes a loss NaN.
//!
//! Tested by `tests/it/indices.rs` and `data/edges.json.gz`.

use std::cell::Cell;
use std::panic::Location;

use rustc_hash::FxHashMap;
use warpweft_compiler::dtype::Scalar;
use warpweft_compiler::ir::interpret::{Value, interpret};
use warpweft_compiler::ir::{Arg, Function, Op, substitute};
use warpweft_compiler::ops::{Built, OpError, indexing};
use warpweft_compiler::schedule::view_of;
use warpweft_compiler::view::ViewSpec;
use warpweft_compiler::{DType, UOp};

use crate::config::config;
use crate::execute::{self, IndexCall};
use crate::tensor::errors::description;

/// Indices of more elements are not looked at when they are written.
const ELEMENTS_MAX: i64 = 4096;
/// Nor are those that more nodes make.
const NODES_MAX: usize = 32;

thread_local! {
    static CHECKED: Cell<bool> = const { Cell::new(false) };
}

/// Runs a closure in the checked mode, which `CHECK=1` turns on for a whole process: every index that is given to a function inside of it is
/// looked at when something that depends on it is computed, then or later. An element out of range is an error that names the function, the
/// element, what would be right, and the line of the call.
///
/// That takes a kernel for each index.
pub fn check_indices<T>(closure: impl FnOnce() -> T) -> T {
    /// Also when the closure panics.
    struct Before(bool);
    impl Drop for Before {
        fn drop(&mut self) {
            CHECKED.set(self.0);
        }
    }
    let _before = Before(CHECKED.replace(true));
    closure()
}

fn is_checked() -> bool {
    CHECKED.get() || config().check
}

/// What an index may hold.
pub(in crate::tensor) struct Allowed {
    /// What is indexed, as messages name it.
    indexed: String,
    lowest: i64,
    end: i64,
    ignored: Option<i64>,
}

impl Allowed {
    /// Indices of an axis, from its start.
    pub(in crate::tensor) fn axis(x: &UOp, axis: i64) -> Option<Allowed> {
        let rank = x.shape().len();
        let axis = usize::try_from(if axis < 0 { axis + rank as i64 } else { axis }).ok()?;
        let len = if rank == 0 { 1 } else { x.shape().get(axis)?.as_const()? };
        Some(Allowed { indexed: format!("axis {axis} of length {len}"), lowest: 0, end: len, ignored: None })
    }

    /// Indices of an axis, from its start or its end.
    pub(super) fn axis_from_either_end(x: &UOp, axis: i64) -> Option<Allowed> {
        Allowed::axis(x, axis).map(|allowed| Allowed { lowest: -allowed.end, ..allowed })
    }

    /// Classes, and the one that does not count.
    pub(in crate::tensor) fn classes(classes: i64, ignored: Option<i64>) -> Allowed {
        Allowed { indexed: format!("one of {classes} classes"), lowest: 0, end: classes, ignored }
    }

    fn holds(&self, value: i64) -> bool {
        (self.lowest..self.end).contains(&value) || Some(value) == self.ignored
    }
}

/// The index of a call, as the call shall read it: looked at if it is known, and in the checked mode a node that is looked at later.
///
/// What the op itself refuses (an index that is no integer, an axis that is not there) is left to it.
///
/// # Errors
/// If an element is known to be out of range.
pub(super) fn index_of(
    op: &'static str,
    operands: &[&UOp],
    index: &UOp,
    allowed: Option<Allowed>,
    location: &'static Location<'static>,
) -> Built {
    let Some(allowed) = allowed.filter(|_| index.dtype().is_integer() && !index.shape().numel().is(0)) else {
        return Ok(index.clone());
    };
    let (least, most) = (index.min_value(), index.max_value());
    if index.dtype() != DType::U64 && allowed.lowest <= least && most < allowed.end {
        return Ok(index.clone());
    }
    let Allowed { ref indexed, lowest, end, ignored } = allowed;
    let call = || IndexCall {
        op,
        operands: operands.iter().map(|operand| description(operand)).collect(),
        indexed: indexed.clone(),
        lowest,
        end,
        location,
    };
    if let Some(elements) = known_elements(index) {
        return match elements.iter().position(|&value| !allowed.holds(value)) {
            Some(position) => Err(OpError::new(call().complaint(position as i64, elements[position]))),
            None => Ok(index.clone()),
        };
    }
    if !is_checked() {
        return Ok(index.clone());
    }
    Ok(execute::checked(index, indexing::outside(index, lowest, end, ignored), call()))
}

/// What an op makes of its index, after [`index_of`]. What the op itself refuses comes first.
pub(in crate::tensor) fn with_index(
    op: &'static str,
    operands: &[&UOp],
    index: &UOp,
    allowed: Option<Allowed>,
    location: &'static Location<'static>,
    build: impl Fn(&UOp) -> Built,
) -> Built {
    match index_of(op, operands, index, allowed, location) {
        Ok(index) => build(&index),
        Err(error) => build(index).and(Err(error)),
    }
}

/// The elements of an index that is small and made of memory and constants alone.
fn known_elements(index: &UOp) -> Option<Vec<i64>> {
    let is_small = |node: &UOp| node.shape().numel().as_const().is_some_and(|count| count <= ELEMENTS_MAX);
    if !is_small(index) {
        return None;
    }
    let mut leaves: FxHashMap<UOp, UOp> = FxHashMap::default();
    let mut values: Vec<Value> = Vec::new();
    // Met so far, each once; a graph that is too large is left as soon as that is seen.
    let mut met: Vec<&UOp> = vec![index];
    let mut next = 0;
    while let Some(&node) = met.get(next) {
        next += 1;
        if met.len() > NODES_MAX || !is_small(node) {
            return None;
        }
        if let Some(memory) = Memory::of(node) {
            let param = UOp::param(values.len() as u32, node.dtype(), memory.count as u64);
            leaves.insert(node.clone(), view_of(&param, node.shape()));
            values.push(memory.read(node.dtype())?);
            continue;
        }
        let is_plain = matches!(node.op(), Op::Const | Op::Iota | Op::Detach | Op::Contiguous)
            || *node.arg() == Arg::Function(Function::Own);
        if !is_plain && !node.op().is_elementwise() && !node.op().is_movement() {
            return None;
        }
        for operand in node.src() {
            if !met.contains(&operand) {
                met.push(operand);
            }
        }
    }
    let leaf = |node: &UOp| match node.arg() {
        Arg::Param(param) => values.get(param.slot as usize).cloned(),
        _ => None,
    };
    let found = interpret(&[substitute(index, &leaves)], &leaf).ok()?;
    Some(found.first()?.scalars().into_iter().map(Scalar::to_i64).collect())
}

/// A strided part of memory that holds its elements already.
struct Memory {
    buffer: UOp,
    spec: ViewSpec,
    count: i64,
}

impl Memory {
    /// What a node shows, if it is a view of memory or was computed.
    fn of(node: &UOp) -> Option<Memory> {
        let mut steps = Vec::new();
        let mut base = node;
        let buffer = loop {
            match execute::computed(base) {
                Some(buffer) => break buffer,
                None if base.op() == Op::Buffer => break base.clone(),
                None if base.op().is_movement() && steps.len() < NODES_MAX => {
                    steps.push(base);
                    base = &base.src()[0];
                }
                None => return None,
            }
        };
        execute::memory_of(&buffer)?;
        let count = node.shape().numel().as_const()?;
        let storage = ViewSpec::of_storage(base.shape().clone());
        let spec = steps.iter().rev().try_fold(storage, |spec, step| spec.apply(step.op(), step.arg()))?;
        Some(Memory { buffer, spec, count })
    }

    /// Its elements in row-major order; none where the host would wait for a device to hear of them.
    fn read(&self, dtype: DType) -> Option<Value> {
        let memory = execute::memory_of(&self.buffer)?;
        let (lengths, strides) = (self.spec.shape.as_const()?, self.spec.strides.as_const()?);
        let first = self.spec.offset.as_const()?;
        let width = dtype.bytes();
        let device = memory.allocator().device();
        if memory.known_bytes().is_none() && !device.uses_host_memory() {
            return None;
        }
        let mut bytes = vec![0u8; self.count as usize * width];
        for (number, element) in bytes.chunks_mut(width).enumerate() {
            let (mut rest, mut at) = (number as i64, first);
            for (len, stride) in lengths.iter().zip(&strides).rev() {
                at += rest % len * stride;
                rest /= len;
            }
            let at = usize::try_from(at).ok()? * width;
            match memory.known_bytes() {
                Some(known) => element.copy_from_slice(known.get(at..at + width)?),
                None => memory.copy_out(at, element).ok()?,
            }
        }
        Value::from_bytes(dtype, vec![self.count], &bytes)
    }
}
