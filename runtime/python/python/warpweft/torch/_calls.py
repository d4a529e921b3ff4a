"""Calls of a graph that is one function: the shortest way from tensors of PyTorch to tensors of PyTorch.

Which argument goes where is worked out once. Tensors that are parameters are bound: their memory is shared with the function when it is first called, and again only where a
parameter is another object or has other memory; so what an optimizer writes in place is what the next call reads. The others cross by DLPack at each call.

Always: `direct` gives none where anything but that is to be done: an op of PyTorch's, numbers, tensors of the device, complex or negated ones. Then the graph's own way is taken.
Tests: tests/test_torch.py.
"""

from __future__ import annotations

import weakref
from typing import Any, Callable, Optional, Sequence

import torch
from torch._C import _from_dlpack, _to_dlpack

import warpweft as ww


class Bound:
    """A parameter, and the tensor that shares its memory."""

    __slots__ = ("position", "place", "parameter", "address", "tensor")

    def __init__(self, position: int, place: int, parameter: Any) -> None:
        # Which argument of the function it is, and which of the graph.
        self.position, self.place = position, place
        self.bind(parameter)

    def bind(self, parameter: Any) -> None:
        """Shares the memory that the parameter has now, and does not keep the parameter."""
        # The tensor is dropped with the parameter, so that its memory is free then. A capsule of the parameter itself would keep it.
        self.parameter: Any = weakref.ref(parameter, self._forget)
        self.address = parameter.data_ptr()
        self.tensor: Any = ww.from_dlpack(_to_dlpack(parameter.detach()))

    def _forget(self, ended: Any) -> None:
        if ended is self.parameter:
            self.tensor = None


def _is_plain(tensor: Any) -> bool:
    return (
        isinstance(tensor, torch.Tensor)
        and tensor.device.type == "cpu"
        and not (tensor.is_complex() or tensor.is_neg() or tensor.is_conj())
    )


def _result_of(node: Any, part: Any, places: dict[Any, int]) -> Optional[tuple[int, int, list[int]]]:
    """Where an output of the graph comes from: the number of a result of the function, or else of an argument; and its order of axes."""
    if node in part.results:
        number = part.results.index(node)
        order = part.orders[number]
        is_ours = order is not None and node.meta["val"].device.type == "cpu"
        return (number, -1, order) if is_ours else None
    return (-1, places[node], []) if node in places else None


def direct(graph: Any, part: Any, args: Sequence[Any]) -> Optional[Callable[[Sequence[Any]], list[Any]]]:
    """A function over the arguments of a graph that is this one part and was called with these; none where there is more to do."""
    places = {node: place for place, node in enumerate(graph.placeholders)}
    if part.function is None or any(part.complex) or part.numbers or not part.results:
        return None
    if not all(node in places and _is_plain(args[places[node]]) for node in part.tensors):
        return None
    if len(part.tensors) != len(part.inputs):
        return None
    found = [_result_of(node, part, places) for node in graph.output.args[0]]
    if not all(found):
        return None
    sources: list[Any] = found
    is_bound = [isinstance(args[places[node]], torch.nn.Parameter) for node in part.tensors]
    bound = [Bound(position, places[node], args[places[node]]) for position, node in enumerate(part.tensors) if is_bound[position]]
    free = [(position, places[node]) for position, node in enumerate(part.tensors) if not is_bound[position]]
    call_arrays, blank = part.function.call_arrays, [None] * len(part.tensors)
    is_simple = sources == [(number, -1, []) for number in range(len(part.results))]

    def run(args: Sequence[Any]) -> list[Any]:
        given: list[Any] = blank.copy()
        for position, place in free:
            given[position] = _to_dlpack(args[place])
        for one in bound:
            parameter = args[one.place]
            if parameter is not one.parameter() or parameter.data_ptr() != one.address:
                one.bind(parameter)
            given[one.position] = one.tensor
        results = [_from_dlpack(capsule) for capsule in call_arrays(given)]
        if is_simple:
            return results
        return [
            args[place] if number < 0 else results[number].permute(order) if order else results[number] for number, place, order in sources
        ]

    return run
