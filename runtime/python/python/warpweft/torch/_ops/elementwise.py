"""Functions of elements. Operands are cast to the type that ATen computes in before anything is computed."""

from __future__ import annotations

import math
from contextlib import suppress
from importlib import import_module
from typing import Any, Callable

import warpweft as ww
from warpweft.torch._table import Context, Unsupported, bound_of, is_float, moved, number, op, tensor_of

_FLOAT = (
    "exp exp2 expm1 log log2 log10 log1p sqrt rsqrt sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf sigmoid reciprocal"
).split()
_SAME = "abs sign square relu relu6 silu".split()
_ROUND = "floor ceil round trunc".split()
_ASK = "isnan isinf signbit logical_not".split()


def _unary(name: str, kind: str) -> None:
    method = getattr(ww.Tensor, name)

    @op(name, *(["sgn"] if name == "sign" else []), *([f"special_{name}"] if name in ("expm1", "exp2", "log1p") else []))
    def build(c: Context, x: ww.Tensor) -> Any:
        if kind == "float":
            return method(moved(x, c.dtype))
        if kind == "round" and not is_float(x.dtype):
            return x
        return method(x)


for _kind, _names in (("float", _FLOAT), ("same", _SAME), ("round", _ROUND), ("ask", _ASK)):
    for _name in _names:
        _unary(_name, _kind)


@op("neg", "_neg_view")
def neg(c: Context, x: ww.Tensor) -> Any:
    return x.negative()


@op("bitwise_not")
def bitwise_not(c: Context, x: ww.Tensor) -> Any:
    return x.bitwise_not()


@op("positive", "alias", "clone", "detach", "lift_fresh_copy", "lift_fresh", "contiguous", "_to_copy", "prims::convert_element_type", "prims::copy_strided")
def same(c: Context, x: ww.Tensor, *args: Any, **kwargs: Any) -> Any:
    return moved(x, c.dtype)


@op("conj", "_conj", "real", "resolve_conj", "resolve_neg", "_conj_physical", "conj_physical")
def conj(c: Context, x: ww.Tensor) -> Any:
    return x


@op("isposinf")
def isposinf(c: Context, x: ww.Tensor) -> Any:
    return x.equal(math.inf) if is_float(x.dtype) else x.not_equal(x)


@op("isneginf")
def isneginf(c: Context, x: ww.Tensor) -> Any:
    return x.equal(-math.inf) if is_float(x.dtype) else x.not_equal(x)


@op("round.decimals")
def round_decimals(c: Context, x: ww.Tensor, *, decimals: int) -> Any:
    scale = 10.0 ** abs(decimals)
    return (x * scale).round() / scale if decimals >= 0 else (x / scale).round() * scale


@op("erfc", "special_erfc")
def erfc(c: Context, x: ww.Tensor) -> Any:
    return 1 - moved(x, c.dtype).erf()


def _pair(c: Context, a: Any, b: Any) -> tuple[ww.Tensor, ww.Tensor]:
    """Two operands in the type that ATen computes in."""
    dtype = c.promoted()
    return tensor_of(a, dtype), tensor_of(b, dtype)


def _binary(method: Callable[..., Any], *names: str, floats: bool = False) -> None:
    @op(*names)
    def build(c: Context, a: Any, b: Any) -> Any:
        if floats:
            return method(tensor_of(a, c.dtype), tensor_of(b, c.dtype))
        return method(*_pair(c, a, b))


def _all(name: str, *more: str) -> tuple[str, ...]:
    return (f"{name}.Tensor", f"{name}.Scalar", f"{name}.Scalar_Tensor", f"{name}.Tensor_Scalar", f"{name}.Tensor_Tensor", name, *more)


_T = ww.Tensor
_HALVES = (ww.float16, ww.bfloat16)


def _wide(c: Context) -> ww.DType:
    """The type that products with numbers are computed in: the CPU does not round a number to a half first."""
    return ww.float32 if c.dtype in _HALVES else c.dtype


def _is_number(value: Any) -> bool:
    return not isinstance(value, ww.Tensor) or not value.ndim


def _scaled(method: Callable[..., Any], *names: str) -> None:
    @op(*names)
    def build(c: Context, a: Any, b: Any) -> Any:
        dtype = _wide(c) if _is_number(b) or _is_number(a) and method is _T.multiply else c.dtype
        return method(tensor_of(a, dtype), tensor_of(b, dtype))


_scaled(_T.multiply, *_all("mul"))
_scaled(_T.divide, "div.Tensor", "div.Scalar", "true_divide.Tensor")
_binary(_T.remainder, *_all("remainder"))
_binary(_T.fmod, *_all("fmod"))
_binary(_T.floor_divide, *_all("floor_divide"))
_binary(_T.atan2, *_all("atan2"), floats=True)
_binary(_T.copysign, *_all("copysign"), floats=True)
_binary(_T.logaddexp, *_all("logaddexp"))
_binary(_T.maximum, *_all("maximum"))
_binary(_T.minimum, *_all("minimum"))
_binary(_T.bitwise_and, *_all("bitwise_and"))
_binary(_T.bitwise_or, *_all("bitwise_or"))
_binary(_T.bitwise_xor, *_all("bitwise_xor"))
for _ours, _theirs in (
    ("equal", "eq"),
    ("not_equal", "ne"),
    ("less", "lt"),
    ("less_equal", "le"),
    ("greater", "gt"),
    ("greater_equal", "ge"),
):
    _binary(getattr(_T, _ours), *_all(_theirs))


@op("div.Tensor_mode", "div.Scalar_mode")
def div_mode(c: Context, a: Any, b: Any, *, rounding_mode: Any) -> Any:
    x, y = _pair(c, a, b)
    if rounding_mode is None:
        return moved(x, c.dtype) / moved(y, c.dtype)
    if is_float(x.dtype) and rounding_mode == "trunc":
        return (x / y).trunc()
    return x.div_rounded(y, rounding_mode)


def _logical(name: str) -> None:
    method = getattr(_T, name)

    @op(name)
    def build(c: Context, a: ww.Tensor, b: ww.Tensor) -> Any:
        return method(a, b)


for _name in ("logical_and", "logical_or", "logical_xor"):
    _logical(_name)


def _shift(method: Callable[..., Any], *names: str) -> None:
    @op(*names)
    def build(c: Context, a: Any, b: Any) -> Any:
        return method(*_pair(c, a, b))


_shift(_T.left_shift, *_all("bitwise_left_shift"), *_all("__lshift__"))
_shift(_T.right_shift, *_all("bitwise_right_shift"), *_all("__rshift__"))


@op("add.Tensor", "add.Scalar")
def add(c: Context, a: Any, b: Any, alpha: Any = 1) -> Any:
    return _sum(c, a, b, alpha, 1)


@op("sub.Tensor", "sub.Scalar")
def sub(c: Context, a: Any, b: Any, alpha: Any = 1) -> Any:
    return _sum(c, a, b, alpha, -1)


@op("rsub.Tensor", "rsub.Scalar")
def rsub(c: Context, a: Any, b: Any, alpha: Any = 1) -> Any:
    return _sum(c, b, a, alpha, -1)


def _sum(c: Context, a: Any, b: Any, alpha: Any, sign: int) -> Any:
    x, y = tensor_of(a, c.dtype), tensor_of(b, c.dtype)
    if isinstance(alpha, ww.Tensor) or alpha != 1:
        y = y * tensor_of(alpha, c.dtype)
    if c.dtype == ww.bool_:
        return x.logical_or(y)
    return x + y if sign > 0 else x - y


@op("pow.Tensor_Tensor", "pow.Tensor_Scalar", "pow.Scalar")
def power(c: Context, a: Any, b: Any) -> Any:
    if isinstance(b, (int, float)) and not isinstance(b, bool) and is_float(c.dtype):
        x = moved(a, c.dtype)
        if b == 2:
            return x * x
        return x.pow(float(b))
    return tensor_of(a, c.dtype).pow(tensor_of(b, c.dtype))


@op("where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar")
def where(c: Context, condition: ww.Tensor, a: Any, b: Any) -> Any:
    return ww.where(moved(condition, ww.bool_), tensor_of(a, c.dtype), tensor_of(b, c.dtype))


@op("masked_fill.Scalar", "masked_fill.Tensor")
def masked_fill(c: Context, x: ww.Tensor, mask: ww.Tensor, value: Any) -> Any:
    return ww.where(mask, tensor_of(value, c.dtype), x)


@op("clamp", "clamp.Tensor", "clip", "clip.Tensor")
def clamp(c: Context, x: ww.Tensor, min: Any = None, max: Any = None) -> Any:
    x = moved(x, c.dtype)
    if min is not None:
        x = x.maximum(bound_of(min, c.dtype))
    return x if max is None else x.minimum(bound_of(max, c.dtype))


@op("clamp_min", "clamp_min.Tensor")
def clamp_min(c: Context, x: ww.Tensor, min: Any) -> Any:
    return moved(x, c.dtype).maximum(bound_of(min, c.dtype))


@op("clamp_max", "clamp_max.Tensor")
def clamp_max(c: Context, x: ww.Tensor, max: Any) -> Any:
    return moved(x, c.dtype).minimum(bound_of(max, c.dtype))


@op("fmax")
def fmax(c: Context, a: ww.Tensor, b: ww.Tensor) -> Any:
    a, b = _pair(c, a, b)
    return ww.where(b.isnan(), a, ww.where(a.isnan(), b, a.maximum(b))) if is_float(a.dtype) else a.maximum(b)


@op("fmin")
def fmin(c: Context, a: ww.Tensor, b: ww.Tensor) -> Any:
    a, b = _pair(c, a, b)
    return ww.where(b.isnan(), a, ww.where(a.isnan(), b, a.minimum(b))) if is_float(a.dtype) else a.minimum(b)


@op("hypot")
def hypot(c: Context, a: ww.Tensor, b: ww.Tensor) -> Any:
    a, b = moved(a, c.dtype).abs(), moved(b, c.dtype).abs()
    large, small = a.maximum(b), a.minimum(b)
    ratio = small / ww.where(large > 0, large, 1.0)
    return ww.where(a.isinf() | b.isinf(), math.inf, large * (1 + ratio * ratio).sqrt())


@op("gelu")
def gelu(c: Context, x: ww.Tensor, approximate: str = "none") -> Any:
    return x.gelu(approximate)


@op("leaky_relu")
def leaky_relu(c: Context, x: ww.Tensor, slope: Any = 0.01) -> Any:
    return ww.where(x > 0, x, moved(moved(x, _wide(c)) * float(slope), x.dtype))


@op("hardtanh")
def hardtanh(c: Context, x: ww.Tensor, low: Any = -1, high: Any = 1) -> Any:
    return clamp(c, x, low, high)


@op("nan_to_num")
def nan_to_num(c: Context, x: ww.Tensor, nan: Any = None, posinf: Any = None, neginf: Any = None) -> Any:
    return x.nan_to_num(0.0 if nan is None else nan, posinf, neginf) if is_float(x.dtype) else x


@op("lerp.Scalar", "lerp.Tensor")
def lerp(c: Context, a: ww.Tensor, b: ww.Tensor, weight: Any) -> Any:
    a, b, w = (tensor_of(value, _wide(c)) for value in (a, b, weight))
    return ww.where(w.abs() < 0.5, a + w * (b - a), b - (b - a) * (1 - w))


@op("addcmul")
def addcmul(c: Context, x: Any, a: ww.Tensor, b: ww.Tensor, *, value: Any = 1) -> Any:
    dtype = _wide(c)
    return moved(x, dtype) + tensor_of(value, dtype) * moved(a, dtype) * moved(b, dtype)


@op("addcdiv")
def addcdiv(c: Context, x: Any, a: ww.Tensor, b: ww.Tensor, *, value: Any = 1) -> Any:
    dtype = _wide(c)
    return moved(x, dtype) + tensor_of(value, dtype) * (moved(a, dtype) / moved(b, dtype))


def _power_of_two(exponent: ww.Tensor) -> ww.Tensor:
    """In float64, of integers of which it has the power."""
    return ((exponent + 1023) << 52).contiguous().bitcast(ww.float64)


@op("ldexp.Tensor")
def ldexp(c: Context, a: ww.Tensor, b: ww.Tensor) -> Any:
    """By powers of floats, which may be infinite where the product is not; of integers by as many as it takes, so that one product alone is rounded."""
    if is_float(b.dtype):
        return moved(a, c.dtype) * moved(b, c.dtype).exp2()
    value, rest = moved(a, c.dtype).astype(ww.float64), b.astype(ww.int64).clip(-2200, 2200)
    for _ in range(2):
        step = ww.where(rest < -1022, -969, rest.clip(-1022, 1023))
        value, rest = value * _power_of_two(step), rest - step
    return (value * _power_of_two(rest.clip(-1022, 1023))).astype(c.dtype)


# Dynamo writes `addcmul` and `addcdiv` of numbers with an op that another part of PyTorch defines once it is imported.
with suppress(ImportError):
    import_module("torch._inductor.inductor_prims")


@op("prims::fma")
def fma(c: Context, a: Any, b: Any, addend: Any) -> Any:
    a, b, addend = (tensor_of(value, c.dtype) for value in (a, b, addend))
    return a * b + addend


@op("prims::convert_element_type", "prims::device_put")
def convert(c: Context, x: ww.Tensor, *args: Any) -> Any:
    return moved(x, c.dtype)


def polynomial(x: ww.Tensor, coefficients: list[float]) -> ww.Tensor:
    """A polynomial, the highest power first."""
    value: Any = x * 0 + coefficients[0]
    for coefficient in coefficients[1:]:
        value = value * x + coefficient
    return value  # type: ignore[no-any-return]


@op("scalar_tensor")
def scalar_tensor(c: Context, value: Any, **kwargs: Any) -> Any:
    return ww.full((), number(value, c.dtype), dtype=c.dtype)


@op("angle")
def angle(c: Context, x: ww.Tensor) -> Any:
    x = moved(x, c.dtype)
    return ww.where(x.isnan(), x, ww.where(x < 0, math.pi, x * 0.0))


@op("nextafter", "prims::nextafter")
def nextafter(c: Context, a: ww.Tensor, b: ww.Tensor) -> Any:
    if c.dtype not in (ww.float32, ww.float64):
        raise Unsupported("halves")
    bits = ww.int32 if c.dtype == ww.float32 else ww.int64
    a, b = _pair(c, a, b)
    shape = tuple(c.shape)
    a, b = a.expand(shape), b.expand(shape)
    whole = a.contiguous().bitcast(bits)
    # Away from zero the bits grow, on either side of it.
    step = ww.where((b > a).equal(a > 0), 1, -1).astype(bits)
    smallest = ww.full(shape, 1, dtype=bits).bitcast(c.dtype).copysign(b)
    found = ww.where(a.equal(0.0), smallest, (whole + step).bitcast(c.dtype))
    return ww.where(a.isnan() | b.isnan(), math.nan, ww.where(a.equal(b), b, found))


@op("frexp.Tensor", "prims::frexp")
def frexp(c: Context, x: ww.Tensor) -> Any:
    # What is subnormal has its exponent in its bits once it is large enough.
    wide = x.astype(ww.float64)
    is_small = wide.abs() < 2.0**-1022
    bits = ww.where(is_small, wide * 2.0**54, wide).contiguous().bitcast(ww.int64)
    exponent = (bits.right_shift(52) & 0x7FF) - ww.where(is_small, 1022 + 54, 1022)
    mantissa = ((bits & ~(0x7FF << 52)) | (1022 << 52)).bitcast(ww.float64).astype(x.dtype)
    plain = x.isfinite() & x.not_equal(0.0)
    return ww.where(plain, mantissa, x), ww.where(plain, exponent, 0).astype(ww.int32)


@op("prims::gcd", "gcd")
def gcd(c: Context, a: ww.Tensor, b: ww.Tensor) -> Any:
    """By Euclid, as often as the longest numbers of the type need it: those are neighbours in Fibonacci's sequence."""
    a, b = (moved(part, c.dtype) for part in (a, b))
    if not c.dtype.name.startswith("u"):
        a, b = a.abs(), b.abs()
    for _ in range(round(1.45 * 8 * c.dtype.itemsize)):
        rest = b.fmod(ww.where(a.equal(0), 1, a))
        a, b = ww.where(a.equal(0), 0, rest), ww.where(a.equal(0), b, a)
    return b.expand(c.shape)


@op("prims::div")
def prims_div(c: Context, a: Any, b: Any) -> Any:
    """Of integers without what is behind the point, and 0 by 0."""
    a, b = tensor_of(a, c.dtype), tensor_of(b, c.dtype)
    if is_float(c.dtype):
        return a / b
    b = ww.where(b.equal(0), 1, b)
    return (a - a.fmod(b)) // b
