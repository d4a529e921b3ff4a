"""The table of ops: for each of ATen's the function that builds it of tensors of Warpweft.

A builder gets a `Context` and the arguments of the call, with tensors of Warpweft in place of PyTorch's. What it gives is cast to the type that
ATen's meta function says, and a result of another shape than that is refused; so no builder can give a value of the wrong kind.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Callable

import warpweft as ww

TABLE: dict[Any, Callable[..., Any]] = {}


# Ops that take or give complex numbers.
COMPLEX: set[Any] = set()


@dataclass(frozen=True)
class Pair:
    """Complex numbers as their real and imaginary parts."""

    re: ww.Tensor
    im: ww.Tensor


class Unsupported(Exception):
    """An op, or a way to call it, that is left to PyTorch."""


@dataclass
class Context:
    """A call: what ATen's meta function says of its results and of its arguments."""

    out: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    # The numbers of results that are read, of an op of several.
    used: frozenset[int] = frozenset()

    @property
    def outs(self) -> list[Any]:
        """Of all results."""
        return list(self.out) if isinstance(self.out, (tuple, list)) else [self.out]

    @property
    def first(self) -> Any:
        """Of the only result, or of the first."""
        return self.out[0] if isinstance(self.out, (tuple, list)) else self.out

    @property
    def dtype(self) -> ww.DType:
        """The type of elements of the first result."""
        return dtype_of(self.first.dtype)

    @property
    def shape(self) -> list[Any]:
        """The lengths of the first result: numbers, or expressions of variables."""
        return [length if isinstance(length, (ww.Var, ww.Dim)) else int(length) for length in self.first.shape]

    def promoted(self) -> ww.DType:
        """The type that ATen computes in, of all tensors and numbers among the arguments."""
        import torch

        # A variable length is an integer.
        given = [2 if isinstance(value, (ww.Var, ww.Dim)) else value for value in (*self.args, *self.kwargs.values())]
        values = [value for value in given if isinstance(value, (torch.Tensor, int, float))]
        common: Any = values[0]
        result = common.dtype if isinstance(common, torch.Tensor) else None
        if len(values) == 1 and result is not None:
            return dtype_of(result)
        state: Any = values[0]
        for value in values[1:]:
            result = torch.result_type(state, value)
            if isinstance(state, torch.Tensor) and result == state.dtype:
                continue
            state = (
                value
                if isinstance(value, torch.Tensor) and result == value.dtype
                else torch.empty((1,) * _rank(state, value), dtype=result, device="meta")
            )
        return dtype_of(result if result is not None else torch.result_type(values[0], values[0]))


def _rank(*values: Any) -> int:
    """1 where any has axes, else 0: types of tensors with axes count more than those without."""
    return int(any(getattr(value, "ndim", 0) > 0 for value in values))


_DTYPES: dict[Any, ww.DType] = {}


def dtype_of(dtype: Any) -> ww.DType:
    """The type of elements under the same name, or a refusal."""
    if not _DTYPES:
        import torch

        names = "int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float32 float64".split()
        _DTYPES.update({getattr(torch, name): getattr(ww, name) for name in names})
        _DTYPES[torch.bool] = ww.bool_
    if dtype not in _DTYPES:
        raise Unsupported(f"elements of {dtype}")
    return _DTYPES[dtype]


def op(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enters a builder under names as `add.Tensor`; names that this PyTorch does not have are passed over."""
    import torch

    def enter(build: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            space, _, rest = name.rpartition("::")
            packet, _, overload = rest.partition(".")
            found = getattr(getattr(torch.ops, space or "aten"), packet, None)
            found = getattr(found, overload or "default", None)
            if found is not None:
                TABLE[found] = build
        return build

    return enter


def numbers(value: Any) -> list[int]:
    """A list of integers, of one or of several."""
    return [int(item) for item in value] if isinstance(value, (list, tuple)) else [int(value)]


def count_of(x: ww.Tensor) -> Any:
    """The number of elements: of a variable shape an expression, where `x.size` is the largest that it can be."""
    return math.prod(x.shape)


def axis_of(axis: int, rank: int) -> int:
    """An axis counted from the start."""
    return axis % max(rank, 1)


def moved(tensor: ww.Tensor, dtype: ww.DType) -> ww.Tensor:
    """In that type."""
    return tensor if tensor.dtype == dtype else tensor.astype(dtype)


def tensor_of(value: Any, dtype: ww.DType) -> ww.Tensor:
    """A tensor, or a number as one, in that type."""
    if isinstance(value, (ww.Var, ww.Dim)):
        return moved(ww.from_dim(value), dtype)
    return moved(value, dtype) if isinstance(value, ww.Tensor) else ww.full((), number(value, dtype), dtype=dtype)


def number(value: Any, dtype: ww.DType) -> Any:
    """A number as elements of that type have it: ATen wraps and cuts off."""
    if dtype == ww.bool_:
        return bool(value)
    if dtype.name.startswith(("float", "bfloat")):
        return float(value)
    if isinstance(value, float) and value != value:
        return 0
    bits, wrapped = 8 * dtype.itemsize, int(value)
    wrapped &= (1 << bits) - 1
    return wrapped - (1 << bits) if dtype.name.startswith("int") and wrapped >> (bits - 1) else wrapped


def bound_of(value: Any, dtype: ww.DType) -> Any:
    """As `tensor_of`, of a bound: a number beyond what the type holds is the nearest that it holds."""
    if isinstance(value, (bool, ww.Tensor, ww.Var, ww.Dim)) or is_float(dtype) or value != value:
        return tensor_of(value, dtype)
    bits = 8 * dtype.itemsize
    least, most = (-(1 << bits - 1), (1 << bits - 1) - 1) if dtype.name.startswith("int") else (0, (1 << bits) - 1)
    return tensor_of(int(min(max(value, least), most)), dtype)


def is_float(dtype: ww.DType) -> bool:
    """Whether elements are floats."""
    return dtype.name.startswith(("float", "bfloat"))
