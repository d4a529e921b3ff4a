"""Special functions, computed in float64 whatever the operands, and rounded once.

Series where they converge fast, asymptotic expansions beyond, recurrences between. How near they are is what PyTorch's own database says
(`tests/opinfo.py`): float32 to a few units of the last place; for float64 operands they are left to PyTorch where they are not that near.
"""

from __future__ import annotations

import functools
import math
from typing import Any, Callable

import warpweft as ww
from warpweft.torch._table import Context, Unsupported, op

_EULER = 0.57721566490153286061
# Of Lanczos' approximation of the gamma function, with g = 7.
_LANCZOS = [
    0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059, 12.507343278686905,
    -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7,
]  # fmt: skip
# From here on the sum is its first term, and the powers would overflow.
_LANCZOS_FAR = 1e20
# Of the sine's series, for angles up to pi / 2: the next one is less than 1e-18 of it.
_SINE_TERMS = 12
# B(2k) / (2k)! for k from 1.
_BERNOULLI = [1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000, 1 / 74724249600]


def special(*names: str) -> Callable[[Callable[[ww.Tensor], ww.Tensor]], Callable[[ww.Tensor], ww.Tensor]]:
    """Enters a function of one operand of float64."""

    def enter(function: Callable[[ww.Tensor], ww.Tensor]) -> Callable[[ww.Tensor], ww.Tensor]:
        @op(*names)
        def build(c: Context, x: ww.Tensor) -> Any:
            if c.dtype == ww.float64:
                raise Unsupported("float64")
            return function(x.astype(ww.float64)).astype(c.dtype)

        return function

    return enter


def _inside(x: ww.Tensor, condition: ww.Tensor, other: float) -> ww.Tensor:
    """x where a formula holds, and elsewhere a number that does it no harm."""
    return ww.where(condition, x, other)


def _polynomial(x: ww.Tensor, coefficients: list[float]) -> ww.Tensor:
    """The constant coefficient first."""
    total: Any = coefficients[-1]
    for coefficient in coefficients[-2::-1]:
        total = total * x + coefficient
    return total  # type: ignore[no-any-return]


def _sine_of_half_turns(x: ww.Tensor) -> ww.Tensor:
    """sin(pi x) up to 1/2, by its series: nothing needs to be taken off such an angle."""
    angle = x * math.pi
    return angle * _polynomial(angle * angle, [(-1) ** k / math.factorial(2 * k + 1) for k in range(_SINE_TERMS)])


@functools.cache
def _lanczos_quotient() -> tuple[list[float], list[float]]:
    """The polynomials above and below the line whose quotient Lanczos' sum is."""

    def product(poles: list[int]) -> list[float]:
        found = [1.0]
        for pole in poles:
            found = [low * pole + high for low, high in zip([*found, 0.0], [0.0, *found])]
        return found

    poles = list(range(1, len(_LANCZOS)))
    below = product(poles)
    above = [_LANCZOS[0] * coefficient for coefficient in below]
    for left_out in poles:
        for power, coefficient in enumerate(product([pole for pole in poles if pole != left_out])):
            above[power] += _LANCZOS[left_out] * coefficient
    return above, below


@special("lgamma", "special_gammaln", "prims::lgamma")
def lgamma(x: ww.Tensor) -> ww.Tensor:
    """log |gamma(x)|; reflected below 1/2."""
    below = x < 0.5
    y = _inside(ww.where(below, 1 - x, x), x.isfinite(), 1.0) - 1
    above, under = (_polynomial(y.minimum(_LANCZOS_FAR), coefficients) for coefficients in _lanczos_quotient())
    t = y + 7.5
    power = (y + 0.5) * t.log() - t + 0.5 * math.log(2 * math.pi)
    sine = _sine_of_half_turns((x - x.round()).abs())
    # One division and one logarithm are enough for both the sum and the reflection.
    factor = (ww.where(below, under * math.pi, above) / ww.where(below, sine * above, under)).log()
    found = ww.where(below, factor - power, factor + power)
    found = ww.where((x <= 0) & x.equal(x.round()), math.inf, found)
    return ww.where(x.isinf(), math.inf, ww.where(x.isnan(), x, found))


@special("digamma", "special_psi", "prims::digamma")
def digamma(x: ww.Tensor) -> ww.Tensor:
    """The derivative of log gamma(x); reflected below 1/2."""
    below = x < 0.5
    y = _inside(ww.where(below, 1 - x, x), x.isfinite(), 1.0)
    total: Any = y * 0
    for _ in range(8):
        total = total - 1 / y
        y = y + 1
    inverse = 1 / (y * y)
    series = inverse * (
        1 / 12 - inverse * (1 / 120 - inverse * (1 / 252 - inverse * (1 / 240 - inverse * (1 / 132 - inverse * 691 / 32760))))
    )
    found = total + y.log() - 0.5 / y - series
    part = (x - x.round()) * math.pi
    found = ww.where(below, found - math.pi / part.tan(), found)
    found = ww.where((x < 0) & x.equal(x.round()), math.nan, found)
    found = ww.where(x.equal(0.0), ww.full_like(x, math.inf).copysign(x).negative(), found)
    return ww.where(x.isinf(), ww.where(x > 0, math.inf, math.nan), found)


def zeta(s: ww.Tensor, q: ww.Tensor) -> ww.Tensor:
    """The sum of (q + k)^-s over k from 0, by Euler and Maclaurin."""
    total: Any = s * 0
    for k in range(12):
        total = total + (q + k).pow(s.negative())
    a = q + 12
    power = a.pow(s.negative())
    total = total + power * a / (s - 1) + power * 0.5
    factor: Any = s
    for k, bernoulli in enumerate(_BERNOULLI):
        total = total + factor * power * bernoulli / a.pow(float(2 * k + 1))
        factor = factor * (s + (2 * k + 1)) * (s + (2 * k + 2))
    return total  # type: ignore[no-any-return]


@op("special_zeta", "prims::zeta", "special_zeta.other_scalar", "special_zeta.self_scalar")
def zeta_of(c: Context, s: Any, q: Any) -> Any:
    if c.dtype == ww.float64:
        raise Unsupported("float64")
    s, q = (value.astype(ww.float64) if isinstance(value, ww.Tensor) else ww.full((), float(value), dtype=ww.float64) for value in (s, q))
    found = zeta(_inside(s, s > 1, 2.0), q)
    # Of negative q only those of integer s have a sum, and it is of other signs than a power says.
    found = ww.where((q <= 0) & q.equal(q.floor()), math.inf, ww.where((q < 0) & s.not_equal(s.floor()), math.nan, found))
    return ww.where(s.equal(1.0), math.inf, ww.where(s < 1, math.nan, found)).astype(c.dtype)


@op("polygamma")
def polygamma(c: Context, n: int, x: ww.Tensor) -> Any:
    wide = x.astype(ww.float64)
    if c.dtype == ww.float64 or n > 20:
        raise Unsupported("float64, or a high derivative")
    if n == 0:
        return digamma(wide).astype(c.dtype)
    order = ww.full((), float(n + 1), dtype=ww.float64)
    found = zeta(order.expand(x.shape), wide) * ((-1.0) ** (n + 1) * math.factorial(n))
    return ww.where((wide <= 0) & wide.equal(wide.floor()), (-1.0) ** (n + 1) * math.inf, found).astype(c.dtype)


@special("erfinv", "special_erfinv", "prims::erf_inv")
def erfinv(x: ww.Tensor) -> ww.Tensor:
    """By Winitzki's approximation and steps of Newton's method."""
    inside = _inside(x, x.abs() < 1, 0.0)
    logarithm = (1 - inside * inside).log()
    first = 2 / (math.pi * 0.147) + logarithm * 0.5
    y = ((first * first - logarithm / 0.147).sqrt() - first).sqrt().copysign(inside)
    for _ in range(4):
        error = y.erf() - inside
        slope = (y * y).negative().exp() * (2 / math.sqrt(math.pi))
        step = error / slope
        y = y - step / (1 + y * step)
    found = ww.where(x.abs().equal(1.0), ww.full_like(x, math.inf).copysign(x), y)
    return ww.where((x.abs() > 1) | x.isnan(), math.nan, found)


def erfcx_of_large(x: ww.Tensor) -> ww.Tensor:
    """exp(x^2) erfc(x) of x from 2 on, by its continued fraction."""
    fraction: Any = x
    for k in range(60, 0, -1):
        fraction = x + (k / 2) / fraction
    return 1 / (fraction * math.sqrt(math.pi))  # type: ignore[no-any-return]


@special("special_erfcx", "prims::erfcx")
def erfcx(x: ww.Tensor) -> ww.Tensor:
    """exp(x^2) erfc(x)."""
    small = _inside(x, x < 2, 0.0)
    large = _inside(x, x >= 2, 2.0)
    return ww.where(x.isnan(), x, ww.where(x < 2, (small * small).exp() * (1 - small.erf()), erfcx_of_large(large)))


@special("special_log_ndtr")
def log_ndtr(x: ww.Tensor) -> ww.Tensor:
    """log of the share of a normal distribution below x."""
    t = x * math.sqrt(0.5)
    return ww.where(x < -1, (erfcx(t.negative()) * 0.5).log() - t * t, (1 - (1 - t.erf()) * 0.5).log())


@special("special_ndtri")
def ndtri(p: ww.Tensor) -> ww.Tensor:
    """Below which x that share of a normal distribution is."""
    return erfinv(2 * p - 1) * math.sqrt(2.0)


_SERIES = 40  # terms of power series, of operands up to _NEAR
_NEAR = 12.0


def _series(x: ww.Tensor, order: int, sign: float, weights: Callable[[int], float]) -> ww.Tensor:
    """The sum of weight(k) (sign x^2 / 4)^k / (k! (k + order)!), times (x / 2)^order."""
    square = x * x * (0.25 * sign)
    term: Any = x * 0 + 1.0 / math.factorial(order)
    total: Any = term * weights(0)
    for k in range(1, _SERIES):
        term = term * square / (k * (k + order))
        total = total + term * weights(k)
    return total * (x * 0.5) ** order if order else total  # type: ignore[no-any-return]


def _hankel(x: ww.Tensor, order: int, sign: int, terms: int = 20) -> tuple[ww.Tensor, ww.Tensor]:
    """Even and odd terms of the asymptotic expansion of order `order`."""
    even, odd, term = x * 0 + 1, x * 0, x * 0 + 1
    for k in range(1, terms):
        term = term * ((4 * order * order - (2 * k - 1) ** 2) / (8 * k)) / x
        if k % 2:
            odd = odd + term * (sign ** (k // 2))
        else:
            even = even + term * (sign ** (k // 2))
    return even, odd


def _harmonic(k: int) -> float:
    return sum(1.0 / j for j in range(1, k + 1))


def _bessel_i(x: ww.Tensor, order: int, scaled: bool) -> ww.Tensor:
    size = x.abs()
    near, far = _inside(size, size < _NEAR, 0.0), _inside(size, size >= _NEAR, _NEAR)
    small = _series(near, order, 1.0, lambda k: 1.0)
    even, odd = _hankel(far, order, 1)
    large = (even - odd) / (far * (2 * math.pi)).sqrt()
    found = ww.where(size < _NEAR, small * near.negative().exp(), large)
    if not scaled:
        found = found * size.exp()
    found = found if not order else found * x.sign()
    return ww.where(x.isnan(), x, found)


def _bessel_j(x: ww.Tensor, order: int) -> ww.Tensor:
    size = x.abs()
    near, far = _inside(size, size < _NEAR, 0.0), _inside(size, size >= _NEAR, _NEAR)
    even, odd = _hankel(far, order, -1)
    phase = far - (order * 0.5 + 0.25) * math.pi
    large = (phase.cos() * even - phase.sin() * odd) * (2 / math.pi / far).sqrt()
    found = ww.where(size < _NEAR, _series(near, order, -1.0, lambda k: 1.0), large)
    return found if not order else found * x.sign()


def _bessel_y(x: ww.Tensor, order: int) -> ww.Tensor:
    near, far = _inside(x, (x < _NEAR) & (x > 0), 1.0), _inside(x, x >= _NEAR, _NEAR)
    even, odd = _hankel(far, order, -1)
    phase = far - (order * 0.5 + 0.25) * math.pi
    large = (phase.sin() * even + phase.cos() * odd) * (2 / math.pi / far).sqrt()
    logarithm = (near * 0.5).log()
    if order:
        # Digamma at k + 1 and k + 2.
        series = _series(near, 1, -1.0, lambda k: _harmonic(k) + _harmonic(k + 1) - 2 * _EULER)
        small = (2 * logarithm * _series(near, 1, -1.0, lambda k: 1.0) - 2 / near - series) / math.pi
    else:
        series = _series(near, 0, -1.0, _harmonic)
        small = ((logarithm + _EULER) * _series(near, 0, -1.0, lambda k: 1.0) - series) * (2 / math.pi)
    found = ww.where(x < _NEAR, small, large)
    return ww.where(x.equal(0.0), -math.inf, ww.where(x < 0, math.nan, found))


def _bessel_k(x: ww.Tensor, order: int, scaled: bool) -> ww.Tensor:
    limit = 8.0
    near, far = _inside(x, (x < limit) & (x > 0), 1.0), _inside(x, x >= limit, limit)
    even, odd = _hankel(far, order, 1, 16)
    large = (even + odd) * (math.pi / 2 / far).sqrt()
    logarithm = (near * 0.5).log()
    if order:
        series = _series(near, 1, 1.0, lambda k: _harmonic(k) + _harmonic(k + 1) - 2 * _EULER)
        small = logarithm * _series(near, 1, 1.0, lambda k: 1.0) + 1 / near - series * 0.5
    else:
        small = _series(near, 0, 1.0, _harmonic) - (logarithm + _EULER) * _series(near, 0, 1.0, lambda k: 1.0)
    found = ww.where(x < limit, small * near.exp(), large)
    if not scaled:
        found = found * x.negative().exp()
    return ww.where(x.equal(0.0), math.inf, ww.where(x < 0, math.nan, found))


def _bessel(order: int) -> None:
    """Enters the functions of one order."""
    special(f"special_i{order}", f"i{order}", f"special_modified_bessel_i{order}", f"prims::bessel_i{order}")(
        lambda x: _bessel_i(x, order, False)
    )
    special(f"special_i{order}e", f"prims::bessel_i{order}e")(lambda x: _bessel_i(x, order, True))
    special(f"special_bessel_j{order}", f"prims::bessel_j{order}")(lambda x: _bessel_j(x, order))
    special(f"special_bessel_y{order}")(lambda x: _bessel_y(x, order))
    special(f"special_modified_bessel_k{order}")(lambda x: _bessel_k(x, order, False))
    special(f"special_scaled_modified_bessel_k{order}")(lambda x: _bessel_k(x, order, True))


_bessel(0)
_bessel(1)


@special("special_spherical_bessel_j0", "prims::spherical_bessel_j0")
def spherical_bessel_j0(x: ww.Tensor) -> ww.Tensor:
    """sin(x) / x."""
    other = _inside(x, x.not_equal(0.0), 1.0)
    return ww.where(x.isinf(), 0.0, ww.where(x.equal(0.0), 1.0, other.sin() / other))


def _chebyshev(kind: str, is_shifted: bool) -> None:
    """Chebyshev's polynomials of any degree by their closed forms: with the angle inside of -1 to 1, and its hyperbolic twin outside."""

    name = f"special_{'shifted_' if is_shifted else ''}chebyshev_polynomial_{kind}"

    @op(name, f"{name}.x_scalar", f"{name}.n_scalar")
    def build(c: Context, x: Any, n: Any) -> Any:
        if c.dtype == ww.float64:
            raise Unsupported("float64")
        x, n = (
            value.astype(ww.float64) if isinstance(value, ww.Tensor) else ww.full((), float(value), dtype=ww.float64) for value in (x, n)
        )
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
