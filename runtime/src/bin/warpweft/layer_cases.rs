//! Cases of `warpweft bench` that are single layers and their gradients: convolutions of every sort, pooling, resizing, and backward passes.
//!
//! Sizes are those of common image networks, a few channels and lengths made odd on purpose, and each output shape is written out for its
//! gradient. A gradient is taken with a cotangent that is an input, so nothing of the forward pass runs that the gradient does not need.

use warpweft::tensor::{ConvOptions, PoolOptions, Resize};
use warpweft::{DType, Tensor};

use crate::bench::Failure;

/// The cases, in the order in which they run.
pub(crate) const NAMES: &[&str] = &[
    "conv_stride_2",
    "conv_7x7_stride_2",
    "conv_28",
    "conv_1x1",
    "conv_grouped",
    "conv_depthwise",
    "conv_dilated",
    "conv_1d",
    "conv_3d",
    "conv_transposed",
    "conv_gradient_input",
    "conv_gradient_input_stride_2",
    "conv_gradient_weight",
    "layernorm_gradient",
    "max_pool",
    "max_pool_gradient",
    "average_pool",
    "resize_bilinear",
    "embedding_gradient",
];

/// A layer of the inputs of these shapes, and the operations that it takes.
pub(crate) struct Layer {
    /// Shapes of the inputs.
    pub(crate) shapes: Vec<Vec<i64>>,
    /// Operations, a multiply-add counted as two.
    pub(crate) flops: f64,
    /// Bytes between memory and cores.
    pub(crate) bytes: f64,
    /// What is computed.
    pub(crate) program: fn(&[Tensor]) -> Result<Tensor, Failure>,
}

/// Options of a convolution with one stride and padding for all axes.
fn window(stride: i64, padding: i64) -> ConvOptions {
    ConvOptions::default().stride(vec![stride]).padding(vec![padding])
}

fn pool(kernel: i64, stride: i64, padding: i64) -> PoolOptions {
    PoolOptions::default().kernel(vec![kernel; 2]).stride(vec![stride]).padding(vec![padding])
}

/// A convolution of x with a weight, to an output of a shape: as many products for each element of that as an output channel has weights.
fn products(output: &[i64], weight: &[i64]) -> f64 {
    let count = |lengths: &[i64]| lengths.iter().product::<i64>() as f64;
    2.0 * count(output) * count(&weight[1..])
}

fn convolution(x: &[i64], weight: &[i64], output: &[i64], program: fn(&[Tensor]) -> Result<Tensor, Failure>) -> Layer {
    let flops = products(output, weight);
    Layer { shapes: vec![x.to_vec(), weight.to_vec()], flops, bytes: 0.0, program }
}

/// The same with the cotangent of the output as a third input.
fn backward(x: &[i64], weight: &[i64], output: &[i64], program: fn(&[Tensor]) -> Result<Tensor, Failure>) -> Layer {
    let mut layer = convolution(x, weight, output, program);
    layer.shapes.push(output.to_vec());
    layer
}

/// A layer whose time is that of moving its inputs and its output.
fn movement(shapes: &[&[i64]], output: &[i64], program: fn(&[Tensor]) -> Result<Tensor, Failure>) -> Layer {
    let elements = |lengths: &[i64]| lengths.iter().product::<i64>() as f64;
    let bytes = 4.0 * (shapes.iter().map(|shape| elements(shape)).sum::<f64>() + elements(output));
    Layer { shapes: shapes.iter().map(|shape| shape.to_vec()).collect(), flops: 0.0, bytes, program }
}

fn first(gradients: Vec<Tensor>) -> Result<Tensor, Failure> {
    gradients.into_iter().next().ok_or_else(|| "no gradient came back".into())
}

/// The layer of a name.
pub(crate) fn layer(name: &str) -> Option<Layer> {
    convolutions(name).or_else(|| gradients(name)).or_else(|| movements(name))
}

fn convolutions(name: &str) -> Option<Layer> {
    Some(match name {
        "conv_stride_2" => convolution(&[8, 64, 56, 56], &[128, 64, 3, 3], &[8, 128, 28, 28], |x| {
            Ok(x[0].conv(&x[1], None, &window(2, 1)))
        }),
        "conv_7x7_stride_2" => convolution(&[4, 3, 224, 224], &[64, 3, 7, 7], &[4, 64, 112, 112], |x| {
            Ok(x[0].conv(&x[1], None, &window(2, 3)))
        }),
        "conv_28" => convolution(&[8, 128, 28, 28], &[128, 128, 3, 3], &[8, 128, 28, 28], |x| {
            Ok(x[0].conv(&x[1], None, &window(1, 1)))
        }),
        "conv_1x1" => convolution(&[8, 256, 14, 14], &[512, 256, 1, 1], &[8, 512, 14, 14], |x| {
            Ok(x[0].conv(&x[1], None, &window(1, 0)))
        }),
        "conv_grouped" => convolution(&[8, 128, 28, 28], &[128, 32, 3, 3], &[8, 128, 28, 28], |x| {
            Ok(x[0].conv(&x[1], None, &window(1, 1).groups(4)))
        }),
        "conv_depthwise" => convolution(&[8, 128, 56, 56], &[128, 1, 3, 3], &[8, 128, 56, 56], |x| {
            Ok(x[0].conv(&x[1], None, &window(1, 1).groups(128)))
        }),
        "conv_dilated" => convolution(&[4, 64, 40, 40], &[64, 64, 3, 3], &[4, 64, 40, 40], |x| {
            Ok(x[0].conv(&x[1], None, &window(1, 2).dilation(vec![2])))
        }),
        "conv_1d" => {
            convolution(&[8, 64, 1000], &[96, 64, 5], &[8, 96, 1000], |x| Ok(x[0].conv(&x[1], None, &window(1, 2))))
        }
        "conv_3d" => convolution(&[2, 16, 16, 32, 32], &[32, 16, 3, 3, 3], &[2, 32, 16, 32, 32], |x| {
            Ok(x[0].conv(&x[1], None, &window(1, 1)))
        }),
        // Each element of the input meets every weight of its channel.
        "conv_transposed" => Layer {
            flops: products(&[4, 64, 28, 28], &[64, 32, 4, 4]),
            ..convolution(&[4, 64, 28, 28], &[64, 32, 4, 4], &[4, 32, 56, 56], |x| {
                Ok(x[0].conv_transpose(&x[1], None, &window(2, 1)))
            })
        },
        _ => return None,
    })
}

fn gradients(name: &str) -> Option<Layer> {
    Some(match name {
        "conv_gradient_input" => backward(&[8, 64, 28, 28], &[64, 64, 3, 3], &[8, 64, 28, 28], |x| {
            first(x[0].conv(&x[1], None, &window(1, 1)).gradient_with(&x[2], &[&x[0]])?)
        }),
        "conv_gradient_input_stride_2" => backward(&[8, 64, 56, 56], &[96, 64, 3, 3], &[8, 96, 28, 28], |x| {
            first(x[0].conv(&x[1], None, &window(2, 1)).gradient_with(&x[2], &[&x[0]])?)
        }),
        "conv_gradient_weight" => backward(&[8, 64, 28, 28], &[64, 64, 3, 3], &[8, 64, 28, 28], |x| {
            first(x[0].conv(&x[1], None, &window(1, 1)).gradient_with(&x[2], &[&x[1]])?)
        }),
        "layernorm_gradient" => movement(&[&[4096, 1024], &[1024], &[4096, 1024]], &[1024], |x| {
            first(x[0].layer_norm(&[1024], Some(&x[1]), None, 1e-5).gradient_with(&x[2], &[&x[1]])?)
        }),
        "max_pool_gradient" => movement(&[&[8, 64, 56, 56], &[8, 64, 28, 28]], &[8, 64, 56, 56], |x| {
            first(x[0].max_pool(&pool(3, 2, 1)).gradient_with(&x[1], &[&x[0]])?)
        }),
        "embedding_gradient" => movement(&[&[8192, 256], &[2048], &[2048, 256]], &[8192, 256], |x| {
            // Rows by chance: the inputs are normal numbers.
            let rows = (&x[1] * 4096.0 + 4096.0).maximum(0.0).minimum(8191.0).cast(DType::I32);
            first(x[0].embedding(&rows).gradient_with(&x[2], &[&x[0]])?)
        }),
        _ => return None,
    })
}

fn movements(name: &str) -> Option<Layer> {
    Some(match name {
        "max_pool" => movement(&[&[8, 64, 112, 112]], &[8, 64, 56, 56], |x| Ok(x[0].max_pool(&pool(3, 2, 1)))),
        "average_pool" => movement(&[&[8, 64, 56, 56]], &[8, 64, 56, 56], |x| Ok(x[0].avg_pool(&pool(3, 1, 1)))),
        "resize_bilinear" => movement(&[&[4, 32, 64, 64]], &[4, 32, 128, 128], |x| {
            Ok(x[0].interpolate(&[128, 128], Resize::Linear { align_corners: false }))
        }),
        _ => return None,
    })
}
