"""Fourier transforms, and the few ops that move complex numbers about. A complex tensor is a `Pair` of real ones.

Transforms are those of `Tensor.fft`, in n log n for any length, also for one that is a variable, in the type of the numbers. They are not divided by their
lengths; PyTorch says in numbers by what: 0 by nothing, 1 by the root of all elements, 2 by all elements.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Optional

import warpweft as ww
from warpweft.torch._table import COMPLEX, TABLE, Context, Pair, Unsupported, axis_of, op


def _along(x: Pair, axis: int, is_forward: bool) -> Pair:
    """Transformed along one axis; backwards by the transform of what has its parts exchanged, which has them exchanged, too."""
    if is_forward:
        return Pair(*x.re.fft(x.im, axis))
    im, re = x.im.fft(x.re, axis)
    return Pair(re, im)


def _length(n: Any) -> Any:
    """A length as a factor."""
    return n if isinstance(n, int) else ww.from_dim(n).astype(ww.float64)


def _scaled(x: Any, lengths: list[Any], normalization: int, done: Any = 1) -> Any:
    """Divided as PyTorch says, with the lengths of all axes; what was divided by already counts."""
    count = math.prod(_length(n) for n in lengths)
    done = _length(done)
    if int(normalization) == 0:
        factor = done
    elif isinstance(count, int):
        factor = done / (math.sqrt(count) if int(normalization) == 1 else count)
    else:
        factor = done * (count.rsqrt() if int(normalization) == 1 else count.reciprocal())
    if isinstance(factor, (int, float)) and factor == 1:
        return x
    factor = factor if isinstance(factor, (int, float)) else factor.astype((x.re if isinstance(x, Pair) else x).dtype)
    return Pair(x.re * factor, x.im * factor) if isinstance(x, Pair) else x * factor


@op("_fft_r2c")
def r2c(c: Context, x: ww.Tensor, dim: Any, normalization: int, onesided: bool) -> Any:
    axes = [axis_of(axis, x.ndim) for axis in dim]
    # The last axis comes first, and has no more than what the other half does not follow from.
    found = Pair(*(x.rfft(axes[-1]) if onesided else x.fft(None, axes[-1])))
    for axis in axes[:-1]:
        found = _along(found, axis, True)
    return _scaled(found, [x.shape[axis] for axis in axes], normalization)


@op("_fft_c2c")
def c2c(c: Context, x: Pair, dim: Any, normalization: int, forward: bool) -> Any:
    axes, found = [axis_of(axis, x.re.ndim) for axis in dim], x
    for axis in axes:
        found = _along(found, axis, bool(forward))
    return _scaled(found, [x.re.shape[axis] for axis in axes], normalization)


@op("_fft_c2r")
def c2r(c: Context, x: Pair, dim: Any, normalization: int, last_dim_size: int) -> Any:
    axes, found, n = [axis_of(axis, x.re.ndim) for axis in dim], x, last_dim_size
    for axis in axes[:-1]:
        found = _along(found, axis, False)
    last = axes[-1]
    if x.re.shape[last] != n // 2 + 1:
        raise Unsupported("a transform of others than half of the numbers")
    return _scaled(found.re.irfft(found.im, n, last), [*(x.re.shape[axis] for axis in axes[:-1]), n], normalization, n)


@op("view_as_complex")
def view_as_complex(c: Context, x: ww.Tensor) -> Any:
    return Pair(x[..., 0], x[..., 1])


@op("view_as_real")
def view_as_real(c: Context, x: Pair) -> Any:
    return ww.stack([x.re, x.im], -1)


@op("complex")
def complex_(c: Context, re: ww.Tensor, im: ww.Tensor) -> Any:
    return Pair(re.expand(c.shape), im.expand(c.shape))


def _each(name: str, part: Optional[str] = None) -> None:
    """An op that does the same to both parts."""
    import torch

    packet, _, overload = name.partition(".")
    found = getattr(getattr(torch.ops.aten, packet, None), overload or "default", None)
    plain = TABLE.get(found)
    if found is None or plain is None:
        return

    def build(c: Context, x: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(x, Pair):
            found = (
                plain(dataclasses.replace(c, out=real(c.out)), x, *args, **kwargs) if c.first.is_complex() else plain(c, x, *args, **kwargs)
            )
            return Pair(found, found * 0) if c.first.is_complex() else found
        if not c.first.is_complex():
            raise Unsupported("the real part of complex numbers")
        inner = dataclasses.replace(c, out=real(c.out), args=tuple(real(value) for value in c.args))
        return Pair(*(plain(inner, value, *args, **kwargs) for value in (x.re, x.im)))

    TABLE[found] = build
    COMPLEX.add(found)


def real(meta: Any) -> Any:
    """What the meta of a part of a complex tensor is."""
    import torch

    return (
        torch.empty(meta.shape, dtype=meta.dtype.to_real(), device="meta") if isinstance(meta, torch.Tensor) and meta.is_complex() else meta
    )


for _name in "clone alias view _unsafe_view reshape permute transpose.int squeeze.dim squeeze.dims squeeze unsqueeze slice.Tensor select.int constant_pad_nd expand flip roll _to_copy".split():
    _each(_name)


@op("_conj", "_conj_physical", "conj", "conj_physical")
def conj(c: Context, x: Any) -> Any:
    # A constant may come as a number.
    return Pair(x.re, x.im.negative()) if isinstance(x, Pair) else x.conjugate() if isinstance(x, complex) else x


@op("real")
def real_part(c: Context, x: Any) -> Any:
    return x.re if isinstance(x, Pair) else x


@op("imag")
def imag(c: Context, x: Pair) -> Any:
    return x.im


@op("abs")
def abs_(c: Context, x: Any) -> Any:
    if not isinstance(x, Pair):
        return x.abs()
    a, b = x.re.abs(), x.im.abs()
    large, ratio = a.maximum(b), a.minimum(b) / ww.where(a.maximum(b) > 0, a.maximum(b), 1.0)
    return large * (1 + ratio * ratio).sqrt()


def _enter() -> None:
    import torch

    names = "_fft_r2c _fft_c2c _fft_c2r view_as_complex view_as_real complex _conj _conj_physical conj conj_physical real imag abs".split()
    for name in names:
        COMPLEX.add(getattr(torch.ops.aten, name).default)


_enter()


def _frequencies(c: Context, n: int, d: float, start: Any) -> ww.Tensor:
    """The frequency of each number of a transform of n elements, counted from `start` on as the elements of a ring."""
    (length,) = c.shape
    positions = ww.arange(length, dtype=ww.int64)
    return ww.where(positions >= start, positions - n, positions).astype(c.dtype) * (1.0 / (n * d))


@op("fft_fftfreq")
def frequencies(c: Context, n: int, d: float = 1.0, **kwargs: Any) -> Any:
    return _frequencies(c, n, d, (n + 1) // 2)


@op("fft_rfftfreq")
def real_frequencies(c: Context, n: int, d: float = 1.0, **kwargs: Any) -> Any:
    return _frequencies(c, n, d, n)
