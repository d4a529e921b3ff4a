//! How far from the interpreter's value an engine may be, element by element: tolerances that follow from what was computed.
//!
//! ```text
//! bounded(roots, leaves)      each root's value, and for each of its elements a bound of the error
//! compare(bounded, found)     the first element that is farther off
//! ```
//!
//! The bound goes along the graph with the values, node by node, as forward analysis of rounding errors has it. The interpreter computes both, so
//! shapes are those of the graph: ops that move elements move their bounds ([`Nodes::value`] on the bounds). What is off:
//!
//! - A sum of floats, since engines add in another order: by `k` roundings of the sum of the terms' sizes, where `k` is the number of terms, or what
//!   blocks leave of it ([`roundings`]). Products that are summed are not rounded by themselves where they are added in one step.
//! - Exponentials, logarithms and sines, by a few units of the last place.
//! - What is computed of these ([`element`]). Everything else is exact: an engine that changes a bit of it is wrong.
//!
//! What rounding may decide, such as whether two sums are equal, has the bound infinity, and nothing is asked of it; [`Bounded::judged`] counts
//! the rest, and tests of generators hold that this is nearly all.

mod element;
mod scan;
mod states;

use std::rc::Rc;

use rustc_hash::FxHashMap;
use warpweft_compiler::DType;
use warpweft_compiler::ir::interpret::{Nodes, Value, interpret_kernel};
use warpweft_compiler::ir::{Arg, Op, ReduceOp, Sources, UOp, postorder, rebuild};
use warpweft_compiler::legalize::blocks::{PRODUCTS_MAX, TERMS_MAX};

use element::{Element, Rounding, error_of, is_function, one_rounding};

/// Sums of lanes, copies of loops and levels of blocks, on top of what one accumulator takes.
const JOINS_MAX: f64 = 64.0;

/// What gives the values of params, buffers and variables.
pub type Leaves<'l> = &'l dyn Fn(&UOp) -> Option<Value>;

/// A value, with how far off its elements may be.
#[derive(Clone, Debug)]
pub struct Bounded {
    /// The interpreter's value.
    pub value: Value,
    /// The bound of each element; none where all are exact.
    errors: Option<Rc<Vec<f64>>>,
}

impl Bounded {
    /// A value that every engine must meet exactly.
    pub fn exact(value: Value) -> Bounded {
        Bounded { value, errors: None }
    }

    fn of(value: Value, errors: Vec<f64>) -> Bounded {
        let is_exact = errors.iter().all(|error| *error == 0.0);
        Bounded { value, errors: (!is_exact).then(|| Rc::new(errors)) }
    }

    /// How far off that element may be.
    pub fn error(&self, position: usize) -> f64 {
        self.errors.as_ref().map_or(0.0, |errors| errors[position])
    }

    /// The bounds as a tensor of the value's shape.
    fn errors(&self) -> Result<Value, String> {
        let zeros = || vec![0.0; self.value.len()];
        let errors = self.errors.as_ref().map_or_else(zeros, |errors| errors.to_vec());
        wide(self.value.shape(), &errors)
    }

    /// Elements that an engine is held to: all but those that rounding may decide.
    pub fn judged(&self) -> usize {
        (0..self.value.len()).filter(|position| self.error(*position).is_finite()).count()
    }
}

fn wide(shape: &[i64], numbers: &[f64]) -> Result<Value, String> {
    Value::from_f64(DType::F64, shape, numbers).ok_or_else(|| format!("{} numbers are not {shape:?}", numbers.len()))
}

/// What an error is measured from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum From {
    /// The interpreter's value, which other engines round as well.
    Interpreter,
    /// The real number that is meant: every rounding counts, also those that engines agree on.
    RealNumber,
}

/// The values of these roots, with the bounds of their errors.
///
/// # Errors
/// As the interpreter, or when a bound cannot be computed.
pub fn bounded(roots: &[UOp], leaves: Leaves<'_>) -> Result<Vec<Bounded>, String> {
    bounded_from(From::Interpreter, roots, leaves)
}

/// The values of these roots, with bounds of how far they are from what real numbers would give: for comparisons with other libraries, which
/// compute the same by other formulas. What rounding decides is not bounded.
///
/// # Errors
/// As [`bounded`].
pub fn bounded_from_real(roots: &[UOp], leaves: Leaves<'_>) -> Result<Vec<Bounded>, String> {
    bounded_from(From::RealNumber, roots, leaves)
}

fn bounded_from(from: From, roots: &[UOp], leaves: Leaves<'_>) -> Result<Vec<Bounded>, String> {
    let order = postorder(roots);
    let number: FxHashMap<&UOp, usize> = order.iter().enumerate().map(|(number, node)| (node, number)).collect();
    let mut last_use: Vec<usize> = vec![0; order.len()];
    for (at, node) in order.iter().enumerate() {
        node.src().iter().for_each(|operand| last_use[number[operand]] = at);
    }
    roots.iter().for_each(|root| last_use[number[root]] = order.len());
    let mut nodes = Nodes::of(&order, leaves).map_err(|error| error.to_string())?;
    let mut known: Vec<Option<Bounded>> = vec![None; order.len()];
    for (at, node) in order.iter().enumerate() {
        let operands: Vec<Bounded> = node.src().iter().filter_map(|operand| known[number[operand]].clone()).collect();
        let values: Vec<Value> = operands.iter().map(|operand| operand.value.clone()).collect();
        let value = nodes.value(node, &values).map_err(|error| error.to_string())?;
        let mut new = with_errors(node, &operands, value, &mut nodes)?;
        if from == From::RealNumber {
            new = rounded_once_more(node, new);
        }
        known[at] = Some(new);
        for operand in node.src().iter().map(|operand| number[operand]).filter(|operand| last_use[*operand] == at) {
            known[operand] = None;
        }
    }
    Ok(roots.iter().filter_map(|root| known[number[root]].clone()).collect())
}

/// What a kernel AST stores, as [`interpret_kernel`] has it, with the bounds of the errors.
///
/// # Errors
/// As [`bounded`].
pub fn bounded_kernel(ast: &UOp, leaves: Leaves<'_>) -> Result<Vec<(u32, Bounded)>, String> {
    let text = |error: warpweft_compiler::ir::interpret::InterpretError| error.to_string();
    // What is scattered is known of the whole memory that it goes to.
    let ast = &UOp::sink(ast.src().iter().map(|store| match (store.arg(), store.src()) {
        (Arg::Scatter(op, axis), [target, value, index]) => {
            let whole = target.scatter(index, value, *op, *axis as usize);
            UOp::new(Op::Store, DType::VOID, Sources::from_iter([target.clone(), whole]), Arg::None)
        }
        _ => store.clone(),
    }));
    let stored = interpret_kernel(ast, leaves).map_err(text)?;
    let values: Vec<UOp> = ast.src().iter().filter_map(|store| store.src().get(1).cloned()).collect();
    let values = bounded(&values, leaves)?;
    // The same stores of the bounds: they lie in params of their own, and what is stored to begins with bounds of zero.
    let first = 1 + stored.iter().map(|(slot, _)| *slot).max().unwrap_or(0);
    let errors: Vec<Value> = values.iter().map(Bounded::errors).collect::<Result<_, _>>()?;
    let stores = ast.src().iter().zip(&errors).zip(first..).map(|((store, errors), slot)| {
        let target = rebuild(&store.src()[0], |node, new| match node.arg() {
            Arg::Param(param) => UOp::param(param.slot, DType::F64, param.len),
            _ => UOp::new(node.op(), DType::F64, new.src(), node.arg().clone()),
        });
        let value = UOp::param(slot, DType::F64, errors.len() as u64);
        UOp::new(Op::Store, DType::VOID, Sources::from_iter([target, value]), Arg::None)
    });
    let leaf = |node: &UOp| match node.arg() {
        Arg::Param(param) if param.slot >= first => errors.get((param.slot - first) as usize).cloned(),
        Arg::Param(param) => Value::from_f64(DType::F64, [param.len as i64], &vec![0.0; param.len as usize]),
        _ => leaves(node),
    };
    let bounds = interpret_kernel(&UOp::sink(stores), &leaf).map_err(text)?;
    let pairs = crate::engines::both("stores and bounds", &stored, &bounds)?;
    Ok(pairs.map(|((slot, value), (_, errors))| (*slot, Bounded::of(value.clone(), errors.to_f64()))).collect())
}

/// The same, where its own rounding is not one that others do as well. Bounds that are not 0 hold it already.
fn rounded_once_more(node: &UOp, of: Bounded) -> Bounded {
    let from = node.src().first().map_or(node.dtype(), UOp::dtype);
    let rounding = |(position, value): (usize, f64)| match of.error(position) {
        0.0 => one_rounding(node.op(), from, node.dtype(), value),
        error => error,
    };
    let errors = of.value.to_f64().into_iter().enumerate().map(rounding).collect();
    Bounded::of(of.value.clone(), errors)
}

/// The bounds of a node whose operands have theirs.
fn with_errors(node: &UOp, operands: &[Bounded], value: Value, nodes: &mut Nodes<'_>) -> Result<Bounded, String> {
    let dtype = node.dtype();
    let rounds = match node.arg() {
        Arg::Reduce(op, _) | Arg::Scan(op, _) | Arg::Scatter(Some(op), _) => {
            dtype.is_float() && matches!(op, ReduceOp::Add | ReduceOp::Mul)
        }
        Arg::ReduceState(component, _) => component.combiner.is_rounded(),
        Arg::ScanState(combiner, _) => combiner.is_rounded(),
        _ => is_function(node.op()),
    };
    if !rounds && operands.iter().all(|operand| operand.errors.is_none()) {
        return Ok(Bounded::exact(value));
    }
    let errors = match (node.op(), node.arg()) {
        (Op::Reduce, Arg::Reduce(op, axes)) => {
            let axes: Vec<usize> = axes.iter().map(|axis| *axis as usize).collect();
            match op {
                ReduceOp::Add if dtype.is_float() => sum(node, &operands[0], &value, nodes)?,
                ReduceOp::Mul if dtype.is_float() => product(node, &operands[0], &value, nodes)?,
                // Off by no more than one of them, and not known if one of them is not.
                _ => combined(&node.src()[0].reduce(ReduceOp::Max, &axes), &operands[0].errors()?, nodes)?,
            }
        }
        (Op::Reduce, Arg::ReduceState(component, axes)) => {
            let axes: Vec<usize> = axes.iter().map(|axis| *axis as usize).collect();
            states::reduce(node, *component, &axes, operands, &value, nodes)?
        }
        (Op::Scan, _) => scan::scan(node, &operands[0], &value, nodes)?,
        (Op::Scatter, _) => scan::scatter(node, operands, nodes)?,
        // Where elements go must be known.
        (Op::Place, _) if operands[0].errors.is_some() => vec![f64::INFINITY; value.len()],
        (Op::Place, _) => {
            let moved = [operands[0].value.clone(), operands[1].errors()?];
            nodes.value(node, &moved).map_err(|error| error.to_string())?.to_f64()
        }
        // Which elements are gathered must be known.
        (Op::Gather, _) if operands[1].errors.is_some() => vec![f64::INFINITY; value.len()],
        (Op::Gather, _) => {
            let moved = [operands[0].errors()?, operands[1].value.clone()];
            nodes.value(node, &moved).map_err(|error| error.to_string())?.to_f64()
        }
        _ if node.op().is_elementwise() => elementwise(node, operands, &value),
        // What moves or copies elements.
        _ => {
            let moved: Vec<Value> = operands.iter().map(Bounded::errors).collect::<Result<_, _>>()?;
            nodes.value(node, &moved).map_err(|error| error.to_string())?.to_f64()
        }
    };
    if errors.len() != value.len() {
        return Err(format!("{} has {} bounds for {} elements", node.op(), errors.len(), value.len()));
    }
    Ok(Bounded::of(value, errors))
}

fn elementwise(node: &UOp, operands: &[Bounded], value: &Value) -> Vec<f64> {
    let from = if node.op() == Op::Where { node.src()[1].dtype() } else { node.src()[0].dtype() };
    let elements: Vec<Vec<f64>> = operands.iter().map(|operand| operand.value.to_f64()).collect();
    let element = |operand: usize, position: usize| {
        // Operands of rank 0 count as broadcast.
        let position = if operands[operand].value.shape().is_empty() { 0 } else { position };
        Element { value: elements[operand][position], error: operands[operand].error(position) }
    };
    let each = value.to_f64().into_iter().enumerate().map(|(position, value)| {
        let of: Vec<Element> = (0..operands.len()).map(|operand| element(operand, position)).collect();
        error_of(node.op(), from, node.dtype(), &of, value)
    });
    each.collect()
}

fn combined(reduce: &UOp, x: &Value, nodes: &mut Nodes<'_>) -> Result<Vec<f64>, String> {
    nodes.value(reduce, std::slice::from_ref(x)).map(|value| value.to_f64()).map_err(|error| error.to_string())
}

/// How often a sum of so many terms rounds on the way of one term to the result, in any order that engines use.
///
/// Every order of `n` terms rounds at most `n` times, products with them. Long sums of `f32` and `f64` go by blocks of at most so many terms to an
/// accumulator, and blocks of those, level by level.
fn roundings(terms: f64, dtype: DType, of_products: bool) -> f64 {
    let most = if of_products { PRODUCTS_MAX } else { TERMS_MAX } as f64;
    let (mut left, mut count) = (terms, JOINS_MAX);
    while left > most {
        (left, count) = ((left / most).ceil(), count + most);
    }
    if dtype.bytes() < 4 { terms } else { terms.min(count + left) }
}

/// Whether what is summed are products, which may be added without being rounded.
fn is_of_products(reduce: &UOp) -> bool {
    let mut node = &reduce.src()[0];
    while node.op().is_movement() || matches!(node.op(), Op::Contiguous | Op::Materialize | Op::Detach | Op::Function) {
        node = &node.src()[0];
    }
    node.op() == Op::Mul
}

fn sum(node: &UOp, x: &Bounded, value: &Value, nodes: &mut Nodes<'_>) -> Result<Vec<f64>, String> {
    let rounding = Rounding::of(node.dtype());
    let terms = if value.is_empty() { 0.0 } else { (x.value.len() / value.len()) as f64 };
    let sizes: Vec<f64> = x.value.to_f64().iter().enumerate().map(|(at, x_at)| x_at.abs() + x.error(at)).collect();
    let sizes = combined(node, &wide(x.value.shape(), &sizes)?, nodes)?;
    let before = combined(node, &x.errors()?, nodes)?;
    let roundings = if terms > 1.0 { roundings(terms, node.dtype(), is_of_products(node)) } else { 0.0 };
    let part = roundings * rounding.unit;
    let each = value.to_f64().into_iter().zip(sizes.into_iter().zip(before)).map(|(sum, (size, before))| {
        // Else partial sums may be infinite in one order and not in another.
        let is_bounded = part < 0.5 && size * (1.0 + 2.0 * part) < rounding.most;
        match () {
            () if terms <= 1.0 => before,
            // An infinity or a NaN among exact terms.
            () if !size.is_finite() && before == 0.0 => 0.0,
            () if !is_bounded => f64::INFINITY,
            () => before + part / (1.0 - part) * size + rounding.unit * sum.abs() + rounding.least,
        }
    });
    Ok(each.collect())
}

fn product(node: &UOp, x: &Bounded, value: &Value, nodes: &mut Nodes<'_>) -> Result<Vec<f64>, String> {
    let rounding = Rounding::of(node.dtype());
    let terms = if value.is_empty() { 0.0 } else { (x.value.len() / value.len()) as f64 };
    let numbers = x.value.to_f64();
    let mut of = |f: &dyn Fn(usize, f64) -> f64| -> Result<Vec<f64>, String> {
        let each: Vec<f64> = numbers.iter().enumerate().map(|(at, x_at)| f(at, x_at.abs())).collect();
        combined(node, &wide(x.value.shape(), &each)?, nodes)
    };
    let (sizes, with_errors) = (of(&|_, x_at| x_at)?, of(&|at, x_at| x_at + x.error(at))?);
    // In some order, a partial product is as large as all large factors, and as small as all small ones.
    let (largest, least) = (of(&|at, x_at| (x_at + x.error(at)).max(1.0))?, of(&|_, x_at| x_at.min(1.0))?);
    let each = value.to_f64().into_iter().enumerate().map(|(at, product)| match () {
        () if terms <= 1.0 => with_errors[at] - sizes[at],
        () if !(largest[at] < rounding.most / 2.0 && least[at] > rounding.least / rounding.unit) => f64::INFINITY,
        () => {
            let before = (with_errors[at] - sizes[at]).max(0.0);
            before + 2.0 * terms * rounding.unit * with_errors[at] + rounding.unit * product.abs()
        }
    });
    Ok(each.collect())
}

/// What one rounding to a type of floats changes at most, relative to the value.
pub fn unit_roundoff(dtype: DType) -> f64 {
    Rounding::of(dtype).unit
}

/// Compares what an engine found with what the interpreter has.
///
/// # Errors
/// If it is of another type or length, or with the first element that is farther off than rounding explains. NaN agrees with NaN, and -0 with 0.
pub fn compare(expected: &Bounded, found: &Value) -> Result<(), String> {
    let Bounded { value, .. } = expected;
    if (value.dtype(), value.len()) != (found.dtype(), found.len()) {
        let text = |value: &Value| format!("{} elements of {}", value.len(), value.dtype());
        return Err(format!("expected {}, found {}", text(value), text(found)));
    }
    for (position, (wanted, got)) in value.scalars().into_iter().zip(found.scalars()).enumerate() {
        let error = expected.error(position);
        if wanted == got || error == f64::INFINITY {
            continue;
        }
        let (wanted, got) = (wanted.to_f64(), got.to_f64());
        let both_nan = wanted.is_nan() && got.is_nan();
        let off = (wanted - got).abs();
        let is_near = value.dtype().is_float() && (wanted == got || both_nan || off <= error);
        if !is_near {
            let element = format!("element {position} of {:?}", value.shape());
            return Err(format!(
                "{element} is {got:?}, not {wanted:?}: off by {off:.2e}, where rounding explains {error:.2e}"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
