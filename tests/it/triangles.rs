//! Reductions of which a comparison of indices hides a part: sums, extremes and products over triangles and bands of matrices. What is hidden is infinite and
//! no number, and must not be seen; what zero times it makes must be. The expectations are computed here, element by element, from the definition.

use warpweft::{DType, Dim, Result, Tensor, Var};

const SIZES: [(usize, usize); 6] = [(1, 40), (70, 33), (64, 1000), (300, 257), (40, 64), (3, 2048)];

/// Whether the columns from `low` to `high` diagonals beside the main one count.
#[derive(Clone, Copy, Debug)]
struct Band {
    low: i64,
    high: i64,
}

const BANDS: [Band; 6] = [
    Band { low: i64::MIN / 4, high: 0 },
    Band { low: 0, high: i64::MAX / 4 },
    Band { low: -20, high: 3 },
    Band { low: 2, high: i64::MAX / 4 },
    Band { low: i64::MIN / 4, high: -30 },
    Band { low: 50, high: 55 },
];

impl Band {
    fn sees(self, row: usize, column: usize) -> bool {
        let distance = column as i64 - row as i64;
        self.low <= distance && distance <= self.high
    }

    /// As a tensor of bools.
    fn mask(self, rows: &Dim, columns: usize) -> Tensor {
        let row = Tensor::iota(rows).unsqueeze(1).cast(DType::I64);
        let distance = Tensor::iota(columns as i64).cast(DType::I64).unsqueeze(0) - row;
        distance.ge(self.low) & distance.le(self.high)
    }
}

/// Numbers that differ, between -1 and 1; where they are hidden, infinities and NaN.
fn numbers(band: Band, rows: usize, columns: usize) -> Vec<f32> {
    let number = |index: usize| match band.sees(index / columns, index % columns) {
        true => ((index * 37 + 11) % 101) as f32 / 50.5 - 1.0,
        false => [f32::INFINITY, f32::NAN, f32::NEG_INFINITY][index % 3],
    };
    (0..rows * columns).map(number).collect()
}

/// For each row, what is seen of it.
fn seen(data: &[f32], band: Band, columns: usize) -> Vec<Vec<f64>> {
    let of_row = |(row, line): (usize, &[f32])| {
        let seen = line.iter().enumerate().filter(|(column, _)| band.sees(row, *column));
        seen.map(|(_, x)| f64::from(*x)).collect()
    };
    data.chunks(columns).enumerate().map(of_row).collect()
}

#[track_caller]
fn check(what: &str, found: &[f32], want: impl Iterator<Item = f64>) {
    let want: Vec<f64> = want.collect();
    assert_eq!(found.len(), want.len(), "{what}");
    for (index, (found, want)) in found.iter().zip(want).enumerate() {
        let is_same = f64::from(*found) == want || (f64::from(*found) - want).abs() <= 1e-5 * want.abs().max(1.0);
        assert!(is_same || found.is_nan() && want.is_nan(), "{what}, row {index}: {found}, not {want}");
    }
}

#[test]
fn sums_and_extremes_see_what_the_mask_leaves() -> Result<()> {
    for (rows, columns) in SIZES {
        for band in BANDS {
            let data = numbers(band, rows, columns);
            let lines = seen(&data, band, columns);
            let x = Tensor::from_vec(data.clone(), [rows as i64, columns as i64]);
            let mask = band.mask(&Dim::from(rows as i64), columns);
            let what = |name: &str| format!("{name} of {rows} x {columns}, {band:?}");
            let sums = mask.where_(&x, 0.0).sum(1).to_vec::<f32>()?;
            check(&what("sums"), &sums, lines.iter().map(|line| line.iter().sum()));
            let most = mask.where_(&x, f32::NEG_INFINITY).max(1).to_vec::<f32>()?;
            let largest = |line: &Vec<f64>| line.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            check(&what("maxima"), &most, lines.iter().map(largest));
            let least = mask.where_(&x * 2.0, f32::INFINITY).min(1).to_vec::<f32>()?;
            let smallest = |line: &Vec<f64>| line.iter().copied().fold(f64::INFINITY, f64::min) * 2.0;
            check(&what("minima"), &least, lines.iter().map(smallest));
            // Down the columns, in all, and of half floats.
            let down = mask.where_(&x, 0.0).sum(0).to_vec::<f32>()?;
            let column = |column: usize| {
                let in_column = (0..rows).filter(move |row| band.sees(*row, column));
                in_column.map(|row| f64::from(data[row * columns + column])).sum()
            };
            check(&what("sums of columns"), &down, (0..columns).map(column));
            let all = mask.where_(&x, 0.0).sum(()).to_vec::<f32>()?;
            check(&what("the sum"), &all, [lines.iter().flatten().sum()].into_iter());
        }
    }
    Ok(())
}

#[test]
fn triangles_have_as_many_rows_as_a_variable_says() -> Result<()> {
    let (variable, columns) = (Var::new("n", 1..=80)?, 90);
    for band in BANDS {
        for rows in [1, 17, 80] {
            let data = numbers(band, rows, columns);
            let n: Dim = variable.bind(rows as i64)?;
            let bytes: Vec<u8> = data.iter().flat_map(|x| x.to_le_bytes()).collect();
            let x = Tensor::from_bytes(Some("CPU"), DType::F32, (&n, columns as i64), &bytes);
            let sums = band.mask(&n, columns).where_(&x, 0.0).sum(1).to_vec::<f32>()?;
            let lines = seen(&data, band, columns);
            check(&format!("{rows} of 80 rows, {band:?}"), &sums, lines.iter().map(|line| line.iter().sum()));
        }
    }
    Ok(())
}

#[test]
fn products_of_triangles_are_those_of_whole_matrices() -> Result<()> {
    let n = 50;
    let lower = Band { low: i64::MIN / 4, high: 0 };
    let whole = Band { low: i64::MIN / 4, high: i64::MAX / 4 };
    let (a, mut b) = (numbers(whole, n, n), numbers(whole, n, n));
    // Zero times it is no number, in the rows above, too; below it counts.
    b[30 * n + 7] = f32::INFINITY;
    let [left, right] = [&a, &b].map(|data| Tensor::from_vec(data.clone(), [n as i64, n as i64]));
    let found = left.tril(0).matmul(&right).to_vec::<f32>()?;
    let of_row = |row: usize, k: usize| if lower.sees(row, k) { f64::from(a[row * n + k]) } else { 0.0 };
    let at = |index: usize| (0..n).map(|k| of_row(index / n, k) * f64::from(b[k * n + index % n])).sum();
    check("floats", &found, (0..n * n).map(at));
    // Of integers nothing is infinite.
    let whole_number = |x: &f32| if x.is_finite() { (x * 40.0) as i32 } else { 3 };
    let [a, b] = [&a, &b].map(|data| data.iter().map(whole_number).collect::<Vec<i32>>());
    let [left, right] = [&a, &b].map(|data| Tensor::from_vec(data.clone(), [n as i64, n as i64]));
    let found = left.tril(0).matmul(&right).to_vec::<i32>()?;
    let at =
        |index: usize| (0..n).filter(|k| *k <= index / n).map(|k| a[index / n * n + k] * b[k * n + index % n]).sum();
    assert_eq!(found, (0..n * n).map(at).collect::<Vec<i32>>());
    Ok(())
}
