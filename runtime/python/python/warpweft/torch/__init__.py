"""`torch.compile(model, backend="warpweft")`: graphs of PyTorch as functions of Warpweft.

AOTAutograd gives graphs of ATen ops, forward and backward, without mutation. Each becomes one compiled function (`_graph`), by a table
of what each op is in `warpweft.Tensor` (`_table` and the files of ops beside it). Tensors cross by DLPack without a copy. An op that is not in the table, or
refuses its arguments, is run by PyTorch between compiled parts, with one line that names it; never is a value guessed.
"""

from __future__ import annotations

from typing import Any, Callable

from warpweft.torch import _device
from warpweft.torch._counters import counters
from warpweft.torch._decompositions import decompositions
from warpweft.torch._graph import Graph

_device.register()

__all__ = ["backend", "compile_graph", "counters"]


def compile_graph(module: Any, example_inputs: Any) -> Callable[..., Any]:
    """A graph of ATen ops, as AOTAutograd gives it, as a callable over lists of tensors."""
    from torch._functorch.aot_autograd import make_boxed_func  # type: ignore[attr-defined]

    return make_boxed_func(Graph(module))


def backend(module: Any, example_inputs: Any, **options: Any) -> Callable[..., Any]:
    """The backend that `torch.compile(model, backend="warpweft")` finds."""
    from torch._dynamo.backends.common import aot_autograd

    compiler = aot_autograd(fw_compiler=compile_graph, bw_compiler=compile_graph, decompositions=decompositions())
    return compiler(module, example_inputs)
