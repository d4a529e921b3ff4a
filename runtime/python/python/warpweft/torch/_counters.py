"""What the backend did: graphs that were compiled, and ops that PyTorch ran instead."""

from __future__ import annotations

import logging
from typing import Any

_state: dict[str, Any] = {"graphs": 0, "fallback_ops": {}}
_told: set[str] = set()
# Its lines go to stderr unless a program says otherwise.
_LOGGER = logging.getLogger("warpweft.torch")


def counters(reset: bool = False) -> dict[str, Any]:
    """How many functions were compiled (`graphs`), and how often each op was left to PyTorch (`fallback_ops`); begins anew with `reset`."""
    found = {"graphs": _state["graphs"], "fallback_ops": dict(_state["fallback_ops"])}
    if reset:
        _state["graphs"] = 0
        _state["fallback_ops"] = {}
    return found


def compiled() -> None:
    """Counts a compiled function."""
    _state["graphs"] += 1


def counted(op: str) -> None:
    """Counts an op that PyTorch runs."""
    _state["fallback_ops"][op] = _state["fallback_ops"].get(op, 0) + 1


def fell_back(op: str, why: str) -> None:
    """Counts an op that PyTorch runs, and tells of it once."""
    counted(op)
    if op not in _told:
        _told.add(op)
        _LOGGER.warning("%s is run by PyTorch: %s", op, why)


def fixed(why: Exception) -> None:
    """Tells, to who listens to details, why lengths are no variables."""
    _LOGGER.info("lengths are those of the call: %s", why)
