//! Cases of `warpweft bench` for GPUs alone, with `--target ... --model` or `--device CUDA`: products that are large for a GPU, and relatives of the other cases with lengths that nothing divides, other types and other layouts.
//!
//! A choice by hand that is good for one length is not worth much. So these are looked at beside the cases that CPUs are timed with.

use std::error::Error;

use warpweft::tensor::{AttentionOptions, ClassOptions, ConvOptions, ScatterReduce};
use warpweft::{DType, Tensor};
use warpweft_compiler::UOp;

use crate::device_times::DeviceCase;
use crate::{cases, layer_cases};

/// A program over inputs of these types and shapes.
struct GpuCase {
    name: &'static str,
    inputs: &'static [(DType, &'static [i64])],
    program: fn(&[Tensor]) -> Tensor,
}

const F32: DType = DType::F32;
const BF16: DType = DType::BF16;
const F16: DType = DType::F16;
const I32: DType = DType::I32;
const I64: DType = DType::I64;
const I8: DType = DType::I8;

/// Lines of the table: a name, the inputs, and what is computed of them.
macro_rules! cases {
    ($($name:ident [$($dtype:ident $shape:tt),+] |$inputs:ident| $program:expr;)*) => {
        const CASES: &[GpuCase] = &[$(GpuCase {
            name: stringify!($name),
            inputs: &[$(($dtype, &$shape)),+],
            program: |$inputs| $program,
        }),*];
    };
}

cases! {
    matmul_4096 [F32 [4096, 4096], F32 [4096, 4096]] |x| x[0].matmul(&x[1]);
    matmul_bf16_4096 [BF16 [4096, 4096], BF16 [4096, 4096]] |x| x[0].matmul(&x[1]);
    matmul_bf16_t_4096 [BF16 [4096, 4096], BF16 [4096, 4096]] |x| x[0].matmul(&x[1].t());
    matmul_f16_1000 [F16 [1000, 1000], F16 [1000, 1000]] |x| x[0].matmul(&x[1]);
    matmul_bf16_4097 [BF16 [4097, 4097], BF16 [4097, 4097]] |x| x[0].matmul(&x[1]);
    matmul_t_4096 [F32 [4096, 4096], F32 [4096, 4096]] |x| x[0].matmul(&x[1].t());
    matmul_tt_2048 [F32 [2048, 2048], F32 [2048, 2048]] |x| x[0].t().matmul(&x[1].t());
    matmul_3000 [F32 [3000, 3000], F32 [3000, 3000]] |x| x[0].matmul(&x[1]);
    matmul_few_rows [F32 [16, 4096], F32 [4096, 4096]] |x| x[0].matmul(&x[1]);
    linear_few_rows [BF16 [16, 4096], BF16 [4096, 4096]] |x| x[0].matmul(&x[1].t());
    matmul_long_terms [F32 [128, 65536], F32 [65536, 128]] |x| x[0].matmul(&x[1]);
    matvec_t [F32 [4096, 4096], F32 [4096]] |x| x[0].t().matmul(&x[1]);
    heads_bf16 [BF16 [96, 512, 64], BF16 [96, 64, 512]] |x| x[0].matmul(&x[1]);
    add_odd [F32 [10_000_019], F32 [10_000_019]] |x| &x[0] + &x[1];
    bias_odd [F32 [50_000, 513], F32 [513]] |x| (&x[0] + &x[1]).relu();
    scale_rows [F32 [513, 50_001], F32 [513, 1]] |x| &x[0] * &x[1];
    every_other [F32 [4096, 8192]] |x| x[0].reshape([4096, 4096, 2]).narrow(2, 0, 1).reshape([4096, 4096]) * 2.0;
    flip_rows [F32 [4096, 4096]] |x| x[0].flip(1).contiguous();
    cat_odd [F32 [4096, 1000], F32 [4096, 1001]] |x| Tensor::cat(&[&x[0], &x[1]], 1).contiguous();
    pad_rows [F32 [4096, 1000]] |x| x[0].pad(&[(0, 0), (3, 3)]).contiguous();
    permute_heads [F32 [64, 128, 96, 64]] |x| x[0].permute([0, 2, 1, 3]).contiguous();
    permute_last [F32 [256, 1000, 100]] |x| x[0].permute([0, 2, 1]).contiguous();
    transpose_odd [F32 [4097, 3001]] |x| x[0].t().contiguous();
    transpose_bf16 [BF16 [4096, 4096]] |x| x[0].t().contiguous();
    double_bf16 [BF16 [16_777_216]] |x| &x[0] * 2.0;
    gelu_bf16 [BF16 [16_777_216]] |x| x[0].gelu_tanh();
    gelu_16M [F32 [16_777_216]] |x| x[0].gelu_tanh();
    gelu_f16_odd [F16 [10_000_019]] |x| x[0].gelu_tanh();
    gelu_erf_bf16 [BF16 [16_777_216]] |x| x[0].gelu();
    exp_bf16_odd [BF16 [10_000_019]] |x| x[0].exp();
    add_f16_odd [F16 [10_000_019], F16 [10_000_019]] |x| &x[0] + &x[1];
    add_i8_odd [I8 [10_000_019], I8 [10_000_019]] |x| &x[0] + &x[1];
    add_i8 [I8 [16_777_216], I8 [16_777_216]] |x| &x[0] + &x[1];
    bias_bf16 [BF16 [8192, 3001], BF16 [3001]] |x| (&x[0] + &x[1]).relu();
    narrowed [F32 [16_777_216]] |x| x[0].cast(BF16);
    widened_odd [F16 [10_000_019]] |x| x[0].cast(F32);
    gated_bf16 [BF16 [4096, 11_008], BF16 [4096, 11_008]] |x| x[0].silu() * &x[1];
    tanh_16M [F32 [16_777_216]] |x| x[0].tanh();
    rowsum_odd [F32 [4096, 1009]] |x| x[0].sum(1);
    rowsum_50000 [F32 [256, 50_000]] |x| x[0].sum(1);
    rowsum_few [F32 [4, 4_000_000]] |x| x[0].sum(1);
    rowsum_short [F32 [1_000_000, 16]] |x| x[0].sum(1);
    rowsum_7 [F32 [1_000_000, 7]] |x| x[0].sum(1);
    colsum_odd [F32 [1009, 4097]] |x| x[0].sum(0);
    colsum_few [F32 [1_000_000, 10]] |x| x[0].sum(0);
    colsum_wide [F32 [10, 1_000_000]] |x| x[0].sum(0);
    middle [F32 [64, 1000, 256]] |x| x[0].sum(1);
    middle_odd [F32 [33, 517, 129]] |x| x[0].sum(1);
    outer_and_inner [F32 [64, 1000, 256]] |x| x[0].sum([0, 2]);
    channels [F32 [32, 64, 56, 56]] |x| x[0].sum([0, 2, 3]);
    max_50000 [F32 [256, 50_000]] |x| x[0].max(1);
    argmax_1000 [F32 [4096, 1000]] |x| x[0].argmax(1, false);
    argmax_50257 [F32 [256, 50_257]] |x| x[0].argmax(1, false);
    argmax_bf16 [BF16 [64, 128_256]] |x| x[0].argmax(1, false);
    argmax_columns [F32 [1000, 4097]] |x| x[0].argmax(0, false);
    rowmax_i8 [I8 [4096, 4096]] |x| x[0].max(1);
    colsum_bf16 [BF16 [4096, 4097]] |x| x[0].sum(0);
    colmean_2000 [F32 [2000, 30_000]] |x| x[0].mean(0);
    sum_bf16 [BF16 [67_108_864]] |x| x[0].sum(0);
    mean_bf16 [BF16 [4096, 4096]] |x| x[0].mean(1);
    var_rows [F32 [4096, 1000]] |x| x[0].var(1, 1, false);
    logsumexp_50257 [F32 [256, 50_257]] |x| x[0].logsumexp(1);
    sum_odd [F32 [10_000_019]] |x| x[0].sum(0);
    sum_every_other [F32 [4096, 8192]] |x| x[0].reshape([4096, 4096, 2]).narrow(2, 0, 1).sum([1, 2]);
    sum_transposed [F32 [4096, 4096], F32 [4096, 4096]] |x| (x[0].t() + &x[1]).sum(1);
    softmax_1000 [F32 [4096, 1000]] |x| x[0].softmax(1);
    softmax_50257 [F32 [256, 50_257]] |x| x[0].softmax(1);
    softmax_few [F32 [8, 1_000_000]] |x| x[0].softmax(1);
    softmax_short [F32 [100_000, 33]] |x| x[0].softmax(1);
    softmax_heads [F32 [64, 12, 128, 128]] |x| x[0].softmax(3);
    softmax_columns [F32 [1000, 4096]] |x| x[0].softmax(0);
    softmax_bf16 [BF16 [4096, 4096]] |x| x[0].softmax(1);
    log_softmax_1000 [F32 [4096, 1000]] |x| x[0].log_softmax(1);
    softmax_4096 [F32 [8192, 4096]] |x| x[0].softmax(1);
    softmax_30000 [F32 [512, 30_000]] |x| x[0].softmax(1);
    softmax_128256 [F32 [256, 128_256]] |x| x[0].softmax(1);
    softmax_bf16_50257 [BF16 [512, 50_257]] |x| x[0].softmax(1);
    softmax_f16_1001 [F16 [16_384, 1001]] |x| x[0].softmax(1);
    log_softmax_50257 [F32 [512, 50_257]] |x| x[0].log_softmax(1);
    log_softmax_bf16 [BF16 [512, 128_256]] |x| x[0].log_softmax(1);
    cross_entropy [F32 [4096, 50_257], I32 [4096]] |x| x[0].cross_entropy(&x[1], &ClassOptions::default());
    cross_entropy_bf16 [BF16 [2048, 128_256], I32 [2048]] |x| x[0].cross_entropy(&x[1], &ClassOptions::default());
    layernorm_768 [F32 [4096, 768], F32 [768], F32 [768]] |x| x[0].layer_norm(&[768], Some(&x[1]), Some(&x[2]), 1e-5);
    layernorm_512 [F32 [16_384, 512], F32 [512], F32 [512]] |x| x[0].layer_norm(&[512], Some(&x[1]), Some(&x[2]), 1e-5);
    layernorm_1023 [F32 [8192, 1023], F32 [1023], F32 [1023]] |x| x[0].layer_norm(&[1023], Some(&x[1]), Some(&x[2]), 1e-5);
    layernorm_2048 [F32 [4096, 2048], F32 [2048], F32 [2048]] |x| x[0].layer_norm(&[2048], Some(&x[1]), Some(&x[2]), 1e-5);
    layernorm_8192 [F32 [2048, 8192], F32 [8192], F32 [8192]] |x| x[0].layer_norm(&[8192], Some(&x[1]), Some(&x[2]), 1e-5);
    layernorm_bf16_768 [BF16 [16_384, 768], BF16 [768], BF16 [768]] |x| x[0].layer_norm(&[768], Some(&x[1]), Some(&x[2]), 1e-5);
    layernorm_f16_5120 [F16 [4096, 5120], F16 [5120], F16 [5120]] |x| x[0].layer_norm(&[5120], Some(&x[1]), Some(&x[2]), 1e-5);
    rmsnorm_bf16 [BF16 [8192, 4096], BF16 [4096]] |x| x[0].rms_norm(Some(&x[1]), 1e-5);
    rmsnorm_bf16_odd [BF16 [8192, 3001], BF16 [3001]] |x| x[0].rms_norm(Some(&x[1]), 1e-5);
    layernorm_50000 [F32 [64, 50_000]] |x| x[0].layer_norm(&[50_000], None, None, 1e-5);
    layernorm_bf16 [BF16 [4096, 4096]] |x| x[0].layer_norm(&[4096], None, None, 1e-5);
    rmsnorm_4096 [F32 [4096, 4096], F32 [4096]] |x| x[0].rms_norm(Some(&x[1]), 1e-5);
    groupnorm [F32 [16, 64, 56, 56]] |x| x[0].group_norm(8, None, None, 1e-5);
    conv_1x1 [F32 [16, 256, 28, 28], F32 [512, 256, 1, 1]] |x| x[0].conv(&x[1], None, &ConvOptions::default());
    conv_stem [F32 [16, 3, 224, 224], F32 [64, 3, 7, 7]]
        |x| x[0].conv(&x[1], None, &ConvOptions::default().stride(vec![2]).padding(vec![3]));
    conv_depthwise [F32 [16, 128, 56, 56], F32 [128, 1, 3, 3]]
        |x| x[0].conv(&x[1], None, &ConvOptions::default().padding(vec![1]).groups(128));
    conv_depthwise_5 [F32 [16, 96, 112, 112], F32 [96, 1, 5, 5]]
        |x| x[0].conv(&x[1], None, &ConvOptions::default().padding(vec![2]).groups(96).stride(vec![2]));
    conv_depthwise_bf16 [BF16 [32, 96, 56, 56], BF16 [96, 1, 7, 7]]
        |x| x[0].conv(&x[1], None, &ConvOptions::default().padding(vec![3]).groups(96));
    conv_bf16 [BF16 [16, 64, 56, 56], BF16 [64, 64, 3, 3]]
        |x| x[0].conv(&x[1], None, &ConvOptions::default().padding(vec![1]));
    attention_bf16 [BF16 [96, 1024, 64], BF16 [96, 1024, 64], BF16 [96, 1024, 64]]
        |x| x[0].attention(&x[1], &x[2], &AttentionOptions::default());
    attention_bf16_128 [BF16 [32, 2048, 128], BF16 [32, 2048, 128], BF16 [32, 2048, 128]]
        |x| x[0].attention(&x[1], &x[2], &AttentionOptions::default());
    attention_causal [F32 [32, 2048, 64], F32 [32, 2048, 64], F32 [32, 2048, 64]]
        |x| x[0].attention(&x[1], &x[2], &AttentionOptions::default().is_causal(true));
    attention_mask [F16 [16, 1500, 80], F16 [16, 1500, 80], F16 [16, 1500, 80], F32 [1500, 1500]]
        |x| x[0].attention(&x[1], &x[2], &AttentionOptions::default().mask(x[3].clone()));
    attention_197 [F32 [96, 197, 64], F32 [96, 197, 64], F32 [96, 197, 64]]
        |x| x[0].attention(&x[1], &x[2], &AttentionOptions::default());
    attention_cross [F32 [16, 4096, 40], F32 [16, 77, 40], F32 [16, 77, 40]]
        |x| x[0].attention(&x[1], &x[2], &AttentionOptions::default());
    cumsum_long [F32 [5_000_011]] |x| x[0].cumsum(0);
    cumsum_columns [F32 [2000, 777]] |x| x[0].cumsum(0);
    cummax_bf16 [BF16 [512, 3001]] |x| x[0].cummax(1);
    sort_odd [F32 [33, 30_011]] |x| sorted(&x[0]);
    argsort_i64 [I64 [200_003]] |x| x[0].argsort(0, true);
    index_add [F32 [5000, 64], I32 [100_000], F32 [100_000, 64]]
        |x| scattered(&x[0], &x[1].reshape([100_000, 1]).expand([100_000, 64]), &x[2]);
    embedding_weights [F32 [50_257, 768], I32 [4096], F32 [4096, 768]]
        |x| scattered(&x[0], &x[1].reshape([4096, 1]).expand([4096, 768]), &x[2]);
    histogram [I32 [256], I32 [1_000_003], I32 [1_000_003]] |x| scattered(&x[0], &x[1], &x[2]);
    weights_bf16 [BF16 [8192, 200], BF16 [8192, 72]] |x| x[0].t().matmul(&x[1]);
}

fn sorted(x: &Tensor) -> Tensor {
    x.sort(-1, false).expect("there is such an axis").0
}

fn scattered(x: &Tensor, index: &Tensor, source: &Tensor) -> Tensor {
    x.scatter_reduce(0, index, source, ScatterReduce::Sum, true)
}

/// Their names.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    CASES.iter().map(|case| case.name)
}

/// One of them, to be timed.
pub(crate) fn case(name: &str) -> Option<DeviceCase> {
    let case = CASES.iter().find(|case| case.name == name)?;
    let inputs = case.inputs.iter().map(|(dtype, shape)| (*dtype, shape.to_vec())).collect();
    Some(DeviceCase { inputs, program: Box::new(|inputs| Ok((case.program)(inputs))) })
}

/// What a case computes, of these or of those of CPUs, over parameters: nothing of the inputs is there but their types and shapes.
pub(crate) fn shaped(name: &str) -> Result<UOp, Box<dyn Error>> {
    let Some(case) = CASES.iter().find(|case| case.name == name) else {
        let Some(layer) = layer_cases::layer(name) else { return cases::shaped(name) };
        let inputs: Vec<Tensor> = layer.shapes.iter().map(|shape| unknown(F32, shape)).collect();
        return graph_of(&(layer.program)(&inputs)?);
    };
    let inputs: Vec<Tensor> = case.inputs.iter().map(|(dtype, shape)| unknown(*dtype, shape)).collect();
    graph_of(&(case.program)(&inputs))
}

/// An input of a GPU of which only type and shape count.
pub(crate) fn unknown(dtype: DType, shape: &[i64]) -> Tensor {
    let len = shape.iter().product::<i64>() as usize;
    Tensor::from_bytes(Some("PTX"), dtype, shape, &vec![0; dtype.bytes() * len])
}

/// The graph of a tensor that is not computed, over parameters.
pub(crate) fn graph_of(tensor: &Tensor) -> Result<UOp, Box<dyn Error>> {
    let graph = warpweft_compiler::ir::text::parse(&tensor.program()?)?;
    graph.roots.into_iter().next().ok_or_else(|| "the case computes nothing".into())
}
