"""Images padded by what they show, their windows as columns (`unfold`), and images resampled (`interpolate`), with the derivatives of all three.

An axis is resampled by itself: each result is the sum of a few elements times weights. Lengths are numbers here, so indices and weights are tables that are worked out
with the function. The derivative is such a sum, too: of the results that an element went into. Where lengths are variables, `_decompositions` takes
these ops apart before. Positions are computed in the type that PyTorch computes them in. Tests: tests/test_programs.py, against eager PyTorch.
"""

from __future__ import annotations

from typing import Any, Callable, Optional, Sequence

import numpy as np

import warpweft as ww
from warpweft.torch._backwards import step_between
from warpweft.torch._table import Context, Unsupported, is_float, numbers, op

# For each of a few elements that a result is made of: where it is, and its weight, for all results of an axis.
Taps = tuple[np.ndarray, np.ndarray]
# More of them than this cost more than a product with a matrix that is mostly zeros.
_MOST_TAPS = 8

# The ops of resampling by the names of their kinds.
NEAREST = [f"{name}{axes}d" for name in ("upsample_nearest", "_upsample_nearest_exact") for axes in (1, 2, 3)]
WEIGHTED = "upsample_linear1d upsample_bilinear2d upsample_trilinear3d upsample_bicubic2d".split()


def windows() -> list[Any]:
    """The ops of ATen's that are here for lengths that are numbers, and whose decompositions take all lengths."""
    import torch

    return [torch.ops.aten.im2col.default, torch.ops.aten.col2im.default]


def resampling(*more: str) -> list[Any]:
    """All ops of ATen's that are here for lengths that are numbers; and those overloads of them, as `vec`, that are made of these."""
    import torch

    packets = [getattr(torch.ops.aten, name + tail, None) for name in NEAREST + WEIGHTED for tail in ("", "_backward")]
    found = [getattr(packet, overload, None) for packet in packets for overload in ("default", *more)]
    return [op for op in found if op is not None]


def _padded(x: ww.Tensor, pad: Any, mode: str) -> ww.Tensor:
    pairs, amounts = [(0, 0)] * x.ndim, numbers(pad)
    for position in range(len(amounts) // 2):
        pairs[x.ndim - 1 - position] = (amounts[2 * position], amounts[2 * position + 1])
    x = x.pad([(max(before, 0), max(after, 0)) for before, after in pairs], mode)
    # What is cut off is still shown beyond the other edge.
    for axis, (before, after) in enumerate(pairs):
        start, end = max(-before, 0), x.shape[axis] - max(-after, 0)
        x = x.narrow(axis, start, end - start) if (start, end) != (0, x.shape[axis]) else x
    return x


def _pads(mode: str, name: str) -> None:
    """Enters a kind of padding and its derivative."""

    def pad(c: Context, x: ww.Tensor, padding: Any) -> Any:
        return _padded(x, padding, mode)

    def backward(c: Context, cotangent: ww.Tensor, x: ww.Tensor, padding: Any) -> Any:
        if x.size == 0 or cotangent.size == 0:
            raise Unsupported("padding of nothing")
        x = x.copy()
        return _padded(x, padding, mode).gradient_with(cotangent, [x])[0]

    for axes in (1, 2, 3):
        op(f"{name}_pad{axes}d")(pad)
        op(f"{name}_pad{axes}d_backward")(backward)


_pads("reflect", "reflection")
_pads("edge", "replication")


def _windows(x: ww.Tensor, sizes: Any, dilations: Any, steps: Any) -> ww.Tensor:
    """The windows of images [.., rows, columns]: [.., rows and columns of a window, rows and columns of windows]."""
    first = x.ndim - 2
    for axis, (size, dilation, step) in enumerate(zip(sizes, dilations, steps)):
        x = x.unfold(first + axis, (size - 1) * dilation + 1, step)[..., ::dilation]
    return x.permute([*range(first), first + 2, first + 3, first, first + 1])


@op("im2col")
def im2col(c: Context, x: ww.Tensor, sizes: Any, dilations: Any, pads: Any, steps: Any) -> Any:
    """The elements of each window of an image as a column."""
    pairs = [(0, 0)] * (x.ndim - 2) + [(pad, pad) for pad in numbers(pads)]
    return _windows(x.pad(pairs), numbers(sizes), numbers(dilations), numbers(steps)).reshape(c.shape)


@op("col2im")
def col2im(c: Context, columns: ww.Tensor, lengths: Any, sizes: Any, dilations: Any, pads: Any, steps: Any) -> Any:
    """The image whose elements are the sums of those of all windows that they are in: the derivative of `im2col`."""
    if columns.size == 0:
        raise Unsupported("windows of nothing")
    pads, lengths = numbers(pads), numbers(lengths)
    image = ww.zeros([*c.shape[:-2], *(length + 2 * pad for length, pad in zip(lengths, pads))], dtype=columns.dtype)
    windows = _windows(image, numbers(sizes), numbers(dilations), numbers(steps))
    image = windows.gradient_with(columns.reshape(windows.shape), [image])[0]
    for axis, (length, pad) in enumerate(zip(lengths, pads)):
        image = image.narrow(image.ndim - 2 + axis, pad, length)
    return image


def _nearest(exact: bool, length: int, outputs: int, scale: Optional[float]) -> np.ndarray:
    """The one index of each result."""
    at = np.arange(outputs, dtype=np.float32) + np.float32(0.5 if exact else 0.0)
    found = np.floor(at * np.float32(step_between(length, outputs, False, scale))).astype(np.int64)
    if outputs in (length, 2 * length) and not exact:
        found = np.arange(outputs) // (outputs // length)
    indices: np.ndarray = np.minimum(found, length - 1)
    return indices


def _between(dtype: ww.DType, length: int, outputs: int, align: bool, scale: Optional[float], clamp: bool) -> tuple[np.ndarray, np.ndarray]:
    """The element before each result, and how far behind it the result is."""
    wide: Any = np.float64 if dtype == ww.float64 else np.float32
    positions: Any = np.arange(outputs, dtype=wide)
    step = wide(step_between(length, outputs, align, scale))
    at = positions * step if align else (positions + wide(0.5)) * step - wide(0.5)
    at = np.maximum(at, wide(0)) if clamp else at
    low = np.floor(at).astype(np.int64)
    low = np.minimum(low, length - 1) if clamp else low
    return low, np.clip(at - low.astype(wide), 0, 1)


def _linear(dtype: ww.DType, length: int, outputs: int, align: bool, scale: Optional[float]) -> Taps:
    if length == outputs:
        return np.arange(length)[None], np.ones((1, length))
    low, share = _between(dtype, length, outputs, align, scale, True)
    return np.stack([low, np.minimum(low + 1, length - 1)]), np.stack([1 - share, share])


def _cubic(dtype: ww.DType, length: int, outputs: int, align: bool, scale: Optional[float]) -> Taps:
    low, share = _between(dtype, length, outputs, align, scale, False)

    def near(x: Any) -> Any:
        return (x * 1.25 - 2.25) * x * x + 1

    def far(x: Any) -> Any:
        return ((x * -0.75 + 3.75) * x - 6) * x + 3

    indices = np.clip(np.stack([low + k for k in (-1, 0, 1, 2)]), 0, length - 1)
    return indices, np.stack([far(share + 1), near(share), near(1 - share), far(2 - share)])


def _transposed(taps: Taps, length: int) -> Taps:
    """For each element the results that it went into, with its weights in them."""
    indices, weights = taps
    results = np.broadcast_to(np.arange(indices.shape[1]), indices.shape)
    order = np.argsort(indices, axis=None, kind="stable")
    element, result, weight = (found.reshape(-1)[order] for found in (indices, results, weights))
    kept = weight != 0
    element, result, weight = element[kept], result[kept], weight[kept]
    count = np.bincount(element, minlength=length)
    first = np.cumsum(count) - count
    number = np.arange(len(element)) - first[element]
    # What is left over has no weight, and an index near the others.
    wide = max(int(count.max(initial=0)), 1)
    near = result[np.minimum(first, len(result) - 1)] if len(result) else np.zeros(length, np.int64)
    found, shares = np.tile(near, (wide, 1)), np.zeros((wide, length), weights.dtype)
    found[number, element], shares[number, element] = result, weight
    return found, shares


def _regular(x: ww.Tensor, axis: int, indices: np.ndarray) -> Optional[ww.Tensor]:
    """Elements that are each repeated equally often, or that lie equally far apart, without a table."""
    length, outputs = x.shape[axis], len(indices)
    if outputs % length == 0 and np.array_equal(indices, np.arange(outputs) // (outputs // length)):
        before, after = list(x.shape[:axis]), list(x.shape[axis + 1 :])
        spread = x.reshape(*before, length, 1, *after).expand((*before, length, outputs // length, *after))
        return spread.reshape(*before, outputs, *after)
    steps = np.diff(indices)
    if len(steps) and steps[0] > 0 and (steps == steps[0]).all():
        index: Any = (slice(None),) * axis + (slice(int(indices[0]), int(indices[-1]) + 1, int(steps[0])),)
        return x[index]
    return None


def _selected(x: ww.Tensor, axis: int, indices: np.ndarray) -> ww.Tensor:
    found = _regular(x, axis, indices)
    return x.index_select(axis, ww.Tensor(indices.astype(np.int32))) if found is None else found


def _weighed(x: ww.Tensor, axis: int, taps: Taps) -> ww.Tensor:
    """Each result along an axis as the sum of its elements times their weights."""
    indices, weights = taps
    numpy_type = np.float64 if x.dtype == ww.float64 else np.float32
    if len(indices) > _MOST_TAPS:
        matrix = np.zeros((x.shape[axis], indices.shape[1]), numpy_type)
        np.add.at(matrix, (indices, np.broadcast_to(np.arange(indices.shape[1]), indices.shape)), weights)
        order = [k for k in range(x.ndim) if k != axis] + [axis]
        return x.permute(*order).matmul(ww.Tensor(matrix)).permute(*(order.index(k) for k in range(x.ndim)))
    shape = [1] * x.ndim
    shape[axis] = -1
    total: Optional[ww.Tensor] = None
    for at, weight in zip(indices, weights):
        part = _selected(x, axis, at)
        part = part if (weight == 1).all() else part * ww.Tensor(weight.astype(numpy_type)).reshape(*shape)
        total = part if total is None else total + part
    assert total is not None
    return total


def _wide(x: ww.Tensor) -> ww.Tensor:
    """In the type that sums are computed in."""
    return x if x.dtype in (ww.float32, ww.float64) else x.astype(ww.float32)


def _checked(c: Context, x: ww.Tensor, sizes: Sequence[Any]) -> None:
    if x.size == 0 or not all(isinstance(length, int) and length > 0 for length in (*x.shape, *c.shape, *sizes)):
        raise Unsupported("images of no elements, or of lengths that are variables")


def _scales(count: int, scales: tuple[Any, ...], named: dict[str, Any]) -> list[Optional[float]]:
    given = [*scales, *named.values()]
    return (given + [None] * count)[:count]


def _enter_nearest(name: str) -> None:
    exact = "exact" in name

    def forward(c: Context, x: ww.Tensor, output_size: Any, *scales: Any, **named: Any) -> Any:
        sizes = numbers(output_size)
        _checked(c, x, sizes)
        for position, (outputs, scale) in enumerate(zip(sizes, _scales(len(sizes), scales, named))):
            x = _selected(x, position + 2, _nearest(exact, x.shape[position + 2], outputs, scale))
        return x

    def backward(c: Context, cotangent: ww.Tensor, output_size: Any, input_size: Any, *scales: Any, **named: Any) -> Any:
        sizes, lengths = numbers(output_size), numbers(input_size)
        _checked(c, cotangent, lengths)
        found = _wide(cotangent)
        for position, (outputs, scale) in enumerate(zip(sizes, _scales(len(sizes), scales, named))):
            length = lengths[position + 2]
            indices = _nearest(exact, length, outputs, scale)
            found = _weighed(found, position + 2, _transposed((indices[None], np.ones((1, outputs))), length))
        return found

    op(name)(forward)
    op(f"{name}_backward")(backward)


def _enter_weighted(name: str) -> None:
    taps: Callable[..., Taps] = _cubic if "cubic" in name else _linear

    def forward(c: Context, x: ww.Tensor, output_size: Any, align: bool, *scales: Any, **named: Any) -> Any:
        sizes = numbers(output_size)
        _checked(c, x, sizes)
        if not is_float(x.dtype):
            raise Unsupported("images of integers, which PyTorch weighs by integers")
        x = _wide(x)
        for position, (outputs, scale) in enumerate(zip(sizes, _scales(len(sizes), scales, named))):
            x = _weighed(x, position + 2, taps(x.dtype, x.shape[position + 2], outputs, align, scale))
        return x

    def backward(c: Context, cotangent: ww.Tensor, output_size: Any, input_size: Any, align: bool, *scales: Any, **named: Any) -> Any:
        sizes, lengths = numbers(output_size), numbers(input_size)
        _checked(c, cotangent, lengths)
        found = _wide(cotangent)
        for position, (outputs, scale) in enumerate(zip(sizes, _scales(len(sizes), scales, named))):
            length = lengths[position + 2]
            found = _weighed(found, position + 2, _transposed(taps(found.dtype, length, outputs, align, scale), length))
        return found

    op(name)(forward)
    op(f"{name}_backward")(backward)


for _name in NEAREST:
    _enter_nearest(_name)
for _name in WEIGHTED:
    _enter_weighted(_name)
