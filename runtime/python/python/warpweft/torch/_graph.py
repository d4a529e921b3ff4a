"""A graph of ATen ops as compiled functions, with PyTorch between them where an op is not ours.

Nodes get *levels*: along each path through the graph the level rises where it enters or leaves what is ours. The nodes of one level that are
ours become one function, the others are run by PyTorch in their order; no path leads from a level to itself through
another, so levels run one after another. Without an op of PyTorch's there is one level and one function.

A graph is compiled when it is called. Symbolic lengths become variables with bounds (`_shapes`); where an op needs numbers, they are those that the graph
is called with, and others compile it again. A builder that refuses its arguments then makes its node PyTorch's, and the graph is cut anew.
"""

from __future__ import annotations

import threading
from typing import Any, Optional

import torch
from torch.utils.dlpack import from_dlpack, to_dlpack  # type: ignore[attr-defined]

import warpweft as ww
from warpweft.torch import _aliases, _calls, _counters, _ops
from warpweft.torch._device import _memory
from warpweft.torch._shapes import Known, Shapes, Symbolic, empty_of, hints, is_empty
from warpweft.torch._table import COMPLEX, TABLE, Context, Pair, Unsupported, dtype_of, moved

_ops.load()


# Types of complex numbers, which are pairs of these.
_COMPLEX = {torch.complex64: ww.float32, torch.complex128: ww.float64}


class Refused(Exception):
    """A node that cannot be built, and why."""

    def __init__(self, node: Any, why: str) -> None:
        super().__init__(f"{node}: {why}")
        self.node, self.why = node, why


def _values(node: Any) -> list[Any]:
    """What a node's meta says of its results."""
    value = node.meta.get("val")
    return list(value) if isinstance(value, (tuple, list)) else [value]


def _is_number(node: Any) -> bool:
    """Whether a node is a number of the host: a length, or arithmetic on lengths."""
    return all(isinstance(value, (int, float, bool, torch.SymInt, torch.SymFloat, torch.SymBool)) for value in _values(node))


def _op_of(node: Any) -> Any:
    """The op that a node calls, also where it is called by another that keeps the state of random numbers around it."""
    inside = (value for value in node.args if isinstance(value, torch._ops.OpOverload))
    return next(inside, node.target) if isinstance(node.target, torch._ops.HigherOrderOperator) else node.target


def _is_random(node: Any) -> bool:
    return torch.Tag.nondeterministic_seeded in getattr(_op_of(node), "tags", ())


def _unknown(node: Any) -> Optional[str]:
    """Why a node cannot be ours, whatever its arguments; none where it may be."""
    if node.target not in TABLE:
        return "it draws random numbers" if _is_random(node) else "it is not in the table"
    for value in [*_values(node), *(value for source in node.all_input_nodes for value in _values(source))]:
        if not isinstance(value, torch.Tensor):
            continue
        if value.device.type not in ("cpu", "warpweft"):
            return f"a tensor is on {value.device}"
        if value.layout != torch.strided:
            return f"a tensor is {value.layout}"
        try:
            if value.dtype not in _COMPLEX or node.target not in COMPLEX:
                dtype_of(value.dtype)
        except Unsupported as refusal:
            return str(refusal)
    return None


def _result(value: Any, meta: Any) -> Any:
    """What a builder gave, in the type that the meta says; refused where it has another shape."""
    if isinstance(value, (tuple, list)):
        return tuple(_result(part, of) for part, of in zip(value, meta))
    if isinstance(meta, torch.Tensor) and meta.dtype in _COMPLEX:
        return _complex_result(value, meta)
    if is_empty(meta):
        return ww.zeros(tuple(meta.shape), dtype=dtype_of(meta.dtype))
    if not isinstance(value, ww.Tensor) or not isinstance(meta, torch.Tensor):
        return value
    shape = tuple(meta.shape)
    if all(isinstance(length, int) for length in shape) and value.shape != shape:
        raise Unsupported(f"it would have the shape {value.shape} and not {shape}")
    return moved(value, dtype_of(meta.dtype))


def _complex_result(value: Any, meta: Any) -> Pair:
    """As `_result`, of complex numbers."""
    if isinstance(value, (int, float, complex)):
        value = Pair(*(ww.full(tuple(meta.shape), part, dtype=_COMPLEX[meta.dtype]) for part in (complex(value).real, complex(value).imag)))
    parts = (value.re, value.im) if isinstance(value, Pair) else (ww.zeros(tuple(meta.shape)),) * 2
    if not isinstance(value, Pair) and not is_empty(meta) or any(part.shape != tuple(meta.shape) for part in parts):
        raise Unsupported(f"it would not be complex numbers of the shape {tuple(meta.shape)}")
    return Pair(*(moved(part, _COMPLEX[meta.dtype]) for part in parts))


def _shared(tensor: Any) -> Any:
    """A tensor of PyTorch's as a capsule; complex numbers with a last axis of two."""
    tensor = _memory.host_of(tensor) if _memory.is_ours(tensor) else tensor
    tensor = tensor.resolve_neg() if tensor.is_neg() else tensor
    # Zeros of autograd's, which have no memory.
    tensor = tensor.clone() if tensor._is_zerotensor() else tensor
    return to_dlpack(torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor)


def _spec(tensor: Any, order: list[int]) -> Any:
    """Its type and shape as an argument whose axes are given in this order."""
    shape = tuple(tensor.shape[axis] for axis in order) if order else tuple(tensor.shape)
    return (_COMPLEX[tensor.dtype], (*shape, 2)) if tensor.dtype in _COMPLEX else (dtype_of(tensor.dtype), shape)


def _order(meta: Any, rank: int) -> list[int]:
    """The axes of a result in the order in which they lie in memory, as the meta's strides say where elements are dense."""
    plain = list(range(rank))
    if not isinstance(meta, torch.Tensor) or meta.ndim != rank:
        return plain
    shape, strides = hints(meta.shape), hints(meta.stride())
    if shape is None or strides is None:
        return plain
    order = sorted(plain, key=lambda axis: (-strides[axis], axis))
    dense = 1
    for axis in reversed(order):
        if shape[axis] != 1 and strides[axis] != dense:
            return plain
        dense *= shape[axis]
    return order


def _moved(order: list[int]) -> list[int]:
    """The order, or none where the axes stay in their order."""
    return order if order != sorted(order) else []


def _inverse(order: list[int]) -> list[int]:
    return [order.index(axis) for axis in range(len(order))]


class Part:
    """Nodes that become one function."""

    def __init__(self, nodes: list[Any], inputs: list[Any], outputs: list[Any]) -> None:
        self.nodes, self.inputs, self.outputs = nodes, inputs, outputs
        self.function: Optional[ww.Function] = None
        self.tensors: list[Any] = []
        self.results: list[Any] = []
        # How the axes of each argument lay in memory when the function was made, where that is not one behind the other: so they are given, and nothing is copied.
        self.given: list[list[int]] = []
        # How the axes of each result lie in memory; none of complex ones.
        self.orders: list[Optional[list[int]]] = []
        self.complex: list[bool] = []
        self.on_device: list[bool] = []
        self.numbers: dict[Any, Any] = {}
        self.is_of_numbers = False
        self.known = Known(None, {})

    def build(self, values: dict[Any, Any], known: Known) -> None:
        """Compiles the function for arguments of these types and shapes, of which more may be known than these values are."""
        self.known = known
        self.is_of_numbers = all(map(_is_number, self.nodes))
        if self.is_of_numbers:
            return
        self.tensors = [node for node in self.inputs if isinstance(values[node], torch.Tensor)]
        told = {node: known(node.meta.get("val")) for node in self.inputs} if known.variables else {}
        plain = [not (values[node].dtype in _COMPLEX or _memory.is_ours(values[node])) for node in self.tensors]
        self.given = [_moved(_order(values[node], values[node].ndim)) if is_plain else [] for node, is_plain in zip(self.tensors, plain)]
        specs = [_spec(told[node] if isinstance(told.get(node), Symbolic) else values[node], order) for node, order in zip(self.tensors, self.given)]
        self.complex = [values[node].dtype in _COMPLEX for node in self.tensors]
        others = [node for node in self.inputs if not isinstance(values[node], torch.Tensor)]
        fixed = {node: told[node] if isinstance(node.meta.get("val"), torch.SymInt) and told else values[node] for node in others}
        self.function = ww.Function(lambda arguments: self._trace(arguments, dict(fixed)), specs, list((known.variables or {}).values()))
        self.on_device = [node.meta["val"].device.type == "warpweft" for node in self.results]
        _counters.compiled()

    def _trace(self, arguments: list[ww.Tensor], values: dict[Any, Any]) -> list[ww.Tensor]:
        for node, argument, is_complex, order in zip(self.tensors, arguments, self.complex, self.given):
            argument = argument.permute(_inverse(order)) if order else argument
            values[node] = Pair(argument[..., 0], argument[..., 1]) if is_complex else argument
        for node in self.nodes:
            is_length = bool(self.known.variables) and isinstance(node.meta.get("val"), torch.SymInt)
            values[node] = self.known(node.meta["val"]) if is_length else build_node(node, values, self.known)
        results = []
        for node in self.outputs:
            value = values[node]
            if isinstance(value, Pair):
                self.results.append(node)
                self.orders.append(None)
                results.append(ww.stack([value.re, value.im], -1))
                continue
            if not isinstance(value, ww.Tensor):
                self.numbers[node] = value
                continue
            order = _moved(_order(node.meta.get("val"), value.ndim))
            self.results.append(node)
            self.orders.append(_inverse(order))
            results.append(value.permute(order) if order else value)
        return results

    def run(self, values: dict[Any, Any], symbols: dict[Any, int]) -> None:
        """Calls the function, and puts what it gives beside the other values."""
        if self.is_of_numbers:
            for node in self.nodes:
                values[node] = node.target(*_resolved(node.args, values), **_resolved(node.kwargs, values))
            return
        values.update(
            {node: self.known.number(node.meta["val"], symbols) for node in self.numbers} if self.known.variables else self.numbers
        )
        if not self.results or self.function is None:
            return
        arguments = [values[node] for node in self.tensors]
        capsules = [_shared(tensor.permute(order) if order else tensor) for tensor, order in zip(arguments, self.given)]
        found = self.function.call_arrays(capsules, self.known.bound(symbols))
        for node, order, is_there, capsule in zip(self.results, self.orders, self.on_device, found):
            if is_empty(node.meta["val"]):
                result = empty_of(node.meta["val"])
            else:
                result = from_dlpack(capsule)
                result = torch.view_as_complex(result) if order is None else result.permute(order) if order else result
            values[node] = _memory.adopted(result, {}) if is_there else result


def _resolved(argument: Any, values: dict[Any, Any]) -> Any:
    return torch.fx.node.map_arg(argument, lambda node: values[node])


def build_node(node: Any, values: dict[Any, Any], known: Known) -> Any:
    """A node of tensors of Warpweft, or a number."""
    args, kwargs = _resolved(node.args, values), _resolved(node.kwargs, values)
    try:
        if node.target in TABLE:
            meta = known(node.meta.get("val"))
            metas = torch.fx.node.map_arg(node.args, lambda source: known(source.meta.get("val")))
            named = torch.fx.node.map_arg(node.kwargs, lambda source: known(source.meta.get("val")))
            if is_empty(meta) or isinstance(meta, (tuple, list)) and meta and all(map(is_empty, meta)):
                return _result([None] * len(meta) if isinstance(meta, (tuple, list)) else ww.zeros(0), meta)
            return _result(TABLE[node.target](Context(meta, metas, named, _used(node)), *args, **kwargs), meta)
        return node.target(*args, **kwargs)
    except (Unsupported, ValueError, IndexError, TypeError, RuntimeError, OverflowError, NotImplementedError, AttributeError) as error:
        raise Refused(node, f"{error}") from error


def _used(node: Any) -> frozenset[int]:
    """The numbers of a node's results that are read."""
    return (
        frozenset(user.args[1] for user in node.users if getattr(user.target, "__name__", "") == "getitem")
        if node.op == "call_function"
        else frozenset()
    )


class Graph:
    """A graph of ATen ops that is compiled for each kind of arguments that it is called with."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.nodes = list(module.graph.nodes)
        self.placeholders = [node for node in self.nodes if node.op == "placeholder"]
        self.calls = [node for node in self.nodes if node.op == "call_function"]
        self.constants = {node: _attribute(module, node.target) for node in self.nodes if node.op == "get_attr"}
        (self.output,) = [node for node in self.nodes if node.op == "output"]
        self.refused: dict[Any, str] = {}
        self.plans: dict[Any, list[Any]] = {}
        # Of variables, with what is known of these.
        self.flexible: list[tuple[Known, list[Any]]] = []
        # The shortest way, where the graph is one function.
        self.direct: Any = None
        # The same, of variables: one for each range of lengths.
        self.runs: list[Any] = []
        self.lock = threading.RLock()
        # Where all lengths are numbers, who calls the graph has seen to it that they are those.
        self.is_static = all(_is_static(node.meta.get("val")) for node in self.placeholders)
        self.shapes = None if self.is_static else Shapes(self.placeholders)
        # Whether an op needs numbers.
        self.is_fixed = not (self.shapes and self.shapes.sources)
        for node in self.calls:
            why = None if _is_number(node) or node.target.__name__ == "getitem" else _unknown(node)
            if why is not None:
                self.refused[node] = why
        if any(free_unbacked(node) or _looks_at_values(node) for node in self.nodes):
            self.refused = {node: "numbers of the graph depend on values of tensors" for node in self.calls}
        for node, why in (_aliases.on_roots(self.calls) | _aliases.over_strides(self.calls)).items():
            self.refused.setdefault(node, why)
        # Outputs that are made of others by views, and the views that are for those alone.
        self.replayed: dict[Any, tuple[Any, list[Any]]] = {}
        self.unread: set[Any] = set()
        self._find_views()
        for node, why in self.refused.items():
            if node not in self.unread:
                self._tell(node, why)
        for node in self.calls:
            if _is_uninitialized(node) and all(user in self.refused for user in node.users):
                self.refused[node] = "it is memory for an op of PyTorch's"

    def _find_views(self) -> None:
        """Looks which outputs are made by views, of what is refused now."""
        self.replayed = _aliases.replayed(self.output.args[0], self.refused)
        self.unread = _aliases.unread(self.calls, self.replayed, self.output)

    @staticmethod
    def _tell(node: Any, why: str) -> None:
        if node.target.__name__ != "getitem" and not _is_check(node) and not (_is_number(node) and not _looks_at_values(node)):
            _counters.fell_back(str(_op_of(node)), why)

    def __call__(self, *args: Any) -> Any:
        return self._general(args) if self.direct is None else self.direct(args)

    def _by_lengths(self, args: Any) -> Any:
        """The shortest way for lengths that are variables."""
        for run in self.runs:
            found = run(args)
            if found is not None:
                return found
        return self._general(args)

    def _general(self, args: Any) -> Any:
        symbols = self.shapes.values(args) if self.shapes is not None else {}
        key = None if self.is_static else tuple(map(_kind, args))
        plan = next((plan for known, plan in self.flexible if known.admits(symbols)), None) or self.plans.get(key)
        if plan is None:
            with self.lock:
                return self._first(key, args, symbols)
        return self._outputs(self._carried_out(plan, args, symbols))

    def _carried_out(self, plan: list[Any], args: Any, symbols: dict[Any, int], known: Optional[Known] = None) -> dict[Any, Any]:
        """All values of a call; parts are compiled before they run where something is known."""
        values = dict(zip(self.placeholders, args))
        values.update(self.constants)
        for step in plan:
            if known is not None and isinstance(step, Part):
                step.build(values, known)
            self._run(step, values, symbols)
        return values

    def _first(self, key: Any, args: Any, symbols: dict[Any, int]) -> Any:
        """Runs the graph while its parts are compiled; where a node is refused, from the start."""
        state = torch.get_rng_state() if any(map(_is_random, self.calls)) else None
        if not self.is_fixed and self.shapes is not None:
            try:
                known, plan = Known(self.shapes, symbols, self.shapes.variables(symbols)), self._cut()
                values = self._carried_out(plan, args, symbols, known)
                self.flexible.append((known, plan))
                run = _calls.direct(self, plan[0], args, known) if len(plan) == 1 and isinstance(plan[0], Part) else None
                if run is not None:
                    self.runs.append(run)
                    self.direct = self._by_lengths
                return self._outputs(values)
            except (Refused, Unsupported, ValueError, TypeError, RuntimeError) as refusal:
                _counters.fixed(refusal)
                self.is_fixed = isinstance(refusal, Refused)
                if state is not None:
                    torch.set_rng_state(state)
        while True:
            plan = self._cut()
            try:
                values = self._carried_out(plan, args, symbols, Known(self.shapes, symbols))
                self.plans[key] = plan
                results = self._outputs(values)
                if key is None and len(plan) == 1 and isinstance(plan[0], Part):
                    self.direct = _calls.direct(self, plan[0], args, plan[0].known)
                return results
            except Refused as refusal:
                self.refused[refusal.node] = refusal.why
                self._tell(refusal.node, refusal.why)
                if state is not None:
                    torch.set_rng_state(state)

    def _run(self, step: Any, values: dict[Any, Any], symbols: dict[Any, int]) -> None:
        if isinstance(step, Part):
            step.run(values, symbols)
        else:
            values[step] = step.target(*_resolved(step.args, values), **_resolved(step.kwargs, values))

    def _outputs(self, values: dict[Any, Any]) -> Any:
        for _, chain in self.replayed.values():
            for node in chain:
                values[node] = node.target(*_resolved(node.args, values), **_resolved(node.kwargs, values))
        return _resolved(list(self.output.args[0]), values)

    def _cut(self) -> list[Any]:
        """Parts and nodes of PyTorch's in the order in which they run."""
        self._find_views()
        calls = [node for node in self.calls if node not in self.unread]
        levels: dict[Any, int] = {}
        random_level = 0
        for node in calls:
            is_ours = node not in self.refused and not self._is_part_of_refused(node)
            level = 0
            for source in node.all_input_nodes:
                if source in levels:
                    differs = (levels[source] % 2 == 0) != is_ours
                    level = max(level, levels[source] + differs)
            if level % 2 == (0 if not is_ours else 1):
                level += 1
            if _is_random(node):
                level = random_level = max(level, random_level)
            levels[node] = level
        # What raises, and gives nothing that is read, does so behind all functions.
        behind = max((level + 1 for level in levels.values() if level % 2 == 0), default=1)
        levels.update({node: behind for node in calls if node in self.refused and _is_check(node) and not node.users})
        self._delay(levels)
        users: dict[Any, set[Any]] = {}
        for node in self.nodes:
            for source in node.all_input_nodes:
                for read in _aliases.needed(self.replayed, source) if node is self.output else [source]:
                    users.setdefault(read, set()).add(node)
        plan: list[Any] = []
        for level in sorted(set(levels.values())):
            nodes = [node for node in calls if levels[node] == level]
            if level % 2 == 1:
                plan.extend(nodes)
                continue
            inside = set(nodes)
            inputs = list(dict.fromkeys(source for node in nodes for source in node.all_input_nodes if source not in inside))
            outputs = [node for node in nodes if not users.get(node, set()) <= inside]
            plan.append(Part(nodes, inputs, self._leaves(outputs)))
        return plan

    def _delay(self, levels: dict[Any, int]) -> None:
        """Raises nodes that are ours to the level where they are first needed, so that what need not be before an op of PyTorch's is one function with what is behind."""
        last = max((level for level in levels.values() if level % 2 == 0), default=0)
        for node in reversed(self.calls):
            if node in levels and levels[node] % 2 == 0:
                levels[node] = min((levels[user] - levels[user] % 2 for user in node.users if user in levels), default=last)
                # Results of several stay with what gives them.
                levels.update({user: levels[node] for user in node.users if isinstance(node.meta.get("val"), (tuple, list))})

    def _is_part_of_refused(self, node: Any) -> bool:
        """Whether a node takes one of the results of a node of PyTorch's."""
        return node.target.__name__ == "getitem" and node.args[0] in self.refused

    @staticmethod
    def _leaves(outputs: list[Any]) -> list[Any]:
        return [node for node in outputs if not isinstance(node.meta.get("val"), (tuple, list))]


def _is_uninitialized(node: Any) -> bool:
    """Whether a node makes memory without values."""
    return getattr(node.target, "overloadpacket", None) in (
        torch.ops.aten.empty,
        torch.ops.aten.empty_strided,
        torch.ops.aten.empty_permuted,
    )


def _kind(value: Any) -> Any:
    """What of an argument a compiled function depends on."""
    return (tuple(value.shape), value.dtype) if isinstance(value, torch.Tensor) else (type(value), value)


def _is_static(meta: Any) -> bool:
    """Whether an argument is a tensor of one shape."""
    return isinstance(meta, torch.Tensor) and all(isinstance(length, int) for length in meta.shape)


def _attribute(module: Any, path: str) -> Any:
    for name in path.split("."):
        module = getattr(module, name)
    return module


_CHECKS = {torch.ops.aten._linalg_check_errors.default, torch.ops.aten._assert_async.default, torch.ops.aten._assert_async.msg}


def _is_check(node: Any) -> bool:
    """Whether a node raises where a factorisation failed or a number is not as it must be, and gives no value: PyTorch does that behind the function."""
    return (node.args[1] if node.target.__name__ == "with_effects" else node.target) in _CHECKS


def _looks_at_values(node: Any) -> bool:
    """Whether a node is a number that comes from the elements of a tensor, and so may be another at the next call."""
    if node.op != "call_function" or not _is_number(node) or getattr(node.target, "__name__", "").startswith("sym_"):
        return False
    return any(isinstance(value, torch.Tensor) for source in node.all_input_nodes for value in _values(source))


def free_unbacked(node: Any) -> bool:
    """Whether a length of a node depends on values of tensors."""
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

    values = [value for value in _values(node) if isinstance(value, (torch.Tensor, torch.SymInt, torch.SymFloat, torch.SymBool))]
    return any(bool(free_unbacked_symbols(value)) for value in values)
