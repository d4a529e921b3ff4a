"""Builders of ops by kind; `load` enters all of them into the table."""

from __future__ import annotations


def load() -> None:
    """Enters all ops into the table, once."""
    from warpweft.torch._ops import create, elementwise, indexing, layers, linalg, matrices, reductions, special, spectral, views  # noqa: F401
    from warpweft.torch._ops import fourier  # noqa: F401, I001  what others entered, it widens
