//! Dimensions and shapes: a [`Dim`] is an integer or an expression over bounded variables; a [`Shape`] is a shared list of them.
//!
//! Arithmetic folds constants, so code that handles shapes is written once for both. Whether two symbolic dims are equal is
//! asked structurally here; simplifying them first is the business of `symbolic`.

use std::fmt;
use std::ops::{Add, Deref, Mul, Sub};
use std::sync::Arc;

use super::facts::floor_div;
use super::uop::UOp;

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

    /// The quotient rounded to minus infinity.
    pub fn floor_div(&self, other: &Dim) -> Dim {
        match (self, other) {
            (Dim::Const(a), Dim::Const(b)) if *b != 0 => Dim::Const(floor_div(*a, *b)),
            (_, Dim::Const(1)) => self.clone(),
            (_, _) => Dim::from(self.to_uop().idiv(&other.to_uop())),
        }
    }
}

impl From<i64> for Dim {
    fn from(value: i64) -> Dim {
        Dim::Const(value)
    }
}

impl From<usize> for Dim {
    fn from(value: usize) -> Dim {
        Dim::Const(value as i64)
    }
}

impl From<i32> for Dim {
    fn from(value: i32) -> Dim {
        Dim::Const(value as i64)
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

impl Add<&Dim> for &Dim {
    type Output = Dim;
    fn add(self, other: &Dim) -> Dim {
        match (self, other) {
            (Dim::Const(a), Dim::Const(b)) => Dim::Const(a.saturating_add(*b)),
            (Dim::Const(0), dim) | (dim, Dim::Const(0)) => dim.clone(),
            (_, _) => Dim::from(self.to_uop() + other.to_uop()),
        }
    }
}

impl Sub<&Dim> for &Dim {
    type Output = Dim;
    fn sub(self, other: &Dim) -> Dim {
        match (self, other) {
            (Dim::Const(a), Dim::Const(b)) => Dim::Const(a.saturating_sub(*b)),
            (dim, Dim::Const(0)) => dim.clone(),
            (_, _) if self == other => Dim::Const(0),
            (_, _) => Dim::from(self.to_uop() - other.to_uop()),
        }
    }
}

impl Mul<&Dim> for &Dim {
    type Output = Dim;
    fn mul(self, other: &Dim) -> Dim {
        match (self, other) {
            (Dim::Const(a), Dim::Const(b)) => Dim::Const(a.saturating_mul(*b)),
            (Dim::Const(1), dim) | (dim, Dim::Const(1)) => dim.clone(),
            (Dim::Const(0), _) | (_, Dim::Const(0)) => Dim::Const(0),
            (_, _) => Dim::from(self.to_uop() * other.to_uop()),
        }
    }
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
        let dims: Vec<Dim> = dims.into_iter().map(Into::into).collect();
        Shape(if dims.is_empty() { None } else { Some(dims.into()) })
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

impl<D: Into<Dim>, const N: usize> From<[D; N]> for Shape {
    fn from(dims: [D; N]) -> Shape {
        dims.into_iter().collect()
    }
}

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
