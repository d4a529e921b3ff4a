//! What `write` puts where, and what kernels store. A store may name a view of its param: the view of the param's element numbers says where each value goes.

use std::collections::BTreeMap;

use super::dims::Dims;
use super::{InterpretError, Value, interpret, movement, scan};
use crate::dtype::{DType, Scalar};
use crate::ir::{Arg, Op, ParamArg, UOp, postorder, rebuild};

/// The base of a `write` with the value in the place of what the view shows: the view of element numbers says where each goes.
pub(super) fn write(
    base: &Value,
    steps: &[(Op, Arg)],
    value: &Value,
    dims: &mut Dims<'_>,
) -> Result<Value, InterpretError> {
    let numbers = movement::iota(base.len() as i64).with_shape(base.shape().to_vec());
    let offsets = steps.iter().try_fold(numbers, |numbers, (op, arg)| movement::movement(*op, arg, &numbers, dims))?;
    let fail = |message: String| InterpretError { op: Op::Write, message };
    if offsets.len() != value.len() || value.dtype() != base.dtype() {
        return Err(fail(format!("{} elements are written to a view of {}", value.len(), offsets.len())));
    }
    let mut elements = base.scalars();
    for position in 0..value.len() {
        elements[offsets.get(position).to_i64() as usize] = value.get(position);
    }
    let written = Value::from_scalars(base.dtype(), base.shape(), &elements);
    written.ok_or_else(|| fail("elements of another type came out".to_string()))
}

/// The stores of a kernel AST carried out, in order: the whole contents of each param that is stored to.
pub(super) fn interpret_stores(
    ast: &UOp,
    leaves: &dyn Fn(&UOp) -> Option<Value>,
) -> Result<Vec<(u32, Value)>, InterpretError> {
    let values = interpret(std::slice::from_ref(ast), leaves)?;
    let mut contents: BTreeMap<u32, (DType, Vec<Scalar>)> = BTreeMap::new();
    for (store, value) in ast.src().iter().zip(values) {
        let (target, base, param) = target_of(store)?;
        let fail = |message: String| InterpretError { op: Op::Store, message };
        if value.dtype() != base.dtype() {
            return Err(fail(format!("{} is stored to a param of {}", value.dtype(), base.dtype())));
        }
        // All of a param overwritten in order needs none of its old elements.
        if target == base && value.len() as u64 == param.len && store.src().len() == 2 {
            contents.insert(param.slot, (value.dtype(), value.scalars()));
            continue;
        }
        let offsets = offsets(&target, &base, param, leaves)?;
        if let Arg::Scatter(op, axis) = *store.arg() {
            let index = interpret(&store.src()[2..3], leaves)?.remove(0);
            let known = contents.get(&param.slot).map(|(_, elements)| elements.clone());
            let mut elements = match known {
                Some(known) => known,
                None => {
                    leaves(&base).ok_or_else(|| fail(format!("no value was given for param {}", param.slot)))?.scalars()
                }
            };
            let shape = interpret(std::slice::from_ref(&target), leaves)?.remove(0).shape().to_vec();
            let old: Vec<Scalar> = offsets.iter().map(|&offset| elements[offset]).collect();
            let old = Value::from_scalars(value.dtype(), shape, &old)
                .ok_or_else(|| fail("elements of another type came out".to_string()))?;
            let new = scan::scatter(op, axis as usize, &old, &index, &value)?;
            offsets.iter().zip(new.scalars()).for_each(|(&offset, element)| elements[offset] = element);
            contents.insert(param.slot, (value.dtype(), elements));
            continue;
        }
        if target != base && offsets.len() != value.len() {
            return Err(fail(format!("{} elements are stored to a view of {}", value.len(), offsets.len())));
        }
        let known = match contents.remove(&param.slot) {
            Some(known) => known,
            None => {
                let old = leaves(&base).filter(|old| old.len() as u64 == param.len && old.dtype() == base.dtype());
                let old = old.ok_or_else(|| fail(format!("no value was given for param {}", param.slot)))?;
                (old.dtype(), old.scalars())
            }
        };
        let (dtype, mut elements) = known;
        for (position, offset) in offsets.into_iter().take(value.len()).enumerate() {
            elements[offset] = value.get(position);
        }
        contents.insert(param.slot, (dtype, elements));
    }
    let with_value = |(slot, (dtype, elements)): (u32, (DType, Vec<Scalar>))| {
        Value::from_scalars(dtype, [elements.len() as i64], &elements).map(|value| (slot, value))
    };
    Ok(contents.into_iter().filter_map(with_value).collect())
}

/// The view that a store names, the param below it, and what that says.
fn target_of(store: &UOp) -> Result<(UOp, UOp, ParamArg), InterpretError> {
    let target = if store.op() == Op::Store { store.src().first() } else { None };
    let mut base = target;
    while let Some(node) = base.filter(|node| node.op().is_movement()) {
        base = node.src().first();
    }
    match (target, base.map(|base| (base, base.arg()))) {
        (Some(target), Some((base, Arg::Param(param)))) => Ok((target.clone(), base.clone(), *param)),
        _ => {
            let message = format!("a kernel is a sink of stores to params, not of {}", store.op());
            Err(InterpretError { op: Op::Sink, message })
        }
    }
}

/// The element of the param that each element of the view is.
fn offsets(
    target: &UOp,
    base: &UOp,
    param: ParamArg,
    leaves: &dyn Fn(&UOp) -> Option<Value>,
) -> Result<Vec<usize>, InterpretError> {
    if postorder(std::slice::from_ref(target)).iter().any(|node| node.op() == Op::Pad) {
        return Err(InterpretError { op: Op::Store, message: "cannot store into padding".to_string() });
    }
    // The same view over numbers instead of elements.
    let numbers = UOp::iota(param.len as i64);
    let view = rebuild(target, |node, new| {
        if node == base {
            return numbers.clone();
        }
        UOp::new(node.op(), DType::INDEX, new.src(), node.arg().clone())
    });
    let numbers = interpret(&[view], leaves)?;
    Ok(numbers.iter().flat_map(Value::scalars).map(|number| number.to_i64() as usize).collect())
}
