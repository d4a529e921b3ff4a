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

/// Of a transposed convolution: what it reads and what it gives have changed places.
pub(super) fn transposed(node: &UOp, g: &UOp) -> Contribution {
    let (Some(options), [_, x, weight, ..]) = (options_of(node), node.src()) else { return Contribution::new() };
    to_operands(node, conv(g, weight, None, &options), gradient_by_weight(g, x, weight.shape(), &options))
}
