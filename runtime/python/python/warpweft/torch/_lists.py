"""Ops over lists of tensors (`_foreach_add`), as optimizers have them: each is the op of single tensors, once for every position of the lists.

Tests: tests/test_programs.py (`compiled_optimizers`, `lists`).
"""

from __future__ import annotations

from functools import partial
from typing import Any, Callable

PREFIX = "_foreach_"


def entries() -> dict[Any, Callable[..., Any]]:
    """For each op that changes nothing what takes it apart."""
    import torch

    found: dict[Any, Callable[..., Any]] = {}
    for name in dir(torch.ops.aten):
        base = name.removeprefix(PREFIX)
        if base == name or base.endswith("_"):
            continue
        packet, single = getattr(torch.ops.aten, name), _single(base)
        if single is None:
            continue
        for overload in packet.overloads():
            op = getattr(packet, overload)
            if not any(argument.is_out for argument in op._schema.arguments):
                found[op] = partial(each, op, single)
    return found


def _single(base: str) -> Any:
    """The op of single tensors, as a function of the same arguments."""
    import torch

    own: dict[str, Callable[..., Any]] = {
        "addcmul": lambda x, a, b, value=1: x + value * (a * b) if isinstance(value, torch.Tensor) else torch.addcmul(x, a, b, value=value),
        "addcdiv": lambda x, a, b, value=1: x + value * (a / b) if isinstance(value, torch.Tensor) else torch.addcdiv(x, a, b, value=value),
        "maximum": lambda x, bound: torch.maximum(x, bound) if isinstance(bound, torch.Tensor) else x.clamp_min(bound),
        "minimum": lambda x, bound: torch.minimum(x, bound) if isinstance(bound, torch.Tensor) else x.clamp_max(bound),
        "norm": lambda x, ord=2, dtype=None: torch.linalg.vector_norm(x, ord, dtype=dtype),
        "max": torch.amax,
        "copy": lambda x, source, non_blocking=False: torch.ops.aten.copy(x, source),
        "zero": torch.zeros_like,
        "add": lambda x, other, *, alpha=1: torch.add(x, other, alpha=alpha) if alpha != 1 else torch.add(x, other),
        "sub": lambda x, other, *, alpha=1: torch.sub(x, other, alpha=alpha) if alpha != 1 else torch.sub(x, other),
        "clone": lambda x, memory_format=None: x.clone(),
    }
    return own.get(base) or getattr(torch, base, None)


def each(op: Any, single: Callable[..., Any], *args: Any, **kwargs: Any) -> list[Any]:
    """One result for each position; what is no list goes to all of them."""
    import torch

    kinds = {argument.name: str(argument.type) for argument in op._schema.arguments}
    given = dict(zip(kinds, args), **kwargs)
    count = next(len(value) for name, value in given.items() if kinds[name] == "List[Tensor]")
    # Numbers for each position may come as a tensor.
    numbers = {name for name in given if name == "scalars" and isinstance(given[name], torch.Tensor)}
    lists = {name for name in given if kinds[name].startswith("List[")} | numbers
    named = {argument.name for argument in op._schema.arguments if argument.kwarg_only}

    def part(name: str, index: int) -> Any:
        return given[name][index] if name in lists else given[name]

    return [
        single(*(part(name, index) for name in given if name not in named), **{name: part(name, index) for name in given if name in named})
        for index in range(count)
    ]
