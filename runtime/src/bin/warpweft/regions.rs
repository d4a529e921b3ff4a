//! Cases about views and the sets of elements that they show: no device is needed, and no element is looked at.
//!
//! Each asks a question of a view or of two; where answers are remembered (`view_spec_query`) the repeated question is timed, else the graph
//! of views is made anew for each. A question is too short for the clock alone: a sample is the mean of many.

use warpweft_compiler::region::{AliasGraph, Answer, TensorId};
use warpweft_compiler::view::ViewSpec;
use warpweft_compiler::{DType, UOp};

use crate::bench::{Failure, Times, time};

/// The cases of this file.
pub(crate) const NAMES: &[&str] =
    &["view_spec_query", "alias_tiles_64", "alias_tiles_65536", "alias_rows_columns", "alias_column_diagonal"];

/// Side of the arrays whose rows, columns and diagonals are asked about.
const SIDE: i64 = 4096;

/// Runs a case.
pub(crate) fn run(name: &str, seconds: f64) -> Result<Times, Failure> {
    match name {
        "view_spec_query" => view_spec_query(seconds),
        "alias_rows_columns" => mean(seconds, 50, || rows_columns(SIDE)),
        "alias_column_diagonal" => mean(seconds, 50, || column_diagonal(SIDE)),
        _ => match name.strip_prefix("alias_tiles_") {
            Some(side) => {
                let side: i64 = side.parse()?;
                mean(seconds, 50, || tiles(side))
            }
            None => Err(format!("no case is called {name}").into()),
        },
    }
}

/// Samples that are means of so many calls.
fn mean(seconds: f64, count: usize, mut call: impl FnMut() -> Result<(), Failure>) -> Result<Times, Failure> {
    let times = time(seconds, || (0..count).try_for_each(|_| call()))?;
    let one = |sample: &f64| sample / count as f64;
    Ok(Times { calls: times.calls.iter().map(one).collect(), first: one(&times.first) })
}

/// Shape, strides and offset of a view forty steps above its storage, asked again and again.
fn view_spec_query(seconds: f64) -> Result<Times, Failure> {
    let mut view = UOp::param(0, DType::F32, 64 * 64).reshape([64, 64]);
    for step in 0..40 {
        view = if step % 2 == 0 { view.permute(&[1, 0]) } else { view.flip(&[0]) };
    }
    mean(seconds, 100_000, || match ViewSpec::of_node(std::hint::black_box(&view)) {
        Some(spec) => {
            std::hint::black_box(&spec.strides);
            Ok(())
        }
        None => Err("the view has no strides".into()),
    })
}

fn part(graph: &mut AliasGraph, input: TensorId, bounds: &[(i64, i64)]) -> Result<TensorId, Failure> {
    let (lower, upper): (Vec<i64>, Vec<i64>) = bounds.iter().copied().unzip();
    Ok(graph.slice(input, &lower, &upper, &vec![1; bounds.len()])?)
}

fn expect(found: Answer, wanted: Answer) -> Result<(), Failure> {
    if found == wanted { Ok(()) } else { Err(format!("the answer is {found:?}, and should be {wanted:?}").into()) }
}

/// Tiles of an array: every second row of four against the others, and against those of an inner window.
fn tiles(side: i64) -> Result<(), Failure> {
    let quarter = side / 4;
    let mut graph = AliasGraph::new();
    let array = graph.allocate(&[side, side], 0)?;
    let by_tile = graph.reshape(array, &[quarter, 4, quarter, 4])?;
    let one = part(&mut graph, by_tile, &[(0, quarter), (0, 2), (0, quarter), (0, 2)])?;
    let other = part(&mut graph, by_tile, &[(0, quarter), (2, 4), (0, quarter), (0, 2)])?;
    let window = part(&mut graph, array, &[(1, side - 3), (1, side - 3)])?;
    let inner = graph.reshape(window, &[quarter - 1, 4, quarter - 1, 4])?;
    let inner = part(&mut graph, inner, &[(0, quarter - 1), (0, 2), (0, quarter - 1), (0, 2)])?;
    expect(graph.intersects(one, other)?, Answer::No)?;
    expect(graph.intersects(one, inner)?, Answer::Yes)
}

fn rows_columns(side: i64) -> Result<(), Failure> {
    let mut graph = AliasGraph::new();
    let array = graph.allocate(&[side, side], 0)?;
    let row = part(&mut graph, array, &[(3, 4), (0, side)])?;
    let column = part(&mut graph, array, &[(0, side), (5, 6)])?;
    let above = part(&mut graph, array, &[(0, 3), (6, side)])?;
    expect(graph.intersects(row, column)?, Answer::Yes)?;
    expect(graph.intersects(column, above)?, Answer::No)
}

fn column_diagonal(side: i64) -> Result<(), Failure> {
    let mut graph = AliasGraph::new();
    let array = graph.allocate(&[side, side], 0)?;
    let flat = graph.reshape(array, &[side * side])?;
    let column = part(&mut graph, array, &[(0, side), (5, 6)])?;
    let above = part(&mut graph, array, &[(0, 3), (6, side)])?;
    let diagonal = graph.slice(flat, &[0], &[side * side], &[side + 1])?;
    expect(graph.intersects(column, diagonal)?, Answer::Yes)?;
    expect(graph.intersects(above, diagonal)?, Answer::No)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_have_their_answers() {
        for side in [64, 65_536] {
            tiles(side).unwrap();
            rows_columns(side).unwrap();
            column_diagonal(side).unwrap();
        }
    }
}
