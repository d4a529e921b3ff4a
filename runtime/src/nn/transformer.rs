//! Layers of transformers.

use std::panic::Location;

use warpweft_compiler::ir::{Dim, Shape};

use super::module::{Module, parameters};
use super::{LayerNorm, Linear};
use crate::tensor::{AttentionOptions, CallError, Length, Result, Tensor, within};

/// Attention of every position to every other, then two linear layers at each position; each is added to what it was made from and
/// normalised, in the order of the original transformer (Vaswani et al., 2017) and of BERT.
#[derive(Clone, Debug)]
pub struct EncoderLayer {
    /// What a position asks for.
    pub query: Linear,
    /// What a position offers.
    pub key: Linear,
    /// What a position gives to who attends to it.
    pub value: Linear,
    /// Joins the heads.
    pub output: Linear,
    /// After attention.
    pub attention_norm: LayerNorm,
    /// To the inner width.
    pub inner: Linear,
    /// Back from it.
    pub outer: Linear,
    /// After the linear layers.
    pub norm: LayerNorm,
    /// Parts of the width that attend apart from each other.
    pub heads: i64,
}

impl EncoderLayer {
    /// Random matrices. `heads` must divide `width`.
    ///
    /// # Errors
    /// If `heads` does not divide `width`, or there is no memory.
    #[track_caller]
    pub fn new(width: impl Length, heads: impl Length, inner: impl Length) -> Result<EncoderLayer> {
        let (width, heads, inner) = (width.length(), heads.length(), inner.length());
        if heads < 1 || width % heads != 0 {
            let message = format!("a width of {width} with {heads} heads: heads must divide the width");
            return Err(CallError::new("EncoderLayer", &[], message, Location::caller()).into());
        }
        Ok(EncoderLayer {
            query: Linear::new(width, width, true)?,
            key: Linear::new(width, width, true)?,
            value: Linear::new(width, width, true)?,
            output: Linear::new(width, width, true)?,
            attention_norm: LayerNorm::new(&[width], 1e-12)?,
            inner: Linear::new(width, inner, true)?,
            outer: Linear::new(inner, width, true)?,
            norm: LayerNorm::new(&[width], 1e-12)?,
            heads,
        })
    }

    /// What the layer makes of x [batch, positions, width].
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        let _call = within(Location::caller());
        self.forward_with(x, &AttentionOptions::default())
    }

    /// The same where attention is masked, say; the mask broadcasts to [batch, heads, positions, positions].
    #[track_caller]
    pub fn forward_with(&self, x: &Tensor, options: &AttentionOptions) -> Tensor {
        let _call = within(Location::caller());
        let shape = match x.dims() {
            Ok(shape) if shape.len() == 3 => shape,
            Ok(shape) => {
                let message = format!("x must have the axes [batch, positions, width], not {shape}");
                return Tensor::refused("EncoderLayer", message);
            }
            Err(error) => return Tensor::from_error(error),
        };
        // The width in parts, and heads before positions: [batch, heads, positions, width of a head].
        let head_width = shape[2].floor_div(&Dim::from(self.heads));
        let parts = Shape::from([shape[0].clone(), shape[1].clone(), Dim::from(self.heads), head_width]);
        let query = self.query.forward(x).reshape(parts.clone()).transpose(1, 2);
        let key = self.key.forward(x).reshape(parts.clone()).transpose(1, 2);
        let value = self.value.forward(x).reshape(parts).transpose(1, 2);
        let seen = query.attention(&key, &value, options).transpose(1, 2).reshape(shape);
        let attended = self.attention_norm.forward(&(x + self.output.forward(&seen)));
        let widened = self.inner.forward(&attended).gelu();
        self.norm.forward(&(&attended + self.outer.forward(&widened)))
    }
}

parameters! { EncoderLayer: ..query ..key ..value ..output ..inner ..outer ..attention_norm ..norm }

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(tensor: &Tensor) -> Vec<f64> {
        tensor.to_vec::<f32>().unwrap().into_iter().map(f64::from).collect()
    }

    /// A matrix of rows.
    type Matrix = Vec<Vec<f64>>;

    fn linear(x: &Matrix, layer: &Linear) -> Matrix {
        let (weight, bias) = (numbers(&layer.weight), numbers(layer.bias.as_ref().unwrap()));
        let inputs = x[0].len();
        let output =
            |row: &Vec<f64>, k: usize| bias[k] + (0..inputs).map(|j| row[j] * weight[k * inputs + j]).sum::<f64>();
        x.iter().map(|row| (0..bias.len()).map(|k| output(row, k)).collect()).collect()
    }

    fn normalised(x: &Matrix, y: &Matrix) -> Matrix {
        let rows = x.iter().zip(y).map(|(x, y)| x.iter().zip(y).map(|(x, y)| x + y).collect::<Vec<f64>>());
        rows.map(|row| {
            let mean = row.iter().sum::<f64>() / row.len() as f64;
            let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / row.len() as f64;
            row.iter().map(|x| (x - mean) / variance.sqrt()).collect()
        })
        .collect()
    }

    /// One sentence through the layer, in loops.
    fn by_hand(x: &Matrix, layer: &EncoderLayer) -> Matrix {
        let (q, k, v) = (linear(x, &layer.query), linear(x, &layer.key), linear(x, &layer.value));
        let (width, heads) = (x[0].len(), layer.heads as usize);
        let part = width / heads;
        let mut seen = vec![vec![0.0; width]; x.len()];
        for head in 0..heads {
            let columns = head * part..(head + 1) * part;
            for row in 0..x.len() {
                let score =
                    |other: usize| columns.clone().map(|c| q[row][c] * k[other][c]).sum::<f64>() / (part as f64).sqrt();
                let weights: Vec<f64> = (0..x.len()).map(|other| score(other).exp()).collect();
                let total: f64 = weights.iter().sum();
                for column in columns.clone() {
                    seen[row][column] = (0..x.len()).map(|other| weights[other] / total * v[other][column]).sum();
                }
            }
        }
        let attended = normalised(x, &linear(&seen, &layer.output));
        let mut inner = linear(&attended, &layer.inner);
        let gelu = |x: f64| 0.5 * x * (1.0 + erf(x / std::f64::consts::SQRT_2));
        inner.iter_mut().flatten().for_each(|x| *x = gelu(*x));
        normalised(&attended, &linear(&inner, &layer.outer))
    }

    /// The error function by its Taylor series, which converges fast for the small arguments here.
    fn erf(x: f64) -> f64 {
        let mut term = x;
        let mut sum = x;
        for n in 1..60 {
            term *= -x * x / f64::from(n);
            sum += term / f64::from(2 * n + 1);
        }
        sum * 2.0 / std::f64::consts::PI.sqrt()
    }

    #[test]
    fn an_encoder_layer_is_what_its_loops_say() {
        let layer = EncoderLayer::new(8, 2, 12).unwrap();
        let rows: Matrix =
            (0..5).map(|i| (0..8).map(|j| f64::from((i * 5 + j * 3) % 7) / 3.0 - 1.0).collect()).collect();
        let flat: Vec<f32> = rows.iter().flatten().map(|&x| x as f32).collect();
        // Twice in a batch: sentences do not see each other.
        let x = Tensor::from_vec([flat.clone(), flat].concat(), [2, 5, 8]);
        let got = numbers(&layer.forward(&x));
        let expected: Vec<f64> = by_hand(&rows, &layer).into_iter().flatten().collect();
        for (got, expected) in got.iter().zip(expected.iter().cycle()) {
            assert!((got - expected).abs() < 1e-4, "{got} {expected}");
        }
        assert_eq!(layer.parameters().len(), 16);
        let error = layer.forward(&Tensor::zeros([5, 8])).to_vec::<f32>().unwrap_err().to_string();
        assert!(error.contains("x must have the axes [batch, positions, width], not [5, 8]"), "{error}");
    }
}
