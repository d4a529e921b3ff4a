//! Sums of very many terms, which go by blocks of them, and what blocks leave over: convolutions of many channels, whose rows fill vectors or do not, their gradients
//! by the weight over all positions of an image, and products of a transposed matrix whose terms are no multiple of a block. Against sums in `f64`.

use warpweft::tensor::ConvOptions;
use warpweft::{Result, Tensor};

/// Numbers within -1 and 1 that look drawn.
fn drawn(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 40) as f32 / (1 << 24) as f32 - 0.5) * 2.0
    };
    (0..count).map(|_| next()).collect()
}

#[track_caller]
fn near(what: &str, found: &[f32], want: &[f64], scale: f64) {
    assert_eq!(found.len(), want.len(), "{what}");
    for (index, (found, want)) in found.iter().zip(want).enumerate() {
        assert!((*found as f64 - want).abs() <= 2e-6 * scale, "{what}, {index}: {found}, not {want}");
    }
}

/// A convolution with a kernel of 3 x 3 and a padding of 1, in groups.
struct Case {
    batch: usize,
    channels: usize,
    side: usize,
    rows: usize,
    groups: usize,
}

impl Case {
    /// Calls with the indices of each product: of the result, of x and of the weight.
    fn products(&self, mut each: impl FnMut(usize, usize, usize)) {
        let Case { batch, channels, side, rows, groups } = *self;
        let (inside, of_group) = (channels / groups, rows / groups);
        for index in 0..batch * rows * side * side {
            let (image, row) = (index / (rows * side * side), index / (side * side) % rows);
            let (y, x) = (index / side % side, index % side);
            for term in 0..inside * 9 {
                let (channel, i, j) = (term / 9, term / 3 % 3, term % 3);
                let (from_y, from_x) = (y + i, x + j);
                if from_y < 1 || from_y > side || from_x < 1 || from_x > side {
                    continue;
                }
                let channel = row / of_group * inside + channel;
                let at = ((image * channels + channel) * side + from_y - 1) * side + from_x - 1;
                each(index, at, row * inside * 9 + term);
            }
        }
    }

    fn check(&self) -> Result<()> {
        let Case { batch, channels, side, rows, groups } = *self;
        let what = format!("{batch} x {channels} x {side}, {rows} rows, {groups} groups");
        let inside = channels / groups;
        let (x, w) = (drawn(batch * channels * side * side, 1), drawn(rows * inside * 9, 2));
        let g = drawn(batch * rows * side * side, 3);
        let (mut result, mut by_x, mut by_w) = (vec![0.0; g.len()], vec![0.0; x.len()], vec![0.0; w.len()]);
        self.products(|index, at, weight| {
            result[index] += x[at] as f64 * w[weight] as f64;
            by_x[at] += g[index] as f64 * w[weight] as f64;
            by_w[weight] += g[index] as f64 * x[at] as f64;
        });
        let image = |channels: usize| [batch, channels, side, side].map(|len| len as i64);
        let (tx, tg) = (Tensor::from_vec(x, image(channels)), Tensor::from_vec(g, image(rows)));
        let tw = Tensor::from_vec(w, [rows, inside, 3, 3].map(|len| len as i64));
        let options = ConvOptions::default().padding(vec![1]).groups(groups as i64);
        let y = tx.conv(&tw, None, &options);
        let of_terms = |terms: usize| (terms as f64).sqrt();
        near(&what, &y.to_vec::<f32>()?, &result, of_terms(inside * 9));
        let gradients = y.gradient_with(&tg, &[&tx, &tw])?;
        near(&format!("{what}, by x"), &gradients[0].to_vec::<f32>()?, &by_x, of_terms(rows / groups * 9));
        near(&format!("{what}, by the weight"), &gradients[1].to_vec::<f32>()?, &by_w, of_terms(batch * side * side));
        Ok(())
    }
}

#[test]
fn convolutions_of_many_channels_and_their_gradients() -> Result<()> {
    // Rows of 7 and 9 fill no vectors; of 12 parts do; of 40 x 40 positions the gradient by the weight has many terms.
    for (batch, channels, side, rows, groups) in
        [(2, 272, 7, 32, 1), (2, 288, 9, 20, 1), (2, 288, 12, 16, 1), (2, 16, 40, 64, 2)]
    {
        Case { batch, channels, side, rows, groups }.check()?;
    }
    Ok(())
}

#[test]
fn results_in_short_rows_have_lanes_along_the_other_operand() -> Result<()> {
    // Of images and of their weights; blocks that overlap (40 and 72 rows, 13 x 13 columns), several images in a block, and rows of a single vector.
    for (batch, channels, side, rows, groups) in
        [(3, 24, 13, 40, 1), (4, 40, 6, 72, 2), (8, 4, 28, 16, 1), (5, 33, 3, 48, 1), (2, 64, 14, 64, 1)]
    {
        Case { batch, channels, side, rows, groups }.check()?;
    }
    Ok(())
}

#[test]
fn terms_that_blocks_leave_over() -> Result<()> {
    // One term is left over of blocks of terms, and several are.
    for (rows, terms, columns) in [(70, 333, 75), (65, 777, 130), (64, 523, 64)] {
        let (x, w) = (drawn(rows * terms, 4), drawn(columns * terms, 5));
        let product = |index: usize| -> f64 {
            let (row, column) = (index / columns, index % columns);
            (0..terms).map(|k| x[row * terms + k] as f64 * w[column * terms + k] as f64).sum()
        };
        let want: Vec<f64> = (0..rows * columns).map(product).collect();
        let tensor = |data: &[f32], lines: usize| Tensor::from_vec(data.to_vec(), [lines as i64, terms as i64]);
        let found = tensor(&x, rows).matmul(&tensor(&w, columns).t()).to_vec::<f32>()?;
        near(&format!("{rows} x {terms} x {columns}"), &found, &want, (terms as f64).sqrt());
    }
    Ok(())
}

#[test]
fn rows_of_tables_and_of_joined_tensors() -> Result<()> {
    // Rows that indices of 8 bytes choose, of which some name none; and tensors joined along rows: each is read under a condition that all lanes share.
    let table = Tensor::from_vec((0..20 * 37).map(|x| x as f32).collect::<Vec<f32>>(), [20, 37]);
    let rows: Vec<i64> = vec![3, 19, 0, 7, 7, 12];
    let found = table.embedding(&Tensor::from_vec(rows.clone(), [6])).to_vec::<f32>()?;
    let want: Vec<f32> = rows.iter().flat_map(|row| (0..37).map(move |k| (row * 37 + k) as f32)).collect();
    assert_eq!(found, want);
    // Columns of another table: what is read for neighbouring lanes lies apart.
    let columns = Tensor::from_vec(rows.clone(), [6]);
    let found = table.t().embedding(&columns).to_vec::<f32>()?;
    let want: Vec<f32> = rows.iter().flat_map(|column| (0..20).map(move |k| (k * 37 + column) as f32)).collect();
    assert_eq!(found, want);
    let parts: Vec<Tensor> = [5, 1, 9].map(|len| table.narrow(0, 2, len)).to_vec();
    let joined = Tensor::cat(&parts.iter().collect::<Vec<_>>(), 0).to_vec::<f32>()?;
    let want: Vec<f32> = [5, 1, 9].iter().flat_map(|len| (2 * 37..(2 + len) * 37).map(|x| x as f32)).collect();
    assert_eq!(joined, want);
    Ok(())
}
