//! Dimensions and shapes: a [`Dim`] is an integer or an expression over bounded variables; a [`Shape`] is a shared list of them.
//!
//! Arithmetic folds constants, so code that handles shapes is written once for both. Whether two symbolic dims are equal is
//! asked structurally here; simplifying them first is the business of `symbolic`.

use std::fmt;
use std::ops::{Add, Deref, Div, Mul, Rem, Sub};
use std::sync::Arc;

use super::dim_sum::joined;
use super::facts::{floor_div, floor_mod};
use super::op::Op;
use super::scalar_op::Evaluator;
use super::uop::UOp;
use super::walk::{postorder, postorder_until};
use crate::dtype::Scalar;

/// The length of one axis, a stride or an offset.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Dim {
    /// A number.
    Const(i64),
    /// An expression of dtype `Index` over variables.
    Expr(UOp),
}

impl Dim {
    /// The number, if it is one.
    pub fn as_const(&self) -> Option<i64> {
        match self {
            Dim::Const(value) => Some(*value),
            Dim::Expr(_) => None,
        }
    }

    /// Whether it is that number.
    pub fn is(&self, value: i64) -> bool {
        *self == Dim::Const(value)
    }

    /// The largest value that it can have.
    pub fn max_value(&self) -> i64 {
        match self {
            Dim::Const(value) => *value,
            Dim::Expr(expr) => expr.max_value(),
        }
    }

    /// The least value that it can have.
    pub fn min_value(&self) -> i64 {
        match self {
            Dim::Const(value) => *value,
            Dim::Expr(expr) => expr.min_value(),
        }
    }

    /// As a node of dtype `Index`.
    pub fn to_uop(&self) -> UOp {
        match self {
            Dim::Const(value) => UOp::index(*value),
            Dim::Expr(expr) => expr.clone(),
        }
    }

    /// The quotient rounded to minus infinity; 0 for a divisor of 0.
    pub fn floor_div(&self, other: &Dim) -> Dim {
        match (self, other) {
            (Dim::Const(a), Dim::Const(b)) => Dim::Const(floor_div(*a, *b)),
            (_, Dim::Const(1)) => self.clone(),
            (_, _) => Dim::from(self.to_uop().idiv(&other.to_uop())),
        }
    }

    /// The remainder with the sign of the divisor; 0 for a divisor of 0.
    pub fn floor_mod(&self, other: &Dim) -> Dim {
        match (self, other) {
            (Dim::Const(a), Dim::Const(b)) => Dim::Const(floor_mod(*a, *b)),
            (_, Dim::Const(1)) => Dim::Const(0),
            (_, _) => Dim::from(self.to_uop().modulo(&other.to_uop())),
        }
    }

    /// The variables without a value in it, each once, in the order of the expression.
    pub fn unbound(&self) -> Vec<UOp> {
        match self {
            Dim::Const(_) => Vec::new(),
            Dim::Expr(expr) => {
                let nodes = postorder_until(std::slice::from_ref(expr), |node| node.op() == Op::Bind);
                nodes.into_iter().filter(|node| node.op() == Op::Variable).collect()
            }
        }
    }

    /// The variables in it that have a value, each as its `Bind`.
    pub fn bindings(&self) -> Vec<UOp> {
        match self {
            Dim::Const(_) => Vec::new(),
            Dim::Expr(expr) => {
                postorder(std::slice::from_ref(expr)).into_iter().filter(|node| node.op() == Op::Bind).collect()
            }
        }
    }

    /// The number that it is, each variable having the value that is bound to it.
    ///
    /// # Errors
    /// The name of a variable without a value.
    pub fn value(&self) -> Result<i64, String> {
        let expr = match self {
            Dim::Const(value) => return Ok(*value),
            Dim::Expr(expr) => expr,
        };
        if let Some(variable) = self.unbound().first() {
            return Err(variable.infix());
        }
        let mut evaluator = Evaluator::new(std::slice::from_ref(expr));
        // The leaves are the variables below their bindings, which have the values.
        let leaves = vec![Scalar::Int(0); evaluator.leaves().len()];
        Ok(evaluator.evaluate(&leaves).map_or(0, |values| values[0].to_i64()))
    }

    /// The number that it is if its variables have values, else the largest that it can be.
    pub fn value_or_most(&self) -> i64 {
        self.value().unwrap_or_else(|_| self.max_value())
    }
}

impl From<&Dim> for Dim {
    fn from(dim: &Dim) -> Dim {
        dim.clone()
    }
}

impl From<i64> for Dim {
    fn from(value: i64) -> Dim {
        Dim::Const(value)
    }
}

impl From<usize> for Dim {
    fn from(value: usize) -> Dim {
        Dim::Const(i64::try_from(value).unwrap_or(i64::MAX)) // more than there can be, and not less than none
    }
}

impl From<i32> for Dim {
    fn from(value: i32) -> Dim {
        Dim::Const(value as i64)
    }
}

impl From<&UOp> for Dim {
    fn from(expr: &UOp) -> Dim {
        Dim::from(expr.clone())
    }
}

impl From<UOp> for Dim {
    fn from(expr: UOp) -> Dim {
        match expr.as_int() {
            Some(value) => Dim::Const(value),
            None => Dim::Expr(expr),
        }
    }
}

fn sum(a: &Dim, b: &Dim) -> Dim {
    match (a, b) {
        (Dim::Const(a), Dim::Const(b)) => Dim::Const(a.saturating_add(*b)),
        (Dim::Const(0), dim) | (dim, Dim::Const(0)) => dim.clone(),
        (_, _) => joined(a, b, 1).unwrap_or_else(|| Dim::from(a.to_uop() + b.to_uop())),
    }
}

fn difference(a: &Dim, b: &Dim) -> Dim {
    match (a, b) {
        (Dim::Const(a), Dim::Const(b)) => Dim::Const(a.saturating_sub(*b)),
        (dim, Dim::Const(0)) => dim.clone(),
        (_, _) if a == b => Dim::Const(0),
        (_, _) => joined(a, b, -1).unwrap_or_else(|| Dim::from(a.to_uop() - b.to_uop())),
    }
}

fn product(a: &Dim, b: &Dim) -> Dim {
    match (a, b) {
        (Dim::Const(a), Dim::Const(b)) => Dim::Const(a.saturating_mul(*b)),
        (Dim::Const(1), dim) | (dim, Dim::Const(1)) => dim.clone(),
        (Dim::Const(0), _) | (_, Dim::Const(0)) => Dim::Const(0),
        (_, _) => Dim::from(a.to_uop() * b.to_uop()),
    }
}

macro_rules! operators {
    ($($trait:ident $method:ident $function:expr;)*) => { $(
        impl<D: Into<Dim>> $trait<D> for &Dim {
            type Output = Dim;
            fn $method(self, other: D) -> Dim {
                $function(self, &other.into())
            }
        }

        impl<D: Into<Dim>> $trait<D> for Dim {
            type Output = Dim;
            fn $method(self, other: D) -> Dim {
                $function(&self, &other.into())
            }
        }
    )* };
}

operators! {
    Add add sum;
    Sub sub difference;
    Mul mul product;
    Div div Dim::floor_div;
    Rem rem Dim::floor_mod;
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Dim::Const(value) => write!(f, "{value}"),
            Dim::Expr(expr) => write!(f, "{}", expr.infix()),
        }
    }
}

impl fmt::Debug for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// The lengths of all axes, outermost first. Cloning shares.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Shape(Option<Arc<[Dim]>>);

impl Shape {
    /// The shape of a single value: no axes.
    pub fn scalar() -> Shape {
        Shape(None)
    }

    /// The number of elements, as a dimension.
    pub fn numel(&self) -> Dim {
        self.iter().fold(Dim::Const(1), |total, dim| &total * dim)
    }

    /// The lengths as numbers, if none is symbolic.
    pub fn as_const(&self) -> Option<Vec<i64>> {
        self.iter().map(Dim::as_const).collect()
    }

    /// Whether no axis is symbolic.
    pub fn is_concrete(&self) -> bool {
        self.iter().all(|dim| dim.as_const().is_some())
    }

    /// The shape with each symbolic axis at its largest.
    pub fn max_shape(&self) -> Vec<i64> {
        self.iter().map(Dim::max_value).collect()
    }

    /// Elements between neighbours along each axis when stored row-major.
    pub fn row_major_strides(&self) -> Vec<Dim> {
        let mut strides = vec![Dim::Const(1); self.len()];
        for axis in (0..self.len().saturating_sub(1)).rev() {
            strides[axis] = &strides[axis + 1] * &self[axis + 1];
        }
        strides
    }
}

impl Deref for Shape {
    type Target = [Dim];
    fn deref(&self) -> &[Dim] {
        self.0.as_deref().unwrap_or(&[])
    }
}

impl<D: Into<Dim>> FromIterator<D> for Shape {
    fn from_iter<I: IntoIterator<Item = D>>(dims: I) -> Shape {
        // One allocation where the count of lengths is known, as for arrays, lists and slices.
        let dims: Arc<[Dim]> = dims.into_iter().map(Into::into).collect();
        Shape(if dims.is_empty() { None } else { Some(dims) })
    }
}

impl<D: Into<Dim>> From<Vec<D>> for Shape {
    fn from(dims: Vec<D>) -> Shape {
        dims.into_iter().collect()
    }
}

impl<D: Into<Dim> + Clone> From<&[D]> for Shape {
    fn from(dims: &[D]) -> Shape {
        dims.iter().cloned().collect()
    }
}

impl<D: Into<Dim> + Clone> From<&Vec<D>> for Shape {
    fn from(dims: &Vec<D>) -> Shape {
        dims.iter().cloned().collect()
    }
}

impl<D: Into<Dim> + Clone, const N: usize> From<&[D; N]> for Shape {
    fn from(dims: &[D; N]) -> Shape {
        Shape::from(dims.clone())
    }
}

impl<D: Into<Dim>, const N: usize> From<[D; N]> for Shape {
    fn from(dims: [D; N]) -> Shape {
        Shape(if N == 0 { None } else { Some(Arc::new(dims.map(Into::into))) })
    }
}

macro_rules! tuples {
    ($(($($name:ident)*))*) => { $(
        impl<$($name: Into<Dim>),*> From<($($name,)*)> for Shape {
            fn from(dims: ($($name,)*)) -> Shape {
                #[allow(non_snake_case, reason = "each length is named as its type")]
                let ($($name,)*) = dims;
                Shape::from([$($name.into()),*] as [Dim; _])
            }
        }
    )* };
}

// A list of one type cannot hold numbers beside expressions; a tuple can.
tuples! { (A) (A B) (A B C) (A B C D) (A B C D E) (A B C D E F) (A B C D E F G) (A B C D E F G H) }

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dims: Vec<String> = self.iter().map(Dim::to_string).collect();
        write!(f, "[{}]", dims.join(", "))
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
