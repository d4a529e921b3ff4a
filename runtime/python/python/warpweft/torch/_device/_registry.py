"""Which ops come to `dispatch`: all that PyTorch cannot take apart itself, and those that the table has whole."""

from __future__ import annotations

import functools
from typing import Any

import torch

from warpweft.torch import _ops
from warpweft.torch._backwards import entries
from warpweft.torch._device import _autocast, _dispatch, _modules, _precision, _special, _storages
from warpweft.torch._table import TABLE

_KEY = "PrivateUse1"
_COMPOSITE = torch._C.DispatchKey.CompositeImplicitAutograd
_EXPLICIT = torch._C.DispatchKey.CompositeExplicitAutograd
_NON_FUNCTIONAL = torch._C.DispatchKey.CompositeExplicitAutogradNonFunctional
# Ops that PyTorch takes apart into others that are ours, better than we can.
_PYTORCHS = set(
    "clone abs abs_ masked_fill fill zero sum mean sort detach_ floor_divide floor_divide_ copysign_ _unsafe_view addr_ div_"
    " unsafe_split unsafe_split_with_sizes".split()
)
_libraries: list[Any] = []


def _ops_of(space: str) -> list[Any]:
    """All ops of a namespace."""
    found = []
    for name in torch._C._dispatch_get_all_op_names():
        own, _, rest = name.partition("::")
        if own == space:
            base, _, overload = rest.partition(".")
            try:
                found.append(getattr(getattr(getattr(torch.ops, space), base), overload or "default"))
            except (AttributeError, RuntimeError):
                continue
    return found


def _is_ours(op: Any) -> bool:
    """Whether an op comes to us although PyTorch could take it apart by itself."""
    name = op.name()
    if op in _dispatch.SPECIAL:
        return True
    if torch._C._dispatch_has_kernel_for_dispatch_key(name, _COMPOSITE):
        # Gradients are PyTorch's, through its parts.
        return False
    kind = _dispatch.kind_of(op)
    if torch._C._dispatch_has_kernel_for_dispatch_key(name, _NON_FUNCTIONAL):
        # ATen checks the call, makes the result by `empty_strided`, and calls the op with `out=`.
        return False
    if torch._C._dispatch_has_kernel_for_dispatch_key(name, _EXPLICIT):
        # What takes a device makes memory and copies, and what has `out=` copies a result: PyTorch does that by `empty` and `copy_`. So it does what is made of
        # ops of elements, with the strides of the CPU.
        others = any(argument.name == "device" or argument.is_out for argument in op._schema.arguments)
        others = others or torch.Tag.pointwise in op.tags or torch.Tag.inplace_view in op.tags
        left = op.overloadpacket.__name__ in _PYTORCHS
        return not kind.is_view and not others and not left and (op in TABLE or kind.functional in TABLE or op in entries())
    return False


def register() -> None:
    """Registers all."""
    _ops.load()
    _special.register()
    make: Any = torch.library.Library
    everything = make("_", "IMPL")
    everything.fallback(_dispatch.dispatch, _KEY)
    _libraries.append(everything)
    for space in ("aten", "prims"):
        library = make(space, "IMPL")
        for op in _ops_of(space):
            if _is_ours(op):
                library.impl(op, functools.partial(_dispatch.dispatch, op), _KEY)
        _libraries.append(library)
    _autocast.register(_ops_of("aten"))
    _storages.register()
    _modules.register()
    _precision.register()
