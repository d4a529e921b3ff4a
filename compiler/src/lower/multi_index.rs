//! Indices into tensors, and what movement ops make of them: an index in the result becomes one in the operand.
//!
//! Always: where a gate is false the indices may be any numbers; where it is true they lie inside of the tensor. Tested by every kernel of the test crate
//! that moves elements.

use smallvec::SmallVec;

use crate::ir::{Arg, Dim, Op, Shape, StridedArg, UOp};
use crate::symbolic::{simplify, simplify_given};
use crate::view::dims::{at_most, same, simplified, steps_along};

/// Where a tensor's element is asked for.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct MultiIndex {
    /// One index of dtype `Index` per axis.
    pub(super) indices: SmallVec<[UOp; 4]>,
    /// False where the index does not exist.
    pub(super) gate: Option<UOp>,
}

/// Whether an axis has one element, so that no loop is opened for it.
pub(super) fn is_one(dim: &Dim) -> bool {
    match dim {
        Dim::Const(len) => *len == 1,
        // Bound and unbound uses of one variable cancel only after its value was taken out.
        Dim::Expr(_) => simplified(dim.clone()).is(1),
    }
}

/// Whether an index names an element of an axis.
pub(super) fn inside_of(index: &UOp, dim: &Dim) -> UOp {
    simplify(&(!index.lt(0) & index.lt(&dim.to_uop())))
}

/// The row-major number of an element.
pub(super) fn flatten(indices: &[UOp], shape: &Shape) -> UOp {
    let strides = shape.row_major_strides();
    let terms = indices.iter().zip(&strides).filter(|(index, _)| !index.is_const(0));
    terms.fold(UOp::index(0), |sum, (index, stride)| {
        let term = if stride.is(1) { index.clone() } else { index * stride.to_uop() };
        if sum.is_const(0) { term } else { sum + term }
    })
}

pub(super) fn both(gate: Option<&UOp>, other: &UOp) -> UOp {
    match gate {
        Some(gate) => simplify(&(gate & other)),
        None => other.clone(),
    }
}

/// The index in a movement op's operand of an index in its result.
pub(super) fn moved(node: &UOp, multi_index: &MultiIndex) -> MultiIndex {
    let from = node.src()[0].shape();
    let indices: SmallVec<[UOp; 4]> = match (node.op(), node.arg()) {
        (Op::Reshape, Arg::Shape(to)) => reshaped(&multi_index.indices, to, from),
        (Op::Permute, Arg::Axes(order)) => {
            let mut indices: SmallVec<[UOp; 4]> = multi_index.indices.clone();
            for (axis, &source) in order.iter().enumerate() {
                indices[source as usize] = multi_index.indices[axis].clone();
            }
            indices
        }
        (Op::Expand, _) => {
            let pairs = multi_index.indices.iter().zip(from.iter());
            pairs.map(|(index, dim)| if dim.is(1) { UOp::index(0) } else { index.clone() }).collect()
        }
        (Op::Flip, Arg::Axes(axes)) => {
            let mut indices = multi_index.indices.clone();
            for &axis in axes {
                let last = (&from[axis as usize] - &Dim::Const(1)).to_uop();
                indices[axis as usize] = simplify(&(last - &indices[axis as usize]));
            }
            indices
        }
        (Op::Shrink, Arg::Bounds(bounds)) => {
            let pairs = multi_index.indices.iter().zip(bounds.iter());
            pairs.map(|(index, (start, _))| simplify(&(index + start.to_uop()))).collect()
        }
        (Op::Pad, Arg::Bounds(bounds)) => {
            let pairs = multi_index.indices.iter().zip(bounds.iter());
            pairs.map(|(index, (before, _))| simplify(&(index - before.to_uop()))).collect()
        }
        (Op::AsStrided, Arg::Strided(strided)) => windowed(&multi_index.indices, strided, from).unwrap_or_else(|| {
            let terms = multi_index.indices.iter().zip(strided.strides.iter());
            let flat = terms.fold(strided.offset.to_uop(), |sum, (index, stride)| sum + index * stride.to_uop());
            let flat_shape = Shape::from([from.numel()]);
            reshaped(&[simplify(&flat)], &flat_shape, from)
        }),
        (op, arg) => panic!("bug in the compiler: {op} {arg:?} is no movement op"),
    };
    let gate = match node.op() {
        Op::Pad => match inside_of_pad(node, multi_index) {
            Some(inside) => Some(both(multi_index.gate.as_ref(), &inside)),
            None => multi_index.gate.clone(),
        },
        _ => multi_index.gate.clone(),
    };
    // What holds under the gate may make the indices simpler.
    let indices = match &gate {
        Some(gate) if node.op() == Op::Pad || node.op() == Op::Reshape => {
            indices.iter().map(|index| simplify_given(index, gate)).collect()
        }
        _ => indices,
    };
    MultiIndex { indices, gate }
}

/// The indices of a view whose axes each walk axes of the operand, one as windows do or two as diagonals do, and never leave them; `None` if that is
/// not known.
///
/// Such an index needs no quotient by a length that is a variable. Where all lengths are numbers, simplification finds the same.
fn windowed(indices: &[UOp], strided: &StridedArg, from: &Shape) -> Option<SmallVec<[UOp; 4]>> {
    if from.is_concrete() || !strided.offset.is(0) {
        return None;
    }
    let mut found: SmallVec<[UOp; 4]> = from.iter().map(|_| UOp::index(0)).collect();
    // The last element of each axis of the operand that is asked for.
    let mut last: SmallVec<[Dim; 4]> = from.iter().map(|_| Dim::Const(0)).collect();
    for ((index, stride), len) in indices.iter().zip(strided.strides.iter()).zip(strided.shape.iter()) {
        if is_one(len) {
            continue;
        }
        for (axis, steps) in steps_along(stride, from)?.into_iter().enumerate().filter(|(_, steps)| !steps.is(0)) {
            found[axis] = &found[axis] + index * steps.to_uop();
            last[axis] = simplified(&last[axis] + &(&(len - 1) * &steps));
        }
    }
    let stays_inside = (0..from.len()).all(|axis| at_most(&(&last[axis] + 1), &from[axis]));
    stays_inside.then(|| found.iter().map(simplify).collect())
}

/// The condition that an index in a pad's result lies in its operand; `None` if it always does.
pub(super) fn inside_of_pad(node: &UOp, multi_index: &MultiIndex) -> Option<UOp> {
    let Arg::Bounds(bounds) = node.arg() else { return None };
    let mut inside: Option<UOp> = None;
    for ((index, (before, after)), dim) in
        multi_index.indices.iter().zip(bounds.iter()).zip(node.src()[0].shape().iter())
    {
        if !before.is(0) {
            inside = Some(both(inside.as_ref(), &!index.lt(&before.to_uop())));
        }
        if !after.is(0) {
            inside = Some(both(inside.as_ref(), &index.lt(&(before + dim).to_uop())));
        }
    }
    inside.map(|inside| simplify(&inside)).filter(|inside| !inside.is_const(1))
}

/// Indices over the shape `to` as indices over the shape `from` of as many elements.
///
/// Axes that agree are passed through; groups of axes with equal products are flattened and split again on their own, so
/// that a reshape of some axes leaves the others alone.
fn reshaped(indices: &[UOp], to: &Shape, from: &Shape) -> SmallVec<[UOp; 4]> {
    let mut result: SmallVec<[UOp; 4]> = SmallVec::new();
    let (mut new, mut old) = (0, 0);
    while old < from.len() {
        // Axes of one element say nothing, and equal axes behind equal products are one.
        if from[old].is(1) {
            result.push(UOp::index(0));
            old += 1;
            continue;
        }
        if new < to.len() && to[new].is(1) {
            new += 1;
            continue;
        }
        if new < to.len() && same(&to[new], &from[old]) {
            result.push(indices[new].clone());
            (new, old) = (new + 1, old + 1);
            continue;
        }
        let (new_start, old_start) = (new, old);
        let mut products = (Dim::Const(1), Dim::Const(1));
        // Grow the group on the side whose product is smaller until both agree.
        loop {
            if new > new_start && old > old_start && same(&products.0, &products.1) {
                break;
            }
            let grow_old = match (products.0.as_const(), products.1.as_const()) {
                (Some(new_product), Some(old_product)) => old_product <= new_product,
                _ => old <= new,
            };
            if (grow_old && old < from.len()) || new == to.len() {
                if old == from.len() {
                    break;
                }
                products.1 = &products.1 * &from[old];
                old += 1;
            } else {
                products.0 = &products.0 * &to[new];
                new += 1;
            }
        }
        if old == from.len() {
            new = to.len();
        }
        split_group(&indices[new_start..new], &to[new_start..new], &from[old_start..old], &mut result);
    }
    result
}

fn split_group(indices: &[UOp], to: &[Dim], from: &[Dim], result: &mut SmallVec<[UOp; 4]>) {
    let real: SmallVec<[usize; 4]> = (0..to.len()).filter(|&axis| !to[axis].is(1)).collect();
    let wanted: SmallVec<[usize; 4]> = (0..from.len()).filter(|&axis| !from[axis].is(1)).collect();
    if real.len() == 1 && wanted.len() == 1 && same(&to[real[0]], &from[wanted[0]]) {
        result.extend((0..from.len()).map(
            |axis| {
                if axis == wanted[0] { indices[real[0]].clone() } else { UOp::index(0) }
            },
        ));
        return;
    }
    let flat = simplify(&flatten(indices, &to.iter().cloned().collect()));
    let strides = from.iter().cloned().collect::<Shape>().row_major_strides();
    for (axis, dim) in from.iter().enumerate() {
        if dim.is(1) {
            result.push(UOp::index(0));
            continue;
        }
        let mut index = flat.clone();
        if !strides[axis].is(1) {
            index = index.idiv(&strides[axis].to_uop());
        }
        if wanted.first() != Some(&axis) {
            index = index.modulo(&dim.to_uop());
        }
        result.push(simplify(&index));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Windows of 3 elements, `step` apart, of the two last axes of [2, 4, rows, columns].
    fn windows(rows: &Dim, columns: &Dim, step: i64) -> (StridedArg, Shape) {
        let from = Shape::from([Dim::Const(2), Dim::Const(4), rows.clone(), columns.clone()]);
        let strides = from.row_major_strides();
        let count = |len: &Dim| simplified((len - 3).floor_div(&step.into()) + 1);
        let shape = Shape::from([2.into(), 4.into(), count(rows), count(columns), 3.into(), 3.into()]);
        let far = |axis: usize| &strides[axis] * &Dim::Const(step);
        let strides = [strides[0].clone(), strides[1].clone(), far(2), far(3), strides[2].clone(), strides[3].clone()];
        (StridedArg { shape, strides: Shape::from(strides), offset: 0.into() }, from)
    }

    #[test]
    fn windows_of_symbolic_axes_walk_each_axis_apart() {
        let [h, w] = ["h", "w"].map(|name| UOp::variable(name, 5, 60));
        for step in 1..4 {
            for (rows, columns) in [
                (Dim::from(&h), Dim::Const(12)),
                (Dim::Const(12), Dim::from(&w)),
                (Dim::from(&h), Dim::from(&w)),
                (Dim::from(&h + 2), Dim::from(&w + 2)),
                (Dim::from(&h * 2), Dim::from(&w * 2 + 1)),
                (Dim::from(&h), Dim::from(&h)),
            ] {
                let (strided, from) = windows(&rows, &columns, step);
                let numbers: SmallVec<[UOp; 4]> = strided
                    .shape
                    .iter()
                    .zip(0..)
                    .map(|(len, id)| UOp::range(len.clone(), id, crate::ir::AxisKind::Loop))
                    .collect();
                let found = windowed(&numbers, &strided, &from);
                let found = found.unwrap_or_else(|| panic!("{rows} x {columns} by {step}"));
                assert_eq!(found[2], simplify(&(&numbers[2] * step + &numbers[4])));
                assert_eq!(found[3], simplify(&(&numbers[3] * step + &numbers[5])));
            }
        }
    }

    #[test]
    fn views_that_leave_an_axis_are_not_windows() {
        let w = UOp::variable("w", 5, 60);
        let numbers = |strided: &StridedArg| -> SmallVec<[UOp; 4]> {
            strided
                .shape
                .iter()
                .zip(0..)
                .map(|(len, id)| UOp::range(len.clone(), id, crate::ir::AxisKind::Loop))
                .collect()
        };
        let from = Shape::from([Dim::Const(4), Dim::from(&w)]);
        // The fifth row is none; one more column than there are goes on in the next row; an offset may.
        let view = |shape: [Dim; 2], strides: [Dim; 2], offset: i64| StridedArg {
            shape: Shape::from(shape),
            strides: Shape::from(strides),
            offset: offset.into(),
        };
        let row = || Dim::from(&w);
        for strided in [
            view([5.into(), 1.into()], [Dim::from(&w + 1), 1.into()], 0),
            view([3.into(), Dim::from(&w + 1)], [row(), 1.into()], 0),
            view([3.into(), row()], [row(), 1.into()], 1),
        ] {
            assert_eq!(windowed(&numbers(&strided), &strided, &from), None, "{strided:?}");
        }
        // A diagonal walks both axes, as far as both reach.
        let diagonal = view([4.into(), 1.into()], [Dim::from(&w + 1), 1.into()], 0);
        let step = &numbers(&diagonal)[0];
        assert_eq!(windowed(&numbers(&diagonal), &diagonal, &from).unwrap()[..], [step.clone(), step.clone()]);
    }
}
