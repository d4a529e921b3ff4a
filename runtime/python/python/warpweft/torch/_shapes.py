"""What is known of lengths when a graph is compiled: numbers, or variables with bounds.

PyTorch's symbols stand for lengths that may be others at the next call. A graph is compiled for variables in their place (`Shapes.variables`): the same function serves all values within
bounds. Bounds are PyTorch's (`mark_dynamic(x, 0, min=.., max=..)`) where they are near, and else a power of two not far above the value that the graph is first called with, since
memory is planned for the largest. Where an op needs numbers, it is compiled for the numbers of a call (`Shapes.numbers`).

Always: what a builder is told of a shape is what the call has: a symbol is never taken for the value that PyTorch saw first. A length that is no number is a `warpweft.Dim`, which is
no integer, so that a builder that needs one is refused. Tests: tests/test_torch.py.
"""

from __future__ import annotations

import math
from typing import Any, Callable, Optional, Sequence

import torch
from torch._subclasses import FakeTensorMode
from torch.utils._sympy.functions import FloorDiv, Mod, PythonMod

import warpweft as ww
from warpweft.torch._table import Unsupported

_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)
_FAKE = FakeTensorMode()
# A variable's largest value is at least this, and this many times the first value.
_LEAST_BOUND, _TIMES = 16, 2


class Symbolic(torch.Tensor):
    """What is known of a tensor of which lengths are variables: type and number of axes, and lengths as `warpweft.Dim`."""

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]
    lengths: tuple[Any, ...]

    @classmethod
    def __torch_dispatch__(cls, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        raise Unsupported(f"{op} of a variable shape is not known")

    @staticmethod
    def of(meta: Any, lengths: Sequence[Any]) -> Any:
        """As that meta, with these lengths."""
        found = torch.Tensor._make_wrapper_subclass(Symbolic, (2,) * meta.ndim, dtype=meta.dtype, device=meta.device)
        found.lengths = tuple(lengths)
        return found

    @property
    def shape(self) -> Any:  # type: ignore[override]
        return self.lengths

    def size(self, dim: Optional[int] = None) -> Any:
        return self.lengths if dim is None else self.lengths[dim]

    def _unknown(self, *args: Any, **kwargs: Any) -> Any:
        raise Unsupported("it depends on how elements of a variable shape lie in memory")

    stride = numel = is_contiguous = storage_offset = nelement = untyped_storage = _unknown


def _expression(value: Any) -> Any:
    return value.node.expr


def _is_symbolic(value: Any) -> bool:
    return isinstance(value, _SYMBOLIC)


def _evaluated(value: Any, known: dict[Any, int]) -> Any:
    """A number of PyTorch's, with the values of a call in place of symbols."""
    if not _is_symbolic(value):
        return value
    found = _expression(value)
    found = found.xreplace({symbol: _integer(number) for symbol, number in known.items()}) if hasattr(found, "xreplace") else found
    kind = int if isinstance(value, torch.SymInt) else float if isinstance(value, torch.SymFloat) else bool
    return kind(found)


def _integer(number: int) -> Any:
    from sympy import Integer  # type: ignore[import-untyped]

    return Integer(number)


def _length(expression: Any, variables: dict[Any, Any]) -> Any:
    """An expression of symbols as one of variables."""
    if expression.is_Integer:
        return int(expression)
    if expression.is_Symbol:
        if expression not in variables:
            raise Unsupported(f"nothing tells the value of {expression}")
        return variables[expression]
    parts = [_length(argument, variables) for argument in expression.args]
    if expression.is_Add:
        return sum(parts[1:], parts[0])
    if expression.is_Mul:
        return math.prod(parts[1:], start=parts[0])
    if isinstance(expression, FloorDiv) and isinstance(parts[1], int):
        return parts[0] // parts[1]
    if isinstance(expression, (Mod, PythonMod)) and isinstance(parts[1], int):
        return parts[0] % parts[1]
    if expression.is_Pow and isinstance(parts[1], int) and 0 < parts[1] < 8:
        return math.prod([parts[0]] * (parts[1] - 1), start=parts[0])
    raise Unsupported(f"the length {expression} is no sum, product or quotient of variables")


def _reader(expression: Any, symbols: list[Any]) -> Optional[Callable[[Sequence[Any]], int]]:
    """A sum, product or quotient of symbols as a function of variables with values, in the order of the symbols; none of another expression."""
    if expression.is_Integer:
        number = int(expression)
        return lambda lengths: number
    if expression.is_Symbol:
        position = symbols.index(expression)
        return lambda lengths: int(lengths[position][1])
    found = [_reader(argument, symbols) for argument in expression.args]
    if not all(found):
        return None
    parts: list[Any] = found
    if expression.is_Add:
        return lambda lengths: sum(part(lengths) for part in parts)
    if expression.is_Mul:
        return lambda lengths: math.prod(part(lengths) for part in parts)
    if isinstance(expression, FloorDiv):
        return lambda lengths: int(parts[0](lengths) // parts[1](lengths))
    return None


def _number_at(position: int) -> Callable[[Sequence[Any]], int]:
    return lambda args: int(args[position])


def _length_at(position: int, axis: int) -> Callable[[Sequence[Any]], int]:
    return lambda args: int(args[position].shape[axis])


class Shapes:
    """The symbols of a graph, and where a call tells their values."""

    def __init__(self, placeholders: Sequence[Any]) -> None:
        self.sources: dict[Any, Callable[[Sequence[Any]], int]] = {}
        self.ranges: dict[Any, tuple[int, int]] = {}
        for position, node in enumerate(placeholders):
            value = node.meta.get("val")
            if isinstance(value, torch.SymInt):
                self._learn(value, _number_at(position))
            elif isinstance(value, torch.Tensor):
                for axis, length in enumerate(value.shape):
                    self._learn(length, _length_at(position, axis))

    def _learn(self, length: Any, source: Callable[[Sequence[Any]], int]) -> None:
        if not isinstance(length, torch.SymInt) or not _expression(length).is_Symbol or _expression(length) in self.sources:
            return
        symbol, environment = _expression(length), length.node.shape_env
        self.sources[symbol] = source
        found = environment.var_to_range.get(symbol) if environment is not None else None
        self.ranges[symbol] = (_bound(found.lower, 0), _bound(found.upper, 2**31)) if found is not None else (0, 2**31)

    def values(self, args: Sequence[Any]) -> dict[Any, int]:
        """The values of symbols in a call."""
        return {symbol: source(args) for symbol, source in self.sources.items()}

    def variables(self, values: dict[Any, int]) -> dict[Any, ww.Var]:
        """A variable for each symbol, whose bounds have the value between them."""
        found = {}
        for number, (symbol, value) in enumerate(values.items()):
            lower, upper = self.ranges[symbol]
            near = max(_LEAST_BOUND, 1 << (_TIMES * value - 1).bit_length())
            lower, upper = max(lower, 1), min(upper, near)
            if not lower <= value <= upper:
                raise Unsupported(f"a length is {value}")
            found[symbol] = ww.Var(f"s{number}", lower, upper)
        return found

    def known(self, meta: Any, values: dict[Any, int]) -> Any:
        """What a meta says, with the numbers of a call."""
        if isinstance(meta, (tuple, list)):
            return [self.known(part, values) for part in meta]
        if not isinstance(meta, torch.Tensor) or meta.layout != torch.strided:
            return _evaluated(meta, values)
        if not any(map(_is_symbolic, (*meta.shape, *meta.stride(), meta.storage_offset()))):
            return meta
        shape, strides = ([_evaluated(number, values) for number in numbers] for numbers in (meta.shape, meta.stride()))
        offset = _evaluated(meta.storage_offset(), values)
        with _FAKE:
            found = torch.empty_strided(shape, strides, dtype=meta.dtype, device=meta.device)
            if offset:
                reach = 1 + sum((length - 1) * stride for length, stride in zip(shape, strides)) if 0 not in shape else 0
                found = torch.empty(offset + reach, dtype=meta.dtype, device=meta.device).as_strided(shape, strides, offset)
        return found

    def symbolic(self, meta: Any, variables: dict[Any, Any]) -> Any:
        """What a meta says, with variables in place of symbols."""
        if isinstance(meta, (tuple, list)):
            return [self.symbolic(part, variables) for part in meta]
        if isinstance(meta, torch.SymInt):
            return _length(_expression(meta), variables)
        if _is_symbolic(meta):
            raise Unsupported("a number that is no length")
        if not isinstance(meta, torch.Tensor) or meta.layout != torch.strided:
            return meta
        if not any(map(_is_symbolic, (*meta.shape, *meta.stride(), meta.storage_offset()))):
            return meta
        return Symbolic.of(meta, [self.symbolic(length, variables) for length in meta.shape])


class Known:
    """What builders are told of the nodes of a graph: with numbers, or with variables for symbols."""

    def __init__(self, shapes: Optional[Shapes], values: dict[Any, int], variables: Optional[dict[Any, ww.Var]] = None) -> None:
        self.shapes, self.values, self.variables = shapes, values, variables
        self.bounds = [(symbol, variable.min, variable.max) for symbol, variable in (variables or {}).items()]

    def __call__(self, meta: Any) -> Any:
        if self.shapes is None:
            return meta
        return self.shapes.known(meta, self.values) if self.variables is None else self.shapes.symbolic(meta, self.variables)

    def number(self, meta: Any, values: dict[Any, int]) -> Any:
        """A number of a graph in a call."""
        return _evaluated(meta, values)

    def admits(self, values: dict[Any, int]) -> bool:
        """Whether the values of a call are within bounds."""
        return all(least <= values[symbol] <= most for symbol, least, most in self.bounds)

    def bound(self, values: dict[Any, int]) -> list[tuple[ww.Var, int]]:
        """Each variable with its value in a call."""
        return [(variable, values[symbol]) for symbol, variable in (self.variables or {}).items()]

    def lengths(self) -> list[tuple[ww.Var, Callable[[Sequence[Any]], int], int, int]]:
        """Each variable, where the arguments of a call tell its value, and its bounds."""
        if self.shapes is None:
            return []
        return [(variable, self.shapes.sources[symbol], variable.min, variable.max) for symbol, variable in (self.variables or {}).items()]

    def reader(self, meta: Any) -> Callable[[Sequence[Any]], Any]:
        """A number of a graph, as a function of the variables with their values in a call."""
        symbols = list(self.variables or {})
        found = _reader(_expression(meta), symbols) if isinstance(meta, torch.SymInt) else None
        return found or (lambda lengths: _evaluated(meta, {symbol: value for symbol, (_, value) in zip(symbols, lengths)}))


def hints(numbers: Sequence[Any]) -> Optional[list[int]]:
    """Numbers as PyTorch saw them first: enough to order axes by."""
    found = [number.node.hint if _is_symbolic(number) else number for number in numbers]
    return None if any(number is None for number in found) else [int(number) for number in found]


def is_empty(meta: Any) -> bool:
    """Whether a result has no elements, so that nothing is to be computed."""
    return isinstance(meta, torch.Tensor) and all(isinstance(length, int) for length in meta.shape) and 0 in meta.shape


def empty_of(meta: Any) -> Any:
    """A result without elements, in memory of PyTorch's, which an op with `out=` can make larger."""
    return torch.empty_strided(meta.shape, meta.stride(), dtype=meta.dtype)


def _bound(value: Any, otherwise: int) -> int:
    """A bound of PyTorch's, which may be infinite."""
    return min(int(value), 2**31) if getattr(value, "is_Integer", isinstance(value, int)) else otherwise
