"""Outputs of a graph that are views: made by PyTorch of what they are views of, so that they share memory and have the strides that they have in eager PyTorch.

Inside of a function of ours a view is a value like any other. Outside it is none: PyTorch writes to an output and looks at the others, and AOTAutograd makes a view of an input again by the
strides of the output that stands for it. So a graph gives the tensor at the root, and the views on the way to the output are called on that.

A view of an argument, or of what PyTorch computed, is always made so. One of a result of ours is where another output shows the same memory, or where it repeats elements; else it is computed
as it is, so that a part of a result is all that is computed. Tests: tests/test_torch.py, tests/compiled_programs.py.
"""

from __future__ import annotations

from typing import Any, Iterable, Optional

import torch

_EXPAND = torch.ops.aten.expand.default
_STRIDED = torch.ops.aten.as_strided.default
# These give a tensor with the strides, and the offset, of the one that they replace a part of.
_PARTS = {
    torch.ops.aten.slice_scatter.default,
    torch.ops.aten.select_scatter.default,
    torch.ops.aten.diagonal_scatter.default,
    torch.ops.aten.as_strided_scatter.default,
}
_ROOTS = ("placeholder", "get_attr")


def is_view(node: Any) -> bool:
    """Whether a node gives a view of its first argument, or several."""
    schema = getattr(node.target, "_schema", None)
    if node.op != "call_function" or schema is None or schema.is_mutable:
        return False
    return bool(schema.returns) and all(result.alias_info is not None for result in schema.returns)


def _source(node: Any) -> Optional[Any]:
    """What a node is a view of."""
    if node.op == "call_function" and getattr(node.target, "__name__", "") == "getitem":
        return node.args[0] if is_view(node.args[0]) else None
    return node.args[0] if is_view(node) and isinstance(node.args[0], torch.fx.Node) else None


def chain_of(node: Any) -> tuple[Any, list[Any]]:
    """The node at the root of a view, and the nodes from there to the view."""
    chain: list[Any] = []
    source = _source(node)
    while source is not None:
        chain.append(node)
        node, source = source, _source(source)
    return node, chain[::-1]


def _is_dense(meta: Any) -> bool:
    """Whether it is known that elements lie in memory one beside the other, from its start."""
    dense: Any = 1
    if any(_is_same(length, 0) for length in meta.shape):
        return _is_same(meta.storage_offset(), 0)
    for length, stride in zip(reversed(meta.shape), reversed(meta.stride())):
        if not (_is_same(length, 1) or _is_same(stride, dense)):
            return False
        dense = dense * length
    return _is_same(meta.storage_offset(), 0)


def _is_same(one: Any, other: Any) -> bool:
    """Whether two numbers are the same whatever symbols stand for; nothing is asked of the symbols."""
    first, second = (number.node.expr if isinstance(number, torch.SymInt) else number for number in (one, other))
    return bool(first == second)


def _repeats(chain: list[Any]) -> bool:
    return any(node.target is _EXPAND for node in chain)


def replayed(outputs: Iterable[Any], refused: Any) -> dict[Any, tuple[Any, list[Any]]]:
    """The outputs that are made by calling views, with their roots and chains."""
    nodes = list(dict.fromkeys(node for node in outputs if isinstance(node, torch.fx.Node) and isinstance(node.meta.get("val"), torch.Tensor)))
    chains = {node: chain_of(node) for node in nodes}
    shared: dict[Any, int] = {}
    for root, _ in chains.values():
        shared[root] = shared.get(root, 0) + 1
    found = {}
    for node, (root, chain) in chains.items():
        is_given = root.op in _ROOTS or root in refused
        if not chain or not (is_given or shared[root] > 1 or _repeats(chain)):
            continue
        if not is_given and any(part.target is _STRIDED for part in chain) and not _is_dense(root.meta["val"]):
            continue
        found[node] = (root, chain)
    return found


def needed(found: dict[Any, tuple[Any, list[Any]]], node: Any) -> list[Any]:
    """The nodes that an output is made of: itself, or its root and the numbers of its views."""
    if node not in found:
        return [node]
    root, chain = found[node]
    inside = {root, *chain}
    return [root, *(source for part in chain for source in part.all_input_nodes if source not in inside)]


def unread(nodes: list[Any], found: dict[Any, tuple[Any, list[Any]]], output: Any) -> set[Any]:
    """The nodes of views that nothing but these outputs reads."""
    kept = {source for node in output.all_input_nodes for source in needed(found, node)}
    chains = {part for _, chain in found.values() for part in chain}
    dropped: set[Any] = set()
    for node in reversed(nodes):
        if node in chains and node not in kept and all(user is output or user in dropped for user in node.users):
            dropped.add(node)
    return dropped


def on_roots(nodes: list[Any]) -> dict[Any, str]:
    """Has each view by addresses in memory made of the tensor at the root, whose memory it is; that a view on the way is given or made as a value says nothing of its neighbours.

    Where the first address is no number, the views on the way are PyTorch's, and so are views of its root's memory; they are given with why.
    """
    found = {}
    for node in nodes:
        if node.op != "call_function" or node.target is not _STRIDED:
            continue
        root, chain = chain_of(node.args[0])
        offset = node.args[3] if len(node.args) > 3 else node.kwargs.get("storage_offset")
        offset = node.args[0].meta["val"].storage_offset() if offset is None and chain else offset
        if not chain:
            continue
        if isinstance(offset, (int, torch.fx.Node)):
            node.args, node.kwargs = (root, *node.args[1:3], offset), {}
        else:
            found.update({part: "what is taken apart by addresses begins where a variable says" for part in (*chain, node)})
    return found


def over_strides(nodes: list[Any]) -> dict[Any, str]:
    """The nodes that put values into memory with strides of its own that another node then takes apart by addresses."""
    found = {}
    for node in nodes:
        if node.op != "call_function" or node.target not in (_STRIDED, torch.ops.aten.as_strided_scatter.default):
            continue
        chain, root = [], node.args[0]
        while root.op == "call_function" and root.target in _PARTS:
            chain.append(root)
            root = root.args[0]
        if chain and not _is_dense(root.meta["val"]):
            found.update({part: "it is taken apart by addresses in memory that has gaps" for part in (*chain, node)})
    return found
