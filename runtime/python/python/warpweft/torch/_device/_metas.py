"""What ATen's meta functions say of a call: types, shapes and strides of its results, and whether it is allowed at all. Kept by the kind of arguments."""

from __future__ import annotations

import functools
from typing import Any, Callable, Optional, cast

import torch

from warpweft.torch._backwards import entries
from warpweft.torch._device._memory import is_ours

_known: dict[Any, Any] = {}
_MOST = 20_000


class Meta:
    """A call in metas: its arguments, and what it gives."""

    __slots__ = ("args", "kwargs", "out")

    def __init__(self, args: Any, kwargs: Any, out: Any) -> None:
        self.args, self.kwargs, self.out = args, kwargs, out


def mapped(change: Callable[[Any], Any], value: Any) -> Any:
    """The arguments of a call, or one of them, with each leaf changed; an op takes lists, and no other trees."""
    if isinstance(value, (list, tuple)):
        return [mapped(change, item) for item in value]
    if isinstance(value, dict):
        return {name: mapped(change, item) for name, item in value.items()}
    return change(value)


def leaves(args: Any, kwargs: Any) -> list[Any]:
    """All tensors among the arguments of a call."""
    found: list[Any] = []
    for value in (*args, *kwargs.values()):
        if isinstance(value, (list, tuple)):
            found.extend(leaves(value, {}))
        elif isinstance(value, torch.Tensor):
            found.append(value)
    return found


def meta_of(value: Any) -> Any:
    """An argument without elements."""
    if isinstance(value, torch.device):
        return torch.device("meta")
    if not isinstance(value, torch.Tensor):
        return value
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")


def key_of(value: Any, numbers: bool) -> Any:
    """What of an argument metas depend on; any float is one where `numbers` do not count."""
    if isinstance(value, torch.Tensor):
        return (value.dtype, value.shape, value.stride(), value.device.type)
    if isinstance(value, (list, tuple)):
        return tuple(key_of(item, numbers) for item in value)
    return float if isinstance(value, float) and not numbers else (type(value), value)


_INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.uint16, torch.uint32)


@functools.cache
def _tensor_positions(op: Any) -> frozenset[int]:
    return frozenset(number for number, argument in enumerate(op._schema.arguments) if str(argument.type) in ("Tensor", "Optional[Tensor]"))


def with_tensors(op: Any, args: Any) -> Any:
    """Arguments with tensors where an op wants such and a number of Python came; in the type that it has beside the first tensor."""
    positions = _tensor_positions(op)
    if not any(isinstance(value, (int, float, complex)) for position, value in enumerate(args) if position in positions):
        return args
    first = next((value for value in args if isinstance(value, torch.Tensor)), None)

    def tensor(value: Any) -> torch.Tensor:
        kind = None if first is None else torch.result_type(first, value)
        if kind in _INTEGERS and first is not None:
            # A number beyond what the type holds counts as it is beside a tensor that has axes.
            found = torch.tensor(value)
            return found if first.ndim else found.to(kind)
        return torch.tensor(value, dtype=kind)

    return [tensor(value) if at in positions and isinstance(value, (int, float, complex)) else value for at, value in enumerate(args)]


def _called(op: Any, args: Any, kwargs: Any) -> Any:
    """What the meta function gives; where PyTorch has none, what the op gives that is taken apart here."""
    if op is torch.ops.aten.native_dropout_backward.default:
        # Its meta has rows whatever the strides of its arguments, and kernels on the CPU have those of a product.
        return args[0] * args[1]
    try:
        return op(*args, **kwargs)
    except NotImplementedError:
        how = entries().get(op)
        if how is None:
            raise
        return how(*args, **kwargs)


def call(op: Any, args: Any, kwargs: Any) -> Optional[Meta]:
    """What the metas say; none where there are none, or where they refuse the call."""
    try:
        numbers = torch.Tag.pointwise not in op.tags
        key = (op, key_of(args, numbers), tuple((name, key_of(value, numbers)) for name, value in kwargs.items()))
        found = _known.get(key, _known)
    except TypeError:
        return None
    if found is not _known:
        return cast(Optional[Meta], found)
    try:
        metas = mapped(meta_of, args), mapped(meta_of, kwargs)
        found = Meta(*metas, _called(op, with_tensors(op, metas[0]), metas[1]))
    except Exception:
        # Whoever runs it says why.
        found = None
    if len(_known) > _MOST:
        _known.clear()
    _known[key] = found
    return cast(Optional[Meta], found)


def is_plain(value: Any) -> bool:
    """Whether a tensor is of the device and shows elements as they are stored."""
    return is_ours(value) and not value.is_conj() and not value.is_neg() and value.layout == torch.strided
