"""Modules that move to the device keep their parameters.

PyTorch gives a module other parameters where memory cannot change hands between devices, so parameters that two modules share, and those that an optimizer
holds, would come apart. PyTorch has another way, which exchanges what the two tensors are; modules that come to the device, or leave it, go that way.
"""

from __future__ import annotations

import functools
from typing import Any, Callable

import torch

from warpweft.torch._device._memory import is_ours


def _concerns(module: Any, change: Callable[[Any], Any]) -> bool:
    """Whether a module's parameters are on the device, or would be."""
    if any(is_ours(parameter) for parameter in module._parameters.values()):
        return True
    with torch.no_grad():
        return is_ours(change(torch.empty(0)))


def _moved_lazy(module: Any, change: Callable[[Any], Any]) -> dict[str, Any]:
    """The parameters of a module that have no shape yet, made anew where the others go: nobody can hold one of them for more than its name."""
    lazy: Any = torch.nn.parameter.UninitializedParameter
    found = {}
    for name, parameter in module._parameters.items():
        if isinstance(parameter, lazy):
            like = change(parameter.data)
            found[name] = lazy(parameter.requires_grad, like.device, like.dtype)
    return found


def register() -> None:
    """Replaces how modules change their parameters."""
    cls: Any = torch.nn.Module
    future: Any = torch.__future__
    theirs = cls._apply

    @functools.wraps(theirs)
    def _apply(self: Any, change: Callable[[Any], Any], recurse: bool = True) -> Any:
        before = future.get_swap_module_params_on_conversion()
        if before or not _concerns(self, change):
            return theirs(self, change, recurse)
        if recurse:
            for child in self.children():
                child._apply(change)
        own, lazy = self._parameters, _moved_lazy(self, change)
        future.set_swap_module_params_on_conversion(True)
        self._parameters = {name: parameter for name, parameter in own.items() if name not in lazy}
        try:
            return theirs(self, change, False)
        finally:
            future.set_swap_module_params_on_conversion(before)
            self._parameters = own
            own.update(lazy)

    cls._apply = _apply
