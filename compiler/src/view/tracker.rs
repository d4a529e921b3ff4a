//! The shape tracker: what a chain of movement ops does to memory, as one or more views on top of each other.
//!
//! The first view lies on memory; each further view lies on the positions of the one before, counted in row-major order. Most
//! chains are one view: adjacent views are merged as soon as one can say the same (`merge`). What stays are reshapes across
//! a seam, as of a transposed matrix flattened.
//!
//! Always: the shape is that of the last view. Lengths may be symbolic; what cannot be proven of them only keeps views apart.
//! Not here: whether all of it is one strided alias in PyTorch's sense (`view_spec`), index arithmetic (`index`).
//! Tests: `properties`, against lists of element numbers.

use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};

use super::dims::simplified;
use super::merge::merge;
use super::view::View;
use crate::ir::{Arg, Axes, Dim, Op, Shape, StridedArg, UOp, postorder, substitute};

/// A chain of movement ops over memory, as views.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ShapeTracker {
    views: SmallVec<[View; 1]>,
}

/// A variable that cannot be bound as asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("variable {name} is bound to {value}, but it lies from {min} to {max}")]
pub struct BindError {
    /// Name of the variable.
    pub name: String,
    /// The value that was given.
    pub value: i64,
    /// Least value that it may have.
    pub min: i64,
    /// Largest value that it may have.
    pub max: i64,
}

impl ShapeTracker {
    /// Memory in row-major order.
    pub fn from_shape(shape: impl Into<Shape>) -> ShapeTracker {
        ShapeTracker { views: smallvec![View::contiguous(shape.into())] }
    }

    /// One view over memory.
    pub fn from_view(view: View) -> ShapeTracker {
        ShapeTracker { views: smallvec![view] }
    }

    /// The views, that on memory first; never empty.
    pub fn views(&self) -> &[View] {
        &self.views
    }

    /// Lengths of the axes.
    pub fn shape(&self) -> &Shape {
        self.top().shape()
    }

    fn top(&self) -> &View {
        &self.views[self.views.len() - 1]
    }

    fn with_top(&self, view: View) -> ShapeTracker {
        let mut views = self.views.clone();
        let last = views.len() - 1;
        views[last] = view;
        ShapeTracker { views }.merge_top()
    }

    fn pushed(&self, view: View) -> ShapeTracker {
        let mut views = self.views.clone();
        views.push(view);
        ShapeTracker { views }.merge_top()
    }

    /// Merges the last views while one says the same as two.
    fn merge_top(mut self) -> ShapeTracker {
        while let [.., below, above] = &self.views[..] {
            let Some(merged) = merge(below, above) else { break };
            self.views.pop();
            let last = self.views.len() - 1;
            self.views[last] = merged;
        }
        self
    }

    /// The same in as few views as can be found by merging neighbours.
    pub fn simplify(&self) -> ShapeTracker {
        let mut views: SmallVec<[View; 1]> = SmallVec::new();
        for view in &self.views {
            views.push(view.clone());
            views = ShapeTracker { views }.merge_top().views;
        }
        ShapeTracker { views }
    }

    /// Whether it is memory in row-major order from its first element.
    pub fn is_contiguous(&self) -> bool {
        self.views.len() == 1 && self.views[0].is_contiguous()
    }

    /// Whether nothing in it is symbolic.
    pub fn is_concrete(&self) -> bool {
        self.views.iter().all(View::is_concrete)
    }

    /// The variables in it, sorted by name.
    pub fn vars(&self) -> Vec<UOp> {
        let mut roots = Vec::new();
        for view in &self.views {
            view.for_each_dim(&mut |dim| roots.extend(dim_expr(dim)));
        }
        let mut found: Vec<UOp> = postorder(&roots).into_iter().filter(|node| node.op() == Op::Variable).collect();
        found.sort_by(|a, b| variable_name(a).cmp(variable_name(b)));
        found
    }

    /// The same with values in the place of variables. Names that do not occur are ignored.
    ///
    /// # Errors
    /// If a value is not within its variable's bounds.
    pub fn bind_vars(&self, values: &[(&str, i64)]) -> Result<ShapeTracker, BindError> {
        let mut map: FxHashMap<UOp, UOp> = FxHashMap::default();
        for variable in self.vars() {
            let Arg::Variable(arg) = variable.arg() else { continue };
            let Some((_, value)) = values.iter().find(|(name, _)| *name == arg.name) else { continue };
            if !(arg.min..=arg.max).contains(value) {
                return Err(BindError { name: arg.name.clone(), value: *value, min: arg.min, max: arg.max });
            }
            map.insert(variable.clone(), UOp::index(*value));
        }
        let mut bind = |dim: &Dim| match dim {
            Dim::Const(_) => dim.clone(),
            Dim::Expr(expr) => constant_or(substitute(expr, &map)),
        };
        Ok(ShapeTracker { views: self.views.iter().map(|view| view.map_dims(&mut bind)).collect() }.simplify())
    }
}

fn dim_expr(dim: &Dim) -> Option<UOp> {
    match dim {
        Dim::Const(_) => None,
        Dim::Expr(expr) => Some(expr.clone()),
    }
}

/// An expression whose facts leave one value is that value, whichever rules exist.
fn constant_or(expr: UOp) -> Dim {
    match expr.facts().as_const() {
        Some(value) => Dim::Const(value),
        None => simplified(Dim::from(expr)),
    }
}

fn variable_name(node: &UOp) -> &str {
    match node.arg() {
        Arg::Variable(variable) => &variable.name,
        _ => "",
    }
}

/// The movement ops.
///
/// Their arguments fit the shape, as those of nodes of a graph are known to; the functions panic otherwise.
impl ShapeTracker {
    /// What a movement op with that argument makes of this.
    ///
    /// # Panics
    /// If the op is no movement op, or has an argument of another kind: a bug of the compiler.
    pub fn apply(&self, op: Op, arg: &Arg) -> ShapeTracker {
        match (op, arg) {
            (Op::Reshape, Arg::Shape(shape)) => self.reshape(shape),
            (Op::Expand, Arg::Shape(shape)) => self.expand(shape),
            (Op::Permute, Arg::Axes(order)) => self.permute(order),
            (Op::Flip, Arg::Axes(axes)) => self.flip(axes),
            (Op::Pad, Arg::Bounds(padding)) => self.pad(padding),
            (Op::Shrink, Arg::Bounds(bounds)) => self.shrink(bounds),
            (Op::AsStrided, Arg::Strided(strided)) => self.as_strided(strided),
            _ => panic!("bug in the compiler: {op} with {arg:?} is no movement"),
        }
    }

    /// The same elements in row-major order under another shape.
    pub fn reshape(&self, to: &Shape) -> ShapeTracker {
        match self.top().reshape(to) {
            Some(view) => self.with_top(view),
            None => self.pushed(View::contiguous(to.clone())),
        }
    }

    /// Axes in another order.
    pub fn permute(&self, order: &[u8]) -> ShapeTracker {
        self.with_top(self.top().permute(order))
    }

    /// Axes of length 1 repeated.
    pub fn expand(&self, to: &Shape) -> ShapeTracker {
        self.with_top(self.top().expand(to))
    }

    /// Void positions before and after each axis.
    pub fn pad(&self, padding: &[(Dim, Dim)]) -> ShapeTracker {
        self.with_top(self.top().pad(padding))
    }

    /// The part from start to end of each axis.
    pub fn shrink(&self, bounds: &[(Dim, Dim)]) -> ShapeTracker {
        self.with_top(self.top().shrink(bounds))
    }

    /// The given axes in reverse.
    pub fn flip(&self, axes: &Axes) -> ShapeTracker {
        self.with_top(self.top().flip(axes))
    }

    /// Any strides over the positions, counted in row-major order.
    pub fn as_strided(&self, strided: &StridedArg) -> ShapeTracker {
        let view = View::new(strided.shape.clone(), strided.strides.to_vec(), strided.offset.clone(), None);
        self.pushed(view)
    }
}
