"""What storages of the device hold: tensors of Warpweft, or bytes of the host.

A tensor of the device is PyTorch's own: its shape, strides, offset and version are, and so is its storage, which several views share. The storage has no
address; its Python object carries a `Memory`, and PyTorch keeps that object for as long as the storage lives. A view is read as a view of the memory's value,
and written through to it; a write to all of a storage puts another value in its place.

Always holds: a memory is `value`, or `host`, or neither (nothing was written yet, which reads as zeros), and never both; nobody else writes to `host`.
Values are lazy; `flush` computes all that are wanted, which happens when one is asked for, or after so many ops. Tests: tests/test_device.py.
"""

from __future__ import annotations

import math
import threading
import weakref
from typing import Any, Optional, Sequence

import torch
from torch.utils.dlpack import from_dlpack

import warpweft as ww
from warpweft.torch._table import Pair, Unsupported, dtype_of, moved

_META = torch._C.DispatchKey.Meta
_SET = torch.ops.aten.set_.source_Storage_storage_offset
# So many ops are put off at most.
_LONGEST = 400


class Memory:
    """What one storage holds."""

    __slots__ = ("value", "dtype", "host", "__weakref__")

    def __init__(self) -> None:
        # Elements in the order of the storage, whatever the shape.
        self.value: Optional[ww.Tensor] = None
        self.dtype: Any = None
        self.host: Optional[torch.Tensor] = None

    def put(self, value: ww.Tensor, dtype: Any) -> None:
        """Holds these elements from now on."""
        self.value, self.dtype, self.host = value, dtype, None
        _put_off(self)

    def put_bytes(self, data: torch.Tensor) -> None:
        """Holds these bytes, which are given away."""
        self.value, self.dtype, self.host = None, None, data

    def root(self, dtype: Any, size: int) -> ww.Tensor:
        """All elements, as such of this type."""
        count, wanted = size // dtype.itemsize, dtype_of(dtype)
        if self.value is not None and (self.dtype != dtype or self.value.size != count):
            self.put_bytes(self.data(size).clone())
        if self.value is None:
            if self.host is None:
                self.value = ww.zeros(count, dtype=wanted).contiguous()
            else:
                self.value = ww.from_dlpack(self.data(size)[: count * dtype.itemsize].view(dtype))
            self.dtype, self.host = dtype, None
        return self.value

    def data(self, size: int) -> torch.Tensor:
        """All bytes, to be read."""
        if self.value is not None:
            flush()
            found = from_dlpack(self.value).reshape(-1).view(torch.uint8) if self.value.size else torch.zeros(0, dtype=torch.uint8)
        else:
            found = torch.zeros(size, dtype=torch.uint8) if self.host is None else self.host
        if found.numel() != size:
            # The storage was resized.
            grown = torch.zeros(size, dtype=torch.uint8)
            grown[: found.numel()].copy_(found[:size])
            return grown
        return found


_waiting: weakref.WeakSet[Memory] = weakref.WeakSet()
# Gradients are computed by threads of PyTorch's.
_turn = threading.Lock()
_put_off_ops = 0


def _put_off(memory: Memory) -> None:
    global _put_off_ops
    with _turn:
        _waiting.add(memory)
        _put_off_ops += 1
    if _put_off_ops > _LONGEST:
        flush()


def flush() -> None:
    """Computes what storages hold, all in one go."""
    global _put_off_ops
    with _turn:
        values = [memory.value for memory in list(_waiting) if memory.value is not None]
        _waiting.clear()
        _put_off_ops = 0
    waiting = [value for value in values if value.size and not value.is_realized]
    if waiting:
        ww.realize(waiting)


def memory_of(tensor: torch.Tensor) -> tuple[Memory, int]:
    """What the storage of a tensor holds, and its bytes."""
    storage: Any = tensor.untyped_storage()
    memory = storage.__dict__.get("_warpweft")
    if memory is None:
        memory = storage._warpweft = Memory()
    return memory, storage.nbytes()


def is_ours(value: Any) -> bool:
    """Whether it is a tensor of the device."""
    return isinstance(value, torch.Tensor) and value.device.type == "warpweft"


def set_layout(tensor: torch.Tensor, storage: Any, offset: Any, shape: Sequence[int], strides: Sequence[int]) -> Any:
    """Makes a tensor another view, of a storage that grows where it is too short."""
    return _SET._op_dk(_META, tensor, storage, offset, list(shape), list(strides))


def empty(shape: Sequence[int], strides: Sequence[int], dtype: Any) -> Any:
    """A tensor of the device with a storage of its own."""
    tensor = torch._C._acc.create_empty_tensor(tuple(shape), dtype)
    return set_layout(tensor, tensor.untyped_storage(), 0, shape, strides)


def dense_order(shape: Sequence[int], strides: Sequence[int]) -> Optional[list[int]]:
    """The axes in the order in which elements lie in memory, where these are dense there."""
    order = sorted(range(len(shape)), key=lambda axis: (-strides[axis], -shape[axis], axis))
    dense = 1
    for axis in reversed(order):
        if shape[axis] != 1 and strides[axis] != dense:
            return None
        dense *= shape[axis]
    return order


def _inverse(order: list[int]) -> list[int]:
    return [order.index(axis) for axis in range(len(order))]


def made(value: Any, meta: Any) -> Any:
    """A new tensor of a value, with the strides that the meta says."""
    tensor = empty(meta.shape, meta.stride(), meta.dtype)
    write(tensor, value)
    return tensor


def _parts(tensor: torch.Tensor) -> tuple[Any, tuple[int, ...], tuple[int, ...], Any]:
    """Type, shape, strides and offset of a tensor; of complex numbers as pairs of floats along a last axis."""
    dtype, shape, strides, offset = tensor.dtype, tuple(tensor.shape), tensor.stride(), tensor.storage_offset()
    if not dtype.is_complex:
        return dtype, shape, strides, offset
    return dtype.to_real(), (*shape, 2), (*(2 * stride for stride in strides), 1), 2 * offset


def read(tensor: torch.Tensor) -> Any:
    """What a tensor of the device shows now."""
    found: Any = _shown(tensor)
    if tensor.dtype.is_complex:
        found = Pair(found[..., 0], found[..., 1])
        found = Pair(found.re, found.im.negative()) if tensor.is_conj() else found
        return Pair(found.re.negative(), found.im.negative()) if tensor.is_neg() else found
    return found.negative() if tensor.is_neg() else found


def _shown(tensor: torch.Tensor) -> ww.Tensor:
    dtype, shape, strides, offset = _parts(tensor)
    kind = dtype_of(dtype)
    if 0 in shape:
        return ww.zeros(shape, dtype=kind)
    memory, size = memory_of(tensor)
    root = memory.root(dtype, size)
    kept = [axis for axis in range(len(shape)) if strides[axis] != 0 and shape[axis] != 1]
    lengths, steps = [shape[axis] for axis in kept], [strides[axis] for axis in kept]
    order = dense_order(lengths, steps)
    if order is None:
        return root.as_strided(list(shape), list(strides), offset).detach()
    count = math.prod(lengths)
    part = root if count == root.size else root.reshape(-1).narrow(0, offset, count)
    lying = tuple(lengths[axis] for axis in order)
    found = part if part.shape == lying else part.reshape(list(lying))
    if order != sorted(order):
        found = found.permute(_inverse(order))
    if len(kept) != len(shape):
        found = found.reshape([length if axis in kept else 1 for axis, length in enumerate(shape)]).expand(list(shape))
    return found.detach()


def _joined(value: Any, dtype: Any) -> ww.Tensor:
    """Complex numbers with a last axis of two."""
    kind = dtype_of(dtype.to_real())
    pair = value if isinstance(value, Pair) else Pair(moved(value, kind), moved(value, kind) * 0)
    return ww.stack([moved(pair.re, kind), moved(pair.im, kind)], -1)


def write(tensor: torch.Tensor, value: Any) -> None:
    """Replaces what a tensor of the device shows, for all views of its storage."""
    if tensor.is_conj() or tensor.is_neg():
        raise Unsupported("it writes to a view that negates")
    dtype, shape, strides, offset = _parts(tensor)
    if 0 in shape:
        return
    if tensor.dtype.is_complex:
        value = _joined(value, tensor.dtype)
    elif isinstance(value, Pair):
        raise Unsupported("complex numbers as real ones")
    value = moved(value, dtype_of(dtype))
    value = value if value.shape == shape else value.expand(list(shape))
    memory, size = memory_of(tensor)
    order = dense_order(shape, strides) if math.prod(shape) * dtype.itemsize == size else None
    if order is not None:
        memory.put((value if order == sorted(order) else value.permute(order)).detach(), dtype)
        return
    root = memory.root(dtype, size)
    root.as_strided(list(shape), list(strides), offset).assign(value)
    _put_off(memory)


def host_of(tensor: torch.Tensor, data: Optional[torch.Tensor] = None) -> torch.Tensor:
    """A tensor of the host over the bytes of a storage, with the strides of a tensor of the device. Not to be written to, unless the bytes are given."""
    if data is None:
        memory, size = memory_of(tensor)
        data = memory.data(size)
    count = data.numel() // tensor.element_size()
    elements = data[: count * tensor.element_size()].view(tensor.dtype)
    found = elements.as_strided(tensor.shape, tensor.stride(), elements.storage_offset() + tensor.storage_offset())
    found = found.conj() if tensor.is_conj() else found
    return torch._neg_view(found) if tensor.is_neg() else found


def adopted(result: torch.Tensor, storages: dict[int, Any]) -> torch.Tensor:
    """A tensor of the host as one of the device, with all of its storage, which is given away; `storages` knows those that came before."""
    if result._is_zerotensor():
        result = torch.zeros_like(result)
    own: Any = result.untyped_storage()
    storage = storages.get(own._cdata)
    tensor = torch._C._acc.create_empty_tensor((0,), result.dtype)
    if storage is None:
        storage = tensor.untyped_storage()
        storages[own._cdata] = storage
        count = own.nbytes() // result.element_size()
        set_layout(tensor, storage, 0, [count], [1])
        memory, size = memory_of(tensor)
        memory.put_bytes(torch.empty(0, dtype=torch.uint8).set_(own)[:size])
    tensor = set_layout(tensor, storage, result.storage_offset(), result.shape, result.stride())
    if result.is_conj():
        tensor = tensor.conj()
    return torch._neg_view(tensor) if result.is_neg() else tensor
