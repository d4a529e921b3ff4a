"""Fourier transforms, and the few ops that move complex numbers about. A complex tensor is a `Pair` of real ones.

A transform along an axis of few numbers is a product with the matrix of its waves; more are transformed in n log n (`Tensor.fft`), of any length and of
lengths that are variables. All is computed in float64.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Optional

import warpweft as ww
from warpweft.torch._table import COMPLEX, TABLE, Context, Pair, Unsupported, axis_of, op

# The most numbers that are multiplied with a matrix.
DIRECT = 64


def _waves(n: int, outputs: int, sign: int) -> Pair:
    """exp(sign 2 pi i j k / n) for j of n and k of so many."""
    turns = (ww.arange(n, dtype=ww.int64).reshape(n, 1) * ww.arange(outputs, dtype=ww.int64)) % n
    angle = turns.astype(ww.float64) * (sign * 2 * math.pi / n)
    return Pair(angle.cos(), angle.sin())


def _along(x: Pair, axis: int, length: Any, outputs: Any, sign: int) -> Pair:
    """Transformed along one axis."""
    if not isinstance(length, int) or length > DIRECT:
        re, im = x.re.fft(x.im, axis) if sign < 0 else x.re.ifft(x.im, axis)
        if outputs is not length:
            re, im = (part.narrow(axis, 0, outputs) for part in (re, im))
        return Pair(re, im) if sign < 0 else Pair(*(part * _number(length) for part in (re, im)))
    waves = _waves(length, outputs, sign)
    re, im = (part.movedim(axis, -1) for part in (x.re, x.im))
    found = re @ waves.re - im @ waves.im, re @ waves.im + im @ waves.re
    return Pair(*(part.movedim(-1, axis) for part in found))


def _number(length: Any) -> Any:
    """A length as a factor."""
    return length if isinstance(length, int) else ww.from_dim(length).astype(ww.float64)


def _scaled(x: Any, count: Any, normalization: int) -> Any:
    if int(normalization) == 0:
        return x
    if isinstance(count, int):
        factor: Any = 1 / math.sqrt(count) if int(normalization) == 1 else 1 / count
    else:
        factor = count.rsqrt() if int(normalization) == 1 else count.reciprocal()
    return Pair(x.re * factor, x.im * factor) if isinstance(x, Pair) else x * factor


def _wide(x: Any) -> Pair:
    parts = (x.re, x.im) if isinstance(x, Pair) else (x, x * 0)
    return Pair(*(part.astype(ww.float64) for part in parts))


def _count(x: Pair, axes: list[int]) -> Any:
    return math.prod(_number(x.re.shape[axis]) for axis in axes)


@op("_fft_r2c")
def r2c(c: Context, x: ww.Tensor, dim: Any, normalization: int, onesided: bool) -> Any:
    axes = [axis_of(axis, x.ndim) for axis in dim]
    wide = _wide(x)
    count = _count(wide, axes)
    for place, axis in enumerate(axes):
        n = x.shape[axis]
        # The last axis comes first, and has no more than what the other half does not follow from.
        outputs = n // 2 + 1 if onesided and place == len(axes) - 1 else n
        wide = _along(wide, axis, n, outputs, -1)
    return _scaled(wide, count, normalization)


@op("_fft_c2c")
def c2c(c: Context, x: Pair, dim: Any, normalization: int, forward: bool) -> Any:
    axes = [axis_of(axis, x.re.ndim) for axis in dim]
    wide = _wide(x)
    count = _count(wide, axes)
    for axis in axes:
        wide = _along(wide, axis, wide.re.shape[axis], wide.re.shape[axis], -1 if forward else 1)
    return _scaled(wide, count, normalization)


@op("_fft_c2r")
def c2r(c: Context, x: Pair, dim: Any, normalization: int, last_dim_size: int) -> Any:
    axes = [axis_of(axis, x.re.ndim) for axis in dim]
    wide, n = _wide(x), last_dim_size
    for axis in axes[:-1]:
        wide = _along(wide, axis, wide.re.shape[axis], wide.re.shape[axis], 1)
    last = axes[-1]
    count = _count(wide, axes[:-1]) * _number(n)
    half = n // 2 + 1
    if wide.re.shape[last] != half:
        raise Unsupported("a transform of others than half of the numbers")
    if not isinstance(n, int) or n > DIRECT:
        return _scaled(wide.re.irfft(wide.im, n, last) * _number(n), count, normalization)
    waves = _waves(n, half, 1)
    # Each number but the first, and the middle one if there is one, stands for two.
    places = ww.arange(half, dtype=ww.int64)
    twice = ww.where(places.equal(0) | (places * 2).equal(n), 1.0, 2.0).astype(ww.float64)
    re, im = (part.movedim(last, -1) * twice for part in (wide.re, wide.im))
    found = re @ waves.re.t() - im @ waves.im.t()
    return _scaled(found.movedim(-1, last), count, normalization)


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
    places = ww.arange(length, dtype=ww.int64)
    return ww.where(places >= start, places - n, places).astype(c.dtype) * (1.0 / (n * d))


@op("fft_fftfreq")
def frequencies(c: Context, n: int, d: float = 1.0, **kwargs: Any) -> Any:
    return _frequencies(c, n, d, (n + 1) // 2)


@op("fft_rfftfreq")
def real_frequencies(c: Context, n: int, d: float = 1.0, **kwargs: Any) -> Any:
    return _frequencies(c, n, d, n)
