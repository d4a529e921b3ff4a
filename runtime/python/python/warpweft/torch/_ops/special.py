"""Special functions: the library's, computed in float64 whatever the operands, and rounded once.

How near they are is what PyTorch's own database says (`tests/opinfo.py`): float32 to a few units of the last place; float64 operands are left to PyTorch where
these are not that near.
"""

from __future__ import annotations

import math
from typing import Any

import warpweft as ww
from warpweft.torch._table import Context, Unsupported, op, tensor_of

# Functions of one operand by the names of their ops, and whether all digits of float64 are right.
_FUNCTIONS: dict[str, tuple[list[str], bool]] = {
    "lgamma": (["lgamma", "special_gammaln", "prims::lgamma"], False),
    "digamma": (["digamma", "special_psi", "prims::digamma"], False),
    "erfinv": (["erfinv", "special_erfinv", "prims::erf_inv"], True),
    "erfcx": (["special_erfcx", "prims::erfcx"], False),
    "ndtri": (["special_ndtri", "prims::ndtri"], True),
    "log_ndtr": (["special_log_ndtr"], False),
    **{f"i{k}": ([f"special_i{k}", f"i{k}", f"special_modified_bessel_i{k}", f"prims::bessel_i{k}"], False) for k in (0, 1)},
    **{f"i{k}e": ([f"special_i{k}e", f"prims::bessel_i{k}e"], False) for k in (0, 1)},
    **{f"bessel_j{k}": ([f"special_bessel_j{k}", f"prims::bessel_j{k}"], False) for k in (0, 1)},
    **{f"bessel_y{k}": ([f"special_bessel_y{k}"], False) for k in (0, 1)},
    **{f"bessel_k{k}": ([f"special_modified_bessel_k{k}"], False) for k in (0, 1)},
    **{f"bessel_k{k}e": ([f"special_scaled_modified_bessel_k{k}"], False) for k in (0, 1)},
}


def _enter(name: str, names: list[str], is_exact: bool) -> None:
    """Enters a method of tensors as ops."""

    @op(*names)
    def build(c: Context, x: ww.Tensor) -> Any:
        if c.dtype == ww.float64 and not is_exact:
            raise Unsupported("float64")
        return getattr(x.astype(ww.float64), name)().astype(c.dtype)


for _name, (_names, _is_exact) in _FUNCTIONS.items():
    _enter(_name, _names, _is_exact)


@op("special_zeta", "prims::zeta", "special_zeta.other_scalar", "special_zeta.self_scalar")
def zeta(c: Context, s: Any, q: Any) -> Any:
    if c.dtype == ww.float64:
        raise Unsupported("float64")
    return tensor_of(s, ww.float64).zeta(tensor_of(q, ww.float64)).astype(c.dtype)


@op("polygamma")
def polygamma(c: Context, n: int, x: ww.Tensor) -> Any:
    if c.dtype == ww.float64 or n > 20:
        raise Unsupported("float64, or a high derivative")
    return x.astype(ww.float64).polygamma(n).astype(c.dtype)


@op("igamma", "special_gammainc", "prims::igamma")
def igamma(c: Context, a: ww.Tensor, x: ww.Tensor) -> Any:
    return a.astype(ww.float64).igamma(x.astype(ww.float64)).astype(c.dtype)


@op("igammac", "special_gammaincc", "prims::igammac")
def igammac(c: Context, a: ww.Tensor, x: ww.Tensor) -> Any:
    return a.astype(ww.float64).igammac(x.astype(ww.float64)).astype(c.dtype)


@op("special_spherical_bessel_j0", "prims::spherical_bessel_j0")
def spherical_bessel_j0(c: Context, x: ww.Tensor) -> Any:
    """sin(x) / x."""
    if c.dtype == ww.float64:
        raise Unsupported("float64")
    x = x.astype(ww.float64)
    other = _inside(x, x.not_equal(0.0), 1.0)
    return ww.where(x.isinf(), 0.0, ww.where(x.equal(0.0), 1.0, other.sin() / other)).astype(c.dtype)


def _inside(x: ww.Tensor, condition: ww.Tensor, other: float) -> ww.Tensor:
    """x where a formula holds, and elsewhere a number that does it no harm."""
    return ww.where(condition, x, other)


def _chebyshev(kind: str, is_shifted: bool) -> None:
    """Chebyshev's polynomials of any degree by their closed forms: with the angle inside of -1 to 1, and its hyperbolic twin outside."""

    name = f"special_{'shifted_' if is_shifted else ''}chebyshev_polynomial_{kind}"

    @op(name, f"{name}.x_scalar", f"{name}.n_scalar")
    def build(c: Context, x: Any, n: Any) -> Any:
        if c.dtype == ww.float64:
            raise Unsupported("float64")
        x, n = (tensor_of(value, ww.float64) for value in (x, n))
        n = n.trunc()
        x = x * 2 - 1 if is_shifted else x
        size = x.abs()
        inside = size < 1
        odd = ww.where(x < 0, 1 - (n.abs() % 2) * 2, 1.0)
        angle = _inside(x, inside, 0.0).acos()
        # Of |x|, and of what is odd the sign.
        wide = _inside(size, size > 1, 2.0).acosh()
        half = n + 0.5
        if kind == "t":
            found = (angle * n).cos(), odd * (wide * n).cosh(), odd
        elif kind == "u":
            found = ((n + 1) * angle).sin() / angle.sin(), odd * ((n + 1) * wide).sinh() / wide.sinh(), odd * (n + 1)
        else:
            cosine, sine = (half * angle).cos() / (angle / 2).cos(), (half * angle).sin() / (angle / 2).sin()
            hyper, hyper_sine = (half * wide).cosh() / (wide / 2).cosh(), (half * wide).sinh() / (wide / 2).sinh()
            is_v = kind == "v"
            beyond = ww.where(x > 0, hyper if is_v else hyper_sine, odd * (hyper_sine if is_v else hyper))
            at_one = ww.where(x > 0, 1.0 if is_v else 2 * n + 1, odd * (2 * n + 1 if is_v else 1.0))
            found = cosine if is_v else sine, beyond, at_one
        value = ww.where(inside, found[0], ww.where(size.equal(1.0), found[2], found[1]))
        return ww.where(n < 0, 0.0, ww.where(x.isnan(), x, value)).astype(c.dtype)


for _kind in "tuvw":
    for _shifted in (False, True):
        _chebyshev(_kind, _shifted)
