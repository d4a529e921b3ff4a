"""What PyTorch decides by the name of the device is decided as for the CPU, which ours is.

`linear_cross_entropy` by chunks computes half floats in float32 on the devices that its options know, and in half floats on all others, with errors some hundred times
as large. Tests: tests/test_device.py compares it with float64.
"""

from __future__ import annotations

import functools
from typing import Any

import torch


def _as_host(value: Any) -> Any:
    """An argument, with the host in place of the device."""
    return torch.device("cpu") if isinstance(value, torch.device) and value.type == "warpweft" else value


def register() -> None:
    """Replaces how the options of `linear_cross_entropy` find what they leave open; another PyTorch may have none."""
    try:
        from torch.nn.modules.linear_cross_entropy_options import LinearCrossEntropyOptions
    except ImportError:
        return
    cls: Any = LinearCrossEntropyOptions
    theirs = cls._adjust

    @functools.wraps(theirs)
    def _adjust(*args: Any, **kwargs: Any) -> Any:
        return theirs(*map(_as_host, args), **{name: _as_host(value) for name, value in kwargs.items()})

    cls._adjust = _adjust
