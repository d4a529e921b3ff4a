//! The slow model of views, and properties that hold trackers to it.
//!
//! The model of a view is its list of element numbers in row-major order, `None` where void; each movement op is done to the
//! list by moving entries, without strides. A tracker must agree at every position.

use proptest::prelude::*;
use rustc_hash::FxHashMap;

use super::dims::at_most;
use super::{ShapeTracker, movement_of, track_movement};
use crate::DType;
use crate::ir::{Axes, Dim, Op, Shape, StridedArg, UOp, floor_div, floor_mod, postorder};

/// Entries in row-major order.
#[derive(Clone, Debug)]
struct Model {
    shape: Vec<i64>,
    elements: Vec<Option<i64>>,
}

fn positions(shape: &[i64]) -> Vec<Vec<i64>> {
    let mut all = vec![vec![]];
    for &len in shape {
        all = all.into_iter().flat_map(|head| (0..len).map(move |i| [&head[..], &[i]].concat())).collect();
    }
    all
}

impl Model {
    fn memory(shape: &[i64]) -> Model {
        Model { shape: shape.to_vec(), elements: (0..shape.iter().product()).map(Some).collect() }
    }

    fn at(&self, position: &[i64]) -> Option<i64> {
        let flat = position.iter().zip(&self.shape).fold(0, |flat, (i, len)| flat * len + i);
        self.elements[flat as usize]
    }

    fn filled(&self, shape: Vec<i64>, from: impl Fn(&[i64]) -> Option<Vec<i64>>) -> Model {
        let elements = positions(&shape).iter().map(|position| self.at(&from(position)?)).collect();
        Model { shape, elements }
    }

    fn apply(&self, step: &Step) -> Model {
        match step {
            Step::Reshape(to) => Model { shape: to.clone(), elements: self.elements.clone() },
            Step::Permute(order) => {
                let shape = order.iter().map(|&axis| self.shape[axis as usize]).collect();
                self.filled(shape, |position| {
                    let mut from = vec![0; position.len()];
                    order.iter().zip(position).for_each(|(&axis, &i)| from[axis as usize] = i);
                    Some(from)
                })
            }
            Step::Expand(to) => self.filled(to.clone(), |position| {
                Some(position.iter().zip(&self.shape).map(|(&i, &len)| if len == 1 { 0 } else { i }).collect())
            }),
            Step::Pad(padding) => {
                let shape = self.shape.iter().zip(padding).map(|(len, (before, after))| len + before + after).collect();
                self.filled(shape, |position| {
                    let from: Vec<i64> = position.iter().zip(padding).map(|(i, (before, _))| i - before).collect();
                    from.iter().zip(&self.shape).all(|(i, len)| (0..*len).contains(i)).then_some(from)
                })
            }
            Step::Shrink(bounds) => {
                let shape = bounds.iter().map(|(start, end)| end - start).collect();
                self.filled(shape, |position| {
                    Some(position.iter().zip(bounds).map(|(i, (start, _))| i + start).collect())
                })
            }
            Step::Flip(axes) => self.filled(self.shape.clone(), |position| {
                let mirrored = |axis: usize| self.shape[axis] - 1 - position[axis];
                let from = |axis| if axes.contains(&(axis as u8)) { mirrored(axis) } else { position[axis] };
                Some((0..position.len()).map(from).collect())
            }),
            Step::AsStrided(shape, strides, offset) => {
                let element =
                    |position: Vec<i64>| offset + position.iter().zip(strides).map(|(i, s)| i * s).sum::<i64>();
                let elements = positions(shape).into_iter().map(|at| self.elements[element(at) as usize]).collect();
                Model { shape: shape.clone(), elements }
            }
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Reshape(Vec<i64>),
    Permute(Vec<u8>),
    Expand(Vec<i64>),
    Pad(Vec<(i64, i64)>),
    Shrink(Vec<(i64, i64)>),
    Flip(Vec<u8>),
    AsStrided(Vec<i64>, Vec<i64>, i64),
}

fn dims(pairs: &[(i64, i64)]) -> Vec<(Dim, Dim)> {
    pairs.iter().map(|&(a, b)| (Dim::Const(a), Dim::Const(b))).collect()
}

fn track(tracker: &ShapeTracker, step: &Step) -> ShapeTracker {
    match step {
        Step::Reshape(to) => tracker.reshape(&to[..].into()),
        Step::Permute(order) => tracker.permute(order),
        Step::Expand(to) => tracker.expand(&to[..].into()),
        Step::Pad(padding) => tracker.pad(&dims(padding)),
        Step::Shrink(bounds) => tracker.shrink(&dims(bounds)),
        Step::Flip(axes) => tracker.flip(&axes.iter().copied().collect::<Axes>()),
        Step::AsStrided(shape, strides, offset) => tracker.as_strided(&StridedArg {
            shape: shape[..].into(),
            strides: strides[..].into(),
            offset: Dim::Const(*offset),
        }),
    }
}

/// A step that fits the shape, chosen by random numbers.
fn step(shape: &[i64], choice: u8, random: &[u32]) -> Step {
    let numel: i64 = shape.iter().product();
    let pick = |k: usize, bound: i64| random[k % random.len()] as i64 % bound.max(1);
    match choice % 8 {
        0 | 1 => Step::Reshape(factored(numel, random)),
        2 => {
            let mut order: Vec<u8> = (0..shape.len() as u8).collect();
            for k in 1..order.len() {
                order.swap(k, pick(k, k as i64 + 1) as usize);
            }
            Step::Permute(order)
        }
        3 => Step::Expand(
            (0..shape.len()).map(|k| if shape[k] == 1 && numel < 200 { 1 + pick(k, 3) } else { shape[k] }).collect(),
        ),
        4 if numel < 150 => Step::Pad((0..shape.len()).map(|k| (pick(k, 3), pick(k + 1, 3))).collect()),
        5 => Step::Shrink(
            (0..shape.len())
                .map(|k| {
                    let start = pick(k, shape[k]);
                    (start, start + 1 + pick(k + 2, shape[k] - start))
                })
                .collect(),
        ),
        6 if numel > 0 => {
            let lens: Vec<i64> = (0..pick(0, 4) as usize).map(|k| 1 + pick(k + 1, 4)).collect();
            let strides: Vec<i64> =
                (0..lens.len()).map(|k| pick(k + 2, 1 + (numel - 1) / (4 * lens.len() as i64))).collect();
            let reach: i64 = lens.iter().zip(&strides).map(|(len, stride)| (len - 1) * stride).sum();
            Step::AsStrided(lens, strides, pick(3, numel - reach))
        }
        _ => Step::Flip((0..shape.len() as u8).filter(|&axis| pick(axis as usize, 2) == 0).collect()),
    }
}

fn factored(numel: i64, random: &[u32]) -> Vec<i64> {
    if numel == 0 {
        return vec![0, 1 + random[0] as i64 % 3];
    }
    let (mut left, mut shape) = (numel, vec![]);
    for number in random {
        let divisors: Vec<i64> = (1..=left).filter(|d| left % d == 0).collect();
        let divisor = divisors[*number as usize % divisors.len()];
        shape.push(divisor);
        left /= divisor;
    }
    if left > 1 {
        shape.push(left);
    }
    shape
}

/// The value of an integer expression.
fn evaluate(root: &UOp, known: &FxHashMap<UOp, i64>) -> i64 {
    let mut values: FxHashMap<UOp, i64> = FxHashMap::default();
    for node in postorder(std::slice::from_ref(root)) {
        let operand = |k: usize| values[&node.src()[k]];
        let value = match node.op() {
            _ if known.contains_key(&node) => known[&node],
            Op::Const => node.as_int().expect("constants of indices are integers"),
            Op::Add => operand(0) + operand(1),
            Op::Sub => operand(0) - operand(1),
            Op::Mul => operand(0) * operand(1),
            Op::IDiv => floor_div(operand(0), operand(1)),
            Op::Mod => floor_mod(operand(0), operand(1)),
            Op::Lt => (operand(0) < operand(1)) as i64,
            Op::Ne => (operand(0) != operand(1)) as i64,
            Op::Eq => (operand(0) == operand(1)) as i64,
            Op::Neg => -operand(0),
            Op::Not => 1 - operand(0),
            Op::And => operand(0) & operand(1),
            Op::Or => operand(0) | operand(1),
            Op::Max => operand(0).max(operand(1)),
            Op::Min => operand(0).min(operand(1)),
            Op::Where => {
                if operand(0) != 0 {
                    operand(1)
                } else {
                    operand(2)
                }
            }
            op => unreachable!("{op} in an index"),
        };
        values.insert(node, value);
    }
    values[root]
}

/// The element of every position, by evaluating the tracker's index arithmetic.
fn elements(tracker: &ShapeTracker) -> Vec<Option<i64>> {
    let shape = tracker.shape().as_const().expect("a concrete shape");
    let indices: Vec<UOp> =
        shape.iter().enumerate().map(|(axis, len)| UOp::variable(&format!("i{axis}"), 0, (len - 1).max(0))).collect();
    let (offset, valid) = tracker.to_indexed_uops(&indices);
    let at = |position: Vec<i64>| {
        let known: FxHashMap<UOp, i64> = indices.iter().cloned().zip(position).collect();
        (evaluate(&valid, &known) != 0).then(|| evaluate(&offset, &known))
    };
    positions(&shape).into_iter().map(at).collect()
}

type Program = (Vec<i64>, Vec<(u8, Vec<u32>)>);

fn programs() -> impl Strategy<Value = Program> {
    let step = (0..8u8, prop::collection::vec(0..1000u32, 3..6));
    (prop::collection::vec(1..6i64, 0..4), prop::collection::vec(step, 1..8))
}

fn run(program: &Program) -> (Model, ShapeTracker) {
    let mut model = Model::memory(&program.0);
    let mut tracker = ShapeTracker::from_shape(&program.0[..]);
    for (choice, random) in &program.1 {
        let step = step(&model.shape, *choice, random);
        tracker = track(&tracker, &step);
        model = model.apply(&step);
    }
    (model, tracker)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn trackers_show_the_elements_of_the_model(program in programs()) {
        let (model, tracker) = run(&program);
        prop_assert_eq!(tracker.shape().as_const(), Some(model.shape));
        prop_assert_eq!(elements(&tracker), model.elements.clone(), "{:?}", tracker);
        prop_assert_eq!(elements(&tracker.simplify()), model.elements.clone());
        // The tracker as movement ops again.
        let base = UOp::param(0, DType::F32, program.0.iter().product::<i64>() as u64).reshape(program.0.clone()).contiguous();
        let (below, again) = track_movement(&movement_of(&base, &tracker).expect("known lengths"));
        match below == base {
            true => prop_assert_eq!(elements(&again), model.elements),
            // Nothing of it is left but zeros.
            false => prop_assert!(below.is_const(0) && model.elements.iter().all(Option::is_none)),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn symbolic_trackers_bound_are_concrete_ones(n in 1..7i64, choices in prop::collection::vec(0..9u8, 1..6)) {
        let variable = Dim::from(UOp::variable("n", 1, 6));
        let choices = choices.into_iter().fold(Vec::new(), |mut kept, choice| {
            if choice < 6 || slant_fits(symbolic_program(&variable, &kept).shape(), choice) {
                kept.push(choice);
            }
            kept
        });
        let symbolic = symbolic_program(&variable, &choices).bind_vars(&[("n", n)]).expect("within bounds");
        let concrete = symbolic_program(&Dim::Const(n), &choices);
        // Padding multiplies positions, each of which is evaluated.
        prop_assume!(concrete.shape().numel().max_value() <= 4000);
        prop_assert!(symbolic.is_concrete());
        prop_assert_eq!(symbolic.shape(), concrete.shape());
        prop_assert_eq!(elements(&symbolic), elements(&concrete));
    }
}

/// Memory [6, 4, 3] of which the first n rows are seen, moved about.
fn symbolic_program(n: &Dim, choices: &[u8]) -> ShapeTracker {
    let zero = Dim::Const(0);
    let rows = [(zero.clone(), n.clone()), (zero.clone(), Dim::Const(4)), (zero.clone(), Dim::Const(3))];
    let mut tracker = ShapeTracker::from_shape([6, 4, 3]).shrink(&rows);
    for choice in choices {
        let shape = tracker.shape().clone();
        let all = |dim: &Dim| (Dim::Const(0), dim.clone());
        tracker = match choice {
            0 => tracker.permute(&(0..shape.len() as u8).rev().collect::<Vec<_>>()),
            1 => tracker.reshape(&Shape::from([shape.numel()])),
            2 => tracker.pad(&shape.iter().map(|_| (Dim::Const(1), n.clone())).take(shape.len()).collect::<Vec<_>>()),
            3 => tracker.flip(&(0..shape.len() as u8).collect::<Axes>()),
            4 => {
                let mut bounds: Vec<(Dim, Dim)> = shape.iter().map(all).collect();
                bounds[0].0 = &shape[0] - &Dim::Const(1);
                tracker.shrink(&bounds)
            }
            5 => tracker.reshape(&shape.iter().cloned().chain([Dim::Const(1)]).collect::<Shape>()),
            count => {
                let (shape, strides) = (Shape::from([i64::from(count - 4), 2]), Shape::from([slant(&shape), 2.into()]));
                tracker.as_strided(&StridedArg { shape, strides, offset: zero.clone() })
            }
        };
    }
    tracker
}

/// From an element to the one in the row and in the column behind it, wherever the memory has that.
fn slant(shape: &Shape) -> Dim {
    shape.last().unwrap_or(&Dim::Const(1)) + 1
}

/// Whether there are so many elements (less 4) a slant apart, and the second one behind each, whatever the variables are.
fn slant_fits(shape: &Shape, choice: u8) -> bool {
    at_most(&(&(&slant(shape) * i64::from(choice - 5)) + 3), &shape.numel())
}

#[test]
fn a_diagonal_of_variable_length_is_one_view() {
    let n = Dim::from(UOp::variable("n", 1, 9));
    let (zero, square) = (Dim::Const(0), Shape::from([n.clone(), n.clone()]));
    let whole = [(zero.clone(), n.clone()), (zero.clone(), n.clone())];
    let part = ShapeTracker::from_shape(Shape::from([&n + 2, &n + 1])).shrink(&whole);
    for (base, stride) in [(ShapeTracker::from_shape(square.clone()), &n + 1), (part.permute(&[1, 0]), &n + 2)] {
        let padded = base.reshape(&Shape::from([square.numel()])).pad(&[(zero.clone(), n.clone())]);
        let column =
            padded.reshape(&Shape::from([n.clone(), &n + 1])).shrink(&[whole[0].clone(), (0.into(), 1.into())]);
        let [view] = column.views() else { panic!("more than one view: {column:?}") };
        assert_eq!((view.mask(), view.strides().to_vec()), (None, vec![stride, zero.clone()]));
    }
    // Of a column of [n, 2] and the next row, the second step carries.
    let narrow = ShapeTracker::from_shape(Shape::from([n.clone(), Dim::Const(2)]))
        .shrink(&[(0.into(), n.clone()), (0.into(), 2.into())]);
    let carried = narrow.permute(&[1, 0]).reshape(&Shape::from([&n * 2])).as_strided(&StridedArg {
        shape: Shape::from([n.clone()]),
        strides: Shape::from([2]),
        offset: zero,
    });
    assert!(carried.views().len() > 1);
}

#[test]
fn a_transposed_matrix_flattened_needs_two_views_and_back_one() {
    let transposed = ShapeTracker::from_shape([3, 4]).permute(&[1, 0]);
    let flat = transposed.reshape(&[12].into());
    assert_eq!(flat.views().len(), 2);
    assert_eq!(flat.reshape(&[4, 3].into()), transposed);
    assert!(flat.reshape(&[4, 3].into()).permute(&[1, 0]).is_contiguous());
}

#[test]
fn variables_are_listed_and_bound_within_bounds() {
    let (n, m) = (Dim::from(UOp::variable("n", 1, 6)), Dim::from(UOp::variable("m", 2, 5)));
    let tracker = ShapeTracker::from_shape(Shape::from([n.clone(), m.clone()]));
    assert_eq!(tracker.vars(), [m.to_uop(), n.to_uop()]);
    assert!(!tracker.is_concrete());
    let error = tracker.bind_vars(&[("m", 9)]).unwrap_err();
    assert_eq!(error.to_string(), "variable m is bound to 9, but it lies from 2 to 5");
    let bound = tracker.bind_vars(&[("n", 3), ("m", 4), ("unused", 1)]).expect("within bounds");
    assert_eq!(bound, ShapeTracker::from_shape([3, 4]));
}

#[test]
fn index_arithmetic_comes_out_simple() {
    let variable = |name: &str, len: i64| UOp::variable(name, 0, len - 1);
    let write = |tracker: &ShapeTracker, indices: &[UOp]| {
        let (offset, valid) = tracker.to_indexed_uops(indices);
        (offset.infix(), valid.infix())
    };
    let memory = ShapeTracker::from_shape([3, 4]);
    let (i, j, k) = (variable("i", 3), variable("j", 4), variable("k", 12));
    assert_eq!(write(&memory, &[i.clone(), j.clone()]), ("((i * 4) + j)".to_string(), "True".to_string()));
    let split = memory.permute(&[1, 0]).reshape(&[12].into()).reshape(&[2, 6].into());
    assert_eq!(split.views().len(), 2);
    let flat = &k.idiv(6) * 6 + &k.modulo(6);
    assert_eq!(write(&memory.reshape(&[12].into()), &[flat]).0, "k");
    let padded = ShapeTracker::from_shape([4]).pad(&dims(&[(2, 0)]));
    assert_eq!(write(&padded, &[variable("p", 6)]), ("(p + -2)".to_string(), "(1 < p)".to_string()));
}
