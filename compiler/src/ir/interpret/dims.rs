//! Symbolic dims as numbers: an expression is computed once, from the variables that the program binds or the caller gives.

use rustc_hash::FxHashMap;

use super::{InterpretError, Value};
use crate::dtype::Scalar;
use crate::ir::scalar_op::Evaluator;
use crate::ir::{Arg, Dim, Op, Shape, UOp};

/// Values of variables and of the dims made of them.
pub(super) struct Dims<'l> {
    leaves: &'l dyn Fn(&UOp) -> Option<Value>,
    variables: FxHashMap<UOp, i64>,
    known: FxHashMap<UOp, i64>,
}

impl<'l> Dims<'l> {
    pub(super) fn new(leaves: &'l dyn Fn(&UOp) -> Option<Value>) -> Dims<'l> {
        Dims { leaves, variables: FxHashMap::default(), known: FxHashMap::default() }
    }

    /// Notes what a `bind` says.
    pub(super) fn bind(&mut self, variable: &UOp, value: i64) -> Result<(), InterpretError> {
        check_bounds(variable, value)?;
        match self.variables.insert(variable.clone(), value) {
            Some(before) if before != value => Err(InterpretError {
                op: Op::Bind,
                message: format!("variable {} is bound to {before} and to {value}", variable.infix()),
            }),
            _ => Ok(()),
        }
    }

    /// What the caller gives for a node.
    pub(super) fn leaf(&self, node: &UOp) -> Option<Value> {
        (self.leaves)(node)
    }

    /// The value of a variable.
    pub(super) fn variable(&self, variable: &UOp) -> Result<i64, InterpretError> {
        let missing =
            || InterpretError { op: Op::Variable, message: format!("no value was given for {}", variable.infix()) };
        match self.variables.get(variable) {
            Some(value) => Ok(*value),
            None => {
                let given = (self.leaves)(variable).filter(|value| value.len() == 1).ok_or_else(missing)?;
                let value = given.get(0).to_i64();
                check_bounds(variable, value)?;
                Ok(value)
            }
        }
    }

    /// The dim as a number.
    pub(super) fn value(&mut self, op: Op, dim: &Dim) -> Result<i64, InterpretError> {
        let expr = match dim {
            Dim::Const(value) => return Ok(*value),
            Dim::Expr(expr) => expr,
        };
        if let Some(value) = self.known.get(expr) {
            return Ok(*value);
        }
        let mut evaluator = Evaluator::new(std::slice::from_ref(expr));
        let leaves = evaluator.leaves().iter().map(|leaf| self.variable(leaf).map(Scalar::Int));
        let leaves: Vec<Scalar> = leaves.collect::<Result<_, _>>()?;
        let value = evaluator
            .evaluate(&leaves)
            .ok_or_else(|| InterpretError { op, message: format!("the dimension {dim} cannot be computed") })?;
        let value = value[0].to_i64();
        self.known.insert(expr.clone(), value);
        Ok(value)
    }

    /// Each dim as a number.
    pub(super) fn shape(&mut self, op: Op, shape: &Shape) -> Result<Vec<i64>, InterpretError> {
        shape.iter().map(|dim| self.value(op, dim)).collect()
    }
}

fn check_bounds(variable: &UOp, value: i64) -> Result<(), InterpretError> {
    match variable.arg() {
        Arg::Variable(bounds) if value < bounds.min || value > bounds.max => Err(InterpretError {
            op: Op::Variable,
            message: format!("{} is {value}, not within {}..{}", bounds.name, bounds.min, bounds.max),
        }),
        _ => Ok(()),
    }
}
