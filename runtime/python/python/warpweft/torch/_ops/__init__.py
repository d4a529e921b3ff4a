"""Builders of ops by kind; `load` enters all of them into the table."""

from __future__ import annotations


def load() -> None:
    """Enters all ops into the table, once."""
    from warpweft.torch._ops import (  # noqa: F401
        create,
        elementwise,
        fourier,  # noqa: F401, I001  what others entered, it widens
        indexing,
        layers,
        linalg,
        matrices,
        reductions,
        special,
        spectral,
        views,
    )
