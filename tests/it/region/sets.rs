//! Periodic sets, finite sets, strided sets and regions against lists of integers.

use proptest::prelude::*;
use std::collections::BTreeSet;
use warpweft_compiler::region::draw::{draw_region, draw_stripes};
use warpweft_compiler::region::{Answer, Budget, IntegerSet, NestedStripes, PeriodicSet, Region, Selection, Strided};
use warpweft_tests::alias_model::{flat, indices, members};
use warpweft_tests::alias_programs::{below, factored, nested_stripes};
use warpweft_tests::choices::Choices;

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 40..120)
}

/// Whether each index of the shape is in the region, row-major.
fn is_in(region: &Region) -> Vec<bool> {
    indices(region.shape()).iter().map(|index| region.contains(index)).collect()
}

fn lcm(a: i64, b: i64) -> i64 {
    (1..).map(|factor| a * factor).find(|multiple| multiple % b == 0).expect("a common multiple")
}

fn periodic_elements(set: &PeriodicSet, upper: i64) -> Vec<i64> {
    let nested = set.to_nested_stripes();
    let all: BTreeSet<i64> = nested.iter().flat_map(|stripes| members(stripes, 0, upper)).collect();
    assert_eq!(
        all.len(),
        nested.iter().map(|stripes| members(stripes, 0, upper).len()).sum::<usize>(),
        "setts overlap"
    );
    all.into_iter().collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn sett_counts_and_ranks(bytes in bytes()) {
        let mut choices = Choices::new(&bytes);
        let stripes = nested_stripes(&mut choices, 20);
        let (lower, upper) = (-60, 90);
        let all = members(&stripes, lower, upper);
        prop_assert_eq!(stripes.elements(lower, upper), all.clone());
        prop_assert_eq!(stripes.count(lower, upper), all.len() as i128);
        let before_zero = all.iter().filter(|&&z| z < 0).count() as i64;
        for (position, &z) in all.iter().enumerate() {
            prop_assert_eq!(stripes.nth_on(position as i64 - before_zero), Some(z));
        }
        for from in lower..upper {
            match all.iter().find(|&&z| z >= from) {
                Some(&next) => prop_assert_eq!(stripes.next_on(from), Some(next)),
                None if stripes.is_empty() => prop_assert_eq!(stripes.next_on(from), None),
                None => prop_assert!(stripes.next_on(from) >= Some(upper)),
            }
        }
        let pivot = below(&mut choices, 30) - 10;
        let mirrored: Vec<i64> = members(&stripes.reverse(pivot), lower, upper);
        let expected: Vec<i64> = (lower..upper).filter(|z| stripes.contains_element(pivot - 1 - z)).collect();
        prop_assert_eq!(mirrored, expected);
        let mut rest: Vec<i64> = stripes.complement().iter().flat_map(|piece| members(piece, lower, upper)).collect();
        rest.sort_unstable();
        prop_assert_eq!(rest, (lower..upper).filter(|z| !all.contains(z)).collect::<Vec<_>>());
        prop_assert_eq!(draw_stripes(&stripes, lower, upper).matches('1').count(), all.len());
    }

    #[test]
    fn sett_algebra(bytes in bytes()) {
        let mut choices = Choices::new(&bytes);
        let (a, b) = (nested_stripes(&mut choices, 14), nested_stripes(&mut choices, 14));
        let period = lcm(a.period(), b.period());
        let (ours, theirs): (BTreeSet<_>, BTreeSet<_>) =
            (members(&a, 0, period).into_iter().collect(), members(&b, 0, period).into_iter().collect());
        prop_assert_eq!(a.disjoint(&b), Answer::from_bool(ours.is_disjoint(&theirs)));
        prop_assert_eq!(a.contains(&b), Answer::from_bool(ours.is_superset(&theirs)));
        prop_assert_eq!(a.equivalent(&b), Answer::from_bool(ours == theirs));
        let budget = &mut Budget::for_sets();
        let (a, b) = (PeriodicSet::from(&a), PeriodicSet::from(&b));
        let both = a.intersect(&b, budget).expect("within budget");
        prop_assert_eq!(periodic_elements(&both, period), ours.intersection(&theirs).copied().collect::<Vec<_>>());
        let rest = a.subtract(&b, budget).expect("within budget");
        prop_assert_eq!(periodic_elements(&rest, period), ours.difference(&theirs).copied().collect::<Vec<_>>());
        let union = a.union(&b, budget).expect("within budget");
        prop_assert_eq!(periodic_elements(&union, period), ours.union(&theirs).copied().collect::<Vec<_>>());
        let others = a.complement(budget).expect("within budget");
        prop_assert!(periodic_elements(&others, period).iter().all(|z| !ours.contains(z)));
        prop_assert_eq!(others.elements().count() + a.elements().count(), a.period());
    }

    #[test]
    fn sample_and_fill_are_inverse(bytes in bytes()) {
        let mut choices = Choices::new(&bytes);
        let extent = 1 + below(&mut choices, 80);
        let (set, filter) = (nested_stripes(&mut choices, 20), nested_stripes(&mut choices, 20));
        let selected = members(&filter, 0, extent);
        let selection = Selection::of_stripes(&filter, 0, extent);
        prop_assert_eq!(selection.count(), selected.len() as i64);
        let budget = &mut Budget::for_sets();
        let whole = IntegerSet::from_disjoint(set.pieces(0, extent));
        let ranks = whole.sample(&selection, budget).expect("within budget");
        let expected: Vec<i64> =
            (0..selection.count()).filter(|&rank| set.contains_element(selected[rank as usize])).collect();
        prop_assert_eq!(ranks.elements(), expected.clone());
        let back = ranks.fill(&selection, budget).expect("within budget");
        prop_assert_eq!(back.elements(), expected.iter().map(|&rank| selected[rank as usize]).collect::<Vec<_>>());
    }

    #[test]
    fn strided_sets(bytes in bytes()) {
        let mut choices = Choices::new(&bytes);
        let mut any_view = || {
            let rank = below(&mut choices, 4);
            let mut dim = || (1 + below(&mut choices, 6), below(&mut choices, 41) - 20);
            let dims: Vec<(i64, i64)> = (0..rank).map(|_| dim()).collect();
            let offset = below(&mut choices, 60);
            let mut elements = vec![offset];
            for &(size, stride) in &dims {
                elements = elements.iter().flat_map(|e| (0..size).map(move |at| e + at * stride)).collect();
            }
            (Strided::view(offset, &dims).expect("not empty"), elements)
        };
        let ((a, ours), (b, theirs)) = (any_view(), any_view());
        let budget = &mut Budget::for_sets();
        let (our_set, their_set): (BTreeSet<i64>, BTreeSet<i64>) =
            (ours.iter().copied().collect(), theirs.iter().copied().collect());
        prop_assert_eq!(a.meets(&b, budget), Answer::from_bool(!our_set.is_disjoint(&their_set)));
        prop_assert_eq!(a.overlaps_itself(budget), Answer::from_bool(our_set.len() < ours.len()));
        let (a, b) = (a.to_set(budget).expect("within budget"), b.to_set(budget).expect("within budget"));
        prop_assert_eq!(a.elements(), our_set.iter().copied().collect::<Vec<_>>());
        prop_assert_eq!(a.count(), our_set.len() as i64);
        let rest = a.subtract(&b, budget).expect("within budget");
        prop_assert_eq!(rest.elements(), our_set.difference(&their_set).copied().collect::<Vec<_>>());
        prop_assert_eq!(a.disjoint(&b, budget), Answer::from_bool(our_set.is_disjoint(&their_set)));
        prop_assert_eq!(a.contains_set(&b, budget), Answer::from_bool(our_set.is_superset(&their_set)));
    }

    #[test]
    fn regions(bytes in bytes()) {
        let mut choices = Choices::new(&bytes);
        let rank = below(&mut choices, 4) as usize;
        let shape: Vec<i64> = (0..rank).map(|_| 1 + below(&mut choices, 7)).collect();
        let budget = &mut Budget::for_sets();
        let mut any_region = || {
            let nested: Vec<NestedStripes> = shape.iter().map(|&extent| nested_stripes(&mut choices, extent)).collect();
            Region::product(shape.clone(), &nested)
        };
        let (a, b, c) = (any_region(), any_region(), any_region());
        let a = a.union(&c, budget).expect("within budget");
        let (ours, theirs) = (is_in(&a), is_in(&b));
        prop_assert_eq!(a.count(), ours.iter().filter(|&&on| on).count() as i128);
        let zip = |both: fn(bool, bool) -> bool| -> Vec<bool> {
            ours.iter().zip(&theirs).map(|(&a, &b)| both(a, b)).collect()
        };
        prop_assert_eq!(is_in(&a.intersect(&b, budget).expect("within budget")), zip(|a, b| a && b));
        prop_assert_eq!(is_in(&a.subtract(&b, budget).expect("within budget")), zip(|a, b| a && !b));
        prop_assert_eq!(is_in(&a.union(&b, budget).expect("within budget")), zip(|a, b| a || b));
        prop_assert_eq!(is_in(&a.complement(budget).expect("within budget")), zip(|a, _| !a));
        let to = factored(&mut choices, shape.iter().product());
        prop_assert_eq!(is_in(&a.reshape(&to, budget).expect("within budget")), ours.clone());
        let flat_elements: Vec<i64> = (0..ours.len() as i64).filter(|&at| ours[at as usize]).collect();
        prop_assert_eq!(a.flatten(budget).expect("within budget").elements(), flat_elements);
        let drawing = draw_region(&a);
        let rows = drawing.lines().filter(|line| !line.starts_with('['));
        let drawn: usize = rows.map(|row| row.matches('1').count()).sum();
        prop_assert_eq!(drawn as i128, a.count());
    }

    #[test]
    fn regions_of_other_shapes(bytes in bytes()) {
        let mut choices = Choices::new(&bytes);
        let rank = below(&mut choices, 4) as usize;
        let shape: Vec<i64> = (0..rank).map(|_| 1 + below(&mut choices, 7)).collect();
        let budget = &mut Budget::for_sets();
        let mut any_region = || {
            let nested: Vec<NestedStripes> = shape.iter().map(|&extent| nested_stripes(&mut choices, extent)).collect();
            Region::product(shape.clone(), &nested)
        };
        let (a, c) = (any_region(), any_region());
        let a = a.union(&c, budget).expect("within budget");
        let ours = is_in(&a);
        // Reduce undoes expand, and finds the shadow of any set.
        let mut wide = shape.clone();
        wide.insert(0, 2);
        let expanded = a.expand(&wide);
        prop_assert_eq!(expanded.count(), 2 * a.count());
        prop_assert_eq!(is_in(&expanded.reduce(&shape, budget).expect("within budget")), ours.clone());
        if rank > 0 {
            let dim = below(&mut choices, rank as i64) as usize;
            let mut thin = shape.clone();
            thin[dim] = 1;
            let shadow = a.reduce(&thin, budget).expect("within budget");
            for index in indices(&thin) {
                let any = (0..shape[dim]).any(|at| {
                    let mut from = index.clone();
                    from[dim] = at;
                    ours[flat(&shape, &from)]
                });
                prop_assert_eq!(shadow.contains(&index), any);
            }
            let mirrored = is_in(&a.reverse(&[dim]));
            for (position, mut index) in indices(&shape).into_iter().enumerate() {
                index[dim] = shape[dim] - 1 - index[dim];
                prop_assert_eq!(mirrored[position], ours[flat(&shape, &index)]);
            }
        }
    }
}

#[test]
fn periods_near_the_limit_do_not_wrap() {
    let long = (1i64 << 57) + 1;
    let stripes = NestedStripes::from_triples(&[(1, long - 1, 0)]).expect("a stripe");
    let other = NestedStripes::from_triples(&[(1, long, 1)]).expect("a stripe");
    // Coprime periods: the two meet somewhere, far beyond 64 bits.
    assert_eq!(stripes.disjoint(&other), Answer::No);
    assert_eq!(stripes.count(i64::MIN, i64::MAX), 127);
    assert_eq!(stripes.nth_on(i64::MAX), None);
    let even = NestedStripes::from_triples(&[(1, (1 << 57) - 1, 0)]).expect("a stripe");
    let odd = NestedStripes::from_triples(&[(1, (1 << 40) - 1, 1)]).expect("a stripe");
    assert_eq!(even.disjoint(&odd), Answer::Yes);
    assert!(NestedStripes::from_triples(&[(i64::MAX, 1, 0)]).is_err());
    let view = Strided::view(0, &[(i64::MAX, i64::MAX), (i64::MAX, i64::MAX)]).expect("not empty");
    assert_eq!(view.meets(&view, &mut Budget::for_search()), Answer::Unknown);
}

#[test]
fn runs_that_abut_restart_what_is_nested() {
    let stripes = NestedStripes::from_triples(&[(9, 5, 11), (3, 0, 0), (1, 1, 0)]).expect("stripes");
    assert_eq!(periodic_elements(&PeriodicSet::from(&stripes), 14), [0, 2, 3, 5, 11, 13]);
}
