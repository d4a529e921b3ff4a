"""Modules that move to the device keep their parameters.

PyTorch gives a module other parameters where memory cannot change hands between devices, so parameters that two modules share, and those that an optimizer
holds, would come apart. PyTorch has another way, which exchanges what the two tensors are; modules that come to the device, or leave it, go that way. It refuses
tensors that somebody refers to, as those are that were traced or exported, or that a graph of gradients holds. Here they may be: weak references are to the object, which stays, and a
graph keeps what it has seen; its gradients come no longer to the parameter, which is an error when they are asked for.
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


def _refuse_gradients(_: Any) -> None:
    """What stands before a gradient that would go to what a parameter was before its module moved."""
    raise RuntimeError("a module moved to another device between forward and backward: compute forward again")


def _exchange(one: Any, other: Any) -> None:
    """Makes each of two tensors what the other is; all that refers to the objects refers to them on."""
    if one.is_leaf and one.requires_grad:
        torch.autograd.graph.get_gradient_edge(one).node.register_prehook(_refuse_gradients)
    one.__class__, other.__class__ = other.__class__, one.__class__
    one.__dict__, other.__dict__ = other.__dict__, one.__dict__
    swap: Any = torch._C._swap_tensor_impl
    swap(one, other)


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
        utils: Any = torch.utils
        swapping = utils.swap_tensors
        utils.swap_tensors = _exchange
        future.set_swap_module_params_on_conversion(True)
        self._parameters = {name: parameter for name, parameter in own.items() if name not in lazy}
        try:
            return theirs(self, change, False)
        finally:
            utils.swap_tensors = swapping
            future.set_swap_module_params_on_conversion(before)
            self._parameters = own
            own.update(lazy)

    cls._apply = _apply
