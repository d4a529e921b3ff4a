//! Derivatives of convolutions, which are convolutions: by the input the transposed one, and the other way round; by the weight a sum over windows.
//!
//! Found through the views that a convolution is made of, the gradient by the input would be summed over slanted views, one product in `stride`^2 of which counts.
//!
//! Tested in the tests crate: gradients agree with PyTorch's and with differences.

use super::rules::Contribution;
use crate::UOp;
use crate::ir::Dim;
use crate::ops::Built;
use crate::ops::convolution::{conv, gradient_by_weight, options_of};
use crate::ops::movement::{pad_axis, shrink_axis};
use crate::ops::transposed_convolution::conv_transpose_by;
use crate::view::dims::simplified;

/// To the value nothing, to x and to the weight what is given, to the numbers nothing.
fn to_operands(node: &UOp, by_x: Built, by_weight: Built) -> Contribution {
    let floats = [None, by_x.ok(), by_weight.ok()];
    floats.into_iter().chain(node.src()[3..].iter().map(|_| None)).collect()
}

/// Of a convolution.
pub(super) fn convolution(node: &UOp, g: &UOp) -> Contribution {
    let (Some(options), [_, x, weight, ..]) = (options_of(node), node.src()) else { return Contribution::new() };
    // What the last windows do not reach is added at the end: what is left where windows are counted.
    let missed = |axis: usize| {
        let k = axis - 2;
        let reach = (weight.shape()[axis].max_value() - 1) * options.dilation[k] + 1 - 2 * options.padding[k];
        simplified((&x.shape()[axis] - reach).floor_mod(&options.stride[k].into()))
    };
    let missed: Vec<Dim> = (2..x.shape().len()).map(missed).collect();
    let transposed = conv_transpose_by(g, weight, None, &options, &missed);
    to_operands(node, transposed, gradient_by_weight(x, g, weight.shape(), &options))
}

/// Of a transposed convolution: what it reads and what it gives are swapped.
pub(super) fn transposed(node: &UOp, g: &UOp) -> Contribution {
    let (Some(options), [_, x, weight, ..]) = (options_of(node), node.src()) else { return Contribution::new() };
    // As many elements as a stride has, or more, may have been added at the end, beside dilation: there are windows there, and nothing of x.
    let (mut windows, mut x) = (conv(g, weight, None, &options), x.clone());
    if let Ok(windows) = &mut windows {
        for axis in 2..x.shape().len() {
            let len = x.shape()[axis].clone();
            let more = simplified(&windows.shape()[axis] - &len);
            if more.max_value() > 0 {
                *windows = shrink_axis(windows, axis, 0, len);
                x = pad_axis(&x, axis, 0, more);
            }
        }
    }
    to_operands(node, windows, gradient_by_weight(g, &x, weight.shape(), &options))
}
