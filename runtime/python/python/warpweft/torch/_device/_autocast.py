"""`torch.autocast("warpweft", dtype)`: the types that ops compute in are those that they compute in under `torch.autocast("cpu", dtype)`.

Products, convolutions and attention get their floats in the narrow type, ops that lose much by it get theirs as float32, and those that put tensors together get the widest
of their types. Which ops PyTorch has a way for on the CPU its dispatcher knows; which way that is, it does not tell, so the short lists are here: what is in none of them gets float32.
float64 stays as it is. Tests: tests/test_device.py compares types and values with the CPU.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Iterable

import torch

from warpweft.torch._device import _metas
from warpweft.torch._device._memory import is_ours

_KEY = "AutocastPrivateUse1"
_NARROW = set(
    "_convolution conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d bmm mm matmul linear addmm addbmm baddbmm linalg_vecdot "
    "_addmm_activation prelu scaled_dot_product_attention _native_multi_head_attention mkldnn_rnn_layer".split()
)
_WIDEST = {"stack", "cat", "index_copy"}
_libraries: list[Any] = []


def _changes(value: Any) -> bool:
    """Whether autocast may change the type of an argument."""
    return is_ours(value) and value.dtype in (torch.float32, torch.float16, torch.bfloat16)


def _called(op: Any, dtype: Any, args: Any, kwargs: Any) -> Any:
    """An op with its floats in that type, beneath autocast."""

    def change(value: Any) -> Any:
        return value.to(dtype) if _changes(value) and value.dtype != dtype else value

    with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, _KEY))):
        return op(*_metas.mapped(change, args), **_metas.mapped(change, kwargs))


def _narrow(op: Any, *args: Any, **kwargs: Any) -> Any:
    return _called(op, torch.get_autocast_dtype("warpweft"), args, kwargs)


def _wide(op: Any, *args: Any, **kwargs: Any) -> Any:
    return _called(op, torch.float32, args, kwargs)


def _widest(op: Any, *args: Any, **kwargs: Any) -> Any:
    found = [value.dtype for value in _metas.leaves(args, kwargs) if _changes(value)]
    dtype = torch.float32 if torch.float32 in found else torch.get_autocast_dtype("warpweft")
    return _called(op, dtype, args, kwargs)


def _way(name: str) -> Callable[..., Any]:
    return _narrow if name in _NARROW else _widest if name in _WIDEST else _wide


def register(ops: Iterable[Any]) -> None:
    """Registers the ops that the CPU casts for; the others compute in the types that they are given."""
    make: Any = torch.library.Library
    others = make("_", "IMPL")
    others.fallback(torch.library.fallthrough_kernel, _KEY)
    casting = make("aten", "IMPL")
    for op in ops:
        if torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), "AutocastCPU"):
            casting.impl(op, functools.partial(_way(op.overloadpacket.__name__), op), _KEY)
    _libraries.extend([others, casting])
