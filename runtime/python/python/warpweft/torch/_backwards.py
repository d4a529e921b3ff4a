"""Derivatives, and a few other ops, that PyTorch leaves whole, taken apart: of images resampled, of bags of embeddings, of norms of weights, of
margins, of distances; windows of pools that are drawn; and numbers rounded as if they were quantised.

An axis is resampled by itself: a result is a sum of a few elements times weights, so the derivative adds each gradient times those weights to these
elements. Images that are smoothed are products with a matrix of weights for each axis, and so are their derivatives. Places and weights are PyTorch's, in the
type that it computes in. Tests: tests/test_programs.py, against eager PyTorch; `tests/opinfo.py --backward`.
"""

from __future__ import annotations

import functools
import math
from functools import partial
from typing import Any, Callable, Optional


@functools.cache
def entries() -> dict[Any, Callable[..., Any]]:
    """For each op what takes it apart; ops that this PyTorch does not have are left out."""
    import torch

    found: dict[str, Callable[..., Any]] = {
        "_weight_norm_interface_backward": weight_norm,
        "_embedding_bag_backward": embedding_bag,
        "_embedding_bag_per_sample_weights_backward": sample_weights,
        "multi_margin_loss_backward": multi_margin,
        "multilabel_margin_loss_backward": multilabel_margin,
        "masked_scatter_backward": masked_scatter,
        "_pdist_backward": pairs,
        "_scaled_dot_product_flash_attention_for_cpu_backward": attention,
        "fake_quantize_per_tensor_affine_cachemask": quantised,
        "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams": quantised_if_enabled,
        "fake_quantize_per_channel_affine_cachemask": quantised_channels,
    }
    for axes in (2, 3):
        found[f"fractional_max_pool{axes}d"] = fractional_pool
        found[f"fractional_max_pool{axes}d_backward"] = fractional_pool_backward
    for axes in (1, 2, 3):
        found[f"upsample_nearest{axes}d_backward"] = partial(nearest, False)
        found[f"_upsample_nearest_exact{axes}d_backward"] = partial(nearest, True)
    for name in ("linear1d", "bilinear2d", "trilinear3d"):
        found[f"upsample_{name}_backward"] = partial(weighted, _linear)
    found["upsample_bicubic2d_backward"] = partial(weighted, _cubic)
    for name, width in (("bilinear2d", 2), ("bicubic2d", 4), ("lanczos2d", 6)):
        found[f"_upsample_{name}_aa"] = partial(smoothed, width)
        found[f"_upsample_{name}_aa_backward"] = partial(smoothed_backward, width)
    aten = torch.ops.aten
    return {getattr(aten, name).default: how for name, how in found.items() if hasattr(aten, name)}


@functools.cache
def taken_apart() -> frozenset[Any]:
    """Those that the table of ops has, too, for where they are left whole."""
    import torch

    return frozenset({torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default})


# Elements of an axis, with the weights that a result has of them: lists of tensors, one of each for each of the few.
Taps = tuple[list[Any], list[Any]]


def _positions(like: Any, count: int) -> Any:
    import torch

    wide = torch.float32 if like.dtype in (torch.float16, torch.bfloat16) else like.dtype
    return torch.arange(count, device=like.device, dtype=wide)


def step_between(length: int, outputs: int, align: bool, scale: Optional[float]) -> float:
    """Elements from one result to the next."""
    if align:
        return (length - 1) / (outputs - 1) if outputs > 1 else 0.0
    return 1 / scale if scale is not None and scale > 0 else length / outputs


def _linear(like: Any, length: int, outputs: int, align: bool, scale: Optional[float]) -> Taps:
    import torch

    positions = _positions(like, outputs)
    if length == outputs:
        return [positions.to(torch.int64)], [torch.ones_like(positions)]
    step = step_between(length, outputs, align, scale)
    at = positions * step if align else ((positions + 0.5) * step - 0.5).clamp(min=0)
    low = at.to(torch.int64).clamp(max=length - 1)
    share = (at - low).clamp(0, 1)
    return [low, (low + 1).clamp(max=length - 1)], [1 - share, share]


def _cubic(like: Any, length: int, outputs: int, align: bool, scale: Optional[float]) -> Taps:
    import torch

    step = step_between(length, outputs, align, scale)
    positions = _positions(like, outputs)
    at = positions * step if align else (positions + 0.5) * step - 0.5
    floor = at.floor()
    share = at - floor

    def near(x: Any) -> Any:
        return ((1.25 * x - 2.25) * x) * x + 1

    def far(x: Any) -> Any:
        return ((-0.75 * x + 3.75) * x - 6) * x + 3

    weights = [far(share + 1), near(share), near(1 - share), far(2 - share)]
    return [(floor.to(torch.int64) + k - 1).clamp(0, length - 1) for k in range(4)], weights


def _added(gradient: Any, axis: int, length: int, taps: Taps) -> Any:
    """Along one axis, each gradient times its weights added to what it was made of."""
    total: Any = None
    shape = [1] * gradient.ndim
    shape[axis] = -1
    for indices, weights in zip(*taps):
        part = gradient * weights.reshape(shape).to(gradient.dtype)
        part = part.new_zeros([*part.shape[:axis], length, *part.shape[axis + 1 :]]).index_add(axis, indices, part)
        total = part if total is None else total + part
    return total


# Weights of attention, queries times keys of all heads, that a block of queries has at most: 32 MiB of f32, what the last cache of a processor holds. Each block is
# compiled, some 0.2 s, so there are not many.
_WEIGHTS_OF_BLOCK = 1 << 23
_BLOCKS_MOST = 16
# Where queries see the keys up to their own, a block computes half a square for nothing: of 8 blocks 1/16 of all. Fewer weights, or shorter blocks, take no time that is worth it.
_BLOCKS_CAUSAL = 8
_WEIGHTS_CAUSAL = 1 << 20
_QUERIES_OF_BLOCK = 128


def blocks_of_queries(heads: int, queries: int, keys: int, is_causal: bool) -> list[tuple[int, int]]:
    """Where each block of queries begins and ends, as even as they can be."""
    weights = heads * queries * keys
    blocks = min(-(-weights // _WEIGHTS_OF_BLOCK), _BLOCKS_MOST)
    if is_causal and weights >= _WEIGHTS_CAUSAL:
        blocks = max(blocks, _BLOCKS_CAUSAL)
    blocks = max(min(blocks, queries // _QUERIES_OF_BLOCK), 1)
    borders = [queries * block // blocks for block in range(blocks + 1)]
    return list(zip(borders[:-1], borders[1:]))


def attention(
    gradient: Any,
    q: Any,
    k: Any,
    v: Any,
    out: Any,
    logsumexp: Any,
    dropout_p: float,
    is_causal: bool,
    *,
    attn_mask: Any = None,
    scale: Optional[float] = None,
) -> Any:
    """By queries, keys and values, from these alone: so the forward graph need not compute, and keep, the logarithms of sums that PyTorch's kernel asks for.

    Some queries at a time: the weights of all need not exist at once, and what they do not see is not computed. With a mask, fewer heads of keys than of queries, or
    variable lengths the op is left whole.
    """
    import torch

    if dropout_p or attn_mask is not None or q.ndim != 4 or k.shape[:-2] != q.shape[:-2]:
        return NotImplemented
    if not all(_is_known(x) for x in (q, k, v)):
        return NotImplemented
    wide = torch.float32 if q.dtype in (torch.float16, torch.bfloat16) else q.dtype
    gradient, queries, keys, values = (x.to(wide) for x in (gradient, q, k, v))
    factor = scale if scale is not None else 1 / math.sqrt(q.shape[-1])
    count = k.shape[-2]
    by_queries, by_keys, by_values = [], None, None
    for begin, end in blocks_of_queries(q.shape[0] * q.shape[1], q.shape[-2], count, is_causal):
        seen = min(end, count) if is_causal else count
        some, shown = (slice(begin, end), slice(None)), (slice(0, seen), slice(None))
        first = begin if is_causal else None
        found = _attention_of_block(queries[..., *some], gradient[..., *some], keys[..., *shown], values[..., *shown], first, factor)
        hidden = (0, 0, 0, count - seen)
        of_keys, of_values = (torch.nn.functional.pad(x, hidden) if seen < count else x for x in found[1:])
        by_queries.append(found[0])
        by_keys = of_keys if by_keys is None else by_keys + of_keys
        by_values = of_values if by_values is None else by_values + of_values
    found = (torch.cat(by_queries, -2) if len(by_queries) > 1 else by_queries[0], by_keys, by_values)
    # Heads lie inside of rows, as PyTorch's kernel stores them.
    return tuple(part.to(q.dtype).transpose(1, 2).contiguous().transpose(1, 2) for part in found)


def _attention_of_block(queries: Any, gradient: Any, keys: Any, values: Any, first: Optional[int], factor: float) -> tuple[Any, Any, Any]:
    """By some queries, the keys and the values; `first` is the number of the first query where each sees the keys up to its own."""
    import torch

    scores = queries @ keys.transpose(-2, -1) * factor
    if first is not None:
        row = torch.arange(first, first + queries.shape[-2], device=queries.device)
        column = torch.arange(keys.shape[-2], device=queries.device)
        scores = torch.where(row[:, None] < column, -math.inf, scores)
    weights = torch.softmax(scores, -1)
    by_weights = gradient @ values.transpose(-2, -1)
    by_scores = weights * (by_weights - (by_weights * weights).sum(-1, keepdim=True)) * factor
    return by_scores @ keys, by_scores.transpose(-2, -1) @ queries, weights.transpose(-2, -1) @ gradient


def _is_known(x: Any) -> bool:
    return all(isinstance(length, int) for length in x.shape)


def weighted(
    taps: Callable[..., Taps], gradient: Any, output_size: Any, input_size: Any, align_corners: bool, *scales: Optional[float], **named: Any
) -> Any:
    """By an image that was resampled by weights."""
    given = [*scales, *named.values(), None, None, None]
    found = gradient
    for position in range(len(output_size)):
        axis, length = position + 2, input_size[position + 2]
        found = _added(found, axis, length, taps(gradient, length, gradient.shape[axis], align_corners, given[position]))
    return found


def nearest(exact: bool, gradient: Any, output_size: Any, input_size: Any, *scales: Optional[float], **named: Any) -> Any:
    """By an image of which each result is one element."""
    import torch

    given = [*scales, *named.values(), None, None, None]
    found = gradient
    for position in range(len(output_size)):
        axis, length, outputs = position + 2, input_size[position + 2], gradient.shape[position + 2]
        positions = torch.arange(outputs, device=gradient.device, dtype=torch.float32)
        step = step_between(length, outputs, False, given[position])
        at = ((positions + 0.5 if exact else positions) * step).to(torch.int64).clamp(max=length - 1)
        found = found.new_zeros([*found.shape[:axis], length, *found.shape[axis + 1 :]]).index_add(axis, at, found)
    return found


def _smoothing(width: int, like: Any, length: int, outputs: int, align: bool, scale: Optional[float]) -> Any:
    """The matrix of an axis: a row of weights for each result, as wide as the steps between results are."""
    import torch

    step = step_between(length, outputs, align, scale)
    support, tight = (width / 2 * step, 1 / step) if step >= 1 else (width / 2, 1.0)
    center = (_positions(like, outputs) + 0.5) * step
    positions = _positions(like, length)
    first = (center - support + 0.5).to(torch.int64).clamp(min=0).unsqueeze(1)
    end = (center + support + 0.5).to(torch.int64).clamp(max=length).unsqueeze(1)
    x = ((positions - center.unsqueeze(1) + 0.5) * tight).abs()
    if width == 2:
        weights = 1 - x
    elif width == 4:
        weights = torch.where(x < 1, (1.5 * x - 2.5) * x * x + 1, (((x - 5) * x + 8) * x - 4) * -0.5)
    else:
        weights = torch.sinc(x) * torch.sinc(x / 3)
    inside = (positions >= first) & (positions < end) & (x < width / 2)
    weights = torch.where(inside, weights, 0.0)
    return weights / weights.sum(1, keepdim=True)


def _by_matrices(x: Any, matrices: list[Any]) -> Any:
    for position, matrix in enumerate(matrices):
        x = (x.movedim(position + 2, -1) @ matrix.to(x.dtype).T).movedim(-1, position + 2)
    return x


def smoothed(width: int, x: Any, output_size: Any, align_corners: bool, *scales: Optional[float], **named: Any) -> Any:
    """An image resampled and smoothed at once; that of bytes is PyTorch's, which weighs by integers."""
    if not x.is_floating_point() or 0 in x.shape:
        return NotImplemented
    given = [*scales, *named.values(), None, None]
    return _by_matrices(
        x, [_smoothing(width, x, x.shape[k + 2], output_size[k], align_corners, given[k]) for k in range(2)]
    ).contiguous()  # fmt: skip


def smoothed_backward(
    width: int, gradient: Any, output_size: Any, input_size: Any, align_corners: bool, *scales: Optional[float], **named: Any
) -> Any:
    """By such an image."""
    given = [*scales, *named.values(), None, None]
    return _by_matrices(
        gradient, [_smoothing(width, gradient, input_size[k + 2], output_size[k], align_corners, given[k]).T for k in range(2)]
    ).contiguous()  # fmt: skip


def weight_norm(gradient: Any, v: Any, g: Any, norms: Any, dim: int) -> tuple[Any, Any]:
    """By directions and lengths of `v * (g / norms)`."""
    axes = [axis for axis in range(v.ndim) if axis != dim % v.ndim]
    norms = norms.to(v.dtype)
    along = (gradient * v).sum(axes, keepdim=True) if axes else gradient * v
    return (g / norms) * (gradient - v * (along / norms**2)), along / norms


def _bags(indices: Any, offsets: Any, bags: int, padding_idx: int) -> tuple[Any, Any]:
    """The bag of each index, and whether it counts."""
    import torch

    positions = torch.arange(indices.shape[0], device=indices.device)
    bag = (offsets[:bags].unsqueeze(0) <= positions.unsqueeze(1)).sum(1) - 1
    counts = indices != padding_idx if padding_idx >= 0 else torch.ones_like(indices, dtype=torch.bool)
    # There may be one offset more, where the last bag ends.
    return bag, counts & (positions < offsets[bags]) if offsets.shape[0] > bags else counts


def embedding_bag(
    gradient: Any, indices: Any, offsets: Any, offset2bag: Any, bag_size: Any, maximum_indices: Any, num_weights: int, scale_grad_by_freq: bool,
    mode: int, sparse: bool, per_sample_weights: Any, padding_idx: int = -1,
) -> Any:  # fmt: skip
    """By the table of embeddings whose bags were added, averaged, or looked through for the largest."""
    import torch

    if sparse or not indices.shape[0]:
        return NotImplemented
    bags, width = gradient.shape
    bag, counts = _bags(indices, offsets, bags, padding_idx)
    empty = gradient.new_zeros(num_weights, width)
    if mode == 2:
        # Of a bag without a row there is none to add to.
        size = torch.zeros(bags, dtype=torch.int64, device=indices.device).index_add(0, bag, counts.to(torch.int64))
        part = torch.where(size.unsqueeze(1) > 0, gradient, 0.0)
        return empty.scatter_add(0, maximum_indices.to(torch.int64).clamp(min=0), part)
    part = torch.where(counts.unsqueeze(1), gradient.index_select(0, bag), 0.0)
    if mode == 1:
        size = torch.zeros(bags, dtype=torch.int64, device=indices.device).index_add(0, bag, counts.to(torch.int64))
        part = part / size.clamp(min=1).index_select(0, bag).unsqueeze(1).to(part.dtype)
    if per_sample_weights is not None:
        part = part * per_sample_weights.unsqueeze(1)
    if scale_grad_by_freq:
        often = torch.zeros(num_weights, dtype=torch.int64, device=indices.device).index_add(0, indices, torch.ones_like(indices, dtype=torch.int64))
        part = part / often.index_select(0, indices).unsqueeze(1).to(part.dtype)
    return empty.index_add(0, indices, part)


def sample_weights(gradient: Any, weight: Any, indices: Any, offsets: Any, offset2bag: Any, mode: int, padding_idx: int = -1) -> Any:
    """By the weights of rows in sums."""
    import torch

    bag, counts = _bags(indices, offsets, gradient.shape[0], padding_idx)
    found = (gradient.index_select(0, bag) * weight.index_select(0, indices)).sum(1)
    return torch.where(counts, found, 0.0)


def _spread(gradient: Any, rows: int, reduction: int) -> Any:
    """A gradient for each row; 1 is the mean."""
    gradient = gradient / rows if reduction == 1 else gradient
    return gradient.reshape(-1, 1) if gradient.ndim else gradient


def multi_margin(gradient: Any, x: Any, target: Any, p: Any, margin: Any, weight: Any = None, reduction: int = 1) -> Any:
    """By scores, of which each that comes too near to that of the right class counts."""
    import torch

    scores, classes = x.reshape(-1, x.shape[-1]), target.reshape(-1, 1)
    over = margin - scores.gather(1, classes) + scores
    others = torch.arange(scores.shape[1], device=x.device) != classes
    slope = torch.where(others & (over > 0), over if p == 2 else torch.ones_like(over), 0.0) * (p / scores.shape[1])
    if weight is not None:
        slope = slope * weight.index_select(0, classes.reshape(-1)).unsqueeze(1)
    slope = slope.scatter_add(1, classes, -slope.sum(1, keepdim=True))
    return (slope * _spread(gradient, scores.shape[0], reduction)).reshape(x.shape)


def multilabel_margin(gradient: Any, x: Any, target: Any, reduction: int, is_target: Any) -> Any:
    """As `multi_margin`, of several right classes: those before the first -1."""
    scores, classes = x.reshape(-1, x.shape[-1]), target.reshape(-1, x.shape[-1])
    valid = (classes >= 0).to(x.dtype).cumprod(1)
    classes = classes.clamp(min=0)
    over = 1 - scores.gather(1, classes).unsqueeze(2) + scores.unsqueeze(1) > 0
    counted = over.to(x.dtype) * valid.unsqueeze(2) * (1 - is_target.reshape(scores.shape).to(x.dtype)).unsqueeze(1)
    slope = counted.sum(1).scatter_add(1, classes, -counted.sum(2)) / scores.shape[1]
    return (slope * _spread(gradient, scores.shape[0], reduction)).reshape(x.shape)


def masked_scatter(gradient: Any, mask: Any, sizes: Any) -> Any:
    """By what was put, one after another, where a mask is true; the rest of it went nowhere."""
    import torch

    count, flat = math.prod(sizes), mask.expand(gradient.shape).reshape(-1)
    indices = flat.to(torch.int64).cumsum(0) - 1
    # What is not meant goes to one more element.
    indices = torch.where(flat & (indices < count), indices, count)
    return gradient.new_zeros(count + 1).scatter_add(0, indices, gradient.reshape(-1))[:count].reshape(sizes)


def pairs(gradient: Any, x: Any, p: float, distances: Any) -> Any:
    """By points, of the distances between each two of them; where a distance is 0, so is the derivative."""
    import torch

    first, second = torch.triu_indices(x.shape[0], x.shape[0], 1, device=x.device)
    apart, factor, far = x.index_select(0, first) - x.index_select(0, second), gradient.unsqueeze(1), distances.unsqueeze(1)
    if p == 0:
        return torch.zeros_like(x)
    if p == float("inf"):
        slope = apart.sign() * (apart.abs() == far)
    else:
        hidden = (far == 0) | (apart == 0) if p < 2 else far == 0
        safe, length = torch.where(hidden, 1.0, apart), torch.where(far == 0, 1.0, far)
        slope = torch.where(hidden, 0.0, safe.sign() * (safe.abs() / length) ** (p - 1))
    part = factor * slope
    return torch.zeros_like(x).index_add(0, first, part).index_add(0, second, -part)


def _starts(x: Any, axis: int, kernel: int, outputs: int, share: Any) -> Any:
    """Where the windows of an axis start, for each channel: apart by a fraction of an element, from a share that was drawn; the last one ends where the axis ends."""
    import torch

    last = torch.full_like(share, x.shape[axis] - kernel, dtype=torch.int64).unsqueeze(-1)
    if outputs == 1:
        return last
    apart = (x.shape[axis] - kernel) / (outputs - 1)
    share = share.unsqueeze(-1)
    positions = torch.arange(outputs - 1, device=x.device, dtype=share.dtype)
    return torch.cat([((positions + share) * apart).to(torch.int64) - (share * apart).to(torch.int64), last], -1)


def fractional_pool(x: Any, kernel: Any, output_size: Any, samples: Any) -> tuple[Any, Any]:
    """The largest of windows whose positions were drawn, and where it is."""
    import torch

    axes = len(kernel)
    samples = samples if x.ndim == axes + 2 else samples[0]
    lead = list(samples.shape[:-1])
    flat = torch.zeros(1, device=x.device, dtype=torch.int64)
    for k in range(axes):
        # Two axes are drawn in the order of PyTorch's: the last one first.
        share = samples[..., k if axes == 3 else 1 - k]
        starts = _starts(x, x.ndim - axes + k, kernel[k], output_size[k], share)
        offsets = torch.arange(kernel[k], device=x.device)
        shape = [1] * (2 * axes)
        shape[k], shape[axes + k] = output_size[k], kernel[k]
        at = (starts.unsqueeze(-1) + offsets).reshape(*lead, *shape)
        flat = flat * x.shape[x.ndim - axes + k] + at
    elements = math.prod(kernel)
    indices = flat.reshape(*lead, math.prod(output_size) * elements)
    windows = x.flatten(len(lead)).gather(-1, indices).reshape(*lead, *output_size, elements)
    found, at = windows.max(-1)
    return found, flat.reshape(windows.shape).gather(-1, at.unsqueeze(-1)).squeeze(-1)


def fractional_pool_backward(gradient: Any, x: Any, kernel: Any, output_size: Any, indices: Any) -> Any:
    """Each gradient to the element that was the largest of its window."""
    rank = len(kernel)
    flat = x.new_zeros(x.shape).flatten(x.ndim - rank)
    return flat.scatter_add(-1, indices.flatten(x.ndim - rank), gradient.flatten(x.ndim - rank)).reshape(x.shape)


def quantised(x: Any, scale: Any, zero_point: Any, quant_min: int, quant_max: int) -> tuple[Any, Any]:
    """Numbers as integers between two bounds would have them, and which are not beyond these."""
    import torch

    if not isinstance(scale, torch.Tensor):
        scale = torch.full((), scale, dtype=torch.float32, device=x.device)
    whole = (zero_point + (x.to(torch.float32) * (1 / scale)).round()).to(torch.int64)
    found = (whole.clamp(quant_min, quant_max) - zero_point) * scale
    return found.to(x.dtype), (whole >= quant_min) & (whole <= quant_max)


def quantised_if_enabled(x: Any, scale: Any, zero_point: Any, fake_quant_enabled: Any, quant_min: int, quant_max: int) -> tuple[Any, Any]:
    """As `quantised`, or as they are."""
    import torch

    found, inside = quantised(x, scale, zero_point, quant_min, quant_max)
    enabled = fake_quant_enabled != 0
    return torch.where(enabled, found, x), inside | ~enabled


def quantised_channels(x: Any, scale: Any, zero_point: Any, axis: int, quant_min: int, quant_max: int) -> tuple[Any, Any]:
    """As `quantised`, with a scale for each position along an axis."""
    shape = [1] * x.ndim
    shape[axis] = -1
    return quantised(x, scale.reshape(shape), zero_point.reshape(shape), quant_min, quant_max)
