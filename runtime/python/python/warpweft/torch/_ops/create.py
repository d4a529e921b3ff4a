"""Tensors of constants, and numbers of shapes."""

from __future__ import annotations

from typing import Any

import warpweft as ww
from warpweft.torch._table import Context, Unsupported, count_of, number, op


@op("full", "full_like", "new_full")
def full(c: Context, a: Any, b: Any, *args: Any, **kwargs: Any) -> Any:
    value = args[0] if args and isinstance(args[0], (int, float)) else b
    if isinstance(value, ww.Tensor):
        return value.astype(c.dtype).expand(c.shape)
    return ww.full(c.shape, number(value, c.dtype), dtype=c.dtype)


@op(
    "zeros",
    "zeros_like",
    "new_zeros",
    "empty.memory_format",
    "empty_like",
    "empty_strided",
    "new_empty",
    "new_empty_strided",
    "empty_permuted",
    "zero",
    "_efficientzerotensor",
    "_new_zeros_with_same_feature_meta",
)
def zeros(c: Context, *args: Any, **kwargs: Any) -> Any:
    return ww.zeros(c.shape, dtype=c.dtype)


@op("ones", "ones_like", "new_ones")
def ones(c: Context, *args: Any, **kwargs: Any) -> Any:
    return ww.ones(c.shape, dtype=c.dtype)


@op("arange.start_step", "arange.start", "arange")
def arange(c: Context, start: Any, end: Any = None, step: Any = 1, **kwargs: Any) -> Any:
    if end is None:
        start, end = 0, start
    (length,) = c.shape
    positions = ww.arange(length, dtype=ww.int64)
    if not c.first.is_floating_point() and isinstance(start, (int, float)) and isinstance(step, (int, float)):
        # As many as the numbers say, and then these without their fractions: so PyTorch has it on the CPU.
        start, step = int(start), int(step)
    if isinstance(start, int) and isinstance(step, int):
        return positions * step + start
    return (positions.astype(ww.float64) * float(step) + float(start)).astype(c.dtype)


@op("prims::iota")
def iota(c: Context, length: int, *, start: int, step: int, **kwargs: Any) -> Any:
    return ww.arange(int(length), dtype=ww.int64) * step + start


@op("linspace")
def linspace(c: Context, start: Any, end: Any, steps: int, **kwargs: Any) -> Any:
    return ww.linspace(float(start), float(end), int(steps), dtype=c.dtype)


@op("eye", "eye.m")
def eye(c: Context, *args: Any, **kwargs: Any) -> Any:
    return ww.eye(c.shape[0], c.shape[1], dtype=c.dtype)


@op("sym_size.int")
def sym_size(c: Context, x: ww.Tensor, axis: int) -> Any:
    return x.shape[axis]


@op("sym_numel")
def sym_numel(c: Context, x: ww.Tensor) -> Any:
    return count_of(x)


@op("sym_stride.int", "sym_storage_offset")
def sym_stride(c: Context, *args: Any) -> Any:
    raise Unsupported("strides of a value")
