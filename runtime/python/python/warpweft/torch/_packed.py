"""A graph of ATen ops as bytes, and again as a graph: what `_graph` reads of it and nothing else.

Of a node that is its op, arguments, and what its meta says of its results: types, lengths, strides, devices, and symbols of variable lengths with their ranges. Symbols get an
environment of their own, so that nothing of the program that reads a graph is changed.

Always: what cannot be told exactly is refused (`Unknown`) when a graph is packed, and never left out: subgraphs, tensors of other layouts or classes, ops and functions that are not
PyTorch's own. Tests: tests/test_warm_start.py.
"""

from __future__ import annotations

import importlib
import pickle
from typing import Any, NamedTuple

import torch
from torch._subclasses import FakeTensorMode
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes

_SPACES = {"aten", "prims"}
# Ops of higher order that are told by name. Not those that have effects: where a graph is found, PyTorch does not give it the tokens that these take.
_HIGHER = {"run_and_save_rng_state", "run_with_rng_state"}
_MODULES = {"torch", "math", "operator", "_operator", "builtins"}
# Where functions are that do not say where.
_HOMES = (torch, torch.nn.functional, torch._C._nn, torch._C._linalg, torch._C._fft, torch._C._special)  # type: ignore[attr-defined]
_PLAIN = (int, float, complex, bool, str, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format)
_KINDS: dict[Any, Any] = {torch.SymInt: int, torch.SymFloat: float, torch.SymBool: bool}
_MAKERS: dict[Any, Any] = {kind: made for made, kind in _KINDS.items()}


class Unknown(Exception):
    """What of a graph cannot be told in bytes."""


class NodeIndex(NamedTuple):
    """A node as an argument: its index in the graph."""

    position: int


class Op(NamedTuple):
    """An op, or one of higher order, by name."""

    space: str
    name: str
    overload: str


class Function(NamedTuple):
    """A function of PyTorch or Python, by name."""

    module: str
    name: str


class Slice(NamedTuple):
    """A slice as an argument, of which ends may be nodes."""

    start: Any
    stop: Any
    step: Any


class Number(NamedTuple):
    """A number of symbols."""

    kind: Any
    expression: Any
    hint: Any


class Strided(NamedTuple):
    """What is known of a tensor."""

    shape: tuple[Any, ...]
    strides: tuple[Any, ...]
    offset: Any
    dtype: Any
    device: Any


class Restored:
    """What stands for the module of a graph that was read: the graph, and its constants as attributes."""

    def __init__(self, graph: Any) -> None:
        self.graph = graph


def is_of_torch(target: Any) -> bool:
    """Whether what a node calls is PyTorch's or Python's own, and so the same in all programs with this PyTorch."""
    if isinstance(target, torch._ops.OpOverload):
        return target.namespace in _SPACES
    if isinstance(target, torch._ops.OpOverloadPacket):
        return target._qualified_op_name.split("::")[0] in _SPACES
    if isinstance(target, torch._ops.HigherOrderOperator):
        return getattr(torch.ops.higher_order, target._name, None) is target
    home = getattr(target, "__module__", None)
    return home.split(".")[0] in _MODULES if home else any(getattr(module, target.__name__, None) == target for module in _HOMES)


def packed(module: Any) -> bytes:
    """The bytes of a graph; `Unknown` where it has something that they cannot tell."""
    with _disable_current_modes():
        nodes = list(module.graph.nodes)
        indices = {node: NodeIndex(number) for number, node in enumerate(nodes)}
        ranges: dict[Any, Any] = {}
        told = [
            (node.op, _target(node), _argument(node.args, indices), _argument(node.kwargs, indices), node.name, *_meta_of(node, ranges))
            for node in nodes
        ]
        constants = {node.target: _constant(module, node.target) for node in nodes if node.op == "get_attr"}
        try:
            return pickle.dumps((told, constants, ranges))
        except (pickle.PicklingError, TypeError, AttributeError, RuntimeError) as error:
            raise Unknown(f"{error}") from error


def unpacked(data: bytes) -> Restored:
    """The graph of these bytes."""
    with _disable_current_modes():
        told, constants, ranges = pickle.loads(data)
        graph = torch.fx.Graph()
        metas = _Metas(ranges)
        nodes: list[Any] = []
        for op, target, args, kwargs, name, has_meta, meta in told:
            found = _found(target) if isinstance(target, (Op, Function)) else target
            node = graph.create_node(op, found, _given(args, nodes), _given(kwargs, nodes), name)
            if has_meta:
                node.meta["val"] = metas(meta)
            nodes.append(node)
        restored = Restored(graph)
        for name, value in constants.items():
            setattr(restored, name, value)
        return restored


def _target(node: Any) -> Any:
    if node.op in ("placeholder", "output", "get_attr"):
        return str(node.target)
    if node.op != "call_function":
        raise Unknown(f"{node.op} of {node.target}")
    return _named(node.target)


def _named(target: Any) -> Any:
    """What a node calls, by a name under which it is found again."""
    if not is_of_torch(target):
        raise Unknown(f"{target} is not PyTorch's")
    if isinstance(target, torch._ops.OpOverload):
        space, _, name = target._schema.name.partition("::")
        found: Any = Op(space, name, target._overloadname)
    elif isinstance(target, torch._ops.HigherOrderOperator):
        if target._name not in _HIGHER:
            raise Unknown(f"{target} may have graphs or effects")
        found = Op("higher_order", target._name, "")
    else:
        found = Function(getattr(target, "__module__", None) or "torch", getattr(target, "__qualname__", None) or target.__name__)
    if _found(found) is not target:
        raise Unknown(f"{target} is not found by its name")
    return found


def _found(name: Any) -> Any:
    if isinstance(name, Op):
        found: Any = getattr(getattr(torch.ops, name.space), name.name, None)
        return getattr(found, name.overload, None) if name.overload else found
    found = importlib.import_module(name.module)
    for part in name.name.split("."):
        found = getattr(found, part, None)
    return found


def _argument(value: Any, indices: dict[Any, NodeIndex]) -> Any:
    """An argument with indices for nodes, and names for ops."""
    if isinstance(value, torch.fx.Node):
        return indices[value]
    if isinstance(value, (list, tuple)):
        parts = [_argument(part, indices) for part in value]
        return tuple(parts) if isinstance(value, tuple) else parts
    if isinstance(value, dict):
        return {str(name): _argument(part, indices) for name, part in value.items()}
    if isinstance(value, slice):
        return Slice(*(_argument(part, indices) for part in (value.start, value.stop, value.step)))
    if isinstance(value, (torch._ops.OpOverload, torch._ops.HigherOrderOperator)):
        return _named(value)
    if type(value) in _PLAIN:
        return value
    raise Unknown(f"an argument is {type(value).__name__}")


def _given(value: Any, nodes: list[Any]) -> Any:
    """An argument again."""
    if isinstance(value, NodeIndex):
        return nodes[value.position]
    if isinstance(value, (Op, Function)):
        return _found(value)
    if isinstance(value, Slice):
        return slice(*(_given(part, nodes) for part in value))
    if isinstance(value, (list, tuple)):
        return type(value)(_given(part, nodes) for part in value)
    if isinstance(value, dict):
        return {name: _given(part, nodes) for name, part in value.items()}
    return value


def _constant(module: Any, name: str) -> Any:
    """A tensor that the graph holds."""
    value = getattr(module, name, None)
    if type(value) is not torch.Tensor or value.device.type != "cpu" or value.layout != torch.strided or value.is_quantized:
        raise Unknown(f"the graph holds {type(value).__name__}")
    return value


def _meta_of(node: Any, ranges: dict[Any, Any]) -> tuple[bool, Any]:
    """Whether a meta says anything of a node, and what."""
    return "val" in node.meta, _meta(node.meta.get("val"), ranges)


def _meta(value: Any, ranges: dict[Any, Any]) -> Any:
    if isinstance(value, (list, tuple)):
        return [_meta(part, ranges) for part in value]
    if type(value) in _KINDS:
        return _number(value, ranges)
    if isinstance(value, torch.Tensor):
        return _strided(value, ranges)
    if type(value) in _PLAIN:
        return value
    raise Unknown(f"a result is {type(value).__name__}")


def _strided(value: Any, ranges: dict[Any, Any]) -> Strided:
    is_known = type(value) in (FakeTensor, torch.Tensor, torch.nn.Parameter)
    if not is_known or value.layout != torch.strided or value.is_quantized or value.is_conj() or value.is_neg():
        raise Unknown(f"a result is a tensor of {type(value).__name__}, {value.layout}")
    numbers = [[_number(number, ranges) for number in of] for of in (value.shape, value.stride(), [value.storage_offset()])]
    return Strided(tuple(numbers[0]), tuple(numbers[1]), numbers[2][0], value.dtype, value.device)


def _number(value: Any, ranges: dict[Any, Any]) -> Any:
    if type(value) not in _KINDS:
        return int(value)
    expression, environment = value.node.expr, value.node.shape_env
    for symbol in getattr(expression, "free_symbols", ()):
        ranges[symbol] = (environment.var_to_range.get(symbol), _first_values(environment).get(symbol))
    return Number(_KINDS[type(value)], expression, value.node.hint)


def _first_values(environment: Any) -> Any:
    """The values that symbols had first; PyTorch has had two names for them."""
    return environment.backed_var_to_val if hasattr(environment, "backed_var_to_val") else environment.var_to_val


class _Metas:
    """Makes metas of what was told of them; equal ones once."""

    def __init__(self, ranges: dict[Any, Any]) -> None:
        from torch.fx.experimental.symbolic_shapes import ShapeEnv

        self.environment = ShapeEnv()
        for symbol, (bounds, first) in ranges.items():
            if bounds is not None:
                self.environment.var_to_range[symbol] = bounds
            if first is not None:
                _first_values(self.environment)[symbol] = first
        self.mode: Any = FakeTensorMode(shape_env=self.environment)
        self.made: dict[Strided, Any] = {}

    def __call__(self, told: Any) -> Any:
        if isinstance(told, Strided):
            if told not in self.made:
                self.made[told] = self._tensor(told)
            return self.made[told]
        if isinstance(told, Number):
            return self._number(told)
        return [self(part) for part in told] if isinstance(told, list) else told

    def _number(self, told: Any) -> Any:
        if not isinstance(told, Number):
            return told
        from torch.fx.experimental.sym_node import SymNode

        return _MAKERS[told.kind](SymNode(told.expression, self.environment, told.kind, told.hint))

    def _tensor(self, told: Strided) -> Any:
        shape, strides = ([self._number(number) for number in numbers] for numbers in (told.shape, told.strides))
        offset = self._number(told.offset)
        with self.mode:
            if isinstance(offset, int) and offset == 0:
                return torch.empty_strided(shape, strides, dtype=told.dtype, device=told.device)
            is_empty = any(isinstance(length, int) and length == 0 for length in shape)
            reach = 0 if is_empty else sum((length - 1) * stride for length, stride in zip(shape, strides))
            return torch.empty((offset + reach + 1,), dtype=told.dtype, device=told.device).as_strided(shape, strides, offset)
