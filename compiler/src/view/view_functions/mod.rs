//! PyTorch's view functions, and NumPy's where steps are negative, from spec to spec.
//!
//! Each function gives exactly the shape, strides and offset that PyTorch gives, and an error exactly where PyTorch raises. Axes may
//! be counted from the end (-1 is the last); a tensor of rank 0 counts as one of rank 1 where PyTorch counts it so. Where a
//! function must know a length and the length is symbolic, that is an error too.
//! Not here: movement ops (`ViewSpec::apply`), whose arguments the graph has checked.
//! Tests: `conformance views`.

mod parts;

use crate::ir::{Dim, Shape};
use crate::view::dims::simplified;
use crate::view::view_spec::ViewSpec;

/// Why there is no such view.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ViewError {
    /// The arguments do not fit the shape: what is wrong, and what would be right.
    #[error("{function}: {message}")]
    Argument {
        /// The function that was called.
        function: &'static str,
        /// What is wrong.
        message: String,
    },
    /// No strided alias shows these elements in that shape.
    #[error("view: {from} with strides {strides} cannot be seen as {to} without a copy; reshape copies where it must")]
    NeedsCopy {
        /// Shape that there is.
        from: Shape,
        /// Its strides.
        strides: Shape,
        /// Shape that was asked for.
        to: Shape,
    },
    /// The view reaches past the end of the storage.
    #[error("as_strided: reaches element {last} of a storage of {len} elements")]
    OutOfStorage {
        /// Last element of the view.
        last: i64,
        /// Elements of the storage.
        len: i64,
    },
}

fn wrong<T>(function: &'static str, message: String) -> Result<T, ViewError> {
    Err(ViewError::Argument { function, message })
}

/// An axis counted from either end; rank 0 admits 0 and -1.
fn axis_of(function: &'static str, axis: i64, rank: usize) -> Result<usize, ViewError> {
    let len = rank.max(1) as i64;
    if !(-len..len).contains(&axis) {
        return wrong(function, format!("axis {axis} is not within {} to {} for rank {rank}", -len, len - 1));
    }
    Ok(axis.rem_euclid(len) as usize)
}

fn without(dims: &[Dim], dropped: impl Fn(usize) -> bool) -> Vec<Dim> {
    dims.iter().enumerate().filter(|(axis, _)| !dropped(*axis)).map(|(_, dim)| dim.clone()).collect()
}

fn with_inserted(dims: &[Dim], axis: usize, dim: Dim) -> Shape {
    let mut dims = dims.to_vec();
    dims.insert(axis, dim);
    dims.into()
}

fn with_replaced(dims: &[Dim], axis: usize, dim: Dim) -> Shape {
    let mut dims = dims.to_vec();
    dims[axis] = dim;
    dims.into()
}

impl ViewSpec {
    fn rank(&self) -> usize {
        self.shape.len()
    }

    /// An axis of a tensor that has one.
    fn real_axis(&self, function: &'static str, axis: i64) -> Result<usize, ViewError> {
        if self.shape.is_empty() {
            return wrong(function, "a tensor of rank 0 has no axis".to_string());
        }
        axis_of(function, axis, self.rank())
    }

    fn known_len(&self, function: &'static str, axis: usize) -> Result<i64, ViewError> {
        match self.shape[axis].as_const() {
            Some(len) => Ok(len),
            None => wrong(function, format!("axis {axis} of {} has no known length", self.shape)),
        }
    }

    fn moved(&self, steps: i64, axis: usize) -> Dim {
        simplified(&self.offset + &(&Dim::Const(steps) * &self.strides[axis]))
    }

    /// The same elements under another shape, of which one length may be -1: what is left over.
    ///
    /// # Errors
    /// If the shape has another number of elements, or -1 stands twice or beside a 0, or only a copy could have that shape.
    pub fn view(&self, to: &[i64]) -> Result<ViewSpec, ViewError> {
        let to = self.inferred_shape("view", to)?;
        self.reshaped(&to).ok_or_else(|| ViewError::NeedsCopy {
            from: self.shape.clone(),
            strides: self.strides.clone(),
            to: to.clone(),
        })
    }

    /// A shape with its -1 worked out.
    ///
    /// # Errors
    /// If the shape has another number of elements than this, or -1 stands twice or beside a 0.
    fn inferred_shape(&self, function: &'static str, to: &[i64]) -> Result<Shape, ViewError> {
        let Some(have) = self.shape.numel().as_const() else {
            return wrong(function, format!("{} has no known number of elements", self.shape));
        };
        if let Some(dim) = to.iter().find(|dim| **dim < -1) {
            return wrong(function, format!("{dim} is no length"));
        }
        let known = to.iter().filter(|dim| **dim >= 0).try_fold(1_i64, |product, dim| product.checked_mul(*dim));
        let Some(known) = known else { return wrong(function, format!("{to:?} has too many elements to count")) };
        let rest = match to.iter().filter(|dim| **dim == -1).count() {
            0 if known == have => 0,
            1 if known > 0 && have % known == 0 => have / known,
            1 if known == 0 && have == 0 => {
                return wrong(function, format!("the -1 in {to:?} may be anything, for there are no elements"));
            }
            0 | 1 => return wrong(function, format!("{} has {have} elements, which do not fill {to:?}", self.shape)),
            _ => return wrong(function, format!("only one length of {to:?} may be -1")),
        };
        Ok(to.iter().map(|&dim| if dim == -1 { rest } else { dim }).collect())
    }

    /// Axes in another order.
    ///
    /// # Errors
    /// If the order does not name each axis once.
    pub fn permute(&self, order: &[i64]) -> Result<ViewSpec, ViewError> {
        let mut axes = Vec::with_capacity(order.len());
        for &axis in order {
            axes.push(axis_of("permute", axis, self.rank())?);
        }
        let mut seen = axes.clone();
        seen.sort_unstable();
        if !seen.into_iter().eq(0..self.rank()) {
            return wrong("permute", format!("{order:?} does not name each axis of {} once", self.shape));
        }
        let pick = |dims: &Shape| axes.iter().map(|&axis| dims[axis].clone()).collect();
        Ok(ViewSpec { shape: pick(&self.shape), strides: pick(&self.strides), offset: self.offset.clone() })
    }

    /// Two axes exchanged.
    ///
    /// # Errors
    /// If there are no such axes.
    pub fn transpose(&self, a: i64, b: i64) -> Result<ViewSpec, ViewError> {
        let (a, b) = (axis_of("transpose", a, self.rank())?, axis_of("transpose", b, self.rank())?);
        let swap = |dims: &Shape| {
            let mut dims = dims.to_vec();
            if a != b {
                dims.swap(a, b);
            }
            Shape::from(dims)
        };
        Ok(ViewSpec { shape: swap(&self.shape), strides: swap(&self.strides), offset: self.offset.clone() })
    }

    /// Axes of length 1 repeated and new axes put in front; -1 keeps a length.
    ///
    /// # Errors
    /// If there are fewer lengths than axes, or another axis than one of length 1 is to change.
    pub fn expand(&self, to: &[i64]) -> Result<ViewSpec, ViewError> {
        let refuse = || wrong("expand", format!("{} does not expand to {to:?}: only axes of length 1 do", self.shape));
        let Some(new) = to.len().checked_sub(self.rank()) else { return refuse() };
        let mut shape: Vec<Dim> = to.iter().map(|&len| Dim::Const(len)).collect();
        let mut strides = vec![Dim::Const(0); to.len()];
        for axis in (0..to.len()).rev() {
            let old = axis.checked_sub(new);
            if let Some(old) = old {
                strides[axis] = self.strides[old].clone();
            } else if !self.shape.is_empty() {
                strides[axis] = simplified(&shape[axis + 1] * &strides[axis + 1]);
            }
            let len = old.map_or(Dim::Const(1), |old| self.shape[old].clone());
            match (to[axis], old) {
                (-1, Some(_)) => shape[axis] = len,
                (wanted, _) if wanted < 0 => return refuse(),
                (wanted, _) if len.is(wanted) => {}
                (_, _) if len.is(1) => strides[axis] = Dim::Const(0),
                _ => return refuse(),
            }
        }
        Ok(ViewSpec { shape: shape.into(), strides: strides.into(), offset: self.offset.clone() })
    }

    /// Without axes of length 1: those of the given that have it, or all if none is given.
    ///
    /// # Errors
    /// If there is no such axis.
    pub fn squeeze(&self, axes: &[i64]) -> Result<ViewSpec, ViewError> {
        let named = axes.iter().map(|&axis| axis_of("squeeze", axis, self.rank())).collect::<Result<Vec<_>, _>>()?;
        let goes = |axis: usize| self.shape[axis].is(1) && (named.is_empty() || named.contains(&axis));
        Ok(ViewSpec {
            shape: without(&self.shape, goes).into(),
            strides: without(&self.strides, goes).into(),
            offset: self.offset.clone(),
        })
    }

    /// With a new axis of length 1, which stands at that position in the result.
    ///
    /// # Errors
    /// If there is no such position.
    pub fn unsqueeze(&self, axis: i64) -> Result<ViewSpec, ViewError> {
        let axis = axis_of("unsqueeze", axis, self.rank() + 1)?;
        let stride = match self.shape.get(axis) {
            Some(len) => simplified(len * &self.strides[axis]),
            None => Dim::Const(1),
        };
        Ok(ViewSpec {
            shape: with_inserted(&self.shape, axis, Dim::Const(1)),
            strides: with_inserted(&self.strides, axis, stride),
            offset: self.offset.clone(),
        })
    }
}
