//! A strided alias of a storage: shape, strides and offset, as PyTorch reports them.
//!
//! A [`ViewSpec`] keeps even what no element depends on (the stride of an axis of length 1, the offset of an empty slice),
//! because users see it and PyTorch's rules go on from it. [`ViewSpec::of_node`] derives it from the chain of movement ops that a node
//! is; the chain is the truth, and the spec is remembered with the node. `None` says that no strided alias shows these elements: they
//! are padded, or a reshape went across a seam, and only a copy helps.
//! Not here: PyTorch's functions from spec to spec (`view_functions`); what kernels use (`View`, in which such strides are 0).
//! Tests: `conformance views`, and the cases below.

use super::dims::{same, simplified};
use super::merge::merge;
use super::view::View;
use crate::ir::{Arg, Axes, Dim, Op, Shape, StridedArg, UOp};

/// Shape, strides and offset of a strided alias, in elements of its storage.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ViewSpec {
    /// Lengths of the axes.
    pub shape: Shape,
    /// Elements between neighbours along each axis.
    pub strides: Shape,
    /// The element at position `(0, 0, ...)`.
    pub offset: Dim,
}

impl ViewSpec {
    /// A storage seen whole, in row-major order.
    pub fn of_storage(shape: impl Into<Shape>) -> ViewSpec {
        let shape = shape.into();
        ViewSpec { strides: default_strides(&shape), shape, offset: Dim::Const(0) }
    }

    /// The strided alias of its base's storage that a node is, by the chain of movement ops on that base.
    ///
    /// It is derived once and then remembered with the node.
    pub fn of_node(node: &UOp) -> Option<&ViewSpec> {
        node.remembered(|| derive(node)).as_ref()
    }

    /// Whether no length, stride or offset is symbolic.
    pub fn is_concrete(&self) -> bool {
        self.shape.is_concrete() && self.strides.is_concrete() && self.offset.as_const().is_some()
    }

    /// What a movement op with that argument makes of this, if that is a strided alias too.
    pub fn apply(&self, op: Op, arg: &Arg) -> Option<ViewSpec> {
        match (op, arg) {
            (Op::Reshape, Arg::Shape(to)) => self.reshaped(to),
            (Op::Permute, Arg::Axes(order)) => {
                let pick = |dims: &Shape| order.iter().map(|&axis| dims[axis as usize].clone()).collect();
                Some(ViewSpec { shape: pick(&self.shape), strides: pick(&self.strides), offset: self.offset.clone() })
            }
            (Op::Expand, Arg::Shape(to)) => {
                let repeats = |axis: usize| self.shape[axis] != to[axis];
                let stride = |axis: usize| if repeats(axis) { Dim::Const(0) } else { self.strides[axis].clone() };
                let strides = (0..to.len()).map(stride).collect();
                Some(ViewSpec { shape: to.clone(), strides, offset: self.offset.clone() })
            }
            (Op::Shrink, Arg::Bounds(bounds)) => {
                let starts = bounds.iter().map(|(start, _)| start).zip(self.strides.iter());
                let offset = starts.fold(self.offset.clone(), |offset, (start, stride)| &offset + &(start * stride));
                let shape = bounds.iter().map(|(start, end)| simplified(end - start)).collect();
                Some(ViewSpec { shape, strides: self.strides.clone(), offset: simplified(offset) })
            }
            (Op::Flip, Arg::Axes(axes)) => Some(self.flipped(axes)),
            (Op::Pad, Arg::Bounds(padding)) => {
                padding.iter().all(|(before, after)| before.is(0) && after.is(0)).then(|| self.clone())
            }
            (Op::AsStrided, Arg::Strided(strided)) => self.restrided(strided),
            _ => None,
        }
    }

    pub(super) fn flipped(&self, axes: &Axes) -> ViewSpec {
        let mut strides = self.strides.to_vec();
        let mut offset = self.offset.clone();
        for axis in (0..strides.len()).filter(|axis| axes.contains(&(*axis as u8))) {
            if !self.shape[axis].is(0) {
                offset = &offset + &(&(&self.shape[axis] - &Dim::Const(1)) * &strides[axis]);
            }
            strides[axis] = simplified(&Dim::Const(0) - &strides[axis]);
        }
        ViewSpec { shape: self.shape.clone(), strides: strides.into(), offset: simplified(offset) }
    }

    /// Strides over the positions of this, counted in row-major order.
    fn restrided(&self, strided: &StridedArg) -> Option<ViewSpec> {
        if self.is_contiguous() {
            let offset = simplified(&self.offset + &strided.offset);
            return Some(ViewSpec { shape: strided.shape.clone(), strides: strided.strides.clone(), offset });
        }
        let above = View::new(strided.shape.clone(), strided.strides.to_vec(), strided.offset.clone(), None);
        ViewSpec::of_view(&merge(&self.to_view(), &above)?)
    }

    /// The same elements in row-major order under another shape of as many, if one stride an axis can say it.
    ///
    /// This is PyTorch's rule: from the right, old axes that one stride walks form a chunk, and new axes must fill each chunk exactly.
    pub fn reshaped(&self, to: &Shape) -> Option<ViewSpec> {
        let with = |strides: Shape| ViewSpec { shape: to.clone(), strides, offset: self.offset.clone() };
        if self.shape.is_empty() {
            return to.iter().all(|dim| dim.is(1)).then(|| with(to.iter().map(|_| 1_i64).collect()));
        }
        if self.shape.iter().any(|dim| dim.is(0)) {
            let strides = if self.shape == *to { self.strides.clone() } else { default_strides(to) };
            return to.iter().any(|dim| dim.is(0)).then(|| with(strides));
        }
        let mut strides = vec![Dim::Const(0); to.len()];
        let mut left = to.len();
        let mut chunk = Dim::Const(1);
        let mut base_stride = &self.strides[self.shape.len() - 1];
        for axis in (0..self.shape.len()).rev() {
            chunk = simplified(&chunk * &self.shape[axis]);
            let runs_on = axis > 0
                && (self.shape[axis - 1].is(1) || same(&self.strides[axis - 1], &simplified(&chunk * base_stride)));
            if runs_on {
                continue;
            }
            let mut filled = Dim::Const(1);
            while left > 0 && (is_short_of(&filled, &chunk) || to[left - 1].is(1)) {
                left -= 1;
                strides[left] = simplified(&filled * base_stride);
                filled = simplified(&filled * &to[left]);
            }
            if !same(&filled, &chunk) {
                return None;
            }
            if axis > 0 {
                base_stride = &self.strides[axis - 1];
                chunk = Dim::Const(1);
            }
        }
        (left == 0).then(|| with(strides.into()))
    }

    /// Whether elements in row-major order follow each other in memory. Where they begin does not matter.
    pub fn is_contiguous(&self) -> bool {
        if self.shape.iter().any(|dim| dim.is(0)) {
            return true;
        }
        let mut expected = Dim::Const(1);
        for (dim, stride) in self.shape.iter().zip(self.strides.iter()).rev().filter(|(dim, _)| !dim.is(1)) {
            if !same(stride, &expected) {
                return false;
            }
            expected = simplified(&expected * dim);
        }
        true
    }

    /// As a view, in which strides that no element depends on are 0.
    pub fn to_view(&self) -> View {
        View::new(self.shape.clone(), self.strides.to_vec(), self.offset.clone(), None)
    }

    /// A view as a spec; `None` if it has void positions.
    pub fn of_view(view: &View) -> Option<ViewSpec> {
        let plain = view.mask().is_none();
        plain.then(|| ViewSpec {
            shape: view.shape().clone(),
            strides: view.strides().clone(),
            offset: view.offset().clone(),
        })
    }

    /// This over the whole of its storage, as a node on that storage's node.
    ///
    /// # Panics
    /// If the storage is not of rank 1: positions of the spec count its elements.
    pub fn on_storage(&self, storage: &UOp) -> UOp {
        assert_eq!(storage.shape().len(), 1, "a storage is flat");
        let strided = Arg::Strided(self.clone().into_arg().into());
        UOp::new(Op::AsStrided, storage.dtype(), [storage.clone()].to_vec(), strided)
    }

    /// This as the argument of an `AsStrided` over all elements of a storage in row-major order.
    pub fn into_arg(self) -> StridedArg {
        StridedArg { shape: self.shape, strides: self.strides, offset: self.offset }
    }
}

fn derive(node: &UOp) -> Option<ViewSpec> {
    let mut steps = Vec::new();
    let mut below = node.clone();
    let mut spec = loop {
        if let Some(known) = below.recall::<Option<ViewSpec>>() {
            break known.clone();
        }
        if !below.op().is_movement() {
            break Some(ViewSpec::of_storage(below.shape().clone()));
        }
        let next = below.src()[0].clone();
        steps.push(below);
        below = next;
    };
    for step in steps.iter().rev() {
        spec = spec.and_then(|spec| spec.apply(step.op(), step.arg()));
    }
    // A later step may undo what no stride could say, as a shrink undoes a pad.
    spec.or_else(|| {
        let (_, tracker) = super::chain::track_movement(node);
        match tracker.views() {
            [view] => ViewSpec::of_view(view),
            _ => None,
        }
    })
}

/// Strides of a fresh storage; an axis of length 0 counts as one of length 1.
pub(super) fn default_strides(shape: &Shape) -> Shape {
    let mut strides = vec![Dim::Const(1); shape.len()];
    for axis in (0..shape.len().saturating_sub(1)).rev() {
        let inner = &shape[axis + 1];
        strides[axis] = if inner.is(0) { strides[axis + 1].clone() } else { simplified(&strides[axis + 1] * inner) };
    }
    strides.into()
}

fn is_short_of(filled: &Dim, chunk: &Dim) -> bool {
    match (filled.as_const(), chunk.as_const()) {
        (Some(filled), Some(chunk)) => filled < chunk,
        _ => !same(filled, chunk),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;

    fn spec(node: &UOp) -> (Vec<i64>, i64) {
        let spec = ViewSpec::of_node(node).expect("a strided alias");
        (spec.strides.as_const().expect("known strides"), spec.offset.as_const().expect("a known offset"))
    }

    fn bounds(bounds: &[(i64, i64)]) -> Vec<(Dim, Dim)> {
        bounds.iter().map(|&(a, b)| (Dim::Const(a), Dim::Const(b))).collect()
    }

    #[test]
    fn a_chain_folds_to_strides_and_offset() {
        let base = UOp::param(0, DType::F32, 24).reshape([2, 3, 4]);
        assert_eq!(spec(&base.permute(&[2, 0, 1])), (vec![1, 12, 4], 0));
        assert_eq!(spec(&base.shrink(&bounds(&[(1, 2), (0, 3), (1, 4)]))), (vec![12, 4, 1], 13));
        assert_eq!(spec(&base.flip(&[1])), (vec![12, -4, 1], 8));
        assert_eq!(spec(&base.reshape([1, 2, 3, 4]).expand([5, 2, 3, 4])), (vec![0, 12, 4, 1], 0));
    }

    #[test]
    fn what_no_stride_says_is_none_until_it_is_undone() {
        let base = UOp::param(0, DType::F32, 12).reshape([3, 4]);
        let across = base.permute(&[1, 0]).reshape([12]);
        assert_eq!(ViewSpec::of_node(&across), None);
        assert_eq!(spec(&across.reshape([4, 3])), (vec![1, 4], 0));
        let padded = base.pad(&bounds(&[(1, 1), (0, 0)]));
        assert_eq!(ViewSpec::of_node(&padded), None);
        assert_eq!(spec(&padded.shrink(&bounds(&[(2, 4), (0, 4)]))), (vec![4, 1], 4));
    }

    #[test]
    fn symbolic_lengths_have_symbolic_strides() {
        let n = Dim::from(UOp::variable("n", 1, 8));
        let all = (Dim::Const(0), Dim::Const(4));
        let rows = UOp::param(0, DType::F32, 32).reshape([8, 4]).shrink(&[(Dim::Const(0), n.clone()), all]);
        let split = rows.reshape(Shape::from([n.clone(), Dim::Const(2), Dim::Const(2)]));
        assert_eq!(ViewSpec::of_node(&split).expect("an alias").strides.as_const(), Some(vec![4, 2, 1]));
        let flat = rows.reshape(Shape::from([&n * &Dim::Const(4)]));
        assert!(ViewSpec::of_node(&flat).expect("an alias").is_contiguous());
    }

    #[test]
    fn a_long_chain_is_derived_step_by_step_and_remembered() {
        let mut node = UOp::param(0, DType::F32, 64).reshape([8, 8]);
        for _ in 0..50_000 {
            node = node.permute(&[1, 0]);
        }
        assert_eq!(spec(&node), (vec![8, 1], 0));
        assert_eq!(spec(&node.permute(&[1, 0])), (vec![1, 8], 0));
    }
}
