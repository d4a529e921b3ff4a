"""`torch.compile(model, backend="warpweft")`: graphs of PyTorch as functions of Warpweft.

AOTAutograd gives graphs of ATen ops, forward and backward, without mutation. Each becomes one compiled function (`_graph`), by a table
of what each op is in `warpweft.Tensor` (`_table` and the files of ops beside it). Tensors cross by DLPack without a copy. An op that is not in the table, or
refuses its arguments, is run by PyTorch between compiled parts, with one line that names it; never is a value guessed.
"""

from __future__ import annotations

from typing import Any, Callable

from warpweft.torch import _device, _tracing, _warm
from warpweft.torch._counters import counters
from warpweft.torch._decompositions import decompositions, left_whole
from warpweft.torch._graph import Graph

_device.register()
_tracing.register()

__all__ = ["backend", "compile_graph", "counters"]


def compile_graph(module: Any, example_inputs: Any) -> Callable[..., Any]:
    """A graph of ATen ops, as AOTAutograd gives it, as a callable over lists of tensors."""
    from torch._functorch.aot_autograd import make_boxed_func  # type: ignore[attr-defined]

    return make_boxed_func(Graph(module))


def _is_plain(context: Any) -> bool:
    """Whether the results of a graph are the program's as they are: what AOTAutograd does around it is nothing."""
    about: Any = getattr(context, "fw_metadata", None)
    try:
        kinds = {output.output_type.name for output in about.output_info}
        return kinds <= {"non_alias", "unsafe_view_alias"} and not (
            about.num_mutated_inp_runtime_indices
            or about.num_intermediate_bases
            or about.tokens
            or about.is_rng_op_functionalized
            or about.grad_enabled_mutation is not None
        )
    except AttributeError:
        return False  # another PyTorch, which keeps this elsewhere


def _outputs_of_lengths(context: Any) -> list[tuple[int, set[int]]]:
    """The outputs of which lengths change, and which: AOTAutograd tells Dynamo, so that a graph behind this one takes them as such at once."""
    outputs = context.fw_metadata.output_info
    return [(position, set(output.dynamic_dims)) for position, output in enumerate(outputs) if output.dynamic_dims]


def _marker() -> Any:
    """Tells Dynamo which lengths of a result change; none in another PyTorch, which marks them elsewhere."""
    try:
        from torch._functorch._aot_autograd.runtime_wrappers import mark_dynamo_propagated_dynamic_indices as mark
    except ImportError:
        return None
    return mark


def _about(context: Any) -> Any:
    """What is to be known of a graph for inference that is called without AOTAutograd; none where that has more to do."""
    return _outputs_of_lengths(context) if _is_plain(context) else None


def _compiled(module: Any, example_inputs: Any, about: Callable[[Any], Any]) -> tuple[Callable[..., Any], list[tuple[Graph, Any]]]:
    """What AOTAutograd makes of a graph, with the graphs for inference in it and what is to be known of them."""
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch.aot_autograd import make_boxed_func  # type: ignore[attr-defined]
    from torch._guards import TracingContext

    graphs: list[Graph] = []

    def compile_inference(module: Any, example_inputs: Any) -> Callable[..., Any]:
        graphs.append(Graph(module))
        return make_boxed_func(graphs[-1])

    compiler = aot_autograd(
        fw_compiler=compile_graph, bw_compiler=compile_graph, inference_compiler=compile_inference, decompositions=decompositions()
    )
    with left_whole():
        compiled: Callable[..., Any] = compiler(module, example_inputs)
    known = about(TracingContext.try_get())
    return compiled, [(graph, known) for graph in graphs]


def backend(module: Any, example_inputs: Any, **options: Any) -> Callable[..., Any]:
    """The backend that `torch.compile(model, backend="warpweft")` finds."""
    compiled, graphs = _warm.compiled(module, example_inputs, _about) or _compiled(module, example_inputs, _about)
    if len(graphs) != 1 or len(graphs[0][0].placeholders) != len(example_inputs):
        return compiled
    ((graph, marked),) = graphs
    mark = _marker()
    if marked is None or marked and mark is None:
        return compiled

    def call(*args: Any) -> Any:
        """The graph itself once it is one function, and AOTAutograd's way to it until then."""
        if graph.direct is None:
            return compiled(*args)
        found = graph.direct(args)
        for position, axes in marked:
            mark(found[position], axes)
        return found

    return call
