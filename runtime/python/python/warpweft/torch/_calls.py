"""Calls of a graph that is one function: the shortest way from tensors of PyTorch to tensors of PyTorch.

Which argument goes where is worked out once. Tensors that are parameters are bound: their memory is shared with the function when it is first called, and again only where a
parameter is another object or has other memory; so what an optimizer writes in place is what the next call reads. The others cross by DLPack at each call.

Always: `direct` gives none where anything but that is to be done: an op of PyTorch's, tensors of the device, complex or negated ones. Then the graph's own way is taken.
Tests: tests/test_torch.py, tests/test_lengths.py.
"""

from __future__ import annotations

import weakref
from typing import Any, Callable, Optional, Sequence

import torch
from torch._C import _from_dlpack, _to_dlpack

import warpweft as ww
from warpweft.torch._shapes import empty_of, is_empty

# Makes an output of the arguments of a graph, the results of its function, and the variables with their values.
Source = Callable[[Sequence[Any], Sequence[Any], Sequence[Any]], Any]


class Bound:
    """A parameter, and the tensor that shares its memory."""

    __slots__ = ("position", "slot", "order", "parameter", "address", "tensor")

    def __init__(self, position: int, slot: int, order: Sequence[int], parameter: Any) -> None:
        # Which argument of the function it is, and which of the graph; the order of its axes in memory, if that is another.
        self.position, self.slot, self.order = position, slot, order
        self.bind(parameter)

    def bind(self, parameter: Any) -> None:
        """Shares the memory that the parameter has now, and does not keep the parameter."""
        # The tensor is dropped with the parameter, so that its memory is free then. A capsule of the parameter itself would keep it.
        self.parameter: Any = weakref.ref(parameter, self._forget)
        self.address = parameter.data_ptr()
        value = parameter.detach()
        self.tensor: Any = ww.from_dlpack(_to_dlpack(value.permute(self.order) if self.order else value))

    def _forget(self, ended: Any) -> None:
        if ended is self.parameter:
            self.tensor = None


def _is_plain(tensor: Any) -> bool:
    return (
        isinstance(tensor, torch.Tensor)
        and tensor.device.type == "cpu"
        and not (tensor.is_complex() or tensor.is_neg() or tensor.is_conj())
    )


def _result_of(node: Any, part: Any, slots: dict[Any, int], known: Any) -> Optional[Source]:
    """Where an output of the graph comes from, and how it is made of that; none where that takes more than a call."""
    if node in part.results and is_empty(node.meta["val"]):
        meta = node.meta["val"]
        return (lambda args, results, lengths: empty_of(meta)) if meta.device.type == "cpu" else None
    if node in part.results:
        number = part.results.index(node)
        order = part.orders[number]
        if order is None or node.meta["val"].device.type != "cpu":
            return None
        if not order:
            return lambda args, results, lengths: results[number]
        return lambda args, results, lengths: results[number].permute(order)
    if node in part.numbers:
        number_of = known.reader(node.meta["val"])
        return lambda args, results, lengths: number_of(lengths)
    if node not in slots:
        return None
    slot = slots[node]
    return lambda args, results, lengths: args[slot]


def _view_of(node: Any, chain: Sequence[Any], source_of: Callable[[Any], Optional[Source]]) -> Optional[Source]:
    """Views called one on the other, on what is at their root."""
    sources: dict[Any, Optional[Source]] = {}
    for part in chain:
        given = {source: sources[source] if source in sources else source_of(source) for source in part.all_input_nodes}
        sources[part] = _called(part, given) if all(given.values()) else None
    return sources[node]


def _called(node: Any, given: dict[Any, Any]) -> Source:
    target, plain = node.target, not node.kwargs and list(given) == [node.args[0]]
    first, rest = given.get(node.args[0]), node.args[1:]
    if plain and first is not None:
        return lambda args, results, lengths: target(first(args, results, lengths), *rest)

    def call(args: Sequence[Any], results: Sequence[Any], lengths: Sequence[Any]) -> Any:
        def value(source: Any) -> Any:
            return given[source](args, results, lengths)

        return target(*torch.fx.node.map_arg(node.args, value), **torch.fx.node.map_arg(node.kwargs, value))

    return call


def _is_whole(graph: Any, part: Any, args: Sequence[Any], slots: dict[Any, int], known: Any) -> bool:
    """Whether all that the function takes are arguments of the graph that are plain tensors, or lengths that are its variables."""
    if part.function is None or any(part.complex) or part.numbers and not known.variables or not part.results:
        return False
    others = [node for node in part.inputs if node not in part.tensors]
    lengths_are_known = all(known.variables and isinstance(node.meta.get("val"), torch.SymInt) for node in others)
    return lengths_are_known and all(node in slots and _is_plain(args[slots[node]]) for node in part.tensors)


def direct(graph: Any, part: Any, args: Sequence[Any], known: Any) -> Optional[Callable[[Sequence[Any]], Optional[list[Any]]]]:
    """A function over the arguments of a graph that is this one part and was called with these; none where there is more to do.

    Where lengths are variables, it gives none for those beyond their bounds.
    """
    slots = {node: slot for slot, node in enumerate(graph.placeholders)}
    if not _is_whole(graph, part, args, slots, known):
        return None
    outputs = list(graph.output.args[0])

    def source_of(node: Any) -> Optional[Source]:
        return _view_of(node, graph.replayed[node][1], source_of) if node in graph.replayed else _result_of(node, part, slots, known)

    found = [source_of(node) for node in outputs]
    if not all(found):
        return None
    sources: list[Any] = found
    is_bound = [isinstance(args[slots[node]], torch.nn.Parameter) for node in part.tensors]
    of_tensors = [(position, slots[node], part.given[position]) for position, node in enumerate(part.tensors)]
    bound = [Bound(position, slot, order, args[slot]) for position, slot, order in of_tensors if is_bound[position]]
    free = [(position, slot) for position, slot, order in of_tensors if not is_bound[position] and not order]
    moved = [(position, slot, order) for position, slot, order in of_tensors if not is_bound[position] and order]
    call_arrays, blank = part.function.call_arrays, [None] * len(part.tensors)
    is_simple = outputs == part.results and not any(part.orders) and not any(is_empty(node.meta["val"]) for node in part.results)
    lengths_of = known.lengths()

    # Nothing but tensors that cross: what a small function costs is the way to it.
    if is_simple and not (lengths_of or moved or bound):
        in_order = [slot for _, slot in free]
        none: list[Any] = []

        def run_free(args: Sequence[Any]) -> Optional[list[Any]]:
            return list(map(_from_dlpack, call_arrays([_to_dlpack(args[slot]) for slot in in_order], none)))

        return run_free

    def run(args: Sequence[Any]) -> Optional[list[Any]]:
        lengths: list[Any] = []
        for variable, source, least, most in lengths_of:
            length = source(args)
            if not least <= length <= most:
                return None
            lengths.append((variable, length))
        given: list[Any] = blank.copy()
        for position, slot in free:
            given[position] = _to_dlpack(args[slot])
        for position, slot, order in moved:
            given[position] = _to_dlpack(args[slot].permute(order))
        for one in bound:
            parameter = args[one.slot]
            if parameter is not one.parameter() or parameter.data_ptr() != one.address:
                one.bind(parameter)
            given[one.position] = one.tensor
        results = [_from_dlpack(capsule) for capsule in call_arrays(given, lengths)]
        return results if is_simple else [source(args, results, lengths) for source in sources]

    return run
