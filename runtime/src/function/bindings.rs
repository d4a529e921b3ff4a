//! Variables of a function: each has its value from the shapes of arguments, from the caller, or for good from the closure.

use std::panic::Location;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use warpweft_compiler::UOp;
use warpweft_compiler::ir::{Arg, Dim, Op, Shape, substitute};
use warpweft_compiler::schedule::ANONYMOUS;
use warpweft_compiler::symbolic::simplify;

use super::Spec;
use super::arguments::Given;
use super::trace::unbound;
use crate::tensor::{CallError, Error, Result, Var, draw_variable};

/// Where the values of a program's variables come from.
#[derive(Debug, Default)]
pub(super) struct Bindings {
    /// Variables of the specs.
    pub(super) variables: Vec<UOp>,
    /// The value of each variable of the kernels: that of a variable of the specs, or one bound in the closure.
    pub(super) by_number: Vec<Bound>,
}

/// The value of one variable.
#[derive(Clone, Copy, Debug)]
pub(super) enum Bound {
    /// That of the variable of the specs of this number.
    Spec(usize),
    /// Always this.
    Always(i64),
    /// Of the draw of that number, that word.
    Draw(usize, usize),
}

/// What stands for the words of draws.
#[derive(Debug, Default)]
pub(super) struct Draws {
    /// For each variable of the trace, one whose name does not depend on which trace it was: so that equal closures are one program.
    pub(super) numbered: FxHashMap<UOp, UOp>,
    names: FxHashMap<String, (usize, usize)>,
}

impl Draws {
    pub(super) fn of(draws: &[[UOp; 3]]) -> Draws {
        let mut of_trace = Draws::default();
        for (number, words) in draws.iter().enumerate() {
            for (position, word) in words.iter().enumerate() {
                let name = format!("{ANONYMOUS}_{number}_{position}");
                of_trace.numbered.insert(word.clone(), draw_variable(&name));
                of_trace.names.insert(name, (number, position));
            }
        }
        of_trace
    }
}

/// The values of a call's variables.
#[derive(Debug, Default)]
pub(super) struct Values {
    /// In the order of the kernels' variables.
    pub(super) by_number: SmallVec<[i64; 4]>,
    /// Each variable's value as a constant.
    pub(super) by_node: FxHashMap<UOp, UOp>,
}

impl Bindings {
    /// Where the kernels find the variables that they name.
    pub(super) fn new(
        declared: &[UOp],
        specs: &[Spec],
        draws: &Draws,
        names: &[String],
        bound: &[(String, i64)],
        location: &'static Location<'static>,
    ) -> Result<Bindings> {
        let mut variables: Vec<UOp> = Vec::new();
        let of_specs = specs.iter().flat_map(|spec| unbound(&spec.shape));
        for variable in declared.iter().cloned().chain(of_specs) {
            if !variables.contains(&variable) {
                variables.push(variable);
            }
        }
        let find = |name: &String| {
            let is_it = |variable: &UOp| matches!(variable.arg(), Arg::Variable(arg) if arg.name == *name);
            let of_spec = variables.iter().position(is_it).map(Bound::Spec);
            let always = || bound.iter().find(|(bound, _)| bound == name).map(|(_, value)| Bound::Always(*value));
            let drawn = || draws.names.get(name).map(|&(number, position)| Bound::Draw(number, position));
            of_spec.or_else(always).or_else(drawn).ok_or_else(|| {
                let message = format!(
                    "nothing tells the value of {name}: give a spec a length of {name}, name it in `compile_with`, or bind it to a number"
                );
                Error::from(CallError::new("compile", &[], message, location))
            })
        };
        let by_number = names.iter().map(find).collect::<Result<_>>()?;
        Ok(Bindings { variables, by_number })
    }

    /// The values that the shapes of arguments give.
    pub(super) fn values(
        &self,
        named: &[(&Var, i64)],
        specs: &[Spec],
        given: &[Given],
        draws: &[[u32; 3]],
        location: &'static Location<'static>,
    ) -> Result<Values> {
        if self.variables.is_empty() && self.by_number.is_empty() && named.is_empty() {
            return Ok(Values::default());
        }
        let shapes: Vec<Shape> = given.iter().map(|given| given.shape.clone()).collect();
        let by_node = self.bind(named, specs, &shapes, location)?;
        let value = |bound: &Bound| match bound {
            Bound::Spec(number) => by_node.get(&self.variables[*number]).and_then(UOp::as_int).unwrap_or(0),
            Bound::Always(value) => *value,
            Bound::Draw(number, position) => i64::from(draws[*number][*position]),
        };
        Ok(Values { by_number: self.by_number.iter().map(value).collect(), by_node })
    }

    /// Each variable's value, as the caller and the shapes of arguments give it.
    ///
    /// # Errors
    /// When a variable would have two values or one out of its bounds, or a length is not what its spec makes of the others.
    pub(super) fn bind(
        &self,
        named: &[(&Var, i64)],
        specs: &[Spec],
        shapes: &[Shape],
        location: &'static Location<'static>,
    ) -> Result<FxHashMap<UOp, UOp>> {
        let error = |message: String| -> Error { CallError::new("call", &[], message, location).into() };
        let mut bound = self.named(named, location)?;
        let axes = || {
            let axis = |(number, (spec, shape))| {
                let (spec, shape): (&Spec, &Shape) = (spec, shape);
                let pairs: Vec<(Dim, Dim)> = spec.shape.iter().cloned().zip(shape.iter().cloned()).collect();
                pairs.into_iter().enumerate().map(move |(axis, (wanted, len))| (number, axis, wanted, len))
            };
            specs.iter().zip(shapes).enumerate().flat_map(axis)
        };
        for (number, axis, wanted, len) in axes() {
            let Dim::Expr(variable) = &wanted else { continue };
            let Arg::Variable(arg) = variable.arg() else { continue };
            let name = &arg.name;
            let Some(value) = len.as_const() else {
                return Err(error(format!(
                    "argument {number}, axis {axis}: its length {len} is no number: bind it first"
                )));
            };
            if value < arg.min || value > arg.max {
                let (min, max) = (arg.min, arg.max);
                return Err(error(format!(
                    "argument {number}, axis {axis}: {name} is {value}, outside of {min}..={max}"
                )));
            }
            let value = UOp::index(value);
            match bound.get(variable) {
                Some(other) if *other != value => {
                    let (a, b) = (other.as_int().unwrap_or(0), value.as_int().unwrap_or(0));
                    return Err(error(format!(
                        "argument {number}, axis {axis}: {name} is {b} here, and {a} before: they must agree"
                    )));
                }
                _ => bound.insert(variable.clone(), value),
            };
        }
        for (number, axis, wanted, len) in axes() {
            if let Dim::Expr(expr) = &wanted
                && expr.op() != Op::Variable
            {
                let value = simplify(&substitute(expr, &bound));
                if value.as_int() != len.as_const() {
                    let known = value.as_int().map_or("not known".to_string(), |value| value.to_string());
                    return Err(error(format!(
                        "argument {number}, axis {axis}: {wanted} is {known}, and its length is {len}"
                    )));
                }
            }
        }
        match self.variables.iter().find(|variable| !bound.contains_key(*variable)) {
            Some(variable) => {
                let name = variable.infix();
                Err(error(format!("{name} has no value: call the function by `call_with(&[(&{name}, ..)], ..)`")))
            }
            None => Ok(bound),
        }
    }

    /// The values that the caller gives.
    fn named(&self, named: &[(&Var, i64)], location: &'static Location<'static>) -> Result<FxHashMap<UOp, UOp>> {
        let error = |message: String| -> Error { CallError::new("call", &[], message, location).into() };
        let mut bound: FxHashMap<UOp, UOp> = FxHashMap::default();
        for (variable, value) in named {
            let node = Dim::from(*variable).to_uop();
            // A variable of one value is a number wherever it was used.
            if node.op() == Op::Variable && !self.variables.contains(&node) {
                return Err(error(format!("the function has no variable {variable:?}")));
            }
            if !variable.bounds().contains(value) {
                let (min, max) = variable.bounds().into_inner();
                return Err(error(format!("{variable} is {value}, outside of {min}..={max}")));
            }
            bound.insert(node, UOp::index(*value));
        }
        Ok(bound)
    }
}
