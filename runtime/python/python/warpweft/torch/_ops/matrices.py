"""Products of matrices."""

from __future__ import annotations

from typing import Any

import warpweft as ww
from warpweft.torch._table import Context, Unsupported, moved, op, tensor_of


def product(c: Context, a: ww.Tensor, b: ww.Tensor) -> ww.Tensor:
    """A product of matrices; of nothing, zeros."""
    if a.size == 0 or b.size == 0:
        return ww.zeros(*_shape(a, b), dtype=a.dtype)
    return a @ b


def _shape(a: ww.Tensor, b: ww.Tensor) -> list[int]:
    if b.ndim == 1:
        return list(a.shape[:-1]) or [0][:0]
    return [*a.shape[:-1], b.shape[-1]]


@op("mm", "bmm", "mv", "dot", "vdot", "matmul")
def mm(c: Context, a: ww.Tensor, b: ww.Tensor) -> Any:
    if a.size == 0 or b.size == 0:
        return ww.zeros(c.shape, dtype=c.dtype)
    return a @ b


@op("_int_mm")
def int_mm(c: Context, a: ww.Tensor, b: ww.Tensor) -> Any:
    """Bytes with a sign, multiplied and added up as `int32`."""
    return mm(c, moved(a, ww.int32), moved(b, ww.int32))


@op("_weight_int8pack_mm")
def weight_int8pack_mm(c: Context, x: ww.Tensor, weight: ww.Tensor, scales: ww.Tensor) -> Any:
    """x [m, k] by quantised rows [n, k], each row of which has a scale: `x @ weight.T * scales`, added up in `float32`."""
    found = mm(c, moved(x, ww.float32), moved(weight, ww.float32).t())
    return moved(found * moved(scales, ww.float32), c.dtype)


def _added(c: Context, x: ww.Tensor, found: Any, beta: Any, alpha: Any) -> Any:
    if alpha != 1:
        found = found * tensor_of(alpha, c.dtype)
    if beta == 0:
        return found.expand(c.shape)
    return moved(x, c.dtype) * tensor_of(beta, c.dtype) + found if beta != 1 else moved(x, c.dtype) + found


@op("addmm", "baddbmm", "addmv")
def addmm(c: Context, x: ww.Tensor, a: ww.Tensor, b: ww.Tensor, *, beta: Any = 1, alpha: Any = 1) -> Any:
    return _added(c, x, mm(c, a, b), beta, alpha)


@op("addbmm")
def addbmm(c: Context, x: ww.Tensor, a: ww.Tensor, b: ww.Tensor, *, beta: Any = 1, alpha: Any = 1) -> Any:
    if a.size == 0 or b.size == 0:
        return _added(c, x, ww.zeros(c.shape, dtype=c.dtype), beta, alpha)
    return _added(c, x, (a @ b).sum(0), beta, alpha)


@op("addr")
def addr(c: Context, x: ww.Tensor, a: ww.Tensor, b: ww.Tensor, *, beta: Any = 1, alpha: Any = 1) -> Any:
    if c.dtype == ww.bool_:
        raise Unsupported("bools")
    return _added(c, x, moved(a, c.dtype).unsqueeze(1) * moved(b, c.dtype), beta, alpha)


@op("linear")
def linear(c: Context, x: ww.Tensor, weight: ww.Tensor, bias: Any = None) -> Any:
    found = ww.zeros(c.shape, dtype=c.dtype) if x.size == 0 or weight.size == 0 else x @ weight.t()
    return found if bias is None else found + bias


@op("_cdist_forward")
def cdist(c: Context, a: ww.Tensor, b: ww.Tensor, p: float, mode: Any) -> Any:
    if a.size == 0 or b.size == 0:
        return ww.zeros(c.shape, dtype=c.dtype)
    return _distance(a.unsqueeze(-2) - b.unsqueeze(-3), p)


@op("_pdist_forward")
def pdist(c: Context, x: ww.Tensor, p: float = 2.0) -> Any:
    pairs = [(i, j) for i in range(x.shape[0]) for j in range(i + 1, x.shape[0])]
    if not pairs or x.size == 0:
        return ww.zeros(c.shape, dtype=c.dtype)
    first, second = (ww.Tensor([pair[side] for pair in pairs]) for side in (0, 1))
    return _distance(x.index_select(0, first) - x.index_select(0, second), p)


def _distance(difference: ww.Tensor, p: float) -> ww.Tensor:
    size = difference.abs()
    if p == 0:
        return (size != 0).astype(size.dtype).sum(-1)
    if p == 1:
        return size.sum(-1)
    if p == float("inf"):
        return size.max(-1)
    if p == 2:
        return (size * size).sum(-1).sqrt()
    return size.pow(float(p)).sum(-1).pow(1 / p)


@op("_trilinear")
def trilinear(c: Context, a: ww.Tensor, b: ww.Tensor, d: ww.Tensor, e1: Any, e2: Any, e3: Any, summed: Any, unroll_dim: int = 1) -> Any:
    for axis in e1:
        a = a.unsqueeze(axis)
    for axis in e2:
        b = b.unsqueeze(axis)
    for axis in e3:
        d = d.unsqueeze(axis)
    return (a * b * d).sum([int(axis) for axis in summed]) if summed else a * b * d
