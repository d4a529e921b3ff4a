//! The cost of a question does not grow with tensors whose strides scale together.

use std::time::{Duration, Instant};
use warpweft_compiler::region::{AliasGraph, Answer, TensorId};

/// The quickest of a few runs.
fn quickest(mut run: impl FnMut()) -> Duration {
    let time = |_| {
        let start = Instant::now();
        run();
        start.elapsed()
    };
    (0..20).map(time).min().unwrap_or_default()
}

fn slice(graph: &mut AliasGraph, input: TensorId, lower: &[i64], upper: &[i64]) -> TensorId {
    graph.slice(input, lower, upper, &vec![1; lower.len()]).expect("within bounds")
}

/// Quarter tiles of an array of `n` by `n`, by way of two reshapes, and those of an inner window: they interlock or
/// not.
fn tiles(n: i64) -> (AliasGraph, TensorId, TensorId, TensorId) {
    let mut graph = AliasGraph::new();
    let array = graph.allocate(&[n, n], 0).expect("a shape");
    let by_tile = graph.reshape(array, &[n / 4, 4, n / 4, 4]).expect("same count");
    let one = slice(&mut graph, by_tile, &[0, 0, 0, 0], &[n / 4, 2, n / 4, 2]);
    let one = graph.reshape(one, &[n / 2, n / 2]).expect("same count");
    let other = slice(&mut graph, by_tile, &[0, 2, 0, 0], &[n / 4, 4, n / 4, 2]);
    let window = slice(&mut graph, array, &[1, 1], &[n - 3, n - 3]);
    let inner = graph.reshape(window, &[n / 4 - 1, 4, n / 4 - 1, 4]).expect("same count");
    let inner = slice(&mut graph, inner, &[0, 0, 0, 0], &[n / 4 - 1, 2, n / 4 - 1, 2]);
    (graph, one, other, inner)
}

fn ask_tiles(n: i64) {
    let (graph, one, other, inner) = tiles(n);
    assert_eq!(graph.intersects(one, other), Ok(Answer::No));
    assert_eq!(graph.intersects(one, inner), Ok(Answer::Yes));
    assert_eq!(graph.aliases_itself(one), Ok(Answer::No));
    let common = graph.common(one, inner, TensorId(0)).expect("of the graph").expect("within budget");
    assert_eq!(common.count(), (n / 4 - 1) * (n / 4 - 1));
}

fn ask_lines(n: i64) {
    let mut graph = AliasGraph::new();
    let array = graph.allocate(&[n, n], 0).expect("a shape");
    let flat = graph.reshape(array, &[n * n]).expect("same count");
    let row = slice(&mut graph, array, &[3, 0], &[4, n]);
    let column = slice(&mut graph, array, &[0, 5], &[n, 6]);
    let upper = slice(&mut graph, array, &[0, 6], &[3, n]);
    let diagonal = graph.slice(flat, &[0], &[n * n], &[n + 1]).expect("within bounds");
    assert_eq!(graph.intersects(row, column), Ok(Answer::Yes));
    assert_eq!(graph.intersects(column, upper), Ok(Answer::No));
    assert_eq!(graph.intersects(column, diagonal), Ok(Answer::Yes));
    assert_eq!(graph.intersects(upper, diagonal), Ok(Answer::No));
    let crossing = graph.common(column, diagonal, TensorId(0)).expect("of the graph").expect("within budget");
    assert_eq!(crossing.elements(), [5 * n + 5]);
}

#[test]
fn tiles_and_lines_cost_the_same_at_any_size() {
    for ask in [ask_tiles, ask_lines] {
        let small = quickest(|| ask(64));
        let large = quickest(|| ask(65_536));
        // Some thousand times the elements; noise of a shared machine allowed for.
        assert!(large < small * 5 + Duration::from_micros(200), "{small:?} at 64, {large:?} at 65,536");
    }
}

#[test]
fn a_long_chain_of_views_neither_recurses_nor_slows_down() {
    let mut graph = AliasGraph::new();
    let mut tensor = graph.allocate(&[64, 64], 0).expect("a shape");
    for _ in 0..20_000 {
        tensor = graph.permute(tensor, &[1, 0]).expect("a permutation");
        tensor = graph.reverse(tensor, &[0]).expect("a dimension");
    }
    assert_eq!(graph.is_set_contiguous(tensor), Ok(Answer::Yes));
    let copies = graph.clone_tensor(tensor, None).expect("of the graph");
    assert_eq!(copies.len(), 40_001);
    assert_eq!(graph.intersects(tensor, copies[40_000].1), Ok(Answer::No));
}
