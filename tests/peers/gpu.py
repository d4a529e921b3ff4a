"""PyTorch on a GPU beside `warpweft bench --device CUDA`: its times of the same cases, and whether the outputs agree.

    warpweft bench --device CUDA --json --seconds 0.3 --save FOLDER CASE ... > ours.json
    python tests/peers/gpu.py --ours ours.json --save FOLDER [--compile] [CASE ...]

Times are medians by the GPU's clock, with caches swept before each call, as Warpweft times itself. Outputs are compared with what PyTorch computes in f64 from the same inputs (where that takes
too long, in f32). Prints a line for each case: times, PyTorch's over ours, our bound over ours, and the error; then the geometric mean. Exit code 1 if an output is wrong.
"""

import argparse
import json
import math
import statistics
import sys
from pathlib import Path

import torch
import torch.nn.functional as F

SWEEP_BYTES = 256 << 20
# Relative to the root of the mean square of the output: rounding of f32, and of the output's type. A sum of 65,536 products in f32 has an error of some 1e-5.
TOLERANCE = {torch.float32: 5e-5, torch.bfloat16: 6e-3, torch.float16: 1e-3}


def largest(x, k):
    return x.topk(k, -1)[0]


def scattered(x, index, source):
    index = index.long()
    if source.dim() == 2:
        index = index.reshape(-1, 1).expand(source.shape)
    return x.scatter_reduce(0, index, source, "sum", include_self=True)


def strided(x):
    return x.reshape(2048, 2, 4096)[:, 0, :].flip(1).contiguous()


def binned(x, source):
    # In f32, as the case has it: f64 would put some into other bins.
    index = (source.float().abs() * 300.0).to(torch.int32).clamp_max(999)
    return x.scatter_reduce(0, index.long(), source, "sum", include_self=True)


def attention(q, k, v, **more):
    # Heads as scaled_dot_product_attention wants them for its fast kernels.
    return F.scaled_dot_product_attention(q[None], k[None], v[None], **more)[0]


def norm(*tensors):
    x, more = tensors[0], tensors[1:]
    return F.layer_norm(x, (x.shape[-1],), *more)


def layernorm_gradient(x, weight, g):
    _, mean, scale = torch.native_layer_norm(x, (x.shape[-1],), weight, None, 1e-5)
    mask = [False, True, False]
    return torch.ops.aten.native_layer_norm_backward(g, x, (x.shape[-1],), mean, scale, weight, None, mask)[1]


def embedding_gradient(table, numbers, g):
    rows = (numbers.float() * 4096.0 + 4096.0).clamp(0.0, 8191.0).long()
    return torch.ops.aten.embedding_dense_backward(g, rows, table.shape[0], -1, False)


def rms(x, weight):
    return F.rms_norm(x, (x.shape[-1],), weight, 1e-5)


CASES = {
    "matmul": lambda a, b: a @ b,
    "matmul_t_1024": lambda a, b: a.T @ b,
    "matvec": lambda a, b: a @ b,
    "matvec_t": lambda a, b: a.T @ b,
    "matmul_bf16_t_4096": lambda a, b: a @ b.T,
    "matmul_t_4096": lambda a, b: a @ b.T,
    "matmul_tt_2048": lambda a, b: a.T @ b.T,
    "linear_few_rows": lambda a, b: a @ b.T,
    "weights_bf16": lambda a, b: a.T @ b,
    "batch_matmul": lambda a, b: a @ b,
    "heads_bf16": lambda a, b: a @ b,
    "mlp_gelu": lambda x, a, b: F.gelu(x @ a, approximate="tanh") @ b,
    "chain_16M": lambda a, b: (a * 2 + b).relu() * a - b * 0.5,
    "exp": lambda a: a.exp(),
    "sum": lambda a: a.sum(),
    "sum_every_other": lambda a: a[:, ::2].sum(1),
    "sum_transposed": lambda a, b: (a.T + b).sum(1),
    "rowsum": lambda a: a.sum(1),
    "colsum": lambda a: a.sum(0),
    "colmean_2000": lambda a: a.mean(0),
    "middle": lambda a: a.sum(1),
    "outer_and_inner": lambda a: a.sum((0, 2)),
    "channels": lambda a: a.sum((0, 2, 3)),
    "max_50000": lambda a: a.amax(1),
    "rowmax_i8": lambda a: a.amax(1),
    "argmax": lambda a: a.argmax(1).int(),
    "argmax_columns": lambda a: a.argmax(0).int(),
    "mean_bf16": lambda a: a.mean(1),
    "var_rows": lambda a: a.var(1),
    "logsumexp": lambda a: a.logsumexp(1),
    "softmax": lambda a: a.softmax(-1),
    "softmax_columns": lambda a: a.softmax(0),
    "log_softmax": lambda a: a.log_softmax(1),
    "cross_entropy": lambda a, target: F.cross_entropy(a, target.long()),
    "layernorm": norm,
    "rmsnorm": rms,
    "groupnorm": lambda a: F.group_norm(a, 8),
    "transpose": lambda a: a.t().contiguous(),
    "strided_gather": strided,
    "conv2d_3x3": lambda x, w: F.conv2d(x, w, padding=1),
    "conv_1x1": lambda x, w: F.conv2d(x, w),
    "conv_stem": lambda x, w: F.conv2d(x, w, stride=2, padding=3),
    "conv_depthwise": lambda x, w: F.conv2d(x, w, padding=1, groups=x.shape[1]),
    "conv_depthwise_5": lambda x, w: F.conv2d(x, w, padding=2, stride=2, groups=96),
    "conv_depthwise_bf16": lambda x, w: F.conv2d(x, w, padding=3, groups=96),
    "conv_bf16": lambda x, w: F.conv2d(x, w, padding=1),
    "conv_28": lambda x, w: F.conv2d(x, w, padding=1),
    "conv_stride_2": lambda x, w: F.conv2d(x, w, stride=2, padding=1),
    "conv_7x7_stride_2": lambda x, w: F.conv2d(x, w, stride=2, padding=3),
    "conv_grouped": lambda x, w: F.conv2d(x, w, padding=1, groups=4),
    "conv_dilated": lambda x, w: F.conv2d(x, w, padding=2, dilation=2),
    "conv_1d": lambda x, w: F.conv1d(x, w, padding=2),
    "conv_3d": lambda x, w: F.conv3d(x, w, padding=1),
    "conv_transposed": lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1),
    "conv_gradient_input": lambda x, w, g: torch.nn.grad.conv2d_input(x.shape, w, g, padding=1),
    "conv_gradient_input_stride_2": lambda x, w, g: torch.nn.grad.conv2d_input(x.shape, w, g, stride=2, padding=1),
    "conv_gradient_weight": lambda x, w, g: torch.nn.grad.conv2d_weight(x, w.shape, g, padding=1),
    "layernorm_gradient": layernorm_gradient,
    "embedding_gradient": embedding_gradient,
    "max_pool": lambda x: F.max_pool2d(x, 3, 2, 1),
    "average_pool": lambda x: F.avg_pool2d(x, 3, 1, 1),
    "resize_bilinear": lambda x: F.interpolate(x, (128, 128), mode="bilinear"),
    "attention": attention,
    "attention_causal": lambda q, k, v: attention(q, k, v, is_causal=True),
    "attention_mask": lambda q, k, v, mask: attention(q, k, v, attn_mask=mask.to(q.dtype)),
    "cumsum": lambda a: a.cumsum(-1),
    "cumsum_columns": lambda a: a.cumsum(0),
    "cummax_bf16": lambda a: a.cummax(1)[0],
    "scatter_add_64k": binned,
    "sort": lambda a: a.sort(-1)[0],
    "argsort_i64": lambda a: torch.argsort(a, dim=0, descending=True, stable=True).int(),
    "argsort_i32_1M": lambda a: torch.argsort((a * 1e8).to(torch.int32), dim=0, stable=True).int(),
    "topk_1M": lambda a: largest(a, 10),
    "topk_rows": lambda a: largest(a, 8),
    "index_add": scattered,
    "embedding_weights": scattered,
    "histogram": scattered,
    "add": lambda a, b: a + b,
    "bias_odd": lambda a, b: (a + b).relu(),
    "bias_bf16": lambda a, b: (a + b).relu(),
    "scale_rows": lambda a, b: a * b,
    "every_other": lambda a: a[:, ::2] * 2.0,
    "flip_rows": lambda a: a.flip(1),
    "cat_odd": lambda a, b: torch.cat([a, b], 1),
    "pad_rows": lambda a: F.pad(a, (3, 3)),
    "permute_heads": lambda a: a.permute(0, 2, 1, 3).contiguous(),
    "permute_last": lambda a: a.permute(0, 2, 1).contiguous(),
    "double_bf16": lambda a: a * 2.0,
    "gelu_erf_bf16": lambda a: F.gelu(a),
    "gelu": lambda a: F.gelu(a, approximate="tanh"),
    "narrowed": lambda a: a.bfloat16(),
    "widened_odd": lambda a: a.float(),
    "gated_bf16": lambda a, b: F.silu(a) * b,
    "tanh_16M": lambda a: a.tanh(),
}
# These have no relatives in other sizes.
WHOLE_NAMES = ("max_pool",)
# A name of a case begins with the longest of these that it can.
PREFIXES = sorted(CASES, key=len, reverse=True)
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16, "i32": torch.int32, "i64": torch.int64, "i8": torch.int8}
# Of these f64 on the GPU takes seconds or more memory than there is.
IN_F32 = ("conv", "attention_8x4096", "attention_causal", "attention_bf16", "attention_mask")


def program(name):
    prefix = next((prefix for prefix in PREFIXES if name.startswith(prefix)), None)
    if prefix in WHOLE_NAMES and name != prefix:
        return None
    return CASES.get(prefix)


def read(folder, name, what, described):
    dtype, shape = DTYPES[described["dtype"]], described["shape"]
    data = bytearray((folder / f"{name}.{what}").read_bytes())
    pattern = torch.frombuffer(data, dtype=dtype).cuda()
    count = math.prod(shape)
    return pattern.repeat(-(-count // max(pattern.numel(), 1)))[:count].reshape(shape).contiguous()


def timed(call, seconds):
    sweep = torch.empty(SWEEP_BYTES // 4, dtype=torch.float32, device="cuda")
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    times, spent = [], 0.0
    while len(times) < 10 or (spent < seconds and len(times) < 200):
        events = []
        for _ in range(10):
            sweep.zero_()
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            call()
            end.record()
            events.append((start, end))
        torch.cuda.synchronize()
        batch = [start.elapsed_time(end) / 1e3 for start, end in events]
        times += batch
        spent += sum(batch) + 10 * 1e-4
    return statistics.median(times)


def error(name, inputs, output):
    """How far an output is from what PyTorch computes in more digits, and what is allowed."""
    compute = program(name)
    wide = torch.float32 if name.startswith(IN_F32) else torch.float64
    widened = [x.to(wide) if x.is_floating_point() else x for x in inputs]
    want = compute(*(inputs if name.startswith("argsort_i32") else widened))
    if not output.is_floating_point():
        return float((want.long() != output.long()).double().mean()), 1e-3 if name.startswith("argmax") else 0.0
    difference = (output.double() - want.double()).pow(2).mean().sqrt()
    return float(difference / want.double().pow(2).mean().sqrt().clamp_min(1e-30)), TOLERANCE[output.dtype]


def main():
    parser = argparse.ArgumentParser(description="Times PyTorch on a GPU beside what Warpweft took, and compares outputs.")
    parser.add_argument("--ours", required=True, type=Path, help="lines of `warpweft bench --device CUDA --json`")
    parser.add_argument("--save", required=True, type=Path, help="the folder of its inputs and outputs")
    parser.add_argument("--seconds", type=float, default=0.1, help="seconds for each case")
    parser.add_argument("--compile", action="store_true", help="time torch.compile as well")
    parser.add_argument("--tf32", action="store_true", help="let PyTorch multiply f32 with ten bits, as it does in convolutions by itself")
    parser.add_argument("cases", nargs="*", help="cases; all that were timed, if none is named")
    arguments = parser.parse_args()
    # What is f32 here is f32 there.
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = arguments.tf32
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, CUDA {torch.version.cuda}")
    ours = [json.loads(line) for line in arguments.ours.read_text().splitlines() if line.startswith("{")]
    wrong, ratios = [], []
    for line in ours:
        name, time = line["case"], line["median_s"]
        described = arguments.save / f"{name}.json"
        if (arguments.cases and name not in arguments.cases) or not described.exists():
            continue
        bound = f"{time / line['bound_s']:8.2f}" if line.get("bound_s") else "       -"
        if program(name) is None:
            print(f"{name:24} {time * 1e6:10.1f} {'-':>10} {'-':>7} {bound}")
            continue
        try:
            case = json.loads(described.read_text())
            inputs = [read(arguments.save, name, f"input_{i}", x) for i, x in enumerate(case["inputs"])]
            output = read(arguments.save, name, "output", case["output"])
            found, allowed = error(name, inputs, output)
            torch.cuda.empty_cache()
            theirs = timed(lambda: program(name)(*inputs), arguments.seconds)
            compiled = timed(lambda f=torch.compile(program(name)): f(*inputs), arguments.seconds) if arguments.compile else None
        except Exception as problem:  # a case that PyTorch does not compute says so, and the others go on
            print(f"{name:24} {time * 1e6:10.1f} PyTorch: {str(problem).splitlines()[0][:120]}")
            continue
        verdict = "" if found <= allowed else f"  WRONG: {found:.2e}, allowed {allowed:.0e}"
        wrong += [name] if verdict else []
        ratios.append(theirs / time)
        more = f" compiled {compiled * 1e6:10.1f} {compiled / time:7.2f}" if compiled else ""
        print(f"{name:24} {time * 1e6:10.1f} {theirs * 1e6:10.1f} {theirs / time:7.2f} {bound} {found:9.1e}{more}{verdict}", flush=True)
        del inputs, output
    if ratios:
        print(f"geometric mean of PyTorch / Warpweft over {len(ratios)} cases: {statistics.geometric_mean(ratios):.2f}")
    if wrong:
        sys.exit(f"wrong: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
