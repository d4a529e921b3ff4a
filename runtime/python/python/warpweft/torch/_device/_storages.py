"""Storages of the device where PyTorch handles them without a tensor: copies, `copy.deepcopy`, files.

PyTorch makes storages by an allocator and copies them by address; ours have neither, so the methods of `torch.UntypedStorage` that would look for one are replaced
by such that ask for the bytes. Other storages go the way that they went.
"""

from __future__ import annotations

import functools
from typing import Any, Callable

import torch

from warpweft.torch._device import _memory


def _is_ours(storage: Any) -> bool:
    return isinstance(storage, torch.UntypedStorage) and storage.device.type == "warpweft"


def _untyped(storage: Any) -> Any:
    """A storage without a type."""
    return storage._untyped_storage if isinstance(storage, torch.TypedStorage) else storage


def _tensor_of(storage: Any) -> torch.Tensor:
    """All bytes of a storage as a tensor."""
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)


def on_device(storage: Any) -> Any:
    """A copy of a storage of the host."""
    count = storage.nbytes()
    tensor = _memory.empty([count], [1], torch.uint8)
    if count:
        _memory.memory_of(tensor)[0].put_bytes(_tensor_of(storage).clone())
    return tensor.untyped_storage()


def _new(make: Callable[..., Any], cls: Any, *args: Any, device: Any = None, **kwargs: Any) -> Any:
    if device is None or torch.device(device).type != "warpweft":
        return make(cls, *args, **({} if device is None else {"device": device}), **kwargs)
    return on_device(make(cls, *args, **kwargs))


def _copy(copy: Callable[..., Any], self: Any, source: Any, non_blocking: Any = False) -> Any:
    source = _untyped(source)
    if not _is_ours(self) and not _is_ours(source):
        return copy(self, source, non_blocking)
    _tensor_of(self).copy_(_tensor_of(source))
    return self


def _item(getitem: Callable[..., Any], self: Any, *args: Any) -> Any:
    return getitem(self.cpu() if _is_ours(self) else self, *args)


def _data_ptr(data_ptr: Callable[..., int], self: Any) -> int:
    # There is no address; what asks wants to tell storages apart.
    return int(self._cdata) if _is_ours(self) else data_ptr(self)


def _write_file(write: Callable[..., Any], self: Any, *args: Any) -> Any:
    return write(self.cpu() if _is_ours(self) else self, *args)


def _set_from_file(read: Callable[..., Any], self: Any, *args: Any) -> Any:
    if not _is_ours(self):
        return read(self, *args)
    cls: Any = torch.UntypedStorage
    host = cls(self.nbytes())
    read(host, *args)
    self.copy_(host)
    return self


def _byteswap(swap: Callable[..., Any], self: Any, *args: Any) -> Any:
    if _is_ours(self):
        raise NotImplementedError("bytes of a storage of the device are not swapped: take its `cpu()`")
    return swap(self, *args)


def _tag(storage: Any) -> Any:
    """What a file calls the location of a storage."""
    return "warpweft" if _is_ours(_untyped(storage)) else None


def _restored(storage: Any, location: str) -> Any:
    """A storage of the host that was read from a file, on the device."""
    return on_device(_untyped(storage)) if location.startswith("warpweft") else None


def register() -> None:
    """Replaces the methods."""
    cls: Any = torch.UntypedStorage
    cls.__new__ = staticmethod(functools.partial(_new, cls.__new__))
    methods = {
        "copy_": _copy,
        "__getitem__": _item,
        "data_ptr": _data_ptr,
        "_write_file": _write_file,
        "_set_from_file": _set_from_file,
        "byteswap": _byteswap,
    }
    for name, own in methods.items():
        theirs = getattr(cls, name)

        def method(self: Any, *args: Any, _own: Any = own, _theirs: Any = theirs, **kwargs: Any) -> Any:
            return _own(_theirs, self, *args, **kwargs)

        setattr(cls, name, functools.wraps(theirs)(method))
    torch.serialization.register_package(15, _tag, _restored)
