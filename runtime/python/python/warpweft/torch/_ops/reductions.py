"""Reductions, scans and sorting."""

from __future__ import annotations

import math
from typing import Any

import warpweft as ww
from warpweft.torch._table import Context, Unsupported, axis_of, is_float, moved, number, numbers, op

_T = ww.Tensor


def _axes(x: ww.Tensor, dim: Any) -> Any:
    """Axes as we take them: none, or an empty list, are all."""
    if dim is None or (isinstance(dim, (list, tuple)) and not dim):
        return None
    axes = [axis_of(axis, x.ndim) for axis in numbers(dim)]
    return axes if x.ndim else None


def _wide(c: Context, x: ww.Tensor) -> ww.Tensor:
    """In the type that is summed in: halves as float32."""
    dtype = c.dtype
    return moved(x, ww.float32 if dtype in (ww.float16, ww.bfloat16) else dtype)


@op("sum", "sum.dim_IntList")
def sum_(c: Context, x: ww.Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    return _wide(c, x).sum(_axes(x, dim), keepdim)


@op("mean", "mean.dim")
def mean(c: Context, x: ww.Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    return _wide(c, x).mean(_axes(x, dim), keepdim)


@op("prod", "prod.dim_int")
def prod(c: Context, x: ww.Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    return _wide(c, x).prod(_axes(x, dim), keepdim)


def _extreme(name: str, *ops: str) -> None:
    method = getattr(_T, name)

    @op(*ops)
    def build(c: Context, x: ww.Tensor, dim: Any = None, keepdim: bool = False) -> Any:
        if x.size == 0 and not c.shape and name in ("any", "all"):
            return ww.full((), name == "all", dtype=ww.bool_)
        if x.size == 0 and not c.shape:
            raise Unsupported("no element is the largest of none")
        return method(x, _axes(x, dim), keepdim)


_extreme("max", "amax", "max")
_extreme("min", "amin", "min")
_extreme("any", "any", "any.dim", "any.dims")
_extreme("all", "all", "all.dim", "all.dims")


def _along(name: str, *ops: str) -> None:
    method, index_method = getattr(_T, name), getattr(_T, f"arg{name}")

    @op(*ops)
    def build(c: Context, x: ww.Tensor, dim: int, keepdim: bool = False) -> Any:
        if not x.ndim:
            return x, ww.zeros((), dtype=ww.int64)
        return method(x, dim, keepdim), index_method(x, dim, keepdim)


_along("max", "max.dim")
_along("min", "min.dim")


def _index_of_extreme(name: str) -> None:
    method = getattr(_T, name)

    @op(name)
    def build(c: Context, x: ww.Tensor, dim: Any = None, keepdim: bool = False) -> Any:
        if not x.ndim:
            return ww.zeros((), dtype=ww.int64)
        if dim is None:
            return method(x.reshape(-1), 0).reshape(c.shape)
        return method(x, axis_of(dim, x.ndim), keepdim)


_index_of_extreme("argmax")
_index_of_extreme("argmin")


@op("var.correction")
def var(c: Context, x: ww.Tensor, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    return _variance(c, x, dim, keepdim, correction)


@op("std.correction")
def std(c: Context, x: ww.Tensor, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    return _variance(c, x, dim, keepdim, correction).sqrt()


def _variance(c: Context, x: ww.Tensor, dim: Any, keepdim: bool, correction: Any) -> ww.Tensor:
    x = _wide(c, x)
    axes = _axes(x, dim)
    mean = x.mean(axes, True)
    count: Any = math.prod(x.shape if axes is None else [x.shape[axis] for axis in axes])
    squares = ((x - mean) * (x - mean)).sum(axes, keepdim)
    less = 1.0 if correction is None else float(correction)
    if not isinstance(count, int):
        return squares / (ww.from_dim(count).astype(x.dtype) - less).maximum(0.0)
    return squares / max(count - less, 0.0)


@op("var_mean.correction")
def var_mean(c: Context, x: ww.Tensor, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    return _variance(c, x, dim, keepdim, correction), _wide(c, x).mean(_axes(x, dim), keepdim)


def _scan(name: str, identity: bool = True) -> None:
    method = getattr(_T, name)

    @op(name)
    def build(c: Context, x: ww.Tensor, dim: int, *, dtype: Any = None) -> Any:
        x = _wide(c, x)
        return method(x, dim) if x.ndim else x


_scan("cumsum")
_scan("cumprod")
_scan("logcumsumexp")


def _running(name: str) -> None:
    method = getattr(_T, name)

    @op(name)
    def build(c: Context, x: ww.Tensor, dim: int) -> Any:
        if not x.ndim:
            return x, ww.zeros((), dtype=ww.int64)
        if not x.size:
            return x, moved(x, ww.int64)
        axis = axis_of(dim, x.ndim)
        values = method(x, axis)
        shape = [1] * x.ndim
        shape[axis] = x.shape[axis]
        positions = ww.arange(x.shape[axis], dtype=ww.int64).reshape(shape).expand(x.shape)
        is_here = x.equal(values)
        if is_float(x.dtype):
            is_here = is_here | (x.isnan() & values.isnan())
        return values, ww.where(is_here, positions, 0).cummax(axis)


_running("cummax")
_running("cummin")


@op("sort", "sort.stable")
def sort(c: Context, x: ww.Tensor, *args: Any, dim: Any = None, descending: Any = None, stable: Any = None) -> Any:
    given = list(args)
    if given and isinstance(given[0], bool) and len(given) > 1 and isinstance(given[1], int) and not isinstance(given[1], bool):
        given = given[1:]
    axis = dim if dim is not None else (given[0] if given else -1)
    down = descending if descending is not None else (given[1] if len(given) > 1 else False)
    if not x.ndim:
        return x, ww.zeros((), dtype=ww.int64)
    return x.sort(int(axis), bool(down))


@op("topk")
def topk(c: Context, x: ww.Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    if not x.ndim:
        return x, ww.zeros((), dtype=ww.int64)
    return x.topk(int(k), dim, largest)


@op("kthvalue")
def kthvalue(c: Context, x: ww.Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    if not x.ndim:
        return x, ww.zeros((), dtype=ww.int64)
    values, order = x.sort(dim)
    found = values.narrow(dim, int(k) - 1, 1), order.narrow(dim, int(k) - 1, 1)
    return found if keepdim else tuple(part.squeeze(dim) for part in found)


def _median(c: Context, x: ww.Tensor, dim: int, keepdim: bool, skips: bool) -> Any:
    if not x.ndim:
        return x, ww.zeros((), dtype=ww.int64)
    values, order = x.sort(dim)
    length = x.shape[dim]
    if not length:
        raise Unsupported("no element is in the middle of none")
    middle = ww.full((), (length - 1) // 2, dtype=ww.int64)
    if is_float(x.dtype):
        nans = moved(x.isnan(), ww.int64).sum(dim, True)
        middle = ww.maximum((length - 1 - nans).floor_divide(2), 0) if skips else ww.where(nans > 0, length - nans, middle)
    else:
        shape = list(x.shape)
        shape[dim] = 1
        middle = middle.expand(shape)
    found = values.gather(dim, middle), order.gather(dim, middle)
    return found if keepdim else tuple(part.squeeze(dim) for part in found)


@op("median.dim")
def median_dim(c: Context, x: ww.Tensor, dim: int, keepdim: bool = False) -> Any:
    return _median(c, x, dim, keepdim, False)


@op("nanmedian.dim")
def nanmedian_dim(c: Context, x: ww.Tensor, dim: int, keepdim: bool = False) -> Any:
    return _median(c, x, dim, keepdim, True)


@op("median")
def median(c: Context, x: ww.Tensor) -> Any:
    return _median(c, x.reshape(-1), 0, False, False)[0].reshape(())


@op("nanmedian")
def nanmedian(c: Context, x: ww.Tensor) -> Any:
    return _median(c, x.reshape(-1), 0, False, True)[0].reshape(())


@op("_softmax")
def softmax(c: Context, x: ww.Tensor, dim: int, half_to_float: bool = False) -> Any:
    x = _wide(c, x)
    return x.softmax(dim) if x.ndim else x * 0 + 1


@op("_log_softmax")
def log_softmax(c: Context, x: ww.Tensor, dim: int, half_to_float: bool = False) -> Any:
    x = _wide(c, x)
    return x.log_softmax(dim) if x.ndim else x * 0


@op("count_nonzero", "count_nonzero.dim_IntList")
def count_nonzero(c: Context, x: ww.Tensor, dim: Any = None) -> Any:
    return moved(x.not_equal(number(0, x.dtype)), ww.int64).sum(_axes(x, dim))


@op("mode")
def mode(c: Context, x: ww.Tensor, dim: int = -1, keepdim: bool = False) -> Any:
    if not x.ndim:
        return x, ww.zeros((), dtype=ww.int64)
    values, order = x.sort(dim)
    values, order = values.movedim(axis_of(dim, x.ndim), -1), order.movedim(axis_of(dim, x.ndim), -1)
    # Of values in order, equal ones stand together. The first to be the most of its kind so far is the last position of the smallest of those that occur most.
    length = x.shape[dim]
    numbers = ww.arange(length, dtype=ww.int64).expand(values.shape)
    begins = values.narrow(-1, 1, length - 1).not_equal(values.narrow(-1, 0, length - 1)).pad([(0, 0)] * (x.ndim - 1) + [(1, 0)])
    counts = numbers - ww.where(begins, numbers, 0).cummax(-1)
    last = counts.argmax(-1, True).astype(ww.int64)
    best, indices = values.gather(-1, last), order.gather(-1, last)
    found = best.movedim(-1, axis_of(dim, x.ndim)), indices.movedim(-1, axis_of(dim, x.ndim))
    return found if keepdim else tuple(part.squeeze(dim) for part in found)
