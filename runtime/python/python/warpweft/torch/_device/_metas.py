"""What ATen's meta functions say of a call: types, shapes and strides of its results, and whether it is allowed at all. Kept by the kind of arguments."""

from __future__ import annotations

from typing import Any, Optional

import torch
from torch.utils import _pytree as pytree

from warpweft.torch._device._memory import is_ours

_known: dict[Any, Any] = {}
_MOST = 20_000


class Meta:
    """A call in metas: its arguments, and what it gives."""

    __slots__ = ("args", "kwargs", "out")

    def __init__(self, args: Any, kwargs: Any, out: Any) -> None:
        self.args, self.kwargs, self.out = args, kwargs, out


def meta_of(value: Any) -> Any:
    """An argument without elements."""
    if isinstance(value, torch.device):
        return torch.device("meta")
    if not isinstance(value, torch.Tensor):
        return value
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")


def key_of(value: Any) -> Any:
    """What of an argument metas depend on; floats are any."""
    if isinstance(value, torch.Tensor):
        return (value.dtype, value.shape, value.stride(), value.device.type)
    if isinstance(value, (list, tuple)):
        return tuple(map(key_of, value))
    return float if isinstance(value, float) else (type(value), value)


def call(op: Any, args: Any, kwargs: Any) -> Optional[Meta]:
    """What the metas say; none where there are none, or where they refuse the call."""
    try:
        key = (op, key_of(args), tuple((name, key_of(value)) for name, value in kwargs.items()))
        found = _known.get(key, _known)
    except TypeError:
        return None
    if found is not _known:
        return found
    try:
        metas = pytree.tree_map(meta_of, (args, kwargs))
        found = Meta(*metas, op(*metas[0], **metas[1]))
    except Exception:
        # Whoever runs it says why.
        found = None
    if len(_known) > _MOST:
        _known.clear()
    _known[key] = found
    return found


def is_plain(value: Any) -> bool:
    """Whether a tensor is of the device and shows elements as they are stored."""
    return is_ours(value) and not value.is_conj() and not value.is_neg() and value.layout == torch.strided
