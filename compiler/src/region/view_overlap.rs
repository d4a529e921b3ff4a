//! Which elements strided views have in common, where lengths may be symbolic.
//!
//! Concrete views are decided exactly (`strided`). For symbolic ones there are two proofs that nothing is shared: the ranges of
//! elements lie apart whatever the variables are, or the views do not meet even where each length is at its largest. Neither
//! succeeding, the answer is unknown.
//! Tests: below, and `conformance views` for concrete ones.

use super::budget::{Answer, Budget};
use super::strided::Strided;
use crate::ir::Dim;
use crate::symbolic::simplify;
use crate::view::ViewSpec;

/// Whether some element is in both views, which are of one storage.
#[must_use]
pub fn views_meet(a: &ViewSpec, b: &ViewSpec) -> Answer {
    if is_empty(a) || is_empty(b) {
        return Answer::No;
    }
    let is_exact = a.is_concrete() && b.is_concrete();
    if !is_exact && lie_apart(a, b) {
        return Answer::No;
    }
    match (at_largest(a), at_largest(b)) {
        (Some(left), Some(right)) => match left.meets(&right, &mut Budget::for_search()) {
            Answer::Yes if !is_exact => Answer::Unknown,
            answer => answer,
        },
        _ => Answer::Unknown,
    }
}

/// Whether two positions of the view are one element.
#[must_use]
pub fn view_overlaps_itself(view: &ViewSpec) -> Answer {
    if is_empty(view) {
        return Answer::No;
    }
    let mut axes = view.shape.iter().zip(view.strides.iter());
    let surely_filled = view.shape.iter().all(|len| len.min_value() > 0);
    if surely_filled && axes.any(|(len, stride)| stride.is(0) && len.min_value() > 1) {
        return Answer::Yes;
    }
    let is_exact = view.is_concrete();
    if !is_exact && is_nested(view) {
        return Answer::No;
    }
    match at_largest(view).map(|set| set.overlaps_itself(&mut Budget::for_search())) {
        Some(Answer::Yes) if !is_exact => Answer::Unknown,
        Some(answer) => answer,
        None => Answer::Unknown,
    }
}

fn is_empty(view: &ViewSpec) -> bool {
    view.shape.iter().any(|len| len.is(0))
}

/// The elements with each length at its largest; `None` if strides or offset are symbolic.
fn at_largest(view: &ViewSpec) -> Option<Strided> {
    let axes: Vec<(i64, i64)> = view.shape.max_shape().into_iter().zip(view.strides.as_const()?).collect();
    Strided::view(view.offset.as_const()?, &axes)
}

fn simple(dim: Dim) -> Dim {
    match dim {
        Dim::Const(_) => dim,
        Dim::Expr(expr) => Dim::from(simplify(&expr)),
    }
}

/// The first and the last element; `None` if the direction of some axis is not known.
fn ends(view: &ViewSpec) -> Option<(Dim, Dim)> {
    let (mut first, mut last) = (view.offset.clone(), view.offset.clone());
    for (len, stride) in view.shape.iter().zip(view.strides.iter()) {
        let way = &(len - &Dim::Const(1)) * stride;
        if stride.min_value() >= 0 {
            last = &last + &way;
        } else if stride.max_value() <= 0 {
            first = &first + &way;
        } else {
            return None;
        }
    }
    Some((first, last))
}

fn lie_apart(a: &ViewSpec, b: &ViewSpec) -> bool {
    let (Some((a_first, a_last)), Some((b_first, b_last))) = (ends(a), ends(b)) else { return false };
    let is_before = |last: &Dim, first: &Dim| simple(first - last).min_value() > 0;
    is_before(&a_last, &b_first) || is_before(&b_last, &a_first)
}

/// Whether each stride steps over all that the smaller ones reach.
fn is_nested(view: &ViewSpec) -> bool {
    let mut axes: Vec<(Dim, &Dim)> = Vec::new();
    for (len, stride) in view.shape.iter().zip(view.strides.iter()).filter(|(len, _)| !len.is(1)) {
        match (stride.min_value() > 0, stride.max_value() < 0) {
            (true, _) => axes.push((stride.clone(), len)),
            (_, true) => axes.push((simple(&Dim::Const(0) - stride), len)),
            _ => return false,
        }
    }
    axes.sort_by_key(|(stride, _)| stride.max_value());
    let mut reach = Dim::Const(0);
    axes.into_iter().all(|(stride, len)| {
        let steps_over = simple(&stride - &reach).min_value() > 0;
        reach = &reach + &(&stride * &(len - &Dim::Const(1)));
        steps_over
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::UOp;
    use crate::ir::Shape;

    fn view(shape: &[Dim], strides: &[Dim], offset: Dim) -> ViewSpec {
        ViewSpec { shape: Shape::from(shape), strides: Shape::from(strides), offset }
    }

    #[test]
    fn concrete_views_are_decided() {
        let storage = ViewSpec::of_storage([16]);
        let every_second = |start| storage.slice(0, Some(start), None, 2).unwrap();
        assert_eq!(views_meet(&every_second(0), &every_second(1)), Answer::No);
        assert_eq!(views_meet(&every_second(0), &every_second(4)), Answer::Yes);
        assert_eq!(view_overlaps_itself(&every_second(1)), Answer::No);
        assert_eq!(view_overlaps_itself(&storage.unfold(0, 5, 1).unwrap()), Answer::Yes);
        assert_eq!(view_overlaps_itself(&storage.unfold(0, 5, 5).unwrap()), Answer::No);
    }

    #[test]
    fn what_is_kept_and_what_is_appended_lie_apart_whatever_the_position() {
        let p = Dim::from(UOp::variable("p", 0, 15));
        let (width, one) = (Dim::Const(8), Dim::Const(1));
        let strides = [width.clone(), one.clone()];
        let kept = view(&[p.clone(), width.clone()], &strides, Dim::Const(0));
        let appended = view(&[one.clone(), width.clone()], &strides, &p * &width);
        assert_eq!(views_meet(&kept, &appended), Answer::No);
        let before = view(&[one, width.clone()], &strides, &(&p - &Dim::Const(1)) * &width);
        assert_eq!(views_meet(&kept, &before), Answer::Unknown);
        assert_eq!(view_overlaps_itself(&kept), Answer::No);
    }

    #[test]
    fn symbolic_strides_that_nest_do_not_overlap() {
        let n = Dim::from(UOp::variable("n", 1, 9));
        let square = view(&[n.clone(), n.clone()], &[n.clone(), Dim::Const(1)], Dim::Const(0));
        assert_eq!(view_overlaps_itself(&square), Answer::No);
        let transposed = view(&[n.clone(), n.clone()], &[Dim::Const(1), n.clone()], Dim::Const(0));
        assert_eq!(view_overlaps_itself(&transposed), Answer::No);
        let windows = view(&[n.clone(), n], &[Dim::Const(1), Dim::Const(1)], Dim::Const(0));
        assert_eq!(view_overlaps_itself(&windows), Answer::Unknown);
    }
}
