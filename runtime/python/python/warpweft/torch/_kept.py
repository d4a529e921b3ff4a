"""A compiled function that PyTorch's cache of what AOTAutograd made can keep: a graph of ATen ops with the bytes that tell it (`_packed`).

From bytes the graph is read when the cache has found it, and then compiled like any other: kernels are in the cache of the compiler. `_warm` says what is kept under which key.
This file needs parts of PyTorch that are its own; without them nothing is kept.
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections.abc import Iterator
from typing import Any, Optional

from torch._functorch._aot_autograd.autograd_cache import BypassAOTAutogradCache
from torch._inductor.output_code import OutputCode

from warpweft.torch import _keys, _packed
from warpweft.torch._graph import Graph

FORWARD, BACKWARD, INFERENCE = "forward", "backward", "inference"
_state = threading.local()
_building = threading.RLock()


class Stale(Exception):
    """What was kept is damaged, or is another version's."""


class KeptGraph(OutputCode):
    """A graph as a callable over a list of tensors.

    The graph of gradients is looked at when it is first called, as where nothing is kept: a program that wants no gradients hears nothing of its ops.
    """

    def __init__(self, module: Any, kind: str, about: Any = None) -> None:
        super().__init__()
        self._boxed_call = True
        self.kind = kind
        # What the backend wants to know of the graph beside it, and gets again with a graph that is kept.
        self.about = about
        self.why_not = ""
        try:
            self.data: bytes = _packed.packed(module)
        except Exception as why:  # whatever it is, the graph runs as well without being kept
            self.data, self.why_not = b"", f"{why}" or type(why).__name__
        self.module: Any = module
        self.graph: Optional[Graph] = None

    def __call__(self, inputs: Any) -> Any:
        return self.built()(*inputs)

    def built(self) -> Graph:
        """The graph, which is looked at once; gradients may be computed in several threads."""
        if self.graph is None:
            with _building:
                if self.graph is None:
                    self.graph = Graph(self.module)
        return self.graph

    def __getstate__(self) -> dict[str, Any]:
        """What is kept, and what a copy has: the graph is not in it but by its bytes."""
        kept = {name: value for name, value in self.__dict__.items() if name not in ("module", "graph")}
        return {**kept, "version": _keys.version(), "digest": hashlib.sha256(self.data).digest()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        version, digest = state.pop("version"), state.pop("digest")
        if version != _keys.version() or digest != hashlib.sha256(state["data"]).digest():
            raise Stale("a graph is another version's, or its bytes are not those that were written")
        self.__dict__.update(state, module=None, graph=None)

    def prepare_for_serialization(self) -> None:
        """Called before it is written."""
        if self.why_not:
            raise BypassAOTAutogradCache(self.why_not)

    def post_compile(self, example_inputs: Any, constants: Any, graph_kwargs: Any) -> None:
        """Called when it was read."""
        self.module = _packed.unpacked(self.data)
        getattr(_state, "read", []).append(self)

    def set_triton_bundle(self, triton_bundle: Any) -> None:
        """There is none."""


@contextlib.contextmanager
def reading(found: list[KeptGraph]) -> Iterator[None]:
    """While this lasts, graphs that the cache finds are put on this list."""
    before, _state.read = getattr(_state, "read", []), found
    try:
        yield
    finally:
        _state.read = before
