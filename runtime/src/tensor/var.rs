//! Lengths that are not known when a program is written: [`Var`], a named integer with bounds.
//!
//! A `Var` stands wherever a length can: `Tensor::zeros((&n, 768))`, `x.narrow(0, 0, &n + 1)`; arithmetic on it gives a [`Dim`].
//! [`Var::bind`] gives it a value for one use; values are arguments of kernels, so all values share one compiled program. What
//! is refused or allowed depends on the bounds alone, never on the value: a program that was built runs for every value.
//!
//! Not here: how expressions are simplified and compared (the compiler's `symbolic`). Tests: tests/it/symbolic.rs.

use std::fmt;
use std::ops::{Add, Div, Mul, RangeInclusive, Rem, Sub};
use std::panic::Location;

use rustc_hash::FxHashMap;
use warpweft_compiler::UOp;
use warpweft_compiler::ir::{Arg, Dim, Op, postorder_until, substitute};
use warpweft_compiler::schedule::ANONYMOUS;

use super::{Length, Result, Tensor, outermost};

/// A named integer of which only the bounds are known.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Var(UOp);

/// Why a variable cannot be made or have a value, and where in the program that was asked for.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind} (at {}:{})", location.file(), location.line())]
#[non_exhaustive]
pub struct VarError {
    /// Why.
    pub kind: VarErrorKind,
    /// The call.
    pub location: &'static Location<'static>,
}

impl fmt::Debug for VarError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Why a variable cannot be made or have a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VarErrorKind {
    /// A name that text forms could not hold.
    #[error("{name:?} is no name of a variable: use letters, digits and _, a letter first")]
    Name {
        /// The name.
        name: String,
    },
    /// Bounds without a value, or with a negative one.
    #[error("the variable {name} cannot lie from {min} to {max}: lengths are 0 or more, and the least comes first")]
    Bounds {
        /// The variable.
        name: String,
        /// Least value.
        min: i64,
        /// Largest value.
        max: i64,
    },
    /// A value outside of the bounds.
    #[error("the variable {name} is bound to {value}, but it lies from {min} to {max}")]
    Value {
        /// The variable.
        name: String,
        /// The value.
        value: i64,
        /// Least value.
        min: i64,
        /// Largest value.
        max: i64,
    },
    /// Two values for one variable.
    #[error("the variable {name} is bound to {first} and to {second}; bind it once")]
    Conflict {
        /// The variable.
        name: String,
        /// One value.
        first: i64,
        /// The other.
        second: i64,
    },
}

impl Var {
    /// A variable of that name, from the least to the largest value. The same name and bounds are the same variable.
    ///
    /// # Errors
    /// If the name is no identifier, or the bounds are empty or negative.
    #[track_caller]
    pub fn new(name: &str, bounds: RangeInclusive<impl Length>) -> std::result::Result<Var, VarError> {
        let location = outermost(Location::caller());
        let refused = |kind| Err(VarError { kind, location });
        let (min, max) = (bounds.start().length(), bounds.end().length());
        let mut letters = name.chars();
        let begins = letters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_');
        if !begins
            || name.starts_with(ANONYMOUS)
            || !letters.all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
        {
            return refused(VarErrorKind::Name { name: name.to_string() });
        }
        if min < 0 || min > max {
            return refused(VarErrorKind::Bounds { name: name.to_string(), min, max });
        }
        Ok(Var(UOp::variable(name, min, max)))
    }

    /// The variable with a value, as a length.
    ///
    /// # Errors
    /// If the value is outside of the bounds.
    #[track_caller]
    pub fn bind(&self, value: impl Length) -> std::result::Result<Dim, VarError> {
        let location = outermost(Location::caller());
        self.bound(value.length()).map_err(|kind| VarError { kind, location })
    }

    fn bound(&self, value: i64) -> std::result::Result<Dim, VarErrorKind> {
        let (min, max) = (*self.bounds().start(), *self.bounds().end());
        if !(min..=max).contains(&value) {
            return Err(VarErrorKind::Value { name: self.name().to_string(), value, min, max });
        }
        // With one value there is nothing to leave open, and the length is that number everywhere.
        Ok(if min == max { Dim::from(value) } else { Dim::from(self.0.bind(value)) })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        match self.0.arg() {
            Arg::Variable(variable) => &variable.name,
            _ => "",
        }
    }

    /// Its least and largest value.
    pub fn bounds(&self) -> RangeInclusive<i64> {
        match self.0.arg() {
            Arg::Variable(variable) => variable.min..=variable.max,
            _ => 0..=0,
        }
    }
}

impl fmt::Display for Var {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for Var {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {:?}", self.name(), self.bounds())
    }
}

impl From<&Var> for Dim {
    fn from(variable: &Var) -> Dim {
        let bounds = variable.bounds();
        if bounds.start() == bounds.end() { Dim::from(*bounds.start()) } else { Dim::from(&variable.0) }
    }
}

impl From<Var> for Dim {
    fn from(variable: Var) -> Dim {
        Dim::from(&variable)
    }
}

macro_rules! operators {
    ($($trait:ident $method:ident)*) => { $(
        impl<D: Into<Dim>> $trait<D> for &Var {
            type Output = Dim;
            fn $method(self, other: D) -> Dim {
                Dim::from(self).$method(other)
            }
        }

        impl<D: Into<Dim>> $trait<D> for Var {
            type Output = Dim;
            fn $method(self, other: D) -> Dim {
                Dim::from(self).$method(other)
            }
        }
    )* };
}

operators! { Add add Sub sub Mul mul Div div Rem rem }

/// Variables in the shapes of a tensor and of what it is computed from.
impl Tensor {
    /// A length as a tensor of one `i64` without axes.
    pub fn from_dim(dim: impl Into<Dim>) -> Tensor {
        Tensor::from_uop(dim.into().to_uop().cast(warpweft_compiler::DType::I64))
    }

    /// 0, 1, 2, ... of `i32`, as many as the length says.
    #[track_caller]
    pub fn iota(len: impl Into<Dim>) -> Tensor {
        let dim = len.into();
        Tensor::made("iota", warpweft_compiler::ops::create::iota(&dim))
    }

    /// The variables that have no value yet, by name.
    ///
    /// # Errors
    /// If the tensor carries one.
    pub fn vars(&self) -> Result<Vec<Var>> {
        let mut found = unbound(&self.uop()?);
        found.sort_by(|a, b| a.name().cmp(b.name()));
        Ok(found)
    }

    /// The tensor with values for its variables; those that do not occur are ignored.
    ///
    /// It is computed anew from the same memory: a tensor of its own, not a view.
    #[track_caller]
    pub fn bind(&self, values: &[(&Var, impl Length)]) -> Tensor {
        let location = Location::caller();
        let value = match self.uop() {
            Ok(value) => value,
            Err(error) => return Tensor::from_error(error),
        };
        let refused =
            |why: VarErrorKind| Tensor::from_error(super::CallError::new("bind", &[&value], why.to_string(), location));
        let mut map: FxHashMap<UOp, UOp> = FxHashMap::default();
        for (variable, number) in values {
            let number = number.length();
            let bound = match variable.bound(number) {
                Ok(bound) => bound.to_uop(),
                Err(error) => return refused(error),
            };
            if let Some(other) = map.insert(variable.0.clone(), bound.clone())
                && other != bound
            {
                let first = other.src()[1].as_int().unwrap_or_default();
                return refused(VarErrorKind::Conflict { name: variable.name().to_string(), first, second: number });
            }
        }
        Tensor::from_uop(with_values(&value, map))
    }
}

/// The graph with variables replaced; those that have a value keep it.
fn with_values(value: &UOp, mut map: FxHashMap<UOp, UOp>) -> UOp {
    if !unbound(value).iter().any(|variable| map.contains_key(&variable.0)) {
        return value.clone();
    }
    for node in all_nodes(value) {
        if node.op() == Op::Bind {
            map.insert(node.clone(), node);
        }
    }
    substitute(value, &map)
}

/// The nodes of a graph and of the dims in it, without what is below a bound variable.
fn all_nodes(value: &UOp) -> Vec<UOp> {
    let bound = |node: &UOp| node.op() == Op::Bind;
    let mut nodes = postorder_until(std::slice::from_ref(value), bound);
    let mut exprs: Vec<UOp> = Vec::new();
    for node in &nodes {
        node.arg().for_each_dim(&mut |dim| {
            if dim.as_const().is_none() {
                exprs.push(dim.to_uop());
            }
        });
    }
    nodes.extend(postorder_until(&exprs, bound));
    nodes
}

fn unbound(value: &UOp) -> Vec<Var> {
    let mut found: Vec<Var> = Vec::new();
    for node in all_nodes(value) {
        if node.op() == Op::Variable && !found.iter().any(|known| known.0 == node) {
            found.push(Var(node));
        }
    }
    found
}
