//! 1,797 handwritten digits of 8 x 8 pixels (see `runtime/data/README.md` for their credit), and the same split of them in every run.

use std::io::Read;

use warpweft::Tensor;

pub(crate) type Failure = Box<dyn std::error::Error>;

pub(crate) const PIXELS: usize = 64;
pub(crate) const SEED: u64 = 7;

/// The data: pixels from 0 to 1, and which digit each is.
pub(crate) struct Digits {
    pub(crate) pixels: Vec<f32>,
    pub(crate) labels: Vec<i32>,
}

impl Digits {
    pub(crate) fn read() -> Result<Digits, Failure> {
        let packed = include_bytes!("../../data/digits.csv.gz");
        let mut text = String::new();
        flate2::read::GzDecoder::new(&packed[..]).read_to_string(&mut text)?;
        let mut digits = Digits { pixels: Vec::new(), labels: Vec::new() };
        for line in text.lines() {
            let numbers: Vec<i32> = line.split(',').map(str::parse).collect::<Result<_, _>>()?;
            let [pixels @ .., label] = &numbers[..] else { return Err("an empty line in the digits".into()) };
            digits.pixels.extend(pixels.iter().map(|&pixel| pixel as f32 / 16.0));
            digits.labels.push(*label);
        }
        Ok(digits)
    }

    /// Numbers of the digits for training and for the test: four fifths, and the rest.
    pub(crate) fn split(&self) -> (Vec<usize>, Vec<usize>) {
        let mut order: Vec<usize> = (0..self.labels.len()).collect();
        shuffle(&mut order, &mut SEED.clone());
        let cut = order.len() * 4 / 5;
        let test = order.split_off(cut);
        (order, test)
    }

    pub(crate) fn images(&self, numbers: &[usize]) -> Tensor {
        let pixels: Vec<f32> =
            numbers.iter().flat_map(|&digit| self.pixels[digit * PIXELS..][..PIXELS].iter().copied()).collect();
        Tensor::from_vec(pixels, [numbers.len() as i64, 1, 8, 8])
    }

    pub(crate) fn targets(&self, numbers: &[usize]) -> Tensor {
        let labels: Vec<i32> = numbers.iter().map(|&digit| self.labels[digit]).collect();
        Tensor::from_vec(labels, [numbers.len() as i64])
    }
}

/// Fisher and Yates' shuffle, with SplitMix64's numbers: the same order on every machine.
pub(crate) fn shuffle(order: &mut [usize], seed: &mut u64) {
    for last in (1..order.len()).rev() {
        *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = *seed;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        order.swap(last, ((bits ^ (bits >> 31)) % (last as u64 + 1)) as usize);
    }
}
