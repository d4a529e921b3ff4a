//! Graphs of tensors, and kernel ASTs, which are sinks of stores of tensors.

use rustc_hash::FxHashMap;

use super::VerifyError;
use super::arguments::check_node;
use crate::DType;
use crate::ir::{Arg, Class, Dim, Op, ParamArg, UOp, VariableArg, is_defined, postorder};

/// Checks a graph of tensors.
///
/// Ops are leaves, elementwise, movement and tensor ops, in one lane; dims are whole expressions over variables; a slot is one
/// param and a name one variable; a sink is a root, and what it sinks are values or stores to views of params.
///
/// # Errors
/// The first node, operands first, that breaks a rule.
pub fn check(roots: &[UOp]) -> Result<(), VerifyError> {
    let mut leaves = Leaves::default();
    let mut stores: Vec<UOp> = Vec::new();
    for root in roots.iter().filter(|root| root.op() == Op::Sink) {
        stores.extend(root.src().iter().filter(|node| node.op() == Op::Store).cloned());
    }
    for node in postorder(roots) {
        check_node(&node)?;
        check_dims(&node, &mut leaves)?;
        leaves.check(&node)?;
        let fail = |message: String| Err(VerifyError::new(&node, message));
        match node.op().class() {
            Class::Leaf | Class::Unary | Class::Binary | Class::Commutative | Class::Ternary => {}
            Class::Movement => check_movement(&node)?,
            Class::Tensor => check_tensor_op(&node)?,
            Class::Memory | Class::Loop | Class::Vector => match node.op() {
                Op::Sink if roots.contains(&node) => continue,
                Op::Store if stores.contains(&node) => {
                    check_store(&node)?;
                    continue;
                }
                op => return fail(format!("{op} does not belong to graphs of tensors")),
            },
        }
        if node.dtype().lanes() != 1 {
            return fail(format!("is of type {}, but tensors have one lane", node.dtype()));
        }
        if node.dtype() == DType::VOID {
            return fail("has no value".to_string());
        }
    }
    Ok(())
}

/// Slots and names, each of which stands for one leaf.
#[derive(Default)]
struct Leaves {
    params: FxHashMap<u32, (ParamArg, DType)>,
    variables: FxHashMap<String, VariableArg>,
}

impl Leaves {
    fn check(&mut self, node: &UOp) -> Result<(), VerifyError> {
        match node.arg() {
            Arg::Param(param) => {
                let known = *self.params.entry(param.slot).or_insert((*param, node.dtype()));
                if known != (*param, node.dtype()) {
                    let (other, dtype) = known;
                    let message = format!(
                        "slot {} is {} elements of {} here and {} of {dtype} elsewhere",
                        param.slot,
                        param.len,
                        node.dtype(),
                        other.len
                    );
                    return Err(VerifyError::new(node, message));
                }
            }
            Arg::Variable(variable) => {
                let known = self.variables.entry(variable.name.clone()).or_insert_with(|| (**variable).clone());
                if *known != **variable {
                    let message = format!(
                        "{} is {}..{} here and {}..{} elsewhere",
                        variable.name, variable.min, variable.max, known.min, known.max
                    );
                    return Err(VerifyError::new(node, message));
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// Symbolic dims are single indices, computed from variables and constants alone.
fn check_dims(node: &UOp, leaves: &mut Leaves) -> Result<(), VerifyError> {
    let mut exprs: Vec<UOp> = Vec::new();
    node.arg().for_each_dim(&mut |dim| {
        if let Dim::Expr(expr) = dim {
            exprs.push(expr.clone());
        }
    });
    for inner in postorder(&exprs) {
        let fail = |message: String| Err(VerifyError::new(node, message));
        let is_leaf = matches!(inner.op(), Op::Const | Op::Variable | Op::Bind);
        if !is_leaf && !inner.op().is_elementwise() {
            return fail(format!("a dimension is made of {}, but dimensions are made of variables", inner.op()));
        }
        if exprs.contains(&inner) && inner.dtype() != DType::INDEX {
            return fail(format!("a dimension is of type {}, not index", inner.dtype()));
        }
        check_node(&inner)?;
        leaves.check(&inner)?;
    }
    Ok(())
}

fn check_movement(node: &UOp) -> Result<(), VerifyError> {
    if node.dtype() != node.src()[0].dtype() {
        let message = format!("gives {}, not the {} that it moves", node.dtype(), node.src()[0].dtype());
        return Err(VerifyError::new(node, message));
    }
    match node.arg() {
        Arg::Bounds(bounds) if node.op() == Op::Pad => {
            match bounds.iter().find(|(before, after)| before.max_value() < 0 || after.max_value() < 0) {
                Some((before, after)) => Err(VerifyError::new(node, format!("{before}:{after} is less than nothing"))),
                None => Ok(()),
            }
        }
        Arg::Strided(strided) if strided.shape.len() != strided.strides.len() => {
            Err(VerifyError::new(node, format!("{} strides for {}", strided.strides.len(), strided.shape)))
        }
        _ => Ok(()),
    }
}

fn check_tensor_op(node: &UOp) -> Result<(), VerifyError> {
    let operand = node.src()[0].dtype();
    if let Arg::Scan(op, _) | Arg::Scatter(Some(op), _) = node.arg()
        && !is_defined(op.op(), operand)
    {
        return Err(VerifyError::new(node, format!("{} is not defined on {operand}", op.name())));
    }
    if matches!(node.arg(), Arg::ScanState(..)) && !operand.is_float() {
        return Err(VerifyError::new(node, format!("is of floats, not of {operand}")));
    }
    if node.op() == Op::Fetch && !operand.is_integer() {
        return Err(VerifyError::new(node, format!("is of integers, not of {operand}")));
    }
    if node.op() == Op::Place {
        return match node.dtype() == node.src()[1].dtype() {
            true => Ok(()),
            false => Err(VerifyError::new(node, format!("gives {} of {}", node.dtype(), node.src()[1].dtype()))),
        };
    }
    // What a reduction of states gives was checked with its state.
    if node.dtype() != operand && !matches!(node.arg(), Arg::ReduceState(..)) {
        return Err(VerifyError::new(node, format!("gives {}, but its operand is {operand}", node.dtype())));
    }
    match node.arg() {
        Arg::Reduce(op, _) if !is_defined(op.op(), operand) => {
            Err(VerifyError::new(node, format!("{} is not defined on {operand}", op.name())))
        }
        _ => Ok(()),
    }
}

fn check_store(node: &UOp) -> Result<(), VerifyError> {
    let (target, value) = (&node.src()[0], &node.src()[1]);
    let mut base = target;
    while base.op().is_movement() && base.op() != Op::Pad {
        base = &base.src()[0];
    }
    if base.op() != Op::Param {
        return Err(VerifyError::new(node, format!("stores to {}, not to a view of a param", base.op())));
    }
    if target.dtype() != value.dtype() {
        return Err(VerifyError::new(node, format!("stores {} to {}", value.dtype(), target.dtype())));
    }
    if let (Arg::Scatter(..), [target, value, index]) = (node.arg(), node.src()) {
        let src = vec![target.clone(), index.clone(), value.clone()];
        return match UOp::try_new(Op::Scatter, value.dtype(), src, node.arg().clone()) {
            Ok(_) => Ok(()),
            Err(error) => Err(VerifyError::new(node, error.message)),
        };
    }
    if node.src().len() > 2 || *node.arg() != Arg::None {
        return Err(VerifyError::new(node, "stores one value, or with an index scatters it"));
    }
    match (target.shape().numel().as_const(), value.shape().numel().as_const()) {
        (Some(room), Some(len)) if room != len => {
            Err(VerifyError::new(node, format!("stores {} to {}", value.shape(), target.shape())))
        }
        _ => Ok(()),
    }
}
