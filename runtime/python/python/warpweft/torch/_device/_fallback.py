"""An op that PyTorch runs on the host: on views of the bytes of the same storages, so that it sees and leaves every alias as it is on the CPU.

What an op writes to is copied before, so nothing that was computed from it changes; a result that shares the storage of an argument shares
that of the device's. Always holds: it is right for any op of strided tensors, whatever it does with views, lengths and storages.
"""

from __future__ import annotations

import logging
import os
from typing import Any, Callable, Optional

import torch

from warpweft.torch import _counters
from warpweft.torch._device import _memory as memory
from warpweft.torch._device import _metas

_LOGGER = logging.getLogger("warpweft.torch")
_told: set[str] = set()


def _tells() -> bool:
    """Whether ops that fall back are listed: at DEBUG=1."""
    for name in ("WARPWEFT_DEBUG", "DEBUG"):
        value = os.environ.get(name, "")
        if value.isdigit():
            return int(value) > 0
    return False


def count(op: Any, why: str) -> None:
    """Counts an op that is run by PyTorch, and tells of it once where that is asked for."""
    name = str(op)
    _counters.counted(name)
    if name not in _told and _tells():
        _told.add(name)
        _LOGGER.warning("%s is run by PyTorch on the host: %s", name, why)


def written(op: Any, args: Any, kwargs: Any) -> list[torch.Tensor]:
    """The tensors that a call writes to."""
    found: list[torch.Tensor] = []
    for position, argument in enumerate(op._schema.arguments):
        if argument.alias_info is None or not argument.alias_info.is_write:
            continue
        value = kwargs.get(argument.name) if argument.kwarg_only or position >= len(args) else args[position]
        found.extend(value if isinstance(value, (list, tuple)) else [value] if value is not None else [])
    return found


class Host:
    """The storages of a call on the host."""

    def __init__(self, changed: list[torch.Tensor]) -> None:
        # By storage of the device: its bytes, and the storage itself. By storage of the host: that of the device.
        self.data: dict[int, torch.Tensor] = {}
        self.storages: dict[int, Any] = {}
        self.tensors: list[tuple[torch.Tensor, torch.Tensor]] = []
        self.changed = {tensor.untyped_storage()._cdata for tensor in changed if memory.is_ours(tensor)}

    def of(self, value: Any) -> Any:
        """An argument on the host."""
        if isinstance(value, torch.device):
            return torch.device("cpu") if value.type == "warpweft" else value
        if isinstance(value, torch.Generator) and value.device.type == "warpweft":
            return torch.default_generator
        if not memory.is_ours(value):
            return value
        for tensor, host in self.tensors:
            if tensor is value:
                return host
        storage: Any = value.untyped_storage()
        data = self.data.get(storage._cdata)
        if data is None:
            holds, size = memory.memory_of(value)
            data = holds.data(size)
            data = data.clone() if storage._cdata in self.changed else data
            self.data[storage._cdata] = data
            self.storages[data.untyped_storage()._cdata] = storage
        found = memory.host_of(value, data)
        self.tensors.append((value, found))
        return found

    def back(self, value: Any) -> Any:
        """A result on the device."""
        if not isinstance(value, torch.Tensor) or value.device.type != "cpu":
            return value
        for tensor, host in self.tensors:
            if host is value:
                return tensor
        if value.layout != torch.strided:
            raise NotImplementedError(f"the device holds strided tensors alone, and no {value.layout}")
        return memory.adopted(value, self.storages)

    def settle(self) -> None:
        """Puts what was written where it belongs, and takes over lengths and strides that changed."""
        done = set()
        for tensor, host in self.tensors:
            storage: Any = tensor.untyped_storage()
            if storage._cdata not in self.changed:
                continue
            if tensor.shape != host.shape or tensor.stride() != host.stride() or tensor.storage_offset() != host.storage_offset():
                memory.set_layout(tensor, storage, host.storage_offset(), host.shape, host.stride())
            if storage._cdata not in done:
                done.add(storage._cdata)
                holds, _ = memory.memory_of(tensor)
                holds.put_bytes(torch.empty(0, dtype=torch.uint8).set_(host.untyped_storage()))


def run(op: Any, args: Any, kwargs: Any, why: Optional[str] = None) -> Any:
    """Runs an op on the host; counts it if there is a reason to give."""
    changed = written(op, args, kwargs)
    host = Host(changed)
    found = call(op, _metas.mapped(host.of, args), _metas.mapped(host.of, kwargs))
    host.settle()
    if why is not None:
        count(op, why)
    return tuple(_metas.mapped(host.back, part) for part in found) if isinstance(found, tuple) else _metas.mapped(host.back, found)


def call(op: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Calls an op of the host."""
    return op(*_metas.with_tensors(op, args), **kwargs)
