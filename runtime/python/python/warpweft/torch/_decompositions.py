"""Which ops AOTAutograd takes apart before a graph is ours: all that PyTorch can, but for those that the table has whole."""

from __future__ import annotations

import functools
from typing import Any, Callable


@functools.cache
def decompositions() -> dict[Any, Callable[..., Any]]:
    """The table for AOTAutograd."""
    import torch
    from torch._decomp import core_aten_decompositions, decomposition_table

    from warpweft.torch import _ops
    from warpweft.torch._table import TABLE

    _ops.load()
    found = {**decomposition_table, **core_aten_decompositions()}
    random = {op for op in found if torch.Tag.nondeterministic_seeded in getattr(op, "tags", ())}
    return {op: how for op, how in found.items() if op not in TABLE and op not in random}
