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
