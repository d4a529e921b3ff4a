"""Images looked at between their elements (`grid_sample`), and the derivatives of that.

A derivative is that of the same expression. Where PyTorch says at a kink what it is, the expression is written so that it is that: beyond the edge and on it a
position moves no more, and where it is thrown back at the first edge it goes on as if it had not been.
"""

from __future__ import annotations

import itertools
import math
from typing import Any, Optional

import warpweft as ww
from warpweft.torch._table import Context, Unsupported, op

# Kinds of looking, and what is beyond the edge, as ATen numbers them.
LINEAR, NEAREST, CUBIC = 0, 1, 2
ZEROS, BORDER, REFLECTION = 0, 1, 2


def _unnormalised(x: ww.Tensor, length: int, align_corners: bool) -> ww.Tensor:
    """Positions of -1 to 1 as positions of elements."""
    return (x + 1) * ((length - 1) / 2) if align_corners else ((x + 1) * length - 1) * 0.5


def _clipped(x: ww.Tensor, length: int) -> ww.Tensor:
    """Between the first and the last element; on them and beyond without a derivative."""
    return ww.where((x > 0) & (x < length - 1), x, x.clip(0.0, float(length - 1)).floor())


def _reflected(x: ww.Tensor, low: float, high: float) -> ww.Tensor:
    """Thrown back at both ends, which are given twice as far."""
    if low == high:
        return x * 0
    span, start = (high - low) / 2, low / 2
    distance = x - start
    distance = ww.where(distance >= 0, distance, distance.negative())
    flips, extra = (distance / span).floor(), distance.fmod(span)
    return ww.where((flips % 2).equal(0.0), extra + start, span - extra + start)


def _within(at: ww.Tensor, length: int, padding: int, align_corners: bool) -> ww.Tensor:
    """Places where there are elements, unless there are zeros around them."""
    if padding == REFLECTION:
        at = _reflected(at, 0.0, 2.0 * (length - 1)) if align_corners else _reflected(at, -1.0, 2.0 * length - 1)
    return at if padding == ZEROS else _clipped(at, length)


def _cubic(share: ww.Tensor) -> list[ww.Tensor]:
    """The weights of four neighbours."""

    def near(x: ww.Tensor) -> ww.Tensor:
        return (x * 1.25 - 2.25) * x * x + 1

    def far(x: ww.Tensor) -> ww.Tensor:
        return ((x * -0.75 + 3.75) * x - 6) * x + 3

    return [far(share + 1), near(share), near(1 - share), far(2 - share)]


def sampled(x: ww.Tensor, grid: ww.Tensor, interpolation: int, padding: int, align_corners: bool) -> ww.Tensor:
    """Images [batch, channels, ..] on a grid [batch, .., axes]."""
    batch, channels, *lengths = x.shape
    axes, shape = len(lengths), grid.shape[1:-1]
    positions = math.prod(shape)
    # All positions of an image are one axis: rows of them need not fill vectors.
    grid = grid.reshape(batch, 1, positions, axes)
    raw = [_unnormalised(grid[..., axes - 1 - axis], length, align_corners) for axis, length in enumerate(lengths)]
    flat = x.reshape(batch, channels, -1)
    whole_numbers = ww.int32 if math.prod(lengths) < 2**31 else ww.int64

    def at_corner(corner: Any) -> ww.Tensor:
        """Elements at whole positions, and 0 outside."""
        inside: Any = None
        index: Any = None
        for at, length in zip(corner, lengths):
            here = (at >= 0) & (at <= length - 1)
            # As floats they fit integers then; as integers they are known to be elements.
            whole = at.clip(0.0, float(length - 1)).astype(whole_numbers).clip(0, length - 1)
            inside, index = (here, whole) if inside is None else (inside & here, index * length + whole)
        return ww.where(inside, flat.gather(2, index.expand(batch, channels, positions)), 0.0)

    def bounded(at: ww.Tensor, axis: int) -> ww.Tensor:
        return _within(at, lengths[axis], padding, align_corners)

    # For each axis indices and their weights.
    neighbours: list[list[tuple[ww.Tensor, Any]]] = []
    for axis, at in enumerate(raw):
        if interpolation == CUBIC:
            floor = at.floor()
            weights = _cubic(at - floor)
            neighbours.append([(bounded(floor + (k - 1), axis), weights[k]) for k in range(4)])
            continue
        at = bounded(at, axis)
        if interpolation == NEAREST:
            neighbours.append([(at.round(), 1.0)])
            continue
        floor = at.floor()
        neighbours.append([(floor, floor + 1 - at), (floor + 1, at - floor)])
    total: Optional[ww.Tensor] = None
    for corner in itertools.product(*neighbours):
        found = at_corner([at for at, _ in corner])
        if interpolation != NEAREST:
            found = found * math.prod((weight for _, weight in corner[1:]), start=corner[0][1])
        total = found if total is None else total + found
    assert total is not None
    return total.reshape(batch, channels, *shape)


@op("grid_sampler_2d", "grid_sampler_3d")
def grid_sampler(c: Context, x: ww.Tensor, grid: ww.Tensor, interpolation: int, padding: int, align_corners: bool) -> Any:
    if x.size == 0 or c.first.numel() == 0 or (interpolation == CUBIC and x.ndim != 4):
        raise Unsupported("samples of nothing, or cubic ones of volumes")
    return sampled(x, grid, interpolation, padding, align_corners)


@op("grid_sampler_2d_backward", "grid_sampler_3d_backward")
def grid_sampler_backward(
    c: Context, cotangent: ww.Tensor, x: ww.Tensor, grid: ww.Tensor, interpolation: int, padding: int, align_corners: bool, output_mask: Any
) -> Any:
    if x.size == 0 or cotangent.size == 0:
        raise Unsupported("samples of nothing")
    x, grid = x.copy().distinct(), grid.copy().distinct()
    found = sampled(x, grid, interpolation, padding, align_corners)
    if interpolation == NEAREST:
        return found.gradient_with(cotangent, [x])[0], grid * 0
    by_x, by_grid = found.gradient_with(cotangent, [x, grid])
    return by_x if output_mask[0] else None, by_grid
