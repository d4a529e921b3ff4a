//! What views show and what writes through them change, on plain lists.
//!
//! A storage is a list of integers; the addresses of a view are listed by the definition of strides. A write follows the plan that
//! the compiler made for it, position by position, in an order that no plan may rely on.

use super::Stop;
use super::view_steps::Seen;
use warpweft_compiler::DType;
use warpweft_compiler::dtype::Scalar;
use warpweft_compiler::ir::{Op, Shape, interpret};
use warpweft_compiler::view::{ViewSpec, WriteKind, WritePlan};

/// Nothing if the two are equal.
///
/// # Errors
/// If they are not: both.
pub fn agree<T: PartialEq + std::fmt::Debug>(what: &str, got: T, want: T) -> Result<(), Stop> {
    if got == want { Ok(()) } else { Err(Stop::failed(format!("{what}: {got:?}, not {want:?}"))) }
}

/// The lengths as numbers.
///
/// # Errors
/// If one is symbolic.
pub fn concrete(shape: &Shape) -> Result<Vec<i64>, Stop> {
    shape.as_const().ok_or_else(|| Stop::failed(format!("{shape} is symbolic")))
}

/// The addresses of a view in row-major order, by the definition of strides.
///
/// # Errors
/// If the view is symbolic.
pub fn addresses(spec: &ViewSpec) -> Result<Vec<i64>, Stop> {
    let offset = spec.offset.as_const().ok_or_else(|| Stop::failed("the offset is symbolic".to_string()))?;
    let mut all = vec![offset];
    for (len, stride) in concrete(&spec.shape)?.into_iter().zip(concrete(&spec.strides)?) {
        all = all.into_iter().flat_map(|address| (0..len).map(move |i| address + i * stride)).collect();
    }
    Ok(all)
}

/// What the interpreter sees through the node of a view, over a storage in which every element is its address.
///
/// # Errors
/// If the node cannot be interpreted.
pub fn shown(seen: &Seen) -> Result<Vec<i64>, Stop> {
    let len = seen.storage.shape()[0].max_value();
    let content: Vec<Scalar> = (0..len).map(Scalar::Int).collect();
    let memory = interpret::Value::from_scalars(DType::I64, [len], &content);
    let leaves = |node: &warpweft_compiler::UOp| if node.op() == Op::Param { memory.clone() } else { None };
    let values = interpret::interpret(std::slice::from_ref(&seen.node), &leaves);
    let values = values.map_err(|error| Stop::failed(error.to_string()))?;
    Ok(values[0].scalars().into_iter().map(Scalar::to_i64).collect())
}

/// What a write does to one element.
#[derive(Clone, Copy, Debug)]
pub enum WriteOp {
    /// Puts one number.
    Fill,
    /// Puts the source's element.
    Copy,
    /// Adds the source's element.
    Add,
    /// Multiplies by the source's element.
    Multiply,
}

impl WriteOp {
    /// By PyTorch's name.
    ///
    /// # Errors
    /// If it is not one of the four.
    pub fn named(name: &str) -> Result<WriteOp, Stop> {
        match name {
            "fill_" => Ok(WriteOp::Fill),
            "copy_" => Ok(WriteOp::Copy),
            "add_" => Ok(WriteOp::Add),
            "mul_" => Ok(WriteOp::Multiply),
            other => Err(Stop::unsupported(format!("write {other}"))),
        }
    }

    /// What it does with the old value.
    pub fn kind(self) -> WriteKind {
        match self {
            WriteOp::Fill => WriteKind::Fill,
            WriteOp::Copy => WriteKind::Copy,
            WriteOp::Add | WriteOp::Multiply => WriteKind::Update,
        }
    }

    /// The new value of an element.
    pub fn combine(self, old: i64, source: i64) -> i64 {
        match self {
            WriteOp::Fill | WriteOp::Copy => source,
            WriteOp::Add => old.wrapping_add(source),
            WriteOp::Multiply => old.wrapping_mul(source),
        }
    }
}

/// Carries out a plan on a list: `value_at(memory, address)` gives the source's element.
///
/// # Errors
/// If the source does not have as many positions as the destination.
pub fn carry_out(
    plan: &WritePlan,
    memory: &mut [i64],
    to: &[i64],
    op: WriteOp,
    value_at: &dyn Fn(&[i64], i64) -> i64,
) -> Result<(), Stop> {
    let (source, is_read_first) = match plan {
        WritePlan::Nothing => return Ok(()),
        WritePlan::InPlace(None) => (vec![0; to.len()], false),
        WritePlan::InPlace(Some(view)) => (addresses(view)?, false),
        WritePlan::SourceFirst(view) => (addresses(view)?, true),
    };
    agree("positions of the source", source.len(), to.len())?;
    let before: Vec<i64> =
        if is_read_first { source.iter().map(|&address| value_at(memory, address)).collect() } else { Vec::new() };
    // From the last to the first, an order that nobody relies on.
    for position in (0..to.len()).rev() {
        let value = if is_read_first { before[position] } else { value_at(memory, source[position]) };
        let place = to[position] as usize;
        memory[place] = op.combine(memory[place], value);
    }
    Ok(())
}
