//! Random programs of allocations and views, and every query of the alias graph about them against the model.
//!
//! Made from bytes, so that a fuzzer and the property tests share one oracle; also the random periodic sets and shapes of other
//! tests.

use crate::alias_model::{Model, members};
use crate::choices::Choices;
use std::fmt::Debug;
use warpweft_compiler::region::{AliasGraph, Answer, NestedStripes, TensorId};

/// One of `0..end`; 0 if there is none.
pub fn below(choices: &mut Choices<'_>, end: i64) -> i64 {
    choices.between(0, (end - 1).max(0))
}

/// Up to three stripes, of lengths up to about `size`.
///
/// # Panics
/// Never: the stripes are made to be stripes.
pub fn nested_stripes(choices: &mut Choices<'_>, size: i64) -> NestedStripes {
    let mut limit = size.max(1);
    let triples: Vec<(i64, i64, i64)> = (0..below(choices, 4))
        .map(|_| {
            let on = below(choices, limit) + i64::from(!choices.once_in(8));
            let off = below(choices, limit);
            let stripe = (on, off + i64::from(on + off == 0), below(choices, 2 * limit) - limit / 2);
            limit = on.max(1);
            stripe
        })
        .collect();
    NestedStripes::from_triples(&triples).expect("lengths are not negative and not both zero")
}

/// A shape of `count` elements.
pub fn factored(choices: &mut Choices<'_>, count: i64) -> Vec<i64> {
    let mut rest = count;
    let mut shape = vec![];
    while shape.len() < 4 && (rest > 1 || choices.once_in(3)) {
        let divisors: Vec<i64> = (1..=rest.min(64)).filter(|divisor| rest % divisor == 0).collect();
        let extent = *choices.one_of(&divisors);
        shape.push(extent);
        rest /= extent;
    }
    if rest > 1 {
        shape.push(rest);
    }
    shape
}

/// A random program of views: every query gives what the model gives.
///
/// # Errors
/// The first query that does not, and its tensor.
pub fn check_program(bytes: &[u8]) -> Result<(), String> {
    let mut choices = Choices::new(bytes);
    let mut pair = Pair::default();
    for _ in 0..2 {
        let count = *choices.one_of(&[60, 1, 6, 12, 24, 72]);
        let shape = factored(&mut choices, count);
        pair.allocate(&shape);
    }
    while choices.is_left() && pair.models.len() < 10 {
        if pair.models.iter().map(|model| model.elements.len()).max() > Some(400) {
            break;
        }
        pair.grow(&mut choices);
    }
    pair.check()
}

/// Random strided views of one allocation, overlapping ones too, and a view of each.
///
/// # Errors
/// The first query that differs from the model, and its tensor.
pub fn check_strided_views(bytes: &[u8]) -> Result<(), String> {
    let mut choices = Choices::new(bytes);
    let mut pair = Pair::default();
    pair.allocate(&[60]);
    for _ in 0..3 {
        let rank = below(&mut choices, 4);
        let dims: Vec<(i64, i64)> =
            (0..rank).map(|_| (1 + below(&mut choices, 5), below(&mut choices, 13) - 6)).collect();
        let (shape, strides): (Vec<i64>, Vec<i64>) = dims.iter().copied().unzip();
        let reach =
            |sign: i64| -> i64 { dims.iter().map(|(extent, stride)| ((extent - 1) * stride * sign).max(0)).sum() };
        let (lowest, highest) = (reach(-1), 59 - reach(1));
        let added = pair.graph.as_strided(TensorId(0), &shape, &strides, lowest);
        if lowest > highest {
            same("as_strided beyond the allocation", added.is_err(), true)?;
            continue;
        }
        let mut elements = vec![lowest];
        for &(extent, stride) in &dims {
            elements = elements.iter().flat_map(|e| (0..extent).map(move |at| e + at * stride)).collect();
        }
        pair.models.push(Model { shape, elements: elements.into_iter().map(|at| (0, at)).collect() });
        pair.grow(&mut choices);
    }
    pair.check()
}

fn same<T: PartialEq + Debug>(about: impl Debug, got: T, want: T) -> Result<(), String> {
    if got == want { Ok(()) } else { Err(format!("{about:?}: got {got:?}, the model says {want:?}")) }
}

/// A graph and the model of each of its tensors.
#[derive(Default)]
struct Pair {
    graph: AliasGraph,
    models: Vec<Model>,
}

impl Pair {
    fn allocate(&mut self, shape: &[i64]) {
        let id = self.graph.allocate(shape, 0).expect("a shape");
        self.models.push(Model::allocate(id.0, shape));
    }

    /// Adds a random view of a random tensor, unless the result would be large.
    fn grow(&mut self, choices: &mut Choices<'_>) {
        let source = TensorId(below(choices, self.models.len() as i64) as usize);
        let model = self.models[source.0].clone();
        let rank = model.shape.len();
        let graph = &mut self.graph;
        let (added, made) = match below(choices, 8) {
            0 | 1 => {
                let shape = match model.elements.len() {
                    0 => vec![0],
                    count => factored(choices, count as i64),
                };
                (graph.reshape(source, &shape), model.reshape(&shape))
            }
            2 => {
                let mut dims: Vec<usize> = (0..rank).collect();
                for at in 1..rank {
                    dims.swap(at, below(choices, at as i64 + 1) as usize);
                }
                (graph.permute(source, &dims), model.permute(&dims))
            }
            3 if rank > 0 => {
                let dim = below(choices, rank as i64) as usize;
                (graph.reverse(source, &[dim]), model.reverse(dim))
            }
            4 => {
                let mut shape: Vec<i64> = model
                    .shape
                    .iter()
                    .map(|&extent| if extent == 1 { 1 + below(choices, 3) } else { extent })
                    .collect();
                shape.insert(0, 1 + below(choices, 2));
                (graph.expand(source, &shape), model.expand(&shape))
            }
            5 if rank > 0 => {
                let axis = below(choices, rank as i64) as usize;
                let fits = |other: &Model| {
                    other.shape.len() == rank && (0..rank).all(|d| d == axis || other.shape[d] == model.shape[d])
                };
                let others: Vec<usize> = (0..self.models.len()).filter(|&id| fits(&self.models[id])).collect();
                let other = *choices.one_of(&others);
                let made = Model::concat(&[&model, &self.models[other]], axis);
                (graph.concat(&[source, TensorId(other)], axis), made)
            }
            6 => {
                let nested: Vec<NestedStripes> =
                    model.shape.iter().map(|&extent| nested_stripes(choices, extent)).collect();
                let kept: Vec<Vec<i64>> =
                    nested.iter().zip(&model.shape).map(|(stripes, &extent)| members(stripes, 0, extent)).collect();
                (graph.sample(source, &nested), model.keep(&kept))
            }
            _ => {
                let bounds: Vec<(i64, i64, i64)> = model
                    .shape
                    .iter()
                    .map(|&extent| {
                        let lower = below(choices, extent + 1).min(below(choices, extent + 1));
                        let upper = lower + below(choices, extent - lower + 1).max(below(choices, extent - lower + 1));
                        (lower, upper, 1 + below(choices, 3))
                    })
                    .collect();
                let kept: Vec<Vec<i64>> =
                    bounds.iter().map(|&(low, high, by)| (low..high).step_by(by as usize).collect()).collect();
                let [lower, upper, step] = [0, 1, 2]
                    .map(|part| bounds.iter().map(|&(low, high, by)| [low, high, by][part]).collect::<Vec<i64>>());
                (graph.slice(source, &lower, &upper, &step), model.keep(&kept))
            }
        };
        assert_eq!(added, Ok(TensorId(self.models.len())), "{made:?}");
        self.models.push(made);
    }

    /// Every query about every tensor and every pair.
    fn check(&self) -> Result<(), String> {
        for (number, model) in self.models.iter().enumerate() {
            self.check_one(TensorId(number), model).map_err(|error| format!("{error}\ntensor {number}: {model:?}"))?;
            for (other, theirs) in self.models.iter().enumerate() {
                let (id, other) = (TensorId(number), TensorId(other));
                let (our_set, their_set) = (model.set(), theirs.set());
                let meets = Answer::from_bool(!our_set.is_disjoint(&their_set));
                same(("intersects", id, other), self.graph.intersects(id, other), Ok(meets))?;
                let contains = Answer::from_bool(our_set.is_superset(&their_set));
                same(("contains", id, other), self.graph.contains(id, other), Ok(contains))?;
            }
        }
        Ok(())
    }

    fn check_one(&self, id: TensorId, model: &Model) -> Result<(), String> {
        let graph = &self.graph;
        same("shape", graph.shape(id), Ok(&model.shape[..]))?;
        same("aliases itself", graph.aliases_itself(id), Ok(Answer::from_bool(model.aliases_itself())))?;
        same("set contiguous", graph.is_set_contiguous(id), Ok(Answer::from_bool(model.is_set_contiguous())))?;
        same("row-major", graph.is_row_major(id), Ok(Answer::from_bool(model.is_row_major())))?;
        same("strided", graph.strided(id), Ok(Ok(model.strided())))?;
        for allocation in 0..self.models.len() {
            let set = graph.elements(id, TensorId(allocation)).map_err(|error| error.to_string())?;
            let set = set.map_err(|error| error.to_string())?;
            same(("elements", allocation), set.elements(), model.in_allocation(allocation))?;
            same(("count", allocation), set.count(), set.elements().len() as i64)?;
        }
        Ok(())
    }
}
