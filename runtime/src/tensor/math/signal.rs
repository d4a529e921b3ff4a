//! Windows that fade a signal in and out. Tested by the cases of the ONNX package and by values of PyTorch (tests/it/samples.rs).

use std::panic::Location;

use crate::tensor::errors::{CallError, within};
use crate::tensor::{Length, Tensor};

/// Elements of a window at the most: they are computed by the caller.
const COUNT_MAX: usize = 1 << 28;

impl Tensor {
    /// A window of `size` elements: the sum of `factors[k]` times the cosine of `k` turns over it, `f32`. A periodic one goes on after its last element as it
    /// began; else the last element is the first. Hann's window has the factors 0.5 and -0.5, Hamming's 0.54 and -0.46, Blackman's 0.42, -0.5 and 0.08.
    #[track_caller]
    pub fn cosine_window(size: impl Length, factors: &[f64], periodic: bool) -> Tensor {
        let size = size.length();
        let location = Location::caller();
        let _call = within(location);
        let Some(count) = usize::try_from(size).ok().filter(|&count| count <= COUNT_MAX) else {
            let message = format!("{size} elements: there may be 0 to {COUNT_MAX}");
            return Tensor::from_error(CallError::new("cosine_window", &[], message, location));
        };
        let round = if periodic || count < 2 { count } else { count - 1 };
        let element = |at: usize| {
            let turn = |k: usize| (k * at % round.max(1)) as f64 / round.max(1) as f64 * std::f64::consts::TAU;
            factors.iter().enumerate().map(|(k, factor)| factor * turn(k).cos()).sum::<f64>() as f32
        };
        Tensor::table((0..count).map(element).collect::<Vec<f32>>(), [count])
    }
}
