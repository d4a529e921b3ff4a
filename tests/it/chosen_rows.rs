//! Rows that numbers in memory choose: read where they lie (embeddings), and added up where they belong, with numbers that name nothing among them.
//!
//! What is expected is computed here, row by row. The first are loops under one condition and copies by one call (`llvm::guards` and `llvm::fills` of the renderer); of the second threads own rows
//! (`optimize::transforms::owners`). Takes a second.

use warpweft::tensor::ScatterReduce;
use warpweft::{DType, Tensor};

/// So many whole numbers that look random, from -1 to one more than the last row: both ends name nothing.
fn rows(count: i64, of: i64, seed: i64) -> Vec<i64> {
    (0..count).map(|k| (k * 7919 + seed * 104_729 + k * k % 13) % (of + 2) - 1).collect()
}

/// Whole numbers, of which sums are exact.
fn numbers(count: i64) -> Vec<f32> {
    (0..count).map(|k| ((k * 31 + k / 7) % 97) as f32 - 40.0).collect()
}

#[test]
fn rows_are_read_where_they_lie() {
    // Widths below a vector, between two, of whole ones, of a call for a row and beyond what a call copies.
    for width in [1, 3, 8, 15, 31, 32, 33, 52, 64, 100, 129, 257, 1000, 1500] {
        let (count, of) = (5000, 301);
        let (table, chosen) = (numbers(of * width), rows(count, of, width));
        let x = Tensor::from_vec(table.clone(), [of, width]);
        let index = Tensor::from_vec(chosen.clone(), [count]);
        let wanted: Vec<f32> = chosen
            .iter()
            .flat_map(|row| (0..width).map(move |k| (*row, k)))
            .map(|(row, k)| if (0..of).contains(&row) { table[(row * width + k) as usize] } else { 0.0 })
            .collect();
        for dtype in [DType::F32, DType::F16, DType::I64, DType::U8, DType::BOOL] {
            let number = |value: f32| match dtype {
                DType::BOOL => f32::from(value != 0.0),
                DType::U8 => f32::from(value as i32 as u8),
                _ => value,
            };
            let x = if dtype == DType::U8 { x.cast(DType::I32).cast(dtype) } else { x.cast(dtype) };
            x.realize().unwrap();
            let found = x.index_select(0, &index).cast(DType::F32).to_vec::<f32>().unwrap();
            let plain = x.index_select(0, &index);
            plain.realize().unwrap();
            let copied = plain.cast(DType::F32).to_vec::<f32>().unwrap();
            for (k, wanted) in wanted.iter().map(|value| number(*value)).enumerate() {
                assert!(
                    found[k] == wanted && copied[k] == wanted,
                    "{dtype} of width {width}, element {k}: {} and {}, not {wanted}",
                    found[k],
                    copied[k]
                );
            }
        }
    }
}

#[test]
fn elements_are_read_where_they_lie() {
    for (lines, of, count) in [(37, 1713, 500), (3, 70_000, 33_333), (200, 64, 1000)] {
        let (table, chosen) = (numbers(lines * of), rows(lines * count, of, count));
        let x = Tensor::from_vec(table.clone(), [lines, of]);
        let found = x.gather(&Tensor::from_vec(chosen.clone(), [lines, count]), 1).to_vec::<f32>().unwrap();
        for (k, index) in chosen.iter().enumerate() {
            let line = k as i64 / count;
            let wanted = if (0..of).contains(index) { table[(line * of + index) as usize] } else { 0.0 };
            assert_eq!(found[k], wanted, "element {k} of {lines} x {count} of {of}");
        }
    }
}

#[test]
fn rows_are_added_up_where_they_belong() {
    // Rows that threads share evenly and not, and few of them; widths with and without a rest.
    for (of, width) in [(1000, 64), (1001, 100), (301, 101), (10, 128), (9, 333), (7, 50), (3, 100), (77, 1000)] {
        let count = 3000;
        let (values, chosen) = (numbers(count * width), rows(count, of, width));
        let index = Tensor::from_vec(chosen.clone(), [count, 1]).expand([count, width]);
        let source = Tensor::from_vec(values.clone(), [count, width]);
        for (reduce, begin) in [(ScatterReduce::Sum, 3.0f32), (ScatterReduce::Amax, -50.0)] {
            let mut wanted = vec![begin; (of * width) as usize];
            for (k, row) in chosen.iter().enumerate().filter(|(_, row)| (0..of).contains(*row)) {
                for column in 0..width as usize {
                    let (to, from) = (*row as usize * width as usize + column, k * width as usize + column);
                    wanted[to] = match reduce {
                        ScatterReduce::Sum => wanted[to] + values[from],
                        _ => wanted[to].max(values[from]),
                    };
                }
            }
            let x = Tensor::full([of, width], begin).scatter_reduce(0, &index, &source, reduce, true);
            let found = x.to_vec::<f32>().unwrap();
            let wrong = found.iter().zip(&wanted).position(|(found, wanted)| found != wanted);
            assert_eq!(wrong, None, "{reduce:?} of {count} rows of {width} into {of}");
        }
    }
}
