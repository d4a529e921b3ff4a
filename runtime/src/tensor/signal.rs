//! Windows that fade a signal in and out. Tested by the cases of the ONNX package and by values of PyTorch (tests/it/samples.rs).

use std::panic::Location;

use super::Tensor;
use super::errors::CallError;
use crate::DType;
use warpweft_compiler::dtype::Elements;

impl Tensor {
    /// A window of `size` elements: the sum of `factors[k]` times the cosine of `k` turns over it, `f32`. A periodic one goes on after its last element as it
    /// began; else the last element is the first. Hann's window has the factors 0.5 and -0.5, Hamming's 0.54 and -0.46, Blackman's 0.42, -0.5 and 0.08.
    #[track_caller]
    pub fn cosine_window(size: i64, factors: &[f64], periodic: bool) -> Tensor {
        let location = Location::caller();
        let Ok(count) = usize::try_from(size) else {
            return Tensor::from_error(CallError::new(
                "cosine_window",
                &[],
                format!("{size} elements: there cannot be fewer than 0"),
                location,
            ));
        };
        let round = if periodic || count < 2 { count } else { count - 1 };
        let element = |at: usize| {
            let turn = |k: usize| (k * at % round.max(1)) as f64 / round.max(1) as f64 * std::f64::consts::TAU;
            factors.iter().enumerate().map(|(k, factor)| factor * turn(k).cos()).sum::<f64>() as f32
        };
        Tensor::from_bytes(None, DType::F32, [count], &Elements::F32((0..count).map(element).collect()).to_bytes())
    }
}
