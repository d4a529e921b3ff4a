//! Sums of products in Einstein's notation: `bij,bjk->bik`.
//!
//! Letters name axes; one that the result lacks is summed over, one that an operand names twice takes its diagonal, `...` stands for
//! axes that broadcast. Operands are joined two at a time from the left, each pair summed over what no later one needs.

use super::diagonals::diagonal;
use super::matmul::sum_of_products;
use super::movement::reorder;
use super::reduce::along;
use super::shapes::{broadcast_only, common_dtype};
use super::{Built, fail};
use crate::UOp;
use crate::ir::{Dim, ReduceOp, Shape};

/// A named axis: a letter, or one of those that `...` stands for, counted from the last.
type Label = char;

/// Names for the axes of `...`, outside of what an equation can hold.
const ELLIPSIS: u32 = 0xE000;

/// Labels of the operands and of the result.
struct Equation {
    operands: Vec<Vec<Label>>,
    result: Vec<Label>,
}

/// Sum of products by an equation.
pub fn einsum(equation: &str, operands: &[UOp]) -> Built {
    let parsed = parse(equation, operands)?;
    let dtype = common_dtype(operands)?;
    let mut terms = Vec::with_capacity(operands.len());
    for (x, labels) in operands.iter().zip(&parsed.operands) {
        terms.push(take_diagonals(&x.cast(dtype), labels)?);
    }
    let mut rest = terms.into_iter();
    let Some(mut term) = rest.next() else { fail!("needs one operand at least") };
    let mut rest: Vec<Term> = rest.collect();
    while !rest.is_empty() {
        let next = rest.remove(0);
        let needed =
            |label: &Label| parsed.result.contains(label) || rest.iter().any(|later| later.labels.contains(label));
        term = join(&term, &next, needed)?;
    }
    let summed: Vec<usize> = (0..term.labels.len()).filter(|&k| !parsed.result.contains(&term.labels[k])).collect();
    if !summed.is_empty() {
        let wide = if dtype.is_float() { crate::dtype::lattice::accumulate(dtype) } else { dtype };
        let kept = term.labels.iter().filter(|label| parsed.result.contains(label)).copied().collect();
        term = Term { value: along(&term.value.cast(wide), ReduceOp::Add, &summed, false).cast(dtype), labels: kept };
    }
    let position = |label: &Label| term.labels.iter().position(|other| other == label).unwrap_or(0);
    let order: Vec<usize> = parsed.result.iter().map(position).collect();
    Ok(reorder(&term.value, &order))
}

/// An operand whose labels are all different.
struct Term {
    value: UOp,
    labels: Vec<Label>,
}

fn parse(equation: &str, operands: &[UOp]) -> Built<Equation> {
    let text: String = equation.chars().filter(|letter| !letter.is_whitespace()).collect();
    let (left, right) = match text.split_once("->") {
        Some((left, right)) => (left, Some(right)),
        None => (text.as_str(), None),
    };
    let parts: Vec<&str> = left.split(',').collect();
    if parts.len() != operands.len() || operands.is_empty() {
        fail!("`{equation}` names {} operands, and {} are given", parts.len(), operands.len());
    }
    let mut labels = Vec::with_capacity(parts.len());
    let mut hidden = 0;
    for (part, x) in parts.iter().zip(operands) {
        let named = part.chars().filter(|letter| *letter != '.').count();
        let rank = x.shape().len();
        let rest = rank.checked_sub(named).filter(|&rest| rest == 0 || part.contains("..."));
        let Some(rest) = rest else { fail!("`{part}` names {named} axes of {}, which has {rank}", x.shape()) };
        hidden = hidden.max(if part.contains("...") { rest } else { 0 });
        labels.push(label_axes(part, rest)?);
    }
    let result = match right {
        Some(right) => label_axes(right, if right.contains("...") { hidden } else { 0 })?,
        None => {
            // By convention: what `...` stands for, then each letter that occurs once, in alphabetical order.
            let all: Vec<Label> = labels.iter().flatten().copied().collect();
            let mut once: Vec<Label> =
                all.iter().copied().filter(|label| all.iter().filter(|&other| other == label).count() == 1).collect();
            once.retain(|label| (*label as u32) < ELLIPSIS);
            once.sort_unstable();
            (0..hidden).rev().filter_map(hidden_label).chain(once).collect()
        }
    };
    for (k, label) in result.iter().enumerate() {
        if result[..k].contains(label) || !labels.iter().any(|operand| operand.contains(label)) {
            fail!("the result of `{equation}` names an axis twice or one that no operand has");
        }
    }
    Ok(Equation { operands: labels, result })
}

fn hidden_label(k: usize) -> Option<Label> {
    char::from_u32(ELLIPSIS + k as u32)
}

/// One label an axis, `...` standing for `hidden` axes.
fn label_axes(part: &str, hidden: usize) -> Built<Vec<Label>> {
    let (before, after) = match part.split_once("...") {
        Some((before, after)) => (before, Some(after)),
        None => (part, None),
    };
    let dots = (0..hidden).rev().filter_map(hidden_label).filter(|_| after.is_some());
    let labels: Vec<Label> = before.chars().chain(dots).chain(after.unwrap_or("").chars()).collect();
    if let Some(letter) = labels.iter().find(|label| (**label as u32) < ELLIPSIS && !label.is_ascii_alphabetic()) {
        fail!("`{letter}` in `{part}` is no letter");
    }
    Ok(labels)
}

/// Axes named twice become one.
fn take_diagonals(x: &UOp, labels: &[Label]) -> Built<Term> {
    let (mut value, mut labels) = (x.clone(), labels.to_vec());
    while let Some((first, second)) = repeated(&labels) {
        if value.shape()[first] != value.shape()[second] {
            fail!("`{}` names axes of lengths {} and {}", labels[first], value.shape()[first], value.shape()[second]);
        }
        value = diagonal(&value, 0, first as i64, second as i64)?;
        let label = labels.remove(second);
        labels.remove(first);
        labels.push(label);
    }
    Ok(Term { value, labels })
}

fn repeated(labels: &[Label]) -> Option<(usize, usize)> {
    (0..labels.len()).find_map(|second| {
        labels[..second].iter().position(|label| *label == labels[second]).map(|first| (first, second))
    })
}

/// The product of two terms, summed over the labels that are not needed.
fn join(a: &Term, b: &Term, needed: impl Fn(&Label) -> bool) -> Built<Term> {
    let mut labels = a.labels.clone();
    labels.extend(b.labels.iter().filter(|label| !a.labels.contains(label)));
    // Summed axes last, where the scheduler looks for them.
    labels.sort_by_key(|label| !needed(label));
    let [left, right] = broadcast_only([&aligned(a, &labels), &aligned(b, &labels)])?;
    let first = labels.iter().position(|label| !needed(label)).unwrap_or(labels.len());
    let axes: Vec<usize> = (first..labels.len()).collect();
    let value = if axes.is_empty() { left * right } else { sum_of_products(&left, &right, &axes) };
    labels.truncate(first);
    Ok(Term { value, labels })
}

/// With an axis for each label, of length 1 where the term lacks it.
fn aligned(term: &Term, labels: &[Label]) -> UOp {
    let own: Vec<usize> =
        labels.iter().filter_map(|label| term.labels.iter().position(|other| other == label)).collect();
    let value = reorder(&term.value, &own);
    let mut lengths = value.shape().iter();
    let shape: Shape = labels
        .iter()
        .map(|label| if term.labels.contains(label) { lengths.next().cloned() } else { None }.unwrap_or(Dim::Const(1)))
        .collect();
    value.reshape(shape)
}
