//! Transposed convolutions, and gradients of convolutions in steps by their inputs, against sums: every stride, padding, dilation and number of axes may be computed by
//! phases of its own (`ops/layers/convolution_phases.rs`).
//!
//! Numbers are small integers, of which all sums are exact in `f32`: so results must be equal, and a product that is left out or counted twice shows. Sizes are such that
//! phases are computed apart, but for some of those that the list says are small.

use warpweft::tensor::ConvOptions;
use warpweft::{Result, Tensor};

/// Integers from -3 to 3 that look drawn.
fn drawn(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 40) % 7) as f32 - 3.0
    };
    (0..count).map(|_| next()).collect()
}

/// One spatial axis.
#[derive(Clone, Copy)]
struct Axis {
    len: usize,
    kernel: usize,
    stride: usize,
    padding: usize,
    dilation: usize,
    extra: usize,
}

impl Axis {
    fn result(&self) -> usize {
        (self.len - 1) * self.stride + (self.kernel - 1) * self.dilation + 1 + self.extra - 2 * self.padding
    }
}

/// Of x [batch, channels, ..] with a weight [channels, out / groups, ..].
struct Case {
    batch: usize,
    channels: usize,
    out: usize,
    groups: usize,
    axes: Vec<Axis>,
}

fn product(lengths: impl Iterator<Item = usize>) -> usize {
    lengths.product()
}

impl Case {
    /// The digits of an index in an array of these lengths, last first in memory.
    fn digits(mut index: usize, lengths: &[usize]) -> Vec<usize> {
        let mut digits: Vec<usize> = lengths
            .iter()
            .rev()
            .map(|len| {
                let digit = index % len;
                index /= len;
                digit
            })
            .collect();
        digits.reverse();
        digits
    }

    fn expected(&self, x: &[f32], w: &[f32]) -> Vec<f32> {
        let Case { batch, channels, out, groups, axes } = self;
        let lengths: Vec<usize> = axes.iter().map(|axis| axis.len).collect();
        let kernel: Vec<usize> = axes.iter().map(|axis| axis.kernel).collect();
        let (inputs, taps) = (product(lengths.iter().copied()), product(kernel.iter().copied()));
        let results = product(axes.iter().map(Axis::result));
        let (inside, of_group) = (channels / groups, out / groups);
        let mut y = vec![0.0f32; batch * out * results];
        for (from, tap) in (0..inputs).flat_map(|from| (0..taps).map(move |tap| (from, tap))) {
            let (at, k) = (Case::digits(from, &lengths), Case::digits(tap, &kernel));
            let mut target = Some(0);
            for (number, axis) in axes.iter().enumerate() {
                let o = (at[number] * axis.stride + k[number] * axis.dilation).checked_sub(axis.padding);
                target = target.zip(o.filter(|o| *o < axis.result())).map(|(base, o)| base * axis.result() + o);
            }
            let Some(target) = target else { continue };
            for (image, channel, row) in (0..*batch).flat_map(|image| {
                (0..*channels).flat_map(move |channel| (0..of_group).map(move |row| (image, channel, row)))
            }) {
                let to = (image * out + channel / inside * of_group + row) * results + target;
                y[to] += x[(image * channels + channel) * inputs + from] * w[(channel * of_group + row) * taps + tap];
            }
        }
        y
    }

    fn check(&self) -> Result<()> {
        let Case { batch, channels, out, groups, axes } = self;
        let shape = |first: [usize; 2], each: &dyn Fn(&Axis) -> usize| -> Vec<i64> {
            first.into_iter().chain(axes.iter().map(each)).map(|len| len as i64).collect()
        };
        let (of_x, of_w) =
            (shape([*batch, *channels], &|axis| axis.len), shape([*channels, out / groups], &|axis| axis.kernel));
        let (x, w) = (drawn(of_x.iter().product::<i64>() as usize, 1), drawn(of_w.iter().product::<i64>() as usize, 2));
        let want = self.expected(&x, &w);
        let each = |number: &dyn Fn(&Axis) -> usize| axes.iter().map(|axis| number(axis) as i64).collect::<Vec<i64>>();
        let options = ConvOptions::default()
            .stride(each(&|axis| axis.stride))
            .padding(each(&|axis| axis.padding))
            .dilation(each(&|axis| axis.dilation))
            .groups(*groups as i64);
        let what = format!("{of_x:?}, {of_w:?}, {options:?}");
        let (g, weight) = (Tensor::from_vec(x, of_x), Tensor::from_vec(w, of_w));
        let transposed = g.conv_transpose(&weight, None, &options.clone().output_padding(each(&|axis| axis.extra)));
        assert_eq!(transposed.to_vec::<f32>()?, want, "transposed: {what}");
        // The same sums are the gradient of a convolution by what it reads.
        let input = Tensor::zeros(shape([*batch, *out], &Axis::result));
        let found = input.conv(&weight, None, &options).gradient_with(&g, &[&input])?;
        assert_eq!(found[0].to_vec::<f32>()?, want, "gradient: {what}");
        Ok(())
    }
}

/// [length, kernel, stride, padding, dilation, elements added].
fn axis([len, kernel, stride, padding, dilation, extra]: [usize; 6]) -> Axis {
    Axis { len, kernel, stride, padding, dilation, extra }
}

fn squares(sizes: [usize; 4], axes: [usize; 6]) -> Case {
    let [batch, channels, out, groups] = sizes;
    Case { batch, channels, out, groups, axes: vec![axis(axes); 2] }
}

#[test]
fn squares_by_phases() -> Result<()> {
    // Three of a stride of 2, with and without an element at the end; kernels of 4, 2 and 1; a stride longer than the kernel, and far longer kernels.
    for axes in [
        [20, 3, 2, 1, 1, 1],
        [20, 3, 2, 1, 1, 0],
        [20, 3, 2, 0, 1, 0],
        [20, 4, 2, 1, 1, 0],
        [20, 2, 2, 0, 1, 0],
        [24, 1, 2, 0, 1, 1],
        [20, 5, 2, 2, 1, 1],
        [12, 7, 4, 3, 1, 3],
        [12, 5, 3, 4, 1, 2],
        [16, 2, 3, 0, 1, 1],
        [5, 11, 2, 9, 1, 0],
    ] {
        squares([2, 16, 16, 1], axes).check()?;
    }
    squares([1, 24, 32, 4], [20, 3, 2, 1, 1, 1]).check()?;
    squares([1, 32, 32, 32], [32, 5, 2, 2, 1, 1]).check()
}

#[test]
fn dilated_phases() -> Result<()> {
    for axes in
        [[16, 3, 2, 1, 3, 1], [16, 3, 2, 2, 2, 1], [12, 3, 4, 1, 2, 1], [12, 4, 3, 2, 2, 0], [10, 3, 2, 7, 5, 0]]
    {
        squares([2, 16, 16, 1], axes).check()?;
    }
    Ok(())
}

#[test]
fn one_axis_three_axes_and_unlike_axes() -> Result<()> {
    let line = vec![axis([400, 5, 2, 2, 1, 1])];
    Case { batch: 2, channels: 24, out: 24, groups: 1, axes: line }.check()?;
    let cube = vec![axis([6, 3, 2, 1, 1, 1]); 3];
    Case { batch: 1, channels: 16, out: 16, groups: 1, axes: cube }.check()?;
    let unlike = vec![axis([18, 3, 1, 1, 1, 0]), axis([20, 5, 3, 2, 1, 2])];
    Case { batch: 2, channels: 16, out: 16, groups: 2, axes: unlike }.check()
}

#[test]
fn small_ones() -> Result<()> {
    for axes in [[3, 3, 2, 1, 1, 1], [1, 3, 2, 1, 1, 1], [2, 2, 3, 0, 1, 0], [4, 4, 2, 1, 1, 1], [3, 2, 2, 0, 3, 1]] {
        squares([1, 2, 3, 1], axes).check()?;
    }
    Ok(())
}
