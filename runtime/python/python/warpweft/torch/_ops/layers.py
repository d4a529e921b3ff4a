"""Convolution, pooling and attention, forward and backward. What is the derivative of something of ours is derived by us."""

from __future__ import annotations

import math
from typing import Any

import warpweft as ww
from warpweft.torch._table import Context, Unsupported, moved, numbers, op


def _convolution(
    x: ww.Tensor, weight: ww.Tensor, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: bool, output_padding: Any, groups: int
) -> ww.Tensor:
    axes = weight.ndim - 2
    every = [numbers(value) * (axes if len(numbers(value)) == 1 else 1) for value in (stride, padding, dilation, output_padding)]
    if x.size == 0 or weight.size == 0 or any(length < 0 for length in every[1]):
        raise Unsupported("a convolution of nothing, or with negative padding")
    if transposed:
        return x.conv_transpose(weight, bias, every[0], every[1], every[3], every[2], int(groups))
    return x.conv(weight, bias, every[0], every[1], every[2], int(groups))


@op("convolution", "_convolution")
def convolution(
    c: Context,
    x: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
    *rest: Any,
) -> Any:
    has_batch = x.ndim == weight.ndim
    found = _convolution(x if has_batch else x.unsqueeze(0), weight, bias, stride, padding, dilation, transposed, output_padding, groups)
    return found if has_batch else found.squeeze(0)


@op("convolution_backward")
def convolution_backward(
    c: Context,
    cotangent: Any,
    x: Any,
    weight: Any,
    bias_sizes: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
    output_mask: Any,
) -> Any:
    # Both may be one tensor, or one computed from the other: each is a target of its own.
    x, weight = x.copy().distinct(), weight.copy().distinct()
    found = _convolution(x, weight, None, stride, padding, dilation, transposed, output_padding, groups)
    targets = [tensor for tensor, wanted in zip((x, weight), output_mask) if wanted]
    gradients = iter(found.gradient_with(cotangent, targets) if targets else [])
    parts: list[Any] = [next(gradients) if wanted else None for wanted in output_mask[:2]]
    parts.append(cotangent.sum([axis for axis in range(cotangent.ndim) if axis != 1]) if output_mask[2] else None)
    return tuple(parts)


def _window(axes: int, kernel: Any, stride: Any, padding: Any, dilation: Any = 1) -> tuple[list[int], list[int], list[int], list[int]]:
    kernel = numbers(kernel) * (axes if len(numbers(kernel)) == 1 else 1)
    stride = numbers(stride) if stride is not None and (isinstance(stride, int) or len(stride)) else kernel
    padding, dilation = numbers(padding), numbers(dilation)
    spread = [value * (axes if len(value) == 1 else 1) for value in (kernel, stride, padding, dilation)]
    return spread[0], spread[1], spread[2], spread[3]


def _max_pool(axes: int) -> Any:
    def build(c: Context, x: ww.Tensor, kernel: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False) -> Any:
        if x.size == 0:
            raise Unsupported("windows of nothing")
        window = _window(axes, kernel, stride, padding, dilation)
        return x.max_pool(*window, ceil_mode), x.max_pool(*window, ceil_mode, True)

    return build


op("max_pool2d_with_indices")(_max_pool(2))
op("max_pool3d_with_indices")(_max_pool(3))


def _max_pool_backward(axes: int) -> Any:
    def build(
        c: Context,
        cotangent: ww.Tensor,
        x: ww.Tensor,
        kernel: Any,
        stride: Any,
        padding: Any,
        dilation: Any,
        ceil_mode: bool,
        indices: ww.Tensor,
    ) -> Any:
        lead = list(x.shape[: x.ndim - axes])
        inside = math.prod(x.shape[x.ndim - axes :])
        flat = ww.zeros(*lead, inside, dtype=x.dtype)
        return flat.scatter_reduce(-1, indices.reshape(*lead, -1), cotangent.reshape(*lead, -1), "sum").reshape(x.shape)

    return build


op("max_pool2d_with_indices_backward")(_max_pool_backward(2))
op("max_pool3d_with_indices_backward")(_max_pool_backward(3))


def _adaptive_max_backward(axes: int) -> Any:
    def build(c: Context, cotangent: ww.Tensor, x: ww.Tensor, indices: ww.Tensor) -> Any:
        return _max_pool_backward(axes)(c, cotangent, x, None, None, None, None, False, indices)

    return build


op("adaptive_max_pool2d_backward")(_adaptive_max_backward(2))
op("adaptive_max_pool3d_backward")(_adaptive_max_backward(3))


def _avg(
    x: ww.Tensor, axes: int, kernel: Any, stride: Any, padding: Any, ceil_mode: bool, count_include_pad: bool, divisor: Any
) -> ww.Tensor:
    window = _window(axes, kernel, stride, padding)
    if x.size == 0:
        raise Unsupported("windows of nothing")
    if divisor:
        pairs = [(0, 0)] * (x.ndim - axes)
        for length, kernel, stride, padding in zip(x.shape[x.ndim - axes :], *window[:3]):
            past = 0
            if ceil_mode:
                # A last window begins inside of the elements and what is padded before them.
                count = -(-(length + 2 * padding - kernel) // stride) + 1
                count -= (count - 1) * stride >= length + padding
                past = max((count - 1) * stride + kernel - length - 2 * padding, 0)
            pairs.append((padding, padding + past))
        whole = math.prod(window[0])
        return x.pad(pairs).avg_pool(window[0], window[1], 0, False, True) * float(whole / divisor)
    return x.avg_pool(*window[:3], ceil_mode, count_include_pad)


def _avg_pool(axes: int) -> Any:
    def build(
        c: Context,
        x: Any,
        kernel: Any,
        stride: Any = (),
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: Any = None,
    ) -> Any:
        return _avg(x, axes, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override)

    return build


op("avg_pool1d")(_avg_pool(1))
op("avg_pool2d")(_avg_pool(2))
op("avg_pool3d")(_avg_pool(3))


def _avg_pool_backward(axes: int) -> Any:
    def build(
        c: Context,
        cotangent: Any,
        x: Any,
        kernel: Any,
        stride: Any,
        padding: Any,
        ceil_mode: bool,
        count_include_pad: bool,
        divisor_override: Any,
    ) -> Any:
        x = x.copy()
        found = _avg(x, axes, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override)
        return found.gradient_with(cotangent, [x])[0]

    return build


op("avg_pool2d_backward")(_avg_pool_backward(2))
op("avg_pool3d_backward")(_avg_pool_backward(3))


def _adaptive_bounds(length: int, count: int) -> list[tuple[int, int]]:
    return [(position * length // count, -(-(position + 1) * length // count)) for position in range(count)]


def _adaptive_avg(x: ww.Tensor, sizes: list[int]) -> ww.Tensor:
    for position, count in enumerate(sizes):
        axis = x.ndim - len(sizes) + position
        if count == 1:
            x = x.mean(axis, True)
            continue
        bounds = _adaptive_bounds(x.shape[axis], count)
        x = ww.cat([x.narrow(axis, start, end - start).mean(axis, True) for start, end in bounds], axis)
    return x


@op("_adaptive_avg_pool2d", "adaptive_avg_pool2d", "_adaptive_avg_pool3d", "adaptive_avg_pool3d", "adaptive_avg_pool1d")
def adaptive_avg_pool(c: Context, x: ww.Tensor, size: Any) -> Any:
    if x.size == 0 or 0 in c.shape:
        return ww.zeros(c.shape, dtype=c.dtype)
    return _adaptive_avg(x, numbers(size))


def _adaptive_backward(axes: int) -> Any:
    def build(c: Context, cotangent: ww.Tensor, x: ww.Tensor) -> Any:
        x = x.copy()
        return _adaptive_avg(x, list(cotangent.shape[cotangent.ndim - axes :])).gradient_with(cotangent, [x])[0]

    return build


op("_adaptive_avg_pool2d_backward")(_adaptive_backward(2))
op("_adaptive_avg_pool3d_backward")(_adaptive_backward(3))


def _adaptive_max(axes: int) -> Any:
    def build(c: Context, x: ww.Tensor, size: Any) -> Any:
        if x.size == 0 or 0 in c.shape:
            raise Unsupported("windows of nothing")
        sizes = numbers(size)
        inside = list(x.shape[x.ndim - axes :])
        lead = list(x.shape[: x.ndim - axes])
        windows: list[list[int]] = [[]]
        for count in sizes:
            windows = [[*window, position] for window in windows for position in range(count)]
        bounds = [_adaptive_bounds(length, count) for length, count in zip(inside, sizes)]
        positions = ww.arange(math.prod(inside), dtype=ww.int64).reshape(inside)
        values, indices = [], []
        for window in windows:
            index = tuple(slice(*bounds[axis][position]) for axis, position in enumerate(window))
            part = x[(..., *index)].reshape(*lead, -1)
            at = part.argmax(-1).astype(ww.int64)
            values.append(part.max(-1))
            indices.append(positions[index].reshape(-1).index_select(0, at.reshape(-1)).reshape(at.shape))
        return tuple(ww.stack(list(parts), -1).reshape(*lead, *sizes) for parts in (values, indices))

    return build


op("adaptive_max_pool2d")(_adaptive_max(2))
op("adaptive_max_pool3d")(_adaptive_max(3))


def _shared_by_groups(q: ww.Tensor, k: ww.Tensor) -> ww.Tensor:
    """Keys, or values, with a head for each of the queries': of fewer, each serves as many queries that follow one another."""
    if q.ndim < 3 or isinstance(k.shape[-3], (ww.Var, ww.Dim)) or k.shape[-3] in (q.shape[-3], 1):
        return k
    return k.repeat_interleave(int(q.shape[-3]) // int(k.shape[-3]), k.ndim - 3)


def _attend(q: ww.Tensor, k: ww.Tensor, v: ww.Tensor, is_causal: bool, mask: Any, scale: Any) -> ww.Tensor:
    if mask is not None and is_causal:
        raise Unsupported("a mask beside a causal one")
    return q.attention(_shared_by_groups(q, k), _shared_by_groups(q, v), mask, bool(is_causal), scale)


@op("_scaled_dot_product_flash_attention_for_cpu")
def attention(
    c: Context, q: Any, k: Any, v: Any, dropout_p: float = 0.0, is_causal: bool = False, *, attn_mask: Any = None, scale: Any = None
) -> Any:
    if dropout_p:
        raise Unsupported("dropout")
    wide = ww.float32 if q.dtype in (ww.float16, ww.bfloat16) else q.dtype
    found = _attend(moved(q, wide), moved(k, wide), moved(v, wide), is_causal, attn_mask, scale)
    scores = moved(q, wide) @ moved(_shared_by_groups(q, k), wide).t() * (scale if scale is not None else 1 / math.sqrt(q.shape[-1]))
    if attn_mask is not None:
        scores = ww.where(attn_mask, scores, -math.inf) if attn_mask.dtype == ww.bool_ else scores + attn_mask
    if is_causal:
        seen = ww.ones(q.shape[-2], k.shape[-2], dtype=ww.bool_).tril()
        scores = ww.where(seen, scores, -math.inf)
    return found, scores.logsumexp(-1)


@op("_scaled_dot_product_flash_attention_for_cpu_backward")
def attention_backward(
    c: Context,
    cotangent: Any,
    q: Any,
    k: Any,
    v: Any,
    out: Any,
    logsumexp: Any,
    dropout_p: float,
    is_causal: bool,
    *,
    attn_mask: Any = None,
    scale: Any = None,
) -> Any:
    if dropout_p:
        raise Unsupported("dropout")
    wide = ww.float32 if q.dtype in (ww.float16, ww.bfloat16) else q.dtype
    # They may be one tensor, or one computed from another: each is a target of its own.
    q, k, v = (moved(tensor, wide).copy().distinct() for tensor in (q, k, v))
    found = _attend(q, k, v, is_causal, attn_mask, scale)
    return tuple(found.gradient_with(moved(cotangent, wide), [q, k, v]))
