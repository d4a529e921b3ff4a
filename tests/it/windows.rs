//! Windows that few results share, as those of depthwise convolutions, against their definition: frames for whole images and for parts of them, tiles of rows, in one, two and
//! three axes, with steps, gaps, several results of a channel, and other types of numbers.

use warpweft::tensor::ConvOptions;
use warpweft::{DType, Result, Tensor};

/// Whole numbers from -4 to 4: sums of their products are exact in every type.
fn numbers(count: usize, seed: usize) -> Vec<f64> {
    (0..count).map(|k| ((k * 37 + seed * 11 + k / 7) % 9) as f64 - 4.0).collect()
}

/// A convolution of images [batch, channels, ..] with windows [results, channels / groups, ..].
struct Case {
    image: &'static [usize],
    window: &'static [usize],
    stride: &'static [i64],
    padding: &'static [i64],
    dilation: &'static [i64],
    groups: usize,
}

// tidy: table
const CASES: &[Case] = &[
    Case { image: &[2, 3, 40, 40], window: &[3, 1, 5, 5], stride: &[1], padding: &[2], dilation: &[1], groups: 3 },
    Case { image: &[1, 2, 28, 29], window: &[2, 1, 7, 7], stride: &[1], padding: &[3], dilation: &[1], groups: 2 },
    Case { image: &[1, 2, 37, 50], window: &[2, 1, 3, 3], stride: &[1], padding: &[1], dilation: &[1], groups: 2 },
    Case { image: &[1, 2, 37, 50], window: &[6, 1, 3, 5], stride: &[1], padding: &[1, 4], dilation: &[1], groups: 2 },
    Case { image: &[1, 2, 40, 40], window: &[2, 1, 5, 5], stride: &[1], padding: &[4], dilation: &[2], groups: 2 },
    Case { image: &[1, 2, 41, 33], window: &[2, 1, 5, 5], stride: &[2, 1], padding: &[2], dilation: &[1], groups: 2 },
    Case { image: &[1, 3, 40, 44], window: &[3, 1, 3, 3], stride: &[2], padding: &[1], dilation: &[1], groups: 3 },
    Case { image: &[1, 4, 30, 30], window: &[4, 2, 5, 5], stride: &[1], padding: &[2], dilation: &[1], groups: 2 },
    Case { image: &[1, 1, 120, 130], window: &[1, 1, 5, 5], stride: &[1], padding: &[2], dilation: &[1], groups: 1 },
    Case { image: &[1, 1, 250, 300], window: &[1, 1, 3, 3], stride: &[1], padding: &[1], dilation: &[1], groups: 1 },
    Case { image: &[1, 2, 40, 40], window: &[2, 1, 5, 5], stride: &[1], padding: &[0], dilation: &[1], groups: 2 },
    Case { image: &[1, 2, 40, 40], window: &[2, 1, 5, 1], stride: &[1], padding: &[2, 0], dilation: &[1], groups: 2 },
    Case { image: &[1, 2, 40, 40], window: &[2, 1, 1, 9], stride: &[1], padding: &[0, 4], dilation: &[1], groups: 2 },
    Case { image: &[2, 3, 200], window: &[3, 1, 31], stride: &[1], padding: &[15], dilation: &[1], groups: 3 },
    Case { image: &[2, 3, 200], window: &[3, 1, 17], stride: &[1], padding: &[20], dilation: &[3], groups: 3 },
    // Rows that share a frame.
    Case { image: &[2, 6, 30, 31], window: &[16, 6, 3, 3], stride: &[1], padding: &[1], dilation: &[1], groups: 1 },
    Case { image: &[1, 4, 50, 40], window: &[12, 4, 5, 5], stride: &[1], padding: &[0], dilation: &[2], groups: 1 },
    Case { image: &[2, 8, 33, 32], window: &[20, 4, 3, 3], stride: &[1], padding: &[2], dilation: &[1], groups: 2 },
    Case { image: &[1, 16, 90, 64], window: &[8, 16, 3, 2], stride: &[1], padding: &[1], dilation: &[1], groups: 1 },
    Case { image: &[3, 5, 80], window: &[9, 5, 4], stride: &[1], padding: &[3], dilation: &[1], groups: 1 },
    Case {
        image: &[1, 2, 9, 20, 24],
        window: &[2, 1, 3, 3, 3],
        stride: &[1],
        padding: &[1],
        dilation: &[1],
        groups: 2,
    },
    Case {
        image: &[1, 1, 20, 40, 50],
        window: &[1, 1, 3, 5, 3],
        stride: &[1],
        padding: &[1],
        dilation: &[1],
        groups: 1,
    },
];

/// One number for each of the axes.
fn each(list: &[i64], axes: usize) -> Vec<i64> {
    (0..axes).map(|axis| list[if list.len() == 1 { 0 } else { axis }]).collect()
}

/// The indices along the axes of an array of some lengths.
fn taken_apart(flat: usize, lens: &[usize]) -> Vec<usize> {
    let mut rest = flat;
    let mut indices: Vec<usize> = Vec::new();
    for len in lens.iter().rev() {
        indices.insert(0, rest % len);
        rest /= len;
    }
    indices
}

impl Case {
    fn options(&self) -> ConvOptions {
        let options = ConvOptions::default().stride(self.stride.to_vec()).padding(self.padding.to_vec());
        options.dilation(self.dilation.to_vec()).groups(self.groups as i64)
    }

    /// By definition.
    fn want(&self, x: &[f64], w: &[f64]) -> Vec<f64> {
        let axes = self.image.len() - 2;
        let [stride, padding, dilation] = [self.stride, self.padding, self.dilation].map(|list| each(list, axes));
        let count = |axis: usize| {
            let reach = dilation[axis] * (self.window[axis + 2] as i64 - 1) + 1;
            ((self.image[axis + 2] as i64 + 2 * padding[axis] - reach) / stride[axis] + 1) as usize
        };
        let mut lens = vec![self.image[0], self.window[0]];
        lens.extend((0..axes).map(count));
        let (own, taps) = (self.window[1], self.window[2..].iter().product::<usize>());
        let of_result = |number: usize| {
            let at = taken_apart(number, &lens);
            let first = at[1] / (self.window[0] / self.groups) * own;
            let term = |term: usize| {
                let tap = taken_apart(term % taps, &self.window[2..]);
                let mut index = at[0] * self.image[1] + first + term / taps;
                for axis in 0..axes {
                    let along = at[axis + 2] as i64 * stride[axis] + tap[axis] as i64 * dilation[axis] - padding[axis];
                    let along = usize::try_from(along).ok().filter(|along| *along < self.image[axis + 2])?;
                    index = index * self.image[axis + 2] + along;
                }
                Some(x[index] * w[at[1] * own * taps + term])
            };
            (0..own * taps).filter_map(term).sum()
        };
        (0..lens.iter().product()).map(of_result).collect()
    }

    fn check(&self, dtype: DType) -> Result<()> {
        let x = numbers(self.image.iter().product(), 1);
        let w = numbers(self.window.iter().product(), 2);
        let tensor = |data: &[f64], shape: &[usize]| {
            let shape: Vec<i64> = shape.iter().map(|len| *len as i64).collect();
            Tensor::from_vec(data.iter().map(|x| *x as f32).collect::<Vec<f32>>(), shape).cast(dtype).contiguous()
        };
        let found = tensor(&x, self.image).conv(&tensor(&w, self.window), None, &self.options());
        let found = found.cast(DType::F32).to_vec::<f32>()?;
        let want = self.want(&x, &w);
        assert_eq!(found.len(), want.len(), "{:?}", self.image);
        let wrong = found.iter().zip(&want).position(|(found, want)| f64::from(*found) != *want);
        assert_eq!(wrong, None, "{:?} of {:?}, {dtype:?}", self.window, self.image);
        Ok(())
    }
}

#[test]
fn windows_are_summed_as_defined() -> Result<()> {
    CASES.iter().try_for_each(|case| case.check(DType::F32))
}

#[test]
fn windows_of_other_numbers_are_summed_as_defined() -> Result<()> {
    let types = [DType::F64, DType::I32, DType::F16];
    types.into_iter().try_for_each(|dtype| CASES[..3].iter().try_for_each(|case| case.check(dtype)))
}

/// A number of an image behind a border of one zero.
fn padded(x: &[f64], side: usize, plane: usize, [row, column]: [usize; 2]) -> f64 {
    let is_inside = (1..=side).contains(&row) && (1..=side).contains(&column);
    if is_inside { x[(plane * side + row - 1) * side + column - 1] } else { 0.0 }
}

/// The gradient of a convolution by its windows, of results that fill no whole vectors among others.
#[test]
fn gradients_by_windows_are_summed_as_defined() -> Result<()> {
    let (images, channels, side) = (2usize, 20usize, 12usize);
    let tensor = |data: &[f64], planes: usize| {
        let data: Vec<f32> = data.iter().map(|x| *x as f32).collect();
        Tensor::from_vec(data, [images as i64, planes as i64, side as i64, side as i64])
    };
    let x = numbers(images * channels * side * side, 1);
    for results in [16usize, 20, 34, 37] {
        let g = numbers(images * results * side * side, 3);
        let w = Tensor::zeros([results as i64, channels as i64, 3, 3]);
        let y = tensor(&x, channels).conv(&w, None, &ConvOptions::default().padding(vec![1]));
        let found = y.gradient_with(&tensor(&g, results), &[&w])?[0].to_vec::<f32>()?;
        for (flat, found) in found.iter().enumerate() {
            let [o, c, i, j] = taken_apart(flat, &[results, channels, 3, 3])[..] else { unreachable!("four axes") };
            let of_term = |term: usize| {
                let [b, row, column] = taken_apart(term, &[images, side, side])[..] else { unreachable!("three axes") };
                let window = padded(&x, side, b * channels + c, [row + i, column + j]);
                g[((b * results + o) * side + row) * side + column] * window
            };
            let want: f64 = (0..images * side * side).map(of_term).sum();
            assert_eq!(f64::from(*found), want, "{results} results: {o}, {c}, {i}, {j}");
        }
    }
    Ok(())
}
