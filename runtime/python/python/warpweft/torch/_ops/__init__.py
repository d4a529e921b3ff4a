"""Builders of ops by kind; `load` enters all of them into the table."""

from __future__ import annotations

from importlib import import_module

# In this order: the last two widen what the others entered.
_KINDS = "create elementwise indexing layers linalg matrices reductions sampling special spectral views images fourier complex".split()


def load() -> None:
    """Enters all ops into the table, once."""
    for kind in _KINDS:
        import_module(f"warpweft.torch._ops.{kind}")
