"""`jit`: a function over tensors, compiled once for each kind of arguments, then called as one program.

Arguments and results are tensors in tuples, lists and dictionaries, however nested, and arrays of other libraries as arguments; what else stands in the arguments is fixed when the function
is compiled, and another value compiles it again. Tensors of the outside that the function reads are read at each call, and those that it
assigns are assigned by each call.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any, Callable, Mapping, Optional

from warpweft._core import Function, Tensor, Tuning, Var


def flatten(tree: Any, leaves: list[Any]) -> Any:
    """The structure of nested tuples, lists and dictionaries, hashable; tensors are put into `leaves`."""
    if isinstance(tree, Tensor):
        leaves.append(tree)
        return Tensor
    if isinstance(tree, (tuple, list)):
        items = tuple(flatten(item, leaves) for item in tree)
        named = type(tree) if hasattr(tree, "_fields") else None
        return (named or (tuple if isinstance(tree, tuple) else list), items)
    if isinstance(tree, dict):
        return (dict, tuple((key, flatten(item, leaves)) for key, item in tree.items()))
    return ("value", type(tree), tree)


def taken(tree: Any) -> Any:
    """Arguments with tensors in place of other libraries' arrays: copies of them."""
    if isinstance(tree, Tensor):
        return tree
    if isinstance(tree, (tuple, list)):
        items = [taken(item) for item in tree]
        return type(tree)(*items) if hasattr(tree, "_fields") else tuple(items) if isinstance(tree, tuple) else items
    if isinstance(tree, dict):
        return {key: taken(item) for key, item in tree.items()}
    is_array = hasattr(type(tree), "__dlpack__") and getattr(tree, "ndim", 0) > 0
    return Tensor(tree) if is_array else tree


def unflatten(structure: Any, leaves: Any) -> Any:
    """The tree of a structure, with the next leaves in place of tensors."""
    if structure is Tensor:
        return next(leaves)
    if structure[0] == "value":
        return structure[2]
    kind, items = structure
    if kind is dict:
        return {key: unflatten(item, leaves) for key, item in items}
    parts = [unflatten(item, leaves) for item in items]
    return kind(*parts) if hasattr(kind, "_fields") else kind(parts)


class Compiled:
    """A function that is compiled when it is first called with arguments of a kind."""

    def __init__(self, function: Callable[..., Any], lengths: Optional[Mapping[str, Mapping[int, Var]]] = None) -> None:
        self.function = function
        self.lengths = dict(lengths or {})
        self.last: Optional[Function] = None
        self.programs: dict[Any, tuple[Function, Any]] = {}
        self.signature = inspect.signature(function)
        functools.update_wrapper(self, function)
        unknown = [name for name in self.lengths if name not in self.signature.parameters]
        if unknown:
            raise TypeError(f"{function.__name__} has no parameter {unknown[0]!r} to give lengths to")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # What was called last with tensors alone is called again without taking arguments apart, where they are like those.
        if self.last is not None and not kwargs:
            found = self.last.call_like(args)
            if found is not None:
                return found
        args, kwargs = taken(args), taken(kwargs)
        (function, results), leaves = self._program(args, kwargs)
        # A result that is no list, of tensors that stand in nothing.
        is_plain = results is Tensor and not kwargs and not self.lengths and all(type(argument) is Tensor for argument in args)
        self.last = function if is_plain else None
        return unflatten(results, iter(function.call(leaves)))

    def _program(self, args: Any, kwargs: Any) -> tuple[tuple[Function, Any], list[Tensor]]:
        """The program for arguments of this kind with the structure of its results, and the tensors among the arguments."""
        leaves: list[Tensor] = []
        structure = flatten((args, kwargs), leaves)
        specs = self._specs(args, kwargs) if self.lengths else [(leaf.dtype, leaf.shape) for leaf in leaves]
        key = (structure, tuple(specs))
        try:
            program = self.programs.get(key)
        except TypeError:
            raise TypeError("arguments of a compiled function are tensors, and values that can be hashed") from None
        if program is None:
            program = self.programs[key] = self._compile(structure, specs)
        return program, leaves

    def tune(self, seconds: float, *args: Any, **kwargs: Any) -> Tuning:
        """Searches for faster kernels of the program for such arguments, for about so many seconds, and uses them from the next call on."""
        self.last = None
        function, _ = self._program(taken(args), taken(kwargs))[0]
        return function.tune(seconds)

    def _specs(self, args: Any, kwargs: Any) -> list[Any]:
        """Types and shapes of the tensors, with variables for the lengths that the caller named."""
        specs: list[Any] = []
        bound = self.signature.bind(*args, **kwargs)
        shapes: dict[int, tuple[Any, ...]] = {}
        for name, axes in self.lengths.items():
            if name in bound.arguments:
                tensor = bound.arguments[name]
                if not isinstance(tensor, Tensor):
                    raise TypeError(f"lengths are given for {name!r}, which is a {type(tensor).__name__} and no tensor")
                shape = list(tensor.shape)
                for axis, variable in axes.items():
                    shape[axis] = variable
                shapes[id(tensor)] = tuple(shape)
        leaves: list[Tensor] = []
        flatten((args, kwargs), leaves)
        for leaf in leaves:
            specs.append((leaf.dtype, shapes.get(id(leaf), leaf.shape)))
        return specs

    def _compile(self, structure: Any, specs: list[Any]) -> tuple[Function, Any]:
        results: list[Any] = []

        def traced(tensors: list[Tensor]) -> list[Tensor]:
            args, kwargs = unflatten(structure, iter(tensors))
            leaves: list[Tensor] = []
            results.append(flatten(self.function(*args, **kwargs), leaves))
            return leaves

        function = Function(traced, specs)
        return function, results[0]

    def __repr__(self) -> str:
        return f"warpweft.jit({self.function!r}): {len(self.programs)} programs"


def jit(function: Optional[Callable[..., Any]] = None, *, lengths: Optional[Mapping[str, Mapping[int, Var]]] = None) -> Any:
    """Compiles a function over tensors.

    `lengths` gives variables to axes of arguments, by the names of parameters: `jit(lengths={"x": {0: Var("n", 1, 512)}})` compiles one program
    for all those lengths. Other lengths are fixed for a program, and others compile another.
    """
    if function is None:
        return lambda wrapped: Compiled(wrapped, lengths)
    return Compiled(function, lengths)
