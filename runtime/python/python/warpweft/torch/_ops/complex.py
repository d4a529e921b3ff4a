"""Arithmetic of complex numbers, and ops that do to both parts what they do to a real tensor. A complex tensor is a `Pair` of real ones.

An op that is linear in some of its arguments is the table's own of the real parts and of the imaginary parts, where a real argument has no imaginary one. Loaded after all others, whose
builders it takes. Tests: tests/test_programs.py (`spectra`, `complex_numbers`).
"""

from __future__ import annotations

import dataclasses
from typing import Any

import warpweft as ww
from warpweft.torch._ops.fourier import abs_, real
from warpweft.torch._table import COMPLEX, TABLE, Context, Pair, Unsupported, dtype_of

# The positions of arguments that an op is linear in together.
_LINEAR = {
    "add.Tensor": (0, 1), "sub.Tensor": (0, 1), "neg": (0,), "_neg_view": (0,), "where.self": (1, 2), "cat": (0,), "stack": (0,), "copy": (0, 1), "slice_scatter": (0, 1),
    "select_scatter": (0, 1), "sum": (0,), "sum.dim_IntList": (0,), "mean": (0,), "mean.dim": (0,), "cumsum": (0,), "index.Tensor": (0,), "gather": (0,),
    "index_select": (0,), "diagonal": (0,), "repeat": (0,), "unfold": (0,), "tril": (0,), "triu": (0,), "index_put": (0, 2), "index_add": (0, 3),
    "embedding": (0,), "detach": (0,), "masked_fill.Scalar": (0, 2), "masked_fill.Tensor": (0, 2), "scalar_tensor": (0,), "full": (1,), "full_like": (0, 1),
    "new_full": (0, 2), "zeros": (), "new_zeros": (0,), "zeros_like": (0,), "t": (0,), "split.Tensor": (0,), "split_with_sizes": (0,), "unbind.int": (0,),
    "scatter.src": (0, 3), "scatter_add": (0, 3), "index_copy": (0, 3), "diagonal_scatter": (0, 1), "narrow": (0,), "view_copy": (0,),
}  # fmt: skip


def _found(name: str) -> Any:
    import torch

    packet, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet, None), overload or "default", None)


def _part(value: Any, is_real: bool, kind: ww.DType) -> Any:
    """The real or the imaginary part of an argument."""
    if isinstance(value, (list, tuple)):
        return [_part(item, is_real, kind) for item in value]
    if isinstance(value, Pair):
        return value.re if is_real else value.im
    if isinstance(value, ww.Tensor):
        value = value.astype(kind)
        return value if is_real else value * 0
    if isinstance(value, (int, float, complex)):
        return complex(value).real if is_real else complex(value).imag
    return value


def _is_pair(value: Any) -> bool:
    return any(map(_is_pair, value)) if isinstance(value, (list, tuple)) else isinstance(value, (Pair, complex))


def _metas(value: Any) -> Any:
    return type(value)(map(_metas, value)) if isinstance(value, (list, tuple)) else real(value)


def _each_part(name: str, positions: tuple[int, ...]) -> None:
    """Enters an op that is linear in the arguments at these positions."""
    found = _found(name)
    plain = TABLE.get(found)
    if found is None or plain is None:
        return

    def build(c: Context, *args: Any, **kwargs: Any) -> Any:
        if not c.first.is_complex():
            if any(map(_is_pair, args)):
                raise Unsupported("a real result of complex numbers")
            return plain(c, *args, **kwargs)
        if any(isinstance(value, complex) for value in kwargs.values()):
            raise Unsupported("a complex factor")
        kind = dtype_of(c.first.dtype.to_real())
        inner = dataclasses.replace(c, out=_metas(c.out), args=tuple(map(_metas, c.args)))
        kwargs = {key: real_type(value) for key, value in kwargs.items()}
        found = []
        for is_real in (True, False):
            given = [_part(value, is_real, kind) if number in positions else value for number, value in enumerate(args)]
            found.append(plain(inner, *given, **kwargs))
        return tuple(Pair(*parts) for parts in zip(*found)) if isinstance(found[0], (tuple, list)) else Pair(*found)

    TABLE[found] = build
    COMPLEX.add(found)


def real_type(value: Any) -> Any:
    """A complex type of PyTorch's as that of its parts."""
    import torch

    return value.to_real() if isinstance(value, torch.dtype) and value.is_complex else value


def _pair(value: Any, kind: ww.DType) -> Pair:
    """An argument as complex numbers."""
    if isinstance(value, Pair):
        return Pair(value.re.astype(kind), value.im.astype(kind))
    if isinstance(value, ww.Tensor):
        value = value.astype(kind)
        return Pair(value, value * 0)
    number = complex(value)
    return Pair(ww.full((), number.real, dtype=kind), ww.full((), number.imag, dtype=kind))


def _product(a: Pair, b: Pair) -> Pair:
    return Pair(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re)


def _quotient(a: Pair, b: Pair) -> Pair:
    """By the larger part of the divisor, so that nothing overflows that need not."""
    swaps = b.im.abs() > b.re.abs()
    large, small = ww.where(swaps, b.im, b.re), ww.where(swaps, b.re, b.im)
    ratio = small / large
    scale = large + small * ratio
    re = ww.where(swaps, a.re * ratio + a.im, a.re + a.im * ratio)
    im = ww.where(swaps, a.im * ratio - a.re, a.im - a.re * ratio)
    return Pair(re / scale, im / scale)


def _matrices(a: Pair, b: Pair) -> Pair:
    return Pair(a.re @ b.re - a.im @ b.im, a.re @ b.im + a.im @ b.re)


def _sign(x: Pair) -> Pair:
    length = abs_(None, x)
    divisor = ww.where(length > 0, length, 1.0)
    return Pair(x.re / divisor, x.im / divisor)


def _exponential(x: Pair) -> Pair:
    length = x.re.exp()
    return Pair(length * x.im.cos(), length * x.im.sin())


def _of_pairs(name: str, how: Any, count: int) -> None:
    """Enters an op of so many complex arguments."""
    found = _found(name)
    plain = TABLE.get(found)
    if found is None:
        return

    def build(c: Context, *args: Any, **kwargs: Any) -> Any:
        if not c.first.is_complex():
            if plain is None or any(map(_is_pair, args)):
                raise Unsupported("a real result of complex numbers")
            return plain(c, *args, **kwargs)
        if len(args) > count or kwargs:
            raise Unsupported("more than its complex arguments")
        kind = dtype_of(c.first.dtype.to_real())
        result = how(*(_pair(value, kind) for value in args))
        return Pair(result.re.expand(c.shape), result.im.expand(c.shape))

    TABLE[found] = build
    COMPLEX.add(found)


def _comparison(name: str, is_equal: bool) -> None:
    """Whether both parts are equal, or not."""
    found = _found(name)
    plain = TABLE.get(found)

    def build(c: Context, x: Any, y: Any) -> Any:
        if not _is_pair([x, y]):
            if plain is None:
                raise Unsupported("it has no expression")
            return plain(c, x, y)
        kind = (x if isinstance(x, Pair) else y).re.dtype
        one, other = _pair(x, kind), _pair(y, kind)
        equal = (one.re.equal(other.re) & one.im.equal(other.im)).expand(c.shape)
        return equal if is_equal else ~equal

    if found is not None:
        TABLE[found] = build
        COMPLEX.add(found)


def _enter_angle() -> None:
    """The op here whose result is of real numbers."""
    found = _found("angle")
    plain = TABLE.get(found)

    def build(c: Context, x: Any) -> Any:
        if isinstance(x, Pair):
            return x.im.atan2(x.re)
        if plain is None:
            raise Unsupported("it has no expression")
        return plain(c, x)

    if found is not None and plain is not None:
        TABLE[found] = build
        COMPLEX.add(found)


for _name, _positions in _LINEAR.items():
    _each_part(_name, _positions)
for _name in ("mul.Tensor", "mul.Scalar"):
    _of_pairs(_name, _product, 2)
for _name in ("div.Tensor", "div.Scalar"):
    _of_pairs(_name, _quotient, 2)
for _name in ("mm", "bmm"):
    _of_pairs(_name, _matrices, 2)
_of_pairs("sgn", _sign, 1)
_of_pairs("exp", _exponential, 1)
_of_pairs("reciprocal", lambda x: _quotient(Pair(x.re * 0 + 1, x.re * 0), x), 1)
for _name in ("eq.Tensor", "eq.Scalar"):
    _comparison(_name, True)
for _name in ("ne.Tensor", "ne.Scalar"):
    _comparison(_name, False)
_enter_angle()
