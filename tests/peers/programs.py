"""The cases of `warpweft bench` as other libraries write them: a table for each library, from a case's name to a function of its inputs.

Each entry is what a user of that library would write, with the library's own function where it has one. A case that a library has no
function for is not in its table. Inputs come from Warpweft (`warpweft bench CASE --save FOLDER`), so that outputs can be compared.
"""

import numpy as np


def numpy_programs():
    """Programs over numpy arrays."""
    square_root_half_pi = 0.7978845608

    def mlp(x, a, b):
        h = x @ a
        return (0.5 * h * (1 + np.tanh(square_root_half_pi * (h + 0.044715 * h * h * h)))) @ b

    def softmax(a):
        e = np.exp(a - a.max(1, keepdims=True))
        return e / e.sum(1, keepdims=True)

    def layer_norm(a):
        d = a - a.mean(1, keepdims=True)
        return d / np.sqrt((d * d).mean(1, keepdims=True) + 1e-5)

    product = lambda a, b: a @ b
    return {
        **dict.fromkeys(["matmul_512", "matmul_1024", "matmul_2048", "matvec_4096", "batch_matmul"], product),
        "matmul_t_1024": lambda a, b: a.T @ b,
        "mlp_gelu": mlp,
        "chain_16M": lambda a, b: np.maximum(a * 2 + b, 0) * a - b * 0.5,
        "exp_16M": np.exp,
        "sum_64M": lambda a: a.sum(),
        "rowsum_4096": lambda a: a.sum(1),
        "colsum_4096": lambda a: a.sum(0),
        "softmax_4096x1024": softmax,
        "layernorm_4096x1024": layer_norm,
        "transpose_4096": lambda a: np.ascontiguousarray(a.T),
        "strided_gather": lambda a: np.ascontiguousarray(a[::2, ::-1]),
        "cumsum_1024x4096": lambda a: a.cumsum(1),
        "sort_1M": lambda a: np.sort(a, kind="stable"),
        "sort_rows": lambda a: np.sort(a, kind="stable"),
        "argsort_i32_1M": lambda a: np.argsort((a * np.float32(1e8)).astype(np.int32), kind="stable"),
    }


def torch_programs():
    """Programs over PyTorch tensors on the CPU."""
    import torch

    F, aten = torch.nn.functional, torch.ops.aten
    product = lambda a, b: a @ b

    def scatter_add(a, b):
        return a.scatter_add(0, (b.abs() * 300.0).to(torch.int32).clamp(max=999).to(torch.int64), b)

    def convolution_backward(stride, wanted):
        return lambda x, w, g: aten.convolution_backward(
            g, x, w, None, [stride] * 2, [1, 1], [1, 1], False, [0, 0], 1, [wanted == 0, wanted == 1, False])[wanted]

    def layer_norm_backward(x, w, g):
        _, mean, reciprocal = aten.native_layer_norm(x, [1024], w, None, 1e-5)
        return aten.native_layer_norm_backward(g, x, [1024], mean, reciprocal, w, None, [False, True, False])[1]

    def max_pool_backward(x, g):
        _, index = aten.max_pool2d_with_indices(x, [3, 3], [2, 2], [1, 1])
        return aten.max_pool2d_with_indices_backward(g, x, [3, 3], [2, 2], [1, 1], [1, 1], False, index)

    def embedding_backward(table, index, g):
        rows = (index * 4096.0 + 4096.0).clamp(0.0, 8191.0).to(torch.int64)
        return aten.embedding_dense_backward(g, rows, table.shape[0], -1, False)

    return {
        **dict.fromkeys(["matmul_512", "matmul_1024", "matmul_2048", "matvec_4096", "batch_matmul"], product),
        "matmul_t_1024": lambda a, b: a.T @ b,
        "mlp_gelu": lambda x, a, b: F.gelu(x @ a, approximate="tanh") @ b,
        "chain_16M": lambda a, b: (a * 2 + b).relu() * a - b * 0.5,
        "exp_16M": lambda a: a.exp(),
        "sum_64M": lambda a: a.sum(),
        "rowsum_4096": lambda a: a.sum(1),
        "colsum_4096": lambda a: a.sum(0),
        "softmax_4096x1024": lambda a: a.softmax(1),
        "layernorm_4096x1024": lambda a: F.layer_norm(a, (1024,)),
        "transpose_4096": lambda a: a.t().contiguous(),
        "strided_gather": lambda a: a[::2].flip(1).contiguous(),
        "conv2d_3x3": lambda x, w: F.conv2d(x, w, padding=1),
        "attention_8x128x64": lambda q, k, v: ((q @ k.transpose(-1, -2)) * 0.125).softmax(-1) @ v,
        "attention_8x4096x64": lambda q, k, v: F.scaled_dot_product_attention(q[None], k[None], v[None])[0],
        "cumsum_1024x4096": lambda a: a.cumsum(1),
        "scatter_add_64k": scatter_add,
        "sort_1M": lambda a: a.sort(stable=True)[0],
        "sort_rows": lambda a: a.sort(stable=True)[0],
        "argsort_i32_1M": lambda a: (a * 1e8).to(torch.int32).argsort(stable=True),
        "topk_1M": lambda a: a.topk(10)[0],
        "topk_rows": lambda a: a.topk(8)[0],
        "conv_stride_2": lambda x, w: F.conv2d(x, w, stride=2, padding=1),
        "conv_7x7_stride_2": lambda x, w: F.conv2d(x, w, stride=2, padding=3),
        "conv_28": lambda x, w: F.conv2d(x, w, padding=1),
        "conv_1x1": lambda x, w: F.conv2d(x, w),
        "conv_grouped": lambda x, w: F.conv2d(x, w, padding=1, groups=4),
        "conv_depthwise": lambda x, w: F.conv2d(x, w, padding=1, groups=128),
        "conv_dilated": lambda x, w: F.conv2d(x, w, padding=2, dilation=2),
        "conv_1d": lambda x, w: F.conv1d(x, w, padding=2),
        "conv_3d": lambda x, w: F.conv3d(x, w, padding=1),
        "conv_transposed": lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1),
        "conv_gradient_input": convolution_backward(1, 0),
        "conv_gradient_input_stride_2": convolution_backward(2, 0),
        "conv_gradient_weight": convolution_backward(1, 1),
        "layernorm_gradient": layer_norm_backward,
        "max_pool": lambda x: F.max_pool2d(x, 3, 2, 1),
        "max_pool_gradient": max_pool_backward,
        "average_pool": lambda x: F.avg_pool2d(x, 3, 1, 1),
        "resize_bilinear": lambda x: F.interpolate(x, (128, 128), mode="bilinear", align_corners=False),
        "embedding_gradient": embedding_backward,
    }


def jax_programs():
    """Programs over JAX arrays, to be compiled by `jax.jit`."""
    import jax
    import jax.numpy as jnp
    from jax import lax

    product = lambda a, b: a @ b

    def layer_norm(a, weight=None):
        normal = (a - a.mean(1, keepdims=True)) / jnp.sqrt(a.var(1, keepdims=True) + 1e-5)
        return normal if weight is None else normal * weight

    def attention(q, k, v):
        return jax.nn.softmax((q @ k.transpose(0, 2, 1)) * 0.125, -1) @ v

    def convolution(stride=1, padding=0, dilation=1, groups=1):
        def run(x, w):
            axes = x.ndim - 2
            return lax.conv_general_dilated(
                x, w, (stride,) * axes, [(padding, padding)] * axes, rhs_dilation=(dilation,) * axes, feature_group_count=groups)
        return run

    def transposed(x, w):
        return lax.conv_general_dilated(x, jnp.flip(w, (2, 3)).transpose(1, 0, 2, 3), (1, 1), [(2, 2)] * 2, lhs_dilation=(2, 2))

    def gradient(function, wanted):
        """The gradient of a function of two arguments by one of them, for a given cotangent."""
        return lambda x, w, g: jax.vjp(function, x, w)[1](g)[wanted]

    def max_pool(x):
        return lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 3, 3), (1, 1, 2, 2), [(0, 0), (0, 0), (1, 1), (1, 1)])

    def average_pool(x):
        return lax.reduce_window(x, 0.0, lax.add, (1, 1, 3, 3), (1, 1, 1, 1), [(0, 0), (0, 0), (1, 1), (1, 1)]) / 9.0

    def embedding_backward(table, index, g):
        rows = jnp.clip(index * 4096.0 + 4096.0, 0.0, 8191.0).astype(jnp.int32)
        return jnp.zeros_like(table).at[rows].add(g)

    return {
        **dict.fromkeys(["matmul_512", "matmul_1024", "matmul_2048", "matvec_4096", "batch_matmul"], product),
        "matmul_t_1024": lambda a, b: a.T @ b,
        "mlp_gelu": lambda x, a, b: jax.nn.gelu(x @ a, approximate=True) @ b,
        "chain_16M": lambda a, b: jnp.maximum(a * 2 + b, 0) * a - b * 0.5,
        "exp_16M": jnp.exp,
        "sum_64M": jnp.sum,
        "rowsum_4096": lambda a: a.sum(1),
        "colsum_4096": lambda a: a.sum(0),
        "softmax_4096x1024": lambda a: jax.nn.softmax(a, 1),
        "layernorm_4096x1024": layer_norm,
        # The sum keeps XLA from answering with a view.
        "transpose_4096": lambda a: a.T + 0,
        "strided_gather": lambda a: a[::2, ::-1] + 0,
        "conv2d_3x3": convolution(padding=1),
        "attention_8x128x64": attention,
        "attention_8x4096x64": attention,
        "cumsum_1024x4096": lambda a: jnp.cumsum(a, 1),
        "scatter_add_64k": lambda a, b: a.at[jnp.minimum((jnp.abs(b) * 300.0).astype(jnp.int32), 999)].add(b),
        "sort_1M": lambda a: jnp.sort(a, stable=True),
        "sort_rows": lambda a: jnp.sort(a, stable=True),
        "argsort_i32_1M": lambda a: jnp.argsort((a * 1e8).astype(jnp.int32), stable=True),
        "topk_1M": lambda a: lax.top_k(a, 10)[0],
        "topk_rows": lambda a: lax.top_k(a, 8)[0],
        "conv_stride_2": convolution(2, 1),
        "conv_7x7_stride_2": convolution(2, 3),
        "conv_28": convolution(padding=1),
        "conv_1x1": convolution(),
        "conv_grouped": convolution(padding=1, groups=4),
        "conv_depthwise": convolution(padding=1, groups=128),
        "conv_dilated": convolution(padding=2, dilation=2),
        "conv_1d": convolution(padding=2),
        "conv_3d": convolution(padding=1),
        "conv_transposed": transposed,
        "conv_gradient_input": gradient(convolution(padding=1), 0),
        "conv_gradient_input_stride_2": gradient(convolution(2, 1), 0),
        "conv_gradient_weight": gradient(convolution(padding=1), 1),
        "layernorm_gradient": gradient(layer_norm, 1),
        "max_pool": max_pool,
        "max_pool_gradient": lambda x, g: jax.vjp(max_pool, x)[1](g)[0],
        "average_pool": average_pool,
        "resize_bilinear": lambda x: jax.image.resize(x, (4, 32, 128, 128), "bilinear"),
        "embedding_gradient": embedding_backward,
    }
