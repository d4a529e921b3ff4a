//! The tensor programs of `warpweft bench`, with the names and sizes of the script that times other libraries.

use std::error::Error;
use std::path::Path;

use warpweft::tensor::{AttentionOptions, ConvOptions, ScatterReduce};
use warpweft::{DType, Tensor};

use crate::bench::{Cost, Times, time};
use crate::{gpu_cases, layer_cases};

/// The cases, in the order in which they run.
pub(crate) const NAMES: &[&str] = &[
    "matmul_512",
    "matmul_1024",
    "matmul_2048",
    "matvec_4096",
    "matmul_t_1024",
    "batch_matmul",
    "mlp_gelu",
    "chain_16M",
    "exp_16M",
    "sum_64M",
    "rowsum_4096",
    "colsum_4096",
    "softmax_4096x1024",
    "layernorm_4096x1024",
    "transpose_4096",
    "strided_gather",
    "conv2d_3x3",
    "attention_8x128x64",
    "attention_8x4096x64",
    "cumsum_1024x4096",
    "scatter_add_64k",
    "sort_1M",
    "sort_rows",
    "argsort_i32_1M",
    "topk_1M",
    "topk_rows",
];

pub(crate) type Program = fn(&[Tensor]) -> Tensor;
/// One that may fail.
type AnyProgram = Box<dyn Fn(&[Tensor]) -> Result<Tensor, Box<dyn Error>>>;

/// Shapes of the inputs, operations, bytes, and what is computed.
pub(crate) fn case(name: &str) -> Option<(Vec<Vec<i64>>, f64, f64, Program)> {
    let m = (16i64 << 20) as f64;
    let product = |inputs: &[Tensor]| inputs[0].matmul(&inputs[1]);
    let square = |n: i64| vec![vec![n, n]; 2];
    let matmul_cost = |n: f64| (2.0 * n * n * n, 3.0 * n * n * 4.0);
    Some(match name {
        "matmul_512" => (square(512), matmul_cost(512.0).0, matmul_cost(512.0).1, product),
        "matmul_1024" => (square(1024), matmul_cost(1024.0).0, matmul_cost(1024.0).1, product),
        "matmul_2048" => (square(2048), matmul_cost(2048.0).0, matmul_cost(2048.0).1, product),
        "matvec_4096" => (vec![vec![4096, 4096], vec![4096]], 2.0 * 4096.0 * 4096.0, 4096.0 * 4096.0 * 4.0, product),
        "matmul_t_1024" => {
            (square(1024), matmul_cost(1024.0).0, matmul_cost(1024.0).1, |inputs| inputs[0].t().matmul(&inputs[1]))
        }
        "batch_matmul" => (vec![vec![32, 128, 64], vec![32, 64, 128]], 2.0 * 32.0 * 128.0 * 128.0 * 64.0, 0.0, product),
        "mlp_gelu" => {
            (vec![vec![256, 768], vec![768, 3072], vec![3072, 768]], 4.0 * 256.0 * 768.0 * 3072.0, 0.0, |inputs| {
                inputs[0].matmul(&inputs[1]).gelu_tanh().matmul(&inputs[2])
            })
        }
        "chain_16M" => (vec![vec![16 << 20]; 2], 6.0 * m, 3.0 * m * 4.0, |inputs| {
            let (a, b) = (&inputs[0], &inputs[1]);
            (a * 2.0 + b).relu() * a - b * 0.5
        }),
        "exp_16M" => (vec![vec![16 << 20]], m, 2.0 * m * 4.0, |inputs| inputs[0].exp()),
        "sum_64M" => (vec![vec![64 << 20]], 4.0 * m, 4.0 * m * 4.0, |inputs| inputs[0].sum(0)),
        "rowsum_4096" => (vec![vec![4096, 4096]], m, m * 4.0, |inputs| inputs[0].sum(1)),
        "colsum_4096" => (vec![vec![4096, 4096]], m, m * 4.0, |inputs| inputs[0].sum(0)),
        "softmax_4096x1024" => (vec![vec![4096, 1024]], 5.0 * m / 4.0, 2.0 * m, |inputs| inputs[0].softmax(1)),
        "layernorm_4096x1024" => {
            (vec![vec![4096, 1024]], 8.0 * m / 4.0, 2.0 * m, |inputs| inputs[0].layer_norm(&[1024], None, None, 1e-5))
        }
        "transpose_4096" => (vec![vec![4096, 4096]], 0.0, 2.0 * m * 4.0, |inputs| inputs[0].t().contiguous()),
        "strided_gather" => (vec![vec![4096, 4096]], 0.0, 2.0 * 2048.0 * 4096.0 * 4.0, |inputs| {
            let pairs = inputs[0].reshape([2048, 2, 4096]).shrink(&[(0, 2048), (0, 1), (0, 4096)]);
            pairs.reshape([2048, 4096]).flip(1).contiguous()
        }),
        "conv2d_3x3" => (
            vec![vec![8, 64, 56, 56], vec![64, 64, 3, 3]],
            2.0 * 8.0 * 64.0 * 64.0 * 56.0 * 56.0 * 9.0,
            0.0,
            |inputs| inputs[0].conv(&inputs[1], None, &ConvOptions::default().padding(vec![1])),
        ),
        "attention_8x128x64" => (vec![vec![8, 128, 64]; 3], 4.0 * 8.0 * 128.0 * 128.0 * 64.0, 0.0, |inputs| {
            let scores = inputs[0].matmul(&inputs[1].transpose(-1, -2)) * 0.125;
            scores.softmax(-1).matmul(&inputs[2])
        }),
        "attention_8x4096x64" => (vec![vec![8, 4096, 64]; 3], 4.0 * 8.0 * 4096.0 * 4096.0 * 64.0, 0.0, |inputs| {
            inputs[0].attention(&inputs[1], &inputs[2], &AttentionOptions::default())
        }),
        "cumsum_1024x4096" => (vec![vec![1024, 4096]], m / 4.0, 2.0 * m, |inputs| inputs[0].cumsum(1)),
        // The indices are numbers below 1,000 that look random, made by the same kernel.
        "scatter_add_64k" => (vec![vec![1000], vec![1 << 16]], 0.0, 0.0, |inputs| {
            let index = (inputs[1].abs() * 300.0).cast(DType::I32).clamp_max(999);
            inputs[0].scatter_reduce(0, &index, &inputs[1], ScatterReduce::Sum, true)
        }),
        "sort_1M" => (vec![vec![1_000_000]], 0.0, 0.0, |inputs| sorted(&inputs[0])),
        "sort_rows" => (vec![vec![4096, 256]], 0.0, 0.0, |inputs| sorted(&inputs[0])),
        "argsort_i32_1M" => {
            (vec![vec![1_000_000]], 0.0, 0.0, |inputs| (&inputs[0] * 1e8).cast(DType::I32).argsort(0, false))
        }
        "topk_1M" => (vec![vec![1_000_000]], 0.0, 0.0, |inputs| largest(&inputs[0], 10)),
        "topk_rows" => (vec![vec![4096, 256]], 0.0, 0.0, |inputs| largest(&inputs[0], 8)),
        _ => return None,
    })
}

/// What a case computes, not yet computed, over inputs that are there.
pub(crate) fn value(name: &str, device: Option<&str>) -> Result<warpweft_compiler::UOp, Box<dyn Error>> {
    let (shapes, _, _, program) =
        case(name).ok_or_else(|| format!("no case of tensors is called {name}; they are {}", NAMES.join(", ")))?;
    let inputs: Vec<Tensor> = shapes.iter().zip(1..).map(|(shape, seed)| input(device, shape, seed)).collect();
    for input in &inputs {
        input.realize()?;
    }
    Ok(warpweft::compiler::graph(&program(&inputs))?)
}

/// What a case computes, over parameters: nothing of the inputs is there but their shapes.
pub(crate) fn shaped(name: &str) -> Result<warpweft_compiler::UOp, Box<dyn Error>> {
    let (shapes, _, _, program) =
        case(name).ok_or_else(|| format!("no case of tensors is called {name}; they are {}", NAMES.join(", ")))?;
    let inputs: Vec<Tensor> = shapes.iter().map(|shape| gpu_cases::unknown(DType::F32, shape)).collect();
    gpu_cases::graph_of(&program(&inputs))
}

/// Along the last axis.
fn sorted(x: &Tensor) -> Tensor {
    x.sort(-1, false).expect("there is such an axis").0
}

/// Along the last axis.
fn largest(x: &Tensor, count: i64) -> Tensor {
    x.topk(count, -1, true).expect("there are so many elements").0
}

/// Times a case on a device, and writes its inputs and its output to a folder if there is one.
pub(crate) fn run(
    name: &str,
    device: Option<&str>,
    seconds: f64,
    save: Option<&Path>,
) -> Result<(Cost, Times), Box<dyn Error>> {
    let (shapes, cost, program): (_, _, AnyProgram) = match (layer_cases::layer(name), case(name)) {
        (Some(layer), _) => (layer.shapes, Cost { flops: layer.flops, bytes: layer.bytes }, Box::new(layer.program)),
        (None, Some((shapes, flops, bytes, program))) => {
            (shapes, Cost { flops, bytes }, Box::new(move |inputs| Ok(program(inputs))))
        }
        (None, None) => return Err("no such case".into()),
    };
    let inputs = inputs(device, &shapes)?;
    if let Some(folder) = save {
        std::fs::create_dir_all(folder)?;
        for (number, input) in inputs.iter().enumerate() {
            write_npy(&folder.join(format!("{name}.input_{number}.npy")), input)?;
        }
        write_npy(&folder.join(format!("{name}.output.npy")), &program(&inputs)?)?;
    }
    let times = time(seconds, || {
        program(&inputs)?.realize()?;
        Ok(())
    })?;
    Ok((cost, times))
}

/// Writes a tensor as a file of numpy, version 1.0 of the format: a header of text, padded to 64 bytes, and the elements in order.
fn write_npy(path: &Path, tensor: &Tensor) -> Result<(), Box<dyn Error>> {
    let descr = match tensor.dtype()? {
        DType::F32 => "<f4",
        DType::F64 => "<f8",
        DType::I32 => "<i4",
        DType::I64 => "<i8",
        other => return Err(format!("no case has an output of type {other}").into()),
    };
    let lengths: String = tensor.shape()?.iter().map(|len| format!("{len}, ")).collect();
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({lengths}), }}");
    // Magic, version and length take 10 bytes, the end of the line one.
    let padding = (64 - (header.len() + 11) % 64) % 64;
    header.push_str(&" ".repeat(padding));
    header.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(tensor.to_bytes()?);
    Ok(std::fs::write(path, bytes)?)
}

/// Inputs of some shapes, in memory.
fn inputs(device: Option<&str>, shapes: &[Vec<i64>]) -> Result<Vec<Tensor>, Box<dyn Error>> {
    let inputs: Vec<Tensor> = shapes.iter().zip(1..).map(|(shape, seed)| input(device, shape, seed)).collect();
    for input in &inputs {
        input.realize()?;
    }
    Ok(inputs)
}

/// Numbers that look normal: sums of four uniform ones.
fn input(device: Option<&str>, shape: &[i64], seed: u64) -> Tensor {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut uniform = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 24) as f32 - 0.5
    };
    let len: i64 = shape.iter().product();
    let data: Vec<u8> =
        (0..len).flat_map(|_| ((uniform() + uniform() + uniform() + uniform()) * 1.732).to_le_bytes()).collect();
    Tensor::from_bytes(device, DType::F32, shape, &data)
}
