//! Random programs of allocations and views: every query of the alias graph against the model.

use super::choices::Choices;
use super::model::{Model, members};
use proptest::prelude::*;
use warpweft_compiler::region::{AliasGraph, Answer, Sett, TensorId};

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
        let source = TensorId(choices.below(self.models.len() as i64) as usize);
        let model = self.models[source.0].clone();
        let rank = model.shape.len();
        let graph = &mut self.graph;
        let (added, made) = match choices.below(8) {
            0 | 1 => {
                let shape = match model.elements.len() {
                    0 => vec![0],
                    count => choices.factored(count as i64),
                };
                (graph.reshape(source, &shape), model.reshape(&shape))
            }
            2 => {
                let mut dims: Vec<usize> = (0..rank).collect();
                for at in 1..rank {
                    dims.swap(at, choices.below(at as i64 + 1) as usize);
                }
                (graph.permute(source, &dims), model.permute(&dims))
            }
            3 if rank > 0 => {
                let dim = choices.below(rank as i64) as usize;
                (graph.reverse(source, &[dim]), model.reverse(dim))
            }
            4 => {
                let mut shape: Vec<i64> =
                    model.shape.iter().map(|&extent| if extent == 1 { 1 + choices.below(3) } else { extent }).collect();
                shape.insert(0, 1 + choices.below(2));
                (graph.expand(source, &shape), model.expand(&shape))
            }
            5 if rank > 0 => {
                let axis = choices.below(rank as i64) as usize;
                let fits = |other: &Model| {
                    other.shape.len() == rank && (0..rank).all(|d| d == axis || other.shape[d] == model.shape[d])
                };
                let others: Vec<usize> = (0..self.models.len()).filter(|&id| fits(&self.models[id])).collect();
                let other = choices.pick(&others);
                let made = Model::concat(&[&model, &self.models[other]], axis);
                (graph.concat(&[source, TensorId(other)], axis), made)
            }
            6 => {
                let setts: Vec<Sett> = model.shape.iter().map(|&extent| choices.sett(extent)).collect();
                let kept: Vec<Vec<i64>> =
                    setts.iter().zip(&model.shape).map(|(sett, &extent)| members(sett, 0, extent)).collect();
                (graph.sample(source, &setts), model.keep(&kept))
            }
            _ => {
                let bounds: Vec<(i64, i64, i64)> = model
                    .shape
                    .iter()
                    .map(|&extent| {
                        let lower = choices.below(extent + 1).min(choices.below(extent + 1));
                        let upper = lower + choices.below(extent - lower + 1).max(choices.below(extent - lower + 1));
                        (lower, upper, 1 + choices.below(3))
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

    fn check(&self) {
        for (a, ours) in self.models.iter().enumerate() {
            let id = TensorId(a);
            let graph = &self.graph;
            assert_eq!(graph.shape(id), Ok(&ours.shape[..]));
            assert_eq!(graph.aliases_itself(id), Ok(Answer::from_bool(ours.aliases_itself())), "{a}: {ours:?}");
            assert_eq!(graph.is_set_contiguous(id), Ok(Answer::from_bool(ours.is_set_contiguous())), "{a}: {ours:?}");
            assert_eq!(graph.is_row_major(id), Ok(Answer::from_bool(ours.is_row_major())), "{a}: {ours:?}");
            assert_eq!(graph.strided(id), Ok(Ok(ours.strided())), "{a}: {ours:?}");
            for allocation in 0..self.models.len() {
                let elements = graph.elements(id, TensorId(allocation)).expect("of the graph").expect("within budget");
                assert_eq!(elements.elements(), ours.in_allocation(allocation), "{a} in {allocation}: {ours:?}");
                assert_eq!(elements.count(), elements.elements().len() as i64);
            }
            for (b, theirs) in self.models.iter().enumerate() {
                let (our_set, their_set) = (ours.set(), theirs.set());
                let meets = Answer::from_bool(!our_set.is_disjoint(&their_set));
                assert_eq!(graph.intersects(id, TensorId(b)), Ok(meets), "{a} and {b}");
                let contains = Answer::from_bool(our_set.is_superset(&their_set));
                assert_eq!(graph.contains(id, TensorId(b)), Ok(contains), "{a} and {b}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn random_programs(numbers in proptest::collection::vec(any::<u32>(), 60..200)) {
        let mut choices = Choices::new(&numbers);
        let mut pair = Pair::default();
        for _ in 0..2 {
            let count = choices.pick(&[1, 6, 12, 24, 60, 72]);
            let shape = choices.factored(count);
            pair.allocate(&shape);
        }
        for _ in 0..8 {
            if pair.models.iter().map(|model| model.elements.len()).max() < Some(400) {
                pair.grow(&mut choices);
            }
        }
        pair.check();
    }

    #[test]
    fn random_strided_views(numbers in proptest::collection::vec(any::<u32>(), 20..60)) {
        let mut choices = Choices::new(&numbers);
        let mut pair = Pair::default();
        pair.allocate(&[60]);
        for _ in 0..3 {
            let shape: Vec<i64> = (0..choices.below(4)).map(|_| 1 + choices.below(5)).collect();
            let strides: Vec<i64> = shape.iter().map(|_| choices.below(13) - 6).collect();
            let reach = |sign: i64| -> i64 {
                shape.iter().zip(&strides).map(|(extent, stride)| ((extent - 1) * stride * sign).max(0)).sum()
            };
            let (lowest, highest) = (reach(-1), 59 - reach(1));
            let added = pair.graph.as_strided(TensorId(0), &shape, &strides, lowest);
            if lowest > highest {
                prop_assert!(added.is_err());
                continue;
            }
            let mut elements = vec![lowest];
            for (&extent, &stride) in shape.iter().zip(&strides) {
                elements = elements.iter().flat_map(|e| (0..extent).map(move |at| e + at * stride)).collect();
            }
            pair.models.push(Model { shape, elements: elements.into_iter().map(|at| (0, at)).collect() });
            pair.grow(&mut choices);
        }
        pair.check();
    }
}
